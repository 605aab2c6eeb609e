// SPDX-License-Identifier: Apache-2.0
// berth inspect: lists the tensors of a checkpoint and its config, and the contents of pre-training
// data. Uses library internals for the manifest of that data and the text of shapes, which are not
// part of the public interface.
#include "cli.h"
#include "core/file.h"
#include "core/json_line.h"
#include "core/number.h"
#include "data/pretraining/shard_origin.h"
#include "format/tensors/tensor.h"

#include <inttypes.h>
#include <stdio.h>

static const struct option_row options[] = {
    {CLI_FLAG("json"), .help = "print one JSON object"},
};

struct listing {
    struct json_line line; // of --json
    int json;
    size_t tensors;
    uint64_t elements, bytes;
};

static uint64_t count_elements(const struct berth_tensor_info *info) {
    uint64_t count = 1;
    for (int i = 0; i < info->rank; i++) {
        count *= (uint64_t)info->shape[i];
    }
    return count;
}

static void put_text(const struct berth_tensor_info *info) {
    char shape[TENSOR_SHAPE_SIZE];
    tensor_print_shape(shape, sizeof shape, info->shape, info->rank);
    printf("%-5s %-16s %s\n", info->dtype, shape, cli_escape_name(info->name));
}

static void put_json(struct json_line *line, const struct berth_tensor_info *info) {
    json_line_open(line, NULL, '{');
    json_line_text(line, "name", info->name);
    json_line_text(line, "dtype", info->dtype);
    json_line_open(line, "shape", '[');
    for (int i = 0; i < info->rank; i++) {
        json_line_integer(line, NULL, info->shape[i]);
    }
    json_line_close(line, ']');
    json_line_integer(line, "bytes", (int64_t)info->bytes);
    json_line_close(line, '}');
}

static void visit(void *context, const struct berth_tensor_info *info) {
    struct listing *listing = context;
    listing->tensors++;
    listing->elements += count_elements(info);
    listing->bytes += info->bytes;
    if (listing->json) {
        put_json(&listing->line, info);
    } else {
        put_text(info);
    }
}

// --- pre-training data --------------------------------------------------------------------------

static void put_data_json(struct json_line *line, const struct berth_data_info *info) {
    json_line_open(line, "data", '{');
    json_line_integer(line, "files", info->files);
    json_line_integer(line, "rows", info->rows);
    json_line_integer(line, "max_seq_length", info->max_seq_length);
    json_line_integer(line, "instances", info->instances);
    json_line_integer(line, "tokens", info->tokens);
    json_line_integer(line, "predictions", info->predictions);
    json_line_integer(line, "random_next", info->random_next);
    json_line_integer(line, "shortest", info->shortest);
    json_line_integer(line, "longest", info->longest);
    json_line_close(line, '}');
}

static void print_data(const struct berth_data_info *info) {
    printf("%" PRId64 " instance%s of %" PRId64 " to %" PRId64 " tokens in %" PRId64
           " row%s of %" PRId64 " file%s",
           info->instances, number_plural(info->instances), info->shortest, info->longest,
           info->rows, number_plural(info->rows), info->files, number_plural(info->files));
    if (info->max_seq_length > 0) {
        printf(", rows of %" PRId64 " tokens %.1f %% full", info->max_seq_length,
               number_percent(info->tokens, info->rows * info->max_seq_length));
    }
    printf("\n%.1f %% of the tokens predicted, %.1f %% of the instances with a random second "
           "segment\n",
           number_percent(info->predictions, info->tokens),
           number_percent(info->random_next, info->instances));
}

// --- verb ----------------------------------------------------------------------------------------

static void print_text(const struct listing *listing, const char *config,
                       const struct berth_data_info *info) {
    if (listing->tensors > 0) {
        printf("%zu tensor%s, %" PRIu64 " parameter%s, %" PRIu64 " bytes\n", listing->tensors,
               number_plural((int64_t)listing->tensors), listing->elements,
               number_plural((int64_t)listing->elements), listing->bytes);
    }
    if (config != NULL) {
        printf("config.json:\n%s\n", config);
    }
    if (info->files > 0) {
        print_data(info);
    }
}

static enum berth_status finish(struct listing *listing, const char *config,
                                const struct berth_data_info *info, struct berth_error *error) {
    if (!listing->json) {
        print_text(listing, config, info);
        return BERTH_OK;
    }
    json_line_close(&listing->line, ']');
    json_line_integer(&listing->line, "parameters", (int64_t)listing->elements);
    json_line_integer(&listing->line, "bytes", (int64_t)listing->bytes);
    json_line_text(&listing->line, "config", config);
    if (info->files > 0) {
        put_data_json(&listing->line, info);
    }
    json_line_close(&listing->line, '}');
    return cli_put_json(&listing->line, error);
}

// Data folders and TFRecord files have no tensors to list.
static int has_tensors(const char *path, const struct berth_data_info *info) {
    return info->files == 0 || (info->files == 1 && info->max_seq_length > 0 && !dir_exists(path));
}

// Warns of a folder of data that was not made to its end.
static enum berth_status check_origin(struct cli_call *call, const char *folder,
                                      struct berth_error *error) {
    const struct berth_log log = cli_log(call);
    struct shard_origin origin;
    const enum berth_status status = shard_origin_read(folder, &origin, error);
    if (status == BERTH_OK) {
        shard_origin_warn(&origin, &log);
    }
    shard_origin_done(&origin);
    return status;
}

static enum berth_status run(struct cli_call *call, struct berth_error *error) {
    struct listing listing = {.json = cli_flag(call, "json")};
    struct berth_data_info info;
    const char *path = call->arguments[0];
    char *config = NULL;
    TRY(berth_inspect_data(path, &info, error));
    TRY(info.files > 0 && dir_exists(path) ? check_origin(call, path, error) : BERTH_OK);
    if (listing.json) {
        json_line_open(&listing.line, NULL, '{');
        json_line_open(&listing.line, "tensors", '[');
    }
    enum berth_status status =
        has_tensors(path, &info) ? berth_inspect(path, visit, &listing, &config, error) : BERTH_OK;
    if (status == BERTH_OK) {
        status = finish(&listing, config, &info, error);
    }
    berth_string_free(config);
    json_line_done(&listing.line);
    return status;
}

const struct cli_verb cli_inspect = {
    .name = "inspect",
    .summary = "list a checkpoint's tensors, types, shapes, config; look into pre-training data",
    .usage = "PATH [--json]",
    .example = "berth inspect squad-minilm\n"
               "berth inspect squad-minilm/model.safetensors\n"
               "berth inspect data/hdf5_lower_case_1_.../wikicorpus_en",
    CLI_OWN_OPTIONS(options),
    .arguments_min = 1,
    .arguments_max = 1,
    .models = 1,
    .processes = CLI_FIRST,
    .run = run,
};
