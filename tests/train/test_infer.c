// SPDX-License-Identifier: Apache-2.0
// Predictions by several ranks, which are threads here: rank 0 receives what one process
// receives, in the same order and to the bit. A rank that is stopped or fails ends the prediction
// of all. Threads that share an engine take turns batch by batch.
#include "comm/job.h"
#include "core/harness.h"
#include "core/memory.h"
#include "core/rng.h"
#include "core/stop.h"
#include "train/engine/infer.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const struct bert_config shape = {.vocab_size = 90,
                                         .hidden_size = 32,
                                         .num_hidden_layers = 1,
                                         .num_attention_heads = 2,
                                         .intermediate_size = 40,
                                         .max_position_embeddings = 64,
                                         .type_vocab_size = 2,
                                         .layer_norm_eps = 1e-12,
                                         .initializer_range = 0.02,
                                         .num_labels = 3,
                                         .embedding = {.pooling = BERTH_POOL_CLS}};
enum { SEQUENCES = 97, LONGEST = 40, MASKED = 3, BATCH_TOKENS = 100 };

static int32_t ids[SEQUENCES][LONGEST];
static int8_t types[LONGEST];
static const uint16_t positions[MASKED] = {1, 2, 3};
static const int32_t originals[MASKED] = {5, 6, 7};

static struct packer_sequence get(const void *data, size_t index) {
    return (struct packer_sequence){.ids = ids[index],
                                    .type_ids = types,
                                    .length = 4 + (int32_t)(index * 7 % (LONGEST - 4)),
                                    .masked_positions = positions,
                                    .masked_labels = originals,
                                    .masked_count = (int32_t)(index % (MASKED + 1))};
}

static struct packer_sequence get_unmasked(const void *data, size_t index) {
    struct packer_sequence sequence = get(data, index);
    sequence.masked_count = 0;
    return sequence;
}

static int set_up(void **state) {
    uint64_t index = 0;
    for (int i = 0; i < SEQUENCES * LONGEST; i++) {
        ids[i / LONGEST][i % LONGEST] = (int32_t)rng_below(1, 2, &index, 90);
    }
    return 0;
}

// --- runs ---------------------------------------------------------------------------------------

struct setting {
    const char *layout; // of the ranks (comm/job.h)
    enum param_head head;
    int reads_rows;
    int stopped;      // rank; 0: none
    size_t sequences; // 0: all
};

// What rank 0 received: index, numbers, one sequence after the other; of any other rank,
// which must receive nothing.
struct outcome {
    struct setting setting;
    pthread_mutex_t mutex;
    float *numbers;
    size_t count, capacity;
    struct infer_result result;
    int elsewhere; // calls in other ranks
    int statuses[SOCKET_PROCESSES], stopped[SOCKET_PROCESSES], messages;
    int64_t progress, hits;
    struct second *second; // NULL: no other thread uses the engine
    void (*first_received)(struct second *second);
};

struct receiver {
    struct outcome *outcome;
    int rank;
};

static void add(struct receiver *receiver, const float *numbers, int64_t count) {
    struct outcome *outcome = receiver->outcome;
    if (receiver->rank > 0) {
        pthread_mutex_lock(&outcome->mutex);
        outcome->elsewhere++;
        pthread_mutex_unlock(&outcome->mutex);
        return;
    }
    if (!CHECK(outcome->count + (size_t)count <= outcome->capacity)) {
        return;
    }
    memcpy(outcome->numbers + outcome->count, numbers, (size_t)count * sizeof *numbers);
    outcome->count += (size_t)count;
}

static void receive(void *context, size_t index, const float *logits, int64_t count) {
    const struct receiver *receiver = context;
    const struct outcome *outcome = receiver->outcome;
    const float number = (float)index;
    if (outcome->first_received != NULL && outcome->count == 0) {
        outcome->first_received(outcome->second);
    }
    add(context, &number, 1);
    add(context, logits, count);
}

static void receive_masked(void *context, size_t index, const struct infer_masked *masked) {
    struct receiver *receiver = context;
    CHECK(masked->count == (int64_t)(index % (MASKED + 1)));
    for (int64_t i = 0; i < masked->count && receiver->rank == 0; i++) {
        CHECK(masked->losses[i] > 0 && (masked->hits[i] == 0 || masked->hits[i] == 1));
        receiver->outcome->hits += masked->hits[i] > 0;
    }
    add(context, masked->losses, masked->count);
    add(context, masked->hits, masked->count);
}

static void write_record(void *context, const struct berth_record *record) {
    struct outcome *outcome = context;
    if (record->kind == BERTH_PROGRESS) {
        outcome->progress = record->fields[0].integer;
    }
}

// A prediction by another thread with the engine of the first one. It asks for the engine while the
// first one receives the results of its first batch.
struct second {
    struct engine *engine;
    struct fair_lock lock;
    struct outcome outcome;
    const struct outcome *first;
    size_t first_count; // how many numbers the first one had received at the end of this one
    pthread_t thread;
};

static void infer(struct engine *engine, struct outcome *outcome, struct comm *comm) {
    const struct setting *setting = &outcome->setting;
    const int rank = comm->rank, masks = setting->head == PARAM_HEAD_PRETRAINING;
    const atomic_int stop = setting->stopped == rank && rank > 0 ? STOP_AND_SAVE : STOP_NONE;
    const struct packer_source source = {
        .get = setting->head == PARAM_HEAD_EMBEDDING ? get_unmasked : get,
        .count = setting->sequences > 0 ? setting->sequences : SEQUENCES};
    const struct batch_extent extent = {.tokens = BATCH_TOKENS,
                                        .sequences = BATCH_TOKENS / 4,
                                        .masked = masks ? SEQUENCES * MASKED : 0,
                                        .max_length = LONGEST};
    struct receiver receiver = {outcome, rank};
    const struct berth_log log = {.write = rank == 0 ? write_record : NULL, .context = outcome};
    const struct infer_args args = {.source = &source,
                                    .extent = &extent,
                                    .log = &log,
                                    .phase = "predict",
                                    .stop = &stop,
                                    .lock = outcome->second != NULL ? &outcome->second->lock : NULL,
                                    .reads_rows = setting->reads_rows,
                                    .receive = receive,
                                    .receive_masked = masks ? receive_masked : NULL,
                                    .context = &receiver};
    struct infer_result result;
    struct berth_error error = {.message = ""};
    const enum berth_status status = infer_run(engine, &args, &result, &error);
    pthread_mutex_lock(&outcome->mutex);
    outcome->statuses[rank] = (int)status;
    outcome->stopped[rank] = result.stopped;
    outcome->messages += status != BERTH_OK && error.message[0] != '\0';
    if (rank == 0) {
        outcome->result = result;
    }
    pthread_mutex_unlock(&outcome->mutex);
}

static void body(struct comm *comm, const struct transport *transport, void *context) {
    struct outcome *outcome = context;
    struct second *second = outcome->second;
    const struct device_options options = {.threads = 1};
    const struct engine_shape largest = {.infer = {.tokens = BATCH_TOKENS,
                                                   .sequences = BATCH_TOKENS / 4,
                                                   .masked = SEQUENCES * MASKED,
                                                   .max_length = LONGEST}};
    struct param_table table;
    struct device *device;
    struct state state = {0};
    struct engine engine;
    CHECK(param_table_init(&table, &shape, outcome->setting.head, NULL) == BERTH_OK);
    CHECK(device_cpu_open(&options, &device, NULL) == BERTH_OK);
    CHECK(state_init(&state, device, &table, DTYPE_F32, 0, NULL) == BERTH_OK);
    param_initialise(&table, &shape, 3, state.master, 1);
    state_set_weights(&state, state.master);
    CHECK(engine_init(&engine, &state, comm, &shape, &largest, NULL) == BERTH_OK);
    if (second != NULL) {
        second->engine = &engine;
        fair_lock_acquire(&second->lock);
    }
    infer(&engine, outcome, comm);
    if (second != NULL) {
        fair_lock_release(&second->lock);
        pthread_join(second->thread, NULL);
    }
    engine_done(&engine);
    state_done(&state);
    device->close(device);
    param_table_done(&table);
}

static struct outcome outcome_of(const struct setting *setting) {
    struct outcome outcome = {.setting = *setting, .capacity = SEQUENCES * (LONGEST * 32 + 8)};
    pthread_mutex_init(&outcome.mutex, NULL);
    outcome.numbers = memory_array(outcome.capacity, sizeof *outcome.numbers);
    assert_non_null(outcome.numbers);
    return outcome;
}

static struct outcome run(const struct setting *setting) {
    struct outcome outcome = outcome_of(setting);
    if (strcmp(setting->layout, "1x1") == 0) {
        body(comm_self(), NULL, &outcome);
        return outcome;
    }
    struct job job = job_of(setting->layout);
    job.settings.timeout_seconds = 120;
    job.body = body;
    job.context = &outcome;
    job_run(&job);
    return outcome;
}

static void outcome_done(struct outcome *outcome) {
    memory_free(outcome->numbers);
    pthread_mutex_destroy(&outcome->mutex);
}

// --- tests --------------------------------------------------------------------------------------

static const char *const layouts[] = {"1x2", "3x1", "2x2", "1+2", "1x8", "4x2"};
#define LAYOUTS (sizeof layouts / sizeof *layouts)

static void check_layouts(struct setting setting) {
    setting.layout = "1x1";
    struct outcome whole = run(&setting);
    assert_true(whole.count > SEQUENCES * 2);
    for (size_t i = 0; i < LAYOUTS; i++) {
        setting.layout = layouts[i];
        struct outcome parts = run(&setting);
        assert_int_equal(parts.elsewhere, 0);
        assert_int_equal(parts.count, whole.count);
        assert_memory_equal(parts.numbers, whole.numbers, whole.count * sizeof *whole.numbers);
        assert_int_equal(parts.result.sequences, SEQUENCES);
        assert_int_equal(parts.result.tokens, whole.result.tokens);
        assert_int_equal(parts.progress, SEQUENCES);
        assert_int_equal(parts.messages, 0);
        assert_int_equal(parts.hits, whole.hits);
        assert_true(parts.hits < SEQUENCES / 4); // the model is random
        outcome_done(&parts);
    }
    outcome_done(&whole);
}

static void test_any_number_of_ranks_gives_the_same_results(void **state) {
    static const enum param_head heads[] = {PARAM_HEAD_SPAN, PARAM_HEAD_CLASS,
                                            PARAM_HEAD_PRETRAINING};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        check_layouts((struct setting){.head = heads[i]});
    }
    check_layouts((struct setting){.head = PARAM_HEAD_EMBEDDING, .reads_rows = 1});
    check_layouts((struct setting){.head = PARAM_HEAD_EMBEDDING});
}

static void test_first_rows_alone_are_the_first_of_all_rows(void **state) {
    struct setting setting = {.layout = "1x1", .head = PARAM_HEAD_EMBEDDING};
    struct outcome first = run(&setting);
    setting.reads_rows = 1;
    struct outcome all = run(&setting);
    const size_t size = (size_t)shape.hidden_size;
    const float *numbers = all.numbers;
    assert_int_equal(first.count, SEQUENCES * (1 + size));
    for (size_t i = 0; i < SEQUENCES; i++) {
        assert_memory_equal(first.numbers + i * (1 + size), numbers, (1 + size) * sizeof(float));
        numbers += 1 + (size_t)get(NULL, (size_t)numbers[0]).length * size;
    }
    assert_ptr_equal(numbers, all.numbers + all.count);
    outcome_done(&first);
    outcome_done(&all);
}

static void test_a_stop_of_one_rank_stops_all(void **state) {
    struct setting setting = {.layout = "2x2", .head = PARAM_HEAD_SPAN, .stopped = 2};
    struct outcome outcome = run(&setting);
    for (int rank = 0; rank < 4; rank++) {
        assert_int_equal(outcome.statuses[rank], BERTH_OK);
        assert_int_equal(outcome.stopped[rank], 1);
    }
    assert_int_equal(outcome.count, 0);
    outcome_done(&outcome);
}

static void *run_second(void *context) {
    struct second *second = context;
    fair_lock_acquire(&second->lock);
    infer(second->engine, &second->outcome, comm_self());
    second->first_count = second->first->count;
    fair_lock_release(&second->lock);
    return NULL;
}

static void start_second(struct second *second) {
    uint64_t asked = 0;
    CHECK(pthread_create(&second->thread, NULL, run_second, second) == 0);
    while (asked < 2) {
        pthread_mutex_lock(&second->lock.mutex);
        asked = second->lock.asked;
        pthread_mutex_unlock(&second->lock.mutex);
        sched_yield();
    }
}

// A prediction of one sequence does not wait for the end of one of many.
static void test_threads_take_turns_batch_by_batch(void **state) {
    const struct setting many = {.layout = "1x1", .head = PARAM_HEAD_EMBEDDING, .reads_rows = 1},
                         one = {.layout = "1x1", .head = PARAM_HEAD_EMBEDDING, .sequences = 1};
    struct outcome many_alone = run(&many), one_alone = run(&one), outcome = outcome_of(&many);
    struct second second = {.outcome = outcome_of(&one), .first = &outcome};
    fair_lock_init(&second.lock);
    outcome.second = second.outcome.second = &second;
    outcome.first_received = start_second;
    body(comm_self(), NULL, &outcome);
    // The first batch is the one that is not timed.
    const int64_t batch = outcome.result.tokens - outcome.result.timed_tokens;
    const int64_t sequences = outcome.result.sequences - outcome.result.timed_sequences;
    assert_int_equal(second.first_count, sequences + batch * shape.hidden_size);
    assert_int_equal(second.outcome.count, one_alone.count);
    assert_memory_equal(second.outcome.numbers, one_alone.numbers, one_alone.count * sizeof(float));
    assert_int_equal(outcome.count, many_alone.count);
    assert_memory_equal(outcome.numbers, many_alone.numbers, many_alone.count * sizeof(float));
    outcome_done(&many_alone);
    outcome_done(&one_alone);
    outcome_done(&outcome);
    outcome_done(&second.outcome);
    fair_lock_done(&second.lock);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_number_of_ranks_gives_the_same_results),
        cmocka_unit_test(test_first_rows_alone_are_the_first_of_all_rows),
        cmocka_unit_test(test_a_stop_of_one_rank_stops_all),
        cmocka_unit_test(test_threads_take_turns_batch_by_batch),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
