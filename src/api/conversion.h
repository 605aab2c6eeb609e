// SPDX-License-Identifier: Apache-2.0
// berth_convert's table of targets: what each format can hold and who writes it.
#ifndef BERTH_API_CONVERSION_H
#define BERTH_API_CONVERSION_H

#include "core/error.h"
#include "core/log.h"
#include "format/tensor_file.h"
#include "model/config.h"
#include "model/params.h"

#include <stddef.h>

struct conversion;

struct convert_target {
    const char *name;
    const char *dtypes; // what `dtype` may say, separated by blanks; the first is the default.
                        // NULL: each tensor keeps its type, whatever it is
    int span_head;      // whether it can hold qa_outputs
    // Writes the weights into conversion->folder.
    enum berth_status (*write)(const struct conversion *conversion, struct berth_error *error);
};

extern const struct convert_target convert_targets[];
extern const size_t convert_target_count;

struct conversion {
    const char *input;  // folder of the model
    const char *folder; // to write into
    const struct convert_target *target;
    struct berth_log log;
    struct bert_config config;
    struct tensor_file weights;
    struct param_table table;   // what the target holds; empty when it keeps all tensors
    enum tensor_dtype matrices; // of the target's matrices, unless it keeps the tensors' types
};

// hf: model.safetensors.
enum berth_status convert_to_hf(const struct conversion *conversion, struct berth_error *error);

#endif
