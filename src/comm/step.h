// SPDX-License-Identifier: Apache-2.0
// The building blocks of the phases in reduce.c and gather.c: the elements, cells, marks and
// messages of a step.
#ifndef BERTH_COMM_STEP_H
#define BERTH_COMM_STEP_H

#include "comm/pipeline.h"

// What a step covers of the part of rank `owner`; count 0: nothing, because it is another group's
// turn or the part is shorter than others.
struct chunk {
    int owner;
    void *data; // in the range's memory
    int64_t count;
    size_t bytes; // on the wire
};

struct chunk step_chunk(const struct step *step, int owner);
// The place of the step's first owner in the list of chunking.h; the next ones are `groups`
// further.
static inline int step_first(const struct step *step) {
    return (int)(step->turn % step->operation.chunking.groups);
}

// The cell of `owner`, one of the step's, in the area of a rank of this host.
struct range_header *step_cell(const struct pipeline *pipeline, const struct step *step, int local,
                               int owner);
// Where message `number` of those received in the step of a reduce is.
struct range_header *step_received(const struct pipeline *pipeline, const struct step *step,
                                   int number);

// Fills this rank's area with the chunks of all owners but the rank itself.
void step_fill_others(struct pipeline *pipeline, const struct step *step);

// Marks this rank's area as filled or emptied.
void step_mark_filled(struct pipeline *pipeline, const struct step *step);
void step_mark_emptied(struct pipeline *pipeline, const struct step *step);
// The first local rank whose area is not filled for this step, or -1. Once there is none,
// step_check_filled compares the operations that the ranks call.
int step_unfilled(const struct pipeline *pipeline, const struct step *step);
enum berth_status step_check_filled(const struct pipeline *pipeline, const struct step *step,
                                    struct berth_error *error);

// The greetings, with which an operation's first step begins; later steps have none.
enum berth_status step_send_greeting(struct pipeline *pipeline, struct step *step,
                                     struct berth_error *error);
enum berth_status step_receive_greeting(struct pipeline *pipeline, struct step *step,
                                        struct berth_error *error);
enum berth_status step_check_greeting(const struct pipeline *pipeline, const struct step *step,
                                      struct berth_error *error);
// If a message could not be received because ranks call different operations, the greeting shows
// it: returns that error in place of the one in *error.
enum berth_status step_explain(const struct pipeline *pipeline, const struct step *step,
                               enum berth_status status, struct berth_error *error);

// Fills in the header of a cell whose elements are the sum of `ranks` ranks' values.
void step_seal(const struct step *step, const struct chunk *chunk, int64_t ranks,
               struct range_header *cell);
// Begins a collective of the library. `bytes` leave this host, and `rank` takes part.
enum berth_status step_collect(struct pipeline *pipeline, struct step *step, int rank, void *data,
                               size_t bytes, const struct transport_collective *collective,
                               struct berth_error *error);
// Begin to send or to receive a sealed cell, with the pipeline's courier or with `relays`.
enum berth_status step_send(struct courier *courier, struct step *step, int rank,
                            const struct chunk *chunk, const struct range_header *cell,
                            struct berth_error *error);
enum berth_status step_receive(struct courier *courier, struct step *step, int rank,
                               const struct chunk *chunk, struct range_header *cell,
                               struct berth_error *error);
enum berth_status step_check(const struct pipeline *pipeline, const struct step *step, int rank,
                             const struct chunk *chunk, const struct range_header *cell,
                             struct berth_error *error);

#endif
