// SPDX-License-Identifier: Apache-2.0
// A number that changes in the memory of one of several ranks, which are threads here, or that
// arrives wrong is found, and its place is named (replica_check.h); checks change no bytes. One
// process: test_replica_check.c; updates without checks: test_ranks.c.
#include "core/harness.h"
#include "ranks_fixture.h"

#include <stdio.h>
#include <string.h>

enum { FIRST_BITS = 16 }; // of a number, which is at least as wide

// A number of rank `victim`, of the kind `name`, that it owns or gathers.
struct target {
    const char *name;
    int is_own;
    int64_t first, count; // where to look for it
};

static int owns(const struct rank *rank, int64_t element) {
    for (size_t i = 0; i < rank->state.own.count; i++) {
        if (partition_intersect(&rank->state.own, i, element, 1).count > 0) {
            return 1;
        }
    }
    return 0;
}

static int64_t find_element(const struct rank *rank, const struct target *target) {
    int64_t element = target->first;
    while (element < target->first + target->count && owns(rank, element) != target->is_own) {
        element += 1000;
    }
    CHECK(element < target->first + target->count);
    return element;
}

static const char *name_of(int64_t element) {
    size_t last = ranks_table.count - 1;
    while (ranks_table.params[last].offset > element) {
        last--;
    }
    return ranks_table.params[last].name;
}

static void *number_at(const struct rank *rank, const char *kind, int64_t element) {
    const struct state *state = &rank->state;
    float *const moments = strcmp(kind, "first moment") == 0 ? state->moment1 : state->moment2;
    if (strcmp(kind, "master weight") == 0) {
        return state->master + element;
    }
    if (strcmp(kind, "compute copy") == 0) {
        return (char *)state->copy + (size_t)element * dtype_size(state->compute);
    }
    for (size_t i = 0; i < state->partition.count; i++) {
        const struct partition_span part = partition_intersect(&state->partition, i, element, 1);
        if (part.count > 0) {
            return moments + part.offset;
        }
    }
    return NULL;
}

static void flip(void *number, int bit) {
    ((unsigned char *)number)[bit / 8] ^= (unsigned char)(1 << bit % 8);
}

static enum berth_status try_update(struct rank *rank, const struct setting *setting, int64_t step,
                                    struct berth_error *error) {
    struct update_data data;
    const struct update_args args = rank_args(&data, setting, rank->engine.comm, step);
    struct update_result result;
    *error = (struct berth_error){0};
    return update_run(&rank->updater, &args, &result, error);
}

// As a forward pass does.
static void receive_weights(struct rank *rank) {
    for (size_t range = 0; range < param_range_count(&ranks_table); range++) {
        rank->engine.model.source.need(rank->engine.model.source.context, range);
    }
}

// Rank 0 names rank `victim`, with each of the words; the others say nothing.
static void check_report(const struct comm *comm, const struct berth_error *error, int victim,
                         const char *const *words) {
    char who[64] = "this process: ";
    if (comm->size > 1) {
        snprintf(who, sizeof who, "rank %d (%s): ", victim, comm->host_names[victim]);
    }
    int is_right = comm->rank == 0 ? strncmp(error->message, who, strlen(who)) == 0
                                   : strcmp(error->message, "") == 0;
    for (; comm->rank == 0 && *words != NULL; words++) {
        is_right &= strstr(error->message, *words) != NULL;
    }
    if (!CHECK(is_right)) {
        fprintf(stderr, "rank %d: expected %s...; found: %s\n", comm->rank, who, error->message);
    }
}

// One bit of the victim's changes between two updates, and changes back.
static void check_flip(struct rank *rank, const struct setting *setting, int64_t step, int victim,
                       const struct target *target) {
    struct comm *comm = rank->engine.comm;
    struct berth_error error;
    char kind[64], updates[64];
    int64_t element = 0;
    void *number = NULL;
    receive_weights(rank);
    if (comm->rank == victim) {
        element = find_element(rank, target);
        number = number_at(rank, target->name, element);
        flip(number, (int)step % FIRST_BITS);
    }
    comm->broadcast(comm, &element, sizeof element, victim);
    CHECK(try_update(rank, setting, step, &error) == BERTH_UNAVAILABLE);
    snprintf(kind, sizeof kind, "the %s of ", target->name);
    snprintf(updates, sizeof updates, "after update %d,", (int)step);
    check_report(comm, &error, victim,
                 (const char *const[]){kind, name_of(element), updates, "memory", NULL});
    CHECK((update_check(&rank->updater, step, &error) == BERTH_UNAVAILABLE)); // before saving
    if (comm->rank == victim) {
        flip(number, (int)step % FIRST_BITS);
    }
    update_discard(&rank->updater);
    CHECK(update_check(&rank->updater, step, NULL) == BERTH_OK);
    CHECK(try_update(rank, setting, step, &error) == BERTH_OK);
}

// Whether the ranks have such a number, those that do not own it if `target` says so.
static int is_kept(const struct target *target, const struct setting *setting) {
    const int has_copy = setting->compute != DTYPE_F32;
    if (strcmp(target->name, "compute copy") == 0) {
        return has_copy;
    }
    if (strcmp(target->name, "master weight") == 0 &&
        (!has_copy || target->first == ranks_table.word)) {
        return 1;
    }
    return target->is_own || setting->stage == 0;
}

static void flip_each_kind(struct comm *comm, const struct transport *transport, void *context) {
    const struct setting *setting = context;
    const struct param_range layer = param_range(&ranks_table, 1);
    const int64_t word_count = ranks_shape.vocab_size * ranks_shape.hidden_size;
    const struct target targets[] = {
        {"master weight", 1, layer.first, layer.count},
        {"first moment", 1, layer.first, layer.count},
        {"second moment", 1, layer.first, layer.count},
        {"compute copy", 1, layer.first, layer.count},
        {"compute copy", 0, layer.first, layer.count},
        {"master weight", 0, layer.first, layer.count},
        {"master weight", 0, ranks_table.word, word_count},
        {"first moment", 0, layer.first, layer.count},
        {"second moment", 0, layer.first, layer.count},
    };
    struct rank rank;
    rank_open(&rank, setting, comm);
    int64_t step = UPDATES - 1; // few sequences: one rank may have none
    (void)rank_update(&rank, setting, step++);
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        if (is_kept(&targets[i], setting) && (targets[i].is_own || comm->size > 1)) {
            check_flip(&rank, setting, step++, (int)i % comm->size, &targets[i]);
        }
    }
    rank_close(&rank);
}

static void run_job(const struct setting *setting, job_body *each) {
    if (strcmp(setting->layout, "1x1") == 0) {
        each(comm_self(), NULL, (void *)(uintptr_t)setting);
        return;
    }
    struct job job = job_of(setting->layout);
    job.settings.timeout_seconds = 120;
    job.body = each;
    job.context = (void *)(uintptr_t)setting;
    job_run(&job);
}

// RELIABILITY 24: before the next update and before saving, whatever K is.
static void test_a_flipped_bit_is_found_where_it_is(void **state) {
    static const char *const layouts[] = {"1x2", "2x2", "1x1"};
    for (int i = 0; i < 3; i++) {
        for (int stage = 0; stage <= (i < 2 ? 2 : 0); stage++) {
            for (enum dtype compute = DTYPE_F32; compute <= DTYPE_BF16; compute++) {
                const struct setting setting = {.layout = layouts[i],
                                                .stage = stage,
                                                .compute = compute,
                                                .wire = compute,
                                                .optimizer = "adamw",
                                                .micro = 5,
                                                .checks = stage == 1 ? 3 : 1};
                run_job(&setting, flip_each_kind);
            }
        }
    }
}

static void test_checks_change_no_bytes(void **state) {
    for (int stage = 0; stage <= 2; stage++) {
        struct setting setting = {.layout = "2x2",
                                  .stage = stage,
                                  .compute = stage == 1 ? DTYPE_F32 : DTYPE_BF16,
                                  .optimizer = stage == 1 ? "nvlamb" : "adamw",
                                  .micro = 5};
        struct outcome usual = outcome_of(&setting);
        setting.checks = 1;
        struct outcome checked = outcome_of(&setting);
        assert_same_outcome(&checked, &usual);
        assert_int_equal(checked.different, 0);
        outcome_done(&usual);
        outcome_done(&checked);
    }
}

// A step that computes one number wrongly, once.
static _Thread_local void (*right_adamw)(struct device *, const struct adamw_args *);
static _Thread_local int64_t wrong_element;

static void wrong_adamw(struct device *device, const struct adamw_args *args) {
    right_adamw(device, args);
    for (int64_t i = 0; i < args->range_count; i++) {
        const struct device_range *range = &args->ranges[i];
        if (wrong_element >= range->first && wrong_element < range->first + range->count) {
            flip(args->parameters + wrong_element, 3);
            wrong_element = -1;
        }
    }
}

enum { PERIOD = 3 };

// Until a multiple of PERIOD; the wrong numbers have been overwritten by then.
static int64_t update_until_found(struct rank *rank, const struct setting *setting, int64_t step,
                                  struct berth_error *error) {
    enum berth_status status = BERTH_OK;
    for (int i = 0; i < PERIOD && status == BERTH_OK; i++) {
        status = try_update(rank, setting, step++, error);
    }
    CHECK(status == BERTH_UNAVAILABLE);
    return step - 1;
}

// Stage 0: one rank computes another number than the rest; the majority is right.
static void compute_wrongly(struct comm *comm, const struct transport *transport, void *context) {
    const struct setting *setting = context;
    const int victim = 1;
    const struct param_range layer = param_range(&ranks_table, 1);
    for (int is_own = 0; is_own <= 1; is_own++) {
        const struct target target = {"master weight", is_own, layer.first, layer.count};
        struct berth_error error;
        struct rank rank;
        rank_open(&rank, setting, comm);
        int64_t element = find_element(&rank, &target);
        comm->broadcast(comm, &element, sizeof element, victim);
        right_adamw = rank.device->adamw;
        wrong_element = comm->rank == victim ? element : -1;
        rank.device->adamw = wrong_adamw;
        (void)rank_update(&rank, setting, PERIOD);
        CHECK(update_until_found(&rank, setting, PERIOD + 1, &error) == 2 * PERIOD);
        const int names_owner = comm->size == 2 && is_own; // one against one
        check_report(comm, &error, names_owner ? 0 : victim,
                     (const char *const[]){"the master weight of ", name_of(element),
                                           "after one of the updates 4 to 6",
                                           comm->size == 2 ? "and either may be wrong" : "differs",
                                           NULL});
        rank_close(&rank);
    }
}

static void test_a_rank_that_computes_other_numbers_is_found(void **state) {
    struct setting setting = {.layout = "2x2", .optimizer = "adamw", .micro = 5, .checks = PERIOD};
    run_job(&setting, compute_wrongly);
    setting.layout = "1x2";
    run_job(&setting, compute_wrongly);
}

// Stages 1 and 2: what a rank receives is not what the owner has.
static void receive_wrongly(struct comm *comm, const struct transport *transport, void *context) {
    const struct setting *setting = context;
    const int victim = comm->size - 1;
    const struct param_range layer = param_range(&ranks_table, 1);
    const struct target target = {"compute copy", 0, layer.first, layer.count};
    struct berth_error error;
    struct rank rank;
    rank_open(&rank, setting, comm);
    (void)rank_update(&rank, setting, PERIOD);
    all_reduce_wait_all_weights(&rank.updater.all_reduce);
    int64_t element = find_element(&rank, &target);
    comm->broadcast(comm, &element, sizeof element, victim);
    if (comm->rank == victim) {
        flip(number_at(&rank, target.name, element), 0);
    }
    CHECK(update_until_found(&rank, setting, PERIOD + 1, &error) == 2 * PERIOD);
    check_report(comm, &error, victim,
                 (const char *const[]){"the compute copy of ", name_of(element),
                                       "differs from that on rank ",
                                       "after one of the updates 4 to 6", NULL});
    rank_close(&rank);
}

static void test_a_copy_that_is_not_the_owners_is_found(void **state) {
    for (int stage = 1; stage <= 2; stage++) {
        const struct setting setting = {.layout = stage == 1 ? "1x2" : "2x2",
                                        .stage = stage,
                                        .compute = DTYPE_BF16,
                                        .wire = DTYPE_BF16,
                                        .optimizer = "adamw",
                                        .micro = 5,
                                        .checks = PERIOD};
        run_job(&setting, receive_wrongly);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_flipped_bit_is_found_where_it_is),
        cmocka_unit_test(test_checks_change_no_bytes),
        cmocka_unit_test(test_a_rank_that_computes_other_numbers_is_found),
        cmocka_unit_test(test_a_copy_that_is_not_the_owners_is_found),
    };
    return cmocka_run_group_tests(tests, ranks_set_up, ranks_tear_down);
}
