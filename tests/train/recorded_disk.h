// SPDX-License-Identifier: Apache-2.0
// What a run does to a folder, recorded call by call, and the contents that a power failure may
// leave after any of these calls.
//
// The model of the disk: what was synced stays. A file's blocks of 4 KiB that were written since
// its last sync may be old or new, each by itself, and its size the old or the new one. Of the
// names that were made, renamed and removed since the last sync of their folder, any may be as
// before. A rename happens whole or not at all.
//
// Leaves out: sectors that are torn within a block, and disks that lose what they synced.
#ifndef BERTH_TESTS_TRAIN_RECORDED_DISK_H
#define BERTH_TESTS_TRAIN_RECORDED_DISK_H

#include <stddef.h>
#include <stdint.h>

// --- recording ----------------------------------------------------------------------------------

// From now on this process appends its calls below the folder `root` to the file `record`: open,
// write, pwrite, ftruncate, fsync, mkdir, rename, renameat2, unlink, unlinkat and rmdir, which
// recorded_disk.c defines.
void disk_record(const char *root, const char *record);
// Appends a mark, which disk_step returns.
void disk_record_mark(int64_t number);

// --- replaying ----------------------------------------------------------------------------------

struct disk;

// Reads a record; the disk is empty and synced.
struct disk *disk_open(const char *record);
void disk_close(struct disk *disk);
// Syncs do nothing from now on: to see that a test notices.
void disk_ignore_syncs(struct disk *disk);

size_t disk_events(const struct disk *disk);
// Does the next call of the record. Returns the number of a mark, else -1.
int64_t disk_step(struct disk *disk);
// The file's bytes as they are without a power failure; NULL: there is none.
const char *disk_file(const struct disk *disk, const char *path, size_t *length);
// Writes what a power failure leaves to an empty folder; the seed decides what is lost.
void disk_fail(const struct disk *disk, uint64_t seed, const char *folder);

#endif
