// SPDX-License-Identifier: Apache-2.0
// Divides items among parts: longest first, each to the part with the least load so far (Graham's
// LPT rule). update_split.c divides the sequences of an update so, infer.c the batches of a
// prediction.
#include "train/engine/division.h"

#include "core/memory.h"
#include "model/bert.h"

#include <stdlib.h>
#include <string.h>

enum berth_status division_init(struct division *division, size_t parts, size_t capacity,
                                struct berth_error *error) {
    *division = (struct division){.parts = parts, .capacity = capacity};
    division->order = memory_array(capacity, sizeof *division->order);
    division->indices = memory_array(capacity, sizeof *division->indices);
    division->starts = memory_array(parts + 1, sizeof *division->starts);
    division->costs = memory_array(capacity, sizeof *division->costs);
    division->by_cost = memory_array(capacity, sizeof *division->by_cost);
    division->owners = memory_array(capacity, sizeof *division->owners);
    division->loads = memory_array(parts, sizeof *division->loads);
    division->counts = memory_array(parts, sizeof *division->counts);
    division->heap = memory_array(parts, sizeof *division->heap);
    if (division->order == NULL || division->indices == NULL || division->starts == NULL ||
        division->costs == NULL || division->by_cost == NULL || division->owners == NULL ||
        division->loads == NULL || division->counts == NULL || division->heap == NULL) {
        return error_no_memory(error, capacity * sizeof *division->indices,
                               "the division of an update");
    }
    return BERTH_OK;
}

void division_done(struct division *division) {
    memory_free(division->order);
    memory_free(division->indices);
    memory_free(division->starts);
    memory_free(division->costs);
    memory_free(division->by_cost);
    memory_free(division->owners);
    memory_free(division->loads);
    memory_free(division->counts);
    memory_free(division->heap);
    *division = (struct division){0};
}

static int compare_costs(const void *a, const void *b, void *costs) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const double *all = costs;
    if (all[x] != all[y]) {
        return all[x] > all[y] ? -1 : 1;
    }
    return x < y ? -1 : x > y;
}

static int is_less_loaded(const struct division *division, size_t a, size_t b) {
    const double *loads = division->loads;
    return loads[a] < loads[b] || (loads[a] == loads[b] && a < b);
}

// Restores the order of a heap of `count` parts after the load of the first has grown.
static void sift_down(struct division *division, size_t count) {
    size_t *heap = division->heap;
    for (size_t position = 0, child = 1; child < count; child = 2 * position + 1) {
        child += child + 1 < count && is_less_loaded(division, heap[child + 1], heap[child]);
        if (!is_less_loaded(division, heap[child], heap[position])) {
            return;
        }
        const size_t part = heap[position];
        heap[position] = heap[child];
        heap[child] = part;
        position = child;
    }
}

static void choose_owners(struct division *division, size_t count, size_t max_items) {
    for (size_t i = 0; i < count; i++) {
        division->by_cost[i] = (uint32_t)i;
    }
    qsort_r(division->by_cost, count, sizeof *division->by_cost, compare_costs, division->costs);
    memset(division->loads, 0, division->parts * sizeof *division->loads);
    memset(division->counts, 0, division->parts * sizeof *division->counts);
    for (size_t part = 0; part < division->parts; part++) {
        division->heap[part] = part;
    }
    for (size_t i = 0, open = division->parts; i < count; i++) {
        const uint32_t item = division->by_cost[i];
        const size_t part = division->heap[0];
        division->owners[item] = (uint32_t)part;
        division->loads[part] += division->costs[item];
        if (++division->counts[part] == max_items) {
            division->heap[0] = division->heap[--open];
        }
        sift_down(division, open);
    }
}

void division_by_cost(struct division *division, size_t count, size_t max_items) {
    choose_owners(division, count, max_items);
    division->starts[0] = 0;
    for (size_t part = 0; part < division->parts; part++) {
        division->starts[part + 1] = division->starts[part] + division->counts[part];
        division->counts[part] =
            division->starts[part]; // from here on: index of the part's next item
    }
    for (size_t i = 0; i < count; i++) {
        division->indices[division->counts[division->owners[i]]++] = (int64_t)i;
    }
}

static double cost_of(const struct packer_source *source, size_t item,
                      const struct bert_config *config) {
    const size_t texts = packer_texts(source);
    double flops = 0;
    for (size_t i = item * texts; i < (item + 1) * texts; i++) {
        flops += bert_forward_flops(config, source->get(source->data, i).length);
    }
    return flops;
}

// Replaces the indices of groups by those of their items; the last group may be smaller. Works
// backwards, so that nothing is overwritten before it is read.
static void expand_groups(struct division *division, size_t group, size_t count) {
    size_t position = count, end = division->starts[division->parts];
    division->starts[division->parts] = count;
    for (size_t part = division->parts; part-- > 0;) {
        const size_t first = division->starts[part];
        while (end > first) {
            const size_t begin = (size_t)division->indices[--end] * group;
            for (size_t i = begin + group < count ? begin + group : count; i > begin; i--) {
                division->indices[--position] = (int64_t)(i - 1);
            }
        }
        division->starts[part] = position;
    }
}

void division_make(struct division *division, const struct packer_source *source,
                   const uint32_t *order, size_t count, const struct bert_config *config,
                   size_t max_items) {
    const size_t group = packer_group(source), groups = (count + group - 1) / group;
    memset(division->costs, 0, groups * sizeof *division->costs);
    for (size_t i = 0; i < count; i++) {
        division->costs[i / group] += cost_of(source, order[i], config);
    }
    division_by_cost(division, groups, (max_items + group - 1) / group);
    expand_groups(division, group, count);
    for (size_t i = 0; i < count; i++) {
        division->order[i] = order[division->indices[i]];
    }
}

void division_assign_all(struct division *division, const struct packer_source *source,
                         const uint32_t *order, size_t count, const struct bert_config *config,
                         size_t part) {
    memset(division->loads, 0, division->parts * sizeof *division->loads);
    for (size_t i = 0; i < count; i++) {
        division->loads[part] += cost_of(source, order[i], config);
        division->order[i] = order[i];
        division->indices[i] = (int64_t)(part * count + i);
    }
    for (size_t i = 0; i <= division->parts; i++) {
        division->starts[i] = i <= part ? 0 : count;
    }
}

double division_imbalance(const struct division *division) {
    double sum = 0, largest = 0;
    for (size_t part = 0; part < division->parts; part++) {
        sum += division->loads[part];
        largest = division->loads[part] > largest ? division->loads[part] : largest;
    }
    return sum > 0 ? largest * (double)division->parts / sum : 1;
}
