// SPDX-License-Identifier: Apache-2.0
// Real numbers are printed like Python's floats, with the fewest digits that read back the same;
// probabilities like NumPy's float32, as in Google's files. The tasks call it at the end of an
// evaluation or a prediction, with scores that the other files here computed.
#include "metrics/results.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/portable_math.h"
#include "format/json/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// --- fields -------------------------------------------------------------------------------------

static int by_key(const void *a, const void *b) {
    const struct berth_field *const *x = a, *const *y = b;
    return strcmp((*x)->key, (*y)->key);
}

enum berth_status results_write_eval_text(const char *folder, const struct berth_field *fields,
                                          size_t count, struct berth_error *error) {
    struct file_writer writer;
    // Pointers to the fields, sorted by key.
    const struct berth_field **sorted = memory_array(count, sizeof *sorted);
    for (size_t i = 0; sorted != NULL && i < count; i++) {
        sorted[i] = &fields[i];
    }
    if (sorted != NULL) {
        qsort(sorted, count, sizeof *sorted, by_key);
    }
    if (sorted == NULL) {
        return error_no_memory(error, count * sizeof *sorted, "results");
    }
    enum berth_status status = file_writer_open_in(&writer, folder, "eval_results.txt", error);
    if (status == BERTH_OK) {
        for (size_t i = 0; i < count; i++) {
            char real[NUMBER_TEXT_SIZE];
            number_print_python(real, sizeof real, sorted[i]->real);
            if (sorted[i]->type == BERTH_INTEGER) {
                (void)file_writer_printf(&writer, error, "%s = %" PRId64 "\n", sorted[i]->key,
                                         sorted[i]->integer);
            } else {
                (void)file_writer_printf(&writer, error, "%s = %s\n", sorted[i]->key,
                                         sorted[i]->type == BERTH_REAL ? real : sorted[i]->text);
            }
        }
        status = file_writer_commit(&writer, error);
    }
    memory_free(sorted);
    return status;
}

// --- JSON ---------------------------------------------------------------------------------------

json *results_value(const struct berth_field *field) {
    return field->type == BERTH_INTEGER ? json_new_integer(field->integer)
           : field->type == BERTH_REAL  ? json_new_real(field->real)
           : field->text != NULL        ? json_new_text(field->text)
                                        : json_new_null();
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// A copy with sorted keys; NULL: out of memory.
static json *sort_object(const json *object) {
    size_t count = 0;
    const char **keys = memory_array(json_length(object), sizeof *keys);
    json *sorted = json_new_object();
    struct json_walk walk = {.object = object};
    while (keys != NULL && json_walk_next(&walk)) {
        keys[count++] = walk.key;
    }
    if (keys != NULL) {
        qsort(keys, count, sizeof *keys, by_text);
    }
    int failed = keys == NULL;
    for (size_t i = 0; i < count; i++) {
        failed |= json_set(sorted, keys[i], json_copy_deep(json_member(object, keys[i])));
    }
    memory_free(keys);
    return json_unless_failed(sorted, failed);
}

// `failed`: the object is incomplete, because memory ran out.
static enum berth_status write_object(const char *path, const json *object, int failed,
                                      struct berth_error *error) {
    json *sorted = failed ? NULL : sort_object(object);
    char *text = sorted != NULL ? json_write(sorted, JSON_INDENT_4_ASCII) : NULL;
    enum berth_status status = text == NULL ? error_no_memory(error, 0, path)
                                            : file_write(path, text, strlen(text), error);
    json_free(sorted);
    memory_free(text);
    return status;
}

static enum berth_status read_object(const char *path, json **object, struct berth_error *error) {
    if (!file_exists(path)) {
        *object = json_new_object();
        return *object != NULL ? BERTH_OK : error_no_memory(error, 0, path);
    }
    TRY(json_read_python_file(path, object, error)); // another program's results may be infinite
    if (!json_is_object_value(*object)) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: expected a JSON object of results; move the file away", path);
    }
    return BERTH_OK;
}

// FOLDER/SPLIT_results.json.
static struct path results_path(const char *folder, const char *split) {
    return path_in(folder, path_format("%.40s_results.json", split).text);
}

// `contents`: to be written to the file of the split; NULL: the file stays as it is.
static enum berth_status write_split(const char *folder, const char *split, const json *contents,
                                     struct berth_error *error) {
    const struct path path = results_path(folder, split), all_path = results_path(folder, "all");
    json *all = NULL, *found = NULL;
    enum berth_status status;
    TRY_DONE(read_object(all_path.text, &all, error));
    TRY_DONE(contents != NULL ? write_object(path.text, contents, 0, error)
                              : read_object(path.text, &found, error));
    struct json_walk walk = {.object = contents != NULL ? contents : found};
    int failed = 0;
    while (json_walk_next(&walk)) {
        failed |= json_set(all, walk.key, json_copy_deep(walk.value));
    }
    status = write_object(all_path.text, all, failed, error);
done:
    json_free(found);
    json_free(all);
    return status;
}

enum berth_status results_write_json(const char *folder, const char *split,
                                     const struct berth_field *fields, size_t count,
                                     struct berth_error *error) {
    json *contents = json_new_object();
    int failed = contents == NULL;
    for (size_t i = 0; i < count && !failed; i++) {
        failed = json_set(contents, fields[i].key, results_value(&fields[i])) != 0;
    }
    enum berth_status status = failed ? error_no_memory(error, count * sizeof *fields, "results")
                                      : write_split(folder, split, contents, error);
    json_free(contents);
    return status;
}

enum berth_status results_merge_json(const char *folder, const char *split,
                                     struct berth_error *error) {
    return write_split(folder, split, NULL, error);
}

const char *const results_of_model[] = {"train_results.json", "eval_results.json",
                                        "eval_results.txt", "all_results.json", NULL};

enum berth_status results_remove(const char *folder, struct berth_error *error) {
    for (const char *const *name = results_of_model; *name != NULL; name++) {
        TRY(file_remove(path_in(folder, *name).text, error));
    }
    return BERTH_OK;
}

// --- predictions --------------------------------------------------------------------------------

int32_t results_best_class(const float *logits, size_t classes) {
    size_t best = 0;
    for (size_t i = 1; i < classes; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return (int32_t)best;
}

int32_t results_predicted_class(const struct results_predictions *predictions, size_t index) {
    return results_best_class(predictions->logits + index * predictions->width, predictions->width);
}

// Prints like NumPy's str() of a float32: the fewest digits that read back the same, in Python's
// notation.
static void print_single(char text[NUMBER_TEXT_SIZE], float value) {
    double back = value;
    for (int digits = 1; digits <= 9 && isfinite(value); digits++) {
        number_format(text, NUMBER_TEXT_SIZE, "%.*e", digits - 1, (double)value);
        if (number_parse_real(text, &back) && (float)back == value) {
            break;
        }
    }
    number_print_python(text, NUMBER_TEXT_SIZE, back);
}

static void identity(const float *logits, size_t width, float *scores) {
    memmove(scores, logits, width * sizeof *scores);
}

static void sigmoid(const float *logits, size_t width, float *scores) {
    for (size_t i = 0; i < width; i++) {
        scores[i] = (float)(1 / (1 + math_exp(-(double)logits[i])));
    }
}

static void softmax(const float *logits, size_t width, float *scores) {
    float largest = logits[0];
    double sum = 0;
    for (size_t i = 1; i < width; i++) {
        largest = fmaxf(largest, logits[i]);
    }
    for (size_t i = 0; i < width; i++) {
        sum += math_exp((double)logits[i] - largest);
    }
    for (size_t i = 0; i < width; i++) {
        scores[i] = (float)(math_exp((double)logits[i] - largest) / sum);
    }
}

void results_scores(enum results_function function, const float *logits, size_t width,
                    float *scores) {
    static void (*const functions[RESULTS_FUNCTIONS])(const float *, size_t, float *) = {
        [RESULTS_LOGITS] = identity, [RESULTS_SIGMOID] = sigmoid, [RESULTS_SOFTMAX] = softmax};
    functions[function](logits, width, scores);
}

static enum results_function default_function(const struct results_predictions *predictions) {
    return predictions->labels == NULL ? RESULTS_LOGITS
           : predictions->multi_label  ? RESULTS_SIGMOID
                                       : RESULTS_SOFTMAX;
}

static enum berth_status put_probabilities(struct file_writer *writer,
                                           const struct results_predictions *predictions,
                                           struct berth_error *error) {
    const size_t width = predictions->width;
    float *scores = memory_array(width, sizeof *scores);
    if (scores == NULL) {
        return error_no_memory(error, width * sizeof *scores, "the probabilities");
    }
    for (size_t i = 0; i < predictions->count; i++) {
        results_scores(default_function(predictions), predictions->logits + i * width, width,
                       scores);
        for (size_t k = 0; k < width; k++) {
            char text[NUMBER_TEXT_SIZE];
            print_single(text, scores[k]);
            (void)file_writer_printf(writer, error, "%s%c", text, k + 1 < width ? '\t' : '\n');
        }
    }
    memory_free(scores);
    return BERTH_OK;
}

enum berth_status results_write_predictions(const char *folder, const struct results_names *names,
                                            const struct results_predictions *predictions,
                                            struct berth_error *error) {
    struct file_writer writers[2];
    TRY(file_writer_open_in(&writers[0], folder, names->probabilities, error));
    enum berth_status status = file_writer_open_in(&writers[1], folder, names->predictions, error);
    if (status == BERTH_OK) {
        status = put_probabilities(&writers[0], predictions, error);
    }
    if (status == BERTH_OK) {
        (void)file_writer_printf(&writers[1], error, "index\tprediction\n");
        for (size_t i = 0; i < predictions->count; i++) {
            if (predictions->multi_label) {
                const float *logits = predictions->logits + i * predictions->width;
                const char *before = "";
                (void)file_writer_printf(&writers[1], error, "%zu\t", i);
                for (size_t k = 0; k < predictions->width; k++) {
                    if (logits[k] > 0) {
                        (void)file_writer_printf(&writers[1], error, "%s%s", before,
                                                 predictions->labels[k]);
                        before = ",";
                    }
                }
                (void)file_writer_printf(&writers[1], error, "\n");
            } else if (predictions->labels != NULL) {
                (void)file_writer_printf(
                    &writers[1], error, "%zu\t%s\n", i,
                    predictions->labels[results_predicted_class(predictions, i)]);
            } else {
                (void)file_writer_printf(&writers[1], error, "%zu\t%.3f\n", i,
                                         (double)predictions->logits[i]);
            }
        }
        return file_writer_commit_all(writers, 2, error);
    }
    file_writer_abort(&writers[0]);
    file_writer_abort(&writers[1]);
    return status;
}
