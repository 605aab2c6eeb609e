// SPDX-License-Identifier: Apache-2.0
// A program that embeds the library and defines names of its own (clash.c, which test_install.sh
// writes, defines every name that the library uses internally): two threads with a model each, an
// error between them, and a locale that must not change. Prints only the models' output, for
// comparison between runs.
//
//   embedder FOLDER LOCALE [LOCPATH]
//
// The folder contains vocab.txt, a.json and b.json; the models are created in it.
#define _POSIX_C_SOURCE 200809L
#include <berth.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 20, SIZE_LIMIT = 64 };

struct worker {
    char folder[512], vocab[512];
    float first[SIZE_LIMIT];
    size_t size;
    int differs;
};

static void stop(const char *what, const struct berth_error *error) {
    printf("FAILED: %s: %s\n", what, error->message);
    exit(1);
}

static void make_model(const char *folder, const char *name, struct worker *worker) {
    char config[512];
    struct berth_error error;
    snprintf(config, sizeof config, "%s/%s.json", folder, name);
    snprintf(worker->folder, sizeof worker->folder, "%s/%s", folder, name);
    snprintf(worker->vocab, sizeof worker->vocab, "%s/vocab.txt", folder);
    const char *const settings[] = {"config", config, "output", worker->folder, "seed", "7", NULL};
    struct berth_result *made = berth_job("init", settings, NULL, &error);
    if (made == NULL) {
        stop("making a model", &error);
    }
    berth_result_free(made);
}

static void embed_once(struct worker *worker, float *to) {
    static const struct berth_text text = {.text = "hello world 1.5"};
    const char *const settings[] = {"vocab_file", worker->vocab, "threads", "1", NULL};
    struct berth_error error;
    struct berth_model *model = berth_open(worker->folder, settings, NULL, &error);
    struct berth_result *result = berth_run(model, "embed", &text, 1, NULL, NULL, &error);
    const float *row = berth_result_rows(result, 0, NULL, &worker->size);
    if (row == NULL || worker->size > SIZE_LIMIT) {
        stop("embedding", &error);
    }
    memcpy(to, row, worker->size * sizeof *to);
    berth_result_free(result);
    berth_close(model);
    if (berth_open("/nonexistent/model", NULL, NULL, &error) != NULL ||
        error.status != BERTH_NO_INPUT || strstr(error.message, "/nonexistent/model") == NULL) {
        stop("a missing model", &error);
    }
}

static void *work(void *context) {
    struct worker *worker = context;
    float again[SIZE_LIMIT];
    for (int i = 0; i < ROUNDS; i++) {
        embed_once(worker, again);
        worker->differs |= memcmp(again, worker->first, worker->size * sizeof *again) != 0;
    }
    return NULL;
}

int main(int count, char **words) {
    struct worker workers[2] = {0};
    pthread_t threads[2];
    // Not in the environment, because a library that libcurl uses leaks what it makes of it before
    // main.
    if (count == 4) {
        setenv("LOCPATH", words[3], 1);
    }
    if (count < 3 || setlocale(LC_ALL, words[2]) == NULL) {
        puts("FAILED: a folder and a locale that exist, please");
        return 2;
    }
    char *locale = strdup(setlocale(LC_ALL, NULL));
    for (int i = 0; i < 2; i++) {
        make_model(words[1], i == 0 ? "a" : "b", &workers[i]);
        embed_once(&workers[i], workers[i].first);
    }
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, work, &workers[i]);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        printf("%zu numbers, %s:", workers[i].size,
               workers[i].differs ? "different answers with another thread running"
                                  : "the same in a thread");
        for (size_t j = 0; j < workers[i].size; j++) {
            unsigned bits;
            memcpy(&bits, &workers[i].first[j], sizeof bits);
            printf(" %08x", bits);
        }
        puts("");
    }
    if (strcmp(locale, setlocale(LC_ALL, NULL)) != 0) {
        puts("FAILED: the locale was changed");
    }
    free(locale);
    return workers[0].differs || workers[1].differs;
}
