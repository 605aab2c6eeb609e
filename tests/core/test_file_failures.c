// SPDX-License-Identifier: Apache-2.0
// Each system call of a job fails in turn, as on a full disk, by a signal and by a kill: afterwards
// the file is the old one or the complete new one, never a mix, and temporary files remain only
// after a kill.
#include "core/file_partial.h"
#include "core/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALL_LIMIT = 1000 }; // more calls than any job below makes

#define NEW_SIZE ((size_t)600 << 10) // more than one buffer

static char *new_content(void) {
    static char text[NEW_SIZE + 1];
    memset(text, 'n', NEW_SIZE);
    return text;
}

// Replaces "a" and publishes the folder "t" as "final".
static enum berth_status job(struct berth_error *error) {
    struct file_writer writer;
    TRY(file_writer_open(&writer, scratch("a"), error));
    for (size_t at = 0; at < NEW_SIZE; at += NEW_SIZE / 6) {
        file_writer_put(&writer, new_content() + at, NEW_SIZE / 6, error);
    }
    TRY(file_writer_commit(&writer, error));
    TRY(dir_make(scratch("t/sub"), error));
    TRY(file_write(scratch("t/sub/b"), "b", 1, error));
    return dir_publish(scratch("t"), scratch("final"), error);
}

static void prepare(void) {
    file_fail_at(0, 0);
    assert_int_equal(dir_remove(scratch("t"), NULL), BERTH_OK);
    assert_int_equal(dir_remove(scratch("final"), NULL), BERTH_OK);
    scratch_write("a", "old");
}

static void assert_old_or_new(void) {
    char *bytes;
    size_t length;
    file_fail_at(0, 0);
    assert_int_equal(file_read(scratch("a"), NEW_SIZE, &bytes, &length, NULL), BERTH_OK);
    assert_string_equal(bytes, length == 3 ? "old" : new_content());
    memory_free(bytes);
    if (dir_exists(scratch("final"))) {
        assert_file_holds(scratch("final/sub/b"), "b");
    }
}

// The number of calls that the job makes.
static int count_calls(void) {
    prepare();
    file_fail_at(0, 0);
    assert_int_equal(job(NULL), BERTH_OK);
    const int calls = (int)file_fail_at(0, 0);
    assert_in_range(calls, 20, CALL_LIMIT);
    return calls;
}

static void test_full_disk_at_every_call(void **state) {
    (void)state;
    struct berth_error error;
    enum berth_status status = BERTH_IO;
    int call;
    for (call = 1; call < CALL_LIMIT && status != BERTH_OK; call++) {
        prepare();
        error.message[0] = '\0';
        file_fail_at((uint64_t)call, ENOSPC);
        status = job(&error);
        assert_old_or_new();
        assert_no_temporary(scratch_folder);
        assert_no_temporary(scratch("t/sub"));
        if (status != BERTH_OK) {
            assert_int_equal(status, BERTH_IO);
            assert_int_equal(error.status, BERTH_IO);
            assert_message_has(&error, "No space left on device");
            assert_message_has(&error, scratch_folder);
        }
    }
    assert_in_range(call, 20, CALL_LIMIT - 1);
    assert_true(dir_exists(scratch("final")));
}

static void test_interrupt_at_every_call(void **state) {
    (void)state;
    const int calls = count_calls();
    int succeeded = 0;
    for (int call = 1; call <= calls; call++) {
        prepare();
        file_fail_at((uint64_t)call, EINTR);
        succeeded += job(NULL) == BERTH_OK;
        assert_old_or_new();
        assert_no_temporary(scratch_folder);
    }
    // Opening, reading, writing and syncing are repeated. The others never return EINTR: they make,
    // look at, rename and list folders and files.
    assert_in_range(calls - succeeded, 13, 14); // 14 on file systems without renameat2
}

static void test_kill_at_every_call(void **state) {
    (void)state;
    int call, killed = 1;
    for (call = 1; call < CALL_LIMIT && killed; call++) {
        int status;
        prepare();
        pid_t child = fork();
        if (child == 0) {
            file_fail_at((uint64_t)call, -1);
            _exit(job(NULL));
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        assert_true(killed || (WIFEXITED(status) && WEXITSTATUS(status) == BERTH_OK));
        assert_old_or_new();
    }
    assert_in_range(call, 20, CALL_LIMIT - 1);
}

// A job that runs out of memory anywhere also leaves nothing (the sanitizer reports leaks).
static void test_memory_out_at_every_allocation(void **state) {
    (void)state;
    enum berth_status status = BERTH_NO_MEMORY;
    int call;
    for (call = 1; call < CALL_LIMIT && status != BERTH_OK; call++) {
        prepare();
        memory_fail_at((uint64_t)call, 0);
        status = job(NULL);
        memory_fail_at(0, 0);
        assert_true(status == BERTH_OK || status == BERTH_NO_MEMORY);
        assert_old_or_new();
        assert_no_temporary(scratch_folder);
    }
    // Each of the two files needs its path, its temporary path and a buffer; folders need nothing.
    assert_int_equal(call - 2, 2 * 3);
}

static void test_failure_of_reading_and_listing(void **state) {
    (void)state;
    enum berth_status status = BERTH_IO;
    uint64_t call;
    scratch_write("a", "old");
    for (call = 1; call < CALL_LIMIT && status != BERTH_OK; call++) {
        char *bytes = NULL, **names = NULL;
        size_t length;
        file_fail_at(call, EIO);
        status = file_read(scratch("a"), 10, &bytes, &length, NULL);
        if (status == BERTH_OK) {
            status = dir_list(scratch_folder, &names, NULL);
        }
        memory_free(bytes);
        memory_free(names);
        assert_true(status == BERTH_OK || status == BERTH_IO || status == BERTH_NO_INPUT);
    }
    assert_int_equal(status, BERTH_OK);
    assert_in_range(call, 10, CALL_LIMIT - 1);
}

// The first failure sticks, so a series of puts may be checked at its end.
static void test_every_put_after_a_failure_fails(void **state) {
    (void)state;
    struct file_writer writer;
    struct berth_error error;
    scratch_write("a", "old");
    assert_int_equal(file_writer_open(&writer, scratch("a"), NULL), BERTH_OK);
    file_fail_at(1, ENOSPC);
    assert_int_equal(file_writer_put(&writer, new_content(), NEW_SIZE, NULL), BERTH_IO);
    assert_int_equal(file_writer_put(&writer, "x", 1, NULL), BERTH_IO);
    assert_int_equal(file_writer_printf(&writer, NULL, "x"), BERTH_IO);
    assert_int_equal(file_writer_commit(&writer, &error), BERTH_IO);
    assert_message_has(&error, "No space left on device");
    assert_file_holds(scratch("a"), "old");
    assert_int_equal(scratch_count(), 1);
}

// --- other jobs ---------------------------------------------------------------------------------

// A file system may be unable to sync folders, or to rename to a new name only.
static void test_calls_that_file_systems_lack(void **state) {
    (void)state;
    enum { FOLDER_SYNCS = 7, RENAMES = 1 }; // of the job
    static const struct {
        int errno_value, harmless;
    } lacks[] = {{EINVAL, FOLDER_SYNCS + RENAMES}, {ENOSYS, RENAMES}, {ENOTSUP, FOLDER_SYNCS}};
    const int calls_of_job = count_calls();
    for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++) {
        int succeeded = 0;
        for (int call = 1; call <= calls_of_job; call++) {
            prepare();
            file_fail_at((uint64_t)call, lacks[i].errno_value);
            succeeded += job(NULL) == BERTH_OK;
            assert_old_or_new();
        }
        assert_int_equal(succeeded, lacks[i].harmless);
    }
    // Without such a rename, a separate check finds a folder of that name.
    uint64_t calls, call = 0;
    do {
        struct berth_error error;
        call++;
        prepare();
        assert_int_equal(dir_make(scratch("t"), NULL), BERTH_OK);
        assert_int_equal(dir_make(scratch("final/sub"), NULL), BERTH_OK);
        scratch_write("final/sub/b", "b");
        file_fail_at(call, ENOSYS);
        assert_int_not_equal(dir_publish(scratch("t"), scratch("final"), &error), BERTH_OK);
        calls = file_fail_at(0, 0);
        assert_file_holds(scratch("final/sub/b"), "b");
    } while (calls >= call);
}

static enum berth_status partial_job(struct berth_error *error) {
    struct file_partial partial;
    TRY(file_partial_open(&partial, scratch("part"), error));
    enum berth_status status = file_partial_put(&partial, "half", 4, error);
    status = status == BERTH_OK ? file_partial_restart(&partial, error) : status;
    status = status == BERTH_OK ? file_partial_put(&partial, "whole", 5, error) : status;
    status = status == BERTH_OK ? file_partial_publish(&partial, scratch("final"), error) : status;
    file_partial_close(&partial);
    return status;
}

static enum berth_status link_job(struct berth_error *error) {
    return file_link("a", scratch("final"), error);
}

static enum berth_status copy_job(struct berth_error *error) {
    return file_copy(scratch("a"), scratch("final"), error);
}

static enum berth_status try_lock_job(struct berth_error *error) {
    struct file_lock lock;
    int taken;
    const enum berth_status status = file_lock_try(&lock, scratch("lock"), &taken, error);
    assert_int_equal(taken, status == BERTH_OK);
    file_lock_unlock(&lock);
    return status;
}

static enum berth_status lock_job(struct berth_error *error) {
    struct file_lock lock;
    TRY(file_lock_acquire(&lock, scratch_folder, error));
    const enum berth_status status = file_lock_check(&lock, error);
    file_lock_release(&lock);
    return status;
}

static enum berth_status list_job(struct berth_error *error) {
    char **names = NULL;
    const enum berth_status status = dir_list(scratch_folder, &names, error);
    assert_true((names != NULL) == (status == BERTH_OK));
    memory_free(names);
    return status;
}

static enum berth_status remove_job(struct berth_error *error) {
    TRY(dir_make(scratch("t"), error));
    TRY(file_write(scratch("t/b"), "b", 1, error));
    TRY(file_remove(scratch("t/b"), error));
    return dir_remove_empty(scratch("t"), error);
}

static enum berth_status ranges_job(struct berth_error *error) {
    struct file_ranges ranges;
    TRY(file_ranges_make(scratch("part"), "head", 4, 10, error));
    TRY(file_ranges_open(&ranges, scratch("part"), error));
    TRY(file_ranges_close(&ranges, file_ranges_put(&ranges, 4, "middle", 6, error), error));
    return file_publish(scratch("part"), scratch("final"), error);
}

static enum berth_status stream_job(struct berth_error *error) {
    int descriptor;
    (void)symlink("/dev/null", scratch("null"));
    const enum berth_status status = file_open_stream(scratch("null"), &descriptor, error);
    if (status == BERTH_OK) {
        assert_int_equal(close(descriptor), 0);
    }
    return status;
}

// Each call of a job fails in turn: the job succeeds, or its error has the cause and a path.
static void fail_everywhere(enum berth_status (*act)(struct berth_error *error), int errno_value) {
    uint64_t calls, call = 0, failed = 0;
    do {
        struct berth_error error = {0};
        call++;
        (void)unlink(scratch("final"));
        (void)unlink(scratch("part"));
        prepare();
        file_fail_at(call, errno_value);
        const enum berth_status status = act(&error);
        calls = file_fail_at(0, 0);
        if (status != BERTH_OK) {
            failed++;
            assert_message_has(&error, strerror(errno_value));
            assert_message_has(&error, scratch_folder);
        }
        assert_no_temporary(scratch_folder);
    } while (calls >= call);
    assert_true(failed > 0 || errno_value == EINTR); // interrupted calls may all be repeated
    (void)unlink(scratch("final"));
    prepare();
    assert_int_equal(act(NULL), BERTH_OK);
    (void)unlink(scratch("final"));
}

static enum berth_status (*const jobs[])(struct berth_error *error) = {
    partial_job, link_job,   copy_job,   try_lock_job, lock_job,
    list_job,    remove_job, ranges_job, stream_job};

static void test_every_other_job_without_memory(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        uint64_t made, call = 0;
        do {
            (void)unlink(scratch("final"));
            (void)unlink(scratch("part"));
            prepare();
            memory_fail_at(++call, 0);
            const enum berth_status status = jobs[i](NULL);
            made = memory_fail_at(0, 0);
            assert_true(status == (made >= call ? BERTH_NO_MEMORY : BERTH_OK));
        } while (made >= call);
    }
}

static void test_every_other_job(void **state) {
    (void)state;
    static const int errors[] = {EIO, EINTR, ENOSPC, EEXIST};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        for (size_t k = 0; k < sizeof errors / sizeof *errors; k++) {
            if (errors[k] != EEXIST || jobs[i] == link_job) {
                fail_everywhere(jobs[i], errors[k]);
            }
        }
    }
}

// A process that writes to a FIFO, keeps it open until all is read, and closes it.
static pid_t start_writer(const char *path) {
    const int ends = open(path, O_RDWR | O_NONBLOCK);
    assert_int_equal(write(ends, "text", 4), 4);
    const pid_t child = fork();
    for (int unread = 4; child == 0 && unread > 0;) {
        usleep(1000);
        ioctl(ends, FIONREAD, &unread);
    }
    if (child == 0) {
        _exit(0);
    }
    close(ends);
    return child;
}

static void test_a_pipe_at_every_call(void **state) {
    (void)state;
    enum berth_status status = BERTH_IO;
    uint64_t call;
    assert_int_equal(mkfifo(scratch("fifo"), 0600), 0);
    for (call = 1; call < 20 && status != BERTH_OK; call++) {
        struct berth_error error = {0};
        char *bytes = NULL;
        size_t length;
        const pid_t writer = start_writer(scratch("fifo"));
        file_fail_at(call, EIO);
        status = file_read(scratch("fifo"), 99, &bytes, &length, &error);
        file_fail_at(0, 0);
        kill(writer, SIGKILL); // if nothing was read
        assert_int_equal(waitpid(writer, NULL, 0), writer);
        if (status == BERTH_OK) {
            assert_string_equal(bytes, "text");
        } else {
            assert_message_has(&error, scratch("fifo"));
        }
        memory_free(bytes);
    }
    assert_int_equal(status, BERTH_OK);
    assert_in_range(call, 5, 20);
}

// What is read from a pipe is limited, too.
static void test_a_pipe_that_is_too_long(void **state) {
    (void)state;
    struct berth_error error;
    char *bytes;
    size_t length;
    for (int fits = 0; fits < 2; fits++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        assert_int_equal(write(ends[1], "0123456789", 10), 10);
        close(ends[1]);
        const enum berth_status status =
            file_read_stream(ends[0], "standard input", fits ? 10 : 9, &bytes, &length, &error);
        close(ends[0]);
        assert_int_equal(status, fits ? BERTH_OK : BERTH_BAD_DATA);
        if (!fits) {
            assert_message_has(&error, "standard input: larger than the limit of 9 bytes");
        } else {
            assert_int_equal(length, 10);
            memory_free(bytes);
        }
    }
}

// After an open that failed, every other call fails, too, and does no harm.
static void test_a_writer_that_did_not_open(void **state) {
    (void)state;
    struct file_writer writer;
    assert_int_equal(file_writer_open(&writer, scratch("none/a"), NULL), BERTH_CANT_CREATE);
    assert_int_not_equal(file_writer_put(&writer, "x", 1, NULL), BERTH_OK);
    assert_int_not_equal(file_writer_printf(&writer, NULL, "x"), BERTH_OK);
    assert_int_not_equal(file_writer_commit(&writer, NULL), BERTH_OK);
    file_writer_abort(&writer);
    assert_int_equal(scratch_count(), 0);
}

static void test_a_long_line_without_memory(void **state) {
    (void)state;
    struct file_writer writer;
    struct berth_error error;
    assert_int_equal(file_writer_open(&writer, scratch("a"), NULL), BERTH_OK);
    memory_fail_at(1, 0);
    assert_int_equal(file_writer_printf(&writer, NULL, "%01000d", 1), BERTH_NO_MEMORY);
    memory_fail_at(0, 0);
    assert_int_equal(file_writer_commit(&writer, &error), BERTH_NO_MEMORY);
    assert_message_has(&error, "out of memory while writing");
    assert_int_equal(scratch_count(), 0);
}

static void test_what_is_no_file_or_folder(void **state) {
    (void)state;
    struct file_partial partial;
    struct file_stamp stamp;
    struct berth_error error;
    char path[5001];
    scratch_write("a", "old");
    assert_int_equal(mkfifo(scratch("fifo"), 0600), 0);
    const int reader = open(scratch("fifo"), O_RDONLY | O_NONBLOCK);
    assert_int_equal(file_partial_open(&partial, scratch("fifo"), &error), BERTH_CANT_CREATE);
    assert_message_has(&error, "not a regular file");
    close(reader);
    assert_int_equal(file_stamp_of(scratch("fifo"), &stamp, &error), BERTH_NO_INPUT);
    assert_int_equal(file_stamp_of(scratch("none"), &stamp, &error), BERTH_NO_INPUT);
    assert_message_has(&error, "expected a file");
    assert_int_not_equal(dir_remove(scratch("a/b"), &error), BERTH_OK);
    assert_message_has(&error, strerror(ENOTDIR));
    assert_int_equal(dir_remove_empty(scratch("a"), &error), BERTH_CANT_CREATE);
    assert_int_equal(dir_remove_empty(scratch("none"), &error), BERTH_OK);
    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_int_equal(dir_remove(path, &error), BERTH_USAGE);
    assert_message_has(&error, "cannot remove aaa");
    assert_null(file_resolve(scratch("none")));
    file_fail_at(1, EIO);
    assert_false(dir_is_empty(scratch_folder));
    file_fail_at(0, 0);
    assert_true(dir_free_bytes(scratch("none")) == UINT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_calls_that_file_systems_lack),
        SCRATCH_TEST(test_every_other_job),
        SCRATCH_TEST(test_every_other_job_without_memory),
        SCRATCH_TEST(test_a_pipe_at_every_call),
        SCRATCH_TEST(test_a_pipe_that_is_too_long),
        SCRATCH_TEST(test_a_writer_that_did_not_open),
        SCRATCH_TEST(test_a_long_line_without_memory),
        SCRATCH_TEST(test_what_is_no_file_or_folder),
        SCRATCH_TEST(test_full_disk_at_every_call),
        SCRATCH_TEST(test_interrupt_at_every_call),
        SCRATCH_TEST(test_kill_at_every_call),
        SCRATCH_TEST(test_memory_out_at_every_allocation),
        SCRATCH_TEST(test_failure_of_reading_and_listing),
        SCRATCH_TEST(test_every_put_after_a_failure_fails),
    };
    return cmocka_run_group_tests_name("file failures", tests, NULL, NULL);
}
