// SPDX-License-Identifier: Apache-2.0
// Writes records as scalars and histograms to a TensorBoard event file: TFRecord frames around
// Event messages. Each record is written at once with a single write, so a killed run leaves
// complete records (except possibly the last one).
//
// The table of keys has the tags of STEP records: Train/Samples/NAME over samples, Train/Steps/NAME
// and train/NAME over updates. Every number of an EVAL record is Validation/NAME over samples and
// eval/NAME over updates, and a VALUES record is a histogram Train/TEXT over updates.
//
// Samples are updates times the train_batch_size of the last PLAN record that has one, or updates
// with `by_steps`. Unknown numbers (NaN) are left out.
#ifndef BERTH_REPORT_EVENT_FILE_H
#define BERTH_REPORT_EVENT_FILE_H

#include "core/error.h"
#include "format/protobuf/protobuf.h"

#include <stddef.h>
#include <stdint.h>

struct event_file {
    char *folder;   // NULL: none
    int descriptor; // -1: no file yet
    int failed;     // a write has failed; further records are ignored
    int by_steps;   // the axis of samples has updates
    int64_t batch_size;
    struct buffer message, out; // buffers for the record being written
};

// `folder` NULL: write nothing. The folder and the file are created with the first scalar, so a run
// that ends earlier leaves nothing. BERTH_CANT_CREATE if `folder` is a file.
enum berth_status event_file_open(struct event_file *file, const char *folder,
                                  struct berth_error *error);
// Writes a record. Returns an error once; later records are ignored.
enum berth_status event_file_record(struct event_file *file, const struct berth_record *record,
                                    struct berth_error *error);
void event_file_close(struct event_file *file);

// --- messages -----------------------------------------------------------------------------------

struct event_scalar {
    const char *tag;
    double value;
};
// Appends an Event with the version of the format, the first of a file, or one with scalars.
void event_put_version(struct buffer *message, double wall_time);
void event_put_scalars(struct buffer *message, double wall_time, int64_t step,
                       const struct event_scalar *scalars, size_t count);

#endif
