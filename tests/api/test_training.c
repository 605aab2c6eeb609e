// SPDX-License-Identifier: Apache-2.0
// Tests berth_train: examples in memory train to the bytes that files train to, for every task;
// what is wrong with an example is said with its index; a watch that continues, finishes, suspends
// or cancels; the model that was trained, and the one that it came from.
#include "api/opened.h"
#include "core/scratch.h"

#include <pthread.h>
#include <stdatomic.h>

#define CLASSIFIER BERTH_TEST_SOURCE_DIR "/tests/golden/classifier"
#define ENCODER BERTH_TEST_SOURCE_DIR "/tests/golden/encoder"
#define TAGS BERTH_TEST_SOURCE_DIR "/tests/golden/tags"
#define FILL BERTH_TEST_SOURCE_DIR "/tests/golden/fill"

#define FEW                                                                                        \
    "max_seq_length", "16", "train_batch_size", "2", "num_train_epochs", "2", "learning_rate",     \
        "1e-3", "seed", "5", "max_grad_norm", "1"

static struct berth_model *open_base(const char *folder) {
    return open_model(folder, SETTINGS("device", "cpu", "threads", "1", "precision", "fp32",
                                       "allow_new_head", "true"));
}

// --- examples ------------------------------------------------------------------------------------

static const char *const red_and_blue[] = {"red ball", "ball"}, *const others[] = {"the coat"};

static const struct berth_text answers[] = {
    {.text = "who has the ball ?", .pair = "anna has the red ball", .label = "anna"},
    {.text = "what has ben ?",
     .pair = "\u00e4 ben has the red ball",
     .label = "the red ball",
     .more = red_and_blue,
     .more_count = 2},
    {.text = "what has she ?", .pair = "red and red", .label = "red", .start = 8},
    {.text = "who ?", .pair = "the lamp of the book", .label = ""}};
static const struct berth_text classes[] = {
    {.text = "anna", .pair = "the \"red\" ball", .label = "yes"},
    {.text = "ben", .pair = "a\tblue\nball", .label = "no"},
    {.text = "the lamp", .pair = "red", .label = "maybe"},
    {.text = "the coat", .pair = "blue", .label = "yes"}};
static const struct berth_text ratings[] = {{.text = "anna", .label = "1.5"},
                                            {.text = "ben", .label = "-2"},
                                            {.text = "the lamp", .label = "0.25"}};
static const struct berth_text tagged[] = {{.text = "anna has the ball", .label = "B-PER O O O"},
                                           {.text = "  the ball of  ben", .label = "O O O B-PER"},
                                           {.text = "ben", .label = "B-PER"}};
static const struct berth_text pairs[] = {{.text = "anna", .pair = "she"},
                                          {.text = "the ball", .pair = "a red ball"},
                                          {.text = "the lamp", .pair = "a lamp"}};
static const struct berth_text scored[] = {
    {.text = "anna", .pair = "she", .label = "0.9"},
    {.text = "the ball", .pair = "the coat", .label = "0.1"}};
static const struct berth_text triplets[] = {
    {.text = "anna", .pair = "she", .more = others, .more_count = 1},
    {.text = "the ball", .pair = "a red ball", .more = others, .more_count = 1}};
static const struct berth_text lines[] = {
    {.text = "the zebra is red and blue"}, {.text = "the dog runs"}, {.text = "a cat of the dog"}};

#define ANSWERS                                                                                    \
    "{\"version\": \"1.1\", \"data\": ["                                                           \
    "{\"title\": \"t\", \"paragraphs\": [{\"context\": \"anna has the red ball\", \"qas\": ["      \
    "{\"id\": \"a\", \"question\": \"who has the ball ?\", \"answers\": [{\"text\": \"anna\", "    \
    "\"answer_start\": 0}]}]}, {\"context\": \"\u00e4 ben has the red ball\", \"qas\": ["          \
    "{\"id\": \"b\", \"question\": \"what has ben ?\", \"answers\": [{\"text\": \"the red "        \
    "ball\", "                                                                                     \
    "\"answer_start\": 10}]}]}, "                                                                  \
    "{\"context\": \"red and red\", \"qas\": [{\"id\": \"c\", \"question\": \"what has she ?\", "  \
    "\"answers\": [{\"text\": \"red\", \"answer_start\": 8}]}]}, "                                 \
    "{\"context\": \"the lamp of the book\", \"qas\": [{\"id\": \"d\", \"question\": \"who ?\", "  \
    "\"is_impossible\": true, \"answers\": []}]}]}]}"

static const struct lesson {
    const char *name, *task, *folder;
    const struct berth_text *examples;
    size_t count;
    const char *file, *text;      // the same as a file
    const char *settings[9];      // of both
    const char *file_settings[9]; // of the file
} lessons[] = {{"answer",
                "answer",
                CLASSIFIER,
                answers,
                COUNT_OF(answers),
                "answers.json",
                ANSWERS,
                {"version_2_with_negative", "true", "doc_stride", "4", "max_query_length", "8"},
                {NULL}},
               {"classify",
                "classify",
                CLASSIFIER,
                classes,
                COUNT_OF(classes),
                "classes.jsonl",
                "{\"a\": \"anna\", \"b\": \"the \\\"red\\\" ball\", \"c\": \"yes\"}\n"
                "{\"a\": \"ben\", \"b\": \"a\\tblue\\nball\", \"c\": \"no\"}\n"
                "{\"a\": \"the lamp\", \"b\": \"red\", \"c\": \"maybe\"}\n"
                "{\"a\": \"the coat\", \"b\": \"blue\", \"c\": \"yes\"}\n",
                {NULL},
                {"text_column", "a", "text_pair_column", "b", "label_column", "c"}},
               {"regression",
                "classify",
                ENCODER,
                ratings,
                COUNT_OF(ratings),
                "ratings.csv",
                "text,label\nanna,1.5\nben,-2\nthe lamp,0.25\n",
                {NULL},
                {"text_column", "text", "label_column", "label"}},
               {"tag",
                "tag",
                TAGS,
                tagged,
                COUNT_OF(tagged),
                "tags.txt",
                "anna B-PER\nhas O\nthe O\nball O\n\nthe O\nball O\nof O\nben B-PER\n\nben B-PER\n",
                {NULL},
                {NULL}},
               {"pairs",
                "embed",
                ENCODER,
                pairs,
                COUNT_OF(pairs),
                "pairs.tsv",
                "a\tb\nanna\tshe\nthe ball\ta red ball\nthe lamp\ta lamp\n",
                {NULL},
                {"text_column", "a", "text_pair_column", "b"}},
               {"scored pairs",
                "embed",
                ENCODER,
                scored,
                COUNT_OF(scored),
                "scored.csv",
                "a,b,c\nanna,she,0.9\nthe ball,the coat,0.1\n",
                {"embedding_loss", "cosine"},
                {"text_column", "a", "text_pair_column", "b", "label_column", "c"}},
               {"pairs that fit or not",
                "rerank",
                CLASSIFIER,
                scored,
                COUNT_OF(scored),
                "fits.csv",
                "a,b,c\nanna,she,0.9\nthe ball,the coat,0.1\n",
                {"positive_weight", "2"},
                {"text_column", "a", "text_pair_column", "b", "label_column", "c"}},
               {"triplets",
                "embed",
                ENCODER,
                triplets,
                COUNT_OF(triplets),
                "triplets.jsonl",
                "{\"a\": \"anna\", \"b\": \"she\", \"c\": \"the coat\"}\n"
                "{\"a\": \"the ball\", \"b\": \"a red ball\", \"c\": \"the coat\"}\n",
                {NULL},
                {"text_column", "a", "text_pair_column", "b", "negative_column", "c"}},
               {"fill",
                "fill",
                FILL,
                lines,
                COUNT_OF(lines),
                "lines.txt",
                "the zebra is red and blue\nthe dog runs\na cat of the dog\n",
                {"validation_split_percentage", "0"},
                {NULL}}};

static size_t append(const char **to, size_t count, const char *const *settings) {
    for (; *settings != NULL; settings++) {
        to[count++] = *settings;
    }
    to[count] = NULL;
    return count;
}

static void check_saved(const char *name, const struct berth_model *memory, const char *file) {
    struct berth_error error;
    if (berth_save(memory, scratch("saved"), "hf", NULL, NULL, &error) != BERTH_OK) {
        fail_msg("%s: %s", name, error.message);
    }
    char a[600], b[600];
    snprintf(a, sizeof a, "%s/model.safetensors", scratch("saved"));
    snprintf(b, sizeof b, "%s/model.safetensors", file);
    assert_same_file(a, b);
    assert_int_equal(dir_remove(scratch("saved"), NULL), BERTH_OK);
}

static void memory_trains_as_a_file_does(void **state) {
    for (size_t i = 0; i < COUNT_OF(lessons); i++) {
        const struct lesson *lesson = &lessons[i];
        const char *settings[40];
        struct berth_error error;
        size_t count = append(settings, 0, SETTINGS(FEW));
        count = append(settings, count, lesson->settings);
        struct berth_model *base = open_base(lesson->folder);
        struct berth_model *memory = berth_train(base, lesson->task, lesson->examples,
                                                 lesson->count, NULL, 0, settings, NULL, &error);
        if (memory == NULL) {
            fail_msg("%s in memory: %s", lesson->name, error.message);
        }
        scratch_write(lesson->file, lesson->text);
        count = append(settings, count, lesson->file_settings);
        char output[512];
        snprintf(output, sizeof output, "%s", scratch("trained"));
        count = append(settings, count,
                       SETTINGS("train_file", scratch(lesson->file), "output_dir", output));
        struct berth_model *file =
            berth_train(base, lesson->task, NULL, 0, NULL, 0, settings, NULL, &error);
        if (file == NULL) {
            fail_msg("%s of a file: %s", lesson->name, error.message);
        }
        assert_string_equal(berth_model_text(file, "path"), output);
        assert_true(berth_model_number(memory, "steps") > 0);
        assert_true(berth_model_number(memory, "loss") == berth_model_number(file, "loss"));
        check_saved(lesson->name, memory, output);
        berth_close(memory);
        berth_close(file);
        berth_close(base);
        assert_int_equal(dir_remove(output, NULL), BERTH_OK);
    }
}

// --- what is wrong with an example ---------------------------------------------------------------

static void examples_are_checked(void **state) {
    static const char *const two[] = {"a", "b"};
    static const struct {
        const char *task, *folder;
        struct berth_text text;
        const char *message;
    } rows[] = {
        {"classify", CLASSIFIER, {.label = "yes"}, "example 2: the text is NULL"},
        {"tag", TAGS, {.text = "anna has"}, "example 2: the tags are NULL"},
        {"tag", TAGS, {.text = "anna has", .label = "O"}, "example 2: 2 words have 1 tags"},
        {"answer", CLASSIFIER, {.text = "who ?", .pair = "anna"}, "example 2: the answer is NULL"},
        {"answer",
         CLASSIFIER,
         {.text = "who ?", .label = "anna"},
         "example 2: the context is NULL"},
        {"answer",
         CLASSIFIER,
         {.text = "who ?", .pair = "anna", .label = "ben"},
         "the answer \"ben\" is not in its context"},
        {"answer",
         CLASSIFIER,
         {.text = "who ?", .pair = "anna", .label = "anna", .start = 9},
         "start 9 is not in the context of 4 bytes"},
        {"answer",
         CLASSIFIER,
         {.text = "who ?", .pair = "ben anna", .label = "anna", .start = 3},
         "start 3: the context does not have \"anna\" there"},
        {"embed",
         ENCODER,
         {.text = "anna", .pair = "she", .more = two, .more_count = 2},
         "2 negatives; expected at most one"}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const size_t first = strcmp(rows[i].task, "classify") == 0 ? 0
                             : strcmp(rows[i].task, "tag") == 0    ? 1
                             : strcmp(rows[i].task, "answer") == 0 ? 2
                                                                   : 3;
        static const struct berth_text *const good[] = {classes, tagged, answers, pairs};
        const struct berth_text examples[] = {good[first][0], rows[i].text};
        struct berth_error error;
        struct berth_model *base = open_base(rows[i].folder);
        assert_null(berth_train(base, rows[i].task, examples, 2, NULL, 0, NULL, NULL, &error));
        expect_refusal(&error, BERTH_USAGE, rows[i].message);
        assert_int_equal(error.input, 1);
        berth_close(base);
    }
}

static void examples_are_in_memory_or_in_a_file(void **state) {
    struct berth_error error;
    struct berth_model *base = open_base(CLASSIFIER);
    assert_null(berth_train(base, "classify", classes, 4, NULL, 0,
                            SETTINGS("train_file", "none.csv"), NULL, &error));
    expect_refusal(&error, BERTH_USAGE, "train_file");
    assert_null(berth_train(base, "classify", classes, 4, classes, 4,
                            SETTINGS("validation_file", "none.csv"), NULL, &error));
    expect_refusal(&error, BERTH_USAGE, "validation_file");
    assert_null(berth_train(base, "classify", NULL, 0, NULL, 0, NULL, NULL, &error));
    expect_refusal(&error, BERTH_USAGE, "train_file");
    assert_null(berth_train(base, "classify", classes, 0, NULL, 0, NULL, NULL, &error));
    expect_refusal(&error, BERTH_USAGE, "no examples");
    berth_close(base);
}

// --- wishes --------------------------------------------------------------------------------------

struct watcher {
    enum berth_wish wish;
    double at; // the update after which it is wished
    double steps, evaluations, plans;
};

static enum berth_wish see(void *context, const struct berth_record *record) {
    struct watcher *watcher = context;
    watcher->plans += record->kind == BERTH_PLAN;
    watcher->evaluations += record->kind == BERTH_EVAL;
    if (record->kind == BERTH_STEP) {
        watcher->steps = berth_record_number(record, "step");
        assert_true(berth_record_number(record, "loss") > 0);
        assert_null(berth_record_text(record, "loss"));
        assert_true(isnan(berth_record_number(record, "none such")));
    }
    return watcher->steps >= watcher->at ? watcher->wish : BERTH_CONTINUE;
}

static struct berth_model *train_watched(const struct berth_model *base, struct watcher *watcher,
                                         const char *output, struct berth_error *error) {
    const struct berth_watch watch = {.see = see, .context = watcher};
    return berth_train(base, NULL, classes, 4, classes, 4,
                       SETTINGS("max_seq_length", "16", "train_batch_size", "1", "max_steps", "8",
                                "logging_steps", "1", "save_steps", "100", "output_dir", output),
                       &watch, error);
}

static void a_training_follows_the_wishes_of_its_watch(void **state) {
    struct berth_error error;
    struct berth_model *base = open_base(CLASSIFIER);
    struct watcher watcher = {.wish = BERTH_CONTINUE};
    struct berth_model *whole = train_watched(base, &watcher, scratch("whole"), &error);
    assert_non_null(whole);
    assert_true(watcher.steps == 8 && watcher.plans > 0 && watcher.evaluations > 0);
    assert_true(berth_model_number(whole, "steps") == 8);
    assert_true(berth_model_number(whole, "accuracy") >= 0);

    watcher = (struct watcher){.wish = BERTH_FINISH, .at = 3};
    struct berth_model *finished = train_watched(base, &watcher, scratch("finished"), &error);
    assert_non_null(finished);
    assert_int_equal(error.status, BERTH_OK);
    assert_true(watcher.steps == 3 && berth_model_number(finished, "steps") == 3);
    assert_true(berth_model_number(finished, "accuracy") >= 0);
    assert_true(file_exists(scratch("finished/model.safetensors")));

    watcher = (struct watcher){.wish = BERTH_SUSPEND, .at = 3};
    assert_null(train_watched(base, &watcher, scratch("suspended"), &error));
    assert_int_equal(error.status, BERTH_INTERRUPTED);
    assert_false(file_exists(scratch("suspended/model.safetensors")));
    assert_true(dir_exists(scratch("suspended/checkpoint-3")) ||
                dir_exists(scratch("suspended/checkpoint-4")));

    watcher = (struct watcher){.wish = BERTH_CANCEL, .at = 3};
    assert_null(train_watched(base, &watcher, scratch("cancelled"), &error));
    assert_int_equal(error.status, BERTH_INTERRUPTED);
    assert_false(dir_exists(scratch("cancelled/checkpoint-3")));
    berth_close(whole);
    berth_close(finished);

    // What was suspended goes on to the same bytes.
    struct berth_model *resumed =
        berth_train(base, NULL, classes, 4, classes, 4,
                    SETTINGS("max_seq_length", "16", "train_batch_size", "1", "max_steps", "8",
                             "logging_steps", "1", "save_steps", "100", "output_dir",
                             scratch("suspended"), "resume_from_checkpoint", "auto"),
                    NULL, &error);
    if (resumed == NULL) {
        fail_msg("%s", error.message);
    }
    assert_same_file(scratch("suspended/model.safetensors"), scratch("whole/model.safetensors"));
    berth_close(resumed);
    berth_close(base);
}

// --- the models ----------------------------------------------------------------------------------

static void the_base_stays_and_the_new_model_is_temporary(void **state) {
    struct berth_error error;
    struct berth_model *base = open_base(CLASSIFIER);
    struct berth_result *before = run_one(base, NULL, "anna", "red", NULL);
    setenv("TMPDIR", scratch_folder, 1);
    struct berth_model *trained =
        berth_train(base, "text-classification", classes, 4, NULL, 0, SETTINGS(FEW), NULL, &error);
    if (trained == NULL) {
        fail_msg("%s", error.message);
    }
    struct berth_result *after = run_one(base, NULL, "anna", "red", NULL);
    struct berth_result *of_trained = run_one(trained, NULL, "anna", "red", NULL);
    assert_true(same_found(before, 0, after, 0));
    assert_false(same_found(before, 0, of_trained, 0));
    assert_string_equal(berth_model_text(trained, "task"), "classify");
    assert_true(isnan(berth_model_number(trained, "accuracy"))); // it was not evaluated
    assert_int_equal(scratch_count(), 1);
    berth_close(base);
    berth_result_free(before);
    berth_result_free(after);
    berth_close(trained);
    assert_int_equal(scratch_count(), 1); // the result's model is still there
    berth_result_free(of_trained);
    assert_int_equal(scratch_count(), 0);
    // A failure leaves nothing either.
    base = open_base(CLASSIFIER);
    assert_null(berth_train(base, "classify", classes, 4, NULL, 0,
                            SETTINGS("max_seq_length", "16", "class_weights", "1"), NULL, &error));
    assert_int_equal(scratch_count(), 0);
    unsetenv("TMPDIR");
    berth_close(base);
}

struct reader {
    const struct berth_model *base;
    const struct berth_result *right;
    atomic_int ends, failures, calls;
};

static void *read_base(void *context) {
    struct reader *reader = context;
    const struct berth_text text = {.text = "anna", .pair = "red"};
    do {
        struct berth_result *found = berth_run(reader->base, NULL, &text, 1, NULL, NULL, NULL);
        reader->failures += found == NULL || !same_found(found, 0, reader->right, 0);
        reader->calls++;
        berth_result_free(found);
    } while (!reader->ends);
    return NULL;
}

// Another thread's wish: the variable that the watch returns is atomic.
static enum berth_wish wish_of_another_thread(void *context, const struct berth_record *record) {
    struct reader *reader = context;
    return record->kind == BERTH_STEP && reader->calls > 2 ? BERTH_FINISH : BERTH_CONTINUE;
}

static void the_base_runs_meanwhile(void **state) {
    pthread_t thread;
    struct berth_error error;
    struct berth_model *base = open_base(CLASSIFIER);
    struct berth_result *right = run_one(base, NULL, "anna", "red", NULL);
    struct reader reader = {.base = base, .right = right};
    const struct berth_watch watch = {.see = wish_of_another_thread, .context = &reader};
    assert_int_equal(pthread_create(&thread, NULL, read_base, &reader), 0);
    struct berth_model *trained =
        berth_train(base, NULL, classes, 4, NULL, 0,
                    SETTINGS("max_seq_length", "16", "train_batch_size", "2", "max_steps", "100000",
                             "logging_steps", "1", "learning_rate", "1e-3"),
                    &watch, &error);
    reader.ends = 1;
    pthread_join(thread, NULL);
    if (trained == NULL) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(reader.failures, 0);
    assert_in_range(berth_model_number(trained, "steps"), 1, 99999);
    berth_result_free(right);
    berth_close(trained);
    berth_close(base);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(memory_trains_as_a_file_does),
        cmocka_unit_test(examples_are_checked),
        cmocka_unit_test(examples_are_in_memory_or_in_a_file),
        SCRATCH_TEST(a_training_follows_the_wishes_of_its_watch),
        cmocka_unit_test(the_base_runs_meanwhile),
        SCRATCH_TEST(the_base_stays_and_the_new_model_is_temporary),
    };
    return cmocka_run_group_tests_name("training", tests, NULL, NULL);
}
