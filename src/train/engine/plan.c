// SPDX-License-Identifier: Apache-2.0
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
               ? state_measure_sharded(state->table, state->compute, &state->sharding)
               : state_measure(state->table, state->compute, training);
}

// Host memory for loading weights, beyond what the run needs later.
static uint64_t staging_of(const struct state *state, uint64_t later) {
    const uint64_t staging = state_loader_bytes(state);
    return !state->device->is_host ? staging : staging > later ? staging - later : 0;
}

enum berth_status plan_memory_make(struct plan_memory *memory, const struct state *state,
                                   const struct bert_config *config,
                                   const struct engine_shape *shape, struct berth_error *error) {
    int training = shape->train.tokens > 0;
    *memory = (struct plan_memory){
        .state = state_bytes_of(state, training),
        .resident = machine_resident() + UNCOUNTED_BYTES,
    };
    TRY(engine_measure(state, config, shape, &memory->engine, error));
    const struct state_bytes *own = &memory->state;
    const uint64_t computed = own->weights + own->copy + own->gradients + own->moments +
                              memory->engine.activations + memory->engine.workspace;
    memory->staging = staging_of(state, memory->engine.activations + memory->engine.workspace);
    memory->total = memory->resident + memory->engine.batches + memory->staging;
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
    log_fields(log, BERTH_RECORD_PLAN, "memory", fields, memory->device > 0 ? count : count - 1);
}

// Adds to the totals what plan_memory_make does not know.
static void add_totals(struct plan_memory *memory, const struct device *device) {
    memory->total += memory->data + memory->exchange + memory->shared + memory->saving;
    *(device->is_host ? &memory->total : &memory->device) += memory->levels;
}

// Bytes still to be allocated, and the budget that they exceed.
struct need {
    uint64_t bytes;
    const struct plan_budget *budget;
};

// Resident memory is no longer part of the available memory, so it is not counted again.
static uint64_t host_need(const struct plan_memory *memory) {
    return memory->total - memory->resident + UNCOUNTED_BYTES;
}

// The first of the two budgets that is too small; budget NULL: both are large enough.
static struct need find_shortage(const struct plan_limit_args *args,
                                 const struct plan_memory *memory) {
    const uint64_t host = host_need(memory);
    if (host > args->host.available) {
        return (struct need){host, &args->host};
    }
    return (struct need){memory->device,
                         memory->device > args->device.available ? &args->device : NULL};
}

static int fits(const struct plan_limit_args *args, const struct engine_shape *shape) {
    struct plan_memory memory;
    if (plan_memory_make(&memory, args->state, args->config, shape, NULL) != BERTH_OK) {
        return 0;
    }
    memory.data = args->memory->data;
    memory.exchange = args->memory->exchange;
    memory.levels = args->memory->levels;
    memory.shared = args->memory->shared;
    memory.saving = args->memory->saving;
    add_totals(&memory, args->state->device);
    return find_shortage(args, &memory).budget == NULL;
}

static int64_t at_least_one(int64_t count) {
    return count > 0 ? count : 1;
}

// Whether micro-batches (in prediction: batches) of this many sequences of full length fit. In
// training, `sequences` counts examples, each of args->texts sequences.
static int fits_with(const struct plan_limit_args *args, int64_t sequences) {
    struct engine_shape shape = *args->shape;
    const struct batch_extent worst = batch_extent_larger(&shape.train, &shape.infer);
    const int64_t texts = sequences * at_least_one(args->texts);
    int64_t tokens = sequences * worst.max_length;
    if (shape.train.tokens > 0) {
        tokens = texts * worst.max_length;
        shape.train.tokens = tokens < shape.train.tokens ? tokens : shape.train.tokens;
        shape.train.sequences = texts;
    }
    if (shape.infer.tokens > 0) {
        shape.infer.tokens = tokens < shape.infer.tokens ? tokens : shape.infer.tokens;
    }
    return fits(args, &shape);
}

// Whether the plan fits if activations are recomputed.
static int fits_checkpointing(const struct plan_limit_args *args) {
    struct engine_shape shape = *args->shape;
    int is_new = shape.train.tokens > 0 && !shape.gradient_checkpointing;
    shape.gradient_checkpointing = 1;
    return is_new && fits(args, &shape);
}

// The next smaller size to try: half; in training the next smaller one that divides the update and
// is a whole number of groups.
static int64_t next_smaller(const struct plan_limit_args *args, int64_t sequences) {
    const int64_t group = at_least_one(args->group);
    if (args->update_sequences == 0) {
        return sequences / 2;
    }
    do {
        sequences--;
    } while (sequences > 0 && (args->update_sequences % sequences != 0 || sequences % group != 0));
    return sequences;
}

// The first size below `sequences` whose plan fits; 0: not even one sequence does.
static int64_t largest_fitting(const struct plan_limit_args *args, int64_t sequences) {
    do {
        sequences = next_smaller(args, sequences);
    } while (sequences > 0 && !fits_with(args, sequences));
    return sequences;
}

#define ADVICE_SIZE 160

// "--predict_batch_size 8 would fit"
static void advise(const struct plan_limit_args *args, char text[ADVICE_SIZE]) {
    int training = args->shape->train.tokens > 0;
    int64_t max_sequences = training ? args->shape->train.sequences / at_least_one(args->texts)
                                     : args->shape->infer.tokens / args->shape->infer.max_length;
    int64_t fit = largest_fitting(args, max_sequences);
    const char *option = training ? "per_device_train_batch_size" : "predict_batch_size";
    const char *also = fits_checkpointing(args) ? ", and so would --gradient_checkpointing" : "";
    if (fit > 0) {
        snprintf(text, ADVICE_SIZE, "--%s %" PRId64 " would fit%s", option, fit, also);
    } else if (training && args->group > 1) {
        snprintf(text, ADVICE_SIZE, "a smaller --negatives_batch needs less%s", also);
    } else {
        snprintf(text, ADVICE_SIZE,
                 "not even --%s 1 would fit: use a smaller model or fewer threads", option);
    }
}

enum berth_status plan_memory_check(const struct plan_limit_args *args, struct berth_error *error) {
    const uint64_t mebibyte = 1 << 20;
    const struct need need = find_shortage(args, args->memory);
    char advice[ADVICE_SIZE];
    if (need.budget == NULL) {
        return BERTH_OK;
    }
    advise(args, advice);
    return error_set(error, BERTH_CONFIG,
                     "the plan needs %" PRIu64 " MiB more memory and %s leaves %" PRIu64 " MiB; %s",
                     need.bytes / mebibyte, need.budget->limit, need.budget->available / mebibyte,
                     advice);
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

// The GPU's number in the job, exact as a double.
static double unit_of(const struct comm *comm, const struct device *device) {
    return (double)(device->gpu_id + ((uint64_t)comm->host % 4096 << 40));
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
    totals.units[comm->rank] = unit_of(comm, args->state->device);
    totals.hosts[comm->host] = (double)(memory->total - memory->shared + window);
    totals.needs[comm->host] = (double)(host_need(memory) - memory->shared + window);
    comm->sum(comm, values, count);
    return comm->status(comm, error);
}

struct named_field {
    char name[48];
};

// Adds "rank_0_plan_bytes", ... if there are few, else the smallest and the largest.
static size_t add_each(struct berth_field *fields, size_t count, struct named_field *names,
                       const char *noun, const double *values, int size) {
    double min = values[0], max = values[0];
    for (int i = 0; i < size; i++) {
        min = values[i] < min ? values[i] : min;
        max = values[i] > max ? values[i] : max;
        if (size <= MAX_NAMED) {
            snprintf(names[i].name, sizeof names[i].name, "%s_%d_plan_bytes", noun, i);
            fields[count++] = log_integer(names[i].name, (int64_t)values[i]);
        }
    }
    if (size > MAX_NAMED) {
        snprintf(names[0].name, sizeof names[0].name, "least_%s_plan_bytes", noun);
        snprintf(names[1].name, sizeof names[1].name, "most_%s_plan_bytes", noun);
        fields[count++] = log_integer(names[0].name, (int64_t)min);
        fields[count++] = log_integer(names[1].name, (int64_t)max);
    }
    return count;
}

static void report_ranks(const struct plan_args *args, const struct totals *totals) {
    const struct comm *comm = args->comm;
    const size_t window = args->shared > 0 ? comm->host_bytes : 0;
    struct named_field rank_names[MAX_NAMED], host_names[MAX_NAMED];
    struct berth_field fields[3 + 2 * MAX_NAMED] = {
        log_integer("ranks", comm->size),
        log_integer("hosts", comm->host_count),
        log_integer("host_shared_bytes", (int64_t)window),
    };
    size_t count = add_each(fields, 3, rank_names, "rank", totals->ranks, comm->size);
    count = add_each(fields, count, host_names, "host", totals->hosts, comm->host_count);
    log_fields(args->log, BERTH_RECORD_PLAN, "memory of ranks and hosts", fields, count);
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

static void add_job_memory(struct plan_memory *memory, const struct plan_args *args) {
    memory->data = args->data;
    memory->exchange = args->exchange;
    memory->shared = args->shared;
    memory->levels = args->levels;
    memory->saving = args->saving;
    add_totals(memory, args->state->device);
}

static uint64_t scaled(uint64_t available, double fraction) {
    return fraction < 1 ? (uint64_t)((double)available * fraction) : available;
}

static void scale_limits(struct plan_limit_args *limit, struct fraction fraction) {
    limit->host.available = scaled(limit->host.available, fraction.host);
    limit->device.available = scaled(limit->device.available, fraction.device);
}

static struct plan_limit_args limit_of(const struct plan_args *args,
                                       const struct plan_memory *memory) {
    struct device *device = args->state->device;
    struct plan_limit_args limit = {.memory = memory,
                                    .state = args->state,
                                    .config = args->config,
                                    .shape = args->shape,
                                    .update_sequences = args->update_sequences,
                                    .texts = args->texts,
                                    .group = args->group,
                                    .device = {.available = UINT64_MAX}};
    limit.host.available = machine_memory_available(&limit.host.limit);
    if (device->memory_available != NULL) {
        limit.device.available = device->memory_available(device, &limit.device.limit);
    }
    return limit;
}

enum berth_status plan_memory_admit(const struct plan_args *args, uint64_t *total,
                                    struct berth_error *error) {
    struct plan_memory memory;
    struct fraction fraction = {args->processes > 1 ? 1.0 / args->processes : 1, 1};
    enum berth_status status =
        plan_memory_make(&memory, args->state, args->config, args->shape, error);
    if (args->comm != NULL) {
        TRY(comm_settle(args->comm, status, error));
        status = machine_compare_devices(args->comm, args->state->device, error);
    }
    TRY(status);
    add_job_memory(&memory, args);
    plan_memory_report(&memory, args->log);
    struct plan_limit_args limit = limit_of(args, &memory); // before any rank allocates
    if (args->comm != NULL && args->comm->size > 1) {
        TRY(plan_ranks(args, &memory, &fraction, error));
    }
    if (total != NULL) {
        *total = memory.total;
    }
    scale_limits(&limit, fraction);
    return plan_memory_check(&limit, error);
}

int plan_memory_fits(const struct plan_args *args) {
    struct plan_memory memory;
    const int processes = args->comm != NULL ? args->comm->local_size : args->processes;
    if (plan_memory_make(&memory, args->state, args->config, args->shape, NULL) != BERTH_OK) {
        return 0;
    }
    add_job_memory(&memory, args);
    struct plan_limit_args limit = limit_of(args, &memory);
    scale_limits(&limit, (struct fraction){processes > 1 ? 1.0 / processes : 1, 1});
    return find_shortage(&limit, &memory).budget == NULL;
}

void plan_memory_advise(const struct plan_args *args, struct berth_error *error) {
    struct plan_memory memory;
    char advice[ADVICE_SIZE];
    if (error == NULL || plan_memory_make(&memory, args->state, args->config, args->shape, NULL)) {
        return;
    }
    add_job_memory(&memory, args);
    const struct plan_limit_args limit = limit_of(args, &memory);
    advise(&limit, advice);
    const size_t used = strlen(error->message);
    snprintf(error->message + used, sizeof error->message - used, "; %s", advice);
}
