// SPDX-License-Identifier: Apache-2.0
// The invariants of the core nouns: what a real update, a real feed and a real run leave passes
// each noun's check, and a copy in which one sentence is made false is refused with this sentence.
#include "core/harness.h"
#include "core/log.h"
#include "data/masked/text_sequences.h"
#include "model/activations.h"
#include "ranks_fixture.h"
#include "settings/settings.h"
#include "train/checkpoint/checkpoint.h"
#include "train/engine/feed.h"
#include "train/job/rules.h"
#include "train/optimizer/schedule.h"
#include "train/progress/progress.h"

#include <string.h>

// Makes a sentence of `good` false in a copy, and sees it named.
#define BREAKS(type, check, good, change, sentence)                                                \
    do {                                                                                           \
        type broken = (good);                                                                      \
        change;                                                                                    \
        assert_string_equal(check(&broken), sentence);                                             \
    } while (0)

// One rank that has done an update of four parts, with masked tokens.
static const struct setting setting = {.layout = "1x1", .parts = 4, .micro = 3};
static struct rank rank;

static int open_rank(void **state) {
    ranks_set_up(state);
    ranks_set_head(PARAM_HEAD_PRETRAINING);
    rank_open(&rank, &setting, comm_self());
    rank_update(&rank, &setting, 0);
    return 0;
}

static int close_rank(void **state) {
    rank_close(&rank);
    return ranks_tear_down(state);
}

// --- mat ----------------------------------------------------------------------------------------

static void mat_is_checked(void **state) {
    const struct mat good = rank.engine.training->layers[0].qkv;
    assert_null(mat_check(&good));
#define MAT(change, sentence) BREAKS(struct mat, mat_check, good, change, sentence)
    MAT(broken.rows = -1, "the numbers of rows and columns are not negative");
    MAT(broken.cols = broken.stride + 1, "a row fits into its stride");
    MAT(broken.dtype = (enum dtype)4, "the dtype is one of enum dtype");
    MAT(broken.data = (char *)broken.data + 1, "the data is aligned to its dtype");
}

// --- batch --------------------------------------------------------------------------------------

// Changes an element of an array of the batch and puts it back.
#define ELEMENT(array, index, value, sentence)                                                     \
    do {                                                                                           \
        int32_t *element = (int32_t *)(uintptr_t)(array) + (index), old = *element;                \
        *element = (value);                                                                        \
        assert_string_equal(batch_check(&rank.engine.packer.batch), sentence);                     \
        *element = old;                                                                            \
    } while (0)

static void batch_is_checked(void **state) {
    const struct batch good = rank.engine.packer.batch;
    const int64_t slack = good.token_count, last = good.sequence_count;
    assert_true(good.row_count > slack && last > 1 && good.masked_count > 1);
    assert_non_null(good.head.rows);
    assert_null(batch_check(&good));
#define BATCH(change, sentence) BREAKS(struct batch, batch_check, good, change, sentence)
    BATCH(broken.masked_count = -1, "no count is negative");
    BATCH(broken.row_count += BATCH_ROUNDING, "row_count is token_count, rounded up");
    BATCH(broken.max_length++, "max_length is the length of the longest sequence");
    BATCH(broken.sequence_count--, "the last sequence ends with the tokens");
    ELEMENT(good.cu_seqlens, 0, 1, "the first sequence begins at row 0");
    ELEMENT(good.cu_seqlens, 1, 0, "every sequence has tokens");
    ELEMENT(good.sequences, 1, 1, "each row has the index of its sequence");
    ELEMENT(good.positions, 1, 2, "positions count a sequence's rows");
    ELEMENT(good.sequences, slack, 0, "slack rows belong to no sequence");
    ELEMENT(good.ids, slack, 1, "ids, type_ids and positions of slack rows are 0");
    ELEMENT(good.masked_rows, 0, (int32_t)slack, "masked rows ascend and are tokens");
    ELEMENT(good.head.cu_seqlens, last, 0, "the head's last sequence ends with its rows");
    ELEMENT(good.head.rows, good.head.cu_seqlens[1], 1,
            "the head has the first row of each sequence");
    ELEMENT(good.head.masked_rows, 0, 0, "the head has the row of each masked token");
}

static void batch_is_checked_in_its_order(void **state) {
    const struct batch good = rank.engine.packer.batch;
    int32_t rows[4] = {0, 1, 2, 3}, ids[BATCH_ROUNDING] = {5, 5, 7, 9};
    int32_t positions[BATCH_ROUNDING] = {0, 1, 2, 3}, sequences[BATCH_ROUNDING] = {0};
    const int32_t bounds[2] = {0, 4}, zeros[BATCH_ROUNDING] = {0};
    const int32_t head_rows[3] = {0, 2, 1}, head_bounds[2] = {0, 3};
    memset(sequences + 4, 0xFF, sizeof sequences - 4 * sizeof *sequences);
    struct batch batch = {.token_count = 4,
                          .row_count = BATCH_ROUNDING,
                          .sequence_count = 1,
                          .max_length = 4,
                          .ids = ids,
                          .type_ids = zeros,
                          .positions = positions,
                          .sequences = sequences,
                          .word_rows = rows,
                          .cu_seqlens = bounds};
    assert_true(good.word_rows == NULL || batch_check(&good) == NULL);
    assert_null(batch_check(&batch));
    rows[0] = 1;
    rows[1] = 0;
    assert_string_equal(batch_check(&batch),
                        "word_rows are in the order of the ids, rows of one id ascending");
    batch.word_rows = NULL;
    batch.head = (struct batch_head){.count = 3, .rows = head_rows, .cu_seqlens = head_bounds};
    assert_string_equal(batch_check(&batch), "the head's rows ascend");
}

// --- device -------------------------------------------------------------------------------------

static void device_is_checked(void **state) {
    const struct device good = *rank.device;
    assert_null(device_check(&good));
#define DEVICE(change, sentence) BREAKS(struct device, device_check, good, change, sentence)
    DEVICE(broken.kernels = NULL, "a device and its kernels have names");
    DEVICE(broken.threads = 0, "the host has at least one thread for the device's work");
    DEVICE(broken.dtypes = 1u << DTYPE_BF16, "every device computes in f32");
    DEVICE(broken.fast_dtype = DTYPE_F16, "a device has its fast dtype");
    DEVICE(broken.discard = NULL, "a device allocates, copies and clears memory");
    DEVICE(broken.mark = NULL,
           "a device reserves memory, keeps its error and its times, and can be closed");
    DEVICE(broken.pinned_new = good.memory_new, "the host's memory needs no pinned copy");
    DEVICE(broken.pinned_free = good.memory_free, "pinned memory and fetches come together");
    DEVICE(broken.peers_close = good.close,
           "a device exchanges with its peers by all of these functions, or by none");
    DEVICE(broken.lamb_apply = NULL, "a device has every operation");
    DEVICE(broken.int8_finish = NULL, "the bit of i8 stands for all operations on int8 matrices");
    DEVICE(broken.pack = NULL, "packed weights have all of their operations, or none");
}

// --- comm ---------------------------------------------------------------------------------------

static void check_comm(struct comm *comm, const struct transport *transport, void *context) {
    CHECK(comm_check(comm) == NULL);
}

static void comm_is_checked(void **state) {
    struct job job = job_of("1+2");
    job.body = check_comm;
    job_run(&job);
    const struct comm good = *comm_self();
    assert_null(comm_check(&good));
#define COMM(change, sentence) BREAKS(struct comm, comm_check, good, change, sentence)
    COMM(broken.name = NULL, "a communicator has a name");
    COMM(broken.rank = 1, "the rank is one of the job's");
    COMM(broken.local_rank = 1, "the local rank is one of its host's");
    COMM(broken.host = -1, "the host is one of the job's");
    COMM(broken.local_size = 2, "hosts and their ranks are no more than all ranks");
    COMM(broken.size = 2, "several ranks have names of hosts");
    COMM(broken.wait = NULL, "a communicator has every operation");
}

// --- params -------------------------------------------------------------------------------------

// Changes a member of something that the table points to, and puts it back.
#define MEMBER(place, value, sentence)                                                             \
    do {                                                                                           \
        const int64_t old = (place);                                                               \
        (place) = (value);                                                                         \
        assert_string_equal(param_table_check(&ranks_table), sentence);                            \
        (place) = old;                                                                             \
    } while (0)

static void params_are_checked(void **state) {
    const struct param_table good = ranks_table;
    for (int head = 0; head < PARAM_HEADS; head++) {
        struct param_table table;
        assert_int_equal(param_table_init(&table, &ranks_shape, (enum param_head)head, NULL),
                         BERTH_OK);
        assert_null(param_table_check(&table));
        param_table_done(&table);
    }
#define TABLE(change, sentence)                                                                    \
    BREAKS(struct param_table, param_table_check, good, change, sentence)
    TABLE(broken.architecture = NULL, "a table is of an architecture");
    TABLE(broken.head = PARAM_HEADS, "the head is one of enum param_head");
    TABLE(broken.total++, "buffer and matrices end at multiples of 64");
    TABLE(broken.matrix_count = good.head_first - 64,
          "the head's matrices are among the matrices, and these in the buffer");
    TABLE(broken.head_weight = good.matrix_count, "the head's weights are matrices");
    TABLE(broken.word = good.matrix_count, "the word table of a decoder is a matrix");
    TABLE(broken.parameter_count++, "parameter_count is the elements without gaps");
    TABLE(broken.total -= 64, "the parameters are inside the buffer");
    TABLE(broken.head_first = good.layers[1].qkv_weight,
          "the head's matrices follow those of the layers");
    struct param *first = &good.params[0], *vector = &good.params[good.count - 1];
    MEMBER(first[1].offset, first[1].offset - 1,
           "parameters are in the order of the buffer, without overlap");
    MEMBER(vector->offset, vector->offset + 1,
           "a parameter follows the one before it, or begins at a multiple of 64");
    MEMBER(vector->rows, 2, "a vector has one row");
    MEMBER(good.layers[0].qkv_weight, 64, "the matrices of layer 0 come first");
    MEMBER(good.layers[0].output_weight, 0, "matrices are in the order of the layers");
    MEMBER(good.layers[1].output_bias, 0, "the vectors of layers follow all matrices");
    assert_null(param_table_check(&ranks_table));
}

// --- activations --------------------------------------------------------------------------------

static const char *check_activations(const struct bert_activations *activations) {
    return bert_activations_check(activations, ranks_shape.num_hidden_layers);
}

static void activations_are_checked(void **state) {
    const struct bert_activations good = *rank.engine.training;
    struct layer_buffers *layer = &good.layers[1], old = *layer;
    assert_null(check_activations(&good));
#define ACTIVATIONS(change, sentence)                                                              \
    BREAKS(struct bert_activations, check_activations, good, change, sentence)
    ACTIVATIONS(broken.head = NULL, "activations are of a head");
    ACTIVATIONS(broken.max_rows++, "there is room for whole blocks of rows, and for a sequence");
    ACTIVATIONS(broken.losses = NULL, "losses and their gradients are kept exactly in training");
    ACTIVATIONS(broken.keep = BERT_RECOMPUTE_LAYERS,
                "where layers are computed again, each keeps a sum of its own to begin with");
#define LAYER(change, sentence)                                                                    \
    do {                                                                                           \
        change;                                                                                    \
        assert_string_equal(check_activations(&good), sentence);                                   \
        *layer = old;                                                                              \
    } while (0)
    LAYER(layer->gelu.data = NULL,
          "every layer has memory for attention and its feed-forward network");
    LAYER(layer->qkv.cols--,
          "queries, keys and values have the rows and three times the columns of the context");
    LAYER(layer->output_norm.y = layer->attention_norm.y,
          "a layer's two norms have residual streams of their own");
    LAYER(layer->lse = NULL, "what the backward pass reads is kept exactly in training");
    LAYER(layer->du = layer->qkv,
          "gradients are in the memory of activations that are no longer needed");
    assert_null(check_activations(&good));
}

// --- update -------------------------------------------------------------------------------------

// The copy has an engine whose model waits for it.
static const char *check_updater(struct updater *updater) {
    struct engine engine = updater->engine != NULL ? *updater->engine : rank.engine;
    if (engine.model.source.context == &rank.updater) {
        engine.model.source.context = updater;
    }
    updater->engine = updater->engine != NULL ? &engine : NULL;
    return updater_check(updater);
}

static void updater_is_checked(void **state) {
    const struct updater good = rank.updater;
    assert_null(updater_check(&rank.updater));
    assert_string_equal(
        updater_check(&good),
        "the engine's model waits for the weights of this updater, which has not moved");
#define UPDATER(change, sentence) BREAKS(struct updater, check_updater, good, change, sentence)
    UPDATER(broken.engine = NULL, "an updater has an engine that can train");
    UPDATER(broken.plan.norm = NULL, "clipping reads the norm that the engine's sums have");
    UPDATER(broken.own_parts = 3, "each rank has equally many of an update's parts");
    UPDATER(broken.rules.parts = 8, "an update has the parts that the rules ask for");
    UPDATER(broken.level_count = 3,
            "there is a partial sum for each power of two below the number of own parts");
    UPDATER(broken.earlier_losses = NULL, "all own parts but the last keep their losses");
    UPDATER(broken.class_weights = broken.levels[0],
            "the device has the weights of classes if the rules have them");
}

// --- feed ---------------------------------------------------------------------------------------

static struct packer_sequence get_sequence(const void *data, size_t index) {
    static const int32_t ids[4] = {1, 2, 3, 4};
    static const int8_t types[4];
    return (struct packer_sequence){
        .ids = ids, .type_ids = types, .length = 4, .label = -1, .label_count = -1};
}

static json *record(struct feed *feed, const struct batching *batching, int64_t step) {
    return NULL;
}

static enum berth_status restore(struct feed *feed, const struct batching *batching, int64_t step,
                                 const struct feed_record *found, struct berth_error *error) {
    return BERTH_OK;
}

static void feed_is_checked(void **state) {
    static const char *const names[2] = {"a.csv", "b.csv"};
    const struct packer_source sources[2] = {{.get = get_sequence, .count = 5},
                                             {.get = get_sequence, .count = 7}};
    struct feed good, sets;
    assert_int_equal(feed_open_source(&good, &sources[0], NULL), BERTH_OK);
    assert_int_equal(feed_open_sets(&sets, sources, names, 2, FEED_PROPORTIONAL, NULL), BERTH_OK);
    assert_null(feed_check(&good));
    assert_null(feed_check(&sets));
    const struct feed_ops none = {0};
    struct feed_ops recording = *good.ops, of_shards = *good.ops;
    recording.restore = of_shards.restore = restore;
    of_shards.record = record;
    const struct text_sequences text = {0};
    const struct shard_list shards = {0};
#define FEED(good, change, sentence) BREAKS(struct feed, feed_check, good, change, sentence)
    FEED(good, broken.ops = &none,
         "a feed resolves its sizes, knows its largest micro-batch and returns updates");
    FEED(good, broken.order = NULL, "a feed is of one source, of several data sets, or of shards");
    FEED(good, broken.ops = &recording,
         "only shards have a position of their own to record and restore");
    FEED(good, broken.masks.all = &text,
         "text has an order of its masked copies, and threads that make them");
    FEED(good, (broken.order = NULL, broken.shards = &shards, broken.ops = &of_shards),
         "shards are not in memory");
    FEED(good, broken.order_epoch = -2, "the order is of an epoch, or of none yet");
    FEED(sets, broken.sets[1].name = NULL, "each data set has a name and is in memory");
    feed_done(&good);
    feed_done(&sets);
}

// --- progress and checkpoint --------------------------------------------------------------------

static void progress_is_checked(void **state) {
    struct progress good;
    assert_int_equal(progress_init(&good, NULL), BERTH_OK);
    assert_null(progress_check(&good));
    good.step = 10;
    good.phase_start = 4;
    good.skipped = 2;
    good.schedule_start = 3;
    good.moments_start = 5;
    assert_null(progress_check(&good));
#define PROGRESS(change, sentence) BREAKS(struct progress, progress_check, good, change, sentence)
    PROGRESS(broken.jobs = 0, "the settings of at least one job are stored");
    PROGRESS(broken.phase_start = 11, "a phase begins before its updates");
    PROGRESS(broken.skipped = 7, "the skipped updates are some of the phase's");
    PROGRESS(broken.schedule_start = 5,
             "the schedule started at an update of the phase that was not skipped");
    PROGRESS(broken.moments_start = 11, "the moments start at an update of the run");
    PROGRESS(broken.data_shift = -1, "data can only be left out");
    PROGRESS(broken.rate_factor = 0, "the factor of the learning rate is positive");
    PROGRESS(broken.loss_scale.kind = LOSS_SCALE_STATIC, "the loss scale is positive");
    PROGRESS(broken.loss_count = -1, "losses are counted, and their sums are of those counted");
    PROGRESS(broken.evaluations_without_gain = -1, "evaluations are counted");
    progress_done(&good);
}

static void checkpoint_is_checked(void **state) {
    struct settings config;
    struct model_files files = {.table = ranks_table};
    struct batching batching = {0};
    const struct schedule schedule = {0};
    struct progress progress;
    struct state weights = rank.state;
    settings_init(&config);
    assert_int_equal(progress_init(&progress, NULL), BERTH_OK);
    weights.table = &files.table;
    struct updater updater = {0};
    const struct checkpoint_content good = {.settings = &config,
                                            .run = &config.run,
                                            .schedule = &schedule,
                                            .files = &files,
                                            .batching = &batching,
                                            .state = &weights,
                                            .progress = &progress,
                                            .comm = comm_self(),
                                            .updater = &updater};
    assert_null(checkpoint_content_check(&good));
#define CONTENT(change, sentence)                                                                  \
    BREAKS(struct checkpoint_content, checkpoint_content_check, good, change, sentence)
    CONTENT(broken.settings = NULL, "a checkpoint saves the settings that it follows");
    CONTENT(broken.schedule = NULL, "a checkpoint is of a model, a schedule and sizes of updates");
    CONTENT(broken.state = &rank.state, "the weights have the layout of the model's table");
    CONTENT(broken.comm = NULL, "the state is divided among the ranks that write together");
    CONTENT(broken.updater = &rank.updater, "the updater checks the state that is written");
    CONTENT(broken.progress = NULL, "a checkpoint has the run's progress");
    progress.skipped = 1;
    assert_string_equal(checkpoint_content_check(&good),
                        "the skipped updates are some of the phase's");
    progress_done(&progress);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mat_is_checked),
        cmocka_unit_test(batch_is_checked),
        cmocka_unit_test(batch_is_checked_in_its_order),
        cmocka_unit_test(device_is_checked),
        cmocka_unit_test(comm_is_checked),
        cmocka_unit_test(params_are_checked),
        cmocka_unit_test(activations_are_checked),
        cmocka_unit_test(updater_is_checked),
        cmocka_unit_test(feed_is_checked),
        cmocka_unit_test(progress_is_checked),
        cmocka_unit_test(checkpoint_is_checked),
    };
    return cmocka_run_group_tests(tests, open_rank, close_rank);
}
