// SPDX-License-Identifier: Apache-2.0
#include "job.h"

#include "core/harness.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_int failures;

int job_check(int holds, const char *condition, const char *file, int line) {
    if (!holds) {
        atomic_fetch_add(&failures, 1);
        fprintf(stderr, "%s:%d: %s does not hold\n", file, line, condition);
    }
    return holds;
}

struct job job_of(const char *layout) {
    struct job job = {.settings = {.timeout_seconds = 20}};
    int hosts, ranks, length = 0;
    if (sscanf(layout, "%dx%d", &hosts, &ranks) == 2) {
        for (; job.size < hosts * ranks; job.size++) {
            job.hosts[job.size] = job.size / ranks;
        }
        return job;
    }
    for (hosts = 0; sscanf(layout, "%d%n", &ranks, &length) == 1; hosts++) {
        for (int i = 0; i < ranks; i++) {
            job.hosts[job.size++] = hosts;
        }
        layout += length + (layout[length] == '+');
    }
    return job;
}

struct process {
    struct job *job;
    struct socket_job *sockets;
    int number;
    pthread_t thread;
};

static void *run(void *context) {
    const struct process *process = context;
    struct job *job = process->job;
    struct transport *transport =
        socket_transport_open(process->sockets, process->number, &job->faults[process->number]);
    struct comm_settings settings = job->settings;
    enum berth_status *status = &job->status[process->number];
    struct comm *comm;
    char host[16];
    snprintf(host, sizeof host, "host%d", job->hosts[process->number]);
    settings.host = host;
    *status = comm_ranks_open(transport, &settings, &comm, &job->errors[process->number]);
    if (*status != BERTH_OK) {
        transport->close(transport, 1);
        return NULL;
    }
    job->body(comm, transport, job->context);
    comm->close(comm);
    return NULL;
}

void job_run(struct job *job) {
    struct socket_job sockets;
    struct process processes[SOCKET_PROCESSES];
    socket_job_init(&sockets, job->size);
    atomic_store(&failures, 0);
    for (int i = 0; i < job->size; i++) {
        processes[i] = (struct process){.job = job, .sockets = &sockets, .number = i};
        assert_int_equal(pthread_create(&processes[i].thread, NULL, run, &processes[i]), 0);
    }
    for (int i = 0; i < job->size; i++) {
        pthread_join(processes[i].thread, NULL);
    }
    socket_job_done(&sockets);
    for (int i = 0; i < job->size; i++) {
        if (job->status[i] != BERTH_OK) {
            print_message("process %d: %s\n", i, job->errors[i].message);
        }
    }
    assert_int_equal(atomic_load(&failures), 0);
}
