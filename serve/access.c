// SPDX-License-Identifier: Apache-2.0
// Decides whether a request may be answered: its Host is one that the server has (against DNS
// rebinding), its Origin is allowed, its key is right. routes.c asks before it looks for a path,
// and adds the headers that browsers need; keys and origins are read when the server opens.
#include "serve/access.h"

#include "core/caseless.h"
#include "core/encoding.h"
#include "core/file.h"
#include "core/memory.h"

#include <arpa/inet.h>
#include <string.h>

#define KEY_FILE_MAX ((size_t)64 << 10)
#define NAME_SIZE 256
#define BLANKS " \t"

void access_done(struct access *access) {
    memory_free(access->keys);
}

// Skips the blanks around an entry of *length bytes; *length becomes that of the rest.
static const char *trim(const char *entry, size_t *length) {
    const size_t before = strspn(entry, BLANKS);
    const size_t skipped = before < *length ? before : *length;
    *length -= skipped;
    entry += skipped;
    while (*length > 0 && strchr(BLANKS, entry[*length - 1]) != NULL) {
        (*length)--;
    }
    return entry;
}

// Whether a comma-separated list has the entry, in any letter case.
static int is_listed(const char *list, const char *name) {
    const size_t length = strlen(name);
    while (*list != '\0') {
        const size_t whole = strcspn(list, ",");
        size_t own = whole;
        const char *entry = trim(list, &own);
        if (own == length && caseless_equal_bytes(entry, name, own)) {
            return 1;
        }
        list += whole + (list[whole] == ',');
    }
    return 0;
}

// --- origins -------------------------------------------------------------------------------------

#define SCHEME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-."

// Whether a browser sends such an Origin: a scheme, a host and perhaps a port. "null", which it
// sends for files and for pages in a sandbox, could be any page.
static int is_origin(const char *text, size_t length) {
    const size_t host = strspn(text, SCHEME_CHARACTERS) + 3;
    return length > host && host > 3 && strncmp(text + host - 3, "://", 3) == 0 &&
           strcspn(text + host, "/?#@* \t,") == length - host;
}

static enum berth_status check_origins(const char *origins, struct berth_error *error) {
    while (*origins != '\0') {
        const size_t whole = strcspn(origins, ",");
        size_t length = whole;
        const char *entry = trim(origins, &length);
        if (!is_origin(entry, length)) {
            return error_set(error, BERTH_USAGE,
                             "--cors_origin: expected origins such as https://app.example.org or "
                             "http://localhost:3000, found \"%.*s\"",
                             (int)length, entry);
        }
        origins += whole + (origins[whole] == ',');
    }
    return BERTH_OK;
}

enum berth_status access_open(struct access *access, const char *key_file, const char *hosts,
                              const char *origins, struct berth_error *error) {
    size_t length;
    char *text;
    *access = (struct access){.hosts = hosts != NULL ? hosts : "",
                              .origins = origins != NULL ? origins : ""};
    TRY(check_origins(access->origins, error));
    if (key_file == NULL) {
        return BERTH_OK;
    }
    TRY(file_read(key_file, KEY_FILE_MAX, &access->keys, &length, error));
    TRY(encoding_read_text(key_file, &access->keys, &text, &length, error));
    memmove(access->keys, text, length + 1); // without a byte order mark
    return access->keys[strspn(access->keys, " \t\r\n")] != '\0'
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG, "%s: expected a key on each line, found none",
                           key_file);
}

// The request's Origin if it is one of the origins, else NULL.
static const char *allowed_origin(const struct access *access, const struct http_request *request) {
    const char *origin = http_header(request, "Origin");
    return origin != NULL && is_listed(access->origins, origin) ? origin : NULL;
}

int access_is_preflight(const struct access *access, const struct http_request *request) {
    return strcmp(request->method, "OPTIONS") == 0 && allowed_origin(access, request) != NULL &&
           http_header(request, "Access-Control-Request-Method") != NULL;
}

static void put_header(struct http_reply *reply, const char *name, const char *value) {
    size_t i = 0;
    while (reply->more[i].name != NULL) {
        i++;
    }
    reply->more[i].name = name;
    reply->more[i].value = value;
}

// The headers allow no credentials of a browser. A page sends its key itself, in the header
// Authorization, which must be named, as "*" does not include it.
void access_put_headers(const struct access *access, const struct http_request *request,
                        struct http_reply *reply) {
    const char *origin = allowed_origin(access, request);
    if (*access->origins != '\0') {
        put_header(reply, "Vary", "Origin");
    }
    if (origin == NULL) {
        return;
    }
    put_header(reply, "Access-Control-Allow-Origin", origin);
    if (access_is_preflight(access, request)) {
        put_header(reply, "Access-Control-Allow-Methods", "GET, HEAD, POST");
        put_header(reply, "Access-Control-Allow-Headers", "*, Authorization");
        put_header(reply, "Access-Control-Max-Age", "600");
    } else {
        put_header(reply, "Access-Control-Expose-Headers",
                   "Inference-Header-Content-Length, Retry-After");
    }
}

// --- sites ---------------------------------------------------------------------------------------

// The name in "name", "name:8080", "[::1]:8080"; 0 if it is too long.
static int host_name(const char *host, char name[NAME_SIZE]) {
    const int is_bracketed = *host == '[';
    const char *begin = host + is_bracketed;
    const size_t length = strcspn(begin, is_bracketed ? "]" : ":");
    if (length == 0 || length >= NAME_SIZE) {
        return 0;
    }
    memcpy(name, begin, length);
    name[length] = '\0';
    return 1;
}

static int check_host(const struct access *access, const char *host, const char **message) {
    char name[NAME_SIZE];
    *message = "the request has no valid Host";
    if (host == NULL || !host_name(host, name)) {
        return 400;
    }
    *message = "this Host is not served; add its name to --allowed_hosts";
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1 ||
                   caseless_equal(name, "localhost") || is_listed(access->hosts, "*") ||
                   is_listed(access->hosts, name)
               ? 0
               : 403;
}

int access_check_site(const struct access *access, const struct http_request *request,
                      const char **message) {
    const char *host = http_header(request, "Host"), *origin = http_header(request, "Origin");
    const int is_hostless = host == NULL && request->is_http_1_0; // no browser sends such a request
    const int status = is_hostless ? 0 : check_host(access, host, message);
    if (status != 0) {
        return status;
    }
    const char *site = origin != NULL && host != NULL ? strstr(origin, "://") : NULL;
    *message = "requests from other sites' pages are refused (Origin); --cors_origin allows them";
    return origin == NULL || allowed_origin(access, request) != NULL ||
                   (site != NULL && caseless_equal(site + 3, host))
               ? 0
               : 403;
}

// --- keys ----------------------------------------------------------------------------------------

// Takes the same time wherever the texts differ. The key is not empty.
static int is_same(const char *key, size_t length, const char *given, size_t given_length) {
    unsigned difference = length != given_length;
    for (size_t i = 0; i < given_length; i++) {
        difference |= (unsigned char)given[i] ^ (unsigned char)key[i % length];
    }
    return difference == 0;
}

int access_check_key(const struct access *access, const struct http_request *request,
                     const char **message) {
    const char *given = http_header(request, "Authorization"), *key = access->keys;
    int found = 0;
    *message = "this server requires a key: Authorization: Bearer KEY";
    if (key == NULL) {
        return 0;
    }
    if (given == NULL || !caseless_equal_bytes(given, "Bearer ", 7)) {
        return 401;
    }
    while (*key != '\0') {
        const size_t line = strcspn(key, "\r\n");
        size_t length = line;
        const char *own = trim(key, &length);
        found |= length > 0 && is_same(own, length, given + 7, strlen(given + 7));
        key += line + (key[line] != '\0');
    }
    *message = "the key is not valid";
    return found ? 0 : 401;
}
