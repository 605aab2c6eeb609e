// SPDX-License-Identifier: Apache-2.0
// One table of files and keys is read when a model is opened (train/engine/inputs.c) and written
// when one is saved. Dense modules are in sentence_dense.c; the vectors are pooled in task/embed.c.
#include "model/sentence.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "core/utf8.h"
#include "model/folder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MODULES_FILE "modules.json"
#define LENGTH_FILE "sentence_bert_config.json"
#define PROMPTS_FILE "config_sentence_transformers.json"

const char *const sentence_pooling_names[SENTENCE_POOLINGS] = {
    [BERTH_POOL_MEAN] = "mean",
    [BERTH_POOL_CLS] = "cls",
    [BERTH_POOL_MAX] = "max",
    [BERTH_POOL_MEAN_SQRT_LENGTH] = "mean_sqrt_len_tokens",
    [BERTH_POOL_WEIGHTED_MEAN] = "weightedmean",
    [BERTH_POOL_LAST] = "lasttoken",
};

// The keys of versions before 6: one boolean per pooling.
static const char *const old_names[SENTENCE_POOLINGS] = {
    [BERTH_POOL_MEAN] = "pooling_mode_mean_tokens",
    [BERTH_POOL_CLS] = "pooling_mode_cls_token",
    [BERTH_POOL_MAX] = "pooling_mode_max_tokens",
    [BERTH_POOL_MEAN_SQRT_LENGTH] = "pooling_mode_mean_sqrt_len_tokens",
    [BERTH_POOL_WEIGHTED_MEAN] = "pooling_mode_weightedmean_tokens",
    [BERTH_POOL_LAST] = "pooling_mode_lasttoken",
};

// --- files --------------------------------------------------------------------------------------

// Reads FOLDER/MODULE/NAME; MODULE may be empty. *object is NULL if the file does not exist. *path
// is the file's path; the caller frees it.
static enum berth_status read_member(const char *folder, const char *module, const char *name,
                                     json **object, char **path, struct berth_error *error) {
    char *inside = folder_file(folder, module);
    *object = NULL;
    *path = inside != NULL ? path_join(inside, name) : NULL;
    memory_free(inside);
    if (*path == NULL) {
        return error_no_memory(error, 0, "a path");
    }
    return file_exists(*path) ? json_read_file(*path, object, error) : BERTH_OK;
}

// A module's folder must be a plain name inside the model's folder.
static int is_plain_name(const char *name) {
    return name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL;
}

// Where the modules of the model in a folder are listed: in the folder itself, or in the one around
// it, which lists it as its Transformer.
struct home {
    char *folder;     // newly allocated
    json *modules;    // NULL: nowhere
    const char *body; // the Transformer's folder in it; "": itself. In the list
};

static void home_done(struct home *home) {
    memory_free(home->folder);
    json_free(home->modules);
}

static const char *path_of(const json *module) {
    return json_text(json_member(module, "path"));
}

static enum berth_status read_home(struct home *home, const char *file, const char *body,
                                   struct berth_error *error) {
    TRY(json_read_file(file, &home->modules, error));
    home->folder = file_parent(file);
    const char *path = path_of(json_at(home->modules, 0));
    if (body[0] != '\0' && (path == NULL || strcmp(path, body) != 0)) { // of another model
        json_free(home->modules);
        home->modules = NULL;
    }
    home->body = body[0] != '\0' ? path : "";
    return home->folder != NULL ? BERTH_OK : error_no_memory(error, 0, "a path");
}

// Call home_done even after an error.
static enum berth_status find_home(const char *folder, struct home *home,
                                   struct berth_error *error) {
    OWNED char *own = folder_file(folder, MODULES_FILE);
    OWNED char *inner = own != NULL ? file_parent(own) : NULL;
    OWNED char *around = inner != NULL ? file_parent(inner) : NULL;
    OWNED char *other = around != NULL ? path_join(around, MODULES_FILE) : NULL;
    *home = (struct home){.folder = NULL};
    if (other == NULL) {
        return error_no_memory(error, 0, "a path");
    }
    return file_exists(own) ? read_home(home, own, "", error)
           : is_plain_name(path_name(inner)) && file_exists(other)
               ? read_home(home, other, path_name(inner), error)
               : BERTH_OK;
}

// --- pooling ------------------------------------------------------------------------------------

static enum berth_status refuse_pooling(const char *path, const char *name,
                                        struct berth_error *error) {
    return error_set(error, BERTH_CONFIG,
                     "%s: key \"pooling_mode\": expected one of mean, cls, max, "
                     "mean_sqrt_len_tokens, weightedmean, lasttoken, found %s",
                     path, name);
}

static enum berth_status find_pooling(const json *object, const char *path,
                                      enum berth_pooling *pooling, struct berth_error *error) {
    const json *mode = json_member(object, "pooling_mode");
    if (mode == NULL) {
        int count = 0;
        *pooling = BERTH_POOL_MEAN; // sentence-transformers' default
        for (size_t i = 0; i < SENTENCE_POOLINGS; i++) {
            int is_set = 0;
            TRY(json_get_boolean(object, path, old_names[i], &is_set, error));
            if (is_set) {
                *pooling = (enum berth_pooling)i;
                count++;
            }
        }
        return count <= 1 ? BERTH_OK : refuse_pooling(path, "several", error);
    }
    if (json_is_array_value(mode) && json_length(mode) == 1) {
        mode = json_at(mode, 0);
    }
    const char *name = json_text(mode);
    for (size_t i = 0; name != NULL && i < SENTENCE_POOLINGS; i++) {
        if (strcmp(sentence_pooling_names[i], name) == 0) {
            *pooling = (enum berth_pooling)i;
            return BERTH_OK;
        }
    }
    return refuse_pooling(path, name != NULL ? name : "several", error);
}

static enum berth_status read_pooling(const char *folder, const char *module,
                                      struct sentence *sentence, struct berth_error *error) {
    json *object;
    char *path;
    int has_prompt = 1;
    enum berth_status status = read_member(folder, module, "config.json", &object, &path, error);
    if (status == BERTH_OK && object == NULL) {
        status = error_set(error, BERTH_NO_INPUT,
                           "%s: no such file, but " MODULES_FILE " names its module", path);
    }
    if (status == BERTH_OK) {
        status = find_pooling(object, path, &sentence->how.pooling, error);
    }
    if (status == BERTH_OK) {
        status = json_get_boolean(object, path, "include_prompt", &has_prompt, error);
    }
    sentence->skips_prompt = !has_prompt;
    json_free(object);
    memory_free(path);
    return status;
}

// --- modules ------------------------------------------------------------------------------------

// The class's name without its Python module; NULL if the entry has none.
static const char *class_of(const json *module) {
    const char *type = json_text(json_member(module, "type"));
    const char *dot = type != NULL ? strrchr(type, '.') : NULL;
    return dot != NULL ? dot + 1 : type;
}

static int is_body(const struct home *home, const json *module) {
    const char *class = class_of(module), *path = path_of(module);
    return class != NULL &&
           (strcmp(class, "Transformer") == 0 || strcmp(class, "MLMTransformer") == 0) &&
           path != NULL && strcmp(path, home->body) == 0;
}

static int is_splade(const json *module) {
    const char *class = class_of(module);
    return class != NULL && strcmp(class, "SpladePooling") == 0;
}

// A cross-encoder's list is the Transformer alone, whose class has the head.
static enum sentence_kind kind_of(const struct home *home) {
    const json *modules = home->modules;
    return modules == NULL || (json_length(modules) == 1 && is_body(home, json_at(modules, 0)))
               ? SENTENCE_NONE
           : is_splade(json_at(modules, 1)) ? SENTENCE_SPARSE
                                            : SENTENCE_DENSE;
}

static enum berth_status read_module(const struct home *home, size_t index,
                                     struct sentence *sentence, struct berth_error *error) {
    const json *module = json_at(home->modules, index);
    const char *folder = home->folder, *class = class_of(module), *path = path_of(module);
    if (class == NULL || path == NULL) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: " MODULES_FILE ": entry %zu lacks \"type\" or \"path\"", folder,
                         index);
    }
    if (index == 0 && is_body(home, module)) {
        return BERTH_OK;
    }
    if (index == 1 && strcmp(class, "Pooling") == 0 && is_plain_name(path)) {
        return read_pooling(folder, path, sentence, error);
    }
    if (index >= 2 && strcmp(class, "Normalize") == 0) {
        sentence->how.normalize = 1;
        return BERTH_OK;
    }
    if (index >= 2 && strcmp(class, "Dense") == 0 && is_plain_name(path) &&
        sentence->dense_count < SENTENCE_DENSE_MAX) {
        // A Normalize before it becomes its own.
        struct sentence_dense *dense = &sentence->dense[sentence->dense_count];
        const int64_t inputs = sentence->dense_count > 0 ? dense[-1].outputs : 0;
        sentence->dense_count++;
        TRY(sentence_dense_read(folder, path, dense, error));
        dense->normalizes = sentence->how.normalize;
        sentence->how.normalize = 0;
        return inputs == 0 || inputs == dense->inputs
                   ? BERTH_OK
                   : error_set(
                         error, BERTH_CONFIG,
                         "%s/%s/config.json: key \"in_features\": expected %lld, as the module "
                         "before it has, found %lld",
                         folder, path, (long long)inputs, (long long)dense->inputs);
    }
    return error_set(error, BERTH_CONFIG,
                     "%s: " MODULES_FILE
                     ": entry %zu is a module %s in \"%s\"; supported are a Transformer in the "
                     "folder itself or in one within it, a Pooling, and then at most %d modules "
                     "Dense and Normalize",
                     folder, index, class, path, SENTENCE_DENSE_MAX);
}

static enum berth_status read_modules(const struct home *home, struct sentence *sentence,
                                      struct berth_error *error) {
    const size_t count = json_length(home->modules);
    for (size_t i = 0; i < count; i++) {
        TRY(read_module(home, i, sentence, error));
    }
    return count >= 2 ? BERTH_OK
                      : error_set(error, BERTH_CONFIG,
                                  "%s: " MODULES_FILE
                                  ": expected a Transformer and a Pooling, found %zu modules",
                                  home->folder, count);
}

// --- sparse vectors ------------------------------------------------------------------------------

static enum berth_status read_splade(const struct home *home, const char *module,
                                     struct berth_error *error) {
    static const char *const keys[][2] = {{"pooling_strategy", "max"},
                                          {"activation_function", "relu"}};
    json *object;
    char *path;
    enum berth_status status =
        read_member(home->folder, module, "config.json", &object, &path, error);
    for (size_t i = 0; i < 2 && status == BERTH_OK; i++) {
        const char *found = keys[i][1];
        status = json_get_text(object, path, keys[i][0], &found, error);
        if (status == BERTH_OK && strcmp(found, keys[i][1]) != 0) {
            status =
                error_set(error, BERTH_CONFIG,
                          "%s: key \"%s\": expected \"%s\", found \"%.*s\"; use a model with it",
                          path, keys[i][0], keys[i][1], UTF8_SHOWN(found, 40));
        }
    }
    json_free(object);
    memory_free(path);
    return status;
}

static enum berth_status read_sparse_modules(const struct home *home, struct berth_error *error) {
    const size_t count = json_length(home->modules);
    const char *path = path_of(json_at(home->modules, 1));
    return count == 2 && is_body(home, json_at(home->modules, 0)) && path != NULL &&
                   is_plain_name(path)
               ? read_splade(home, path, error)
               : error_set(
                     error, BERTH_CONFIG,
                     "%s: " MODULES_FILE ": expected a Transformer or MLMTransformer, then a "
                     "SpladePooling in a folder of its own and nothing else, found %zu modules",
                     home->folder, count);
}

// --- length and prompt --------------------------------------------------------------------------

// Arguments of sentence-transformers' Transformer that change its tokens or its shape. Those of the
// weights (model_kwargs) choose a number format or a program.
static enum berth_status check_arguments(const json *object, const char *path,
                                         struct berth_error *error) {
    static const char to_settings[] = "move them to tokenizer_config.json",
                      to_config[] = "move them to config.json";
    static const struct {
        const char *key, *remedy;
    } rows[] = {
        {"processor_kwargs", to_settings},
        {"tokenizer_args", to_settings},
        {"config_kwargs", to_config},
        {"config_args", to_config},
        {"processing_kwargs", "remove the key; \"max_seq_length\" limits the length of a text"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct json_walk walk = {.object = json_member(object, rows[i].key)};
        if (json_is_object_value(walk.object) && json_walk_next(&walk)) {
            return error_key(error, BERTH_CONFIG, path, rows[i].key,
                             "settings such as \"%.*s\" are not read here; %s",
                             UTF8_SHOWN(walk.key, 40), rows[i].remedy);
        }
    }
    return BERTH_OK;
}

// Version 6 stores the length in tokenizer_config.json.
static enum berth_status read_length(const char *folder, struct sentence *sentence,
                                     struct berth_error *error) {
    static const char *const keys[][2] = {{LENGTH_FILE, "max_seq_length"},
                                          {"tokenizer_config.json", "model_max_length"}};
    for (size_t i = 0; i < 2; i++) {
        json *object;
        char *path;
        enum berth_status status = read_member(folder, "", keys[i][0], &object, &path, error);
        if (sentence->max_length == 0) {
            sentence->max_length = folder_token_limit(object, keys[i][1]);
        }
        if (status == BERTH_OK && i == 0) {
            status = check_arguments(object, path, error);
        }
        json_free(object);
        memory_free(path);
        TRY(status);
    }
    return BERTH_OK;
}

// Prompts that every model of sentence-transformers has, by default without a text.
static const char *const usual_names[] = {"query", "document"};
#define USUAL_NAMES (sizeof usual_names / sizeof *usual_names)

static int has_prompt(const json *prompts, const char *name) {
    int found = json_member(prompts, name) != NULL;
    for (size_t i = 0; i < USUAL_NAMES; i++) {
        found |= strcmp(name, usual_names[i]) == 0;
    }
    return found;
}

static enum berth_status read_truncation(const json *object, const char *path, int64_t *dimensions,
                                         struct berth_error *error) {
    static const char key[] = "truncate_dim";
    const json *value = json_member(object, key);
    if (value == NULL || json_is_null_value(value)) {
        return BERTH_OK;
    }
    TRY(json_get_integer(object, path, key, dimensions, error));
    return *dimensions >= 1 ? BERTH_OK
                            : error_key(error, BERTH_CONFIG, path, key,
                                        "expected at least 1, found %lld", (long long)*dimensions);
}

static enum berth_status read_prompt(struct sentence *sentence, const char *path,
                                     struct berth_error *error) {
    const char *name = json_text(json_member(sentence->settings, "default_prompt_name"));
    const json *prompts = json_member(sentence->settings, "prompts");
    const char *text = name != NULL ? json_text(json_member(prompts, name)) : NULL;
    if (name != NULL && !has_prompt(prompts, name)) {
        return error_set(error, BERTH_CONFIG,
                         "%s: key \"default_prompt_name\": \"prompts\" has no \"%.*s\"; add "
                         "it, or remove the key to embed texts as they are",
                         path, UTF8_SHOWN(name, 40));
    }
    if (text != NULL && text[0] != '\0') {
        sentence->prompt = memory_string(text);
    }
    return text == NULL || text[0] == '\0' || sentence->prompt != NULL
               ? BERTH_OK
               : error_no_memory(error, strlen(text), path);
}

static enum berth_status read_settings(const char *folder, struct sentence *sentence,
                                       struct berth_error *error) {
    char *path;
    enum berth_status status =
        read_member(folder, "", PROMPTS_FILE, &sentence->settings, &path, error);
    if (status == BERTH_OK) {
        status = read_truncation(sentence->settings, path, &sentence->truncate_dim, error);
    }
    if (status == BERTH_OK) {
        status = read_prompt(sentence, path, error);
    }
    memory_free(path);
    return status;
}

enum berth_status sentence_find_prompt(const struct sentence *sentence, const char *name,
                                       const char **prompt, struct berth_error *error) {
    const json *prompts = json_member(sentence->settings, "prompts");
    const char *text = json_text(json_member(prompts, name));
    struct json_walk walk = {.object = prompts};
    char known[400] = "";
    *prompt = text != NULL ? text : "";
    if (has_prompt(prompts, name)) {
        return BERTH_OK;
    }
    while (json_walk_next(&walk)) {
        words_add(known, sizeof known, walk.key);
    }
    for (size_t i = 0; i < USUAL_NAMES; i++) {
        if (json_member(prompts, usual_names[i]) == NULL) {
            words_add(known, sizeof known, usual_names[i]);
        }
    }
    return error_set(
        error, BERTH_USAGE,
        "prompt_name: the model has no prompt \"%.*s\"; it has %s; prompt takes a text of your own",
        UTF8_SHOWN(name, 40), known);
}

static const char *first_prompt(const struct sentence *sentence, const char *const *names) {
    const json *prompts = json_member(sentence->settings, "prompts");
    const char *text = NULL;
    for (; *names != NULL && text == NULL; names++) {
        text = json_text(json_member(prompts, *names));
    }
    return text != NULL && text[0] != '\0' ? text : NULL;
}

const char *sentence_query_prompt(const struct sentence *sentence) {
    return first_prompt(sentence, (const char *const[]){"query", NULL});
}

const char *sentence_document_prompt(const struct sentence *sentence) {
    return first_prompt(sentence, (const char *const[]){"document", "passage", "corpus", NULL});
}

// --- all files -----------------------------------------------------------------------------------

static enum berth_status read_all(const char *folder, const struct home *home,
                                  enum sentence_kind kind, struct sentence *sentence,
                                  struct berth_error *error) {
    sentence->found = 1;
    TRY(read_length(folder, sentence, error));
    TRY(read_settings(home->folder, sentence, error));
    return kind == SENTENCE_SPARSE ? read_sparse_modules(home, error)
                                   : read_modules(home, sentence, error);
}

static enum berth_status read_kind(const char *folder, enum sentence_kind kind,
                                   struct sentence *sentence, struct berth_error *error) {
    struct home home DONE_BY(home_done);
    *sentence = (struct sentence){.found = 0};
    enum berth_status status = find_home(folder, &home, error);
    if (status == BERTH_OK && kind_of(&home) == kind) {
        status = read_all(folder, &home, kind, sentence, error);
    } else if (status == BERTH_OK && kind == SENTENCE_DENSE && kind_of(&home) == SENTENCE_SPARSE) {
        status = error_set(error, BERTH_CONFIG,
                           "%s: " MODULES_FILE ": entry 1 is a module SpladePooling, which makes "
                           "sparse vectors: use `berth embed --sparse`",
                           home.folder);
    }
    if (status != BERTH_OK) {
        sentence_done(sentence);
    }
    return status;
}

enum berth_status sentence_read(const char *folder, struct sentence *sentence,
                                struct berth_error *error) {
    return read_kind(folder, SENTENCE_DENSE, sentence, error);
}

enum berth_status sentence_read_sparse(const char *folder, struct sentence *sentence,
                                       struct berth_error *error) {
    return read_kind(folder, SENTENCE_SPARSE, sentence, error);
}

enum berth_status sentence_find_kind(const char *folder, enum sentence_kind *kind,
                                     struct berth_error *error) {
    struct home home DONE_BY(home_done);
    const enum berth_status status = find_home(folder, &home, error);
    *kind = kind_of(&home);
    return status;
}

enum berth_status sentence_find_folder(const char *folder, struct path *found,
                                       struct berth_error *error) {
    struct home home DONE_BY(home_done);
    TRY(find_home(folder, &home, error));
    *found = path_format("%s", home.modules != NULL && home.body[0] != '\0' ? home.folder : folder);
    return BERTH_OK;
}

void sentence_choose(struct berth_embedding *how, const char *pooling, int normalize) {
    for (size_t i = 0; pooling != NULL && i < SENTENCE_POOLINGS; i++) {
        if (strcmp(sentence_pooling_names[i], pooling) == 0) {
            how->pooling = (enum berth_pooling)i;
        }
    }
    if (normalize >= 0) {
        how->normalize = normalize;
    }
}

static enum berth_status read_casing(const char *folder, int *lower_case,
                                     struct berth_error *error) {
    json *object;
    char *path;
    enum berth_status status = read_member(folder, "", LENGTH_FILE, &object, &path, error);
    if (status == BERTH_OK) {
        status = json_get_boolean(object, path, "do_lower_case", lower_case, error);
    }
    json_free(object);
    memory_free(path);
    return status;
}

enum berth_status sentence_lower_cases(const char *folder, int *lower_case,
                                       struct berth_error *error) {
    struct home home DONE_BY(home_done);
    *lower_case = 0;
    TRY(find_home(folder, &home, error));
    return home.modules != NULL ? read_casing(folder, lower_case, error) : BERTH_OK;
}

int64_t sentence_width(const struct sentence *sentence, int64_t hidden) {
    const size_t count = sentence->dense_count;
    const int64_t whole = count > 0 ? sentence->dense[count - 1].outputs : hidden;
    const int64_t cut = sentence->truncate_dim;
    return cut > 0 && cut < whole ? cut : whole;
}

enum berth_status sentence_check_width(const struct sentence *sentence, const char *folder,
                                       int64_t hidden, struct berth_error *error) {
    return sentence->dense_count == 0 || sentence->dense[0].inputs == hidden
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG,
                           "%s: the first module Dense has \"in_features\" %lld, but the model has "
                           "%lld columns; use the modules of this model",
                           folder, (long long)sentence->dense[0].inputs, (long long)hidden);
}

void sentence_done(struct sentence *sentence) {
    for (size_t i = 0; i < sentence->dense_count; i++) {
        sentence_dense_done(&sentence->dense[i]);
    }
    sentence->dense_count = 0;
    memory_free(sentence->prompt);
    json_free(sentence->settings);
    sentence->prompt = NULL;
    sentence->settings = NULL;
}

// --- pooling on the host ------------------------------------------------------------------------

static double weight_of(enum berth_pooling pooling, int64_t row, int64_t first, int64_t count) {
    const double rows = (double)(count - first), all = (double)count, before = (double)first;
    switch (pooling) {
    case BERTH_POOL_CLS:
        return row == first;
    case BERTH_POOL_LAST:
        return row == count - 1;
    case BERTH_POOL_MEAN_SQRT_LENGTH:
        return 1 / sqrt(rows);
    case BERTH_POOL_WEIGHTED_MEAN:
        return (double)(row + 1) / ((all * (all + 1) - before * (before + 1)) / 2);
    default:
        return 1 / rows;
    }
}

void sentence_pool(const float *rows, int64_t first, int64_t count, int64_t width,
                   enum berth_pooling pooling, float *pooled) {
    for (int64_t column = 0; column < width; column++) {
        double sum = 0;
        float largest = rows[first * width + column];
        for (int64_t row = first; row < count; row++) {
            const float value = rows[row * width + column];
            sum += weight_of(pooling, row, first, count) * (double)value;
            largest = value > largest ? value : largest;
        }
        pooled[column] = pooling == BERTH_POOL_MAX ? largest : (float)sum;
    }
}

// --- writing ------------------------------------------------------------------------------------

#define POOLING_FOLDER "1_Pooling"
#define NORMALIZE_FOLDER "2_Normalize"

// Takes `value` over.
static enum berth_status write_member(const char *folder, const char *name, json *value,
                                      struct berth_error *error) {
    char *path = path_join(folder, name);
    enum berth_status status = path != NULL
                                   ? json_write_file(value, JSON_INDENT_2_SORTED, path, error)
                                   : error_no_memory(error, 0, "a path");
    memory_free(path);
    json_free(value);
    return status;
}

static json *module_of(int number, const char *class, const char *path) {
    char name[24], type[64];
    snprintf(name, sizeof name, "%d", number);
    snprintf(type, sizeof type, "sentence_transformers.models.%s", class);
    return JSON_OBJECT({"idx", json_new_integer(number)}, {"name", json_new_text(name)},
                       {"path", json_new_text(path)}, {"type", json_new_text(type)});
}

// Creates the module's folder, or removes one that another run has left.
static enum berth_status prepare_normalize_folder(const struct sentence *sentence,
                                                  const char *folder, struct berth_error *error) {
    char *path = path_join(folder, NORMALIZE_FOLDER);
    enum berth_status status = path == NULL              ? error_no_memory(error, 0, "a path")
                               : sentence->how.normalize ? dir_make(path, error)
                                                         : dir_remove(path, error);
    memory_free(path);
    return status;
}

enum berth_status sentence_write(const struct sentence *sentence, int64_t size, const char *folder,
                                 struct berth_error *error) {
    json *lengths = JSON_OBJECT({"max_seq_length", json_new_integer(sentence->max_length)},
                                {"do_lower_case", json_new_boolean(0)});
    TRY(write_member(folder, LENGTH_FILE, lengths, error));
    if (sentence->settings != NULL) {
        TRY(write_member(folder, PROMPTS_FILE, json_copy_deep(sentence->settings), error));
    }
    char *inside = path_join(folder, POOLING_FOLDER);
    enum berth_status status =
        inside != NULL ? dir_make(inside, error) : error_no_memory(error, 0, "a path");
    if (status == BERTH_OK) {
        json *pooling = JSON_OBJECT({"word_embedding_dimension", json_new_integer(size)},
                                    {"include_prompt", json_new_boolean(!sentence->skips_prompt)});
        int failed = 0;
        for (size_t i = 0; i < SENTENCE_POOLINGS; i++) {
            const int is_on = i == (size_t)sentence->how.pooling;
            failed |= json_set(pooling, old_names[i], json_new_boolean(is_on));
        }
        status = write_member(inside, "config.json", json_unless_failed(pooling, failed), error);
    }
    memory_free(inside);
    TRY(status);
    TRY(prepare_normalize_folder(sentence, folder, error));
    json *modules = json_new_array();
    int failed = json_append(modules, module_of(0, "Transformer", ""));
    failed |= json_append(modules, module_of(1, "Pooling", POOLING_FOLDER));
    if (sentence->how.normalize) {
        failed |= json_append(modules, module_of(2, "Normalize", NORMALIZE_FOLDER));
    }
    return write_member(folder, MODULES_FILE, json_unless_failed(modules, failed), error);
}

// --- copying ------------------------------------------------------------------------------------

static enum berth_status copy_all(const char *from, const char *to, struct berth_error *error) {
    char **names;
    TRY(dir_make(to, error));
    if (!dir_exists(from)) {
        return BERTH_OK; // an empty folder, which a repository does not keep
    }
    TRY(dir_list(from, &names, error));
    enum berth_status status = BERTH_OK;
    for (size_t i = 0; names[i] != NULL && status == BERTH_OK; i++) {
        status = folder_copy_file(from, to, names[i], error);
    }
    memory_free(names);
    return status;
}

static enum berth_status copy_modules(const struct home *home, const char *target,
                                      struct berth_error *error) {
    enum berth_status status = BERTH_OK;
    for (size_t i = 0; i < json_length(home->modules) && status == BERTH_OK; i++) {
        const char *name = path_of(json_at(home->modules, i));
        if (name == NULL || !is_plain_name(name) || (i == 0 && strcmp(name, home->body) == 0)) {
            continue;
        }
        char *from = path_join(home->folder, name), *to = path_join(target, name);
        status = from != NULL && to != NULL ? copy_all(from, to, error)
                                            : error_no_memory(error, 0, "a path");
        memory_free(from);
        memory_free(to);
    }
    return status;
}

// The list of a model whose Transformer is in the folder itself.
static json *flat_modules(const struct home *home) {
    json *modules = json_new_array();
    int failed = 0;
    for (size_t i = 0; i < json_length(home->modules); i++) {
        json *module = json_copy_deep(json_at(home->modules, i));
        if (i == 0) {
            failed |= json_set(module, "path", json_new_text(""));
        }
        failed |= json_append(modules, module);
    }
    return json_unless_failed(modules, failed);
}

enum berth_status sentence_copy(const char *folder, const char *target, struct berth_error *error) {
    struct home home DONE_BY(home_done);
    TRY(find_home(folder, &home, error));
    if (home.modules == NULL) {
        return BERTH_OK;
    }
    TRY(home.body[0] != '\0' ? write_member(target, MODULES_FILE, flat_modules(&home), error)
                             : folder_copy_file(home.folder, target, MODULES_FILE, error));
    TRY(folder_copy_file(folder, target, LENGTH_FILE, error));
    TRY(folder_copy_file(home.folder, target, PROMPTS_FILE, error));
    return copy_modules(&home, target, error);
}
