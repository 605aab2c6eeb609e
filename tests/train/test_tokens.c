// SPDX-License-Identifier: Apache-2.0
// Tests token classification from files to files: a tiny model learns which words are names,
// results have the layouts of run_ner, long sentences lose no word, a stopped run resumes with the
// same bytes; weighted and smoothed classes, frozen layers, tagging in memory.
#include "api/opened.h"
#include "fixture.h"
#include "format/json/json.h"
#include "format/safetensors/safetensors.h"
#include "settings/settings.h"

#include <stdatomic.h>
#include <stdlib.h>

// --- files --------------------------------------------------------------------------------------

// Sentences in which the names are persons, and colours of two words entities too. Every `joined`
// sentences become one.
static void write_tags(const char *name, int first, int count, int joined) {
    FILE *file = fopen(in_folder(name), "w");
    assert_non_null(file);
    for (int i = first; i < first + count; i++) {
        const struct fixture_words words = fixture_words(i);
        fprintf(file, "the O\n%s O\nof O\n%s B-PER\nis O\n%s B-COL\n%s I-COL\n. O\n%s", words.thing,
                words.name, words.colour, fixture_words(i + 1).colour,
                (i - first + 1) % joined == 0 ? "\n" : "");
    }
    assert_int_equal(fclose(file), 0);
}

static void write_file(const char *name, const char *text) {
    assert_int_equal(file_write(in_folder(name), text, strlen(text), NULL), BERTH_OK);
}

// The names have the same length.
static void rename_tag(const char *name, const char *from, const char *to) {
    char *text = fixture_text(in_folder(name));
    for (char *at = text; (at = strstr(at, from)) != NULL;) {
        memcpy(at, to, strlen(to));
    }
    write_file(name, text);
    memory_free(text);
}

// --- runs ---------------------------------------------------------------------------------------

static struct fixture_run tag_run(const char *output) {
    struct fixture_run run = fixture_default(output);
    run.task = "tokens";
    write_tags("train.txt", 0, 44, 1);
    write_tags("dev.txt", 44, 20, 1);
    run.config.task.train_file = fixture_keep("train.txt");
    run.config.task.validation_file = fixture_keep("dev.txt");
    run.config.run.metric_for_best_model = "eval_loss";
    run.config.features.max_seq_length = 32;
    run.config.engine.max_steps = 60;
    run.config.engine.train_batch_size = 12;
    run.config.optimizer.learning_rate = 5e-3;
    run.config.run.save_steps = 100;
    return run;
}

static struct fixture_run prediction(const char *model, const char *file, const char *output) {
    struct fixture_run run = tag_run(output);
    run.job = job_predict;
    run.config.model.model_name_or_path = fixture_keep(model);
    run.config.task.predict_file = fixture_keep(file);
    return run;
}

// The largest difference of a parameter between two models.
static double parameter_apart(const char *a, const char *b, const char *name) {
    float *values[2];
    size_t count = 0;
    for (int i = 0; i < 2; i++) {
        struct safetensors file;
        assert_int_equal(safetensors_open(&file, i == 0 ? a : b, NULL), BERTH_OK);
        const struct tensor_entry *entry = safetensors_find(&file, name);
        assert_non_null(entry);
        count = 1;
        for (int k = 0; k < entry->rank; k++) {
            count *= (size_t)entry->shape[k];
        }
        values[i] = malloc(count * sizeof(float));
        assert_int_equal(safetensors_read_f32(&file, entry, 0, (int64_t)count, values[i], NULL),
                         BERTH_OK);
        safetensors_close(&file);
    }
    double apart = 0;
    for (size_t i = 0; i < count; i++) {
        apart = fmax(apart, fabs((double)values[0][i] - (double)values[1][i]));
    }
    free(values[0]);
    free(values[1]);
    return apart;
}

// --- tests --------------------------------------------------------------------------------------

static void names_are_learnt(void **state) {
    struct fixture_run run = tag_run("out");
    run.config.task.predict_file = fixture_keep("dev.txt");
    run.config.task.do_predict = 1;
    fixture_expect(&run, BERTH_OK,
                   "newly initialised, to be trained: classifier.weight, classifier.bias");
    assert_true(fixture_number("out", "all_results.json", "eval_f1") == 1.0);
    assert_true(fixture_number("out", "predict_results.json", "predict_accuracy") == 1.0);
    assert_true(fixture_number("out", "predict_results.json", "predict_samples") == 20);
    fixture_assert_holds(fixture_path("out", "eval_results.txt"),
                         "eval_accuracy = 1.0\neval_f1 = 1.0\n");
    fixture_assert_holds(fixture_path("out", "config.json"), "\"BertForTokenClassification\"");
    fixture_assert_holds(
        fixture_path("out", "config.json"),
        "\"0\": \"B-COL\",\n    \"1\": \"B-PER\",\n    \"2\": \"I-COL\",\n    \"3\": \"O\"");
    char *text = fixture_text(fixture_path("out", "predictions.txt"));
    for (int i = 0; i < 20; i++) {
        static const char line[] = "O O O B-PER O B-COL I-COL O\n";
        assert_memory_equal(text + i * (int)strlen(line), line, strlen(line));
    }
    memory_free(text);
    // Without tags the same, and no scores.
    struct fixture_run blind = prediction("out", "dev.txt", "blind");
    blind.config.features.label_column = "0";
    assert_int_equal(fixture_execute(&blind), BERTH_OK);
    assert_false(file_exists(fixture_path("blind", "predict_results.json")));
    assert_same_file(fixture_path("out", "predictions.txt"),
                     fixture_path("blind", "predictions.txt"));
    // Sentences of 40 words in windows of 12 tokens lose none.
    write_tags("long.txt", 44, 20, 5);
    struct fixture_run cut = prediction("out", "long.txt", "cut");
    cut.config.features.max_seq_length = 12;
    fixture_expect(&cut, BERTH_OK, "4 sentences, 160 words");
    fixture_assert_holds(in_folder("log"), "4 sentences in several windows");
    assert_true(fixture_number("cut", "predict_results.json", "predict_f1") > 0.9);
    text = fixture_text(fixture_path("cut", "predictions.txt"));
    size_t blanks = 0, lines = 0;
    for (const char *at = text; *at != '\0'; at++) {
        blanks += *at == ' ';
        lines += *at == '\n';
    }
    assert_int_equal(lines, 4);
    assert_int_equal(blanks, 160 - 4);
    memory_free(text);
}

static void an_evaluation_smooths_labels(void **state) {
    struct fixture_run run = tag_run("smoothed");
    fixture_expect_smoothed_loss(&run);
}

// As one process with the same parts, however the micro-batches are cut: the divisors are the
// weights of all labels of the update.
static void micro_batches_change_nothing(void **state) {
    struct fixture_run run = tag_run("whole");
    run.config.engine.max_steps = 4;
    run.config.task.class_weights = "5,1,0.5,2";
    run.config.task.label_smoothing_factor = 0.1;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    struct fixture_run cut = run;
    cut.config.run.output_dir = fixture_keep("cut");
    cut.config.engine.per_device_train_batch_size = 4;
    assert_int_equal(fixture_execute(&cut), BERTH_OK);
    const double loss = fixture_number("whole", "all_results.json", "train_loss");
    assert_true(fabs(fixture_number("cut", "all_results.json", "train_loss") - loss) < 1e-5 * loss);
    assert_true(parameter_apart(fixture_keep("whole/model.safetensors"),
                                fixture_keep("cut/model.safetensors"), "classifier.weight") < 1e-4);
    // The weights and the smoothing act.
    struct fixture_run plain = run;
    plain.config.run.output_dir = fixture_keep("plain");
    plain.config.task.class_weights = NULL;
    assert_int_equal(fixture_execute(&plain), BERTH_OK);
    struct fixture_run sharp = run;
    sharp.config.run.output_dir = fixture_keep("sharp");
    sharp.config.task.label_smoothing_factor = 0;
    assert_int_equal(fixture_execute(&sharp), BERTH_OK);
    assert_true(fabs(fixture_number("plain", "all_results.json", "train_loss") - loss) > 1e-3);
    assert_true(fabs(fixture_number("sharp", "all_results.json", "train_loss") - loss) > 1e-3);
}

static void a_stopped_run_goes_on_with_the_same_bytes(void **state) {
    struct fixture_run straight = tag_run("straight");
    straight.config.engine.max_steps = 6;
    straight.config.run.save_steps = 1;
    straight.config.run.save_total_limit = 100;
    straight.config.task.class_weights = "balanced";
    straight.config.task.label_smoothing_factor = 0.1;
    straight.config.optimizer.freeze_layers = 1;
    straight.config.optimizer.freeze_embeddings = 1;
    assert_int_equal(fixture_execute(&straight), BERTH_OK);
    struct fixture_run stopped = straight;
    stopped.config.run.output_dir = fixture_keep("resumed");
    stopped.stop_at_step = 3;
    stopped.stop_level = STOP_AND_SAVE;
    assert_int_equal(fixture_execute(&stopped), BERTH_INTERRUPTED);
    struct fixture_run resumed = straight;
    resumed.config.run.output_dir = fixture_keep("resumed");
    resumed.config.run.resume_from_checkpoint = "auto";
    struct fixture_run other = resumed;
    other.config.task.label_smoothing_factor = 0.2;
    fixture_expect(&other, BERTH_CONFIG, "label_smoothing_factor");
    other = resumed;
    other.config.task.class_weights = NULL;
    fixture_expect(&other, BERTH_CONFIG, "class_weights");
    other = resumed;
    other.config.optimizer.freeze_layers = 0;
    fixture_expect(&other, BERTH_CONFIG, "freeze_layers");
    other = resumed;
    other.config.optimizer.freeze_embeddings = 0;
    fixture_expect(&other, BERTH_CONFIG, "freeze_embeddings");
    rename_tag("train.txt", "B-PER", "B-MAN");
    rename_tag("dev.txt", "B-PER", "B-MAN");
    fixture_expect(&resumed, BERTH_CONFIG, "was \"B-PER\" in the run to resume");
    write_tags("train.txt", 0, 44, 1);
    write_tags("dev.txt", 44, 20, 1);
    assert_int_equal(fixture_execute(&resumed), BERTH_OK);
    assert_same_run("straight", "resumed");
}

static void frozen_weights_stay(void **state) {
    static const struct {
        const char *name;
        int moves;
    } rows[] = {{"bert.embeddings.word_embeddings.weight", 0},
                {"bert.embeddings.LayerNorm.bias", 0},
                {"bert.encoder.layer.0.attention.self.query.weight", 0},
                {"bert.encoder.layer.0.output.LayerNorm.weight", 0},
                {"bert.encoder.layer.1.attention.self.query.weight", 1},
                {"bert.encoder.layer.1.output.dense.bias", 1}};
    static const char *const optimizers[] = {"adamw", "lamb"};
    for (int i = 0; i < 2; i++) {
        struct fixture_run run = tag_run(i == 0 ? "out" : "lamb");
        run.config.engine.max_steps = 3;
        run.config.optimizer.optimizer = optimizers[i];
        run.config.optimizer.freeze_layers = 1;
        run.config.optimizer.freeze_embeddings = 1;
        run.config.optimizer.weight_decay = 0.5;
        assert_int_equal(fixture_execute(&run), BERTH_OK);
        const char *model =
            fixture_keep(i == 0 ? "out/model.safetensors" : "lamb/model.safetensors");
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            const double apart =
                parameter_apart(fixture_keep("model/model.safetensors"), model, rows[k].name);
            assert_true(rows[k].moves ? apart > 1e-6 : apart == 0);
        }
    }
    struct fixture_run run = tag_run("deep");
    run.config.optimizer.freeze_layers = 99;
    run.config.run.dry_run = 1; // refuses what a run would
    fixture_expect(&run, BERTH_CONFIG, "freeze_layers 99: the model has");
    run.config.optimizer.freeze_layers = 0;
    run.config.optimizer.no_decay = "norm";
    fixture_expect(&run, BERTH_CONFIG, "no_decay: no parameter has \"norm\"");
}

static void what_is_predicted_later_is_read_before_training(void **state) {
    struct fixture_run run = tag_run("out");
    run.config.engine.max_steps = 1;
    run.config.task.do_predict = 1;
    write_file("odd.txt", "anna B-PER\nred B-HUE\n");
    run.config.task.predict_file = fixture_keep("odd.txt");
    fixture_expect(&run, BERTH_BAD_DATA, "line 2: the model has no label \"B-HUE\"");
    assert_false(dir_exists(in_folder("out")));
    write_file("untagged.jsonl", "{\"tokens\": [\"anna\"], \"ner_tags\": []}\n");
    run.config.task.predict_file = fixture_keep("untagged.jsonl");
    fixture_expect(&run, BERTH_OK,
                   "untagged.jsonl: ner_tags holds no tags: predicted without scores");
    assert_true(file_exists(fixture_path("out", "predictions.txt")));
    assert_false(file_exists(fixture_path("out", "predict_results.json")));
}

// Tags are separated by blanks in predictions.txt.
static void tags_with_blanks_are_refused(void **state) {
    struct fixture_run run = tag_run("out");
    run.config.engine.max_steps = 1;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    rename_tag("out/config.json", "B-COL", "B COL");
    struct fixture_run predicted = prediction("out", "dev.txt", "predicted");
    fixture_expect(&predicted, BERTH_BAD_DATA,
                   "key \"id2label\": the label that begins \"B\" contains a blank");
    run.config.run.output_dir = fixture_keep("refused");
    write_file("blank.jsonl", "{\"tokens\": [\"anna\", \"ran\"], \"tags\": [\"B PER\", \"O\"]}\n");
    run.config.task.train_file = fixture_keep("blank.jsonl");
    fixture_expect(&run, BERTH_BAD_DATA, "the label that begins \"B\" contains a blank");
}

static void set_key(const char *folder, const char *key, json *value) {
    const char *path = fixture_path(folder, "config.json");
    json *config;
    assert_int_equal(json_read_file(path, &config, NULL), BERTH_OK);
    json_set(config, key, value);
    assert_int_equal(json_write_file(config, JSON_INDENT_2_SORTED, path, NULL), BERTH_OK);
    json_free(config);
}

// Gives the model the names LABEL_0, LABEL_1 and so on.
static void set_placeholders(const char *folder, int count) {
    json *names = json_new_object();
    for (int i = 0; i < count; i++) {
        char number[16], name[24];
        snprintf(number, sizeof number, "%d", i);
        snprintf(name, sizeof name, "LABEL_%d", i);
        json_set(names, number, json_new_text(name));
    }
    set_key(folder, "id2label", names);
}

// The tags of a file are taken in order if those of the model have no names, which is noted.
static void the_order_of_tags_is_noted(void **state) {
    struct fixture_run run = tag_run("out");
    run.config.engine.max_steps = 1;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    set_placeholders("out", 4);
    struct fixture_run predicted = prediction("out", "dev.txt", "predicted");
    fixture_expect(&predicted, BERTH_OK,
                   "dev.txt: the model's classes have no names; its classes, from 0 on, are "
                   "assumed to be \"B-COL\", \"B-PER\", \"I-COL\", \"O\"; to name them");
}

// LABEL_10 and the number 10 are the class 10 of a model with such names, and its head remains.
static void placeholders_keep_their_head(void **state) {
    static const struct {
        const char *before;
        int first, classes;
        const char *says, *entry;
    } rounds[] = {{"LABEL_", 0, 12, "newly initialised", "\"10\": \"LABEL_10\""},
                  {"", 0, 12, "model: 39 tensors", "\"10\": \"10\""},
                  {"LABEL_", 1, 6, "model: 39 tensors", "\"10\": \"LABEL_10\""},
                  {"", 1, 12, "warning: the model's classes (\"LABEL_0\", ...) differ from",
                   "\"10\": \"11\""}};
    const char *model = "model";
    for (int round = 0; round < 4; round++) {
        char text[2048] = "", output[16];
        snprintf(output, sizeof output, "out-%d", round);
        struct fixture_run run = tag_run(output);
        if (round == 0) {
            set_placeholders("model", 12);
        }
        for (int i = 0; i < 24; i++) {
            sprintf(text + strlen(text), "anna %s%d\n\n", rounds[round].before,
                    rounds[round].first + i * 5 % rounds[round].classes);
        }
        write_file("train.txt", text);
        run.config.model.model_name_or_path = fixture_keep(model);
        run.config.task.validation_file = NULL;
        run.config.run.metric_for_best_model = NULL;
        run.config.engine.max_steps = 1;
        fixture_expect(&run, BERTH_OK, rounds[round].says);
        fixture_assert_holds(fixture_path(output, "config.json"), rounds[round].entry);
        model = "out-0";
    }
}

// The same names, but classes that applied independently.
static void a_head_for_another_problem_starts_anew(void **state) {
    struct fixture_run first = tag_run("first");
    first.config.engine.max_steps = 1;
    assert_int_equal(fixture_execute(&first), BERTH_OK);
    set_key("first", "problem_type", json_new_text("multi_label_classification"));
    struct fixture_run again = tag_run("again");
    again.config.model.model_name_or_path = fixture_keep("first");
    again.config.engine.max_steps = 1;
    fixture_expect(&again, BERTH_OK, "warning: the model is multi-label, but ");
    fixture_assert_holds(fixture_path("again", "config.json"), "\"single_label_classification\"");
}

static void what_does_not_fit_is_reported(void **state) {
    struct fixture_run run = tag_run("out");
    run.config.task.class_weights = "1,2";
    fixture_expect(&run, BERTH_USAGE, "4 numbers above 0, one for each class (\"B-COL\" first)");
    run.config.task.class_weights = "1,2,3,4,5"; // too many are not stored
    fixture_expect(&run, BERTH_USAGE, "expected \"balanced\" or 4 numbers above 0");
    run.config.task.class_weights = "1,2,3,0";
    fixture_expect(&run, BERTH_USAGE, "numbers above 0");
    run.config.task.class_weights = NULL;
    run.config.task.validation_file = fixture_keep("none.txt");
    fixture_expect(&run, BERTH_NO_INPUT,
                   "none.txt: no such file; expected a file of words with tags");
    assert_false(dir_exists(in_folder("out")));
    run = tag_run("out");
    run.config.engine.max_steps = 1;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    write_file("odd.txt", "anna B-PER\nred B-HUE\n");
    struct fixture_run odd = prediction("out", "odd.txt", "odd");
    fixture_expect(
        &odd, BERTH_BAD_DATA,
        "line 2: the model has no label \"B-HUE\"; expected one of \"B-COL\", \"B-PER\", "
        "\"I-COL\", \"O\"");
    // A class without words has no balanced weight.
    write_file("few.txt", "anna B-PER\nis O\n\nben B-PER\nwas O\n");
    struct fixture_run few = tag_run("few");
    few.config.model.model_name_or_path = fixture_keep("out");
    few.config.task.train_file = fixture_keep("few.txt");
    few.config.task.class_weights = "balanced";
    fixture_expect(&few, BERTH_BAD_DATA, "balanced: the class \"B-COL\" does not occur");
    // A smoothed regression has no meaning.
    write_file("numbers.csv", "text,label\nthe ball,1.5\nthe book,2\n");
    struct fixture_run numbers = tag_run("numbers");
    numbers.task = "classify";
    numbers.config.task.train_file = fixture_keep("numbers.csv");
    numbers.config.task.validation_file = NULL;
    numbers.config.features.text_column = "text";
    numbers.config.features.label_column = "label";
    numbers.config.task.label_smoothing_factor = 0.1;
    fixture_expect(&numbers, BERTH_CONFIG,
                   "label_smoothing_factor applies only where a text has one of several");
}

// --- in memory ----------------------------------------------------------------------------------

// The error of a call that found something else.
static enum berth_status wrong(const char *what, struct berth_error *error) {
    return error_set(error, BERTH_FAILURE, "wrong %s", what);
}

// Texts of one call have the tags that each has alone, and one that fails takes none with it.
static enum berth_status tag_many(const struct berth_model *model, int64_t length,
                                  struct berth_error *error) {
    enum { COUNT = 4 };
    static const struct berth_text texts[COUNT] = {
        {.text = "The book of ben is green black ."},
        {.text = NULL},
        {.text = " \n"},
        {.text = "the ball of Anna is red blue. the ball of ben."}};
    static const char *const each_word[] = {"aggregation", "none", NULL};
    int right = berth_model_number(model, "max_length") == (double)length;
    for (int by_word = 0; by_word < 2; by_word++) {
        const char *const *settings = by_word ? each_word : NULL;
        struct berth_error own;
        size_t count;
        struct berth_result *result = berth_run(model, "tag", texts, COUNT, settings, NULL, &own);
        right &= own.status == BERTH_USAGE && own.input == 1 &&
                 berth_result_items(result, 1, NULL) == NULL &&
                 berth_result_outcome(result, 1)->status == BERTH_USAGE &&
                 berth_result_outcome(result, 2)->tokens == 0 &&
                 berth_result_items(result, 2, &count) == NULL && count == 0 &&
                 berth_result_outcome(result, 0)->tokens == 10 &&
                 berth_result_outcome(result, 3)->tokens > 14;
        for (size_t i = 0; i < COUNT; i += 3) {
            struct berth_result *alone =
                berth_run(model, "tag", &texts[i], 1, settings, NULL, &own);
            (void)berth_result_items(alone, 0, &count);
            right &= own.status == BERTH_OK && count > 0 && same_found(result, i, alone, 0);
            berth_result_free(alone);
        }
        berth_result_free(result);
    }
    return right ? BERTH_OK : wrong("tags of one call", error);
}

static int is_at(const struct berth_item *item, const char *text, int64_t start, int64_t end) {
    return strcmp(item->text, text) == 0 && item->start == start && item->end == end;
}

static enum berth_status tag_sentences(const struct berth_model *model, size_t sentences,
                                       struct berth_error *error) {
    static const char *const texts[] = {
        "the ball of Anna is red blue.",
        "the ball of Anna is red blue. The book of ben is green black ."};
    const struct berth_text one = {.text = texts[sentences - 1]}, empty = {.text = " \n"};
    size_t count, words, none;
    struct berth_result *entities = berth_run(model, "tag", &one, 1, NULL, NULL, error);
    struct berth_result *labels = berth_run(
        model, "tag", &one, 1, (const char *const[]){"aggregation", "none", NULL}, NULL, error);
    struct berth_result *nothing = berth_run(model, "tag", &empty, 1, NULL, NULL, error);
    const struct berth_item *found = berth_result_items(entities, 0, &count);
    const struct berth_item *label = berth_result_items(labels, 0, &words);
    (void)berth_result_items(nothing, 0, &none);
    const int right =
        count == 2 * sentences && is_at(&found[0], "PER", 12, 16) &&
        is_at(&found[1], "COL", 20, 28) && found[count - 1].score > 0.5 &&
        found[count - 1].score <= 1 && words > count && is_at(&label[0], "B-PER", 12, 16) &&
        is_at(&label[1], "B-COL", 20, 23) &&
        strcmp(berth_model_label(model, (size_t)label[0].id), "B-PER") == 0 && none == 0 &&
        strcmp(berth_result_text(nothing, 0), "[]") == 0 &&
        strstr(berth_result_text(entities, 0), "\"word\":\"Anna\",\"start\":12,\"end\":16") != NULL;
    berth_result_free(entities);
    berth_result_free(labels);
    berth_result_free(nothing);
    return right ? BERTH_OK : wrong("tags", error);
}

// Runs in the child, like every job.
static enum berth_status tag_text(const char *task, const struct settings *config,
                                  struct berth_log log, const atomic_int *stop,
                                  struct berth_run_result *result, struct berth_error *error) {
    char length[24];
    snprintf(length, sizeof length, "%d", (int)config->features.max_seq_length);
    struct berth_model *model = berth_open(
        config->model.model_name_or_path,
        (const char *const[]){"device", "cpu", "threads", "1", "max_seq_length", length, NULL},
        NULL, error);
    if (model == NULL) {
        return error->status;
    }
    // Two sentences in several windows, or one in one.
    enum berth_status status =
        tag_sentences(model, config->features.max_seq_length < 32 ? 2 : 1, error);
    if (status == BERTH_OK) {
        status = tag_many(model, config->features.max_seq_length, error);
    }
    berth_close(model);
    return status;
}

static void a_text_is_tagged_in_memory(void **state) {
    struct fixture_run run = tag_run("out");
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    struct fixture_run tagging = prediction("out", "dev.txt", "none");
    tagging.job = tag_text;
    for (int length = 32; length >= 12; length -= 20) {
        tagging.config.features.max_seq_length = length;
        fixture_expect(&tagging, BERTH_OK, "result: 0");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(names_are_learnt),
        FIXTURE_TEST(an_evaluation_smooths_labels),
        FIXTURE_TEST(micro_batches_change_nothing),
        FIXTURE_TEST(a_stopped_run_goes_on_with_the_same_bytes),
        FIXTURE_TEST(frozen_weights_stay),
        FIXTURE_TEST(what_is_predicted_later_is_read_before_training),
        FIXTURE_TEST(tags_with_blanks_are_refused),
        FIXTURE_TEST(the_order_of_tags_is_noted),
        FIXTURE_TEST(placeholders_keep_their_head),
        FIXTURE_TEST(a_head_for_another_problem_starts_anew),
        FIXTURE_TEST(what_does_not_fit_is_reported),
        FIXTURE_TEST(a_text_is_tagged_in_memory),
    };
    return cmocka_run_group_tests_name("tokens", tests, NULL, NULL);
}
