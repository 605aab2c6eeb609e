// SPDX-License-Identifier: Apache-2.0
// The checksum of memory: the changes that it must find, and that the address does not matter.
#include "core/checksum.h"
#include "core/harness.h"

#include <string.h>

enum { WORDS = 80 };

static void fill(uint32_t words[WORDS]) {
    for (uint32_t i = 0; i < WORDS; i++) {
        words[i] = i * 0x89abcdef;
    }
}

static void flip(uint32_t *words, size_t bit) {
    ((unsigned char *)words)[bit / 8] ^= (unsigned char)(1 << bit % 8);
}

static void test_every_flipped_bit_is_found(void **state) {
    uint32_t words[WORDS];
    fill(words);
    for (size_t bytes = 0; bytes <= sizeof words; bytes += 7) {
        const uint64_t sum = checksum_bytes(words, bytes);
        for (size_t bit = 0; bit < bytes * 8; bit++) {
            flip(words, bit);
            assert_true(checksum_bytes(words, bytes) != sum);
            flip(words, bit);
        }
        assert_true(checksum_bytes(words, bytes) == sum);
    }
}

// The n-th block of 16 words from the end, where an empty block follows the last, counts n times: a
// bit, and the one below it in the block at twice the distance, must not cancel out.
static void test_pairs_of_flipped_bits_are_found(void **state) {
    enum { BLOCKS = 1024 };
    static uint32_t words[16 * BLOCKS];
    for (size_t n = 2; 2 * n <= BLOCKS + 1; n++) {
        uint32_t *near = &words[16 * (BLOCKS + 1 - n)], *far = &words[16 * (BLOCKS + 1 - 2 * n)];
        for (int bit = 1; bit < 32; bit += 6) {
            *near = 1U << bit;
            const uint64_t sum = checksum_bytes(words, sizeof words);
            *near = 0;
            *far = 1U << (bit - 1);
            assert_true(checksum_bytes(words, sizeof words) != sum);
            *far = 0;
        }
    }
}

static void test_words_that_are_swapped_are_found(void **state) {
    uint32_t words[WORDS];
    fill(words);
    const uint64_t sum = checksum_bytes(words, sizeof words);
    for (size_t i = 0; i < WORDS; i++) {
        for (size_t k = 0; k < i; k++) {
            const uint32_t word = words[i];
            words[i] = words[k];
            words[k] = word;
            assert_true(checksum_bytes(words, sizeof words) != sum);
            words[k] = words[i];
            words[i] = word;
        }
    }
}

static void test_length_counts_and_address_does_not(void **state) {
    static const char zeros[9];
    char bytes[200], moved[201];
    assert_true(checksum_bytes(zeros, 8) != checksum_bytes(zeros, 9));
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = moved[i + 1] = (char)(i * 31);
    }
    assert_true(checksum_bytes(bytes, sizeof bytes) == checksum_bytes(moved + 1, sizeof bytes));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_flipped_bit_is_found),
        cmocka_unit_test(test_pairs_of_flipped_bits_are_found),
        cmocka_unit_test(test_words_that_are_swapped_are_found),
        cmocka_unit_test(test_length_counts_and_address_does_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
