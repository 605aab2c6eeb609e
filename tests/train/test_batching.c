// SPDX-License-Identifier: Apache-2.0
// Tests batch arithmetic: any two of three sizes determine the third, a contradiction is refused by
// their names, an epoch keeps its last, smaller update, and the planned worst case is that of the
// run.
#include "core/harness.h"
#include "settings/settings.h"
#include "train/engine/batching.h"
#include "train/engine/division.h"
#include "train/engine/feed.h"
#include "train/job/rules.h"
#include "trainer_steps.golden.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static enum berth_status resolve(struct batching *batching, const struct settings *config,
                                 int64_t features, int64_t ranks, struct berth_error *error) {
    const struct batching_request request = batching_request_of(config);
    return batching_resolve(batching, &request, features, ranks, error);
}

static struct settings make(int64_t update, int64_t micro, int64_t accumulation) {
    struct settings config;
    settings_init(&config);
    char text[32];
    if (update > 0) {
        snprintf(text, sizeof text, "%d", (int)update);
        assert_int_equal(settings_set_row(&config, option_find("train_batch_size"), text, NULL),
                         BERTH_OK);
    }
    config.engine.per_device_train_batch_size = micro;
    config.engine.gradient_accumulation_steps = accumulation;
    return config;
}

static void expect(int64_t update, int64_t micro, int64_t accumulation, int64_t want_update,
                   int64_t want_micro, int64_t want_accumulation) {
    struct settings config = make(update, micro, accumulation);
    struct batching b;
    assert_int_equal(resolve(&b, &config, 1000, 1, NULL), BERTH_OK);
    assert_int_equal(b.update_sequences, want_update);
    assert_int_equal(b.micro.sequences, want_micro);
    assert_int_equal(b.accumulation, want_accumulation);
}

static void test_any_two_give_the_third(void **state) {
    expect(24, 3, 8, 24, 3, 8);
    expect(24, 3, 0, 24, 3, 8);
    expect(24, 0, 8, 24, 3, 8);
    expect(0, 3, 8, 24, 3, 8);
    expect(0, 3, 0, 3, 3, 1);
    expect(24, 0, 0, 24, 24, 0); // cut by tokens
}

static void refuse(int64_t update, int64_t micro, int64_t accumulation, const char *message) {
    struct settings config = make(update, micro, accumulation);
    struct batching b;
    struct berth_error error;
    assert_int_equal(resolve(&b, &config, 1000, 1, &error), BERTH_CONFIG);
    if (strstr(error.message, message) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", message, error.message);
    }
}

static void test_contradictions_name_what_was_given(void **state) {
    refuse(24, 5, 4,
           "train_batch_size 24 is not per_device_train_batch_size 5 x "
           "gradient_accumulation_steps 4 x processes 1");
    refuse(24, 5, 0, "24 is not a multiple of per_device_train_batch_size 5 x processes 1");
    refuse(24, 0, 7, "24 is not a multiple of gradient_accumulation_steps 7 x processes 1");
    refuse(4, 0, 8, "4 is not a multiple of gradient_accumulation_steps 8 x processes 1");
}

// steps_rule: 100 examples in 250 windows, updates of 32, two and a half epochs.
static void test_rules_of_the_number_of_updates(void **state) {
    static const struct {
        const char *rule;
        int64_t max_steps, max_steps_per_epoch;
        int drop_last;
        int64_t run, schedule;
    } cases[] = {
        {"run", 0, 0, 0, 20, 20},    {"run", 7, 0, 0, 7, 7},      {"run", 0, 3, 0, 8, 8},
        {"epochs", 0, 0, 0, 20, 20}, {"epochs", 7, 0, 0, 7, 20},  {"epochs", 0, 3, 0, 8, 20},
        {"epochs", 0, 0, 1, 18, 18}, {"epochs", 7, 0, 1, 7, 18},  {"examples", 0, 0, 0, 7, 7},
        {"examples", 9, 0, 0, 9, 9}, // 7.8
        {"examples", 0, 0, 1, 7, 7}, {"examples", 0, 2, 0, 5, 5}, {"examples", 9, 2, 0, 9, 9},
        {"examples", 0, 3, 0, 7, 7},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct settings config = make(32, 0, 0);
        struct batching b;
        config.engine.steps_rule = cases[i].rule;
        config.engine.num_train_epochs = 2.5;
        config.engine.max_steps = cases[i].max_steps;
        config.engine.max_steps_per_epoch = cases[i].max_steps_per_epoch;
        config.engine.dataloader_drop_last = cases[i].drop_last;
        assert_int_equal(resolve(&b, &config, 250, 1, NULL), BERTH_OK);
        if (cases[i].drop_last) {
            assert_int_equal(batching_drop_last(&b, &config.engine, NULL), BERTH_OK);
        }
        assert_int_equal(batching_apply_steps_rule(&b, &config.engine, 100, NULL), BERTH_OK);
        assert_int_equal(b.total_steps, cases[i].run);
        assert_int_equal(b.schedule_steps, cases[i].schedule);
    }
}

// The numbers of updates of Google's program: for MRPC and SQuAD.
static void test_updates_by_examples(void **state) {
    static const struct {
        int64_t examples, batch;
        double epochs;
        int64_t steps;
    } cases[] = {{3668, 32, 3, 343}, {87599, 24, 2, 7299}, {87599, 24, 0.01, 36}, {8, 64, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct settings config = make(cases[i].batch, 0, 0);
        struct batching b;
        config.engine.steps_rule = "examples";
        config.engine.num_train_epochs = cases[i].epochs;
        assert_int_equal(resolve(&b, &config, 90000, 1, NULL), BERTH_OK);
        assert_int_equal(batching_apply_steps_rule(&b, &config.engine, cases[i].examples, NULL),
                         BERTH_OK);
        assert_int_equal(b.total_steps, cases[i].steps);
        assert_int_equal(b.schedule_steps, cases[i].steps);
    }
}

// With virtual_ranks an update has the same micro-batches on any number of ranks. None is larger
// than those that the ranks would have without.
static void test_parts_decide_on_micro_batches(void **state) {
    static const struct {
        int64_t update, accumulation, parts, micro, per_part;
    } cases[] = {
        {64, 2, 32, 1, 2}, {96, 3, 8, 4, 3}, {48, 2, 8, 3, 2}, {24, 2, 8, 2, 2}, {64, 1, 8, 8, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int64_t ranks = 1; ranks <= 4; ranks *= 2) {
            struct settings config = make(cases[i].update, 0, cases[i].accumulation);
            struct batching b;
            config.engine.virtual_ranks = cases[i].parts;
            assert_int_equal(resolve(&b, &config, 1000, ranks, NULL), BERTH_OK);
            assert_int_equal(b.micro.sequences, cases[i].micro);
            assert_int_equal(b.accumulation, cases[i].per_part * (cases[i].parts / ranks));
            assert_in_range(b.micro.sequences, 1, cases[i].update / ranks / cases[i].accumulation);
        }
    }
    struct settings config = make(64, 4, 0);
    struct batching b;
    config.engine.virtual_ranks = 8;
    assert_int_equal(resolve(&b, &config, 1000, 2, NULL), BERTH_OK);
    assert_int_equal(b.micro.sequences, 4);
    assert_int_equal(b.accumulation, 8);
}

static void test_slices_of_updates(void **state) {
    struct settings config = make(32, 0, 0);
    config.engine.num_train_epochs = 2;
    struct batching b;
    assert_int_equal(resolve(&b, &config, 8014, 1, NULL), BERTH_OK);
    assert_int_equal(b.updates_per_epoch, 251);
    assert_int_equal(b.total_steps, 502);
    struct update_slice last = batching_slice(&b, 250);
    assert_int_equal(last.epoch, 0);
    assert_int_equal(last.first, 8000);
    assert_int_equal(last.count, 14);
    struct update_slice next = batching_slice(&b, 251);
    assert_int_equal(next.epoch, 1);
    assert_int_equal(next.first, 0);
    config.engine.max_steps_per_epoch = 10;
    assert_int_equal(resolve(&b, &config, 8014, 1, NULL), BERTH_OK);
    assert_int_equal(b.total_steps, 20);
    config.engine.max_steps = 7;
    assert_int_equal(resolve(&b, &config, 8014, 1, NULL), BERTH_OK);
    assert_int_equal(b.total_steps, 7);
    config.engine.max_steps = 0;
    config.engine.max_steps_per_epoch = 0;
    config.engine.num_train_epochs = 0.5;
    assert_int_equal(resolve(&b, &config, 8014, 1, NULL), BERTH_OK);
    assert_int_equal(b.total_steps, 126);
}

// An epoch ends with its last, smaller update, and no sooner.
static void test_ends_of_epochs(void **state) {
    struct settings config = make(32, 0, 0);
    config.engine.num_train_epochs = 3;
    struct batching b;
    assert_int_equal(resolve(&b, &config, 70, 1, NULL), BERTH_OK);
    int64_t sequences = 0;
    for (int64_t step = 0; step < b.total_steps; step++) {
        struct update_slice slice = batching_slice(&b, step);
        assert_int_equal(slice.epoch, step / 3);
        assert_int_equal(slice.update, step % 3);
        assert_int_equal(slice.count, step % 3 == 2 ? 6 : 32);
        sequences += (int64_t)slice.count;
        assert_int_equal(batching_ends_epoch(&b, step + 1), step % 3 == 2);
        assert_true(fabs(batching_epochs(&b, step) - (double)step / 3.0) < 1e-12);
    }
    assert_int_equal(sequences, 3 * 70);
}

// The number of updates and the epoch after each, against the Trainer's (trainer_steps.golden.h).
static void test_epochs_of_the_trainer(void **state) {
    for (size_t i = 0; i < sizeof trainer_steps / sizeof *trainer_steps; i++) {
        struct settings config = make(0, trainer_steps[i].micro, trainer_steps[i].accumulation);
        struct batching b;
        config.engine.num_train_epochs = trainer_steps[i].epochs;
        config.engine.max_steps = trainer_steps[i].max_steps;
        assert_int_equal(resolve(&b, &config, trainer_steps[i].examples, 1, NULL), BERTH_OK);
        assert_int_equal(b.total_steps, trainer_steps[i].steps);
        const int64_t before = b.total_steps > TRAINER_LAST ? b.total_steps - TRAINER_LAST : 0;
        for (int64_t step = before + 1; step <= b.total_steps; step++) {
            const double epoch = trainer_steps[i].last[step - before - 1];
            assert_true(fabs(batching_epochs(&b, step) - epoch) < 1e-12);
        }
    }
}

// 50 sequences in updates of 32 by 8 parts in micro-batches of 2: 2 + 2 of all parts, for any
// number of ranks.
static void test_epochs_of_virtual_ranks(void **state) {
    for (int64_t ranks = 1; ranks <= 8; ranks *= 2) {
        struct settings config = make(32, 2, 0);
        struct batching b;
        config.engine.virtual_ranks = 8;
        assert_int_equal(resolve(&b, &config, 50, ranks, NULL), BERTH_OK);
        assert_true(batching_epochs(&b, 1) == 0.5);
        assert_int_equal(resolve(&b, &config, 40, ranks, NULL), BERTH_OK);
        assert_true(batching_epochs(&b, 1) == 2.0 / 3.0);
        assert_true(batching_epochs(&b, 2) == 1);
    }
}

static void test_the_last_update_can_be_left_out(void **state) {
    struct settings config = make(32, 0, 0);
    struct berth_error error;
    struct batching b;
    config.engine.num_train_epochs = 3;
    assert_int_equal(resolve(&b, &config, 70, 1, NULL), BERTH_OK);
    assert_int_equal(batching_drop_last(&b, &config.engine, NULL), BERTH_OK);
    assert_int_equal(b.updates_per_epoch, 2);
    assert_int_equal(b.total_steps, 6);
    for (int64_t step = 0; step < 6; step++) {
        assert_int_equal(batching_slice(&b, step).epoch, step / 2);
        assert_int_equal(batching_slice(&b, step).count, 32);
    }
    config.engine.max_steps_per_epoch = 1;
    assert_int_equal(resolve(&b, &config, 70, 1, NULL), BERTH_OK);
    assert_int_equal(batching_drop_last(&b, &config.engine, NULL), BERTH_OK);
    assert_int_equal(b.updates_per_epoch, 1);
    assert_int_equal(resolve(&b, &config, 31, 1, NULL), BERTH_OK);
    assert_int_equal(batching_drop_last(&b, &config.engine, &error), BERTH_CONFIG);
    assert_non_null(strstr(error.message, "an epoch has 31 sequences, an update 32"));
}

// Updates that cross the ends of epochs: the first 70 sequences end within the third update of 32,
// the second 70 within the fifth.
static void test_ends_of_epochs_within_updates(void **state) {
    static const int ends[] = {0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0};
    struct settings config = make(32, 0, 0);
    config.engine.num_train_epochs = 2;
    struct batching b;
    assert_int_equal(resolve(&b, &config, 70, 1, NULL), BERTH_OK);
    assert_int_equal(batching_cross_epochs(&b, &config.engine, 20, NULL), BERTH_OK);
    assert_int_equal(b.total_steps, 5); // ceil(140 / 32)
    assert_int_equal(b.micro.sequences, 32);
    assert_int_equal(b.micro.masked, BATCHING_TOKENS / 4);
    for (int64_t step = 0; step < 11; step++) {
        assert_int_equal(batching_ends_epoch(&b, step), ends[step]);
        assert_true(batching_epochs(&b, step) == (double)step * 32 / 70);
    }
    b.features = 64; // with every second update, and not with the one after
    for (int64_t step = 1; step < 9; step++) {
        assert_int_equal(batching_ends_epoch(&b, step), step % 2 == 0);
    }
}

static const struct bert_config shape = {
    .hidden_size = 64, .num_hidden_layers = 2, .intermediate_size = 256, .num_attention_heads = 2};

static struct packer_sequence get(const void *data, size_t index) {
    return (struct packer_sequence){.length = (int32_t)(10 + index * 37 % 300),
                                    .masked_count = (int32_t)(index * 7 % 11)};
}

static void test_worst_case_is_met_and_never_passed(void **state) {
    struct packer_source source = {.get = get, .count = 500};
    for (int epochs = 1; epochs <= 301; epochs += 300) {
        struct settings config = make(64, 0, 0);
        config.engine.num_train_epochs = epochs;
        struct batching b;
        struct batching_worst worst;
        assert_int_equal(resolve(&b, &config, 500, 1, NULL), BERTH_OK);
        const struct batching_rank alone = {&shape, 0, 1};
        assert_int_equal(batching_find_worst(&b, &source, &alone, &worst, NULL), BERTH_OK);
        struct batch_extent met = {0};
        uint32_t order[500];
        for (int64_t step = 0; step < b.total_steps; step++) {
            struct update_slice slice = batching_slice(&b, step);
            packer_shuffle(b.seed, slice.epoch, 500, order);
            for (size_t done = 0; done < slice.count;) {
                const uint32_t *own = order + slice.first + done;
                size_t cut = batching_fit(&b, &source, own, slice.count - done);
                const struct batch_extent extent = packer_extent(&source, own, cut);
                assert_true(extent.tokens <= BATCHING_TOKENS);
                met = batch_extent_larger(&met, &extent);
                done += cut;
            }
        }
        const struct batch_extent larger = batch_extent_larger(&met, &worst.micro);
        assert_memory_equal(&larger, &worst.micro, sizeof larger);
        if (epochs <= 32) {
            assert_memory_equal(&met, &worst.micro, sizeof met);
        }
    }
}

// Too many epochs to walk through, and micro-batches larger than an epoch.
static void test_bound_of_few_sequences(void **state) {
    const struct packer_source source = {.get = get, .count = 8};
    const struct batching_rank alone = {&shape, 0, 1};
    struct settings config = make(0, 32, 0);
    config.engine.num_train_epochs = 100;
    struct batching b;
    struct batching_worst worst;
    assert_int_equal(resolve(&b, &config, 8, 1, NULL), BERTH_OK);
    assert_int_equal(batching_find_worst(&b, &source, &alone, &worst, NULL), BERTH_OK);
    assert_int_equal(worst.micro.sequences, 8);
    assert_int_equal(worst.micro.tokens, 8 * worst.micro.max_length);
}

// Of shards only the largest length is known. A rank has its parts of an update.
static void test_micro_batches_of_shards(void **state) {
    static const struct {
        int64_t ranks, parts, expected; // 16 sequences of 512 tokens fill a micro-batch
    } cases[] = {{1, 1, 16}, {4, 4, 4}, {3, 3, 6}, {2, 8, 8}, {2, 64, 32}};
    const struct shard_list shards = {.length = 512, .predictions = 80};
    const struct shard_stream_settings settings = {.max_predictions = 80};
    struct feed feed;
    feed_open_shards(&feed, &shards, &settings);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct batching b = {.update_sequences = 256,
                                   .micro = {.tokens = BATCHING_TOKENS, .sequences = 512},
                                   .parts = cases[i].parts};
        const struct batching_rank rank = {&shape, 0, (int)cases[i].ranks};
        struct batching_worst worst;
        assert_int_equal(feed.ops->find_worst(&feed, &b, &rank, &worst, NULL), BERTH_OK);
        assert_int_equal(worst.micro_batches, cases[i].expected);
    }
    feed_done(&feed);
}

static struct packer_sequence get_skewed(const void *data, size_t index) {
    return (struct packer_sequence){.length = index % 50 == 0 ? 5000 : get(data, index).length};
}

// The part of least work that has room gets the longest sequence that is left, one after the other.
static void test_divisions(void **state) {
    const struct packer_source source = {.get = get_skewed, .count = 500};
    uint32_t order[500];
    for (size_t parts = 1; parts <= 40; parts++) {
        for (size_t most = 500; most > 0; most = most > 13 ? 13 : 0) {
            const size_t count = parts * most < 500 ? parts * most : 500;
            struct division division;
            double loads[40] = {0};
            size_t counts[40] = {0};
            packer_shuffle(parts, 0, 500, order);
            assert_int_equal(division_init(&division, parts, 500, NULL), BERTH_OK);
            division_make(&division, &source, order, count, &shape, most);
            for (size_t i = 0; i < count; i++) {
                const uint32_t index = division.by_cost[i];
                size_t least = parts;
                for (size_t part = 0; part < parts; part++) {
                    if (counts[part] < most && (least == parts || loads[part] < loads[least])) {
                        least = part;
                    }
                }
                assert_true(i == 0 ||
                            division.costs[division.by_cost[i - 1]] >= division.costs[index]);
                assert_int_equal(division.owners[index], least);
                loads[least] += division.costs[index];
                counts[least]++;
            }
            assert_memory_equal(division.loads, loads, parts * sizeof *loads);
            division_done(&division);
        }
    }
}

// Every rank's largest micro-batch is that of its parts of the updates that will be made.
static void test_worst_case_of_each_rank(void **state) {
    const struct packer_source source = {.get = get, .count = 500};
    struct batching b;
    struct division division;
    for (int variant = 0; variant < 3; variant++) { // by tokens, by sequences, several parts a rank
        struct settings config = make(64, variant == 1 ? 4 : 0, 0);
        config.engine.num_train_epochs = 2;
        config.engine.virtual_ranks = variant == 2 ? 8 : 0;
        assert_int_equal(resolve(&b, &config, 500, 4, NULL), BERTH_OK);
        assert_int_equal(division_init(&division, (size_t)b.parts, 64, NULL), BERTH_OK);
        int different = 0;
        struct batching_worst worst[4], met[4] = {0};
        for (int64_t step = 0; step < b.total_steps; step++) {
            const struct update_slice slice = batching_slice(&b, step);
            uint32_t order[500];
            packer_shuffle(b.seed, slice.epoch, 500, order);
            division_make(&division, &source, order + slice.first, slice.count, &shape,
                          batching_max_part_sequences(&b, slice.count, division.parts));
            for (int rank = 0; rank < 4; rank++) {
                const size_t parts = division.parts / 4;
                int64_t count = 0;
                for (size_t part = (size_t)rank * parts; part < (size_t)(rank + 1) * parts;
                     part++) {
                    for (size_t done = division.starts[part]; done < division.starts[part + 1];
                         count++) {
                        const size_t cut = batching_fit(&b, &source, division.order + done,
                                                        division.starts[part + 1] - done);
                        const struct batch_extent own =
                            packer_extent(&source, division.order + done, cut);
                        met[rank].micro = batch_extent_larger(&met[rank].micro, &own);
                        done += cut;
                    }
                }
                met[rank].micro_batches =
                    count > met[rank].micro_batches ? count : met[rank].micro_batches;
            }
        }
        for (int rank = 0; rank < 4; rank++) {
            const struct batching_rank own = {&shape, rank, 4};
            assert_int_equal(batching_find_worst(&b, &source, &own, &worst[rank], NULL), BERTH_OK);
            assert_memory_equal(&worst[rank].micro, &met[rank].micro, sizeof met[rank].micro);
            assert_int_equal(worst[rank].micro_batches, met[rank].micro_batches);
            different |= worst[rank].micro.tokens != worst[0].micro.tokens;
        }
        assert_true(different);
        division_done(&division);
    }
}

// Every part of an update has whole groups, each in the order of the update, for any number of
// parts; the planned micro-batches are those that are met.
static void test_groups_stay_whole(void **state) {
    const struct packer_source source = {.get = get_skewed, .count = 150, .texts = 3, .group = 8};
    for (int64_t parts = 1; parts <= 12; parts++) {
        struct settings config = make(40, parts % 2 ? 8 : 0, 0);
        struct batching b;
        struct division division;
        struct batching_worst worst;
        struct batch_extent met = {0};
        config.engine.virtual_ranks = parts;
        config.engine.num_train_epochs = 3;
        if (parts % 2) {
            config.engine.gradient_accumulation_steps = 5;
        }
        assert_int_equal(resolve(&b, &config, 150, 1, NULL), BERTH_OK);
        assert_int_equal(batching_round_to_groups(&b, &config.engine, 8, 1, NULL), BERTH_OK);
        const struct batching_rank alone = {&shape, 0, 1};
        assert_int_equal(batching_find_worst(&b, &source, &alone, &worst, NULL), BERTH_OK);
        assert_int_equal(division_init(&division, (size_t)parts, 40, NULL), BERTH_OK);
        for (int64_t step = 0; step < b.total_steps; step++) {
            const struct update_slice slice = batching_slice(&b, step);
            uint32_t order[150], seen[40] = {0};
            packer_shuffle(b.seed, slice.epoch, 150, order);
            division_make(&division, &source, order + slice.first, slice.count, &shape,
                          batching_max_part_sequences(&b, slice.count, division.parts));
            assert_int_equal(division.starts[parts], slice.count);
            for (int64_t part = 0; part < parts; part++) {
                for (size_t done = division.starts[part]; done < division.starts[part + 1];) {
                    const size_t cut = batching_fit(&b, &source, division.order + done,
                                                    division.starts[part + 1] - done);
                    const struct batch_extent own =
                        packer_extent(&source, division.order + done, cut);
                    met = batch_extent_larger(&met, &own);
                    for (size_t i = 0; i < cut; i++) {
                        const size_t at = (size_t)division.indices[done + i];
                        const size_t first = i / 8 * 8; // of the group in the micro-batch
                        assert_int_equal(at % 8, i % 8);
                        assert_int_equal(at / 8, (size_t)division.indices[done + first] / 8);
                        assert_int_equal(division.order[done + i], order[slice.first + at]);
                        seen[at]++;
                    }
                    assert_true(cut % 8 == 0 ||
                                (size_t)division.indices[done + cut - 1] + 1 == slice.count);
                    done += cut;
                }
            }
            for (size_t i = 0; i < slice.count; i++) {
                assert_int_equal(seen[i], 1);
            }
        }
        assert_memory_equal(&worst.micro, &met, sizeof met);
        division_done(&division);
    }
}

static void test_sizes_of_no_whole_groups(void **state) {
    struct berth_error error;
    struct batching b;
    struct settings config = make(40, 0, 0);
    assert_int_equal(resolve(&b, &config, 150, 1, NULL), BERTH_OK);
    assert_int_equal(batching_round_to_groups(&b, &config.engine, 16, 1, &error), BERTH_CONFIG);
    assert_non_null(strstr(error.message, "negatives_batch 16"));
    config = make(40, 0, 2);
    assert_int_equal(resolve(&b, &config, 150, 1, NULL), BERTH_OK);
    assert_int_equal(batching_round_to_groups(&b, &config.engine, 8, 1, &error), BERTH_CONFIG);
    assert_non_null(strstr(error.message, "micro-batches of 20 examples"));
    config.engine.virtual_ranks = 3; // whose micro-batches are rounded up
    assert_int_equal(resolve(&b, &config, 150, 1, NULL), BERTH_OK);
    assert_int_equal(batching_round_to_groups(&b, &config.engine, 8, 1, NULL), BERTH_OK);
    assert_int_equal(b.micro.sequences, 8);
    assert_int_equal(b.accumulation, 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_two_give_the_third),
        cmocka_unit_test(test_rules_of_the_number_of_updates),
        cmocka_unit_test(test_updates_by_examples),
        cmocka_unit_test(test_contradictions_name_what_was_given),
        cmocka_unit_test(test_parts_decide_on_micro_batches),
        cmocka_unit_test(test_slices_of_updates),
        cmocka_unit_test(test_ends_of_epochs),
        cmocka_unit_test(test_epochs_of_the_trainer),
        cmocka_unit_test(test_epochs_of_virtual_ranks),
        cmocka_unit_test(test_the_last_update_can_be_left_out),
        cmocka_unit_test(test_ends_of_epochs_within_updates),
        cmocka_unit_test(test_worst_case_is_met_and_never_passed),
        cmocka_unit_test(test_bound_of_few_sequences),
        cmocka_unit_test(test_micro_batches_of_shards),
        cmocka_unit_test(test_divisions),
        cmocka_unit_test(test_worst_case_of_each_rank),
        cmocka_unit_test(test_groups_stay_whole),
        cmocka_unit_test(test_sizes_of_no_whole_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
