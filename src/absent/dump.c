// SPDX-License-Identifier: Apache-2.0
// Stands in the library for the reader of a wiki's dump (wiki/), which only the program contains:
// the library prepares data from text, and a dump is refused with an error that says so.
#include "data/wikipedia/wikipedia.h"

#include <stdatomic.h>

enum berth_status wikipedia_text(const struct wikipedia_settings *settings,
                                 const struct berth_log *log, const atomic_int *stop,
                                 struct wikipedia_counts *counts, struct berth_error *error) {
    (void)log, (void)stop;
    *counts = (struct wikipedia_counts){0};
    return error_set(error, BERTH_UNAVAILABLE,
                     "wikipedia: the library does not read dumps (%s); extract the text with "
                     "`berth prepare --stages text`, and give its folder as extracted",
                     settings->dump);
}
