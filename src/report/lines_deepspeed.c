// SPDX-License-Identifier: Apache-2.0
// The lines of DeepSpeed's engine and timer that people grep for, as version 0.7 prints them with
// the places in its source, and those of its BERT programs. reporter.c calls it where that format
// is chosen.
#include "core/log.h"
#include "core/number.h"
#include "report/console.h"
#include "report/lines.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define LOG_DIST "logging.py:68:log_dist"

// Prints the field of a slot, "{key}" or "{key:FORMAT}", as Python would.
static void print_slot(const char *slot, const struct berth_record *record, char *text,
                       size_t size) {
    char key[64] = "", format[8] = "";
    sscanf(slot, "{%63[^:}]:%7[^}]", key, format);
    const struct berth_field *field = lines_field(record, key);
    if (field != NULL && field->type == BERTH_TEXT) {
        snprintf(text, size, "%s", field->text);
    } else if (isnan(lines_real(record, key, NAN))) {
        snprintf(text, size, "None");
    } else if (format[0] != '\0') {
        number_format(text, size, format, lines_real(record, key, NAN));
    } else if (field->type == BERTH_INTEGER) {
        snprintf(text, size, "%" PRId64, field->integer);
    } else {
        number_print_python(text, size, field->real);
    }
}

// Prints a line: its frame, if there is a place, and `form` with the record's fields in its slots.
static void print_form(struct console *console, const char *place, const char *form,
                       const struct berth_record *record) {
    char line[2 * LINES_SIZE] = "";
    if (place != NULL) {
        char date[LINES_DATE_SIZE];
        const struct timespec now = lines_now(date);
        snprintf(line, sizeof line, "[%s,%03ld] [INFO] [%s] ", date, now.tv_nsec / 1000000, place);
    }
    while (*form != '\0') {
        const size_t used = strlen(line);
        const size_t length = *form == '{' ? strcspn(form, "}") + 1 : strcspn(form, "{");
        if (*form == '{') {
            print_slot(form, record, line + used, sizeof line - used);
        } else {
            snprintf(line + used, sizeof line - used, "%.*s", (int)length, form);
        }
        form += length;
    }
    console_line(console, line);
}

static void print_fields(struct console *console, const char *place, const char *form,
                         const struct berth_field *fields, size_t count) {
    const struct berth_record record = {.fields = fields, .field_count = count};
    print_form(console, place, form, &record);
}
#define PRINT(console, place, form, ...)                                                           \
    print_fields(console, place, form, (const struct berth_field[]){__VA_ARGS__},                  \
                 LOG_COUNT(__VA_ARGS__))

void lines_deepspeed_text(struct console *console, const char *text) {
    PRINT(console, LOG_DIST, "[Rank 0] {text}", log_text("text", text));
}

// --- the engine ----------------------------------------------------------------------------------

#define OVERFLOW                                                                                   \
    "[Rank 0] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: "                  \
    "{attempted_loss_scale:%.10g}, "

void lines_deepspeed_note(struct console *console, const struct berth_record *record) {
    const double attempted = lines_real(record, "attempted_loss_scale", NAN);
    if (isnan(attempted)) {
        lines_deepspeed_text(console, record->text != NULL ? record->text : "");
    } else if (lines_real(record, "hysteresis", 0) <
               lines_real(record, "attempted_hysteresis", 0)) {
        print_form(console, LOG_DIST,
                   OVERFLOW "but hysteresis is {attempted_hysteresis}. Reducing hysteresis to "
                            "{hysteresis}",
                   record);
    } else {
        const int is_lower = lines_real(record, "loss_scale", attempted) < attempted;
        print_form(console, LOG_DIST,
                   is_lower ? OVERFLOW "reducing to {loss_scale:%.10g}"
                            : OVERFLOW "keeping {loss_scale:%.10g}",
                   record);
    }
}

#define GIBIBYTE (1024.0 * 1024.0 * 1024.0)

// Rounds as Python's round(value, 2) does.
static double gibibytes(double bytes) {
    return round(100.0 * bytes / GIBIBYTE) / 100.0;
}

void lines_deepspeed_step(struct console *console, const struct berth_record *record,
                          const double betas[2]) {
    PRINT(console, LOG_DIST,
          "[Rank 0] step={step}, skipped={skipped}, lr=[{rate}], mom=[({beta1}, {beta2})]",
          log_integer("step", (int64_t)lines_real(record, "step", 0)),
          log_integer("skipped", (int64_t)lines_real(record, "skipped", 0)),
          log_real("rate", lines_real(record, "learning_rate", 0)), log_real("beta1", betas[0]),
          log_real("beta2", betas[1]));
    // The timer never learns of an epoch's end: the number of the epoch is always 0.
    const double average = lines_real(record, "average_samples_per_second", NAN);
    if (!isnan(average)) {
        struct rusage usage = {0};
        getrusage(RUSAGE_SELF, &usage);
        PRINT(console, "timer.py:198:stop",
              "0/{step}, RunningAvgSamplesPerSec={average}, CurrSamplesPerSec={last}, "
              "MemAllocated={resident}GB, MaxMemAllocated={peak}GB",
              log_integer("step", (int64_t)lines_real(record, "step", 0)),
              log_real("average", average),
              log_real("last", lines_real(record, "last_samples_per_second", average)),
              log_real("resident", gibibytes(lines_real(record, "rss_bytes", 0))),
              log_real("peak", gibibytes((double)usage.ru_maxrss * 1024.0)));
    }
    // The times of the update's last micro-batch, to which the exchange and the step belong, and of
    // the update.
    static const char *const forms[] = {
        "[Rank 0] rank=0 time (ms) | forward_microstep: {forward:%.2f} | backward_microstep: "
        "{backward:%.2f} | backward_inner_microstep: {inner:%.2f} | backward_allreduce_microstep: "
        "{exchange:%.2f} | step_microstep: {step:%.2f}",
        "[Rank 0] rank=0 time (ms) | forward: {forward:%.2f} | backward: {backward:%.2f} | "
        "backward_inner: {inner:%.2f} | backward_allreduce: {exchange:%.2f} | step: {step:%.2f}"};
    const double batches = lines_real(record, "micro_batches_per_update", NAN);
    const double exchange = 1000.0 * lines_real(record, "comm_exposed_seconds", 0.0) /
                            lines_real(record, "updates", 1.0);
    for (int i = 0; i < 2 && !isnan(batches); i++) {
        const double parts = i == 0 ? batches : 1;
        const double inner = lines_real(record, "backward_ms", 0.0) / parts;
        PRINT(console, LOG_DIST, forms[i],
              log_real("forward", lines_real(record, "forward_ms", 0.0) / parts),
              log_real("backward", inner + exchange), log_real("inner", inner),
              log_real("exchange", exchange), log_real("step", lines_real(record, "step_ms", 0.0)));
    }
}

// --- its programs --------------------------------------------------------------------------------

void lines_deepspeed_program(struct console *console, const struct berth_record *record) {
    static const struct {
        const char *task, *forms[2];
    } programs[] = {
        {"pretrain",
         {"bing_bert_progress: step={step}, loss={loss}, lr={learning_rate}, "
          "sample_count={sample_count}",
          " At step {step}, the throughput is {samples_per_second:%.10g} Samples/s"}},
        {"squad",
         {"bert_squad_progress: step={step} lr={learning_rate} loss={train_ema_loss}",
          " At step {step}, averaged throughput for {updates} rounds is: "
          "{samples_per_second:%.10g} Samples/s"}},
    };
    const struct berth_field *task = lines_field(record, "task");
    for (size_t i = 0; task != NULL && i < sizeof programs / sizeof *programs; i++) {
        if (strcmp(task->text, programs[i].task) == 0) {
            print_form(console, NULL, programs[i].forms[0], record);
            print_form(console, NULL, programs[i].forms[1], record);
        }
    }
}
