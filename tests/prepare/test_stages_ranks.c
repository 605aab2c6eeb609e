// SPDX-License-Identifier: Apache-2.0
// From articles to shards, instances and packs by several ranks, which are threads here: the bytes
// are those of a single run, also after the ranks were killed or one of them failed, and all ranks
// end together. One rank: test_stages.c.
#include "comm/job.h"
#include "interrupted.h"
#include "stages_fixture.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>

// The pipeline of each rank of a job, and its result.
struct team {
    struct pipeline pipelines[SOCKET_PROCESSES];
    enum berth_status status[SOCKET_PROCESSES];
    struct berth_error errors[SOCKET_PROCESSES];
};

static void run_rank(struct comm *comm, const struct transport *transport, void *context) {
    struct team *team = context;
    struct pipeline *pipeline = &team->pipelines[comm->rank];
    (void)transport;
    pipeline->comm = comm;
    team->errors[comm->rank].message[0] = '\0';
    team->status[comm->rank] = pipeline_run(pipeline, &team->errors[comm->rank]);
}

static struct team team_of(const struct pipeline *pipeline) {
    struct team team = {.pipelines = {{0}}};
    for (int i = 0; i < SOCKET_PROCESSES; i++) {
        team.pipelines[i] = *pipeline;
    }
    return team;
}

// All ranks return the same; only rank 0 has a message.
static enum berth_status team_run(struct team *team, const char *layout) {
    struct job job = job_of(layout);
    job.settings.timeout_seconds = 60;
    job.body = run_rank;
    job.context = team;
    job_run(&job);
    for (int i = 1; i < job.size; i++) {
        assert_int_equal(team->status[i], team->status[0]);
        if (team->status[i] != BERTH_INTERRUPTED) {
            assert_string_equal(team->errors[i].message, "");
        }
    }
    return team->status[0];
}

static void run_ok_by(const struct pipeline *pipeline, const char *layout) {
    struct team team = team_of(pipeline);
    if (team_run(&team, layout) != BERTH_OK) {
        fail_msg("%s", team.errors[0].message);
    }
}

static void test_ranks(void **state) {
    static const char *const layouts[] = {"1x2", "3x1", "2x2", "1x8"};
    (void)state;
    struct buffer wanted = make_whole();
    struct pipeline pipeline = pipeline_default("other");
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        pipeline.threads = 1 + (int)(i % 2);
        run_ok_by(&pipeline, layouts[i]);
        assert_tree("other", &wanted);
        const uint64_t before = inode(scratch(A_PACK));
        run_ok_by(&pipeline, layouts[i]); // nothing to do
        assert_tree("other", &wanted);
        assert_true(inode(scratch(A_PACK)) == before);
        assert_int_equal(file_remove(scratch("other/packs/few/mixed_strategies_part_1.hdf5"), NULL),
                         BERTH_OK);
        assert_int_equal(file_remove(scratch(AN_HDF5), NULL), BERTH_OK);
        run_ok_by(&pipeline, layouts[i]);
        assert_tree("other", &wanted);
        remove_other();
    }
    buffer_done(&wanted);
}

// Whether the second rank has listed its file of instances.
static int lists_an_hdf5(void) {
    char *text;
    size_t length;
    const char *path = scratch("other/instances/instances.json.rank-1");
    if (!file_exists(path) || file_read(path, 1 << 20, &text, &length, NULL) != BERTH_OK) {
        return 0;
    }
    const int lists = memmem(text, length, "few_training_1.hdf5", 19) != NULL;
    memory_free(text);
    return lists;
}

// Ranks are killed together. What each has listed is kept, whoever resumes.
static void test_killed_ranks(void **state) {
    static const char *const layouts[] = {"1x2", "3x1"};
    (void)state;
    struct buffer wanted = make_whole();
    struct pipeline pipeline = pipeline_default("other");
    file_fail_at(0, 0);
    run_ok_by(&pipeline, "1x2");
    uint64_t calls = file_fail_at(0, 0), listed = 0, killed = 0, tried = 0;
    for (uint64_t i = 1; i <= calls; i += stride(2 * USUAL)) {
        remove_other();
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            file_fail_at(i, -1);
            run_ok_by(&pipeline, "1x2");
            _exit(0);
        }
        int wait_status;
        assert_int_equal(waitpid(child, &wait_status, 0), child);
        killed += WIFSIGNALED(wait_status);
        tried++;
        const uint64_t first = inode(scratch(AN_HDF5));
        const int is_listed = lists_an_hdf5();
        if (i % 3 == 0) {
            pipeline_run_ok(&pipeline);
        } else {
            run_ok_by(&pipeline, layouts[i % 3 - 1]);
        }
        assert_true(!is_listed || inode(scratch(AN_HDF5)) == first);
        listed += (uint64_t)is_listed;
        assert_tree("other", &wanted);
    }
    assert_true(listed > 0);
    assert_true(killed > tried - tried / 4); // the number of calls varies a little
    buffer_done(&wanted);
}

// A stop request to one rank stops all; the failure of one is the failure of all.
static void test_ranks_end_together(void **state) {
    (void)state;
    struct buffer wanted = make_whole();
    const struct pipeline pipeline = pipeline_default("other");
    const atomic_int stop = 1;
    struct team team = team_of(&pipeline);
    team.pipelines[1].stop = &stop;
    assert_int_equal(team_run(&team, "1x3"), BERTH_INTERRUPTED);
    assert_message_has(&team.errors[0], "the next run makes the rest");
    team = team_of(&pipeline);
    team.pipelines[2].seed = 8;
    assert_int_equal(team_run(&team, "1x3"), BERTH_CONFIG);
    assert_message_has(&team.errors[0], "rank 2 on host host0: ");
    assert_message_has(&team.errors[0], "seed is \"8\" here and \"7\" in rank 0");
    team = team_of(&pipeline);
    team.pipelines[1].predictions = 0; // refused by the rank alone, before anything is opened
    assert_int_equal(team_run(&team, "1x3"), BERTH_BAD_DATA);
    assert_message_has(&team.errors[0], "rank 1 on host host0: ");
    run_ok_by(&pipeline, "1x3");
    assert_tree("other", &wanted);
    buffer_done(&wanted);
}

// A rank without a file of its own passes a stop request on, in every stage.
static void test_an_idle_rank_is_asked_to_stop(void **state) {
    (void)state;
    static const char *const folders[] = {"other/packs", "other/instances", "other/text"};
    struct buffer wanted = make_whole();
    const struct pipeline pipeline = pipeline_default("other");
    const atomic_int stop = 1;
    pipeline_run_ok(&pipeline);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        struct team team = team_of(&pipeline);
        team.pipelines[SOCKET_PROCESSES - 1].stop = &stop;
        assert_int_equal(dir_remove(scratch(folders[i]), NULL), BERTH_OK);
        assert_int_equal(team_run(&team, "1x8"), BERTH_INTERRUPTED);
        assert_message_has(&team.errors[0], "the next run makes the rest");
        run_ok_by(&pipeline, "1x8");
        assert_tree("other", &wanted);
    }
    buffer_done(&wanted);
}

// A system call of some rank fails once; the next run resumes.
static void test_failures_of_ranks(void **state) {
    (void)state;
    struct buffer wanted = make_whole();
    const struct pipeline pipeline = pipeline_default("other");
    file_fail_at(0, 0);
    run_ok_by(&pipeline, "1x2");
    const uint64_t calls = file_fail_at(0, 0);
    uint64_t failures = 0, tried = 0;
    for (uint64_t i = 1; i <= calls; i += stride(4 * USUAL), tried++) {
        struct team team = team_of(&pipeline);
        remove_other();
        file_fail_at(i, ENOSPC);
        const enum berth_status status = team_run(&team, "1x2");
        file_fail_at(0, 0);
        assert_int_equal(status != BERTH_OK, team.errors[0].message[0] != '\0');
        failures += status != BERTH_OK;
        run_ok_by(&pipeline, i % 2 == 0 ? "1x2" : "3x1");
        assert_tree("other", &wanted);
    }
    assert_true(failures > tried / 2);
    buffer_done(&wanted);
}

// The ranks' copies of a file of the same size have different numbers of articles, which the digest
// of the first bytes does not show.
static void assert_copies_refused(const char *const copies[2]) {
    const struct pipeline pipeline = pipeline_default("other");
    struct team team = team_of(&pipeline);
    team.pipelines[0].input = copies[0];
    team.pipelines[1].input = copies[1];
    assert_int_equal(team_run(&team, "1x2"), BERTH_BAD_DATA);
    assert_message_has(&team.errors[0], "must not change during the run, and must be the same");
    assert_false(file_exists(scratch(A_SHARD)));
    remove_other();
}

static void test_copies_of_ranks_differ(void **state) {
    (void)state;
    char *text;
    size_t length;
    write_articles(10 * ARTICLES);
    assert_int_equal(file_read(scratch("articles.txt"), 1 << 20, &text, &length, NULL), BERTH_OK);
    assert_true(length > 8192);
    for (char *at = text + 4096; (at = strstr(at, "\n\n")) != NULL;) {
        at[1] = 'x';
    }
    assert_int_equal(mkdir(scratch("copy"), 0777), 0);
    scratch_write_bytes("copy/articles.txt", text, length);
    memory_free(text);
    assert_copies_refused((const char *const[]){"articles.txt", "copy/articles.txt"});
    assert_copies_refused((const char *const[]){"copy/articles.txt", "articles.txt"});
}

int main(void) {
    const struct CMUnitTest tests[] = {STAGES_TEST(test_ranks),
                                       STAGES_TEST(test_killed_ranks),
                                       STAGES_TEST(test_ranks_end_together),
                                       STAGES_TEST(test_an_idle_rank_is_asked_to_stop),
                                       STAGES_TEST(test_failures_of_ranks),
                                       STAGES_TEST(test_copies_of_ranks_differ)};
    return cmocka_run_group_tests_name("stages, ranks", tests, NULL, NULL);
}
