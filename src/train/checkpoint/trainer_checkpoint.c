// SPDX-License-Identifier: Apache-2.0
// Takes over the progress of a run of transformers' Trainer: its log, and the step that its
// trainer_state.json has. Data of another size are refused; another learning rate or decay is
// logged. foreign_checkpoint.c calls it between the weights and the moments, which
// foreign_moments.c reads.
#include "train/checkpoint/trainer_checkpoint.h"

#include "core/file.h"
#include "format/containers/containers.h"
#include "format/torch/torch.h"
#include "train/optimizer/optimizer.h"
#include "train/optimizer/schedule.h"

#include <inttypes.h>
#include <math.h>

#define STATE_NAME "trainer_state.json"
#define OPTIMIZER_NAME "optimizer.pt"
#define EPOCH_TOLERANCE 0.01 // another tokenizer's windows may be a few more or less
#define RATE_TOLERANCE 1e-3  // of the peak rate

// --- recognising ---------------------------------------------------------------------------------

static enum berth_status read_state(const char *folder, json **state, struct berth_error *error) {
    *state = NULL;
    return json_read_python_file(path_in(folder, STATE_NAME).text, state, error);
}

// Berth's state has a format_version. A Trainer that resumed from it keeps that, but saves an
// optimizer.pt.
static int64_t step_of(const json *state, int has_optimizer) {
    const json *step = json_member(state, "global_step");
    const int is_berths = json_member(progress_own_keys(state), "format_version") != NULL;
    return json_is_integer_value(step) && (!is_berths || has_optimizer) ? json_as_integer(step)
                                                                        : -1;
}

enum berth_status trainer_find_step(const char *folder, int64_t *step, struct berth_error *error) {
    struct berth_error own;
    const int has_optimizer = file_exists(path_in(folder, OPTIMIZER_NAME).text);
    json *state;
    *step = -1;
    if (file_exists(path_in(folder, "manifest.json").text)) {
        return BERTH_OK;
    }
    const enum berth_status status = read_state(folder, &state, &own);
    if (status != BERTH_OK) {
        return file_probe(status, &own, error);
    }
    *step = step_of(state, has_optimizer);
    json_free(state);
    return BERTH_OK;
}

// --- opening -------------------------------------------------------------------------------------

static enum berth_status open_optimizer(struct trainer_checkpoint *checkpoint,
                                        struct berth_error *error) {
    const struct path path = path_in(checkpoint->folder, OPTIMIZER_NAME);
    if (!file_exists(path.text)) {
        return BERTH_OK;
    }
    TRY(tensor_file_open(&checkpoint->optimizer, path.text, error));
    checkpoint->has_optimizer = 1;
    return BERTH_OK;
}

enum berth_status trainer_open(struct trainer_checkpoint *checkpoint, const char *folder,
                               struct berth_error *error) {
    *checkpoint = (struct trainer_checkpoint){.folder = folder};
    enum berth_status status = read_state(folder, &checkpoint->state, error);
    status = status == BERTH_OK ? open_optimizer(checkpoint, error) : status;
    if (status != BERTH_OK) {
        trainer_close(checkpoint);
    }
    return status;
}

void trainer_close(struct trainer_checkpoint *checkpoint) {
    json_free(checkpoint->state);
    if (checkpoint->has_optimizer) {
        tensor_file_close(&checkpoint->optimizer);
    }
    *checkpoint = (struct trainer_checkpoint){0};
}

// --- comparing -----------------------------------------------------------------------------------

// The number in a group of parameters or a tuple; NaN if there is none.
static double number_of(const struct pickle_value *value) {
    int64_t integer;
    return pickle_is(value, PICKLE_REAL)     ? value->real
           : pickle_integer(value, &integer) ? (double)integer
                                             : NAN;
}

static void compare_settings(const struct trainer_checkpoint *checkpoint,
                             const struct checkpoint_content *content, int64_t step,
                             const struct berth_log *log) {
    const struct torch_file *torch =
        checkpoint->has_optimizer ? torch_of(&checkpoint->optimizer) : NULL;
    if (torch == NULL) {
        return;
    }
    const struct pickle *pickle = &torch->pickle;
    const struct pickle_value *groups = pickle_member(pickle, pickle->root, "param_groups");
    const struct pickle_value *group = pickle_item(pickle, groups, 0);
    const struct pickle_value *betas = pickle_member(pickle, group, "betas");
    const struct optimizer optimizer = content->optimizer;
    const struct {
        const char *name;
        double then, now;
    } rows[] = {
        {"weight_decay", number_of(pickle_member(pickle, group, "weight_decay")),
         optimizer.weight_decay},
        {"adam_beta1", number_of(pickle_item(pickle, betas, 0)), optimizer.beta1},
        {"adam_beta2", number_of(pickle_item(pickle, betas, 1)), optimizer.beta2},
        {"adam_epsilon", number_of(pickle_member(pickle, group, "eps")), optimizer.epsilon}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (fabs(rows[i].then - rows[i].now) > 1e-6 * fabs(rows[i].then)) { // false for NaN
            log_note(log, "resume: %s was %g and is now %g", rows[i].name, rows[i].then,
                     rows[i].now);
        }
    }
    const double then = number_of(pickle_member(pickle, group, "lr"));
    const double now = schedule_rate(content->schedule, step);
    if (!content->rewarmup &&
        fabs(then - now) > RATE_TOLERANCE * content->schedule->peak) { // false for NaN
        log_warning(log,
                    "%s: the learning rate of update %" PRId64 " was to be %.4g and is now %.4g; "
                    "to continue as planned, give the learning_rate, schedule, warm-up and number "
                    "of epochs or updates of the run to resume",
                    checkpoint->folder, step + 1, then, now);
    }
}

// --- restoring -----------------------------------------------------------------------------------

enum berth_status trainer_restore(const struct trainer_checkpoint *checkpoint,
                                  const struct checkpoint_content *content,
                                  const struct weights *weights, int64_t step,
                                  const struct berth_log *log, struct berth_error *error) {
    // A parameter that the checkpoint lacks would be a random one.
    const struct model_files *files = content->files;
    for (size_t i = 0; i < files->table.count; i++) {
        const char *name = files->table.params[i].name;
        if (weights_find(weights, name) == NULL) {
            return error_set(error, BERTH_CONFIG,
                             "%s: expected the checkpoint of %s, found no %s; name a checkpoint of "
                             "the same task, or start from its weights with model_name_or_path",
                             checkpoint->folder, param_head_row(files->table.head)->title, name);
        }
    }
    struct progress *progress = content->progress;
    const json *entries = json_member(checkpoint->state, "log_history");
    if (!json_is_array_value(entries)) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s/" STATE_NAME ": key \"log_history\": expected an array",
                         checkpoint->folder);
    }
    json *copy = json_copy_deep(entries);
    if (copy == NULL) {
        return error_no_memory(error, 0, "the run's log");
    }
    json_free(progress->log);
    progress->log = copy;
    TRY(json_get_real(checkpoint->state, checkpoint->folder, "total_flos", &progress->total_flos,
                      error));
    if (json_is_number_value(json_member(checkpoint->state, "best_metric"))) {
        log_note(log,
                 "%s: the best score so far is forgotten, because best_metric does not say which "
                 "score it is",
                 checkpoint->folder);
    }
    if (!content->run->phase2) {
        // The Trainer's epoch is a fraction of its micro-batches, as batching_epochs'.
        double then = 0;
        TRY(json_get_real(checkpoint->state, checkpoint->folder, "epoch", &then, error));
        const double now = batching_epochs(content->batching, step);
        const double update = now / (double)(step > 0 ? step : 1);
        if (!(then <= 0 || fabs(then - now) <= EPOCH_TOLERANCE * then + update)) {
            return error_set(error, BERTH_CONFIG,
                             "%s: after update %" PRId64
                             " the run to resume was at epoch %.4g, and "
                             "this one would be at epoch %.4g; resume with the same data and the "
                             "same number of sequences in an update",
                             checkpoint->folder, step, then, now);
        }
        compare_settings(checkpoint, content, step, log);
    }
    return BERTH_OK;
}
