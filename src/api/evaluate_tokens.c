// SPDX-License-Identifier: Apache-2.0
// Scores a file of tags, the predictions.txt that `berth predict tokens` writes, beside the data
// set with the right ones. No model is opened: this is the verb `berth evaluate tokens`, and the
// scores are those of metrics/entities.h.
#include "api/jobs.h"
#include "core/encoding.h"
#include "core/file.h"
#include "core/memory.h"
#include "data/tagging/tagged.h"
#include "format/json/json.h"
#include "metrics/entities.h"

#include <string.h>

#define FILE_LIMIT ((size_t)4 << 30)

struct scoring {
    const char *path; // of the predictions
    const struct tagged_dataset *dataset;
    char *bytes, *text; // the file, and the text in it
    size_t length;
    const char **names; // [2 * words]: the reference's tags, then the predicted ones
};

// Cuts a line into the tags of a sentence.
static enum berth_status read_line(const struct scoring *scoring, char *line, size_t sentence,
                                   struct berth_error *error) {
    const struct tagged_dataset *dataset = scoring->dataset;
    const size_t first = dataset->starts[sentence];
    const size_t wanted = dataset->starts[sentence + 1] - first;
    const char **to = scoring->names + dataset->word_count + first;
    size_t found = 0;
    for (char *at = line + strspn(line, " \t\r"); *at != '\0';) {
        char *end = at + strcspn(at, " \t\r"), *next = end + strspn(end, " \t\r");
        if (found < wanted) {
            to[found] = at;
        }
        *end = '\0';
        at = next;
        found++;
    }
    return found == wanted ? BERTH_OK
                           : error_line(error, BERTH_BAD_DATA, scoring->path, sentence + 1,
                                        "%zu tags, but the sentence in line %zu of %s "
                                        "has %zu words",
                                        found, dataset->lines[sentence], dataset->name, wanted);
}

static enum berth_status read_lines(const struct scoring *scoring, struct berth_error *error) {
    const size_t sentences = scoring->dataset->count;
    char *at = scoring->text, *end = scoring->text + scoring->length;
    size_t line = 0;
    for (; at < end; line++) {
        char *newline = memchr(at, '\n', (size_t)(end - at));
        char *stop = newline != NULL ? newline : end;
        *stop = '\0';
        if (line < sentences) {
            TRY(read_line(scoring, at, line, error));
        }
        at = stop + 1;
    }
    return line == sentences
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA,
                           "%s: %zu lines, but %s has %zu sentences; expected a line of tags for "
                           "each",
                           scoring->path, line, scoring->dataset->name, sentences);
}

static int put_scores(json *object, const struct entity_score *score) {
    return json_set(object, "precision", json_new_real(score->precision)) |
           json_set(object, "recall", json_new_real(score->recall)) |
           json_set(object, "f1", json_new_real(score->f1));
}

static char *print(const struct entity_scores *scores) {
    json *object = json_new_object(), *types = json_new_object();
    int failed = put_scores(object, &scores->all);
    failed |= json_set(object, "accuracy", json_new_real(scores->accuracy));
    for (size_t i = 0; i < scores->type_count; i++) {
        json *type = json_new_object();
        failed |= put_scores(type, &scores->types[i]);
        failed |= json_set(type, "number", json_new_integer((int64_t)scores->types[i].reference));
        failed |= json_set(types, scores->types[i].type, type);
    }
    failed |= json_set(object, "types", types);
    char *text = failed == 0 ? json_write(object, JSON_COMPACT) : NULL;
    json_free(object);
    return text;
}

static enum berth_status score(struct scoring *scoring, const char *scheme, char **text,
                               struct berth_error *error) {
    const struct tagged_dataset *dataset = scoring->dataset;
    const size_t words = dataset->word_count;
    struct entity_scores scores;
    TRY(file_read(scoring->path, FILE_LIMIT, &scoring->bytes, &scoring->length, error));
    TRY(encoding_read_text(scoring->path, &scoring->bytes, &scoring->text, &scoring->length,
                           error));
    scoring->names = memory_array(2 * words, sizeof *scoring->names);
    if (scoring->names == NULL) {
        return error_no_memory(error, 2 * words * sizeof *scoring->names, "the tags");
    }
    for (size_t i = 0; i < words; i++) {
        scoring->names[i] = dataset->tag_names[dataset->tags[i]];
    }
    TRY(read_lines(scoring, error));
    const struct entity_tags tags = {scoring->names, scoring->names + words, dataset->starts,
                                     dataset->count};
    enum berth_status status = entity_scores(&tags, scheme, &scores, error);
    *text = status == BERTH_OK ? print(&scores) : NULL;
    entity_scores_done(&scores);
    return status != BERTH_OK || *text != NULL ? status : error_no_memory(error, 0, "the scores");
}

enum berth_status berth_evaluate_tokens(const char *dataset_path, const char *predictions_path,
                                        const struct berth_tag_scoring *scoring, char **text,
                                        struct berth_error *error) {
    *text = NULL;
    const struct tagged_settings settings = {.word_column = scoring->text_column,
                                             .tag_column = scoring->label_column};
    struct tagged_dataset dataset;
    TRY(tagged_read(dataset_path, &settings, &dataset, error));
    struct scoring own = {.path = predictions_path, .dataset = &dataset};
    enum berth_status status =
        dataset.tags != NULL
            ? score(&own, scoring->scheme, text, error)
            : error_set(error, BERTH_USAGE, "label_column 0: a score needs the data set's tags");
    memory_free(own.bytes);
    memory_free((void *)own.names);
    tagged_done(&dataset);
    return status;
}
