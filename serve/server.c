// SPDX-License-Identifier: Apache-2.0
// The life of a server: opens the address, the queue and the models, tells the service manager when
// it is ready, waits for signals, drains what is running, and closes everything. cli/serve.c calls
// it and gets back the exit status. Requests come in by http.c and are answered by routes.c and
// run.c, on other threads.
#include "serve/server.h"

#include "core/clock.h"
#include "core/file.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/thread.h"
#include "serve/state.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define TICK_NANOSECONDS 100000000
#define PEM_MAX ((size_t)1 << 20)
#define LARGE_BLOCK (256 << 10)
#define TRIM_SECONDS 10
#define REFUSAL_SECONDS 0.5
#define FIRST_PASSED_DESCRIPTOR 3

static const int signals[] = {SIGTERM, SIGINT, SIGHUP};

// --- the service manager (systemd) ---------------------------------------------------------------

// Sends "READY=1" or the like to the socket NOTIFY_SOCKET, if there is one.
static void notify_manager(const char *state) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t length = path != NULL ? strlen(path) : 0;
    if (length == 0 || length >= sizeof address.sun_path) {
        return;
    }
    memcpy(address.sun_path, path, length);
    if (*path == '@') { // an abstract name
        address.sun_path[0] = '\0';
    }
    const int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor >= 0) {
        (void)sendto(descriptor, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address,
                     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
        close(descriptor);
    }
}

// Sets *listener to the listening socket that was passed to this process (LISTEN_FDS); -1: none.
// BERTH_CONFIG: several were.
static enum berth_status notify_listener(int *listener, struct berth_error *error) {
    const char *process = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    int64_t pid = 0, sockets = 0;
    *listener = -1;
    if (process == NULL || count == NULL || !number_parse_integer(process, &pid) ||
        !number_parse_integer(count, &sockets) || pid != getpid() || sockets < 1) {
        return BERTH_OK;
    }
    if (sockets > 1) {
        return error_set(error, BERTH_CONFIG,
                         "LISTEN_FDS: the service manager passed %s sockets; expected one", count);
    }
    fcntl(FIRST_PASSED_DESCRIPTOR, F_SETFD, FD_CLOEXEC);
    fcntl(FIRST_PASSED_DESCRIPTOR, F_SETFL, fcntl(FIRST_PASSED_DESCRIPTOR, F_GETFL) | O_NONBLOCK);
    *listener = FIRST_PASSED_DESCRIPTOR;
    return BERTH_OK;
}

// --- loading -------------------------------------------------------------------------------------

// A thread that loads the models, and again whenever that is requested.
struct loader {
    pthread_t thread;
    struct server *server;
    size_t loaded; // models
    enum berth_status status;
    struct berth_error error;
    atomic_int has_failed; // to load them for the first time
};

// After a reload, a model that could not be opened again is still the old one.
static void report_reload(const struct loader *loader) {
    const struct server *server = loader->server;
    if (loader->status == BERTH_OK) {
        log_note(&server->settings->log, "the models were reloaded");
    } else if (loader->loaded == 0) {
        log_warning(&server->settings->log,
                    "the models were not reloaded, and the old ones stay in use: %s",
                    loader->error.message);
    } else {
        log_warning(
            &server->settings->log,
            "only %zu of %zu models were reloaded, and the old ones of the others stay in use: %s",
            loader->loaded, models_count(server->models), loader->error.message);
    }
}

// Returns 0 if the server is ending.
static int wait_for_reload(struct server *server) {
    const struct timespec tick = {.tv_nsec = TICK_NANOSECONDS};
    while (!atomic_exchange(&server->reload_requested, 0)) {
        if (atomic_load(&server->is_draining)) {
            return 0;
        }
        nanosleep(&tick, NULL);
    }
    notify_manager("RELOADING=1");
    return 1;
}

// If the first load fails, the server ends; if a later one fails, the old models stay.
static void *load(void *context) {
    struct loader *loader = context;
    struct server *server = loader->server;
    do {
        loader->status =
            models_load(server->models, server->settings->log, &loader->loaded, &loader->error);
        if (atomic_load(&server->is_draining)) {
            return NULL;
        }
        if (atomic_load(&server->is_loaded)) {
            report_reload(loader);
        } else if (loader->status == BERTH_OK) {
            atomic_store(&server->is_loaded, 1);
            log_note(&server->settings->log, "ready");
        } else {
            atomic_store(&loader->has_failed, 1);
            return NULL;
        }
        notify_manager("READY=1");
    } while (wait_for_reload(server));
    return NULL;
}

// --- serving -------------------------------------------------------------------------------------

// Large blocks go back to the system when they are freed. By default glibc keeps ever larger ones,
// so that memory would grow with each loading of the models.
static void return_large_blocks(void) {
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK);
#endif
}

// Of small blocks glibc gives back only those at the end of a heap, so that each heap would keep
// the most that it has ever had.
static void return_small_blocks(struct server *server) {
#ifdef __GLIBC__
    const double now = clock_now();
    if (now > server->last_trim + TRIM_SECONDS) {
        (void)malloc_trim(0);
        server->last_trim = now;
    }
#endif
}

// Waits for a signal for a tenth of a second; 0: none came.
static int wait_for_signal(struct server *server, const sigset_t *set) {
    const struct timespec tick = {.tv_nsec = TICK_NANOSECONDS};
    const int number = sigtimedwait(set, NULL, &tick);
    http_tick(server->http);
    return_small_blocks(server);
    return number > 0 ? number : 0;
}

// Until a signal asks to end.
static enum berth_status serve(struct server *server, struct loader *loader, const sigset_t *set,
                               struct berth_error *error) {
    int number = 0;
    while (number != SIGTERM && number != SIGINT) {
        number = wait_for_signal(server, set);
        if (number == SIGHUP) {
            atomic_store(&server->reload_requested, 1);
        }
        if (atomic_load(&loader->has_failed)) {
            return error_copy(error, &loader->error);
        }
    }
    return BERTH_OK;
}

static void wait_until(struct server *server, const sigset_t *set, double end, int while_busy) {
    while (clock_now() < end && (!while_busy || http_busy(server->http) > 0)) {
        const int number = wait_for_signal(server, set);
        if (number == SIGTERM || number == SIGINT) {
            _Exit(128 + number);
        }
    }
}

// Refuses the requests that wait. A thread that is computing cannot be interrupted and
// still needs its model, so in that case the process exits here.
static enum berth_status abort_requests(struct server *server, const sigset_t *set, size_t left,
                                        struct berth_error *error) {
    static const char message[] = "%zu requests were not answered within --grace_seconds";
    atomic_store(&server->is_aborting, 1);
    wait_until(server, set, clock_now() + REFUSAL_SECONDS, 1);
    if (http_busy(server->http) > 0) {
        log_warning(&server->settings->log, message, left);
        _Exit(BERTH_FAILURE);
    }
    return error_set(error, BERTH_FAILURE, message, left);
}

// --- opening -------------------------------------------------------------------------------------

static void log_address(const struct server *server, int is_passed) {
    const struct server_settings *settings = server->settings;
    if (is_passed) {
        log_note(&settings->log, "listening on the socket that the service manager passed");
        return;
    }
    const char *address;
    for (size_t i = 0; (address = http_address(server->http, i)) != NULL; i++) {
        log_note(&settings->log, "listening on %s://%s",
                 settings->certificate_file != NULL ? "https" : "http", address);
    }
    const size_t left_out = http_left_out(server->http);
    if (left_out > 0) {
        log_note(&settings->log, "not listening on %zu further addresses of --host %s", left_out,
                 settings->http.host);
    }
}

static enum berth_status open_http(struct server *server, struct berth_error *error) {
    const struct server_settings *settings = server->settings;
    const struct http_application application = {.admit = routes_admit,
                                                 .handle = routes_handle,
                                                 .refuse = routes_refuse,
                                                 .complete = routes_complete,
                                                 .context = server};
    struct http_settings http = settings->http;
    char *certificate = NULL, *key = NULL;
    size_t length;
    enum berth_status status = BERTH_OK;
    if (settings->certificate_file != NULL) {
        status = file_read(settings->certificate_file, PEM_MAX, &certificate, &length, error);
    }
    if (status == BERTH_OK && settings->key_file != NULL) {
        status = file_read(settings->key_file, PEM_MAX, &key, &length, error);
    }
    if (status == BERTH_OK) {
        status = notify_listener(&http.listener, error);
    }
    http.certificate = certificate;
    http.key = key;
    if (status == BERTH_OK) {
        status = http_start(&http, &application, &server->http, error);
    }
    if (status == BERTH_OK) {
        log_address(server, http.listener >= 0);
    }
    memory_free(certificate);
    memory_free(key);
    return status;
}

static enum berth_status open_parts(struct server *server, struct berth_error *error) {
    static queue_work *const work[QUEUE_LANES] = {
        [QUEUE_READ] = routes_read, [QUEUE_RUN] = run_batch, [QUEUE_LONG] = run_batch};
    const struct server_settings *settings = server->settings;
    TRY(access_open(&server->access, settings->api_key_file, settings->allowed_hosts,
                    settings->cors_origin, error));
    TRY(request_log_open(&server->requests, settings->access_log, settings->log, error));
    TRY(models_open(settings->models, settings->model_count, settings->config, &server->models,
                    error));
    TRY(metrics_open(settings->model_count, &server->metrics, error));
    TRY(queue_open(settings->model_count, &settings->queue, work, server, &server->queue, error));
    return open_http(server, error);
}

static enum berth_status serve_until_stopped(struct server *server, const sigset_t *set,
                                             struct berth_error *error) {
    struct loader loader = {.server = server};
    enum berth_status status = open_parts(server, error);
    if (status == BERTH_OK) {
        status = thread_open(&loader.thread, load, &loader, error);
    }
    const int is_loading = status == BERTH_OK;
    if (is_loading) {
        status = serve(server, &loader, set, error);
    }
    if (status == BERTH_OK) {
        // Readiness fails first, so that a load balancer stops sending; requests that arrive until
        // then are still answered.
        const struct server_settings *settings = server->settings;
        atomic_store(&server->is_draining, 1);
        notify_manager("STOPPING=1");
        log_note(&settings->log, "shutting down");
        wait_until(server, set, clock_now() + settings->drain_seconds, 0);
        http_stop_accepting(server->http);
        wait_until(server, set, clock_now() + settings->grace_seconds, 1);
        const size_t left = http_busy(server->http);
        status = left == 0 ? BERTH_OK : abort_requests(server, set, left, error);
    }
    // From here on a signal ends the process, which may still be waiting for models to load.
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        (void)signal(signals[i], SIG_DFL);
    }
    pthread_sigmask(SIG_UNBLOCK, set, NULL);
    atomic_store(&server->is_aborting, 1);
    queue_end(server->queue);
    if (is_loading) {
        pthread_join(loader.thread, NULL);
    }
    return status;
}

enum berth_status server_run(const struct server_settings *settings, struct berth_error *error) {
    struct server server = {.settings = settings,
                            .requests = {.descriptor = -1},
                            .unknown = {.log = settings->log, .are_refused = settings->is_strict}};
    sigset_t set;
    file_limit_raise();
    return_large_blocks();
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        sigaddset(&set, signals[i]);
    }
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    enum berth_status status = serve_until_stopped(&server, &set, error);
    http_stop(server.http);
    queue_close(server.queue);
    metrics_close(server.metrics);
    models_close(server.models);
    access_done(&server.access);
    request_log_close(&server.requests);
    return status;
}
