// SPDX-License-Identifier: Apache-2.0
// Downloads that fail: connections lost at any byte, servers that are away or fall silent, a full
// disk and SIGKILL at every system call, no memory at every allocation, a stop, two processes at
// once. No incomplete file gets a final name, and the next fetch succeeds.
#include "harness.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

// --- lost connections ----------------------------------------------------------------------------

static void test_a_cut_is_resumed_at_once(void **state) {
    (void)state;
    struct server_route routes[HUB_ROUTES], good;
    make_hub(routes);
    good = routes[HUB_WEIGHTS];
    routes[HUB_WEIGHTS].cut_after = 1234;
    routes[HUB_WEIGHTS].times = 1;
    routes[HUB_WEIGHTS].then = &good;
    struct server *server = start_hub(routes);
    struct outcome outcome = fetch("acme/tiny", 1);
    assert_published(&outcome);
    assert_int_equal(server_count(server, "Range: bytes=1234-\r\n"), 1);
    server_stop(server);
}

static void test_a_cut_is_resumed_by_the_next_run(void **state) {
    (void)state;
    struct server_route routes[HUB_ROUTES];
    make_hub(routes);
    routes[HUB_WEIGHTS].cut_after = 1234;
    struct server *server = start_hub(routes);
    struct outcome outcome = fetch("acme/tiny", 0);
    assert_int_equal(outcome.status, BERTH_UNAVAILABLE);
    assert_nothing_published();
    const char *partial = find_ending(REPO "/blobs", ".incomplete");
    assert_non_null(partial);
    assert_bytes(partial, weights, 1234);
    assert_non_null(strstr(partial, weights_sha256));
    server_stop(server);
    make_hub(routes);
    server = start_hub(routes);
    outcome = fetch("acme/tiny", 0);
    assert_published(&outcome);
    assert_int_equal(server_count(server, "Range: bytes=1234-\r\n"), 1);
    server_stop(server);
}

// At every byte, resumed by the next run, for a URL under its etag.
static void test_a_cut_at_every_byte(void **state) {
    (void)state;
    for (int64_t cut = 1; cut < TEXT_LENGTH; cut++) {
        struct server_route good = file_route(), route = good;
        char range[64];
        route.cut_after = cut;
        route.times = 1;
        route.then = &good;
        struct server *server = server_start(&route, 1);
        const char *url = server_url(server, "/file");
        assert_int_equal(fetch(url, 0).status, BERTH_UNAVAILABLE);
        assert_int_equal(size_of(url_partial()), cut);
        struct outcome outcome = fetch(url, 0);
        assert_text(&outcome, TEXT);
        snprintf(range, sizeof range, "Range: bytes=%d-\r\n", (int)cut);
        assert_int_equal(server_count(server, range), 1);
        assert_int_equal(server_count(server, "If-Range: \"one\"\r\n"), 1);
        server_stop(server);
        assert_int_equal(dir_remove(scratch("home"), NULL), BERTH_OK);
    }
}

static void test_a_server_that_is_away_for_a_while(void **state) {
    (void)state;
    struct server_route routes[HUB_ROUTES], good[HUB_ROUTES];
    make_hub(routes);
    memcpy(good, routes, sizeof good);
    for (int i = 0; i < HUB_ROUTES; i++) {
        routes[i].status = 503;
        routes[i].times = 1;
        routes[i].then = &good[i];
    }
    struct server *server = start_hub(routes);
    assert_refused(fetch("acme/tiny", 0), BERTH_UNAVAILABLE, "HTTP 503");
    struct outcome outcome = fetch("acme/tiny", 1);
    assert_published(&outcome);
    server_stop(server);
    assert_int_equal(fetch("acme/tiny", 0).status, BERTH_UNAVAILABLE); // nothing listens there
}

// Temporary failures are retried.
static void test_statuses_that_pass(void **state) {
    (void)state;
    static const int statuses[] = {408, 429, 500};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        struct server_route good = file_route(), route = good;
        route.status = statuses[i];
        route.times = 1;
        route.then = &good;
        struct server *server = server_start(&route, 1);
        struct outcome outcome = fetch(server_url(server, "/file"), 1);
        assert_text(&outcome, TEXT);
        server_stop(server);
        assert_int_equal(dir_remove(scratch("home"), NULL), BERTH_OK);
    }
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        int http;
        enum berth_status status;
        const char *part;
    } cases[] = {{404, BERTH_NO_INPUT, "not found"},
                 {401, BERTH_UNAVAILABLE, "HF_TOKEN"},
                 {403, BERTH_UNAVAILABLE, "HF_TOKEN"},
                 {400, BERTH_UNAVAILABLE, "HTTP 400"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct server_route routes[HUB_ROUTES];
        make_hub(routes);
        routes[HUB_REVISION].status = cases[i].http;
        struct server *server = start_hub(routes);
        assert_refused(fetch("acme/tiny", 9), cases[i].status, cases[i].part);
        assert_int_equal(server_count(server, "GET "), 1); // another attempt is useless
        server_stop(server);
    }
}

// --- the disk -----------------------------------------------------------------------------------

static void test_no_room_is_seen_before(void **state) {
    (void)state;
    struct server_route routes[HUB_ROUTES];
    make_hub(routes);
    char *size = strstr(listing_text, "\"size\": 5000");
    assert_non_null(size);
    char rest[256];
    snprintf(rest, sizeof rest, "%s", size + strlen("\"size\": 5000"));
    sprintf(size, "\"size\": 4000000000000000000%s", rest);
    routes[HUB_TREE].length = strlen(listing_text);
    struct server *server = start_hub(routes);
    assert_refused(fetch("acme/tiny", 0), BERTH_IO, "needs 4000000000000000000 more bytes");
    assert_int_equal(server_count(server, "model.safetensors"), 0);
    assert_nothing_published();
    server_stop(server);
}

// Asserts that files with final names are complete.
static void assert_only_whole_files(void) {
    char blob[512], *path;
    snprintf(blob, sizeof blob, "%s/%s", scratch(REPO "/blobs"), weights_sha256);
    if (file_exists(blob)) {
        assert_bytes(blob, weights, WEIGHTS_LENGTH);
    }
    if (hub_find_model("acme/tiny", &path, NULL) == BERTH_OK) {
        assert_bytes(scratch(REPO "/snapshots/" COMMIT "/model.safetensors"), weights,
                     WEIGHTS_LENGTH);
        assert_file_holds(scratch(REPO "/snapshots/" COMMIT "/vocab.txt"), vocab_text);
        memory_free(path);
    }
}

static void test_a_full_disk_at_every_call(void **state) {
    (void)state;
    static const int causes[] = {ENOSPC, EIO};
    struct server *server = start_good_hub();
    for (size_t c = 0; c < sizeof causes / sizeof *causes; c++) {
        uint64_t call = 0, seen;
        do {
            assert_int_equal(dir_remove(scratch("home"), NULL), BERTH_OK);
            file_fail_at(++call, causes[c]);
            struct outcome outcome = fetch("acme/tiny", 0);
            seen = file_fail_at(0, 0);
            assert_only_whole_files();
            if (outcome.status != BERTH_OK) { // else this call may fail
                outcome = fetch("acme/tiny", 0);
            }
            assert_published(&outcome);
        } while (seen >= call);
        assert_true(call > 50);
    }
    server_stop(server);
}

static void test_killed_at_every_call(void **state) {
    (void)state;
    struct server *server = start_good_hub();
    int status = -1;
    uint64_t call;
    for (call = 1; status != 0; call++) {
        assert_int_equal(dir_remove(scratch("home"), NULL), BERTH_OK);
        pid_t child = fork();
        if (child == 0) {
            file_fail_at(call, -1);
            _exit(fetch("acme/tiny", 0).status);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
        assert_only_whole_files();
        struct outcome outcome = fetch("acme/tiny", 0);
        assert_published(&outcome);
    }
    assert_true(call > 50);
    server_stop(server);
}

static void test_no_memory_at_every_allocation(void **state) {
    (void)state;
    struct server *server = start_good_hub();
    uint64_t at = 0, seen;
    do {
        assert_int_equal(dir_remove(scratch("home"), NULL), BERTH_OK);
        memory_fail_at(++at, 0);
        struct outcome outcome = fetch("acme/tiny", 0);
        seen = memory_fail_at(0, 0);
        assert_only_whole_files();
        if (outcome.status == BERTH_OK) { // no call was missed
            assert_published(&outcome);
        } else {
            assert_int_equal(outcome.status, BERTH_NO_MEMORY);
        }
    } while (seen >= at);
    assert_true(at > 70);
    server_stop(server);
}

// --- silence ------------------------------------------------------------------------------------

static void test_a_server_that_falls_silent(void **state) {
    (void)state;
    struct server_route routes[HUB_ROUTES];
    make_hub(routes);
    routes[HUB_WEIGHTS].hold_after = 2000;
    struct server *server = start_hub(routes);
    setenv("HF_HUB_DOWNLOAD_TIMEOUT", "1", 1);
    assert_refused(fetch("acme/tiny", 0), BERTH_UNAVAILABLE, "Timeout");
    assert_nothing_published();
    assert_int_equal(size_of(find_ending(REPO "/blobs", ".incomplete")), 2000);
    server_release(server);
    struct outcome outcome = fetch("acme/tiny", 0);
    assert_published(&outcome);
    server_stop(server);
}

// --- a stop -------------------------------------------------------------------------------------

static atomic_int stop_flag;

static void stop_in_the_weights(void *context, const struct berth_record *record) {
    if (record->kind == BERTH_PROGRESS && record->text != NULL &&
        strcmp(record->text, "model.safetensors") == 0) {
        stop_flag = 1;
    }
}

static void test_a_stop_keeps_what_came(void **state) {
    (void)state;
    struct server_route routes[HUB_ROUTES];
    make_hub(routes);
    routes[HUB_WEIGHTS].hold_after = 2000;
    struct server *server = start_hub(routes);
    const struct berth_log log = {.write = stop_in_the_weights};
    const struct fetch_settings settings = {.retries = 5};
    struct berth_error error;
    char *path;
    stop_flag = 0;
    assert_int_equal(fetch_files("acme/tiny", &settings, log, &stop_flag, &path, &error),
                     BERTH_INTERRUPTED);
    assert_null(path);
    assert_nothing_published();
    assert_int_equal(size_of(find_ending(REPO "/blobs", ".incomplete")), 2000);
    server_release(server);
    struct outcome outcome = fetch("acme/tiny", 0);
    assert_published(&outcome);
    assert_int_equal(server_count(server, "Range: bytes=2000-\r\n"), 1);
    server_stop(server);
}

// --- two at once --------------------------------------------------------------------------------

static int waiting_pipe[2], begin_pipe[2];

static void tell_waiting(void *context, const struct berth_record *record) {
    if (record->text != NULL && strstr(record->text, "waiting for another process") != NULL) {
        assert_int_equal(write(waiting_pipe[1], "w", 1), 1);
    }
}

// The child begins when a byte comes, because the server's threads must be idle at a fork: a lock
// of the allocator that one of them held would stay locked in the child.
static pid_t prepare_fetching(void) {
    pid_t child = fork();
    if (child == 0) {
        char go;
        if (read(begin_pipe[0], &go, 1) != 1) {
            _exit(1);
        }
        const struct berth_log log = {.write = tell_waiting};
        const struct fetch_settings settings = {.retries = 0};
        char *path;
        _exit(fetch_files("acme/tiny", &settings, log, NULL, &path, NULL));
    }
    return child;
}

// One process downloads and pauses in the weights; the other reports that it waits; then the first
// continues.
static void test_two_processes_one_download(void **state) {
    (void)state;
    struct server_route routes[HUB_ROUTES];
    make_hub(routes);
    routes[HUB_WEIGHTS].hold_after = 2000;
    struct server *server = start_hub(routes);
    char said;
    assert_int_equal(pipe(waiting_pipe), 0);
    assert_int_equal(pipe(begin_pipe), 0);
    pid_t children[2] = {prepare_fetching(), prepare_fetching()};
    close(waiting_pipe[1]); // so that the read ends if both end
    assert_int_equal(write(begin_pipe[1], "go", 2), 2);
    assert_int_equal(read(waiting_pipe[0], &said, 1), 1);
    server_release(server);
    for (int i = 0; i < 2; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(server_count(server, "model.safetensors"), 1);
    struct outcome outcome = fetch("acme/tiny", 0);
    assert_published(&outcome);
    close(waiting_pipe[0]);
    close(begin_pipe[0]);
    close(begin_pipe[1]);
    server_stop(server);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        NET_TEST(test_a_cut_is_resumed_at_once),   NET_TEST(test_a_cut_is_resumed_by_the_next_run),
        NET_TEST(test_a_cut_at_every_byte),        NET_TEST(test_a_server_that_is_away_for_a_while),
        NET_TEST(test_statuses_that_pass),         NET_TEST(test_refusals),
        NET_TEST(test_no_room_is_seen_before),     NET_TEST(test_a_full_disk_at_every_call),
        NET_TEST(test_killed_at_every_call),       NET_TEST(test_no_memory_at_every_allocation),
        NET_TEST(test_a_server_that_falls_silent), NET_TEST(test_a_stop_keeps_what_came),
        NET_TEST(test_two_processes_one_download),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
