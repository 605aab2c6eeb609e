// SPDX-License-Identifier: Apache-2.0
// Single questions of a data set with the model's answers, for viewers (predict.h).
//
// By Keras's rules it shows what the CSCS demos show: samples are the entries that training would
// have, and the answer is the best start with the best end, each by itself.
#include "core/memory.h"
#include "task/squad_answers.h"
#include "task/squad_metrics.h"
#include "train/infer.h"
#include "train/machine.h"
#include "train/predict.h"
#include "train/squad_input.h"

// The wanted part of a data set, its features and logits.
struct show {
    struct berth_config config; // as it fits the model
    struct predictor predictor;
    struct squad_feature_options rules;
    struct squad_dataset dataset, part; // part borrows from dataset, or from dataset and entries
    struct squad_example *entries;      // by Keras's rules; NULL else
    struct squad_feature_set features;
    struct packer_source source;
    struct infer_shape shape;
    struct squad_logits logits;
    struct squad_result *results;
};

static int all_have_answers(const struct squad_dataset *dataset) {
    for (size_t i = 0; i < dataset->count; i++) {
        if (dataset->examples[i].answer_count == 0) {
            return 0;
        }
    }
    return 1;
}

// part becomes the entries that have features.
static enum berth_status list_entries(const struct show_args *args, struct show *show,
                                      struct berth_error *error) {
    struct squad_feature_options rules = show->rules;
    struct squad_feature_set set;
    rules.training = all_have_answers(&show->dataset);
    TRY(squad_features_build(&show->dataset, show->predictor.files.tokenizer, &rules,
                             machine_threads(&show->config), args->log, &set, error));
    show->entries = memory_array(set.count + 1, sizeof *show->entries);
    for (size_t i = 0; show->entries != NULL && i < set.count; i++) {
        const struct squad_feature *feature = &set.features[i];
        show->entries[i] = show->dataset.examples[feature->example];
        if (rules.training && rules.all_answers) {
            show->entries[i].answers += feature->answer;
            show->entries[i].answer_count = 1;
        }
    }
    show->part.examples = show->entries;
    show->part.count = set.count;
    squad_feature_set_done(&set);
    return show->entries != NULL
               ? BERTH_OK
               : error_no_memory(error, show->part.count * sizeof *show->entries, "the entries");
}

static enum berth_status choose(const struct show_args *args, struct show *show,
                                struct berth_error *error) {
    const struct berth_config *config = &show->config;
    if (config->predict_file == NULL) {
        return error_set(error, BERTH_USAGE, "--predict_file is missing");
    }
    TRY(squad_input_feature_options(config, &show->rules, error));
    TRY(squad_read(config->predict_file, 0, &show->dataset, error));
    show->part = show->dataset;
    show->part.storage = NULL;
    if (show->rules.rules == SQUAD_RULES_KERAS) {
        TRY(list_entries(args, show, error));
    }
    int64_t all = (int64_t)show->part.count;
    if (args->first < 0 || args->first >= all) {
        return error_set(error, BERTH_USAGE, "sample %lld does not exist: %s has samples 0 to %lld",
                         (long long)args->first, config->predict_file, (long long)all - 1);
    }
    int64_t left = all - args->first;
    show->part.examples += args->first;
    show->part.count = (size_t)(args->count < left ? args->count : left);
    return BERTH_OK;
}

static enum berth_status prepare(const struct show_args *args, struct show *show,
                                 struct berth_error *error) {
    const struct berth_config *config = &show->config;
    TRY(squad_features_build(&show->part, show->predictor.files.tokenizer, &show->rules,
                             machine_threads(config), args->log, &show->features, error));
    show->source = squad_input_source(&show->features);
    TRY(infer_find_worst(&show->source, config, &show->shape, error));
    TRY(squad_logits_init(&show->logits, &show->features, error));
    struct trainer_shape shape = {.infer_tokens = show->shape.tokens,
                                  .infer_sequences = show->shape.sequences,
                                  .max_length = show->shape.max_length};
    return predictor_load(&show->predictor, config, &shape, args->log, error);
}

static enum berth_status answer_separately(struct show *show, struct berth_error *error) {
    show->results = memory_array_zeroed(show->part.count + 1, sizeof *show->results);
    if (show->results == NULL) {
        return error_no_memory(error, show->part.count * sizeof *show->results, "answers");
    }
    for (size_t i = 0; i < show->features.count; i++) {
        const struct squad_feature *feature = &show->features.features[i];
        TRY(squad_answer_separately(&show->part, &show->features, show->logits.values, feature,
                                    &show->results[feature->example], error));
    }
    return BERTH_OK;
}

static enum berth_status answer(const struct show_args *args, struct show *show,
                                struct berth_error *error) {
    const struct berth_config *config = &show->config;
    struct infer_args infer = {.source = &show->source,
                               .shape = &show->shape,
                               .phase = "answer",
                               .take = squad_logits_take,
                               .context = &show->logits};
    struct infer_result timing;
    TRY(infer_run(&show->predictor.trainer, &infer, &timing, error));
    if (show->rules.rules == SQUAD_RULES_KERAS) {
        return answer_separately(show, error);
    }
    struct squad_answer_options options = squad_input_answer_options(config);
    return squad_answer_all(&show->part, &show->features, show->predictor.files.tokenizer,
                            show->logits.values, &options, machine_threads(config), &show->results,
                            error);
}

// The candidate that became the prediction; with version 2 it need not be the first.
static const struct squad_candidate *chosen(const struct squad_result *result) {
    for (size_t i = 0; i < result->count; i++) {
        int is_null = result->candidates[i].begin < 0;
        if (is_null == (result->prediction[0] == '\0')) {
            return &result->candidates[i];
        }
    }
    return &result->candidates[0];
}

static struct berth_sample sample_of(const struct show_args *args, const struct show *show,
                                     size_t index) {
    const struct squad_example *example = &show->part.examples[index];
    const struct squad_result *result = &show->results[index];
    const struct squad_candidate *candidate = chosen(result);
    struct berth_sample sample = {
        .index = args->first + (int64_t)index,
        .title = example->title,
        .question = example->question,
        .context = example->context,
        .reference = example->answer_count > 0 ? example->answers[0].text : "",
        .answer = {.text = result->prediction,
                   .probability = candidate->probability,
                   .start_logit = candidate->start_logit,
                   .end_logit = candidate->end_logit,
                   .start = candidate->begin,
                   .end = candidate->end},
    };
    if (example->answer_count > 0) {
        squad_best_match(example, result->prediction, &sample.exact_match, &sample.f1);
    } else {
        sample.exact_match = sample.f1 = squad_exact_match(result->prediction, "");
    }
    return sample;
}

static void visit_samples(const struct show_args *args, const struct show *show) {
    size_t outside = 0, shown = 0;
    for (; shown < show->part.count; shown++) {
        if (show->results[shown].count == 0) {
            outside++;
            continue;
        }
        struct berth_sample sample = sample_of(args, show, shown);
        if (args->visit(args->context, &sample) != 0) {
            break;
        }
    }
    if (outside > 0) {
        log_note(args->log,
                 "%zu of %zu samples are not shown: their best start is not in the context",
                 outside, shown);
    }
}

static enum berth_status run(const struct show_args *args, struct show *show,
                             struct berth_error *error) {
    show->config = *args->config;
    TRY(predictor_open(&show->predictor, &show->config, PARAM_HEAD_SPAN, args->log, error));
    TRY(choose(args, show, error));
    if (args->count <= 0) {
        return BERTH_OK;
    }
    TRY(prepare(args, show, error));
    TRY(answer(args, show, error));
    visit_samples(args, show);
    return BERTH_OK;
}

enum berth_status show_squad(const struct show_args *args, struct berth_error *error) {
    struct show show = {0};
    enum berth_status status = run(args, &show, error);
    if (show.results != NULL) {
        squad_results_free(show.results, show.part.count);
    }
    squad_logits_done(&show.logits);
    memory_free(show.entries);
    squad_feature_set_done(&show.features);
    squad_dataset_done(&show.dataset);
    predictor_done(&show.predictor);
    return status;
}
