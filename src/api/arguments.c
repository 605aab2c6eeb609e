// SPDX-License-Identifier: Apache-2.0
#include "api/arguments.h"

enum berth_status argument_texts(const char *const *texts, size_t count, const char *what,
                                 struct berth_error *error) {
    for (size_t i = 0; i < count; i++) {
        if (texts == NULL || texts[i] == NULL) {
            return error_set(error, BERTH_USAGE, "%s %zu of %zu is NULL", what, i + 1, count);
        }
    }
    return BERTH_OK;
}

enum berth_status argument_at_least_0(const char *name, int64_t value, struct berth_error *error) {
    return value >= 0 ? BERTH_OK
                      : error_set(error, BERTH_USAGE, "%s %lld: expected 0 or more", name,
                                  (long long)value);
}
