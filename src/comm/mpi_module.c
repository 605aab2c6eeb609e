// SPDX-License-Identifier: Apache-2.0
// The transport over MPI. This file is a module of its own, compiled once for each MPI, because no
// two of them have the same ABI. It uses MPI's point-to-point messages, and its nonblocking
// collectives for ranges that leave their sums to it (comm/comm.h).
#include "comm/module.h"
#include "core/memory.h"

#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct mpi_job {
    struct transport transport;
    char version[COMM_VERSION_SIZE];
    MPI_Comm channels[TRANSPORT_CHANNELS]; // duplicates, apart from the program's own messages
    MPI_Comm group;                        // MPI_COMM_NULL: none was joined
    int initialized_here;                  // MPI, so it is also finalized here
    _Atomic char *is_peer; // [size] 1: this process has sent to that one, or received from it
};

// MPI cannot be initialized twice. If it was initialized here, it is kept for the process's next
// job and finalized when the process exits, unless a job failed: MPI_Finalize would wait for the
// others.
static struct mpi_job *_Atomic reusable_job;
static atomic_int has_failed;

_Static_assert(sizeof(MPI_Request) <= sizeof(((struct transport_message *)0)->request),
               "a message holds any MPI's request");

// Reduces "Open MPI v4.1.4, package: ..." and "MPICH Version:\t4.0.2\nMPICH Release date..." to
// name and number.
static void mpi_version(char text[COMM_VERSION_SIZE]) {
    char whole[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(whole, &length);
    whole[strcspn(whole, ",\n")] = '\0';
    char *word = strstr(whole, " Version");
    if (word != NULL) {
        char *number = word + strlen(" Version");
        number += strspn(number, " \t:");
        memmove(word + 1, number, strlen(number) + 1);
    }
    snprintf(text, COMM_VERSION_SIZE, "%.*s", COMM_VERSION_SIZE - 1, whole);
}

// MPICH appends a stack trace to the error, one function a line.
static enum berth_status mpi_failed(int code, const char *what, struct berth_error *error) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    char *stack = strstr(text, ", error stack:");
    text[stack != NULL ? (size_t)(stack - text) : strcspn(text, "\n")] = '\0';
    return error_set(error, BERTH_UNAVAILABLE, "%s: %s", what, text);
}

// --- messages -----------------------------------------------------------------------------------

// Open MPI's nonblocking reduce-scatter reduces everything to one process, which then scatters it.
// MPICH's Iallreduce by a function of the program sends everything in every round.
#ifdef OPEN_MPI
#define PREFERS_ALL_REDUCE 1
#else
#define PREFERS_ALL_REDUCE 0
#endif

static struct mpi_job *job_of(struct transport *transport) {
    return transport->state;
}

// Both ends note the peer, except for messages of the monitor: a query may never be received, and
// a reply makes the connection one that was used in both directions.
static void note_peer(struct mpi_job *job, const struct transport_message *message) {
    if (message->channel != TRANSPORT_MONITOR) {
        atomic_store_explicit(&job->is_peer[message->peer], 1, memory_order_relaxed);
    }
}

static enum berth_status mpi_send(struct transport *transport, struct transport_message *message,
                                  struct berth_error *error) {
    MPI_Request request = MPI_REQUEST_NULL;
    struct mpi_job *job = job_of(transport);
    note_peer(job, message);
    int code = MPI_Isend(message->data, (int)message->bytes, MPI_BYTE, message->peer, 0,
                         job->channels[message->channel], &request);
    memcpy(&message->request, &request, sizeof request);
    return code == MPI_SUCCESS ? BERTH_OK : mpi_failed(code, "cannot send to it", error);
}

static enum berth_status mpi_receive(struct transport *transport, struct transport_message *message,
                                     struct berth_error *error) {
    MPI_Request request = MPI_REQUEST_NULL;
    struct mpi_job *job = job_of(transport);
    note_peer(job, message);
    int code = MPI_Irecv(message->data, (int)message->bytes, MPI_BYTE, message->peer, 0,
                         job->channels[message->channel], &request);
    memcpy(&message->request, &request, sizeof request);
    return code == MPI_SUCCESS ? BERTH_OK : mpi_failed(code, "cannot receive from it", error);
}

static enum berth_status mpi_test(struct transport *transport, struct transport_message *message,
                                  int *done, struct berth_error *error) {
    MPI_Request request;
    MPI_Status status[1]; // MPICH's MPI_STATUS_IGNORE looks like an overflow to compilers
    memcpy(&request, &message->request, sizeof request);
    int code = MPI_Test(&request, done, status);
    memcpy(&message->request, &request, sizeof request);
    return code == MPI_SUCCESS ? BERTH_OK : mpi_failed(code, "a message was lost", error);
}

// Both MPIs search only what they have received before they fetch what has arrived since, so it may
// take a second call to find a message.
static int probe(MPI_Comm from, int *found, MPI_Status *status) {
    int code = MPI_SUCCESS;
    *found = 0;
    for (int call = 0; call < 2 && code == MPI_SUCCESS && !*found; call++) {
        code = MPI_Iprobe(MPI_ANY_SOURCE, 0, from, found, status);
    }
    return code;
}

static enum berth_status mpi_receive_any(struct transport *transport,
                                         enum transport_channel channel, void *data, size_t bytes,
                                         int *peer, struct berth_error *error) {
    const MPI_Comm from = job_of(transport)->channels[channel];
    int found;
    MPI_Status status[1];
    *peer = -1;
    int code = probe(from, &found, status);
    if (code == MPI_SUCCESS && found) {
        *peer = status->MPI_SOURCE;
        code = MPI_Recv(data, (int)bytes, MPI_BYTE, *peer, 0, from, status);
    }
    return code == MPI_SUCCESS ? BERTH_OK : mpi_failed(code, "cannot look for messages", error);
}

// --- collectives --------------------------------------------------------------------------------

// MPI's own types have neither bf16 nor f16. Its functions get no context, hence the variables.
static struct {
    void (*add)(enum dtype dtype, void *to, const void *from, int64_t count);
    MPI_Op bf16, f16;
} sums = {.bf16 = MPI_OP_NULL, .f16 = MPI_OP_NULL};

static void add_bf16(void *from, void *to, int *count, MPI_Datatype *type) {
    sums.add(DTYPE_BF16, to, from, *count);
}

static void add_f16(void *from, void *to, int *count, MPI_Datatype *type) {
    sums.add(DTYPE_F16, to, from, *count);
}

static int make_sums(const struct transport *transport) {
    sums.add = transport->add;
    if (sums.f16 != MPI_OP_NULL) {
        return MPI_SUCCESS;
    }
    const int code = MPI_Op_create(add_bf16, 1, &sums.bf16);
    return code == MPI_SUCCESS ? MPI_Op_create(add_f16, 1, &sums.f16) : code;
}

static void leave_group(struct mpi_job *job) {
    if (job->group != MPI_COMM_NULL) {
        MPI_Comm_free(&job->group);
    }
}

static enum berth_status mpi_join_group(struct transport *transport, int color, int place,
                                        struct berth_error *error) {
    struct mpi_job *job = job_of(transport);
    leave_group(job); // of the process's last job
    int code = make_sums(transport);
    if (code == MPI_SUCCESS) {
        code = MPI_Comm_split(job->channels[TRANSPORT_RANGES], color, place, &job->group);
    }
    if (code == MPI_SUCCESS) {
        code = MPI_Comm_set_errhandler(job->group, MPI_ERRORS_RETURN);
    }
    return code == MPI_SUCCESS ? BERTH_OK
                               : mpi_failed(code, "MPI cannot divide its communicator", error);
}

static int begin_collective(const struct mpi_job *job, const struct transport_message *message,
                            const struct transport_collective *collective, MPI_Request *request) {
    const MPI_Datatype type = collective->dtype == DTYPE_F32 ? MPI_FLOAT : MPI_UINT16_T;
    const MPI_Op sum = collective->dtype == DTYPE_F32    ? MPI_SUM
                       : collective->dtype == DTYPE_BF16 ? sums.bf16
                                                         : sums.f16;
    int all = 0;
    for (int i = 0; i < collective->size; i++) {
        all += collective->counts[i];
    }
    switch (collective->kind) {
    case TRANSPORT_REDUCE_SCATTER:
        return MPI_Ireduce_scatter(collective->from, message->data, collective->counts, type, sum,
                                   job->group, request);
    case TRANSPORT_ALL_REDUCE:
        return MPI_Iallreduce(collective->from, message->data, all, type, sum, job->group, request);
    default:
        return MPI_Iallgatherv(MPI_IN_PLACE, 0, type, message->data, collective->counts,
                               collective->offsets, type, job->group, request);
    }
}

static enum berth_status mpi_collect(struct transport *transport, struct transport_message *message,
                                     const struct transport_collective *collective,
                                     struct berth_error *error) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = begin_collective(job_of(transport), message, collective, &request);
    memcpy(&message->request, &request, sizeof request);
    return code == MPI_SUCCESS ? BERTH_OK : mpi_failed(code, "cannot begin a collective", error);
}

// --- joining and leaving ------------------------------------------------------------------------

// Over TCP, Open MPI asks the receiver before it sends more than 64 KB. Berth's messages are
// larger, and their receivers are already waiting. If the user has set one of the limits, none is
// changed, because each bounds the next.
static void raise_message_limits(void) {
#ifdef OPEN_MPI
    static const char *const limits[] = {"OMPI_MCA_btl_tcp_eager_limit",
                                         "OMPI_MCA_btl_tcp_rndv_eager_limit",
                                         "OMPI_MCA_btl_tcp_max_send_size"};
    enum { COUNT = sizeof limits / sizeof *limits };
    for (int i = 0; i < COUNT; i++) {
        if (getenv(limits[i]) != NULL) {
            return;
        }
    }
    for (int i = 0; i < COUNT; i++) {
        setenv(limits[i], "1000000", 0);
    }
#endif
}

// Initializes MPI unless the program has.
static enum berth_status initialize(int *initialized_here, struct berth_error *error) {
    int initialized, finalized, level = MPI_THREAD_SINGLE;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (finalized) {
        return error_set(
            error, BERTH_CONFIG,
            "MPI was finalized in this process and cannot be initialized again: finalize it after "
            "all jobs");
    }
    *initialized_here = !initialized;
    if (!initialized) {
        raise_message_limits();
    }
    int code = initialized ? MPI_Query_thread(&level)
                           : MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    if (code != MPI_SUCCESS) {
        return mpi_failed(code, "MPI cannot be initialized", error);
    }
    return level == MPI_THREAD_MULTIPLE
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG, "MPI runs without support for multiple threads: %s",
                           initialized
                               ? "the program must initialize it with MPI_Init_thread and "
                                 "MPI_THREAD_MULTIPLE"
                               : "Berth needs one that was built with it (MPI_THREAD_MULTIPLE)");
}

static enum berth_status open_channels(struct mpi_job *job, struct berth_error *error) {
    for (int i = 0; i < TRANSPORT_CHANNELS; i++) {
        int code = MPI_Comm_dup(MPI_COMM_WORLD, &job->channels[i]);
        if (code == MPI_SUCCESS) {
            code = MPI_Comm_set_errhandler(job->channels[i], MPI_ERRORS_RETURN);
        }
        if (code != MPI_SUCCESS) {
            return mpi_failed(code, "MPI cannot duplicate its communicator", error);
        }
    }
    return BERTH_OK;
}

#if defined MPICH_NUMVERSION && MPICH_NUMVERSION < 40200000
#define CLOSING_NEEDS_REPLIES 1
#else
#define CLOSING_NEEDS_REPLIES 0
#endif

static void exchange_byte(const struct mpi_job *job, int to, int from) {
    char own = 0, other;
    MPI_Status status[1];
    MPI_Sendrecv(&own, 1, MPI_BYTE, to, 0, &other, 1, MPI_BYTE, from, 0, job->channels[0], status);
}

// A barrier that sends in both directions over every connection that it uses.
static void pairwise_barrier(const struct mpi_job *job) {
    const int rank = job->transport.rank, size = job->transport.size;
    for (int step = 1; step < size; step *= 2) {
        const int higher = (rank + step) % size, lower = (rank - step + size) % size;
        exchange_byte(job, higher, lower);
        exchange_byte(job, lower, higher);
    }
}

// UCX_TLS may exclude shared memory, so that even the processes of one host use the network.
static int uses_network(const struct mpi_job *job) {
    MPI_Comm host;
    int host_size;
    MPI_Comm_split_type(job->channels[0], MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &host_size);
    MPI_Comm_free(&host);
    return host_size < job->transport.size || getenv("UCX_TLS") != NULL;
}

// A workaround for MPICH before 4.2 over UCX. MPI_Finalize closes the connections over which this
// process has sent and waits for each peer's reply; afterwards it replies no more. A peer that has
// sent but never received closes its own end later, and then waits forever. So every connection is
// first used in both directions. Then all processes meet at a barrier and make no MPI call until
// the last one has left it, so that each replies from within its own MPI_Finalize.
static void close_connections(const struct mpi_job *job) {
    const struct timespec pause = {.tv_nsec = 500000000};
    if (!CLOSING_NEEDS_REPLIES || !uses_network(job)) {
        return;
    }
    for (int peer = 0; peer < job->transport.size; peer++) {
        if (atomic_load(&job->is_peer[peer])) {
            exchange_byte(job, peer, peer);
        }
    }
    pairwise_barrier(job);
    nanosleep(&pause, NULL);
}

static void free_job(struct mpi_job *job) {
    memory_free(job->is_peer);
    memory_free(job);
}

// Ends a process that has waited too long for the others to leave, without MPI_Abort, which may
// crash beside MPI_Finalize; the launcher then ends the others. Time in which this process was
// itself stopped does not count, so it sleeps a second at a time.
static void *end_late(void *context) {
    const struct mpi_job *job = context;
    const struct timespec second = {.tv_sec = 1};
    for (double passed = 0; passed < job->transport.timeout_seconds; passed++) {
        nanosleep(&second, NULL);
    }
    dprintf(STDERR_FILENO,
            "berth: error: rank %d: the work is done, but not all processes of the job have ended "
            "in %.0f s (comm_timeout): one of them is stopped, or its host is unreachable\n",
            job->transport.rank, job->transport.timeout_seconds);
    _exit(BERTH_UNAVAILABLE);
}

static void leave(struct mpi_job *job) {
    int finalized;
    MPI_Finalized(&finalized);
    if (!finalized) {
        pthread_t late;
        const int is_watched =
            job->transport.timeout_seconds > 0 && pthread_create(&late, NULL, end_late, job) == 0;
        if (job->initialized_here) {
            close_connections(job);
        }
        leave_group(job);
        for (int i = 0; i < TRANSPORT_CHANNELS; i++) {
            MPI_Comm_free(&job->channels[i]);
        }
        if (job->initialized_here) {
            MPI_Finalize();
        }
        if (is_watched) {
            pthread_cancel(late);
            pthread_join(late, NULL);
        }
    }
    free_job(job);
}

// A launcher may take seconds to notice that a process has ended, and MPICH's may then return the
// signal with which it kills the others. An abort ends all processes at once, with this exit code.
// It also discards output that MPICH's launcher has not read yet, hence the pause.
static void abort_all(int code) {
    const struct timespec pause = {.tv_nsec = 500000000};
    nanosleep(&pause, NULL);
    MPI_Abort(MPI_COMM_WORLD, code);
}

static void leave_at_exit(int code, void *context) {
    struct mpi_job *job = atomic_exchange(&reusable_job, NULL);
    if (job != NULL) {
        leave(job);
    } else if (code != 0 && atomic_load(&has_failed)) {
        fflush(NULL); // MPI_Abort does not
        abort_all(code);
    }
}

// The launcher ends all processes once one has ended, so the one with the error must report first.
static void wait_for_report(void) {
    const struct timespec pause = {.tv_sec = 3};
    nanosleep(&pause, NULL);
}

static void mpi_close(struct transport *transport, enum transport_end end) {
    struct mpi_job *job = job_of(transport);
    if (end == TRANSPORT_FAILED_ELSEWHERE) {
        wait_for_report();
    }
    if (end != TRANSPORT_DONE) {
        atomic_fetch_or(&has_failed, job->initialized_here && end == TRANSPORT_FAILED);
        free_job(job);
    } else if (job->initialized_here) {
        atomic_store(&reusable_job, job);
    } else {
        leave(job);
    }
}

// Ends the process unless MPI_Abort already has.
static void *exit_soon(void *code) {
    const struct timespec pause = {.tv_sec = 1, .tv_nsec = 500000000};
    nanosleep(&pause, NULL);
    _exit(*(int *)code);
}

static void mpi_abandon(struct transport *transport, const struct berth_error *error) {
    int code = (int)error->status;
    pthread_t thread;
    dprintf(STDERR_FILENO, "berth: error: %s\n", error->message);
    if (pthread_create(&thread, NULL, exit_soon, &code) == 0) {
        abort_all(code); // may hang as well
    }
    _exit(code);
}

static enum berth_status join(struct mpi_job *job, struct berth_error *error) {
    TRY(initialize(&job->initialized_here, error));
    if (job->initialized_here && on_exit(leave_at_exit, NULL) != 0) {
        return error_no_memory(error, sizeof(void *), "MPI's end");
    }
    job->group = MPI_COMM_NULL;
    TRY(open_channels(job, error));
    mpi_version(job->version);
    job->transport = (struct transport){
        .name = BERTH_MODULE_NAME,
        .state = job,
        .version = job->version,
        .send = mpi_send,
        .receive = mpi_receive,
        .test = mpi_test,
        .receive_any = mpi_receive_any,
        .join_group = mpi_join_group,
        .collect = mpi_collect,
        .prefers_all_reduce = PREFERS_ALL_REDUCE,
        .close = mpi_close,
        .abandon = mpi_abandon,
    };
    MPI_Comm_rank(job->channels[0], &job->transport.rank);
    MPI_Comm_size(job->channels[0], &job->transport.size);
    const size_t size = (size_t)job->transport.size;
    job->is_peer = memory_array_zeroed(size, sizeof *job->is_peer);
    return job->is_peer != NULL ? BERTH_OK : error_no_memory(error, size, "the list of processes");
}

static enum berth_status mpi_open(struct transport **transport, struct berth_error *error) {
    struct mpi_job *job = atomic_exchange(&reusable_job, NULL);
    if (job == NULL) {
        job = memory_array_zeroed(1, sizeof *job);
        enum berth_status status =
            job != NULL ? join(job, error)
                        : error_no_memory(error, sizeof *job, "the connection to MPI");
        if (status != BERTH_OK) {
            if (job != NULL) {
                free_job(job);
            }
            return status;
        }
    }
    *transport = &job->transport;
    return BERTH_OK;
}

extern const struct comm_module berth_comm_module;
const struct comm_module berth_comm_module = {
    .berth = BERTH_VERSION,
    .transport_size = sizeof(struct transport),
    .version = mpi_version,
    .open = mpi_open,
};
