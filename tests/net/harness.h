// SPDX-License-Identifier: Apache-2.0
// A small hub and a single file on the tests' server, and the environment of a fetch from them.
#ifndef BERTH_TESTS_NET_HARNESS_H
#define BERTH_TESTS_NET_HARNESS_H

#include "core/file.h"
#include "core/scratch.h"
#include "fetch/fetch.h"
#include "format/checksum/digest.h"
#include "format/hub/model_files.h"
#include "server.h"

#include <inttypes.h>
#include <sys/stat.h>

#define COMMIT "00112233445566778899aabbccddeeff00112233"
#define WEIGHTS_LENGTH 5000
#define REPO "home/hub/models--acme--tiny"

static char weights[WEIGHTS_LENGTH + 1], weights_sha256[DIGEST_HEX_SIZE];
static char listing_text[8192];
static const char config_text[] = "{\"model_type\": \"bert\"}\n";
static const char vocab_text[] = "[PAD]\n[UNK]\n";
static const char sha_text[] = "{\"sha\": \"" COMMIT "\"}";

enum hub_route {
    HUB_REVISION,
    HUB_TREE,
    HUB_CONFIG,
    HUB_VOCAB,
    HUB_WEIGHTS,
    HUB_README,
    HUB_ROUTES
};

static inline const char *git_digest(const char *text) {
    static char digests[8][DIGEST_HEX_SIZE];
    static unsigned next;
    char *digest = digests[next++ % 8];
    assert_int_equal(digest_memory(DIGEST_GIT_BLOB, text, strlen(text), digest, NULL), BERTH_OK);
    return digest;
}

static inline void write_listing(void) {
    snprintf(
        listing_text, sizeof listing_text,
        "[{\"type\": \"directory\", \"path\": \"onnx\", \"oid\": \"%s\", \"size\": 0},"
        " {\"type\": \"file\", \"path\": \"config.json\", \"oid\": \"%s\", \"size\": %zu},"
        " {\"type\": \"file\", \"path\": \"onnx/README.md\", \"oid\": \"%s\", \"size\": 3},"
        " {\"type\": \"file\", \"path\": \"vocab.txt\", \"oid\": \"%s\", \"size\": %zu},"
        " {\"type\": \"file\", \"path\": \"model.safetensors\", \"oid\": \"%s\", \"size\": 134,"
        "  \"lfs\": {\"oid\": \"%s\", \"size\": %d, \"pointerSize\": 134}}]",
        COMMIT, git_digest(config_text), strlen(config_text), git_digest("abc"),
        git_digest(vocab_text), strlen(vocab_text), COMMIT, weights_sha256, WEIGHTS_LENGTH);
}

// The routes of acme/tiny; tests may corrupt them before server_start.
static inline void make_hub(struct server_route routes[HUB_ROUTES]) {
    for (int i = 0; i < WEIGHTS_LENGTH; i++) {
        weights[i] = (char)(i * 7 + i / 256);
    }
    assert_int_equal(digest_memory(DIGEST_SHA256, weights, WEIGHTS_LENGTH, weights_sha256, NULL),
                     BERTH_OK);
    write_listing();
    const char *json = "application/json";
    routes[HUB_REVISION] = (struct server_route){.path = "/api/models/acme/tiny/revision/main",
                                                 .type = json,
                                                 .body = sha_text,
                                                 .length = strlen(sha_text)};
    routes[HUB_TREE] =
        (struct server_route){.path = "/api/models/acme/tiny/tree/" COMMIT "?recursive=true",
                              .type = json,
                              .body = listing_text,
                              .length = strlen(listing_text)};
    routes[HUB_CONFIG] = (struct server_route){.path = "/acme/tiny/resolve/" COMMIT "/config.json",
                                               .body = config_text,
                                               .length = strlen(config_text)};
    routes[HUB_VOCAB] = (struct server_route){.path = "/acme/tiny/resolve/" COMMIT "/vocab.txt",
                                              .body = vocab_text,
                                              .length = strlen(vocab_text)};
    routes[HUB_WEIGHTS] =
        (struct server_route){.path = "/acme/tiny/resolve/" COMMIT "/model.safetensors",
                              .body = weights,
                              .length = WEIGHTS_LENGTH};
    routes[HUB_README] = (struct server_route){
        .path = "/acme/tiny/resolve/" COMMIT "/onnx/README.md", .body = "abc", .length = 3};
}

// A temporary folder for everything, and none of the caller's environment.
static inline int net_setup(void **state) {
    static const char *const unwanted[] = {"HF_HUB_CACHE",
                                           "HUGGINGFACE_HUB_CACHE",
                                           "HF_ASSETS_CACHE",
                                           "XDG_CACHE_HOME",
                                           "HF_TOKEN",
                                           "HF_TOKEN_PATH",
                                           "HF_HUB_OFFLINE",
                                           "HF_ENDPOINT",
                                           "http_proxy",
                                           "https_proxy",
                                           "HTTPS_PROXY",
                                           "all_proxy",
                                           "ALL_PROXY",
                                           "HF_HUB_ETAG_TIMEOUT",
                                           "TRANSFORMERS_OFFLINE",
                                           "HF_DATASETS_OFFLINE",
                                           "HF_HUB_DOWNLOAD_TIMEOUT"};
    for (size_t i = 0; i < sizeof unwanted / sizeof *unwanted; i++) {
        unsetenv(unwanted[i]);
    }
    if (scratch_setup(state) != 0) {
        return -1;
    }
    setenv("HF_HOME", scratch("home"), 1);
    return setenv("HOME", scratch("nobody"), 1);
}

#define NET_TEST(test) cmocka_unit_test_setup_teardown(test, net_setup, scratch_teardown)

static inline struct server *start_hub(const struct server_route routes[HUB_ROUTES]) {
    struct server *server = server_start(routes, HUB_ROUTES);
    setenv("HF_ENDPOINT", server_url(server, ""), 1);
    return server;
}

// The hub with correct routes.
static inline struct server *start_good_hub(void) {
    struct server_route routes[HUB_ROUTES];
    make_hub(routes);
    return start_hub(routes);
}

struct outcome {
    enum berth_status status;
    struct berth_error error;
    char path[1024];
};

static inline struct outcome fetch_with(const char *name, const struct fetch_settings *settings) {
    const struct berth_log silent = {.write = NULL};
    struct outcome outcome = {.path = ""};
    char *path;
    outcome.status = fetch_files(name, settings, silent, NULL, &path, &outcome.error);
    snprintf(outcome.path, sizeof outcome.path, "%s", path != NULL ? path : "");
    memory_free(path);
    return outcome;
}

static inline struct outcome fetch(const char *name, int64_t retries) {
    const struct fetch_settings settings = {.retries = retries};
    return fetch_with(name, &settings);
}

static inline void assert_fetched(struct outcome outcome) {
    if (outcome.status != BERTH_OK) {
        fail_msg("%s", outcome.error.message);
    }
}

static inline void assert_refused(struct outcome outcome, enum berth_status wanted,
                                  const char *part) {
    if (outcome.status == BERTH_OK) {
        fail_msg("accepted; expected an error about \"%s\"", part);
    }
    assert_message_has(&outcome.error, part);
    assert_int_equal(outcome.status, wanted);
}

static inline void assert_bytes(const char *path, const void *wanted, size_t wanted_length) {
    char *bytes;
    size_t length;
    assert_int_equal(file_read(path, 1 << 20, &bytes, &length, NULL), BERTH_OK);
    assert_int_equal(length, wanted_length);
    assert_memory_equal(bytes, wanted, length);
    memory_free(bytes);
}

// The only file in a folder with that ending, as a path of scratch(); NULL: none.
static inline const char *find_ending(const char *folder, const char *ending) {
    static char found[512];
    char **names;
    const char *result = NULL;
    if (!dir_exists(scratch(folder))) {
        return NULL;
    }
    assert_int_equal(dir_list(scratch(folder), &names, NULL), BERTH_OK);
    for (size_t i = 0; names[i] != NULL; i++) {
        size_t length = strlen(names[i]), tail = strlen(ending);
        if (length >= tail && strcmp(names[i] + length - tail, ending) == 0) {
            assert_null(result);
            snprintf(found, sizeof found, "%s/%s", scratch(folder), names[i]);
            result = found;
        }
    }
    memory_free(names);
    return result;
}

static inline size_t size_of(const char *path) {
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return (size_t)info.st_size;
}

// Records in the cache that the blob, as it is now, was verified.
static inline void record_verified(const char *repo, const char *blob) {
    struct file_stamp stamp;
    char path[200], text[128];
    snprintf(path, sizeof path, "%s/blobs/%s", repo, blob);
    assert_int_equal(file_stamp_of(scratch(path), &stamp, NULL), BERTH_OK);
    snprintf(text, sizeof text, "%" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64, stamp.size,
             stamp.number, stamp.modified_ns, stamp.changed_ns);
    snprintf(path, sizeof path, "%s/verified", repo);
    assert_int_equal(dir_make(scratch(path), NULL), BERTH_OK);
    snprintf(path, sizeof path, "%s/verified/%s", repo, blob);
    scratch_write(path, text);
}

// Asserts that the cache has no acme/tiny, and blobs/ no file of that name.
static inline void assert_unpublished(const char *digest) {
    char *path, blob[512];
    assert_false(file_exists(scratch(REPO "/refs/main")));
    assert_int_equal(hub_find_model("acme/tiny", &path, NULL), BERTH_NO_INPUT);
    snprintf(blob, sizeof blob, "%s/%s", scratch(REPO "/blobs"), digest);
    assert_false(file_exists(blob));
}

static inline void assert_nothing_published(void) {
    assert_unpublished(weights_sha256);
}

// Asserts that the cache has all of acme/tiny.
static inline void assert_published(const struct outcome *outcome) {
    char *path;
    struct berth_error error;
    assert_fetched(*outcome);
    assert_string_equal(outcome->path, scratch(REPO "/snapshots/" COMMIT));
    assert_file_holds(scratch(REPO "/refs/main"), COMMIT);
    assert_file_holds(scratch(REPO "/snapshots/" COMMIT "/config.json"), config_text);
    assert_file_holds(scratch(REPO "/snapshots/" COMMIT "/vocab.txt"), vocab_text);
    assert_bytes(scratch(REPO "/snapshots/" COMMIT "/model.safetensors"), weights, WEIGHTS_LENGTH);
    assert_null(find_ending(REPO "/blobs", ".incomplete"));
    if (hub_find_model("acme/tiny", &path, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    assert_string_equal(path, outcome->path);
    memory_free(path);
}

// Asserts that a fetch from the correct hub puts all of acme/tiny into the cache.
static inline void assert_next_fetch_succeeds(void) {
    struct server *server = start_good_hub();
    struct outcome outcome = fetch("acme/tiny", 0);
    assert_published(&outcome);
    server_stop(server);
}

// --- a URL ------------------------------------------------------------------------------------

#define TEXT "forty bytes of text, more or less, here\n"
#define TEXT_LENGTH ((int64_t)sizeof TEXT - 1)

// A file with an etag, outside of the hub.
static inline struct server_route file_route(void) {
    return (struct server_route){
        .path = "/file", .body = TEXT, .length = sizeof TEXT - 1, .etag = "\"one\""};
}

// The path of the partial file of a URL on this host.
static inline const char *url_partial(void) {
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

static inline void assert_text(const struct outcome *outcome, const char *text) {
    assert_fetched(*outcome);
    assert_file_holds(outcome->path, text);
    assert_null(url_partial());
}

#endif
