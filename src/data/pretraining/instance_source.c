// SPDX-License-Identifier: Apache-2.0
#include "data/pretraining/instance_source.h"

#include <math.h>

#define EIGHT(x) x, x, x, x, x, x, x, x

// A sequence's segments are a piece of these: zeros, then as many ones, the border where it
// belongs.
static const int8_t segments[2 * INSTANCE_LENGTH_MAX] = {
    [INSTANCE_LENGTH_MAX] = EIGHT(EIGHT(EIGHT(EIGHT(1)))), EIGHT(EIGHT(EIGHT(EIGHT(1))))};
_Static_assert(INSTANCE_LENGTH_MAX == 8 * 8 * 8 * 8 * 2, "as many ones as zeros");

static struct packer_sequence get(const void *data, size_t index) {
    const struct instances *instances = data;
    const struct instance *instance = &instances->items[index];
    return (struct packer_sequence){
        .ids = instances->tokens + instance->tokens,
        .type_ids = segments + INSTANCE_LENGTH_MAX - instance->second,
        .length = instance->length,
        .label = instance->is_random,
        .target = NAN,
        .masked_positions = instances->positions + instance->predictions,
        .masked_labels = instances->labels + instance->predictions,
        .masked_count = instance->prediction_count,
    };
}

struct packer_source instance_source(const struct instances *instances) {
    return (struct packer_source){.get = get, .data = instances, .count = instances->count};
}
