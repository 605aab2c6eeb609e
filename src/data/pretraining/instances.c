// SPDX-License-Identifier: Apache-2.0
// Makes pre-training instances. The order of the random draws is part of the result: every draw
// below is where the published script makes it. The instance stage calls it for each shard; masked
// words are chosen by masking.c.
#include "data/pretraining/instances.h"

#include "core/checksum.h"
#include "core/memory.h"
#include "data/pretraining/draws.h"
#include "data/pretraining/masking.h"

#include <math.h>
#include <string.h>

// --- state --------------------------------------------------------------------------------------

struct maker {
    const struct documents *documents;
    const struct instance_options *options;
    struct instances *instances;
    struct draws draws;
    uint32_t *order; // of the documents
    struct masking masking;
};

// A run of tokens of the documents; truncating the pair shortens it at both ends.
struct span {
    const int32_t *tokens;
    const unsigned char *continues;
    size_t count;
};

static struct span span_of(const struct maker *maker, size_t first, size_t end) {
    const struct documents *documents = maker->documents;
    const uint64_t begin = documents->sentences[first];
    return (struct span){documents->tokens + begin, documents->continues + begin,
                         (size_t)(documents->sentences[end] - begin)};
}

// --- memory --------------------------------------------------------------------------------------

static enum berth_status no_memory(size_t count, size_t size, struct berth_error *error) {
    return error_no_memory(error, count * size, "pre-training instances");
}

enum berth_status instances_reserve(struct instances *to, size_t tokens, size_t predictions,
                                    struct berth_error *error) {
    struct instance *items = memory_grow(to->items, &to->capacity, to->count + 1, sizeof *items);
    if (items == NULL) {
        return no_memory(to->count + 1, sizeof *items, error);
    }
    to->items = items;
    tokens += to->token_count;
    int32_t *ids = memory_grow(to->tokens, &to->token_capacity, tokens, sizeof *ids);
    if (ids == NULL) {
        return no_memory(tokens, sizeof *ids, error);
    }
    to->tokens = ids;
    predictions += to->prediction_count;
    size_t position_capacity = to->prediction_capacity; // of the labels
    uint16_t *positions =
        memory_grow(to->positions, &position_capacity, predictions, sizeof *positions);
    if (positions == NULL) {
        return no_memory(predictions, sizeof *positions, error);
    }
    to->positions = positions;
    int32_t *labels =
        memory_grow(to->labels, &to->prediction_capacity, predictions, sizeof *labels);
    if (labels == NULL) {
        return no_memory(predictions, sizeof *labels, error);
    }
    to->labels = labels;
    return BERTH_OK;
}

enum berth_status instances_select(const struct instances *from, const uint32_t *chosen,
                                   size_t count, struct instances *to, struct berth_error *error) {
    size_t tokens = 0, predictions = 0;
    for (size_t i = 0; i < count; i++) {
        tokens += from->items[chosen[i]].length;
        predictions += from->items[chosen[i]].prediction_count;
    }
    to->items = memory_array(count + 1, sizeof *to->items);
    to->tokens = memory_array(tokens + 1, sizeof *to->tokens);
    to->positions = memory_array(predictions + 1, sizeof *to->positions);
    to->labels = memory_array(predictions + 1, sizeof *to->labels);
    if (to->items == NULL || to->tokens == NULL || to->positions == NULL || to->labels == NULL) {
        return no_memory(tokens, sizeof *to->tokens, error);
    }
    for (size_t i = 0; i < count; i++) {
        const struct instance *item = &from->items[chosen[i]];
        struct instance *copy = &to->items[to->count++];
        *copy = *item;
        copy->tokens = to->token_count;
        copy->predictions = to->prediction_count;
        memcpy(to->tokens + to->token_count, from->tokens + item->tokens,
               item->length * sizeof *to->tokens);
        memcpy(to->positions + to->prediction_count, from->positions + item->predictions,
               item->prediction_count * sizeof *to->positions);
        memcpy(to->labels + to->prediction_count, from->labels + item->predictions,
               item->prediction_count * sizeof *to->labels);
        to->token_count += item->length;
        to->prediction_count += item->prediction_count;
    }
    return BERTH_OK;
}

void instances_done(struct instances *instances) {
    memory_free(instances->items);
    memory_free(instances->tokens);
    memory_free(instances->positions);
    memory_free(instances->labels);
    *instances = (struct instances){0};
}

// --- pairs --------------------------------------------------------------------------------------

// The longer segment loses tokens until both are equally long; then they take turns, B first. Only
// CPython's generator needs the tosses one at a time; otherwise a turn takes several tokens.
static void truncate_pair(struct maker *maker, struct span *a, struct span *b) {
    const size_t limit = (size_t)maker->options->max_length - 3;
    while (a->count + b->count > limit) {
        struct span *longer = a->count > b->count ? a : b;
        const size_t excess = a->count + b->count - limit;
        size_t more = longer->count - (longer == a ? b : a)->count;
        if (more == 0) {
            more = maker->draws.is_python ? 1 : (excess + 1) / 2;
        }
        // A coin toss for each token decides whether it is cut off at the front or at the end.
        const size_t tokens = more < excess ? more : excess;
        const size_t heads = draws_heads(&maker->draws, tokens);
        longer->tokens += heads;
        longer->continues += heads;
        longer->count -= tokens;
    }
}

static void put_special(struct instances *to, int32_t token) {
    to->tokens[to->token_count++] = token;
}

// Puts tokens at place `at` of an instance.
static void put_span(struct maker *maker, const struct span *span, size_t at) {
    struct instances *to = maker->instances;
    memcpy(to->tokens + to->token_count, span->tokens, span->count * sizeof *span->tokens);
    memcpy(maker->masking.continues + at, span->continues, span->count);
    to->token_count += span->count;
}

static enum berth_status put_pair(struct maker *maker, struct span a, struct span b, int is_random,
                                  struct berth_error *error) {
    struct instances *to = maker->instances;
    const size_t limit = (size_t)maker->options->max_length;
    TRY(instances_reserve(maker->instances, limit, limit, error));
    const size_t tokens = a.count + b.count;
    truncate_pair(maker, &a, &b);
    to->counts.cut += tokens > 2 * (a.count + b.count);
    struct instance *instance = &to->items[to->count++];
    *instance = (struct instance){.tokens = to->token_count,
                                  .length = (uint16_t)(a.count + b.count + 3),
                                  .second = (uint16_t)(a.count + 2),
                                  .is_random = (uint8_t)is_random};
    put_special(to, maker->options->cls);
    put_span(maker, &a, 1);
    put_special(to, maker->options->sep);
    put_span(maker, &b, instance->second);
    put_special(to, maker->options->sep);
    to->counts.random_next += (uint64_t)is_random;
    masking_apply(&maker->masking, instance);
    return BERTH_OK;
}

// A document that is being split into chunks.
struct document {
    size_t index;      // index in the shuffled order
    size_t first, end; // its sentences
    size_t target;     // tokens of a chunk
};

static struct document document_at(const struct maker *maker, size_t index) {
    const uint32_t *documents = maker->documents->documents;
    uint32_t number = maker->order[index];
    return (struct document){
        .index = index, .first = documents[number], .end = documents[number + 1]};
}

// A random run of sentences that reaches the target with A, if its document is long enough. After
// ten attempts it may come from this document; then the pair does not count as random.
static struct span random_next(struct maker *maker, const struct document *document, size_t a_count,
                               int *is_random) {
    size_t index = document->index;
    for (int i = 0; i < 10 && (i == 0 || index == document->index); i++) {
        index = draws_below(&maker->draws, (uint32_t)maker->documents->count);
    }
    *is_random = index != document->index;
    struct document other = document_at(maker, index);
    size_t start = other.first + draws_below(&maker->draws, (uint32_t)(other.end - other.first));
    size_t end = start + 1;
    while (end < other.end && span_of(maker, start, end).count + a_count < document->target) {
        end++;
    }
    return span_of(maker, start, end);
}

// Makes an instance from the sentences [first, *next); sets *next to the sentence to continue with.
static enum berth_status put_chunk(struct maker *maker, const struct document *document,
                                   size_t first, size_t *next, struct berth_error *error) {
    size_t count = *next - first;
    size_t a_end = first + 1 + (count > 1 ? draws_below(&maker->draws, (uint32_t)count - 1) : 0);
    struct span a = span_of(maker, first, a_end), b;
    int is_random = 0;
    if (count == 1 || draws_real(&maker->draws) < 0.5) {
        b = random_next(maker, document, a.count, &is_random);
        *next = a_end; // the rest is used again
    } else {
        b = span_of(maker, a_end, *next);
    }
    return put_pair(maker, a, b, is_random, error);
}

static enum berth_status put_document(struct maker *maker, size_t index,
                                      struct berth_error *error) {
    struct document document = document_at(maker, index);
    size_t limit = (size_t)maker->options->max_length - 3;
    document.target = limit;
    if (draws_real(&maker->draws) < maker->options->short_seq_prob) {
        document.target = 2 + draws_below(&maker->draws, (uint32_t)limit - 1);
        maker->instances->counts.short_target++;
    }
    size_t first = document.first;
    for (size_t next = first; next < document.end;) {
        if (maker->options->stop != NULL && *maker->options->stop != 0) {
            return error_set(error, BERTH_INTERRUPTED, "stopped before the instances were made");
        }
        next++;
        if (next == document.end || span_of(maker, first, next).count >= document.target) {
            TRY(put_chunk(maker, &document, first, &next, error));
            first = next;
        }
    }
    return BERTH_OK;
}

// --- a shard ------------------------------------------------------------------------------------

enum berth_status instance_options_check(const struct instance_options *options,
                                         struct berth_error *error) {
    const struct {
        const char *name;
        double value, min, max;
    } numbers[] = {{"max_seq_length", options->max_length, 5, INSTANCE_LENGTH_MAX},
                   {"max_predictions_per_seq", options->max_predictions, 1, INT32_MAX},
                   {"dupe_factor", options->dupe_factor, 1, INT32_MAX},
                   {"masked_lm_prob", options->masked_lm_prob, 1e-6, 1},
                   {"short_seq_prob", options->short_seq_prob, 0, 1},
                   {"vocab_size", options->vocab_size, 1, INT32_MAX}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (!(numbers[i].value >= numbers[i].min && numbers[i].value <= numbers[i].max)) {
            return error_set(error, BERTH_BAD_DATA,
                             "pre-training instances: %s: expected %.10g to %.10g, found %.10g",
                             numbers[i].name, numbers[i].min, numbers[i].max, numbers[i].value);
        }
    }
    return BERTH_OK;
}

static enum berth_status make_all(struct maker *maker, struct berth_error *error) {
    size_t count = maker->documents->count;
    maker->order = memory_array(count + 1, sizeof *maker->order);
    if (maker->order == NULL) {
        return error_no_memory(error, 4 * count, "pre-training instances");
    }
    TRY(masking_reserve(&maker->masking, error));
    for (size_t i = 0; i < count; i++) {
        maker->order[i] = (uint32_t)i;
    }
    draws_shuffle(&maker->draws, maker->order, count);
    for (int round = 0; round < maker->options->dupe_factor; round++) {
        for (size_t i = 0; i < count; i++) {
            TRY(put_document(maker, i, error));
        }
    }
    // Shuffles the instances.
    struct instances *to = maker->instances;
    if (to->count >= UINT32_MAX) {
        return error_set(error, BERTH_BAD_DATA, "too many instances: use more shards");
    }
    for (size_t i = to->count; i-- > 1;) {
        uint32_t j = draws_below(&maker->draws, (uint32_t)i + 1);
        struct instance instance = to->items[i];
        to->items[i] = to->items[j];
        to->items[j] = instance;
    }
    return BERTH_OK;
}

// The random stream of a shard depends on its content. If shards shared a stream, all would mask
// the same positions and insert the same few ids. The content rather than the name, so that a text
// gives the same instances whatever its file is called, alone or as one of several shards.
static uint32_t stream_of(const struct documents *documents) {
    if (documents->count == 0) {
        return 0;
    }
    uint64_t sum = checksum_bytes(documents->tokens, documents->token_count * sizeof(int32_t));
    sum = checksum_add(sum, checksum_bytes(documents->sentences,
                                           (documents->sentence_count + 1) * sizeof(uint64_t)));
    sum = checksum_add(
        sum, checksum_bytes(documents->documents, (documents->count + 1) * sizeof(uint32_t)));
    return (uint32_t)sum;
}

enum berth_status instances_make(const struct documents *documents,
                                 const struct instance_options *options,
                                 struct instances *instances, struct berth_error *error) {
    TRY(instance_options_check(options, error));
    if (documents->count >= UINT32_MAX) {
        return error_set(error, BERTH_BAD_DATA, "too many documents: use more shards");
    }
    struct maker maker = {.documents = documents, .options = options, .instances = instances};
    maker.draws = draws_begin(options->seed, stream_of(documents), options->python);
    maker.masking =
        (struct masking){.options = options, .draws = &maker.draws, .instances = instances};
    enum berth_status status = make_all(&maker, error);
    memory_free(maker.order);
    masking_done(&maker.masking);
    return status;
}

// --- the source for the packer -------------------------------------------------------------------

#define EIGHT(x) x, x, x, x, x, x, x, x

// The segment ids of any sequence are a slice of this array around the border between zeros and
// ones.
static const int8_t segments[2 * INSTANCE_LENGTH_MAX] = {
    [INSTANCE_LENGTH_MAX] = EIGHT(EIGHT(EIGHT(EIGHT(1)))), EIGHT(EIGHT(EIGHT(EIGHT(1))))};
_Static_assert(INSTANCE_LENGTH_MAX == 8 * 8 * 8 * 8 * 2, "as many ones as zeros");

static struct packer_sequence sequence_of(const void *data, size_t index) {
    const struct instances *instances = data;
    const struct instance *instance = &instances->items[index];
    return (struct packer_sequence){
        .ids = instances->tokens + instance->tokens,
        .type_ids = segments + INSTANCE_LENGTH_MAX - instance->second,
        .length = instance->length,
        .label = instance->is_random,
        .target = NAN,
        .masked_positions = instances->positions + instance->predictions,
        .masked_labels = instances->labels + instance->predictions,
        .masked_count = instance->prediction_count,
    };
}

struct packer_source instance_source(const struct instances *instances) {
    return (struct packer_source){.get = sequence_of, .data = instances, .count = instances->count};
}
