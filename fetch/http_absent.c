// SPDX-License-Identifier: Apache-2.0
// Stands in for http.c in a build without libcurl: every request fails with an error that names
// what the build lacks. Files that are in the cache already can still be used.
#include "fetch/http.h"

#include <stdatomic.h>

static enum berth_status refuse(struct berth_error *error) {
    return error_set(
        error, BERTH_UNAVAILABLE,
        "this Berth was built without libcurl, so it cannot download; put the files in "
        "place by hand, or build with -DBERTH_CURL=ON");
}

enum berth_status http_open(struct http **http, const atomic_int *stop, struct berth_error *error) {
    *http = NULL;
    return refuse(error);
}

void http_close(struct http *http) {
}

int http_same_origin(const char *a, const char *b) {
    return 0;
}

int http_is_secure(const char *url) {
    return 0;
}

enum berth_status http_host(const char *url, char **host, struct berth_error *error) {
    *host = NULL;
    return refuse(error);
}

enum berth_status http_follow(const char *from, const char *location, char **to,
                              struct berth_error *error) {
    *to = NULL;
    return refuse(error);
}

enum berth_status http_get(struct http *http, const struct http_request *request,
                           const struct http_sink *sink, struct http_response *response,
                           struct berth_error *error) {
    return refuse(error);
}

enum berth_status http_refusal(const struct http_response *response, const char *name,
                               struct berth_error *error) {
    return refuse(error);
}
