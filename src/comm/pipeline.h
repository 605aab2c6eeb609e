// SPDX-License-Identifier: Apache-2.0
// Exchanges of ranges: reduce and gather, each in steps.
//
// Step s of an operation covers chunk s, some elements, of every rank's part, so that all ranks and
// links are busy in each step. A step has three phases:
//
//             begin                       pass                          finish
//     reduce  fill the own area of the    add what the host's ranks     add what has come from
//             window with all owners'     have filled, for the owners   other hosts to the own
//             chunks                      that this rank handles, and   chunk
//                                         send it to those elsewhere
//     gather  fill the own cell, send it  say that what has come from   copy all cells of the
//             to its handler on each      other hosts is in the window  window to the range
//             other host
//
// Each phase is done for one step after the other, as soon as it need not wait; steps of one
// operation and of the next overlap, WINDOW_SLOTS of them, which keeps a link with a long delay
// full. Nothing but the order of a phase's steps is the same on all ranks, so no rank waits for one
// that waits for it.
//
// Messages from one rank to another have no names, so both must begin them in the same order. A
// reduce sends when it passes, a gather when it begins; so a gather begins when all sums before it
// are finished. Then it may also be of sums that nobody has waited for.
#ifndef BERTH_COMM_PIPELINE_H
#define BERTH_COMM_PIPELINE_H

#include "comm/chunking.h"
#include "comm/courier.h"
#include "comm/host_window.h"
#include "comm/numbers.h"
#include "comm/range_message.h"
#include "core/comm.h"

#include <stddef.h>
#include <stdint.h>

struct pipeline;
struct step;

struct pipeline_kind {
    enum berth_status (*begin)(struct pipeline *pipeline, struct step *step,
                               struct berth_error *error);
    int (*may_pass)(const struct pipeline *pipeline, const struct step *step);
    enum berth_status (*pass)(struct pipeline *pipeline, struct step *step,
                              struct berth_error *error);
    int (*may_finish)(const struct pipeline *pipeline, const struct step *step);
    enum berth_status (*finish)(struct pipeline *pipeline, struct step *step,
                                struct berth_error *error);
};

extern const struct pipeline_kind pipeline_reduce, pipeline_gather;

struct operation {
    const struct pipeline_kind *kind;
    struct comm_range range;
    struct range_label label;
    struct chunking chunking;
};

struct step {
    struct operation operation;
    int64_t number; // counted since the communicator was opened
    int64_t chunk;
    struct message_list receives, sends;
    // An operation begins with a message around the ring of ranks, which has no elements: a rank
    // that calls something else is found out before sizes of messages differ.
    struct range_header greeting, greeting_before;
};

struct pipeline {
    struct courier courier;
    const struct topology *topology;
    struct host_window window;
    int64_t chunk_elements; // that the memory holds: an operation's are as many or fewer
    int local, local_size;  // this rank among those of its host
    int *hosts;             // [host_count - 1] the others, from the next one on
    int *handled;           // [handled_count] ranks of other hosts whose parts this rank handles
    int handled_count;
    struct addend *addends; // [max(local_size, host_count)] of the sum under way
    char *received;         // [WINDOW_SLOTS][host_count - 1] messages to a reduce's owner
    size_t received_bytes;
    struct transport_message *messages;
    struct step steps[WINDOW_SLOTS];
    int64_t begun, passed, finished; // steps
    int64_t sums_end;                // the step after the last one of a reduce that has begun
    struct operation current;        // whose steps are begun
    int64_t chunks_begun;            // of it
    int64_t completed;               // number of the last operation that is done
};

// Elements of a part in a step, where the windows shall take about `window_bytes` each.
int64_t pipeline_chunk_elements(int size, int local_size, size_t window_bytes);

struct window_shape pipeline_window_shape(const struct topology *topology, int64_t chunk_elements);

// Bytes that pipeline_init takes besides the window.
size_t pipeline_bytes(int size, int local_size, int host_count, int64_t chunk_elements);

// Courier, topology, window and chunk_elements are filled in before; the window is closed by done,
// which frees, also after an error.
enum berth_status pipeline_init(struct pipeline *pipeline, struct berth_error *error);
void pipeline_done(struct pipeline *pipeline);

// Whether all steps of the operation have begun, so that the next one can be given.
static inline int pipeline_wants(const struct pipeline *pipeline) {
    return pipeline->chunks_begun == pipeline->current.chunking.chunks;
}

static inline int pipeline_is_idle(const struct pipeline *pipeline) {
    return pipeline_wants(pipeline) && pipeline->finished == pipeline->begun;
}

void pipeline_give(struct pipeline *pipeline, const struct pipeline_kind *kind,
                   const struct comm_range *range, int64_t number);

// Does all that can be done without waiting. *moved becomes 1 when that was anything.
enum berth_status pipeline_progress(struct pipeline *pipeline, int *moved,
                                    struct berth_error *error);

// The rank that a pipeline that makes no progress waits for, and in what.
int pipeline_awaited(const struct pipeline *pipeline, char what[RANGE_TEXT]);

#endif
