// SPDX-License-Identifier: Apache-2.0
// Finds the newest tag of a folder, the one that its text file `latest` names, and the model's file
// in it. Whoever is given a folder of DeepSpeed calls it first; the file that it finds is opened by
// deepspeed.c.
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

// Sets *path to the model's file in the folder, if it is there.
static enum berth_status find_model(const char *folder, char **path, struct berth_error *error) {
    const struct path model = path_in(folder, DEEPSPEED_MODEL_FILE);
    if (!file_exists(model.text)) {
        return BERTH_OK;
    }
    *path = memory_string(model.text);
    return *path != NULL ? BERTH_OK : error_no_memory(error, 0, "a path");
}

static enum berth_status find_tag(const char *folder, const char *tag, char **path,
                                  struct berth_error *error) {
    if (!is_plain(tag)) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s/latest: expected the name of a folder next to it, found \"%.*s\"",
                         folder, UTF8_SHOWN(tag, 200));
    }
    const struct path inner = path_in(folder, tag);
    TRY(find_model(inner.text, path, error));
    if (*path != NULL) {
        return BERTH_OK;
    }
    const int is_zero3 = file_exists(path_in(inner.text, ZERO3_STATES).text);
    return is_zero3 ? error_set(error, BERTH_BAD_DATA,
                                "%s: expected ZeRO stage 1 or 2, found stage 3: gather the weights "
                                "with the zero_to_fp32.py next to `latest` and give its output",
                                inner.text)
                    : error_set(error, BERTH_NO_INPUT,
                                "%s: missing " DEEPSPEED_MODEL_FILE
                                ", but `latest` names the tag \"%s\"; copy that file into the "
                                "folder, or give the folder of another tag",
                                inner.text, tag);
}

enum berth_status deepspeed_find(const char *folder, char **path, struct berth_error *error) {
    const struct path latest = path_in(folder, "latest");
    OWNED char *text = NULL;
    size_t length;
    *path = NULL;
    TRY(find_model(folder, path, error));
    if (*path != NULL || !file_exists(latest.text)) {
        return BERTH_OK;
    }
    TRY(file_read(latest.text, TAG_LIMIT, &text, &length, error));
    return find_tag(folder, tag_of(text), path, error);
}
