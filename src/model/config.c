// SPDX-License-Identifier: Apache-2.0
// config.json: a table of keys with name, field, limits and default. The names and defaults are
// those of Hugging Face's BertConfig; architectures.h has what differs in other architectures. A
// Google bert_config.json has the same keys except model_type and layer_norm_eps, so it needs no
// reader of its own; its "gelu" is the erf form, as in Hugging Face's reader.
//
// Leaves out: relative positions, decoders and cross attention, activations with parameters of
// their own (prelu, xielu), sqrtsoftplus.
#include "model/config.h"

#include "core/memory.h"
#include "core/text_util.h"
#include "format/json/json.h"
#include "model/architectures.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct integer_row {
    const char *key;
    size_t field;
    int64_t fallback, minimum, maximum;
};

// The limits keep every byte offset of a parameter buffer (params.c) below 2^63.
static const struct integer_row integer_rows[] = {
    {"vocab_size", offsetof(struct bert_config, vocab_size), 30522, 1, 1 << 28},
    {"hidden_size", offsetof(struct bert_config, hidden_size), 768, 1, 1 << 20},
    {"num_hidden_layers", offsetof(struct bert_config, num_hidden_layers), 12, 1, 1 << 12},
    {"num_attention_heads", offsetof(struct bert_config, num_attention_heads), 12, 1, 1 << 20},
    {"intermediate_size", offsetof(struct bert_config, intermediate_size), 3072, 1, 1 << 22},
    {"max_position_embeddings", offsetof(struct bert_config, max_position_embeddings), 512, 1,
     1 << 24},
    {"type_vocab_size", offsetof(struct bert_config, type_vocab_size), 2, 1, 1 << 20},
    {"pad_token_id", offsetof(struct bert_config, pad_token_id), 0, 0, (1 << 28) - 1},
};

struct real_row {
    const char *key;
    size_t field;
    double fallback, minimum, maximum; // minimum <= value < maximum
};

static const struct real_row real_rows[] = {
    {"hidden_dropout_prob", offsetof(struct bert_config, hidden_dropout_prob), 0.1, 0, 1},
    {"attention_probs_dropout_prob", offsetof(struct bert_config, attention_probs_dropout_prob),
     0.1, 0, 1},
    {"layer_norm_eps", offsetof(struct bert_config, layer_norm_eps), 1e-12, 1e-30, 1},
    {"initializer_range", offsetof(struct bert_config, initializer_range), 0.02, 0, 1000},
};

// The first name of a function is the one written for a built-in shape.
static const struct activation_row {
    const char *name;
    enum activation activation;
} activation_rows[] = {
    {"gelu", ACTIVATION_GELU_ERF},
    {"gelu_python", ACTIVATION_GELU_ERF},
    {"gelu_new", ACTIVATION_GELU_TANH},
    {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH},
    {"gelu_python_tanh", ACTIVATION_GELU_TANH},
    {"gelu_fast", ACTIVATION_GELU_TANH},
    {"gelu_accurate", ACTIVATION_GELU_TANH},
    {"gelu_10", ACTIVATION_GELU_CLIPPED},
    {"quick_gelu", ACTIVATION_GELU_QUICK},
    {"relu", ACTIVATION_RELU},
    {"relu2", ACTIVATION_RELU_SQUARED},
    {"relu6", ACTIVATION_RELU6},
    {"leaky_relu", ACTIVATION_RELU_LEAKY},
    {"silu", ACTIVATION_SILU},
    {"swish", ACTIVATION_SILU},
    {"hardswish", ACTIVATION_HARD_SWISH},
    {"mish", ACTIVATION_MISH},
    {"tanh", ACTIVATION_TANH},
    {"sigmoid", ACTIVATION_SIGMOID},
    {"laplace", ACTIVATION_LAPLACE},
    {"linear", ACTIVATION_LINEAR},
};

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static int64_t *integer_field(const struct bert_config *config, size_t field) {
    return (int64_t *)((char *)config + field);
}

static double *real_field(const struct bert_config *config, size_t field) {
    return (double *)((char *)config + field);
}

const struct architecture *bert_architecture(const struct bert_config *config) {
    return architecture_at(config->architecture);
}

// Everything else is then the architecture's default.
static void set_defaults(struct bert_config *config, size_t architecture) {
    const struct architecture *row = architecture_at(architecture);
    *config = (struct bert_config){
        .architecture = architecture, .hidden_act = ACTIVATION_GELU_ERF, .num_labels = 2};
    for (size_t i = 0; i < LENGTH(integer_rows); i++) {
        *integer_field(config, integer_rows[i].field) = (int64_t)architecture_default(
            row, integer_rows[i].key, (double)integer_rows[i].fallback);
    }
    for (size_t i = 0; i < LENGTH(real_rows); i++) {
        *real_field(config, real_rows[i].field) =
            architecture_default(row, real_rows[i].key, real_rows[i].fallback);
    }
    config->classifier_dropout = architecture_default(row, "classifier_dropout", -1);
    config->span_dropout = architecture_default(row, "qa_dropout", 0);
    config->embedding_size = (int64_t)architecture_default(row, "embedding_size", 0);
}

// What follows from the keys.
static void set_derived(struct bert_config *config) {
    const struct architecture *row = bert_architecture(config);
    config->first_position = row->positions_follow_padding ? config->pad_token_id + 1 : 0;
    config->embedding_size =
        config->embedding_size == config->hidden_size ? 0 : config->embedding_size;
}

// --- built-in shapes ----------------------------------------------------------------------------

// The four of BERT have its sizes of 2018 and no vocabulary of their own; the others are published
// models, with theirs.
static const struct shape_row {
    const char *name, *type;
    int64_t hidden_size, num_hidden_layers, num_attention_heads, intermediate_size;
    int64_t vocab_size, max_position_embeddings, type_vocab_size, embedding_size;
    double layer_norm_eps;
} shape_rows[] = {
    {"tiny", "bert", 128, 2, 2, 512, 30522, 512, 2, 0, 1e-12},
    {"minilm", "bert", 384, 6, 12, 1536, 30522, 512, 2, 0, 1e-12},
    {"base", "bert", 768, 12, 12, 3072, 30522, 512, 2, 0, 1e-12},
    {"large", "bert", 1024, 24, 16, 4096, 30522, 512, 2, 0, 1e-12},
    {"roberta-base", "roberta", 768, 12, 12, 3072, 50265, 514, 1, 0, 1e-5},
    {"roberta-large", "roberta", 1024, 24, 16, 4096, 50265, 514, 1, 0, 1e-5},
    {"distilroberta-base", "roberta", 768, 6, 12, 3072, 50265, 514, 1, 0, 1e-5},
    {"xlm-roberta-base", "xlm-roberta", 768, 12, 12, 3072, 250002, 514, 1, 0, 1e-5},
    {"xlm-roberta-large", "xlm-roberta", 1024, 24, 16, 4096, 250002, 514, 1, 0, 1e-5},
    {"camembert-base", "camembert", 768, 12, 12, 3072, 32005, 514, 1, 0, 1e-5},
    {"distilbert-base-uncased", "distilbert", 768, 6, 12, 3072, 30522, 512, 0, 0, 1e-12},
    {"distilbert-base-cased", "distilbert", 768, 6, 12, 3072, 28996, 512, 0, 0, 1e-12},
    {"electra-small-discriminator", "electra", 256, 12, 4, 1024, 30522, 512, 2, 128, 1e-12},
    {"electra-base-discriminator", "electra", 768, 12, 12, 3072, 30522, 512, 2, 768, 1e-12},
    {"electra-large-discriminator", "electra", 1024, 24, 16, 4096, 30522, 512, 2, 1024, 1e-12},
};

// The row of a "model_type"; 0: it has none.
static int find_architecture(const char *type, size_t *found) {
    size_t i = 0;
    while (architecture_at(i) != NULL && strcmp(architecture_at(i)->type, type) != 0) {
        i++;
    }
    if (architecture_at(i) != NULL) {
        *found = i;
    }
    return architecture_at(i) != NULL;
}

int64_t bert_target_columns(const struct bert_config *config) {
    for (int64_t i = 0; i < config->embedding.objective_count; i++) {
        const struct bert_objective *objective = &config->embedding.objectives[i];
        if (objective->loss == BERT_SIMILARITIES && objective->similarity == SIMILARITY_VECTORS) {
            return config->hidden_size;
        }
    }
    return config->problem == BERT_MULTI_LABEL ? config->num_labels : 0;
}

enum berth_status bert_config_builtin(const char *name, struct bert_config *config,
                                      struct berth_error *error) {
    char known[512] = "";
    for (size_t i = 0; i < LENGTH(shape_rows); i++) {
        if (strcmp(shape_rows[i].name, name) == 0) {
            const struct shape_row *shape = &shape_rows[i];
            size_t architecture = 0;
            (void)find_architecture(shape->type, &architecture);
            set_defaults(config, architecture);
            config->hidden_size = shape->hidden_size;
            config->num_hidden_layers = shape->num_hidden_layers;
            config->num_attention_heads = shape->num_attention_heads;
            config->intermediate_size = shape->intermediate_size;
            config->vocab_size = shape->vocab_size;
            config->max_position_embeddings = shape->max_position_embeddings;
            config->type_vocab_size = shape->type_vocab_size;
            config->embedding_size = shape->embedding_size;
            config->layer_norm_eps = shape->layer_norm_eps;
            set_derived(config);
            return BERTH_OK;
        }
        words_add(known, sizeof known, shape_rows[i].name);
    }
    set_defaults(config, 0);
    return error_set(error, BERTH_USAGE, "no built-in model shape \"%s\": use %s or a config.json",
                     name, known);
}

// --- reading ------------------------------------------------------------------------------------

// The name of our key in this model's config.json; NULL: it has none.
static const char *key_of(const struct bert_config *config, const char *key) {
    return architecture_key(bert_architecture(config), key);
}

static enum berth_status read_integers(const json *object, const char *path,
                                       struct bert_config *config, struct berth_error *error) {
    for (size_t i = 0; i < LENGTH(integer_rows); i++) {
        const struct integer_row *row = &integer_rows[i];
        const char *key = key_of(config, row->key);
        int64_t *field = integer_field(config, row->field);
        if (key == NULL) {
            continue;
        }
        TRY(json_get_integer(object, path, key, field, error));
        if (*field < row->minimum || *field > row->maximum) {
            return error_key(error, BERTH_CONFIG, path, key, "expected %lld to %lld, found %lld",
                             (long long)row->minimum, (long long)row->maximum, (long long)*field);
        }
    }
    return BERTH_OK;
}

static enum berth_status read_reals(const json *object, const char *path,
                                    struct bert_config *config, struct berth_error *error) {
    for (size_t i = 0; i < LENGTH(real_rows); i++) {
        const struct real_row *row = &real_rows[i];
        const char *key = key_of(config, row->key);
        double *field = real_field(config, row->field);
        if (key == NULL) {
            continue;
        }
        TRY(json_get_real(object, path, key, field, error));
        if (!(*field >= row->minimum && *field < row->maximum)) {
            return error_key(error, BERTH_CONFIG, path, key,
                             "expected at least %g and less than %g, found %g", row->minimum,
                             row->maximum, *field);
        }
    }
    return BERTH_OK;
}

static enum berth_status read_activation(const json *object, const char *path,
                                         struct bert_config *config, struct berth_error *error) {
    const char *name = activation_rows[0].name, *key = key_of(config, "hidden_act");
    TRY(json_get_text(object, path, key, &name, error));
    for (size_t i = 0; i < LENGTH(activation_rows); i++) {
        if (strcmp(activation_rows[i].name, name) == 0) {
            config->hidden_act = activation_rows[i].activation;
            return BERTH_OK;
        }
    }
    char known[512] = "";
    for (size_t i = 0; i < LENGTH(activation_rows); i++) {
        words_add(known, sizeof known, activation_rows[i].name);
    }
    return error_key(error, BERTH_CONFIG, path, key,
                     "expected one of %s; found \"%s\"; use a model with one of "
                     "these functions",
                     known, name);
}

#define LABELS_LIMIT (1 << 20)

// Names in transformers of what a classifier's outputs mean.
static const char *const problem_names[] = {[BERT_CLASSES] = "single_label_classification",
                                            [BERT_REGRESSION] = "regression",
                                            [BERT_MULTI_LABEL] = "multi_label_classification"};

// Hugging Face writes the classes by name, and "num_labels" only if it was set by hand.
static enum berth_status read_head(const json *object, const char *path, struct bert_config *config,
                                   struct berth_error *error) {
    const json *names = json_member(object, "id2label");
    TRY(json_get_integer(object, path, "num_labels", &config->num_labels, error));
    if (json_is_object_value(names)) {
        config->num_labels = (int64_t)json_length(names);
    }
    if (config->num_labels < 1 || config->num_labels > LABELS_LIMIT) {
        return error_key(
            error, BERTH_CONFIG, path, json_is_object_value(names) ? "id2label" : "num_labels",
            "expected 1 to %d classes, found %lld", LABELS_LIMIT, (long long)config->num_labels);
    }
    const json *value = json_member(object, "problem_type");
    const char *name;
    config->problem = config->num_labels == 1 ? BERT_REGRESSION : BERT_CLASSES;
    config->has_problem_type = value != NULL && !json_is_null_value(value);
    if (!config->has_problem_type) {
        return BERTH_OK;
    }
    TRY(json_get_text(object, path, "problem_type", &name, error));
    for (size_t i = 0; i < LENGTH(problem_names); i++) {
        if (strcmp(problem_names[i], name) == 0) {
            config->problem = (enum bert_problem)i;
            return BERTH_OK;
        }
    }
    return error_set(error, BERTH_CONFIG,
                     "%s: key \"problem_type\": expected single_label_classification, "
                     "multi_label_classification or regression, found \"%s\"",
                     path, name);
}

static enum berth_status read_dropout(const json *object, const char *path, const char *key,
                                      double *dropout, struct berth_error *error) {
    if (key == NULL || json_is_null_value(json_member(object, key))) {
        return BERTH_OK; // Hugging Face's "same as hidden_dropout_prob"
    }
    TRY(json_get_real(object, path, key, dropout, error));
    if (*dropout >= 1) {
        return error_key(error, BERTH_CONFIG, path, key, "expected less than 1, found %g",
                         *dropout);
    }
    return BERTH_OK;
}

// Finds the architecture by "model_type"; a file without it is BERT's.
static enum berth_status read_type(const json *object, const char *path, struct bert_config *config,
                                   struct berth_error *error) {
    const char *type = NULL;
    size_t found = 0;
    TRY(json_get_text(object, path, "model_type", &type, error));
    if (type == NULL && json_member(object, "hidden_size") == NULL) {
        return error_set(error, BERTH_CONFIG,
                         "%s: has neither \"model_type\" nor \"hidden_size\": this is not the "
                         "config.json of a BERT model",
                         path);
    }
    if (type != NULL && !find_architecture(type, &found)) {
        const char *title = architecture_of_type(type);
        char known[128] = "";
        for (size_t i = 0; architecture_at(i) != NULL; i++) {
            words_add(known, sizeof known, architecture_at(i)->type);
        }
        return error_set(error, BERTH_CONFIG,
                         "%s: key \"model_type\": expected one of %s; found \"%s\": this is %s; "
                         "choose another model, such as bert-base-uncased",
                         path, known, type, title != NULL ? title : "another architecture");
    }
    if (found != config->architecture) {
        set_defaults(config, found);
    }
    return BERTH_OK;
}

// Keys that change the model without changing its shapes.
static enum berth_status check_kind(const json *object, const char *path,
                                    const struct bert_config *config, struct berth_error *error) {
    const char *positions = "absolute", *refused = bert_architecture(config)->refused_key;
    int decoder = 0, is_refused = 0;
    if (!json_is_null_value(json_member(object, "position_embedding_type"))) {
        TRY(json_get_text(object, path, "position_embedding_type", &positions, error));
    }
    TRY(json_get_boolean(object, path, "is_decoder", &decoder, error));
    if (strcmp(positions, "absolute") != 0) {
        return error_set(error, BERTH_CONFIG,
                         "%s: key \"position_embedding_type\": expected \"absolute\", found "
                         "\"%s\": this is %s with relative positions",
                         path, positions, bert_architecture(config)->title);
    }
    if (decoder) {
        return error_set(error, BERTH_CONFIG,
                         "%s: key \"is_decoder\": expected false, found true; only encoders are "
                         "supported",
                         path);
    }
    if (refused != NULL) {
        TRY(json_get_boolean(object, path, refused, &is_refused, error));
    }
    return is_refused ? error_key(error, BERTH_CONFIG, path, refused,
                                  "expected false, found true; use a model "
                                  "without it")
                      : BERTH_OK;
}

static enum berth_status check_relations(const struct bert_config *config, const char *path,
                                         struct berth_error *error) {
    if (config->hidden_size % config->num_attention_heads != 0) {
        return error_set(
            error, BERTH_CONFIG, "%s: \"%s\" (%lld) must be a multiple of \"%s\" (%lld)", path,
            key_of(config, "hidden_size"), (long long)config->hidden_size,
            key_of(config, "num_attention_heads"), (long long)config->num_attention_heads);
    }
    if (config->pad_token_id >= config->vocab_size) {
        return error_set(error, BERTH_CONFIG,
                         "%s: \"pad_token_id\" (%lld) must be less than \"vocab_size\" (%lld)",
                         path, (long long)config->pad_token_id, (long long)config->vocab_size);
    }
    if (bert_positions(config) < 1) {
        return error_set(error, BERTH_CONFIG,
                         "%s: \"max_position_embeddings\" (%lld) must be more than "
                         "\"pad_token_id\" + 1 (%lld), the first position of a text",
                         path, (long long)config->max_position_embeddings,
                         (long long)config->first_position);
    }
    return BERTH_OK;
}

static enum berth_status read_object(json *object, const char *path, struct bert_config *config,
                                     struct berth_error *error) {
    if (!json_is_object_value(object)) {
        return error_set(error, BERTH_CONFIG, "%s: expected a JSON object of model settings", path);
    }
    if (json_is_null_value(json_member(object, "pad_token_id"))) {
        json_remove(object, "pad_token_id"); // Hugging Face's "none"
    }
    TRY(read_type(object, path, config, error));
    TRY(check_kind(object, path, config, error));
    TRY(read_integers(object, path, config, error));
    TRY(read_reals(object, path, config, error));
    TRY(read_activation(object, path, config, error));
    TRY(read_head(object, path, config, error));
    TRY(read_dropout(object, path, key_of(config, "classifier_dropout"),
                     &config->classifier_dropout, error));
    TRY(read_dropout(object, path, bert_architecture(config)->span_dropout_key,
                     &config->span_dropout, error));
    const char *key = bert_architecture(config)->embedding_size_key;
    if (key != NULL) {
        TRY(json_get_integer(object, path, key, &config->embedding_size, error));
        if (config->embedding_size < 1 || config->embedding_size > 1 << 20) {
            return error_key(error, BERTH_CONFIG, path, key, "expected 1 to %d, found %lld",
                             1 << 20, (long long)config->embedding_size);
        }
    }
    TRY(json_get_boolean(object, path, "pre_layer_norm", &config->pre_layer_norm, error));
    set_derived(config);
    return check_relations(config, path, error);
}

// Keeps the object's text in place of the former one. A file that is written from it, with
// indentation, is at most twice as long and must be small enough to be read again.
static enum berth_status keep_source(struct bert_config *config, const json *object,
                                     const char *name, struct berth_error *error) {
    char *text = json_write(object, JSON_COMPACT);
    if (text == NULL) {
        return error_no_memory(error, 0, name);
    }
    if (strlen(text) > JSON_FILE_LIMIT / 2) {
        memory_free(text);
        return error_set(error, BERTH_CONFIG,
                         "%s: larger than %zu bytes; use fewer or shorter names of classes", name,
                         JSON_FILE_LIMIT / 2);
    }
    bert_config_done(config);
    config->source_json = text;
    return BERTH_OK;
}

static enum berth_status read_kept(json *object, const char *name, struct bert_config *config,
                                   struct berth_error *error) {
    TRY(read_object(object, name, config, error));
    return keep_source(config, object, name, error);
}

// The geometry in an experiment's file of BingBert: layer norms come first, and the vocabulary
// decides its own size, whatever the file says. A geometry within it has no meaning.
static enum berth_status read_experiment(const json *geometry, const char *name,
                                         struct bert_config *config, struct berth_error *error) {
    if (!json_is_object_value(geometry)) {
        return error_set(error, BERTH_CONFIG, "%s: key \"bert_model_config\": expected an object",
                         name);
    }
    json *object = json_copy_deep(geometry);
    int failed = object == NULL || json_set(object, "pre_layer_norm", json_new_boolean(1));
    if (failed == 0) {
        json_remove(object, "vocab_size_or_config_json_file");
        json_remove(object, "bert_model_config");
    }
    enum berth_status status =
        failed ? error_no_memory(error, 0, name) : read_kept(object, name, config, error);
    config->vocab_size = 0;
    json_free(object);
    return status;
}

enum berth_status bert_config_read_memory(const char *name, const char *bytes, size_t length,
                                          struct bert_config *config, struct berth_error *error) {
    json *object;
    set_defaults(config, 0);
    TRY(json_read_memory(name, bytes, length, &object, error));
    const json *geometry = json_member(object, "bert_model_config");
    enum berth_status status = geometry != NULL ? read_experiment(geometry, name, config, error)
                                                : read_kept(object, name, config, error);
    json_free(object);
    return status;
}

enum berth_status bert_config_read(const char *path, struct bert_config *config,
                                   struct berth_error *error) {
    char *bytes;
    size_t length;
    set_defaults(config, 0);
    TRY(file_read(path, JSON_FILE_LIMIT, &bytes, &length, error));
    enum berth_status status = bert_config_read_memory(path, bytes, length, config, error);
    memory_free(bytes);
    return status;
}

enum berth_status bert_config_require_vocab_size(const struct bert_config *config, const char *path,
                                                 struct berth_error *error) {
    return config->vocab_size > 0
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG,
                           "%s: key \"bert_model_config\": the geometry of an experiment has no "
                           "\"vocab_size\"; use a config.json that has it",
                           path);
}

// --- writing ------------------------------------------------------------------------------------

// The name in the source file if it still applies, else the first of the table.
static const char *activation_name(const char *written, enum activation activation) {
    const char *first = NULL;
    for (size_t i = 0; i < LENGTH(activation_rows); i++) {
        if (activation_rows[i].activation == activation) {
            first = first == NULL ? activation_rows[i].name : first;
            if (written != NULL && strcmp(written, activation_rows[i].name) == 0) {
                return activation_rows[i].name;
            }
        }
    }
    return first;
}

const char *bert_activation_name(enum activation activation) {
    return activation_name(NULL, activation);
}

static int set_values(const struct bert_config *config, json *object) {
    const struct architecture *row = bert_architecture(config);
    int failed = 0;
    for (size_t i = 0; i < LENGTH(integer_rows); i++) {
        const char *key = key_of(config, integer_rows[i].key);
        failed |=
            key != NULL &&
            json_set(object, key, json_new_integer(*integer_field(config, integer_rows[i].field)));
    }
    for (size_t i = 0; i < LENGTH(real_rows); i++) {
        const char *key = key_of(config, real_rows[i].key);
        failed |= key != NULL &&
                  json_set(object, key, json_new_real(*real_field(config, real_rows[i].field)));
    }
    if (row->embedding_size_key != NULL) {
        failed |= json_set(object, row->embedding_size_key,
                           json_new_integer(bert_embedding_size(config)));
    }
    if (config->pre_layer_norm) { // our own key: models of other programs have no such norms
        failed |= json_set(object, "pre_layer_norm", json_new_boolean(1));
    } else {
        json_remove(object, "pre_layer_norm");
    }
    return failed;
}

json *bert_config_values(const struct bert_config *config) {
    const double classifier_dropout =
        config->classifier_dropout < 0 ? config->hidden_dropout_prob : config->classifier_dropout;
    json *object = json_new_object();
    int failed = set_values(config, object);
    failed |= json_set(object, key_of(config, "hidden_act"),
                       json_new_text(bert_activation_name(config->hidden_act)));
    failed |= json_set(object, "num_labels", json_new_integer(config->num_labels));
    failed |= json_set(object, "problem_type", json_new_text(problem_names[config->problem]));
    failed |=
        json_set(object, key_of(config, "classifier_dropout"), json_new_real(classifier_dropout));
    return json_unless_failed(object, failed);
}

// The prefix of BERT's classes, which every architecture replaces by its own.
static const char class_prefix[] = "Bert";

static int set_architecture(const struct bert_config *config, const char *architecture,
                            json *object) {
    char name[96];
    snprintf(name, sizeof name, "%s%s", bert_architecture(config)->class_prefix,
             architecture + strlen(class_prefix));
    json *architectures = json_new_array();
    const int failed = json_append(architectures, json_new_text(name));
    return failed | json_set(object, "architectures", architectures);
}

static int set_texts(const struct bert_config *config, json *object) {
    const char *positions = key_of(config, "position_embedding_type");
    const char *activation = key_of(config, "hidden_act");
    int failed = json_set(object, "model_type", json_new_text(bert_architecture(config)->type));
    failed |= positions != NULL && json_set(object, positions, json_new_text("absolute"));
    failed |= json_set(object, activation,
                       json_new_text(activation_name(json_text(json_member(object, activation)),
                                                     config->hidden_act)));
    // Tensors are always written in f32; transformers 5 calls the key "dtype" and reads both.
    json_remove(object, "dtype");
    json_remove(object, "quantization_config");
    json_remove(object, "tie_word_embeddings"); // true in every model of Berth, as by default
    if (json_member(object, "id2label") != NULL) {
        json_remove(object, "num_labels"); // transformers 5 would prefer it
    }
    failed |= json_set(object, "torch_dtype", json_new_text("float32"));
    return failed;
}

// The file's own text as an object (the caller frees it); unknown keys come from it.
static enum berth_status source_object(const struct bert_config *config, const char *name,
                                       json **object, struct berth_error *error) {
    if (config->source_json == NULL) {
        *object = json_new_object();
        return BERTH_OK;
    }
    return json_read_memory(name, config->source_json, strlen(config->source_json), object, error);
}

// The part of a class's name after the architecture's prefix, "ForQuestionAnswering"; NULL: it is
// no class of the architecture.
static const char *first_architecture(const struct bert_config *config, const json *object) {
    const char *name = json_text(json_at(json_member(object, "architectures"), 0));
    const char *prefix = bert_architecture(config)->class_prefix;
    return name != NULL && strncmp(name, prefix, strlen(prefix)) == 0 ? name + strlen(prefix)
                                                                      : NULL;
}

enum berth_status bert_config_is_architecture(const struct bert_config *config, const char *name,
                                              int *answer, struct berth_error *error) {
    json *object;
    *answer = 0;
    if (config->source_json == NULL) {
        return BERTH_OK;
    }
    TRY(source_object(config, "config.json", &object, error));
    const char *first = first_architecture(config, object);
    *answer = first != NULL && strcmp(first, name + strlen(class_prefix)) == 0;
    json_free(object);
    return BERTH_OK;
}

// The text itself, from a table; NULL: the class whose name ends so has no "classifier.weight".
static const char *classifier_called(const char *end) {
    static const char *const classifiers[] = {"ForMultipleChoice", "ForSequenceClassification",
                                              "ForTokenClassification"};
    for (size_t i = 0; end != NULL && i < LENGTH(classifiers); i++) {
        if (strcmp(classifiers[i], end) == 0) {
            return classifiers[i];
        }
    }
    return NULL;
}

enum berth_status bert_config_other_classifier(const struct bert_config *config,
                                               const char *architecture, const char **other,
                                               struct berth_error *error) {
    const char *own = classifier_called(architecture + strlen(class_prefix));
    json *object;
    *other = NULL;
    if (own == NULL) {
        return BERTH_OK;
    }
    TRY(source_object(config, "config.json", &object, error));
    const char *first = classifier_called(first_architecture(config, object));
    *other = first != own ? first : NULL;
    json_free(object);
    return BERTH_OK;
}

// Google's files do not distinguish the two names of the erf form, nor those of the tanh form, and
// do not mention tensor types.
static int set_google_values(const struct bert_config *config, json *object) {
    static const char *const not_theirs[] = {"dtype", "torch_dtype", "quantization_config"};
    for (size_t i = 0; i < LENGTH(not_theirs); i++) {
        json_remove(object, not_theirs[i]);
    }
    int failed = set_values(config, object);
    failed |=
        json_set(object, "hidden_act", json_new_text(bert_activation_name(config->hidden_act)));
    if (config->pad_token_id == 0) {
        json_remove(object, "pad_token_id");
    }
    if (config->layer_norm_eps == 1e-12) {
        json_remove(object, "layer_norm_eps");
    }
    return failed;
}

enum berth_status bert_config_write_google(const struct bert_config *config, const char *path,
                                           struct berth_error *error) {
    json *object;
    TRY(source_object(config, path, &object, error));
    enum berth_status status =
        set_google_values(config, object) == 0
            ? json_write_file(object, JSON_INDENT_2_SORTED, path, error)
            : error_set(error, BERTH_NO_MEMORY, "out of memory for the text of %s", path);
    json_free(object);
    return status;
}

// The settings as an object, which the caller frees. `architecture` NULL: the source's.
static enum berth_status make_object(const struct bert_config *config, const char *architecture,
                                     const char *name, json **object, struct berth_error *error) {
    *object = NULL;
    TRY(source_object(config, name, object, error));
    if (set_values(config, *object) != 0 || set_texts(config, *object) != 0 ||
        (architecture != NULL && set_architecture(config, architecture, *object) != 0)) {
        json_free(*object);
        *object = NULL;
        return error_set(error, BERTH_NO_MEMORY, "out of memory for the text of %s", name);
    }
    return BERTH_OK;
}

enum berth_status bert_config_write(const struct bert_config *config, const char *architecture,
                                    const char *path, struct berth_error *error) {
    json *object;
    TRY(make_object(config, architecture, path, &object, error));
    enum berth_status status = json_write_file(object, JSON_INDENT_2_SORTED, path, error);
    json_free(object);
    return status;
}

enum berth_status bert_config_drop_classes(struct bert_config *config, struct berth_error *error) {
    static const char *const keys[] = {"id2label", "label2id", "num_labels", "problem_type"};
    const char *name = "config.json";
    json *object;
    TRY(source_object(config, name, &object, error));
    for (size_t i = 0; i < LENGTH(keys); i++) {
        json_remove(object, keys[i]);
    }
    const enum berth_status status = keep_source(config, object, name, error);
    json_free(object);
    TRY(status);
    config->num_labels = 2;
    config->problem = BERT_CLASSES;
    config->has_problem_type = 0;
    return BERTH_OK;
}

enum berth_status bert_config_merge(struct bert_config *config, const json *object,
                                    struct berth_error *error) {
    const char *name = "config.json";
    json *merged;
    TRY(make_object(config, NULL, name, &merged, error));
    struct json_walk walk = {.object = object};
    int failed = 0;
    while (json_walk_next(&walk)) {
        failed |= json_set(merged, walk.key, json_copy_deep(walk.value));
    }
    struct bert_config read = *config; // with what is no key of the file
    read.source_json = NULL;
    const enum berth_status status =
        failed != 0 ? error_no_memory(error, 0, name) : read_kept(merged, name, &read, error);
    json_free(merged);
    if (status == BERTH_OK) {
        bert_config_done(config);
        *config = read;
    }
    return status;
}

void bert_config_done(struct bert_config *config) {
    memory_free(config->source_json);
    config->source_json = NULL;
}
