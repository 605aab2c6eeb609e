// SPDX-License-Identifier: Apache-2.0
// Settings by name: the public interface to the option table.
#include "api/arguments.h"

void berth_config_init(struct berth_config *config) {
    if (config != NULL) {
        option_defaults(config);
    }
}

enum berth_status berth_config_set(struct berth_config *config, const char *name, const char *value,
                                   struct berth_error *error) {
    REQUIRE(config, error);
    REQUIRE(name, error);
    REQUIRE(value, error);
    const struct option_row *row = option_find(name);
    if (row == NULL) {
        struct option_spelling nearest;
        const char *near = option_nearest(name, ~0u, &nearest);
        return error_set(error, BERTH_USAGE, "unknown setting \"%s\"%s%s%s", name,
                         near != NULL ? "; did you mean \"" : "", near != NULL ? near : "",
                         near != NULL ? "\"?" : "");
    }
    return option_set(config, row, value, error);
}
