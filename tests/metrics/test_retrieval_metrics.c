// SPDX-License-Identifier: Apache-2.0
// Tests the metrics of retrieval, with the search that ranks documents, against ranx's
// (dev/goldens/retrieval.py): graded relevance, equal scores, documents that were not found,
// queries without results or without a relevant document.
#include "core/harness.h"
#include "core/memory.h"
#include "data/squad_fixture.h"
#include "device/device.h"
#include "metrics/retrieval_metrics.h"
#include "model/nearest.h"

#include <math.h>

// Documents by their scores: a search by vectors of one number, with the query 1.
static size_t rank(struct device *device, const json *scores, uint32_t found[RETRIEVAL_DEPTH]) {
    const float one = 1;
    struct nearest nearest[RETRIEVAL_DEPTH];
    struct nearest_args args = {.device = device,
                                .queries = &one,
                                .query_count = 1,
                                .corpus_count = json_length(scores),
                                .size = 1};
    args.count = args.corpus_count < RETRIEVAL_DEPTH ? args.corpus_count : RETRIEVAL_DEPTH;
    if (args.count == 0) {
        return 0;
    }
    float *corpus = memory_array(args.corpus_count, sizeof *corpus);
    for (size_t i = 0; i < args.corpus_count; i++) {
        corpus[i] = (float)json_as_real(json_at(scores, i));
    }
    args.corpus = corpus;
    assert_int_equal(nearest_find(&args, nearest, NULL), BERTH_OK);
    for (size_t i = 0; i < args.count; i++) {
        found[i] = nearest[i].index;
    }
    memory_free(corpus);
    return args.count;
}

static void check_query(struct device *device, const json *query, const char *name, size_t number) {
    const json *judged = json_member(query, "judged"), *metrics = json_member(query, "metrics");
    const size_t count = json_length(judged);
    uint32_t found[RETRIEVAL_DEPTH];
    double scores[RETRIEVAL_METRICS];
    struct retrieval_judgement *judgements = memory_array(count, sizeof *judgements);
    for (size_t i = 0; i < count; i++) {
        judgements[i].document = (uint32_t)json_as_integer(json_at(json_at(judged, i), 0));
        judgements[i].relevance = json_as_integer(json_at(json_at(judged, i), 1));
    }
    const struct retrieval_ranking ranking = {
        found, rank(device, json_member(query, "scores"), found), judgements, count};
    retrieval_score(&ranking, scores);
    for (size_t i = 0; i < RETRIEVAL_METRICS; i++) {
        const double expected = json_as_real(json_at(metrics, i));
        if (!(fabs(scores[i] - expected) <= 1e-12)) {
            fail_msg("%s, query %zu: %s is %.17g, expected %.17g", name, number,
                     retrieval_metrics[i].name, scores[i], expected);
        }
    }
    memory_free(judgements);
}

static void scores_as_ranx(void **state) {
    json *golden = fixture_json(fixture_source("tests/metrics/retrieval.golden.json"));
    const json *names = json_member(golden, "names"), *cases = json_member(golden, "cases");
    struct device *device;
    assert_int_equal(device_cpu_open(&(struct device_options){.threads = 1}, &device, NULL),
                     BERTH_OK);
    assert_int_equal(json_length(names), RETRIEVAL_METRICS);
    for (size_t i = 0; i < RETRIEVAL_METRICS; i++) {
        assert_string_equal(retrieval_metrics[i].name, json_text(json_at(names, i)));
    }
    assert_int_equal(json_length(cases), 7);
    for (size_t i = 0; i < json_length(cases); i++) {
        const json *queries = json_member(json_at(cases, i), "queries");
        for (size_t k = 0; k < json_length(queries); k++) {
            check_query(device, json_at(queries, k),
                        json_text(json_member(json_at(cases, i), "name")), k);
        }
    }
    device->close(device);
    json_free(golden);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(scores_as_ranx)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
