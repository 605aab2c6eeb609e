// SPDX-License-Identifier: Apache-2.0
// CRC-32C: the published values, the instruction against the tables, and the mask.
#include "core/harness.h"
#include "core/rng.h"
#include "format/checksum/crc32c.h"

#include <string.h>

typedef uint32_t checksum(uint32_t crc, const void *bytes, size_t length);
static checksum *const both[] = {crc32c, crc32c_portable};

// RFC 3720, B.4, and the usual check value.
static void test_published_values(void **state) {
    (void)state;
    unsigned char zeros[32] = {0}, ones[32], up[32], down[32];
    memset(ones, 0xff, sizeof ones);
    for (int i = 0; i < 32; i++) {
        up[i] = (unsigned char)i;
        down[i] = (unsigned char)(31 - i);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(both[i](0, "123456789", 9), 0xe3069283u);
        assert_int_equal(both[i](0, zeros, 32), 0x8a9136aau);
        assert_int_equal(both[i](0, ones, 32), 0x62a8ab43u);
        assert_int_equal(both[i](0, up, 32), 0x46dd794eu);
        assert_int_equal(both[i](0, down, 32), 0x113fdb5cu);
        assert_int_equal(both[i](0, "", 0), 0);
    }
}

// Every length and alignment, in one call and in two.
static void test_instruction_and_tables_agree(void **state) {
    (void)state;
    unsigned char bytes[128];
    uint64_t at = 0;
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)rng_draw(1, 2, &at);
    }
    for (size_t begin = 0; begin < 9; begin++) {
        for (size_t length = 0; begin + length <= sizeof bytes; length++) {
            uint32_t whole = crc32c_portable(0, bytes + begin, length);
            assert_int_equal(crc32c(0, bytes + begin, length), whole);
            size_t cut = length / 3;
            for (size_t i = 0; i < 2; i++) {
                uint32_t first = both[i](0, bytes + begin, cut);
                assert_int_equal(both[1 - i](first, bytes + begin + cut, length - cut), whole);
            }
        }
    }
}

static void test_mask(void **state) {
    (void)state;
    assert_int_equal(crc32c_mask(0), 0xa282ead8u);
    assert_int_equal(crc32c_mask(0x00008000u), 0xa282ead9u); // bit 15 to bit 0
    assert_int_equal(crc32c_mask(1), 0xa284ead8u);           // bit 0 to bit 17
    uint64_t at = 0;
    for (int i = 0; i < 1000; i++) {
        uint32_t crc = rng_draw(3, 4, &at);
        assert_int_equal(crc32c_unmask(crc32c_mask(crc)), crc);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_values),
        cmocka_unit_test(test_instruction_and_tables_agree),
        cmocka_unit_test(test_mask),
    };
    return cmocka_run_group_tests_name("crc32c", tests, NULL, NULL);
}
