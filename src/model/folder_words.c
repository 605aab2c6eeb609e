// SPDX-License-Identifier: Apache-2.0
// Builds the JSON of a tokenizer.json from vocab.json with merges.txt or a sentencepiece model, as
// transformers 5 does, when a folder has no tokenizer.json of its own. words_*.c make its parts, by
// the class of the tokenizer; text/text_pipeline.c then reads the result like any other.
#include "model/folder_words.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "model/folder.h"
#include "model/folder_class.h"
#include "model/words_build.h"

#include <string.h>

#define MERGES_LIMIT ((size_t)256 << 20)

// --- tokenizer.json -----------------------------------------------------------------------------

// With other values of these keys, texts would get other special tokens.
static enum berth_status check_processor(const struct words *words, struct berth_error *error) {
    static const char *const keys[] = {"add_bos_token", "add_eos_token"};
    const int has_own = words->class->cls >= 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json *value = json_member(words->input->settings, keys[i]);
        if (words->class->takes_ends && value != NULL && (json_truth(value) || has_own)) {
            return error_key(error, BERTH_CONFIG, SETTINGS_FILE, keys[i],
                             "expected none for the class %s; save "
                             "a " TOKENIZER_FILE " with transformers",
                             words->class->name);
        }
    }
    for (int i = 0; has_own && i < 2; i++) {
        const int named = i == 0 ? words->class->cls : words->class->sep;
        const char *name = words_name(words, named);
        if (name == NULL || words_find_id(words, name) < 0) {
            return error_set(error, BERTH_BAD_DATA,
                             "%s: expected the token \"%s\", which key \"%s\" of " SETTINGS_FILE
                             " names: the class %s puts it around texts",
                             words->input->name, name != NULL ? name : "", words_named_keys[named],
                             words->class->name);
        }
    }
    return BERTH_OK;
}

static json *model_of(struct words *words) {
    json *vocabulary = words->vocabulary, *merges = words->merges;
    const int is_general_model = words_are_general(words),
              falls_back = is_general_model && words->model.byte_fallback;
    words->vocabulary = words->merges = NULL;
    if (merges == NULL) {
        return JSON_OBJECT({"type", json_new_text("Unigram")},
                           {"unk_id", json_new_integer(words->unknown)}, {"vocab", vocabulary},
                           {"byte_fallback", json_new_boolean(falls_back)});
    }
    return JSON_OBJECT(
        {"type", json_new_text("BPE")}, {"dropout", json_new_null()},
        {"unk_token", is_general_model ? json_new_text(words->model.unknown) : json_new_null()},
        {"continuing_subword_prefix", json_new_null()}, {"end_of_word_suffix", json_new_null()},
        {"fuse_unk", json_new_boolean(is_general_model)},
        {"byte_fallback", json_new_boolean(falls_back)}, {"ignore_merges", json_new_boolean(0)},
        {"vocab", vocabulary}, {"merges", merges});
}

static json *added_of(const struct words *words) {
    json *list = json_new_array();
    int failed = 0;
    for (size_t i = 0; i < words->added_count; i++) {
        const struct word_token *token = &words->added[i];
        failed |=
            json_append(list, JSON_OBJECT({"id", json_new_integer(token->id)},
                                          {"content", json_new_text(token->text)},
                                          {"single_word", json_new_boolean(token->single_word)},
                                          {"lstrip", json_new_boolean(token->lstrip)},
                                          {"rstrip", json_new_boolean(token->rstrip)},
                                          {"normalized", json_new_boolean(token->normalized)},
                                          {"special", json_new_boolean(token->special)}));
    }
    return json_unless_failed(list, failed);
}

static enum berth_status convert(struct words *words, json **object, struct berth_error *error) {
    const struct words_class *class = words->class;
    TRY(class->read(words, error));
    TRY(words_add_tokens(words, error));
    TRY(check_processor(words, error));
    *object = JSON_OBJECT({"version", json_new_text("1.0")}, {"truncation", json_new_null()},
                          {"padding", json_new_null()}, {"added_tokens", added_of(words)},
                          {"normalizer", class->normalizer(words)},
                          {"pre_tokenizer", class->pre_tokenizer(words)},
                          {"post_processor", class->processor(words)},
                          {"decoder", class->decoder(words)}, {"model", model_of(words)});
    return *object != NULL ? BERTH_OK : words_no_memory(words, error);
}

enum berth_status words_convert(const struct words_input *input, json **object,
                                struct berth_error *error) {
    struct words words = {.input = input, .class = input->class, .highest = -1};
    *object = NULL;
    const enum berth_status status = convert(&words, object, error);
    sentencepiece_done(&words.model);
    json_free(words.vocabulary);
    json_free(words.merges);
    string_index_done(&words.numbers);
    string_index_done(&words.texts);
    memory_free(words.ids);
    memory_free(words.marks);
    memory_free(words.added);
    return status;
}

// --- folders ------------------------------------------------------------------------------------

static enum berth_status find_class(const char *folder, const struct words_class **class,
                                    struct berth_error *error) {
    static const char key[] = "tokenizer_class";
    json *settings, *config;
    TRY(folder_read_object(folder, SETTINGS_FILE, &settings, error));
    const enum berth_status status = folder_read_object(folder, CONFIG_FILE, &config, error);
    if (status == BERTH_OK) {
        const char *own = json_text(json_member(settings, key));
        *class = words_class_find(own != NULL ? own : json_text(json_member(config, key)),
                                  json_text(json_member(config, "model_type")));
        json_free(config);
    }
    json_free(settings);
    return status;
}

// A folder without other words, whose files of words belong to another class.
static enum berth_status check_other_files(const char *folder, struct berth_error *error) {
    char names[300] = "";
    const char *file = NULL;
    const struct words_class *class;
    for (size_t i = 0; (class = words_class_at(i)) != NULL; i++) {
        int found;
        TRY(folder_has_file(folder, class->file, &found, error));
        if (found && (file == NULL || strcmp(file, class->file) == 0)) {
            file = class->file;
            words_add(names, sizeof names, class->name);
        }
    }
    return file == NULL ? BERTH_OK
                        : error_set(error, BERTH_CONFIG,
                                    "%s: %s: the tokenizer's class says how a text becomes words: "
                                    "expected one of %s as \"tokenizer_class\" in " SETTINGS_FILE
                                    "; or save a " TOKENIZER_FILE " with transformers",
                                    folder, file, names);
}

enum berth_status folder_words_path(const char *folder, char **path,
                                    const struct words_class **class, struct berth_error *error) {
    int has_whole, has_words, found = 0;
    *path = NULL;
    *class = NULL;
    TRY(folder_has_file(folder, TOKENIZER_FILE, &has_whole, error));
    TRY(folder_has_file(folder, VOCAB_FILE, &has_words, error));
    if (has_whole) {
        return BERTH_OK;
    }
    TRY(find_class(folder, class, error));
    if (*class != NULL) {
        TRY(folder_has_file(folder, (*class)->file, &found, error));
    }
    if (!found) {
        *class = NULL;
        return has_words ? BERTH_OK : check_other_files(folder, error);
    }
    *path = folder_file(folder, (*class)->file);
    return *path != NULL ? BERTH_OK : error_no_memory(error, 0, "a path");
}

struct words_files {
    char *words, *merges; // contents
    json *settings, *specials, *added;
};

static enum berth_status read_file(const char *folder, const char *name, size_t limit, char **bytes,
                                   size_t *length, struct berth_error *error) {
    char *path = folder_file(folder, name);
    const enum berth_status status = path != NULL ? file_read(path, limit, bytes, length, error)
                                                  : error_no_memory(error, 0, "a path");
    memory_free(path);
    return status;
}

static enum berth_status read_all(const char *folder, const struct words_class *class,
                                  struct words_files *files, struct words_input *input,
                                  struct berth_error *error) {
    const int has_merges = words_class_has_merges(class);
    TRY(read_file(folder, class->file, has_merges ? JSON_FILE_LIMIT : SENTENCEPIECE_LIMIT,
                  &files->words, &input->length, error));
    if (has_merges) {
        TRY(read_file(folder, MERGES_FILE, MERGES_LIMIT, &files->merges, &input->merges_length,
                      error));
    }
    TRY(folder_read_object(folder, SETTINGS_FILE, &files->settings, error));
    TRY(folder_read_object(folder, SPECIALS_FILE, &files->specials, error));
    TRY(folder_read_object(folder, ADDED_FILE, &files->added, error));
    input->bytes = files->words;
    input->merges = files->merges;
    input->settings = files->settings;
    input->specials = files->specials;
    input->added = files->added;
    return BERTH_OK;
}

enum berth_status folder_words_read(const char *folder, const struct words_class *class,
                                    json **object, struct berth_error *error) {
    struct words_files files = {.words = NULL};
    struct words_input input = {.class = class, .name = class->file};
    *object = NULL;
    enum berth_status status = read_all(folder, class, &files, &input, error);
    status = status == BERTH_OK ? words_convert(&input, object, error) : status;
    memory_free(files.words);
    memory_free(files.merges);
    json_free(files.settings);
    json_free(files.specials);
    json_free(files.added);
    return status == BERTH_OK ? BERTH_OK : error_prefix(error, status, "%s", folder);
}
