// SPDX-License-Identifier: Apache-2.0
// Updates by several ranks, which are threads here: the same as by one process, to rounding for any
// number of ranks and hosts and every ZeRO stage, and to the bit with as many virtual ranks.
// Numbers that change by themselves are found (replica_check.h).
#include "comm/job.h"
#include "core/comm_forecast.h"
#include "core/harness.h"
#include "core/memory.h"
#include "core/options.h"
#include "core/rng.h"
#include "train/bench/recorder.h"
#include "train/engine/blame.h"
#include "train/engine/update.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

// Large enough for matrices to be cut (train/optimizer/partition.h); the others are not whole
// blocks.
static const struct bert_config shape = {.vocab_size = 900,
                                         .hidden_size = 256,
                                         .num_hidden_layers = 2,
                                         .num_attention_heads = 4,
                                         .intermediate_size = 1000,
                                         .max_position_embeddings = 64,
                                         .type_vocab_size = 2,
                                         .layer_norm_eps = 1e-12,
                                         .initializer_range = 0.02,
                                         .num_labels = 3};
enum { SEQUENCES = 24, LONGEST = 40, UPDATES = 3 };

static struct param_table table;
static int32_t ids[SEQUENCES][LONGEST];
static int8_t types[LONGEST];

static struct packer_sequence get(const void *data, size_t index) {
    const int32_t length = 4 + (int32_t)(index * 7 % (LONGEST - 4));
    return (struct packer_sequence){
        .ids = ids[index], .type_ids = types, .length = length, .label = (int32_t)index % 3};
}

// Of pre-training: a number of masked tokens that differs much.
static struct packer_sequence get_masked(const void *data, size_t index) {
    static const uint16_t positions[] = {1, 2, 3};
    struct packer_sequence sequence = get(data, index);
    sequence.label = (int32_t)index % 2;
    sequence.masked_positions = positions;
    sequence.masked_labels = ids[index];
    sequence.masked_count = index % 5 == 0 ? 3 : index % 2;
    return sequence;
}

static int set_up(void **state) {
    uint64_t index = 0;
    for (int i = 0; i < SEQUENCES * LONGEST; i++) {
        ids[i / LONGEST][i % LONGEST] = (int32_t)rng_below(1, 2, &index, 900);
    }
    return param_table_init(&table, &shape, PARAM_HEAD_CLASS, NULL) != BERTH_OK;
}

static int tear_down(void **state) {
    param_table_done(&table);
    return 0;
}

// --- runs ---------------------------------------------------------------------------------------

struct setting {
    const char *layout; // of the ranks (comm/job.h)
    int stage, parts;
    enum dtype compute, wire;
    const char *optimizer, *average;
    int64_t micro; // sequences
    int waits;
    int64_t bucket; // of gradients and weights
    int shares;     // every update has all sequences, and each rank knows its share alone
    int64_t checks; // replica_check_steps
};

// What a run leaves: every element from its owner.
struct outcome {
    struct setting setting;
    pthread_mutex_t mutex;
    float *numbers[3]; // [total] each: weights, both moments
    void *compute;     // rank 0's weights to compute with, [matrix_count]
    size_t compute_bytes;
    double losses[UPDATES], norms[UPDATES];
    struct comm_stats stats;
    int overlapping; // exchanges that began while another range's had not been waited for
    int different;   // ranks whose weights to compute with or losses are not rank 0's
};

// A communicator that counts how many exchanges overlap.
struct watched {
    struct comm comm;
    struct comm *inner;
    size_t range;          // of the last exchange
    int64_t begun, waited; // tickets
    int overlapping;
};

static struct watched *watched_of(struct comm *comm) {
    return (struct watched *)comm;
}

static size_t range_at(int64_t element) {
    size_t range = 0;
    while (param_range(&table, range).first > element ||
           param_range(&table, range).first + param_range(&table, range).count <= element) {
        range++;
    }
    return range;
}

static void watch_begin(struct watched *watched, const struct comm_range *range) {
    const size_t index = range_at(range->first);
    watched->overlapping += watched->begun > watched->waited && index != watched->range;
    watched->range = index;
}

static int64_t watched_reduce(struct comm *comm, const struct comm_range *range) {
    struct watched *watched = watched_of(comm);
    watch_begin(watched, range);
    return watched->begun = watched->inner->reduce_begin(watched->inner, range);
}

static int64_t watched_gather(struct comm *comm, const struct comm_range *range) {
    struct watched *watched = watched_of(comm);
    watch_begin(watched, range);
    return watched->begun = watched->inner->gather_begin(watched->inner, range);
}

static void watched_wait(struct comm *comm, int64_t ticket) {
    struct watched *watched = watched_of(comm);
    watched->waited = ticket > watched->waited ? ticket : watched->waited;
    watched->inner->wait(watched->inner, ticket);
}

// The other functions find what they need in `comm.state`.
static struct watched watched_by(struct comm *inner) {
    struct watched watched = {.comm = *inner, .inner = inner};
    watched.comm.reduce_begin = watched_reduce;
    watched.comm.gather_begin = watched_gather;
    watched.comm.wait = watched_wait;
    return watched;
}

struct rank {
    struct device *device;
    struct state state;
    struct engine engine;
    struct updater updater;
};

static void rank_open(struct rank *rank, const struct setting *setting, struct comm *comm) {
    const struct device_options options = {.threads = 1};
    const struct engine_shape largest = {
        .train = {SEQUENCES * LONGEST, SEQUENCES, SEQUENCES * 3, LONGEST}};
    struct berth_config config;
    option_defaults(&config);
    config.optimizer = setting->optimizer;
    config.loss_average = setting->average;
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.1;
    config.max_grad_norm = 0.5;
    CHECK(optimizer_settle(&config, NULL) == BERTH_OK);
    struct update_rules rules = update_rules_of(&config, &shape, DTYPE_F32);
    rules.parts = setting->parts;
    rules.exchange = (struct all_reduce_rules){.wire = setting->wire,
                                               .waits = setting->waits,
                                               .gradient_bucket = setting->bucket,
                                               .weight_bucket = setting->bucket};
    rules.check_every = setting->checks;
    const struct state_share share = {comm->rank, comm->size, setting->stage,
                                      optimizer_is_by_tensor(&rules.optimizer)};
    CHECK(device_cpu_open(&options, &rank->device, NULL) == BERTH_OK);
    CHECK(state_init_share(&rank->state, rank->device, &table, setting->compute, &share, NULL) ==
          BERTH_OK);
    param_initialise(&table, &shape, 3, rank->state.master);
    state_set_weights(&rank->state, rank->state.master);
    CHECK(engine_init(&rank->engine, &rank->state, comm, &shape, &largest, NULL) == BERTH_OK);
    CHECK(updater_init(&rank->updater, &rank->engine, &rules, SEQUENCES, NULL) == BERTH_OK);
}

static void rank_close(struct rank *rank) {
    updater_end(&rank->updater);
    updater_done(&rank->updater);
    engine_done(&rank->engine);
    state_done(&rank->state);
    rank->device->close(rank->device);
}

// The last updates have fewer sequences than ranks.
static size_t sequences_of(const struct setting *setting, int64_t step) {
    return step < UPDATES - 1 || setting->shares ? SEQUENCES : 3;
}

// An update's data, for one rank.
struct update_data {
    uint32_t order[SEQUENCES];
    struct packer_source source;
    struct batching batching;
};

static struct update_args args_of(struct update_data *data, const struct setting *setting,
                                  const struct comm *comm, int64_t step) {
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        data->order[i] = (i * 5 + (uint32_t)step) % SEQUENCES;
    }
    const int masks = table.head == PARAM_HEAD_PRETRAINING;
    const size_t all = sequences_of(setting, step);
    const size_t own = setting->shares ? all / (size_t)comm->size : all;
    data->source = (struct packer_source){.get = masks ? get_masked : get, .count = SEQUENCES};
    data->batching = (struct batching){.micro = {INT64_MAX, setting->micro, INT64_MAX, 0}};
    return (struct update_args){.batching = &data->batching,
                                .source = &data->source,
                                .order = data->order + (own < all ? own * (size_t)comm->rank : 0),
                                .count = own,
                                .others = all - own,
                                .step = step,
                                .learning_rate = 1e-3};
}

static struct update_result rank_update(struct rank *rank, const struct setting *setting,
                                        int64_t step) {
    struct update_data data;
    const struct update_args args = args_of(&data, setting, rank->engine.comm, step);
    struct update_result result;
    struct berth_error error;
    if (!CHECK(update_run(&rank->updater, &args, &result, &error) == BERTH_OK)) {
        fprintf(stderr, "%s\n", error.message);
    }
    return result;
}

static void copy_spans(float *to, const float *from, const struct partition *partition,
                       int is_whole) {
    for (size_t i = 0; i < partition->count; i++) {
        const struct partition_span *span = &partition->spans[i];
        memcpy(to + span->first, from + (is_whole ? span->first : span->at),
               (size_t)span->count * sizeof *to);
    }
}

static void collect(struct outcome *outcome, const struct rank *rank, const struct comm *comm) {
    const struct state *state = &rank->state;
    const struct state_share *share = &state->share;
    const void *compute = state->copy != NULL ? state->copy : state->master;
    pthread_mutex_lock(&outcome->mutex);
    copy_spans(outcome->numbers[0], state->master, &state->own, 1);
    copy_spans(outcome->numbers[1], state->moment1, &state->own, share->stage == 0);
    copy_spans(outcome->numbers[2], state->moment2, &state->own, share->stage == 0);
    if (outcome->compute == NULL) {
        outcome->compute_bytes = (size_t)table.matrix_count * dtype_size(state->compute);
        outcome->compute = memory_new(outcome->compute_bytes);
        memcpy(outcome->compute, compute, outcome->compute_bytes);
    }
    outcome->different += memcmp(outcome->compute, compute, outcome->compute_bytes) != 0;
    outcome->stats.bytes += comm->stats((struct comm *)(uintptr_t)comm).bytes;
    pthread_mutex_unlock(&outcome->mutex);
}

// Stages 1 and 2 keep the layers' master weights where they are owned alone.
static void check_foreign_weights(const struct rank *rank) {
    const struct state *state = &rank->state;
    const int divided =
        state->share.stage > 0 && state->share.size > 1 && state->compute != DTYPE_F32;
    int64_t foreign = table.head_first, kept = 0;
    for (int64_t i = 0; i < table.head_first; i++) {
        kept += state->master[i] != 0;
    }
    for (size_t i = 0; i < state->own.count; i++) {
        const struct partition_span own = partition_part(&state->own, i, 0, table.head_first);
        foreign -= own.count;
        for (int64_t k = own.first; k < own.first + own.count; k++) {
            kept -= state->master[k] != 0;
        }
    }
    CHECK(divided ? kept == 0 : kept >= foreign / 2);
}

static void body(struct comm *comm, const struct transport *transport, void *context) {
    struct outcome *outcome = context;
    struct watched watched = watched_by(comm);
    struct rank rank;
    rank_open(&rank, &outcome->setting, &watched.comm);
    for (int64_t step = 0; step < UPDATES; step++) {
        const struct update_result result = rank_update(&rank, &outcome->setting, step);
        if (comm->rank == 0) {
            outcome->losses[step] = result.loss;
            outcome->norms[step] = result.grad_norm;
        }
    }
    all_reduce_wait_all_weights(&rank.updater.all_reduce);
    if (comm->size > 1) {
        check_foreign_weights(&rank);
    }
    collect(outcome, &rank, comm);
    rank_close(&rank);
    pthread_mutex_lock(&outcome->mutex);
    outcome->overlapping += watched.overlapping;
    pthread_mutex_unlock(&outcome->mutex);
}

static struct outcome run(const struct setting *setting) {
    struct outcome outcome = {.setting = *setting};
    pthread_mutex_init(&outcome.mutex, NULL);
    for (int i = 0; i < 3; i++) {
        outcome.numbers[i] = memory_array_zeroed((size_t)table.total, sizeof(float));
        assert_non_null(outcome.numbers[i]);
    }
    if (strcmp(setting->layout, "1x1") == 0) {
        body(comm_self(), NULL, &outcome);
    } else {
        struct job job = job_of(setting->layout);
        job.settings.timeout_seconds = 120;
        job.body = body;
        job.context = &outcome;
        job_run(&job);
    }
    return outcome;
}

static void outcome_done(struct outcome *outcome) {
    for (int i = 0; i < 3; i++) {
        memory_free(outcome->numbers[i]);
    }
    memory_free(outcome->compute);
    pthread_mutex_destroy(&outcome->mutex);
}

// --- comparing ----------------------------------------------------------------------------------

static double distance(const float *a, const float *b, int64_t count) {
    double difference = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        difference += pow((double)a[i] - (double)b[i], 2);
        size += pow((double)b[i], 2);
    }
    return sqrt(difference / size);
}

static void assert_close(const struct outcome *a, const struct outcome *b, double most) {
    for (int i = 0; i < UPDATES; i++) {
        if (!(fabs(a->losses[i] / b->losses[i] - 1) <= most) ||
            !(fabs(a->norms[i] / b->norms[i] - 1) <= 10 * most)) {
            fail_msg("%s stage %d, update %d: loss %.9g, not %.9g; norm %.9g, not %.9g",
                     a->setting.layout, a->setting.stage, i, a->losses[i], b->losses[i],
                     a->norms[i], b->norms[i]);
        }
    }
    // Sums of gradients, where weights divide by what may be rounding errors alone.
    const double apart = distance(a->numbers[1], b->numbers[1], table.total);
    if (!(apart <= 10 * most)) {
        fail_msg("%s stage %d: first moments are %.2g apart", a->setting.layout, a->setting.stage,
                 apart);
    }
}

static void assert_same(const struct outcome *a, const struct outcome *b) {
    static const char *const names[] = {"weights", "first moments", "second moments"};
    for (int i = 0; i < 3; i++) {
        if (memcmp(a->numbers[i], b->numbers[i], (size_t)table.total * sizeof(float)) != 0) {
            fail_msg("%s stage %d %s: other %s than %s, %.2g apart", a->setting.layout,
                     a->setting.stage, a->setting.optimizer, names[i], b->setting.layout,
                     distance(a->numbers[i], b->numbers[i], table.total));
        }
    }
}

static void test_any_number_of_ranks_makes_the_same_updates(void **state) {
    static const char *const layouts[] = {"1x2", "3x1", "2x2", "1+2", "1x8"};
    static const char *const averages[] = {"update", "micro"};
    for (int average = 0; average < 2; average++) {
        struct setting setting = {.layout = "1x1",
                                  .optimizer = "adamw",
                                  .average = averages[average],
                                  .micro = average == 0 ? 5 : 1};
        struct outcome whole = run(&setting);
        for (int i = 0; i < 5; i++) {
            setting.layout = layouts[i];
            // Of eight ranks one stage: all stages go the same way whatever the number.
            const int first = i == 4 ? 2 - average : average;
            for (setting.stage = first; setting.stage <= 2 - average; setting.stage++) {
                struct outcome parts = run(&setting);
                assert_int_equal(parts.different, 0);
                assert_close(&parts, &whole, 1e-6);
                outcome_done(&parts);
            }
        }
        outcome_done(&whole);
    }
}

// A rank that knows its own sequences alone divides by the counts of all.
static void test_ranks_with_sequences_of_their_own(void **state) {
    static const char *const layouts[] = {"1x2", "3x1", "2x2"};
    static const char *const averages[] = {"update", "micro"};
    param_table_done(&table);
    assert_int_equal(param_table_init(&table, &shape, PARAM_HEAD_PRETRAINING, NULL), BERTH_OK);
    for (int average = 0; average < 2; average++) {
        struct setting setting = {.layout = "1x1",
                                  .optimizer = "adamw",
                                  .average = averages[average],
                                  .micro = 2,
                                  .shares = 1};
        struct outcome whole = run(&setting);
        for (int i = 0; i < 3; i++) {
            setting.layout = layouts[i];
            setting.stage = i;
            struct outcome parts = run(&setting);
            assert_int_equal(parts.different, 0);
            assert_close(&parts, &whole, 1e-6);
            outcome_done(&parts);
        }
        outcome_done(&whole);
    }
    param_table_done(&table);
    assert_int_equal(set_up(state), 0);
}

// With bf16 on the wire the sums are rounded; the ranks still agree.
static void test_gradients_may_travel_in_bf16(void **state) {
    struct setting setting = {
        .layout = "1x1", .optimizer = "adamw", .compute = DTYPE_BF16, .micro = 5};
    struct outcome whole = run(&setting);
    setting.layout = "2x2";
    uint64_t bytes[2];
    for (int wire = 0; wire < 2; wire++) {
        setting.wire = wire == 0 ? DTYPE_F32 : DTYPE_BF16;
        for (setting.stage = 0; setting.stage <= 2; setting.stage++) {
            struct outcome parts = run(&setting);
            assert_int_equal(parts.different, 0);
            assert_close(&parts, &whole, 3e-3);
            bytes[wire] = parts.stats.bytes;
            outcome_done(&parts);
        }
    }
    assert_true((double)bytes[1] < 0.8 * (double)bytes[0]);
    outcome_done(&whole);
}

// FEATURES L17.
static void test_virtual_ranks_give_the_same_bytes(void **state) {
    static const char *const layouts[] = {"1x2", "2x2", "1x8", "2x4"};
    static const char *const optimizers[] = {"adamw", "nvlamb"};
    for (int i = 0; i < 4; i++) {
        struct setting setting = {.layout = "1x1",
                                  .parts = 8,
                                  .compute = i % 2 == 0 ? DTYPE_F32 : DTYPE_BF16,
                                  .wire = DTYPE_BF16, // without effect
                                  .optimizer = optimizers[i / 2],
                                  .micro = 2};
        struct outcome whole = run(&setting), parts;
        // Two layouts a setting: each meets both types and both optimizers.
        for (int layout = (i + i / 2) % 2; layout < 4; layout += 2) {
            setting.layout = layouts[layout];
            setting.stage = layout % 3;
            parts = run(&setting);
            assert_same(&parts, &whole);
            outcome_done(&parts);
        }
        // What must differ: fewer parts add in another order.
        setting.layout = "1x1";
        setting.parts = 4;
        parts = run(&setting);
        assert_memory_not_equal(parts.numbers[1], whole.numbers[1],
                                (size_t)table.total * sizeof(float));
        outcome_done(&parts);
        outcome_done(&whole);
    }
}

// DeepSpeed's overlap_comm, reduce_bucket_size and allgather_bucket_size: when and in what pieces
// ranges travel, not what they come to.
static void test_overlap_and_buckets_change_no_bytes(void **state) {
    for (int stage = 0; stage <= 2; stage++) {
        struct setting setting = {.layout = "2x2",
                                  .stage = stage,
                                  .compute = stage == 1 ? DTYPE_BF16 : DTYPE_F32,
                                  .optimizer = "adamw",
                                  .micro = 5};
        struct outcome usual = run(&setting);
        assert_true(usual.overlapping > 0);
        setting.waits = 1;
        struct outcome waiting = run(&setting);
        assert_same(&waiting, &usual);
        assert_int_equal(waiting.overlapping, 0);
        setting.waits = 0;
        setting.bucket = 40000;
        struct outcome pieces = run(&setting);
        assert_same(&pieces, &usual);
        assert_true(pieces.overlapping > 0);
        assert_true(pieces.stats.bytes > usual.stats.bytes); // more messages
        outcome_done(&usual);
        outcome_done(&waiting);
        outcome_done(&pieces);
    }
}

// --- numbers that are not finite ----------------------------------------------------------------

// One rank has a weight, or a gradient, that is not finite; all name it.
static void blame(struct comm *comm, const struct transport *transport, void *context) {
    static const char *const names[] = {"the value of bert.encoder.layer.1.output.dense.weight",
                                        "the gradient of bert.encoder.layer.0.output.dense.weight",
                                        "the sum of the gradient's squares"};
    const struct setting setting = {
        .stage = 2, .compute = DTYPE_BF16, .optimizer = "adamw", .micro = 5};
    const int64_t at[] = {table.layers[1].output_weight, table.layers[0].output_weight};
    struct rank rank;
    rank_open(&rank, &setting, comm);
    float *const buffers[] = {rank.state.master, rank.state.gradients};
    (void)rank_update(&rank, &setting, 0);
    for (int i = 0; i < 3; i++) {
        struct berth_error error;
        char text[256] = "";
        int is_own = 0;
        for (size_t k = 0; i < 2 && k < rank.state.own.count; k++) {
            is_own |= partition_part(&rank.state.own, k, at[i], 1).count > 0;
        }
        if (is_own) {
            buffers[i][at[i]] = NAN;
        }
        struct update_data data;
        const struct update_args args = args_of(&data, &setting, comm, 1);
        CHECK(update_blame(&rank.updater, &args, text, sizeof text, &error) == BERTH_OK);
        if (!CHECK(strncmp(text, names[i], strlen(names[i])) == 0)) {
            fprintf(stderr, "rank %d: %s\n", comm->rank, text);
        }
        if (is_own) {
            buffers[i][at[i]] = 0;
        }
    }
    rank_close(&rank);
}

static void test_all_ranks_name_what_is_not_finite(void **state) {
    struct job job = job_of("2x2");
    job.settings.timeout_seconds = 120;
    job.body = blame;
    job_run(&job);
}

// --- numbers that change by themselves -----------------------------------------------------------

enum { FIRST_BITS = 16 }; // of a number, which is at least as wide

// A number of rank `victim`, of the kind `name`, that it owns or gathers.
struct target {
    const char *name;
    int is_own;
    int64_t first, count; // where to look for it
};

static int owns(const struct rank *rank, int64_t element) {
    for (size_t i = 0; i < rank->state.own.count; i++) {
        if (partition_part(&rank->state.own, i, element, 1).count > 0) {
            return 1;
        }
    }
    return 0;
}

static int64_t find_element(const struct rank *rank, const struct target *target) {
    int64_t element = target->first;
    while (element < target->first + target->count && owns(rank, element) != target->is_own) {
        element += 1000;
    }
    CHECK(element < target->first + target->count);
    return element;
}

static const char *name_of(int64_t element) {
    size_t last = table.count - 1;
    while (table.params[last].offset > element) {
        last--;
    }
    return table.params[last].name;
}

static void *number_at(const struct rank *rank, const char *kind, int64_t element) {
    const struct state *state = &rank->state;
    float *const moments = strcmp(kind, "first moment") == 0 ? state->moment1 : state->moment2;
    if (strcmp(kind, "master weight") == 0) {
        return state->master + element;
    }
    if (strcmp(kind, "compute copy") == 0) {
        return (char *)state->copy + (size_t)element * dtype_size(state->compute);
    }
    for (size_t i = 0; i < state->partition.count; i++) {
        const struct partition_span part = partition_part(&state->partition, i, element, 1);
        if (part.count > 0) {
            return moments + part.at;
        }
    }
    return NULL;
}

static void flip(void *number, int bit) {
    ((unsigned char *)number)[bit / 8] ^= (unsigned char)(1 << bit % 8);
}

static enum berth_status try_update(struct rank *rank, const struct setting *setting, int64_t step,
                                    struct berth_error *error) {
    struct update_data data;
    const struct update_args args = args_of(&data, setting, rank->engine.comm, step);
    struct update_result result;
    *error = (struct berth_error){0};
    return update_run(&rank->updater, &args, &result, error);
}

// As a forward pass does.
static void receive_weights(struct rank *rank) {
    for (size_t range = 0; range < param_range_count(&table); range++) {
        rank->engine.model.source.need(rank->engine.model.source.context, range);
    }
}

// The first rank says that rank `victim` is to blame, with each of the words; the others nothing.
static void check_blame(const struct comm *comm, const struct berth_error *error, int victim,
                        const char *const *words) {
    char who[64] = "this process: ";
    if (comm->size > 1) {
        snprintf(who, sizeof who, "rank %d (%s): ", victim, comm->host_names[victim]);
    }
    int is_right = comm->rank == 0 ? strncmp(error->message, who, strlen(who)) == 0
                                   : strcmp(error->message, "") == 0;
    for (; comm->rank == 0 && *words != NULL; words++) {
        is_right &= strstr(error->message, *words) != NULL;
    }
    if (!CHECK(is_right)) {
        fprintf(stderr, "rank %d: expected %s...; found: %s\n", comm->rank, who, error->message);
    }
}

// One bit of the victim's changes between two updates, and changes back.
static void check_flip(struct rank *rank, const struct setting *setting, int64_t step, int victim,
                       const struct target *target) {
    struct comm *comm = rank->engine.comm;
    struct berth_error error;
    char kind[64], updates[64];
    int64_t element = 0;
    void *number = NULL;
    receive_weights(rank);
    if (comm->rank == victim) {
        element = find_element(rank, target);
        number = number_at(rank, target->name, element);
        flip(number, (int)step % FIRST_BITS);
    }
    comm->broadcast(comm, &element, sizeof element, victim);
    CHECK(try_update(rank, setting, step, &error) == BERTH_UNAVAILABLE);
    snprintf(kind, sizeof kind, "the %s of ", target->name);
    snprintf(updates, sizeof updates, "after update %d,", (int)step);
    check_blame(comm, &error, victim,
                (const char *const[]){kind, name_of(element), updates, "memory", NULL});
    CHECK((update_check(&rank->updater, step, &error) == BERTH_UNAVAILABLE)); // before saving
    if (comm->rank == victim) {
        flip(number, (int)step % FIRST_BITS);
    }
    update_discard(&rank->updater);
    CHECK(update_check(&rank->updater, step, NULL) == BERTH_OK);
    CHECK(try_update(rank, setting, step, &error) == BERTH_OK);
}

// By the ranks that do not own it, if `target` is not of the owner.
static int is_kept(const struct target *target, const struct setting *setting) {
    const int has_copy = setting->compute != DTYPE_F32;
    if (strcmp(target->name, "compute copy") == 0) {
        return has_copy;
    }
    if (strcmp(target->name, "master weight") == 0 && (!has_copy || target->first == table.word)) {
        return 1;
    }
    return target->is_own || setting->stage == 0;
}

static void flips(struct comm *comm, const struct transport *transport, void *context) {
    const struct setting *setting = context;
    const struct param_range layer = param_range(&table, 1);
    const int64_t word_count = shape.vocab_size * shape.hidden_size;
    const struct target targets[] = {
        {"master weight", 1, layer.first, layer.count},
        {"first moment", 1, layer.first, layer.count},
        {"second moment", 1, layer.first, layer.count},
        {"compute copy", 1, layer.first, layer.count},
        {"compute copy", 0, layer.first, layer.count},
        {"master weight", 0, layer.first, layer.count},
        {"master weight", 0, table.word, word_count},
        {"first moment", 0, layer.first, layer.count},
        {"second moment", 0, layer.first, layer.count},
    };
    struct rank rank;
    rank_open(&rank, setting, comm);
    int64_t step = UPDATES - 1; // few sequences: one rank may have none
    (void)rank_update(&rank, setting, step++);
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        if (is_kept(&targets[i], setting) && (targets[i].is_own || comm->size > 1)) {
            check_flip(&rank, setting, step++, (int)i % comm->size, &targets[i]);
        }
    }
    rank_close(&rank);
}

static void run_job(const struct setting *setting, job_body *each) {
    if (strcmp(setting->layout, "1x1") == 0) {
        each(comm_self(), NULL, (void *)(uintptr_t)setting);
        return;
    }
    struct job job = job_of(setting->layout);
    job.settings.timeout_seconds = 120;
    job.body = each;
    job.context = (void *)(uintptr_t)setting;
    job_run(&job);
}

// RELIABILITY 24: before the next update and before saving, whatever K is.
static void test_a_flipped_bit_is_found_where_it_is(void **state) {
    static const char *const layouts[] = {"1x2", "2x2", "1x1"};
    for (int i = 0; i < 3; i++) {
        for (int stage = 0; stage <= (i < 2 ? 2 : 0); stage++) {
            for (enum dtype compute = DTYPE_F32; compute <= DTYPE_BF16; compute++) {
                const struct setting setting = {.layout = layouts[i],
                                                .stage = stage,
                                                .compute = compute,
                                                .wire = compute,
                                                .optimizer = "adamw",
                                                .micro = 5,
                                                .checks = stage == 1 ? 3 : 1};
                run_job(&setting, flips);
            }
        }
    }
}

static void test_checks_change_no_bytes(void **state) {
    for (int stage = 0; stage <= 2; stage++) {
        struct setting setting = {.layout = "2x2",
                                  .stage = stage,
                                  .compute = stage == 1 ? DTYPE_F32 : DTYPE_BF16,
                                  .optimizer = stage == 1 ? "nvlamb" : "adamw",
                                  .micro = 5};
        struct outcome usual = run(&setting);
        setting.checks = 1;
        struct outcome checked = run(&setting);
        assert_same(&checked, &usual);
        assert_int_equal(checked.different, 0);
        outcome_done(&usual);
        outcome_done(&checked);
    }
}

// A step that computes one number wrongly, once.
static _Thread_local void (*right_adamw)(struct device *, const struct adamw_args *);
static _Thread_local int64_t wrong_element;

static void wrong_adamw(struct device *device, const struct adamw_args *args) {
    right_adamw(device, args);
    for (int64_t i = 0; i < args->range_count; i++) {
        const struct device_range *range = &args->ranges[i];
        if (wrong_element >= range->first && wrong_element < range->first + range->count) {
            flip(args->parameters + wrong_element, 3);
            wrong_element = -1;
        }
    }
}

enum { PERIOD = 3 };

// Until a multiple of PERIOD; the wrong numbers have been overwritten by then.
static int64_t update_until_found(struct rank *rank, const struct setting *setting, int64_t step,
                                  struct berth_error *error) {
    enum berth_status status = BERTH_OK;
    for (int i = 0; i < PERIOD && status == BERTH_OK; i++) {
        status = try_update(rank, setting, step++, error);
    }
    CHECK(status == BERTH_UNAVAILABLE);
    return step - 1;
}

// Stage 0: one rank computes another number than the rest; the majority is right.
static void differ(struct comm *comm, const struct transport *transport, void *context) {
    const struct setting *setting = context;
    const int victim = 1;
    const struct param_range layer = param_range(&table, 1);
    for (int is_own = 0; is_own <= 1; is_own++) {
        const struct target target = {"master weight", is_own, layer.first, layer.count};
        struct berth_error error;
        struct rank rank;
        rank_open(&rank, setting, comm);
        int64_t element = find_element(&rank, &target);
        comm->broadcast(comm, &element, sizeof element, victim);
        right_adamw = rank.device->adamw;
        wrong_element = comm->rank == victim ? element : -1;
        rank.device->adamw = wrong_adamw;
        (void)rank_update(&rank, setting, PERIOD);
        CHECK(update_until_found(&rank, setting, PERIOD + 1, &error) == 2 * PERIOD);
        const int names_owner = comm->size == 2 && is_own; // one against one
        check_blame(comm, &error, names_owner ? 0 : victim,
                    (const char *const[]){"the master weight of ", name_of(element),
                                          "after one of the updates 4 to 6",
                                          comm->size == 2 ? "and either may be wrong" : "differs",
                                          NULL});
        rank_close(&rank);
    }
}

static void test_a_rank_that_computes_other_numbers_is_found(void **state) {
    struct setting setting = {.layout = "2x2", .optimizer = "adamw", .micro = 5, .checks = PERIOD};
    run_job(&setting, differ);
    setting.layout = "1x2";
    run_job(&setting, differ);
}

// Stages 1 and 2: what a rank receives is not what the owner has.
static void arrive(struct comm *comm, const struct transport *transport, void *context) {
    const struct setting *setting = context;
    const int victim = comm->size - 1;
    const struct param_range layer = param_range(&table, 1);
    const struct target target = {"compute copy", 0, layer.first, layer.count};
    struct berth_error error;
    struct rank rank;
    rank_open(&rank, setting, comm);
    (void)rank_update(&rank, setting, PERIOD);
    all_reduce_wait_all_weights(&rank.updater.all_reduce);
    int64_t element = find_element(&rank, &target);
    comm->broadcast(comm, &element, sizeof element, victim);
    if (comm->rank == victim) {
        flip(number_at(&rank, target.name, element), 0);
    }
    CHECK(update_until_found(&rank, setting, PERIOD + 1, &error) == 2 * PERIOD);
    check_blame(comm, &error, victim,
                (const char *const[]){"the compute copy of ", name_of(element),
                                      "differs from that on rank ",
                                      "after one of the updates 4 to 6", NULL});
    rank_close(&rank);
}

static void test_a_copy_that_is_not_the_owners_is_found(void **state) {
    for (int stage = 1; stage <= 2; stage++) {
        const struct setting setting = {.layout = stage == 1 ? "1x2" : "2x2",
                                        .stage = stage,
                                        .compute = DTYPE_BF16,
                                        .wire = DTYPE_BF16,
                                        .optimizer = "adamw",
                                        .micro = 5,
                                        .checks = PERIOD};
        run_job(&setting, arrive);
    }
}

// --- forecasts ----------------------------------------------------------------------------------

static void advance(void *context, const struct rank_moment *moment) {
    struct comm *comm = context;
    for (int rank = 0; rank < comm->size; rank++) {
        comm_forecast_clocks(comm)[rank] += moment->seconds;
    }
}

// Records rank 0 of the cluster, and then counts what UPDATES such updates send.
static uint64_t forecast_bytes(const struct setting *setting, const struct comm_cluster *cluster) {
    struct recorder recorder;
    struct rank rank;
    struct comm *comm;
    struct all_reduce all_reduce;
    uint64_t bytes = 0;
    assert_int_equal(comm_forecast_open(cluster, &comm, NULL), BERTH_OK);
    assert_int_equal(recorder_init(&recorder, comm, &table, NULL), BERTH_OK);
    rank_open(&rank, setting, &recorder.comm);
    for (int64_t step = 0; step < UPDATES; step++) {
        if (step > 0) { // the first one waits for no weights
            recorder_start(&recorder);
        }
        rank_update(&rank, setting, step);
        if (step > 0) {
            assert_int_equal(recorder_stop(&recorder, 1, NULL), BERTH_OK);
        }
    }
    recorder_average(&recorder);
    assert_int_equal(
        all_reduce_init(&all_reduce, comm, &rank.state, &rank.updater.all_reduce.rules, NULL),
        BERTH_OK);
    const struct rank_replay replay = {&all_reduce, advance, comm};
    for (int64_t step = 0; step < UPDATES; step++) {
        assert_int_equal(rank_times_replay(&recorder.times, &replay, NULL), BERTH_OK);
    }
    for (int other = 0; other < comm->size; other++) {
        bytes += comm_forecast_sent(comm, other);
    }
    // All exchanges are waited for but those of the last weights; the clock has all that was
    // computed.
    assert_true(comm_forecast_clocks(comm)[0] >= UPDATES * rank_times_seconds(&recorder.times, 1));
    all_reduce_end(&all_reduce);
    all_reduce_done(&all_reduce);
    rank_close(&rank);
    recorder_done(&recorder);
    comm->close(comm);
    return bytes;
}

static void test_a_forecast_sends_the_bytes_of_a_run(void **state) {
    static const struct {
        const char *layout;
        int hosts, ranks_per_host;
    } layouts[] = {{"2x1", 2, 1}, {"2x2", 2, 2}, {"4x1", 4, 1}};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        for (int stage = 0; stage <= 2; stage++) {
            const struct setting setting = {.layout = layouts[i].layout,
                                            .stage = stage,
                                            .compute = DTYPE_BF16,
                                            .wire = stage == 1 ? DTYPE_F32 : DTYPE_BF16,
                                            .optimizer = stage == 2 ? "lamb" : "adamw",
                                            .micro = SEQUENCES,
                                            .waits = stage == 1,
                                            .bucket = stage == 2 ? 40000 : 0};
            const struct comm_cluster cluster = {.hosts = layouts[i].hosts,
                                                 .ranks_per_host = layouts[i].ranks_per_host,
                                                 .link = {1e9, 0}};
            struct outcome outcome = run(&setting);
            assert_true(outcome.stats.bytes > 0);
            assert_int_equal(forecast_bytes(&setting, &cluster), outcome.stats.bytes);
            outcome_done(&outcome);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overlap_and_buckets_change_no_bytes),
        cmocka_unit_test(test_any_number_of_ranks_makes_the_same_updates),
        cmocka_unit_test(test_ranks_with_sequences_of_their_own),
        cmocka_unit_test(test_gradients_may_travel_in_bf16),
        cmocka_unit_test(test_virtual_ranks_give_the_same_bytes),
        cmocka_unit_test(test_all_ranks_name_what_is_not_finite),
        cmocka_unit_test(test_a_forecast_sends_the_bytes_of_a_run),
        cmocka_unit_test(test_a_flipped_bit_is_found_where_it_is),
        cmocka_unit_test(test_checks_change_no_bytes),
        cmocka_unit_test(test_a_rank_that_computes_other_numbers_is_found),
        cmocka_unit_test(test_a_copy_that_is_not_the_owners_is_found),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
