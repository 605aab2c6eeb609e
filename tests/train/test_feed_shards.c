// SPDX-License-Identifier: Apache-2.0
// The record that a checkpoint has of shards read by rank: another number of ranks continues from
// it, each sequence of an epoch is read once, and a run that is interrupted again goes on as if it
// had not been. Records of 0.1.0 are read; impossible ones are refused.
#include "data/shard_fixture.h"
#include "settings/settings.h"
#include "train/engine/feed.h"
#include "train/job/rules.h"

#include <string.h>

enum { FILES = 5, UPDATE = 12, RANKS_MOST = 4, UPDATES_MOST = 64 };
static const int sizes[FILES] = {17, 23, 9, 30, 21};

// The sequences of an epoch, and the updates of one; a pass of 4 ranks has 4 epochs.
enum { EPOCH = 17 + 23 + 9 + 30 + 21 };

// Ranks that a test plays one after another.
struct ranks {
    struct settings config;
    struct feed feeds[RANKS_MOST];
    struct comm comms[RANKS_MOST];
    struct batching batching;
    int count;
};

static struct shard_list make_list(void) {
    int first = 0;
    for (int i = 0; i < FILES; i++) {
        char name[32];
        snprintf(name, sizeof name, "%d_training.hdf5", i);
        put_shard(name, first, sizes[i]);
        first += sizes[i];
    }
    return open_list(scratch("."), SHARD_TRAIN);
}

static void open_ranks(struct ranks *ranks, const struct shard_list *list, int count,
                       const char *micro) {
    const struct shard_stream_settings settings = {
        .seed = 7, .vocab_size = WORDS, .max_predictions = 2};
    *ranks = (struct ranks){.count = count};
    settings_init(&ranks->config);
    ranks->config.engine.train_batch_size = UPDATE;
    ranks->config.engine.max_steps = UPDATES_MOST;
    ranks->config.engine.shard_order = "rank";
    ranks->config.engine.dataloader_drop_last = micro != NULL;
    if (micro != NULL) {
        assert_int_equal(settings_set_row(&ranks->config,
                                          option_find("per_device_train_batch_size"), micro, NULL),
                         BERTH_OK);
    }
    for (int rank = 0; rank < count; rank++) {
        struct feed *feed = &ranks->feeds[rank];
        struct batching_request request = batching_request_of(&ranks->config);
        request.has_total = 1;
        ranks->comms[rank] = (struct comm){.rank = rank, .size = count};
        feed_open_shards(feed, list, &settings);
        assert_int_equal(
            feed->ops->resolve(feed, &ranks->batching, &request, &ranks->comms[rank], NULL),
            BERTH_OK);
        assert_null(feed_check(feed));
    }
}

static void close_ranks(struct ranks *ranks) {
    for (int rank = 0; rank < ranks->count; rank++) {
        feed_done(&ranks->feeds[rank]);
    }
}

static json *record_of(struct ranks *ranks, int64_t step) {
    json *record = ranks->feeds[0].ops->record(&ranks->feeds[0], &ranks->batching, step);
    assert_non_null(record);
    return record;
}

static enum berth_status restore(struct ranks *ranks, const json *object, int64_t step,
                                 struct berth_error *error) {
    const struct feed_record record = {.object = object, .path = "trainer_state.json"};
    enum berth_status status = BERTH_OK;
    for (int rank = 0; rank < ranks->count && status == BERTH_OK; rank++) {
        struct feed *feed = &ranks->feeds[rank];
        status = feed->ops->restore(feed, &ranks->batching, step, &record, error);
    }
    return status;
}

// Ranks that continue after update `step` of others.
static void open_after(struct ranks *ranks, const struct shard_list *list, int count,
                       struct ranks *before, int64_t step) {
    struct berth_error error = {0};
    json *record = record_of(before, step);
    open_ranks(ranks, list, count, NULL);
    if (restore(ranks, record, step, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    json_free(record);
}

// The sequences of updates [first, end), rank after rank in each.
static void read_updates(struct ranks *ranks, int64_t first, int64_t end, int *numbers) {
    for (int64_t step = first; step < end; step++) {
        for (int rank = 0; rank < ranks->count; rank++) {
            struct feed_update update;
            struct feed *feed = &ranks->feeds[rank];
            assert_int_equal(feed->ops->get_update(feed, &ranks->batching, step, &update, NULL),
                             BERTH_OK);
            assert_int_equal(update.count, UPDATE / ranks->count);
            assert_int_equal(update.others, UPDATE - UPDATE / ranks->count);
            for (size_t i = 0; i < update.count; i++) {
                *numbers++ = update.source->get(update.source->data, update.order[i]).ids[1] - 5;
            }
        }
    }
}

// Of all that was read, the numbers of times that a sequence was.
static void count_reads(const int *numbers, size_t count, int *least, int *most) {
    int seen[EPOCH] = {0};
    for (size_t i = 0; i < count; i++) {
        assert_in_range(numbers[i], 0, EPOCH - 1);
        seen[numbers[i]]++;
    }
    *least = *most = seen[0];
    for (int i = 1; i < EPOCH; i++) {
        *least = seen[i] < *least ? seen[i] : *least;
        *most = seen[i] > *most ? seen[i] : *most;
    }
}

// The change comes after `change` updates, of the `updates` that the first pass has: in it each
// rank reads every file, so that a sequence is read as often as the first run has ranks. 5 files
// and 2, 3 or 4 ranks have no divisor in common.
static void check_change(int from, int to, int64_t change) {
    struct shard_list list = make_list();
    struct ranks first, second;
    int numbers[UPDATES_MOST * UPDATE], alone[UPDATES_MOST * UPDATE], least, most;
    open_ranks(&first, &list, from, NULL);
    read_updates(&first, 0, change, numbers);
    open_after(&second, &list, to, &first, change);
    assert_true(second.feeds[0].rest.visits > 0 && second.feeds[0].rest.pass == 1);
    int64_t left = 0;
    for (int rank = 0; rank < to; rank++) { // each to the end of its share of the pass
        struct feed *feed = &second.feeds[rank];
        struct shard_taken taken;
        int64_t own = 0;
        while (shard_stream_locate(feed->stream, own).epoch == 0) {
            own++;
        }
        assert_int_equal(shard_stream_take(feed->stream, 0, (size_t)own, &taken, NULL), BERTH_OK);
        for (int64_t i = 0; i < own; i++) {
            numbers[change * UPDATE + left++] =
                taken.source.get(taken.source.data, taken.order[i]).ids[1] - 5;
        }
    }
    assert_int_equal(change * UPDATE + left, from * EPOCH);
    count_reads(numbers, (size_t)(from * EPOCH), &least, &most);
    assert_int_equal(least, from);
    assert_int_equal(most, from);
    read_updates(&second, change, change + 3, numbers);
    close_ranks(&second);
    close_ranks(&first);
    // What a run of the second number has in these updates is something else.
    open_ranks(&second, &list, to, NULL);
    read_updates(&second, change, change + 3, alone);
    assert_memory_not_equal(numbers, alone, 3 * UPDATE * sizeof(int));
    close_ranks(&second);
    shard_list_done(&list);
}

static void test_another_number_of_ranks(void **state) {
    check_change(2, 3, 3);
    check_change(3, 2, 5);
    check_change(4, 1, 7);
    check_change(1, 4, 2);
}

// Interrupted again, with the same number of ranks: as if it had not been. And with a third.
static void test_a_run_that_is_interrupted_again(void **state) {
    struct shard_list list = make_list();
    struct ranks two, three, again, one, other;
    int whole[20 * UPDATE], part[20 * UPDATE];
    open_ranks(&two, &list, 2, NULL);
    open_after(&three, &list, 3, &two, 3);
    open_after(&again, &list, 3, &three, 6);
    read_updates(&three, 3, 23, whole);
    read_updates(&again, 6, 23, part);
    assert_memory_equal(part, whole + 3 * UPDATE, 17 * UPDATE * sizeof(int));
    open_after(&one, &list, 1, &three, 6);
    open_after(&other, &list, 1, &again, 6);
    read_updates(&one, 6, 20, whole);
    read_updates(&other, 6, 20, part);
    assert_memory_equal(part, whole, 14 * UPDATE * sizeof(int));
    struct ranks *all[] = {&two, &three, &again, &one, &other};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        close_ranks(all[i]);
    }
    shard_list_done(&list);
}

// After a rollback the data of the last update is followed by that of the first: for ranks that
// took over, by data beyond the plan's.
static void test_updates_from_the_first_on(void **state) {
    struct shard_list list = make_list();
    struct ranks two, three;
    int before[UPDATE], beyond[UPDATE];
    open_ranks(&two, &list, 2, NULL);
    open_after(&three, &list, 3, &two, 3);
    read_updates(&three, 2, 3, before);
    read_updates(&three, UPDATES_MOST + 2, UPDATES_MOST + 3, beyond);
    assert_memory_equal(before, beyond, sizeof before);
    close_ranks(&three);
    close_ranks(&two);
    shard_list_done(&list);
}

// --- records ------------------------------------------------------------------------------------

// As 0.1.0 wrote them.
static json *old_record(struct ranks *ranks, int64_t step) {
    json *record = record_of(ranks, step);
    json_remove(record, "batch");
    json_remove(record, "rest");
    return record;
}

static void test_records_of_0_1_0(void **state) {
    struct shard_list list = make_list();
    struct ranks two, same, three;
    int expected[10 * UPDATE], found[10 * UPDATE];
    open_ranks(&two, &list, 2, NULL);
    json *record = old_record(&two, 3);
    open_ranks(&same, &list, 2, NULL);
    assert_int_equal(restore(&same, record, 3, NULL), BERTH_OK);
    read_updates(&two, 3, 13, expected);
    read_updates(&same, 3, 13, found);
    assert_memory_equal(found, expected, sizeof found);
    close_ranks(&same);
    open_after(&same, &list, 3, &two, 3);
    open_ranks(&three, &list, 3, NULL);
    assert_int_equal(restore(&three, record, 3, NULL), BERTH_OK);
    read_updates(&same, 3, 13, expected);
    read_updates(&three, 3, 13, found);
    assert_memory_equal(found, expected, sizeof found);
    json_free(record);
    close_ranks(&three);
    close_ranks(&same);
    close_ranks(&two);
    shard_list_done(&list);
}

// Files that are cut to whole micro-batches: these must stay.
static void test_cut_files(void **state) {
    struct shard_list list = make_list();
    struct ranks two, three;
    struct berth_error error;
    open_ranks(&two, &list, 2, "2");
    json *record = record_of(&two, 3), *old = old_record(&two, 3);
    open_ranks(&three, &list, 3, "2");
    assert_int_equal(restore(&three, record, 3, NULL), BERTH_OK);
    assert_int_equal(restore(&three, old, 3, &error), BERTH_CONFIG);
    assert_message_has(&error, "key \"batch\" is missing");
    assert_message_has(&error, "the same number of processes: expected 2, found 3");
    close_ranks(&three);
    open_ranks(&three, &list, 3, "4");
    assert_int_equal(restore(&three, record, 3, &error), BERTH_CONFIG);
    assert_message_has(&error, "2 processes cut the files to multiples of 2 sequences, and 3 "
                               "processes would cut them to multiples of 4; give the "
                               "per_device_train_batch_size 2, or resume with 2 processes");
    close_ranks(&three);
    close_ranks(&two);
    json_free(old);
    json_free(record);
    shard_list_done(&list);
}

static void expect_damage(struct ranks *ranks, const char *record, const char *part) {
    struct berth_error error;
    json *object = NULL;
    assert_int_equal(json_read_memory("record", record, strlen(record), &object, NULL), BERTH_OK);
    json *files = record_of(ranks, 0);
    assert_int_equal(json_set(object, "files", json_copy_deep(json_member(files, "files"))), 0);
    assert_int_equal(restore(ranks, object, 9, &error), BERTH_BAD_DATA);
    assert_message_has(&error, part);
    assert_message_has(&error, "resume from another checkpoint");
    json_free(files);
    json_free(object);
}

static void test_impossible_records(void **state) {
    static const char *const ranges[] = {
        "{\"ranks\": 0, \"first\": 0, \"end\": 1, \"row\": 0}",
        "{\"ranks\": 13, \"first\": 0, \"end\": 1, \"row\": 0}",
        "{\"ranks\": 2, \"first\": -1, \"end\": 1, \"row\": 0}",
        "{\"ranks\": 2, \"first\": 3, \"end\": 3, \"row\": 0}",
        "{\"ranks\": 2, \"first\": 3, \"end\": 11, \"row\": 0}", // of the next pass
        "{\"ranks\": 2, \"first\": 3, \"end\": 4, \"row\": -1}",
        "{\"ranks\": 2, \"first\": 3, \"end\": 4, \"row\": 101}",
        "{\"ranks\": 2, \"first\": 3}"};
    struct shard_list list = make_list();
    struct ranks two;
    open_ranks(&two, &list, 2, NULL);
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        char record[256];
        snprintf(record, sizeof record,
                 "{\"ranks\": 2, \"rest\": {\"update\": 3, \"next_pass\": 1, \"visits\": [%s]}}",
                 ranges[i]);
        expect_damage(&two, record, "\"visits\" in the rest of the run's shards is impossible");
    }
    expect_damage(&two, "{\"ranks\": 5}", "\"ranks\"");
    expect_damage(&two, "{\"batch\": 0}", "\"ranks\"");
    expect_damage(&two, "{\"ranks\": 2, \"rest\": {\"update\": 3, \"next_pass\": 1}}", "\"rest\"");
    expect_damage(&two, "{\"ranks\": 2, \"rest\": {\"next_pass\": 1, \"visits\": []}}", "\"rest\"");
    expect_damage(&two, "{\"ranks\": 2, \"rest\": {\"update\": 3, \"visits\": []}}", "\"rest\"");
    close_ranks(&two);
    shard_list_done(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_another_number_of_ranks),
        SCRATCH_TEST(test_a_run_that_is_interrupted_again),
        SCRATCH_TEST(test_updates_from_the_first_on),
        SCRATCH_TEST(test_records_of_0_1_0),
        SCRATCH_TEST(test_cut_files),
        SCRATCH_TEST(test_impossible_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
