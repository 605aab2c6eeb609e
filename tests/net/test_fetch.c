// SPDX-License-Identifier: Apache-2.0
// Fetching from the hub: models and data sets, their layout in the cache, listings and caches that
// are hostile, which files a model needs, and how a fetched model is found. URLs, tokens and
// offline variables are in test_fetch_urls.c.
#include "core/text_util.h"
#include "format/hub/model_files.h"
#include "harness.h"

// --- a model ------------------------------------------------------------------------------------

static void assert_link(const char *path, const char *target) {
    char found[512] = "";
    assert_true(readlink(path, found, sizeof found - 1) > 0);
    assert_string_equal(found, target);
}

static void test_a_model_has_the_layout_of_the_cache(void **state) {
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
    assert_int_equal(hub_find_model("acme/tiny", &path, &error), BERTH_BAD_DATA);
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
    struct fetch_settings settings = {.revision = "refs/pr/1"};
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
    struct fetch_settings settings = {.files = "vocab.txt,onnx/*.md"};
    struct outcome outcome = fetch_with("acme/tiny", &settings);
    assert_fetched(outcome);
    assert_file_holds(scratch(REPO "/snapshots/" COMMIT "/onnx/README.md"), "abc");
    assert_link(scratch(REPO "/snapshots/" COMMIT "/onnx/README.md"),
                "../../../blobs/f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f");
    assert_false(file_exists(scratch(REPO "/snapshots/" COMMIT "/config.json")));
    char *path;
    struct berth_error error; // the listing shows what is missing
    assert_int_equal(hub_find_model("acme/tiny", &path, &error), BERTH_NO_INPUT);
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
    const struct fetch_settings settings = {.dataset = 1, .files = "vocab.txt"};
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
    const struct fetch_settings settings = {.dataset = 1};
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

// The hub lists folders, too, and of a repository with thousands of them whole pages of folders. An
// empty page is the last one, whatever it links to.
static void test_pages_without_files(void **state) {
    (void)state;
    static const char folders[] =
        "[{\"type\": \"directory\", \"path\": \"a\", \"oid\": \"" COMMIT "\", \"size\": 0}]";
    for (int is_empty = 0; is_empty < 2; is_empty++) {
        struct server_route routes[HUB_ROUTES + 1];
        const char *const body = is_empty ? "[]" : folders;
        server_stop(start_pages(routes, "Link: <http://127.0.0.1:@PORT@/page2>; rel=\"next\"\r\n"));
        routes[HUB_TREE].body = body;
        routes[HUB_TREE].length = strlen(body);
        struct server *server = server_start(routes, HUB_ROUTES + 1);
        setenv("HF_ENDPOINT", server_url(server, "/"), 1);
        struct outcome outcome = fetch("acme/tiny", 0);
        assert_int_equal(server_count(server, "GET /page2"), !is_empty);
        if (is_empty) {
            assert_int_equal(outcome.status, BERTH_BAD_DATA); // no model
        } else {
            assert_published(&outcome);
        }
        server_stop(server);
    }
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

static void test_a_page_on_another_host_is_refused(void **state) {
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

static void test_invalid_names(void **state) {
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
    assert_int_equal(hub_find_model("acme/tiny", &path, &error), BERTH_BAD_DATA);
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
    const struct fetch_settings settings = {.files = "onnx/README.md"};
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
         "!checkpoint", "-bert_model.ckpt.meta", "+tokenizer_config.json"},
        {"!0_Transformer/config.json", "!0_Transformer/model.safetensors",
         "!0_Transformer/vocab.txt", "+0_Transformer/sentence_bert_config.json", "+modules.json",
         "+1_Pooling/config.json", "+2_Dense/model.safetensors", "-vocab.txt"}};
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
    assert_int_equal(hub_find_model("acme/tiny", &path, NULL), BERTH_OK);
    assert_string_equal(path, "acme/tiny");
    memory_free(path);
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
        assert_int_equal(hub_find_model("acme/tiny", &path, &error), BERTH_OK);
        assert_string_equal(path, outcome.path);
        memory_free(path);
    }
    assert_int_equal(unlink(scratch(REPO "/snapshots/" COMMIT "/model.safetensors")), 0);
    assert_int_equal(hub_find_model("acme/tiny", &path, &error), BERTH_NO_INPUT);
    assert_message_has(&error, "incomplete");
    // A model of sentence-transformers whose files are in a folder of their own.
    assert_int_equal(unlink(scratch(REPO "/snapshots/" COMMIT "/config.json")), 0);
    assert_int_equal(dir_make(scratch(REPO "/snapshots/" COMMIT "/0_Transformer"), NULL), BERTH_OK);
    scratch_write(REPO "/snapshots/" COMMIT "/modules.json", "[{\"path\": \"0_Transformer\"}]");
    scratch_write(REPO "/snapshots/" COMMIT "/0_Transformer/config.json", "{}");
    assert_int_equal(hub_find_model("acme/tiny", &path, &error), BERTH_NO_INPUT);
    assert_message_has(&error, "0_Transformer is incomplete");
    scratch_write(REPO "/snapshots/" COMMIT "/0_Transformer/model.safetensors", "");
    assert_int_equal(hub_find_model("acme/tiny", &path, &error), BERTH_OK);
    assert_true(text_ends_with(path, COMMIT "/0_Transformer"));
    memory_free(path);
    server_stop(server);
}

static void test_a_model_that_is_nowhere(void **state) {
    (void)state;
    char *path;
    struct berth_error error;
    assert_int_equal(hub_find_model("acme/tiny", &path, &error), BERTH_NO_INPUT);
    assert_message_has(&error, "berth fetch acme/tiny");
    assert_int_equal(hub_find_model("acme/model.safetensors", &path, &error), BERTH_NO_INPUT);
    assert_string_equal(error.message, "acme/model.safetensors: no such file or folder");
    assert_int_equal(hub_find_model("./acme/tiny", &path, &error),
                     BERTH_OK); // not a name on the hub
    assert_string_equal(path, "./acme/tiny");
    memory_free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        NET_TEST(test_a_model_has_the_layout_of_the_cache),
        NET_TEST(test_what_is_there_is_not_fetched_again),
        NET_TEST(test_what_is_there_is_hashed),
        NET_TEST(test_a_revision_and_a_commit),
        NET_TEST(test_patterns_choose_the_files),
        NET_TEST(test_a_data_set_of_the_hub),
        NET_TEST(test_dot_files_of_a_data_set),
        NET_TEST(test_the_listing_may_have_pages),
        NET_TEST(test_pages_without_files),
        NET_TEST(test_pages_that_lead_in_a_circle),
        NET_TEST(test_a_page_on_another_host_is_refused),
        NET_TEST(test_hostile_paths_are_refused),
        NET_TEST(test_listings_that_make_no_sense),
        NET_TEST(test_a_listing_that_is_encoded),
        NET_TEST(test_invalid_names),
        NET_TEST(test_links_that_leave_the_cache_are_refused),
        NET_TEST(test_a_cache_that_leads_elsewhere_is_not_written),
        NET_TEST(test_a_partial_file_that_is_a_link_is_not_followed),
        NET_TEST(test_which_files_a_model_needs),
        NET_TEST(test_a_folder_comes_before_the_cache),
        NET_TEST(test_a_cache_without_a_listing),
        NET_TEST(test_a_model_that_is_nowhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
