// SPDX-License-Identifier: Apache-2.0
// Writes DeepSpeed's checkpoints: the model, and with --zero_stage the optimizer's state of one of
// Berth's checkpoints, in the order in which the program's module has its parameters.
#include "api/conversion.h"
#include "core/file.h"
#include "core/memory.h"
#include "format/deepspeed/deepspeed_write.h"
#include "model/module_order.h"
#include "train/progress/run_facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIMIZER_FILE "optimizer.safetensors"

// --- the numbers --------------------------------------------------------------------------------

// The optimizer's numbers: master weights and moments, in the order of the module, first those that
// decay.
struct state {
    struct run_facts facts;
    struct outgoing rows[DEEPSPEED_STATE_COUNT];
    size_t decaying;
};

static void state_done(struct state *state) {
    for (int row = 0; row < DEEPSPEED_STATE_COUNT; row++) {
        outgoing_done(&state->rows[row]);
    }
    run_facts_done(&state->facts);
}

// Reads the tensors of `weights` in fp32 under the target's names, without the second names of tied
// tensors.
static enum berth_status read_row(const struct conversion *conversion,
                                  const struct weights *weights, struct outgoing *row,
                                  struct berth_error *error) {
    struct convert_names names = *conversion->names;
    struct conversion plain = *conversion;
    names.ties = 0;
    plain.names = &names;
    plain.weights = *weights;
    plain.retypes = 1;
    plain.matrices = TENSOR_F32;
    return outgoing_read(&plain, row, error);
}

static enum berth_status read_moment(const struct conversion *conversion, const char *path,
                                     const char *prefix, struct outgoing *row,
                                     struct berth_error *error) {
    struct weights weights;
    TRY(weights_open(&weights, path, 0, error));
    weights_select(&weights, prefix);
    const enum berth_status status = read_row(conversion, &weights, row, error);
    weights_close(&weights);
    return status;
}

static enum berth_status check_row(const struct conversion *conversion, const struct state *state,
                                   int row, struct berth_error *error) {
    const struct outgoing *master = &state->rows[DEEPSPEED_MASTER], *moment = &state->rows[row];
    for (size_t i = 0; i < master->count; i++) {
        const struct tensor_out *ours = &master->list[i], *theirs = &moment->list[i];
        if (i >= moment->count || moment->count != master->count ||
            strcmp(ours->name, theirs->name) != 0 || ours->rank != theirs->rank ||
            memcmp(ours->shape, theirs->shape, sizeof ours->shape) != 0) {
            return error_set(error, BERTH_BAD_DATA,
                             "%s/" OPTIMIZER_FILE ": expected the moments of every tensor of "
                             "model.safetensors; those of %s are missing or have another shape",
                             conversion->input, ours->name);
        }
    }
    return BERTH_OK;
}

static enum berth_status read_moments(const struct conversion *conversion, struct state *state,
                                      struct berth_error *error) {
    static const char *const prefixes[] = {
        [DEEPSPEED_EXP_AVG] = "exp_avg.", [DEEPSPEED_EXP_AVG_SQ] = "exp_avg_sq."};
    char *path = path_join(conversion->input, OPTIMIZER_FILE);
    enum berth_status status = path != NULL ? BERTH_OK : path_no_memory(error);
    for (int row = DEEPSPEED_EXP_AVG; row < DEEPSPEED_STATE_COUNT && status == BERTH_OK; row++) {
        status = read_moment(conversion, path, prefixes[row], &state->rows[row], error);
        status = status == BERTH_OK ? check_row(conversion, state, row, error) : status;
    }
    memory_free(path);
    return status;
}

static enum berth_status read_facts(const struct conversion *conversion, struct state *state,
                                    struct berth_error *error) {
    char *path = NULL, *moments = NULL; // the folder of a finished run has only the first
    TRY(file_find(conversion->input, "trainer_state.json", &path, error));
    enum berth_status status = file_find(conversion->input, OPTIMIZER_FILE, &moments, error);
    if (status == BERTH_OK && (path == NULL || moments == NULL)) {
        status = error_set(error, BERTH_NO_INPUT,
                           "%s: --zero_stage needs the optimizer's state, which only a checkpoint "
                           "of Berth has: give a folder OUTPUT/checkpoint-N of the run",
                           conversion->input);
    } else if (status == BERTH_OK) {
        status = run_facts_read(&state->facts, path, error);
    }
    memory_free(moments);
    memory_free(path);
    return status;
}

// Decides by our name of the tensor, which for a stack has a '*' in place of query, key and value.
static int decays(const struct run_facts *facts, const char *theirs) {
    char name[WEIGHT_NAME_SIZE];
    (void)name_translate(theirs, name, sizeof name);
    return optimizer_decays(&facts->optimizer, name);
}

// Moves the tensors with weight decay to the front. All rows have the same names in the same order.
static enum berth_status put_decaying_first(struct state *state, struct berth_error *error) {
    const struct tensor_out *list = state->rows[DEEPSPEED_MASTER].list;
    const size_t count = state->rows[DEEPSPEED_MASTER].count;
    size_t *order = memory_array(count, sizeof *order), used = 0;
    struct tensor_out *sorted = memory_array(count, sizeof *sorted);
    enum berth_status status = BERTH_OK;
    if (order == NULL || sorted == NULL) {
        status = error_no_memory(error, count * sizeof *sorted, "the list of tensors");
    }
    for (int group = 1; group >= 0 && status == BERTH_OK; group--) {
        for (size_t i = 0; i < count; i++) {
            if (decays(&state->facts, list[i].name) == group) {
                order[used++] = i;
            }
        }
        state->decaying = group ? used : state->decaying;
    }
    for (int row = 0; row < DEEPSPEED_STATE_COUNT && status == BERTH_OK; row++) {
        for (size_t i = 0; i < count; i++) {
            sorted[i] = state->rows[row].list[order[i]];
        }
        memcpy(state->rows[row].list, sorted, count * sizeof *sorted);
    }
    memory_free(order);
    memory_free(sorted);
    return status;
}

static int compare_order(const void *a, const void *b) {
    return module_order_compare(((const struct tensor_out *)a)->name,
                                ((const struct tensor_out *)b)->name);
}

static enum berth_status read_state(const struct conversion *conversion, struct state *state,
                                    struct berth_error *error) {
    TRY(read_facts(conversion, state, error));
    TRY(read_row(conversion, &conversion->weights, &state->rows[DEEPSPEED_MASTER], error));
    TRY(read_moments(conversion, state, error));
    for (int row = 0; row < DEEPSPEED_STATE_COUNT; row++) {
        qsort(state->rows[row].list, state->rows[row].count, sizeof *state->rows[row].list,
              compare_order);
    }
    return put_decaying_first(state, error);
}

// --- writing ------------------------------------------------------------------------------------

// The groups of a program with two: weight decay, and none for biases and layer norms.
static size_t fill_groups(const struct state *state, struct deepspeed_group *groups) {
    const size_t ends[] = {state->decaying, state->rows[DEEPSPEED_MASTER].count};
    size_t first = 0, count = 0;
    for (int i = 0; i < 2; i++) {
        if (ends[i] > first) {
            struct deepspeed_group *group = &groups[count++];
            group->count = ends[i] - first;
            group->weight_decay = i == 0 ? state->facts.optimizer.weight_decay : 0;
            for (int row = 0; row < DEEPSPEED_STATE_COUNT; row++) {
                group->states[row] = state->rows[row].list + first;
            }
        }
        first = ends[i];
    }
    return count;
}

// The second names of tensors in the module: they share the numbers.
static size_t find_ties(const struct outgoing *module, struct deepspeed_tie *ties) {
    size_t count = 0;
    for (size_t i = 0; i < module->count; i++) {
        for (size_t k = 0; k < module->count && count < WEIGHT_TIES; k++) {
            // A copy comes after its source in the parameters' order.
            if (i != k && module->list[i].data == module->list[k].data &&
                module_order_compare(module->list[i].name, module->list[k].name) > 0) {
                ties[count++] = (struct deepspeed_tie){module->list[i].name, module->list[k].name};
            }
        }
    }
    return count;
}

static enum berth_status write_with_state(const struct conversion *conversion,
                                          struct deepspeed_out *out, const struct outgoing *module,
                                          struct state *state, struct berth_error *error) {
    const struct run_facts *facts = &state->facts;
    struct deepspeed_group groups[DEEPSPEED_MAX_GROUPS];
    struct deepspeed_tie ties[WEIGHT_TIES];
    const struct deepspeed_optimizer optimizer = {.stage = conversion->zero_stage,
                                                  .groups = groups,
                                                  .group_count = fill_groups(state, groups),
                                                  .updates = facts->updates,
                                                  .learning_rate = facts->learning_rate,
                                                  .beta1 = facts->optimizer.beta1,
                                                  .beta2 = facts->optimizer.beta2,
                                                  .epsilon = facts->optimizer.epsilon,
                                                  .max_grad_norm = facts->optimizer.max_grad_norm,
                                                  .bias_correction =
                                                      facts->optimizer.bias_correction,
                                                  .max_coeff = facts->optimizer.max_coeff,
                                                  .min_coeff = facts->optimizer.min_coeff};
    out->optimizer = &optimizer;
    out->ties = ties;
    out->tie_count = find_ties(module, ties);
    out->step = conversion->step > 0 ? conversion->step : facts->step;
    out->skipped = facts->skipped;
    out->samples = facts->step * facts->sequences;
    return deepspeed_write(conversion->folder, out, error);
}

static enum berth_status write_module(const struct conversion *conversion,
                                      const struct outgoing *module, struct berth_error *error) {
    struct deepspeed_out out = {.module = module->list,
                                .count = module->count,
                                .is_bf16 =
                                    conversion->retypes && conversion->matrices == TENSOR_BF16,
                                .step = conversion->step,
                                .ranks = conversion->ranks};
    struct state state = {0};
    if (conversion->zero_stage < 0) {
        return deepspeed_write(conversion->folder, &out, error);
    }
    enum berth_status status = read_state(conversion, &state, error);
    if (status == BERTH_OK) {
        status = write_with_state(conversion, &out, module, &state, error);
    }
    state_done(&state);
    return status;
}

static void note_left_out(const struct conversion *conversion) {
    char *path = path_join(conversion->input, OPTIMIZER_FILE);
    if (path != NULL && conversion->zero_stage < 0 && file_exists(path)) {
        log_note(&conversion->log,
                 "the optimizer's state of the checkpoint is left out; --zero_stage writes it");
    }
    memory_free(path);
}

enum berth_status convert_to_deepspeed(const struct conversion *conversion,
                                       struct berth_error *error) {
    struct outgoing module;
    note_left_out(conversion);
    TRY(outgoing_read(conversion, &module, error));
    const enum berth_status status = write_module(conversion, &module, error);
    outgoing_done(&module);
    return status;
}
