// SPDX-License-Identifier: Apache-2.0
// Failing downloads: connections lost at any byte, false sizes and ranges, wrong content, web pages
// instead of files, changing etags, 416, a full disk and SIGKILL at every call, no memory at every
// allocation, a stop, two processes at once. Whatever happens, no incomplete file has a final name,
// and the next fetch succeeds.
#include "harness.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#define TEXT "forty bytes of text, more or less, here\n"
#define TEXT_LENGTH ((int64_t)sizeof TEXT - 1)

static struct server_route file_route(void) {
    return (struct server_route){
        .path = "/file", .body = TEXT, .length = sizeof TEXT - 1, .etag = "\"one\""};
}

// The path of the partial file of a URL on this host.
static const char *url_partial(void) {
    char **names;
    char folder[256] = "";
    assert_int_equal(dir_list(scratch("home/assets/berth"), &names, NULL), BERTH_OK);
    for (size_t i = 0; names[i] != NULL; i++) {
        if (strncmp(names[i], "urls--", 6) == 0) {
            snprintf(folder, sizeof folder, "home/assets/berth/%s/blobs", names[i]);
        }
    }
    memory_free(names);
    return find_ending(folder, ".incomplete");
}

static void assert_text(const struct outcome *outcome, const char *text) {
    assert_fetched(*outcome);
    assert_file_holds(outcome->path, text);
    assert_null(url_partial());
}

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

// --- false headers -------------------------------------------------------------------------------

// Corrupts the weights' route in one way; the fetch must fail with the status and publish nothing.
struct lie {
    const char *part;
    enum berth_status status;
    size_t length; // of the body; 0: unchanged
    int64_t told_length;
    int chunked, times;
};

static void test_sizes_that_are_lies(void **state) {
    (void)state;
    static char longer[WEIGHTS_LENGTH + 100];
    static const struct lie lies[] = {
        {.part = "the server sends 4999", .status = BERTH_BAD_DATA, .told_length = 4999},
        {.part = "the server sends 5100", .status = BERTH_BAD_DATA, .length = 5100},
        {.part = "the server sends 6000", .status = BERTH_BAD_DATA, .told_length = 6000},
        {.part = "expected 5000 bytes", .status = BERTH_BAD_DATA, .length = 5100, .chunked = 1},
        {.part = "expected 5000 bytes", .status = BERTH_BAD_DATA, .length = 400, .chunked = 1},
        {.part = "Transferred a partial",
         .status = BERTH_UNAVAILABLE,
         .length = 400,
         .told_length = 5000}};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct server_route routes[HUB_ROUTES];
        make_hub(routes);
        memcpy(longer, weights, WEIGHTS_LENGTH);
        routes[HUB_WEIGHTS].body = longer;
        routes[HUB_WEIGHTS].length = lies[i].length > 0 ? lies[i].length : WEIGHTS_LENGTH;
        routes[HUB_WEIGHTS].told_length = lies[i].told_length;
        routes[HUB_WEIGHTS].chunked = lies[i].chunked;
        struct server *server = start_hub(routes);
        assert_refused(fetch("acme/tiny", 0), lies[i].status, lies[i].part);
        assert_nothing_published();
        server_stop(server);
        assert_next_fetch_succeeds();
        assert_int_equal(dir_remove(scratch("home"), NULL), BERTH_OK);
    }
}

// Inconsistent or invalid sizes, of a file and of the listing.
static void test_sizes_that_make_no_sense(void **state) {
    (void)state;
    static const struct {
        const char *headers, *part;
        enum berth_status status;
    } cases[] = {
        {"Content-Length: 5000\r\n", "Content-Length", BERTH_BAD_DATA}, // the server adds one
        {"Content-Length: 4999\r\n", "Content-Length", BERTH_BAD_DATA},
        {"Content-Length: 9223372036854775808\r\n", "Content-Length", BERTH_BAD_DATA},
        {"Content-Length: 5000, 5000\r\n", "", BERTH_OK},
        {"Content-Range: bytes 0-9/99999999999999999999\r\n", "Content-Range", BERTH_BAD_DATA},
        {"Content-Range: everything\r\n", "Content-Range", BERTH_BAD_DATA},
        {"X-Linked-Size: -5\r\n", "X-Linked-Size", BERTH_BAD_DATA}};
    static const enum hub_route places[] = {HUB_WEIGHTS, HUB_TREE};
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        struct server_route routes[HUB_ROUTES];
        make_hub(routes);
        routes[places[i % 2]].headers = cases[i / 2].headers;
        struct server *server = start_hub(routes);
        struct outcome outcome = fetch("acme/tiny", 3);
        assert_int_not_equal(outcome.status, BERTH_OK);
        if (cases[i / 2].status != BERTH_OK) { // else libcurl refuses it
            assert_refused(outcome, cases[i / 2].status, cases[i / 2].part);
        }
        assert_nothing_published();
        assert_true(server_count(server, "GET ") <= 6); // no second attempt
        server_stop(server);
        assert_int_equal(dir_remove(scratch("home"), NULL), BERTH_OK);
    }
}

// One header of 200 kB, and of 2 MB: not reported as out of memory, no second attempt.
static void test_endless_headers(void **state) {
    (void)state;
    static const size_t paddings[] = {200 << 10, 2 << 20};
    for (size_t i = 0; i < 2; i++) {
        struct server_route routes[HUB_ROUTES];
        make_hub(routes);
        routes[HUB_TREE].padding = paddings[i];
        struct server *server = start_hub(routes);
        assert_refused(fetch("acme/tiny", 3), BERTH_BAD_DATA,
                       "headers of the response are too long");
        assert_true(server_count(server, "GET ") == 2);
        server_stop(server);
    }
}

// A listing with an absurd Content-Length is refused before its body arrives.
static void test_a_listing_of_absurd_size(void **state) {
    (void)state;
    struct server_route routes[HUB_ROUTES];
    make_hub(routes);
    routes[HUB_TREE].told_length = INT64_MAX;
    struct server *server = start_hub(routes);
    assert_refused(fetch("acme/tiny", 3), BERTH_BAD_DATA, "more than");
    server_stop(server);
}

static void test_other_content_than_promised(void **state) {
    (void)state;
    static char other[WEIGHTS_LENGTH];
    for (int large = 0; large < 2; large++) { // by git's digest and by SHA-256
        struct server_route routes[HUB_ROUTES];
        make_hub(routes);
        struct server_route *spoiled = &routes[large ? HUB_WEIGHTS : HUB_VOCAB];
        memcpy(other, spoiled->body, spoiled->length);
        other[spoiled->length - 1] ^= 1;
        spoiled->body = other;
        struct server *server = start_hub(routes);
        assert_refused(fetch("acme/tiny", 0), BERTH_BAD_DATA,
                       large ? "expected the SHA-256" : "expected the git SHA-1");
        assert_unpublished(large ? weights_sha256 : git_digest(vocab_text));
        assert_null(find_ending(REPO "/blobs", ".incomplete")); // not to be resumed
        server_stop(server);
        assert_next_fetch_succeeds();
        assert_int_equal(dir_remove(scratch("home"), NULL), BERTH_OK);
    }
}

static void test_another_etag_than_listed(void **state) {
    (void)state;
    struct server_route routes[HUB_ROUTES];
    make_hub(routes);
    routes[HUB_WEIGHTS].headers =
        "X-Linked-Etag: "
        "\"0000000000000000000000000000000000000000000000000000000000000001"
        "\"\r\n";
    struct server *server = start_hub(routes);
    assert_refused(fetch("acme/tiny", 0), BERTH_BAD_DATA, "the server offers 0000");
    assert_nothing_published();
    server_stop(server);
}

static void test_web_pages_in_its_place(void **state) {
    (void)state;
    static const char page[] = "<html>Please log in to this network</html>";
    for (int i = 0; i < HUB_README; i++) {
        struct server_route routes[HUB_ROUTES];
        make_hub(routes);
        routes[i].body = page;
        routes[i].length = strlen(page);
        routes[i].type = "text/html; charset=utf-8";
        struct server *server = start_hub(routes);
        assert_refused(fetch("acme/tiny", 3), BERTH_BAD_DATA, "the server sent a web page");
        assert_unpublished(i == HUB_VOCAB ? git_digest(vocab_text) : weights_sha256);
        const char *partial = find_ending(REPO "/blobs", ".incomplete");
        assert_true(partial == NULL || size_of(partial) == 0);
        server_stop(server);
        assert_int_equal(dir_remove(scratch("home"), NULL), BERTH_OK);
    }
    struct server_route routes[] = {
        {.path = "/data.json", .body = page, .length = strlen(page), .type = "TEXT/HTML"},
        {.path = "/page.html", .body = page, .length = strlen(page), .type = "text/html"}};
    struct server *server = server_start(routes, 2);
    assert_refused(fetch(server_url(server, "/data.json"), 0), BERTH_BAD_DATA, "a web page");
    assert_null(url_partial());
    struct outcome outcome = fetch(server_url(server, "/page.html"), 0); // a requested web page
    assert_text(&outcome, page);
    server_stop(server);
}

static void test_a_compressed_body_is_refused(void **state) {
    (void)state;
    struct server_route route = file_route();
    route.headers = "Content-Encoding: gzip\r\n";
    struct server *server = server_start(&route, 1);
    assert_refused(fetch(server_url(server, "/file"), 0), BERTH_BAD_DATA, "Content-Encoding");
    server_stop(server);
}

// --- etags, ranges and 416 ----------------------------------------------------------------------

// The first fetch gets 10 bytes of TEXT; `then` answers the second.
static struct outcome resume_from(const struct server_route *then, struct server **server,
                                  int64_t retries) {
    struct server_route route = file_route();
    route.cut_after = 10;
    route.times = 1;
    route.then = then;
    *server = server_start(&route, 1);
    assert_int_equal(fetch(server_url(*server, "/file"), 0).status, BERTH_UNAVAILABLE);
    assert_int_equal(size_of(url_partial()), 10);
    return fetch(server_url(*server, "/file"), retries);
}

#define OTHER "quite another text, and a longer one than that: nothing of the old is left\n"

static void test_the_etag_changes_between_tries(void **state) {
    (void)state;
    const struct server_route then = {.body = OTHER, .length = sizeof OTHER - 1, .etag = "\"two\""};
    struct server *server;
    struct outcome outcome = resume_from(&then, &server, 0);
    assert_text(&outcome, OTHER);
    assert_int_equal(server_count(server, "GET /file"), 2); // If-Range: the whole file came at once
    server_stop(server);
}

// A server that ignores If-Range and sends the rest of other content.
static void test_the_rest_of_something_else(void **state) {
    (void)state;
    const struct server_route whole = {
        .body = OTHER, .length = sizeof OTHER - 1, .etag = "\"two\""};
    const struct server_route then = {.body = &OTHER[10],
                                      .length = sizeof OTHER - 11,
                                      .etag = "\"two\"",
                                      .status = 206,
                                      .headers = "Content-Range: bytes 10-74/75\r\n",
                                      .times = 1,
                                      .then = &whole};
    struct server *server;
    struct outcome outcome = resume_from(&then, &server, 0);
    assert_text(&outcome, OTHER);
    assert_int_equal(server_count(server, "GET /file"), 3);
    server_stop(server);
}

static void test_without_an_etag_it_begins_anew(void **state) {
    (void)state;
    struct server_route then = file_route(), route = then;
    then.etag = NULL;
    route.etag = "W/\"weak\"";
    route.cut_after = 10;
    route.times = 1;
    route.then = &then;
    struct server *server = server_start(&route, 1);
    assert_int_equal(fetch(server_url(server, "/file"), 0).status, BERTH_UNAVAILABLE);
    struct outcome outcome = fetch(server_url(server, "/file"), 0);
    assert_text(&outcome, TEXT);
    assert_int_equal(server_count(server, "Range:"), 0);
    server_stop(server);
}

static void test_a_range_that_begins_elsewhere(void **state) {
    (void)state;
    for (int64_t shift = -1; shift <= 1; shift += 2) {
        struct server_route then = file_route();
        struct server *server;
        then.range_shift = shift;
        struct outcome outcome = resume_from(&then, &server, 0);
        assert_text(&outcome, TEXT);
        server_stop(server);
        assert_int_equal(dir_remove(scratch("home"), NULL), BERTH_OK);
    }
}

// A server that sends a part of the file whatever the request: starting over is tried once.
static void test_a_server_that_sends_parts_only(void **state) {
    (void)state;
    const struct server_route route = {.path = "/file",
                                       .body = TEXT,
                                       .length = sizeof TEXT - 1,
                                       .etag = "\"one\"",
                                       .status = 206,
                                       .headers = "Content-Range: bytes 5-39/40\r\n"};
    struct server *server = server_start(&route, 1);
    assert_refused(fetch(server_url(server, "/file"), 0), BERTH_UNAVAILABLE, "content has changed");
    assert_int_equal(server_count(server, "GET /file"), 2);
    server_stop(server);
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

static void test_a_server_without_ranges(void **state) {
    (void)state;
    struct server_route then = file_route();
    struct server *server;
    then.no_ranges = 1;
    struct outcome outcome = resume_from(&then, &server, 0);
    assert_text(&outcome, TEXT);
    server_stop(server);
}

// The connection was lost after all bytes: the request for the rest gets 416.
static void test_nothing_is_left_to_ask_for(void **state) {
    (void)state;
    struct server_route good = file_route(), route = good;
    route.told_length = TEXT_LENGTH + 1;
    route.times = 1;
    route.then = &good;
    struct server *server = server_start(&route, 1);
    const char *url = server_url(server, "/file");
    assert_int_equal(fetch(url, 0).status, BERTH_UNAVAILABLE);
    assert_int_equal(size_of(url_partial()), TEXT_LENGTH);
    struct outcome outcome = fetch(url, 0);
    assert_text(&outcome, TEXT);
    assert_int_equal(server_count(server, "Range: bytes=40-\r\n"), 1);
    assert_int_equal(server_count(server, "GET "), 2);
    server_stop(server);
}

// 416 for content that has become shorter or different.
static void test_416_of_other_content(void **state) {
    (void)state;
    static const struct server_route whole = {.body = "short", .length = 5, .etag = "\"two\""};
    static const struct server_route answers[] = {
        {.status = 416,
         .headers = "Content-Range: bytes */5\r\n",
         .body = "",
         .times = 1,
         .then = &whole},
        {.status = 416,
         .headers = "Content-Range: bytes */10\r\n",
         .body = "",
         .etag = "\"two\"",
         .times = 1,
         .then = &whole},
        {.status = 416, .body = "no range", .length = 8, .times = 1, .then = &whole}};
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct server *server;
        struct outcome outcome = resume_from(&answers[i], &server, 0);
        assert_text(&outcome, "short");
        server_stop(server);
        assert_int_equal(dir_remove(scratch("home"), NULL), BERTH_OK);
    }
}

static void test_416_for_ever_ends(void **state) {
    (void)state;
    const struct server_route then = {.status = 416, .body = ""};
    struct server *server;
    assert_int_equal(resume_from(&then, &server, 3).status, BERTH_UNAVAILABLE);
    assert_true(server_count(server, "GET ") < 10);
    server_stop(server);
}

// A partial file of the hub that is already complete, or too long.
static void test_partial_files_of_odd_sizes(void **state) {
    (void)state;
    for (int extra = 0; extra < 2; extra++) {
        struct server_route routes[HUB_ROUTES];
        char path[512];
        make_hub(routes);
        routes[HUB_WEIGHTS].cut_after = 10;
        struct server *server = start_hub(routes);
        assert_int_equal(fetch("acme/tiny", 0).status, BERTH_UNAVAILABLE);
        snprintf(path, sizeof path, "%s", find_ending(REPO "/blobs", ".incomplete"));
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(weights, 1, WEIGHTS_LENGTH, file), WEIGHTS_LENGTH);
        assert_int_equal(fwrite("more", 1, extra ? 4 : 0, file), extra ? 4 : 0);
        assert_int_equal(fclose(file), 0);
        server_stop(server);
        make_hub(routes);
        server = start_hub(routes);
        struct outcome outcome = fetch("acme/tiny", 0);
        assert_published(&outcome);
        assert_int_equal(server_count(server, "model.safetensors"), extra);
        server_stop(server);
        assert_int_equal(dir_remove(scratch("home"), NULL), BERTH_OK);
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
    if (berth_find_model("acme/tiny", &path, NULL) == BERTH_OK) {
        assert_bytes(scratch(REPO "/snapshots/" COMMIT "/model.safetensors"), weights,
                     WEIGHTS_LENGTH);
        assert_file_holds(scratch(REPO "/snapshots/" COMMIT "/vocab.txt"), vocab_text);
        berth_string_free(path);
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
    for (uint64_t call = 1; status != 0; call++) {
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
    assert_true(at > 100);
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

static volatile int stop_flag;

static void stop_in_the_weights(void *context, const struct berth_record *record) {
    if (record->kind == BERTH_RECORD_PROGRESS && record->text != NULL &&
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
    const struct berth_fetch_settings settings = {.retries = 5};
    struct berth_error error;
    char *path;
    stop_flag = 0;
    assert_int_equal(berth_fetch("acme/tiny", &settings, log, &stop_flag, &path, &error),
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

static int waiting_pipe[2];

static void tell_waiting(void *context, const struct berth_record *record) {
    if (record->text != NULL && strstr(record->text, "waiting for another process") != NULL) {
        assert_int_equal(write(waiting_pipe[1], "w", 1), 1);
    }
}

static pid_t start_fetching(void) {
    pid_t child = fork();
    if (child == 0) {
        const struct berth_log log = {.write = tell_waiting};
        const struct berth_fetch_settings settings = {.retries = 0};
        char *path;
        _exit(berth_fetch("acme/tiny", &settings, log, NULL, &path, NULL));
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
    pid_t children[2] = {start_fetching(), start_fetching()};
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
    close(waiting_pipe[1]);
    server_stop(server);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        NET_TEST(test_a_cut_is_resumed_at_once),
        NET_TEST(test_a_cut_is_resumed_by_the_next_run),
        NET_TEST(test_a_cut_at_every_byte),
        NET_TEST(test_a_server_that_is_away_for_a_while),
        NET_TEST(test_refusals),
        NET_TEST(test_sizes_that_are_lies),
        NET_TEST(test_sizes_that_make_no_sense),
        NET_TEST(test_endless_headers),
        NET_TEST(test_a_listing_of_absurd_size),
        NET_TEST(test_other_content_than_promised),
        NET_TEST(test_another_etag_than_listed),
        NET_TEST(test_web_pages_in_its_place),
        NET_TEST(test_a_compressed_body_is_refused),
        NET_TEST(test_the_etag_changes_between_tries),
        NET_TEST(test_the_rest_of_something_else),
        NET_TEST(test_without_an_etag_it_begins_anew),
        NET_TEST(test_a_range_that_begins_elsewhere),
        NET_TEST(test_a_server_that_sends_parts_only),
        NET_TEST(test_statuses_that_pass),
        NET_TEST(test_a_server_without_ranges),
        NET_TEST(test_nothing_is_left_to_ask_for),
        NET_TEST(test_416_of_other_content),
        NET_TEST(test_416_for_ever_ends),
        NET_TEST(test_partial_files_of_odd_sizes),
        NET_TEST(test_no_room_is_seen_before),
        NET_TEST(test_a_full_disk_at_every_call),
        NET_TEST(test_killed_at_every_call),
        NET_TEST(test_no_memory_at_every_allocation),
        NET_TEST(test_a_server_that_falls_silent),
        NET_TEST(test_a_stop_keeps_what_came),
        NET_TEST(test_two_processes_one_download),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
