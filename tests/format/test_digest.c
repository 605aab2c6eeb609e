// SPDX-License-Identifier: Apache-2.0
// SHA-256 against the examples of FIPS 180-4, git's digest of a file against git, and libcrypto
// without memory.
#include "core/scratch.h"
#include "format/checksum/digest.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdlib.h>

static const char *const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
static const char *const nothing = // no bytes
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
static const char *const million_a =
    "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

static void test_memory(void **state) {
    (void)state;
    char hex[DIGEST_HEX_SIZE];
    assert_int_equal(digest_memory(DIGEST_SHA256, "abc", 3, hex, NULL), BERTH_OK);
    assert_string_equal(hex, abc);
    assert_int_equal(digest_memory(DIGEST_SHA256, "", 0, hex, NULL), BERTH_OK);
    assert_string_equal(hex, nothing);
}

// As `git hash-object` prints it.
static void test_git_blob(void **state) {
    (void)state;
    static const char *const expected = "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f";
    char hex[DIGEST_HEX_SIZE];
    scratch_write("a", "abc");
    assert_int_equal(digest_memory(DIGEST_GIT_BLOB, "abc", 3, hex, NULL), BERTH_OK);
    assert_string_equal(hex, expected);
    assert_int_equal(digest_file(DIGEST_GIT_BLOB, scratch("a"), hex, NULL), BERTH_OK);
    assert_string_equal(hex, expected);
}

static void test_file(void **state) {
    (void)state;
    char hex[DIGEST_HEX_SIZE], *text = memory_new(3000000);
    struct berth_error error;
    scratch_write("empty", "");
    assert_int_equal(digest_file(DIGEST_SHA256, scratch("empty"), hex, NULL), BERTH_OK);
    assert_string_equal(hex, nothing);
    memset(text, 'a', 3000000);
    assert_int_equal(file_write(scratch("a"), text, 1000000, NULL), BERTH_OK);
    assert_int_equal(digest_file(DIGEST_SHA256, scratch("a"), hex, NULL), BERTH_OK);
    assert_string_equal(hex, million_a);
    // More than one block of the file: the same as in memory.
    char expected[DIGEST_HEX_SIZE];
    assert_int_equal(file_write(scratch("a"), text, 3000000, NULL), BERTH_OK);
    assert_int_equal(digest_file(DIGEST_SHA256, scratch("a"), hex, NULL), BERTH_OK);
    assert_int_equal(digest_memory(DIGEST_SHA256, text, 3000000, expected, NULL), BERTH_OK);
    assert_string_equal(hex, expected);
    memory_free(text);
    assert_int_equal(digest_file(DIGEST_SHA256, scratch("none"), hex, &error), BERTH_NO_INPUT);
    assert_message_has(&error, scratch("none"));
}

// --- libcrypto without memory -------------------------------------------------------------------

static long allocations_left = -1; // -1: no limit
static int allocation_errno = ENOMEM;

static int may_allocate(void) {
    if (allocations_left < 0 || allocations_left-- > 0) {
        return 1;
    }
    errno = allocation_errno;
    return 0;
}

static void *limited_malloc(size_t size, const char *file, int line) {
    return may_allocate() ? malloc(size) : NULL;
}

static void *limited_realloc(void *old, size_t size, const char *file, int line) {
    return may_allocate() ? realloc(old, size) : NULL;
}

static void free_any(void *block, const char *file, int line) {
    free(block);
}

static enum berth_status with_allocations(long count, int of_file, struct berth_error *error) {
    char hex[DIGEST_HEX_SIZE];
    allocations_left = count;
    const enum berth_status status = of_file
                                         ? digest_file(DIGEST_GIT_BLOB, scratch("a"), hex, error)
                                         : digest_memory(DIGEST_GIT_BLOB, "abc", 3, hex, error);
    allocations_left = -1;
    return status;
}

// How many of the numbers of allocations are too few for a digest, which then fails in this way.
static int count_failures(int of_file, enum berth_status expected, const char *message) {
    struct berth_error error;
    int failures = 0;
    for (long count = 1; count < 20; count++) {
        const enum berth_status status = with_allocations(count, of_file, &error);
        if (status != BERTH_OK) {
            assert_int_equal(status, expected);
            assert_message_has(&error, message);
            failures++;
        }
    }
    return failures;
}

static void test_without_memory(void **state) {
    (void)state;
    const char *message = "out of memory for a git SHA-1 digest";
    struct berth_error error;
    scratch_write("a", "abc");
    for (int of_file = 0; of_file < 2; of_file++) {
        assert_int_equal(with_allocations(-1, of_file, NULL), BERTH_OK);
        assert_int_equal(with_allocations(0, of_file, &error), BERTH_NO_MEMORY);
        assert_message_has(&error, message);
        assert_true(count_failures(of_file, BERTH_NO_MEMORY, message) > 0);
        assert_int_equal(with_allocations(-1, of_file, NULL), BERTH_OK);
    }
}

static void test_failures_for_other_reasons(void **state) {
    (void)state;
    scratch_write("a", "abc");
    allocation_errno = 0;
    for (int of_file = 0; of_file < 2; of_file++) {
        assert_true(count_failures(of_file, BERTH_INTERNAL, "libcrypto cannot compute git SHA-1") >
                    0);
    }
    allocation_errno = ENOMEM;
}

int main(void) {
    if (CRYPTO_set_mem_functions(limited_malloc, limited_realloc, free_any) != 1) {
        return 1; // libcrypto has allocated already
    }
    const struct CMUnitTest tests[] = {SCRATCH_TEST(test_memory), SCRATCH_TEST(test_git_blob),
                                       SCRATCH_TEST(test_file), SCRATCH_TEST(test_without_memory),
                                       SCRATCH_TEST(test_failures_for_other_reasons)};
    return cmocka_run_group_tests_name("digest", tests, NULL, NULL);
}
