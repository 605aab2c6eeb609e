// SPDX-License-Identifier: Apache-2.0
// A model folder: config.json or Google's bert_config.json, the weights in one of the formats of
// format/containers/containers.h, vocab.txt and the tokenizer's files. Wherever a folder is asked
// for, the file of weights in it will do, and one of DeepSpeed's tags.
#ifndef BERTH_MODEL_FOLDER_H
#define BERTH_MODEL_FOLDER_H

#include "core/error.h"
#include "format/tensors/tensor_file.h"
#include "model/config.h"
#include "model/params.h"
#include "model/vocabulary_file.h"

#include <stddef.h>

#define FOLDER_WEIGHTS "model.safetensors" // as it is written

// What reading weights met. Lists are newline-separated names, NULL when empty.
struct folder_report {
    char *missing;    // filled with initial values (heads only; a missing body tensor is an error)
    char *unexpected; // in the file, not in the model (poolers, other heads)
    size_t loaded;    // tensors taken from the file
    size_t ignored_keys; // keys in the file's header that mean nothing here: worth a warning
};
void folder_report_done(struct folder_report *report);

// The path of a file that belongs to the model: in the folder `path`; beside it when `path` is a
// file of weights; in the folder around one of DeepSpeed's tags. Newly allocated, NULL when memory
// is out.
char *folder_file(const char *path, const char *name);
// Copies the file of that name to the folder `target`; fine when the model has none.
enum berth_status folder_copy_file(const char *path, const char *target, const char *name,
                                   struct berth_error *error);

// The folder's config.json, or Google's bert_config.json where only that is there; newly allocated,
// NULL when memory is out.
char *folder_config_path(const char *path);

// Reads that file; BERTH_NO_INPUT where neither is there.
enum berth_status folder_read_config(const char *path, struct bert_config *config,
                                     struct berth_error *error);

// Whether the folder holds weights of any format.
enum berth_status folder_holds_weights(const char *folder, int *found, struct berth_error *error);

// Asks the folder's weights where their layer norms stand, whether its configuration says so or
// not.
enum berth_status folder_find_norms(const char *path, struct bert_config *config,
                                    struct berth_error *error);

// Opens the folder's weights: the first that is there of model.safetensors, its index of several
// files, pytorch_model.bin, its index, and what the other formats find in it (a TensorFlow
// checkpoint, DeepSpeed's newest tag, NVIDIA's last ckpt_<step>.pt). A file is opened as what it
// is. tensor_file_close closes them.
enum berth_status folder_open_weights(const char *path, struct tensor_file *file,
                                      struct berth_error *error);

// Reads the weights of `folder` into buffer[table->total]; names go through the dialect table
// (names.h), matrices that another layout stores transposed are turned. Missing head
// tensors get initial values from `seed`. A shape mismatch, a missing body tensor: an error that
// says so.
enum berth_status folder_read_weights(const char *folder, const struct bert_config *config,
                                      const struct param_table *table, uint64_t seed, float *buffer,
                                      struct folder_report *report, struct berth_error *error);

// Writes config.json and model.safetensors (fp32) into an existing folder, each atomically.
enum berth_status folder_write_weights(const char *folder, const struct bert_config *config,
                                       const struct param_table *table, const float *buffer,
                                       struct berth_error *error);

// A vocabulary fits when it has vocab_size entries, or that many after rounding up to a multiple of
// 8, 64 or 128 (tables are padded so for speed). Else BERTH_CONFIG naming both files. For whoever
// opens both.
enum berth_status folder_check_vocab(const struct bert_config *config, const char *config_path,
                                     int64_t vocab_size, const char *vocab_path,
                                     struct berth_error *error);

// The folder's vocabulary: vocab.txt, else tokenizer.json where only that is there. Newly
// allocated, NULL when memory is out.
char *folder_vocabulary_path(const char *path);

// Copies the tokenizer's files (vocab.txt, tokenizer.json, tokenizer_config.json,
// special_tokens_map.json) from `source` where they are there, and writes the missing ones but
// tokenizer.json: vocab.txt from a tokenizer.json, the two others as for BERT. `vocab_path` (may be
// NULL) replaces source's vocabulary, `rules` (NULL: as the source says) what it says of texts;
// tokenizer.json, which repeats both, is then left out. `source` may be NULL.
enum berth_status folder_copy_tokenizer(const char *source, const char *vocab_path,
                                        const struct text_rules *rules, const char *target,
                                        struct berth_error *error);

// The casing that a folder's name tells, as Google's and Hugging Face's published models have it in
// theirs ("uncased_L-12_H-768_A-12", "bert-base-cased"): 1 lower case, 0 cased, -1 nothing.
int folder_name_casing(const char *folder);
// What the folder says of texts: tokenizer_config.json, for keys that it lacks the normalizer of
// tokenizer.json, for the casing the folder's name; else text_rules_usual. As in transformers the
// normalizer alone decides where tokenizer_class names no tokenizer of BERT's.
enum berth_status folder_text_rules(const char *folder, struct text_rules *rules,
                                    struct berth_error *error);

#endif
