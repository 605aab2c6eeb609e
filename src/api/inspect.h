// SPDX-License-Identifier: Apache-2.0
// Reads what the files of a model say of themselves, for open.c: its tensors, with names, types and
// shapes, and its config.json as text. The job inspect prints the same; no weights are converted or
// checked here.
#ifndef BERTH_API_INSPECT_H
#define BERTH_API_INSPECT_H

#include "core/error.h"

// Calls `visit` for every tensor of a model folder, checkpoint or file. Its names are valid for the
// call.
typedef void inspect_visitor(void *context, const struct berth_tensor *tensor);
enum berth_status inspect_tensors(const char *path, inspect_visitor *visit, void *context,
                                  struct berth_error *error);
// Sets *text to that of the folder's config.json, NULL if there is none; free it with memory_free.
enum berth_status inspect_config(const char *folder, char **text, struct berth_error *error);

#endif
