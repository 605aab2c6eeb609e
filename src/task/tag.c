// SPDX-License-Identifier: Apache-2.0
// A tagger in memory: a label for each word of a text, and the entities that the labels make.
//
// A word is what the tokenizer splits a text into before it cuts pieces: a run of letters and
// digits, or one punctuation mark. Threads may share a tagger (inference.h).
#include "core/memory.h"
#include "metrics/entities.h"
#include "metrics/results.h"
#include "task/arguments.h"
#include "task/inference.h"
#include "task/task.h"
#include "task/texts.h"
#include "train/tasks/class_names.h"
#include "train/tasks/tokens.h"

#include <math.h>
#include <string.h>

struct berth_tagger {
    struct inference inference;
    struct class_names names;
    struct word_window_rule rule;
};

static enum berth_status load_handle(void *handle, const struct inference_source *source,
                                     struct berth_error *error) {
    struct berth_tagger *tagger = handle;
    struct inference *inference = &tagger->inference;
    const struct model_files *files = &inference->predictor.files;
    const struct predictor_kind kind = {PARAM_HEAD_TOKEN, 0};
    TRY(predictor_open(&inference->predictor, &inference->config, &kind, source->comm, source->log,
                       error));
    TRY(class_names_read(&tagger->names, files, error));
    tagger->rule = tokens_window_rule(&inference->config, files->tokenizer);
    inference_set_extent(inference);
    inference->extent.masked = inference->extent.tokens; // a word has at least one token
    return inference_load(inference, source->log, error);
}

static void done(void *handle) {
    class_names_done(&((struct berth_tagger *)handle)->names);
}

static const struct inference_kind kind = {.size = sizeof(struct berth_tagger),
                                           .what = "a tagger",
                                           .job = JOB_PREDICT_TOKENS,
                                           .load = load_handle,
                                           .done = done};

enum berth_status berth_tagger_open(const struct berth_config *config, struct berth_log log,
                                    struct berth_tagger **tagger, struct berth_error *error) {
    REQUIRE(tagger, error);
    *tagger = NULL;
    REQUIRE_CONFIG(config, error);
    const struct inference_source source = {.config = config, .comm = comm_self(), .log = &log};
    void *opened;
    const enum berth_status status = inference_open(&kind, &source, &opened, error);
    *tagger = opened;
    return status;
}

void berth_tagger_close(struct berth_tagger *tagger) {
    inference_close(&kind, tagger);
}

// --- words --------------------------------------------------------------------------------------

// A text on its way through the network.
struct tagged {
    struct token_list list;
    int32_t *ids;
    size_t *starts; // index of each word's first token
    struct berth_tags *tags;
    struct berth_text_status *status;
};

struct pass {
    const struct berth_tagger *tagger;
    struct tagged *texts; // [count]
    size_t count;
    struct word_window_set windows; // of all texts; words have their numbers within their text
    size_t *owners;                 // the text of each window
    size_t owner_capacity;
};

static enum berth_status no_memory(const struct tagged *text, struct berth_error *error) {
    return error_no_memory(error, text->list.count * sizeof *text->tags->words, "the words");
}

static enum berth_status collect_words(struct tagged *text, struct berth_error *error) {
    const size_t tokens = text->list.count;
    struct berth_tags *tags = text->tags;
    text->ids = memory_array(tokens + 1, sizeof *text->ids);
    text->starts = memory_array(tokens + 1, sizeof *text->starts);
    tags->words = memory_array_zeroed(tokens + 1, sizeof *tags->words);
    if (text->ids == NULL || text->starts == NULL || tags->words == NULL) {
        return no_memory(text, error);
    }
    for (size_t i = 0; i < tokens; i++) {
        const struct token *token = &text->list.items[i];
        if (i == 0 || token->word != token[-1].word) {
            text->starts[tags->word_count] = i;
            tags->words[tags->word_count++].start = (int64_t)token->begin;
        }
        tags->words[tags->word_count - 1].end = (int64_t)token->end;
        text->ids[i] = token->id;
    }
    text->starts[tags->word_count] = tokens;
    return BERTH_OK;
}

static enum berth_status read_text(const struct berth_tagger *tagger, const char *words,
                                   struct tagged *text, struct berth_error *error) {
    if (words == NULL) {
        return error_set(error, BERTH_USAGE, "the text is NULL");
    }
    TRY(tokenizer_encode(tagger->inference.predictor.files.tokenizer, words, strlen(words),
                         &text->list, error));
    return collect_words(text, error);
}

// The status of a text says whether it failed.
static void read_texts(struct pass *pass, const char *const *texts, int threads) {
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (size_t i = 0; i < pass->count; i++) {
        struct tagged *text = &pass->texts[i];
        struct berth_error *error = &text->status->error;
        error->status = read_text(pass->tagger, texts[i], text, error);
    }
}

static enum berth_status add_windows(struct pass *pass, size_t index, struct berth_error *error) {
    struct tagged *text = &pass->texts[index];
    const struct word_pieces pieces = {
        .ids = text->ids, .starts = text->starts, .count = text->tags->word_count};
    const size_t first = pass->windows.count, cut = pass->windows.truncated;
    TRY(word_windows_add(&pass->windows, &pass->tagger->rule, &pieces, error));
    size_t *owners =
        memory_grow(pass->owners, &pass->owner_capacity, pass->windows.count + 1, sizeof *owners);
    if (owners == NULL) {
        return no_memory(text, error);
    }
    pass->owners = owners;
    for (size_t i = first; i < pass->windows.count; i++) {
        pass->owners[i] = index;
        text->status->tokens += pass->windows.windows[i].length;
    }
    text->status->truncated = pass->windows.truncated > cut;
    return BERTH_OK;
}

static enum berth_status make_windows(struct pass *pass, struct berth_error *error) {
    const size_t length = (size_t)pass->tagger->rule.max_seq_length;
    pass->windows.type_ids = memory_array_zeroed(length, sizeof *pass->windows.type_ids);
    if (pass->windows.type_ids == NULL) {
        return error_no_memory(error, length, "the words");
    }
    for (size_t i = 0; i < pass->count; i++) {
        const struct tagged *text = &pass->texts[i];
        if (text->status->error.status == BERTH_OK && text->tags->word_count > 0) {
            TRY(add_windows(pass, i, error));
        }
    }
    return BERTH_OK;
}

// The label's softmax probability.
static double probability_of(const float *logits, size_t classes, int32_t best) {
    return exp(-task_cross_entropy(logits, classes, best));
}

static void receive(void *context, size_t index, const float *logits, int64_t count) {
    const struct pass *pass = context;
    const struct word_window *window = &pass->windows.windows[index];
    const struct tagged *text = &pass->texts[pass->owners[index]];
    const size_t classes = pass->tagger->names.count;
    (void)count;
    for (size_t i = window->labels; i < window->labels + (size_t)window->label_count; i++) {
        const float *row = logits + pass->windows.positions[i] * classes;
        struct berth_tagged_word *word = &text->tags->words[pass->windows.words[i]];
        const int32_t best = results_best_class(row, classes);
        (void)texts_check_finite(text->status, row, classes);
        word->label = pass->tagger->names.list[best];
        word->score = probability_of(row, classes, best);
    }
}

static enum berth_status run(const struct pass *pass, struct berth_error *error) {
    const struct packer_source source = {
        .get = word_windows_sequence, .data = &pass->windows, .count = pass->windows.count};
    const struct infer_args args = {.source = &source, .receive = receive, .context = (void *)pass};
    return inference_run(&pass->tagger->inference, args, error);
}

// --- entities -----------------------------------------------------------------------------------

static struct berth_entity entity_at(const struct berth_tags *tags, const struct entity *found) {
    struct berth_entity entity = {.type = found->type,
                                  .start = tags->words[found->first].start,
                                  .end = tags->words[found->last].end};
    for (size_t i = found->first; i <= found->last; i++) {
        entity.score += tags->words[i].score / (double)(found->last - found->first + 1);
    }
    return entity;
}

static enum berth_status find_entities(struct berth_tags *tags, struct berth_error *error) {
    const char **labels = memory_array(tags->word_count, sizeof *labels);
    struct entity *found = NULL;
    size_t count = 0;
    if (labels == NULL) {
        return error_no_memory(error, tags->word_count * sizeof *labels, "the labels");
    }
    for (size_t i = 0; i < tags->word_count; i++) {
        labels[i] = tags->words[i].label;
    }
    enum berth_status status = entities_of(labels, tags->word_count, &found, &count, error);
    memory_free((void *)labels);
    TRY(status);
    tags->entities = memory_array(count + 1, sizeof *tags->entities);
    for (size_t i = 0; i < count && tags->entities != NULL; i++) {
        tags->entities[tags->entity_count++] = entity_at(tags, &found[i]);
    }
    memory_free(found);
    return tags->entities != NULL
               ? BERTH_OK
               : error_no_memory(error, count * sizeof *tags->entities, "the entities");
}

// --- texts --------------------------------------------------------------------------------------

static void find_all_entities(struct pass *pass) {
    for (size_t i = 0; i < pass->count; i++) {
        struct tagged *text = &pass->texts[i];
        struct berth_error *error = &text->status->error;
        if (error->status == BERTH_OK) {
            error->status = find_entities(text->tags, error);
        }
        if (error->status != BERTH_OK) {
            berth_tags_done(text->tags);
        }
    }
}

static enum berth_status tag(struct pass *pass, const char *const *texts,
                             struct berth_error *error) {
    read_texts(pass, texts, inference_threads(&pass->tagger->inference, pass->count));
    TRY(make_windows(pass, error));
    if (pass->windows.count > 0) {
        TRY(run(pass, error));
    }
    find_all_entities(pass);
    return BERTH_OK;
}

static void pass_done(struct pass *pass) {
    for (size_t i = 0; i < pass->count; i++) {
        token_list_done(&pass->texts[i].list);
        memory_free(pass->texts[i].ids);
        memory_free(pass->texts[i].starts);
    }
    word_windows_done(&pass->windows);
    memory_free(pass->owners);
    memory_free(pass->texts);
}

enum berth_status berth_tag_many(const struct berth_tagger *tagger, const char *const *texts,
                                 size_t count, struct berth_tags *tags,
                                 struct berth_text_status *statuses, struct berth_error *error) {
    CLEAR(tags, count);
    REQUIRE(tagger, error);
    if (count == 0) {
        return BERTH_OK;
    }
    REQUIRE(tags, error);
    REQUIRE(texts, error);
    REQUIRE(statuses, error);
    struct pass pass = {.tagger = tagger, .texts = memory_array_zeroed(count, sizeof *pass.texts)};
    if (pass.texts == NULL) {
        return error_no_memory(error, count * sizeof *pass.texts, "the texts");
    }
    pass.count = count;
    for (size_t i = 0; i < count; i++) {
        statuses[i] = (struct berth_text_status){.tokens = 0};
        pass.texts[i].tags = &tags[i];
        pass.texts[i].status = &statuses[i];
    }
    enum berth_status status = tag(&pass, texts, error);
    for (size_t i = 0; status != BERTH_OK && i < count; i++) {
        berth_tags_done(&tags[i]);
    }
    pass_done(&pass);
    return status;
}

enum berth_status berth_tag(const struct berth_tagger *tagger, const char *text,
                            struct berth_tags *tags, struct berth_error *error) {
    struct berth_text_status own;
    REQUIRE(tags, error);
    *tags = (struct berth_tags){.words = NULL};
    REQUIRE(tagger, error);
    REQUIRE(text, error);
    TRY(berth_tag_many(tagger, &text, 1, tags, &own, error));
    return error_copy(error, &own.error);
}

int64_t berth_tagger_max_length(const struct berth_tagger *tagger) {
    return tagger != NULL ? tagger->inference.config.max_seq_length : 0;
}

void berth_tags_done(struct berth_tags *tags) {
    if (tags != NULL) {
        memory_free(tags->words);
        memory_free(tags->entities);
        *tags = (struct berth_tags){.words = NULL};
    }
}

// --- the row ------------------------------------------------------------------------------------

static enum berth_status open_row(struct task_model *model, struct berth_log log,
                                  struct berth_error *error) {
    return berth_tagger_open(&model->config, log, &model->handle.tagger, error);
}

static void close_row(struct task_model *model) {
    berth_tagger_close(model->handle.tagger);
}

static int64_t max_tokens(const struct task_model *model) {
    return berth_tagger_max_length(model->handle.tagger);
}

static const char *label(const struct task_model *model, size_t index) {
    const struct class_names *names = &model->handle.tagger->names;
    return index < names->count ? names->list[index] : NULL;
}

static int64_t id_of(const struct task_model *model, const char *name) {
    for (size_t i = 0; label(model, i) != NULL; i++) {
        if (strcmp(label(model, i), name) == 0) {
            return (int64_t)i;
        }
    }
    return -1;
}

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

static void add_words(const struct task_model *model, struct task_text *text,
                      const struct berth_tags *tags) {
    struct text_position position = {0};
    for (size_t i = 0; i < tags->word_count; i++) {
        const struct berth_tagged_word *word = &tags->words[i];
        if (word->label != NULL && strcmp(word->label, "O") != 0) {
            add_item(text, &position,
                     &(struct berth_item){.text = word->label,
                                          .score = word->score,
                                          .start = word->start,
                                          .end = word->end,
                                          .id = id_of(model, word->label)});
        }
    }
}

static void add_entities(struct task_text *text, const struct berth_tags *tags) {
    struct text_position position = {0};
    for (size_t i = 0; i < tags->entity_count; i++) {
        const struct berth_entity *entity = &tags->entities[i];
        add_item(text, &position,
                 &(struct berth_item){.text = entity->type,
                                      .score = entity->score,
                                      .start = entity->start,
                                      .end = entity->end,
                                      .id = -1});
    }
}

static void keep_tags(const struct task_model *model, struct task_text *text,
                      const struct berth_text_status *status, const struct berth_tags *tags) {
    const int by_word = text->settings.aggregation == AGGREGATE_NONE;
    text->tokens_read = status->tokens;
    if (status->error.status != BERTH_OK) {
        task_text_fail(text, status->error.status, status->error.message);
    } else if (task_text_items(text, by_word ? tags->word_count : tags->entity_count) != NULL) {
        text->item_count = 0;
        if (by_word) {
            add_words(model, text, tags);
        } else {
            add_entities(text, tags);
        }
    }
}

static enum berth_status run_row(const struct task_model *model, struct task_text *const *texts,
                                 size_t count, struct berth_error *error) {
    const char **words = memory_array(count, sizeof *words);
    struct berth_tags *tags = memory_array_zeroed(count, sizeof *tags);
    struct berth_text_status *statuses = memory_array(count, sizeof *statuses);
    enum berth_status status = words != NULL && tags != NULL && statuses != NULL
                                   ? BERTH_OK
                                   : error_no_memory(error, count * sizeof *statuses, "tags");
    for (size_t i = 0; status == BERTH_OK && i < count; i++) {
        words[i] = texts[i]->texts[0];
    }
    if (status == BERTH_OK) {
        status = berth_tag_many(model->handle.tagger, words, count, tags, statuses, error);
    }
    for (size_t i = 0; status == BERTH_OK && i < count; i++) {
        keep_tags(model, texts[i], &statuses[i], &tags[i]);
        berth_tags_done(&tags[i]);
    }
    memory_free((void *)words);
    memory_free(tags);
    memory_free(statuses);
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

// A word has the label of its first piece, as with the aggregation strategy "first" of
// transformers' pipeline.
const struct task_row row_tag = {
    .about = {.name = "tag",
              .pipeline = "token-classification",
              .text = "text",
              .label = "tags",
              .has_items = 1,
              .trains = 1,
              .help = "the entities of a text, or the labels of its words, in their order"},
    .architectures = {"ForTokenClassification"},
    .job = JOB_PREDICT_TOKENS,
    .settings = "aggregation offsets",
    .uses_windows = 1,
    .open = open_row,
    .close = close_row,
    .max_tokens = max_tokens,
    .label = label,
    .run = run_row,
    .write = write_row,
    .outputs = {{"entities", TASK_JSON}}};
