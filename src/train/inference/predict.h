// SPDX-License-Identifier: Apache-2.0
// Inference jobs: opening a model without gradients, and predicting a whole file. Jobs of the API
// and models that stay open (src/task/network.c) begin here; evaluation during training does not.
#ifndef BERTH_TRAIN_PREDICT_H
#define BERTH_TRAIN_PREDICT_H

#include "core/error.h"
#include "core/log.h"
#include "device/device.h"
#include "settings/settings.h"
#include "train/engine/engine.h"
#include "train/engine/inputs.h"
#include "train/optimizer/state.h"
#include "train/tasks/training_task.h"

#include <stdatomic.h>

// A model with its weights on a device, and activations for batches of a given size.
struct predictor {
    struct comm *comm; // of the ranks that divide a prediction; borrowed
    struct model_files files;
    struct device *device;
    struct state state;
    struct engine engine;
    int divides;                    // as in struct predictor_kind
    const struct predictor *lender; // whose device and weights it uses; NULL: its own
    struct param_table lent;        // the lender's table as an encoder's
};

struct predictor_kind {
    enum param_head head;
    int64_t usual_length; // of the sequences (struct length_limits)
    // These are called as those of struct training_task.
    enum berth_status (*follow)(struct settings *config, const struct model_files *files,
                                const struct berth_log *log, struct berth_error *error);
    int divides; // the ranks divide what is run; otherwise each runs its own
    // Of an encoder: a loaded predictor of the same model and settings, which it borrows device and
    // weights from. It must be closed after this one, and only one of them may run, load or be
    // closed at a time. NULL: none.
    const struct predictor *lender;
};

// Opens files and device of config->model_name_or_path and fits the length to the model and the
// usual length (inputs_fit_length). Then predictor_load allocates memory for batches of up to
// `extent` and reads the weights. All ranks of `comm` call both.
enum berth_status predictor_open(struct predictor *predictor, struct settings *config,
                                 const struct predictor_kind *kind, struct comm *comm,
                                 const struct berth_log *log, struct berth_error *error);
enum berth_status predictor_load(struct predictor *predictor, const struct settings *config,
                                 const struct batch_extent *extent, const struct berth_log *log,
                                 struct berth_error *error);
void predictor_done(struct predictor *predictor);

struct predict_args {
    const struct training_task *task;
    enum task_use use; // TASK_PREDICT or TASK_VALIDATE
    const struct settings *config;
    struct berth_log log;
    const atomic_int *stop;
    int after_training;       // as in struct task_open
    enum berth_status status; // of this process so far, with the error passed; unless BERTH_OK in
                              // every process, nothing is predicted
};

// Implements job_predict (TASK_PREDICT) and job_evaluate (TASK_VALIDATE). Processes that were
// started together divide the prediction; rank 0 reports and writes. *result is filled in; the
// caller has set it to what a failure returns.
enum berth_status predict(const struct predict_args *args, struct berth_run_result *result,
                          struct berth_error *error);

#endif
