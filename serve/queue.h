// SPDX-License-Identifier: Apache-2.0
// Calls that wait for a thread: to be read, and then to be run in batches.
//
// Each lane has one thread, which takes calls in turns between clients, so that a client that sends
// many delays only itself. A client's calls that fit a batch and its larger ones take turns like
// two clients: behind a proxy, what looks like one client is many, and a question should not wait
// for somebody's list of thousands. A larger call gives up its turn after each batch. Batches
// alternate between models. Calls with a text longer than four batches have a lane of their own,
// since such a text is run as a whole, however long that takes. routes.c puts calls in, and run.c
// runs a batch.
#ifndef BERTH_SERVE_QUEUE_H
#define BERTH_SERVE_QUEUE_H

#include "serve/call.h"

// Reading has a lane because a body of a mebibyte takes a tenth of a second, for which connections
// must not wait.
enum queue_lane { QUEUE_READ, QUEUE_RUN, QUEUE_LONG, QUEUE_LANES };

struct queue_limits {
    size_t items;         // that wait
    int64_t batch_tokens; // of a batch of more than one item
    double delay_seconds; // that a batch waits for more items
};

// A call that was not read yet, or items of one task of an instance of a model: those of each call
// from `done` to `taken`.
struct work_batch {
    struct call *calls; // linked by `beside`
    int64_t tokens;
    struct task_text **items; // room for all items of a batch
};

// What a lane's thread does with a batch. It answers or puts a call that was not read, and answers
// one whose last items are in the batch.
typedef void queue_work(void *context, struct work_batch *batch);

struct queue;

// `work` has a function for each lane. BERTH_UNAVAILABLE: a thread cannot be started.
enum berth_status queue_open(size_t models, const struct queue_limits *limits,
                             queue_work *const work[QUEUE_LANES], void *context,
                             struct queue **queue, struct berth_error *error);
// Puts the call into the lane of unread ones if it has no items. BERTH_UNAVAILABLE: too many items
// wait, or the lane has ended; the call is then still the caller's.
enum berth_status queue_put(struct queue *queue, struct call *call, struct berth_error *error);
// Items that wait, of one model.
size_t queue_length(struct queue *queue, size_t model);
// Reads and runs what waits, and ends the threads. From now on, nothing can be put.
void queue_end(struct queue *queue);
void queue_close(struct queue *queue); // after queue_end

#endif
