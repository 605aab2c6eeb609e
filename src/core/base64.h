// SPDX-License-Identifier: Apache-2.0
// Base64 (RFC 4648), with padding and without line breaks, for vectors in replies of the server and
// for binary data in tokenizer files.
#ifndef BERTH_CORE_BASE64_H
#define BERTH_CORE_BASE64_H

#include "core/buffer.h"

void base64_put(struct buffer *text, const void *bytes, size_t length);
// Appends the bytes that the text encodes; 0 if it is not base64. A failure of the buffer is left
// to the caller.
int base64_read(struct buffer *bytes, const char *text, size_t length);

#endif
