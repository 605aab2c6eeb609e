// SPDX-License-Identifier: Apache-2.0
// The table of targets of a conversion: what each format can hold, and the function that writes it.
// convert.c reads a model and goes through it; save_formats.c uses it for the result of training,
// and berth_save for an open model.
#ifndef BERTH_API_CONVERSION_H
#define BERTH_API_CONVERSION_H

#include "api/job.h"
#include "core/error.h"
#include "core/log.h"
#include "format/tensors/tensor.h"
#include "model/config.h"
#include "model/params.h"
#include "model/weights.h"

#include <stdatomic.h>
#include <stddef.h>

struct conversion;
struct architecture; // model/architectures.h

// One set of names for the tensors of a target.
struct convert_names {
    const char *name;                   // value of --names; NULL: the target has a single set
    const struct name_dialect *dialect; // NULL: Hugging Face's names
    int vocab_multiple; // pad the word table with zero rows to a multiple of this; 0: no padding
    int ties;           // number of weight_ties, from the first, whose copies readers also need
};
#define CONVERT_NAMES_MAX 3

struct convert_target {
    const char *name;
    const char *dtypes; // allowed values of `dtype`, separated by spaces; the first is the default
    int keeps_all_tensors; // writes every tensor, in its own type unless `dtype` is given. Berth
                           // can read such a folder again, so it also gets the modules of
                           // sentence-transformers
    int retypes;           // converts all numbers to the first of `dtypes`, if it keeps all tensors
    int holds_head;        // can hold qa_outputs, or a classifier with its pooler
    struct convert_names names[CONVERT_NAMES_MAX];
    int unties;         // writes tensors that share one block of numbers only once
    int google_config;  // its readers need bert_config.json
    const char *reader; // the program that reads it, if that does not support layer norms before
                        // the sub-layers; otherwise NULL
    int zero_stages;    // can hold the optimizer's state as --zero_stage says
    // Whether it can hold models of the architecture; NULL: of all.
    int (*takes)(const struct architecture *row);
    int trainer_groups; // its optimizer's groups are those of transformers' Trainer: biases and
                        // layer norms do not decay, and frozen parameters are in none
    // Writes the weights to conversion->folder.
    enum berth_status (*write)(const struct conversion *conversion, struct berth_error *error);
};

extern const struct convert_target convert_targets[];
extern const size_t convert_target_count;

// Checks a model with layer norms before its sub-layers, which the target's reader would compute
// wrongly: a warning if the target keeps all tensors, BERTH_CONFIG if it describes the computation.
enum berth_status convert_check_norms(const struct conversion *conversion,
                                      struct berth_error *error);

// BERTH_CONFIG for an architecture that the target does not take.
enum berth_status convert_check_architecture(const struct conversion *conversion,
                                             struct berth_error *error);

// Does the job convert: converts the model "input", a folder or a file of weights inside one, and
// writes the new folder "output", which appears complete or not at all, with config.json and the
// tokenizer's files. Nothing is left behind after a failure.
enum berth_status convert_model(const struct job *job, struct berth_error *error);

// The path of the source's vocabulary. Newly allocated; NULL after an error.
enum berth_status conversion_vocabulary_path(const struct conversion *conversion, char **path,
                                             struct berth_error *error);

struct vocabulary;
struct vocabulary_file;
// Parses the file at `path`, and checks that it fits the model. Free with vocabulary_done.
enum berth_status conversion_parse_vocabulary(const struct conversion *conversion, const char *path,
                                              const struct vocabulary_file *file,
                                              struct vocabulary *vocabulary,
                                              struct berth_error *error);

struct conversion {
    const char *input;                    // the model: a folder or a file of weights
    const char *config_file, *vocab_file; // NULL: those beside the weights
    const char *folder;                   // folder to write to
    int zero_stage;                       // 0, 1 or 2: with the optimizer's state; -1: without it
    int64_t ranks;                        // whose ZeRO shards are written
    const struct convert_target *target;
    const struct convert_names *names; // one of the target's; set once the source is open
    int64_t step;
    struct berth_log log;
    const atomic_int *stop; // NULL: not stopped
    struct bert_config config;
    struct weights weights;
    enum param_head head;       // of the source
    struct param_table table;   // the parameters that the target holds; empty if it keeps all
                                // tensors
    int retypes;                // if it keeps all tensors: whether their numbers are converted to
                                // `matrices`
    enum tensor_dtype matrices; // otherwise: the type of the matrices
};

// Warns of numbers that become infinite in conversion->matrices, F16 or BF16.
void conversion_warn_of_range(const struct conversion *conversion, const char *name,
                              const float *numbers, size_t count);

// BERTH_INTERRUPTED if the conversion is to be stopped.
static inline enum berth_status conversion_check_stop(const struct conversion *conversion,
                                                      struct berth_error *error) {
    return conversion->stop != NULL && *conversion->stop != 0
               ? error_set(error, BERTH_INTERRUPTED, "interrupted; nothing was written")
               : BERTH_OK;
}

// All tensors of the source, in memory, with the target's names and layout.
struct outgoing {
    struct tensor_out *list; // sorted by name, no duplicates
    char (*names)[WEIGHT_NAME_SIZE];
    size_t count;
    char *data;
    size_t bytes;
};
enum berth_status outgoing_read(const struct conversion *conversion, struct outgoing *outgoing,
                                struct berth_error *error);
void outgoing_done(struct outgoing *outgoing);
// The type of a tensor in a target that keeps all tensors.
enum tensor_dtype outgoing_type(const struct conversion *conversion, const struct weight *weight);
// Whether the source's tensors are copied unchanged, including names: from safetensors to a target
// with the same names.
int outgoing_is_copy(const struct conversion *conversion);

enum berth_status convert_to_hf(const struct conversion *conversion, struct berth_error *error);
enum berth_status convert_to_int8(const struct conversion *conversion, struct berth_error *error);
enum berth_status convert_to_torch(const struct conversion *conversion, struct berth_error *error);
enum berth_status convert_to_tensorflow(const struct conversion *conversion,
                                        struct berth_error *error);
enum berth_status convert_to_nvidia(const struct conversion *conversion, struct berth_error *error);
enum berth_status convert_to_deepspeed(const struct conversion *conversion,
                                       struct berth_error *error);
enum berth_status convert_to_trainer(const struct conversion *conversion,
                                     struct berth_error *error);

#endif
