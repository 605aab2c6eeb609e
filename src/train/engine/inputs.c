// SPDX-License-Identifier: Apache-2.0
// Opens a model for a job in this order: the folder or the configuration, the settings that replace
// its values, the tokenizer, and whether vocabulary and model fit each other; then loads or draws
// weights into a state. Parsing the files is left to src/model/ and src/text/.
#include "train/engine/inputs.h"

#include "core/buffer.h"
#include "core/file.h"
#include "core/memory.h"
#include "format/json/json.h"
#include "model/architectures.h"
#include "model/folder.h"
#include "train/machine/machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAPITALS_LIMIT 100 // of so many entries, one may have capital letters by chance

// --- the model ----------------------------------------------------------------------------------

const char *inputs_tokenizer_folder(const struct model_settings *settings, const char *folder) {
    return settings->vocab_file != NULL && dir_exists(settings->vocab_file) ? settings->vocab_file
                                                                            : folder;
}

// Whether the vocabulary is that of the tokenizer's folder.
static int is_of_folder(const struct model_settings *settings) {
    return settings->vocab_file == NULL || dir_exists(settings->vocab_file);
}

static enum berth_status find_vocabulary(struct model_files *files,
                                         const struct model_settings *settings, const char *folder,
                                         struct vocabulary_file *file, struct berth_error *error) {
    if (is_of_folder(settings)) {
        return folder_find_vocabulary(inputs_tokenizer_folder(settings, folder), &files->vocab_path,
                                      file, error);
    }
    files->vocab_path = memory_string(settings->vocab_file);
    return files->vocab_path != NULL ? BERTH_OK : error_no_memory(error, 0, "a path");
}

// Refuses a requested casing that contradicts both the folder's settings and its name, as Google's
// programs do, which recognise their own models by name, wherever the vocabulary is. Not of a new
// model (whose `folder` is config_file) with another vocabulary, which may have another casing, nor
// of sentence-transformers', which may lower-case before a cased tokenizer.
static enum berth_status check_casing(const struct model_files *files,
                                      const struct model_settings *settings, const char *folder,
                                      struct berth_error *error) {
    const int is_new = folder == settings->config_file;
    int named = folder_name_casing(folder), sentence_lowers;
    TRY(sentence_lower_cases(folder, &sentence_lowers, error));
    if ((sentence_lowers && settings->do_lower_case) || (is_new && settings->vocab_file != NULL) ||
        named < 0 || named == settings->do_lower_case || named != files->rules.lower_case) {
        return BERTH_OK;
    }
    return error_set(error, BERTH_CONFIG,
                     "do_lower_case is %s, but %s is %s model by its name; omit do_lower_case, or "
                     "name another model",
                     settings->do_lower_case ? "true" : "false", folder,
                     named ? "an uncased" : "a cased");
}

static struct tokenizer_options options_of(const struct model_settings *settings,
                                           const struct text_rules *rules,
                                           const struct input_rules *inputs,
                                           const struct vocabulary_file *file) {
    const int google = settings->tokenizer != NULL && strcmp(settings->tokenizer, "google") == 0;
    const int by_rules = settings->split_special < 0;
    return (struct tokenizer_options){
        .rules = google ? TOKENIZER_GOOGLE : TOKENIZER_HUGGINGFACE,
        .lower_case = rules->lower_case,
        .accents = rules->strip_accents < 0 ? TOKENIZER_ACCENTS_AUTO
                   : rules->strip_accents   ? TOKENIZER_ACCENTS_STRIP
                                            : TOKENIZER_ACCENTS_KEEP,
        .whole_ideographs = !rules->tokenize_chinese_chars,
        .added = file->added,
        .added_count = file->added_count,
        .word_pieces = file->word_pieces,
        .max_word_length = settings->max_word_length == 0 && !google
                               ? file->max_word_length
                               : (int)settings->max_word_length,
        .one_type = inputs->one_type,
        .google_pairs = rules->google_pairs,
        .cleans_up = inputs->cleans_up,
        .keeps_blanks = inputs->keeps_blanks,
        .keeps_pieces = inputs->keeps_pieces,
        .split_special = by_rules                      ? inputs->split_special
                         : settings->split_special > 0 ? 1
                                                       : -1,
    };
}

static void apply_settings(const struct model_settings *settings, struct text_rules *rules) {
    if (settings->do_lower_case >= 0) {
        rules->lower_case = settings->do_lower_case;
    }
    if (settings->tokenize_chinese_chars >= 0) {
        rules->tokenize_chinese_chars = settings->tokenize_chinese_chars;
    }
    if (settings->strip_accents != NULL) {
        rules->strip_accents = strcmp(settings->strip_accents, "auto") == 0
                                   ? -1
                                   : strcmp(settings->strip_accents, "true") == 0;
    }
    if (settings->pair_truncation != NULL) {
        rules->google_pairs = strcmp(settings->pair_truncation, "google") == 0;
    }
}

static enum berth_status open_pipeline(struct model_files *files,
                                       const struct model_settings *settings, const char *folder,
                                       const struct vocabulary_file *file,
                                       const struct input_rules *inputs,
                                       struct berth_error *error) {
    struct folder_names found = {.pad = ""};
    // Settings that change BERT's rules do not apply to a pipeline.
    const int google = settings->tokenizer != NULL && strcmp(settings->tokenizer, "google") == 0;
    const char *name = settings->do_lower_case >= 0            ? "do_lower_case"
                       : settings->strip_accents != NULL       ? "strip_accents"
                       : settings->tokenize_chinese_chars >= 0 ? "tokenize_chinese_chars"
                       : settings->max_word_length > 0         ? "max_word_length"
                       : google                                ? "tokenizer google"
                                                               : NULL;
    if (name != NULL) {
        return error_set(error, BERTH_CONFIG,
                         "%s: expected BERT's tokenizer, the only one that %s changes; "
                         "this file says itself what is done with a text: leave the "
                         "setting out",
                         files->vocab_path, name);
    }
    if (folder != NULL) {
        TRY(folder_token_names(folder, &found, error));
    }
    const struct tokenizer_names names = {.pad = found.pad[0] != '\0' ? found.pad : NULL,
                                          .unknown =
                                              found.unknown[0] != '\0' ? found.unknown : NULL,
                                          .mask = found.mask[0] != '\0' ? found.mask : NULL};
    const struct tokenizer_options options = options_of(settings, &files->rules, inputs, file);
    return tokenizer_open_pipeline(files->vocab_path, file->object, &names, &options,
                                   &files->tokenizer, error);
}

// Opens files->vocab_path, whose content *file may already hold.
static enum berth_status read_tokenizer(struct model_files *files,
                                        const struct model_settings *settings, const char *folder,
                                        struct vocabulary_file *file, struct berth_error *error) {
    folder = inputs_tokenizer_folder(settings, folder);
    const char *own = is_of_folder(settings) ? folder : NULL; // owner of the vocabulary
    TRY(folder_read_vocabulary(own, files->vocab_path, file, error));
    files->rules = file->rules;
    struct input_rules inputs = {0};
    if (folder != NULL) {
        TRY(folder_text_rules(folder, own != NULL ? file : NULL, &files->rules, error));
        TRY(folder_input_rules(folder, own != NULL ? file : NULL, &inputs, error));
    }
    // A vocabulary alone has no shape.
    inputs.one_type |= files->shape.hidden_size > 0 && files->shape.type_vocab_size < 2;
    files->max_length = inputs.max_length;
    apply_settings(settings, &files->rules);
    if (files->rules.is_pipeline || file->is_other) {
        files->rules.is_pipeline = 1;
        return open_pipeline(files, settings, own, file, &inputs, error);
    }
    const struct tokenizer_options options = options_of(settings, &files->rules, &inputs, file);
    return tokenizer_open_memory(files->vocab_path, file->bytes, file->length, &options,
                                 &files->tokenizer, error);
}

enum berth_status model_files_open_tokenizer(struct model_files *files,
                                             const struct model_settings *settings,
                                             const char *folder, struct berth_error *error) {
    struct vocabulary_file file = {0};
    enum berth_status status = files->vocab_path == NULL
                                   ? find_vocabulary(files, settings, folder, &file, error)
                                   : BERTH_OK;
    if (status == BERTH_OK) {
        status = read_tokenizer(files, settings, folder, &file, error);
    }
    vocabulary_file_done(&file);
    return status;
}

enum berth_status inputs_digest_vocabulary(const struct tokenizer *tokenizer,
                                           char digest[DIGEST_HEX_SIZE],
                                           struct berth_error *error) {
    const size_t pieces = tokenizer_rules_of(tokenizer)->word_pieces;
    const size_t count = pieces > 0 ? pieces : tokenizer_size(tokenizer);
    struct buffer words = {0};
    for (size_t i = 0; i < count; i++) {
        buffer_put_text(&words, tokenizer_piece(tokenizer, (int32_t)i));
        buffer_put_byte(&words, '\n');
    }
    const enum berth_status status =
        words.failed ? error_no_memory(error, 0, "the vocabulary's words")
                     : digest_memory(DIGEST_SHA256, words.bytes, words.length, digest, error);
    buffer_done(&words);
    return status;
}

static enum berth_status compare_words(const struct model_files *files,
                                       const struct model_files *other, struct berth_error *error) {
    char own[DIGEST_HEX_SIZE], theirs[DIGEST_HEX_SIZE];
    TRY(inputs_digest_vocabulary(files->tokenizer, own, error));
    TRY(inputs_digest_vocabulary(other->tokenizer, theirs, error));
    return strcmp(own, theirs) == 0
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG,
                           "%s has other words than %s, the vocabulary of the checkpoint; use "
                           "that one, or start from the weights alone with model_name_or_path",
                           files->vocab_path, other->vocab_path);
}

enum berth_status model_files_check_vocabulary(const struct model_files *files, const char *folder,
                                               struct berth_error *error) {
    struct model_files other = {0};
    struct model_settings usual;
    struct berth_error own;
    if (files->tokenizer == NULL || path_is_inside(files->vocab_path, folder)) {
        return BERTH_OK;
    }
    model_settings_init(&usual);
    enum berth_status status = model_files_open_tokenizer(&other, &usual, folder, &own);
    status = status == BERTH_OK         ? compare_words(files, &other, error)
             : status == BERTH_NO_INPUT ? BERTH_OK // the checkpoint has no vocabulary
                                        : error_copy(error, &own);
    model_files_done(&other);
    return status;
}

enum berth_status inputs_follow_sentence(struct model_settings *settings, const char *folder,
                                         struct berth_error *error) {
    int lower_case;
    struct text_rules rules;
    TRY(sentence_lower_cases(folder, &lower_case, error));
    if (!lower_case || settings->do_lower_case >= 0) {
        return BERTH_OK;
    }
    TRY(folder_text_rules(folder, NULL, &rules, error));
    if (settings->strip_accents == NULL && rules.strip_accents < 0 && !rules.lower_case) {
        settings->strip_accents = "false";
    }
    settings->do_lower_case = 1;
    return BERTH_OK;
}

void inputs_warn_of_casing(const struct tokenizer *tokenizer, const char *vocab_path,
                           const struct berth_log *log) {
    const size_t capitals = tokenizer_capital_pieces(tokenizer), all = tokenizer_size(tokenizer);
    if (capitals * CAPITALS_LIMIT > all) {
        log_warning(log,
                    "texts are converted to lower case, but %zu of the %zu entries of %s have "
                    "capital letters; if the model is cased, use do_lower_case false",
                    capitals, all, vocab_path);
    }
}

enum berth_status inputs_find_tokenizer(const struct model_settings *settings,
                                        struct tokenizer **tokenizer, struct berth_error *error) {
    if (settings->vocab_file == NULL && settings->model_name_or_path == NULL) {
        return error_set(error, BERTH_USAGE,
                         "no vocabulary: give model_name_or_path (a folder) or vocab_file");
    }
    struct model_files files = {0};
    enum berth_status status =
        model_files_open_tokenizer(&files, settings, settings->model_name_or_path, error);
    *tokenizer = files.tokenizer;
    files.tokenizer = NULL;
    model_files_done(&files);
    return status;
}

static enum berth_status open_tokenizer(struct model_files *files,
                                        const struct model_settings *settings, const char *folder,
                                        struct vocabulary_file *file, const struct berth_log *log,
                                        struct berth_error *error) {
    if (settings->do_lower_case >= 0) {
        const struct vocabulary_file *own = settings->vocab_file == NULL ? file : NULL;
        TRY(folder_text_rules(folder, own, &files->rules, error));
        TRY(check_casing(files, settings, folder, error));
    }
    TRY(read_tokenizer(files, settings, folder, file, error));
    return folder_note_inputs(inputs_tokenizer_folder(settings, folder),
                              is_of_folder(settings) ? file : NULL, log, error);
}

// The vocabulary of a model in `folder`; that of a new one, whose `folder` is its configuration,
// must fit.
static enum berth_status check_size(const struct model_files *files, const char *folder,
                                    const char *config_path, const struct berth_log *log,
                                    struct berth_error *error) {
    const int64_t words = (int64_t)tokenizer_size(files->tokenizer);
    OWNED char *own = folder_file(folder, path_name(files->vocab_path));
    if (own == NULL) {
        return error_no_memory(error, 0, "a path");
    }
    const int is_own = strcmp(folder, config_path) != 0 && path_is_same(files->vocab_path, own);
    return is_own ? folder_check_own_vocab(&files->shape, config_path, words, files->vocab_path,
                                           log, error)
                  : folder_check_vocab(&files->shape, config_path, words, files->vocab_path, error);
}

struct length_limits model_files_limits(const struct model_files *files, int64_t usual,
                                        const char *source) {
    const int is_free = files->table.head == PARAM_HEAD_PRETRAINING;
    if (files->sentence.found) {
        usual = files->sentence.max_length > 0 ? files->sentence.max_length : LENGTH_OF_MODEL;
    }
    if (usual == LENGTH_OF_MODEL && files->max_length > 0) {
        usual = files->max_length;
    }
    return (struct length_limits){.usual = usual,
                                  .positions = is_free ? INT64_MAX : bert_positions(&files->shape),
                                  .source = source};
}

int model_files_distinguish_pairs(const struct model_files *files) {
    return files->shape.type_vocab_size >= 2 ||
           !bert_architecture(&files->shape)->types_separate_pairs;
}

static enum berth_status check_types(const struct model_files *files, const char *folder,
                                     struct berth_error *error) {
    const int reads_pairs =
        files->table.head == PARAM_HEAD_SPAN || files->table.head == PARAM_HEAD_PRETRAINING;
    if (!model_files_distinguish_pairs(files) && reads_pairs) {
        return error_set(error, BERTH_CONFIG,
                         "%s: type_vocab_size %" PRId64
                         ": the model cannot distinguish the second text of a pair, which %s "
                         "reads, from the first; use a model with type_vocab_size 2",
                         folder, files->shape.type_vocab_size,
                         param_head_row(files->table.head)->title);
    }
    return BERTH_OK;
}

// Finds from the weights whether layer norms are before or after the sub-layers. A dry run without
// weights uses config.json.
static enum berth_status find_norms(struct model_files *files, const char *folder,
                                    const struct berth_log *log, struct berth_error *error) {
    struct berth_error missing;
    enum berth_status status = folder_find_norms(folder, &files->shape, &missing);
    if (status == BERTH_NO_INPUT && files->only_planned) {
        log_warning(log, "%s; the plan uses the configuration, but the run will need the weights",
                    missing.message);
        return BERTH_OK;
    }
    return status == BERTH_OK ? BERTH_OK : error_copy(error, &missing);
}

// Opens vocabulary and tokenizer, and checks that they fit the shape read from `config_path`.
static enum berth_status open_vocabulary(struct model_files *files, struct model_settings *settings,
                                         const char *folder, const char *config_path,
                                         const struct berth_log *log, struct berth_error *error) {
    struct vocabulary_file file = {0};
    enum berth_status status = find_vocabulary(files, settings, folder, &file, error);
    // Pre-training reads token ids: it needs only the size of the vocabulary, which the
    // configuration has.
    const int leaves_out = status == BERTH_OK && files->table.head == PARAM_HEAD_PRETRAINING &&
                           settings->vocab_file == NULL && files->shape.vocab_size > 0 &&
                           !file_exists(files->vocab_path);
    if (status == BERTH_OK && !leaves_out) {
        status = open_tokenizer(files, settings, folder, &file, log, error);
    }
    vocabulary_file_done(&file);
    TRY(status);
    if (leaves_out) {
        log_note(log,
                 "%s: no such file: the result will have no vocabulary; vocab_file FILE adds one",
                 files->vocab_path);
        memory_free(files->vocab_path);
        files->vocab_path = NULL;
        TRY(folder_text_rules(folder, NULL, &files->rules, error));
        apply_settings(settings, &files->rules);
        return check_types(files, folder, error);
    }
    if (files->shape.vocab_size == 0) { // not in the configuration
        files->shape.vocab_size = (int64_t)tokenizer_size(files->tokenizer);
    }
    TRY(check_size(files, folder, config_path, log, error));
    struct tokenizer_special special = tokenizer_special_ids(files->tokenizer);
    if (special.cls < 0 || special.sep < 0) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: missing token %s; use a BERT vocabulary, or a "
                         "tokenizer.json whose post-processor puts tokens around a text",
                         files->vocab_path, special.cls < 0 ? "[CLS]" : "[SEP]");
    }
    inputs_warn_of_casing(files->tokenizer, files->vocab_path, log);
    return check_types(files, folder, error);
}

static enum berth_status open_folder(struct model_files *files, struct model_settings *settings,
                                     const char *folder, const struct berth_log *log,
                                     struct berth_error *error) {
    OWNED char *config_path = settings->config_file != NULL ? memory_string(settings->config_file)
                                                            : folder_config_path(folder);
    if (config_path == NULL) {
        return error_no_memory(error, 0, "a path");
    }
    TRY(open_vocabulary(files, settings, folder, config_path, log, error));
    TRY(find_norms(files, folder, log, error));
    // Refuses a request that contradicts the model: its weights would be meaningless.
    static const char *const sides[] = {"after", "before"};
    int found = files->shape.pre_layer_norm;
    if (settings->pre_layer_norm < 0 || settings->pre_layer_norm == found) {
        return BERTH_OK;
    }
    return error_set(error, BERTH_CONFIG,
                     "pre_layer_norm: expected a model with layer norms %s its sub-layers, but %s "
                     "has them %s; omit the option: the model's tensors determine it",
                     sides[!found], folder, sides[found]);
}

enum berth_status model_files_open_new(struct model_files *files, struct model_settings *settings,
                                       enum param_head head, const struct berth_log *log,
                                       struct berth_error *error) {
    *files = (struct model_files){.table = {.head = head}};
    enum berth_status status = folder_read_geometry(settings->config_file, &files->shape, error);
    if (status != BERTH_OK) {
        return status;
    }
    TRY_DONE(inputs_settle_gelu(settings, &files->shape, error));
    const char *path = settings->config_file;
    const int64_t multiple = settings->vocab_multiple;
    if (files->shape.source_json == NULL && settings->vocab_file != NULL) {
        files->shape.vocab_size = 0; // a built-in shape has any vocabulary's size
    }
    TRY_DONE(open_vocabulary(files, settings, path, path, log, error));
    files->shape.vocab_size = (files->shape.vocab_size + multiple - 1) / multiple * multiple;
    if (settings->pre_layer_norm >= 0) {
        files->shape.pre_layer_norm = (int)settings->pre_layer_norm;
    }
    files->shape.truncated_initializer =
        settings->initializer != NULL && strcmp(settings->initializer, "truncated_normal") == 0;
    TRY_DONE(param_table_init(&files->table, &files->shape, head, error));
    return BERTH_OK;
done:
    model_files_done(files);
    return status;
}

enum berth_status inputs_settle_gelu(const struct model_settings *settings,
                                     struct bert_config *shape, struct berth_error *error) {
    if (settings->gelu != NULL && strcmp(settings->gelu, "tanh") == 0 &&
        shape->hidden_act == ACTIVATION_GELU_ERF) {
        shape->hidden_act = ACTIVATION_GELU_TANH;
    }
    return BERTH_OK;
}

enum berth_status model_files_open(struct model_files *files, struct model_settings *settings,
                                   const char *folder, enum param_head head,
                                   const struct berth_log *log, struct berth_error *error) {
    *files = (struct model_files){
        .strict = settings->strict, .only_planned = files->only_planned, .table = {.head = head}};
    TRY(path_require(folder, MODEL_EXPECTED, error));
    enum berth_status status = settings->config_file != NULL
                                   ? bert_config_read(settings->config_file, &files->shape, error)
                                   : folder_read_config(folder, &files->shape, error);
    if (status != BERTH_OK) {
        return status;
    }
    TRY_DONE(inputs_settle_gelu(settings, &files->shape, error));
    if (files->table.head == PARAM_HEAD_MASKED) {
        TRY_DONE(sentence_read_sparse(folder, &files->sentence, error));
    } else if (files->table.head == PARAM_HEAD_EMBEDDING) {
        TRY_DONE(sentence_read(folder, &files->sentence, error));
    }
    if (files->sentence.found || files->table.head == PARAM_HEAD_EMBEDDING) {
        TRY_DONE(inputs_follow_sentence(settings, folder, error));
    }
    TRY_DONE(open_folder(files, settings, folder, log, error));
    TRY_DONE(param_table_init(&files->table, &files->shape, head, error));
    return BERTH_OK;
done:
    model_files_done(files);
    return status;
}

void model_files_done(struct model_files *files) {
    tokenizer_close(files->tokenizer);
    param_table_done(&files->table);
    bert_config_done(&files->shape);
    sentence_done(&files->sentence);
    memory_free(files->vocab_path);
    *files = (struct model_files){0};
}

enum berth_status model_files_merge(struct model_files *files, const json *object,
                                    struct berth_error *error) {
    enum param_head head = files->table.head;
    TRY(bert_config_merge(&files->shape, object, error));
    param_table_done(&files->table);
    return param_table_init(&files->table, &files->shape, head, error);
}

// Joins names, one a line, as "a, b, c"; "a, b, ..." if they do not all fit. A first name that does
// not fit is cut.
static void join_names(const char *names, char text[256]) {
    const size_t limit = 256 - sizeof ", ...";
    size_t used = 0;
    for (const char *name = names; *name != '\0'; name += strspn(name, "\n")) {
        const size_t length = strcspn(name, "\n");
        const char *separator = used > 0 ? ", " : "";
        if (used > 0 && used + strlen(separator) + length > limit) {
            strcpy(text + used, ", ...");
            return;
        }
        const size_t shown = length < limit ? length : limit;
        used += (size_t)sprintf(text + used, "%s%.*s", separator, (int)shown, name);
        name += length;
    }
}

struct weights_origin {
    const char *folder, *title; // "a span model"
    int training;
};

static void report_weights(const struct folder_report *report, const struct weights_origin *origin,
                           const struct berth_log *log) {
    const char *folder = origin->folder;
    char names[256];
    log_detail(log, "model: %zu tensors from %s", report->loaded, folder);
    if (report->missing != NULL) {
        join_names(report->missing, names);
        if (origin->training) {
            log_detail(log, "model: newly initialised, to be trained: %s", names);
        } else {
            log_warning(log,
                        "model: %s lacks %s; random values are used instead, and the output is "
                        "meaningless",
                        folder, names);
        }
    }
    if (report->unexpected != NULL) {
        join_names(report->unexpected, names);
        log_detail(log, "model: left out, not part of %s: %s", origin->title, names);
    }
    if (report->ignored_keys > 0) {
        log_warning(log, "model: %zu keys in the header of %s's weights are unknown",
                    report->ignored_keys, folder);
    }
}

static enum berth_status check_strict(const struct folder_report *report,
                                      const struct weights_origin *origin,
                                      struct berth_error *error) {
    char names[256];
    const char *list = report->missing != NULL ? report->missing : report->unexpected;
    if (list == NULL) {
        return BERTH_OK;
    }
    join_names(list, names);
    return error_set(
        error, BERTH_BAD_DATA, "%s: %s for %s: %s; omit strict to continue anyway", origin->folder,
        report->missing != NULL ? "missing tensors" : "unexpected tensors", origin->title, names);
}

enum berth_status model_files_load(const struct model_files *files, const char *folder,
                                   uint64_t seed, const struct berth_log *log, struct state *state,
                                   struct berth_error *error) {
    struct folder_report report = {0};
    struct state_loader loader;
    enum berth_status status = state_loader_init(&loader, state, folder, error);
    if (status == BERTH_OK) {
        const struct param_sink sink = state_loader_sink(&loader);
        status = folder_read_weights_into(folder, &files->shape, &files->table, seed, &sink,
                                          &report, error);
    }
    if (status == BERTH_OK) {
        status = state_loader_finish(&loader, &files->shape, error);
    }
    state_loader_done(&loader);
    if (status == BERTH_OK) {
        struct weights_origin origin = {folder, param_head_row(files->table.head)->title,
                                        state->gradients != NULL};
        status = files->strict ? check_strict(&report, &origin, error) : BERTH_OK;
        if (status == BERTH_OK) {
            report_weights(&report, &origin, log);
        }
    }
    folder_report_done(&report);
    return status;
}

enum berth_status model_files_require_head(const struct model_files *files,
                                           const struct model_settings *settings,
                                           const char *folder, struct berth_error *error) {
    const struct param_head_row *head = param_head_row(files->table.head);
    struct berth_error failure = {.status = BERTH_OK};
    char names[256], *missing = NULL;
    if (settings->allow_new_head) {
        return BERTH_OK;
    }
    enum berth_status status =
        folder_find_missing(folder, &files->shape, &files->table, &missing, &failure);
    if (status == BERTH_NO_INPUT && files->only_planned) {
        return BERTH_OK; // find_norms has said so
    }
    if (missing != NULL) {
        join_names(missing, names);
        status = error_set(&failure, BERTH_CONFIG,
                           "%s lacks %s, the head of %s; train one with `%s` (for tests, "
                           "allow_new_head computes with random values)",
                           folder, names, head->title, head->trained_by);
        memory_free(missing);
    }
    return status == BERTH_OK ? BERTH_OK : error_copy(error, &failure);
}

enum berth_status model_files_initialise(const struct model_files *files, uint64_t seed,
                                         struct state *state, struct berth_error *error) {
    struct state_loader loader;
    enum berth_status status = state_loader_init(&loader, state, "the initial weights", error);
    if (status == BERTH_OK) {
        const struct param_sink sink = state_loader_sink(&loader);
        status = param_initialise_into(&files->table, &files->shape, seed, &sink, error);
    }
    if (status == BERTH_OK) {
        status = state_loader_finish(&loader, &files->shape, error);
    }
    state_loader_done(&loader);
    return status;
}
