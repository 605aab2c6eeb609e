// SPDX-License-Identifier: Apache-2.0
// One table of rewriting rules, tried once each from the first to the last. A pattern that begins
// with '^' matches at the start of a name, one that ends in '$' at its end; where it stood, the
// replacement stands afterwards. A rule without a replacement drops the tensor.
#include "model/names.h"

#include <string.h>

static const struct name_rule {
    const char *pattern, *replacement;
} rules[] = {
    {"^module.", ""},                     // torch's DataParallel
    {"^model.", ""},                      // training scripts that wrap the model
    {"embeddings.position_ids$", NULL},   // 0, 1, 2, ...: an old buffer of transformers
    {".gamma$", ".weight"},               // layer norms of checkpoints converted from TensorFlow
    {".beta$", ".bias"},                  //
    {".dense_act.", ".dense."},           // NVIDIA's and DeepSpeed's fused linear + GELU
    {"^embeddings.", "bert.embeddings."}, // a bare BertModel
    {"^encoder.", "bert.encoder."},       //
    {"^pooler.", "bert.pooler."},         //
};

// Where the pattern stands in the name, and the length of its text; NULL when it does not.
static const char *find_pattern(const char *name, const char *pattern, size_t *length) {
    int at_start = pattern[0] == '^';
    const char *text = pattern + at_start;
    size_t name_length = strlen(name);
    *length = strlen(text);
    if (text[*length - 1] == '$') {
        --*length;
        const char *end = name_length >= *length ? name + name_length - *length : NULL;
        return end != NULL && memcmp(end, text, *length) == 0 ? end : NULL;
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

int name_translate(const char *theirs, char *name, size_t size) {
    size_t length = strlen(theirs);
    name[0] = '\0';
    if (length >= size) {
        return 1;
    }
    memcpy(name, theirs, length + 1);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const char *place = find_pattern(name, rules[i].pattern, &length);
        if (place == NULL) {
            continue;
        }
        if (rules[i].replacement == NULL) {
            return 0;
        }
        if (!replace(name, size, name + (place - name), length, rules[i].replacement)) {
            name[0] = '\0';
            return 1;
        }
    }
    return 1;
}
