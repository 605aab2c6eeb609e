// SPDX-License-Identifier: Apache-2.0
// Adds up the memory of a run on the device, on the host and for all ranks of a host, compares it
// with what is available, and refuses a run that does not fit, with the largest sizes that would
// (per_device_train_batch_size, predict_batch_size). The code that will allocate the memory also
// gives the sizes: it runs without memory (core/arena.h). Jobs call this before they allocate.
#include "train/engine/plan.h"

#include "core/memory.h"
#include "train/machine/machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// Memory that the plan does not list: thread stacks, tables of libraries, small blocks.
#define UNCOUNTED_BYTES ((uint64_t)24 << 20)

static struct state_bytes state_bytes_of(const struct state *state, int training) {
    return state->is_int8 ? state_measure_int8(state->table, state->device)
           : training && state->sharding.size > 1
               ? state_measure_sharded(state->table, state->device, state->compute,
                                       &state->sharding)
               : state_measure(state->table, state->compute, training);
}

// Host memory for loading weights, beyond what the run needs later.
static uint64_t staging_of(const struct state *state, uint64_t later) {
    const uint64_t staging = state_loader_bytes(state);
    return !state->device->is_host ? staging : staging > later ? staging - later : 0;
}

enum berth_status plan_memory_make(struct plan_memory *memory, const struct plan_args *args,
                                   struct berth_error *error) {
    const struct state *state = args->state;
    const struct state_bytes own = args->has_weights
                                       ? (struct state_bytes){0}
                                       : state_bytes_of(state, args->shape->train.tokens > 0);
    *memory = (struct plan_memory){
        .state = own,
        .resident = machine_resident() + UNCOUNTED_BYTES,
        .data = args->data,
        .exchange = args->exchange,
        .levels = args->levels,
        .shared = args->shared,
        .saving = args->saving,
    };
    TRY(engine_measure(state, args->config, args->shape, &memory->engine, error));
    const uint64_t computed = own.weights + own.copy + own.gradients + own.moments + args->levels +
                              memory->engine.activations + memory->engine.workspace;
    memory->staging =
        args->has_weights
            ? 0
            : staging_of(state, memory->engine.activations + memory->engine.workspace);
    memory->total = memory->resident + memory->engine.batches + memory->staging + args->data +
                    args->exchange + args->shared + args->saving;
    if (state->device->is_host) {
        memory->total += computed;
    } else {
        memory->device = computed + memory->engine.batches;
    }
    return BERTH_OK;
}

void plan_memory_report(const struct plan_memory *memory, const struct berth_log *log) {
    struct berth_field fields[] = {
        log_integer("weights_bytes", (int64_t)memory->state.weights),
        log_integer("gradients_bytes", (int64_t)memory->state.gradients),
        log_integer("moments_bytes", (int64_t)memory->state.moments),
        log_integer("compute_copy_bytes", (int64_t)memory->state.copy),
        log_integer("activations_bytes", (int64_t)memory->engine.activations),
        log_integer("device_workspace_bytes", (int64_t)memory->engine.workspace),
        log_integer("batches_bytes", (int64_t)memory->engine.batches),
        log_integer("data_bytes", (int64_t)memory->data),
        log_integer("exchange_bytes", (int64_t)(memory->exchange + memory->levels)),
        log_integer("shared_exchange_bytes", (int64_t)memory->shared),
        log_integer("saving_bytes", (int64_t)memory->saving),
        log_integer("staging_bytes", (int64_t)memory->staging),
        log_integer("program_and_features_bytes", (int64_t)memory->resident),
        log_integer("plan_bytes", (int64_t)memory->total),
        log_integer("device_plan_bytes", (int64_t)memory->device), // if it has its own memory
    };
    const size_t count = sizeof fields / sizeof fields[0];
    log_fields(log, BERTH_PLAN, "memory", fields, memory->device > 0 ? count : count - 1);
}

// Bytes still to be allocated, and the budget that they exceed.
struct shortfall {
    uint64_t bytes;
    const struct plan_budget *budget;
};

// Resident memory is no longer part of the available memory, so it is not counted again.
static uint64_t host_need(const struct plan_memory *memory) {
    return memory->total - memory->resident + UNCOUNTED_BYTES;
}

// The first of the two budgets that is too small; budget NULL: both are large enough.
static struct shortfall find_shortfall(const struct plan_memory *memory,
                                       const struct plan_limits *limits) {
    const uint64_t host = host_need(memory);
    if (host > limits->host.available) {
        return (struct shortfall){host, &limits->host};
    }
    return (struct shortfall){memory->device,
                              memory->device > limits->device.available ? &limits->device : NULL};
}

static int fits(const struct plan_args *args, const struct plan_limits *limits) {
    struct plan_memory memory;
    return plan_memory_make(&memory, args, NULL) == BERTH_OK &&
           find_shortfall(&memory, limits).budget == NULL;
}

static int fits_shape(const struct plan_args *args, const struct plan_limits *limits,
                      const struct engine_shape *shape) {
    struct plan_args changed = *args;
    changed.shape = shape;
    return fits(&changed, limits);
}

static int64_t at_least_one(int64_t count) {
    return count > 0 ? count : 1;
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// Bits: the sizes that a suggestion changes.
enum size { SIZE_MICRO = 1, SIZE_PREDICT = 2 };

static int64_t predict_length(const struct plan_args *args) {
    return args->predict_length > 0 ? args->predict_length : args->shape->infer.max_length;
}

// Whether batches of this many sequences of full length fit.
static int fits_with(const struct plan_args *args, const struct plan_limits *limits, unsigned sizes,
                     int64_t sequences) {
    struct engine_shape shape = *args->shape;
    if (sizes & SIZE_MICRO) {
        // A micro-batch of training has whole examples, here all of full length.
        const int64_t texts = sequences * at_least_one(args->texts);
        shape.train.sequences = texts;
        shape.train.tokens = smaller(shape.train.tokens, texts * shape.train.max_length);
        shape.train.masked = smaller(shape.train.masked,
                                     args->masked > 0 ? texts * args->masked : shape.train.tokens);
    }
    if (sizes & SIZE_PREDICT) {
        // A batch of prediction is filled with short sequences, which have at least two tokens.
        shape.infer.tokens = smaller(shape.infer.tokens, (sequences * predict_length(args)));
        shape.infer.sequences =
            smaller(shape.infer.sequences, at_least_one(shape.infer.tokens / 2));
        shape.infer.masked = smaller(shape.infer.masked, shape.infer.tokens);
    }
    return fits_shape(args, limits, &shape);
}

// The next smaller size to try: half; of a micro-batch the next smaller one that divides the
// update, if that stays. A micro-batch is a whole number of groups.
static int64_t next_smaller(const struct plan_args *args, unsigned sizes, int64_t sequences) {
    const int64_t group = at_least_one(args->group);
    if (!(sizes & SIZE_MICRO)) {
        return sequences / 2;
    }
    if (args->update_factor > 0 || args->update_sequences == 0) {
        return sequences / 2 / group * group;
    }
    do {
        sequences--;
    } while (sequences > 0 && (args->update_sequences % sequences != 0 || sequences % group != 0));
    return sequences;
}

// A size above all that may be suggested for a micro-batch. One that is limited by its tokens may
// have many short sequences: a batch of as many long ones would be larger.
static int64_t above_micro(const struct plan_args *args) {
    const struct batch_extent *micro = &args->shape->train;
    const int64_t texts = at_least_one(args->texts);
    return smaller(micro->sequences / texts,
                   micro->tokens / at_least_one(texts * micro->max_length) + 1);
}

// The first smaller size whose plan fits; 0: not even one sequence does.
static int64_t largest_fitting(const struct plan_args *args, const struct plan_limits *limits,
                               unsigned sizes) {
    int64_t sequences = sizes & SIZE_MICRO
                            ? above_micro(args)
                            : args->shape->infer.tokens / at_least_one(predict_length(args));
    do {
        sequences = next_smaller(args, sizes, sequences);
    } while (sequences > 0 && !fits_with(args, limits, sizes, sequences));
    return sequences;
}

#define SIZES_SIZE 144
#define ADVICE_SIZE 256

static void print_sizes(const struct plan_args *args, unsigned sizes, int64_t sequences,
                        char text[SIZES_SIZE]) {
    const struct {
        const char *option;
        int64_t value; // 0: is not named
    } parts[] = {
        {"per_device_train_batch_size", sizes & SIZE_MICRO ? sequences : 0},
        {"train_batch_size", sizes & SIZE_MICRO ? sequences * args->update_factor : 0},
        {"predict_batch_size", sizes & SIZE_PREDICT ? sequences : 0},
    };
    size_t used = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i].value > 0) {
            used += (size_t)snprintf(text + used, SIZES_SIZE - used, "%s%s %" PRId64,
                                     used > 0 ? " with " : "", parts[i].option, parts[i].value);
        }
    }
}

// "--predict_batch_size 8 would fit". A job that trains and evaluates may have to change either
// size, or both.
static void advise(const struct plan_args *args, const struct plan_limits *limits,
                   char text[ADVICE_SIZE]) {
    const unsigned all = (args->shape->train.tokens > 0 ? SIZE_MICRO : 0u) |
                         (args->shape->infer.tokens > 0 ? SIZE_PREDICT : 0u);
    // The plan may fit if activations are recomputed.
    struct engine_shape shape = *args->shape;
    int is_new = shape.train.tokens > 0 && !shape.gradient_checkpointing;
    shape.gradient_checkpointing = 1;
    const char *also =
        is_new && fits_shape(args, limits, &shape) ? ", and so would gradient_checkpointing" : "";
    char sizes[SIZES_SIZE];
    int64_t fit = 0;
    for (unsigned some = SIZE_MICRO; some <= all && fit == 0; some++) {
        fit = (some & all) == some ? largest_fitting(args, limits, some) : 0;
        print_sizes(args, some, fit, sizes);
    }
    if (fit > 0) {
        snprintf(text, ADVICE_SIZE, "%s would fit%s", sizes, also);
    } else if (all & SIZE_MICRO && args->group > 1) {
        snprintf(text, ADVICE_SIZE, "a smaller negatives_batch needs less%s", also);
    } else {
        print_sizes(args, all, 1, sizes);
        snprintf(text, ADVICE_SIZE, "not even %s would fit: use a smaller model or fewer threads",
                 sizes);
    }
}

enum berth_status plan_memory_check(const struct plan_args *args, const struct plan_memory *memory,
                                    const struct plan_limits *limits, struct berth_error *error) {
    const uint64_t mebibyte = 1 << 20;
    const struct shortfall shortfall = find_shortfall(memory, limits);
    char advice[ADVICE_SIZE], reserved[64] = "";
    if (shortfall.budget == NULL) {
        return BERTH_OK;
    }
    if (shortfall.budget == &limits->host && limits->reserved >= mebibyte) {
        snprintf(reserved, sizeof reserved,
                 " beside the %" PRIu64 " MiB that this process has reserved",
                 limits->reserved / mebibyte);
    }
    advise(args, limits, advice);
    return error_set(error, BERTH_CONFIG,
                     "the plan needs %" PRIu64 " MiB more memory and %s leaves %" PRIu64
                     " MiB%s; %s",
                     shortfall.bytes / mebibyte, shortfall.budget->limit,
                     shortfall.budget->available / mebibyte, reserved, advice);
}

// --- several ranks ------------------------------------------------------------------------------

#define MAX_NAMED 16 // ranks, or hosts, up to which each is reported

// In bytes. Memory that the ranks of a host share counts once for the host.
struct totals {
    double *ranks; // [size] plan of each
    double *units; // [size] number of each rank's GPU, unique in the job
    double *hosts; // [host_count] plans of all its ranks
    double *needs; // [host_count] bytes still to be allocated
};

static struct totals totals_of(const struct comm *comm, double *values) {
    double *hosts = values + (ptrdiff_t)2 * comm->size;
    return (struct totals){values, values + comm->size, hosts, hosts + comm->host_count};
}

// Fills values[2 size + 2 host_count] with the totals of all ranks. `values` NULL: its allocation
// failed.
static enum berth_status exchange_totals(const struct plan_args *args,
                                         const struct plan_memory *memory, double *values,
                                         size_t count, struct berth_error *error) {
    struct comm *comm = args->comm;
    const size_t bytes = count * sizeof *values;
    TRY(comm_settle(comm, values != NULL ? BERTH_OK : error_no_memory(error, bytes, "the plan"),
                    error));
    const struct totals totals = totals_of(comm, values);
    const size_t window = comm->local_rank == 0 && memory->shared > 0 ? comm->host_bytes : 0;
    totals.ranks[comm->rank] = (double)memory->total;
    // The GPU's number in the job, which a double holds exactly.
    totals.units[comm->rank] =
        (double)(args->state->device->gpu_id + ((uint64_t)comm->host % 4096 << 40));
    totals.hosts[comm->host] = (double)(memory->total - memory->shared + window);
    totals.needs[comm->host] = (double)(host_need(memory) - memory->shared + window);
    comm->sum(comm, values, count);
    return comm->status(comm, error);
}

struct named_field {
    char name[48];
};

// Adds "rank_0_plan_bytes", ... if there are few, else the smallest and the largest.
static void add_each(struct log_record *record, struct named_field *names, const char *noun,
                     const double *values, int size) {
    double min = values[0], max = values[0];
    for (int i = 0; i < size; i++) {
        min = values[i] < min ? values[i] : min;
        max = values[i] > max ? values[i] : max;
        if (size <= MAX_NAMED) {
            snprintf(names[i].name, sizeof names[i].name, "%s_%d_plan_bytes", noun, i);
            LOG_ADD(record, log_integer(names[i].name, (int64_t)values[i]));
        }
    }
    if (size > MAX_NAMED) {
        snprintf(names[0].name, sizeof names[0].name, "least_%s_plan_bytes", noun);
        snprintf(names[1].name, sizeof names[1].name, "most_%s_plan_bytes", noun);
        LOG_ADD(record, log_integer(names[0].name, (int64_t)min),
                log_integer(names[1].name, (int64_t)max));
    }
}

static void report_ranks(const struct plan_args *args, const struct totals *totals) {
    const struct comm *comm = args->comm;
    const size_t window = args->shared > 0 ? comm->host_bytes : 0;
    struct named_field rank_names[MAX_NAMED], host_names[MAX_NAMED];
    struct log_record record = {0};
    LOG_ADD(&record, log_integer("ranks", comm->size), log_integer("hosts", comm->host_count),
            log_integer("host_shared_bytes", (int64_t)window));
    add_each(&record, rank_names, "rank", totals->ranks, comm->size);
    add_each(&record, host_names, "host", totals->hosts, comm->host_count);
    log_record(args->log, BERTH_PLAN, "memory of ranks and hosts", &record);
}

// This rank's fraction of the available memory.
struct fraction {
    double host, device;
};

static double device_fraction(const struct comm *comm, const struct totals *totals) {
    int sharers = 0;
    for (int rank = 0; rank < comm->size; rank++) {
        sharers += totals->units[rank] == totals->units[comm->rank];
    }
    return 1.0 / sharers;
}

// Reports the plans of all ranks and sets *fraction: host memory in proportion to need, a GPU's
// memory in equal parts.
static enum berth_status plan_ranks(const struct plan_args *args, const struct plan_memory *memory,
                                    struct fraction *fraction, struct berth_error *error) {
    struct comm *comm = args->comm;
    const size_t count = (size_t)(2 * comm->size + 2 * comm->host_count);
    double *values = memory_array_zeroed(count, sizeof *values);
    const enum berth_status status = exchange_totals(args, memory, values, count, error);
    if (status == BERTH_OK) {
        const struct totals totals = totals_of(comm, values);
        report_ranks(args, &totals);
        *fraction = (struct fraction){(double)host_need(memory) / totals.needs[comm->host],
                                      device_fraction(comm, &totals)};
    }
    memory_free(values);
    return status;
}

static uint64_t scaled(uint64_t available, double fraction) {
    return fraction < 1 ? (uint64_t)((double)available * fraction) : available;
}

// What this machine has left.
static struct plan_limits find_limits(struct device *device) {
    struct plan_limits limits = {.device = {.available = UINT64_MAX}};
    limits.reserved = memory_pages_reserved();
    limits.host.available = machine_memory_available(&limits.host.limit);
    if (device->memory_available != NULL) {
        limits.device.available = device->memory_available(device, &limits.device.limit);
    }
    return limits;
}

static void scale_limits(struct plan_limits *limits, struct fraction fraction) {
    limits->host.available = scaled(limits->host.available, fraction.host);
    limits->device.available = scaled(limits->device.available, fraction.device);
}

enum berth_status plan_memory_admit(const struct plan_args *args, uint64_t *total,
                                    struct berth_error *error) {
    struct plan_memory memory;
    struct fraction fraction = {args->processes > 1 ? 1.0 / args->processes : 1, 1};
    const enum berth_status status = plan_memory_make(&memory, args, error);
    TRY(args->comm != NULL ? comm_settle(args->comm, status, error) : status);
    plan_memory_report(&memory, args->log);
    struct plan_limits limits = find_limits(args->state->device); // before any rank allocates
    if (args->comm != NULL && args->comm->size > 1) {
        TRY(plan_ranks(args, &memory, &fraction, error));
    }
    if (total != NULL) {
        *total = memory.total;
    }
    scale_limits(&limits, fraction);
    return plan_memory_check(args, &memory, &limits, error);
}

int plan_memory_fits(const struct plan_args *args) {
    const int processes = args->comm != NULL ? args->comm->local_size : args->processes;
    struct plan_limits limits = find_limits(args->state->device);
    scale_limits(&limits, (struct fraction){processes > 1 ? 1.0 / processes : 1, 1});
    return fits(args, &limits);
}

void plan_memory_advise(const struct plan_args *args, struct berth_error *error) {
    char advice[ADVICE_SIZE];
    if (error == NULL) {
        return;
    }
    const struct plan_limits limits = find_limits(args->state->device);
    advise(args, &limits, advice);
    const size_t used = strlen(error->message);
    snprintf(error->message + used, sizeof error->message - used, "; %s", advice);
}
