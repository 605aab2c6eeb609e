// SPDX-License-Identifier: Apache-2.0
// Shows single questions of a data set with the model's answers.
//
// By Keras's rules it shows what the CSCS demos show: the samples are the entries that training
// would use, and the answer combines the best start and the best end, chosen independently. Called
// by api/jobs.c for `berth show squad`.
#include "core/memory.h"
#include "core/rng.h"
#include "metrics/squad_answers.h"
#include "metrics/squad_match.h"
#include "settings/effects.h"
#include "task/squad_input.h"
#include "train/engine/infer.h"
#include "train/inference/predict.h"
#include "train/machine/machine.h"

#define STREAM_SAMPLES 0x53414D50u // stream of random numbers

// The selected questions of a data set, their features and logits.
struct show {
    struct settings config; // adjusted to the model
    struct predictor predictor;
    struct squad_feature_options rules;
    struct squad_dataset dataset, part; // part borrows from dataset, or from dataset and copies
    struct squad_example *entries;      // by Keras's rules; otherwise NULL
    struct squad_example *sampled;      // drawn at random; otherwise NULL
    int64_t *numbers;                   // indices of the samples in part
    struct squad_feature_set features;
    struct packer_source source;
    struct batch_extent extent;
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

// Replaces part by the entries that have features.
static enum berth_status list_entries(const struct show_args *args, struct show *show,
                                      struct berth_error *error) {
    struct squad_feature_options rules = show->rules;
    struct squad_feature_set set;
    rules.training = all_have_answers(&show->dataset);
    TRY(squad_features_build(&show->dataset, show->predictor.files.tokenizer, &rules, args->log,
                             &set, error));
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

// Selection sampling (Knuth's algorithm S): takes each question with probability (still wanted) /
// (still left), so every subset is equally likely, and the samples are in ascending order.
static void sample(const struct show *show, size_t all, size_t wanted) {
    uint64_t draws = 0, seed = (uint64_t)show->config.run.seed;
    size_t taken = 0;
    for (size_t i = 0; taken < wanted; i++) {
        if (rng_below(seed, STREAM_SAMPLES, &draws, (uint32_t)(all - i)) < wanted - taken) {
            show->sampled[taken] = show->part.examples[i];
            show->numbers[taken++] = (int64_t)i;
        }
    }
}

static enum berth_status sample_at_random(struct show *show, size_t wanted,
                                          struct berth_error *error) {
    show->sampled = memory_array(wanted + 1, sizeof *show->sampled);
    if (show->sampled == NULL) {
        return error_no_memory(error, wanted * sizeof *show->sampled, "the samples");
    }
    sample(show, show->part.count, wanted);
    show->part.examples = show->sampled;
    return BERTH_OK;
}

static enum berth_status select_samples(const struct show_args *args, struct show *show,
                                        struct berth_error *error) {
    const struct berth_selection *samples = &args->samples;
    int64_t all = (int64_t)show->part.count, first = samples->random ? 0 : samples->first;
    if (all == 0) { // a file has questions, but Keras's rules leave some out
        return error_set(error, BERTH_BAD_DATA,
                         "%s: all its questions are left out by Keras's rules; a larger "
                         "max_seq_length than %lld may keep some",
                         show->config.task.predict_file,
                         (long long)show->config.features.max_seq_length);
    }
    if (first < 0 || first >= all) {
        return error_set(error, BERTH_USAGE, "sample %lld does not exist: %s has samples 0 to %lld",
                         (long long)first, show->config.task.predict_file, (long long)all - 1);
    }
    int64_t wanted = samples->count < all - first ? samples->count : all - first;
    wanted = wanted > 0 ? wanted : 0;
    show->numbers = memory_array((size_t)wanted + 1, sizeof *show->numbers);
    if (show->numbers == NULL) {
        return error_no_memory(error, (size_t)wanted * sizeof *show->numbers, "the samples");
    }
    if (samples->random) {
        TRY(sample_at_random(show, (size_t)wanted, error));
    } else {
        show->part.examples += first;
        for (int64_t i = 0; i < wanted; i++) {
            show->numbers[i] = first + i;
        }
    }
    show->part.count = (size_t)wanted;
    return BERTH_OK;
}

static enum berth_status choose(const struct show_args *args, struct show *show,
                                struct berth_error *error) {
    const struct settings *config = &show->config;
    if (config->task.predict_file == NULL) {
        return error_set(error, BERTH_USAGE, "predict_file is missing");
    }
    TRY(squad_input_feature_options(config, &show->rules, error));
    settings_note_effects(&show->config, &show->config, JOB_SHOW, 1, args->log);
    show->rules.threads = machine_threads(&config->machine);
    TRY(machine_start_threads(show->rules.threads, error));
    TRY(squad_read(config->task.predict_file, 0, &show->dataset, error));
    if (config->features.strict_answers) {
        TRY(squad_refuse_misplaced(&show->dataset, error));
    }
    show->part = show->dataset;
    show->part.storage = NULL;
    if (show->rules.rules == SQUAD_RULES_KERAS) {
        TRY(list_entries(args, show, error));
    }
    return select_samples(args, show, error);
}

static enum berth_status answer(const struct show_args *args, struct show *show,
                                struct berth_error *error) {
    const struct settings *config = &show->config;
    struct infer_args infer = {.source = &show->source,
                               .extent = &show->extent,
                               .phase = "answer",
                               .receive = squad_logits_receive,
                               .context = &show->logits};
    struct infer_result timing;
    TRY(infer_run(&show->predictor.engine, &infer, &timing, error));
    const struct squad_answer_options options = squad_input_answer_options(config);
    const struct squad_outcome outcome = {.dataset = &show->part,
                                          .set = &show->features,
                                          .logits = show->logits.values,
                                          .tokenizer = show->predictor.files.tokenizer,
                                          .options = &options};
    if (show->rules.rules == SQUAD_RULES_KERAS) {
        show->results = memory_array_zeroed(show->part.count + 1, sizeof *show->results);
        if (show->results == NULL) {
            return error_no_memory(error, show->part.count * sizeof *show->results, "answers");
        }
        for (size_t i = 0; i < show->features.count; i++) {
            const struct squad_feature *feature = &show->features.features[i];
            TRY(squad_answer_separately(&outcome, feature, &show->results[feature->example],
                                        error));
        }
        return BERTH_OK;
    }
    return squad_answer_all(&outcome, machine_threads(&config->machine), &show->results, error);
}

static enum berth_status make_sample(const struct show *show, size_t index,
                                     struct berth_sample *sample, struct berth_error *error) {
    const struct squad_example *example = &show->part.examples[index];
    const struct squad_result *result = &show->results[index];
    const struct squad_candidate *candidate = &result->candidates[squad_result_chosen(result)];
    struct squad_match match;
    *sample = (struct berth_sample){
        .index = show->numbers[index],
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
    int version_2 = show->dataset.version_2 || example->answer_count == 0;
    TRY(squad_match_example(example, result->prediction, version_2, &match, error));
    sample->exact_match = match.exact;
    sample->f1 = match.f1;
    return BERTH_OK;
}

static enum berth_status visit_samples(const struct show_args *args, const struct show *show,
                                       struct berth_error *error) {
    size_t outside = 0, shown = 0;
    for (; shown < show->part.count; shown++) {
        if (show->results[shown].count == 0) {
            outside++;
            continue;
        }
        struct berth_sample sample;
        TRY(make_sample(show, shown, &sample, error));
        if (args->visit(args->context, &sample) != 0) {
            break;
        }
    }
    if (outside > 0) {
        log_note(args->log,
                 "%zu of %zu samples are not shown: their best start is not in the context",
                 outside, shown);
    }
    return BERTH_OK;
}

static enum berth_status show_samples(const struct show_args *args, struct show *show,
                                      struct berth_error *error) {
    show->config = *args->config;
    const struct predictor_kind kind = {.head = PARAM_HEAD_SPAN,
                                        .follow = squad_input_follow_model};
    TRY(predictor_open(&show->predictor, &show->config, &kind, comm_self(), args->log, error));
    TRY(choose(args, show, error));
    if (show->part.count == 0) {
        return BERTH_OK;
    }
    const struct settings *config = &show->config;
    TRY(squad_features_build(&show->part, show->predictor.files.tokenizer, &show->rules, args->log,
                             &show->features, error));
    show->source = squad_input_source(&show->features);
    TRY(infer_find_worst(&show->source, config->task.predict_batch_size,
                         config->features.max_seq_length, &show->extent, error));
    TRY(squad_logits_init(&show->logits, &show->features, error));
    TRY(predictor_load(&show->predictor, config, &show->extent, args->log, error));
    TRY(answer(args, show, error));
    return visit_samples(args, show, error);
}

enum berth_status show_squad(const struct show_args *args, struct berth_error *error) {
    struct show show = {0};
    enum berth_status status = show_samples(args, &show, error);
    if (show.results != NULL) {
        squad_results_free(show.results, show.part.count);
    }
    squad_logits_done(&show.logits);
    memory_free(show.entries);
    memory_free(show.sampled);
    memory_free(show.numbers);
    squad_feature_set_done(&show.features);
    squad_dataset_done(&show.dataset);
    predictor_done(&show.predictor);
    return status;
}
