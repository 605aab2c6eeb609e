// SPDX-License-Identifier: Apache-2.0
// Tests embeddings against transformers', with the folder tests/golden/encoder, and with layer
// norms before the sub-layers against PyTorch's, with encoder_preln (dev/goldens/embeddings.py),
// for all batches and numbers of threads.
#include "core/calls.h"
#include "core/harness.h"
#include "core/memory.h"
#include "format/json/json.h"
#include "golden/golden_file.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER BERTH_TEST_SOURCE_DIR "/tests/golden/encoder"
#define FOLDER_PRE BERTH_TEST_SOURCE_DIR "/tests/golden/encoder_preln"
#define TEXTS_MAX 16

struct golden {
    struct safetensors file;
    json *list;
    const char *texts[TEXTS_MAX];
    size_t count, size;
};

static void golden_open(struct golden *golden, const char *embeddings) {
    golden_file_open(&golden->file, embeddings);
    const char *text = safetensors_metadata(&golden->file, "texts");
    assert_int_equal(json_read_memory("texts", text, strlen(text), &golden->list, NULL), BERTH_OK);
    golden->count = json_length(golden->list);
    assert_in_range(golden->count, 1, TEXTS_MAX);
    for (size_t i = 0; i < golden->count; i++) {
        golden->texts[i] = json_text(json_at(golden->list, i));
    }
    golden->size = (size_t)golden_entry(&golden->file, "", "mean")->shape[1];
}

static void golden_close(struct golden *golden) {
    json_free(golden->list);
    safetensors_close(&golden->file);
}

static struct berth_config config_of(const char *folder, int64_t batch,
                                     enum berth_precision precision) {
    struct berth_config config;
    berth_config_init(&config);
    config.model_name_or_path = folder;
    config.max_seq_length = 16;
    config.predict_batch_size = batch;
    config.precision = precision;
    config.threads = 2;
    config.device = "cpu";
    return config;
}

static struct berth_encoder *encoder_open(const char *folder, int64_t batch,
                                          enum berth_precision precision) {
    const struct berth_config config = config_of(folder, batch, precision);
    struct berth_log silent = {0};
    struct berth_encoder *encoder;
    struct berth_error error = {0};
    if (berth_encoder_open(&config, silent, &encoder, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    return encoder;
}

static double farthest(const float *a, const float *b, size_t count) {
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    }
    return most;
}

static void check(const struct golden *golden, const struct berth_encoder *encoder, double bound) {
    static const struct {
        enum berth_pooling pooling;
        const char *name;
    } pools[] = {{BERTH_POOL_MEAN, "mean"}, {BERTH_POOL_CLS, "cls"}, {BERTH_POOL_MAX, "max"}};
    size_t numbers = golden->count * golden->size;
    float *found = memory_array(numbers, sizeof *found);
    for (size_t i = 0; i < 6; i++) {
        int normalize = i % 2;
        float *expected =
            golden_floats(&golden->file, pools[i / 2].name, normalize ? ".normalized" : "", NULL);
        struct berth_embedding how = {pools[i / 2].pooling, normalize};
        assert_int_equal(
            berth_encoder_embed(encoder, golden->texts, golden->count, how, found, NULL), BERTH_OK);
        double apart = farthest(found, expected, numbers);
        if (!(apart <= bound)) {
            fail_msg("%s, normalize %d: apart by %g", pools[i / 2].name, normalize, apart);
        }
        free(expected);
    }
    memory_free(found);
}

static void embeddings_equal_transformers(void **state) {
    struct golden golden;
    golden_open(&golden, FOLDER "/embeddings.safetensors");
    struct berth_encoder *encoder = encoder_open(FOLDER, 32, BERTH_FP32);
    assert_int_equal(berth_encoder_size(encoder), golden.size);
    check(&golden, encoder, 3e-6);
    berth_encoder_close(encoder);
    encoder = encoder_open(FOLDER, 1, BERTH_FP32); // a batch for each text
    check(&golden, encoder, 3e-6);
    berth_encoder_close(encoder);
    encoder = encoder_open(FOLDER, 32, BERTH_PRECISION_AUTO); // the default, which is fp32 here
    check(&golden, encoder, 3e-6);
    berth_encoder_close(encoder);
    encoder = encoder_open(FOLDER, 32, BERTH_BF16);
    check(&golden, encoder, 0.1);
    berth_encoder_close(encoder);
    golden_close(&golden);
}

// Without a head or a key in config.json: the tensors determine where the norms are.
static void norms_may_precede_the_sub_layers(void **state) {
    struct golden golden;
    golden_open(&golden, FOLDER_PRE "/embeddings.safetensors");
    struct berth_encoder *encoder = encoder_open(FOLDER_PRE, 2, BERTH_FP32);
    assert_int_equal(berth_encoder_size(encoder), golden.size);
    check(&golden, encoder, 3e-6);
    berth_encoder_close(encoder);
    golden_close(&golden);
}

struct caller {
    const struct golden *golden;
    const struct berth_encoder *encoder;
    float *found;
    enum berth_status status;
};

static void *call(void *argument) {
    struct caller *caller = argument;
    for (int i = 0; i < 20 && caller->status == BERTH_OK; i++) {
        caller->status =
            berth_encoder_embed(caller->encoder, caller->golden->texts, caller->golden->count,
                                (struct berth_embedding){0}, caller->found, NULL);
    }
    return NULL;
}

static void threads_may_share_an_encoder(void **state) {
    struct golden golden;
    golden_open(&golden, FOLDER "/embeddings.safetensors");
    struct berth_encoder *encoder = encoder_open(FOLDER, 2, BERTH_FP32);
    float *expected = golden_floats(&golden.file, "mean", "", NULL);
    struct caller callers[3];
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        callers[i] = (struct caller){.golden = &golden,
                                     .encoder = encoder,
                                     .found = calloc(golden.count * golden.size, sizeof(float))};
        assert_non_null(callers[i].found);
        assert_int_equal(pthread_create(&threads[i], NULL, call, &callers[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(callers[i].status, BERTH_OK);
        assert_true(farthest(callers[i].found, expected, golden.count * golden.size) <= 3e-6);
        free(callers[i].found);
    }
    free(expected);
    berth_encoder_close(encoder);
    golden_close(&golden);
}

// --- jobs ---------------------------------------------------------------------------------------

enum { JOB_TEXTS = 2500, REFUSED_TEXT = 7 };

struct list {
    const char *texts[JOB_TEXTS];
    float *found;
    size_t size, done, begun, ended;
    enum berth_status answer; // of `put`
};

static enum berth_status read_list(void *context, const char *const **texts, size_t *count,
                                   struct berth_error *error) {
    struct list *list = context;
    *texts = list->texts;
    *count = JOB_TEXTS;
    return BERTH_OK;
}

static enum berth_status begin_list(void *context, struct berth_embedding usual, size_t size,
                                    struct berth_error *error) {
    struct list *list = context;
    assert_int_equal(usual.pooling, BERTH_POOL_MEAN);
    list->begun++;
    list->size = size;
    list->found = memory_array(JOB_TEXTS * size, sizeof *list->found);
    assert_non_null(list->found);
    return BERTH_OK;
}

static enum berth_status put_list(void *context, const float *embeddings, size_t count,
                                  struct berth_error *error) {
    struct list *list = context;
    assert_in_range(list->done + count, 1, JOB_TEXTS);
    memcpy(list->found + list->done * list->size, embeddings,
           count * list->size * sizeof *embeddings);
    list->done += count;
    return list->answer;
}

static enum berth_status end_list(void *context, struct berth_error *error) {
    ((struct list *)context)->ended++;
    return BERTH_OK;
}

static void settings_replace_what_the_folder_says(void **state) {
    struct berth_config config = config_of(FOLDER, 4, BERTH_PRECISION_AUTO);
    struct berth_encoder *encoder;
    config.pooling = "max";
    config.normalize = 0;
    assert_int_equal(berth_encoder_open(&config, (struct berth_log){0}, &encoder, NULL), BERTH_OK);
    const struct berth_embedding usual = berth_encoder_usual(encoder);
    assert_int_equal(usual.pooling, BERTH_POOL_MAX);
    assert_int_equal(usual.normalize, 0);
    berth_encoder_close(encoder);
}

static void a_job_embeds_its_texts_in_order(void **state) {
    struct golden golden;
    golden_open(&golden, FOLDER "/embeddings.safetensors");
    const struct berth_config config = config_of(FOLDER, 4, BERTH_PRECISION_AUTO); // fp32
    struct list list = {0};
    struct berth_embed_job job = {.pooling = BERTH_POOL_MAX,
                                  .normalize = 0,
                                  .read = read_list,
                                  .begin = begin_list,
                                  .put = put_list,
                                  .end = end_list,
                                  .context = &list};
    struct berth_error error;
    for (size_t i = 0; i < JOB_TEXTS; i++) {
        list.texts[i] = golden.texts[(i + i / 1000) % golden.count];
    }
    assert_int_equal(berth_embed(&config, (struct berth_log){0}, &job, &error), BERTH_OK);
    assert_int_equal(list.begun, 1);
    assert_int_equal(list.done, JOB_TEXTS);
    assert_int_equal(list.ended, 1);
    float *expected = golden_floats(&golden.file, "max", "", NULL);
    for (size_t i = 0; i < JOB_TEXTS; i++) {
        const float *there = expected + (i + i / 1000) % golden.count * golden.size;
        assert_true(farthest(list.found + i * golden.size, there, golden.size) <= 3e-6);
    }
    free(expected);
    memory_free(list.found);

    // An error ends the job.
    list.done = list.ended = 0;
    list.answer = BERTH_IO;
    assert_int_equal(berth_embed(&config, (struct berth_log){0}, &job, &error), BERTH_IO);
    assert_true(list.done > 0 && list.done < JOB_TEXTS);
    assert_int_equal(list.ended, 0);
    memory_free(list.found);
    list.texts[REFUSED_TEXT] = NULL;
    assert_int_equal(berth_embed(&config, (struct berth_log){0}, &job, &error), BERTH_USAGE);
    assert_non_null(strstr(error.message, "text 8 of 2500 is NULL"));
    job.pooling = 9;
    assert_int_equal(berth_embed(&config, (struct berth_log){0}, &job, &error), BERTH_USAGE);
    job.put = NULL;
    assert_int_equal(berth_embed(&config, (struct berth_log){0}, &job, &error), BERTH_USAGE);
    assert_non_null(strstr(error.message, "put"));
    assert_int_equal(list.begun, 2);
    golden_close(&golden);
}

static void nothing_and_no_model(void **state) {
    struct berth_encoder *encoder = encoder_open(FOLDER, 2, BERTH_FP32);
    float untouched = 7;
    struct berth_embedding how = {.pooling = BERTH_POOL_CLS, .normalize = 1};
    assert_int_equal(berth_encoder_embed(encoder, NULL, 0, how, &untouched, NULL), BERTH_OK);
    assert_true(untouched == 7);
    berth_encoder_close(encoder);
    berth_encoder_close(NULL);
    struct berth_config config;
    struct berth_log silent = {0};
    struct berth_error error = {0};
    berth_config_init(&config);
    config.model_name_or_path = "/nowhere/at/all";
    assert_int_equal(berth_encoder_open(&config, silent, &encoder, &error), BERTH_NO_INPUT);
    assert_null(encoder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embeddings_equal_transformers),
        cmocka_unit_test(norms_may_precede_the_sub_layers),
        cmocka_unit_test(threads_may_share_an_encoder),
        cmocka_unit_test(settings_replace_what_the_folder_says),
        cmocka_unit_test(a_job_embeds_its_texts_in_order),
        cmocka_unit_test(nothing_and_no_model),
    };
    return cmocka_run_group_tests_name("embed", tests, NULL, NULL);
}
