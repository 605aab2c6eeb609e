// SPDX-License-Identifier: Apache-2.0
#include "output_type.h"

#include "core/memory.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name, *numpy;
    int has_ranges, has_bits, is_signed;
} rows[] = {[OUTPUT_FLOAT32] = {"float32", "<f4", 0, 0, 1},
            [OUTPUT_INT8] = {"int8", "|i1", 1, 0, 1},
            [OUTPUT_UINT8] = {"uint8", "|u1", 1, 0, 0},
            [OUTPUT_BINARY] = {"binary", "|i1", 0, 1, 1},
            [OUTPUT_UBINARY] = {"ubinary", "|u1", 0, 1, 0}};

int output_type_find(const char *name) {
    size_t i = 0;
    while (i + 1 < sizeof rows / sizeof *rows && strcmp(rows[i].name, name) != 0) {
        i++;
    }
    return (int)i;
}

const char *output_type_numpy(enum output_type type) {
    return rows[type].numpy;
}

int output_type_has_ranges(enum output_type type) {
    return rows[type].has_ranges;
}

size_t output_type_width(enum output_type type, size_t width) {
    return rows[type].has_bits ? (width + 7) / 8 : width;
}

int output_ranges_add(struct output_ranges *ranges, const float *row, size_t width) {
    if (ranges->least == NULL) {
        ranges->least = memory_array(2 * width, sizeof *ranges->least);
        if (ranges->least == NULL) {
            return 0;
        }
        ranges->largest = ranges->least + width;
        ranges->width = width;
        memcpy(ranges->least, row, width * sizeof *row);
        memcpy(ranges->largest, row, width * sizeof *row);
    }
    for (size_t i = 0; i < width; i++) {
        ranges->least[i] = row[i] < ranges->least[i] ? row[i] : ranges->least[i];
        ranges->largest[i] = row[i] > ranges->largest[i] ? row[i] : ranges->largest[i];
    }
    return 1;
}

void output_ranges_done(struct output_ranges *ranges) {
    memory_free(ranges->least);
    *ranges = (struct output_ranges){.least = NULL};
}

static void put_bits(const float *row, size_t width, unsigned char *to) {
    memset(to, 0, output_type_width(OUTPUT_UBINARY, width));
    for (size_t i = 0; i < width; i++) {
        to[i / 8] |= (unsigned char)((row[i] > 0) << (7 - i % 8));
    }
}

// In float, as NumPy computes.
static unsigned char step_of(float value, float least, float largest) {
    const float range = (largest - least) / 255, size = range == 0 ? 1 : range;
    const float steps = floorf((value - least) / size);
    return (unsigned char)(steps < 0 ? 0 : steps > 255 ? 255 : steps);
}

void output_type_convert(enum output_type type, const struct output_ranges *ranges,
                         const float *row, size_t width, unsigned char *to) {
    if (rows[type].has_bits) {
        put_bits(row, width, to);
    }
    for (size_t i = 0; i < width && rows[type].has_ranges; i++) {
        to[i] = step_of(row[i], ranges->least[i], ranges->largest[i]);
    }
    for (size_t i = 0; i < output_type_width(type, width) && rows[type].is_signed; i++) {
        to[i] ^= 0x80; // less 128, in two's complement
    }
}

int output_type_value(enum output_type type, unsigned char byte) {
    return rows[type].is_signed && byte > 127 ? byte - 256 : byte;
}
