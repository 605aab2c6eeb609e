// SPDX-License-Identifier: Apache-2.0
// Counts requests, batches, tokens and their times, and prints them with the figures of the process
// as text for Prometheus. routes.c counts each reply and run.c each batch; GET /metrics prints.
#include "serve/metrics.h"

#include "core/clock.h"
#include "core/file.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define BUCKETS 12
static const double second_bounds[BUCKETS] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                              0.5,   1,    2.5,   5,    10,  30};
static const double token_bounds[BUCKETS] = {16,   32,   64,   128,  256,   512,
                                             1024, 2048, 4096, 8192, 16384, 32768};

struct histogram {
    uint64_t counts[BUCKETS + 1]; // of values up to each bound; the last: of larger ones
    double sum;
};

// The HTTP statuses that a request to a model can get.
static const int statuses[] = {200, 400, 404, 499, 503, 500};
#define STATUSES (sizeof statuses / sizeof *statuses)

struct model_metrics {
    uint64_t ignored; // members of requests
    uint64_t requests[STATUSES];
    uint64_t tokens, truncated;
    struct histogram seconds, batches;
};

struct metrics {
    pthread_mutex_t lock;
    struct model_metrics *models;
    size_t count;
    double started; // since the epoch
};

enum berth_status metrics_open(size_t models, struct metrics **metrics, struct berth_error *error) {
    *metrics = memory_array_zeroed(1, sizeof **metrics);
    struct model_metrics *all = memory_array_zeroed(models, sizeof *all);
    if (*metrics == NULL || all == NULL) {
        memory_free(*metrics);
        memory_free(all);
        *metrics = NULL;
        return error_no_memory(error, models * sizeof *all, "counters");
    }
    pthread_mutex_init(&(*metrics)->lock, NULL);
    (*metrics)->models = all;
    (*metrics)->count = models;
    (*metrics)->started = (double)time(NULL);
    return BERTH_OK;
}

void metrics_close(struct metrics *metrics) {
    if (metrics != NULL) {
        pthread_mutex_destroy(&metrics->lock);
        memory_free(metrics->models);
        memory_free(metrics);
    }
}

static void observe(struct histogram *histogram, const double *bounds, double value) {
    size_t i = 0;
    while (i < BUCKETS && value > bounds[i]) {
        i++;
    }
    histogram->counts[i]++;
    histogram->sum += value;
}

void metrics_request(struct metrics *metrics, size_t model, int status, double seconds) {
    size_t i = 0;
    while (i + 1 < STATUSES && statuses[i] != status) {
        i++;
    }
    pthread_mutex_lock(&metrics->lock);
    metrics->models[model].requests[i]++;
    if (status == 200) {
        observe(&metrics->models[model].seconds, second_bounds, seconds);
    }
    pthread_mutex_unlock(&metrics->lock);
}

void metrics_ignored(struct metrics *metrics, size_t model, size_t members) {
    pthread_mutex_lock(&metrics->lock);
    metrics->models[model].ignored += members;
    pthread_mutex_unlock(&metrics->lock);
}

uint64_t metrics_batch(struct metrics *metrics, size_t model, int64_t tokens, size_t truncated) {
    struct model_metrics *own = &metrics->models[model];
    pthread_mutex_lock(&metrics->lock);
    observe(&own->batches, token_bounds, (double)tokens);
    own->tokens += (uint64_t)tokens;
    const uint64_t all = own->truncated += truncated;
    pthread_mutex_unlock(&metrics->lock);
    return all;
}

// --- text ----------------------------------------------------------------------------------------

static void put_head(struct buffer *text, const char *name, const char *type, const char *help) {
    buffer_print(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_histogram(struct buffer *text, const char *name, const char *model,
                          const struct histogram *histogram, const double *bounds) {
    uint64_t count = 0;
    for (size_t i = 0; i < BUCKETS; i++) {
        count += histogram->counts[i];
        buffer_print(text, "%s_bucket{model=\"%s\",le=\"%g\"} %" PRIu64 "\n", name, model,
                     bounds[i], count);
    }
    count += histogram->counts[BUCKETS];
    buffer_print(text, "%s_bucket{model=\"%s\",le=\"+Inf\"} %" PRIu64 "\n", name, model, count);
    buffer_print(text, "%s_sum{model=\"%s\"} %.9g\n", name, model, histogram->sum);
    buffer_print(text, "%s_count{model=\"%s\"} %" PRIu64 "\n", name, model, count);
}

static void put_counter(const struct metrics *metrics, const struct models *models,
                        const char *name, const char *help, size_t offset, struct buffer *text) {
    put_head(text, name, "counter", help);
    for (size_t m = 0; m < metrics->count; m++) {
        buffer_print(text, "%s{model=\"%s\"} %" PRIu64 "\n", name, models_name(models, m),
                     *(const uint64_t *)((const char *)&metrics->models[m] + offset));
    }
}

static void put_models(const struct metrics *metrics, const struct models *models,
                       struct queue *queue, struct buffer *text) {
    put_head(text, "berth_requests_total", "counter", "Requests to a model, by HTTP status.");
    for (size_t m = 0; m < metrics->count; m++) {
        for (size_t i = 0; i < STATUSES; i++) {
            buffer_print(text, "berth_requests_total{model=\"%s\",code=\"%d\"} %" PRIu64 "\n",
                         models_name(models, m), statuses[i], metrics->models[m].requests[i]);
        }
    }
    put_counter(metrics, models, "berth_ignored_members_total",
                "Members of requests that were ignored because they are unknown.",
                offsetof(struct model_metrics, ignored), text);
    put_head(text, "berth_request_seconds", "histogram",
             "Seconds from the headers of a request to its result, of requests with status 200.");
    for (size_t m = 0; m < metrics->count; m++) {
        put_histogram(text, "berth_request_seconds", models_name(models, m),
                      &metrics->models[m].seconds, second_bounds);
    }
    put_head(text, "berth_queue_length", "gauge", "Texts that wait for the model.");
    for (size_t m = 0; m < metrics->count; m++) {
        buffer_print(text, "berth_queue_length{model=\"%s\"} %zu\n", models_name(models, m),
                     queue_length(queue, m));
    }
    put_head(text, "berth_batch_tokens", "histogram", "Tokens of a batch.");
    for (size_t m = 0; m < metrics->count; m++) {
        put_histogram(text, "berth_batch_tokens", models_name(models, m),
                      &metrics->models[m].batches, token_bounds);
    }
    put_counter(metrics, models, "berth_tokens_total", "Tokens that the model has read.",
                offsetof(struct model_metrics, tokens), text);
    put_counter(metrics, models, "berth_truncated_texts_total",
                "Texts that had more tokens than the model reads.",
                offsetof(struct model_metrics, truncated), text);
}

// -1: unknown. When all descriptors are in use, the folder that lists them cannot be opened.
static int64_t open_descriptors(int64_t limit) {
    DIR *folder = opendir("/proc/self/fd");
    int64_t count = -3; // ".", ".." and the folder itself
    if (folder == NULL) {
        return errno == EMFILE ? limit : -1;
    }
    while (readdir(folder) != NULL) {
        count++;
    }
    closedir(folder);
    return count;
}

static void put_descriptors(struct buffer *text) {
    struct rlimit limit = {.rlim_cur = 0};
    const int has_limit = getrlimit(RLIMIT_NOFILE, &limit) == 0;
    const int64_t count = open_descriptors(has_limit ? (int64_t)limit.rlim_cur : -1);
    if (count >= 0) {
        put_head(text, "process_open_fds", "gauge", "Open file descriptors.");
        buffer_print(text, "process_open_fds %" PRId64 "\n", count);
    }
    if (has_limit) {
        put_head(text, "process_max_fds", "gauge", "Most file descriptors that may be open.");
        buffer_print(text, "process_max_fds %" PRIu64 "\n", (uint64_t)limit.rlim_cur);
    }
}

static void put_process(const struct metrics *metrics, struct buffer *text) {
    put_head(text, "process_cpu_seconds_total", "counter", "Processor time used, in seconds.");
    buffer_print(text, "process_cpu_seconds_total %.3f\n", clock_seconds(CLOCK_PROCESS_CPUTIME_ID));
    put_head(text, "process_start_time_seconds", "gauge", "Start, in seconds since the epoch.");
    buffer_print(text, "process_start_time_seconds %.0f\n", metrics->started);
    put_descriptors(text);
    FILE *file = fopen("/proc/self/statm", "r");
    long total = 0, resident = 0;
    if (file != NULL && fscanf(file, "%ld %ld", &total, &resident) == 2) {
        const double page = (double)sysconf(_SC_PAGESIZE);
        put_head(text, "process_virtual_memory_bytes", "gauge", "Virtual memory in bytes.");
        buffer_print(text, "process_virtual_memory_bytes %.0f\n", (double)total * page);
        put_head(text, "process_resident_memory_bytes", "gauge", "Resident memory in bytes.");
        buffer_print(text, "process_resident_memory_bytes %.0f\n", (double)resident * page);
    }
    if (file != NULL) {
        fclose(file);
    }
}

void metrics_write(struct metrics *metrics, const struct models *models, struct queue *queue,
                   struct buffer *text) {
    pthread_mutex_lock(&metrics->lock);
    put_models(metrics, models, queue, text);
    pthread_mutex_unlock(&metrics->lock);
    put_process(metrics, text);
}
