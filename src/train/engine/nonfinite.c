// SPDX-License-Identifier: Apache-2.0
// Finds out why an update's loss or gradient is not a number, once the training loop has seen that
// it is not: looks at the weights, computes the micro-batches again one by one, and names the first
// output or gradient with a value that is not finite. The loop puts this into its error.
#include "core/finite.h"
#include "core/memory.h"
#include "train/engine/update.h"
#include "train/engine/update_split.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

// Whether all elements of a parameter that this rank owns are finite.
static int is_finite(const struct state *state, const float *values, const struct param *param) {
    for (size_t i = 0; i < state->own.count; i++) {
        const struct partition_span own =
            partition_intersect(&state->own, i, param->offset, param->rows * param->cols);
        if (finite_count(values + own.first, own.count) < own.count) {
            return 0;
        }
    }
    return 1;
}

// Sets affected[i] to the number of ranks that own a non-finite element of parameter i. `affected`
// NULL: its allocation failed.
static enum berth_status count_not_finite(const struct engine *engine, const float *buffer,
                                          double *affected, struct berth_error *error) {
    const struct state *state = engine->state;
    struct comm *comm = engine->comm;
    float *values = NULL;
    int none = 0;
    enum berth_status status = affected != NULL
                                   ? state_borrow(state, buffer, &values, error)
                                   : error_no_memory(error, state->table->count * sizeof *affected,
                                                     "a number for each parameter");
    for (size_t i = 0; i < state->table->count && status == BERTH_OK; i++) {
        affected[i] = !is_finite(state, values, &state->table->params[i]);
    }
    if (status == BERTH_OK) {
        state_release(state, buffer, values);
    }
    TRY(comm->agree(comm, status, &none, error));
    comm->sum(comm, affected, state->table->count);
    return BERTH_OK;
}

// When the backward pass reaches a parameter: head and final norm at 0, the embeddings last.
static int64_t backward_position(const struct param *param, int64_t layers) {
    const int64_t layer = param_layer_of(param->name, NULL);
    if (layer >= 0) {
        return layers - layer;
    }
    int is_embedding = strncmp(param->name, "bert.embeddings", 15) == 0;
    return is_embedding ? layers + 1 : 0;
}

// The sentence being written.
struct sentence {
    char *text;
    size_t size;
};

static int describe_affected(const struct engine *engine, const double *affected, const char *kind,
                             const struct sentence *out) {
    const struct param_table *table = engine->state->table;
    const int64_t layers = engine->model.config->num_hidden_layers;
    const struct param *first = NULL;
    size_t count = 0;
    for (size_t i = 0; i < table->count; i++) {
        const struct param *param = &table->params[i];
        if (affected[i] > 0) {
            count++;
            first =
                first == NULL || backward_position(param, layers) < backward_position(first, layers)
                    ? param
                    : first;
        }
    }
    if (first != NULL) {
        snprintf(out->text, out->size,
                 "the %s of %s is not finite (%zu of %zu parameters are affected)", kind,
                 first->name, count, table->count);
    }
    return first != NULL;
}

// Sets *found to whether any rank has a non-finite number in `buffer`, and describes the first.
static enum berth_status describe_not_finite(const struct engine *engine, const float *buffer,
                                             const char *kind, const struct sentence *out,
                                             int *found, struct berth_error *error) {
    const size_t count = engine->state->table->count;
    double *affected = memory_array_zeroed(count, sizeof *affected);
    const enum berth_status status = count_not_finite(engine, buffer, affected, error);
    *found = status == BERTH_OK && describe_affected(engine, affected, kind, out);
    memory_free(affected);
    return status;
}

struct output {
    int64_t micro_batch;  // from 0
    int64_t layer_output; // 0: the embeddings'; the last one is the head's
    int rank;
};

// Recomputes this rank's micro-batches until an output is not finite. Returns micro-batch * outputs
// + output, where output 0 is that of the embeddings and the last one that of the head; -1: all are
// finite.
static int64_t find_output(struct updater *updater, const struct update_args *args,
                           int64_t outputs) {
    struct engine *engine = updater->engine;
    struct update_split split = update_split_make(updater, args);
    const size_t *starts = updater->division.starts + engine->comm->rank * updater->own_parts;
    int64_t micro_batch = 0;
    for (size_t done = starts[0]; done < starts[updater->own_parts]; micro_batch++) {
        size_t part = 0;
        while (done >= starts[part + 1]) {
            part++;
        }
        const struct micro_batch micro = update_split_next(&split, done, starts[part + 1]);
        const size_t pieces = update_split_cut(&split, &micro);
        bert_set_piece(engine->training, -1);
        for (size_t i = 0; i < pieces; i++) {
            const struct batch *batch = update_split_load(&split, &micro, i);
            bert_forward(&engine->model, engine->training, batch, &split.dropout);
            const int64_t output = bert_first_nonfinite(&engine->model, engine->training, batch);
            if (output >= 0) {
                return micro_batch * outputs + output;
            }
        }
        done += micro.count;
    }
    return -1;
}

// Sets *found to whether any rank has a non-finite output, and describes the first.
static enum berth_status find_in_forward(struct updater *updater, const struct update_args *args,
                                         const struct sentence *out, int *found,
                                         struct berth_error *error) {
    const struct engine *engine = updater->engine;
    struct comm *comm = engine->comm;
    const int64_t outputs = engine->model.config->num_hidden_layers + 2;
    const int64_t own = find_output(updater, args, outputs);
    // Encoded so that the maximum over the ranks is the first output.
    *found = own >= 0 ? INT_MAX - (int)(own * comm->size + comm->rank) : 0;
    TRY(comm->agree(comm, BERTH_OK, found, error));
    if (*found) {
        const int64_t first = (INT_MAX - *found) / comm->size;
        const struct output output = {first / outputs, first % outputs,
                                      (INT_MAX - *found) % comm->size};
        char name[64] = "bert.embeddings", whose[32] = "the update";
        if (output.layer_output > engine->model.config->num_hidden_layers) {
            snprintf(name, sizeof name, "%s", param_head_row(engine->model.table->head)->name);
        } else if (output.layer_output > 0) {
            snprintf(name, sizeof name, "bert.encoder.layer.%" PRId64, output.layer_output - 1);
        }
        if (engine->comm->size > 1) {
            snprintf(whose, sizeof whose, "rank %d", output.rank);
        }
        snprintf(out->text, out->size,
                 "the output of %s is the first that is not finite (micro-batch %" PRId64
                 " of %s; all weights are finite)",
                 name, output.micro_batch + 1, whose);
    }
    return BERTH_OK;
}

enum berth_status update_find_nonfinite(struct updater *updater, const struct update_args *args,
                                        char *text, size_t size, struct berth_error *error) {
    const struct engine *engine = updater->engine;
    const struct state *state = engine->state;
    const struct sentence out = {text, size};
    int found;
    TRY(describe_not_finite(engine, state->master, "value", &out, &found, error));
    if (!found) {
        TRY(find_in_forward(updater, args, &out, &found, error));
    }
    if (!found) {
        TRY(describe_not_finite(engine, state->gradients, "gradient", &out, &found, error));
    }
    if (!found) {
        snprintf(text, size, "the sum of the gradient's squares is too large for a double");
    }
    return BERTH_OK;
}
