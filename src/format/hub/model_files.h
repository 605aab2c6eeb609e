// SPDX-License-Identifier: Apache-2.0
// Which files of a repository a BERT model needs, how a model is found in the hub's cache, and the
// data sets that have names of their own there. `berth fetch` asks it what to download, every other
// command where a name leads.
#ifndef BERTH_FORMAT_HUB_MODEL_FILES_H
#define BERTH_FORMAT_HUB_MODEL_FILES_H

#include "core/error.h"
#include "format/hub/hub_cache.h"

#include <stddef.h>

enum model_file {
    MODEL_FILE_OTHER,
    MODEL_FILE_WANTED, // fetched if it exists
    MODEL_FILE_NEEDED
};

// Sets roles[i] for names[i]: the configuration, the vocabulary (vocab.txt, else tokenizer.json),
// the files of the tokenizer and of sentence-transformers, and one set of weights, the first found
// in the order of folder_open_weights (model/folder.h). BERTH_BAD_DATA, naming the repository
// `name`, if there is no configuration or there are no weights.
enum berth_status model_files_pick(const char *const *names, size_t count, enum model_file *roles,
                                   const char *name, struct berth_error *error);

// Checks that the snapshot has every required file, according to its stored listing if there is
// one; otherwise BERTH_NO_INPUT, naming the first missing file.
enum berth_status model_files_check(const struct hub_snapshot *snapshot, const char *id,
                                    struct berth_error *error);

// A data set that has a name of its own in the cache.
struct known_file {
    const char *name, *sha256;
};

struct known_set {
    const char *names[3];            // NULL-terminated
    const char *folder, *url_prefix; // folder in the cache; prefix of the files' URLs
    struct known_file files[2];
};

// The data set with that name, or NULL.
const struct known_set *known_set_find(const char *name);

// Sets *path to the file that a data set's name denotes; free it with memory_free. That is the name
// itself, unless it is one of "squad" and "squad_v2" and no such file exists: then the file of
// `split` ("train" or "dev") that `berth fetch` has downloaded. BERTH_NO_INPUT if the cache does
// not have it.
enum berth_status hub_find_data(const char *name, const char *split, char **path,
                                struct berth_error *error);

// Sets *path to the folder or file that a model's name denotes; free it with memory_free. That is
// the name itself if such a file exists or if it is not a hub name, NAME.index for the name of a
// TensorFlow checkpoint, otherwise the cached snapshot of the hub's branch main; of a folder of
// sentence-transformers without a config.json the folder of its Transformer. BERTH_NO_INPUT if
// the snapshot is not in the cache or is incomplete; BERTH_BAD_DATA if a link leads out of the
// cache.
enum berth_status hub_find_model(const char *name_or_path, char **path, struct berth_error *error);

#endif
