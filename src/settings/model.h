// SPDX-License-Identifier: Apache-2.0
// Which model is opened, and the rules of its tokenizer. Read by train/inputs and the jobs
// (dev/check_dependencies.py). Texts are borrowed from who sets them.
#ifndef BERTH_SETTINGS_MODEL_H
#define BERTH_SETTINGS_MODEL_H

#include <stdint.h>

struct model_settings {
    const char *model_name_or_path; /* model folder to start from */
    const char *vocab_file;         /* overrides the model's vocab.txt; or, except in
                                       berth_prepare, a folder, whose rules and added tokens then
                                       apply */
    /* config.json for weights that have none beside them, instead of the one beside them, or of a
     * new model, which starts from random weights; for this also "tiny", "minilm", "base", "large"
     */
    const char *config_file;
    int strict;                 /* the checkpoint must hold exactly the model's tensors */
    int pre_layer_norm;         /* -1: either; 0 or 1: a new model has it, another is refused */
    const char *gelu;           /* "erf" or "tanh": the form that "gelu" of config.json means */
    int64_t vocab_multiple;     /* round a new model's vocabulary size up to a multiple of this */
    const char *initializer;    /* "normal" or "truncated_normal": for a new model's weights */
    int allow_new_head;         /* inference: a head that the weights lack gets random values */
    double hidden_dropout_prob; /* NaN: the value in the model's config.json */
    double attention_probs_dropout_prob; /* NaN: the value in the model's config.json */
    int do_lower_case;                   /* -1: as the model's files say, else 1 */
    /* "true", "false" or "auto" (when text is lower-cased); NULL: as the model's files say */
    const char *strip_accents;
    int tokenize_chinese_chars; /* each ideograph is a word; -1: as the model's files say, else 1 */
    const char *tokenizer;      /* "huggingface" or "google" */
    int64_t max_word_length;    /* characters; 0: as the tokenizer's rules say, 100 or 200 */
    int split_special;          /* -1: as the tokenizer's rules say; 0: keep [CLS], ... whole */
    const char *pair_truncation; /* "huggingface" or "google": which text of a pair that is cut
                                    keeps the odd token; NULL: as the model's files say, else
                                    "huggingface" */
};

// The defaults: what the model's own files say.
void model_settings_init(struct model_settings *settings);

#endif
