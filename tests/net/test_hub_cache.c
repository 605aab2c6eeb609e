// SPDX-License-Identifier: Apache-2.0
// The hub's cache: its folders by the environment, ids and paths that are safe, refs that name no
// commit, links that leave it, and blobs that are hashed before they are used.
#include "core/file.h"
#include "core/scratch.h"
#include "format/hub/hub_blob.h"
#include "format/hub/hub_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

#define COMMIT "00112233445566778899aabbccddeeff00112233"

static const char *const variables[] = {"HF_HUB_CACHE",   "HUGGINGFACE_HUB_CACHE", "HF_HOME",
                                        "XDG_CACHE_HOME", "HF_ASSETS_CACHE",       "HF_TOKEN_PATH"};

static void assert_path(struct path path, const char *wanted) {
    assert_string_equal(path.text, wanted);
}

static void assert_root(const char *wanted) {
    char *root = hub_cache_root();
    assert_string_equal(root, wanted);
    memory_free(root);
}

static void test_folders_by_the_environment(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        unsetenv(variables[i]);
    }
    setenv("HOME", "/h", 1);
    assert_root("/h/.cache/huggingface/hub");
    setenv("XDG_CACHE_HOME", "/x", 1);
    assert_root("/x/huggingface/hub");
    setenv("HF_HOME", "~/hf", 1);
    assert_root("/h/hf/hub");
    assert_path(hub_token_path(), "/h/hf/token");
    assert_path(hub_assets_root(), "/h/hf/assets/berth");
    setenv("HUGGINGFACE_HUB_CACHE", "/old", 1);
    assert_root("/old");
    setenv("HF_HUB_CACHE", "/new", 1);
    assert_root("/new");
    setenv("HF_HUB_CACHE", "", 1); // as if not set
    assert_root("/old");
    setenv("HF_TOKEN_PATH", "/t", 1);
    setenv("HF_ASSETS_CACHE", "/a", 1);
    assert_path(hub_token_path(), "/t");
    assert_path(hub_assets_root(), "/a/berth");
    assert_path(hub_repo_folder("/c", "model", "org/name"), "/c/models--org--name");
    assert_path(hub_repo_folder("/c", "dataset", "name"), "/c/datasets--name");
}

static void test_ids(void **state) {
    (void)state;
    static const char *const good[] = {"a", "org/name", "sentence-transformers/all-MiniLM-L6-v2",
                                       "a_b/c.d-e_f", "google-bert/bert-base-uncased"};
    static const char *const bad[] = {
        "",   "/",    "a/",  "/a",   "a/b/c", "..",  "../a",  "a..b",       "a--b", "-a",
        "a.", ".a/b", "a b", "a\\b", "a/b\n", "~/a", "a:b/c", "\xc3\xa9/a", "./a"};
    char longest[98];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(hub_is_id(good[i]));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(hub_is_id(bad[i]));
    }
    memset(longest, 'a', sizeof longest);
    longest[96] = '\0';
    assert_true(hub_is_id(longest));
    longest[96] = 'a';
    longest[97] = '\0';
    assert_false(hub_is_id(longest));
}

static void test_paths(void **state) {
    (void)state;
    static const char *const good[] = {"a", "a/b", ".hidden", "..a", "a..", "...", "a b/c\xc3\xa9"};
    static const char *const bad[] = {"",     ".",    "..",    "/a",   "a/",      "a//b", "a/../b",
                                      "../a", "a/..", "./a",   "a/.",  "a\\b",    "a\nb", "a\x7f",
                                      "//",   "/",    "a/./b", "/../", "\\\\a\\b"};
    char part[300];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(hub_is_safe_path(good[i]));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(hub_is_safe_path(bad[i]));
    }
    memset(part, 'a', sizeof part);
    part[255] = '\0';
    assert_true(hub_is_safe_path(part));
    part[255] = 'a';
    part[256] = '\0';
    assert_false(hub_is_safe_path(part));
}

static void test_commits(void **state) {
    (void)state;
    assert_true(hub_is_commit(COMMIT));
    assert_false(hub_is_commit("00112233445566778899AABBCCDDEEFF00112233"));
    assert_false(hub_is_commit("00112233445566778899aabbccddeeff0011223"));
    assert_false(hub_is_commit(COMMIT "0"));
    assert_false(hub_is_commit(""));
}

static void make_snapshot(const char *ref, size_t length) {
    assert_int_equal(dir_make(scratch("models--a--b/refs"), NULL), BERTH_OK);
    assert_int_equal(dir_make(scratch("models--a--b/snapshots/" COMMIT), NULL), BERTH_OK);
    scratch_write_bytes("models--a--b/refs/main", ref, length);
}

static enum berth_status find(const char *revision, struct berth_error *error) {
    struct hub_snapshot snapshot;
    enum berth_status status =
        hub_snapshot_find(scratch_folder, "model", "a/b", revision, &snapshot, error);
    if (status == BERTH_OK && snapshot.folder == NULL) {
        status = BERTH_FAILURE; // missing
    }
    hub_snapshot_done(&snapshot);
    return status;
}

static void test_refs(void **state) {
    (void)state;
    struct berth_error error;
    assert_int_equal(find("main", &error), BERTH_FAILURE);
    make_snapshot(COMMIT, 40);
    assert_int_equal(find("main", &error), BERTH_OK);
    assert_int_equal(find(COMMIT, &error), BERTH_OK);
    assert_int_equal(find("other", &error), BERTH_NO_INPUT);
    assert_message_has(&error, "/models--a--b/refs/other: no such file");
    assert_message_has(&error, "write the snapshot's name (" COMMIT ") into that file");
    assert_int_equal(find("ffffffffffffffffffffffffffffffffffffffff", &error), BERTH_FAILURE);
    assert_int_equal(find("../refs/main", &error), BERTH_USAGE);
    static const char *const bad[] = {"", "../../../etc", ("\n" COMMIT), ("x" COMMIT),
                                      "0011223344556677 8899aabbccddeeff0011223"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        make_snapshot(bad[i], strlen(bad[i]));
        assert_int_equal(find("main", &error), BERTH_BAD_DATA);
        assert_message_has(&error, "refs/main");
    }
    make_snapshot(COMMIT " \r\n", 43); // from an editor
    assert_int_equal(find("main", &error), BERTH_OK);
    make_snapshot(COMMIT "\0x", 42);
    assert_int_equal(find("main", &error), BERTH_BAD_DATA);
}

static void test_links(void **state) {
    (void)state;
    struct berth_error error;
    make_snapshot(COMMIT, 40);
    assert_int_equal(dir_make(scratch("models--a--b/blobs"), NULL), BERTH_OK);
    assert_int_equal(dir_make(scratch("blobs"), NULL), BERTH_OK);
    scratch_write("models--a--b/blobs/one", "1");
    scratch_write("blobs/shared", "2");
    scratch_write("outside", "3");
    const char *link = scratch("models--a--b/snapshots/" COMMIT "/file");
    static const struct {
        const char *target;
        enum berth_status status;
    } cases[] = {{"../../blobs/one", BERTH_OK},
                 {"../../../blobs/shared", BERTH_OK}, // shared by several repositories
                 {"../../../outside", BERTH_BAD_DATA},
                 {"/etc/passwd", BERTH_BAD_DATA},
                 {"../../..", BERTH_BAD_DATA},
                 {"../../blobs/gone", BERTH_NO_INPUT},
                 {"file", BERTH_NO_INPUT}}; // to itself
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unlink(link);
        assert_int_equal(symlink(cases[i].target, link), 0);
        assert_int_equal(find("main", &error), cases[i].status);
    }
    // A folder whose name has the repository's as a prefix.
    assert_int_equal(dir_make(scratch("models--a--bc"), NULL), BERTH_OK);
    scratch_write("models--a--bc/file", "4");
    unlink(link);
    assert_int_equal(symlink("../../../models--a--bc/file", link), 0);
    assert_int_equal(find("main", &error), BERTH_BAD_DATA);
}

// Blobs are hashed once: a changed byte is detected, even if the file's time is reset, and records
// written by others are not trusted.
static void test_blobs_are_hashed(void **state) {
    (void)state;
    static const char sha256[] = "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b",
                      git[] = "56a6051ca2b02b04ef92d5150c9ef600403cb1de"; // both of "1"
    static const char *const names[] = {sha256, git};
    struct berth_error error;
    struct file_stamp stamp;
    make_snapshot(COMMIT, 40);
    assert_int_equal(dir_make(scratch("models--a--b/blobs"), NULL), BERTH_OK);
    assert_int_equal(dir_make(scratch("models--a--b/snapshots/" COMMIT "/sub"), NULL), BERTH_OK);
    char links[2][512];
    snprintf(links[0], sizeof links[0], "%s", scratch("models--a--b/snapshots/" COMMIT "/file"));
    snprintf(links[1], sizeof links[1], "%s",
             scratch("models--a--b/snapshots/" COMMIT "/sub/file"));
    for (size_t i = 0; i < 4; i++) {
        const char *name = names[i % 2], *link = links[i / 2];
        char blob[128], note[128], target[128];
        snprintf(blob, sizeof blob, "models--a--b/blobs/%s", name);
        snprintf(note, sizeof note, "models--a--b/verified/%s", name);
        snprintf(target, sizeof target, "%s../../blobs/%s", i / 2 == 1 ? "../" : "", name);
        unlink(links[0]);
        unlink(links[1]);
        assert_int_equal(symlink(target, link), 0);
        scratch_write(blob, "1");
        assert_int_equal(find("main", &error), BERTH_OK);
        assert_int_equal(file_stamp_of(scratch(note), &stamp, NULL), BERTH_OK);
        uint64_t first = stamp.number;
        assert_int_equal(find("main", &error), BERTH_OK);
        assert_int_equal(file_stamp_of(scratch(note), &stamp, NULL), BERTH_OK);
        assert_int_equal(stamp.number, first); // not written again: not hashed again
        struct stat info;
        assert_int_equal(stat(scratch(blob), &info), 0);
        scratch_write(blob, "2");
        const struct timespec times[] = {info.st_atim, info.st_mtim};
        assert_int_equal(utimensat(AT_FDCWD, scratch(blob), times, 0), 0);
        assert_int_equal(find("main", &error), BERTH_BAD_DATA);
        assert_message_has(&error, "the cached file is damaged");
        // A record that others may write is ignored, even if it is right.
        char text[128];
        assert_int_equal(file_stamp_of(scratch(blob), &stamp, NULL), BERTH_OK);
        snprintf(text, sizeof text, "%" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64, stamp.size,
                 stamp.number, stamp.modified_ns, stamp.changed_ns);
        scratch_write(note, text);
        assert_int_equal(find("main", &error), BERTH_OK);
        assert_int_equal(chmod(scratch(note), 0666), 0);
        assert_int_equal(find("main", &error), BERTH_BAD_DATA);
    }
}

// Every allocation and every call for a file fails once: the cache is found, or the reason is told.
static void test_failures(void **state) {
    (void)state;
    static const char blob[] = "models--a--b/blobs/56a6051ca2b02b04ef92d5150c9ef600403cb1de";
    struct berth_error error;
    make_snapshot(COMMIT, 40);
    assert_int_equal(dir_make(scratch("models--a--b/blobs"), NULL), BERTH_OK);
    assert_int_equal(dir_make(scratch("models--a--b/snapshots/" COMMIT "/sub"), NULL), BERTH_OK);
    scratch_write(blob, "1");
    assert_int_equal(symlink("../../../blobs/56a6051ca2b02b04ef92d5150c9ef600403cb1de",
                             scratch("models--a--b/snapshots/" COMMIT "/sub/file")),
                     0);
    assert_int_equal(hub_blob_check(scratch("models--a--b"), scratch("none"), &error),
                     BERTH_NO_INPUT);
    for (int is_memory = 0; is_memory < 2; is_memory++) {
        uint64_t made, call = 0, refused = 0;
        do {
            call++;
            assert_int_equal(dir_remove(scratch("models--a--b/verified"), NULL), BERTH_OK);
            (void)(is_memory ? memory_fail_at(call, 0) : file_fail_at(call, EIO));
            const enum berth_status status = find("main", &error);
            made = is_memory ? memory_fail_at(0, 0) : file_fail_at(0, 0);
            refused += status != BERTH_OK;
            if (status != BERTH_OK) {
                assert_message_has(&error, is_memory ? "memory" : strerror(EIO));
            }
        } while (made >= call);
        assert_true(refused > 2);
    }
}

static void test_truth(void **state) {
    (void)state;
    assert_true(hub_is_truthy("1") && hub_is_truthy("ON") && hub_is_truthy("yes") &&
                hub_is_truthy("True"));
    assert_false(hub_is_truthy(NULL) || hub_is_truthy("") || hub_is_truthy("0") ||
                 hub_is_truthy("no") || hub_is_truthy("2") || hub_is_truthy("11"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folders_by_the_environment),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_commits),
        SCRATCH_TEST(test_refs),
        SCRATCH_TEST(test_links),
        SCRATCH_TEST(test_blobs_are_hashed),
        SCRATCH_TEST(test_failures),
        cmocka_unit_test(test_truth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
