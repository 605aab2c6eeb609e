// SPDX-License-Identifier: Apache-2.0
// A stage of data preparation: a folder of files and a JSON manifest with their settings and the
// list of finished files. After a stopped or killed run the next one makes the rest.
//
//   {"format": 1, "complete": false, "settings": {"shards": "256", ...},
//    "files": {"wikicorpus_en_training_0.txt": {"bytes": 81, ...}, ...}}
//
// A file gets its final name before its entry, so a file without an entry is made again, and no
// entry is wrong.
//
// Ranks of a job share the folder. The first one has the lock and the manifest. The others list
// what they finish in files of their own beside it, NAME.rank-3, which the first one adds to the
// manifest and removes: when all are done, or when a run of any number of ranks resumes a killed
// one.
#ifndef BERTH_DATA_STAGE_H
#define BERTH_DATA_STAGE_H

#include "core/comm.h"
#include "core/error.h"
#include "core/file.h"
#include "format/json/json.h"

#include <stddef.h>
#include <stdint.h>

enum { STAGE_SETTINGS_MAX = 24, STAGE_VALUE_SIZE = 80 };

// The settings that the files depend on, as text.
struct stage_settings {
    struct {
        const char *name;
        char value[STAGE_VALUE_SIZE];
    } items[STAGE_SETTINGS_MAX];
    size_t count;
};
void stage_set_text(struct stage_settings *settings, const char *name, const char *value);
void stage_set_integer(struct stage_settings *settings, const char *name, uint64_t value);
void stage_set_real(struct stage_settings *settings, const char *name, double value);

// Where a stage's files and its manifest are, and who makes them.
struct stage_place {
    const char *folder, *manifest;
    struct comm *comm;
};

struct stage {
    struct comm *comm;
    char *folder; // folder of the files
    char *path;   // of the manifest, or of a rank's own list
    struct file_lock lock;
    const struct stage_settings *settings;
    json *files;    // entries by name
    size_t put;     // entries that this rank has added since they were gathered
    size_t unsaved; // entries that stage_save_some has left to a later call
    int complete;
    int is_new;      // this run created the manifest
    size_t existing; // dir_existing(folder), before this run: what was there stays
};

// Creates the folder, locks the manifest's folder, reads or creates the manifest, and removes
// half-written files of killed runs. Settings that differ from the manifest's are BERTH_CONFIG,
// with the first difference in the message, and so are impossible counts (negative, or above 2^40);
// files without a manifest are BERTH_CANT_CREATE. Drops entries whose file is missing or has
// another size. Close it, also after a failure: a run that finished no file leaves nothing.
//
// All ranks open a stage, and get the entries that the first one found. Ranks with other settings
// than its are BERTH_CONFIG.
enum berth_status stage_open(struct stage *stage, const struct stage_place *place,
                             const struct stage_settings *settings, struct berth_error *error);
// The facts of a finished file; NULL: still to be made. Do not call it while other threads call
// stage_put.
const json *stage_find(const struct stage *stage, const char *name);
// Records a finished file with its `facts` (takes ownership), to which it adds "bytes".
// Thread-safe. stage_save writes the manifest.
enum berth_status stage_put(struct stage *stage, const char *name, json *facts,
                            struct berth_error *error);
enum berth_status stage_save(struct stage *stage, struct berth_error *error);
// After stage_put of one file of many: writes the manifest where a sixteenth of its entries is new,
// so that all calls together write a few times what the last one does. stage_finish and stage_close
// write the rest; a killed process loses at most that share. Several ranks write each time, because
// their lists are read by another.
enum berth_status stage_save_some(struct stage *stage, struct berth_error *error);
// All ranks call these two. The first one gets the entries of all, and marks the stage as complete.
// BERTH_CANT_CREATE: it does not see what another rank has written.
enum berth_status stage_gather(struct stage *stage, struct berth_error *error);
enum berth_status stage_finish(struct stage *stage, struct berth_error *error);
void stage_close(struct stage *stage);

// Reads the manifest of an earlier stage, which must be complete, from the folder of its files;
// free with json_free. BERTH_NO_INPUT when it is missing or not complete, or a file is missing;
// BERTH_BAD_DATA when a file has another size. The message ends with `remedy`. The stage "text"
// lists its files otherwise: wikipedia_state_check checks them.
enum berth_status stage_read_complete(const char *manifest, const char *remedy, json **value,
                                      struct berth_error *error);

#endif
