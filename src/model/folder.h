// SPDX-License-Identifier: Apache-2.0
// A model folder: config.json or Google's bert_config.json, the weights in one of the formats of
// format/containers/containers.h, vocab.txt and the tokenizer's files. Every function that takes a
// folder also accepts the file of weights inside it, or a DeepSpeed tag.
#ifndef BERTH_MODEL_FOLDER_H
#define BERTH_MODEL_FOLDER_H

#include "core/error.h"
#include "core/log.h"
#include "format/tensors/tensor_file.h"
#include "model/config.h"
#include "model/params.h"
#include "model/vocabulary_file.h"
#include "model/weights.h"

#include <stddef.h>

#define FOLDER_WEIGHTS "model.safetensors" // in the format the library writes

// The result of reading weights. Lists are newline-separated names, NULL when empty.
struct folder_report {
    char *missing;       // initialised randomly (only heads; a missing body tensor is an error)
    char *unexpected;    // in the file but not in the model (poolers, other heads)
    size_t loaded;       // number of tensors read from the file
    size_t ignored_keys; // unknown keys in the file's header: worth a warning
};
void folder_report_done(struct folder_report *report);

// The path of a file that belongs to the model: in the folder `path`, next to `path` if that is a
// file of weights, or in the parent folder if it is a DeepSpeed tag. Newly allocated; NULL: out of
// memory.
char *folder_file(const char *path, const char *name);
// Sets *found to whether the model has the file.
enum berth_status folder_has_file(const char *path, const char *name, int *found,
                                  struct berth_error *error);
// Copies the file `name` to the folder `target` if the model has it.
enum berth_status folder_copy_file(const char *path, const char *target, const char *name,
                                   struct berth_error *error);

// The path of the folder's config.json, or of Google's bert_config.json if only that exists. Newly
// allocated; NULL: out of memory.
char *folder_config_path(const char *path);

// The newest checkpoint-<step> in the folder of a run, for messages; "": there is none.
#define FOLDER_NAME_SIZE 64
void folder_newest_checkpoint(const char *path, char name[FOLDER_NAME_SIZE]);

// Reads the configuration; BERTH_NO_INPUT if neither file exists.
enum berth_status folder_read_config(const char *path, struct bert_config *config,
                                     struct berth_error *error);
// Fills in the built-in shape `name`, or else reads the configuration of the folder or file of that
// name; it may lack the size of the vocabulary (bert_config_read).
enum berth_status folder_read_geometry(const char *name, struct bert_config *config,
                                       struct berth_error *error);
// The same; BERTH_CONFIG if the size of the vocabulary is lacking.
enum berth_status folder_read_shape(const char *name, struct bert_config *config,
                                    struct berth_error *error);

// Whether the folder holds weights of any format.
enum berth_status folder_holds_weights(const char *folder, int *found, struct berth_error *error);

// Determines from the folder's weights whether the layer norms come before the sub-layers, whatever
// the configuration says.
enum berth_status folder_find_norms(const char *path, struct bert_config *config,
                                    struct berth_error *error);

// Opens the folder's weights, the first found of: model.safetensors, its index of several files,
// pytorch_model.bin, its index, and the files of other formats (a TensorFlow checkpoint,
// DeepSpeed's newest tag, NVIDIA's last ckpt_<step>.pt). A path to a file is opened by its content.
// Close with tensor_file_close.
enum berth_status folder_open_weights(const char *path, struct tensor_file *file,
                                      struct berth_error *error);

// Checks that opened weights have the model's body, with shapes that fit the configuration. As
// folder_read_weights, but reads no numbers.
enum berth_status folder_check_body(const struct weights *weights, const struct bert_config *config,
                                    struct berth_error *error);
// Reads the weights of `folder` into buffer[table->total]. Names are translated (names.h), and
// transposed matrices are transposed back. Missing head tensors get initial values from `seed`. A
// shape mismatch or a missing body tensor is an error that names the tensor.
enum berth_status folder_read_weights(const char *folder, const struct bert_config *config,
                                      const struct param_table *table, uint64_t seed, float *buffer,
                                      struct folder_report *report, struct berth_error *error);
// The same into a sink.
enum berth_status folder_read_weights_into(const char *folder, const struct bert_config *config,
                                           const struct param_table *table, uint64_t seed,
                                           const struct param_sink *sink,
                                           struct folder_report *report, struct berth_error *error);
// Sets *missing to the names, one a line, of the tensors of the table's head that the weights of
// `folder` lack; NULL: none. As folder_read_weights, but reads no numbers.
enum berth_status folder_find_missing(const char *folder, const struct bert_config *config,
                                      const struct param_table *table, char **missing,
                                      struct berth_error *error);

// Writes config.json and model.safetensors (fp32) into an existing folder, each atomically.
enum berth_status folder_write_weights(const char *folder, const struct bert_config *config,
                                       const struct param_table *table, const float *buffer,
                                       struct berth_error *error);
// config.json alone.
enum berth_status folder_write_config(const char *folder, const struct bert_config *config,
                                      const struct param_table *table, struct berth_error *error);

// Whether a vocabulary fits the model: it has vocab_size entries, or that many after rounding up to
// a multiple of 8, 64 or 128 (tables are padded for speed).
int folder_vocab_fits(const struct bert_config *config, int64_t vocab_size);
// BERTH_CONFIG, naming both files, if it does not.
enum berth_status folder_check_vocab(const struct bert_config *config, const char *config_path,
                                     int64_t vocab_size, const char *vocab_path,
                                     struct berth_error *error);
// The same for the vocabulary in the model's own folder; but one with fewer entries gets a warning.
enum berth_status folder_check_own_vocab(const struct bert_config *config, const char *config_path,
                                         int64_t vocab_size, const char *vocab_path,
                                         const struct berth_log *log, struct berth_error *error);

// The path of the folder's vocabulary: as in transformers tokenizer.json, if it exists; but
// vocab.txt if only that exists, or if tokenizer_class is BERT's and the tokenizer.json is not.
// Newly allocated; NULL after an error.
enum berth_status folder_vocabulary_path(const char *folder, char **path,
                                         struct berth_error *error);
// The same. If tokenizer.json had to be opened for that, *file, empty before, keeps it, so that
// folder_read_vocabulary does not read it again. Call vocabulary_file_done, even on failure.
enum berth_status folder_find_vocabulary(const char *folder, char **path,
                                         struct vocabulary_file *file, struct berth_error *error);
// Reads the vocabulary at that path and the tokens that the folder's other files add to it; with
// `folder` NULL, only the file at `path`. *file is empty or from folder_find_vocabulary. A special
// token of another name than BERT's is refused. Call vocabulary_file_done afterwards, even on
// failure.
enum berth_status folder_read_vocabulary(const char *folder, const char *path,
                                         struct vocabulary_file *file, struct berth_error *error);

// Copies the tokenizer's files that exist (vocab.txt, tokenizer.json, tokenizer_config.json,
// special_tokens_map.json, added_tokens.json) from `source` (may be NULL) and writes vocab.txt,
// tokenizer_config.json and special_tokens_map.json where they are missing: the first from a
// tokenizer.json, the other two as for BERT. `vocab_path` replaces the source's vocabulary, and
// `rules` its text rules (NULL: the source's). With another vocabulary, tokenizer.json and the
// added tokens are left out; with other rules, the copies have those. A tokenizer.json that is not
// BERT's is copied as it is.
enum berth_status folder_copy_tokenizer(const char *source, const char *vocab_path,
                                        const struct text_rules *rules, const char *target,
                                        struct berth_error *error);

// Writes tokenizer_config.json into `target`, a folder that `source` was copied to, if otherwise
// its text rules were not the source's: those may come from the source's name. `same_vocab`: it has
// the source's vocabulary, so that the added tokens of the settings apply. A source with rules that
// are not supported, or whose tokenizer.json is not BERT's, is left as it was copied.
enum berth_status folder_keep_rules(const char *source, int same_vocab, const char *target,
                                    struct berth_error *error);

// The casing that a folder's name indicates, as in the names of published models
// ("uncased_L-12_H-768_A-12", "bert-base-cased"): 1 lower case, 0 cased, -1 unknown. However the
// path is written, the name is that of the folder itself.
int folder_name_casing(const char *folder);
// Reads the folder's text rules, as transformers does. If tokenizer_class (or model_type in
// config.json) is BERT's: from tokenizer_config.json, else text_rules_default; but with vocab.txt
// alone, the casing is that of the folder's name. Otherwise from the normalizer of tokenizer.json,
// if there is one. `file` is the folder's vocabulary, if it has been read, or NULL.
enum berth_status folder_text_rules(const char *folder, const struct vocabulary_file *file,
                                    struct text_rules *rules, struct berth_error *error);

// How the folder's tokenizer makes inputs of texts, beyond text_rules.
struct input_rules {
    int64_t max_length; // tokens of a text or pair (model_max_length); 0: the settings name none
    int one_type;       // tokens of a pair's second text have type 0, too
    int split_special;  // special tokens in a text are ordinary characters
    int cleans_up;      // decoded text, of blanks (text/decode.c)
    int keeps_blanks;   // decoded text has blanks before . , ? ! n't and the like
    int keeps_pieces;   // decoded text is the tokens, separated by blanks
};
// `file` is the folder's vocabulary, or NULL if another one is used. BERTH_CONFIG, naming the key,
// if inputs are not made as BERT's.
enum berth_status folder_input_rules(const char *folder, const struct vocabulary_file *file,
                                     struct input_rules *rules, struct berth_error *error);
// The special tokens that the folder's settings name; "": they name none.
#define FOLDER_TOKEN_SIZE 128
struct folder_names {
    char pad[FOLDER_TOKEN_SIZE], unknown[FOLDER_TOKEN_SIZE], mask[FOLDER_TOKEN_SIZE];
};
enum berth_status folder_token_names(const char *folder, struct folder_names *names,
                                     struct berth_error *error);
// The number of tokens that a key gives; 0: none, or one too large for any length, which means as
// many as the model takes.
int64_t folder_token_limit(const struct json_t *object, const char *key);
// Notes settings of the tokenizer that transformers obeys and this library does not: padding at the
// left, and a Python class of the folder's own.
enum berth_status folder_note_inputs(const char *folder, const struct vocabulary_file *file,
                                     const struct berth_log *log, struct berth_error *error);

#endif
