// SPDX-License-Identifier: Apache-2.0
// Fetching from URLs, with and without digests and redirects; data sets known by name; tokens and
// where they are sent; variables that forbid the network.
#include "fetch/http.h"
#include "harness.h"

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
    const struct fetch_settings settings = {.token_file = scratch("one")};
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
    if (record->kind == BERTH_WARNING) {
        snprintf(warning_text, sizeof warning_text, "%s", record->text);
    }
}

static void test_the_token_is_not_sent_in_the_clear(void **state) {
    (void)state;
    const struct berth_log log = {.write = keep_warning};
    const struct fetch_settings settings = {.retries = 0};
    char *path;
    setenv("HF_TOKEN", "secret", 1);
    setenv("HF_ENDPOINT", "http://127.0.0.2:9", 1); // nothing listens there
    assert_int_equal(fetch_files("acme/tiny", &settings, log, NULL, &path, NULL),
                     BERTH_UNAVAILABLE);
    assert_non_null(strstr(warning_text, "the token is not sent"));
    setenv("HF_ENDPOINT", "gopher://hub", 1);
    assert_refused(fetch("acme/tiny", 0), BERTH_CONFIG, "HF_ENDPOINT");
}

// --- URLs ---------------------------------------------------------------------------------------

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
    struct fetch_settings settings = {.sha256 = OTHER_SHA256};
    struct outcome outcome = fetch_with(url, &settings);
    assert_refused(outcome, BERTH_BAD_DATA, sha256);  // the digest found
    assert_message_has(&outcome.error, OTHER_SHA256); // the expected digest
    settings = (struct fetch_settings){.md5 = "00000000000000000000000000000000"};
    assert_refused(fetch_with(url, &settings), BERTH_BAD_DATA, md5);
    settings.md5 = "0000";
    assert_refused(fetch_with(url, &settings), BERTH_USAGE, "expected 32 hexadecimal digits");
    settings = (struct fetch_settings){.sha256 = sha256, .md5 = md5};
    outcome = fetch_with(url, &settings);
    assert_fetched(outcome);
    assert_file_holds(outcome.path, TEXT);
    assert_int_equal(server_count(server, "GET /file"), 3);
    assert_fetched(fetch_with(url, &settings)); // it has the expected digest: no request
    assert_int_equal(server_count(server, "GET /file"), 3);
    assert_refused(fetch_with("acme/tiny", &settings), BERTH_USAGE, "are for URLs");
    settings = (struct fetch_settings){.revision = "v1"};
    assert_refused(fetch_with(url, &settings), BERTH_USAGE, "are for repositories of the hub");
    settings = (struct fetch_settings){.dataset = 1};
    assert_refused(fetch_with(url, &settings), BERTH_USAGE, "are for repositories of the hub");
    settings = (struct fetch_settings){.files = "*.json"};
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

// The target as a whole, or none: a signed URL that lacks its end is refused by its server.
static void test_redirects_to_long_urls(void **state) {
    (void)state;
    static const struct {
        size_t length; // of the target
        const char *problem;
    } cases[] = {{2047, NULL}, {2048, NULL}, {16300, NULL}, {17000, "too long Location header"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char target[20000] = "/to?signature=", location[sizeof target + 16];
        memset(target + strlen(target), 'x', cases[i].length - strlen(target));
        snprintf(location, sizeof location, "Location: %s\r\n", target);
        const struct server_route routes[] = {
            {.path = target, .body = TEXT, .length = strlen(TEXT)},
            {.path = "/from", .status = 302, .body = "", .headers = location}};
        struct server *server = server_start(routes, 2);
        struct outcome outcome = fetch(server_url(server, "/from"), 0);
        if (cases[i].problem == NULL) {
            assert_fetched(outcome);
            assert_file_holds(outcome.path, TEXT);
        } else {
            assert_refused(outcome, BERTH_BAD_DATA, cases[i].problem);
        }
        server_stop(server);
    }
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
        record_verified("home/assets/berth/datasets--squad", blobs[i]);
    }
    struct outcome outcome = fetch("squad-v1.1", 0);
    assert_fetched(outcome);
    snprintf(file, sizeof file, "%s/train-v1.1.json", outcome.path);
    assert_file_holds(file, "train");
    snprintf(file, sizeof file, "%s/dev-v1.1.json", outcome.path);
    assert_file_holds(file, "dev");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        NET_TEST(test_the_token_goes_to_the_hub_alone),
        NET_TEST(test_where_the_token_comes_from),
        NET_TEST(test_the_token_is_not_sent_in_the_clear),
        NET_TEST(test_a_url_is_kept_under_its_name),
        NET_TEST(test_a_url_whose_content_changes),
        NET_TEST(test_digests_of_a_url),
        NET_TEST(test_redirects),
        NET_TEST(test_redirects_to_long_urls),
        NET_TEST(test_where_redirects_lead),
        NET_TEST(test_a_data_set_known_by_name),
        NET_TEST(test_offline_nothing_is_asked),
        NET_TEST(test_offline_the_cache_is_enough),
        NET_TEST(test_offline_a_data_set_known_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
