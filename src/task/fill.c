// SPDX-License-Identifier: Apache-2.0
// The task fill: words for each [MASK] of a text.
#include "core/memory.h"
#include "core/utf8.h"
#include "task/model.h"
#include "text/decode.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// The most masked tokens in a batch, unless a single text has more.
#define FILL_MASKED 256
#define TOP_DEFAULT 5
// Each word comes with the whole text, so a short request can have a very long reply.
#define SEQUENCES_MAX ((size_t)16 << 20)

static enum berth_status open_row(struct task_model *model, const struct task_opening *opening,
                                  struct berth_error *error) {
    // A text has at least three tokens.
    TRY(network_open(model, PARAM_HEAD_MASKED, LENGTH_OF_MODEL, 3, opening, error));
    if (tokenizer_special_ids(model->tokenizer).mask < 0) {
        return error_set(error, BERTH_BAD_DATA, "%s: missing token [MASK]; use a BERT vocabulary",
                         model->network->predictor.files.vocab_path);
    }
    struct batch_extent *extent = &model->network->extent;
    extent->masked = extent->max_length > FILL_MASKED ? extent->max_length : FILL_MASKED;
    return network_load(model, opening, error);
}

// --- texts --------------------------------------------------------------------------------------

struct pass {
    const struct task_model *model;
    struct text_inputs inputs;
    size_t *masked; // [masked_count] indices of the texts that have a mask
    size_t masked_count;
    uint16_t *positions; // of all masks, within their texts
    int32_t *labels;     // as many zeros: the words are unknown
    size_t *firsts;      // [texts + 1] where each text's masks begin in `positions`
    size_t top;          // the largest of all texts
    float *found;        // [masks][top] pairs of score and token
};

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

static void refuse(struct task_text *text) {
    const char *words = text->texts[0];
    char message[400];
    snprintf(message, sizeof message, "no [MASK] in %s\"%.*s%s\"",
             text->truncated ? "the first max_seq_length tokens of " : "", UTF8_SHOWN(words, 60),
             strlen(words) > 60 ? "..." : "");
    task_text_fail(text, BERTH_BAD_DATA, message);
}

static int fits_top(const struct pass *pass, struct task_text *text) {
    const size_t words = tokenizer_size(pass->model->tokenizer);
    char message[80];
    if (top_of(text) > words) {
        snprintf(message, sizeof message, "top_k: expected 1 to %zu, found %zu", words,
                 top_of(text));
        task_text_fail(text, BERTH_USAGE, message);
    }
    return top_of(text) <= words;
}

// Lists the masks of a text; returns their number.
static size_t find_in_text(struct pass *pass, size_t text) {
    const int32_t mask = tokenizer_special_ids(pass->model->tokenizer).mask;
    const struct pair_feature *feature = &pass->inputs.features.features[text];
    uint16_t *positions = pass->positions + pass->firsts[text];
    size_t count = 0;
    for (int32_t row = 0; row < feature->length; row++) {
        if (pass->inputs.features.ids[feature->first + (size_t)row] == mask) {
            positions[count++] = (uint16_t)row;
        }
    }
    return count;
}

static enum berth_status find_masks(struct pass *pass, struct berth_error *error) {
    const struct pair_feature_set *set = &pass->inputs.features;
    pass->positions = memory_array(set->token_count, sizeof *pass->positions);
    pass->labels = memory_array_zeroed(set->token_count, sizeof *pass->labels);
    pass->firsts = memory_array_zeroed(set->count + 1, sizeof *pass->firsts);
    pass->masked = memory_array(set->count, sizeof *pass->masked);
    if (pass->positions == NULL || pass->labels == NULL || pass->firsts == NULL ||
        pass->masked == NULL) {
        return error_no_memory(error, set->token_count * sizeof *pass->labels, "the masks");
    }
    for (size_t i = 0; i < set->count; i++) {
        struct task_text *text = pass->inputs.texts[i];
        const size_t own = fits_top(pass, text) ? find_in_text(pass, i) : 0;
        pass->firsts[i + 1] = pass->firsts[i] + own;
        if (own > 0) {
            pass->masked[pass->masked_count++] = i;
            pass->top = top_of(text) > pass->top ? top_of(text) : pass->top;
        } else if (text->status == BERTH_OK) {
            refuse(text);
        }
    }
    const size_t pairs = pass->firsts[set->count] * pass->top;
    pass->found = memory_array(pairs, 2 * sizeof *pass->found);
    return pass->found != NULL ? BERTH_OK
                               : error_no_memory(error, pairs * 2 * sizeof *pass->found, "words");
}

static struct packer_sequence get(const void *data, size_t index) {
    const struct pass *pass = data;
    const size_t text = pass->masked[index];
    struct packer_sequence sequence = pair_features_sequence(&pass->inputs.features, text);
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
        insert(extracted, &count, pass->top, logits[i], i);
    }
    const double max = (double)extracted[0], sum = sum_exp(logits, words, max);
    for (size_t i = 0; i < pass->top; i++) {
        extracted[2 * i] = (float)(exp((double)extracted[2 * i] - max) / sum);
    }
}

static void receive(void *context, size_t index, const float *found, int64_t count) {
    struct pass *pass = context;
    const size_t text = pass->masked[index];
    (void)text_check_finite(pass->inputs.texts[text], found, (size_t)count);
    memcpy(pass->found + pass->firsts[text] * 2 * pass->top, found, (size_t)count * sizeof *found);
}

// --- results ------------------------------------------------------------------------------------

// The text with a word, which the item refers to beside the word.
static const char *make_sequence(const struct pass *pass, size_t index, size_t mask, int32_t word) {
    const struct pair_feature *feature = &pass->inputs.features.features[index];
    int32_t *ids = pass->inputs.features.ids + feature->first, *id = ids + pass->positions[mask];
    const int32_t before = *id;
    *id = word;
    char *sequence = decode_text(pass->model->tokenizer, ids, (size_t)feature->length,
                                 pass->firsts[index + 1] - pass->firsts[index] == 1);
    *id = before;
    return task_text_own(pass->inputs.texts[index], sequence);
}

static void make_items(const struct pass *pass, size_t index) {
    struct task_text *text = pass->inputs.texts[index];
    const size_t top = top_of(text), first = pass->firsts[index];
    const size_t count = (pass->firsts[index + 1] - first) * top;
    struct berth_item *items = task_text_items(text, count);
    for (size_t i = 0; items != NULL && i < count; i++) {
        const size_t mask = first + i / top;
        const float *found = pass->found + 2 * (mask * pass->top + i % top);
        const int32_t word = (int32_t)found[1];
        const char *piece = tokenizer_piece(pass->model->tokenizer, word);
        items[i].text = piece != NULL ? piece : ""; // a padded vocabulary has rows without a piece
        items[i].score = (double)found[0];
        items[i].id = word;
        items[i].group = (int64_t)(i / top);
        items[i].reserved[0] = make_sequence(pass, index, mask, word);
    }
}

static enum berth_status fill(struct pass *pass, struct task_text *const *texts, size_t count,
                              struct berth_error *error) {
    TRY(text_inputs_make(&pass->inputs, pass->model, NULL, texts, count, error));
    TRY(find_masks(pass, error));
    const struct packer_source source = {.get = get, .data = pass, .count = pass->masked_count};
    const struct infer_args args = {.source = &source,
                                    .extract_words = extract_words,
                                    .extracted_count = (int64_t)(2 * pass->top),
                                    .receive = receive,
                                    .context = pass};
    TRY(network_run(pass->model, args, error));
    for (size_t i = 0; i < pass->masked_count; i++) {
        const size_t text = pass->masked[i];
        if (pass->inputs.texts[text]->status == BERTH_OK) {
            make_items(pass, text);
        }
    }
    return BERTH_OK;
}

static enum berth_status run_row(const struct task_model *model, struct task_text *const *texts,
                                 size_t count, struct berth_error *error) {
    struct pass pass = {.model = model};
    const enum berth_status status = fill(&pass, texts, count, error);
    text_inputs_done(&pass.inputs);
    memory_free(pass.masked);
    memory_free(pass.firsts);
    memory_free(pass.positions);
    memory_free(pass.labels);
    memory_free(pass.found);
    return status;
}

static void write_item(struct json_line *line, const struct berth_item *item, int is_line) {
    json_line_open(line, NULL, '{');
    if (is_line) {
        json_line_float(line, "score", (float)item->score);
    } else {
        json_line_real(line, "score", item->score);
    }
    json_line_integer(line, "token", item->id);
    json_line_text(line, "token_str", item->text);
    json_line_text(line, "sequence", item->reserved[0]);
    json_line_close(line, '}');
}

// A list of words, or of such lists if the text has several masks.
static void write_words(struct json_line *line, const struct task_text *text, int is_line) {
    const struct berth_item *items = text->items, *end = items + text->item_count;
    const int has_several = text->item_count > 0 && end[-1].group > 0;
    json_line_open(line, NULL, '[');
    for (const struct berth_item *item = items; item < end; item++) {
        const int is_first = item == items || item[-1].group != item->group;
        if (has_several && is_first) {
            json_line_open(line, NULL, '[');
        }
        write_item(line, item, is_line);
        if (has_several && (item + 1 == end || item[1].group != item->group)) {
            json_line_close(line, ']');
        }
    }
    json_line_close(line, ']');
}

static void write_row(struct json_line *line, const struct task_model *model,
                      const struct task_text *text) {
    (void)model;
    write_words(line, text, 0);
}

static void write_line(struct json_line *line, const struct task_text *text) {
    write_words(line, text, 1);
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
    .run = run_row,
    .check = check_row,
    .write = write_row,
    .outputs = {{"words", TASK_JSON}},
    .verb = {.jobs = JOB_FILL,
             .top = "5",
             .top_max = 1 << 24,
             .sample = {"notes-bert", "It was [MASK] today."},
             .notes =
                 "Output is a line of JSON for each text, as from the fill-mask pipeline of "
                 "transformers: a list of {\"score\": P, \"token\": ID, \"token_str\": "
                 "\"...\", \"sequence\": \"...\"}, best first; for a text with several [MASK] a "
                 "list of such lists. Each [MASK] is filled by itself.",
             .write = write_line}};
