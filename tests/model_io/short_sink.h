// SPDX-License-Identifier: Apache-2.0
// A sink of parameters (model/params.h) that fails at a given call of `begin` or `end`.
#ifndef BERTH_TESTS_SHORT_SINK_H
#define BERTH_TESTS_SHORT_SINK_H

#include "model/params.h"

struct short_sink {
    float values[4096];
    size_t begins, ends; // calls that succeed
};

static inline float *begin_some(void *context, const struct param *param) {
    struct short_sink *sink = context;
    return sink->begins-- > 0 ? sink->values : NULL;
}

static inline enum berth_status end_some(void *context, const struct param *param, float *values,
                                         struct berth_error *error) {
    struct short_sink *sink = context;
    return sink->ends-- > 0 ? BERTH_OK : error_set(error, BERTH_IO, "no room for %s", param->name);
}

#endif
