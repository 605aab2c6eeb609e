// SPDX-License-Identifier: Apache-2.0
// Forecasts of exchanges (comm/comm_forecast.h): the bytes are those that real ranks send, the
// times those of the model computed by hand, and no faster link or processor makes a forecast
// longer.
#include "comm/collectives.h"
#include "comm/comm_forecast.h"
#include "comm/host_window.h"
#include "core/harness.h"
#include "core/memory.h"
#include "job.h"

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// --- bytes --------------------------------------------------------------------------------------

enum { ELEMENTS = 40961, ROWS = 4, SUMMED = 5000 };

// How much of a range each rank owns.
enum parts { EVEN, ALL_TO_LAST, EVERY_SECOND };

static const struct row {
    enum parts parts;
    enum dtype wire;
    int64_t bucket;
} rows[ROWS] = {{EVEN, DTYPE_F32, 0},
                {EVEN, DTYPE_BF16, 9000},
                {ALL_TO_LAST, DTYPE_BF16, 0},
                {EVERY_SECOND, DTYPE_F32, 3000}};

struct ranges {
    float data[ELEMENTS];
    int64_t starts[ROWS][SOCKET_PROCESSES + 1];
    struct comm_range ranges[ROWS];
};

static struct ranges *ranges_of(int size) {
    struct ranges *ranges = memory_array_zeroed(1, sizeof *ranges);
    for (int i = 0; i < ROWS; i++) {
        for (int rank = 0; rank <= size; rank++) {
            const int64_t even = (int64_t)ELEMENTS * rank / size;
            const int64_t second = (int64_t)ELEMENTS * (rank / 2) / ((size + 1) / 2);
            ranges->starts[i][rank] = rank == size                   ? ELEMENTS
                                      : rows[i].parts == ALL_TO_LAST ? 0
                                      : rows[i].parts == EVEN        ? even
                                                                     : second;
        }
        ranges->ranges[i] = (struct comm_range){.name = "gradients",
                                                .data = ranges->data,
                                                .count = ELEMENTS,
                                                .dtype = DTYPE_F32,
                                                .wire = rows[i].wire,
                                                .starts = ranges->starts[i],
                                                .bucket = rows[i].bucket};
    }
    return ranges;
}

// Makes the same calls on any communicator.
static void exchange(struct comm *comm, const struct ranges *ranges) {
    double numbers[SUMMED] = {0};
    int stop = 0;
    for (int i = 0; i < ROWS; i++) {
        comm->wait(comm, comm->reduce_begin(comm, &ranges->ranges[i]));
        comm->wait(comm, comm->gather_begin(comm, &ranges->ranges[i]));
    }
    comm->sum(comm, numbers, SUMMED);
    CHECK(comm->agree(comm, BERTH_OK, &stop, NULL) == BERTH_OK);
}

static void send_really(struct comm *comm, const struct transport *transport, void *context) {
    uint64_t *sent = context;
    struct ranges *ranges = ranges_of(comm->size);
    exchange(comm, ranges);
    sent[comm->rank] = comm->stats(comm).bytes;
    memory_free(ranges);
}

static void test_bytes_are_those_of_real_ranks(void **state) {
    static const struct {
        const char *layout;
        int hosts, ranks_per_host, rack_hosts;
        size_t message_bytes; // not 0: owners take turns
    } layouts[] = {{"1x3", 1, 3, 0, 0},         {"2x1", 2, 1, 0, 0},    {"3x1", 3, 1, 0, 0},
                   {"2x2", 2, 2, 0, 0},         {"2x3", 2, 3, 0, 0},    {"4x2", 4, 2, 0, 0},
                   {"2x4", 2, 4, 0, 0},         {"8x1", 8, 1, 0, 0},    {"8x1", 8, 1, 0, 512},
                   {"4x2", 4, 2, 0, 4096},      {"2x4", 2, 4, 0, 1024}, {"2x4x1", 8, 1, 4, 0},
                   {"4x2x1", 8, 1, 2, 512},     {"2x2x2", 4, 2, 2, 0},  {"2x1x3", 2, 3, 1, 0},
                   {"1+1+1/1+1", 5, 1, 3, 1024}};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        uint64_t sent[SOCKET_PROCESSES];
        struct job job = job_of(layouts[i].layout);
        const struct comm_cluster cluster = {.hosts = layouts[i].hosts,
                                             .ranks_per_host = layouts[i].ranks_per_host,
                                             .rack_hosts = layouts[i].rack_hosts,
                                             .window_bytes = layouts[i].message_bytes,
                                             .message_bytes = layouts[i].message_bytes,
                                             .link = {1e9, 0}};
        struct comm *forecast;
        job.settings.window_bytes = job.settings.message_bytes = layouts[i].message_bytes;
        job.body = send_really;
        job.context = sent;
        job_run(&job);
        assert_int_equal(comm_forecast_open(&cluster, &forecast, NULL), BERTH_OK);
        struct ranges *ranges = ranges_of(forecast->size);
        exchange(forecast, ranges);
        for (int rank = 0; rank < forecast->size; rank++) {
            assert_int_equal(comm_forecast_sent(forecast, rank), sent[rank]);
        }
        assert_int_equal(forecast->stats(forecast).bytes, sent[0]);
        memory_free(ranges);
        forecast->close(forecast);
    }
}

// --- times by hand ------------------------------------------------------------------------------

static const double header = sizeof(struct range_header);

static int64_t starts[SOCKET_PROCESSES + 1];

// `part` elements of each rank, which travel in f32, `chunk` of a part at a time.
static struct comm_range even(int size, int64_t part, int64_t chunk) {
    for (int rank = 0; rank <= size; rank++) {
        starts[rank] = rank * part;
    }
    return (struct comm_range){.name = "gradients",
                               .count = size * part,
                               .dtype = DTYPE_F32,
                               .wire = DTYPE_F32,
                               .starts = starts,
                               .bucket = chunk * size};
}

static struct comm *open_cluster(const struct comm_cluster *cluster) {
    struct comm *comm;
    assert_int_equal(comm_forecast_open(cluster, &comm, NULL), BERTH_OK);
    return comm;
}

static double close_at(struct comm *comm) {
    const double end = comm_forecast_clocks(comm)[0];
    comm->close(comm);
    return end;
}

static double reduced(const struct comm_cluster *cluster, int64_t part, int64_t chunk) {
    struct comm *comm = open_cluster(cluster);
    const struct comm_range range = even(comm->size, part, chunk);
    comm->wait(comm, comm->reduce_begin(comm, &range));
    return close_at(comm);
}

static double gathered(const struct comm_cluster *cluster, int64_t part, int64_t chunk) {
    struct comm *comm = open_cluster(cluster);
    const struct comm_range range = even(comm->size, part, chunk);
    comm->wait(comm, comm->gather_begin(comm, &range));
    return close_at(comm);
}

#define SAME(x, y) assert_true(fabs((x) - (y)) <= 1e-9 * fabs(y))

static void test_a_link_takes_its_bytes_and_its_delay(void **state) {
    const struct comm_cluster two = {.hosts = 2, .ranks_per_host = 1, .link = {1e6, 0.01}};
    const struct comm_cluster near = {.hosts = 2, .ranks_per_host = 1, .link = {1e6, 0.001}};
    const struct comm_cluster three = {.hosts = 3, .ranks_per_host = 2, .link = {1e6, 0.01}};
    // A message with the other rank's 1,000 elements, and the greeting.
    SAME(reduced(&two, 1000, 1000), (header + 4000 + header) / 1e6 + 0.01);
    SAME(gathered(&two, 1000, 1000), (header + 4000 + header) / 1e6 + 0.01);
    // Ten messages one after another; the delay counts once.
    SAME(reduced(&near, 1000, 100), (10 * (header + 400) + header) / 1e6 + 0.001);
    // Four owners on other hosts; a host sends each of them the sum of its two ranks. The last
    // message waits for one of another host.
    SAME(reduced(&three, 1000, 1000), (5 * (header + 4000) + header) / 1e6 + 0.01);
    SAME(gathered(&three, 1000, 1000), (5 * (header + 4000) + header) / 1e6 + 0.01);
}

static void test_a_window_of_steps_waits_for_its_delay(void **state) {
    const struct comm_cluster cluster = {.hosts = 2, .ranks_per_host = 1, .link = {1e30, 0.5}};
    SAME(reduced(&cluster, 100 * WINDOW_SLOTS, 100), 0.5);
    SAME(reduced(&cluster, 100 * WINDOW_SLOTS + 1, 100), 1.0);
    SAME(gathered(&cluster, 200 * WINDOW_SLOTS + 1, 100), 1.5);
}

static void test_operations_share_the_link_in_their_order(void **state) {
    const struct comm_cluster cluster = {.hosts = 2, .ranks_per_host = 1, .link = {1e6, 0.01}};
    const double bytes = header + 4000 + header;
    const struct comm_range range = even(2, 1000, 1000);
    struct comm *comm = open_cluster(&cluster);
    comm->reduce_begin(comm, &range);
    comm->wait(comm, comm->reduce_begin(comm, &range));
    SAME(comm_forecast_clocks(comm)[1], 2 * bytes / 1e6 + 0.01);
    SAME(comm->stats(comm).exposed_seconds, 2 * bytes / 1e6 + 0.01);
    SAME(close_at(comm), 2 * bytes / 1e6 + 0.01);
    // A gathering begins when the sums before it are finished.
    comm = open_cluster(&cluster);
    comm->reduce_begin(comm, &range);
    comm->wait(comm, comm->gather_begin(comm, &range));
    SAME(close_at(comm), 2 * (bytes / 1e6 + 0.01));
}

static void test_the_slowest_rank_is_waited_for(void **state) {
    const struct comm_cluster cluster = {.hosts = 2, .ranks_per_host = 1, .link = {1e6, 0}};
    const struct comm_range range = even(2, 1000, 1000);
    struct comm *comm = open_cluster(&cluster);
    double *clocks = comm_forecast_clocks(comm);
    const double seconds = (header + 4000 + header) / 1e6;
    clocks[0] = 1;
    clocks[1] = 3;
    const int64_t ticket = comm->reduce_begin(comm, &range);
    clocks[0] += 0.5;
    comm->wait(comm, ticket);
    SAME(clocks[0], 3 + seconds);
    SAME(clocks[1], 3 + seconds);
    SAME(comm->stats(comm).exposed_seconds, 1.5 + seconds);
    // What has ended while a rank computed is not waited for.
    const int64_t next = comm->gather_begin(comm, &range);
    clocks[0] += 1;
    clocks[1] += 2;
    comm->wait(comm, next);
    SAME(clocks[0], 4 + seconds);
    SAME(clocks[1], 5 + seconds);
    comm->close(comm);
}

static void test_processors_take_their_time(void **state) {
    const struct comm_cluster host = {
        .hosts = 1, .ranks_per_host = 2, .costs = {.memory = 1e-6, .addend = 1e-5}};
    // Fill: 1,000 elements read and written; add: two ranks' values of 1,000.
    SAME(reduced(&host, 1000, 1000), 1000 * 8 * 1e-6 + 2000 * 1e-5);
    // Fill the own cell, copy the other's.
    SAME(gathered(&host, 1000, 1000), 2 * 1000 * 8 * 1e-6);
    const struct comm_cluster hosts = {
        .hosts = 3,
        .ranks_per_host = 1,
        .link = {1e30, 0},
        .costs = {.addend = 1e-5, .checksum = 1e-6, .copy = 1e-7, .message = 1e-3}};
    const double message = 1e-3 + (header + 4000) * (1e-6 + 1e-7);
    SAME(reduced(&hosts, 1000, 1000), 4 * message + 3000 * 1e-5);
    // The own part is sealed once and sent twice.
    SAME(gathered(&hosts, 1000, 1000), 4 * message - (header + 4000) * 1e-6);
}

static void test_exchanges_slow_down_ranks_without_a_spare_core(void **state) {
    struct comm_cluster cluster = {
        .hosts = 2, .ranks_per_host = 1, .link = {1e30, 0}, .costs = {.addend = 1e-5}};
    for (int stolen = 0; stolen < 2; stolen++) {
        const struct comm_range range = even(2, 1000, 1000);
        cluster.stolen = stolen;
        struct comm *comm = open_cluster(&cluster);
        const int64_t ticket = comm->reduce_begin(comm, &range);
        comm_forecast_clocks(comm)[0] += 7;
        comm->wait(comm, ticket);
        SAME(close_at(comm), 7 + stolen * 2000 * 1e-5);
    }
}

static void test_collectives_go_up_and_down_a_tree(void **state) {
    const struct comm_cluster cluster = {.hosts = 5, .ranks_per_host = 1, .link = {1e6, 0.01}};
    struct comm *comm = open_cluster(&cluster);
    double numbers[100] = {0};
    comm_forecast_clocks(comm)[3] = 2;
    comm->sum(comm, numbers, 100);
    SAME(close_at(comm), 2 + 2 * 3 * (0.01 + 800 / 1e6));
}

// --- monotonicity -------------------------------------------------------------------------------

// Two updates as in ZeRO stage 0, or as in stages 1 and 2 (gathers_weights).
static double train(const struct comm_cluster *cluster, int gathers_weights) {
    struct comm *comm = open_cluster(cluster);
    const struct comm_range range = even(comm->size, 150000, 0);
    int64_t sums[6], weights[6] = {0};
    for (int update = 0; update < 2; update++) {
        for (int i = 0; i < 6; i++) {
            comm->wait(comm, weights[i]);
            comm_forecast_clocks(comm)[i % comm->size] += 0.002;
        }
        for (int i = 0; i < 6; i++) {
            comm_forecast_clocks(comm)[(i + 1) % comm->size] += 0.004;
            sums[i] = comm->reduce_begin(comm, &range);
            sums[i] = gathers_weights ? sums[i] : comm->gather_begin(comm, &range);
        }
        for (int i = 0; i < 6; i++) {
            comm->wait(comm, sums[i]);
        }
        for (int i = 0; i < 6 && gathers_weights; i++) {
            comm_forecast_clocks(comm)[0] += 0.001;
            weights[i] = comm->gather_begin(comm, &range);
        }
    }
    comm->wait(comm, weights[5]);
    return close_at(comm);
}

static void test_nothing_that_is_faster_makes_it_longer(void **state) {
    const struct comm_cluster usual = {.hosts = 4,
                                       .ranks_per_host = 2,
                                       .link = {2e8, 1e-4},
                                       .costs = {1e-10, 1e-10, 1e-10, 1e-10, 1e-6},
                                       .stolen = 1};
    for (int gathers = 0; gathers < 2; gathers++) {
        const double seconds = train(&usual, gathers);
        for (int i = 1; i <= 20; i++) {
            struct comm_cluster other = usual;
            other.link.bytes_per_second *= 1 + i * 0.2;
            assert_true(train(&other, gathers) <= seconds);
            other = usual;
            other.link.bytes_per_second /= 1 + i * 0.2;
            assert_true(train(&other, gathers) > seconds);
            other = usual;
            other.link.delay_seconds *= 1 + i;
            assert_true(train(&other, gathers) >= seconds);
            other = usual;
            other.costs.copy *= 1 + i;
            assert_true(train(&other, gathers) > seconds);
        }
    }
}

// --- what is measured ---------------------------------------------------------------------------

static void test_costs_are_measured(void **state) {
    struct comm_costs costs;
    assert_int_equal(comm_costs_measure(&costs, NULL), BERTH_OK);
    const double *each[] = {&costs.memory, &costs.addend, &costs.checksum, &costs.copy,
                            &costs.message};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        assert_true(*each[i] > 0 && *each[i] < 1e-3);
    }
    assert_true(costs.message > 100 * costs.copy);
}

// In the place of the system's: pipes of `pipe_bytes`, if that is not 0.
static int pipe_bytes;
int pipe2(int ends[2], int flags) {
    const int code = (int)syscall(SYS_pipe2, ends, flags);
    assert_true(code != 0 || pipe_bytes == 0 ||
                fcntl(ends[1], F_SETPIPE_SZ, pipe_bytes) >= pipe_bytes);
    return code;
}

// As of a user who has too many pipes; a message that does not fit would wait for ever.
static void test_costs_are_measured_with_a_small_pipe(void **state) {
    struct comm_costs costs;
    pipe_bytes = 4096;
    alarm(100);
    assert_int_equal(comm_costs_measure(&costs, NULL), BERTH_OK);
    alarm(0);
    pipe_bytes = 0;
    assert_true(costs.copy > 0 && costs.copy < 1e-3);
}

static void test_memory_that_is_out(void **state) {
    const struct comm_cluster cluster = {.hosts = 2, .ranks_per_host = 1, .link = {1e6, 0}};
    struct comm_costs costs;
    struct comm *comm;
    struct berth_error error;
    uint64_t failures = 0;
    enum berth_status status = BERTH_OK;
    do {
        memory_fail_at(++failures, 1);
        status = comm_forecast_open(&cluster, &comm, &error);
        memory_fail_at(0, 0);
    } while (status == BERTH_NO_MEMORY);
    assert_int_equal(status, BERTH_OK);
    assert_int_equal(failures, 17);
    const struct comm_range range = even(2, 1000, 1000);
    memory_fail_at(1, 1);
    assert_int_equal(comm->reduce_begin(comm, &range), 0);
    memory_fail_at(0, 0);
    assert_int_equal(comm->status(comm, &error), BERTH_NO_MEMORY);
    comm->close(comm);
    memory_fail_at(1, 1);
    assert_int_equal(comm_costs_measure(&costs, &error), BERTH_NO_MEMORY);
    memory_fail_at(0, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_are_those_of_real_ranks),
        cmocka_unit_test(test_a_link_takes_its_bytes_and_its_delay),
        cmocka_unit_test(test_a_window_of_steps_waits_for_its_delay),
        cmocka_unit_test(test_operations_share_the_link_in_their_order),
        cmocka_unit_test(test_the_slowest_rank_is_waited_for),
        cmocka_unit_test(test_processors_take_their_time),
        cmocka_unit_test(test_exchanges_slow_down_ranks_without_a_spare_core),
        cmocka_unit_test(test_collectives_go_up_and_down_a_tree),
        cmocka_unit_test(test_nothing_that_is_faster_makes_it_longer),
        cmocka_unit_test(test_costs_are_measured),
        cmocka_unit_test(test_costs_are_measured_with_a_small_pipe),
        cmocka_unit_test(test_memory_that_is_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
