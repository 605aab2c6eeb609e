// SPDX-License-Identifier: Apache-2.0
// The two layouts of a PyTorch file, for torch.c: each reads the pickle and says where the bytes of
// every storage are, so that tensors are read in the same way from both.
#ifndef BERTH_FORMAT_TORCH_LAYOUT_H
#define BERTH_FORMAT_TORCH_LAYOUT_H

#include "format/torch/torch.h"

// Whether a file with these first bytes has the layout.
int torch_is_zip(const unsigned char *head, size_t length);
int torch_is_legacy(const unsigned char *head, size_t length);

// Fill archive, pickle and storages. After a failure the caller closes the file.
enum berth_status torch_open_zip(struct torch_file *file, const char *path, enum pickle_trust trust,
                                 struct berth_error *error);
enum berth_status torch_open_legacy(struct torch_file *file, const char *path,
                                    enum pickle_trust trust, struct berth_error *error);

const struct torch_storage *torch_find_storage(const struct torch_file *file, const char *key);

#endif
