// SPDX-License-Identifier: Apache-2.0
// Lists the option table for option_effects.py: a line "name jobs" for each row, where jobs are the
// numbers of the job's bits.
#include "core/options.h"

#include <stdio.h>

int main(void) {
    for (size_t i = 0; i < option_row_count; i++) {
        printf("%s", option_rows[i].name);
        for (unsigned bit = 0; bit < 32; bit++) {
            if ((option_rows[i].jobs >> bit & 1) != 0) {
                printf(" %u", bit);
            }
        }
        printf("\n");
    }
    return 0;
}
