// SPDX-License-Identifier: Apache-2.0
// Writes DeepSpeed's checkpoints: the model, and with --zero_stage the optimizer's state of one of
// Berth's checkpoints. The state is read by convert_optimizer.c, and the files get their form in
// format/deepspeed.
#include "api/conversion.h"
#include "api/convert_optimizer.h"
#include "core/file.h"
#include "core/memory.h"
#include "format/deepspeed/deepspeed_write.h"
#include "model/module_order.h"

// The groups of a program with two: weight decay, and none for biases and layer norms.
static size_t fill_groups(const struct convert_optimizer *state, struct deepspeed_group *groups) {
    const size_t ends[] = {state->decaying, state->rows[CONVERT_WEIGHTS].count};
    size_t first = 0, count = 0;
    for (int i = 0; i < 2; i++) {
        if (ends[i] > first) {
            struct deepspeed_group *group = &groups[count++];
            group->count = ends[i] - first;
            group->weight_decay = i == 0 ? state->facts.optimizer.weight_decay : 0;
            group->states[DEEPSPEED_MASTER] = state->rows[CONVERT_WEIGHTS].list + first;
            group->states[DEEPSPEED_EXP_AVG] = state->rows[CONVERT_EXP_AVG].list + first;
            group->states[DEEPSPEED_EXP_AVG_SQ] = state->rows[CONVERT_EXP_AVG_SQ].list + first;
        }
        first = ends[i];
    }
    return count;
}

static enum berth_status write_with_state(const struct conversion *conversion,
                                          struct deepspeed_out *out, const struct outgoing *module,
                                          const struct convert_optimizer *state,
                                          struct berth_error *error) {
    const struct run_facts *facts = &state->facts;
    struct deepspeed_group groups[DEEPSPEED_MAX_GROUPS];
    struct deepspeed_tie ties[WEIGHT_TIES];
    const struct deepspeed_optimizer optimizer = {.stage = conversion->zero_stage,
                                                  .groups = groups,
                                                  .group_count = fill_groups(state, groups),
                                                  .updates = facts->updates,
                                                  .rate = facts->next_rate,
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
    // The second names of tensors in the module: they share the numbers.
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
    out->tie_count = count;
    out->step = conversion->step > 0 ? conversion->step : facts->step;
    out->skipped = facts->skipped;
    out->samples = facts->step * facts->sequences;
    return deepspeed_write(conversion->folder, out, error);
}

enum berth_status convert_to_deepspeed(const struct conversion *conversion,
                                       struct berth_error *error) {
    struct outgoing module DONE_BY(outgoing_done) = {0};
    const struct path path = path_in(conversion->input, CONVERT_OPTIMIZER_FILE);
    if (conversion->zero_stage < 0 && file_exists(path.text)) {
        log_note(&conversion->log,
                 "the optimizer's state of the checkpoint is left out; zero_stage writes it");
    }
    TRY(outgoing_read(conversion, &module, error));
    struct deepspeed_out out = {.module = module.list,
                                .count = module.count,
                                .is_bf16 =
                                    conversion->retypes && conversion->matrices == TENSOR_BF16,
                                .step = conversion->step,
                                .ranks = conversion->ranks};
    struct convert_optimizer state DONE_BY(convert_optimizer_done) = {0};
    if (conversion->zero_stage < 0) {
        return deepspeed_write(conversion->folder, &out, error);
    }
    TRY(convert_optimizer_read(conversion, &state, error));
    return write_with_state(conversion, &out, &module, &state, error);
}
