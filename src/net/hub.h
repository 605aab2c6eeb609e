// SPDX-License-Identifier: Apache-2.0
// The hub's API: which commit a revision is, and which files it holds.
#ifndef BERTH_NET_HUB_H
#define BERTH_NET_HUB_H

#include "format/hub/hub_listing.h"
#include "net/download.h"

// Where and as whom.
struct hub {
    const struct net *net;
    const char *endpoint; // "https://huggingface.co", without a slash at its end
    const char *token;    // NULL: none
    const char *type;     // "model" or "dataset"
    const char *id;
};

// Asks for the files of a revision; nothing is left in `listing` after an error.
enum berth_status hub_list(const struct hub *hub, const char *revision, struct hub_listing *listing,
                           struct berth_error *error);
// The URL of a file of the listing (memory_free); NULL when memory is out.
char *hub_file_url(const struct hub *hub, const char *commit, const char *path);

#endif
