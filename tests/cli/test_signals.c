// SPDX-License-Identifier: Apache-2.0
// A signal that requests a stop leaves no trace in the code that it interrupts.
#include "cli/cli.h"
#include "core/harness.h"
#include "core/stop.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

// In place of the one in messages.c.
int cli_reports(void) {
    return 1;
}

// The message cannot be written, which sets errno.
static void a_signal_keeps_errno(void **state) {
    const atomic_int *stop = cli_stop_on_signals("saving");
    const int standard_error = dup(STDERR_FILENO);
    assert_true(standard_error >= 0 && close(STDERR_FILENO) == 0);
    errno = ENOENT;
    const int raised = raise(SIGTERM);
    const int kept = errno;
    assert_int_equal(dup2(standard_error, STDERR_FILENO), STDERR_FILENO);
    assert_int_equal(raised, 0);
    assert_int_equal(kept, ENOENT);
    assert_int_equal(*stop, STOP_AND_SAVE);
    assert_int_equal(cli_signal_exit_code(), 143);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_signal_keeps_errno)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
