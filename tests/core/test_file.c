// SPDX-License-Identifier: Apache-2.0
// Reading files, pipes and FIFOs, atomic writing, folders, paths and locks.
#include "core/file_partial.h"
#include "core/foreign_locale.h"
#include "core/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

// --- the order of system calls ------------------------------------------------------------------

// Replacements for libc's functions in this program: they do the same and record the call.
static char order[4096];

static void note(const char *call, const char *path) {
    const char *name = strrchr(path, '/');
    size_t used = strlen(order);
    snprintf(order + used, sizeof order - used, "%s %s\n", call, name != NULL ? name + 1 : path);
}

int fsync(int descriptor) {
    char link[64], path[512] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    if (readlink(link, path, sizeof path - 1) > 0) {
        note("sync", strstr(path, ".tmp") != NULL ? "temporary" : path);
    }
    return (int)syscall(SYS_fsync, descriptor);
}

int rename(const char *from, const char *to) {
    note("rename to", to);
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
    note("rename to", to);
    return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}

static const char *folder_name(void) {
    return strrchr(scratch_folder, '/') + 1;
}

// A power failure keeps what was synced: the contents must be synced before the rename, the folder
// last.
static void test_syncs_come_in_order(void **state) {
    (void)state;
    char expected[1024];
    struct file_partial partial;
    order[0] = '\0';
    assert_int_equal(file_write(scratch("a"), "new", 3, NULL), BERTH_OK);
    snprintf(expected, sizeof expected, "sync temporary\nrename to a\nsync %s\n", folder_name());
    assert_string_equal(order, expected);

    assert_int_equal(dir_make(scratch("t"), NULL), BERTH_OK);
    assert_int_equal(file_write(scratch("t/b"), "b", 1, NULL), BERTH_OK);
    order[0] = '\0';
    assert_int_equal(dir_publish(scratch("t"), scratch("final"), NULL), BERTH_OK);
    snprintf(expected, sizeof expected, "sync b\nsync t\nrename to final\nsync %s\n",
             folder_name());
    assert_string_equal(order, expected);

    assert_int_equal(file_partial_open(&partial, scratch("p"), NULL), BERTH_OK);
    assert_int_equal(file_partial_put(&partial, "part", 4, NULL), BERTH_OK);
    order[0] = '\0';
    assert_int_equal(file_partial_publish(&partial, scratch("whole"), NULL), BERTH_OK);
    snprintf(expected, sizeof expected, "sync p\nrename to whole\nsync %s\n", folder_name());
    assert_string_equal(order, expected);
}

static void test_what_lies_in_a_folder(void **state) {
    (void)state;
    assert_int_equal(dir_make(scratch("in/deep"), NULL), BERTH_OK);
    assert_int_equal(dir_make(scratch("inside"), NULL), BERTH_OK);
    scratch_write("in/a", "a");
    scratch_write("inside/a", "a");
    assert_int_equal(symlink("../inside/a", scratch("in/out")), 0);
    assert_true(path_is_inside(scratch("in/a"), scratch("in")));
    assert_true(path_is_inside(scratch("in/deep"), scratch("in")));
    assert_true(path_is_inside(scratch("in"), scratch("in")));
    assert_true(path_is_inside(scratch("in/a"), "/"));
    assert_false(
        path_is_inside(scratch("inside/a"), scratch("in"))); // a common prefix is not enough
    assert_false(path_is_inside(scratch("in/out"), scratch("in")));
    assert_false(path_is_inside(scratch("in/deep/../../inside/a"), scratch("in")));
    assert_false(path_is_inside(scratch("in/absent"), scratch("in")));
}

// --- reading ------------------------------------------------------------------------------------

static void test_read_whole_file(void **state) {
    (void)state;
    char *bytes;
    size_t length;
    assert_int_equal(file_write(scratch("a"), "one\0two", 7, NULL), BERTH_OK);
    assert_int_equal(file_read(scratch("a"), 7, &bytes, &length, NULL), BERTH_OK);
    assert_int_equal(length, 7);
    assert_memory_equal(bytes, "one\0two", 8); // with the NUL after it
    memory_free(bytes);
    scratch_write("empty", "");
    assert_int_equal(file_read(scratch("empty"), 7, &bytes, &length, NULL), BERTH_OK);
    assert_int_equal(length, 0);
    assert_string_equal(bytes, "");
    memory_free(bytes);
}

static void test_read_errors_name_the_file(void **state) {
    (void)state;
    struct berth_error error;
    char *bytes;
    size_t length;
    assert_int_equal(file_read(scratch("none"), 9, &bytes, &length, &error), BERTH_NO_INPUT);
    assert_message_has(&error, scratch("none"));
    assert_message_has(&error, "No such file");
    assert_null(bytes);
    assert_int_equal(file_read(scratch_folder, 9, &bytes, &length, &error), BERTH_NO_INPUT);
    scratch_write("long", "0123456789");
    assert_int_equal(file_read(scratch("long"), 9, &bytes, &length, &error), BERTH_BAD_DATA);
    assert_message_has(&error, "limit");
}

// The text that `git clone` leaves without Git LFS, and others that are not one.
static void test_pointers_of_git_lfs(void **state) {
    (void)state;
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\n"
                                  "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2"
                                  "ca24d17e2393\nsize 12345\n";
    struct berth_error error;
    struct file_reader reader;
    char *bytes, large[1024] = "";
    size_t length;
    scratch_write("a", pointer);
    assert_int_equal(file_read(scratch("a"), 999, &bytes, &length, &error), BERTH_BAD_DATA);
    assert_message_has(&error, scratch("a"));
    assert_message_has(&error, "git lfs pull");
    assert_null(bytes);
    assert_int_equal(file_reader_open(&reader, scratch("a"), &error), BERTH_BAD_DATA);
    assert_message_has(&error, "git lfs pull");
    assert_int_equal(reader.descriptor, -1);
    memcpy(large, pointer, sizeof pointer);
    assert_int_equal(file_write(scratch("b"), large, sizeof large, NULL), BERTH_OK);
    scratch_write("c", "version https://git-lfs");
    for (int i = 0; i < 2; i++) {
        const char *path = scratch(i == 0 ? "b" : "c");
        assert_int_equal(file_read(path, 2000, &bytes, &length, NULL), BERTH_OK);
        memory_free(bytes);
        assert_int_equal(file_reader_open(&reader, path, NULL), BERTH_OK);
        file_reader_close(&reader);
    }
}

static void test_read_pipe(void **state) {
    (void)state;
    int ends[2];
    char path[64], *bytes, text[10000];
    size_t length;
    assert_int_equal(pipe(ends), 0);
    memset(text, 'x', sizeof text);
    assert_int_equal(write(ends[1], text, sizeof text), sizeof text);
    close(ends[1]);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    assert_int_equal(file_read(path, sizeof text, &bytes, &length, NULL), BERTH_OK);
    assert_int_equal(length, sizeof text);
    memory_free(bytes);
    close(ends[0]);
}

// Runs `act` in a child of this process.
static pid_t in_child(void (*act)(const char *path), const char *path) {
    pid_t child = fork();
    if (child == 0) {
        act(path);
        _exit(0);
    }
    assert_true(child > 0);
    return child;
}

static void write_late(const char *path) {
    usleep(300000);
    int fifo = open(path, O_WRONLY);
    usleep(300000); // connected, but no data yet
    (void)!write(fifo, "late", 4);
    close(fifo);
}

static void write_nothing(const char *path) {
    usleep(300000);
    close(open(path, O_WRONLY));
}

static void test_read_fifo(void **state) {
    (void)state;
    static const struct {
        void (*act)(const char *path);
        const char *text;
    } cases[] = {{write_late, "late"}, {write_nothing, ""}};
    char *bytes;
    size_t length;
    assert_int_equal(mkfifo(scratch("fifo"), 0600), 0);
    for (size_t i = 0; i < 2; i++) {
        pid_t child = in_child(cases[i].act, scratch("fifo"));
        assert_int_equal(file_read(scratch("fifo"), 99, &bytes, &length, NULL), BERTH_OK);
        assert_string_equal(bytes, cases[i].text);
        memory_free(bytes);
        waitpid(child, NULL, 0);
    }
}

static void test_fifo_without_a_writer_is_an_error(void **state) {
    (void)state;
    struct berth_error error;
    struct file_reader reader;
    char *bytes;
    size_t length;
    alarm(60); // kills a process that waits forever
    assert_int_equal(mkfifo(scratch("fifo"), 0600), 0);
    assert_int_equal(file_reader_open(&reader, scratch("fifo"), &error), BERTH_NO_INPUT);
    assert_message_has(&error, "not a regular file");
    assert_int_equal(file_read(scratch("fifo"), 99, &bytes, &length, &error), BERTH_NO_INPUT);
    assert_message_has(&error, "no process has opened");
    alarm(0);
}

// The same cause gives the same status everywhere.
static void test_no_descriptor_left(void **state) {
    (void)state;
    struct rlimit before, few;
    struct file_reader reader;
    struct file_partial partial;
    struct file_lock lock;
    struct berth_error error;
    char *bytes, **names;
    size_t length;
    int stream;
    scratch_write("a", "text");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    int next = dup(0);
    close(next);
    few.rlim_cur = (rlim_t)next;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    const char *path = scratch("a"), *folder = scratch_folder;
    const enum berth_status found[] = {file_read(path, 9, &bytes, &length, &error),
                                       file_open_stream(path, &stream, NULL),
                                       file_reader_open(&reader, path, NULL),
                                       dir_list(folder, &names, NULL),
                                       file_write(path, "x", 1, NULL),
                                       file_partial_open(&partial, path, NULL),
                                       file_lock_acquire(&lock, folder, NULL),
                                       dir_sync_parent(path, NULL)};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        assert_int_equal(found[i], BERTH_IO);
    }
    assert_message_has(&error, "Too many open files");
}

static void test_reader_at(void **state) {
    (void)state;
    struct berth_error error;
    struct file_reader reader;
    char bytes[8] = "";
    scratch_write("a", "0123456789");
    assert_int_equal(file_reader_open(&reader, scratch("a"), NULL), BERTH_OK);
    assert_int_equal(reader.size, 10);
    assert_int_equal(file_reader_at(&reader, 7, bytes, 3, NULL), BERTH_OK);
    assert_string_equal(bytes, "789");
    assert_int_equal(file_reader_at(&reader, 8, bytes, 3, &error), BERTH_BAD_DATA);
    assert_message_has(&error, "truncated");
    file_reader_close(&reader);
    assert_int_equal(file_reader_open(&reader, scratch_folder, &error), BERTH_NO_INPUT);
    assert_int_equal(reader.descriptor, -1);
}

// --- writing ------------------------------------------------------------------------------------

static void test_writer_replaces_on_commit_only(void **state) {
    (void)state;
    struct file_writer writer;
    scratch_write("a", "old");
    assert_int_equal(file_writer_open(&writer, scratch("a"), NULL), BERTH_OK);
    assert_int_equal(file_writer_put(&writer, "new", 3, NULL), BERTH_OK);
    assert_file_holds(scratch("a"), "old");
    assert_int_equal(file_writer_commit(&writer, NULL), BERTH_OK);
    file_writer_abort(&writer);
    assert_file_holds(scratch("a"), "new");
    assert_int_equal(scratch_count(), 1);
}

static void test_writer_abort_leaves_nothing(void **state) {
    (void)state;
    struct file_writer writer;
    assert_int_equal(file_writer_open(&writer, scratch("a"), NULL), BERTH_OK);
    assert_int_equal(file_writer_put(&writer, "new", 3, NULL), BERTH_OK);
    file_writer_abort(&writer);
    file_writer_abort(&writer);
    assert_int_equal(scratch_count(), 0);
}

// What cannot be replaced is named, and its temporary file goes.
static void test_writers_are_committed_in_turn(void **state) {
    (void)state;
    static const char *const names[] = {"a", "b", "c"};
    struct file_writer writers[3];
    struct berth_error error = {0};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(file_writer_open_in(&writers[i], scratch_folder, names[i], NULL),
                         BERTH_OK);
        assert_int_equal(file_writer_put(&writers[i], names[i], 1, NULL), BERTH_OK);
    }
    assert_int_equal(dir_make(scratch("b"), NULL), BERTH_OK);
    assert_int_equal(file_writer_commit_all(writers, 3, &error), BERTH_IO);
    assert_non_null(strstr(error.message, scratch("b")));
    assert_file_holds(scratch("a"), "a");
    assert_int_equal(scratch_count(), 2);
}

static void test_writer_large_and_small_pieces(void **state) {
    (void)state;
    enum { SIZE = 3 << 20 };
    char *expected = malloc(SIZE), *bytes;
    size_t length;
    struct file_writer writer;
    for (size_t i = 0; i < SIZE; i++) {
        expected[i] = (char)(i * 7 + i / 1000);
    }
    assert_int_equal(file_writer_open(&writer, scratch("a"), NULL), BERTH_OK);
    for (size_t at = 0, piece = 1; at < SIZE; piece = piece * 3 % 700001) {
        size_t now = piece < SIZE - at ? piece : SIZE - at;
        assert_int_equal(file_writer_put(&writer, expected + at, now, NULL), BERTH_OK);
        at += now;
    }
    assert_int_equal(file_writer_commit(&writer, NULL), BERTH_OK);
    assert_int_equal(file_read(scratch("a"), SIZE, &bytes, &length, NULL), BERTH_OK);
    assert_int_equal(length, SIZE);
    assert_memory_equal(bytes, expected, SIZE);
    memory_free(bytes);
    free(expected);
}

static void test_writer_printf_ignores_the_locale(void **state) {
    (void)state;
    struct file_writer writer;
    char long_text[2000];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    foreign_locale_set();
    assert_int_equal(file_writer_open(&writer, scratch("a"), NULL), BERTH_OK);
    assert_int_equal(file_writer_printf(&writer, NULL, "%.2f;", 1.5), BERTH_OK);
    assert_int_equal(file_writer_printf(&writer, NULL, "%s", long_text), BERTH_OK);
    assert_int_equal(file_writer_commit(&writer, NULL), BERTH_OK);
    setlocale(LC_ALL, "C");
    char *bytes;
    size_t length;
    assert_int_equal(file_read(scratch("a"), 1 << 20, &bytes, &length, NULL), BERTH_OK);
    assert_memory_equal(bytes, "1.50;xxx", 8);
    assert_int_equal(length, 5 + sizeof long_text - 1);
    memory_free(bytes);
}

static void test_writer_refuses_what_is_no_file(void **state) {
    (void)state;
    struct berth_error error;
    assert_int_equal(file_write("/dev/null", "x", 1, &error), BERTH_CANT_CREATE);
    assert_int_equal(file_write(scratch_folder, "x", 1, &error), BERTH_CANT_CREATE);
    assert_message_has(&error, scratch_folder);
    assert_int_equal(file_write(scratch("no/such/folder"), "x", 1, &error), BERTH_CANT_CREATE);
    assert_message_has(&error, "No such file");
}

// --- folders ------------------------------------------------------------------------------------

static void test_what_may_be_replaced(void **state) {
    (void)state;
    static const char *const beginnings[] = {"{\"a\":", "B ", NULL};
    const struct file_kind kind = {"a test's file", beginnings};
    static const struct {
        const char *content;
        enum berth_status expected;
    } cases[] = {{"", BERTH_OK},
                 {"{\"a\":1}\n", BERTH_OK},
                 {"B ", BERTH_OK},
                 {"B", BERTH_CANT_CREATE},
                 {"{\"a\"", BERTH_CANT_CREATE},
                 {" {\"a\":1}", BERTH_CANT_CREATE},
                 {"C B ", BERTH_CANT_CREATE}};
    struct berth_error error;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch_write("output", cases[i].content);
        assert_int_equal(file_check_kind(scratch("output"), &kind, &error), cases[i].expected);
    }
    assert_non_null(strstr(error.message, "output exists and is not a test's file"));
    assert_int_equal(file_check_kind(scratch("absent"), &kind, &error), BERTH_OK);
    assert_int_equal(mkfifo(scratch("fifo"), 0666), 0);
    assert_int_equal(file_check_kind(scratch("fifo"), &kind, &error), BERTH_OK); // does not wait
    assert_int_equal(file_check_kind("/dev/null", &kind, &error), BERTH_OK);
    (void)file_fail_at(1, EIO);
    assert_int_equal(file_check_kind(scratch("output"), &kind, &error), BERTH_IO);
    (void)file_fail_at(2, EIO);
    assert_int_equal(file_check_kind(scratch("output"), &kind, &error), BERTH_IO);
    (void)file_fail_at(0, 0);
}

static void test_dir_make(void **state) {
    (void)state;
    struct berth_error error;
    assert_int_equal(dir_make(scratch("a/b//c/"), NULL), BERTH_OK);
    assert_int_equal(dir_make(scratch("a/b//c/"), NULL), BERTH_OK);
    assert_true(dir_exists(scratch("a/b/c")));
    assert_false(file_exists(scratch("a/b/c")));
    scratch_write("file", "");
    assert_true(file_exists(scratch("file")));
    assert_int_equal(dir_make(scratch("file/d"), &error), BERTH_CANT_CREATE);
    assert_int_equal(dir_make(scratch("file"), &error), BERTH_CANT_CREATE);
    assert_message_has(&error, scratch("file"));
}

static void test_dir_remove_created(void **state) {
    (void)state;
    assert_int_equal(dir_make(scratch("kept"), NULL), BERTH_OK);
    const size_t existing = dir_existing(scratch("kept/x//y/z/"));
    assert_int_equal(existing, strlen(scratch("kept")));
    assert_int_equal(dir_existing(scratch("kept")), existing);
    assert_int_equal(dir_existing("not-there/x"), 0);
    assert_int_equal(dir_make(scratch("kept/x//y/z/"), NULL), BERTH_OK);
    scratch_write("kept/x/file", "");
    dir_remove_created(scratch("kept/x//y/z/w"), existing); // w was never made
    assert_false(dir_exists(scratch("kept/x/y")));
    assert_true(file_exists(scratch("kept/x/file")));
    assert_int_equal(file_remove(scratch("kept/x/file"), NULL), BERTH_OK);
    dir_remove_created(scratch("kept/x"), existing);
    assert_true(dir_exists(scratch("kept")) && dir_is_empty(scratch("kept")));
}

// A function that refuses to write to a path, in a process of a user without privileges whose
// current folder is this one, with these rights. What is above it may be closed to that user.
static void refuse_another_user(enum berth_status (*act)(const char *, struct berth_error *),
                                const char *folder, mode_t rights, const char *path,
                                const char *says) {
    int status;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct berth_error error = {0};
        const int is_ready =
            chdir(folder) == 0 && chmod(".", rights) == 0 && (geteuid() != 0 || setuid(65534) == 0);
        const int is_refused = is_ready && act(path, &error) == BERTH_CANT_CREATE;
        _exit(is_refused && strstr(error.message, says) != NULL ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_dir_make_without_rights(void **state) {
    (void)state;
    assert_int_equal(mkdir(scratch("above"), 0700), 0);
    assert_int_equal(mkdir(scratch("above/locked"), 0500), 0);
    refuse_another_user(dir_make, scratch("above"), 0755, "locked/a", "Permission denied");
    refuse_another_user(dir_make, scratch("above"), 0755, "locked", "Permission denied");
}

static void test_dir_check_without_rights(void **state) {
    (void)state;
    assert_int_equal(mkdir(scratch("closed"), 0700), 0);
    refuse_another_user(dir_check, scratch("closed"), 0, "a/b",
                        "cannot write to the folder .: Permission denied");
    assert_int_equal(chmod(scratch("closed"), 0700), 0);
    assert_int_equal(mkdir(scratch("open"), 0700), 0);
    assert_int_equal(mkdir(scratch("open/read"), 0500), 0);
    refuse_another_user(dir_check, scratch("open"), 0755, "read/a",
                        "cannot write to the folder read: Permission denied");
}

static void test_dir_list_is_sorted(void **state) {
    (void)state;
    char **names;
    assert_true(dir_is_empty(scratch("none")));
    assert_true(dir_is_empty(scratch_folder));
    scratch_write("b", "");
    scratch_write("a", "");
    assert_int_equal(mkdir(scratch("c"), 0777), 0);
    assert_false(dir_is_empty(scratch_folder));
    assert_false(dir_is_empty(scratch("a")));
    assert_int_equal(dir_list(scratch_folder, &names, NULL), BERTH_OK);
    assert_string_equal(names[0], "a");
    assert_string_equal(names[1], "b");
    assert_string_equal(names[2], "c");
    assert_null(names[3]);
    memory_free(names);
    assert_int_equal(dir_list(scratch("none"), &names, NULL), BERTH_NO_INPUT);
}

static void test_dir_remove_follows_no_link(void **state) {
    (void)state;
    assert_int_equal(dir_make(scratch("kept/deep"), NULL), BERTH_OK);
    assert_int_equal(dir_make(scratch("gone/a/b"), NULL), BERTH_OK);
    scratch_write("kept/file", "x");
    scratch_write("gone/a/file", "x");
    assert_int_equal(symlink("../kept", scratch("gone/link")), 0);
    assert_int_equal(symlink("kept", scratch("link")), 0);
    assert_int_equal(dir_remove(scratch("gone"), NULL), BERTH_OK);
    assert_false(dir_exists(scratch("gone")));
    assert_int_equal(dir_remove(scratch("link"), NULL), BERTH_IO);
    assert_int_equal(dir_remove(scratch("link/"), NULL), BERTH_IO);
    assert_file_holds(scratch("kept/file"), "x");
    assert_int_equal(dir_remove(scratch("none"), NULL), BERTH_OK);
}

static void test_rename_of_a_link(void **state) {
    (void)state;
    struct berth_error error;
    assert_int_equal(dir_make(scratch("disk"), NULL), BERTH_OK);
    scratch_write("disk/file", "x");
    assert_int_equal(symlink("disk", scratch("link")), 0);
    assert_true(path_is_link(scratch("link")));
    assert_false(path_is_link(scratch("disk")) || path_is_link(scratch("none")));
    assert_int_equal(path_rename(scratch("link"), scratch("disk"), &error), BERTH_CANT_CREATE);
    assert_int_equal(path_rename(scratch("link"), scratch("other"), NULL), BERTH_OK);
    assert_true(path_is_link(scratch("other")) && !path_is_link(scratch("link")));
    assert_file_holds(scratch("other/file"), "x");
}

// The cause is the missing target, not that the link is there.
static void test_dir_check_of_a_dangling_link(void **state) {
    (void)state;
    static const char *const paths[] = {"dangling", "dangling/a/b"};
    struct berth_error error;
    assert_int_equal(symlink("absent", scratch("dangling")), 0);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_int_equal(dir_check(scratch(paths[i]), &error), BERTH_CANT_CREATE);
        assert_message_has(&error, "dangling is a symbolic link whose target is missing");
        assert_int_equal(dir_make(scratch(paths[i]), NULL), BERTH_CANT_CREATE);
    }
    assert_int_equal(mkdir(scratch("absent"), 0777), 0);
    assert_int_equal(dir_make(scratch("dangling/a/b"), NULL), BERTH_OK);
}

static void test_dir_remove_refuses_roots(void **state) {
    (void)state;
    static const char *const paths[] = {"", "/", "//", ".", "..", "a/..", "a/.", "./", "../"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_int_equal(dir_remove(paths[i], NULL), BERTH_USAGE);
    }
}

static void test_dir_remove_deep_tree_is_an_error(void **state) {
    (void)state;
    char path[512];
    struct berth_error error;
    snprintf(path, sizeof path, "%s", scratch("deep"));
    for (int i = 0; i < 40; i++) {
        strcat(path, "/d");
    }
    assert_int_equal(dir_make(path, NULL), BERTH_OK);
    assert_int_equal(dir_remove(scratch("deep"), &error), BERTH_IO);
    assert_message_has(&error, "nested");
    assert_int_equal(dir_remove(scratch("deep/d/d/d/d/d/d/d/d/d/d/d/d"), NULL), BERTH_OK);
}

static void test_dir_publish(void **state) {
    (void)state;
    struct berth_error error;
    assert_int_equal(dir_make(scratch("t/sub"), NULL), BERTH_OK);
    scratch_write("t/a", "1");
    scratch_write("t/sub/b", "2");
    assert_int_equal(dir_publish(scratch("t"), scratch("final"), NULL), BERTH_OK);
    assert_file_holds(scratch("final/sub/b"), "2");
    assert_false(dir_exists(scratch("t")));
    assert_int_equal(dir_make(scratch("t"), NULL), BERTH_OK);
    assert_int_equal(dir_publish(scratch("t"), scratch("final"), &error), BERTH_CANT_CREATE);
    assert_message_has(&error, "exists");
    assert_int_equal(mkdir(scratch("empty"), 0777), 0);
    assert_int_equal(dir_publish(scratch("t"), scratch("empty"), NULL), BERTH_CANT_CREATE);
}

static void test_path_in(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"/", "b", "/b"}, {"", "b", "b"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *path = path_join(cases[i][0], cases[i][1]);
        assert_string_equal(path, cases[i][2]);
        memory_free(path);
        assert_string_equal(path_in(cases[i][0], cases[i][1]).text, cases[i][2]);
    }
}

// FOLDER////, so long that with a name of one byte it is the longest path that the system allows. A
// longer name must not be cut to that of the file, nor its path to that of the folder.
static void test_long_paths(void **state) {
    (void)state;
    static const char *const longer[] = {"ab", "abc", "ab/c"};
    struct path folder = path_format("%s", scratch_folder);
    char *bytes;
    size_t length = strlen(folder.text);
    scratch_write("a", "1");
    memset(folder.text + length, '/', PATH_MAX - 2 - length);
    folder.text[PATH_MAX - 2] = '\0';
    assert_true(file_exists(path_in(folder.text, "a").text));
    for (size_t i = 0; i < sizeof longer / sizeof *longer; i++) {
        const struct path path = path_in(folder.text, longer[i]);
        assert_int_equal(file_read(path.text, 9, &bytes, &length, NULL), BERTH_NO_INPUT);
        assert_int_equal(errno, ENAMETOOLONG);
        assert_int_equal(dir_list(path_parent(path.text).text, &(char **){NULL}, NULL),
                         BERTH_NO_INPUT);
        assert_int_equal(dir_make(path.text, NULL), BERTH_CANT_CREATE);
    }
}

static void test_parts_of_paths(void **state) {
    (void)state;
    static const struct {
        const char *path, *name, *trimmed, *parent;
    } cases[] = {{"a", "a", "a", "."},        {"a/b", "b", "b", "a"},
                 {"a//b", "b", "b", "a"},     {"a/b//", "", "b", "a"},
                 {"/a", "a", "a", "/"},       {"/a/", "", "a", "/"},
                 {"../..", "..", "..", ".."}, {"/", "", "", "/"},
                 {"//", "", "", "/"},         {"", "", "", "."}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t length;
        const char *trimmed = path_name_trimmed(cases[i].path, &length);
        const struct path parent = path_parent(cases[i].path);
        assert_string_equal(path_name(cases[i].path), cases[i].name);
        assert_int_equal(length, strlen(cases[i].trimmed));
        assert_memory_equal(trimmed, cases[i].trimmed, length);
        assert_string_equal(parent.text, cases[i].parent);
    }
    assert_int_equal(path_length("a/b//"), 3);
    assert_int_equal(path_length("//"), 1);
}

// --- locks --------------------------------------------------------------------------------------

static void test_lock_names_its_holder(void **state) {
    (void)state;
    struct file_lock lock, second;
    struct berth_error error;
    char holder[64];
    snprintf(holder, sizeof holder, "pid %ld on ", (long)getpid());
    assert_int_equal(file_lock_acquire(&lock, scratch_folder, NULL), BERTH_OK);
    assert_int_equal(file_lock_acquire(&second, scratch_folder, &error), BERTH_CANT_CREATE);
    assert_message_has(&error, holder);
    assert_message_has(&error, scratch_folder);
    file_lock_release(&second);
    file_lock_release(&lock);
    file_lock_release(&lock);
    assert_int_equal(scratch_count(), 0);
    assert_int_equal(file_lock_acquire(&lock, scratch_folder, NULL), BERTH_OK);
    file_lock_release(&lock);
    assert_int_equal(file_lock_acquire(&lock, scratch("none"), &error), BERTH_CANT_CREATE);
}

// A child that was forked while the lock was held has the file open, too.
static void test_lock_is_free_while_a_child_lives(void **state) {
    (void)state;
    struct file_lock lock;
    int taken, ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(file_lock_try(&lock, scratch("p"), &taken, NULL), BERTH_OK);
    const pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1); // until the parent closes its end
    }
    file_lock_unlock(&lock);
    assert_int_equal(file_lock_try(&lock, scratch("p"), &taken, NULL), BERTH_OK);
    file_lock_unlock(&lock);
    close(ends[0]);
    close(ends[1]);
    waitpid(child, NULL, 0);
    assert_int_equal(taken, 1);
}

static void test_lock_that_is_lost_is_noticed(void **state) {
    (void)state;
    struct file_lock lock, second;
    struct berth_error error;
    assert_int_equal(dir_make(scratch("d"), NULL), BERTH_OK);
    assert_int_equal(file_lock_acquire(&lock, scratch("d"), NULL), BERTH_OK);
    assert_int_equal(file_lock_check(&lock, NULL), BERTH_OK);
    assert_int_equal(dir_remove(scratch("d"), NULL), BERTH_OK);
    assert_int_equal(file_lock_check(&lock, &error), BERTH_IO);
    assert_message_has(&error, scratch("d/.lock"));
    assert_int_equal(dir_make(scratch("d"), NULL), BERTH_OK);
    assert_int_equal(file_lock_acquire(&second, scratch("d"), NULL), BERTH_OK);
    assert_int_equal(file_lock_check(&lock, NULL), BERTH_IO);
    file_lock_release(&lock); // its own file is gone; this one is the second lock's
    assert_true(file_exists(scratch("d/.lock")));
    assert_int_equal(file_lock_check(&second, NULL), BERTH_OK);
    file_lock_release(&second);
    assert_false(file_exists(scratch("d/.lock")));
}

// As on Lustre without the mount option flock.
static void test_file_system_without_locks(void **state) {
    (void)state;
    static const int causes[] = {ENOSYS, ENOLCK, EOPNOTSUPP};
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++) {
        struct file_lock lock;
        int taken;
        file_fail_at(2, causes[i]); // the call after open
        assert_int_equal(file_lock_acquire(&lock, scratch_folder, NULL), BERTH_OK);
        assert_true(lock.unsupported);
        assert_int_equal(file_lock_check(&lock, NULL), BERTH_OK);
        file_lock_release(&lock);
        assert_int_equal(scratch_count(), 0);
        file_fail_at(2, causes[i]);
        assert_int_equal(file_lock_try(&lock, scratch("l"), &taken, NULL), BERTH_OK);
        assert_true(taken && lock.unsupported);
        file_lock_unlock(&lock);
        assert_int_equal(file_remove(scratch("l"), NULL), BERTH_OK);
    }
    struct file_lock lock;
    assert_int_equal(file_lock_acquire(&lock, scratch_folder, NULL), BERTH_OK);
    assert_false(lock.unsupported);
    file_lock_release(&lock);
    file_fail_at(2, EIO);
    assert_int_equal(file_lock_acquire(&lock, scratch_folder, NULL), BERTH_CANT_CREATE);
}

// As with a file server that does not answer for a while.
static void test_lock_that_cannot_be_examined_is_not_lost(void **state) {
    (void)state;
    struct file_lock lock;
    struct stat info;
    const char *folder = scratch("d");
    assert_int_equal(dir_make(folder, NULL), BERTH_OK);
    assert_int_equal(file_lock_acquire(&lock, folder, NULL), BERTH_OK);
    const pid_t child = fork();
    if (child == 0) {
        const int closed = chmod(folder, 0) == 0 && (geteuid() != 0 || setuid(65534) == 0) &&
                           stat(lock.path, &info) < 0 && errno == EACCES;
        _exit(closed && file_lock_check(&lock, NULL) == BERTH_OK ? 7 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 7);
    assert_int_equal(chmod(folder, 0700), 0);
    file_lock_release(&lock);
    assert_int_equal(dir_remove_empty(folder, NULL), BERTH_OK);
}

static void test_lock_of_a_dead_process_is_free(void **state) {
    (void)state;
    struct file_lock lock;
    pid_t child = fork();
    if (child == 0) {
        _exit(file_lock_acquire(&lock, scratch_folder, NULL) == BERTH_OK ? 7 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 7);
    assert_true(file_exists(scratch(".lock")));
    assert_int_equal(file_lock_acquire(&lock, scratch_folder, NULL), BERTH_OK);
    file_lock_release(&lock);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_read_whole_file),
        SCRATCH_TEST(test_read_errors_name_the_file),
        SCRATCH_TEST(test_pointers_of_git_lfs),
        SCRATCH_TEST(test_read_pipe),
        SCRATCH_TEST(test_read_fifo),
        SCRATCH_TEST(test_fifo_without_a_writer_is_an_error),
        SCRATCH_TEST(test_no_descriptor_left),
        SCRATCH_TEST(test_reader_at),
        SCRATCH_TEST(test_syncs_come_in_order),
        SCRATCH_TEST(test_what_lies_in_a_folder),
        SCRATCH_TEST(test_writer_replaces_on_commit_only),
        SCRATCH_TEST(test_writer_abort_leaves_nothing),
        SCRATCH_TEST(test_writers_are_committed_in_turn),
        SCRATCH_TEST(test_writer_large_and_small_pieces),
        SCRATCH_TEST(test_writer_printf_ignores_the_locale),
        SCRATCH_TEST(test_writer_refuses_what_is_no_file),
        SCRATCH_TEST(test_what_may_be_replaced),
        SCRATCH_TEST(test_dir_make),
        SCRATCH_TEST(test_dir_remove_created),
        SCRATCH_TEST(test_dir_make_without_rights),
        SCRATCH_TEST(test_dir_check_without_rights),
        SCRATCH_TEST(test_dir_list_is_sorted),
        SCRATCH_TEST(test_dir_remove_follows_no_link),
        SCRATCH_TEST(test_rename_of_a_link),
        SCRATCH_TEST(test_dir_check_of_a_dangling_link),
        SCRATCH_TEST(test_dir_remove_refuses_roots),
        SCRATCH_TEST(test_dir_remove_deep_tree_is_an_error),
        SCRATCH_TEST(test_dir_publish),
        SCRATCH_TEST(test_path_in),
        SCRATCH_TEST(test_long_paths),
        SCRATCH_TEST(test_parts_of_paths),
        SCRATCH_TEST(test_lock_names_its_holder),
        SCRATCH_TEST(test_lock_is_free_while_a_child_lives),
        SCRATCH_TEST(test_lock_that_is_lost_is_noticed),
        SCRATCH_TEST(test_file_system_without_locks),
        SCRATCH_TEST(test_lock_that_cannot_be_examined_is_not_lost),
        SCRATCH_TEST(test_lock_of_a_dead_process_is_free),
    };
    return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
