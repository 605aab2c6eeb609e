// SPDX-License-Identifier: Apache-2.0
#include "train/squad_input.h"

#include "core/memory.h"
#include "train/machine.h"

#include <math.h>
#include <string.h>

// --- settings -----------------------------------------------------------------------------------

static int is_set_to(const char *value, const char *name) {
    return value != NULL && strcmp(value, name) == 0;
}

enum berth_status squad_input_feature_options(const struct berth_config *config,
                                              struct squad_feature_options *options,
                                              struct berth_error *error) {
    int keras = is_set_to(config->features, "keras");
    *options = (struct squad_feature_options){
        .max_seq_length = config->max_seq_length,
        .doc_stride = config->doc_stride,
        .max_query_length = config->max_query_length,
        .rules = keras ? SQUAD_RULES_KERAS : SQUAD_RULES_GOOGLE,
        .filter_by_words = is_set_to(config->window_filter, "words"),
        .all_answers = is_set_to(config->keras_answers, "all"),
        .end_exclusive = is_set_to(config->keras_end, "exclusive"),
    };
    if (!keras && (options->all_answers || options->end_exclusive)) {
        return error_set(error, BERTH_CONFIG,
                         "%s belongs to Keras's features: also ask for features keras",
                         options->all_answers ? "keras_answers all" : "keras_end exclusive");
    }
    if (keras && config->version_2_with_negative) {
        return error_set(error, BERTH_CONFIG,
                         "features keras cannot tell that a question has no answer: leave "
                         "version_2_with_negative or features away");
    }
    return BERTH_OK;
}

struct squad_answer_options squad_input_answer_options(const struct berth_config *config) {
    return (struct squad_answer_options){
        .n_best_size = config->n_best_size,
        .max_answer_length = config->max_answer_length,
        .version_2_with_negative = config->version_2_with_negative,
        .null_score_diff_threshold = config->null_score_diff_threshold,
    };
}

// --- data ---------------------------------------------------------------------------------------

enum berth_status squad_input_open(struct squad_input *input, const char *path, int64_t limit,
                                   int training, const struct berth_config *config,
                                   const struct tokenizer *tokenizer, const struct berth_log *log,
                                   struct berth_error *error) {
    *input = (struct squad_input){0};
    double begin = machine_seconds();
    struct squad_feature_options options;
    TRY(squad_input_feature_options(config, &options, error));
    options.training = training;
    TRY(squad_read(path, limit, &input->dataset, error));
    enum berth_status status;
    TRY_DONE(squad_features_build(&input->dataset, tokenizer, &options, machine_threads(config),
                                  log, &input->features, error));
    if (input->features.count == 0) {
        status = error_set(error, BERTH_BAD_DATA,
                           "%s: no question gave a window to %s; check the file's answers", path,
                           training ? "train on" : "answer");
        goto done;
    }
    input->seconds = machine_seconds() - begin;
    log_note(log, "%s: %zu questions, %zu features, %zu tokens in %.2f s", path,
             input->dataset.count, input->features.count, input->features.token_count,
             input->seconds);
    return BERTH_OK;
done:
    squad_input_done(input);
    return status;
}

void squad_input_done(struct squad_input *input) {
    squad_feature_set_done(&input->features);
    squad_dataset_done(&input->dataset);
    *input = (struct squad_input){0};
}

static struct packer_sequence get(const void *data, size_t index) {
    const struct squad_feature_set *set = data;
    const struct squad_feature *feature = &set->features[index];
    return (struct packer_sequence){.ids = set->ids + feature->first,
                                    .type_ids = set->type_ids + feature->first,
                                    .length = feature->length,
                                    .start = feature->start,
                                    .end = feature->end,
                                    .label = -1,
                                    .target = NAN};
}

struct packer_source squad_input_source(const struct squad_feature_set *set) {
    return (struct packer_source){.get = get, .data = set, .count = set->count};
}

// --- logits -------------------------------------------------------------------------------------

enum berth_status squad_logits_init(struct squad_logits *logits,
                                    const struct squad_feature_set *set,
                                    struct berth_error *error) {
    size_t numbers = 2 * set->token_count + 1; // also of an empty set
    *logits =
        (struct squad_logits){.set = set, .values = memory_array_zeroed(numbers, sizeof(float))};
    return logits->values != NULL ? BERTH_OK
                                  : error_no_memory(error, numbers * sizeof(float), "the logits");
}

void squad_logits_done(struct squad_logits *logits) {
    memory_free(logits->values);
    *logits = (struct squad_logits){0};
}

void squad_logits_take(void *logits, size_t index, const float *numbers, int64_t count) {
    const struct squad_logits *own = logits;
    memcpy(own->values + 2 * (size_t)own->set->features[index].first, numbers,
           (size_t)count * sizeof *numbers);
}
