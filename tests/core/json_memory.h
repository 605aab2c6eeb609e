// SPDX-License-Identifier: Apache-2.0
// Lets the allocations of the JSON library fail, one by one. memory_fail_at counts only the
// program's own.
#ifndef BERTH_TESTS_JSON_MEMORY_H
#define BERTH_TESTS_JSON_MEMORY_H

#include "core/error.h"
#include "core/harness.h"

#include <errno.h>
#include <stdlib.h>

// Of jansson, whose header has macros with the names of format/json/json.h.
void json_set_alloc_funcs(void *(*malloc_fn)(size_t), void (*free_fn)(void *));

static size_t json_memory_calls, json_memory_failing;

static inline void *json_memory_new(size_t size) {
    if (++json_memory_calls == json_memory_failing) {
        errno = ENOMEM;
        return NULL;
    }
    return malloc(size);
}

// Runs `act` once for each of its allocations, which fails, and returns how often it did not
// succeed: for lack of memory, or because jansson left out a byte of a text that could not grow.
static inline size_t json_memory_fail_each(enum berth_status (*act)(void)) {
    size_t failed = 0;
    json_memory_failing = 0;
    json_set_alloc_funcs(json_memory_new, free);
    do {
        json_memory_calls = 0;
        json_memory_failing++;
        const enum berth_status status = act();
        assert_true(status == BERTH_OK || status == BERTH_NO_MEMORY || status == BERTH_BAD_DATA);
        failed += status != BERTH_OK;
    } while (json_memory_calls >= json_memory_failing);
    json_set_alloc_funcs(malloc, free);
    return failed;
}

#endif
