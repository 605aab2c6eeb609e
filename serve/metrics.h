// SPDX-License-Identifier: Apache-2.0
// Counters of the server and their text for Prometheus. Threads add to them while requests are
// answered; logs of single requests are request_log.h's.
#ifndef BERTH_SERVE_METRICS_H
#define BERTH_SERVE_METRICS_H

#include "core/buffer.h"
#include "core/error.h"
#include "serve/models.h"
#include "serve/queue.h"

#include <stddef.h>
#include <stdint.h>

struct metrics;

enum berth_status metrics_open(size_t models, struct metrics **metrics, struct berth_error *error);
void metrics_close(struct metrics *metrics);

// A request to a model was answered with this HTTP status after so many seconds.
void metrics_request(struct metrics *metrics, size_t model, int status, double seconds);
// So many members of a request to the model were unknown.
void metrics_ignored(struct metrics *metrics, size_t model, size_t members);
// A batch of so many tokens was run, of whose texts so many were truncated. Returns the number of
// truncated ones with all before them.
uint64_t metrics_batch(struct metrics *metrics, size_t model, int64_t tokens, size_t truncated);

// Prometheus' text format 0.0.4, with the models' names and the texts that wait for them.
void metrics_write(struct metrics *metrics, const struct models *models, struct queue *queue,
                   struct buffer *text);

#endif
