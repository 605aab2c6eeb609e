// SPDX-License-Identifier: Apache-2.0
// Heap memory: overflow, alignment, and the hook that makes an allocation fail.
#include "core/harness.h"
#include "core/memory.h"

#include <string.h>

static void test_overflow_is_refused(void **state) {
    (void)state;
    assert_null(memory_array(SIZE_MAX / 2, 3));
    assert_null(memory_array_zeroed(SIZE_MAX / 2, 3));
    assert_null(memory_resize(NULL, SIZE_MAX, SIZE_MAX));
}

static void test_zero_bytes_are_a_block(void **state) {
    (void)state;
    void *blocks[] = {memory_new(0), memory_array(0, 4), memory_array_zeroed(4, 0)};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        assert_non_null(blocks[i]);
        memory_free(blocks[i]);
    }
    memory_free(NULL);
}

static void test_pages_are_aligned_and_zero(void **state) {
    (void)state;
    size_t sizes[] = {0, 1, 4097, 5 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *block = memory_pages(sizes[i]);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % 64, 0);
        for (size_t at = 0; at < sizes[i]; at += 997) {
            assert_int_equal(block[at], 0);
        }
        memory_pages_free(block, sizes[i]);
    }
    memory_pages_free(NULL, 10);
}

static void test_reserved_pages_are_those_not_written(void **state) {
    (void)state;
    const uint64_t before = memory_pages_reserved(), mebibyte = 1 << 20;
    char *block = memory_pages(64 * mebibyte), *other = memory_pages(3 * mebibyte);
    assert_int_equal(memory_pages_reserved() - before, 67 * mebibyte);
    memset(block + 16 * mebibyte, 1, 32 * mebibyte);
    const uint64_t reserved = memory_pages_reserved() - before;
    assert_true(reserved <= 35 * mebibyte && reserved >= 31 * mebibyte); // pages may be huge
    memory_pages_discard(block, 64 * mebibyte);
    assert_int_equal(memory_pages_reserved() - before, 67 * mebibyte);
    memory_pages_free(block, 64 * mebibyte);
    assert_int_equal(memory_pages_reserved() - before, 3 * mebibyte);
    memory_pages_free(other, 3 * mebibyte);
    assert_int_equal(memory_pages_reserved(), before);
}

static void test_freed_pages_leave_the_list_of_blocks(void **state) {
    (void)state;
    const uint64_t before = memory_pages_reserved();
    for (int i = 0; i < 5000; i++) { // more than the list has rows
        memory_pages_free(memory_pages(4096), 4096);
    }
    char *block = memory_pages(1 << 20);
    assert_int_equal(memory_pages_reserved() - before, 1 << 20);
    memory_pages_free(block, 1 << 20);
}

static void test_strings(void **state) {
    (void)state;
    char *copy = memory_string_of("abcdef", 3);
    assert_string_equal(copy, "abc");
    copy = memory_resize(copy, 10, 1);
    assert_string_equal(copy, "abc");
    memory_free(copy);
}

static int take(void) {
    void *block = memory_new(8);
    memory_free(block);
    return block != NULL;
}

static void test_hook_fails_one_call_or_all_after(void **state) {
    (void)state;
    memory_fail_at(3, 0);
    assert_true(take() && take() && !take() && take());
    assert_int_equal(memory_fail_at(2, 1), 4);
    assert_true(take() && !take() && !take());
    memory_fail_at(0, 0);
    assert_true(take());
}

static void test_failed_resize_keeps_the_block(void **state) {
    (void)state;
    char *text = memory_string("kept");
    memory_fail_at(1, 0);
    assert_null(memory_resize(text, 100, 1));
    memory_fail_at(0, 0);
    assert_string_equal(text, "kept");
    memory_free(text);
}

// A million elements one by one: few allocations, nothing lost.
static void test_arrays_double(void **state) {
    (void)state;
    uint32_t *items = NULL;
    size_t capacity = 0;
    memory_fail_at(0, 0);
    for (uint32_t i = 0; i < 1000000; i++) {
        items = memory_grow(items, &capacity, i + 1, sizeof *items);
        assert_non_null(items);
        assert_true(capacity > i);
        items[i] = i;
    }
    assert_in_range(memory_fail_at(0, 0), 10, 22);
    for (uint32_t i = 0; i < 1000000; i++) {
        assert_int_equal(items[i], i);
    }
    size_t wanted = 5 * capacity;
    items = memory_grow(items, &capacity, wanted, sizeof *items);
    assert_int_equal(capacity, wanted);
    assert_ptr_equal(memory_grow(items, &capacity, wanted, sizeof *items), items);
    memory_free(items);
}

static void test_an_array_without_elements_is_a_block(void **state) {
    (void)state;
    size_t capacity = 0;
    void *items = memory_grow(NULL, &capacity, 0, 8);
    assert_non_null(items);
    memory_free(items);
}

static void test_an_array_that_cannot_grow_stays(void **state) {
    (void)state;
    char *text = memory_string("kept");
    size_t capacity = 5;
    memory_fail_at(1, 0);
    assert_null(memory_grow(text, &capacity, 6, 1));
    memory_fail_at(0, 0);
    assert_null(memory_grow(text, &capacity, SIZE_MAX / 2, 3));
    assert_int_equal(capacity, 5);
    assert_string_equal(text, "kept");
    memory_free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overflow_is_refused),
        cmocka_unit_test(test_zero_bytes_are_a_block),
        cmocka_unit_test(test_pages_are_aligned_and_zero),
        cmocka_unit_test(test_reserved_pages_are_those_not_written),
        cmocka_unit_test(test_freed_pages_leave_the_list_of_blocks),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_hook_fails_one_call_or_all_after),
        cmocka_unit_test(test_failed_resize_keeps_the_block),
        cmocka_unit_test(test_arrays_double),
        cmocka_unit_test(test_an_array_without_elements_is_a_block),
        cmocka_unit_test(test_an_array_that_cannot_grow_stays),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
