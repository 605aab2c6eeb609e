// SPDX-License-Identifier: Apache-2.0
// The seconds that a rank computes between the exchanges of an update: collects them, writes them
// to a JSON file, reads them back checked, and replays the exchanges at their times. recorder.c
// measures them and bench_ranks.c repeats them.
#include "bench/rank_times.h"

#include "core/file.h"
#include "core/memory.h"
#include "format/json/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MAX_SUMMED = 1 << 24 };

// --- events -------------------------------------------------------------------------------------

struct step {
    struct all_reduce *all_reduce;
    int64_t index;
    double *numbers; // [largest index of RANK_SUMS]
    struct berth_error *error;
};

static enum berth_status need_weights(const struct step *step) {
    all_reduce_wait_weights(step->all_reduce, (size_t)step->index);
    return BERTH_OK;
}

static enum berth_status announce(const struct step *step) {
    all_reduce_begin(step->all_reduce, (size_t)step->index);
    return BERTH_OK;
}

static enum berth_status need_gradients(const struct step *step) {
    all_reduce_wait_gradients(step->all_reduce, (size_t)step->index);
    return BERTH_OK;
}

static enum berth_status sum(const struct step *step) {
    struct comm *comm = step->all_reduce->comm;
    comm->sum(comm, step->numbers, (size_t)step->index);
    return BERTH_OK;
}

static enum berth_status agree(const struct step *step) {
    struct comm *comm = step->all_reduce->comm;
    int stop = 0;
    return comm->agree(comm, BERTH_OK, &stop, step->error);
}

static enum berth_status gather(const struct step *step) {
    all_reduce_gather(step->all_reduce, (size_t)step->index);
    return BERTH_OK;
}

static enum berth_status end(const struct step *step) {
    return step->all_reduce->comm->status(step->all_reduce->comm, step->error);
}

static const struct {
    const char *name;
    int scales_with_load;
    enum berth_status (*run)(const struct step *step);
} events[RANK_EVENTS] = {
    [RANK_NEEDS_WEIGHTS] = {"needs_weights", 1, need_weights},
    [RANK_ANNOUNCES] = {"announces", 1, announce},
    [RANK_NEEDS_GRADIENTS] = {"needs_gradients", 1, need_gradients},
    [RANK_SUMS] = {"sums", 0, sum},
    [RANK_AGREES] = {"agrees", 0, agree},
    [RANK_UPDATED] = {"updated", 0, gather},
    [RANK_ENDS] = {"ends", 0, end},
};

int rank_event_scales_with_load(enum rank_event event) {
    return events[event].scales_with_load;
}

enum berth_status rank_times_replay(const struct rank_times *times,
                                    const struct rank_replay *replay, struct berth_error *error) {
    int64_t max = 1;
    for (size_t i = 0; i < times->count; i++) {
        const struct rank_moment *moment = &times->moments[i];
        max = moment->event == RANK_SUMS && moment->index > max ? moment->index : max;
    }
    const size_t capacity = (size_t)max;
    struct step step = {.all_reduce = replay->all_reduce,
                        .numbers = memory_array_zeroed(capacity, sizeof(double)),
                        .error = error};
    enum berth_status status = step.numbers != NULL
                                   ? BERTH_OK
                                   : error_no_memory(error, capacity * sizeof(double), "a replay");
    for (size_t i = 0; i < times->count && status == BERTH_OK; i++) {
        const struct rank_moment *moment = &times->moments[i];
        step.index = moment->index;
        replay->compute(replay->context, moment);
        status = events[moment->event].run(&step);
    }
    memory_free(step.numbers);
    return status;
}

// --- the list -----------------------------------------------------------------------------------

enum berth_status rank_times_add(struct rank_times *times, enum rank_event event, int64_t index,
                                 double seconds, struct berth_error *error) {
    struct rank_moment *moments =
        memory_grow(times->moments, &times->capacity, times->count + 1, sizeof *moments);
    if (moments == NULL) {
        return error_no_memory(error, (times->count + 1) * sizeof *moments, "a rank's times");
    }
    times->moments = moments;
    moments[times->count++] = (struct rank_moment){event, index, seconds};
    return BERTH_OK;
}

void rank_times_done(struct rank_times *times) {
    memory_free(times->moments);
    *times = (struct rank_times){0};
}

double rank_times_seconds(const struct rank_times *times, double load) {
    double seconds = 0;
    for (size_t i = 0; i < times->count; i++) {
        const struct rank_moment *moment = &times->moments[i];
        const double factor = rank_event_scales_with_load(moment->event) ? load / times->load : 1;
        seconds += factor * moment->seconds;
    }
    return seconds;
}

double rank_load(const struct division *division, int rank, int ranks) {
    const size_t own = division->parts / (size_t)ranks;
    double load = 0;
    for (size_t part = (size_t)rank * own; part < ((size_t)rank + 1) * own; part++) {
        load += division->loads[part];
    }
    return load;
}

// --- the file -----------------------------------------------------------------------------------

static json *moment_json(const struct rank_moment *moment) {
    return JSON_OBJECT({"event", json_new_text(events[moment->event].name)},
                       {"index", json_new_integer(moment->index)},
                       {"seconds", json_new_real(moment->seconds)});
}

enum berth_status rank_times_check_output(const char *path, struct berth_error *error) {
    static const char *const beginnings[] = {"{\"ranks\":", NULL};
    static const struct file_kind kind = {"a file of --save_times", beginnings};
    const enum berth_status status = file_check_kind(path, &kind, error);
    return status == BERTH_OK ? BERTH_OK : error_prefix(error, status, "save_times");
}

enum berth_status rank_times_write(const struct rank_times *times, const char *path,
                                   struct berth_error *error) {
    json *moments = json_new_array();
    int failed = 0;
    for (size_t i = 0; i < times->count; i++) {
        failed |= json_append(moments, moment_json(&times->moments[i]));
    }
    json *object = JSON_OBJECT({"ranks", json_new_integer(times->ranks)},
                               {"zero_stage", json_new_integer(times->zero_stage)},
                               {"ranges", json_new_integer(times->ranges)},
                               {"load", json_new_real(times->load)},
                               {"moments", json_unless_failed(moments, failed)});
    enum berth_status status = json_write_file(object, JSON_COMPACT, path, error);
    json_free(object);
    return status;
}

static enum berth_status find_event(const char *name, enum rank_event *event) {
    for (int i = 0; i < RANK_EVENTS; i++) {
        if (name != NULL && strcmp(name, events[i].name) == 0) {
            *event = (enum rank_event)i;
            return BERTH_OK;
        }
    }
    return BERTH_BAD_DATA;
}

static int is_index(const struct rank_times *times, const struct rank_moment *moment) {
    const int64_t end = moment->event == RANK_SUMS ? MAX_SUMMED : times->ranges;
    return moment->index >= 0 && moment->index < end;
}

static enum berth_status read_moment(struct rank_times *times, const json *object, const char *path,
                                     struct berth_error *error) {
    struct rank_moment moment = {.index = -1, .seconds = NAN};
    const char *name = NULL;
    TRY(json_get_text(object, path, "event", &name, error));
    TRY(json_get_integer(object, path, "index", &moment.index, error));
    TRY(json_get_real(object, path, "seconds", &moment.seconds, error));
    if (find_event(name, &moment.event) != BERTH_OK || !is_index(times, &moment) ||
        !(moment.seconds >= 0)) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: moments: entry %zu has no known event, or an index or seconds out of "
                         "range; expected a file that `berth bench ranks --save_times` wrote",
                         path, times->count);
    }
    return rank_times_add(times, moment.event, moment.index, moment.seconds, error);
}

static enum berth_status read_members(struct rank_times *times, const json *object,
                                      const char *path, struct berth_error *error) {
    const json *moments = json_member(object, "moments");
    TRY(json_get_integer(object, path, "ranks", &times->ranks, error));
    TRY(json_get_integer(object, path, "zero_stage", &times->zero_stage, error));
    TRY(json_get_integer(object, path, "ranges", &times->ranges, error));
    TRY(json_get_real(object, path, "load", &times->load, error));
    if (json_length(moments) == 0 || !json_is_array_value(moments) || !(times->load > 0) ||
        times->ranks < 1 || times->ranges < 1) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: no list of moments, or no positive load, ranks and ranges; expected "
                         "a file that `berth bench ranks --save_times` wrote",
                         path);
    }
    for (size_t i = 0; i < json_length(moments); i++) {
        TRY(read_moment(times, json_at(moments, i), path, error));
    }
    return BERTH_OK;
}

enum berth_status rank_times_read(struct rank_times *times, const char *path,
                                  struct berth_error *error) {
    json *object;
    *times = (struct rank_times){0};
    TRY(json_read_file(path, &object, error));
    const enum berth_status status = read_members(times, object, path, error);
    json_free(object);
    return status;
}
