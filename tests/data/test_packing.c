// SPDX-License-Identifier: Apache-2.0
// Packing: every instance is in exactly one row and no row is too long, for many kinds of
// histograms; realistic lengths leave hardly any padding; the solver finds known optima.
#include "data/packing/nnls.h"
#include "data/packing/packing.h"
#include "format/json/json.h"
#include "synthetic_documents.h"

// Instances of given lengths; they share their tokens.
static struct instances of_lengths(const uint16_t *lengths, size_t count) {
    struct instances made = {.count = count};
    made.items = memory_array_zeroed(count + 1, sizeof *made.items);
    for (size_t i = 0; i < count; i++) {
        made.items[i].length = lengths[i];
    }
    return made;
}

static void check_rows(const struct packing *packing, const struct instances *made) {
    unsigned char *seen = memory_array_zeroed(made->count + 1, 1);
    size_t total = 0;
    for (size_t i = 0; i < packing->count; i++) {
        int length = 0;
        for (int j = 0; j < PRETRAINING_PACK_MAX; j++) {
            uint32_t number = packing->packs[i].instances[j];
            if (number != PRETRAINING_NONE) {
                assert_true(number < made->count && !seen[number]);
                seen[number] = 1;
                length += made->items[number].length;
                total++;
            }
        }
        assert_true(length > 0 && length <= packing->length);
    }
    assert_int_equal(total, made->count);
    memory_free(seen);
}

static struct packing pack(const struct instances *made, int length) {
    struct packing packing;
    struct berth_error error;
    if (packing_make(made, length, 42, &packing, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    check_rows(&packing, made);
    return packing;
}

static void test_no_sequence_is_lost(void **state) {
    (void)state;
    static const struct {
        int length, low, high;
        size_t count;
    } cases[] = {{8, 1, 8, 1000},    {32, 5, 32, 3000}, {32, 32, 32, 500}, {32, 31, 31, 500},
                 {32, 1, 1, 1000},   {32, 5, 32, 1},    {32, 5, 32, 99},   {64, 20, 40, 5000},
                 {128, 5, 128, 101}, {32, 17, 32, 700}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct python_random random;
        uint16_t lengths[5000];
        python_random_seed(&random, i);
        for (size_t j = 0; j < cases[i].count; j++) {
            lengths[j] = (uint16_t)python_random_between(&random, cases[i].low, cases[i].high);
        }
        struct instances made = of_lengths(lengths, cases[i].count);
        struct packing packing = pack(&made, cases[i].length);
        packing_done(&packing);
        instances_done(&made);
    }
}

// Most sequences of full length, the rest of any length, like pre-training data.
static void test_efficiency(void **state) {
    (void)state;
    struct python_random random;
    static uint16_t lengths[40000];
    python_random_seed(&random, 1);
    for (size_t i = 0; i < 40000; i++) {
        int is_full = python_random_real(&random) < 0.4;
        lengths[i] = (uint16_t)(is_full ? 128 : python_random_between(&random, 5, 127));
    }
    struct instances made = of_lengths(lengths, 40000);
    struct packing packing = pack(&made, 128);
    assert_true(packing_efficiency(&packing) > 0.997 && packing_efficiency(&packing) <= 1);
    assert_true(packing_speed_up(&packing) > 1.406);
    assert_true(packing_speed_up(&packing) <= packing_speed_up_limit(&packing));
    packing_done(&packing);
    instances_done(&made);
}

// A row has one sequence of its length or two of half of it. The sequences of a length are
// shuffled, and so are the two kinds of rows; both orders depend on the seed.
static void test_the_order_is_shuffled(void **state) {
    (void)state;
    enum { COUNT = 400 };
    uint16_t lengths[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        lengths[i] = i % 2 == 0 ? 16 : 32;
    }
    struct instances made = of_lengths(lengths, COUNT);
    struct packing packing = pack(&made, 32), other;
    assert_int_equal(packing_make(&made, 32, 43, &other, NULL), BERTH_OK);
    assert_int_equal(packing.count, COUNT / 4 + COUNT / 2);
    assert_int_equal(other.count, packing.count);
    size_t falls = 0, changes = 0, same_rows = 0, same_sequences = 0;
    uint32_t last = 0;
    for (size_t i = 0; i < packing.count; i++) {
        uint32_t first = packing.packs[i].instances[0];
        int is_full = lengths[first] == 32;
        int other_is_full = lengths[other.packs[i].instances[0]] == 32;
        changes += i > 0 && is_full != (lengths[packing.packs[i - 1].instances[0]] == 32);
        same_rows += is_full == other_is_full;
        same_sequences += first == other.packs[i].instances[0];
        if (is_full) {
            falls += first < last;
            last = first;
        }
    }
    assert_in_range(falls, COUNT / 8, COUNT * 3 / 8); // of 200 sequences
    assert_in_range(changes, 90, 170);                // of 300 rows, a third of one kind
    assert_in_range(same_rows, 110, 220);
    assert_in_range(same_sequences, 0, 20);
    packing_done(&packing);
    packing_done(&other);
    instances_done(&made);
}

// The eight most frequent strategies, the most frequent first.
static void check_top_strategies(const struct packing *packing) {
    json *object;
    assert_int_equal(packing_write_metadata(packing, scratch("a"), NULL), BERTH_OK);
    assert_int_equal(json_read_file(scratch("a"), &object, NULL), BERTH_OK);
    const json *top = json_member(object, "top_8_strategies");
    assert_int_equal(json_length(top), 8);
    uint64_t last = UINT64_MAX, listed = 0;
    for (size_t i = 0; i < 8; i++) {
        uint64_t count = packing->counts[json_as_integer(json_at(top, i))];
        assert_true(count <= last);
        listed += count;
        last = count;
    }
    size_t above = 0;
    for (size_t i = 0; i < packing->strategy_count; i++) {
        above += packing->counts[i] > last;
    }
    assert_true(above < 8 && listed > 8 * last);
    json_free(object);
}

// Rows follow the strategies and their counts, except those that stay empty.
static void test_rows_follow_the_strategies(void **state) {
    (void)state;
    struct python_random random;
    static uint16_t lengths[3000];
    python_random_seed(&random, 5);
    for (size_t i = 0; i < 3000; i++) {
        lengths[i] = (uint16_t)python_random_between(&random, 3, 40);
    }
    struct instances made = of_lengths(lengths, 3000);
    struct packing packing = pack(&made, 40);
    uint64_t planned = 0;
    size_t used = 0;
    for (size_t i = 0; i < packing.strategy_count; i++) {
        int sum = 0;
        for (int j = 0; j < PRETRAINING_PACK_MAX; j++) {
            uint16_t length = packing.strategies[i].lengths[j];
            uint16_t before = j > 0 ? packing.strategies[i].lengths[j - 1] : 1;
            assert_true(length == 0 || length >= before);
            sum += length;
        }
        assert_int_equal(sum, 40);
        planned += packing.counts[i];
        used += packing.counts[i] > 0;
    }
    assert_int_equal(packing.strategies_used, used);
    assert_true(packing.count <= planned);
    for (size_t i = 0; i < packing.count; i++) {
        uint16_t before = 0;
        for (int j = 0; j < PRETRAINING_PACK_MAX; j++) {
            uint32_t number = packing.packs[i].instances[j];
            if (number != PRETRAINING_NONE) {
                assert_true(lengths[number] >= before);
                before = lengths[number];
            }
        }
    }
    assert_true(packing_efficiency(&packing) > 0.986);
    check_top_strategies(&packing);
    packing_done(&packing);
    instances_done(&made);
}

// Few sequences of many lengths: the solution has a fraction of a row of most strategies, or of
// all.
static void test_few_sequences(void **state) {
    (void)state;
    static const double efficiencies[] = {0.6651, 0.6464, 0.7238, 0.6616, 0.6884, 0.7381};
    struct python_random random;
    uint16_t lengths[600];
    python_random_seed(&random, 9);
    for (size_t i = 0; i < 600; i++) {
        lengths[i] = (uint16_t)python_random_between(&random, 5, 100);
    }
    for (size_t count = 100; count <= 600; count += 100) {
        struct instances made = of_lengths(lengths, count);
        struct packing packing = pack(&made, 160);
        assert_float_equal(packing_efficiency(&packing), efficiencies[count / 100 - 1], 0.002);
        packing_done(&packing);
        instances_done(&made);
    }
}

static void test_number_of_strategies(void **state) {
    (void)state;
    static const uint16_t length = 100;
    struct instances made = of_lengths(&length, 1);
    struct packing packing = pack(&made, 128);
    assert_int_equal(packing.strategy_count, 1430);
    packing_done(&packing);
    packing = pack(&made, 512);
    assert_int_equal(packing.strategy_count, (515 * 515 + 6) / 12);
    packing_done(&packing);
    instances_done(&made);
}

static void test_seeds(void **state) {
    (void)state;
    uint16_t lengths[200];
    for (uint16_t i = 0; i < 200; i++) {
        lengths[i] = (uint16_t)(5 + i % 28);
    }
    struct instances made = of_lengths(lengths, 200);
    struct packing first = pack(&made, 32), second = pack(&made, 32), other;
    assert_int_equal(packing_make(&made, 32, 43, &other, NULL), BERTH_OK);
    assert_memory_equal(first.packs, second.packs, first.count * sizeof *first.packs);
    assert_int_equal(first.count, other.count);
    assert_memory_not_equal(first.packs, other.packs, first.count * sizeof *first.packs);
    packing_done(&first);
    packing_done(&second);
    packing_done(&other);
    instances_done(&made);
}

static void test_metadata(void **state) {
    (void)state;
    static const uint16_t lengths[] = {16, 16, 8, 24, 32, 20};
    static const char *const keys[] = {"avg_seq_per_sample",
                                       "compression_ratio",
                                       "expected_speed_up",
                                       "new_number_of_samples",
                                       "number_of_sequences_dropped",
                                       "number_of_strategies_utilized",
                                       "original_number_of_samples",
                                       "packing_efficiency",
                                       "padding_tokens_original_dataset",
                                       "padding_tokens_packed_dataset",
                                       "theoretical_speed_up",
                                       "top_8_strategies"};
    struct instances made = of_lengths(lengths, 6);
    struct packing packing = pack(&made, 32);
    json *object;
    assert_int_equal(packing_write_metadata(&packing, scratch("a"), NULL), BERTH_OK);
    assert_int_equal(json_read_file(scratch("a"), &object, NULL), BERTH_OK);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        assert_non_null(json_member(object, keys[i]));
    }
    assert_int_equal(json_length(object), 12);
    assert_int_equal(json_as_integer(json_member(object, "original_number_of_samples")), 6);
    assert_int_equal(json_as_integer(json_member(object, "padding_tokens_original_dataset")), 76);
    assert_int_equal(json_as_integer(json_member(object, "new_number_of_samples")), packing.count);
    static const struct {
        const char *key;
        double value;
    } values[] = {
        {"avg_seq_per_sample", 6.0 / 4},       {"compression_ratio", 1 - 4.0 / 6},
        {"expected_speed_up", 6.0 / 4},        {"packing_efficiency", 116.0 / 128},
        {"theoretical_speed_up", 192.0 / 116}, {"new_number_of_samples", 4},
        {"number_of_sequences_dropped", 0},    {"number_of_strategies_utilized", 4},
        {"padding_tokens_packed_dataset", 12},
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        assert_float_equal(json_as_real(json_member(object, values[i].key)), values[i].value, 1e-9);
    }
    assert_int_equal(json_length(json_member(object, "top_8_strategies")), 4);
    json_free(object);
    packing_done(&packing);
    instances_done(&made);
}

static void test_refusals(void **state) {
    (void)state;
    static const uint16_t length = 33;
    struct instances made = of_lengths(&length, 1);
    struct packing packing;
    struct berth_error error;
    assert_int_equal(packing_make(&made, 32, 42, &packing, &error), BERTH_BAD_DATA);
    assert_message_has(&error, "33 tokens");
    packing_done(&packing);
    assert_int_equal(packing_make(&made, PACKING_LENGTH_MAX + 1, 42, &packing, &error),
                     BERTH_BAD_DATA);
    packing_done(&packing);
    instances_done(&made);
}

static void test_memory_runs_out(void **state) {
    (void)state;
    static const uint16_t length = 33;
    struct instances made = of_lengths(&length, 1);
    enum berth_status status = BERTH_NO_MEMORY;
    uint64_t at;
    for (at = 1; status == BERTH_NO_MEMORY; at++) {
        struct packing packing;
        memory_fail_at(at, 0);
        status = packing_make(&made, 64, 42, &packing, NULL);
        memory_fail_at(0, 0);
        packing_done(&packing);
    }
    assert_int_equal(status, BERTH_OK);
    assert_true(at > 5);
    instances_done(&made);
}

// x >= 0 is optimal when no gradient is positive, and all are 0 where x is positive.
static void test_nnls(void **state) {
    (void)state;
    enum { ROWS = 12, COLUMNS = 40 };
    struct python_random random;
    python_random_seed(&random, 3);
    for (int round = 0; round < 50; round++) {
        uint16_t columns[COLUMNS][NNLS_ROWS] = {{0}};
        double weights[ROWS + 1], b[ROWS + 1] = {0}, x[COLUMNS], residual[ROWS + 1] = {0};
        for (size_t i = 0; i < COLUMNS; i++) {
            int64_t count = python_random_between(&random, 1, 3);
            for (int64_t j = 0; j < count; j++) {
                columns[i][j] = (uint16_t)python_random_between(&random, 1, ROWS);
            }
        }
        for (size_t i = 1; i <= ROWS; i++) {
            weights[i] = i < 4 ? 0.1 : 1;
            b[i] = (double)python_random_between(&random, round % 2 == 0 ? 0 : -50, 100);
        }
        struct nnls problem = {ROWS, COLUMNS, (const uint16_t(*)[NNLS_ROWS])columns, weights, b};
        assert_int_equal(nnls_solve(&problem, x, NULL), BERTH_OK);
        memcpy(residual, b, sizeof residual);
        for (size_t i = 0; i < COLUMNS; i++) {
            assert_true(x[i] >= 0);
            for (int j = 0; j < NNLS_ROWS && columns[i][j] > 0; j++) {
                residual[columns[i][j]] -= x[i];
            }
        }
        for (size_t i = 0; i < COLUMNS; i++) {
            double gradient = 0;
            for (int j = 0; j < NNLS_ROWS && columns[i][j] > 0; j++) {
                gradient += weights[columns[i][j]] * residual[columns[i][j]];
            }
            assert_true(gradient < 1e-5);
            assert_true(x[i] == 0 || gradient > -1e-5);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_no_sequence_is_lost),
        SCRATCH_TEST(test_efficiency),
        SCRATCH_TEST(test_the_order_is_shuffled),
        SCRATCH_TEST(test_rows_follow_the_strategies),
        SCRATCH_TEST(test_few_sequences),
        SCRATCH_TEST(test_number_of_strategies),
        SCRATCH_TEST(test_seeds),
        SCRATCH_TEST(test_metadata),
        SCRATCH_TEST(test_refusals),
        SCRATCH_TEST(test_memory_runs_out),
        SCRATCH_TEST(test_nnls),
    };
    return cmocka_run_group_tests_name("packing", tests, NULL, NULL);
}
