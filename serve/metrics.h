// SPDX-License-Identifier: Apache-2.0
// Counters of the server and their text for Prometheus.
#ifndef BERTH_SERVE_METRICS_H
#define BERTH_SERVE_METRICS_H

#include "core/buffer.h"
#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

struct metrics;

enum berth_status metrics_open(size_t models, struct metrics **metrics, struct berth_error *error);
void metrics_close(struct metrics *metrics);

// A request to a model was answered with this HTTP status after so many seconds.
void metrics_request(struct metrics *metrics, size_t model, int status, double seconds);
// So many members of a request to the model were unknown.
void metrics_ignored(struct metrics *metrics, size_t model, size_t members);
// A batch of so many tokens was run.
void metrics_batch(struct metrics *metrics, size_t model, int64_t tokens);
// So many texts were truncated. Returns their number with all before them.
uint64_t metrics_truncated(struct metrics *metrics, size_t model, size_t texts);

// What the text takes from elsewhere.
struct metrics_source {
    const char *(*name)(void *context, size_t model);
    size_t (*queue_length)(void *context, size_t model);
    void *context;
};
// Prometheus' text format 0.0.4.
void metrics_write(struct metrics *metrics, const struct metrics_source *source,
                   struct buffer *text);

#endif
