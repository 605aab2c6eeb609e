// SPDX-License-Identifier: Apache-2.0
// Measures the tokens per second of one core by encoding the lines of a text file repeatedly.
//
//   bench_tokenizer VOCAB|TOKENIZER.json FILE [SECONDS]
//
// Prints one JSON object: the tokens of one pass, passes, and the tokens per second of the median
// and the best pass. The file is read into memory before the clock starts. The tokens are those of
// text/tokenizer.h.
#include "text/tokenizer.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "format/json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_PASSES 100000

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static enum berth_status encode_lines(const struct tokenizer *tokenizer, const char *text,
                                      size_t length, struct token_list *list, size_t *tokens,
                                      struct berth_error *error) {
    *tokens = 0;
    for (size_t at = 0; at < length;) {
        const char *end = memchr(text + at, '\n', length - at);
        size_t size = (end == NULL ? length : (size_t)(end - text)) - at;
        list->count = 0;
        TRY(tokenizer_encode(tokenizer, text + at, size, list, error));
        *tokens += list->count;
        at += size + 1;
    }
    return BERTH_OK;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static enum berth_status measure(const struct tokenizer *tokenizer, const char *text, size_t length,
                                 double seconds, struct berth_error *error) {
    static double times[MAX_PASSES];
    struct token_list list = {0};
    size_t passes = 0;
    size_t tokens = 0;
    enum berth_status status = encode_lines(tokenizer, text, length, &list, &tokens, error);
    double begin = now();
    while (status == BERTH_OK && passes < MAX_PASSES && (passes == 0 || now() - begin < seconds)) {
        double before = now();
        status = encode_lines(tokenizer, text, length, &list, &tokens, error);
        times[passes++] = now() - before;
    }
    token_list_done(&list);
    if (status == BERTH_OK) {
        qsort(times, passes, sizeof *times, ascending);
        printf("{\"tokens\": %zu, \"bytes\": %zu, \"passes\": %zu, "
               "\"tokens_per_second\": %.0f, \"best_tokens_per_second\": %.0f}\n",
               tokens, length, passes, (double)tokens / times[passes / 2],
               (double)tokens / times[0]);
    }
    return status;
}

static enum berth_status open_tokenizer(const char *path, struct tokenizer **tokenizer,
                                        struct berth_error *error) {
    const struct tokenizer_options options = {.lower_case = 1};
    const struct tokenizer_names names = {.pad = NULL};
    json *object;
    if (!name_has_extension(path, ".json")) {
        return tokenizer_open(path, &options, tokenizer, error);
    }
    TRY(json_read_file(path, &object, error));
    const enum berth_status status =
        tokenizer_open_pipeline(path, object, &names, &options, tokenizer, error);
    json_free(object);
    return status;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: %s VOCAB FILE [SECONDS]\n", argv[0]);
        return BERTH_USAGE;
    }
    struct tokenizer *tokenizer = NULL;
    struct berth_error error;
    char *text = NULL;
    size_t length = 0;
    enum berth_status status = open_tokenizer(argv[1], &tokenizer, &error);
    if (status == BERTH_OK) {
        status = file_read(argv[2], (size_t)1 << 30, &text, &length, &error);
    }
    if (status == BERTH_OK) {
        double seconds = argc > 3 ? strtod(argv[3], NULL) : 3.0;
        status = measure(tokenizer, text, length, seconds, &error);
    }
    if (status != BERTH_OK) {
        fprintf(stderr, "%s: %s\n", argv[0], error.message);
    }
    memory_free(text);
    tokenizer_close(tokenizer);
    return status;
}
