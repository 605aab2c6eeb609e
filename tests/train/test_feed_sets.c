// SPDX-License-Identifier: Apache-2.0
// Several data sets: each update has examples of one of them, each epoch has every example once or,
// in turn, as many updates of each set as the smallest one has; the order depends only on seed,
// epoch and step.
#include "core/harness.h"
#include "settings/settings.h"
#include "train/engine/feed.h"
#include "train/job/rules.h"

#include <string.h>

#define SETS 3
#define UPDATE 4
#define EXAMPLES_MAX 25

static const size_t counts[SETS] = {10, 25, 7};
static const char *const names[SETS] = {"a.jsonl", "b.csv", "c.tsv"};
static int32_t ids[64];
static int8_t types[64];
static int32_t factors[SETS] = {1, 2, 1};

// Examples of the second set are the longest.
static struct packer_sequence get(const void *data, size_t index) {
    const int32_t length = (int32_t)(5 + index % 7) * *(const int32_t *)data;
    return (struct packer_sequence){
        .ids = ids, .type_ids = types, .length = length, .label = -1, .label_count = -1};
}

static const struct bert_config shape = {
    .hidden_size = 8, .num_hidden_layers = 2, .intermediate_size = 16};

struct scene {
    struct settings config;
    struct packer_source sources[SETS];
    struct feed feed;
    struct batching batching;
};

static enum berth_status resolve(struct scene *scene, struct berth_error *error) {
    const struct batching_request request = batching_request_of(&scene->config);
    return scene->feed.ops->resolve(&scene->feed, &scene->batching, &request, comm_self(), error);
}

static void scene_open(struct scene *scene, enum feed_mixing mixing) {
    settings_init(&scene->config);
    assert_int_equal(settings_set_row(&scene->config, option_find("train_batch_size"), "4", NULL),
                     BERTH_OK);
    scene->config.engine.num_train_epochs = 3;
    for (size_t i = 0; i < SETS; i++) {
        scene->sources[i] = (struct packer_source){
            .get = get, .data = &factors[i], .count = counts[i], .texts = 1 + i, .group = 1};
    }
    scene->sources[1].group = 2;
    assert_int_equal(feed_open_sets(&scene->feed, scene->sources, names, SETS, mixing, NULL),
                     BERTH_OK);
}

static size_t set_of(const struct scene *scene, const struct feed_update *update) {
    size_t set = 0;
    while (update->source != &scene->feed.sets[set].feed.source) {
        set++;
        assert_true(set < SETS);
    }
    return set;
}

static struct feed_update update_at(struct scene *scene, int64_t step) {
    struct feed_update update;
    assert_int_equal(
        scene->feed.ops->get_update(&scene->feed, &scene->batching, step, &update, NULL), BERTH_OK);
    assert_true(update.count > 0 && update.count <= UPDATE);
    assert_int_equal(update.others, 0);
    return update;
}

static void proportional_epochs_have_every_example(void **state) {
    struct scene scene;
    scene_open(&scene, FEED_PROPORTIONAL);
    assert_int_equal(resolve(&scene, NULL), BERTH_OK);
    assert_int_equal(scene.batching.updates_per_epoch, 3 + 7 + 2);
    assert_int_equal(scene.batching.total_steps, 36);
    size_t first_turns[12], changed = 0;
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        int seen[SETS][EXAMPLES_MAX] = {{0}};
        size_t smaller[SETS] = {0};
        for (int64_t i = 0; i < 12; i++) {
            const struct feed_update update = update_at(&scene, epoch * 12 + i);
            const size_t set = set_of(&scene, &update);
            for (size_t k = 0; k < update.count; k++) {
                seen[set][update.order[k]]++;
            }
            smaller[set] += update.count < UPDATE;
            changed += epoch > 0 && set != first_turns[i];
            first_turns[i] = epoch == 0 ? set : first_turns[i];
        }
        for (size_t set = 0; set < SETS; set++) {
            assert_int_equal(smaller[set], counts[set] % UPDATE > 0);
            for (size_t k = 0; k < counts[set]; k++) {
                assert_int_equal(seen[set][k], 1);
            }
        }
    }
    assert_true(changed > 0);
    feed_done(&scene.feed);
}

static void round_robin_ends_with_the_smallest(void **state) {
    struct scene scene;
    scene_open(&scene, FEED_ROUND_ROBIN);
    assert_int_equal(resolve(&scene, NULL), BERTH_OK);
    assert_int_equal(scene.batching.updates_per_epoch, 3 * 2);
    size_t different = 0;
    int seen[EXAMPLES_MAX] = {0};
    for (int64_t step = 0; step < 6 * 40; step++) {
        const struct feed_update update = update_at(&scene, step);
        assert_int_equal(set_of(&scene, &update), step % SETS);
        for (size_t k = 0; step % SETS == 1 && k < update.count; k++) {
            different += seen[update.order[k]] == 0;
            seen[update.order[k]] = 1;
        }
    }
    assert_int_equal(different, counts[1]); // other examples in each epoch
    feed_done(&scene.feed);
}

// An update is the same whatever was asked before, in another feed, and with another number of
// epochs; with another seed it is another.
static void updates_depend_on_seed_and_step(void **state) {
    struct scene scene, other;
    scene_open(&scene, FEED_PROPORTIONAL);
    scene_open(&other, FEED_PROPORTIONAL);
    other.config.engine.num_train_epochs = 9;
    assert_int_equal(resolve(&scene, NULL), BERTH_OK);
    assert_int_equal(resolve(&other, NULL), BERTH_OK);
    assert_int_equal(scene.feed.checksum, other.feed.checksum);
    for (int64_t step = 35; step >= 0; step--) {
        const struct feed_update before = update_at(&scene, step), now = update_at(&other, step);
        assert_int_equal(set_of(&scene, &before), set_of(&other, &now));
        assert_int_equal(before.count, now.count);
        assert_memory_equal(before.order, now.order, now.count * sizeof *now.order);
        update_at(&other, step * 7 % 36);
    }
    other.config.run.seed++;
    assert_int_equal(resolve(&other, NULL), BERTH_OK);
    size_t same = 0;
    for (int64_t step = 0; step < 36; step++) {
        const struct feed_update before = update_at(&scene, step), now = update_at(&other, step);
        same += before.source->count == now.source->count && before.count == now.count &&
                memcmp(before.order, now.order, now.count * sizeof *now.order) == 0;
    }
    assert_true(same < 3);
    feed_done(&scene.feed);
    feed_done(&other.feed);
}

static void sets_of_one_size_have_orders_of_their_own(void **state) {
    struct scene scene;
    scene_open(&scene, FEED_ROUND_ROBIN);
    feed_done(&scene.feed);
    scene.sources[1] = scene.sources[0];
    assert_int_equal(feed_open_sets(&scene.feed, scene.sources, names, 2, FEED_ROUND_ROBIN, NULL),
                     BERTH_OK);
    assert_int_equal(resolve(&scene, NULL), BERTH_OK);
    const struct feed_update first = update_at(&scene, 0), second = update_at(&scene, 1);
    assert_memory_not_equal(first.order, second.order, UPDATE * sizeof *first.order);
    feed_done(&scene.feed);
}

static void limits_apply_to_all_sets_together(void **state) {
    struct scene scene;
    struct berth_error error;
    scene_open(&scene, FEED_PROPORTIONAL);
    scene.config.engine.dataloader_drop_last = 1;
    assert_int_equal(resolve(&scene, NULL), BERTH_OK);
    assert_int_equal(scene.batching.updates_per_epoch, 2 + 6 + 1);
    for (int64_t step = 0; step < 9; step++) {
        assert_int_equal(update_at(&scene, step).count, UPDATE);
    }
    scene.config.engine.max_steps_per_epoch = 5;
    assert_int_equal(resolve(&scene, NULL), BERTH_OK);
    assert_int_equal(scene.batching.updates_per_epoch, 5);
    assert_int_equal(scene.batching.total_steps, 15);
    assert_int_equal(settings_set_row(&scene.config, option_find("train_batch_size"), "8", NULL),
                     BERTH_OK);
    assert_int_equal(resolve(&scene, &error), BERTH_CONFIG);
    assert_string_equal(error.message, "c.tsv has 7 examples, fewer than the 8 of an update, so "
                                       "dataloader_drop_last drops them all; use a smaller "
                                       "train_batch_size");
    scene.config.engine.dataloader_drop_last = 0;
    scene.sources[1].group = 5;
    feed_done(&scene.feed);
    assert_int_equal(
        feed_open_sets(&scene.feed, scene.sources, names, SETS, FEED_PROPORTIONAL, NULL), BERTH_OK);
    assert_int_equal(resolve(&scene, &error), BERTH_CONFIG);
    assert_non_null(strstr(error.message, "not a multiple of negatives_batch 5"));
    feed_done(&scene.feed);
}

// No micro-batch that is met is larger than the planned one.
static void the_worst_case_is_that_of_the_largest_set(void **state) {
    struct scene scene;
    scene_open(&scene, FEED_PROPORTIONAL);
    scene.config.engine.per_device_train_batch_size = 2;
    assert_int_equal(resolve(&scene, NULL), BERTH_OK);
    const struct batching_rank rank = {&shape, 0, 1};
    struct batching_worst worst;
    struct batch_extent met = {0};
    assert_int_equal(scene.feed.ops->find_worst(&scene.feed, &scene.batching, &rank, &worst, NULL),
                     BERTH_OK);
    for (int64_t step = 0; step < scene.batching.total_steps; step++) {
        const struct feed_update update = update_at(&scene, step);
        for (size_t done = 0; done < update.count;) {
            const size_t cut = batching_fit(&scene.batching, update.source, update.order + done,
                                            update.count - done);
            const struct batch_extent own = packer_extent(update.source, update.order + done, cut);
            met = batch_extent_larger(&met, &own);
            done += cut;
        }
    }
    assert_true(met.tokens <= worst.micro.tokens && met.sequences <= worst.micro.sequences);
    assert_true(worst.micro.sequences == 6); // of the third set, three texts each
    assert_int_equal(worst.micro_batches, 2);
    feed_done(&scene.feed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proportional_epochs_have_every_example),
        cmocka_unit_test(round_robin_ends_with_the_smallest),
        cmocka_unit_test(updates_depend_on_seed_and_step),
        cmocka_unit_test(sets_of_one_size_have_orders_of_their_own),
        cmocka_unit_test(limits_apply_to_all_sets_together),
        cmocka_unit_test(the_worst_case_is_that_of_the_largest_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
