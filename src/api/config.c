// SPDX-License-Identifier: Apache-2.0
// Settings by name: structs that own the values of the option table.
#include "core/error.h"
#include "core/memory.h"
#include "core/options.h"

#include <string.h>

void berth_config_init(struct berth_config *config) {
    option_defaults(config);
}

struct berth_config *berth_config_new(void) {
    struct berth_config *config = memory_new(sizeof *config);
    char **owned = memory_array_zeroed(option_row_count, sizeof *owned);
    if (config == NULL || owned == NULL) {
        memory_free(config);
        memory_free(owned);
        return NULL;
    }
    option_defaults(config);
    config->owned = owned;
    return config;
}

void berth_config_free(struct berth_config *config) {
    for (size_t i = 0; config != NULL && i < option_row_count; i++) {
        memory_free(config->owned[i]);
    }
    if (config != NULL) {
        memory_free(config->owned);
        memory_free(config);
    }
}

static enum berth_status set_copy(struct berth_config *config, const struct option_row *row,
                                  const char *value, struct berth_error *error) {
    char *copy = memory_string(value);
    if (copy == NULL) {
        return error_no_memory(error, strlen(value) + 1, "a setting");
    }
    enum berth_status status = option_set(config, row, copy, error);
    if (status != BERTH_OK) {
        memory_free(copy);
        return status;
    }
    char **owned = &config->owned[row - option_rows];
    memory_free(*owned);
    *owned = copy;
    return BERTH_OK;
}

enum berth_status berth_config_set(struct berth_config *config, const char *name, const char *value,
                                   struct berth_error *error) {
    const struct option_row *row = option_find(name);
    struct option_spelling nearest;
    if (row == NULL) {
        const char *near = option_nearest(name, ~0u, &nearest);
        return error_set(error, BERTH_USAGE, "unknown setting \"%s\"%s%s%s", name,
                         near != NULL ? "; did you mean \"" : "", near != NULL ? near : "",
                         near != NULL ? "\"?" : "");
    }
    return config->owned != NULL ? set_copy(config, row, value, error)
                                 : option_set(config, row, value, error);
}
