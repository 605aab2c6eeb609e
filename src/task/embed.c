// SPDX-License-Identifier: Apache-2.0
// The tasks embed, one vector for each text, and hidden, the last layer's rows.
#include "task/embed.h"

#include "core/comm.h"
#include "core/memory.h"
#include "model/sentence.h"
#include "task/model.h"
#include "train/engine/input_facts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct encoder {
    struct sentence sentence;
    struct berth_embedding own;   // as the model's folder says
    struct berth_embedding usual; // as it was opened
};

static const struct encoder *encoder_of(const struct task_model *model) {
    return model->own;
}

static void note_other_length(const struct task_model *model, int64_t usual_length,
                              const struct berth_log *log) {
    const int64_t found = model->config.max_seq_length;
    const struct length_limits limits =
        model_files_limits(&model->network->predictor.files, usual_length, "");
    const int64_t length = limits.usual < limits.positions ? limits.usual : limits.positions;
    if (encoder_of(model)->sentence.found && found != length) {
        log_note(log, "max_seq_length: %lld instead of the model's %lld", (long long)found,
                 (long long)length);
    }
}

static void note_other_ways(const struct encoder *encoder, const struct berth_log *log) {
    const struct berth_embedding own = encoder->own, usual = encoder->usual;
    if (usual.pooling != own.pooling) {
        log_note(log, "pooling: %s instead of the model's %s",
                 sentence_pooling_names[usual.pooling], sentence_pooling_names[own.pooling]);
    }
    if (usual.normalize != own.normalize) {
        log_note(log, "normalize: %s instead of the model's %s", usual.normalize ? "true" : "false",
                 own.normalize ? "true" : "false");
    }
}

static enum berth_status read_sentence(struct task_model *model, struct berth_error *error) {
    struct encoder *encoder = model->own;
    TRY(sentence_read(model->path, &encoder->sentence, error));
    TRY(inputs_follow_sentence(&model->config, model->path, error));
    encoder->own = encoder->sentence.found
                       ? encoder->sentence.how
                       : (struct berth_embedding){.pooling = BERTH_POOL_MEAN, .normalize = 1};
    encoder->usual = encoder->own;
    sentence_choose(&encoder->usual, model->config.pooling, model->config.normalize);
    return BERTH_OK;
}

static enum berth_status open_row(struct task_model *model, const struct task_opening *opening,
                                  struct berth_error *error) {
    TRY(comm_settle(opening->comm, read_sentence(model, error), error));
    const struct sentence *sentence = &encoder_of(model)->sentence;
    const int64_t length =
        sentence->found && sentence->max_length > 0 ? sentence->max_length : LENGTH_OF_MODEL;
    TRY(network_open(model, PARAM_HEAD_NONE, length, 2, opening, error));
    note_other_length(model, length, opening->log);
    TRY(network_load(model, opening, error));
    note_other_ways(encoder_of(model), opening->log);
    return BERTH_OK;
}

static void done(void *own) {
    sentence_done(&((struct encoder *)own)->sentence);
}

static size_t width(const struct task_model *model) {
    return (size_t)model->network->predictor.files.shape.hidden_size;
}

struct berth_embedding embed_usual(const struct task_model *model) {
    return encoder_of(model)->usual;
}

enum berth_status embed_compare_ranks(const struct task_model *model, struct berth_error *error) {
    const struct predictor *predictor = &model->network->predictor;
    const char *folder = model->path;
    struct rank_facts facts = {0};
    input_facts_add_model(&facts, &predictor->files, folder);
    input_facts_add_embedding(&facts, embed_usual(model), encoder_of(model)->sentence.prompt,
                              folder);
    rank_facts_add_number(&facts, "max_seq_length", folder, model->max_tokens);
    input_facts_add_weights(&facts, &predictor->state, folder);
    return rank_facts_compare(&facts, predictor->comm, error);
}

// --- pooling ------------------------------------------------------------------------------------

// Adds weight * row over all rows, divided by `divisor`; the weight of row i is i + 1 or 1.
static void add_rows(const float *rows, size_t count, size_t size, float *to, int weighted,
                     double divisor) {
    for (size_t column = 0; column < size; column++) {
        double sum = 0;
        for (size_t row = 0; row < count; row++) {
            sum += (double)rows[row * size + column] * (weighted ? (double)(row + 1) : 1.0);
        }
        to[column] = (float)(sum / divisor);
    }
}

static void pool_mean(const float *rows, size_t count, size_t size, float *to) {
    add_rows(rows, count, size, to, 0, (double)count);
}

static void pool_mean_sqrt_length(const float *rows, size_t count, size_t size, float *to) {
    add_rows(rows, count, size, to, 0, sqrt((double)count));
}

static void pool_weighted_mean(const float *rows, size_t count, size_t size, float *to) {
    add_rows(rows, count, size, to, 1, (double)count * (double)(count + 1) / 2);
}

static void pool_last(const float *rows, size_t count, size_t size, float *to) {
    memcpy(to, rows + (count - 1) * size, size * sizeof *to);
}

static void pool_cls(const float *rows, size_t count, size_t size, float *to) {
    (void)count;
    memcpy(to, rows, size * sizeof *to);
}

static void pool_max(const float *rows, size_t count, size_t size, float *to) {
    memcpy(to, rows, size * sizeof *to);
    for (size_t row = 1; row < count; row++) {
        for (size_t column = 0; column < size; column++) {
            to[column] = fmaxf(to[column], rows[row * size + column]);
        }
    }
}

static void (*const pools[])(const float *rows, size_t count, size_t size,
                             float *to) = {[BERTH_POOL_MEAN] = pool_mean,
                                           [BERTH_POOL_CLS] = pool_cls,
                                           [BERTH_POOL_MAX] = pool_max,
                                           [BERTH_POOL_MEAN_SQRT_LENGTH] = pool_mean_sqrt_length,
                                           [BERTH_POOL_WEIGHTED_MEAN] = pool_weighted_mean,
                                           [BERTH_POOL_LAST] = pool_last};

static void scale_to_one(float *values, size_t size) {
    double sum = 0;
    for (size_t i = 0; i < size; i++) {
        sum += (double)values[i] * (double)values[i];
    }
    double length = fmax(sqrt(sum), 1e-12); // as in sentence-transformers
    for (size_t i = 0; i < size; i++) {
        values[i] = (float)((double)values[i] / length);
    }
}

// --- embeddings ---------------------------------------------------------------------------------

struct pass {
    const struct task_model *model;
    struct text_inputs inputs;
};

static struct berth_embedding how_of(const struct pass *pass, size_t index) {
    const struct task_settings *asked = &pass->inputs.texts[index]->settings;
    struct berth_embedding how = embed_usual(pass->model);
    how.pooling = asked->pooling < 0 ? how.pooling : (enum berth_pooling)asked->pooling;
    how.normalize = asked->normalize < 0 ? how.normalize : asked->normalize;
    return how;
}

static void extract(void *context, size_t index, const float *hidden, int64_t count,
                    float *embedding) {
    const struct pass *pass = context;
    const struct berth_embedding how = how_of(pass, index);
    const size_t size = width(pass->model);
    pools[how.pooling](hidden, (size_t)count / size, size, embedding);
    if (how.normalize) {
        scale_to_one(embedding, size);
    }
}

// Keeps the first numbers only, as OpenAI's API and text-embeddings-inference do: of length 1 again
// if the whole was.
static void shorten(struct task_text *text, int normalize) {
    const size_t wanted = (size_t)text->settings.dimensions;
    char message[80];
    if (wanted > text->width) {
        snprintf(message, sizeof message, "dimensions: expected 1 to %zu, found %zu", text->width,
                 wanted);
        task_text_fail(text, BERTH_USAGE, message);
    } else if (wanted < text->width) {
        text->width = wanted;
        if (normalize) {
            scale_to_one(text->rows, wanted);
        }
    }
}

static void receive(void *context, size_t index, const float *embedding, int64_t count) {
    const struct pass *pass = context;
    struct task_text *text = pass->inputs.texts[index];
    float *numbers = task_text_rows(text, 1, (size_t)count);
    if (numbers != NULL && text_check_finite(text, embedding, (size_t)count)) {
        memcpy(numbers, embedding, (size_t)count * sizeof *numbers);
        if (text->settings.dimensions > 0) {
            shorten(text, how_of(pass, index).normalize);
        }
    }
}

static enum berth_status run_embed(const struct task_model *model, struct task_text *const *texts,
                                   size_t count, struct berth_error *error) {
    struct pass pass = {.model = model};
    enum berth_status status =
        comm_settle(model->network->predictor.comm,
                    text_inputs_make(&pass.inputs, model, encoder_of(model)->sentence.prompt, texts,
                                     count, error),
                    error);
    if (status == BERTH_OK) {
        const struct packer_source source = text_inputs_source(&pass.inputs);
        struct infer_args args = {.source = &source,
                                  .reads_first = 1,
                                  .extract = extract,
                                  .extracted_count = (int64_t)width(model),
                                  .receive = receive,
                                  .context = &pass};
        for (size_t i = 0; i < source.count; i++) {
            args.reads_first &= how_of(&pass, i).pooling == BERTH_POOL_CLS;
        }
        status = network_run(model, args, error);
    }
    text_inputs_done(&pass.inputs);
    return status;
}

// --- hidden states ------------------------------------------------------------------------------

static void receive_rows(void *context, size_t index, const float *hidden, int64_t count) {
    const struct pass *pass = context;
    struct task_text *text = pass->inputs.texts[index];
    const size_t size = width(pass->model);
    if (text_check_finite(text, hidden, (size_t)count) &&
        task_text_rows(text, (size_t)count / size, size) != NULL) {
        memcpy(text->rows, hidden, (size_t)count * sizeof *hidden);
    }
}

static enum berth_status run_hidden(const struct task_model *model, struct task_text *const *texts,
                                    size_t count, struct berth_error *error) {
    struct pass pass = {.model = model};
    enum berth_status status = text_inputs_make(&pass.inputs, model, NULL, texts, count, error);
    if (status == BERTH_OK) {
        const struct packer_source source = text_inputs_source(&pass.inputs);
        const struct infer_args args = {
            .source = &source, .receive = receive_rows, .context = &pass};
        status = network_run(model, args, error);
    }
    text_inputs_done(&pass.inputs);
    return status;
}

// --- the rows -----------------------------------------------------------------------------------

#define ENCODES                                                                                    \
    .job = JOB_EMBED, .own_size = sizeof(struct encoder), .open = open_row, .done = done,          \
    .width = width, .write = task_write_numbers

const struct task_row row_embed = {
    .about = {.name = "embed",
              .pipeline = "feature-extraction",
              .text = "text",
              .label = "score",
              .more = "negatives",
              .has_rows = 1,
              .trains = 1,
              .help = "one vector for each text, for comparison with others"},
    .architectures = {""},
    ENCODES,
    .settings = "pooling normalize dimensions overflow",
    .run = run_embed,
    .outputs = {{"embedding", TASK_NUMBERS}},
    .verb = {.jobs = JOB_EMBED,
             .sample = {"minilm", "A man sleeps."},
             .notes = "The mean includes all of a text's tokens, [CLS] and [SEP] among them, as in "
                      "sentence-transformers. A sentence-transformers folder determines how its "
                      "texts are pooled, scaled and truncated. Output is {\"index\": N, "
                      "\"embedding\": [...]} per line, or one float32 array [texts, size]."}};

const struct task_row row_hidden = {.about = {.name = "hidden",
                                              .pipeline = "hidden-states",
                                              .text = "text",
                                              .pair = "text_pair",
                                              .has_rows = 1,
                                              .help = "the last layer's output, one row for each "
                                                      "token of a text"},
                                    ENCODES,
                                    .settings = "overflow",
                                    .run = run_hidden,
                                    .outputs = {{"hidden_states", TASK_NUMBERS}},
                                    .verb = {.jobs = JOB_FILL,
                                             .sample = {"minilm", "A man sleeps."},
                                             .notes = "Output is {\"index\": N, "
                                                      "\"hidden_states\": [[...], ...]} per "
                                                      "line."}};
