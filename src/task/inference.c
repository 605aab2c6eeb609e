// SPDX-License-Identifier: Apache-2.0
#include "task/inference.h"

#include "core/memory.h"
#include "core/options.h"
#include "train/engine/plan.h"
#include "train/machine/machine.h"

static enum berth_status make_lock(struct inference *inference, struct berth_error *error) {
    inference->lock = memory_new(sizeof *inference->lock);
    if (inference->lock == NULL) {
        return error_no_memory(error, sizeof *inference->lock, "a lock");
    }
    fair_lock_init(inference->lock);
    return BERTH_OK;
}

static void clear_strings(struct berth_config *config) {
    for (size_t i = 0; i < option_row_count; i++) {
        if (option_rows[i].type == OPTION_TEXT) {
            *(const char **)((char *)config + option_rows[i].offset) = NULL;
        }
    }
}

void inference_set_extent(struct inference *inference) {
    const int64_t length = inference->config.max_seq_length;
    const int64_t batch = inference->config.predict_batch_size;
    int64_t tokens = batch < INFER_TOKENS / length ? batch * length : INFER_TOKENS;
    tokens = tokens > length ? tokens : length;
    // A sequence has at least two tokens.
    inference->extent =
        (struct batch_extent){.tokens = tokens, .sequences = tokens / 2, .max_length = length};
}

int inference_threads(const struct inference *inference, size_t count) {
    const int threads = count > (size_t)inference->threads ? inference->threads
                        : count > 0                        ? (int)count
                                                           : 1;
    return machine_start_threads(threads, NULL) == BERTH_OK ? threads : 1;
}

enum berth_status inference_load(struct inference *inference, const struct berth_log *log,
                                 struct berth_error *error) {
    struct berth_config *config = &inference->config;
    const struct predictor *predictor = &inference->predictor;
    const struct bert_config *model = &predictor->files.shape;
    const int64_t outputs = param_head_outputs(predictor->files.table.head, model);
    const struct engine_shape shape = {.infer = inference->extent};
    struct plan_args plan = {.state = &predictor->state,
                             .config = model,
                             .shape = &shape,
                             .processes = predictor->comm->local_size,
                             .exchange = predictor->comm->bytes,
                             .data = (uint64_t)(shape.infer.tokens * outputs) * sizeof(float)};
    TRY(plan_memory_admit(&plan, NULL, error));
    TRY(predictor_load(&inference->predictor, config, &inference->extent, log, error));
    inference->threads = machine_threads(config);
    clear_strings(config);
    return make_lock(inference, error);
}

enum berth_status inference_run(const struct inference *inference, struct infer_args args,
                                struct berth_error *error) {
    struct infer_result timing;
    TRY(machine_start_threads(inference->threads, error));
    args.extent = &inference->extent;
    // The engine is the mutable part: activations, batch arrays, scratch memory.
    struct engine *engine = (struct engine *)&inference->predictor.engine;
    args.lock = inference->lock;
    fair_lock_acquire(args.lock);
    enum berth_status status = infer_run(engine, &args, &timing, error);
    fair_lock_release(args.lock);
    return status;
}

enum berth_status inference_open(const struct inference_kind *kind,
                                 const struct inference_source *source, void **handle,
                                 struct berth_error *error) {
    struct inference *opened = memory_array_zeroed(1, kind->size);
    *handle = NULL;
    if (opened == NULL) {
        return error_no_memory(error, kind->size, kind->what);
    }
    opened->config = *source->config;
    if (opened->config.precision == BERTH_PRECISION_AUTO) { // the same if it was given by name
        option_forget(&opened->config, option_find("precision"));
        option_apply_default(&opened->config, "precision", kind->job);
    }
    const enum berth_status status = kind->load(opened, source, error);
    if (status != BERTH_OK) {
        inference_close(kind, opened);
        return status;
    }
    *handle = opened;
    return BERTH_OK;
}

void inference_close(const struct inference_kind *kind, void *handle) {
    struct inference *inference = handle;
    if (inference == NULL) {
        return;
    }
    if (inference->lock != NULL) {
        fair_lock_done(inference->lock);
        memory_free(inference->lock);
    }
    predictor_done(&inference->predictor);
    if (kind->done != NULL) {
        kind->done(handle);
    }
    memory_free(handle);
}
