// SPDX-License-Identifier: Apache-2.0
// Counts are integers below 2^53, so accuracy, F1 and Matthews' correlation are the same doubles as
// scikit-learn's. Correlations are summed in long double; SciPy sums in double and differs in the
// last bits. The tasks classify and embed call it with counts and pairs of numbers.
#include "metrics/glue_metrics.h"

#include "core/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double glue_accuracy(const int32_t *predictions, const int32_t *labels, size_t count) {
    size_t equal = 0;
    for (size_t i = 0; i < count; i++) {
        equal += predictions[i] == labels[i];
    }
    return (double)equal / (double)count;
}

double glue_f1(const int32_t *predictions, const int32_t *labels, size_t count, int32_t positive) {
    size_t both = 0, either = 0;
    for (size_t i = 0; i < count; i++) {
        both += predictions[i] == positive && labels[i] == positive;
        either += (size_t)(predictions[i] == positive) + (size_t)(labels[i] == positive);
    }
    return either > 0 ? 2.0 * (double)both / (double)either : 0.0;
}

enum berth_status glue_matthews(const int32_t *predictions, const int32_t *labels, size_t count,
                                size_t classes, double *result, struct berth_error *error) {
    double *predicted = memory_array_zeroed(classes, 2 * sizeof *predicted);
    if (predicted == NULL) {
        return error_no_memory(error, classes * 2 * sizeof *predicted, "a confusion matrix");
    }
    double *labelled = predicted + classes;
    double samples = (double)count, correct = 0;
    for (size_t i = 0; i < count; i++) {
        predicted[predictions[i]]++;
        labelled[labels[i]]++;
        correct += predictions[i] == labels[i];
    }
    double mixed = 0, predicted_squares = 0, labelled_squares = 0;
    for (size_t k = 0; k < classes; k++) {
        mixed += labelled[k] * predicted[k];
        predicted_squares += predicted[k] * predicted[k];
        labelled_squares += labelled[k] * labelled[k];
    }
    memory_free(predicted);
    double product =
        (samples * samples - predicted_squares) * (samples * samples - labelled_squares);
    *result = product == 0 ? 0.0 : (correct * samples - mixed) / sqrt(product);
    return BERTH_OK;
}

// --- correlations -------------------------------------------------------------------------------

static long double mean(const double *x, size_t count) {
    long double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += x[i];
    }
    return sum / (long double)count;
}

static int is_constant(const double *x, size_t count) {
    for (size_t i = 1; i < count; i++) {
        if (x[i] != x[0]) {
            return 0;
        }
    }
    return 1;
}

double glue_pearson(const double *x, const double *y, size_t count) {
    if (count < 2 || is_constant(x, count) || is_constant(y, count)) {
        return NAN;
    }
    long double mean_x = mean(x, count), mean_y = mean(y, count);
    long double xy = 0, xx = 0, yy = 0;
    for (size_t i = 0; i < count; i++) {
        long double dx = x[i] - mean_x, dy = y[i] - mean_y;
        xy += dx * dy;
        xx += dx * dx;
        yy += dy * dy;
    }
    long double r = xy / (sqrtl(xx) * sqrtl(yy));
    return isnan(r) ? NAN : (double)fmaxl(-1, fminl(1, r));
}

struct entry {
    double value;
    size_t index;
};

static int by_value(const void *a, const void *b) {
    const struct entry *x = a, *y = b;
    return (x->value > y->value) - (x->value < y->value);
}

static void rank(const double *x, size_t count, struct entry *entries, double *ranks) {
    for (size_t i = 0; i < count; i++) {
        entries[i] = (struct entry){x[i], i};
    }
    qsort(entries, count, sizeof *entries, by_value);
    for (size_t begin = 0, end; begin < count; begin = end) {
        for (end = begin + 1; end < count && entries[end].value == entries[begin].value; end++) {
        }
        for (size_t i = begin; i < end; i++) {
            ranks[entries[i].index] = ((double)begin + 1 + (double)end) / 2;
        }
    }
}

static int has_nan(const double *x, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (isnan(x[i])) {
            return 1;
        }
    }
    return 0;
}

enum berth_status glue_spearman(const double *x, const double *y, size_t count, double *result,
                                struct berth_error *error) {
    *result = NAN;
    if (has_nan(x, count) || has_nan(y, count)) {
        return BERTH_OK;
    }
    struct entry *entries = memory_array(count, sizeof *entries);
    double *ranks = memory_array(count, 2 * sizeof *ranks);
    enum berth_status status = BERTH_OK;
    if (entries == NULL || ranks == NULL) {
        status = error_no_memory(error, count * 4 * sizeof *ranks, "the ranks of predictions");
    } else {
        rank(x, count, entries, ranks);
        rank(y, count, entries, ranks + count);
        *result = glue_pearson(ranks, ranks + count, count);
    }
    memory_free(entries);
    memory_free(ranks);
    return status;
}

size_t glue_spearman_bytes(size_t count) {
    return count * (2 * sizeof(struct entry) + 2 * sizeof(double)); // sorting copies the entries
}

double glue_mse(const double *x, const double *y, size_t count) {
    long double sum = 0;
    for (size_t i = 0; i < count; i++) {
        long double difference = (long double)x[i] - y[i];
        sum += difference * difference;
    }
    return (double)(sum / (long double)count);
}

// --- all scores of a metric ---------------------------------------------------------------------

static void add(struct glue_scores *scores, const char *name, double value) {
    scores->items[scores->count++] = (struct glue_score){name, value};
}

static void add_combined(struct glue_scores *scores) {
    add(scores, "combined_score", (scores->items[0].value + scores->items[1].value) / 2);
}

static enum berth_status score_accuracy(const struct glue_outcome *outcome,
                                        struct glue_scores *scores, struct berth_error *error) {
    add(scores, "accuracy", glue_accuracy(outcome->predictions, outcome->labels, outcome->count));
    return BERTH_OK;
}

static enum berth_status score_accuracy_f1(const struct glue_outcome *outcome,
                                           struct glue_scores *scores, struct berth_error *error) {
    TRY(score_accuracy(outcome, scores, error));
    add(scores, "f1",
        glue_f1(outcome->predictions, outcome->labels, outcome->count, outcome->positive));
    add_combined(scores);
    return BERTH_OK;
}

static enum berth_status score_matthews(const struct glue_outcome *outcome,
                                        struct glue_scores *scores, struct berth_error *error) {
    double value;
    TRY(glue_matthews(outcome->predictions, outcome->labels, outcome->count, outcome->class_count,
                      &value, error));
    add(scores, "matthews_correlation", value);
    return BERTH_OK;
}

static enum berth_status score_correlation(const struct glue_outcome *outcome,
                                           struct glue_scores *scores, struct berth_error *error) {
    double value;
    TRY(glue_spearman(outcome->predicted_values, outcome->values, outcome->count, &value, error));
    add(scores, "pearson",
        glue_pearson(outcome->predicted_values, outcome->values, outcome->count));
    add(scores, "spearmanr", value);
    add_combined(scores);
    return BERTH_OK;
}

static enum berth_status score_mse(const struct glue_outcome *outcome, struct glue_scores *scores,
                                   struct berth_error *error) {
    add(scores, "mse", glue_mse(outcome->predicted_values, outcome->values, outcome->count));
    return BERTH_OK;
}

static const struct {
    enum berth_status (*score)(const struct glue_outcome *, struct glue_scores *,
                               struct berth_error *);
    int real;
} metrics[] = {
    [GLUE_ACCURACY] = {score_accuracy, 0}, [GLUE_ACCURACY_F1] = {score_accuracy_f1, 0},
    [GLUE_MATTHEWS] = {score_matthews, 0}, [GLUE_CORRELATION] = {score_correlation, 1},
    [GLUE_MSE] = {score_mse, 1},
};

enum berth_status glue_score(enum glue_metric metric, const struct glue_outcome *outcome,
                             struct glue_scores *scores, struct berth_error *error) {
    *scores = (struct glue_scores){0};
    int given = metrics[metric].real ? outcome->predicted_values != NULL && outcome->values != NULL
                                     : outcome->predictions != NULL && outcome->labels != NULL;
    if (outcome->count == 0 || !given) {
        return error_set(error, BERTH_USAGE,
                         "nothing to score: expected predictions and labels "
                         "that are %s",
                         metrics[metric].real ? "numbers" : "classes");
    }
    if (!metrics[metric].real) {
        for (size_t i = 0; i < outcome->count; i++) {
            int32_t prediction = outcome->predictions[i], label = outcome->labels[i];
            if (prediction < 0 || (size_t)prediction >= outcome->class_count || label < 0 ||
                (size_t)label >= outcome->class_count) {
                return error_set(error, BERTH_USAGE,
                                 "example %zu: the prediction is class %d and the label class %d; "
                                 "expected 0 to %zu (is the data unlabelled?)",
                                 i, prediction, label, outcome->class_count - 1);
            }
        }
    }
    return metrics[metric].score(outcome, scores, error);
}
