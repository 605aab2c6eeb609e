// SPDX-License-Identifier: Apache-2.0
// HTTP requests through libcurl; no other file includes it.
//
// Leaves out: uploads, cookies, .netrc, compressed bodies, every protocol but http and https.
// download.c and hub.c send their requests through it.
#include "fetch/http.h"

#include "core/caseless.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/utf8.h"
#include "fetch/http_headers.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REDIRECTS_MAX 10
#define DEFAULT_SECONDS 10
#define HEADERS_MAX ((size_t)256 << 10) // maximum bytes of the headers of a response

struct http {
    CURL *curl;
    const atomic_int *stop;
    long connect_seconds; // HF_HUB_ETAG_TIMEOUT
    long stall_seconds;   // HF_HUB_DOWNLOAD_TIMEOUT: time without a byte
};

// A request and its redirects, in progress.
struct exchange {
    struct http *http;
    const char *url; // of the current request
    const struct http_sink *sink;
    struct http_response *response;
    struct berth_error *error;
    enum berth_status status; // of the sink
    int begun;                // sink.begin has been called
    size_t header_bytes;      // of the response
};

// --- opening ------------------------------------------------------------------------------------

static long read_timeout(const char *name) {
    const char *value = getenv(name);
    int64_t seconds;
    int good =
        value != NULL && number_parse_integer(value, &seconds) && seconds > 0 && seconds <= 86400;
    return good ? (long)seconds : DEFAULT_SECONDS;
}

enum berth_status http_open(struct http **http, const atomic_int *stop, struct berth_error *error) {
    struct http *opened = memory_array_zeroed(1, sizeof *opened);
    *http = NULL;
    if (opened == NULL) {
        return error_no_memory(error, sizeof *opened, "a connection");
    }
    opened->stop = stop;
    opened->connect_seconds = read_timeout("HF_HUB_ETAG_TIMEOUT");
    opened->stall_seconds = read_timeout("HF_HUB_DOWNLOAD_TIMEOUT");
    if (curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK) {
        opened->curl = curl_easy_init();
    }
    if (opened->curl == NULL) {
        memory_free(opened);
        return error_set(error, BERTH_INTERNAL, "cannot initialise libcurl");
    }
    *http = opened;
    return BERTH_OK;
}

void http_close(struct http *http) {
    if (http != NULL) {
        curl_easy_cleanup(http->curl);
        curl_global_cleanup();
        memory_free(http);
    }
}

// --- URLs ---------------------------------------------------------------------------------------

// A part of a URL (curl_free); NULL when it is missing or the URL is invalid.
static char *url_part(const char *url, CURLUPart part) {
    CURLU *parsed = curl_url();
    char *text = NULL;
    if (parsed != NULL && curl_url_set(parsed, CURLUPART_URL, url, 0) == CURLUE_OK) {
        curl_url_get(parsed, part, &text, part == CURLUPART_PORT ? CURLU_DEFAULT_PORT : 0);
    }
    curl_url_cleanup(parsed);
    return text;
}

static int same_part(const char *a, const char *b, CURLUPart part) {
    char *of_a = url_part(a, part), *of_b = url_part(b, part);
    int same = of_a != NULL && of_b != NULL && caseless_equal(of_a, of_b);
    curl_free(of_a);
    curl_free(of_b);
    return same;
}

int http_same_origin(const char *a, const char *b) {
    return same_part(a, b, CURLUPART_SCHEME) && same_part(a, b, CURLUPART_HOST) &&
           same_part(a, b, CURLUPART_PORT);
}

static int has_scheme(const char *url, const char *scheme) {
    char *found = url_part(url, CURLUPART_SCHEME);
    int same = found != NULL && caseless_equal(found, scheme);
    curl_free(found);
    return same;
}

int http_is_secure(const char *url) {
    static const char *const hosts[] = {"localhost", "127.0.0.1", "[::1]"};
    char *host = url_part(url, CURLUPART_HOST);
    int local = 0;
    for (size_t i = 0; host != NULL && i < sizeof hosts / sizeof *hosts; i++) {
        local = local || caseless_equal(host, hosts[i]);
    }
    curl_free(host);
    return local || has_scheme(url, "https");
}

enum berth_status http_host(const char *url, char **host, struct berth_error *error) {
    int known = has_scheme(url, "http") || has_scheme(url, "https");
    char *found = known ? url_part(url, CURLUPART_HOST) : NULL;
    *host = found != NULL ? memory_string(found) : NULL;
    enum berth_status status =
        found == NULL || *host != NULL ? BERTH_OK : error_no_memory(error, 0, "a host");
    curl_free(found);
    return status;
}

// --- headers ------------------------------------------------------------------------------------

static enum berth_status refuse_headers(const struct exchange *exchange) {
    return error_set(exchange->error, BERTH_BAD_DATA,
                     "%s: the headers of the response are too long: refused", exchange->url);
}

static size_t on_header(char *bytes, size_t one, size_t length, void *context) {
    struct exchange *exchange = context;
    http_parse_header(exchange->response, bytes, length);
    exchange->header_bytes += length;
    if (exchange->header_bytes > HEADERS_MAX) {
        exchange->status = refuse_headers(exchange);
        return 0;
    }
    if (exchange->response->invalid_header != NULL) {
        exchange->status = error_set(exchange->error, BERTH_BAD_DATA,
                                     "%s: invalid, duplicate or too long %s header from the server",
                                     exchange->url, exchange->response->invalid_header);
        return 0;
    }
    return length;
}

// --- the body -----------------------------------------------------------------------------------

static int is_redirect(const struct http_response *response) {
    long status = response->status;
    return (status == 301 || status == 302 || status == 303 || status == 307 || status == 308) &&
           response->location[0] != '\0';
}

static enum berth_status begin_body(struct exchange *exchange) {
    if (!exchange->begun) {
        exchange->begun = 1;
        exchange->status =
            exchange->sink->begin(exchange->sink->context, exchange->response, exchange->error);
    }
    return exchange->status;
}

static size_t on_body(char *bytes, size_t one, size_t length, void *context) {
    struct exchange *exchange = context;
    curl_easy_getinfo(exchange->http->curl, CURLINFO_RESPONSE_CODE, &exchange->response->status);
    if (is_redirect(exchange->response)) {
        return length;
    }
    if (begin_body(exchange) == BERTH_OK) {
        exchange->status =
            exchange->sink->body(exchange->sink->context, bytes, length, exchange->error);
    }
    return exchange->status == BERTH_OK ? length : CURL_WRITEFUNC_ERROR;
}

static int on_progress(void *context, curl_off_t total, curl_off_t now, curl_off_t up_total,
                       curl_off_t up_now) {
    const struct exchange *exchange = context;
    return exchange->http->stop != NULL && *exchange->http->stop != 0;
}

// --- one request --------------------------------------------------------------------------------

static struct curl_slist *add_header(struct curl_slist *list, int *failed, const char *format,
                                     const char *value) {
    char line[4200];
    if (value == NULL || *failed) {
        return list;
    }
    int length = snprintf(line, sizeof line, format, value);
    struct curl_slist *longer = length < (int)sizeof line ? curl_slist_append(list, line) : NULL;
    *failed = longer == NULL;
    return longer != NULL ? longer : list;
}

static struct curl_slist *make_headers(const struct http_request *request, int *failed) {
    char from[32];
    snprintf(from, sizeof from, "%" PRIu64, request->from);
    const char *range = request->from > 0 ? from : NULL;
    *failed = 0;
    struct curl_slist *list = add_header(NULL, failed, "Accept-Encoding: %s", "identity");
    list = add_header(list, failed, "Authorization: Bearer %s", request->token);
    list = add_header(list, failed, "Range: bytes=%s-", range);
    list = add_header(list, failed, "If-Range: \"%s\"", range != NULL ? request->if_range : NULL);
    return add_header(list, failed, "If-None-Match: \"%s\"", request->if_none_match);
}

// Where systems keep the certificates that they trust, for a libcurl that was not built for one of
// them: Debian, Alpine and Arch; Fedora and what descends from it; SUSE; Alpine without a package.
static const char *certificates_of_system(void) {
    static const char *const files[] = {"/etc/ssl/certs/ca-certificates.crt",
                                        "/etc/pki/tls/certs/ca-bundle.crt",
                                        "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};
    const curl_version_info_data *built = curl_version_info(CURLVERSION_NOW);
    const int has_own = built->cainfo != NULL || built->capath != NULL;
    for (size_t i = 0; !has_own && i < sizeof files / sizeof *files; i++) {
        if (access(files[i], R_OK) == 0) {
            return files[i];
        }
    }
    return NULL;
}

// The certificates set for other programs on this machine, or the system's; NULL: those of libcurl.
static const char *certificates(void) {
    static const char *const names[] = {"CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && value[0] != '\0') {
            return value;
        }
    }
    return certificates_of_system();
}

static void set_options(struct exchange *exchange, const char *url, struct curl_slist *list) {
    CURL *curl = exchange->http->curl;
    curl_easy_reset(curl); // keeps the connections
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "berth/" BERTH_VERSION);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, list);
    if (certificates() != NULL) {
        curl_easy_setopt(curl, CURLOPT_CAINFO, certificates());
    }
    curl_easy_setopt(curl, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, exchange->http->connect_seconds);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, exchange->http->stall_seconds);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, exchange);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, exchange);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, exchange);
}

static int is_transient(long status) {
    return status == 408 || status == 429 || status >= 500;
}

// libcurl reports a header line beyond its limit (100 kB) as out of memory: after the start of the
// response and before its body.
static int is_in_headers(const struct exchange *exchange) {
    curl_off_t first_byte = 0;
    curl_easy_getinfo(exchange->http->curl, CURLINFO_STARTTRANSFER_TIME_T, &first_byte);
    return first_byte > 0 && !exchange->begun;
}

// What to do about it, if that is known.
static const char *remedy_of(CURLcode code) {
    if (code == CURLE_PEER_FAILED_VERIFICATION) {
        return ". Is the server's certificate from an authority that this machine trusts? "
               "SSL_CERT_FILE names another file of certificates";
    }
    if (code == CURLE_SSL_CACERT_BADFILE) {
        return ". Install the certificates of authorities (Debian: ca-certificates), or name "
               "their file in SSL_CERT_FILE";
    }
    // There is no way to the host: its answer is not to blame.
    return code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY ||
                   code == CURLE_COULDNT_CONNECT || code == CURLE_OPERATION_TIMEDOUT
               ? ". Is there a network? Set https_proxy where it needs a proxy, "
                 "HF_ENDPOINT to a mirror of the hub, or copy the files by hand "
                 "(doc/fetch.md)"
               : "";
}

static enum berth_status transfer_failed(struct exchange *exchange, CURLcode code,
                                         const char *url) {
    static const CURLcode permanent[] = {CURLE_URL_MALFORMAT, CURLE_UNSUPPORTED_PROTOCOL,
                                         CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CACERT_BADFILE,
                                         CURLE_WEIRD_SERVER_REPLY};
    exchange->response->is_retryable = is_transient(exchange->response->status);
    if (exchange->status != BERTH_OK) {
        return exchange->status; // the sink has filled the error
    }
    if (code == CURLE_OUT_OF_MEMORY && is_in_headers(exchange)) {
        return refuse_headers(exchange);
    }
    if (code == CURLE_OUT_OF_MEMORY) {
        return error_no_memory(exchange->error, 0, "a connection");
    }
    if (code == CURLE_ABORTED_BY_CALLBACK) {
        return error_set(exchange->error, BERTH_INTERRUPTED, "stopped while downloading %s", url);
    }
    exchange->response->is_retryable = 1;
    for (size_t i = 0; i < sizeof permanent / sizeof *permanent; i++) {
        if (code == permanent[i]) {
            exchange->response->is_retryable = 0;
        }
    }
    return error_set(exchange->error, BERTH_UNAVAILABLE, "%s: %s%s", url, curl_easy_strerror(code),
                     remedy_of(code));
}

static enum berth_status perform(struct exchange *exchange, const struct http_request *request,
                                 const char *url) {
    struct http_request sent = *request;
    int failed;
    if (!http_same_origin(url, request->url)) {
        sent.token = NULL;
    }
    struct curl_slist *list = make_headers(&sent, &failed);
    if (failed) {
        curl_slist_free_all(list);
        return error_no_memory(exchange->error, 0, "a request");
    }
    http_reset_response(exchange->response);
    exchange->url = url;
    exchange->header_bytes = 0;
    set_options(exchange, url, list);
    CURLcode code = curl_easy_perform(exchange->http->curl);
    curl_easy_setopt(exchange->http->curl, CURLOPT_HTTPHEADER, NULL);
    curl_slist_free_all(list);
    curl_easy_getinfo(exchange->http->curl, CURLINFO_RESPONSE_CODE, &exchange->response->status);
    return code == CURLE_OK && exchange->status == BERTH_OK ? BERTH_OK
                                                            : transfer_failed(exchange, code, url);
}

enum berth_status http_follow(const char *from, const char *location, char **to,
                              struct berth_error *error) {
    CURLU *url = curl_url();
    char *target = NULL;
    *to = NULL;
    if (url != NULL && curl_url_set(url, CURLUPART_URL, from, 0) == CURLUE_OK &&
        curl_url_set(url, CURLUPART_URL, location, 0) == CURLUE_OK) {
        curl_url_get(url, CURLUPART_URL, &target, 0);
    }
    curl_url_cleanup(url);
    int good = target != NULL && (has_scheme(target, "https") ||
                                  (has_scheme(target, "http") && !has_scheme(from, "https")));
    if (good) {
        *to = memory_string(target);
    }
    curl_free(target);
    if (good) {
        return *to != NULL ? BERTH_OK : error_no_memory(error, 0, "a URL");
    }
    return error_set(error, BERTH_UNAVAILABLE, "%s redirects to %.*s: refused", from,
                     UTF8_SHOWN(location, 200));
}

enum berth_status http_get(struct http *http, const struct http_request *request,
                           const struct http_sink *sink, struct http_response *response,
                           struct berth_error *error) {
    struct exchange exchange = {.http = http, .sink = sink, .response = response, .error = error};
    *response = (struct http_response){.linked_size = -1};
    char *url = memory_string(request->url);
    enum berth_status status = BERTH_OK;
    for (int redirects = 0; url != NULL && status == BERTH_OK; redirects++) {
        status = perform(&exchange, request, url);
        if (status != BERTH_OK || !is_redirect(response)) {
            break;
        }
        char *next = NULL;
        status = redirects == REDIRECTS_MAX
                     ? error_set(error, BERTH_UNAVAILABLE, "%s: more than %d redirects: refused",
                                 request->url, REDIRECTS_MAX)
                     : http_follow(url, response->location, &next, error);
        memory_free(url);
        url = next;
    }
    if (url == NULL && status == BERTH_OK) {
        status = error_no_memory(error, 0, "a URL");
    }
    memory_free(url);
    // The request ends when its last response is complete, with or without a body.
    if (status == BERTH_OK) {
        exchange.response->is_retryable = is_transient(exchange.response->status);
        return begin_body(&exchange);
    }
    return status;
}

enum berth_status http_refusal(const struct http_response *response, const char *name,
                               struct berth_error *error) {
    long status = response->status;
    if (status == 404 || status == 410) {
        return error_set(error, BERTH_NO_INPUT, "%s: not found (HTTP %ld); check the spelling",
                         name, status);
    }
    if (status == 401 || status == 403) {
        return error_set(error, BERTH_UNAVAILABLE,
                         "%s: access refused (HTTP %ld): the name is wrong, or the repository is "
                         "private or gated; for the latter two set HF_TOKEN or give --token_file",
                         name, status);
    }
    return error_set(error, BERTH_UNAVAILABLE, "%s: the server answered HTTP %ld", name, status);
}
