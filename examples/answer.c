// SPDX-License-Identifier: Apache-2.0
// Answers a question from a text with libberth.
//
//   cc answer.c $(pkg-config --cflags --libs berth) -o answer
//   ./answer MODEL_FOLDER "Where do I live?" "I live in Bern."
#include <berth.h>
#include <stdio.h>

// Prints the library's warnings. With `write` NULL the library is silent.
static void print_warning(void *context, const struct berth_record *record) {
    (void)context;
    if (record->kind == BERTH_RECORD_WARNING) {
        fprintf(stderr, "warning: %s\n", record->text);
    }
}

int main(int count, char **words) {
    if (count != 4) {
        fprintf(stderr, "usage: %s MODEL_FOLDER QUESTION TEXT\n", words[0]);
        return BERTH_USAGE;
    }
    struct berth_config config;
    struct berth_error error;
    struct berth_model *model;
    struct berth_log log = {.write = print_warning};
    berth_config_init(&config);
    config.model_name_or_path = words[1];
    enum berth_status status = berth_model_open(&config, log, &model, &error);
    if (status != BERTH_OK) {
        fprintf(stderr, "%s: %s\n", berth_status_name(status), error.message);
        return status;
    }
    struct berth_answer answers[3];
    size_t found;
    status = berth_model_answer(model, words[2], words[3], answers, 3, &found, &error);
    if (status == BERTH_OK) {
        for (size_t i = 0; i < found; i++) {
            printf("%3.0f %%  %s\n", 100.0 * answers[i].probability, answers[i].text);
        }
        berth_answers_free(answers, found);
    } else {
        fprintf(stderr, "%s: %s\n", berth_status_name(status), error.message);
    }
    berth_model_close(model);
    return status;
}
