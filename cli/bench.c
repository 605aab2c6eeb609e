// SPDX-License-Identifier: Apache-2.0
// berth bench: measures the machine's peak and whole steps of training and prediction, and
// forecasts clusters. Here are the options and what is printed; bench/bench.c computes. Leaves out
// single operations, which a program of its own measures (bench/operations).
#include "bench/bench.h"

#include "bench/timing.h"
#include "cli.h"
#include "core/json_line.h"
#include "core/number.h"
#include "core/text_util.h"
#include "report/run.h"
#include "rows.h"
#include "train/machine/machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct option_row options[] = {
    {CLI_TEXT("config", "base"), .unit = "NAME|FILE", .aliases = "config_file",
     .help = "model geometry: tiny, minilm, base, large, or a config.json or its folder"},
    {CLI_TEXT("data", NULL), .unit = "FILE|DIR", .aliases = "train_file predict_file input_dir",
     .help = "train, predict: SQuAD file whose lengths to use (or --task_name and --data_dir); "
             "pretrain: HDF5 shard, or folder of shards"},
    {CLI_INTEGER("update_tokens", "8192"), BETWEEN(1, 1 << 24), .unit = "N",
     .help = "train, predict, pretrain: maximum number of tokens in an update (a batch)"},
    {CLI_INTEGER("update_sequences", "0"), BETWEEN(0, 1 << 20), .unit = "N",
     .shown = "0: as many as fit into update_tokens",
     .help = "train, predict, pretrain: number of sequences in an update (a batch)"},
    {CLI_INTEGER("steps", "5"), BETWEEN(0, 1000000), .unit = "N",
     .help = "train, predict, pretrain: number of updates (batches) to measure; predict: 0 for "
             "every sequence once"},
    {CLI_INTEGER("warm_up_steps", "1"), BETWEEN(0, 1000000), .unit = "N",
     .help = "train, predict, pretrain: number of updates (batches) before the measurement"},
    {CLI_INTEGER("pad_to", "0"), BETWEEN(0, 65536), .unit = "N", .shown = "0: no padding",
     .help = "train, predict, pretrain: pad every sequence to N tokens, to measure the cost of "
             "padding"},
    {CLI_FLAG("no_exchange"),
     .help = "train, pretrain: compute each update also without its exchange between ranks, and "
             "compare the times"},
    {CLI_REAL("seconds", "1"), BETWEEN(0.01, 600), .unit = "X",
     .help = "peak: duration of each measurement in seconds"},
    {CLI_TEXT("hosts", NULL), .unit = "N[,N...]", .help = "ranks: numbers of hosts to forecast"},
    {CLI_INTEGER("ranks_per_host", "1"), BETWEEN(1, 1024), .unit = "N",
     .help = "ranks: number of processes on each host"},
    {CLI_INTEGER("rack_hosts", "0"), BETWEEN(0, 1 << 16), .unit = "N",
     .help = "ranks: number of hosts in each rack (--topology of a job)", .shown = "0: one rack"},
    {CLI_TEXT("link_gbit", "10"), .unit = "X[,X...]",
     .help = "ranks: rate of a host's link, in Gbit/s in each direction"},
    {CLI_REAL("link_delay_us", "50"), BETWEEN(0, 1e7), .unit = "X",
     .help = "ranks: time from one host to another, in microseconds"},
    {CLI_TEXT("save_times", NULL), .unit = "FILE",
     .help = "ranks: write what was measured, for --replay_compute"},
    {CLI_TEXT("replay_compute", NULL), .unit = "FILE",
     .help =
         "train: sleep for the times of --save_times in place of computing; exchanges are real"},
    {CLI_FLAG("json"),
     .help = "print one JSON object; ranks: one for each forecast, on a line of its own"},
};

// Adds one number to the object, and prints it for people unless the object is printed.
static void put_number(struct json_line *line, int as_json, const char *key, double value,
                       const char *unit) {
    json_line_real(line, key, value);
    if (as_json) {
        return;
    }
    char text[64];
    const int is_count = value == floor(value) && unit[0] == '\0';
    number_format(text, sizeof text, is_count ? "%.0f" : value < 10.0 ? "%.3f" : "%.1f", value);
    printf("%-28s %16s %s\n", key, text, unit);
}

static void put_words(struct json_line *line, int as_json, const char *key, const char *value) {
    json_line_text(line, key, value);
    if (!as_json) {
        printf("%-28s %s\n", key, value);
    }
}

static struct run measured; // what the report shows

static enum berth_status end_object(const struct cli_call *call, struct json_line *line,
                                    struct berth_error *error) {
    enum berth_status status = BERTH_OK;
    json_line_close(line, '}');
    if (call->config.report.report != NULL && line->text != NULL) {
        run_feed(&measured, line->text, line->length);
        run_feed(&measured, "\n", 1);
    }
    if (cli_flag(call, "json")) {
        status = cli_put_json(line, error);
    }
    json_line_done(line);
    return status;
}

// --- peak ----------------------------------------------------------------------------------------

// Peak FLOP/s, measured for about `seconds`; NaN if the device cannot measure it.
static double peak_of(struct device *device, enum dtype dtype, double seconds) {
    return device->measure_peak != NULL ? device->measure_peak(device, dtype, seconds)
                                        : (double)NAN;
}

static enum berth_status run_peak(struct cli_call *call, struct berth_error *error) {
    struct device *device;
    struct json_line line = {0};
    int as_json = cli_flag(call, "json");
    double seconds = cli_real(call, "seconds");
    TRY(machine_device_open(&call->config.machine, comm_self(), NULL, &device, error));
    double fp32 = peak_of(device, DTYPE_F32, seconds);
    double bf16 = peak_of(device, DTYPE_BF16, seconds);
    double bandwidth = bench_bandwidth(
        device, bench_clock(device, machine_threads(&call->config.machine)), seconds);
    json_line_open(&line, NULL, '{');
    put_words(&line, as_json, "device", device->describe(device));
    put_number(&line, as_json, "fp32_gflops", fp32 / 1e9, "GFLOP/s");
    put_number(&line, as_json, "bf16_gflops", bf16 / 1e9, "GFLOP/s");
    put_number(&line, as_json, "bandwidth_gigabytes", bandwidth / 1e9, "GB/s");
    device->close(device);
    return end_object(call, &line, error);
}

// --- train, predict, pretrain --------------------------------------------------------------------

static void put_figures(struct json_line *line, int as_json, const struct bench_figures *figures) {
    if (figures->masked > 0) {
        put_number(line, as_json, "masked_tokens", (double)figures->masked, "");
        put_number(line, as_json, "fill", figures->fill, "of the rows");
    }
    put_number(line, as_json, "samples_per_second", figures->samples_per_second, "");
    put_number(line, as_json, "tokens_per_second", figures->tokens_per_second, "");
    put_number(line, as_json, "model_gflops", figures->model_gflops, "GFLOP/s");
    put_number(line, as_json, "peak_gflops", figures->peak_gflops, "GFLOP/s");
    put_number(line, as_json, "mfu", figures->mfu, "of the peak");
    put_number(line, as_json, "plan_bytes", (double)figures->plan_bytes, "");
    put_number(line, as_json, "peak_rss_bytes", (double)figures->peak_rss_bytes, "");
    put_number(line, as_json, "steps", (double)figures->steps, "");
    put_number(line, as_json, "sequences", (double)figures->sequences, "");
    put_number(line, as_json, "tokens", (double)figures->tokens, "");
    put_number(line, as_json, "seconds", figures->seconds, "s");
    put_number(line, as_json, "p50_seconds", figures->p50_seconds, "s");
    put_number(line, as_json, "p99_seconds", figures->p99_seconds, "s");
    put_number(line, as_json, "forward_seconds", figures->forward_seconds, "s");
    put_number(line, as_json, "backward_seconds", figures->backward_seconds, "s");
    put_number(line, as_json, "step_seconds", figures->step_seconds, "s");
    if (figures->ranks > 1) {
        put_number(line, as_json, "ranks", figures->ranks, "");
        put_number(line, as_json, "imbalance", figures->imbalance, "of the mean part");
        put_number(line, as_json, "comm_exposed_seconds", figures->comm_exposed_seconds, "s");
        put_number(line, as_json, "comm_hidden_seconds", figures->comm_hidden_seconds, "s");
        put_number(line, as_json, "comm_bytes", (double)figures->comm_bytes, "");
    }
    if (figures->no_exchange_seconds > 0) {
        put_number(line, as_json, "no_exchange_seconds", figures->no_exchange_seconds, "s");
        put_number(line, as_json, "exchange_ratio", figures->seconds / figures->no_exchange_seconds,
                   "");
    }
}

static enum berth_status check_options(const struct cli_call *call, enum bench_kind kind,
                                       struct berth_error *error) {
    if (cli_value(call, "data") == NULL && kind == BENCH_PRETRAIN) {
        return error_set(error, BERTH_USAGE,
                         "missing option --input_dir, which `berth bench pretrain` needs");
    }
    if (cli_value(call, "data") == NULL && call->config.task.task_name == NULL) {
        return error_set(error, BERTH_USAGE,
                         "missing option --data or --task_name, which `berth bench %s` needs",
                         call->arguments[0]);
    }
    return BERTH_OK;
}

static struct bench_settings settings_of(struct cli_call *call, enum bench_kind kind,
                                         struct berth_reporter *reporter) {
    return (struct bench_settings){.kind = kind,
                                   .config = &call->config,
                                   .geometry = cli_value(call, "config"),
                                   .data = cli_value(call, "data"),
                                   .update_sequences = cli_integer(call, "update_sequences"),
                                   .update_tokens = cli_integer(call, "update_tokens"),
                                   .steps = cli_integer(call, "steps"),
                                   .warm_up_steps = cli_integer(call, "warm_up_steps"),
                                   .pad_to = cli_integer(call, "pad_to"),
                                   .no_exchange = cli_flag(call, "no_exchange"),
                                   .replay_compute = cli_value(call, "replay_compute"),
                                   .log = berth_reporter_log(reporter)};
}

static enum berth_status run_whole(struct cli_call *call, enum bench_kind kind,
                                   struct berth_error *error) {
    struct bench_figures figures = {0};
    struct json_line line = {0};
    struct berth_reporter *reporter;
    int as_json = cli_flag(call, "json");
    TRY(check_options(call, kind, error));
    TRY(berth_reporter_open(&call->config, STDERR_FILENO, &reporter, error));
    const struct bench_settings settings = settings_of(call, kind, reporter);
    enum berth_status status = bench_run(&settings, &figures, error);
    berth_reporter_close(reporter);
    TRY(status);
    if (figures.rank > 0) {
        return BERTH_OK;
    }
    json_line_open(&line, NULL, '{');
    put_words(&line, as_json, "config", settings.geometry);
    put_words(&line, as_json, "precision", machine_precision_name(call->config.machine.precision));
    put_figures(&line, as_json, &figures);
    return end_object(call, &line, error);
}

static enum berth_status run_train(struct cli_call *call, struct berth_error *error) {
    return run_whole(call, BENCH_TRAIN, error);
}

static enum berth_status run_predict(struct cli_call *call, struct berth_error *error) {
    return run_whole(call, BENCH_PREDICT, error);
}

static enum berth_status run_pretrain(struct cli_call *call, struct berth_error *error) {
    return run_whole(call, BENCH_PRETRAIN, error);
}

// --- ranks ---------------------------------------------------------------------------------------

enum { LIST_MAX = 32, HOSTS_MAX = 1 << 16 };

// Ethernet frames of 1,500 bytes carry 1,448 bytes of a message and take the time of 1,538.
#define LINK_PAYLOAD (1448.0 / 1538)

struct number_list {
    double values[LIST_MAX];
    size_t count;
};

// Parses "25,100,400": up to LIST_MAX numbers from `min` to `max`.
static enum berth_status read_numbers(const struct cli_call *call, const char *option, double min,
                                      double max, struct number_list *list,
                                      struct berth_error *error) {
    const char *text = cli_value(call, option);
    char word[NUMBER_TEXT_SIZE];
    list->count = 0;
    for (const char *at = text; at != NULL; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        double value = NAN;
        snprintf(word, sizeof word, "%.*s", (int)strcspn(at, ","), at);
        if (list->count == LIST_MAX || !number_parse_real(word, &value) || !(value >= min) ||
            !(value <= max)) {
            return error_set(error, BERTH_USAGE,
                             "--%s: \"%s\": expected up to %d numbers from %g to %g, separated by "
                             "commas",
                             option, text, LIST_MAX, min, max);
        }
        list->values[list->count++] = value;
    }
    return list->count > 0
               ? BERTH_OK
               : error_set(error, BERTH_USAGE,
                           "missing option --%s, which `berth bench ranks` needs", option);
}

// What `berth bench ranks` was asked for.
struct requested {
    struct number_list hosts, gbits;
    struct comm_link links[LIST_MAX];
};

static enum berth_status read_request(const struct cli_call *call, struct requested *requested,
                                      struct berth_error *error) {
    TRY(read_numbers(call, "hosts", 1, HOSTS_MAX, &requested->hosts, error));
    TRY(read_numbers(call, "link_gbit", 1e-3, 1e5, &requested->gbits, error));
    for (size_t i = 0; i < requested->hosts.count; i++) {
        if (requested->hosts.values[i] != floor(requested->hosts.values[i])) {
            return error_set(error, BERTH_USAGE, "--hosts: %g is not a whole number",
                             requested->hosts.values[i]);
        }
    }
    for (size_t i = 0; i < requested->gbits.count; i++) {
        requested->links[i] =
            (struct comm_link){requested->gbits.values[i] * 1e9 / 8 * LINK_PAYLOAD,
                               cli_real(call, "link_delay_us") * 1e-6};
    }
    if (cli_integer(call, "warm_up_steps") < 1) {
        return error_set(error, BERTH_USAGE,
                         "--warm_up_steps 0: `berth bench ranks` needs at least 1, because the "
                         "first update waits for no weights");
    }
    return cli_value(call, "save_times") == NULL || requested->hosts.count == 1
               ? BERTH_OK
               : error_set(error, BERTH_USAGE, "--save_times requires a single number in --hosts");
}

static enum berth_status put_forecast(const struct cli_call *call,
                                      const struct bench_cluster *cluster, double gbit,
                                      const struct bench_figures *figures,
                                      const struct bench_forecast *forecast,
                                      struct berth_error *error) {
    const double steps = (double)cli_integer(call, "steps");
    struct json_line line = {0};
    json_line_open(&line, NULL, '{');
    json_line_text(&line, "config", cli_value(call, "config"));
    json_line_text(&line, "precision", machine_precision_name(call->config.machine.precision));
    json_line_integer(&line, "hosts", cluster->hosts);
    json_line_integer(&line, "ranks_per_host", cluster->ranks_per_host);
    json_line_integer(&line, "rack_hosts", cluster->rack_hosts);
    json_line_real(&line, "link_gbit", gbit);
    json_line_real(&line, "link_delay_us", cli_real(call, "link_delay_us"));
    json_line_real(&line, "predicted_samples_per_second", forecast->samples_per_second);
    json_line_real(&line, "efficiency", forecast->efficiency);
    json_line_integer(&line, "steps", (int64_t)steps);
    json_line_real(&line, "seconds", forecast->seconds);
    json_line_real(&line, "comm_exposed_seconds", forecast->comm_exposed_seconds);
    json_line_integer(&line, "comm_bytes", forecast->comm_bytes);
    json_line_integer(&line, "rank_plan_bytes", figures->plan_bytes);
    json_line_integer(&line, "host_plan_bytes", figures->host_plan_bytes);
    TRY(end_object(call, &line, error));
    if (cli_flag(call, "json")) {
        return BERTH_OK;
    }
    char text[192];
    number_format(text, sizeof text, "%6d %6d %8g %11.1f %10.3f %9.3f %10.3f %9.1f %9.2f %9.2f",
                  cluster->hosts, cluster->ranks_per_host, gbit, forecast->samples_per_second,
                  forecast->efficiency, forecast->seconds / steps,
                  forecast->comm_exposed_seconds / steps,
                  (double)forecast->comm_bytes / steps / 1e6, (double)figures->plan_bytes / 1e9,
                  (double)figures->host_plan_bytes / 1e9);
    puts(text);
    return BERTH_OK;
}

static enum berth_status forecast_hosts(struct cli_call *call, const struct requested *requested,
                                        size_t i, struct berth_reporter *reporter,
                                        struct berth_error *error) {
    struct bench_forecast forecasts[LIST_MAX];
    const struct bench_cluster cluster = {.hosts = (int)requested->hosts.values[i],
                                          .ranks_per_host =
                                              (int)cli_integer(call, "ranks_per_host"),
                                          .rack_hosts = (int)cli_integer(call, "rack_hosts"),
                                          .links = requested->links,
                                          .link_count = requested->gbits.count,
                                          .forecasts = forecasts,
                                          .save_times = cli_value(call, "save_times")};
    struct bench_settings settings = settings_of(call, BENCH_RANKS, reporter);
    struct bench_figures figures;
    settings.cluster = &cluster;
    TRY(bench_run(&settings, &figures, error));
    if (i == 0 && !cli_flag(call, "json")) {
        printf("%6s %6s %8s %11s %10s %9s %10s %9s %9s %9s\n", "hosts", "ranks/", "Gbit/s",
               "samples/s", "efficiency", "s/update", "waiting, s", "sent, MB", "rank, GB",
               "host, GB");
    }
    for (size_t link = 0; link < requested->gbits.count; link++) {
        TRY(put_forecast(call, &cluster, requested->gbits.values[link], &figures, &forecasts[link],
                         error));
    }
    return BERTH_OK;
}

static enum berth_status run_ranks(struct cli_call *call, struct berth_error *error) {
    struct requested requested;
    struct berth_reporter *reporter;
    enum berth_status status = BERTH_OK;
    TRY(check_options(call, BENCH_RANKS, error));
    TRY(read_request(call, &requested, error));
    // If neither --threads nor OMP_NUM_THREADS is given, a host's ranks divide this machine's
    // threads.
    const int64_t ranks = cli_integer(call, "ranks_per_host"),
                  all = machine_threads(&call->config.machine);
    const int is_chosen = call->config.machine.threads > 0 || getenv("OMP_NUM_THREADS") != NULL;
    call->config.machine.threads = is_chosen     ? call->config.machine.threads
                                   : all > ranks ? all / ranks
                                                 : 1;
    TRY(berth_reporter_open(&call->config, STDERR_FILENO, &reporter, error));
    for (size_t i = 0; i < requested.hosts.count && status == BERTH_OK; i++) {
        status = forecast_hosts(call, &requested, i, reporter, error);
    }
    berth_reporter_close(reporter);
    return status;
}

// --- the verb ------------------------------------------------------------------------------------

#define MACHINE "json report quiet device threads instructions tf32 "
#define UPDATES                                                                                    \
    MACHINE "config data update_tokens update_sequences steps warm_up_steps pad_to max_seq_length" \
            " seed precision"
#define TASKS " vocab_file task_name data_dir doc_stride max_query_length"
#define TRAINING                                                                                   \
    " gradient_checkpointing hidden_dropout_prob attention_probs_dropout_prob zero_stage"          \
    " virtual_ranks reduce communication_data_type overlap_comm gpu_exchange reduce_bucket_size"   \
    " allgather_bucket_size replica_check_steps"
#define PROCESSES " no_exchange comm comm_timeout start_timeout topology"

static const struct benchmark {
    const char *name;
    enum berth_status (*run)(struct cli_call *call, struct berth_error *error);
    enum cli_processes processes;
    const char *options; // those that have an effect
} benchmarks[] = {
    {"peak", run_peak, CLI_FIRST, MACHINE "seconds"},
    {"train", run_train, CLI_DIVIDED, UPDATES TASKS TRAINING PROCESSES " replay_compute"},
    {"predict", run_predict, CLI_FIRST, UPDATES TASKS},
    {"pretrain", run_pretrain, CLI_DIVIDED, UPDATES TRAINING PROCESSES},
    {"ranks", run_ranks, CLI_FIRST,
     UPDATES TASKS TRAINING " hosts ranks_per_host rack_hosts link_gbit link_delay_us save_times"},
};

static const struct benchmark *benchmark_of(const struct cli_call *call) {
    for (size_t i = 0; i < sizeof benchmarks / sizeof *benchmarks; i++) {
        if (strcmp(call->arguments[0], benchmarks[i].name) == 0) {
            return &benchmarks[i];
        }
    }
    return NULL;
}

static enum cli_processes processes_of(const struct cli_call *call) {
    const struct benchmark *benchmark = benchmark_of(call);
    return benchmark != NULL ? benchmark->processes : CLI_EACH;
}

static int has_effect(const struct benchmark *benchmark, const char *option) {
    return words_contain(benchmark->options, ' ', option);
}

// The first benchmark in which the option has an effect.
static const struct benchmark *benchmark_with(const char *option) {
    const struct benchmark *benchmark = benchmarks;
    while (!has_effect(benchmark, option)) {
        benchmark++;
    }
    return benchmark;
}

// Notes options without effect. Refuses files of times, which would not be written or read.
static enum berth_status check_unused(const struct cli_call *call,
                                      const struct benchmark *benchmark,
                                      struct berth_error *error) {
    const struct option_row *row;
    for (size_t i = 0; (row = cli_row_next(call->verb, &i)) != NULL;) {
        const char *name = row->name;
        if (!cli_is_given(call, name) || has_effect(benchmark, name)) {
            continue;
        }
        if (words_contain("save_times replay_compute", ' ', name)) {
            return error_set(error, BERTH_USAGE, "--%s is for `berth bench %s`", name,
                             benchmark_with(name)->name);
        }
        cli_note(call, "--%s has no effect in `berth bench %s`", name, benchmark->name);
    }
    return BERTH_OK;
}

// Only the first of several processes has measurements.
static enum berth_status write_report(const struct cli_call *call, struct berth_error *error) {
    const struct run_set set = {.runs = &measured, .count = 1};
    TRY(run_end(&measured, error));
    return measured.records > 0 ? html_write_report(&set, call->config.report.report, error)
                                : BERTH_OK;
}

static enum berth_status run_bench(struct cli_call *call, struct berth_error *error) {
    const struct benchmark *benchmark = benchmark_of(call);
    if (benchmark == NULL) {
        return error_set(error, BERTH_USAGE, "unknown benchmark \"%s\"; usage: berth bench %s",
                         call->arguments[0], call->verb->usage);
    }
    char name[64];
    snprintf(name, sizeof name, "bench %s", benchmark->name);
    TRY(check_unused(call, benchmark, error));
    TRY(call->config.report.report != NULL ? html_check_output(call->config.report.report, error)
                                           : BERTH_OK);
    TRY(run_init(&measured, name, error));
    enum berth_status status = benchmark->run(call, error);
    if (status == BERTH_OK && call->config.report.report != NULL) {
        status = write_report(call, error);
    }
    run_done(&measured);
    return status;
}

static const char *benchmark_at(size_t index) {
    return index < sizeof benchmarks / sizeof *benchmarks ? benchmarks[index].name : NULL;
}

const struct cli_verb cli_bench = {
    .name = "bench",
    .summary = "measure the machine, training, prediction and pre-training; forecast clusters",
    .usage = "peak | train | predict | pretrain | ranks [--config NAME] [--data FILE] [--json]",
    .example = "berth bench peak\n"
               "berth bench train --config base --data train-v1.1.json --vocab vocab.txt "
               "--precision bf16 --json\n"
               "berth bench pretrain --config base --input_dir shards --precision bf16\n"
               "berth bench ranks --config large --data train-v1.1.json --vocab vocab.txt "
               "--hosts 8,64 --link_gbit 25,100",
    .jobs = JOB_BENCH,
    CLI_OWN_OPTIONS(options),
    .arguments_min = 1,
    .arguments_max = 1,
    .argument_at = benchmark_at,
    .processes_of = processes_of,
    .run = run_bench,
};
