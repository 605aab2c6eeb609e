// SPDX-License-Identifier: Apache-2.0
#include "train/tasks/squad_input.h"

#include "core/clock.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/options.h"
#include "data/squad/squad_cache.h"
#include "format/json/json.h"
#include "model/folder.h"
#include "train/machine/machine.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

// --- settings -----------------------------------------------------------------------------------

static int is_set_to(const char *value, const char *name) {
    return value != NULL && strcmp(value, name) == 0;
}

enum berth_status squad_input_feature_options(const struct berth_config *config,
                                              struct squad_feature_options *options,
                                              struct berth_error *error) {
    int keras = is_set_to(config->features, "keras");
    *options = (struct squad_feature_options){
        .max_seq_length = config->max_seq_length,
        .doc_stride = config->doc_stride,
        .doc_overlap = config->doc_overlap,
        .max_query_length = config->max_query_length,
        .rules = keras ? SQUAD_RULES_KERAS : SQUAD_RULES_GOOGLE,
        .filter_by_words = is_set_to(config->window_filter, "words"),
        .all_answers = is_set_to(config->keras_answers, "all"),
        .end_exclusive = is_set_to(config->keras_end, "exclusive"),
    };
    if (!keras && (options->all_answers || options->end_exclusive)) {
        return error_set(error, BERTH_CONFIG,
                         "%s applies only to Keras's features: also set features to keras",
                         options->all_answers ? "keras_answers all" : "keras_end exclusive");
    }
    if (keras && config->version_2_with_negative) {
        return error_set(error, BERTH_CONFIG,
                         "features keras cannot represent a question without an answer: omit "
                         "version_2_with_negative or features");
    }
    return BERTH_OK;
}

// Keras's recipe neither splits contexts nor cuts questions.
void squad_input_note_unused(const struct berth_config *config, const struct berth_log *log) {
    static const char *const of_windows[] = {"doc_stride", "max_query_length"};
    static const char *const of_cache[] = {"overwrite_cache", "skip_cache"};
    for (size_t i = 0; i < sizeof of_windows / sizeof *of_windows; i++) {
        if (is_set_to(config->features, "keras") && option_name_is_chosen(config, of_windows[i])) {
            log_note(log, "%s has no effect with features keras", of_windows[i]);
        }
    }
    for (size_t i = 0; i < sizeof of_cache / sizeof *of_cache; i++) {
        if (config->cache_dir == NULL && option_name_is_chosen(config, of_cache[i])) {
            log_note(log, "%s has no effect without cache_dir", of_cache[i]);
        }
    }
}

struct squad_answer_options squad_input_answer_options(const struct berth_config *config) {
    return (struct squad_answer_options){
        .n_best_size = config->n_best_size,
        .max_answer_length = config->max_answer_length,
        .version_2_with_negative = config->version_2_with_negative,
        .null_score_diff_threshold = config->null_score_diff_threshold,
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

enum berth_status squad_input_mark_model(struct model_files *files,
                                         const struct berth_config *config,
                                         struct berth_error *error) {
    int named, keras, exclusive, wanted = is_set_to(config->features, "keras");
    TRY(rules_of_model(files, &named, &keras, &exclusive, error));
    if (!named && !wanted) {
        return BERTH_OK;
    }
    json *object = JSON_OBJECT({FEATURES_KEY, json_new_text(wanted ? "keras" : "google")},
                               {END_KEY, json_new_text(config->keras_end)});
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

// The demos of CSCS save such states, with Keras's rules.
static void note_unknown_rules(const struct berth_config *config, const struct berth_log *log) {
    if (!option_name_is_given(config, "features") && is_set_to(config->features, "google") &&
        is_bare_state(config->model_name_or_path)) {
        log_warning(log,
                    "%s does not say by which rules its answers were trained; they are taken for "
                    "features google. For a state of CSCS's demo of Piz Daint set features keras "
                    "and keras_end exclusive, for one of LUMI's features keras",
                    config->model_name_or_path);
    }
}

enum berth_status squad_input_follow_model(struct berth_config *config,
                                           const struct model_files *files,
                                           const struct berth_log *log, struct berth_error *error) {
    int named, keras, exclusive;
    TRY(rules_of_model(files, &named, &keras, &exclusive, error));
    if (!named) {
        note_unknown_rules(config, log);
        return BERTH_OK;
    }
    const struct {
        const char *name, **setting, *trained;
    } rules[] = {{"features", &config->features, keras ? "keras" : "google"},
                 {"keras_end", &config->keras_end, exclusive ? "exclusive" : "inclusive"}};
    for (size_t i = 0; i < (keras ? 2 : 1); i++) {
        if (is_set_to(*rules[i].setting, rules[i].trained)) {
            continue;
        }
        if (option_name_is_given(config, rules[i].name)) {
            log_warning(log, "%s %s, but the model was trained with %s %s", rules[i].name,
                        *rules[i].setting, rules[i].name, rules[i].trained);
            return BERTH_OK;
        }
        *rules[i].setting = rules[i].trained;
        log_note(log, "%s: %s, as the model was trained", rules[i].name, rules[i].trained);
    }
    return BERTH_OK;
}

// --- the cache ----------------------------------------------------------------------------------

// Reading or building features, with or without a cache.
struct opening {
    struct squad_input *input;
    const struct squad_input_args *args;
    struct squad_feature_options options;
};

static enum berth_status build(const struct opening *opening, struct berth_error *error) {
    struct squad_input *input = opening->input;
    TRY(squad_features_build(&input->dataset, opening->args->tokenizer, &opening->options,
                             opening->args->log, &input->features, error));
    input->examples = (int64_t)input->dataset.count;
    if (input->features.cut_questions > 0) {
        log_note(opening->args->log,
                 "%s: %zu questions are cut to max_query_length (%" PRId64 ") tokens",
                 opening->args->path, input->features.cut_questions,
                 opening->options.max_query_length);
    }
    if (input->features.count == 0) {
        return error_set(error, BERTH_BAD_DATA,
                         opening->options.training
                             ? "%s: no question has a window to train on; check the file's answers"
                             : "%s: no question has a window to answer from",
                         opening->args->path);
    }
    return BERTH_OK;
}

// Whether the features came from the cache file. An unusable file is logged and will be replaced.
static int read_from_cache(const struct opening *opening, const struct squad_cache_key *key,
                           const char *file) {
    struct squad_input *input = opening->input;
    struct berth_error error = {0};
    if (opening->args->config->overwrite_cache || !file_exists(file)) {
        return 0;
    }
    if (squad_cache_read(file, key, opening->options.training ? NULL : &input->dataset,
                         &input->features, &input->examples, &error) != BERTH_OK) {
        log_note(opening->args->log, "%s; rebuilding the features", error.message);
        return 0;
    }
    const struct berth_field fact = log_text("features_file", file);
    log_facts(opening->args->log, &fact, 1);
    if (input->features.skipped_examples > 0) {
        log_note(opening->args->log,
                 "features from %s; questions left out when they were built: %zu", file,
                 input->features.skipped_examples);
    } else {
        log_note(opening->args->log, "features from %s", file);
    }
    return 1;
}

// Failing to write the cache does not fail the run.
static void put_into_cache(const struct opening *opening, const struct squad_cache_key *key,
                           const char *file) {
    struct berth_error error = {0};
    enum berth_status status = dir_make(opening->args->config->cache_dir, &error);
    if (status == BERTH_OK) {
        status = squad_cache_write(file, key, &opening->input->dataset, &opening->input->features,
                                   &error);
    }
    if (status != BERTH_OK) {
        log_warning(opening->args->log, "the features are not cached: %s", error.message);
    }
}

static enum berth_status check_answers(const struct opening *opening, struct berth_error *error) {
    return opening->args->config->strict_answers
               ? squad_refuse_misplaced(&opening->input->dataset, error)
               : BERTH_OK;
}

static enum berth_status read_questions(const struct opening *opening, const char *bytes,
                                        size_t length, struct berth_error *error) {
    const struct squad_input_args *args = opening->args;
    TRY(squad_read_memory(args->path, bytes, length, args->limit, &opening->input->dataset, error));
    return check_answers(opening, error);
}

// Reads the file once, so that the hashed bytes are the ones used. With strict_answers the
// questions are read even if the features are cached, because features do not show whether answers
// are at their positions.
static enum berth_status open_with_cache(const struct opening *opening, const char *bytes,
                                         size_t length, struct berth_error *error) {
    int early = !opening->options.training || opening->args->config->strict_answers;
    struct squad_cache_key key;
    const struct squad_cache_inputs inputs = {.bytes = bytes,
                                              .length = length,
                                              .limit = opening->args->limit,
                                              .tokenizer = opening->args->tokenizer,
                                              .options = &opening->options};
    TRY(squad_cache_key_of(&inputs, &key, error));
    if (early) {
        TRY(read_questions(opening, bytes, length, error));
    }
    char *file = squad_cache_path(opening->args->config->cache_dir, opening->args->path, &key);
    enum berth_status status = BERTH_OK;
    if (file == NULL) {
        return path_no_memory(error);
    }
    if (read_from_cache(opening, &key, file)) {
        goto done;
    }
    if (!early) {
        TRY_DONE(read_questions(opening, bytes, length, error));
    }
    TRY_DONE(build(opening, error));
    if (!opening->args->config->dry_run) {
        put_into_cache(opening, &key, file);
    }
done:
    memory_free(file);
    return status;
}

static enum berth_status open_input(const struct opening *opening, struct berth_error *error) {
    const struct berth_config *config = opening->args->config;
    if (config->cache_dir == NULL || config->skip_cache) {
        TRY(squad_read(opening->args->path, opening->args->limit, &opening->input->dataset, error));
        TRY(check_answers(opening, error));
        return build(opening, error);
    }
    char *bytes;
    size_t length;
    TRY(file_read(opening->args->path, SQUAD_FILE_LIMIT, &bytes, &length, error));
    enum berth_status status = open_with_cache(opening, bytes, length, error);
    memory_free(bytes);
    return status;
}

enum berth_status squad_input_open(struct squad_input *input, const struct squad_input_args *args,
                                   struct berth_error *error) {
    *input = (struct squad_input){0};
    double begin = clock_now();
    struct opening opening = {.input = input, .args = args};
    TRY(squad_input_feature_options(args->config, &opening.options, error));
    opening.options.training = args->training;
    opening.options.threads = machine_threads(args->config);
    enum berth_status status = open_input(&opening, error);
    if (status != BERTH_OK) {
        squad_input_done(input);
        return status;
    }
    log_note(args->log, "%s: %" PRId64 " questions, %zu features, %zu tokens in %.2f s", args->path,
             input->examples, input->features.count, input->features.token_count,
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
