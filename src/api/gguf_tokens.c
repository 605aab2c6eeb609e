// SPDX-License-Identifier: Apache-2.0
// Finds which tokenizer of llama.cpp works like that of a model, for the target gguf of
// convert_targets.c. Which components of a tokenizer.json make up a tokenizer of llama.cpp is a
// table for each of its tokenizers, in the order in which they must work; one that is not in a
// table is refused by its component.
#include "api/gguf_tokens.h"

#include "api/conversion.h"
#include "core/base64.h"
#include "core/memory.h"
#include "core/utf8.h"
#include "format/json/json.h"
#include "model/folder.h"
#include "text/text_pipeline.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

#include <stdio.h>
#include <string.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))
#define MARK "\xE2\x96\x81" // U+2581, which stands for a blank

// --- word pieces --------------------------------------------------------------------------------

enum berth_status gguf_tokens_of_pieces(const struct vocabulary *vocabulary,
                                        struct gguf_tokens *tokens, struct berth_error *error) {
    struct export_gguf_tokens *to = &tokens->tokens;
    const struct {
        const char *text;
        int32_t *id;
    } specials[] = {{"[PAD]", &to->pad},
                    {"[UNK]", &to->unknown},
                    {"[CLS]", &to->cls},
                    {"[SEP]", &to->sep},
                    {"[MASK]", &to->mask}};
    const size_t count = vocabulary->count;
    tokens->texts = memory_array(count, sizeof *tokens->texts);
    tokens->types = memory_array(count, sizeof *tokens->types);
    if (tokens->texts == NULL || tokens->types == NULL) {
        return error_no_memory(error, count * sizeof *tokens->texts, "the tokens");
    }
    for (size_t i = 0; i < count; i++) {
        tokens->texts[i] = vocabulary->text + vocabulary->starts[i];
        tokens->types[i] = GGUF_TOKEN_NORMAL;
    }
    for (size_t i = 0; i < LENGTH(specials); i++) {
        const char *text = specials[i].text;
        *specials[i].id = vocabulary_find(vocabulary, text, strlen(text));
        if (*specials[i].id >= 0) {
            tokens->types[*specials[i].id] = GGUF_TOKEN_CONTROL;
        }
    }
    to->kind = GGUF_WORD_PIECES;
    to->texts = tokens->texts;
    to->types = tokens->types;
    to->count = count;
    return BERTH_OK;
}

// --- components ---------------------------------------------------------------------------------

struct reading {
    const struct conversion *conversion;
    const char *path; // of the tokenizer.json
    const json *model;
    const struct kind *kind;
    struct gguf_tokens *tokens;
    size_t next; // the row of the kind's parts that may follow
    // What is done with white space.
    int splits_at_blanks, collapses, strips_end, has_map;
};

// Takes what the component says; 0: llama.cpp's tokenizer does not do that.
typedef int take_part(struct reading *reading, const json *component);

static int is_on(const json *component, const char *key, int usual) {
    const json *value = json_member(component, key);
    return value != NULL && !json_is_null_value(value) ? json_truth(value) : usual;
}

static int has_text(const json *object, const char *key, const char *text) {
    const char *found = json_text(json_member(object, key));
    return found != NULL && strcmp(found, text) == 0;
}

static int take_bytes(struct reading *reading, const json *component) {
    (void)reading;
    return !is_on(component, "add_prefix_space", 1) && is_on(component, "use_regex", 1);
}

static int take_map(struct reading *reading, const json *component) {
    const char *text = json_text(json_member(component, "precompiled_charsmap"));
    reading->has_map = 1;
    return text != NULL && base64_read(&reading->tokens->charsmap, text, strlen(text));
}

// A text in the normal form stays as it is.
static int take_form(struct reading *reading, const json *component) {
    log_warning(&reading->conversion->log,
                "%s: llama.cpp's tokenizer does not normalize a text to %s: give it texts in this "
                "form",
                reading->path, json_text(json_member(component, "type")));
    return 1;
}

static int take_strip(struct reading *reading, const json *component) {
    reading->strips_end = is_on(component, "strip_right", 0);
    return 1;
}

static int take_collapse(struct reading *reading, const json *component) {
    reading->collapses = 1;
    return has_text(json_member(component, "pattern"), "Regex", " {2,}") &&
           (has_text(component, "content", " ") || has_text(component, "content", MARK));
}

static int take_split(struct reading *reading, const json *component) {
    (void)component;
    reading->splits_at_blanks = 1;
    return 1;
}

// llama.cpp puts a blank before the text wherever it merges several.
static int take_marks(struct reading *reading, const json *component) {
    struct export_gguf_tokens *to = &reading->tokens->tokens;
    to->adds_blank =
        is_on(component, "add_prefix_space", 1) && !has_text(component, "prepend_scheme", "never");
    to->merges_blanks = reading->splits_at_blanks || reading->collapses;
    return has_text(component, "replacement", MARK) && (to->adds_blank || !to->merges_blanks);
}

static const struct part {
    const char *place, *type;
    take_part *take;
} byte_pair_parts[] = {{"pre_tokenizer", "ByteLevel", take_bytes}},
  unigram_parts[] = {
      {"normalizer", "NFC", take_form},          {"normalizer", "NFKC", take_form},
      {"normalizer", "Precompiled", take_map},   {"normalizer", "Strip", take_strip},
      {"normalizer", "Replace", take_collapse},  {"pre_tokenizer", "WhitespaceSplit", take_split},
      {"pre_tokenizer", "Metaspace", take_marks}};

static enum berth_status read_byte_pairs(struct reading *reading, struct berth_error *error);
static enum berth_status read_unigram(struct reading *reading, struct berth_error *error);

// The last part is required.
static const struct kind {
    const char *model; // of tokenizer.json
    enum gguf_tokenizer kind;
    const struct part *parts;
    size_t part_count;
    const char *expected; // of its parts
    enum berth_status (*read)(struct reading *reading, struct berth_error *error);
} kinds[] = {
    {"BPE", GGUF_BYTE_PAIRS, byte_pair_parts, LENGTH(byte_pair_parts),
     "no normalizer, and ByteLevel with add_prefix_space false and use_regex true",
     read_byte_pairs},
    {"Unigram", GGUF_UNIGRAM, unigram_parts, LENGTH(unigram_parts),
     "perhaps NFC, NFKC, Precompiled, Strip, Replace of \" {2,}\" and WhitespaceSplit, and then "
     "Metaspace with U+2581, which puts one before a text if several blanks become one",
     read_unigram},
};

static enum berth_status refuse_part(const struct reading *reading, const char *place,
                                     const char *found, struct berth_error *error) {
    return error_set(error, BERTH_CONFIG,
                     "%s: key \"%s\": found %.*s; llama.cpp's tokenizer of a model %s has %s: "
                     "convert the model to onnx or hf",
                     reading->path, place, UTF8_SHOWN(found, 60), reading->kind->model,
                     reading->kind->expected);
}

// A sequence may hold others.
static enum berth_status take_components(struct reading *reading, const char *place,
                                         const char *list, const json *value,
                                         struct berth_error *error) {
    if (value == NULL || json_is_null_value(value)) {
        return BERTH_OK;
    }
    if (!has_text(value, "type", "Sequence")) {
        const char *type = json_text(json_member(value, "type"));
        type = type != NULL ? type : "none";
        for (size_t i = reading->next; i < reading->kind->part_count; i++) {
            const struct part *part = &reading->kind->parts[i];
            if (strcmp(part->place, place) == 0 && strcmp(part->type, type) == 0) {
                reading->next = i + 1;
                return part->take(reading, value) ? BERTH_OK
                                                  : refuse_part(reading, place, type, error);
            }
        }
        return refuse_part(reading, place, type, error);
    }
    for (size_t i = 0; i < json_length(json_member(value, list)); i++) {
        TRY(take_components(reading, place, list, json_at(json_member(value, list), i), error));
    }
    return BERTH_OK;
}

static enum berth_status refuse_flag(const struct reading *reading, const char *key,
                                     struct berth_error *error) {
    return is_on(reading->model, key, 0)
               ? error_set(error, BERTH_CONFIG,
                           "%s: key \"model.%s\": found true, which llama.cpp's tokenizer does not "
                           "have: convert the model to onnx or hf",
                           reading->path, key)
               : BERTH_OK;
}

// --- byte pairs ---------------------------------------------------------------------------------

static int is_merge(const json *merge) {
    return !json_is_text(merge) || strncmp(json_text(merge), "#version", 8) != 0;
}

static enum berth_status read_merges(struct reading *reading, const json *list,
                                     struct berth_error *error) {
    struct gguf_tokens *tokens = reading->tokens;
    const size_t capacity = json_length(list);
    tokens->merges = memory_array(capacity, sizeof *tokens->merges);
    for (size_t i = 0; i < capacity; i++) {
        if (is_merge(json_at(list, i))) {
            struct buffer *texts = &tokens->merge_texts;
            const json *merge = json_at(list, i);
            if (json_is_text(merge)) {
                buffer_put_text(texts, json_text(merge));
            } else { // the tokenizer was opened: both are words
                buffer_print(texts, "%s %s", json_text(json_at(merge, 0)),
                             json_text(json_at(merge, 1)));
            }
            buffer_put_byte(texts, '\0');
        }
    }
    if (tokens->merges == NULL || tokens->merge_texts.failed) {
        return error_no_memory(error, capacity * sizeof *tokens->merges, "the merges");
    }
    size_t count = 0;
    for (size_t at = 0; at < tokens->merge_texts.length; count++) {
        tokens->merges[count] = tokens->merge_texts.bytes + at;
        at += strlen(tokens->merges[count]) + 1;
    }
    tokens->tokens.merges = tokens->merges;
    tokens->tokens.merge_count = count;
    return BERTH_OK;
}

// The tokenizer was opened: beside ByteLevel, pieces have no prefix and no suffix.
static enum berth_status read_byte_pairs(struct reading *reading, struct berth_error *error) {
    TRY(refuse_flag(reading, "ignore_merges", error));
    return read_merges(reading, json_member(reading->model, "merges"), error);
}

// --- unigram ------------------------------------------------------------------------------------

static enum berth_status read_unigram(struct reading *reading, struct berth_error *error) {
    struct gguf_tokens *tokens = reading->tokens;
    const json *list = json_member(reading->model, "vocab");
    const size_t count = tokens->tokens.count;
    TRY(refuse_flag(reading, "byte_fallback", error));
    tokens->scores = memory_array_zeroed(count, sizeof *tokens->scores);
    if (tokens->scores == NULL || tokens->charsmap.failed) {
        return error_no_memory(error, count * sizeof *tokens->scores, "the scores of tokens");
    }
    for (size_t i = 0; i < json_length(list) && i < count; i++) {
        tokens->scores[i] = (float)json_as_real(json_at(json_at(list, i), 1));
    }
    tokens->tokens.scores = tokens->scores;
    tokens->tokens.charsmap = tokens->charsmap.bytes;
    tokens->tokens.charsmap_length = tokens->charsmap.length;
    if (tokens->tokens.unknown >= 0) {
        tokens->types[tokens->tokens.unknown] = GGUF_TOKEN_UNKNOWN;
    }
    const int is_same = (reading->splits_at_blanks && reading->has_map) ||
                        (reading->collapses && reading->strips_end) ||
                        !reading->tokens->tokens.adds_blank;
    if (!is_same) {
        log_warning(&reading->conversion->log,
                    "%s: llama.cpp's tokenizer differs from this one where a text has other white "
                    "space than single blanks between words",
                    reading->path);
    }
    return BERTH_OK;
}

// --- any tokenizer.json -------------------------------------------------------------------------

static enum berth_status open_tokenizer(struct reading *reading, const json *object,
                                        struct berth_error *error) {
    const struct conversion *conversion = reading->conversion;
    const struct tokenizer_options options = {.split_special = 0};
    struct folder_names found = {.pad = ""};
    if (conversion->vocab_file == NULL) {
        TRY(folder_token_names(conversion->input, &found, error));
    }
    const struct tokenizer_names names = {.pad = found.pad[0] != '\0' ? found.pad : NULL,
                                          .unknown =
                                              found.unknown[0] != '\0' ? found.unknown : NULL,
                                          .mask = found.mask[0] != '\0' ? found.mask : NULL};
    return tokenizer_open_pipeline(reading->path, object, &names, &options,
                                   &reading->tokens->tokenizer, error);
}

static enum berth_status list_tokens(struct gguf_tokens *tokens, const json *object,
                                     struct berth_error *error) {
    const struct tokenizer_special ids = tokenizer_special_ids(tokens->tokenizer);
    struct export_gguf_tokens *to = &tokens->tokens;
    const size_t count = tokenizer_size(tokens->tokenizer);
    tokens->texts = memory_array(count, sizeof *tokens->texts);
    tokens->types = memory_array(count, sizeof *tokens->types);
    if (tokens->texts == NULL || tokens->types == NULL) {
        return error_no_memory(error, count * sizeof *tokens->texts, "the tokens");
    }
    for (size_t i = 0; i < count; i++) {
        tokens->texts[i] = tokenizer_piece(tokens->tokenizer, (int32_t)i);
        tokens->types[i] = GGUF_TOKEN_NORMAL;
    }
    const json *list = json_member(object, "added_tokens");
    for (size_t i = 0; i < json_length(list); i++) {
        const json *added = json_at(list, i);
        tokens->types[json_as_integer(json_member(added, "id"))] =
            is_on(added, "special", 0) ? GGUF_TOKEN_CONTROL : GGUF_TOKEN_ADDED;
    }
    to->texts = tokens->texts;
    to->types = tokens->types;
    to->count = count;
    to->pad = ids.pad;
    to->unknown = ids.unknown;
    to->cls = ids.cls;
    to->sep = ids.sep;
    to->mask = ids.mask;
    return BERTH_OK;
}

static enum berth_status find_kind(struct reading *reading, struct berth_error *error) {
    const char *type = json_text(json_member(reading->model, "type"));
    for (size_t i = 0; i < LENGTH(kinds); i++) {
        if (type != NULL && strcmp(kinds[i].model, type) == 0) {
            reading->kind = &kinds[i];
            reading->tokens->tokens.kind = kinds[i].kind;
            return BERTH_OK;
        }
    }
    return error_set(error, BERTH_CONFIG,
                     "%s: key \"model\": expected BERT's tokenizer, BPE or Unigram, found %.*s: "
                     "llama.cpp has no such tokenizer; convert the model to onnx or hf",
                     reading->path, UTF8_SHOWN(type != NULL ? type : "none", 60));
}

enum berth_status gguf_tokens_of_pipeline(const struct conversion *conversion, const char *path,
                                          const json *object, struct gguf_tokens *tokens,
                                          struct berth_error *error) {
    struct reading reading = {.conversion = conversion,
                              .path = path,
                              .model = json_member(object, "model"),
                              .tokens = tokens};
    TRY(open_tokenizer(&reading, object, error));
    TRY(find_kind(&reading, error));
    TRY(list_tokens(tokens, object, error));
    const size_t count = reading.kind->part_count;
    TRY(take_components(&reading, "normalizer", "normalizers", json_member(object, "normalizer"),
                        error));
    TRY(take_components(&reading, "pre_tokenizer", "pretokenizers",
                        json_member(object, "pre_tokenizer"), error));
    if (reading.next != count) {
        return refuse_part(&reading, reading.kind->parts[count - 1].place, "another", error);
    }
    return reading.kind->read(&reading, error);
}

void gguf_tokens_done(struct gguf_tokens *tokens) {
    tokenizer_close(tokens->tokenizer);
    memory_free(tokens->texts);
    memory_free(tokens->types);
    memory_free(tokens->scores);
    memory_free(tokens->merges);
    buffer_done(&tokens->merge_texts);
    buffer_done(&tokens->charsmap);
    *tokens = (struct gguf_tokens){.texts = NULL};
}
