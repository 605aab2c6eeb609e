// SPDX-License-Identifier: Apache-2.0
// A temporary folder for each test, under TMPDIR, removed afterwards.
//
//   cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)
//   scratch("name") is a path in it, valid for the next 15 calls.
#ifndef BERTH_TESTS_CORE_SCRATCH_H
#define BERTH_TESTS_CORE_SCRATCH_H

#include "core/file.h"
#include "core/harness.h"
#include "core/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char scratch_folder[256];

static inline const char *scratch(const char *name) {
    static char paths[16][512];
    static unsigned next;
    char *path = paths[next++ % 16];
    snprintf(path, sizeof paths[0], "%s/%s", scratch_folder, name);
    return path;
}

static inline int scratch_setup(void **state) {
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(scratch_folder, sizeof scratch_folder, "%s/berth-test-XXXXXX",
             base != NULL && base[0] != '\0' ? base : P_tmpdir);
    return mkdtemp(scratch_folder) != NULL ? 0 : -1;
}

static inline int scratch_teardown(void **state) {
    (void)state;
    file_fail_at(0, 0);
    memory_fail_at(0, 0);
    return dir_remove(scratch_folder, NULL) == BERTH_OK ? 0 : -1;
}

#define SCRATCH_TEST(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)

// Writes without fsync: thousands of synced files would be slow.
static inline void scratch_write_bytes(const char *name, const void *bytes, size_t length) {
    FILE *file = fopen(scratch(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static inline void scratch_write(const char *name, const char *text) {
    scratch_write_bytes(name, text, strlen(text));
}

// A path in the folder of real data: BERTH_DATA, or the default next to the sources. Valid for the
// next 15 calls.
static inline const char *data_path(const char *name) {
    static char paths[16][512];
    static unsigned next;
    const char *folder = getenv("BERTH_DATA");
    char *path = paths[next++ % 16];
    snprintf(path, sizeof paths[0], "%s/%s",
             folder != NULL ? folder : BERTH_TEST_SOURCE_DIR "/../shared/data", name);
    return path;
}

// A folder that does not exist has none.
static inline void assert_no_temporary(const char *folder) {
    char **names;
    if (!dir_exists(folder)) {
        return;
    }
    assert_int_equal(dir_list(folder, &names, NULL), BERTH_OK);
    for (size_t i = 0; names[i] != NULL; i++) {
        assert_null(strstr(names[i], ".tmp"));
    }
    memory_free(names);
}

// The number of files and folders in a folder.
static inline size_t count_entries(const char *folder) {
    char **names;
    size_t count = 0;
    assert_int_equal(dir_list(folder, &names, NULL), BERTH_OK);
    while (names[count] != NULL) {
        count++;
    }
    memory_free(names);
    return count;
}

static inline size_t scratch_count(void) {
    return count_entries(scratch_folder);
}

static inline void assert_file_holds(const char *path, const char *text) {
    char *bytes;
    size_t length;
    assert_int_equal(file_read(path, 1 << 20, &bytes, &length, NULL), BERTH_OK);
    assert_string_equal(bytes, text);
    memory_free(bytes);
}

static inline void assert_same_file(const char *a, const char *b) {
    char *bytes_a, *bytes_b;
    size_t length_a, length_b;
    struct berth_error error = {0};
    if (file_read(a, 1 << 28, &bytes_a, &length_a, &error) != BERTH_OK ||
        file_read(b, 1 << 28, &bytes_b, &length_b, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
        return;
    }
    if (length_a != length_b || memcmp(bytes_a, bytes_b, length_a) != 0) {
        fail_msg("%s and %s differ", a, b);
    }
    memory_free(bytes_a);
    memory_free(bytes_b);
}

static inline void assert_message_has(const struct berth_error *error, const char *part) {
    if (strstr(error->message, part) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", part, error->message);
    }
}

#endif
