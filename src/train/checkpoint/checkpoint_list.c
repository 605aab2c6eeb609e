// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/checkpoint_list.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "checkpoint-"

// The step in "checkpoint-<digits>" without leading zeros, or -1.
static int64_t step_of(const char *name) {
    size_t prefix = strlen(PREFIX);
    int64_t step;
    if (strncmp(name, PREFIX, prefix) != 0 || strspn(name + prefix, "0123456789") == 0 ||
        !number_parse_integer(name + prefix, &step)) {
        return -1;
    }
    char canonical[64];
    snprintf(canonical, sizeof canonical, PREFIX "%" PRId64, step);
    return strcmp(canonical, name) == 0 ? step : -1;
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

enum berth_status checkpoint_list(const char *output_dir, int64_t **steps, size_t *count,
                                  struct berth_error *error) {
    *steps = NULL;
    *count = 0;
    char **names;
    TRY(dir_list(output_dir, &names, error));
    size_t all = 0;
    while (names[all] != NULL) {
        all++;
    }
    *steps = memory_array(all + 1, sizeof **steps);
    if (*steps == NULL) {
        memory_free(names);
        return error_no_memory(error, all * sizeof **steps, "the list of checkpoints");
    }
    for (size_t i = 0; i < all; i++) {
        int64_t step = step_of(names[i]);
        if (step >= 0) {
            (*steps)[(*count)++] = step;
        }
    }
    qsort(*steps, *count, sizeof **steps, compare);
    memory_free(names);
    return BERTH_OK;
}

char *checkpoint_path(const char *output_dir, int64_t step) {
    char name[64];
    snprintf(name, sizeof name, PREFIX "%" PRId64, step);
    return path_join(output_dir, name);
}

char *checkpoint_temporary_path(const char *output_dir, int64_t step, const char *purpose) {
    char name[128];
    snprintf(name, sizeof name, CHECKPOINT_TEMPORARY "%" PRId64 "-%.32s", step, purpose);
    return path_join(output_dir, name);
}

int checkpoint_is_temporary(const char *name) {
    return strncmp(name, CHECKPOINT_TEMPORARY, strlen(CHECKPOINT_TEMPORARY)) == 0 ||
           file_is_temporary(name);
}
