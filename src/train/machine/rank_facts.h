// SPDX-License-Identifier: Apache-2.0
// Checks that the ranks of a job have the same settings and read the same files. Otherwise they
// would deadlock, or silently train different models. Each rank lists facts: names with values as
// text, such as a setting, a key of the model's configuration or the checksum of its data. All are
// compared with rank 0's.
#ifndef BERTH_TRAIN_RANK_FACTS_H
#define BERTH_TRAIN_RANK_FACTS_H

#include "comm/comm.h"
#include "core/buffer.h"
#include "core/error.h"
#include "settings/settings.h"

#include <stdint.h>

struct rank_facts {
    struct buffer text; // of each fact: name, source and value, each with its NUL
};

// Adds a fact to a list, which is empty when it is zeroed. All ranks add the same names in the same
// order. `source` is the file or folder that it is about, whose path may differ from rank to rank;
// NULL: it is about a setting.
void rank_facts_add(struct rank_facts *facts, const char *name, const char *source,
                    const char *value);
void rank_facts_add_number(struct rank_facts *facts, const char *name, const char *source,
                           int64_t value);
void rank_facts_add_checksum(struct rank_facts *facts, const char *name, const char *source,
                             uint64_t value);
// Adds every setting except those whose row is local.
void rank_facts_add_settings(struct rank_facts *facts, const struct settings *config);

// All ranks call it, also where there is one. Empties the list. BERTH_CONFIG, or BERTH_BAD_DATA for
// a fact with a source, names the first difference from rank 0.
enum berth_status rank_facts_compare(struct rank_facts *facts, struct comm *comm,
                                     struct berth_error *error);
// The same for the settings alone.
enum berth_status rank_facts_compare_settings(struct comm *comm, const struct settings *config,
                                              struct berth_error *error);
// Compares what the processes do, "train squad", and the version and the build of the program (a
// checksum of its code and constants), before anything else: other jobs and versions make other
// calls, and other builds other numbers.
enum berth_status rank_facts_compare_job(struct comm *comm, const char *job,
                                         struct berth_error *error);

#endif
