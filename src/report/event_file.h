// SPDX-License-Identifier: Apache-2.0
// Records as scalars and histograms in a TensorBoard event file: TFRecord frames around Event
// messages. Each record goes out in one write as it happens; a killed run leaves whole ones (at
// worst a torn last one).
//
//   record  field               tag                                  x axis
//   STEP    loss                Train/Samples/train_loss             samples
//           learning_rate       Train/Samples/lr, Train/Steps/lr     samples, updates
//           forward_ms, ...     Train/Samples/elapsed_time_ms_forward, _backward, _step
//           loss_scale          Train/Samples/scale, Train/Samples/loss_scale
//           grad_norm, samples_per_second, tokens_per_second: Train/Samples/NAME
//   EVAL    every number        Validation/NAME                      samples
//   VALUES  all but step        Train/TEXT, a histogram              updates
//
// Samples are updates times the train_batch_size of the last PLAN record that has one. Numbers that
// are not known (NaN) are left out.
#ifndef BERTH_REPORT_EVENT_FILE_H
#define BERTH_REPORT_EVENT_FILE_H

#include "core/error.h"
#include "format/protobuf/protobuf.h"

#include <stddef.h>
#include <stdint.h>

struct event_file {
    char *folder;   // NULL: none
    int descriptor; // -1: no file yet
    int failed;     // writing has failed: nothing more is written
    int64_t batch_size;
    struct protobuf_writer message, out; // of the record that is being written
};

// `folder` NULL: nothing will be written. The folder and its file are made with the first scalar,
// so that a run which ends before that leaves nothing. A file of that name: BERTH_CANT_CREATE.
enum berth_status event_file_open(struct event_file *file, const char *folder,
                                  struct berth_error *error);
// An error is given once; later records are passed over.
enum berth_status event_file_record(struct event_file *file, const struct berth_record *record,
                                    struct berth_error *error);
void event_file_close(struct event_file *file);

// --- messages -----------------------------------------------------------------------------------

struct event_scalar {
    const char *tag;
    double value;
};
// An Event with the version of the format, the first of a file, and one with scalars.
void event_put_version(struct protobuf_writer *message, double wall_time);
void event_put_scalars(struct protobuf_writer *message, double wall_time, int64_t step,
                       const struct event_scalar *scalars, size_t count);

// One with a histogram of `count` > 0 values, in 30 steps of one width from the least to the
// largest.
void event_put_histogram(struct protobuf_writer *message, double wall_time, int64_t step,
                         const char *tag, const double *values, size_t count);

#endif
