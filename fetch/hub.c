// SPDX-License-Identifier: Apache-2.0
// GET /api/models/ID/revision/REVISION returns the commit, /api/models/ID/tree/COMMIT its files, in
// pages that name the next one in a Link header. fetch_hub.c asks; the answers are parsed by
// format/hub/hub_listing.c.
#include "fetch/hub.h"

#include "core/buffer.h"
#include "core/memory.h"

#include <stdio.h>
#include <string.h>

#define PAGE_LIMIT ((size_t)64 << 20)
#define NAME_LIMIT 384
#define ENTRIES_LIMIT ((size_t)1 << 20) // files and folders of a repository

// --- URLs ---------------------------------------------------------------------------------------

// Percent-encodes all characters except letters, digits, "-._~" and, with `keep_slash`, "/".
static void put_escaped(struct buffer *url, const char *text, int keep_slash) {
    for (const char *at = text; *at != '\0'; at++) {
        char escaped[4];
        int plain = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
                    (*at >= '0' && *at <= '9') || strchr("-._~", *at) != NULL ||
                    (keep_slash && *at == '/');
        if (plain) {
            buffer_put(url, at, 1);
        } else {
            snprintf(escaped, sizeof escaped, "%%%02X", (unsigned char)*at);
            buffer_put_text(url, escaped);
        }
    }
}

// NUL-terminates `url` and passes its text to the caller; NULL when out of memory.
static char *finish_url(struct buffer *url) {
    buffer_put(url, "", 1);
    char *text = url->failed ? NULL : memory_string(url->bytes);
    buffer_done(url);
    return text;
}

// ENDPOINT/api/models/ID/WHAT/REVISION?QUERY
static char *api_url(const struct hub *hub, const char *resource, const char *revision,
                     const char *query) {
    struct buffer url = {0};
    buffer_put_text(&url, hub->endpoint);
    buffer_put_text(&url, "/api/");
    buffer_put_text(&url, hub->type);
    buffer_put_text(&url, "s/");
    put_escaped(&url, hub->id, 1);
    buffer_put_text(&url, "/");
    buffer_put_text(&url, resource);
    buffer_put_text(&url, "/");
    put_escaped(&url, revision, 0);
    buffer_put_text(&url, query);
    return finish_url(&url);
}

char *hub_file_url(const struct hub *hub, const char *commit, const char *path) {
    struct buffer url = {0};
    buffer_put_text(&url, hub->endpoint);
    buffer_put_text(&url, strcmp(hub->type, "dataset") == 0 ? "/datasets/" : "/");
    put_escaped(&url, hub->id, 1);
    buffer_put_text(&url, "/resolve/");
    buffer_put_text(&url, commit);
    buffer_put_text(&url, "/");
    put_escaped(&url, path, 1);
    return finish_url(&url);
}

// --- requests ------------------------------------------------------------------------------------

static enum berth_status no_memory(struct berth_error *error) {
    return error_no_memory(error, 0, "a listing of the hub");
}

// Downloads a page of the API; the caller frees document->text. `name` is what messages call it.
static enum berth_status download_page(const struct hub *hub, const char *name, const char *url,
                                       struct document *document, struct http_response *response,
                                       struct berth_error *error) {
    struct http_request request = {.url = url, .token = hub->token};
    *document = (struct document){.name = name, .limit = PAGE_LIMIT};
    if (!http_same_origin(url, hub->endpoint)) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: the next page of the hub's listing is on another host: refused",
                         hub->id);
    }
    return download_text(hub->net, &request, document, response, error);
}

static enum berth_status request_commit(const struct hub *hub, const char *revision,
                                        struct hub_listing *listing, struct berth_error *error) {
    char *url = api_url(hub, "revision", revision, ""), name[NAME_LIMIT];
    struct document document = {.text = NULL};
    snprintf(name, sizeof name, "%s, revision %s", hub->id, revision);
    struct http_response response;
    enum berth_status status =
        url == NULL ? no_memory(error) : download_page(hub, name, url, &document, &response, error);
    if (status == BERTH_OK) {
        status = hub_listing_read_commit(listing, hub->id, document.text, document.length, error);
    }
    memory_free(document.text);
    memory_free(url);
    return status;
}

// Requests one page; *next gets the URL of the next one, or NULL.
static enum berth_status request_page(const struct hub *hub, const char *url,
                                      struct hub_listing *listing, char **next,
                                      struct berth_error *error) {
    const size_t before = listing->entries;
    struct document document;
    struct http_response response;
    *next = NULL;
    enum berth_status status = download_page(hub, hub->id, url, &document, &response, error);
    if (status == BERTH_OK) {
        status = hub_listing_add(listing, hub->id, document.text, document.length, error);
    }
    memory_free(document.text);
    if (status == BERTH_OK && listing->entries > ENTRIES_LIMIT) {
        status = error_set(error, BERTH_BAD_DATA,
                           "%s: the hub lists more than %zu files and folders: refused", hub->id,
                           ENTRIES_LIMIT);
    }
    // An empty page is the last one. Of many folders, a page may have nothing else.
    if (status == BERTH_OK && response.next[0] != '\0' && listing->entries > before) {
        *next = memory_string(response.next);
        status = *next == NULL ? no_memory(error) : BERTH_OK;
    }
    return status;
}

static enum berth_status request_files(const struct hub *hub, struct hub_listing *listing,
                                       struct berth_error *error) {
    char *url = api_url(hub, "tree", listing->commit, "?recursive=true"), *landmark = NULL;
    enum berth_status status = url == NULL ? no_memory(error) : BERTH_OK;
    for (size_t page = 1; status == BERTH_OK && url != NULL; page++) {
        char *next;
        status = request_page(hub, url, listing, &next, error);
        if ((page & (page - 1)) == 0) { // pages 1, 2, 4, ...: any cycle returns to one of them
            memory_free(landmark);
            landmark = url;
        } else {
            memory_free(url);
        }
        url = next;
        if (status == BERTH_OK && url != NULL && strcmp(url, landmark) == 0) {
            status = error_set(error, BERTH_BAD_DATA,
                               "%s: the pages of the hub's listing form a cycle: refused", hub->id);
        }
    }
    memory_free(landmark);
    memory_free(url);
    return status;
}

enum berth_status hub_list(const struct hub *hub, const char *revision, struct hub_listing *listing,
                           struct berth_error *error) {
    *listing = (struct hub_listing){.count = 0};
    enum berth_status status = request_commit(hub, revision, listing, error);
    if (status == BERTH_OK) {
        status = request_files(hub, listing, error);
    }
    if (status == BERTH_OK) {
        status = hub_listing_sort(listing, hub->id, error);
    }
    if (status != BERTH_OK) {
        hub_listing_done(listing);
    }
    return status;
}
