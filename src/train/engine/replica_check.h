// SPDX-License-Identifier: Apache-2.0
// Finds numbers of the state that change by themselves, and ranks that do not have the same
// (--replica_check_steps K; RELIABILITY: silent corruption).
//
// Each rank keeps a checksum of what its optimizer wrote (master weights, moments, compute copy) as
// soon as it was written, and of what it gathered from other ranks as soon as it arrived. Before
// the next update writes them, and before a checkpoint is written, it compares the memory with
// these checksums, so no flipped bit is overwritten without being found. In every K-th update, and
// before a checkpoint, the ranks compare the checksums of all that several of them have with those
// of its owner: that finds a rank that has computed or received other numbers.
//
// The device makes the checksums and keeps them. The host fetches all of them once an update,
// beside the device's operations.
//
// Leaves out: gradients and activations, which are used once, and messages between hosts, which
// have checksums of their own (comm/range_message.h).
#ifndef BERTH_TRAIN_REPLICA_CHECK_H
#define BERTH_TRAIN_REPLICA_CHECK_H

#include "core/error.h"
#include "train/engine/all_reduce.h"

#include <stddef.h>
#include <stdint.h>

enum replica_kind { REPLICA_MASTER, REPLICA_MOMENT1, REPLICA_MOMENT2, REPLICA_COPY, REPLICA_KINDS };

// Elements of a parameter, at most DEVICE_SUM_BLOCK, that one rank owns (state->own).
struct replica_part {
    const struct param *param;
    int64_t first, count; // of the table
    int64_t at;           // of the moments, if this rank has them
    int owner;
};

struct replica_check {
    struct all_reduce *all_reduce;
    struct device *device;
    int64_t every;              // K; 0: does nothing
    struct replica_part *parts; // ascending
    size_t count;
    size_t *first_part; // [ranges + 1] of each param_range
    char *is_gathered;  // [ranges] 1: what was gathered of it has checksums
    // Device memory, [kinds][count]: what this rank has, range by range; first what its optimizer
    // writes, then what it gathers.
    struct device_checksum_range *held;
    size_t *first_held; // [kinds][2 * ranges + 1] where these begin
    // Device memory, [2][kinds][count]: checksums that were kept, and those of the memory now.
    uint64_t *sums;
    uint64_t *fetched;   // the host's copy of them; `sums` where the device's memory is the host's
    int64_t fetch;       // of the copy
    uint64_t *histories; // [kinds][count] checksums of all that was kept
    char *differs;       // [count]
    double *exchanged;   // [2 * count]
    int64_t compared;    // updates when the ranks were compared last; -1: never
};

// Borrows all_reduce, whose state has its first values. replica_check_done frees, also after a
// failure.
enum berth_status replica_check_init(struct replica_check *check, int64_t every,
                                     struct all_reduce *all_reduce, struct berth_error *error);
void replica_check_done(struct replica_check *check);

// This rank's part of a param_range was updated.
void replica_check_written(struct replica_check *check, size_t range);
// What other ranks updated of it is there.
void replica_check_gathered(struct replica_check *check, size_t range);

// Begins to compare the state, which nothing writes until replica_check_end.
void replica_check_begin(struct replica_check *check);
// All ranks call it: compares the state after `updates` updates, and with `compares` the ranks.
// BERTH_UNAVAILABLE names rank, host, parameter and update; of several ranks the first has the
// message.
enum berth_status replica_check_end(struct replica_check *check, int64_t updates, int compares,
                                    struct berth_error *error);

#endif
