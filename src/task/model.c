// SPDX-License-Identifier: Apache-2.0
// Models that are opened for a task, by default for the one that their files name, and what passes
// through their networks.
#include "task/model.h"

#include "core/file.h"
#include "core/finite.h"
#include "core/memory.h"
#include "core/options.h"
#include "core/words.h"
#include "format/json/json.h"
#include "train/engine/plan.h"
#include "train/machine/machine.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// The class of the model in its config.json.
static enum berth_status read_architecture(const char *folder, char *name, size_t size,
                                           struct berth_error *error) {
    char *text = NULL, path[4096]; // for messages
    json *config = NULL;
    *name = '\0';
    TRY(berth_inspect(folder, NULL, NULL, &text, error));
    snprintf(path, sizeof path, "%s/config.json", folder);
    enum berth_status status =
        text != NULL ? json_read_memory(path, text, strlen(text), &config, error) : BERTH_OK;
    const char *first = json_text(json_at(json_member(config, "architectures"), 0));
    if (first != NULL && strlen(first) < size) {
        strcpy(name, first);
    }
    json_free(config);
    berth_string_free(text);
    return status;
}

// Whether modules.json lists the Transformer in the folder itself alone, whose class has the head:
// the rule by which sentence_read, too, knows a cross-encoder.
static int is_cross_encoder(const json *modules) {
    const json *module = json_at(modules, 0);
    const char *type = json_text(json_member(module, "type"));
    const char *path = json_text(json_member(module, "path"));
    const char *dot = type != NULL ? strrchr(type, '.') : NULL;
    const char *class = dot != NULL ? dot + 1 : type;
    return json_length(modules) == 1 && class != NULL && strcmp(class, "Transformer") == 0 &&
           path != NULL && path[0] == '\0';
}

// Whether the folder is a sentence encoder of sentence-transformers, whose weights may be those of
// a model with a head.
static enum berth_status find_encoder(const char *folder, int *found, struct berth_error *error) {
    char path[4096];
    json *modules = NULL;
    *found = 0;
    if (snprintf(path, sizeof path, "%s/modules.json", folder) < (int)sizeof path &&
        access(path, F_OK) == 0) {
        TRY(json_read_file(path, &modules, error));
        *found = !is_cross_encoder(modules);
        json_free(modules);
    }
    return BERTH_OK;
}

// The row for a model's architecture, the class in its config.json; "" is any.
static const struct task_row *find_row(const char *architecture) {
    size_t i = 0;
    for (;; i++) {
        for (size_t k = 0; k < 2 && task_rows[i]->architectures[k] != NULL; k++) {
            if (text_ends_with(architecture, task_rows[i]->architectures[k])) {
                return task_rows[i];
            }
        }
    }
}

enum berth_status task_of_folder(const char *folder, const struct task_row **task,
                                 struct berth_error *error) {
    char name[128];
    int is_encoder;
    TRY(read_architecture(folder, name, sizeof name, error));
    TRY(find_encoder(folder, &is_encoder, error));
    *task = find_row(is_encoder ? "" : name);
    return BERTH_OK;
}

// As task_of_folder, for a file of weights: the model's other files are beside it.
static enum berth_status task_of_file(const char *path, const struct task_row **task,
                                      struct berth_error *error) {
    char *folder = file_parent(path);
    const enum berth_status status =
        folder != NULL ? task_of_folder(folder, task, error) : path_no_memory(error);
    memory_free(folder);
    return status;
}

static enum berth_status find_files(struct task_model *model, struct berth_error *error) {
    struct berth_config *config = &model->config;
    if (config->model_name_or_path == NULL) {
        return BERTH_OK; // a vocabulary alone
    }
    TRY(berth_find_model(config->model_name_or_path, &model->path, error));
    config->model_name_or_path = model->path;
    TRY(path_require(model->path, "the folder of a model, or its file of weights", error));
    if (model->task != NULL) {
        return BERTH_OK;
    }
    return dir_exists(model->path) ? task_of_folder(model->path, &model->task, error)
                                   : task_of_file(model->path, &model->task, error);
}

static enum berth_status open_parts(struct task_model *model, const struct task_opening *opening,
                                    struct berth_error *error) {
    struct berth_config *config = &model->config;
    TRY(option_check(config, error));
    TRY(comm_settle(opening->comm, find_files(model, error), error));
    if (config->precision == BERTH_PRECISION_AUTO) { // the same if it was given by name
        option_forget(config, option_find("precision"));
        option_apply_default(config, "precision", model->task->job);
    }
    model->own = memory_array_zeroed(1, model->task->own_size);
    if (model->own == NULL) {
        return error_no_memory(error, model->task->own_size, "a model");
    }
    TRY(model->task->open(model, opening, error));
    model->max_tokens = config->max_seq_length;
    return BERTH_OK;
}

enum berth_status task_model_open(const struct task_row *task, const struct berth_config *config,
                                  const struct task_opening *opening, struct task_model **model,
                                  struct berth_error *error) {
    struct task_model *opened = memory_array_zeroed(1, sizeof *opened);
    *model = NULL;
    if (opened == NULL) {
        return error_no_memory(error, sizeof *opened, "a model");
    }
    opened->task = task;
    opened->config = *config;
    const struct task_opening whole = {.comm = opening->comm != NULL ? opening->comm : comm_self(),
                                       .log = opening->log};
    const enum berth_status status = open_parts(opened, &whole, error);
    if (status != BERTH_OK) {
        task_model_close(opened);
        return status;
    }
    *model = opened;
    return BERTH_OK;
}

static void network_close(struct network *network) {
    if (network->lock != NULL) {
        fair_lock_done(network->lock);
        memory_free(network->lock);
    }
    predictor_done(&network->predictor);
    memory_free(network);
}

void task_model_close(struct task_model *model) {
    if (model == NULL) {
        return;
    }
    if (model->network != NULL) {
        network_close(model->network);
    } else {
        tokenizer_close(model->tokenizer);
    }
    if (model->own != NULL && model->task->done != NULL) {
        model->task->done(model->own);
    }
    memory_free(model->own);
    memory_free(model->path);
    memory_free(model);
}

// --- the network ---------------------------------------------------------------------------------

enum berth_status network_open(struct task_model *model, enum param_head head, int64_t usual_length,
                               int64_t least, const struct task_opening *opening,
                               struct berth_error *error) {
    const struct predictor_kind kind = {head, usual_length};
    struct berth_config *config = &model->config;
    struct network *network = memory_array_zeroed(1, sizeof *network);
    if (network == NULL) {
        return error_no_memory(error, sizeof *network, "a model");
    }
    model->network = network;
    TRY(predictor_open(&network->predictor, config, &kind, opening->comm, opening->log, error));
    model->tokenizer = network->predictor.files.tokenizer;
    const int64_t length = config->max_seq_length, batch = config->predict_batch_size;
    const int64_t all = batch < INFER_TOKENS / length ? batch * length : INFER_TOKENS;
    const int64_t tokens = all > length ? all : length;
    network->extent =
        (struct batch_extent){.tokens = tokens, .sequences = tokens / least, .max_length = length};
    return BERTH_OK;
}

static void clear_strings(struct berth_config *config) {
    for (size_t i = 0; i < option_row_count; i++) {
        if (option_rows[i].type == OPTION_TEXT) {
            *(const char **)((char *)config + option_rows[i].offset) = NULL;
        }
    }
}

enum berth_status network_load(struct task_model *model, const struct task_opening *opening,
                               struct berth_error *error) {
    struct network *network = model->network;
    struct predictor *predictor = &network->predictor;
    const struct bert_config *shape = &predictor->files.shape;
    const int64_t outputs = param_head_outputs(predictor->files.table.head, shape);
    const struct engine_shape engine = {.infer = network->extent};
    struct plan_args plan = {.state = &predictor->state,
                             .config = shape,
                             .shape = &engine,
                             .processes = predictor->comm->local_size,
                             .exchange = predictor->comm->bytes,
                             .data = (uint64_t)(network->extent.tokens * outputs) * sizeof(float)};
    TRY(plan_memory_admit(&plan, NULL, error));
    TRY(predictor_load(predictor, &model->config, &network->extent, opening->log, error));
    network->threads = machine_threads(&model->config);
    clear_strings(&model->config);
    network->lock = memory_new(sizeof *network->lock);
    if (network->lock == NULL) {
        return error_no_memory(error, sizeof *network->lock, "a lock");
    }
    fair_lock_init(network->lock);
    return BERTH_OK;
}

int network_threads(const struct task_model *model, size_t count) {
    const size_t most = (size_t)model->network->threads;
    const int threads = (int)(count > most ? most : count > 0 ? count : 1);
    return machine_start_threads(threads, NULL) == BERTH_OK ? threads : 1;
}

enum berth_status network_run(const struct task_model *model, struct infer_args args,
                              struct berth_error *error) {
    struct network *network = model->network;
    struct infer_result timing;
    if (args.source->count == 0) {
        return BERTH_OK;
    }
    TRY(machine_start_threads(network->threads, error));
    args.extent = &network->extent;
    args.group = model->group;
    args.lock = network->lock;
    fair_lock_acquire(args.lock);
    const enum berth_status status = infer_run(&network->predictor.engine, &args, &timing, error);
    fair_lock_release(args.lock);
    return status;
}

// --- texts as inputs -----------------------------------------------------------------------------

static enum berth_status list_valid(struct text_inputs *inputs, const struct task_model *model,
                                    struct task_text *const *texts, size_t count,
                                    struct berth_error *error) {
    const struct model_files *files = &model->network->predictor.files;
    struct pair_example *examples = memory_array_zeroed(count, sizeof *examples);
    inputs->dataset.examples = examples;
    inputs->dataset.name = "the texts";
    inputs->texts = memory_array(count, sizeof *inputs->texts);
    if (examples == NULL || inputs->texts == NULL) {
        return error_no_memory(error, count * sizeof *examples, "the texts");
    }
    for (size_t i = 0; i < count; i++) {
        struct task_text *text = texts[i];
        if (text->texts[1] != NULL && !model_files_distinguish_pairs(files)) {
            char message[200];
            snprintf(message, sizeof message,
                     "the two texts of a pair cannot be distinguished by a model with "
                     "type_vocab_size %" PRId64 "; use a model with type_vocab_size 2",
                     files->shape.type_vocab_size);
            task_text_fail(text, BERTH_USAGE, message);
            continue;
        }
        inputs->texts[inputs->dataset.count] = text;
        examples[inputs->dataset.count++] = (struct pair_example){.text = text->texts[0],
                                                                  .pair = text->texts[1],
                                                                  .line = i + 1,
                                                                  .label = -1,
                                                                  .value = NAN,
                                                                  .label_count = -1};
    }
    return BERTH_OK;
}

enum berth_status text_inputs_make(struct text_inputs *inputs, const struct task_model *model,
                                   const char *prompt, struct task_text *const *texts, size_t count,
                                   struct berth_error *error) {
    *inputs = (struct text_inputs){.texts = NULL};
    TRY(list_valid(inputs, model, texts, count, error));
    TRY(pairs_put_prompt(&inputs->dataset, prompt, &inputs->prompted, error));
    TRY(pair_features_build(&inputs->dataset, model->tokenizer, model->max_tokens,
                            network_threads(model, inputs->dataset.count), &inputs->features,
                            error));
    for (size_t i = 0; i < inputs->features.count; i++) {
        inputs->texts[i]->tokens_read = inputs->features.features[i].length;
        inputs->texts[i]->truncated = inputs->features.features[i].truncated;
    }
    return BERTH_OK;
}

void text_inputs_done(struct text_inputs *inputs) {
    pair_feature_set_done(&inputs->features);
    memory_free(inputs->prompted);
    memory_free(inputs->texts);
    memory_free(inputs->dataset.examples);
}

struct packer_source text_inputs_source(const struct text_inputs *inputs) {
    return (struct packer_source){
        .get = pair_features_sequence, .data = &inputs->features, .count = inputs->features.count};
}

int text_check_finite(struct task_text *text, const float *numbers, size_t count) {
    const size_t finite = (size_t)finite_count(numbers, (int64_t)count);
    if (finite < count) {
        char message[200];
        snprintf(message, sizeof message,
                 "number %zu of %zu of the result is not finite (%g); the model's weights are "
                 "damaged or its training diverged",
                 finite + 1, count, (double)numbers[finite]);
        task_text_fail(text, BERTH_FAILURE, message);
    }
    return finite == count;
}

// --- numbers of tokens ---------------------------------------------------------------------------

static int64_t count_tokens(const struct task_model *model, const char *words) {
    struct token_list list = {0};
    const size_t bytes = strlen(words);
    const enum berth_status status = tokenizer_encode(model->tokenizer, words, bytes, &list, NULL);
    const size_t count = status == BERTH_OK ? list.count : bytes; // too many rather than too few
    token_list_done(&list);
    return (int64_t)count;
}

int64_t task_count_tokens(const struct task_model *model, const struct task_text *text) {
    const int64_t pair = text->texts[1] != NULL ? 1 + count_tokens(model, text->texts[1]) : 0;
    return 2 + count_tokens(model, text->texts[0]) + pair;
}

// Windows of a long context repeat the question; other texts are truncated.
int64_t task_computed_tokens(const struct task_model *model, int64_t tokens) {
    return tokens <= model->max_tokens ? tokens
           : model->task->uses_windows ? 2 * tokens
                                       : model->max_tokens;
}
