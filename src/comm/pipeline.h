// SPDX-License-Identifier: Apache-2.0
// Exchanges of ranges: reduce and gather, each in steps.
//
// A step of an operation covers a chunk of every rank's part, or of those of a group of owners that
// are spread over the hosts (chunking.h), so that all ranks and links are busy in the steps that
// are under way. A step has three phases:
//
//             begin                       pass                          finish
//     reduce  fill the own area of the    for each owner elsewhere      owners: add the own chunk,
//             window with the chunks      that this rank handles: add   those in the areas of the
//             of all the step's owners    the areas of each block of    host's ranks, and the sums
//                                         the host and send the sum     that other hosts sent
//     gather  owners: fill the own cell,  mark the chunks received      copy all cells of the
//             send it to its handler on   from other hosts as being in  window to the range
//             each other host             the window
//
// Each phase handles the steps in order, each as soon as it can without waiting. Up to WINDOW_SLOTS
// steps overlap, also those of consecutive operations, which keeps a link with a long delay full.
// Ranks agree on nothing but the order of the steps within a phase, so they cannot deadlock.
//
// Messages between two ranks carry no tags, so both ranks must begin them in the same order. A
// reduce sends in its pass phase, a gather in its begin phase. So a gather begins once all reduces
// before it are finished; it may therefore use sums that nobody has waited for.
#ifndef BERTH_COMM_PIPELINE_H
#define BERTH_COMM_PIPELINE_H

#include "comm/chunking.h"
#include "comm/comm.h"
#include "comm/courier.h"
#include "comm/host_window.h"
#include "comm/numbers.h"
#include "comm/range_message.h"

#include <stddef.h>
#include <stdint.h>

struct pipeline;
struct step;

struct pipeline_phases {
    int is_gather;
    enum berth_status (*begin)(struct pipeline *pipeline, struct step *step,
                               struct berth_error *error);
    int (*may_pass)(const struct pipeline *pipeline, const struct step *step);
    enum berth_status (*pass)(struct pipeline *pipeline, struct step *step,
                              struct berth_error *error);
    int (*may_finish)(const struct pipeline *pipeline, const struct step *step);
    enum berth_status (*finish)(struct pipeline *pipeline, struct step *step,
                                struct berth_error *error);
};

extern const struct pipeline_phases pipeline_reduce, pipeline_gather;
// The same by the library's collectives (native.c); only if the pipeline has a group.
extern const struct pipeline_phases pipeline_native_reduce, pipeline_native_gather;

struct operation {
    const struct pipeline_phases *phases;
    struct comm_range range;
    struct range_label label;
    struct chunking chunking;
};

struct step {
    struct operation operation;
    int64_t number; // counted since the communicator was opened
    int64_t turn;   // counted in the operation
    struct message_list receives, sends;
    // An operation begins with a message without elements from each rank to the next, in a ring. So
    // a rank that calls another operation is detected before message sizes differ.
    struct range_header greeting, greeting_before;
    char *received;        // of an owner in a reduce: the sums of other hosts' blocks
    int *counts, *offsets; // [host_count] of a collective
};

struct pipeline {
    struct courier courier;
    const struct topology *topology;
    struct host_window window;
    struct chunk_limits limits;
    int local, local_size; // this rank among those of its host
    int *hosts;            // [host_count - 1] the other hosts, from the next one on
    int *handled;          // [handled_count] ranks of other hosts whose parts this rank handles
    int handled_count;
    struct addend *addends; // [size] of the current sum
    // [received_slots][received_slot_bytes] the messages of a reduce to its owner, in the next slot
    // in each step in which this rank is one. Few slots are enough where it is one in few steps.
    char *received;
    int received_slots;
    size_t received_slot_bytes, received_bytes; // of all messages of a step, and of one
    int64_t received_begun, received_finished;  // steps
    // [WINDOW_SLOTS][2][added_bytes] what a library's collective adds, and its sums.
    char *added;
    size_t added_bytes;
    int *tables;        // [WINDOW_SLOTS + 1][2 * size] of chunking.h, for each operation under way
    int64_t operations; // begun
    struct transport_message *messages;
    int *counts; // of all steps
    struct step steps[WINDOW_SLOTS];
    int64_t begun, passed, finished; // steps
    int64_t sums_end;                // the step after the last one that was begun for a reduce
    struct operation current;        // whose steps are being begun
    int64_t steps_begun;             // of `current`
    int64_t completed;               // number of the last complete operation
};

struct window_shape pipeline_window_shape(const struct topology *topology,
                                          const struct chunk_limits *limits);

// In the library's sums, a counter counts this many hosts, a number that is exact in bf16. There is
// room for as many counters as in a header.
enum {
    PIPELINE_COUNTED_HOSTS = 256,
    PIPELINE_COUNTERS = sizeof(struct range_header) / sizeof(float)
};

// NULL if the ranks with the same local number on all hosts may form a group for the library's
// collectives, else why they may not.
const char *pipeline_missing_group(const struct topology *topology);

// The bytes that pipeline_init allocates besides the window.
size_t pipeline_bytes(const struct topology *topology, const struct chunk_limits *limits);

// The caller has set courier, topology, window and limits. pipeline_done frees all of it,
// the window included, also after an error.
enum berth_status pipeline_init(struct pipeline *pipeline, struct berth_error *error);
void pipeline_done(struct pipeline *pipeline);

// Whether all steps of the operation have begun, so that the next operation can start.
static inline int pipeline_needs_operation(const struct pipeline *pipeline) {
    return pipeline->steps_begun == pipeline->current.chunking.steps;
}

static inline int pipeline_is_idle(const struct pipeline *pipeline) {
    return pipeline_needs_operation(pipeline) && pipeline->finished == pipeline->begun;
}

void pipeline_start_operation(struct pipeline *pipeline, const struct pipeline_phases *phases,
                              const struct comm_range *range, int64_t number);

// Does all that can be done without waiting. *progressed becomes 1 if there was anything to do.
enum berth_status pipeline_progress(struct pipeline *pipeline, int *progressed,
                                    struct berth_error *error);

// The rank that a pipeline without progress waits for, and in which operation.
int pipeline_awaited_rank(const struct pipeline *pipeline, char what[RANGE_TEXT]);

#endif
