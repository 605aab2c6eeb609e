// SPDX-License-Identifier: Apache-2.0
// The lines of a file or of standard input, as the texts of a verb.
#include "cli.h"
#include "core/encoding.h"
#include "core/memory.h"
#include "core/terminal.h"

#include <string.h>
#include <unistd.h>

static enum berth_status cut(struct cli_lines *lines, char *text, size_t length,
                             struct berth_error *error) {
    size_t count = 0;
    for (size_t i = 0; i < length; i++) {
        count += text[i] == '\n';
    }
    lines->items = memory_array(count + 1, sizeof *lines->items);
    if (lines->items == NULL) {
        return error_no_memory(error, count * sizeof *lines->items, "the texts");
    }
    for (char *at = text; *at != '\0';) {
        size_t own = strcspn(at, "\n");
        char *next = at + own + (at[own] == '\n');
        lines->items[lines->count++] = at;
        at[own > 0 && at[own - 1] == '\r' ? own - 1 : own] = '\0';
        at = next;
    }
    return BERTH_OK;
}

enum berth_status cli_read_lines(const struct cli_call *call, const char *path,
                                 struct cli_lines *lines, struct berth_error *error) {
    const int is_input = strcmp(path, "-") == 0;
    size_t length;
    char *text;
    *lines = (struct cli_lines){.name = is_input ? "standard input" : path};
    if (is_input && terminal_is(STDIN_FILENO)) {
        cli_note(call, "reading one text per line from the terminal; Ctrl-D ends it");
    }
    TRY(cli_read(path, &lines->bytes, &length, error));
    TRY(encoding_read_text(lines->name, &lines->bytes, &text, &length, error));
    return cut(lines, text, length, error);
}

void cli_lines_done(struct cli_lines *lines) {
    memory_free(lines->items);
    memory_free(lines->bytes);
    *lines = (struct cli_lines){0};
}
