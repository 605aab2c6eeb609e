// SPDX-License-Identifier: Apache-2.0
// What happens to an update that is a spike (--spike_policy): it is reported, skipped, or the run
// rolls back to its last checkpoint. train/progress/spikes.h decides which updates are spikes.
#include "core/number.h"
#include "train/job/loop_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define MAX_ROLLBACKS 10 // to one checkpoint

void loop_report_spike(const struct run *run, const struct update_result *update,
                       const struct spike_limits *limits, const char *outcome) {
    const struct progress *progress = run->progress;
    const double factor = run->loop->config->run.spike_factor;
    const int is_loss = update->loss > limits->loss;
    const double found = is_loss ? update->loss : update->grad_norm;
    const double mean = (is_loss ? limits->loss : limits->grad_norm) / factor;
    char text[256];
    number_format(
        text, sizeof text, "update %" PRId64 " is a spike: %s %.4g, %.3g times the mean, %.4g; %s",
        progress->step + 1, is_loss ? "loss" : "gradient norm", found, found / mean, mean, outcome);
    LOG_RECORD(run->loop->log, BERTH_WARNING, text, log_integer("step", progress->step + 1),
               log_integer("spikes", progress->spikes.found + 1), log_real("loss", update->loss),
               log_real("loss_mean", limits->loss / factor),
               log_real("grad_norm", update->grad_norm),
               log_real("grad_norm_mean", limits->grad_norm / factor),
               log_integer("data_update",
                           1 + progress_data_step(progress, run->loop->batching,
                                                  loop_own_step(run->loop, progress->step))));
}

void loop_record_spikes(struct run *run, const struct update_result *update,
                        const struct spike_limits *limits) {
    if (run->spike_policy != SPIKE_NONE) {
        spikes_record(&run->progress->spikes, limits, update->loss, update->grad_norm);
    }
}

static void skip_spike(struct run *run, const struct update_result *update,
                       const struct spike_limits *limits, const char *outcome) {
    loop_report_spike(run, update, limits, outcome);
    loop_record_spikes(run, update, limits);
    update_discard(run->loop->updater);
    run->progress->step++;
    run->progress->skipped++;
}

static enum berth_status roll_back(struct run *run, const struct update_result *update,
                                   const struct spike_limits *limits, struct berth_error *error) {
    struct path folder;
    char outcome[96];
    TRY(loop_continue_saving(run, 1, error));
    TRY(checkpoint_locate(run->loop->updater->engine->comm, run->loop->config->run.output_dir,
                          run->saved_step, &folder, error));
    if (folder.text[0] == '\0') {
        skip_spike(run, update, limits, "it is skipped, because there is no checkpoint yet");
        return BERTH_OK;
    }
    if (run->rollbacks == MAX_ROLLBACKS) {
        return error_set(error, BERTH_FAILURE,
                         "update %" PRId64 ": a spike after each of %d rollbacks to update "
                         "%" PRId64 "; resume with a lower learning_rate, or with a higher "
                         "spike_factor",
                         run->progress->step + 1, MAX_ROLLBACKS, run->saved_step);
    }
    snprintf(outcome, sizeof outcome,
             "the run rolls back to update %" PRId64 " and leaves out its data", run->saved_step);
    loop_report_spike(run, update, limits, outcome);
    run->rollbacks++;
    // Continues from the checkpoint's state, with the data after that of the spike.
    struct progress *progress = run->progress;
    const int64_t spike = progress->step + progress->data_shift;
    const struct training_loop *loop = run->loop;
    struct comm *comm = loop->updater->engine->comm;
    update_suspend(loop->updater);
    TRY(comm_settle(comm, checkpoint_accept(folder.text, loop->log, error), error));
    TRY(comm_settle(comm, checkpoint_read(loop->content, folder.text, loop->log, error), error));
    TRY(loss_scale_settle(&run->progress->loss_scale, &loop->config->optimizer,
                          loop->config->machine.precision == BERTH_FP16, error));
    TRY(comm_settle(comm, update_resume(loop->updater, error), error));
    progress->data_shift = spike + 1 - progress->step;
    return BERTH_OK;
}

enum berth_status loop_handle_spike(struct run *run, const struct update_result *update,
                                    const struct spike_limits *limits, struct berth_error *error) {
    if (run->spike_policy == SPIKE_ROLLBACK) {
        return roll_back(run, update, limits, error);
    }
    skip_spike(run, update, limits, "it is skipped");
    return BERTH_OK;
}
