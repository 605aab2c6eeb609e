// SPDX-License-Identifier: Apache-2.0
#include "ranks_fixture.h"

#include "core/harness.h"
#include "core/memory.h"
#include "core/rng.h"
#include "settings/settings.h"
#include "train/job/rules.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Large enough for matrices to be cut (train/optimizer/partition.h); the others are not whole
// blocks.
const struct bert_config ranks_shape = {.vocab_size = 500,
                                        .hidden_size = 256,
                                        .num_hidden_layers = 2,
                                        .num_attention_heads = 4,
                                        .intermediate_size = 600,
                                        .max_position_embeddings = 32,
                                        .type_vocab_size = 2,
                                        .layer_norm_eps = 1e-12,
                                        .initializer_range = 0.02,
                                        .num_labels = 3};
enum { LONGEST = 20 };

struct param_table ranks_table;
static float *initial_weights; // of all ranks
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

int ranks_set_up(void **state) {
    uint64_t index = 0;
    for (int i = 0; i < SEQUENCES * LONGEST; i++) {
        ids[i / LONGEST][i % LONGEST] = (int32_t)rng_below(1, 2, &index, 500);
    }
    ranks_set_head(PARAM_HEAD_CLASS);
    return 0;
}

int ranks_tear_down(void **state) {
    param_table_done(&ranks_table);
    memory_free(initial_weights);
    initial_weights = NULL;
    return 0;
}

void ranks_set_head(enum param_head head) {
    ranks_tear_down(NULL);
    assert_int_equal(param_table_init(&ranks_table, &ranks_shape, head, NULL), BERTH_OK);
    initial_weights = memory_array_zeroed((size_t)ranks_table.total, sizeof *initial_weights);
    assert_non_null(initial_weights);
    param_initialise(&ranks_table, &ranks_shape, 3, initial_weights, 1);
}

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
    while (param_range(&ranks_table, range).first > element ||
           param_range(&ranks_table, range).first + param_range(&ranks_table, range).count <=
               element) {
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

void rank_open(struct rank *rank, const struct setting *setting, struct comm *comm) {
    const struct device_options options = {.threads = 1};
    const struct engine_shape largest = {
        .train = {SEQUENCES * LONGEST, SEQUENCES, SEQUENCES * 3, LONGEST},
        .attention_dropout = 0.1};
    struct settings config;
    settings_init(&config);
    config.optimizer.optimizer = setting->optimizer != NULL ? setting->optimizer : "adamw";
    config.engine.loss_average = setting->average != NULL ? setting->average : "update";
    config.model.hidden_dropout_prob = config.model.attention_probs_dropout_prob = 0.1;
    config.optimizer.max_grad_norm = 0.5;
    CHECK(optimizer_settle(&config.optimizer, NULL) == BERTH_OK);
    struct update_rules rules = update_rules_of(&config, &ranks_shape, ranks_table.head, DTYPE_F32);
    rules.parts = setting->parts;
    rules.exchange = (struct all_reduce_rules){.wire = setting->wire,
                                               .blocking = setting->blocking,
                                               .gradient_bucket = setting->bucket,
                                               .weight_bucket = setting->bucket};
    rules.check_every = setting->checks;
    const struct state_sharding sharding = {.rank = comm->rank,
                                            .size = comm->size,
                                            .stage = setting->stage,
                                            .by_tensor =
                                                optimizer_needs_tensor_norms(&rules.optimizer)};
    CHECK(device_cpu_open(&options, &rank->device, NULL) == BERTH_OK);
    CHECK(state_init_sharded(&rank->state, rank->device, &ranks_table, setting->compute, &sharding,
                             NULL) == BERTH_OK);
    memcpy(rank->state.master, initial_weights,
           (size_t)ranks_table.total * sizeof *initial_weights);
    state_set_weights(&rank->state, rank->state.master);
    CHECK(engine_init(&rank->engine, &rank->state, comm, &ranks_shape, &largest, NULL) == BERTH_OK);
    CHECK(updater_init(&rank->updater, &rank->engine, &rules, SEQUENCES, NULL) == BERTH_OK);
}

void rank_close(struct rank *rank) {
    updater_finish(&rank->updater);
    updater_done(&rank->updater);
    engine_done(&rank->engine);
    state_done(&rank->state);
    rank->device->close(rank->device);
}

// The last updates have fewer sequences than ranks.
static size_t sequences_of(const struct setting *setting, int64_t step) {
    return step < UPDATES - 1 || setting->divided ? SEQUENCES : 3;
}

struct update_args rank_args(struct update_data *data, const struct setting *setting,
                             const struct comm *comm, int64_t step) {
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        data->order[i] = (i * 5 + (uint32_t)step) % SEQUENCES;
    }
    const int masks = ranks_table.head == PARAM_HEAD_PRETRAINING;
    const size_t all = sequences_of(setting, step);
    const size_t own = setting->divided ? all / (size_t)comm->size : all;
    data->source = (struct packer_source){.get = masks ? get_masked : get, .count = SEQUENCES};
    data->batching = (struct batching){.micro = {INT64_MAX, setting->micro, INT64_MAX, 0}};
    return (struct update_args){.batching = &data->batching,
                                .source = &data->source,
                                .order = data->order + (own < all ? own * (size_t)comm->rank : 0),
                                .count = own,
                                .others = all - own,
                                .step = step,
                                .rate = 1e-3};
}

struct update_result rank_update(struct rank *rank, const struct setting *setting, int64_t step) {
    struct update_data data;
    const struct update_args args = rank_args(&data, setting, rank->engine.comm, step);
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
        memcpy(to + span->first, from + (is_whole ? span->first : span->offset),
               (size_t)span->count * sizeof *to);
    }
}

static void collect(struct outcome *outcome, const struct rank *rank, const struct comm *comm) {
    const struct state *state = &rank->state;
    const struct state_sharding *sharding = &state->sharding;
    const void *compute = state->copy != NULL ? state->copy : state->master;
    pthread_mutex_lock(&outcome->mutex);
    copy_spans(outcome->numbers[0], state->master, &state->own, 1);
    copy_spans(outcome->numbers[1], state->moment1, &state->own, sharding->stage == 0);
    copy_spans(outcome->numbers[2], state->moment2, &state->own, sharding->stage == 0);
    if (outcome->compute == NULL) {
        outcome->compute_bytes = (size_t)ranks_table.matrix_count * dtype_size(state->compute);
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
        state->sharding.stage > 0 && state->sharding.size > 1 && state->compute != DTYPE_F32;
    int64_t foreign = ranks_table.head_first, kept = 0;
    for (int64_t i = 0; i < ranks_table.head_first; i++) {
        kept += state->master[i] != 0;
    }
    for (size_t i = 0; i < state->own.count; i++) {
        const struct partition_span own =
            partition_intersect(&state->own, i, 0, ranks_table.head_first);
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

struct outcome outcome_of(const struct setting *setting) {
    struct outcome outcome = {.setting = *setting};
    pthread_mutex_init(&outcome.mutex, NULL);
    for (int i = 0; i < 3; i++) {
        outcome.numbers[i] = memory_array_zeroed((size_t)ranks_table.total, sizeof(float));
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

void outcome_done(struct outcome *outcome) {
    for (int i = 0; i < 3; i++) {
        memory_free(outcome->numbers[i]);
    }
    memory_free(outcome->compute);
    pthread_mutex_destroy(&outcome->mutex);
}

double relative_distance(const float *a, const float *b, int64_t count) {
    double difference = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        const double apart = (double)a[i] - (double)b[i];
        difference += apart * apart;
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(difference / size);
}

void assert_same_outcome(const struct outcome *a, const struct outcome *b) {
    static const char *const names[] = {"weights", "first moments", "second moments"};
    for (int i = 0; i < 3; i++) {
        if (memcmp(a->numbers[i], b->numbers[i], (size_t)ranks_table.total * sizeof(float)) != 0) {
            fail_msg("%s stage %d %s: other %s than %s, %.2g apart", a->setting.layout,
                     a->setting.stage, a->setting.optimizer, names[i], b->setting.layout,
                     relative_distance(a->numbers[i], b->numbers[i], ranks_table.total));
        }
    }
}
