// SPDX-License-Identifier: Apache-2.0
// Tests the plan: its sum, the refusal with a batch size that would fit, and its total against the
// memory that a run really uses. Also runs whole jobs in this process, where the leak checker sees
// them.
#include "api/opened.h"
#include "bench/bench.h"
#include "bench/bench_data.h"
#include "core/clock.h"
#include "fixture.h"
#include "model/int8.h"
#include "settings/settings.h"
#include "train/engine/plan.h"
#include "train/machine/cgroup.h"
#include "train/machine/machine.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct bert_config shape_of(int64_t layers) {
    return (struct bert_config){.vocab_size = 100,
                                .hidden_size = 64,
                                .num_hidden_layers = layers,
                                .num_attention_heads = 2,
                                .intermediate_size = 128,
                                .max_position_embeddings = 128,
                                .type_vocab_size = 2};
}

// A model of four layers without buffers, on one thread: the input of a plan.
struct planned {
    struct bert_config shape;
    struct param_table table;
    struct device *device;
    struct state state;
};

static void planned_open_head(struct planned *planned, enum param_head head) {
    const struct device_options options = {.threads = 1};
    planned->shape = shape_of(4);
    assert_int_equal(param_table_init(&planned->table, &planned->shape, head, NULL), BERTH_OK);
    assert_int_equal(device_cpu_open(&options, &planned->device, NULL), BERTH_OK);
    planned->state =
        (struct state){.device = planned->device, .table = &planned->table, .compute = DTYPE_F32};
}

static void planned_open(struct planned *planned) {
    planned_open_head(planned, PARAM_HEAD_SPAN);
}

static void planned_close(struct planned *planned) {
    planned->device->close(planned->device);
    param_table_done(&planned->table);
}

static struct plan_args plan_of(const struct planned *planned, const struct engine_shape *shape) {
    return (struct plan_args){.state = &planned->state, .config = &planned->shape, .shape = shape};
}

static struct plan_memory memory_of(const struct plan_args *args) {
    struct plan_memory memory;
    assert_int_equal(plan_memory_make(&memory, args, NULL), BERTH_OK);
    return memory;
}

// The number after an option in a message; -1: it is not there.
static int64_t advised(const struct berth_error *error, const char *option) {
    const char *named = strstr(error->message, option);
    return named != NULL ? strtoll(named + strlen(option), NULL, 10) : -1;
}

// The same batch with recomputed activations fits as promised, and is not suggested twice.
static void check_checkpointing(const struct plan_args *args, struct plan_limits limits) {
    const struct plan_memory kept = memory_of(args);
    struct engine_shape batch = *args->shape;
    struct plan_args changed = *args;
    struct berth_error error;
    batch.gradient_checkpointing = 1;
    changed.shape = &batch;
    const struct plan_memory again = memory_of(&changed);
    assert_true(again.engine.activations < kept.engine.activations / 2);
    assert_int_equal(again.engine.workspace, kept.engine.workspace);
    assert_int_equal(plan_memory_check(&changed, &again, &limits, &error), BERTH_OK);
    limits.host.available /= 2;
    assert_int_equal(plan_memory_check(&changed, &again, &limits, &error), BERTH_CONFIG);
    assert_null(strstr(error.message, "gradient_checkpointing"));
}

static void test_refusal_names_a_size_that_fits(void **state) {
    struct planned planned;
    planned_open(&planned);
    struct engine_shape batch = {
        .train = {.tokens = 512 * 128, .sequences = 512, .max_length = 128}};
    const struct plan_args args = plan_of(&planned, &batch);
    struct plan_memory memory = memory_of(&args);
    assert_true(memory.total > memory.engine.activations + 2 * memory.state.moments);
    struct plan_limits limits = {.host = {memory.engine.activations / 2, "the test"}};
    struct berth_error error;
    assert_int_equal(plan_memory_check(&args, &memory, &limits, &error), BERTH_CONFIG);
    const int64_t sequences = advised(&error, "per_device_train_batch_size ");
    assert_true(sequences > 0 && sequences < 512);
    assert_non_null(strstr(error.message, "would fit, and so would gradient_checkpointing"));
    check_checkpointing(&args, limits);
    batch.train.sequences = sequences;
    batch.train.tokens = sequences * 128;
    memory = memory_of(&args);
    assert_int_equal(plan_memory_check(&args, &memory, &limits, &error), BERTH_OK);
    limits.host.available = 1 << 20;
    assert_int_equal(plan_memory_check(&args, &memory, &limits, &error), BERTH_CONFIG);
    assert_non_null(strstr(error.message, "not even"));
    planned_close(&planned);
}

// A run that also evaluates: the option that is named is that of the batches that do not fit, and
// leaves the others as they are.
static void test_refusal_of_an_evaluation(void **state) {
    static const struct batch_extent small = {.tokens = 4 * 128, .sequences = 4, .max_length = 128};
    static const struct batch_extent large = {
        .tokens = 1024 * 128, .sequences = 1024, .max_length = 128};
    const struct engine_shape shapes[] = {{.train = small, .infer = large},
                                          {.train = large, .infer = small},
                                          {.train = large, .infer = large}};
    struct planned planned;
    planned_open(&planned);
    const struct engine_shape fitting = {.train = small, .infer = small};
    struct plan_args args = plan_of(&planned, &fitting);
    const struct plan_memory least = memory_of(&args);
    const struct plan_limits limits = {
        .host = {2 * (least.total - least.resident) + (24 << 20), "the test"}};
    struct berth_error error;
    args.predict_length = 256;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        args.shape = &shapes[i];
        const struct plan_memory memory = memory_of(&args);
        assert_int_equal(plan_memory_check(&args, &memory, &limits, &error), BERTH_CONFIG);
        const int64_t micro = advised(&error, "per_device_train_batch_size ");
        const int64_t predict = advised(&error, "predict_batch_size ");
        assert_true((micro > 0) == (i > 0) && (predict > 0) == (i != 1));
        struct engine_shape followed = shapes[i];
        if (micro > 0) {
            followed.train =
                (struct batch_extent){.tokens = micro * 128, .sequences = micro, .max_length = 128};
        }
        if (predict > 0) {
            followed.infer.tokens = predict * args.predict_length;
        }
        args.shape = &followed;
        const struct plan_memory less = memory_of(&args);
        assert_int_equal(plan_memory_check(&args, &less, &limits, &error), BERTH_OK);
    }
    planned_close(&planned);
}

// A bit for every pair of tokens, if this run has dropout, whatever the model's default.
static void test_masks_of_attention(void **state) {
    struct planned planned;
    planned_open(&planned);
    struct engine_shape batch = {.train = {.tokens = 512, .sequences = 4, .max_length = 128}};
    const struct plan_args args = plan_of(&planned, &batch);
    planned.shape.attention_probs_dropout_prob = 0.1;
    const struct plan_memory without = memory_of(&args);
    batch.attention_dropout = 0.1;
    planned.shape.attention_probs_dropout_prob = 0;
    const struct plan_memory with = memory_of(&args);
    assert_int_equal(with.engine.activations - without.engine.activations,
                     4 * 512 * 2 * 128 / 8); // layers, rows, heads, columns
    planned_close(&planned);
}

// A device with its own memory is checked against that; the host then holds batches and the data to
// write checkpoints.
static void test_device_memory_is_apart(void **state) {
    struct planned planned;
    planned_open(&planned);
    struct device apart = *planned.device;
    apart.is_host = 0;
    const struct engine_shape batch = {
        .train = {.tokens = 64 * 128, .sequences = 64, .max_length = 128}};
    const struct plan_args args = plan_of(&planned, &batch);
    const struct plan_memory host = memory_of(&args);
    planned.state.device = &apart;
    const struct plan_memory device = memory_of(&args);
    assert_int_equal(host.device, 0);
    assert_int_equal(device.staging, 128 * 64 * 4); // the largest parameter, of positions
    assert_int_equal(device.total - device.resident, device.staging + device.engine.batches);
    assert_int_equal(device.device, host.total - host.resident);
    struct plan_limits limits = {.host = {UINT64_MAX, "the host"},
                                 .device = {device.device, "the card"}};
    struct berth_error error;
    assert_int_equal(plan_memory_check(&args, &device, &limits, &error), BERTH_OK);
    limits.device.available--;
    assert_int_equal(plan_memory_check(&args, &device, &limits, &error), BERTH_CONFIG);
    assert_non_null(strstr(error.message, "the card leaves"));
    assert_non_null(strstr(error.message, "per_device_train_batch_size 32 would fit"));
    limits.device.available = UINT64_MAX;
    limits.host.available = device.staging;
    assert_int_equal(plan_memory_check(&args, &device, &limits, &error), BERTH_CONFIG);
    assert_non_null(strstr(error.message, "the host leaves"));
    planned_close(&planned);
}

// 512 in micro-batches of 24: sizes by halves, 12, 6 and 3, do not divide the update.
static void test_advice_divides_the_update(void **state) {
    struct planned planned;
    planned_open(&planned);
    struct engine_shape batch = {.train = {.tokens = 24 * 128, .sequences = 24, .max_length = 128}};
    struct plan_args args = plan_of(&planned, &batch);
    args.update_sequences = 512;
    const struct plan_memory memory = memory_of(&args);
    struct plan_limits limits = {.host = {.limit = "the test"}};
    struct berth_error error;
    int several = 0;
    for (uint64_t part = 1; part < 32; part++) {
        limits.host.available = (memory.total - memory.resident) * part / 32;
        assert_int_equal(plan_memory_check(&args, &memory, &limits, &error), BERTH_CONFIG);
        const int64_t sequences = advised(&error, "per_device_train_batch_size ");
        assert_true(sequences >= 1 && sequences < 24 && 512 % sequences == 0);
        several |= sequences > 1;
    }
    assert_true(several);
    planned_close(&planned);
}

// Where the update cannot stay, another one is suggested with the micro-batch. Groups stay whole.
static void test_advice_changes_the_update(void **state) {
    struct planned planned;
    planned_open(&planned);
    struct engine_shape batch = {.train = {.tokens = 24 * 128, .sequences = 24, .max_length = 128}};
    struct plan_args args = plan_of(&planned, &batch);
    args.update_sequences = 2;
    args.update_factor = 5;
    args.group = 4;
    const struct plan_memory memory = memory_of(&args);
    struct plan_limits limits = {
        .host = {.available = memory.total - memory.resident - 1, .limit = "the test"}};
    struct berth_error error;
    assert_int_equal(plan_memory_check(&args, &memory, &limits, &error), BERTH_CONFIG);
    const int64_t sequences = advised(&error, "per_device_train_batch_size ");
    assert_true(sequences == 12 || sequences == 4);
    assert_int_equal(advised(&error, " with train_batch_size "), 5 * sequences);
    args.group = 1;
    limits.host.available = 0;
    assert_int_equal(plan_memory_check(&args, &memory, &limits, &error), BERTH_CONFIG);
    assert_non_null(strstr(error.message, "not even per_device_train_batch_size 1 with "
                                          "train_batch_size 5 would fit"));
    planned_close(&planned);
}

// Every size of the advice has the masked tokens that a batch of that size may have: of
// `each` in a sequence, or as many as it has tokens.
static void check_masked_advice(const struct plan_args *args, int64_t each) {
    const struct batch_extent *micro = &args->shape->train;
    const struct plan_memory memory = memory_of(args);
    const uint64_t need = memory.total - memory.resident + (24 << 20);
    int64_t several = 0;
    for (uint64_t part = 1; part < 256; part++) {
        struct engine_shape followed = *args->shape;
        struct plan_args changed = *args;
        struct berth_error error;
        const struct plan_limits limits = {.host = {need * part / 256, "the test"}};
        assert_int_equal(plan_memory_check(args, &memory, &limits, &error), BERTH_CONFIG);
        const int64_t count = advised(&error, "per_device_train_batch_size ");
        followed.train.sequences = count;
        followed.train.tokens = count * micro->max_length;
        followed.train.masked = each > 0 ? count * each : followed.train.tokens;
        changed.shape = &followed;
        const struct plan_memory less = memory_of(&changed);
        const enum berth_status status = plan_memory_check(&changed, &less, &limits, NULL);
        const int is_impossible = strstr(error.message, "not even") != NULL;
        assert_int_equal(status, is_impossible ? BERTH_CONFIG : BERTH_OK);
        assert_true(!is_impossible || count == 1);
        several += !is_impossible;
    }
    assert_true(several > 64);
}

static void test_advice_for_masked_tokens(void **state) {
    static const struct batch_extent pretraining = {
        .tokens = 64 * 128, .sequences = 64, .masked = 64 * 20, .max_length = 128};
    // Limited by tokens: many sequences may be short.
    static const struct batch_extent streamed = {
        .tokens = 64 * 128, .sequences = 512, .masked = 64 * 32, .max_length = 128};
    static const struct batch_extent text = {
        .tokens = 64 * 128, .sequences = 64, .masked = 64 * 128, .max_length = 128};
    struct engine_shape shape;
    struct planned planned;
    planned_open_head(&planned, PARAM_HEAD_MASKED);
    struct plan_args args = plan_of(&planned, &shape);
    shape = (struct engine_shape){.train = text};
    check_masked_advice(&args, 0);
    args.masked = 20;
    shape = (struct engine_shape){.train = pretraining};
    check_masked_advice(&args, args.masked);
    args.update_sequences = 5040; // with many divisors
    shape = (struct engine_shape){.train = streamed};
    check_masked_advice(&args, args.masked);
    planned_close(&planned);
}

// A prediction's masked tokens, and its sequences for a head with many outputs, become fewer with
// its tokens.
static void test_advice_for_a_prediction(void **state) {
    const struct batch_extent large = {
        .tokens = 8192, .sequences = 512, .masked = 4096, .max_length = 128};
    const enum param_head heads[] = {PARAM_HEAD_MASKED, PARAM_HEAD_CLASS};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        struct planned planned;
        struct engine_shape shape = {
            .infer = {.tokens = 128, .sequences = 64, .masked = 128, .max_length = 128}};
        planned_open_head(&planned, heads[i]);
        planned.shape.num_labels = 4096;
        struct plan_args args = plan_of(&planned, &shape);
        const struct plan_memory least = memory_of(&args);
        const struct plan_limits limits = {
            .host = {least.total - least.resident + (25 << 20), "the test"}};
        struct berth_error error;
        assert_int_equal(plan_memory_check(&args, &least, &limits, &error), BERTH_OK);
        shape.infer = large;
        const struct plan_memory memory = memory_of(&args);
        assert_int_equal(plan_memory_check(&args, &memory, &limits, &error), BERTH_CONFIG);
        assert_true(advised(&error, "predict_batch_size ") >= 1);
        assert_non_null(strstr(error.message, "would fit"));
        assert_null(strstr(error.message, "not even"));
        planned_close(&planned);
    }
}

// --- several ranks ------------------------------------------------------------------------------

static struct bert_config real_shape(int64_t hidden, int64_t layers) {
    return (struct bert_config){.vocab_size = 30522,
                                .hidden_size = hidden,
                                .num_hidden_layers = layers,
                                .num_attention_heads = hidden / 64,
                                .intermediate_size = 4 * hidden,
                                .max_position_embeddings = 512,
                                .type_vocab_size = 2};
}

// Weights in int8 need at most 0.3 of the memory that they need in f32.
static void test_weights_in_int8(void **state) {
    static const struct bert_config none = {0};
    const struct bert_config shapes[] = {real_shape(384, 6), real_shape(768, 12),
                                         real_shape(1024, 24), none};
    const struct device_options options = {.threads = 1};
    struct device *device;
    assert_int_equal(device_cpu_open(&options, &device, NULL), BERTH_OK);
    for (const struct bert_config *shape = shapes; shape->hidden_size > 0; shape++) {
        struct param_table table;
        assert_int_equal(param_table_init(&table, shape, PARAM_HEAD_SPAN, NULL), BERTH_OK);
        const struct state_bytes f32 = state_measure(&table, DTYPE_F32, 0);
        const struct state_bytes int8 = state_measure_int8(&table, device);
        assert_true((double)(int8.weights + int8.copy) <= 0.3 * (double)(f32.weights + f32.copy));
        assert_true(int8.copy > (size_t)int8_replaced_elements(&table));
        param_table_done(&table);
    }
    device->close(device);
}

// The goal of ZeRO's stages, for real geometries on 4 ranks: stage 2 keeps compute copies, what all
// ranks read in f32, 1.1 quarters of the rest, and the range whose gradients are being added.
static void test_state_of_a_rank(void **state) {
    static const struct {
        int64_t hidden, layers;
    } geometries[] = {{384, 6}, {768, 12}, {1024, 24}};
    const struct device gpu = {.is_host = 0}, cpu = {.is_host = 1};
    for (size_t i = 0; i < sizeof geometries / sizeof *geometries; i++) {
        const struct bert_config shape = real_shape(geometries[i].hidden, geometries[i].layers);
        struct param_table table;
        assert_int_equal(param_table_init(&table, &shape, PARAM_HEAD_SPAN, NULL), BERTH_OK);
        const struct state_bytes whole = state_measure(&table, DTYPE_BF16, 1);
        const size_t tables = (size_t)(table.total - table.head_first) * sizeof(float);
        size_t weights = 0, moments = 0;
        for (int rank = 0; rank < 4; rank++) {
            const struct state_sharding none = {.rank = rank, .size = 4};
            const struct state_sharding half = {.rank = rank, .size = 4, .stage = 1};
            const struct state_sharding most = {.rank = rank, .size = 4, .stage = 2};
            struct state_sharding kept = most;
            kept.keeps_gradients = 1;
            const struct state_bytes zero = state_measure_sharded(&table, &cpu, DTYPE_BF16, &none);
            const struct state_bytes one = state_measure_sharded(&table, &cpu, DTYPE_BF16, &half);
            const struct state_bytes two = state_measure_sharded(&table, &cpu, DTYPE_BF16, &most);
            const struct state_bytes f32 = state_measure_sharded(&table, &cpu, DTYPE_F32, &most);
            assert_memory_equal(&zero, &whole, sizeof whole);
            assert_int_equal(one.gradients, whole.gradients);
            assert_int_equal(two.weights, one.weights);
            assert_int_equal(f32.weights, whole.weights); // they are what is computed with
            assert_int_equal(state_measure_sharded(&table, &cpu, DTYPE_BF16, &kept).gradients,
                             whole.gradients);
            const struct state_bytes apart =
                state_measure_sharded(&table, &gpu, DTYPE_BF16, &most); // without pages to discard
            assert_int_equal(apart.weights, whole.weights);
            assert_int_equal(apart.gradients, whole.gradients);
            assert_int_equal(apart.moments, two.moments);
            weights += two.weights - tables;
            moments += two.moments;
            const double part = 1.1 / 4 * (double)(whole.weights + whole.moments + whole.gradients);
            int64_t largest = 0;
            for (size_t k = 0; k < param_range_count(&table); k++) {
                const int64_t count = param_range(&table, k).count;
                largest = count > largest ? count : largest;
            }
            assert_true((double)(two.weights + two.copy + two.gradients + two.moments) <=
                        (double)(whole.copy + tables) + part + (double)largest * sizeof(float));
        }
        assert_int_equal(weights, whole.weights - tables);
        assert_int_equal(moments, whole.moments);
        param_table_done(&table);
    }
}

// --- control groups -----------------------------------------------------------------------------

// One file of the tree that cgroup_memory_available looks into.
static void put(const char *path, const char *text) {
    const char *whole = in_folder(path);
    char folder[512];
    snprintf(folder, sizeof folder, "%s", whole);
    *strrchr(folder, '/') = '\0';
    assert_int_equal(dir_make(folder, NULL), BERTH_OK);
    assert_int_equal(file_write(whole, text, strlen(text), NULL), BERTH_OK);
}

static void test_groups_of_version_2(void **state) {
    put("proc/self/cgroup", "0::/job/task/step\n");
    put("proc/self/mountinfo",
        "24 1 0:5 / /proc rw - proc proc rw\n"
        "31 24 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
    assert_true(cgroup_memory_available(in_folder("")) == UINT64_MAX);
    put("sys/fs/cgroup/job/task/step/memory.max", "max\n");
    put("sys/fs/cgroup/job/task/memory.max", "9000\n");
    put("sys/fs/cgroup/job/task/memory.current", "500\n");
    assert_int_equal(cgroup_memory_available(in_folder("")), 8500);
    put("sys/fs/cgroup/job/memory.max", "8000\n"); // the least of all above
    put("sys/fs/cgroup/job/memory.current", "3000\n");
    assert_int_equal(cgroup_memory_available(in_folder("")), 5000);
    put("sys/fs/cgroup/job/memory.stat",
        "anon 1000\nfile 2000\ninactive_anon 7\nactive_file 1200\ninactive_file 800\n");
    assert_int_equal(cgroup_memory_available(in_folder("")), 7000); // the cache is released
    assert_true(cgroup_processors(in_folder("")) == UINT64_MAX);
    put("sys/fs/cgroup/job/task/step/cpu.max", "max 100000\n");
    put("sys/fs/cgroup/job/cpu.max", "250000 100000\n");
    assert_int_equal(cgroup_processors(in_folder("")), 3);
    put("sys/fs/cgroup/job/task/cpu.max", "100000 100000\n");
    assert_int_equal(cgroup_processors(in_folder("")), 1);
    put("sys/fs/cgroup/job/task/step/memory.max", "100\n");
    put("sys/fs/cgroup/job/task/step/memory.current", "101\n");
    assert_int_equal(cgroup_memory_available(in_folder("")), 0);
}

static void test_groups_of_version_1(void **state) {
    put("proc/self/cgroup",
        "9:name=systemd:/other\n5:cpu,memory:/pod/ada/run\n3:memory2:/x\n0::/elsewhere\n");
    put("proc/self/mountinfo",
        "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
        "35 31 0:32 /pod /sys/fs/cgroup/memory rw - cgroup cgroup rw,cpu,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_true(cgroup_memory_available(in_folder("")) > (uint64_t)1 << 62);
    // /pod is where the hierarchy is mounted: the rest of the path is below the mount.
    put("sys/fs/cgroup/memory/ada/memory.limit_in_bytes", "80000\n");
    put("sys/fs/cgroup/memory/ada/memory.usage_in_bytes", "30000\n");
    put("sys/fs/cgroup/memory/ada/run/memory.limit_in_bytes", "90000\n");
    assert_int_equal(cgroup_memory_available(in_folder("")), 50000);
    put("sys/fs/cgroup/memory/ada/memory.stat",
        "cache 900\nactive_file 1\ninactive_file 1\ntotal_active_file 200\n"
        "total_inactive_file 800\n");
    assert_int_equal(cgroup_memory_available(in_folder("")), 51000);
    put("sys/fs/cgroup/cpu/pod/ada/cpu.cfs_period_us", "100000\n");
    put("sys/fs/cgroup/cpu/pod/ada/cpu.cfs_quota_us", "-1\n");
    assert_true(cgroup_processors(in_folder("")) > (uint64_t)1 << 40);
    put("sys/fs/cgroup/cpu/pod/ada/cpu.cfs_quota_us", "400000\n");
    assert_int_equal(cgroup_processors(in_folder("")), 4);
    // A group that the mount does not show, as in some containers: the mount itself is used.
    put("proc/self/cgroup", "4:memory:/docker/0123\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "70000\n");
    assert_int_equal(cgroup_memory_available(in_folder("")), 70000);
}

// A group created by this test around a group without a limit, if this machine permits it.
static void test_a_real_group(void **state) {
    static const char *const tops[][2] = {{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
                                          {"/sys/fs/cgroup", "memory.max"}};
    const uint64_t size = (uint64_t)80 << 20;
    char group[128], inner[160], limit[192], members[192], text[32];
    int found = 0;
    for (size_t i = 0; i < 2 && !found; i++) {
        snprintf(group, sizeof group, "%s/berth-test-%ld", tops[i][0], (long)getpid());
        snprintf(inner, sizeof inner, "%s/inner", group);
        snprintf(limit, sizeof limit, "%s/%s", group, tops[i][1]);
        snprintf(members, sizeof members, "%s/cgroup.procs", inner);
        found = mkdir(group, 0777) == 0 && mkdir(inner, 0777) == 0 && access(limit, W_OK) == 0;
        if (!found) {
            rmdir(inner);
            rmdir(group);
        }
    }
    if (!found) {
        print_message("skipped: no control group can be created here\n");
        skip();
    }
    snprintf(text, sizeof text, "%llu", (unsigned long long)size);
    pid_t child = fork();
    if (child == 0) {
        const char *name;
        FILE *file = fopen(limit, "w"), *own = fopen(members, "w");
        int good = file != NULL && own != NULL && fputs(text, file) >= 0 && fclose(file) == 0 &&
                   fprintf(own, "%ld", (long)getpid()) > 0 && fclose(own) == 0;
        uint64_t rest = machine_memory_available(&name);
        _exit(!good ? 1 : rest > size || rest < size / 4 ? 2 : strstr(name, "cgroup") == NULL);
    }
    int status = fixture_wait(child);
    rmdir(inner);
    rmdir(group);
    assert_int_equal(status, 0);
}

static void test_limits_of_the_machine(void **state) {
    const char *limit;
    uint64_t available = machine_memory_available(&limit);
    assert_true(available > (1 << 20));
    assert_non_null(limit);
    uint64_t half = available / 2; // reserved, but not used
    void *block = memory_pages(half);
    if (block != NULL) { // the system may refuse so much
        assert_true(machine_memory_available(&limit) < available / 4 * 3);
        memory_pages_free(block, half);
    }
    uint64_t resident = machine_resident();
    assert_true(resident > 0);
    assert_true(machine_peak_resident() >= resident);
}

static void test_jobs_in_one_process(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.task.validation_file = fixture_keep("dev.json");
    run.config.engine.max_steps = 2;
    struct berth_log silent = {0};
    struct berth_run_result result;
    struct berth_error error = {0};
    enum berth_status status = job_train("squad", &run.config, silent, NULL, &result, &error);
    if (status != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(result.steps, 2);
    assert_true(isfinite(result.final_loss) && berth_run_metric(&result, "f1") >= 0);
    run.config.model.model_name_or_path = fixture_keep("out");
    run.config.task.predict_file = fixture_keep("dev.json");
    run.config.run.output_dir = fixture_keep("predicted");
    struct berth_run_result predicted;
    assert_int_equal(job_predict("squad", &run.config, silent, NULL, &predicted, &error), BERTH_OK);
    for (size_t i = 0; i < 2; i++) { // exact_match and f1
        assert_true(predicted.metrics[i].value == result.metrics[i].value);
    }
    assert_same_file(fixture_path("out", "predictions.json"),
                     fixture_path("predicted", "predictions.json"));
}

// Long enough that a job which ends by itself measures the machine.
static void stop_after_a_while(void *context, const struct berth_record *record) {
    atomic_int *stop = context;
    static double start;
    if (record->kind == BERTH_STEP) {
        start = start > 0 ? start : clock_now();
        *stop = clock_now() - start > 2.5 ? STOP_AND_SAVE : *stop;
    }
}

// To measure the peak takes seconds, in which the ranks of a job would wait for each other.
static void test_a_stopped_job_ends_without_measuring_the_machine(void **state) {
    struct fixture_run run = fixture_default("stopped");
    atomic_int stop = 0;
    struct berth_log log = {stop_after_a_while, (void *)&stop};
    struct berth_run_result result;
    struct berth_error error;
    run.config.engine.max_steps = 1000000;
    run.config.engine.num_train_epochs = 1000000;
    run.config.run.logging_steps = 1;
    assert_int_equal(job_train("squad", &run.config, log, &stop, &result, &error),
                     BERTH_INTERRUPTED);
    assert_true(result.steps > 1 && result.samples_per_second > 0);
    assert_true(isnan(result.mfu));
}

// The fixture's model, with the settings of its runs and one more.
static struct berth_model *open_reader(const char *name, const char *value) {
    return open_model(in_folder("model"),
                      SETTINGS("device", "cpu", "max_seq_length", "28", "doc_stride", "8",
                               "max_query_length", "8", name, value));
}

static int count_samples(void *context, const struct berth_sample *sample) {
    int *count = context;
    assert_int_equal(sample->index, 1 + *count);
    assert_non_null(strstr(sample->question, "what colour"));
    assert_true(sample->answer.end > sample->answer.start);
    ++*count;
    return 0;
}

static void test_show_and_answer(void **state) {
    struct fixture_run run = fixture_default("unused");
    run.config.task.predict_file = fixture_keep("dev.json");
    struct berth_log silent = {0};
    int count = 0;
    struct berth_error error = {0};
    assert_int_equal(berth_show_squad(&run.config, (struct berth_selection){.first = 1, .count = 3},
                                      silent, count_samples, &count, &error),
                     BERTH_OK);
    assert_int_equal(count, 3);
    assert_int_equal(berth_show_squad(&run.config,
                                      (struct berth_selection){.first = 99, .count = 1}, silent,
                                      count_samples, &count, &error),
                     BERTH_USAGE);
    struct berth_model *model = open_reader("features", "google");
    // Long enough for several windows, and for several passes.
    char context[4096] = "";
    for (int i = 0; i < 60; i++) {
        strcat(context, "the red ball of anna is blue . ");
    }
    size_t found;
    struct berth_result *result =
        run_one(model, "answer", "what colour is the ball ?", context, SETTINGS("top", "3"));
    const struct berth_item *answers = berth_result_items(result, 0, &found);
    assert_int_equal(found, 3);
    assert_true(answers[0].score >= answers[1].score);
    assert_memory_equal(context + answers[0].start, answers[0].text, strlen(answers[0].text));
    assert_int_equal(strlen(answers[0].text), answers[0].end - answers[0].start);
    berth_result_free(result);
    berth_close(model);
}

// A model in memory no longer needs the strings that it was opened with; contradictions among them
// are reported when it is opened.
static void test_settings_are_read_at_opening(void **state) {
    struct berth_error error = {0};
    char rules[] = "keras", context[4096] = "";
    for (int i = 0; i < 60; i++) {
        strcat(context, "the red ball of anna is blue . ");
    }
    const struct berth_text asked = {.text = "what colour is the ball ?", .pair = context};
    struct berth_model *model = open_reader("features", rules);
    memset(rules, 'x', sizeof rules - 1);
    struct berth_result *result = berth_run(model, NULL, &asked, 1, NULL, NULL, &error);
    expect_refusal(&error, BERTH_BAD_DATA, "features keras do not split");
    berth_result_free(result);
    berth_close(model);
    model = berth_open(in_folder("model"), SETTINGS("features", "google", "keras_end", "exclusive"),
                       NULL, &error);
    assert_null(model);
    assert_int_equal(error.status, BERTH_CONFIG);
}

static void test_benchmarks(void **state) {
    struct fixture_run run = fixture_default("unused");
    struct bench_settings settings = {.config = &run.config,
                                      .geometry = run.config.model.model_name_or_path,
                                      .data = run.config.task.train_file,
                                      .update_tokens = 200,
                                      .steps = 3,
                                      .warm_up_steps = 1};
    struct bench_figures real, padded, predicted;
    struct berth_error error = {0};
    if (bench_run(&settings, &real, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    assert_true(real.samples_per_second > 0 && real.mfu > 0 && real.mfu < 1);
    assert_int_equal(real.steps, 3);
    settings.pad_to = 64;
    assert_int_equal(bench_run(&settings, &padded, &error), BERTH_OK);
    assert_int_equal(padded.sequences, real.sequences); // the same work, as requested
    assert_int_equal(padded.tokens, real.tokens);
    settings.pad_to = 0;
    settings.kind = BENCH_PREDICT;
    assert_int_equal(bench_run(&settings, &predicted, &error), BERTH_OK);
    assert_int_equal(predicted.tokens, real.tokens);
    settings.geometry = "no such shape";
    assert_int_not_equal(bench_run(&settings, &real, &error), BERTH_OK);
}

// No fixture: that forks, which is not possible once threads have run here.
static void test_benchmark_of_pre_training(void **state) {
    struct settings config;
    settings_init(&config);
    assert_int_equal(settings_set_row(&config, option_find("max_seq_length"), "32", NULL),
                     BERTH_OK);
    struct bench_settings settings = {.kind = BENCH_PRETRAIN,
                                      .config = &config,
                                      .geometry = "tiny",
                                      .data = BERTH_TEST_SOURCE_DIR
                                      "/tests/data/pretraining/nvidia.hdf5",
                                      .update_tokens = 300,
                                      .steps = 3};
    struct bench_figures real, padded;
    struct berth_error error = {0};
    if (bench_run(&settings, &real, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    assert_true(real.mfu > 0 && real.mfu < 1);
    assert_true(real.tokens > 600 && real.tokens <= 900);
    assert_true(real.masked * 100 > real.tokens * 10 && real.masked * 100 < real.tokens * 20);
    assert_true(real.fill == (double)real.tokens / (double)(real.sequences * 32));
    settings.pad_to = 40;
    assert_int_equal(bench_run(&settings, &padded, &error), BERTH_OK);
    assert_int_equal(padded.tokens, real.tokens);
    assert_int_equal(padded.masked, real.masked);
    settings.pad_to = 0;
    settings.data = BERTH_TEST_SOURCE_DIR "/tests/data/pretraining";
    assert_int_equal(bench_run(&settings, &real, &error), BERTH_OK);
    settings.data = BERTH_TEST_SOURCE_DIR "/tests/data"; // no shard in it
    assert_int_equal(bench_run(&settings, &real, &error), BERTH_NO_INPUT);
    settings.data = "nowhere";
    assert_int_equal(bench_run(&settings, &real, &error), BERTH_NO_INPUT);
}

// A folder's files are read until there are enough tokens.
static void test_shards_of_a_benchmark(void **state) {
    struct bench_shards shards = {
        .path = BERTH_TEST_SOURCE_DIR "/tests/data/pretraining", .tokens = 1, .vocab_size = 1000};
    struct instances first = {0}, both = {0}, refused = {0};
    struct berth_error error = {0};
    assert_int_equal(bench_shards_read(&shards, &first, &error), BERTH_OK);
    shards.tokens = INT64_MAX;
    assert_int_equal(bench_shards_read(&shards, &both, &error), BERTH_OK);
    assert_true(first.count > 0 && both.count > first.count);
    shards.vocab_size = 104; // ids outside
    assert_int_equal(bench_shards_read(&shards, &refused, &error), BERTH_BAD_DATA);
    instances_done(&first);
    instances_done(&both);
    instances_done(&refused);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_refusal_names_a_size_that_fits),
        FIXTURE_TEST(test_refusal_of_an_evaluation),
        FIXTURE_TEST(test_device_memory_is_apart),
        FIXTURE_TEST(test_masks_of_attention),
        cmocka_unit_test(test_weights_in_int8),
        cmocka_unit_test(test_state_of_a_rank),
        FIXTURE_TEST(test_advice_divides_the_update),
        FIXTURE_TEST(test_advice_changes_the_update),
        cmocka_unit_test(test_advice_for_masked_tokens),
        cmocka_unit_test(test_advice_for_a_prediction),
        FIXTURE_TEST(test_groups_of_version_2),
        FIXTURE_TEST(test_groups_of_version_1),
        FIXTURE_TEST(test_a_real_group),
        FIXTURE_TEST(test_limits_of_the_machine),
        FIXTURE_TEST(test_jobs_in_one_process),
        FIXTURE_TEST(test_a_stopped_job_ends_without_measuring_the_machine),
        FIXTURE_TEST(test_show_and_answer),
        FIXTURE_TEST(test_settings_are_read_at_opening),
        FIXTURE_TEST(test_benchmarks),
        cmocka_unit_test(test_shards_of_a_benchmark),
        cmocka_unit_test(test_benchmark_of_pre_training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
