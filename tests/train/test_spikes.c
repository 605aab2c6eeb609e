// SPDX-License-Identifier: Apache-2.0
// RELIABILITY 26: the rule of spikes alone, and runs of small updates, some of which are spikes by
// a low factor: warned of, skipped, or the run rolls back. A skipped update changes nothing but
// counters; a rollback restores the state of the checkpoint, byte by byte; every policy goes on
// after a resumption at any update as it does without.
#include "fixture.h"
#include "train/progress/spikes.h"

#include <math.h>

// --- the rule -----------------------------------------------------------------------------------

static int follow(struct spikes *spikes, double loss, double grad_norm) {
    const struct spike_limits limits = spikes_limits(spikes, 3);
    const int is_spike = spike_limits_exceeded(&limits, loss, grad_norm);
    spikes_record(spikes, &limits, loss, grad_norm);
    return is_spike;
}

static void test_rule(void **state) {
    struct spikes spikes = {0};
    (void)state;
    for (int i = 0; i < 10; i++) {
        assert_false(follow(&spikes, i == 4 ? 11 : 1, 2)); // too early to tell
    }
    assert_float_equal(spikes.loss, 2, 1e-12); // (9 x 1 + 11) / 10
    assert_false(follow(&spikes, 6, 6));       // 3 times the mean is not above it
    assert_true(follow(&spikes, 1, 8));        // the norm's mean is 26 / 11: above 7.09
    struct spikes before = spikes;
    assert_true(follow(&spikes, 1e9, 2));
    assert_float_equal(spikes.loss, before.loss + 2 * before.loss / 13, 1e-9);
    assert_int_equal(spikes.found, 2);
    int in_a_row = 0; // a level that stays becomes the usual one
    while (follow(&spikes, 20, 2)) {
        in_a_row++;
    }
    assert_in_range(in_a_row, 5, 60);
    struct spikes none = {.updates = 100};
    assert_false(follow(&none, 1, 1)); // there is no mean
}

// --- runs ---------------------------------------------------------------------------------------

#define UPDATES 20

static struct fixture_run base(const char *output, const char *policy) {
    struct fixture_run run = fixture_default(output);
    run.config.engine.max_steps = UPDATES;
    run.config.optimizer.learning_rate = 5e-3;
    run.config.run.save_total_limit = 100;
    run.config.run.logging_steps = 1;
    run.config.run.spike_policy = policy;
    run.config.run.spike_factor = 1.2;
    run.config.engine.train_batch_size = 2; // whose norms differ widely
    return run;
}

// What the log says of spikes: the number of warnings, and the update of the first one.
static int spikes_in_log(int *first) {
    char *text = fixture_text(in_folder("log"));
    int count = 0;
    *first = -1;
    for (char *at = text; (at = strstr(at, " is a spike: ")) != NULL; at++) {
        const char *line = at;
        while (line > text && line[-1] != '\n') {
            line--;
        }
        *first = count++ == 0 ? atoi(line + strlen("warning: update ")) : *first;
    }
    memory_free(text);
    return count;
}

// The first update that is a spike by the warnings of a run that keeps all changes.
static int find_spike(void) {
    struct fixture_run run = base("warned", "warn");
    int first;
    fixture_expect(&run, BERTH_OK, "it is applied");
    assert_in_range(spikes_in_log(&first), 1, UPDATES);
    assert_in_range(first, 11, UPDATES - 1);
    return first;
}

static void assert_same_state(const char *a, const char *b) {
    static const char *const files[] = {"model.safetensors", "optimizer.safetensors"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char from[128], to[128];
        snprintf(from, sizeof from, "%s/%s", a, files[i]);
        snprintf(to, sizeof to, "%s/%s", b, files[i]);
        assert_same_file(in_folder(from), in_folder(to));
    }
}

static const char *checkpoint(const char *output, int step) {
    static char names[4][128];
    static int next;
    char *name = names[next++ % 4];
    snprintf(name, sizeof names[0], "%s/checkpoint-%d", output, step);
    return name;
}

static void test_warning_changes_nothing(void **state) {
    (void)state;
    const int first = find_spike();
    struct fixture_run plain = base("plain", "none");
    assert_int_equal(fixture_execute(&plain), BERTH_OK);
    assert_same_state(checkpoint("plain", UPDATES), checkpoint("warned", UPDATES));
    // No data was left out, so each update has its own.
    char fields[64];
    snprintf(fields, sizeof fields, "\"data_update\":%d", first);
    fixture_assert_holds(in_folder("warned/log.jsonl"), fields);
}

// The moving average of the losses in a checkpoint.
static double mean_loss(const char *name) {
    char path[160];
    snprintf(path, sizeof path, "%s/trainer_state.json", name);
    char *text = fixture_text(in_folder(path));
    const char *key = strstr(text, "\"ema_loss\":");
    assert_non_null(key);
    const double mean = atof(key + strlen("\"ema_loss\":"));
    memory_free(text);
    return mean;
}

static void test_skipping(void **state) {
    (void)state;
    const int spike = find_spike();
    int first;
    struct fixture_run run = base("skipped", "skip");
    fixture_expect(&run, BERTH_OK, "it is skipped");
    assert_in_range(spikes_in_log(&first), 1, UPDATES);
    assert_int_equal(first, spike);
    // Up to it all is as before, it changes nothing, and the next one goes on.
    assert_same_state(checkpoint("warned", spike - 1), checkpoint("skipped", spike - 1));
    assert_same_state(checkpoint("skipped", spike - 1), checkpoint("skipped", spike));
    assert_float_equal(mean_loss(checkpoint("skipped", spike)),
                       mean_loss(checkpoint("skipped", spike - 1)), 0);
    assert_true(mean_loss(checkpoint("skipped", spike - 1)) !=
                mean_loss(checkpoint("skipped", spike - 2)));
    assert_int_equal((int)fixture_number("skipped", "trainer_state.json", "global_step"), UPDATES);
}

static void resume_everywhere(const char *policy, int spike) {
    struct fixture_run straight = base("straight", policy);
    assert_int_equal(fixture_execute(&straight), BERTH_OK);
    for (int step = spike - 2; step <= spike + 1 && step < UPDATES; step++) {
        fixture_copy(in_folder(checkpoint("straight", step)), in_folder(checkpoint("again", step)));
        struct fixture_run run = base("again", policy);
        run.config.run.resume_from_checkpoint = "auto";
        assert_int_equal(fixture_execute(&run), BERTH_OK);
        assert_same_run("straight", "again");
        assert_int_equal(dir_remove(in_folder("again"), NULL), BERTH_OK);
    }
}

static void test_skipping_resumed(void **state) {
    (void)state;
    resume_everywhere("skip", find_spike());
}

// Each update once, in order: the records of a rollback's checkpoint are not repeated.
static void assert_history_is_whole(const char *output, int updates) {
    char path[128], words[64];
    snprintf(path, sizeof path, "%s/trainer_state.json", output);
    char *text = fixture_text(in_folder(path)), *at = strstr(text, "log_history");
    int losses = 0;
    *strstr(at, "stateful_callbacks") = '\0';
    for (char *loss = at; (loss = strstr(loss, "\"loss\": ")) != NULL; loss++) {
        losses++;
    }
    assert_int_equal(losses, updates);
    for (int step = 1; step <= updates; step++) {
        snprintf(words, sizeof words, "\"step\": %d\n", step);
        assert_non_null(at = strstr(at, "\"step\": "));
        assert_int_equal(strncmp(at++, words, strlen(words)), 0);
    }
    memory_free(text);
}

// Checkpoints of every third update. From the one before the spike the run goes on with the data
// after the spike's, and has forgotten what it did since.
static void test_rollback(void **state) {
    (void)state;
    const int spike = find_spike(), kept = (spike - 1) / 3 * 3;
    char words[96];
    int first;
    struct fixture_run run = base("back", "rollback");
    run.config.run.save_steps = 3;
    snprintf(words, sizeof words, "the run rolls back to update %d and leaves out its data", kept);
    fixture_expect(&run, BERTH_OK, words);
    assert_in_range(spikes_in_log(&first), 1, UPDATES);
    assert_int_equal(first, spike);
    assert_same_state(checkpoint("warned", kept), checkpoint("back", kept));
    assert_int_equal((int)fixture_number("back", "trainer_state.json", "global_step"), UPDATES);
    assert_history_is_whole("back", UPDATES);
    // Another process that resumes from that checkpoint meets the same spike, rolls back and ends
    // with the same bytes.
    fixture_copy(in_folder(checkpoint("back", kept)), in_folder(checkpoint("again", kept)));
    struct fixture_run again = base("again", "rollback");
    again.config.run.save_steps = 3;
    again.config.run.resume_from_checkpoint = "auto";
    assert_int_equal(fixture_execute(&again), BERTH_OK);
    assert_same_run("back", "again");
    // So does one that resumes after the rollback, from a checkpoint that knows the data left out.
    fixture_copy(in_folder(checkpoint("back", kept + 3)), in_folder(checkpoint("later", kept + 3)));
    struct fixture_run later = base("later", "rollback");
    later.config.run.save_steps = 3;
    later.config.run.resume_from_checkpoint = "auto";
    assert_int_equal(fixture_execute(&later), BERTH_OK);
    assert_same_run("back", "later");
}

// The head that the run began with is new; that of its checkpoints is trained.
static void test_rollback_of_a_new_head(void **state) {
    static const char rolls_back[] = "the run rolls back to update ";
    (void)state;
    FILE *file = fopen(in_folder("train.tsv"), "w");
    assert_non_null(file);
    fprintf(file, "text\tlabel\n");
    for (int i = 0; i < 24; i++) {
        const struct fixture_words words = fixture_words(i);
        fprintf(file, "the %s is %s\t%d\n", words.thing, words.colour, i % 3);
    }
    assert_int_equal(fclose(file), 0);
    struct fixture_run run = base("back", "rollback");
    run.task = "classify";
    run.config.task.train_file = fixture_keep("train.tsv");
    run.config.features.text_column = "text";
    run.config.features.label_column = "label";
    run.config.run.save_steps = 3;
    fixture_expect(&run, BERTH_OK, rolls_back);
    char *text = fixture_text(in_folder("log"));
    const int kept = atoi(strstr(text, rolls_back) + strlen(rolls_back));
    memory_free(text);
    fixture_copy(in_folder(checkpoint("back", kept)), in_folder(checkpoint("again", kept)));
    struct fixture_run again = run;
    again.config.run.output_dir = fixture_keep("again");
    again.config.run.resume_from_checkpoint = "auto";
    assert_int_equal(fixture_execute(&again), BERTH_OK);
    assert_same_run("back", "again");
}

// The first evaluation comes after its update's checkpoint, which knows no score yet. The second
// one of that update is not compared with the first.
static void test_rollback_forgets_scores(void **state) {
    (void)state;
    const int kept = (find_spike() - 1) / 3 * 3;
    char words[96];
    struct fixture_run run = base("back", "rollback");
    run.config.run.save_steps = 3;
    run.config.run.eval_steps = kept;
    run.config.task.validation_file = fixture_keep("dev.json");
    run.config.run.early_stopping_patience = 1;
    snprintf(words, sizeof words, "the run rolls back to update %d ", kept);
    fixture_expect(&run, BERTH_OK, words);
    snprintf(words, sizeof words, "early stopping after update %d:", kept);
    fixture_assert_not_logged(words);
}

static void test_rollback_beside_saving(void **state) {
    (void)state;
    find_spike();
    struct fixture_run plain = base("back", "rollback");
    plain.config.run.save_steps = 3;
    assert_int_equal(fixture_execute(&plain), BERTH_OK);
    struct fixture_run beside = base("beside", "rollback");
    beside.config.run.save_steps = 3;
    beside.config.run.async_save = 1;
    beside.config.engine.replica_check_steps = 1; // its checksums follow the state that was read
    assert_int_equal(fixture_execute(&beside), BERTH_OK);
    assert_same_run("back", "beside");
}

static void test_no_checkpoint_yet(void **state) {
    (void)state;
    find_spike();
    struct fixture_run run = base("none", "rollback");
    run.config.run.save_steps = UPDATES;
    fixture_expect(&run, BERTH_OK, "it is skipped, because there is no checkpoint yet");
}

// Every update is a spike from some time on.
static void test_rollbacks_end(void **state) {
    (void)state;
    struct fixture_run run = base("endless", "rollback");
    run.config.run.spike_factor = 1;
    run.config.optimizer.learning_rate = 1e-12;
    run.config.run.save_steps = 11;
    run.config.engine.max_steps = 40;
    fixture_expect(&run, BERTH_FAILURE, "a spike after each of 10 rollbacks to update 11");
    assert_int_equal(fixture_temporaries("endless"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule),
        FIXTURE_TEST(test_warning_changes_nothing),
        FIXTURE_TEST(test_skipping),
        FIXTURE_TEST(test_skipping_resumed),
        FIXTURE_TEST(test_rollback),
        FIXTURE_TEST(test_rollback_of_a_new_head),
        FIXTURE_TEST(test_rollback_forgets_scores),
        FIXTURE_TEST(test_rollback_beside_saving),
        FIXTURE_TEST(test_no_checkpoint_yet),
        FIXTURE_TEST(test_rollbacks_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
