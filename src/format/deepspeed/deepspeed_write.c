// SPDX-License-Identifier: Apache-2.0
// Builds the dictionaries that DeepSpeed's engine pickles, as its version VERSION writes and reads
// them. The conversion to DeepSpeed calls it (api/convert_deepspeed.c); the pickle itself is
// written by torch/torch_write.c.
#include "format/deepspeed/deepspeed_write.h"

#include "core/file.h"
#include "core/memory.h"
#include "format/deepspeed/deepspeed.h"
#include "format/torch/optimizer_nodes.h"
#include "format/torch/torch_nodes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))
#define VERSION "0.19.8"

// --- groups of parameters -----------------------------------------------------------------------

static size_t parameter_count(const struct deepspeed_optimizer *optimizer) {
    size_t count = 0;
    for (size_t i = 0; i < optimizer->group_count; i++) {
        count += optimizer->groups[i].count;
    }
    return count;
}

// What the optimizers of torch and DeepSpeed store for a group: its settings and its `params`.
enum { GROUP_NODES = 14 };

// The list `param_groups`. Its nodes refer to the struct, which must not move.
struct group_list {
    struct torch_node betas[2];
    struct torch_node members[DEEPSPEED_MAX_GROUPS][GROUP_NODES], groups[DEEPSPEED_MAX_GROUPS];
};

// params[i] is the list of the numbers of group i's parameters.
static void fill_groups(struct group_list *list, const struct deepspeed_optimizer *optimizer,
                        const struct torch_node *params) {
    list->betas[0] = node_real(NULL, optimizer->beta1);
    list->betas[1] = node_real(NULL, optimizer->beta2);
    for (size_t i = 0; i < optimizer->group_count; i++) {
        const struct torch_node all[GROUP_NODES - 1] = {
            node_real("lr", optimizer->rate),
            node_many("betas", TORCH_LIST, list->betas, 2),
            node_real("eps", optimizer->epsilon),
            node_real("weight_decay", optimizer->groups[i].weight_decay),
            node_truth("bias_correction", optimizer->bias_correction),
            node_truth("amsgrad", 0),
            node_truth("maximize", 0),
            node_none("foreach"),
            node_truth("capturable", 0),
            node_truth("differentiable", 0),
            node_none("fused"),
            node_real("max_coeff", optimizer->max_coeff),
            node_real("min_coeff", optimizer->min_coeff),
        };
        memcpy(list->members[i], all, sizeof all);
        list->members[i][GROUP_NODES - 1] = params[i];
        list->groups[i] = node_many(NULL, TORCH_DICT, list->members[i], GROUP_NODES);
    }
}

// --- the optimizer of stage 0 -------------------------------------------------------------------

// torch's state_dict of an optimizer. Its nodes refer to the struct, which must not move.
struct full_state {
    struct optimizer_nodes nodes; // optimizer_nodes_done, also after a failure
    struct group_list groups;
    struct torch_node children[2];
};

static enum berth_status fill_full_state(struct full_state *full,
                                         const struct deepspeed_optimizer *optimizer,
                                         struct berth_error *error) {
    struct optimizer_nodes_group groups[DEEPSPEED_MAX_GROUPS];
    for (size_t i = 0; i < optimizer->group_count; i++) {
        const struct deepspeed_group *group = &optimizer->groups[i];
        groups[i] =
            (struct optimizer_nodes_group){.exp_avg = group->states[DEEPSPEED_EXP_AVG],
                                           .exp_avg_sq = group->states[DEEPSPEED_EXP_AVG_SQ],
                                           .count = group->count};
    }
    TRY(optimizer_nodes_init(&full->nodes, groups, optimizer->group_count,
                             node_integer("step", optimizer->updates), error));
    fill_groups(&full->groups, optimizer, full->nodes.params);
    full->children[0] = full->nodes.state;
    full->children[1] =
        node_many("param_groups", TORCH_LIST, full->groups.groups, optimizer->group_count);
    return BERTH_OK;
}

// --- the model's file ---------------------------------------------------------------------------

// What a reader needs to assemble the model from its shards.
struct shapes {
    struct torch_node groups[DEEPSPEED_MAX_GROUPS];
    struct torch_node *memory; // parameters, then ties; memory_free, also after a failure
};

static enum berth_status fill_shapes(struct shapes *shapes, const struct deepspeed_out *out,
                                     struct berth_error *error) {
    const struct deepspeed_optimizer *optimizer = out->optimizer;
    const size_t total = parameter_count(optimizer) + out->tie_count;
    struct torch_node *next = shapes->memory = memory_array(total, sizeof *shapes->memory);
    if (next == NULL) {
        return error_no_memory(error, total * sizeof *next, "the shapes of the parameters");
    }
    for (size_t g = 0; g < optimizer->group_count; g++) {
        const struct deepspeed_group *group = &optimizer->groups[g];
        shapes->groups[g] = node_many(NULL, TORCH_DICT, next, group->count);
        for (size_t i = 0; i < group->count; i++) {
            const struct tensor_out *param = &group->states[DEEPSPEED_MASTER][i];
            *next++ = (struct torch_node){.key = param->name,
                                          .kind = TORCH_SIZE,
                                          .count = (size_t)param->rank,
                                          .shape = param->shape};
        }
    }
    for (size_t i = 0; i < out->tie_count; i++) {
        *next++ = node_text(out->ties[i].copy, out->ties[i].source);
    }
    return BERTH_OK;
}

struct model_extras {
    struct torch_node optimizer, shapes, ties;
};

static enum berth_status write_model(const char *folder, const struct deepspeed_out *out,
                                     const struct model_extras *extras, struct berth_error *error) {
    const struct torch_node last = node_integer("last_batch_iteration", out->step - 1);
    const struct torch_node children[] = {
        {.key = "module", .kind = TORCH_TENSORS, .count = out->count, .tensors = out->module},
        node_many("buffer_names", TORCH_LIST, NULL, 0),
        extras->optimizer,
        extras->shapes,
        node_none("frozen_param_shapes"),
        extras->ties,
        node_none("frozen_param_fragments"),
        out->optimizer != NULL ? node_many("lr_scheduler", TORCH_DICT, &last, 1)
                               : node_none("lr_scheduler"),
        node_none("data_sampler"),
        node_none("random_ltd"),
        node_many("sparse_tensor_module_names", TORCH_LIST, NULL, 0),
        node_integer("skipped_steps", out->skipped),
        node_integer("global_steps", out->step),
        node_integer("global_samples", out->samples),
        node_integer("dp_world_size", out->ranks),
        node_integer("mp_world_size", 1),
        node_many("ds_config", TORCH_DICT, NULL, 0),
        node_text("ds_version", VERSION),
    };
    const struct torch_node root = node_many(NULL, TORCH_DICT, children, LENGTH(children));
    return torch_write(path_in(folder, DEEPSPEED_MODEL_FILE).text, &root, error);
}

static enum berth_status write_model_with_optimizer(const char *folder,
                                                    const struct deepspeed_out *out,
                                                    struct berth_error *error) {
    struct full_state full = {0};
    enum berth_status status = fill_full_state(&full, out->optimizer, error);
    if (status == BERTH_OK) {
        const struct model_extras extras = {
            .optimizer = node_many("optimizer", TORCH_DICT, full.children, LENGTH(full.children)),
            .shapes = node_none("param_shapes"),
            .ties = node_none("shared_params")};
        status = write_model(folder, out, &extras, error);
    }
    optimizer_nodes_done(&full.nodes);
    return status;
}

static enum berth_status write_model_with_shapes(const char *folder,
                                                 const struct deepspeed_out *out,
                                                 struct berth_error *error) {
    struct shapes shapes = {0};
    enum berth_status status = fill_shapes(&shapes, out, error);
    if (status == BERTH_OK) {
        const struct torch_node *ties = shapes.memory + parameter_count(out->optimizer);
        const struct model_extras extras = {
            .optimizer = node_none("optimizer"),
            .shapes =
                node_many("param_shapes", TORCH_LIST, shapes.groups, out->optimizer->group_count),
            .ties = node_many("shared_params", TORCH_DICT, ties, out->tie_count)};
        status = write_model(folder, out, &extras, error);
    }
    memory_free(shapes.memory);
    return status;
}

// --- shards -------------------------------------------------------------------------------------

// The flat buffers of each group, padded with zeros to equal partitions for the ranks.
struct flat_groups {
    float *data[DEEPSPEED_STATE_COUNT][DEEPSPEED_MAX_GROUPS];
    int64_t elements[DEEPSPEED_MAX_GROUPS], partition[DEEPSPEED_MAX_GROUPS];
    int64_t ranks;
};

static size_t flat_bytes(const struct flat_groups *flat, size_t group) {
    return (size_t)(flat->partition[group] * flat->ranks) * sizeof(float);
}

// DeepSpeed aligns each partition to two elements.
static enum berth_status flatten_groups(struct flat_groups *flat, const struct deepspeed_out *out,
                                        struct berth_error *error) {
    flat->ranks = out->ranks;
    for (size_t g = 0; g < out->optimizer->group_count; g++) {
        const struct deepspeed_group *group = &out->optimizer->groups[g];
        int64_t elements = 0;
        for (size_t i = 0; i < group->count; i++) {
            elements += (int64_t)tensor_out_elements(&group->states[DEEPSPEED_MASTER][i]);
        }
        flat->elements[g] = elements;
        flat->partition[g] = (flat->elements[g] + 2 * out->ranks - 1) / (2 * out->ranks) * 2;
        for (int s = 0; s < DEEPSPEED_STATE_COUNT; s++) {
            flat->data[s][g] = memory_pages(flat_bytes(flat, g));
            if (flat->data[s][g] == NULL) {
                return error_no_memory(error, flat_bytes(flat, g), "the state of the optimizer");
            }
            float *to = flat->data[s][g];
            for (size_t i = 0; i < group->count; i++) {
                const int64_t own = (int64_t)tensor_out_elements(&group->states[s][i]);
                memcpy(to, group->states[s][i].data, (size_t)own * sizeof *to);
                to += own;
            }
        }
    }
    return BERTH_OK;
}

enum { STATE_NODES = 3 }; // of a partition: the number of updates and its moments

// A rank's partitions. Its nodes refer to the struct, which must not move.
struct shard {
    struct tensor_out tensors[DEEPSPEED_STATE_COUNT][DEEPSPEED_MAX_GROUPS];
    struct torch_node number[DEEPSPEED_MAX_GROUPS], params[DEEPSPEED_MAX_GROUPS];
    struct torch_node members[DEEPSPEED_MAX_GROUPS][STATE_NODES], states[DEEPSPEED_MAX_GROUPS];
    struct torch_node master[DEEPSPEED_MAX_GROUPS], padding[DEEPSPEED_MAX_GROUPS];
    struct torch_node count[DEEPSPEED_MAX_GROUPS];
    struct group_list groups;
};

static void fill_shard(struct shard *shard, const struct deepspeed_out *out,
                       const struct flat_groups *flat, int64_t rank) {
    for (size_t g = 0; g < out->optimizer->group_count; g++) {
        // Master weights are stored without the padding, moments with it.
        const int64_t first = rank * flat->partition[g], left = flat->elements[g] - first;
        const int64_t used = left < 0 ? 0 : left < flat->partition[g] ? left : flat->partition[g];
        for (int s = 0; s < DEEPSPEED_STATE_COUNT; s++) {
            shard->tensors[s][g] =
                (struct tensor_out){.name = "a partition of a group",
                                    .dtype = TENSOR_F32,
                                    .rank = 1,
                                    .shape = {s == DEEPSPEED_MASTER ? used : flat->partition[g]},
                                    .data = flat->data[s][g] + first};
        }
        shard->padding[g] = node_integer(NULL, flat->partition[g] - used);
        struct torch_node *members = shard->members[g];
        members[0] = node_integer("step", out->optimizer->updates);
        members[1] = node_tensor("exp_avg", &shard->tensors[DEEPSPEED_EXP_AVG][g]);
        members[2] = node_tensor("exp_avg_sq", &shard->tensors[DEEPSPEED_EXP_AVG_SQ][g]);
        shard->states[g] = node_many(NULL, TORCH_DICT, members, STATE_NODES);
        shard->master[g] = node_tensor(NULL, &shard->tensors[DEEPSPEED_MASTER][g]);
        shard->number[g] = node_integer(NULL, (int64_t)g);
        shard->params[g] = node_many("params", TORCH_LIST, &shard->number[g], 1);
        shard->count[g] = node_integer(NULL, out->ranks);
    }
    fill_groups(&shard->groups, out->optimizer, shard->params);
}

static enum berth_status write_shard_file(const char *path, const struct deepspeed_out *out,
                                          const struct shard *shard, struct berth_error *error) {
    const struct deepspeed_optimizer *optimizer = out->optimizer;
    const size_t groups = optimizer->group_count;
    const struct torch_node base[] = {
        node_many("state", TORCH_DICT, shard->states, groups),
        node_many("param_groups", TORCH_LIST, shard->groups.groups, groups)};
    const struct torch_node state[] = {
        node_truth("dynamic_loss_scale", 0),
        node_truth("overflow", 0),
        node_real("clip_grad", optimizer->max_grad_norm),
        node_many("base_optimizer_state", TORCH_DICT, base, LENGTH(base)),
        node_many("single_partition_of_fp32_groups", TORCH_LIST, shard->master, groups),
        node_integer("zero_stage", optimizer->stage),
        node_many("group_paddings", TORCH_LIST, shard->padding, groups),
        node_many("partition_count", TORCH_LIST, shard->count, groups),
        node_text("ds_version", VERSION)};
    const struct torch_node children[] = {
        node_many("optimizer_state_dict", TORCH_DICT, state, LENGTH(state)),
        node_many("ds_config", TORCH_DICT, NULL, 0), node_text("ds_version", VERSION)};
    const struct torch_node root = node_many(NULL, TORCH_DICT, children, LENGTH(children));
    return torch_write(path, &root, error);
}

// --- the folder ---------------------------------------------------------------------------------

static enum berth_status write_tag(const char *folder, const struct deepspeed_out *out,
                                   struct berth_error *error) {
    TRY(dir_make(folder, error));
    if (out->optimizer == NULL) {
        const struct model_extras extras = {node_none("optimizer"), node_none("param_shapes"),
                                            node_none("shared_params")};
        return write_model(folder, out, &extras, error);
    }
    if (out->optimizer->stage == 0) {
        return write_model_with_optimizer(folder, out, error);
    }
    TRY(write_model_with_shapes(folder, out, error));
    struct flat_groups flat = {0};
    enum berth_status status = flatten_groups(&flat, out, error);
    for (int64_t rank = 0; rank < out->ranks && status == BERTH_OK; rank++) {
        struct shard shard;
        const struct path path =
            path_format("%s/%szero_pp_rank_%" PRId64 "_mp_rank_00_optim_states.pt", folder,
                        out->is_bf16 ? "bf16_" : "", rank);
        fill_shard(&shard, out, &flat, rank);
        status = write_shard_file(path.text, out, &shard, error);
    }
    for (size_t g = 0; g < out->optimizer->group_count; g++) {
        for (int s = 0; s < DEEPSPEED_STATE_COUNT; s++) {
            memory_pages_free(flat.data[s][g], flat_bytes(&flat, g));
        }
    }
    return status;
}

enum berth_status deepspeed_write(const char *folder, const struct deepspeed_out *out,
                                  struct berth_error *error) {
    char tag[48];
    snprintf(tag, sizeof tag, "global_step%" PRId64, out->step);
    TRY(write_tag(path_in(folder, tag).text, out, error));
    return file_write(path_in(folder, "latest").text, tag, strlen(tag), error);
}
