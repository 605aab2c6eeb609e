// SPDX-License-Identifier: Apache-2.0
// Chooses who adds the gradients, while the plan is made. With `auto` it forecasts an update's
// exchange both ways on these hosts, with an assumed link (comm/comm_forecast.h), and takes the
// library only if that is clearly faster. Nothing is measured, so every run of a job makes the same
// choice. all_reduce.c exchanges by what is chosen here.
#include "train/job/reduce_choice.h"

#include "comm/comm_forecast.h"
#include "core/memory.h"

#include <stdio.h>
#include <string.h>

// The link that `auto` assumes: 100 Gbit/s, and 10 us from one host to another.
static const struct comm_link assumed_link = {.bytes_per_second = 1.2e10, .delay_seconds = 1e-5};
static const double gain = 1.05; // that a forecast must show

static void choose(struct reduce_choice *choice, int native, const char *reason) {
    choice->native = native;
    (void)snprintf(choice->reason, sizeof choice->reason, "%s", reason);
}

// --- the forecast -------------------------------------------------------------------------------

struct exchange {
    struct comm *comm;
    const struct state *state;
    const struct all_reduce_rules *rules;
    int native;
    int64_t *starts; // [size + 1]
};

// Whether a layer has as many blocks as there are ranks, so that all own about equal parts.
static int has_equal_parts(const struct exchange *exchange) {
    return param_range(exchange->state->table, 0).count / DEVICE_SUM_BLOCK >= exchange->comm->size;
}

// A range of the parameters as its owners divide it. Of few ranks as if all owned equal parts, of
// many without the elements before its end that belong to the owner of those after it
// (all_reduce.c).
static struct comm_range range_of(const struct exchange *exchange, size_t index) {
    const struct param_range range = param_range(exchange->state->table, index);
    const struct partition_rule rule = state_partition_rule(&exchange->state->sharding);
    const int size = exchange->comm->size, are_equal = has_equal_parts(exchange);
    int64_t *starts = exchange->starts;
    partition_starts(exchange->state->table, &rule, range, starts);
    for (int rank = 0; rank <= size; rank++) {
        starts[rank] = are_equal                    ? range.first + range.count * rank / size
                       : starts[rank] > range.first ? starts[rank]
                                                    : range.first;
    }
    return (struct comm_range){.first = range.first,
                               .count = starts[size] - range.first,
                               .dtype = DTYPE_F32,
                               .wire = exchange->rules->wire,
                               .starts = exchange->starts,
                               .bucket = exchange->rules->gradient_bucket,
                               .native = exchange->native,
                               .to_all = exchange->state->sharding.stage == 0};
}

// Seconds in which all gradients, and the weights if ranks divide them, are exchanged at once.
static double exchange_seconds(const struct exchange *exchange) {
    struct comm *comm = exchange->comm;
    const size_t ranges = param_range_count(exchange->state->table);
    int64_t ticket = 0;
    for (size_t i = 0; i < ranges; i++) {
        const struct comm_range gradients = range_of(exchange, i);
        ticket = comm->reduce_begin(comm, &gradients);
    }
    comm->wait(comm, ticket);
    for (size_t i = 0; i < ranges && exchange->state->sharding.stage > 0; i++) {
        struct comm_range weights = range_of(exchange, i);
        weights.dtype = weights.wire = exchange->state->compute;
        weights.bucket = exchange->rules->weight_bucket;
        ticket = comm->gather_begin(comm, &weights);
    }
    comm->wait(comm, ticket);
    return comm_forecast_clocks(comm)[0];
}

static enum berth_status forecast_exchange(const struct comm_cluster *cluster,
                                           struct exchange exchange, double *seconds,
                                           struct berth_error *error) {
    TRY(comm_forecast_open(cluster, &exchange.comm, error));
    const size_t count = (size_t)exchange.comm->size + 1;
    exchange.starts = memory_array(count, sizeof *exchange.starts);
    enum berth_status status = BERTH_OK;
    if (exchange.starts == NULL) {
        status = error_no_memory(error, count * sizeof *exchange.starts, "a forecast");
    } else {
        *seconds = exchange_seconds(&exchange);
        status = exchange.comm->status(exchange.comm, error);
    }
    memory_free(exchange.starts);
    exchange.comm->close(exchange.comm);
    return status;
}

static enum berth_status choose_by_forecast(const struct comm *comm, const struct state *state,
                                            const struct all_reduce_rules *rules,
                                            struct reduce_choice *choice,
                                            struct berth_error *error) {
    const struct comm_cluster cluster = {.hosts = comm->host_count,
                                         .ranks_per_host = comm->local_size,
                                         .rack_hosts = (comm->host_count + comm->rack_count - 1) /
                                                       comm->rack_count,
                                         .link = assumed_link,
                                         .costs = comm_costs_usual,
                                         .library_is_linear = comm->library_is_linear};
    struct exchange exchange = {.state = state, .rules = rules};
    double exact, native;
    TRY(forecast_exchange(&cluster, exchange, &exact, error));
    exchange.native = 1;
    TRY(forecast_exchange(&cluster, exchange, &native, error));
    choice->native = exact > gain * native;
    (void)snprintf(choice->reason, sizeof choice->reason,
                   "auto; on a link of 100 Gbit/s the forecast of an exchange is %.3f s exact, "
                   "%.3f s native",
                   exact, native);
    return BERTH_OK;
}

// --- the choice ---------------------------------------------------------------------------------

enum berth_status reduce_choose(const struct engine_settings *settings, struct comm *comm,
                                const struct state *state, const struct all_reduce_rules *rules,
                                struct reduce_choice *choice, struct berth_error *error) {
    *choice = (struct reduce_choice){0};
    if (strcmp(settings->reduce, "native") == 0 && settings->virtual_ranks > 0) {
        return error_set(error, BERTH_CONFIG,
                         "reduce native cannot be combined with virtual_ranks, whose sums have a "
                         "fixed order: omit one of them");
    }
    if (comm->size == 1) {
        return BERTH_OK;
    }
    if (strcmp(settings->reduce, "native") == 0) {
        if (state->device->is_host && comm->native_missing != NULL && comm->host_count > 1) {
            return error_set(error, BERTH_CONFIG,
                             "reduce native: %s: start as many on each host, or use reduce exact",
                             comm->native_missing);
        }
        choose(choice, !state->device->is_host || comm->native_missing == NULL,
               comm->native_missing != NULL && state->device->is_host ? comm->native_missing
                                                                      : "as asked");
        return BERTH_OK;
    }
    if (strcmp(settings->reduce, "exact") == 0) {
        choose(choice, 0, "as asked");
    } else if (settings->virtual_ranks > 0) {
        choose(choice, 0, "auto; virtual_ranks needs sums of a fixed order");
    } else if (!state->device->is_host) {
        choose(choice, 0, "auto; there is no forecast of exchanges between GPUs");
    } else if (comm->native_missing != NULL) {
        choose(choice, 0, "auto; ");
        (void)snprintf(choice->reason, sizeof choice->reason, "auto; %s", comm->native_missing);
    } else {
        return choose_by_forecast(comm, state, rules, choice, error);
    }
    return BERTH_OK;
}

void reduce_choice_note(const struct reduce_choice *choice, const struct all_reduce *all_reduce,
                        const struct berth_log *log) {
    const struct comm *comm = all_reduce->comm;
    const int is_library = choice->native && comm->native_missing == NULL;
    if (comm->rack_count > 1 && (all_reduce->exchange.is_direct || is_library)) {
        log_note(log, "topology has no effect where %s adds or sends the gradients",
                 all_reduce->exchange.is_direct ? "NCCL" : comm->library);
    }
    if (!choice->native) {
        return;
    }
    if (!all_reduce->exchange.is_direct && comm->native_missing != NULL) {
        log_note(log, "reduce native has no effect: %s", comm->native_missing);
        return;
    }
    log_note(log,
             "reduce native: %s adds the gradients, so the bytes of the model depend on the number "
             "of processes and their hosts, and numbers travel without checksums",
             all_reduce->exchange.is_direct ? "NCCL" : comm->library);
}
