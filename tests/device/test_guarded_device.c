// SPDX-License-Identifier: Apache-2.0
// Tests that the guarded device detects what it is for: host access to the device's memory,
// operands that do not exist or are too long, and blocks that are freed wrongly or never.
#include "core/harness.h"
#include "guarded_device.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 64 };

static struct device *opened(void) {
    const struct device_options options = {.threads = 1, .instructions = NULL};
    struct device *dev = NULL;
    assert_int_equal(device_gpu_open("guarded", &options, &dev, NULL), BERTH_OK);
    return dev;
}

typedef void misuse(struct device *dev, float *block);

// Returns the signal that ends a process that does this, 0 for none; `output` is what it writes to
// standard error.
static int run_misuse(misuse *use, char output[200]) {
    int pipe_ends[2];
    memset(output, 0, 200);
    assert_int_equal(pipe(pipe_ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGSEGV, SIG_DFL); // a sanitizer's handler would report it
        signal(SIGABRT, SIG_DFL);
        dup2(pipe_ends[1], STDERR_FILENO);
        struct device *dev = opened();
        use(dev, dev->memory_new(dev, COUNT * sizeof(float)));
        _exit(0);
    }
    close(pipe_ends[1]);
    assert_true(read(pipe_ends[0], output, 199) >= 0);
    close(pipe_ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void read_by_host(struct device *dev, float *block) {
    volatile float x = block[COUNT / 2];
    (void)x;
}

static void written_by_host(struct device *dev, float *block) {
    ((volatile float *)block)[0] = 1;
}

static void read_after_free(struct device *dev, float *block) {
    dev->memory_free(dev, block, COUNT * sizeof *block);
    float *other = dev->memory_new(dev, COUNT * sizeof *block);
    dev->zero(dev, other, COUNT * sizeof *block);
    volatile float x = block[0];
    (void)x;
}

static void zero_after_free(struct device *dev, float *block) {
    dev->memory_free(dev, block, COUNT * sizeof *block);
    dev->zero(dev, block, sizeof *block);
}

static void zero_too_far(struct device *dev, float *block) {
    dev->zero(dev, block + 1, COUNT * sizeof *block);
}

static void upload_from_device(struct device *dev, float *block) {
    dev->upload(dev, block, block + 1, sizeof *block);
}

static void download_to_device(struct device *dev, float *block) {
    dev->download(dev, block, block + 1, sizeof *block);
}

static void operand_of_host(struct device *dev, float *block) {
    double sum = 0;
    dev->add_losses(dev, &sum, block, COUNT, 1);
}

static void matrix_too_long(struct device *dev, float *block) {
    struct mat to = {block, COUNT / 8, 8, 9, DTYPE_F32};
    dev->convert(dev, to, block);
}

static void vector_too_long(struct device *dev, float *block) {
    struct mat y = mat_of(block, 1, COUNT, DTYPE_F32);
    dev->linear_forward(dev, y, mat_rows(y, 0, 1), y, block + 1);
}

static void freed_in_part(struct device *dev, float *block) {
    dev->memory_free(dev, block, COUNT);
}

static void never_freed(struct device *dev, float *block) {
    dev->close(dev);
}

static void misuse_ends_the_program(void **state) {
    static const struct {
        misuse *use;
        int signal;
        const char *output;
    } misuses[] = {
        {read_by_host, SIGSEGV, ""},
        {written_by_host, SIGSEGV, ""},
        {read_after_free, SIGSEGV, ""},
        {zero_after_free, SIGABRT, "zero: block is not in the device's memory\n"},
        {zero_too_far, SIGABRT, "zero: block reaches 4 bytes past the end of its block\n"},
        {upload_from_device, SIGABRT, "upload: from_host is in the device's memory\n"},
        {download_to_device, SIGABRT, "download: to_host is in the device's memory\n"},
        {operand_of_host, SIGABRT, "add_losses: sum is not in the device's memory\n"},
        {matrix_too_long, SIGABRT, "convert: to reaches 28 bytes past the end of its block\n"},
        {vector_too_long, SIGABRT, "linear_forward: bias reaches 4 bytes past the end of its"},
        {freed_in_part, SIGABRT, "memory_free: no block of 64 bytes begins there\n"},
        {never_freed, SIGABRT, "close: 1 blocks of the device are not freed\n"},
    };
    for (size_t i = 0; i < sizeof misuses / sizeof *misuses; i++) {
        char output[200];
        assert_int_equal(run_misuse(misuses[i].use, output), misuses[i].signal);
        if (strncmp(output, misuses[i].output, strlen(misuses[i].output)) != 0) {
            fail_msg("found \"%s\", expected \"%s\"", output, misuses[i].output);
        }
    }
}

static void good_use(void **state) {
    struct device *dev = opened();
    float numbers[COUNT], again[COUNT];
    for (int i = 0; i < COUNT; i++) {
        numbers[i] = (float)i;
    }
    float *block = dev->memory_new(dev, sizeof numbers);
    dev->download(dev, again, block, sizeof again);
    for (int i = 0; i < COUNT; i++) {
        assert_true(again[i] == 0);
    }
    dev->upload(dev, block, numbers, sizeof numbers);
    dev->zero(dev, block + 1, sizeof *block);
    dev->convert(dev, mat_of(block + COUNT / 2, 1, COUNT / 2, DTYPE_F32), block);
    dev->download(dev, again, block, sizeof again);
    assert_true(again[0] == 0 && again[1] == 0 && again[2] == 2 &&
                again[COUNT - 1] == COUNT / 2 - 1);
    assert_int_equal(dev->is_host, 0);
    assert_int_equal(dev->status(dev, NULL), BERTH_OK);
    assert_int_equal(guarded_translation(dev)->calls[OPERATION_convert], 1);
    dev->memory_free(dev, block, sizeof numbers);
    dev->memory_free(dev, NULL, 0);
    dev->close(dev);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(misuse_ends_the_program),
        cmocka_unit_test(good_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
