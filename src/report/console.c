// SPDX-License-Identifier: Apache-2.0
// The console. Every line is written with a single write, so lines of several processes do not mix.
// reporter.c writes here.
#include "report/console.h"

#include "core/clock.h"
#include "core/file_call.h"
#include "core/log.h"
#include "core/number.h"
#include "core/terminal.h"
#include "core/utf8.h"
#include "report/lines.h"

#include <stdio.h>
#include <string.h>

#define REDRAW_SECONDS 0.1
#define LINE_SECONDS 10.0
#define BAR_WIDTH 30
#define BAR_MIN 4
#define NAME_MIN 8

void console_duration(double seconds, char *text, size_t size) {
    // Clamped to at least zero and to a printable maximum (also if it is NaN).
    int64_t whole = seconds > 0 ? (int64_t)(seconds < 3.6e9 ? seconds + 0.5 : 3.6e9) : 0;
    long long hours = whole / 3600;
    int minutes = (int)(whole / 60 % 60), rest = (int)(whole % 60);
    if (hours > 0) {
        snprintf(text, size, "%lld:%02d:%02d", hours, minutes, rest);
    } else {
        snprintf(text, size, "%d:%02d", minutes, rest);
    }
}

void console_init(struct console *console, int descriptor, enum console_progress progress) {
    *console = (struct console){.descriptor = descriptor,
                                .terminal = terminal_is(descriptor),
                                .erases = terminal_erases(descriptor),
                                .colour = terminal_colour(descriptor),
                                .progress = progress};
}

// A closed pipe or a full disk must not stop a training run: the error is only recorded.
static void write_all(struct console *console, const char *bytes, size_t length) {
    const int failed = file_call_write(console->descriptor, bytes, length);
    console->failed = console->failed != 0 ? console->failed : failed;
}

void console_clear(struct console *console) {
    if (console->bar_shown) {
        write_all(console, "\r\033[K", 4);
        console->bar_shown = 0;
    }
}

// `mark` is written unchanged, the text escaped.
static void put_line(struct console *console, const char *mark, const char *text) {
    char line[4096];
    size_t limit = sizeof line - 2;
    int used_before =
        snprintf(line, limit, "%s%s", console->bar_shown ? "\r\033[K" : "", mark); // short
    size_t used = (size_t)used_before +
                  terminal_escape(line + used_before, limit - (size_t)used_before, text, "");
    line[used++] = '\n';
    write_all(console, line, used);
    console->bar_shown = 0;
    console->line_time = clock_now();
}

void console_line(struct console *console, const char *text) {
    put_line(console, "", text);
}

void console_warning(struct console *console, const char *text) {
    put_line(console,
             console->colour ? "berth: \033[1;33mwarning:\033[0m " : "berth: warning: ", text);
}

// --- progress ------------------------------------------------------------------------------------

static int is_phase(const struct console_phase *phase, const char *name) {
    return strncmp(name, phase->name, sizeof phase->name - 1) == 0;
}

// `name` is escaped. Starts the phase, or continues the interrupted one.
static void begin_phase(struct console *console, const char *name, int64_t done) {
    struct console_phase before = console->phase;
    if (is_phase(&console->interrupted, name)) {
        console->phase = console->interrupted;
    } else {
        console->phase = (struct console_phase){.start = clock_now(), .first = done};
        snprintf(console->phase.name, sizeof console->phase.name, "%s", name);
    }
    if (before.name[0] != '\0' || is_phase(&console->interrupted, name)) {
        console->interrupted = before;
    }
    console->bar_drawn = 0.0;
    console->line_time = clock_now();
    console->detail[0] = '\0';
}

// "120", or "1.50 MiB" if the phase counts bytes.
static void print_amount(const struct console *console, int64_t amount, char *text, size_t size) {
    if (console->bytes) {
        const struct berth_field field = log_integer("bytes", amount);
        lines_value(&field, text, size);
    } else {
        snprintf(text, size, "%lld", (long long)amount);
    }
}

// "120/487  2.5/s  ETA 2:27"; the rate and the ETA only once they are known.
static void describe(const struct console *console, int64_t done, int64_t total, char *text,
                     size_t size) {
    double seconds = clock_now() - console->phase.start;
    int64_t counted = done - console->phase.first;
    char done_text[32], total_text[32];
    print_amount(console, done, done_text, sizeof done_text);
    print_amount(console, total, total_text, sizeof total_text);
    int used = snprintf(text, size, "%s/%s", done_text, total_text);
    if (counted > 0 && seconds > 0.2 && done < total) {
        double rate = (double)counted / seconds;
        char eta[32];
        console_duration((double)(total - done) / rate, eta, sizeof eta);
        char rate_text[32];
        if (console->bytes) {
            print_amount(console, (int64_t)rate, rate_text, sizeof rate_text);
        } else {
            number_format(rate_text, sizeof rate_text, "%.*f", rate < 10 ? 2 : 0, rate);
        }
        used += snprintf(text + used, size - (size_t)used, "  %s/s  ETA %s", rate_text, eta);
    }
    if (console->detail[0] != '\0' && (size_t)used < size) {
        snprintf(text + used, size - (size_t)used, "  %s", console->detail);
    }
}

// "[##..] " of up to `available` columns; "" if that is too few to show anything.
static void print_bar(double fraction, int available, char *text, size_t size) {
    char bar[BAR_WIDTH + 1];
    const int cells = available - 3 > BAR_WIDTH ? BAR_WIDTH : available - 3;
    for (int i = 0; i < cells; i++) {
        bar[i] = i < (int)(fraction * cells) ? '#' : '.';
    }
    text[0] = '\0';
    if (cells >= BAR_MIN) {
        snprintf(text, size, "[%.*s] ", cells, bar);
    }
}

// Drops the last of the facts, which two blanks separate, until they fit into `available` columns
// or one is left.
static void drop_facts(char *facts, int available) {
    while ((int)strlen(facts) > available) {
        char *last = NULL;
        for (char *gap = strstr(facts, "  "); gap != NULL; gap = strstr(gap + 2, "  ")) {
            last = gap;
        }
        if (last == NULL) {
            return;
        }
        *last = '\0';
    }
}

// If the line is too short for everything, the bar is dropped first, then the end of the phase's
// name, then the last facts.
static void draw_bar(struct console *console, int64_t done, int64_t total) {
    char facts[192], bar[BAR_WIDTH + 4], line[512];
    describe(console, done, total, facts, sizeof facts);
    const double fraction = total > 0 ? (double)done / (double)total : 0.0;
    const int width = terminal_width(console->descriptor) - 1;
    const size_t phase = strlen(console->phase.name);
    drop_facts(facts, width - 6 - (phase < NAME_MIN ? (int)phase : NAME_MIN));
    const int available = width - (int)strlen(facts) - 6; // beside " 100% "
    const int name = (int)utf8_cut(console->phase.name, phase,
                                   (size_t)(available > NAME_MIN ? available : NAME_MIN));
    print_bar(fraction, available - name, bar, sizeof bar);
    int length = snprintf(line, sizeof line, "%.*s %3d%% %s%s", name, console->phase.name,
                          (int)(fraction * 100), bar, facts);
    int shown = length < width ? length : width;
    shown = shown < (int)sizeof line - 1 ? shown : (int)sizeof line - 1;
    char out[sizeof line + 8];
    snprintf(out, sizeof out, "\r%.*s\033[K", shown, line);
    write_all(console, out, strlen(out));
    console->bar_shown = 1;
    console->bar_drawn = clock_now();
}

static void end_phase(struct console *console, int64_t total) {
    char duration[32], total_text[32], own_text[32], line[192];
    const int64_t first = console->phase.first;
    console_clear(console);
    console_duration(clock_now() - console->phase.start, duration, sizeof duration);
    print_amount(console, total, total_text, sizeof total_text);
    print_amount(console, total - first, own_text, sizeof own_text);
    snprintf(line, sizeof line, "%s: %s done%s%s in %s", console->phase.name, total_text,
             first > 0 ? ", the last " : "", first > 0 ? own_text : "", duration);
    if (console->progress == CONSOLE_LINES) {
        console_line(console, line);
    }
    console->phase.name[0] = '\0';
}

void console_advance(struct console *console, const char *name, int bytes, int64_t done,
                     int64_t total) {
    char phase[sizeof console->phase.name];
    console->bytes = bytes;
    if (console->progress == CONSOLE_NO_PROGRESS) {
        return;
    }
    terminal_escape(phase, sizeof phase, name, "");
    if (!is_phase(&console->phase, phase)) {
        if (done >= total && total > 0 && !is_phase(&console->interrupted, phase)) {
            return; // a phase that ended before it was announced, or was announced twice
        }
        console_clear(console);
        begin_phase(console, phase, done);
    }
    if (done >= total && total > 0) {
        end_phase(console, total);
    } else if (console->erases && clock_now() - console->bar_drawn >= REDRAW_SECONDS) {
        draw_bar(console, done, total);
    } else if (!console->erases && console->progress == CONSOLE_LINES &&
               clock_now() - console->line_time >= LINE_SECONDS) {
        char facts[192], line[288];
        describe(console, done, total, facts, sizeof facts);
        snprintf(line, sizeof line, "%s: %s", console->phase.name, facts);
        console_line(console, line);
    }
}
