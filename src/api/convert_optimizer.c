// SPDX-License-Identifier: Apache-2.0
// Reads the state of a checkpoint for convert_deepspeed.c and convert_trainer.c, which write it.
// The weights themselves are converted in convert_tensors.c. The names are those of each target's
// program, which its file gives.
#include "api/convert_optimizer.h"

#include "core/file.h"
#include "core/memory.h"
#include "model/architectures.h"

#include <stdlib.h>
#include <string.h>

// --- reading ------------------------------------------------------------------------------------

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
    struct weights weights DONE_BY(weights_close) = {0};
    TRY(weights_open(&weights, path, 0, error));
    weights_select(&weights, prefix);
    return read_row(conversion, &weights, row, error);
}

// The names of a model without a head may have the encoder's prefix in one file only.
static int are_of_one_parameter(const char *left, const char *right) {
    char names[2][WEIGHT_NAME_SIZE];
    (void)name_translate(left, names[0], WEIGHT_NAME_SIZE);
    (void)name_translate(right, names[1], WEIGHT_NAME_SIZE);
    return strcmp(left, right) == 0 || strcmp(names[0], names[1]) == 0;
}

static enum berth_status read_facts(const struct conversion *conversion,
                                    struct convert_optimizer *optimizer,
                                    struct berth_error *error) {
    // The folder of a finished run has only the first.
    const struct path path = path_in(conversion->input, "trainer_state.json");
    const struct path moments = path_in(conversion->input, CONVERT_OPTIMIZER_FILE);
    if (file_exists(path.text) && file_exists(moments.text)) {
        return run_facts_read(&optimizer->facts, path.text, error);
    }
    const int is_choice = conversion->zero_stage >= 0; // else the target always needs it
    return error_set(error, BERTH_NO_INPUT,
                     "%s: %s%s needs the optimizer's state, which only a checkpoint of Berth has: "
                     "give a folder OUTPUT/checkpoint-N of the run",
                     conversion->input, is_choice ? "zero_stage" : "",
                     is_choice ? "" : conversion->target->name);
}

// --- the order ----------------------------------------------------------------------------------

// Our name of the tensor, which for a stack has a '*' in place of query, key and value, decides.
int convert_optimizer_decays(const struct optimizer *optimizer, const char *theirs) {
    char name[WEIGHT_NAME_SIZE];
    (void)name_translate(theirs, name, sizeof name);
    return optimizer_decays(optimizer, name);
}

static int is_frozen(const struct optimizer *optimizer, const char *theirs) {
    char name[WEIGHT_NAME_SIZE];
    (void)name_translate(theirs, name, sizeof name);
    return optimizer_freezes(optimizer, name);
}

// The group of a tensor in the target's program: 1 decays, 0 does not, -1: it is in none.
static int group_of(const struct conversion *conversion, const struct optimizer *optimizer,
                    const char *theirs) {
    const struct optimizer trainer = {.no_decay = optimizer_no_decay_list("google")};
    return !conversion->target->trainer_groups ? convert_optimizer_decays(optimizer, theirs)
           : is_frozen(optimizer, theirs)      ? -1
                                               : convert_optimizer_decays(&trainer, theirs);
}

struct numbered {
    struct module_place place;
    size_t index; // in the rows
};

static int compare_numbered(const void *a, const void *b) {
    return module_place_compare(&((const struct numbered *)a)->place,
                                &((const struct numbered *)b)->place);
}

// The Trainer's modules are those of the architecture, whose order has our names; other programs
// have BERT alone.
static void number_tensors(const struct conversion *conversion, const struct tensor_out *list,
                           size_t count, char (*names)[WEIGHT_NAME_SIZE],
                           struct numbered *numbered) {
    const int is_tied = module_order_ties(&conversion->weights);
    const struct module_order *order = bert_architecture(&conversion->config)->orders[0];
    for (size_t i = 0; i < count; i++) {
        const char *name = list[i].name;
        if (conversion->target->trainer_groups) {
            (void)name_translate(name, names[i], WEIGHT_NAME_SIZE);
            name = names[i];
        }
        numbered[i] = (struct numbered){module_place_of(order, name, is_tied), i};
    }
    qsort(numbered, count, sizeof *numbered, compare_numbered);
}

// Sorts the tensors by the order of the module, those with weight decay first, and leaves out those
// in no group. All rows have the same names in the same order.
static enum berth_status sort_by_group(const struct conversion *conversion,
                                       struct convert_optimizer *optimizer,
                                       struct berth_error *error) {
    const struct tensor_out *list = optimizer->rows[CONVERT_WEIGHTS].list;
    const size_t count = optimizer->rows[CONVERT_WEIGHTS].count;
    size_t used = 0;
    OWNED char(*names)[WEIGHT_NAME_SIZE] = memory_array(count, sizeof *names);
    OWNED struct numbered *numbered = memory_array(count, sizeof *numbered);
    OWNED size_t *order = memory_array(count, sizeof *order);
    OWNED struct tensor_out *sorted = memory_array(count, sizeof *sorted);
    if (names == NULL || numbered == NULL || order == NULL || sorted == NULL) {
        return error_no_memory(error, count * sizeof *sorted, "the list of tensors");
    }
    number_tensors(conversion, list, count, names, numbered);
    for (int group = 1; group >= 0; group--) {
        for (size_t i = 0; i < count; i++) {
            const size_t index = numbered[i].index;
            if (group_of(conversion, &optimizer->facts.optimizer, list[index].name) == group) {
                order[used++] = index;
            }
        }
        optimizer->decaying = group ? used : optimizer->decaying;
    }
    for (int row = 0; row < CONVERT_ROWS; row++) {
        for (size_t i = 0; i < used; i++) {
            sorted[i] = optimizer->rows[row].list[order[i]];
        }
        memcpy(optimizer->rows[row].list, sorted, used * sizeof *sorted);
        optimizer->rows[row].count = used;
    }
    return BERTH_OK;
}

// --- the interface ------------------------------------------------------------------------------

enum berth_status convert_optimizer_read(const struct conversion *conversion,
                                         struct convert_optimizer *optimizer,
                                         struct berth_error *error) {
    *optimizer = (struct convert_optimizer){0};
    TRY(read_facts(conversion, optimizer, error));
    TRY(read_row(conversion, &conversion->weights, &optimizer->rows[CONVERT_WEIGHTS], error));
    static const char *const prefixes[] = {
        [CONVERT_EXP_AVG] = "exp_avg.", [CONVERT_EXP_AVG_SQ] = "exp_avg_sq."};
    const struct path path = path_in(conversion->input, CONVERT_OPTIMIZER_FILE);
    for (int row = CONVERT_EXP_AVG; row < CONVERT_ROWS; row++) {
        TRY(read_moment(conversion, path.text, prefixes[row], &optimizer->rows[row], error));
        const struct outgoing *master = &optimizer->rows[CONVERT_WEIGHTS],
                              *moment = &optimizer->rows[row];
        for (size_t i = 0; i < master->count; i++) {
            const struct tensor_out *ours = &master->list[i], *theirs = &moment->list[i];
            if (i >= moment->count || moment->count != master->count ||
                !are_of_one_parameter(ours->name, theirs->name) || ours->rank != theirs->rank ||
                memcmp(ours->shape, theirs->shape, sizeof ours->shape) != 0) {
                return error_set(error, BERTH_BAD_DATA,
                                 "%s/" CONVERT_OPTIMIZER_FILE
                                 ": expected the moments of every tensor of "
                                 "model.safetensors; those of %s are missing or have another shape",
                                 conversion->input, ours->name);
            }
        }
    }
    return sort_by_group(conversion, optimizer, error);
}

void convert_optimizer_done(struct convert_optimizer *optimizer) {
    for (int row = 0; row < CONVERT_ROWS; row++) {
        outgoing_done(&optimizer->rows[row]);
    }
    run_facts_done(&optimizer->facts);
}
