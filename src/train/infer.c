// SPDX-License-Identifier: Apache-2.0
#include "train/infer.h"

#include "core/memory.h"
#include "train/machine.h"

#include <stdlib.h>

// Sequences by descending length, ties by index: neighbours are alike, and the largest batch comes
// first.
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
                                   const struct berth_config *config, struct infer_shape *shape,
                                   struct berth_error *error) {
    uint32_t *order;
    TRY(sort_by_length(source, &order, error));
    int64_t budget = INFER_TOKENS;
    if (config->predict_batch_size < INFER_TOKENS / config->max_seq_length) {
        budget = config->predict_batch_size * config->max_seq_length;
    }
    const struct packer_limits limits = {budget, INT64_MAX, INT64_MAX};
    *shape = (struct infer_shape){.max_length = 1};
    int64_t most_tokens = 1, most_sequences = 1;
    for (size_t done = 0; done < source->count;) {
        size_t cut = packer_fit(source, order + done, source->count - done, &limits);
        int64_t tokens = 0;
        for (size_t i = 0; i < cut; i++) {
            tokens += source->get(source->data, order[done + i]).length;
        }
        if (done == 0) {
            shape->max_length = source->get(source->data, order[0]).length;
        }
        most_tokens = tokens > most_tokens ? tokens : most_tokens;
        most_sequences = (int64_t)cut > most_sequences ? (int64_t)cut : most_sequences;
        done += cut;
    }
    shape->tokens = most_tokens;
    shape->sequences = most_sequences;
    memory_free(order);
    return BERTH_OK;
}

static enum berth_status run_batch(struct trainer *trainer, const struct infer_args *args,
                                   const uint32_t *order, size_t count, float *host,
                                   struct berth_error *error) {
    static const struct bert_dropout none = {0};
    struct device *device = trainer->state->device;
    packer_fill(&trainer->packer, args->source, order, count, 0);
    const struct batch *batch = &trainer->packer.batch;
    bert_forward(&trainer->model, trainer->inference, batch, &none);
    struct mat logits = bert_logits(trainer->inference, batch);
    struct bert_rows last = bert_logit_rows(trainer->inference, batch, (int64_t)count - 1);
    TRY(device->status(device, error));
    size_t numbers = (size_t)((last.first + last.count) * logits.cols);
    device->download(device, host, logits.data, numbers * sizeof *host);
    for (size_t i = 0; i < count; i++) {
        struct bert_rows rows = bert_logit_rows(trainer->inference, batch, (int64_t)i);
        args->take(args->context, order[i], host + rows.first * logits.cols,
                   rows.count * logits.cols);
    }
    return BERTH_OK;
}

static void count_batch(const struct trainer *trainer, size_t count, double seconds, int timed,
                        struct infer_result *result) {
    const struct batch *batch = &trainer->packer.batch;
    result->sequences += (int64_t)count;
    result->tokens += batch->token_count;
    if (!timed) {
        return;
    }
    result->seconds += seconds;
    result->timed_sequences += (int64_t)count;
    result->timed_tokens += batch->token_count;
    for (int64_t i = 0; i < batch->sequence_count; i++) {
        result->timed_flops += bert_forward_flops(trainer->model.config,
                                                  batch->cu_seqlens[i + 1] - batch->cu_seqlens[i]);
    }
}

enum berth_status infer_run(struct trainer *trainer, const struct infer_args *args,
                            struct infer_result *result, struct berth_error *error) {
    *result = (struct infer_result){0};
    const struct packer_source *source = args->source;
    const struct packer_limits limits = {args->shape->tokens, args->shape->sequences, INT64_MAX};
    uint32_t *order;
    TRY(sort_by_length(source, &order, error));
    enum berth_status status = BERTH_OK;
    // At most a row for each token.
    size_t numbers = (size_t)(args->shape->tokens * param_head_outputs(trainer->model.table->head,
                                                                       trainer->model.config));
    float *host = memory_array(numbers, sizeof *host);
    if (host == NULL) {
        status = error_no_memory(error, numbers * sizeof *host, "the logits of a batch");
    }
    for (size_t done = 0; done < source->count && status == BERTH_OK;) {
        if (args->stop != NULL && *args->stop != 0) {
            result->stopped = 1;
            break;
        }
        size_t cut = packer_fit(source, order + done, source->count - done, &limits);
        double begin = machine_seconds();
        status = run_batch(trainer, args, order + done, cut, host, error);
        int timed = done > 0 || cut == source->count;
        count_batch(trainer, cut, machine_seconds() - begin, timed, result);
        done += cut;
        log_progress(args->log, args->phase, (int64_t)done, (int64_t)source->count);
    }
    memory_free(host);
    memory_free(order);
    return status;
}
