// SPDX-License-Identifier: Apache-2.0
// Decides which tokenizer a model folder means, from "tokenizer_class", config.json or the model's
// type, as transformers would. folder_tokenizer.c and folder_vocabulary.c ask first, and then read
// the words and rules of that tokenizer.
#include "model/folder_class.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "core/utf8.h"
#include "model/folder.h"

#include <stdio.h>
#include <string.h>

const struct special_token special_tokens[SPECIAL_TOKENS] = {{"unk_token", "[UNK]"},
                                                             {"sep_token", "[SEP]"},
                                                             {"pad_token", "[PAD]"},
                                                             {"cls_token", "[CLS]"},
                                                             {"mask_token", "[MASK]"}};

const char *const other_token_keys[OTHER_TOKEN_KEYS] = {
    "additional_special_tokens", "extra_special_tokens", "bos_token", "eos_token"};

enum berth_status folder_read_object(const char *folder, const char *name, json **object,
                                     struct berth_error *error) {
    *object = NULL;
    char *path = folder_file(folder, name);
    if (path == NULL) {
        return error_no_memory(error, 0, "a path");
    }
    enum berth_status status = file_exists(path) ? json_read_file(path, object, error) : BERTH_OK;
    memory_free(path);
    return status;
}

enum class_kind folder_class_kind(const char *name) {
    // Those of models with BERT's tokenizer under another name, such as DistilBertTokenizerFast;
    // not BertJapaneseTokenizer or PhobertTokenizer.
    static const char *const ends[] = {"BertTokenizer", "BertTokenizerFast", "ElectraTokenizer",
                                       "ElectraTokenizerFast"};
    int found = 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        found |= text_ends_with(name, ends[i]);
    }
    return found ? CLASS_OF_BERT
           : (strcmp(name, "PreTrainedTokenizerFast") == 0 ||
              strcmp(name, "TokenizersBackend") == 0)
               ? CLASS_GENERAL
               : CLASS_OTHER;
}

enum berth_status folder_find_class(const char *folder, const json *settings,
                                    struct folder_class *class, struct berth_error *error) {
    static const char key[] = "tokenizer_class";
    json *config;
    TRY(folder_read_object(folder, CONFIG_FILE, &config, error));
    const char *own = json_text(json_member(settings, key));
    const char *name = own != NULL ? own : json_text(json_member(config, key));
    *class = (struct folder_class){.file = own != NULL ? SETTINGS_FILE : CONFIG_FILE};
    if (name != NULL) {
        class->kind = folder_class_kind(name);
        snprintf(class->name, sizeof class->name, "%.*s", UTF8_SHOWN(name, 60));
    } else {
        class->kind = json_member(config, "model_type") != NULL ? CLASS_OF_BERT : CLASS_GENERAL;
    }
    json_free(config);
    return BERTH_OK;
}

enum berth_status folder_read_architecture(const char *folder, char *name, size_t size,
                                           struct berth_error *error) {
    OWNED char *path = folder_config_path(folder);
    json *config = NULL;
    *name = '\0';
    if (path == NULL) {
        return error_no_memory(error, 0, "a path");
    }
    TRY(file_exists(path) ? json_read_file(path, &config, error) : BERTH_OK);
    const char *first = json_text(json_at(json_member(config, "architectures"), 0));
    if (first != NULL && strlen(first) < size) {
        strcpy(name, first);
    }
    json_free(config);
    return BERTH_OK;
}
