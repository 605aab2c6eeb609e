// SPDX-License-Identifier: Apache-2.0
// Feeds every file of a corpus folder to a fuzz target, without a fuzzer. An input that is
// to be replayed with each failing allocation (fuzz/input.h) is replayed until none fails.
#include "input.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void replay(uint8_t *bytes, size_t size) {
    int each = size >= 2 && bytes[1] == FUZZ_FAIL_EACH;
    uint8_t fail_at = 0;
    do {
        fuzz_allocation_failed = 0;
        if (each) {
            bytes[1] = ++fail_at;
        }
        LLVMFuzzerTestOneInput(bytes, size);
    } while (each && fuzz_allocation_failed && fail_at < FUZZ_FAIL_EACH - 1);
}

static void replay_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(size > 0 ? size : 1);
    if (bytes == NULL || fread(bytes, 1, size, file) != size) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(1);
    }
    fclose(file);
    replay(bytes, size);
    free(bytes);
}

int main(int argument_count, char **arguments) {
    DIR *folder = argument_count == 2 ? opendir(arguments[1]) : NULL;
    if (folder == NULL) {
        fprintf(stderr, "usage: replay CORPUS_FOLDER\n");
        return 2;
    }
    size_t count = 0;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", arguments[1], entry->d_name);
        replay_file(path);
        count++;
    }
    closedir(folder);
    printf("%zu files replayed\n", count);
    return count > 0 ? 0 : 1;
}
