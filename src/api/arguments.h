// SPDX-License-Identifier: Apache-2.0
// What the functions of berth.h check before they touch their arguments.
#ifndef BERTH_API_ARGUMENTS_H
#define BERTH_API_ARGUMENTS_H

#include "core/error.h"
#include "core/options.h"

// Returns BERTH_USAGE from the calling function when the pointer `argument` is NULL.
#define REQUIRE(argument, error)                                                                   \
    do {                                                                                           \
        if ((argument) == NULL) {                                                                  \
            return error_set(error, BERTH_USAGE, "%s: the argument \"%s\" is NULL", __func__,      \
                             #argument);                                                           \
        }                                                                                          \
    } while (0)

// The same for a `struct berth_config *`, and when a setting in it is none that berth_config_set
// would take.
#define REQUIRE_CONFIG(config, error)                                                              \
    do {                                                                                           \
        REQUIRE(config, error);                                                                    \
        TRY(option_check(config, error));                                                          \
    } while (0)

// BERTH_USAGE when one of texts[count] is NULL, or the array itself with a count above 0.
enum berth_status argument_texts(const char *const *texts, size_t count, struct berth_error *error);

#endif
