// SPDX-License-Identifier: Apache-2.0
// Files of pre-training instances: HDF5 with one instance a row, with several packed into a row
// (data/packing/packing.h), and TFRecord; what is read and written is struct instances in either
// case.
//
//   one a row   input_ids [N, S] i32, input_mask [N, S] i8, segment_ids [N, S] i8,
//               masked_lm_positions [N, P] i32 and masked_lm_ids [N, P] i32 (zeros behind the
//               last), next_sentence_labels [N] i8 (1: random)
//   packed      input_ids [N, S] i32, input_mask [N, S] i32 (1, 2, 3: the sequence, 0: none),
//               segment_ids [N, S] i8, positions [N, S] i32 (from 0 in each sequence),
//               masked_lm_positions and masked_lm_ids [N, P + K] i32, next_sentence_positions [N,
//               K] i32 (of each [CLS]), next_sentence_labels [N, K] i8, next_sentence_weights [N,
//               K] i32 (1: there is one)
#ifndef BERTH_DATA_PRETRAINING_FILE_H
#define BERTH_DATA_PRETRAINING_FILE_H

#include "core/error.h"
#include "data/pretraining/instances.h"

#include <stddef.h>
#include <stdint.h>

#define PRETRAINING_GZIP_LEVEL 4 // h5py's own
enum { PRETRAINING_PACK_MAX = 3 };

// Writes all instances, one a row, atomically. At least one instance.
enum berth_status pretraining_write_hdf5(const char *path, const struct instances *instances,
                                         int max_seq_length, int max_predictions,
                                         struct berth_error *error);
// The same as TFRecord: a tf.train.Example for each with input_ids, input_mask, segment_ids,
// masked_lm_positions, masked_lm_ids, next_sentence_labels (int64) and masked_lm_weights (float).
enum berth_status pretraining_write_tfrecord(const char *path, const struct instances *instances,
                                             int max_seq_length, int max_predictions,
                                             struct berth_error *error);

// A row of a packed file: numbers of instances; PRETRAINING_NONE where there is none.
#define PRETRAINING_NONE UINT32_MAX
struct pretraining_pack {
    uint32_t instances[PRETRAINING_PACK_MAX];
};
// Writes rows packs[0, count), atomically. Sequences longer than a row together, or more masked
// positions than max_predictions + PRETRAINING_PACK_MAX, are BERTH_BAD_DATA.
enum berth_status pretraining_write_packed(const char *path, const struct instances *instances,
                                           const struct pretraining_pack *packs, size_t count,
                                           int max_seq_length, int max_predictions,
                                           struct berth_error *error);

// Appends the instances of a file, HDF5 of either kind (told by its data sets) or TFRecord (told by
// its first bytes); rows that are packed come apart again. Wrong data sets, types or shapes, ids
// outside [0, vocab_size), and masks, segments, positions and labels that contradict each other are
// BERTH_BAD_DATA naming the file, the data set and the row. instances->counts is left as it is.
// max_seq_length 0: rows of any length.
enum berth_status pretraining_read(const char *path, int32_t vocab_size, int max_seq_length,
                                   struct instances *instances, struct berth_error *error);
enum berth_status pretraining_read_hdf5(const char *path, int32_t vocab_size, int max_seq_length,
                                        struct instances *instances, struct berth_error *error);
// Records of the features that pretraining_write_tfrecord, Google's and Intel's scripts write, of
// different widths too; masked_lm_weights may be missing.
enum berth_status pretraining_read_tfrecord(const char *path, int32_t vocab_size,
                                            int max_seq_length, struct instances *instances,
                                            struct berth_error *error);

// What a file holds: of HDF5 from its description and, where rows are packed, from their weights
// alone; of TFRecord from the frames of its records and what is in the first. Wrong data sets,
// types and shapes are BERTH_BAD_DATA.
struct pretraining_size {
    int64_t sequences;   // instances that pretraining_read would append
    int64_t length;      // tokens of a row, of TFRecord of the first
    int64_t predictions; // of a row at most, of TFRecord of the first
    int packed;          // several sequences in a row
};
enum berth_status pretraining_measure(const char *path, int max_seq_length,
                                      struct pretraining_size *size, struct berth_error *error);
enum berth_status pretraining_measure_hdf5(const char *path, int max_seq_length,
                                           struct pretraining_size *size,
                                           struct berth_error *error);
enum berth_status pretraining_measure_tfrecord(const char *path, int max_seq_length,
                                               struct pretraining_size *size,
                                               struct berth_error *error);

// Whether a file of this name in a folder is taken for one: *.hdf5, *.h5, *.tfrecord and the like,
// and TensorFlow's numbered parts, NAME-00000-of-00500 with nothing behind.
int pretraining_is_file(const char *name);

#endif
