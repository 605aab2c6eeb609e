#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/metrics/retrieval.golden.json with ranx: the metrics of random rankings with graded judgements.

A case has queries; each has the `scores` of the documents 0, 1, ... (none: the query has no results), `judged`, pairs of
a document and its relevance (0 or less: not relevant; a document without a score was not found), and `metrics` in
the order of `names`. Scores are multiples of 1/1024, so they are the same in single precision.

ranx sorts with numba's quicksort, which keeps the order of at most 15 documents with equal scores and has no order for
more: cases with equal scores are of at most 15.

    retrieval.py tests/metrics/retrieval.golden.json
"""
import json
import random
import sys

from ranx import Qrels, Run, evaluate

NAMES = {"ndcg_at_10": "ndcg@10", "mrr_at_10": "mrr@10", "map_at_100": "map@100", "recall_at_1": "recall@1",
         "recall_at_3": "recall@3", "recall_at_5": "recall@5", "recall_at_10": "recall@10", "recall_at_100": "recall@100",
         "precision_at_1": "precision@1", "precision_at_3": "precision@3", "precision_at_5": "precision@5",
         "precision_at_10": "precision@10"}
# Name, queries, most documents, most judgements, grades, whether scores may be equal.
CASES = [("one relevant", 8, 12, 1, (1,), False), ("binary", 8, 15, 6, (0, 1), False),
         ("graded", 12, 15, 12, (-1, 0, 1, 2, 3), False), ("equal scores", 12, 15, 10, (0, 1, 2), True),
         ("many documents", 5, 160, 20, (0, 1, 2, 4), False), ("many relevant", 3, 150, 140, (1, 1, 3), False),
         ("nothing relevant", 4, 9, 3, (0, -2), False)]


def random_query(rng, documents, judgements, grades, equal):
    count = rng.randint(documents // 2, documents)
    steps = [rng.randint(0, 4) for _ in range(count)] if equal else rng.sample(range(1 << 20), count)
    # Some of the judged documents were not found.
    judged = rng.sample(range(count + 3), min(rng.randint(1, judgements), count + 3))
    return {"scores": [step / 1024 for step in steps],
            "judged": [[document, rng.choice(grades)] for document in sorted(judged)]}


def add_metrics(queries):
    names = [f"q{number:03}" for number in range(len(queries))]
    judged = {name: {f"d{document:04}": relevance for document, relevance in query["judged"]}
              for name, query in zip(names, queries)}
    found = {name: {f"d{document:04}": score for document, score in enumerate(query["scores"])}
             for name, query in zip(names, queries) if query["scores"]}
    scores = evaluate(Qrels(judged), Run(found), list(NAMES.values()), return_mean=False, make_comparable=True)
    for number, query in enumerate(queries):
        query["metrics"] = [float(scores[name][number]) for name in NAMES.values()]


def main():
    rng = random.Random(20)
    cases = []
    for name, count, *how in CASES:
        queries = [random_query(rng, *how) for _ in range(count)]
        if name == "graded":
            queries[3]["scores"] = []
        add_metrics(queries)
        cases.append({"name": name, "queries": queries})
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump({"names": list(NAMES), "cases": cases}, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
