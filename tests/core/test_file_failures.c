// SPDX-License-Identifier: Apache-2.0
// Every system call of a job fails once, with a full disk, an interrupt and a kill: afterwards the
// file is the old one or the complete new one, never a mix; temporary files stay only after a kill.
#include "core/scratch.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

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

static void assert_no_temporary(const char *folder) {
    char **names;
    if (!dir_exists(folder)) {
        return;
    }
    assert_int_equal(dir_list(folder, &names, NULL), BERTH_OK);
    for (size_t i = 0; names[i] != NULL; i++) {
        assert_null(strstr(names[i], ".tmp"));
    }
    memory_free(names);
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
    int call, succeeded = 0;
    for (call = 1; call <= 40; call++) {
        prepare();
        file_fail_at((uint64_t)call, EINTR);
        succeeded += job(NULL) == BERTH_OK;
        assert_old_or_new();
        assert_no_temporary(scratch_folder);
    }
    assert_in_range(succeeded, 20,
                    40); // open, write and fsync are repeated; rename never returns EINTR
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
    assert_in_range(call, 10, CALL_LIMIT - 1);
}

static void test_failure_of_reading_and_listing(void **state) {
    (void)state;
    enum berth_status status = BERTH_IO;
    scratch_write("a", "old");
    for (uint64_t call = 1; call < CALL_LIMIT && status != BERTH_OK; call++) {
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

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_full_disk_at_every_call),
        SCRATCH_TEST(test_interrupt_at_every_call),
        SCRATCH_TEST(test_kill_at_every_call),
        SCRATCH_TEST(test_memory_out_at_every_allocation),
        SCRATCH_TEST(test_failure_of_reading_and_listing),
        SCRATCH_TEST(test_every_put_after_a_failure_fails),
    };
    return cmocka_run_group_tests_name("file failures", tests, NULL, NULL);
}
