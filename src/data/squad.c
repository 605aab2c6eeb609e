// SPDX-License-Identifier: Apache-2.0
// SQuAD readers: the nested file {"data": [{title, paragraphs: [{context, qas: [{id, question,
// answers: [{text, answer_start}], is_impossible}]}]}]} and flat records {id, title, context,
// question, answers: {text: [...], answer_start: [...]}} in an array, under "data" or one a line.
//
// The strings stay where the JSON reader put them; storage keeps the JSON values alive. What
// annotators call plausible_answers is left out.
#include "data/squad.h"

#include "core/file.h"
#include "core/memory.h"
#include "data/characters.h"
#include "format/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SQUAD_FILE_LIMIT ((size_t)8 << 30)
#define SQUAD_PLACE 128
#define SQUAD_SHOWN 60 // bytes of a text that a message quotes

struct storage {
    json *root; // the file, or an array of its lines
    char *name;
    struct squad_answer *answers;
};

struct reader {
    const char *name;
    int64_t limit;
    int check_answers;
    struct berth_error *error;
    struct squad_example *examples;
    size_t count, capacity;
    struct squad_answer *answers;
    size_t answer_count, answer_capacity;
    int version_2;
};

// The paragraph or record being read.
struct passage {
    const char *title, *context;
    size_t context_length;
};

static int reader_is_full(const struct reader *reader) {
    return reader->limit > 0 && reader->count >= (size_t)reader->limit;
}

static const char *type_name(const json *value) {
    if (value == NULL) {
        return "nothing";
    }
    return json_is_object_value(value)   ? "an object"
           : json_is_array_value(value)  ? "an array"
           : json_is_text(value)         ? "text"
           : json_is_number_value(value) ? "a number"
           : json_is_boolean(value)      ? "a boolean"
                                         : "null";
}

static enum berth_status wrong_type(struct reader *reader, const char *place, const char *key,
                                    const char *expected, const json *found) {
    return error_set(reader->error, BERTH_BAD_DATA,
                     "%s: %s: key \"%s\": expected %s, found %s; SQuAD data needs it", reader->name,
                     place, key, expected, type_name(found));
}

// A text member. Texts with U+0000 are refused: no text of the program could carry them.
static enum berth_status get_text(struct reader *reader, const json *object, const char *place,
                                  const char *key, const char **text) {
    const json *value = json_member(object, key);
    if (!json_is_text(value)) {
        return wrong_type(reader, place, key, "text", value);
    }
    *text = json_text(value);
    if (strlen(*text) != json_text_length(value)) {
        return error_set(reader->error, BERTH_BAD_DATA,
                         "%s: %s: key \"%s\" holds the character U+0000; remove it", reader->name,
                         place, key);
    }
    return BERTH_OK;
}

static enum berth_status get_array(struct reader *reader, const json *object, const char *place,
                                   const char *key, const json **array) {
    *array = json_member(object, key);
    return json_is_array_value(*array) ? BERTH_OK
                                       : wrong_type(reader, place, key, "an array", *array);
}

// Length of `text` cut to what a message can show, at a character's beginning.
static int shown(const char *text, size_t length) {
    if (length <= SQUAD_SHOWN) {
        return (int)length;
    }
    size_t end = SQUAD_SHOWN;
    while (end > 0 && !characters_begins(text[end])) {
        end--;
    }
    return (int)end;
}

// Whether the text stands in the context at byte `at`, where any white space of the text may be
// any, or none, in the context.
static int stands_at(const char *context, size_t length, size_t at, const char *text,
                     size_t text_length) {
    size_t i = 0, white;
    while (i < text_length) {
        white = characters_white(text + i, text_length - i);
        if (white > 0) {
            i += white;
            while (at < length && (white = characters_white(context + at, length - at)) > 0) {
                at += white;
            }
        } else if (at < length && context[at] == text[i]) {
            at++;
            i++;
        } else {
            return 0;
        }
    }
    return 1;
}

static enum berth_status misplaced(struct reader *reader, const char *place, const char *id,
                                   const struct passage *passage,
                                   const struct squad_answer *answer) {
    const char *context = passage->context;
    size_t length = passage->context_length;
    size_t at = characters_skip(context, length, answer->start);
    size_t text_length = strlen(answer->text);
    char found[SQUAD_SHOWN + 64], remedy[96];
    if (at == SIZE_MAX) {
        snprintf(found, sizeof found, "the context has %lld characters",
                 (long long)characters_count(context, length));
    } else {
        size_t end =
            characters_skip(context + at, length - at, characters_count(answer->text, text_length));
        size_t bytes = end == SIZE_MAX ? length - at : end;
        snprintf(found, sizeof found, "\"%.*s\" stands there", shown(context + at, bytes),
                 context + at);
    }
    const char *elsewhere = text_length > 0 ? strstr(context, answer->text) : NULL;
    if (elsewhere != NULL) {
        snprintf(remedy, sizeof remedy, "set answer_start to %lld, where the text stands",
                 (long long)characters_count(context, (size_t)(elsewhere - context)));
    } else {
        snprintf(remedy, sizeof remedy,
                 "the context does not hold that text: correct it or remove the question");
    }
    return error_set(
        reader->error, BERTH_BAD_DATA,
        "%s: %s: question \"%.*s\": the answer \"%.*s\" does not lie in its context at "
        "character %lld: %s; %s",
        reader->name, place, shown(id, strlen(id)), id, shown(answer->text, text_length),
        answer->text, (long long)answer->start, found, remedy);
}

// An answer must stand in the context at its place; differing white space is let through, since
// what it means is the feature builder's rule.
static enum berth_status check_answer(struct reader *reader, const char *place, const char *id,
                                      const struct passage *passage,
                                      const struct squad_answer *answer) {
    size_t at = characters_skip(passage->context, passage->context_length, answer->start);
    size_t length = strlen(answer->text);
    if (at == SIZE_MAX ||
        !stands_at(passage->context, passage->context_length, at, answer->text, length)) {
        return misplaced(reader, place, id, passage, answer);
    }
    return BERTH_OK;
}

static enum berth_status add_answer(struct reader *reader, const char *place,
                                    struct squad_example *example, const struct passage *passage,
                                    struct squad_answer answer) {
    if (reader->check_answers) {
        TRY(check_answer(reader, place, example->id, passage, &answer));
    }
    if (reader->answer_count == reader->answer_capacity) {
        size_t capacity = reader->answer_capacity * 2 + 256;
        void *grown = memory_resize(reader->answers, capacity, sizeof *reader->answers);
        if (grown == NULL) {
            return error_no_memory(reader->error, capacity * sizeof *reader->answers, "answers");
        }
        reader->answers = grown;
        reader->answer_capacity = capacity;
    }
    reader->answers[reader->answer_count++] = answer;
    example->answer_count++;
    return BERTH_OK;
}

static enum berth_status get_start(struct reader *reader, const json *value, const char *place,
                                   int64_t *start) {
    if (!reader->check_answers) {
        *start = 0;
        return BERTH_OK;
    }
    if (!json_is_integer_value(value)) {
        return wrong_type(reader, place, "answer_start", "an integer", value);
    }
    *start = json_as_integer(value);
    if (*start < 0) {
        return error_set(reader->error, BERTH_BAD_DATA,
                         "%s: %s: key \"answer_start\" is %lld; it counts characters from 0",
                         reader->name, place, (long long)*start);
    }
    return BERTH_OK;
}

// [{"text": ..., "answer_start": ...}, ...]
static enum berth_status read_answer_list(struct reader *reader, const json *list,
                                          const char *place, struct squad_example *example,
                                          const struct passage *passage) {
    size_t count = json_length(list);
    for (size_t i = 0; i < count; i++) {
        char here[SQUAD_PLACE + 32];
        struct squad_answer answer;
        snprintf(here, sizeof here, "%s.answers[%zu]", place, i);
        TRY(get_text(reader, json_at(list, i), here, "text", &answer.text));
        TRY(get_start(reader, json_member(json_at(list, i), "answer_start"), here, &answer.start));
        TRY(add_answer(reader, here, example, passage, answer));
    }
    return BERTH_OK;
}

// {"text": [...], "answer_start": [...]}
static enum berth_status read_answer_columns(struct reader *reader, const json *columns,
                                             const char *place, struct squad_example *example,
                                             const struct passage *passage) {
    char here[SQUAD_PLACE + 32];
    const json *texts, *starts = NULL;
    snprintf(here, sizeof here, "%s.answers", place);
    TRY(get_array(reader, columns, here, "text", &texts));
    size_t count = json_length(texts);
    if (reader->check_answers) {
        TRY(get_array(reader, columns, here, "answer_start", &starts));
        if (json_length(starts) != count) {
            return error_set(reader->error, BERTH_BAD_DATA,
                             "%s: %s: %zu texts but %zu answer_start; each text needs its own",
                             reader->name, here, count, json_length(starts));
        }
    }
    for (size_t i = 0; i < count; i++) {
        const json *text = json_at(texts, i);
        struct squad_answer answer = {.text = json_text(text)};
        if (answer.text == NULL || strlen(answer.text) != json_text_length(text)) {
            return wrong_type(reader, here, "text", "an array of texts without U+0000", text);
        }
        TRY(get_start(reader, json_at(starts, i), here, &answer.start));
        TRY(add_answer(reader, here, example, passage, answer));
    }
    return BERTH_OK;
}

// Answers may be missing: a file of questions to answer has none.
static enum berth_status read_answers(struct reader *reader, const json *question,
                                      const char *place, struct squad_example *example,
                                      const struct passage *passage) {
    const json *answers = json_member(question, "answers");
    if (answers == NULL || json_is_null_value(answers)) {
        return BERTH_OK;
    }
    if (json_is_array_value(answers)) {
        return read_answer_list(reader, answers, place, example, passage);
    }
    if (!json_is_object_value(answers)) {
        return wrong_type(reader, place, "answers", "an array or an object of arrays", answers);
    }
    TRY(read_answer_columns(reader, answers, place, example, passage));
    if (example->answer_count == 0) { // how the flat shape writes an impossible question
        example->impossible = 1;
        reader->version_2 = 1;
    }
    return BERTH_OK;
}

static enum berth_status reader_reserve(struct reader *reader) {
    if (reader->count < reader->capacity) {
        return BERTH_OK;
    }
    size_t capacity = reader->capacity * 2 + 256;
    void *grown = memory_resize(reader->examples, capacity, sizeof *reader->examples);
    if (grown == NULL) {
        return error_no_memory(reader->error, capacity * sizeof *reader->examples, "questions");
    }
    reader->examples = grown;
    reader->capacity = capacity;
    return BERTH_OK;
}

static enum berth_status read_question(struct reader *reader, const json *question,
                                       const char *place, const struct passage *passage) {
    struct squad_example example = {.title = passage->title,
                                    .context = passage->context,
                                    .context_length = passage->context_length};
    TRY(get_text(reader, question, place, "id", &example.id));
    TRY(get_text(reader, question, place, "question", &example.question));
    const json *impossible = json_member(question, "is_impossible");
    if (impossible != NULL) {
        if (!json_is_boolean(impossible)) {
            return wrong_type(reader, place, "is_impossible", "true or false", impossible);
        }
        example.impossible = json_truth(impossible);
        reader->version_2 = 1;
    }
    TRY(read_answers(reader, question, place, &example, passage));
    TRY(reader_reserve(reader));
    reader->examples[reader->count++] = example;
    return BERTH_OK;
}

static enum berth_status read_context(struct reader *reader, const json *object, const char *place,
                                      struct passage *passage) {
    const char *previous = reader->count > 0 ? reader->examples[reader->count - 1].context : NULL;
    TRY(get_text(reader, object, place, "context", &passage->context));
    passage->context_length = strlen(passage->context);
    // Flat records repeat the context with every question; sharing it spares the feature builder
    // from tokenizing it again.
    if (previous != NULL && strcmp(previous, passage->context) == 0) {
        passage->context = previous;
    }
    return BERTH_OK;
}

static enum berth_status read_title(struct reader *reader, const json *object, const char *place,
                                    struct passage *passage) {
    passage->title = "";
    const json *title = json_member(object, "title");
    return title == NULL || json_is_null_value(title)
               ? BERTH_OK
               : get_text(reader, object, place, "title", &passage->title);
}

static enum berth_status read_article(struct reader *reader, const json *article,
                                      const char *place) {
    struct passage passage;
    const json *paragraphs, *questions;
    TRY(read_title(reader, article, place, &passage));
    TRY(get_array(reader, article, place, "paragraphs", &paragraphs));
    for (size_t p = 0; p < json_length(paragraphs); p++) {
        char here[SQUAD_PLACE];
        const json *paragraph = json_at(paragraphs, p);
        snprintf(here, sizeof here, "%.60s.paragraphs[%zu]", place, p);
        TRY(read_context(reader, paragraph, here, &passage));
        TRY(get_array(reader, paragraph, here, "qas", &questions));
        for (size_t q = 0; q < json_length(questions) && !reader_is_full(reader); q++) {
            char question_place[SQUAD_PLACE];
            snprintf(question_place, sizeof question_place, "%.90s.qas[%zu]", here, q);
            TRY(read_question(reader, json_at(questions, q), question_place, &passage));
        }
    }
    return BERTH_OK;
}

static enum berth_status read_record(struct reader *reader, const json *record, const char *place) {
    struct passage passage;
    if (!json_is_object_value(record)) {
        return error_set(reader->error, BERTH_BAD_DATA,
                         "%s: %s: expected an article or a question (an object), found %s",
                         reader->name, place, type_name(record));
    }
    if (json_member(record, "paragraphs") != NULL) {
        return read_article(reader, record, place);
    }
    TRY(read_title(reader, record, place, &passage));
    TRY(read_context(reader, record, place, &passage));
    return read_question(reader, record, place, &passage);
}

static enum berth_status read_records(struct reader *reader, const json *records,
                                      const char *format) {
    for (size_t i = 0; i < json_length(records) && !reader_is_full(reader); i++) {
        char place[SQUAD_PLACE];
        snprintf(place, sizeof place, "%s[%zu]", format, i);
        TRY(read_record(reader, json_at(records, i), place));
    }
    return BERTH_OK;
}

static enum berth_status read_root(struct reader *reader, const json *root) {
    if (json_is_array_value(root)) {
        return read_records(reader, root, "record ");
    }
    const json *data = json_member(root, "data");
    if (json_is_array_value(data)) {
        return read_records(reader, data, "data");
    }
    if (json_is_object_value(root) && data == NULL && json_member(root, "context") != NULL) {
        return read_record(reader, root, "line 1");
    }
    return error_set(reader->error, BERTH_BAD_DATA,
                     "%s: expected SQuAD data (an object with an array \"data\", an array of "
                     "records, or one record a line), found %s whose \"data\" is %s",
                     reader->name, type_name(root), type_name(data));
}

// --- JSON lines ---------------------------------------------------------------------------------

// One past the end of the first object or array of a text: brackets are counted outside of strings.
static size_t first_value_end(const char *bytes, size_t length) {
    size_t depth = 0;
    int in_string = 0;
    for (size_t i = 0; i < length; i++) {
        char c = bytes[i];
        if (in_string) {
            i += c == '\\';
            in_string = c != '"';
        } else if (c == '"') {
            in_string = 1;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if ((c == '}' || c == ']') && (depth == 0 || --depth == 0)) {
            return i + 1;
        }
    }
    return length;
}

static int is_blank(const char *bytes, size_t length) {
    size_t i = 0;
    while (i < length && memchr(" \t\r\n", bytes[i], 4) != NULL) {
        i++;
    }
    return i == length;
}

// More than one value, the first an object that ends with its line.
static int is_json_lines(const char *bytes, size_t length) {
    size_t begin = 0;
    while (begin < length && is_blank(bytes + begin, 1)) {
        begin++;
    }
    if (begin == length || bytes[begin] != '{') {
        return 0;
    }
    size_t end = begin + first_value_end(bytes + begin, length - begin);
    const char *newline = memchr(bytes + end, '\n', length - end);
    return newline != NULL && is_blank(bytes + end, (size_t)(newline - bytes) - end) &&
           !is_blank(newline, length - (size_t)(newline - bytes));
}

static enum berth_status read_line(struct reader *reader, const char *bytes, size_t length,
                                   size_t number, json *lines) {
    char place[SQUAD_PLACE];
    json *value = NULL;
    snprintf(place, sizeof place, "line %zu", number);
    enum berth_status status = json_read_memory("JSON lines", bytes, length, &value, reader->error);
    if (status != BERTH_OK) {
        return error_prefix(reader->error, status, "%s: %s", reader->name, place);
    }
    if (json_append(lines, value) != 0) {
        return error_no_memory(reader->error, length, "JSON lines");
    }
    return read_record(reader, value, place);
}

static enum berth_status read_lines(struct reader *reader, const char *bytes, size_t length,
                                    json *lines) {
    size_t number = 1;
    for (size_t at = 0; at < length && !reader_is_full(reader); number++) {
        const char *newline = memchr(bytes + at, '\n', length - at);
        size_t end = newline == NULL ? length : (size_t)(newline - bytes);
        if (!is_blank(bytes + at, end - at)) {
            TRY(read_line(reader, bytes + at, end - at, number, lines));
        }
        at = end + 1;
    }
    return BERTH_OK;
}

// --- the whole ----------------------------------------------------------------------------------

static enum berth_status read_bytes(struct reader *reader, const char *bytes, size_t length,
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
        TRY(read_lines(reader, bytes, length, *root));
    } else {
        TRY(json_read_memory(reader->name, bytes, length, root, reader->error));
        TRY(read_root(reader, *root));
    }
    if (reader->count == 0) {
        return error_set(reader->error, BERTH_BAD_DATA,
                         "%s: the file holds no questions; expected \"qas\" in its paragraphs",
                         reader->name);
    }
    return BERTH_OK;
}

// Hands the reader's arrays over; answers lie in one pool, in the order of the examples.
static void publish(struct reader *reader, struct storage *storage, struct squad_dataset *dataset) {
    size_t first = 0;
    for (size_t i = 0; i < reader->count; i++) {
        if (reader->examples[i].answer_count > 0) {
            reader->examples[i].answers = reader->answers + first;
            first += reader->examples[i].answer_count;
        }
    }
    storage->answers = reader->answers;
    *dataset = (struct squad_dataset){.examples = reader->examples,
                                      .count = reader->count,
                                      .version_2 = reader->version_2,
                                      .name = storage->name,
                                      .storage = storage};
}

static enum berth_status read_memory(struct reader *reader, const char *bytes, size_t length,
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
    struct reader reader = {.name = name, .limit = limit, .check_answers = 1, .error = error};
    return read_memory(&reader, bytes, length, dataset);
}

static enum berth_status read_file(struct reader *reader, struct squad_dataset *dataset) {
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
    struct reader reader = {.name = path, .limit = limit, .check_answers = 1, .error = error};
    return read_file(&reader, dataset);
}

enum berth_status squad_read_references(const char *path, struct squad_dataset *dataset,
                                        struct berth_error *error) {
    struct reader reader = {.name = path, .error = error};
    return read_file(&reader, dataset);
}

void squad_dataset_done(struct squad_dataset *dataset) {
    struct storage *storage = dataset->storage;
    if (storage != NULL) {
        json_free(storage->root);
        memory_free(storage->answers);
        memory_free(storage->name);
        memory_free(storage);
        memory_free(dataset->examples);
    }
    *dataset = (struct squad_dataset){0};
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
            status = error_set(error, BERTH_BAD_DATA,
                               "%s: the questions %zu and %zu (counted from 0) have the same id "
                               "\"%.*s\"; predictions are kept by id, so ids must differ",
                               name, (size_t)(sorted[i - 1] - dataset->examples),
                               (size_t)(sorted[i] - dataset->examples), shown(id, strlen(id)), id);
        }
    }
    memory_free(sorted);
    return status;
}
