// SPDX-License-Identifier: Apache-2.0
// Reads models, batches and gradients from the files of tests/golden (its README.md lists their
// tensors), and from the larger ones of the same form that dev/goldens makes from real data.
#ifndef BERTH_TESTS_MODEL_GOLDEN_H
#define BERTH_TESTS_MODEL_GOLDEN_H

#include "golden/golden_file.h"
#include "reference.h"

struct golden {
    struct safetensors file;
    struct bert_config config;
};

// Opens a file; the config is the metadata's. Anything wrong fails the test.
void golden_open(struct golden *golden, const char *path);
void golden_close(struct golden *golden);

// The packed batch whose tensors end in `suffix` as sequences; free with golden_sequences_free.
struct golden_sequences {
    int64_t count, tokens, longest;
    struct reference_sequence *sequences;
    int32_t *ids, *type_ids, *cu_seqlens, *starts, *ends; // labels; NULL if the file has none
    int32_t *labels;                                      // so are these
    float *targets, *label_targets;
    int32_t *masked_counts, *masked_positions, *masked_labels; // of the pre-training head
    int64_t masked_count;
};
void golden_sequences_read(const struct golden *golden, const char *suffix,
                           struct golden_sequences *sequences);
void golden_sequences_free(struct golden_sequences *sequences);

// All parameters with the table's layout: from the golden file, or if it lacks one, from `model` (a
// model.safetensors; may be NULL), whose names may omit "bert.".
float *golden_parameters(const struct golden *golden, const struct param_table *table,
                         const struct safetensors *model);
// All tensors PREFIX<parameter> in the table's layout.
float *golden_layout(const struct golden *golden, const struct param_table *table,
                     const char *prefix);

#endif
