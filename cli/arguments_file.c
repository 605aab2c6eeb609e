// SPDX-License-Identifier: Apache-2.0
// Options from a JSON file, where a command line is the name of one: an object with a key for each
// option. The members become words, which arguments.c then reads like those of a shell, so values
// are checked in one place.
#include "cli.h"
#include "core/buffer.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/text_util.h"
#include "format/json/json.h"
#include "settings/settings.h"

#include <string.h>

// Appends the value of an option as the command line has it. A list has commas.
static enum berth_status put_value(struct buffer *word, const char *key, const json *value,
                                   struct berth_error *error) {
    char number[NUMBER_TEXT_SIZE];
    if (json_is_text(value)) {
        if (strlen(json_text(value)) != json_text_length(value)) {
            return error_set(error, BERTH_BAD_DATA, "the text contains a NUL character");
        }
        buffer_put_text(word, json_text(value));
        return BERTH_OK;
    }
    if (json_is_boolean(value)) {
        buffer_put_text(word, json_truth(value) ? "true" : "false");
    } else if (json_is_number_value(value)) {
        json_print_number(value, number);
        buffer_put_text(word, number);
    } else if (json_is_array_value(value)) {
        for (size_t i = 0; i < json_length(value); i++) {
            buffer_put_text(word, i > 0 ? "," : "");
            TRY(put_value(word, key, json_at(value, i), error));
        }
    } else {
        // The value of such a key is the object as one line of JSON.
        OWNED char *text = json_write(value, JSON_COMPACT);
        if (text == NULL) {
            return error_no_memory(error, 0, "an option");
        }
        buffer_put_text(word, text);
        return BERTH_OK;
    }
    return BERTH_OK;
}

// Whether the option takes a value or none: true is then the option alone, and false is as if it
// were not there.
static int may_stand_alone(const char *key) {
    const struct option_row *row = option_find(key);
    return row != NULL && row->type != OPTION_FLAG && row->alone != NULL;
}

// "--key=value"
static enum berth_status make_word(const char *path, const struct json_walk *walk, char **made,
                                   struct berth_error *error) {
    struct buffer word = {0};
    buffer_put_text(&word, "--");
    buffer_put_text(&word, walk->key);
    const int is_alone = json_is_boolean(walk->value) && may_stand_alone(walk->key);
    buffer_put_text(&word, is_alone ? "" : "=");
    enum berth_status status =
        is_alone ? BERTH_OK : put_value(&word, walk->key, walk->value, error);
    if (status == BERTH_BAD_DATA) {
        status = error_prefix(error, status, "%s: key \"%s\"", path, walk->key);
    }
    buffer_put_byte(&word, '\0');
    *made = status == BERTH_OK && !word.failed ? cli_own(memory_string(word.bytes)) : NULL;
    buffer_done(&word);
    return status == BERTH_OK && *made == NULL ? error_no_memory(error, 0, path) : status;
}

int cli_is_arguments_file(const struct cli_verb *verb, const char *word) {
    return verb->arguments_max == 0 && word[0] != '-' && name_has_extension(word, ".json");
}

enum berth_status cli_read_arguments_file(const char *path, int *count, char ***words,
                                          struct berth_error *error) {
    json *root;
    TRY(json_read_file(path, &root, error));
    struct json_walk walk = {.object = root};
    enum berth_status status = BERTH_OK;
    *count = 0;
    *words = cli_own(memory_array(json_length(root) + 1, sizeof **words));
    if (*words == NULL) {
        status = error_no_memory(error, 0, path);
    } else if (!json_is_object_value(root)) {
        status = error_set(error, BERTH_BAD_DATA, "%s: expected an object of options", path);
    }
    while (status == BERTH_OK && json_walk_next(&walk)) {
        const int is_off =
            json_is_boolean(walk.value) && !json_truth(walk.value) && may_stand_alone(walk.key);
        if (!json_is_null_value(walk.value) && !is_off) { // else the option's default
            status = make_word(path, &walk, &(*words)[*count], error);
            *count += status == BERTH_OK;
        }
    }
    json_free(root);
    return status;
}
