// SPDX-License-Identifier: Apache-2.0
// Base64 encoding (RFC 4648), with padding and without line breaks.
#ifndef BERTH_CORE_BASE64_H
#define BERTH_CORE_BASE64_H

#include "core/buffer.h"

void base64_put(struct buffer *text, const void *bytes, size_t length);

#endif
