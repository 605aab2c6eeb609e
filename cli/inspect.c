// SPDX-License-Identifier: Apache-2.0
// berth inspect: the tensors of a checkpoint and its config.
#include "cli.h"
#include "core/json_line.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct cli_option options[] = {
    {.name = "json", .kind = CLI_FLAG, .help = "one JSON object on standard output"},
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
    char shape[128] = "[";
    for (int i = 0; i < info->rank; i++) {
        size_t used = strlen(shape);
        snprintf(shape + used, sizeof shape - used, "%s%" PRId64, i > 0 ? ", " : "",
                 info->shape[i]);
    }
    printf("%-5s %-16s %s\n", info->dtype, strcat(shape, "]"), info->name);
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

static enum berth_status finish(struct listing *listing, const char *config,
                                struct berth_error *error) {
    if (!listing->json) {
        printf("%zu tensors, %" PRIu64 " parameters, %" PRIu64 " bytes\n", listing->tensors,
               listing->elements, listing->bytes);
        if (config != NULL) {
            printf("config.json:\n%s\n", config);
        }
        return BERTH_OK;
    }
    json_line_close(&listing->line, ']');
    json_line_integer(&listing->line, "parameters", (int64_t)listing->elements);
    json_line_integer(&listing->line, "bytes", (int64_t)listing->bytes);
    json_line_text(&listing->line, "config", config);
    json_line_close(&listing->line, '}');
    return cli_put_json(&listing->line, error);
}

static enum berth_status run(struct cli_call *call, struct berth_error *error) {
    struct listing listing = {.json = cli_flag(call, "json")};
    char *config = NULL;
    if (listing.json) {
        json_line_open(&listing.line, NULL, '{');
        json_line_open(&listing.line, "tensors", '[');
    }
    enum berth_status status = berth_inspect(call->arguments[0], visit, &listing, &config, error);
    if (status == BERTH_OK) {
        status = finish(&listing, config, error);
    }
    berth_string_free(config);
    json_line_done(&listing.line);
    return status;
}

const struct cli_verb cli_inspect = {
    .name = "inspect",
    .summary = "list a checkpoint's tensors, types, shapes, config",
    .usage = "PATH [--json]",
    .example = "berth inspect squad-minilm\n"
               "berth inspect squad-minilm/model.safetensors",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .arguments_least = 1,
    .arguments_most = 1,
    .models = 1,
    .run = run,
};
