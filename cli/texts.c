// SPDX-License-Identifier: Apache-2.0
// Reads the texts that a verb of a task runs: one on the command line, or one on each line of a
// file or of standard input, perhaps as JSON objects; and gives them to the other processes. Called
// by run.c before the model is opened. Whether a model can read a text is found out by the task.
#include "comm/comm.h"
#include "core/encoding.h"
#include "core/memory.h"
#include "core/terminal.h"
#include "core/utf8.h"
#include "format/json/json.h"
#include "run.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// --- words of a row ------------------------------------------------------------------------------

const char *cli_say(const char *format, ...) {
    static char kept[16384]; // each with its NUL; five times what the rows make
    static size_t used;
    char words[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    const size_t size = strlen(words) + 1;
    size_t at = 0;
    while (at < used && strcmp(kept + at, words) != 0) {
        at += strlen(kept + at) + 1;
    }
    if (at == used && size <= sizeof kept - used) {
        memcpy(kept + used, words, size);
        used += size;
    }
    return at < used ? kept + at : "";
}

int cli_has_long_pair(const struct task_row *task) {
    return task->about.needs_pair && task->uses_windows;
}

const char *cli_pair_file(const struct task_row *task) {
    return cli_has_long_pair(task) ? cli_say("%s_file", task->about.pair) : NULL;
}

const char *cli_pair_meaning(const struct task_row *task) {
    return task->verb.pair != NULL ? task->verb.pair : cli_say("the %s", task->about.pair);
}

static const char *given(const struct cli_call *call, const char *name) {
    return name != NULL ? cli_value(call, name) : NULL;
}

static int is_blank(const char *text) {
    return text[strspn(text, " \t\n\v\f\r")] == '\0';
}

// --- the options ---------------------------------------------------------------------------------

static enum berth_status check_blank(const char *name, const char *text, const char *expected,
                                     struct berth_error *error) {
    return text == NULL || !is_blank(text)
               ? BERTH_OK
               : error_set(error, BERTH_USAGE, "--%s is blank; expected %s", name, expected);
}

static enum berth_status refuse_both(const char *name, const char *other, int are_both,
                                     struct berth_error *error) {
    return !are_both ? BERTH_OK
                     : error_set(error, BERTH_USAGE, "--%s and the file %s contradict each other",
                                 name, other);
}

enum berth_status cli_texts_check(const struct cli_call *call, const struct task_row *task,
                                  struct berth_error *error) {
    const struct berth_task *about = &task->about;
    const char *text = given(call, about->text), *pair = given(call, about->pair);
    const char *file = call->argument_count > 0 ? call->arguments[0] : NULL;
    const char *objects = given(call, "jsonl");
    const char *pair_file = cli_pair_file(task);
    TRY(refuse_both(about->text, objects, text != NULL && objects != NULL, error));
    TRY(refuse_both("jsonl", file, file != NULL && objects != NULL, error));
    TRY(refuse_both(pair != NULL ? about->pair : about->text, file,
                    file != NULL && text != NULL && (pair != NULL || !about->needs_pair), error));
    if (pair != NULL && given(call, pair_file) != NULL) {
        return error_set(error, BERTH_USAGE, "give --%s or --%s, not both", about->pair, pair_file);
    }
    if (!about->needs_pair) {
        return BERTH_OK;
    }
    TRY(check_blank(about->text, text, cli_say("a %s", about->text), error));
    return check_blank(about->pair, pair, cli_pair_meaning(task), error);
}

// --- a text of the command line ------------------------------------------------------------------

static enum berth_status allocate(struct cli_texts *texts, size_t count,
                                  struct berth_error *error) {
    texts->items = memory_array_zeroed(count + 1, sizeof *texts->items);
    texts->count = count;
    return texts->items != NULL ? BERTH_OK
                                : error_no_memory(error, count * sizeof *texts->items, "the texts");
}

// Ill-formed sequences count as U+FFFD, which the tokenizer drops.
static void warn_of_ill_formed(const char *name, const char *text) {
    const size_t length = text != NULL ? strlen(text) : 0;
    const size_t valid = length > 0 ? utf8_valid_prefix(text, length) : 0;
    if (valid < length) {
        cli_warning("the %s contains ill-formed UTF-8 (first at byte %zu), which is dropped", name,
                    valid);
    }
}

static enum berth_status read_pair_file(const struct cli_call *call, const struct task_row *task,
                                        struct cli_texts *texts, const char **pair,
                                        struct berth_error *error) {
    const char *path = given(call, cli_pair_file(task));
    char *text;
    size_t length;
    if (path == NULL && terminal_is(STDIN_FILENO)) {
        cli_note(call, "reading the text from the terminal; Ctrl-D ends it");
    }
    TRY(cli_read(path != NULL ? path : "-", &texts->pair_bytes, &length, error));
    path = path != NULL ? path : "standard input";
    TRY(encoding_normalise_owned(path, &texts->pair_bytes, &text, &length, error));
    while (length > 0 && text[length - 1] == '\n') {
        text[--length] = '\0';
    }
    *pair = text;
    if (strlen(text) != length) {
        return error_set(error, BERTH_BAD_DATA, "%s: byte %zu of the %s is NUL; expected text",
                         path, strlen(text), task->about.pair);
    }
    return !is_blank(text) ? BERTH_OK
                           : error_set(error, BERTH_BAD_DATA, "%s: blank; expected %s", path,
                                       cli_pair_meaning(task));
}

// --- the lines of a file -------------------------------------------------------------------------

// Cuts the file, or standard input for "-", into lines, and makes an empty item for each.
static enum berth_status read_source(const struct cli_call *call, const char *path,
                                     struct cli_texts *texts, struct berth_error *error) {
    const int is_input = strcmp(path, "-") == 0;
    size_t length, count = 0;
    char *text;
    texts->source = is_input ? "standard input" : path;
    if (is_input && terminal_is(STDIN_FILENO)) {
        cli_note(call, "reading one text per line from the terminal; Ctrl-D ends it");
    }
    TRY(cli_read(path, &texts->bytes, &length, error));
    TRY(encoding_read_text(texts->source, &texts->bytes, &text, &length, error));
    for (size_t i = 0; i < length; i++) {
        count += text[i] == '\n';
    }
    texts->lines = memory_array(count + 1, sizeof *texts->lines);
    if (texts->lines == NULL) {
        return error_no_memory(error, count * sizeof *texts->lines, "the texts");
    }
    count = 0;
    for (char *at = text; *at != '\0';) {
        size_t own = strcspn(at, "\n");
        char *next = at + own + (at[own] == '\n');
        texts->lines[count++] = at;
        at[own > 0 && at[own - 1] == '\r' ? own - 1 : own] = '\0';
        at = next;
    }
    return allocate(texts, count, error);
}

enum berth_status cli_texts_read_lines(const struct cli_call *call, const char *path,
                                       struct cli_texts *texts, struct berth_error *error) {
    *texts = (struct cli_texts){0};
    TRY(read_source(call, path, texts, error));
    for (size_t i = 0; i < texts->count; i++) {
        texts->items[i].text = texts->lines[i];
    }
    return BERTH_OK;
}

static enum berth_status read_member(const char *where, const json *object, const char *key,
                                     int is_needed, const char **text, struct berth_error *error) {
    const json *value = json_member(object, key);
    const char *found = json_text(value);
    if (value == NULL && !is_needed) {
        return BERTH_OK;
    }
    if (found == NULL || strlen(found) != json_text_length(value)) {
        return error_key(error, BERTH_BAD_DATA, where, key, "expected a text%s",
                         value == NULL ? ", found nothing" : "");
    }
    *text = cli_own(memory_string(found));
    return *text != NULL ? BERTH_OK : error_no_memory(error, strlen(found) + 1, "the texts");
}

static enum berth_status read_object(const struct berth_task *about, struct cli_texts *texts,
                                     size_t index, struct berth_error *error) {
    struct berth_text *item = &texts->items[index];
    const char *line = texts->lines[index];
    char where[4200];
    json *object;
    snprintf(where, sizeof where, "%s: line %zu", texts->source, index + 1);
    TRY(json_read_memory(where, line, strlen(line), &object, error));
    enum berth_status status = read_member(where, object, about->text, 1, &item->text, error);
    if (status == BERTH_OK && about->pair != NULL) {
        status = read_member(where, object, about->pair, about->needs_pair, &item->pair, error);
    }
    json_free(object);
    return status;
}

enum berth_status cli_texts_read(const struct cli_call *call, const struct task_row *task,
                                 struct cli_texts *texts, struct berth_error *error) {
    const struct berth_task *about = &task->about;
    const char *text = given(call, about->text), *objects = given(call, "jsonl");
    *texts = (struct cli_texts){0};
    if (objects != NULL) {
        TRY(read_source(call, objects, texts, error));
        for (size_t i = 0; i < texts->count; i++) {
            TRY(read_object(about, texts, i, error));
        }
        return BERTH_OK;
    }
    if (text != NULL &&
        (!about->needs_pair || cli_has_long_pair(task) || given(call, about->pair) != NULL)) {
        const char *pair = given(call, about->pair);
        if (pair == NULL && cli_has_long_pair(task)) {
            TRY(read_pair_file(call, task, texts, &pair, error));
        }
        TRY(allocate(texts, 1, error));
        texts->items[0] = (struct berth_text){.text = text, .pair = pair};
        warn_of_ill_formed(about->text, text);
        warn_of_ill_formed(about->pair, pair);
        return BERTH_OK;
    }
    TRY(cli_texts_read_lines(call, call->argument_count > 0 ? call->arguments[0] : "-", texts,
                             error));
    for (size_t i = 0; i < texts->count && text != NULL; i++) { // each line is a pair of the text
        texts->items[i] = (struct berth_text){.text = text, .pair = texts->lines[i]};
    }
    return BERTH_OK;
}

void cli_texts_done(struct cli_texts *texts) {
    memory_free(texts->items);
    memory_free(texts->lines);
    memory_free(texts->bytes);
    memory_free(texts->pair_bytes);
    memory_free(texts->of_first_process);
    *texts = (struct cli_texts){0};
}

// --- several processes ---------------------------------------------------------------------------

// The texts in one block: each with its NUL, and 1 and its pair, or 0. Measures if `to` is NULL.
static size_t pack(const struct cli_texts *texts, char *to) {
    size_t used = 0;
    for (size_t i = 0; i < texts->count; i++) {
        const char *parts[] = {texts->items[i].text, texts->items[i].pair};
        for (int part = 0; part < 2; part++) {
            const size_t length = parts[part] != NULL ? strlen(parts[part]) + 1 : 0;
            if (to != NULL) {
                to[used] = parts[part] != NULL;
                memcpy(to + used + 1, parts[part] != NULL ? parts[part] : "", length);
            }
            used += 1 + length;
        }
    }
    return used;
}

// Only the first process may be able to read them, as on standard input.
enum berth_status cli_texts_share(struct cli_texts *texts, struct comm *comm,
                                  struct berth_error *error) {
    const int is_first = comm->rank == 0;
    uint64_t sizes[2] = {texts->count, is_first ? pack(texts, NULL) : 0};
    comm->broadcast(comm, sizes, sizeof sizes, 0);
    TRY(comm->status(comm, error));
    enum berth_status status = is_first ? BERTH_OK : allocate(texts, sizes[0], error);
    char *block = texts->of_first_process = memory_new(sizes[1] + 1);
    if (block == NULL) {
        status = error_no_memory(error, sizes[1], "the texts");
    }
    TRY(comm_settle(comm, status, error));
    if (is_first) {
        (void)pack(texts, block);
    }
    comm->broadcast(comm, block, sizes[1], 0);
    TRY(comm->status(comm, error));
    for (size_t i = 0; !is_first && i < texts->count; i++) {
        const char **parts[] = {&texts->items[i].text, &texts->items[i].pair};
        for (int part = 0; part < 2; part++) {
            *parts[part] = *block++ != 0 ? block : NULL;
            block += *parts[part] != NULL ? strlen(*parts[part]) + 1 : 0;
        }
    }
    return BERTH_OK;
}
