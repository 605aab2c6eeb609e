// SPDX-License-Identifier: Apache-2.0
// The checksum of memory: what it must find, and that it is the same at every address.
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

// The distance to the end counts as a factor, so bits that are flipped together in opposite
// directions must not cancel out: far from the end, by powers of two.
static void test_pairs_of_flipped_bits_are_found(void **state) {
    enum { LONG = 16 * 1024 }; // words
    static uint32_t words[LONG];
    memset(words, 0, sizeof words);
    for (size_t far = 1; far < LONG / 16; far *= 2) {
        const size_t at = LONG - 16 * far, near = LONG - 8 * far;
        for (int bit = 1; bit < 31 && far > 1; bit++) {
            words[at] = 0;
            words[near] = 1U << bit;
            const uint64_t sum = checksum_bytes(words, sizeof words);
            words[at] = 1U << (bit - 1);
            words[near] = 0;
            assert_true(checksum_bytes(words, sizeof words) != sum);
            words[at] = 0;
        }
    }
}

static void test_words_that_trade_places_are_found(void **state) {
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
        cmocka_unit_test(test_words_that_trade_places_are_found),
        cmocka_unit_test(test_length_counts_and_address_does_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
