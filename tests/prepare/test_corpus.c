// SPDX-License-Identifier: Apache-2.0
// Corpora in each form: the articles and their order, truncated and damaged files, and running out
// of memory.
#include "core/buffer.h"
#include "core/scratch.h"
#include "data/corpus/corpus.h"

// All articles, each followed by "--\n".
static enum berth_status read_all(enum corpus_form form, const char *const *paths, size_t count,
                                  struct buffer *all, struct berth_error *error) {
    struct corpus *corpus;
    const char *lines;
    size_t length = 1;
    buffer_clear(all);
    enum berth_status status = corpus_open(form, paths, count, &corpus, error);
    while (status == BERTH_OK && length > 0) {
        status = corpus_next(corpus, &lines, &length, error);
        if (status == BERTH_OK && length > 0) {
            buffer_put(all, lines, length);
            buffer_put_text(all, "--\n");
        }
    }
    corpus_close(corpus);
    return status;
}

static void assert_articles(enum corpus_form form, const char *path, const char *wanted) {
    struct buffer all = {0};
    const char *const paths[] = {path};
    struct berth_error error;
    if (read_all(form, paths, 1, &all, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    buffer_put_byte(&all, '\0');
    assert_string_equal(all.bytes, wanted);
    buffer_done(&all);
}

static const char extracted[] =
    "<doc id=\"1\" url=\"u\" title=\"T\">\nT\n\nOne. \nTwo.\n\n\n</doc>\n\n"
    "<doc id=\"2\" url=\"u\" title=\"E\">\nE\n\n</doc>\n"
    "<doc id=\"3\" url=\"u\" title=\"F\">\n\nF\nThree.\r\n</doc>\n";

static void make_folders(void) {
    assert_int_equal(dir_make(scratch("wiki/AA"), NULL), BERTH_OK);
    assert_int_equal(dir_make(scratch("wiki/AB"), NULL), BERTH_OK);
    scratch_write("wiki/AB/wiki_00", "<doc id=\"4\">\nG\n\nFour.\n</doc>\n");
    scratch_write("wiki/AA/wiki_01", "");
    scratch_write("wiki/AA/wiki_00", extracted);
    scratch_write("wiki/AA/wiki_00.7.1.tmp", "half");
    scratch_write("wiki/text.json", "{}");
}

static void test_extracted(void **state) {
    (void)state;
    make_folders();
    assert_articles(CORPUS_EXTRACTED, scratch("wiki"), "One.\nTwo.\n--\nThree.\n--\nFour.\n--\n");
}

static void test_text(void **state) {
    (void)state;
    scratch_write("a.txt", "\n\nOne.\nTwo.\n \nThree.\n\n\nGr\xC3\xBC\xC3\x9F"
                           "e");
    scratch_write("b.txt", "Last.\n");
    assert_articles(CORPUS_TEXT, scratch("a.txt"),
                    "One.\nTwo.\n--\nThree.\n--\nGr\xC3\xBC\xC3\x9F"
                    "e\n--\n");
    const char *const both[] = {scratch("b.txt"), scratch("a.txt")};
    struct buffer all = {0};
    assert_int_equal(read_all(CORPUS_TEXT, both, 2, &all, NULL), BERTH_OK);
    assert_memory_equal(all.bytes, "Last.\n--\nOne.", 13); // in the order given
    buffer_done(&all);
}

// All files of a folder are read, however deep they are, but not those of a loop of links.
static void test_deep_folders(void **state) {
    (void)state;
    assert_int_equal(dir_make(scratch("top/en/2024/01/02"), NULL), BERTH_OK);
    scratch_write("top/en/2024/01/02/a.txt", "Deep.\n");
    scratch_write("top/b.txt", "Flat.\n");
    assert_articles(CORPUS_TEXT, scratch("top"), "Flat.\n--\nDeep.\n--\n");
    assert_int_equal(symlink("..", scratch("top/en/up")), 0);
    struct corpus *corpus;
    struct berth_error error;
    const char *const paths[] = {scratch("top")};
    assert_int_equal(corpus_open(CORPUS_TEXT, paths, 1, &corpus, &error), BERTH_BAD_DATA);
    assert_message_has(&error, "is there a link to a folder above it?");
}

// Lines and white space as in Python, a byte order mark, and an end of a line anywhere in a window.
static void test_lines(void **state) {
    (void)state;
    scratch_write("odd.txt",
                  "\xEF\xBB\xBFOne.\rTwo.\r\n\xC2\xA0\xE3\x80\x80\x1F\nThree.\xE2\x80\xA8\n"
                  "\xE2\x80\x8B\r\rFour.\r");
    assert_articles(CORPUS_TEXT, scratch("odd.txt"),
                    "One.\nTwo.\n--\nThree.\n\xE2\x80\x8B\n--\nFour.\n--\n");
    scratch_write("mark.txt", "\xEF\xBB\xBF");
    assert_articles(CORPUS_TEXT, scratch("mark.txt"), "");
    assert_int_equal(dir_make(scratch("marked/AA"), NULL), BERTH_OK);
    scratch_write("marked/AA/wiki_00", "\xEF\xBB\xBF<doc id=\"1\">\nT\n\nOne.\n</doc>\n");
    assert_articles(CORPUS_EXTRACTED, scratch("marked"), "One.\n--\n");
}

static void test_line_end_at_window(void **state) {
    (void)state;
    enum { WINDOW = 256 << 10, LENGTH = WINDOW + 2 };
    char *text = memory_new(LENGTH);
    const char *const ends[] = {"\r\n", "\n", "\r"};
    for (size_t i = 0; i < 3; i++) {
        for (size_t before = WINDOW - 3; before < WINDOW; before++) {
            const size_t end = strlen(ends[i]);
            memset(text, 'a', LENGTH);
            memcpy(text + before, ends[i], end);
            scratch_write_bytes("long.txt", text, LENGTH);
            const char *const paths[] = {scratch("long.txt")};
            struct buffer all = {0};
            assert_int_equal(read_all(CORPUS_TEXT, paths, 1, &all, NULL), BERTH_OK);
            assert_int_equal(all.length, LENGTH - end + 2 + strlen("--\n"));
            assert_int_equal(all.bytes[before], '\n');
            buffer_done(&all);
        }
    }
    memory_free(text);
}

static void test_books(void **state) {
    (void)state;
    assert_int_equal(dir_make(scratch("books"), NULL), BERTH_OK);
    scratch_write("books/b.txt", "B1\n\nB2\n");
    scratch_write("books/a.txt", "\nA1\n\n\nA2");
    scratch_write("books/.hidden", "x");
    assert_articles(CORPUS_BOOKS, scratch("books"), "A1\nA2\n--\nB1\nB2\n--\n");
}

static void assert_fails(enum corpus_form form, const char *path, enum berth_status status,
                         const char *why) {
    struct buffer all = {0};
    struct berth_error error;
    const char *const paths[] = {path};
    assert_int_equal(read_all(form, paths, 1, &all, &error), status);
    assert_message_has(&error, why);
    buffer_done(&all);
}

static void test_bad_files(void **state) {
    (void)state;
    assert_int_equal(dir_make(scratch("empty"), NULL), BERTH_OK);
    assert_fails(CORPUS_EXTRACTED, scratch("empty"), BERTH_NO_INPUT, "AA/wiki_00");
    assert_fails(CORPUS_TEXT, scratch("absent"), BERTH_NO_INPUT, "absent");
    scratch_write("bad.txt", "good\n\xFF");
    assert_fails(CORPUS_TEXT, scratch("bad.txt"), BERTH_BAD_DATA,
                 "bad.txt: byte 5: expected UTF-8");
    scratch_write_bytes("nul.txt", "a\0b", 3);
    assert_fails(CORPUS_TEXT, scratch("nul.txt"), BERTH_BAD_DATA,
                 "byte 1: expected UTF-8 text, found byte 0x00");
}

// A file that is cut within an article is refused; one that is cut between two is a shorter file.
static void test_cut_at_every_length(void **state) {
    (void)state;
    static const char whole[] = "One.\nTwo.\n--\nThree.\n--\n";
    assert_int_equal(dir_make(scratch("cut/AA"), NULL), BERTH_OK);
    char path[512];
    snprintf(path, sizeof path, "%s", scratch("cut"));
    const char *const folder[] = {path};
    struct buffer all = {0};
    size_t refused = 0;
    for (size_t length = 0; length < sizeof extracted - 2; length++) {
        struct berth_error error;
        scratch_write_bytes("cut/AA/wiki_00", extracted, length);
        enum berth_status status = read_all(CORPUS_EXTRACTED, folder, 1, &all, &error);
        refused += status == BERTH_BAD_DATA;
        assert_true(status == BERTH_OK || status == BERTH_BAD_DATA);
        assert_true(all.length < sizeof whole);
        assert_memory_equal(all.bytes != NULL ? all.bytes : "", whole, all.length);
    }
    assert_true(refused > sizeof extracted - 60);
    buffer_done(&all);
}

// Bytes are checked eight at a time.
static void test_a_bad_byte_at_every_offset(void **state) {
    (void)state;
    for (size_t at = 0; at < 24; at++) {
        char text[] = "plain text of many words\n", expected[64];
        text[at] = (char)0xff;
        scratch_write("bad.txt", text);
        snprintf(expected, sizeof expected, "bad.txt: byte %zu: expected UTF-8", at);
        assert_fails(CORPUS_TEXT, scratch("bad.txt"), BERTH_BAD_DATA, expected);
    }
}

// A <doc> within another: the end of the first is missing.
static void test_a_lost_end(void **state) {
    (void)state;
    assert_int_equal(dir_make(scratch("lost/AA"), NULL), BERTH_OK);
    scratch_write("lost/AA/wiki_00",
                  "<doc id=\"1\">\nT\n\nOne.\n<doc id=\"2\">\nU\n\nTwo.\n</doc>\n");
    assert_fails(CORPUS_EXTRACTED, scratch("lost"), BERTH_BAD_DATA, "expected </doc> before this");
}

// WikiExtractor's --json and --compress: no article is left out without a word.
static void test_other_forms_of_wikiextractor(void **state) {
    (void)state;
    make_folders();
    scratch_write("wiki/AB/wiki_01", "\n{\"id\": \"5\", \"text\": \"Five.\"}\n");
    assert_fails(CORPUS_EXTRACTED, scratch("wiki"), BERTH_BAD_DATA,
                 "AB/wiki_01: byte 1: expected <doc id=...>, as WikiExtractor writes without "
                 "--json, found \"{\"id\": \"5\"");
    scratch_write("wiki/AB/wiki_01", "<doc id=\"5\">\nH\n\nFive.\n</doc>\nSix.\n");
    assert_fails(CORPUS_EXTRACTED, scratch("wiki"), BERTH_BAD_DATA, "byte 29: expected <doc id=");
    scratch_write("wiki/AB/wiki_01", "");
    scratch_write("wiki/AB/wiki_02.bz2", "BZh91AY&SY....");
    assert_fails(CORPUS_EXTRACTED, scratch("wiki"), BERTH_BAD_DATA,
                 "AB/wiki_02.bz2: compressed with bzip2; decompress it first (bunzip2)");
}

static void test_position(void **state) {
    (void)state;
    struct corpus *corpus;
    const char *lines;
    size_t length = 1;
    uint64_t before = 0;
    make_folders();
    const char *const paths[] = {scratch("wiki")};
    assert_int_equal(corpus_open(CORPUS_EXTRACTED, paths, 1, &corpus, NULL), BERTH_OK);
    assert_int_equal(corpus_position(corpus), 0);
    while (length > 0) {
        assert_int_equal(corpus_next(corpus, &lines, &length, NULL), BERTH_OK);
        assert_true(corpus_position(corpus) > before || length == 0);
        before = corpus_position(corpus);
    }
    assert_int_equal(before, corpus_size(corpus));
    corpus_close(corpus);
}

static void test_without_memory(void **state) {
    (void)state;
    make_folders();
    struct buffer all = {0};
    const char *const folder[] = {scratch("wiki")};
    assert_true(buffer_reserve(&all, 4096));
    memory_fail_at(0, 0);
    assert_int_equal(read_all(CORPUS_EXTRACTED, folder, 1, &all, NULL), BERTH_OK);
    uint64_t calls = memory_fail_at(0, 0);
    assert_true(calls > 4);
    for (uint64_t i = 1; i <= calls; i++) {
        struct berth_error error = {.message = ""};
        memory_fail_at(i, 0);
        enum berth_status status = read_all(CORPUS_EXTRACTED, folder, 1, &all, &error);
        memory_fail_at(0, 0);
        assert_int_equal(status, BERTH_NO_MEMORY);
        assert_true(error.message[0] != '\0');
    }
    buffer_done(&all);
}

int main(void) {
    const struct CMUnitTest tests[] = {SCRATCH_TEST(test_extracted),
                                       SCRATCH_TEST(test_text),
                                       SCRATCH_TEST(test_deep_folders),
                                       SCRATCH_TEST(test_lines),
                                       SCRATCH_TEST(test_line_end_at_window),
                                       SCRATCH_TEST(test_books),
                                       SCRATCH_TEST(test_bad_files),
                                       SCRATCH_TEST(test_cut_at_every_length),
                                       SCRATCH_TEST(test_a_bad_byte_at_every_offset),
                                       SCRATCH_TEST(test_a_lost_end),
                                       SCRATCH_TEST(test_other_forms_of_wikiextractor),
                                       SCRATCH_TEST(test_position),
                                       SCRATCH_TEST(test_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
