// SPDX-License-Identifier: Apache-2.0
// The losses of embeddings as rows: the examples each takes and the operation that computes it.
// Used when training settles its settings and when a batch is computed. Leaves out the formulas
// (device/device.h). Looked up by embed.c; the device computes what a row names. embedding_loss
// `auto` is the first row that takes the examples, so a new row is the last one, or it changes what
// `auto` means.
#include "task/embed_losses.h"

#include "core/number.h"
#include "core/text_util.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct embedding_loss losses[] = {
    {.name = "cosine",
     .examples = "pairs with a score",
     .least = 2,
     .most = 2,
     .scores = SCORES_COSINE,
     .similarity = SIMILARITY_COSINE,
     .is_of_cosines = 1},
    {.name = "cosent",
     .examples = "pairs with a score",
     .least = 2,
     .most = 2,
     .scores = SCORES_ORDER,
     .similarity = SIMILARITY_ORDER,
     .is_of_cosines = 1,
     .has_groups = 1},
    {.name = "triplet",
     .examples = "triplets without scores",
     .least = 3,
     .most = 3,
     .similarity = SIMILARITY_TRIPLET_EUCLIDEAN},
    {.name = "negatives",
     .examples = "pairs, or pairs with negatives, without scores",
     .least = 2,
     .most = TEXT_EXAMPLE_MAX,
     .loss = BERT_NEGATIVES,
     .is_of_cosines = 1,
     .has_groups = 1},
    {.name = "margin_mse",
     .examples = "pairs with negatives, and a margin for each negative or a score for each text "
                 "but the first",
     .least = 3,
     .most = TEXT_EXAMPLE_MAX,
     .scores = SCORES_MARGINS,
     .similarity = SIMILARITY_MARGINS},
    {.name = "mse",
     .examples = "texts with a vector",
     .least = 1,
     .most = TEXT_EXAMPLE_MAX,
     .scores = SCORES_VECTORS,
     .similarity = SIMILARITY_VECTORS}};

enum { LOSSES = sizeof losses / sizeof *losses };

static int has_right_scores(const struct embedding_loss *loss, const struct text_examples *examples,
                            int64_t columns) {
    const size_t texts = examples->texts, scores = examples->scores, size = (size_t)columns;
    switch (loss->scores) {
    case SCORES_NONE:
        return scores == 0;
    case SCORES_MARGINS:
        return scores == texts - 2 || scores == texts - 1;
    case SCORES_VECTORS:
        return scores == size || scores == texts * size;
    default:
        return scores == 1;
    }
}

static int takes(const struct embedding_loss *loss, const struct text_examples *examples,
                 int has_teacher, int64_t columns) {
    const int is_taught = loss->scores == SCORES_MARGINS || loss->scores == SCORES_VECTORS;
    return examples->texts >= loss->least && examples->texts <= loss->most &&
           (has_teacher ? is_taught && examples->scores == 0
                        : has_right_scores(loss, examples, columns));
}

// The loss that `auto` is: the first one for such examples.
static const struct embedding_loss *usual_loss(const struct text_examples *examples,
                                               int has_teacher, int64_t columns) {
    for (size_t i = 0; i < LOSSES; i++) {
        if (takes(&losses[i], examples, has_teacher, columns)) {
            return &losses[i];
        }
    }
    return NULL;
}

static const struct embedding_loss *find_loss(const char *name) {
    for (size_t i = 0; i < LOSSES; i++) {
        if (strcmp(losses[i].name, name) == 0) {
            return &losses[i];
        }
    }
    return NULL;
}

static enum berth_status refuse(const char *name, const char *expected,
                                const struct text_examples *examples, int has_teacher,
                                int64_t columns, struct berth_error *error) {
    char found[128], size[64] = "";
    // The examples of the file in words: "pairs with a score".
    static const char *const kinds[] = {"single texts", "pairs", "triplets"};
    char texts[48], scores[48] = "without scores";
    snprintf(texts, sizeof texts, "%zu texts", examples->texts);
    if (examples->scores == 1) {
        strcpy(scores, "with scores");
    } else if (examples->scores > 1) {
        snprintf(scores, sizeof scores, "with %zu scores each", examples->scores);
    }
    snprintf(found, sizeof found, "%s %s",
             examples->texts <= 3 ? kinds[examples->texts - 1] : texts, scores);
    if (examples->scores > 1) {
        snprintf(size, sizeof size, " (a vector of this model has %lld numbers)",
                 (long long)columns);
    }
    return error_set(error, BERTH_CONFIG, "embedding_loss %s%s: expected %s, found %s in %s%s",
                     name, has_teacher ? " with teacher_model" : "", expected, found,
                     examples->table.name, size);
}

static int64_t group_of(const struct settings *config, int64_t chosen) {
    return chosen > 0 ? chosen
           : config->engine.per_device_train_batch_size > 0
               ? config->engine.per_device_train_batch_size
               : config->engine.train_batch_size;
}

// --- Matryoshka ---------------------------------------------------------------------------------

// The numbers of "A,B,...".
static enum berth_status read_numbers(const char *name, const char *text, double *numbers,
                                      int64_t *count, struct berth_error *error) {
    char number[NUMBER_TEXT_SIZE * 2];
    *count = 0;
    const char *at = text;
    do {
        const size_t length = strcspn(at, ",");
        snprintf(number, sizeof number, "%.*s", (int)length, at);
        if (*count == BERT_DIMENSIONS_MAX || length >= sizeof number ||
            !number_parse_real(number, &numbers[*count])) {
            return error_set(error, BERTH_USAGE,
                             "%s: expected at most %d numbers A,B,..., found \"%s\"", name,
                             BERT_DIMENSIONS_MAX, text);
        }
        ++*count;
        at += length;
    } while (*at++ == ',');
    return BERTH_OK;
}

static enum berth_status settle_dimensions(const struct settings *config, struct bert_config *shape,
                                           struct berth_error *error) {
    const char *dimensions = config->task.matryoshka_dims, *given = config->task.matryoshka_weights;
    struct bert_embedding *embedding = &shape->embedding;
    double numbers[BERT_DIMENSIONS_MAX], weights[BERT_DIMENSIONS_MAX];
    int64_t weight_count = 0;
    embedding->dimension_count = 0;
    if (dimensions == NULL) {
        return BERTH_OK;
    }
    TRY(read_numbers("matryoshka_dims", dimensions, numbers, &embedding->dimension_count, error));
    TRY(given != NULL ? read_numbers("matryoshka_weights", given, weights, &weight_count, error)
                      : BERTH_OK);
    if (given != NULL && weight_count != embedding->dimension_count) {
        return error_set(error, BERTH_USAGE,
                         "matryoshka_weights: expected a weight for each of %lld dimensions, found "
                         "\"%s\"",
                         (long long)embedding->dimension_count, given);
    }
    for (int64_t i = 0; i < embedding->dimension_count; i++) {
        embedding->dimensions[i] = (int64_t)numbers[i];
        embedding->dimension_weights[i] = given != NULL ? weights[i] : 1;
        if ((double)embedding->dimensions[i] != numbers[i]) {
            return error_set(error, BERTH_USAGE,
                             "matryoshka_dims: expected whole numbers, found \"%s\"", dimensions);
        }
        TRY(error_outside(error, "matryoshka_dims", 1, shape->hidden_size,
                          embedding->dimensions[i]));
        if (!(embedding->dimension_weights[i] > 0)) {
            return error_set(error, BERTH_USAGE,
                             "matryoshka_weights: expected numbers above 0, found \"%s\"", given);
        }
    }
    // Larger dimensions come first, as in sentence-transformers, each with its weight.
    for (int64_t i = 1; i < embedding->dimension_count; i++) {
        for (int64_t k = i; k > 0 && embedding->dimensions[k - 1] < embedding->dimensions[k]; k--) {
            const int64_t dimension = embedding->dimensions[k];
            const double weight = embedding->dimension_weights[k];
            embedding->dimensions[k] = embedding->dimensions[k - 1];
            embedding->dimension_weights[k] = embedding->dimension_weights[k - 1];
            embedding->dimensions[k - 1] = dimension;
            embedding->dimension_weights[k - 1] = weight;
        }
    }
    return BERTH_OK;
}

// ------------------------------------------------------------------------------------------------

enum berth_status embedding_loss_settle(const struct text_examples *examples, int has_teacher,
                                        struct settings *config, struct bert_config *shape,
                                        const struct embedding_loss **loss,
                                        struct berth_error *error) {
    struct bert_embedding *embedding = &shape->embedding;
    struct bert_objective *objective = &embedding->objectives[embedding->objective_count];
    const int is_auto = strcmp(config->task.embedding_loss, "auto") == 0;
    *loss = is_auto ? usual_loss(examples, has_teacher, shape->hidden_size)
                    : find_loss(config->task.embedding_loss);
    if (*loss == NULL) {
        return refuse("auto", "texts, and scores that a loss is for", examples, has_teacher,
                      shape->hidden_size, error);
    }
    if (!takes(*loss, examples, has_teacher, shape->hidden_size)) {
        return refuse((*loss)->name,
                      has_teacher ? "examples without scores, and embedding_loss mse or margin_mse"
                                  : (*loss)->examples,
                      examples, has_teacher, shape->hidden_size, error);
    }
    // A score beyond -1 to 1 is refused: no cosine can reach it, so training would only stretch all
    // vectors.
    if ((*loss)->scores == SCORES_COSINE) {
        for (size_t i = 0; i < examples->count; i++) {
            const struct text_example *example = &examples->items[i];
            if (fabs(example->scores[0]) > 1) {
                return error_set(
                    error, BERTH_BAD_DATA,
                    "%s: line %zu, column \"%s\": score %g is not a cosine: expected -1 "
                    "to 1; divide the scores by the largest, or use embedding_loss cosent",
                    examples->table.name, example->line, examples->score_column,
                    example->scores[0]);
            }
        }
    }
    config->task.embedding_loss = (*loss)->name;
    *objective = (struct bert_objective){.loss = (*loss)->loss,
                                         .similarity = (*loss)->similarity,
                                         .is_of_cosines = (*loss)->is_of_cosines,
                                         .texts = (int64_t)examples->texts,
                                         .group = 1,
                                         .margin = config->task.triplet_margin,
                                         .scale = config->task.similarity_scale};
    if (objective->similarity == SIMILARITY_TRIPLET_EUCLIDEAN &&
        strcmp(config->task.triplet_distance, "cosine") == 0) {
        objective->similarity = SIMILARITY_TRIPLET_COSINE;
        objective->is_of_cosines = 1;
    }
    if (objective->loss == BERT_NEGATIVES) {
        objective->group = config->task.negatives_batch =
            group_of(config, config->task.negatives_batch);
        objective->is_symmetric = config->task.symmetric_negatives;
    } else if ((*loss)->has_groups) {
        objective->group = group_of(config, 0);
    }
    embedding->objective_count++;
    return settle_dimensions(config, shape, error);
}
