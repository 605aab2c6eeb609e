// SPDX-License-Identifier: Apache-2.0
// Makes the nodes of torch's state of an optimizer: for each parameter its moments, and the lists
// of parameters of each group. Conversions to the checkpoints of DeepSpeed and the Trainer call it
// with Berth's moments, and torch_write.c writes the nodes.
#include "format/torch/optimizer_nodes.h"

#include "core/memory.h"
#include "format/torch/torch_nodes.h"

enum { MEMBERS = 3 }; // of a parameter's state

static size_t numbers_of(const struct optimizer_nodes_group *group) {
    return group->count + group->stateless;
}

static void fill_state(struct torch_node *state, struct torch_node members[MEMBERS],
                       const struct optimizer_nodes_group *group, size_t i,
                       struct torch_node step) {
    if (i >= group->count) {
        *state = (struct torch_node){.kind = TORCH_ABSENT};
        return;
    }
    members[0] = step;
    members[1] = node_tensor("exp_avg", &group->exp_avg[i]);
    members[2] = node_tensor("exp_avg_sq", &group->exp_avg_sq[i]);
    *state = node_many(NULL, TORCH_DICT, members, MEMBERS);
}

enum berth_status optimizer_nodes_init(struct optimizer_nodes *nodes,
                                       const struct optimizer_nodes_group *groups, size_t count,
                                       struct torch_node step, struct berth_error *error) {
    size_t total = 0, index = 0;
    for (size_t g = 0; g < count; g++) {
        total += numbers_of(&groups[g]);
    }
    // [total] states, [total] numbers, [total][MEMBERS]
    nodes->memory = memory_array(total * (2 + MEMBERS), sizeof *nodes->memory);
    if (nodes->memory == NULL) {
        return error_no_memory(error, total * (2 + MEMBERS) * sizeof *nodes->memory,
                               "the state of the optimizer");
    }
    struct torch_node *states = nodes->memory, *numbers = states + total;
    for (size_t g = 0; g < count; g++) {
        nodes->params[g] = node_many("params", TORCH_LIST, numbers + index, numbers_of(&groups[g]));
        for (size_t i = 0; i < numbers_of(&groups[g]); i++, index++) {
            fill_state(&states[index], numbers + total + index * MEMBERS, &groups[g], i, step);
            numbers[index] = node_integer(NULL, (int64_t)index);
        }
    }
    nodes->state = node_many("state", TORCH_DICT, states, total);
    return BERTH_OK;
}

void optimizer_nodes_done(struct optimizer_nodes *nodes) {
    memory_free(nodes->memory);
    *nodes = (struct optimizer_nodes){0};
}
