// SPDX-License-Identifier: Apache-2.0
// Shared by the fuzz targets: settings from the first bytes of an input, so that the fuzzer varies
// them, a failing allocation, and the input as a file.
#ifndef BERTH_FUZZ_INPUT_H
#define BERTH_FUZZ_INPUT_H

#include "core/error.h"
#include "core/memory.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void require(int holds) {
    if (!holds) {
        abort();
    }
}

// Reads the text up to its end, so that a sanitizer finds one without an end. A plain comparison of
// strlen with SIZE_MAX is always true, and compilers leave it out.
static inline void fuzz_read_text(const char *text) {
    volatile size_t length = strlen(text);
    (void)length;
}

// An input: a byte of settings, the number of the allocation that fails (0: none), and the rest.
// tests/fuzz/replay.c replays an input whose number is FUZZ_FAIL_EACH with each number from 1 on
// until no allocation fails.
enum { FUZZ_FAIL_EACH = 255 };

struct fuzz_input {
    unsigned settings, fail_at;
    const uint8_t *bytes;
    size_t size;
};

static inline struct fuzz_input fuzz_input_of(const uint8_t *data, size_t size) {
    struct fuzz_input input = {.bytes = data};
    if (size >= 2) {
        input = (struct fuzz_input){data[0], data[1], data + 2, size - 2};
    }
    return input;
}

// One object in the program: an allocation failed since it was set to 0.
__attribute__((weak)) int fuzz_allocation_failed;

// Between fuzz_failing_begin and fuzz_failing_stop the `fail_at`-th allocation fails.
// fuzz_failing_stop returns whether there was one; fuzz_failing_end also requires that the failure
// was reported as the status.
static inline void fuzz_failing_begin(unsigned fail_at) {
    memory_fail_at(fail_at, 0);
}

static inline int fuzz_failing_stop(unsigned fail_at) {
    int failed = memory_fail_at(0, 0) >= fail_at && fail_at > 0;
    fuzz_allocation_failed |= failed;
    return failed;
}

static inline int fuzz_failing_end(unsigned fail_at, enum berth_status status,
                                   const struct berth_error *error) {
    int failed = fuzz_failing_stop(fail_at);
    require(failed == (status == BERTH_NO_MEMORY));
    require(status == BERTH_OK || error->message[0] != '\0');
    return failed;
}

// The path of a memory file with the bytes; all runs share one file.
static inline const char *fuzz_file(const void *bytes, size_t size) {
    static int file = -1;
    static char path[64];
    if (file < 0) {
        file = memfd_create("fuzz", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    }
    require(file >= 0 && ftruncate(file, (off_t)size) == 0 &&
            pwrite(file, bytes, size, 0) == (ssize_t)size);
    return path;
}

// A new folder, in memory where the system has one; `at_exit` removes it.
static inline void fuzz_make_folder(char folder[64], void (*at_exit)(void)) {
    snprintf(folder, 64, "%s/berth-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    require(mkdtemp(folder) != NULL && atexit(at_exit) == 0);
}

static char fuzz_link[64];

static inline void fuzz_remove_link(void) {
    unlink(fuzz_link);
}

// The same under a name with this ending, for readers that recognise a file by its name.
static inline const char *fuzz_named_file(const uint8_t *bytes, size_t size, const char *ending) {
    const char *file = fuzz_file(bytes, size);
    if (fuzz_link[0] == '\0') {
        require(atexit(fuzz_remove_link) == 0);
    }
    fuzz_remove_link();
    snprintf(fuzz_link, sizeof fuzz_link, "/tmp/berth-fuzz-%ld%s", (long)getpid(), ending);
    require(symlink(file, fuzz_link) == 0);
    return fuzz_link;
}

#endif
