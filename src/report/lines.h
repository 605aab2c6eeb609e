// SPDX-License-Identifier: Apache-2.0
// Records as text: plain lines and tables, the lines that DeepSpeed prints, and dllogger's. Which
// fields they have, and under which names, is in the table of keys (keys.h). Where lines go is
// decided by reporter.h.
#ifndef BERTH_REPORT_LINES_H
#define BERTH_REPORT_LINES_H

#include "berth.h"
#include "core/json_line.h"

#include <stddef.h>
#include <time.h>

#define LINES_SIZE 1024

// What a line calls the kind of a record.
const char *lines_kind(enum berth_record_kind kind);
// The field with that key, or NULL; its value as a real, or `fallback`.
const struct berth_field *lines_field(const struct berth_record *record, const char *key);
double lines_real(const struct berth_record *record, const char *key, double fallback);

// Formats a field's value for people: "1,234,567", "1.21 GiB", "3e-05", "87.35".
void lines_value(const struct berth_field *field, char *text, size_t size);
// Which fields of a record a line has.
enum lines_fields { LINES_ALL, LINES_BRIEF };
// "step 120/487  loss 1.2345  lr 2.8e-05  42.3 samples/s": the fields of the record on one line,
// without the last ones that do not fit into `width` columns; the first two are always kept.
void lines_plain(const struct berth_record *record, enum lines_fields which, size_t width,
                 char *text, size_t size);
// "model      bert-base  109,482,240 parameters  bf16": the brief fields behind `heading`, on lines
// of at most `width` columns unless a field is longer; "" if there are none.
void lines_brief(const struct berth_record *record, const char *heading, size_t width, char *text,
                 size_t size);
// One row of an aligned table: "  parameters            22,713,986".
void lines_row(const struct berth_field *field, char *text, size_t size);

// Appends the field's value as a JSON member with that key.
void lines_json_field(struct json_line *line, const char *key, const struct berth_field *field);

// The time, also as "2026-01-31 12:00:00".
#define LINES_DATE_SIZE 64
struct timespec lines_now(char text[LINES_DATE_SIZE]);

// --- DeepSpeed's (lines_deepspeed.c) -------------------------------------------------------------

struct console;

// "[2026-01-31 12:00:00,123] [INFO] [logging.py:68:log_dist] [Rank 0] TEXT"
void lines_deepspeed_text(struct console *console, const char *text);
// The engine's lines for a note: its text or, with the field attempted_loss_scale,
//   "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768"
void lines_deepspeed_note(struct console *console, const struct berth_record *record);
// Its lines for an update; `betas` are Adam's. There is no rate before the third update, and there
// are times only if the record has them.
//   "[...] [Rank 0] step=20, skipped=0, lr=[5e-05], mom=[(0.9, 0.999)]"
//   "[...] 0/20, RunningAvgSamplesPerSec=..., CurrSamplesPerSec=..., MemAllocated=0.36GB, ..."
//   "[...] [Rank 0] rank=0 time (ms) | forward_microstep: 1.00 | backward_microstep: ..."
//   "[...] [Rank 0] rank=0 time (ms) | forward: 4.00 | backward: ..."
void lines_deepspeed_step(struct console *console, const struct berth_record *record,
                          const double betas[2]);
// The two lines that DeepSpeed's own programs for the record's task print in addition to the
// engine's, if there is such a program: for squad with the running mean of the loss.
//   "bing_bert_progress: step=20, loss=7.25, lr=5e-05, sample_count=640"
//   " At step 20, the throughput is 41.2 Samples/s"
void lines_deepspeed_program(struct console *console, const struct berth_record *record);

// --- dllogger's (dllogger.c) ---------------------------------------------------------------------

// Appends the line of a record to `line`; 0 if dllogger has no line for it. `elapsed` is in seconds
// since the log's start.
int dllogger_line(struct json_line *line, double elapsed, const struct berth_record *record);
// Appends the lines of type METADATA.
void dllogger_metadata(struct json_line *line, double elapsed);
// Writes the line for people, truncated to `size`; 0 as above.
int dllogger_text(const struct berth_record *record, char *text, size_t size);

#endif
