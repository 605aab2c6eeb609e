// SPDX-License-Identifier: Apache-2.0
// Records as text: plain lines and tables, and the lines that DeepSpeed prints.
#ifndef BERTH_REPORT_LINES_H
#define BERTH_REPORT_LINES_H

#include "core/config.h"
#include "core/json_line.h"

#include <stddef.h>

#define LINES_SIZE 1024

// The field with that key, or NULL; its value as a real, or `fallback`.
const struct berth_field *lines_field(const struct berth_record *record, const char *key);
double lines_real(const struct berth_record *record, const char *key, double fallback);
// Whether the key says when a record was made, "step" or "epoch", rather than what was measured.
int lines_is_position(const char *key);

// Formats a field's value for people: "1,234,567", "1.21 GiB", "3e-05", "87.35".
void lines_value(const struct berth_field *field, char *text, size_t size);
// "step 120/487  loss 1.2345  lr 2.8e-05  42.3 samples/s": all fields of the record on one line.
void lines_plain(const struct berth_record *record, char *text, size_t size);
// The same, without the last fields that do not fit into `width` columns; the first two are always
// kept.
void lines_plain_within(const struct berth_record *record, size_t width, char *text, size_t size);
// One row of an aligned table: "  parameters            22,713,986".
void lines_row(const struct berth_field *field, char *text, size_t size);

// Appends the field's value as a JSON member with that key.
void lines_json_field(struct json_line *line, const char *key, const struct berth_field *field);

// "[2026-01-31 12:00:00,123] [INFO] [PLACE] ", where the place is that of most lines, or another.
#define LINES_LOG_DIST "logging.py:68:log_dist"
void lines_deepspeed_frame(const char *place, char *text, size_t size);

struct lines_deepspeed {
    double beta1, beta2;
};
// "[...] [Rank 0] step=20, skipped=0, lr=[5e-05], mom=[(0.9, 0.999)]"
void lines_deepspeed_step(const struct berth_record *record, const struct lines_deepspeed *facts,
                          char *text, size_t size);
// "[...] 0/20, RunningAvgSamplesPerSec=..., CurrSamplesPerSec=..., MemAllocated=0.36GB, ..."; 0 if
// the record has no average yet, as before the third update.
int lines_deepspeed_rate(const struct berth_record *record, char *text, size_t size);
// The two lines that DeepSpeed's own programs for the record's task print in addition to the
// engine's; 0 if there is no such program for it.
//   "bing_bert_progress: step=20, loss=7.25, lr=5e-05, sample_count=640"
//   " At step 20, the throughput is 41.2 Samples/s"
// and for squad, with the running mean of the loss,
//   "bert_squad_progress: step=20 lr=5e-05 loss=1.25"
//   " At step 20, averaged throughput for 20 rounds is: 41.2 Samples/s"
int lines_deepspeed_progress(const struct berth_record *record, char *progress, char *throughput,
                             size_t size);
// "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
// from a note's fields attempted_loss_scale, loss_scale, attempted_hysteresis, hysteresis.
void lines_deepspeed_overflow(const struct berth_record *record, char *text, size_t size);
// The times of the update's last micro-batch and of the update; 0 if the record has none.
//   "[...] [Rank 0] rank=0 time (ms) | forward_microstep: 1.00 | backward_microstep: ..."
//   "[...] [Rank 0] rank=0 time (ms) | forward: 4.00 | backward: ..."
int lines_deepspeed_times(const struct berth_record *record, char *micro, char *update,
                          size_t size);

#endif
