// SPDX-License-Identifier: Apache-2.0
// A stage of data preparation: a folder of files and a JSON manifest with their settings and the
// list of finished files. After a stopped or killed run the next one makes the rest.
//
//   {"format": 1, "complete": false, "settings": {"shards": "256", ...},
//    "files": {"wikicorpus_en_training_0.txt": {"bytes": 81, ...}, ...}}
//
// A file gets its final name before its entry, so a file without an entry is made again, and no
// entry is wrong.
#ifndef BERTH_DATA_STAGE_H
#define BERTH_DATA_STAGE_H

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
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

struct stage {
    char *folder; // folder of the files
    char *path;   // of the manifest
    struct file_lock lock;
    const struct stage_settings *settings;
    json *files; // entries by name
    int complete;
    int is_new;      // this run created the manifest
    size_t existing; // dir_existing(folder), before this run
};

// Creates the folder, locks the manifest's folder, reads or creates the manifest, and removes
// half-written files of killed runs. Settings that differ from the manifest's are BERTH_CONFIG,
// with the first difference in the message, and so are impossible counts (negative, or above 2^40);
// files without a manifest are BERTH_CANT_CREATE. Drops entries whose file is missing or has
// another size. Close it, also after a failure: a run that finished no file leaves nothing.
enum berth_status stage_open(struct stage *stage, const char *folder, const char *manifest,
                             const struct stage_settings *settings, struct berth_error *error);
// The facts of a finished file; NULL: still to be made. Do not call it while other threads call
// stage_put.
const json *stage_find(const struct stage *stage, const char *name);
// Records a finished file with its `facts` (takes ownership), to which it adds "bytes".
// Thread-safe. stage_save writes the manifest.
enum berth_status stage_put(struct stage *stage, const char *name, json *facts,
                            struct berth_error *error);
enum berth_status stage_save(struct stage *stage, struct berth_error *error);
// Marks the stage as complete.
enum berth_status stage_finish(struct stage *stage, struct berth_error *error);
void stage_close(struct stage *stage);

// Reads the manifest of an earlier stage, which must be complete; free with json_free.
// BERTH_NO_INPUT when it is missing or not complete; the message ends with `remedy`.
enum berth_status stage_read_complete(const char *manifest, const char *remedy, json **value,
                                      struct berth_error *error);

// --- work by several threads --------------------------------------------------------------------

// The progress of a phase and its first failure; all functions are thread-safe.
struct stage_work {
    const struct berth_log *log;
    const volatile int *stop; // NULL: never
    const char *phase;
    int64_t done, total;
    int in_bytes;
    enum berth_status status;
    struct berth_error error;
};
// Adds to the progress and reports it.
void stage_advance(struct stage_work *work, int64_t more);
// Records the failure, if it is the first.
void stage_fail(struct stage_work *work, enum berth_status status, const struct berth_error *error);
// Whether workers should end: after a failure, or after a stop request, which becomes
// BERTH_INTERRUPTED.
int stage_must_end(struct stage_work *work);
// The first failure, or BERTH_OK.
enum berth_status stage_outcome(const struct stage_work *work, struct berth_error *error);

#endif
