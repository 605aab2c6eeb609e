// SPDX-License-Identifier: Apache-2.0
// The types of `berth embed --output_type` are a table: its name, its NumPy type, and how a row is
// converted. Vectors come from run.c after a round, and go back to it as bytes of .npy or as lines
// of JSON; what a run prints otherwise is left to it. Without ranges of columns the vectors wait
// here for the last one.
#include "output_type.h"

#include "core/json_line.h"
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

// --- ranges -------------------------------------------------------------------------------------

// Returns 0 when out of memory.
static int widen(struct output_ranges *ranges, const float *row, size_t width) {
    if (ranges->least == NULL) {
        ranges->least = memory_array(2 * width, sizeof *ranges->least);
        if (ranges->least == NULL) {
            return 0;
        }
        ranges->largest = ranges->least + width;
        memcpy(ranges->least, row, width * sizeof *row);
        memcpy(ranges->largest, row, width * sizeof *row);
    }
    for (size_t i = 0; i < width; i++) {
        ranges->least[i] = row[i] < ranges->least[i] ? row[i] : ranges->least[i];
        ranges->largest[i] = row[i] > ranges->largest[i] ? row[i] : ranges->largest[i];
    }
    return 1;
}

enum berth_status typed_output_calibrate(struct typed_output *output, const char *bytes,
                                         size_t length, struct berth_error *error) {
    const size_t row = output->width * sizeof(float);
    OWNED float *vector = memory_array(output->width, sizeof *vector); // aligned
    int complete = vector != NULL;
    for (size_t at = 0; at < length && complete; at += row) {
        memcpy(vector, bytes + at, row);
        complete = widen(&output->ranges, vector, output->width);
    }
    return complete ? BERTH_OK : error_no_memory(error, 2 * row, "the ranges of the columns");
}

// --- numbers ------------------------------------------------------------------------------------

// --- output -------------------------------------------------------------------------------------

static enum berth_status put_vector(struct typed_output *output, const float *vector,
                                    unsigned char *bytes, struct json_line *line,
                                    struct berth_error *error) {
    const size_t count = output_type_width(output->type, output->width);
    const enum output_type type = output->type;
    const size_t width = output->width;
    if (rows[type].has_bits) {
        memset(bytes, 0, output_type_width(OUTPUT_UBINARY, width));
        for (size_t i = 0; i < width; i++) {
            bytes[i / 8] |= (unsigned char)((vector[i] > 0) << (7 - i % 8));
        }
    }
    for (size_t i = 0; i < width && rows[type].has_ranges; i++) {
        // Computes in float, as NumPy does.
        const float least = output->ranges.least[i];
        const float range = (output->ranges.largest[i] - least) / 255,
                    size = range == 0 ? 1 : range;
        const float steps = floorf((vector[i] - least) / size);
        bytes[i] = (unsigned char)(steps < 0 ? 0 : steps > 255 ? 255 : steps);
    }
    for (size_t i = 0; i < output_type_width(type, width) && rows[type].is_signed; i++) {
        bytes[i] ^= 0x80; // less 128, in two's complement
    }
    json_line_clear(line);
    if (output->npy) {
        json_line_bytes(line, bytes, count);
    } else {
        json_line_open(line, NULL, '{');
        json_line_integer(line, "index", (int64_t)output->written);
        json_line_open(line, output->key, '[');
        for (size_t i = 0; i < count; i++) {
            json_line_integer(line, NULL,
                              rows[output->type].is_signed && bytes[i] > 127 ? bytes[i] - 256
                                                                             : bytes[i]);
        }
        json_line_close(line, ']');
        json_line_close(line, '}');
        json_line_end(line);
    }
    output->written++;
    return !line->failed ? output->put(output->context, line->text, line->length, error)
                         : error_no_memory(error, count, "a vector");
}

static enum berth_status put_vectors(struct typed_output *output, const char *bytes, size_t length,
                                     struct berth_error *error) {
    const size_t row = output->width * sizeof(float);
    struct json_line line = {0};
    OWNED float *vector = memory_array(output->width, sizeof *vector);
    OWNED unsigned char *to = memory_new(output->width);
    enum berth_status status =
        vector != NULL && to != NULL ? BERTH_OK : error_no_memory(error, row, "a vector");
    for (size_t at = 0; at < length && status == BERTH_OK; at += row) {
        memcpy(vector, bytes + at, row);
        status = put_vector(output, vector, to, &line, error);
    }
    json_line_done(&line);
    return status;
}

enum berth_status typed_output_put(struct typed_output *output, const char *bytes, size_t length,
                                   struct berth_error *error) {
    if (output->has_ranges || !rows[output->type].has_ranges) {
        return put_vectors(output, bytes, length, error);
    }
    buffer_put(&output->waits, bytes, length);
    return !output->waits.failed
               ? typed_output_calibrate(output, bytes, length, error)
               : error_no_memory(error, output->waits.length + length, "the vectors");
}

enum berth_status typed_output_end(struct typed_output *output, struct berth_error *error) {
    return output->waits.length == 0
               ? BERTH_OK
               : put_vectors(output, output->waits.bytes, output->waits.length, error);
}

void typed_output_done(struct typed_output *output) {
    memory_free(output->ranges.least);
    buffer_done(&output->waits);
}
