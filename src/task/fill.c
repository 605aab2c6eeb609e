// SPDX-License-Identifier: Apache-2.0
// A model in memory that finds words for [MASK]. Threads may share it (inference.h).
#include "core/memory.h"
#include "core/utf8.h"
#include "task/arguments.h"
#include "task/inference.h"
#include "task/task.h"
#include "task/texts.h"
#include "text/decode.h"

#include <math.h>
#include <string.h>

// The most masked tokens in a batch, unless a single text has more.
#define FILL_MASKED 256

struct berth_filler {
    struct inference inference;
};

static const struct tokenizer *tokenizer_of(const struct berth_filler *filler) {
    return filler->inference.predictor.files.tokenizer;
}

static enum berth_status load_handle(void *handle, const struct inference_source *source,
                                     struct berth_error *error) {
    struct berth_filler *filler = handle;
    struct inference *inference = &filler->inference;
    struct berth_config *config = &inference->config;
    const struct predictor_kind kind = {PARAM_HEAD_MASKED, LENGTH_OF_MODEL};
    TRY(predictor_open(&inference->predictor, config, &kind, source->comm, source->log, error));
    if (tokenizer_special_ids(tokenizer_of(filler)).mask < 0) {
        return error_set(error, BERTH_BAD_DATA, "%s: missing token [MASK]; use a BERT vocabulary",
                         inference->predictor.files.vocab_path);
    }
    const int64_t length = config->max_seq_length, all = config->predict_batch_size * length;
    const int64_t tokens = all < INFER_TOKENS ? all : INFER_TOKENS;
    // A text has at least three tokens.
    inference->extent = (struct batch_extent){.tokens = tokens > length ? tokens : length,
                                              .sequences = (tokens > length ? tokens : length) / 3,
                                              .masked = length > FILL_MASKED ? length : FILL_MASKED,
                                              .max_length = length};
    return inference_load(inference, source->log, error);
}

static const struct inference_kind kind = {
    .size = sizeof(struct berth_filler), .what = "a model", .job = JOB_FILL, .load = load_handle};

enum berth_status berth_filler_open(const struct berth_config *config, struct berth_log log,
                                    struct berth_filler **filler, struct berth_error *error) {
    REQUIRE(filler, error);
    *filler = NULL;
    REQUIRE_CONFIG(config, error);
    const struct inference_source source = {.config = config, .comm = comm_self(), .log = &log};
    void *opened;
    const enum berth_status status = inference_open(&kind, &source, &opened, error);
    *filler = opened;
    return status;
}

void berth_filler_close(struct berth_filler *filler) {
    inference_close(&kind, filler);
}

// --- texts --------------------------------------------------------------------------------------

struct pass {
    const struct berth_filler *filler;
    struct texts texts;
    struct berth_text_status *statuses; // in the caller's order
    size_t *masked;                     // [masked_count] indices of the texts that have a mask
    size_t masked_count;
    uint16_t *positions; // of all masks, within their texts
    int32_t *labels;     // as many zeros: the words are unknown
    size_t *firsts;      // [texts + 1] where each text's masks begin in `positions`
    size_t top_k;
    float *found; // [masks][top_k] pairs of score and token
};

static enum berth_status make_features(struct pass *pass, const char *const *texts, size_t count,
                                       struct berth_error *error) {
    struct berth_text *items = memory_array_zeroed(count, sizeof *items);
    if (items == NULL) {
        return error_no_memory(error, count * sizeof *items, "the texts");
    }
    for (size_t i = 0; i < count; i++) {
        items[i].text = texts[i];
    }
    const struct texts_args args = {.items = items, .count = count, .statuses = pass->statuses};
    enum berth_status status = texts_prepare(&pass->texts, &pass->filler->inference, &args, error);
    memory_free(items);
    return status;
}

static void refuse(const struct pass *pass, size_t text) {
    const char *words = pass->texts.dataset.examples[text].text;
    const char *dots = strlen(words) > 60 ? "..." : "";
    struct berth_text_status *own = &pass->statuses[pass->texts.indices[text]];
    (void)error_set(&own->error, BERTH_BAD_DATA, "no [MASK] in %s\"%.*s%s\"",
                    own->truncated ? "the first max_seq_length tokens of " : "",
                    UTF8_SHOWN(words, 60), dots);
}

// Lists the masks of a text; returns their number.
static size_t find_in_text(struct pass *pass, size_t text) {
    const int32_t mask = tokenizer_special_ids(tokenizer_of(pass->filler)).mask;
    const struct pair_feature *feature = &pass->texts.features.features[text];
    uint16_t *positions = pass->positions + pass->firsts[text];
    size_t count = 0;
    for (int32_t row = 0; row < feature->length; row++) {
        if (pass->texts.features.ids[feature->first + (size_t)row] == mask) {
            positions[count++] = (uint16_t)row;
        }
    }
    return count;
}

static enum berth_status find_masks(struct pass *pass, struct berth_error *error) {
    const struct pair_feature_set *set = &pass->texts.features;
    pass->positions = memory_array(set->token_count, sizeof *pass->positions);
    pass->labels = memory_array_zeroed(set->token_count, sizeof *pass->labels);
    pass->firsts = memory_array_zeroed(set->count + 1, sizeof *pass->firsts);
    pass->masked = memory_array(set->count, sizeof *pass->masked);
    if (pass->positions == NULL || pass->labels == NULL || pass->firsts == NULL ||
        pass->masked == NULL) {
        return error_no_memory(error, set->token_count * sizeof *pass->labels, "the masks");
    }
    for (size_t i = 0; i < set->count; i++) {
        const size_t own = find_in_text(pass, i);
        pass->firsts[i + 1] = pass->firsts[i] + own;
        if (own > 0) {
            pass->masked[pass->masked_count++] = i;
        } else {
            refuse(pass, i);
        }
    }
    const size_t pairs = pass->firsts[set->count] * pass->top_k;
    pass->found = memory_array(pairs, 2 * sizeof *pass->found);
    return pass->found != NULL ? BERTH_OK
                               : error_no_memory(error, pairs * 2 * sizeof *pass->found, "words");
}

static struct packer_sequence get(const void *data, size_t index) {
    const struct pass *pass = data;
    const size_t text = pass->masked[index];
    struct packer_sequence sequence = pair_features_sequence(&pass->texts.features, text);
    sequence.masked_positions = pass->positions + pass->firsts[text];
    sequence.masked_labels = pass->labels;
    sequence.masked_count = (int32_t)(pass->firsts[text + 1] - pass->firsts[text]);
    return sequence;
}

// --- words --------------------------------------------------------------------------------------

static double sum_exp(const float *logits, int64_t words, double max) {
    double sum = 0;
    for (int64_t i = 0; i < words; i++) {
        sum += exp((double)logits[i] - max);
    }
    return sum;
}

// Inserts the token into best[*count], pairs of logit and token in descending order, of which at
// most `max` are extracted.
static void insert(float *best, size_t *count, size_t max, float logit, int64_t token) {
    size_t at = *count;
    if (at == max && !(logit > best[2 * (at - 1)])) {
        return;
    }
    at = at < max ? at : at - 1;
    *count = at + 1;
    for (; at > 0 && logit > best[2 * (at - 1)]; at--) {
        best[2 * at] = best[2 * (at - 1)];
        best[2 * at + 1] = best[2 * (at - 1) + 1];
    }
    best[2 * at] = logit;
    best[2 * at + 1] = (float)token; // exact: a vocabulary has fewer than 2^24 words
}

static void extract_words(void *context, const float *logits, int64_t words, float *extracted) {
    const struct pass *pass = context;
    size_t count = 0;
    for (int64_t i = 0; i < words; i++) {
        insert(extracted, &count, pass->top_k, logits[i], i);
    }
    const double max = (double)extracted[0], sum = sum_exp(logits, words, max);
    for (size_t i = 0; i < pass->top_k; i++) {
        extracted[2 * i] = (float)(exp((double)extracted[2 * i] - max) / sum);
    }
}

static void receive(void *context, size_t index, const float *found, int64_t count) {
    struct pass *pass = context;
    const size_t text = pass->masked[index];
    (void)texts_check_finite(&pass->statuses[pass->texts.indices[text]], found, (size_t)count);
    memcpy(pass->found + pass->firsts[text] * 2 * pass->top_k, found,
           (size_t)count * sizeof *found);
}

static enum berth_status find_words(struct pass *pass, struct berth_error *error) {
    const struct packer_source source = {.get = get, .data = pass, .count = pass->masked_count};
    const struct infer_args args = {.source = &source,
                                    .extract_words = extract_words,
                                    .extracted_count = (int64_t)(2 * pass->top_k),
                                    .receive = receive,
                                    .context = pass};
    return inference_run(&pass->filler->inference, args, error);
}

// --- results ------------------------------------------------------------------------------------

// Makes the word `number` of a text, which is for the text's mask number / top_k.
static enum berth_status make_word(const struct pass *pass, size_t text, size_t number,
                                   struct berth_word *word, struct berth_error *error) {
    const struct pair_feature *feature = &pass->texts.features.features[text];
    const struct tokenizer *tokenizer = tokenizer_of(pass->filler);
    const size_t first = pass->firsts[text], mask = first + number / pass->top_k;
    const float *found = pass->found + 2 * (first * pass->top_k + number);
    int32_t *ids = pass->texts.features.ids + feature->first, *id = ids + pass->positions[mask];
    const int32_t before = *id;
    word->score = (double)found[0];
    word->token = (int32_t)found[1];
    const char *piece = tokenizer_piece(tokenizer, word->token);
    word->token_str = piece != NULL ? piece : ""; // a padded vocabulary has rows without a piece
    *id = word->token;
    word->sequence =
        decode_text(tokenizer, ids, (size_t)feature->length, pass->firsts[text + 1] - first == 1);
    *id = before;
    return word->sequence != NULL
               ? BERTH_OK
               : error_no_memory(error, (size_t)feature->length, "the text with a word");
}

static enum berth_status make_filled(const struct pass *pass, size_t text,
                                     struct berth_filled *filled, struct berth_error *error) {
    filled->masks = pass->firsts[text + 1] - pass->firsts[text];
    filled->top_k = pass->top_k;
    filled->words = memory_array_zeroed(filled->masks * filled->top_k, sizeof *filled->words);
    if (filled->words == NULL) {
        return error_no_memory(error, filled->masks * filled->top_k * sizeof *filled->words,
                               "words");
    }
    for (size_t i = 0; i < filled->masks * filled->top_k; i++) {
        TRY(make_word(pass, text, i, &filled->words[i], error));
    }
    return BERTH_OK;
}

// Makes the results of the texts that have not failed.
static enum berth_status make_all_filled(const struct pass *pass, struct berth_filled *filled,
                                         struct berth_error *error) {
    for (size_t i = 0; i < pass->masked_count; i++) {
        const size_t text = pass->masked[i], item = pass->texts.indices[text];
        if (pass->statuses[item].error.status == BERTH_OK) {
            TRY(make_filled(pass, text, &filled[item], error));
        }
    }
    return BERTH_OK;
}

static enum berth_status fill(struct pass *pass, const char *const *texts, size_t count,
                              struct berth_filled *filled, struct berth_error *error) {
    TRY(make_features(pass, texts, count, error));
    TRY(find_masks(pass, error));
    if (pass->masked_count > 0) {
        TRY(find_words(pass, error));
    }
    return make_all_filled(pass, filled, error);
}

static enum berth_status check_top_k(const struct berth_filler *filler, size_t top_k,
                                     struct berth_error *error) {
    const size_t words = tokenizer_size(tokenizer_of(filler));
    return top_k >= 1 && top_k <= words
               ? BERTH_OK
               : error_set(error, BERTH_USAGE, "top_k: expected 1 to %zu, found %zu", words, top_k);
}

enum berth_status berth_fill_many(const struct berth_filler *filler, const char *const *texts,
                                  size_t count, size_t top_k, struct berth_filled *filled,
                                  struct berth_text_status *statuses, struct berth_error *error) {
    CLEAR(filled, count);
    REQUIRE(filler, error);
    TRY(check_top_k(filler, top_k, error));
    if (count == 0) {
        return BERTH_OK;
    }
    REQUIRE(filled, error);
    REQUIRE(texts, error);
    REQUIRE(statuses, error);
    struct pass pass = {.filler = filler, .statuses = statuses, .top_k = top_k};
    enum berth_status status = fill(&pass, texts, count, filled, error);
    texts_done(&pass.texts);
    memory_free(pass.masked);
    memory_free(pass.firsts);
    memory_free(pass.positions);
    memory_free(pass.labels);
    memory_free(pass.found);
    if (status != BERTH_OK) {
        berth_filled_free(filled, count);
    }
    return status;
}

// The error of the first text that failed.
static enum berth_status first_failure(const struct berth_text_status *statuses, size_t count,
                                       struct berth_error *error) {
    for (size_t i = 0; i < count; i++) {
        const struct berth_error *own = &statuses[i].error;
        if (own->status != BERTH_OK) {
            return error_set(error, own->status, "text %zu: %s", i + 1, own->message);
        }
    }
    return BERTH_OK;
}

enum berth_status berth_fill(const struct berth_filler *filler, const char *const *texts,
                             size_t count, size_t top_k, struct berth_filled *filled,
                             struct berth_error *error) {
    CLEAR(filled, count);
    REQUIRE(filler, error);
    if (count > 0) {
        REQUIRE(filled, error);
        REQUIRE(texts, error);
    }
    TRY(argument_texts(texts, count, "text", error));
    struct berth_text_status *statuses = memory_array_zeroed(count, sizeof *statuses);
    if (statuses == NULL) {
        return error_no_memory(error, count * sizeof *statuses, "the texts");
    }
    enum berth_status status =
        berth_fill_many(filler, texts, count, top_k, filled, statuses, error);
    if (status == BERTH_OK && (status = first_failure(statuses, count, error)) != BERTH_OK) {
        berth_filled_free(filled, count);
    }
    memory_free(statuses);
    return status;
}

int64_t berth_filler_max_length(const struct berth_filler *filler) {
    return filler != NULL ? filler->inference.config.max_seq_length : 0;
}

void berth_filled_free(struct berth_filled *filled, size_t count) {
    for (size_t i = 0; filled != NULL && i < count; i++) {
        for (size_t word = 0; filled[i].words != NULL && word < filled[i].masks * filled[i].top_k;
             word++) {
            memory_free(filled[i].words[word].sequence);
        }
        memory_free(filled[i].words);
        filled[i] = (struct berth_filled){0};
    }
}

// --- the row ------------------------------------------------------------------------------------

#define TOP_DEFAULT 5
// Each word comes with the whole text, so a short request can have a very long reply.
#define SEQUENCES_MAX ((size_t)16 << 20)

static enum berth_status open_row(struct task_model *model, struct berth_log log,
                                  struct berth_error *error) {
    return berth_filler_open(&model->config, log, &model->handle.filler, error);
}

static void close_row(struct task_model *model) {
    berth_filler_close(model->handle.filler);
}

static int64_t max_tokens(const struct task_model *model) {
    return berth_filler_max_length(model->handle.filler);
}

static size_t top_of(const struct task_text *text) {
    return text->settings.top > 0 ? (size_t)text->settings.top : TOP_DEFAULT;
}

static size_t count_masks(const char *text) {
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, "[MASK]")) != NULL; at++) {
        count++;
    }
    return count;
}

static enum berth_status check_row(const struct task_text *texts, size_t count,
                                   struct berth_error *error) {
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const char *text = texts[i].texts[0];
        const size_t words = count_masks(text) * top_of(&texts[i]), length = strlen(text);
        bytes += length > 0 && words > SEQUENCES_MAX / length ? SEQUENCES_MAX : words * length;
        if (bytes >= SEQUENCES_MAX) {
            return error_set(error, BERTH_USAGE,
                             "the reply would exceed %zu MiB: it has the whole text for each word "
                             "of each [MASK]",
                             SEQUENCES_MAX >> 20);
        }
    }
    return BERTH_OK;
}

// Texts with the same top, and their results.
struct group {
    struct task_text **items; // [count], as all below
    const char **texts;
    struct berth_filled *filled;
    struct berth_text_status *statuses;
    size_t count;
};

static void gather(struct group *group, size_t top, struct task_text *const *texts, size_t count) {
    group->count = 0;
    for (size_t i = 0; i < count; i++) {
        if (top_of(texts[i]) == top) {
            group->texts[group->count] = texts[i]->texts[0];
            group->items[group->count++] = texts[i];
        }
    }
}

// The text with a word is beside the item: items of all masks, and then as many texts in `owned`.
static void keep_words(struct task_text *text, const struct berth_text_status *status,
                       struct berth_filled *filled) {
    const size_t count = filled->masks * filled->top_k;
    text->tokens_read = status->tokens;
    text->truncated = status->truncated;
    if (status->error.status != BERTH_OK) {
        task_text_fail(text, status->error.status, status->error.message);
        return;
    }
    struct berth_item *items = task_text_items(text, count);
    for (size_t i = 0; items != NULL && i < count; i++) {
        struct berth_word *word = &filled->words[i];
        items[i].text = word->token_str;
        items[i].score = word->score;
        items[i].id = word->token;
        items[i].group = (int64_t)(i / filled->top_k);
        items[i].reserved[0] = task_text_own(text, word->sequence);
        word->sequence = NULL;
    }
}

// A top that exceeds the vocabulary concerns this group only.
static enum berth_status run_group(const struct task_model *model, struct group *group, size_t top,
                                   struct berth_error *error) {
    const enum berth_status status =
        berth_fill_many(model->handle.filler, group->texts, group->count, top, group->filled,
                        group->statuses, error);
    if (status == BERTH_USAGE) {
        for (size_t i = 0; i < group->count; i++) {
            task_text_fail(group->items[i], status, error->message);
        }
        return BERTH_OK;
    }
    TRY(status);
    for (size_t i = 0; i < group->count; i++) {
        keep_words(group->items[i], &group->statuses[i], &group->filled[i]);
    }
    berth_filled_free(group->filled, group->count);
    return BERTH_OK;
}

// One group after the other, in ascending order of top.
static enum berth_status run_groups(const struct task_model *model, struct group *group,
                                    struct task_text *const *texts, size_t count,
                                    struct berth_error *error) {
    for (size_t last = 0, top = 0; last != SIZE_MAX; last = top) {
        top = SIZE_MAX;
        for (size_t i = 0; i < count; i++) {
            const size_t own = top_of(texts[i]);
            top = own > last && own < top ? own : top;
        }
        gather(group, top, texts, count);
        if (group->count > 0) {
            TRY(run_group(model, group, top, error));
        }
    }
    return BERTH_OK;
}

static enum berth_status run_row(const struct task_model *model, struct task_text *const *texts,
                                 size_t count, struct berth_error *error) {
    struct group group = {.items = memory_array(count, sizeof *group.items),
                          .texts = memory_array(count, sizeof *group.texts),
                          .filled = memory_array(count, sizeof *group.filled),
                          .statuses = memory_array(count, sizeof *group.statuses)};
    enum berth_status status =
        group.items != NULL && group.texts != NULL && group.filled != NULL && group.statuses != NULL
            ? run_groups(model, &group, texts, count, error)
            : error_no_memory(error, count * sizeof *group.statuses, "words");
    memory_free(group.items);
    memory_free((void *)group.texts);
    memory_free(group.filled);
    memory_free(group.statuses);
    return status;
}

static void write_item(struct json_line *line, const struct berth_item *item) {
    json_line_open(line, NULL, '{');
    json_line_real(line, "score", item->score);
    json_line_integer(line, "token", item->id);
    json_line_text(line, "token_str", item->text);
    json_line_text(line, "sequence", item->reserved[0]);
    json_line_close(line, '}');
}

// A list of words, or of such lists if the text has several masks.
static void write_row(struct json_line *line, const struct task_model *model,
                      const struct task_text *text) {
    const struct berth_item *items = text->items, *end = items + text->item_count;
    const int has_several = text->item_count > 0 && end[-1].group > 0;
    (void)model;
    json_line_open(line, NULL, '[');
    for (const struct berth_item *item = items; item < end; item++) {
        const int is_first = item == items || item[-1].group != item->group;
        if (has_several && is_first) {
            json_line_open(line, NULL, '[');
        }
        write_item(line, item);
        if (has_several && (item + 1 == end || item[1].group != item->group)) {
            json_line_close(line, ']');
        }
    }
    json_line_close(line, ']');
}

// Pre-training's checkpoints have the same head.
const struct task_row row_fill = {
    .about = {.name = "fill",
              .pipeline = "fill-mask",
              .text = "text",
              .has_items = 1,
              .trains = 1,
              .help = "the most likely words for each [MASK] of a text"},
    .architectures = {"ForMaskedLM", "ForPreTraining"},
    .job = JOB_FILL,
    .settings = "top overflow",
    .open = open_row,
    .close = close_row,
    .max_tokens = max_tokens,
    .run = run_row,
    .check = check_row,
    .write = write_row,
    .outputs = {{"words", TASK_JSON}}};
