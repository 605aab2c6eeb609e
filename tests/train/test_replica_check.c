// SPDX-License-Identifier: Apache-2.0
// A bit that changes in a device's memory is found, and its place is named (replica_check.h), in
// one process. BERTH_TEST_DEVICE: the device; the CPU by default. Several ranks:
// test_replica_check_ranks.c; from outside the process: tests/comm/test_flipped_bit.sh.
#include "core/harness.h"
#include "core/memory.h"
#include "settings/settings.h"
#include "train/engine/update.h"
#include "train/job/rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The word embeddings have more than one block of checksums.
static const struct bert_config shape = {.vocab_size = 1100,
                                         .hidden_size = 64,
                                         .num_hidden_layers = 1,
                                         .num_attention_heads = 2,
                                         .intermediate_size = 40,
                                         .max_position_embeddings = 16,
                                         .type_vocab_size = 2,
                                         .layer_norm_eps = 1e-12,
                                         .initializer_range = 0.02,
                                         .num_labels = 3};
enum { LENGTH = 8 };

static struct param_table table;

static int set_up(void **state) {
    return param_table_init(&table, &shape, PARAM_HEAD_CLASS, NULL) != BERTH_OK;
}

static int tear_down(void **state) {
    param_table_done(&table);
    return 0;
}

static struct packer_sequence get(const void *data, size_t index) {
    static const int32_t ids[LENGTH] = {1, 7, 300, 301, 2, 1099, 5, 5};
    static const int8_t types[LENGTH];
    return (struct packer_sequence){.ids = ids, .type_ids = types, .length = LENGTH, .label = 1};
}

// --- a process ----------------------------------------------------------------------------------

struct process {
    struct device *device;
    struct state state;
    struct engine engine;
    struct updater updater;
    int64_t updates;
};

static void initialise(struct state *state) {
    float *host = memory_array_zeroed((size_t)table.total, sizeof *host);
    assert_non_null(host);
    param_initialise(&table, &shape, 3, host, 1);
    state_set_weights(state, host);
    memory_free(host);
}

static void process_open(struct process *process, const char *kind, enum dtype compute) {
    const struct device_options options = {.threads = 2};
    const struct engine_shape largest = {.train = {LENGTH, 1, 0, LENGTH}};
    const struct state_sharding sharding = {.size = 1};
    struct settings config;
    struct berth_error error;
    *process = (struct process){.device = NULL};
    settings_init(&config);
    assert_int_equal(optimizer_settle(&config.optimizer, NULL), BERTH_OK);
    struct update_rules rules = update_rules_of(&config, &shape, table.head, DTYPE_F32);
    rules.check_every = 1000; // the memory is compared in every update, whatever it is
    const enum berth_status opened =
        strcmp(kind, "cpu") == 0 ? device_cpu_open(&options, &process->device, &error)
                                 : device_gpu_open(kind, &options, &process->device, &error);
    if (opened != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(
        state_init_sharded(&process->state, process->device, &table, compute, &sharding, NULL),
        BERTH_OK);
    initialise(&process->state);
    assert_int_equal(
        engine_init(&process->engine, &process->state, comm_self(), &shape, &largest, NULL),
        BERTH_OK);
    assert_int_equal(updater_init(&process->updater, &process->engine, &rules, 1, NULL), BERTH_OK);
}

static void process_close(struct process *process) {
    updater_finish(&process->updater);
    updater_done(&process->updater);
    engine_done(&process->engine);
    state_done(&process->state);
    process->device->close(process->device);
}

static enum berth_status update(struct process *process, struct berth_error *error) {
    const uint32_t order[] = {0};
    const struct packer_source source = {.get = get, .count = 1};
    const struct batching batching = {.micro = {INT64_MAX, 1, INT64_MAX, 0}};
    const struct update_args args = {.batching = &batching,
                                     .source = &source,
                                     .order = order,
                                     .count = 1,
                                     .step = process->updates,
                                     .rate = 1e-3};
    struct update_result result;
    *error = (struct berth_error){0};
    const enum berth_status status = update_run(&process->updater, &args, &result, error);
    process->updates += status == BERTH_OK;
    return status;
}

// --- bits ---------------------------------------------------------------------------------------

static const char *const kinds[] = {"master weight", "first moment", "second moment",
                                    "compute copy"};
enum { KINDS = sizeof kinds / sizeof *kinds, COPY = KINDS - 1 };

// Flips a bit of an element; the moments have the table's layout in one process.
static void flip(struct process *process, int kind, int64_t element, int bit) {
    const struct state *state = &process->state;
    struct device *device = process->device;
    void *const buffers[] = {state->master, state->moment1, state->moment2, state->copy};
    const size_t size = kind == COPY ? dtype_size(state->compute) : sizeof(float);
    char *address = (char *)buffers[kind] + (size_t)element * size;
    unsigned char number[sizeof(float)];
    device->download(device, number, address, size);
    number[bit / 8] ^= (unsigned char)(1 << bit % 8);
    device->upload(device, address, number, size);
}

static void check_flip(struct process *process, int kind, const char *name, int64_t element,
                       const char *elements) {
    const struct param *param = param_table_find(&table, name);
    struct berth_error error;
    char expected[200];
    assert_non_null(param);
    const int bit = (int)(element % 16);
    snprintf(expected, sizeof expected, "this process: the %s of %s, elements %s, changed in ",
             kinds[kind], name, elements);
    flip(process, kind, param->offset + element, bit);
    assert_int_equal(update(process, &error), BERTH_UNAVAILABLE);
    if (strncmp(error.message, expected, strlen(expected)) != 0) {
        fail_msg("expected: %s...; found: %s", expected, error.message);
    }
    assert_int_equal(update_check(&process->updater, process->updates, &error), BERTH_UNAVAILABLE);
    flip(process, kind, param->offset + element, bit);
    update_discard(&process->updater);
    assert_int_equal(update_check(&process->updater, process->updates, &error), BERTH_OK);
    assert_int_equal(update(process, &error), BERTH_OK);
}

// Elements on both sides of the border of two blocks, the last one, and one of a vector.
static void check_flips(const char *device, enum dtype compute) {
    static const char words[] = "bert.embeddings.word_embeddings.weight";
    static const char bias[] = "bert.encoder.layer.0.intermediate.dense.bias";
    struct process process;
    struct berth_error error;
    process_open(&process, device, compute);
    assert_int_equal(update(&process, &error), BERTH_OK);
    for (int kind = 0; kind < KINDS - (compute == DTYPE_F32); kind++) {
        const int64_t first = param_table_find(&table, words)->offset;
        const int64_t cut = DEVICE_SUM_BLOCK - first % DEVICE_SUM_BLOCK;
        const int64_t count = shape.vocab_size * shape.hidden_size;
        char elements[64];
        if (kind != COPY || first < table.matrix_count) {
            assert_true(cut < count);
            snprintf(elements, sizeof elements, "0 to %d", (int)cut - 1);
            check_flip(&process, kind, words, cut - 1, elements);
            snprintf(elements, sizeof elements, "%d to %d", (int)cut, (int)count - 1);
            check_flip(&process, kind, words, cut, elements);
            check_flip(&process, kind, words, count - 1, elements);
        }
        if (kind != COPY) {
            check_flip(&process, kind, bias, 39, "0 to 39");
        }
    }
    if (compute != DTYPE_F32) {
        check_flip(&process, COPY, "bert.encoder.layer.0.output.dense.weight", 2559, "0 to 2559");
    }
    process_close(&process);
}

static void bits_are_found_where_they_are(void **state) {
    const char *device = getenv("BERTH_TEST_DEVICE");
    check_flips(device != NULL ? device : "cpu", DTYPE_F32);
    check_flips(device != NULL ? device : "cpu", DTYPE_BF16);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bits_are_found_where_they_are)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
