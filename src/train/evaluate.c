// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate.h"

#include <math.h>

enum berth_status evaluation_open(struct evaluation *evaluation, const struct task *task,
                                  const struct task_open *args, struct berth_error *error) {
    *evaluation = (struct evaluation){.task = task};
    TRY(task->open(&evaluation->set, args, error));
    return infer_find_worst(&evaluation->set.source, args->config, &evaluation->shape, error);
}

void evaluation_done(struct evaluation *evaluation) {
    if (evaluation->task != NULL) {
        evaluation->task->close(&evaluation->set);
    }
    *evaluation = (struct evaluation){0};
}

enum berth_status evaluation_predict(struct evaluation *evaluation,
                                     const struct evaluation_run *run, struct infer_result *timing,
                                     struct task_score *score, struct berth_error *error) {
    *score = (struct task_score){.loss = NAN};
    struct infer_args args = {.source = &evaluation->set.source,
                              .shape = &evaluation->shape,
                              .log = run->log,
                              .phase = "predict",
                              .stop = run->stop,
                              .take = evaluation->task->take,
                              .context = &evaluation->set};
    TRY(infer_run(run->trainer, &args, timing, error));
    if (timing->stopped) {
        return BERTH_OK;
    }
    TRY(evaluation->task->conclude(&evaluation->set, run->files, error));
    return evaluation->task->score(&evaluation->set, score, error);
}
