// SPDX-License-Identifier: Apache-2.0
// Inference jobs: opening a model, predicting a whole file, showing samples.
#ifndef BERTH_TRAIN_PREDICT_H
#define BERTH_TRAIN_PREDICT_H

#include "core/device.h"
#include "core/error.h"
#include "core/log.h"
#include "train/engine/engine.h"
#include "train/engine/inputs.h"
#include "train/optimizer/state.h"
#include "train/tasks/task.h"

// A model with its weights on a device, and activations for batches of a given size.
struct predictor {
    struct comm *comm; // of the ranks that divide a prediction; borrowed
    struct model_files files;
    struct device *device;
    struct state state;
    struct engine engine;
};

// Opens files and device of config->model_name_or_path and fits max_seq_length to the model and the
// usual length (inputs_fit_length). Then predictor_load allocates memory for batches of up to
// `extent` and reads the weights. All ranks of `comm` call both.
enum berth_status predictor_open(struct predictor *predictor, struct berth_config *config,
                                 enum param_head head, int64_t usual_length, struct comm *comm,
                                 const struct berth_log *log, struct berth_error *error);
enum berth_status predictor_load(struct predictor *predictor, const struct berth_config *config,
                                 const struct batch_extent *extent, const struct berth_log *log,
                                 struct berth_error *error);
void predictor_done(struct predictor *predictor);

// Implements berth_predict (TASK_PREDICT) and berth_evaluate (TASK_VALIDATE). Processes that were
// started together divide the prediction; rank 0 reports and writes.
enum berth_status predict(const struct task *task, enum task_use use,
                          const struct berth_config *config, struct berth_log log,
                          const volatile int *stop, struct berth_run_result *result,
                          struct berth_error *error);

// The arguments of berth_show_squad.
struct show_args {
    const struct berth_config *config;
    struct berth_selection samples;
    const struct berth_log *log;
    int (*visit)(void *context, const struct berth_sample *sample);
    void *context;
};
enum berth_status show_squad(const struct show_args *args, struct berth_error *error);

#endif
