// SPDX-License-Identifier: Apache-2.0
#include "task/prompts.h"

#include "core/memory.h"
#include "model/sentence.h"

static enum berth_status find(const struct task_model *model, const struct call_settings *settings,
                              const char **prompt, struct berth_error *error) {
    const struct sentence *sentence = &model->network->predictor.files.sentence;
    const char *usual = sentence->prompt;
    *prompt = settings->prompt != NULL ? settings->prompt : usual != NULL ? usual : "";
    if (settings->prompt != NULL && settings->prompt_name != NULL) {
        return error_set(error, BERTH_USAGE, "give prompt or prompt_name, not both");
    }
    return settings->prompt_name != NULL
               ? sentence_find_prompt(sentence, settings->prompt_name, prompt, error)
               : BERTH_OK;
}

const char *prompts_of(const struct task_model *model, const struct task_text *text) {
    const char *prompt;
    (void)find(model, &text->settings, &prompt, NULL); // checked before
    return prompt;
}

enum berth_status prompts_known(const struct task_model *model, struct task_text *const *texts,
                                size_t count, struct task_text ***known, size_t *known_count,
                                struct berth_error *error) {
    *known = memory_array(count, sizeof **known);
    *known_count = 0;
    if (*known == NULL) {
        return error_no_memory(error, count * sizeof **known, "the texts");
    }
    for (size_t i = 0; i < count; i++) {
        struct berth_error own;
        const char *prompt;
        if (find(model, &texts[i]->settings, &prompt, &own) == BERTH_OK) {
            (*known)[(*known_count)++] = texts[i];
        } else {
            task_text_fail(texts[i], own.status, own.message);
        }
    }
    return BERTH_OK;
}
