#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests retrieval as an evaluation of embeddings: the scores of BEIR's files against formulas over the vectors of
`berth embed`, prompts, several processes, the best model of a training, refusals.

    retrieval.py BERTH SOURCE_DIR
"""
import functools
import json
import math
import os
import shutil
import sys
import tempfile

from expectations import expect, failures, run_program

BERTH, SOURCE = map(os.path.abspath, sys.argv[1:3])
ENCODER = os.path.join(SOURCE, "tests/golden/encoder")
with open(os.path.join(SOURCE, "tests/golden/embedding_losses.json"), encoding="utf-8") as golden_file:
    GOLDEN = json.load(golden_file)
COMMON = "--threads 1 --precision fp32".split()
SET = "--queries queries.jsonl --corpus corpus.jsonl --relevant qrels.tsv".split()
TRAINING = ["finetune", "embed", "--model", ENCODER, "--train", "pairs.jsonl", *SET, *COMMON, "--train_batch_size", 6,
            "--learning_rate", 2e-2]
DEPTHS = {"recall": (1, 3, 5, 10, 100), "precision": (1, 3, 5, 10)}
os.chdir(tempfile.mkdtemp())


berth = functools.partial(run_program, BERTH)


def write_lines(name, rows):
    with open(name, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return json.load(file)


# --- the set -------------------------------------------------------------------------------------

TEXTS = GOLDEN["near"] + GOLDEN["far"]
# More than a hundred documents, and some of them twice.
DOCUMENTS = [(f"d{number}", "ben" if number % 3 == 0 else "", f"{TEXTS[number % len(TEXTS)]} {TEXTS[number * 7 % len(TEXTS)]}")
             for number in range(130)]
DOCUMENTS += [(f"again-{number}", *DOCUMENTS[number][1:]) for number in range(0, 130, 9)]
QUERIES = [(f"q{number}", text) for number, text in enumerate(
    GOLDEN["anchors"] + GOLDEN["probes"] + [f"{a} and {b}" for a in GOLDEN["anchors"][:3] for b in GOLDEN["far"]])]
RELEVANT = [(f"q{number}", DOCUMENTS[(number * 31 + step * 11) % len(DOCUMENTS)][0], (step * 2 + number) % 4)
            for number in range(len(QUERIES)) for step in range(number % 5 + 1) if number != 2]
RELEVANT = [(query, document, 0 if query == "q4" else score) for query, document, score in RELEVANT]


def write_set():
    write_lines("queries.jsonl", [{"_id": query, "text": text, "metadata": {}} for query, text in QUERIES])
    write_lines("corpus.jsonl", [{"_id": document, "title": title, "text": text} for document, title, text in DOCUMENTS])
    with open("qrels.tsv", "w", encoding="utf-8") as file:
        file.write("query-id\tcorpus-id\tscore\n" + "".join(f"{q}\t{d}\t{s}\n" for q, d, s in RELEVANT))
    with open("qrels.trec", "w", encoding="utf-8") as file:
        file.write("".join(f"{q} 0 {d} {s}\n" for q, d, s in RELEVANT))


# --- the formulas --------------------------------------------------------------------------------

def vectors_of(folder, texts, *words):
    with open("texts.txt", "w", encoding="utf-8") as file:
        file.write("".join(text + "\n" for text in texts))
    berth("embed", "--model", folder, *COMMON, "--normalize", "true", "--output", "vectors.jsonl", *words, "texts.txt")
    with open("vectors.jsonl", encoding="utf-8") as file:
        return [json.loads(line)["embedding"] for line in file]


def gain(grades):
    return sum(grade / math.log2(place + 2) for place, grade in enumerate(grades))


def metrics_of(grades, judged):
    """grades: of the documents, the nearest first; judged: those of all judgements."""
    relevant = sum(grade > 0 for grade in judged)
    hits = [place for place, grade in enumerate(grades) if grade > 0]
    if relevant == 0:
        return {}
    found = {"ndcg_at_10": gain(grades[:10]) / gain(sorted(judged, reverse=True)[:10]),
             "mrr_at_10": 1 / (hits[0] + 1) if hits and hits[0] < 10 else 0,
             "map_at_100": sum((count + 1) / (place + 1) for count, place in enumerate(hits) if place < 100) / relevant}
    for depth in DEPTHS["recall"]:
        found[f"recall_at_{depth}"] = sum(place < depth for place in hits) / relevant
    for depth in DEPTHS["precision"]:
        found[f"precision_at_{depth}"] = sum(place < depth for place in hits) / depth
    return found


def expected_scores(folder, limit=None, query_words=(), document_words=()):
    judged = {}
    for query, document, score in RELEVANT:
        judged.setdefault(query, {})[document] = score
    queries = [(query, text) for query, text in QUERIES if query in judged][:limit]
    joined = [f"{title} {text}" if title else text for _, title, text in DOCUMENTS]
    distinct = list(dict.fromkeys(joined))
    documents = dict(zip(distinct, vectors_of(folder, distinct, *document_words)))
    sums = {}
    for (query, _), vector in zip(queries, vectors_of(folder, [text for _, text in queries], *query_words)):
        cosines = {text: sum(a * b for a, b in zip(vector, documents[text])) for text in distinct}
        order = sorted(range(len(joined)), key=lambda number: -cosines[joined[number]])  # stable
        grades = [judged[query].get(DOCUMENTS[number][0], 0) for number in order]
        for name, value in metrics_of(grades, list(judged[query].values())).items():
            sums[name] = sums.get(name, 0) + value
    return {name: value / len(queries) for name, value in sums.items()}


def evaluate(folder, *words, files=None, launcher=()):
    done = berth("evaluate", "embed", "--model", folder, *(files or SET), "--output", "scores", "--overwrite_output_dir", *COMMON,
                 *words, launcher=launcher)
    scores = read("scores", "eval_results.json") if done.returncode == 0 else {}
    shutil.rmtree("scores", ignore_errors=True)
    return scores, done


def compare(scores, wanted, what):
    expect(len(wanted) == 12, f"{what}: {len(wanted)} metrics")
    for name, value in wanted.items():
        expect(abs(scores.get("eval_" + name, math.nan) - value) < 1e-12, f"{what}: {name} {scores.get('eval_' + name)}, expected {value}")


# --- tests ---------------------------------------------------------------------------------------

def only_scores(scores):
    return {name: value for name, value in scores.items() if "_at_" in name}


def check_scores():
    scores, done = evaluate(ENCODER)
    compare(scores, expected_scores(ENCODER), "a set")
    expect(0.05 < scores["eval_ndcg_at_10"] < 0.9, f"a set that is neither easy nor impossible: {scores}")
    expect(scores["eval_samples"] == len(QUERIES) - 1 and "(1 without a judgement are left out)" in done.stderr,
           f"queries without a judgement are left out: {done.stderr}")
    trec, _ = evaluate(ENCODER, files=[*SET[:5], "qrels.trec"])
    expect(only_scores(trec) == only_scores(scores), "TREC's judgements")
    first, _ = evaluate(ENCODER, "--max_eval_samples", 5)
    compare(first, expected_scores(ENCODER, limit=5), "five queries")
    printed = json.loads(evaluate(ENCODER, "--json")[1].stdout)
    expect(all(printed[name[5:]] == value for name, value in only_scores(scores).items()), f"--json: {printed}")
    return scores


def check_prompts():
    berth("finetune", "embed", "--model", ENCODER, "--train", "pairs.jsonl", "--output", "saved", *COMMON, "--max_steps", 1,
          "--learning_rate", 0, "--do_eval", "false")
    for names, query, document in [({"query": "what colour ", "passage": "far "}, "query", "passage"),
                                   ({"query": "what colour ", "document": "near ", "passage": "far "}, "query", "document"),
                                   ({"corpus": "far "}, None, "corpus"), ({"other": "far "}, None, None)]:
        with open("saved/config_sentence_transformers.json", "w", encoding="utf-8") as file:
            json.dump({"prompts": names, "default_prompt_name": next(iter(names))}, file)
        scores, done = evaluate("saved")
        words = [["--prompt_name", name] if name else ["--prompt", ""] for name in (query, document)]
        compare(scores, expected_scores("saved", query_words=words[0], document_words=words[1]), f"prompts {names}")
        if query is None:
            scores, _ = evaluate("saved", "--query_prompt", "what colour ", "--corpus_prompt", "")
            compare(scores, expected_scores("saved", query_words=["--prompt", "what colour "], document_words=["--prompt", ""]),
                    f"prompts in place of {names}")
        expect(("queries begin with" in done.stderr) == (query is not None), f"prompts {names}: {done.stderr}")


def check_ranks(scores):
    launcher = shutil.which("mpirun.openmpi")
    if launcher is None:
        print("no mpirun.openmpi: several processes are not tried")
        return
    for ranks in (2, 3):
        found, _ = evaluate(ENCODER, "--comm", "openmpi",
                            launcher=[launcher, "--oversubscribe", "--bind-to", "none", "-np", str(ranks)])
        expect(only_scores(found) == only_scores(scores), f"{ranks} processes have the scores of one")
    words = [*TRAINING, "--max_steps", 2, "--eval_steps", 1, "--virtual_ranks", 2, "--negatives_batch", 3]
    berth(*words, "--output", "one")
    berth(*words, "--output", "two", "--comm", "openmpi",
          launcher=[launcher, "--oversubscribe", "--bind-to", "none", "-np", "2"])
    histories = [[only_scores(entry) for entry in read(name, "trainer_state.json")["log_history"]] for name in ("one", "two")]
    expect(histories[0] == histories[1] and any(histories[0]), f"evaluations while two processes train: {histories}")


def check_training():
    words = [*TRAINING, "--max_steps", 6, "--eval_steps", 1, "--save_steps", 1]
    berth(*words, "--output", "best", "--metric_for_best_model", "ndcg_at_10", "--load_best_model_at_end")
    state = read("best", "trainer_state.json")
    found = [entry["eval_ndcg_at_10"] for entry in state["log_history"] if "eval_ndcg_at_10" in entry]
    expect(len(set(found)) > 2, f"training changes the score: {found}")
    expect(state["best_metric"] == max(found), f"the best of {found} is {state['best_metric']}")
    scores, _ = evaluate("best")
    expect(abs(scores["eval_ndcg_at_10"] - max(found)) < 1e-12, "the result is the best model")
    compare(scores, expected_scores("best"), "the best model")
    done = berth(*words, "--output", "never", "--metric_for_best_model", "ndcg@10", code=78)
    expect("it has ndcg_at_10, mrr_at_10, map_at_100" in done.stderr, f"another name: {done.stderr}")


def check_refusals():
    for files, code, message in [
            (SET[:2], 2, "corpus_file is missing: queries_file, corpus_file and relevant_file are one set"),
            (SET[:4], 2, "relevant_file is missing"), (SET[2:], 2, "queries_file is missing"),
            ([*SET, "--input", "pairs.jsonl"], 2, "both predict_file and queries_file name what to evaluate on"),
            ([*SET, "--text_column", "a", "--text_pair_column", "b"], 2, "text_column and label_column are of a table"),
            ([], 2, "predict_file is missing; or queries_file, corpus_file and relevant_file"),
            ([*SET[:5], "nowhere.tsv"], 66, "nowhere.tsv"), ([*SET[:3], "qrels.tsv", *SET[4:]], 65, "qrels.tsv: "),
            ([*SET[:5], "unknown.tsv"], 65, 'unknown.tsv: line 2, column "corpus-id": corpus.jsonl has no _id "d999"')]:
        done = berth("evaluate", "embed", "--model", ENCODER, *files, "--output", "refused", *COMMON, code=code)
        expect(message in done.stderr, f"{files}: {done.stderr}")
        expect(not os.path.exists("refused"), f"{files}: a folder was left")
    for files, code, message in [(SET[:2], 2, "corpus_file is missing"), ([*SET, "--dev", "pairs.jsonl"], 2, "both validation_file"),
                                 ([*SET[:5], "nowhere.tsv"], 66, "nowhere.tsv")]:
        done = berth("finetune", "embed", "--model", ENCODER, "--train", "pairs.jsonl", *files, "--output", "refused", *COMMON,
                     code=code)
        expect(message in done.stderr, f"training with {files}: {done.stderr}")
    shutil.copytree("saved", "skipping")
    pooling = read("skipping", "1_Pooling", "config.json")
    with open("skipping/1_Pooling/config.json", "w", encoding="utf-8") as file:
        json.dump(dict(pooling, include_prompt=False), file)
    with open("skipping/config_sentence_transformers.json", "w", encoding="utf-8") as file:
        json.dump({"prompts": {"query": "what colour "}}, file)
    done = berth("evaluate", "embed", "--model", "skipping", *SET, "--output", "refused", *COMMON, code=78)
    expect("does not evaluate a model with prompts and" in done.stderr, f"prompts that are not pooled: {done.stderr}")


write_set()
write_lines("pairs.jsonl", [{"anchor": a, "positive": b} for a, b in zip(GOLDEN["anchors"], GOLDEN["near"])])
with open("unknown.tsv", "w", encoding="utf-8") as unknown:
    unknown.write("query-id\tcorpus-id\tscore\nq1\td999\t1\n")
first_scores = check_scores()
check_prompts()
check_ranks(first_scores)
check_training()
check_refusals()
shutil.rmtree(os.getcwd())
print(f"{len(failures)} expectations failed" if failures else "all good")
sys.exit(1 if failures else 0)
