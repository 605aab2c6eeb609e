// SPDX-License-Identifier: Apache-2.0
// A thread that reads requests, in turns between clients. Reading a body of a mebibyte and counting
// its tokens takes a tenth of a second, for which connections must not wait.
#ifndef BERTH_SERVE_READER_H
#define BERTH_SERVE_READER_H

#include "serve/call.h"

struct reader;

// Starts the thread; `read` takes over each call. BERTH_UNAVAILABLE: it cannot be started.
enum berth_status reader_open(void (*read)(void *context, struct call *call), void *context,
                              struct reader **reader, struct berth_error *error);
// BERTH_UNAVAILABLE: the reader has ended. After an error the call is still the caller's.
enum berth_status reader_put(struct reader *reader, struct call *call, struct berth_error *error);
// Reads what waits, and ends the thread.
void reader_end(struct reader *reader);
// After reader_end, when nothing can be put any more.
void reader_close(struct reader *reader);

#endif
