// SPDX-License-Identifier: Apache-2.0
// The tokenizer's files of a model folder. They are copied byte by byte where they say what was
// used; tokenizer.json repeats the vocabulary and the casing, so it is left out when one of the two
// was replaced (transformers makes it again from vocab.txt).
#include "core/file.h"
#include "core/memory.h"
#include "format/json.h"
#include "model/folder.h"

#include <string.h>
#include <strings.h>

#define FILE_LIMIT ((size_t)1 << 30)
#define SETTINGS_FILE "tokenizer_config.json"
#define SPECIALS_FILE "special_tokens_map.json"
#define VOCAB_FILE "vocab.txt"

static const char *const special_tokens[][2] = {{"unk_token", "[UNK]"},
                                                {"sep_token", "[SEP]"},
                                                {"pad_token", "[PAD]"},
                                                {"cls_token", "[CLS]"},
                                                {"mask_token", "[MASK]"}};

// --- reading ------------------------------------------------------------------------------------

// The folder's settings, NULL when it has none.
static enum berth_status read_settings(const char *folder, json **settings,
                                       struct berth_error *error) {
    *settings = NULL;
    char *path = folder_file(folder, SETTINGS_FILE);
    if (path == NULL) {
        return file_no_path(error);
    }
    enum berth_status status = file_exists(path) ? json_read_file(path, settings, error) : BERTH_OK;
    memory_free(path);
    return status;
}

// The last part of a path, without slashes at its end.
static size_t last_part(const char *path, const char **part) {
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/') {
        end--;
    }
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/') {
        begin--;
    }
    *part = path + begin;
    return end - begin;
}

int folder_name_casing(const char *folder) {
    const char *name;
    size_t length = last_part(folder, &name);
    for (size_t i = 0; i + 5 <= length; i++) {
        if (strncasecmp(name + i, "cased", 5) == 0) {
            return i >= 2 && strncasecmp(name + i - 2, "un", 2) == 0;
        }
    }
    return -1;
}

enum berth_status folder_lower_case(const char *folder, int *lower_case,
                                    struct berth_error *error) {
    json *settings;
    *lower_case = folder_name_casing(folder) != 0;
    TRY(read_settings(folder, &settings, error));
    enum berth_status status =
        json_get_boolean(settings, SETTINGS_FILE, "do_lower_case", lower_case, error);
    json_free(settings);
    return status == BERTH_OK ? BERTH_OK : error_prefix(error, status, "%s", folder);
}

// --- copying ------------------------------------------------------------------------------------

static enum berth_status copy_file(const char *from, const char *to, struct berth_error *error) {
    char *bytes;
    size_t length;
    TRY(file_read(from, FILE_LIMIT, &bytes, &length, error));
    enum berth_status status = file_write(to, bytes, length, error);
    memory_free(bytes);
    return status;
}

// Copies source/name to target/name; fine when it is not there.
static enum berth_status copy_member(const char *source, const char *target, const char *name,
                                     struct berth_error *error) {
    char *from = folder_file(source, name), *to = path_join(target, name);
    enum berth_status status = BERTH_OK;
    if (from == NULL || to == NULL) {
        status = file_no_path(error);
    } else if (file_exists(from)) {
        status = copy_file(from, to, error);
    }
    memory_free(from);
    memory_free(to);
    return status;
}

static enum berth_status copy_vocab(const char *source, const char *vocab_path, const char *target,
                                    struct berth_error *error) {
    if (vocab_path == NULL) {
        return source != NULL ? copy_member(source, target, VOCAB_FILE, error) : BERTH_OK;
    }
    char *to = path_join(target, VOCAB_FILE);
    enum berth_status status = to != NULL ? copy_file(vocab_path, to, error) : file_no_path(error);
    memory_free(to);
    return status;
}

static enum berth_status read_both(const char *const paths[2], char *bytes[2], size_t lengths[2],
                                   struct berth_error *error) {
    TRY(file_read(paths[0], FILE_LIMIT, &bytes[0], &lengths[0], error));
    return file_read(paths[1], FILE_LIMIT, &bytes[1], &lengths[1], error);
}

// Whether the vocabulary at `vocab_path` (NULL: the source's own) holds the same bytes as the
// source's; *same is 0 when the source has none.
static enum berth_status is_own_vocab(const char *source, const char *vocab_path, int *same,
                                      struct berth_error *error) {
    *same = vocab_path == NULL;
    if (vocab_path == NULL) {
        return BERTH_OK;
    }
    char *own = folder_file(source, VOCAB_FILE), *bytes[2] = {NULL};
    size_t lengths[2];
    enum berth_status status = BERTH_OK;
    if (own == NULL) {
        status = file_no_path(error);
    } else if (file_exists(own)) {
        status = read_both((const char *const[]){own, vocab_path}, bytes, lengths, error);
        *same = status == BERTH_OK && lengths[0] == lengths[1] &&
                memcmp(bytes[0], bytes[1], lengths[0]) == 0;
    }
    memory_free(own);
    memory_free(bytes[0]);
    memory_free(bytes[1]);
    return status;
}

// --- writing what is missing --------------------------------------------------------------------

static json *special_tokens_object(void) {
    json *object = json_new_object();
    for (size_t i = 0; i < sizeof special_tokens / sizeof *special_tokens; i++) {
        if (json_set(object, special_tokens[i][0], json_new_text(special_tokens[i][1])) != 0) {
            json_free(object);
            return NULL;
        }
    }
    return object;
}

static json *default_settings(void) {
    json *settings = special_tokens_object();
    int failed = json_set(settings, "tokenizer_class", json_new_text("BertTokenizer")) |
                 json_set(settings, "tokenize_chinese_chars", json_new_boolean(1));
    if (failed) {
        json_free(settings);
        return NULL;
    }
    return settings;
}

static enum berth_status write_member(const json *value, const char *folder, const char *name,
                                      struct berth_error *error) {
    char *path = path_join(folder, name);
    enum berth_status status = path != NULL
                                   ? json_write_file(value, JSON_INDENT_2_SORTED, path, error)
                                   : file_no_path(error);
    memory_free(path);
    return status;
}

// The source's settings with the casing that was used.
static enum berth_status write_settings(const char *source, int lower_case, const char *target,
                                        struct berth_error *error) {
    json *settings = NULL;
    if (source != NULL) {
        TRY(read_settings(source, &settings, error));
    }
    settings = settings != NULL ? settings : default_settings();
    enum berth_status status =
        json_set(settings, "do_lower_case", json_new_boolean(lower_case)) != 0
            ? error_set(error, BERTH_NO_MEMORY, "out of memory for " SETTINGS_FILE)
            : write_member(settings, target, SETTINGS_FILE, error);
    json_free(settings);
    return status;
}

static enum berth_status write_missing_specials(const char *target, struct berth_error *error) {
    char *path = path_join(target, SPECIALS_FILE);
    if (path == NULL) {
        return file_no_path(error);
    }
    enum berth_status status = BERTH_OK;
    if (!file_exists(path)) {
        json *specials = special_tokens_object();
        status = json_write_file(specials, JSON_INDENT_2_SORTED, path, error);
        json_free(specials);
    }
    memory_free(path);
    return status;
}

static int has_settings(const char *source) {
    char *path = source != NULL ? folder_file(source, SETTINGS_FILE) : NULL;
    int found = path != NULL && file_exists(path);
    memory_free(path);
    return found;
}

enum berth_status folder_copy_tokenizer(const char *source, const char *vocab_path,
                                        int do_lower_case, const char *target,
                                        struct berth_error *error) {
    int source_lower_case = 1;
    if (source != NULL) {
        TRY(folder_lower_case(source, &source_lower_case, error));
    }
    int lower_case = do_lower_case < 0 ? source_lower_case : do_lower_case;
    int same_case = lower_case == source_lower_case, same_vocab = 0;
    TRY(copy_vocab(source, vocab_path, target, error));
    if (source != NULL) {
        TRY(is_own_vocab(source, vocab_path, &same_vocab, error));
        TRY(copy_member(source, target, SPECIALS_FILE, error));
    }
    if (same_case && same_vocab) {
        TRY(copy_member(source, target, "tokenizer.json", error));
    }
    if (same_case && has_settings(source)) {
        TRY(copy_member(source, target, SETTINGS_FILE, error));
    } else {
        TRY(write_settings(source, lower_case, target, error));
    }
    return write_missing_specials(target, error);
}
