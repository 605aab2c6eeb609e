// SPDX-License-Identifier: Apache-2.0
// Reads those headers of a response that downloads depend on: size, range, etag, digest, link,
// location. http.c calls it for each line that arrives; what follows from them is decided by
// download.c and hub.c.
#include "fetch/http_headers.h"

#include "core/caseless.h"
#include "core/number.h"

#include <stdio.h>
#include <string.h>

static void parse_etag(char *to, size_t size, const char *value) {
    size_t length = strlen(value);
    int quoted = length >= 2 && value[0] == '"' && value[length - 1] == '"';
    if (strncmp(value, "W/", 2) == 0 || length - (quoted ? 2 : 0) >= size) {
        return; // weak: does not identify the bytes
    }
    snprintf(to, size, "%.*s", (int)(length - (quoted ? 2 : 0)), value + quoted);
}

// A size in bytes, digits only. A duplicate header is refused even with the same value: two ends of
// a connection that disagree about the body's end allow request smuggling.
static void parse_size(struct http_response *response, int64_t *size, const char *value,
                       const char *header) {
    const size_t length = strlen(value);
    if (*size != -1 || length == 0 || strspn(value, "0123456789") != length ||
        !number_parse_integer(value, size)) {
        response->invalid_header = header;
    }
}

static void parse_length(struct http_response *response, const char *value) {
    parse_size(response, &response->length, value, "Content-Length");
}

// "bytes 100-199/200", "bytes */200", "bytes 100-199/*"
static void parse_range(struct http_response *response, const char *value) {
    static const char header[] = "Content-Range";
    char first[32] = "", total[32] = "";
    if (sscanf(value, "bytes %30[0-9]-%*[0-9]/%30[0-9*]", first, total) == 2) {
        parse_size(response, &response->range_first, first, header);
    } else if (sscanf(value, "bytes */%30[0-9]", total) != 1) {
        response->invalid_header = header;
        return;
    }
    if (strcmp(total, "*") != 0) {
        parse_size(response, &response->range_total, total, header);
    }
}

// <https://...>; rel="next", perhaps among others
static void parse_link(struct http_response *response, const char *value) {
    for (const char *at = strchr(value, '<'); at != NULL; at = strchr(at + 1, '<')) {
        const char *end = strchr(at, '>');
        if (end == NULL) {
            return;
        }
        size_t length = (size_t)(end - at) - 1;
        if (strncmp(end + 1, "; rel=\"next\"", 12) == 0 && length < sizeof response->next) {
            snprintf(response->next, sizeof response->next, "%.*s", (int)length, at + 1);
        }
    }
}

static void parse_own_etag(struct http_response *response, const char *value) {
    parse_etag(response->etag, sizeof response->etag, value);
}

static void parse_linked_etag(struct http_response *response, const char *value) {
    parse_etag(response->linked_etag, sizeof response->linked_etag, value);
}

static void parse_linked_size(struct http_response *response, const char *value) {
    response->linked_size = -1; // every redirect may set it
    parse_size(response, &response->linked_size, value, "X-Linked-Size");
}

static void parse_commit(struct http_response *response, const char *value) {
    snprintf(response->commit, sizeof response->commit, "%s", value);
}

static void parse_type(struct http_response *response, const char *value) {
    snprintf(response->type, sizeof response->type, "%s", value);
}

static void parse_location(struct http_response *response, const char *value) {
    snprintf(response->location, sizeof response->location, "%s", value);
}

static void parse_encoding(struct http_response *response, const char *value) {
    response->encoded = !caseless_equal(value, "identity");
}

static const struct {
    const char *name;
    void (*parse)(struct http_response *response, const char *value);
} headers[] = {{"content-length", parse_length},
               {"content-range", parse_range},
               {"content-type", parse_type},
               {"content-encoding", parse_encoding},
               {"etag", parse_own_etag},
               {"x-linked-etag", parse_linked_etag},
               {"x-linked-size", parse_linked_size},
               {"x-repo-commit", parse_commit},
               {"link", parse_link},
               {"location", parse_location}};

void http_reset_response(struct http_response *response) {
    response->status = 0;
    response->length = response->range_first = response->range_total = -1;
    response->etag[0] = response->type[0] = response->next[0] = response->location[0] = '\0';
    response->encoded = 0;
    response->invalid_header = NULL;
}

void http_parse_header(struct http_response *response, const char *bytes, size_t length) {
    char line[HTTP_HEADER_SIZE];
    if (length >= sizeof line) {
        // A part of a URL would lead elsewhere. No other header that is needed here is so long.
        static const char *const names[] = {"Link", "Location"};
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            const size_t header = strlen(names[i]);
            if (caseless_equal_bytes(bytes, names[i], header) && bytes[header] == ':') {
                response->invalid_header = names[i];
            }
        }
        return;
    }
    snprintf(line, sizeof line, "%.*s", (int)length, bytes);
    size_t end = strcspn(line, "\r\n");
    while (end > 0 && (line[end - 1] == ' ' || line[end - 1] == '\t')) {
        end--;
    }
    line[end] = '\0';
    if (strncmp(line, "HTTP/", 5) == 0) { // also the one after "100 Continue" or a proxy's answer
        http_reset_response(response);
        return;
    }
    size_t name = strcspn(line, ":");
    const char *value = line + name + (line[name] == ':');
    value += strspn(value, " \t");
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        if (strlen(headers[i].name) == name && caseless_equal_bytes(line, headers[i].name, name)) {
            headers[i].parse(response, value);
        }
    }
}
