// SPDX-License-Identifier: Apache-2.0
// The lines of DeepSpeed's engine and timer that people grep for, as version 0.7 prints them with
// the places in its source, and those of its BERT programs. Numbers are formatted as in Python:
// 5e-05, 0.0.
#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"
#include "report/lines.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

void lines_deepspeed_frame(const char *place, char *text, size_t size) {
    struct timespec now;
    struct tm local;
    char stamp[32];
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    strftime(stamp, sizeof stamp, "%Y-%m-%d %H:%M:%S", &local);
    snprintf(text, size, "[%s,%03ld] [INFO] [%s] ", stamp, now.tv_nsec / 1000000, place);
}

void lines_deepspeed_step(const struct berth_record *record, const struct lines_deepspeed *facts,
                          char *text, size_t size) {
    char rate[NUMBER_TEXT_SIZE], beta1[NUMBER_TEXT_SIZE], beta2[NUMBER_TEXT_SIZE];
    number_print_python(rate, sizeof rate, lines_real(record, "learning_rate", 0.0));
    number_print_python(beta1, sizeof beta1, lines_real(record, "adam_beta1", facts->beta1));
    number_print_python(beta2, sizeof beta2, lines_real(record, "adam_beta2", facts->beta2));
    lines_deepspeed_frame(LINES_LOG_DIST, text, size);
    size_t used = strlen(text);
    snprintf(text + used, size - used,
             "[Rank 0] step=%" PRId64 ", skipped=%" PRId64 ", lr=[%s], mom=[(%s, %s)]",
             (int64_t)lines_real(record, "step", 0.0), (int64_t)lines_real(record, "skipped", 0.0),
             rate, beta1, beta2);
}

void lines_deepspeed_overflow(const struct berth_record *record, char *text, size_t size) {
    double attempted = lines_real(record, "attempted_loss_scale", 0.0);
    double now = lines_real(record, "loss_scale", attempted);
    double before = lines_real(record, "attempted_hysteresis", 0.0);
    double after = lines_real(record, "hysteresis", before);
    int used = number_format(text, size,
                             "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: "
                             "%.10g, ",
                             attempted);
    if (after < before) {
        number_format(text + used, size - (size_t)used,
                      "but hysteresis is %.0f. Reducing hysteresis to %.0f", before, after);
    } else {
        number_format(text + used, size - (size_t)used,
                      now < attempted ? "reducing to %.10g" : "keeping %.10g", now);
    }
}

// As Python prints a number that there may not be.
static void print_number(const struct berth_record *record, const char *key, char *text,
                         size_t size) {
    const double value = lines_real(record, key, NAN);
    if (isnan(value)) {
        snprintf(text, size, "None");
    } else {
        number_print_python(text, size, value);
    }
}

static void progress_pretrain(const struct berth_record *record, char *progress, char *throughput,
                              size_t size) {
    int64_t step = (int64_t)lines_real(record, "step", 0.0);
    char loss[NUMBER_TEXT_SIZE], rate[NUMBER_TEXT_SIZE];
    print_number(record, "loss", loss, sizeof loss);
    number_print_python(rate, sizeof rate, lines_real(record, "learning_rate", 0.0));
    snprintf(progress, size,
             "bing_bert_progress: step=%" PRId64 ", loss=%s, lr=%s, sample_count=%" PRId64, step,
             loss, rate, (int64_t)lines_real(record, "sample_count", 0.0));
    number_format(throughput, size, " At step %" PRId64 ", the throughput is %.10g Samples/s", step,
                  lines_real(record, "samples_per_second", 0.0));
}

static void progress_squad(const struct berth_record *record, char *progress, char *throughput,
                           size_t size) {
    int64_t step = (int64_t)lines_real(record, "step", 0.0);
    char loss[NUMBER_TEXT_SIZE], rate[NUMBER_TEXT_SIZE];
    print_number(record, "train_ema_loss", loss, sizeof loss);
    number_print_python(rate, sizeof rate, lines_real(record, "learning_rate", 0.0));
    snprintf(progress, size, "bert_squad_progress: step=%" PRId64 " lr=%s loss=%s", step, rate,
             loss);
    number_format(throughput, size,
                  " At step %" PRId64 ", averaged throughput for %" PRId64
                  " rounds is: %.10g Samples/s",
                  step, (int64_t)lines_real(record, "updates", 0.0),
                  lines_real(record, "samples_per_second", 0.0));
}

int lines_deepspeed_progress(const struct berth_record *record, char *progress, char *throughput,
                             size_t size) {
    static const struct {
        const char *task;
        void (*print)(const struct berth_record *record, char *progress, char *throughput,
                      size_t size);
    } rows[] = {{"pretrain", progress_pretrain}, {"squad", progress_squad}};
    const struct berth_field *task = lines_field(record, "task");
    for (size_t i = 0; task != NULL && i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(task->text, rows[i].task) == 0) {
            rows[i].print(record, progress, throughput, size);
            return 1;
        }
    }
    return 0;
}

#define GIBIBYTE (1024.0 * 1024.0 * 1024.0)
#define STATM_LIMIT 4096 // bytes of /proc/self/statm

static double resident_gibibytes(void) {
    char *text = NULL;
    size_t length;
    long pages = 0;
    if (file_read("/proc/self/statm", STATM_LIMIT, &text, &length, NULL) == BERTH_OK &&
        sscanf(text, "%*s %ld", &pages) != 1) {
        pages = 0;
    }
    memory_free(text);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / GIBIBYTE;
}

static double peak_gibibytes(void) {
    struct rusage usage = {0};
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss * 1024.0 / GIBIBYTE;
}

// As Python's round(value, 2) is printed: 15.06, 0.4.
static void print_gibibytes(double value, char text[NUMBER_TEXT_SIZE]) {
    number_print_python(text, NUMBER_TEXT_SIZE, round(100.0 * value) / 100.0);
}

// The timer never learns of an epoch's end: the number of the epoch is always 0.
int lines_deepspeed_rate(const struct berth_record *record, char *text, size_t size) {
    const double average = lines_real(record, "average_samples_per_second", NAN);
    char running[NUMBER_TEXT_SIZE], current[NUMBER_TEXT_SIZE];
    char resident[NUMBER_TEXT_SIZE], peak[NUMBER_TEXT_SIZE];
    if (isnan(average)) {
        return 0;
    }
    number_print_python(running, sizeof running, average);
    number_print_python(current, sizeof current,
                        lines_real(record, "last_samples_per_second", average));
    print_gibibytes(resident_gibibytes(), resident);
    print_gibibytes(peak_gibibytes(), peak);
    lines_deepspeed_frame("timer.py:198:stop", text, size);
    size_t used = strlen(text);
    snprintf(text + used, size - used,
             "0/%" PRId64 ", RunningAvgSamplesPerSec=%s, CurrSamplesPerSec=%s, "
             "MemAllocated=%sGB, MaxMemAllocated=%sGB",
             (int64_t)lines_real(record, "step", 0.0), running, current, resident, peak);
    return 1;
}

// Milliseconds of the parts of an update, or of one of its micro-batches.
struct times {
    const char *suffix;
    double forward, backward, exchange, step;
};

static void print_times(const struct times *times, char *text, size_t size) {
    const struct {
        const char *name;
        double value;
    } parts[] = {{"forward", times->forward},
                 {"backward", times->backward + times->exchange},
                 {"backward_inner", times->backward},
                 {"backward_allreduce", times->exchange},
                 {"step", times->step}};
    lines_deepspeed_frame(LINES_LOG_DIST, text, size);
    size_t used = strlen(text);
    used += (size_t)snprintf(text + used, size - used, "[Rank 0] rank=0 time (ms)");
    for (size_t i = 0; i < sizeof parts / sizeof *parts && used < size; i++) {
        used += (size_t)number_format(text + used, size - used, " | %s%s: %.2f", parts[i].name,
                                      times->suffix, parts[i].value);
    }
}

int lines_deepspeed_times(const struct berth_record *record, char *micro, char *update,
                          size_t size) {
    const double updates = lines_real(record, "updates", 1.0);
    const double parts = lines_real(record, "micro_batches_per_update", NAN);
    const struct times all = {.suffix = "",
                              .forward = lines_real(record, "forward_ms", 0.0),
                              .backward = lines_real(record, "backward_ms", 0.0),
                              .exchange = 1000.0 * lines_real(record, "comm_exposed_seconds", 0.0) /
                                          updates,
                              .step = lines_real(record, "step_ms", 0.0)};
    // The exchange and the step belong to the last micro-batch.
    const struct times last = {.suffix = "_microstep",
                               .forward = all.forward / parts,
                               .backward = all.backward / parts,
                               .exchange = all.exchange,
                               .step = all.step};
    if (isnan(parts)) {
        return 0;
    }
    print_times(&last, micro, size);
    print_times(&all, update, size);
    return 1;
}
