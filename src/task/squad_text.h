// SPDX-License-Identifier: Apache-2.0
// The text of a predicted span as it stands in the context (systems.md section 7, rule 10).
#ifndef BERTH_TASK_SQUAD_TEXT_H
#define BERTH_TASK_SQUAD_TEXT_H

#include "core/error.h"
#include "data/squad.h"
#include "data/squad_features.h"

#include <stddef.h>
#include <stdint.h>

struct squad_text_source {
    const struct squad_example *example;
    const struct squad_feature_set *set;
    const struct tokenizer *tokenizer;
};

// The answer for rows [start, end] (both within the document part) of `feature`: *text is newly
// allocated (memory_free), [*begin, *past) its characters in the context.
enum berth_status squad_text_of_span(const struct squad_text_source *source,
                                     const struct squad_feature *feature, int32_t start,
                                     int32_t end, char **text, int64_t *begin, int64_t *past,
                                     struct berth_error *error);

// get_final_text: the part of `original` (words joined by single blanks) that the normalised text
// `predicted` came from, as bytes [*begin, *past) of it; all of it when the two cannot be aligned.
enum berth_status squad_text_align(const struct tokenizer *tokenizer, const char *predicted,
                                   const char *original, size_t length, size_t *begin, size_t *past,
                                   struct berth_error *error);

#endif
