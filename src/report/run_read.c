// SPDX-License-Identifier: Apache-2.0
// Reads logs: JSON lines of Berth's records, the "log_history" of Hugging Face's Trainer, and what
// `berth bench --json` and bench/compare_pytorch.py print. `berth report`, `berth plot` and a
// resumed run read logs with it (run_log.c).
#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"
#include "report/keys.h"
#include "report/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LINE_LIMIT ((size_t)1 << 20)
#define READ_BYTES ((size_t)1 << 18)
#define WARNINGS_LIMIT 100
#define DETAILS_LIMIT 4096 // of a kind
#define PROCESSES_LIMIT 1000
#define FACTS_LIMIT 1000 // parts of a plan

static const char *text_of(const json *record, const char *key) {
    const char *text = json_text(json_member(record, key));
    return text != NULL ? text : "";
}

static double real_of(const json *record, const char *key) {
    const json *value = json_member(record, key);
    return json_is_number_value(value) ? json_as_real(value) : (double)NAN;
}

// Takes ownership of `value`.
static void set(struct run *run, json **object, const char *key, json *value) {
    *object = *object != NULL ? *object : json_new_object();
    run->failed |= json_set(*object, key, value) != 0;
}

static void append(struct run *run, json **array, const json *value, size_t limit) {
    *array = *array != NULL ? *array : json_new_array();
    if (json_length(*array) < limit) {
        run->failed |= json_append(*array, json_copy_deep(value)) != 0;
    }
}

static void replace(struct run *run, json **target, const json *value) {
    json_free(*target);
    *target = json_copy_deep(value);
    run->failed |= *target == NULL;
}

// --- series --------------------------------------------------------------------------------------

static void add_numbers(struct run *run, const json *record, const char *prefix) {
    const double step = real_of(record, "step");
    struct json_walk walk = {.object = record};
    char name[128];
    while (json_walk_next(&walk)) {
        if (json_is_number_value(walk.value) && !key_row(walk.key)->counts) {
            const int is_named = strncmp(walk.key, prefix, strlen(prefix)) == 0;
            snprintf(name, sizeof name, "%s%s", is_named ? "" : prefix, walk.key);
            run_add(run, name, step, json_as_real(walk.value));
        }
    }
}

// --- processes -----------------------------------------------------------------------------------

static struct run_process *new_process(struct run *run) {
    struct run_process *grown = run->process_count < PROCESSES_LIMIT
                                    ? memory_grow(run->processes, &run->process_capacity,
                                                  run->process_count + 1, sizeof *run->processes)
                                    : NULL;
    if (grown == NULL) {
        run->failed |= run->process_count < PROCESSES_LIMIT;
        return NULL;
    }
    run->processes = grown;
    grown[run->process_count] = (struct run_process){.first = INFINITY, .last = -INFINITY};
    return &grown[run->process_count++];
}

static struct run_process *current_process(struct run *run) {
    return run->process_count > 0 ? &run->processes[run->process_count - 1] : new_process(run);
}

// --- records -------------------------------------------------------------------------------------

static void add_step(struct run *run, const json *record) {
    const double total = real_of(record, "total_steps");
    add_numbers(run, record, "");
    const double step = real_of(record, "step");
    struct run_process *process = isnan(step) ? NULL : current_process(run);
    if (process != NULL) {
        process->first = fmin(process->first, step);
        process->last = fmax(process->last, step);
    }
    run->total_steps = isnan(total) ? run->total_steps : total;
}

static void add_eval(struct run *run, const json *record) {
    add_numbers(run, record, "eval_");
    run->details_are_complete = 1;
}

static void add_plan(struct run *run, const json *record) {
    const char *resumed = text_of(record, "resumed_from");
    struct run_process *process = *resumed != '\0' ? current_process(run) : NULL;
    if (process != NULL && process->resumed_from == NULL) {
        process->resumed_from = memory_string(resumed);
        run->failed |= process->resumed_from == NULL;
    }
    if (json_length(run->plan) < FACTS_LIMIT) {
        set(run, &run->plan, text_of(record, "text"), json_copy_deep(record));
    }
}

static void add_summary(struct run *run, const json *record) {
    replace(run, &run->summary, record);
    run->has_ended = 1;
}

// A process begins with its settings; the plan's details follow again.
static void add_event(struct run *run, const json *record) {
    if (strcmp(text_of(record, "text"), "Config") == 0) {
        replace(run, &run->settings, record);
        json_free(run->summary);
        run->summary = NULL;
        run->has_ended = 0;
        run->details_are_complete = 1;
        new_process(run);
    }
}

static void add_warning(struct run *run, const json *record) {
    append(run, &run->warnings, json_member(record, "text"), WARNINGS_LIMIT);
}

static void add_detail(struct run *run, const json *record) {
    const char *kind = text_of(record, "text");
    const double step = real_of(record, "step");
    if (!isnan(step) && (run->details_are_complete || step != run->details_step)) {
        // The details of an evaluation replace those of the previous one, which a resumed process
        // may repeat.
        static const char *const names[] = {"sample", "confusion", "threshold"};
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            json_remove(run->details, names[i]);
        }
        run->details_step = step;
        run->details_are_complete = 0;
    }
    if (real_of(record, "from") == 1) { // the first range of another histogram
        json_remove(run->details, kind);
    }
    const json *known = json_member(run->details, kind);
    if (known == NULL && json_length(run->details) < FACTS_LIMIT) {
        set(run, &run->details, kind, json_new_array());
    }
    json *list = (json *)json_member(run->details, kind);
    if (list != NULL && json_length(list) < DETAILS_LIMIT) {
        run->failed |= json_append(list, json_copy_deep(record)) != 0;
    }
}

static void ignore_record(struct run *run, const json *record) {
    (void)run;
    (void)record;
}

static const struct kind {
    const char *name;
    void (*add)(struct run *run, const json *record);
} kinds[] = {
    {"step", add_step},       {"eval", add_eval},      {"plan", add_plan},
    {"summary", add_summary}, {"event", add_event},    {"warning", add_warning},
    {"detail", add_detail},   {"note", ignore_record}, {"values", ignore_record},
};

static int add_record(struct run *run, const json *record) {
    const char *name = text_of(record, "kind");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            kinds[i].add(run, record);
            const double time = real_of(record, "time");
            struct run_process *process = isnan(time) ? NULL : current_process(run);
            if (process != NULL) {
                process->begin = process->begin != 0 ? process->begin : time;
                process->end = time;
            }
            return 1;
        }
    }
    return 0;
}

// --- other programs ------------------------------------------------------------------------------

// A single object of a benchmark is shown by its members; several become rows of a table.
static void add_figures(struct run *run, const json *value) {
    if (run->figures == NULL) {
        replace(run, &run->figures, value);
        return;
    }
    if (!json_is_array_value(json_member(run->figures, "results"))) {
        json *first = run->figures;
        json *list = json_new_array();
        run->figures = NULL;
        run->failed |= json_append(list, first) != 0;
        set(run, &run->figures, "results", list);
    }
    json *list = (json *)json_member(run->figures, "results");
    if (list != NULL && json_length(list) < DETAILS_LIMIT) {
        run->failed |= json_append(list, json_copy_deep(value)) != 0;
    }
}

static int add_value(struct run *run, const json *value) {
    const json *history = json_member(value, "log_history");
    if (json_is_array_value(history)) {
        run->has_history = 1;
        for (size_t i = 0; i < json_length(history); i++) {
            // An entry of Hugging Face's log_history: losses, an evaluation, or the end.
            const json *entry = json_at(history, i);
            if (json_member(entry, "train_runtime") != NULL) {
                add_summary(run, entry);
            } else if (json_member(entry, "learning_rate") != NULL ||
                       json_member(entry, "loss") != NULL) {
                add_step(run, entry);
            } else {
                add_eval(run, entry);
            }
            run->records++;
        }
        const double total = real_of(value, "max_steps");
        run->total_steps = isnan(total) ? run->total_steps : total;
        run->has_ended |= real_of(value, "global_step") >= total;
        return 1;
    }
    if (json_is_text(json_member(value, "kind"))) {
        const int is_known = add_record(run, value);
        run->records += (size_t)is_known;
        return is_known;
    }
    if (json_is_array_value(value) && json_is_object_value(json_at(value, 0))) {
        set(run, &run->figures, "results", json_copy_deep(value));
        run->records++;
        return 1;
    }
    if (json_is_object_value(value) && json_length(value) > 0) {
        add_figures(run, value);
        run->records++;
        return 1;
    }
    return 0;
}

// --- lines ---------------------------------------------------------------------------------------

static int is_blank(const char *bytes, size_t length) {
    while (length > 0 && (bytes[length - 1] == ' ' || bytes[length - 1] == '\r')) {
        length--;
    }
    return length == 0;
}

static void read_line(struct run *run) {
    json *value = NULL;
    struct berth_error error;
    const int is_long = run->line_is_long;
    if (!is_long && is_blank(run->line.bytes, run->line.length)) {
        buffer_clear(&run->line);
        return;
    }
    run->line_is_long = 0;
    const enum berth_status status =
        is_long ? BERTH_BAD_DATA
                : json_read_memory(run->name, run->line.bytes, run->line.length, &value, &error);
    run->failed |= status == BERTH_NO_MEMORY;
    run->skipped += status != BERTH_OK || !add_value(run, value);
    json_free(value);
    buffer_clear(&run->line);
}

void run_feed(struct run *run, const char *bytes, size_t length) {
    while (length > 0 && !run->failed) {
        const char *end = memchr(bytes, '\n', length);
        const size_t part = end != NULL ? (size_t)(end - bytes) : length;
        run->line_is_long |= run->line.length + part > LINE_LIMIT;
        if (!run->line_is_long) {
            buffer_put(&run->line, bytes, part);
        }
        if (end != NULL) {
            read_line(run);
        }
        run->failed |= run->line.failed;
        bytes += part + (end != NULL);
        length -= part + (end != NULL);
    }
}

// The peak is measured at the end of a run, so the fractions of it are known for all updates only
// then.
static void derive_mfu(struct run *run) {
    const double flops = real_of(run->summary, "model_flops"), mfu = real_of(run->summary, "mfu");
    const struct run_series *rates = run_series_find(run, "model_flops");
    if (rates == NULL || !(flops > 0) || !(mfu > 0)) {
        return;
    }
    const size_t at = (size_t)(rates - run->series);
    run_add(run, "mfu", rates->buckets[0].last, 0); // may move the series
    struct run_series *made = (struct run_series *)run_series_find(run, "mfu");
    if (made == NULL) {
        return;
    }
    rates = &run->series[at];
    made->count = rates->count;
    for (size_t i = 0; i < rates->count; i++) {
        struct run_bucket bucket = rates->buckets[i];
        bucket.min *= mfu / flops;
        bucket.max *= mfu / flops;
        bucket.sum *= mfu / flops;
        bucket.latest *= mfu / flops;
        made->buckets[i] = bucket;
    }
}

enum berth_status run_end(struct run *run, struct berth_error *error) {
    if (run->line.length > 0 || run->line_is_long) {
        read_line(run);
    }
    derive_mfu(run);
    return run->failed ? error_no_memory(error, LINE_LIMIT, run->name) : BERTH_OK;
}

// --- files ---------------------------------------------------------------------------------------

static enum berth_status read_whole_file(struct run *run, const char *path,
                                         struct berth_error *error) {
    json *value = NULL;
    TRY(json_read_python_file(path, &value, error));
    (void)add_value(run, value);
    json_free(value);
    return BERTH_OK;
}

// Reads a file of which no line was understood as one value: a line longer than LINE_LIMIT, or one
// that Python's json wrote. The caller refuses a file without any records.
static enum berth_status read_again(struct run *run, const char *path, struct berth_error *error) {
    const enum berth_status status = read_whole_file(run, path, error);
    run->skipped = 0;
    return status == BERTH_OK ? run_end(run, error) : status == BERTH_BAD_DATA ? BERTH_OK : status;
}

// A value on several lines, such as trainer_state.json, begins with a bracket alone; other files
// are read line by line.
static enum berth_status read_open(struct run *run, const struct file_reader *reader,
                                   struct berth_error *error) {
    char first[2] = "";
    if (reader->size > sizeof first) {
        TRY(file_reader_at(reader, 0, first, sizeof first, error));
    }
    const int is_value = first[0] == '{' || first[0] == '[';
    if (is_value && (first[1] == '\n' || first[1] == '\r')) {
        TRY(read_whole_file(run, reader->path, error));
        return run_end(run, error);
    }
    char *block = memory_new(READ_BYTES);
    enum berth_status status =
        block != NULL ? BERTH_OK : error_no_memory(error, READ_BYTES, "a log");
    for (uint64_t at = 0; at < reader->size && status == BERTH_OK;) {
        const uint64_t left = reader->size - at;
        const size_t bytes = left < READ_BYTES ? (size_t)left : READ_BYTES;
        status = file_reader_at(reader, at, block, bytes, error);
        if (status == BERTH_OK) {
            run_feed(run, block, bytes);
        }
        at += bytes;
    }
    memory_free(block);
    TRY(status);
    TRY(run_end(run, error));
    return is_value && run->records == 0 && !run->has_history ? read_again(run, reader->path, error)
                                                              : BERTH_OK;
}

static enum berth_status refuse_empty(const struct run *run, const char *path,
                                      struct berth_error *error) {
    return run->has_history
               ? error_set(error, BERTH_BAD_DATA,
                           "%s: no records: its \"log_history\" is empty; it has the first one "
                           "after logging_steps updates or an evaluation",
                           path)
               : error_set(error, BERTH_BAD_DATA,
                           "%s: not a log: expected JSON lines as json_summary writes them "
                           "(without log_format dllogger), trainer_state.json, or the output of "
                           "`berth bench --json`",
                           path);
}

static enum berth_status read_log(struct run *run, const char *path, struct berth_error *error) {
    struct file_reader reader;
    TRY(file_reader_open(&reader, path, error));
    enum berth_status status = read_open(run, &reader, error);
    file_reader_close(&reader);
    TRY(status);
    return run->records > 0 ? BERTH_OK : refuse_empty(run, path, error);
}

static enum berth_status try_checkpoints(const char *folder, struct path *path,
                                         struct berth_error *error) {
    static const char prefix[] = "checkpoint-";
    const size_t length = sizeof prefix - 1;
    char **names;
    int64_t newest = -1, step;
    TRY(dir_list(folder, &names, error));
    for (size_t i = 0; names[i] != NULL; i++) {
        if (strncmp(names[i], prefix, length) == 0 &&
            number_parse_integer(names[i] + length, &step) && step > newest) {
            newest = step;
            *path = path_in(path_in(folder, names[i]).text, "trainer_state.json");
        }
    }
    memory_free(names);
    return BERTH_OK;
}

// The log in an output folder: log.jsonl, else the newest trainer_state.json.
static enum berth_status find_log(const char *folder, struct path *path,
                                  struct berth_error *error) {
    *path = path_in(folder, RUN_LOG_NAME);
    if (!file_exists(path->text)) {
        *path = path_in(folder, "trainer_state.json");
    }
    if (!file_exists(path->text)) {
        TRY(try_checkpoints(folder, path, error));
    }
    return file_exists(path->text) ? BERTH_OK
                                   : error_set(error, BERTH_NO_INPUT,
                                               "%s: no log in this folder: neither " RUN_LOG_NAME
                                               " nor trainer_state.json",
                                               folder);
}

enum berth_status run_read(struct run *run, const char *path, struct berth_error *error) {
    struct path found;
    TRY(run_init(run, path, error));
    if (!dir_exists(path)) {
        return read_log(run, path, error);
    }
    TRY(find_log(path, &found, error));
    return read_log(run, found.text, error);
}

// --- several -------------------------------------------------------------------------------------

enum berth_status run_set_read(struct run_set *set, const char *const *paths, size_t count,
                               struct berth_error *error) {
    enum berth_status status = BERTH_OK;
    *set = (struct run_set){.runs = memory_array_zeroed(count, sizeof *set->runs)};
    if (set->runs == NULL) {
        return error_no_memory(error, count * sizeof *set->runs, "the runs");
    }
    for (size_t i = 0; i < count && status == BERTH_OK; i++) {
        set->count++;
        status = run_read(&set->runs[i], paths[i], error);
    }
    if (status != BERTH_OK) {
        run_set_done(set);
    }
    return status;
}

void run_set_done(struct run_set *set) {
    for (size_t i = 0; i < set->count; i++) {
        run_done(&set->runs[i]);
    }
    memory_free(set->runs);
    *set = (struct run_set){0};
}
