// SPDX-License-Identifier: Apache-2.0
// berth tokenize: prints the tokens of each line on a line, separated by a space: the piece, or its
// id; with --offsets followed by ":begin-end" in characters of the line; with --json as an object
// of pieces, ids and offsets. The tokens are those of the task tokenize (task/tokenize.c); unlike
// the verbs of run.c it takes its lines in batches, so that a file of any size can pass through.
#include "cli.h"
#include "core/buffer.h"
#include "core/compressed.h"
#include "core/encoding.h"
#include "core/file.h"
#include "core/json_line.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/terminal.h"
#include "core/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OUTPUT_BUFFER ((size_t)1 << 18)

static const struct option_row options[] = {
    {CLI_FLAG("ids"), .help = "print ids instead of pieces"},
    {CLI_FLAG("offsets"), .help = "append :begin-end to each piece, in characters of the line"},
    {CLI_FLAG("json"), .help = "print a JSON object for each line: pieces, ids and offsets"},
    {CLI_FLAG("special"), .aliases = "add_special_tokens",
     .help = "add [CLS] before and [SEP] after each line"},
    {CLI_FLAG("cased"), .help = "the same as --do_lower_case false"},
};

#define BATCH 512                     // lines that are tokenized together
#define BATCH_BYTES ((size_t)1 << 20) // or so many bytes

struct tokenizing {
    struct berth_model *model;
    int ids, offsets, special, json, is_terminal;
    struct berth_item marks[2]; // [CLS] and [SEP]
    struct berth_result *of_marks;
    const char *settings[5];
    struct buffer lines; // of the batch, each with its NUL
    size_t firsts[BATCH], count;
    size_t ill_formed;
};

static void put_number(int64_t value) {
    char digits[24];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    fwrite_unlocked(digits + at, 1, sizeof digits - at, stdout);
}

static void put_token(const struct tokenizing *job, const struct berth_item *token, int first) {
    if (!first) {
        putc_unlocked(' ', stdout);
    }
    if (job->ids) {
        put_number(token->id);
    } else {
        fputs_unlocked(token->text, stdout);
    }
    if (job->offsets) {
        putc_unlocked(':', stdout);
        put_number(token->start);
        putc_unlocked('-', stdout);
        put_number(token->end);
    }
}

enum { PIECES, IDS, OFFSETS };

static void add_json(const struct berth_item *token, int field, struct json_line *line) {
    if (field == PIECES) {
        json_line_text(line, NULL, token->text);
    } else if (field == IDS) {
        json_line_integer(line, NULL, token->id);
    } else {
        json_line_open(line, NULL, '[');
        json_line_integer(line, NULL, token->start);
        json_line_integer(line, NULL, token->end);
        json_line_close(line, ']');
    }
}

static enum berth_status put_json(const struct tokenizing *job, const struct berth_item *tokens,
                                  size_t count, struct berth_error *error) {
    static const char *const keys[] = {[PIECES] = "pieces", [IDS] = "ids", [OFFSETS] = "offsets"};
    struct json_line line DONE_BY(json_line_done) = {0};
    json_line_open(&line, NULL, '{');
    for (int field = PIECES; field <= OFFSETS; field++) {
        json_line_open(&line, keys[field], '[');
        if (job->special) {
            add_json(&job->marks[0], field, &line);
        }
        for (size_t i = 0; i < count; i++) {
            add_json(&tokens[i], field, &line);
        }
        if (job->special) {
            add_json(&job->marks[1], field, &line);
        }
        json_line_close(&line, ']');
    }
    json_line_close(&line, '}');
    return cli_put_json(&line, error);
}

static enum berth_status put_batch(struct tokenizing *job, struct berth_error *error) {
    struct berth_text texts[BATCH] = {{0}};
    for (size_t i = 0; i < job->count; i++) {
        texts[i].text = job->lines.bytes + job->firsts[i];
    }
    struct berth_result *result =
        berth_run(job->model, NULL, texts, job->count, job->settings, NULL, error);
    enum berth_status status = error->status;
    for (size_t i = 0, count; status == BERTH_OK && i < job->count; i++) {
        const struct berth_item *tokens = berth_result_items(result, i, &count);
        if (job->json) {
            status = put_json(job, tokens, count, error);
        } else {
            if (job->special) {
                put_token(job, &job->marks[0], 1);
            }
            for (size_t k = 0; k < count; k++) {
                put_token(job, &tokens[k], k == 0 && !job->special);
            }
            if (job->special) {
                put_token(job, &job->marks[1], 0);
            }
            putc_unlocked('\n', stdout);
        }
    }
    berth_result_free(result);
    job->count = 0;
    buffer_clear(&job->lines);
    if (job->is_terminal) {
        cli_flush_early();
    }
    return status;
}

static enum berth_status add_line(struct tokenizing *job, const char *text, size_t length,
                                  struct berth_error *error) {
    job->firsts[job->count++] = job->lines.length;
    if (utf8_text_prefix(text, length) == length) {
        buffer_put(&job->lines, text, length);
    } else {
        // Ill-formed sequences and NUL become characters that the tokenizer drops.
        for (size_t at = 0; at < length;) {
            uint32_t point;
            const size_t bytes = utf8_decode(text + at, length - at, &point);
            if (point == UTF8_ILL_FORMED) {
                buffer_put_text(&job->lines, "\xEF\xBF\xBD");
                job->ill_formed++;
            } else if (point == 0) {
                buffer_put_byte(&job->lines, 1);
            } else {
                buffer_put(&job->lines, text + at, bytes);
            }
            at += bytes;
        }
    }
    buffer_put_byte(&job->lines, '\0');
    if (job->lines.failed) {
        return error_no_memory(error, job->lines.length, "a line");
    }
    return job->count == BATCH || job->lines.length >= BATCH_BYTES || job->is_terminal
               ? put_batch(job, error)
               : BERTH_OK;
}

// --- lines ---------------------------------------------------------------------------------------

#define LINE_LIMIT ((size_t)1 << 28) // bytes; checked while a line is read

// A text whose first bytes tell its encoding.
struct input {
    FILE *file;
    const char *name;
    char head[COMPRESSED_HEAD]; // the first bytes
    size_t head_length, at;     // how many, and how many of them were taken
    int after_cr;               // the line before ended in CR: an LF belongs to its end
    struct encoding_reader reader;
};

// Reads the first bytes. A terminal's, which may be an answer to what it was shown, are not
// awaited.
static enum berth_status read_head(struct input *input, struct berth_error *error) {
    if (!terminal_is(fileno(input->file))) {
        input->head_length = fread(input->head, 1, sizeof input->head, input->file);
    }
    TRY(compressed_refuse(input->name, input->head, input->head_length, error));
    input->reader.encoding = encoding_of(input->head, input->head_length, &input->at);
    return input->reader.encoding != ENCODING_UTF32
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA, "%s: the file is UTF-32; save it as UTF-8",
                           input->name);
}

static int next_byte(struct input *input) {
    return input->at < input->head_length ? (unsigned char)input->head[input->at++]
                                          : getc_unlocked(input->file);
}

static void put_byte(struct input *input, char byte, struct buffer *line) {
    if (input->reader.encoding == ENCODING_UTF8) {
        buffer_put_byte(line, byte);
    } else {
        encoding_put(&input->reader, &byte, 1, line);
    }
}

// Whether the line has its end, which is LF, CR LF or CR. An LF after the CR of the line before is
// dropped: a reader of a terminal must not wait for it.
static int has_end(struct input *input, struct buffer *line) {
    const char last = line->length > 0 ? line->bytes[line->length - 1] : ' ';
    if (last == '\n' && line->length == 1 && input->after_cr) {
        input->after_cr = 0;
        buffer_clear(line);
        return 0;
    }
    return last == '\n' || last == '\r';
}

// Reads the next line without its line end; `*found` is 0 after the last one.
static enum berth_status read_line(struct input *input, struct buffer *line, int *found,
                                   struct berth_error *error) {
    int byte = 0;
    buffer_clear(line);
    while (!has_end(input, line) && !line->failed && (byte = next_byte(input)) != EOF) {
        if (line->length == LINE_LIMIT) {
            return error_set(error, BERTH_BAD_DATA, "a line is longer than %zu bytes", LINE_LIMIT);
        }
        put_byte(input, (char)byte, line);
    }
    if (byte == EOF) {
        encoding_end(&input->reader, line);
    }
    if (line->failed) {
        return error_no_memory(error, line->length, "a line");
    }
    if (ferror(input->file)) {
        return error_set_errno(error, BERTH_IO, errno, "cannot read the input");
    }
    *found = line->length > 0;
    if (has_end(input, line)) {
        input->after_cr = line->bytes[--line->length] == '\r';
    }
    return BERTH_OK;
}

static enum berth_status put_all(struct tokenizing *job, struct input *input,
                                 struct berth_error *error) {
    struct buffer line DONE_BY(buffer_done) = {0};
    int found = 0;
    TRY(read_head(input, error));
    TRY(read_line(input, &line, &found, error));
    while (found && !ferror(stdout)) {
        TRY(add_line(job, line.length > 0 ? line.bytes : "", line.length, error));
        TRY(read_line(input, &line, &found, error));
    }
    return job->count > 0 ? put_batch(job, error) : BERTH_OK;
}

static enum berth_status prepare(struct tokenizing *job, struct cli_call *call,
                                 struct berth_error *error) {
    TRY(cli_apply_cased(call, error));
    job->model = cli_open_model(call, "tokenize", NULL, NULL, error);
    if (job->model == NULL) {
        return error->status;
    }
    job->ids = cli_flag(call, "ids");
    job->offsets = cli_flag(call, "offsets");
    job->special = cli_flag(call, "special");
    job->json = cli_flag(call, "json");
    job->is_terminal = terminal_is(STDOUT_FILENO);
    // The input of a model for a text without tokens.
    if (job->special) {
        const struct berth_text empty = {.text = ""};
        size_t count;
        job->of_marks = berth_run(job->model, NULL, &empty, 1, NULL, NULL, error);
        if (error->status != BERTH_OK) {
            return error_set(error, error->status, "%s",
                             berth_result_outcome(job->of_marks, 0) != NULL
                                 ? berth_result_outcome(job->of_marks, 0)->message
                                 : error->message);
        }
        memcpy(job->marks, berth_result_items(job->of_marks, 0, &count), sizeof job->marks);
        for (size_t i = 0; i < 2; i++) {
            job->marks[i].start = job->marks[i].end = 0;
        }
        return BERTH_OK;
    }
    return BERTH_OK;
}

static enum berth_status run_on(struct tokenizing *job, struct cli_call *call, struct input *input,
                                struct berth_error *error) {
    TRY(prepare(job, call, error));
    TRY(put_all(job, input, error));
    if (job->ill_formed > 0) {
        cli_warning("dropped %zu ill-formed UTF-8 sequence%s of the input", job->ill_formed,
                    number_plural((int64_t)job->ill_formed));
    }
    return BERTH_OK;
}

static enum berth_status open_text(const char *path, FILE **input, struct berth_error *error) {
    int descriptor;
    TRY(file_require(path, "a text", error));
    TRY(file_open_stream(path, &descriptor, error));
    *input = fdopen(descriptor, "r");
    if (*input == NULL) {
        close(descriptor);
        return error_no_memory(error, 0, path);
    }
    return BERTH_OK;
}

static enum berth_status run_tokenize(struct cli_call *call, struct berth_error *error) {
    static char buffer[OUTPUT_BUFFER];
    const char *path = call->argument_count > 0 ? call->arguments[0] : "-";
    int standard = strcmp(path, "-") == 0;
    struct input input = {.file = stdin, .name = "standard input"};
    if (!standard) {
        input.name = path;
        TRY(open_text(path, &input.file, error));
    }
    static struct tokenizing job = {
        .settings = {"add_special_tokens", "false", "offsets", "characters", NULL}};
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    enum berth_status status = run_on(&job, call, &input, error);
    buffer_done(&job.lines);
    berth_result_free(job.of_marks);
    berth_close(job.model);
    if (!standard) {
        fclose(input.file);
    }
    return status;
}

const struct cli_verb cli_tokenize = {
    .name = "tokenize",
    .summary = "show how text is tokenized: a line in, a line out",
    .usage = "(--model DIR | --vocab FILE) [--ids | --json] [--offsets] [--special] [FILE]",
    .example = "berth tokenize --model squad-minilm text.txt\n"
               "echo 'Hello, world!' | berth tokenize --vocab vocab.txt --ids --special",
    .jobs = JOB_TOKENIZE,
    CLI_OWN_OPTIONS(options),
    .arguments_max = 1,
    .processes = CLI_FIRST,
    .run = run_tokenize,
};
