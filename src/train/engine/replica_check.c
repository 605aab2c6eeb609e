// SPDX-License-Identifier: Apache-2.0
// Keeps a checksum of every range of the state from when it is written until it is read again, and
// compares both, and in every K-th update also the checksums of ranks that hold the same numbers.
// update.c calls it around the optimizer's step, the checkpoint before it is published. A
// difference ends the run with an error that says which tensor, rank and copy it is in.
#include "train/engine/replica_check.h"

#include "core/checksum.h"
#include "core/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int is_moment;
} kinds[REPLICA_KINDS] = {[REPLICA_MASTER] = {"master weight", 0},
                          [REPLICA_MOMENT1] = {"first moment", 1},
                          [REPLICA_MOMENT2] = {"second moment", 1},
                          [REPLICA_COPY] = {"compute copy", 0}};

// --- parts --------------------------------------------------------------------------------------

// Parts end where blocks of the buffer begin, as partitions do, so a part has one owner.
static int64_t part_end(const struct param *param, int64_t first) {
    const int64_t end = param->offset + param->rows * param->cols;
    const int64_t block_end = first - first % DEVICE_SUM_BLOCK + DEVICE_SUM_BLOCK;
    return end < block_end ? end : block_end;
}

static int64_t moment_offset(const struct state *state, int64_t first) {
    for (size_t i = 0; i < state->partition.count; i++) {
        const struct partition_span own = partition_intersect(&state->partition, i, first, 1);
        if (own.count > 0) {
            return own.offset;
        }
    }
    return -1;
}

// Lists the parts; with `parts` NULL it only counts them.
static size_t list_parts(const struct state *state, struct replica_part *parts) {
    size_t count = 0;
    for (size_t i = 0; i < state->table->count; i++) {
        const struct param *param = &state->table->params[i];
        const int64_t end = param->offset + param->rows * param->cols;
        for (int64_t first = param->offset; first < end; first = part_end(param, first), count++) {
            if (parts != NULL) {
                parts[count] = (struct replica_part){.param = param,
                                                     .first = first,
                                                     .count = part_end(param, first) - first,
                                                     .moment_offset = moment_offset(state, first)};
            }
        }
    }
    return count;
}

static void find_owners(struct replica_check *check, int64_t *starts) {
    const struct state *state = check->all_reduce->state;
    const struct partition_rule rule = state_partition_rule(&state->sharding);
    for (size_t range = 0; range < param_range_count(state->table); range++) {
        partition_starts(state->table, &rule, param_range(state->table, range), starts);
        for (size_t i = 0; i < check->count; i++) {
            struct replica_part *part = &check->parts[i];
            for (int rank = 0; rank < rule.size; rank++) {
                if (part->first >= starts[rank] && part->first < starts[rank + 1]) {
                    part->owner = rank;
                }
            }
        }
    }
}

// --- replicas -----------------------------------------------------------------------------------

enum { WRITTEN = 1, GATHERED = 2 };

// How a rank gets its copy of a part: its optimizer writes it, or it gathers it from the owner; 0:
// it has none.
static int holding_of(const struct replica_check *check, enum replica_kind kind, size_t range,
                      const struct replica_part *part, int rank) {
    const struct state *state = check->all_reduce->state;
    if (kind == REPLICA_COPY &&
        (state->copy == NULL || part->first >= state->table->matrix_count)) {
        return 0;
    }
    if (state->sharding.stage == 0 || part->owner == rank) {
        return WRITTEN;
    }
    const int is_kept = kind == REPLICA_COPY || (kind == REPLICA_MASTER &&
                                                 !all_reduce_reads_copy(check->all_reduce, range));
    return is_kept ? GATHERED : 0;
}

static size_t range_count(const struct replica_check *check) {
    return param_range_count(check->all_reduce->state->table);
}

// Where each range's written and gathered parts begin in `held`.
static size_t *first_held_of(const struct replica_check *check, enum replica_kind kind) {
    return check->first_held + (size_t)kind * (2 * range_count(check) + 1);
}

static void add_held(struct replica_check *check, enum replica_kind kind, size_t range, int holding,
                     struct device_checksum_range *held, size_t *count) {
    for (size_t i = check->first_part[range]; i < check->first_part[range + 1]; i++) {
        const struct replica_part *part = &check->parts[i];
        if (holding_of(check, kind, range, part, check->all_reduce->comm->rank) == holding) {
            held[(*count)++] = (struct device_checksum_range){
                .first = kinds[kind].is_moment ? part->moment_offset : part->first,
                .count = part->count,
                .sum = (int64_t)i};
        }
    }
}

// --- checksums ----------------------------------------------------------------------------------

enum set { KEPT, FOUND, SUM_SETS };

static uint64_t *sums_of(const struct replica_check *check, uint64_t *sums, enum set set,
                         enum replica_kind kind) {
    return sums + ((size_t)set * REPLICA_KINDS + (size_t)kind) * check->count;
}

static size_t sums_bytes(const struct replica_check *check) {
    return SUM_SETS * REPLICA_KINDS * check->count * sizeof *check->sums;
}

static struct mat values_of(const struct state *state, enum replica_kind kind) {
    const int64_t total = state->table->total, moments = state->partition.elements;
    switch (kind) {
    case REPLICA_MASTER:
        return mat_of(state->master, 1, total, DTYPE_F32);
    case REPLICA_MOMENT1:
        return mat_of(state->moment1, 1, moments, DTYPE_F32);
    case REPLICA_MOMENT2:
        return mat_of(state->moment2, 1, moments, DTYPE_F32);
    default:
        return mat_of(state->copy, 1, state->table->matrix_count, state->compute);
    }
}

// The device computes checksums of held parts [first, end) of a kind.
static void make_sums(const struct replica_check *check, enum replica_kind kind, size_t first,
                      size_t end, enum set set) {
    const struct device_checksum_range *held = check->held + (size_t)kind * check->count;
    if (first < end) {
        check->device->checksums(check->device, sums_of(check, check->sums, set, kind),
                                 values_of(check->all_reduce->state, kind), held + first,
                                 (int64_t)(end - first));
    }
}

static void checksum_range(struct replica_check *check, size_t range, int holding) {
    for (enum replica_kind kind = 0; kind < REPLICA_KINDS; kind++) {
        const size_t *first = first_held_of(check, kind) + 2 * range + (holding == GATHERED);
        make_sums(check, kind, first[0], first[1], KEPT);
    }
}

void replica_check_written(struct replica_check *check, size_t range) {
    if (check->every > 0) {
        checksum_range(check, range, WRITTEN);
        check->is_gathered[range] = 0;
    }
}

void replica_check_gathered(struct replica_check *check, size_t range) {
    if (check->every > 0 && !check->is_gathered[range]) {
        checksum_range(check, range, GATHERED);
        check->is_gathered[range] = 1;
    }
}

void replica_check_begin(struct replica_check *check) {
    if (check->every == 0) {
        return;
    }
    for (size_t range = 0; range < range_count(check); range++) {
        all_reduce_wait_weights(check->all_reduce, range);
        replica_check_gathered(check, range);
    }
    for (enum replica_kind kind = 0; kind < REPLICA_KINDS; kind++) {
        make_sums(check, kind, 0, first_held_of(check, kind)[2 * range_count(check)], FOUND);
    }
    if (check->fetched != check->sums) {
        check->fetch = check->device->fetch_begin(check->device, check->fetched, check->sums,
                                                  sums_bytes(check));
    }
}

// --- allocation ---------------------------------------------------------------------------------

static enum berth_status allocate_host(struct replica_check *check, struct berth_error *error) {
    const size_t ranges = range_count(check), count = check->count;
    check->parts = memory_array_zeroed(count, sizeof *check->parts);
    check->first_part = memory_array_zeroed(ranges + 1, sizeof *check->first_part);
    check->is_gathered = memory_array_zeroed(ranges, 1);
    check->first_held =
        memory_array_zeroed(REPLICA_KINDS * (2 * ranges + 1), sizeof *check->first_held);
    check->histories = memory_array_zeroed(REPLICA_KINDS * count, sizeof *check->histories);
    check->differs = memory_array_zeroed(count, 1);
    check->exchanged = memory_array_zeroed(2 * count, sizeof *check->exchanged);
    return check->parts != NULL && check->first_part != NULL && check->is_gathered != NULL &&
                   check->first_held != NULL && check->histories != NULL &&
                   check->differs != NULL && check->exchanged != NULL
               ? BERTH_OK
               : error_no_memory(error, count * sizeof *check->parts, "checksums of the state");
}

static size_t held_bytes(const struct replica_check *check) {
    return REPLICA_KINDS * check->count * sizeof *check->held;
}

static enum berth_status allocate_device(struct replica_check *check, struct berth_error *error) {
    struct device *device = check->device;
    check->held = device->memory_new(device, held_bytes(check));
    check->sums = device->memory_new(device, sums_bytes(check));
    if (check->held == NULL || check->sums == NULL) {
        return device_no_memory(device, held_bytes(check), "checksums of the state", error);
    }
    check->fetched = check->sums;
    if (!device->is_host) {
        check->fetched = device->pinned_new(device, sums_bytes(check));
    }
    if (check->fetched == NULL) {
        return device_no_memory(device, sums_bytes(check), "checksums of the state", error);
    }
    memset(check->fetched, 0, sums_bytes(check)); // in case the device fails before the first fetch
    return BERTH_OK;
}

static enum berth_status upload_held(struct replica_check *check, struct berth_error *error) {
    struct device_checksum_range *host = memory_array_zeroed(1, held_bytes(check));
    if (host == NULL) {
        return error_no_memory(error, held_bytes(check), "checksums of the state");
    }
    for (enum replica_kind kind = 0; kind < REPLICA_KINDS; kind++) {
        struct device_checksum_range *held = host + (size_t)kind * check->count;
        size_t *first = first_held_of(check, kind), count = 0;
        for (size_t range = 0; range < range_count(check); range++) {
            *first++ = count;
            add_held(check, kind, range, WRITTEN, held, &count);
            *first++ = count;
            add_held(check, kind, range, GATHERED, held, &count);
        }
        *first = count;
    }
    check->device->upload(check->device, check->held, host, held_bytes(check));
    memory_free(host);
    return BERTH_OK;
}

enum berth_status replica_check_init(struct replica_check *check, int64_t every,
                                     struct all_reduce *all_reduce, struct berth_error *error) {
    const struct state *state = all_reduce->state;
    *check = (struct replica_check){
        .all_reduce = all_reduce, .device = state->device, .every = every, .compared = -1};
    if (every == 0) {
        return BERTH_OK;
    }
    check->count = list_parts(state, NULL);
    TRY(allocate_host(check, error));
    TRY(allocate_device(check, error));
    const size_t width = (size_t)state->sharding.size + 1;
    int64_t *starts = memory_array(width, sizeof *starts);
    if (starts == NULL) {
        return error_no_memory(error, width * sizeof *starts, "checksums of the state");
    }
    (void)list_parts(state, check->parts);
    const struct param_table *table = check->all_reduce->state->table;
    const size_t ranges = param_range_count(table);
    size_t part = 0;
    for (size_t range = 0; range < ranges; range++) {
        check->first_part[range] = part;
        const struct param_range elements = param_range(table, range);
        while (part < check->count && check->parts[part].first < elements.first + elements.count) {
            part++;
        }
    }
    check->first_part[ranges] = part;
    find_owners(check, starts);
    memory_free(starts);
    TRY(upload_held(check, error));
    for (size_t range = 0; range < range_count(check); range++) {
        replica_check_written(check, range);
        replica_check_gathered(check, range);
    }
    return BERTH_OK;
}

void replica_check_done(struct replica_check *check) {
    struct device *device = check->device;
    if (check->fetched != check->sums && check->fetched != NULL) {
        device->pinned_free(device, check->fetched, sums_bytes(check));
    }
    if (check->held != NULL) {
        device->memory_free(device, check->held, held_bytes(check));
    }
    if (check->sums != NULL) {
        device->memory_free(device, check->sums, sums_bytes(check));
    }
    memory_free(check->parts);
    memory_free(check->first_part);
    memory_free(check->is_gathered);
    memory_free(check->first_held);
    memory_free(check->histories);
    memory_free(check->differs);
    memory_free(check->exchanged);
    *check = (struct replica_check){0};
}

// --- errors -------------------------------------------------------------------------------------

#define ADVICE                                                                                     \
    "this is silent corruption by memory or a processor; the last checkpoint is good: take the "   \
    "host out of service and resume with resume_from_checkpoint auto"

enum { LOCATION_SIZE = 128 };

static const char *location_of(const struct replica_check *check, int rank,
                               char text[LOCATION_SIZE]) {
    const struct comm *comm = check->all_reduce->comm;
    if (comm->size == 1) {
        return "this process";
    }
    snprintf(text, LOCATION_SIZE, "rank %d (%s)", rank, comm->host_names[rank]);
    return text;
}

// Writes "the first moment of NAME, elements 0 to 65535".
static const char *describe_elements(enum replica_kind kind, const struct replica_part *part,
                                     char text[2 * LOCATION_SIZE]) {
    const int64_t first = part->first - part->param->offset;
    snprintf(text, 2 * LOCATION_SIZE, "the %s of %s, elements %" PRId64 " to %" PRId64,
             kinds[kind].name, part->param->name, first, first + part->count - 1);
    return text;
}

// "update 4", or the updates since the ranks last agreed.
static const char *describe_updates(const struct replica_check *check, int64_t updates,
                                    char text[LOCATION_SIZE]) {
    if (check->compared < 0 || check->compared + 1 >= updates) {
        snprintf(text, LOCATION_SIZE, "update %" PRId64, updates);
    } else {
        snprintf(text, LOCATION_SIZE, "one of the updates %" PRId64 " to %" PRId64,
                 check->compared + 1, updates);
    }
    return text;
}

// --- comparing memory ---------------------------------------------------------------------------

static enum berth_status compare_all_memory(struct replica_check *check, int64_t updates,
                                            struct berth_error *error) {
    for (enum replica_kind kind = 0; kind < REPLICA_KINDS; kind++) {
        for (size_t range = 0; range < range_count(check); range++) {
            const int rank = check->all_reduce->comm->rank;
            const uint64_t *kept = sums_of(check, check->fetched, KEPT, kind);
            const uint64_t *found = sums_of(check, check->fetched, FOUND, kind);
            for (size_t i = check->first_part[range]; i < check->first_part[range + 1]; i++) {
                const struct replica_part *part = &check->parts[i];
                char location[LOCATION_SIZE], text[2 * LOCATION_SIZE];
                if (holding_of(check, kind, range, part, rank) != 0 && found[i] != kept[i]) {
                    return error_set(error, BERTH_UNAVAILABLE,
                                     "%s: %s, changed in memory after update %" PRId64
                                     ", though nothing wrote it: " ADVICE,
                                     location_of(check, rank, location),
                                     describe_elements(kind, part, text), updates);
                }
            }
        }
    }
    return BERTH_OK;
}

// --- comparing ranks ----------------------------------------------------------------------------

static uint64_t from_halves(const double *halves) {
    return (uint64_t)halves[0] | (uint64_t)halves[1] << 32;
}

// Sets differs[i] to 1 where this rank has, or had, other numbers than the owner. Returns the
// number of differences on all ranks.
static double find_differences(struct replica_check *check, enum replica_kind kind) {
    struct comm *comm = check->all_reduce->comm;
    const uint64_t *histories = check->histories + (size_t)kind * check->count;
    double *owners = check->exchanged, differences = 0;
    for (size_t i = 0; i < check->count; i++) {
        const int is_own = check->parts[i].owner == comm->rank;
        // Splits a checksum into halves, which sums of doubles keep exact.
        double *halves = owners + 2 * i;
        const uint64_t sum = is_own ? histories[i] : 0;
        halves[0] = (double)(uint32_t)sum;
        halves[1] = (double)(sum >> 32);
    }
    comm->sum(comm, owners, 2 * check->count);
    for (size_t range = 0; range < range_count(check); range++) {
        for (size_t i = check->first_part[range]; i < check->first_part[range + 1]; i++) {
            check->differs[i] = holding_of(check, kind, range, &check->parts[i], -1) != 0 &&
                                histories[i] != from_halves(owners + 2 * i);
            differences += check->differs[i];
        }
    }
    comm->sum(comm, &differences, 1);
    return differences;
}

// The first part in which ranks differ. Sets *ranks to how many differ from the owner.
static const struct replica_part *first_difference(struct replica_check *check, int *ranks) {
    struct comm *comm = check->all_reduce->comm;
    double *counts = check->exchanged;
    size_t first = 0;
    for (size_t i = 0; i < check->count; i++) {
        counts[i] = check->differs[i];
    }
    comm->sum(comm, counts, check->count);
    while (first + 1 < check->count && counts[first] == 0) {
        first++;
    }
    *ranks = (int)counts[first];
    return &check->parts[first];
}

// The lowest rank that differs from the owner in a part.
static int first_rank(const struct replica_check *check, const struct replica_part *part) {
    struct comm *comm = check->all_reduce->comm;
    int lowest = check->differs[part - check->parts] ? comm->size - comm->rank : 0; // as a maximum
    (void)comm->agree(comm, BERTH_OK, &lowest, NULL);
    return comm->size - lowest;
}

// If most ranks differ from the owner, the owner is wrong. If half of them do, either half may be
// wrong where all ranks compute the same numbers (stage 0); elsewhere the owner is right.
static enum berth_status compare_ranks(struct replica_check *check, enum replica_kind kind,
                                       int64_t updates, struct berth_error *error) {
    const struct comm *comm = check->all_reduce->comm;
    char text[2 * LOCATION_SIZE], when[LOCATION_SIZE], locations[2][LOCATION_SIZE];
    int ranks;
    if (find_differences(check, kind) == 0) {
        return BERTH_OK;
    }
    const struct replica_part *part = first_difference(check, &ranks);
    const int other = first_rank(check, part), is_owner = 2 * ranks > comm->size;
    const int is_ambiguous =
        2 * ranks == comm->size && check->all_reduce->state->sharding.stage == 0;
    return error_set(
        error, BERTH_UNAVAILABLE, "%s: %s, differs from that on %s after %s%s: " ADVICE,
        location_of(check, is_owner ? part->owner : other, locations[0]),
        describe_elements(kind, part, text),
        location_of(check, is_owner ? other : part->owner, locations[1]),
        describe_updates(check, updates, when), is_ambiguous ? ", and either may be wrong" : "");
}

static enum berth_status compare_all_ranks(struct replica_check *check, int64_t updates,
                                           struct berth_error *error) {
    struct comm *comm = check->all_reduce->comm;
    for (enum replica_kind kind = 0; kind < REPLICA_KINDS && comm->size > 1; kind++) {
        const enum berth_status status = compare_ranks(check, kind, updates, error);
        TRY(comm->status(comm, error));
        TRY(status);
    }
    check->compared = updates;
    return BERTH_OK;
}

// All ranks have the same error; only rank 0 reports it.
static enum berth_status report_once(struct comm *comm, enum berth_status status,
                                     struct berth_error *error) {
    return status == BERTH_OK || comm->rank == 0 || comm->status(comm, NULL) != BERTH_OK
               ? status
               : error_set(error, status, "%s", "");
}

enum berth_status replica_check_end(struct replica_check *check, int64_t updates, int compares,
                                    struct berth_error *error) {
    struct comm *comm = check->all_reduce->comm;
    int stop = 0;
    if (check->every == 0) {
        return BERTH_OK;
    }
    if (check->fetched != check->sums) {
        check->device->fetch_wait(check->device, check->fetch);
    }
    // Every rank adds its checksums once per comparison, so that histories of replicas are equal.
    const uint64_t *kept = sums_of(check, check->fetched, KEPT, 0);
    for (size_t i = 0; i < REPLICA_KINDS * check->count; i++) {
        check->histories[i] = checksum_add(check->histories[i], kept[i]);
    }
    enum berth_status status = compare_all_memory(check, updates, error);
    status = comm->agree(comm, status, &stop, error);
    if (status == BERTH_OK && (compares || updates % check->every == 0)) {
        status = compare_all_ranks(check, updates, error);
    }
    return report_once(comm, status, error);
}
