// SPDX-License-Identifier: Apache-2.0
// Tests embeddings against transformers', with the folder tests/golden/encoder, and with layer
// norms before the sub-layers against PyTorch's, with encoder_preln (dev/goldens/embeddings.py),
// for all batches and numbers of threads.
#include "api/opened.h"
#include "core/memory.h"
#include "format/json/json.h"
#include "golden/golden_file.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define FOLDER BERTH_TEST_SOURCE_DIR "/tests/golden/encoder"
#define FOLDER_PRE BERTH_TEST_SOURCE_DIR "/tests/golden/encoder_preln"
#define TEXTS_MAX 16

struct golden {
    struct safetensors file;
    json *list;
    struct berth_text texts[TEXTS_MAX];
    size_t count, size;
};

static void golden_open(struct golden *golden, const char *embeddings) {
    golden_file_open(&golden->file, embeddings);
    const char *text = safetensors_metadata(&golden->file, "texts");
    assert_int_equal(json_read_memory("texts", text, strlen(text), &golden->list, NULL), BERTH_OK);
    golden->count = json_length(golden->list);
    assert_in_range(golden->count, 1, TEXTS_MAX);
    for (size_t i = 0; i < golden->count; i++) {
        golden->texts[i] = (struct berth_text){.text = json_text(json_at(golden->list, i))};
    }
    golden->size = (size_t)golden_entry(&golden->file, "", "mean")->shape[1];
}

static void golden_close(struct golden *golden) {
    json_free(golden->list);
    safetensors_close(&golden->file);
}

static struct berth_model *open_encoder(const char *folder, const char *batch,
                                        const char *precision, const char *pooling) {
    return open_model(folder, SETTINGS("device", "cpu", "threads", "2", "max_seq_length", "16",
                                       "predict_batch_size", batch, "precision", precision,
                                       "pooling", pooling));
}

static double farthest(const float *a, const float *b, size_t count) {
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    }
    return most;
}

// The rows of all texts are one matrix.
static const float *rows_of(const struct berth_result *result, const struct golden *golden) {
    size_t rows, width;
    const float *first = berth_result_rows(result, 0, &rows, &width);
    assert_true(rows == 1 && width == golden->size);
    assert_ptr_equal(berth_result_rows(result, golden->count - 1, NULL, NULL),
                     first + (golden->count - 1) * width);
    return first;
}

static void check(const struct golden *golden, const struct berth_model *model, const char *pooling,
                  double bound) {
    for (int normalize = 0; normalize < 2; normalize++) {
        float *expected =
            golden_floats(&golden->file, pooling, normalize ? ".normalized" : "", NULL);
        struct berth_result *result = run_all(model, "embed", golden->texts, golden->count,
                                              SETTINGS("normalize", normalize ? "true" : "false"));
        double apart = farthest(rows_of(result, golden), expected, golden->count * golden->size);
        if (!(apart <= bound)) {
            fail_msg("%s, normalize %d: apart by %g", pooling, normalize, apart);
        }
        berth_result_free(result);
        free(expected);
    }
}

static void check_folder(const char *folder, const char *batch, const char *precision,
                         double bound) {
    struct golden golden;
    char path[512];
    snprintf(path, sizeof path, "%s/embeddings.safetensors", folder);
    golden_open(&golden, path);
    for (size_t i = 0; i < 3; i++) {
        static const char *const pools[] = {"mean", "cls", "max"};
        struct berth_model *model = open_encoder(folder, batch, precision, pools[i]);
        assert_true(berth_model_number(model, "dimensions") == (double)golden.size);
        check(&golden, model, pools[i], bound);
        berth_close(model);
    }
    golden_close(&golden);
}

static void embeddings_equal_transformers(void **state) {
    check_folder(FOLDER, "32", "fp32", 3e-6);
    check_folder(FOLDER, "1", "fp32", 3e-6);  // a batch for each text
    check_folder(FOLDER, "32", "auto", 3e-6); // the default, which is fp32 here
    check_folder(FOLDER, "32", "bf16", 0.1);
}

// Without a head or a key in config.json: the tensors determine where the norms are.
static void norms_may_precede_the_sub_layers(void **state) {
    check_folder(FOLDER_PRE, "2", "fp32", 3e-6);
}

struct caller {
    const struct golden *golden;
    const struct berth_model *model;
    const float *expected;
    int failed;
};

static void *call(void *argument) {
    struct caller *caller = argument;
    const struct golden *golden = caller->golden;
    for (int i = 0; i < 20 && !caller->failed; i++) {
        struct berth_result *result =
            berth_run(caller->model, "embed", golden->texts, golden->count,
                      SETTINGS("normalize", "false"), NULL, NULL);
        const float *rows = berth_result_rows(result, 0, NULL, NULL);
        caller->failed = rows == NULL ||
                         !(farthest(rows, caller->expected, golden->count * golden->size) <= 3e-6);
        berth_result_free(result);
    }
    return NULL;
}

static void threads_may_share_an_encoder(void **state) {
    struct golden golden;
    golden_open(&golden, FOLDER "/embeddings.safetensors");
    struct berth_model *model = open_encoder(FOLDER, "2", "fp32", "mean");
    float *expected = golden_floats(&golden.file, "mean", "", NULL);
    struct caller callers[3];
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        callers[i] = (struct caller){.golden = &golden, .model = model, .expected = expected};
        assert_int_equal(pthread_create(&threads[i], NULL, call, &callers[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        assert_false(callers[i].failed);
    }
    free(expected);
    berth_close(model);
    golden_close(&golden);
}

static void settings_replace_what_the_folder_says(void **state) {
    struct golden golden;
    golden_open(&golden, FOLDER "/embeddings.safetensors");
    struct berth_model *model =
        open_model(FOLDER, SETTINGS("device", "cpu", "max_seq_length", "16", "pooling", "max",
                                    "normalize", "false"));
    struct berth_model *usual =
        open_model(FOLDER, SETTINGS("device", "cpu", "max_seq_length", "16"));
    float *expected = golden_floats(&golden.file, "max", "", NULL);
    float *of_folder = golden_floats(&golden.file, "mean", "", NULL);
    struct berth_result *result = run_all(model, NULL, golden.texts, golden.count, NULL);
    struct berth_result *other = run_all(usual, "feature-extraction", golden.texts, golden.count,
                                         SETTINGS("normalize", "no"));
    const size_t numbers = golden.count * golden.size;
    assert_true(farthest(rows_of(result, &golden), expected, numbers) <= 3e-6);
    assert_true(farthest(rows_of(other, &golden), of_folder, numbers) <= 3e-6);
    assert_true(farthest(expected, of_folder, numbers) > 1e-3);
    berth_result_free(result);
    berth_result_free(other);
    free(expected);
    free(of_folder);
    berth_close(model);
    berth_close(usual);
    golden_close(&golden);
}

// --- many texts ---------------------------------------------------------------------------------

enum { MANY = 2500 };

struct seen {
    double done[2 * MANY];
    size_t calls;
    enum berth_wish wish;
};

static enum berth_wish see(void *context, const struct berth_record *record) {
    struct seen *seen = context;
    if (record->kind == BERTH_PROGRESS && seen->calls < COUNT_OF(seen->done)) {
        assert_true(berth_record_number(record, "total") == MANY);
        seen->done[seen->calls++] = berth_record_number(record, "done");
        return seen->wish;
    }
    return BERTH_CONTINUE;
}

static void many_texts_are_embedded_in_order(void **state) {
    static struct berth_text texts[MANY];
    static struct seen seen;
    struct golden golden;
    struct berth_error error;
    golden_open(&golden, FOLDER "/embeddings.safetensors");
    struct berth_model *model = open_encoder(FOLDER, "4", "auto", "max");
    const char *const *settings = SETTINGS("normalize", "false");
    for (size_t i = 0; i < MANY; i++) {
        texts[i] = golden.texts[(i + i / 1000) % golden.count];
    }
    const struct berth_watch watch = {.see = see, .context = &seen};
    struct berth_result *result = berth_run(model, "embed", texts, MANY, settings, &watch, &error);
    assert_int_equal(error.status, BERTH_OK);
    float *expected = golden_floats(&golden.file, "max", "", NULL);
    for (size_t i = 0; i < MANY; i++) {
        const float *there = expected + (i + i / 1000) % golden.count * golden.size;
        assert_true(farthest(berth_result_rows(result, i, NULL, NULL), there, golden.size) <= 3e-6);
    }
    // The caller sees how far it is, and the end.
    assert_true(seen.calls > 2 && seen.done[seen.calls - 1] == MANY);
    for (size_t i = 1; i < seen.calls; i++) {
        assert_true(seen.done[i] > seen.done[i - 1]);
    }
    // Without a watch the same bits.
    struct berth_result *unseen = run_all(model, "embed", texts, MANY, settings);
    for (size_t i = 0; i < MANY; i++) {
        assert_true(same_found(result, i, unseen, i));
    }
    berth_result_free(unseen);
    berth_result_free(result);
    // A wish to cancel ends the call; one to finish is for trainings.
    for (int wish = BERTH_FINISH; wish <= BERTH_CANCEL; wish++) {
        seen = (struct seen){.wish = (enum berth_wish)wish};
        result = berth_run(model, "embed", texts, MANY, settings, &watch, &error);
        const int ends = wish != BERTH_FINISH;
        assert_int_equal(error.status, ends ? BERTH_INTERRUPTED : BERTH_OK);
        assert_int_equal(result == NULL, ends);
        assert_true(ends ? seen.calls == 1 : seen.done[seen.calls - 1] == MANY);
        berth_result_free(result);
    }
    free(expected);
    berth_close(model);
    golden_close(&golden);
}

static void no_model(void **state) {
    struct berth_error error;
    assert_null(berth_open("/nowhere/at/all", NULL, NULL, &error));
    expect_refusal(&error, BERTH_NO_INPUT, "/nowhere/at/all");
    assert_int_equal(error.input, -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embeddings_equal_transformers),
        cmocka_unit_test(norms_may_precede_the_sub_layers),
        cmocka_unit_test(threads_may_share_an_encoder),
        cmocka_unit_test(settings_replace_what_the_folder_says),
        cmocka_unit_test(many_texts_are_embedded_in_order),
        cmocka_unit_test(no_model),
    };
    return cmocka_run_group_tests_name("embed", tests, NULL, NULL);
}
