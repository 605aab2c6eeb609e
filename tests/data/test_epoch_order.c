// SPDX-License-Identifier: Apache-2.0
// Epoch orders in which no group has a text twice.
#include "core/harness.h"
#include "core/rng.h"
#include "data/batches/epoch_order.h"

#include <string.h>

#define ITEMS_MAX 4000
#define TEXTS 2

static uint32_t numbers[ITEMS_MAX * TEXTS], order[ITEMS_MAX];

// Each text of the first kind occurs in `repeats` items, each of the second in one.
static struct packer_source repeated(size_t count, size_t repeats, size_t group) {
    for (size_t i = 0; i < count; i++) {
        numbers[TEXTS * i] = (uint32_t)(i / repeats);
        numbers[TEXTS * i + 1] = (uint32_t)(count + i);
    }
    return (struct packer_source){.count = count,
                                  .texts = TEXTS,
                                  .group = group,
                                  .numbers = numbers,
                                  .number_count = 2 * count};
}

// Each text is one of `different`, at random.
static struct packer_source random_texts(size_t count, size_t different, size_t group) {
    for (size_t i = 0; i < count * TEXTS; i++) {
        numbers[i] = (uint32_t)i;
    }
    rng_shuffle(7, 1, numbers, count * TEXTS);
    for (size_t i = 0; i < count * TEXTS; i++) {
        numbers[i] %= (uint32_t)different;
    }
    return (struct packer_source){.count = count,
                                  .texts = TEXTS,
                                  .group = group,
                                  .numbers = numbers,
                                  .number_count = different};
}

static int share(uint32_t a, uint32_t b) {
    for (size_t t = 0; t < TEXTS * TEXTS; t++) {
        if (numbers[TEXTS * a + t / TEXTS] == numbers[TEXTS * b + t % TEXTS]) {
            return 1;
        }
    }
    return 0;
}

// Makes an order, which must be a permutation; returns the items that share a text with an earlier
// one of their group.
static size_t make(const struct packer_source *source, uint64_t seed, int64_t epoch) {
    static char seen[ITEMS_MAX];
    size_t repeated_items = 0;
    memset(seen, 0, sizeof seen);
    assert_int_equal(epoch_order_make(source, seed, epoch, order, NULL), BERTH_OK);
    for (size_t i = 0; i < source->count; i++) {
        size_t before = i / source->group * source->group;
        assert_true(order[i] < source->count && !seen[order[i]]);
        seen[order[i]] = 1;
        while (before < i && !share(order[before], order[i])) {
            before++;
        }
        repeated_items += before < i;
    }
    return repeated_items;
}

static int is_certain(const struct packer_source *source) {
    struct epoch_order_sharing sharing;
    assert_int_equal(epoch_order_find_sharing(source, &sharing, NULL), BERTH_OK);
    return epoch_order_is_certain(source, &sharing);
}

static void plain_orders_are_the_shuffle(void **state) {
    static uint32_t shuffled[ITEMS_MAX];
    struct packer_source source = repeated(1000, 1, 8);
    packer_shuffle(3, 5, source.count, shuffled);
    assert_int_equal(make(&source, 3, 5), 0);
    assert_memory_equal(order, shuffled, source.count * sizeof *order);
    source = repeated(1000, 4, 8);
    source.numbers = NULL;
    make(&source, 3, 5);
    assert_memory_equal(order, shuffled, source.count * sizeof *order);
}

static void no_group_has_a_text_twice(void **state) {
    for (size_t repeats = 2; repeats <= 40; repeats += 19) {
        for (size_t group = 2; group <= 50; group += 16) {
            const struct packer_source source = repeated(3990, repeats, group);
            assert_int_equal(is_certain(&source),
                             3990 / group + (3990 % group > 0) > 2 * (repeats - 1));
            for (int64_t epoch = 0; epoch < 3; epoch++) {
                assert_int_equal(make(&source, 42, epoch), 0);
            }
        }
    }
    const struct packer_source source = random_texts(ITEMS_MAX, ITEMS_MAX, 25);
    for (int64_t epoch = 0; epoch < 20; epoch++) {
        assert_int_equal(make(&source, 42, epoch), 0);
    }
}

// Few groups, the last one of three items.
static void the_last_items_are_exchanged(void **state) {
    size_t shuffles = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        const struct packer_source source = repeated(59, 4, 8);
        assert_int_equal(is_certain(&source), 1);
        assert_int_equal(make(&source, seed, 1), 0);
        struct packer_source plain = source;
        plain.numbers = NULL;
        shuffles += make(&plain, seed, 1) == 0;
    }
    assert_true(shuffles < 30);
}

static void orders_depend_on_seed_and_epoch_alone(void **state) {
    static uint32_t before[ITEMS_MAX];
    const struct packer_source source = repeated(1000, 5, 16);
    make(&source, 1, 2);
    memcpy(before, order, sizeof order);
    make(&source, 1, 3);
    assert_memory_not_equal(order, before, 1000 * sizeof *order);
    make(&source, 2, 2);
    assert_memory_not_equal(order, before, 1000 * sizeof *order);
    make(&source, 1, 2);
    assert_memory_equal(order, before, 1000 * sizeof *order);
}

// A text of half the examples, in more than there are groups: the order is still one of all items.
static void what_cannot_be_separated_stays(void **state) {
    const struct packer_source source = repeated(ITEMS_MAX, ITEMS_MAX / 2, 32);
    struct epoch_order_sharing sharing;
    assert_int_equal(epoch_order_find_sharing(&source, &sharing, NULL), BERTH_OK);
    assert_int_equal(sharing.others, ITEMS_MAX / 2 - 1);
    assert_false(epoch_order_is_certain(&source, &sharing));
    assert_true(make(&source, 1, 0) > 0);
    const struct packer_source one = repeated(3, 3, 8);
    assert_int_equal(make(&one, 1, 0), 2);
}

// An item whose texts are equal does not share them with itself.
static void equal_texts_of_an_item_count_once(void **state) {
    struct epoch_order_sharing sharing;
    struct packer_source source = repeated(30, 3, 6);
    for (size_t i = 0; i < 30; i++) {
        numbers[TEXTS * i + 1] = numbers[TEXTS * i];
    }
    assert_int_equal(epoch_order_find_sharing(&source, &sharing, NULL), BERTH_OK);
    assert_int_equal(sharing.others, 2);
    assert_true(epoch_order_is_certain(&source, &sharing));
    source.group = 8;
    assert_false(epoch_order_is_certain(&source, &sharing));
}

static void no_items_have_an_order(void **state) {
    const struct packer_source none = repeated(0, 1, 8);
    assert_int_equal(epoch_order_make(&none, 1, 0, order, NULL), BERTH_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_orders_are_the_shuffle),
        cmocka_unit_test(no_group_has_a_text_twice),
        cmocka_unit_test(the_last_items_are_exchanged),
        cmocka_unit_test(orders_depend_on_seed_and_epoch_alone),
        cmocka_unit_test(what_cannot_be_separated_stays),
        cmocka_unit_test(equal_texts_of_an_item_count_once),
        cmocka_unit_test(no_items_have_an_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
