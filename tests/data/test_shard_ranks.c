// SPDX-License-Identifier: Apache-2.0
// Ranks that read files of their own: those that NVIDIA's run_pretraining gives them, and after a
// change of the number of ranks what the earlier ones left, so that every visit is made once.
#include "core/memory.h"
#include "data/shard_fixture.h"
#include "data/shard_order.golden.h"

// --- files by rank -------------------------------------------------------------------------------

enum { FILE_ROOM = 20 }; // file f has the instances from f * FILE_ROOM on

static int size_of(int file) {
    return 6 + file;
}

static struct shard_list put_files(int count) {
    char name[32];
    for (int i = 0; i < 9; i++) {
        snprintf(name, sizeof name, "%d_training.hdf5", i);
        (void)file_remove(scratch(name), NULL);
    }
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%d_training.hdf5", i);
        put_shard(name, i * FILE_ROOM, size_of(i));
    }
    return open_list(scratch("."), SHARD_TRAIN);
}

// The visit's sequences are `count` different ones of the file.
static void assert_of_file(const int *numbers, int file, int count) {
    char seen[FILE_ROOM] = {0};
    for (int i = 0; i < count; i++) {
        const int row = numbers[i] - file * FILE_ROOM;
        if (row < 0 || row >= size_of(file) || seen[row]++) {
            fail_msg("sequence %d of file %d", numbers[i], file);
        }
    }
}

static void check_order(size_t which, int batch) {
    const int files = shard_orders[which].files;
    const struct shard_stream_settings settings = {.seed = (uint64_t)shard_orders[which].seed,
                                                   .by_rank = 1,
                                                   .rank = shard_orders[which].rank,
                                                   .ranks = shard_orders[which].ranks,
                                                   .batch = batch};
    static int numbers[ORDER_VISITS * FILE_ROOM], piece[ORDER_VISITS * FILE_ROOM];
    struct shard_list list = put_files(files);
    struct shard_stream *stream = open_with(&list, settings);
    int at = 0;
    for (int visit = 0; visit < ORDER_EPOCHS * files; visit++) {
        const int size = size_of(shard_orders[which].visits[visit]);
        at += batch > 0 ? size - size % batch : size;
    }
    take(stream, 0, (size_t)at, numbers);
    for (int first = 0; first + 7 <= at; first += 7) {
        take(stream, first, 7, piece);
        assert_memory_equal(piece, numbers + first, 7 * sizeof(int));
    }
    at = 0;
    for (int visit = 0; visit < ORDER_EPOCHS * files; visit++) {
        const int file = shard_orders[which].visits[visit], size = size_of(file);
        const int count = batch > 0 ? size - size % batch : size;
        if (count > 0) { // otherwise it has no position
            const struct shard_position position = shard_stream_locate(stream, at);
            assert_int_equal(position.file, file);
            assert_int_equal(position.epoch, visit / files);
            assert_int_equal(position.visit, visit % files);
        }
        assert_of_file(numbers + at, file, count);
        at += count;
    }
    shard_stream_close(stream);
    shard_list_done(&list);
}

static void test_files_by_rank(void **state) {
    for (size_t i = 0; i < sizeof shard_orders / sizeof *shard_orders; i++) {
        check_order(i, 0);
        check_order(i, 4);
    }
    check_order(0, 8); // two of four files are too small
}

// Two ranks read the same file, and one reads it twice, each time in another order.
static void test_orders_within_a_file_by_rank(void **state) {
    struct shard_list list = put_files(1);
    int numbers[2][12];
    for (int rank = 0; rank < 2; rank++) {
        struct shard_stream *stream = open_with(
            &list,
            (struct shard_stream_settings){.seed = 3, .by_rank = 1, .rank = rank, .ranks = 2});
        take(stream, 0, 12, numbers[rank]);
        shard_stream_close(stream);
        assert_memory_not_equal(numbers[rank], numbers[rank] + 6, 6 * sizeof(int));
    }
    assert_memory_not_equal(numbers[0], numbers[1], 6 * sizeof(int));
    shard_list_done(&list);
}

// --- another number of ranks
// ----------------------------------------------------------------------

enum { RUNS_MOST = 3, READ_MOST = 8000 };

// A sequence that was read, and the visit that it belongs to.
static struct read {
    int ranks;
    int64_t visit;
    int number;
} reads[READ_MOST];
static int read_count;

// Reads sequences [first, first + count) of a rank's stream, in calls of 7, each across visits.
static void read_stream(struct shard_stream *stream, int64_t first, int64_t count) {
    int numbers[7];
    for (int64_t at = first; at < first + count; at += 7) {
        const int some = first + count - at < 7 ? (int)(first + count - at) : 7;
        take(stream, at, (size_t)some, numbers);
        for (int i = 0; i < some; i++) {
            const struct shard_position position = shard_stream_locate(stream, at + i);
            assert_true(read_count < READ_MOST);
            reads[read_count++] = (struct read){
                .ranks = position.ranks,
                .visit =
                    (position.epoch * 6 + (int64_t)position.visit) * position.ranks + position.rank,
                .number = numbers[i]};
            assert_int_equal(numbers[i] / FILE_ROOM, position.file);
        }
    }
}

// The number of sequences that a rank reads before it begins the pass.
static int64_t length_before(struct shard_stream *stream, int64_t pass) {
    int64_t length = 0;
    while (shard_stream_locate(stream, length).epoch < pass) {
        length++;
    }
    return length;
}

// Of `ranks` ranks, the visits of passes [first, end) were each made once: with every sequence of
// the file, or as many as fill whole batches.
static void assert_visits_once(const struct shard_list *list, int ranks, int64_t first, int64_t end,
                               int batch) {
    const struct shard_stream_settings settings = {.seed = 42, .by_rank = 1, .ranks = ranks};
    struct shard_order order;
    assert_int_equal(shard_order_init(&order, list, &settings, NULL), BERTH_OK);
    for (int64_t visit = first * 6 * ranks; visit < end * 6 * ranks; visit++) {
        const struct shard_visit place = {
            .round = visit / ranks, .rank = (int)(visit % ranks), .ranks = ranks};
        const int file = (int)shard_order_file(&order, &place), size = size_of(file);
        int numbers[FILE_ROOM], count = 0;
        for (int i = 0; i < read_count; i++) {
            if (reads[i].ranks == ranks && reads[i].visit == visit) {
                assert_true(count < FILE_ROOM);
                numbers[count++] = reads[i].number;
            }
        }
        assert_int_equal(count, batch > 0 ? size - size % batch : size);
        assert_of_file(numbers, file, count);
    }
    shard_order_done(&order);
}

// Of the first run's ranks, at most as many as files: every sequence of the first epoch once.
static void assert_first_epoch_once(int ranks) {
    int seen[6][FILE_ROOM] = {0};
    for (int i = 0; i < read_count; i++) {
        if (reads[i].ranks == ranks && reads[i].visit < 6) {
            seen[reads[i].number / FILE_ROOM][reads[i].number % FILE_ROOM]++;
        }
    }
    for (int file = 0; file < 6; file++) {
        for (int i = 0; i < FILE_ROOM; i++) {
            assert_int_equal(seen[file][i], i < size_of(file));
        }
    }
}

// Rank 0 reads visits that were left in their order, which is not what it would have read alone.
static void assert_order(const struct shard_list *list, struct shard_stream_settings settings) {
    int continued[40], alone[40];
    settings.rank = 0;
    struct shard_stream *stream = open_with(list, settings);
    take(stream, 0, 40, continued);
    for (int64_t i = 1; i < length_before(stream, settings.rest->pass); i++) {
        const struct shard_position a = shard_stream_locate(stream, i - 1);
        const struct shard_position b = shard_stream_locate(stream, i);
        const int64_t before = a.epoch * 6 + (int64_t)a.visit, now = b.epoch * 6 + (int64_t)b.visit;
        assert_true(a.ranks != b.ranks || before * a.ranks + a.rank <= now * b.ranks + b.rank);
    }
    shard_stream_close(stream);
    settings.rest = NULL;
    stream = open_with(list, settings);
    take(stream, 0, 40, alone);
    shard_stream_close(stream);
    assert_memory_not_equal(continued, alone, sizeof alone);
}

// Runs of these numbers of ranks, each continued by the next one in the middle of a file.
static void check_runs(const int *ranks, const int *taken, int runs, int batch) {
    struct shard_list list = put_files(6);
    struct shard_rest rests[RUNS_MOST + 1] = {0};
    struct shard_stream_settings settings = {.seed = 42, .by_rank = 1, .batch = batch};
    read_count = 0;
    for (int run = 0; run < runs; run++) {
        const int is_last = run + 1 == runs;
        settings.ranks = ranks[run];
        settings.rest = run > 0 ? &rests[run] : NULL;
        for (settings.rank = 0; settings.rank < settings.ranks; settings.rank++) {
            struct shard_stream *stream = open_with(&list, settings);
            read_stream(stream, 0, is_last ? length_before(stream, rests[run].pass) : taken[run]);
            shard_stream_close(stream);
        }
        if (run > 0) {
            assert_order(&list, settings);
        }
        if (!is_last) {
            int middle = 0;
            assert_int_equal(shard_rest_make(&rests[run + 1], &list, &settings, taken[run], NULL),
                             BERTH_OK);
            for (size_t i = 0; i < rests[run + 1].count; i++) {
                middle += rests[run + 1].items[i].row > 0;
            }
            assert_true(middle > 0);
        }
    }
    for (int run = 0; run + 1 < runs; run++) {
        assert_visits_once(&list, ranks[run], rests[run].pass, rests[run + 1].pass, batch);
    }
    if (batch == 0 && ranks[0] <= 6) {
        assert_first_epoch_once(ranks[0]);
    }
    for (int run = 0; run < runs; run++) {
        shard_rest_done(&rests[run]);
    }
    shard_list_done(&list);
}

static void test_another_number_of_ranks_continues(void **state) {
    static const struct {
        int ranks[RUNS_MOST], taken[RUNS_MOST], runs;
    } cases[] = {{{2, 3}, {25}, 2},        {{3, 2}, {25}, 2},       {{4, 1}, {13}, 2},
                 {{1, 4}, {60}, 2},        {{2, 3, 1}, {25, 9}, 3}, {{3, 2, 5}, {25, 90}, 3},
                 {{2, 9, 2}, {73, 17}, 3}, {{9, 2}, {17}, 2},       {{2, 3, 2}, {50, 3}, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_runs(cases[i].ranks, cases[i].taken, cases[i].runs, 0);
    }
    static const int ranks[] = {2, 3}, taken[] = {24};
    check_runs(ranks, taken, 2, 4);
}

// What is left goes on in the same way however often it is asked for, and from anywhere.
static void test_a_rest_is_a_stream(void **state) {
    struct shard_list list = put_files(6);
    struct shard_stream_settings settings = {.seed = 42, .by_rank = 1, .ranks = 4};
    struct shard_rest rest;
    int straight[300], piece[300];
    assert_int_equal(shard_rest_make(&rest, &list, &settings, 13, NULL), BERTH_OK);
    settings.ranks = 1;
    settings.rest = &rest;
    struct shard_stream *stream = open_with(&list, settings);
    take(stream, 0, 300, straight);
    for (int first = 0; first + 50 <= 300; first += 50) {
        take(stream, first, 50, piece);
        assert_memory_equal(piece, straight + first, 50 * sizeof(int));
    }
    take(stream, 3, 1, piece);
    assert_int_equal(piece[0], straight[3]);
    shard_stream_close(stream);
    uint64_t n = 0, made;
    do {
        struct shard_rest other;
        memory_fail_at(++n, 0);
        const enum berth_status status = shard_rest_make(&other, &list, &settings, 20, NULL);
        made = memory_fail_at(0, 0);
        assert_true(status == BERTH_OK || status == BERTH_NO_MEMORY);
        shard_rest_done(&other);
    } while (made >= n);
    assert_true(n > 3);
    shard_rest_done(&rest);
    shard_list_done(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_files_by_rank),
        SCRATCH_TEST(test_orders_within_a_file_by_rank),
        SCRATCH_TEST(test_another_number_of_ranks_continues),
        SCRATCH_TEST(test_a_rest_is_a_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
