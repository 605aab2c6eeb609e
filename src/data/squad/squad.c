// SPDX-License-Identifier: Apache-2.0
// Opens a file of SQuAD, one JSON value or one on each line, and keeps the text that its examples
// borrow from. What the values mean is left to squad_records.c; the tasks and the official
// evaluation read every data set of questions through here.
#include "data/squad/squad.h"

#include "core/encoding.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/utf8.h"
#include "data/squad/squad_records.h"
#include "text/python.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct storage {
    json *root; // the file, or an array of its lines
    json *ids;  // texts of ids that are numbers
    char *name;
    struct squad_answer *answers;
    struct berth_error first_misplaced;
};

// --- JSON lines ---------------------------------------------------------------------------------

static int is_blank(const char *bytes, size_t length) {
    size_t i = 0;
    while (i < length && memchr(" \t\r\n", bytes[i], 4) != NULL) {
        i++;
    }
    return i == length;
}

// Whether the text is several values, the first of which is an object that ends at the end of a
// line.
static int is_json_lines(const char *bytes, size_t length) {
    size_t begin = 0;
    while (begin < length && is_blank(bytes + begin, 1)) {
        begin++;
    }
    if (begin == length || bytes[begin] != '{') {
        return 0;
    }
    size_t end = begin + json_first_end(bytes + begin, length - begin);
    size_t line_end;
    const size_t rest = python_line_length(bytes + end, length - end, &line_end);
    return line_end > 0 && is_blank(bytes + end, rest) &&
           !is_blank(bytes + end + rest, length - end - rest);
}

static enum berth_status read_line(struct squad_reader *reader, const char *bytes, size_t length,
                                   size_t number, json *lines) {
    char location[SQUAD_LOCATION_SIZE];
    json *value = NULL;
    snprintf(location, sizeof location, "line %zu", number);
    enum berth_status status = json_read_memory("JSON lines", bytes, length, &value, reader->error);
    if (status != BERTH_OK) {
        return error_prefix(reader->error, status, "%s: %s", reader->name, location);
    }
    if (json_append(lines, value) != 0) {
        return error_no_memory(reader->error, length, "JSON lines");
    }
    return squad_reader_record(reader, value, location);
}

// --- the whole ----------------------------------------------------------------------------------

static enum berth_status read_text(struct squad_reader *reader, const char *bytes, size_t length,
                                   json **root) {
    if (is_blank(bytes, length)) {
        return error_set(reader->error, BERTH_BAD_DATA,
                         "%s: the file is empty; expected SQuAD data in JSON", reader->name);
    }
    if (is_json_lines(bytes, length)) {
        *root = json_new_array();
        if (*root == NULL) {
            return error_no_memory(reader->error, length, "JSON lines");
        }
        size_t number = 1, line_end;
        for (size_t at = 0; at < length && !squad_reader_is_full(reader); number++) {
            const size_t line = python_line_length(bytes + at, length - at, &line_end);
            if (!is_blank(bytes + at, line)) {
                TRY(read_line(reader, bytes + at, line, number, *root));
            }
            at += line + line_end;
        }
    } else {
        TRY(json_read_memory(reader->name, bytes, length, root, reader->error));
        TRY(squad_reader_root(reader, *root));
    }
    if (reader->count == 0) {
        return error_set(reader->error, BERTH_BAD_DATA,
                         "%s: the file has no questions; expected \"qas\" in its paragraphs",
                         reader->name);
    }
    return BERTH_OK;
}

static enum berth_status read_bytes(struct squad_reader *reader, const char *bytes, size_t length,
                                    json **root) {
    struct buffer own = {0};
    enum berth_status status =
        encoding_normalise(reader->name, &bytes, &length, &own, reader->error);
    if (status == BERTH_OK) {
        status = read_text(reader, bytes, length, root);
    }
    buffer_done(&own);
    return status;
}

// Moves the reader's arrays to the data set. The answers are one pool, in the order of the
// examples.
static void publish(struct squad_reader *reader, struct storage *storage,
                    struct squad_dataset *dataset) {
    size_t first = 0;
    for (size_t i = 0; i < reader->count; i++) {
        if (reader->examples[i].answer_count > 0) {
            reader->examples[i].answers = reader->answers + first;
            first += reader->examples[i].answer_count;
        }
    }
    storage->answers = reader->answers;
    storage->ids = reader->number_ids;
    storage->first_misplaced = reader->first_misplaced;
    *dataset = (struct squad_dataset){.examples = reader->examples,
                                      .count = reader->count,
                                      .version_2 = reader->version_2 ||
                                                   (reader->has_empty && reader->answer_count > 0),
                                      .misplaced = reader->misplaced,
                                      .name = storage->name,
                                      .storage = storage};
}

static enum berth_status read_memory(struct squad_reader *reader, const char *bytes, size_t length,
                                     struct squad_dataset *dataset) {
    *dataset = (struct squad_dataset){0};
    struct storage *storage = memory_array_zeroed(1, sizeof *storage);
    if (storage == NULL) {
        return error_no_memory(reader->error, sizeof *storage, "a data set");
    }
    storage->name = memory_string(reader->name);
    enum berth_status status = storage->name == NULL
                                   ? error_no_memory(reader->error, strlen(reader->name), "a name")
                                   : read_bytes(reader, bytes, length, &storage->root);
    if (status != BERTH_OK) {
        json_free(storage->root);
        json_free(reader->number_ids);
        memory_free(storage->name);
        memory_free(storage);
        memory_free(reader->examples);
        memory_free(reader->answers);
        return status;
    }
    publish(reader, storage, dataset);
    return BERTH_OK;
}

enum berth_status squad_read_memory(const char *name, const char *bytes, size_t length,
                                    int64_t limit, struct squad_dataset *dataset,
                                    struct berth_error *error) {
    struct squad_reader reader = {.name = name, .limit = limit, .check_answers = 1, .error = error};
    return read_memory(&reader, bytes, length, dataset);
}

static enum berth_status read_file(struct squad_reader *reader, struct squad_dataset *dataset) {
    char *bytes;
    size_t length;
    *dataset = (struct squad_dataset){0};
    TRY(file_read(reader->name, SQUAD_FILE_LIMIT, &bytes, &length, reader->error));
    enum berth_status status = read_memory(reader, bytes, length, dataset);
    memory_free(bytes);
    return status;
}

enum berth_status squad_read(const char *path, int64_t limit, struct squad_dataset *dataset,
                             struct berth_error *error) {
    struct squad_reader reader = {.name = path, .limit = limit, .check_answers = 1, .error = error};
    return read_file(&reader, dataset);
}

enum berth_status squad_read_references(const char *path, struct squad_dataset *dataset,
                                        struct berth_error *error) {
    struct squad_reader reader = {.name = path, .error = error};
    return read_file(&reader, dataset);
}

void squad_dataset_done(struct squad_dataset *dataset) {
    struct storage *storage = dataset->storage;
    if (storage != NULL) {
        json_free(storage->root);
        json_free(storage->ids);
        memory_free(storage->answers);
        memory_free(storage->name);
        memory_free(storage);
        memory_free(dataset->examples);
    }
    *dataset = (struct squad_dataset){0};
}

int squad_has_references(const struct squad_dataset *dataset) {
    size_t i = 0;
    while (i < dataset->count && dataset->examples[i].answer_count == 0 &&
           !dataset->examples[i].impossible) {
        i++;
    }
    return i < dataset->count;
}

enum berth_status squad_refuse_misplaced(const struct squad_dataset *dataset,
                                         struct berth_error *error) {
    const struct storage *storage = dataset->storage;
    return dataset->misplaced == 0
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA, "%s", storage->first_misplaced.message);
}

static int by_id(const void *a, const void *b) {
    const struct squad_example *x = *(const struct squad_example *const *)a;
    const struct squad_example *y = *(const struct squad_example *const *)b;
    int order = strcmp(x->id, y->id);
    return order != 0 ? order : (x > y) - (x < y);
}

enum berth_status squad_check_ids(const struct squad_dataset *dataset, const char *name,
                                  struct berth_error *error) {
    const struct squad_example **sorted = memory_array(dataset->count, sizeof *sorted);
    if (sorted == NULL) {
        return error_no_memory(error, dataset->count * sizeof *sorted, "ids");
    }
    for (size_t i = 0; i < dataset->count; i++) {
        sorted[i] = &dataset->examples[i];
    }
    qsort(sorted, dataset->count, sizeof *sorted, by_id);
    enum berth_status status = BERTH_OK;
    for (size_t i = 1; i < dataset->count && status == BERTH_OK; i++) {
        if (strcmp(sorted[i - 1]->id, sorted[i]->id) == 0) {
            const char *id = sorted[i]->id;
            status =
                error_set(error, BERTH_BAD_DATA,
                          "%s: questions %zu and %zu (counted from 0) have the duplicate id "
                          "\"%.*s\"; predictions are stored by id, so ids must be unique",
                          name, (size_t)(sorted[i - 1] - dataset->examples),
                          (size_t)(sorted[i] - dataset->examples), UTF8_SHOWN(id, SQUAD_SHOWN));
        }
    }
    memory_free(sorted);
    return status;
}
