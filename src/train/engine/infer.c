// SPDX-License-Identifier: Apache-2.0
// Runs a prediction: sorts the sequences by length, cuts them into batches that are the same for
// any number of ranks, divides each round of batches among the ranks, and gathers their numbers on
// rank 0, which hands them to the caller sequence by sequence. Between two rounds, other threads
// that wait for the engine get their turn. What the numbers mean is left to the tasks.
#include "train/engine/infer.h"

#include "core/clock.h"
#include "core/memory.h"
#include "core/stop.h"
#include "train/engine/division.h"

#include <stdlib.h>
#include <string.h>

// Sequences by descending length, ties by index, so that a batch has similar lengths and the
// largest batch comes first.
struct sorted {
    int32_t length;
    uint32_t index;
};

static int compare(const void *a, const void *b) {
    const struct sorted *x = a, *y = b;
    if (x->length != y->length) {
        return x->length > y->length ? -1 : 1;
    }
    return x->index < y->index ? -1 : x->index > y->index;
}

static enum berth_status sort_by_length(const struct packer_source *source, uint32_t **order,
                                        struct berth_error *error) {
    struct sorted *sorted = memory_array(source->count, sizeof *sorted);
    *order = memory_array(source->count, sizeof **order);
    if (sorted == NULL || *order == NULL) {
        memory_free(sorted);
        memory_free(*order);
        *order = NULL;
        return error_no_memory(error, source->count * sizeof *sorted, "the order of prediction");
    }
    for (size_t i = 0; i < source->count; i++) {
        sorted[i] =
            (struct sorted){.length = source->get(source->data, i).length, .index = (uint32_t)i};
    }
    qsort(sorted, source->count, sizeof *sorted, compare);
    for (size_t i = 0; i < source->count; i++) {
        (*order)[i] = sorted[i].index;
    }
    memory_free(sorted);
    return BERTH_OK;
}

enum berth_status infer_find_worst(const struct packer_source *source, int64_t sequences,
                                   int64_t length, struct batch_extent *worst,
                                   struct berth_error *error) {
    uint32_t *order;
    TRY(sort_by_length(source, &order, error));
    int64_t budget = INFER_TOKENS;
    if (sequences < INFER_TOKENS / length) {
        budget = sequences * length;
    }
    const struct batch_extent limits = {
        .tokens = budget, .sequences = INT64_MAX, .masked = INT64_MAX};
    *worst = (struct batch_extent){.tokens = 1, .sequences = 1, .max_length = 1};
    for (size_t done = 0; done < source->count;) {
        size_t cut = packer_fit(source, order + done, source->count - done, &limits);
        const struct batch_extent own = packer_extent(source, order + done, cut);
        *worst = batch_extent_larger(worst, &own);
        done += cut;
    }
    memory_free(order);
    return BERTH_OK;
}

// --- the batches --------------------------------------------------------------------------------

// Batches that each rank computes between two exchanges; a single process computes one. Few,
// because only an exchange shows that a rank was asked to stop or has failed.
#define ROUND_BATCHES 4

// Number of masked tokens whose logits over the vocabulary are on the host at a time.
#define WORDS_ROWS BATCH_ROUNDING

// A prediction. Batch b has the sequences order[starts[b] .. starts[b + 1]).
struct prediction {
    struct engine *engine;
    const struct infer_args *args;
    struct infer_result *result;
    uint32_t *order;
    size_t *starts, batch_count;
    size_t round;             // batches of all ranks between two exchanges
    struct division division; // of a round's batches
    // The results of a round, rank by rank and batch by batch; until the exchange only this rank's.
    // A sequence has its logits, then its masked tokens' losses and hits; or what extract_words
    // made of the logits of its masked tokens.
    float *results;
    int64_t *rank_starts,
        *cursors; // [ranks + 1] where each rank's results begin; how far they were read
    // The output of a batch on the host.
    float *logits;
    float *masked_losses; // only for a head that decodes
    unsigned char *masked_hits;
    float *words;   // [WORDS_ROWS][V], with extract_words
    size_t *owners; // likewise: [masked tokens] of a batch, the sequence of each
};

static struct packer_sequence sequence_at(const struct prediction *prediction, size_t position) {
    const struct packer_source *source = prediction->args->source;
    return source->get(source->data, prediction->order[position]);
}

// How many numbers `receive` gets of the sequence at a position of the order.
static int64_t numbers_at(const struct prediction *prediction, size_t position) {
    const struct infer_args *args = prediction->args;
    if (args->extract_words != NULL) {
        return args->extracted_count * sequence_at(prediction, position).masked_count;
    }
    return bert_logit_count(&prediction->engine->model, sequence_at(prediction, position).length);
}

static int64_t masked_at(const struct prediction *prediction, size_t position) {
    return prediction->args->receive_masked != NULL ? sequence_at(prediction, position).masked_count
                                                    : 0;
}

static int64_t batch_numbers(const struct prediction *prediction, size_t batch) {
    int64_t count = 0;
    for (size_t i = prediction->starts[batch]; i < prediction->starts[batch + 1]; i++) {
        count += numbers_at(prediction, i) + 2 * masked_at(prediction, i);
    }
    return count;
}

static size_t round_end(const struct prediction *prediction, size_t first) {
    return first + prediction->round < prediction->batch_count ? first + prediction->round
                                                               : prediction->batch_count;
}

static int64_t max_round_numbers(const struct prediction *prediction) {
    int64_t max = 0;
    for (size_t first = 0; first < prediction->batch_count; first += prediction->round) {
        int64_t count = 0;
        for (size_t i = first; i < round_end(prediction, first); i++) {
            count += batch_numbers(prediction, i);
        }
        max = count > max ? count : max;
    }
    return max;
}

// The largest number of logits of a batch.
static int64_t max_batch_logits(const struct prediction *prediction) {
    int64_t max = 0;
    for (size_t batch = 0; batch < prediction->batch_count; batch++) {
        int64_t count = 0;
        for (size_t i = prediction->starts[batch]; i < prediction->starts[batch + 1]; i++) {
            count +=
                bert_logit_count(&prediction->engine->model, sequence_at(prediction, i).length);
        }
        max = count > max ? count : max;
    }
    return max;
}

size_t infer_bytes(const struct bert *model, const struct packer_source *source,
                   const struct batch_extent *extent, int ranks) {
    const int64_t per_token = bert_logit_count(model, extent->tokens);
    const int64_t per_sequence = extent->sequences * bert_logit_count(model, 1);
    const int64_t logits = per_token > per_sequence ? per_token : per_sequence;
    const int64_t masked = param_head_decodes(model->table->head) ? extent->masked : 0;
    int64_t all = 0;
    for (size_t i = 0; i < source->count; i++) {
        const struct packer_sequence sequence = source->get(source->data, i);
        all +=
            bert_logit_count(model, sequence.length) + (masked > 0 ? 2 * sequence.masked_count : 0);
    }
    const int64_t round = (ranks > 1 ? ranks * ROUND_BATCHES : 1) * (logits + 2 * masked);
    const struct prediction *p = NULL;
    return source->count * (2 * sizeof(struct sorted) + sizeof *p->order + sizeof *p->starts) +
           (size_t)logits * sizeof *p->logits +
           (size_t)(round < all ? round : all) * sizeof *p->results +
           (size_t)masked * (sizeof *p->masked_losses + sizeof *p->masked_hits);
}

static enum berth_status make_batches(struct prediction *prediction, struct berth_error *error) {
    const struct infer_args *args = prediction->args;
    const size_t ranks = (size_t)prediction->engine->comm->size;
    TRY(sort_by_length(args->source, &prediction->order, error));
    prediction->starts = memory_array(args->source->count + 1, sizeof *prediction->starts);
    if (prediction->starts == NULL) {
        return error_no_memory(error, args->source->count * sizeof *prediction->starts,
                               "the batches of a prediction");
    }
    const enum param_head head = prediction->engine->model.table->head;
    const struct batch_extent limits = {.tokens = args->extent->tokens,
                                        .sequences = args->extent->sequences,
                                        .masked = param_head_decodes(head) ? args->extent->masked
                                                                           : INT64_MAX};
    const size_t count = args->source->count;
    prediction->batch_count = 0;
    prediction->starts[0] = 0;
    for (size_t done = 0; done < count;) {
        done += packer_fit(args->source, prediction->order + done, count - done, &limits);
        prediction->starts[++prediction->batch_count] = done;
    }
    prediction->round = ranks > 1 ? ranks * ROUND_BATCHES : 1;
    return division_init(&prediction->division, ranks, prediction->round, error);
}

static enum berth_status allocate_words(struct prediction *prediction, struct berth_error *error) {
    const struct infer_args *args = prediction->args;
    const size_t words =
        (size_t)prediction->engine->model.config->vocab_size + BERT_LOGITS_UNIT; // a row's stride
    const size_t masked = (size_t)args->extent->masked;
    prediction->words = memory_array(WORDS_ROWS * words, sizeof *prediction->words);
    prediction->owners = memory_array(masked, sizeof *prediction->owners);
    return prediction->words != NULL && prediction->owners != NULL
               ? BERTH_OK
               : error_no_memory(error,
                                 WORDS_ROWS * words * sizeof(float) + masked * sizeof(size_t),
                                 "the logits of masked tokens");
}

static enum berth_status allocate(struct prediction *prediction, struct berth_error *error) {
    const struct infer_args *args = prediction->args;
    const size_t numbers = (size_t)max_batch_logits(prediction);
    const size_t masked = args->receive_masked != NULL ? (size_t)args->extent->masked + 1 : 0;
    const size_t results = (size_t)max_round_numbers(prediction);
    const size_t ranks = (size_t)prediction->engine->comm->size;
    if (args->extract_words != NULL) {
        TRY(allocate_words(prediction, error));
    }
    prediction->logits = memory_array(numbers, sizeof *prediction->logits);
    prediction->masked_losses = memory_array(masked, sizeof *prediction->masked_losses);
    prediction->masked_hits = memory_array(masked, sizeof *prediction->masked_hits);
    prediction->results = memory_array(results, sizeof *prediction->results);
    prediction->rank_starts = memory_array(ranks + 1, sizeof *prediction->rank_starts);
    prediction->cursors = memory_array(ranks, sizeof *prediction->cursors);
    return prediction->logits != NULL && prediction->masked_losses != NULL &&
                   prediction->masked_hits != NULL && prediction->results != NULL &&
                   prediction->rank_starts != NULL && prediction->cursors != NULL
               ? BERTH_OK
               : error_no_memory(error, (numbers + results) * sizeof(float),
                                 "the logits of a batch");
}

static enum berth_status prepare(struct prediction *prediction, struct berth_error *error) {
    enum berth_status status = make_batches(prediction, error);
    if (status == BERTH_OK) {
        status = allocate(prediction, error);
    }
    return comm_settle(prediction->engine->comm, status, error);
}

// --- one batch ----------------------------------------------------------------------------------

static void download_masked(struct prediction *prediction) {
    struct engine *engine = prediction->engine;
    const struct batch *batch = &engine->batch.batch;
    struct device *device = engine->state->device;
    const size_t tokens = (size_t)batch->masked_count;
    bert_decode(&engine->model, engine->inference, batch);
    device->download(device, prediction->masked_losses, bert_masked_losses(engine->inference),
                     tokens * sizeof *prediction->masked_losses);
    device->download(device, prediction->masked_hits, bert_masked_hits(engine->inference), tokens);
}

// The results of a batch are in the order of its masked tokens.
static void extract_words(struct prediction *prediction, size_t number, float *to) {
    const struct infer_args *args = prediction->args;
    struct engine *engine = prediction->engine;
    const struct batch *batch = &engine->batch.batch;
    struct device *device = engine->state->device;
    size_t count = 0;
    for (size_t i = prediction->starts[number]; i < prediction->starts[number + 1]; i++) {
        for (int64_t left = sequence_at(prediction, i).masked_count; left > 0; left--) {
            prediction->owners[count++] = prediction->order[i];
        }
    }
    for (int64_t first = 0; first < batch->masked_count; first += WORDS_ROWS) {
        const int64_t left = batch->masked_count - first;
        const int64_t rows = left < WORDS_ROWS ? left : WORDS_ROWS;
        const struct mat logits =
            bert_decode_logits(&engine->model, engine->inference, batch, first, rows);
        device->download(device, prediction->words, logits.data,
                         (size_t)(rows * logits.stride) * sizeof(float));
#pragma omp parallel for num_threads(device->threads)
        for (int64_t i = 0; i < rows; i++) {
            args->extract_words(args->context, prediction->owners[first + i],
                                prediction->words + i * logits.stride, logits.cols,
                                to + (first + i) * args->extracted_count);
        }
    }
}

// The logits of a batch, sequence by sequence.
static void copy_batch(const struct prediction *prediction, size_t batch, float *to) {
    const struct engine *engine = prediction->engine;
    const struct batch *packed = &engine->packer.batch;
    const size_t first = prediction->starts[batch];
    const int64_t columns = bert_logits(&engine->model, engine->inference, packed).cols;
    int64_t masked = 0;
    for (size_t i = first; i < prediction->starts[batch + 1]; i++) {
        const struct bert_rows rows = bert_logit_rows(&engine->model, packed, (int64_t)(i - first));
        memcpy(to, prediction->logits + rows.first * columns,
               (size_t)(rows.count * columns) * sizeof *to);
        to += rows.count * columns;
        const int64_t end = masked + masked_at(prediction, i), count = end - masked;
        for (; masked < end; masked++, to++) {
            to[0] = prediction->masked_losses[masked];
            to[count] = prediction->masked_hits[masked];
        }
        to += count;
    }
}

static enum berth_status run_batch(struct prediction *prediction, size_t number, float *to,
                                   struct berth_error *error) {
    static const struct bert_dropout none = {0};
    struct engine *engine = prediction->engine;
    struct device *device = engine->state->device;
    const size_t first = prediction->starts[number];
    const struct engine_load load = {.source = prediction->args->source,
                                     .order = prediction->order + first,
                                     .count = prediction->starts[number + 1] - first};
    bert_forward(&engine->model, engine->inference, engine_load(engine, &load), &none);
    const struct batch *batch = &engine->packer.batch;
    const struct mat logits = bert_logits(&engine->model, engine->inference, batch);
    const struct bert_rows last = bert_logit_rows(&engine->model, batch, batch->sequence_count - 1);
    TRY(device->status(device, error));
    device->download(device, prediction->logits, logits.data,
                     (size_t)((last.first + last.count) * logits.cols) * sizeof(float));
    if (prediction->args->receive_masked != NULL) {
        download_masked(prediction);
    }
    if (prediction->args->extract_words != NULL) {
        extract_words(prediction, number, to);
        return device->status(device, error);
    }
    TRY(device->status(device, error));
    copy_batch(prediction, number, to);
    return BERTH_OK;
}

// --- a round ------------------------------------------------------------------------------------

// Divides the batches [first, end) among the ranks by predicted time.
static void divide(struct prediction *prediction, size_t first, size_t end) {
    struct division *division = &prediction->division;
    for (size_t i = first; i < end; i++) {
        const struct bert *model = &prediction->engine->model;
        double flops = 0;
        for (size_t k = prediction->starts[i]; k < prediction->starts[i + 1]; k++) {
            const int64_t length = sequence_at(prediction, k).length;
            flops += bert_forward_flops(model->config, length) +
                     bert_head_flops(model, length, 1, masked_at(prediction, k));
        }
        division->costs[i - first] = flops;
    }
    division_by_cost(division, end - first, end - first);
    int64_t offset = 0;
    for (size_t rank = 0; rank < division->parts; rank++) {
        prediction->rank_starts[rank] = offset;
        for (size_t i = division->starts[rank]; i < division->starts[rank + 1]; i++) {
            offset += batch_numbers(prediction, first + (size_t)division->indices[i]);
        }
    }
    prediction->rank_starts[division->parts] = offset;
}

static enum berth_status run_own(struct prediction *prediction, size_t first, double *flops,
                                 struct berth_error *error) {
    const struct division *division = &prediction->division;
    const int rank = prediction->engine->comm->rank;
    float *to = prediction->results + prediction->rank_starts[rank];
    for (size_t i = division->starts[rank]; i < division->starts[rank + 1]; i++) {
        const size_t batch = first + (size_t)division->indices[i];
        TRY(run_batch(prediction, batch, to, error));
        *flops += engine_forward_flops(prediction->engine);
        to += batch_numbers(prediction, batch);
    }
    return BERTH_OK;
}

// Returns the end of the sequence's results.
static const float *deliver_sequence(const struct prediction *prediction, size_t position,
                                     const float *results) {
    const struct infer_args *args = prediction->args;
    const int64_t count = numbers_at(prediction, position),
                  masked = masked_at(prediction, position);
    const uint32_t index = prediction->order[position];
    args->receive(args->context, index, results, count);
    results += count;
    if (args->receive_masked != NULL) {
        args->receive_masked(args->context, index,
                             &(struct infer_masked){results, results + masked, masked});
    }
    return results + 2 * masked;
}

// In the order of the batches, whichever rank computed them.
static void deliver_results(const struct prediction *prediction, size_t first, size_t end) {
    memcpy(prediction->cursors, prediction->rank_starts,
           prediction->division.parts * sizeof *prediction->cursors);
    for (size_t batch = first; batch < end; batch++) {
        int64_t *cursors = &prediction->cursors[prediction->division.owners[batch - first]];
        const float *results = prediction->results + *cursors;
        for (size_t i = prediction->starts[batch]; i < prediction->starts[batch + 1]; i++) {
            results = deliver_sequence(prediction, i, results);
        }
        *cursors = results - prediction->results;
    }
}

static void count_round(const struct prediction *prediction, size_t first, size_t end,
                        double seconds, double flops) {
    struct infer_result *result = prediction->result;
    const int is_timed = first > 0 || end == prediction->batch_count;
    const int64_t sequences = (int64_t)(prediction->starts[end] - prediction->starts[first]);
    int64_t tokens = 0;
    for (size_t i = prediction->starts[first]; i < prediction->starts[end]; i++) {
        tokens += sequence_at(prediction, i).length;
    }
    result->sequences += sequences;
    result->tokens += tokens;
    result->seconds += seconds;
    if (is_timed) {
        result->timed_seconds += seconds;
        result->timed_sequences += sequences;
        result->timed_tokens += tokens;
        result->timed_flops += flops;
    }
}

static enum berth_status run_round(struct prediction *prediction, size_t first, size_t end,
                                   struct berth_error *error) {
    struct comm *comm = prediction->engine->comm;
    const struct infer_args *args = prediction->args;
    const double begin = clock_now();
    int *stopped = &prediction->result->stopped;
    double flops = 0;
    *stopped = stop_interrupts(args->stop);
    divide(prediction, first, end);
    const enum berth_status status =
        *stopped ? BERTH_OK : run_own(prediction, first, &flops, error);
    TRY(comm_settle_stop(comm, status, stopped, error));
    if (*stopped) {
        return BERTH_OK;
    }
    const struct comm_range range = {.name = "results",
                                     .data = prediction->results,
                                     .count = prediction->rank_starts[comm->size],
                                     .dtype = DTYPE_F32,
                                     .wire = DTYPE_F32,
                                     .starts = prediction->rank_starts};
    comm->wait(comm, comm->gather_begin(comm, &range));
    TRY(comm->status(comm, error));
    if (comm->rank == 0) {
        deliver_results(prediction, first, end);
    }
    count_round(prediction, first, end, clock_now() - begin, flops);
    log_progress(args->log, args->phase, (int64_t)prediction->starts[end],
                 (int64_t)args->source->count);
    return BERTH_OK;
}

enum berth_status infer_run(struct engine *engine, const struct infer_args *args,
                            struct infer_result *result, struct berth_error *error) {
    struct prediction prediction = {.engine = engine, .args = args, .result = result};
    *result = (struct infer_result){0};
    engine->model.reads_rows = args->reads_rows;
    enum berth_status status = prepare(&prediction, error);
    for (size_t first = 0;
         first < prediction.batch_count && status == BERTH_OK && !result->stopped;) {
        const size_t end = round_end(&prediction, first);
        status = run_round(&prediction, first, end, error);
        if (status == BERTH_OK && !result->stopped && end < prediction.batch_count) {
            // Lets other threads that wait for the engine run one of their rounds.
            struct fair_lock *lock = prediction.args->lock;
            struct bert *model = &prediction.engine->model;
            if (lock != NULL) {
                fair_lock_release(lock);
                fair_lock_acquire(lock);
                model->reads_rows = prediction.args->reads_rows;
            }
        }
        first = end;
    }
    division_done(&prediction.division);
    memory_free(prediction.order);
    memory_free(prediction.starts);
    memory_free(prediction.results);
    memory_free(prediction.rank_starts);
    memory_free(prediction.cursors);
    memory_free(prediction.logits);
    memory_free(prediction.masked_losses);
    memory_free(prediction.masked_hits);
    memory_free(prediction.words);
    memory_free(prediction.owners);
    return status;
}
