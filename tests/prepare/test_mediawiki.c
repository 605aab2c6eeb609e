// SPDX-License-Identifier: Apache-2.0
// MediaWiki exports: complete pages from pieces of any size, starting at any page; truncated,
// broken, damaged and hostile XML.
#include "core/buffer.h"
#include "core/scratch.h"
#include "wiki/mediawiki.h"

#define HEAD                                                                                       \
    "<mediawiki xml:lang=\"en\"><siteinfo><base>https://x.org/wiki/Main</base><namespaces>"        \
    "<namespace key=\"0\" /><namespace key=\"6\">Datei</namespace></namespaces></siteinfo>\n"
#define PAGE(id, title, text)                                                                      \
    "<page><title>" title "</title><ns>0</ns><id>" id "</id><revision><id>99</id>"                 \
    "<contributor><id>7</id></contributor><text xml:space=\"preserve\">" text                      \
    "</text></revision></page>\n"
#define TAIL "</mediawiki>\n"
#define DUMP                                                                                       \
    HEAD PAGE(                                                                                     \
        "1", "A &amp; B",                                                                          \
        "Gr\xC3\xBC\xC3\x9F"                                                                       \
        "e &lt;b&gt;\nand \xF0\x9F\x98\x80") "<page><title>R</title><ns>0</ns><id>2</"             \
                                             "id><redirect title=\"A\" /><revision><text/>"        \
                                             "</revision></page><page><title>T:x</title><ns>1</"   \
                                             "ns><id>3</id><revision><text>old</text>"             \
                                             "</revision><revision><text>new</text></revision></"  \
                                             "page>" TAIL

struct seen {
    struct buffer log; // "id ns flags title: text\n"
    uint64_t ends[16];
    size_t count, stop_at;
};

static enum berth_status take(void *context, const struct mediawiki_page *page,
                              struct berth_error *error) {
    struct seen *seen = context;
    char head[160];
    snprintf(head, sizeof head, "%d %d %c%c%c %.40s: ", (int)page->id, (int)page->ns,
             page->is_redirect ? 'r' : '-', page->is_oversize ? 'o' : '-',
             page->is_damaged ? 'd' : '-', page->title);
    buffer_put_text(&seen->log, head);
    assert_int_equal(strlen(page->text), page->text_length);
    buffer_put(&seen->log, page->text, page->text_length);
    buffer_put_byte(&seen->log, '\n');
    assert_true(seen->count < 16);
    seen->ends[seen->count++] = page->end;
    return seen->count == seen->stop_at ? error_set(error, BERTH_FAILURE, "enough") : BERTH_OK;
}

// Feeds the bytes in pieces; the log is then NUL-terminated.
static enum berth_status read_pieces(const char *bytes, size_t length, size_t piece, uint64_t from,
                                     struct seen *seen, struct berth_error *error) {
    struct mediawiki_reader *reader;
    buffer_clear(&seen->log);
    seen->count = 0;
    enum berth_status status = mediawiki_open("it", from, take, seen, &reader, error);
    for (size_t at = 0; status == BERTH_OK && at < length; at += piece) {
        status =
            mediawiki_feed(reader, bytes + at, length - at < piece ? length - at : piece, error);
    }
    if (status == BERTH_OK) {
        status = mediawiki_finish(reader, error);
    }
    mediawiki_close(reader);
    buffer_put_byte(&seen->log, '\0');
    return status;
}

static const char pages[] = "1 0 --- A & B: Gr\xC3\xBC\xC3\x9F"
                            "e <b>\nand \xF0\x9F\x98\x80\n"
                            "2 0 r-- R: \n3 1 --- T:x: new\n";

static void test_pages(void **state) {
    (void)state;
    struct seen seen = {.count = 0};
    for (size_t piece = 1; piece <= sizeof DUMP; piece++) {
        assert_int_equal(read_pieces(DUMP, sizeof DUMP - 1, piece, 0, &seen, NULL), BERTH_OK);
        assert_string_equal(seen.log.bytes, pages);
        for (size_t i = 0; i < 3; i++) {
            assert_memory_equal(&DUMP[seen.ends[i] - 7], "</page>", 7);
        }
    }
    // From the end of the first page.
    uint64_t end = seen.ends[0];
    assert_int_equal(read_pieces(&DUMP[end], sizeof DUMP - 1 - end, 7, end, &seen, NULL), BERTH_OK);
    assert_string_equal(seen.log.bytes, strchr(pages, '2'));
    assert_memory_equal(&DUMP[seen.ends[1] - 7], "</page>", 7);
    buffer_done(&seen.log);
}

static void test_site_and_stop(void **state) {
    (void)state;
    struct seen seen = {.stop_at = 1};
    struct mediawiki_reader *reader;
    struct berth_error error;
    assert_int_equal(mediawiki_open("it", 0, take, &seen, &reader, NULL), BERTH_OK);
    assert_int_equal(mediawiki_feed(reader, DUMP, sizeof DUMP - 1, &error), BERTH_FAILURE);
    assert_string_equal(error.message, "enough");
    assert_int_equal(seen.count, 1);
    const struct mediawiki_site *site = mediawiki_get_site(reader);
    assert_string_equal(site->base, "https://x.org/wiki/Main");
    assert_int_equal(site->namespace_count, 1);
    assert_string_equal(site->namespaces[0], "Datei");
    mediawiki_close(reader);
    buffer_done(&seen.log);
}

// A title is one line, whatever the export has.
static void test_titles_are_lines(void **state) {
    (void)state;
    static const char dump[] =
        "<mediawiki><page><title>A\n&lt;/doc&gt;\n\tB&#13;&#10;C</title><ns>0</ns><id>1</id>"
        "<revision><text>x</text></revision></page></mediawiki>";
    struct seen seen = {.count = 0};
    struct berth_error error;
    assert_int_equal(read_pieces(dump, sizeof dump - 1, 7, 0, &seen, &error), BERTH_OK);
    assert_string_equal(seen.log.bytes, "1 0 --- A </doc>  B  C: x\n");
    buffer_done(&seen.log);
}

static void test_other_files(void **state) {
    (void)state;
    static const char *const texts[] = {"hello", " \n hello", "{\"a\": 1}", "\xEF\xBB\xBFhello"};
    struct seen seen = {.count = 0};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct berth_error error;
        assert_int_equal(read_pieces(texts[i], strlen(texts[i]), 100, 0, &seen, &error),
                         BERTH_BAD_DATA);
        assert_message_has(&error, "expected a MediaWiki export");
        assert_null(strstr(error.message, "truncated"));
    }
    buffer_done(&seen.log);
}

static void test_cut_at_every_length(void **state) {
    (void)state;
    struct seen seen = {.count = 0};
    for (size_t length = 0; length < sizeof DUMP - 2; length++) {
        struct berth_error error;
        enum berth_status status = read_pieces(DUMP, length, 11, 0, &seen, &error);
        assert_int_equal(status, BERTH_BAD_DATA);
        assert_message_has(&error, "it: ");
        assert_message_has(&error, "truncated");
        assert_int_equal(strncmp(seen.log.bytes, pages, strlen(seen.log.bytes)), 0);
    }
    buffer_done(&seen.log);
}

static void test_every_bit_flipped(void **state) {
    (void)state;
    struct seen seen = {.count = 0};
    char dump[sizeof DUMP];
    memcpy(dump, DUMP, sizeof DUMP);
    for (size_t bit = 0; bit < (sizeof DUMP - 1) * 8; bit++) {
        struct berth_error error = {.message = ""};
        dump[bit / 8] = (char)(dump[bit / 8] ^ 1 << bit % 8);
        enum berth_status status = read_pieces(dump, sizeof DUMP - 1, 64, 0, &seen, &error);
        assert_true(status == BERTH_OK || (status == BERTH_BAD_DATA && error.message[0] != '\0'));
        dump[bit / 8] = (char)(dump[bit / 8] ^ 1 << bit % 8);
    }
    buffer_done(&seen.log);
}

static void test_invalid_bytes(void **state) {
    (void)state;
    static const char *const bad[] = {
        "\xFF", "\xC3",         "\xC0\xAF",    "\xED\xA0\x80", "\xF4\x90\x80\x80",
        "\x01", "\xEF\xBF\xBF", "\xF0\x9F\x98"};
    struct seen seen = {.count = 0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        for (size_t piece = 1; piece < 400; piece += 9) {
            struct buffer dump = {0};
            buffer_put_text(&dump, HEAD PAGE("1", "A", "good"));
            size_t begin = dump.length;
            buffer_put_text(&dump, PAGE("2", "B", "x"));
            dump.length = begin + (size_t)(strstr(dump.bytes + begin, ">x<") - dump.bytes) - begin;
            buffer_put_text(&dump, ">x");
            buffer_put_text(&dump, bad[i]);
            buffer_put_text(&dump, "y</text></revision></page>" PAGE("3", "C", "good") TAIL);
            assert_int_equal(read_pieces(dump.bytes, dump.length, piece, 0, &seen, NULL), BERTH_OK);
            assert_non_null(strstr(seen.log.bytes, "1 0 --- A: good\n2 0 --d B: x?"));
            assert_non_null(strstr(seen.log.bytes, "?y\n3 0 --- C: good\n"));
            buffer_done(&dump);
        }
    }
    buffer_done(&seen.log);
}

static void assert_refused(const char *bytes, size_t length, const char *why) {
    struct seen seen = {.count = 0};
    struct berth_error error;
    assert_int_equal(read_pieces(bytes, length, 65536, 0, &seen, &error), BERTH_BAD_DATA);
    assert_message_has(&error, why);
    buffer_done(&seen.log);
}

static void test_hostile(void **state) {
    (void)state;
    static const char bomb[] = "<!DOCTYPE x [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]>"
                               "<mediawiki>&b;</mediawiki>";
    assert_refused(bomb, sizeof bomb - 1, "DOCTYPE");
    assert_refused("<html></html>", 13, "<mediawiki>");
    static const char broken[] = HEAD "<page></revision></page>" TAIL;
    assert_refused(broken, sizeof broken - 1, "mismatched tag");
    static const char entity[] = HEAD PAGE("1", "A", "&nope;") TAIL;
    assert_refused(entity, sizeof entity - 1, "undefined entity");
    struct buffer dump = {0};
    buffer_put_text(&dump, "<mediawiki>");
    for (int i = 0; i < 100000; i++) {
        buffer_put_text(&dump, "<a>");
    }
    assert_refused(dump.bytes, dump.length, "too deep");
    dump.length = 0;
    buffer_put_text(&dump, "<mediawiki><page x=\"");
    for (int i = 0; i < 3000000; i++) {
        buffer_put_byte(&dump, 'y');
    }
    assert_refused(dump.bytes, dump.length, "a tag longer than 1 MiB");
    buffer_done(&dump);
}

// A page of 50 MB, and one with a title of that size, are skipped; memory stays within the largest
// allowed page.
static void test_oversize(void **state) {
    (void)state;
    struct seen seen = {.count = 0};
    struct buffer dump = {0};
    buffer_put_text(&dump, HEAD "<page><title>A</title><ns>0</ns><id>1</id><revision><text>");
    for (int i = 0; i < 50000000 / 10; i++) {
        buffer_put(&dump, "ten bytes ", 10);
    }
    buffer_put_text(&dump, "</text></revision></page><page><title>");
    for (int i = 0; i < 100000; i++) {
        buffer_put(&dump, "ten bytes ", 10);
    }
    buffer_put_text(&dump,
                    "</title><ns>0</ns><id>2</id><revision><text>t</text></revision></page>" PAGE(
                        "3", "C", "good") TAIL);
    assert_int_equal(read_pieces(dump.bytes, dump.length, 1 << 20, 0, &seen, NULL), BERTH_OK);
    assert_int_equal(seen.count, 3);
    assert_non_null(strstr(seen.log.bytes, "1 0 -o- A: \n2 0 --d "));
    assert_non_null(strstr(seen.log.bytes, "3 0 --- C: good\n"));
    buffer_done(&dump);
    buffer_done(&seen.log);
}

static void test_without_memory(void **state) {
    (void)state;
    struct seen seen = {.count = 0};
    assert_true(buffer_reserve(&seen.log, 4096));
    memory_fail_at(0, 0);
    assert_int_equal(read_pieces(DUMP, sizeof DUMP - 1, 100, 0, &seen, NULL), BERTH_OK);
    uint64_t calls = memory_fail_at(0, 0);
    assert_true(calls > 20);
    for (uint64_t i = 1; i <= calls; i++) {
        struct berth_error error;
        memory_fail_at(i, 0);
        enum berth_status status = read_pieces(DUMP, sizeof DUMP - 1, 100, 0, &seen, &error);
        memory_fail_at(0, 0);
        assert_int_equal(status, BERTH_NO_MEMORY);
        assert_true(error.message[0] != '\0');
    }
    buffer_done(&seen.log);
}

int main(void) {
    const struct CMUnitTest tests[] = {SCRATCH_TEST(test_pages),
                                       SCRATCH_TEST(test_site_and_stop),
                                       SCRATCH_TEST(test_titles_are_lines),
                                       SCRATCH_TEST(test_other_files),
                                       SCRATCH_TEST(test_cut_at_every_length),
                                       SCRATCH_TEST(test_every_bit_flipped),
                                       SCRATCH_TEST(test_invalid_bytes),
                                       SCRATCH_TEST(test_hostile),
                                       SCRATCH_TEST(test_oversize),
                                       SCRATCH_TEST(test_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
