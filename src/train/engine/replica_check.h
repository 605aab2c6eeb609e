// SPDX-License-Identifier: Apache-2.0
// Detects silent corruption: numbers of the state that change although nothing wrote them, and
// ranks whose replicas differ (--replica_check_steps K).
//
// Each rank makes a checksum of what its optimizer wrote (master weights, moments, compute copy) as
// soon as it is written, and of what it gathered from other ranks as soon as it arrives. Before the
// next update overwrites this memory, and before a checkpoint is written, it compares the memory
// with the checksums, so no flipped bit is overwritten unnoticed. In every K-th update, and before
// a checkpoint, ranks with replicas compare their checksums with the owner's, which finds a rank
// that has computed or received other numbers.
//
// The device computes and stores the checksums. The host fetches all of them once per update, in
// parallel with the device's operations.
//
// Leaves out gradients and activations, which are used once, and messages between hosts, which have
// checksums of their own (comm/range_message.h).
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
    int64_t first, count;  // of the table
    int64_t moment_offset; // in the moments, if this rank has them
    int owner;
};

struct replica_check {
    struct all_reduce *all_reduce;
    struct device *device;
    int64_t every;              // K; 0: does nothing
    struct replica_part *parts; // ascending
    size_t count;
    size_t *first_part; // [ranges + 1] of each param_range
    char *is_gathered;  // [ranges] 1: the gathered elements of the range have checksums
    // Device memory, [kinds][count]: the parts that this rank has, range by range: first those that
    // its optimizer writes, then those that it gathers.
    struct device_checksum_range *held;
    size_t *first_held; // [kinds][2 * ranges + 1] where each of these groups begins
    // Device memory, [2][kinds][count]: checksums made when the memory was written, and those of
    // the memory now.
    uint64_t *sums;
    uint64_t *fetched;   // the host's copy of them; `sums` where the device's memory is the host's
    int64_t fetch;       // ticket of that copy
    uint64_t *histories; // [kinds][count] checksums of all checksums so far
    char *differs;       // [count]
    double *exchanged;   // [2 * count]
    int64_t compared;    // updates at the last comparison of the ranks; -1: none
};

// Borrows all_reduce, whose state must have its initial values. Call replica_check_done even after
// a failure.
enum berth_status replica_check_init(struct replica_check *check, int64_t every,
                                     struct all_reduce *all_reduce, struct berth_error *error);
void replica_check_done(struct replica_check *check);

// Call after this rank's part of a param_range was updated.
void replica_check_written(struct replica_check *check, size_t range);
// Call after the parts of other ranks have arrived.
void replica_check_gathered(struct replica_check *check, size_t range);

// Starts comparing the state. Nothing may write it until replica_check_end.
void replica_check_begin(struct replica_check *check);
// All ranks call it. Compares the memory after `updates` updates and, in every K-th update or with
// `compares`, the ranks. BERTH_UNAVAILABLE names rank, host, parameter and update; only rank 0 has
// the message.
enum berth_status replica_check_end(struct replica_check *check, int64_t updates, int compares,
                                    struct berth_error *error);

#endif
