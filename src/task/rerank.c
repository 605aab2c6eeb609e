// SPDX-License-Identifier: Apache-2.0
// The task rerank: one score for a pair of texts, by a classifier of pairs (classify.h).
//
// It is trained as a cross-encoder of sentence-transformers is: on pairs with a label from 0 to 1,
// how well their texts fit, by the binary cross entropy of one output. In config.json that output
// is a label of multi_label_classification, so that transformers computes the same loss and the
// same score, a sigmoid.
#include "core/memory.h"
#include "core/portable_math.h"
#include "core/text_util.h"
#include "metrics/binary_metrics.h"
#include "metrics/glue_metrics.h"
#include "settings/settings.h"
#include "task/classify.h"
#include "task/network.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static size_t width(const struct task_model *model) {
    (void)model;
    return 1;
}

// The class of a name, or without one the only class.
static enum berth_status find_class(const struct task_model *model, const char *name, size_t *class,
                                    struct berth_error *error) {
    const size_t count = classify_width(model);
    char names[256] = "";
    for (*class = 0; *class < count; ++*class) {
        const char *own = classify_label(model, *class);
        if (name != NULL ? strcmp(own, name) == 0 : count == 1) {
            return BERTH_OK;
        }
        words_add(names, sizeof names, own);
    }
    return name != NULL
               ? error_set(error, BERTH_USAGE,
                           "label: expected one of the classes of %s (%s), "
                           "found \"%s\"",
                           model->path, names, name)
               : error_set(error, BERTH_USAGE,
                           "%s has %zu classes (%s); name the one whose score ranks the documents "
                           "with label",
                           model->path, count, names);
}

// The texts of a call have the same settings. One score is a sigmoid whatever the folder calls it,
// as in sentence-transformers and the server.
static enum berth_status run_rerank(const struct task_model *model, struct task_text *const *texts,
                                    size_t count, struct berth_error *error) {
    size_t class = 0;
    TRY(find_class(model, texts[0]->settings.label, &class, error));
    for (size_t i = 0; i < count; i++) {
        enum berth_score *score = &texts[i]->settings.score;
        *score = *score == BERTH_SCORE_USUAL && classify_width(model) == 1 ? BERTH_SCORE_SIGMOID
                                                                           : *score;
    }
    TRY(classify_compute(model, texts, count, error));
    for (size_t i = 0; i < count; i++) {
        if (texts[i]->status == BERTH_OK) {
            texts[i]->rows[0] = texts[i]->rows[class];
            texts[i]->width = 1;
        }
    }
    return BERTH_OK;
}

// === training and evaluation =====================================================================

static enum berth_status resolve_settings(struct settings *config, enum task_use use,
                                          struct berth_error *error) {
    settings_apply_default(config, "num_train_epochs", JOB_FINETUNE_RERANK);
    if (use == TASK_PREDICT) {
        return error_set(error, BERTH_USAGE,
                         "the task rerank predicts no files: `berth rerank` scores documents");
    }
    if (config->features.text_column != NULL) {
        TRY(task_need(config->features.text_pair_column, "text_pair_column",
                      ", the column of second texts", error));
        TRY(task_need(config->features.label_column, "label_column", "", error));
    }
    if (config->features.text_pair_column != NULL) {
        TRY(task_need(config->features.text_column, "text_column", ", the column of first texts",
                      error));
    }
    return task_need(task_file_to_score(config, use),
                     use == TASK_TRAIN ? "train_file" : "predict_file", "", error);
}

static enum berth_status has_validation(const struct settings *config, int *answer,
                                        struct berth_error *error) {
    return task_has_validation(config, "a table of pairs", answer, error);
}

static enum berth_status open_set(struct task_set *set, const struct task_open *args,
                                  struct berth_error *error) {
    struct classify *own = set->own;
    own->is_ranking = 1;
    if (args->use != TASK_TRAIN && args->files->shape.num_labels != 1) {
        return error_set(error, BERTH_CONFIG,
                         "%s: expected one output, found %" PRId64
                         "; `berth predict classify` scores a model of classes",
                         args->config->model.model_name_or_path, args->files->shape.num_labels);
    }
    TRY(classify_open_set(set, args, error));
    return own->parts[0].dataset.text_pair_column != NULL
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA,
                           "%s: expected pairs of texts, found one column of texts, \"%s\"; name "
                           "both with text_column and text_pair_column",
                           set->path, own->parts[0].dataset.text_column);
}

static double sigmoid(double logit) {
    return 1 / (1 + math_exp(-logit));
}

// log(1 + e^x)
static double soft_plus(double x) {
    return math_log1p(math_exp(-fabs(x))) + (x > 0 ? x : 0);
}

static double mean_loss(const struct classify *own) {
    const struct pair_feature_set *features = &own->parts[0].features;
    double sum = 0;
    for (size_t i = 0; i < features->count; i++) {
        const double logit = (double)own->logits[i], label = (double)features->features[i].value;
        sum += own->positive_weight * label * soft_plus(-logit) + (1 - label) * soft_plus(logit);
    }
    return sum / (double)features->count;
}

static int are_binary(const struct pair_feature_set *features) {
    size_t i = 0;
    while (i < features->count &&
           (features->features[i].value == 0 || features->features[i].value == 1)) {
        i++;
    }
    return i == features->count;
}

static enum berth_status score_binary(const struct classify *own, struct task_score *score,
                                      struct berth_error *error) {
    const struct pair_feature_set *features = &own->parts[0].features;
    OWNED struct binary_example *examples = memory_array(features->count, sizeof *examples);
    if (examples == NULL) {
        return error_no_memory(error, features->count * sizeof *examples, "the scores");
    }
    for (size_t i = 0; i < features->count; i++) {
        examples[i] = (struct binary_example){.score = (float)sigmoid((double)own->logits[i]),
                                              .label = (int)features->features[i].value};
    }
    const struct binary_scores found = binary_score(examples, features->count);
    task_score_add(score, "accuracy", found.accuracy);
    task_score_add(score, "accuracy_threshold", found.accuracy_threshold);
    task_score_add(score, "f1", found.f1);
    task_score_add(score, "f1_threshold", found.f1_threshold);
    task_score_add(score, "precision", found.precision);
    task_score_add(score, "recall", found.recall);
    task_score_add(score, "average_precision", found.average_precision);
    return BERTH_OK;
}

static enum berth_status score_degrees(const struct classify *own, struct task_score *score,
                                       struct berth_error *error) {
    const struct pair_feature_set *features = &own->parts[0].features;
    const size_t count = features->count;
    OWNED double *scores = memory_array(count, sizeof *scores);
    OWNED double *labels = memory_array(count, sizeof *labels);
    double spearman;
    if (scores == NULL || labels == NULL) {
        return error_no_memory(error, count * sizeof *scores, "the scores");
    }
    for (size_t i = 0; i < count; i++) {
        scores[i] = sigmoid((double)own->logits[i]);
        labels[i] = (double)features->features[i].value;
    }
    TRY(glue_spearman(scores, labels, count, &spearman, error));
    task_score_add(score, "pearson", glue_pearson(scores, labels, count));
    task_score_add(score, "spearman", spearman);
    return BERTH_OK;
}

static enum berth_status score_set(const struct task_set *set, struct task_score *score,
                                   struct berth_error *error) {
    const struct classify *own = set->own;
    *score = (struct task_score){.loss = mean_loss(own)};
    TRY(are_binary(&own->parts[0].features) ? score_binary(own, score, error)
                                            : score_degrees(own, score, error));
    score->best_by = score->count - 1;
    return BERTH_OK;
}

static size_t result_bytes(const struct task_set *set) {
    const size_t count = set->source.count;
    const size_t binary = count * sizeof(struct binary_example);
    const size_t degrees = count * 2 * sizeof(double) + glue_spearman_bytes(count);
    return count * sizeof(float) + (binary > degrees ? binary : degrees);
}

static enum berth_status write_results(const struct task_set *set,
                                       const struct task_results *results,
                                       struct berth_error *error) {
    (void)set;
    return task_write_evaluation(results, error);
}

static const struct task_form form = {
    .ending = "jsonl",
    .columns = "text_column=text text_pair_column=text_pair label_column=label",
    .write = task_write_example};

static const struct task_command commands[] = {
    {.verb = "finetune",
     .name = "rerank",
     .use = TASK_TRAIN,
     .jobs = JOB_FINETUNE_RERANK,
     .summary = "train a cross-encoder on pairs that fit or do not",
     .example = "berth finetune rerank --model minilm --train pairs.jsonl --dev held-out.jsonl \\\n"
                "    --positive_weight 4 --output cross-encoder\n"
                "berth rerank --model cross-encoder --query \"Where is Bern?\" texts.txt",
     .notes = "Files are TSV, CSV or JSON lines, distinguished by their names. Without "
              "--text_column the label, from 0 to 1, is the column score, scores, label or labels, "
              "and the first two other columns (but id and idx) are the texts. The result is also "
              "a folder of sentence-transformers' CrossEncoder. Signals and "
              "--resume_from_checkpoint work as in `berth finetune squad`."},
    {.verb = "evaluate",
     .name = "rerank",
     .use = TASK_VALIDATE,
     .jobs = JOB_EVALUATE_RERANK,
     .summary = "score a cross-encoder on pairs that fit or do not",
     .example = "berth evaluate rerank --model cross-encoder --input held-out.jsonl "
                "--output scores",
     .notes = "If every label is 0 or 1, the scores are average precision, accuracy and F1 at the "
              "thresholds that are the best for them, these thresholds, precision and recall. "
              "Otherwise they are the correlations of scores and labels. They are also in "
              "eval_results.txt and eval_results.json."},
    {.verb = NULL}};

static const struct training_task training = {.name = "rerank",
                                              .commands = commands,
                                              .form = &form,
                                              .title = "finetune rerank",
                                              .jobs = JOB_FINETUNE_RERANK,
                                              .defaults = JOB_FINETUNE_RERANK,
                                              .head = PARAM_HEAD_CLASS,
                                              .has_loss = 1,
                                              .validation_advice =
                                                  "name a table with validation_file",
                                              .settle = resolve_settings,
                                              .has_validation = has_validation,
                                              .own_size = sizeof(struct classify),
                                              .open = open_set,
                                              .done = classify_close_set,
                                              .receive = classify_receive,
                                              .result_bytes = result_bytes,
                                              .score = score_set,
                                              .write = write_results};

// === the row =====================================================================================

const struct task_row row_rerank = {
    .training = &training,
    .about = {.name = "rerank",
              .pipeline = "text-ranking",
              .text = "query",
              .pair = "document",
              .label = "score",
              .needs_pair = 1,
              .has_rows = 1,
              .trains = 1,
              .help = "documents by their score for a query, by a cross-encoder"},
    .tasks = {"classify rerank " TASKS_OF_ENCODER},
    .job = JOB_PREDICT_CLASSIFY,
    .own_size = sizeof(struct class_names),
    .open = classify_open,
    .done = classify_close,
    .label = classify_label,
    .width = width,
    .settings = "score label overflow",
    .run = run_rerank,
    .write = task_write_numbers,
    .outputs = {{"score", TASK_NUMBERS}},
    .verb = {.jobs = JOB_CLASSIFY,
             .reader = TASK_READ_BY_BOTH,
             .sample = {"cross-encoder", "Where is Bern?", "Bern is in Switzerland."},
             .is_ranking = 1,
             .notes =
                 "Each line of FILE, or of standard input, is a document. Output is "
                 "{\"index\": N, \"score\": S, \"text\": \"...\"} per document, the best first; "
                 "on a terminal lines for people. N is the document's line, from 0. With "
                 "--jsonl the documents of each query are ranked for themselves, in the order "
                 "of the queries. The score of a model with one output is a sigmoid (auto), "
                 "as in the server's /rerank, or with --score none the output itself."}};
