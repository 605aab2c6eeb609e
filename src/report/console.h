// SPDX-License-Identifier: Apache-2.0
// Writes lines and a progress bar to a file descriptor. The bar is the last line of a terminal: it
// is cleared before a line is printed and redrawn after it, at most ten times a second. What lines
// say is reporter.h's.
#ifndef BERTH_REPORT_CONSOLE_H
#define BERTH_REPORT_CONSOLE_H

#include <stddef.h>
#include <stdint.h>

// A phase of progress. Its clock continues while another phase, such as an evaluation, interrupts
// it.
struct console_phase {
    char name[64]; // "": none
    double start;
    int64_t first; // value of `done` at the start, for the rate
};

enum console_progress {
    CONSOLE_NO_PROGRESS,
    CONSOLE_BAR,   // only the bar
    CONSOLE_LINES, // the bar or, where there is none, lines, and a line for each finished phase
};

struct console {
    int descriptor;
    int terminal;
    int erases; // its last line can be erased and redrawn, so it shows the bar
    int colour;
    enum console_progress progress;
    int bar_shown;                    // the last line shows the bar
    double bar_drawn;                 // time of the last drawing, in monotonic seconds
    double line_time;                 // time of the last plain progress line or step line
    struct console_phase phase;       // the phase that the bar shows
    struct console_phase interrupted; // the unfinished phase that it interrupted
    char detail[64];                  // text to the right of the bar: "loss 1.234"
    int bytes;                        // the phase counts bytes
    int failed;                       // errno of the first failed write; 0: none
};

void console_init(struct console *console, int descriptor, enum console_progress progress);
// Prints a line of text, escaped (terminal.h), with a newline.
void console_line(struct console *console, const char *text);
// Prints "warning: text", in yellow if colours are enabled.
void console_warning(struct console *console, const char *text);
// Shows the progress of a phase, in bytes as "1.50 MiB". It ends when done == total.
void console_advance(struct console *console, const char *phase, int bytes, int64_t done,
                     int64_t total);
// Clears the bar if it is shown.
void console_clear(struct console *console);

// Formats a duration as "1:02:03" or "4:05"; at least "0:00".
void console_duration(double seconds, char *text, size_t size);

#endif
