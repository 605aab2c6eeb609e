// SPDX-License-Identifier: Apache-2.0
// A dump to text files: the same bytes from plain and compressed dumps, with any number of threads
// and of ranks, which are threads here, and after every interruption: a failing or fatal system
// call at every point, no memory, a stop, a truncated dump. On the real sample no markup is left.
#include "comm/job.h"
#include "core/buffer.h"
#include "core/scratch.h"
#include "data/corpus/corpus.h"
#include "data/wikipedia/wikipedia.h"
#include "interrupted.h"
#include "wiki/wikipedia_files.h"

#include <bzlib.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/wait.h>

#define PAGES 12
#define FILE_SIZE 500

static void put_page(struct buffer *dump, int id) {
    char head[256];
    snprintf(head, sizeof head,
             "<page><title>T &amp; %d</title><ns>%d</ns><id>%d</id>%s<revision><id>9</id><text>",
             id, id == 5 ? 4 : 0, id, id == 3 ? "<redirect title=\"x\"/>" : "");
    buffer_put_text(dump, head);
    for (int i = 0; i < id; i++) {
        buffer_put_text(dump, "'''Bold''' [[text|words]]{{efn|a}} of it. ");
    }
    buffer_put_text(dump, id == 7   ? "\xFF"
                          : id == 8 ? "[[Datei:x]]"
                          : id == 2 ? "It has {{unknown}} parts. End."
                                    : " End.");
    buffer_put_text(dump, "</text></revision></page>\n");
    if (id == 9) { // no text at all
        buffer_put_text(dump, "<page><title>E</title><ns>0</ns><id>900</id><revision><text>"
                              "{{only}}</text></revision></page>");
    }
}

static struct buffer make_dump(void) {
    struct buffer dump = {0};
    buffer_put_text(&dump, "<mediawiki><siteinfo><base>https://x.org/wiki/Main</base><namespaces>"
                           "<namespace key=\"6\">Datei</namespace></namespaces></siteinfo>");
    for (int id = 1; id <= PAGES; id++) {
        put_page(&dump, id);
    }
    buffer_put_text(&dump, "</mediawiki>\n");
    return dump;
}

// In streams of `step` bytes.
static void write_bzip2(const char *name, const struct buffer *dump, size_t step) {
    struct buffer file = {0};
    for (size_t at = 0, length; at < dump->length; at += length) {
        const size_t limit = at == 0 && step < 2 ? 2 : step; // a byte order mark stays whole
        length = dump->length - at < limit ? dump->length - at : limit;
        unsigned size = (unsigned)(length + length / 50 + 700);
        assert_true(buffer_reserve(&file, size));
        assert_int_equal(BZ2_bzBuffToBuffCompress(file.bytes + file.length, &size, dump->bytes + at,
                                                  (unsigned)length, 1, 0, 0),
                         BZ_OK);
        file.length += size;
    }
    scratch_write_bytes(name, file.bytes, file.length);
    buffer_done(&file);
}

static enum berth_status run(const char *dump, const char *folder, int threads,
                             const atomic_int *stop, struct wikipedia_counts *counts,
                             struct berth_error *error) {
    char path[512];
    snprintf(path, sizeof path, "%s", scratch(dump));
    const struct wikipedia_settings settings = {.dump = path,
                                                .folder = scratch(folder),
                                                .file_size = FILE_SIZE,
                                                .threads = threads,
                                                .comm = comm_self()};
    const struct berth_log silent = {NULL, NULL};
    return wikipedia_text(&settings, &silent, stop, counts, error);
}

static char *path_of(const char *folder, int index) {
    static char path[600];
    snprintf(path, sizeof path, "%s/AA/wiki_%02d", scratch(folder), index);
    return path;
}

// The files of the folder, concatenated with a line between; the folder has no others.
static struct buffer read_files(const char *folder) {
    struct buffer all = {0};
    size_t count = 0;
    for (char *bytes; file_exists(path_of(folder, (int)count)); count++) {
        size_t length;
        assert_int_equal(file_read(path_of(folder, (int)count), 1 << 20, &bytes, &length, NULL),
                         BERTH_OK);
        buffer_put(&all, bytes, length);
        buffer_put_text(&all, "-----\n");
        memory_free(bytes);
    }
    char **names, inner[600];
    snprintf(inner, sizeof inner, "%s/AA", scratch(folder));
    assert_int_equal(dir_list(inner, &names, NULL), BERTH_OK);
    for (size_t i = 0; names[i] != NULL; i++) {
        assert_true(i < count);
    }
    memory_free(names);
    return all;
}

static void assert_text(const char *folder, const struct buffer *wanted) {
    struct buffer got = read_files(folder);
    assert_same_bytes(&got, wanted);
}

// The text of a single run on the plain dump, in folder "whole".
static struct buffer make_whole(struct buffer *dump) {
    struct wikipedia_counts counts;
    *dump = make_dump();
    scratch_write_bytes("x.xml", dump->bytes, dump->length);
    assert_int_equal(run("x.xml", "whole", 1, NULL, &counts, NULL), BERTH_OK);
    return read_files("whole");
}

static void test_text(void **state) {
    (void)state;
    struct buffer dump, wanted = make_whole(&dump);
    struct wikipedia_counts counts;
    // Nothing is left to do.
    assert_int_equal(run("x.xml", "whole", 1, NULL, &counts, NULL), BERTH_OK);
    assert_int_equal(counts.pages, PAGES + 1);
    assert_int_equal(counts.articles, PAGES - 3);
    assert_int_equal(counts.redirects, 1);
    assert_int_equal(counts.other_namespaces, 1);
    assert_int_equal(counts.damaged, 1);
    assert_int_equal(counts.empty, 1);
    assert_int_equal(counts.oversize, 0);
    assert_int_equal(counts.sentences_left_out, 1);
    assert_true(counts.files > 3);
    buffer_put_byte(&wanted, '\0');
    static const char first[] =
        "<doc id=\"1\" url=\"https://x.org/wiki?curid=1\" title=\"T &amp; 1\">\nT & 1\n\n"
        "Bold words of it. End.\n\n</doc>\n<doc id=\"2\"";
    assert_int_equal(strncmp(wanted.bytes, first, strlen(first)), 0);
    assert_null(strstr(wanted.bytes, "id=\"3\""));
    assert_null(strstr(wanted.bytes, "Datei"));
    assert_non_null(strstr(wanted.bytes, "-----\n<doc"));
    wanted.length--;
    for (size_t step = 100; step < 3000; step += 700) {
        write_bzip2("x.bz2", &dump, step);
        for (int threads = 1; threads <= 4; threads++) {
            assert_int_equal(run("x.bz2", "other", threads, NULL, &counts, NULL), BERTH_OK);
            assert_text("other", &wanted);
            assert_int_equal(dir_remove(scratch("other"), NULL), BERTH_OK);
        }
    }
    buffer_done(&dump);
    buffer_done(&wanted);
}

enum { USUAL = 3 }; // each system call costs a sync of the disk

// A system call fails once, with a full disk; the next run resumes.
static void test_full_disk(void **state) {
    (void)state;
    struct buffer dump, wanted = make_whole(&dump);
    struct wikipedia_counts counts;
    write_bzip2("x.bz2", &dump, 500);
    file_fail_at(0, 0);
    assert_int_equal(run("x.bz2", "other", 2, NULL, &counts, NULL), BERTH_OK);
    uint64_t calls = file_fail_at(0, 0), failures = 0;
    assert_true(calls > 40);
    for (uint64_t i = 1; i <= calls; i += stride(USUAL)) {
        struct berth_error error = {.message = ""};
        assert_int_equal(dir_remove(scratch("other"), NULL), BERTH_OK);
        file_fail_at(i, ENOSPC);
        enum berth_status status = run("x.bz2", "other", 2, NULL, &counts, &error);
        file_fail_at(0, 0);
        assert_int_equal(status != BERTH_OK, error.message[0] != '\0');
        failures += status != BERTH_OK;
        assert_int_equal(run("x.bz2", "other", 2, NULL, &counts, &error), BERTH_OK);
        assert_text("other", &wanted);
        assert_int_equal(counts.articles, PAGES - 3);
        assert_int_equal(counts.pages, PAGES + 1);
        assert_int_equal(counts.sentences_left_out, 1);
    }
    assert_true(failures > calls / stride(USUAL) / 2);
    buffer_done(&dump);
    buffer_done(&wanted);
}

// A file that cannot be examined is not a missing one: none is written again.
static void test_read_errors_keep_what_is_done(void **state) {
    (void)state;
    struct buffer dump, wanted = make_whole(&dump);
    struct wikipedia_counts counts;
    write_bzip2("x.bz2", &dump, 500);
    assert_int_equal(run("x.bz2", "other", 2, NULL, &counts, NULL), BERTH_OK);
    const uint64_t before = inode(path_of("other", 0));
    uint64_t made, call = 0;
    do {
        struct berth_error error = {.message = ""};
        file_fail_at(++call, EMFILE);
        const enum berth_status status = run("x.bz2", "other", 2, NULL, &counts, &error);
        made = file_fail_at(0, 0);
        assert_int_equal(status != BERTH_OK, error.message[0] != '\0');
        assert_true(inode(path_of("other", 0)) == before);
    } while (made >= call);
    assert_true(call > 5);
    buffer_done(&dump);
    buffer_done(&wanted);
}

// Killed before a system call. Finished files are not written again.
static void test_killed(void **state) {
    (void)state;
    struct buffer dump, wanted = make_whole(&dump);
    struct wikipedia_counts counts;
    write_bzip2("x.bz2", &dump, 500);
    file_fail_at(0, 0);
    assert_int_equal(run("x.bz2", "other", 1, NULL, &counts, NULL), BERTH_OK);
    uint64_t calls = file_fail_at(0, 0), kept = 0;
    for (uint64_t i = 1; i <= calls; i += stride(USUAL)) {
        assert_int_equal(dir_remove(scratch("other"), NULL), BERTH_OK);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            file_fail_at(i, -1);
            _exit(run("x.bz2", "other", 1, NULL, &counts, NULL) == BERTH_OK ? 0 : 1);
        }
        int wait_status;
        assert_int_equal(waitpid(child, &wait_status, 0), child);
        assert_true(WIFSIGNALED(wait_status));
        uint64_t first = inode(path_of("other", 0));
        assert_int_equal(run("x.bz2", "other", 1, NULL, &counts, NULL), BERTH_OK);
        kept += first != 0 && inode(path_of("other", 0)) == first;
        assert_text("other", &wanted);
        assert_int_equal(counts.pages, PAGES + 1);
    }
    assert_true(kept > calls / stride(USUAL) / 3);
    buffer_done(&dump);
    buffer_done(&wanted);
}

static void test_without_memory(void **state) {
    (void)state;
    struct buffer dump, wanted = make_whole(&dump);
    struct wikipedia_counts counts;
    memory_fail_at(0, 0);
    assert_int_equal(run("x.xml", "other", 1, NULL, &counts, NULL), BERTH_OK);
    uint64_t calls = memory_fail_at(0, 0), failures = 0;
    for (uint64_t i = 1; i <= calls; i++) {
        struct berth_error error = {.message = ""};
        assert_int_equal(dir_remove(scratch("other"), NULL), BERTH_OK);
        memory_fail_at(i, 0);
        enum berth_status status = run("x.xml", "other", 1, NULL, &counts, &error);
        memory_fail_at(0, 0);
        assert_int_equal(status != BERTH_OK, error.message[0] != '\0');
        failures += status != BERTH_OK;
        assert_int_equal(run("x.xml", "other", 1, NULL, &counts, NULL), BERTH_OK);
        assert_text("other", &wanted);
    }
    assert_true(failures > calls / 2);
    buffer_done(&dump);
    buffer_done(&wanted);
}

// Neither a title nor a text can start or end a document: a reader of the files sees two.
static void test_forged_documents(void **state) {
    (void)state;
    static const char text[] =
        "<mediawiki><page><title>A\n\n&lt;/doc&gt;\n&lt;doc id=\"9\" url=\"\" "
        "title=\"B\"&gt;\nB</title><ns>0</ns><id>1</id><revision><text>One.\n"
        "&lt;/doc&gt;\n&lt;doc id=\"7\"&gt;\nForged\n\nTwo.</text></revision></page>"
        "<page><title>C</title><ns>0</ns><id>2</id><revision><text>Three &lt;/doc&gt; it."
        "</text></revision></page></mediawiki>";
    struct wikipedia_counts counts;
    struct corpus *corpus;
    struct berth_error error;
    const char *lines, *folder = scratch("forged");
    size_t length, articles = 0;
    scratch_write("forged.xml", text);
    assert_int_equal(run("forged.xml", "forged", 1, NULL, &counts, NULL), BERTH_OK);
    struct buffer all = read_files("forged");
    buffer_put_byte(&all, '\0');
    const char *at = all.bytes;
    for (size_t i = 0; i < 2; i++) { // as other programs search for the marks
        at = strstr(strstr(at, "<doc id="), "</doc>") + 1;
    }
    assert_null(strstr(at, "<doc id="));
    assert_null(strstr(at, "</doc>"));
    assert_int_equal(corpus_open(CORPUS_EXTRACTED, &folder, 1, &corpus, &error), BERTH_OK);
    while (corpus_next(corpus, &lines, &length, &error) == BERTH_OK && length > 0) {
        articles++;
    }
    assert_int_equal(articles, 2);
    corpus_close(corpus);
    buffer_done(&all);
}

// Converts UTF-8 to UTF-16 with a byte order mark: high byte first or last.
static struct buffer to_utf16(const struct buffer *text, int high_first) {
    struct buffer out = {0};
    buffer_put(&out, high_first ? "\xFE\xFF" : "\xFF\xFE", 2);
    for (size_t i = 0; i < text->length; i++) {
        unsigned char byte = (unsigned char)text->bytes[i];
        unsigned unit = byte == 0xFF ? 0xDC00 : byte; // ill-formed stays so
        buffer_put_byte(&out, (char)(high_first ? unit >> 8 : unit & 0xFF));
        buffer_put_byte(&out, (char)(high_first ? unit & 0xFF : unit >> 8));
    }
    return out;
}

// The same text from a dump in UTF-16, plain and compressed, also when a run resumes in its middle.
static void test_utf16(void **state) {
    (void)state;
    struct buffer dump, wanted = make_whole(&dump);
    struct wikipedia_counts counts;
    for (int i = 0; i < 4; i++) {
        struct buffer other = to_utf16(&dump, i % 2);
        if (i < 2) {
            scratch_write_bytes("x16", other.bytes, other.length);
        } else {
            write_bzip2("x16", &other, 701);
        }
        assert_int_equal(run("x16", "other", 2, NULL, &counts, NULL), BERTH_OK);
        assert_text("other", &wanted);
        assert_int_equal(counts.damaged, 1);
        assert_int_equal(file_remove(path_of("other", 2), NULL), BERTH_OK);
        assert_int_equal(run("x16", "other", 2, NULL, &counts, NULL), BERTH_OK);
        assert_text("other", &wanted);
        assert_int_equal(dir_remove(scratch("other"), NULL), BERTH_OK);
        buffer_done(&other);
    }
    buffer_done(&dump);
    buffer_done(&wanted);
}

static void test_utf32(void **state) {
    (void)state;
    static const char text[] = "\xFF\xFE\0\0<\0\0\0m\0\0";
    struct wikipedia_counts counts;
    struct berth_error error;
    scratch_write_bytes("x32", text, sizeof text);
    assert_int_equal(run("x32", "other", 1, NULL, &counts, &error), BERTH_BAD_DATA);
    assert_message_has(&error, "x32: the dump is UTF-32; convert it to UTF-8");
}

static void test_a_dump_without_articles(void **state) {
    (void)state;
    static const char redirect[] =
        "<page><title>R</title><ns>0</ns><id>2</id><redirect title=\"A\"/><revision>"
        "<text>x</text></revision></page>";
    static const char *const pages[] = {"", redirect, ""};
    for (size_t i = 0; i < 3; i++) {
        char text[512];
        struct wikipedia_counts counts;
        struct berth_error error;
        snprintf(text, sizeof text, "<mediawiki>%s</mediawiki>", pages[i]);
        scratch_write("none.xml", text);
        if (i == 2) { // in halves of characters
            const struct buffer same = {.bytes = text, .length = strlen(text)};
            struct buffer other = to_utf16(&same, 0);
            write_bzip2("none.xml", &other, 1);
            buffer_done(&other);
        }
        assert_int_equal(run("none.xml", "other", 1, NULL, &counts, &error), BERTH_BAD_DATA);
        assert_message_has(&error, "none.xml: no articles found; pages: ");
        assert_message_has(&error, i != 1 ? "pages: 0" : "pages: 1, redirects: 1, ");
        assert_false(dir_exists(scratch("other")));
    }
}

static void test_cut_and_stopped(void **state) {
    (void)state;
    struct buffer dump, wanted = make_whole(&dump);
    struct wikipedia_counts counts;
    struct berth_error error;
    for (size_t length = 0; length < dump.length - 1; length += 37) {
        assert_int_equal(dir_remove(scratch("other"), NULL), BERTH_OK);
        scratch_write_bytes("cut.xml", dump.bytes, length);
        assert_int_equal(run("cut.xml", "other", 2, NULL, &counts, &error), BERTH_BAD_DATA);
        assert_message_has(&error, "cut.xml");
        assert_message_has(&error, "truncated;");
        assert_false(file_exists(path_of("other", 20)));
    }
    assert_int_equal(dir_remove(scratch("other"), NULL), BERTH_OK);
    const atomic_int stop = 1;
    assert_int_equal(run("x.xml", "other", 2, &stop, &counts, &error), BERTH_INTERRUPTED);
    assert_int_equal(run("x.xml", "other", 2, NULL, &counts, &error), BERTH_OK);
    assert_text("other", &wanted);
    // A missing file is made again.
    assert_int_equal(file_remove(path_of("other", 2), NULL), BERTH_OK);
    assert_int_equal(run("x.xml", "other", 2, NULL, &counts, &error), BERTH_OK);
    assert_text("other", &wanted);
    buffer_done(&dump);
    buffer_done(&wanted);
}

// --- several ranks -------------------------------------------------------------------------------

enum { LARGE_PAGES = 90, LARGE_TEXT = 120000 }; // several batches

static struct buffer make_large_dump(void) {
    struct buffer dump = {0};
    buffer_put_text(&dump, "<mediawiki><siteinfo><base>https://x.org/wiki/Main</base></siteinfo>");
    for (int id = 1; id <= LARGE_PAGES; id++) {
        char head[128];
        snprintf(head, sizeof head,
                 "<page><title>L %d</title><ns>0</ns><id>%d</id><revision><text>", id, id);
        buffer_put_text(&dump, head);
        for (int i = 0; i < LARGE_TEXT / 40 + id; i++) {
            snprintf(head, sizeof head, "Line ''%d'' of [[page|the page]] %d.\n", i * id, id);
            buffer_put_text(&dump, i % 97 == id ? "One. It is {{a template}}.\n" : head);
        }
        buffer_put_text(&dump, "</text></revision></page>\n");
    }
    buffer_put_text(&dump, "</mediawiki>\n");
    return dump;
}

struct team {
    const atomic_int *stop; // of the last rank
    uint64_t failing, made; // which allocation of all ranks fails, from 1, and their number
    char dump[512], last_dump[512], folder[512];
    enum berth_status status[SOCKET_PROCESSES];
    struct berth_error errors[SOCKET_PROCESSES];
    struct wikipedia_counts counts; // of the first
};

static void run_rank(struct comm *comm, const struct transport *transport, void *context) {
    struct team *team = context;
    const int is_last = comm->rank + 1 == comm->size;
    const struct wikipedia_settings settings = {.dump = is_last ? team->last_dump : team->dump,
                                                .folder = team->folder,
                                                .file_size = FILE_SIZE,
                                                .threads = 1 + comm->rank % 2,
                                                .comm = comm};
    const struct berth_log silent = {NULL, NULL};
    struct wikipedia_counts counts;
    (void)transport;
    team->errors[comm->rank].message[0] = '\0';
    if (comm->rank == 0 && team->failing > 0) {
        memory_fail_at(team->failing, 0);
    }
    team->status[comm->rank] = wikipedia_text(&settings, &silent, is_last ? team->stop : NULL,
                                              &counts, &team->errors[comm->rank]);
    if (comm->rank == 0) {
        team->made = memory_fail_at(0, 0);
        team->counts = counts;
    }
}

static struct team team_of(const char *dump, const char *folder) {
    struct team team = {.stop = NULL};
    snprintf(team.dump, sizeof team.dump, "%s", scratch(dump));
    snprintf(team.last_dump, sizeof team.last_dump, "%s", scratch(dump));
    snprintf(team.folder, sizeof team.folder, "%s", scratch(folder));
    return team;
}

static enum berth_status team_run(struct team *team, const char *layout) {
    struct job job = job_of(layout);
    job.settings.timeout_seconds = 60;
    job.body = run_rank;
    job.context = team;
    job_run(&job);
    for (int i = 1; i < job.size; i++) {
        assert_int_equal(team->status[i], team->status[0]);
    }
    return team->status[0];
}

static void test_ranks(void **state) {
    static const char *const layouts[] = {"1x2", "3x1", "2x2"};
    (void)state;
    struct buffer dump = make_large_dump(), wanted;
    struct wikipedia_counts counts;
    scratch_write_bytes("l.xml", dump.bytes, dump.length);
    write_bzip2("l.bz2", &dump, 250000);
    assert_int_equal(run("l.xml", "whole", 1, NULL, &counts, NULL), BERTH_OK);
    assert_true(counts.sentences_left_out > 100);
    wanted = read_files("whole");
    for (int i = 0; i < 3; i++) {
        struct team team = team_of(i == 1 ? "l.xml" : "l.bz2", "other");
        assert_int_equal(team_run(&team, layouts[i]), BERTH_OK);
        assert_memory_equal(&team.counts, &counts, sizeof counts);
        assert_text("other", &wanted);
        // Resumes in the middle.
        assert_int_equal(file_remove(path_of("other", 40 + i), NULL), BERTH_OK);
        assert_int_equal(team_run(&team, layouts[i]), BERTH_OK);
        assert_memory_equal(&team.counts, &counts, sizeof counts);
        assert_text("other", &wanted);
        assert_int_equal(team_run(&team, layouts[i]), BERTH_OK); // nothing is left to do
        assert_int_equal(dir_remove(scratch("other"), NULL), BERTH_OK);
    }
    buffer_done(&dump);
    buffer_done(&wanted);
}

// What one rank meets ends all, and one message says so.
static void test_ranks_end_together(void **state) {
    (void)state;
    struct buffer dump = make_large_dump();
    const atomic_int stop = 1;
    scratch_write_bytes("l.xml", dump.bytes, dump.length);
    write_bzip2("l.bz2", &dump, 250000);
    for (int compressed = 0; compressed < 2; compressed++) {
        const char *name = compressed ? "l.bz2" : "l.xml";
        struct team team = team_of(name, "other");
        team.stop = &stop;
        assert_int_equal(team_run(&team, "1x3"), BERTH_INTERRUPTED);
        team = team_of(name, "other");
        snprintf(team.last_dump, sizeof team.last_dump, "%s", scratch("none"));
        assert_int_equal(team_run(&team, "1x3"), BERTH_NO_INPUT);
        assert_message_has(&team.errors[0], "rank 2 on host host0: ");
        assert_string_equal(team.errors[1].message, "");
        assert_false(dir_exists(scratch("other")));
    }
    // The last rank has another dump.
    dump.bytes[dump.length / 2 + 5] ^= 4;
    memmove(dump.bytes + 200, dump.bytes + 260, dump.length - 260);
    dump.length -= 60;
    scratch_write_bytes("m.xml", dump.bytes, dump.length);
    write_bzip2("m.bz2", &dump, 250000);
    struct team team = team_of("l.bz2", "other");
    snprintf(team.last_dump, sizeof team.last_dump, "%s", scratch("m.bz2"));
    assert_int_equal(team_run(&team, "1x3"), BERTH_BAD_DATA);
    assert_message_has(&team.errors[0], "not the same on all hosts");
    // A damaged one, the same for all.
    char *bytes;
    size_t length;
    assert_int_equal(file_read(scratch("l.bz2"), 1 << 24, &bytes, &length, NULL), BERTH_OK);
    bytes[length / 2] ^= 16;
    scratch_write_bytes("l.bz2", bytes, length);
    memory_free(bytes);
    team = team_of("l.bz2", "other");
    assert_int_equal(team_run(&team, "3x1"), BERTH_BAD_DATA);
    assert_message_has(&team.errors[0], "the file is damaged");
    buffer_done(&dump);
}

static void test_ranks_without_memory(void **state) {
    (void)state;
    struct buffer dump, wanted = make_whole(&dump);
    struct team team = team_of("x.bz2", "other");
    uint64_t failed = 0;
    write_bzip2("x.bz2", &dump, 701);
    do {
        assert_int_equal(dir_remove(scratch("other"), NULL), BERTH_OK);
        team.failing++;
        if (team_run(&team, "1x2") != BERTH_OK) {
            assert_int_equal(team.status[0], BERTH_NO_MEMORY);
            failed++;
        }
    } while (team.made >= team.failing);
    assert_true(failed > 20);
    assert_text("other", &wanted);
    buffer_done(&dump);
    buffer_done(&wanted);
}

// --- other files --------------------------------------------------------------------------------

// Half-written files of a killed run are removed, whichever they are; other files stay.
static void test_tidies_up(void **state) {
    (void)state;
    struct buffer dump, wanted = make_whole(&dump);
    struct wikipedia_counts counts;
    char left[2][600], notes[600];
    snprintf(left[0], sizeof left[0], "%s/text.json.12.0.tmp", scratch("other"));
    snprintf(left[1], sizeof left[1], "%s/AA/wiki_00.12.1.tmp", scratch("other"));
    snprintf(notes, sizeof notes, "%s/wiki_notes.tmp", scratch("other"));
    for (int round = 0; round < 2; round++) { // a new folder, and one with text
        assert_int_equal(dir_make(scratch("other/AA"), NULL), BERTH_OK);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(file_write(left[i], "half", 4, NULL), BERTH_OK);
        }
        assert_int_equal(file_write(notes, "mine", 4, NULL), BERTH_OK);
        assert_int_equal(run("x.xml", "other", 1, NULL, &counts, NULL), BERTH_OK);
        assert_false(file_exists(left[0]) || file_exists(left[1]));
        assert_true(file_exists(notes));
        assert_text("other", &wanted);
    }
    buffer_done(&dump);
    buffer_done(&wanted);
}

static void test_other_folders(void **state) {
    (void)state;
    struct buffer dump, wanted = make_whole(&dump);
    struct wikipedia_counts counts;
    struct berth_error error;
    dump.bytes[dump.length - 20] ^= 1;
    scratch_write_bytes("y.xml", dump.bytes, dump.length);
    assert_int_equal(run("y.xml", "whole", 1, NULL, &counts, &error), BERTH_CONFIG);
    assert_message_has(&error, "text.json: the files were made with dump_sha256 \"");
    assert_message_has(&error, "choose another output, or remove the folder");
    char folder[512], whole_dump[512];
    snprintf(folder, sizeof folder, "%s", scratch("whole"));
    snprintf(whole_dump, sizeof whole_dump, "%s", scratch("x.xml"));
    const struct wikipedia_settings larger = {.dump = whole_dump,
                                              .folder = folder,
                                              .file_size = FILE_SIZE + 1,
                                              .threads = 1,
                                              .comm = comm_self()};
    const struct berth_log silent = {NULL, NULL};
    assert_int_equal(wikipedia_text(&larger, &silent, NULL, &counts, &error), BERTH_CONFIG);
    assert_message_has(&error, "text.json: the files were made with file_size \"");
    assert_int_equal(run("absent.xml", "whole", 1, NULL, &counts, &error), BERTH_NO_INPUT);
    char path[600];
    snprintf(path, sizeof path, "%s/text.json", scratch("whole"));
    assert_int_equal(file_write(path, "{\"files\": [1]}", 14, NULL), BERTH_OK);
    assert_true(run("x.xml", "whole", 1, NULL, &counts, &error) != BERTH_OK);
    assert_int_equal(file_remove(path, NULL), BERTH_OK);
    assert_int_equal(run("x.xml", "whole", 1, NULL, &counts, &error), BERTH_CANT_CREATE);
    assert_text("whole", &wanted); // nothing was touched
    buffer_done(&dump);
    buffer_done(&wanted);
}

// No file is written over when the names are used up.
static void test_names_used_up(void **state) {
    (void)state;
    const struct wikipedia_settings settings = {.dump = scratch("x.xml"),
                                                .folder = scratch("full"),
                                                .file_size = FILE_SIZE,
                                                .threads = 1,
                                                .comm = comm_self()};
    const struct wikipedia_article article = {
        .url = "u", .title = "T", .text = "Text.\n", .length = strlen("Text.\n")};
    struct wikipedia_files files = {.lock.descriptor = -1, .writer.descriptor = -1};
    struct berth_error error;
    scratch_write("x.xml", "<mediawiki>");
    assert_int_equal(wikipedia_files_open(&files, &settings, NULL), BERTH_OK);
    assert_int_equal(dir_make(scratch("full/AA"), NULL), BERTH_OK);
    scratch_write("full/AA/wiki_00", "first");
    files.state.count = WIKIPEDIA_FILES_MAX;
    assert_int_equal(wikipedia_files_put(&files, &article, &error), BERTH_CONFIG);
    assert_message_has(&error, "more than 67600 files: choose a larger file size");
    files.state.count = 0;
    wikipedia_files_close(&files);
    assert_file_holds(scratch("full/AA/wiki_00"), "first");
}

// --- the real sample ----------------------------------------------------------------------------

static size_t count(const char *text, const char *word) {
    size_t found = 0;
    while ((text = strstr(text, word)) != NULL) {
        found++;
        text += strlen(word);
    }
    return found;
}

static void check_debris(const char *text) {
    static const char *const debris[] = {"{",           "}",     "|",      "[[",        "]]",
                                         "''",          "File:", "Image:", "Category:", "<ref",
                                         "</",          "<!--",  "&nbsp;", "&lt;",      "cite web",
                                         "access-date", "()",    "( )",    "__TOC__",   "<br"};
    for (size_t i = 0; i < sizeof debris / sizeof *debris; i++) {
        assert_int_equal(count(text, debris[i]), 0);
    }
}

static void test_sample(void **state) {
    (void)state;
    const char *dump = data_path("wikipedia/enwiki-sample.xml.bz2");
    if (!file_exists(dump)) {
        print_message("skipped: no %s (set BERTH_DATA)\n", dump);
        skip();
    }
    const struct wikipedia_settings settings = {
        .dump = dump, .folder = scratch("sample"), .comm = comm_self()};
    const struct berth_log silent = {NULL, NULL};
    struct wikipedia_counts counts;
    assert_int_equal(wikipedia_text(&settings, &silent, NULL, &counts, NULL), BERTH_OK);
    assert_int_equal(counts.pages, 206);
    assert_int_equal(counts.redirects, 99);
    assert_int_equal(counts.other_namespaces, 1);
    assert_int_equal(counts.articles + counts.empty, 106);
    assert_int_equal(counts.damaged + counts.oversize, 0);
    assert_in_range(counts.sentences_left_out, 20, 60);
    char *text;
    size_t length;
    assert_int_equal(file_read(path_of("sample", 0), 1 << 24, &text, &length, NULL), BERTH_OK);
    assert_int_equal(count(text, "<doc id=\""), counts.articles);
    assert_int_equal(count(text, "\n\n</doc>\n"), counts.articles);
    // Removes the <doc> lines of the articles.
    for (char *at = text; (at = strstr(at, "<doc ")) != NULL;) {
        memset(at, ' ', strcspn(at, "\n"));
    }
    for (char *at = text; (at = strstr(at, "</doc>")) != NULL;) {
        memset(at, ' ', 6);
    }
    check_debris(text);
    memory_free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {SCRATCH_TEST(test_text),
                                       SCRATCH_TEST(test_full_disk),
                                       SCRATCH_TEST(test_read_errors_keep_what_is_done),
                                       SCRATCH_TEST(test_killed),
                                       SCRATCH_TEST(test_without_memory),
                                       SCRATCH_TEST(test_forged_documents),
                                       SCRATCH_TEST(test_utf16),
                                       SCRATCH_TEST(test_utf32),
                                       SCRATCH_TEST(test_a_dump_without_articles),
                                       SCRATCH_TEST(test_cut_and_stopped),
                                       SCRATCH_TEST(test_ranks),
                                       SCRATCH_TEST(test_ranks_end_together),
                                       SCRATCH_TEST(test_ranks_without_memory),
                                       SCRATCH_TEST(test_tidies_up),
                                       SCRATCH_TEST(test_other_folders),
                                       SCRATCH_TEST(test_names_used_up),
                                       SCRATCH_TEST(test_sample)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
