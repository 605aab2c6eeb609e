// SPDX-License-Identifier: Apache-2.0
// Finds the newest checkpoint in a folder of numbered ones: that of the highest step. Runs that
// save in the format of NVIDIA's programs call it to resume and to clear away old ones; the file is
// opened by torch.c.
#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/words.h"
#include "format/torch/torch.h"

#include <string.h>

#define PREFIX "ckpt_"
#define ENDING ".pt"

int64_t torch_find_step(const char *name) {
    int64_t step = -1;
    const size_t length = strlen(name), around = strlen(PREFIX) + strlen(ENDING);
    if (length > around && strncmp(name, PREFIX, strlen(PREFIX)) == 0 &&
        name_has_suffix(name, ENDING)) {
        (void)number_parse_digits(name + strlen(PREFIX), length - around, &step);
    }
    return step;
}

enum berth_status torch_find(const char *folder, char **path, struct berth_error *error) {
    char **names;
    const char *newest = NULL;
    int64_t highest = -1;
    *path = NULL;
    TRY(dir_list(folder, &names, error));
    for (size_t i = 0; names[i] != NULL; i++) {
        int64_t step = torch_find_step(names[i]);
        if (step > highest) {
            highest = step;
            newest = names[i];
        }
    }
    enum berth_status status = BERTH_OK;
    if (newest != NULL) {
        *path = path_join(folder, newest);
        status = *path != NULL ? BERTH_OK : error_no_memory(error, 0, "a path");
    }
    memory_free(names);
    return status;
}
