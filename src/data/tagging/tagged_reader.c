// SPDX-License-Identifier: Apache-2.0
// Adds words, tags and sentences to a data set of tagged.c, for the readers of both formats. A tag
// that is seen for the first time gets the next number; the final order is made by tagged.c.
#include "data/tagging/tagged_reader.h"

#include "core/memory.h"

#include <string.h>

static enum berth_status no_memory(const struct tagged_reader *reader) {
    return error_no_memory(reader->error, reader->dataset->word_count * sizeof(char *),
                           "the words");
}

static enum berth_status put_tag(struct tagged_reader *reader, const char *tag) {
    struct tagged_dataset *dataset = reader->dataset;
    int32_t *tags =
        memory_grow(dataset->tags, &reader->tag_capacity, dataset->word_count + 1, sizeof *tags);
    const uint32_t number = string_index_put(&reader->storage->names, tag, strlen(tag) + 1);
    if (tags != NULL) {
        dataset->tags = tags;
    }
    if (tags == NULL || number == STRING_INDEX_NONE) {
        return no_memory(reader);
    }
    tags[dataset->word_count] = (int32_t)number;
    return BERTH_OK;
}

enum berth_status tagged_reader_add_word(struct tagged_reader *reader, const char *word,
                                         const char *tag) {
    struct tagged_dataset *dataset = reader->dataset;
    if (reader->has_tags) {
        TRY(put_tag(reader, tag));
    }
    const char **words = memory_grow((void *)dataset->words, &reader->word_capacity,
                                     dataset->word_count + 1, sizeof *words);
    if (words == NULL) {
        return no_memory(reader);
    }
    dataset->words = words;
    words[dataset->word_count++] = word;
    dataset->starts[dataset->count] = dataset->word_count;
    return BERTH_OK;
}

enum berth_status tagged_reader_begin_sentence(struct tagged_reader *reader, size_t line) {
    struct tagged_dataset *dataset = reader->dataset;
    size_t *starts =
        memory_grow(dataset->starts, &reader->start_capacity, dataset->count + 2, sizeof *starts);
    dataset->starts = starts != NULL ? starts : dataset->starts;
    size_t *lines =
        memory_grow(dataset->lines, &reader->line_capacity, dataset->count + 1, sizeof *lines);
    dataset->lines = lines != NULL ? lines : dataset->lines;
    if (starts == NULL || lines == NULL) {
        return no_memory(reader);
    }
    lines[dataset->count] = line;
    starts[dataset->count++] = dataset->word_count;
    starts[dataset->count] = dataset->word_count;
    return BERTH_OK;
}

int tagged_reader_is_full(const struct tagged_reader *reader) {
    const int64_t limit = reader->settings->sentences;
    return limit > 0 && reader->dataset->count >= (size_t)limit;
}
