// SPDX-License-Identifier: Apache-2.0
// Finds the newest tag of a folder, which its `latest` names.
#include "core/file.h"
#include "core/memory.h"
#include "core/utf8.h"
#include "format/deepspeed/deepspeed.h"

#include <string.h>

#define ZERO3_STATES "zero_pp_rank_0_mp_rank_00_model_states.pt"
#define TAG_LIMIT ((size_t)4096)

static int is_plain(const char *tag) {
    return tag[0] != '\0' && strchr(tag, '/') == NULL && strcmp(tag, ".") != 0 &&
           strcmp(tag, "..") != 0;
}

// Extracts the tag from the text of `latest`, in place.
static char *tag_of(char *text) {
    static const char blanks[] = " \t\r\n";
    text += strspn(text, blanks);
    text[strcspn(text, blanks)] = '\0';
    return text;
}

static enum berth_status refuse_tag(const char *folder, const char *tag,
                                    struct berth_error *error) {
    char *gathered = NULL;
    enum berth_status status = file_find(folder, ZERO3_STATES, &gathered, error);
    int is_zero3 = gathered != NULL;
    memory_free(gathered);
    TRY(status);
    return is_zero3 ? error_set(error, BERTH_BAD_DATA,
                                "%s: expected ZeRO stage 1 or 2, found stage 3: gather the weights "
                                "with the zero_to_fp32.py next to `latest` and give its output",
                                folder)
                    : error_set(error, BERTH_NO_INPUT,
                                "%s: missing " DEEPSPEED_MODEL_FILE
                                ", but `latest` names the tag \"%s\"; copy that file into the "
                                "folder, or give the folder of another tag",
                                folder, tag);
}

static enum berth_status find_tag(const char *folder, const char *tag, char **path,
                                  struct berth_error *error) {
    if (!is_plain(tag)) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s/latest: expected the name of a folder next to it, found \"%.*s\"",
                         folder, UTF8_SHOWN(tag, 200));
    }
    char *inner = path_join(folder, tag);
    if (inner == NULL) {
        return path_no_memory(error);
    }
    enum berth_status status = file_find(inner, DEEPSPEED_MODEL_FILE, path, error);
    if (status == BERTH_OK && *path == NULL) {
        status = refuse_tag(inner, tag, error);
    }
    memory_free(inner);
    return status;
}

enum berth_status deepspeed_find(const char *folder, char **path, struct berth_error *error) {
    char *latest = NULL, *text = NULL;
    size_t length;
    *path = NULL;
    TRY(file_find(folder, DEEPSPEED_MODEL_FILE, path, error));
    if (*path != NULL) {
        return BERTH_OK;
    }
    enum berth_status status;
    TRY(file_find(folder, "latest", &latest, error));
    if (latest == NULL) {
        return BERTH_OK;
    }
    TRY_DONE(file_read(latest, TAG_LIMIT, &text, &length, error));
    TRY_DONE(find_tag(folder, tag_of(text), path, error));
done:
    memory_free(text);
    memory_free(latest);
    return status;
}
