// SPDX-License-Identifier: Apache-2.0
// Finds which number of a PyTorch optimizer's state belongs to which parameter. The file does not
// say it, so the possible orders (of the module, by weight decay, without frozen parameters) are
// tried until every shape fits. foreign_checkpoint.c calls it after the weights; the moments go
// into the state's buffers.
#include "train/checkpoint/foreign_moments.h"

#include "core/memory.h"
#include "format/torch/torch.h"
#include "model/architectures.h"
#include "model/module_order.h"
#include "train/checkpoint/state_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOMENTS = 2, GROUPS_MAX = 2 };

static const char no_optimizer[] = "the optimizer's moments, which it does not have";
static const char other_numbers[] =
    "the optimizer's moments, because its parameters are numbered in an unknown way";

struct reading {
    const struct foreign_moments *from;
    const struct torch_file *torch;
    const char *prefix;                   // of the names of the optimizer's tensors
    const struct pickle_value *optimizer; // its state_dict
    const struct weight **parameters;     // in the order of their numbers; NULL: not in the weights
    size_t count;
    size_t poolers;   // at the end of each group: 1 if the module has one and the weights have none
    int omits_frozen; // the parameters that this run freezes have no number, and no moments
    const struct tensor_entry **entries; // as in struct moments_source
};

// --- the numbers of the parameters --------------------------------------------------------------

static int compare_places(const void *a, const void *b) {
    const struct tensor_entry *left = (*(const struct weight *const *)a)->entry;
    const struct tensor_entry *right = (*(const struct weight *const *)b)->entry;
    return (left > right) - (left < right);
}

struct numbered {
    struct module_place place;
    const struct weight *weight;
};

static int compare_numbered(const void *a, const void *b) {
    return module_place_compare(&((const struct numbered *)a)->place,
                                &((const struct numbered *)b)->place);
}

static enum berth_status sort_by_module(struct reading *reading, const struct module_order *order,
                                        struct berth_error *error) {
    const int is_tied = module_order_ties(reading->from->weights);
    OWNED struct numbered *list = memory_array(reading->count, sizeof *list);
    if (list == NULL) {
        return error_no_memory(error, reading->count * sizeof *list, "a list");
    }
    for (size_t i = 0; i < reading->count; i++) {
        const struct weight *weight = reading->parameters[i];
        list[i] = (struct numbered){module_place_of(order, weight->name, is_tied), weight};
    }
    qsort(list, reading->count, sizeof *list, compare_numbered);
    for (size_t i = 0; i < reading->count; i++) {
        reading->parameters[i] = list[i].weight;
    }
    return BERTH_OK;
}

// Lists the model's parameters in the order of the module, in which a file that holds the
// optimizer, too, has them.
static enum berth_status list_parameters(struct reading *reading, const struct module_order *order,
                                         struct berth_error *error) {
    const struct weights *weights = reading->from->weights;
    reading->parameters = memory_array(weights->count, sizeof *reading->parameters);
    if (reading->parameters == NULL) {
        return error_no_memory(error, weights->count * sizeof *reading->parameters, "a list");
    }
    for (size_t i = 0; i < weights->count; i++) {
        if (weights->list[i].use != NAME_BUFFER && !weights->list[i].tied) {
            reading->parameters[reading->count++] = &weights->list[i];
        }
    }
    if (reading->from->file != &weights->file) {
        return sort_by_module(reading, order, error);
    }
    qsort(reading->parameters, reading->count, sizeof *reading->parameters, compare_places);
    return BERTH_OK;
}

static int decays_by_run(const struct reading *reading, const struct weight *weight) {
    return optimizer_decays(reading->from->optimizer, weight->name);
}

static int decays_by_script(const struct reading *reading, const struct weight *weight) {
    (void)reading;
    const struct optimizer nvidia = {.no_decay = optimizer_no_decay_list("nvidia")};
    return optimizer_decays(&nvidia, weight->entry->name);
}

typedef int decay_rule(const struct reading *reading, const struct weight *weight);

static size_t count_decaying(const struct reading *reading, decay_rule *decays) {
    size_t count = 0;
    for (size_t i = 0; i < reading->count; i++) {
        count += (size_t)decays(reading, reading->parameters[i]);
    }
    return count;
}

// A model of transformers without a head may have a pooler after everything else, which a model of
// embeddings does not use. Berth's have none.
static size_t count_poolers(const struct reading *reading, const struct param_table *table) {
    const int has_pooler = weights_find(reading->from->weights, "bert.pooler.dense.weight") != NULL;
    return table->head == PARAM_HEAD_EMBEDDING && table->architecture->has_pooler && !has_pooler
               ? 1
               : 0;
}

// Moves parameters that decay to the front, keeping the order otherwise.
static enum berth_status sort_by_group(struct reading *reading, decay_rule *decays,
                                       struct berth_error *error) {
    const size_t all = reading->count + GROUPS_MAX * reading->poolers;
    const struct weight **sorted = memory_array(all, sizeof *sorted);
    size_t used = 0;
    if (sorted == NULL) {
        return error_no_memory(error, all * sizeof *sorted, "a list");
    }
    for (int group = 1; group >= 0; group--) {
        for (size_t i = 0; i < reading->count; i++) {
            if (decays(reading, reading->parameters[i]) == group) {
                sorted[used++] = reading->parameters[i];
            }
        }
        for (size_t i = 0; i < reading->poolers; i++) {
            sorted[used++] = NULL;
        }
    }
    memory_free(reading->parameters);
    reading->parameters = sorted;
    reading->count = used;
    return BERTH_OK;
}

static const struct pickle_value *optimizer_member(const struct reading *reading,
                                                   const char *name) {
    return pickle_member(&reading->torch->pickle, reading->optimizer, name);
}

// Sets *is_known to whether a known rule yields the file's groups.
static enum berth_status number_parameters(struct reading *reading, int *is_known,
                                           struct berth_error *error) {
    decay_rule *const rules[] = {decays_by_run, decays_by_script};
    const struct pickle *pickle = &reading->torch->pickle;
    const struct pickle_value *groups = optimizer_member(reading, "param_groups");
    const size_t count = pickle_length(groups);
    size_t sizes[GROUPS_MAX] = {0}, all = 0;
    for (size_t g = 0; g < count && g < GROUPS_MAX; g++) {
        sizes[g] = pickle_length(pickle_member(pickle, pickle_item(pickle, groups, g), "params"));
        all += sizes[g];
    }
    *is_known = count == 1 && all == reading->count;
    for (size_t i = 0; i < sizeof rules / sizeof *rules && !*is_known; i++) {
        if (count == GROUPS_MAX && all == reading->count + GROUPS_MAX * reading->poolers &&
            count_decaying(reading, rules[i]) + reading->poolers == sizes[0]) {
            *is_known = 1;
            return sort_by_group(reading, rules[i], error);
        }
    }
    return BERTH_OK;
}

// --- the tensors --------------------------------------------------------------------------------

static size_t index_of(const struct reading *reading, const char *name) {
    size_t i = 0;
    while (i < reading->count &&
           (reading->parameters[i] == NULL || strcmp(reading->parameters[i]->name, name) != 0)) {
        i++;
    }
    return i;
}

// The moment of a parameter; NULL if there is none with the parameter's shape.
static const struct tensor_entry *find_moment(const struct reading *reading, size_t number,
                                              const char *moment) {
    char name[64];
    snprintf(name, sizeof name, "%sstate.%zu.%s", reading->prefix, number, moment);
    const struct weight *weight = reading->parameters[number];
    const struct tensor_entry *found = tensor_file_find(reading->from->file, name);
    const int fits = found != NULL && weight->use == NAME_KEPT &&
                     found->rank == weight->entry->rank &&
                     memcmp(found->shape, weight->entry->shape, sizeof found->shape) == 0 &&
                     tensor_is_convertible(found->dtype);
    return fits ? found : NULL;
}

// Sets *is_found to whether every parameter of the table that should has both moments.
static enum berth_status find_all(struct reading *reading, const struct param_table *table,
                                  int *is_found, struct berth_error *error) {
    static const char *const moments[MOMENTS] = {"exp_avg", "exp_avg_sq"};
    reading->entries = memory_array(table->count * MOMENTS, sizeof *reading->entries);
    if (reading->entries == NULL) {
        return error_no_memory(error, table->count * sizeof *reading->entries, "a list");
    }
    *is_found = 1;
    for (size_t i = 0; i < table->count && *is_found; i++) {
        const size_t number = index_of(reading, table->params[i].name);
        for (size_t k = 0; k < MOMENTS && *is_found; k++) {
            const struct tensor_entry *found =
                number < reading->count ? find_moment(reading, number, moments[k]) : NULL;
            reading->entries[k * table->count + i] = found;
            *is_found = found != NULL ||
                        (reading->omits_frozen &&
                         optimizer_freezes(reading->from->optimizer, table->params[i].name));
        }
    }
    return BERTH_OK;
}

// --- the number of updates ----------------------------------------------------------------------

// In the first group (FusedLAMB, FusedAdam), or with the first parameter, where torch has a tensor.
static enum berth_status read_updates(const struct reading *reading, int64_t *updates,
                                      struct berth_error *error) {
    const struct pickle *pickle = &reading->torch->pickle;
    const struct pickle_value *group =
        pickle_item(pickle, optimizer_member(reading, "param_groups"), 0);
    const struct pickle_value *first = pickle_item(pickle, optimizer_member(reading, "state"), 0);
    const struct pickle_value *step = pickle_member(pickle, group, "step");
    step = step != NULL ? step : pickle_member(pickle, first, "step");
    const struct tensor_entry *tensor = torch_tensor(reading->torch, step);
    float number;
    if (tensor != NULL && tensor->dtype == TENSOR_F32 && tensor->end - tensor->begin == 4) {
        TRY(tensor_file_read_f32(reading->from->file, tensor, 0, 1, &number, error));
        *updates = number >= 0 && number < 1e9F ? (int64_t)number : reading->from->step;
    } else if (!pickle_integer(step, updates) || *updates < 0) {
        *updates = reading->from->step;
    }
    return BERTH_OK;
}

// --- the interface ------------------------------------------------------------------------------

static void reading_done(struct reading *reading) {
    memory_free(reading->parameters);
    memory_free(reading->entries);
    reading->parameters = NULL;
    reading->entries = NULL;
    reading->count = 0;
    reading->omits_frozen = 0;
}

// Sets *is_found to whether all moments are where the order says.
static enum berth_status try_order(struct reading *reading, const struct module_order *order,
                                   const struct param_table *table, int *is_found,
                                   struct berth_error *error) {
    reading_done(reading);
    TRY(list_parameters(reading, order, error));
    TRY(number_parameters(reading, is_found, error));
    if (!*is_found) {
        // Some programs give their optimizer only what is trained.
        size_t used = 0;
        for (size_t i = 0; i < reading->count; i++) {
            if (!optimizer_freezes(reading->from->optimizer, reading->parameters[i]->name)) {
                reading->parameters[used++] = reading->parameters[i];
            }
        }
        reading->omits_frozen = used < reading->count;
        reading->count = used;
        TRY(number_parameters(reading, is_found, error));
    }
    return *is_found ? find_all(reading, table, is_found, error) : BERTH_OK;
}

static enum berth_status read_all(struct reading *reading, struct state *state, int64_t *updates,
                                  const char **missing, struct berth_error *error) {
    const struct module_order *const *orders = state->table->architecture->orders;
    int is_found = 0;
    if (optimizer_member(reading, "state") == NULL) {
        *missing = no_optimizer;
        return BERTH_OK;
    }
    reading->poolers = count_poolers(reading, state->table);
    for (size_t i = 0; i < ARCHITECTURE_ORDERS && orders[i] != NULL && !is_found; i++) {
        TRY(try_order(reading, orders[i], state->table, &is_found, error));
    }
    if (!is_found) {
        *missing = other_numbers;
        return BERTH_OK;
    }
    const struct moments_source source = {reading->from->file, reading->entries};
    TRY(read_updates(reading, updates, error));
    return state_file_import_moments(state, &source, error);
}

enum berth_status foreign_moments_read(const struct foreign_moments *from, struct state *state,
                                       struct foreign_moments_found *found,
                                       struct berth_error *error) {
    struct reading reading = {.from = from,
                              .torch = from->file != NULL ? torch_of(from->file) : NULL};
    *found = (struct foreign_moments_found){.updates = from->step};
    if (reading.torch == NULL) {
        found->missing = no_optimizer;
        return BERTH_OK;
    }
    const struct pickle *pickle = &reading.torch->pickle;
    const struct pickle_value *member = pickle_member(pickle, pickle->root, "optimizer");
    reading.optimizer = member != NULL ? member : pickle->root;
    reading.prefix = member != NULL ? "optimizer." : "";
    const enum berth_status status =
        read_all(&reading, state, &found->updates, &found->missing, error);
    reading_done(&reading);
    return status;
}
