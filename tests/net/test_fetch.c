// SPDX-License-Identifier: Apache-2.0
// Fetching: a model of the hub and its layout in the cache, data sets, URLs with and without
// digests, tokens, offline variables, hostile listings, and the requests that are sent.
#include "api/model_files.h"
#include "harness.h"
#include "net/http.h"

// --- a model ------------------------------------------------------------------------------------

static void assert_link(const char *path, const char *target) {
    char found[512] = "";
    assert_true(readlink(path, found, sizeof found - 1) > 0);
    assert_string_equal(found, target);
}

static void test_a_model_lands_in_the_layout(void **state) {
    (void)state;
    char target[128];
    struct server *server = start_good_hub();
    struct outcome outcome = fetch("acme/tiny", 0);
    assert_published(&outcome);
    snprintf(target, sizeof target, "../../blobs/%s", weights_sha256);
    assert_link(scratch(REPO "/snapshots/" COMMIT "/model.safetensors"), target);
    snprintf(target, sizeof target, "../../blobs/%s", git_digest(config_text));
    assert_link(scratch(REPO "/snapshots/" COMMIT "/config.json"), target);
    assert_true(file_exists(scratch(REPO "/trees/" COMMIT ".json")));
    assert_true(file_exists(scratch("home/hub/CACHEDIR.TAG")));
    assert_false(file_exists(scratch(REPO "/snapshots/" COMMIT "/onnx/README.md")));
    assert_int_equal(server_count(server, "GET "), 5);
    assert_int_equal(server_count(server, "Accept-Encoding: identity\r\n"), 5);
    server_stop(server);
}

static void test_what_is_there_is_not_fetched_again(void **state) {
    (void)state;
    struct server *server = start_good_hub();
    struct outcome outcome = fetch("acme/tiny", 0);
    assert_published(&outcome);
    outcome = fetch("acme/tiny", 0);
    assert_published(&outcome);
    assert_int_equal(server_count(server, "/resolve/"), 3);
    // A blob of the wrong size does not count.
    char blob[512];
    snprintf(blob, sizeof blob, "%s/%s", scratch(REPO "/blobs"), weights_sha256);
    assert_int_equal(truncate(blob, 10), 0);
    outcome = fetch("acme/tiny", 0);
    assert_published(&outcome);
    assert_int_equal(server_count(server, "/resolve/"), 4);
    server_stop(server);
}

// A blob with changed bytes and the same size: every reader reports it, and it is fetched again.
static void test_what_is_there_is_hashed(void **state) {
    (void)state;
    struct server *server = start_good_hub();
    assert_fetched(fetch("acme/tiny", 0));
    char blob[512], *path;
    struct berth_error error;
    snprintf(blob, sizeof blob, "%s/%s", scratch(REPO "/blobs"), weights_sha256);
    FILE *file = fopen(blob, "r+b");
    assert_non_null(file);
    assert_int_equal(fputc(weights[0] ^ 1, file), (unsigned char)(weights[0] ^ 1));
    assert_int_equal(fclose(file), 0);
    assert_int_equal(berth_find_model("acme/tiny", &path, &error), BERTH_BAD_DATA);
    assert_message_has(&error, weights_sha256);
    setenv("HF_HUB_OFFLINE", "1", 1);
    assert_refused(fetch("acme/tiny", 0), BERTH_BAD_DATA, "damaged");
    unsetenv("HF_HUB_OFFLINE");
    struct outcome outcome = fetch("acme/tiny", 0);
    assert_published(&outcome);
    assert_int_equal(server_count(server, "/model.safetensors"), 2);
    assert_int_equal(server_count(server, "/vocab.txt"), 1);
    server_stop(server);
}

static void test_a_revision_and_a_commit(void **state) {
    (void)state;
    struct server_route routes[HUB_ROUTES];
    make_hub(routes);
    routes[HUB_REVISION].path = "/api/models/acme/tiny/revision/refs%2Fpr%2F1";
    struct server *server = start_hub(routes);
    struct berth_fetch_settings settings = {.revision = "refs/pr/1"};
    struct outcome outcome = fetch_with("acme/tiny", &settings);
    assert_fetched(outcome);
    assert_file_holds(scratch(REPO "/refs/refs/pr/1"), COMMIT);
    assert_false(file_exists(scratch(REPO "/refs/main")));
    settings.revision = "nope";
    outcome = fetch_with("acme/tiny", &settings);
    assert_refused(outcome, BERTH_NO_INPUT, "acme/tiny, revision nope: not found");
    settings.revision = "../../../x";
    outcome = fetch_with("acme/tiny", &settings);
    assert_refused(outcome, BERTH_USAGE, "revision");
    server_stop(server);
}

static void test_patterns_choose_the_files(void **state) {
    (void)state;
    struct server *server = start_good_hub();
    struct berth_fetch_settings settings = {.files = "vocab.txt,onnx/*.md"};
    struct outcome outcome = fetch_with("acme/tiny", &settings);
    assert_fetched(outcome);
    assert_file_holds(scratch(REPO "/snapshots/" COMMIT "/onnx/README.md"), "abc");
    assert_link(scratch(REPO "/snapshots/" COMMIT "/onnx/README.md"),
                "../../../blobs/f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f");
    assert_false(file_exists(scratch(REPO "/snapshots/" COMMIT "/config.json")));
    char *path;
    struct berth_error error; // the listing shows what is missing
    assert_int_equal(berth_find_model("acme/tiny", &path, &error), BERTH_NO_INPUT);
    assert_message_has(&error, "config.json is not in the cache");
    settings.files = "*.csv";
    assert_refused(fetch_with("acme/tiny", &settings), BERTH_NO_INPUT, "*.csv");
    char lengthy[600]; // a pattern of any length
    memset(lengthy, 'v', sizeof lengthy);
    lengthy[0] = '[';
    strcpy(lengthy + sizeof lengthy - sizeof "]ocab.txt", "]ocab.txt");
    settings.files = lengthy;
    assert_fetched(fetch_with("acme/tiny", &settings));
    server_stop(server);
}

static void test_a_data_set_of_the_hub(void **state) {
    (void)state;
    struct server_route routes[HUB_ROUTES];
    make_hub(routes);
    routes[HUB_REVISION].path = "/api/datasets/acme/tiny/revision/main";
    routes[HUB_TREE].path = "/api/datasets/acme/tiny/tree/" COMMIT "?recursive=true";
    routes[HUB_VOCAB].path = "/datasets/acme/tiny/resolve/" COMMIT "/vocab.txt";
    struct server *server = start_hub(routes);
    const struct berth_fetch_settings settings = {.dataset = 1, .files = "vocab.txt"};
    struct outcome outcome = fetch_with("acme/tiny", &settings);
    assert_fetched(outcome);
    assert_string_equal(outcome.path, scratch("home/hub/datasets--acme--tiny/snapshots/" COMMIT));
    assert_file_holds(scratch("home/hub/datasets--acme--tiny/snapshots/" COMMIT "/vocab.txt"),
                      vocab_text);
    server_stop(server);
}

// huggingface_hub counts them, too.
static void test_dot_files_of_a_data_set(void **state) {
    (void)state;
    char listing[256];
    struct server_route routes[HUB_ROUTES];
    make_hub(routes);
    snprintf(listing, sizeof listing,
             "[{\"type\": \"file\", \"path\": \".gitattributes\", \"oid\": \"%s\", \"size\": %zu}]",
             git_digest(vocab_text), strlen(vocab_text));
    routes[HUB_REVISION].path = "/api/datasets/acme/tiny/revision/main";
    routes[HUB_TREE].path = "/api/datasets/acme/tiny/tree/" COMMIT "?recursive=true";
    routes[HUB_TREE].body = listing;
    routes[HUB_TREE].length = strlen(listing);
    routes[HUB_VOCAB].path = "/datasets/acme/tiny/resolve/" COMMIT "/.gitattributes";
    struct server *server = start_hub(routes);
    const struct berth_fetch_settings settings = {.dataset = 1};
    assert_fetched(fetch_with("acme/tiny", &settings));
    assert_file_holds(scratch("home/hub/datasets--acme--tiny/snapshots/" COMMIT "/.gitattributes"),
                      vocab_text);
    server_stop(server);
}

// The listing in two pages, the first with that Link header.
static struct server *start_pages(struct server_route routes[HUB_ROUTES + 1], const char *link) {
    static const char first[] =
        "[{\"type\": \"file\", \"path\": \"a.md\", \"oid\": \"" COMMIT "\", \"size\": 1}]";
    make_hub(routes);
    routes[HUB_ROUTES] = routes[HUB_TREE];
    routes[HUB_ROUTES].path = "/page2";
    routes[HUB_TREE].body = first;
    routes[HUB_TREE].length = strlen(first);
    routes[HUB_TREE].headers = link;
    struct server *server = server_start(routes, HUB_ROUTES + 1);
    setenv("HF_ENDPOINT", server_url(server, "/"), 1);
    return server;
}

static void test_the_listing_may_have_pages(void **state) {
    (void)state;
    struct server_route routes[HUB_ROUTES + 1];
    struct server *server = start_pages(
        routes, "Link: </x>; rel=\"first\", <http://127.0.0.1:@PORT@/page2>; rel=\"next\"\r\n");
    struct outcome outcome = fetch("acme/tiny", 0);
    assert_published(&outcome);
    char *tree;
    size_t length;
    assert_int_equal(
        file_read(scratch(REPO "/trees/" COMMIT ".json"), 1 << 20, &tree, &length, NULL), BERTH_OK);
    assert_non_null(strstr(tree, "\"a.md\""));
    assert_non_null(strstr(tree, "\"vocab.txt\""));
    memory_free(tree);
    server_stop(server);
}

// A page that links to itself, and pages that link to each other: refused immediately, not
// requested forever.
static void test_pages_that_lead_in_a_circle(void **state) {
    (void)state;
    static const char *const seconds[] = {
        "Link: <http://127.0.0.1:@PORT@/page2>; rel=\"next\"\r\n",
        "Link: <http://127.0.0.1:@PORT@/api/models/acme/tiny/tree/" COMMIT
        "?recursive=true>; rel=\"next\"\r\n"};
    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
        struct server_route routes[HUB_ROUTES + 1];
        server_stop(start_pages(routes, seconds[0]));
        routes[HUB_ROUTES].headers = seconds[i];
        struct server *server = server_start(routes, HUB_ROUTES + 1);
        setenv("HF_ENDPOINT", server_url(server, "/"), 1);
        assert_refused(fetch("acme/tiny", 0), BERTH_BAD_DATA, "form a cycle");
        assert_true(server_count(server, "GET ") <= 6);
        server_stop(server);
    }
}

static void test_a_page_of_another_place_is_refused(void **state) {
    (void)state;
    struct server_route routes[HUB_ROUTES + 1];
    struct server *server =
        start_pages(routes, "Link: <http://localhost:@PORT@/page2>; rel=\"next\"\r\n");
    setenv("HF_TOKEN", "secret", 1);
    assert_refused(fetch("acme/tiny", 0), BERTH_BAD_DATA, "on another host");
    assert_int_equal(server_count(server, "/page2"), 0);
    server_stop(server);
}

// --- hostile listings ---------------------------------------------------------------------------

static void test_hostile_paths_are_refused(void **state) {
    (void)state;
    static const char *const paths[] = {
        "../config.json", "/etc/passwd", "a/../../b", "a//b", "./a",  "a/.", "..", "",
        "a\\\\b",         "a\\u0001b",   "a/",        "/",    "a/..", "."};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct server_route routes[HUB_ROUTES];
        make_hub(routes);
        char *at = strstr(listing_text, "onnx/README.md"), rest[sizeof listing_text];
        snprintf(rest, sizeof rest, "%s", at + strlen("onnx/README.md"));
        snprintf(at, sizeof listing_text - (size_t)(at - listing_text), "%s%s", paths[i], rest);
        routes[HUB_TREE].length = strlen(listing_text);
        struct server *server = start_hub(routes);
        assert_refused(fetch("acme/tiny", 0), BERTH_BAD_DATA, "refused");
        assert_int_equal(server_count(server, "/resolve/"), 0);
        assert_false(dir_exists(scratch("home")));
        server_stop(server);
    }
}

static void test_listings_that_make_no_sense(void **state) {
    (void)state;
    static const char *const listings[] = {
        "{}",
        "[",
        "",
        "[{\"type\": \"file\", \"path\": 3, \"oid\": \"" COMMIT "\", \"size\": 1}]",
        "[{\"type\": \"file\", \"path\": \"a\", \"oid\": \"../../x\", \"size\": 1}]",
        "[{\"type\": \"file\", \"path\": \"a\", \"oid\": \"" COMMIT "\", \"size\": -1}]",
        "[{\"type\": \"file\", \"path\": \"a\", \"oid\": \"" COMMIT "\", \"size\": 1,"
        "  \"lfs\": {\"oid\": \"" COMMIT "\", \"size\": 1}}]",
        "[{\"type\": \"file\", \"path\": \"a\", \"oid\": \"" COMMIT "\", \"size\": 1},"
        " {\"type\": \"file\", \"path\": \"a\", \"oid\": \"" COMMIT "\", \"size\": 2}]",
        "[{\"type\": \"file\", \"path\": \"a\", \"oid\": \"" COMMIT "\", \"size\": 1}]"};
    for (size_t i = 0; i < sizeof listings / sizeof *listings; i++) {
        struct server_route routes[HUB_ROUTES];
        make_hub(routes);
        routes[HUB_TREE].body = listings[i];
        routes[HUB_TREE].length = strlen(listings[i]);
        struct server *server = start_hub(routes);
        struct outcome outcome = fetch("acme/tiny", 0);
        assert_int_equal(outcome.status, BERTH_BAD_DATA);
        assert_false(dir_exists(scratch("home")));
        server_stop(server);
    }
}

static void test_a_listing_that_is_encoded(void **state) {
    (void)state;
    struct server_route routes[HUB_ROUTES];
    make_hub(routes);
    routes[HUB_TREE].headers = "Content-Encoding: gzip\r\n";
    struct server *server = start_hub(routes);
    assert_refused(fetch("acme/tiny", 0), BERTH_BAD_DATA,
                   "acme/tiny: the server sent a Content-Enc");
    server_stop(server);
}

static void test_names_that_are_none(void **state) {
    (void)state;
    static const char *const names[] = {"a/b/c", "../x", "a--b/c", "",     "a/",
                                        "/a",    "a b",  "a/..",   ".a/b", "ftp:/x"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(fetch(names[i], 0).status, BERTH_USAGE);
    }
    assert_refused(fetch("ftp://example.org/x", 0), BERTH_USAGE, "http or https");
    assert_refused(fetch("file:///etc/passwd", 0), BERTH_USAGE, "http or https");
    assert_false(dir_exists(scratch("home")));
}

// --- a hostile cache ----------------------------------------------------------------------------

static void test_links_that_leave_the_cache_are_refused(void **state) {
    (void)state;
    char *path;
    struct berth_error error;
    struct server *server = start_good_hub();
    struct outcome outcome = fetch("acme/tiny", 0);
    assert_published(&outcome);
    scratch_write("secret", "secret");
    const char *file = scratch(REPO "/snapshots/" COMMIT "/vocab.txt");
    assert_int_equal(unlink(file), 0);
    assert_int_equal(symlink("../../../../../secret", file), 0);
    assert_int_equal(berth_find_model("acme/tiny", &path, &error), BERTH_BAD_DATA);
    assert_message_has(&error, "outside the cache's folder");
    outcome = fetch("acme/tiny", 0); // repairs the link
    assert_published(&outcome);
    assert_file_holds(scratch("secret"), "secret");
    server_stop(server);
}

static void test_a_cache_that_leads_elsewhere_is_not_written(void **state) {
    (void)state;
    struct server *server = start_good_hub();
    assert_int_equal(dir_make(scratch("elsewhere"), NULL), BERTH_OK);
    assert_int_equal(dir_make(scratch(REPO), NULL), BERTH_OK);
    assert_int_equal(symlink(scratch("elsewhere"), scratch(REPO "/blobs")), 0);
    assert_refused(fetch("acme/tiny", 0), BERTH_BAD_DATA, "outside the cache's folder");
    assert_int_equal(unlink(scratch(REPO "/blobs")), 0);
    assert_int_equal(symlink(scratch("elsewhere"), scratch(REPO "/snapshots")), 0);
    assert_refused(fetch("acme/tiny", 0), BERTH_BAD_DATA, "outside the cache's folder");
    assert_true(dir_is_empty(scratch("elsewhere/" COMMIT)));
    // A parent folder of a file of the snapshot, and the folder of refs.
    const struct berth_fetch_settings settings = {.files = "onnx/README.md"};
    assert_int_equal(unlink(scratch(REPO "/snapshots")), 0);
    assert_int_equal(dir_make(scratch(REPO "/snapshots/" COMMIT), NULL), BERTH_OK);
    assert_int_equal(symlink(scratch("elsewhere"), scratch(REPO "/snapshots/" COMMIT "/onnx")), 0);
    assert_refused(fetch_with("acme/tiny", &settings), BERTH_BAD_DATA,
                   "outside the cache's folder");
    assert_false(file_exists(scratch("elsewhere/README.md")));
    assert_int_equal(unlink(scratch(REPO "/snapshots/" COMMIT "/onnx")), 0);
    assert_int_equal(symlink(scratch("elsewhere"), scratch(REPO "/refs")), 0);
    assert_refused(fetch_with("acme/tiny", &settings), BERTH_BAD_DATA,
                   "outside the cache's folder");
    assert_false(file_exists(scratch("elsewhere/main")));
    server_stop(server);
}

static void test_a_partial_file_that_is_a_link_is_not_followed(void **state) {
    (void)state;
    struct server_route routes[HUB_ROUTES];
    make_hub(routes);
    routes[HUB_WEIGHTS].cut_after = 10;
    struct server *server = start_hub(routes);
    assert_int_equal(fetch("acme/tiny", 0).status, BERTH_UNAVAILABLE);
    const char *partial = find_ending(REPO "/blobs", ".incomplete");
    assert_non_null(partial);
    scratch_write("mine", "mine");
    assert_int_equal(unlink(partial), 0);
    assert_int_equal(symlink(scratch("mine"), partial), 0);
    assert_int_equal(fetch("acme/tiny", 0).status, BERTH_CANT_CREATE);
    assert_file_holds(scratch("mine"), "mine");
    server_stop(server);
}

// --- tokens -------------------------------------------------------------------------------------

static void test_the_token_goes_to_the_hub_alone(void **state) {
    (void)state;
    struct server_route routes[HUB_ROUTES], store = {.path = "/store"};
    char location[256];
    make_hub(routes);
    store.body = weights;
    store.length = WEIGHTS_LENGTH;
    struct server *other = server_start(&store, 1);
    snprintf(location, sizeof location, "Location: %s\r\nX-Linked-Etag: \"%s\"\r\n",
             server_url(other, "/store"), weights_sha256);
    routes[HUB_WEIGHTS].status = 302;
    routes[HUB_WEIGHTS].length = 0;
    routes[HUB_WEIGHTS].headers = location;
    struct server *server = start_hub(routes);
    setenv("HF_TOKEN", " hf_secret\n", 1);
    struct outcome outcome = fetch("acme/tiny", 0);
    assert_published(&outcome);
    assert_int_equal(server_count(server, "Authorization: Bearer hf_secret\r\n"), 5);
    assert_int_equal(server_count(other, "GET /store"), 1);
    assert_int_equal(server_count(other, "uthorization"), 0);
    server_stop(other);
    server_stop(server);
}

static void test_where_the_token_comes_from(void **state) {
    (void)state;
    struct server_route routes[HUB_ROUTES];
    make_hub(routes);
    struct server *server = start_hub(routes);
    scratch_write("one", "of_option\n");
    assert_int_equal(dir_make(scratch("home"), NULL), BERTH_OK);
    scratch_write("home/token", "of_file\n");
    assert_fetched(fetch("acme/tiny", 0));
    assert_int_equal(server_count(server, "Bearer of_file\r\n"), 5);
    setenv("HF_TOKEN", "of_variable", 1);
    assert_fetched(fetch("acme/tiny", 0));
    assert_int_equal(server_count(server, "Bearer of_variable\r\n"), 2);
    const struct berth_fetch_settings settings = {.token_file = scratch("one")};
    assert_fetched(fetch_with("acme/tiny", &settings));
    assert_int_equal(server_count(server, "Bearer of_option\r\n"), 2);
    setenv("HF_TOKEN", "a\r\nX-Evil: 1", 1);
    assert_refused(fetch("acme/tiny", 0), BERTH_CONFIG, "is not a token");
    assert_int_equal(server_count(server, "Evil"), 0);
    setenv("HF_TOKEN", "of_variable", 1);
    // A URL does not involve the hub.
    assert_fetched(fetch(server_url(server, routes[HUB_VOCAB].path), 0));
    assert_int_equal(server_count(server, "uthorization"), 9);
    server_stop(server);
}

static char warning_text[1024];

static void keep_warning(void *context, const struct berth_record *record) {
    if (record->kind == BERTH_RECORD_WARNING) {
        snprintf(warning_text, sizeof warning_text, "%s", record->text);
    }
}

static void test_the_token_is_not_sent_in_the_clear(void **state) {
    (void)state;
    const struct berth_log log = {.write = keep_warning};
    const struct berth_fetch_settings settings = {.retries = 0};
    char *path;
    setenv("HF_TOKEN", "secret", 1);
    setenv("HF_ENDPOINT", "http://127.0.0.2:9", 1); // nothing listens there
    assert_int_equal(berth_fetch("acme/tiny", &settings, log, NULL, &path, NULL),
                     BERTH_UNAVAILABLE);
    assert_non_null(strstr(warning_text, "the token is not sent"));
    setenv("HF_ENDPOINT", "gopher://hub", 1);
    assert_refused(fetch("acme/tiny", 0), BERTH_CONFIG, "HF_ENDPOINT");
}

// --- URLs ---------------------------------------------------------------------------------------

#define TEXT "some text to download\n"
#define OTHER_SHA256 "0000000000000000000000000000000000000000000000000000000000000001"

static void test_a_url_is_kept_under_its_name(void **state) {
    (void)state;
    const struct server_route route = {
        .path = "/a/my%20file.json?x=1", .body = TEXT, .length = strlen(TEXT), .etag = "\"one\""};
    struct server *server = server_start(&route, 1);
    struct outcome outcome = fetch(server_url(server, route.path), 0);
    assert_fetched(outcome);
    assert_file_holds(outcome.path, TEXT);
    assert_string_equal(strrchr(outcome.path, '/'), "/my file.json");
    assert_non_null(strstr(outcome.path, "/home/assets/berth/urls--127.0.0.1--"));
    struct outcome again = fetch(server_url(server, route.path), 0);
    assert_fetched(again);
    assert_string_equal(again.path, outcome.path);
    assert_int_equal(server_count(server, "If-None-Match: \"one\"\r\n"), 1);
    FILE *file = fopen(outcome.path, "r+b"); // damaged: not returned although the etag is the same
    assert_non_null(file);
    assert_int_equal(fputc('S', file), 'S');
    assert_int_equal(fclose(file), 0);
    setenv("HF_HUB_OFFLINE", "1", 1);
    assert_refused(fetch(server_url(server, route.path), 0), BERTH_UNAVAILABLE, "");
    unsetenv("HF_HUB_OFFLINE");
    again = fetch(server_url(server, route.path), 0);
    assert_fetched(again);
    assert_file_holds(again.path, TEXT);
    server_stop(server);
}

static void test_a_url_whose_content_changes(void **state) {
    (void)state;
    const struct server_route then = {.body = "new", .length = 3, .etag = "\"two\""};
    const struct server_route route = {.path = "/file",
                                       .body = TEXT,
                                       .length = strlen(TEXT),
                                       .etag = "\"one\"",
                                       .times = 1,
                                       .then = &then};
    struct server *server = server_start(&route, 1);
    struct outcome outcome = fetch(server_url(server, "/file"), 0);
    assert_fetched(outcome);
    struct outcome again = fetch(server_url(server, "/file"), 0);
    assert_fetched(again);
    assert_file_holds(outcome.path, TEXT);
    assert_file_holds(again.path, "new");
    setenv("HF_DATASETS_OFFLINE", "1", 1);
    assert_string_equal(fetch(server_url(server, "/file"), 0).path, again.path);
    server_stop(server);
}

static void test_digests_of_a_url(void **state) {
    (void)state;
    char sha256[DIGEST_HEX_SIZE], md5[DIGEST_HEX_SIZE];
    const struct server_route route = {.path = "/file", .body = TEXT, .length = strlen(TEXT)};
    struct server *server = server_start(&route, 1);
    const char *url = server_url(server, "/file");
    digest_memory(DIGEST_SHA256, TEXT, strlen(TEXT), sha256, NULL);
    digest_memory(DIGEST_MD5, TEXT, strlen(TEXT), md5, NULL);
    struct berth_fetch_settings settings = {.sha256 = OTHER_SHA256};
    struct outcome outcome = fetch_with(url, &settings);
    assert_refused(outcome, BERTH_BAD_DATA, sha256);  // the digest found
    assert_message_has(&outcome.error, OTHER_SHA256); // the expected digest
    settings = (struct berth_fetch_settings){.md5 = "00000000000000000000000000000000"};
    assert_refused(fetch_with(url, &settings), BERTH_BAD_DATA, md5);
    settings.md5 = "0000";
    assert_refused(fetch_with(url, &settings), BERTH_USAGE, "expected 32 hexadecimal digits");
    settings = (struct berth_fetch_settings){.sha256 = sha256, .md5 = md5};
    outcome = fetch_with(url, &settings);
    assert_fetched(outcome);
    assert_file_holds(outcome.path, TEXT);
    assert_int_equal(server_count(server, "GET /file"), 3);
    assert_fetched(fetch_with(url, &settings)); // it has the expected digest: no request
    assert_int_equal(server_count(server, "GET /file"), 3);
    assert_refused(fetch_with("acme/tiny", &settings), BERTH_USAGE, "are for URLs");
    settings = (struct berth_fetch_settings){.revision = "v1"};
    assert_refused(fetch_with(url, &settings), BERTH_USAGE, "are for repositories of the hub");
    settings = (struct berth_fetch_settings){.dataset = 1};
    assert_refused(fetch_with(url, &settings), BERTH_USAGE, "are for repositories of the hub");
    settings = (struct berth_fetch_settings){.files = "*.json"};
    assert_refused(fetch_with("squad", &settings), BERTH_USAGE, "are for repositories of the hub");
    server_stop(server);
}

static void test_redirects(void **state) {
    (void)state;
    const struct server_route routes[] = {
        {.path = "/to", .body = TEXT, .length = strlen(TEXT)},
        {.path = "/from", .status = 301, .body = "", .headers = "Location: to\r\n"},
        {.path = "/round", .status = 302, .body = "", .headers = "Location: /round\r\n"},
        {.path = "/local",
         .status = 302,
         .body = "",
         .headers = "Location: file:///etc/passwd\r\n"}};
    struct server *server = server_start(routes, 4);
    struct outcome outcome = fetch(server_url(server, "/from"), 0);
    assert_fetched(outcome);
    assert_file_holds(outcome.path, TEXT);
    assert_refused(fetch(server_url(server, "/round"), 3), BERTH_UNAVAILABLE, "10 redirects");
    assert_int_equal(server_count(server, "GET /round"), 11);
    assert_refused(fetch(server_url(server, "/local"), 3), BERTH_UNAVAILABLE, "refused");
    server_stop(server);
}

// The target of a redirect; NULL: refused, because it leaves https or the two protocols.
static void test_where_redirects_lead(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"https://a.org/x/y?q", "z", "https://a.org/x/z"},
        {"https://a.org/x/y", "/z?r=1", "https://a.org/z?r=1"},
        {"https://a.org/x", "https://b.org/z", "https://b.org/z"},
        {"https://a.org/x", "//b.org/z", "https://b.org/z"},
        {"http://a.org/x", "http://b.org/z", "http://b.org/z"},
        {"http://a.org/x", "https://a.org/x", "https://a.org/x"},
        {"https://a.org/x", "http://a.org/x", NULL},
        {"https://a.org/x", "HTTP://b.org/z", NULL},
        {"HTTPS://a.org/x", "http://a.org/x", NULL},
        {"https://a.org/x", "ftp://a.org/x", NULL},
        {"http://a.org/x", "file:///etc/passwd", NULL},
        {"http://a.org/x", "javascript:0", NULL},
        {"http://a.org/x", "http://", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct berth_error error = {0};
        char *to;
        enum berth_status status = http_follow(cases[i][0], cases[i][1], &to, &error);
        assert_int_equal(status, cases[i][2] != NULL ? BERTH_OK : BERTH_UNAVAILABLE);
        if (cases[i][2] != NULL) {
            assert_string_equal(to, cases[i][2]);
        } else {
            assert_null(to);
            assert_message_has(&error, cases[i][1]);
            assert_message_has(&error, "refused");
        }
        memory_free(to);
    }
}

// The published URL and digests of SQuAD: the connection requested from the proxy.
static void test_a_data_set_known_by_name(void **state) {
    (void)state;
    const struct server_route none = {.path = "/"};
    struct server *proxy = server_start(&none, 1);
    setenv("https_proxy", server_url(proxy, ""), 1);
    assert_int_equal(fetch("squad", 0).status, BERTH_UNAVAILABLE);
    assert_int_equal(server_count(proxy, "CONNECT rajpurkar.github.io:443 "), 1);
    setenv("HF_DATASETS_OFFLINE", "TRUE", 1);
    assert_refused(fetch("squad_v2", 0), BERTH_UNAVAILABLE, "train-v2.0.json");
    assert_int_equal(server_count(proxy, "CONNECT"), 1);
    server_stop(proxy);
}

// --- offline ------------------------------------------------------------------------------------

static void test_offline_nothing_is_asked(void **state) {
    (void)state;
    static const struct {
        const char *variable, *value;
        int model, url; // forbidden?
    } cases[] = {{"HF_HUB_OFFLINE", "1", 1, 1},        {"HF_HUB_OFFLINE", "Yes", 1, 1},
                 {"TRANSFORMERS_OFFLINE", "ON", 1, 1}, {"HF_DATASETS_OFFLINE", "true", 0, 1},
                 {"HF_HUB_OFFLINE", "0", 0, 0},        {"HF_HUB_OFFLINE", "", 0, 0},
                 {"TRANSFORMERS_OFFLINE", "no", 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct server_route routes[HUB_ROUTES];
        make_hub(routes);
        struct server *server = start_hub(routes);
        setenv(cases[i].variable, cases[i].value, 1);
        struct outcome model = fetch("acme/tiny", 0);
        assert_int_equal(server_count(server, "GET /api") > 0, !cases[i].model);
        struct outcome url = fetch(server_url(server, routes[HUB_VOCAB].path), 0);
        assert_int_equal(server_count(server, "GET /acme/tiny/resolve/" COMMIT "/vocab") > 0,
                         !cases[i].model || !cases[i].url);
        assert_int_equal(model.status, cases[i].model ? BERTH_UNAVAILABLE : BERTH_OK);
        assert_int_equal(url.status, cases[i].url ? BERTH_UNAVAILABLE : BERTH_OK);
        if (cases[i].model) {
            assert_message_has(&model.error, cases[i].variable);
        }
        unsetenv(cases[i].variable);
        server_stop(server);
        assert_int_equal(dir_remove(scratch("home"), NULL), BERTH_OK);
    }
}

static void test_offline_the_cache_is_enough(void **state) {
    (void)state;
    struct server *server = start_good_hub();
    struct outcome outcome = fetch("acme/tiny", 0);
    assert_published(&outcome);
    setenv("TRANSFORMERS_OFFLINE", "1", 1);
    outcome = fetch("acme/tiny", 0);
    assert_published(&outcome);
    assert_int_equal(server_count(server, "GET "), 5);
    assert_int_equal(unlink(scratch(REPO "/snapshots/" COMMIT "/vocab.txt")), 0);
    assert_refused(fetch("acme/tiny", 0), BERTH_UNAVAILABLE, "vocab.txt");
    server_stop(server);
}

static void test_offline_a_data_set_known_by_name(void **state) {
    (void)state;
    static const char *const blobs[] = {
        "3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955",
        "95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9"};
    char blob[128], file[1100];
    setenv("HF_DATASETS_OFFLINE", "1", 1);
    assert_int_equal(dir_make(scratch("home/assets/berth/datasets--squad/blobs"), NULL), BERTH_OK);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(fetch("squad", 0).status, BERTH_UNAVAILABLE);
        snprintf(blob, sizeof blob, "home/assets/berth/datasets--squad/blobs/%s", blobs[i]);
        scratch_write(blob, i == 0 ? "train" : "dev");
        assert_refused(fetch("squad", 0), BERTH_BAD_DATA, blobs[i]); // different content
        call_verified("home/assets/berth/datasets--squad", blobs[i]);
    }
    struct outcome outcome = fetch("squad-v1.1", 0);
    assert_fetched(outcome);
    snprintf(file, sizeof file, "%s/train-v1.1.json", outcome.path);
    assert_file_holds(file, "train");
    snprintf(file, sizeof file, "%s/dev-v1.1.json", outcome.path);
    assert_file_holds(file, "dev");
}

// --- selecting the files of a model --------------------------------------------------------------

#define NAMES_MAX 8

static void test_which_files_a_model_needs(void **state) {
    (void)state;
    // Before the name: "!" required, "+" wanted, "-" neither.
    static const char *const cases[][NAMES_MAX] = {
        {"!config.json", "!model.safetensors", "-pytorch_model.bin", "-model.onnx", "!vocab.txt",
         "+tokenizer.json", "-sub/model.safetensors"},
        {"!config.json", "!model.safetensors.index.json", "!model-00001-of-00002.safetensors",
         "!model-00002-of-00002.safetensors", "-pytorch_model.bin", "-model-x.bin"},
        {"!config.json", "!pytorch_model.bin", "-pytorch_model.bin.index.json",
         "+added_tokens.json"},
        {"!config.json", "!pytorch_model.bin.index.json", "!pytorch_model-00001-of-00001.bin",
         "-tf_model.h5", "+special_tokens_map.json", "-sub/config.json"},
        {"!bert_config.json", "!bert_model.ckpt.index", "!bert_model.ckpt.data-00000-of-00001",
         "!checkpoint", "-bert_model.ckpt.meta", "+tokenizer_config.json"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const char *names[NAMES_MAX];
        enum model_file roles[NAMES_MAX];
        size_t count = 0;
        for (; count < NAMES_MAX && cases[c][count] != NULL; count++) {
            names[count] = cases[c][count] + 1;
        }
        assert_int_equal(model_files_pick(names, count, roles, "it", NULL), BERTH_OK);
        for (size_t i = 0; i < count; i++) {
            enum model_file wanted = cases[c][i][0] == '!'   ? MODEL_FILE_NEEDED
                                     : cases[c][i][0] == '+' ? MODEL_FILE_WANTED
                                                             : MODEL_FILE_OTHER;
            if (roles[i] != wanted) {
                fail_msg("case %zu: %s is %d", c, names[i], (int)roles[i]);
            }
        }
    }
    static const char *const others[] = {"model.safetensors", "config.json", "model.onnx"};
    enum model_file roles[3];
    struct berth_error error;
    assert_int_equal(model_files_pick(others, 1, roles, "it", &error), BERTH_BAD_DATA);
    assert_message_has(&error, "config.json");
    assert_int_equal(model_files_pick(others + 1, 2, roles, "it", &error), BERTH_BAD_DATA);
    assert_message_has(&error, "model.safetensors");
}

// --- finding ------------------------------------------------------------------------------------

static void test_a_folder_comes_before_the_cache(void **state) {
    (void)state;
    char *path, before[512];
    struct server *server = start_good_hub();
    assert_fetched(fetch("acme/tiny", 0));
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(dir_make(scratch("acme/tiny"), NULL), BERTH_OK);
    assert_int_equal(chdir(scratch(".")), 0);
    assert_int_equal(berth_find_model("acme/tiny", &path, NULL), BERTH_OK);
    assert_string_equal(path, "acme/tiny");
    berth_string_free(path);
    assert_int_equal(chdir(before), 0);
    server_stop(server);
}

// Caches of older programs have no listing: the folder itself is used.
static void test_a_cache_without_a_listing(void **state) {
    (void)state;
    char *path;
    struct berth_error error;
    struct server *server = start_good_hub();
    struct outcome outcome = fetch("acme/tiny", 0);
    assert_published(&outcome);
    for (int broken = 0; broken < 2; broken++) {
        if (broken) {
            scratch_write(REPO "/trees/" COMMIT ".json", "{\"files\": 3");
        } else {
            assert_int_equal(unlink(scratch(REPO "/trees/" COMMIT ".json")), 0);
        }
        assert_int_equal(berth_find_model("acme/tiny", &path, &error), BERTH_OK);
        assert_string_equal(path, outcome.path);
        berth_string_free(path);
    }
    assert_int_equal(unlink(scratch(REPO "/snapshots/" COMMIT "/model.safetensors")), 0);
    assert_int_equal(berth_find_model("acme/tiny", &path, &error), BERTH_NO_INPUT);
    assert_message_has(&error, "incomplete");
    server_stop(server);
}

static void test_a_model_that_is_nowhere(void **state) {
    (void)state;
    char *path;
    struct berth_error error;
    assert_int_equal(berth_find_model("acme/tiny", &path, &error), BERTH_NO_INPUT);
    assert_message_has(&error, "berth fetch acme/tiny");
    assert_int_equal(berth_find_model("acme/model.safetensors", &path, &error), BERTH_NO_INPUT);
    assert_string_equal(error.message, "acme/model.safetensors: no such file");
    assert_int_equal(berth_find_model("./acme/tiny", &path, &error),
                     BERTH_OK); // not a name on the hub
    assert_string_equal(path, "./acme/tiny");
    berth_string_free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        NET_TEST(test_a_model_lands_in_the_layout),
        NET_TEST(test_what_is_there_is_not_fetched_again),
        NET_TEST(test_what_is_there_is_hashed),
        NET_TEST(test_a_revision_and_a_commit),
        NET_TEST(test_patterns_choose_the_files),
        NET_TEST(test_a_data_set_of_the_hub),
        NET_TEST(test_dot_files_of_a_data_set),
        NET_TEST(test_a_listing_that_is_encoded),
        NET_TEST(test_the_listing_may_have_pages),
        NET_TEST(test_pages_that_lead_in_a_circle),
        NET_TEST(test_a_page_of_another_place_is_refused),
        NET_TEST(test_hostile_paths_are_refused),
        NET_TEST(test_listings_that_make_no_sense),
        NET_TEST(test_names_that_are_none),
        NET_TEST(test_links_that_leave_the_cache_are_refused),
        NET_TEST(test_a_cache_that_leads_elsewhere_is_not_written),
        NET_TEST(test_a_partial_file_that_is_a_link_is_not_followed),
        NET_TEST(test_the_token_goes_to_the_hub_alone),
        NET_TEST(test_where_the_token_comes_from),
        NET_TEST(test_the_token_is_not_sent_in_the_clear),
        NET_TEST(test_a_url_is_kept_under_its_name),
        NET_TEST(test_a_url_whose_content_changes),
        NET_TEST(test_digests_of_a_url),
        NET_TEST(test_redirects),
        NET_TEST(test_where_redirects_lead),
        NET_TEST(test_a_data_set_known_by_name),
        NET_TEST(test_offline_nothing_is_asked),
        NET_TEST(test_offline_the_cache_is_enough),
        NET_TEST(test_offline_a_data_set_known_by_name),
        NET_TEST(test_which_files_a_model_needs),
        NET_TEST(test_a_folder_comes_before_the_cache),
        NET_TEST(test_a_cache_without_a_listing),
        NET_TEST(test_a_model_that_is_nowhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
