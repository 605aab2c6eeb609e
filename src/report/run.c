// SPDX-License-Identifier: Apache-2.0
// Holds what the log of a run says: series that are thinned when they grow too long, facts,
// details. run_read.c fills it from a log and run_log.c while the run goes on; page/ and `berth
// plot` draw it.
#include "report/run.h"

#include "core/memory.h"

#include <math.h>
#include <string.h>

#define SERIES_LIMIT 256 // names in one log
// Beyond these, sums or differences of a log's numbers could overflow; NaN is left out, too.
#define STEP_LIMIT 1e15
#define VALUE_LIMIT 1e280

enum berth_status run_init(struct run *run, const char *name, struct berth_error *error) {
    *run = (struct run){.name = memory_string(name)};
    return run->name != NULL ? BERTH_OK : error_no_memory(error, strlen(name), "a run's name");
}

void run_done(struct run *run) {
    for (size_t i = 0; i < run->series_count; i++) {
        memory_free(run->series[i].name);
        memory_free(run->series[i].buckets);
    }
    for (size_t i = 0; i < run->process_count; i++) {
        memory_free(run->processes[i].resumed_from);
    }
    json *const values[] = {run->plan,    run->settings, run->summary,
                            run->figures, run->details,  run->warnings};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        json_free(values[i]);
    }
    memory_free(run->series);
    memory_free(run->processes);
    memory_free(run->name);
    buffer_done(&run->line);
    *run = (struct run){0};
}

// --- series --------------------------------------------------------------------------------------

static void merge(struct run_bucket *into, const struct run_bucket *from) {
    into->last = from->last;
    into->min = fmin(into->min, from->min);
    into->max = fmax(into->max, from->max);
    into->sum += from->sum;
    into->count += from->count;
    into->latest = from->latest;
}

size_t run_thin(struct run_bucket *buckets, size_t count, size_t limit) {
    while (count > limit) {
        size_t kept = 0;
        for (size_t i = 0; i < count; i += 2, kept++) {
            buckets[kept] = buckets[i];
            if (i + 1 < count) {
                merge(&buckets[kept], &buckets[i + 1]);
            }
        }
        count = kept;
    }
    return count;
}

const struct run_series *run_series_find(const struct run *run, const char *name) {
    for (size_t i = 0; i < run->series_count; i++) {
        if (strcmp(run->series[i].name, name) == 0) {
            return &run->series[i];
        }
    }
    return NULL;
}

static struct run_series *new_series(struct run *run, const char *name) {
    if (run->series_count == SERIES_LIMIT) {
        return NULL;
    }
    struct run_series *grown =
        memory_grow(run->series, &run->series_capacity, run->series_count + 1, sizeof *run->series);
    if (grown == NULL) {
        run->failed = 1;
        return NULL;
    }
    run->series = grown;
    struct run_series *series = &grown[run->series_count];
    *series = (struct run_series){.name = memory_string(name),
                                  .buckets = memory_array(RUN_BUCKETS, sizeof *series->buckets),
                                  .stride = 1};
    if (series->name == NULL || series->buckets == NULL) {
        memory_free(series->name);
        memory_free(series->buckets);
        run->failed = 1;
        return NULL;
    }
    run->series_count++;
    return series;
}

// All buckets hold as many points, so that the whole run is shown in the same detail.
static void add_point(struct run_series *series, const struct run_bucket *point) {
    struct run_bucket *last = series->count > 0 ? &series->buckets[series->count - 1] : NULL;
    if (last != NULL && last->count < series->stride) {
        merge(last, point);
        return;
    }
    if (series->count == RUN_BUCKETS) {
        series->count = run_thin(series->buckets, series->count, RUN_BUCKETS / 2);
        series->stride *= 2;
    }
    series->buckets[series->count++] = *point;
}

void run_add(struct run *run, const char *name, double step, double value) {
    if (run->failed || !(fabs(step) <= STEP_LIMIT) || !(fabs(value) <= VALUE_LIMIT)) {
        return;
    }
    struct run_series *series = (struct run_series *)run_series_find(run, name);
    series = series != NULL ? series : new_series(run, name);
    if (series == NULL) {
        return;
    }
    // A resumed process repeats the same values, so a bucket that reaches beyond `step` keeps its
    // values.
    while (series->count > 0 && series->buckets[series->count - 1].first >= step) {
        series->count--;
    }
    if (series->count > 0 && series->buckets[series->count - 1].last >= step) {
        series->buckets[series->count - 1].last = step - 1;
    }
    add_point(series, &(struct run_bucket){.first = step,
                                           .last = step,
                                           .min = value,
                                           .max = value,
                                           .sum = value,
                                           .count = 1,
                                           .latest = value});
}

// --- facts ---------------------------------------------------------------------------------------

const json *run_details(const struct run *run, const char *kind) {
    return json_member(run->details, kind);
}
