// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate.h"

#include "core/memory.h"
#include "train/machine.h"

enum berth_status evaluation_open(struct evaluation *evaluation, const char *path, int64_t limit,
                                  const struct berth_config *config,
                                  const struct tokenizer *tokenizer, const struct berth_log *log,
                                  struct berth_error *error) {
    *evaluation = (struct evaluation){.path = path, .threads = machine_threads(config)};
    TRY(squad_input_open(&evaluation->input, path, limit, 0, config, tokenizer, log, error));
    evaluation->source = squad_input_source(&evaluation->input.features);
    evaluation->options = inputs_answer_options(config);
    enum berth_status status;
    TRY_DONE(squad_check_ids(&evaluation->input.dataset, path, error));
    TRY_DONE(infer_find_worst(&evaluation->source, config, &evaluation->shape, error));
    size_t tokens = evaluation->input.features.token_count;
    evaluation->logits = memory_array(2 * tokens, sizeof *evaluation->logits);
    if (evaluation->logits == NULL) {
        status = error_no_memory(error, 2 * tokens * sizeof *evaluation->logits, "the logits");
        goto done;
    }
    return BERTH_OK;
done:
    evaluation_done(evaluation);
    return status;
}

static void drop_results(struct evaluation *evaluation) {
    if (evaluation->results != NULL) {
        squad_results_free(evaluation->results, evaluation->input.dataset.count);
        evaluation->results = NULL;
    }
}

void evaluation_done(struct evaluation *evaluation) {
    drop_results(evaluation);
    memory_free(evaluation->logits);
    squad_input_done(&evaluation->input);
    *evaluation = (struct evaluation){0};
}

enum berth_status evaluation_predict(struct evaluation *evaluation, struct trainer *trainer,
                                     const struct tokenizer *tokenizer, const struct berth_log *log,
                                     const volatile int *stop, struct infer_result *timing,
                                     struct berth_error *error) {
    drop_results(evaluation);
    struct infer_args args = {.source = &evaluation->source,
                              .first_row = squad_input_first_row,
                              .shape = &evaluation->shape,
                              .log = log,
                              .phase = "predict",
                              .stop = stop,
                              .logits = evaluation->logits};
    TRY(infer_run(trainer, &args, timing, error));
    if (timing->stopped) {
        return BERTH_OK;
    }
    return squad_answer_all(&evaluation->input.dataset, &evaluation->input.features, tokenizer,
                            evaluation->logits, &evaluation->options, evaluation->threads,
                            &evaluation->results, error);
}

int evaluation_has_references(const struct evaluation *evaluation) {
    const struct squad_dataset *dataset = &evaluation->input.dataset;
    for (size_t i = 0; i < dataset->count; i++) {
        if (dataset->examples[i].answer_count > 0 || dataset->examples[i].impossible) {
            return 1;
        }
    }
    return 0;
}

enum berth_status evaluation_score(const struct evaluation *evaluation, double *exact_match,
                                   double *f1, struct berth_error *error) {
    const struct squad_dataset *dataset = &evaluation->input.dataset;
    const char **predictions = memory_array(dataset->count, sizeof *predictions);
    if (predictions == NULL) {
        return error_no_memory(error, dataset->count * sizeof *predictions, "the predictions");
    }
    for (size_t i = 0; i < dataset->count; i++) {
        predictions[i] = evaluation->results[i].prediction;
    }
    struct squad_score score = dataset->version_2 ? squad_score_v2(dataset, predictions)
                                                  : squad_score_v1(dataset, predictions);
    *exact_match = score.exact_match;
    *f1 = score.f1;
    memory_free(predictions);
    return BERTH_OK;
}

enum berth_status evaluation_write(const struct evaluation *evaluation, const char *folder,
                                   struct berth_error *error) {
    return squad_answers_write(folder, &evaluation->input.dataset, evaluation->results,
                               &evaluation->options, error);
}
