// SPDX-License-Identifier: Apache-2.0
// One file from a URL into a cache's folder (format/hub/hub_cache.h): locked, resumed, checked,
// published.
//
// Bytes go to blobs/KEY.X.incomplete (X: 8 digits that tell sources apart) and reach blobs/ only
// when their number and digests are right. What has come stays there when the connection, the disk
// or the user ends the download, and the next run asks for the rest; content that turns out wrong
// is removed. A source without a known digest is resumed under its strong etag alone, kept beside
// the bytes.
#ifndef BERTH_NET_DOWNLOAD_H
#define BERTH_NET_DOWNLOAD_H

#include "core/log.h"
#include "format/checksum/digest.h"
#include "net/http.h"

// What all downloads of a fetch share.
struct net {
    struct http *http;
    struct berth_log log;
    const volatile int *stop; // may be NULL
    int64_t retries;          // without a new byte in between, before giving up
};

// A digest that the content must have; no hex: none is known.
struct download_digest {
    enum digest_kind kind;
    const char *hex;
};

struct download {
    const char *url;
    const char *token; // NULL: none
    const char *name;  // for people: "config.json"
    const char *repo;  // the cache's folder of the repository
    const char *locks; // the folder of its lock files
    const char *key;   // names the lock and the partial file; the blob, too, unless by_content
    int by_content;    // the blob's name is its SHA-256, known only at the end
    int etag_is_key;   // the server's etag is the key: another one is other content
    int64_t size;      // -1: not known
    struct download_digest digests[2];
    const char *known_etag; // by_content: of what lies in the cache already; NULL: nothing does
};

struct download_result {
    char blob[DIGEST_HEX_SIZE]; // its name in blobs/
    char etag[256];             // strong, else empty
    int unchanged;              // the server still has `known_etag`: nothing was downloaded
};

enum berth_status download(const struct net *net, const struct download *what,
                           struct download_result *result, struct berth_error *error);

// A small document: JSON of an API.
struct document {
    const char *what; // its name in errors
    size_t limit;     // bytes that it has at most
    char *text;       // memory_free
    size_t length, capacity;
};

// Fills in the text, retried as downloads are. A web page in its place is BERTH_BAD_DATA. The
// document begins with `what` and `limit` alone.
enum berth_status download_text(const struct net *net, const struct http_request *request,
                                struct document *document, struct http_answer *answer,
                                struct berth_error *error);

#endif
