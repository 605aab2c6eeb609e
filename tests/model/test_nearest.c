// SPDX-License-Identifier: Apache-2.0
// Tests the search of nearest vectors against all products, computed in integers, which floats hold
// exactly: many rows have equal scores.
#include "core/harness.h"
#include "core/memory.h"
#include "core/stop.h"
#include "device/device.h"
#include "device/test_device.h"
#include "model/nearest.h"

#include <stdlib.h>
#include <string.h>

struct corpus {
    size_t queries, rows, size;
    float *numbers; // the queries, then the rows
};

static struct device *open_device(int threads) {
    const struct device_options options = {.threads = threads};
    const char *kind = getenv("BERTH_TEST_DEVICE");
    struct device *device = NULL;
    struct berth_error error;
    if ((kind != NULL ? device_gpu_open(kind, &options, &device, &error)
                      : device_cpu_open(&options, &device, &error)) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    return device;
}

// Numbers from -`largest` to `largest`, divided by `divisor`.
static struct corpus corpus_new(size_t queries, size_t rows, size_t size, int largest,
                                float divisor) {
    const struct corpus corpus = {queries, rows, size, calloc((queries + rows) * size, 4)};
    assert_non_null(corpus.numbers);
    uint64_t state = 12;
    for (size_t i = 0; i < (queries + rows) * size; i++) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        corpus.numbers[i] =
            (float)((int)((state >> 33) % (uint64_t)(2 * largest + 1)) - largest) / divisor;
    }
    return corpus;
}

static struct nearest_args args_of(const struct corpus *corpus, struct device *device,
                                   size_t count) {
    return (struct nearest_args){.device = device,
                                 .queries = corpus->numbers,
                                 .corpus = corpus->numbers + corpus->queries * corpus->size,
                                 .query_count = corpus->queries,
                                 .corpus_count = corpus->rows,
                                 .size = corpus->size,
                                 .count = count};
}

static struct nearest *find(const struct nearest_args *args) {
    struct nearest *found = calloc(args->query_count * args->count, sizeof *found);
    struct berth_error error;
    assert_non_null(found);
    if (nearest_find(args, found, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    return found;
}

static int by_score(const void *a, const void *b) {
    const struct nearest *x = a, *y = b;
    return x->score != y->score ? (x->score < y->score) - (x->score > y->score)
                                : (x->index > y->index) - (x->index < y->index);
}

static void check_all_products(size_t queries, size_t rows, size_t size, size_t count,
                               int threads) {
    const struct corpus corpus = corpus_new(queries, rows, size, 3, 1);
    struct device *device = open_device(threads);
    const struct nearest_args args = args_of(&corpus, device, count);
    struct nearest *found = find(&args), *all = calloc(rows, sizeof *all);
    assert_non_null(all);
    for (size_t query = 0; query < queries; query++) {
        for (size_t row = 0; row < rows; row++) {
            int sum = 0;
            for (size_t i = 0; i < size; i++) {
                sum += (int)args.queries[query * size + i] * (int)args.corpus[row * size + i];
            }
            all[row] = (struct nearest){(uint32_t)row, (float)sum};
        }
        qsort(all, rows, sizeof *all, by_score);
        assert_memory_equal(found + query * count, all, count * sizeof *all);
    }
    free(all);
    free(found);
    free(corpus.numbers);
    device->close(device);
}

static void the_largest_products_come_first(void **state) {
    check_all_products(1, 1, 1, 1, 1);
    check_all_products(2, 70, 8, 70, 2);
    check_all_products(3, 64, 5, 64, 1);
    check_all_products(259, 129, 16, 3, 3);
}

// Two blocks of queries, three of the corpus.
static void blocks_do_not_matter(void **state) {
    check_all_products(258, 8200, 8, 1, 1);
    check_all_products(257, 8200, 8, 41, 3);
}

static void a_query_alone_has_the_same_scores(void **state) {
    const struct corpus corpus = corpus_new(NEAREST_QUERIES + 9, 4500, 40, 1000, 777);
    struct device *device = open_device(2);
    struct nearest_args args = args_of(&corpus, device, 6);
    struct nearest *among = find(&args);
    args.queries += NEAREST_QUERIES * corpus.size;
    args.query_count = 1;
    struct nearest *alone = find(&args);
    assert_memory_equal(alone, among + NEAREST_QUERIES * args.count, args.count * sizeof *alone);
    free(alone);
    free(among);
    free(corpus.numbers);
    device->close(device);
}

static void a_search_can_be_stopped(void **state) {
    const struct corpus corpus = corpus_new(1, 5, 8, 3, 1);
    const atomic_int stop = STOP_AT_ONCE;
    struct device *device = open_device(1);
    struct nearest_args args = args_of(&corpus, device, 2);
    struct nearest found[2];
    struct berth_error error;
    args.stop = &stop;
    assert_int_equal(nearest_find(&args, found, &error), BERTH_INTERRUPTED);
    free(corpus.numbers);
    device->close(device);
}

static void a_search_without_memory_fails(void **state) {
    const struct corpus corpus = corpus_new(3, 50, 8, 3, 1);
    struct device *device = open_device(1);
    const struct nearest_args args = args_of(&corpus, device, 2);
    struct nearest found[6];
    struct berth_error error = {0};
    free(find(&args)); // what the device keeps
    enum berth_status status = BERTH_NO_MEMORY;
    for (uint64_t failing = 1; status != BERTH_OK; failing++) {
        assert_int_equal(status, BERTH_NO_MEMORY);
        assert_true(failing < 20);
        (void)memory_fail_at(failing, 0);
        status = nearest_find(&args, found, &error);
    }
    (void)memory_fail_at(0, 0);
    free(corpus.numbers);
    device->close(device);
}

int main(void) {
    if (test_lacks_device()) {
        return TEST_SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_products_come_first),
        cmocka_unit_test(blocks_do_not_matter),
        cmocka_unit_test(a_query_alone_has_the_same_scores),
        cmocka_unit_test(a_search_can_be_stopped),
        cmocka_unit_test(a_search_without_memory_fails),
    };
    return cmocka_run_group_tests_name("nearest", tests, NULL, NULL);
}
