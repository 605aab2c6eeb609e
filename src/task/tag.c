// SPDX-License-Identifier: Apache-2.0
// The task tag: a label for each word of a text, and the entities that the labels make.
//
// A word is what the tokenizer splits a text into before it cuts pieces: a run of letters and
// digits, or one punctuation mark.
#include "core/memory.h"
#include "metrics/entities.h"
#include "metrics/results.h"
#include "task/model.h"
#include "train/tasks/class_names.h"
#include "train/tasks/tokens.h"

#include <math.h>
#include <string.h>

struct tagger {
    struct class_names names;
    struct word_window_rule rule;
};

static const struct tagger *tagger_of(const struct task_model *model) {
    return model->own;
}

static enum berth_status open_row(struct task_model *model, const struct task_opening *opening,
                                  struct berth_error *error) {
    struct tagger *tagger = model->own;
    TRY(network_open(model, PARAM_HEAD_TOKEN, 0, 2, opening, error));
    TRY(class_names_read(&tagger->names, &model->network->predictor.files, error));
    tagger->rule = tokens_window_rule(&model->config, model->tokenizer);
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
    int32_t label;      // -1: none, as of a word that was left out
    double score;       // the label's softmax probability
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

struct pass {
    const struct task_model *model;
    struct tagged *texts; // [count]
    size_t count;
    struct word_window_set windows; // of all texts; words have their numbers within their text
    size_t *owners;                 // the text of each window
    size_t owner_capacity;
};

static enum berth_status collect_words(struct tagged *tagged, struct berth_error *error) {
    const size_t tokens = tagged->list.count;
    tagged->ids = memory_array(tokens + 1, sizeof *tagged->ids);
    tagged->starts = memory_array(tokens + 1, sizeof *tagged->starts);
    tagged->words = memory_array_zeroed(tokens + 1, sizeof *tagged->words);
    if (tagged->ids == NULL || tagged->starts == NULL || tagged->words == NULL) {
        return error_no_memory(error, tokens * sizeof *tagged->words, "the words");
    }
    for (size_t i = 0; i < tokens; i++) {
        const struct token *token = &tagged->list.items[i];
        if (i == 0 || token->word != token[-1].word) {
            tagged->starts[tagged->word_count] = i;
            tagged->words[tagged->word_count++] =
                (struct word){.start = (int64_t)token->begin, .label = -1};
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

static void read_texts(struct pass *pass, int threads) {
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (size_t i = 0; i < pass->count; i++) {
        struct tagged *tagged = &pass->texts[i];
        const char *words = tagged->text->texts[0];
        struct berth_error error;
        if (tokenizer_encode(pass->model->tokenizer, words, strlen(words), &tagged->list, &error) !=
                BERTH_OK ||
            collect_words(tagged, &error) != BERTH_OK) {
            fail(tagged, &error);
        }
    }
}

static enum berth_status add_windows(struct pass *pass, size_t index, struct berth_error *error) {
    struct tagged *tagged = &pass->texts[index];
    const struct word_pieces pieces = {
        .ids = tagged->ids, .starts = tagged->starts, .count = tagged->word_count};
    const size_t first = pass->windows.count, cut = pass->windows.truncated;
    TRY(word_windows_add(&pass->windows, &tagger_of(pass->model)->rule, &pieces, error));
    size_t *owners =
        memory_grow(pass->owners, &pass->owner_capacity, pass->windows.count + 1, sizeof *owners);
    if (owners == NULL) {
        return error_no_memory(error, pass->windows.count * sizeof *owners, "the words");
    }
    pass->owners = owners;
    for (size_t i = first; i < pass->windows.count; i++) {
        pass->owners[i] = index;
        tagged->text->tokens_read += pass->windows.windows[i].length;
    }
    tagged->text->truncated = pass->windows.truncated > cut;
    return BERTH_OK;
}

static enum berth_status make_windows(struct pass *pass, struct berth_error *error) {
    const size_t length = (size_t)tagger_of(pass->model)->rule.max_seq_length;
    pass->windows.type_ids = memory_array_zeroed(length, sizeof *pass->windows.type_ids);
    if (pass->windows.type_ids == NULL) {
        return error_no_memory(error, length, "the words");
    }
    for (size_t i = 0; i < pass->count; i++) {
        if (pass->texts[i].text->status == BERTH_OK && pass->texts[i].word_count > 0) {
            TRY(add_windows(pass, i, error));
        }
    }
    return BERTH_OK;
}

static void receive(void *context, size_t index, const float *logits, int64_t count) {
    const struct pass *pass = context;
    const struct word_window *window = &pass->windows.windows[index];
    const struct tagged *tagged = &pass->texts[pass->owners[index]];
    const size_t classes = tagger_of(pass->model)->names.count;
    (void)count;
    for (size_t i = window->labels; i < window->labels + (size_t)window->label_count; i++) {
        const float *row = logits + pass->windows.positions[i] * classes;
        struct word *word = &tagged->words[pass->windows.words[i]];
        word->label = results_best_class(row, classes);
        word->score = exp(-task_cross_entropy(row, classes, word->label));
        (void)text_check_finite(tagged->text, row, classes);
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

static void add_words(const struct task_model *model, const struct tagged *tagged) {
    struct text_position position = {0};
    for (size_t i = 0; i < tagged->word_count; i++) {
        const struct word *word = &tagged->words[i];
        const char *name = word->label >= 0 ? label(model, (size_t)word->label) : "O";
        if (strcmp(name, "O") != 0) {
            add_item(tagged->text, &position,
                     &(struct berth_item){.text = name,
                                          .score = word->score,
                                          .start = word->start,
                                          .end = word->end,
                                          .id = word->label});
        }
    }
}

static void add_entity(const struct tagged *tagged, struct text_position *position,
                       const struct entity *found) {
    struct berth_item item = {.text = found->type,
                              .start = tagged->words[found->first].start,
                              .end = tagged->words[found->last].end,
                              .id = -1};
    for (size_t i = found->first; i <= found->last; i++) {
        item.score += tagged->words[i].score / (double)(found->last - found->first + 1);
    }
    add_item(tagged->text, position, &item);
}

static enum berth_status add_entities(const struct task_model *model, const struct tagged *tagged,
                                      struct berth_error *error) {
    const char **labels = memory_array(tagged->word_count, sizeof *labels);
    struct entity *found = NULL;
    size_t count = 0;
    if (labels == NULL) {
        return error_no_memory(error, tagged->word_count * sizeof *labels, "the labels");
    }
    for (size_t i = 0; i < tagged->word_count; i++) {
        const int32_t own = tagged->words[i].label;
        labels[i] = own >= 0 ? label(model, (size_t)own) : "O";
    }
    const enum berth_status status = entities_of(labels, tagged->word_count, &found, &count, error);
    memory_free((void *)labels);
    struct text_position position = {0};
    for (size_t i = 0; status == BERTH_OK && i < count; i++) {
        add_entity(tagged, &position, &found[i]);
    }
    memory_free(found);
    return status;
}

// A word is at most one item, and so is an entity of words.
static void make_items(const struct task_model *model, struct tagged *tagged) {
    struct berth_error error;
    if (tagged->text->status != BERTH_OK ||
        task_text_items(tagged->text, tagged->word_count) == NULL) {
        return;
    }
    tagged->text->item_count = 0;
    if (tagged->text->settings.aggregation == AGGREGATE_NONE) {
        add_words(model, tagged);
    } else if (add_entities(model, tagged, &error) != BERTH_OK) {
        fail(tagged, &error);
    }
}

// --- the row ------------------------------------------------------------------------------------

static enum berth_status tag(struct pass *pass, struct berth_error *error) {
    read_texts(pass, network_threads(pass->model, pass->count));
    TRY(make_windows(pass, error));
    const struct packer_source source = {
        .get = word_windows_sequence, .data = &pass->windows, .count = pass->windows.count};
    const struct infer_args args = {.source = &source, .receive = receive, .context = pass};
    TRY(network_run(pass->model, args, error));
    for (size_t i = 0; i < pass->count; i++) {
        make_items(pass->model, &pass->texts[i]);
    }
    return BERTH_OK;
}

static enum berth_status run_row(const struct task_model *model, struct task_text *const *texts,
                                 size_t count, struct berth_error *error) {
    struct pass pass = {.model = model, .texts = memory_array_zeroed(count, sizeof *pass.texts)};
    if (pass.texts == NULL) {
        return error_no_memory(error, count * sizeof *pass.texts, "the texts");
    }
    for (; pass.count < count; pass.count++) {
        pass.texts[pass.count].text = texts[pass.count];
    }
    const enum berth_status status = tag(&pass, error);
    for (size_t i = 0; i < count; i++) {
        token_list_done(&pass.texts[i].list);
        memory_free(pass.texts[i].ids);
        memory_free(pass.texts[i].starts);
        memory_free(pass.texts[i].words);
    }
    word_windows_done(&pass.windows);
    memory_free(pass.owners);
    memory_free(pass.texts);
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
    .own_size = sizeof(struct tagger),
    .open = open_row,
    .done = done,
    .label = label,
    .run = run_row,
    .write = write_row,
    .outputs = {{"entities", TASK_JSON}},
    .verb = {.jobs = JOB_FILL,
             .reader = TASK_READ_BY_BOTH,
             .sample = {"ner", "Ada lived in Oslo."},
             .notes =
                 "Output is a line of JSON for each text, as from the token-classification "
                 "pipeline of transformers: a list of {\"entity_group\": \"...\", \"score\": P, "
                 "\"word\": \"...\", \"start\": N, \"end\": N}; on a terminal lines for "
                 "people."}};
