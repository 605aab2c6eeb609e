// SPDX-License-Identifier: Apache-2.0
// config.json: a table of keys with name, field, limits and default. The defaults are those of
// Hugging Face's BertConfig. A Google bert_config.json has the same keys except model_type and
// layer_norm_eps, so it needs no reader of its own; its "gelu" is the erf form, as in Hugging
// Face's reader.
//
// Leaves out: relative positions, decoders and cross attention, activations with parameters of
// their own (prelu, xielu), sqrtsoftplus.
#include "model/config.h"

#include "core/memory.h"
#include "core/words.h"
#include "format/json/json.h"
#include "model/architectures.h"

#include <stddef.h>
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

static void set_defaults(struct bert_config *config) {
    *config = (struct bert_config){
        .hidden_act = ACTIVATION_GELU_ERF, .num_labels = 2, .classifier_dropout = -1};
    for (size_t i = 0; i < LENGTH(integer_rows); i++) {
        *integer_field(config, integer_rows[i].field) = integer_rows[i].fallback;
    }
    for (size_t i = 0; i < LENGTH(real_rows); i++) {
        *real_field(config, real_rows[i].field) = real_rows[i].fallback;
    }
}

// --- built-in shapes ----------------------------------------------------------------------------

static const struct shape_row {
    const char *name;
    int64_t hidden_size, num_hidden_layers, num_attention_heads, intermediate_size;
} shape_rows[] = {
    {"tiny", 128, 2, 2, 512},
    {"minilm", 384, 6, 12, 1536},
    {"base", 768, 12, 12, 3072},
    {"large", 1024, 24, 16, 4096},
};

enum berth_status bert_config_builtin(const char *name, struct bert_config *config,
                                      struct berth_error *error) {
    set_defaults(config);
    for (size_t i = 0; i < LENGTH(shape_rows); i++) {
        if (strcmp(shape_rows[i].name, name) == 0) {
            config->hidden_size = shape_rows[i].hidden_size;
            config->num_hidden_layers = shape_rows[i].num_hidden_layers;
            config->num_attention_heads = shape_rows[i].num_attention_heads;
            config->intermediate_size = shape_rows[i].intermediate_size;
            return BERTH_OK;
        }
    }
    return error_set(error, BERTH_USAGE,
                     "no built-in model shape \"%s\": use tiny, minilm, base, large or a "
                     "config.json",
                     name);
}

// --- reading ------------------------------------------------------------------------------------

static enum berth_status read_integers(const json *object, const char *path,
                                       struct bert_config *config, struct berth_error *error) {
    for (size_t i = 0; i < LENGTH(integer_rows); i++) {
        const struct integer_row *row = &integer_rows[i];
        int64_t *field = integer_field(config, row->field);
        TRY(json_get_integer(object, path, row->key, field, error));
        if (*field < row->minimum || *field > row->maximum) {
            return error_set(error, BERTH_CONFIG,
                             "%s: key \"%s\": expected %lld to %lld, found %lld", path, row->key,
                             (long long)row->minimum, (long long)row->maximum, (long long)*field);
        }
    }
    return BERTH_OK;
}

static enum berth_status read_reals(const json *object, const char *path,
                                    struct bert_config *config, struct berth_error *error) {
    for (size_t i = 0; i < LENGTH(real_rows); i++) {
        const struct real_row *row = &real_rows[i];
        double *field = real_field(config, row->field);
        TRY(json_get_real(object, path, row->key, field, error));
        if (!(*field >= row->minimum && *field < row->maximum)) {
            return error_set(error, BERTH_CONFIG,
                             "%s: key \"%s\": expected at least %g and less than %g, found %g",
                             path, row->key, row->minimum, row->maximum, *field);
        }
    }
    return BERTH_OK;
}

static enum berth_status refuse_activation(const char *path, const char *name,
                                           struct berth_error *error) {
    char known[512] = "";
    for (size_t i = 0; i < LENGTH(activation_rows); i++) {
        words_add(known, sizeof known, activation_rows[i].name);
    }
    return error_set(error, BERTH_CONFIG,
                     "%s: key \"hidden_act\": expected one of %s; found \"%s\"; use a model with "
                     "one of these functions",
                     path, known, name);
}

static enum berth_status read_activation(const json *object, const char *path,
                                         struct bert_config *config, struct berth_error *error) {
    const char *name = activation_rows[0].name;
    TRY(json_get_text(object, path, "hidden_act", &name, error));
    for (size_t i = 0; i < LENGTH(activation_rows); i++) {
        if (strcmp(activation_rows[i].name, name) == 0) {
            config->hidden_act = activation_rows[i].activation;
            return BERTH_OK;
        }
    }
    return refuse_activation(path, name, error);
}

#define LABELS_LIMIT (1 << 20)

// Names in transformers of what a classifier's outputs mean.
static const char *const problem_names[] = {[BERT_CLASSES] = "single_label_classification",
                                            [BERT_REGRESSION] = "regression",
                                            [BERT_MULTI_LABEL] = "multi_label_classification"};

static enum berth_status read_problem(const json *object, const char *path,
                                      struct bert_config *config, struct berth_error *error) {
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

// Hugging Face writes the classes by name, and "num_labels" only if it was set by hand.
static enum berth_status read_head(const json *object, const char *path, struct bert_config *config,
                                   struct berth_error *error) {
    const json *names = json_member(object, "id2label");
    TRY(json_get_integer(object, path, "num_labels", &config->num_labels, error));
    if (json_is_object_value(names)) {
        config->num_labels = (int64_t)json_length(names);
    }
    if (config->num_labels < 1 || config->num_labels > LABELS_LIMIT) {
        return error_set(error, BERTH_CONFIG,
                         "%s: key \"%s\": expected 1 to %d classes, found %lld", path,
                         json_is_object_value(names) ? "id2label" : "num_labels", LABELS_LIMIT,
                         (long long)config->num_labels);
    }
    TRY(read_problem(object, path, config, error));
    if (json_is_null_value(json_member(object, "classifier_dropout"))) {
        return BERTH_OK; // Hugging Face's "same as hidden_dropout_prob"
    }
    TRY(json_get_real(object, path, "classifier_dropout", &config->classifier_dropout, error));
    if (config->classifier_dropout >= 1) {
        return error_set(error, BERTH_CONFIG,
                         "%s: key \"classifier_dropout\": expected less than 1, found %g", path,
                         config->classifier_dropout);
    }
    return BERTH_OK;
}

// Keys that change the model without changing its shapes.
static enum berth_status check_kind(const json *object, const char *path,
                                    struct berth_error *error) {
    const char *model_type = NULL, *positions = "absolute";
    int decoder = 0;
    TRY(json_get_text(object, path, "model_type", &model_type, error));
    if (!json_is_null_value(json_member(object, "position_embedding_type"))) {
        TRY(json_get_text(object, path, "position_embedding_type", &positions, error));
    }
    TRY(json_get_boolean(object, path, "is_decoder", &decoder, error));
    if (model_type != NULL && strcmp(model_type, "bert") != 0) {
        const char *title = architecture_of_type(model_type);
        return error_set(error, BERTH_CONFIG,
                         "%s: key \"model_type\": expected \"bert\", found \"%s\": this is %s; "
                         "choose a BERT instead, such as bert-base-uncased or bert-base-cased",
                         path, model_type, title != NULL ? title : "another architecture");
    }
    if (model_type == NULL && json_member(object, "hidden_size") == NULL) {
        return error_set(error, BERTH_CONFIG,
                         "%s: has neither \"model_type\" nor \"hidden_size\": this is not the "
                         "config.json of a BERT model",
                         path);
    }
    if (strcmp(positions, "absolute") != 0) {
        return error_set(error, BERTH_CONFIG,
                         "%s: key \"position_embedding_type\": expected \"absolute\", found "
                         "\"%s\": this is a BERT with relative positions",
                         path, positions);
    }
    if (decoder) {
        return error_set(error, BERTH_CONFIG,
                         "%s: key \"is_decoder\": expected false, found true; only encoders are "
                         "supported",
                         path);
    }
    return BERTH_OK;
}

static enum berth_status check_relations(const struct bert_config *config, const char *path,
                                         struct berth_error *error) {
    if (config->hidden_size % config->num_attention_heads != 0) {
        return error_set(error, BERTH_CONFIG,
                         "%s: \"hidden_size\" (%lld) must be a multiple of "
                         "\"num_attention_heads\" (%lld)",
                         path, (long long)config->hidden_size,
                         (long long)config->num_attention_heads);
    }
    if (config->pad_token_id >= config->vocab_size) {
        return error_set(error, BERTH_CONFIG,
                         "%s: \"pad_token_id\" (%lld) must be less than \"vocab_size\" (%lld)",
                         path, (long long)config->pad_token_id, (long long)config->vocab_size);
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
    TRY(check_kind(object, path, error));
    TRY(read_integers(object, path, config, error));
    TRY(read_reals(object, path, config, error));
    TRY(read_activation(object, path, config, error));
    TRY(read_head(object, path, config, error));
    TRY(json_get_boolean(object, path, "pre_layer_norm", &config->pre_layer_norm, error));
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
    set_defaults(config);
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
    set_defaults(config);
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
static const char *activation_name(const json *object, enum activation activation) {
    const char *first = NULL, *written = json_text(json_member(object, "hidden_act"));
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
    int failed = 0;
    for (size_t i = 0; i < LENGTH(integer_rows); i++) {
        failed |= json_set(object, integer_rows[i].key,
                           json_new_integer(*integer_field(config, integer_rows[i].field)));
    }
    for (size_t i = 0; i < LENGTH(real_rows); i++) {
        failed |= json_set(object, real_rows[i].key,
                           json_new_real(*real_field(config, real_rows[i].field)));
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
    failed |=
        json_set(object, "hidden_act", json_new_text(bert_activation_name(config->hidden_act)));
    failed |= json_set(object, "num_labels", json_new_integer(config->num_labels));
    failed |= json_set(object, "problem_type", json_new_text(problem_names[config->problem]));
    failed |= json_set(object, "classifier_dropout", json_new_real(classifier_dropout));
    return json_unless_failed(object, failed);
}

static int set_architecture(const char *architecture, json *object) {
    json *architectures = json_new_array();
    const int failed = json_append(architectures, json_new_text(architecture));
    return failed | json_set(object, "architectures", architectures);
}

static int set_texts(const struct bert_config *config, json *object) {
    int failed = json_set(object, "model_type", json_new_text("bert"));
    failed |= json_set(object, "position_embedding_type", json_new_text("absolute"));
    failed |=
        json_set(object, "hidden_act", json_new_text(activation_name(object, config->hidden_act)));
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

static const char *first_architecture(const json *object) {
    return json_text(json_at(json_member(object, "architectures"), 0));
}

enum berth_status bert_config_is_architecture(const struct bert_config *config, const char *name,
                                              int *answer, struct berth_error *error) {
    json *object;
    *answer = 0;
    if (config->source_json == NULL) {
        return BERTH_OK;
    }
    TRY(source_object(config, "config.json", &object, error));
    const char *first = first_architecture(object);
    *answer = first != NULL && strcmp(first, name) == 0;
    json_free(object);
    return BERTH_OK;
}

// The name itself, from a table; NULL: the model has no tensor "classifier.weight".
static const char *classifier_called(const char *name) {
    static const char *const classifiers[] = {
        "BertForMultipleChoice", "BertForSequenceClassification", "BertForTokenClassification"};
    for (size_t i = 0; name != NULL && i < LENGTH(classifiers); i++) {
        if (strcmp(classifiers[i], name) == 0) {
            return classifiers[i];
        }
    }
    return NULL;
}

enum berth_status bert_config_other_classifier(const struct bert_config *config,
                                               const char *architecture, const char **other,
                                               struct berth_error *error) {
    const char *own = classifier_called(architecture);
    json *object;
    *other = NULL;
    if (own == NULL) {
        return BERTH_OK;
    }
    TRY(source_object(config, "config.json", &object, error));
    const char *first = classifier_called(first_architecture(object));
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
        (architecture != NULL && set_architecture(architecture, *object) != 0)) {
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
