// SPDX-License-Identifier: Apache-2.0
// Responses that contradict the listing, one another or the request: false sizes and ranges, wrong
// content, web pages instead of files, changing etags, 416. Nothing wrong is published, and the
// next fetch succeeds.
#include "harness.h"

// --- false headers -------------------------------------------------------------------------------

// How the response with the weights is falsified, and the error that this must be.
struct lie {
    const char *part;
    enum berth_status status;
    size_t length; // of the body; 0: unchanged
    int64_t told_length;
    int chunked;
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
        if (lies[i].length > WEIGHTS_LENGTH) {
            assert_null(find_ending(REPO "/blobs", ".incomplete")); // not to be resumed
        }
        server_stop(server);
        assert_next_fetch_succeeds();
        assert_int_equal(dir_remove(scratch("home"), NULL), BERTH_OK);
    }
}

// A wrong file that is refused by its size leaves the bytes of an earlier attempt as they are.
static void test_a_refused_size_keeps_the_partial_file(void **state) {
    (void)state;
    struct server_route routes[HUB_ROUTES], wrong;
    make_hub(routes);
    wrong = routes[HUB_WEIGHTS];
    wrong.no_ranges = 1;
    wrong.length = 400;
    routes[HUB_WEIGHTS].cut_after = 1234;
    routes[HUB_WEIGHTS].times = 1;
    routes[HUB_WEIGHTS].then = &wrong;
    struct server *server = start_hub(routes);
    assert_int_equal(fetch("acme/tiny", 0).status, BERTH_UNAVAILABLE);
    assert_refused(fetch("acme/tiny", 0), BERTH_BAD_DATA, "the server sends 400");
    assert_int_equal(size_of(find_ending(REPO "/blobs", ".incomplete")), 1234);
    server_stop(server);
    assert_next_fetch_succeeds();
}

// A body without a length that ends early, as behind some proxies, is resumed. If it was something
// else, the whole file is fetched.
static void test_a_body_that_ends_early(void **state) {
    (void)state;
    static char other[400];
    for (int wrong = 0; wrong < 2; wrong++) {
        struct server_route routes[HUB_ROUTES];
        make_hub(routes);
        struct server_route whole = routes[HUB_WEIGHTS], *early = &routes[HUB_WEIGHTS];
        early->body = wrong ? other : whole.body;
        early->length = sizeof other;
        early->chunked = 1;
        early->times = 1;
        early->then = &whole;
        struct server *server = start_hub(routes);
        assert_refused(fetch("acme/tiny", 0), BERTH_BAD_DATA, "the server sends 400");
        struct outcome outcome = fetch("acme/tiny", 0);
        assert_published(&outcome);
        assert_int_equal(server_count(server, "model.safetensors"), wrong ? 3 : 2);
        assert_int_equal(server_count(server, "Range: bytes=400-"), 1);
        server_stop(server);
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
        {"Content-Length: 5000, 5000\r\n", "", BERTH_OK}, // libcurl itself refuses it
        {"Content-Range: bytes 0-9/99999999999999999999\r\n", "Content-Range", BERTH_BAD_DATA},
        {"Content-Range: everything\r\n", "Content-Range", BERTH_BAD_DATA},
        {"X-Linked-Size: -5\r\n", "X-Linked-Size", BERTH_BAD_DATA}};
    static const enum hub_route falsified[] = {HUB_WEIGHTS, HUB_TREE};
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        struct server_route routes[HUB_ROUTES];
        make_hub(routes);
        routes[falsified[i % 2]].headers = cases[i / 2].headers;
        struct server *server = start_hub(routes);
        struct outcome outcome = fetch("acme/tiny", 3);
        assert_int_not_equal(outcome.status, BERTH_OK);
        if (cases[i / 2].status != BERTH_OK) {
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

static void test_web_pages_instead_of_files(void **state) {
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

int main(void) {
    const struct CMUnitTest tests[] = {
        NET_TEST(test_sizes_that_are_lies),
        NET_TEST(test_a_refused_size_keeps_the_partial_file),
        NET_TEST(test_a_body_that_ends_early),
        NET_TEST(test_sizes_that_make_no_sense),
        NET_TEST(test_endless_headers),
        NET_TEST(test_a_listing_of_absurd_size),
        NET_TEST(test_other_content_than_promised),
        NET_TEST(test_another_etag_than_listed),
        NET_TEST(test_web_pages_instead_of_files),
        NET_TEST(test_a_compressed_body_is_refused),
        NET_TEST(test_the_etag_changes_between_tries),
        NET_TEST(test_the_rest_of_something_else),
        NET_TEST(test_without_an_etag_it_begins_anew),
        NET_TEST(test_a_range_that_begins_elsewhere),
        NET_TEST(test_a_server_that_sends_parts_only),
        NET_TEST(test_a_server_without_ranges),
        NET_TEST(test_nothing_is_left_to_ask_for),
        NET_TEST(test_416_of_other_content),
        NET_TEST(test_416_for_ever_ends),
        NET_TEST(test_partial_files_of_odd_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
