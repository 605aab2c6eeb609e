// SPDX-License-Identifier: Apache-2.0
// Facts that ranks compare (train/machine/rank_facts.h): all ranks get the same status, and one of
// them the message, which names rank, host, fact, source and both values.
#include "comm/job.h"
#include "core/harness.h"
#include "settings/settings.h"
#include "train/machine/rank_facts.h"

#include <string.h>

enum { LONG = 300 };

// What ranks from 1 on do otherwise than rank 0.
enum difference { NONE, SETTING, SOURCE, VALUE, LONG_VALUE, FEWER, MORE, OTHER_NAME, DIFFERENCES };

static const struct {
    enum berth_status status;
    const char *message; // of rank 1
} expected[DIFFERENCES] = {
    [SETTING] = {BERTH_CONFIG,
                 "rank 1 on host host1: learning_rate is 0.5, but 0.25 on rank 0 (host "
                 "host0): it must be the same in all processes of a job; compare their "
                 "programs, their command lines and the files named there"},
    [VALUE] = {BERTH_BAD_DATA,
               "rank 1 on host host1: the number of words (1/vocab.txt) is 8, but 7 on "
               "rank 0 (host host0, 0/vocab.txt)"},
    [LONG_VALUE] = {BERTH_BAD_DATA, "... (checksum "},
    [FEWER] = {BERTH_BAD_DATA, "rank 1 on host host1: the last (file) is not set, but 5 on rank 0"},
    [MORE] = {BERTH_BAD_DATA, "rank 1 on host host1: one more (file) is 6, but not set on rank 0"},
    [OTHER_NAME] = {BERTH_BAD_DATA,
                    "rank 1 on host host1: the end (file) is 5, but not set on rank 0"},
};

struct outcome {
    enum difference difference;
    _Atomic int statuses[DIFFERENCES][SOCKET_PROCESSES], messages[DIFFERENCES];
};

static void list(struct rank_facts *facts, int rank, enum difference difference) {
    char text[LONG + 1];
    struct settings config;
    const int others = rank > 0;
    settings_init(&config);
    config.optimizer.learning_rate = others && difference == SETTING ? 0.5 : 0.25;
    config.machine.threads = rank; // may differ
    rank_facts_add_settings(facts, &config);
    memset(text, 'x', LONG);
    text[LONG] = '\0';
    text[LONG - 1] = others && difference == LONG_VALUE ? 'y' : 'x';
    rank_facts_add_number(facts, "the number of words", others ? "1/vocab.txt" : "0/vocab.txt",
                          others && difference == VALUE ? 8 : 7);
    rank_facts_add(facts, "a text", "file", text);
    if (!others || difference != FEWER) {
        rank_facts_add(facts, others && difference == OTHER_NAME ? "the end" : "the last", "file",
                       "5");
    }
    if (others && difference == MORE) {
        rank_facts_add_number(facts, "one more", "file", 6);
    }
}

static void compare(struct comm *comm, const struct transport *transport, void *context) {
    struct outcome *outcome = context;
    for (enum difference difference = NONE; difference < DIFFERENCES; difference++) {
        struct rank_facts facts = {0};
        struct berth_error error = {.message = ""};
        list(&facts, comm->rank, difference);
        const enum berth_status status = rank_facts_compare(&facts, comm, &error);
        CHECK(status == expected[difference].status);
        outcome->messages[difference] += status != BERTH_OK && error.message[0] != '\0';
        CHECK(status == BERTH_OK || error.message[0] == '\0' ||
              strstr(error.message, expected[difference].message) != NULL);
        CHECK(facts.text.bytes == NULL);
    }
}

static void test_the_first_difference_from_rank_0_is_named_once(void **state) {
    struct job job = job_of("3x1");
    struct outcome outcome = {0};
    job.body = compare;
    job.context = &outcome;
    job_run(&job);
    for (enum difference difference = NONE; difference < DIFFERENCES; difference++) {
        const int differs = expected[difference].status != BERTH_OK;
        assert_int_equal(outcome.messages[difference], differs);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_difference_from_rank_0_is_named_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
