// SPDX-License-Identifier: Apache-2.0
#include "job.h"

#include "core/harness.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    int racks, hosts, ranks, length = 0, rack = 0;
    const int numbers = sscanf(layout, "%dx%dx%d", &racks, &hosts, &ranks);
    job.has_racks = numbers == 3 || strchr(layout, '/') != NULL;
    if (numbers > 1) {
        if (numbers == 2) {
            ranks = hosts;
            hosts = racks;
            racks = 1;
        }
        for (; job.size < racks * hosts * ranks; job.size++) {
            job.hosts[job.size] = job.size / ranks;
            job.racks[job.size] = job.size / ranks / hosts;
        }
        return job;
    }
    for (hosts = 0; sscanf(layout, "%d%n", &ranks, &length) == 1; hosts++) {
        for (int i = 0; i < ranks; i++) {
            job.racks[job.size] = rack;
            job.hosts[job.size++] = hosts;
        }
        rack += layout[length] == '/';
        layout += length + (layout[length] != '\0');
    }
    return job;
}

// --- one thread for each process ----------------------------------------------------------------

struct process {
    struct job *job;
    int number;
};

static void run_all(struct job *job, void *(*run)(void *)) {
    struct process processes[SOCKET_PROCESSES];
    pthread_t threads[SOCKET_PROCESSES];
    for (int i = 0; i < job->size; i++) {
        processes[i] = (struct process){job, i};
        assert_int_equal(pthread_create(&threads[i], NULL, run, &processes[i]), 0);
    }
    for (int i = 0; i < job->size; i++) {
        pthread_join(threads[i], NULL);
    }
}

static void *open_rank(void *context) {
    const struct process *process = context;
    struct job *job = process->job;
    const int number = process->number;
    struct comm_settings settings = job->settings;
    char host[16], rack[16];
    snprintf(host, sizeof host, "host%d", job->hosts[number]);
    snprintf(rack, sizeof rack, "rack%d", job->racks[number]);
    settings.host = host;
    settings.rack = job->has_racks ? rack : NULL;
    job->status[number] = comm_ranks_open(job->transports[number], &settings, &job->comms[number],
                                          &job->errors[number]);
    if (job->status[number] != BERTH_OK) {
        job->comms[number] = NULL;
    }
    return NULL;
}

void job_open(struct job *job) {
    struct socket_job sockets;
    socket_job_init(&sockets, job->size);
    for (int i = 0; i < job->size; i++) {
        job->transports[i] = socket_transport_open(&sockets, i, &job->faults[i]);
    }
    run_all(job, open_rank);
    for (int i = 0; i < job->size; i++) {
        if (job->status[i] != BERTH_OK) {
            print_message("process %d: %s\n", i, job->errors[i].message);
        }
    }
}

void job_close(struct job *job) {
    for (int i = 0; i < job->size; i++) {
        if (job->comms[i] != NULL) {
            job->comms[i]->close(job->comms[i]);
            job->comms[i] = NULL;
        }
    }
}

static void *run_body(void *context) {
    const struct process *process = context;
    const struct job *job = process->job;
    struct comm *comm = job->comms[process->number];
    if (comm != NULL) {
        job->body(comm, job->transports[process->number], job->context);
    }
    return NULL;
}

void job_run(struct job *job) {
    atomic_store(&failures, 0);
    job_open(job);
    run_all(job, run_body);
    job_close(job);
    for (int i = 0; i < job->size; i++) {
        assert_int_equal(job->status[i], BERTH_OK);
    }
    assert_int_equal(atomic_load(&failures), 0);
}
