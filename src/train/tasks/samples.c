// SPDX-License-Identifier: Apache-2.0
// Chooses a few examples of an evaluation to show, the worst errors first, and logs each with the
// text around its answer, cut to a readable length. The tasks give the scores and texts; the report
// page shows the records.
#include "train/tasks/samples.h"

#include "core/memory.h"
#include "core/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WORST_COUNT 20
#define RIGHT_COUNT 5
#define CONTEXT_LIMIT 1200 // characters
#define CONTEXT_AROUND 300 // characters on each side of an answer

static int compare(const void *a, const void *b) {
    const struct sample_rank *left = a, *right = b;
    if (left->badness != right->badness) {
        return left->badness > right->badness ? -1 : 1;
    }
    return left->example < right->example ? -1 : left->example > right->example;
}

size_t samples_choose(struct sample_rank *ranks, size_t count) {
    size_t wrong = 0;
    qsort(ranks, count, sizeof *ranks, compare);
    while (wrong < count && wrong < WORST_COUNT && ranks[wrong].badness > 0) {
        wrong++;
    }
    size_t right = wrong; // the first right one
    while (right < count && ranks[right].badness > 0) {
        right++;
    }
    const size_t shown = count - right < RIGHT_COUNT ? count - right : RIGHT_COUNT;
    memmove(ranks + wrong, ranks + right, shown * sizeof *ranks);
    return wrong + shown;
}

// --- the context ---------------------------------------------------------------------------------

struct range {
    int64_t begin, end; // characters
};

static struct range part_to_show(const struct sample *sample, int64_t length) {
    const int has_prediction = sample->predicted_begin >= 0;
    const int64_t first = has_prediction && (sample->expected_begin < 0 ||
                                             sample->predicted_begin < sample->expected_begin)
                              ? sample->predicted_begin
                              : sample->expected_begin;
    const int64_t last =
        sample->predicted_end > sample->expected_end ? sample->predicted_end : sample->expected_end;
    struct range part = {first - CONTEXT_AROUND, last + CONTEXT_AROUND};
    if (length <= CONTEXT_LIMIT) {
        return (struct range){0, length};
    }
    if (part.end - part.begin > CONTEXT_LIMIT) { // too far apart: only the prediction
        const int64_t middle = has_prediction ? sample->predicted_begin : sample->expected_begin;
        part = (struct range){middle - CONTEXT_AROUND, middle + CONTEXT_LIMIT - CONTEXT_AROUND};
    }
    part.begin = part.begin > 0 ? part.begin : 0;
    part.end = part.end < length ? part.end : length;
    return part;
}

static void add_span(struct log_record *record, const char *const keys[2], struct range span,
                     const struct range *part) {
    if (span.begin >= part->begin && span.end <= part->end && span.begin < span.end) {
        LOG_ADD(record, log_integer(keys[0], span.begin - part->begin),
                log_integer(keys[1], span.end - part->begin));
    }
}

// Returns a newly allocated copy of this range of the context; NULL when out of memory.
static char *cut(const char *context, const struct range *part) {
    const size_t length = strlen(context);
    const size_t begin = utf8_skip(context, length, part->begin);
    const size_t end = utf8_skip(context, length, part->end);
    return begin <= end && end <= length ? memory_string_of(context + begin, end - begin) : NULL;
}

void samples_log(const struct berth_log *log, int64_t step, const struct sample *sample) {
    static const char *const predicted[] = {"predicted_begin", "predicted_end"},
                             *const expected[] = {"expected_begin", "expected_end"};
    struct log_record record = {0};
    LOG_ADD(&record, log_integer("step", step), log_text("question", sample->question),
            log_text("predicted", sample->predicted), log_text("expected", sample->expected),
            log_real("score", sample->score), log_real("probability", sample->probability));
    char *shown = NULL;
    if (sample->context != NULL) {
        const struct range part =
            part_to_show(sample, utf8_count(sample->context, strlen(sample->context)));
        const struct range found = {sample->predicted_begin, sample->predicted_end},
                           wanted = {sample->expected_begin, sample->expected_end};
        shown = cut(sample->context, &part);
        LOG_ADD(&record, log_text("context", shown));
        add_span(&record, predicted, found, &part);
        add_span(&record, expected, wanted, &part);
    }
    log_record(log, BERTH_DETAIL, "sample", &record);
    memory_free(shown);
}
