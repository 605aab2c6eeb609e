// SPDX-License-Identifier: Apache-2.0
// Checks a row of a pre-training file that somebody else may have written, and cuts it into the
// sequences that it holds. The readers of HDF5 and TFRecord bring a row as columns of numbers here,
// so both refuse the same damage with the same words.
#include "data/pretraining/pretraining_rows.h"

#include "core/number.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

const char *const pretraining_columns[ROW_COLUMNS] = {"input_ids",
                                                      "input_mask",
                                                      "segment_ids",
                                                      "masked_lm_positions",
                                                      "masked_lm_ids",
                                                      "next_sentence_labels",
                                                      "positions",
                                                      "next_sentence_positions",
                                                      "next_sentence_weights"};

enum berth_status pretraining_row_error(const struct pretraining_rows *rows, int column,
                                        struct berth_error *error, const char *format, ...) {
    char problem[256];
    va_list arguments;
    va_start(arguments, format);
    number_format_list(problem, sizeof problem, format, arguments);
    va_end(arguments);
    return error_set(error, BERTH_BAD_DATA, "%s: %s, row %" PRId64 ": %s", rows->path,
                     pretraining_columns[column], rows->row, problem);
}

static const int32_t *row_of(const struct pretraining_rows *rows, int column) {
    return rows->values[column] + rows->in_block * (size_t)rows->widths[column];
}

// A sequence of a row: the tokens [begin, end) and the masked positions [first, last).
struct sequence {
    int32_t begin, end, first, last, is_random;
};

static enum berth_status check_id(const struct pretraining_rows *rows, int column, int32_t id,
                                  struct berth_error *error) {
    return id >= 0 && id < rows->vocab_size
               ? BERTH_OK
               : pretraining_row_error(rows, column, error,
                                       "id outside the vocabulary: found %d, expected 0 to %d", id,
                                       rows->vocab_size - 1);
}

static enum berth_status check_tokens(const struct pretraining_rows *rows,
                                      const struct sequence *sequence, struct berth_error *error) {
    const int32_t *ids = row_of(rows, ROW_IDS), *segments = row_of(rows, ROW_SEGMENTS);
    for (int32_t i = sequence->begin; i < sequence->end; i++) {
        TRY(check_id(rows, ROW_IDS, ids[i], error));
        int32_t before = i > sequence->begin ? segments[i - 1] : 0;
        if (segments[i] < before || segments[i] > 1) {
            return pretraining_row_error(rows, ROW_SEGMENTS, error,
                                         "expected zeros, then ones, found %d after %d",
                                         segments[i], before);
        }
    }
    return BERTH_OK;
}

static enum berth_status check_sequence(const struct pretraining_rows *rows,
                                        const struct sequence *sequence,
                                        struct berth_error *error) {
    const int32_t *positions = row_of(rows, ROW_POSITIONS), *labels = row_of(rows, ROW_LABELS);
    TRY(check_tokens(rows, sequence, error));
    for (int32_t i = sequence->first; i < sequence->last; i++) {
        if (positions[i] <= sequence->begin ||
            positions[i] >= sequence->end) { // [CLS] is never masked
            return pretraining_row_error(
                rows, ROW_POSITIONS, error,
                "position outside its sequence: found %d, expected %d to %d", positions[i],
                sequence->begin + 1, sequence->end - 1);
        }
        if (i > sequence->first && positions[i] <= positions[i - 1]) {
            return pretraining_row_error(rows, ROW_POSITIONS, error,
                                         "expected ascending positions, found %d after %d",
                                         positions[i], positions[i - 1]);
        }
        TRY(check_id(rows, ROW_LABELS, labels[i], error));
    }
    return sequence->is_random == 0 || sequence->is_random == 1
               ? BERTH_OK
               : pretraining_row_error(rows, ROW_NEXT, error, "expected 0 or 1, found %d",
                                       sequence->is_random);
}

static enum berth_status put_sequence(struct pretraining_rows *rows,
                                      const struct sequence *sequence, struct berth_error *error) {
    struct instances *to = rows->to;
    const int32_t *segments = row_of(rows, ROW_SEGMENTS), *positions = row_of(rows, ROW_POSITIONS);
    TRY(check_sequence(rows, sequence, error));
    TRY(instances_reserve(to, (size_t)(sequence->end - sequence->begin),
                          (size_t)(sequence->last - sequence->first), error));
    struct instance *instance = &to->items[to->count++];
    size_t length = (size_t)(sequence->end - sequence->begin);
    *instance = (struct instance){.tokens = to->token_count,
                                  .predictions = to->prediction_count,
                                  .length = (uint16_t)length,
                                  .prediction_count = (uint16_t)(sequence->last - sequence->first),
                                  .is_random = (uint8_t)sequence->is_random};
    while (instance->second < length && segments[sequence->begin + instance->second] == 0) {
        instance->second++;
    }
    memcpy(to->tokens + to->token_count, row_of(rows, ROW_IDS) + sequence->begin, 4 * length);
    to->token_count += length;
    for (int32_t i = sequence->first; i < sequence->last; i++) {
        to->positions[to->prediction_count] = (uint16_t)(positions[i] - sequence->begin);
        to->labels[to->prediction_count++] = row_of(rows, ROW_LABELS)[i];
    }
    return BERTH_OK;
}

// The end of the run of `value` that begins at index `from`.
static int32_t run_end(const int32_t *values, int32_t from, int64_t width, int32_t value) {
    while (from < width && values[from] == value) {
        from++;
    }
    return from;
}

enum berth_status pretraining_put_plain(struct pretraining_rows *rows, struct berth_error *error) {
    const int32_t *positions = row_of(rows, ROW_POSITIONS);
    int64_t width = rows->widths[ROW_IDS];
    struct sequence sequence = {.end = run_end(row_of(rows, ROW_MASK), 0, width, 1),
                                .is_random = *row_of(rows, ROW_NEXT)};
    if (sequence.end == 0 || run_end(row_of(rows, ROW_MASK), sequence.end, width, 0) < width) {
        return pretraining_row_error(rows, ROW_MASK, error, "expected ones, then zeros");
    }
    while (sequence.last < rows->widths[ROW_POSITIONS] && positions[sequence.last] != 0) {
        sequence.last++;
    }
    return put_sequence(rows, &sequence, error);
}

// Each sequence of a row begins where the previous one ends, and so do its masked positions.
enum berth_status pretraining_put_packed(struct pretraining_rows *rows, struct berth_error *error) {
    const int32_t *mask = row_of(rows, ROW_MASK), *positions = row_of(rows, ROW_POSITIONS);
    struct sequence sequence = {0};
    for (int32_t k = 0; k < rows->widths[ROW_NEXT]; k++) {
        if (row_of(rows, ROW_PACK_WEIGHTS)[k] == 0) {
            continue;
        }
        sequence.begin = sequence.end;
        sequence.first = sequence.last;
        sequence.end = run_end(mask, sequence.begin, rows->widths[ROW_IDS], k + 1);
        sequence.is_random = row_of(rows, ROW_NEXT)[k];
        if (sequence.end == sequence.begin ||
            row_of(rows, ROW_NEXT_POSITIONS)[k] != sequence.begin) {
            return pretraining_row_error(rows, ROW_MASK, error,
                                         "sequence %d begins at %d and has %d tokens, but "
                                         "next_sentence_positions says that it begins at %d",
                                         k + 1, sequence.begin, sequence.end - sequence.begin,
                                         row_of(rows, ROW_NEXT_POSITIONS)[k]);
        }
        while (sequence.last < rows->widths[ROW_POSITIONS] && positions[sequence.last] != 0 &&
               positions[sequence.last] < sequence.end) {
            sequence.last++;
        }
        TRY(put_sequence(rows, &sequence, error));
    }
    if (run_end(mask, sequence.end, rows->widths[ROW_IDS], 0) < rows->widths[ROW_IDS]) {
        return pretraining_row_error(rows, ROW_MASK, error,
                                     "expected zeros after the last sequence");
    }
    return sequence.last == rows->widths[ROW_POSITIONS] || positions[sequence.last] == 0
               ? BERTH_OK
               : pretraining_row_error(
                     rows, ROW_POSITIONS, error,
                     "position outside its sequence: found %d, after the end of the last one, %d",
                     positions[sequence.last], sequence.end);
}
