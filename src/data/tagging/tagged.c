// SPDX-License-Identifier: Apache-2.0
// The data set and the numbers of its tags. tagged_columns.c and tagged_json.c find words and tags,
// tagged_reader.c collects them.
#include "data/tagging/tagged.h"

#include "core/memory.h"
#include "data/tables/table_reader.h"
#include "data/tagging/tagged_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_SHOWN 40

size_t tagged_line(const struct tagged_dataset *dataset, size_t sentence, size_t word) {
    return dataset->lines[sentence] + (dataset->word_lines ? word : 0);
}

static enum berth_status no_memory(const struct tagged_reader *reader) {
    return error_no_memory(reader->error, reader->dataset->word_count * sizeof(char *),
                           "the words");
}

// --- numbers of the tags ------------------------------------------------------------------------

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void apply_numbers(struct tagged_dataset *dataset, const int32_t *numbers) {
    for (size_t i = 0; i < dataset->word_count; i++) {
        dataset->tags[i] = numbers[dataset->tags[i]];
    }
}

// Numbers the tags in ascending order of their names.
static enum berth_status sort_tags(struct tagged_reader *reader) {
    struct tagged_storage *storage = reader->storage;
    const struct string_index *names = &storage->names;
    int32_t *numbers = memory_array(names->count, sizeof *numbers);
    storage->tag_names = memory_array(names->count, sizeof *storage->tag_names);
    if (numbers == NULL || storage->tag_names == NULL) {
        memory_free(numbers);
        return no_memory(reader);
    }
    for (size_t i = 0; i < names->count; i++) {
        storage->tag_names[i] = string_index_bytes(names, i);
    }
    qsort(storage->tag_names, names->count, sizeof *storage->tag_names, by_text);
    for (size_t i = 0; i < names->count; i++) {
        const char *name = storage->tag_names[i];
        numbers[string_index_find(names, name, strlen(name) + 1)] = (int32_t)i;
    }
    apply_numbers(reader->dataset, numbers);
    memory_free(numbers);
    reader->dataset->tag_names = storage->tag_names;
    reader->dataset->tag_count = names->count;
    return BERTH_OK;
}

static int are_placeholders(const char *const *names, size_t count) {
    char expected[32];
    for (size_t i = 0; i < count; i++) {
        snprintf(expected, sizeof expected, "LABEL_%zu", i);
        if (strcmp(names[i], expected) != 0) {
            return 0;
        }
    }
    return 1;
}

static int32_t find_name(const char *const *names, size_t count, const char *name) {
    size_t i = 0;
    while (i < count && strcmp(names[i], name) != 0) {
        i++;
    }
    return i < count ? (int32_t)i : -1;
}

static void list_names(const char *const *names, size_t count, char text[512]) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count && used + TABLE_SHOWN + 8 < 512; i++) {
        used += (size_t)snprintf(text + used, 512 - used, "%s%.*s", i > 0 ? ", " : "",
                                 table_shown(names[i]), names[i]);
        if (i == NAMES_SHOWN) {
            snprintf(text + used, 512 - used, ", ...");
            return;
        }
    }
}

// The error for the first word whose tag has no number.
static enum berth_status unknown_tag(const struct tagged_dataset *dataset, const int32_t *numbers,
                                     const char *known, struct berth_error *error) {
    for (size_t s = 0; s < dataset->count; s++) {
        for (size_t i = dataset->starts[s]; i < dataset->starts[s + 1]; i++) {
            const char *tag = dataset->tag_names[dataset->tags[i]];
            if (numbers[dataset->tags[i]] < 0) {
                return error_set(error, BERTH_BAD_DATA,
                                 "%s: line %zu: the model has no label \"%.*s\"; expected one of "
                                 "%s; --label_column names another column, 0 none",
                                 dataset->name, tagged_line(dataset, s, i - dataset->starts[s]),
                                 table_shown(tag), tag, known);
            }
        }
    }
    return BERTH_OK;
}

enum berth_status tagged_renumber(struct tagged_dataset *dataset, const char *const *names,
                                  size_t count, struct berth_error *error) {
    char known[512];
    const int in_order = count == dataset->tag_count && are_placeholders(names, count);
    int32_t *numbers = memory_array(dataset->tag_count, sizeof *numbers);
    if (numbers == NULL) {
        return error_no_memory(error, dataset->tag_count * sizeof *numbers, "the tags");
    }
    for (size_t i = 0; i < dataset->tag_count; i++) {
        numbers[i] = in_order ? (int32_t)i : find_name(names, count, dataset->tag_names[i]);
    }
    list_names(names, count, known);
    enum berth_status status = unknown_tag(dataset, numbers, known, error);
    if (status == BERTH_OK && dataset->tags != NULL) {
        apply_numbers(dataset, numbers);
        dataset->tag_names = names;
        dataset->tag_count = count;
    }
    memory_free(numbers);
    return status;
}

// --- the whole ----------------------------------------------------------------------------------

static int is_json(const char *path) {
    enum table_format format;
    return table_format_of(path, &format, NULL) == BERTH_OK && format == TABLE_JSON_LINES;
}

static enum berth_status read_all(struct tagged_reader *reader, const char *path) {
    reader->storage->name = memory_string(path);
    if (reader->storage->name == NULL) {
        return no_memory(reader);
    }
    reader->dataset->name = reader->storage->name;
    TRY(is_json(path) ? tagged_read_json(reader, path) : tagged_read_columns(reader, path));
    if (reader->dataset->word_count == 0) {
        return error_set(reader->error, BERTH_BAD_DATA,
                         "%s: no words; expected a word and its tag per line, with an empty line "
                         "after each sentence, or JSON lines in a file named .json or .jsonl",
                         path);
    }
    return reader->has_tags ? sort_tags(reader) : BERTH_OK;
}

enum berth_status tagged_read(const char *path, const struct tagged_settings *settings,
                              struct tagged_dataset *dataset, struct berth_error *error) {
    *dataset = (struct tagged_dataset){.storage = NULL};
    struct tagged_reader reader = {.settings = settings,
                                   .dataset = dataset,
                                   .storage = memory_array_zeroed(1, sizeof(struct tagged_storage)),
                                   .error = error};
    dataset->storage = reader.storage;
    if (reader.storage == NULL) {
        return error_no_memory(error, sizeof(struct tagged_storage), "a data set");
    }
    enum berth_status status = read_all(&reader, path);
    if (status != BERTH_OK) {
        tagged_done(dataset);
    }
    return status;
}

void tagged_done(struct tagged_dataset *dataset) {
    struct tagged_storage *storage = dataset->storage;
    if (storage != NULL) {
        memory_free(storage->name);
        memory_free(storage->bytes);
        table_done(&storage->table);
        string_index_done(&storage->names);
        memory_free((void *)storage->tag_names);
        memory_free(storage);
    }
    memory_free((void *)dataset->words);
    memory_free(dataset->tags);
    memory_free(dataset->starts);
    memory_free(dataset->lines);
    *dataset = (struct tagged_dataset){.storage = NULL};
}
