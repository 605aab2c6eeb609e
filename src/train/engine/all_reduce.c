// SPDX-License-Identifier: Apache-2.0
#include "train/engine/all_reduce.h"

#include "core/memory.h"
#include "core/options.h"
#include "train/optimizer/optimizer.h"

// --- pieces -------------------------------------------------------------------------------------

// The owner of what follows a range: the rank whose part of a later range is the first.
static int owner_after(const struct state *state, size_t range, int64_t *starts) {
    const struct partition_rule rule = state_partition_rule(&state->share);
    for (size_t later = range + 1; later < param_range_count(state->table); later++) {
        partition_starts(state->table, &rule, param_range(state->table, later), starts);
        for (int rank = 0; rank < rule.size; rank++) {
            if (starts[rank + 1] > starts[rank]) {
                return rank;
            }
        }
    }
    return rule.size - 1;
}

static void add_body(struct all_reduce *all_reduce, struct all_reduce_piece *piece,
                     struct param_range range) {
    const int size = all_reduce->comm->size;
    const struct partition_rule rule = state_partition_rule(&all_reduce->state->share);
    partition_starts(all_reduce->state->table, &rule, range, piece->starts);
    for (int rank = 0; rank <= size; rank++) {
        // What lies before the range was reduced with the range before.
        piece->starts[rank] = piece->starts[rank] > range.first ? piece->starts[rank] : range.first;
    }
    piece->first = range.first;
    piece->count = piece->starts[size] - range.first;
}

static void add_end(struct all_reduce *all_reduce, struct all_reduce_piece *piece, size_t index,
                    int64_t first) {
    const struct param_table *table = all_reduce->state->table;
    const struct param_range range = param_range(table, index);
    const int size = all_reduce->comm->size;
    const int owner = owner_after(all_reduce->state, index, piece->starts);
    piece->first = first;
    piece->count = range.first + range.count - first;
    for (int rank = 0; rank <= size; rank++) {
        piece->starts[rank] = rank <= owner ? first : first + piece->count;
    }
}

static void list_pieces(struct all_reduce *all_reduce) {
    const struct param_table *table = all_reduce->state->table;
    const size_t ranges = param_range_count(table), width = (size_t)all_reduce->comm->size + 1;
    size_t count = 0;
    for (size_t i = 0; i < ranges; i++) {
        const struct param_range range = param_range(table, i);
        struct all_reduce_piece *body = &all_reduce->pieces[count], *end;
        all_reduce->first_piece[i] = count;
        body->starts = all_reduce->starts + count * width;
        add_body(all_reduce, body, range);
        count += body->count > 0;
        const int64_t done = range.first + body->count;
        if (done < range.first + range.count) {
            end = &all_reduce->pieces[count];
            end->starts = all_reduce->starts + count * width;
            add_end(all_reduce, end, i, done);
            count++;
        }
    }
    all_reduce->first_piece[ranges] = count;
}

// Settings that have no effect with so many processes or in this stage are noted.
static void note_unused(const struct berth_config *config, const struct state_share *share,
                        const struct berth_log *log) {
    static const char *const names[] = {"zero_stage",         "communication_data_type",
                                        "overlap_comm",       "gpu_exchange",
                                        "reduce_bucket_size", "allgather_bucket_size"};
    const char *where =
        option_is_independent(config) ? "with independent workers" : "in one process";
    for (size_t i = 0; i < sizeof names / sizeof *names && share->size == 1; i++) {
        if (option_is_chosen(config, option_find(names[i]))) {
            log_note(log, "%s has no effect %s", names[i], where);
        }
    }
    if (share->size == 1 && config->zero_stage == 3) {
        log_note(log, "several processes refuse zero_stage 3, which would divide the weights: use "
                      "--zero_stage 2 for them");
    }
    if (share->size > 1 && share->stage == 0 &&
        option_is_chosen(config, option_find("allgather_bucket_size"))) {
        log_note(log, "allgather_bucket_size has no effect with zero_stage 0: every process "
                      "updates all weights");
    }
}

enum berth_status all_reduce_share(const struct berth_config *config, const struct comm *comm,
                                   const struct berth_log *log, struct state_share *share,
                                   struct berth_error *error) {
    const struct optimizer optimizer = optimizer_of(config);
    *share = (struct state_share){.rank = comm->rank,
                                  .size = comm->size,
                                  .stage = comm->size > 1 ? (int)config->zero_stage : 0,
                                  .by_tensor = optimizer_is_by_tensor(&optimizer)};
    note_unused(config, share, log);
    return share->stage < 3 ? BERTH_OK
                            : error_set(error, BERTH_CONFIG,
                                        "zero_stage 3 would divide the weights among the "
                                        "processes, which is not supported: use --zero_stage 2");
}

// In stage 0 sums are gathered as they travelled, later heads, tables and vectors in f32.
size_t all_reduce_shared_bytes(const struct comm *comm, const struct state_share *share,
                               enum dtype wire) {
    const enum dtype gathered = share->stage == 0 ? wire : DTYPE_F32;
    const size_t bytes =
        (comm->reduce_bytes * dtype_size(wire) + comm->gather_bytes * dtype_size(gathered)) /
        sizeof(float);
    return bytes < comm->host_bytes ? bytes : comm->host_bytes;
}

// Of a piece that may be under way: its gradients' sums, these gathered, its weights.
enum { EXCHANGES = 3 };

enum berth_status all_reduce_init(struct all_reduce *all_reduce, struct comm *comm,
                                  struct state *state, const struct all_reduce_rules *rules,
                                  struct berth_error *error) {
    const size_t ranges = param_range_count(state->table), most = 2 * ranges;
    const size_t width = (size_t)comm->size + 1;
    *all_reduce = (struct all_reduce){.comm = comm, .state = state, .rules = *rules};
    all_reduce->pieces = memory_array_zeroed(most, sizeof *all_reduce->pieces);
    all_reduce->first_piece = memory_array_zeroed(ranges + 1, sizeof *all_reduce->first_piece);
    all_reduce->starts = memory_array_zeroed(most * width, sizeof *all_reduce->starts);
    all_reduce->gradients = memory_array_zeroed(ranges, sizeof *all_reduce->gradients);
    all_reduce->weights = memory_array_zeroed(ranges, sizeof *all_reduce->weights);
    if (all_reduce->pieces == NULL || all_reduce->first_piece == NULL ||
        all_reduce->starts == NULL || all_reduce->gradients == NULL ||
        all_reduce->weights == NULL) {
        return error_no_memory(error, most * width * sizeof *all_reduce->starts,
                               "the pieces of an exchange");
    }
    list_pieces(all_reduce);
    return range_exchange_init(&all_reduce->exchange, comm, state->device, state->table->total,
                               (int64_t)(EXCHANGES * most), rules->way, error);
}

void all_reduce_end(struct all_reduce *all_reduce) {
    if (all_reduce->gradients != NULL && all_reduce->weights != NULL) {
        all_reduce_wait_all_gradients(all_reduce);
        all_reduce_wait_all_weights(all_reduce);
    }
    range_exchange_end(&all_reduce->exchange);
}

void all_reduce_done(struct all_reduce *all_reduce) {
    range_exchange_done(&all_reduce->exchange);
    memory_free(all_reduce->pieces);
    memory_free(all_reduce->first_piece);
    memory_free(all_reduce->starts);
    memory_free(all_reduce->gradients);
    memory_free(all_reduce->weights);
    *all_reduce = (struct all_reduce){0};
}

int all_reduce_is_shared(const struct all_reduce *all_reduce) {
    return all_reduce->comm->size > 1;
}

// --- exchanging ---------------------------------------------------------------------------------

static struct comm_range gradients_of(const struct all_reduce *all_reduce,
                                      const struct all_reduce_piece *piece) {
    return (struct comm_range){.name = "gradients",
                               .data = all_reduce->state->gradients + piece->first,
                               .first = piece->first,
                               .count = piece->count,
                               .dtype = DTYPE_F32,
                               .wire = all_reduce->rules.wire,
                               .starts = piece->starts,
                               .bucket = all_reduce->rules.gradient_bucket};
}

static struct comm_range master_of(const struct all_reduce *all_reduce,
                                   const struct all_reduce_piece *piece, const char *name) {
    return (struct comm_range){.name = name,
                               .data = all_reduce->state->master + piece->first,
                               .first = piece->first,
                               .count = piece->count,
                               .dtype = DTYPE_F32,
                               .wire = DTYPE_F32,
                               .starts = piece->starts,
                               .bucket = all_reduce->rules.weight_bucket};
}

void all_reduce_begin(struct all_reduce *all_reduce, size_t range) {
    struct range_exchange *exchange = &all_reduce->exchange;
    if (!all_reduce_is_shared(all_reduce)) {
        return;
    }
    for (size_t i = all_reduce->first_piece[range]; i < all_reduce->first_piece[range + 1]; i++) {
        const struct comm_range gradients = gradients_of(all_reduce, &all_reduce->pieces[i]);
        all_reduce->gradients[range] = range_exchange_reduce(exchange, &gradients);
        if (all_reduce->state->share.stage == 0) {
            all_reduce->gradients[range] = range_exchange_gather(exchange, &gradients);
        }
    }
    if (all_reduce->rules.waits) {
        all_reduce_wait_gradients(all_reduce, range);
    }
}

int all_reduce_reads_copy(const struct all_reduce *all_reduce, size_t range) {
    return all_reduce->state->copy != NULL &&
           (int64_t)range < all_reduce->state->table->layer_count;
}

static struct comm_range weights_of(const struct all_reduce *all_reduce,
                                    const struct all_reduce_piece *piece, size_t range) {
    const struct state *state = all_reduce->state;
    struct comm_range weights = master_of(all_reduce, piece, "weights");
    if (all_reduce_reads_copy(all_reduce, range)) {
        weights.data = (char *)state->copy + (size_t)piece->first * dtype_size(state->compute);
        weights.dtype = weights.wire = state->compute;
    }
    return weights;
}

void all_reduce_gather(struct all_reduce *all_reduce, size_t range) {
    if (!all_reduce_is_shared(all_reduce) || all_reduce->state->share.stage == 0) {
        return;
    }
    for (size_t i = all_reduce->first_piece[range]; i < all_reduce->first_piece[range + 1]; i++) {
        const struct comm_range weights = weights_of(all_reduce, &all_reduce->pieces[i], range);
        all_reduce->weights[range] = range_exchange_gather(&all_reduce->exchange, &weights);
    }
    if (all_reduce->rules.waits) {
        all_reduce_wait_weights(all_reduce, range);
    }
}

// The compute copy of a range whose master weights were gathered.
static void copy_range(const struct all_reduce *all_reduce, size_t index) {
    const struct state *state = all_reduce->state;
    const struct param_range range = param_range(state->table, index);
    const int64_t left = state->table->matrix_count - range.first;
    const int64_t count = left < range.count ? left : range.count;
    if (state->copy != NULL && !all_reduce_reads_copy(all_reduce, index) && count > 0) {
        char *copy = (char *)state->copy + (size_t)range.first * dtype_size(state->compute);
        state->device->convert(state->device, mat_of(copy, 1, count, state->compute),
                               state->master + range.first);
    }
}

// Waits for the exchange whose ticket this is; 0: there was none.
static int wait(struct all_reduce *all_reduce, int64_t *ticket) {
    const int is_begun = *ticket > 0;
    if (is_begun) {
        range_exchange_wait(&all_reduce->exchange, *ticket);
        *ticket = 0;
    }
    return is_begun;
}

void all_reduce_wait_gradients(struct all_reduce *all_reduce, size_t range) {
    (void)wait(all_reduce, &all_reduce->gradients[range]);
}

void all_reduce_wait_weights(struct all_reduce *all_reduce, size_t range) {
    if (wait(all_reduce, &all_reduce->weights[range])) {
        copy_range(all_reduce, range);
    }
}

void all_reduce_wait_all_gradients(struct all_reduce *all_reduce) {
    range_exchange_give_all(&all_reduce->exchange);
    for (size_t i = 0; i < param_range_count(all_reduce->state->table); i++) {
        all_reduce_wait_gradients(all_reduce, i);
    }
}

void all_reduce_wait_all_weights(struct all_reduce *all_reduce) {
    range_exchange_give_all(&all_reduce->exchange);
    for (size_t i = 0; i < param_range_count(all_reduce->state->table); i++) {
        all_reduce_wait_weights(all_reduce, i);
    }
}

// Stage 2 gives their memory back as well.
static void clear(const struct state *state, int64_t from, int64_t to) {
    struct device *device = state->device;
    void (*const remove)(struct device *, void *, size_t) =
        state->share.stage == 2 ? device->discard : device->zero;
    remove(device, state->gradients + from, (size_t)(to - from) * sizeof *state->gradients);
}

void all_reduce_clear(struct all_reduce *all_reduce, size_t range) {
    const int rank = all_reduce->comm->rank;
    if (!all_reduce_is_shared(all_reduce) || all_reduce->state->share.stage == 0) {
        return;
    }
    for (size_t i = all_reduce->first_piece[range]; i < all_reduce->first_piece[range + 1]; i++) {
        const struct all_reduce_piece *piece = &all_reduce->pieces[i];
        clear(all_reduce->state, piece->first, piece->starts[rank]);
        clear(all_reduce->state, piece->starts[rank + 1], piece->first + piece->count);
    }
}
