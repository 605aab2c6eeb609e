// SPDX-License-Identifier: Apache-2.0
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

// Parameters are cut where blocks of the buffer begin, as partitions are, so a part has one owner.
static int64_t part_end(const struct param *param, int64_t first) {
    const int64_t end = param->offset + param->rows * param->cols;
    const int64_t block_end = first - first % DEVICE_SUM_BLOCK + DEVICE_SUM_BLOCK;
    return end < block_end ? end : block_end;
}

static int64_t place_in_moments(const struct state *state, int64_t first) {
    for (size_t i = 0; i < state->partition.count; i++) {
        const struct partition_span own = partition_part(&state->partition, i, first, 1);
        if (own.count > 0) {
            return own.at;
        }
    }
    return -1;
}

// Lists the parts, or with parts NULL counts them.
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
                                                     .at = place_in_moments(state, first)};
            }
        }
    }
    return count;
}

static void find_ranges(struct replica_check *check) {
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
}

static void find_owners(struct replica_check *check, int64_t *starts) {
    const struct state *state = check->all_reduce->state;
    const struct partition_rule rule = state_partition_rule(&state->share);
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

// --- what a rank has ----------------------------------------------------------------------------

enum { WRITTEN = 1, GATHERED = 2 };

// What a rank has of a part: numbers that its optimizer writes, that it gathers from the owner, or
// 0, none.
static int holding_of(const struct replica_check *check, enum replica_kind kind, size_t range,
                      const struct replica_part *part, int rank) {
    const struct state *state = check->all_reduce->state;
    if (kind == REPLICA_COPY &&
        (state->copy == NULL || part->first >= state->table->matrix_count)) {
        return 0;
    }
    if (state->share.stage == 0 || part->owner == rank) {
        return WRITTEN;
    }
    const int is_kept = kind == REPLICA_COPY || (kind == REPLICA_MASTER &&
                                                 !all_reduce_reads_copy(check->all_reduce, range));
    return is_kept ? GATHERED : 0;
}

static size_t range_count(const struct replica_check *check) {
    return param_range_count(check->all_reduce->state->table);
}

// Where each range's parts begin in `held`, those to write and those to gather.
static size_t *first_held_of(const struct replica_check *check, enum replica_kind kind) {
    return check->first_held + (size_t)kind * (2 * range_count(check) + 1);
}

static void add_held(struct replica_check *check, enum replica_kind kind, size_t range, int holding,
                     struct device_checksum_range *held, size_t *count) {
    for (size_t i = check->first_part[range]; i < check->first_part[range + 1]; i++) {
        const struct replica_part *part = &check->parts[i];
        if (holding_of(check, kind, range, part, check->all_reduce->comm->rank) == holding) {
            held[(*count)++] = (struct device_checksum_range){
                .first = kinds[kind].is_moment ? part->at : part->first,
                .count = part->count,
                .sum = (int64_t)i};
        }
    }
}

static void list_held(struct replica_check *check, enum replica_kind kind,
                      struct device_checksum_range *held) {
    size_t *first = first_held_of(check, kind), count = 0;
    for (size_t range = 0; range < range_count(check); range++) {
        *first++ = count;
        add_held(check, kind, range, WRITTEN, held, &count);
        *first++ = count;
        add_held(check, kind, range, GATHERED, held, &count);
    }
    *first = count;
}

// --- checksums ----------------------------------------------------------------------------------

enum which { KEPT, FOUND, WHICH };

static uint64_t *sums_of(const struct replica_check *check, uint64_t *sums, enum which which,
                         enum replica_kind kind) {
    return sums + ((size_t)which * REPLICA_KINDS + (size_t)kind) * check->count;
}

static size_t sums_bytes(const struct replica_check *check) {
    return WHICH * REPLICA_KINDS * check->count * sizeof *check->sums;
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

// The device makes checksums of the parts [first, end) that this rank has of a kind.
static void make_sums(const struct replica_check *check, enum replica_kind kind, size_t first,
                      size_t end, enum which which) {
    const struct device_checksum_range *held = check->held + (size_t)kind * check->count;
    if (first < end) {
        check->device->checksums(check->device, sums_of(check, check->sums, which, kind),
                                 values_of(check->all_reduce->state, kind), held + first,
                                 (int64_t)(end - first));
    }
}

static void keep_range(struct replica_check *check, size_t range, int holding) {
    for (enum replica_kind kind = 0; kind < REPLICA_KINDS; kind++) {
        const size_t *first = first_held_of(check, kind) + 2 * range + (holding == GATHERED);
        make_sums(check, kind, first[0], first[1], KEPT);
    }
}

// The same on all ranks: each adds what it has kept once a comparison.
static void add_histories(struct replica_check *check) {
    const uint64_t *kept = sums_of(check, check->fetched, KEPT, 0);
    for (size_t i = 0; i < REPLICA_KINDS * check->count; i++) {
        check->histories[i] = checksum_add(check->histories[i], kept[i]);
    }
}

void replica_check_written(struct replica_check *check, size_t range) {
    if (check->every > 0) {
        keep_range(check, range, WRITTEN);
        check->is_gathered[range] = 0;
    }
}

void replica_check_gathered(struct replica_check *check, size_t range) {
    if (check->every > 0 && !check->is_gathered[range]) {
        keep_range(check, range, GATHERED);
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

// --- memory -------------------------------------------------------------------------------------

static enum berth_status take_host(struct replica_check *check, struct berth_error *error) {
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

static enum berth_status take_device(struct replica_check *check, struct berth_error *error) {
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
    memset(check->fetched, 0, sums_bytes(check)); // also where the device fails before it fetches
    return BERTH_OK;
}

static enum berth_status upload_held(struct replica_check *check, struct berth_error *error) {
    struct device_checksum_range *host = memory_array_zeroed(1, held_bytes(check));
    if (host == NULL) {
        return error_no_memory(error, held_bytes(check), "checksums of the state");
    }
    for (enum replica_kind kind = 0; kind < REPLICA_KINDS; kind++) {
        list_held(check, kind, host + (size_t)kind * check->count);
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
    TRY(take_host(check, error));
    TRY(take_device(check, error));
    const size_t width = (size_t)state->share.size + 1;
    int64_t *starts = memory_array(width, sizeof *starts);
    if (starts == NULL) {
        return error_no_memory(error, width * sizeof *starts, "checksums of the state");
    }
    (void)list_parts(state, check->parts);
    find_ranges(check);
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
    "host out of use and resume with --resume_from_checkpoint auto"

enum { PLACE = 128 };

static const char *place_of(const struct replica_check *check, int rank, char text[PLACE]) {
    const struct comm *comm = check->all_reduce->comm;
    if (comm->size == 1) {
        return "this process";
    }
    snprintf(text, PLACE, "rank %d (%s)", rank, comm->host_names[rank]);
    return text;
}

// "the first moment of NAME, elements 0 to 65535"
static const char *text_of(enum replica_kind kind, const struct replica_part *part,
                           char text[2 * PLACE]) {
    const int64_t first = part->first - part->param->offset;
    snprintf(text, 2 * PLACE, "the %s of %s, elements %" PRId64 " to %" PRId64, kinds[kind].name,
             part->param->name, first, first + part->count - 1);
    return text;
}

// "update 4", or those since the ranks were the same
static const char *when_of(const struct replica_check *check, int64_t updates, char text[PLACE]) {
    if (check->compared < 0 || check->compared + 1 >= updates) {
        snprintf(text, PLACE, "update %" PRId64, updates);
    } else {
        snprintf(text, PLACE, "one of the updates %" PRId64 " to %" PRId64, check->compared + 1,
                 updates);
    }
    return text;
}

// --- the memory of a rank -----------------------------------------------------------------------

static enum berth_status compare_memory(struct replica_check *check, enum replica_kind kind,
                                        size_t range, int64_t updates, struct berth_error *error) {
    const int rank = check->all_reduce->comm->rank;
    const uint64_t *kept = sums_of(check, check->fetched, KEPT, kind);
    const uint64_t *found = sums_of(check, check->fetched, FOUND, kind);
    for (size_t i = check->first_part[range]; i < check->first_part[range + 1]; i++) {
        const struct replica_part *part = &check->parts[i];
        char place[PLACE], text[2 * PLACE];
        if (holding_of(check, kind, range, part, rank) != 0 && found[i] != kept[i]) {
            return error_set(error, BERTH_UNAVAILABLE,
                             "%s: %s, changed in memory after update %" PRId64
                             ", though nothing wrote it: " ADVICE,
                             place_of(check, rank, place), text_of(kind, part, text), updates);
        }
    }
    return BERTH_OK;
}

static enum berth_status compare_all_memory(struct replica_check *check, int64_t updates,
                                            struct berth_error *error) {
    for (enum replica_kind kind = 0; kind < REPLICA_KINDS; kind++) {
        for (size_t range = 0; range < range_count(check); range++) {
            TRY(compare_memory(check, kind, range, updates, error));
        }
    }
    return BERTH_OK;
}

// --- the ranks ----------------------------------------------------------------------------------

// Halves of a checksum, which a sum of doubles leaves exact.
static void put_halves(double *halves, uint64_t sum) {
    halves[0] = (double)(uint32_t)sum;
    halves[1] = (double)(sum >> 32);
}

static uint64_t of_halves(const double *halves) {
    return (uint64_t)halves[0] | (uint64_t)halves[1] << 32;
}

static int is_on_several(const struct replica_check *check, enum replica_kind kind, size_t range,
                         const struct replica_part *part) {
    return holding_of(check, kind, range, part, -1) != 0;
}

// differs[i] becomes 1 where this rank has, or had, other numbers than the owner. Returns how often
// that is so on all ranks.
static double find_differences(struct replica_check *check, enum replica_kind kind) {
    struct comm *comm = check->all_reduce->comm;
    const uint64_t *histories = check->histories + (size_t)kind * check->count;
    double *owners = check->exchanged, differences = 0;
    for (size_t i = 0; i < check->count; i++) {
        const int is_own = check->parts[i].owner == comm->rank;
        put_halves(owners + 2 * i, is_own ? histories[i] : 0);
    }
    comm->sum(comm, owners, 2 * check->count);
    for (size_t range = 0; range < range_count(check); range++) {
        for (size_t i = check->first_part[range]; i < check->first_part[range + 1]; i++) {
            check->differs[i] = is_on_several(check, kind, range, &check->parts[i]) &&
                                histories[i] != of_halves(owners + 2 * i);
            differences += check->differs[i];
        }
    }
    comm->sum(comm, &differences, 1);
    return differences;
}

// The first part in which ranks differ, and how many of them from the owner.
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

// Where most ranks differ from the owner, it is the owner whose numbers are wrong. Two halves are
// equal if all ranks compute the same numbers (stage 0); else the owner is right.
static enum berth_status compare_ranks(struct replica_check *check, enum replica_kind kind,
                                       int64_t updates, struct berth_error *error) {
    const struct comm *comm = check->all_reduce->comm;
    char text[2 * PLACE], when[PLACE], places[2][PLACE];
    int ranks;
    if (find_differences(check, kind) == 0) {
        return BERTH_OK;
    }
    const struct replica_part *part = first_difference(check, &ranks);
    const int other = first_rank(check, part), is_owner = 2 * ranks > comm->size;
    const int is_open = 2 * ranks == comm->size && check->all_reduce->state->share.stage == 0;
    return error_set(
        error, BERTH_UNAVAILABLE, "%s: %s, differs from that on %s after %s%s: " ADVICE,
        place_of(check, is_owner ? part->owner : other, places[0]), text_of(kind, part, text),
        place_of(check, is_owner ? other : part->owner, places[1]), when_of(check, updates, when),
        is_open ? ", and either may be wrong" : "");
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

// All ranks have the same error; the first one says it.
static enum berth_status say_once(struct comm *comm, enum berth_status status,
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
    add_histories(check);
    enum berth_status status = compare_all_memory(check, updates, error);
    status = comm->agree(comm, status, &stop, error);
    if (status == BERTH_OK && (compares || updates % check->every == 0)) {
        status = compare_all_ranks(check, updates, error);
    }
    return say_once(comm, status, error);
}
