// SPDX-License-Identifier: Apache-2.0
// Prints the option table for option_effects.py: one line "name,alias,... jobs" per row, where jobs
// are the bits of the row's jobs. Leaves out JOB_SERVE, which only words the help of a server.
#include "settings/settings.h"

#include <stdio.h>

int main(void) {
    for (size_t i = 0; i < option_row_count; i++) {
        const char *aliases = option_rows[i].aliases;
        char alias[OPTION_NAME_SIZE];
        printf("%s", option_rows[i].name);
        while (option_next_name(&aliases, alias)) {
            printf(",%s", alias);
        }
        for (unsigned bit = 0; bit < 32; bit++) {
            if (((option_rows[i].jobs & ~(unsigned)JOB_SERVE) >> bit & 1) != 0) {
                printf(" %u", bit);
            }
        }
        printf("\n");
    }
    return 0;
}
