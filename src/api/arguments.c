// SPDX-License-Identifier: Apache-2.0
#include "api/arguments.h"

enum berth_status argument_texts(const char *const *texts, size_t count,
                                 struct berth_error *error) {
    for (size_t i = 0; i < count; i++) {
        if (texts == NULL || texts[i] == NULL) {
            return error_set(error, BERTH_USAGE, "text %zu of %zu is NULL", i + 1, count);
        }
    }
    return BERTH_OK;
}
