// SPDX-License-Identifier: Apache-2.0
// Which files of a repository a BERT model needs, and models of the hub's cache that have them.
#ifndef BERTH_API_MODEL_FILES_H
#define BERTH_API_MODEL_FILES_H

#include "core/error.h"
#include "format/hub/hub_cache.h"

#include <stddef.h>

enum model_file {
    MODEL_FILE_OTHER,
    MODEL_FILE_WANTED, // taken along where it is there
    MODEL_FILE_NEEDED
};

// roles[i] for names[i]: the configuration, the vocabulary (vocab.txt, else tokenizer.json), the
// tokenizer's and sentence-transformers' files, and one set
// of weights, the first that is there of those that folder_open_weights (model/folder.h) opens.
// Without a configuration or weights BERTH_BAD_DATA naming `what`.
enum berth_status model_files_pick(const char *const *names, size_t count, enum model_file *roles,
                                   const char *what, struct berth_error *error);

// Whether the snapshot has every file that is needed, by the listing kept with it where there is
// one; else BERTH_NO_INPUT naming the first that is missing.
enum berth_status model_files_check(const struct hub_snapshot *snapshot, const char *id,
                                    struct berth_error *error);

#endif
