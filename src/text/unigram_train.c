// SPDX-License-Identifier: Apache-2.0
// Starts with the parts of words that occur at least twice and could not be longer wherever they
// occur (they are found in the sorted list of all ends of words), fits their scores, and prunes.
// One trie of all of these parts serves all rounds: those that were left out are only marked.
// Called by the job vocab like vocabulary_train.c, where a unigram vocabulary is asked for.
#include "text/unigram_train.h"

#include "core/memory.h"
#include "core/portable_math.h"
#include "core/utf8.h"
#include "text/vocabulary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST_PIECE 16     // characters
#define MOST_SEEDS 1000000   // pieces of the first round
#define ROUNDS 2             // of expectation and maximization before pieces are left out
#define KEPT_SHARE 0.75      // of the pieces that are there before some are left out
#define LEAST_COUNT 0.5      // a piece that is expected less often is left out
#define UNKNOWN_PENALTY 10.0 // an unknown character's score is that much below the lowest
#define CHARACTER_STEP 0.0001
#define NEGLIGIBLE 50.0 // a term whose logarithm is that much less does not change a sum
#define POINTS 0x110000

struct word {
    const char *bytes;
    size_t length;
    double count;
};

struct seed {
    uint64_t weight; // how often it occurs, by its characters
    const char *bytes;
    uint32_t length;
};

// A piece that fits at a place of a word.
struct fit {
    uint32_t begin, end, piece;
};

enum presence { LEFT_OUT, IS_IN, LEFT_OUT_NEXT };

struct unigram {
    struct word *words;
    size_t word_count;
    char *texts;      // of the words, each with a NUL
    char *characters; // 4 bytes for each that occurs
    size_t character_count;
    struct seed *seeds;
    size_t seed_count, seed_capacity;
    struct trie trie;     // ids are those of seeds
    double *scores;       // [seed_count + 1] of the seeds and of an unknown character
    unsigned char *is_in; // [seed_count] enum presence
    uint32_t *order;      // [count] the pieces that are in
    size_t count;
    size_t pruned_from; // how many pieces were in when pruning began
    double *expected;   // [seed_count + 1]
    // Of the current word:
    struct fit *fits;
    size_t fit_count, fit_capacity;
    struct place {
        double before, after; // logarithms of the sums over all ways to it and from it
        double best;
        uint32_t first, last; // the fits that begin here
        uint32_t from;        // the fit that ends the best way to it
        int is_reached;
    } * places;
    size_t place_capacity;
};

static enum berth_status no_memory(struct berth_error *error) {
    return error_no_memory(error, 0, "the training of a vocabulary");
}

// --- words --------------------------------------------------------------------------------------

static int compare_words(const void *a, const void *b) {
    const struct word *x = a, *y = b;
    const int order = memcmp(x->bytes, y->bytes, x->length < y->length ? x->length : y->length);
    return order != 0 ? order : (x->length > y->length) - (x->length < y->length);
}

// Copies the words, sorted, so that sums do not depend on their order.
static enum berth_status copy_words(struct unigram *unigram, const struct word_counts *counts,
                                    struct berth_error *error) {
    const struct string_index *index = &counts->words;
    const size_t bytes = index->starts[index->count] + index->count;
    unigram->words = memory_array(index->count, sizeof *unigram->words);
    unigram->texts = memory_new(bytes + LONGEST_PIECE + 2);
    if (unigram->words == NULL || unigram->texts == NULL) {
        return no_memory(error);
    }
    if (bytes >= UINT32_MAX) {
        return error_set(
            error, BERTH_CONFIG,
            "the different words of the text have %zu bytes; expected less than 4 GiB: "
            "train on a part of the text",
            bytes);
    }
    for (size_t i = 0; i < index->count; i++) {
        unigram->words[i] = (struct word){string_index_bytes(index, i),
                                          string_index_length(index, i), (double)counts->counts[i]};
    }
    unigram->word_count = index->count;
    qsort(unigram->words, unigram->word_count, sizeof *unigram->words, compare_words);
    char *to = unigram->texts;
    for (size_t i = 0; i < unigram->word_count; i++) {
        memcpy(to, unigram->words[i].bytes, unigram->words[i].length);
        to[unigram->words[i].length] = '\0';
        unigram->words[i].bytes = to;
        to += unigram->words[i].length + 1;
    }
    return BERTH_OK;
}

// --- the first pieces ---------------------------------------------------------------------------

// How many characters are the same, with the end of the word as one, as far as a piece may reach.
static uint32_t shared(const char *a, const char *b, uint32_t *bytes) {
    uint32_t characters = 0;
    *bytes = 0;
    for (uint32_t at = 0; characters <= LONGEST_PIECE; characters++) {
        const uint32_t size = (uint32_t)utf8_whole(a[at]);
        if (strncmp(a + at, b + at, size) != 0) {
            break;
        }
        if (a[at] == '\0') {
            return characters + 1;
        }
        at += size;
        *bytes = at;
    }
    return characters;
}

static int compare_ends(const void *a, const void *b, void *texts) {
    const char *x = (const char *)texts + *(const uint32_t *)a,
               *y = (const char *)texts + *(const uint32_t *)b;
    uint32_t bytes;
    const uint32_t characters = shared(x, y, &bytes);
    const int order =
        characters > LONGEST_PIECE ? 0 : (unsigned char)x[bytes] - (unsigned char)y[bytes];
    return order != 0 || characters > LONGEST_PIECE ? order : strcmp(x + bytes, y + bytes);
}

static int compare_seeds(const void *a, const void *b) {
    const struct seed *x = a, *y = b;
    const uint32_t least = x->length < y->length ? x->length : y->length;
    const int order = memcmp(y->bytes, x->bytes, least);
    return x->weight != y->weight ? (x->weight < y->weight ? 1 : -1)
           : order != 0           ? order
                                  : (x->length < y->length) - (x->length > y->length);
}

static int add_seed(struct unigram *unigram, struct seed seed) {
    struct seed *seeds = memory_grow(unigram->seeds, &unigram->seed_capacity,
                                     unigram->seed_count + 1, sizeof *seeds);
    if (seeds == NULL) {
        return 0;
    }
    unigram->seeds = seeds;
    seeds[unigram->seed_count++] = seed;
    return 1;
}

// Consecutive ends of words that begin with the same characters.
struct span {
    uint32_t characters, bytes, begin;
};

static int find_spans(struct unigram *unigram, const uint32_t *ends, size_t count) {
    struct span open[LONGEST_PIECE + 3] = {{0, 0, 0}};
    size_t depth = 1;
    int done = 1;
    for (size_t i = 1; i <= count && done; i++) {
        struct span next = {0, 0, (uint32_t)i - 1};
        if (i < count) {
            next.characters =
                shared(unigram->texts + ends[i - 1], unigram->texts + ends[i], &next.bytes);
        }
        while (done && open[depth - 1].characters > next.characters) {
            const struct span *span = &open[depth - 1];
            const char *bytes = unigram->texts + ends[span->begin];
            done =
                span->characters < 2 || span->characters > LONGEST_PIECE ||
                (uint32_t)utf8_count(bytes, span->bytes) < span->characters || // the end of a word
                add_seed(unigram, (struct seed){(i - span->begin) * (uint64_t)span->characters,
                                                bytes, span->bytes});
            next.begin = open[--depth].begin;
        }
        if (open[depth - 1].characters < next.characters) {
            open[depth++] = next;
        }
    }
    return done;
}

static int find_parts(struct unigram *unigram) {
    const struct word *last = &unigram->words[unigram->word_count - 1];
    const size_t bytes = (size_t)(last->bytes + last->length - unigram->texts);
    uint32_t *ends = memory_array(bytes + 1, sizeof *ends);
    size_t count = 0;
    for (size_t at = 0; ends != NULL && at < bytes; at++) {
        if (unigram->texts[at] != '\0' && utf8_begins(unigram->texts[at])) {
            ends[count++] = (uint32_t)at;
        }
    }
    if (ends != NULL) {
        qsort_r(ends, count, sizeof *ends, compare_ends, unigram->texts);
    }
    const int done = ends != NULL && find_spans(unigram, ends, count);
    memory_free(ends);
    return done;
}

static int find_characters(struct unigram *unigram) {
    uint64_t *counts = memory_array_zeroed(POINTS, sizeof *counts);
    size_t found = 0;
    for (size_t i = 0; counts != NULL && i < unigram->word_count; i++) {
        const struct word *word = &unigram->words[i];
        uint32_t point;
        for (size_t at = 0; at < word->length;) {
            at += utf8_decode(word->bytes + at, word->length - at, &point);
            if (point > 0 && point < POINTS) {
                found += counts[point] == 0;
                counts[point] += (uint64_t)word->count;
            }
        }
    }
    unigram->characters = counts != NULL ? memory_new(4 * found + 1) : NULL;
    int done = unigram->characters != NULL;
    for (uint32_t point = 1; done && point < POINTS; point++) {
        if (counts[point] > 0) {
            char *bytes = unigram->characters + 4 * unigram->character_count++;
            const uint32_t length = (uint32_t)utf8_encode(point, bytes);
            done = add_seed(unigram, (struct seed){counts[point], bytes, length});
        }
    }
    memory_free(counts);
    return done;
}

static int build_trie(struct unigram *unigram) {
    struct trie_string *strings = memory_array(unigram->seed_count, sizeof *strings);
    for (size_t i = 0; strings != NULL && i < unigram->seed_count; i++) {
        strings[i] =
            (struct trie_string){unigram->seeds[i].bytes, unigram->seeds[i].length, (int32_t)i};
    }
    const int done =
        strings != NULL && vocabulary_build_trie(&unigram->trie, strings, unigram->seed_count);
    memory_free(strings);
    return done;
}

// The characters come first, then the other parts of words; each with the logarithm of its share.
static enum berth_status find_seeds(struct unigram *unigram, struct berth_error *error) {
    double sum = 0;
    if (!find_characters(unigram)) {
        return no_memory(error);
    }
    const size_t characters = unigram->seed_count;
    qsort(unigram->seeds, characters, sizeof *unigram->seeds, compare_seeds);
    if (!find_parts(unigram)) {
        return no_memory(error);
    }
    qsort(unigram->seeds + characters, unigram->seed_count - characters, sizeof *unigram->seeds,
          compare_seeds);
    const size_t most = characters < MOST_SEEDS ? MOST_SEEDS : characters + 1;
    const size_t count = unigram->seed_count < most ? unigram->seed_count : most;
    unigram->seed_count = unigram->count = count;
    unigram->scores = memory_array(count + 1, sizeof *unigram->scores);
    unigram->expected = memory_array(count + 1, sizeof *unigram->expected);
    unigram->order = memory_array(count + 1, sizeof *unigram->order);
    unigram->is_in = memory_array(count + 1, 1);
    if (unigram->scores == NULL || unigram->expected == NULL || unigram->order == NULL ||
        unigram->is_in == NULL || !build_trie(unigram)) {
        return no_memory(error);
    }
    for (size_t i = 0; i < count; i++) {
        sum += (double)unigram->seeds[i].weight;
    }
    for (size_t i = 0; i < count; i++) {
        unigram->scores[i] = math_log((double)unigram->seeds[i].weight) - math_log(sum);
        unigram->order[i] = (uint32_t)i;
        unigram->is_in[i] = 1;
    }
    return BERTH_OK;
}

// --- a word as pieces ---------------------------------------------------------------------------

static int add_fit(struct unigram *unigram, size_t begin, size_t end, size_t piece) {
    struct fit *fits =
        memory_grow(unigram->fits, &unigram->fit_capacity, unigram->fit_count + 1, sizeof *fits);
    if (fits == NULL) {
        return 0;
    }
    unigram->fits = fits;
    fits[unigram->fit_count++] = (struct fit){(uint32_t)begin, (uint32_t)end, (uint32_t)piece};
    return 1;
}

static double lowest_score(const struct unigram *unigram) {
    double lowest = INFINITY;
    for (size_t i = 0; i < unigram->count; i++) {
        const double score = unigram->scores[unigram->order[i]];
        lowest = score < lowest ? score : lowest;
    }
    return lowest;
}

// Finds the pieces that fit in the word, but not `other`; 0 when out of memory. A character that is
// none is unknown.
static int find_fits(struct unigram *unigram, const char *bytes, size_t length, size_t other) {
    struct place *places =
        memory_grow(unigram->places, &unigram->place_capacity, length + 1, sizeof *places);
    if (places == NULL) {
        return 0;
    }
    unigram->places = places;
    unigram->fit_count = 0;
    for (size_t at = 0; at <= length; at++) {
        places[at] = (struct place){.is_reached = at == 0};
    }
    for (size_t at = 0; at < length;) {
        const size_t size = utf8_whole(bytes[at]);
        uint32_t node = 0;
        int has_character = 0;
        places[at].first = (uint32_t)unigram->fit_count;
        for (size_t end = at; end < length; end++) {
            node = trie_step(&unigram->trie, node, (unsigned char)bytes[end]);
            if (node == TRIE_NONE) {
                break;
            }
            const int32_t id = unigram->trie.nodes[node].id;
            if (id >= 0 && unigram->is_in[id] && (size_t)id != other) {
                has_character |= end + 1 - at == size;
                if (!add_fit(unigram, at, end + 1, (size_t)id)) {
                    return 0;
                }
            }
        }
        if (!has_character && !add_fit(unigram, at, at + size, unigram->seed_count)) {
            return 0;
        }
        places[at].last = (uint32_t)unigram->fit_count;
        at += size;
    }
    return 1;
}

// Finds the best way to each place: of equal ones that with the longest last piece.
static void find_best(struct unigram *unigram) {
    for (size_t i = 0; i < unigram->fit_count; i++) {
        const struct fit *fit = &unigram->fits[i];
        struct place *end = &unigram->places[fit->end];
        const double score = unigram->places[fit->begin].best + unigram->scores[fit->piece];
        if (!end->is_reached || score > end->best) {
            end->best = score;
            end->from = (uint32_t)i;
            end->is_reached = 1;
        }
    }
}

// --- expectation and maximization ---------------------------------------------------------------

// The logarithm of the sum of two numbers that are given by theirs.
static double add_logs(double a, double b) {
    const double low = a > b ? b : a, high = a > b ? a : b;
    return high > low + NEGLIGIBLE ? high : high + math_log(math_exp(low - high) + 1.0);
}

// How often each piece is expected in all words.
static enum berth_status expect(struct unigram *unigram, struct berth_error *error) {
    unigram->scores[unigram->seed_count] = lowest_score(unigram) - UNKNOWN_PENALTY;
    memset(unigram->expected, 0, (unigram->seed_count + 1) * sizeof *unigram->expected);
    for (size_t w = 0; w < unigram->word_count; w++) {
        const struct word *word = &unigram->words[w];
        if (!find_fits(unigram, word->bytes, word->length, SIZE_MAX)) {
            return no_memory(error);
        }
        for (size_t i = 0; i < unigram->fit_count; i++) {
            const struct fit *fit = &unigram->fits[i];
            struct place *end = &unigram->places[fit->end];
            const double way = unigram->scores[fit->piece] + unigram->places[fit->begin].before;
            end->before = end->is_reached ? add_logs(end->before, way) : way;
            end->is_reached = 1;
        }
        for (size_t at = word->length; at-- > 0;) {
            struct place *place = &unigram->places[at];
            for (uint32_t i = place->first; i < place->last; i++) {
                const struct fit *fit = &unigram->fits[i];
                const double way = unigram->scores[fit->piece] + unigram->places[fit->end].after;
                place->after = i > place->first ? add_logs(place->after, way) : way;
            }
        }
        const double all = unigram->places[word->length].before;
        for (size_t i = 0; i < unigram->fit_count; i++) {
            const struct fit *fit = &unigram->fits[i];
            const double share = unigram->places[fit->begin].before + unigram->scores[fit->piece] +
                                 unigram->places[fit->end].after - all;
            unigram->expected[fit->piece] += word->count * math_exp(share);
        }
    }
    return BERTH_OK;
}

// The digamma function: by its recurrence to where the series of ln(x - 1/2) is exact enough.
static double digamma(double x) {
    double result = 0;
    for (; x < 7; x++) {
        result -= 1 / x;
    }
    x -= 0.5;
    const double inverse = 1 / x, square = inverse * inverse, fourth = square * square;
    return result + (math_log(x) + 1.0 / 24 * square - 7.0 / 960 * fourth +
                     31.0 / 8064 * fourth * square - 127.0 / 30720 * fourth * fourth);
}

// Scores by the expected counts. Digamma in place of the logarithm makes rare pieces rarer.
static void maximize(struct unigram *unigram) {
    double sum = 0;
    size_t kept = 0;
    for (size_t i = 0; i < unigram->count; i++) {
        const uint32_t piece = unigram->order[i];
        if (unigram->expected[piece] < LEAST_COUNT) {
            unigram->is_in[piece] = 0;
            continue;
        }
        sum += unigram->expected[piece];
        unigram->order[kept++] = piece;
    }
    unigram->count = kept;
    const double all = digamma(sum);
    for (size_t i = 0; i < kept; i++) {
        const uint32_t piece = unigram->order[i];
        unigram->scores[piece] = digamma(unigram->expected[piece]) - all;
    }
}

// --- pruning ------------------------------------------------------------------------------------

struct candidate {
    double loss;
    uint32_t piece, place;
};

static int compare_losses(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    return x->loss != y->loss ? (x->loss < y->loss ? 1 : -1)
                              : (x->place > y->place) - (x->place < y->place);
}

// How often each piece is in the best ways through all words.
static enum berth_status count_best(struct unigram *unigram, double *words,
                                    struct berth_error *error) {
    memset(unigram->expected, 0, (unigram->seed_count + 1) * sizeof *unigram->expected);
    for (size_t w = 0; w < unigram->word_count; w++) {
        const struct word *word = &unigram->words[w];
        if (!find_fits(unigram, word->bytes, word->length, SIZE_MAX)) {
            return no_memory(error);
        }
        find_best(unigram);
        *words += word->count;
        for (size_t at = word->length; at > 0;) {
            const struct fit *fit = &unigram->fits[unigram->places[at].from];
            unigram->expected[fit->piece] += word->count;
            at = fit->begin;
        }
    }
    return BERTH_OK;
}

// What takes the place of a piece: the sum of the logarithms of the shares that its parts then
// have, of which there are `parts`; 0: it has none, or they are better than the piece itself.
struct replacement {
    double logs;
    size_t parts;
    int is_better;
};

// Goes back along the best way through the piece, and notes at each place the fit that begins
// there. The library counts the parts of all pieces as if each had one, not those of this piece.
static void add_shares(const struct unigram *unigram, size_t length, double moved, double sum,
                       struct replacement *found) {
    const double all = math_log(sum + moved * (double)unigram->pruned_from);
    for (size_t at = length; at > 0;) {
        const uint32_t from = unigram->places[at].from;
        at = unigram->fits[from].begin;
        unigram->places[at].last = from;
    }
    for (size_t at = 0; at < length; found->parts++) {
        const struct fit *fit = &unigram->fits[unigram->places[at].last];
        found->logs += math_log(unigram->expected[fit->piece] + moved) - all;
        at = fit->end;
    }
}

static enum berth_status replace(struct unigram *unigram, uint32_t piece, double sum,
                                 struct replacement *found, struct berth_error *error) {
    const struct seed *seed = &unigram->seeds[piece];
    *found = (struct replacement){0, 0, 0};
    if (seed->length == utf8_whole(seed->bytes[0])) {
        return BERTH_OK;
    }
    if (!find_fits(unigram, seed->bytes, seed->length, piece)) {
        return no_memory(error);
    }
    find_best(unigram);
    found->is_better = unigram->places[seed->length].best > unigram->scores[piece];
    if (!found->is_better) {
        add_shares(unigram, seed->length, unigram->expected[piece], sum, found);
    }
    return BERTH_OK;
}

static double sum_counts(const struct unigram *unigram) {
    double sum = unigram->expected[unigram->seed_count];
    for (size_t i = 0; i < unigram->count; i++) {
        sum += unigram->expected[unigram->order[i]];
    }
    return sum;
}

// Sorts the pieces into those that stay, which are first in unigram->order, candidates, and those
// that are left out, which may still be parts of others here.
static enum berth_status find_candidates(struct unigram *unigram, double words,
                                         struct candidate *candidates, size_t *candidate_count,
                                         size_t *kept, struct berth_error *error) {
    const double sum = sum_counts(unigram), log_sum = math_log(sum);
    for (size_t i = 0; i < unigram->count; i++) {
        const uint32_t piece = unigram->order[i];
        const double count = unigram->expected[piece];
        struct replacement found;
        TRY(replace(unigram, piece, sum, &found, error));
        if (count == 0 && found.is_better) {
            unigram->is_in[piece] = LEFT_OUT_NEXT;
        } else if (found.parts == 0) {
            unigram->order[(*kept)++] = piece;
        } else if (count == 0) {
            unigram->is_in[piece] = LEFT_OUT_NEXT;
        } else {
            candidates[*candidate_count] =
                (struct candidate){count / words * (math_log(count) - log_sum - found.logs), piece,
                                   (uint32_t)*candidate_count};
            (*candidate_count)++;
        }
    }
    return BERTH_OK;
}

// Leaves out pieces without which the words become least unlikely; at least `least` stay.
static enum berth_status prune(struct unigram *unigram, size_t least, struct berth_error *error) {
    struct candidate *candidates = memory_array(unigram->count + 1, sizeof *candidates);
    size_t count = 0, kept = 0;
    double words = 0;
    if (candidates == NULL) {
        return no_memory(error);
    }
    unigram->scores[unigram->seed_count] = lowest_score(unigram) - UNKNOWN_PENALTY;
    unigram->pruned_from = unigram->count;
    const size_t share = (size_t)((double)(unigram->count + 1) * KEPT_SHARE);
    const size_t most = (least > share ? least : share) - 1; // and what stands for the unknown
    enum berth_status status = count_best(unigram, &words, error);
    if (status == BERTH_OK) {
        status = find_candidates(unigram, words, candidates, &count, &kept, error);
    }
    for (size_t i = 0; i < unigram->seed_count; i++) {
        unigram->is_in[i] = unigram->is_in[i] == IS_IN;
    }
    if (status == BERTH_OK && count > 0) {
        qsort(candidates, count, sizeof *candidates, compare_losses);
    }
    for (size_t i = 0; status == BERTH_OK && i < count; i++) {
        if (kept >= most) {
            unigram->is_in[candidates[i].piece] = 0;
        } else {
            unigram->order[kept++] = candidates[i].piece;
        }
    }
    unigram->count = kept;
    memory_free(candidates);
    return status;
}

// --- the result ---------------------------------------------------------------------------------

static int is_character(const struct seed *seed) {
    return seed->length == utf8_whole(seed->bytes[0]);
}

// All characters, also those that were left out, then the first of the other pieces; a candidate's
// loss is its score here.
static void choose(struct unigram *unigram, size_t size, struct candidate *chosen, size_t *count) {
    const double lowest = lowest_score(unigram);
    double penalty = 0;
    for (size_t i = 0; i < unigram->seed_count; i++) {
        if (is_character(&unigram->seeds[i])) {
            const int is_in = unigram->is_in[i];
            chosen[*count] = (struct candidate){is_in ? unigram->scores[i] : lowest + penalty,
                                                (uint32_t)i, (uint32_t)*count};
            penalty += is_in ? 0 : CHARACTER_STEP;
            (*count)++;
        }
    }
    for (size_t i = 0; i < unigram->count && *count < size; i++) {
        const uint32_t piece = unigram->order[i];
        if (!is_character(&unigram->seeds[piece])) {
            chosen[*count] = (struct candidate){unigram->scores[piece], piece, (uint32_t)*count};
            (*count)++;
        }
    }
    qsort(chosen, *count, sizeof *chosen, compare_losses);
}

static enum berth_status train(struct unigram *unigram, size_t size, const struct berth_log *log,
                               const atomic_int *stop, struct berth_error *error) {
    const size_t enough = size * 11 / 10;
    for (;;) {
        for (int round = 0; round < ROUNDS; round++) {
            TRY(expect(unigram, error));
            maximize(unigram);
            if (stop != NULL && *stop != 0) {
                return error_set(error, BERTH_INTERRUPTED,
                                 "stopped with %zu pieces left, before they were reduced to %zu",
                                 unigram->count, size);
            }
        }
        log_progress(log, "pieces", (int64_t)unigram->count, (int64_t)size);
        if (unigram->count + 1 <= enough) {
            return BERTH_OK;
        }
        TRY(prune(unigram, enough, error));
    }
}

static enum berth_status train_pieces(struct unigram *unigram, const struct word_counts *counts,
                                      size_t size, size_t specials, const struct berth_log *log,
                                      const atomic_int *stop, struct unigram_pieces *pieces,
                                      struct berth_error *error) {
    TRY(copy_words(unigram, counts, error));
    TRY(find_seeds(unigram, error));
    if (unigram->character_count + specials > size) {
        return error_set(error, BERTH_CONFIG,
                         "size: expected at least %zu, for the special pieces and the characters "
                         "of the text, found %zu; raise it",
                         unigram->character_count + specials, size);
    }
    TRY(train(unigram, size, log, stop, error));
    struct candidate *chosen = memory_array(unigram->seed_count + 1, sizeof *chosen);
    size_t count = 0;
    if (chosen != NULL) {
        choose(unigram, size - specials, chosen, &count);
        pieces->scores = memory_array(count + 1, sizeof *pieces->scores);
    }
    int done = chosen != NULL && pieces->scores != NULL;
    for (size_t i = 0; done && i < count; i++) {
        const struct seed *seed = &unigram->seeds[chosen[i].piece];
        pieces->scores[i] = chosen[i].loss;
        done = string_index_put(&pieces->texts, seed->bytes, seed->length) != STRING_INDEX_NONE;
    }
    memory_free(chosen);
    return done ? BERTH_OK : no_memory(error);
}

enum berth_status unigram_train(const struct word_counts *counts, size_t size, size_t specials,
                                const struct berth_log *log, const atomic_int *stop,
                                struct unigram_pieces *pieces, struct berth_error *error) {
    struct unigram unigram = {.words = NULL};
    *pieces = (struct unigram_pieces){.scores = NULL};
    if (counts->words.count == 0) {
        return error_set(error, BERTH_BAD_DATA, "expected a text with words, found none");
    }
    const enum berth_status status =
        train_pieces(&unigram, counts, size, specials, log, stop, pieces, error);
    memory_free(unigram.words);
    memory_free(unigram.texts);
    memory_free(unigram.characters);
    memory_free(unigram.seeds);
    memory_free(unigram.scores);
    memory_free(unigram.is_in);
    memory_free(unigram.order);
    memory_free(unigram.expected);
    memory_free(unigram.fits);
    memory_free(unigram.places);
    trie_done(&unigram.trie);
    return status;
}

void unigram_pieces_done(struct unigram_pieces *pieces) {
    string_index_done(&pieces->texts);
    memory_free(pieces->scores);
    *pieces = (struct unigram_pieces){.scores = NULL};
}
