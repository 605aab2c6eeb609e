// SPDX-License-Identifier: Apache-2.0
// Downloads one file from a URL into a cache folder (format/hub/hub_cache.h): lock, resume, verify,
// publish.
//
// Bytes go to blobs/KEY.X.incomplete (X: 8 digits that identify the source) and reach blobs/ only
// when their number and digests are right. When the connection, the disk or the user ends the
// download, the partial file stays and the next run requests the rest; wrong content is removed. A
// source without a known digest is resumed only under its strong etag, which is stored next to the
// bytes. fetch_hub.c and fetch_url.c call it for each file.
#ifndef BERTH_FETCH_DOWNLOAD_H
#define BERTH_FETCH_DOWNLOAD_H

#include "core/log.h"
#include "fetch/http.h"
#include "format/checksum/digest.h"

#include <stdatomic.h>

// The state that all downloads of a fetch share.
struct net {
    struct http *http;
    struct berth_log log;
    const atomic_int *stop; // may be NULL
    int64_t retries;        // attempts without a new byte before giving up
};

// A digest that the content must have; empty hex: unknown.
struct download_digest {
    enum digest_kind kind;
    const char *hex;
};

struct download {
    const char *url;
    const char *token; // NULL: none
    const char *name;  // for messages: "config.json"
    const char *repo;  // the repository's folder in the cache
    const char *locks; // the folder of the lock files
    const char *key;   // names the lock and the partial file, and the blob unless by_content
    int by_content;    // the blob's name is its SHA-256, known at the end only
    int etag_is_key;   // the server's etag is the key: a different one means different content
    int64_t size;      // -1: unknown
    struct download_digest digests[2];
    const char *known_etag; // by_content: etag of the cached file; NULL: none is cached
};

struct download_result {
    char blob[DIGEST_HEX_SIZE]; // its name in blobs/
    char etag[256];             // strong, else empty
    int unchanged;              // the server still has `known_etag`: nothing was downloaded
};

enum berth_status download(const struct net *net, const struct download *wanted,
                           struct download_result *result, struct berth_error *error);

// A small document: JSON of an API.
struct document {
    const char *name; // in errors
    size_t limit;     // maximum size in bytes
    char *text;       // memory_free
    size_t length, capacity;
};

// Fills in the text, with the retries of downloads. A web page instead of JSON is BERTH_BAD_DATA.
// The caller sets only `name` and `limit`.
enum berth_status download_text(const struct net *net, const struct http_request *request,
                                struct document *document, struct http_response *response,
                                struct berth_error *error);

#endif
