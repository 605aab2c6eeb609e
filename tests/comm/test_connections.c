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
    const int own = topology->hosts[rank], rack = topology->racks[own];
    for (int other = 0; other < topology->size; other++) {
        const int is_near = topology_rack_of(topology, other) == rack;
        const int relay = is_near ? other : topology_relay(topology, rack, other);
        if (topology_handler(topology, own, other) == rank) {
            talks[relay == rank ? other : relay] = 1;
        }
        for (int host = topology->rack_first[rack];
             host < topology->rack_first[rack + 1] && relay == rank; host++) {
            talks[topology_handler(topology, host, other)] = 1;
        }
    }
    for (int host = topology->rack_first[rack]; host < topology->rack_first[rack + 1]; host++) {
        talks[topology_handler(topology, host, rank)] = 1;
    }
    for (int other = 0; other < topology->rack_count; other++) {
        if (other != rack) {
            talks[topology_relay(topology, other, rank)] = 1;
        }
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
        int hosts, local_size, rack_hosts;
    } clusters[] = {{1, 1, 0},  {1, 8, 0},    {2, 1, 0},   {2, 4, 0},    {3, 5, 0},
                    {32, 1, 0}, {64, 8, 0},   {7, 3, 0},   {32, 128, 0}, {512, 8, 0},
                    {64, 8, 8}, {512, 8, 32}, {100, 3, 16}};
    for (size_t i = 0; i < sizeof clusters / sizeof *clusters; i++) {
        const int hosts = clusters[i].hosts, local_size = clusters[i].local_size;
        const int size = hosts * local_size;
        struct topology topology;
        int64_t most = 0;
        const int rack_hosts = clusters[i].rack_hosts;
        assert_int_equal(topology_init_even(&topology, hosts, local_size, rack_hosts, NULL),
                         BERTH_OK);
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
        const int racks = topology.rack_count;
        topology_done(&topology);
        assert_true(connections_of(size, local_size) >= most);
        // With racks only a few of them are needed: the rack's hosts, and for each other rack the
        // relays there, and what it relays from it; and the trees.
        const int64_t exchanges = racks > 1 ? rack_hosts + 3 * racks : hosts;
        assert_true(most <= exchanges + 2 * 12);
        assert_true(racks > 1 || connections_of(size, local_size) <= most + 28);
    }
    // Not of how many hosts: as if each process had one.
    assert_int_equal(connections_of(32, 0), 31);
}

// What a child with this limit returns, as a process of one of 100 hosts.
static int status_with(rlim_t soft, rlim_t hard, const char *text) {
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {soft, hard};
        const struct launch launch = {.size = 200, .local_size = 2};
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
    assert_int_equal(status_with(250, 250, ""), BERTH_OK);
    assert_int_equal(status_with(60, 250, ""), BERTH_OK);
    assert_int_equal(status_with(60, 60, " but may have 60: raise the hard limit"),
                     BERTH_UNAVAILABLE);
    assert_int_equal(status_with(60, 100,
                                 " 117 of them connections to processes of other "
                                 "hosts, but may have 100: "),
                     BERTH_UNAVAILABLE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_partners_are_counted),
        cmocka_unit_test(test_a_low_limit_is_raised_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
