// SPDX-License-Identifier: Apache-2.0
// A stage of the preparation of data: a folder of files and a manifest, JSON, that says by which
// settings they are made and which are finished. A run that was stopped or killed goes on with the
// rest.
//
//   {"format": 1, "complete": false, "settings": {"shards": "256", ...},
//    "files": {"wikicorpus_en_training_0.txt": {"bytes": 81, ...}, ...}}
//
// The order of work is: the file under its final name, then its entry; so a file without an entry
// is made again and no entry lies.
#ifndef BERTH_DATA_STAGE_H
#define BERTH_DATA_STAGE_H

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "format/json/json.h"

#include <stddef.h>
#include <stdint.h>

enum { STAGE_SETTINGS_MAX = 24, STAGE_VALUE_SIZE = 80 };

// What the files depend on, as text.
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
    char *folder; // of the files
    char *path;   // of the manifest
    struct file_lock lock;
    const struct stage_settings *settings;
    json *files; // by name
    int complete;
    int is_new;      // the manifest was begun by this run
    size_t existing; // dir_existing(folder), before this run
};

// Makes the folder, takes the lock of the manifest's folder, reads the manifest or begins one, and
// removes what a killed run left half-written. Other settings than those of the manifest are
// BERTH_CONFIG naming the first that differs, as are numbers that no file has (negative, or above
// 2^40); files without a manifest BERTH_CANT_CREATE. Entries whose file has gone, or has another
// size, are forgotten. Close it, also after a failure: of a run that finished no file nothing is
// left.
enum berth_status stage_open(struct stage *stage, const char *folder, const char *manifest,
                             const struct stage_settings *settings, struct berth_error *error);
// What the manifest says of a finished file; NULL: it is still to be made. Not while others put.
const json *stage_find(const struct stage *stage, const char *name);
// The file is finished, `facts` (taken over) is what there is to say of it, "bytes" aside; several
// threads may call it. The manifest is written by stage_save.
enum berth_status stage_put(struct stage *stage, const char *name, json *facts,
                            struct berth_error *error);
enum berth_status stage_save(struct stage *stage, struct berth_error *error);
// All files are finished.
enum berth_status stage_finish(struct stage *stage, struct berth_error *error);
void stage_close(struct stage *stage);

// The manifest of a stage that must be complete, for the next one; free with json_free.
// BERTH_NO_INPUT when there is none or it is not complete: `remedy` says what to do.
enum berth_status stage_read_complete(const char *manifest, const char *remedy, json **value,
                                      struct berth_error *error);

// --- work by several threads --------------------------------------------------------------------

// Progress of a phase and the first failure; all calls may come from several threads.
struct stage_work {
    const struct berth_log *log;
    const volatile int *stop; // NULL: never
    const char *phase;
    int64_t done, total;
    int in_bytes;
    enum berth_status status;
    struct berth_error error;
};
// Adds to what is done, and says so.
void stage_advance(struct stage_work *work, int64_t more);
// Keeps a failure, if it is the first.
void stage_fail(struct stage_work *work, enum berth_status status, const struct berth_error *error);
// Whether the others should end: something failed, or the run is asked to stop, which becomes
// BERTH_INTERRUPTED.
int stage_must_end(struct stage_work *work);
// The outcome.
enum berth_status stage_outcome(const struct stage_work *work, struct berth_error *error);

#endif
