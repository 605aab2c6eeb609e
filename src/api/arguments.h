// SPDX-License-Identifier: Apache-2.0
// Checks that the functions of berth.h apply to their arguments.
#ifndef BERTH_API_ARGUMENTS_H
#define BERTH_API_ARGUMENTS_H

#include "core/error.h"
#include "core/options.h"

#include <string.h>

// Returns BERTH_USAGE from the calling function if the pointer `argument` is NULL. The message
// names both, so the caller is a function of berth.h and the argument is called as it is there.
#define REQUIRE(argument, error) REQUIRE_AS(argument, #argument, error)
// The same where the parameter has another name here.
#define REQUIRE_AS(argument, name, error)                                                          \
    do {                                                                                           \
        if ((argument) == NULL) {                                                                  \
            return error_set(error, BERTH_USAGE, "%s: the argument \"%s\" is NULL", __func__,      \
                             name);                                                                \
        }                                                                                          \
    } while (0)

// The same for a `const struct berth_config *`, and if berth_config_set would refuse a setting in
// it. The variable `config` then points to a struct of this version (option_complete), which is
// valid until the calling block ends.
#define REQUIRE_CONFIG(config, error)                                                              \
    REQUIRE(config, error);                                                                        \
    struct berth_config whole_config_;                                                             \
    TRY(option_complete(&(config), &whole_config_, error));                                        \
    TRY(option_check(config, error))

// Empties results[count], which the calling function fills and its caller frees: before anything
// can fail. `results` may be NULL.
#define CLEAR(results, count) argument_clear(results, (count) * sizeof *(results))
static inline void argument_clear(void *results, size_t bytes) {
    if (results != NULL) {
        memset(results, 0, bytes);
    }
}

// BERTH_USAGE if one of texts[count] is NULL, or if the array is NULL and count is above 0. `what`
// names one element in the message.
enum berth_status argument_texts(const char *const *texts, size_t count, const char *what,
                                 struct berth_error *error);

// BERTH_USAGE if the setting `name` is negative.
enum berth_status argument_at_least_0(const char *name, int64_t value, struct berth_error *error);

#endif
