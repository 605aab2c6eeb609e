// SPDX-License-Identifier: Apache-2.0
// The manifest of a folder of shards: which file it is, what it says, and what is no manifest.
#include "core/memory.h"
#include "core/scratch.h"
#include "data/pretraining/shard_origin.h"

#define MANIFEST(complete, files, settings)                                                        \
    "{\"format_version\": 1, \"complete\": " complete ", \"files\": {" files "}, "                 \
    "\"settings\": {" settings "}}"
#define DIGEST "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void keep_text(void *context, const struct berth_record *record) {
    assert_int_equal(record->kind, BERTH_WARNING);
    snprintf(context, 512, "%s", record->text);
}

// Reads the manifest of `folder` in the scratch folder and returns its warning, or "".
static const char *read_origin(const char *folder, struct shard_origin *origin) {
    static char text[512];
    const struct berth_log log = {.write = keep_text, .context = text};
    text[0] = '\0';
    assert_int_equal(shard_origin_read(scratch(folder), origin, NULL), BERTH_OK);
    shard_origin_warn(origin, &log);
    return text;
}

static void a_manifest_says_what_was_made(void **state) {
    static const struct {
        const char *manifest, *warning, *vocabulary;
        int64_t made, wanted;
    } rows[] = {
        {MANIFEST("true", "\"a\": {\"bytes\": 1}", "\"shards\": \"2\""), NULL, "", 1, 2},
        {MANIFEST("false", "\"a\": {\"bytes\": 1}, \"b\": {\"bytes\": 1}",
                  "\"shards\": \"3\", \"vocabulary\": \"" DIGEST "\""),
         "only 2 of 3 shards were made", DIGEST, 2, 3},
        {MANIFEST("false", "", "\"shards\": \"many\""), "not all files were made", "", 0, 0},
        {MANIFEST("false", "", ""), "not all files were made", "", 0, 0},
        {MANIFEST("true", "", "\"vocabulary\": \"vocab.txt\""), NULL, "", 0, 0},
        // Files of others, and of 0.1.0.
        {"{\"files\": {\"a\": {\"bytes\": 1}}}", NULL, "", 0, 0},
        {"{\"format\": 1, \"complete\": false, \"settings\": {}, \"files\": {}}", NULL, "", 0, 0},
        {MANIFEST("\"no\"", "", ""), NULL, "", 0, 0},
        {"[]", NULL, "", 0, 0},
        {"instances", NULL, "", 0, 0},
    };
    assert_int_equal(dir_make(scratch("shards"), NULL), BERTH_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct shard_origin origin;
        scratch_write("shards/" INSTANCE_MANIFEST, rows[i].manifest);
        const char *warning = read_origin("shards", &origin);
        if (rows[i].warning != NULL) {
            assert_non_null(strstr(warning, rows[i].warning));
            assert_non_null(strstr(warning, scratch("shards/" INSTANCE_MANIFEST)));
        } else {
            assert_string_equal(warning, "");
        }
        assert_string_equal(origin.vocabulary, rows[i].vocabulary);
        assert_int_equal(origin.made, rows[i].made);
        assert_int_equal(origin.wanted, rows[i].wanted);
        shard_origin_done(&origin);
    }
}

// Packing writes it beside the folder. However the folder is written, it is found.
static void the_manifest_is_in_the_folder_or_beside_it(void **state) {
    static const char *const folders[] = {"shards", "shards/", "shards//"};
    assert_int_equal(dir_make(scratch("shards"), NULL), BERTH_OK);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        struct shard_origin origin;
        assert_string_equal(read_origin(folders[i], &origin), "");
        assert_null(origin.manifest);
        scratch_write("shards" PACK_MANIFEST, MANIFEST("false", "", ""));
        assert_non_null(
            strstr(read_origin(folders[i], &origin), "shards" PACK_MANIFEST ": not all"));
        shard_origin_done(&origin);
        scratch_write("shards/" INSTANCE_MANIFEST, MANIFEST("true", "", ""));
        assert_string_equal(read_origin(folders[i], &origin), "");
        assert_true(path_is_same(origin.manifest, scratch("shards/" INSTANCE_MANIFEST)));
        shard_origin_done(&origin);
        assert_int_equal(file_remove(scratch("shards/" INSTANCE_MANIFEST), NULL), BERTH_OK);
        assert_int_equal(file_remove(scratch("shards" PACK_MANIFEST), NULL), BERTH_OK);
    }
}

// A manifest that cannot be read says nothing about the shards, so it is not taken for none.
static void every_allocation_may_fail(void **state) {
    struct shard_origin origin;
    struct berth_error error;
    assert_int_equal(dir_make(scratch("shards"), NULL), BERTH_OK);
    scratch_write("shards" PACK_MANIFEST, MANIFEST("false", "", ""));
    memory_fail_at(0, 0);
    read_origin("shards", &origin);
    shard_origin_done(&origin);
    const uint64_t calls = memory_fail_at(0, 0);
    assert_true(calls > 2);
    for (uint64_t call = 1; call <= calls; call++) {
        memory_fail_at(call, 0);
        const enum berth_status status = shard_origin_read(scratch("shards"), &origin, &error);
        memory_fail_at(0, 0);
        assert_int_equal(status, BERTH_NO_MEMORY);
        shard_origin_done(&origin);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(a_manifest_says_what_was_made),
        SCRATCH_TEST(the_manifest_is_in_the_folder_or_beside_it),
        SCRATCH_TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
