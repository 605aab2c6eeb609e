// SPDX-License-Identifier: Apache-2.0
// Stands in for mediawiki.c in a build without expat: no dump can be parsed, and an error says what
// the build lacks. Text that was extracted elsewhere can still be used.
#include "wiki/mediawiki.h"

static enum berth_status refuse(struct berth_error *error) {
    return error_set(error, BERTH_UNAVAILABLE,
                     "this Berth was built without expat, so it cannot read a Wikipedia dump; "
                     "extract its text elsewhere (extracted), or build with -DBERTH_EXPAT=ON");
}

enum berth_status mediawiki_open(const char *name, uint64_t from, mediawiki_page_function *page,
                                 void *context, struct mediawiki_reader **reader,
                                 struct berth_error *error) {
    *reader = NULL;
    return refuse(error);
}

enum berth_status mediawiki_feed(struct mediawiki_reader *reader, const char *bytes, size_t length,
                                 struct berth_error *error) {
    return refuse(error);
}

enum berth_status mediawiki_finish(struct mediawiki_reader *reader, struct berth_error *error) {
    return refuse(error);
}

const struct mediawiki_site *mediawiki_get_site(const struct mediawiki_reader *reader) {
    static const struct mediawiki_site none;
    return &none;
}

void mediawiki_close(struct mediawiki_reader *reader) {
}
