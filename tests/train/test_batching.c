// SPDX-License-Identifier: Apache-2.0
// Tests batch arithmetic: any two of three numbers determine the third, a contradiction names all
// four, an epoch keeps its last, smaller update, and the planned worst case equals that of the run.
#include "core/harness.h"
#include "core/options.h"
#include "train/engine/batching.h"

#include <stdio.h>
#include <string.h>

static struct berth_config make(int64_t update, int64_t micro, int64_t accumulation) {
    struct berth_config config;
    option_defaults(&config);
    char text[32];
    if (update > 0) {
        snprintf(text, sizeof text, "%d", (int)update);
        assert_int_equal(option_set(&config, option_find("train_batch_size"), text, NULL),
                         BERTH_OK);
    }
    config.per_device_train_batch_size = micro;
    config.gradient_accumulation_steps = accumulation;
    return config;
}

static void expect(int64_t update, int64_t micro, int64_t accumulation, int64_t want_update,
                   int64_t want_micro, int64_t want_accumulation) {
    struct berth_config config = make(update, micro, accumulation);
    struct batching b;
    assert_int_equal(batching_resolve(&b, &config, 1000, 1, NULL), BERTH_OK);
    assert_int_equal(b.update_sequences, want_update);
    assert_int_equal(b.micro.sequences, want_micro);
    assert_int_equal(b.accumulation, want_accumulation);
}

static void test_any_two_give_the_third(void **state) {
    expect(24, 3, 8, 24, 3, 8);
    expect(24, 3, 0, 24, 3, 8);
    expect(24, 0, 8, 24, 3, 8);
    expect(0, 3, 8, 24, 3, 8);
    expect(0, 3, 0, 3, 3, 1);
    expect(24, 0, 0, 24, 24, 0); // cut by tokens
}

static void refuse(int64_t update, int64_t micro, int64_t accumulation, const char *const *parts) {
    struct berth_config config = make(update, micro, accumulation);
    struct batching b;
    struct berth_error error;
    assert_int_equal(batching_resolve(&b, &config, 1000, 1, &error), BERTH_CONFIG);
    for (; *parts != NULL; parts++) {
        if (strstr(error.message, *parts) == NULL) {
            fail_msg("\"%s\" is not in \"%s\"", *parts, error.message);
        }
    }
}

static void test_contradictions_name_all_four(void **state) {
    refuse(24, 5, 4, (const char *const[]){"24", "5", "4", "processes 1", NULL});
    refuse(24, 5, 0, (const char *const[]){"24", "5", "processes 1", NULL});
    refuse(24, 0, 7, (const char *const[]){"24", "7", "processes 1", NULL});
    refuse(4, 0, 8, (const char *const[]){"4", "8", NULL});
}

static void test_updates_and_places(void **state) {
    struct berth_config config = make(32, 0, 0);
    config.num_train_epochs = 2;
    struct batching b;
    assert_int_equal(batching_resolve(&b, &config, 8014, 1, NULL), BERTH_OK);
    assert_int_equal(b.updates_per_epoch, 251);
    assert_int_equal(b.total_steps, 502);
    struct update_place last = batching_place(&b, 250);
    assert_int_equal(last.epoch, 0);
    assert_int_equal(last.first, 8000);
    assert_int_equal(last.count, 14);
    struct update_place next = batching_place(&b, 251);
    assert_int_equal(next.epoch, 1);
    assert_int_equal(next.first, 0);
    config.max_steps_per_epoch = 10;
    assert_int_equal(batching_resolve(&b, &config, 8014, 1, NULL), BERTH_OK);
    assert_int_equal(b.total_steps, 20);
    config.max_steps = 7;
    assert_int_equal(batching_resolve(&b, &config, 8014, 1, NULL), BERTH_OK);
    assert_int_equal(b.total_steps, 7);
    config.max_steps = 0;
    config.max_steps_per_epoch = 0;
    config.num_train_epochs = 0.5;
    assert_int_equal(batching_resolve(&b, &config, 8014, 1, NULL), BERTH_OK);
    assert_int_equal(b.total_steps, 126);
}

// An epoch ends with its last, smaller update, and no sooner.
static void test_ends_of_epochs(void **state) {
    struct berth_config config = make(32, 0, 0);
    config.num_train_epochs = 3;
    struct batching b;
    assert_int_equal(batching_resolve(&b, &config, 70, 1, NULL), BERTH_OK);
    int64_t sequences = 0;
    for (int64_t step = 0; step < b.total_steps; step++) {
        struct update_place place = batching_place(&b, step);
        assert_int_equal(place.epoch, step / 3);
        assert_int_equal(place.update, step % 3);
        assert_int_equal(place.count, step % 3 == 2 ? 6 : 32);
        sequences += (int64_t)place.count;
        assert_int_equal(batching_ends_epoch(&b, step + 1), step % 3 == 2);
        assert_true(batching_epochs(&b, step) == (double)step / 3.0);
    }
    assert_int_equal(sequences, 3 * 70);
}

static void test_the_last_update_can_be_left_out(void **state) {
    struct berth_config config = make(32, 0, 0);
    struct berth_error error;
    struct batching b;
    config.num_train_epochs = 3;
    assert_int_equal(batching_resolve(&b, &config, 70, 1, NULL), BERTH_OK);
    assert_int_equal(batching_drop_last(&b, &config, NULL), BERTH_OK);
    assert_int_equal(b.updates_per_epoch, 2);
    assert_int_equal(b.total_steps, 6);
    for (int64_t step = 0; step < 6; step++) {
        assert_int_equal(batching_place(&b, step).epoch, step / 2);
        assert_int_equal(batching_place(&b, step).count, 32);
    }
    config.max_steps_per_epoch = 1;
    assert_int_equal(batching_resolve(&b, &config, 70, 1, NULL), BERTH_OK);
    assert_int_equal(batching_drop_last(&b, &config, NULL), BERTH_OK);
    assert_int_equal(b.updates_per_epoch, 1);
    assert_int_equal(batching_resolve(&b, &config, 31, 1, NULL), BERTH_OK);
    assert_int_equal(batching_drop_last(&b, &config, &error), BERTH_CONFIG);
    assert_non_null(strstr(error.message, "an epoch has 31 sequences, an update 32"));
}

// Updates that run on: 70 sequences end within the third update of 32, the second 70 within the
// fifth.
static void test_ends_of_epochs_that_run_on(void **state) {
    static const int ends[] = {0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0};
    struct berth_config config = make(32, 0, 0);
    config.num_train_epochs = 2;
    struct batching b;
    assert_int_equal(batching_resolve(&b, &config, 70, 1, NULL), BERTH_OK);
    assert_int_equal(batching_run_on(&b, &config, 20, NULL), BERTH_OK);
    assert_int_equal(b.total_steps, 5); // ceil(140 / 32)
    assert_int_equal(b.micro.sequences, 32);
    assert_int_equal(b.micro.masked, BATCHING_TOKENS / 4);
    for (int64_t step = 0; step < 11; step++) {
        assert_int_equal(batching_ends_epoch(&b, step), ends[step]);
        assert_true(batching_epochs(&b, step) == (double)step * 32 / 70);
    }
    b.features = 64; // with every second update, and not with the one after
    for (int64_t step = 1; step < 9; step++) {
        assert_int_equal(batching_ends_epoch(&b, step), step % 2 == 0);
    }
}

static struct packer_sequence get(const void *data, size_t index) {
    return (struct packer_sequence){.length = (int32_t)(10 + index * 37 % 300)};
}

static void test_worst_case_is_met_and_never_passed(void **state) {
    struct packer_source source = {.get = get, .count = 500};
    for (int epochs = 1; epochs <= 40; epochs += 39) {
        struct berth_config config = make(64, 0, 0);
        config.num_train_epochs = epochs;
        struct batching b;
        struct batching_worst worst;
        assert_int_equal(batching_resolve(&b, &config, 500, 1, NULL), BERTH_OK);
        assert_int_equal(batching_find_worst(&b, &source, &worst, NULL), BERTH_OK);
        int64_t most = 0;
        uint32_t order[500];
        for (int64_t step = 0; step < b.total_steps; step++) {
            struct update_place place = batching_place(&b, step);
            packer_shuffle(b.seed, place.epoch, 500, order);
            for (size_t done = 0; done < place.count;) {
                const uint32_t *own = order + place.first + done;
                size_t cut = batching_cut(&b, &source, own, place.count - done);
                int64_t tokens = 0;
                for (size_t i = 0; i < cut; i++) {
                    tokens += get(NULL, own[i]).length;
                }
                assert_true(tokens <= BATCHING_TOKENS);
                most = tokens > most ? tokens : most;
                done += cut;
            }
        }
        assert_true(most <= worst.micro.tokens);
        assert_true(epochs > 32 || most == worst.micro.tokens);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_two_give_the_third),
        cmocka_unit_test(test_contradictions_name_all_four),
        cmocka_unit_test(test_updates_and_places),
        cmocka_unit_test(test_ends_of_epochs),
        cmocka_unit_test(test_the_last_update_can_be_left_out),
        cmocka_unit_test(test_ends_of_epochs_that_run_on),
        cmocka_unit_test(test_worst_case_is_met_and_never_passed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
