// SPDX-License-Identifier: Apache-2.0
// Manifests: the same settings resume, a changed one is named, damaged files and manifests are
// found. Checkpoints of 0.1.0 have the same form.
#include "core/scratch.h"
#include "format/checksum/digest.h"
#include "format/manifest/manifest.h"

#define REMEDY "start again"

// An entry for the text of a file, with its digest or without.
static json *entry_of(const char *text, int with_digest) {
    char hex[DIGEST_HEX_SIZE];
    assert_int_equal(digest_memory(DIGEST_SHA256, text, strlen(text), hex, NULL), BERTH_OK);
    return JSON_OBJECT({"bytes", json_new_integer((int64_t)strlen(text))},
                       {with_digest ? "sha256" : NULL, json_new_text(hex)});
}

static struct manifest_settings settings_of(const char *name, uint64_t value) {
    struct manifest_settings settings = {.count = 0};
    manifest_set_text(&settings, "language", "en");
    manifest_set_integer(&settings, name, value);
    return settings;
}

// "one" and "two", the second with a digest, made with shards 3.
static const char *write_files(int complete) {
    static char path[512];
    const struct manifest_settings settings = settings_of("shards", 3);
    json *files = JSON_OBJECT({"one", entry_of("first", 0)}, {"two", entry_of("second", 1)},
                              {"none", JSON_OBJECT({"bytes", json_new_null()})});
    snprintf(path, sizeof path, "%s", scratch("made.json"));
    scratch_write("one", "first");
    scratch_write("two", "second");
    assert_int_equal(manifest_write(path, manifest_new(&settings, complete, files), NULL),
                     BERTH_OK);
    return path;
}

static json *read_manifest(const char *path) {
    json *manifest;
    struct berth_error error;
    if (manifest_read(path, REMEDY, &manifest, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    return manifest;
}

static void the_same_settings_resume(void **state) {
    (void)state;
    const char *path = write_files(1);
    const struct manifest_settings same = settings_of("shards", 3);
    json *manifest = read_manifest(path);
    assert_true(manifest_is_complete(manifest));
    assert_int_equal(json_length(manifest_files(manifest)), 3);
    assert_int_equal(manifest_compare(path, manifest, &same, REMEDY, NULL), BERTH_OK);
    json_free(manifest);
    assert_int_equal(manifest_read_complete(path, REMEDY, &manifest, NULL), BERTH_OK);
    json_free(manifest);
}

static void a_changed_setting_is_named(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint64_t value;
        const char *says;
    } cases[] = {{"shards", 4, "made with shards \"3\", but it is \"4\" now; " REMEDY},
                 {"seed", 3, "made with seed \"default\", but it is \"3\" now; " REMEDY}};
    const char *path = write_files(1);
    json *manifest = read_manifest(path);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct manifest_settings other = settings_of(cases[i].name, cases[i].value);
        struct berth_error error;
        assert_int_equal(manifest_compare(path, manifest, &other, REMEDY, &error), BERTH_CONFIG);
        assert_message_has(&error, "made.json: the files were ");
        assert_message_has(&error, cases[i].says);
    }
    struct manifest_settings fewer = settings_of("shards", 3);
    struct berth_error error;
    fewer.count = 1;
    assert_int_equal(manifest_compare(path, manifest, &fewer, REMEDY, &error), BERTH_CONFIG);
    assert_message_has(&error, "made with shards \"3\", but it is \"default\" now");
    json_free(manifest);
}

// Digests are cut in messages.
static void a_changed_input_is_named(void **state) {
    (void)state;
    static const char first[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    static const char second[] = "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    struct manifest_settings then = {.count = 0}, now = {.count = 0};
    struct berth_error error;
    manifest_set_text(&then, "input_sha256", first);
    manifest_set_text(&now, "input_sha256", second);
    json *manifest = manifest_new(&then, 1, json_new_object());
    assert_int_equal(manifest_compare("x", manifest, &now, REMEDY, &error), BERTH_CONFIG);
    assert_string_equal(error.message,
                        "x: the files were made with input_sha256 "
                        "\"0123456789abcdef\", but it is \"1123456789abcdef\" now; " REMEDY);
    json_free(manifest);
}

static void damaged_files_are_found(void **state) {
    (void)state;
    static const struct {
        const char *name, *text; // NULL: the file is removed
        const char *says;
    } cases[] = {{"one", "longer", "one: expected 5 bytes, as in the manifest, found 6"},
                 {"two", "sEcond", "two: expected SHA-256 "},
                 {"two", "secon", "two: expected 6 bytes, as in the manifest, found 5"},
                 {"one", NULL, "one: listed in the manifest, but missing"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = write_files(1);
        struct berth_error error;
        json *manifest;
        if (cases[i].text == NULL) {
            assert_int_equal(file_remove(scratch(cases[i].name), NULL), BERTH_OK);
        } else {
            scratch_write(cases[i].name, cases[i].text);
        }
        assert_int_equal(manifest_read_complete(path, REMEDY, &manifest, &error), BERTH_BAD_DATA);
        assert_null(manifest);
        assert_message_has(&error, cases[i].says);
        assert_message_has(&error, "; " REMEDY);
    }
}

static void what_is_not_complete_is_not_read(void **state) {
    (void)state;
    struct berth_error error;
    json *manifest;
    const char *path = write_files(0);
    assert_int_equal(manifest_read_complete(path, REMEDY, &manifest, &error), BERTH_NO_INPUT);
    assert_message_has(&error, "made.json: not complete; " REMEDY);
    path = scratch("absent.json");
    assert_int_equal(manifest_read_complete(path, REMEDY, &manifest, &error), BERTH_NO_INPUT);
    assert_message_has(&error, "absent.json");
}

#define FILES ", \"files\": {\"a\": {\"bytes\": 1"

static void other_forms_are_refused(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"{\"format_version\": 2" FILES "}}}", "use a newer program"},
        {"{\"format_version\": 0" FILES "}}}", "not a manifest of format_version 1"},
        {"{\"format\": 1" FILES "}}}", "not a manifest of format_version 1"},
        {"{\"format_version\": 1, \"files\": []}", "not a manifest of format_version 1"},
        {"{\"format_version\": 1, \"x\": 1" FILES "}}}", "not a manifest of format_version 1"},
        {"{\"format_version\": 1, \"complete\": 1" FILES "}}}",
         "not a manifest of format_version 1"},
        {"{\"format_version\": 1, \"settings\": 1" FILES "}}}",
         "not a manifest of format_version 1"},
        {"{\"format_version\": 1" FILES ", \"rows\": -1}}}", "file \"a\": expected counts from 0"},
        {"{\"format_version\": 1" FILES ", \"rows\": [[1099511627777]]}}}",
         "file \"a\": expected counts from 0 to 2^40"},
        {"{\"format_version\": 1" FILES ", \"sha256\": \"0\"}}}", "to be 64 hexadecimal digits"},
        {"{\"format_version\": 1, \"files\": {\"a\": {}}}", "\"bytes\" to be an integer or null"},
        {"{\"format_version\": 1, \"files\": {\"a\": 1}}", "file \"a\": expected an object"},
        {"{\"format_version\": 1, \"files\": {\"../a\": {\"bytes\": 1}}}",
         "file \"../a\": expected a name in the manifest's folder"},
        {"{\"format_version\": 1" FILES "}}", "not valid JSON"},
    };
    json *manifest;
    struct berth_error error;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch_write("x.json", cases[i][0]);
        assert_int_equal(manifest_read(scratch("x.json"), REMEDY, &manifest, &error),
                         BERTH_BAD_DATA);
        assert_null(manifest);
        assert_message_has(&error, "x.json: ");
        assert_message_has(&error, cases[i][1]);
        assert_message_has(&error, "; " REMEDY);
    }
    scratch_write("x.json", "{\"format_version\": 1" FILES ", \"rows\": 1099511627776}}}");
    json_free(read_manifest(scratch("x.json")));
}

// One is made, and each clause of its invariant is broken in turn.
static void each_clause_of_the_invariant_is_checked(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"{\"format_version\": 2" FILES "}}}", "\"format_version\" to be 1"},
        {"{\"format_version\": 1, \"files\": []}", "\"files\" to be an object"},
        {"{\"format_version\": 1, \"x\": 1" FILES "}}}", "only the keys"},
        {"{\"format_version\": 1, \"complete\": 1" FILES "}}}", "\"complete\" to be true or false"},
        {"{\"format_version\": 1, \"settings\": 1" FILES "}}}", "\"settings\" to be an object"},
        {"{\"format_version\": 1" FILES ", \"rows\": [-1]}}}", "counts from 0 to 2^40"},
        {"{\"format_version\": 1" FILES ", \"sha256\": \"0\"}}}", "to be 64 hexadecimal digits"},
        {"{\"format_version\": 1, \"files\": {\"a\": {}}}", "\"bytes\" to be an integer or null"},
        {"{\"format_version\": 1, \"files\": {\"a\": 1}}", "an object"},
        {"{\"format_version\": 1, \"files\": {\"a/../b\": {\"bytes\": 1}}}", "a name in"},
        {"{\"format_version\": 1, \"files\": {\"a/.b\": {\"bytes\": 1}}}", "a name in"},
    };
    json *manifest = read_manifest(write_files(1));
    assert_null(manifest_check(manifest));
    json_free(manifest);
    const struct manifest_settings settings = settings_of("shards", 3);
    manifest = manifest_new(&settings, 0, JSON_OBJECT({"one", entry_of("first", 1)}));
    assert_null(manifest_check(manifest));
    json_free(manifest);
    manifest = manifest_new(NULL, 1, json_new_object());
    assert_null(manifest_check(manifest));
    json_free(manifest);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(json_read_memory("x", cases[i][0], strlen(cases[i][0]), &manifest, NULL),
                         BERTH_OK);
        const char *broken = manifest_check(manifest);
        assert_non_null(broken);
        assert_non_null(strstr(broken, cases[i][1]));
        json_free(manifest);
    }
}

// As 0.1.0 wrote it beside a checkpoint.
static void a_manifest_of_the_first_release_is_read(void **state) {
    (void)state;
    scratch_write("a.txt", "some");
    scratch_write("manifest.json",
                  "{\n  \"files\": {\n    \"a.txt\": {\n      \"bytes\": 4,\n      \"sha256\": "
                  "\"a6b46dd0d1ae5e86cbc8f37e75ceeb6760230c1ca4ffbcb0c97b96dd7d9c464b\"\n"
                  "    }\n  },\n  \"format_version\": 1\n}\n");
    json *manifest = read_manifest(scratch("manifest.json"));
    const json *entry = json_member(manifest_files(manifest), "a.txt");
    assert_int_equal(manifest_check_file(scratch_folder, "a.txt", entry, NULL), BERTH_OK);
    json_free(manifest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(the_same_settings_resume),
        SCRATCH_TEST(a_changed_setting_is_named),
        cmocka_unit_test(a_changed_input_is_named),
        SCRATCH_TEST(damaged_files_are_found),
        SCRATCH_TEST(what_is_not_complete_is_not_read),
        SCRATCH_TEST(other_forms_are_refused),
        SCRATCH_TEST(each_clause_of_the_invariant_is_checked),
        SCRATCH_TEST(a_manifest_of_the_first_release_is_read),
    };
    return cmocka_run_group_tests_name("manifest", tests, NULL, NULL);
}
