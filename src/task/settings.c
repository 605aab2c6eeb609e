// SPDX-License-Identifier: Apache-2.0
// The settings of a call that runs a task: what is asked of a model that is already open. A table
// of option rows, which api/run.c, the verbs and the server read their values with; each row of a
// task names those that it follows, and does what they say.
#include "core/memory.h"
#include "core/text_util.h"
#include "format/json/json.h"
#include "task/task.h"

#include <string.h>

#define FIELD(its_name, member) .name = (its_name), .offset = offsetof(struct call_settings, member)

const struct call_settings task_usual = {
    .with_no_answer = -1, .whole_words = -1, .normalize = -1, .special = 1};

const struct option_row task_options[] = {
    {FIELD("top", top), .type = OPTION_INTEGER, AT_LEAST(1), .aliases = "top_k", .unit = "N",
     .help = "only the N best results of a text, best first"},
    {FIELD("max_answer_length", answer_length), .type = OPTION_INTEGER, AT_LEAST(1), .unit = "N",
     .help = "most tokens of an answer"},
    {FIELD("version_2_with_negative", with_no_answer), .type = OPTION_FLAG,
     .aliases = "handle_impossible_answer", .help = "the best answer may be that there is none"},
    {FIELD("align_to_words", whole_words), .type = OPTION_FLAG,
     .help = "answers begin and end with words, not within one"},
    {FIELD("score", score), .type = OPTION_CHOICE, .default_value = "auto", .unit = "HOW",
     .choices = "auto|none|sigmoid|softmax",
     .help = "how the numbers of classes become scores; auto: as the model was trained"},
    {FIELD("label", label), .type = OPTION_TEXT, .unit = "NAME", .shown = "the model's only one",
     .help = "the class whose score ranks the documents"},
    {FIELD("aggregation", aggregation), .type = OPTION_CHOICE, .default_value = "first",
     .unit = "HOW", .choices = "first|average|max|none",
     .help = "how a word gets its label: from its first piece, from the mean of its pieces, or "
             "from its most likely piece; words that belong together are one item; none: each word "
             "is an item"},
    {FIELD("ignore_labels", ignore_labels), .type = OPTION_TEXT, .default_value = "O",
     .unit = "LIST", .help = "labels, or types of entities, to leave out"},
    {FIELD("candidate_labels", candidate_labels), .type = OPTION_TEXT, .unit = "LIST",
     .shown = "the model's classes",
     .help = "classes to choose from, by a model of entailment (zero-shot classification)"},
    {FIELD("hypothesis_template", hypothesis_template), .type = OPTION_TEXT,
     .default_value = "This example is {}.", .unit = "TEXT",
     .help = "sentence that a text must entail for a candidate label to fit; the label takes the "
             "place of {}"},
    {FIELD("multi_label", multi_label), .type = OPTION_FLAG, .default_value = "false",
     .help = "judge each candidate label by itself; false: exactly one of them is right"},
    {FIELD("targets", targets), .type = OPTION_TEXT, .unit = "LIST", .shown = "every word",
     .help = "words to choose from for a mask"},
    {FIELD("normalize", normalize), .type = OPTION_FLAG,
     .shown = "as in the model's folder, else true", .help = "scale every embedding to length 1"},
    {FIELD("prompt", prompt), .type = OPTION_TEXT, .unit = "TEXT", .may_be_empty = 1,
     .shown = "the folder's default prompt, if any",
     .help = "text to put before every text; an empty one: none"},
    {FIELD("prompt_name", prompt_name), .type = OPTION_TEXT, .unit = "NAME",
     .shown = "the folder's default_prompt_name",
     .help = "the prompt of that name in the model's config_sentence_transformers.json"},
    {FIELD("dimensions", dimensions), .type = OPTION_INTEGER, AT_LEAST(1), .unit = "N",
     .aliases = "truncate_dim",
     .help = "keep only the first N numbers of an embedding; if it had length 1, it is scaled to "
             "length 1 again"},
    {FIELD("add_special_tokens", special), .type = OPTION_FLAG, .default_value = "true",
     .help = "give the tokens that the model reads, at most max_seq_length; false: all tokens of "
             "the text, without special ones"},
    {FIELD("overflow", overflow), .type = OPTION_CHOICE, .default_value = "cut", .unit = "HOW",
     .choices = "cut|error|windows",
     .help = "what to do with a text that has more tokens than the model reads; windows: read it "
             "in parts and take the mean of their vectors, weighted by their tokens"},
    {FIELD("offsets", unit), .type = OPTION_CHOICE, .default_value = "bytes", .unit = "WHAT",
     .choices = "bytes|characters|utf16", .help = "the unit of an item's start and end"},
};
const size_t task_option_count = sizeof task_options / sizeof *task_options;

const struct option_row *task_option_find(const char *name) {
    size_t i = 0;
    while (i < task_option_count && !option_is_named(&task_options[i], name)) {
        i++;
    }
    return i < task_option_count ? &task_options[i] : NULL;
}

struct option_row task_option_of(const struct task_row *task, const char *name) {
    struct option_row row = *task_option_find(name);
    if (strcmp(row.name, "overflow") == 0 && !task->can_use_windows) {
        row.choices = "cut|error";
        row.help = "what to do with a text that has more tokens than the model reads";
    }
    return row;
}

int task_follows(const struct task_row *task, const char *name) {
    char own[OPTION_NAME_SIZE];
    const char *names = task->settings;
    while (option_next_name(&names, own)) {
        if (option_same_name(own, name)) {
            return 1;
        }
    }
    return 0;
}

enum berth_status task_set(struct call_settings *settings, const struct option_row *row,
                           const char *value, struct berth_error *error) {
    void *field = (char *)settings + row->offset;
    union option_value parsed;
    TRY(option_parse(row, value, &parsed, error));
    if (row->type == OPTION_INTEGER) {
        *(int64_t *)field = parsed.integer;
    } else if (row->type == OPTION_TEXT) {
        *(const char **)field = parsed.text;
    } else {
        *(int *)field = row->type == OPTION_FLAG ? parsed.flag : (int)parsed.choice;
    }
    return BERTH_OK;
}

// --- lists ---------------------------------------------------------------------------------------

static int add_item(struct task_list *list, size_t *capacity, const char *text, size_t length) {
    char *own = memory_string_of(text, length);
    char **items = memory_grow(list->items, capacity, list->count + 1, sizeof *items);
    list->items = items != NULL ? items : list->items;
    if (items == NULL || own == NULL) {
        memory_free(own);
        return 0;
    }
    items[list->count++] = own;
    return 1;
}

static enum berth_status read_array(const char *name, const json *array, struct task_list *list,
                                    struct berth_error *error) {
    size_t capacity = 0;
    for (size_t i = 0; i < json_length(array); i++) {
        const char *text = json_text(json_at(array, i));
        if (text == NULL || text[0] == '\0' ||
            strlen(text) != json_text_length(json_at(array, i))) {
            return error_set(error, BERTH_USAGE, "%s: element %zu: expected a text", name, i);
        }
        if (!add_item(list, &capacity, text, strlen(text))) {
            return error_no_memory(error, strlen(text), "a list");
        }
    }
    return BERTH_OK;
}

enum berth_status task_list_read(const char *name, const char *value, struct task_list *list,
                                 struct berth_error *error) {
    *list = (struct task_list){.items = NULL};
    json *array = NULL;
    if (value[strspn(value, " \t\n")] == '[') {
        TRY(json_read_memory(name, value, strlen(value), &array, error));
        const enum berth_status status = read_array(name, array, list, error);
        json_free(array);
        return status;
    }
    static const char blanks[] = " \t\n";
    size_t capacity = 0;
    while (*value != '\0') {
        const char *begin = value + strspn(value, blanks), *end = value + strcspn(value, ",");
        value = end + (*end == ',');
        while (end > begin && strchr(blanks, end[-1]) != NULL) {
            end--;
        }
        if (end > begin && !add_item(list, &capacity, begin, (size_t)(end - begin))) {
            return error_no_memory(error, (size_t)(end - begin), "a list");
        }
    }
    return BERTH_OK;
}

void task_list_done(struct task_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        memory_free(list->items[i]);
    }
    memory_free(list->items);
}

int task_list_has(const struct task_list *list, const char *text) {
    size_t i = 0;
    while (i < list->count && strcmp(list->items[i], text) != 0) {
        i++;
    }
    return i < list->count;
}
