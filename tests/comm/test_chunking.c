// SPDX-License-Identifier: Apache-2.0
// How exchanges of few and of many ranks are cut into steps (comm/chunking.h), and the memory that
// their communicators take (comm/ranks.h): every element is in one step, cells do not overlap,
// messages of many ranks are not small, and the memory of a host does not grow with the job.
#include "comm/chunking.h"
#include "comm/host_window.h"
#include "comm/ranks.h"
#include "core/harness.h"
#include "core/memory.h"

#include <string.h>

enum { MOST = 4096, PART = 65536 };

static int64_t starts[MOST + 1];
static int table[2 * MOST];

// A range of which every `spacing`-th rank owns `part` elements, and the last of them `rest` more.
static struct comm_range spaced(int size, int spacing, int64_t part, int64_t rest) {
    int64_t at = 1000;
    for (int rank = 0; rank < size; rank++) {
        starts[rank] = at;
        at += rank % spacing == 0 ? part : 0;
        at += rank == (size - 1) / spacing * spacing ? rest : 0;
    }
    starts[size] = at;
    return (struct comm_range){
        .first = 1000, .count = at - 1000, .starts = starts, .dtype = DTYPE_F32};
}

static struct chunk_limits limits_of(int hosts, int local_size) {
    const struct comm_settings settings = {0};
    struct topology topology;
    assert_int_equal(topology_init_even(&topology, hosts, local_size, 0, NULL), BERTH_OK);
    const struct chunk_limits limits = comm_ranks_limits(&settings, &topology);
    topology_done(&topology);
    return limits;
}

static const struct cluster {
    int hosts, local_size;
} clusters[] = {{1, 1},  {1, 2},   {2, 1},   {2, 8},    {3, 8},   {16, 4},
                {64, 8}, {512, 1}, {32, 16}, {32, 128}, {512, 8}, {4096, 1}};
enum { CLUSTERS = sizeof clusters / sizeof *clusters };

// Whether the step's cells are different ones inside an area.
static void check_cells(const struct chunking *chunking, const struct comm_range *range,
                        int64_t step, int size, size_t area) {
    static int64_t taken[MOST]; // by which step of which call
    static int64_t call;
    call++;
    for (int rank = 0; rank < size; rank++) {
        if (chunking_count(chunking, range, step, rank) > 0) {
            const size_t cell = (size_t)chunking_cell(chunking, rank);
            assert_true((cell + 1) * chunking->cell_bytes <= area);
            assert_true(cell < MOST && taken[cell] != call);
            taken[cell] = call;
        }
    }
}

static void check_steps(const struct comm_range *range, const struct cluster *cluster) {
    const int size = cluster->hosts * cluster->local_size;
    const struct chunk_limits limits = limits_of(cluster->hosts, cluster->local_size);
    const struct chunking chunking = chunking_of(range, size, cluster->hosts, &limits, table);
    int64_t *next = memory_array((size_t)size, sizeof *next);
    assert_non_null(next);
    memcpy(next, starts, (size_t)size * sizeof *next);
    assert_true(chunking.steps >= 1 && chunking.steps % chunking.groups == 0);
    for (int64_t step = 0; step < chunking.steps; step++) {
        for (int rank = 0; rank < size; rank++) {
            const int64_t count = chunking_count(&chunking, range, step, rank);
            const int64_t first =
                starts[rank] + chunking_index(&chunking, step) * chunking.elements;
            assert_true(count >= 0 && count <= chunking.elements);
            assert_true(count == 0 || first == next[rank]);
            next[rank] += count;
        }
        check_cells(&chunking, range, step, size, chunk_limits_area(&limits));
    }
    for (int rank = 0; rank < size; rank++) {
        assert_int_equal(next[rank], starts[rank + 1]);
    }
    memory_free(next);
}

static void test_every_element_is_in_one_step(void **state) {
    static const struct {
        int spacing;
        int64_t part, rest, bucket;
    } rows[] = {{1, PART, 1, 0},   {7, PART, 70000, 0}, {MOST, 2 * PART, 0, 0}, {1, 0, 0, 0},
                {3, 100, 7, 1000}, {1, 1, 0, 0},        {2, PART, 3, 1 << 20}};
    for (size_t i = 0; i < CLUSTERS; i++) {
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            const int size = clusters[i].hosts * clusters[i].local_size;
            struct comm_range range = spaced(size, rows[k].spacing, rows[k].part, rows[k].rest);
            range.bucket = rows[k].bucket;
            for (int native = 0; native < 2; native++) {
                range.native = native;
                range.wire = DTYPE_F32;
                check_steps(&range, &clusters[i]);
                range.wire = DTYPE_BF16;
                check_steps(&range, &clusters[i]);
            }
        }
    }
}

// A block of sums, the least that a rank owns, is sent in messages of at least 64 KiB, and the
// owners of a step are on as many hosts as they can be.
static void test_messages_of_many_ranks_are_not_small(void **state) {
    for (size_t i = 0; i < CLUSTERS; i++) {
        const int hosts = clusters[i].hosts, local_size = clusters[i].local_size;
        const int size = hosts * local_size, spacing = size > 512 ? size / 512 : 1;
        struct comm_range range = spaced(size, spacing, PART, 0);
        const struct chunk_limits limits = limits_of(hosts, local_size);
        for (enum dtype wire = DTYPE_F32; wire <= DTYPE_BF16; wire++) {
            range.wire = wire;
            const struct chunking chunking = chunking_of(&range, size, hosts, &limits, table);
            assert_true(chunking.elements * (int64_t)dtype_size(wire) >= 64 << 10);
            const int at_once = (chunking.owner_count + chunking.groups - 1) / chunking.groups;
            const int most = (at_once + hosts - 1) / hosts;
            for (int host = 0; host < hosts; host++) {
                int here = 0;
                for (int rank = host * local_size; rank < (host + 1) * local_size; rank++) {
                    here += chunking_count(&chunking, &range, 0, rank) > 0;
                }
                assert_true(here <= most + 1);
            }
        }
    }
}

// --- memory -------------------------------------------------------------------------------------

// Of a rank of the first of `hosts` hosts with `local_size` ranks each. cells > 0: the smallest
// chunks, of 1,024 elements, and so many cells in an area; 0: the usual ones.
static struct comm_ranks_memory memory_in_racks(int cells, int hosts, int local_size,
                                                int rack_hosts) {
    const struct comm_settings settings = {.window_bytes = (size_t)cells * WINDOW_SLOTS *
                                                           (size_t)local_size * 4096,
                                           .message_bytes = cells > 0 ? 4096 : 0};
    struct topology topology;
    assert_int_equal(topology_init_even(&topology, hosts, local_size, rack_hosts, NULL), BERTH_OK);
    const struct comm_ranks_memory memory = comm_ranks_memory(&settings, &topology);
    assert_null(comm_ranks_memory_check(&settings, &topology));
    topology_done(&topology);
    return memory;
}

static struct comm_ranks_memory memory_of(int cells, int hosts, int local_size) {
    return memory_in_racks(cells, hosts, local_size, 0);
}

static void test_the_memory_that_will_be_taken_is_known(void **state) {
    // In each slot 8 areas of 8 cells of 1,024 elements and a header; marks and a line.
    const size_t cell = 4096 + sizeof(struct range_header);
    assert_in_range(memory_of(8, 1, 8).host, WINDOW_SLOTS * 8 * 8 * cell,
                    WINDOW_SLOTS * 8 * (8 * cell + 256) + 64);
    // In each slot, what is received from 7 hosts, what a library adds of 8 hosts, its sums, and
    // the structures that describe messages; lists of owners.
    assert_in_range(memory_of(8, 8, 1).own, WINDOW_SLOTS * 23 * cell,
                    WINDOW_SLOTS * (23 * cell + 2 * 15 * 64 + 2 * 8 * 8));
    // The same of 4 hosts with 512 KB and 256 KB each; from 17 hosts on a library adds 448 KB.
    assert_in_range(memory_of(0, 4, 1).own, WINDOW_SLOTS * (3 * 512 + 8 * 256) * (size_t)1024,
                    WINDOW_SLOTS * (3 * 513 + 8 * 257) * (size_t)1024);
    assert_in_range(memory_of(0, 32, 1).own, WINDOW_SLOTS * (31 * 256 + 2 * 448) * (size_t)1024,
                    WINDOW_SLOTS * (31 * 257 + 2 * 453) * (size_t)1024);
    // Of 8 hosts in racks of 4: what is received from 3 hosts and a rack, and what it relays for an
    // owner in that rack, from 3 hosts; and again what a library adds.
    assert_in_range(memory_in_racks(8, 8, 1, 4).own, WINDOW_SLOTS * 23 * cell,
                    WINDOW_SLOTS * (23 * cell + 2 * 16 * 64 + 2 * 8 * 8));
    // On one host, a rank writes 7 of its own 8 cells and reads one of each of the others; in a
    // gather, it uses one of each. With 4 hosts of 2 ranks, it also handles 3 owners elsewhere.
    assert_in_range(memory_of(8, 1, 8).reduce, WINDOW_SLOTS * 14 * cell,
                    WINDOW_SLOTS * 14 * (cell + 64));
    assert_in_range(memory_of(8, 4, 2).reduce, WINDOW_SLOTS * 11 * cell,
                    WINDOW_SLOTS * 11 * (cell + 64));
    assert_in_range(memory_of(8, 4, 2).gather, WINDOW_SLOTS * 8 * cell,
                    WINDOW_SLOTS * 8 * (cell + 64));
    // If owners take turns, in time all of the window.
    assert_int_equal(memory_of(4, 1, 8).reduce, memory_of(4, 1, 8).host);
}

static void test_the_memory_of_a_host_does_not_grow_with_the_job(void **state) {
    for (int local_size = 1; local_size <= 256; local_size *= 2) {
        const size_t target = (size_t)(local_size <= 32 ? 64 : 2 * local_size) << 20;
        for (int hosts = 1; hosts * local_size <= MOST; hosts *= 2) {
            const struct comm_ranks_memory memory = memory_of(0, hosts, local_size);
            assert_true(memory.host <= target + target / 32);
            // What is received, and what a library adds: of all ranks of a host together.
            assert_true(memory.own * (size_t)local_size <= (size_t)3 << 29);
            // 128 chunks from each other host of the rack, and for each rank one from every rack.
            const struct comm_ranks_memory racks = memory_in_racks(0, hosts, local_size, 32);
            assert_int_equal(racks.host, memory.host);
            assert_true(racks.own * (size_t)local_size <= (size_t)3 << 29);
        }
    }
    assert_true(memory_of(0, 32, 128).host <= (size_t)257 << 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_element_is_in_one_step),
        cmocka_unit_test(test_messages_of_many_ranks_are_not_small),
        cmocka_unit_test(test_the_memory_that_will_be_taken_is_known),
        cmocka_unit_test(test_the_memory_of_a_host_does_not_grow_with_the_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
