// SPDX-License-Identifier: Apache-2.0
// Tests the library where the system starts no more threads, as under a container's limit: calls
// are refused, where OpenMP would end the process, and succeed once the limit is gone.
#include "api/opened.h"
#include "core/scratch.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define MODEL BERTH_TEST_SOURCE_DIR "/tests/golden/classifier"

enum { THREADS = 3, TEXTS = 5 };

static struct berth_error error;
static const char *const settings[] = {"device", "cpu", "threads", "3", "precision", "fp32", NULL};

// --- the system ---------------------------------------------------------------------------------

static atomic_int room = 1000; // for threads beside those that run

struct start {
    void *(*run)(void *context);
    void *context;
};

static void *run_counted(void *context) {
    const struct start start = *(struct start *)context;
    free(context);
    void *result = start.run(start.context);
    room++;
    return result;
}

// The program's own one, which OpenMP's library calls, too.
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *context) {
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    struct start *start = malloc(sizeof *start);
    *(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
    if (start == NULL || create == NULL || atomic_fetch_sub(&room, 1) <= 0) {
        room++;
        free(start);
        return EAGAIN;
    }
    *start = (struct start){run, context};
    return create(thread, attributes, run_counted, start);
}

// --- calls --------------------------------------------------------------------------------------

static void check_refusal(void) {
    expect_refusal(&error, BERTH_CONFIG, "only 2 of 3 threads can be started");
    error.message[0] = '\0';
}

#define REFUSED(call)                                                                              \
    do {                                                                                           \
        assert_null(call);                                                                         \
        check_refusal();                                                                           \
    } while (0)

static void jobs_are_refused(void **state) {
    const char *text = MODEL "/vocab.txt", *none = scratch("none");
    room = 1;
    REFUSED(berth_open(MODEL, settings, NULL, &error));
    REFUSED(berth_job("train",
                      SETTINGS("task", "answer", "model_name_or_path", MODEL, "train_file", none,
                               "output_dir", none, "device", "cpu", "threads", "3"),
                      NULL, &error));
    REFUSED(berth_job("predict",
                      SETTINGS("task", "answer", "model_name_or_path", MODEL, "predict_file", none,
                               "output_dir", none, "device", "cpu", "threads", "3"),
                      NULL, &error));
    REFUSED(berth_job("vocab", SETTINGS("text", text, "output", scratch("vocab"), "threads", "3"),
                      NULL, &error));
    // As OMP_NUM_THREADS says.
    REFUSED(berth_job("init", SETTINGS("config", "tiny", "output", none), NULL, &error));
    REFUSED(berth_job(
        "prepare", SETTINGS("text", text, "vocab_file", text, "output_dir", none, "threads", "3"),
        NULL, &error));
    REFUSED(berth_job("pack",
                      SETTINGS("input_dir", scratch_folder, "output_dir", none, "threads", "3"),
                      NULL, &error));
    room = 1000;
}

struct caller {
    const struct berth_model *model;
    int room;
    struct berth_error error;
    struct berth_result *found;
};

static void *embed(void *context) {
    static const struct berth_text texts[TEXTS] = {{.text = "red ball"},
                                                   {.text = "the blue coat"},
                                                   {.text = "ben ?"},
                                                   {.text = "anna"},
                                                   {.text = "lamp"}};
    struct caller *caller = context;
    room = caller->room;
    berth_result_free(caller->found);
    caller->found = berth_run(caller->model, "embed", texts, TEXTS, NULL, NULL, &caller->error);
    return NULL;
}

// OpenMP starts threads for each thread of the program that computes.
static void calls_of_other_threads_are_refused(void **state) {
    pthread_t thread;
    struct berth_model *model = open_model(MODEL, settings);
    struct caller own = {.model = model, .room = 1000}, other = {.model = model, .room = 1};
    (void)embed(&own);
    assert_int_equal(own.error.status, BERTH_OK);
    assert_int_equal(pthread_create(&thread, NULL, embed, &other), 0);
    pthread_join(thread, NULL);
    assert_null(other.found);
    expect_refusal(&other.error, BERTH_CONFIG, "only 2 of 3 threads can be started");
    own.room = 1;
    (void)embed(&own); // has its threads
    assert_int_equal(own.error.status, BERTH_OK);
    other.room = 1000;
    room = 1000;
    assert_int_equal(pthread_create(&thread, NULL, embed, &other), 0);
    pthread_join(thread, NULL);
    assert_int_equal(other.error.status, BERTH_OK);
    for (size_t i = 0; i < TEXTS; i++) {
        assert_true(same_found(own.found, i, other.found, i));
    }
    berth_result_free(own.found);
    berth_result_free(other.found);
    berth_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_are_refused),
        cmocka_unit_test(calls_of_other_threads_are_refused),
    };
    setenv("OMP_NUM_THREADS", "3", 1);
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
