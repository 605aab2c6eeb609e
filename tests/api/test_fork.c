// SPDX-License-Identifier: Apache-2.0
// Tests the library in a child that a program forks after it has used the library: the parent's
// handles and new ones compute the parent's bits there, with one thread, and the log says so.
#include "core/calls.h"
#include "core/scratch.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FOLDER BERTH_TEST_SOURCE_DIR "/tests/golden/classifier"

enum { TEXTS = 5, SIZE = 16, PATIENCE = 60 };

static const struct berth_log silent;

typedef float vectors[TEXTS][SIZE];

static enum berth_status open_encoder(struct berth_log log, struct berth_encoder **encoder) {
    struct berth_config config;
    berth_config_init(&config);
    config.model_name_or_path = FOLDER;
    config.device = "cpu";
    config.threads = 2;
    config.precision = BERTH_FP32;
    config.max_seq_length = 16;
    return berth_encoder_open(&config, log, encoder, NULL);
}

static enum berth_status embed(const struct berth_encoder *encoder, vectors found) {
    static const char *const texts[TEXTS] = {"red ball", "the blue coat of anna", "ben ?",
                                             "anna and ben", "lamp"};
    const struct berth_embedding how = {BERTH_POOL_MEAN, 1};
    return berth_encoder_embed(encoder, texts, TEXTS, how, found[0], NULL);
}

static void find_note(void *context, const struct berth_record *record) {
    int *notes = context;
    *notes += record->text != NULL && strstr(record->text, "threads: 1, because") == record->text;
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
    struct berth_encoder *encoder;
    vectors found;
};

static int uses_the_parents_handle(const void *context) {
    const struct parent *parent = context;
    vectors found;
    return embed(parent->encoder, found) != BERTH_OK ||
           memcmp(found, parent->found, sizeof found) != 0;
}

static int uses_a_handle_of_its_own(const void *context) {
    const struct parent *parent = context;
    int notes = 0;
    const struct berth_log log = {find_note, &notes};
    struct berth_encoder *encoder;
    vectors found;
    return open_encoder(log, &encoder) != BERTH_OK || embed(encoder, found) != BERTH_OK ||
           memcmp(found, parent->found, sizeof found) != 0 || notes != 1;
}

static int forks_again(const void *context) {
    return in_child(uses_the_parents_handle, context);
}

static void a_forked_child_computes_the_parents_bits(void **state) {
    struct parent parent;
    int notes = 0;
    const struct berth_log log = {find_note, &notes};
    assert_int_equal(open_encoder(log, &parent.encoder), BERTH_OK);
    assert_int_equal(notes, 0);
    assert_int_equal(embed(parent.encoder, parent.found), BERTH_OK);
    assert_int_equal(in_child(uses_the_parents_handle, &parent), 0);
    assert_int_equal(in_child(uses_a_handle_of_its_own, &parent), 0);
    assert_int_equal(in_child(forks_again, &parent), 0);
    assert_int_equal(uses_the_parents_handle(&parent), 0);
    berth_encoder_close(parent.encoder);
}

static int opens_an_encoder(const void *context) {
    struct berth_encoder *encoder;
    return open_encoder(silent, &encoder);
}

static int makes_a_model_and_forks(const void *context) {
    return berth_init_model(FOLDER "/config.json", scratch("model"), 1, NULL) != BERTH_OK ||
           in_child(opens_an_encoder, NULL);
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
