// SPDX-License-Identifier: Apache-2.0
// Opens files of SQuAD for a task: reads them (data/squad/squad.h), makes features by the rules
// that a model was trained with, gives them to the packer one by one, and keeps the logits that a
// prediction returns for each. Used by answer.c, show.c and `berth features`; answers are cut from
// the logits by metrics/squad_answers.h.
#include "task/squad_input.h"

#include "core/clock.h"
#include "core/file.h"
#include "core/memory.h"
#include "format/json/json.h"
#include "model/folder.h"
#include "settings/settings.h"
#include "train/machine/machine.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

// --- settings -----------------------------------------------------------------------------------

static int is_set_to(const char *value, const char *name) {
    return value != NULL && strcmp(value, name) == 0;
}

enum berth_status squad_input_feature_options(const struct settings *config,
                                              struct squad_feature_options *options,
                                              struct berth_error *error) {
    int keras = is_set_to(config->features.features, "keras");
    *options = (struct squad_feature_options){
        .max_length = config->features.max_seq_length,
        .doc_stride = config->features.doc_stride,
        .doc_overlap = config->features.doc_overlap,
        .max_query_length = config->features.max_query_length,
        .rules = keras ? SQUAD_RULES_KERAS : SQUAD_RULES_GOOGLE,
        .filter_by_words = is_set_to(config->features.window_filter, "words"),
        .all_answers = is_set_to(config->features.keras_answers, "all"),
        .end_exclusive = is_set_to(config->features.keras_end, "exclusive"),
    };
    if (!keras && (options->all_answers || options->end_exclusive)) {
        return error_set(error, BERTH_CONFIG,
                         "%s applies only to Keras's features: also set features to keras",
                         options->all_answers ? "keras_answers all" : "keras_end exclusive");
    }
    if (keras && config->features.version_2_with_negative) {
        return error_set(error, BERTH_CONFIG,
                         "features keras cannot represent a question without an answer: omit "
                         "version_2_with_negative or features");
    }
    return BERTH_OK;
}

struct squad_answer_options squad_input_answer_options(const struct settings *config) {
    return (struct squad_answer_options){
        .n_best_size = config->task.n_best_size,
        .max_answer_length = config->task.max_answer_length,
        .version_2_with_negative = config->features.version_2_with_negative,
        .null_score_diff_threshold = config->task.null_score_diff_threshold,
    };
}

// --- features recorded in the model --------------------------------------------------------------

#define FEATURES_KEY "squad_features"
#define END_KEY "squad_answer_end"

// The rules recorded in the model's config.json; Google's if none are.
static enum berth_status rules_of_model(const struct model_files *files, int *named, int *keras,
                                        int *exclusive, struct berth_error *error) {
    const char *source = files->shape.source_json, *features = NULL, *end = NULL;
    json *object = NULL;
    *named = *keras = *exclusive = 0;
    if (source == NULL) {
        return BERTH_OK;
    }
    TRY(json_read_memory("config.json", source, strlen(source), &object, error));
    features = json_text(json_member(object, FEATURES_KEY));
    end = json_text(json_member(object, END_KEY));
    *named = features != NULL;
    *keras = is_set_to(features, "keras");
    *exclusive = is_set_to(end, "exclusive");
    json_free(object);
    return BERTH_OK;
}

enum berth_status squad_input_mark_model(struct model_files *files, const struct settings *config,
                                         struct berth_error *error) {
    int named, keras, exclusive, wanted = is_set_to(config->features.features, "keras");
    TRY(rules_of_model(files, &named, &keras, &exclusive, error));
    if (!named && !wanted) {
        return BERTH_OK;
    }
    json *object = JSON_OBJECT({FEATURES_KEY, json_new_text(wanted ? "keras" : "google")},
                               {END_KEY, json_new_text(config->features.keras_end)});
    enum berth_status status = object == NULL ? error_no_memory(error, 0, "config.json")
                                              : model_files_merge(files, object, error);
    json_free(object);
    return status;
}

// Whether `path` is a file of weights with a trained head, and has no configuration: nothing
// records the rules.
static int is_bare_state(const char *path) {
    struct weights weights;
    int has_config = 1, has_original = 1, is_trained = 0;
    if (path == NULL || !file_exists(path) ||
        folder_has_file(path, "config.json", &has_config, NULL) != BERTH_OK ||
        folder_has_file(path, "bert_config.json", &has_original, NULL) != BERTH_OK || has_config ||
        has_original) {
        return 0;
    }
    if (weights_open(&weights, path, 0, NULL) == BERTH_OK) {
        is_trained = weights_find(&weights, "qa_outputs.weight") != NULL;
        weights_close(&weights);
    }
    return is_trained;
}

enum berth_status squad_input_follow_model(struct settings *config, const struct model_files *files,
                                           const struct berth_log *log, struct berth_error *error) {
    int named, keras, exclusive;
    TRY(rules_of_model(files, &named, &keras, &exclusive, error));
    if (!named) {
        // The demos of CSCS save such states, with Keras's rules.
        if (!settings_is_given(config, "features") &&
            is_set_to(config->features.features, "google") &&
            is_bare_state(config->model.model_name_or_path)) {
            log_warning(
                log,
                "%s does not say with which features it was trained, so features google are "
                "assumed; if it is a state of CSCS's demo on Piz Daint, set features keras and "
                "keras_end exclusive, if of the demo on LUMI, features keras",
                config->model.model_name_or_path);
        }
        return BERTH_OK;
    }
    const struct {
        const char *name, **setting, *trained;
    } rules[] = {{"features", &config->features.features, keras ? "keras" : "google"},
                 {"keras_end", &config->features.keras_end, exclusive ? "exclusive" : "inclusive"}};
    for (size_t i = 0; i < (keras ? 2 : 1); i++) {
        if (is_set_to(*rules[i].setting, rules[i].trained)) {
            continue;
        }
        if (settings_is_given(config, rules[i].name)) {
            log_warning(log, "%s %s, but the model was trained with %s %s", rules[i].name,
                        *rules[i].setting, rules[i].name, rules[i].trained);
            return BERTH_OK;
        }
        *rules[i].setting = rules[i].trained;
        log_detail(log, "%s: %s, as the model was trained", rules[i].name, rules[i].trained);
    }
    return BERTH_OK;
}

// --- the data set -------------------------------------------------------------------------------

static enum berth_status open_input(struct squad_input *input, const struct squad_input_args *args,
                                    const struct squad_feature_options *options,
                                    struct berth_error *error) {
    TRY(squad_read(args->path, args->limit, &input->dataset, error));
    if (args->config->features.strict_answers) {
        TRY(squad_refuse_misplaced(&input->dataset, error));
    }
    TRY(squad_features_build(&input->dataset, args->tokenizer, options, args->log, &input->features,
                             error));
    if (input->features.cut_questions > 0) {
        log_note(args->log, "%s: %zu questions are cut to max_query_length (%" PRId64 ") tokens",
                 args->path, input->features.cut_questions, options->max_query_length);
    }
    if (input->features.count == 0) {
        return error_set(error, BERTH_BAD_DATA,
                         options->training
                             ? "%s: no question has a window to train on; check the file's answers"
                             : "%s: no question has a window to answer from",
                         args->path);
    }
    return BERTH_OK;
}

enum berth_status squad_input_open(struct squad_input *input, const struct squad_input_args *args,
                                   struct berth_error *error) {
    *input = (struct squad_input){0};
    double begin = clock_now();
    struct squad_feature_options options;
    TRY(squad_input_feature_options(args->config, &options, error));
    options.training = args->training;
    options.threads = machine_threads(&args->config->machine);
    enum berth_status status = open_input(input, args, &options, error);
    if (status != BERTH_OK) {
        squad_input_done(input);
        return status;
    }
    log_detail(args->log, "%s: %zu questions, %zu features, %zu tokens in %.2f s", args->path,
               input->dataset.count, input->features.count, input->features.token_count,
               clock_now() - begin);
    return BERTH_OK;
}

void squad_input_done(struct squad_input *input) {
    squad_feature_set_done(&input->features);
    squad_dataset_done(&input->dataset);
    *input = (struct squad_input){0};
}

static struct packer_sequence get(const void *data, size_t index) {
    const struct squad_feature_set *set = data;
    const struct squad_feature *feature = &set->features[index];
    return (struct packer_sequence){.ids = set->ids + feature->first,
                                    .type_ids = set->type_ids + feature->first,
                                    .length = feature->length,
                                    .start = feature->start,
                                    .end = feature->end,
                                    .label = -1,
                                    .target = NAN};
}

struct packer_source squad_input_source(const struct squad_feature_set *set) {
    return (struct packer_source){.get = get, .data = set, .count = set->count};
}

// --- logits -------------------------------------------------------------------------------------

size_t squad_logits_bytes(const struct squad_feature_set *set) {
    return (2 * set->token_count + 1) * sizeof(float); // also for an empty set
}

enum berth_status squad_logits_init(struct squad_logits *logits,
                                    const struct squad_feature_set *set,
                                    struct berth_error *error) {
    const size_t bytes = squad_logits_bytes(set);
    *logits = (struct squad_logits){.set = set, .values = memory_array_zeroed(bytes, 1)};
    return logits->values != NULL ? BERTH_OK : error_no_memory(error, bytes, "the logits");
}

void squad_logits_done(struct squad_logits *logits) {
    memory_free(logits->values);
    *logits = (struct squad_logits){0};
}

void squad_logits_receive(void *logits, size_t index, const float *numbers, int64_t count) {
    const struct squad_logits *own = logits;
    memcpy(own->values + 2 * (size_t)own->set->features[index].first, numbers,
           (size_t)count * sizeof *numbers);
}
