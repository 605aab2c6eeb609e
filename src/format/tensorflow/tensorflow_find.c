// SPDX-License-Identifier: Apache-2.0
// Finds the newest bundle of a folder. The file `checkpoint` is a CheckpointState in protocol
// buffers' text format; its line model_checkpoint_path: "..." names the newest prefix, often with a
// path on the machine that wrote it: only its last part counts. The file that it finds is opened by
// tensorflow.c.
#include "core/file.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "format/tensorflow/tensorflow.h"

#include <string.h>

#define STATE_LIMIT ((size_t)1 << 20)
#define STATE_KEY "model_checkpoint_path:"
#define INDEX_ENDING ".index"

// Decodes the character or escape at `at` to *to; returns what follows it. Older TensorFlow writes
// bytes beyond ASCII in octal ("\303\251").
static char *unescape(char *at, char *to) {
    const int is_escape = *at == '\\' && at[1] != '\0';
    unsigned code = 0;
    int digits = 0;
    at += is_escape;
    for (; is_escape && digits < 3 && at[digits] >= '0' && at[digits] <= '7'; digits++) {
        code = 8 * code + (unsigned)(at[digits] - '0');
    }
    *to = digits > 0 ? (char)code : *at;
    return at + (digits > 0 ? digits : 1);
}

// Unquotes the string that begins at `at`, in place; "" when there is no quoted string.
static char *unquote(char *at) {
    at += strspn(at, " \t");
    if (*at != '"') {
        return at + strlen(at);
    }
    char *begin = ++at, *to = begin;
    while (*at != '\0' && *at != '"' && *at != '\n') {
        at = unescape(at, to++);
    }
    *to = '\0';
    return begin;
}

// The value of model_checkpoint_path in the text, or NULL.
static char *find_newest(char *state) {
    size_t length = strlen(STATE_KEY);
    for (char *line = state; line != NULL; line = strchr(line, '\n')) {
        line += strspn(line, " \t\n");
        if (strncmp(line, STATE_KEY, length) == 0) {
            return unquote(line + length);
        }
    }
    return NULL;
}

// FOLDER/NAME.index if it exists, newly allocated.
static enum berth_status find_index(const char *folder, const char *name, char **path,
                                    struct berth_error *error) {
    const struct path index = path_in(folder, path_format("%s" INDEX_ENDING, name).text);
    if (name[0] == '\0' || !file_exists(index.text)) {
        return BERTH_OK;
    }
    *path = memory_string(index.text);
    return *path != NULL ? BERTH_OK : error_no_memory(error, 0, "a path");
}

static enum berth_status find_in_state(const char *folder, char **path, struct berth_error *error) {
    const struct path state_path = path_in(folder, "checkpoint");
    OWNED char *state = NULL;
    size_t length;
    if (file_exists(state_path.text)) {
        TRY(file_read(state_path.text, STATE_LIMIT, &state, &length, error));
    }
    const char *newest = state != NULL ? find_newest(state) : NULL;
    return newest != NULL ? find_index(folder, path_name(newest), path, error) : BERTH_OK;
}

enum berth_status tensorflow_find(const char *folder, char **path, struct berth_error *error) {
    *path = NULL;
    TRY(find_in_state(folder, path, error));
    if (*path != NULL) {
        return BERTH_OK;
    }
    char **names;
    TRY(dir_list(folder, &names, error));
    const char *only = NULL;
    enum berth_status status = BERTH_OK;
    for (size_t i = 0; names[i] != NULL && status == BERTH_OK; i++) {
        if (name_has_suffix(names[i], INDEX_ENDING)) {
            if (only != NULL) {
                status = error_set(error, BERTH_NO_INPUT,
                                   "%s: several TensorFlow checkpoints (%s and %s), and no file "
                                   "\"checkpoint\" names one of them; keep only one",
                                   folder, only, names[i]);
            }
            only = names[i];
        }
    }
    if (status == BERTH_OK && only != NULL) {
        *path = path_join(folder, only);
        status = *path != NULL ? BERTH_OK : error_no_memory(error, 0, "a path");
    }
    memory_free(names);
    return status;
}
