// SPDX-License-Identifier: Apache-2.0
// A manifest: a JSON file beside others that says from which settings they were made, and which of
// them are finished. A stage of `berth prepare` and `berth pack`, the text of a wiki and a
// checkpoint have one; a run that resumes or reads the files compares it first. Which files belong
// into a folder is the caller's business, as are locks (core/file.h) and the moment of writing.
//
//   {"format_version": 1, "complete": false, "settings": {"shards": "256", ...},
//    "files": {"config.json": {"bytes": 612, "sha256": "..."}, ...}}
//
// What is always true of one that was made or read here (manifest_check):
//
//   - It has "format_version" 1 and "files", at most "settings" and "complete" beside them, and
//     nothing else. A checkpoint's has neither of these: it is published as a whole, and its
//     settings are in trainer_state.json.
//   - The names in "files" are of files in the manifest's folder or one below, and none begins with
//     a dot. So a manifest that somebody sends cannot make Berth read elsewhere.
//   - An entry has "bytes", the file's size, or null if a stage made no such file. "sha256", if it
//     is there, has 64 digits; data for pre-training has none, as it is too large to be read for
//     each run. The writer's other members are facts of its own.
//   - All integers of an entry are from 0 to 2^40, so their sums fit into 64 bits.
//
// A manifest is changed by writing another: only its writer does that, and only after the files
// that it names are on disk.
#ifndef BERTH_FORMAT_MANIFEST_H
#define BERTH_FORMAT_MANIFEST_H

#include "core/error.h"
#include "format/json/json.h"

#include <stddef.h>
#include <stdint.h>

enum { MANIFEST_SETTINGS_MAX = 24, MANIFEST_VALUE_SIZE = 80 };

// The settings that the files depend on, as text.
struct manifest_settings {
    struct {
        const char *name;
        char value[MANIFEST_VALUE_SIZE];
    } items[MANIFEST_SETTINGS_MAX];
    size_t count;
};
void manifest_set_text(struct manifest_settings *settings, const char *name, const char *value);
void manifest_set_integer(struct manifest_settings *settings, const char *name, uint64_t value);
void manifest_set_real(struct manifest_settings *settings, const char *name, double value);

// A new manifest; takes ownership of `files`. NULL when out of memory. Without settings (NULL) it
// has neither "settings" nor "complete".
json *manifest_new(const struct manifest_settings *settings, int complete, json *files);
// Takes ownership of the manifest, which may be NULL: out of memory.
enum berth_status manifest_write(const char *path, json *manifest, struct berth_error *error);

// Reads a manifest and checks its form; free with json_free. BERTH_NO_INPUT: there is none.
// BERTH_BAD_DATA: it is damaged, of a newer format, or names files outside its folder; BERTH_IO: it
// cannot be read. `remedy`, which may be NULL, ends the message.
enum berth_status manifest_read(const char *path, const char *remedy, json **manifest,
                                struct berth_error *error);
// The same for files of an earlier step, which must all be there. BERTH_NO_INPUT: there is no
// manifest, or it is not complete. BERTH_BAD_DATA: also if a file is missing or has another size.
enum berth_status manifest_read_complete(const char *path, const char *remedy, json **manifest,
                                         struct berth_error *error);
// NULL, or what of the above does not hold.
const char *manifest_check(const json *manifest);
const json *manifest_files(const json *manifest); // an object
int manifest_is_complete(const json *manifest);

// The first setting that differs between the manifest and this run. A missing setting has the value
// "default": some are written only if they differ from it.
struct manifest_difference {
    const char *name; // NULL: no difference
    const char *saved, *now;
};
struct manifest_difference manifest_differ(const json *manifest,
                                           const struct manifest_settings *settings);
// BERTH_CONFIG: a setting differs; the message names it, both values, the file and the remedy.
enum berth_status manifest_compare(const char *path, const json *manifest,
                                   const struct manifest_settings *settings, const char *remedy,
                                   struct berth_error *error);

// Compares FOLDER/NAME with its entry: its size, and its digest if the entry has one.
// BERTH_BAD_DATA: the file is missing or differs; BERTH_IO: it cannot be read.
enum berth_status manifest_check_file(const char *folder, const char *name, const json *entry,
                                      struct berth_error *error);

#endif
