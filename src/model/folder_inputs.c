// SPDX-License-Identifier: Apache-2.0
// What a folder's tokenizer makes of the tokens of texts: special tokens around them, their types,
// and what of a long text is kept. As in transformers 5.
#include "core/caseless.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/utf8.h"
#include "model/architectures.h"
#include "model/folder.h"
#include "model/folder_class.h"

#include <string.h>

// --- types --------------------------------------------------------------------------------------

static const char names_key[] = "model_input_names";

static int has_text(const json *list, const char *text) {
    for (size_t i = 0; i < json_length(list); i++) {
        const char *other = json_text(json_at(list, i));
        if (other != NULL && strcmp(other, text) == 0) {
            return 1;
        }
    }
    return 0;
}

enum berth_status folder_has_one_type(const char *folder, const json *settings, int *one_type,
                                      struct berth_error *error) {
    const json *names = json_member(settings, names_key);
    struct folder_class class;
    int has_whole;
    if (names != NULL && !json_is_null_value(names)) {
        *one_type = !has_text(names, "token_type_ids");
        return json_is_array_value(names)
                   ? BERTH_OK
                   : error_set(error, BERTH_CONFIG, SETTINGS_FILE ": key \"%s\": expected a list",
                               names_key);
    }
    TRY(folder_find_class(folder, settings, &class, error));
    TRY(folder_has_file(folder, TOKENIZER_FILE, &has_whole, error));
    // Google's folders, which name no class and have no tokenizer.json, are BERT's.
    *one_type = class.kind == CLASS_OF_BERT ? architecture_class_has_no_types(class.name)
                                            : class.name[0] != '\0' || has_whole;
    return BERTH_OK;
}

int folder_set_one_type(json *settings) {
    json *names = json_new_array();
    const int failed = json_append(names, json_new_text("input_ids")) |
                       json_append(names, json_new_text("attention_mask"));
    return json_set(settings, names_key, json_unless_failed(names, failed));
}

// --- special tokens -----------------------------------------------------------------------------

// Whether the token is `text` and its id that of the vocabulary.
static int is_token(const json *object, const json *name, const json *id, const char *text) {
    const json *own = json_member(json_member(json_member(object, "model"), "vocab"), text);
    const char *found = json_text(name);
    return found != NULL && strcmp(found, text) == 0 && json_is_integer_value(id) &&
           (own == NULL || json_as_integer(own) == json_as_integer(id));
}

static int is_bert_processing(const json *object, const json *processor) {
    const json *cls = json_member(processor, "cls"), *sep = json_member(processor, "sep");
    return is_token(object, json_at(cls, 0), json_at(cls, 1), "[CLS]") &&
           is_token(object, json_at(sep, 0), json_at(sep, 1), "[SEP]");
}

struct part {
    const char *kind, *id;
    int type;
};

static int are_parts(const json *list, size_t count, int one_type) {
    static const struct part parts[] = {{"SpecialToken", "[CLS]", 0},
                                        {"Sequence", "A", 0},
                                        {"SpecialToken", "[SEP]", 0},
                                        {"Sequence", "B", 1},
                                        {"SpecialToken", "[SEP]", 1}};
    int equal = json_length(list) == count;
    for (size_t i = 0; equal && i < count; i++) {
        const json *item = json_at(list, i);
        const json *found = json_member(item, parts[i].kind), *type = json_member(found, "type_id");
        const char *id = json_text(json_member(found, "id"));
        equal = id != NULL && strcmp(id, parts[i].id) == 0 && json_is_integer_value(type) &&
                (one_type || json_as_integer(type) == parts[i].type);
    }
    return equal;
}

static int is_template_token(const json *object, const json *processor, const char *text) {
    const json *token = json_member(json_member(processor, "special_tokens"), text);
    const json *ids = json_member(token, "ids");
    return json_length(ids) == 1 &&
           is_token(object, json_member(token, "id"), json_at(ids, 0), text);
}

static int is_bert_template(const json *object, const json *processor, int one_type) {
    return are_parts(json_member(processor, "single"), 3, one_type) &&
           are_parts(json_member(processor, "pair"), 5, one_type) &&
           is_template_token(object, processor, "[CLS]") &&
           is_template_token(object, processor, "[SEP]");
}

// BERT's class replaces the processor by its own.
// A pipeline checks its own.
static enum berth_status check_processor(const char *folder, const json *settings,
                                         const struct vocabulary_file *file, int one_type,
                                         struct berth_error *error) {
    const json *object = file != NULL ? file->object : NULL,
               *processor = json_member(object, "post_processor");
    const char *type = json_text(json_member(processor, "type"));
    struct folder_class class;
    TRY(folder_find_class(folder, settings, &class, error));
    if (object == NULL || class.kind == CLASS_OF_BERT || file->rules.is_pipeline ||
        (type != NULL && strcmp(type, "BertProcessing") == 0 &&
         is_bert_processing(object, processor)) ||
        (type != NULL && strcmp(type, "TemplateProcessing") == 0 &&
         is_bert_template(object, processor, one_type))) {
        return BERTH_OK;
    }
    return error_set(error, BERTH_CONFIG,
                     TOKENIZER_FILE
                     ": key \"post_processor\": expected BERT's, which makes [CLS] a [SEP] b "
                     "[SEP] of texts, found %s; if the model reads these tokens, set "
                     "\"tokenizer_class\" of " SETTINGS_FILE " to \"BertTokenizer\"",
                     type != NULL ? "another" : "none");
}

// BERT's class replaces the decoder by its own, which joins words and their punctuation.
static enum berth_status read_decoder(const char *folder, const json *settings, const json *object,
                                      struct input_rules *rules, struct berth_error *error) {
    const json *decoder = json_member(object, "decoder"),
               *cleanup = json_member(decoder, "cleanup");
    struct folder_class class;
    TRY(folder_find_class(folder, settings, &class, error));
    if (object != NULL && class.kind != CLASS_OF_BERT) {
        rules->keeps_pieces = !json_is_object_value(decoder);
        rules->keeps_blanks = json_is_boolean(cleanup) && !json_truth(cleanup);
    }
    return BERTH_OK;
}

// --- settings -----------------------------------------------------------------------------------

// The side of texts that a setting names, and where that is. As in transformers, tokenizer.json
// says it where the settings do not.
struct side {
    const char *file, *key;
    int is_left;
};

static struct side find_side(const json *settings, const char *key, const json *whole,
                             const char *whole_key) {
    const json *own = json_member(settings, key);
    const char *text = own != NULL
                           ? json_text(own)
                           : json_text(json_member(json_member(whole, whole_key), "direction"));
    return (struct side){.file = own != NULL ? SETTINGS_FILE : TOKENIZER_FILE,
                         .key = own != NULL ? key : whole_key,
                         .is_left = text != NULL && caseless_equal(text, "left")};
}

int64_t folder_token_limit(const json *object, const char *key) {
    const json *value = json_member(object, key);
    double length = json_is_number_value(value) ? json_as_real(value) : 0;
    return length >= 1 && length < 1e9 ? (int64_t)length : 0;
}

// Added tokens that are not special would still be found in texts.
static enum berth_status read_split(const json *settings, const struct vocabulary_file *file,
                                    int *split_special, struct berth_error *error) {
    static const char key[] = "split_special_tokens";
    *split_special = 0;
    if (json_is_null_value(json_member(settings, key))) {
        return BERTH_OK;
    }
    TRY(json_get_boolean(settings, SETTINGS_FILE, key, split_special, error));
    return !*split_special || file == NULL || vocabulary_file_first_added(file) == NULL
               ? BERTH_OK
               : error_key(error, BERTH_CONFIG, SETTINGS_FILE, key,
                           "true is not supported with added tokens, "
                           "such as \"%.*s\"; set it to false to find them in texts",
                           UTF8_SHOWN(vocabulary_file_first_added(file), 40));
}

enum berth_status folder_input_rules(const char *folder, const struct vocabulary_file *file,
                                     struct input_rules *rules, struct berth_error *error) {
    json *settings;
    *rules = (struct input_rules){0};
    TRY(folder_read_object(folder, SETTINGS_FILE, &settings, error));
    const json *whole = file != NULL ? file->object : NULL;
    rules->cleans_up = json_truth(json_member(settings, "clean_up_tokenization_spaces"));
    rules->max_length = folder_token_limit(settings, "model_max_length");
    const struct side side = find_side(settings, "truncation_side", whole, "truncation");
    enum berth_status status =
        !side.is_left ? BERTH_OK
                      : error_key(error, BERTH_CONFIG, side.file, side.key,
                                  "expected \"right\", found \"left\"; to keep the "
                                  "beginning of long texts, not their end, remove the key");
    if (status == BERTH_OK) {
        status = read_split(settings, file, &rules->split_special, error);
    }
    if (status == BERTH_OK) {
        status = folder_has_one_type(folder, settings, &rules->one_type, error);
    }
    if (status == BERTH_OK) {
        status = check_processor(folder, settings, file, rules->one_type, error);
    }
    if (status == BERTH_OK) {
        status = read_decoder(folder, settings, whole, rules, error);
    }
    json_free(settings);
    return status == BERTH_OK ? BERTH_OK : error_prefix(error, status, "%s", folder);
}

static void read_name(const json *settings, const json *specials, const char *key,
                      char name[FOLDER_TOKEN_SIZE]) {
    const json *found = json_member(settings, key);
    found = found != NULL && !json_is_null_value(found) ? found : json_member(specials, key);
    const char *text =
        json_text(json_is_object_value(found) ? json_member(found, "content") : found);
    if (text != NULL && strlen(text) < FOLDER_TOKEN_SIZE) {
        memcpy(name, text, strlen(text) + 1);
    }
}

enum berth_status folder_token_names(const char *folder, struct folder_names *names,
                                     struct berth_error *error) {
    json *settings, *specials;
    *names = (struct folder_names){.pad = ""};
    TRY(folder_read_object(folder, SETTINGS_FILE, &settings, error));
    const enum berth_status status = folder_read_object(folder, SPECIALS_FILE, &specials, error);
    if (status == BERTH_OK) {
        read_name(settings, specials, "pad_token", names->pad);
        read_name(settings, specials, "unk_token", names->unknown);
        read_name(settings, specials, "mask_token", names->mask);
        json_free(specials);
    }
    json_free(settings);
    return status;
}

// --- settings without effect --------------------------------------------------------------------

// Returns whether there is one.
static int note_class(const char *folder, const char *file, const json *object,
                      const struct berth_log *log) {
    // The folder's own class of tokenizer, as transformers finds it: in an object of classes, or in
    // the list that older versions wrote for the tokenizer alone. A list has the slow class, then
    // the fast one.
    const json *map = json_member(object, "auto_map");
    const json *names = json_is_object_value(map) ? json_member(map, "AutoTokenizer") : map;
    const char *fast = json_text(json_at(names, 1));
    const char *name = json_text(names) != NULL ? json_text(names)
                       : fast != NULL           ? fast
                                                : json_text(json_at(names, 0));
    if (name != NULL) {
        log_note(log,
                 "%s: %s: key \"auto_map\": the folder's own tokenizer %.*s is not run: texts are "
                 "read by BERT's; compare its tokens with those of `berth tokenize`",
                 folder, file, UTF8_SHOWN(name, 60));
    }
    return name != NULL;
}

enum berth_status folder_note_inputs(const char *folder, const struct vocabulary_file *file,
                                     const struct berth_log *log, struct berth_error *error) {
    json *settings, *config;
    TRY(folder_read_object(folder, SETTINGS_FILE, &settings, error));
    const struct side side =
        find_side(settings, "padding_side", file != NULL ? file->object : NULL, "padding");
    if (side.is_left) {
        log_note(
            log,
            "%s: %s: key \"%s\": \"left\" has no effect: texts are not padded; in transformers "
            "it moves the shorter texts of a batch to other positions, and so changes their "
            "results",
            folder, side.file, side.key);
    }
    const int is_noted = note_class(folder, SETTINGS_FILE, settings, log);
    json_free(settings);
    if (!is_noted) {
        TRY(folder_read_object(folder, CONFIG_FILE, &config, error));
        (void)note_class(folder, CONFIG_FILE, config, log);
        json_free(config);
    }
    return BERTH_OK;
}
