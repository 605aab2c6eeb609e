// SPDX-License-Identifier: Apache-2.0
#include "train/bench_data.h"

#include "core/file.h"
#include "core/memory.h"
#include "model/bert.h"
#include "model/folder.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

// Sequences of the feature set filled up to `length` tokens.
struct bench_padded {
    const struct squad_feature_set *set;
    int32_t length;
    int32_t *ids;
    int8_t *type_ids;
};

// --- vocabulary and shape -----------------------------------------------------------------------

static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? memory_string_of(path, (size_t)(slash - path) + 1) : memory_string(".");
}

// The first *vocab*.txt of a folder, newly allocated; NULL when there is none.
static char *vocabulary_in(const char *folder) {
    char **names;
    if (folder == NULL || dir_list(folder, &names, NULL) != BERTH_OK) {
        return NULL;
    }
    char *path = NULL;
    for (size_t i = 0; names[i] != NULL && path == NULL; i++) {
        size_t length = strlen(names[i]);
        if (strstr(names[i], "vocab") != NULL && length > 4 &&
            strcmp(names[i] + length - 4, ".txt") == 0) {
            path = path_join(folder, names[i]);
        }
    }
    memory_free(names);
    return path;
}

static char *find_vocabulary(const struct bench_settings *settings) {
    if (settings->config->vocab_file != NULL) {
        return memory_string(settings->config->vocab_file);
    }
    char *path = dir_exists(settings->geometry) ? vocabulary_in(settings->geometry) : NULL;
    char *beside = folder_of(settings->data);
    char *sibling = beside != NULL ? path_join(beside, "../vocab") : NULL;
    path = path != NULL ? path : vocabulary_in(beside);
    path = path != NULL ? path : vocabulary_in(sibling);
    memory_free(beside);
    memory_free(sibling);
    return path;
}

static enum berth_status open_tokenizer(struct bench_data *data,
                                        const struct bench_settings *settings,
                                        struct berth_error *error) {
    char *path = find_vocabulary(settings);
    if (path == NULL) {
        return error_set(error, BERTH_USAGE, "no vocabulary beside %s; name one with --vocab_file",
                         settings->data);
    }
    struct tokenizer_options options = {.rules = TOKENIZER_HUGGINGFACE,
                                        .lower_case = settings->config->do_lower_case != 0};
    enum berth_status status = tokenizer_open(path, &options, &data->tokenizer, error);
    if (status == BERTH_OK && (int64_t)tokenizer_size(data->tokenizer) > data->shape.vocab_size) {
        status = error_set(
            error, BERTH_CONFIG,
            "%s has %zu tokens, the geometry %s only %" PRId64 "; name another with --vocab_file",
            path, tokenizer_size(data->tokenizer), settings->geometry, data->shape.vocab_size);
    }
    memory_free(path);
    return status;
}

static enum berth_status read_shape(struct bench_data *data, const struct bench_settings *settings,
                                    struct berth_error *error) {
    if (dir_exists(settings->geometry)) {
        char *path = folder_config_path(settings->geometry);
        enum berth_status status = path != NULL ? bert_config_read(path, &data->shape, error)
                                                : error_no_memory(error, 0, "a path");
        memory_free(path);
        return status;
    }
    return file_exists(settings->geometry)
               ? bert_config_read(settings->geometry, &data->shape, error)
               : bert_config_builtin(settings->geometry, &data->shape, error);
}

// --- padding ------------------------------------------------------------------------------------

static struct packer_sequence get_padded(const void *data, size_t index) {
    const struct bench_padded *padded = data;
    const struct squad_feature *feature = &padded->set->features[index];
    size_t first = index * (size_t)padded->length;
    return (struct packer_sequence){.ids = padded->ids + first,
                                    .type_ids = padded->type_ids + first,
                                    .length = padded->length,
                                    .start = feature->start,
                                    .end = feature->end,
                                    .label = -1,
                                    .target = NAN};
}

static enum berth_status pad(struct bench_data *data, int64_t length, struct berth_error *error) {
    const struct squad_feature_set *set = &data->input.features;
    size_t numbers = set->count * (size_t)length;
    struct bench_padded *padded = memory_array_zeroed(1, sizeof *padded);
    if (padded == NULL) {
        return error_no_memory(error, sizeof *padded, "padded sequences");
    }
    data->padded = padded;
    *padded = (struct bench_padded){.set = set,
                                    .length = (int32_t)length,
                                    .ids = memory_array_zeroed(numbers, sizeof *padded->ids),
                                    .type_ids = memory_array_zeroed(numbers, 1)};
    if (padded->ids == NULL || padded->type_ids == NULL) {
        return error_no_memory(error, numbers * 5, "padded sequences");
    }
    for (size_t i = 0; i < set->count; i++) {
        const struct squad_feature *feature = &set->features[i];
        size_t own = (size_t)feature->length;
        memcpy(padded->ids + i * (size_t)length, set->ids + feature->first, own * sizeof *set->ids);
        memcpy(padded->type_ids + i * (size_t)length, set->type_ids + feature->first, own);
    }
    data->source = (struct packer_source){.get = get_padded, .data = padded, .count = set->count};
    return BERTH_OK;
}

// --- updates ------------------------------------------------------------------------------------

static enum berth_status take_orders(struct bench_data *data, const struct bench_settings *settings,
                                     struct berth_error *error) {
    // An update holds at least one sequence and at most update_tokens of them, so this many epochs
    // are always enough; short data sets are simply repeated.
    size_t features = data->input.features.count;
    size_t sequences = (size_t)data->updates * (size_t)(settings->update_tokens / 4 + 1);
    size_t epochs = sequences / features + 1;
    data->order = memory_array(epochs * features, sizeof *data->order);
    data->cuts = memory_array((size_t)data->updates + 1, sizeof *data->cuts);
    if (data->order == NULL || data->cuts == NULL) {
        return error_no_memory(error, epochs * features * sizeof *data->order, "the order");
    }
    struct packer_source real = squad_input_source(&data->input.features);
    for (size_t i = 0; i < epochs; i++) {
        packer_shuffle((uint64_t)settings->config->seed, (int64_t)i, features,
                       data->order + i * features);
    }
    data->cuts[0] = 0;
    for (int64_t i = 0; i < data->updates; i++) {
        size_t first = data->cuts[i];
        data->cuts[i + 1] =
            first + packer_fit(&real, data->order + first, epochs * features - first,
                               settings->update_tokens, INT64_MAX);
    }
    return BERTH_OK;
}

static void find_worst(struct bench_data *data) {
    for (int64_t i = 0; i < data->updates; i++) {
        int64_t tokens = 0, sequences = (int64_t)(data->cuts[i + 1] - data->cuts[i]);
        for (size_t k = data->cuts[i]; k < data->cuts[i + 1]; k++) {
            int32_t length = data->source.get(data->source.data, data->order[k]).length;
            tokens += length;
            data->max_length = length > data->max_length ? length : data->max_length;
        }
        data->worst_tokens = tokens > data->worst_tokens ? tokens : data->worst_tokens;
        data->worst_sequences =
            sequences > data->worst_sequences ? sequences : data->worst_sequences;
    }
}

static enum berth_status check(const struct bench_data *data, const struct bench_settings *settings,
                               int64_t longest, struct berth_error *error) {
    if (settings->pad_to > 0 && settings->pad_to < longest) {
        return error_set(error, BERTH_USAGE,
                         "--pad_to %" PRId64 " is less than max_seq_length %" PRId64,
                         settings->pad_to, longest);
    }
    longest = settings->pad_to > 0 ? settings->pad_to : longest;
    if (longest > data->shape.max_position_embeddings) {
        return error_set(error, BERTH_CONFIG,
                         "sequences of %" PRId64 " tokens exceed the geometry's %" PRId64
                         " positions",
                         longest, data->shape.max_position_embeddings);
    }
    return BERTH_OK;
}

enum berth_status bench_data_open(struct bench_data *data, const struct bench_settings *settings,
                                  int labels, struct berth_error *error) {
    *data = (struct bench_data){.updates = settings->steps + settings->warm_up_steps};
    if (data->updates < 1 || settings->steps < 1 || settings->update_tokens < 1) {
        return error_set(error, BERTH_USAGE, "a benchmark needs at least one step and one token");
    }
    struct berth_config config = *settings->config;
    enum berth_status status;
    if (!file_exists(settings->data)) { // before a vocabulary is looked for beside it
        return error_set(error, BERTH_NO_INPUT, "%s: no such file; expected a SQuAD file",
                         settings->data);
    }
    TRY_DONE(read_shape(data, settings, error));
    TRY_DONE(inputs_fit_length(&config, data->shape.max_position_embeddings, settings->geometry,
                               &settings->log, error));
    TRY_DONE(check(data, settings, config.max_seq_length, error));
    TRY_DONE(open_tokenizer(data, settings, error));
    TRY_DONE(squad_input_open(&data->input, settings->data, 0, labels, &config, data->tokenizer,
                              &settings->log, error));
    data->source = squad_input_source(&data->input.features);
    if (settings->pad_to > 0) {
        TRY_DONE(pad(data, settings->pad_to, error));
    }
    TRY_DONE(take_orders(data, settings, error));
    find_worst(data);
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
    squad_input_done(&data->input);
    tokenizer_close(data->tokenizer);
    bert_config_done(&data->shape);
    *data = (struct bench_data){0};
}

void bench_data_count(const struct bench_data *data, size_t first, size_t end, int64_t *tokens,
                      double *flops) {
    *tokens = 0;
    *flops = 0;
    for (size_t i = first; i < end; i++) {
        int32_t length = data->input.features.features[data->order[i]].length;
        *tokens += length;
        *flops += bert_forward_flops(&data->shape, length);
    }
}
