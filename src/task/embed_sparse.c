// SPDX-License-Identifier: Apache-2.0
// The task embed_sparse: words of the vocabulary with weights for each text, as SPLADE's models
// make them: log(1 + max(0, x)) of the masked-word head's logits x, the largest over the text's
// tokens.
//
// Leaves out training, and other poolings and activations (model/sentence.h refuses them).
#include "core/memory.h"
#include "core/portable_math.h"
#include "task/embed_vectors.h"
#include "task/fill.h"
#include "task/network.h"
#include "text/tokenizer.h"
#include "train/engine/infer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Texts whose logits are in memory together.
#define SPARSE_TEXTS 64

struct sparse_call {
    const struct task_model *model;
    struct text_inputs inputs;
    size_t words;
    float *largest;         // [features][words] so far; 0: none was above it
    pthread_mutex_t *locks; // [features] of these, as threads add tokens of one text
    uint16_t *positions;    // [max_tokens] 0, 1, ...
    int32_t *labels;        // as many zeros: the words are unknown
};

static struct packer_sequence get(const void *data, size_t index) {
    const struct sparse_call *call = data;
    struct packer_sequence sequence = pair_features_sequence(&call->inputs.features, index);
    sequence.masked_positions = call->positions;
    sequence.masked_labels = call->labels;
    sequence.masked_count = sequence.length;
    return sequence;
}

// Once there is a NaN, it stays.
static void add_token(void *context, size_t index, const float *logits, int64_t words,
                      float *extracted) {
    const struct sparse_call *call = context;
    float *largest = call->largest + index * call->words;
    pthread_mutex_lock(&call->locks[index]);
    for (int64_t i = 0; i < words; i++) {
        if (logits[i] > largest[i] || isnan(logits[i])) {
            largest[i] = logits[i];
        }
    }
    pthread_mutex_unlock(&call->locks[index]);
    *extracted = 0;
}

static void receive_nothing(void *context, size_t index, const float *numbers, int64_t count) {
    (void)context;
    (void)index;
    (void)numbers;
    (void)count;
}

static int compare(const void *left, const void *right) {
    const struct berth_item *a = left, *b = right;
    return a->score != b->score ? (a->score < b->score ? 1 : -1)
                                : (a->id > b->id) - (a->id < b->id);
}

static void make_items(const struct sparse_call *call, size_t index) {
    struct task_text *text = call->inputs.texts[index];
    const float *largest = call->largest + index * call->words;
    const int64_t top = text->settings.top;
    size_t count = 0;
    if (!text_check_finite(text, largest, call->words)) {
        return;
    }
    for (size_t i = 0; i < call->words; i++) {
        count += largest[i] > 0;
    }
    struct berth_item *items = task_text_items(text, count), *next = items;
    for (size_t i = 0; i < call->words && items != NULL; i++) {
        if (largest[i] > 0) {
            next->text = i < tokenizer_size(call->model->tokenizer)
                             ? tokenizer_piece(call->model->tokenizer, (int32_t)i)
                             : "";
            next->score = math_log1p((double)largest[i]);
            next++->id = (int64_t)i;
        }
    }
    if (items != NULL) {
        qsort(items, count, sizeof *items, compare);
        text->item_count = top > 0 && (size_t)top < count ? (size_t)top : count;
    }
}

static enum berth_status allocate(struct sparse_call *call, struct berth_error *error) {
    const size_t count = call->inputs.features.count, length = (size_t)call->model->max_tokens;
    call->words = (size_t)call->model->network->predictor.files.shape.vocab_size;
    call->largest = memory_array_zeroed(count * call->words, sizeof *call->largest);
    call->positions = memory_array(length, sizeof *call->positions);
    call->labels = memory_array_zeroed(length, sizeof *call->labels);
    if (call->largest == NULL || call->positions == NULL || call->labels == NULL) {
        return error_no_memory(error, count * call->words * sizeof *call->largest,
                               "the words of the texts");
    }
    for (size_t i = 0; i < length; i++) {
        call->positions[i] = (uint16_t)i;
    }
    call->locks = memory_array(count, sizeof *call->locks);
    for (size_t i = 0; call->locks != NULL && i < count; i++) {
        pthread_mutex_init(&call->locks[i], NULL);
    }
    return call->locks != NULL ? BERTH_OK
                               : error_no_memory(error, count * sizeof *call->locks, "locks");
}

static void done(struct sparse_call *call) {
    for (size_t i = 0; call->locks != NULL && i < call->inputs.features.count; i++) {
        pthread_mutex_destroy(&call->locks[i]);
    }
    memory_free(call->locks);
    memory_free(call->largest);
    memory_free(call->positions);
    memory_free(call->labels);
    text_inputs_done(&call->inputs);
}

static enum berth_status run_some(const struct task_model *model, struct task_text *const *texts,
                                  size_t count, struct berth_error *error) {
    struct sparse_call call DONE_BY(done) = {.model = model};
    TRY(text_inputs_make(&call.inputs, model, prompts_of, texts, count, error));
    TRY(allocate(&call, error));
    const struct packer_source source = {
        .get = get, .data = &call, .count = call.inputs.features.count};
    const struct infer_args args = {.source = &source,
                                    .extract_words = add_token,
                                    .extracted_count = 1,
                                    .receive = receive_nothing,
                                    .context = &call};
    TRY(network_run(model, args, error));
    for (size_t i = 0; i < call.inputs.features.count; i++) {
        make_items(&call, i);
    }
    return BERTH_OK;
}

static enum berth_status run_row(const struct task_model *model, struct task_text *const *texts,
                                 size_t count, struct berth_error *error) {
    OWNED struct task_text **known = NULL;
    TRY(prompts_known(model, texts, count, &known, &count, error));
    for (size_t i = 0; i < count; i += SPARSE_TEXTS) {
        TRY(run_some(model, known + i, count - i < SPARSE_TEXTS ? count - i : SPARSE_TEXTS, error));
    }
    return BERTH_OK;
}

static void write_words(struct json_line *line, const char *key, const struct task_text *text) {
    json_line_open(line, key, '[');
    for (size_t i = 0; i < text->item_count; i++) {
        json_line_open(line, NULL, '{');
        json_line_integer(line, "token", text->items[i].id);
        json_line_text(line, "token_str", text->items[i].text);
        json_line_float(line, "weight", (float)text->items[i].score);
        json_line_close(line, '}');
    }
    json_line_close(line, ']');
}

static void write_row(struct json_line *line, const struct task_model *model,
                      const struct task_text *text) {
    (void)model;
    write_words(line, NULL, text);
}

static void write_line(struct json_line *line, const struct task_text *text) {
    json_line_open(line, NULL, '{');
    json_line_integer(line, "index", text->tokens);
    write_words(line, "words", text);
    json_line_close(line, '}');
}

const struct task_row row_embed_sparse = {
    .about = {.name = "embed_sparse",
              .pipeline = "sparse-embedding",
              .text = "text",
              .has_items = 1,
              .help = "words of the vocabulary with weights for each text, by the head for masked "
                      "words (SPLADE)"},
    .tasks = {"embed_sparse fill tokenize"},
    .job = JOB_FILL,
    .settings = "top prompt prompt_name overflow",
    .open = fill_open,
    .run = run_row,
    .prompt = prompts_of,
    .write = write_row,
    .outputs = {{"words", TASK_JSON}},
    .verb = {.of = "embed", .flag = "sparse", .write = write_line}};
