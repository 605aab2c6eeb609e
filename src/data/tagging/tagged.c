// SPDX-License-Identifier: Apache-2.0
// Opens a data set of words with tags: chooses the reader by the file's name (tagged_columns.c,
// tagged_json.c), then gives each tag a number, in the model's order if it has the same names. The
// task tag and `berth evaluate tokens` read their sets here.
#include "data/tagging/tagged.h"

#include "core/memory.h"
#include "core/utf8.h"
#include "data/tables/label_names.h"
#include "data/tables/table_reader.h"
#include "data/tagging/tagged_reader.h"

#include <stdlib.h>
#include <string.h>

size_t tagged_line(const struct tagged_dataset *dataset, size_t sentence, size_t word) {
    return dataset->lines[sentence] + (dataset->word_lines ? word : 0);
}

static enum berth_status no_memory(const struct tagged_reader *reader) {
    return error_no_memory(reader->error, reader->dataset->word_count * sizeof(char *),
                           "the words");
}

// --- numbers of the tags ------------------------------------------------------------------------

static void apply_numbers(struct tagged_dataset *dataset, const int32_t *numbers) {
    for (size_t i = 0; i < dataset->word_count; i++) {
        dataset->tags[i] = numbers[dataset->tags[i]];
    }
}

// Numbers the tags in sorted order.
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
    const struct label_names tags = {storage->tag_names, names->count};
    qsort(storage->tag_names, names->count, sizeof *storage->tag_names, label_order_of(&tags));
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

static enum berth_status renumber(struct tagged_dataset *dataset, const struct label_names *classes,
                                  int32_t *numbers, struct berth_error *error) {
    char expected[512];
    const struct label_names tags = {dataset->tag_names, dataset->tag_count};
    enum label_match match;
    TRY(label_names_match(classes, &tags, 0, numbers, &match, error));
    label_names_expected(classes, match, expected, sizeof expected);
    for (size_t s = 0; s < dataset->count; s++) {
        for (size_t i = dataset->starts[s]; i < dataset->starts[s + 1]; i++) {
            const char *tag = dataset->tag_names[dataset->tags[i]];
            if (numbers[dataset->tags[i]] < 0) {
                return error_line(error, BERTH_BAD_DATA, dataset->name,
                                  tagged_line(dataset, s, i - dataset->starts[s]),
                                  "the model has no label \"%.*s\"; expected %s; "
                                  "label_column names another column, 0 none",
                                  UTF8_SHOWN(tag, TABLE_SHOWN), expected);
            }
        }
    }
    dataset->tags_in_order = match == LABELS_BY_ORDER;
    if (match == LABELS_BY_NAME || !label_names_are_identity(classes, &tags, numbers)) {
        apply_numbers(dataset, numbers);
        dataset->tag_names = classes->list;
        dataset->tag_count = classes->count;
    }
    return BERTH_OK;
}

enum berth_status tagged_renumber(struct tagged_dataset *dataset, const char *const *names,
                                  size_t count, struct berth_error *error) {
    if (dataset->tags == NULL) {
        return BERTH_OK;
    }
    const struct label_names classes = {names, count};
    int32_t *numbers = memory_array(dataset->tag_count, sizeof *numbers);
    if (numbers == NULL) {
        return error_no_memory(error, dataset->tag_count * sizeof *numbers, "the tags");
    }
    enum berth_status status = renumber(dataset, &classes, numbers, error);
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
