// SPDX-License-Identifier: Apache-2.0
// Masks words. The order of the random draws is part of the result, as in instances.c. instances.c
// calls it for each pair of segments that it has drawn.
#include "data/pretraining/masking.h"

#include "core/memory.h"

#include <math.h>
#include <string.h>

enum berth_status masking_reserve(struct masking *masking, struct berth_error *error) {
    size_t length = (size_t)masking->options->max_length;
    masking->words = memory_array(length, sizeof *masking->words);
    masking->candidates = memory_array(length, sizeof *masking->candidates);
    masking->continues = memory_array(length, 1);
    masking->covered = memory_array(length, 1);
    masking->labels = memory_array(length, sizeof *masking->labels);
    return masking->words != NULL && masking->candidates != NULL && masking->continues != NULL &&
                   masking->covered != NULL && masking->labels != NULL
               ? BERTH_OK
               : error_no_memory(error, 16 * length, "pre-training instances");
}

void masking_done(struct masking *masking) {
    memory_free(masking->words);
    memory_free(masking->candidates);
    memory_free(masking->continues);
    memory_free(masking->covered);
    memory_free(masking->labels);
}

// Finds the words that may be masked: all except [CLS] and [SEP], which may also occur in the text.
static size_t find_words(struct masking *masking, const int32_t *tokens, size_t length) {
    const struct instance_options *options = masking->options;
    size_t count = 0;
    for (size_t i = 0; i < length; i++) {
        if (tokens[i] == options->cls || tokens[i] == options->sep) {
            continue;
        }
        if (options->whole_word && count > 0 && masking->continues[i]) {
            // Pieces after a [SEP] that lost the start of their word to truncation belong to the
            // word before.
            masking->words[count - 1].count = (uint16_t)(i + 1 - masking->words[count - 1].begin);
            continue;
        }
        masking->words[count++] = (struct word){(uint16_t)i, 1};
    }
    return count;
}

static int is_candidate(const struct masking *masking, int32_t token) {
    return token != masking->options->cls && token != masking->options->sep;
}

static int32_t mask_one(struct masking *masking, int32_t token) {
    struct instance_counts *counts = &masking->instances->counts;
    if (draws_real(masking->draws) < 0.8) {
        counts->masked++;
        return masking->options->mask;
    }
    if (draws_real(masking->draws) < 0.5) {
        counts->kept++;
        return token;
    }
    counts->replaced++;
    return (int32_t)draws_below(masking->draws, (uint32_t)masking->options->vocab_size);
}

size_t masking_count(const struct instance_options *options, size_t length) {
    double fraction = rint((double)length * options->masked_lm_prob); // ties to even, as Python
    size_t wanted = fraction < 1 ? 1 : (size_t)fraction, limit = (size_t)options->max_predictions;
    return wanted < limit ? wanted : limit;
}

// The next candidate. With Python's numbers all candidates were shuffled first; otherwise they are
// drawn one at a time.
static struct word next_word(struct masking *masking, size_t i, size_t count) {
    if (!masking->draws->is_python) {
        size_t j = i + draws_below(masking->draws, (uint32_t)(count - i));
        uint32_t number = masking->candidates[j];
        masking->candidates[j] = masking->candidates[i];
        masking->candidates[i] = number;
    }
    return masking->words[masking->candidates[i]];
}

static void choose_words(struct masking *masking, int32_t *tokens, size_t count, size_t wanted) {
    size_t done = 0;
    for (size_t i = 0; i < count; i++) {
        masking->candidates[i] = (uint32_t)i;
    }
    if (masking->draws->is_python) {
        draws_shuffle(masking->draws, masking->candidates, count);
    }
    for (size_t i = 0; i < count && done < wanted; i++) {
        struct word word = next_word(masking, i, count);
        size_t pieces = 0;
        for (size_t j = word.begin; j < (size_t)word.begin + word.count; j++) {
            pieces += (size_t)is_candidate(masking, tokens[j]);
        }
        if (done + pieces <= wanted) {
            for (size_t k = word.begin; k < (size_t)word.begin + word.count; k++) {
                if (!masking->covered[k] && is_candidate(masking, tokens[k])) {
                    masking->labels[k] = tokens[k];
                    masking->covered[k] = 1;
                }
            }
            for (size_t k = word.begin; k < (size_t)word.begin + word.count; k++) {
                if (masking->covered[k]) {
                    tokens[k] = mask_one(masking, masking->labels[k]);
                }
            }
            done += pieces;
        }
    }
}

void masking_apply(struct masking *masking, struct instance *instance) {
    struct instances *to = masking->instances;
    int32_t *tokens = to->tokens + instance->tokens;
    size_t length = instance->length;
    memset(masking->covered, 0, length);
    choose_words(masking, tokens, find_words(masking, tokens, length),
                 masking_count(masking->options, length));
    instance->predictions = to->prediction_count;
    for (size_t i = 0; i < length; i++) {
        if (masking->covered[i]) {
            to->positions[to->prediction_count] = (uint16_t)i;
            to->labels[to->prediction_count++] = masking->labels[i];
        }
    }
    instance->prediction_count = (uint16_t)(to->prediction_count - instance->predictions);
}
