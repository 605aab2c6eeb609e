// SPDX-License-Identifier: Apache-2.0
// Tests the library where the system starts no more threads, as under a container's limit: calls
// are refused, where OpenMP would end the process, and succeed once the limit is gone.
#include "core/calls.h"
#include "core/scratch.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define MODEL BERTH_TEST_SOURCE_DIR "/tests/golden/classifier"

enum { THREADS = 3, TEXTS = 5, SIZE = 16 };

static const struct berth_log silent;
static struct berth_error error;

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

static struct berth_config config_of_threads(void) {
    struct berth_config config;
    berth_config_init(&config);
    config.model_name_or_path = MODEL;
    config.device = "cpu";
    config.threads = THREADS;
    config.precision = BERTH_FP32;
    return config;
}

#define REFUSED(call)                                                                              \
    do {                                                                                           \
        error.message[0] = '\0';                                                                   \
        assert_int_equal(call, BERTH_CONFIG);                                                      \
        assert_non_null(strstr(error.message, "only 2 of 3 threads can be started"));              \
    } while (0)

static void jobs_are_refused(void **state) {
    const char *const texts[] = {MODEL "/vocab.txt"};
    const struct berth_prepare_input input = {.texts = texts, .text_count = 1};
    const struct berth_vocab_settings words = {
        .texts = texts, .text_count = 1, .output = scratch("vocab")};
    struct berth_config config = config_of_threads();
    struct berth_encoder *encoder;
    config.train_file = config.predict_file = config.output_dir = scratch("none");
    config.vocab_file = MODEL "/vocab.txt";
    room = 1;
    REFUSED(berth_encoder_open(&config, silent, &encoder, &error));
    REFUSED(job_train("squad", &config, silent, NULL, NULL, &error));
    REFUSED(job_predict("squad", &config, silent, NULL, NULL, &error));
    REFUSED(berth_vocab_train(&config, &words, silent, NULL, NULL, &error));
    REFUSED(berth_prepare(&config, &input, silent, NULL, NULL, &error));
    REFUSED(berth_pack(&config, scratch_folder, config.output_dir, silent, NULL, NULL, &error));
    REFUSED(berth_init_model("tiny", config.output_dir, 1, &error)); // as OMP_NUM_THREADS says
    room = 1000;
}

struct caller {
    const struct berth_encoder *encoder;
    int room;
    enum berth_status status;
    struct berth_error error;
    float found[TEXTS][SIZE];
};

static void *embed(void *context) {
    static const char *const texts[TEXTS] = {"red ball", "the blue coat", "ben ?", "anna", "lamp"};
    struct caller *caller = context;
    room = caller->room;
    caller->status =
        berth_encoder_embed(caller->encoder, texts, TEXTS, berth_encoder_usual(caller->encoder),
                            caller->found[0], &caller->error);
    return NULL;
}

// OpenMP starts threads for each thread of the program that computes.
static void calls_of_other_threads_are_refused(void **state) {
    const struct berth_config config = config_of_threads();
    struct berth_encoder *encoder;
    pthread_t thread;
    assert_int_equal(berth_encoder_open(&config, silent, &encoder, &error), BERTH_OK);
    struct caller own = {.encoder = encoder, .room = 1000}, other = {.encoder = encoder, .room = 1};
    (void)embed(&own);
    assert_int_equal(own.status, BERTH_OK);
    assert_int_equal(pthread_create(&thread, NULL, embed, &other), 0);
    pthread_join(thread, NULL);
    assert_int_equal(other.status, BERTH_CONFIG);
    assert_non_null(strstr(other.error.message, "only 2 of 3 threads can be started"));
    own.room = 1;
    (void)embed(&own); // has its threads
    assert_int_equal(own.status, BERTH_OK);
    other.room = 1000;
    room = 1000;
    assert_int_equal(pthread_create(&thread, NULL, embed, &other), 0);
    pthread_join(thread, NULL);
    assert_int_equal(other.status, BERTH_OK);
    assert_memory_equal(own.found, other.found, sizeof own.found);
    berth_encoder_close(encoder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_are_refused),
        cmocka_unit_test(calls_of_other_threads_are_refused),
    };
    setenv("OMP_NUM_THREADS", "3", 1);
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
