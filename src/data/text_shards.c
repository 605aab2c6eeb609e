// SPDX-License-Identifier: Apache-2.0
#include "data/text_shards.h"

#include "core/memory.h"
#include "core/rng.h"
#include "data/sentences.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STREAM_TRAINING = 11, STREAM_TEST, STREAM_FRACTION };

// --- where an article goes
// --------------------------------------------------------------------------

// How many of the first `articles` are for testing: a fixed share of them, begun at a random place.
static uint64_t tests_among(const struct shard_plan *plan, uint64_t articles) {
    uint64_t index = 0;
    double begin = (double)rng_draw(plan->seed, STREAM_FRACTION, &index) * 0x1p-32;
    return plan->test == 0 ? 0 : (uint64_t)floor((double)articles * plan->test_fraction + begin);
}

// Each block of as many articles as there are shards fills every shard once, in an order of its
// own: a permutation of [0, count) walked by a step that has no factor in common with count.
static uint32_t shard_of(const struct shard_plan *plan, uint32_t stream, uint64_t number,
                         uint32_t count) {
    uint64_t index = number / count * 64;
    uint32_t begin = rng_below(plan->seed, stream, &index, count);
    uint32_t step = count > 1 ? 1 + rng_below(plan->seed, stream, &index, count - 1) : 1;
    uint32_t a = step, b = count;
    while (b != 0) { // the greatest common factor
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    step = a == 1 ? step : 1;
    return (uint32_t)((begin + number % count * step) % count);
}

struct shard_place shard_place_of(const struct shard_plan *plan, uint64_t article) {
    uint64_t tests = tests_among(plan, article);
    struct shard_place place = {.is_test = tests_among(plan, article + 1) > tests};
    place.shard = place.is_test ? shard_of(plan, STREAM_TEST, tests, plan->test)
                                : shard_of(plan, STREAM_TRAINING, article - tests, plan->training);
    return place;
}

enum berth_status shard_plan_fit(struct shard_plan *plan, uint64_t articles, int *changed,
                                 struct berth_error *error) {
    if (plan->training < 1 || plan->training > SHARDS_LIMIT || plan->test > SHARDS_LIMIT ||
        !(plan->test_fraction >= 0 && plan->test_fraction < 1) || articles == 0) {
        return error_set(error, BERTH_CONFIG,
                         "%" PRIu64 " articles in %u training and %u test shards with a test "
                         "fraction of %g: expected 1 to %d and 0 to %d shards, a fraction of 0 to "
                         "below 1, and an article at least",
                         articles, plan->training, plan->test, plan->test_fraction, SHARDS_LIMIT,
                         SHARDS_LIMIT);
    }
    uint64_t tests = tests_among(plan, articles), rest = articles - tests;
    struct shard_plan before = *plan;
    plan->test = tests < 2 * (uint64_t)plan->test ? (uint32_t)((tests + 1) / 2) : plan->test;
    rest = plan->test == 0 ? articles : rest;
    plan->training = rest < 2 * (uint64_t)plan->training ? (uint32_t)(rest / 2) : plan->training;
    plan->training = plan->training > 0 ? plan->training : 1;
    *changed = plan->test != before.test || plan->training != before.training;
    return BERTH_OK;
}

// --- files
// ------------------------------------------------------------------------------------------

char *shard_file_name(const struct shard_plan *plan, size_t i, const char *name) {
    size_t training = plan->training, room = strlen(name) + 48;
    char *text = memory_new(room);
    if (text != NULL) {
        snprintf(text, room, "%s_%s_%zu.txt", name, i < training ? "training" : "test",
                 i < training ? i : i - training);
    }
    return text;
}

static enum berth_status open_file(struct shard_writer *writer, size_t i,
                                   struct berth_error *error) {
    const struct shard_target *target = &writer->target;
    char *name = shard_file_name(&writer->plan, target->first + i, target->name);
    char *path = name != NULL ? path_join(target->folder, name) : NULL;
    enum berth_status status =
        path != NULL ? file_writer_open(&writer->files[i], path, error) : file_no_path(error);
    memory_free(path);
    memory_free(name);
    return status;
}

enum berth_status shard_writer_open(struct shard_writer *writer, const struct shard_plan *plan,
                                    const struct shard_target *target, struct berth_error *error) {
    size_t count = target->count;
    *writer = (struct shard_writer){.plan = *plan, .target = *target};
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

enum berth_status shard_writer_put(struct shard_writer *writer, const char *text, size_t length,
                                   struct berth_error *error) {
    struct shard_place place = shard_place_of(&writer->plan, writer->articles++);
    size_t i = shard_number(&writer->plan, place) - writer->target.first; // wraps below first
    if (i >= writer->target.count) {
        return BERTH_OK;
    }
    struct file_writer *file = &writer->files[i];
    struct shard_counts *counts = &writer->counts[i];
    struct sentences sentences = {text, length, 0};
    const char *begin;
    size_t bytes, count = 0;
    for (; sentences_next(&sentences, &begin, &bytes); count++) {
        file_writer_put(file, begin, bytes, NULL);
        file_writer_put(file, "\n", 1, NULL);
        counts->bytes += bytes + 1;
    }
    counts->sentences += count;
    counts->articles++;
    counts->bytes += count > 0;
    return file_writer_put(file, "\n", count > 0, error); // also says what failed before
}

static void forget_files(struct shard_writer *writer) {
    memory_free(writer->files);
    writer->files = NULL;
}

enum berth_status shard_writer_commit(struct shard_writer *writer, struct berth_error *error) {
    for (size_t i = 0; i < writer->target.count; i++) {
        enum berth_status status = file_writer_commit(&writer->files[i], error);
        if (status != BERTH_OK) {
            shard_writer_abort(writer);
            return status;
        }
    }
    forget_files(writer);
    return BERTH_OK;
}

void shard_writer_abort(struct shard_writer *writer) {
    for (size_t i = 0; writer->files != NULL && i < writer->target.count; i++) {
        file_writer_abort(&writer->files[i]);
    }
    forget_files(writer);
}

void shard_writer_done(struct shard_writer *writer) {
    memory_free(writer->counts);
    writer->counts = NULL;
}
