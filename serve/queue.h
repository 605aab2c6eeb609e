// SPDX-License-Identifier: Apache-2.0
// Calls that wait for the workers, and the batches that workers take from them.
//
// Each model has a queue of its own. Batches alternate between models, and items within a batch
// between clients, and between a client's calls that fit a batch and its larger ones. A call's
// items may go into several batches. Calls with a text longer than four batches have a lane and a
// worker of their own, since such a text is run as a whole, however long that takes.
#ifndef BERTH_SERVE_QUEUE_H
#define BERTH_SERVE_QUEUE_H

#include "serve/call.h"

enum queue_lane { QUEUE_NORMAL, QUEUE_LONG, QUEUE_LANES };

struct queue_limits {
    size_t items;         // that wait
    int64_t batch_tokens; // of a batch of more than one item
    double delay_seconds; // that a batch waits for more items
};

// Items of one instance of a model.
struct work_batch {
    struct task_text **items;
    struct call **calls; // whose items they are
    size_t count;
    int64_t tokens;
    size_t model;
};

struct queue;

enum berth_status queue_open(size_t models, const struct queue_limits *limits, struct queue **queue,
                             struct berth_error *error);
// Nothing may wait in it.
void queue_close(struct queue *queue);
// BERTH_UNAVAILABLE: full or closed for good; the call is then still the caller's.
enum berth_status queue_put(struct queue *queue, struct call *call, struct berth_error *error);
// A batch that can hold everything that can wait. Call batch_done even on failure.
enum berth_status batch_open(struct work_batch *batch, const struct queue *queue,
                             struct berth_error *error);
// Waits for items and takes a batch of them. 0: the queue has ended and the lane is empty.
int queue_take(struct queue *queue, enum queue_lane lane, struct work_batch *batch);
void batch_done(struct work_batch *batch);
// Items that wait, of one model.
size_t queue_length(struct queue *queue, size_t model);
// From now on, nothing can be put; queue_take returns what is left.
void queue_end(struct queue *queue);

#endif
