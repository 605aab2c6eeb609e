// SPDX-License-Identifier: Apache-2.0
// AddressSanitizer sees what products read and write, although their loops are compiled without it
// (src/device/cpu/kernels/sanitizer.h): a product of each instruction set ends the process if one
// of its operands lacks its last number. Skipped without the sanitizer.
#include "core/harness.h"
#include "device/cpu/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

// A whole block of the kernels' rows and columns and some of the next ones; b has 48 + 16 columns.
enum { ROWS = 9, COLUMNS = 50, PACKED = 64, DEPTH = 20 };
enum operand { A, B, C, BIAS, OPERANDS, NONE = OPERANDS };

static void multiply(const struct kernels *kernels, enum operand lacking) {
    static const size_t counts[] = {ROWS * DEPTH, PACKED * DEPTH, ROWS * COLUMNS, COLUMNS};
    float *memory[OPERANDS];
    for (int i = 0; i < OPERANDS; i++) {
        memory[i] = calloc(counts[i] - ((int)lacking == i), sizeof(float));
    }
    struct product product =
        product_of_rows(mat_of(memory[C], ROWS, COLUMNS, DTYPE_F32),
                        mat_of(memory[A], ROWS, DEPTH, DTYPE_F32), memory[B], DEPTH);
    product.bias = memory[BIAS];
    kernels->product_f32(&product);
    for (int i = 0; i < OPERANDS; i++) {
        free(memory[i]);
    }
}

// The exit status of a process that multiplies.
static int status_of(const struct kernels *kernels, enum operand lacking) {
    int status;
    fflush(NULL);
    const pid_t process = fork();
    if (process == 0) {
        if (freopen("/dev/null", "w", stderr) != NULL) { // the sanitizer's report
            multiply(kernels, lacking);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(process, &status, 0), process);
    return status;
}

static void test_memory_that_is_too_small_is_seen(void **state) {
#if !defined(__SANITIZE_ADDRESS__)
    print_message("built without AddressSanitizer\n");
    skip();
#endif
    const struct kernels *kernels = kernels_choose(*state, NULL);
    if (kernels == NULL) {
        skip(); // this processor lacks the instructions
    }
    assert_int_equal(status_of(kernels, NONE), 0);
    for (int i = 0; i < OPERANDS; i++) {
        assert_int_not_equal(status_of(kernels, (enum operand)i), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        EACH_INSTRUCTION_SET(test_memory_that_is_too_small_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
