// SPDX-License-Identifier: Apache-2.0
// Exact match and F1 of single answers; squad_metrics.h has those of data sets and files.
#ifndef BERTH_METRICS_SQUAD_MATCH_H
#define BERTH_METRICS_SQUAD_MATCH_H

#include "core/error.h"
#include "data/squad/squad.h"

#include <stddef.h>

struct squad_match {
    int exact;
    double f1;
    size_t reference_words; // tokens of the reference's normal form
};

// version_2 chooses what the F1 of texts without tokens is. When it fails, *match is all zero.
enum berth_status squad_match(const char *prediction, const char *reference, int version_2,
                              struct squad_match *match, struct berth_error *error);

// The best over an example's references, exact match and F1 each by itself. Version 2 leaves
// references without tokens out and takes "" when none is left.
enum berth_status squad_match_example(const struct squad_example *example, const char *prediction,
                                      int version_2, struct squad_match *best,
                                      struct berth_error *error);

#endif
