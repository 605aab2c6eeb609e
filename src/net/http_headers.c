// SPDX-License-Identifier: Apache-2.0
// The few headers that downloads look at.
#include "net/http_headers.h"

#include "core/number.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static void take_etag(char *to, size_t size, const char *value) {
    size_t length = strlen(value);
    int quoted = length >= 2 && value[0] == '"' && value[length - 1] == '"';
    if (strncmp(value, "W/", 2) == 0 || length - (quoted ? 2 : 0) >= size) {
        return; // weak: says nothing of bytes
    }
    snprintf(to, size, "%.*s", (int)(length - (quoted ? 2 : 0)), value + quoted);
}

static void take_length(struct http_answer *answer, const char *value) {
    number_parse_integer(value, &answer->length);
}

// "bytes 100-199/200", "bytes */200"
static void take_range(struct http_answer *answer, const char *value) {
    char first[32] = "", total[32] = "";
    if (sscanf(value, "bytes %30[0-9]-%*[0-9]/%30[0-9]", first, total) == 2) {
        number_parse_integer(first, &answer->range_first);
    } else if (sscanf(value, "bytes */%30[0-9]", total) != 1) {
        return;
    }
    number_parse_integer(total, &answer->range_total);
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
    number_parse_integer(value, &answer->linked_size);
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

// What one response says of itself goes with the next; what it says of the content stays.
void http_forget_response(struct http_answer *answer) {
    answer->status = 0;
    answer->length = answer->range_first = answer->range_total = -1;
    answer->etag[0] = answer->type[0] = answer->next[0] = answer->location[0] = '\0';
    answer->encoded = 0;
}

void http_take_header(struct http_answer *answer, const char *bytes, size_t length) {
    char line[4096];
    if (length >= sizeof line) {
        return; // none that counts here is so long
    }
    snprintf(line, sizeof line, "%.*s", (int)length, bytes);
    line[strcspn(line, "\r\n")] = '\0';
    if (strncmp(line, "HTTP/", 5) == 0) { // also after "100 Continue" and a proxy's answer
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
