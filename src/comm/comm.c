// SPDX-License-Identifier: Apache-2.0
// What does not depend on how ranks are connected: its check, and agreements after which one rank
// alone reports an error. Every room that works on several ranks ends its steps with these.
#include "comm/comm.h"

#include "core/check.h"

enum berth_status comm_settle_stop(struct comm *comm, enum berth_status own, int *stop,
                                   struct berth_error *error) {
    const enum berth_status status = comm->agree(comm, own, stop, error);
    return status == BERTH_OK || comm->rank == 0 || comm->status(comm, NULL) != BERTH_OK
               ? status
               : error_set(error, status, "%s", "");
}

enum berth_status comm_settle(struct comm *comm, enum berth_status own, struct berth_error *error) {
    int stop = 0;
    return comm_settle_stop(comm, own, &stop, error);
}

const char *comm_check(const struct comm *comm) {
    CLAUSE(comm->name != NULL, "a communicator has a name");
    CLAUSE(comm->rank >= 0 && comm->rank < comm->size, "the rank is one of the job's");
    CLAUSE(comm->local_rank >= 0 && comm->local_rank < comm->local_size,
           "the local rank is one of its host's");
    CLAUSE(comm->host >= 0 && comm->host < comm->host_count, "the host is one of the job's");
    CLAUSE(comm->rack_count > 0 && comm->rack_count <= comm->host_count,
           "a rack has at least one host");
    CLAUSE(comm->local_size <= comm->size && comm->host_count <= comm->size,
           "hosts and their ranks are no more than all ranks");
    CLAUSE(comm->host_names != NULL || comm->size == 1, "several ranks have names of hosts");
    CLAUSE(comm->close != NULL && comm->status != NULL && comm->find_silent != NULL &&
               comm->enter != NULL && comm->agree != NULL && comm->broadcast != NULL &&
               comm->sum != NULL && comm->reduce_begin != NULL && comm->gather_begin != NULL &&
               comm->wait != NULL && comm->stats != NULL,
           "a communicator has every operation");
    return NULL;
}
