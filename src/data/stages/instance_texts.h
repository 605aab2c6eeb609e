// SPDX-License-Identifier: Apache-2.0
// Counts that describe the texts of instances, and warnings about texts that are not what the rules
// expect: several documents with one sentence per line, in the language of the vocabulary. The
// instance stage counts, and api/prepare.c prints the warnings at the end.
#ifndef BERTH_DATA_INSTANCE_TEXTS_H
#define BERTH_DATA_INSTANCE_TEXTS_H

#include "core/log.h"
#include "data/pretraining/documents.h"
#include "data/pretraining/instances.h"
#include "data/pretraining/pretraining_statistics.h"
#include "format/json/json.h"

#include <stdint.h>

struct instance_texts {
    int64_t documents, tokens, unknown; // unknown: [UNK] tokens
    int64_t ill_formed;                 // sequences of ill-formed UTF-8, which were dropped
    int64_t cut;                        // pairs that lost more than half of their tokens
    int64_t single;                     // shards of a single document
    char single_name[128];              // the file of one of them
};

// The counts of one shard.
struct instance_texts instance_texts_of(const struct documents *documents,
                                        const struct instances *instances);
// Converts the counts to a JSON object (json_free; NULL when out of memory), and adds such an
// object, which belongs to the file `name`, to the counts.
json *instance_texts_to_json(const struct instance_texts *texts);
void instance_texts_add(struct instance_texts *texts, const char *name, const json *object);
// Sets the file that the warning about single documents names.
void instance_texts_name(struct instance_texts *texts, const char *name);
// Warns about texts that are not what the rules expect.
void instance_texts_warn(const struct instance_texts *texts,
                         const struct pretraining_statistics *statistics,
                         const struct berth_log *log);

#endif
