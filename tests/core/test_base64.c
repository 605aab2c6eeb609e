// SPDX-License-Identifier: Apache-2.0
// Base64: the test vectors of RFC 4648, section 10, and every digit.
#include "core/base64.h"
#include "core/harness.h"

#include <string.h>

static void check(const char *bytes, size_t length, const char *expected) {
    struct buffer text = {0};
    base64_put(&text, bytes, length);
    assert_false(text.failed);
    assert_int_equal(text.length, strlen(expected));
    assert_memory_equal(text.bytes != NULL ? text.bytes : "", expected, text.length);
    buffer_done(&text);
}

// Prefixes of "foobar": what follows the bytes must not count.
static void test_vectors(void **state) {
    static const char *const texts[] = {"",         "Zg==",     "Zm8=",    "Zm9v",
                                        "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
    for (size_t length = 0; length < sizeof texts / sizeof *texts; length++) {
        check("foobar", length, texts[length]);
    }
}

// The 64 numbers of six bits in their order.
static void test_every_digit(void **state) {
    char bytes[48];
    for (int i = 0; i < 16; i++) {
        const unsigned group = (unsigned)(4 * i) << 18 | (unsigned)(4 * i + 1) << 12 |
                               (unsigned)(4 * i + 2) << 6 | (unsigned)(4 * i + 3);
        bytes[3 * i] = (char)(group >> 16);
        bytes[3 * i + 1] = (char)(group >> 8);
        bytes[3 * i + 2] = (char)group;
    }
    check(bytes, sizeof bytes, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
}

static void test_text_is_appended(void **state) {
    struct buffer text = {0};
    buffer_put_text(&text, "sha256-");
    base64_put(&text, "\xff\xfe", 2);
    assert_int_equal(text.length, 11);
    assert_memory_equal(text.bytes, "sha256-//4=", 11);
    buffer_done(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors),
                                       cmocka_unit_test(test_every_digit),
                                       cmocka_unit_test(test_text_is_appended)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
