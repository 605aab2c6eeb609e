// SPDX-License-Identifier: Apache-2.0
#include "train/tasks/task.h"

#include "core/file.h"

#include <stdio.h>

const char *task_file(const struct berth_config *config, enum task_use use) {
    return use == TASK_TRAIN      ? config->train_file
           : use == TASK_VALIDATE ? config->validation_file
                                  : config->predict_file;
}

enum berth_status task_need_file(const struct berth_config *config, enum task_use use,
                                 const char *otherwise, struct berth_error *error) {
    static const char *const names[] = {"train_file", "validation_file", "predict_file"};
    return task_need(task_file(config, use), names[use], otherwise, error);
}

enum berth_status task_need(const char *value, const char *name, const char *otherwise,
                            struct berth_error *error) {
    return value != NULL && value[0] != '\0'
               ? BERTH_OK
               : error_set(error, BERTH_USAGE, "--%s is missing%s", name, otherwise);
}

enum berth_status task_validates(const struct berth_config *config, const char *expected,
                                 int *answer, struct berth_error *error) {
    const char *path = config->validation_file;
    *answer = config->do_eval && path != NULL;
    return !*answer || file_exists(path)
               ? BERTH_OK
               : error_set(error, BERTH_NO_INPUT, "%s: no such file; expected %s", path, expected);
}

void task_score_add(struct task_score *score, const char *name, double value) {
    struct berth_metric *item = &score->items[score->count++];
    snprintf(item->name, sizeof item->name, "%s", name);
    item->value = value;
}

int task_predicts(const struct berth_config *config) {
    return config->do_predict < 0 ? config->predict_file != NULL : config->do_predict;
}
