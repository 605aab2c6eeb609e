// SPDX-License-Identifier: Apache-2.0
// The option table: every row is complete, every default is its row's, names are found in every
// spelling, typos find their row, bad values are refused with the range, nothing depends on the
// locale.
#include "core/foreign_locale.h"
#include "core/harness.h"
#include "core/number.h"
#include "core/text_util.h"
#include "settings/recipes.h"
#include "settings/settings.h"
#include "train/optimizer/schedule.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void expect_good(const struct option_row *row, const char *text) {
    union option_value value;
    struct berth_error error;
    if (option_parse(row, text, &value, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
}

static void every_default_is_the_rows(void **state) {
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        struct settings config, again = {0};
        char text[256], reprinted[256];
        settings_init(&config);
        settings_print(&config, row, text, sizeof text);
        assert_false(settings_row_is_given(&config, row) || settings_row_is_chosen(&config, row));
        assert_true(row->default_value != NULL || (row->type == OPTION_TEXT && *text == '\0'));
        if (row->default_value != NULL) {
            assert_int_equal(settings_set_row(&again, row, row->default_value, NULL), BERTH_OK);
            settings_print(&again, row, reprinted, sizeof reprinted);
            assert_string_equal(reprinted, text);
            assert_true(settings_row_is_given(&again, row) && settings_row_is_chosen(&again, row));
        }
    }
}

// A text of a job is for jobs of the row, which have no second one; its choices are some of the
// row's.
static void jobs_have_their_own_help(void **state) {
    (void)state;
    size_t texts = 0;
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        for (size_t j = 0; j < sizeof row->job_helps / sizeof *row->job_helps; j++) {
            const struct option_help *own = &row->job_helps[j];
            texts += own->jobs != 0;
            assert_true((own->jobs & row->jobs) == own->jobs);
            assert_true((own->jobs == 0) == (own->help == NULL));
            for (unsigned job = 1; own->choices != NULL && job <= JOB_SERVE; job <<= 1) {
                const char *choices = option_help(row, job).choices;
                assert_true((own->jobs & job) == 0 || strcmp(choices, row->choices) != 0);
            }
        }
    }
    assert_true(texts > 20);
    assert_string_equal(option_help(option_find("recipe"), JOB_PRETRAIN_MLM).choices,
                        "hugging-face");
    assert_string_equal(option_help(option_find("seed"), JOB_BENCH).help,
                        option_find("seed")->help);
}

// The recipes that the help of a job lists are those that it takes.
static void help_lists_the_recipes_of_a_job(void **state) {
    static const unsigned jobs[] = {JOB_PRETRAIN,          JOB_PRETRAIN_MLM,    JOB_FINETUNE_SQUAD,
                                    JOB_FINETUNE_CLASSIFY, JOB_FINETUNE_TOKENS, JOB_FINETUNE_EMBED,
                                    JOB_FINETUNE_RERANK};
    const struct option_row *row = option_find("recipe");
    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        char all[512], *rest = all;
        snprintf(all, sizeof all, "%s", row->choices);
        for (char *name; (name = strtok_r(rest, "|", &rest)) != NULL;) {
            struct settings config;
            struct berth_error error = {0};
            settings_init(&config);
            config.run.recipe = name;
            const int is_taken = recipe_apply(&config, &config, jobs[i], &error) == BERTH_OK;
            assert_int_equal(is_taken, words_contain(option_help(row, jobs[i]).choices, '|', name));
        }
    }
}

static void jobs_have_their_own_defaults(void **state) {
    struct settings config;
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        for (size_t j = 0; j < sizeof row->job_defaults / sizeof *row->job_defaults; j++) {
            const struct option_default *own = &row->job_defaults[j];
            if (own->jobs == 0) {
                continue;
            }
            assert_true((own->jobs & row->jobs) == own->jobs);
            assert_true(own->value != NULL || own->shown != NULL);
            assert_ptr_equal(option_default(row, own->jobs).shown, own->shown); // no job has two
            assert_true(j == 0 || (own->jobs & JOB_SERVE) == 0);
            const char *value = own->value != NULL ? own->value : row->default_value;
            if (value != NULL) {
                expect_good(row, value);
            }
        }
    }
    settings_init(&config);
    config.run.save_steps = 7;
    settings_apply_defaults(&config, JOB_PRETRAIN);
    assert_true(config.optimizer.learning_rate == 5e-5 && config.run.save_steps == 7 &&
                config.run.seed == 42);
    assert_string_equal(config.optimizer.optimizer, "nvlamb");
    assert_false(settings_row_is_given(&config, option_find("optimizer")));
    assert_int_equal(option_default_integer("max_seq_length", JOB_FINETUNE_CLASSIFY), 128);
    assert_int_equal(option_default_integer("max_seq_length", JOB_FINETUNE_SQUAD), 384);
    assert_int_equal(option_default_integer("seed", JOB_PREPARE), 12345);
}

static void rows_are_complete_and_names_are_unique(void **state) {
    assert_true(option_row_count <= 256); // bits of settings.given
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        const char *aliases = row->aliases;
        char alias[OPTION_NAME_SIZE];
        assert_true(row->jobs != 0 && row->type != OPTION_LIST);
        assert_true(row->type == OPTION_FLAG || row->unit != NULL);
        assert_true(row->help != NULL && row->help[strlen(row->help) - 1] != '.');
        assert_true((row->jobs & JOB_TRAIN) != 0 ? row->resume != OPTION_RESUME_NONE
                                                 : row->resume == OPTION_RESUME_NONE);
        assert_ptr_equal(option_find(row->name), row);
        while (option_next_name(&aliases, alias)) {
            assert_ptr_equal(option_find(alias), row);
        }
        if (row->deepspeed_default != NULL) {
            assert_true(row->deepspeed != NULL && (row->jobs & JOB_TRAIN) != 0);
            expect_good(row, row->deepspeed_default);
        }
    }
}

static void groups_are_in_one_piece(void **state) {
    for (size_t i = 1; i < option_row_count; i++) {
        assert_non_null(option_rows[i].group);
        for (size_t j = 0; j < i && strcmp(option_rows[i].group, option_rows[i - 1].group) != 0;
             j++) {
            assert_string_not_equal(option_rows[j].group, option_rows[i].group);
        }
    }
}

static void a_resumed_run_must_keep_what_its_bytes_depend_on(void **state) {
    static const char *const kept[] = {"seed", "precision", "optimizer", "max_seq_length"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        assert_int_equal(option_find(kept[i])->resume, OPTION_KEPT);
    }
    assert_int_equal(option_find("learning_rate")->resume, OPTION_NOTED);
    assert_int_equal(option_find("threads")->resume, OPTION_FREE);
}

static void both_spellings_are_the_same_name(void **state) {
    assert_ptr_equal(option_find("max-seq-length"), option_find("max_seq_length"));
    assert_ptr_equal(option_find("max-seq_length"), option_find("max_seq_length"));
    assert_non_null(option_find("max_seq_length"));
    assert_null(option_find("max_seq_lengt"));
    assert_null(option_find(""));
}

static const char *nearest(const char *name, unsigned jobs) {
    static struct option_spelling spelling;
    return option_nearest(name, jobs, &spelling);
}

static void typos_find_the_nearest_name(void **state) {
    assert_string_equal(nearest("lerning_rate", ~0u), "learning_rate");
    assert_string_equal(nearest("max-sequence-length", ~0u), "max_seq_length");
    assert_string_equal(nearest("doc_srtide", ~0u), "doc_stride");
    // Aliases as they are spelt: the only one, the first, the last.
    assert_string_equal(nearest("trian", ~0u), "train");
    assert_string_equal(nearest("modl", ~0u), "model");
    assert_string_equal(nearest("eval-batch-siez", ~0u), "eval_batch_size");
    assert_string_equal(nearest("per_device_eval_batch_siez", ~0u), "per_device_eval_batch_size");
    assert_null(nearest("xylophone_quartet", ~0u));
    assert_null(nearest("learning_rate", JOB_TOKENIZE));
    assert_int_equal(option_distance("abcd", "abdc"), 1);
    assert_int_equal(option_distance("", "abc"), 3);
    assert_int_equal(option_distance("kitten", "sitting"), 3);
    char endless[500];
    memset(endless, 'x', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    assert_null(nearest(endless, ~0u));
}

static void expect_refusal(const char *name, const char *value, const char *fragment) {
    struct settings config;
    struct berth_error error = {0};
    settings_init(&config);
    assert_int_equal(settings_set(&config, name, value, &error), BERTH_USAGE);
    if (strstr(error.message, fragment) == NULL) {
        fail_msg("\"%s\" does not hold \"%s\"", error.message, fragment);
    }
}

static void bad_values_name_option_range_and_value(void **state) {
    expect_refusal("learning_rate", "fast", "learning_rate: expected a number of at least 0");
    expect_refusal("learning_rate", "3e-5x", "found \"3e-5x\"");
    expect_refusal("learning_rate", "nan", "found \"nan\"");
    expect_refusal("learning_rate", "0x10", "found \"0x10\"");
    expect_refusal("learning_rate", " 1", "found \" 1\"");
    expect_refusal("weight_decay", "-0.5",
                   "weight_decay: expected a number of at least 0, or auto, found");
    expect_refusal("hidden_dropout_prob", "-2",
                   "expected a number from 0 to 0.99, or auto, found \"-2\"");
    expect_refusal("learning_rate", "-1", "at least 0");
    expect_refusal("learning_rate", "1e999", "1e999");
    expect_refusal("warmup_proportion", "1.5", "from 0 to 1");
    expect_refusal("max_seq_length", "7", "from 8 to 65536");
    expect_refusal("max_seq_length", "384.5", "a whole number");
    expect_refusal("max_steps", "7038.5", "a whole number");
    expect_refusal("max_steps", "1e300", "a whole number");
    expect_refusal("logging_steps", "1.5",
                   "at least 1, or a fraction of the updates from 1e-06 to below 1");
    expect_refusal("logging_steps", "0.0", "at least 1");
    expect_refusal("save_steps", "-0.5",
                   "a fraction of the updates from 1e-06 to below 1, or auto");
    expect_refusal("seed", "99999999999999999999", "of at least 0 and at most 9223372036854775807");
    expect_refusal("seed", "-1", "a whole number of at least 0, found \"-1\"");
    expect_refusal("do_lower_case", "maybe", "true or false");
    expect_refusal("precision", "fp8", "one of fp32, bf16");
    expect_refusal("schedule", "Linear", "linear, linear_ahead");
    expect_refusal("train_file", "", "some text");
    expect_refusal("lerning_rate", "1", "did you mean \"learning_rate\"");
}

static void expect_printed(const char *name, const char *value, const char *printed) {
    const struct option_row *row = option_find(name);
    struct settings config;
    char text[64];
    settings_init(&config);
    assert_int_equal(settings_set_row(&config, row, value, NULL), BERTH_OK);
    settings_print(&config, row, text, sizeof text);
    assert_string_equal(text, printed);
}

// A default that follows a rule is "auto", and no number stands for it.
static void absence_is_no_number(void **state) {
    struct settings config;
    char text[64];
    settings_init(&config);
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        if (row->has_auto) {
            expect_refusal(row->name, "-1", "auto");
            assert_int_equal(settings_set_row(&config, row, "auto", NULL), BERTH_OK);
            settings_print(&config, row, text, sizeof text);
            assert_string_equal(text, "auto");
        }
    }
    assert_true(isnan(config.optimizer.weight_decay) && isnan(config.optimizer.adam_epsilon) &&
                isnan(config.model.hidden_dropout_prob) &&
                isnan(config.model.attention_probs_dropout_prob));
    assert_int_equal(config.features.test_shards, OPTION_AUTO);
}

// As argparse's type=float leaves them in the scripts.
static void whole_numbers_may_have_a_point(void **state) {
    expect_printed("max_steps", "7038.0", "7038");
    expect_printed("max_steps", "-1.0", "-1");
    expect_printed("logging_steps", "1.0", "1");
    expect_printed("save_steps", "5e2", "500");
}

static void fractions_of_the_updates_are_kept(void **state) {
    expect_printed("logging_steps", "0.1", "0.1");
    expect_printed("eval_steps", "0.999999", "0.999999");
    expect_printed("save_steps", "1e-6", "1e-06");
    assert_true(option_fraction(5) == 0 && option_fraction(OPTION_AUTO) == 0 &&
                option_fraction(-2) == 0);
}

static void values_arrive_in_their_fields(void **state) {
    struct settings config;
    struct berth_error error;
    settings_init(&config);
    assert_int_equal(settings_set(&config, "lr", "3e-5", &error), BERTH_OK);
    assert_int_equal(settings_set(&config, "model", "somewhere", &error), BERTH_OK);
    assert_int_equal(settings_set(&config, "precision", "bf16", &error), BERTH_OK);
    assert_int_equal(settings_set(&config, "do-lower-case", "False", &error), BERTH_OK);
    assert_int_equal(settings_set(&config, "warmup_ratio", ".25", &error), BERTH_OK);
    assert_true(config.optimizer.learning_rate == 3e-5);
    assert_string_equal(config.model.model_name_or_path, "somewhere");
    assert_int_equal(config.machine.precision, BERTH_BF16);
    assert_int_equal(config.model.do_lower_case, 0);
    assert_true(config.optimizer.warmup_proportion == 0.25);
    assert_int_equal(config.features.max_seq_length, 384);
}

static void the_schedules_offered_are_those_that_exist(void **state) {
    const char *choices = option_find("schedule")->choices;
    for (size_t i = 0; i < schedule_row_count; i++) {
        size_t length = strlen(schedule_rows[i].name);
        assert_memory_equal(choices, schedule_rows[i].name, length);
        assert_true(choices[length] == (i + 1 < schedule_row_count ? '|' : '\0'));
        choices += length + 1;
    }
}

static void numbers_print_shortest_and_read_back(void **state) {
    static const struct {
        double value;
        const char *text;
    } cases[] = {{3e-5, "3e-05"},
                 {0.1, "0.1"},
                 {50.0, "50"},
                 {1234567.5, "1234567.5"},
                 {0.0001, "0.0001"},
                 {1e16, "1e+16"},
                 {-100.0, "-100"},
                 {1.0, "1"},
                 {1.0 / 3.0, "0.3333333333333333"},
                 {1e300, "1e+300"},
                 {-2.5, "-2.5"},
                 {0.0, "0"},
                 {NAN, "nan"},
                 {-INFINITY, "-inf"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[NUMBER_TEXT_SIZE];
        number_print_real(text, sizeof text, cases[i].value);
        assert_string_equal(text, cases[i].text);
    }
}

// Of a text that goes on.
static void digits_are_read_from_the_middle_of_a_text(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t length;
        int64_t value; // -1: refused
    } cases[] = {{"42.pt", 2, 42},
                 {"42.pt", 1, 4},
                 {"007", 3, 7},
                 {"123456789012345678", 18, 123456789012345678},
                 {"1234567890123456789", 19, -1},
                 {"42.pt", 3, -1},
                 {"42", 0, -1},
                 {"-4", 2, -1},
                 {"+4", 2, -1},
                 {" 4", 2, -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t value = -1;
        assert_int_equal(number_parse_digits(cases[i].text, cases[i].length, &value),
                         cases[i].value >= 0);
        assert_int_equal(value, cases[i].value);
    }
}

static void the_locale_changes_nothing(void **state) {
    foreign_locale_set();
    double value = 0.0;
    char text[NUMBER_TEXT_SIZE];
    assert_true(number_parse_real("2.5", &value));
    assert_true(value == 2.5);
    assert_false(number_parse_real("2,5", &value));
    number_print_real(text, sizeof text, 2.5);
    assert_string_equal(text, "2.5");
    setlocale(LC_ALL, "C");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_default_is_the_rows),
        cmocka_unit_test(jobs_have_their_own_defaults),
        cmocka_unit_test(jobs_have_their_own_help),
        cmocka_unit_test(help_lists_the_recipes_of_a_job),
        cmocka_unit_test(groups_are_in_one_piece),
        cmocka_unit_test(a_resumed_run_must_keep_what_its_bytes_depend_on),
        cmocka_unit_test(rows_are_complete_and_names_are_unique),
        cmocka_unit_test(both_spellings_are_the_same_name),
        cmocka_unit_test(typos_find_the_nearest_name),
        cmocka_unit_test(bad_values_name_option_range_and_value),
        cmocka_unit_test(absence_is_no_number),
        cmocka_unit_test(whole_numbers_may_have_a_point),
        cmocka_unit_test(fractions_of_the_updates_are_kept),
        cmocka_unit_test(values_arrive_in_their_fields),
        cmocka_unit_test(the_schedules_offered_are_those_that_exist),
        cmocka_unit_test(numbers_print_shortest_and_read_back),
        cmocka_unit_test(digits_are_read_from_the_middle_of_a_text),
        cmocka_unit_test(the_locale_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
