// SPDX-License-Identifier: Apache-2.0
// Converts SQuAD's JSON values to examples, in both layouts:
//
//   nested  {"data": [{title, paragraphs: [{context, qas: [{id, question, is_impossible,
//           answers: [{text, answer_start}]}]}]}]}
//   flat    {id, title, context, question, answers: {text: [...], answer_start: [...]}} in an array
//           or under "data"
//
// Strings are borrowed from the JSON values. plausible_answers are ignored.
#include "data/squad/squad_records.h"

#include "core/memory.h"
#include "core/utf8.h"
#include "data/squad/white_space.h"

#include <stdio.h>
#include <string.h>

// The paragraph or flat record that is being read.
struct squad_passage {
    const char *title, *context;
    size_t context_length;
};

int squad_reader_is_full(const struct squad_reader *reader) {
    return reader->limit > 0 && reader->count >= (size_t)reader->limit;
}

static const char *type_name(const json *value) {
    if (value == NULL) {
        return "nothing";
    }
    return json_is_object_value(value)   ? "an object"
           : json_is_array_value(value)  ? "an array"
           : json_is_text(value)         ? "a string"
           : json_is_number_value(value) ? "a number"
           : json_is_boolean(value)      ? "a boolean"
                                         : "null";
}

static enum berth_status wrong_type(struct squad_reader *reader, const char *location,
                                    const char *key, const char *expected, const json *found) {
    return error_set(reader->error, BERTH_BAD_DATA, "%s: %s: key \"%s\": expected %s, found %s",
                     reader->name, location, key, expected, type_name(found));
}

// Reads a string member; refuses U+0000, because strings are NUL-terminated.
static enum berth_status get_text(struct squad_reader *reader, const json *object,
                                  const char *location, const char *key, const char **text) {
    const json *value = json_member(object, key);
    if (!json_is_text(value)) {
        return wrong_type(reader, location, key, "a string", value);
    }
    *text = json_text(value);
    if (strlen(*text) != json_text_length(value)) {
        return error_set(reader->error, BERTH_BAD_DATA,
                         "%s: %s: key \"%s\": the string contains U+0000; remove it", reader->name,
                         location, key);
    }
    return BERTH_OK;
}

static enum berth_status get_array(struct squad_reader *reader, const json *object,
                                   const char *location, const char *key, const json **array) {
    *array = json_member(object, key);
    return json_is_array_value(*array) ? BERTH_OK
                                       : wrong_type(reader, location, key, "an array", *array);
}

// Whether the context has the text at byte `at`. White space in the text matches any white space in
// the context, or none.
static int matches_at(const char *context, size_t length, size_t at, const char *text,
                      size_t text_length) {
    size_t i = 0, white;
    while (i < text_length) {
        white = white_space_bytes(text + i, text_length - i);
        if (white > 0) {
            i += white;
            while (at < length && (white = white_space_bytes(context + at, length - at)) > 0) {
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

// Sets the error for the first misplaced answer.
static void describe_misplaced(struct squad_reader *reader, const char *location, const char *id,
                               const struct squad_passage *passage,
                               const struct squad_answer *answer) {
    const char *context = passage->context;
    size_t length = passage->context_length;
    size_t at = answer->start < 0 ? SIZE_MAX : utf8_skip(context, length, answer->start);
    size_t text_length = strlen(answer->text);
    char found[SQUAD_SHOWN + 64], remedy[96];
    if (at == SIZE_MAX) {
        snprintf(found, sizeof found, "the context has %lld characters",
                 (long long)utf8_count(context, length));
    } else {
        size_t end = utf8_skip(context + at, length - at, utf8_count(answer->text, text_length));
        size_t bytes = end == SIZE_MAX ? length - at : end;
        snprintf(found, sizeof found, "found \"%.*s\"",
                 (int)utf8_cut(context + at, bytes, SQUAD_SHOWN), context + at);
    }
    const char *elsewhere = text_length > 0 ? strstr(context, answer->text) : NULL;
    if (elsewhere != NULL) {
        snprintf(remedy, sizeof remedy, "set answer_start to %lld",
                 (long long)utf8_count(context, (size_t)(elsewhere - context)));
    } else {
        snprintf(remedy, sizeof remedy,
                 "the context does not contain that text: correct it or remove the question");
    }
    (void)error_set(&reader->first_misplaced, BERTH_BAD_DATA,
                    "%s: %s: question \"%.*s\": the answer \"%.*s\" is not in its context at "
                    "character %lld: %s; %s",
                    reader->name, location, UTF8_SHOWN(id, SQUAD_SHOWN),
                    UTF8_SHOWN(answer->text, SQUAD_SHOWN), (long long)answer->start, found, remedy);
}

// Whether the context has the answer at answer_start. Different white space is accepted; the
// feature builder handles it.
static int is_in_place(const struct squad_passage *passage, const struct squad_answer *answer) {
    size_t at = answer->start < 0
                    ? SIZE_MAX
                    : utf8_skip(passage->context, passage->context_length, answer->start);
    return at != SIZE_MAX && matches_at(passage->context, passage->context_length, at, answer->text,
                                        strlen(answer->text));
}

static enum berth_status add_answer(struct squad_reader *reader, const char *location,
                                    struct squad_example *example,
                                    const struct squad_passage *passage,
                                    struct squad_answer answer) {
    answer.misplaced = reader->check_answers && !is_in_place(passage, &answer);
    if (answer.misplaced && reader->misplaced++ == 0) {
        describe_misplaced(reader, location, example->id, passage, &answer);
    }
    size_t needed = reader->answer_count + 1;
    struct squad_answer *grown =
        memory_grow(reader->answers, &reader->answer_capacity, needed, sizeof *grown);
    if (grown == NULL) {
        return error_no_memory(reader->error, needed * sizeof *grown, "answers");
    }
    reader->answers = grown;
    reader->answers[reader->answer_count++] = answer;
    example->answer_count++;
    return BERTH_OK;
}

static enum berth_status get_start(struct squad_reader *reader, const json *value,
                                   const char *location, int64_t *start) {
    if (!reader->check_answers) {
        *start = 0;
        return BERTH_OK;
    }
    if (!json_is_integer_value(value)) {
        return wrong_type(reader, location, "answer_start", "an integer", value);
    }
    *start = json_as_integer(value);
    return BERTH_OK;
}

// {"text": [...], "answer_start": [...]}
static enum berth_status read_answer_columns(struct squad_reader *reader, const json *columns,
                                             const char *location, struct squad_example *example,
                                             const struct squad_passage *passage) {
    char here[SQUAD_LOCATION_SIZE + 32];
    const json *texts, *starts = NULL;
    snprintf(here, sizeof here, "%s.answers", location);
    TRY(get_array(reader, columns, here, "text", &texts));
    size_t count = json_length(texts);
    if (reader->check_answers) {
        TRY(get_array(reader, columns, here, "answer_start", &starts));
        if (json_length(starts) != count) {
            return error_set(reader->error, BERTH_BAD_DATA,
                             "%s: %s: %zu texts but %zu answer_start; expected one for each text",
                             reader->name, here, count, json_length(starts));
        }
    }
    for (size_t i = 0; i < count; i++) {
        const json *text = json_at(texts, i);
        struct squad_answer answer = {.text = json_text(text)};
        if (answer.text == NULL || strlen(answer.text) != json_text_length(text)) {
            return wrong_type(reader, here, "text", "an array of strings without U+0000", text);
        }
        TRY(get_start(reader, json_at(starts, i), here, &answer.start));
        TRY(add_answer(reader, here, example, passage, answer));
    }
    return BERTH_OK;
}

// Answers may be missing, as in files to predict.
static enum berth_status read_answers(struct squad_reader *reader, const json *question,
                                      const char *location, struct squad_example *example,
                                      const struct squad_passage *passage) {
    const json *answers = json_member(question, "answers");
    if (answers == NULL || json_is_null_value(answers)) {
        return BERTH_OK;
    }
    if (json_is_array_value(answers)) {
        reader->has_empty |= json_length(answers) == 0;
        example->impossible |= reader->is_declared_2 && json_length(answers) == 0 &&
                               json_member(question, "is_impossible") == NULL;
        // [{"text": ..., "answer_start": ...}, ...]
        size_t count = json_length(answers);
        for (size_t i = 0; i < count; i++) {
            char here[SQUAD_LOCATION_SIZE + 32];
            struct squad_answer answer;
            snprintf(here, sizeof here, "%s.answers[%zu]", location, i);
            TRY(get_text(reader, json_at(answers, i), here, "text", &answer.text));
            TRY(get_start(reader, json_member(json_at(answers, i), "answer_start"), here,
                          &answer.start));
            TRY(add_answer(reader, here, example, passage, answer));
        }
        return BERTH_OK;
    }
    if (!json_is_object_value(answers)) {
        return wrong_type(reader, location, "answers", "an array or an object of arrays", answers);
    }
    TRY(read_answer_columns(reader, answers, location, example, passage));
    // In the flat layout a question without answers is impossible.
    const int is_declared = json_member(question, "is_impossible") != NULL;
    if (example->answer_count == 0 && !is_declared) {
        example->impossible = 1;
        reader->version_2 = 1;
    }
    return BERTH_OK;
}

// Reads the id; an integer is converted to text.
static enum berth_status get_id(struct squad_reader *reader, const json *question,
                                const char *location, const char **id) {
    const json *value = json_member(question, "id");
    if (json_is_text(value)) {
        return get_text(reader, question, location, "id", id);
    }
    if (json_is_real_value(value) || !json_is_integer_value(value)) {
        return wrong_type(reader, location, "id", "a string or an integer", value);
    }
    reader->number_ids = reader->number_ids != NULL ? reader->number_ids : json_new_array();
    char *number = json_write(value, JSON_COMPACT);
    json *text = number != NULL ? json_new_text(number) : NULL;
    memory_free(number);
    *id = json_text(text);
    return json_append(reader->number_ids, text) == 0
               ? BERTH_OK
               : error_no_memory(reader->error, reader->count, "the ids");
}

static enum berth_status read_question(struct squad_reader *reader, const json *question,
                                       const char *location, const struct squad_passage *passage) {
    struct squad_example example = {.title = passage->title,
                                    .context = passage->context,
                                    .context_length = passage->context_length};
    TRY(get_id(reader, question, location, &example.id));
    TRY(get_text(reader, question, location, "question", &example.question));
    const json *impossible = json_member(question, "is_impossible");
    if (impossible != NULL) {
        if (!json_is_boolean(impossible)) {
            return wrong_type(reader, location, "is_impossible", "true or false", impossible);
        }
        example.impossible = json_truth(impossible);
        reader->version_2 = 1;
    }
    TRY(read_answers(reader, question, location, &example, passage));
    size_t needed = reader->count + 1;
    struct squad_example *grown =
        memory_grow(reader->examples, &reader->capacity, needed, sizeof *grown);
    if (grown == NULL) {
        return error_no_memory(reader->error, needed * sizeof *grown, "questions");
    }
    reader->examples = grown;
    reader->examples[reader->count++] = example;
    return BERTH_OK;
}

static enum berth_status read_context(struct squad_reader *reader, const json *object,
                                      const char *location, struct squad_passage *passage) {
    const char *previous = reader->count > 0 ? reader->examples[reader->count - 1].context : NULL;
    TRY(get_text(reader, object, location, "context", &passage->context));
    passage->context_length = strlen(passage->context);
    // Flat records repeat the context with every question; sharing it saves tokenizing it again.
    if (previous != NULL && strcmp(previous, passage->context) == 0) {
        passage->context = previous;
    }
    return BERTH_OK;
}

static enum berth_status read_title(struct squad_reader *reader, const json *object,
                                    const char *location, struct squad_passage *passage) {
    passage->title = "";
    const json *title = json_member(object, "title");
    return title == NULL || json_is_null_value(title)
               ? BERTH_OK
               : get_text(reader, object, location, "title", &passage->title);
}

static enum berth_status read_article(struct squad_reader *reader, const json *article,
                                      const char *location) {
    struct squad_passage passage;
    const json *paragraphs, *questions;
    TRY(read_title(reader, article, location, &passage));
    TRY(get_array(reader, article, location, "paragraphs", &paragraphs));
    for (size_t p = 0; p < json_length(paragraphs); p++) {
        char here[SQUAD_LOCATION_SIZE];
        const json *paragraph = json_at(paragraphs, p);
        snprintf(here, sizeof here, "%.60s.paragraphs[%zu]", location, p);
        TRY(read_context(reader, paragraph, here, &passage));
        TRY(get_array(reader, paragraph, here, "qas", &questions));
        for (size_t q = 0; q < json_length(questions) && !squad_reader_is_full(reader); q++) {
            char question_location[SQUAD_LOCATION_SIZE];
            snprintf(question_location, sizeof question_location, "%.90s.qas[%zu]", here, q);
            TRY(read_question(reader, json_at(questions, q), question_location, &passage));
        }
    }
    return BERTH_OK;
}

enum berth_status squad_reader_record(struct squad_reader *reader, const json *record,
                                      const char *location) {
    struct squad_passage passage;
    if (!json_is_object_value(record)) {
        return error_set(reader->error, BERTH_BAD_DATA,
                         "%s: %s: expected an article or a question (an object), found %s",
                         reader->name, location, type_name(record));
    }
    if (json_member(record, "paragraphs") != NULL) {
        return read_article(reader, record, location);
    }
    TRY(read_title(reader, record, location, &passage));
    TRY(read_context(reader, record, location, &passage));
    return read_question(reader, record, location, &passage);
}

static enum berth_status read_records(struct squad_reader *reader, const json *records,
                                      const char *format) {
    for (size_t i = 0; i < json_length(records) && !squad_reader_is_full(reader); i++) {
        char location[SQUAD_LOCATION_SIZE];
        snprintf(location, sizeof location, "%s[%zu]", format, i);
        TRY(squad_reader_record(reader, json_at(records, i), location));
    }
    return BERTH_OK;
}

enum berth_status squad_reader_root(struct squad_reader *reader, const json *root) {
    // "2.0" or "v2.0"
    const json *version = json_member(root, "version");
    const char *text = json_text(version);
    reader->is_declared_2 = text != NULL && text[text[0] == 'v'] == '2';
    reader->version_2 |= reader->is_declared_2;
    if (json_is_array_value(root)) {
        return read_records(reader, root, "record ");
    }
    const json *data = json_member(root, "data");
    if (json_is_array_value(data)) {
        return read_records(reader, data, "data");
    }
    if (json_is_object_value(root) && data == NULL && json_member(root, "context") != NULL) {
        return squad_reader_record(reader, root, "line 1");
    }
    return error_set(reader->error, BERTH_BAD_DATA,
                     "%s: expected SQuAD data (an object with an array \"data\", an array of "
                     "records, or one record per line), found %s whose \"data\" is %s",
                     reader->name, type_name(root), type_name(data));
}
