// SPDX-License-Identifier: Apache-2.0
// Runs the verbs `berth answer`, `berth embed`, ...: checks the options, reads the texts, opens the
// model, runs the texts in rounds by berth_run, and writes what was found as JSON lines, numbers or
// lines for people. The verbs are made in run_options.c from the tasks' rows (task/task.h), and
// their texts are read by texts.c. `berth tokenize` has a file of its own.
#include "run.h"

#include "api/model.h"
#include "comm/comm.h"
#include "core/file.h"
#include "core/json_line.h"
#include "core/launcher.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/string_index.h"
#include "core/terminal.h"
#include "core/text_util.h"
#include "format/checksum/digest.h"
#include "output_type.h"
#include "settings/settings.h"
#include "train/machine/machine.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ROUND 512 // texts that are run and printed together
// Windows of a single text that pass through the network together; memory for more is seldom used.
#define WINDOWS "8"

struct run {
    struct cli_call *call;
    const struct task_row *task;
    struct cli_texts texts;
    struct berth_model *model;
    const char *settings[2 * CLI_OPTIONS_MAX + 3]; // of berth_run
    struct call_settings asked;                    // the same
    const atomic_int *stop;                        // NULL: signals end the program
    struct comm *comm;                             // of the processes that divide the texts
    size_t done, cut, first_cut;                   // texts, of which so many were truncated
    struct task_ranked *ranked;                    // [count] of a task that ranks; NULL: none
    // The output.
    const char *output;  // NULL: standard output
    struct digest *hash; // of the numbers, which are not written; NULL: they are
    int raw;             // numbers alone, for .npy or the hash; 0: lines
    int for_people;
    struct typed_output typed;
    struct json_line line; // the lines of a round, or its numbers
    struct file_writer writer;
};

static const char *given(const struct run *run, const char *name) {
    return name != NULL ? cli_value(run->call, name) : NULL;
}

// --- the options ---------------------------------------------------------------------------------

// Refuses options of the verb's own row that another row, which a flag asks for, does not follow.
static enum berth_status check_flag(const struct run *run, struct berth_error *error) {
    static const char *const others[] = {"pooling", "normalize"};
    const char *flag = run->task->verb.flag;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (cli_is_given(run->call, others[i])) {
            return error_set(error, BERTH_USAGE, "--%s has no effect with --%s; leave it out",
                             others[i], flag);
        }
    }
    return !run->raw && run->typed.type == OUTPUT_FLOAT32
               ? BERTH_OK
               : error_set(error, BERTH_USAGE,
                           "--%s writes JSON lines of different lengths; leave out --output_type "
                           "and --hash, and give --output a name that does not end in .npy",
                           flag);
}

// The row that a flag asks for in place of the verb's own.
static enum berth_status choose_row(struct run *run, struct berth_error *error) {
    const struct task_row *own = run->task;
    for (size_t i = 0; task_rows[i] != NULL; i++) {
        const struct task_verb *verb = &task_rows[i]->verb;
        if (verb->of == NULL || strcmp(verb->of, own->about.name) != 0 ||
            !cli_flag(run->call, verb->flag)) {
            continue;
        }
        if (run->task != own) {
            return error_set(error, BERTH_USAGE, "give --%s or --%s, not both",
                             run->task->verb.flag, verb->flag);
        }
        run->task = task_rows[i];
    }
    return run->task != own ? check_flag(run, error) : BERTH_OK;
}

// A task with pairs needs its first text, and other ones, a first text for a second.
enum berth_status cli_settle_task(struct cli_call *call, struct berth_error *error) {
    const struct berth_task *about = &task_find(call->verb->name)->about;
    const int has_pair = about->pair != NULL && cli_value(call, about->pair) != NULL;
    return cli_is_given(call, "model_name_or_path") && cli_value(call, about->text) == NULL &&
                   cli_value(call, "jsonl") == NULL && (about->needs_pair || has_pair)
               ? cli_missing_option(call->verb, about->text, error)
               : BERTH_OK;
}

// --- the output ----------------------------------------------------------------------------------

// An output may replace what an earlier call wrote, but not the texts.
static enum berth_status check_output(const struct run *run, struct berth_error *error) {
    static const char *const lines[] = {"{\"index\":", NULL};
    static const char *const numpy[] = {"\x93NUMPY", NULL};
    static const struct file_kind kinds[] = {{"embeddings as JSON lines", lines},
                                             {"an array of NumPy", numpy}};
    const struct cli_call *call = run->call;
    if (run->output == NULL) {
        return BERTH_OK;
    }
    if (call->argument_count > 0) {
        TRY(file_check_output(run->output, call->arguments[0], error));
    }
    return file_check_kind(run->output, &kinds[run->raw], error);
}

// NumPy's format 1.0: a header padded to a multiple of 64 bytes, then the rows.
static enum berth_status put_npy_header(struct run *run, size_t width, struct berth_error *error) {
    char dictionary[192], header[256] = "\x93NUMPY\x01";
    int used = snprintf(dictionary, sizeof dictionary,
                        "{'descr': '%s', 'fortran_order': False, 'shape': (%zu, %zu), }",
                        output_type_numpy(run->typed.type), run->texts.count,
                        output_type_width(run->typed.type, width));
    size_t whole = ((size_t)used + 1 + 10 + 63) / 64 * 64;
    memset(header + 10, ' ', whole - 11);
    memcpy(header + 10, dictionary, (size_t)used);
    header[whole - 1] = '\n';
    header[8] = (char)((whole - 10) & 255);
    header[9] = (char)((whole - 10) >> 8);
    return file_writer_put(&run->writer, header, whole, error);
}

// Writes bytes of the output; `context` is the run.
static enum berth_status put_bytes(void *context, const char *bytes, size_t length,
                                   struct berth_error *error) {
    struct run *run = context;
    if (run->hash != NULL) {
        digest_add(run->hash, bytes, length);
        return BERTH_OK;
    }
    if (run->output != NULL) {
        return file_writer_put(&run->writer, bytes, length, error);
    }
    if (length > 0) { // none where lines for people were printed
        fwrite(bytes, 1, length, stdout);
    }
    return cli_flush(error);
}

// Keeps the file, or prints the hash.
static enum berth_status end_output(struct run *run, struct berth_error *error) {
    char hex[DIGEST_HEX_SIZE];
    if (run->hash != NULL) {
        const enum berth_status status = digest_close(run->hash, hex, error);
        run->hash = NULL;
        TRY(status);
        printf("%s\n", hex);
        return cli_flush(error);
    }
    return run->output != NULL ? file_writer_commit(&run->writer, error) : BERTH_OK;
}

// The width of a model's numbers, or what was asked for.
static enum berth_status begin(struct run *run, struct berth_error *error) {
    const double all = berth_model_number(run->model, "dimensions");
    const int64_t asked = run->asked.dimensions;
    run->typed.put = put_bytes;
    run->typed.context = run;
    run->typed.width = asked > 0 ? (size_t)asked : all > 0 ? (size_t)all : 0;
    TRY(run->output != NULL ? file_writer_open(&run->writer, run->output, error) : BERTH_OK);
    TRY(cli_flag(run->call, "hash") ? digest_open(DIGEST_SHA256, &run->hash, error) : BERTH_OK);
    return run->raw && run->output != NULL ? put_npy_header(run, run->typed.width, error)
                                           : BERTH_OK;
}

static void write_row(struct json_line *line, const char *key, const float *row, size_t width) {
    if (width == 1) {
        json_line_float(line, key, row[0]);
        return;
    }
    json_line_open(line, key, '[');
    for (size_t i = 0; i < width; i++) {
        json_line_float(line, NULL, row[i]);
    }
    json_line_close(line, ']');
}

static void add_json(struct run *run, const struct task_text *text) {
    const struct task_row *task = run->task;
    struct json_line *line = &run->line;
    if (task->verb.write != NULL) {
        task->verb.write(line, text);
    } else if (task->about.has_items) {
        task->write(line, NULL, text);
    } else {
        json_line_open(line, NULL, '{');
        json_line_integer(line, "index", text->tokens);
        if (text->row_count == 1) {
            write_row(line, task->outputs[0].name, text->rows, text->width);
        } else {
            json_line_open(line, task->outputs[0].name, '[');
            for (size_t i = 0; i < text->row_count; i++) {
                write_row(line, NULL, text->rows + i * text->width, text->width);
            }
            json_line_close(line, ']');
        }
        json_line_close(line, '}');
    }
    json_line_end(line);
}

static void print_items(const struct run *run, const struct task_text *text) {
    const char *given_top = cli_value(run->call, "top");
    const char *top = given_top != NULL ? given_top : run->task->verb.top;
    const int is_list = top == NULL || strcmp(top, "1") != 0;
    for (size_t i = 0; i < text->item_count; i++) {
        const struct berth_item *item = &text->items[i];
        const int is_part = item->score >= 0 && item->score <= 1;
        char score[NUMBER_TEXT_SIZE];
        number_format(score, sizeof score, is_part ? "%5.1f %%" : "%9.4g",
                      is_part ? 100.0 * item->score : item->score);
        if (is_list) {
            printf("%3zu. %s  ", i + 1, score);
        }
        fputs(*item->text != '\0' ? item->text : "(no answer)", stdout);
        // The words of an item that is somewhere in the first text.
        if (item->start >= 0 && !run->task->about.needs_pair) {
            struct text_position begin = {0}, end;
            text_position_seek(&begin, text->texts[0], item->start, OFFSET_CODE_POINTS);
            end = begin;
            text_position_seek(&end, text->texts[0], item->end, OFFSET_CODE_POINTS);
            printf("  %.*s", (int)(end.bytes - begin.bytes), text->texts[0] + begin.bytes);
        }
        putchar('\n');
    }
}

static void print_numbers(const struct task_text *text) {
    char number[NUMBER_TEXT_SIZE];
    for (size_t i = 0; i < text->row_count * text->width; i++) {
        number_format(number, sizeof number, "%.9g", (double)text->rows[i]);
        printf("%s  ", number);
    }
    puts(text->texts[text->texts[1] != NULL]);
}

// Results, and the first answer highlighted in its context.
static void print_for_people(const struct run *run, const struct task_text *text) {
    const struct berth_task *about = &run->task->about;
    if (about->has_items && run->done > 0) {
        putchar('\n');
    }
    if (about->has_items) {
        print_items(run, text);
    } else {
        print_numbers(text);
    }
    if (cli_has_long_pair(run->task) && !run->call->config.report.quiet && text->item_count > 0) {
        int width = terminal_is(STDOUT_FILENO) ? terminal_width(STDOUT_FILENO) : 0;
        putchar('\n');
        cli_highlight(text->texts[1], text->items[0].start, text->items[0].end, cli_colour(), width,
                      0);
    }
}

// --- a ranking -----------------------------------------------------------------------------------

// The lines are printed when all scores are known; the texts of the same query are ranked together.
static enum berth_status begin_ranking(struct run *run, struct berth_error *error) {
    struct string_index queries = {0};
    run->ranked = cli_own(memory_array_zeroed(run->texts.count + 1, sizeof *run->ranked));
    enum berth_status status = BERTH_OK;
    for (size_t i = 0; run->ranked != NULL && status == BERTH_OK && i < run->texts.count; i++) {
        const char *query = run->texts.items[i].text;
        const uint32_t number = string_index_put(&queries, query, strlen(query));
        run->ranked[i] = (struct task_ranked){.query = number, .index = i};
        status = number != STRING_INDEX_NONE ? BERTH_OK
                                             : error_no_memory(error, strlen(query), "the queries");
    }
    string_index_done(&queries);
    return run->ranked != NULL
               ? status
               : error_no_memory(error, run->texts.count * sizeof *run->ranked, "the ranking");
}

static void put_ranked(struct run *run, const struct task_ranked *ranked) {
    float score = ranked->score;
    struct task_text text = {
        .texts = {run->texts.items[ranked->index].text, run->texts.items[ranked->index].pair},
        .rows = &score,
        .row_count = 1,
        .width = 1};
    struct json_line *line = &run->line;
    if (run->for_people) {
        print_numbers(&text);
        return;
    }
    json_line_open(line, NULL, '{');
    json_line_integer(line, "index", (int64_t)ranked->index);
    json_line_float(line, run->task->outputs[0].name, score);
    json_line_text(line, "text", text.texts[1]);
    json_line_close(line, '}');
    json_line_end(line);
}

static enum berth_status put_ranking(struct run *run, struct berth_error *error) {
    const size_t top = cli_value(run->call, CLI_TOP_N) != NULL
                           ? (size_t)cli_integer(run->call, CLI_TOP_N)
                           : run->texts.count;
    size_t rank = 0;
    json_line_clear(&run->line);
    task_rank(run->ranked, run->texts.count);
    for (size_t i = 0; i < run->texts.count; i++) {
        rank = i > 0 && run->ranked[i].query == run->ranked[i - 1].query ? rank + 1 : 0;
        if (rank < top) {
            put_ranked(run, &run->ranked[i]);
        }
    }
    TRY(run->line.failed ? error_no_memory(error, run->line.length, "the results") : BERTH_OK);
    return put_bytes(run, run->line.text, run->line.length, error);
}

// --- rounds of texts -----------------------------------------------------------------------------

// Names the line of a text that is wrong. A result that is wrong is named by the number of its
// text, as the line is not to blame.
static enum berth_status fail(const struct run *run, size_t index,
                              const struct berth_outcome *outcome, struct berth_error *error) {
    return outcome->status == BERTH_FAILURE
               ? error_set(error, outcome->status, "text %zu: %s", index + 1, outcome->message)
           : run->texts.source != NULL ? error_line(error, outcome->status, run->texts.source,
                                                    index + 1, "%s", outcome->message)
                                       : error_set(error, outcome->status, "%s", outcome->message);
}

// Adds the texts [first, first + count) to the output of the round.
static enum berth_status add_texts(struct run *run, size_t first, size_t count,
                                   const struct berth_result *result, struct berth_error *error) {
    for (size_t i = 0; i < count; i++) {
        const struct berth_outcome *outcome = berth_result_outcome(result, i);
        if (outcome->status != BERTH_OK) {
            return fail(run, first + i, outcome, error);
        }
        if (outcome->truncated && run->cut++ == 0) {
            run->first_cut = first + i;
        }
    }
    for (size_t i = 0; i < count; i++) {
        const struct berth_text *from = &run->texts.items[first + i];
        struct task_text text = {.texts = {from->text, from->pair},
                                 .settings = run->asked,
                                 .tokens = (int64_t)(first + i)};
        text.items = (struct berth_item *)berth_result_items(result, i, &text.item_count);
        text.rows = (float *)berth_result_rows(result, i, &text.row_count, &text.width);
        if (run->ranked != NULL) {
            run->ranked[first + i].score = text.rows[0];
        } else if (run->for_people) {
            print_for_people(run, &text);
        } else if (!run->raw && run->typed.type == OUTPUT_FLOAT32) {
            add_json(run, &text);
        } else {
            json_line_bytes(&run->line, text.rows, text.width * sizeof *text.rows);
        }
    }
    return run->line.failed ? error_no_memory(error, run->line.length, "the results") : BERTH_OK;
}

static enum berth_status run_texts(struct run *run, size_t first, size_t count,
                                   struct berth_error *error) {
    json_line_clear(&run->line);
    if (count == 0) {
        return BERTH_OK;
    }
    struct berth_result *result =
        berth_run(run->model, run->task->about.name, run->texts.items + first, count, run->settings,
                  NULL, error);
    if (result == NULL) {
        return error->status;
    }
    error->status = BERTH_OK; // each text's outcome is read below
    const enum berth_status status = add_texts(run, first, count, result, error);
    berth_result_free(result);
    return status;
}

// The output of a round: vectors of another type become integers first.
static enum berth_status put_round(struct run *run, const char *bytes, size_t length,
                                   struct berth_error *error) {
    return run->typed.type == OUTPUT_FLOAT32 ? put_bytes(run, bytes, length, error)
                                             : typed_output_put(&run->typed, bytes, length, error);
}

// Ends the vectors that wait for the ranges of all texts; other processes than the first have none.
static enum berth_status put_waiting(struct run *run, struct berth_error *error) {
    if (run->typed.waits.length > 0 && run->texts.count < 2) {
        return error_set(error, BERTH_USAGE,
                         "--output_type %s: one text has no range; name a file of texts with "
                         "--calibration_file",
                         given(run, "output_type"));
    }
    if (run->typed.waits.length > 0 && run->texts.count < 100) {
        cli_note(run->call,
                 "the ranges of the columns come from only %zu texts; more texts, or a "
                 "--calibration_file, give better ones",
                 run->texts.count);
    }
    return typed_output_end(&run->typed, error);
}

// --- several processes ---------------------------------------------------------------------------

// The first process writes what all have found. It travels as numbers of four bytes.
static enum berth_status gather_round(struct run *run, struct berth_error *error) {
    struct comm *comm = run->comm;
    const size_t size = (size_t)comm->size, rank = (size_t)comm->rank;
    double *lengths = cli_own(memory_array_zeroed(size, sizeof *lengths));
    int64_t *starts = cli_own(memory_array_zeroed(size + 1, sizeof *starts));
    enum berth_status status =
        lengths != NULL && starts != NULL
            ? BERTH_OK
            : error_no_memory(error, size * sizeof *starts, "what the processes found");
    TRY(comm_settle(comm, status, error));
    lengths[rank] = (double)run->line.length;
    comm->sum(comm, lengths, size);
    TRY(comm->status(comm, error));
    for (size_t i = 0; i < size; i++) {
        starts[i + 1] = starts[i] + ((int64_t)lengths[i] + 3) / 4;
    }
    const size_t all = 4 * (size_t)starts[size];
    char *bytes = memory_array_zeroed(all + 1, 1);
    status = bytes != NULL ? BERTH_OK : error_no_memory(error, all, "what the processes found");
    status = comm_settle(comm, status, error);
    if (status == BERTH_OK) {
        memcpy(bytes + 4 * starts[rank], run->line.length > 0 ? run->line.text : "",
               run->line.length);
        const struct comm_range range = {.name = "results",
                                         .data = bytes,
                                         .count = starts[size],
                                         .dtype = DTYPE_F32,
                                         .wire = DTYPE_F32,
                                         .starts = starts};
        comm->wait(comm, comm->gather_begin(comm, &range));
        status = comm->status(comm, error);
    }
    for (size_t i = 0; i < size && rank == 0 && status == BERTH_OK; i++) {
        status = put_round(run, bytes + 4 * starts[i], (size_t)lengths[i], error);
    }
    memory_free(bytes);
    return comm_settle(comm, status, error);
}

static enum berth_status run_round(struct run *run, struct berth_error *error) {
    struct comm *comm = run->comm;
    const size_t size = (size_t)comm->size, left = run->texts.count - run->done;
    const size_t count = left < ROUND * size ? left : ROUND * size,
                 share = (count + size - 1) / size;
    const size_t before = share * (size_t)comm->rank, first = before < count ? before : count;
    TRY(comm_settle(
        comm,
        run_texts(run, run->done + first, share < count - first ? share : count - first, error),
        error));
    TRY(size > 1 ? gather_round(run, error)
                 : put_round(run, run->line.text, run->line.length, error));
    run->done += count;
    int stop = run->stop != NULL && *run->stop != 0;
    TRY(comm_settle_stop(comm, BERTH_OK, &stop, error));
    return stop ? error_set(error, BERTH_INTERRUPTED, "stopped on request after %zu of %zu texts",
                            run->done, run->texts.count)
                : BERTH_OK;
}

// The ranges of the vectors of a file's texts, by which those of the call are then converted. The
// file's texts take the place of the call's meanwhile, so that errors name its lines.
static enum berth_status calibrate(struct run *run, struct berth_error *error) {
    const char *path = given(run, "calibration_file");
    const struct cli_texts own = run->texts;
    const size_t own_cut = run->cut;
    if (path == NULL) {
        return BERTH_OK;
    }
    enum berth_status status = cli_texts_read_lines(run->call, path, &run->texts, error);
    const size_t count = run->texts.count;
    for (size_t i = 0; i < count && status == BERTH_OK; i += ROUND) {
        status = run_texts(run, i, count - i < ROUND ? count - i : ROUND, error);
        status = status == BERTH_OK
                     ? typed_output_calibrate(&run->typed, run->line.text, run->line.length, error)
                     : status;
    }
    if (status == BERTH_OK && count == 0) {
        status = error_set(error, BERTH_BAD_DATA, "%s: no texts; expected one on each line", path);
    }
    cli_texts_done(&run->texts);
    run->texts = own;
    run->cut = own_cut;
    run->typed.has_ranges = 1;
    return status;
}

// The first process says what was truncated in all.
static enum berth_status note_cut(const struct run *run, struct berth_error *error) {
    double cut = (double)run->cut, earliest = 0;
    for (int rank = 0; rank < run->comm->size; rank++) {
        double first = rank == run->comm->rank && run->cut > 0 ? (double)run->first_cut + 1 : 0;
        run->comm->sum(run->comm, &first, 1);
        earliest = first > 0 && (earliest == 0 || first < earliest) ? first : earliest;
    }
    run->comm->sum(run->comm, &cut, 1);
    if (cut > 0) {
        cli_note(run->call,
                 "%.0f of %zu texts have more tokens than max_seq_length %.0f and were truncated; "
                 "the first is text %.0f",
                 cut, run->texts.count, berth_model_number(run->model, "max_length"), earliest);
    }
    return run->comm->status(run->comm, error);
}

// --- settings ------------------------------------------------------------------------------------

// The options of the verb that are settings of the task, for berth_run or, where they are in the
// option table, for berth_open.
static enum berth_status read_settings(struct run *run, struct berth_error *error) {
    struct cli_call *call = run->call;
    size_t used = 0;
    for (size_t i = 0; i < call->verb->option_count; i++) {
        const char *name = call->verb->options[i].name, *value = call->values[i];
        if (value == NULL || task_option_find(name) == NULL) {
            continue;
        }
        if (option_find(name) != NULL) {
            TRY(cli_set(call, name, value, error));
        } else {
            run->settings[used++] = name;
            run->settings[used++] = value;
        }
    }
    if (task_follows(run->task, "offsets")) {
        run->settings[used++] = "offsets";
        run->settings[used++] = "characters";
    }
    return task_settings_read(run->task, run->settings, &run->asked, error);
}

struct berth_model *cli_open_model(struct cli_call *call, const char *task, const char *batch,
                                   struct comm *comm, struct berth_error *error) {
    const struct berth_log log = cli_log(call);
    const struct model_opening opening = {.task = task_find(task), .comm = comm, .log = &log};
    struct settings *config = settings_new();
    struct berth_model *model = NULL;
    if (config == NULL) {
        (void)error_no_memory(error, sizeof *config, "settings");
        return NULL;
    }
    char **owned = config->owned;
    *config = call->config;
    config->owned = owned;
    if (batch != NULL && !cli_is_given(call, "predict_batch_size")) {
        (void)settings_set_row(config, option_find("predict_batch_size"), batch, error);
    }
    (void)model_open(config->model.model_name_or_path, config, &opening, &model, error);
    return model;
}

// --- the verb ------------------------------------------------------------------------------------

static enum berth_status check_options(struct run *run, struct berth_error *error) {
    if (run->output != NULL && cli_flag(run->call, "hash")) {
        return error_set(error, BERTH_USAGE,
                         "--hash prints a digest in place of the numbers, and --output writes the "
                         "numbers: leave out one of them");
    }
    TRY(cli_texts_check(run->call, run->task, error));
    // The type of the numbers, and whether it has ranges to calibrate.
    const char *type = given(run, "output_type");
    run->typed.npy = run->raw;
    run->typed.key = run->task->outputs[0].name;
    run->typed.type = type != NULL ? (enum output_type)output_type_find(type) : OUTPUT_FLOAT32;
    if (given(run, "calibration_file") != NULL && !output_type_has_ranges(run->typed.type)) {
        return error_set(error, BERTH_USAGE,
                         "--calibration_file has no effect with --output_type %s; it is for int8 "
                         "and uint8",
                         type);
    }
    TRY(choose_row(run, error));
    return read_settings(run, error);
}

// Opens the model, in each process one, which must be the same.
static enum berth_status open_model(struct run *run, struct berth_error *error) {
    static const struct berth_log silent = {0};
    const int is_single = run->texts.source == NULL && run->comm->size == 1;
    const struct task_model *opened;
    run->model = cli_open_model(run->call, run->task->about.name, is_single ? WINDOWS : NULL,
                                run->comm, error);
    TRY(comm_settle(run->comm, run->model != NULL ? BERTH_OK : error->status, error));
    if (run->comm->size == 1) {
        return BERTH_OK;
    }
    TRY(model_for(run->model, run->task, &silent, &opened, error));
    return task_compare_ranks(opened, error);
}

// What only the first process does before the others join it: it alone may see the files.
static enum berth_status read_texts(struct run *run, struct berth_error *error) {
    TRY(check_output(run, error));
    return cli_texts_read(run->call, run->task, &run->texts, error);
}

// From the start on a signal does not end one process alone, for which the others would wait.
static enum berth_status run_processes(struct run *run, struct berth_error *error) {
    struct comm *comm = run->comm;
    const int is_first = comm->rank == 0;
    TRY(comm_settle(comm, is_first ? read_texts(run, error) : BERTH_OK, error));
    if (run->output != NULL || comm->size > 1) {
        run->stop = cli_stop_on_signals(run->output != NULL ? "nothing will be written"
                                                            : "finishing these texts");
    }
    TRY(comm->size > 1 ? cli_texts_share(&run->texts, comm, error) : BERTH_OK);
    TRY(open_model(run, error));
    TRY(comm_settle(comm, is_first ? begin(run, error) : BERTH_OK, error));
    TRY(comm_settle(comm, is_first ? calibrate(run, error) : BERTH_OK, error));
    TRY(run->task->verb.is_ranking ? begin_ranking(run, error) : BERTH_OK);
    while (run->done < run->texts.count) {
        TRY(run_round(run, error));
    }
    TRY(run->task->verb.is_ranking ? put_ranking(run, error) : BERTH_OK);
    TRY(comm_settle(comm, put_waiting(run, error), error)); // none in other processes
    TRY(note_cut(run, error));
    return comm_settle(comm, is_first ? end_output(run, error) : BERTH_OK, error);
}

enum berth_status cli_run_task(struct cli_call *call, struct berth_error *error) {
    const char *output = cli_value(call, "output");
    const struct launch launch = launch_find();
    struct berth_log log = cli_log(call);
    struct run run = {.call = call,
                      .task = task_find(call->verb->name),
                      .comm = comm_self(),
                      .writer = {.descriptor = -1}};
    const enum task_reader reader = run.task->verb.reader;
    run.output = output != NULL && strcmp(output, "-") == 0 ? NULL : output;
    run.raw =
        cli_flag(call, "hash") || (run.output != NULL && name_has_extension(run.output, ".npy"));
    run.for_people =
        !cli_flag(call, "json") && (reader == TASK_READ_BY_PEOPLE ||
                                    (reader == TASK_READ_BY_BOTH && terminal_is(STDOUT_FILENO)));
    enum berth_status status;
    TRY_DONE(check_options(&run, error));
    if (call->verb->processes == CLI_DIVIDED && launch_is_parallel(&launch)) {
        TRY_DONE(machine_comm_open(run.task->about.name, &call->config, &log, &run.comm, error));
    }
    TRY_DONE(run_processes(&run, error));
done:
    if (status == BERTH_INTERRUPTED && run.output != NULL && cli_reports()) {
        (void)error_prefix(error, status, "nothing was written");
    }
    berth_close(run.model);
    file_writer_abort(&run.writer);
    (void)digest_close(run.hash, NULL, NULL);
    json_line_done(&run.line);
    typed_output_done(&run.typed);
    cli_texts_done(&run.texts);
    run.comm->close(run.comm);
    return status;
}
