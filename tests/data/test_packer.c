// SPDX-License-Identifier: Apache-2.0
// Epoch orders, and micro-batches packed end to end.
#include "core/harness.h"
#include "core/memory.h"
#include "data/batches/packer.h"

#include <string.h>

#define COUNT 6

static const int32_t lengths[COUNT] = {5, 60, 1, 64, 17, 3};
static const int32_t masked_counts[COUNT] = {1, 3, 0, 2, 1, 1};
static const uint16_t masked_positions[] = {1, 40, 59};
static const int32_t masked_labels[] = {7, 8, 9};
static int32_t ids[64];
static int8_t types[64];

static struct packer_sequence get(const void *data, size_t index) {
    return (struct packer_sequence){.ids = ids,
                                    .type_ids = types,
                                    .length = lengths[index],
                                    .start = (int32_t)index,
                                    .end = (int32_t)index + 1,
                                    .label = (int32_t)index - 1,
                                    .target = (float)index / 4.0f,
                                    .masked_positions = masked_positions,
                                    .masked_labels = masked_labels,
                                    .masked_count = masked_counts[index]};
}

static const struct packer_source source = {.get = get, .count = COUNT};

static enum berth_status init(struct packer *packer, int64_t tokens, int64_t sequences,
                              int64_t masked) {
    const struct batch_extent limits = {.tokens = tokens, .sequences = sequences, .masked = masked};
    return packer_init(packer, &limits, 0, NULL);
}

static size_t fit(const uint32_t *order, size_t count, int64_t tokens, int64_t sequences,
                  int64_t masked) {
    const struct batch_extent limits = {.tokens = tokens, .sequences = sequences, .masked = masked};
    return packer_fit(&source, order, count, &limits);
}

static int fill_ids(void **state) {
    for (int i = 0; i < 64; i++) {
        ids[i] = 100 + i;
        types[i] = i > 10;
    }
    return 0;
}

static void shuffles_are_permutations(void **state) {
    uint32_t order[1000], other[1000];
    for (int64_t epoch = 0; epoch < 5; epoch++) {
        char seen[1000] = {0};
        packer_shuffle(42, epoch, 1000, order);
        for (size_t i = 0; i < 1000; i++) {
            assert_true(order[i] < 1000 && !seen[order[i]]);
            seen[order[i]] = 1;
        }
        packer_shuffle(42, epoch, 1000, other);
        assert_memory_equal(order, other, sizeof order);
        packer_shuffle(43, epoch, 1000, other);
        assert_memory_not_equal(order, other, sizeof order);
        packer_shuffle(42, epoch + 1, 1000, other);
        assert_memory_not_equal(order, other, sizeof order);
    }
    packer_shuffle(1, 0, 0, order);
    packer_shuffle(1, 0, 1, order);
    assert_int_equal(order[0], 0);
}

// All bits of the epoch matter, and no two seeds share an epoch's order.
static void shuffles_differ_between_far_epochs(void **state) {
    enum { COUNT_OF_BITS = 32, EPOCHS = 2 * (COUNT_OF_BITS + 1) };
    static uint32_t orders[EPOCHS][20];
    size_t count = 0;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        packer_shuffle(seed, 0, 20, orders[count++]);
        for (int bit = 0; bit < COUNT_OF_BITS; bit++) {
            packer_shuffle(seed, INT64_C(1) << bit, 20, orders[count++]);
        }
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_memory_not_equal(orders[i], orders[j], sizeof orders[i]);
        }
    }
}

// Every element reaches every position about equally often: chi-square with 25 degrees of freedom,
// because each element and each position occurs 6,000 times.
static void shuffles_are_fair(void **state) {
    int counts[6][6] = {{0}};
    double chi = 0.0;
    for (int64_t epoch = 0; epoch < 6000; epoch++) {
        uint32_t order[6];
        packer_shuffle(7, epoch, 6, order);
        for (int i = 0; i < 6; i++) {
            counts[i][order[i]]++;
        }
    }
    for (int i = 0; i < 36; i++) {
        double off = counts[i / 6][i % 6] - 1000.0;
        chi += off * off / 1000.0;
    }
    assert_true(chi < 70.0);
}

static void packs_end_to_end(void **state) {
    static const uint32_t order[] = {3, 0, 2, 4};
    static const int64_t places[] = {1000, 1003, 1001, 1007};
    struct packer packer;
    assert_int_equal(init(&packer, 100, 4, 6), BERTH_OK);
    packer_fill(&packer, &source, order, places, 4);
    const struct batch *batch = &packer.batch;
    assert_int_equal(batch->token_count, 64 + 5 + 1 + 17);
    assert_int_equal(batch->row_count, 128);
    assert_int_equal(batch->sequence_count, 4);
    assert_int_equal(batch->max_length, 64);
    int64_t row = 0;
    for (int s = 0; s < 4; s++) {
        assert_int_equal(batch->cu_seqlens[s], row);
        assert_int_equal(batch->global_indices[s], places[s]);
        assert_int_equal(batch->start_positions[s], order[s]);
        assert_int_equal(batch->end_positions[s], order[s] + 1);
        assert_int_equal(batch->labels[s], (int32_t)order[s] - 1);
        assert_true(batch->targets[s] == (float)order[s] / 4.0f);
        for (int32_t i = 0; i < lengths[order[s]]; i++, row++) {
            assert_int_equal(batch->ids[row], ids[i]);
            assert_int_equal(batch->type_ids[row], types[i]);
            assert_int_equal(batch->positions[row], i);
            assert_int_equal(batch->sequences[row], s);
        }
    }
    assert_int_equal(batch->cu_seqlens[4], row);
    packer_done(&packer);
}

// The rows of masked tokens count in the batch, also in the second batch.
static void packs_masked_tokens(void **state) {
    static const uint32_t order[] = {3, 0, 2, 1};
    static const int32_t rows[] = {1, 40, 64 + 1, 70 + 1, 70 + 40, 70 + 59};
    static const int32_t labels[] = {7, 8, 7, 7, 8, 9};
    struct packer packer;
    assert_int_equal(init(&packer, 130, 4, 6), BERTH_OK);
    for (int again = 0; again < 2; again++) {
        packer_fill(&packer, &source, order, NULL, 4);
        assert_int_equal(packer.batch.masked_count, 6);
        assert_memory_equal(packer.batch.masked_rows, rows, sizeof rows);
        assert_memory_equal(packer.batch.masked_labels, labels, sizeof labels);
    }
    packer_done(&packer);
}

// The first row of each sequence and its masked ones, as a batch of their own.
static void picks_rows_for_the_head(void **state) {
    static const uint32_t order[] = {3, 0, 2, 1};
    static const int64_t places[] = {9, 8, 7, 6};
    static const int32_t rows[] = {0, 1, 40, 64, 65, 69, 70, 71, 110, 129};
    static const int32_t positions[] = {0, 1, 40, 0, 1, 0, 0, 1, 40, 59};
    static const int32_t sequences[] = {0, 0, 0, 1, 1, 2, 3, 3, 3, 3};
    static const int32_t firsts[] = {0, 3, 5, 6, 10}, masked[] = {1, 2, 4, 7, 8, 9};
    static const int32_t labels[] = {7, 8, 7, 7, 8, 9};
    const struct batch_extent limits = {
        .tokens = 130, .sequences = 4, .masked = 6, .head_rows = 10};
    struct packer packer;
    assert_int_equal(packer_init(&packer, &limits, 0, NULL), BERTH_OK);
    for (int again = 0; again < 2; again++) {
        packer_fill(&packer, &source, order, places, 4);
        const struct batch head = batch_of_head(&packer.batch);
        assert_int_equal(packer.batch.head.count, 10);
        assert_memory_equal(packer.batch.head.rows, rows, sizeof rows);
        assert_int_equal(head.token_count, 10);
        assert_int_equal(head.row_count, 64);
        assert_memory_equal(head.positions, positions, sizeof positions);
        assert_memory_equal(head.sequences, sequences, sizeof sequences);
        assert_memory_equal(head.cu_seqlens, firsts, sizeof firsts);
        assert_memory_equal(head.masked_rows, masked, sizeof masked);
        assert_memory_equal(head.masked_labels, labels, sizeof labels);
        assert_memory_equal(head.global_indices, places, sizeof places);
        for (int row = 10; row < 64; row++) {
            assert_int_equal(head.positions[row], 0);
            assert_int_equal(head.sequences[row], -1);
        }
    }
    packer_done(&packer);
}

static void clears_the_slack(void **state) {
    static const uint32_t large[] = {1, 3}, small[] = {4};
    struct packer packer;
    assert_int_equal(init(&packer, 124, 2, 6), BERTH_OK);
    packer_fill(&packer, &source, large, NULL, 2);
    assert_int_equal(packer.batch.row_count, 128);
    packer_fill(&packer, &source, small, NULL, 1);
    assert_int_equal(packer.batch.row_count, 64);
    assert_int_equal(packer.batch.max_length, 17);
    for (int64_t row = 17; row < 64; row++) {
        assert_int_equal(packer.batch.ids[row], 0);
        assert_int_equal(packer.batch.type_ids[row], 0);
        assert_int_equal(packer.batch.positions[row], 0);
        assert_int_equal(packer.batch.sequences[row], -1);
    }
    packer_done(&packer);
}

static void fits_the_front(void **state) {
    static const uint32_t order[] = {0, 1, 2, 3, 4, 5};
    assert_int_equal(fit(order, 6, 66, 10, 100), 3);
    assert_int_equal(fit(order, 6, 65, 10, 100), 2);
    assert_int_equal(fit(order, 6, 1000, 10, 100), 6);
    assert_int_equal(fit(order, 6, 1000, 4, 100), 4);
    assert_int_equal(fit(order + 3, 3, 10, 10, 100), 1);
    assert_int_equal(fit(order, 0, 10, 10, 100), 0);
    assert_int_equal(fit(order, 6, 1000, 10, 6), 4);
    assert_int_equal(fit(order, 6, 1000, 10, 3), 1);
    assert_int_equal(fit(order + 1, 5, 1000, 10, 0), 1);
}

// Seven examples of three texts in groups of three, whose last one is short: texts 0, 1, ... 20.
static struct packer_sequence get_text(const void *data, size_t index) {
    return (struct packer_sequence){
        .ids = ids, .type_ids = types, .length = 1 + (int32_t)(index % 4), .label = (int32_t)index};
}

static const struct packer_source examples = {.get = get_text, .count = 7, .texts = 3, .group = 3};

static void packs_groups(void **state) {
    static const uint32_t order[] = {4, 0, 6, 2, 1, 5, 3};
    static const int64_t places[] = {10, 11, 12, 23, 24, 25, 36};
    static const int32_t texts[] = {12, 0, 18, 13, 1, 19, 14, 2, 20, 6, 3,
                                    15, 7, 4,  16, 8, 5,  17, 9, 10, 11};
    static const int64_t expected[] = {30, 33, 36, 31, 34, 37, 32, 35,  38,  69, 72,
                                       75, 70, 73, 76, 71, 74, 77, 108, 109, 110};
    struct packer packer;
    assert_int_equal(init(&packer, 100, 21, 0), BERTH_OK);
    packer_fill(&packer, &examples, order, places, 7);
    assert_int_equal(packer.batch.sequence_count, 21);
    assert_memory_equal(packer.batch.labels, texts, sizeof texts);
    assert_memory_equal(packer.batch.global_indices, expected, sizeof expected);
    packer_fill(&packer, &examples, order, NULL, 2);
    assert_int_equal(packer.batch.sequence_count, 6);
    assert_int_equal(packer.batch.labels[1], 0);
    assert_int_equal(packer.batch.global_indices[5], 5);
    packer_done(&packer);
}

static void keeps_groups_whole(void **state) {
    static const uint32_t order[] = {0, 1, 2, 3, 4, 5, 6};
    const struct batch_extent all = packer_extent(&examples, order, 7);
    assert_int_equal(all.sequences, 21);
    assert_int_equal(all.max_length, 4);
    for (int64_t tokens = 1; tokens <= all.tokens; tokens++) {
        for (int64_t items = 1; items <= 7; items++) {
            const struct batch_extent limits = {.tokens = tokens, .sequences = items};
            const size_t count = packer_fit(&examples, order, 7, &limits);
            assert_true(count == 3 || count == 6 || count == 7);
            assert_true(count == 3 || packer_extent(&examples, order, count).tokens <= tokens);
        }
    }
    const struct batch_extent enough = {.tokens = all.tokens, .sequences = 7};
    assert_int_equal(packer_fit(&examples, order, 7, &enough), 7);
}

static void refuses_impossible_sizes(void **state) {
    static const struct batch_extent sizes[] = {{.sequences = 1},
                                                {.tokens = 1},
                                                {.tokens = -1, .sequences = 1},
                                                {.tokens = INT64_MAX, .sequences = 1},
                                                {.tokens = 1, .sequences = INT64_MAX},
                                                {.tokens = 1, .sequences = 1, .masked = -1},
                                                {.tokens = 1, .sequences = 1, .masked = INT64_MAX}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct packer packer;
        struct berth_error error = {0};
        assert_int_equal(packer_init(&packer, &sizes[i], 0, &error), BERTH_USAGE);
        assert_non_null(strstr(error.message, "a batch of"));
        packer_done(&packer);
    }
    const struct batch_extent limits = {.tokens = 10, .sequences = 1, .masked = 2};
    struct packer packer;
    struct berth_error error = {0};
    memory_fail_at(1, 0);
    assert_int_equal(packer_init(&packer, &limits, 0, &error), BERTH_NO_MEMORY);
    packer_done(&packer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shuffles_are_permutations),
        cmocka_unit_test(shuffles_are_fair),
        cmocka_unit_test(shuffles_differ_between_far_epochs),
        cmocka_unit_test(packs_end_to_end),
        cmocka_unit_test(packs_masked_tokens),
        cmocka_unit_test(picks_rows_for_the_head),
        cmocka_unit_test(clears_the_slack),
        cmocka_unit_test(fits_the_front),
        cmocka_unit_test(packs_groups),
        cmocka_unit_test(keeps_groups_whole),
        cmocka_unit_test(refuses_impossible_sizes),
    };
    return cmocka_run_group_tests(tests, fill_ids, NULL);
}
