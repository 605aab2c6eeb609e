// SPDX-License-Identifier: Apache-2.0
// The lines of DeepSpeed's engine and timer that people grep for (the throughput line in the older
// `epoch/step` form), and those of its BERT programs. Numbers are formatted as in Python: 5e-05,
// 0.0.
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

void lines_deepspeed_frame(const char *name, char *text, size_t size) {
    struct timespec now;
    struct tm local;
    char stamp[32];
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    strftime(stamp, sizeof stamp, "%Y-%m-%d %H:%M:%S", &local);
    snprintf(text, size, "[%s,%03ld] [INFO] [berth:0:%s] ", stamp, now.tv_nsec / 1000000, name);
}

void lines_deepspeed_step(const struct berth_record *record, const struct lines_deepspeed *facts,
                          char *text, size_t size) {
    char rate[NUMBER_TEXT_SIZE], beta1[NUMBER_TEXT_SIZE], beta2[NUMBER_TEXT_SIZE];
    number_print_python(rate, sizeof rate, lines_real(record, "learning_rate", 0.0));
    number_print_python(beta1, sizeof beta1, lines_real(record, "adam_beta1", facts->beta1));
    number_print_python(beta2, sizeof beta2, lines_real(record, "adam_beta2", facts->beta2));
    lines_deepspeed_frame("log_dist", text, size);
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

void lines_deepspeed_rate(const struct berth_record *record, char *text, size_t size) {
    lines_deepspeed_frame("stop", text, size);
    size_t used = strlen(text);
    number_format(
        text + used, size - used,
        "%" PRId64 "/%" PRId64 ", RunningAvgSamplesPerSec=%.2f, CurrSamplesPerSec=%.2f, "
        "MemAllocated=%.2fGB, MaxMemAllocated=%.2fGB",
        (int64_t)lines_real(record, "epoch", 0.0), (int64_t)lines_real(record, "step", 0.0),
        lines_real(record, "average_samples_per_second", 0.0),
        lines_real(record, "samples_per_second", 0.0), resident_gibibytes(), peak_gibibytes());
}

int lines_deepspeed_times(const struct berth_record *record, char *text, size_t size) {
    static const char *const keys[][2] = {{"forward_ms", "forward_microstep"},
                                          {"backward_ms", "backward_microstep"},
                                          {"allreduce_ms", "backward_allreduce_microstep"},
                                          {"step_ms", "step_microstep"}};
    int found = 0;
    int used = snprintf(text, size, "rank=0 time (ms)");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (lines_field(record, keys[i][0]) != NULL && (size_t)used < size) {
            used += number_format(text + used, size - (size_t)used, " | %s: %.2f", keys[i][1],
                                  lines_real(record, keys[i][0], 0.0));
            found = 1;
        }
    }
    return found;
}
