// SPDX-License-Identifier: Apache-2.0
// The task tag: a label for each word of a text, and the entities that the labels make.
//
// A word is what the tokenizer splits a text into before it cuts pieces: a run of letters and
// digits, or one punctuation mark.
//
// Its sets are files of words with tags (data/tagging/tagged.h). The tags of the training set
// become the model's classes, unless the model has classes with the same names, whose order is then
// kept. Leaves out: windows of long sentences (word_windows.h) and the scores (metrics/entities.h).
#include "core/clock.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/portable_math.h"
#include "data/pairs/pairs.h"
#include "data/tagging/tagged.h"
#include "data/tagging/word_windows.h"
#include "metrics/entities.h"
#include "metrics/results.h"
#include "settings/settings.h"
#include "task/details.h"
#include "task/network.h"
#include "train/tasks/class_names.h"

#include <math.h>
#include <string.h>

struct tagger {
    struct class_names names;
    struct word_window_rule rule;
};

static const struct tagger *tagger_of(const struct task_model *model) {
    return model->own;
}

// Windows begin half their length apart, or doc_stride tokens if that was given.
static struct word_window_rule window_rule(const struct settings *config,
                                           const struct model_files *files) {
    const int64_t room = files->length - 2;
    const int is_asked = settings_is_chosen(config, "doc_stride");
    const int64_t stride = is_asked ? config->features.doc_stride : room / 2;
    return (struct word_window_rule){.max_length = files->length,
                                     .stride = stride < room ? stride : room,
                                     .special = tokenizer_special_ids(files->tokenizer)};
}

static enum berth_status open_row(struct task_model *model, const struct task_opening *opening,
                                  struct berth_error *error) {
    struct tagger *tagger = model->own;
    TRY(network_open(model, &(struct predictor_kind){.head = PARAM_HEAD_TOKEN}, 2, opening, error));
    TRY(class_names_read(&tagger->names, &model->network->predictor.files, error));
    tagger->rule = window_rule(&model->config, &model->network->predictor.files);
    struct batch_extent *extent = &model->network->extent;
    extent->masked = extent->tokens; // a word has at least one token
    return network_load(model, opening, error);
}

static void done(void *own) {
    class_names_done(&((struct tagger *)own)->names);
}

static const char *label(const struct task_model *model, size_t index) {
    const struct class_names *names = &tagger_of(model)->names;
    return index < names->count ? names->list[index] : NULL;
}

// --- words --------------------------------------------------------------------------------------

struct word {
    int64_t start, end; // characters
    int32_t label;
    double score; // the label's softmax probability
};

// A text on its way through the network.
struct tagged {
    struct task_text *text;
    struct token_list list;
    int32_t *ids;
    size_t *starts;     // [word_count + 1] index of each word's first token
    struct word *words; // [word_count]
    size_t word_count;
};

struct tag_call {
    const struct task_model *model;
    struct tagged *texts; // [count]
    size_t count;
    struct word_window_set windows; // of all texts; words have their numbers within their text
    size_t *owners;                 // the text of each window
    size_t owner_capacity;
    float *scores; // [2][classes] for judge_mean
};

static enum berth_status collect_words(struct tagged *tagged, struct berth_error *error) {
    const size_t tokens = tagged->list.count;
    tagged->ids = memory_array(tokens + 1, sizeof *tagged->ids);
    tagged->starts = memory_array(tokens + 1, sizeof *tagged->starts);
    tagged->words = memory_array_zeroed(tokens + 1, sizeof *tagged->words);
    if (tagged->ids == NULL || tagged->starts == NULL || tagged->words == NULL) {
        return error_no_memory(error, tokens * sizeof *tagged->words, "the words");
    }
    token_list_trim(&tagged->list, tagged->text->texts[0]);
    for (size_t i = 0; i < tokens; i++) {
        const struct token *token = &tagged->list.items[i];
        if (i == 0 || token->word != token[-1].word) {
            tagged->starts[tagged->word_count] = i;
            tagged->words[tagged->word_count++] = (struct word){.start = (int64_t)token->begin};
        }
        tagged->words[tagged->word_count - 1].end = (int64_t)token->end;
        tagged->ids[i] = token->id;
    }
    tagged->starts[tagged->word_count] = tokens;
    return BERTH_OK;
}

static void fail(struct tagged *tagged, const struct berth_error *error) {
    task_text_fail(tagged->text, error->status, error->message);
}

static void read_texts(struct tag_call *call, int threads) {
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (size_t i = 0; i < call->count; i++) {
        struct tagged *tagged = &call->texts[i];
        const char *words = tagged->text->texts[0];
        struct berth_error error;
        if (tokenizer_encode(call->model->tokenizer, words, strlen(words), &tagged->list, &error) !=
                BERTH_OK ||
            collect_words(tagged, &error) != BERTH_OK) {
            fail(tagged, &error);
        }
    }
}

static enum berth_status add_windows(struct tag_call *call, size_t index,
                                     struct berth_error *error) {
    struct tagged *tagged = &call->texts[index];
    const struct word_pieces pieces = {
        .ids = tagged->ids, .starts = tagged->starts, .count = tagged->word_count};
    const size_t first = call->windows.count, cut = call->windows.truncated;
    TRY(word_windows_add(&call->windows, &tagger_of(call->model)->rule, &pieces, error));
    size_t *owners =
        memory_grow(call->owners, &call->owner_capacity, call->windows.count + 1, sizeof *owners);
    if (owners == NULL) {
        return error_no_memory(error, call->windows.count * sizeof *owners, "the words");
    }
    call->owners = owners;
    for (size_t i = first; i < call->windows.count; i++) {
        call->owners[i] = index;
        tagged->text->tokens_read += call->windows.windows[i].length;
    }
    tagged->text->truncated = call->windows.truncated > cut;
    return BERTH_OK;
}

// The softmax probability of a class.
static double probability_of(const float *logits, size_t classes, int32_t label) {
    return math_exp(-task_cross_entropy(logits, classes, label));
}

// The label that is the most likely in the mean of the probabilities of rows[count][classes].
static void judge_mean(const struct tag_call *call, const float *rows, size_t count,
                       struct word *word) {
    const size_t classes = tagger_of(call->model)->names.count;
    float *own = call->scores, *sum = own + classes;
    memset(sum, 0, classes * sizeof *sum);
    for (size_t i = 0; i < count; i++) {
        results_scores(RESULTS_SOFTMAX, rows + i * classes, classes, own);
        for (size_t label = 0; label < classes; label++) {
            sum[label] += own[label];
        }
    }
    word->label = results_best_class(sum, classes);
    word->score = (double)sum[word->label] / (double)count;
}

// The label of the piece whose label is the most likely.
static void judge_best(size_t classes, const float *rows, size_t count, struct word *word) {
    for (size_t i = 0; i < count; i++) {
        const int32_t label = results_best_class(rows + i * classes, classes);
        const double score = probability_of(rows + i * classes, classes, label);
        if (i == 0 || score > word->score) {
            word->label = label;
            word->score = score;
        }
    }
}

static void receive(void *context, size_t index, const float *logits, int64_t count) {
    const struct tag_call *call = context;
    const struct word_window *window = &call->windows.windows[index];
    const struct tagged *tagged = &call->texts[call->owners[index]];
    const enum aggregation how = tagged->text->settings.aggregation;
    const size_t classes = tagger_of(call->model)->names.count;
    const size_t room = (size_t)tagger_of(call->model)->rule.max_length - 2;
    (void)count;
    for (size_t i = window->labels; i < window->labels + (size_t)window->label_count; i++) {
        const size_t word = call->windows.words[i];
        const size_t pieces = tagged->starts[word + 1] - tagged->starts[word];
        const size_t read = pieces < room ? pieces : room; // of a long word the first ones
        const float *rows = logits + call->windows.positions[i] * classes;
        if (how == AGGREGATE_AVERAGE) {
            judge_mean(call, rows, read, &tagged->words[word]);
        } else {
            judge_best(classes, rows, how == AGGREGATE_MAX ? read : 1, &tagged->words[word]);
        }
        (void)text_check_finite(tagged->text, rows, classes);
    }
}

// --- items --------------------------------------------------------------------------------------

// Items are in the order of the text, so that one position moves through it.
static void add_item(struct task_text *text, struct text_position *position,
                     const struct berth_item *found) {
    struct berth_item *item = &text->items[text->item_count++];
    *item = *found;
    text_position_advance(position, text->texts[0], found->start);
    item->start = text_position_in(position, text->settings.unit);
    text_position_advance(position, text->texts[0], found->end);
    item->end = text_position_in(position, text->settings.unit);
}

// The entities, and between them the runs of words that belong to none, in the order of the text.
static void add_runs(const struct tagged *tagged, const struct entity *entities, size_t count,
                     const struct task_list *ignored) {
    struct text_position position = {0};
    for (size_t word = 0, next = 0; word < tagged->word_count;) {
        const size_t end = next < count ? entities[next].first : tagged->word_count;
        const struct entity run =
            word == end ? entities[next++]
                        : (struct entity){.type = "O", .first = word, .last = end - 1};
        if (!task_list_has(ignored, run.type)) {
            struct berth_item item = {.text = run.type,
                                      .start = tagged->words[run.first].start,
                                      .end = tagged->words[run.last].end,
                                      .id = -1};
            for (size_t i = run.first; i <= run.last; i++) {
                item.score += tagged->words[i].score / (double)(run.last - run.first + 1);
            }
            add_item(tagged->text, &position, &item);
        }
        word = run.last + 1;
    }
}

static enum berth_status add_entities(const struct task_model *model, const struct tagged *tagged,
                                      const struct task_list *ignored, struct berth_error *error) {
    const char **labels = memory_array(tagged->word_count, sizeof *labels);
    struct entity *found = NULL;
    size_t count = 0;
    if (labels == NULL) {
        return error_no_memory(error, tagged->word_count * sizeof *labels, "the labels");
    }
    for (size_t i = 0; i < tagged->word_count; i++) {
        labels[i] = label(model, (size_t)tagged->words[i].label);
    }
    const enum berth_status status = entities_of(labels, tagged->word_count, &found, &count, error);
    memory_free((void *)labels);
    if (status == BERTH_OK) {
        add_runs(tagged, found, count, ignored);
    }
    memory_free(found);
    return status;
}

// A word is at most one item, and so is a run of words.
static void make_items(const struct task_model *model, struct tagged *tagged) {
    const struct call_settings *asked = &tagged->text->settings;
    struct task_list ignored = {.items = NULL};
    struct berth_error error;
    enum berth_status status = BERTH_OK;
    if (tagged->text->status != BERTH_OK ||
        task_text_items(tagged->text, tagged->word_count) == NULL) {
        return;
    }
    tagged->text->item_count = 0;
    if (tagged->word_count > 0) {
        status = task_list_read("ignore_labels",
                                asked->ignore_labels != NULL ? asked->ignore_labels : "O", &ignored,
                                &error);
    }
    if (status == BERTH_OK && asked->aggregation == AGGREGATE_NONE) {
        // Every label of a word that is not ignored.
        struct text_position position = {0};
        for (size_t i = 0; i < tagged->word_count; i++) {
            const struct word *word = &tagged->words[i];
            const char *name = label(model, (size_t)word->label);
            if (!task_list_has(&ignored, name)) {
                add_item(tagged->text, &position,
                         &(struct berth_item){.text = name,
                                              .score = word->score,
                                              .start = word->start,
                                              .end = word->end,
                                              .id = word->label});
            }
        }
    } else if (status == BERTH_OK) {
        status = add_entities(model, tagged, &ignored, &error);
    }
    if (status != BERTH_OK) {
        fail(tagged, &error);
    }
    task_list_done(&ignored);
}

// --- the row ------------------------------------------------------------------------------------

static enum berth_status tag(struct tag_call *call, struct berth_error *error) {
    const size_t classes = tagger_of(call->model)->names.count;
    call->scores = memory_array(2 * classes, sizeof *call->scores);
    if (call->scores == NULL) {
        return error_no_memory(error, 2 * classes * sizeof *call->scores, "the scores");
    }
    read_texts(call, network_threads(call->model, call->count));
    const size_t length = (size_t)tagger_of(call->model)->rule.max_length;
    call->windows.type_ids = memory_array_zeroed(length, sizeof *call->windows.type_ids);
    if (call->windows.type_ids == NULL) {
        return error_no_memory(error, length, "the words");
    }
    for (size_t i = 0; i < call->count; i++) {
        if (call->texts[i].text->status == BERTH_OK && call->texts[i].word_count > 0) {
            TRY(add_windows(call, i, error));
        }
    }
    const struct packer_source source = {
        .get = word_windows_sequence, .data = &call->windows, .count = call->windows.count};
    const struct infer_args args = {.source = &source, .receive = receive, .context = call};
    TRY(network_run(call->model, args, error));
    for (size_t i = 0; i < call->count; i++) {
        make_items(call->model, &call->texts[i]);
    }
    return BERTH_OK;
}

static enum berth_status run_row(const struct task_model *model, struct task_text *const *texts,
                                 size_t count, struct berth_error *error) {
    struct tag_call call = {.model = model,
                            .texts = memory_array_zeroed(count, sizeof *call.texts)};
    if (call.texts == NULL) {
        return error_no_memory(error, count * sizeof *call.texts, "the texts");
    }
    for (; call.count < count; call.count++) {
        call.texts[call.count].text = texts[call.count];
    }
    const enum berth_status status = tag(&call, error);
    for (size_t i = 0; i < count; i++) {
        token_list_done(&call.texts[i].list);
        memory_free(call.texts[i].ids);
        memory_free(call.texts[i].starts);
        memory_free(call.texts[i].words);
    }
    word_windows_done(&call.windows);
    memory_free(call.owners);
    memory_free(call.scores);
    memory_free(call.texts);
    return status;
}

static void write_item(struct json_line *line, const struct task_text *text,
                       struct text_position *position, const struct berth_item *item) {
    const enum offset_unit unit = text->settings.unit;
    text_position_seek(position, text->texts[0], item->start, unit);
    const size_t begin = position->bytes;
    text_position_seek(position, text->texts[0], item->end, unit);
    char *word = memory_string_of(text->texts[0] + begin, position->bytes - begin);
    line->failed |= word == NULL;
    json_line_open(line, NULL, '{');
    json_line_text(line, text->settings.aggregation == AGGREGATE_NONE ? "entity" : "entity_group",
                   item->text);
    json_line_real(line, "score", item->score);
    json_line_text(line, "word", word);
    json_line_integer(line, "start", item->start);
    json_line_integer(line, "end", item->end);
    json_line_close(line, '}');
    memory_free(word);
}

static void write_row(struct json_line *line, const struct task_model *model,
                      const struct task_text *text) {
    struct text_position position = {0};
    (void)model;
    json_line_open(line, NULL, '[');
    for (size_t i = 0; i < text->item_count; i++) {
        write_item(line, text, &position, &text->items[i]);
    }
    json_line_close(line, ']');
}

// === training, evaluation and prediction of files ==============================================

struct tokens {
    struct tagged_dataset dataset;
    struct word_window_set windows;
    struct class_names names;
    size_t width;     // classes
    double smoothing; // of the tags in an evaluation's loss
    // Of a prediction, [word_count]: each word's class, the model's probability of it, NaN without
    // tokens, and the word's loss, NaN without a tag.
    int32_t *predicted;
    float *probabilities, *losses;
};

static const char expected[] = "a file of words with tags";

// --- settings -----------------------------------------------------------------------------------

static enum berth_status resolve_settings(struct settings *config, enum task_use use,
                                          struct berth_error *error) {
    settings_apply_default(config, "num_train_epochs", JOB_FINETUNE_TOKENS); // as in run_ner
    TRY(task_need_file(config, use, "", error));
    if (use == TASK_TRAIN && task_predicts(config)) {
        TRY(task_need_file(config, TASK_PREDICT, "", error));
        return file_require(config->task.predict_file, expected, error);
    }
    return BERTH_OK;
}

static enum berth_status has_validation(const struct settings *config, int *answer,
                                        struct berth_error *error) {
    return task_has_validation(config, expected, answer, error);
}

// --- classes ------------------------------------------------------------------------------------

static struct pair_dataset view_of(const struct tagged_dataset *dataset) {
    return (struct pair_dataset){
        .target = PAIR_CLASS, .labels = dataset->tag_names, .label_count = dataset->tag_count};
}

static const char separators[] = " \t\r\n"; // of words and tags in the file of predictions

static enum berth_status settle_labels(struct tokens *own, struct task_set *set,
                                       const struct task_open *args, struct berth_error *error) {
    struct tagged_dataset *dataset = &own->dataset;
    struct class_names *names = &own->names;
    if (dataset->tag_count < 2) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: every word has the same tag; there is nothing to learn",
                         dataset->name);
    }
    TRY(class_names_read(names, args->files, error));
    struct pair_dataset view = view_of(dataset);
    const int are_same = class_names_are_comparable(names, args->files, &view) &&
                         tagged_renumber(dataset, names->list, names->count, NULL) == BERTH_OK;
    if (are_same) {
        class_names_note_missing(names, view.label_count, dataset->name, args->log);
    }
    view = view_of(dataset);
    class_names_settle_head(set, names, args, &view, are_same);
    if (are_same && dataset->tag_names == names->list) {
        return BERTH_OK;
    }
    TRY(class_names_set(args->files, &view, separators, error));
    TRY(class_names_read(names, args->files, error));
    return tagged_renumber(dataset, names->list, names->count, error);
}

static enum berth_status match_labels(struct tokens *own, const struct task_open *args,
                                      struct berth_error *error) {
    const struct tagged_dataset *dataset = &own->dataset;
    TRY(class_names_read(&own->names, args->files, error));
    TRY(args->use == TASK_PREDICT ? class_names_check_written(&own->names, separators, error)
                                  : BERTH_OK);
    TRY(tagged_renumber(&own->dataset, own->names.list, own->names.count, error));
    if (dataset->tags_in_order) {
        class_names_note_order(dataset->name, dataset->tag_names, dataset->tag_count, args->log);
    }
    return BERTH_OK;
}

// --- the set ------------------------------------------------------------------------------------

static enum berth_status read_words(struct tokens *own, const struct task_open *args,
                                    struct berth_error *error) {
    const struct settings *config = args->config;
    const int training = args->use == TASK_TRAIN;
    const struct tagged_settings settings = {.word_column = config->features.text_column,
                                             .tag_column = config->features.label_column,
                                             .tag_optional = args->use == TASK_PREDICT,
                                             .sentences = training
                                                              ? config->features.max_train_samples
                                                              : config->features.max_eval_samples};
    TRY(tagged_read(task_file(config, args->use), &settings, &own->dataset, error));
    if (own->dataset.empty_tag_column != NULL) {
        log_note(args->log,
                 "%s: %s holds no tags: predicted without scores; label_column names another "
                 "column",
                 own->dataset.name, own->dataset.empty_tag_column);
    }
    return own->dataset.tags != NULL || args->use == TASK_PREDICT
               ? BERTH_OK
               : error_set(error, BERTH_USAGE, "label_column is 0, but %s needs tags",
                           training ? "training" : "an evaluation");
}

static enum berth_status make_sentence_windows(struct tokens *own, const struct task_open *args,
                                               struct berth_error *error) {
    const struct tokenizer *tokenizer = args->files->tokenizer;
    const struct word_window_rule rule = window_rule(args->config, args->files);
    const double begin = clock_now();
    TRY(word_windows_build(&own->windows, &rule, &own->dataset, tokenizer, error));
    if (own->windows.count == 0) {
        return error_set(error, BERTH_BAD_DATA, "%s: none of its words has a visible character",
                         own->dataset.name);
    }
    log_detail(
        args->log,
        "%s: %zu sentences, %zu words, %zu tokens, %zu sentences in several windows, in %.2f "
        "s",
        own->dataset.name, own->dataset.count, own->dataset.word_count, own->windows.token_count,
        own->windows.split_sentences, clock_now() - begin);
    if (own->windows.truncated > 0) {
        log_warning(args->log,
                    "%s: %zu words are longer than max_seq_length %lld and are truncated",
                    own->dataset.name, own->windows.truncated, (long long)args->files->length);
    }
    return BERTH_OK;
}

static enum berth_status allocate_results(struct tokens *own, struct berth_error *error) {
    const size_t words = own->dataset.word_count;
    // The class of words that have no tokens: "O", or the first one.
    const size_t found = class_names_find(&own->names, "O");
    const int32_t outside = found < own->names.count ? (int32_t)found : 0;
    own->predicted = memory_array(words, sizeof *own->predicted);
    own->probabilities = memory_array(words, sizeof *own->probabilities);
    own->losses = memory_array(words, sizeof *own->losses);
    if (own->predicted == NULL || own->probabilities == NULL || own->losses == NULL) {
        return error_no_memory(error, words * sizeof *own->predicted, "the predictions");
    }
    for (size_t i = 0; i < words; i++) {
        own->predicted[i] = outside;
        own->probabilities[i] = own->losses[i] = NAN;
    }
    return BERTH_OK;
}

static enum berth_status open_set(struct task_set *set, const struct task_open *args,
                                  struct berth_error *error) {
    struct tokens *own = set->own;
    const int training = args->use == TASK_TRAIN;
    set->path = task_file(args->config, args->use);
    TRY(read_words(own, args, error));
    TRY(training ? settle_labels(own, set, args, error) : match_labels(own, args, error));
    if (training) {
        const struct pair_dataset view = view_of(&own->dataset);
        pair_labels_describe(&view, set->labels, sizeof set->labels);
    }
    TRY(make_sentence_windows(own, args, error));
    own->width = (size_t)args->files->shape.num_labels;
    own->smoothing = args->config->task.label_smoothing_factor;
    set->examples = (int64_t)own->dataset.count;
    set->tokens = (int64_t)own->windows.token_count;
    set->source = (struct packer_source){
        .get = word_windows_sequence, .data = &own->windows, .count = own->windows.count};
    if (training) {
        size_t *counts = memory_array_zeroed(own->names.count, sizeof *counts);
        if (counts == NULL) {
            return error_no_memory(error, own->names.count * sizeof *counts, "the classes");
        }
        for (size_t i = 0; i < own->windows.label_count; i++) {
            counts[own->windows.classes[i]]++;
        }
        enum berth_status status = class_weights_set(set, args->config, &own->names, counts, error);
        memory_free(counts);
        return status;
    }
    return allocate_results(own, error);
}

static void close_set(void *own) {
    struct tokens *tokens = own;
    word_windows_done(&tokens->windows);
    tagged_done(&tokens->dataset);
    class_names_done(&tokens->names);
    memory_free(tokens->predicted);
    memory_free(tokens->probabilities);
    memory_free(tokens->losses);
}

// --- predictions --------------------------------------------------------------------------------

static void receive_sentence(void *set, size_t index, const float *logits, int64_t count) {
    struct tokens *own = ((struct task_set *)set)->own;
    const struct word_window *window = &own->windows.windows[index];
    (void)count;
    for (size_t i = window->labels; i < window->labels + (size_t)window->label_count; i++) {
        const float *row = logits + own->windows.positions[i] * own->width;
        const uint32_t word = own->windows.words[i];
        own->predicted[word] = results_best_class(row, own->width);
        own->probabilities[word] = (float)probability_of(row, own->width, own->predicted[word]);
        if (own->windows.classes[i] >= 0) {
            own->losses[word] =
                (float)task_smoothed_loss(row, own->width, own->windows.classes[i], own->smoothing);
        }
    }
}

// Details need less than scores.
static size_t result_bytes(const struct task_set *set) {
    const struct tokens *own = set->own;
    const size_t words = own->dataset.word_count;
    return 2 * words * sizeof(const char *) + entity_scores_bytes(words);
}

// The scores are those of seqeval's default, which run_ner uses.
static enum berth_status score(const struct task_set *set, struct task_score *result,
                               struct berth_error *error) {
    const struct tokens *own = set->own;
    const struct tagged_dataset *dataset = &own->dataset;
    const size_t words = dataset->word_count;
    struct entity_scores found;
    *result = (struct task_score){.loss = NAN};
    if (dataset->tags == NULL) {
        return BERTH_OK;
    }
    const char **names = memory_array(2 * words, sizeof *names);
    if (names == NULL) {
        return error_no_memory(error, 2 * words * sizeof *names, "the tags");
    }
    for (size_t i = 0; i < words; i++) {
        names[i] = own->names.list[dataset->tags[i]];
        names[words + i] = own->names.list[own->predicted[i]];
    }
    const struct entity_tags tags = {names, names + words, dataset->starts, dataset->count};
    enum berth_status status = entity_scores(&tags, NULL, &found, error);
    memory_free((void *)names);
    double sum = 0, count = 0;
    for (size_t i = 0; i < own->dataset.word_count; i++) {
        const double loss = (double)own->losses[i];
        sum += isnan(loss) ? 0 : loss;
        count += !isnan(loss);
    }
    result->loss = sum / count;
    task_score_add(result, "precision", found.all.precision);
    task_score_add(result, "recall", found.all.recall);
    task_score_add(result, "f1", found.all.f1);
    task_score_add(result, "accuracy", found.accuracy);
    result->best_by = 2;
    entity_scores_done(&found);
    return status;
}

static enum berth_status detail(const struct task_set *set, int64_t step,
                                const struct berth_log *log, struct berth_error *error) {
    const struct tokens *own = set->own;
    const struct tokens_result found = {&own->dataset, own->names.list, own->names.count,
                                        own->predicted, own->probabilities};
    return own->dataset.tags != NULL ? tokens_details_log(&found, step, log, error) : BERTH_OK;
}

// --- result files -------------------------------------------------------------------------------

static enum berth_status write_results(const struct task_set *set,
                                       const struct task_results *results,
                                       struct berth_error *error) {
    if (results->use == TASK_VALIDATE) {
        return task_write_evaluation(results, error);
    }
    // A line for each sentence, with the tags of its words.
    const struct tokens *own = set->own;
    struct file_writer writer;
    TRY(file_writer_open_in(&writer, results->folder, "predictions.txt", error));
    for (size_t i = 0; i < own->dataset.count; i++) {
        const size_t *starts = own->dataset.starts;
        for (size_t k = starts[i]; k < starts[i + 1]; k++) {
            (void)file_writer_printf(&writer, error, "%s%s", k > starts[i] ? " " : "",
                                     own->names.list[own->predicted[k]]);
        }
        (void)file_writer_put(&writer, "\n", 1, error);
    }
    TRY(file_writer_commit(&writer, error));
    return task_write_prediction(set, results, error);
}

// --- examples in memory
// ---------------------------------------------------------------------------

static size_t write_words(struct json_line *line, const char *key, const char *words) {
    size_t count = 0;
    json_line_open(line, key, '[');
    for (const char *at = words + strspn(words, " "); *at != '\0'; count++) {
        const size_t length = strcspn(at, " ");
        char *word = memory_string_of(at, length);
        line->failed |= word == NULL;
        json_line_text(line, NULL, word);
        memory_free(word);
        at += length + strspn(at + length, " ");
    }
    json_line_close(line, ']');
    return count;
}

static enum berth_status write_example(struct json_line *line, const struct berth_text *example,
                                       size_t index, int is_trained, struct berth_error *error) {
    if (example->label == NULL) {
        return error_set(error, BERTH_USAGE, "the tags are NULL");
    }
    json_line_open(line, NULL, '{');
    const size_t words = write_words(line, "tokens", example->text),
                 tags = write_words(line, "ner_tags", example->label);
    json_line_close(line, '}');
    json_line_end(line);
    return words == tags
               ? BERTH_OK
               : error_set(error, BERTH_USAGE,
                           "%zu words have %zu tags; expected one tag for each word, with "
                           "blanks between them",
                           words, tags);
}

static const struct task_form form = {.ending = "jsonl", .columns = "", .write = write_example};

static const struct task_command commands[] = {
    {.verb = "finetune",
     .name = "tokens",
     .use = TASK_TRAIN,
     .jobs = JOB_FINETUNE_TOKENS,
     .summary = "fine-tune a model that gives each word a tag, such as named entities",
     .example = "berth finetune tokens --model minilm --train train.txt --dev valid.txt \\\n"
                "    --output ner\n"
                "berth finetune tokens --model minilm --train train.jsonl --text_column words \\\n"
                "    --label_column pos --output tagger",
     .notes = "Files are CoNLL's columns (a word per line, its tag in the last column, an empty "
              "line after each sentence) or, by their names, JSON lines with arrays \"tokens\" "
              "and \"ner_tags\". The loss is on the first piece of each word; sentences longer "
              "than max_seq_length are cut into overlapping windows. Evaluations report "
              "seqeval's precision, recall, F1 and accuracy. Signals and "
              "--resume_from_checkpoint work as in `berth finetune squad`."},
    {.verb = "predict",
     .name = "tokens",
     .use = TASK_PREDICT,
     .jobs = JOB_PREDICT_TOKENS,
     .summary = "give each word of a file a tag",
     .example = "berth predict tokens --model ner --input test.txt --output tags\n"
                "berth evaluate tokens test.txt tags/predictions.txt",
     .notes = "Writes predictions.txt, a line for each sentence with a tag for each word, and, "
              "if the file has tags, predict_results.json with the scores.",
     .required = "model_name_or_path output_dir"},
    {.verb = NULL}};

static const struct training_task training = {.name = "tokens",
                                              .commands = commands,
                                              .form = &form,
                                              .title = "finetune tokens",
                                              .jobs = JOB_FINETUNE,
                                              .defaults = JOB_FINETUNE_TOKENS,
                                              .predicts_separately = 1,
                                              .head = PARAM_HEAD_TOKEN,
                                              .has_loss = 1,
                                              .validation_advice =
                                                  "name a file of words with validation_file",
                                              .settle = resolve_settings,
                                              .has_validation = has_validation,
                                              .own_size = sizeof(struct tokens),
                                              .open = open_set,
                                              .done = close_set,
                                              .receive = receive_sentence,
                                              .result_bytes = result_bytes,
                                              .score = score,
                                              .detail = detail,
                                              .write = write_results};

// === the row =====================================================================================

const struct task_row row_tag = {
    .training = &training,
    .about = {.name = "tag",
              .pipeline = "token-classification",
              .text = "text",
              .label = "tags",
              .has_items = 1,
              .trains = 1,
              .help = "the entities of a text, or the labels of its words, in their order"},
    .architectures = {"ForTokenClassification"},
    .tasks = {"tag " TASKS_OF_ENCODER},
    .job = JOB_PREDICT_TOKENS,
    .settings = "aggregation ignore_labels offsets",
    .uses_windows = 1,
    .own_size = sizeof(struct tagger),
    .open = open_row,
    .done = done,
    .label = label,
    .run = run_row,
    .write = write_row,
    .outputs = {{"entities", TASK_JSON}},
    .verb = {.jobs = JOB_CLASSIFY,
             .reader = TASK_READ_BY_BOTH,
             .sample = {"ner", "Ada lived in Oslo."},
             .notes =
                 "Output is a line of JSON for each text, as from the token-classification "
                 "pipeline of transformers: a list of {\"entity_group\": \"...\", \"score\": P, "
                 "\"word\": \"...\", \"start\": N, \"end\": N}; on a terminal lines for "
                 "people."}};
