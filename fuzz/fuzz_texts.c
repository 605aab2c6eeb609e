// SPDX-License-Identifier: Apache-2.0
// Fuzzes the readers of texts: examples of two or three texts for embeddings, lines of text for
// masked words; sequences and masks of the lines.
//
// Settings: bits 0 and 1 the file's ending, bit 2 the first two columns named, bit 3 the third,
// bit 4 the score's, bit 5 a sequence for each line, bits 6 and 7 the length of a sequence.
#include "data/masked/text_lines.h"
#include "data/masked/word_masks.h"
#include "data/pairs/text_examples.h"
#include "input.h"
#include "words.h"

#include <math.h>

enum { NAMED = 4, THIRD = 8, SCORE = 16, BY_LINE = 32 };

static const char *const endings[] = {".txt", ".tsv", ".csv", ".jsonl"};

static void read_examples(const struct fuzz_input *input, const char *path) {
    const int named = (input->settings & NAMED) != 0;
    const struct text_example_settings settings = {
        .text = named ? "a" : NULL,
        .pair = named ? "b" : NULL,
        .negatives = named && (input->settings & THIRD) != 0 ? "c,d" : NULL,
        .score = (input->settings & SCORE) != 0 ? "score" : NULL};
    struct text_examples examples;
    struct berth_error error = {0};
    fuzz_failing_begin(input->fail_at);
    enum berth_status status = text_examples_read(path, &settings, &examples, &error);
    fuzz_failing_end(input->fail_at, status, &error);
    require(status != BERTH_OK ||
            (examples.count == examples.table.row_count && examples.count > 0 &&
             examples.texts >= 1 && examples.texts <= TEXT_EXAMPLE_MAX));
    for (size_t i = 0; status == BERTH_OK && i < examples.count; i++) {
        const struct text_example *example = &examples.items[i];
        for (size_t k = 0; k < examples.scores; k++) {
            require(isfinite(example->scores[k]));
        }
        require(example->line > (i == 0 ? 0 : examples.items[i - 1].line));
        for (size_t k = 0; k < examples.texts; k++) {
            require(strlen(example->texts[k]) <= input->size * 3);
        }
    }
    text_examples_done(&examples);
}

// A predicted token has its own word as label; [CLS], [SEP] and all other tokens are unchanged.
static void check_masks(const struct text_sequences *sequences) {
    const struct tokenizer_special special = tokenizer_special_ids(fuzz_words());
    struct word_masks masks = {.all = sequences,
                               .rules = {.seed = 1,
                                         .probability = 0.5,
                                         .vocab_size = (int32_t)tokenizer_size(fuzz_words()),
                                         .special = special}};
    const struct word_mask_choice choice = {.count = sequences->count};
    struct berth_error error;
    require(word_masks_draw(&masks, &choice, 1, &error) == BERTH_OK);
    for (size_t i = 0; i < masks.count; i++) {
        const struct packer_sequence own = text_sequences_get(sequences, i);
        const struct packer_sequence masked = word_masks_get(&masks, i);
        int32_t next = 0;
        require(own.length == masked.length);
        for (int32_t row = 0; row < own.length; row++) {
            if (next < masked.masked_count && masked.masked_positions[next] == row) {
                require(own.ids[row] == masked.masked_labels[next++]);
                require(own.ids[row] != special.pad && own.ids[row] != special.cls &&
                        own.ids[row] != special.sep);
            } else {
                require(own.ids[row] == masked.ids[row]);
            }
        }
        require(next == masked.masked_count);
    }
    word_masks_done(&masks);
}

static void make_sequences(const struct fuzz_input *input, const struct text_lines *lines) {
    const struct text_sequence_rules rules = {.by_line = (input->settings & BY_LINE) != 0,
                                              .max_length = 4 << (input->settings >> 6),
                                              .threads = 1};
    struct text_sequences sequences = {0};
    struct berth_error error;
    require(text_sequences_build(lines->items, lines->count, fuzz_words(), &rules, &sequences,
                                 &error) == BERTH_OK);
    for (size_t i = 0; i < sequences.count; i++) {
        const size_t length = sequences.starts[i + 1] - sequences.starts[i];
        require(rules.by_line ? length >= 3 && length <= (size_t)rules.max_length
                              : length == (size_t)rules.max_length);
        require(length <= sequences.longest);
    }
    if (sequences.count > 0) {
        check_masks(&sequences);
    }
    text_sequences_done(&sequences);
}

static void read_lines(const struct fuzz_input *input, const char *path) {
    const char *column = (input->settings & NAMED) != 0 ? "a" : NULL;
    struct text_lines lines;
    struct berth_error error = {0};
    fuzz_failing_begin(input->fail_at);
    enum berth_status status = text_lines_read(path, column, &lines, &error);
    fuzz_failing_end(input->fail_at, status, &error);
    if (status == BERTH_OK) {
        require(lines.count > 0);
        for (size_t i = 0; i < lines.count; i++) {
            require(lines.bytes == NULL || strpbrk(lines.items[i], "\r\n") == NULL);
        }
        make_sequences(input, &lines);
    }
    text_lines_done(&lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    const char *path = fuzz_named_file(input.bytes, input.size, endings[input.settings & 3]);
    read_examples(&input, path);
    read_lines(&input, path);
    return 0;
}
