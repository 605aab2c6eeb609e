// SPDX-License-Identifier: Apache-2.0
// berth serve: models behind HTTP. Reads the options and how many tokens a batch has, then leaves
// the process to serve/server.c until a signal ends it.
#include "cli.h"

#ifdef BERTH_HAS_SERVE
#include "serve/server.h"
#include "train/machine/cores.h"
#endif

static const struct option_row options[] = {
    {CLI_LIST("model"), .unit = "[NAME=]DIR ...",
     .help = "folder, file of weights or name of a model, and its name in paths (default: the last "
             "component of DIR); may be repeated"},
    {CLI_TEXT("host", "127.0.0.1"), .unit = "ADDRESS",
     .help = "address to listen on, or a name, for all of its addresses; 0.0.0.0 or :: stands for "
             "every address of this machine"},
    {CLI_INTEGER("port", "8080"), BETWEEN(0, 65535), .unit = "N",
     .help = "port to listen on; 0 is a free one, which is printed"},
    {CLI_TEXT("api_key_file", NULL), .unit = "FILE", .shown = "no key is needed",
     .help = "file with the accepted keys (Authorization: Bearer KEY), one per line"},
    {CLI_TEXT("allowed_hosts", NULL), .unit = "NAMES", .shown = "localhost and addresses",
     .help = "host names that the server answers to, separated by commas; * is any"},
    {CLI_TEXT("cors_origin", NULL), .unit = "ORIGINS", .shown = "none",
     .help = "origins, separated by commas, of other sites' pages that may send requests and read "
             "the replies (CORS): https://app.example.org"},
    {CLI_TEXT("access_log", NULL), .unit = "FILE", .shown = "none",
     .help = "append a line of JSON for each request: client, path, status, sizes, time; -: "
             "standard error"},
    {CLI_FLAG("strict_requests"),
     .help = "refuse requests with members that the server does not know, instead of ignoring "
             "them with a note"},
    {CLI_TEXT("tls_cert", NULL), .unit = "FILE", .shown = "plain HTTP",
     .help = "certificate in PEM, with those of its issuers; serves TLS"},
    {CLI_TEXT("tls_key", NULL), .unit = "FILE", .help = "private key of --tls_cert in PEM"},
    {CLI_INTEGER("max_batch_tokens", "0"), BETWEEN(0, 1 << 20), .unit = "N",
     .shown = "0: 512 for each thread, at most 4096",
     .help = "maximum number of tokens in a batch"},
    {CLI_INTEGER("max_batch_delay_us", "0"), BETWEEN(0, 1000000), .unit = "N",
     .help = "microseconds that an idle worker waits for more texts after the first one"},
    {CLI_INTEGER("max_queue", "2048"), BETWEEN(1, 1 << 20), .unit = "N",
     .help = "maximum number of waiting texts, and of the texts of a request; more are refused"},
    {CLI_INTEGER("max_body_bytes", "4194304"), BETWEEN(1024, 512 << 20), .unit = "N",
     .help = "maximum size of a request's body in bytes"},
    {CLI_INTEGER("max_connections", "4096"), BETWEEN(1, 1 << 20), .unit = "N",
     .help = "maximum number of open connections, divided equally among the addresses of --host "
             "(at least 1 each)"},
    {CLI_REAL("header_timeout", "10"), BETWEEN(0.1, 3600), .unit = "SECONDS",
     .help = "time for a request's headers, however slowly they arrive"},
    {CLI_REAL("body_timeout", "30"), BETWEEN(0.1, 3600), .unit = "SECONDS",
     .help = "time for a request's body, and again for the reply to be taken"},
    {CLI_REAL("idle_timeout", "75"), BETWEEN(0.1, 86400), .unit = "SECONDS",
     .help = "time between two requests of a connection"},
    {CLI_REAL("drain_seconds", "1"), BETWEEN(0, 3600), .unit = "SECONDS",
     .help = "after SIGTERM: time in which /health is 503 but requests are still accepted"},
    {CLI_REAL("grace_seconds", "30"), BETWEEN(0, 3600), .unit = "SECONDS",
     .help = "time after that for the requests that are being answered"},
};

#ifdef BERTH_HAS_SERVE
#define THREAD_TOKENS 512
#define BATCH_TOKENS_MAX 4096

// A larger batch is hardly faster for each token, and all of it waits for its end.
static int64_t choose_batch_tokens(const struct cli_call *call) {
    const int64_t asked = cli_integer(call, "max_batch_tokens");
    const int64_t chosen = THREAD_TOKENS * cores_threads((int)call->config.machine.threads);
    return asked > 0 ? asked : chosen < BATCH_TOKENS_MAX ? chosen : BATCH_TOKENS_MAX;
}

static struct server_settings read_options(struct cli_call *call) {
    const struct http_limits limits = {.body_bytes = (size_t)cli_integer(call, "max_body_bytes"),
                                       .header_seconds = cli_real(call, "header_timeout"),
                                       .body_seconds = cli_real(call, "body_timeout"),
                                       .idle_seconds = cli_real(call, "idle_timeout"),
                                       .connections =
                                           (unsigned)cli_integer(call, "max_connections")};
    return (struct server_settings){
        .models = call->list,
        .model_count = call->list_count,
        .config = &call->config,
        .http = {.host = cli_value(call, "host"),
                 .port = (int)cli_integer(call, "port"),
                 .limits = limits},
        .certificate_file = cli_value(call, "tls_cert"),
        .key_file = cli_value(call, "tls_key"),
        .queue = {.items = (size_t)cli_integer(call, "max_queue"),
                  .batch_tokens = choose_batch_tokens(call),
                  .delay_seconds = 1e-6 * (double)cli_integer(call, "max_batch_delay_us")},
        .api_key_file = cli_value(call, "api_key_file"),
        .allowed_hosts = cli_value(call, "allowed_hosts"),
        .cors_origin = cli_value(call, "cors_origin"),
        .access_log = cli_value(call, "access_log"),
        .is_strict = cli_flag(call, "strict_requests"),
        .drain_seconds = cli_real(call, "drain_seconds"),
        .grace_seconds = cli_real(call, "grace_seconds"),
        .log = cli_log(call)};
}

static enum berth_status run_serve(struct cli_call *call, struct berth_error *error) {
    const struct server_settings settings = read_options(call);
    if ((settings.certificate_file == NULL) != (settings.key_file == NULL)) {
        return error_set(error, BERTH_USAGE,
                         "--tls_cert needs --tls_key, and --tls_key needs --tls_cert");
    }
    return server_run(&settings, error);
}
#else
static enum berth_status run_serve(struct cli_call *call, struct berth_error *error) {
    return error_set(error, BERTH_UNAVAILABLE,
                     "this program was built without libmicrohttpd, which `berth serve` needs; "
                     "install libmicrohttpd-dev and configure with -DBERTH_SERVE=ON");
}
#endif

const struct cli_verb cli_serve = {
    .name = "serve",
    .summary = "serve models over HTTP: questions, classes, tags, masked words, embeddings",
    .usage = "--model [NAME=]DIR ... [--host ADDRESS] [--port N] [--api_key_file FILE]",
    .example = "berth serve --model squad-minilm\n"
               "curl localhost:8080 --data '{\"inputs\": {\"question\": \"Where do I live?\",\n"
               "    \"context\": \"I live in Bern.\"}}'\n"
               "berth serve --model qa=squad-minilm --model similar=minilm",
    .notes = "A model answers at /models/NAME and, if it is the only one, at /. The server has the "
             "APIs of Hugging Face, text-embeddings-inference, OpenAI (embeddings) and KServe v2; "
             "http://localhost:8080/ shows a page. Texts of many requests are batched together, "
             "without padding. SIGTERM ends the server once all requests are answered, SIGHUP "
             "reloads the models. doc/serve.md describes the paths.",
    .jobs = JOB_ANSWER | JOB_FILL | JOB_SERVE, // not JOB_EMBED: it would add --comm
    CLI_OWN_OPTIONS(options),
    .required = "model",
    .processes = CLI_ALONE,
    .run = run_serve,
};
