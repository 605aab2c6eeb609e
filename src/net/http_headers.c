// SPDX-License-Identifier: Apache-2.0
// Parses the headers that downloads need.
#include "net/http_headers.h"

#include "core/number.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static void take_etag(char *to, size_t size, const char *value) {
    size_t length = strlen(value);
    int quoted = length >= 2 && value[0] == '"' && value[length - 1] == '"';
    if (strncmp(value, "W/", 2) == 0 || length - (quoted ? 2 : 0) >= size) {
        return; // weak: does not identify the bytes
    }
    snprintf(to, size, "%.*s", (int)(length - (quoted ? 2 : 0)), value + quoted);
}

// A size in bytes, digits only. A duplicate header is refused even with the same value: two ends of
// a connection that disagree about the body's end allow request smuggling.
static void take_size(struct http_answer *answer, int64_t *size, const char *value,
                      const char *header) {
    const size_t length = strlen(value);
    if (*size != -1 || length == 0 || strspn(value, "0123456789") != length ||
        !number_parse_integer(value, size)) {
        answer->fault = header;
    }
}

static void take_length(struct http_answer *answer, const char *value) {
    take_size(answer, &answer->length, value, "Content-Length");
}

// "bytes 100-199/200", "bytes */200", "bytes 100-199/*"
static void take_range(struct http_answer *answer, const char *value) {
    static const char header[] = "Content-Range";
    char first[32] = "", total[32] = "";
    if (sscanf(value, "bytes %30[0-9]-%*[0-9]/%30[0-9*]", first, total) == 2) {
        take_size(answer, &answer->range_first, first, header);
    } else if (sscanf(value, "bytes */%30[0-9]", total) != 1) {
        answer->fault = header;
        return;
    }
    if (strcmp(total, "*") != 0) {
        take_size(answer, &answer->range_total, total, header);
    }
}

// <https://...>; rel="next", perhaps among others
static void take_link(struct http_answer *answer, const char *value) {
    for (const char *at = strchr(value, '<'); at != NULL; at = strchr(at + 1, '<')) {
        const char *end = strchr(at, '>');
        if (end == NULL) {
            return;
        }
        size_t length = (size_t)(end - at) - 1;
        if (strncmp(end + 1, "; rel=\"next\"", 12) == 0 && length < sizeof answer->next) {
            snprintf(answer->next, sizeof answer->next, "%.*s", (int)length, at + 1);
        }
    }
}

static void take_own_etag(struct http_answer *answer, const char *value) {
    take_etag(answer->etag, sizeof answer->etag, value);
}

static void take_linked_etag(struct http_answer *answer, const char *value) {
    take_etag(answer->linked_etag, sizeof answer->linked_etag, value);
}

static void take_linked_size(struct http_answer *answer, const char *value) {
    answer->linked_size = -1; // every redirect may set it
    take_size(answer, &answer->linked_size, value, "X-Linked-Size");
}

static void take_commit(struct http_answer *answer, const char *value) {
    snprintf(answer->commit, sizeof answer->commit, "%s", value);
}

static void take_type(struct http_answer *answer, const char *value) {
    snprintf(answer->type, sizeof answer->type, "%s", value);
}

static void take_location(struct http_answer *answer, const char *value) {
    snprintf(answer->location, sizeof answer->location, "%s", value);
}

static void take_encoding(struct http_answer *answer, const char *value) {
    answer->encoded = strcasecmp(value, "identity") != 0;
}

static const struct {
    const char *name;
    void (*take)(struct http_answer *answer, const char *value);
} headers[] = {{"content-length", take_length},
               {"content-range", take_range},
               {"content-type", take_type},
               {"content-encoding", take_encoding},
               {"etag", take_own_etag},
               {"x-linked-etag", take_linked_etag},
               {"x-linked-size", take_linked_size},
               {"x-repo-commit", take_commit},
               {"link", take_link},
               {"location", take_location}};

// See http_headers.h.
void http_forget_response(struct http_answer *answer) {
    answer->status = 0;
    answer->length = answer->range_first = answer->range_total = -1;
    answer->etag[0] = answer->type[0] = answer->next[0] = answer->location[0] = '\0';
    answer->encoded = 0;
    answer->fault = NULL;
}

void http_take_header(struct http_answer *answer, const char *bytes, size_t length) {
    char line[4096];
    if (length >= sizeof line) {
        return; // no header needed here is this long
    }
    snprintf(line, sizeof line, "%.*s", (int)length, bytes);
    size_t end = strcspn(line, "\r\n");
    while (end > 0 && (line[end - 1] == ' ' || line[end - 1] == '\t')) {
        end--;
    }
    line[end] = '\0';
    if (strncmp(line, "HTTP/", 5) == 0) { // also the one after "100 Continue" or a proxy's answer
        http_forget_response(answer);
        return;
    }
    size_t name = strcspn(line, ":");
    const char *value = line + name + (line[name] == ':');
    value += strspn(value, " \t");
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        if (strlen(headers[i].name) == name && strncasecmp(line, headers[i].name, name) == 0) {
            headers[i].take(answer, value);
        }
    }
}
