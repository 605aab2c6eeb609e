// SPDX-License-Identifier: Apache-2.0
// The tests' HTTP server. It closes each connection after one response, which keeps it small.
#include "server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUEST_SIZE 32768
#define HEADERS_SIZE 20480 // of a route's own
#define URLS 16

struct server {
    int listener, port;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct server_route *routes;
    int *uses; // of the route that currently answers for routes[i]
    size_t count;
    char *log;
    size_t log_length;
    int released, stopping, connections;
};

struct connection {
    struct server *server;
    int socket;
};

// --- requests -----------------------------------------------------------------------------------

// Reads up to the empty line; 0 when the client disconnected.
static int read_request(int socket, char request[REQUEST_SIZE]) {
    size_t length = 0;
    while (length + 1 < REQUEST_SIZE) {
        ssize_t count = read(socket, request + length, REQUEST_SIZE - 1 - length);
        if (count <= 0) {
            return 0;
        }
        length += (size_t)count;
        request[length] = '\0';
        if (strstr(request, "\r\n\r\n") != NULL) {
            return 1;
        }
    }
    return 0;
}

// Copies the value of a header, the text after "name: "; 0 when it is missing.
static int header(const char *request, const char *name, char value[512]) {
    char line[64];
    snprintf(line, sizeof line, "\r\n%s: ", name);
    const char *at = strcasestr(request, line);
    if (at == NULL) {
        return 0;
    }
    at += strlen(line);
    snprintf(value, 512, "%.*s", (int)strcspn(at, "\r"), at);
    return 1;
}

static void remember(struct server *server, const char *request) {
    size_t length = strlen(request);
    server->log = realloc(server->log, server->log_length + length + 1);
    memcpy(server->log + server->log_length, request, length + 1);
    server->log_length += length;
}

// The route that answers this request, or a 404.
static struct server_route choose(struct server *server, const char *request) {
    char path[REQUEST_SIZE];
    struct server_route chosen = {.status = 404, .body = "not here\n", .length = 9};
    const char *at = request + strcspn(request, " ");
    at += strspn(at, " ");
    snprintf(path, sizeof path, "%.*s", (int)strcspn(at, " \r\n"), at);
    pthread_mutex_lock(&server->mutex);
    remember(server, request);
    for (size_t i = 0; i < server->count; i++) {
        struct server_route *route = &server->routes[i];
        if (strcmp(route->path, path) == 0) {
            chosen = *route;
            if (route->times > 0 && ++server->uses[i] == route->times) {
                const char *same = route->path;
                *route = *route->then;
                route->path = same;
                server->uses[i] = 0;
            }
            break;
        }
    }
    pthread_mutex_unlock(&server->mutex);
    return chosen;
}

// --- responses ----------------------------------------------------------------------------------

static int send_all(int socket, const void *bytes, size_t length) {
    const char *at = bytes;
    while (length > 0) {
        ssize_t count = send(socket, at, length, MSG_NOSIGNAL);
        if (count <= 0) {
            return 0;
        }
        at += count;
        length -= (size_t)count;
    }
    return 1;
}

static void hold(struct server *server) {
    pthread_mutex_lock(&server->mutex);
    while (!server->released && !server->stopping) {
        pthread_cond_wait(&server->changed, &server->mutex);
    }
    pthread_mutex_unlock(&server->mutex);
}

// The part of the body to send, and the status.
struct slice {
    int status;
    size_t first, length;
};

static struct slice slice_of(const struct server_route *route, const char *request) {
    struct slice slice = {route->status != 0 ? route->status : 200, 0, route->length};
    char range[512], condition[512];
    if (route->status != 0) {
        return slice;
    }
    if (header(request, "If-None-Match", condition) && route->etag != NULL &&
        strcmp(condition, route->etag) == 0) {
        return (struct slice){304, 0, 0};
    }
    unsigned long long first = 0;
    if (route->no_ranges || !header(request, "Range", range) ||
        sscanf(range, "bytes=%llu-", &first) != 1 ||
        (header(request, "If-Range", condition) &&
         (route->etag == NULL || strcmp(condition, route->etag) != 0))) {
        return slice;
    }
    if (first >= route->length) {
        return (struct slice){416, 0, 0};
    }
    first = (unsigned long long)((int64_t)first + route->range_shift);
    return (struct slice){206, (size_t)first, route->length - (size_t)first};
}

// Adds the route's headers, with (one) "@PORT@" replaced by the server's port.
static void own_headers(const struct server *server, const struct server_route *route,
                        char headers[HEADERS_SIZE]) {
    const char *given = route->headers != NULL ? route->headers : "";
    const char *mark = strstr(given, "@PORT@");
    if (mark == NULL) {
        snprintf(headers, HEADERS_SIZE, "%s", given);
    } else {
        snprintf(headers, HEADERS_SIZE, "%.*s%d%s", (int)(mark - given), given, server->port,
                 mark + strlen("@PORT@"));
    }
}

// Sends the head, except its final empty line, and a header of `bytes` bytes.
static int send_padding(int socket, int *used, char *head, size_t bytes) {
    char piece[1024];
    int good = send_all(socket, head, (size_t)*used - 2) && send_all(socket, "X-Padding: ", 11);
    memset(piece, 'x', sizeof piece);
    for (size_t sent = 0; good && sent < bytes; sent += sizeof piece) {
        good = send_all(socket, piece, sizeof piece);
    }
    *used = snprintf(head, 5, "\r\n\r\n");
    return good;
}

static int send_head(const struct server *server, int socket, const struct server_route *route,
                     const struct slice *slice) {
    char head[REQUEST_SIZE], range[128] = "", length[64] = "", etag[300] = "",
                             headers[HEADERS_SIZE];
    own_headers(server, route, headers);
    if (strstr(headers, "Content-Range:") != NULL) {
        range[0] = '\0'; // the route sets its own
    } else if (slice->status == 206) {
        snprintf(range, sizeof range, "Content-Range: bytes %lld-%zu/%zu\r\n",
                 (long long)slice->first, route->length - 1, route->length);
    } else if (slice->status == 416) {
        snprintf(range, sizeof range, "Content-Range: bytes */%zu\r\n", route->length);
    }
    if (!route->chunked) {
        snprintf(length, sizeof length, "Content-Length: %lld\r\n",
                 route->told_length > 0 ? (long long)route->told_length : (long long)slice->length);
    }
    if (route->etag != NULL) {
        snprintf(etag, sizeof etag, "ETag: %s\r\n", route->etag);
    }
    int used =
        snprintf(head, sizeof head,
                 "HTTP/1.1 %d Answer\r\nConnection: close\r\nContent-Type: %s\r\n"
                 "%s%s%s%s%s\r\n",
                 slice->status, route->type != NULL ? route->type : "application/octet-stream",
                 range, length, etag, headers, route->chunked ? "" : "Accept-Ranges: bytes\r\n");
    return (route->padding == 0 || send_padding(socket, &used, head, route->padding)) &&
           send_all(socket, head, (size_t)used);
}

static void respond(struct server *server, int socket, const struct server_route *route,
                    const char *request) {
    struct slice slice = slice_of(route, request);
    const char *body = (const char *)route->body + slice.first;
    size_t length = slice.length;
    if (route->cut_after > 0 && (size_t)route->cut_after < length) {
        length = (size_t)route->cut_after;
    }
    const int holds = route->hold_after > 0 && (size_t)route->hold_after < length;
    const size_t before = holds ? (size_t)route->hold_after : length;
    if (!send_head(server, socket, route, &slice) || !send_all(socket, body, before)) {
        return;
    }
    if (holds) {
        hold(server);
        send_all(socket, body + before, length - before);
    }
}

// --- connections --------------------------------------------------------------------------------

static void *serve(void *context) {
    struct connection connection = *(struct connection *)context;
    struct server *server = connection.server;
    char request[REQUEST_SIZE];
    free(context);
    if (read_request(connection.socket, request)) {
        struct server_route route = choose(server, request);
        respond(server, connection.socket, &route, request);
    }
    shutdown(connection.socket, SHUT_WR);
    close(connection.socket);
    pthread_mutex_lock(&server->mutex);
    server->connections--;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->mutex);
    return NULL;
}

static void accept_one(struct server *server, int socket) {
    struct connection *connection = malloc(sizeof *connection);
    *connection = (struct connection){server, socket};
    pthread_t thread;
    pthread_mutex_lock(&server->mutex);
    server->connections++;
    pthread_mutex_unlock(&server->mutex);
    pthread_create(&thread, NULL, serve, connection);
    pthread_detach(thread);
}

static void *listen_on(void *context) {
    struct server *server = context;
    for (;;) {
        int socket = accept(server->listener, NULL, NULL);
        if (socket < 0) {
            return NULL;
        }
        accept_one(server, socket);
    }
}

// --- the server ---------------------------------------------------------------------------------

struct server *server_start(const struct server_route *routes, size_t count) {
    struct server *server = calloc(1, sizeof *server);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    server->routes = malloc(count * sizeof *routes);
    memcpy(server->routes, routes, count * sizeof *routes);
    server->uses = calloc(count, sizeof *server->uses);
    server->count = count;
    server->log = calloc(1, 1);
    pthread_mutex_init(&server->mutex, NULL);
    pthread_cond_init(&server->changed, NULL);
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(server->listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(server->listener, 64) != 0 ||
        getsockname(server->listener, (struct sockaddr *)&address, &size) != 0 ||
        pthread_create(&server->thread, NULL, listen_on, server) != 0) {
        perror("server");
        exit(1);
    }
    server->port = ntohs(address.sin_port);
    return server;
}

int server_port(const struct server *server) {
    return server->port;
}

const char *server_url(const struct server *server, const char *path) {
    static char urls[URLS][512];
    static unsigned next;
    char *url = urls[next++ % URLS];
    snprintf(url, sizeof urls[0], "http://127.0.0.1:%d%s", server->port, path);
    return url;
}

void server_release(struct server *server) {
    pthread_mutex_lock(&server->mutex);
    server->released = 1;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->mutex);
}

char *server_log(struct server *server) {
    pthread_mutex_lock(&server->mutex);
    char *log = strdup(server->log);
    pthread_mutex_unlock(&server->mutex);
    return log;
}

size_t server_count(struct server *server, const char *part) {
    char *log = server_log(server);
    size_t count = 0;
    for (char *at = log, *end; (end = strstr(at, "\r\n\r\n")) != NULL; at = end + 4) {
        end[2] = '\0';
        count += strstr(at, part) != NULL;
    }
    free(log);
    return count;
}

void server_stop(struct server *server) {
    pthread_mutex_lock(&server->mutex);
    server->stopping = 1;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->mutex);
    shutdown(server->listener, SHUT_RDWR); // ends accept
    pthread_join(server->thread, NULL);
    close(server->listener);
    pthread_mutex_lock(&server->mutex);
    while (server->connections > 0) {
        pthread_cond_wait(&server->changed, &server->mutex);
    }
    pthread_mutex_unlock(&server->mutex);
    pthread_mutex_destroy(&server->mutex);
    pthread_cond_destroy(&server->changed);
    free(server->routes);
    free(server->uses);
    free(server->log);
    free(server);
}
