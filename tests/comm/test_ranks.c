// SPDX-License-Identifier: Apache-2.0
// The communicator of several ranks (comm/ranks.h): the results of ranges, sums, agreements and
// broadcasts on one host and on several, and the traffic between hosts.
#include "comm/host_window.h"
#include "comm/numbers.h"
#include "comm/range_message.h"
#include "core/harness.h"
#include "core/memory.h"
#include "core/reduction_tree.h"
#include "core/rng.h"
#include "job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const layouts[] = {
    "1x1",   "1x2",   "2x1",   "1x3", "3x1", "1x4",   "2x2",       "4x1",     "1x5",      "5x1",
    "2x3",   "3+5",   "5+3",   "1x8", "2x4", "4x2",   "8x1",       "2x1x1",   "2x2x1",    "2x2x2",
    "4x2x1", "2x4x1", "8x1x1", "1/2", "3/5", "1x3x2", "2+1/1/2+2", "1+1+1/2", "2/1+1/1+1"};
enum { LAYOUTS = sizeof layouts / sizeof *layouts, RANGES = 5 };

// --- ranges with known values -------------------------------------------------------------------

// How a range is divided.
enum division { EVEN, ALL_TO_LAST, EVERY_SECOND, DIVISIONS };

struct case_range {
    int64_t first, count;
    enum division division;
};

// In chunks of at least 1,024 elements, and of more than four ranks in turns: several steps; many
// steps of one rank's part; parts of every second rank only; fewer elements than ranks; none.
static const struct case_range ranges[RANGES] = {{7, 40961, EVEN},
                                                 {100000, 20000, ALL_TO_LAST},
                                                 {50000, 9999, EVERY_SECOND},
                                                 {200000, 3, EVEN},
                                                 {300000, 0, EVEN}};

static void divide(const struct case_range *range, int size, int64_t *starts) {
    for (int rank = 0; rank <= size; rank++) {
        int64_t offset = range->count * rank / size;
        if (range->division == ALL_TO_LAST) {
            offset = rank == size ? range->count : 0;
        } else if (range->division == EVERY_SECOND) {
            offset = range->count * (rank / 2) / ((size + 1) / 2);
            offset = rank == size ? range->count : offset;
        }
        starts[rank] = range->first + offset;
    }
}

// Values of very different magnitudes, so that another order of addition gives other bits.
static float value_of(int rank, int64_t element) {
    uint64_t index = (uint64_t)element;
    const uint32_t bits = rng_draw((uint64_t)rank, 3, &index);
    return ldexpf((float)(bits >> 8) * 0x1p-24F - 0.5F, (int)(bits & 15));
}

struct exchange_case {
    enum dtype wire;
    int roundings;       // of what is not in f32
    float *sums[RANGES]; // output: what all ranks have in the end
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

static void free_buffers(struct buffers *buffers) {
    for (int i = 0; i < RANGES; i++) {
        memory_free(buffers->data[i]);
    }
}

// Compares with a sum in double. What is sent as bf16 is rounded to 8 bits, as f16 to 11: once
// within a host, once between hosts, and once between racks.
static void check_sum(const struct comm *comm, const struct exchange_case *test, int64_t element,
                      float sum) {
    double expected = 0, size = 0;
    for (int rank = 0; rank < comm->size; rank++) {
        expected += value_of(rank, element);
        size += fabs((double)value_of(rank, element));
    }
    const double error = test->wire == DTYPE_BF16  ? test->roundings * 0x1p-8
                         : test->wire == DTYPE_F16 ? test->roundings * 0x1p-11
                                                   : 0x1p-21;
    CHECK(fabs(sum - expected) <= size * error);
}

static void check_sums(const struct comm *comm, const struct buffers *buffers,
                       const struct exchange_case *test) {
    for (int i = 0; i < RANGES; i++) {
        const int64_t *starts = buffers->starts[i];
        for (int64_t element = starts[comm->rank]; element < starts[comm->rank + 1]; element++) {
            check_sum(comm, test, element, buffers->data[i][element - ranges[i].first]);
        }
    }
}

// All ranks must have what the last one has.
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
    check_sums(comm, &buffers, test);
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
    free_buffers(&buffers);
}

static void run(struct job *job, job_body *body, void *context) {
    job->settings.window_bytes = 1; // the smallest, of four cells for each rank
    job->settings.message_bytes = 4096;
    job->body = body;
    job->context = context;
    job_run(job);
}

static struct exchange_case run_case(const char *layout, enum dtype wire, int flat) {
    struct job job = job_of(layout);
    struct exchange_case test = {.wire = wire, .roundings = job.has_racks ? 3 : 2};
    job.settings.flat = flat;
    run(&job, exchange_ranges, &test);
    return test;
}

static void free_case(struct exchange_case *test) {
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
        for (enum dtype wire = DTYPE_F32; wire <= DTYPE_F16; wire++) {
            struct exchange_case test = run_case(layouts[i], wire, 0);
            assert_non_null(test.sums[0]);
            free_case(&test);
        }
    }
}

// What element k of range i becomes: the sum along the tree over ranks, of `count` ranks from
// `first`.
static float tree_value(int first, int count, int64_t element) {
    if (count == 1) {
        return value_of(first, element);
    }
    const int half = reduction_tree_split(count);
    return tree_value(first, half, element) + tree_value(first + half, count - half, element);
}

static int is_tree(const struct exchange_case *test, int size) {
    for (int i = 0; i < RANGES; i++) {
        for (int64_t k = 0; k < ranges[i].count; k++) {
            if (test->sums[i][k] != tree_value(0, size, ranges[i].first + k)) {
                return 0;
            }
        }
    }
    return 1;
}

static void test_the_tree_does_not_depend_on_where_ranks_are(void **state) {
    enum { MOST = 12 };
    static const struct {
        int size;
        const char *layouts[MOST];
    } groups[] = {{2, {"1x2", "2x1", "2x1x1"}},
                  {3, {"1x3", "3x1", "2+1", "1+2", "1+1/1"}},
                  {4, {"1x4", "2x2", "4x1", "3+1", "1+3", "2+1+1", "1+2+1", "2x2x1", "1+1/1+1"}},
                  {5, {"1x5", "5x1", "4+1", "1+4", "2+3", "1+3+1", "1+1+1/2", "2/1+1/1"}},
                  {6, {"1x6", "2x3", "3x2", "1+5", "4+2", "1+2/1+2", "3x2x1"}},
                  {7, {"1+6", "3+1+3", "2+1/1/1+2", "1+2+3/1"}},
                  {8,
                   {"1x8", "2x4", "4x2", "8x1", "5+3", "1+6+1", "7+1", "2x2x2", "4x2x1", "2x4x1",
                    "1+1+1/1+1+1/1+1", "3/4+1"}}};
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        for (int i = 0; i < MOST && groups[g].layouts[i] != NULL; i++) {
            struct exchange_case test = run_case(groups[g].layouts[i], DTYPE_F32, 0);
            assert_true(is_tree(&test, groups[g].size));
            free_case(&test);
        }
        struct exchange_case flat = run_case(groups[g].layouts[0], DTYPE_F32, 1);
        assert_true(is_tree(&flat, groups[g].size));
        free_case(&flat);
    }
    // The comparison can fail: three ranks have another tree than four.
    struct exchange_case three = run_case("1x3", DTYPE_F32, 0);
    assert_false(is_tree(&three, 4));
    free_case(&three);
}

// --- roundings ----------------------------------------------------------------------------------

static float bf16_of(float value) {
    uint16_t narrow;
    numbers_convert(&narrow, DTYPE_BF16, &value, DTYPE_F32, 1);
    numbers_convert(&value, DTYPE_F32, &narrow, DTYPE_BF16, 1);
    return value;
}

// What is sent as bf16 is rounded, the owner's own values are not; four ranks, two on each host.
static float narrow_sum(int owner, int64_t element) {
    float values[4], sums[2];
    for (int rank = 0; rank < 4; rank++) {
        values[rank] = value_of(rank, element);
        values[rank] = rank == owner ? values[rank] : bf16_of(values[rank]);
    }
    for (int host = 0; host < 2; host++) {
        sums[host] = values[2 * host] + values[2 * host + 1];
        sums[host] = owner / 2 == host ? sums[host] : bf16_of(sums[host]);
    }
    return sums[0] + sums[1];
}

static void check_roundings(struct comm *comm, const struct transport *transport, void *context) {
    struct buffers buffers;
    fill(&buffers, comm, DTYPE_BF16);
    comm->wait(comm, comm->reduce_begin(comm, &buffers.ranges[0]));
    const int64_t *starts = buffers.starts[0];
    for (int64_t i = starts[comm->rank]; i < starts[comm->rank + 1]; i++) {
        CHECK(buffers.data[0][i - ranges[0].first] == narrow_sum(comm->rank, i));
    }
    comm->wait(comm, comm->gather_begin(comm, &buffers.ranges[0]));
    for (int owner = 0; owner < 4; owner++) {
        for (int64_t i = starts[owner]; i < starts[owner + 1]; i++) {
            CHECK(buffers.data[0][i - ranges[0].first] == bf16_of(narrow_sum(owner, i)));
        }
    }
    free_buffers(&buffers);
}

static void test_only_what_travels_is_rounded(void **state) {
    struct job job = job_of("2x2");
    run(&job, check_roundings, NULL);
}

// Memory in bf16 is gathered unchanged, also if it is sent as f32.
static void gather_narrow(struct comm *comm, const struct transport *transport, void *context) {
    enum { COUNT = 5001 };
    static const enum dtype wires[] = {DTYPE_BF16, DTYPE_F32};
    uint16_t data[COUNT];
    int64_t starts[SOCKET_PROCESSES + 1];
    const struct case_range whole = {0, COUNT, EVEN};
    divide(&whole, comm->size, starts);
    for (int w = 0; w < 2; w++) {
        for (int i = 0; i < COUNT; i++) {
            const int is_own = starts[comm->rank] <= i && i < starts[comm->rank + 1];
            data[i] = (uint16_t)(is_own ? i * 3 % 0x7f80 : 0x7fff);
        }
        const struct comm_range range = {.name = "copies",
                                         .data = data,
                                         .count = COUNT,
                                         .dtype = DTYPE_BF16,
                                         .wire = wires[w],
                                         .starts = starts};
        comm->wait(comm, comm->gather_begin(comm, &range));
        for (int i = 0; i < COUNT; i++) {
            CHECK(data[i] == i * 3 % 0x7f80);
        }
    }
}

static void test_memory_in_bf16_is_gathered(void **state) {
    static const char *const some[] = {"1x1", "1x3", "3x1", "2+3", "2x3x1"};
    for (int i = 0; i < 5; i++) {
        struct job job = job_of(some[i]);
        run(&job, gather_narrow, NULL);
    }
}

// --- many operations ----------------------------------------------------------------------------

// Repeatedly reduces and gathers all ranges without waiting in between: each time, element k of a
// range is multiplied by the number of ranks.
static void exchange_in_flight(struct comm *comm, const struct transport *transport,
                               void *context) {
    enum { ROUNDS = 6 };
    struct buffers buffers;
    int64_t ticket = 0, first_ticket = 0;
    fill(&buffers, comm, DTYPE_F32);
    for (int i = 0; i < RANGES; i++) {
        for (int64_t k = 0; k < ranges[i].count; k++) {
            buffers.data[i][k] = (float)(k % 100);
        }
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < RANGES; i++) {
            comm->reduce_begin(comm, &buffers.ranges[i]);
            ticket = comm->gather_begin(comm, &buffers.ranges[i]);
            first_ticket = first_ticket > 0 ? first_ticket : ticket;
        }
    }
    comm->wait(comm, first_ticket);
    comm->wait(comm, ticket);
    comm->wait(comm, first_ticket); // done long ago
    for (int i = 0; i < RANGES; i++) {
        for (int64_t k = 0; k < ranges[i].count; k++) {
            CHECK(buffers.data[i][k] == (float)(k % 100) * (float)pow(comm->size, ROUNDS));
        }
    }
    free_buffers(&buffers);
}

static void test_many_operations_in_flight(void **state) {
    static const char *const some[] = {"1x1", "1x2", "2x1",   "2x2",
                                       "3+2", "2x4", "2x2x2", "1+1+1/2/1+1+1"};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        struct job job = job_of(some[i]);
        run(&job, exchange_in_flight, NULL);
    }
}

// --- seconds ------------------------------------------------------------------------------------

static void sleep_for(double seconds) {
    const time_t whole = (time_t)seconds;
    nanosleep(
        &(struct timespec){.tv_sec = whole, .tv_nsec = (long)((seconds - (double)whole) * 1e9)},
        NULL);
}

// Rank 1 begins late, so rank 0 waits; the second time, both wait only once all is done.
static int are_seconds_right(struct comm *comm, const struct buffers *buffers, double nap) {
    const struct comm_stats before = comm->stats(comm);
    double ready = 0;
    comm->sum(comm, &ready, 1);
    if (comm->rank == 1) {
        sleep_for(nap);
    }
    comm->wait(comm, comm->reduce_begin(comm, &buffers->ranges[0]));
    const struct comm_stats first = comm->stats(comm);
    const int64_t ticket = comm->reduce_begin(comm, &buffers->ranges[0]);
    sleep_for(nap);
    comm->wait(comm, ticket);
    const struct comm_stats second = comm->stats(comm);
    CHECK(first.busy_seconds - before.busy_seconds >=
          first.exposed_seconds - before.exposed_seconds - 1e-9);
    CHECK(second.busy_seconds - first.busy_seconds >=
          second.exposed_seconds - first.exposed_seconds - 1e-9);
    return (comm->rank == 1 || (first.busy_seconds - before.busy_seconds > nap / 5 &&
                                first.exposed_seconds - before.exposed_seconds > nap / 5)) &&
           second.busy_seconds > first.busy_seconds &&
           second.exposed_seconds - first.exposed_seconds < nap / 2;
}

// On a busy machine a rank may be late or slow itself, so there are further tries with more time.
static void check_seconds(struct comm *comm, const struct transport *transport, void *context) {
    struct buffers buffers;
    double wrong = 1;
    fill(&buffers, comm, DTYPE_F32);
    for (double nap = 0.5; wrong > 0 && nap < 10; nap *= 2) {
        wrong = !are_seconds_right(comm, &buffers, nap);
        comm->sum(comm, &wrong, 1);
    }
    CHECK(wrong == 0);
    free_buffers(&buffers);
}

static void test_seconds_of_exchanges_and_of_waits_for_them(void **state) {
    struct job one = job_of("1x2"), two = job_of("2x1");
    run(&one, check_seconds, NULL);
    run(&two, check_seconds, NULL);
}

// --- the order of ranks -------------------------------------------------------------------------

static void check_order(struct comm *comm, const struct transport *transport, void *context) {
    static const int ranks[] = {0, 2, 4, 1, 3, 5}, locals[] = {0, 0, 0, 1, 1, 1};
    CHECK(comm->rank == ranks[transport->rank]);
    CHECK(comm->local_rank == locals[transport->rank]);
    CHECK(comm->local_size == 2);
    CHECK(comm->host == transport->rank % 3);
    CHECK(comm->host_count == 3);
    CHECK(comm->size == 6);
}

static void check_flat(struct comm *comm, const struct transport *transport, void *context) {
    CHECK(comm->host_count == 3 && comm->local_size == 1 && comm->host == comm->rank);
}

static void test_a_flat_job_has_a_host_for_each_rank(void **state) {
    struct job job = job_of("1x3");
    job.settings.flat = 1;
    run(&job, check_flat, NULL);
}

static void test_ranks_of_a_host_are_consecutive(void **state) {
    struct job job = job_of("1x6");
    for (int process = 0; process < job.size; process++) {
        job.hosts[process] = process % 3; // as "srun --distribution=cyclic" starts them
    }
    run(&job, check_order, NULL);
    struct exchange_case test = {.wire = DTYPE_F32}, usual = run_case("3x2", DTYPE_F32, 0);
    run(&job, exchange_ranges, &test);
    assert_true(is_same(&test, &usual));
    free_case(&test);
    free_case(&usual);
}

// --- traffic ------------------------------------------------------------------------------------

struct traffic {
    const struct job *job;
    enum dtype wire;
    // Of reduce and gather, by the sender's host; of these, to other racks, by the sender's rack.
    _Atomic uint64_t payload[2][SOCKET_PROCESSES], to_racks[2][SOCKET_PROCESSES];
};

// Elements sent so far to other hosts, or racks, in bytes.
static uint64_t payload_of(const struct transport *transport, const int *places) {
    uint64_t bytes = 0;
    for (int peer = 0; peer < transport->size; peer++) {
        for (enum transport_channel channel = TRANSPORT_RANGES; channel <= TRANSPORT_RELAYS;
             channel++) {
            if (places[peer] != places[transport->rank]) {
                bytes += socket_transport_bytes(transport, peer, channel) -
                         socket_transport_messages(transport, peer, channel) *
                             sizeof(struct range_header);
            }
        }
    }
    return bytes;
}

static uint64_t sent_to_others(const struct transport *transport, const struct job *job) {
    uint64_t bytes = 0;
    for (int peer = 0; peer < transport->size; peer++) {
        if (job->hosts[peer] != job->hosts[transport->rank]) {
            bytes += socket_transport_bytes(transport, peer, TRANSPORT_RANGES) +
                     socket_transport_bytes(transport, peer, TRANSPORT_RELAYS) +
                     socket_transport_bytes(transport, peer, TRANSPORT_COLLECTIVES) +
                     socket_transport_bytes(transport, peer, TRANSPORT_AGREEMENTS);
        }
    }
    return bytes;
}

enum { TRAFFIC = 24 * 1000 };

static void count_traffic(struct comm *comm, const struct transport *transport, void *context) {
    struct traffic *traffic = context;
    const struct job *job = traffic->job;
    const uint64_t opened = sent_to_others(transport, traffic->job);
    float data[TRAFFIC] = {0};
    int64_t starts[SOCKET_PROCESSES + 1];
    const struct case_range whole = {0, TRAFFIC, EVEN};
    divide(&whole, comm->size, starts);
    const struct comm_range range = {.name = "gradients",
                                     .data = data,
                                     .count = TRAFFIC,
                                     .wire = traffic->wire,
                                     .starts = starts};
    uint64_t hosts = 0, racks = 0; // so far
    for (int is_gather = 0; is_gather < 2; is_gather++) {
        comm->wait(comm,
                   is_gather ? comm->gather_begin(comm, &range) : comm->reduce_begin(comm, &range));
        const uint64_t to_hosts = payload_of(transport, job->hosts);
        const uint64_t to_racks = payload_of(transport, job->racks);
        atomic_fetch_add(&traffic->payload[is_gather][comm->host], to_hosts - hosts);
        atomic_fetch_add(&traffic->to_racks[is_gather][job->racks[transport->rank]],
                         to_racks - racks);
        hosts = to_hosts;
        racks = to_racks;
    }
    double one = 1;
    comm->sum(comm, &one, 1);
    CHECK(comm->stats(comm).bytes == sent_to_others(transport, traffic->job) - opened);
}

struct message_counts {
    int64_t bucket;
    uint64_t sums, all; // messages of a reduce, and with those of a gather, from rank 0 to rank 1
};

static void count_messages(struct comm *comm, const struct transport *transport, void *context) {
    struct message_counts *message_counts = context;
    float data[TRAFFIC] = {0};
    const int64_t starts[] = {0, TRAFFIC / 2, TRAFFIC};
    const struct comm_range range = {.name = "gradients",
                                     .data = data,
                                     .count = TRAFFIC,
                                     .wire = DTYPE_F32,
                                     .starts = starts,
                                     .bucket = message_counts->bucket};
    comm->wait(comm, comm->reduce_begin(comm, &range));
    if (comm->rank == 0) {
        message_counts->sums = socket_transport_messages(transport, 1, TRANSPORT_RANGES);
    }
    comm->wait(comm, comm->gather_begin(comm, &range));
    if (comm->rank == 0) {
        message_counts->all = socket_transport_messages(transport, 1, TRANSPORT_RANGES);
    }
    CHECK(comm->status(comm, NULL) == BERTH_OK);
}

// A step covers half a bucket of each of the two parts, or as much as the memory allows; each
// operation begins with a greeting.
static void test_a_bucket_limits_what_is_exchanged_at_a_time(void **state) {
    static const struct {
        int64_t bucket;
        uint64_t steps;
    } cases[] = {{0, 6}, {600, 40}, {2048, 12}, {TRAFFIC, 6}, {1, TRAFFIC / 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job job = job_of("2x1");
        struct message_counts message_counts = {.bucket = cases[i].bucket};
        run(&job, count_messages, &message_counts);
        assert_int_equal(message_counts.sums, cases[i].steps + 1);
        assert_int_equal(message_counts.all, 2 * (cases[i].steps + 1));
    }
}

// With p ranks on a host, not p times as much: in a reduce the sum of each block of ranks, which is
// one where p is a power of two; in a gather once. So does a rack.
static void test_a_host_sends_each_element_once(void **state) {
    static const struct {
        const char *layout;
        uint64_t blocks; // of each host
    } some[] = {{"2x4", 1}, {"4x2", 1},   {"2x1", 1},   {"3x2", 1},  {"1x4", 1},
                {"2x3", 2}, {"2x2x2", 1}, {"4x2x1", 1}, {"2x4x1", 1}};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        for (enum dtype wire = DTYPE_F32; wire <= DTYPE_F16; wire++) {
            struct job job = job_of(some[i].layout);
            struct traffic traffic = {.job = &job, .wire = wire};
            run(&job, count_traffic, &traffic);
            const int hosts = job.hosts[job.size - 1] + 1;
            for (int host = 0; host < hosts; host++) {
                const uint64_t expected =
                    (uint64_t)(TRAFFIC / hosts * (hosts - 1)) * dtype_size(wire);
                assert_int_equal(traffic.payload[0][host], some[i].blocks * expected);
                assert_int_equal(traffic.payload[1][host], expected);
            }
            const int racks = job.racks[job.size - 1] + 1;
            for (int rack = 0; rack < racks; rack++) {
                const uint64_t expected =
                    (uint64_t)(TRAFFIC / racks * (racks - 1)) * dtype_size(wire);
                assert_int_equal(traffic.to_racks[0][rack], expected);
                assert_int_equal(traffic.to_racks[1][rack], expected);
            }
        }
    }
}

// --- small operations ---------------------------------------------------------------------------

static double addend_of(int rank, size_t i) {
    return ldexp(1 + (double)((i * 7919 + (size_t)rank * 104729) % 65537) / 65537, rank * 11 % 40);
}

static double tree_sum(int first, int count, size_t i) {
    if (count == 1) {
        return addend_of(first, i);
    }
    const int half = reduction_tree_split(count);
    return tree_sum(first, half, i) + tree_sum(first + half, count - half, i);
}

static void check_calls(struct comm *comm, const struct transport *transport, void *context) {
    enum { COUNT = 9000 }; // more than fit in a message
    double *values = memory_array(COUNT, sizeof *values);
    for (size_t i = 0; i < COUNT; i++) {
        values[i] = addend_of(comm->rank, i);
    }
    comm->sum(comm, values, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        CHECK(values[i] == tree_sum(0, comm->size, i));
    }
    comm->sum(comm, values, 0);
    for (int root = 0; root < comm->size; root++) {
        memset(values, comm->rank == root ? root + 1 : 0, COUNT * sizeof *values);
        comm->broadcast(comm, values, COUNT * sizeof *values - 3, root);
        const unsigned char *bytes = (const unsigned char *)values;
        for (size_t i = 0; i < COUNT * sizeof *values - 3; i++) {
            CHECK(bytes[i] == root + 1);
        }
        CHECK(comm->rank == root || bytes[COUNT * sizeof *values - 1] == 0);
    }
    memory_free(values);
}

// Several of the chunks in which collectives.c sends.
static void check_large_broadcast(struct comm *comm, const struct transport *transport,
                                  void *context) {
    const size_t count = (9 << 20) / sizeof(uint32_t) + 1;
    uint32_t *data = memory_array(count, sizeof *data);
    for (size_t i = 0; i < count; i++) {
        data[i] = comm->rank == 1 ? (uint32_t)i * 2654435761U : 0;
    }
    comm->broadcast(comm, data, count * sizeof *data, 1);
    for (size_t i = 0; i < count; i++) {
        CHECK(data[i] == (uint32_t)i * 2654435761U);
    }
    memory_free(data);
}

static void check_agreements(struct comm *comm, const struct transport *transport, void *context) {
    struct berth_error error;
    int stop;
    for (int wanted = 0; wanted < comm->size; wanted++) { // rank that wants to stop
        stop = comm->rank == wanted ? 2 : comm->rank % 2;
        CHECK(comm->agree(comm, BERTH_OK, &stop, NULL) == BERTH_OK);
        CHECK(stop == 2);
    }
    // All ranks but those below `passed` fail.
    for (int passed = 0; passed < comm->size; passed++) {
        const int fails = comm->rank >= passed;
        char expected[64];
        stop = 0;
        // The rank is named unless all fail.
        const int length = passed > 0
                               ? snprintf(expected, sizeof expected, "rank %d on host %s: ", passed,
                                          comm->host_names[passed])
                               : 0;
        snprintf(expected + length, sizeof expected - (size_t)length, "disk %d full", passed);
        error = (struct berth_error){0};
        const enum berth_status own =
            fails ? error_set(&error, BERTH_IO, "disk %d full", comm->rank) : BERTH_OK;
        CHECK(comm->agree(comm, own, &stop, &error) == BERTH_IO);
        CHECK(strcmp(error.message, expected) == 0);
        CHECK(stop == 0);
    }
    CHECK(comm->status(comm, NULL) == BERTH_OK); // others' failures are not the communicator's
}

static void test_sums_broadcasts_and_agreements(void **state) {
    for (size_t i = 0; i < LAYOUTS; i++) {
        struct job job = job_of(layouts[i]);
        run(&job, check_calls, NULL);
        run(&job, check_agreements, NULL);
    }
    struct job job = job_of("1x5");
    run(&job, check_large_broadcast, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_and_gathers),
        cmocka_unit_test(test_the_tree_does_not_depend_on_where_ranks_are),
        cmocka_unit_test(test_only_what_travels_is_rounded),
        cmocka_unit_test(test_memory_in_bf16_is_gathered),
        cmocka_unit_test(test_many_operations_in_flight),
        cmocka_unit_test(test_seconds_of_exchanges_and_of_waits_for_them),
        cmocka_unit_test(test_a_flat_job_has_a_host_for_each_rank),
        cmocka_unit_test(test_ranks_of_a_host_are_consecutive),
        cmocka_unit_test(test_a_host_sends_each_element_once),
        cmocka_unit_test(test_a_bucket_limits_what_is_exchanged_at_a_time),
        cmocka_unit_test(test_sums_broadcasts_and_agreements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
