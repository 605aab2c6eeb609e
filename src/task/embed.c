// SPDX-License-Identifier: Apache-2.0
// An encoder in memory: computes one embedding, or the last layer's rows, of each text.
//
// Threads may share it (inference.h), or else the ranks of a job (encoder.h).
#include "core/memory.h"
#include "model/sentence.h"
#include "task/arguments.h"
#include "task/encoder.h"
#include "task/inference.h"
#include "task/rows.h"
#include "task/texts.h"
#include "train/engine/input_facts.h"
#include "train/machine/machine.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct berth_encoder {
    struct inference inference;
    struct sentence sentence;
    struct berth_embedding usual;
};

static int64_t usual_length(const struct sentence *sentence) {
    return sentence->found && sentence->max_length > 0 ? sentence->max_length : LENGTH_OF_MODEL;
}

static void note_other_length(const struct berth_config *config, const struct sentence *sentence,
                              const struct length_limits *limits, const struct berth_log *log) {
    const int64_t length = limits->usual < limits->positions ? limits->usual : limits->positions;
    if (sentence->found && config->max_seq_length != length) {
        log_note(log, "max_seq_length: %lld instead of the model's %lld",
                 (long long)config->max_seq_length, (long long)length);
    }
}

static enum berth_status read_sentence(struct berth_encoder *encoder, struct berth_error *error) {
    struct berth_config *config = &encoder->inference.config;
    if (config->model_name_or_path != NULL) {
        TRY(sentence_read(config->model_name_or_path, &encoder->sentence, error));
        TRY(inputs_follow_sentence(config, config->model_name_or_path, error));
    }
    encoder->usual = encoder->sentence.found
                         ? encoder->sentence.how
                         : (struct berth_embedding){.pooling = BERTH_POOL_MEAN, .normalize = 1};
    sentence_choose(&encoder->usual, config->pooling, config->normalize);
    return BERTH_OK;
}

static enum berth_status load_handle(void *handle, const struct inference_source *source,
                                     struct berth_error *error) {
    struct berth_encoder *encoder = handle;
    struct inference *inference = &encoder->inference;
    struct berth_config *config = &inference->config;
    TRY(comm_settle(source->comm, read_sentence(encoder, error), error));
    const struct predictor_kind kind = {PARAM_HEAD_NONE, usual_length(&encoder->sentence)};
    TRY(predictor_open(&inference->predictor, config, &kind, source->comm, source->log, error));
    const struct length_limits limits =
        model_files_limits(&inference->predictor.files, kind.usual_length, "");
    note_other_length(config, &encoder->sentence, &limits, source->log);
    inference_set_extent(inference);
    return inference_load(inference, source->log, error);
}

static void done(void *handle) {
    sentence_done(&((struct berth_encoder *)handle)->sentence);
}

static const struct inference_kind kind = {.size = sizeof(struct berth_encoder),
                                           .what = "an encoder",
                                           .job = JOB_EMBED,
                                           .load = load_handle,
                                           .done = done};

enum berth_status encoder_open(const struct berth_config *config, struct comm *comm,
                               const struct berth_log *log, struct berth_encoder **encoder,
                               struct berth_error *error) {
    const struct inference_source source = {.config = config, .comm = comm, .log = log};
    void *opened;
    const enum berth_status status = inference_open(&kind, &source, &opened, error);
    *encoder = opened;
    return status;
}

enum berth_status encoder_compare_ranks(const struct berth_encoder *encoder, const char *folder,
                                        struct berth_error *error) {
    const struct predictor *predictor = &encoder->inference.predictor;
    struct rank_facts facts = {0};
    input_facts_add_model(&facts, &predictor->files, folder);
    input_facts_add_embedding(&facts, encoder->usual, encoder->sentence.prompt, folder);
    rank_facts_add_number(&facts, "max_seq_length", folder,
                          encoder->inference.config.max_seq_length);
    input_facts_add_weights(&facts, &predictor->state, folder);
    return rank_facts_compare(&facts, predictor->comm, error);
}

enum berth_status berth_encoder_open(const struct berth_config *config, struct berth_log log,
                                     struct berth_encoder **encoder, struct berth_error *error) {
    REQUIRE(encoder, error);
    *encoder = NULL;
    REQUIRE_CONFIG(config, error);
    return encoder_open(config, comm_self(), &log, encoder, error);
}

void berth_encoder_close(struct berth_encoder *encoder) {
    inference_close(&kind, encoder);
}

struct berth_embedding berth_encoder_usual(const struct berth_encoder *encoder) {
    return encoder != NULL ? encoder->usual
                           : (struct berth_embedding){.pooling = BERTH_POOL_MEAN, .normalize = 1};
}

int64_t berth_encoder_max_length(const struct berth_encoder *encoder) {
    return encoder != NULL ? encoder->inference.config.max_seq_length : 0;
}

size_t berth_encoder_size(const struct berth_encoder *encoder) {
    return encoder != NULL ? (size_t)encoder->inference.predictor.files.shape.hidden_size : 0;
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
    struct texts texts;
    size_t size;
    struct berth_embedding how;
    float *embeddings;
    struct berth_text_status *statuses; // NULL: not wanted
    struct berth_error failure;         // without them: the error of the first text that failed
    size_t before;                      // as in encoder.h
};

static void extract(void *context, const float *hidden, int64_t count, float *embedding) {
    const struct pass *pass = context;
    pools[pass->how.pooling](hidden, (size_t)count / pass->size, pass->size, embedding);
    if (pass->how.normalize) {
        scale_to_one(embedding, pass->size);
    }
}

static void receive(void *context, size_t index, const float *embedding, int64_t count) {
    struct pass *pass = context;
    const size_t item = pass->texts.indices[index];
    struct berth_text_status own = {.tokens = 0};
    struct berth_text_status *status = pass->statuses != NULL ? &pass->statuses[item] : &own;
    if (texts_check_finite(status, embedding, (size_t)count)) {
        memcpy(pass->embeddings + item * pass->size, embedding, (size_t)count * sizeof *embedding);
    } else if (pass->statuses == NULL && pass->failure.status == BERTH_OK) {
        (void)error_set(&pass->failure, own.error.status, "text %zu: %s", pass->before + item + 1,
                        own.error.message);
    }
}

// Texts, and how they become embeddings.
struct request {
    struct texts_args texts;
    size_t group, before; // as in encoder.h
    struct berth_embedding how;
    struct encoder_cut *cut; // the same
};

static void count_cut(const struct texts *texts, const struct request *request) {
    struct encoder_cut *cut = request->cut;
    for (size_t i = 0; cut != NULL && i < texts->features.count; i++) {
        if (texts->features.features[i].truncated && cut->count++ == 0) {
            cut->first = request->before + texts->indices[i];
        }
    }
}

static enum berth_status embed(const struct berth_encoder *encoder, const struct request *request,
                               float *embeddings, struct berth_error *error) {
    const struct inference *inference = &encoder->inference;
    struct pass pass = {.size = berth_encoder_size(encoder),
                        .how = request->how,
                        .embeddings = embeddings,
                        .statuses = request->texts.statuses,
                        .before = request->before};
    enum berth_status status =
        comm_settle(inference->predictor.comm,
                    texts_prepare(&pass.texts, inference, &request->texts, error), error);
    if (status == BERTH_OK) {
        count_cut(&pass.texts, request);
        const struct packer_source source = texts_source(&pass.texts);
        const struct infer_args args = {.source = &source,
                                        .group = request->group,
                                        .reads_first = request->how.pooling == BERTH_POOL_CLS,
                                        .extract = extract,
                                        .extracted_count = (int64_t)pass.size,
                                        .receive = receive,
                                        .context = &pass};
        status = inference_run(inference, args, error);
    }
    if (status == BERTH_OK) {
        // Only the first rank receives the embeddings, so only it knows of a failure.
        status = comm_settle(inference->predictor.comm, error_copy(error, &pass.failure), error);
    }
    texts_done(&pass.texts);
    return status;
}

enum berth_status encoder_embed(const struct berth_encoder *encoder,
                                const struct encoder_texts *texts, float *embeddings,
                                struct berth_error *error) {
    struct berth_text *items = memory_array_zeroed(texts->count, sizeof *items);
    enum berth_status status =
        items != NULL ? BERTH_OK
                      : error_no_memory(error, texts->count * sizeof *items, "the texts");
    status = comm_settle(encoder->inference.predictor.comm, status, error);
    for (size_t i = 0; status == BERTH_OK && i < texts->count; i++) {
        items[i].text = texts->texts[i];
    }
    const struct request request = {
        .texts = {.items = items, .count = texts->count, .prompt = encoder->sentence.prompt},
        .group = texts->group,
        .before = texts->before,
        .how = texts->how,
        .cut = texts->cut};
    if (status == BERTH_OK) {
        status = embed(encoder, &request, embeddings, error);
    }
    memory_free(items);
    return status;
}

enum berth_status encoder_check_pooling(int pooling, struct berth_error *error) {
    return (unsigned)pooling < sizeof pools / sizeof *pools
               ? BERTH_OK
               : error_set(error, BERTH_USAGE, "unknown pooling %d", pooling);
}

enum berth_status berth_encoder_embed(const struct berth_encoder *encoder, const char *const *texts,
                                      size_t count, struct berth_embedding how, float *embeddings,
                                      struct berth_error *error) {
    REQUIRE(encoder, error);
    if (count == 0) {
        return BERTH_OK;
    }
    REQUIRE(embeddings, error);
    REQUIRE(texts, error);
    TRY(argument_texts(texts, count, "text", error));
    TRY(encoder_check_pooling((int)how.pooling, error));
    const struct encoder_texts all = {.texts = texts, .count = count, .how = how};
    return encoder_embed(encoder, &all, embeddings, error);
}

enum berth_status berth_encoder_embed_many(const struct berth_encoder *encoder,
                                           const struct berth_text *texts, size_t count,
                                           struct berth_embedding how, float *embeddings,
                                           struct berth_text_status *statuses,
                                           struct berth_error *error) {
    REQUIRE(encoder, error);
    TRY(encoder_check_pooling((int)how.pooling, error));
    if (count == 0) {
        return BERTH_OK;
    }
    REQUIRE(texts, error);
    REQUIRE(embeddings, error);
    REQUIRE(statuses, error);
    memset(embeddings, 0, count * berth_encoder_size(encoder) * sizeof *embeddings);
    const struct request request = {.texts = {.items = texts,
                                              .count = count,
                                              .prompt = encoder->sentence.prompt,
                                              .statuses = statuses},
                                    .how = how};
    return embed(encoder, &request, embeddings, error);
}

// --- hidden states ------------------------------------------------------------------------------

struct hidden_pass {
    struct texts texts;
    struct berth_hidden_states *states;
};

static void receive_rows(void *context, size_t index, const float *hidden, int64_t count) {
    const struct hidden_pass *pass = context;
    struct berth_hidden_states *state = &pass->states[pass->texts.indices[index]];
    const size_t bytes = (size_t)count * sizeof *hidden;
    if (!texts_check_finite(&state->status, hidden, (size_t)count)) {
        return;
    }
    state->rows = memory_new(bytes);
    if (state->rows == NULL) {
        (void)error_no_memory(&state->status.error, bytes, "hidden states");
        return;
    }
    memcpy(state->rows, hidden, bytes);
}

static enum berth_status compute_rows(const struct berth_encoder *encoder, struct texts_args *args,
                                      struct berth_hidden_states *states,
                                      struct berth_error *error) {
    struct hidden_pass pass = {.states = states};
    enum berth_status status = texts_prepare(&pass.texts, &encoder->inference, args, error);
    for (size_t i = 0; i < args->count; i++) {
        states[i] = (struct berth_hidden_states){.status = args->statuses[i]};
    }
    if (status == BERTH_OK) {
        const struct packer_source source = texts_source(&pass.texts);
        const struct infer_args infer = {
            .source = &source, .receive = receive_rows, .context = &pass};
        status = inference_run(&encoder->inference, infer, error);
    }
    texts_done(&pass.texts);
    return status;
}

enum berth_status berth_encoder_hidden_states(const struct berth_encoder *encoder,
                                              const struct berth_text *texts, size_t count,
                                              struct berth_hidden_states *states,
                                              struct berth_error *error) {
    CLEAR(states, count);
    REQUIRE(encoder, error);
    if (count == 0) {
        return BERTH_OK;
    }
    REQUIRE(texts, error);
    REQUIRE(states, error);
    struct texts_args args = {.items = texts,
                              .count = count,
                              .statuses =
                                  memory_array_zeroed(count, sizeof(struct berth_text_status))};
    if (args.statuses == NULL) {
        return error_no_memory(error, count * sizeof *args.statuses, "the texts");
    }
    enum berth_status status = compute_rows(encoder, &args, states, error);
    memory_free(args.statuses);
    if (status != BERTH_OK) {
        berth_hidden_states_free(states, count);
    }
    return status;
}

void berth_hidden_states_free(struct berth_hidden_states *states, size_t count) {
    for (size_t i = 0; i < count && states != NULL; i++) {
        memory_free(states[i].rows);
        states[i].rows = NULL;
    }
}

// --- the rows -----------------------------------------------------------------------------------

static enum berth_status open_row(struct task_model *model, struct berth_log log,
                                  struct berth_error *error) {
    return berth_encoder_open(&model->config, log, &model->handle.encoder, error);
}

static void close_row(struct task_model *model) {
    berth_encoder_close(model->handle.encoder);
}

static int64_t max_tokens(const struct task_model *model) {
    return berth_encoder_max_length(model->handle.encoder);
}

static size_t width(const struct task_model *model) {
    return berth_encoder_size(model->handle.encoder);
}

// Pooling and normalization as one number, and back; -1 of each is the model's.
enum { NORMALIZATIONS = 3 };

static int how_of(const struct task_text *text) {
    return (text->settings.pooling + 1) * NORMALIZATIONS + text->settings.normalize + 1;
}

static enum berth_status compute(const struct task_model *model, struct text_rows *rows, int how,
                                 struct berth_error *error) {
    const int pooling = how / NORMALIZATIONS - 1, normalize = how % NORMALIZATIONS - 1;
    struct berth_embedding own = berth_encoder_usual(model->handle.encoder);
    own.pooling = pooling < 0 ? own.pooling : (enum berth_pooling)pooling;
    own.normalize = normalize < 0 ? own.normalize : normalize;
    return berth_encoder_embed_many(model->handle.encoder, rows->texts, rows->count, own,
                                    rows->rows, rows->statuses, error);
}

static void scale_to_length_1(float *numbers, size_t count) {
    double squares = 0;
    for (size_t i = 0; i < count; i++) {
        squares += (double)numbers[i] * numbers[i];
    }
    for (size_t i = 0; i < count && squares > 0; i++) {
        numbers[i] = (float)(numbers[i] / sqrt(squares));
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
            scale_to_length_1(text->rows, wanted);
        }
    }
}

static enum berth_status run_embed(const struct task_model *model, struct task_text *const *texts,
                                   size_t count, struct berth_error *error) {
    const struct text_work work = {.size = width(model),
                                   .end = (BERTH_POOL_LAST + 2) * NORMALIZATIONS,
                                   .setting = how_of,
                                   .compute = compute};
    const int usual = berth_encoder_usual(model->handle.encoder).normalize;
    TRY(task_run_texts(&work, model, texts, count, error));
    for (size_t i = 0; i < count; i++) {
        const struct task_settings *asked = &texts[i]->settings;
        if (asked->dimensions > 0 && texts[i]->status == BERTH_OK) {
            shorten(texts[i], asked->normalize < 0 ? usual : asked->normalize);
        }
    }
    return BERTH_OK;
}

static void keep_states(const struct task_model *model, struct task_text *text,
                        struct berth_hidden_states *states) {
    const struct berth_text_status *own = &states->status;
    text->tokens_read = own->tokens;
    text->truncated = own->truncated;
    text->width = width(model);
    if (own->error.status != BERTH_OK) {
        task_text_fail(text, own->error.status, own->error.message);
        return;
    }
    text->rows = states->rows;
    text->row_count = (size_t)own->tokens;
    states->rows = NULL;
}

static enum berth_status run_hidden(const struct task_model *model, struct task_text *const *texts,
                                    size_t count, struct berth_error *error) {
    struct berth_text *asked = memory_array_zeroed(count, sizeof *asked);
    struct berth_hidden_states *states = memory_array_zeroed(count, sizeof *states);
    enum berth_status status = asked != NULL && states != NULL
                                   ? BERTH_OK
                                   : error_no_memory(error, count * sizeof *states, "the texts");
    for (size_t i = 0; status == BERTH_OK && i < count; i++) {
        asked[i].text = texts[i]->texts[0];
        asked[i].pair = texts[i]->texts[1];
    }
    if (status == BERTH_OK) {
        status = berth_encoder_hidden_states(model->handle.encoder, asked, count, states, error);
    }
    for (size_t i = 0; status == BERTH_OK && i < count; i++) {
        keep_states(model, texts[i], &states[i]);
    }
    berth_hidden_states_free(states, states != NULL ? count : 0);
    memory_free(states);
    memory_free(asked);
    return status;
}

#define ENCODES                                                                                    \
    .job = JOB_EMBED, .open = open_row, .close = close_row, .max_tokens = max_tokens,              \
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
    .outputs = {{"embedding", TASK_NUMBERS}}};

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
                                    .outputs = {{"hidden_states", TASK_NUMBERS}}};
