// SPDX-License-Identifier: Apache-2.0
#include "fixture.h"

#include "core/log.h"
#include "core/scratch.h"
#include "format/json/json.h"
#include "model/config.h"
#include "model/folder.h"
#include "model/params.h"
#include "settings/settings.h"
#include "train/checkpoint/checkpoint.h"

#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

// --- files --------------------------------------------------------------------------------------

static const char *const words[] = {"anna",  "ben",   "cora", "dan",  "red",    "blue",
                                    "green", "black", "ball", "book", "lamp",   "coat",
                                    "the",   "of",    "is",   "what", "colour", "has",
                                    "who",   "?",     ".",    "##s",  "and",    "a"};
#define NAMES 4
#define COLOURS 4
#define THINGS 4

static void write_vocabulary(void) {
    char text[1024] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        strcat(text, words[i]);
        strcat(text, "\n");
    }
    scratch_write("model/vocab.txt", text);
}

struct fixture_words fixture_words(int number) {
    return (struct fixture_words){.thing = words[8 + number / 16 % THINGS],
                                  .name = words[number / 4 % NAMES],
                                  .colour = words[4 + number % COLOURS]};
}

// Questions of four sentences each; the answer is the colour of one thing.
static void write_data(const char *name, unsigned seed, int questions) {
    FILE *file = fopen(scratch(name), "w");
    assert_non_null(file);
    fprintf(file, "{\"version\":\"1.1\",\"data\":[{\"title\":\"t\",\"paragraphs\":[");
    for (int q = 0; q < questions; q++) {
        char context[512] = "";
        int asked = (int)((seed + (unsigned)q) % THINGS), start = 0;
        const char *answer = "";
        for (int i = 0; i <= q % 2 + 2; i++) {
            const char *owner = words[(seed * 7 + (unsigned)(q + i)) % NAMES];
            const char *colour = words[4 + (seed + (unsigned)(q * 3 + i * 5)) % COLOURS];
            const char *thing = words[8 + (asked + i) % THINGS];
            size_t used = strlen(context);
            snprintf(context + used, sizeof context - used, "the %s of %s is %s . ", thing, owner,
                     colour);
            if (i == 0) {
                answer = colour;
                start = (int)(strstr(context, " is ") - context) + 4;
            }
        }
        fprintf(
            file,
            "%s{\"context\":\"%s\",\"qas\":[{\"id\":\"q%d\",\"question\":\"what colour is the %s "
            "?\",\"answers\":[{\"text\":\"%s\",\"answer_start\":%d}]}]}",
            q > 0 ? "," : "", context, q, words[8 + asked], answer, start);
    }
    fprintf(file, "]}]}\n");
    assert_int_equal(fclose(file), 0);
}

static enum berth_status write_weights(struct berth_error *error) {
    struct bert_config shape = {0};
    struct param_table table = {0};
    enum berth_status status;
    float *weights = NULL;
    TRY_DONE(bert_config_read(scratch("model/config.json"), &shape, error));
    TRY_DONE(param_table_init(&table, &shape, PARAM_HEAD_SPAN, error));
    weights = memory_array_zeroed((size_t)table.total, sizeof *weights);
    param_initialise(&table, &shape, 7, weights, 1);
    TRY_DONE(folder_write_weights(scratch("model"), &shape, &table, weights, error));
done:
    memory_free(weights);
    param_table_done(&table);
    bert_config_done(&shape);
    return status;
}

#define SHAPE                                                                                      \
    "{\"model_type\":\"bert\",\"vocab_size\":29,\"hidden_size\":32,"                               \
    "\"num_hidden_layers\":2,\"num_attention_heads\":2,\"intermediate_size\":48,"                  \
    "\"max_position_embeddings\":64,\"hidden_dropout_prob\":0.1,"                                  \
    "\"attention_probs_dropout_prob\":0.1,\"hidden_act\":\"gelu\""

static void write_texts(void) {
    assert_int_equal(dir_make(scratch("model"), NULL), BERTH_OK);
    write_vocabulary();
    scratch_write("model/config.json", SHAPE "}\n");
    write_data("train.json", 1, 14);
    write_data("dev.json", 5, 5);
}

static int write_weights_in_child(void) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct berth_error error = {0};
        if (write_weights(&error) != BERTH_OK) {
            fprintf(stderr, "%s\n", error.message);
            _exit(1);
        }
        _exit(0);
    }
    return fixture_wait(child);
}

static char kept[256][512];
static unsigned kept_count;

const char *fixture_keep(const char *name) {
    const char *path = scratch(name);
    for (unsigned i = 0; i < kept_count; i++) {
        if (strcmp(kept[i], path) == 0) {
            return kept[i];
        }
    }
    assert_true(kept_count < sizeof kept / sizeof kept[0]);
    return strcpy(kept[kept_count++], path);
}

const char *in_folder(const char *name) {
    return scratch(name);
}

int fixture_setup(void **state) {
    if (scratch_setup(state) != 0) {
        return -1;
    }
    kept_count = 0;
    write_texts();
    return write_weights_in_child();
}

int fixture_teardown(void **state) {
    return scratch_teardown(state);
}

void fixture_make_pre_layer_norm(void) {
    scratch_write("model/config.json", SHAPE ",\"pre_layer_norm\":true}\n");
    assert_int_equal(write_weights_in_child(), 0);
}

// --- runs ---------------------------------------------------------------------------------------

struct fixture_run fixture_default(const char *output) {
    struct fixture_run run = {.job = job_train, .task = "squad"};
    struct settings *config = &run.config;
    settings_init(config);
    config->model.model_name_or_path = fixture_keep("model");
    config->task.train_file = fixture_keep("train.json");
    config->run.output_dir = fixture_keep(output);
    config->features.max_seq_length = 28;
    config->features.doc_stride = 8;
    config->features.max_query_length = 8;
    config->engine.train_batch_size = 11; // of 35 features: updates of 11, 11, 11 and 2
    config->engine.per_device_train_batch_size = 0;
    config->engine.max_steps = FIXTURE_UPDATES;
    config->optimizer.learning_rate = 1e-3;
    config->run.save_steps = 1;
    config->run.save_total_limit = 3;
    config->run.async_save = getenv("BERTH_ASYNC_SAVE") != NULL;
    config->run.logging_steps = 3;
    config->machine.precision = BERTH_FP32;
    config->machine.threads = 1;
    config->machine.device = "cpu";
    config->run.seed = 11;
    return run;
}

// State of the child's log callback.
struct watcher {
    const struct fixture_run *run;
    atomic_int stop;
    FILE *log;
};

static int64_t field(const struct berth_record *record, const char *key) {
    for (size_t i = 0; i < record->field_count; i++) {
        if (strcmp(record->fields[i].key, key) == 0) {
            return record->fields[i].integer;
        }
    }
    return -1;
}

static void watch_step(struct watcher *watcher, int64_t step) {
    if (watcher->run->stop_at_step > 0 && step > watcher->run->stop_at_step) {
        watcher->stop = watcher->run->stop_level;
    }
    if (watcher->run->fail_at > 0 && step > 0 && step == (int64_t)watcher->run->fail_after_step) {
        file_fail_at(watcher->run->fail_at, watcher->run->fail_errno);
    }
    if (watcher->run->act != NULL && step == watcher->run->act_at_step) {
        watcher->run->act();
    }
}

static void watch(void *context, const struct berth_record *record) {
    static const char *const kinds[] = {"note", "warning", "plan",   "step",  "progress",
                                        "eval", "summary", "values", "event", "detail"};
    struct watcher *watcher = context;
    if (record->kind == BERTH_PROGRESS && strcmp(record->text, "train") == 0) {
        watch_step(watcher, field(record, "done"));
    }
    if (record->kind == BERTH_PROGRESS && strcmp(record->text, "predict") == 0 &&
        watcher->run->stop_in_predict) {
        watcher->stop = watcher->run->stop_level;
    }
    if (record->kind == BERTH_PROGRESS && strcmp(record->text, "predict") == 0 &&
        watcher->run->act_in_predict) {
        watcher->run->act();
    }
    if (watcher->log == NULL || record->kind == BERTH_PROGRESS) {
        return;
    }
    const char *detail = log_detail_text(record);
    const char *text = detail != NULL ? detail : record->text != NULL ? record->text : "";
    fprintf(watcher->log, "%s: %s", kinds[detail != NULL ? BERTH_NOTE : record->kind], text);
    for (size_t i = 0; i < record->field_count; i++) {
        const struct berth_field *own = &record->fields[i];
        if (own->type == BERTH_INTEGER) {
            fprintf(watcher->log, " %s=%lld", own->key, (long long)own->integer);
        } else if (own->type == BERTH_REAL) {
            fprintf(watcher->log, " %s=%.17g", own->key, own->real);
        }
    }
    fprintf(watcher->log, "\n");
    fflush(watcher->log);
}

static atomic_int *stopped_by_signal;

static void on_sigterm(int signal) {
    (void)signal;
    *stopped_by_signal = *stopped_by_signal == STOP_NONE ? STOP_AND_SAVE : STOP_AT_ONCE;
}

static void execute(const void *argument) {
    const struct fixture_run *run = argument;
    struct watcher watcher = {.run = run, .stop = run->stop_at_start ? run->stop_level : 0};
    if (run->handles_sigterm) {
        stopped_by_signal = &watcher.stop;
        signal(SIGTERM, on_sigterm);
    }
    if (run->locale != NULL && setlocale(LC_ALL, run->locale) == NULL) {
        _exit(77);
    }
    if (run->log_file != NULL) {
        watcher.log = fopen(run->log_file, "a");
    }
    if (run->address_space > 0) {
        struct rlimit limit = {run->address_space, run->address_space};
        setrlimit(RLIMIT_AS, &limit);
    }
    if (run->fail_at > 0 && run->fail_after_step == 0) {
        file_fail_at(run->fail_at, run->fail_errno);
    }
    struct berth_log log = {.write = watch, .context = &watcher};
    struct berth_error error = {0};
    enum berth_status status = run->job(run->task, &run->config, log, &watcher.stop, NULL, &error);
    if (watcher.log != NULL) {
        fprintf(watcher.log, "result: %d %s\n", (int)status, error.message);
        fclose(watcher.log);
    }
    _exit((int)status);
}

pid_t fixture_start(const struct fixture_run *run) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        execute(run);
    }
    assert_true(child > 0);
    return child;
}

int fixture_wait(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return -1000;
        }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int fixture_execute(const struct fixture_run *run) {
    return fixture_wait(fixture_start(run));
}

// --- comparing ----------------------------------------------------------------------------------

const char *fixture_path(const char *output, const char *name) {
    char joined[240];
    snprintf(joined, sizeof joined, "%s/%s", output, name);
    return scratch(joined);
}

// The text of a trainer_state.json without what two equal runs may differ in: their settings and
// the name of the folder.
static char *state_text(const char *output, const char *name) {
    json *state;
    assert_int_equal(json_read_file(fixture_path(output, name), &state, NULL), BERTH_OK);
    static const char *const others[] = {"logging_steps", "eval_steps", "save_steps",
                                         "best_model_checkpoint"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        json_remove(state, others[i]);
    }
    json *own = json_copy_deep(progress_own_keys(state));
    json_remove(own, "settings");
    json_set(state, "stateful_callbacks", own);
    char *text = json_write(state, JSON_INDENT_2_SORTED);
    json_free(state);
    return text;
}

void assert_same_run(const char *output_a, const char *output_b) {
    int64_t newest;
    char name[128];
    fixture_good_checkpoints(output_a, &newest);
    static const char *const files[] = {"model.safetensors", "optimizer.safetensors"};
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "checkpoint-%d/%s", (int)newest, files[i]);
        assert_same_file(fixture_path(output_a, name), fixture_path(output_b, name));
    }
    assert_same_file(fixture_path(output_a, "model.safetensors"),
                     fixture_path(output_b, "model.safetensors"));
    char *a = state_text(output_a, "trainer_state.json");
    char *b = state_text(output_b, "trainer_state.json");
    assert_string_equal(a, b);
    memory_free(a);
    memory_free(b);
}

char *fixture_text(const char *path) {
    char *bytes;
    size_t length;
    struct berth_error error = {0};
    if (file_read(path, 1 << 24, &bytes, &length, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    return bytes;
}

void fixture_assert_holds(const char *path, const char *part) {
    char *text = fixture_text(path);
    if (strstr(text, part) == NULL) {
        fail_msg("%s: no \"%s\" in: %s", path, part, text);
    }
    memory_free(text);
}

void fixture_assert_logged(const char *part) {
    fixture_assert_holds(in_folder("log"), part);
}

void fixture_assert_not_logged(const char *part) {
    char *text = fixture_text(in_folder("log"));
    if (strstr(text, part) != NULL) {
        fail_msg("\"%s\" is in the log: %s", part, text);
    }
    memory_free(text);
}

void fixture_expect(struct fixture_run *run, int status, const char *part) {
    remove(in_folder("log"));
    run->log_file = fixture_keep("log");
    const int found = fixture_execute(run);
    if (found != status) {
        fail_msg("status %d, expected %d: %s", found, status, fixture_text(in_folder("log")));
    }
    fixture_assert_logged(part);
}

double fixture_number(const char *output, const char *file, const char *key) {
    json *object;
    double value = 0;
    assert_int_equal(json_read_file(fixture_path(output, file), &object, NULL), BERTH_OK);
    assert_non_null(json_member(object, key));
    assert_int_equal(json_get_real(object, file, key, &value, NULL), BERTH_OK);
    json_free(object);
    return value;
}

void fixture_expect_smoothed_loss(struct fixture_run *run) {
    run->config.task.validation_file = run->config.task.train_file;
    run->config.engine.train_batch_size = 1000;
    run->config.engine.max_steps = 1;
    run->config.optimizer.learning_rate = 0;
    run->config.model.hidden_dropout_prob = run->config.model.attention_probs_dropout_prob = 0;
    run->config.task.label_smoothing_factor = 0.3;
    assert_int_equal(fixture_execute(run), BERTH_OK);
    json *found;
    double trained = 0, evaluated = 0;
    char *path = path_join(run->config.run.output_dir, "all_results.json");
    assert_int_equal(json_read_file(path, &found, NULL), BERTH_OK);
    assert_int_equal(json_get_real(found, path, "train_loss", &trained, NULL), BERTH_OK);
    assert_int_equal(json_get_real(found, path, "eval_loss", &evaluated, NULL), BERTH_OK);
    assert_true(trained > 0 && fabs(trained - evaluated) < 1e-5 * trained);
    json_free(found);
    memory_free(path);
}

double fixture_history(const char *output, int64_t step, const char *key) {
    json *state;
    assert_int_equal(json_read_file(fixture_path(output, "trainer_state.json"), &state, NULL),
                     BERTH_OK);
    const json *history = json_member(state, "log_history"), *found = NULL;
    for (size_t i = 0; i < json_length(history); i++) {
        const json *record = json_at(history, i);
        if (json_as_integer(json_member(record, "step")) == step &&
            json_member(record, key) != NULL) {
            found = json_member(record, key);
        }
    }
    if (found == NULL) {
        fail_msg("%s: no %s of update %d", output, key, (int)step);
    }
    const double value = json_as_real(found);
    json_free(state);
    return value;
}

void fixture_copy(const char *from, const char *to) {
    char **names;
    assert_int_equal(dir_make(to, NULL), BERTH_OK);
    assert_int_equal(dir_list(from, &names, NULL), BERTH_OK);
    for (size_t i = 0; names[i] != NULL; i++) {
        char source[1024], target[1024], *bytes;
        size_t length;
        snprintf(source, sizeof source, "%s/%s", from, names[i]);
        snprintf(target, sizeof target, "%s/%s", to, names[i]);
        assert_int_equal(file_read(source, 1 << 28, &bytes, &length, NULL), BERTH_OK);
        FILE *file = fopen(target, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(bytes, 1, length, file), length);
        assert_int_equal(fclose(file), 0);
        memory_free(bytes);
    }
    memory_free(names);
}

void fixture_copy_checkpoint(const char *from, const char *to, int step) {
    char name[32];
    snprintf(name, sizeof name, "checkpoint-%d", step);
    fixture_copy(fixture_path(from, name), fixture_path(to, name));
}

int fixture_good_checkpoints(const char *output, int64_t *newest) {
    int64_t *steps;
    size_t count;
    int good = 0;
    *newest = -1;
    if (!dir_exists(scratch(output))) {
        return 0;
    }
    assert_int_equal(checkpoint_list(scratch(output), &steps, &count, NULL), BERTH_OK);
    for (size_t i = 0; i < count; i++) {
        const struct path path = checkpoint_path(scratch(output), steps[i]);
        if (checkpoint_verify(path.text, NULL, NULL) == BERTH_OK) {
            good++;
            *newest = steps[i];
        }
    }
    memory_free(steps);
    return good;
}

int fixture_temporaries(const char *output) {
    char **names;
    int count = 0;
    if (!dir_exists(scratch(output))) {
        return 0;
    }
    assert_int_equal(dir_list(scratch(output), &names, NULL), BERTH_OK);
    for (size_t i = 0; names[i] != NULL; i++) {
        count += checkpoint_is_temporary(names[i]);
    }
    memory_free(names);
    return count;
}
