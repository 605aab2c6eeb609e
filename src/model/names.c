// SPDX-License-Identifier: Apache-2.0
// Tables of rewriting rules, tried from the first to the last, once each but where a rule says
// everywhere. A pattern that begins with '^' matches at the start of a name, one that ends in '$'
// at its end; where it stood, the replacement stands afterwards. A rule without a replacement drops
// the tensor.
#include "model/names.h"

#include <string.h>

enum { ONCE, EVERYWHERE, TRANSPOSED };

struct name_rule {
    const char *pattern, *replacement;
    int kind;
};

static const struct name_rule rules_to_ours[] = {
    // Google's TensorFlow checkpoints
    {"/adam_m$", NULL, ONCE}, // the optimizer's moments
    {"/adam_v$", NULL, ONCE}, //
    {"^global_step$", NULL, ONCE},
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

    {"^optimizer.", NULL, ONCE},                // of checkpoints: moments and copies
    {"^optimizer_state_dict.", NULL, ONCE},     //
    {"^master params.", NULL, ONCE},            //
    {"^model_state_dict.", "", ONCE},           // of checkpoints: the model
    {"^state_dict.", "", ONCE},                 //
    {"^model.", "", ONCE},                      //
    {"^module.", "", ONCE},                     // torch's DataParallel, DeepSpeed
    {"^model.", "", ONCE},                      // training scripts that wrap the model
    {"embeddings.position_ids$", NULL, ONCE},   // 0, 1, 2, ...: an old buffer of transformers
    {".gamma$", ".weight", ONCE},               // layer norms of TensorFlow, converted ones too
    {".beta$", ".bias", ONCE},                  //
    {".dense_act.", ".dense.", ONCE},           // NVIDIA's and DeepSpeed's fused linear + GELU
    {"^embeddings.", "bert.embeddings.", ONCE}, // a bare BertModel
    {"^encoder.", "bert.encoder.", ONCE},       //
    {"^pooler.", "bert.pooler.", ONCE},         //
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

// Where the pattern stands in the name, and the length of its text; NULL when it does not.
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

// name[size] with `length` characters at `place` replaced; 0 when that does not fit.
static int replace(char *name, size_t size, char *place, size_t length, const char *replacement) {
    size_t inserted = strlen(replacement), rest = strlen(place + length) + 1;
    if ((size_t)(place - name) + inserted + rest > size) {
        return 0;
    }
    memmove(place + inserted, place + length, rest);
    memcpy(place, replacement, inserted);
    return 1;
}

// Applies one rule; 0 when the name becomes too long.
static int apply(const struct name_rule *rule, char *name, size_t size, enum name_use *use) {
    size_t length;
    char *place = find_pattern(name, rule->pattern, &length);
    if (place != NULL && rule->kind == TRANSPOSED) {
        *use = NAME_TRANSPOSED;
    }
    while (place != NULL) {
        if (rule->replacement == NULL) {
            *use = NAME_DROPPED;
            return 1;
        }
        if (!replace(name, size, place, length, rule->replacement)) {
            return 0;
        }
        place = rule->kind == EVERYWHERE ? find_pattern(name, rule->pattern, &length) : NULL;
    }
    return 1;
}

static enum name_use rewrite(const struct name_rule *rules, size_t count, const char *from,
                             char *name, size_t size) {
    enum name_use use = NAME_KEPT;
    size_t length = strlen(from);
    name[0] = '\0';
    if (length >= size) {
        return NAME_KEPT;
    }
    memcpy(name, from, length + 1);
    for (size_t i = 0; i < count && use != NAME_DROPPED; i++) {
        if (!apply(&rules[i], name, size, &use)) {
            name[0] = '\0';
            break;
        }
    }
    return use;
}

enum name_use name_translate(const char *theirs, char *name, size_t size) {
    return rewrite(rules_to_ours, sizeof rules_to_ours / sizeof *rules_to_ours, theirs, name, size);
}

enum name_use name_for_tensorflow(const char *ours, char *name, size_t size) {
    return rewrite(rules_to_tensorflow, sizeof rules_to_tensorflow / sizeof *rules_to_tensorflow,
                   ours, name, size);
}
