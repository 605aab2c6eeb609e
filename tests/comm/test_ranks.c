// SPDX-License-Identifier: Apache-2.0
// The communicator of several ranks (comm/ranks.h): what ranges, sums, agreements and broadcasts
// give, on one host and on several, and what a host sends to others.
#include "comm/numbers.h"
#include "comm/range_message.h"
#include "core/harness.h"
#include "core/memory.h"
#include "core/rng.h"
#include "job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const layouts[] = {"1x1", "1x2", "2x1", "1x3", "3x1", "1x4", "2x2", "4x1", "1x5",
                                      "5x1", "2x3", "3+5", "5+3", "1x8", "2x4", "4x2", "8x1"};
enum { LAYOUTS = sizeof layouts / sizeof *layouts, RANGES = 5 };

// --- ranges with known values -------------------------------------------------------------------

// How a range is divided.
enum division { EVEN, ALL_TO_LAST, EVERY_SECOND, DIVISIONS };

struct case_range {
    int64_t first, count;
    enum division division;
};

// With chunks of 1,024 elements: many steps, one, a part of one, fewer elements than ranks, none.
static const struct case_range ranges[RANGES] = {{7, 40961, EVEN},
                                                 {100000, 20000, ALL_TO_LAST},
                                                 {50000, 9999, EVERY_SECOND},
                                                 {200000, 3, EVEN},
                                                 {300000, 0, EVEN}};

static void divide(const struct case_range *range, int size, int64_t *starts) {
    for (int rank = 0; rank <= size; rank++) {
        int64_t share = range->count * rank / size;
        if (range->division == ALL_TO_LAST) {
            share = rank == size ? range->count : 0;
        } else if (range->division == EVERY_SECOND) {
            share = range->count * (rank / 2) / ((size + 1) / 2);
            share = rank == size ? range->count : share;
        }
        starts[rank] = range->first + share;
    }
}

// Of very different sizes, so that another order of addition gives other bits.
static float value_of(int rank, int64_t element) {
    uint64_t index = (uint64_t)element;
    const uint32_t bits = rng_draw((uint64_t)rank, 3, &index);
    return ldexpf((float)(bits >> 8) * 0x1p-24F - 0.5F, (int)(bits & 15));
}

struct exchange_case {
    enum dtype wire;
    const char *layout;
    float *sums[RANGES]; // out: what all ranks have in the end
};

struct buffers {
    float *data[RANGES];
    int64_t starts[RANGES][SOCKET_PROCESSES + 1];
    struct comm_range ranges[RANGES];
};

static void fill(struct buffers *buffers, const struct comm *comm, enum dtype wire) {
    for (int i = 0; i < RANGES; i++) {
        buffers->data[i] = memory_array((size_t)ranges[i].count, sizeof(float));
        for (int64_t k = 0; k < ranges[i].count; k++) {
            buffers->data[i][k] = value_of(comm->rank, ranges[i].first + k);
        }
        divide(&ranges[i], comm->size, buffers->starts[i]);
        buffers->ranges[i] = (struct comm_range){.name = "gradients",
                                                 .data = buffers->data[i],
                                                 .first = ranges[i].first,
                                                 .count = ranges[i].count,
                                                 .dtype = DTYPE_F32,
                                                 .wire = wire,
                                                 .starts = buffers->starts[i]};
    }
}

static void empty(struct buffers *buffers) {
    for (int i = 0; i < RANGES; i++) {
        memory_free(buffers->data[i]);
    }
}

// Against float64. What travels as bf16 is rounded to 8 bits, once in a host and once between.
static void check_sum(const struct comm *comm, enum dtype wire, int64_t element, float sum) {
    double expected = 0, size = 0;
    for (int rank = 0; rank < comm->size; rank++) {
        expected += value_of(rank, element);
        size += fabs((double)value_of(rank, element));
    }
    CHECK(fabs(sum - expected) <= size * (wire == DTYPE_BF16 ? 0x1p-7 : 0x1p-21));
}

static void check_sums(const struct comm *comm, const struct buffers *buffers, enum dtype wire) {
    for (int i = 0; i < RANGES; i++) {
        const int64_t *starts = buffers->starts[i];
        for (int64_t element = starts[comm->rank]; element < starts[comm->rank + 1]; element++) {
            check_sum(comm, wire, element, buffers->data[i][element - ranges[i].first]);
        }
    }
}

// Rank 0 hands its copy out; main compares the others' with it by a sum of bits.
static void check_same(struct comm *comm, const struct buffers *buffers) {
    for (int i = 0; i < RANGES; i++) {
        const size_t bytes = (size_t)ranges[i].count * sizeof(float);
        float *other = memory_array((size_t)ranges[i].count, sizeof(float));
        memcpy(other, buffers->data[i], bytes);
        comm->broadcast(comm, other, bytes, comm->size - 1);
        CHECK(memcmp(other, buffers->data[i], bytes) == 0);
        memory_free(other);
    }
}

static void exchange_ranges(struct comm *comm, const struct transport *transport, void *context) {
    struct exchange_case *test = context;
    struct buffers buffers;
    int64_t ticket = 0;
    fill(&buffers, comm, test->wire);
    for (int i = 0; i < RANGES; i++) {
        ticket = comm->reduce_begin(comm, &buffers.ranges[i]);
    }
    comm->wait(comm, ticket);
    check_sums(comm, &buffers, test->wire);
    for (int i = 0; i < RANGES; i++) {
        ticket = comm->gather_begin(comm, &buffers.ranges[i]);
    }
    comm->wait(comm, ticket);
    check_same(comm, &buffers);
    CHECK(comm->status(comm, NULL) == BERTH_OK);
    for (int i = 0; i < RANGES && comm->rank == 0; i++) {
        test->sums[i] = buffers.data[i];
        buffers.data[i] = NULL;
    }
    empty(&buffers);
}

static struct exchange_case run_case(const char *layout, enum dtype wire, int flat) {
    struct exchange_case test = {.wire = wire, .layout = layout};
    struct job job = job_of(layout);
    job.settings.window_bytes = 1; // the smallest chunks
    job.settings.flat = flat;
    job.body = exchange_ranges;
    job.context = &test;
    job_run(&job);
    for (int i = 0; i < job.size; i++) {
        assert_string_equal(job.errors[i].message, "");
    }
    return test;
}

static void done_case(struct exchange_case *test) {
    for (int i = 0; i < RANGES; i++) {
        memory_free(test->sums[i]);
    }
}

static int is_same(const struct exchange_case *x, const struct exchange_case *y) {
    for (int i = 0; i < RANGES; i++) {
        if (memcmp(x->sums[i], y->sums[i], (size_t)ranges[i].count * sizeof(float)) != 0) {
            return 0;
        }
    }
    return 1;
}

static void test_sums_and_gathers(void **state) {
    for (size_t i = 0; i < LAYOUTS; i++) {
        for (enum dtype wire = DTYPE_F32; wire <= DTYPE_BF16; wire++) {
            struct exchange_case test = run_case(layouts[i], wire, 0);
            assert_non_null(test.sums[0]);
            done_case(&test);
        }
    }
}

static void test_layouts_with_one_tree_give_the_same_bits(void **state) {
    static const char *const groups[][4] = {{"1x2", "2x1"},
                                            {"1x4", "2x2", "4x1"},
                                            {"1x8", "2x4", "4x2", "8x1"},
                                            {"1x3", "3x1", "2+1"},
                                            {"1x5", "5x1", "4+1"}};
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        struct exchange_case first = run_case(groups[g][0], DTYPE_F32, 0);
        for (int i = 1; i < 4 && groups[g][i] != NULL; i++) {
            struct exchange_case other = run_case(groups[g][i], DTYPE_F32, 0);
            assert_true(is_same(&first, &other));
            done_case(&other);
        }
        struct exchange_case flat = run_case(groups[g][0], DTYPE_F32, 1);
        assert_true(is_same(&first, &flat));
        done_case(&flat);
        done_case(&first);
    }
    // The comparison can fail: 1 + 2 ranks have another tree.
    struct exchange_case x = run_case("1x3", DTYPE_F32, 0), y = run_case("1+2", DTYPE_F32, 0);
    assert_false(is_same(&x, &y));
    done_case(&x);
    done_case(&y);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_and_gathers),
        cmocka_unit_test(test_layouts_with_one_tree_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
