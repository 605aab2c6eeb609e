// SPDX-License-Identifier: Apache-2.0
// Tests the readers of sets of retrieval: BEIR's files, TREC's judgements, pairs; what they refuse;
// failing allocations.
#include "core/scratch.h"
#include "data/pairs/retrieval_set.h"

#include <stdlib.h>
#include <string.h>

static const char queries[] = "{\"_id\": \"q1\", \"text\": \"who sleeps?\", \"metadata\": {}}\n"
                              "{\"_id\": \"unjudged\", \"text\": \"who sings?\"}\n"
                              "{\"_id\": 3, \"text\": \"who runs?\"}\n";
static const char corpus[] =
    "{\"_id\": \"d1\", \"title\": \"Sleep\", \"text\": \"A man sleeps.\"}\n"
    "{\"_id\": \"d2\", \"title\": \"\", \"text\": \"A man runs.\"}\n"
    "{\"_id\": \"d3\", \"title\": \"Only a title\", \"text\": \"\"}\n"
    "{\"_id\": \"d4\", \"text\": \"\"}\n";
static const char relevant[] = "query-id\tcorpus-id\tscore\n"
                               "3\td2\t2\n3\td1\t0\nq1\td3\t1\nq1\td1\t-1\n3\td3\t1.0\n";

static enum berth_status read_set(const char *relevant_name, size_t limit,
                                  struct retrieval_set *set, struct berth_error *error) {
    const struct retrieval_files files = {scratch("queries.jsonl"), scratch("corpus.jsonl"),
                                          scratch(relevant_name)};
    return retrieval_set_read(&files, limit, set, error);
}

static void write_set(void) {
    scratch_write("queries.jsonl", queries);
    scratch_write("corpus.jsonl", corpus);
    scratch_write("qrels.tsv", relevant);
}

static void assert_texts(const struct retrieval_set *set, const char *const *texts) {
    for (size_t i = 0; i < set->query_count + set->document_count; i++) {
        assert_string_equal(set->texts[i], texts[i]);
    }
}

static void assert_judgement(const struct retrieval_set *set, size_t index, uint32_t document,
                             int64_t relevance) {
    assert_int_equal(set->judgements[index].document, document);
    assert_int_equal(set->judgements[index].relevance, relevance);
}

static void check_set(const struct retrieval_set *set) {
    assert_int_equal(set->query_count, 2);
    assert_int_equal(set->document_count, 4);
    assert_int_equal(set->left_out, 1);
    assert_int_equal(set->relevant_count, 3);
    assert_texts(set, (const char *const[]){"who sleeps?", "who runs?", "Sleep A man sleeps.",
                                            "A man runs.", "Only a title", ""});
    assert_int_equal(set->starts[1], 2);
    assert_int_equal(set->starts[2], 5);
    assert_judgement(set, 0, 0, -1);
    assert_judgement(set, 1, 2, 1);
    assert_judgement(set, 2, 0, 0);
    assert_judgement(set, 3, 1, 2);
    assert_judgement(set, 4, 2, 1);
}

static void reads_files(void **state) {
    static const char *const names[] = {"qrels.tsv", "qrels.jsonl", "qrels.csv", "qrels.trec",
                                        "tabs.txt"};
    write_set();
    scratch_write("qrels.jsonl",
                  "{\"query-id\":\"3\", \"corpus-id\":\"d2\", \"score\":2, \"x\":0}\n"
                  "{\"query-id\":3, \"corpus-id\":\"d1\", \"score\":0}\n"
                  "{\"query-id\":\"q1\", \"corpus-id\":\"d3\", \"score\":1}\n"
                  "{\"query-id\":\"q1\", \"corpus-id\":\"d1\", \"score\":-1}\n"
                  "{\"query-id\":\"3\", \"corpus-id\":\"d3\", \"score\":1}\n");
    scratch_write("qrels.csv",
                  "score,corpus-id,query-id\n2,d2,3\n0,d1,3\n1,d3,q1\n-1,d1,q1\n1,d3,3\n");
    scratch_write("qrels.trec", "\n 3 0 d2  2\n3 Q0 d1 0 \r\nq1\t0 d3 1\n\nq1 0 d1 -1\n3 0 d3 1");
    scratch_write("tabs.txt",
                  "3\t0\td2\t2\n3\t0\td1\t0\nq1\t0\td3\t1\nq1\t0\td1\t-1\n3\t0\td3\t1\n");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct retrieval_set set;
        struct berth_error error;
        if (read_set(names[i], 0, &set, &error) != BERTH_OK) {
            fail_msg("%s: %s", names[i], error.message);
        }
        check_set(&set);
        retrieval_set_drop_texts(&set);
        assert_int_equal(set.starts[2], 5);
        retrieval_set_done(&set);
    }
}

static void reads_the_first_queries(void **state) {
    struct retrieval_set set;
    write_set();
    assert_int_equal(read_set("qrels.tsv", 1, &set, NULL), BERTH_OK);
    assert_int_equal(set.query_count, 1);
    assert_int_equal(set.left_out, 1);
    assert_int_equal(set.starts[1], 2);
    assert_string_equal(set.texts[1], "Sleep A man sleeps.");
    assert_judgement(&set, 1, 2, 1);
    retrieval_set_done(&set);
}

static void makes_sets_of_pairs(void **state) {
    struct text_example items[] = {
        {.texts = (const char *const[]){"a", "x"}}, {.texts = (const char *const[]){"b", "y"}},
        {.texts = (const char *const[]){"a", "y"}}, {.texts = (const char *const[]){"b", "y"}},
        {.texts = (const char *const[]){"x", "a"}}, {.texts = (const char *const[]){"a", "x"}}};
    const struct text_examples pairs = {.items = items, .count = 6, .texts = 2};
    struct retrieval_set set;
    assert_int_equal(retrieval_set_of_pairs(&pairs, &set, NULL), BERTH_OK);
    assert_int_equal(set.query_count, 3);
    assert_int_equal(set.document_count, 3);
    assert_int_equal(set.relevant_count, 4);
    assert_texts(&set, (const char *const[]){"a", "b", "x", "x", "y", "a"});
    assert_int_equal(set.starts[1], 2);
    assert_int_equal(set.starts[3], 4);
    assert_judgement(&set, 1, 1, 1);
    assert_judgement(&set, 2, 1, 1);
    assert_judgement(&set, 3, 2, 1);
    retrieval_set_done(&set);
}

static void refuses_what_is_wrong(void **state) {
    static const struct {
        const char *file, *text, *message;
    } cases[] = {
        {"queries.jsonl", "{\"_id\": \"q1\", \"text\": \"a\"}\n{\"_id\": \"q1\", \"text\": \"b\"}",
         "queries.jsonl: line 2, column \"_id\": \"q1\" is already the id of line 1"},
        {"queries.jsonl", "{\"_id\": \"q1\", \"text\": \" \"}",
         "line 1, column \"text\": the query has no text"},
        {"queries.jsonl", "{\"_id\": \"q1\", \"text\": \"a\"}\n{\"_id\": \"q2\"}",
         "line 2, column \"text\": expected a string or a number, found nothing"},
        {"queries.jsonl", "{\"id\": \"q1\", \"text\": \"a\"}",
         "queries_file: no column \"_id\"; did you mean \"id\"? "},
        {"queries.jsonl", "", "queries.jsonl: the file is empty"},
        {"queries.jsonl", "{\"_id\": \"q1\", \"text\": \"who sleeps?\"}",
         "qrels.tsv: line 2, column \"query-id\": "},
        {"corpus.jsonl", "{\"_id\": 1, \"text\": \"a\"}\n{\"_id\": \"1\", \"text\": \"b\"}",
         "corpus.jsonl: line 2, column \"_id\": \"1\" is already the id of line 1"},
        {"corpus.jsonl", "{\"_id\": \"d1\", \"title\": \"a\"}", "corpus_file: no column \"text\""},
        {"corpus.jsonl",
         "{\"_id\":\"d1\",\"text\":\"\"}\n{\"_id\":\"d2\",\"text\":null}\n"
         "{\"_id\":\"d3\",\"text\":\"\"}",
         "line 2, column \"text\": expected a string or a number, found null"},
        {"corpus.jsonl", "{\"_id\": \"d1\", \"title\": [1], \"text\": \"a\"}",
         "qrels.tsv: line 2, column \"corpus-id\": "},
        {"corpus.jsonl",
         "{\"_id\":\"d1\",\"title\":[1],\"text\":\"\"}\n{\"_id\":\"d2\",\"text\":\"\"}\n"
         "{\"_id\":\"d3\",\"text\":\"\"}",
         "line 1, column \"title\": expected a string"},
        {"qrels.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t1\nq9\td1\t1\n",
         "queries.jsonl has no _id \"q9\"; add its text there, or leave out the line"},
        {"qrels.tsv", "query-id\tcorpus-id\tscore\nq1\td9\t1\n", "corpus.jsonl has no _id \"d9\""},
        {"qrels.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t0.5\n",
         "line 2, column \"score\": expected a whole number"},
        {"qrels.tsv", "query-id\tcorpus-id\tscore\nq1\td1\tyes\n", "found \"yes\""},
        {"qrels.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td2\t1\nq1\td1\t0\n",
         "line 4, column \"corpus-id\": this query and document were already judged in line 2"},
        {"qrels.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t0\n",
         "no document is relevant to any query; expected a score above 0"},
        {"qrels.tsv", "q1\td1\t1\nq1\td2\t1\n", "relevant_file: no column \"query-id\""},
        {"qrels.tsv", "q1 0 d1\nq1 0 d2\n", "relevant_file: no column \"query-id\""},
        {"qrels.tsv", "q1 0 d1 1\nq1 0 d2\n", "line 2"},
        {"qrels.tsv", "query-id\tcorpus-id\tscore\n", "the table has no rows after its header"},
        {"qrels.tsv", "", "the file is empty"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct retrieval_set set;
        struct berth_error error;
        write_set();
        scratch_write(cases[i].file, cases[i].text);
        assert_int_equal(read_set("qrels.tsv", 0, &set, &error), BERTH_BAD_DATA);
        if (strstr(error.message, cases[i].message) == NULL) {
            fail_msg("case %zu: %s\nexpected: %s", i, error.message, cases[i].message);
        }
        retrieval_set_done(&set);
    }
    struct retrieval_set set;
    struct berth_error error;
    write_set();
    assert_int_equal(read_set("none.tsv", 0, &set, &error), BERTH_NO_INPUT);
    retrieval_set_done(&set);
    scratch_write("qrels.xyz", relevant);
    assert_int_equal(read_set("qrels.xyz", 0, &set, &error), BERTH_USAGE);
    retrieval_set_done(&set);
}

static void survives_missing_memory(void **state) {
    struct text_example items[] = {{.texts = (const char *const[]){"a", "x"}},
                                   {.texts = (const char *const[]){"b", "y"}}};
    const struct text_examples pairs = {.items = items, .count = 2, .texts = 2};
    write_set();
    for (int of_pairs = 0; of_pairs < 2; of_pairs++) {
        enum berth_status status = BERTH_NO_MEMORY;
        for (uint64_t i = 1; status != BERTH_OK; i++) {
            struct retrieval_set set;
            assert_true(i < 1000);
            memory_fail_at(i, 1);
            status = of_pairs ? retrieval_set_of_pairs(&pairs, &set, NULL)
                              : read_set("qrels.tsv", 0, &set, NULL);
            memory_fail_at(0, 0);
            assert_true(status == BERTH_OK || status == BERTH_NO_MEMORY);
            retrieval_set_done(&set);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(reads_files), SCRATCH_TEST(reads_the_first_queries),
        SCRATCH_TEST(makes_sets_of_pairs), SCRATCH_TEST(refuses_what_is_wrong),
        SCRATCH_TEST(survives_missing_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
