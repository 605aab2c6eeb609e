// SPDX-License-Identifier: Apache-2.0
// berth embed: writes one embedding for each line of text, as JSON lines or NumPy's .npy.
#include "cli.h"
#include "core/file.h"
#include "core/json_line.h"
#include "core/launcher.h"
#include "core/words.h"

#include <stdio.h>
#include <string.h>

static const struct option_row options[] = {
    {CLI_TEXT("output", NULL), .unit = "FILE", .shown = "JSON lines on standard output",
     .help = "file for the embeddings: .npy, or JSON lines under any other name "
             "(-: standard output)"},
    {CLI_TEXT("pooling", NULL), .unit = "HOW", .shown = "as in the model's folder, else mean",
     .choices = "mean|cls|max|mean_sqrt_len_tokens|weightedmean|lasttoken",
     .help = "how to combine the tokens of a text"},
    {CLI_ROW(OPTION_FLAG, "normalize", "auto"), .has_auto = 1,
     .shown = "as in the model's folder, else true", .help = "scale every embedding to length 1"},
};

struct job {
    struct cli_call *call;
    struct berth_embed_job embed;
    struct cli_lines lines;
    size_t done, size;
    int npy;
    const char *output; // NULL: standard output
    struct json_line line;
    struct file_writer writer; // of --output
};

// --- options ------------------------------------------------------------------------------------

static const char *const pooling_names[] = {[BERTH_POOL_MEAN] = "mean",
                                            [BERTH_POOL_CLS] = "cls",
                                            [BERTH_POOL_MAX] = "max",
                                            [BERTH_POOL_MEAN_SQRT_LENGTH] = "mean_sqrt_len_tokens",
                                            [BERTH_POOL_WEIGHTED_MEAN] = "weightedmean",
                                            [BERTH_POOL_LAST] = "lasttoken"};

// -1: as in the model's folder.
static int read_pooling(const char *pooling) {
    int number = pooling != NULL ? BERTH_POOL_LAST : -1;
    while (number >= 0 && strcmp(pooling_names[number], pooling) != 0) {
        number--;
    }
    return number;
}

// An output may replace what an earlier call wrote, but not the texts.
static enum berth_status check_output(const struct job *job, struct berth_error *error) {
    static const char *const lines[] = {"{\"index\":", NULL};
    static const char *const numpy[] = {"\x93NUMPY", NULL};
    static const struct file_kind kinds[] = {{"embeddings as JSON lines", lines},
                                             {"an array of NumPy", numpy}};
    const struct cli_call *call = job->call;
    if (job->output == NULL) {
        return BERTH_OK;
    }
    if (call->argument_count > 0) {
        TRY(file_check_output(job->output, call->arguments[0], error));
    }
    return file_check_kind(job->output, &kinds[job->npy], error);
}

static void read_options(struct job *job) {
    const struct cli_call *call = job->call;
    const char *given = cli_value(call, "output");
    const char *output = given != NULL && strcmp(given, "-") == 0 ? NULL : given;
    job->embed.pooling = read_pooling(cli_value(call, "pooling"));
    job->embed.normalize = cli_flag(call, "normalize");
    job->output = output;
    job->npy = output != NULL && name_has_extension(output, ".npy");
}

// --- texts --------------------------------------------------------------------------------------

static int is_one_of_several(void) {
    const struct launch launch = launch_find();
    return launch_is_parallel(&launch);
}

// From then on a signal does not end this process alone, with a part of the file or with other
// processes that wait for it.
static void stop_on_signals(struct job *job) {
    job->embed.stop = cli_stop_on_signals(job->output != NULL ? "nothing will be written"
                                                              : "finishing these texts");
}

static enum berth_status read_texts(void *context, const char *const **texts, size_t *count,
                                    struct berth_error *error) {
    struct job *job = context;
    TRY(check_output(job, error));
    TRY(cli_read_lines(job->call, &job->lines, error));
    if (job->output != NULL || is_one_of_several()) {
        stop_on_signals(job); // not earlier: reading may wait for a person
    }
    *texts = job->lines.items;
    *count = job->lines.count;
    return BERTH_OK;
}

// --- output -------------------------------------------------------------------------------------

// NumPy's format 1.0: a header padded to a multiple of 64 bytes, then the rows.
static enum berth_status put_npy_header(struct job *job, struct berth_error *error) {
    char dictionary[192], header[256] = "\x93NUMPY\x01";
    int used = snprintf(dictionary, sizeof dictionary,
                        "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %zu), }",
                        job->lines.count, job->size);
    size_t whole = ((size_t)used + 1 + 10 + 63) / 64 * 64;
    memset(header + 10, ' ', whole - 11);
    memcpy(header + 10, dictionary, (size_t)used);
    header[whole - 1] = '\n';
    header[8] = (char)((whole - 10) & 255);
    header[9] = (char)((whole - 10) >> 8);
    return file_writer_put(&job->writer, header, whole, error);
}

static enum berth_status put_json(struct job *job, const float *values, struct berth_error *error) {
    struct json_line *line = &job->line;
    json_line_open(line, NULL, '{');
    json_line_integer(line, "index", (int64_t)job->done++);
    json_line_open(line, "embedding", '[');
    for (size_t i = 0; i < job->size; i++) {
        json_line_float(line, NULL, values[i]);
    }
    json_line_close(line, ']');
    json_line_close(line, '}');
    if (job->output == NULL) {
        return cli_put_json(line, error);
    }
    json_line_end(line);
    if (line->failed) {
        return error_no_memory(error, line->length, "a line of JSON");
    }
    enum berth_status status = file_writer_put(&job->writer, line->text, line->length, error);
    json_line_clear(line);
    return status;
}

static enum berth_status put(void *context, const float *embeddings, size_t count,
                             struct berth_error *error) {
    struct job *job = context;
    if (job->npy) {
        return file_writer_put(&job->writer, embeddings, count * job->size * sizeof *embeddings,
                               error);
    }
    for (size_t i = 0; i < count; i++) {
        TRY(put_json(job, embeddings + i * job->size, error));
    }
    return BERTH_OK;
}

static enum berth_status end(void *context, struct berth_error *error) {
    struct job *job = context;
    return job->output != NULL ? file_writer_commit(&job->writer, error) : BERTH_OK;
}

// --- the verb -----------------------------------------------------------------------------------

static void note_choices(const struct cli_call *call, const struct berth_embed_job *embed,
                         struct berth_embedding usual) {
    if (embed->pooling >= 0 && embed->pooling != (int)usual.pooling) {
        cli_note(call, "pooling: %s instead of the model's %s", pooling_names[embed->pooling],
                 pooling_names[usual.pooling]);
    }
    if (embed->normalize >= 0 && embed->normalize != usual.normalize) {
        cli_note(call, "normalize: %s instead of the model's %s",
                 embed->normalize ? "true" : "false", usual.normalize ? "true" : "false");
    }
}

static enum berth_status begin(void *context, struct berth_embedding usual, size_t size,
                               struct berth_error *error) {
    struct job *job = context;
    job->size = size;
    note_choices(job->call, &job->embed, usual);
    if (job->output != NULL) {
        TRY(file_writer_open(&job->writer, job->output, error));
    }
    return job->npy ? put_npy_header(job, error) : BERTH_OK;
}

static enum berth_status run(struct cli_call *call, struct berth_error *error) {
    struct job job = {.call = call, .writer = {.descriptor = -1}};
    job.embed = (struct berth_embed_job){
        .read = read_texts, .begin = begin, .put = put, .end = end, .context = &job};
    read_options(&job);
    if (!cli_reports()) {
        stop_on_signals(&job); // the first process reads the texts before
    }
    enum berth_status status = berth_embed(&call->config, cli_log(call), &job.embed, error);
    if (status == BERTH_INTERRUPTED && job.output != NULL && cli_reports()) {
        (void)error_prefix(error, status, "nothing was written");
    }
    file_writer_abort(&job.writer);
    json_line_done(&job.line);
    cli_lines_done(&job.lines);
    return status;
}

const struct cli_verb cli_embed = {
    .name = "embed",
    .summary = "embed texts: a line in, a row of numbers out",
    .usage = "--model DIR [--pooling HOW] [--output FILE] [FILE]",
    .example = "berth embed --model minilm texts.txt --output texts.npy\n"
               "echo 'A man sleeps.' | berth embed --model minilm --pooling cls",
    .notes =
        "Each line of FILE, or of standard input, is a text. The mean includes all of a text's "
        "tokens, [CLS] and [SEP] among them, as in sentence-transformers. A sentence-transformers "
        "folder determines how its texts are pooled, scaled and truncated. Output is {\"index\": "
        "N, \"embedding\": [...]} per line, or one float32 array [texts, size].",
    .jobs = JOB_EMBED,
    CLI_OWN_OPTIONS(options),
    .required = "model_name_or_path",
    .arguments_max = 1,
    .processes = CLI_DIVIDED,
    .streams_output = 1,
    .run = run,
};
