// SPDX-License-Identifier: Apache-2.0
// Tests TensorBoard's event files: the same bytes as TensorFlow for the same events
// (../format/data/tensorflow, made by dev/fixtures/make_tensorflow.py), and the events of a run's
// records.
#include "core/log.h"
#include "core/scratch.h"
#include "format/tensorflow/tfrecord.h"
#include "report/event_file.h"
#include "report/reporter.h"
#include "settings/settings.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#define REFERENCE                                                                                  \
    BERTH_TEST_FORMAT_DATA                                                                         \
    "/tensorflow/events.out.tfevents.1000000000.host.1.0"

// --- the bytes ----------------------------------------------------------------------------------

static enum berth_status open_reporter_of(const struct settings *config, int descriptor,
                                          struct berth_reporter **reporter,
                                          struct berth_error *error) {
    const struct reported_run run = {
        .resumes = settings_resume(config),
        .has_deepspeed = config->run.deepspeed_config != NULL,
        .adam_betas = {config->optimizer.adam_beta1, config->optimizer.adam_beta2}};
    return reporter_open(&config->report, &run, descriptor, reporter, error);
}

static void put(struct file_writer *writer, struct buffer *message) {
    assert_int_equal(tfrecord_put(writer, message->bytes, message->length, NULL), BERTH_OK);
    buffer_clear(message);
}

static void test_bytes_are_tensorflows(void **state) {
    (void)state;
    static const struct {
        int64_t step;
        double loss;
    } events[] = {{10, 2.5}, {20, -0.0625}, {(int64_t)1 << 40, INFINITY}};
    struct buffer message = {0};
    struct file_writer writer;
    assert_int_equal(file_writer_open(&writer, scratch("a"), NULL), BERTH_OK);
    event_put_version(&message, 1.0);
    put(&writer, &message);
    for (size_t i = 0; i < 3; i++) {
        struct event_scalar scalar = {"Train/Samples/train_loss", events[i].loss};
        event_put_scalars(&message, 1.5, events[i].step, &scalar, 1);
        put(&writer, &message);
    }
    assert_int_equal(file_writer_commit(&writer, NULL), BERTH_OK);
    buffer_done(&message);
    assert_same_file(scratch("a"), REFERENCE);
}

// --- a run's records ----------------------------------------------------------------------------

struct scalars {
    size_t count;
    struct {
        char tag[64];
        int64_t step;
        float value;
    } all[64];
    size_t versions;
};

static struct protobuf_field next(struct protobuf_reader *reader, uint32_t number) {
    struct protobuf_field field;
    int more;
    assert_int_equal(protobuf_next(reader, &field, &more, NULL), BERTH_OK);
    assert_true(more);
    assert_int_equal(field.number, number);
    return field;
}

static void read_event(struct protobuf_reader event, struct scalars *scalars) {
    struct protobuf_field time = next(&event, 1);
    double wall_time;
    memcpy(&wall_time, &time.value, sizeof wall_time);
    assert_true(wall_time > 1e9 && wall_time < 1e11); // seconds
    struct protobuf_field field;
    int more;
    assert_int_equal(protobuf_next(&event, &field, &more, NULL), BERTH_OK);
    if (field.number == 3) {
        assert_memory_equal(field.bytes, "brain.Event:2", 13);
        scalars->versions++;
        return;
    }
    assert_int_equal(field.number, 2);
    int64_t step = (int64_t)field.value;
    field = next(&event, 5);
    struct protobuf_reader summary = protobuf_inside(&event, &field);
    while (summary.at < summary.end) {
        field = next(&summary, 1);
        struct protobuf_reader value = protobuf_inside(&summary, &field);
        struct protobuf_field tag = next(&value, 1), number = next(&value, 2);
        uint32_t bits = (uint32_t)number.value;
        size_t i = scalars->count++;
        assert_true(tag.length < sizeof scalars->all[i].tag);
        memcpy(scalars->all[i].tag, tag.bytes, tag.length);
        scalars->all[i].tag[tag.length] = '\0';
        memcpy(&scalars->all[i].value, &bits, sizeof bits);
        scalars->all[i].step = step;
    }
}

// Every event of every file of the folder, in the order of their names.
static size_t read_folder(const char *folder, struct scalars *scalars) {
    char **names;
    size_t files = 0;
    *scalars = (struct scalars){0};
    assert_int_equal(dir_list(folder, &names, NULL), BERTH_OK);
    for (; names[files] != NULL; files++) {
        assert_int_equal(strncmp(names[files], "events.out.tfevents.", 20), 0);
        char *path = path_join(folder, names[files]);
        struct tfrecord_reader reader;
        const unsigned char *bytes;
        size_t length;
        int more = 1;
        assert_int_equal(tfrecord_open(&reader, path, NULL), BERTH_OK);
        for (;;) {
            assert_int_equal(tfrecord_next(&reader, &bytes, &length, &more, NULL), BERTH_OK);
            if (!more) {
                break;
            }
            read_event(protobuf_read(bytes, length, path), scalars);
        }
        tfrecord_close(&reader);
        memory_free(path);
    }
    memory_free(names);
    return files;
}

static void assert_scalar(const struct scalars *scalars, const char *tag, int64_t step,
                          float value) {
    for (size_t i = 0; i < scalars->count; i++) {
        if (strcmp(scalars->all[i].tag, tag) == 0 && scalars->all[i].step == step) {
            assert_true(scalars->all[i].value == value);
            return;
        }
    }
    fail_msg("no %s at %d", tag, (int)step);
}

static void plan(const struct berth_log *log) {
    struct berth_field fields[] = {log_integer("train_batch_size", 32),
                                   log_integer("processes", 1)};
    struct berth_field other[] = {log_integer("parameters", 5)};
    log_fields(log, BERTH_PLAN, "batches", fields, 2);
    log_fields(log, BERTH_PLAN, "model", other, 1);
}

static void step(const struct berth_log *log, int64_t number, double loss) {
    struct berth_field fields[] = {log_integer("step", number),
                                   log_integer("total_steps", 487),
                                   log_real("epoch", 0.5),
                                   log_real("loss", loss),
                                   log_real("train_ema_loss", loss / 2),
                                   log_real("learning_rate", 5e-5),
                                   log_real("grad_norm", 0.25),
                                   log_real("samples_per_second", 4),
                                   log_real("tokens_per_second", 512),
                                   log_real("forward_ms", 1),
                                   log_real("backward_ms", 2),
                                   log_real("step_ms", 3)};
    log_fields(log, BERTH_STEP, NULL, fields, sizeof fields / sizeof *fields);
}

static void evaluation(const struct berth_log *log, int64_t number, double f1) {
    struct berth_field fields[] = {log_integer("step", number), log_real("epoch", 0.5),
                                   log_real("exact_match", 55.5), log_real("f1", f1),
                                   log_text("note", "x")};
    log_fields(log, BERTH_EVAL, "eval", fields, 5);
}

static struct settings config_of(const char *folder) {
    struct settings config;
    settings_init(&config);
    config.report.logging_dir = folder;
    config.report.quiet = 1; // the console's, not the file's
    return config;
}

static struct berth_reporter *open_reporter(const struct settings *config, int descriptor) {
    struct berth_reporter *reporter;
    struct berth_error error;
    if (open_reporter_of(config, descriptor, &reporter, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    return reporter;
}

static void test_records_become_scalars(void **state) {
    (void)state;
    struct scalars scalars;
    struct settings config = config_of(scratch("runs/a"));
    struct berth_reporter *reporter = open_reporter(&config, -1);
    struct berth_log log = reporter_log(reporter);
    plan(&log);
    log_note(&log, "a note");
    log_progress(&log, "train", 1, 2);
    assert_false(dir_exists(scratch("runs"))); // nothing to show yet
    step(&log, 10, 2.5);
    evaluation(&log, 10, NAN);
    assert_int_equal(read_folder(scratch("runs/a"), &scalars), 1); // readable while it grows
    assert_int_equal(scalars.count, 15);
    step(&log, 20, NAN);
    evaluation(&log, 20, 66.5);
    step(&log, 30, 0.5);
    reporter_close(reporter);
    assert_int_equal(read_folder(scratch("runs/a"), &scalars), 1);
    assert_int_equal(scalars.versions, 1);
    assert_int_equal(scalars.count, 13 + 2 + 10 + 4 + 13);
    assert_scalar(&scalars, "Train/Samples/train_ema_loss", 320, 1.25f);
    assert_scalar(&scalars, "Train/Samples/train_ema_loss", 960, 0.25f);
    assert_scalar(&scalars, "Train/Samples/train_loss", 320, 2.5f);
    assert_scalar(&scalars, "Train/Samples/lr", 320, 5e-5f);
    assert_scalar(&scalars, "Train/Steps/lr", 10, 5e-5f);
    assert_scalar(&scalars, "Train/Steps/lr", 20, 5e-5f);
    assert_scalar(&scalars, "Train/Samples/grad_norm", 640, 0.25f);
    assert_scalar(&scalars, "Train/Samples/samples_per_second", 640, 4);
    assert_scalar(&scalars, "Train/Samples/tokens_per_second", 640, 512);
    assert_scalar(&scalars, "Train/Samples/elapsed_time_ms_forward", 320, 1);
    assert_scalar(&scalars, "Train/Samples/elapsed_time_ms_backward", 320, 2);
    assert_scalar(&scalars, "Train/Samples/elapsed_time_ms_step", 320, 3);
    assert_scalar(&scalars, "train/loss", 10, 2.5f);
    assert_scalar(&scalars, "train/learning_rate", 20, 5e-5f);
    assert_scalar(&scalars, "train/grad_norm", 20, 0.25f);
    assert_scalar(&scalars, "eval/f1", 20, 66.5f);
    assert_scalar(&scalars, "Validation/exact_match", 320, 55.5f);
    assert_scalar(&scalars, "Validation/f1", 640, 66.5f);
}

static double real_of(struct protobuf_field field) {
    double value;
    memcpy(&value, &field.value, sizeof value);
    return value;
}

static double packed_at(struct protobuf_field field, int index) {
    double value;
    memcpy(&value, field.bytes + sizeof value * (size_t)index, sizeof value);
    return value;
}

// The histogram of the last record of a file.
static void check_histogram(struct protobuf_reader event, int64_t step, const char *name) {
    next(&event, 1);
    assert_int_equal((int64_t)next(&event, 2).value, step);
    struct protobuf_field field = next(&event, 5);
    struct protobuf_reader summary = protobuf_inside(&event, &field);
    field = next(&summary, 1);
    struct protobuf_reader value = protobuf_inside(&summary, &field);
    field = next(&value, 1);
    assert_int_equal(field.length, strlen(name));
    assert_memory_equal(field.bytes, name, field.length);
    field = next(&value, 5);
    struct protobuf_reader histogram = protobuf_inside(&value, &field);
    assert_true(real_of(next(&histogram, 1)) == 0.25); // least
    assert_true(real_of(next(&histogram, 2)) == 1);    // largest
    assert_true(real_of(next(&histogram, 3)) == 4);
    assert_true(real_of(next(&histogram, 4)) == 2);     // sum
    assert_true(real_of(next(&histogram, 5)) == 1.375); // of squares
    struct protobuf_field limits = next(&histogram, 6), counts = next(&histogram, 7);
    assert_int_equal(limits.length, 30 * sizeof(double));
    assert_int_equal(counts.length, limits.length);
    assert_true(packed_at(limits, 0) > 0.27 && packed_at(limits, 0) < 0.28);
    assert_true(packed_at(limits, 29) == 1);
    assert_true(packed_at(counts, 0) == 2);
    assert_true(packed_at(counts, 10) == 1); // 0.5 is a third of the way
    assert_true(packed_at(counts, 29) == 1);
}

static void test_values_become_a_histogram(void **state) {
    (void)state;
    struct settings config = config_of(scratch("values"));
    struct berth_reporter *reporter = open_reporter(&config, -1);
    struct berth_log log = reporter_log(reporter);
    struct berth_field fields[] = {log_integer("step", 7),    log_real("a.weight", 0.25),
                                   log_real("b.weight", 0.5), log_real("c.weight", NAN),
                                   log_real("d.weight", 1),   log_real("e.weight", 0.25)};
    log_fields(&log, BERTH_VALUES, "lamb_coeffs", fields, 6);
    log_fields(&log, BERTH_VALUES, "nothing", fields, 1);
    reporter_close(reporter);
    char **names, *bytes;
    size_t length;
    assert_int_equal(dir_list(scratch("values"), &names, NULL), BERTH_OK);
    char path[256];
    snprintf(path, sizeof path, "values/%s", names[0]);
    assert_int_equal(file_read(scratch(path), 65536, &bytes, &length, NULL), BERTH_OK);
    // Two frames: the version, then the histogram. A frame is a length, its checksum, the message
    // and its checksum.
    uint64_t first, second;
    memcpy(&first, bytes, sizeof first);
    const char *at = bytes + 12 + first + 4;
    memcpy(&second, at, sizeof second);
    assert_int_equal(length, 12 + first + 4 + 12 + second + 4);
    check_histogram(protobuf_read((const unsigned char *)at + 12, second, path), 7,
                    "Train/lamb_coeffs");
    memory_free(bytes);
    memory_free(names);
}

// A resumed run adds a file; the earlier one is unchanged.
static void test_each_run_has_its_file(void **state) {
    (void)state;
    struct scalars scalars;
    struct settings config = config_of(scratch("runs"));
    for (int64_t run = 0; run < 3; run++) {
        struct berth_reporter *reporter = open_reporter(&config, -1);
        struct berth_log log = reporter_log(reporter);
        step(&log, 1 + run, 1);
        reporter_close(reporter);
        assert_int_equal(read_folder(scratch("runs"), &scalars), run + 1);
        assert_int_equal(scalars.versions, run + 1);
    }
    assert_scalar(&scalars, "Train/Samples/train_loss", 3, 1); // without a plan: batches of one
}

static void test_nothing_asked_for(void **state) {
    (void)state;
    struct settings config = config_of(NULL);
    struct berth_reporter *reporter = open_reporter(&config, -1);
    struct berth_log log = reporter_log(reporter);
    step(&log, 1, 1);
    reporter_close(reporter);
    assert_int_equal(scratch_count(), 0);
}

// --- errors --------------------------------------------------------------------------------------

static void test_a_file_is_no_folder(void **state) {
    (void)state;
    scratch_write("taken", "x");
    struct settings config = config_of(scratch("taken"));
    struct berth_reporter *reporter;
    struct berth_error error;
    assert_int_equal(open_reporter_of(&config, -1, &reporter, &error), BERTH_CANT_CREATE);
    assert_null(reporter);
    assert_message_has(&error, "logging_dir: ");
    assert_message_has(&error, "found the file ");
    assert_file_holds(scratch("taken"), "x");
}

// Runs two steps and returns how often the console warned of the event file.
static int count_warnings(const char *folder) {
    int ends[2], warnings = 0;
    char text[8192];
    assert_int_equal(pipe(ends), 0);
    struct settings config = config_of(folder);
    struct berth_reporter *reporter = open_reporter(&config, ends[1]);
    struct berth_log log = reporter_log(reporter);
    step(&log, 1, 1);
    step(&log, 2, 1);
    evaluation(&log, 2, 1);
    reporter_close(reporter);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    ssize_t length = read(ends[0], text, sizeof text - 1);
    text[length > 0 ? length : 0] = '\0';
    for (const char *at = strstr(text, "logging_dir: no more"); at != NULL;
         at = strstr(at + 1, "logging_dir: no more")) {
        warnings++;
    }
    close(ends[0]);
    close(ends[1]);
    return warnings;
}

static void test_failures_are_told_once(void **state) {
    (void)state;
    scratch_write("taken", "x");
    assert_int_equal(count_warnings(scratch("taken/inside")), 1);
    assert_int_equal(count_warnings(scratch("good")), 0);
    uint64_t call = 0;
    for (int failed = 1; failed;) {
        struct event_file file;
        struct berth_error error = {0};
        struct berth_field fields[] = {log_integer("step", 1), log_real("loss", 1)};
        struct berth_record record = {.kind = BERTH_STEP, .fields = fields, .field_count = 2};
        memory_fail_at(++call, 0);
        enum berth_status status = event_file_open(&file, scratch("b"), &error);
        if (status == BERTH_OK) {
            status = event_file_record(&file, &record, &error);
        }
        failed = memory_fail_at(0, 0) >= call;
        assert_int_equal(failed, status != BERTH_OK);
        assert_int_equal(event_file_record(&file, &record, NULL), BERTH_OK);
        event_file_close(&file);
    }
    assert_true(call > 5);
}

// No room for more than a few bytes: the file that a limit on sizes leaves is a torn one.
static void test_a_full_disk(void **state) {
    (void)state;
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 100;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    int warnings = count_warnings(scratch("full"));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(warnings, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_bytes_are_tensorflows),     SCRATCH_TEST(test_records_become_scalars),
        SCRATCH_TEST(test_values_become_a_histogram), SCRATCH_TEST(test_each_run_has_its_file),
        SCRATCH_TEST(test_nothing_asked_for),         SCRATCH_TEST(test_a_file_is_no_folder),
        SCRATCH_TEST(test_failures_are_told_once),    SCRATCH_TEST(test_a_full_disk),
    };
    return cmocka_run_group_tests_name("event_file", tests, NULL, NULL);
}
