// SPDX-License-Identifier: Apache-2.0
// A growing run of bytes, for headers that are made in memory before they are written.
#ifndef BERTH_FORMAT_BYTES_H
#define BERTH_FORMAT_BYTES_H

#include <stddef.h>
#include <stdint.h>

// Zero-initialise. Once memory is out the rest is left out too: look at `failed` at the end.
struct bytes {
    unsigned char *data;
    size_t length, capacity;
    int failed;
};

void bytes_put(struct bytes *bytes, const void *data, size_t length);
void bytes_put_text(struct bytes *bytes, const char *text); // without its NUL
// The lowest `size` (up to 8) bytes of a number, the lowest first.
void bytes_put_number(struct bytes *bytes, uint64_t number, size_t size);
void bytes_done(struct bytes *bytes);

#endif
