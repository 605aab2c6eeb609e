// SPDX-License-Identifier: Apache-2.0
// The keys that a DeepSpeed JSON may have, and their types: those of rows of the option table
// (core/options.h), whose value becomes the setting's, and the others. deepspeed.c reads a file by
// it.
#ifndef BERTH_SETTINGS_DEEPSPEED_KEYS_H
#define BERTH_SETTINGS_DEEPSPEED_KEYS_H

#include "format/json/json.h"
#include "settings/settings.h"

#include <stddef.h>

enum key_type { KEY_BOOLEAN, KEY_INTEGER, KEY_REAL, KEY_TEXT, KEY_PAIR, KEY_OBJECT, KEY_ANY };

enum key_use {
    KEY_READ,    // deepspeed.c acts on it, or it belongs to a row whose setting has another type
    KEY_SECTION, // an object whose own keys are in the table
    KEY_NEVER,   // no effect: logged if it requests something
    KEY_ALWAYS   // always in effect: logged if it is false
};

struct deepspeed_keys {
    const char *section; // "" or the dotted path of the object that contains them
    enum key_type type;
    enum key_use use;
    const char *names; // separated by blanks
    const char *why;   // KEY_NEVER and KEY_ALWAYS: the reason, for the log
};

extern const struct deepspeed_keys deepspeed_keys[];
extern const size_t deepspeed_keys_count;

// Whether the dotted path is `section`, a dot and a name without dots; *name is then that name.
int deepspeed_is_in_section(const char *path, const char *section, const char **name);

// The value at a dotted path, with numbers for elements of arrays; NULL if it is absent or the text
// "auto".
const json *deepspeed_value(const json *root, const char *path);

// Whether the value at a dotted path is the text "auto"; `deepspeed_has_auto`: whether any value of
// the file is, as in files for transformers' Trainer, which DeepSpeed alone does not accept.
int deepspeed_is_auto(const json *root, const char *path);
int deepspeed_has_auto(const json *root);

// Checks that every key is known and has the right type; otherwise BERTH_CONFIG, naming file, key
// and the nearest known one. Logs the keys that have no effect, and why.
enum berth_status deepspeed_check(const json *root, const char *path, const struct berth_log *log,
                                  struct berth_error *error);

#endif
