// SPDX-License-Identifier: Apache-2.0
// berth compare: compares the tensors of two models.
#include "cli.h"
#include "core/json_line.h"

#include <inttypes.h>
#include <stdio.h>

static const struct option_row options[] = {
    {CLI_REAL("tolerance", "0"), BETWEEN(0, 1e300), .unit = "X",
     .help = "largest absolute difference that counts as equal"},
    {CLI_FLAG("json"), .help = "print one JSON object"},
};

struct listing {
    struct json_line line; // of --json
    int json;
};

static void put_text(const struct berth_difference *difference) {
    if (difference->remark != NULL) {
        printf("%-12s %-12s %s (%s)\n", "-", "-", cli_escape_name(difference->name),
               cli_escape_name(difference->remark));
    } else {
        printf("%-12.6g %-12.9f %s\n", difference->largest, difference->cosine,
               cli_escape_name(difference->name));
    }
}

static void put_json(struct json_line *line, const struct berth_difference *difference) {
    json_line_open(line, NULL, '{');
    json_line_text(line, "name", difference->name);
    json_line_integer(line, "elements", difference->elements);
    json_line_real(line, "largest", difference->largest);
    json_line_real(line, "cosine", difference->cosine);
    json_line_boolean(line, "differs", difference->differs);
    json_line_text(line, "remark", difference->remark);
    json_line_close(line, '}');
}

static void visit(void *context, const struct berth_difference *difference) {
    struct listing *listing = context;
    if (listing->json) {
        put_json(&listing->line, difference);
    } else {
        put_text(difference);
    }
}

static enum berth_status finish(struct listing *listing, const struct berth_comparison *total,
                                double tolerance, struct berth_error *error) {
    if (!listing->json) {
        printf("%" PRId64 " tensors, %" PRId64 " compared, %" PRId64
               " differ by more than %g; largest difference %g, smallest cosine %.9f\n",
               total->tensors, total->compared, total->differing, tolerance, total->largest,
               total->cosine);
        return BERTH_OK;
    }
    json_line_close(&listing->line, ']');
    json_line_integer(&listing->line, "compared", total->compared);
    json_line_integer(&listing->line, "differing", total->differing);
    json_line_real(&listing->line, "tolerance", tolerance);
    json_line_real(&listing->line, "largest", total->largest);
    json_line_real(&listing->line, "cosine", total->cosine);
    json_line_close(&listing->line, '}');
    return cli_put_json(&listing->line, error);
}

static enum berth_status run(struct cli_call *call, struct berth_error *error) {
    struct listing listing = {.json = cli_flag(call, "json")};
    struct berth_comparison total;
    double tolerance = cli_real(call, "tolerance");
    if (listing.json) {
        json_line_open(&listing.line, NULL, '{');
        json_line_open(&listing.line, "tensors", '[');
    } else {
        printf("%-12s %-12s %s\n", "largest", "cosine", "tensor");
    }
    enum berth_status status = berth_compare(call->arguments[0], call->arguments[1], tolerance,
                                             visit, &listing, &total, error);
    if (status == BERTH_OK) {
        status = finish(&listing, &total, tolerance, error);
    }
    json_line_done(&listing.line);
    if (status == BERTH_OK && total.differing > 0) {
        return error_set(error, BERTH_FAILURE,
                         "%s and %s differ in %" PRId64 " of %" PRId64 " tensors",
                         call->arguments[0], call->arguments[1], total.differing, total.tensors);
    }
    return status;
}

const struct cli_verb cli_compare = {
    .name = "compare",
    .summary = "compare the tensors of two models",
    .usage = "A B [--tolerance X] [--json]",
    .example = "berth compare squad-minilm squad-minilm-hf\n"
               "berth compare run-1 run-2/model.safetensors --tolerance 1e-5",
    .notes = "A and B are model folders or files of tensors; names are translated to Hugging "
             "Face's, types may differ. Exit code 1 when a tensor differs by more than the "
             "tolerance, has another shape, or is only in one of them.",
    CLI_OWN_OPTIONS(options),
    .arguments_min = 2,
    .arguments_max = 2,
    .models = 2,
    .processes = CLI_FIRST,
    .run = run,
};
