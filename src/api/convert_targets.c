// SPDX-License-Identifier: Apache-2.0
// The formats that berth_convert writes. A new format is a function and a row at the end of this
// file. convert.c calls them with a model that it has read; tensors are collected by
// convert_tensors.c.
#include "api/conversion.h"
#include "api/gguf_tokens.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "core/utf8.h"
#include "model/architectures.h"
#include "model/export_gguf.h"
#include "model/export_onnx.h"
#include "model/folder.h"
#include "model/sentence.h"
#include "text/vocabulary.h"

#include <stdio.h>
#include <string.h>

// --- weights as one buffer ----------------------------------------------------------------------

// Reads everything in conversion->table as f32; free with free_weights, also after a failure.
static enum berth_status load_weights(const struct conversion *conversion, float **buffer,
                                      struct berth_error *error) {
    const size_t bytes = (size_t)conversion->table.total * sizeof **buffer;
    struct folder_report report DONE_BY(folder_report_done) = {0};
    *buffer = memory_pages(bytes);
    if (*buffer == NULL) {
        return error_no_memory(error, bytes, "the weights");
    }
    TRY(folder_read_weights(conversion->input, &conversion->config, &conversion->table, 0, *buffer,
                            &report, error));
    return report.missing == NULL ? BERTH_OK
                                  : error_set(error, BERTH_BAD_DATA, "%s: missing tensor \"%.*s\"",
                                              conversion->weights.file.path,
                                              (int)strcspn(report.missing, "\n"), report.missing);
}

static void free_weights(const struct conversion *conversion, float *buffer) {
    memory_pages_free(buffer, (size_t)conversion->table.total * sizeof *buffer);
}

// --- onnx ---------------------------------------------------------------------------------------

static enum berth_status write_onnx(const struct conversion *conversion,
                                    struct berth_error *error) {
    const struct path path = path_in(conversion->folder, "model.onnx");
    float *buffer;
    enum berth_status status = load_weights(conversion, &buffer, error);
    if (status == BERTH_OK) {
        status =
            export_onnx_write(path.text, &conversion->config, &conversion->table, buffer, 0, error);
    }
    free_weights(conversion, buffer);
    return status;
}

// --- gguf ---------------------------------------------------------------------------------------

// The folder's own name, or "bert" if it has none that is text, as everything in a GGUF file is.
static void name_model(const char *folder, char *name, size_t size) {
    size_t length;
    const char *own = path_name_trimmed(folder, &length);
    const int is_name = strspn(own, ".") < length && utf8_is_valid(own, length);
    snprintf(name, size, "%.*s", is_name ? (int)utf8_cut(own, length, size - 1) : 4,
             is_name ? own : "bert");
}

// llama.cpp's number for the pooling of a sentence-transformers folder; 0 for another folder, or if
// llama.cpp does not support the pooling, which is logged.
static enum berth_status find_pooling(const struct conversion *conversion, int *number,
                                      struct berth_error *error) {
    static const int numbers[SENTENCE_POOLINGS] = {
        [BERTH_POOL_MEAN] = 1, [BERTH_POOL_CLS] = 2, [BERTH_POOL_LAST] = 3};
    struct sentence sentence DONE_BY(sentence_done) = {0};
    TRY(sentence_read(conversion->input, &sentence, error));
    if (sentence.dense_count > 0 || sentence.truncate_dim > 0) {
        return error_set(
            error, BERTH_CONFIG, "%s as gguf: llama.cpp's BERT has no %s; convert the model to hf",
            conversion->input, sentence.dense_count > 0 ? "module Dense" : "truncate_dim");
    }
    *number = sentence.found ? numbers[sentence.how.pooling] : 0;
    if (sentence.found && *number == 0) {
        log_warning(&conversion->log,
                    "llama.cpp does not support the pooling of the model's modules.json");
    }
    return BERTH_OK;
}

static enum berth_status check_count(const struct conversion *conversion, const char *path,
                                     int64_t words, struct berth_error *error) {
    const struct bert_config *config = &conversion->config;
    const char *model = conversion->input;
    return conversion->vocab_file == NULL
               ? folder_check_own_vocab(config, model, words, path, &conversion->log, error)
               : folder_check_vocab(config, model, words, path, error);
}

enum berth_status conversion_parse_vocabulary(const struct conversion *conversion, const char *path,
                                              const struct vocabulary_file *file,
                                              struct vocabulary *vocabulary,
                                              struct berth_error *error) {
    TRY(vocabulary_read(vocabulary, path, file->bytes, file->length, error));
    const enum berth_status status =
        check_count(conversion, path, (int64_t)vocabulary->count, error);
    if (status != BERTH_OK) {
        vocabulary_done(vocabulary);
    }
    return status;
}

// What llama.cpp needs of the tokenizer at `path`. `vocabulary`, of word pieces, is borrowed.
static enum berth_status read_tokens(const struct conversion *conversion, const char *path,
                                     struct vocabulary *vocabulary, struct gguf_tokens *tokens,
                                     struct berth_error *error) {
    struct vocabulary_file file DONE_BY(vocabulary_file_done) = {0};
    struct text_rules rules;
    const char *own = conversion->vocab_file == NULL ? conversion->input : NULL;
    TRY(folder_read_vocabulary(own, path, &file, error));
    if (file.is_other) {
        TRY(gguf_tokens_of_pipeline(conversion, path, file.object, tokens, error));
        return check_count(conversion, path, (int64_t)tokens->tokens.count, error);
    }
    TRY(conversion_parse_vocabulary(conversion, path, &file, vocabulary, error));
    TRY(folder_text_rules(conversion->input, NULL, &rules, error));
    tokens->tokens.lower_case = rules.lower_case;
    tokens->tokens.strip_accents = rules.strip_accents < 0 ? rules.lower_case : rules.strip_accents;
    return gguf_tokens_of_pieces(vocabulary, tokens, error);
}

static enum berth_status write_model(const struct conversion *conversion, const float *buffer,
                                     const struct gguf_tokens *tokens, struct berth_error *error) {
    const struct path path = path_in(conversion->folder, "model.gguf");
    char name[128];
    struct path folder;
    int pooling = 0;
    TRY(sentence_find_folder(conversion->input, &folder, error));
    name_model(folder.text, name, sizeof name);
    TRY(find_pooling(conversion, &pooling, error));
    const struct export_gguf export = {.config = &conversion->config,
                                       .table = &conversion->table,
                                       .buffer = buffer,
                                       .name = name,
                                       .pooling = pooling,
                                       .matrices = conversion->matrices,
                                       .tokens = tokens->tokens};
    return export_gguf_write(path.text, &export, error);
}

// llama.cpp computes GELU in every BERT, whatever the file says.
static enum berth_status check_gguf(const struct conversion *conversion,
                                    struct berth_error *error) {
    struct text_rules rules;
    enum activation activation = conversion->config.hidden_act;
    if (activation != ACTIVATION_GELU_ERF && activation != ACTIVATION_GELU_TANH) {
        return error_set(error, BERTH_CONFIG,
                         "%s as gguf: %s is %s, but llama.cpp's BERT computes gelu; "
                         "convert it to onnx",
                         conversion->input,
                         architecture_key(bert_architecture(&conversion->config), "hidden_act"),
                         bert_activation_name(activation));
    }
    TRY(folder_text_rules(conversion->input, NULL, &rules, error));
    if (!rules.tokenize_chinese_chars) {
        log_warning(
            &conversion->log,
            "llama.cpp's tokenizer treats each Chinese character as a word, this model's does not");
    }
    return BERTH_OK;
}

enum berth_status conversion_vocabulary_path(const struct conversion *conversion, char **path,
                                             struct berth_error *error) {
    if (conversion->vocab_file == NULL) {
        return folder_vocabulary_path(conversion->input, path, error);
    }
    *path = memory_string(conversion->vocab_file);
    return *path != NULL ? BERTH_OK : error_no_memory(error, 0, "a path");
}

static enum berth_status write_gguf(const struct conversion *conversion,
                                    struct berth_error *error) {
    OWNED char *vocab_path = NULL;
    struct vocabulary vocabulary DONE_BY(vocabulary_done) = {0};
    struct gguf_tokens tokens DONE_BY(gguf_tokens_done) = {.texts = NULL};
    float *buffer;
    TRY(check_gguf(conversion, error));
    TRY(conversion_vocabulary_path(conversion, &vocab_path, error));
    if (file_exists(vocab_path)) {
        TRY(read_tokens(conversion, vocab_path, &vocabulary, &tokens, error));
    } else {
        log_note(&conversion->log,
                 "no vocab.txt and no tokenizer.json in %s: the GGUF file has no tokenizer",
                 conversion->input);
    }
    enum berth_status status = load_weights(conversion, &buffer, error);
    if (status == BERTH_OK) {
        for (size_t i = 0; i < conversion->table.count && conversion->matrices == TENSOR_F16; i++) {
            const struct param *param = &conversion->table.params[i];
            if (export_gguf_is_matrix(param)) {
                conversion_warn_of_range(conversion, param->name, buffer + param->offset,
                                         (size_t)(param->rows * param->cols));
            }
        }
        status = write_model(conversion, buffer, &tokens, error);
    }
    free_weights(conversion, buffer);
    return status;
}

// --- the table ----------------------------------------------------------------------------------

static int takes_dialects(const struct architecture *row) {
    return row->has_dialects;
}

static int takes_gguf(const struct architecture *row) {
    return row->is_in_gguf;
}

#define KEPT_TYPES "f32 f16 bf16"
#define HUGGINGFACE .name = "huggingface"
#define NVIDIA .name = "nvidia", .dialect = &names_nvidia, .vocab_multiple = 8, .ties = 1
const struct convert_target convert_targets[] = {
    {.name = "hf",
     .keeps_all_tensors = 1,
     .dtypes = KEPT_TYPES,
     .names = {{HUGGINGFACE}},
     .unties = 1,
     .reader = "transformers",
     .write = convert_to_hf},
    {.name = "int8",
     .keeps_all_tensors = 1,
     .dtypes = "f32",
     .retypes = 1,
     .names = {{HUGGINGFACE}},
     .unties = 1,
     .reader = "transformers",
     .write = convert_to_int8},
    {.name = "torch",
     .keeps_all_tensors = 1,
     .dtypes = KEPT_TYPES,
     .names = {{HUGGINGFACE}},
     .write = convert_to_torch},
    {.name = "tensorflow",
     .keeps_all_tensors = 1,
     .dtypes = KEPT_TYPES,
     .names = {{.name = "google", .dialect = &names_tensorflow}},
     .google_config = 1,
     .reader = "Google's BERT",
     .takes = takes_dialects,
     .write = convert_to_tensorflow},
    {.name = "nvidia",
     .keeps_all_tensors = 1,
     .dtypes = KEPT_TYPES,
     .names = {{NVIDIA}},
     .google_config = 1,
     .reader = "NVIDIA's BERT",
     .takes = takes_dialects,
     .write = convert_to_nvidia},
    {.name = "deepspeed",
     .keeps_all_tensors = 1,
     .dtypes = KEPT_TYPES,
     .names = {{HUGGINGFACE, .ties = WEIGHT_TIES},
               {NVIDIA},
               {.name = "kernel", .dialect = &names_kernel, .vocab_multiple = 8, .ties = 1}},
     .google_config = 1,
     .zero_stages = 1,
     .takes = takes_dialects,
     .write = convert_to_deepspeed},
    {.name = "trainer",
     .keeps_all_tensors = 1,
     .dtypes = "f32",
     .names = {{HUGGINGFACE}},
     .unties = 1,
     .reader = "transformers",
     .trainer_groups = 1,
     .write = convert_to_trainer},
    {.name = "onnx",
     .dtypes = "f32",
     .names = {{HUGGINGFACE}},
     .holds_head = 1,
     .reader = "the graph that is written",
     .write = write_onnx},
    {.name = "gguf",
     .dtypes = "f32 f16",
     .names = {{.name = "llama.cpp"}},
     .reader = "llama.cpp's BERT",
     .takes = takes_gguf,
     .write = write_gguf},
};
const size_t convert_target_count = sizeof convert_targets / sizeof *convert_targets;

enum berth_status convert_check_architecture(const struct conversion *conversion,
                                             struct berth_error *error) {
    const struct convert_target *target = conversion->target;
    const struct architecture *row = bert_architecture(&conversion->config);
    char known[128] = "";
    for (size_t i = 0; i < convert_target_count; i++) {
        if (convert_targets[i].takes == NULL || convert_targets[i].takes(row)) {
            words_add(known, sizeof known, convert_targets[i].name);
        }
    }
    return target->takes == NULL || target->takes(row)
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG,
                           "%s as %s: Berth does not write %s in this format; convert it to one of "
                           "%s",
                           conversion->input, target->name, row->title, known);
}

enum berth_status convert_check_norms(const struct conversion *conversion,
                                      struct berth_error *error) {
    const struct convert_target *target = conversion->target;
    if (!conversion->config.pre_layer_norm || target->reader == NULL) {
        return BERTH_OK;
    }
    if (!target->keeps_all_tensors) {
        return error_set(error, BERTH_CONFIG,
                         "%s as %s: this model has layer norms before its sub-layers, which %s "
                         "does not support; convert it to torch or deepspeed",
                         conversion->input, target->name, target->reader);
    }
    log_warning(&conversion->log,
                "this model has layer norms before its sub-layers, which %s does not support: of "
                "the programs that read %s, only Berth computes this model correctly",
                target->reader, target->name);
    return BERTH_OK;
}
