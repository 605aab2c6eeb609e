// SPDX-License-Identifier: Apache-2.0
// The open files that a process of a job needs (comm/connections.h): at least as many as there are
// other processes that exchanges and collectives make it talk to; a limit that is too low is
// raised, or is an error.
#include "comm/connections.h"
#include "comm/topology.h"
#include "core/harness.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 4096 };

static char talks[MOST];

static void list_exchanges(const struct topology *topology, int rank) {
    const int own = topology->hosts[rank];
    for (int other = 0; other < topology->size; other++) {
        talks[other] |= topology_handler(topology, own, other) == rank;
    }
    for (int host = 0; host < topology->host_count; host++) {
        talks[topology_handler(topology, host, rank)] = 1;
    }
}

// Trees from any root have edges between ranks whose numbers differ by powers of two, and rings
// between neighbours.
static void list_collectives(int size, int rank) {
    for (int step = 1; step < size; step *= 2) {
        talks[(rank + step) % size] = talks[(rank + size - step) % size] = 1;
    }
}

static void test_partners_are_counted(void **state) {
    static const struct {
        int hosts, local_size;
    } clusters[] = {{1, 1},  {1, 8},  {2, 1}, {2, 4},    {3, 5},
                    {32, 1}, {64, 8}, {7, 3}, {32, 128}, {512, 8}};
    for (size_t i = 0; i < sizeof clusters / sizeof *clusters; i++) {
        const int hosts = clusters[i].hosts, local_size = clusters[i].local_size;
        const int size = hosts * local_size;
        struct topology topology;
        int64_t most = 0;
        assert_int_equal(topology_init_even(&topology, hosts, local_size, 0, NULL), BERTH_OK);
        for (int rank = 0; rank<size; rank += size> 500 ? 61 : 1) {
            int64_t partners = 0;
            memset(talks, 0, sizeof talks);
            list_exchanges(&topology, rank);
            list_collectives(size, rank);
            for (int other = 0; other < size; other++) {
                partners += talks[other] && topology.hosts[other] != topology.hosts[rank];
            }
            most = partners > most ? partners : most;
        }
        topology_done(&topology);
        assert_in_range(connections_of(size, local_size), most, most + 28);
    }
    // Not of how many hosts: as if each process had one.
    assert_int_equal(connections_of(32, 0), 31);
}

// What a child with this limit returns, as the first or another process of one of 100 hosts.
static int status_with(rlim_t soft, rlim_t hard, int64_t local_rank, const char *text) {
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {soft, hard};
        const struct launch launch = {
            .size = 200, .rank = local_rank, .local_size = 2, .local_rank = local_rank};
        struct berth_error error = {0};
        const enum berth_status status = setrlimit(RLIMIT_NOFILE, &limit) == 0
                                             ? connections_reserve(&launch, &error)
                                             : BERTH_INTERNAL;
        const int is_said =
            *text != '\0' ? strstr(error.message, text) != NULL : error.message[0] == '\0';
        _exit(is_said ? (int)status : BERTH_INTERNAL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_a_low_limit_is_raised_or_refused(void **state) {
    assert_int_equal(status_with(250, 250, 0, ""), BERTH_OK);
    assert_int_equal(status_with(60, 250, 0, ""), BERTH_OK);
    assert_int_equal(status_with(60, 60, 0, " but may have 60: raise the hard limit"),
                     BERTH_UNAVAILABLE);
    assert_int_equal(status_with(60, 100, 0,
                                 " 117 of them connections to processes of other "
                                 "hosts, but may have 100: "),
                     BERTH_UNAVAILABLE);
    assert_int_equal(status_with(60, 60, 1, ""), BERTH_UNAVAILABLE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_partners_are_counted),
        cmocka_unit_test(test_a_low_limit_is_raised_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
