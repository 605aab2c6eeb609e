// SPDX-License-Identifier: Apache-2.0
// A cache file of features, so that the next run on the same data need not build them.
//
// A file belongs to one key, the SHA-256 of everything that the features depend on. It is never
// stale: other data, another vocabulary or other settings have another key. squad_cache_read
// refuses a damaged, truncated or foreign file; the caller then builds the features.
#ifndef BERTH_DATA_SQUAD_CACHE_H
#define BERTH_DATA_SQUAD_CACHE_H

#include "core/error.h"
#include "data/squad/squad.h"
#include "data/squad/squad_features.h"
#include "format/checksum/digest.h"

#include <stddef.h>
#include <stdint.h>

// The key of a file, and what it stands for.
struct squad_cache_key {
    char hex[DIGEST_HEX_SIZE];
    struct squad_feature_options options;
    int64_t vocabulary; // number of tokens in it
    int one_type;       // of all tokens
};

// What features depend on.
struct squad_cache_inputs {
    const void *bytes; // the data set
    size_t length;
    int64_t limit; // of questions; 0: all
    const struct tokenizer *tokenizer;
    const struct squad_feature_options *options;
};
enum berth_status squad_cache_key_of(const struct squad_cache_inputs *inputs,
                                     struct squad_cache_key *key, struct berth_error *error);

// The path of a key's file in `folder`, newly allocated; NULL when out of memory.
char *squad_cache_path(const char *folder, const char *data_path,
                       const struct squad_cache_key *key);

// Features without labels need their data set: its number of questions and the lengths of its
// contexts are checked. With labels `dataset` may be NULL; the set then has no words and no
// max_context. *examples: questions of the data set. BERTH_BAD_DATA says what is wrong with the
// file; *set is then empty.
enum berth_status squad_cache_read(const char *path, const struct squad_cache_key *key,
                                   const struct squad_dataset *dataset,
                                   struct squad_feature_set *set, int64_t *examples,
                                   struct berth_error *error);
// The same for a file in memory; messages call it `name`.
struct squad_cache_file {
    const char *name;
    const void *bytes;
    size_t length;
};
enum berth_status squad_cache_parse(const struct squad_cache_file *file,
                                    const struct squad_cache_key *key,
                                    const struct squad_dataset *dataset,
                                    struct squad_feature_set *set, int64_t *examples,
                                    struct berth_error *error);

// Writes the file atomically.
enum berth_status squad_cache_write(const char *path, const struct squad_cache_key *key,
                                    const struct squad_dataset *dataset,
                                    const struct squad_feature_set *set, struct berth_error *error);

#endif
