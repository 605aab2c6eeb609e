// SPDX-License-Identifier: Apache-2.0
// The task answer, extractive question answering: a context is read in overlapping windows with its
// question before each, the network says for every token how well it begins or ends an answer, and
// metrics/squad_answers.h cuts the best ones from the text.
//
// Its sets, for training and evaluation, are files of SQuAD, both versions (squad_input.h), scored
// by the official rules (metrics/squad_metrics.h).
#include "core/memory.h"
#include "core/utf8.h"
#include "metrics/squad_answers.h"
#include "metrics/squad_metrics.h"
#include "settings/settings.h"
#include "task/details.h"
#include "task/network.h"
#include "task/squad_input.h"
#include "train/machine/machine.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct answerer {
    struct squad_feature_options features;
    struct squad_answer_options answers;
};

static const struct answerer *answerer_of(const struct task_model *model) {
    return model->own;
}

static enum berth_status open_row(struct task_model *model, const struct task_opening *opening,
                                  struct berth_error *error) {
    struct answerer *own = model->own;
    const struct settings *config = &model->config;

    TRY(network_open(
        model,
        &(struct predictor_kind){.head = PARAM_HEAD_SPAN, .follow = squad_input_follow_model}, 2,
        opening, error));
    TRY(squad_input_feature_options(config, &own->features, error));
    own->answers = squad_input_answer_options(config);
    own->answers.all_spans = 1;
    own->answers.whole_words = config->task.align_to_words != 0;
    own->answers.by_span =
        config->task.answer_score == NULL || strcmp(config->task.answer_score, "softmax") != 0;
    return network_load(model, opening, error);
}

// --- windows ------------------------------------------------------------------------------------

// A question on its way through the network.
struct asked {
    struct task_text *text;
    struct squad_example example;
    struct squad_dataset dataset;
    struct squad_feature_set features;
    struct squad_logits logits;
};

struct window {
    size_t question, feature;
};

// Questions and their windows.
struct call {
    const struct task_model *model;
    struct asked *asked; // [count]
    size_t count;
    struct window *windows; // [window_count] of those questions that have not failed
    size_t window_count;
};

static enum berth_status make_features(const struct task_model *model, struct asked *asked,
                                       struct berth_error *error) {
    const char *question = asked->text->texts[0], *context = asked->text->texts[1];
    asked->example = (struct squad_example){.id = question, // for messages
                                            .title = "",
                                            .question = question,
                                            .context = context,
                                            .context_length = strlen(context)};
    asked->dataset = (struct squad_dataset){.examples = &asked->example, .count = 1};
    TRY(squad_features_build(&asked->dataset, model->tokenizer, &answerer_of(model)->features, NULL,
                             &asked->features, error));
    asked->text->tokens_read = (int64_t)asked->features.token_count;
    const struct squad_feature_set *features = &asked->features;
    if (features->count == 0) {
        return error_set(error, BERTH_BAD_DATA,
                         answerer_of(model)->features.rules == SQUAD_RULES_KERAS
                             ? "the context has no words to answer from, or question and context "
                               "exceed max_seq_length, and features keras do not split a context"
                             : "the context has no words to answer from");
    }
    if (features->features[0].length == features->features[0].document_length + 3) {
        return error_set(error, BERTH_USAGE, "the question has no words");
    }
    return squad_logits_init(&asked->logits, &asked->features, error);
}

static void make_all_features(struct call *call, int threads) {
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (size_t i = 0; i < call->count; i++) {
        struct berth_error error;
        if (make_features(call->model, &call->asked[i], &error) != BERTH_OK) {
            task_text_fail(call->asked[i].text, error.status, error.message);
        }
    }
}

static struct packer_sequence get_window(const void *data, size_t index) {
    const struct call *call = data;
    const struct window window = call->windows[index];
    const struct packer_source source = squad_input_source(&call->asked[window.question].features);
    return source.get(source.data, window.feature);
}

static void receive_window(void *context, size_t index, const float *logits, int64_t count) {
    const struct call *call = context;
    const struct window window = call->windows[index];
    squad_logits_receive(&call->asked[window.question].logits, window.feature, logits, count);
}

// --- answers ------------------------------------------------------------------------------------

static size_t top_of(const struct task_text *text) {
    const int64_t asked = text->settings.top;
    return asked > 0 ? (size_t)asked : 1;
}

// Where a character of the context is, in the unit of the settings. An answer that is nowhere has
// -1.
static int64_t offset_of(const struct task_text *text, int64_t character) {
    struct text_position position = {0};
    if (character < 0) {
        return -1;
    }
    text_position_advance(&position, text->texts[1], character);
    return text_position_in(&position, text->settings.unit);
}

// The logits of an item's start and end, which it refers to beside the text.
static const void *own_logits(struct task_text *text, const struct squad_candidate *candidate) {
    const float logits[2] = {candidate->start_logit, candidate->end_logit};
    char *own = memory_new(sizeof logits);
    if (own != NULL) {
        memcpy(own, logits, sizeof logits);
    }
    return task_text_own(text, own);
}

// The chosen candidate first, then those before it, then those after it.
static void make_items(struct task_text *text, const struct squad_result *result) {
    const size_t wanted = result->count < top_of(text) ? result->count : top_of(text);
    const size_t chosen = squad_result_chosen(result);
    struct berth_item *items = task_text_items(text, wanted);
    for (size_t i = 0; items != NULL && i < wanted; i++) {
        const struct squad_candidate *from = &result->candidates[i == 0        ? chosen
                                                                 : i <= chosen ? i - 1
                                                                               : i];
        items[i].text = task_text_own(text, memory_string(from->text));
        items[i].score = from->probability;
        items[i].start = offset_of(text, from->begin);
        items[i].end = offset_of(text, from->end);
        items[i].reserved[0] = own_logits(text, from);
    }
}

static void answer(const struct task_model *model, const struct asked *asked) {
    const struct call_settings *settings = &asked->text->settings;
    struct squad_answer_options options = answerer_of(model)->answers;
    const size_t top = top_of(asked->text),
                 wanted = top < SQUAD_N_BEST_MAX ? top : SQUAD_N_BEST_MAX;
    if ((size_t)options.n_best_size < wanted) {
        options.n_best_size = (int64_t)wanted;
    }
    if (settings->answer_length > 0) {
        options.max_answer_length = settings->answer_length;
    }
    if (settings->whole_words >= 0) {
        options.whole_words = settings->whole_words;
    }
    if (settings->with_no_answer >= 0) {
        options.version_2_with_negative = settings->with_no_answer;
    }
    const struct squad_outcome outcome = {.dataset = &asked->dataset,
                                          .set = &asked->features,
                                          .logits = asked->logits.values,
                                          .tokenizer = model->tokenizer,
                                          .options = &options};
    struct squad_result result = {.count = 0};
    struct berth_error error;
    if (squad_answer_question(&outcome, 0, asked->features.count, &result, &error) == BERTH_OK) {
        make_items(asked->text, &result);
    } else {
        task_text_fail(asked->text, error.status, error.message);
    }
    squad_result_done(&result);
}

static void answer_all(const struct call *call, int threads) {
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (size_t i = 0; i < call->count; i++) {
        if (call->asked[i].text->status == BERTH_OK) {
            answer(call->model, &call->asked[i]);
        }
    }
}

// --- the row ------------------------------------------------------------------------------------

static enum berth_status answer_windows(struct call *call, struct berth_error *error) {
    const int threads = network_threads(call->model, call->count);
    make_all_features(call, threads);
    size_t count = 0;
    for (size_t i = 0; i < call->count; i++) {
        count += call->asked[i].features.count;
    }
    call->windows = memory_array(count, sizeof *call->windows);
    if (call->windows == NULL) {
        return error_no_memory(error, count * sizeof *call->windows, "the windows");
    }
    for (size_t i = 0; i < call->count; i++) {
        const struct asked *asked = &call->asked[i];
        const size_t own = asked->text->status == BERTH_OK ? asked->features.count : 0;
        for (size_t feature = 0; feature < own; feature++) {
            call->windows[call->window_count++] = (struct window){i, feature};
        }
    }
    const struct packer_source source = {
        .get = get_window, .data = call, .count = call->window_count};
    const struct infer_args args = {.source = &source, .receive = receive_window, .context = call};
    TRY(network_run(call->model, args, error));
    answer_all(call, threads);
    return BERTH_OK;
}

static enum berth_status run_row(const struct task_model *model, struct task_text *const *texts,
                                 size_t count, struct berth_error *error) {
    struct call call = {.model = model, .asked = memory_array_zeroed(count, sizeof *call.asked)};
    if (call.asked == NULL) {
        return error_no_memory(error, count * sizeof *call.asked, "the questions");
    }
    for (; call.count < count; call.count++) {
        call.asked[call.count].text = texts[call.count];
    }
    const enum berth_status status = answer_windows(&call, error);
    for (size_t i = 0; i < count; i++) {
        squad_logits_done(&call.asked[i].logits);
        squad_feature_set_done(&call.asked[i].features);
    }
    memory_free(call.windows);
    memory_free(call.asked);
    return status;
}

// A bare object unless several were asked for, as transformers' pipeline.
static void write_row(struct json_line *line, const struct task_model *model,
                      const struct task_text *text) {
    const int is_list = text->settings.top > 1 || text->item_count != 1;
    (void)model;
    if (is_list) {
        json_line_open(line, NULL, '[');
    }
    for (size_t i = 0; i < text->item_count; i++) {
        // Hugging Face says 0, 0 for "no answer".
        const struct berth_item *item = &text->items[i];
        json_line_open(line, NULL, '{');
        json_line_real(line, "score", item->score);
        json_line_integer(line, "start", item->start < 0 ? 0 : item->start);
        json_line_integer(line, "end", item->end < 0 ? 0 : item->end);
        json_line_text(line, "answer", item->text);
        json_line_close(line, '}');
    }
    if (is_list) {
        json_line_close(line, ']');
    }
}

// === training, evaluation and prediction of files ==============================================

struct squad {
    struct squad_input input;
    struct squad_answer_options options;
    int threads;
    struct squad_logits logits;
    struct squad_result *results; // of the last prediction; NULL before the first
};

// --- settings -----------------------------------------------------------------------------------

static enum berth_status resolve_settings(struct settings *config, enum task_use use,
                                          struct berth_error *error) {
    return task_need_file(config, use, "", error);
}

static enum berth_status has_validation(const struct settings *config, int *answer,
                                        struct berth_error *error) {
    return task_has_validation(config, "a SQuAD file", answer, error);
}

// --- sets ---------------------------------------------------------------------------------------

// Without version_2_with_negative, questions without an answer are all given one.
static void warn_of_version(const struct squad *squad, const char *path,
                            const struct berth_log *log) {
    const struct squad_dataset *dataset = &squad->input.dataset;
    size_t impossible = 0;
    for (size_t i = 0; i < dataset->count; i++) {
        impossible += dataset->examples[i].impossible != 0;
    }
    if (impossible > 0 && !squad->options.version_2_with_negative) {
        log_warning(log,
                    "%s: %zu of %zu questions have no answer, but every one will be given one; "
                    "version_2_with_negative lets the model give none",
                    path, impossible, dataset->count);
    }
}

// Google's programs do not count the training questions that they leave out.
static int64_t count_examples(const struct squad_input *input, int training) {
    const struct squad_feature_set *set = &input->features;
    return training && set->rules == SQUAD_RULES_GOOGLE
               ? (int64_t)(input->dataset.count - set->skipped_examples)
               : (int64_t)input->dataset.count;
}

static enum berth_status open_set(struct task_set *set, const struct task_open *args,
                                  struct berth_error *error) {
    struct squad *squad = set->own;
    const struct settings *config = args->config;
    int training = args->use == TASK_TRAIN;
    // transformers gives the span head an output for each class; the model's were of another head.
    if (training && args->files->shape.num_labels != 2) {
        TRY(bert_config_drop_classes(&args->files->shape, error));
    }
    set->path = task_file(config, args->use);
    struct squad_input_args input = {.path = set->path,
                                     .limit = training ? config->features.max_train_samples
                                                       : config->features.max_eval_samples,
                                     .training = training,
                                     .config = config,
                                     .tokenizer = args->files->tokenizer,
                                     .log = args->log};
    TRY(squad_input_open(&squad->input, &input, error));
    set->source = squad_input_source(&squad->input.features);
    set->examples = count_examples(&squad->input, training);
    set->tokens = (int64_t)squad->input.features.token_count;
    if (training) {
        return squad_input_mark_model(args->files, config, error);
    }
    squad->options = squad_input_answer_options(config);
    squad->threads = machine_threads(&config->machine);
    TRY(squad_check_ids(&squad->input.dataset, set->path, error));
    // The option asks for the rules of v2.0, as the file's version does.
    squad->input.dataset.version_2 |= squad->options.version_2_with_negative;
    set->unscored = !squad_has_references(&squad->input.dataset);
    warn_of_version(squad, set->path, args->log);
    if (set->unscored && args->use == TASK_VALIDATE) {
        log_warning(args->log,
                    "%s: no question has an answer: the questions are answered, but nothing is "
                    "scored",
                    set->path);
    }
    return squad_logits_init(&squad->logits, &squad->input.features, error);
}

static void drop_results(struct squad *squad) {
    if (squad->results != NULL) {
        squad_results_free(squad->results, squad->input.dataset.count);
        squad->results = NULL;
    }
}

static void done(void *own) {
    struct squad *squad = own;
    drop_results(squad);
    squad_logits_done(&squad->logits);
    squad_input_done(&squad->input);
}

// --- predictions --------------------------------------------------------------------------------

static void receive(void *set, size_t index, const float *logits, int64_t count) {
    struct squad *squad = ((struct task_set *)set)->own;
    squad_logits_receive(&squad->logits, index, logits, count);
}

static struct squad_outcome outcome_of(const struct squad *squad) {
    return (struct squad_outcome){.dataset = &squad->input.dataset,
                                  .set = &squad->input.features,
                                  .logits = squad->logits.values,
                                  .options = &squad->options};
}

// Details need no more than scores do.
static size_t result_bytes(const struct task_set *set) {
    const struct squad *squad = set->own;
    const struct squad_outcome outcome = outcome_of(squad);
    const size_t questions = squad->input.dataset.count;
    return squad_logits_bytes(&squad->input.features) +
           squad_answers_bytes(&outcome, squad->threads) +
           questions * (sizeof(const char *) + sizeof(double)) + squad_score_v2_bytes(questions);
}

static enum berth_status conclude(struct task_set *set, const struct model_files *files,
                                  struct berth_error *error) {
    struct squad *squad = set->own;
    drop_results(squad);
    struct squad_outcome outcome = outcome_of(squad);
    outcome.tokenizer = files->tokenizer;
    return squad_answer_all(&outcome, squad->threads, &squad->results, error);
}

static void add_part(struct task_score *score, const char *exact, const char *f1,
                     const struct squad_subset_score *part) {
    if (part->total > 0) {
        task_score_add(score, exact, part->exact);
        task_score_add(score, f1, part->f1);
    }
}

// Scores under the names of the official script.
static enum berth_status score_v2(const struct squad *squad, const char *const *predictions,
                                  struct task_score *score, struct berth_error *error) {
    const struct squad_dataset *dataset = &squad->input.dataset;
    double *odds = NULL;
    if (squad->options.version_2_with_negative) {
        odds = memory_array(dataset->count, sizeof *odds);
        if (odds == NULL) {
            return error_no_memory(error, dataset->count * sizeof *odds, "the null odds");
        }
        for (size_t i = 0; i < dataset->count; i++) {
            odds[i] = squad->results[i].null_odds;
        }
    }
    struct squad_score_v2 found;
    enum berth_status status = squad_score_v2(dataset, predictions, odds, &found, error);
    memory_free(odds);
    TRY(status);
    add_part(score, "exact", "f1", &found.all);
    add_part(score, "HasAns_exact", "HasAns_f1", &found.answered);
    add_part(score, "NoAns_exact", "NoAns_f1", &found.unanswered);
    if (!isnan(found.best_f1)) {
        task_score_add(score, "best_exact", found.best_exact);
        task_score_add(score, "best_exact_thresh", found.best_exact_threshold);
        task_score_add(score, "best_f1", found.best_f1);
        task_score_add(score, "best_f1_thresh", found.best_f1_threshold);
    }
    return BERTH_OK;
}

static enum berth_status score_v1(const struct squad_dataset *dataset,
                                  const char *const *predictions, struct task_score *score,
                                  struct berth_error *error) {
    struct squad_score found;
    TRY(squad_score_v1(dataset, predictions, &found, error));
    task_score_add(score, "exact_match", found.exact_match);
    task_score_add(score, "f1", found.f1);
    return BERTH_OK;
}

// Scores in percent, by the rules of the data set's version.
static enum berth_status score(const struct task_set *set, struct task_score *result,
                               struct berth_error *error) {
    const struct squad *squad = set->own;
    const struct squad_dataset *dataset = &squad->input.dataset;
    *result = (struct task_score){.loss = NAN};
    if (set->unscored) {
        return BERTH_OK;
    }
    const char **predictions = memory_array(dataset->count, sizeof *predictions);
    if (predictions == NULL) {
        return error_no_memory(error, dataset->count * sizeof *predictions, "the predictions");
    }
    for (size_t i = 0; i < dataset->count; i++) {
        predictions[i] = squad->results[i].prediction;
    }
    result->best_by = 1;
    enum berth_status status = dataset->version_2 ? score_v2(squad, predictions, result, error)
                                                  : score_v1(dataset, predictions, result, error);
    memory_free(predictions);
    return status;
}

static enum berth_status detail(const struct task_set *set, int64_t step,
                                const struct berth_log *log, struct berth_error *error) {
    const struct squad *squad = set->own;
    const struct squad_dataset *dataset = &squad->input.dataset;
    return !set->unscored
               ? squad_details_log(dataset, squad->results, squad->options.version_2_with_negative,
                                   step, log, error)
               : BERTH_OK;
}

static enum berth_status write_results(const struct task_set *set,
                                       const struct task_results *results,
                                       struct berth_error *error) {
    const struct squad *squad = set->own;
    TRY(squad_answers_write(results->folder, &squad->input.dataset, squad->results, &squad->options,
                            error));
    return results->use == TASK_PREDICT ? task_write_prediction(set, results, error) : BERTH_OK;
}

// --- examples in memory
// ---------------------------------------------------------------------------

static enum berth_status write_answer(struct json_line *line, const char *text, int64_t start,
                                      const char *context, struct berth_error *error) {
    const size_t length = strlen(context);
    const char *at = start == 0 ? strstr(context, text) : context + start;
    if (start < 0 || (size_t)start > length) {
        return error_set(error, BERTH_USAGE, "start %lld is not in the context of %zu bytes",
                         (long long)start, length);
    }
    if (at == NULL) {
        return error_set(error, BERTH_USAGE, "the answer \"%.*s\" is not in its context",
                         UTF8_SHOWN(text, 60));
    }
    if (strncmp(at, text, strlen(text)) != 0) {
        return error_set(error, BERTH_USAGE, "start %lld: the context does not have \"%.*s\" there",
                         (long long)start, UTF8_SHOWN(text, 60));
    }
    json_line_open(line, NULL, '{');
    json_line_text(line, "text", text);
    struct text_position position = {0};
    text_position_seek(&position, context, at - context, OFFSET_BYTES);
    json_line_integer(line, "answer_start", position.characters);
    json_line_close(line, '}');
    return BERTH_OK;
}

// One article of SQuAD's with a question. A training learns one answer; what is evaluated may have
// several right ones.
static enum berth_status write_example(struct json_line *line, const struct berth_text *example,
                                       size_t index, int is_trained, struct berth_error *error) {
    char id[32];
    snprintf(id, sizeof id, "%zu", index);
    if (example->pair == NULL || example->label == NULL) {
        return error_set(error, BERTH_USAGE, "the %s is NULL",
                         example->pair == NULL ? "context" : "answer");
    }
    const int has_answer = example->label[0] != '\0';
    static const char closing[] = "]}]}]}"; // of answers, the question, qas, the paragraph, ...
    json_line_open(line, NULL, '{');
    json_line_text(line, "title", "");
    json_line_open(line, "paragraphs", '[');
    json_line_open(line, NULL, '{');
    json_line_text(line, "context", example->pair);
    json_line_open(line, "qas", '[');
    json_line_open(line, NULL, '{');
    json_line_text(line, "id", id);
    json_line_text(line, "question", example->text);
    json_line_boolean(line, "is_impossible", !has_answer);
    json_line_open(line, "answers", '[');
    if (has_answer) {
        TRY(write_answer(line, example->label, example->start, example->pair, error));
    }
    for (size_t i = 0; i < example->more_count && !is_trained; i++) {
        TRY(write_answer(line, example->more[i], 0, example->pair, error));
    }
    for (const char *bracket = closing; *bracket != '\0'; bracket++) {
        json_line_close(line, *bracket);
    }
    return BERTH_OK;
}

static const struct task_form form = {
    .ending = "json", .columns = "", .is_document = 1, .write = write_example};

static const struct task_command commands[] = {
    {.verb = "finetune",
     .name = "squad",
     .use = TASK_TRAIN,
     .jobs = JOB_FINETUNE_SQUAD,
     .summary = "fine-tune a model on SQuAD and evaluate it",
     .example = "berth finetune squad --model minilm --train train-v1.1.json \\\n"
                "    --dev dev-v1.1.json --output squad-minilm --learning_rate 1e-4\n"
                "berth finetune squad ... --output squad-minilm --resume_from_checkpoint auto\n"
                "berth finetune squad ... --dry-run",
     .notes = "Ctrl-C, SIGTERM, SIGHUP, SIGXCPU and SIGUSR1 finish the update, save, and stop; "
              "--resume_from_checkpoint auto resumes. Options on the command line override "
              "--deepspeed_config. Command lines of other programs: `berth as`."},
    {.verb = "predict",
     .name = "squad",
     .use = TASK_PREDICT,
     .jobs = JOB_PREDICT_SQUAD,
     .summary = "answer the questions of a SQuAD file",
     .example = "berth predict squad --model squad-minilm --input dev-v1.1.json --output answers\n"
                "berth evaluate squad dev-v1.1.json answers/predictions.json"},
    {.verb = NULL}};

static const struct training_task training = {.name = "squad",
                                              .commands = commands,
                                              .form = &form,
                                              .title = "finetune squad",
                                              .head = PARAM_HEAD_SPAN,
                                              .jobs = JOB_FINETUNE,
                                              .defaults = JOB_FINETUNE_SQUAD,
                                              .validation_advice =
                                                  "name a file with validation_file",
                                              .follow = squad_input_follow_model,
                                              .settle = resolve_settings,
                                              .has_validation = has_validation,
                                              .own_size = sizeof(struct squad),
                                              .open = open_set,
                                              .done = done,
                                              .receive = receive,
                                              .conclude = conclude,
                                              .result_bytes = result_bytes,
                                              .score = score,
                                              .detail = detail,
                                              .write = write_results};

// === the row =====================================================================================

static void write_line(struct json_line *line, const struct task_text *text) {
    json_line_open(line, NULL, '{');
    json_line_text(line, "question", text->texts[0]);
    json_line_text(line, "answer", text->item_count > 0 ? text->items[0].text : "");
    json_line_open(line, "answers", '[');
    for (size_t i = 0; i < text->item_count; i++) {
        const struct berth_item *item = &text->items[i];
        const float *logits = item->reserved[0];
        json_line_open(line, NULL, '{');
        json_line_text(line, "text", item->text);
        json_line_real(line, "probability", item->score);
        json_line_integer(line, "start", item->start);
        json_line_integer(line, "end", item->end);
        json_line_real(line, "start_logit", (double)logits[0]);
        json_line_real(line, "end_logit", (double)logits[1]);
        json_line_close(line, '}');
    }
    json_line_close(line, ']');
    json_line_close(line, '}');
}

const struct task_row row_answer = {
    .training = &training,
    .about = {.name = "answer",
              .pipeline = "question-answering",
              .text = "question",
              .pair = "context",
              .label = "answer",
              .more = "answers",
              .needs_pair = 1,
              .has_items = 1,
              .trains = 1,
              .help = "the answers to a question that are in a context, best first"},
    .architectures = {"ForQuestionAnswering"},
    .tasks = {"answer " TASKS_OF_ENCODER},
    .job = JOB_ANSWER,
    .settings = "top max_answer_length version_2_with_negative align_to_words offsets",
    .uses_windows = 1,
    .own_size = sizeof(struct answerer),
    .open = open_row,
    .run = run_row,
    .write = write_row,
    .outputs = {{"answer", TASK_ITEM_TEXT},
                {"score", TASK_ITEM_SCORE},
                {"start", TASK_ITEM_START},
                {"end", TASK_ITEM_END}},
    .verb = {.jobs = JOB_ANSWER,
             .reader = TASK_READ_BY_PEOPLE,
             .top = "1",
             .top_max = 100,
             .pair = "the text to find the answer in",
             .sample = {"squad-minilm", "Where do I live?", "I live in Bern."},
             .notes = "The answer comes first, then the text with the answer highlighted (black on "
                      "light green) where colours are on; quiet prints the answer only.",
             .write = write_line}};
