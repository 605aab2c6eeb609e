// SPDX-License-Identifier: Apache-2.0
// A Hugging Face model folder: reads and writes its configuration and weights. Leaves out which
// file holds the weights (folder_weights.c) and the tokenizer's files (folder_tokenizer.c).
#include "model/folder.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/text_util.h"
#include "format/deepspeed/deepspeed.h"
#include "format/safetensors/safetensors.h"
#include "model/adapter.h"
#include "model/architectures.h"

#include <stdio.h>
#include <string.h>

void folder_report_done(struct folder_report *report) {
    memory_free(report->missing);
    memory_free(report->unexpected);
    *report = (struct folder_report){0};
}

// A growing list for the report; it grows geometrically because an unknown file may hold very many
// names.
struct lines {
    char *text;
    size_t length, capacity;
};

static enum berth_status add_line(struct lines *lines, const char *name,
                                  struct berth_error *error) {
    size_t length = strlen(name), needed = lines->length + length + 2;
    char *grown = memory_grow(lines->text, &lines->capacity, needed, 1);
    if (grown == NULL) {
        return error_no_memory(error, needed, "the list of tensors");
    }
    lines->text = grown;
    if (lines->length > 0) {
        lines->text[lines->length++] = '\n';
    }
    memcpy(lines->text + lines->length, name, length + 1);
    lines->length += length;
    return BERTH_OK;
}

// --- opening ------------------------------------------------------------------------------------

// 1 or 0; -1: out of memory.
static int holds(const char *folder, const char *name) {
    char *path = path_join(folder, name);
    int found = path != NULL ? file_exists(path) : -1;
    memory_free(path);
    return found;
}

// Whether the folder is a DeepSpeed tag, whose configuration is in the parent folder; -1: out of
// memory.
static int is_tag(const char *folder) {
    int states = holds(folder, DEEPSPEED_MODEL_FILE);
    if (states != 1) {
        return states;
    }
    int usual = holds(folder, "config.json"), google = holds(folder, "bert_config.json");
    return usual < 0 || google < 0 ? -1 : !usual && !google;
}

// The folder of configuration and vocabulary: `path` itself, or the parent folder of a file or of a
// DeepSpeed tag.
static char *home_of(const char *path) {
    int is_folder = dir_exists(path);
    int tag = is_folder ? is_tag(path) : 0;
    if (tag != 0) {
        return tag < 0 ? NULL : file_parent(path);
    }
    if (is_folder || !file_exists(path)) {
        return memory_string(path);
    }
    char *folder = file_parent(path), *home = folder;
    tag = folder != NULL ? is_tag(folder) : -1;
    if (tag != 0) {
        home = tag < 0 ? NULL : file_parent(folder);
        memory_free(folder);
    }
    return home;
}

// The file of the model that an adapter's folder names, in place of `file`, which that folder
// lacks; `file` itself if there is no such model or file. Whoever opens the weights reports why
// there is no such model.
static char *file_of_base(const char *home, const char *name, char *file) {
    char *base;
    struct berth_error unused;
    const enum berth_status status = adapter_find_base(home, &base, &unused);
    char *other = base != NULL ? path_join(base, name) : NULL;
    const int failed = status == BERTH_NO_MEMORY || (base != NULL && other == NULL);
    const int use_other = other != NULL && file_exists(other);
    memory_free(base);
    memory_free(use_other || failed ? file : other);
    return use_other || failed ? other : file;
}

char *folder_file(const char *path, const char *name) {
    char *home = home_of(path);
    char *file = home != NULL ? path_join(home, name) : NULL;
    if (file != NULL && !file_exists(file)) {
        file = file_of_base(home, name, file);
    }
    memory_free(home);
    return file;
}

enum berth_status folder_has_file(const char *path, const char *name, int *found,
                                  struct berth_error *error) {
    char *file = folder_file(path, name);
    *found = file != NULL && file_exists(file);
    memory_free(file);
    return file != NULL ? BERTH_OK : error_no_memory(error, 0, "a path");
}

char *folder_config_path(const char *path) {
    char *usual = folder_file(path, "config.json"), *google = folder_file(path, "bert_config.json");
    int use_google = usual != NULL && google != NULL && !file_exists(usual) && file_exists(google);
    char *chosen = google == NULL ? NULL : use_google ? google : usual;
    memory_free(chosen == google ? NULL : google);
    memory_free(chosen == usual ? NULL : usual);
    return chosen;
}

void folder_newest_checkpoint(const char *path, char name[FOLDER_NAME_SIZE]) {
    static const char prefix[] = "checkpoint-";
    char **names;
    int64_t newest = -1;
    name[0] = '\0';
    if (!dir_exists(path) || dir_list(path, &names, NULL) != BERTH_OK) {
        return;
    }
    for (size_t i = 0; names[i] != NULL; i++) {
        int64_t step;
        if (strncmp(names[i], prefix, strlen(prefix)) == 0 &&
            number_parse_integer(names[i] + strlen(prefix), &step) && step > newest) {
            newest = step;
            snprintf(name, FOLDER_NAME_SIZE, "%s", names[i]);
        }
    }
    memory_free(names);
}

// BERTH_OK if the file exists. Otherwise the error says what the folder `path` has instead.
static enum berth_status require_config(const char *path, const char *file,
                                        struct berth_error *error) {
    char name[FOLDER_NAME_SIZE], expected[FOLDER_NAME_SIZE + 160];
    if (file_exists(file)) {
        return BERTH_OK;
    }
    folder_newest_checkpoint(path, name);
    snprintf(expected, sizeof expected,
             "the model's configuration, or a bert_config.json instead; %s%s",
             name[0] != '\0' ? "the folder is that of a run: use its newest checkpoint, "
                             : "use config_file for a file elsewhere",
             name);
    return file_require(file, expected, error);
}

enum berth_status folder_read_config(const char *path, struct bert_config *config,
                                     struct berth_error *error) {
    char *file = folder_config_path(path);
    if (file == NULL) {
        return error_no_memory(error, 0, "a path");
    }
    enum berth_status status = require_config(path, file, error);
    if (status == BERTH_OK) {
        status = bert_config_read(file, config, error);
    }
    memory_free(file);
    return status;
}

enum berth_status folder_read_geometry(const char *name, struct bert_config *config,
                                       struct berth_error *error) {
    return bert_config_builtin(name, config, NULL) == BERTH_OK ? BERTH_OK
           : dir_exists(name) ? folder_read_config(name, config, error)
           : file_exists(name) || strpbrk(name, "./") != NULL
               ? bert_config_read(name, config, error)
               : bert_config_builtin(name, config, error);
}

enum berth_status folder_read_shape(const char *name, struct bert_config *config,
                                    struct berth_error *error) {
    TRY(folder_read_geometry(name, config, error));
    enum berth_status status = bert_config_require_vocab_size(config, name, error);
    if (status != BERTH_OK) {
        bert_config_done(config);
    }
    return status;
}

enum berth_status folder_find_norms(const char *path, struct bert_config *config,
                                    struct berth_error *error) {
    struct weights weights;
    TRY(weights_open(&weights, path, 0, error));
    config->pre_layer_norm |= weights_are_pre_layer_norm(&weights);
    weights_close(&weights);
    return BERTH_OK;
}

// --- matching names -----------------------------------------------------------------------------

// State of reading weights; found[i] is the tensor of params[i], NULL: none.
struct reading {
    struct weights weights;
    const struct param_table *table;
    const struct weight **found;
    struct lines missing, unexpected;
    size_t loaded;
};

static enum berth_status match_weight(struct reading *reading, const struct weight *weight,
                                      struct berth_error *error) {
    if (weight->use == NAME_BUFFER) {
        return BERTH_OK;
    }
    const struct weight *source = weights_tied_to(&reading->weights, weight);
    if (source != NULL && param_head_decodes(reading->table->head)) {
        return weights_check_tie(&reading->weights, weight, source, error);
    }
    const struct param *param = param_table_find(reading->table, weight->name);
    if (param == NULL || param->fresh) {
        return add_line(&reading->unexpected,
                        weight->use == NAME_STACKED ? weight->name : weight->entry->name, error);
    }
    reading->found[param - reading->table->params] = weight;
    return BERTH_OK;
}

static enum berth_status check_shape(const struct reading *reading, const struct param *param,
                                     const struct weight *weight, struct berth_error *error) {
    const int64_t sizes[2] = {param->rows, param->cols};
    const int64_t *shape = param->rank == 2 ? sizes : sizes + 1;
    if (weight->rank == param->rank &&
        memcmp(weight->shape, shape, (size_t)param->rank * sizeof *shape) == 0) {
        return BERTH_OK;
    }
    const int turned = param->rank == 2 && !weight_is_contiguous(weight);
    const int64_t as_stored[2] = {shape[turned], shape[0]};
    char wanted[64], found[256];
    tensor_print_shape(wanted, sizeof wanted, turned ? as_stored : shape, param->rank);
    tensor_print_shape(found, sizeof found, turned ? weight->entry->shape : weight->shape,
                       weight->rank);
    return error_tensor(error, BERTH_BAD_DATA, reading->weights.file.path, weight->entry->name,
                        "expected the shape %s, found %s: the weights do not fit "
                        "the config.json",
                        wanted, found);
}

// How many of their last components two names share.
static size_t shared_end(const char *a, const char *b) {
    size_t i = strlen(a), k = strlen(b), shared = 0;
    while (i > 0 && k > 0 && a[i - 1] == b[k - 1]) {
        i--;
        k--;
        shared += a[i] == '.';
    }
    return shared + (i == 0 && k > 0 && b[k - 1] == '.') + (k == 0 && i > 0 && a[i - 1] == '.');
}

// The tensor that the file has instead of a parameter: of those that are no parameters, the one
// whose name ends most like it. NULL: there are none.
static const char *name_instead(const struct reading *reading, const struct param *param) {
    const char *inner = strchr(param->name, '.') + 1; // without "bert."
    const struct weight *best = NULL;
    size_t most = 0;
    for (size_t i = 0; i < reading->weights.count; i++) {
        const struct weight *weight = &reading->weights.list[i];
        const size_t shared = shared_end(weight->name, inner) + 1;
        if (param_table_find(reading->table, weight->name) == NULL && shared > most) {
            most = shared;
            best = weight;
        }
    }
    return best != NULL ? weight_shown_name(best) : NULL;
}

static enum berth_status check_body(const struct reading *reading, struct berth_error *error) {
    const struct param *first = NULL;
    size_t missing = 0;
    for (size_t i = 0; i < reading->table->count; i++) {
        const struct param *param = &reading->table->params[i];
        if (reading->found[i] == NULL && param_is_body(param)) {
            first = first == NULL ? param : first;
            missing++;
        }
    }
    if (missing == 0) {
        return BERTH_OK;
    }
    char name[WEIGHT_NAME_SIZE];
    name_for_architecture(reading->table->architecture, first->name, name, sizeof name);
    const char *instead = name_instead(reading, first);
    return error_set(error, BERTH_BAD_DATA,
                     "%s: missing tensor \"%s\" (%zu in all): these are not the weights of %s "
                     "with this config.json%s%s%s",
                     reading->weights.file.path, name, missing, reading->table->architecture->title,
                     instead != NULL ? "; the file has \"" : "", instead != NULL ? instead : "",
                     instead != NULL ? "\": rename its tensors" : "");
}

enum berth_status folder_check_body(const struct weights *weights, const struct bert_config *config,
                                    struct berth_error *error) {
    struct param_table table;
    enum berth_status status;
    TRY(param_table_init(&table, config, PARAM_HEAD_NONE, error));
    struct reading reading = {.weights = *weights,
                              .table = &table,
                              .found = memory_array_zeroed(table.count, sizeof *reading.found)};
    if (reading.found == NULL) {
        status = error_no_memory(error, table.count * sizeof *reading.found, weights->file.path);
        goto done;
    }
    for (size_t i = 0; i < table.count; i++) {
        reading.found[i] = weights_find(weights, table.params[i].name);
    }
    TRY_DONE(weights_check_architecture(weights, config, error));
    TRY_DONE(check_body(&reading, error));
    for (size_t i = 0; i < table.count; i++) {
        if (reading.found[i] != NULL) {
            TRY_DONE(check_shape(&reading, &table.params[i], reading.found[i], error));
            TRY_DONE(weights_check_integers(weights, reading.found[i], error));
        }
    }
done:
    memory_free(reading.found);
    param_table_done(&table);
    return status;
}

// --- reading ------------------------------------------------------------------------------------

static enum berth_status read_tensors(struct reading *reading, const struct bert_config *config,
                                      uint64_t seed, const struct param_sink *sink,
                                      struct berth_error *error) {
    for (size_t i = 0; i < reading->table->count; i++) {
        const struct param *param = &reading->table->params[i];
        if (reading->found[i] != NULL && sink->take != NULL &&
            sink->take(sink->context, param, &reading->weights, reading->found[i])) {
            reading->loaded++;
            continue;
        }
        float *values = sink->begin(sink->context, param);
        if (values == NULL) {
            return error_no_memory(error, (size_t)(param->rows * param->cols) * sizeof *values,
                                   param->name);
        }
        if (reading->found[i] == NULL) {
            param_initialise_one(param, config, seed, values, sink->threads);
        } else {
            TRY(weights_read_f32(&reading->weights, reading->found[i], values, error));
            reading->loaded++;
        }
        TRY(sink->end(sink->context, param, values, error));
    }
    return BERTH_OK;
}

// The classifiers of texts, of words and of choices have tensors of the same names and shapes.
static enum berth_status check_classifier(const struct reading *reading,
                                          const struct bert_config *config,
                                          struct berth_error *error) {
    const struct param *classifier = param_table_find(reading->table, "classifier.weight");
    const struct param_head_row *head = param_head_row(reading->table->head);
    const char *other;
    if (classifier == NULL || classifier->fresh) {
        return BERTH_OK;
    }
    TRY(bert_config_other_classifier(config, head->architecture, &other, error));
    return other == NULL
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG,
                           "%s: the model is a %s%s: its tensor \"classifier.weight\" is "
                           "not the head of %s; fine-tune the model: training starts "
                           "with a new head",
                           reading->weights.file.path, reading->table->architecture->class_prefix,
                           other, head->title);
}

static void reading_done(struct reading *reading) {
    memory_free(reading->missing.text);
    memory_free(reading->unexpected.text);
    memory_free(reading->found);
    weights_close(&reading->weights);
}

// Opens the weights and finds those of the table. Call reading_done, even on failure.
static enum berth_status open_reading(struct reading *reading, const char *folder,
                                      const struct bert_config *config,
                                      const struct param_table *table, struct berth_error *error) {
    *reading = (struct reading){.table = table};
    TRY(weights_open(&reading->weights, folder, config->vocab_size, error));
    TRY(weights_check_architecture(&reading->weights, config, error));
    reading->found = memory_array_zeroed(table->count, sizeof *reading->found);
    if (reading->found == NULL) {
        return error_no_memory(error, table->count * sizeof *reading->found, folder);
    }
    TRY(check_classifier(reading, config, error));
    for (size_t i = 0; i < reading->weights.count; i++) {
        TRY(match_weight(reading, &reading->weights.list[i], error));
    }
    TRY(check_body(reading, error));
    for (size_t i = 0; i < reading->table->count; i++) {
        if (reading->found[i] != NULL) {
            TRY(check_shape(reading, &reading->table->params[i], reading->found[i], error));
        } else {
            char name[WEIGHT_NAME_SIZE];
            name_for_architecture(reading->table->architecture, reading->table->params[i].name,
                                  name, sizeof name);
            TRY(add_line(&reading->missing, name, error));
        }
    }
    return BERTH_OK;
}

enum berth_status folder_read_weights(const char *folder, const struct bert_config *config,
                                      const struct param_table *table, uint64_t seed, float *buffer,
                                      struct folder_report *report, struct berth_error *error) {
    const struct param_sink sink = param_sink_of(buffer, 1);
    memset(buffer, 0, (size_t)table->total * sizeof *buffer);
    return folder_read_weights_into(folder, config, table, seed, &sink, report, error);
}

enum berth_status folder_read_weights_into(const char *folder, const struct bert_config *config,
                                           const struct param_table *table, uint64_t seed,
                                           const struct param_sink *sink,
                                           struct folder_report *report,
                                           struct berth_error *error) {
    struct reading reading;
    *report = (struct folder_report){0};
    enum berth_status status;
    TRY_DONE(open_reading(&reading, folder, config, table, error));
    TRY_DONE(read_tensors(&reading, config, seed, sink, error));
    *report = (struct folder_report){.missing = reading.missing.text,
                                     .unexpected = reading.unexpected.text,
                                     .loaded = reading.loaded,
                                     .ignored_keys = reading.weights.file.ignored_keys};
    reading.missing.text = reading.unexpected.text = NULL;
done:
    reading_done(&reading);
    return status;
}

enum berth_status folder_find_missing(const char *folder, const struct bert_config *config,
                                      const struct param_table *table, char **missing,
                                      struct berth_error *error) {
    struct reading reading;
    const enum berth_status status = open_reading(&reading, folder, config, table, error);
    *missing = NULL;
    if (status == BERTH_OK) {
        *missing = reading.missing.text;
        reading.missing.text = NULL;
    }
    reading_done(&reading);
    return status;
}

// --- writing ------------------------------------------------------------------------------------

static enum berth_status write_tensors(const char *path, const struct param_table *table,
                                       const float *buffer, struct berth_error *error) {
    // transformers refuses a file that does not name its format.
    static const char *const metadata[] = {"format", "pt", NULL};
    OWNED struct tensor_out *tensors = memory_array_zeroed(table->count, sizeof *tensors);
    OWNED char(*names)[WEIGHT_NAME_SIZE] = memory_array(table->count, sizeof *names);
    if (tensors == NULL || names == NULL) {
        return error_no_memory(error, table->count * sizeof *tensors, path);
    }
    for (size_t i = 0; i < table->count; i++) {
        const struct param *param = &table->params[i];
        name_for_architecture(table->architecture, param->name, names[i], sizeof names[i]);
        tensors[i] = (struct tensor_out){.name = names[i],
                                         .dtype = TENSOR_F32,
                                         .rank = param->rank,
                                         .shape = {param->rows, param->cols},
                                         .data = buffer + param->offset};
        if (param->rank == 1) {
            tensors[i].shape[0] = param->cols;
        }
    }
    return safetensors_write(path, tensors, table->count, metadata, error);
}

enum berth_status folder_write_config(const char *folder, const struct bert_config *config,
                                      const struct param_table *table, struct berth_error *error) {
    char *path = path_join(folder, "config.json");
    if (path == NULL) {
        return error_no_memory(error, 0, "a path");
    }
    enum berth_status status =
        bert_config_write(config, param_head_row(table->head)->architecture, path, error);
    memory_free(path);
    return status;
}

enum berth_status folder_write_weights(const char *folder, const struct bert_config *config,
                                       const struct param_table *table, const float *buffer,
                                       struct berth_error *error) {
    TRY(folder_write_config(folder, config, table, error));
    char *path = path_join(folder, FOLDER_WEIGHTS);
    if (path == NULL) {
        return error_no_memory(error, 0, "a path");
    }
    enum berth_status status = write_tensors(path, table, buffer, error);
    memory_free(path);
    return status;
}

int folder_vocab_fits(const struct bert_config *config, int64_t vocab_size) {
    static const int64_t paddings[] = {1, 8, 64, 128};
    int fits = 0;
    for (size_t i = 0; i < sizeof paddings / sizeof *paddings; i++) {
        fits |= config->vocab_size == (vocab_size + paddings[i] - 1) / paddings[i] * paddings[i];
    }
    return fits;
}

enum berth_status folder_check_vocab(const struct bert_config *config, const char *config_path,
                                     int64_t vocab_size, const char *vocab_path,
                                     struct berth_error *error) {
    return folder_vocab_fits(config, vocab_size)
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG,
                           "%s has %lld entries, but \"vocab_size\" in %s is %lld: the vocabulary "
                           "does not belong to this model; use the one it was trained with",
                           vocab_path, (long long)vocab_size, config_path,
                           (long long)config->vocab_size);
}

enum berth_status folder_check_own_vocab(const struct bert_config *config, const char *config_path,
                                         int64_t vocab_size, const char *vocab_path,
                                         const struct berth_log *log, struct berth_error *error) {
    if (vocab_size > config->vocab_size) {
        return folder_check_vocab(config, config_path, vocab_size, vocab_path, error);
    }
    if (!folder_vocab_fits(config, vocab_size)) {
        log_warning(log,
                    "%s has %lld entries, fewer than \"vocab_size\" %lld in %s: no text uses the "
                    "model's other rows; some published models are so, but the file may also be "
                    "incomplete",
                    vocab_path, (long long)vocab_size, (long long)config->vocab_size, config_path);
    }
    return BERTH_OK;
}
