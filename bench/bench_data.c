// SPDX-License-Identifier: Apache-2.0
// Reads the sequences that a benchmark computes with, from SQuAD, a table or shards, divides them
// into updates in advance, and pads them where the measurement is of padded batches. bench.c opens
// it before it plans memory; contents do not matter, lengths do.
#include "bench/bench_data.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "data/pretraining/pretraining_file.h"
#include "model/bert.h"
#include "model/folder.h"
#include "settings/settings.h"
#include "task/task.h"
#include "train/engine/division.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

// Sequences of the feature set, padded to `length` tokens.
struct bench_padded {
    struct packer_source real;
    int32_t length;
    int32_t *ids;
    int8_t *type_ids;
};

// --- vocabulary and shape -----------------------------------------------------------------------

// The first *vocab*.txt of a folder, newly allocated; NULL if there is none.
static char *vocabulary_in(const char *folder) {
    char **names;
    if (dir_list(folder, &names, NULL) != BERTH_OK) {
        return NULL;
    }
    char *path = NULL;
    for (size_t i = 0; names[i] != NULL && path == NULL; i++) {
        if (strstr(names[i], "vocab") != NULL && text_ends_with(names[i], ".txt")) {
            path = path_join(folder, names[i]);
        }
    }
    memory_free(names);
    return path;
}

static char *find_vocabulary(const struct bench_settings *settings) {
    if (settings->config->model.vocab_file != NULL) {
        return memory_string(settings->config->model.vocab_file);
    }
    char *path = dir_exists(settings->geometry) ? vocabulary_in(settings->geometry) : NULL;
    const struct path beside = settings->data != NULL
                                   ? path_parent(settings->data)
                                   : path_format("%s", settings->config->task.data_dir);
    path = path != NULL ? path : vocabulary_in(beside.text);
    return path != NULL ? path : vocabulary_in(path_in(beside.text, "../vocab").text);
}

// --- shards -------------------------------------------------------------------------------------

static enum berth_status read_file(const struct bench_shards *shards, const char *path,
                                   struct instances *instances, struct berth_error *error) {
    return pretraining_read(path, shards->vocab_size, (int)shards->max_length, instances, error);
}

static enum berth_status read_files(const struct bench_shards *shards, char *const *names,
                                    struct instances *instances, struct berth_error *error) {
    for (size_t i = 0; names[i] != NULL && (int64_t)instances->token_count < shards->tokens; i++) {
        if (!pretraining_is_file(names[i])) {
            continue;
        }
        TRY(read_file(shards, path_in(shards->path, names[i]).text, instances, error));
    }
    return BERTH_OK;
}

enum berth_status bench_shards_read(const struct bench_shards *shards, struct instances *instances,
                                    struct berth_error *error) {
    char **names;
    if (!dir_exists(shards->path)) {
        TRY(read_file(shards, shards->path, instances, error));
    } else {
        TRY(dir_list(shards->path, &names, error));
        enum berth_status status = read_files(shards, names, instances, error);
        memory_free(names);
        TRY(status);
    }
    return instances->count > 0
               ? BERTH_OK
               : error_set(error, BERTH_NO_INPUT,
                           "%s: no instances; expected *.hdf5 or *.tfrecord written by "
                           "`berth prepare`",
                           shards->path);
}

// --- padding ------------------------------------------------------------------------------------

static struct packer_sequence get_padded(const void *data, size_t index) {
    const struct bench_padded *padded = data;
    struct packer_sequence sequence = padded->real.get(padded->real.data, index);
    size_t first = index * (size_t)padded->length;
    sequence.ids = padded->ids + first;
    sequence.type_ids = padded->type_ids + first;
    sequence.length = padded->length;
    return sequence;
}

static enum berth_status pad(struct bench_data *data, int64_t length, struct berth_error *error) {
    const struct packer_source real = data->source;
    size_t numbers = real.count * (size_t)length;
    struct bench_padded *padded = memory_array_zeroed(1, sizeof *padded);
    if (padded == NULL) {
        return error_no_memory(error, sizeof *padded, "padded sequences");
    }
    data->padded = padded;
    *padded = (struct bench_padded){.real = real,
                                    .length = (int32_t)length,
                                    .ids = memory_array_zeroed(numbers, sizeof *padded->ids),
                                    .type_ids = memory_array_zeroed(numbers, 1)};
    if (padded->ids == NULL || padded->type_ids == NULL) {
        return error_no_memory(error, numbers * 5, "padded sequences");
    }
    for (size_t i = 0; i < real.count; i++) {
        struct packer_sequence sequence = real.get(real.data, i);
        size_t first = i * (size_t)length, own = (size_t)sequence.length;
        memcpy(padded->ids + first, sequence.ids, own * sizeof *padded->ids);
        memcpy(padded->type_ids + first, sequence.type_ids, own);
    }
    data->source = (struct packer_source){.get = get_padded, .data = padded, .count = real.count};
    return BERTH_OK;
}

// --- updates ------------------------------------------------------------------------------------

// Adds the next update, from the order up to `end`.
static void cut_update(struct bench_data *data, const struct batch_extent *limits, size_t end) {
    const size_t first = data->cuts[data->updates];
    data->cuts[++data->updates] =
        first + packer_fit(&data->real, data->order + first, end - first, limits);
}

static void shuffle_into(struct bench_data *data, int64_t seed, int64_t epoch, size_t first) {
    packer_shuffle((uint64_t)seed, epoch, data->real.count, data->order + first);
}

// Updates with every sequence once, after those that warm up.
static void cut_once(struct bench_data *data, const struct bench_settings *settings,
                     const struct batch_extent *limits) {
    const size_t features = data->real.count;
    shuffle_into(data, settings->config->run.seed, 0, 0);
    while (data->updates < settings->warm_up_steps && data->cuts[data->updates] < features) {
        cut_update(data, limits, features);
    }
    const size_t first = data->cuts[data->updates], end = first + features;
    shuffle_into(data, settings->config->run.seed, 1, first);
    data->warm_up = data->updates;
    while (data->cuts[data->updates] < end) {
        cut_update(data, limits, end);
    }
}

static enum berth_status make_order(struct bench_data *data, const struct bench_settings *settings,
                                    struct berth_error *error) {
    // A sequence has four tokens at least, so this many epochs always suffice; short data sets are
    // repeated.
    const int by_count = settings->update_sequences > 0, once = settings->steps == 0;
    const int64_t max_items =
        by_count ? settings->update_sequences : settings->update_tokens / 4 + 1;
    const size_t features = data->real.count;
    const size_t steps = (size_t)(settings->steps + settings->warm_up_steps);
    const size_t epochs = once ? 2 : steps * (size_t)max_items / features + 1;
    data->order = memory_array(epochs * features, sizeof *data->order);
    data->cuts = memory_array_zeroed((once ? 2 * features : steps) + 1, sizeof *data->cuts);
    if (data->order == NULL || data->cuts == NULL) {
        return error_no_memory(error, epochs * features * sizeof *data->order, "the order");
    }
    const struct batch_extent limits = {.tokens = by_count ? INT64_MAX : settings->update_tokens,
                                        .sequences =
                                            by_count ? settings->update_sequences : INT64_MAX,
                                        .masked = INT64_MAX};
    if (once) {
        cut_once(data, settings, &limits);
    } else {
        for (size_t i = 0; i < epochs; i++) {
            shuffle_into(data, settings->config->run.seed, (int64_t)i, i * features);
        }
        data->warm_up = settings->warm_up_steps;
        while (data->updates < settings->steps + settings->warm_up_steps) {
            cut_update(data, &limits, epochs * features);
        }
    }
    return BERTH_OK;
}

static enum berth_status find_worst(struct bench_data *data, int64_t parts,
                                    struct berth_error *error) {
    struct division division;
    for (int64_t i = 0; i < data->updates; i++) {
        const int64_t own = (int64_t)(data->cuts[i + 1] - data->cuts[i]);
        data->max_sequences = own > data->max_sequences ? own : data->max_sequences;
    }
    enum berth_status status =
        division_init(&division, (size_t)parts, (size_t)data->max_sequences, error);
    for (int64_t i = 0; i < data->updates && status == BERTH_OK; i++) {
        const size_t first = data->cuts[i], count = data->cuts[i + 1] - first;
        division_make(&division, &data->source, data->order + first, count, &data->files.shape,
                      count);
        for (size_t part = 0; part < division.parts; part++) {
            const size_t begin = division.starts[part];
            const struct batch_extent own = packer_extent(&data->source, division.order + begin,
                                                          division.starts[part + 1] - begin);
            data->worst = batch_extent_larger(&data->worst, &own);
        }
    }
    division_done(&division);
    return status;
}

static enum berth_status check(const struct bench_data *data, const struct bench_settings *settings,
                               int64_t longest, struct berth_error *error) {
    if (settings->pad_to > 0 && settings->pad_to < longest) {
        return error_set(error, BERTH_USAGE,
                         "--pad_to %" PRId64 " is less than max_seq_length %" PRId64,
                         settings->pad_to, longest);
    }
    longest = settings->pad_to > 0 ? settings->pad_to : longest;
    if (longest > data->files.shape.max_position_embeddings) {
        return error_set(error, BERTH_CONFIG,
                         "sequences of %" PRId64 " tokens exceed the geometry's %" PRId64
                         " positions",
                         longest, data->files.shape.max_position_embeddings);
    }
    return BERTH_OK;
}

static enum berth_status read_instances(struct bench_data *data,
                                        const struct bench_settings *settings,
                                        struct berth_error *error) {
    const struct settings *config = settings->config;
    const int asked = settings_is_given(config, "max_seq_length");
    const int64_t updates = settings->steps + settings->warm_up_steps;
    struct bench_shards shards = {.path = settings->data,
                                  .tokens = settings->update_sequences > 0
                                                ? updates * settings->update_sequences *
                                                      data->files.shape.max_position_embeddings
                                                : updates * settings->update_tokens,
                                  .vocab_size = (int32_t)data->files.shape.vocab_size,
                                  .max_length = asked ? config->features.max_seq_length : 0};
    TRY(bench_shards_read(&shards, &data->instances, error));
    data->real = instance_source(&data->instances);
    for (size_t i = 0; i < data->instances.count; i++) {
        int64_t length = data->instances.items[i].length;
        data->row_length = length > data->row_length ? length : data->row_length;
    }
    data->row_length = asked ? config->features.max_seq_length : data->row_length;
    TRY(check(data, settings, data->row_length, error));
    return param_table_init(&data->files.table, &data->files.shape, PARAM_HEAD_PRETRAINING, error);
}

static enum berth_status read_task(struct bench_data *data, const struct bench_settings *settings,
                                   struct settings *config, struct berth_error *error) {
    enum task_use use = settings->kind != BENCH_PREDICT ? TASK_TRAIN : TASK_PREDICT;
    TRY(data->task->settle(config, use, error)); // what follows needs the files' names
    const struct length_limits limits = {
        .usual = option_default_integer("max_seq_length", data->task->defaults),
        .positions = data->files.shape.max_position_embeddings,
        .source = settings->geometry};
    TRY(task_fit_length(config, &limits, &data->files.length, &settings->log, error));
    TRY(check(data, settings, data->files.length, error));
    const char *path = data->files.vocab_path = find_vocabulary(settings);
    if (path == NULL) {
        return error_set(error, BERTH_USAGE, "no vocabulary next to %s; name one with vocab_file",
                         settings->data != NULL ? settings->data : settings->config->task.data_dir);
    }
    TRY(model_files_open_tokenizer(&data->files, &settings->config->model, NULL, error));
    if ((int64_t)tokenizer_size(data->files.tokenizer) > data->files.shape.vocab_size) {
        return error_set(error, BERTH_CONFIG,
                         "%s has %zu tokens, but the geometry %s has only %" PRId64
                         "; name another one with vocab_file",
                         path, tokenizer_size(data->files.tokenizer), settings->geometry,
                         data->files.shape.vocab_size);
    }
    TRY(param_table_init(&data->files.table, &data->files.shape, data->task->head, error));
    struct task_open args = {
        .use = use, .config = config, .files = &data->files, .log = &settings->log};
    TRY(task_set_open(&data->set, data->task, &args, error));
    data->real = data->set.source;
    data->row_length = data->files.length;
    return BERTH_OK;
}

// A forecast is of pre-training if its data is.
static int is_pretraining(const struct bench_settings *settings) {
    return settings->kind == BENCH_PRETRAIN ||
           (settings->kind == BENCH_RANKS && settings->data != NULL &&
            (dir_exists(settings->data) || pretraining_is_file(settings->data)));
}

enum berth_status bench_data_open(struct bench_data *data, const struct bench_settings *settings,
                                  int64_t parts, struct berth_error *error) {
    const int64_t min_steps = settings->kind == BENCH_PREDICT ? 0 : 1;
    *data = (struct bench_data){0};
    if (settings->steps < min_steps || settings->warm_up_steps < 0 || settings->update_tokens < 1) {
        return error_set(error, BERTH_USAGE, "a benchmark needs at least one step and one token");
    }
    struct settings config = *settings->config;
    config.task.train_file = config.task.predict_file = settings->data;
    const int is_squad = config.task.task_name == NULL;
    data->task =
        is_pretraining(settings) ? NULL : task_training_find(is_squad ? "squad" : "classify");
    enum berth_status status;
    // Checked before searching for a vocabulary next to the data.
    if (settings->data != NULL) {
        TRY_DONE(data->task != NULL
                     ? file_require(settings->data, is_squad ? "a SQuAD file" : "a table of texts",
                                    error)
                     : path_require(settings->data, "a shard or a folder of shards", error));
    }
    TRY_DONE(folder_read_shape(settings->geometry, &data->files.shape, error));
    TRY_DONE(data->task != NULL ? read_task(data, settings, &config, error)
                                : read_instances(data, settings, error));
    data->source = data->real;
    if (settings->pad_to > 0) {
        TRY_DONE(pad(data, settings->pad_to, error));
    }
    TRY_DONE(make_order(data, settings, error));
    TRY_DONE(find_worst(data, parts, error));
    return BERTH_OK;
done:
    bench_data_done(data);
    return status;
}

void bench_data_done(struct bench_data *data) {
    memory_free(data->order);
    memory_free(data->cuts);
    if (data->padded != NULL) {
        memory_free(data->padded->ids);
        memory_free(data->padded->type_ids);
        memory_free(data->padded);
    }
    if (data->task != NULL) {
        task_set_close(&data->set, data->task);
    }
    instances_done(&data->instances);
    model_files_done(&data->files);
    *data = (struct bench_data){0};
}

struct bench_count bench_data_count(const struct bench_data *data, size_t first, size_t end) {
    const struct bert model = {.config = &data->files.shape, .table = &data->files.table};
    struct bench_count count = {.sequences = (int64_t)(end - first)};
    for (size_t i = first; i < end; i++) {
        struct packer_sequence own = data->real.get(data->real.data, data->order[i]);
        count.tokens += own.length;
        count.masked += own.masked_count;
        count.flops += bert_forward_flops(&data->files.shape, own.length);
    }
    count.flops += bert_head_flops(&model, count.tokens, count.sequences, count.masked);
    return count;
}
