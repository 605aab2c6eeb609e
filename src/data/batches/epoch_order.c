// SPDX-License-Identifier: Apache-2.0
// Groups without a text twice. First each group takes, of the items that waited and then of the
// permutation, those that share no text with it; others wait. At the end of the epoch nothing that
// waits may fit the groups that still have room. Such an item takes the place of one of an earlier
// group that has none of its texts, and which itself fits a group with room.
//
// That there is one follows from counting. Let each item share texts with at most d others, and let
// there be at least 2 d + 1 groups of n items, the last one perhaps smaller. At most d groups have
// a text of the item, so at least d + 1 have none, with at least d n + 1 items if all are full. The
// group with room has fewer than n items, which share texts with fewer than d n items. So an item
// of those d n + 1 fits it. train/engine/feed.c asks for the order of an epoch when its first
// update comes.
#include "data/batches/epoch_order.h"

#include "core/memory.h"

#include <string.h>

#define NONE UINT32_MAX
#define WAITING_TRIED 4096  // items that a group tries of those that wait
#define SEARCHES_IN_VAIN 64 // after so many, what is left is put where there is room

struct sorter {
    const struct packer_source *source;
    size_t texts, group, groups;
    uint32_t *order;  // groups one after another
    uint32_t *items;  // the permutation
    uint32_t *next;   // [items] the list of those that wait
    uint32_t *stamps; // [numbers] 1 + the group that last took an item with the text
    size_t *filled;   // [groups] items of each
    size_t taken;     // of the permutation
    uint32_t head, tail;
    size_t in_vain;
};

static const uint32_t *numbers_of(const struct sorter *sorter, uint32_t item) {
    return sorter->source->numbers + (size_t)item * sorter->texts;
}

static size_t room_of(const struct sorter *sorter, size_t group) {
    const size_t left = sorter->source->count - group * sorter->group;
    return (left < sorter->group ? left : sorter->group) - sorter->filled[group];
}

static uint32_t *members_of(const struct sorter *sorter, size_t group) {
    return sorter->order + group * sorter->group;
}

static void put(struct sorter *sorter, size_t group, uint32_t item) {
    members_of(sorter, group)[sorter->filled[group]++] = item;
}

// --- from the beginning -------------------------------------------------------------------------

// Puts the item into the group unless that has one of its texts.
static int take(struct sorter *sorter, size_t group, uint32_t item) {
    const uint32_t *numbers = numbers_of(sorter, item), stamp = (uint32_t)group + 1;
    for (size_t t = 0; t < sorter->texts; t++) {
        if (sorter->stamps[numbers[t]] == stamp) {
            return 0;
        }
    }
    for (size_t t = 0; t < sorter->texts; t++) {
        sorter->stamps[numbers[t]] = stamp;
    }
    put(sorter, group, item);
    return 1;
}

static void take_waiting(struct sorter *sorter, size_t group) {
    uint32_t before = NONE, item = sorter->head;
    for (size_t tried = 0; tried < WAITING_TRIED && item != NONE && room_of(sorter, group) > 0;
         tried++) {
        const uint32_t after = sorter->next[item];
        if (!take(sorter, group, item)) {
            before = item;
        } else if (before == NONE) {
            sorter->head = after;
        } else {
            sorter->next[before] = after;
        }
        item = after;
    }
    if (item == NONE) {
        sorter->tail = before;
    }
}

// Returns whether the group is full.
static int fill(struct sorter *sorter, size_t group) {
    take_waiting(sorter, group);
    while (room_of(sorter, group) > 0 && sorter->taken < sorter->source->count) {
        const uint32_t item = sorter->items[sorter->taken++];
        if (!take(sorter, group, item)) {
            sorter->next[item] = NONE;
            if (sorter->tail == NONE) {
                sorter->head = item;
            } else {
                sorter->next[sorter->tail] = item;
            }
            sorter->tail = item;
        }
    }
    return room_of(sorter, group) == 0;
}

// --- at the end ---------------------------------------------------------------------------------

static int share_text(const struct sorter *sorter, uint32_t a, uint32_t b) {
    const uint32_t *left = numbers_of(sorter, a), *right = numbers_of(sorter, b);
    for (size_t t = 0; t < sorter->texts * sorter->texts; t++) {
        if (left[t / sorter->texts] == right[t % sorter->texts]) {
            return 1;
        }
    }
    return 0;
}

static int fits(const struct sorter *sorter, size_t group, uint32_t item) {
    size_t i = 0;
    while (i < sorter->filled[group] && !share_text(sorter, members_of(sorter, group)[i], item)) {
        i++;
    }
    return i == sorter->filled[group];
}

// Puts the item into a full group in the place of one that fits the group `open`.
static int swap_into(struct sorter *sorter, size_t open, uint32_t item) {
    for (size_t group = 0; group < sorter->groups; group++) {
        uint32_t *members = members_of(sorter, group);
        if (room_of(sorter, group) > 0 || !fits(sorter, group, item)) {
            continue;
        }
        for (size_t i = 0; i < sorter->filled[group]; i++) {
            if (fits(sorter, open, members[i])) {
                put(sorter, open, members[i]);
                members[i] = item;
                return 1;
            }
        }
    }
    return 0;
}

static void place(struct sorter *sorter, size_t open, uint32_t item) {
    while (room_of(sorter, open) == 0) {
        open++;
    }
    if (sorter->in_vain < SEARCHES_IN_VAIN) {
        for (size_t group = open; group < sorter->groups; group++) {
            if (room_of(sorter, group) > 0 && fits(sorter, group, item)) {
                put(sorter, group, item);
                return;
            }
        }
        if (swap_into(sorter, open, item)) {
            return;
        }
        sorter->in_vain++;
    }
    put(sorter, open, item);
}

// ------------------------------------------------------------------------------------------------

static void separate(struct sorter *sorter) {
    size_t group = 0;
    while (group < sorter->groups && fill(sorter, group)) {
        group++;
    }
    for (uint32_t item = sorter->head; item != NONE; item = sorter->next[item]) {
        place(sorter, group, item);
    }
}

enum berth_status epoch_order_make(const struct packer_source *source, uint64_t seed, int64_t epoch,
                                   uint32_t *order, struct berth_error *error) {
    const size_t count = source->count, group = packer_group(source);
    const size_t groups = (count + group - 1) / group;
    packer_shuffle(seed, epoch, count, order);
    if (source->numbers == NULL) {
        return BERTH_OK;
    }
    OWNED uint32_t *items = memory_array(count, sizeof *items);
    OWNED uint32_t *next = memory_array(count, sizeof *next);
    OWNED uint32_t *stamps = memory_array_zeroed(source->number_count, sizeof *stamps);
    OWNED size_t *filled = memory_array_zeroed(groups, sizeof *filled);
    if (items == NULL || next == NULL || stamps == NULL || filled == NULL) {
        return error_no_memory(error, count * sizeof *items, "an epoch's order");
    }
    memcpy(items, order, count * sizeof *items);
    struct sorter sorter = {.source = source,
                            .texts = packer_texts(source),
                            .group = group,
                            .groups = groups,
                            .order = order,
                            .items = items,
                            .next = next,
                            .stamps = stamps,
                            .filled = filled,
                            .head = NONE,
                            .tail = NONE};
    separate(&sorter);
    return BERTH_OK;
}

// Whether no earlier text of its item equals text i.
static int is_first(const uint32_t *numbers, size_t i, size_t texts) {
    size_t before = i / texts * texts;
    while (before < i && numbers[before] != numbers[i]) {
        before++;
    }
    return before == i;
}

enum berth_status epoch_order_find_sharing(const struct packer_source *source,
                                           struct epoch_order_sharing *sharing,
                                           struct berth_error *error) {
    const size_t texts = packer_texts(source);
    OWNED uint32_t *counts = memory_array_zeroed(source->number_count, sizeof *counts);
    *sharing = (struct epoch_order_sharing){0};
    if (counts == NULL) {
        return error_no_memory(error, source->number_count * sizeof *counts, "the texts");
    }
    for (size_t i = 0; i < source->count * texts; i++) {
        counts[source->numbers[i]] += is_first(source->numbers, i, texts);
    }
    for (size_t item = 0; item < source->count; item++) {
        size_t others = 0;
        for (size_t i = item * texts; i < (item + 1) * texts; i++) {
            others += is_first(source->numbers, i, texts) ? counts[source->numbers[i]] - 1 : 0;
        }
        if (others > sharing->others) {
            *sharing = (struct epoch_order_sharing){.item = item, .others = others};
        }
    }
    return BERTH_OK;
}

int epoch_order_is_certain(const struct packer_source *source,
                           const struct epoch_order_sharing *sharing) {
    const size_t group = packer_group(source);
    return sharing->others == 0 || (source->count + group - 1) / group > 2 * sharing->others;
}
