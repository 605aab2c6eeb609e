// SPDX-License-Identifier: Apache-2.0
// Updates by several ranks, which are threads here, are those of one process: up to rounding for
// any number of ranks and hosts and every ZeRO stage, and to the bit with virtual ranks. All ranks
// name what is not finite, and a forecast counts the bytes that a run sends. Numbers that change in
// memory: test_replica_check_ranks.c.
#include "bench/recorder.h"
#include "comm/comm_forecast.h"
#include "core/harness.h"
#include "ranks_fixture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// --- comparing ----------------------------------------------------------------------------------

static void assert_close(const struct outcome *a, const struct outcome *b, double most) {
    for (int i = 0; i < UPDATES; i++) {
        if (!(fabs(a->losses[i] / b->losses[i] - 1) <= most) ||
            !(fabs(a->norms[i] / b->norms[i] - 1) <= 10 * most)) {
            fail_msg("%s stage %d, update %d: loss %.9g, not %.9g; norm %.9g, not %.9g",
                     a->setting.layout, a->setting.stage, i, a->losses[i], b->losses[i],
                     a->norms[i], b->norms[i]);
        }
    }
    // First moments are sums of gradients. The weights are not compared: where a gradient is only a
    // rounding error, AdamW still takes a whole step.
    const double apart = relative_distance(a->numbers[1], b->numbers[1], ranks_table.total);
    if (!(apart <= 10 * most)) {
        fail_msg("%s stage %d: first moments are %.2g apart", a->setting.layout, a->setting.stage,
                 apart);
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
        struct outcome whole = outcome_of(&setting);
        for (int i = 0; i < 5; i++) {
            setting.layout = layouts[i];
            // Eight ranks run one stage alone: the others are the same for any number of ranks.
            const int first = i == 4 ? 2 - average : average;
            for (setting.stage = first; setting.stage <= 2 - average; setting.stage++) {
                struct outcome parts = outcome_of(&setting);
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
    ranks_set_head(PARAM_HEAD_PRETRAINING);
    for (int average = 0; average < 2; average++) {
        struct setting setting = {.layout = "1x1",
                                  .optimizer = "adamw",
                                  .average = averages[average],
                                  .micro = 2,
                                  .divided = 1};
        struct outcome whole = outcome_of(&setting);
        for (int i = 0; i < 3; i++) {
            setting.layout = layouts[i];
            setting.stage = i;
            struct outcome parts = outcome_of(&setting);
            assert_int_equal(parts.different, 0);
            assert_close(&parts, &whole, 1e-6);
            outcome_done(&parts);
        }
        outcome_done(&whole);
    }
    ranks_set_head(PARAM_HEAD_CLASS);
}

// With bf16 or f16 on the wire the sums are rounded; the ranks still agree.
static void test_gradients_may_travel_in_half(void **state) {
    static const enum dtype wires[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    struct setting setting = {
        .layout = "1x1", .optimizer = "adamw", .compute = DTYPE_BF16, .micro = 5};
    struct outcome whole = outcome_of(&setting);
    setting.layout = "2x2";
    uint64_t bytes[3];
    for (int wire = 0; wire < 3; wire++) {
        setting.wire = wires[wire];
        for (setting.stage = 0; setting.stage <= 2; setting.stage++) {
            struct outcome parts = outcome_of(&setting);
            assert_int_equal(parts.different, 0);
            assert_close(&parts, &whole, 3e-3);
            bytes[wire] = parts.stats.bytes;
            outcome_done(&parts);
        }
    }
    assert_true((double)bytes[1] < 0.8 * (double)bytes[0]);
    assert_int_equal(bytes[2], bytes[1]);
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
        struct outcome whole = outcome_of(&setting), parts;
        // Two layouts a setting: each meets both types and both optimizers.
        for (int layout = (i + i / 2) % 2; layout < 4; layout += 2) {
            setting.layout = layouts[layout];
            setting.stage = layout % 3;
            parts = outcome_of(&setting);
            assert_same_outcome(&parts, &whole);
            assert_memory_equal(parts.losses, whole.losses, sizeof whole.losses);
            outcome_done(&parts);
        }
        // What must differ: fewer parts add in another order.
        setting.layout = "1x1";
        setting.parts = 4;
        parts = outcome_of(&setting);
        assert_memory_not_equal(parts.numbers[1], whole.numbers[1],
                                (size_t)ranks_table.total * sizeof(float));
        outcome_done(&parts);
        outcome_done(&whole);
    }
}

// If each rank has a power of two of the parts, neither their number nor their hosts change a bit.
static void test_bytes_do_not_depend_on_where_ranks_are(void **state) {
    static const struct {
        int parts;
        const char *layouts[3];
    } cases[] = {{8, {"3+1", "1+3", "1+2+1"}}, {6, {"1x3", "1+2", "2x3"}}};
    for (int i = 0; i < 2; i++) {
        struct setting setting = {
            .layout = "1x1", .parts = cases[i].parts, .optimizer = "adamw", .micro = 2};
        struct outcome whole = outcome_of(&setting);
        for (int layout = 0; layout < 3; layout++) {
            setting.layout = cases[i].layouts[layout];
            setting.stage = layout;
            struct outcome parts = outcome_of(&setting);
            assert_same_outcome(&parts, &whole);
            outcome_done(&parts);
        }
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
        struct outcome usual = outcome_of(&setting);
        assert_true(usual.overlapping > 0);
        setting.blocking = 1;
        struct outcome waiting = outcome_of(&setting);
        assert_same_outcome(&waiting, &usual);
        assert_int_equal(waiting.overlapping, 0);
        setting.blocking = 0;
        setting.bucket = 40000;
        struct outcome segments = outcome_of(&setting);
        assert_same_outcome(&segments, &usual);
        assert_true(segments.overlapping > 0);
        assert_true(segments.stats.bytes > usual.stats.bytes); // more messages
        outcome_done(&usual);
        outcome_done(&waiting);
        outcome_done(&segments);
    }
}

// --- numbers that are not finite ----------------------------------------------------------------

// One rank has a weight, or a gradient, that is not finite; all name it.
static void find_nonfinite(struct comm *comm, const struct transport *transport, void *context) {
    static const char *const names[] = {"the value of bert.encoder.layer.1.output.dense.weight",
                                        "the gradient of bert.encoder.layer.0.output.dense.weight",
                                        "the sum of the gradient's squares"};
    const struct setting setting = {
        .stage = 2, .compute = DTYPE_BF16, .optimizer = "adamw", .micro = 5};
    const int64_t at[] = {ranks_table.layers[1].output_weight, ranks_table.layers[0].output_weight};
    struct rank rank;
    rank_open(&rank, &setting, comm);
    float *const buffers[] = {rank.state.master, rank.state.gradients};
    (void)rank_update(&rank, &setting, 0);
    for (int i = 0; i < 3; i++) {
        struct berth_error error;
        char text[256] = "";
        int is_own = 0;
        for (size_t k = 0; i < 2 && k < rank.state.own.count; k++) {
            is_own |= partition_intersect(&rank.state.own, k, at[i], 1).count > 0;
        }
        if (is_own) {
            buffers[i][at[i]] = NAN;
        }
        struct update_data data;
        const struct update_args args = rank_args(&data, &setting, comm, 1);
        CHECK(update_find_nonfinite(&rank.updater, &args, text, sizeof text, &error) == BERTH_OK);
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
    job.body = find_nonfinite;
    job_run(&job);
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
    assert_int_equal(recorder_init(&recorder, comm, &ranks_table, NULL), BERTH_OK);
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
    all_reduce_finish(&all_reduce);
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
                                            .blocking = stage == 1,
                                            .bucket = stage == 2 ? 40000 : 0};
            const struct comm_cluster cluster = {.hosts = layouts[i].hosts,
                                                 .ranks_per_host = layouts[i].ranks_per_host,
                                                 .link = {1e9, 0}};
            struct outcome outcome = outcome_of(&setting);
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
        cmocka_unit_test(test_gradients_may_travel_in_half),
        cmocka_unit_test(test_virtual_ranks_give_the_same_bytes),
        cmocka_unit_test(test_bytes_do_not_depend_on_where_ranks_are),
        cmocka_unit_test(test_all_ranks_name_what_is_not_finite),
        cmocka_unit_test(test_a_forecast_sends_the_bytes_of_a_run),
    };
    return cmocka_run_group_tests(tests, ranks_set_up, ranks_tear_down);
}
