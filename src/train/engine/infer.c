// SPDX-License-Identifier: Apache-2.0
#include "train/engine/infer.h"

#include "core/memory.h"
#include "train/machine/machine.h"

#include <stdlib.h>

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

// The output of a batch, on the host.
struct host {
    float *logits;
    float *masked_losses; // only for the pre-training head
    unsigned char *masked_hits;
};

static enum berth_status sort_by_length(const struct packer_source *source, uint32_t **order,
                                        struct berth_error *error) {
    struct sorted *sorted = memory_array(source->count, sizeof *sorted);
    *order = memory_array(source->count, sizeof **order);
    if (sorted == NULL || *order == NULL) {
        memory_free(sorted);
        memory_free(*order);
        return error_no_memory(error, source->count * sizeof *sorted, "the order of prediction");
    }
    for (size_t i = 0; i < source->count; i++) {
        sorted[i] = (struct sorted){source->get(source->data, i).length, (uint32_t)i};
    }
    qsort(sorted, source->count, sizeof *sorted, compare);
    for (size_t i = 0; i < source->count; i++) {
        (*order)[i] = sorted[i].index;
    }
    memory_free(sorted);
    return BERTH_OK;
}

enum berth_status infer_find_worst(const struct packer_source *source,
                                   const struct berth_config *config, struct batch_extent *worst,
                                   struct berth_error *error) {
    uint32_t *order;
    TRY(sort_by_length(source, &order, error));
    int64_t budget = INFER_TOKENS;
    if (config->predict_batch_size < INFER_TOKENS / config->max_seq_length) {
        budget = config->predict_batch_size * config->max_seq_length;
    }
    const struct batch_extent limits = {budget, INT64_MAX, INT64_MAX, 0, 0};
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

static enum berth_status host_init(struct host *host, const struct engine *engine,
                                   const struct infer_args *args, struct berth_error *error) {
    const struct bert *model = &engine->model;
    // At most one row per token.
    size_t numbers =
        (size_t)(args->extent->tokens * param_head_outputs(model->table->head, model->config));
    size_t masked = args->take_masked != NULL ? (size_t)args->extent->masked + 1 : 0;
    *host = (struct host){.logits = memory_array(numbers, sizeof *host->logits),
                          .masked_losses = memory_array(masked, sizeof *host->masked_losses),
                          .masked_hits = memory_array(masked, sizeof *host->masked_hits)};
    return host->logits != NULL && host->masked_losses != NULL && host->masked_hits != NULL
               ? BERTH_OK
               : error_no_memory(error, numbers * sizeof *host->logits, "the logits of a batch");
}

static void host_done(struct host *host) {
    memory_free(host->logits);
    memory_free(host->masked_losses);
    memory_free(host->masked_hits);
}

static void run_masked(struct engine *engine, const struct infer_args *args, const uint32_t *order,
                       size_t count, const struct host *host) {
    const struct batch *batch = &engine->batch.batch;
    struct infer_masked masked = {.losses = host->masked_losses, .hits = host->masked_hits};
    struct device *device = engine->state->device;
    size_t tokens = (size_t)batch->masked_count;
    bert_decode(&engine->model, engine->inference, batch);
    device->download(device, host->masked_losses, bert_masked_losses(engine->inference),
                     tokens * sizeof *host->masked_losses);
    device->download(device, host->masked_hits, bert_masked_hits(engine->inference), tokens);
    for (size_t i = 0; i < count; i++) {
        masked.count = args->source->get(args->source->data, order[i]).masked_count;
        args->take_masked(args->context, order[i], &masked);
        masked.losses += masked.count;
        masked.hits += masked.count;
    }
}

static enum berth_status run_batch(struct engine *engine, const struct infer_args *args,
                                   const uint32_t *order, size_t count, const struct host *host,
                                   struct berth_error *error) {
    static const struct bert_dropout none = {0};
    struct device *device = engine->state->device;
    const struct engine_load load = {.source = args->source, .order = order, .count = count};
    bert_forward(&engine->model, engine->inference, engine_load(engine, &load), &none);
    const struct batch *batch = &engine->packer.batch;
    struct mat logits = bert_logits(engine->inference, batch);
    struct bert_rows last = bert_logit_rows(engine->inference, batch, (int64_t)count - 1);
    TRY(device->status(device, error));
    size_t numbers = (size_t)((last.first + last.count) * logits.cols);
    device->download(device, host->logits, logits.data, numbers * sizeof *host->logits);
    for (size_t i = 0; i < count; i++) {
        struct bert_rows rows = bert_logit_rows(engine->inference, batch, (int64_t)i);
        args->take(args->context, order[i], host->logits + rows.first * logits.cols,
                   rows.count * logits.cols);
    }
    if (args->take_masked != NULL) {
        run_masked(engine, args, order, count, host);
    }
    return device->status(device, error);
}

static void count_batch(const struct engine *engine, size_t count, double seconds, int timed,
                        struct infer_result *result) {
    const int64_t tokens = engine->packer.batch.token_count;
    result->sequences += (int64_t)count;
    result->tokens += tokens;
    if (timed) {
        result->seconds += seconds;
        result->timed_sequences += (int64_t)count;
        result->timed_tokens += tokens;
        result->timed_flops += engine_forward_flops(engine);
    }
}

enum berth_status infer_run(struct engine *engine, const struct infer_args *args,
                            struct infer_result *result, struct berth_error *error) {
    *result = (struct infer_result){0};
    const struct packer_source *source = args->source;
    const struct batch_extent limits = {args->extent->tokens, args->extent->sequences, INT64_MAX, 0,
                                        0};
    uint32_t *order;
    TRY(sort_by_length(source, &order, error));
    struct host host;
    enum berth_status status = host_init(&host, engine, args, error);
    for (size_t done = 0; done < source->count && status == BERTH_OK;) {
        if (args->stop != NULL && *args->stop != 0) {
            result->stopped = 1;
            break;
        }
        size_t cut = packer_fit(source, order + done, source->count - done, &limits);
        double begin = machine_seconds();
        status = run_batch(engine, args, order + done, cut, &host, error);
        int timed = done > 0 || cut == source->count;
        count_batch(engine, cut, machine_seconds() - begin, timed, result);
        done += cut;
        log_progress(args->log, args->phase, (int64_t)done, (int64_t)source->count);
    }
    host_done(&host);
    memory_free(order);
    return status;
}
