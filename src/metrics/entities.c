// SPDX-License-Identifier: Apache-2.0
// Finds the entities that a row of tags makes, loosely or by a scheme, and counts those that two
// rows have in common, by type. The task tag scores an evaluation with it, and `berth evaluate
// tokens` a file; how scores are printed and weighed is theirs.
#include "metrics/entities.h"

#include "core/memory.h"
#include "core/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- tags ---------------------------------------------------------------------------------------

// The letter and the type of a tag. The type is text[0 .. length); an empty one becomes "_".
struct tag {
    char letter;
    const char *text;
    size_t length;
};

static const struct tag outside = {.letter = 'O', .text = "_", .length = 1};

static struct tag with_type(char letter, const char *text, size_t length) {
    return length > 0 ? (struct tag){letter, text, length} : (struct tag){letter, "_", 1};
}

// Without a scheme the type is what follows the first hyphen after the first character.
static struct tag loose_tag(const char *text) {
    const size_t first = text[0] != '\0' ? utf8_whole(text[0]) : 0;
    const char *rest = text + first, *hyphen = strchr(rest, '-');
    const char *type = hyphen != NULL ? hyphen + 1 : rest;
    return with_type(text[0], type, strlen(type));
}

// With a scheme it is all but the first character, without surrounding hyphens.
static struct tag strict_tag(const char *text) {
    const char *type = text + 1 + strspn(text + 1, "-");
    size_t length = strlen(type);
    while (length > 0 && type[length - 1] == '-') {
        length--;
    }
    return with_type(text[0], type, length);
}

static int same_type(const struct tag *a, const struct tag *b) {
    return a->length == b->length && memcmp(a->text, b->text, a->length) == 0;
}

// --- lists of entities --------------------------------------------------------------------------

// An entity. Words are counted over all sentences, with one O after each sentence.
struct found {
    struct tag type;
    size_t first, last;
};

struct found_list {
    struct found *items;
    size_t count, capacity;
    struct berth_error *error;
};

static enum berth_status put(struct found_list *list, struct found found) {
    struct found *items = memory_grow(list->items, &list->capacity, list->count + 1, sizeof *items);
    if (items == NULL) {
        return error_no_memory(list->error, list->count * sizeof *items, "the entities");
    }
    list->items = items;
    items[list->count++] = found;
    return BERTH_OK;
}

// --- without a scheme ---------------------------------------------------------------------------

static int is_one_of(char letter, const char *letters) {
    return letter != '\0' && strchr(letters, letter) != NULL;
}

static int ends(const struct tag *before, const struct tag *now) {
    return is_one_of(before->letter, "ES") ||
           (is_one_of(before->letter, "BI") && is_one_of(now->letter, "BSO")) ||
           (!is_one_of(before->letter, "O.") && !same_type(before, now));
}

static int begins(const struct tag *before, const struct tag *now) {
    return is_one_of(now->letter, "BS") ||
           (is_one_of(before->letter, "ESO") && is_one_of(now->letter, "EI")) ||
           (!is_one_of(now->letter, "O.") && !same_type(before, now));
}

// The state after the words so far. Before the very first word the type is empty.
struct loose {
    struct tag before;
    size_t first; // first word of the last entity
};

static enum berth_status advance_loose(struct loose *state, struct tag now, size_t word,
                                       struct found_list *list) {
    if (ends(&state->before, &now)) {
        TRY(put(list, (struct found){state->before, state->first, word - 1}));
    }
    if (begins(&state->before, &now)) {
        state->first = word;
    }
    state->before = now;
    return BERTH_OK;
}

// Processes a sentence whose first word has the index `first`, and the O after it.
static enum berth_status loose_sentence(struct loose *state, const char *const *tags, size_t count,
                                        size_t first, struct found_list *list) {
    for (size_t i = 0; i < count; i++) {
        TRY(advance_loose(state, loose_tag(tags[i]), first + i, list));
    }
    return advance_loose(state, outside, first + count, list);
}

// --- with a scheme ------------------------------------------------------------------------------

enum type_rule { ANY, SAME, DIFFERENT };

// The letters of two neighbouring tags, and how their types must compare.
struct pattern {
    const char *before, *now;
    enum type_rule types;
};

#define EVERY "IOBESUL"
#define PATTERNS 6

struct scheme {
    const char *name, *letters;
    struct pattern begins[PATTERNS], continues[PATTERNS], ends[PATTERNS];
};

const char entity_schemes[] = "IOB1|IOB2|IOE1|IOE2|IOBES|BILOU";

static const struct scheme schemes[] = {
    {"IOB1", "IOB", .begins = {{"OB", "I", ANY}, {"I", "I", DIFFERENT}, {"IB", "B", SAME}},
     .continues = {{"BI", "I", SAME}},
     .ends = {{"IB", "I", DIFFERENT}, {"IB", "O", ANY}, {"I", "B", ANY}, {"B", "B", SAME}}},
    {"IOB2", "IOB", .begins = {{EVERY, "B", ANY}}, .continues = {{"BI", "I", SAME}},
     .ends = {{"IB", "OB", ANY}, {"IB", "I", DIFFERENT}}},
    {"IOE1", "IOE", .begins = {{"OE", "I", ANY}, {"I", "I", DIFFERENT}, {"E", "E", SAME}},
     .continues = {{"I", "IE", SAME}},
     .ends = {{"I", "IE", DIFFERENT}, {"I", "O", ANY}, {"E", "IE", SAME}}},
    {"IOE2", "IOE", .begins = {{"OE", "IE", ANY}, {"I", "IE", DIFFERENT}},
     .continues = {{"I", "IE", SAME}}, .ends = {{"E", EVERY, ANY}}},
    {"IOBES", "IOBES", .begins = {{EVERY, "BS", ANY}}, .continues = {{"BI", "IE", SAME}},
     .ends = {{"SE", EVERY, ANY}}},
    {"BILOU", "BILOU", .begins = {{EVERY, "BU", ANY}}, .continues = {{"BI", "IL", SAME}},
     .ends = {{"UL", EVERY, ANY}}},
};

static int matches(const struct pattern patterns[PATTERNS], const struct tag *before,
                   const struct tag *now) {
    for (size_t i = 0; i < PATTERNS && patterns[i].before != NULL; i++) {
        const enum type_rule rule = patterns[i].types;
        if (is_one_of(before->letter, patterns[i].before) &&
            is_one_of(now->letter, patterns[i].now) &&
            (rule == ANY || (rule == SAME) == same_type(before, now))) {
            return 1;
        }
    }
    return 0;
}

static enum berth_status find_scheme(const char *name, const struct scheme **scheme,
                                     struct berth_error *error) {
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        if (strcmp(schemes[i].name, name) == 0) {
            *scheme = &schemes[i];
            return BERTH_OK;
        }
    }
    return error_set(error, BERTH_USAGE, "unknown scheme \"%s\"; expected one of %s", name,
                     entity_schemes);
}

// Tag i of a sentence; O after its end.
static struct tag tag_at(const char *const *tags, size_t count, size_t i) {
    return i < count ? strict_tag(tags[i]) : outside;
}

static enum berth_status strict_sentence(const struct scheme *scheme, const char *const *tags,
                                         size_t count, size_t number, struct found_list *list) {
    struct tag before = outside;
    for (size_t i = 0; i < count; i++) {
        if (!is_one_of(tags[i][0], scheme->letters)) {
            return error_set(
                list->error, BERTH_BAD_DATA,
                "\"%s\" is not a tag of %s, which has the letters %s; choose another scheme, "
                "or none",
                tags[i], scheme->name, scheme->letters);
        }
    }
    for (size_t i = 0; i < count;) {
        const struct tag first = tag_at(tags, count, i);
        struct tag now = first;
        size_t end = i + 1;
        if (matches(scheme->begins, &before, &now)) {
            struct tag next = tag_at(tags, count, end);
            for (; matches(scheme->continues, &now, &next); next = tag_at(tags, count, ++end)) {
                now = next;
            }
            if (matches(scheme->ends, &now, &next)) {
                TRY(put(list, (struct found){first, number + i, number + end - 1}));
            }
        }
        before = now;
        i = end;
    }
    return BERTH_OK;
}

// --- counting -----------------------------------------------------------------------------------

static enum berth_status find_all(const struct entity_tags *tags, const struct scheme *scheme,
                                  const char *const *of, struct found_list *list) {
    struct loose state = {.before = {.letter = 'O', .text = "", .length = 0}};
    for (size_t s = 0; s < tags->count; s++) {
        const size_t first = tags->starts[s], count = tags->starts[s + 1] - first;
        TRY(scheme != NULL ? strict_sentence(scheme, of + first, count, first + s, list)
                           : loose_sentence(&state, of + first, count, first + s, list));
    }
    return BERTH_OK;
}

static int by_type(const void *a, const void *b) {
    const struct found *x = a, *y = b;
    const size_t shorter = x->type.length < y->type.length ? x->type.length : y->type.length;
    const int order = memcmp(x->type.text, y->type.text, shorter);
    return order != 0 ? order
                      : (x->type.length > y->type.length) - (x->type.length < y->type.length);
}

// Orders entities by type, then by position. A word ends at most one entity of a list.
static int compare(const void *a, const void *b) {
    const struct found *x = a, *y = b;
    const int order = by_type(a, b);
    if (order != 0) {
        return order;
    }
    if (x->last != y->last) {
        return x->last < y->last ? -1 : 1;
    }
    return (x->first > y->first) - (x->first < y->first);
}

static double ratio(double a, double b) {
    return b > 0 ? a / b : 0;
}

static void finish(struct entity_score *score) {
    const double correct = (double)score->correct;
    score->precision = ratio(correct, (double)score->predicted);
    score->recall = ratio(correct, (double)score->reference);
    score->f1 = ratio(2.0 * score->precision * score->recall, score->precision + score->recall);
}

// The score of a type, which is the last one so far or a new one. NULL: out of memory.
static struct entity_score *score_of(struct entity_scores *scores, size_t *capacity,
                                     const struct tag *type) {
    const size_t count = scores->type_count;
    struct entity_score *last = count > 0 ? &scores->types[count - 1] : NULL;
    if (last != NULL && strlen(last->type) == type->length &&
        memcmp(last->type, type->text, type->length) == 0) {
        return last;
    }
    struct entity_score *types = memory_grow(scores->types, capacity, count + 1, sizeof *types);
    char *name = memory_string_of(type->text, type->length);
    scores->types = types != NULL ? types : scores->types;
    if (types == NULL || name == NULL) {
        memory_free(name);
        return NULL;
    }
    types[scores->type_count] = (struct entity_score){.type = name};
    return &types[scores->type_count++];
}

// Walks through both sorted lists.
static enum berth_status count_entities(const struct found_list *reference,
                                        const struct found_list *predicted,
                                        struct entity_scores *scores, struct berth_error *error) {
    size_t capacity = 0;
    for (size_t r = 0, p = 0; r < reference->count || p < predicted->count;) {
        const int order = r == reference->count ? 1
                          : p == predicted->count
                              ? -1
                              : compare(&reference->items[r], &predicted->items[p]);
        const struct found *found = order <= 0 ? &reference->items[r] : &predicted->items[p];
        struct entity_score *score = score_of(scores, &capacity, &found->type);
        if (score == NULL) {
            return error_no_memory(error, sizeof *score, "the scores of the types");
        }
        score->correct += order == 0;
        score->reference += order <= 0;
        score->predicted += order >= 0;
        r += order <= 0;
        p += order >= 0;
    }
    for (size_t i = 0; i < scores->type_count; i++) {
        scores->all.correct += scores->types[i].correct;
        scores->all.reference += scores->types[i].reference;
        scores->all.predicted += scores->types[i].predicted;
        finish(&scores->types[i]);
    }
    finish(&scores->all);
    return BERTH_OK;
}

static double accuracy_of(const struct entity_tags *tags) {
    const size_t words = tags->starts[tags->count];
    size_t equal = 0;
    for (size_t i = 0; i < words; i++) {
        equal += strcmp(tags->reference[i], tags->predicted[i]) == 0;
    }
    return ratio((double)equal, (double)words);
}

static void sort(struct found_list *list) {
    if (list->count > 0) {
        qsort(list->items, list->count, sizeof *list->items, compare);
    }
}

enum berth_status entity_scores(const struct entity_tags *tags, const char *scheme,
                                struct entity_scores *scores, struct berth_error *error) {
    const struct scheme *rule = NULL;
    struct found_list lists[2] = {{.error = error}, {.error = error}};
    *scores = (struct entity_scores){.accuracy = accuracy_of(tags)};
    if (scheme != NULL) {
        TRY(find_scheme(scheme, &rule, error));
    }
    enum berth_status status = find_all(tags, rule, tags->reference, &lists[0]);
    if (status == BERTH_OK) {
        status = find_all(tags, rule, tags->predicted, &lists[1]);
    }
    if (status == BERTH_OK) {
        sort(&lists[0]);
        sort(&lists[1]);
        status = count_entities(&lists[0], &lists[1], scores, error);
    }
    memory_free(lists[0].items);
    memory_free(lists[1].items);
    return status;
}

// Each word is an entity at most, in both lists and in the copy of one that is being sorted.
size_t entity_scores_bytes(size_t words) {
    return 3 * words * sizeof(struct found);
}

void entity_scores_done(struct entity_scores *scores) {
    for (size_t i = 0; i < scores->type_count; i++) {
        memory_free(scores->types[i].type);
    }
    memory_free(scores->types);
    *scores = (struct entity_scores){.types = NULL};
}

// The letters L and U of BILOU end entities as E and S of IOBES do.
static struct tag label_tag(const char *label) {
    if (strcmp(label, "O") == 0) {
        return outside;
    }
    if (!is_one_of(label[0], "BIESLU") || label[1] != '-') {
        return with_type('I', label, strlen(label));
    }
    const char letter = label[0] == 'L' ? 'E' : label[0] == 'U' ? 'S' : label[0];
    return with_type(letter, label + 2, strlen(label + 2));
}

enum berth_status entities_of(const char *const *labels, size_t count, struct entity **entities,
                              size_t *entity_count, struct berth_error *error) {
    struct loose state = {.before = {.letter = 'O', .text = "", .length = 0}};
    struct found_list list = {.error = error};
    enum berth_status status = BERTH_OK;
    for (size_t i = 0; i <= count && status == BERTH_OK; i++) {
        const struct tag now = i < count ? label_tag(labels[i]) : outside;
        status = advance_loose(&state, now, i, &list);
    }
    *entities = status == BERTH_OK ? memory_array(list.count + 1, sizeof **entities) : NULL;
    *entity_count = *entities != NULL ? list.count : 0;
    for (size_t i = 0; i < *entity_count; i++) {
        const struct found *found = &list.items[i];
        (*entities)[i] = (struct entity){found->type.text, found->first, found->last};
    }
    memory_free(list.items);
    return status != BERTH_OK || *entities != NULL
               ? status
               : error_no_memory(error, count * sizeof **entities, "the entities");
}
