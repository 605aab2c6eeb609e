// SPDX-License-Identifier: Apache-2.0
// Pages of help that are about no particular verb: `berth help TOPIC` prints them, and `berth man`
// makes manual pages of section 7 of them. Their texts are in topics.c; layout is left to help.c
// and man.c.
#ifndef BERTH_CLI_TOPICS_H
#define BERTH_CLI_TOPICS_H

#include <stddef.h>

// A term and what it means; without a term (NULL) a paragraph.
struct cli_entry {
    const char *term, *text;
};

struct cli_topic {
    const char *name, *summary;
    const struct cli_entry *entries; // [entry_count]
    size_t entry_count;
};

// By number; NULL after the last.
const struct cli_topic *cli_topic_at(size_t index);
// By name; NULL: none.
const struct cli_topic *cli_find_topic(const char *name);

#endif
