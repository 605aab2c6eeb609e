// SPDX-License-Identifier: Apache-2.0
// The public jobs: fine-tune, predict, evaluate, show.
#include "berth.h"
#include "task/squad_metrics.h"
#include "train/finetune.h"
#include "train/predict.h"

#include <math.h>
#include <string.h>

enum berth_status berth_finetune_squad(const struct berth_config *config, struct berth_log log,
                                       const volatile int *stop, struct berth_run_result *result,
                                       struct berth_error *error) {
    return finetune(&task_squad, config, log, stop, result, error);
}

enum berth_status berth_predict_squad(const struct berth_config *config, struct berth_log log,
                                      const volatile int *stop, struct berth_run_result *result,
                                      struct berth_error *error) {
    return predict(&task_squad, config, log, stop, result, error);
}

enum berth_status berth_finetune_classify(const struct berth_config *config, struct berth_log log,
                                          const volatile int *stop, struct berth_run_result *result,
                                          struct berth_error *error) {
    return finetune(&task_classify, config, log, stop, result, error);
}

enum berth_status berth_predict_classify(const struct berth_config *config, struct berth_log log,
                                         const volatile int *stop, struct berth_run_result *result,
                                         struct berth_error *error) {
    return predict(&task_classify, config, log, stop, result, error);
}

double berth_run_metric(const struct berth_run_result *result, const char *name) {
    for (size_t i = 0; i < result->metric_count; i++) {
        if (strcmp(result->metrics[i].name, name) == 0) {
            return result->metrics[i].value;
        }
    }
    return NAN;
}

enum berth_status berth_evaluate_squad(const char *dataset_path, const char *predictions_path,
                                       const char *null_odds_path, double null_threshold,
                                       struct berth_log log, char **text,
                                       struct berth_error *error) {
    return squad_evaluate_files(dataset_path, predictions_path, null_odds_path, null_threshold,
                                &log, text, error);
}

enum berth_status berth_show_squad(const struct berth_config *config, int64_t first, int64_t count,
                                   struct berth_log log,
                                   int (*visit)(void *context, const struct berth_sample *sample),
                                   void *context, struct berth_error *error) {
    struct show_args args = {.config = config,
                             .first = first,
                             .count = count,
                             .log = &log,
                             .visit = visit,
                             .context = context};
    return show_squad(&args, error);
}
