// SPDX-License-Identifier: Apache-2.0
// The rows of tasks keep their invariant (task/task.h), each clause of it is checked, and the table
// of berth.h tells other programs of the same rows.
#include "berth.h"
#include "core/harness.h"
#include "task/task.h"

#include <string.h>

static const struct task_row *row_named(const char *name) {
    const struct task_row *row = task_find(name);
    assert_non_null(row);
    return row;
}

static void every_row_keeps_the_invariant(void **state) {
    (void)state;
    size_t count = 0;
    for (; task_rows[count] != NULL; count++) {
        const char *broken = task_check(task_rows[count]);
        if (broken != NULL) {
            fail_msg("%s: %s", task_rows[count]->about.name, broken);
        }
        assert_string_equal(berth_task_at(count)->name, task_rows[count]->about.name);
    }
    assert_true(count >= 10);
    assert_null(berth_task_at(count));
}

static enum berth_status nothing(struct task_set *set, const struct task_open *args,
                                 struct berth_error *error) {
    (void)set;
    (void)args;
    (void)error;
    return BERTH_OK;
}

static void is_broken(const struct task_row *row, const char *says) {
    const char *broken = task_check(row);
    assert_non_null(broken);
    if (strstr(broken, says) == NULL) {
        fail_msg("expected \"%s\", found \"%s\"", says, broken);
    }
}

// Breaks a copy of a row by an assignment; the check then says so.
#define BREAKS(name, assignment, says)                                                             \
    do {                                                                                           \
        struct task_row row = *row_named(name);                                                    \
        assert_null(task_check(&row));                                                             \
        row.assignment;                                                                            \
        is_broken(&row, says);                                                                     \
    } while (0)

static void each_clause_is_checked(void **state) {
    (void)state;
    BREAKS("embed", about.name = NULL, "has a name");
    BREAKS("embed", about.pipeline = NULL, "a pipeline");
    BREAKS("embed", about.text = NULL, "the name of a text");
    BREAKS("embed", about.pipeline = "fill-mask", "the same name or pipeline");
    BREAKS("answer", about.pair = NULL, "needs a pair");
    BREAKS("embed", about.has_rows = 0, "items, or rows of numbers");
    BREAKS("embed", width = NULL, "the width of its numbers");
    BREAKS("embed", open = NULL, "opens a model");
    BREAKS("embed", run = NULL, "runs texts");
    BREAKS("embed", write = NULL, "writes results");
    BREAKS("classify", own_size = 0, "has own_size");
    BREAKS("embed", job = 0, "settings of one job");
    BREAKS("embed", job = JOB_FILL | JOB_EMBED, "settings of one job");
    BREAKS("embed", uses_windows = 1, "not both");
    BREAKS("embed", verb.flag = "tokens", "a flag belongs to");
    BREAKS("embed_tokens", verb.flag = NULL, "a flag belongs to");
    BREAKS("embed_tokens", verb.of = "embed_sparse", "a flag belongs to");
    BREAKS("embed", settings = "top unheard_of", "one of task_options");
    BREAKS("embed", tasks[0] = NULL, "itself among them");
    BREAKS("embed", tasks[0] = "fill tokenize", "itself among them");
    BREAKS("embed", tasks[0] = "embed unheard_of", "itself among them");
    BREAKS("classify", tasks[1] = "rerank", "itself among them");
    BREAKS("embed", outputs[0].name = NULL, "has an output");
    BREAKS("embed", about.trains = 0, "exactly if it trains");
    BREAKS("embed", training = NULL, "exactly if it trains");
}

static void a_training_is_checked(void **state) {
    (void)state;
    struct training_task training = *row_named("embed")->training;
    struct task_row row = *row_named("embed");
    row.training = &training;
    assert_null(task_check(&row));
    training.title = NULL;
    is_broken(&row, "a title");
    training.title = "x";
    training.done = NULL;
    is_broken(&row, "closes it");
    training = *row_named("embed")->training;
    training.open = nothing;
    assert_null(task_check(&row));
    training.score = NULL;
    is_broken(&row, "scores");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_keeps_the_invariant),
        cmocka_unit_test(each_clause_is_checked),
        cmocka_unit_test(a_training_is_checked),
    };
    return cmocka_run_group_tests_name("task", tests, NULL, NULL);
}
