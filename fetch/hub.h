// SPDX-License-Identifier: Apache-2.0
// Asks the hub's API which commit a revision is and which files it has, for fetch_hub.c. The
// answers are parsed and checked by format/hub/hub_listing.h, and files are downloaded by
// download.h.
#ifndef BERTH_FETCH_HUB_H
#define BERTH_FETCH_HUB_H

#include "fetch/download.h"
#include "format/hub/hub_listing.h"

// The hub, the token and the repository.
struct hub {
    const struct net *net;
    const char *endpoint; // "https://huggingface.co", without a trailing slash
    const char *token;    // NULL: none
    const char *type;     // "model" or "dataset"
    const char *id;
};

// Requests the list of files of a revision. After an error `listing` is empty.
enum berth_status hub_list(const struct hub *hub, const char *revision, struct hub_listing *listing,
                           struct berth_error *error);
// The URL of a file of the listing (memory_free); NULL when out of memory.
char *hub_file_url(const struct hub *hub, const char *commit, const char *path);

#endif
