// SPDX-License-Identifier: Apache-2.0
// Writes articles to the text files of shards, sentence by sentence, and gives a file its name when
// it is complete. The shard stage opens a writer for each group of its shards
// (data/stages/shard_stage.c); which shard an article belongs to was decided before
// (shard_assignment.h).
#include "data/corpus/text_shards.h"

#include "core/memory.h"
#include "data/corpus/sentences.h"

#include <inttypes.h>

// --- files --------------------------------------------------------------------------------------

struct path shard_file_name(const struct shard_plan *plan, size_t i, const char *name) {
    const size_t training = plan->training;
    return path_format("%s_%s_%zu.txt", name, i < training ? "training" : "test",
                       i < training ? i : i - training);
}

static enum berth_status open_file(struct shard_writer *writer, size_t i,
                                   struct berth_error *error) {
    const struct shard_target *target = &writer->target;
    const struct path name = shard_file_name(&writer->plan, target->first + i, target->name);
    return file_writer_open_in(&writer->files[i], target->folder, name.text, error);
}

enum berth_status shard_writer_open(struct shard_writer *writer, const struct shard_plan *plan,
                                    const struct shard_assignment *assignment,
                                    const struct shard_target *target, struct berth_error *error) {
    size_t count = target->count;
    *writer = (struct shard_writer){.plan = *plan, .assignment = assignment, .target = *target};
    TRY(dir_make(target->folder, error));
    writer->files = memory_array_zeroed(count, sizeof *writer->files);
    writer->counts = memory_array_zeroed(count, sizeof *writer->counts);
    for (size_t i = 0; writer->files != NULL && i < count; i++) {
        writer->files[i].descriptor = -1;
    }
    enum berth_status status = BERTH_OK;
    if (writer->files == NULL || writer->counts == NULL) {
        status = error_no_memory(error, count * sizeof *writer->files, target->folder);
    }
    for (size_t i = 0; i < count && status == BERTH_OK; i++) {
        status = open_file(writer, i, error);
    }
    if (status != BERTH_OK) {
        shard_writer_abort(writer);
        shard_writer_done(writer);
    }
    return status;
}

static enum berth_status error_changed(const struct shard_writer *writer, const char *than,
                                       struct berth_error *error) {
    return error_set(error, BERTH_BAD_DATA,
                     "%s: the corpora have %s than the %" PRIu64
                     " articles counted before; they must not change during the run",
                     writer->target.folder, than, writer->assignment->count);
}

enum berth_status shard_writer_put(struct shard_writer *writer, const char *text, size_t length,
                                   struct berth_error *error) {
    if (writer->articles == writer->assignment->count) {
        return error_changed(writer, "more", error);
    }
    uint16_t shard = writer->assignment->shards[writer->articles++];
    size_t i = (size_t)shard - writer->target.first; // wraps below first
    if (shard == SHARD_UNASSIGNED || i >= writer->target.count) {
        return BERTH_OK;
    }
    struct file_writer *file = &writer->files[i];
    struct shard_counts *counts = &writer->counts[i];
    struct sentences sentences = {.text = text, .length = length};
    const char *begin;
    size_t bytes, count = 0;
    for (; sentences_next(&sentences, &begin, &bytes); count++) {
        (void)file_writer_put(file, begin, bytes, NULL);
        (void)file_writer_put(file, "\n", 1, NULL);
        counts->bytes += bytes + 1;
    }
    counts->sentences += count;
    counts->articles++;
    counts->bytes += count > 0;
    return file_writer_put(file, "\n", count > 0, error); // also reports earlier failures
}

enum berth_status shard_writer_commit(struct shard_writer *writer, struct berth_error *error) {
    enum berth_status status = writer->articles == writer->assignment->count
                                   ? BERTH_OK
                                   : error_changed(writer, "fewer", error);
    for (size_t i = 0; i < writer->target.count && status == BERTH_OK; i++) {
        status = file_writer_commit(&writer->files[i], error);
    }
    shard_writer_abort(writer);
    return status;
}

void shard_writer_abort(struct shard_writer *writer) {
    for (size_t i = 0; writer->files != NULL && i < writer->target.count; i++) {
        file_writer_abort(&writer->files[i]);
    }
    memory_free(writer->files);
    writer->files = NULL;
}

void shard_writer_done(struct shard_writer *writer) {
    memory_free(writer->counts);
    writer->counts = NULL;
}
