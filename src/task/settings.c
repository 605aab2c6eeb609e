// SPDX-License-Identifier: Apache-2.0
// The settings of a call that runs a task: what is asked of a model that is already open.
#include "core/words.h"
#include "task/task.h"

#include <string.h>

#define FIELD(its_name, member) .name = (its_name), .offset = offsetof(struct task_settings, member)

const struct task_settings task_usual = {
    .with_no_answer = -1, .whole_words = -1, .normalize = -1, .pooling = -1, .special = 1};

const struct option_row task_options[] = {
    {FIELD("top", top), .type = OPTION_INTEGER, AT_LEAST(1), .aliases = "top_k", .unit = "N",
     .help = "most answers, classes, or words of a mask, best first"},
    {FIELD("max_answer_length", answer_length), .type = OPTION_INTEGER, AT_LEAST(1), .unit = "N",
     .help = "most tokens of an answer"},
    {FIELD("version_2_with_negative", with_no_answer), .type = OPTION_FLAG,
     .aliases = "handle_impossible_answer", .help = "the best answer may be that there is none"},
    {FIELD("align_to_words", whole_words), .type = OPTION_FLAG,
     .help = "answers begin and end with words, not within one"},
    {FIELD("score", score), .type = OPTION_CHOICE, .default_value = "auto", .unit = "HOW",
     .choices = "auto|none|sigmoid|softmax",
     .help = "how the numbers of classes become scores; auto: as the model was trained"},
    {FIELD("aggregation", aggregation), .type = OPTION_CHOICE, .default_value = "entities",
     .unit = "HOW", .choices = "entities|none",
     .help = "entities: words that belong together are one item; none: each word is"},
    {FIELD("pooling", pooling), .type = OPTION_CHOICE, .unit = "HOW",
     .choices = "mean|cls|max|mean_sqrt_len_tokens|weightedmean|lasttoken",
     .shown = "as in the model's folder, else mean", .help = "how to combine the tokens of a text"},
    {FIELD("normalize", normalize), .type = OPTION_FLAG,
     .shown = "as in the model's folder, else true", .help = "scale every embedding to length 1"},
    {FIELD("dimensions", dimensions), .type = OPTION_INTEGER, AT_LEAST(1), .unit = "N",
     .aliases = "truncate_dim",
     .help = "keep the first N numbers of an embedding; one of length 1 is scaled to it again"},
    {FIELD("add_special_tokens", special), .type = OPTION_FLAG, .default_value = "true",
     .help =
         "tokens as the model reads them, at most max_seq_length; false: all of the text's own"},
    {FIELD("overflow", must_fit), .type = OPTION_CHOICE, .default_value = "cut", .unit = "HOW",
     .choices = "cut|error",
     .help = "what becomes of a text with more tokens than the model reads"},
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

enum berth_status task_set(struct task_settings *settings, const struct option_row *row,
                           const char *value, struct berth_error *error) {
    void *field = (char *)settings + row->offset;
    union option_value parsed;
    TRY(option_parse(row, value, &parsed, error));
    if (row->type == OPTION_INTEGER) {
        *(int64_t *)field = parsed.integer;
    } else {
        *(int *)field = row->type == OPTION_FLAG ? parsed.flag : (int)parsed.choice;
    }
    return BERTH_OK;
}
