// SPDX-License-Identifier: Apache-2.0
// How a communicator of several ranks (comm/ranks.h) handles failures: ranks that do not answer,
// are killed or call another operation, corrupt messages, memory that cannot be shared or is
// exhausted.
#include "comm/heartbeat.h"
#include "comm/range_message.h"
#include "core/beside.h"
#include "core/harness.h"
#include "core/memory.h"
#include "job.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 5000 };

#define DEADLINE 0.6 // seconds; also for opening
#define SOON 15      // seconds: less than the deadline of jobs without a short one, of 20

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

// --- one disturbed exchange ---------------------------------------------------------------------

enum action { REDUCE, GATHER, AGREE, SUM, BROADCAST, FAIL, FAIL_ELSEWHERE, SUM_OUTSIDE, NOTHING };

struct outcome {
    enum berth_status status;
    struct berth_error error;
    enum berth_status agreed; // returned by AGREE, FAIL and FAIL_ELSEWHERE; else as status
    double seconds;
};

struct script {
    enum action actions[SOCKET_PROCESSES];      // of each rank
    struct comm_range ranges[SOCKET_PROCESSES]; // name, first, count, types
    int skewed;                                 // rank that divides differently; -1: none
    struct outcome outcomes[SOCKET_PROCESSES];
};

static void divide(const struct comm_range *range, int size, int skew, int64_t *starts) {
    for (int rank = 0; rank <= size; rank++) {
        const int64_t offset = range->count * rank / size;
        starts[rank] = range->first + offset - (rank > 0 && rank < size ? skew : 0);
    }
}

static void exchange(struct comm *comm, const struct script *script) {
    float data[COUNT * 2] = {0};
    int64_t starts[SOCKET_PROCESSES + 1];
    struct comm_range range = script->ranges[comm->rank];
    divide(&range, comm->size, script->skewed == comm->rank, starts);
    range.data = data;
    range.starts = starts;
    comm->wait(comm, script->actions[comm->rank] == REDUCE ? comm->reduce_begin(comm, &range)
                                                           : comm->gather_begin(comm, &range));
    // After an error nothing waits, whatever the others do.
    if (comm->status(comm, NULL) != BERTH_OK) {
        comm->wait(comm, comm->reduce_begin(comm, &range));
    }
}

static enum berth_status act(struct comm *comm, const struct script *script) {
    struct berth_error error = {.status = BERTH_OK};
    double values[2] = {1, 2};
    int stop = 0;
    switch (script->actions[comm->rank]) {
    case REDUCE:
    case GATHER:
        exchange(comm, script);
        break;
    case AGREE:
        return comm->agree(comm, BERTH_OK, &stop, NULL);
    case FAIL_ELSEWHERE: // having left the update in which the others agree
        comm->enter(comm, COMM_BETWEEN, 0);
        return comm->agree(comm, error_set(&error, BERTH_IO, "disk full"), &stop, &error);
    case FAIL:
        return comm->agree(comm, error_set(&error, BERTH_IO, "disk full"), &stop, &error);
    case SUM_OUTSIDE:
        comm->enter(comm, COMM_BETWEEN, 0);
        comm->sum(comm, values, 2);
        break;
    case SUM:
        comm->sum(comm, values, 2);
        break;
    case BROADCAST:
        comm->broadcast(comm, values, sizeof values, 0);
        break;
    case NOTHING:
        break;
    }
    return comm->status(comm, NULL);
}

// The seconds of the fastest of three calls, which the machine has not delayed: after an error none
// waits for the deadline.
static double seconds_to_agree(struct comm *comm, enum berth_status expected) {
    double least = SOON;
    for (int i = 0; i < 3; i++) {
        int stop = 0;
        const double start = now();
        CHECK(comm->agree(comm, BERTH_OK, &stop, NULL) == expected);
        least = fmin(least, now() - start);
    }
    return least;
}

static void play(struct comm *comm, const struct transport *transport, void *context) {
    struct script *script = context;
    struct outcome *outcome = &script->outcomes[comm->rank];
    const double start = now();
    comm->enter(comm, COMM_UPDATE, 1);
    outcome->agreed = act(comm, script);
    outcome->seconds = now() - start;
    outcome->status = comm->status(comm, &outcome->error);
    if (outcome->status != BERTH_OK) {
        CHECK(seconds_to_agree(comm, outcome->status) < DEADLINE / 2);
    }
}

static struct script script_of(enum action action) {
    struct script script = {.skewed = -1};
    for (int rank = 0; rank < SOCKET_PROCESSES; rank++) {
        script.actions[rank] = action;
        script.ranges[rank] = (struct comm_range){.name = "gradients", .count = COUNT};
    }
    return script;
}

static void run_script(struct job *job, struct script *script) {
    job->body = play;
    job->context = script;
    job_run(job);
}

static int says(const struct outcome *outcome, const char *text) {
    return strstr(outcome->error.message, text) != NULL;
}

// --- deadlines ----------------------------------------------------------------------------------

// Rank 0 did not arrive, and every other rank must have the error. At least one of them names rank
// 0, and none names another; a rank that learned of the error from others has no message.
static void check_rank_0_is_named(const struct script *script, int size, const char *where) {
    int named = 0;
    for (int rank = 1; rank < size; rank++) {
        const struct outcome *outcome = &script->outcomes[rank];
        const int is_told = outcome->error.message[0] == '\0';
        assert_int_equal(outcome->status, BERTH_UNAVAILABLE);
        assert_true(is_told || says(outcome, "rank 0 on host host0 did not arrive at"));
        assert_true(is_told || says(outcome, where));
        assert_true(is_told || outcome->seconds >= DEADLINE);
        assert_true(outcome->seconds < SOON);
        named += !is_told;
    }
    assert_true(named > 0);
}

static void test_a_rank_that_does_not_answer_is_named_when_the_deadline_has_passed(void **state) {
    static const struct {
        const char *layout;
        enum action action;
        const char *name;
    } cases[] = {{"2x1", REDUCE, "the sum of \"gradients\" (5000 elements from 0)"},
                 {"1x2", REDUCE, "the sum of \"gradients\""},
                 {"2x2", REDUCE, "the sum of \"gradients\""},
                 {"2x1", GATHER, "the gathering of \"gradients\""},
                 {"1x2", GATHER, "the gathering of \"gradients\""},
                 {"2x2", GATHER, "the gathering of \"gradients\""},
                 {"2x2x1", REDUCE, "the sum of \"gradients\""},
                 {"2x2x1", GATHER, "the gathering of \"gradients\""},
                 {"2x1", AGREE, "an agreement"},
                 {"1x2", SUM, "the sum of 2 numbers"},
                 {"1x3", BROADCAST, "the broadcast of 16 bytes from rank 0"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct script script = script_of(cases[i].action);
        struct job job = job_of(cases[i].layout);
        job.settings.timeout_seconds = DEADLINE;
        script.actions[0] = NOTHING;
        run_script(&job, &script);
        check_rank_0_is_named(&script, job.size, cases[i].name);
    }
}

// A job may have no updates, so the message says nothing about a rank that is in none.
static void test_a_rank_outside_of_updates_is_named_without_one(void **state) {
    struct script script = script_of(SUM_OUTSIDE);
    struct job job = job_of("1x2");
    job.settings.timeout_seconds = DEADLINE;
    script.actions[0] = NOTHING;
    run_script(&job, &script);
    check_rank_0_is_named(
        &script, job.size,
        "the sum of 2 numbers (comm_timeout 0.6 s): it is in update 1 and has not");
}

// A rank may wait for one that waits for the rank that is missing.
static void test_the_rank_that_all_wait_for_is_named(void **state) {
    struct script script = script_of(BROADCAST); // goes from rank 0 to 2, and from 2 to 3
    struct job job = job_of("2x2");
    job.settings.timeout_seconds = DEADLINE;
    script.actions[0] = NOTHING;
    run_script(&job, &script);
    check_rank_0_is_named(&script, job.size,
                          "the broadcast of 16 bytes from rank 0 in update 1 (comm_timeout 0.6 "
                          "s): it is in update 1 and has not reached it for");
}

// --- a rank that fails alone --------------------------------------------------------------------

static void test_a_rank_that_fails_alone_ends_all_long_before_the_deadline(void **state) {
    static const struct {
        enum action others, own;
    } cases[] = {{REDUCE, FAIL}, {GATHER, FAIL},          {SUM, FAIL},
                 {AGREE, FAIL},  {AGREE, FAIL_ELSEWHERE}, {FAIL, FAIL_ELSEWHERE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct script script = script_of(cases[i].others);
        struct job job = job_of("2x2");
        const int is_met_by_all = cases[i].others == AGREE && cases[i].own == FAIL;
        const int first = cases[i].others == FAIL ? 0 : 2; // that fails
        script.actions[2] = cases[i].own;
        run_script(&job, &script);
        for (int rank = 0; rank < job.size; rank++) {
            const struct outcome *outcome = &script.outcomes[rank];
            assert_true(outcome->seconds < SOON);
            assert_int_equal(outcome->agreed, BERTH_IO);
            if (is_met_by_all) {
                assert_int_equal(outcome->status, BERTH_OK);
            } else {
                assert_int_equal(outcome->status, BERTH_IO);
                assert_string_equal(outcome->error.message,
                                    rank != first ? ""
                                    : first == 0  ? "rank 0 on host host0: disk full"
                                                  : "rank 2 on host host1: disk full");
            }
        }
    }
}

// --- damaged messages ---------------------------------------------------------------------------

static void test_a_damaged_message_is_found_and_its_sender_named(void **state) {
    // Of the greeting; of the header and of the elements of the first message with any.
    static const struct socket_faults faults[] = {{.flip_message = 1, .flip_byte = 3},
                                                  {.flip_message = 2, .flip_byte = 20},
                                                  {.flip_message = 2, .flip_byte = 1000},
                                                  {.flip_message = 2, .flip_byte = 127}};
    for (enum action action = REDUCE; action <= GATHER; action++) {
        for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
            struct script script = script_of(action);
            struct job job = job_of("2x1");
            job.faults[1] = faults[i];
            run_script(&job, &script);
            assert_int_equal(script.outcomes[0].status, BERTH_INTERNAL);
            assert_true(says(&script.outcomes[0], "rank 1 (host host1) was corrupted"));
        }
    }
}

// Whether a rank other than 1 says this of it.
static int is_said_of_rank_1(const struct script *script, int size, const char *text) {
    int said = 0;
    for (int rank = 0; rank < size; rank++) {
        const struct outcome *outcome = &script->outcomes[rank];
        said |= rank != 1 && outcome->status == BERTH_INTERNAL &&
                says(outcome, "rank 1 (host host1)") && says(outcome, text);
    }
    return said;
}

// Of four ranks in two racks, rank 1 sends a greeting; in a reduce, for others its sums to the
// relay and to rank 0, and as a relay the rack's sum to rank 2; in a gather, its chunk to rank 0
// and to the other rack's relay, and as a relay rank 2's to rank 0.
static void test_a_relay_finds_and_makes_damage_like_an_owner(void **state) {
    for (enum action action = REDUCE; action <= GATHER; action++) {
        for (int message = 1; message <= 4; message++) {
            struct script script = script_of(action);
            struct job job = job_of("2x2x1");
            job.faults[1] = (struct socket_faults){.flip_message = message,
                                                   .flip_byte = (size_t)(message == 1 ? 3 : 1000)};
            run_script(&job, &script);
            assert_true(is_said_of_rank_1(&script, job.size, "was corrupted"));
        }
    }
    // A rack's sum without one of its ranks.
    struct script script = script_of(REDUCE);
    struct job job = job_of("2x2x1");
    job.faults[1] = (struct socket_faults){
        .flip_message = 4, .flip_byte = offsetof(struct range_header, ranks), .seals_again = 1};
    run_script(&job, &script);
    assert_true(is_said_of_rank_1(&script, job.size, "has the values of 3 ranks, not of 2"));
}

// A peer that leaves a rank out, or takes one chunk for another, with a checksum that fits.
static void test_a_sum_without_all_ranks_is_no_sum(void **state) {
    static const struct {
        size_t byte;
        const char *message;
    } cases[] = {
        {offsetof(struct range_header, ranks),
         "from rank 1 (host host1) has the values of 0 ranks, not of 1"},
        {offsetof(struct range_header, chunk_index),
         "rank 1 (host host1) has chunk 1 of rank 0's part"},
        {offsetof(struct range_header, owner), "rank 1 (host host1) has chunk 0 of rank 1's part"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct script script = script_of(REDUCE);
        struct job job = job_of("2x1");
        job.faults[1] =
            (struct socket_faults){.flip_message = 2, .flip_byte = cases[i].byte, .seals_again = 1};
        run_script(&job, &script);
        assert_int_equal(script.outcomes[0].status, BERTH_INTERNAL);
        assert_true(says(&script.outcomes[0], cases[i].message));
    }
}

// --- ranks that do not call the same ------------------------------------------------------------

// The number of ranks that detected it before the deadline: by a message's label, or by its size,
// which a rank that expects another message may see first.
static int count_named(struct script *script, const char *layout, double deadline) {
    struct job job = job_of(layout);
    int named = 0;
    job.settings.timeout_seconds = deadline;
    job.settings.window_bytes = 1;
    job.settings.message_bytes = 4096;
    run_script(&job, script);
    for (int rank = 0; rank < job.size; rank++) {
        const struct outcome *outcome = &script->outcomes[rank];
        assert_int_not_equal(outcome->status, BERTH_OK);
        named +=
            outcome->status == BERTH_INTERNAL &&
            (says(outcome, "call different operations: rank ") || says(outcome, " bytes, not "));
    }
    return named;
}

// On a busy machine the deadline may pass first, so there is a second try with more time.
static void check_mixed(const struct script *script, const char *layout) {
    struct script quick = *script, slow = *script;
    assert_true(count_named(&quick, layout, DEADLINE) > 0 ||
                count_named(&slow, layout, 50 * DEADLINE) > 0);
}

static void test_ranks_that_call_something_else_are_found(void **state) {
    static const char *const layouts[] = {"2x1", "1x2", "3x1", "2x2", "2x2x1"};
    const struct comm_range others[] = {{.name = "weights", .count = COUNT},
                                        {.name = "gradients", .count = COUNT + 1},
                                        {.name = "gradients", .count = COUNT * 2},
                                        {.name = "gradients", .count = 1},
                                        {.name = "gradients", .first = 64, .count = COUNT},
                                        {.name = "gradients", .count = COUNT, .wire = DTYPE_BF16}};
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = i < 2 ? 0 : 2; k < (i < 2 ? sizeof others / sizeof *others : 4); k++) {
            struct script script = script_of(k % 2 == 0 ? REDUCE : GATHER);
            script.ranges[1] = others[k];
            check_mixed(&script, layouts[i]);
        }
        struct script script = script_of(REDUCE);
        script.actions[1] = GATHER;
        check_mixed(&script, layouts[i]);
        script = script_of(REDUCE);
        script.skewed = 1;
        check_mixed(&script, layouts[i]);
    }
}

// --- processes ----------------------------------------------------------------------------------

// What the processes of a job report to their parent.
struct report {
    int local_size, host_count;
    struct outcome outcome;
    float sums[COUNT];
    char last_words[LAST_WORDS];
    int code; // of the process
};

enum fate { LIVES, CANNOT_OPEN_FILES, IS_STOPPED, IS_KILLED, WORKS, SLEEPS };

struct processes {
    int size;
    enum fate last; // of the last one
    int apart;      // each on a host of its own
    int hangs;      // the first one, in its transport
    struct report *reports;
    pid_t pids[SOCKET_PROCESSES];
};

static void reduce_and_gather(struct comm *comm, float *data) {
    int64_t starts[SOCKET_PROCESSES + 1];
    struct comm_range range = {.name = "gradients", .data = data, .count = COUNT, .starts = starts};
    divide(&range, comm->size, 0, starts);
    for (int i = 0; i < COUNT; i++) {
        data[i] = (float)(i + 1) * (float)(comm->rank + 1);
    }
    comm->reduce_begin(comm, &range);
    comm->wait(comm, comm->gather_begin(comm, &range)); // of sums that nobody has waited for
}

// Works or sleeps, for longer than the deadline, in a phase without exchanges; working takes longer
// than a call of the transport may.
static void tarry(struct comm *comm, enum fate fate) {
    const double start = now(), seconds = fate == WORKS ? DEADLINE + 2.6 : 3 * DEADLINE;
    comm->enter(comm, COMM_EVALUATION, 7);
    while (now() - start < seconds) {
        if (fate == SLEEPS) { // in one piece: waking takes processor time, too
            usleep((useconds_t)(1e6 * seconds));
        }
    }
}

static void suffer(struct comm *comm, enum fate fate) {
    if (fate == IS_STOPPED || fate == IS_KILLED) {
        raise(fate == IS_STOPPED ? SIGSTOP : SIGKILL);
    } else if (fate == WORKS || fate == SLEEPS) {
        tarry(comm, fate);
    }
}

static void run_process(struct socket_job *job, int process, const struct processes *processes) {
    struct report *report = &processes->reports[process];
    const enum fate fate = process + 1 == processes->size ? processes->last : LIVES;
    const int is_late =
        processes->hangs || (processes->last != LIVES && processes->last != IS_KILLED);
    struct comm_settings settings = {.timeout_seconds = is_late ? DEADLINE : 20};
    struct rlimit limit;
    struct comm *comm;
    char host[16];
    socket_job_leave(job, process);
    const struct socket_faults faults = {.hangs = processes->hangs && process == 0,
                                         .last_words = report->last_words};
    struct transport *transport = socket_transport_open(job, process, &faults);
    getrlimit(RLIMIT_NOFILE, &limit);
    const rlim_t usual = limit.rlim_cur;
    if (fate == CANNOT_OPEN_FILES) {
        limit.rlim_cur = 0;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    snprintf(host, sizeof host, "host%d", processes->apart ? process : 0);
    settings.host = fate == LIVES && !processes->apart && processes->last == LIVES ? NULL : host;
    report->outcome.status = comm_ranks_open(transport, &settings, &comm, &report->outcome.error);
    limit.rlim_cur = usual;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (report->outcome.status != BERTH_OK) {
        return;
    }
    suffer(comm, fate);
    const double start = now();
    reduce_and_gather(comm, report->sums);
    report->local_size = comm->local_size;
    report->host_count = comm->host_count;
    report->outcome.status = comm->status(comm, &report->outcome.error);
    report->outcome.seconds = now() - start;
    comm->close(comm);
}

static void await(struct processes *processes, int process) {
    const int is_last = process + 1 == processes->size;
    int status;
    if (is_last && processes->last == IS_STOPPED) {
        kill(processes->pids[process], SIGKILL);
    }
    waitpid(processes->pids[process], &status, 0);
    processes->reports[process].code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static struct processes start_processes(struct processes processes) {
    const size_t bytes = (size_t)processes.size * sizeof *processes.reports;
    struct socket_job job;
    processes.reports =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(processes.reports != MAP_FAILED);
    socket_job_init(&job, processes.size);
    fflush(NULL);
    for (int process = 0; process < processes.size; process++) {
        processes.pids[process] = fork();
        if (processes.pids[process] == 0) {
            run_process(&job, process, &processes);
            _exit(0);
        }
    }
    socket_job_done(&job);
    for (int process = 0; process < processes.size; process++) {
        await(&processes, process);
    }
    return processes;
}

static struct processes run_processes(int size, enum fate last, int apart) {
    return start_processes((struct processes){.size = size, .last = last, .apart = apart});
}

static void processes_done(struct processes *processes) {
    munmap(processes->reports, (size_t)processes->size * sizeof *processes->reports);
}

static void check_reports(const struct processes *processes, int local_size) {
    const int size = processes->size;
    for (int process = 0; process < size; process++) {
        const struct report *report = &processes->reports[process];
        assert_string_equal(report->outcome.error.message, "");
        assert_int_equal(report->outcome.status, BERTH_OK);
        assert_int_equal(report->local_size, local_size);
        assert_int_equal(report->host_count, size / local_size);
        for (int i = 0; i < COUNT; i++) {
            assert_true(report->sums[i] == (float)((i + 1) * size * (size + 1) / 2));
        }
    }
}

static void test_processes_share_memory(void **state) {
    for (int size = 1; size <= 4; size++) {
        struct processes processes = run_processes(size, LIVES, 0);
        check_reports(&processes, size);
        processes_done(&processes);
    }
}

static void test_processes_that_cannot_share_memory_send_messages(void **state) {
    struct processes processes = run_processes(3, CANNOT_OPEN_FILES, 0);
    check_reports(&processes, 1);
    processes_done(&processes);
}

static void test_a_process_that_is_stopped_or_killed_ends_the_others_waits(void **state) {
    static const struct {
        enum fate fate;
        int apart;
        const char *message;
    } ends[] = {{IS_STOPPED, 0, "rank 1 on host host0 did not arrive at the sum"},
                {IS_STOPPED, 1, "rank 1 on host host1 did not arrive at the sum"},
                {IS_KILLED, 1, "rank 0 (host host0) lost rank 1 (host host1): process 1 is gone"}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct processes processes = run_processes(2, ends[i].fate, ends[i].apart);
        const struct outcome *outcome = &processes.reports[0].outcome;
        assert_int_equal(outcome->status, BERTH_UNAVAILABLE);
        assert_true(says(outcome, ends[i].message));
        assert_true(outcome->seconds < SOON);
        processes_done(&processes);
    }
}

static void test_a_process_whose_transport_hangs_ends_without_it(void **state) {
    static const struct {
        enum fate fate; // of the last of three ranks
        int apart;
        const char *message;
    } ends[] = {{IS_STOPPED, 0, "rank 2 on host host0 does not answer (stopped, or gone): a call"},
                {LIVES, 1, "rank 0 on host host0 is stuck: a call to test has not returned"}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const double start = now();
        struct processes processes = start_processes((struct processes){
            .size = 3, .last = ends[i].fate, .apart = ends[i].apart, .hangs = 1});
        const struct report *report = &processes.reports[0];
        assert_int_equal(report->code, BERTH_UNAVAILABLE);
        assert_non_null(strstr(report->last_words, ends[i].message));
        assert_true(now() - start < SOON);
        processes_done(&processes);
    }
}

// A thread of ThreadSanitizer uses the processor, so no process does nothing.
#if defined(__has_feature)
#define NONE_IS_IDLE __has_feature(thread_sanitizer)
#else
#define NONE_IS_IDLE 0
#endif

static void test_a_rank_that_works_is_waited_for_longer_than_one_that_does_nothing(void **state) {
    for (int apart = 0; apart < 2; apart++) {
        struct processes working = run_processes(2, WORKS, apart);
        check_reports(&working, apart ? 1 : 2);
        processes_done(&working);
        if (NONE_IS_IDLE) {
            continue;
        }
        struct processes sleeping = run_processes(2, SLEEPS, apart);
        const struct outcome *outcome = &sleeping.reports[0].outcome;
        assert_int_equal(outcome->status, BERTH_UNAVAILABLE);
        assert_true(says(outcome, "it is in the evaluation after update 7 and has done nothing"));
        processes_done(&sleeping);
    }
}

// --- memory -------------------------------------------------------------------------------------

static void test_memory_that_is_out_while_opening(void **state) {
    struct job job = job_of("1x1");
    memory_fail_at(0, 0);
    job_open(&job);
    const uint64_t calls = memory_fail_at(0, 0);
    job_close(&job);
    assert_true(calls > 10);
    for (uint64_t call = 1; call <= calls; call++) {
        memory_fail_at(call, 0);
        job_open(&job);
        assert_int_equal(job.status[0], BERTH_NO_MEMORY);
    }
    memory_fail_at(0, 0);
}

// --- ranks that work independently --------------------------------------------------------------

// What a rank does between heartbeats (comm/heartbeat.h), and what it observed.
struct worker {
    struct comm *comm;
    double seconds;      // of its work
    int follows_failure; // its work lasts until a failure and two more calls of `report_own`
    atomic_int reports, receptions, fails;
    atomic_int *through; // ranks that have done their work
    atomic_int is_through;
    int through_at_end;
    enum berth_status status;
    struct berth_error error;
};

static void report_own(void *context, double *own) {
    struct worker *worker = context;
    own[0] = worker->comm->rank + 1;
    own[1] = atomic_load(&worker->is_through);
    atomic_fetch_add(&worker->reports, 1);
}

static void receive_sums(void *context, const double *sums) {
    struct worker *worker = context;
    const int size = worker->comm->size;
    CHECK(sums[0] == size * (size + 1) / 2.0);
    CHECK(sums[1] <= atomic_load(worker->through));
    atomic_fetch_add(&worker->receptions, 1);
}

static void notice_failure(void *context, enum berth_status status,
                           const struct berth_error *error) {
    struct worker *worker = context;
    CHECK(status == BERTH_UNAVAILABLE && error->message[0] != '\0');
    atomic_fetch_add(&worker->fails, 1);
}

static void work_alone(void *context) {
    struct worker *worker = context;
    const double start = now();
    int reports = 0;
    while (now() - start < worker->seconds ||
           (worker->follows_failure && now() - start < 30 &&
            (reports == 0 || atomic_load(&worker->reports) < reports + 2))) {
        reports = reports == 0 && atomic_load(&worker->fails) > 0 ? atomic_load(&worker->reports)
                                                                  : reports;
        sched_yield();
    }
    // After the failure, `report_own` must still be called.
    CHECK(!worker->follows_failure ||
          (reports > 0 && atomic_load(&worker->reports) >= reports + 2));
    atomic_fetch_add(worker->through, 1);
    atomic_store(&worker->is_through, 1);
}

static void take_part(struct comm *comm, const struct transport *transport, void *context) {
    struct worker *worker = &((struct worker *)context)[comm->rank];
    worker->comm = comm;
    comm->enter(comm, COMM_HEARTBEAT, 0);
    const struct heartbeat_rules rules = {.comm = comm,
                                          .count = 2,
                                          .report = report_own,
                                          .receive = receive_sums,
                                          .fail = notice_failure,
                                          .context = worker};
    if (worker->through != NULL) {
        worker->status = heartbeat_run(&rules, work_alone, &worker->error);
        worker->through_at_end = atomic_load(worker->through);
    }
}

static void run_workers(const char *layout, double deadline, struct worker *workers) {
    struct job job = job_of(layout);
    job.settings.timeout_seconds = deadline;
    job.body = take_part;
    job.context = workers;
    job_run(&job);
}

static void test_ranks_that_work_for_themselves_wait_for_the_last_without_a_deadline(void **state) {
    enum { RANKS = 4 };
    atomic_int through = 0;
    struct worker workers[RANKS] = {0};
    for (int rank = 0; rank < RANKS; rank++) {
        workers[rank].seconds = rank * DEADLINE;
        workers[rank].through = &through;
    }
    run_workers("2x2", DEADLINE, workers);
    for (int rank = 0; rank < RANKS; rank++) {
        assert_int_equal(workers[rank].status, BERTH_OK);
        assert_int_equal(workers[rank].through_at_end, RANKS);
        assert_true(workers[rank].receptions >= 3 && workers[rank].fails == 0);
    }
}

static void test_a_rank_that_is_gone_does_not_end_the_work_of_the_others(void **state) {
    enum { RANKS = 3 };
    atomic_int through = 0;
    struct worker workers[RANKS] = {0};
    for (int rank = 0; rank < RANKS - 1; rank++) {
        workers[rank].follows_failure = 1;
        workers[rank].through = &through;
    }
    run_workers("1x3", DEADLINE, workers);
    for (int rank = 0; rank < RANKS - 1; rank++) {
        const struct worker *worker = &workers[rank];
        assert_int_equal(worker->status, BERTH_UNAVAILABLE);
        assert_true(worker->fails == 1 && worker->receptions == 0);
    }
    // One of them names it, and tells the other.
    const char *const missing = "rank 2 on host host0 did not arrive";
    assert_true(strstr(workers[0].error.message, missing) != NULL ||
                strstr(workers[1].error.message, missing) != NULL);
    assert_int_equal(through, RANKS - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rank_that_does_not_answer_is_named_when_the_deadline_has_passed),
        cmocka_unit_test(test_a_rank_outside_of_updates_is_named_without_one),
        cmocka_unit_test(test_the_rank_that_all_wait_for_is_named),
        cmocka_unit_test(test_a_rank_that_fails_alone_ends_all_long_before_the_deadline),
        cmocka_unit_test(test_a_damaged_message_is_found_and_its_sender_named),
        cmocka_unit_test(test_a_relay_finds_and_makes_damage_like_an_owner),
        cmocka_unit_test(test_a_sum_without_all_ranks_is_no_sum),
        cmocka_unit_test(test_ranks_that_call_something_else_are_found),
        cmocka_unit_test(test_processes_share_memory),
        cmocka_unit_test(test_processes_that_cannot_share_memory_send_messages),
        cmocka_unit_test(test_a_process_that_is_stopped_or_killed_ends_the_others_waits),
        cmocka_unit_test(test_a_process_whose_transport_hangs_ends_without_it),
        cmocka_unit_test(test_a_rank_that_works_is_waited_for_longer_than_one_that_does_nothing),
        cmocka_unit_test(test_memory_that_is_out_while_opening),
        cmocka_unit_test(test_ranks_that_work_for_themselves_wait_for_the_last_without_a_deadline),
        cmocka_unit_test(test_a_rank_that_is_gone_does_not_end_the_work_of_the_others),
    };
    return run_beside(tests, sizeof tests / sizeof *tests);
}
