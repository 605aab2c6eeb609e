// SPDX-License-Identifier: Apache-2.0
// berth embed: writes one embedding for each line of text, as JSON lines or NumPy's .npy.
#include "cli.h"
#include "core/file.h"
#include "core/json_line.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/terminal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CHUNK 1024 // texts between two writes

static const struct option_row options[] = {
    {CLI_TEXT("output", NULL), .unit = "FILE", .shown = "JSON lines on standard output",
     .help = "file for the embeddings: .npy, or JSON lines under any other name"},
    {CLI_TEXT("pooling", NULL), .unit = "HOW", .shown = "as the model folder says, else mean",
     .help = "how to combine the tokens of a text: mean, cls, max, mean_sqrt_len_tokens, "
             "weightedmean or lasttoken"},
    {CLI_ROW(OPTION_FLAG, "normalize", "auto"), BETWEEN(-1, 1),
     .shown = "as the model folder says, else true", .help = "scale every embedding to length 1"},
};

struct job {
    char *bytes; // of the input, cut into lines
    const char **texts;
    size_t count, size;
    int pooling, normalize; // as requested; -1: as the model's folder says
    struct berth_embedding how;
    int npy;
    struct berth_encoder *encoder;
    float *embeddings; // [CHUNK][size]
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
#define POOLINGS (sizeof pooling_names / sizeof *pooling_names)

static enum berth_status read_pooling(struct job *job, const char *pooling,
                                      struct berth_error *error) {
    job->pooling = -1;
    for (size_t i = 0; pooling != NULL && i < POOLINGS; i++) {
        if (strcmp(pooling_names[i], pooling) == 0) {
            job->pooling = (int)i;
        }
    }
    return pooling == NULL || job->pooling >= 0
               ? BERTH_OK
               : error_set(error, BERTH_USAGE,
                           "option pooling: expected one of mean, cls, max, mean_sqrt_len_tokens, "
                           "weightedmean, lasttoken, found \"%s\"",
                           pooling);
}

static enum berth_status read_options(struct job *job, struct cli_call *call,
                                      struct berth_error *error) {
    const char *output = cli_value(call, "output");
    TRY(read_pooling(job, cli_value(call, "pooling"), error));
    job->normalize = cli_flag(call, "normalize");
    job->npy =
        output != NULL && strlen(output) > 4 && strcmp(output + strlen(output) - 4, ".npy") == 0;
    // Embeddings are compared and stored, so they use full precision by default.
    option_take_default(&call->config, "precision", JOB_EMBED);
    return BERTH_OK;
}

// --- texts --------------------------------------------------------------------------------------

static enum berth_status cut_lines(struct job *job, size_t length, const char *path,
                                   struct berth_error *error) {
    size_t lines = 0;
    if (strlen(job->bytes) != length) {
        return error_set(error, BERTH_BAD_DATA, "%s: byte %zu is NUL; expected text", path,
                         strlen(job->bytes));
    }
    for (size_t i = 0; i < length; i++) {
        lines += job->bytes[i] == '\n';
    }
    job->texts = memory_array(lines + 1, sizeof *job->texts);
    if (job->texts == NULL) {
        return error_no_memory(error, lines * sizeof *job->texts, "the texts");
    }
    for (char *at = job->bytes; *at != '\0';) {
        size_t own = strcspn(at, "\n");
        char *next = at + own + (at[own] == '\n');
        job->texts[job->count++] = at;
        at[own > 0 && at[own - 1] == '\r' ? own - 1 : own] = '\0';
        at = next;
    }
    return BERTH_OK;
}

static enum berth_status read_texts(struct job *job, struct cli_call *call,
                                    struct berth_error *error) {
    const char *path = call->argument_count > 0 ? call->arguments[0] : "-";
    size_t length;
    if (strcmp(path, "-") == 0 && terminal_is(STDIN_FILENO)) {
        cli_note(call, "reading one text per line from the terminal; Ctrl-D ends it");
    }
    TRY(cli_read(path, &job->bytes, &length, error));
    return cut_lines(job, length, strcmp(path, "-") == 0 ? "standard input" : path, error);
}

// --- output -------------------------------------------------------------------------------------

// NumPy's format 1.0: a header padded to a multiple of 64 bytes, then the rows.
static enum berth_status put_npy_header(struct job *job, struct berth_error *error) {
    char dictionary[192], header[256] = "\x93NUMPY\x01";
    int used = snprintf(dictionary, sizeof dictionary,
                        "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %zu), }",
                        job->count, job->size);
    size_t whole = ((size_t)used + 1 + 10 + 63) / 64 * 64;
    memset(header + 10, ' ', whole - 11);
    memcpy(header + 10, dictionary, (size_t)used);
    header[whole - 1] = '\n';
    header[8] = (char)((whole - 10) & 255);
    header[9] = (char)((whole - 10) >> 8);
    return file_writer_put(&job->writer, header, whole, error);
}

static enum berth_status put_json(struct job *job, size_t index, const float *values, int to_file,
                                  struct berth_error *error) {
    struct json_line *line = &job->line;
    json_line_open(line, NULL, '{');
    json_line_integer(line, "index", (int64_t)index);
    json_line_open(line, "embedding", '[');
    for (size_t i = 0; i < job->size; i++) {
        char text[NUMBER_TEXT_SIZE];
        number_format(text, sizeof text, "%.9g", (double)values[i]);
        json_line_raw(line, NULL, text);
    }
    json_line_close(line, ']');
    json_line_close(line, '}');
    if (!to_file) {
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

static enum berth_status put_chunk(struct job *job, size_t first, size_t count, int to_file,
                                   struct berth_error *error) {
    if (job->npy) {
        return file_writer_put(&job->writer, job->embeddings,
                               count * job->size * sizeof *job->embeddings, error);
    }
    for (size_t i = 0; i < count; i++) {
        TRY(put_json(job, first + i, job->embeddings + i * job->size, to_file, error));
    }
    return BERTH_OK;
}

// --- the verb -----------------------------------------------------------------------------------

// Options take precedence over the model's folder.
static void settle(struct job *job, struct cli_call *call) {
    struct berth_embedding usual = berth_encoder_usual(job->encoder);
    job->how = usual;
    if (job->pooling >= 0) {
        job->how.pooling = (enum berth_pooling)job->pooling;
    }
    if (job->normalize >= 0) {
        job->how.normalize = job->normalize;
    }
    if (job->how.pooling != usual.pooling) {
        cli_note(call, "pooling: %s instead of the model's %s", pooling_names[job->how.pooling],
                 pooling_names[usual.pooling]);
    }
    if (job->how.normalize != usual.normalize) {
        cli_note(call, "normalize: %s instead of the model's %s",
                 job->how.normalize ? "true" : "false", usual.normalize ? "true" : "false");
    }
}

static enum berth_status embed_all(struct job *job, struct cli_call *call, const char *output,
                                   struct berth_error *error) {
    TRY(berth_encoder_open(&call->config, cli_log(call), &job->encoder, error));
    settle(job, call);
    job->size = berth_encoder_size(job->encoder);
    job->embeddings = memory_array(CHUNK * job->size, sizeof *job->embeddings);
    if (job->embeddings == NULL) {
        return error_no_memory(error, CHUNK * job->size * sizeof *job->embeddings, "embeddings");
    }
    if (output != NULL) {
        TRY(file_writer_open(&job->writer, output, error));
    }
    if (job->npy) {
        TRY(put_npy_header(job, error));
    }
    for (size_t done = 0; done < job->count; done += CHUNK) {
        size_t count = job->count - done < CHUNK ? job->count - done : CHUNK;
        TRY(berth_encoder_embed(job->encoder, job->texts + done, count, job->how, job->embeddings,
                                error));
        TRY(put_chunk(job, done, count, output != NULL, error));
    }
    return output != NULL ? file_writer_commit(&job->writer, error) : BERTH_OK;
}

static enum berth_status run(struct cli_call *call, struct berth_error *error) {
    struct job job = {.writer = {.descriptor = -1}};
    enum berth_status status = read_options(&job, call, error);
    if (status == BERTH_OK) {
        status = read_texts(&job, call, error);
    }
    if (status == BERTH_OK) {
        status = embed_all(&job, call, cli_value(call, "output"), error);
    }
    file_writer_abort(&job.writer);
    berth_encoder_close(job.encoder);
    json_line_done(&job.line);
    memory_free(job.embeddings);
    memory_free(job.texts);
    memory_free(job.bytes);
    return status;
}

const struct cli_verb cli_embed = {
    .name = "embed",
    .summary = "embeddings of texts: a line in, a row of numbers out",
    .usage = "--model DIR [--pooling HOW] [--output FILE] [FILE]",
    .example = "berth embed --model minilm texts.txt --output texts.npy\n"
               "echo 'A man sleeps.' | berth embed --model minilm --pooling cls",
    .notes =
        "Each line of FILE, or of standard input, is a text. The mean includes all of a text's "
        "tokens, [CLS] and [SEP] among them, as in sentence-transformers. A sentence-transformers "
        "folder determines how its texts are pooled, scaled and truncated. Output is {\"index\": "
        "N, \"embedding\": [...]} per line, or one float32 array [texts, size].",
    .jobs = JOB_EMBED,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .required = "model_name_or_path",
    .arguments_most = 1,
    .processes = CLI_FIRST,
    .run = run,
};
