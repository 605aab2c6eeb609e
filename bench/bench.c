// SPDX-License-Identifier: Apache-2.0
// `berth bench`: builds an engine as a job does, with random weights and the lengths of a data set,
// warms up, times whole steps with the peak measured before and after, and forecasts ranks from
// what one has measured. cli/bench.c calls it and prints the result; sequences come from
// bench_data.c, replayed ranks from bench_ranks.c.
#include "bench/bench.h"

#include "bench/bench_data.h"
#include "bench/bench_ranks.h"
#include "bench/recorder.h"
#include "core/clock.h"
#include "core/memory.h"
#include "settings/effects.h"
#include "train/engine/plan.h"
#include "train/engine/update.h"
#include "train/job/reduce_choice.h"
#include "train/job/rules.h"
#include "train/machine/cores.h"
#include "train/machine/machine.h"

#include <math.h>
#include <stdlib.h>

#define PEAK_READINGS 5

struct bench {
    const struct bench_settings *settings;
    struct berth_log log;
    struct comm *comm;
    struct settings config; // with the optimizer's defaults
    struct state_sharding sharding;
    int64_t parts; // of an update
    int pairs;     // measure each update with and without its exchanges
    struct reduce_choice reduce;
    struct bench_data data;
    struct device *device;
    struct state state;
    struct engine engine;
    struct updater updater;
    double peak;          // FLOP/s
    double *step_seconds; // [updates] of each measured update
    // For a forecast: the cluster's communicator, and the one that records for it.
    struct comm *cluster;
    struct recorder recorder;
    // For a forecast or a replay.
    struct rank_times read; // from settings->replay_compute
    struct division division;
    struct all_reduce all_reduce; // only for a replay
};

static int trains(const struct bench *bench) {
    return bench->settings->kind != BENCH_PREDICT;
}

static int forecasts(const struct bench *bench) {
    return bench->settings->kind == BENCH_RANKS;
}

// Whether updates sleep instead of computing.
static int replays(const struct bench *bench) {
    return bench->settings->replay_compute != NULL;
}

// A forecast and a replay have no MFU, so they need no peak.
static void read_peak(struct bench *bench) {
    if (replays(bench) || forecasts(bench)) {
        return;
    }
    double reading =
        machine_peak_flops(bench->device, state_product_dtype(&bench->state), PEAK_READINGS);
    bench->peak = isnan(bench->peak) || reading > bench->peak ? reading : bench->peak;
}

// --- ranks ---------------------------------------------------------------------------------------

// A prediction and a forecast are measured in a single process.
static enum berth_status open_ranks(struct bench *bench, struct berth_error *error) {
    if (forecasts(bench)) {
        const struct bench_cluster *asked = bench->settings->cluster;
        const struct comm_cluster cluster = {.hosts = asked->hosts,
                                             .ranks_per_host = asked->ranks_per_host,
                                             .rack_hosts = asked->rack_hosts,
                                             .link = asked->links[0]};
        TRY(comm_forecast_open(&cluster, &bench->cluster, error));
        bench->comm = bench->cluster;
        return BERTH_OK;
    }
    return trains(bench) ? machine_comm_open("bench", bench->settings->config, &bench->log,
                                             &bench->comm, error)
                         : BERTH_OK;
}

static enum berth_status settle_ranks(struct bench *bench, struct berth_error *error) {
    const struct bench_settings *settings = bench->settings;
    bench->config = *settings->config;
    if (forecasts(bench) && settings->cluster->save_times != NULL) {
        TRY(rank_times_check_output(settings->cluster->save_times, error));
    }
    TRY(optimizer_settle(&bench->config.optimizer, error));
    settings_note_effects(&bench->config, &bench->config, JOB_BENCH, bench->comm->size,
                          &bench->log);
    TRY(sharding_of(&bench->config, bench->comm, &bench->sharding, error));
    bench->pairs =
        settings->no_exchange && bench->comm->size > 1 && !forecasts(bench) && !replays(bench);
    if (bench->pairs && settings->config->engine.replica_check_steps > 0) {
        return error_set(error, BERTH_USAGE,
                         "--no_exchange lets processes have different weights, which "
                         "replica_check_steps refuses: omit one of them");
    }
    if (settings->no_exchange && !bench->pairs) {
        log_note(&bench->log, "no_exchange has no effect %s",
                 forecasts(bench) ? "on a forecast"
                 : replays(bench) ? "with replay_compute"
                                  : "in one process");
    }
    return batching_parts(&settings->config->engine, bench->comm->size, &bench->parts, error);
}

// --- preparation ---------------------------------------------------------------------------------

static struct update_rules rules_of(const struct bench *bench) {
    struct update_rules rules = update_rules_of(&bench->config, &bench->data.files.shape,
                                                bench->data.files.table.head, bench->state.compute);
    rules.exchange.native = bench->reduce.native;
    return rules;
}

static enum berth_status init_state(struct bench *bench, struct berth_error *error) {
    const struct param_table *table = &bench->data.files.table;
    const enum dtype compute = bench->state.compute;
    return trains(bench) ? state_init_sharded(&bench->state, bench->device, table, compute,
                                              &bench->sharding, error)
           : bench->state.is_int8
               ? state_init_int8(&bench->state, bench->device, table, compute, error)
               : state_init(&bench->state, bench->device, table, compute, 0, error);
}

// Opens what each rank can open without the others.
static enum berth_status open_data(struct bench *bench, struct berth_error *error) {
    TRY(bench_data_open(&bench->data, bench->settings, bench->parts, error));
    return machine_device_open(&bench->settings->config->machine, bench->comm, &bench->log,
                               &bench->device, error);
}

static enum berth_status describe_state(struct bench *bench, struct berth_error *error) {
    struct settings *config = bench->settings->config;
    const struct param_table *table = &bench->data.files.table;
    enum dtype compute;
    TRY(trains(bench) ? machine_compute_dtype(&config->machine, bench->comm, bench->device,
                                              &bench->log, &compute, error)
                      : machine_inference_dtype(&config->machine, bench->comm, bench->device,
                                                &bench->log, &compute, error));
    bench->state = (struct state){.device = bench->device,
                                  .table = table,
                                  .compute = compute,
                                  .is_int8 = config->machine.precision == BERTH_INT8,
                                  .sharding = bench->sharding};
    if (forecasts(bench)) {
        TRY(recorder_init(&bench->recorder, bench->cluster, table, error));
        bench->recorder.times.zero_stage = bench->sharding.stage;
        bench->comm = &bench->recorder.comm;
    }
    if (trains(bench)) {
        struct update_rules rules = rules_of(bench);
        rules.exchange.wire = update_wire(&rules);
        TRY(reduce_choose(&bench->config.engine, bench->comm, &bench->state, &rules.exchange,
                          &bench->reduce, error));
    }
    return replays(bench) ? rank_times_read(&bench->read, bench->settings->replay_compute, error)
                          : BERTH_OK;
}

// --- forecasts and replays -----------------------------------------------------------------------

static struct bench_replay replay_of(struct bench *bench, const struct rank_times *times) {
    const struct update_rules rules = rules_of(bench);
    struct bench_replay replay = {.times = times,
                                  .data = &bench->data,
                                  .division = &bench->division,
                                  .state = &bench->state,
                                  .rules = rules.exchange};
    replay.rules.wire = update_wire(&rules);
    return replay;
}

static enum berth_status forecast_link(struct bench *bench, struct comm_cluster *cluster,
                                       size_t link, struct berth_error *error) {
    const struct bench_cluster *asked = bench->settings->cluster;
    const struct bench_replay replay = replay_of(bench, &bench->recorder.times);
    cluster->link = asked->links[link];
    return bench_forecast(&replay, cluster, bench->settings->warm_up_steps, &asked->forecasts[link],
                          error);
}

static enum berth_status forecast(struct bench *bench, struct berth_error *error) {
    const struct bench_settings *settings = bench->settings;
    const struct bench_cluster *asked = settings->cluster;
    const int threads = machine_threads(&settings->config->machine) * asked->ranks_per_host;
    struct comm_cluster cluster = {.hosts = asked->hosts,
                                   .ranks_per_host = asked->ranks_per_host,
                                   .rack_hosts = asked->rack_hosts,
                                   .stolen = threads >= cores_threads(0)};
    recorder_average(&bench->recorder);
    if (asked->save_times != NULL) {
        TRY(rank_times_write(&bench->recorder.times, asked->save_times, error));
    }
    TRY(comm_costs_measure(&cluster.costs, error));
    for (size_t link = 0; link < asked->link_count; link++) {
        TRY(forecast_link(bench, &cluster, link, error));
    }
    return BERTH_OK;
}

static enum berth_status prepare(struct bench *bench, struct bench_figures *figures,
                                 struct berth_error *error) {
    const struct settings *config = bench->settings->config;
    const struct bench_data *data = &bench->data;
    struct comm *comm = bench->comm;
    struct engine_shape shape = {.gradient_checkpointing =
                                     bench->settings->config->engine.gradient_checkpointing,
                                 .attention_dropout = rules_of(bench).attention_dropout};
    *(trains(bench) ? &shape.train : &shape.infer) = bench->data.worst;
    const struct update_rules rules = rules_of(bench);
    const size_t levels = updater_level_bytes(&data->files.table, (int)(bench->parts / comm->size));
    struct plan_args plan = {
        .state = &bench->state,
        .config = &data->files.shape,
        .shape = &shape,
        .comm = forecasts(bench) ? NULL : comm,
        .exchange = comm->bytes + levels,
        .shared = all_reduce_shared_bytes(comm, &bench->sharding, update_wire(&rules)),
        .log = &bench->log};
    uint64_t total;
    TRY(division_init(&bench->division, (size_t)bench->parts, (size_t)data->max_sequences, error));
    if (replays(bench)) {
        // There is no engine: nothing is computed, so weights and gradients may have any values.
        const struct bench_replay replay = replay_of(bench, &bench->read);
        TRY(bench_replay_check(&replay, bench->settings->replay_compute, error));
        TRY(init_state(bench, error));
        TRY(all_reduce_init(&bench->all_reduce, bench->comm, &bench->state, &replay.rules, error));
        reduce_choice_note(&bench->reduce, &bench->all_reduce, &bench->log);
        return BERTH_OK;
    }
    TRY(plan_memory_admit(&plan, &total, error)); // before anything is allocated
    figures->plan_bytes = (int64_t)total;
    figures->host_plan_bytes =
        comm->local_size * (int64_t)(total - plan.shared) + (int64_t)comm->host_bytes;
    TRY(init_state(bench, error));
    TRY(model_files_initialise(&data->files, (uint64_t)config->run.seed, &bench->state, error));
    const struct bert_config *model = &bench->data.files.shape;
    TRY(engine_init(&bench->engine, &bench->state, bench->comm, model, &shape, error));
    if (!trains(bench)) {
        return BERTH_OK;
    }
    TRY(updater_init(&bench->updater, &bench->engine, &rules, bench->data.max_sequences, error));
    if (!forecasts(bench)) {
        reduce_choice_note(&bench->reduce, &bench->updater.all_reduce, &bench->log);
    }
    return BERTH_OK;
}

// --- measuring -----------------------------------------------------------------------------------

// Sums over the measured updates or batches.
struct sums {
    double flops, imbalance;
};

static void count_step(const struct bench *bench, int64_t step, const struct update_result *update,
                       struct bench_figures *figures, struct sums *sums) {
    const struct bench_data *data = &bench->data;
    const struct bench_count own = bench_data_count(data, data->cuts[step], data->cuts[step + 1]);
    figures->steps++;
    figures->sequences += own.sequences;
    figures->tokens += own.tokens;
    figures->masked += own.masked;
    figures->forward_seconds += update->forward_seconds;
    figures->backward_seconds += update->backward_seconds;
    figures->step_seconds += update->step_seconds;
    sums->flops += (trains(bench) ? 3 : 1) * own.flops;
    sums->imbalance += update->imbalance;
}

static enum berth_status train_step(struct bench *bench, int64_t step, struct update_result *update,
                                    struct berth_error *error) {
    const struct bench_data *data = &bench->data;
    size_t count = data->cuts[step + 1] - data->cuts[step];
    struct batching batching = {.micro = data->worst}; // each part is one micro-batch
    batching.micro.masked = INT64_MAX;
    struct update_args args = {.batching = &batching,
                               .source = &data->source,
                               .order = data->order + data->cuts[step],
                               .count = count,
                               .step = step,
                               .rate = bench->settings->config->optimizer.learning_rate};
    return update_run(&bench->updater, &args, update, error);
}

// Measures an update without its exchanges, after those of the previous one have ended.
static enum berth_status silent_step(struct bench *bench, int64_t step, double *seconds,
                                     struct berth_error *error) {
    struct all_reduce *all_reduce = &bench->updater.all_reduce;
    struct update_result ignored;
    all_reduce_wait_all_weights(all_reduce);
    const int64_t ranges = bench->comm->stats(bench->comm).ranges;
    all_reduce->exchange.is_silent = 1;
    const double begin = clock_now();
    enum berth_status status = train_step(bench, step, &ignored, error);
    *seconds = clock_now() - begin;
    all_reduce->exchange.is_silent = 0;
    if (status == BERTH_OK && bench->comm->stats(bench->comm).ranges != ranges) {
        status = error_set(error, BERTH_INTERNAL, "an update without its exchanges exchanged");
    }
    return status;
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

static int compare_seconds(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// A quantile of the measured times.
static double quantile(const struct bench *bench, int64_t count, double part) {
    return bench->step_seconds[(int64_t)ceil(part * (double)count) - 1];
}

static enum berth_status run_step(struct bench *bench, int64_t step, struct update_result *update,
                                  struct berth_error *error) {
    if (replays(bench)) {
        const struct bench_replay replay = replay_of(bench, &bench->read);
        TRY(bench_replay_step(&replay, &bench->all_reduce, step, error));
        update->imbalance = division_imbalance(&bench->division);
        return BERTH_OK;
    }
    return trains(bench) ? train_step(bench, step, update, error)
                         : predict_step(bench, step, error);
}

static enum berth_status record_step(struct bench *bench, int64_t step, struct berth_error *error) {
    struct update_result update;
    const int counts = step >= bench->data.warm_up;
    if (counts) {
        recorder_start(&bench->recorder);
    }
    TRY(train_step(bench, step, &update, error));
    return counts ? recorder_stop(&bench->recorder,
                                  rank_load(&bench->updater.division, 0, bench->comm->size), error)
                  : BERTH_OK;
}

// Measures one update or batch; warm-up steps do not count.
static enum berth_status measure_step(struct bench *bench, int64_t step,
                                      struct bench_figures *figures, struct sums *sums,
                                      struct berth_error *error) {
    struct update_result update = {0};
    double silent = 0;
    if (bench->pairs) { // so that each of the pair follows an update of its own kind, as in a run
        TRY(train_step(bench, step, &update, error));
    }
    const struct comm_stats before = bench->comm->stats(bench->comm);
    const double begin = clock_now();
    TRY(run_step(bench, step, &update, error));
    const double seconds = clock_now() - begin;
    if (step >= bench->data.warm_up) {
        figures->seconds += seconds;
        bench->step_seconds[figures->steps] = seconds;
        count_step(bench, step, &update, figures, sums);
        const struct comm_stats now = bench->comm->stats(bench->comm);
        const double exposed = now.exposed_seconds - before.exposed_seconds;
        figures->comm_exposed_seconds += exposed;
        figures->comm_hidden_seconds += now.busy_seconds - before.busy_seconds - exposed;
        figures->comm_bytes += (int64_t)(now.bytes - before.bytes);
    }
    if (bench->pairs) {
        TRY(silent_step(bench, step, &silent, error));
        figures->no_exchange_seconds += step >= bench->data.warm_up ? silent : 0;
    }
    return BERTH_OK;
}

static enum berth_status measure(struct bench *bench, struct bench_figures *figures,
                                 struct berth_error *error) {
    const size_t updates = (size_t)bench->data.updates;
    struct sums sums = {0};
    bench->step_seconds = memory_array(updates, sizeof *bench->step_seconds);
    if (bench->step_seconds == NULL) {
        return error_no_memory(error, updates * sizeof *bench->step_seconds, "the times of steps");
    }
    read_peak(bench);
    for (int64_t step = 0; step < bench->data.updates; step++) {
        TRY(forecasts(bench) ? record_step(bench, step, error)
                             : measure_step(bench, step, figures, &sums, error));
        log_progress(&bench->log, trains(bench) ? "train" : "predict", step + 1,
                     bench->data.updates);
    }
    if (forecasts(bench)) {
        return forecast(bench, error);
    }
    if (trains(bench)) {
        all_reduce_wait_all_weights(replays(bench) ? &bench->all_reduce
                                                   : &bench->updater.all_reduce);
    }
    read_peak(bench);
    bench->comm->sum(bench->comm, &bench->peak, 1);
    qsort(bench->step_seconds, (size_t)figures->steps, sizeof *bench->step_seconds,
          compare_seconds);
    figures->p50_seconds = quantile(bench, figures->steps, 0.5);
    figures->p99_seconds = quantile(bench, figures->steps, 0.99);
    figures->samples_per_second = (double)figures->sequences / figures->seconds;
    figures->tokens_per_second = (double)figures->tokens / figures->seconds;
    figures->model_gflops = sums.flops / figures->seconds / 1e9;
    figures->peak_gflops = bench->peak / 1e9;
    figures->mfu = sums.flops / figures->seconds / bench->peak;
    figures->imbalance = sums.imbalance / (double)figures->steps;
    figures->fill = (double)figures->tokens / (double)(figures->sequences * bench->data.row_length);
    figures->peak_rss_bytes = (int64_t)machine_peak_resident();
    return BERTH_OK;
}

enum berth_status bench_run(const struct bench_settings *settings, struct bench_figures *figures,
                            struct berth_error *error) {
    struct bench bench = {
        .settings = settings, .log = settings->log, .comm = comm_self(), .peak = NAN};
    *figures = (struct bench_figures){0};
    enum berth_status status = open_ranks(&bench, error);
    if (status == BERTH_OK) {
        status = settle_ranks(&bench, error);
    }
    if (status == BERTH_OK) {
        status = open_data(&bench, error);
    }
    status = comm_settle(bench.comm, status, error);
    if (status == BERTH_OK) {
        status = describe_state(&bench, error);
    }
    status = comm_settle(bench.comm, status, error);
    if (status == BERTH_OK) {
        status = prepare(&bench, figures, error);
    }
    status = comm_settle(bench.comm, status, error);
    if (status == BERTH_OK) {
        status = measure(&bench, figures, error);
    }
    figures->rank = bench.comm->rank;
    figures->ranks = bench.comm->size;
    updater_finish(&bench.updater);
    all_reduce_finish(&bench.all_reduce);
    bench.comm->close(bench.comm); // before the memory that it may still exchange
    updater_done(&bench.updater);
    all_reduce_done(&bench.all_reduce);
    if (bench.comm == &bench.recorder.comm) {
        bench.cluster->close(bench.cluster);
    }
    recorder_done(&bench.recorder);
    rank_times_done(&bench.read);
    division_done(&bench.division);
    engine_done(&bench.engine);
    state_done(&bench.state);
    if (bench.device != NULL) {
        bench.device->close(bench.device);
    }
    bench_data_done(&bench.data);
    memory_free(bench.step_seconds);
    return status;
}
