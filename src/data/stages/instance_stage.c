// SPDX-License-Identifier: Apache-2.0
// Makes files of pre-training instances from text shards: reads a shard as documents, draws
// instances, writes them as HDF5 or TFRecord, and enters the file in the manifest. `berth prepare`
// runs it after the shard stage; shards that a manifest lists as finished are kept. Drawing is left
// to data/pretraining/instances.h.
#include "data/stages/instance_stage.h"

#include "core/buffer.h"
#include "core/compressed.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "data/pretraining/documents.h"
#include "data/pretraining/pretraining_file.h"
#include "data/stages/shard_stage.h"
#include "data/stages/stage_work.h"
#include "format/checksum/digest.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#define SHARD_BYTES_MAX ((size_t)4 << 30)
enum { TEXT_FRACTION = 4 }; // 1/4 of the progress is tokens and instances, the rest the file

struct instance_run {
    struct instance_stage *request;
    struct stage stage;
    struct stage_work work;
    const char **names; // of the shards to make, borrowed from `shards`
    size_t count;
    json *shards; // their manifest
};

// --- the vocabulary -----------------------------------------------------------------------------

enum berth_status instance_stage_check(const struct instance_stage *stage,
                                       struct berth_error *error) {
    struct tokenizer_special special = tokenizer_special_ids(stage->tokenizer);
    struct instance_options options = stage->options;
    if (special.cls < 0 || special.sep < 0 || special.mask < 0) {
        return error_set(error, BERTH_BAD_DATA,
                         "the vocabulary has no %s, which pre-training needs",
                         special.cls < 0   ? "[CLS]"
                         : special.sep < 0 ? "[SEP]"
                                           : "[MASK]");
    }
    options.vocab_size = (int32_t)tokenizer_size(stage->tokenizer);
    return instance_options_check(&options, error);
}

static enum berth_status set_vocabulary(struct instance_run *run, struct berth_error *error) {
    struct instance_stage *request = run->request;
    struct tokenizer_special special = tokenizer_special_ids(request->tokenizer);
    size_t size = tokenizer_size(request->tokenizer);
    TRY(instance_stage_check(request, error));
    request->options.cls = special.cls;
    request->options.sep = special.sep;
    request->options.mask = special.mask;
    request->options.vocab_size = (int32_t)size;
    return BERTH_OK;
}

// --- a shard ------------------------------------------------------------------------------------

// Google's rules accept any bytes and drop those that are no text.
static enum berth_status check_text(const struct instance_stage *request, const char *path,
                                    const char *text, size_t length, struct berth_error *error) {
    TRY(compressed_refuse(path, text, length, error));
    return tokenizer_rules_of(request->tokenizer)->rules == TOKENIZER_GOOGLE
               ? BERTH_OK
               : corpus_check_text(path, 0, text, length, error);
}

static enum berth_status read_text(const struct instance_stage *request, const char *path,
                                   struct documents *documents, struct berth_error *error) {
    char *text;
    size_t length;
    TRY(file_read(path, SHARD_BYTES_MAX, &text, &length, error));
    enum berth_status status = check_text(request, path, text, length, error);
    if (status == BERTH_OK) {
        status = documents_add_text(documents, request->tokenizer, text, length, error);
    }
    memory_free(text);
    return status;
}

struct shard {
    const char *name; // of the text
    struct instances instances;
    struct instance_texts texts;
};

static enum berth_status make_instances(struct instance_run *run, struct shard *shard,
                                        struct berth_error *error) {
    struct documents documents = {0};
    struct instance_options options = run->request->options;
    options.stop = stage_stop_flag(&run->work);
    enum berth_status status =
        read_text(run->request, path_in(run->request->shards, shard->name).text, &documents, error);
    if (status == BERTH_OK) {
        status = instances_make(&documents, &options, &shard->instances, error);
    }
    shard->texts = instance_texts_of(&documents, &shard->instances);
    documents_done(&documents);
    return status;
}

// The name of the shard's instance file.
static struct path file_name(const struct instance_run *run, const char *shard) {
    const int stem = (int)(strlen(shard) - strlen(".txt"));
    return path_format("%.*s%s", stem, shard, run->request->tfrecord ? ".tfrecord" : ".hdf5");
}

static enum berth_status write_file(const struct instance_run *run, const char *name,
                                    const struct instances *instances, int64_t *bytes,
                                    struct berth_error *error) {
    const struct instance_options *options = &run->request->options;
    struct file_reader file;
    const struct path path = path_in(run->request->folder, name);
    TRY((run->request->tfrecord ? pretraining_write_tfrecord : pretraining_write_hdf5)(
        path.text, instances, options->max_length, options->max_predictions, error));
    TRY(file_reader_open(&file, path.text, error));
    *bytes = (int64_t)file.size;
    file_reader_close(&file);
    return BERTH_OK;
}

static enum berth_status add_entry(struct instance_run *run, const char *name,
                                   const struct shard *shard, int64_t bytes,
                                   struct berth_error *error) {
    struct pretraining_statistics *statistics = memory_array_zeroed(1, sizeof *statistics);
    json *entry = NULL;
    if (statistics != NULL) {
        pretraining_statistics_add(statistics, &shard->instances);
        entry = pretraining_statistics_to_json(statistics, run->request->options.max_length);
    }
    memory_free(statistics);
    json *size = bytes < 0 ? json_new_real(NAN) : json_new_integer(bytes); // null: no file
    const int failed = json_set(entry, "bytes", size) |
                       json_set(entry, "text", instance_texts_to_json(&shard->texts));
    if (failed != 0) {
        json_free(entry);
        return error_no_memory(error, 0, "a manifest");
    }
    TRY(stage_put(&run->stage, name, entry, error));
    return stage_save_some(&run->stage, error);
}

static enum berth_status finish_shard(struct instance_run *run, const struct shard *shard,
                                      struct berth_error *error) {
    const struct path name = file_name(run, shard->name);
    int64_t bytes = -1;
    if (shard->instances.count > 0) {
        TRY(write_file(run, name.text, &shard->instances, &bytes, error));
    }
    return add_entry(run, name.text, shard, bytes, error);
}

static int64_t bytes_of(const struct instance_run *run, const char *shard) {
    return json_as_integer(
        json_member(json_member(json_member(run->shards, "files"), shard), "bytes"));
}

static enum berth_status make_shard(void *context, size_t item, struct berth_error *error) {
    struct instance_run *run = context;
    struct shard shard = {.name = run->names[item]};
    int64_t bytes = bytes_of(run, shard.name), first = bytes / TEXT_FRACTION;
    enum berth_status status = make_instances(run, &shard, error);
    if (status == BERTH_INTERRUPTED && stage_should_stop(&run->work)) {
        status = stage_outcome(&run->work, error);
    }
    if (status == BERTH_OK) {
        stage_advance(&run->work, first);
        status = stage_should_stop(&run->work) ? stage_outcome(&run->work, error)
                                               : finish_shard(run, &shard, error);
    }
    if (status == BERTH_OK) {
        stage_advance(&run->work, bytes - first);
    }
    instances_done(&shard.instances);
    return status;
}

// --- the whole stage -----------------------------------------------------------------------------

static enum berth_status find_missing(struct instance_run *run, struct berth_error *error) {
    struct json_walk walk = {.object = json_member(run->shards, "files")};
    size_t count = json_length(walk.object);
    run->names = memory_array(count + 1, sizeof *run->names);
    if (run->names == NULL) {
        return error_no_memory(error, count * sizeof *run->names, "the list of shards");
    }
    while (json_walk_next(&walk)) {
        size_t length = strlen(walk.key);
        if (length < 5 || strcmp(walk.key + length - 4, ".txt") != 0 ||
            strchr(walk.key, '/') != NULL) {
            return error_set(error, BERTH_CONFIG,
                             "%s/%s: expected the name of a shard, found \"%s\"",
                             run->request->shards, SHARD_MANIFEST, walk.key);
        }
        if (stage_find(&run->stage, file_name(run, walk.key).text) == NULL) {
            run->names[run->count++] = walk.key;
            run->request->text_bytes += bytes_of(run, walk.key);
        }
    }
    run->work.total = run->request->text_bytes;
    return BERTH_OK;
}

static enum berth_status sum_up(struct instance_run *run, struct berth_error *error) {
    struct instance_stage *request = run->request;
    struct json_walk walk = {.object = run->stage.files};
    *request->statistics = (struct pretraining_statistics){0};
    while (json_walk_next(&walk)) {
        pretraining_statistics_add_json(request->statistics, walk.value);
        instance_texts_add(&request->texts, walk.key, json_member(walk.value, "text"));
        int is_empty = json_is_null_value(json_member(walk.value, "bytes"));
        request->empty += is_empty;
        request->files += !is_empty;
    }
    return pretraining_statistics_write(request->statistics, request->options.max_length,
                                        path_in(request->folder, "statistics.json").text, error);
}

static int is_text(const char *name) {
    return name_has_suffix(name, ".txt");
}

// Adds the entry of another program's shard, and its line of the digest. Such shards have no
// manifest that would show a change, so the digest covers their whole content.
static enum berth_status describe_shard(struct instance_run *run, json *files, const char *name,
                                        struct buffer *lines, struct berth_error *error) {
    char digest[DIGEST_HEX_SIZE];
    uint64_t size = 0;
    TRY(digest_measure(path_in(run->request->shards, name).text, &size, digest, error));
    buffer_put_text(lines, name);
    buffer_put_byte(lines, ' ');
    buffer_put_text(lines, digest);
    buffer_put_byte(lines, '\n');
    json *entry = json_new_object();
    const int failed =
        json_set(entry, "bytes", json_new_integer((int64_t)size)) | json_set(files, name, entry);
    return failed == 0 ? BERTH_OK : error_no_memory(error, 0, "a list of shards");
}

// Lists another program's shards in the form of a manifest.
static enum berth_status list_shards(struct instance_run *run, char text[DIGEST_HEX_SIZE],
                                     struct berth_error *error) {
    char **names;
    struct buffer lines = {0};
    TRY(dir_list(run->request->shards, &names, error));
    json *files = json_new_object();
    run->shards = json_new_object();
    int failed = json_set(run->shards, "files", files);
    enum berth_status status = BERTH_OK;
    for (size_t i = 0; names[i] != NULL && failed == 0 && status == BERTH_OK; i++) {
        status = is_text(names[i]) ? describe_shard(run, files, names[i], &lines, error) : BERTH_OK;
    }
    if (status == BERTH_OK) {
        status = failed == 0 && !lines.failed
                     ? digest_memory(DIGEST_SHA256, lines.bytes, lines.length, text, error)
                     : error_no_memory(error, 0, "a list of shards");
    }
    buffer_done(&lines);
    memory_free(names);
    return status;
}

// Whether the folder has shards and no manifest.
static int has_only_shards(const char *folder, const char *manifest) {
    char **names;
    int found = 0;
    if (file_exists(manifest) || !dir_exists(folder) ||
        dir_list(folder, &names, NULL) != BERTH_OK) {
        return 0;
    }
    for (size_t i = 0; names[i] != NULL; i++) {
        found |= is_text(names[i]);
    }
    memory_free(names);
    return found;
}

// Prepares the work of the stage; each rank does this by itself.
static enum berth_status prepare(struct instance_run *run, struct manifest_settings *settings,
                                 struct berth_error *error) {
    TRY(set_vocabulary(run, error));
    char digest[DIGEST_HEX_SIZE];
    const struct path path = path_in(run->request->shards, SHARD_MANIFEST);
    if (has_only_shards(run->request->shards, path.text)) {
        TRY(list_shards(run, digest, error));
    } else {
        TRY(manifest_read_complete(path.text, "run the stage \"shards\" first, to its end",
                                   &run->shards, error));
        TRY(digest_file(DIGEST_SHA256, path.text, digest, error));
    }
    manifest_set_text(settings, "shards_sha256", digest);
    manifest_set_integer(settings, SHARD_COUNT, json_length(json_member(run->shards, "files")));
    const struct instance_options *options = &run->request->options;
    manifest_set_integer(settings, "max_seq_length", (uint64_t)options->max_length);
    manifest_set_integer(settings, "max_predictions_per_seq", (uint64_t)options->max_predictions);
    manifest_set_integer(settings, "dupe_factor", (uint64_t)options->dupe_factor);
    manifest_set_real(settings, "masked_lm_prob", options->masked_lm_prob);
    manifest_set_real(settings, "short_seq_prob", options->short_seq_prob);
    manifest_set_integer(settings, "seed", options->seed);
    // Instances of 0.1.0 say "fast": each of their shards was drawn with the same random numbers,
    // so they are not continued.
    manifest_set_text(settings, "rng", options->python ? "python" : "fast-2");
    manifest_set_text(settings, "whole_word_mask", options->whole_word ? "true" : "false");
    manifest_set_text(settings, "format", run->request->tfrecord ? "tfrecord" : "hdf5");
    return BERTH_OK;
}

static enum berth_status make_all_instances(struct instance_run *run,
                                            struct manifest_settings *settings,
                                            struct berth_error *error) {
    struct comm *comm = run->request->comm;
    const struct path manifest = path_in(run->request->folder, INSTANCE_MANIFEST);
    const struct stage_location location = {run->request->folder, manifest.text, comm};
    TRY(stage_settle_input(comm, prepare(run, settings, error), error));
    TRY(stage_open(&run->stage, &location, settings, error));
    if (!run->stage.complete) {
        TRY(comm_settle(run->request->comm, find_missing(run, error), error));
        const struct stage_items items = {.count = run->count,
                                          .threads = run->request->threads,
                                          .make = make_shard,
                                          .context = run};
        TRY(stage_make(&run->work, &items, error));
        TRY(stage_finish(&run->stage, error));
    }
    return comm_settle(comm, comm->rank == 0 ? sum_up(run, error) : BERTH_OK, error);
}

enum berth_status instance_stage_run(struct instance_stage *stage, const struct berth_log *log,
                                     const atomic_int *stop, struct berth_error *error) {
    struct instance_run run = {.request = stage, .stage.lock.descriptor = -1};
    struct manifest_settings settings = stage->settings;
    run.work = (struct stage_work){.reporting = PTHREAD_MUTEX_INITIALIZER,
                                   .log = log,
                                   .stop = stop,
                                   .comm = stage->comm,
                                   .phase = "instances",
                                   .in_bytes = 1};
    stage->text_bytes = stage->files = stage->empty = 0;
    stage->texts = (struct instance_texts){0};
    enum berth_status status = make_all_instances(&run, &settings, error);
    stage_close(&run.stage);
    json_free(run.shards);
    memory_free(run.names);
    return status;
}

// --- files of texts -----------------------------------------------------------------------------

static enum berth_status read_input(const struct instance_stage *request, const char *path,
                                    char **outputs, struct documents *documents,
                                    struct berth_error *error) {
    for (size_t i = 0; outputs[i] != NULL; i++) {
        TRY(file_check_output(outputs[i], path, error));
    }
    return read_text(request, path, documents, error);
}

static enum berth_status read_folder(const struct instance_stage *request, const char *folder,
                                     char **outputs, struct documents *documents,
                                     struct berth_error *error) {
    char **names;
    enum berth_status status = BERTH_OK;
    TRY(dir_list(folder, &names, error));
    for (size_t i = 0; names[i] != NULL && status == BERTH_OK; i++) {
        if (is_text(names[i])) {
            status = read_input(request, path_in(folder, names[i]).text, outputs, documents, error);
        }
    }
    memory_free(names);
    return status;
}

static enum berth_status read_texts(const struct instance_stage *request, const char *texts,
                                    char **outputs, struct documents *documents,
                                    struct berth_error *error) {
    char **paths;
    TRY(path_expand(texts, &paths, error));
    enum berth_status status =
        paths[0] != NULL
            ? BERTH_OK
            : error_set(error, BERTH_NO_INPUT, "%s: no file matches this pattern", texts);
    for (size_t i = 0; paths[i] != NULL && status == BERTH_OK; i++) {
        status = (dir_exists(paths[i]) ? read_folder : read_input)(request, paths[i], outputs,
                                                                   documents, error);
    }
    memory_free(paths);
    return status;
}

static enum berth_status write_outputs(const struct instance_stage *stage,
                                       const struct instances *instances, char **outputs,
                                       struct berth_error *error) {
    size_t files = 0;
    while (outputs[files] != NULL) {
        files++;
    }
    if (instances->count < files) {
        return error_set(error, BERTH_BAD_DATA,
                         "%zu files for %zu instances: name at most as many files as instances",
                         files, instances->count);
    }
    for (size_t i = 0; i < files; i++) {
        // Writes one of `files` files with every `files`-th instance from `first` on, as the
        // original program distributes them.
        const size_t room = instances->count / files + 1;
        struct instances dealt = *instances; // borrows its arrays
        dealt.items = memory_array(room, sizeof *dealt.items);
        dealt.count = 0;
        if (dealt.items == NULL) {
            return error_no_memory(error, room * sizeof *dealt.items, "the instances of a file");
        }
        for (size_t k = i; k < instances->count; k += files) {
            dealt.items[dealt.count++] = instances->items[k];
        }
        const int is_named = name_has_extension(outputs[i], ".tfrecord") ||
                             name_has_extension(outputs[i], ".tf_record");
        enum berth_status status = (stage->tfrecord || (stage->follows_name && is_named)
                                        ? pretraining_write_tfrecord
                                        : pretraining_write_hdf5)(
            outputs[i], &dealt, stage->options.max_length, stage->options.max_predictions, error);
        memory_free(dealt.items);
        TRY(status);
    }
    return BERTH_OK;
}

enum berth_status instance_stage_make_files(struct instance_stage *stage, const char *texts,
                                            char **outputs, struct berth_error *error) {
    struct instance_run run = {.request = stage};
    struct documents documents = {0};
    struct instances instances = {0};
    enum berth_status status;
    TRY_DONE(set_vocabulary(&run, error));
    TRY_DONE(read_texts(stage, texts, outputs, &documents, error));
    TRY_DONE(instances_make(&documents, &stage->options, &instances, error));
    if (instances.count == 0) {
        status = error_set(error, BERTH_BAD_DATA,
                           "%s: no instances can be made; expected text with one sentence per line "
                           "and an empty line after each document",
                           texts);
        goto done;
    }
    pretraining_statistics_add(stage->statistics, &instances);
    stage->texts = instance_texts_of(&documents, &instances);
    instance_texts_name(&stage->texts, outputs[0]);
    TRY_DONE(write_outputs(stage, &instances, outputs, error));
done:
    instances_done(&instances);
    documents_done(&documents);
    return status;
}
