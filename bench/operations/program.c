// SPDX-License-Identifier: Apache-2.0
// The program bench_operations: measures a device's single operations beside the time that they
// need at least, "gemm" only the matrix products. Options are read as those of `berth bench`.
// Leaves out the measurements themselves (bench_ops.h).
#include "bench/operations/bench_ops.h"
#include "bench/timing.h"
#include "cli/cli.h"
#include "core/json_line.h"
#include "core/number.h"
#include "model/folder.h"
#include "train/machine/machine.h"

#include <math.h>
#include <string.h>

static const struct option_row options[] = {
    {CLI_TEXT("config", "base"), .unit = "NAME|FILE", .aliases = "config_file",
     .help = "model geometry: tiny, minilm, base, large, or a config.json or its folder"},
    {CLI_INTEGER("rows", "4096"), BETWEEN(64, 1 << 20), .unit = "N",
     .help = "number of tokens in a batch"},
    {CLI_INTEGER("length", "192"), BETWEEN(1, 65536), .unit = "N",
     .help = "number of tokens in a sequence"},
    {CLI_INTEGER("repeats", "5"), BETWEEN(1, 1000000), .unit = "N",
     .help = "number of runs of each operation; the best one counts"},
    {CLI_TEXT("only", NULL), .unit = "TEXT",
     .help = "measure only the operations whose name contains TEXT"},
    {CLI_FLAG("json"), .help = "print one JSON object"},
};

static enum berth_status make_geometry(const struct cli_call *call, struct bench_geometry *geometry,
                                       struct berth_error *error) {
    struct bert_config config = {0};
    TRY(folder_read_shape(cli_value(call, "config"), &config, error));
    int64_t rows = cli_integer(call, "rows");
    int64_t length = cli_integer(call, "length");
    *geometry = (struct bench_geometry){.rows = batch_round(rows),
                                        .length = length < rows ? length : rows,
                                        .hidden = config.hidden_size,
                                        .intermediate = config.intermediate_size,
                                        .heads = config.num_attention_heads,
                                        .vocabulary = config.vocab_size};
    bert_config_done(&config);
    return BERTH_OK;
}

struct table {
    struct bench_lines lines;
    double peaks[DTYPE_I8 + 1]; // FLOP/s in each type that products have; else 0
    double bandwidth;           // bytes/s
};

// A lower bound of the time that the machine needs.
static double floor_seconds(const struct table *table, const struct bench_line *line) {
    const double peak = table->peaks[line->products];
    double compute = peak > 0 ? line->flops / peak : 0.0;
    double memory = table->bandwidth > 0 ? line->bytes / table->bandwidth : 0.0;
    return compute > memory ? compute : memory;
}

static void print_number(const char *key, double value, const char *unit) {
    char text[32];
    number_format(text, sizeof text, "%16.1f", value);
    printf("%-28s %s %s\n", key, text, unit);
}

static void print_table(const struct table *table, double peak) {
    print_number("peak_gflops", peak / 1e9, "GFLOP/s");
    if (table->peaks[DTYPE_I8] > 0) {
        print_number("int8_peak_gops", table->peaks[DTYPE_I8] / 1e9, "GOP/s");
    }
    print_number("bandwidth_gigabytes", table->bandwidth / 1e9, "GB/s");
    printf("%-36s %10s %10s %10s %8s\n", "operation", "ms", "GFLOP/s", "GB/s", "of floor");
    for (int i = 0; i < table->lines.count; i++) {
        const struct bench_line *line = &table->lines.line[i];
        char text[128];
        number_format(text, sizeof text, "%10.3f %10.1f %10.1f %7.1f%%", line->seconds * 1e3,
                      line->flops / line->seconds / 1e9, line->bytes / line->seconds / 1e9,
                      100.0 * floor_seconds(table, line) / line->seconds);
        printf("%-36s %s\n", line->name, text);
    }
}

static void add_table(struct json_line *out, const struct table *table) {
    json_line_open(out, "operations", '[');
    for (int i = 0; i < table->lines.count; i++) {
        const struct bench_line *line = &table->lines.line[i];
        json_line_open(out, NULL, '{');
        json_line_text(out, "name", line->name);
        json_line_real(out, "seconds", line->seconds);
        json_line_real(out, "gflops", line->flops / line->seconds / 1e9);
        json_line_real(out, "gigabytes_per_second", line->bytes / line->seconds / 1e9);
        json_line_real(out, "of_floor", floor_seconds(table, line) / line->seconds);
        json_line_close(out, '}');
    }
    json_line_close(out, ']');
}

static enum berth_status put_table(const struct table *table, double peak,
                                   enum berth_precision precision, struct berth_error *error) {
    struct json_line line = {0};
    json_line_open(&line, NULL, '{');
    json_line_text(&line, "precision", machine_precision_name(precision));
    json_line_real(&line, "peak_gflops", peak / 1e9);
    if (table->peaks[DTYPE_I8] > 0) {
        json_line_real(&line, "int8_peak_gops", table->peaks[DTYPE_I8] / 1e9);
    }
    json_line_real(&line, "bandwidth_gigabytes", table->bandwidth / 1e9);
    add_table(&line, table);
    json_line_close(&line, '}');
    const enum berth_status status = cli_put_json(&line, error);
    json_line_done(&line);
    return status;
}

#define PEAK_READINGS 5 // on a shared machine a measurement can only be too low

static void read_peak(struct device *device, enum dtype dtype, struct table *table) {
    const double peak = machine_peak_flops(device, dtype, PEAK_READINGS);
    table->peaks[dtype] = peak > table->peaks[dtype] ? peak : table->peaks[dtype];
}

// Keeps the best of all readings so far.
static void read_peaks(struct device *device, enum dtype compute, struct table *table) {
    read_peak(device, compute, table);
    if (device->dtypes >> DTYPE_I8 & 1) {
        read_peak(device, DTYPE_I8, table);
    }
}

static enum berth_status measure_on(struct cli_call *call, struct device *device, int products_only,
                                    struct bench_geometry *geometry, struct table *table,
                                    struct berth_error *error) {
    TRY(machine_compute_dtype(&call->config.machine, comm_self(), device, NULL, &geometry->compute,
                              error));
    const struct bench_choice choice = {products_only, cli_value(call, "only")};
    const struct bench_timing timing = {bench_clock(device, machine_threads(&call->config.machine)),
                                        (int)cli_integer(call, "repeats")};
    read_peaks(device, geometry->compute, table);
    table->bandwidth = bench_bandwidth(device, timing.clock, 0.5);
    enum berth_status status = bench_ops(device, geometry, choice, timing, &table->lines, error);
    read_peaks(device, geometry->compute, table);
    return status;
}

static enum berth_status run_operations(struct cli_call *call, struct berth_error *error) {
    const int products_only = strcmp(call->arguments[0], "gemm") == 0;
    struct bench_geometry geometry;
    static struct table table;
    if (!products_only && strcmp(call->arguments[0], "ops") != 0) {
        return error_set(error, BERTH_USAGE, "expected gemm or ops, found \"%s\"",
                         call->arguments[0]);
    }
    TRY(make_geometry(call, &geometry, error));
    struct device *device;
    TRY(machine_device_open(&call->config.machine, comm_self(), NULL, &device, error));
    enum berth_status status = measure_on(call, device, products_only, &geometry, &table, error);
    device->close(device);
    TRY(status);
    const double measured = table.peaks[geometry.compute];
    const double peak = measured > 0 ? measured : (double)NAN;
    if (cli_flag(call, "json")) {
        return put_table(&table, peak, call->config.machine.precision, error);
    }
    print_table(&table, peak);
    return BERTH_OK;
}

static const struct cli_verb verb = {
    .name = "operations",
    .usage = "gemm | ops [--config NAME] [--only TEXT] [--json]",
    .jobs = JOB_BENCH,
    CLI_OWN_OPTIONS(options),
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run_operations,
};

int main(int count, char **words) {
    static const struct cli_verb *const verbs[] = {&verb, NULL};
    static struct cli_call call; // static because it is large
    struct berth_error error = {.status = BERTH_OK};
    cli_use_verbs(verbs);
    enum berth_status status = cli_parse(&call, &verb, count - 1, words + 1, &error);
    status = status == BERTH_OK ? run_operations(&call, &error) : status;
    if (status != BERTH_OK) {
        cli_error(error.message);
    }
    cli_free_owned();
    return cli_exit_code(status);
}
