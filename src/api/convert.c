// SPDX-License-Identifier: Apache-2.0
// The job convert: reads a model folder, reports what the target could not hold, writes to a
// temporary folder next to the output, and publishes that as a whole. What a target is made of is
// in convert_targets.c, where the functions for each format are.
#include "api/conversion.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/text_util.h"
#include "format/deepspeed/deepspeed.h"
#include "format/json/json.h"
#include "model/architectures.h"
#include "model/export_gguf.h"
#include "model/folder.h"
#include "model/folder_words.h"
#include "model/sentence.h"
#include "text/vocabulary.h"

#include <stdio.h>
#include <string.h>

// Files copied byte by byte along with the weights, if they exist.
static const char *const companions[] = {"config.json",
                                         "vocab.txt",
                                         "tokenizer.json",
                                         "tokenizer_config.json",
                                         "special_tokens_map.json",
                                         "added_tokens.json"};

// The architecture in config.json of a model with this tensor and none of Berth's heads; the first
// row that matches.
static const struct architecture_row {
    const char *tensor, *architecture;
} architecture_rows[] = {
    {"cls.seq_relationship.weight", "BertForNextSentencePrediction"},
};

// --- what would be lost -------------------------------------------------------------------------

struct loss {
    size_t count;
    char names[400]; // the first names, separated by ", "
};

struct losses {
    struct loss dropped, narrowed;
    struct loss unread; // dropped, but of no use to the model
};

static void add_loss(struct loss *loss, const char *name) {
    size_t used = strlen(loss->names);
    if (used + strlen(name) + 3 < sizeof loss->names) {
        words_add(loss->names, sizeof loss->names, name);
    } else if (used > 0 && strcmp(loss->names + used - 3, "...") != 0 &&
               used + 5 < sizeof loss->names) {
        snprintf(loss->names + used, sizeof loss->names - used, "...");
    }
    loss->count++;
}

// The type that the target gives to a tensor; `param` is NULL if the target has no parameter table.
static enum tensor_dtype stored_type(const struct conversion *conversion,
                                     const struct weight *weight, const struct param *param) {
    if (conversion->target->keeps_all_tensors) {
        return outgoing_type(conversion, weight);
    }
    return export_gguf_is_matrix(param) ? conversion->matrices : TENSOR_F32;
}

// Whether the wider type represents all numbers of the narrower one.
static int can_represent(enum tensor_dtype narrow, enum tensor_dtype wide) {
    return narrow == wide ||
           (wide == TENSOR_F32 && (narrow == TENSOR_F16 || narrow == TENSOR_BF16)) ||
           !tensor_is_convertible(narrow);
}

static int has_tensor(const struct conversion *conversion, const char *name) {
    return weights_find(&conversion->weights, name) != NULL;
}

// Whether the tensor is of a pooler that no head of the source reads; old versions of transformers
// gave every model one.
static int is_unread_pooler(const struct conversion *conversion, const struct weight *weight) {
    return strncmp(weight->name, "bert.pooler.", strlen("bert.pooler.")) == 0 &&
           conversion->head != PARAM_HEAD_CLASS && conversion->head != PARAM_HEAD_PRETRAINING &&
           !has_tensor(conversion, "cls.seq_relationship.weight");
}

static void find_losses(const struct conversion *conversion, struct losses *losses) {
    *losses = (struct losses){0};
    for (size_t i = 0; i < conversion->weights.count; i++) {
        const struct weight *weight = &conversion->weights.list[i];
        const struct param *param = param_table_find(&conversion->table, weight->name);
        const char *name = weight_shown_name(weight);
        // A decoder that is tied to the word embeddings is in the target's model already.
        if (weight->use == NAME_BUFFER || (param_head_decodes(conversion->table.head) &&
                                           weights_tied_to(&conversion->weights, weight) != NULL)) {
            continue;
        }
        if (param == NULL && !conversion->target->keeps_all_tensors) {
            add_loss(is_unread_pooler(conversion, weight) ? &losses->unread : &losses->dropped,
                     name);
        } else if (conversion->zero_stage < 1 && // whose shards have the master weights
                   !can_represent(weight->entry->dtype, stored_type(conversion, weight, param))) {
            add_loss(&losses->narrowed, name);
        }
    }
}

static enum berth_status check_losses(const struct conversion *conversion, int allowed,
                                      struct berth_error *error) {
    struct losses losses;
    find_losses(conversion, &losses);
    const struct loss *dropped = &losses.dropped, *narrowed = &losses.narrowed;
    if (!allowed && dropped->count + narrowed->count > 0) {
        const struct loss *first = dropped->count > 0 ? dropped : narrowed;
        return error_set(error, BERTH_CONFIG,
                         "converting %s to %s is lossy: %zu tensor%s left out, %zu narrowed (%s); "
                         "allow this with allow_lossy",
                         conversion->input, conversion->target->name, dropped->count,
                         number_plural((int64_t)dropped->count), narrowed->count, first->names);
    }
    if (dropped->count > 0) {
        log_warning(&conversion->log, "%s leaves out %zu tensor%s: %s", conversion->target->name,
                    dropped->count, number_plural((int64_t)dropped->count), dropped->names);
    }
    if (losses.unread.count > 0) {
        log_note(&conversion->log, "%s leaves out what no head of this model reads: %s",
                 conversion->target->name, losses.unread.names);
    }
    if (narrowed->count > 0) {
        log_warning(&conversion->log, "%zu tensor%s narrowed: %s", narrowed->count,
                    narrowed->count == 1 ? " is" : "s are", narrowed->names);
    }
    return BERTH_OK;
}

// --- names --------------------------------------------------------------------------------------

static const struct convert_names *find_names(const struct convert_target *target,
                                              const char *name) {
    for (int i = 0; i < CONVERT_NAMES_MAX && target->names[i].name != NULL; i++) {
        if (strcmp(target->names[i].name, name) == 0) {
            return &target->names[i];
        }
    }
    return NULL;
}

static enum berth_status refuse_names(const struct convert_target *target, const char *name,
                                      struct berth_error *error) {
    char known[64] = "";
    for (int i = 0; i < CONVERT_NAMES_MAX && target->names[i].name != NULL; i++) {
        words_add(known, sizeof known, target->names[i].name);
    }
    const char *other = NULL;
    for (size_t i = 0; i < convert_target_count && other == NULL; i++) {
        other = find_names(&convert_targets[i], name) != NULL ? convert_targets[i].name : NULL;
    }
    return error_set(error, BERTH_USAGE, "names \"%s\": %s accepts: %s%s%s%s", name, target->name,
                     known, other != NULL ? "; " : "", other != NULL ? other : "",
                     other != NULL ? " accepts it" : "");
}

// Leaves conversion->names NULL if the source decides.
static enum berth_status choose_names(struct conversion *conversion, const struct job *job,
                                      struct berth_error *error) {
    const char *name = job_text(job, "names");
    if (job_flag(job, "kernel_layers")) {
        if (name != NULL && strcmp(name, "kernel") != 0) {
            return error_set(error, BERTH_USAGE, "kernel_layers contradicts names %s", name);
        }
        name = "kernel";
    }
    if (name != NULL) {
        conversion->names = find_names(conversion->target, name);
    }
    return name == NULL || conversion->names != NULL
               ? BERTH_OK
               : refuse_names(conversion->target, name, error);
}

// --- reading ------------------------------------------------------------------------------------

static int has_layer(const struct conversion *conversion, const char *name) {
    char weight[96];
    snprintf(weight, sizeof weight, "%s.weight", name);
    return has_tensor(conversion, weight);
}

// A classifier without a pooler classifies tokens. Older versions of transformers give one of
// tokens a pooler, too, which it does not use.
static enum berth_status find_head(struct conversion *conversion, struct berth_error *error) {
    const struct architecture *row = bert_architecture(&conversion->config);
    int tags;
    TRY(bert_config_is_architecture(&conversion->config,
                                    param_head_row(PARAM_HEAD_TOKEN)->architecture, &tags, error));
    if (has_tensor(conversion, "qa_outputs.weight")) {
        conversion->head = PARAM_HEAD_SPAN;
    } else if (has_layer(conversion, row->class_dense) &&
               has_layer(conversion, row->class_output) && !tags) {
        conversion->head = PARAM_HEAD_CLASS;
    } else if (has_tensor(conversion, "classifier.weight")) {
        conversion->head = PARAM_HEAD_TOKEN;
    } else {
        const int compares = has_tensor(conversion, "cls.seq_relationship.weight");
        const int predicts = has_tensor(conversion, "cls.predictions.transform.dense.weight");
        conversion->head = !predicts  ? PARAM_HEAD_NONE
                           : compares ? PARAM_HEAD_PRETRAINING
                                      : PARAM_HEAD_MASKED;
    }
    return BERTH_OK;
}

// Of a pre-training model's two heads, a target that holds one gets the head for masked words.
static enum param_head target_head(const struct conversion *conversion) {
    const enum param_head head = conversion->head;
    return !conversion->target->holds_head  ? PARAM_HEAD_NONE
           : head == PARAM_HEAD_PRETRAINING ? PARAM_HEAD_MASKED
                                            : head;
}

// Whether the tensors were written by one of NVIDIA's or BingBert's modules.
static int has_nvidia_names(const struct weights *weights) {
    for (size_t i = 0; i < weights->count; i++) {
        const struct weight *weight = &weights->list[i];
        if (weight->use == NAME_STACKED || strstr(weight->entry->name, ".dense_act.") != NULL) {
            return 1;
        }
    }
    return 0;
}

static enum berth_status read_source(struct conversion *conversion, struct berth_error *error) {
    const char *file = conversion->config_file;
    TRY(path_require(conversion->input, "a model's folder, or the file of weights in it", error));
    TRY(file != NULL ? bert_config_read(file, &conversion->config, error)
                     : folder_read_config(conversion->input, &conversion->config, error));
    TRY(bert_config_require_vocab_size(&conversion->config, file != NULL ? file : conversion->input,
                                       error));
    TRY(weights_open(&conversion->weights, conversion->input, conversion->config.vocab_size,
                     error));
    conversion->config.pre_layer_norm |= weights_are_pre_layer_norm(&conversion->weights);
    TRY(folder_check_body(&conversion->weights, &conversion->config, error));
    if (conversion->names == NULL) {
        // The source's own names if the target has them, else the target's first.
        const struct convert_names *nvidia = find_names(conversion->target, "nvidia");
        conversion->names = nvidia != NULL && has_nvidia_names(&conversion->weights)
                                ? nvidia
                                : conversion->target->names;
    }
    const struct weights *weights = &conversion->weights;
    if (!outgoing_is_copy(conversion)) {
        if (weights->dropped > 0) {
            log_note(&conversion->log,
                     "left out, not part of the model: %zu tensor%s of an optimizer, a trainer or "
                     "quantized activations",
                     weights->dropped, number_plural((int64_t)weights->dropped));
        }
        if (weights->padding_rows > 0 && conversion->names->vocab_multiple == 0) {
            log_note(&conversion->log, "%zu rows that pad the vocabulary to %lld words are removed",
                     weights->padding_rows,
                     (long long)conversion->config.vocab_size + (long long)weights->padding_rows);
        }
    }
    TRY(find_head(conversion, error));
    TRY(convert_check_architecture(conversion, error));
    return conversion->target->keeps_all_tensors
               ? BERTH_OK
               : param_table_init(&conversion->table, &conversion->config, target_head(conversion),
                                  error);
}

static void conversion_done(struct conversion *conversion) {
    bert_config_done(&conversion->config);
    weights_close(&conversion->weights);
    param_table_done(&conversion->table);
}

// --- writing ------------------------------------------------------------------------------------

static const char *architecture_of(const struct conversion *conversion) {
    if (conversion->head != PARAM_HEAD_NONE) {
        return param_head_row(conversion->head)->architecture;
    }
    for (size_t i = 0; i < sizeof architecture_rows / sizeof *architecture_rows; i++) {
        if (has_tensor(conversion, architecture_rows[i].tensor)) {
            return architecture_rows[i].architecture;
        }
    }
    return "BertModel";
}

static void free_json(json **config) {
    json_free(*config);
}

static const struct {
    const char *name; // value of --dtype
    enum tensor_dtype dtype;
    const char *torch; // name in config.json
} dtype_names[] = {{"f32", TENSOR_F32, "float32"},
                   {"f16", TENSOR_F16, "float16"},
                   {"bf16", TENSOR_BF16, "bfloat16"}};

// Sets the keys that hold the type; *changed is whether one of them had another value.
static enum berth_status set_type(json *config, const char *type, int *changed,
                                  struct berth_error *error) {
    static const char *const keys[] = {"torch_dtype", "dtype"}; // transformers 4's and 5's
    int found = 0, failed = 0;
    *changed = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json *value = json_member(config, keys[i]);
        const char *text = json_text(value);
        found |= value != NULL;
        if (value != NULL && (text == NULL || strcmp(text, type) != 0)) {
            failed |= json_set(config, keys[i], json_new_text(type));
            *changed = 1;
        }
    }
    if (!found) {
        failed |= json_set(config, keys[0], json_new_text(type));
        *changed = 1;
    }
    return failed == 0 ? BERTH_OK : error_no_memory(error, 0, "config.json");
}

// Sets the tensors' type in the copy of the source's config.json.
static enum berth_status write_type(const struct conversion *conversion, const char *path,
                                    struct berth_error *error) {
    size_t row = 0;
    if (!conversion->retypes) {
        return BERTH_OK;
    }
    while (dtype_names[row].dtype != conversion->matrices) {
        row++;
    }
    json *config DONE_BY(free_json) = NULL;
    int changed;
    TRY(json_read_file(path, &config, error));
    TRY(set_type(config, dtype_names[row].torch, &changed, error));
    return changed ? json_write_file(config, JSON_INDENT_2_SORTED, path, error) : BERTH_OK;
}

// Whether a matrix keeps integers that only config.json explains. Berth's own int8 does not: its
// numbers are written without scales.
static int stays_quantized(const struct conversion *conversion) {
    int stays = 0;
    for (size_t i = 0; i < conversion->weights.count; i++) {
        const struct weight *weight = &conversion->weights.list[i];
        stays |=
            weight->use != NAME_BUFFER && !tensor_is_convertible(outgoing_type(conversion, weight));
    }
    return stays;
}

static enum berth_status remove_key(const char *path, const char *key, struct berth_error *error) {
    json *config DONE_BY(free_json) = NULL;
    TRY(json_read_file(path, &config, error));
    if (json_member(config, key) == NULL) {
        return BERTH_OK;
    }
    json_remove(config, key);
    return json_write_file(config, JSON_INDENT_2_SORTED, path, error);
}

// Writes config.json for a source without one (Google's), and bert_config.json for a target that
// needs it.
static enum berth_status write_configs(const struct conversion *conversion,
                                       struct berth_error *error) {
    const struct path path = path_in(conversion->folder, "config.json");
    const struct path google = path_in(conversion->folder, "bert_config.json");
    if (!file_exists(path.text)) {
        TRY(bert_config_write(&conversion->config, architecture_of(conversion), path.text, error));
    }
    if (!stays_quantized(conversion)) {
        TRY(remove_key(path.text, "quantization_config", error));
    }
    // A decoder that repeats the word embeddings is left out; config.json must then not call it
    // untied.
    const struct weight *decoder =
        weights_find(&conversion->weights, "cls.predictions.decoder.weight");
    if (conversion->target->unties && !outgoing_is_copy(conversion) && decoder != NULL &&
        decoder->tied) {
        TRY(remove_key(path.text, "tie_word_embeddings", error));
    }
    TRY(write_type(conversion, path.text, error));
    return conversion->target->google_config
               ? bert_config_write_google(&conversion->config, google.text, error)
               : BERTH_OK;
}

// Writes the tokenizer.json that other files of words become, if the input has those.
static enum berth_status write_words(const struct conversion *conversion, int *found,
                                     struct berth_error *error) {
    const struct words_class *class = NULL;
    OWNED char *path = NULL;
    *found = 0;
    if (conversion->vocab_file == NULL) {
        TRY(folder_words_path(conversion->input, &path, &class, error));
        *found = path != NULL;
    }
    return *found ? folder_copy_tokenizer(conversion->input, NULL, NULL, conversion->folder, error)
                  : BERTH_OK;
}

// transformers 5 does not write vocab.txt, which other programs need. A tokenizer that is not
// BERT's has none.
static enum berth_status write_vocabulary(const struct conversion *conversion,
                                          struct berth_error *error) {
    OWNED char *path = NULL;
    const struct path to = path_in(conversion->folder, "vocab.txt");
    struct vocabulary_file file DONE_BY(vocabulary_file_done) = {0};
    int has_words;
    TRY(write_words(conversion, &has_words, error));
    if (has_words) {
        return BERTH_OK;
    }
    TRY(conversion_vocabulary_path(conversion, &path, error));
    if (conversion->vocab_file == NULL && !vocabulary_file_is_json(path)) {
        return BERTH_OK;
    }
    TRY(vocabulary_file_read(path, &file, error));
    if (file.is_other) {
        return conversion->vocab_file != NULL
                   ? folder_copy_tokenizer(NULL, path, &file.rules, conversion->folder, error)
                   : BERTH_OK;
    }
    // vocab_file may be no vocabulary at all, or have another size than the model's table, so it is
    // parsed before anything is written. The model's own was parsed when the model was read.
    struct vocabulary vocabulary;
    if (conversion->vocab_file != NULL) {
        TRY(conversion_parse_vocabulary(conversion, path, &file, &vocabulary, error));
        vocabulary_done(&vocabulary);
    }
    return file_write(to.text, file.bytes, file.length, error);
}

// dir_publish does not replace a folder, so an empty one is removed first; one that was filled in
// the meantime is not ours and stays.
static enum berth_status write_and_publish(struct conversion *conversion, const char *output,
                                           struct berth_error *error) {
    struct path temporary;
    TRY(dir_make_temporary(output, &temporary, error));
    conversion->folder = temporary.text;
    enum berth_status status;
    // The files beside the weights. Those of the configuration or the tokenizer are left out if the
    // caller names others.
    for (size_t i = 0; i < sizeof companions / sizeof *companions; i++) {
        const int of_model = strcmp(companions[i], "config.json") == 0;
        if ((of_model ? conversion->config_file : conversion->vocab_file) == NULL) {
            TRY_DONE(folder_copy_file(conversion->input, conversion->folder, companions[i], error));
        }
    }
    TRY_DONE(write_vocabulary(conversion, error));
    TRY_DONE(folder_keep_rules(conversion->input, conversion->vocab_file == NULL,
                               conversion->folder, error));
    TRY_DONE(write_configs(conversion, error));
    if (conversion->target->keeps_all_tensors) {
        TRY_DONE(sentence_copy(conversion->input, conversion->folder, error));
    }
    TRY_DONE(conversion->target->write(conversion, error));
    TRY_DONE(conversion_check_stop(conversion, error));
    TRY_DONE(dir_remove_empty(output, error));
    TRY_DONE(dir_publish(temporary.text, output, error));
done:
    if (status != BERTH_OK) {
        (void)dir_remove(temporary.text, NULL);
    }
    return status;
}

// --- settings -----------------------------------------------------------------------------------

static const struct convert_target *find_target(const char *name) {
    const struct convert_target *target = convert_targets;
    while (strcmp(target->name, name) != 0) {
        target++; // each choice of the setting is one
    }
    return target;
}

static enum berth_status choose_type(struct conversion *conversion, const char *dtype,
                                     struct berth_error *error) {
    const char *allowed = conversion->target->dtypes;
    conversion->matrices = TENSOR_F32;
    if (dtype == NULL) {
        conversion->retypes = conversion->target->retypes;
        return BERTH_OK;
    }
    for (size_t i = 0; i < sizeof dtype_names / sizeof *dtype_names; i++) {
        if (strcmp(dtype_names[i].name, dtype) == 0 && words_contain(allowed, ' ', dtype)) {
            conversion->matrices = dtype_names[i].dtype;
            conversion->retypes = conversion->target->keeps_all_tensors;
            return BERTH_OK;
        }
    }
    return error_set(error, BERTH_USAGE, "dtype \"%s\": %s accepts: %s", dtype,
                     conversion->target->name, allowed);
}

static enum berth_status choose_optimizer(struct conversion *conversion, const struct job *job,
                                          struct berth_error *error) {
    const char *stage = job_text(job, "zero_stage");
    const int64_t ranks = job_integer(job, "ranks");
    conversion->zero_stage = stage != NULL ? stage[0] - '0' : -1;
    conversion->ranks = ranks > 0 ? ranks : 1;
    if (stage != NULL && !words_contain("0 1 2", ' ', stage)) {
        return error_set(error, BERTH_USAGE, "zero_stage \"%s\": expected 0, 1 or 2", stage);
    }
    if (ranks != 0) {
        TRY(error_outside(error, "ranks", 1, DEEPSPEED_MAX_RANKS, ranks));
    }
    if (ranks > 0 && conversion->zero_stage < 1) {
        return error_set(error, BERTH_USAGE,
                         "ranks has no effect without zero_stage 1 or 2, which divides the "
                         "optimizer's state among them");
    }
    // Without ZeRO, DeepSpeed stores a 16-bit optimizer in another layout.
    if (conversion->zero_stage == 0 && conversion->retypes && conversion->matrices != TENSOR_F32) {
        return error_set(error, BERTH_USAGE,
                         "zero_stage 0 is for fp32: omit dtype, or use zero_stage 1");
    }
    return stage == NULL || conversion->target->zero_stages
               ? BERTH_OK
               : error_set(error, BERTH_USAGE, "zero_stage is for deepspeed; omit it for %s",
                           conversion->target->name);
}

enum berth_status convert_model(const struct job *job, struct berth_error *error) {
    const char *to = job_text(job, "to"), *output = job_text(job, "output");
    struct conversion conversion DONE_BY(conversion_done) = {
        .input = job_text(job, "input"),
        .target = find_target(to),
        .config_file = job_text(job, "config_file"),
        .vocab_file = job_text(job, "vocab_file"),
        .step = job_integer(job, "step"),
        .log = job->log,
        .stop = job->stop};
    if (job_is_given(job, "step") && !words_contain("nvidia deepspeed", ' ', to)) {
        log_note(&job->log, "step has no effect with the format %s", to);
    }
    TRY(choose_type(&conversion, job_text(job, "dtype"), error));
    TRY(choose_names(&conversion, job, error));
    TRY(choose_optimizer(&conversion, job, error));
    if (file_exists(output)) {
        return error_set(error, BERTH_CANT_CREATE, "%s is a file; give a new folder", output);
    }
    if (!dir_is_empty(output)) {
        return error_set(error, BERTH_CANT_CREATE,
                         "%s exists and is not empty; give a new folder or remove it", output);
    }
    TRY(read_source(&conversion, error));
    TRY(convert_check_norms(&conversion, error));
    TRY(check_losses(&conversion, job_flag(job, "allow_lossy"), error));
    return write_and_publish(&conversion, output, error);
}

// --- the job -------------------------------------------------------------------------------------

static enum berth_status run_convert(struct job *job, struct berth_error *error) {
    TRY(convert_model(job, error));
    log_note(&job->log, "%s contains the model as %s", job_text(job, "output"),
             job_text(job, "to"));
    return BERTH_OK;
}

static const struct option_row settings_rows[] = {
    {JOB_TEXT("input", NULL), .unit = "IN", .help = "the model"},
    {JOB_TEXT("output", NULL), .unit = "OUT", .help = "new folder"},
    {JOB_TEXT("to", "hf"), .unit = "FORMAT",
     .choices = "hf|torch|tensorflow|nvidia|deepspeed|trainer|onnx|gguf|int8",
     .help =
         "hf: Hugging Face folder; torch: the same with pytorch_model.bin; tensorflow: "
         "Google's checkpoint; nvidia: ckpt_N.pt; deepspeed: DeepSpeed's checkpoint folder "
         "(these five keep the type of every tensor); trainer: a checkpoint of transformers' "
         "Trainer with the moments of Berth's checkpoint IN; onnx: a graph for ONNX Runtime; gguf: "
         "the encoder for llama.cpp; int8: a Hugging Face folder with the encoder's matrices in "
         "int8 (compressed-tensors)"},
    {JOB_TEXT("dtype", NULL), .unit = "f32|f16|bf16",
     .help = "number format of all tensors: f32, f16 or bf16 (trainer, onnx and int8: f32; gguf: "
             "f32, or f16 for the matrices)"},
    {JOB_TEXT("names", NULL), .unit = "huggingface|nvidia|kernel", .shown = "as in the model",
     .help = "deepspeed: names of the tensors as in huggingface, in nvidia (also BingBert's), or "
             "in kernel (DeepSpeed's transformer kernel: attn_qkvw and so on)"},
    {JOB_FLAG("kernel_layers"), .help = "the same as --names kernel"},
    {JOB_INTEGER("step", "0"), BETWEEN(0, 1e15), .unit = "N",
     .help = "nvidia, deepspeed: step in the name of the checkpoint"},
    {JOB_TEXT("zero_stage", NULL), .unit = "STAGE", .shown = "the model alone",
     .help =
         "deepspeed: also write the optimizer's state of the checkpoint IN; 0: as a run without "
         "ZeRO has it; 1 or 2: as ZeRO's shards"},
    {JOB_INTEGER("ranks", "0"), BETWEEN(0, 1000), .unit = "N", .shown = "1",
     .help = "with --zero_stage 1 or 2: number of shards, one for each process"},
    {JOB_TEXT("config_file", NULL), .unit = "FILE", .shown = "beside the weights",
     .help = "config.json of weights that have none beside them"},
    {JOB_TEXT("vocab_file", NULL), .aliases = "vocab", .unit = "FILE",
     .shown = "beside the weights", .help = "vocabulary of weights that have none beside them"},
    {JOB_FLAG("allow_lossy"),
     .help = "convert even if tensors must be left out or converted to a narrower type"},
};

const struct job_row job_convert = {
    .about = {"convert", "write a model in another format"},
    .usage =
        "IN OUT [--to FORMAT] [--dtype TYPE] [--names NAMES] [--step N] [--kernel_layers] "
        "[--zero_stage STAGE] [--ranks N] [--config_file FILE] [--vocab_file FILE] [--allow_lossy]",
    .example = "berth convert squad-minilm squad-minilm-onnx --to onnx\n"
               "berth convert all-MiniLM-L6-v2 minilm-gguf --to gguf --dtype f16 --allow_lossy\n"
               "berth convert squad-minilm squad-minilm-int8 --to int8",
    .notes = "IN is a model folder in any of the formats except onnx and gguf, or the file of "
             "weights in it; OUT is a new folder, which appears complete or not at all. "
             "config.json and the tokenizer's files are copied along. If something would be lost "
             "(a tensor that the format cannot hold, a narrower type), the tensors are named and "
             "nothing is written without --allow_lossy: exit code 78.",
    JOB_SETTINGS(settings_rows),
    .arguments = 2,
    .models = 1,
    .follows = "nothing will be written",
    .run = run_convert,
};
