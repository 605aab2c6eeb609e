// SPDX-License-Identifier: Apache-2.0
// Who adds the gradients of several ranks (train/job/reduce_choice.h), on clusters that a forecast
// stands for: what is asked, what hosts allow, and where auto changes.
#include "comm/comm_forecast.h"
#include "core/harness.h"
#include "train/job/reduce_choice.h"

#include <string.h>

static struct param_table table;
static struct device device = {.is_host = 1};

static int init(void **unused) {
    const struct bert_config shape = {.vocab_size = 30522,
                                      .hidden_size = 768,
                                      .num_hidden_layers = 12,
                                      .num_attention_heads = 12,
                                      .intermediate_size = 3072,
                                      .max_position_embeddings = 512,
                                      .type_vocab_size = 2};
    return param_table_init(&table, &shape, PARAM_HEAD_SPAN, NULL);
}

static int done(void **unused) {
    param_table_done(&table);
    return 0;
}

struct asked {
    const char *reduce;
    int64_t virtual_ranks;
    int hosts, ranks_per_host, library_is_linear, stage;
};

static enum berth_status choose(const struct asked *asked, struct reduce_choice *choice,
                                struct berth_error *error) {
    const struct comm_cluster cluster = {.hosts = asked->hosts,
                                         .ranks_per_host = asked->ranks_per_host,
                                         .link = {1e9, 1e-5},
                                         .library_is_linear = asked->library_is_linear};
    const struct engine_settings settings = {.reduce = asked->reduce,
                                             .virtual_ranks = asked->virtual_ranks};
    const struct all_reduce_rules rules = {.wire = DTYPE_BF16};
    struct comm *comm;
    assert_int_equal(comm_forecast_open(&cluster, &comm, NULL), BERTH_OK);
    const struct state state = {.device = &device,
                                .table = &table,
                                .compute = DTYPE_BF16,
                                .sharding = {.size = comm->size, .stage = asked->stage}};
    const enum berth_status status = reduce_choose(&settings, comm, &state, &rules, choice, error);
    comm->close(comm);
    return status;
}

static void expect(struct asked asked, int native, const char *reason) {
    struct reduce_choice choice;
    assert_int_equal(choose(&asked, &choice, NULL), BERTH_OK);
    if (choice.native != native || strstr(choice.reason, reason) == NULL) {
        fail_msg("%s, %d x %d: %s (%s), not %s", asked.reduce, asked.hosts, asked.ranks_per_host,
                 choice.native ? "native" : "exact", choice.reason, reason);
    }
}

static void test_what_is_asked(void **unused) {
    expect((struct asked){"exact", 0, 64, 8, 0, 0}, 0, "as asked");
    expect((struct asked){"native", 0, 2, 1, 0, 0}, 1, "as asked");
    expect((struct asked){"native", 0, 1, 8, 0, 0}, 0, "all ranks are on one host");
    expect((struct asked){"auto", 0, 1, 8, 0, 0}, 0, "all ranks are on one host");
    expect((struct asked){"auto", 512, 64, 8, 0, 0}, 0, "virtual_ranks needs");
    struct reduce_choice choice;
    struct berth_error error;
    assert_int_equal(choose(&(struct asked){"native", 8, 2, 1, 0, 0}, &choice, &error),
                     BERTH_CONFIG);
    assert_non_null(strstr(error.message, "virtual_ranks"));
}

// Few ranks have large messages. Of many, an exact exchange has one for each pair of hosts, a
// library by halves as many as the logarithm of the hosts, and one in a ring as many as hosts.
static void test_auto_by_size(void **unused) {
    for (int stage = 0; stage < 3; stage++) {
        expect((struct asked){"auto", 0, 2, 1, 0, stage}, 0, "the forecast");
        expect((struct asked){"auto", 0, 8, 2, 0, stage}, 0, "the forecast");
        expect((struct asked){"auto", 0, 64, 8, 0, stage}, 1, "the forecast");
        expect((struct asked){"auto", 0, 512, 8, 0, stage}, 1, "the forecast");
        expect((struct asked){"auto", 0, 512, 8, 1, stage}, 0, "the forecast");
    }
}

static void test_same_every_time(void **unused) {
    struct reduce_choice first, second;
    const struct asked asked = {"auto", 0, 16, 8, 0, 0};
    assert_int_equal(choose(&asked, &first, NULL), BERTH_OK);
    assert_int_equal(choose(&asked, &second, NULL), BERTH_OK);
    assert_string_equal(first.reason, second.reason);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_asked),
        cmocka_unit_test(test_auto_by_size),
        cmocka_unit_test(test_same_every_time),
    };
    return cmocka_run_group_tests(tests, init, done);
}
