// SPDX-License-Identifier: Apache-2.0
// A stage of data preparation: a folder of files and their manifest (format/manifest). If a run is
// stopped or killed, the next one makes the rest.
//
// A file gets its final name before its entry is written, so no entry is wrong, and a file without
// an entry is made again.
//
// The ranks of a job share the folder. Rank 0 holds the lock and writes the manifest. The others
// list what they finish in files of their own beside it, NAME.rank-3. Rank 0 merges these lists
// into the manifest and removes them when all ranks are done, or when a later run, with any number
// of ranks, resumes a killed one. The three stages beside this file call it; what they make is
// their own.
#ifndef BERTH_DATA_STAGE_H
#define BERTH_DATA_STAGE_H

#include "comm/comm.h"
#include "core/error.h"
#include "core/file.h"
#include "format/json/json.h"
#include "format/manifest/manifest.h"

#include <stddef.h>
#include <stdint.h>

// Where the files and the manifest of a stage are, and which ranks make them.
struct stage_location {
    const char *folder, *manifest;
    struct comm *comm;
};

struct stage {
    struct comm *comm;
    char *folder;     // folder of the files
    struct path path; // of the manifest; on other ranks of the rank's list
    struct file_lock lock;
    char *remedy; // if the manifest does not fit
    const struct manifest_settings *settings;
    json *files;    // entries by name
    size_t put;     // entries added by this rank since the last stage_gather
    size_t unsaved; // entries that stage_save_some has not written yet
    int complete;
    int is_new;      // this run created the manifest
    size_t existing; // dir_existing(folder) before this run; what existed stays
};

// Creates the folder, locks the manifest's folder, reads or creates the manifest, and removes
// half-written files of killed runs. Settings that differ from the manifest's are BERTH_CONFIG, a
// damaged manifest is BERTH_BAD_DATA; files without a manifest are BERTH_CANT_CREATE. Drops entries
// whose file is missing or has another size. Close it, also after a failure: a run that finished no
// file leaves nothing.
//
// Collective: all ranks get the entries that rank 0 found. BERTH_CONFIG: a rank has other settings
// than rank 0.
enum berth_status stage_open(struct stage *stage, const struct stage_location *location,
                             const struct manifest_settings *settings, struct berth_error *error);
// The entry of a finished file; NULL: the file is still to be made. Do not call it while other
// threads call stage_put.
const json *stage_find(const struct stage *stage, const char *name);
// Adds the entry of a finished file; takes ownership. Its member "bytes" is the size of the file,
// or null if there is no file. Thread-safe. stage_save writes the manifest.
enum berth_status stage_put(struct stage *stage, const char *name, json *entry,
                            struct berth_error *error);
enum berth_status stage_save(struct stage *stage, struct berth_error *error);
// For stages of many files, after stage_put: writes the manifest only once a sixteenth of its
// entries is new, so that all calls together write only a few times the size of the last manifest.
// stage_finish and stage_close write the rest; a killed process loses at most a sixteenth. Jobs of
// several ranks write every time, because rank 0 reads their lists.
enum berth_status stage_save_some(struct stage *stage, struct berth_error *error);
// Collective. Rank 0 gets the entries of all ranks; stage_finish also marks the stage as complete.
// BERTH_CANT_CREATE: rank 0 does not see what another rank has written.
enum berth_status stage_gather(struct stage *stage, struct berth_error *error);
enum berth_status stage_finish(struct stage *stage, struct berth_error *error);
void stage_close(struct stage *stage);

#endif
