// SPDX-License-Identifier: Apache-2.0
// Tables of rules that rewrite tensor names. Rules are tried in order; each replaces the first
// match of its pattern, or all matches if it says EVERYWHERE. A pattern that begins with '^'
// matches at the start of a name, one that ends in '$' at its end. A rule without a replacement
// drops the tensor. A new dialect needs a table of rules and a struct name_dialect, and rows of the
// first table for the reverse direction.
#include "model/names.h"

#include "model/architectures.h"

#include <stdio.h>
#include <string.h>

enum { ONCE, EVERYWHERE, TRANSPOSED, STACKED, BUFFER };

struct name_rule {
    const char *pattern, *replacement;
    int kind;
};

// The replacements of '*' in the names of stacked tensors, in the order of the stack.
static const char *const parts[NAME_PARTS] = {"query", "key", "value"};

static const struct name_rule rules_to_ours[] = {
    // Google's TensorFlow checkpoints
    {"/adam_m$", NULL, ONCE}, // the optimizer's moments
    {"/adam_v$", NULL, ONCE}, //
    {"^global_step$", NULL, ONCE},
    {"^beta1_power$", NULL, ONCE}, // scalars of the optimizer
    {"^beta2_power$", NULL, ONCE}, //
    {"^loss_scale$", NULL, ONCE},  // of mixed precision
    {"^good_steps$", NULL, ONCE},  //
    {"_embeddings$", "_embeddings.weight", ONCE},
    {"^cls/squad/output_weights$", "qa_outputs.weight", ONCE},
    {"^cls/squad/output_bias$", "qa_outputs.bias", ONCE},
    {"^cls/predictions/output_bias$", "cls.predictions.bias", ONCE},
    {"^cls/seq_relationship/output_weights$", "cls.seq_relationship.weight", ONCE},
    {"^cls/seq_relationship/output_bias$", "cls.seq_relationship.bias", ONCE},
    {"^output_weights$", "classifier.weight", ONCE},
    {"^output_bias$", "classifier.bias", ONCE},
    {"/kernel$", "/weight", TRANSPOSED}, // [in, out]
    {"/layer_", "/layer/", ONCE},
    {"/", ".", EVERYWHERE},

    {"_orig_mod.", "", EVERYWHERE},                  // torch.compile
    {"_forward_module.", "", EVERYWHERE},            // Lightning's Fabric
    {"_fsdp_wrapped_module.", "", EVERYWHERE},       // torch's FSDP
    {"_checkpoint_wrapped_module.", "", EVERYWHERE}, // torch's activation checkpointing
    {"^optimizer.", NULL, ONCE},                     // of checkpoints: moments and copies
    {"^optimizer_state_dict.", NULL, ONCE},          //
    {"^master params.", NULL, ONCE},                 //
    {"^optimizer_states.", NULL, ONCE},              // of Lightning's checkpoints
    {"^callbacks.", NULL, ONCE},                     //
    {"^frozen_param_fragments.", NULL, ONCE}, // of DeepSpeed's: its copies of frozen parameters
    {"^berth.", NULL, ONCE},                  // Berth's own part of ckpt_N.pt
    {"^base_model.model.", "", ONCE},         // adapters of PEFT
    {"^model_state_dict.", "", ONCE},         // of checkpoints: the model
    {"^state_dict.", "", ONCE},               //
    {"^model.", "", ONCE},                    //
    {"^module.", "", EVERYWHERE},             // torch's DataParallel, DeepSpeed, or both
    {"^model.", "", ONCE},                    // training scripts that wrap the model
    {"^0.auto_model.", "", ONCE},             // the first module of sentence-transformers
    {"^0.model.", "", ONCE},                  // the same in its version 6
    {"embeddings.position_ids$", "embeddings.position_ids", BUFFER},
    {".gamma$", ".weight", ONCE},     // layer norms of TensorFlow, converted ones too
    {".beta$", ".bias", ONCE},        //
    {".dense_act.", ".dense.", ONCE}, // NVIDIA's and DeepSpeed's fused linear + GELU
    {".attn_qkvw$", ".attention.self.*.weight", STACKED}, // DeepSpeed's transformer kernel
    {".attn_qkvb$", ".attention.self.*.bias", STACKED},
    {".attn_ow$", ".attention.output.dense.weight", ONCE},
    {".attn_ob$", ".attention.output.dense.bias", ONCE},
    {".attn_nw$", ".attention.output.LayerNorm.weight", ONCE},
    {".attn_nb$", ".attention.output.LayerNorm.bias", ONCE},
    {".inter_w$", ".intermediate.dense.weight", ONCE},
    {".inter_b$", ".intermediate.dense.bias", ONCE},
    {".output_w$", ".output.dense.weight", ONCE},
    {".output_b$", ".output.dense.bias", ONCE},
    {".norm_w$", ".output.LayerNorm.weight", ONCE},
    {".norm_b$", ".output.LayerNorm.bias", ONCE},
    {"^embeddings.", "bert.embeddings.", ONCE},                 // a bare BertModel
    {"^encoder.", "bert.encoder.", ONCE},                       //
    {"^pooler.", "bert.pooler.", ONCE},                         //
    {"^embeddings_project.", "bert.embeddings_project.", ONCE}, // a bare ElectraModel
    {"^transformer.layer.", "bert.transformer.layer.", ONCE},   // a bare DistilBertModel
};

static const struct name_rule rules_to_tensorflow[] = {
    {"LayerNorm.weight$", "LayerNorm.gamma", ONCE},
    {"LayerNorm.bias$", "LayerNorm.beta", ONCE},
    {"_embeddings.weight$", "_embeddings", ONCE},
    {"^qa_outputs.weight$", "cls/squad/output_weights", ONCE},
    {"^qa_outputs.bias$", "cls/squad/output_bias", ONCE},
    {"^cls.predictions.bias$", "cls/predictions/output_bias", ONCE},
    {"^cls.seq_relationship.weight$", "cls/seq_relationship/output_weights", ONCE},
    {"^cls.seq_relationship.bias$", "cls/seq_relationship/output_bias", ONCE},
    {"^classifier.weight$", "output_weights", ONCE},
    {"^classifier.bias$", "output_bias", ONCE},
    {".weight$", ".kernel", TRANSPOSED},
    {".layer.", ".layer_", ONCE},
    {".", "/", EVERYWHERE},
};

static const struct name_rule rules_to_nvidia[] = {
    {".intermediate.dense.", ".intermediate.dense_act.", ONCE},
    {"^bert.pooler.dense.", "bert.pooler.dense_act.", ONCE},
    {"^cls.predictions.transform.dense.", "cls.predictions.transform.dense_act.", ONCE},
};

static const struct name_rule rules_to_kernel[] = {
    {".attention.self.query.weight$", ".attn_qkvw", STACKED},
    {".attention.self.key.weight$", ".attn_qkvw", STACKED},
    {".attention.self.value.weight$", ".attn_qkvw", STACKED},
    {".attention.self.query.bias$", ".attn_qkvb", STACKED},
    {".attention.self.key.bias$", ".attn_qkvb", STACKED},
    {".attention.self.value.bias$", ".attn_qkvb", STACKED},
    {".attention.output.dense.weight$", ".attn_ow", ONCE},
    {".attention.output.dense.bias$", ".attn_ob", ONCE},
    {".attention.output.LayerNorm.weight$", ".attn_nw", ONCE},
    {".attention.output.LayerNorm.bias$", ".attn_nb", ONCE},
    {".PostAttentionLayerNorm.weight$", ".attn_nw", ONCE},
    {".PostAttentionLayerNorm.bias$", ".attn_nb", ONCE},
    {".intermediate.dense.weight$", ".inter_w", ONCE},
    {".intermediate.dense.bias$", ".inter_b", ONCE},
    {".output.dense.weight$", ".output_w", ONCE},
    {".output.dense.bias$", ".output_b", ONCE},
    {".output.LayerNorm.weight$", ".norm_w", ONCE},
    {".output.LayerNorm.bias$", ".norm_b", ONCE},
    {".PreAttentionLayerNorm.weight$", ".norm_w", ONCE},
    {".PreAttentionLayerNorm.bias$", ".norm_b", ONCE},
    {"^bert.pooler.dense.", "bert.pooler.dense_act.", ONCE},
    {"^cls.predictions.transform.dense.", "cls.predictions.transform.dense_act.", ONCE},
};

// The kernel uses one pair of names for the layer norms of both kinds of layer.
static const struct name_rule rules_to_pre_norm[] = {
    {".attention.output.LayerNorm.", ".PostAttentionLayerNorm.", ONCE},
    {".output.LayerNorm.", ".PreAttentionLayerNorm.", ONCE},
};

#define ROW(rules) rules, sizeof rules / sizeof *rules
struct name_dialect {
    const struct name_rule *rules;
    size_t count;
};
static const struct name_dialect ours = {ROW(rules_to_ours)};
static const struct name_dialect pre_norm = {ROW(rules_to_pre_norm)};
const struct name_dialect names_tensorflow = {ROW(rules_to_tensorflow)};
const struct name_dialect names_nvidia = {ROW(rules_to_nvidia)};
const struct name_dialect names_kernel = {ROW(rules_to_kernel)};

// The position of the pattern in the name, and the length of its match; NULL if there is none.
static char *find_pattern(char *name, const char *pattern, size_t *length) {
    int at_start = pattern[0] == '^';
    const char *text = pattern + at_start;
    size_t name_length = strlen(name);
    *length = strlen(text);
    if (text[*length - 1] == '$') {
        --*length;
        char *end = name_length >= *length ? name + name_length - *length : NULL;
        return end != NULL && memcmp(end, text, *length) == 0 && (!at_start || end == name) ? end
                                                                                            : NULL;
    }
    if (at_start) {
        return strncmp(name, text, *length) == 0 ? name : NULL;
    }
    return strstr(name, text);
}

// Replaces `length` characters at `match` in name[size]; 0 if the result does not fit.
static int replace(char *name, size_t size, char *match, size_t length, const char *replacement) {
    size_t inserted = strlen(replacement), rest = strlen(match + length) + 1;
    if ((size_t)(match - name) + inserted + rest > size) {
        return 0;
    }
    memmove(match + inserted, match + length, rest);
    memcpy(match, replacement, inserted);
    return 1;
}

// Applies one rule; 0 if the name becomes too long.
static int apply(const struct name_rule *rule, char *name, size_t size, enum name_use *use) {
    size_t length;
    static const enum name_use uses[] = {
        [TRANSPOSED] = NAME_TRANSPOSED, [STACKED] = NAME_STACKED, [BUFFER] = NAME_BUFFER};
    char *match = find_pattern(name, rule->pattern, &length);
    if (match != NULL && rule->kind >= TRANSPOSED) {
        *use = uses[rule->kind];
    }
    while (match != NULL) {
        if (rule->replacement == NULL) {
            *use = NAME_DROPPED;
            return 1;
        }
        if (!replace(name, size, match, length, rule->replacement)) {
            return 0;
        }
        match = rule->kind == EVERYWHERE ? find_pattern(name, rule->pattern, &length) : NULL;
    }
    return 1;
}

static enum name_use rewrite(const struct name_dialect *dialect, const char *from, char *name,
                             size_t size) {
    enum name_use use = NAME_KEPT;
    size_t length = strlen(from);
    name[0] = '\0';
    if (length >= size) {
        return NAME_KEPT;
    }
    memcpy(name, from, length + 1);
    for (size_t i = 0; i < dialect->count && use != NAME_DROPPED; i++) {
        if (!apply(&dialect->rules[i], name, size, &use)) {
            name[0] = '\0';
            break;
        }
    }
    return use;
}

// --- names of architectures ---------------------------------------------------------------------

// Replaces `from` at the start of the name, or, if it begins with '.', where it first occurs; 0 if
// the result does not fit.
static int replace_part(char *name, size_t size, const char *from, const char *to) {
    char *match = from[0] == '.'                           ? strstr(name, from)
                  : strncmp(name, from, strlen(from)) == 0 ? name
                                                           : NULL;
    return match == NULL || replace(name, size, match, strlen(from), to);
}

// The parts that the architectures rename are all different, so a name tells its own architecture.
static int from_architecture(const struct architecture *row, char *name, size_t size) {
    int fits = replace_part(name, size, row->prefix, "bert.");
    const struct architecture_pair *pair = row->tensors;
    for (; fits && pair != NULL && pair->ours != NULL; pair++) {
        fits = replace_part(name, size, pair->theirs, pair->ours);
    }
    return fits;
}

enum name_use name_translate(const char *theirs, char *name, size_t size) {
    const enum name_use use = rewrite(&ours, theirs, name, size);
    int fits = 1;
    for (size_t i = 0; fits && architecture_at(i) != NULL; i++) {
        fits = from_architecture(architecture_at(i), name, size);
    }
    if (!fits) {
        name[0] = '\0';
    }
    return use;
}

void name_for_architecture(const struct architecture *row, const char *our_name, char *name,
                           size_t size) {
    int fits = strlen(our_name) < size;
    const struct architecture_pair *pair = row->tensors;
    snprintf(name, size, "%s", our_name);
    for (; fits && pair != NULL && pair->ours != NULL; pair++) {
        fits = replace_part(name, size, pair->ours, pair->theirs);
    }
    if (!fits || !replace_part(name, size, "bert.", row->prefix)) {
        name[0] = '\0';
    }
}

// ------------------------------------------------------------------------------------------------

enum name_use name_for(const struct name_dialect *dialect, const char *our_name, char *name,
                       size_t size) {
    return rewrite(dialect, our_name, name, size);
}

void name_pre_norm(const char *our_name, char *name, size_t size) {
    rewrite(&pre_norm, our_name, name, size);
}

int name_part(const char *stacked, int part, char *name, size_t size) {
    const char *match = strchr(stacked, '*');
    size_t length = strlen(stacked);
    if (match == NULL || length >= size) {
        name[0] = '\0';
        return 0;
    }
    memcpy(name, stacked, length + 1);
    return replace(name, size, name + (match - stacked), 1, parts[part]);
}

int name_part_of(const char *our_name) {
    int part = NAME_PARTS - 1;
    while (part > 0 && strstr(our_name, parts[part]) == NULL) {
        part--;
    }
    return part;
}
