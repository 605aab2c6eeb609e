// SPDX-License-Identifier: Apache-2.0
// Tests the library in a child that a program forks after it has used the library: the parent's
// models and new ones compute the parent's bits there, with one thread, and the log says so.
#include "api/opened.h"
#include "core/scratch.h"

#include <sys/wait.h>
#include <unistd.h>

#define FOLDER BERTH_TEST_SOURCE_DIR "/tests/golden/classifier"

enum { TEXTS = 5, SIZE = 16, PATIENCE = 60 };

typedef float vectors[TEXTS][SIZE];

static struct berth_model *open_encoder(const struct berth_watch *watch) {
    return berth_open(
        FOLDER,
        SETTINGS("device", "cpu", "threads", "2", "precision", "fp32", "max_seq_length", "16"),
        watch, NULL);
}

static enum berth_status embed(const struct berth_model *model, vectors found) {
    static const struct berth_text texts[TEXTS] = {{.text = "red ball"},
                                                   {.text = "the blue coat of anna"},
                                                   {.text = "ben ?"},
                                                   {.text = "anna and ben"},
                                                   {.text = "lamp"}};
    struct berth_error error;
    struct berth_result *result = berth_run(model, "embed", texts, TEXTS, NULL, NULL, &error);
    if (result != NULL) {
        memcpy(found, berth_result_rows(result, 0, NULL, NULL), sizeof(vectors));
    }
    berth_result_free(result);
    return error.status;
}

static enum berth_wish find_note(void *context, const struct berth_record *record) {
    int *notes = context;
    *notes += record->text != NULL && strstr(record->text, "threads: 1, because") == record->text;
    return BERTH_CONTINUE;
}

// The exit status of a child that returns from `work`; it is killed if it hangs.
static int in_child(int (*work)(const void *context), const void *context) {
    int status;
    const pid_t child = fork();
    if (child == 0) {
        alarm(PATIENCE);
        _exit(work(context));
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

struct parent {
    struct berth_model *model;
    vectors found;
};

static int uses_the_parents_model(const void *context) {
    const struct parent *parent = context;
    vectors found;
    return embed(parent->model, found) != BERTH_OK ||
           memcmp(found, parent->found, sizeof found) != 0;
}

// The classifier opens the embeddings only when they are first run.
static int uses_a_model_of_its_own(const void *context) {
    const struct parent *parent = context;
    int notes = 0;
    const struct berth_watch watch = {find_note, &notes};
    vectors found;
    struct berth_model *model = open_encoder(&watch);
    return embed(model, found) != BERTH_OK || memcmp(found, parent->found, sizeof found) != 0 ||
           notes != 1;
}

static int forks_again(const void *context) {
    return in_child(uses_the_parents_model, context);
}

static void a_forked_child_computes_the_parents_bits(void **state) {
    struct parent parent;
    int notes = 0;
    const struct berth_watch watch = {find_note, &notes};
    parent.model = open_encoder(&watch);
    assert_non_null(parent.model);
    assert_int_equal(notes, 0);
    assert_int_equal(embed(parent.model, parent.found), BERTH_OK);
    assert_int_equal(in_child(uses_the_parents_model, &parent), 0);
    assert_int_equal(in_child(uses_a_model_of_its_own, &parent), 0);
    assert_int_equal(in_child(forks_again, &parent), 0);
    assert_int_equal(uses_the_parents_model(&parent), 0);
    berth_close(parent.model);
}

static int opens_a_model(const void *context) {
    struct berth_model *model = open_encoder(NULL);
    berth_close(model);
    return model == NULL;
}

static int makes_a_model_and_forks(const void *context) {
    struct berth_result *made = berth_job(
        "init", SETTINGS("config", FOLDER "/config.json", "output", scratch("model"), "seed", "1"),
        NULL, NULL);
    berth_result_free(made);
    return made == NULL || in_child(opens_a_model, NULL);
}

// Runs first, and in a child: nothing but random weights may have used threads before its fork.
static void a_parent_may_have_made_random_weights(void **state) {
    assert_int_equal(in_child(makes_a_model_and_forks, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(a_parent_may_have_made_random_weights),
        cmocka_unit_test(a_forked_child_computes_the_parents_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
