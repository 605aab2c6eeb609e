// SPDX-License-Identifier: Apache-2.0
// Reads and writes files of pre-training instances, as struct instances: HDF5 with one instance per
// row, HDF5 with several packed into a row (data/packing/packing.h), and TFRecord.
//
//   plain       input_ids [N, S] i32, input_mask [N, S] i8, segment_ids [N, S] i8,
//               masked_lm_positions [N, P] i32 and masked_lm_ids [N, P] i32 (padded with zeros),
//               next_sentence_labels [N] i8 (1: random)
//   packed      input_ids [N, S] i32, input_mask [N, S] i32 (1, 2, 3: index of the sequence;
//               0: padding), segment_ids [N, S] i8, positions [N, S] i32 (starting at 0 in each
//               sequence), masked_lm_positions and masked_lm_ids [N, P + K] i32,
//               next_sentence_positions [N, K] i32 (of each [CLS]), next_sentence_labels [N, K] i8,
//               next_sentence_weights [N, K] i32 (1: used)
//
// The stages of `berth prepare` and `berth pack` write them; a training reads them by
// shard_stream.h.
#ifndef BERTH_DATA_PRETRAINING_FILE_H
#define BERTH_DATA_PRETRAINING_FILE_H

#include "core/error.h"
#include "data/pretraining/instances.h"

#include <stddef.h>
#include <stdint.h>

#define PRETRAINING_GZIP_LEVEL 4 // h5py's default
enum { PRETRAINING_PACK_MAX = 3 };

// Writes the instances (at least one), one per row, atomically.
enum berth_status pretraining_write_hdf5(const char *path, const struct instances *instances,
                                         int max_length, int max_predictions,
                                         struct berth_error *error);
// The same as TFRecord: a tf.train.Example for each with input_ids, input_mask, segment_ids,
// masked_lm_positions, masked_lm_ids, next_sentence_labels (int64) and masked_lm_weights (float).
enum berth_status pretraining_write_tfrecord(const char *path, const struct instances *instances,
                                             int max_length, int max_predictions,
                                             struct berth_error *error);

// What a file is for, by its name: "training", or "test" that no letter precedes ("latest" says
// nothing); the last of them decides.
enum pretraining_part { PART_ANY, PART_TRAINING, PART_TEST };
enum pretraining_part pretraining_part_of(const char *name);

// A row of a packed file: indices of instances, PRETRAINING_NONE in unused slots.
#define PRETRAINING_NONE UINT32_MAX
struct pretraining_pack {
    uint32_t instances[PRETRAINING_PACK_MAX];
};
struct pretraining_packs {
    const struct pretraining_pack *items;
    size_t count;
};
// Writes packed rows atomically. BERTH_BAD_DATA: a row has too many tokens, or more
// than max_predictions + PRETRAINING_PACK_MAX masked positions.
enum berth_status pretraining_write_packed(const char *path, const struct instances *instances,
                                           struct pretraining_packs packs, int max_length,
                                           int max_predictions, struct berth_error *error);

// Appends the instances of a file, HDF5 of either kind (recognised by its data sets) or TFRecord
// (recognised by its first bytes); unpacks packed rows. Wrong data sets, types or shapes, ids
// outside [0, vocab_size), and inconsistent masks, segments, positions and labels are
// BERTH_BAD_DATA, with the file, the data set and the row in the message. Does not change
// instances->counts. max_length 0: rows of any length.
enum berth_status pretraining_read(const char *path, int32_t vocab_size, int max_length,
                                   struct instances *instances, struct berth_error *error);
enum berth_status pretraining_read_hdf5(const char *path, int32_t vocab_size, int max_length,
                                        struct instances *instances, struct berth_error *error);
// Reads records as written by pretraining_write_tfrecord and by Google's and Intel's scripts. Their
// widths may differ; masked_lm_weights may be missing.
enum berth_status pretraining_read_tfrecord(const char *path, int32_t vocab_size, int max_length,
                                            struct instances *instances, struct berth_error *error);

// The size of a file: for HDF5 from its metadata and, if rows are packed, their weights; for
// TFRecord from the frames of its records and the contents of the first. Wrong data sets, types and
// shapes are BERTH_BAD_DATA.
struct pretraining_size {
    int64_t sequences;   // instances that pretraining_read would append
    int64_t length;      // tokens of a row; in TFRecord of the first
    int64_t predictions; // maximum per row; in TFRecord that of the first
    int packed;          // rows contain several sequences
};
enum berth_status pretraining_measure(const char *path, int max_length,
                                      struct pretraining_size *size, struct berth_error *error);
enum berth_status pretraining_measure_hdf5(const char *path, int max_length,
                                           struct pretraining_size *size,
                                           struct berth_error *error);
enum berth_status pretraining_measure_tfrecord(const char *path, int max_length,
                                               struct pretraining_size *size,
                                               struct berth_error *error);

// Whether a file is one by its name: *.hdf5, *.h5, *.tfrecord and the like, and TensorFlow's
// numbered shards, NAME-00000-of-00500 without an extension.
int pretraining_is_file(const char *name);

#endif
