// SPDX-License-Identifier: Apache-2.0
// How `berth embed` makes vectors: opens an encoder, puts prompts before texts, has the network
// pool their rows, and does what comes after the pooling, modules Dense, scaling, cutting, and the
// mean of a text's windows. Tokens and batches are the network's business (network.h), and the
// modules of a folder are read by model/sentence.h.
#include "task/embed_vectors.h"

#include "core/memory.h"
#include "model/sentence.h"
#include "task/network.h"

#include <string.h>

// How texts become embeddings, as the model was opened.
static struct berth_embedding usual_of(const struct task_model *model) {
    return *(const struct berth_embedding *)model->own;
}

static const struct sentence *sentence_of(const struct task_model *model) {
    return &model->network->predictor.files.sentence;
}

// Notes what is not as the model's folder says: the length of texts, and how they are pooled.
static void note_other_ways(const struct task_model *model, struct berth_embedding own,
                            const struct berth_log *log) {
    const struct model_files *files = &model->network->predictor.files;
    const struct berth_embedding usual = usual_of(model);
    const struct length_limits limits = model_files_limits(files, LENGTH_OF_MODEL, "");
    const int64_t length = limits.usual < limits.positions ? limits.usual : limits.positions;
    if (files->sentence.found && files->length != length) {
        log_note(log, "max_seq_length: %lld instead of the model's %lld", (long long)files->length,
                 (long long)length);
    }
    if (usual.pooling != own.pooling) {
        log_note(log, "pooling: %s instead of the model's %s",
                 sentence_pooling_names[usual.pooling], sentence_pooling_names[own.pooling]);
    }
    if (usual.normalize != own.normalize) {
        log_note(log, "normalize: %s instead of the model's %s", usual.normalize ? "true" : "false",
                 own.normalize ? "true" : "false");
    }
}

enum berth_status embed_open(struct task_model *model, const struct task_opening *opening,
                             struct berth_error *error) {
    struct berth_embedding *usual = model->own;
    TRY(network_open(
        model,
        &(struct predictor_kind){.head = PARAM_HEAD_EMBEDDING, .usual_length = LENGTH_OF_MODEL}, 2,
        opening, error));
    const struct sentence *sentence = sentence_of(model);
    TRY(sentence_check_width(sentence, model->config.model.model_name_or_path,
                             model->network->predictor.files.shape.hidden_size, error));
    const struct berth_embedding own =
        sentence->found ? sentence->how
                        : (struct berth_embedding){.pooling = BERTH_POOL_MEAN, .normalize = 1};
    *usual = own;
    sentence_choose(usual, model->config.task.pooling, model->config.task.normalize);
    model->network->predictor.files.shape.embedding =
        (struct bert_embedding){.pooling = usual->pooling, .normalize = usual->normalize};
    TRY(network_load(model, opening, error));
    note_other_ways(model, own, opening->log);
    return BERTH_OK;
}

size_t embed_width(const struct task_model *model) {
    return (size_t)model->network->predictor.files.shape.hidden_size;
}

// --- prompts ------------------------------------------------------------------------------------

static enum berth_status find_prompt(const struct task_model *model,
                                     const struct call_settings *settings, const char **prompt,
                                     struct berth_error *error) {
    const struct sentence *sentence = &model->network->predictor.files.sentence;
    const char *usual = sentence->prompt;
    *prompt = settings->prompt != NULL ? settings->prompt : usual != NULL ? usual : "";
    if (settings->prompt != NULL && settings->prompt_name != NULL) {
        return error_set(error, BERTH_USAGE, "give prompt or prompt_name, not both");
    }
    return settings->prompt_name != NULL
               ? sentence_find_prompt(sentence, settings->prompt_name, prompt, error)
               : BERTH_OK;
}

const char *prompts_of(const struct task_model *model, const struct task_text *text) {
    const char *prompt;
    (void)find_prompt(model, &text->settings, &prompt, NULL); // checked before
    return prompt;
}

enum berth_status prompts_known(const struct task_model *model, struct task_text *const *texts,
                                size_t count, struct task_text ***known, size_t *known_count,
                                struct berth_error *error) {
    *known = memory_array(count, sizeof **known);
    *known_count = 0;
    if (*known == NULL) {
        return error_no_memory(error, count * sizeof **known, "the texts");
    }
    for (size_t i = 0; i < count; i++) {
        struct berth_error own;
        const char *prompt;
        if (find_prompt(model, &texts[i]->settings, &prompt, &own) == BERTH_OK) {
            (*known)[(*known_count)++] = texts[i];
        } else {
            task_text_fail(texts[i], own.status, own.message);
        }
    }
    return BERTH_OK;
}

// --- embeddings ---------------------------------------------------------------------------------

struct embed_call {
    const struct task_model *model;
    struct text_inputs inputs;
    float *pooled; // [features][width]; of hidden states NULL
};

// The text's rows become what the modules after the pooling make of `pooled`; 0: out of memory.
static int put_rows(const struct task_model *model, struct task_text *text, const float *pooled,
                    int64_t count) {
    const struct sentence *sentence = sentence_of(model);
    if (task_text_rows(text, 1, (size_t)count) == NULL) {
        return 0;
    }
    memcpy(text->rows, pooled, (size_t)count * sizeof *pooled);
    for (size_t i = 0; i < sentence->dense_count; i++) {
        const struct sentence_dense *dense = &sentence->dense[i];
        OWNED float *input = text->rows;
        text->rows = NULL;
        if (task_text_rows(text, 1, (size_t)dense->outputs) == NULL) {
            return 0;
        }
        sentence_dense_apply(dense, input, text->rows);
    }
    return 1;
}

static void finish(const struct task_model *model, struct task_text *text, const float *pooled,
                   size_t count) {
    const int asked = text->settings.normalize;
    const int normalize = asked < 0 ? usual_of(model).normalize : asked;
    const int64_t cut = sentence_of(model)->truncate_dim;
    if (!put_rows(model, text, pooled, (int64_t)count)) {
        return;
    }
    if (normalize) {
        sentence_scale_to_one(text->rows, (int64_t)text->width);
    }
    if (cut > 0 && (size_t)cut < text->width) {
        text->width = (size_t)cut; // without a new length, as in sentence-transformers
    }
    if (text_check_finite(text, text->rows, text->width) && text->settings.dimensions > 0) {
        // Keeps the first numbers only, as OpenAI's API and text-embeddings-inference do: of length
        // 1 again if the whole was.
        const size_t wanted = (size_t)text->settings.dimensions;
        struct berth_error error;
        if (error_outside(&error, "dimensions", 1, (int64_t)text->width, (int64_t)wanted) !=
            BERTH_OK) {
            task_text_fail(text, error.status, error.message);
        } else if (wanted < text->width) {
            text->width = wanted;
            if (normalize) {
                sentence_scale_to_one(text->rows, (int64_t)wanted);
            }
        }
    }
}

static void receive(void *context, size_t index, const float *pooled, int64_t count) {
    const struct embed_call *call = context;
    memcpy(call->pooled + index * embed_width(call->model), pooled, (size_t)count * sizeof *pooled);
}

// The rows before those that are pooled: [CLS] and the prompt, if it is left out. Of a text whose
// prompt fills the model [SEP] is pooled.
static int64_t skipped_rows(const struct embed_call *call, size_t index) {
    const struct pair_feature *feature = &call->inputs.features.features[index];
    const int skips = sentence_of(call->model)->skips_prompt && feature->prompt > 0;
    const int64_t before = skips ? 1 + feature->prompt : 0;
    return before < feature->length ? before : feature->length - 1;
}

static void receive_whole(void *context, size_t index, const float *rows, int64_t count) {
    const struct embed_call *call = context;
    const size_t size = embed_width(call->model);
    sentence_pool(rows, skipped_rows(call, index), count / (int64_t)size, (int64_t)size,
                  usual_of(call->model).pooling, call->pooled + index * size);
}

static void finish_texts(const struct embed_call *call) {
    const size_t size = embed_width(call->model);
    for (size_t first = 0, end; first < call->inputs.features.count; first = end) {
        struct task_text *text = call->inputs.texts[first];
        for (end = first + 1;
             end < call->inputs.features.count && call->inputs.texts[end] == text;) {
            end++;
        }
        if (end > first + 1) {
            // The vectors of the windows [first, end) become the first one's: their mean, weighted
            // by the rows that were pooled.
            for (size_t column = 0; column < size; column++) {
                double sum = 0, rows = 0;
                for (size_t i = first; i < end; i++) {
                    const int64_t own =
                        call->inputs.features.features[i].length - skipped_rows(call, i);
                    sum += (double)own * (double)call->pooled[i * size + column];
                    rows += (double)own;
                }
                call->pooled[first * size + column] = (float)(sum / rows);
            }
        }
        finish(call->model, text, call->pooled + first * size, size);
    }
}

static enum berth_status run_inputs(struct embed_call *call, struct infer_args args,
                                    struct berth_error *error) {
    const struct packer_source source = text_inputs_source(&call->inputs);
    args.source = &source;
    args.context = call;
    return network_run(call->model, args, error);
}

// A pooling that leaves out the prompt is done here, as devices pool all rows.
enum berth_status embed_run(const struct task_model *model, struct task_text *const *texts,
                            size_t count, struct berth_error *error) {
    const struct infer_args whole = {.receive = receive_whole, .reads_rows = 1},
                            usual = {.receive = receive};
    struct embed_call call = {.model = model};
    OWNED struct task_text **known = NULL;
    enum berth_status status;
    TRY(prompts_known(model, texts, count, &known, &count, error));
    TRY_DONE(text_inputs_make(&call.inputs, model, prompts_of, known, count, error));
    const size_t features = call.inputs.features.count;
    call.pooled = memory_array(features * embed_width(model), sizeof *call.pooled);
    if (call.pooled == NULL) {
        TRY_DONE(error_no_memory(error, features * embed_width(model) * sizeof *call.pooled,
                                 "the embeddings"));
    }
    TRY_DONE(run_inputs(&call, sentence_of(model)->skips_prompt ? whole : usual, error));
    finish_texts(&call);
done:
    memory_free(call.pooled);
    text_inputs_done(&call.inputs);
    return status;
}

// --- hidden states ------------------------------------------------------------------------------

static void receive_rows(void *context, size_t index, const float *hidden, int64_t count) {
    const struct embed_call *call = context;
    struct task_text *text = call->inputs.texts[index];
    const size_t size = embed_width(call->model);
    if (text_check_finite(text, hidden, (size_t)count) &&
        task_text_rows(text, (size_t)count / size, size) != NULL) {
        memcpy(text->rows, hidden, (size_t)count * sizeof *hidden);
    }
}

static enum berth_status run_rows(const struct task_model *model, prompt_finder *prompt,
                                  struct task_text *const *texts, size_t count,
                                  struct berth_error *error) {
    struct embed_call call = {.model = model};
    enum berth_status status;
    TRY_DONE(text_inputs_make(&call.inputs, model, prompt, texts, count, error));
    TRY_DONE(
        run_inputs(&call, (struct infer_args){.receive = receive_rows, .reads_rows = 1}, error));
done:
    text_inputs_done(&call.inputs);
    return status;
}

enum berth_status embed_run_hidden(const struct task_model *model, struct task_text *const *texts,
                                   size_t count, struct berth_error *error) {
    return run_rows(model, NULL, texts, count, error);
}

// The rows are sentence-transformers' token_embeddings: with the prompt, before Dense and
// Normalize.
enum berth_status embed_run_tokens(const struct task_model *model, struct task_text *const *texts,
                                   size_t count, struct berth_error *error) {
    OWNED struct task_text **known = NULL;
    TRY(prompts_known(model, texts, count, &known, &count, error));
    return run_rows(model, prompts_of, known, count, error);
}

void embed_write_vectors(struct json_line *line, const struct task_model *model,
                         const struct task_text *text) {
    (void)model;
    json_line_open(line, NULL, '[');
    for (size_t i = 0; i < text->row_count; i++) {
        json_line_open(line, NULL, '[');
        for (size_t k = 0; k < text->width; k++) {
            json_line_float(line, NULL, text->rows[i * text->width + k]);
        }
        json_line_close(line, ']');
    }
    json_line_close(line, ']');
}
