// SPDX-License-Identifier: Apache-2.0
// Writes a checkpoint also as ckpt_<step>.pt, from the files of Berth's own checkpoint that was
// just written, before it gets its name. Only rank 0 does this. The tree of the pickle is made
// here; format/torch writes it.
#include "train/checkpoint/foreign_write.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "format/torch/torch_nodes.h"
#include "model/module_order.h"
#include "model/weights.h"
#include "train/checkpoint/state_file.h"
#include "train/progress/run_facts.h"
#include "train/progress/save_eval.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOMENTS = 2, GROUPS = 2, GROUP_NODES = 9, WORD_MULTIPLE = 8 };
#define STATE_LIMIT ((size_t)1 << 30) // bytes of trainer_state.json
#define LENGTH(array) (sizeof(array) / sizeof *(array))

int foreign_is_written(const struct run_settings *settings) {
    return save_eval_has_checkpoints(settings) &&
           words_contain(settings->save_format, ',', "nvidia");
}

size_t foreign_write_bytes(const struct param_table *table) {
    int64_t max = 0;
    for (size_t i = 0; i < table->count; i++) {
        const int64_t elements = table->params[i].rows * table->params[i].cols;
        max = elements > max ? elements : max;
    }
    return (size_t)max * sizeof(float);
}

// --- tensors ------------------------------------------------------------------------------------

// What the file is made from. Tensors point to the weights from which they are loaded.
struct original {
    struct run_facts facts;
    char *state; // trainer_state.json
    size_t state_bytes;
    struct weights model, moments[MOMENTS];
    char (*names)[WEIGHT_NAME_SIZE];
    struct tensor_out *tensors; // the model's, in the order of its module
    size_t count;
    struct tensor_out *states; // [parameters][MOMENTS], in the optimizer's order
    size_t parameters, decaying;
    struct torch_node *nodes; // [parameters] states, numbers, [MOMENTS] members of each
};

static enum berth_status load_weight(const struct torch_node *node, const struct tensor_out *tensor,
                                     void *to, size_t bytes, struct berth_error *error) {
    const struct weight *weight = tensor->data;
    const size_t own = (size_t)weight_elements(weight) * sizeof(float);
    memset((char *)to + own, 0, bytes - own);
    return weights_read_f32(node->source, weight, to, error);
}

static struct tensor_out describe(const struct weight *weight, const char *name) {
    struct tensor_out tensor = {
        .name = name, .dtype = TENSOR_F32, .rank = weight->rank, .data = weight};
    memcpy(tensor.shape, weight->shape, sizeof tensor.shape);
    if (weight_has_word_rows(weight->name)) {
        tensor.shape[0] = (tensor.shape[0] + WORD_MULTIPLE - 1) / WORD_MULTIPLE * WORD_MULTIPLE;
    }
    return tensor;
}

static int compare_tensors(const void *a, const void *b) {
    return module_order_compare(((const struct tensor_out *)a)->name,
                                ((const struct tensor_out *)b)->name);
}

// The decoder's matrix is a second name for the word table.
static int is_tie(const struct tensor_out *tensor) {
    return strcmp(tensor->name, weight_ties[0].copy) == 0;
}

static enum berth_status list_model(struct original *original, struct berth_error *error) {
    const struct weights *model = &original->model;
    const struct weight *words = weights_find(model, weight_ties[0].source);
    const size_t capacity = model->count + 1;
    original->names = memory_array(capacity, sizeof *original->names);
    original->tensors = memory_array(capacity, sizeof *original->tensors);
    if (original->names == NULL || original->tensors == NULL) {
        return error_no_memory(error, capacity * sizeof *original->names, "the list of tensors");
    }
    for (size_t i = 0; i < model->count; i++) {
        (void)name_for(&names_nvidia, model->list[i].name, original->names[i], WEIGHT_NAME_SIZE);
        original->tensors[original->count++] = describe(&model->list[i], original->names[i]);
    }
    if (words != NULL && weights_find(model, weight_ties[1].source) != NULL) {
        original->tensors[original->count++] = describe(words, weight_ties[0].copy);
    }
    qsort(original->tensors, original->count, sizeof *original->tensors, compare_tensors);
    return BERTH_OK;
}

static enum berth_status add_parameter(struct original *original, const struct weight *weight,
                                       struct berth_error *error) {
    static const char *const names[MOMENTS] = {"exp_avg", "exp_avg_sq"};
    for (int k = 0; k < MOMENTS; k++) {
        const struct weight *moment = weights_find(&original->moments[k], weight->name);
        if (moment == NULL) {
            return error_set(error, BERTH_BAD_DATA, "%s: missing tensor %s.%s",
                             original->moments[k].file.path, names[k], weight->name);
        }
        original->states[original->parameters * MOMENTS + (size_t)k] = describe(moment, names[k]);
    }
    original->parameters++;
    return BERTH_OK;
}

// --- reading Berth's checkpoint -----------------------------------------------------------------

static enum berth_status open_weights(struct weights *weights, const char *folder,
                                      enum state_file file, struct berth_error *error) {
    return weights_open(weights, path_in(folder, state_file_name(file)).text, 0, error);
}

static enum berth_status read_checkpoint(struct original *original, const char *folder,
                                         struct berth_error *error) {
    static const char *const prefixes[MOMENTS] = {"exp_avg.", "exp_avg_sq."};
    const struct path path = path_in(folder, "trainer_state.json");
    TRY(run_facts_read(&original->facts, path.text, error));
    TRY(file_read(path.text, STATE_LIMIT, &original->state, &original->state_bytes, error));
    TRY(open_weights(&original->model, folder, STATE_FILE_WEIGHTS, error));
    for (int k = 0; k < MOMENTS; k++) {
        TRY(open_weights(&original->moments[k], folder, STATE_FILE_MOMENTS, error));
        weights_select(&original->moments[k], prefixes[k]);
    }
    TRY(list_model(original, error));
    // The optimizer numbers its parameters group by group.
    original->states = memory_array(original->count * MOMENTS, sizeof *original->states);
    if (original->states == NULL) {
        return error_no_memory(error, original->count * sizeof *original->states, "a list");
    }
    for (int group = 1; group >= 0; group--) {
        for (size_t i = 0; i < original->count; i++) {
            const struct weight *weight = original->tensors[i].data;
            if (!is_tie(&original->tensors[i]) &&
                optimizer_decays(&original->facts.optimizer, weight->name) == group) {
                TRY(add_parameter(original, weight, error));
            }
        }
        original->decaying = group ? original->parameters : original->decaying;
    }
    return BERTH_OK;
}

// --- the tree -----------------------------------------------------------------------------------

struct optimizer_nodes {
    struct torch_node betas[2], members[GROUPS][GROUP_NODES], groups[GROUPS], children[2];
};

static void fill_group(struct torch_node members[GROUP_NODES], const struct torch_node betas[2],
                       const struct run_facts *facts, double weight_decay,
                       struct torch_node params) {
    const struct optimizer *optimizer = &facts->optimizer;
    const struct torch_node all[GROUP_NODES] = {
        node_real("lr", facts->last_rate),
        node_truth("bias_correction", optimizer->bias_correction),
        node_many("betas", TORCH_LIST, betas, 2),
        node_real("eps", optimizer->epsilon),
        node_real("weight_decay", weight_decay),
        node_truth("grad_averaging", 1),
        node_real("max_grad_norm", optimizer->max_grad_norm),
        node_integer("step", facts->updates),
        params};
    memcpy(members, all, sizeof all);
}

static struct torch_node group_nodes(const struct original *original,
                                     struct optimizer_nodes *nodes) {
    const struct run_facts *facts = &original->facts;
    const struct torch_node *numbers = original->nodes + original->parameters;
    const size_t starts[GROUPS + 1] = {0, original->decaying, original->parameters};
    nodes->betas[0] = node_real(NULL, facts->optimizer.beta1);
    nodes->betas[1] = node_real(NULL, facts->optimizer.beta2);
    for (int g = 0; g < GROUPS; g++) {
        const size_t count = starts[g + 1] - starts[g];
        fill_group(nodes->members[g], nodes->betas, facts,
                   g == 0 ? facts->optimizer.weight_decay : 0,
                   node_many("params", TORCH_LIST, numbers + starts[g], count));
        nodes->groups[g] = node_many(NULL, TORCH_DICT, nodes->members[g], GROUP_NODES);
    }
    return node_many("param_groups", TORCH_LIST, nodes->groups, GROUPS);
}

static enum berth_status optimizer_node(struct original *original, struct optimizer_nodes *nodes,
                                        struct torch_node *optimizer, struct berth_error *error) {
    struct torch_node *states = &nodes->children[0];
    const size_t count = original->parameters, count_of_nodes = count * (2 + MOMENTS);
    original->nodes = memory_array(count_of_nodes, sizeof *original->nodes);
    if (original->nodes == NULL) {
        return error_no_memory(error, count_of_nodes * sizeof *original->nodes,
                               "the optimizer's state");
    }
    for (size_t i = 0; i < count; i++) {
        struct torch_node *members = original->nodes + 2 * count + MOMENTS * i;
        for (int k = 0; k < MOMENTS; k++) {
            const struct tensor_out *moment = &original->states[MOMENTS * i + (size_t)k];
            members[k] = node_tensor(moment->name, moment);
            members[k].load = load_weight;
            members[k].source = &original->moments[k];
        }
        original->nodes[i] = node_many(NULL, TORCH_DICT, members, MOMENTS);
        original->nodes[count + i] = node_integer(NULL, (int64_t)i);
    }
    *states = node_many("state", TORCH_DICT, original->nodes, count);
    nodes->children[1] = group_nodes(original, nodes);
    *optimizer = node_many("optimizer", TORCH_DICT, nodes->children, LENGTH(nodes->children));
    return BERTH_OK;
}

static enum berth_status write_tree(struct original *original, const char *path,
                                    const struct torch_node *files, int64_t epoch,
                                    struct berth_error *error) {
    struct optimizer_nodes nodes;
    struct torch_node optimizer;
    const struct tensor_out bytes = {.name = FOREIGN_STATE_NAME,
                                     .dtype = TENSOR_U8,
                                     .rank = 1,
                                     .shape = {(int64_t)original->state_bytes},
                                     .data = original->state};
    const struct torch_node own = node_tensor("trainer_state", &bytes);
    TRY(optimizer_node(original, &nodes, &optimizer, error));
    const struct torch_node children[] = {{.key = "model",
                                           .kind = TORCH_TENSORS,
                                           .count = original->count,
                                           .tensors = original->tensors,
                                           .load = load_weight,
                                           .source = &original->model},
                                          optimizer,
                                          *files,
                                          node_integer("epoch", epoch),
                                          node_none("data_loader"),
                                          node_many("berth", TORCH_DICT, &own, 1)};
    const struct torch_node root = node_many(NULL, TORCH_DICT, children, LENGTH(children));
    return torch_write(path, &root, error);
}

// Makes the node `files`: the index of the current shard, then the paths of all.
static enum berth_status write_with_files(struct original *original, const char *path,
                                          const struct feed_files *files,
                                          struct berth_error *error) {
    struct torch_node *list = memory_array(files->count + 1, sizeof *list);
    if (list == NULL) {
        return error_no_memory(error, (files->count + 1) * sizeof *list, "the list of shards");
    }
    list[0] = node_integer(NULL, (int64_t)files->current);
    for (size_t i = 0; i < files->count; i++) {
        list[i + 1] = node_text(NULL, files->paths[i]);
    }
    const struct torch_node node = node_many("files", TORCH_LIST, list, files->count + 1);
    const enum berth_status status = write_tree(original, path, &node, files->epoch, error);
    memory_free(list);
    return status;
}

enum berth_status foreign_write(const char *folder, const char *output_dir,
                                const struct feed_files *files, struct berth_error *error) {
    struct original original = {0};
    enum berth_status status = read_checkpoint(&original, folder, error);
    if (status == BERTH_OK) {
        const struct path name = path_format("ckpt_%" PRId64 ".pt", original.facts.step);
        status = write_with_files(&original, path_in(output_dir, name.text).text, files, error);
    }
    run_facts_done(&original.facts);
    memory_free(original.state);
    weights_close(&original.model);
    for (int k = 0; k < MOMENTS; k++) {
        weights_close(&original.moments[k]);
    }
    memory_free(original.names);
    memory_free(original.tensors);
    memory_free(original.states);
    memory_free(original.nodes);
    return status;
}

// --- rotating -----------------------------------------------------------------------------------

static int is_counted(const char *name, const struct foreign_limits *limits) {
    const int64_t step = torch_find_step(name);
    return step > limits->after && step <= limits->newest;
}

// Whether a file of this step is one too many: the newest ones and the best are kept, `limit` in
// all.
static int is_excess(char **names, int64_t step, const struct foreign_limits *limits) {
    int64_t newer = 0, kept = 0; // the newer ones and the best
    for (size_t i = 0; names[i] != NULL; i++) {
        const int64_t other = torch_find_step(names[i]);
        newer += is_counted(names[i], limits) && other > step;
        kept += is_counted(names[i], limits) && (other > step || other == limits->best);
    }
    return step != limits->best && newer > 0 && kept >= limits->limit;
}

enum berth_status foreign_rotate(const char *output_dir, const struct foreign_limits *limits,
                                 struct berth_error *error) {
    char **names;
    TRY(dir_list(output_dir, &names, error));
    enum berth_status first = BERTH_OK; // error; the other files are removed nevertheless
    for (size_t i = 0; names[i] != NULL; i++) {
        if (is_counted(names[i], limits) && is_excess(names, torch_find_step(names[i]), limits)) {
            struct berth_error *own = first == BERTH_OK ? error : NULL;
            const enum berth_status status = file_remove(path_in(output_dir, names[i]).text, own);
            first = first == BERTH_OK ? status : first;
        }
    }
    memory_free(names);
    return first;
}
