// SPDX-License-Identifier: Apache-2.0
// berth_convert's table of targets: what each format can hold and who writes it.
#ifndef BERTH_API_CONVERSION_H
#define BERTH_API_CONVERSION_H

#include "berth.h"
#include "core/error.h"
#include "core/log.h"
#include "format/tensors/tensor.h"
#include "model/config.h"
#include "model/params.h"
#include "model/weights.h"

#include <stddef.h>

struct conversion;

// Names that the tensors of a target may have.
struct convert_names {
    const char *name;                   // as --names has it; NULL: no names
    const struct name_dialect *dialect; // NULL: Hugging Face's
    int vocab_multiple; // the word table's rows are padded with zeros to a multiple of this; 0: not
    int ties;           // of the first so many weight_ties the readers want the copies, too
};
#define CONVERT_NAMES_MAX 3

struct convert_target {
    const char *name;
    const char *dtypes; // what `dtype` may say, separated by blanks; the first is the default
    int keeps;          // holds every tensor, without `dtype` in its type, whatever that is
    int holds_head;     // whether it can hold qa_outputs, or pooler and classifier
    struct convert_names names[CONVERT_NAMES_MAX];
    int unties;         // whether tensors that are one block of numbers are written once
    int has_modules;    // whether sentence-transformers reads it: its files are copied along
    int google_config;  // whether its readers ask for bert_config.json
    const char *reader; // of it, who lacks layer norms before the sub-layers; NULL: none lacks them
    // Writes the weights into conversion->folder.
    enum berth_status (*write)(const struct conversion *conversion, struct berth_error *error);
};

extern const struct convert_target convert_targets[];
extern const size_t convert_target_count;

// A model with layer norms before its sub-layers goes with a warning to a target that keeps its
// tensors but whose reader would compute nonsense, and not at all (BERTH_CONFIG) to one that says
// how to compute.
enum berth_status convert_check_norms(const struct conversion *conversion,
                                      struct berth_error *error);

struct conversion {
    const char *input;  // the model: a folder or a file of weights
    const char *folder; // to write into
    const struct convert_target *target;
    const struct convert_names *names; // of the target's; known when the source is open
    int64_t step;
    struct berth_log log;
    struct bert_config config;
    struct weights weights;
    struct param_table table;   // what the target holds; empty when it keeps all tensors
    int retypes;                // of such a target: whether its numbers become `matrices`
    enum tensor_dtype matrices; // type of the matrices of other targets
};

// All tensors of the source, in memory, under the target's names and in its layout.
struct outgoing {
    struct tensor_out *list; // sorted by name, all distinct
    char (*names)[WEIGHT_NAME_SIZE];
    size_t count;
    char *data;
    size_t bytes;
};
enum berth_status outgoing_read(const struct conversion *conversion, struct outgoing *outgoing,
                                struct berth_error *error);
void outgoing_done(struct outgoing *outgoing);
// The type of a tensor in a target that keeps all of them.
enum tensor_dtype outgoing_type(const struct conversion *conversion, const struct weight *weight);
// Whether the source's tensors go out as they stand, names and all: from safetensors to a target
// with the same names.
int outgoing_is_copy(const struct conversion *conversion);

enum berth_status convert_to_hf(const struct conversion *conversion, struct berth_error *error);
enum berth_status convert_to_torch(const struct conversion *conversion, struct berth_error *error);
enum berth_status convert_to_tensorflow(const struct conversion *conversion,
                                        struct berth_error *error);
enum berth_status convert_to_nvidia(const struct conversion *conversion, struct berth_error *error);
enum berth_status convert_to_deepspeed(const struct conversion *conversion,
                                       struct berth_error *error);

#endif
