// SPDX-License-Identifier: Apache-2.0
// Data sets that have names of their own in the cache: their files, and where they come from.
#ifndef BERTH_FORMAT_KNOWN_SET_H
#define BERTH_FORMAT_KNOWN_SET_H

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

#endif
