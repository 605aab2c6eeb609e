// SPDX-License-Identifier: Apache-2.0
// Tests what a training step allocates once its shapes have occurred: Berth itself nothing, and the
// libraries little, which they free. Skipped with sanitizers, which have allocators of their own.
#include "core/harness.h"
#include "core/heap_meter.h"
#include "core/memory.h"
#include "harness.h"

// --- steps --------------------------------------------------------------------------------------

#define SEQUENCES 12
#define STEPS 2
#define BOOKKEEPING (64 * 1024) // bytes of OpenMP's small blocks, per thread

static const int64_t lengths[SEQUENCES] = {384, 30, 129, 31, 1, 200, 17, 190, 248, 96, 133, 177};
static const struct bert_dropout dropout = {
    .seed = 7, .step = 5, .hidden_probability = 0.1, .attention_probability = 0.1};

static void step(struct harness *harness, const struct batch *batch) {
    bert_forward(&harness->model, harness->activations, batch, &dropout);
    bert_backward(&harness->model, harness->activations, batch, &dropout, 1, NULL);
}

static void count_steps(struct harness *harness, const struct batch *batch, long long allowed) {
    step(harness, batch);
    for (int i = 0; i < STEPS; i++) {
        const long long before = atomic_load(&heap_live);
        atomic_store(&heap_peak, before);
        atomic_store(&heap_mappings, 0);
        memory_fail_at(0, 0);
        step(harness, batch);
        assert_int_equal(memory_fail_at(0, 0), 0); // Berth's own allocations
        assert_int_equal(atomic_load(&heap_mappings), 0);
        assert_int_equal(atomic_load(&heap_live), before);
        assert_true(atomic_load(&heap_peak) - before <= allowed);
    }
}

// Returns 0 if the processor lacks the instructions.
static int check_steps(const struct bert_config *config, enum dtype compute, int threads,
                       const char *instructions) {
    const struct harness_options options = {.compute = compute,
                                            .threads = threads,
                                            .instructions = instructions,
                                            .max_rows = 1664,
                                            .max_sequences = SEQUENCES,
                                            .max_length = 384};
    struct harness harness;
    if (!harness_open(&harness, config, &options)) {
        return 0;
    }
    float *parameters = random_parameters(&harness.table, 1);
    harness_load(&harness, parameters);
    free(parameters);
    struct reference_sequence *sequences = sequences_new(config, lengths, SEQUENCES, 0, 2);
    struct packed *packed = packed_new(sequences, SEQUENCES);
    count_steps(&harness, harness_batch(&harness, packed), (long long)BOOKKEEPING * threads);
    print_message("%s %s, %d threads, I %d: at most %lld bytes\n", instructions,
                  dtype_name(compute), threads, (int)config->intermediate_size,
                  (long long)(atomic_load(&heap_peak) - atomic_load(&heap_live)));
    packed_free(packed);
    sequences_free(sequences);
    harness_close(&harness);
    return 1;
}

static void check_all(enum dtype compute, const char *instructions) {
    if (!HEAP_METER_COUNTS) {
        print_message("skipped: the allocator of a sanitizer, or not of glibc\n");
        skip();
    }
    static const struct {
        int64_t hidden, heads, inner;
        int threads;
    } shapes[] = {{48, 3, 100, 1}, {384, 6, 1536, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct bert_config config =
            tiny_config(shapes[i].hidden, shapes[i].heads, shapes[i].inner, 1);
        if (!check_steps(&config, compute, shapes[i].threads, instructions)) {
            print_message("skipped: this processor does not run %s\n", instructions);
            skip();
        }
    }
}

static void f32(void **state) {
    check_all(DTYPE_F32, "generic");
}

static void f32_of_avx512(void **state) {
    check_all(DTYPE_F32, "avx512");
}

static void bf16_native(void **state) {
    check_all(DTYPE_BF16, "avx512bf16");
}

static void bf16_as_f32(void **state) {
    check_all(DTYPE_BF16, "avx2");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32),
        cmocka_unit_test(f32_of_avx512),
        cmocka_unit_test(bf16_native),
        cmocka_unit_test(bf16_as_f32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
