// SPDX-License-Identifier: Apache-2.0
#include "train/bench/bench.h"

#include "train/bench/bench_data.h"
#include "train/engine/plan.h"
#include "train/engine/update.h"
#include "train/machine/machine.h"

#include <math.h>

#define PEAK_READINGS 5

struct bench {
    const struct bench_settings *settings;
    struct bench_data data;
    struct device *device;
    struct state state;
    struct engine engine;
    struct updater updater;
    double peak; // FLOP/s
};

static void read_peak(struct bench *bench) {
    double reading = machine_peak_flops(bench->device, bench->state.compute, PEAK_READINGS);
    bench->peak = isnan(bench->peak) || reading > bench->peak ? reading : bench->peak;
}

static int trains(const struct bench *bench) {
    return bench->settings->kind != BENCH_PREDICT;
}

static struct engine_shape shape_of(const struct bench *bench) {
    struct engine_shape shape = {.gradient_checkpointing =
                                     bench->settings->config->gradient_checkpointing};
    *(trains(bench) ? &shape.train : &shape.infer) = bench->data.worst;
    return shape;
}

static enum berth_status make_engine(struct bench *bench, const struct engine_shape *shape,
                                     struct berth_error *error) {
    struct berth_config config = *bench->settings->config;
    const struct bert_config *model = &bench->data.files.shape;
    TRY(engine_init(&bench->engine, &bench->state, comm_self(), model, shape, error));
    if (!trains(bench)) {
        return BERTH_OK;
    }
    TRY(optimizer_settle(&config, error));
    const struct update_rules rules = update_rules_of(&config, model);
    return updater_init(&bench->updater, &bench->engine, &rules, bench->data.worst.sequences,
                        error);
}

static enum berth_status prepare(struct bench *bench, struct bench_figures *figures,
                                 struct berth_error *error) {
    struct berth_config *config = bench->settings->config;
    struct bench_data *data = &bench->data;
    enum dtype compute;
    TRY(bench_data_open(data, bench->settings, error));
    TRY(machine_device_open(config, &bench->settings->log, &bench->device, error));
    TRY(machine_compute_dtype(config, bench->device, &bench->settings->log, &compute, error));
    bench->state = (struct state){
        .device = bench->device, .table = &bench->data.files.table, .compute = compute};
    const struct engine_shape shape = shape_of(bench);
    struct plan_args plan = {.state = &bench->state,
                             .config = &data->files.shape,
                             .shape = &shape,
                             .log = &bench->settings->log};
    uint64_t total;
    TRY(plan_memory_admit(&plan, &total, error)); // before its memory is allocated
    figures->plan_bytes = (int64_t)total;
    TRY(state_init(&bench->state, bench->device, &bench->data.files.table, compute, trains(bench),
                   error));
    TRY(model_files_initialise(&data->files, config, &bench->state, error));
    return make_engine(bench, &shape, error);
}

static void count_step(struct bench *bench, int64_t step, double seconds, double passes,
                       struct bench_figures *figures, double *flops) {
    const struct bench_data *data = &bench->data;
    struct bench_count own = bench_data_count(data, data->cuts[step], data->cuts[step + 1]);
    figures->steps++;
    figures->sequences += own.sequences;
    figures->tokens += own.tokens;
    figures->masked += own.masked;
    figures->seconds += seconds;
    *flops += passes * own.flops;
}

static enum berth_status train_step(struct bench *bench, int64_t step, struct update_result *update,
                                    struct berth_error *error) {
    const struct bench_data *data = &bench->data;
    size_t count = data->cuts[step + 1] - data->cuts[step];
    // The whole update is one micro-batch, regardless of padding.
    struct batching batching = {.micro = {INT64_MAX, (int64_t)count, INT64_MAX, 0}};
    struct update_args args = {.batching = &batching,
                               .source = &data->source,
                               .order = data->order + data->cuts[step],
                               .count = count,
                               .step = step,
                               .learning_rate = bench->settings->config->learning_rate,
                               .stop = bench->settings->stop};
    return update_run(&bench->updater, &args, update, error);
}

static enum berth_status predict_step(struct bench *bench, int64_t step,
                                      struct berth_error *error) {
    static const struct bert_dropout none = {0};
    const struct bench_data *data = &bench->data;
    struct engine *engine = &bench->engine;
    const size_t first = data->cuts[step];
    const struct engine_load load = {.source = &data->source,
                                     .order = data->order + first,
                                     .count = data->cuts[step + 1] - first};
    bert_forward(&engine->model, engine->inference, engine_load(engine, &load), &none);
    return bench->device->status(bench->device, error);
}

static void finish(struct bench *bench, double flops, struct bench_figures *figures) {
    figures->samples_per_second = (double)figures->sequences / figures->seconds;
    figures->tokens_per_second = (double)figures->tokens / figures->seconds;
    figures->model_gflops = flops / figures->seconds / 1e9;
    figures->peak_gflops = bench->peak / 1e9;
    figures->mfu = flops / figures->seconds / bench->peak;
    figures->fill = (double)figures->tokens / (double)(figures->sequences * bench->data.row_length);
    figures->peak_rss_bytes = (int64_t)machine_peak_resident();
}

static enum berth_status measure(struct bench *bench, struct bench_figures *figures,
                                 struct berth_error *error) {
    const struct bench_settings *settings = bench->settings;
    const int training = trains(bench);
    double flops = 0;
    read_peak(bench);
    for (int64_t step = 0; step < bench->data.updates; step++) {
        if (settings->stop != NULL && *settings->stop != 0) {
            return error_set(error, BERTH_INTERRUPTED, "stopped on request");
        }
        struct update_result update = {0};
        double begin = machine_seconds();
        TRY(training ? train_step(bench, step, &update, error) : predict_step(bench, step, error));
        double seconds = machine_seconds() - begin;
        if (step >= settings->warm_up_steps) {
            count_step(bench, step, seconds, training ? 3 : 1, figures, &flops);
            figures->forward_seconds += update.forward_seconds;
            figures->backward_seconds += update.backward_seconds;
            figures->step_seconds += update.step_seconds;
        }
        log_progress(&settings->log, training ? "train" : "predict", step + 1, bench->data.updates);
    }
    read_peak(bench);
    finish(bench, flops, figures);
    return BERTH_OK;
}

enum berth_status bench_run(const struct bench_settings *settings, struct bench_figures *figures,
                            struct berth_error *error) {
    struct bench bench = {.settings = settings, .peak = NAN};
    *figures = (struct bench_figures){0};
    enum berth_status status = prepare(&bench, figures, error);
    if (status == BERTH_OK) {
        status = measure(&bench, figures, error);
    }
    updater_done(&bench.updater);
    engine_done(&bench.engine);
    state_done(&bench.state);
    if (bench.device != NULL) {
        bench.device->close(bench.device);
    }
    bench_data_done(&bench.data);
    return status;
}
