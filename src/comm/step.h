// SPDX-License-Identifier: Apache-2.0
// What the phases of reduce.c and gather.c are made of: the elements, cells, marks and messages of
// a step.
#ifndef BERTH_COMM_STEP_H
#define BERTH_COMM_STEP_H

#include "comm/pipeline.h"

// The chunk of a step in the part of rank `owner`; count may be 0.
struct piece {
    int owner;
    void *data; // in the range's memory
    int64_t count;
    size_t bytes; // on the wire
};

struct piece step_piece(const struct step *step, int owner);

// The cell of `owner` in the area of a rank of this host.
struct range_header *step_cell(const struct pipeline *pipeline, const struct step *step, int local,
                               int owner);
// Where the message of the i-th other host goes, to the owner of a sum.
struct range_header *step_received(const struct pipeline *pipeline, const struct step *step, int i);

// Marks this rank's area as filled or emptied.
void step_mark_filled(struct pipeline *pipeline, const struct step *step);
void step_mark_emptied(struct pipeline *pipeline, const struct step *step);
// Whether all areas of the host are filled for this step; then `check` compares what the ranks
// call. step_unfilled: the first local rank whose area is not, or -1.
int step_unfilled(const struct pipeline *pipeline, const struct step *step);
enum berth_status step_check_filled(const struct pipeline *pipeline, const struct step *step,
                                    struct berth_error *error);

// The first messages of an operation's first step; later steps have none.
enum berth_status step_send_greeting(struct pipeline *pipeline, struct step *step,
                                     struct berth_error *error);
enum berth_status step_receive_greeting(struct pipeline *pipeline, struct step *step,
                                        struct berth_error *error);
enum berth_status step_check_greeting(const struct pipeline *pipeline, const struct step *step,
                                      struct berth_error *error);
// Where a message could not be received because ranks do not call the same, the greeting says so:
// that error, in place of the one in *error.
enum berth_status step_explain(const struct pipeline *pipeline, const struct step *step,
                               enum berth_status status, struct berth_error *error);

// Fills in the header of a cell whose elements are a sum of `ranks` ranks' values.
void step_seal(const struct step *step, const struct piece *piece, int64_t ranks,
               struct range_header *cell);
// Begin to send a sealed cell, or to receive one.
enum berth_status step_send(struct pipeline *pipeline, struct step *step, int rank,
                            const struct piece *piece, const struct range_header *cell,
                            struct berth_error *error);
enum berth_status step_receive(struct pipeline *pipeline, struct step *step, int rank,
                               const struct piece *piece, struct range_header *cell,
                               struct berth_error *error);
enum berth_status step_check(const struct pipeline *pipeline, const struct step *step, int rank,
                             const struct piece *piece, const struct range_header *cell,
                             struct berth_error *error);

#endif
