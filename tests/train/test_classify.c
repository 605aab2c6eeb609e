// SPDX-License-Identifier: Apache-2.0
// Tests classification and regression from files to files: a tiny model learns a rule, the model
// records the classes, results have the layouts of the original programs, a stopped run resumes
// with the same bytes, and inconsistencies are reported.
#include "fixture.h"
#include "format/json/json.h"
#include "train/checkpoint/checkpoint_manifest.h"
#include "train/tasks/confusion.h"

#include <math.h>
#include <stdlib.h>

// --- files --------------------------------------------------------------------------------------

static FILE *create(const char *name) {
    FILE *file = fopen(in_folder(name), "w");
    assert_non_null(file);
    return file;
}

// The texts for the rules below: texts number 0, 1, ... are all different.
static void sentence(int number, char text[96]) {
    const struct fixture_words words = fixture_words(number);
    snprintf(text, 96, "the %s of %s is %s .", words.thing, words.name, words.colour);
}

// The class of a text is that of its colour.
static const char *temperature(int number) {
    return number % 2 ? "cold" : "warm";
}

static void write_csv(const char *name, int first, int count, int labels) {
    FILE *file = create(name);
    fprintf(file, labels ? "id,review,verdict\n" : "id,review\n");
    for (int i = first; i < first + count; i++) {
        char text[96];
        sentence(i, text);
        fprintf(file, labels ? "%d,\"%s\",%s\n" : "%d,\"%s\"\n", i, text, temperature(i));
    }
    assert_int_equal(fclose(file), 0);
}

// Pairs with a number: 4.5 if the first text is warm, else 1.
static void write_json_lines(const char *name, int first, int count) {
    FILE *file = create(name);
    for (int i = first; i < first + count; i++) {
        char a[96], b[96];
        sentence(i, a);
        sentence(i / 3 % 64, b);
        fprintf(file, "{\"a\": \"%s\", \"b\": \"%s\", \"score\": %s}\n", a, b, i % 2 ? "1" : "4.5");
    }
    assert_int_equal(fclose(file), 0);
}

// GLUE's layout of MNLI, cut to the columns that are read: the hypothesis contradicts when it names
// another colour, is neutral when it names another thing.
static void write_mnli(const char *name, int first, int count, int labels) {
    FILE *file = create(name);
    fprintf(file,
            labels ? "index\tsentence1\tsentence2\tgold_label\n" : "index\tsentence1\tsentence2\n");
    for (int i = first; i < first + count; i++) {
        char a[96], b[96];
        static const char *const classes[] = {"entailment", "contradiction", "neutral"};
        sentence(i, a);
        sentence(i % 3 == 0 ? i : i % 3 == 1 ? (i + 1) % 4 + i / 4 * 4 : i + 16, b);
        fprintf(file, labels ? "%d\t%s\t%s\t%s\n" : "%d\t%s\t%s\n", i, a, b, classes[i % 3]);
    }
    assert_int_equal(fclose(file), 0);
}

static size_t lines_of(const char *path) {
    char *text = fixture_text(path);
    size_t lines = 0;
    for (const char *at = text; *at != '\0'; at++) {
        lines += *at == '\n';
    }
    memory_free(text);
    return lines;
}

// Sets other classes in the model folder's config.json.
static void set_key(const char *folder, const char *key, const char *text) {
    char path[64];
    json *config, *value;
    snprintf(path, sizeof path, "%s/config.json", folder);
    assert_int_equal(json_read_file(in_folder(path), &config, NULL), BERTH_OK);
    assert_int_equal(json_read_memory(key, text, strlen(text), &value, NULL), BERTH_OK);
    json_set(config, key, value);
    assert_int_equal(json_write_file(config, JSON_INDENT_2_SORTED, in_folder(path), NULL),
                     BERTH_OK);
    json_free(config);
}

static void set_labels(const char *folder, const char *id2label) {
    set_key(folder, "id2label", id2label);
}

// --- runs ---------------------------------------------------------------------------------------

static struct fixture_run own_run(const char *output) {
    struct fixture_run run = fixture_default(output);
    run.task = "classify";
    run.config.task.train_file = fixture_keep("train.csv");
    run.config.task.validation_file = fixture_keep("dev.csv");
    run.config.features.text_column = "review";
    run.config.features.label_column = "verdict";
    run.config.features.max_seq_length = 32;
    run.config.engine.max_steps = 60;
    run.config.engine.train_batch_size = 12;
    run.config.optimizer.learning_rate = 5e-3;
    run.config.run.save_steps = 100;
    return run;
}

static struct fixture_run own_prediction(const char *model, const char *file, const char *output) {
    struct fixture_run run = own_run(output);
    run.job = job_predict;
    run.config.model.model_name_or_path = fixture_keep(model);
    run.config.task.predict_file = fixture_keep(file);
    return run;
}

static void write_own_files(void) {
    write_csv("train.csv", 0, 44, 1);
    write_csv("dev.csv", 44, 20, 1);
    write_csv("new.csv", 44, 20, 0);
}

// --- tests --------------------------------------------------------------------------------------

// In eval_results.txt "loss" is that of the evaluation once more, as in Google's program.
static void expect_loss_twice(const char *folder) {
    char *text, *first, *second;
    size_t length;
    assert_int_equal(
        file_read(fixture_path(folder, "eval_results.txt"), 4096, &text, &length, NULL), BERTH_OK);
    first = strstr(text, "eval_loss = ");
    second = strstr(text, "\nloss = ");
    assert_true(first != NULL && second != NULL);
    assert_string_equal(strtok(first + strlen("eval_loss = "), "\n"),
                        strtok(second + strlen("\nloss = "), "\n"));
    memory_free(text);
}

// All models score the same, so the first is the best. It stays if the metric is named, as in the
// Trainer.
static void a_named_metric_keeps_the_best_checkpoint(void **state) {
    write_own_files();
    for (int named = 0; named < 2; named++) {
        struct fixture_run run = own_run(named ? "named" : "unnamed");
        run.config.optimizer.learning_rate = 0;
        run.config.engine.max_steps = 4;
        run.config.run.eval_steps = run.config.run.save_steps = 1;
        run.config.run.save_total_limit = 2;
        run.config.run.metric_for_best_model = named ? "accuracy" : NULL;
        assert_int_equal(fixture_execute(&run), BERTH_OK);
        for (int step = 1; step <= 4; step++) {
            char name[64];
            snprintf(name, sizeof name, "checkpoint-%d", step);
            assert_int_equal(dir_exists(fixture_path(named ? "named" : "unnamed", name)),
                             step == 4 || step == (named ? 1 : 3));
        }
    }
}

// As the Trainer's file of an evaluation.
static void expect_evaluation_keys(const char *folder) {
    const double samples = fixture_number(folder, "eval_results.json", "eval_samples");
    const double seconds = fixture_number(folder, "eval_results.json", "eval_runtime");
    const double rate = fixture_number(folder, "eval_results.json", "eval_samples_per_second");
    assert_true(samples == 20 && fabs(rate * seconds - samples) < 1e-6);
    assert_true(fixture_number(folder, "eval_results.json", "epoch") ==
                fixture_number(folder, "train_results.json", "epoch"));
}

static void an_evaluation_smooths_labels(void **state) {
    write_own_files();
    struct fixture_run first = own_run("first"), run = own_run("smoothed");
    assert_int_equal(fixture_execute(&first), BERTH_OK);
    run.config.model.model_name_or_path = fixture_keep("first");
    fixture_expect_smoothed_loss(&run);
}

static void own_classes_are_learnt(void **state) {
    write_own_files();
    struct fixture_run run = own_run("out");
    fixture_expect(&run, BERTH_OK,
                   "newly initialised, to be trained: bert.pooler.dense.weight, "
                   "classifier.weight, bert.pooler.dense.bias, classifier.bias");
    assert_true(fixture_number("out", "eval_results.json", "eval_accuracy") == 1.0);
    assert_true(fixture_number("out", "all_results.json", "eval_accuracy") == 1.0);
    assert_true(fixture_number("out", "all_results.json", "global_step") == 60);
    expect_evaluation_keys("out");
    fixture_assert_holds(fixture_path("out", "eval_results.txt"),
                         "eval_accuracy = 1.0\neval_loss = 0.");
    fixture_assert_holds(fixture_path("out", "eval_results.txt"), "\nglobal_step = 60\nloss = 0.");
    expect_loss_twice("out");
    fixture_assert_holds(fixture_path("out", "config.json"), "\"BertForSequenceClassification\"");
    fixture_assert_holds(fixture_path("out", "config.json"),
                         "\"0\": \"cold\",\n    \"1\": \"warm\"");
    // Without labels nothing is scored; with labels the scores are those of the run.
    struct fixture_run blind = own_prediction("out", "new.csv", "blind");
    assert_int_equal(fixture_execute(&blind), BERTH_OK);
    assert_false(file_exists(fixture_path("blind", "predict_results.json")));
    struct fixture_run seeing = own_prediction("out", "dev.csv", "seeing");
    assert_int_equal(fixture_execute(&seeing), BERTH_OK);
    assert_true(fixture_number("seeing", "predict_results.json", "predict_accuracy") == 1.0);
    assert_true(fabs(fixture_number("seeing", "predict_results.json", "predict_loss") -
                     fixture_number("out", "eval_results.json", "eval_loss")) < 1e-6);
    const char *const files[] = {"test_results.tsv", "predict_results.txt"};
    for (int i = 0; i < 2; i++) {
        assert_same_file(fixture_path("blind", files[i]), fixture_path("seeing", files[i]));
    }
    assert_int_equal(lines_of(fixture_path("blind", "test_results.tsv")), 20);
    char *text = fixture_text(fixture_path("blind", "predict_results.txt"));
    const char *at = text + strlen("index\tprediction\n");
    for (int i = 0; i < 20; i++) {
        char line[64];
        snprintf(line, sizeof line, "%d\t%s\n", i, temperature(44 + i));
        assert_memory_equal(at, line, strlen(line));
        at += strlen(line);
    }
    memory_free(text);
}

static void a_model_keeps_the_order_of_its_classes(void **state) {
    write_own_files();
    set_labels("model", "{\"0\":\"Warm\",\"1\":\"COLD\"}");
    struct fixture_run run = own_run("out");
    fixture_expect(&run, BERTH_OK, "result: 0");
    assert_true(fixture_number("out", "eval_results.json", "eval_accuracy") == 1.0);
    fixture_assert_holds(fixture_path("out", "config.json"),
                         "\"0\": \"Warm\",\n    \"1\": \"COLD\"");
    struct fixture_run predicted = own_prediction("out", "new.csv", "predicted");
    assert_int_equal(fixture_execute(&predicted), BERTH_OK);
    fixture_assert_holds(fixture_path("predicted", "predict_results.txt"),
                         "index\tprediction\n0\tWarm\n1\tCOLD\n");
}

// Of a test set whose labels are not published.
static void a_column_without_labels_is_predicted(void **state) {
    write_own_files();
    struct fixture_run run = own_run("out");
    run.config.engine.max_steps = 1;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    struct fixture_run blind = own_prediction("out", "new.csv", "blind");
    assert_int_equal(fixture_execute(&blind), BERTH_OK);
    FILE *file = create("unpublished.csv");
    fprintf(file, "review,verdict\n");
    for (int i = 44; i < 64; i++) {
        char text[96];
        sentence(i, text);
        fprintf(file, "\"%s\",%s\n", text, i % 2 ? "-1" : "");
    }
    assert_int_equal(fclose(file), 0);
    struct fixture_run empty = own_prediction("out", "unpublished.csv", "empty");
    fixture_expect(
        &empty, BERTH_OK,
        "unpublished.csv: verdict holds no labels, only empty ones, null or -1: predicted "
        "without scores; label_column names another column");
    assert_false(file_exists(fixture_path("empty", "predict_results.json")));
    assert_same_file(fixture_path("blind", "test_results.tsv"),
                     fixture_path("empty", "test_results.tsv"));
}

// What will be predicted after training is read before it.
static void an_unusable_test_file_is_reported_before_training(void **state) {
    write_own_files();
    struct fixture_run run = own_run("out");
    run.config.engine.max_steps = 1;
    run.config.task.do_predict = 1;
    run.config.task.predict_file = fixture_keep("odd.csv");
    FILE *file = create("odd.csv");
    fprintf(file, "review,verdict\nthe ball is red .,warm\nthe ball is blue .,lukewarm\n");
    assert_int_equal(fclose(file), 0);
    fixture_expect(&run, BERTH_BAD_DATA,
                   "line 3: the model has no label \"lukewarm\"; expected one of \"cold\", "
                   "\"warm\"; `berth predict classify` with text_column ");
    file = create("odd.csv");
    fprintf(file, "review,verdict\nthe ball is red .,warm\nthe ball is blue .,\n");
    assert_int_equal(fclose(file), 0);
    fixture_expect(&run, BERTH_BAD_DATA,
                   "line 3, column \"verdict\": the label is empty; `berth predict");
    assert_false(dir_exists(in_folder("out")));
    run.config.task.predict_file = fixture_keep("dev.csv");
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    assert_true(file_exists(fixture_path("out", "predict_results.json")));
}

// The configuration from which training started has other classes.
static void a_trained_model_predicts_by_its_own_classes(void **state) {
    write_own_files();
    struct fixture_run run = own_run("out");
    run.config.model.config_file = fixture_keep("model/config.json");
    run.config.task.predict_file = fixture_keep("dev.csv");
    run.config.engine.max_steps = 1;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    struct fixture_run again = own_prediction("out", "dev.csv", "again");
    assert_int_equal(fixture_execute(&again), BERTH_OK);
    assert_same_file(fixture_path("out", "predict_results.txt"),
                     fixture_path("again", "predict_results.txt"));
}

static void write_numbered(const char *name, const char *before, int first, int classes) {
    FILE *file = create(name);
    fprintf(file, "review,verdict\n");
    for (int i = 0; i < 24; i++) {
        char text[96];
        sentence(i, text);
        fprintf(file, "\"%s\",%s%d\n", text, before, first + i % classes);
    }
    assert_int_equal(fclose(file), 0);
}

// LABEL_10 is the class 10 of a model with such names, and its head remains.
static void placeholders_keep_their_head(void **state) {
    write_numbered("names.csv", "LABEL_", 0, 12);
    write_numbered("numbers.csv", "", 0, 12);
    write_numbered("from-one.csv", "", 1, 12);
    struct fixture_run first = own_run("first");
    first.config.task.train_file = fixture_keep("names.csv");
    first.config.task.validation_file = NULL;
    first.config.engine.max_steps = 1;
    set_labels("model", "{\"0\":\"LABEL_0\",\"1\":\"LABEL_1\",\"2\":\"LABEL_2\",\"3\":\"LABEL_3\","
                        "\"4\":\"LABEL_4\",\"5\":\"LABEL_5\",\"6\":\"LABEL_6\",\"7\":\"LABEL_7\","
                        "\"8\":\"LABEL_8\",\"9\":\"LABEL_9\",\"10\":\"LABEL_10\","
                        "\"11\":\"LABEL_11\"}");
    assert_int_equal(fixture_execute(&first), BERTH_OK);
    fixture_assert_holds(fixture_path("first", "config.json"), "\"10\": \"LABEL_10\"");
    struct fixture_run again = first;
    again.config.model.model_name_or_path = fixture_keep("first");
    again.config.run.output_dir = fixture_keep("again");
    fixture_expect(&again, BERTH_OK, "model: 41 tensors");
    again.config.run.output_dir = fixture_keep("numbers");
    again.config.task.train_file = fixture_keep("numbers.csv");
    fixture_expect(&again, BERTH_OK, "model: 41 tensors");
    fixture_assert_holds(fixture_path("numbers", "config.json"), "\"10\": \"10\"");
    again.config.run.output_dir = fixture_keep("from-one");
    again.config.task.train_file = fixture_keep("from-one.csv");
    fixture_expect(&again, BERTH_OK, "warning: the model's classes (\"LABEL_0\", ...) differ from");
    struct fixture_run predicted = own_prediction("first", "names.csv", "predicted");
    assert_int_equal(fixture_execute(&predicted), BERTH_OK);
    struct fixture_run by_number = own_prediction("first", "numbers.csv", "by-number");
    assert_int_equal(fixture_execute(&by_number), BERTH_OK);
    assert_true(fixture_number("predicted", "predict_results.json", "predict_loss") ==
                fixture_number("by-number", "predict_results.json", "predict_loss"));
    struct fixture_run odd = own_prediction("first", "from-one.csv", "odd");
    fixture_expect(&odd, BERTH_BAD_DATA, "the model has no label \"12\"; expected 0 to 11");
}

// A head with names or with placeholders remains if the file has only some of its classes. A head
// that was never trained has the file's.
static void a_head_with_more_classes_remains(void **state) {
    write_own_files();
    write_numbered("names.csv", "LABEL_", 0, 2);
    write_numbered("numbers.csv", "", 1, 2);
    FILE *file = create("three.csv");
    fprintf(file, "review,verdict\na,cold\nb,warm\nc,hot\n");
    assert_int_equal(fclose(file), 0);
    struct fixture_run first = own_run("first");
    first.config.task.train_file = fixture_keep("three.csv");
    first.config.task.validation_file = NULL;
    first.config.engine.max_steps = 1;
    assert_int_equal(fixture_execute(&first), BERTH_OK);
    static const struct {
        const char *file, *labels, *name;
    } rounds[] = {{"train.csv", NULL, "\"1\": \"hot\""},
                  {"names.csv", "{\"0\":\"LABEL_0\",\"1\":\"LABEL_1\",\"2\":\"LABEL_2\"}",
                   "\"2\": \"LABEL_2\""},
                  {"numbers.csv", NULL, "\"2\": \"LABEL_2\""}};
    for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++) {
        char output[16];
        snprintf(output, sizeof output, "again-%zu", i);
        struct fixture_run again = own_run(output);
        again.config.model.model_name_or_path = fixture_keep("first");
        again.config.task.train_file = fixture_keep(rounds[i].file);
        again.config.task.validation_file = NULL;
        again.config.engine.max_steps = 1;
        if (rounds[i].labels != NULL) {
            set_labels("first", rounds[i].labels);
        }
        fixture_expect(&again, BERTH_OK, "model: 41 tensors");
        fixture_assert_not_logged("newly initialised");
        fixture_assert_logged("has 2 of the model's 3 classes: its head is kept, with all of them");
        fixture_assert_holds(fixture_path(output, "config.json"), rounds[i].name);
    }
    set_key("first", "architectures", "[\"BertModel\"]");
    struct fixture_run bare = own_run("bare");
    bare.config.model.model_name_or_path = fixture_keep("first");
    bare.config.task.train_file = fixture_keep("names.csv");
    bare.config.task.validation_file = NULL;
    bare.config.engine.max_steps = 1;
    fixture_expect(&bare, BERTH_OK, "newly initialised, to be trained: classifier.weight");
    fixture_assert_holds(fixture_path("bare", "config.json"), "\"1\": \"LABEL_1\"\n  },");
}

// predict_results.txt could not tell them from two labels or lines.
static void labels_that_cannot_be_written_are_refused(void **state) {
    static const struct {
        const char *file, *text, *message;
    } cases[] = {
        {"several.jsonl",
         "{\"review\": \"a\", \"verdict\": [\"New York, NY\"]}\n"
         "{\"review\": \"b\", \"verdict\": [\"Rome\"]}\n",
         "the label that begins \"New York\" contains a comma"},
        {"tab.jsonl",
         "{\"review\": \"a\", \"verdict\": \"a\\tb\"}\n"
         "{\"review\": \"b\", \"verdict\": \"x, y\"}\n",
         "the label that begins \"a\" contains a tab"},
        {"line.csv", "review,verdict\na,\"a\nb\"\nb,x\n",
         "the label that begins \"a\" contains a line break"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture_run run = own_run("refused");
        FILE *file = create(cases[i].file);
        fputs(cases[i].text, file);
        assert_int_equal(fclose(file), 0);
        run.config.task.train_file = fixture_keep(cases[i].file);
        run.config.task.validation_file = NULL;
        fixture_expect(&run, BERTH_BAD_DATA, cases[i].message);
    }
}

static void names_of_a_model_that_cannot_be_written_are_refused(void **state) {
    write_own_files();
    struct fixture_run run = own_run("out");
    run.config.engine.max_steps = 1;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    set_labels("out", "{\"0\":\"a\\tb\",\"1\":\"c\"}");
    struct fixture_run predicted = own_prediction("out", "new.csv", "predicted");
    fixture_expect(
        &predicted, BERTH_BAD_DATA,
        "the model's config.json: key \"id2label\": the label that begins \"a\" contains a "
        "tab");
    assert_false(file_exists(fixture_path("predicted", "predict_results.txt")));
    set_labels("out", "{\"0\":\"a, b\",\"1\":\"c\"}");
    assert_int_equal(fixture_execute(&predicted), BERTH_OK);
    set_key("out", "problem_type", "\"multi_label_classification\"");
    struct fixture_run several = own_prediction("out", "new.csv", "several");
    fixture_expect(&several, BERTH_BAD_DATA, "the label that begins \"a\" contains a comma");
}

// Labels that are neither names nor numbers are taken in order, which is noted.
static void the_order_of_labels_is_noted(void **state) {
    write_own_files();
    struct fixture_run run = own_run("out");
    run.config.engine.max_steps = 1;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    set_labels("out", "{\"0\":\"LABEL_0\",\"1\":\"LABEL_1\"}");
    struct fixture_run predicted = own_prediction("out", "dev.csv", "predicted");
    fixture_expect(&predicted, BERTH_OK,
                   "dev.csv: the model's classes have no names; its classes, from 0 on, are "
                   "assumed to be \"cold\", \"warm\"; to name them, set id2label");
    set_labels("out", "{\"0\":\"LABEL_cold\",\"1\":\"LABEL_warm\"}"); // names of their own
    predicted.config.run.output_dir = fixture_keep("odd");
    fixture_expect(&predicted, BERTH_BAD_DATA, "expected one of \"LABEL_cold\", \"LABEL_warm\"");
    run.config.model.model_name_or_path = fixture_keep("out");
    run.config.run.output_dir = fixture_keep("again");
    fixture_expect(&run, BERTH_OK,
                   "warning: the model's classes (\"LABEL_cold\", ...) differ from");
}

// A head trained for other classes is newly initialised, even if it has the same number of them.
static void a_head_for_other_classes_starts_anew(void **state) {
    write_own_files();
    struct fixture_run first = own_run("first");
    first.config.engine.max_steps = 2;
    assert_int_equal(fixture_execute(&first), BERTH_OK);
    struct fixture_run again = own_run("again");
    again.config.model.model_name_or_path = fixture_keep("first");
    again.config.engine.max_steps = 2;
    fixture_expect(&again, BERTH_OK, "model: 41 tensors"); // all of them: the classes are the same
    set_labels("first", "{\"0\":\"good\",\"1\":\"bad\"}");
    struct fixture_run other = own_run("other");
    other.config.model.model_name_or_path = fixture_keep("first");
    other.config.engine.max_steps = 2;
    fixture_expect(&other, BERTH_OK,
                   "newly initialised, to be trained: classifier.weight, classifier.bias");
    fixture_assert_holds(in_folder("log"),
                         "warning: the model's classes (\"good\", ...) differ from those of");
    // transformers writes names that are numbers as numbers.
    set_labels("first", "{\"0\":4,\"1\":\"bad\"}");
    struct fixture_run numbered = own_run("numbered");
    numbered.config.model.model_name_or_path = fixture_keep("first");
    numbered.config.engine.max_steps = 2;
    fixture_expect(&numbered, BERTH_OK, "warning: the model's classes (\"4\", ...) differ from");
    set_labels("first", "{\"0\":\"good\",\"1\":\"bad\",\"2\":\"ugly\"}");
    struct fixture_run wider = own_run("wider");
    wider.config.model.model_name_or_path = fixture_keep("first");
    wider.config.engine.max_steps = 2;
    fixture_expect(&wider, BERTH_OK,
                   "newly initialised, to be trained: classifier.weight, classifier.bias");
}

// The same names, but classes that applied independently.
static void a_head_for_another_problem_starts_anew(void **state) {
    write_own_files();
    struct fixture_run first = own_run("first");
    first.config.engine.max_steps = 1;
    assert_int_equal(fixture_execute(&first), BERTH_OK);
    set_key("first", "problem_type", "\"multi_label_classification\"");
    struct fixture_run again = own_run("again");
    again.config.model.model_name_or_path = fixture_keep("first");
    again.config.engine.max_steps = 1;
    fixture_expect(&again, BERTH_OK, "warning: the model is multi-label, but ");
    fixture_assert_logged("train.csv is single-label: its head is newly initialised");
    fixture_assert_holds(fixture_path("again", "config.json"), "\"single_label_classification\"");
}

// The classifiers of choices and of words have another purpose, even with a shape that fits.
static void another_classifier_starts_anew(void **state) {
    static const struct {
        const char *list, *refusal;
    } others[] = {
        {"[\"BertForMultipleChoice\"]", "the model is a BertForMultipleChoice: its tensor"},
        {"[\"BertForTokenClassification\"]",
         "the model is a BertForTokenClassification: its tensor"},
    };
    write_own_files();
    struct fixture_run first = own_run("first");
    first.config.engine.max_steps = 2;
    assert_int_equal(fixture_execute(&first), BERTH_OK);
    set_labels("first", "{\"0\":\"LABEL_0\",\"1\":\"LABEL_1\"}");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        set_key("first", "architectures", others[i].list);
        struct fixture_run predicted = own_prediction("first", "new.csv", "predicted");
        fixture_expect(&predicted, BERTH_CONFIG, others[i].refusal);
        struct fixture_run again = own_run(i == 0 ? "again" : "once_more");
        again.config.model.model_name_or_path = fixture_keep("first");
        again.config.engine.max_steps = 2;
        fixture_expect(&again, BERTH_OK,
                       "newly initialised, to be trained: classifier.weight, classifier.bias");
        fixture_assert_holds(in_folder("log"), "left out, not part of a classifier: classifier.");
        struct fixture_run now = own_prediction("again", "new.csv", i == 0 ? "now" : "then");
        assert_int_equal(fixture_execute(&now), BERTH_OK);
    }
}

static void numbers_are_regressed(void **state) {
    write_json_lines("train.jsonl", 0, 60);
    write_json_lines("dev.jsonl", 60, 12);
    struct fixture_run run = own_run("out");
    run.config.task.train_file = fixture_keep("train.jsonl");
    run.config.task.validation_file = fixture_keep("dev.jsonl");
    run.config.features.text_column = "a";
    run.config.features.text_pair_column = "b";
    run.config.features.label_column = "score";
    run.config.engine.max_steps = 150;
    fixture_expect(&run, BERTH_OK, "eval: eval step=");
    assert_true(fixture_number("out", "eval_results.json", "eval_mse") < 0.5); // a constant's: 3.1
    assert_true(fabs(fixture_number("out", "eval_results.json", "eval_mse") -
                     fixture_number("out", "eval_results.json", "eval_loss")) < 1e-9);
    fixture_assert_holds(fixture_path("out", "config.json"), "\"problem_type\": \"regression\"");
    struct fixture_run predicted = own_prediction("out", "dev.jsonl", "predicted");
    predicted.config.features.text_column = "a";
    predicted.config.features.text_pair_column = "b";
    predicted.config.features.label_column = "score";
    assert_int_equal(fixture_execute(&predicted), BERTH_OK);
    assert_int_equal(lines_of(fixture_path("predicted", "test_results.tsv")), 12);
    // A model for numbers cannot predict classes, and vice versa.
    write_own_files();
    struct fixture_run wrong = own_prediction("out", "dev.csv", "wrong");
    fixture_expect(&wrong, BERTH_BAD_DATA, "expected a number");
    struct fixture_run classes = own_run("classes");
    classes.config.engine.max_steps = 1;
    assert_int_equal(fixture_execute(&classes), BERTH_OK);
    predicted.config.model.model_name_or_path = fixture_keep("classes");
    predicted.config.run.output_dir = fixture_keep("wrong-too");
    fixture_expect(&predicted, BERTH_BAD_DATA, "the model has no label");
}

static void whole_numbers_are_classes_unless_told(void **state) {
    FILE *file = create("stars.csv");
    fprintf(file, "review,verdict\n");
    for (int i = 0; i < 12; i++) {
        char text[96];
        sentence(i, text);
        fprintf(file, "\"%s\",%d\n", text, i % 3);
    }
    assert_int_equal(fclose(file), 0);
    struct fixture_run run = own_run("classes");
    run.config.task.train_file = fixture_keep("stars.csv");
    run.config.task.validation_file = NULL;
    run.config.engine.max_steps = 1;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    fixture_assert_holds(fixture_path("classes", "config.json"), "\"2\": \"2\"");
    run.config.run.output_dir = fixture_keep("numbers");
    run.config.task.problem_type = "regression";
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    fixture_assert_holds(fixture_path("numbers", "config.json"),
                         "\"problem_type\": \"regression\"");
}

static struct fixture_run mnli_run(const char *output) {
    struct fixture_run run = own_run(output);
    run.config.task.train_file = run.config.task.validation_file = NULL;
    run.config.features.text_column = run.config.features.label_column = NULL;
    run.config.task.task_name = "MNLI";
    run.config.task.data_dir = fixture_keep("glue");
    run.config.engine.max_steps = 3;
    return run;
}

// Most pairs are equivalent, so that the model soon says so of all.
static void write_mrpc(const char *name, int count, int others) {
    FILE *file = create(name);
    fprintf(file, "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n");
    for (int i = 0; i < count; i++) {
        char text[96];
        sentence(i, text);
        fprintf(file, "%d\t1\t2\t%s\t%s\n", i >= others, text, text);
    }
    assert_int_equal(fclose(file), 0);
}

static void f1_is_of_the_class_by_its_name(void **state) {
    assert_int_equal(dir_make(in_folder("glue/MRPC"), NULL), BERTH_OK);
    write_mrpc("glue/MRPC/train.tsv", 24, 1);
    write_mrpc("glue/MRPC/dev.tsv", 6, 0);
    set_labels("model", "{\"0\":\"equivalent\",\"1\":\"not_equivalent\"}");
    struct fixture_run run = mnli_run("out");
    run.config.task.task_name = "MRPC";
    run.config.task.language = "de";
    run.config.engine.max_steps = 8;
    fixture_expect(&run, BERTH_OK, "note: language has no effect with task_name MRPC");
    assert_true(fixture_number("out", "eval_results.json", "eval_accuracy") == 1);
    assert_true(fixture_number("out", "eval_results.json", "eval_f1") == 1);
}

static void mnli_has_two_files(void **state) {
    assert_int_equal(dir_make(in_folder("glue/MNLI"), NULL), BERTH_OK);
    write_mnli("glue/MNLI/train.tsv", 0, 40, 1);
    write_mnli("glue/MNLI/dev_matched.tsv", 5, 9, 1);
    write_mnli("glue/MNLI/dev_mismatched.tsv", 20, 7, 1);
    write_mnli("glue/MNLI/test_matched.tsv", 1, 6, 0);
    write_mnli("glue/MNLI/test_mismatched.tsv", 3, 4, 0);
    struct fixture_run run = mnli_run("out");
    run.config.features.label_column = "index";
    run.config.task.problem_type = "regression";
    fixture_expect(&run, BERTH_OK, "eval_features=16");
    fixture_assert_logged("note: label_column has no effect with task_name MNLI");
    fixture_assert_logged("note: problem_type has no effect with task_name MNLI");
    fixture_number("out", "eval_results.json", "eval_accuracy");
    fixture_number("out", "eval_results.json", "eval_accuracy_mm");
    fixture_assert_holds(fixture_path("out", "config.json"),
                         "\"0\": \"contradiction\",\n    \"1\": \"entailment\"");
    struct fixture_run predicted = mnli_run("test");
    predicted.job = job_predict;
    predicted.config.model.model_name_or_path = fixture_keep("out");
    assert_int_equal(fixture_execute(&predicted), BERTH_OK);
    assert_int_equal(lines_of(fixture_path("test", "test_results.tsv")), 6);
    assert_int_equal(lines_of(fixture_path("test", "test_results_mm.tsv")), 4);
    assert_int_equal(lines_of(fixture_path("test", "predict_results_mnli.txt")), 7);
    assert_int_equal(lines_of(fixture_path("test", "predict_results_mnli_mm.txt")), 5);
    // Each file's scores are those of the file alone.
    predicted.config.task.split = "dev";
    predicted.config.run.output_dir = fixture_keep("dev");
    assert_int_equal(fixture_execute(&predicted), BERTH_OK);
    predicted.config.task.predict_file = fixture_keep("glue/MNLI/dev_mismatched.tsv");
    predicted.config.run.output_dir = fixture_keep("mismatched");
    assert_int_equal(fixture_execute(&predicted), BERTH_OK);
    assert_true(fixture_number("dev", "predict_results.json", "predict_accuracy_mm") ==
                fixture_number("mismatched", "predict_results.json", "predict_accuracy"));
    assert_same_file(fixture_path("dev", "test_results_mm.tsv"),
                     fixture_path("mismatched", "test_results.tsv"));
}

static void a_stopped_run_goes_on_with_the_same_bytes(void **state) {
    write_own_files();
    struct fixture_run straight = own_run("straight");
    straight.config.engine.max_steps = 6;
    straight.config.run.save_steps = 1;
    straight.config.run.save_total_limit = 100;
    assert_int_equal(fixture_execute(&straight), BERTH_OK);
    for (int step = 1; step < 6; step += 2) {
        char output[32];
        snprintf(output, sizeof output, "resumed-%d", step);
        struct fixture_run stopped = straight;
        stopped.config.run.output_dir = fixture_keep(output);
        stopped.stop_at_step = step;
        stopped.stop_level = STOP_AND_SAVE;
        assert_int_equal(fixture_execute(&stopped), BERTH_INTERRUPTED);
        struct fixture_run resumed = straight;
        resumed.config.run.output_dir = fixture_keep(output);
        resumed.config.run.resume_from_checkpoint = "auto";
        resumed.config.model.model_name_or_path = step == 3 ? NULL : fixture_keep("model");
        assert_int_equal(fixture_execute(&resumed), BERTH_OK);
        assert_same_run("straight", output);
        assert_same_file(fixture_path("straight", "eval_results.txt"),
                         fixture_path(output, "eval_results.txt"));
    }
    struct fixture_run other = straight;
    other.config.run.resume_from_checkpoint = "auto";
    other.config.features.text_column = "id"; // another task
    other.config.run.output_dir = fixture_keep("resumed-1");
    assert_int_equal(fixture_execute(&other), BERTH_CONFIG);
}

// 0.1.0 wrote the classes only into the checkpoint's configuration.
static void rename_recorded_classes(const char *checkpoint) {
    char *text = fixture_text(fixture_path(checkpoint, "trainer_state.json"));
    char *key = strstr(text, "\"id2label\"");
    assert_non_null(key);
    key[1] = '-';
    FILE *file = fopen(fixture_path(checkpoint, "trainer_state.json"), "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    memory_free(text);
    assert_int_equal(checkpoint_manifest_write(in_folder(checkpoint), NULL), BERTH_OK);
}

// With or without a model that says nothing of its classes.
static void a_run_does_not_resume_with_other_classes(void **state) {
    write_own_files();
    struct fixture_run run = own_run("out");
    run.config.engine.max_steps = 2;
    run.config.run.save_format = "nvidia";
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    FILE *file = create("train.csv");
    fprintf(file, "id,review,verdict\n");
    for (int i = 0; i < 44; i++) {
        char text[96];
        sentence(i, text);
        fprintf(file, "%d,\"%s\",%s\n", i, text, i % 2 ? "icy" : "warm");
    }
    assert_int_equal(fclose(file), 0);
    run.config.task.validation_file = NULL;
    run.config.engine.max_steps = 4;
    run.config.run.resume_from_checkpoint = "auto";
    fixture_expect(&run, BERTH_CONFIG,
                   "class 0 was \"cold\" in the run to resume and is now \"icy\"");
    run.config.model.model_name_or_path = NULL;
    fixture_expect(&run, BERTH_CONFIG,
                   "class 0 was \"cold\" in the run to resume and is now \"icy\"");
    run.config.model.model_name_or_path = fixture_keep("model");
    run.config.run.resume_from_checkpoint = fixture_keep("out/ckpt_2.pt");
    fixture_expect(&run, BERTH_CONFIG,
                   "class 0 was \"cold\" in the run to resume and is now \"icy\"");
    run.config.run.resume_from_checkpoint = "auto";
    rename_recorded_classes("out/checkpoint-2");
    fixture_expect(&run, BERTH_CONFIG,
                   "class 0 was \"cold\" in the run to resume and is now \"icy\"");
    write_own_files();
    run.config.task.problem_type = "single_label_classification"; // as it was determined
    assert_int_equal(fixture_execute(&run), BERTH_OK);
}

struct logged {
    char text[256];
};

static void put_cell(void *context, const struct berth_record *record) {
    struct logged *logged = context;
    const size_t used = strlen(logged->text);
    snprintf(logged->text + used, sizeof logged->text - used, "%s %s %d; ", record->fields[1].text,
             record->fields[2].text, (int)record->fields[3].integer);
}

// With as many classes as a model may have, the matrix takes memory for the examples alone.
static void many_classes_take_no_memory(void **state) {
    enum { CLASSES = 1 << 20, EXAMPLES = 7 };
    static const int32_t pairs[EXAMPLES][2] = {
        {CLASSES - 1, 0}, {5, 5}, {CLASSES - 1, 0}, {0, 5}, {5, 5}, {5, 0}, {5, 5}};
    static const char *names[CLASSES];
    names[0] = "first";
    names[5] = "fifth";
    names[CLASSES - 1] = "last";
    struct logged logged = {""};
    const struct berth_log log = {.write = put_cell, .context = &logged};
    struct confusion confusion;
    assert_int_equal(confusion_init(&confusion, names, CLASSES, EXAMPLES, NULL), BERTH_OK);
    for (size_t i = 0; i < EXAMPLES; i++) {
        confusion_count(&confusion, pairs[i][0], pairs[i][1]);
    }
    confusion_log(&confusion, 1, &log);
    assert_string_equal(logged.text, "fifth fifth 3; last first 2; first fifth 1; fifth first 1; ");
}

// With few classes, it takes memory for its cells alone.
static void many_examples_take_no_memory(void **state) {
    static const char *const names[] = {"no", "yes"};
    struct logged logged = {""};
    const struct berth_log log = {.write = put_cell, .context = &logged};
    struct confusion confusion;
    assert_int_equal(confusion_init(&confusion, names, 2, (size_t)1 << 60, NULL), BERTH_OK);
    for (int32_t i = 0; i < 1000; i++) {
        confusion_count(&confusion, i % 4 == 0, i % 2 == 0);
    }
    confusion_log(&confusion, 1, &log);
    assert_string_equal(logged.text, "no no 500; no yes 250; yes yes 250; ");
}

static void what_does_not_fit_is_reported(void **state) {
    write_own_files();
    struct fixture_run run = own_run("out");
    run.config.features.text_column = "revue";
    fixture_expect(&run, BERTH_BAD_DATA, "did you mean \"review\"?");
    run = own_run("out");
    run.config.features.label_column = NULL;
    fixture_expect(&run, BERTH_USAGE, "label_column is missing; name it, or a task of GLUE");
    run.config.features.text_column = NULL;
    fixture_expect(&run, BERTH_BAD_DATA, "label_column");
    run.config.task.task_name = "mrpk";
    fixture_expect(&run, BERTH_USAGE, "found \"mrpk\"");
    run.config.task.task_name = "mrpc";
    run.config.task.train_file = NULL;
    fixture_expect(&run, BERTH_USAGE, "senteval_data/msr_paraphrase_train.txt");
    run.config.task.validation_file = NULL;
    run.config.task.data_dir = fixture_keep("model");
    fixture_expect(&run, BERTH_NO_INPUT, "expected the files of MRPC");
    run = own_run("out");
    run.config.task.validation_file = fixture_keep("none.csv");
    fixture_expect(&run, BERTH_NO_INPUT, "none.csv: no such file");
    write_csv("one.csv", 0, 1, 1);
    run.config.task.validation_file = NULL;
    run.config.task.train_file = fixture_keep("one.csv");
    fixture_expect(&run, BERTH_BAD_DATA, "every example has the same label");
    assert_false(dir_exists(in_folder("out"))); // none of these created a folder
    // A label that the model does not know, in a file to be scored.
    run = own_run("out");
    run.config.engine.max_steps = 1;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    FILE *file = create("odd.csv");
    fprintf(file, "review,verdict\nthe ball is red .,warm\nthe ball is blue .,lukewarm\n");
    assert_int_equal(fclose(file), 0);
    struct fixture_run odd = own_prediction("out", "odd.csv", "odd");
    fixture_expect(
        &odd, BERTH_BAD_DATA,
        "line 3: the model has no label \"lukewarm\"; expected one of \"cold\", \"warm\"");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(own_classes_are_learnt),
        FIXTURE_TEST(an_evaluation_smooths_labels),
        FIXTURE_TEST(a_named_metric_keeps_the_best_checkpoint),
        FIXTURE_TEST(a_column_without_labels_is_predicted),
        FIXTURE_TEST(an_unusable_test_file_is_reported_before_training),
        FIXTURE_TEST(a_trained_model_predicts_by_its_own_classes),
        FIXTURE_TEST(placeholders_keep_their_head),
        FIXTURE_TEST(a_head_with_more_classes_remains),
        FIXTURE_TEST(labels_that_cannot_be_written_are_refused),
        FIXTURE_TEST(names_of_a_model_that_cannot_be_written_are_refused),
        FIXTURE_TEST(the_order_of_labels_is_noted),
        FIXTURE_TEST(a_model_keeps_the_order_of_its_classes),
        FIXTURE_TEST(a_head_for_other_classes_starts_anew),
        FIXTURE_TEST(a_head_for_another_problem_starts_anew),
        FIXTURE_TEST(another_classifier_starts_anew),
        FIXTURE_TEST(numbers_are_regressed),
        FIXTURE_TEST(whole_numbers_are_classes_unless_told),
        FIXTURE_TEST(f1_is_of_the_class_by_its_name),
        FIXTURE_TEST(mnli_has_two_files),
        FIXTURE_TEST(a_stopped_run_goes_on_with_the_same_bytes),
        FIXTURE_TEST(a_run_does_not_resume_with_other_classes),
        cmocka_unit_test(many_classes_take_no_memory),
        cmocka_unit_test(many_examples_take_no_memory),
        FIXTURE_TEST(what_does_not_fit_is_reported),
    };
    return cmocka_run_group_tests_name("classify", tests, NULL, NULL);
}
