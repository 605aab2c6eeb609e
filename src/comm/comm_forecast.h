// SPDX-License-Identifier: Apache-2.0
// A simulated communicator: it moves no data, but predicts when each exchange of a given cluster
// would end. Each rank has a clock, which the caller advances by the time that the rank computes.
// doc/develop/math.md has the model.
#ifndef BERTH_COMM_COMM_FORECAST_H
#define BERTH_COMM_COMM_FORECAST_H

#include "comm/comm.h"
#include "core/error.h"

// The processor time that exchanges cost a rank, in seconds.
struct comm_costs {
    double memory;   // for each byte read or written by a conversion
    double addend;   // for each number that is added
    double checksum; // for each byte
    double copy;     // for each byte of a message, sent or received
    double message;  // for each message, sent or received
};

// Measures all on this machine, in memory and in one thread; takes about a fifth of a second.
enum berth_status comm_costs_measure(struct comm_costs *costs, struct berth_error *error);

// Those of one core of a server of about 2024, rounded, for what must not depend on a measurement.
extern const struct comm_costs comm_costs_usual;

struct comm_link {
    double bytes_per_second; // of messages, in each direction of a host's link
    double delay_seconds;    // from one host to another
};

// Hosts with equal numbers of ranks, and equal links to a network that delays nothing else.
struct comm_cluster {
    int hosts, ranks_per_host;
    int rack_hosts; // of each rack but the last, which may have fewer (topology.h); 0: one rack
    struct comm_link link;
    struct comm_costs costs;
    // Of the library's own collectives: 1: rounds like the number of hosts, 0: like its logarithm.
    int library_is_linear;
    size_t window_bytes, message_bytes; // of comm_settings (ranks.h); 0: the usual
    double stolen; // fraction of the costs by which a computing rank is delayed: 1 if it uses all
                   // its cores
};

// The communicator as rank 0 sees it. An operation begins on every rank at the time of its clock;
// wait, sum and agree advance the clocks to its end and leave values unchanged. stats are rank 0's;
// bytes are counted when an operation begins. The data of ranges are not accessed.
enum berth_status comm_forecast_open(const struct comm_cluster *cluster, struct comm **comm,
                                     struct berth_error *error);
// [size] seconds since the opening.
double *comm_forecast_clocks(struct comm *comm);
// Bytes that a rank has sent to other hosts.
uint64_t comm_forecast_sent(const struct comm *comm, int rank);

#endif
