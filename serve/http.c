// SPDX-License-Identifier: Apache-2.0
// Every open connection is in the server's list, with the deadline of its current phase. http_tick
// shuts down the socket of a late one, which libmicrohttpd then sees as a disconnect.
// libmicrohttpd's own timeout measures inactivity, which a slow client never reaches.
//
// libmicrohttpd misses a disconnect that arrives together with the last bytes: epoll reports both
// in one event, and libmicrohttpd does not read again after it has found the bytes. So http_tick
// scans for such connections itself.
//
// A complete request is suspended before the application sees it, and resumed by its reply; so it
// makes no difference which thread replies, and when. What a request asks for is found out by
// routes.c.
#include "serve/http.h"

#include "core/buffer.h"
#include "core/caseless.h"
#include "core/clock.h"
#include "core/memory.h"
#include "serve/listeners.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEADERS_MAX 100
#define TARGET_MAX 8192
#define CONNECTION_MEMORY ((size_t)32 << 10) // of libmicrohttpd, for the headers
#define BODIES_MAX ((size_t)512 << 20)       // of all requests; --max_body_bytes is at most this
#define DISCARDED_MAX (64 << 20)             // of a request that is refused
#define NEVER 1e300
#define SCAN_SECONDS 1.0    // between two scans for clients that have disconnected
#define CLOSING_SECONDS 0.5 // the bytes read last may still complete a request

static const char too_large[] = "the body is larger than --max_body_bytes; send fewer texts in a "
                                "request, or start the server with a larger number";

struct connection {
    struct connection *next, **back; // in the server's list
    int socket;
    int is_receiving; // it is the client's turn to send
    double deadline;
};

struct http_server {
    struct listeners listeners;
    struct MHD_Daemon *daemons[LISTENERS_MAX]; // [listeners.count] each serves in a thread
    struct http_settings settings;
    struct http_application application;
    pthread_mutex_t lock; // of the list and its deadlines; held until all daemons run
    struct connection *connections;
    atomic_size_t busy, body_bytes;
    atomic_int is_stopping;
    atomic_int has_failed; // to start; no request reaches the application
    double last_scan;      // when http_tick last scanned for clients that have disconnected
};

// A request from its first line to the end of its reply.
struct exchange {
    struct http_request request;
    struct http_server *server;
    struct MHD_Connection *mhd;
    struct connection *connection;
    struct buffer body;
    int is_too_long;  // the target
    int has_headers;  // the headers are complete
    int is_refused;   // `reply` is sent once the body has been read
    size_t discarded; // bytes of a refused body
    int is_busy;
    int is_answered;
    struct http_reply reply;
};

// --- connections ---------------------------------------------------------------------------------

static void set_deadline(struct http_server *server, struct connection *connection,
                         int is_receiving, double seconds) {
    if (connection != NULL) {
        pthread_mutex_lock(&server->lock);
        connection->is_receiving = is_receiving;
        connection->deadline = seconds < NEVER ? clock_now() + seconds : NEVER;
        pthread_mutex_unlock(&server->lock);
    }
}

static void begin_connection(struct http_server *server, struct MHD_Connection *mhd,
                             void **socket_context) {
    struct connection *connection = memory_new(sizeof *connection);
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    *socket_context = connection;
    if (connection == NULL || info == NULL) {
        memory_free(connection);
        *socket_context = NULL;
        return;
    }
    *connection = (struct connection){.socket = info->connect_fd, .is_receiving = 1};
    pthread_mutex_lock(&server->lock);
    connection->deadline = clock_now() + server->settings.limits.header_seconds;
    connection->next = server->connections;
    connection->back = &server->connections;
    if (connection->next != NULL) {
        connection->next->back = &connection->next;
    }
    server->connections = connection;
    pthread_mutex_unlock(&server->lock);
}

static void on_connection(void *context, struct MHD_Connection *mhd, void **socket_context,
                          enum MHD_ConnectionNotificationCode code) {
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        begin_connection(context, mhd, socket_context);
    } else {
        // Called before libmicrohttpd closes the socket, so the descriptor cannot have been reused
        // yet.
        struct http_server *server = context;
        struct connection *connection = *socket_context;
        if (connection != NULL) {
            pthread_mutex_lock(&server->lock);
            *connection->back = connection->next;
            if (connection->next != NULL) {
                connection->next->back = connection->back;
            }
            pthread_mutex_unlock(&server->lock);
            memory_free(connection);
        }
    }
}

// Whether the peer has closed its side and all of its bytes were read.
static int peer_has_closed(const struct connection *connection) {
    char byte;
    const ssize_t length = recv(connection->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return length == 0 || (length < 0 && errno == ECONNRESET);
}

void http_tick(struct http_server *server) {
    const double now = clock_now();
    const int scans = now > server->last_scan + SCAN_SECONDS;
    server->last_scan = scans ? now : server->last_scan;
    pthread_mutex_lock(&server->lock);
    for (struct connection *c = server->connections; c != NULL; c = c->next) {
        if (scans && c->is_receiving && c->deadline > now + CLOSING_SECONDS && peer_has_closed(c)) {
            c->deadline = now + CLOSING_SECONDS;
        }
        if (c->deadline < now) {
            shutdown(c->socket, SHUT_RDWR);
            c->deadline = now + SCAN_SECONDS; // this, too, may be missed
        }
    }
    pthread_mutex_unlock(&server->lock);
}

// --- replies -------------------------------------------------------------------------------------

static void add_header(struct MHD_Response *response, const char *name, const char *value) {
    if (value != NULL) {
        (void)MHD_add_response_header(response, name, value);
    }
}

static void add_headers(struct MHD_Response *response, const struct http_reply *reply, int closes) {
    char seconds[16], json_length[24];
    snprintf(seconds, sizeof seconds, "%d", reply->retry_after);
    snprintf(json_length, sizeof json_length, "%zu", reply->json_length);
    add_header(response, "Content-Type", reply->type);
    add_header(response, "Inference-Header-Content-Length",
               reply->json_length > 0 ? json_length : NULL);
    add_header(response, "X-Content-Type-Options", "nosniff");
    add_header(response, "Cache-Control", "no-store");
    // With "no-referrer" a browser would send the page's form with the Origin "null".
    add_header(response, "Referrer-Policy", "same-origin");
    add_header(response, "Content-Security-Policy", *reply->policy != '\0' ? reply->policy : NULL);
    add_header(response, "Allow", reply->allow);
    add_header(response, "WWW-Authenticate", reply->status == 401 ? "Bearer" : NULL);
    add_header(response, "Retry-After", reply->retry_after > 0 ? seconds : NULL);
    add_header(response, "Connection", closes ? "close" : NULL);
    for (size_t i = 0; i < HTTP_MORE_HEADERS && reply->more[i].name != NULL; i++) {
        add_header(response, reply->more[i].name, reply->more[i].value);
    }
}

static enum MHD_Result send_reply(struct exchange *exchange, struct http_reply *reply) {
    struct http_server *server = exchange->server;
    const int closes = reply->closes || atomic_load(&server->is_stopping);
    char *body = reply->body != NULL ? reply->body : memory_string("");
    struct MHD_Response *response =
        MHD_create_response_from_buffer_with_free_callback(reply->length, body, memory_free);
    if (response == NULL) {
        memory_free(body);
        return MHD_NO;
    }
    server->application.complete(server->application.context, &exchange->request, reply);
    add_headers(response, reply, closes);
    set_deadline(server, exchange->connection, 0, server->settings.limits.body_seconds);
    enum MHD_Result result = MHD_queue_response(exchange->mhd, (unsigned)reply->status, response);
    MHD_destroy_response(response);
    return result;
}

// Sends the reply that was made before it could be sent.
static enum MHD_Result send_prepared(struct exchange *exchange) {
    struct http_reply reply = exchange->reply;
    exchange->reply.body = NULL;
    reply.closes |= exchange->is_refused;
    return send_reply(exchange, &reply);
}

// The reply is sent once the body has been read.
static void prepare_refusal(struct exchange *exchange, int status, const char *message) {
    const struct http_application *application = &exchange->server->application;
    exchange->reply =
        application->refuse(application->context, &exchange->request, status, message);
    exchange->is_refused = 1;
}

int http_client_has_left(const struct http_request *request) {
    const struct exchange *exchange = (const struct exchange *)request;
    struct pollfd socket = {.events = POLLRDHUP};
    if (exchange->connection == NULL) {
        return 0;
    }
    socket.fd = exchange->connection->socket;
    return poll(&socket, 1, 0) > 0 && (socket.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void http_answer(struct http_request *request, struct http_reply reply) {
    struct exchange *exchange = (struct exchange *)request;
    exchange->reply = reply;
    exchange->is_answered = 1;
    MHD_resume_connection(exchange->mhd);
}

// --- requests ------------------------------------------------------------------------------------

const char *http_header(const struct http_request *request, const char *name) {
    const struct exchange *exchange = (const struct exchange *)request;
    return MHD_lookup_connection_value(exchange->mhd, MHD_HEADER_KIND, name);
}

void http_client(const struct http_request *request, char address[HTTP_CLIENT_SIZE]) {
    const struct exchange *exchange = (const struct exchange *)request;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *from = info != NULL ? info->client_addr : NULL;
    const socklen_t size = from == NULL || from->sa_family == AF_UNIX ? 0
                           : from->sa_family == AF_INET               ? sizeof(struct sockaddr_in)
                                                                      : sizeof(struct sockaddr_in6);
    if (size == 0 ||
        getnameinfo(from, size, address, HTTP_CLIENT_SIZE, NULL, 0, NI_NUMERICHOST) != 0) {
        address[0] = '\0';
    }
}

static uint64_t client_number(struct MHD_Connection *mhd) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info != NULL ? info->client_addr : NULL;
    uint64_t number = 0;
    if (address != NULL && address->sa_family == AF_INET) {
        number = ((const struct sockaddr_in *)address)->sin_addr.s_addr;
    } else if (address != NULL && address->sa_family == AF_INET6) {
        const struct in6_addr *ipv6 = &((const struct sockaddr_in6 *)address)->sin6_addr;
        const int is_ipv4 = IN6_IS_ADDR_V4MAPPED(ipv6);
        // The first half of an IPv6 address identifies the subscriber.
        memcpy(&number, ipv6->s6_addr + (is_ipv4 ? 12 : 0), is_ipv4 ? 4 : sizeof number);
    }
    return number;
}

// The request line has arrived.
static void *on_target(void *context, const char *target, struct MHD_Connection *mhd) {
    struct http_server *server = context;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct exchange *exchange = memory_array_zeroed(1, sizeof *exchange);
    if (exchange == NULL) {
        return NULL;
    }
    exchange->server = server;
    exchange->mhd = mhd;
    exchange->connection = info != NULL ? info->socket_context : NULL;
    exchange->is_too_long = strlen(target) > TARGET_MAX;
    set_deadline(server, exchange->connection, 1, server->settings.limits.header_seconds);
    return exchange;
}

struct framing {
    int headers, lengths, encodings, hosts;
    int blanks; // names with a blank, as in "Content-Length : 5"
};

static enum MHD_Result count_header(void *context, enum MHD_ValueKind kind, const char *name,
                                    const char *value) {
    struct framing *framing = context;
    framing->headers++;
    framing->lengths += caseless_equal(name, "Content-Length");
    framing->encodings += caseless_equal(name, "Transfer-Encoding");
    framing->hosts += caseless_equal(name, "Host");
    framing->blanks += strpbrk(name, " \t") != NULL;
    return MHD_YES;
}

// The status with which to refuse the request because of its headers; 0: none. A server that
// disagrees with a proxy about where a body ends allows request smuggling, so ambiguous framing is
// refused.
static int check_headers(struct exchange *exchange, const char **message) {
    struct framing framing = {0};
    const char *length = http_header(&exchange->request, "Content-Length");
    const char *encoding = http_header(&exchange->request, "Transfer-Encoding");
    const size_t limit = exchange->server->settings.limits.body_bytes;
    MHD_get_connection_values(exchange->mhd, MHD_HEADER_KIND, count_header, &framing);
    const struct {
        int is_wrong, status;
        const char *message;
    } checks[] = {
        {framing.lengths + framing.encodings > 1 || framing.hosts > 1, 400,
         "the request has more than one Content-Length, Transfer-Encoding or Host"},
        {framing.blanks > 0, 400, "the name of a header contains a blank"},
        {length != NULL && (*length == '\0' || strspn(length, "0123456789") != strlen(length)), 400,
         "Content-Length is not a number"},
        {encoding != NULL && !caseless_equal(encoding, "chunked"), 501,
         "the transfer encoding is not \"chunked\""},
        {framing.headers > HEADERS_MAX, 431, "the request has more than 100 headers"},
        {exchange->is_too_long, 414, "the request target is longer than 8192 bytes"},
        {length != NULL && (strlen(length) > 18 || strtoull(length, NULL, 10) > limit), 413,
         too_large},
    };
    size_t i = 0;
    while (i < sizeof checks / sizeof *checks && !checks[i].is_wrong) {
        i++;
    }
    const int is_wrong = i < sizeof checks / sizeof *checks;
    *message = is_wrong ? checks[i].message : NULL;
    return is_wrong ? checks[i].status : 0;
}

// Whether to read the body of a refused request. A client that finds the connection closed while it
// sends never sees the reply.
static int should_read_body(const struct exchange *exchange) {
    const char *length = http_header(&exchange->request, "Content-Length");
    return http_header(&exchange->request, "Expect") == NULL &&
           (length != NULL ? strlen(length) <= 18 && strtoull(length, NULL, 10) <= DISCARDED_MAX
                           : http_header(&exchange->request, "Transfer-Encoding") != NULL);
}

static enum MHD_Result begin_request(struct exchange *exchange) {
    struct http_server *server = exchange->server;
    const struct http_application *application = &server->application;
    const char *message;
    if (atomic_load(&server->has_failed)) {
        return MHD_NO;
    }
    int status = check_headers(exchange, &message);
    exchange->has_headers = 1;
    exchange->is_busy = 1;
    atomic_fetch_add(&server->busy, 1);
    exchange->request.arrived = clock_now();
    exchange->request.client = client_number(exchange->mhd);
    if (status != 0) {
        prepare_refusal(exchange, status, message);
    } else {
        exchange->is_refused =
            !application->admit(application->context, &exchange->request, &exchange->reply);
    }
    set_deadline(server, exchange->connection, 1, server->settings.limits.body_seconds);
    // With ambiguous framing nothing more is read.
    const int reads_body = (status == 0 || status == 413) && should_read_body(exchange);
    return exchange->is_refused && !reads_body ? send_prepared(exchange) : MHD_YES;
}

// libmicrohttpd accepts a reply only before or after the body, so a body that is too large is read
// to its end, within its deadline.
static enum MHD_Result receive_body(struct exchange *exchange, const char *bytes, size_t *length) {
    struct http_server *server = exchange->server;
    const size_t count = *length;
    *length = 0;
    if (exchange->is_refused) {
        // The connection is closed without a reply when this is too much, which only a body of
        // unknown length can be.
        exchange->discarded += count;
        return exchange->discarded > DISCARDED_MAX + exchange->server->settings.limits.body_bytes
                   ? MHD_NO
                   : MHD_YES;
    }
    if (exchange->body.length + count > server->settings.limits.body_bytes) {
        prepare_refusal(exchange, 413, too_large);
        return MHD_YES;
    }
    if (atomic_fetch_add(&server->body_bytes, count) + count > BODIES_MAX) {
        atomic_fetch_sub(&server->body_bytes, count);
        prepare_refusal(exchange, 503,
                        "the server has no room for another request body; try again later");
        return MHD_YES;
    }
    buffer_put(&exchange->body, bytes, count);
    if (exchange->body.failed) {
        atomic_fetch_sub(&server->body_bytes, count);
    }
    return exchange->body.failed ? MHD_NO : MHD_YES;
}

static enum MHD_Result dispatch(struct exchange *exchange) {
    struct http_server *server = exchange->server;
    if (exchange->is_refused) {
        return send_prepared(exchange);
    }
    buffer_put_byte(&exchange->body, '\0');
    if (exchange->body.failed) {
        return MHD_NO;
    }
    exchange->request.body = exchange->body.bytes;
    exchange->request.body_length = exchange->body.length - 1;
    set_deadline(server, exchange->connection, 0, NEVER);
    MHD_suspend_connection(exchange->mhd);
    server->application.handle(server->application.context, &exchange->request);
    return MHD_YES;
}

// A target may also be a whole URL: "http://host/path".
static const char *path_of(const char *target) {
    const char *host = *target != '/' ? strstr(target, "://") : NULL;
    if (host == NULL) {
        return target;
    }
    const char *path = strchr(host + strlen("://"), '/');
    return path != NULL ? path : "/";
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *mhd, const char *target,
                                  const char *method, const char *version, const char *bytes,
                                  size_t *length, void **request_context) {
    struct exchange *exchange = *request_context;
    if (exchange == NULL) {
        return MHD_NO; // out of memory
    }
    exchange->request.method = method;
    exchange->request.path = path_of(target);
    exchange->request.is_http_1_0 = strcmp(version, MHD_HTTP_VERSION_1_0) == 0;
    if (exchange->is_answered) {
        return send_prepared(exchange);
    }
    return !exchange->has_headers ? begin_request(exchange)
           : *length > 0          ? receive_body(exchange, bytes, length)
                                  : dispatch(exchange);
}

static void on_completed(void *context, struct MHD_Connection *mhd, void **request_context,
                         enum MHD_RequestTerminationCode code) {
    struct exchange *exchange = *request_context;
    struct http_server *server = context;
    if (exchange == NULL) {
        return;
    }
    atomic_fetch_sub(&server->busy, exchange->is_busy);
    atomic_fetch_sub(&server->body_bytes, exchange->body.length - (exchange->request.body != NULL));
    if (code == MHD_REQUEST_TERMINATED_COMPLETED_OK) {
        set_deadline(server, exchange->connection, 1, server->settings.limits.idle_seconds);
    }
    memory_free(exchange->reply.body);
    buffer_done(&exchange->body);
    memory_free(exchange);
    *request_context = NULL;
}

// --- the server ----------------------------------------------------------------------------------

static enum berth_status start_daemon(struct http_server *server, size_t index,
                                      struct berth_error *error) {
    const struct http_settings *settings = &server->settings;
    const unsigned connections = settings->limits.connections / (unsigned)server->listeners.count;
    const int uses_tls = settings->certificate != NULL;
    if (uses_tls && MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES) {
        return error_set(error, BERTH_UNAVAILABLE,
                         "this libmicrohttpd was built without TLS; install one with GnuTLS, or "
                         "leave TLS to a proxy");
    }
    const struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)settings->certificate},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)settings->key},
        {MHD_OPTION_END, 0, NULL}};
    const struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    errno = EAGAIN; // unless the library sets it
    server->daemons[index] = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | (uses_tls ? MHD_USE_TLS : 0), 0,
        NULL, NULL, on_request, server, MHD_OPTION_LISTEN_SOCKET,
        server->listeners.all[index].socket, MHD_OPTION_CONNECTION_LIMIT,
        connections > 0 ? connections : 1, MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_CONNECTION, on_connection, server,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, server, MHD_OPTION_URI_LOG_CALLBACK, on_target,
        server, MHD_OPTION_ARRAY, uses_tls ? tls : none, MHD_OPTION_END);
    if (server->daemons[index] != NULL) {
        return BERTH_OK;
    }
    return uses_tls
               ? error_set(error, BERTH_CONFIG,
                           "cannot start the HTTPS server; check the certificate and key")
               : error_set_errno(error, BERTH_UNAVAILABLE, errno, "cannot start the HTTP server");
}

// Listens on the socket that was passed in the settings, or else opens its own.
static enum berth_status start(struct http_server *server, struct berth_error *error) {
    const struct http_settings *settings = &server->settings;
    if (settings->listener >= 0) {
        server->listeners.all[server->listeners.count++].socket = settings->listener;
    } else {
        TRY(listeners_open(&server->listeners, settings->host, settings->port, error));
    }
    // A daemon serves at once, but begin_connection waits for the lock. So if a later daemon fails,
    // no request has reached the application, and http_stop may be called.
    enum berth_status status = BERTH_OK;
    pthread_mutex_lock(&server->lock);
    for (size_t i = 0; i < server->listeners.count && status == BERTH_OK; i++) {
        status = start_daemon(server, i, error);
    }
    atomic_store(&server->has_failed, status != BERTH_OK);
    pthread_mutex_unlock(&server->lock);
    return status;
}

enum berth_status http_start(const struct http_settings *settings,
                             const struct http_application *application,
                             struct http_server **server, struct berth_error *error) {
    struct http_server *opened = memory_array_zeroed(1, sizeof *opened);
    if (opened == NULL) {
        return error_no_memory(error, sizeof *opened, "a server");
    }
    opened->settings = *settings;
    opened->application = *application;
    pthread_mutex_init(&opened->lock, NULL);
    enum berth_status status = start(opened, error);
    *server = opened;
    if (status != BERTH_OK) {
        http_stop(opened);
        *server = NULL;
    }
    return status;
}

const char *http_address(const struct http_server *server, size_t index) {
    return index < server->listeners.count ? server->listeners.all[index].address : NULL;
}

size_t http_left_out(const struct http_server *server) {
    return server->listeners.left_out;
}

void http_stop_accepting(struct http_server *server) {
    atomic_store(&server->is_stopping, 1);
    for (size_t i = 0; i < server->listeners.count; i++) {
        // The socket is left to http_stop: libmicrohttpd still refers to it.
        (void)MHD_quiesce_daemon(server->daemons[i]);
        // Clients that connect now are refused, instead of waiting for a reply that never comes. A
        // socket of http_settings is not the server's own.
        if (server->settings.listener < 0) {
            (void)shutdown(server->listeners.all[i].socket, SHUT_RDWR);
        }
    }
}

size_t http_busy(const struct http_server *server) {
    return atomic_load(&server->busy);
}

void http_stop(struct http_server *server) {
    if (server == NULL) {
        return;
    }
    for (size_t i = 0; i < server->listeners.count; i++) {
        // A daemon closes its socket, unless it was quiesced.
        struct MHD_Daemon *daemon = server->daemons[i];
        if (daemon != NULL) {
            MHD_stop_daemon(daemon);
        }
        if (daemon == NULL || atomic_load(&server->is_stopping)) {
            close(server->listeners.all[i].socket);
        }
    }
    pthread_mutex_destroy(&server->lock);
    memory_free(server);
}
