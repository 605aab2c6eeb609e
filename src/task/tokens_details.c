// SPDX-License-Identifier: Apache-2.0
// What reports show about an evaluation of tags besides its scores: the confusion matrix, and
// sample words in their sentences. Called by tag.c after it has scored a set; page/html_results.c
// draws the records.
#include "core/buffer.h"
#include "core/memory.h"
#include "core/utf8.h"
#include "task/details.h"
#include "train/tasks/confusion.h"
#include "train/tasks/samples.h"

#include <math.h>
#include <string.h>

// Writes the word's sentence, with blanks between words, and sets span to the word's characters.
static void put_sentence(const struct tagged_dataset *dataset, size_t word, struct buffer *text,
                         int64_t span[2]) {
    size_t sentence = 0, high = dataset->count; // starts[low] <= word < starts[high]
    while (high - sentence > 1) {
        const size_t middle = sentence + (high - sentence) / 2;
        *(dataset->starts[middle] <= word ? &sentence : &high) = middle;
    }
    for (size_t i = dataset->starts[sentence]; i < dataset->starts[sentence + 1]; i++) {
        if (i > dataset->starts[sentence]) {
            buffer_put_byte(text, ' ');
        }
        if (i == word) {
            span[0] = utf8_count(text->bytes, text->length);
            span[1] = span[0] + utf8_count(dataset->words[i], strlen(dataset->words[i]));
        }
        buffer_put_text(text, dataset->words[i]);
    }
    buffer_put_byte(text, '\0');
}

static enum berth_status log_word(const struct tokens_result *found, size_t word, int64_t step,
                                  const struct berth_log *log, struct berth_error *error) {
    const struct tagged_dataset *dataset = found->dataset;
    const int is_right = found->predicted[word] == dataset->tags[word];
    struct buffer text = {0};
    int64_t span[2] = {-1, -1};
    put_sentence(dataset, word, &text, span);
    const struct sample sample = {.question = dataset->words[word],
                                  .context = text.bytes,
                                  .predicted = found->names[found->predicted[word]],
                                  .expected = found->names[dataset->tags[word]],
                                  .predicted_begin = is_right ? -1 : span[0],
                                  .predicted_end = is_right ? -1 : span[1],
                                  .expected_begin = is_right ? span[0] : -1,
                                  .expected_end = is_right ? span[1] : -1,
                                  .score = is_right ? 100 : 0,
                                  .probability = (double)found->probabilities[word]};
    if (!text.failed) {
        samples_log(log, step, &sample);
    }
    const int failed = text.failed;
    buffer_done(&text);
    return failed ? error_no_memory(error, 0, "a sentence") : BERTH_OK;
}

// Leaves out words without tokens, which the model never saw.
static enum berth_status log_samples(const struct tokens_result *found, int64_t step,
                                     const struct berth_log *log, struct berth_error *error) {
    const size_t words = found->dataset->word_count;
    struct sample_rank *ranks = memory_array(words, sizeof *ranks);
    enum berth_status status = BERTH_OK;
    size_t count = 0;
    if (ranks == NULL) {
        return error_no_memory(error, words * sizeof *ranks, "the sample answers");
    }
    for (size_t i = 0; i < words; i++) {
        const int is_right = found->predicted[i] == found->dataset->tags[i];
        if (!isnan(found->probabilities[i])) {
            ranks[count++] =
                (struct sample_rank){is_right ? 0 : (double)found->probabilities[i], i};
        }
    }
    count = samples_choose(ranks, count);
    for (size_t i = 0; i < count && status == BERTH_OK; i++) {
        status = log_word(found, ranks[i].example, step, log, error);
    }
    memory_free(ranks);
    return status;
}

enum berth_status tokens_details_log(const struct tokens_result *found, int64_t step,
                                     const struct berth_log *log, struct berth_error *error) {
    struct confusion confusion;
    TRY(confusion_init(&confusion, found->names, found->classes, found->dataset->word_count,
                       error));
    for (size_t i = 0; i < found->dataset->word_count; i++) {
        confusion_count(&confusion, found->dataset->tags[i], found->predicted[i]);
    }
    confusion_log(&confusion, step, log);
    return log_samples(found, step, log, error);
}
