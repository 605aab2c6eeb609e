// SPDX-License-Identifier: Apache-2.0
// Downloads one file into a cache: takes the file's lock, asks for what a partial file lacks,
// checks size and digest while bytes arrive, tries again after faults that pass, and publishes the
// file under its name (download.h has the rules). fetch_hub.c and fetch_url.c call it for each
// file; the request itself is http.c's.
#include "fetch/download.h"

#include "core/caseless.h"
#include "core/file_partial.h"
#include "core/memory.h"
#include "core/utf8.h"
#include "format/hub/hub_blob.h"
#include "format/hub/hub_cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define LOCK_WAIT_MS 100
#define FIRST_WAIT_MS 250
#define LONGEST_WAIT_MS 8000
#define SLICE_MS 50
#define NAME_LIMIT 4096
#define NO_SIZE (-1)

// A download in progress.
struct work {
    const struct net *net;
    const struct download *wanted;
    struct download_result *result;
    char blobs[NAME_LIMIT], partial_path[NAME_LIMIT], etag_path[NAME_LIMIT];
    struct file_partial partial;
    int64_t total;         // of the whole file; NO_SIZE: unknown
    char stored_etag[256]; // etag of the partial file's bytes; empty: unknown
    uint64_t asked_from;   // offset of the current request
    int complete;          // all bytes have arrived
    int must_restart;      // the partial bytes are useless: request the whole file
};

// --- retries ------------------------------------------------------------------------------------

// Sleeps; BERTH_INTERRUPTED as soon as the stop flag is set.
static enum berth_status wait_for(const struct net *net, int64_t milliseconds,
                                  struct berth_error *error) {
    const struct timespec slice = {.tv_nsec = SLICE_MS * 1000000L};
    for (int64_t waited = 0; waited < milliseconds; waited += SLICE_MS) {
        if (net->stop != NULL && *net->stop != 0) {
            return error_set(error, BERTH_INTERRUPTED, "stopped while waiting");
        }
        nanosleep(&slice, NULL);
    }
    return BERTH_OK;
}

// Called after a request for `name` failed with `status`: waits (0.25 s, then twice as long each
// time, 8 s at most) and returns BERTH_OK when another attempt is worthwhile, else `status`.
// *failures counts failures without progress. A stop while waiting is BERTH_INTERRUPTED. The reason
// is the error's of the last attempt.
static enum berth_status retry_after(const struct net *net, const char *name, int64_t *failures,
                                     enum berth_status status, const struct http_response *response,
                                     struct berth_error *error) {
    if (!response->is_retryable || status == BERTH_INTERRUPTED || *failures >= net->retries) {
        return status;
    }
    int64_t wait = FIRST_WAIT_MS;
    for (int64_t i = 0; i < *failures && wait < LONGEST_WAIT_MS; i++) {
        wait *= 2;
    }
    if (++*failures == 1) {
        log_note(&net->log, "%s: the transfer failed; trying again (--retries %" PRId64 ")", name,
                 net->retries);
    }
    return wait_for(net, wait, error);
}

// --- paths --------------------------------------------------------------------------------------

static enum berth_status make_path(char path[NAME_LIMIT], const char *folder, const char *name,
                                   const char *ending, struct berth_error *error) {
    int length = snprintf(path, NAME_LIMIT, "%s/%s%s", folder, name, ending);
    return length < NAME_LIMIT
               ? BERTH_OK
               : error_set(error, BERTH_CANT_CREATE, "%.*s...: the path is too long",
                           UTF8_SHOWN(folder, 200));
}

static enum berth_status make_paths(struct work *work, struct berth_error *error) {
    const struct download *wanted = work->wanted;
    char source[DIGEST_HEX_SIZE], ending[32];
    const char *origin = wanted->by_content ? wanted->url : wanted->key; // equal keys: equal bytes
    TRY(digest_memory(DIGEST_SHA256, origin, strlen(origin), source, error));
    TRY(make_path(work->blobs, wanted->repo, "blobs", "", error));
    TRY(dir_make(work->blobs, error));
    if (!path_is_inside(work->blobs, wanted->repo)) {
        return error_set(error, BERTH_BAD_DATA, "%s is outside the cache's folder %s: refused",
                         work->blobs, wanted->repo);
    }
    TRY(dir_make(wanted->locks, error));
    snprintf(ending, sizeof ending, ".%.8s.incomplete", source);
    TRY(make_path(work->partial_path, work->blobs, wanted->key, ending, error));
    snprintf(ending, sizeof ending, ".%.8s.etag", source);
    return make_path(work->etag_path, work->blobs, wanted->key, ending, error);
}

// --- the lock -----------------------------------------------------------------------------------

static enum berth_status acquire_lock(const struct work *work, struct file_lock *lock,
                                      struct berth_error *error) {
    char path[NAME_LIMIT];
    int taken = 0, noted = 0;
    TRY(make_path(path, work->wanted->locks, work->wanted->key, ".lock", error));
    for (;;) {
        TRY(file_lock_try(lock, path, &taken, error));
        if (taken) {
            return BERTH_OK;
        }
        if (!noted) {
            log_note(&work->net->log, "%s: waiting for another process that is downloading it",
                     work->wanted->name);
            noted = 1;
        }
        TRY(wait_for(work->net, LOCK_WAIT_MS, error));
    }
}

// --- the server's answer ------------------------------------------------------------------------

static int is_page(const struct http_response *response) {
    return caseless_equal_bytes(response->type, "text/html", 9);
}

static int wants_page(const char *name) {
    size_t length = strlen(name);
    return (length > 5 && caseless_equal(name + length - 5, ".html")) ||
           (length > 4 && caseless_equal(name + length - 4, ".htm"));
}

static enum berth_status refuse_page(const char *name, struct berth_error *error) {
    return error_set(error, BERTH_BAD_DATA,
                     "%s: expected a file, the server sent a web page; does this network need a "
                     "login or a proxy?",
                     name);
}

static enum berth_status refuse_encoding(const char *name, struct berth_error *error) {
    return error_set(error, BERTH_BAD_DATA,
                     "%s: the server sent a Content-Encoding that was not requested", name);
}

static enum berth_status refuse_size(const struct work *work, int64_t found,
                                     struct berth_error *error) {
    return error_set(error, BERTH_BAD_DATA,
                     "%s: expected %" PRId64 " bytes, the server sends %" PRId64,
                     work->wanted->name, work->total, found);
}

// The size of the whole file according to this response.
static int64_t announced_size(const struct http_response *response) {
    if (response->status == 206) {
        return response->range_total;
    }
    return response->status == 200 ? response->length : NO_SIZE;
}

static int is_digest(const char *etag) {
    return digest_is_hex(DIGEST_SHA256, etag) || digest_is_hex(DIGEST_GIT_BLOB, etag);
}

// The hub's etag is the digest of the content, so a different one means different content. A store
// that the hub redirects to has other etags, which are ignored.
static enum berth_status check_hub_etag(const struct work *work,
                                        const struct http_response *response,
                                        struct berth_error *error) {
    const char *etag = response->linked_etag[0] != '\0' ? response->linked_etag : response->etag;
    if (!is_digest(etag) || strlen(etag) != strlen(work->wanted->key) ||
        strcmp(etag, work->wanted->key) == 0) {
        return BERTH_OK;
    }
    return error_set(error, BERTH_BAD_DATA,
                     "%s: expected the content %s, the server offers %s; try again later",
                     work->wanted->name, work->wanted->key, etag);
}

static enum berth_status check_disk_space(const struct work *work, struct berth_error *error) {
    uint64_t available = dir_free_bytes(work->blobs);
    uint64_t needed =
        work->total > (int64_t)work->partial.size ? (uint64_t)work->total - work->partial.size : 0;
    return needed <= available ? BERTH_OK
                               : error_set(error, BERTH_IO,
                                           "%s: not enough disk space: needs %" PRIu64
                                           " more bytes in %s, where %" PRIu64 " are free",
                                           work->wanted->name, needed, work->blobs, available);
}

// --- etags of plain URLs ------------------------------------------------------------------------

// --- one response -------------------------------------------------------------------------------

static int continues(const struct work *work, const struct http_response *response) {
    return response->status == 206 && response->range_first == (int64_t)work->partial.size &&
           (!work->wanted->by_content || strcmp(response->etag, work->stored_etag) == 0);
}

// Handles a 206 that does not continue the partial file: the content has changed, or the server is
// wrong.
static enum berth_status start_over(struct work *work, struct berth_error *error) {
    work->must_restart = 1;
    TRY(file_partial_restart(&work->partial, error));
    return error_set(error, BERTH_UNAVAILABLE, "%s: the content has changed since the last attempt",
                     work->wanted->name);
}

static enum berth_status begin_content(struct work *work, const struct http_response *response,
                                       struct berth_error *error) {
    int64_t size = announced_size(response);
    if (response->encoded) {
        return refuse_encoding(work->wanted->name, error);
    }
    if (is_page(response) && !wants_page(work->wanted->name)) {
        return refuse_page(work->wanted->name, error);
    }
    if (work->wanted->etag_is_key) {
        TRY(check_hub_etag(work, response, error));
    }
    if (response->status == 206 && !continues(work, response)) {
        return start_over(work, error);
    }
    if (work->wanted->size == NO_SIZE) {
        work->total = size;
    } else if (size != NO_SIZE && size != work->total) {
        return refuse_size(work, size, error);
    }
    if (response->status == 200 && work->partial.size > 0) {
        TRY(file_partial_restart(&work->partial, error));
    }
    if (work->wanted->by_content) {
        // Stores the etag beside the bytes: without it a later run could not resume the download.
        const char *etag = response->etag;

        if (strcmp(etag, work->stored_etag) != 0) {
            snprintf(work->stored_etag, sizeof work->stored_etag, "%s", etag);
            TRY(*etag != '\0' ? file_write(work->etag_path, etag, strlen(etag), error)
                              : file_remove(work->etag_path, error));
        }
    }
    return check_disk_space(work, error);
}

static enum berth_status on_begin(void *context, const struct http_response *response,
                                  struct berth_error *error) {
    struct work *work = context;
    if (response->status == 200 || response->status == 206) {
        return begin_content(work, response, error);
    }
    if (response->status == 416 && work->asked_from > 0) {
        // 416: the content has no bytes at that offset.
        int64_t size = work->wanted->size != NO_SIZE ? work->wanted->size : response->range_total;
        if (size == (int64_t)work->partial.size &&
            (!work->wanted->by_content || strcmp(response->etag, work->stored_etag) == 0)) {
            work->complete = 1;
            return BERTH_OK;
        }
        return start_over(work, error);
    }
    if (response->status == 304 && work->wanted->known_etag != NULL) {
        work->result->unchanged = 1;
        return BERTH_OK;
    }
    return http_refusal(response, work->wanted->name, error);
}

static enum berth_status on_bytes(void *context, const void *bytes, size_t length,
                                  struct berth_error *error) {
    struct work *work = context;
    if (work->complete || work->result->unchanged) {
        return BERTH_OK; // the body of a 416
    }
    uint64_t after = work->partial.size + length;
    if (work->total != NO_SIZE && after > (uint64_t)work->total) {
        TRY(file_partial_restart(&work->partial, error)); // these are bytes of something else
        return refuse_size(work, (int64_t)after, error);
    }
    TRY(file_partial_put(&work->partial, bytes, length, error));
    if (work->total > 0) {
        log_progress_bytes(&work->net->log, work->wanted->name, (int64_t)work->partial.size,
                           work->total);
    }
    return BERTH_OK;
}

static enum berth_status request_content(struct work *work, struct http_response *response,
                                         struct berth_error *error) {
    const struct http_sink sink = {.begin = on_begin, .body = on_bytes, .context = work};
    struct http_request request = {.url = work->wanted->url,
                                   .token = work->wanted->token,
                                   .from = work->partial.size,
                                   .if_none_match = work->wanted->known_etag};
    if (work->wanted->by_content) {
        request.if_range = work->stored_etag;
    }
    if (request.from > 0 && work->wanted->by_content && work->stored_etag[0] == '\0') {
        TRY(file_partial_restart(&work->partial, error));
        request.from = 0;
    }
    work->asked_from = request.from;
    enum berth_status status = http_get(work->net->http, &request, &sink, response, error);
    if (status == BERTH_OK && !work->complete && !work->result->unchanged) {
        snprintf(work->result->etag, sizeof work->result->etag, "%s", response->etag);
        if (work->total != NO_SIZE && (int64_t)work->partial.size != work->total) {
            status = refuse_size(work, (int64_t)work->partial.size, error);
        }
        work->complete = status == BERTH_OK;
    }
    return status;
}

// --- the whole download --------------------------------------------------------------------------

// Resumes from an earlier run's bytes only if the remainder is provably of the same file.
static enum berth_status inspect_partial(struct work *work, struct berth_error *error) {
    TRY(file_partial_open(&work->partial, work->partial_path, error));
    char *text;
    size_t length;
    work->stored_etag[0] = '\0';
    if (file_read(work->etag_path, sizeof work->stored_etag - 1, &text, &length, NULL) ==
        BERTH_OK) {
        snprintf(work->stored_etag, sizeof work->stored_etag, "%s", text);
        memory_free(text);
    }
    uint64_t size = work->partial.size;
    int useless = work->wanted->by_content ? work->stored_etag[0] == '\0'
                                           : work->total != NO_SIZE && size > (uint64_t)work->total;
    if (size > 0 && useless) {
        return file_partial_restart(&work->partial, error);
    }
    work->complete = size > 0 && !work->wanted->by_content && work->total == (int64_t)size;
    return BERTH_OK;
}

static enum berth_status transfer(struct work *work, struct berth_error *error) {
    int64_t failures = 0;
    uint64_t reached = work->partial.size;
    int restarts = 0;
    while (!work->complete && !work->result->unchanged) {
        struct http_response response;
        struct berth_error failure = {.status = BERTH_OK};
        response.is_retryable = 0;
        enum berth_status status = request_content(work, &response, &failure);
        if (status == BERTH_OK) {
            continue;
        }
        if (work->must_restart && restarts++ == 0) {
            work->must_restart = 0;
            log_note(&work->net->log, "%s; starting over", failure.message);
            continue;
        }
        if (work->partial.size > reached) {
            reached = work->partial.size;
            failures = 0;
        }
        status = retry_after(work->net, work->wanted->name, &failures, status, &response, &failure);
        if (status != BERTH_OK) {
            return error_set(error, status, "%s", failure.message);
        }
    }
    return BERTH_OK;
}

static enum berth_status check_content(const struct work *work, struct berth_error *error) {
    for (size_t i = 0; i < sizeof work->wanted->digests / sizeof *work->wanted->digests; i++) {
        const struct download_digest *digest = &work->wanted->digests[i];
        char found[DIGEST_HEX_SIZE];
        if (digest->hex != NULL) {
            TRY(digest_file(digest->kind, work->partial_path, found, error));
            if (!caseless_equal(found, digest->hex)) {
                return error_set(
                    error, BERTH_BAD_DATA,
                    "%s: expected the %s %s, found %s; the download was removed, fetch again",
                    work->wanted->name, digest_name(digest->kind), digest->hex, found);
            }
        }
    }
    return BERTH_OK;
}

// Fills the partial file and checks it. Bytes of an earlier run that turn out to be of something
// else, such as a login page, are dropped.
static enum berth_status receive(struct work *work, struct berth_error *error) {
    const int resumes = work->partial.size > 0;
    TRY(check_disk_space(work, error));
    TRY(transfer(work, error));
    enum berth_status status = work->result->unchanged ? BERTH_OK : check_content(work, error);
    if (status == BERTH_BAD_DATA && resumes) {
        log_note(&work->net->log, "%s: continued from other content; starting over",
                 work->wanted->name);
        TRY(file_partial_restart(&work->partial, error));
        work->complete = 0;
        return receive(work, error);
    }
    if (status == BERTH_BAD_DATA) {
        (void)file_remove(work->partial_path, NULL);
        (void)file_remove(work->etag_path, NULL);
    }
    return status;
}

// Whether the blob exists already (from another process or an earlier run) and is undamaged.
static int is_cached(const struct work *work) {
    char path[NAME_LIMIT];
    struct file_reader reader;
    if (work->wanted->by_content ||
        make_path(path, work->blobs, work->wanted->key, "", NULL) != BERTH_OK ||
        file_reader_open(&reader, path, NULL) != BERTH_OK) {
        return 0;
    }
    int whole = work->total == NO_SIZE || reader.size == (uint64_t)work->total;
    file_reader_close(&reader);
    struct berth_error error;
    if (whole && hub_blob_check(work->wanted->repo, path, &error) != BERTH_OK) {
        log_warning(&work->net->log, "%s: the cached file is damaged; downloading it again",
                    work->wanted->name);
        return 0;
    }
    return whole;
}

static enum berth_status download_partial(struct work *work, struct berth_error *error) {
    if (is_cached(work)) {
        return BERTH_OK;
    }
    TRY(inspect_partial(work, error));
    TRY(receive(work, error));
    if (work->result->unchanged) {
        TRY(file_remove(work->etag_path, error));
        return file_remove(work->partial_path, error);
    }
    char path[NAME_LIMIT];
    if (work->wanted->by_content) {
        TRY(digest_file(DIGEST_SHA256, work->partial_path, work->result->blob, error));
    }
    TRY(make_path(path, work->blobs, work->result->blob, "", error));
    TRY(file_partial_publish(&work->partial, path, error));
    return file_remove(work->etag_path, error);
}

enum berth_status download(const struct net *net, const struct download *wanted,
                           struct download_result *result, struct berth_error *error) {
    struct work work = {.net = net,
                        .wanted = wanted,
                        .result = result,
                        .total = wanted->size,
                        .partial = {.descriptor = -1}};
    struct file_lock lock;
    *result = (struct download_result){.unchanged = 0};
    if (!wanted->by_content) {
        snprintf(result->blob, sizeof result->blob, "%s", wanted->key);
    }
    TRY(make_paths(&work, error));
    TRY(acquire_lock(&work, &lock, error));
    enum berth_status status = download_partial(&work, error);
    if (status != BERTH_OK && work.partial.descriptor >= 0 && work.partial.size == 0) {
        (void)file_remove(work.partial_path, NULL); // nothing to resume from
    }
    file_partial_close(&work.partial);
    file_lock_unlock(&lock);
    return status;
}

// --- documents ----------------------------------------------------------------------------------

static enum berth_status refuse_long(const struct document *document, struct berth_error *error) {
    return error_set(error, BERTH_BAD_DATA, "%s: more than %zu bytes", document->name,
                     document->limit);
}

static enum berth_status document_begin(void *context, const struct http_response *response,
                                        struct berth_error *error) {
    struct document *document = context;
    document->length = 0;
    if (response->status != 200) {
        return http_refusal(response, document->name, error);
    }
    if (response->encoded) {
        return refuse_encoding(document->name, error);
    }
    if (response->length > 0 && (uint64_t)response->length > document->limit) {
        return refuse_long(document, error);
    }
    return is_page(response) ? refuse_page(document->name, error) : BERTH_OK;
}

static enum berth_status document_body(void *context, const void *bytes, size_t length,
                                       struct berth_error *error) {
    struct document *document = context;
    size_t after = document->length + length;
    if (after > document->limit) {
        return refuse_long(document, error);
    }
    char *grown = memory_grow(document->text, &document->capacity, after + 1, 1);
    if (grown == NULL) {
        return error_no_memory(error, after + 1, document->name);
    }
    document->text = grown;
    memcpy(document->text + document->length, bytes, length);
    document->length = after;
    document->text[after] = '\0';
    return BERTH_OK;
}

enum berth_status download_text(const struct net *net, const struct http_request *request,
                                struct document *document, struct http_response *response,
                                struct berth_error *error) {
    const struct http_sink sink = {
        .begin = document_begin, .body = document_body, .context = document};
    int64_t failures = 0;
    struct berth_error failure;
    enum berth_status status;
    do {
        failure = (struct berth_error){.status = BERTH_OK};
        status = http_get(net->http, request, &sink, response, &failure);
        if (status == BERTH_OK) {
            break;
        }
        status = retry_after(net, document->name, &failures, status, response, &failure);
        if (status != BERTH_OK) {
            memory_free(document->text);
            document->text = NULL;
            return error_set(error, status, "%s", failure.message);
        }
    } while (1);
    return document->text != NULL
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA, "%s: the answer is empty", document->name);
}
