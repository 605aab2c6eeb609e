// SPDX-License-Identifier: Apache-2.0
// Reads a model for a job: shape, tokenizer, weights. This is where files of a model folder
// (src/model) and the settings of a job meet; training, prediction, tasks and the jobs of the API
// all open their model here.
#ifndef BERTH_TRAIN_INPUTS_H
#define BERTH_TRAIN_INPUTS_H

#include "core/error.h"
#include "core/log.h"
#include "format/checksum/digest.h"
#include "model/config.h"
#include "model/params.h"
#include "model/sentence.h"
#include "model/vocabulary_file.h"
#include "settings/model.h"
#include "text/tokenizer.h"
#include "train/optimizer/state.h"

#include <stddef.h>

// --- the model ----------------------------------------------------------------------------------

struct model_files {
    struct bert_config shape;
    struct param_table table;
    struct tokenizer *tokenizer; // NULL: pre-training without a vocabulary
    char *vocab_path;            // NULL: likewise
    struct text_rules rules;     // rules with which the tokenizer was opened
    int64_t max_length;          // tokens of a text, as the tokenizer's settings say; 0: nothing
    int64_t length;              // most tokens of a sequence: the setting, resolved by the job
    int strict;                  // the weights must be exactly the model's tensors
    int only_planned;            // set before opening: the weights may be missing, with a warning
    struct sentence sentence;    // of a model of embeddings; else not found
};

// The folder of the tokenizer's files: config->vocab_file if that is a folder, else `folder`, the
// model's.
const char *inputs_tokenizer_folder(const struct model_settings *settings, const char *folder);

// Makes the activation of `shape` the form that config->gelu names, if it is "gelu".
enum berth_status inputs_settle_gelu(const struct model_settings *settings,
                                     struct bert_config *shape, struct berth_error *error);

// What a model's folder must hold, for messages.
#define MODEL_EXPECTED                                                                             \
    "a model folder: config.json or bert_config.json, vocab.txt or tokenizer.json, and the "       \
    "weights as model.safetensors, pytorch_model.bin, or a checkpoint of TensorFlow, NVIDIA or "   \
    "DeepSpeed"

// Reads config.json and the vocabulary of `folder` (config->vocab_file, do_lower_case,
// strip_accents and tokenize_chinese_chars take precedence). Checks that vocabulary and model fit.
// For the pre-training head the vocabulary may be missing. The caller must then
// set the length, within model_files_limits.
enum berth_status model_files_open(struct model_files *files, struct model_settings *settings,
                                   const char *folder, enum param_head head,
                                   const struct berth_log *log, struct berth_error *error);
// The same for a new model: its shape is config->config_file, a file or the name of a built-in
// shape, its vocabulary config->vocab_file or the one next to config_file. vocab_multiple rounds
// the vocabulary up.
enum berth_status model_files_open_new(struct model_files *files, struct model_settings *settings,
                                       enum param_head head, const struct berth_log *log,
                                       struct berth_error *error);
void model_files_done(struct model_files *files);

// Whether token types let the model distinguish the second text of a pair from the first.
int model_files_distinguish_pairs(const struct model_files *files);

// Overrides keys of the model's config.json (id2label, ...), and rebuilds the table.
enum berth_status model_files_merge(struct model_files *files, const struct json_t *object,
                                    struct berth_error *error);

// Reads the weights of `folder` into the state; missing head tensors are initialised from the seed.
// Logs which tensors were missing and which were left out.
enum berth_status model_files_load(const struct model_files *files, const char *folder,
                                   uint64_t seed, const struct berth_log *log, struct state *state,
                                   struct berth_error *error);

// BERTH_CONFIG, naming the tensors and the command that trains them, if the weights of `folder`
// lack some of the head, unless the caller allows a new one or tries a job without weights
// (dry_run).
enum berth_status model_files_require_head(const struct model_files *files,
                                           const struct model_settings *settings,
                                           const char *folder, struct berth_error *error);

// Initialises the weights of a new model from the seed.
enum berth_status model_files_initialise(const struct model_files *files, uint64_t seed,
                                         struct state *state, struct berth_error *error);

// Opens the vocabulary at files->vocab_path (NULL: config->vocab_file, or else that of `folder`)
// and sets the tokenizer and files->rules. Settings take precedence over the rules of `folder`
// (NULL: the rules in the vocabulary's file, or the usual ones).
enum berth_status model_files_open_tokenizer(struct model_files *files,
                                             const struct model_settings *settings,
                                             const char *folder, struct berth_error *error);

// The SHA-256 of the vocabulary's words, a line for each, whatever the form of its file. Words that
// a folder adds to those of its vocabulary do not count: they change no other's id.
enum berth_status inputs_digest_vocabulary(const struct tokenizer *tokenizer,
                                           char digest[DIGEST_HEX_SIZE], struct berth_error *error);

// BERTH_CONFIG, naming both files, if `folder` has a vocabulary with other words than that of
// `files`.
enum berth_status model_files_check_vocabulary(const struct model_files *files, const char *folder,
                                               struct berth_error *error);

// Sets do_lower_case, unless the user did, if the folder's sentence-transformers settings
// lower-case texts, whatever the tokenizer's files say. sentence-transformers does that before the
// tokenizer, which then keeps accents if it is cased, so strip_accents is set accordingly.
enum berth_status inputs_follow_sentence(struct model_settings *settings, const char *folder,
                                         struct berth_error *error);

// Warns if the tokenizer converts texts to lower case, but its vocabulary is cased.
void inputs_warn_of_casing(const struct tokenizer *tokenizer, const char *vocab_path,
                           const struct berth_log *log);

// Opens the tokenizer of config->vocab_file (vocab.txt, tokenizer.json or a folder), or of the
// folder config->model_name_or_path. It follows the rules of config->tokenizer; casing, accents and
// ideographs come from the settings, else from the folder's files. BERTH_USAGE if neither is given.
// Free with tokenizer_close.
enum berth_status inputs_find_tokenizer(const struct model_settings *settings,
                                        struct tokenizer **tokenizer, struct berth_error *error);

// The default of the length if the setting was not given by name and has its default value:
// `usual` (0: the option's default; LENGTH_OF_MODEL: as many tokens as the tokenizer's settings
// say, or the number of positions), but at most `positions`. A reduction is logged.
#define LENGTH_OF_MODEL INT64_MAX
struct length_limits {
    int64_t usual, positions;
    const char *source; // owner of the positions, for messages
};

// The limits of a model in the folder or file `source`. The length in its sentence settings
// replaces `usual`. Pre-training has no limits: it uses the length of its shards, which its task
// compares with the positions.
struct length_limits model_files_limits(const struct model_files *files, int64_t usual,
                                        const char *source);

#endif
