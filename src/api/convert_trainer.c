// SPDX-License-Identifier: Apache-2.0
// Writes a checkpoint of transformers' Trainer from one of Berth's: the model, trainer_state.json,
// optimizer.pt (the state_dict of torch's AdamW) and scheduler.pt (that of its LambdaLR).
//
// Leaves out rng_state.pth and scaler.pt, whose random numbers and loss scale mean nothing in
// Berth, and training_args.bin, a Python object that the Trainer does not read. A target of
// convert_targets.c; the Python objects are written by format/torch.
#include "api/conversion.h"
#include "api/convert_optimizer.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"
#include "format/torch/optimizer_nodes.h"
#include "format/torch/torch_nodes.h"
#include "model/architectures.h"
#include "model/folder.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))
enum { GROUPS = 2, GROUP_NODES = 13 };

// --- what the Trainer can go on with ------------------------------------------------------------

static enum berth_status check_formula(const struct conversion *conversion,
                                       const struct optimizer *optimizer,
                                       struct berth_error *error) {
    char formula[128];
    const int clips_alone = (optimizer->clips & CLIP_TENSOR) != 0;
    if (optimizer->row->trust == TRUST_NONE && optimizer->bias_correction && !optimizer->l2_mode &&
        !optimizer->epsilon_inside_root && !clips_alone) {
        return BERTH_OK;
    }
    optimizer_print_formula(optimizer, formula, sizeof formula);
    return error_set(error, BERTH_CONFIG,
                     "%s: the run's optimizer, %s with %s%s, is not torch's AdamW, which the "
                     "Trainer uses; convert the weights alone to hf",
                     conversion->input, optimizer->row->name, formula,
                     clips_alone ? " and each tensor clipped by its own norm" : "");
}

struct schedule_names {
    const char *ours, *theirs;
    int by_fraction; // ours warms up for a fraction of the updates, which need not be whole
};

// The Trainer's schedule that has the run's rates; NULL: it has none. Its schedules begin with the
// run.
static const struct schedule_names *trainer_schedule(const struct run_facts *facts) {
    static const struct schedule_names rows[] = {{"linear", "linear", 1},
                                                 {"cosine", "cosine", 1},
                                                 {"polynomial", "polynomial", 0},
                                                 {"constant", "constant", 0},
                                                 {"constant_warmup", "constant_with_warmup", 1},
                                                 {"inverse_sqrt", "inverse_sqrt", 0}};
    const struct schedule *schedule = &facts->schedule;
    const int begins_later =
        schedule->first > 0 || facts->scheduled != facts->step - facts->skipped;
    const char *name = schedule->row != NULL ? schedule->row->name : "";
    for (size_t i = 0; i < LENGTH(rows) && !begins_later && schedule->offset == 0; i++) {
        if (strcmp(rows[i].ours, name) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

// The settings that the Trainer's files do not hold.
static void note_settings(const struct conversion *conversion, const struct run_facts *facts) {
    const struct schedule_names *names = trainer_schedule(facts);
    const struct schedule *schedule = &facts->schedule;
    const double norm = facts->optimizer.clips != 0 ? facts->optimizer.max_grad_norm : 0;
    if (names == NULL) {
        log_warning(&conversion->log,
                    "the Trainer has no schedule like this run's: the next update has this run's "
                    "rate, %.4g, and later ones follow the Trainer's lr_scheduler_type",
                    facts->next_rate);
        return;
    }
    if (names->by_fraction) {
        const double warmup = schedule->warmup * (double)schedule->total_steps;
        if (fabs(warmup - (double)schedule->warmup_steps) > 1e-6) {
            log_warning(
                &conversion->log,
                "the Trainer rounds the warm-up of %g updates; its learning rates will differ "
                "slightly",
                warmup);
        }
    }
    log_note(&conversion->log,
             "to continue as planned, give the Trainer lr_scheduler_type %s, warmup_steps %" PRId64
             ", max_steps %" PRId64 ", max_grad_norm %g, and updates of %" PRId64 " sequence%s",
             names->theirs, schedule->warmup_steps, schedule->total_steps, norm, facts->sequences,
             number_plural(facts->sequences));
}

// --- optimizer.pt -------------------------------------------------------------------------------

// The nodes of `param_groups` refer to the struct, which must not move.
struct optimizer_tree {
    struct optimizer_nodes nodes;
    struct torch_node betas[2], members[GROUPS][GROUP_NODES], groups[GROUPS];
};

static void fill_group(struct optimizer_tree *tree, int group, const struct run_facts *facts) {
    const struct optimizer *optimizer = &facts->optimizer;
    const struct torch_node members[GROUP_NODES] = {
        node_real("weight_decay", group == 0 ? optimizer->weight_decay : 0),
        node_real("lr", facts->next_rate),
        node_many("betas", TORCH_LIST, tree->betas, LENGTH(tree->betas)),
        node_real("eps", optimizer->epsilon),
        node_truth("amsgrad", 0),
        node_truth("maximize", 0),
        node_none("foreach"),
        node_truth("capturable", 0),
        node_truth("differentiable", 0),
        node_none("fused"),
        node_truth("decoupled_weight_decay", 1),
        node_real("initial_lr", facts->schedule.peak),
        tree->nodes.params[group]};
    memcpy(tree->members[group], members, sizeof members);
    tree->groups[group] = node_many(NULL, TORCH_DICT, tree->members[group], GROUP_NODES);
}

// A model of transformers without a head may have a pooler after everything else, which a model of
// embeddings never updates and whose weights Berth leaves out.
static enum berth_status number_parameters(const struct conversion *conversion,
                                           const struct convert_optimizer *state,
                                           const float *updates, struct tensor_out *step,
                                           struct optimizer_nodes *nodes,
                                           struct berth_error *error) {
    const struct tensor_out *first = state->rows[CONVERT_EXP_AVG].list;
    const struct tensor_out *second = state->rows[CONVERT_EXP_AVG_SQ].list;
    const size_t decaying = state->decaying, all = state->rows[CONVERT_WEIGHTS].count;
    const int has_pooler = bert_architecture(&conversion->config)->has_pooler;
    const size_t pooler = conversion->head == PARAM_HEAD_NONE && has_pooler ? 1 : 0;
    const struct optimizer_nodes_group groups[GROUPS] = {
        {first, second, decaying, pooler},
        {first + decaying, second + decaying, all - decaying, pooler}};
    *step = (struct tensor_out){.name = "step", .dtype = TENSOR_F32, .data = updates};
    return optimizer_nodes_init(nodes, groups, GROUPS, node_tensor("step", step), error);
}

static enum berth_status write_optimizer(const struct conversion *conversion, const char *path,
                                         const struct convert_optimizer *state,
                                         struct berth_error *error) {
    const struct run_facts *facts = &state->facts;
    const float updates = (float)facts->updates;
    struct tensor_out step;
    struct optimizer_tree tree = {.betas = {node_real(NULL, facts->optimizer.beta1),
                                            node_real(NULL, facts->optimizer.beta2)}};
    enum berth_status status =
        number_parameters(conversion, state, &updates, &step, &tree.nodes, error);
    if (status == BERTH_OK) {
        for (int group = 0; group < GROUPS; group++) {
            fill_group(&tree, group, facts);
        }
        const struct torch_node members[] = {
            tree.nodes.state, node_many("param_groups", TORCH_LIST, tree.groups, GROUPS)};
        const struct torch_node root = node_many(NULL, TORCH_DICT, members, LENGTH(members));
        status = torch_write(path, &root, error);
    }
    optimizer_nodes_done(&tree.nodes);
    return status;
}

// --- scheduler.pt -------------------------------------------------------------------------------

// The functions of the schedule are not in the file; the Trainer makes them from its settings.
static enum berth_status write_scheduler(const struct conversion *conversion, const char *path,
                                         const struct convert_optimizer *state,
                                         struct berth_error *error) {
    (void)conversion;
    const struct run_facts *facts = &state->facts;
    const double peak = facts->schedule.peak, next = facts->next_rate;
    const struct torch_node peaks[GROUPS] = {node_real(NULL, peak), node_real(NULL, peak)};
    const struct torch_node rates[GROUPS] = {node_real(NULL, next), node_real(NULL, next)};
    const struct torch_node functions[GROUPS] = {node_none(NULL), node_none(NULL)};
    const struct torch_node members[] = {node_many("base_lrs", TORCH_LIST, peaks, GROUPS),
                                         node_integer("last_epoch", facts->scheduled),
                                         node_integer("_step_count", facts->scheduled + 1),
                                         node_truth("_get_lr_called_within_step", 0),
                                         node_many("_last_lr", TORCH_LIST, rates, GROUPS),
                                         node_many("lr_lambdas", TORCH_LIST, functions, GROUPS)};
    const struct torch_node root = node_many(NULL, TORCH_DICT, members, LENGTH(members));
    return torch_write(path, &root, error);
}

// --- the folder ---------------------------------------------------------------------------------

typedef enum berth_status write_part(const struct conversion *conversion, const char *path,
                                     const struct convert_optimizer *state,
                                     struct berth_error *error);

static enum berth_status write_file(const struct conversion *conversion, const char *name,
                                    write_part *write, const struct convert_optimizer *state,
                                    struct berth_error *error) {
    return write(conversion, path_in(conversion->folder, name).text, state, error);
}

enum berth_status convert_to_trainer(const struct conversion *conversion,
                                     struct berth_error *error) {
    struct convert_optimizer state DONE_BY(convert_optimizer_done) = {0};
    TRY(convert_optimizer_read(conversion, &state, error));
    TRY(check_formula(conversion, &state.facts.optimizer, error));
    const struct optimizer *optimizer = &state.facts.optimizer;
    const struct outgoing *weights = &state.rows[CONVERT_WEIGHTS];
    for (size_t i = 0; i < weights->count && optimizer->weight_decay != 0; i++) {
        const int decays = convert_optimizer_decays(optimizer, weights->list[i].name);
        if (decays != (i < state.decaying)) {
            return error_set(
                error, BERTH_CONFIG,
                "%s: with the run's no_decay, weight decay %s to %s, but the Trainer applies it to "
                "all parameters except biases and layer norms; convert the weights alone to hf",
                conversion->input, decays ? "applies" : "does not apply", weights->list[i].name);
        }
    }
    note_settings(conversion, &state.facts);
    const struct param_frozen *frozen = &state.facts.optimizer.frozen;
    if (frozen->layers > 0 || frozen->embeddings) {
        log_warning(&conversion->log,
                    "the parameters that the run freezes are not in optimizer.pt: freeze them in "
                    "the Trainer's model too (requires_grad)");
    }
    TRY(folder_copy_file(conversion->input, conversion->folder, "trainer_state.json", error));
    TRY(write_file(conversion, "optimizer.pt", write_optimizer, &state, error));
    TRY(write_file(conversion, "scheduler.pt", write_scheduler, &state, error));
    return convert_to_hf(conversion, error);
}
