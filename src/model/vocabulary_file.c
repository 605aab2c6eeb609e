// SPDX-License-Identifier: Apache-2.0
// Called by folder_vocabulary.c when a model is opened, before the tokenizer is made of what was
// read. Files in which other classes keep their words are read in words_read.c.
#include "model/vocabulary_file.h"

#include "core/encoding.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "core/utf8.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define FILE_LIMIT ((size_t)256 << 20)

const struct text_rules text_rules_default = {
    .lower_case = 1, .strip_accents = -1, .tokenize_chinese_chars = 1};

int vocabulary_file_is_json(const char *path) {
    return name_has_extension(path, ".json");
}

static enum berth_status refuse(const char *path, const char *part, const char *expected,
                                const char *found, struct berth_error *error) {
    return error_key(error, BERTH_CONFIG, path, part,
                     "expected %s, found %s, so that the tokenizer is not BERT's", expected,
                     found != NULL ? found : "none");
}

// Checks that a part of the pipeline has this type.
static enum berth_status check_type(const json *object, const char *path, const char *part,
                                    const char *type, struct berth_error *error) {
    const char *found = json_text(json_member(json_member(object, part), "type"));
    return found != NULL && strcmp(found, type) == 0 ? BERTH_OK
                                                     : refuse(path, part, type, found, error);
}

// --- the normalizer -----------------------------------------------------------------------------

static enum berth_status read_rules(const json *object, const char *path, struct text_rules *rules,
                                    struct berth_error *error) {
    const json *normalizer = json_member(object, "normalizer");
    int clean = 1, strip = -1;
    TRY(check_type(object, path, "normalizer", "BertNormalizer", error));
    *rules = text_rules_default;
    TRY(json_get_boolean(normalizer, path, "clean_text", &clean, error));
    TRY(json_get_boolean(normalizer, path, "lowercase", &rules->lower_case, error));
    TRY(json_get_boolean(normalizer, path, "handle_chinese_chars", &rules->tokenize_chinese_chars,
                         error));
    if (!json_is_null_value(json_member(normalizer, "strip_accents"))) {
        TRY(json_get_boolean(normalizer, path, "strip_accents", &strip, error));
    }
    rules->strip_accents = strip;
    rules->is_pipeline = !clean; // BERT's own way always drops control characters
    return BERTH_OK;
}

// --- tokens -------------------------------------------------------------------------------------

struct tokens {
    const char *path;
    const char **texts; // [count] by id; NULL: no token with that id yet
    size_t count, bytes;
};

static enum berth_status put_token(struct tokens *tokens, const char *text, const json *id,
                                   struct berth_error *error) {
    int64_t number = json_is_integer_value(id) ? json_as_integer(id) : -1;
    if (number < 0 || (size_t)number >= tokens->count) {
        return error_set(
            error, BERTH_BAD_DATA,
            "%s: token \"%.*s\": expected an id from 0 to %zu, the number of tokens minus 1",
            tokens->path, UTF8_SHOWN(text, 40), tokens->count - 1);
    }
    const char *other = tokens->texts[number];
    if (other != NULL && strcmp(other, text) != 0) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: duplicate id %lld: tokens \"%.*s\" and \"%.*s\"", tokens->path,
                         (long long)number, UTF8_SHOWN(other, 40), UTF8_SHOWN(text, 40));
    }
    if (strpbrk(text, "\r\n") != NULL) {
        return error_set(error, BERTH_BAD_DATA, "%s: the token with id %lld contains a line break",
                         tokens->path, (long long)number);
    }
    tokens->bytes += other == NULL ? strlen(text) + 1 : 0;
    tokens->texts[number] = text;
    return BERTH_OK;
}

int vocabulary_is_bert_special(const char *token) {
    static const char *const usual[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        if (strcmp(token, usual[i]) == 0) {
            return 1;
        }
    }
    return 0;
}

enum berth_status vocabulary_added_flags(const json *token, const char *name, unsigned *flags,
                                         struct berth_error *error) {
    static const struct {
        const char *key;
        enum added_flag flag;
    } keys[] = {{"normalized", ADDED_NORMALIZED},
                {"single_word", ADDED_SINGLE_WORD},
                {"lstrip", ADDED_LSTRIP},
                {"rstrip", ADDED_RSTRIP}};
    *flags = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        int is_set = 0;
        TRY(json_get_boolean(token, name, keys[i].key, &is_set, error));
        *flags |= is_set ? (unsigned)keys[i].flag : 0;
    }
    return BERTH_OK;
}

int vocabulary_file_adds(const struct vocabulary_file *file, const char *text) {
    for (size_t i = 0; i < file->added_count; i++) {
        if (strcmp(file->added[i].text, text) == 0) {
            return 1;
        }
    }
    return 0;
}

const char *vocabulary_file_first_added(const struct vocabulary_file *file) {
    for (size_t i = 0; i < file->added_count; i++) {
        if (!vocabulary_is_bert_special(file->added[i].text)) {
            return file->added[i].text;
        }
    }
    return NULL;
}

// Keeps the token with a copy of its text.
static enum berth_status keep_added(struct vocabulary_file *file, struct added_token token,
                                    struct berth_error *error) {
    const size_t count = file->added_count;
    struct added_token *added =
        memory_grow(file->added, &file->added_capacity, count + 1, sizeof *added);
    if (added != NULL) {
        file->added = added;
        token.text = memory_string(token.text);
    }
    if (added == NULL || token.text == NULL) {
        return error_no_memory(error, (count + 1) * sizeof *added, "the added tokens");
    }
    added[file->added_count++] = token;
    return BERTH_OK;
}

// A token that the model lacks follows the model's.
static enum berth_status check_place(const struct vocabulary_file *file,
                                     const struct tokens *tokens, const json *token,
                                     struct berth_error *error) {
    const json *vocabulary = json_member(json_member(file->object, "model"), "vocab");
    const char *text = json_text(json_member(token, "content"));
    const int64_t id = json_as_integer(json_member(token, "id"));
    if (id >= (int64_t)file->word_pieces || json_member(vocabulary, text) != NULL) {
        return BERTH_OK;
    }
    return error_set(error, BERTH_BAD_DATA,
                     "%s: key \"added_tokens\": \"%.*s\", which \"model.vocab\" lacks: expected an "
                     "id after those of its %zu tokens, found %lld",
                     tokens->path, UTF8_SHOWN(text, 40), file->word_pieces, (long long)id);
}

static enum berth_status read_added(struct vocabulary_file *file, struct tokens *tokens,
                                    const json *list, struct berth_error *error) {
    static const char key[] = "added_tokens";
    for (size_t i = 0; i < json_length(list); i++) {
        const json *token = json_at(list, i);
        const char *text = json_text(json_member(token, "content"));
        if (text == NULL) {
            return error_key(error, BERTH_BAD_DATA, tokens->path, key,
                             "entry %zu has no \"content\"", i);
        }
        TRY(put_token(tokens, text, json_member(token, "id"), error));
        TRY(check_place(file, tokens, token, error));
        struct added_token added = {.text = text};
        TRY(vocabulary_added_flags(token, tokens->path, &added.flags, error));
        if (added.flags != 0 || !vocabulary_is_bert_special(text)) {
            TRY(keep_added(file, added, error));
        }
    }
    return BERTH_OK;
}

static enum berth_status join_tokens(struct vocabulary_file *file, const struct tokens *tokens,
                                     struct berth_error *error) {
    file->bytes = memory_new(tokens->bytes + 1);
    if (file->bytes == NULL) {
        return error_no_memory(error, tokens->bytes, tokens->path);
    }
    for (size_t id = 0; id < tokens->count; id++) {
        if (tokens->texts[id] == NULL) {
            return error_set(error, BERTH_BAD_DATA, "%s: no token has the id %zu (of %zu tokens)",
                             tokens->path, id, tokens->count);
        }
        size_t length = strlen(tokens->texts[id]);
        memcpy(file->bytes + file->length, tokens->texts[id], length);
        file->length += length;
        file->bytes[file->length++] = '\n';
    }
    file->bytes[file->length] = '\0';
    return BERTH_OK;
}

static enum berth_status read_tokens(struct vocabulary_file *file, struct tokens *tokens,
                                     struct berth_error *error) {
    const json *vocabulary = json_member(json_member(file->object, "model"), "vocab");
    const json *added = json_member(file->object, "added_tokens");
    size_t count = json_length(vocabulary);
    for (size_t i = 0; i < json_length(added); i++) {
        const char *text = json_text(json_member(json_at(added, i), "content"));
        count += text != NULL && json_member(vocabulary, text) == NULL;
    }
    tokens->count = count;
    file->word_pieces = json_length(vocabulary);
    if (!json_is_object_value(vocabulary) || tokens->count == 0) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: key \"model.vocab\": expected an object of tokens and ids",
                         tokens->path);
    }
    tokens->texts = memory_array_zeroed(tokens->count, sizeof *tokens->texts);
    if (tokens->texts == NULL) {
        return error_no_memory(error, tokens->count * sizeof *tokens->texts, tokens->path);
    }
    struct json_walk walk = {.object = vocabulary};
    while (json_walk_next(&walk)) {
        TRY(put_token(tokens, walk.key, walk.value, error));
    }
    TRY(read_added(file, tokens, added, error));
    return join_tokens(file, tokens, error);
}

// --- the file -----------------------------------------------------------------------------------

// The tokenizers library recognises a model without a type by its keys.
static int is_untyped_wordpiece(const json *model) {
    return json_member(model, "type") == NULL && json_member(model, "unk_token") != NULL &&
           json_member(model, "continuing_subword_prefix") != NULL &&
           json_member(model, "max_input_chars_per_word") != NULL &&
           json_member(model, "merges") == NULL;
}

static enum berth_status check_model(struct vocabulary_file *file, const char *path,
                                     struct berth_error *error) {
    const json *model = json_member(file->object, "model");
    const char *unknown = "[UNK]", *prefix = "##";
    int64_t longest = 0;
    if (!is_untyped_wordpiece(model)) {
        TRY(check_type(file->object, path, "model", "WordPiece", error));
    }
    TRY(check_type(file->object, path, "pre_tokenizer", "BertPreTokenizer", error));
    TRY(json_get_text(model, path, "unk_token", &unknown, error));
    TRY(json_get_text(model, path, "continuing_subword_prefix", &prefix, error));
    TRY(json_get_integer(model, path, "max_input_chars_per_word", &longest, error));
    if (strcmp(unknown, "[UNK]") != 0) {
        return refuse(path, "model.unk_token", "[UNK]", unknown, error);
    }
    if (strcmp(prefix, "##") != 0) {
        return refuse(path, "model.continuing_subword_prefix", "##", prefix, error);
    }
    file->max_word_length = longest > 0 ? (int)(longest < INT_MAX ? longest : INT_MAX) : 0;
    file->has_rules = 1;
    return read_rules(file->object, path, &file->rules, error);
}

enum berth_status vocabulary_file_open(const char *path, struct vocabulary_file *file,
                                       struct berth_error *error) {
    TRY(json_read_file(path, &file->object, error));
    return check_model(file, path, error);
}

// Opens a tokenizer.json of any kind.
static enum berth_status open_any(const char *path, struct vocabulary_file *file,
                                  struct berth_error *error) {
    const enum berth_status status = vocabulary_file_open(path, file, error);
    if (status == BERTH_CONFIG) {
        file->is_other = file->has_rules = 1;
        file->rules = text_rules_default;
        file->rules.is_pipeline = 1;
        return BERTH_OK;
    }
    return status;
}

enum berth_status vocabulary_file_rules(const char *path, struct text_rules *rules, int *is_other,
                                        struct berth_error *error) {
    struct vocabulary_file file = {0};
    const enum berth_status status = open_any(path, &file, error);
    *rules = file.rules;
    *is_other = file.is_other;
    vocabulary_file_done(&file);
    return status;
}

// Removes the blanks at the ends of the lines, as the tokenizers library does: no word ends in one.
// A line of nothing else stays, so that it does not become a duplicate of another.
static void trim_lines(struct vocabulary_file *file) {
    char *const bytes = file->bytes;
    size_t kept = 0;
    for (size_t at = 0; at < file->length;) {
        const char *newline = memchr(bytes + at, '\n', file->length - at);
        const size_t next = newline != NULL ? (size_t)(newline - bytes) + 1 : file->length;
        size_t end = next - (newline != NULL);
        end -= end > at && bytes[end - 1] == '\r';
        size_t size = end - at;
        while (size > 0 && (bytes[at + size - 1] == ' ' || bytes[at + size - 1] == '\t')) {
            size--;
        }
        size = size > 0 ? size : end - at;
        memmove(bytes + kept, bytes + at, size);
        memmove(bytes + kept + size, bytes + end, next - end);
        kept += size + (next - end);
        at = next;
    }
    bytes[kept] = '\0';
    file->length = kept;
}

enum berth_status vocabulary_file_read(const char *path, struct vocabulary_file *file,
                                       struct berth_error *error) {
    struct tokens tokens = {.path = path};
    if (!vocabulary_file_is_json(path)) {
        file->rules = text_rules_default;
        TRY(file_read(path, FILE_LIMIT, &file->bytes, &file->length, error));
        encoding_end_lines(file->bytes, file->length);
        trim_lines(file);
        return BERTH_OK;
    }
    if (file->object == NULL) {
        TRY(open_any(path, file, error));
    }
    if (file->is_other) {
        return BERTH_OK;
    }
    enum berth_status status = read_tokens(file, &tokens, error);
    memory_free(tokens.texts);
    return status;
}

void vocabulary_file_done(struct vocabulary_file *file) {
    for (size_t i = 0; i < file->added_count; i++) {
        memory_free((void *)(uintptr_t)file->added[i].text);
    }
    memory_free(file->added);
    memory_free(file->bytes);
    json_free(file->object);
    *file = (struct vocabulary_file){0};
}

// --- adding tokens ------------------------------------------------------------------------------

// The number of the last line that is the token, or of all lines.
static size_t find_line(const struct vocabulary_file *file, const char *text) {
    const size_t length = strlen(text);
    size_t line = 0, found = SIZE_MAX;
    for (size_t at = 0; at < file->length; line++) {
        const char *start = file->bytes + at, *end = memchr(start, '\n', file->length - at);
        size_t size = end != NULL ? (size_t)(end - start) : file->length - at;
        at += size + 1;
        size -= size > 0 && start[size - 1] == '\r';
        found = size == length && memcmp(start, text, length) == 0 ? line : found;
    }
    return found != SIZE_MAX ? found : line;
}

enum berth_status vocabulary_file_add(struct vocabulary_file *file, const char *name,
                                      struct added_token token, int64_t id,
                                      struct berth_error *error) {
    const char *text = token.text;
    if (vocabulary_file_adds(file, text)) {
        return BERTH_OK;
    }
    const size_t line = find_line(file, text), count = find_line(file, "\n");
    if (id >= 0 && (size_t)id != line) {
        return error_set(
            error, BERTH_BAD_DATA, "%s: token \"%.*s\": expected the id %zu, %s, found %lld", name,
            UTF8_SHOWN(text, 40), line,
            line < count ? "its line in the vocabulary" : "the next one", (long long)id);
    }
    if (text[0] == '\0' || strpbrk(text, "\r\n") != NULL) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: an added token is empty or contains a line break", name);
    }
    if (line == count) {
        // Appends a line that ends as the first one does.
        const char *first = memchr(file->bytes, '\n', file->length);
        const char *end = first != NULL && first > file->bytes && first[-1] == '\r' ? "\r\n" : "\n";
        const int is_open = file->length > 0 && file->bytes[file->length - 1] != '\n';
        const size_t room = file->length + strlen(text) + 5;
        char *bytes = memory_new(room);
        if (bytes == NULL) {
            return error_no_memory(error, room, "the vocabulary");
        }
        memcpy(bytes, file->bytes, file->length);
        file->length += (size_t)snprintf(bytes + file->length, room - file->length, "%s%s%s",
                                         is_open ? end : "", text, end);
        memory_free(file->bytes);
        file->bytes = bytes;
        file->word_pieces = file->word_pieces > 0 ? file->word_pieces : count;
    }
    return keep_added(file, token, error);
}
