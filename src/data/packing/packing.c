// SPDX-License-Identifier: Apache-2.0
// Decides which sequences share a row: lists the strategies, fits their counts to the histogram of
// lengths (nnls.h), rounds them, and assigns the sequences, longest first. The pack stage calls it
// for each window of input files (data/stages/pack_stage.c), which also writes the rows.
#include "data/packing/packing.h"

#include "core/memory.h"
#include "core/rng.h"
#include "data/packing/nnls.h"
#include "data/pretraining/masking.h"
#include "format/json/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS = 20,
    SEQUENCES_MIN = 100, // fewer sequences are not worth another round
    SHORT_LENGTH = 8,    // lengths up to this have a lower weight
    TOP_STRATEGIES = 8,
    STREAM_ROWS = 1,
    STREAM_SEQUENCES = 2
};

struct planner {
    struct packing *packing;
    double *weights, *rest, *x; // rest: sequences still to be packed, by length
    int64_t *histogram;         // [length + 1]
    int64_t *left;              // [length + 1] not packed yet; negative: more slots than sequences
};

// --- strategies ---------------------------------------------------------------------------------

// Lists all sets of up to three lengths, in ascending order, that fill a row; returns their number.
// With `to` NULL it only counts.
static size_t list_strategies(int length, struct packing_strategy *to) {
    size_t count = 0;
    for (int a = 0; 3 * a <= length; a++) {
        for (int b = a; a + 2 * b <= length; b++) {
            int all[PRETRAINING_PACK_MAX] = {a, b, length - a - b}, at = 0;
            struct packing_strategy strategy = {{0}};
            for (int i = 0; i < PRETRAINING_PACK_MAX; i++) {
                if (all[i] > 0) {
                    strategy.lengths[at++] = (uint16_t)all[i];
                }
            }
            if (to != NULL) {
                to[count] = strategy;
            }
            count++;
        }
    }
    return count;
}

size_t packing_strategies(int length) {
    return list_strategies(length, NULL);
}

int packing_predictions(const struct instance_options *options) {
    enum { LEAST = 5 }; // tokens of an instance
    const int length = options->max_length;
    int counts[PACKING_LENGTH_MAX + 1] = {0}, max = 0;
    for (int i = LEAST; i <= length; i++) {
        counts[i] = (int)masking_count(options, (size_t)i);
    }
    for (int first = 0; 3 * first <= length; first++) {
        for (int next = first; first + 2 * next <= length; next++) {
            const int count = counts[first] + counts[next] + counts[length - first - next];
            max = count > max ? count : max;
        }
    }
    return max;
}

// --- the mixture --------------------------------------------------------------------------------

static void use_strategy(struct planner *planner, size_t number, int64_t times) {
    const struct packing_strategy *strategy = &planner->packing->strategies[number];
    planner->packing->counts[number] += (uint64_t)times;
    for (int i = 0; i < PRETRAINING_PACK_MAX && strategy->lengths[i] > 0; i++) {
        planner->left[strategy->lengths[i]] -= times;
    }
}

struct ranked {
    double value;
    size_t number;
};

static int by_value_descending(const void *a, const void *b) {
    const struct ranked *left = a, *right = b;
    if (left->value != right->value) {
        return left->value > right->value ? -1 : 1;
    }
    return left->number < right->number ? -1 : 1;
}

// If all counts round to zero: uses the strategies that pack most of the rest, each once.
static enum berth_status use_largest(struct planner *planner, double sequences,
                                     struct berth_error *error) {
    struct packing *packing = planner->packing;
    struct ranked *ranked = memory_array(packing->strategy_count, sizeof *ranked);
    if (ranked == NULL) {
        return error_no_memory(error, packing->strategy_count * sizeof *ranked, "packing");
    }
    for (size_t i = 0; i < packing->strategy_count; i++) {
        ranked[i] = (struct ranked){0, i};
        for (int j = 0; j < PRETRAINING_PACK_MAX; j++) {
            int length = packing->strategies[i].lengths[j];
            ranked[i].value += length * planner->rest[length];
        }
    }
    qsort(ranked, packing->strategy_count, sizeof *ranked, by_value_descending);
    size_t limit = (size_t)(sequences / 2) + 1;
    for (size_t i = 0; i < limit && i < packing->strategy_count; i++) {
        use_strategy(planner, ranked[i].number, 1);
    }
    memory_free(ranked);
    return BERTH_OK;
}

// Updates the sequences still to be packed; returns their number. Empty slots are padding and do
// not count.
static double find_rest(struct planner *planner) {
    double sum = 0;
    planner->rest[0] = 0;
    for (int i = 1; i <= planner->packing->length; i++) {
        planner->rest[i] = planner->left[i] > 0 ? (double)planner->left[i] : 0;
        sum += planner->rest[i];
    }
    return sum;
}

static enum berth_status mix_once(struct planner *planner, double sequences,
                                  struct berth_error *error) {
    struct packing *packing = planner->packing;
    struct nnls problem = {.rows = (size_t)packing->length,
                           .columns = packing->strategy_count,
                           .column = (const uint16_t(*)[NNLS_ROWS])packing->strategies,
                           .weights = planner->weights,
                           .b = planner->rest};
    int64_t used = 0;
    TRY(nnls_solve(&problem, planner->x, error));
    for (size_t i = 0; i < packing->strategy_count; i++) {
        double times = planner->x[i] < 2 ? rint(planner->x[i]) : floor(planner->x[i]);
        if (times > 0) {
            use_strategy(planner, i, (int64_t)times);
            used += (int64_t)times;
        }
    }
    return used > 0 ? BERTH_OK : use_largest(planner, sequences, error);
}

// The strategy that fills a row with one length and padding.
static size_t padded_strategy(const struct packing *packing, int length) {
    uint16_t rest = (uint16_t)(packing->length - length), own = (uint16_t)length;
    struct packing_strategy wanted = {{rest > 0 && rest < own ? rest : own}};
    wanted.lengths[1] = rest == 0 ? 0 : rest < own ? own : rest;
    size_t i = 0;
    while (memcmp(&packing->strategies[i], &wanted, sizeof wanted) != 0) {
        i++;
    }
    return i;
}

static enum berth_status mix(struct planner *planner, struct berth_error *error) {
    struct packing *packing = planner->packing;
    for (int i = 1; i <= packing->length; i++) {
        planner->weights[i] = i > SHORT_LENGTH ? 1 : SHORT_LENGTH / (2.0 * packing->length);
    }
    double sequences = find_rest(planner);
    for (int round = 0; round < ROUNDS && sequences >= SEQUENCES_MIN; round++) {
        TRY(mix_once(planner, sequences, error));
        sequences = find_rest(planner);
    }
    for (int i = packing->length; i > 0; i--) {
        while (planner->left[i] > 0) {
            use_strategy(planner, padded_strategy(packing, i), 1);
        }
    }
    return BERTH_OK;
}

// --- assigning sequences -------------------------------------------------------------------------

struct assignment {
    size_t *starts, *next; // [length + 2] the first, and the next, instance of each length in order
    uint32_t *order, *rows;
};

static void assign_rows(struct packing *packing, const struct assignment *assignment,
                        size_t count) {
    for (size_t i = 0; i < count; i++) {
        const struct packing_strategy *strategy = &packing->strategies[assignment->rows[i]];
        struct pretraining_pack pack;
        int real = 0;
        for (int j = 0; j < PRETRAINING_PACK_MAX; j++) {
            uint16_t length = strategy->lengths[j];
            int is_left = length > 0 && assignment->next[length] < assignment->starts[length + 1];
            pack.instances[j] =
                is_left ? assignment->order[assignment->next[length]++] : PRETRAINING_NONE;
            real += is_left;
        }
        if (real > 0) {
            packing->packs[packing->count++] = pack;
        }
    }
}

static enum berth_status assign_sequences(struct packing *packing,
                                          const struct instances *instances,
                                          const int64_t *histogram, uint64_t seed,
                                          struct berth_error *error) {
    size_t lengths = (size_t)packing->length + 2, rows = 0;
    for (size_t i = 0; i < packing->strategy_count; i++) {
        rows += (size_t)packing->counts[i];
        packing->strategies_used += packing->counts[i] > 0;
    }
    struct assignment assignment = {
        .starts = memory_array(lengths, sizeof *assignment.starts),
        .next = memory_array(lengths, sizeof *assignment.next),
        .order = memory_array(instances->count + 1, sizeof *assignment.order),
        .rows = memory_array(rows + 1, sizeof *assignment.rows)};
    packing->packs = memory_array(rows + 1, sizeof *packing->packs);
    int allocated = assignment.starts != NULL && assignment.next != NULL &&
                    assignment.order != NULL && assignment.rows != NULL && packing->packs != NULL;
    if (allocated) {
        // Sorts the instances by length: those of length n are order[starts[n], starts[n + 1]).
        const int length = packing->length;
        size_t *starts = assignment.starts;
        starts[0] = 0;
        for (int i = 0; i <= length; i++) {
            starts[i + 1] = starts[i] + (size_t)histogram[i];
        }
        for (size_t i = instances->count; i-- > 0;) {
            assignment.order[starts[instances->items[i].length]++] = (uint32_t)i;
        }
        for (int i = length; i > 0; i--) {
            starts[i] = starts[i - 1];
        }
        starts[0] = 0;
        memcpy(assignment.next, assignment.starts, lengths * sizeof *assignment.next);
        for (int i = 1; i <= packing->length; i++) {
            rng_shuffle(seed + (uint64_t)i, STREAM_SEQUENCES,
                        assignment.order + assignment.starts[i], (size_t)histogram[i]);
        }
        // The rows of all strategies in a shuffled order, as strategy indices.
        size_t at = 0;
        for (size_t i = 0; i < packing->strategy_count; i++) {
            for (uint64_t j = 0; j < packing->counts[i]; j++) {
                assignment.rows[at++] = (uint32_t)i;
            }
        }
        rng_shuffle(seed, STREAM_ROWS, assignment.rows, rows);
        assign_rows(packing, &assignment, rows);
    }
    memory_free(assignment.starts);
    memory_free(assignment.next);
    memory_free(assignment.order);
    memory_free(assignment.rows);
    return allocated ? BERTH_OK : error_no_memory(error, 16 * (rows + instances->count), "packing");
}

// --- the whole packing ---------------------------------------------------------------------------

static enum berth_status count_lengths(const struct instances *instances, struct planner *planner,
                                       struct berth_error *error) {
    struct packing *packing = planner->packing;
    for (size_t i = 0; i < instances->count; i++) {
        int length = instances->items[i].length;
        if (length < 1 || length > packing->length) {
            return error_set(error, BERTH_BAD_DATA,
                             "instance %zu has %d tokens, but packed rows have %d", i, length,
                             packing->length);
        }
        planner->histogram[length]++;
        packing->tokens += (uint64_t)length;
    }
    packing->sequences = instances->count;
    memcpy(planner->left, planner->histogram,
           ((size_t)packing->length + 1) * sizeof *planner->left);
    return BERTH_OK;
}

static enum berth_status plan(struct planner *planner, const struct instances *instances,
                              uint64_t seed, struct berth_error *error) {
    size_t lengths = (size_t)planner->packing->length + 1;
    struct packing *packing = planner->packing;
    size_t count = packing_strategies(packing->length);
    packing->strategies = memory_array(count, sizeof *packing->strategies);
    packing->counts = memory_array_zeroed(count, sizeof *packing->counts);
    if (packing->strategies == NULL || packing->counts == NULL) {
        return error_no_memory(error, count * 16, "packing strategies");
    }
    packing->strategy_count = list_strategies(packing->length, packing->strategies);
    planner->x = memory_array(planner->packing->strategy_count, sizeof *planner->x);
    planner->weights = memory_array_zeroed(lengths, sizeof *planner->weights);
    planner->rest = memory_array_zeroed(lengths, sizeof *planner->rest);
    planner->histogram = memory_array_zeroed(lengths, sizeof *planner->histogram);
    planner->left = memory_array_zeroed(lengths, sizeof *planner->left);
    if (planner->x == NULL || planner->weights == NULL || planner->rest == NULL ||
        planner->histogram == NULL || planner->left == NULL) {
        return error_no_memory(error, planner->packing->strategy_count * 8, "packing");
    }
    TRY(count_lengths(instances, planner, error));
    TRY(mix(planner, error));
    return assign_sequences(planner->packing, instances, planner->histogram, seed, error);
}

enum berth_status packing_make(const struct instances *instances, int length, uint64_t seed,
                               struct packing *packing, struct berth_error *error) {
    *packing = (struct packing){.length = length};
    if (length < 3 || length > PACKING_LENGTH_MAX || instances->count >= PRETRAINING_NONE) {
        return error_set(
            error, BERTH_BAD_DATA,
            "packed rows of %d tokens: expected 3 to %d, and fewer than 2^32 sequences", length,
            PACKING_LENGTH_MAX);
    }
    struct planner planner = {.packing = packing};
    enum berth_status status = plan(&planner, instances, seed, error);
    memory_free(planner.x);
    memory_free(planner.weights);
    memory_free(planner.rest);
    memory_free(planner.histogram);
    memory_free(planner.left);
    return status;
}

void packing_done(struct packing *packing) {
    memory_free(packing->strategies);
    memory_free(packing->counts);
    memory_free(packing->packs);
    *packing = (struct packing){0};
}

// --- statistics ---------------------------------------------------------------------------------

double packing_efficiency(const struct packing *packing) {
    return (double)packing->tokens / ((double)packing->count * packing->length);
}

double packing_speed_up(const struct packing *packing) {
    return (double)packing->sequences / (double)packing->count;
}

double packing_speed_up_limit(const struct packing *packing) {
    return (double)packing->sequences * packing->length / (double)packing->tokens;
}

// The indices of the most frequently used strategies.
static json *top_strategies(const struct packing *packing) {
    struct ranked best[TOP_STRATEGIES + 1];
    size_t count = 0;
    for (size_t i = 0; i < packing->strategy_count; i++) {
        best[count] = (struct ranked){(double)packing->counts[i], i};
        count += packing->counts[i] > 0;
        qsort(best, count, sizeof *best, by_value_descending);
        count = count > TOP_STRATEGIES ? TOP_STRATEGIES : count;
    }
    json *list = json_new_array();
    int failed = list == NULL;
    for (size_t i = 0; i < count; i++) {
        failed |= json_append(list, json_new_integer((int64_t)best[i].number));
    }
    return json_unless_failed(list, failed);
}

enum berth_status packing_write_metadata(const struct packing *packing, const char *path,
                                         struct berth_error *error) {
    int64_t rows = (int64_t)packing->count, all = (int64_t)packing->sequences;
    int64_t tokens = (int64_t)packing->tokens, length = packing->length;
    double speed_up = packing_speed_up(packing), limit = packing_speed_up_limit(packing);
    json *object = JSON_OBJECT(
        {"avg_seq_per_sample", json_new_real(speed_up)},
        {"compression_ratio", json_new_real(1 - (double)rows / (double)all)},
        {"expected_speed_up", json_new_real(speed_up)},
        {"new_number_of_samples", json_new_integer(rows)},
        {"number_of_sequences_dropped", json_new_integer(0)},
        {"number_of_strategies_utilized", json_new_integer((int64_t)packing->strategies_used)},
        {"original_number_of_samples", json_new_integer(all)},
        {"packing_efficiency", json_new_real(packing_efficiency(packing))},
        {"padding_tokens_original_dataset", json_new_integer(all * length - tokens)},
        {"padding_tokens_packed_dataset", json_new_integer(rows * length - tokens)},
        {"theoretical_speed_up", json_new_real(limit)},
        {"top_8_strategies", top_strategies(packing)});
    enum berth_status status = json_write_file(object, JSON_INDENT_2_SORTED, path, error);
    json_free(object);
    return status;
}
