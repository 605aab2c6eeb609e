// SPDX-License-Identifier: Apache-2.0
// Exact match and F1 of answers and of data sets, and the search for the best threshold, by the
// rules of the official scripts.
//
//   normal form: lower case, without ASCII punctuation, the words a, an, the made blanks, split at
//                white space into tokens
//   exact match: the same tokens in the same order
//   F1:          2 p r / (p + r) of the bags of tokens; in v2.0, if one text has no token, 1 if
//                neither has any, otherwise 0
//
// Python's text rules apply throughout. The task answer scores an evaluation here; squad_evaluate.c
// evaluates files as the scripts do.
#include "metrics/squad_metrics.h"

#include "core/memory.h"
#include "core/utf8.h"
#include "data/squad/white_space.h"
#include "metrics/squad_match.h"
#include "text/python.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct word {
    const uint32_t *characters;
    size_t length;
};

// A normalised text.
struct normal {
    uint32_t *characters;
    struct word *words;
    size_t count;
};

static int is_punctuation(uint32_t c) {
    return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
           (c >= 123 && c <= 126);
}

static size_t remove_punctuation(uint32_t *text, size_t count) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_punctuation(text[i])) {
            text[kept++] = text[i];
        }
    }
    return kept;
}

static int is_article(const uint32_t *word, size_t length) {
    return (length == 1 && word[0] == 'a') || (length == 2 && word[0] == 'a' && word[1] == 'n') ||
           (length == 3 && word[0] == 't' && word[1] == 'h' && word[2] == 'e');
}

// \b(a|an|the)\b matches if and only if a whole run of word characters is an article.
static void blank_articles(uint32_t *text, size_t count) {
    size_t i = 0;
    while (i < count) {
        size_t begin = i;
        while (i < count && python_is_word(text[i])) {
            i++;
        }
        if (is_article(text + begin, i - begin)) {
            for (size_t k = begin; k < i; k++) {
                text[k] = ' ';
            }
        }
        i += i == begin;
    }
}

static size_t split(const uint32_t *text, size_t count, struct word *words) {
    size_t word_count = 0, i = 0;
    while (i < count) {
        if (python_is_space(text[i])) {
            i++;
            continue;
        }
        size_t begin = i;
        while (i < count && !python_is_space(text[i])) {
            i++;
        }
        words[word_count++] = (struct word){text + begin, i - begin};
    }
    return word_count;
}

static void normal_done(struct normal *normal) {
    memory_free(normal->characters);
    memory_free(normal->words);
    *normal = (struct normal){0};
}

static enum berth_status normal_init(struct normal *normal, const char *text,
                                     struct berth_error *error) {
    size_t length = strlen(text);
    uint32_t *raw = memory_array(length + 1, sizeof *raw);
    normal->characters = memory_array(length + 1, 2 * sizeof *normal->characters);
    normal->words = memory_array(length + 1, sizeof *normal->words);
    if (raw == NULL || normal->characters == NULL || normal->words == NULL) {
        memory_free(raw);
        normal_done(normal);
        return error_no_memory(error, length * sizeof *normal->words, "an answer");
    }
    size_t points = 0;
    for (size_t i = 0; i < length;) {
        i += utf8_decode(text + i, length - i, &raw[points++]);
    }
    size_t count = python_lower(raw, points, normal->characters);
    memory_free(raw);
    count = remove_punctuation(normal->characters, count);
    blank_articles(normal->characters, count);
    normal->count = split(normal->characters, count, normal->words);
    return BERTH_OK;
}

static int compare_words(const void *a, const void *b) {
    const struct word *x = a, *y = b;
    size_t shorter = x->length < y->length ? x->length : y->length;
    for (size_t i = 0; i < shorter; i++) {
        if (x->characters[i] != y->characters[i]) {
            return x->characters[i] < y->characters[i] ? -1 : 1;
        }
    }
    return (x->length > y->length) - (x->length < y->length);
}

static int is_equal(const struct normal *a, const struct normal *b) {
    if (a->count != b->count) {
        return 0;
    }
    for (size_t i = 0; i < a->count; i++) {
        if (compare_words(&a->words[i], &b->words[i]) != 0) {
            return 0;
        }
    }
    return 1;
}

static void sort_words(struct normal *normal) {
    if (normal->count > 1) {
        qsort(normal->words, normal->count, sizeof *normal->words, compare_words);
    }
}

static double f1_of(size_t same, size_t predicted, size_t expected, int version_2) {
    if (version_2 && (predicted == 0 || expected == 0)) {
        return predicted == expected ? 1.0 : 0.0;
    }
    if (same == 0) {
        return 0.0;
    }
    double precision = (double)same / (double)predicted;
    double recall = (double)same / (double)expected;
    return 2 * precision * recall / (precision + recall);
}

enum berth_status squad_match(const char *prediction, const char *reference, int version_2,
                              struct squad_match *match, struct berth_error *error) {
    struct normal predicted = {0}, expected = {0};
    enum berth_status status;
    *match = (struct squad_match){0};
    TRY_DONE(normal_init(&predicted, prediction, error));
    TRY_DONE(normal_init(&expected, reference, error));
    match->reference_words = expected.count;
    match->exact = is_equal(&predicted, &expected);
    sort_words(&predicted);
    sort_words(&expected);
    // The number of tokens that two sorted bags share.
    size_t i = 0, k = 0, same = 0;
    while (i < predicted.count && k < expected.count) {
        int order = compare_words(&predicted.words[i], &expected.words[k]);
        same += order == 0;
        i += order <= 0;
        k += order >= 0;
    }
    match->f1 = f1_of(same, predicted.count, expected.count, version_2);
done:
    normal_done(&predicted);
    normal_done(&expected);
    return status;
}

enum berth_status squad_match_example(const struct squad_example *example, const char *prediction,
                                      int version_2, struct squad_match *best,
                                      struct berth_error *error) {
    struct squad_match match;
    size_t used = 0;
    *best = (struct squad_match){0};
    for (size_t i = 0; i < example->answer_count; i++) {
        TRY(squad_match(prediction, example->answers[i].text, version_2, &match, error));
        if (version_2 && match.reference_words == 0) {
            continue;
        }
        used++;
        best->exact = match.exact > best->exact ? match.exact : best->exact;
        best->f1 = match.f1 > best->f1 ? match.f1 : best->f1;
    }
    return version_2 && used == 0 ? squad_match(prediction, "", 1, best, error) : BERTH_OK;
}

static double percent(double sum, size_t total) {
    return total > 0 ? 100.0 * sum / (double)total : 0.0;
}

enum berth_status squad_score_v1(const struct squad_dataset *dataset,
                                 const char *const *predictions, struct squad_score *score,
                                 struct berth_error *error) {
    double exact = 0, f1 = 0;
    for (size_t i = 0; i < dataset->count; i++) {
        struct squad_match best;
        TRY(squad_match_example(&dataset->examples[i], predictions[i], 0, &best, error));
        exact += best.exact;
        f1 += best.f1;
    }
    *score = (struct squad_score){percent(exact, dataset->count), percent(f1, dataset->count)};
    return BERTH_OK;
}

// --- version 2.0 --------------------------------------------------------------------------------

static void add_to_subset(struct squad_subset_score *subset, const struct squad_match *match) {
    subset->exact += match->exact;
    subset->f1 += match->f1;
    subset->total++;
}

static void set_percent(struct squad_subset_score *subset) {
    subset->exact = percent(subset->exact, subset->total);
    subset->f1 = percent(subset->f1, subset->total);
}

static enum berth_status score_matches(const struct squad_dataset *dataset,
                                       const char *const *predictions, struct squad_match *matches,
                                       struct squad_score_v2 *score, struct berth_error *error) {
    for (size_t i = 0; i < dataset->count; i++) {
        const struct squad_example *example = &dataset->examples[i];
        TRY(squad_match_example(example, predictions[i], 1, &matches[i], error));
        add_to_subset(&score->all, &matches[i]);
        add_to_subset(example->answer_count > 0 ? &score->answered : &score->unanswered,
                      &matches[i]);
    }
    set_percent(&score->all);
    set_percent(&score->answered);
    set_percent(&score->unanswered);
    return BERTH_OK;
}

size_t squad_score_v2_bytes(size_t questions) { // sorting copies the odds
    return (questions + 1) * (sizeof(struct squad_match) + 2 * sizeof(struct squad_odds));
}

enum berth_status squad_score_v2(const struct squad_dataset *dataset,
                                 const char *const *predictions, const double *odds,
                                 struct squad_score_v2 *score, struct berth_error *error) {
    size_t count = dataset->count;
    *score = (struct squad_score_v2){
        .best_exact = NAN, .best_exact_threshold = NAN, .best_f1 = NAN, .best_f1_threshold = NAN};
    struct squad_match *matches = memory_array(count + 1, sizeof *matches);
    struct squad_odds *sorted = memory_array(count + 1, sizeof *sorted);
    enum berth_status status;
    if (matches == NULL || sorted == NULL) {
        status = error_no_memory(error, count * sizeof *sorted, "the scores");
        goto done;
    }
    TRY_DONE(score_matches(dataset, predictions, matches, score, error));
    for (size_t i = 0; odds != NULL && i < count; i++) {
        sorted[i] = (struct squad_odds){odds[i], i, i};
    }
    if (odds != NULL) {
        squad_odds_sort(sorted, count);
        double *const best[] = {&score->best_exact, &score->best_f1};
        double *const thresholds[] = {&score->best_exact_threshold, &score->best_f1_threshold};
        for (int is_f1 = 0; is_f1 < 2; is_f1++) {
            struct squad_best found =
                squad_best_threshold(dataset, matches, predictions, sorted, dataset->count, is_f1);
            *best[is_f1] = 100.0 * found.sum / (double)dataset->count;
            *thresholds[is_f1] = found.index == SIZE_MAX ? 0.0 : sorted[found.index].odds;
        }
    }
done:
    memory_free(matches);
    memory_free(sorted);
    return status;
}

// --- the threshold for "no answer" --------------------------------------------------------------

static int by_odds(const void *a, const void *b) {
    const struct squad_odds *x = a, *y = b;
    if (x->odds != y->odds) {
        return x->odds < y->odds ? -1 : 1;
    }
    return (x->order > y->order) - (x->order < y->order);
}

void squad_odds_sort(struct squad_odds *odds, size_t count) {
    if (count > 1) {
        qsort(odds, count, sizeof *odds, by_odds);
    }
}

struct squad_best squad_best_threshold(const struct squad_dataset *dataset,
                                       const struct squad_match *scores,
                                       const char *const *predictions,
                                       const struct squad_odds *sorted, size_t count, int is_f1) {
    double current = 0.0;
    for (size_t i = 0; i < dataset->count; i++) {
        current += dataset->examples[i].answer_count == 0;
    }
    struct squad_best best = {current, SIZE_MAX};
    for (size_t i = 0; i < count; i++) {
        size_t example = sorted[i].example;
        if (dataset->examples[example].answer_count > 0) {
            current += is_f1 ? scores[example].f1 : scores[example].exact;
        } else if (*predictions[example] != '\0') {
            current -= 1.0;
        }
        if (current > best.sum) {
            best = (struct squad_best){current, i};
        }
    }
    return best;
}
