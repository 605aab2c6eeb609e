// SPDX-License-Identifier: Apache-2.0
// Lines and a progress bar on one file descriptor. The bar is the last line of a terminal: it is
// wiped before a line is printed and drawn again after it, at most ten times a second.
#ifndef BERTH_REPORT_CONSOLE_H
#define BERTH_REPORT_CONSOLE_H

#include <stddef.h>
#include <stdint.h>

// Its clock runs on while another phase, of an evaluation say, comes between.
struct console_phase {
    char name[64]; // "": none
    double start;
    int64_t first; // `done` when it began, for the rate
};

struct console {
    int descriptor;
    int terminal;
    int colour;
    int progress;                     // bars and progress lines wanted
    int bar_shown;                    // the bar stands on the last line
    double bar_drawn;                 // when, monotonic seconds
    double line_time;                 // when the last plain progress line or step line was printed
    struct console_phase phase;       // of the bar
    struct console_phase interrupted; // the one before, which had not ended
    char detail[64];                  // right of the bar: "loss 1.234"
    int bytes;                        // the phase counts bytes
    int failed;                       // errno of the first write that failed; 0: none
};

void console_init(struct console *console, int descriptor, int progress);
// A line of text, escaped (terminal.h); a newline is added.
void console_line(struct console *console, const char *text);
// "warning: text", yellow where colours are on.
void console_warning(struct console *console, const char *text);
// Progress of a phase. Ends with a line when done == total.
void console_progress(struct console *console, const char *phase, int64_t done, int64_t total);
// The same in bytes, shown as "1.50 MiB".
void console_progress_bytes(struct console *console, const char *phase, int64_t done,
                            int64_t total);
// Wipes a bar that is there.
void console_clear(struct console *console);

double console_now(void); // monotonic seconds
// "1:02:03", "4:05"; at least "0:00".
void console_duration(double seconds, char *text, size_t size);

#endif
