// SPDX-License-Identifier: Apache-2.0
// Optimizer state in parts (train/optimizer/partition.h): the parts cover the table; two ranks with
// a part each update as one process with the whole does, to the bit; a file of moments is the same
// whoever wrote it, and any number of ranks reads it. The same for weights, of which each rank
// keeps a part.
#include "comm/job.h"
#include "core/harness.h"
#include "core/memory.h"
#include "core/rng.h"
#include "core/scratch.h"
#include "model/folder.h"
#include "settings/settings.h"
#include "train/checkpoint/state_file.h"
#include "train/optimizer/optimizer_plan.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// A square matrix is one block of sums, so cuts are possible; the others are not whole blocks, so
// blocks of tensors and of the buffer do not start together everywhere.
static const struct bert_config shape = {.vocab_size = 900,
                                         .hidden_size = 256,
                                         .num_hidden_layers = 2,
                                         .num_attention_heads = 4,
                                         .intermediate_size = 1000,
                                         .max_position_embeddings = 64,
                                         .type_vocab_size = 2,
                                         .initializer_range = 0.02};
enum { UPDATES = 3, RANKS = 3 };

static struct param_table table;
static float *initial_weights;

static int set_up(void **state) {
    assert_int_equal(param_table_init(&table, &shape, PARAM_HEAD_SPAN, NULL), BERTH_OK);
    initial_weights = memory_array_zeroed((size_t)table.total, sizeof *initial_weights);
    assert_non_null(initial_weights);
    param_initialise(&table, &shape, 3, initial_weights, 1);
    return 0;
}

static int tear_down(void **state) {
    param_table_done(&table);
    memory_free(initial_weights);
    return 0;
}

static void test_parts_cover_the_table(void **state) {
    for (int variant = 0; variant < 2 * 40; variant++) {
        const struct partition_rule rule = {.size = variant / 2 + 1, .by_tensor = variant % 2};
        const int size = rule.size;
        char *owners = memory_array_zeroed((size_t)table.total, 1);
        assert_non_null(owners);
        for (int rank = 0; rank < size; rank++) {
            struct partition part;
            int64_t at = 0;
            assert_int_equal(partition_init(&part, &table, &rule, rank, NULL), BERTH_OK);
            for (size_t i = 0; i < part.count; i++) {
                const struct partition_span *span = &part.spans[i];
                assert_int_equal(span->offset, at);
                at += span->count;
                for (int64_t k = span->first; k < span->first + span->count; k++) {
                    owners[k]++;
                }
            }
            assert_int_equal(part.elements, at);
            assert_true(size == 1 || part.elements < table.total);
            partition_done(&part);
        }
        for (int64_t i = 0; i < table.total; i++) {
            assert_int_equal(owners[i], 1);
        }
        memory_free(owners);
    }
}

// MiniLM's matrices are 2.25 and 9 blocks. Where tensors' blocks do not matter, parts are even.
static void test_parts_are_even(void **state) {
    const struct bert_config small = {.vocab_size = 30522,
                                      .hidden_size = 384,
                                      .num_hidden_layers = 6,
                                      .num_attention_heads = 12,
                                      .intermediate_size = 1536,
                                      .max_position_embeddings = 512,
                                      .type_vocab_size = 2};
    struct param_table even;
    assert_int_equal(param_table_init(&even, &small, PARAM_HEAD_SPAN, NULL), BERTH_OK);
    for (int size = 2; size <= 8; size *= 2) {
        const struct partition_rule rule = {.size = size};
        for (int rank = 0; rank < size; rank++) {
            const int64_t elements = partition_elements(&even, &rule, rank, even.total);
            const int64_t matrices = partition_elements(&even, &rule, rank, even.head_first);
            assert_true((double)elements * size <= 1.1 * (double)even.total);
            assert_true((double)elements * size >= 0.85 * (double)even.total);
            assert_true((double)matrices * size >= 0.85 * (double)even.head_first);
        }
    }
    param_table_done(&even);
}

// BERT-base has 108 blocks in a layer: with more ranks, each layer has 108 owners of one block,
// other ones than the layer before, so all ranks own about as much. With fewer, so do they.
static void test_many_ranks_own_whole_blocks_in_turn(void **state) {
    const struct bert_config base = {.vocab_size = 30522,
                                     .hidden_size = 768,
                                     .num_hidden_layers = 12,
                                     .num_attention_heads = 12,
                                     .intermediate_size = 3072,
                                     .max_position_embeddings = 512,
                                     .type_vocab_size = 2};
    static const int sizes[] = {2, 7, 16, 64, 100, 108, 128, 512, 1000, 4096};
    static int64_t starts[4096 + 1], layers[4096];
    struct param_table many;
    assert_int_equal(param_table_init(&many, &base, PARAM_HEAD_SPAN, NULL), BERTH_OK);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int size = sizes[i];
        const struct partition_rule rule = {.size = size};
        int64_t before = 0, least = many.total, most = 0;
        memset(layers, 0, sizeof layers);
        for (size_t range = 0; range < param_range_count(&many); range++) {
            partition_starts(&many, &rule, param_range(&many, range), starts);
            assert_int_equal(starts[0], before);
            before = starts[size];
            for (int rank = 0; rank < size; rank++) {
                const int64_t part = starts[rank + 1] - starts[rank];
                const int is_last = starts[rank + 1] == many.total;
                assert_true(part >= 0 && (is_last || part % DEVICE_SUM_BLOCK == 0));
                layers[rank] += range < (size_t)many.layer_count ? part : 0;
            }
        }
        assert_int_equal(before, many.total);
        for (int rank = 0; rank < size; rank++) {
            least = layers[rank] < least ? layers[rank] : least;
            most = layers[rank] > most ? layers[rank] : most;
        }
        assert_true(most - least <= DEVICE_SUM_BLOCK);
    }
    param_table_done(&many);
}

// --- updates ------------------------------------------------------------------------------------

struct rank {
    struct device *device; // its own, because it runs in a thread of its own
    struct state state;
    struct optimizer optimizer;
    struct optimizer_plan plan;
    double norms[UPDATES];
};

static void open_rank(struct rank *rank, const char *name, int number, int size,
                      struct comm *comm) {
    const struct device_options options = {.threads = 1};
    struct settings config;
    *rank = (struct rank){0};
    settings_init(&config);
    config.optimizer.optimizer = name;
    config.optimizer.max_grad_norm = 1;
    assert_int_equal(optimizer_settle(&config.optimizer, NULL), BERTH_OK);
    rank->optimizer = optimizer_of(&config.optimizer);
    assert_int_equal(device_cpu_open(&options, &rank->device, NULL), BERTH_OK);
    const struct state_sharding sharding = {.rank = number,
                                            .size = size,
                                            .stage = 1,
                                            .by_tensor =
                                                optimizer_needs_tensor_norms(&rank->optimizer)};
    assert_int_equal(
        state_init_sharded(&rank->state, rank->device, &table, DTYPE_BF16, &sharding, NULL),
        BERTH_OK);
    memcpy(rank->state.master, initial_weights, (size_t)table.total * sizeof *initial_weights);
    assert_int_equal(optimizer_plan_init(&rank->plan, &rank->optimizer, &rank->state, comm, NULL),
                     BERTH_OK);
}

static void close_rank(struct rank *rank) {
    optimizer_plan_done(&rank->plan);
    state_done(&rank->state);
    rank->device->close(rank->device);
}

static void *run_updates(void *own) {
    struct rank *rank = own;
    for (int number = 0; number < UPDATES; number++) {
        for (int64_t i = 0; i < table.total; i++) {
            uint64_t index = (uint64_t)i;
            rank->state.gradients[i] =
                (float)(rng_draw((uint64_t)number, 1, &index) * 0x1p-32 - 0.5) * 1e-3F;
        }
        for (size_t i = 0; i + 1 < table.count; i++) { // the gaps have no gradient
            const struct param *param = &table.params[i];
            const int64_t end = param->offset + param->rows * param->cols;
            memset(rank->state.gradients + end, 0,
                   (size_t)(table.params[i + 1].offset - end) * sizeof(float));
        }
        optimizer_norm(&rank->plan, 1);
        rank->norms[number] = rank->plan.norm->sum_squares;
        const struct optimizer_step step = {.number = number,
                                            .rate = 1e-3,
                                            .gradient_scale = 1,
                                            .grad_norm = sqrt(rank->norms[number])};
        optimizer_step(&rank->plan, &step);
    }
    return NULL;
}

static void assert_spans_equal(const struct rank *part, const struct rank *whole) {
    const struct partition *partition = &part->state.partition;
    for (size_t i = 0; i < partition->count; i++) {
        const struct partition_span *span = &partition->spans[i];
        const size_t bytes = (size_t)span->count * sizeof(float);
        assert_memory_equal(part->state.master + span->first, whole->state.master + span->first,
                            bytes);
        assert_memory_equal(part->state.moment1 + span->offset, whole->state.moment1 + span->first,
                            bytes);
        assert_memory_equal(part->state.moment2 + span->offset, whole->state.moment2 + span->first,
                            bytes);
        if (span->first < table.matrix_count) {
            const int64_t left = table.matrix_count - span->first;
            const size_t copied = (size_t)(left < span->count ? left : span->count) * 2;
            assert_memory_equal((char *)part->state.copy + 2 * span->first,
                                (char *)whole->state.copy + 2 * span->first, copied);
        }
    }
}

// Norms of tensors are sums over the same blocks, in double.
static void assert_same_norms(const struct rank *part, const struct rank *whole) {
    for (int64_t i = 0; i < part->plan.scaled_count; i++) {
        const int64_t tensor = part->plan.scaled[i].tensor;
        assert_memory_equal(&part->plan.lamb[tensor], &whole->plan.lamb[tensor],
                            sizeof *part->plan.lamb);
    }
    assert_memory_equal(part->norms, whole->norms, sizeof whole->norms);
}

static void run_two(struct rank parts[2], const char *name) {
    struct job job = job_of("1x2");
    pthread_t threads[2];
    job_open(&job);
    for (int i = 0; i < 2; i++) {
        open_rank(&parts[i], name, i, 2, job.comms[i]);
        assert_true(parts[i].state.partition.elements > 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, run_updates, &parts[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    job_close(&job);
}

static void test_two_parts_update_as_one(void **state) {
    static const char *const names[] = {"adamw", "nvlamb", "lamb", "bertadam"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct rank whole, parts[2];
        open_rank(&whole, names[i], 0, 1, comm_self());
        run_updates(&whole);
        run_two(parts, names[i]);
        for (int k = 0; k < 2; k++) {
            assert_same_norms(&parts[k], &whole);
            assert_spans_equal(&parts[k], &whole);
            close_rank(&parts[k]);
        }
        close_rank(&whole);
    }
}

// --- files --------------------------------------------------------------------------------------

// A file of weights that no rank has as a whole, against one that is written from one buffer.
static void test_weights_of_parts(void **state) {
    struct rank whole, parts[2];
    open_rank(&whole, "adamw", 0, 1, comm_self());
    run_updates(&whole);
    run_two(parts, "adamw");
    assert_int_equal(dir_make(scratch("one"), NULL), BERTH_OK);
    assert_int_equal(dir_make(scratch("two"), NULL), BERTH_OK);
    assert_int_equal(folder_write_weights(scratch("one"), &shape, &table, whole.state.master, NULL),
                     BERTH_OK);
    assert_int_equal(state_file_make(STATE_FILE_WEIGHTS, &table, scratch("two"), NULL), BERTH_OK);
    for (int i = 1; i >= 0; i--) {
        assert_int_equal(state_file_fill(STATE_FILE_WEIGHTS, &parts[i].state, scratch("two"), NULL),
                         BERTH_OK);
        close_rank(&parts[i]);
    }
    assert_same_file(scratch("one/model.safetensors"), scratch("two/model.safetensors"));
    close_rank(&whole);
}

static void load(struct state *state, uint64_t seed) {
    struct state_loader loader;
    assert_int_equal(state_loader_init(&loader, state, "a model", NULL), BERTH_OK);
    const struct param_sink sink = state_loader_sink(&loader);
    assert_int_equal(param_initialise_into(&table, &shape, seed, &sink, NULL), BERTH_OK);
    state_loader_done(&loader);
}

// The loader keeps what each rank reads, writes the whole compute copy, and describes the weights
// the same on each.
static void test_loading_weights_in_parts(void **state) {
    struct rank whole, part;
    const struct partition_rule two = {.size = 2};
    open_rank(&whole, "adamw", 0, 1, comm_self());
    state_set_weights(&whole.state, whole.state.master);
    uint64_t checksum = 0;
    for (int i = 0; i < 2; i++) {
        open_rank(&part, "adamw", i, 2, comm_self());
        part.state.device->zero(part.state.device, part.state.master,
                                (size_t)table.total * sizeof(float));
        load(&part.state, 3);
        assert_memory_equal(part.state.copy, whole.state.copy, (size_t)table.matrix_count * 2);
        assert_spans_equal(&part, &whole);
        assert_memory_equal(part.state.master + table.head_first,
                            whole.state.master + table.head_first,
                            (size_t)(table.total - table.head_first) * sizeof(float));
        int64_t others = 0;
        for (int64_t k = 0; k < table.head_first; k++) {
            others += part.state.master[k] != 0;
        }
        assert_true(others <= partition_elements(&table, &two, i, table.head_first));
        assert_true(part.state.checksum != 0);
        assert_true(i == 0 || part.state.checksum == checksum);
        checksum = part.state.checksum;
        load(&part.state, 4);
        assert_true(part.state.checksum != checksum);
        close_rank(&part);
    }
    close_rank(&whole);
}

static void test_files_of_parts(void **state) {
    struct rank whole, parts[2], others[RANKS];
    open_rank(&whole, "adamw", 0, 1, comm_self());
    run_updates(&whole);
    run_two(parts, "adamw");
    assert_int_equal(dir_make(scratch("one"), NULL), BERTH_OK);
    assert_int_equal(dir_make(scratch("two"), NULL), BERTH_OK);
    assert_int_equal(state_file_make(STATE_FILE_MOMENTS, &table, scratch("one"), NULL), BERTH_OK);
    assert_int_equal(state_file_fill(STATE_FILE_MOMENTS, &whole.state, scratch("one"), NULL),
                     BERTH_OK);
    assert_int_equal(state_file_make(STATE_FILE_MOMENTS, &table, scratch("two"), NULL), BERTH_OK);
    for (int i = 1; i >= 0; i--) {
        assert_int_equal(state_file_fill(STATE_FILE_MOMENTS, &parts[i].state, scratch("two"), NULL),
                         BERTH_OK);
        close_rank(&parts[i]);
    }
    assert_same_file(scratch("one/optimizer.safetensors"), scratch("two/optimizer.safetensors"));
    for (int i = 0; i < RANKS; i++) {
        open_rank(&others[i], "adamw", i, RANKS, comm_self());
        memcpy(others[i].state.master, whole.state.master, (size_t)table.total * sizeof(float));
        memcpy(others[i].state.copy, whole.state.copy, (size_t)table.matrix_count * 2);
        assert_int_equal(state_file_read_moments(&others[i].state, scratch("two"), NULL), BERTH_OK);
        assert_spans_equal(&others[i], &whole);
        close_rank(&others[i]);
    }
    close_rank(&whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_cover_the_table),
        cmocka_unit_test(test_parts_are_even),
        cmocka_unit_test(test_many_ranks_own_whole_blocks_in_turn),
        cmocka_unit_test(test_two_parts_update_as_one),
        SCRATCH_TEST(test_files_of_parts),
        SCRATCH_TEST(test_weights_of_parts),
        cmocka_unit_test(test_loading_weights_in_parts),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
