// SPDX-License-Identifier: Apache-2.0
// Prints the option table for option_effects.py: one line "name jobs" per row, where jobs is the
// bit set of the row's jobs. Leaves out JOB_SERVE, which only words the help of a server.
#include "core/options.h"

#include <stdio.h>

int main(void) {
    for (size_t i = 0; i < option_row_count; i++) {
        printf("%s", option_rows[i].name);
        for (unsigned bit = 0; bit < 32; bit++) {
            if (((option_rows[i].jobs & ~(unsigned)JOB_SERVE) >> bit & 1) != 0) {
                printf(" %u", bit);
            }
        }
        printf("\n");
    }
    return 0;
}
