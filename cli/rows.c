// SPDX-License-Identifier: Apache-2.0
// The rows of options as text, for --help, manual pages and completion: which a verb lists, in what
// order, and what each says there. Leaves out reading command lines (arguments.c). Called by
// help.c, man.c and completion.c, which lay the text out.
#include "rows.h"

#include "settings/effects.h"

#include <string.h>

const char cli_rows_note[] =
    "In names - and _ are the same. Defaults are in brackets. A flag takes true, "
    "false or nothing (true); --no_NAME is false.";

// --- the list ------------------------------------------------------------------------------------

// The options of every verb.
static const struct option_row always[] = {
    {CLI_FLAG("no_color"), .help = "no colours, as with the environment variable NO_COLOR",
     .shown = "colours on a terminal"},
    {CLI_TEXT("help", NULL), .unit = "all|GROUP|NAME", .alone = "",
     .help = "this help; with all options, those of a group, or one of them; -h for short"}};
#define ALWAYS_COUNT (sizeof always / sizeof *always)

static int is_settable(const struct cli_verb *verb, const struct option_row *row) {
    return row != NULL && cli_row_applies(verb, row);
}

// The row at `index` of all rows; NULL: it does not apply to the verb. *ended: there are no more.
static const struct option_row *row_at(const struct cli_verb *verb, size_t index, int *ended) {
    if (index < verb->option_count) {
        return &verb->options[index];
    }
    index -= verb->option_count;
    if (index < option_row_count) {
        return is_settable(verb, &option_rows[index]) ? &option_rows[index] : NULL;
    }
    index -= option_row_count;
    *ended = index >= ALWAYS_COUNT;
    return *ended ? NULL : &always[index];
}

const struct option_row *cli_row_next(const struct cli_verb *verb, size_t *index) {
    const struct option_row *row = NULL;
    for (int ended = 0; row == NULL && !ended;) {
        row = row_at(verb, (*index)++, &ended);
    }
    return row;
}

const struct option_row *cli_row_named(const struct cli_verb *verb, const char *name) {
    const struct option_row *row;
    for (size_t i = 0; (row = cli_row_next(verb, &i)) != NULL;) {
        if (option_is_named(row, name)) {
            return row;
        }
    }
    return NULL;
}

int cli_row_is_common(const struct option_row *row) {
    return row->common || row->group == NULL;
}

// --- the text of one -----------------------------------------------------------------------------

void cli_row_put_unit(struct buffer *text, const struct option_row *row) {
    if (row->type != OPTION_FLAG && row->unit != NULL) {
        buffer_put_text(text, row->alone != NULL ? " [" : " ");
        buffer_put_text(text, row->unit);
        buffer_put_text(text, row->alone != NULL ? "]" : "");
    }
}

static void put_default(struct buffer *text, const struct cli_verb *verb,
                        const struct option_row *row) {
    const struct option_default otherwise = option_default(row, verb->jobs);
    const char *shown = otherwise.shown != NULL ? otherwise.shown : otherwise.value;
    if (shown != NULL) {
        buffer_put_text(text, " [");
        buffer_put_text(text, shown);
        buffer_put_text(text, "]");
    }
}

void cli_row_put_text(struct buffer *text, const struct cli_verb *verb,
                      const struct option_row *row, int details) {
    const struct option_help about = option_help(row, verb->jobs);
    buffer_put_text(text, about.help);
    struct buffer only DONE_BY(buffer_done) = {0};
    settings_put_only_with(&only, row, verb->jobs);
    if (only.length > 0) {
        buffer_put_text(text, "; ");
        buffer_put(text, only.bytes, only.length);
    }
    text->failed |= only.failed;
    if (about.choices != NULL) {
        // " (a, b, c)"
        buffer_put_text(text, " (");
        for (const char *at = about.choices; *at != '\0'; at++) {
            if (*at == '|') {
                buffer_put_text(text, ", ");
            } else {
                buffer_put_byte(text, *at);
            }
        }
        buffer_put_text(text, ")");
    }
    put_default(text, verb, row);
    if (details && (verb->jobs & JOB_TRAIN) != 0) {
        if (row->deepspeed != NULL) {
            buffer_put_text(text, "; DeepSpeed's key: ");
            buffer_put_text(text, row->deepspeed);
        }
        if (row->resume == OPTION_KEPT) {
            buffer_put_text(text, "; a resumed run must keep it");
        }
    }
}
