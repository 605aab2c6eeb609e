// SPDX-License-Identifier: Apache-2.0
// Exchanges of ranges: reduce and gather, each in steps.
//
// A step of an operation covers a chunk of every rank's part, or of those of a group of owners that
// are spread over the hosts (chunking.h), so that all ranks and links are busy in the steps that
// are under way. A step has four phases:
//
//            begin                 pass                  deliver               finish
//    reduce  fill the own area of  for each owner        relays: add the sums  owners: add the own
//            the window with the   elsewhere that this   of each block of the  chunk, those in the
//            chunks of all the     rank handles: add     rack, send them to    areas of the host's
//            step's owners         the areas of each     the owner             ranks, and the sums
//                                  block of the host,                          that others sent
//                                  send the sum
//    gather  owners: fill the own  relays: send the      mark the chunks       copy all cells of
//            cell, send it to its  owners' chunks to     received from other   the window to the
//            handlers in the rack  the handlers on the   hosts as being in     range
//            and to other racks'   rack's other hosts    the window
//            relays
//
// A handler sends its sums to the owner if that is in its rack, else to its rack's relay for the
// owner (topology.h). If all hosts are in one rack, no rank is a relay. A host sends and receives
// as many bytes as without relays, but an owner gets a message from each host of its rack and from
// each other rack, not from every host.
//
// Each phase handles the steps in order, each as soon as it can without waiting. Up to WINDOW_SLOTS
// steps overlap, also those of consecutive operations, which keeps a link with a long delay full.
// Ranks agree on nothing but the order of the steps within a phase, so they cannot deadlock.
//
// Messages between two ranks carry no tags, so both ranks must begin them in the same order. A
// reduce sends in its pass phase, a gather in its begin phase. So a gather begins once all reduces
// before it are finished; it may therefore use sums that nobody has waited for. What relays send,
// later than other ranks, has a channel of its own, and so an order.
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

enum pipeline_phase { PHASE_BEGIN, PHASE_PASS, PHASE_DELIVER, PHASE_FINISH, PHASES };

struct pipeline_phases {
    int is_gather;
    struct {
        // Whether it can run without waiting. NULL: always.
        int (*may_run)(const struct pipeline *pipeline, const struct step *step);
        // NULL: there is nothing to do.
        enum berth_status (*run)(struct pipeline *pipeline, struct step *step,
                                 struct berth_error *error);
    } phases[PHASES];
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
    int early_receives; // the first of `receives`, those that no rank sends after its pass phase
                        // of a reduce, or its begin phase of a gather
    int64_t received;   // number of the first message received in a reduce (step_received)
    int received_count;
    int *counts, *offsets; // [host_count] of a collective
};

struct pipeline {
    struct courier courier, relays; // on TRANSPORT_RANGES and TRANSPORT_RELAYS
    const struct topology *topology;
    struct host_window window;
    struct chunk_limits limits;
    int local, local_size; // this rank among those of its host
    int *hosts;            // [host_count] the other hosts of the rack, from the next one on
    int *racks;            // [rack_count - 1] the other racks, from the next one on
    int *handled;          // [handled_count] ranks of other hosts whose parts this rank handles: of
                           // other racks in the order of `racks`, then of its own
    int *relayed;          // [relayed_count] of these, the ranks that it relays
    int rack_hosts;        // of `hosts`
    int handled_count, relayed_count;
    struct addend *addends; // [size] of the current sum
    // [received_capacity][received_bytes] the messages of reduces under way, in turn: those that a
    // relay adds, then those to the owner. There is room for at least one step.
    char *received;
    int received_capacity;
    size_t received_bytes;
    int64_t received_begun, received_finished; // messages
    // [WINDOW_SLOTS][2][added_bytes] what a library's collective adds, and its sums.
    char *added;
    size_t added_bytes;
    int *tables;        // [WINDOW_SLOTS + 1][2 * size] of chunking.h, for each operation under way
    int64_t operations; // begun
    struct transport_message *messages;
    int *counts; // of all steps
    struct step steps[WINDOW_SLOTS];
    int64_t done[PHASES];     // steps that have had each phase
    int64_t sums_end;         // the step after the last one that was begun for a reduce
    struct operation current; // whose steps are being begun
    int64_t steps_begun;      // of `current`
    int64_t completed;        // number of the last complete operation
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

// The caller has set both couriers, topology, window and limits. pipeline_done frees all of it,
// the window included, also after an error.
enum berth_status pipeline_init(struct pipeline *pipeline, struct berth_error *error);
void pipeline_done(struct pipeline *pipeline);

// Whether all steps of the operation have begun, so that the next operation can start.
static inline int pipeline_needs_operation(const struct pipeline *pipeline) {
    return pipeline->steps_begun == pipeline->current.chunking.steps;
}

static inline int pipeline_is_idle(const struct pipeline *pipeline) {
    return pipeline_needs_operation(pipeline) &&
           pipeline->done[PHASE_FINISH] == pipeline->done[PHASE_BEGIN];
}

void pipeline_start_operation(struct pipeline *pipeline, const struct pipeline_phases *phases,
                              const struct comm_range *range, int64_t number);

// Does all that can be done without waiting. *progressed becomes 1 if there was anything to do.
enum berth_status pipeline_progress(struct pipeline *pipeline, int *progressed,
                                    struct berth_error *error);

// The rank that a pipeline without progress waits for, and in which operation.
int pipeline_awaited_rank(const struct pipeline *pipeline, char what[RANGE_TEXT]);

#endif
