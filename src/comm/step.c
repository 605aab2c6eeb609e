// SPDX-License-Identifier: Apache-2.0
// Which elements and cells a step has, and how its marks and messages are written, sent and
// checked. The phases in reduce.c, gather.c and native.c are made of these functions; pipeline.c
// says when they run.
#include "comm/step.h"

#include <string.h>

// --- elements and cells -------------------------------------------------------------------------

struct chunk step_chunk(const struct step *step, int owner) {
    const struct comm_range *range = &step->operation.range;
    const struct chunking *chunking = &step->operation.chunking;
    const int64_t count = chunking_count(chunking, range, step->turn, owner);
    const int64_t first =
        range->starts[owner] + chunking_index(chunking, step->turn) * chunking->elements;
    const int64_t offset = count > 0 ? first - range->first : 0;
    return (struct chunk){.owner = owner,
                          .data = (char *)range->data + (size_t)offset * dtype_size(range->dtype),
                          .count = count,
                          .bytes = (size_t)count * dtype_size(range->wire)};
}

struct range_header *step_cell(const struct pipeline *pipeline, const struct step *step, int local,
                               int owner) {
    const struct chunking *chunking = &step->operation.chunking;
    return host_window_cell(&pipeline->window, step->number, local, chunking_cell(chunking, owner),
                            chunking->cell_bytes);
}

struct range_header *step_received(const struct pipeline *pipeline, const struct step *step,
                                   int number) {
    const int64_t place = (step->received + number) % pipeline->received_capacity;
    return (void *)(pipeline->received + (size_t)place * pipeline->received_bytes);
}

void step_fill_others(struct pipeline *pipeline, const struct step *step) {
    const struct comm_range *range = &step->operation.range;
    const struct chunking *chunking = &step->operation.chunking;
    for (int i = step_first(step); i < chunking->owner_count; i += chunking->groups) {
        const int owner = chunking->owners[i];
        const struct chunk chunk = step_chunk(step, owner);
        if (owner != pipeline->topology->rank) {
            numbers_convert(step_cell(pipeline, step, pipeline->local, owner) + 1, range->wire,
                            chunk.data, range->dtype, chunk.count);
        }
    }
}

// --- marks --------------------------------------------------------------------------------------

static struct window_mark *mark_of(const struct pipeline *pipeline, const struct step *step,
                                   int local) {
    return host_window_mark(&pipeline->window, step->number, local);
}

void step_mark_filled(struct pipeline *pipeline, const struct step *step) {
    struct window_mark *mark = mark_of(pipeline, step, pipeline->local);
    mark->label = step->operation.label;
    atomic_store_explicit(&mark->filled, step->number + 1, memory_order_release);
    host_window_signal(&pipeline->window);
}

void step_mark_emptied(struct pipeline *pipeline, const struct step *step) {
    struct window_mark *mark = mark_of(pipeline, step, pipeline->local);
    atomic_store_explicit(&mark->emptied, step->number + 1, memory_order_release);
    host_window_signal(&pipeline->window);
}

int step_unfilled(const struct pipeline *pipeline, const struct step *step) {
    for (int local = 0; local < pipeline->local_size; local++) {
        struct window_mark *mark = mark_of(pipeline, step, local);
        if (atomic_load_explicit(&mark->filled, memory_order_acquire) != step->number + 1) {
            return local;
        }
    }
    return -1;
}

enum berth_status step_check_filled(const struct pipeline *pipeline, const struct step *step,
                                    struct berth_error *error) {
    const struct range_label *own = &step->operation.label;
    for (int local = 0; local < pipeline->local_size; local++) {
        const struct range_label *other = &mark_of(pipeline, step, local)->label;
        if (memcmp(own, other, sizeof *own) != 0) {
            const int rank = pipeline->topology->first[pipeline->topology->host] + local;
            return range_label_mismatch(&pipeline->courier, rank, own, other, error);
        }
    }
    return BERTH_OK;
}

// --- messages -----------------------------------------------------------------------------------

static struct range_header header_of(const struct step *step, int owner, int64_t ranks) {
    return (struct range_header){.label = step->operation.label,
                                 .chunk_index =
                                     chunking_index(&step->operation.chunking, step->turn),
                                 .owner = owner,
                                 .ranks = ranks};
}

void step_seal(const struct step *step, const struct chunk *chunk, int64_t ranks,
               struct range_header *cell) {
    *cell = header_of(step, chunk->owner, ranks);
    range_message_seal(cell, chunk->bytes);
}

enum berth_status step_send(struct courier *courier, struct step *step, int rank,
                            const struct chunk *chunk, const struct range_header *cell,
                            struct berth_error *error) {
    return courier_send(courier, &step->sends, rank, cell, sizeof *cell + chunk->bytes, error);
}

enum berth_status step_receive(struct courier *courier, struct step *step, int rank,
                               const struct chunk *chunk, struct range_header *cell,
                               struct berth_error *error) {
    return courier_receive(courier, &step->receives, rank, cell, sizeof *cell + chunk->bytes,
                           error);
}

enum berth_status step_collect(struct pipeline *pipeline, struct step *step, int rank, void *data,
                               size_t bytes, const struct transport_collective *collective,
                               struct berth_error *error) {
    return courier_collect(&pipeline->courier, &step->receives, rank, data, bytes, collective,
                           error);
}

enum berth_status step_check(const struct pipeline *pipeline, const struct step *step, int rank,
                             const struct chunk *chunk, const struct range_header *cell,
                             struct berth_error *error) {
    const struct range_header expected = header_of(step, chunk->owner, 0);
    return range_message_check(&pipeline->courier, rank, cell, chunk->bytes, &expected, error);
}

// --- greetings ----------------------------------------------------------------------------------

static int has_greeting(const struct pipeline *pipeline, const struct step *step) {
    return step->turn == 0 && pipeline->topology->host_count > 1;
}

static int rank_before(const struct topology *topology) {
    return (topology->rank + topology->size - 1) % topology->size;
}

enum berth_status step_send_greeting(struct pipeline *pipeline, struct step *step,
                                     struct berth_error *error) {
    const struct topology *topology = pipeline->topology;
    const struct chunk nothing = {.owner = topology->rank};
    if (!has_greeting(pipeline, step)) {
        return BERTH_OK;
    }
    step_seal(step, &nothing, 0, &step->greeting);
    return step_send(&pipeline->courier, step, (topology->rank + 1) % topology->size, &nothing,
                     &step->greeting, error);
}

enum berth_status step_receive_greeting(struct pipeline *pipeline, struct step *step,
                                        struct berth_error *error) {
    const struct chunk nothing = {0};
    step->greeting_before = (struct range_header){0};
    if (!has_greeting(pipeline, step)) {
        return BERTH_OK;
    }
    return step_receive(&pipeline->courier, step, rank_before(pipeline->topology), &nothing,
                        &step->greeting_before, error);
}

enum berth_status step_check_greeting(const struct pipeline *pipeline, const struct step *step,
                                      struct berth_error *error) {
    const struct chunk nothing = {.owner = rank_before(pipeline->topology)};
    if (!has_greeting(pipeline, step)) {
        return BERTH_OK;
    }
    return step_check(pipeline, step, nothing.owner, &nothing, &step->greeting_before, error);
}

enum berth_status step_explain(const struct pipeline *pipeline, const struct step *step,
                               enum berth_status status, struct berth_error *error) {
    const struct range_label *own = &step->operation.label, *other = &step->greeting_before.label;
    if (status == BERTH_OK || !range_message_is_intact(&step->greeting_before, 0) ||
        memcmp(own, other, sizeof *own) == 0) {
        return status;
    }
    return range_label_mismatch(&pipeline->courier, rank_before(pipeline->topology), own, other,
                                error);
}
