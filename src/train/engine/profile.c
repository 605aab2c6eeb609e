// SPDX-License-Identifier: Apache-2.0
// Records spans of time while the updates that --profile names run, by putting its own functions in
// front of those of the device and the communicator, and writes them as one JSON file. The training
// loop starts and ends it; other files add the spans that are not operations (profile_add).
#include "train/engine/profile.h"

#include "core/clock.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"

#include <inttypes.h>
#include <string.h>

// --- which updates ------------------------------------------------------------------------------

enum berth_status profile_init(struct profile *profile, const char *updates,
                               struct berth_error *error) {
    *profile = (struct profile){.first = 0};
    if (updates == NULL || strcmp(updates, "false") == 0) {
        return BERTH_OK;
    }
    if (strcmp(updates, "true") == 0) { // as a flag, as in other programs
        profile->first = 2;             // the first update creates primitives and is not typical
        profile->last = 4;
        return BERTH_OK;
    }
    char first[24];
    const char *colon = strchr(updates, ':');
    const size_t length = colon != NULL ? (size_t)(colon - updates) : strlen(updates);
    if (length < sizeof first) {
        memcpy(first, updates, length);
        first[length] = '\0';
    }
    if (length >= sizeof first || !number_parse_integer(first, &profile->first) ||
        !number_parse_integer(colon != NULL ? colon + 1 : first, &profile->last) ||
        profile->first < 1 || profile->last < profile->first) {
        return error_set(error, BERTH_USAGE,
                         "profile: expected updates a:b with 1 <= a <= b, found \"%s\"", updates);
    }
    return BERTH_OK;
}

void profile_done(struct profile *profile) {
    profile_stop(profile);
    memory_free(profile->spans);
    profile->spans = NULL;
}

// --- spans --------------------------------------------------------------------------------------

void profile_add(struct profile *profile, const char *category, const char *name, double begin) {
    if (profile == NULL || !profile->is_on) {
        return;
    }
    if (profile->count == profile->capacity) {
        struct profile_span *grown =
            memory_grow(profile->spans, &profile->capacity, profile->count + 1, sizeof *grown);
        if (grown == NULL) {
            profile->lost++;
            return;
        }
        profile->spans = grown;
    }
    profile->spans[profile->count++] =
        (struct profile_span){category, name, begin, clock_now(), profile->update};
}

// --- the device ---------------------------------------------------------------------------------

#define LIST(...) __VA_ARGS__
#define TRACED(category, name, parameters, arguments)                                              \
    static void traced_##name(struct device *dev, LIST parameters) {                               \
        struct profile *profile = dev->wrapper;                                                    \
        const double begin = clock_now();                                                          \
        profile->saved_device.name(dev, LIST arguments);                                           \
        profile_add(profile, category, #name, begin);                                              \
    }
#define OPERATION(name, parameters, arguments) TRACED("operation", name, parameters, arguments)
#include "device/operations.inc"
#undef OPERATION
TRACED("copy", upload, (void *to, const void *from_host, size_t bytes), (to, from_host, bytes))
TRACED("copy", download, (void *to_host, const void *from, size_t bytes), (to_host, from, bytes))
TRACED("copy", fetch_wait, (int64_t fetch), (fetch))

static void end_phase(struct profile *profile) {
    static const char *const names[DEVICE_PHASES] = {NULL, "forward", "backward", "step"};
    if (names[profile->phase] != NULL) {
        profile_add(profile, "phase", names[profile->phase], profile->phase_began);
    }
    profile->phase = DEVICE_PHASE_OTHER;
}

static void traced_mark(struct device *dev, enum device_phase phase) {
    struct profile *profile = dev->wrapper;
    if (phase != profile->phase) {
        end_phase(profile);
        profile->phase = phase;
        profile->phase_began = clock_now();
    }
    profile->saved_device.mark(dev, phase);
}

static void observe_device(struct profile *profile, struct device *device) {
    profile->device = device;
    profile->saved_device = *device;
    device->wrapper = profile;
#define OPERATION(name, ...) device->name = traced_##name;
#include "device/operations.inc"
#undef OPERATION
    device->upload = traced_upload;
    device->download = traced_download;
    device->fetch_wait = device->fetch_wait != NULL ? traced_fetch_wait : NULL;
    device->mark = traced_mark;
}

// --- the communicator ---------------------------------------------------------------------------

static enum berth_status traced_agree(struct comm *comm, enum berth_status own, int *stop,
                                      struct berth_error *error) {
    struct profile *profile = comm->wrapper;
    const double begin = clock_now();
    const enum berth_status status = profile->saved_comm.agree(comm, own, stop, error);
    profile_add(profile, "communication", "agree", begin);
    return status;
}

#define TRACED_CALL(name, parameters, arguments)                                                   \
    static void traced_##name(struct comm *comm, LIST parameters) {                                \
        struct profile *profile = comm->wrapper;                                                   \
        const double begin = clock_now();                                                          \
        profile->saved_comm.name(comm, LIST arguments);                                            \
        profile_add(profile, "communication", #name, begin);                                       \
    }
TRACED_CALL(broadcast, (void *data, size_t bytes, int root), (data, bytes, root))
TRACED_CALL(sum, (double *values, size_t count), (values, count))
TRACED_CALL(wait, (int64_t ticket), (ticket))

#define TRACED_BEGIN(name)                                                                         \
    static int64_t traced_##name(struct comm *comm, const struct comm_range *range) {              \
        struct profile *profile = comm->wrapper;                                                   \
        const double begin = clock_now();                                                          \
        const int64_t ticket = profile->saved_comm.name(comm, range);                              \
        profile_add(profile, "communication", #name, begin);                                       \
        return ticket;                                                                             \
    }
TRACED_BEGIN(reduce_begin)
TRACED_BEGIN(gather_begin)

// --- recording ----------------------------------------------------------------------------------

void profile_start_update(struct profile *profile, int64_t update, struct device *device,
                          struct comm *comm) {
    profile->update = update;
    if (!profile->is_on && update >= profile->first && update <= profile->last) {
        profile->is_on = 1;
        observe_device(profile, device);
        // comm_self is a shared object and exchanges nothing, so it is left alone.
        if (comm->size != 1) {
            profile->comm = comm;
            profile->saved_comm = *comm;
            comm->wrapper = profile;
            comm->agree = traced_agree;
            comm->broadcast = traced_broadcast;
            comm->sum = traced_sum;
            comm->wait = traced_wait;
            comm->reduce_begin = traced_reduce_begin;
            comm->gather_begin = traced_gather_begin;
        }
    }
}

void profile_stop(struct profile *profile) {
    if (!profile->is_on) {
        return;
    }
    end_phase(profile);
    *profile->device = profile->saved_device;
    if (profile->comm != NULL) {
        *profile->comm = profile->saved_comm;
        profile->comm = NULL;
    }
    profile->is_on = 0;
}

// --- the file -----------------------------------------------------------------------------------

static int64_t nanoseconds(double seconds) {
    return (int64_t)(seconds * 1e9 + 0.5);
}

#define BEGINNING "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n"

enum berth_status profile_check_output(const char *path, struct berth_error *error) {
    static const char *const beginnings[] = {BEGINNING, NULL};
    return file_check_kind(path, &(struct file_kind){"a profile", beginnings}, error);
}

enum berth_status profile_write(const struct profile *profile, const char *path,
                                struct berth_error *error) {
    double origin = profile->count > 0 ? profile->spans[0].begin : 0;
    for (size_t i = 0; i < profile->count;
         i++) { // spans are added when they end, so outer ones come later
        origin = profile->spans[i].begin < origin ? profile->spans[i].begin : origin;
    }
    struct file_writer writer;
    TRY(file_writer_open(&writer, path, error));
    (void)file_writer_printf(
        &writer, NULL,
        BEGINNING "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 0, \"tid\": 0, \"args\": "
                  "{\"name\": \"berth, rank 0\"}}");
    for (size_t i = 0; i < profile->count; i++) {
        // Microseconds are printed as two integers, because a locale may have a decimal comma.
        const struct profile_span *span = &profile->spans[i];
        const int64_t begin = nanoseconds(span->begin - origin),
                      length = nanoseconds(span->end - span->begin);
        (void)file_writer_printf(
            &writer, NULL,
            ",\n{\"name\": \"%s\", \"cat\": \"%s\", \"ph\": \"X\", \"ts\": %" PRId64
            ".%03d, \"dur\": %" PRId64
            ".%03d, \"pid\": 0, \"tid\": 0, \"args\": {\"update\": %" PRId64 "}}",
            span->name, span->category, begin / 1000, (int)(begin % 1000), length / 1000,
            (int)(length % 1000), span->update);
    }
    (void)file_writer_put(&writer, "\n]}\n", 4, NULL);
    return file_writer_commit(&writer, error);
}
