#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests berth mine: its examples and their scores are those that the rules of sentence-transformers' mine_hard_negatives,
written down here, make of the vectors of berth embed and the scores of berth rerank; prompts, files, several processes,
signals, refusals. dev/others compares with sentence-transformers.

    mine.py BERTH SOURCE_DIR
"""
import csv
import functools
import itertools
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from expectations import ENVIRONMENT, WITHOUT_LEAKS, expect, failures, run_program

BERTH, SOURCE = map(os.path.abspath, sys.argv[1:3])
ENCODER = os.path.join(SOURCE, "tests/golden/encoder")
COMMON = "--threads 1 --precision fp32".split()
LIMIT = 3e-6
os.chdir(tempfile.mkdtemp())

NAMES, COLOURS, THINGS = ["anna", "ben", "cora"], ["red", "blue", "green", "black"], ["ball", "book", "lamp", "coat"]
QUERIES = [f"who has a {colour} {thing} ?" for colour in COLOURS for thing in THINGS]
CORPUS = [f"{name} has the {colour} {thing} ." for name in NAMES for colour in COLOURS for thing in THINGS]
# Each query has a positive, some have more, one has the same one twice; one positive is not in the corpus.
PAIRS = [(query, CORPUS[i]) for i, query in enumerate(QUERIES)]
PAIRS += [(QUERIES[2], CORPUS[30]), (QUERIES[5], CORPUS[7]), (QUERIES[5], CORPUS[41]), (QUERIES[2], CORPUS[30])]
PAIRS += [(QUERIES[9], "the lamp is green and black .")]


berth = functools.partial(run_program, BERTH)


def write(path, value):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(value if isinstance(value, str) else json.dumps(value))
    return path


def write_pairs(path, pairs, names=("query", "positive")):
    return write(path, "".join(json.dumps(dict(zip(names, pair))) + "\n" for pair in pairs))


def read(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def content(path):
    with open(path, "rb") as file:
        return file.read()


def mine(*words, output="mined.jsonl", model=ENCODER, pairs="pairs.jsonl", **more):
    if os.path.exists(output):
        os.remove(output)
    return berth("mine", "--model", model, "--pairs", pairs, "--output", output, *COMMON, *words, **more)


def mined(*words, **more):
    mine("--output_scores", *words, **more)
    return read("mined.jsonl")


def refused(message, *words, code=2, **more):
    said = mine(*words, code=code, **more).stderr
    expect(message in said, f"{' '.join(map(str, words))}: {message!r} is not in {said!r}")
    expect(not os.path.exists("mined.jsonl"), f"{' '.join(map(str, words))}: an output is left")


# --- the rules, written down ------------------------------------------------------------------------

def vectors(texts, model):
    write("texts.txt", "".join(text + "\n" for text in texts))
    rows = [json.loads(line)["embedding"] for line in berth("embed", "--model", model, *COMMON, "texts.txt").stdout.splitlines()]
    lengths = [math.sqrt(sum(value * value for value in row)) for row in rows]
    return {text: [value / length for value in row] for text, row, length in zip(texts, rows, lengths, strict=True)}


def cosines(queries, texts, model=ENCODER):
    found, other = vectors(queries, model), vectors(texts, model)
    return {(query, text): sum(a * b for a, b in zip(found[query], other[text], strict=True))
            for query in queries for text in texts}


def judged(judge, queries, texts):
    every = list(itertools.product(queries, texts))
    write_pairs("judged.jsonl", every, ("query", "document"))
    lines = berth("rerank", "--model", judge, *COMMON, "--jsonl", "judged.jsonl", "--json").stdout.splitlines()
    numbered = {line["index"]: line["score"] for line in map(json.loads, lines)}
    return {pair: numbered[i] for i, pair in enumerate(every)}


def options(query, positives, corpus, near, score, rules, most):
    """The texts that may be negatives of a query, the best first, and how many each rule has removed first."""
    n, low = rules.get("num_negatives", 3), rules.get("range_min", 0)
    selective = {"absolute_margin", "relative_margin", "max_score", "cross_encoder"} & set(rules)
    high = rules.get("range_max", low + n * (10 if selective else 1) + most)
    candidates = sorted(corpus, key=lambda text: -near[query, text])[:high + most]
    worst = min(score[query, text] for text in positives)
    tests = {"absolute_margin": lambda s, x: s + x > worst, "relative_margin": lambda s, x: s > worst - abs(worst) * x,
             "max_score": lambda s, x: s > x, "min_score": lambda s, x: s < x}
    left, removed = [], dict.fromkeys(tests, 0)
    for text in candidates:
        if text in positives:
            continue
        broken = [name for name in tests if name in rules and tests[name](score[query, text], rules[name])]
        if broken:
            removed[broken[0]] += 1
        else:
            left.append(text)
    return sorted(left, key=lambda text: -score[query, text])[low:high], removed


def check(what, found, pairs, corpus, near, score, rules):
    """Compares examples with scores; returns the pairs with too few negatives, and what was removed."""
    n, is_random = rules.get("num_negatives", 3), rules.get("sampling_strategy") == "random"
    positives, rows = {}, {}
    for query, text in pairs:
        rows[query] = rows.get(query, 0) + 1
        positives.setdefault(query, {})[text] = None
    corpus = list(dict.fromkeys(corpus + [text for _, text in pairs]))
    examples, wanting, removed = iter(found), 0, {}
    for query, own in positives.items():
        allowed, gone = options(query, own, corpus, near, score, rules, max(rows.values()))
        removed = {name: removed.get(name, 0) + count for name, count in gone.items()}
        for positive in own:
            count = min(n, len(allowed))
            wanting += count < n
            if rules.get("output_format") == "n-tuple":
                if count < n:
                    continue
                lines = [next(examples, None)]
            else:
                lines = [next(examples, None) for _ in range(count)]
            if None in lines:
                expect(False, f"{what}: too few examples")
                return wanting, removed
            for line in lines:
                names = [f"negative_{i + 1}" for i in range(n)] if rules.get("output_format") == "n-tuple" else ["negative"]
                expect(list(line) == ["query", "positive", *names, "scores"], f"{what}: the keys {list(line)}")
                expect((line["query"], line["positive"]) == (query, positive), f"{what}: {line} is not of {query}, {positive}")
                expect(abs(line["scores"][0] - score[query, positive]) <= LIMIT, f"{what}: the score of {line}")
            texts = [text for line in lines for name, text in line.items() if name.startswith("negative")]
            scores = [value for line in lines for value in line["scores"][1:]]
            expect(len(set(texts)) == count and not set(texts) & set(own), f"{what}: {query}: the negatives {texts}")
            expect(scores == sorted(scores, reverse=True), f"{what}: {query}: the scores {scores}")
            expect(all(abs(value - score[query, text]) <= LIMIT for text, value in zip(texts, scores, strict=True)),
                   f"{what}: {query}: the scores of {texts}")
            if is_random:
                expect(set(texts) <= set(allowed), f"{what}: {query}: one of {texts} is not among {allowed}")
            else: # texts of the same score may change places
                wanted = [score[query, text] for text in allowed[:count]]
                expect(all(abs(a - b) <= LIMIT for a, b in zip(scores, wanted, strict=True)), f"{what}: {query}: {scores}, not {wanted}")
    expect(next(examples, None) is None, f"{what}: more examples than expected")
    return wanting, removed


def words_of(rules):
    return [word for name, value in rules.items() for word in (f"--{name}", value)]


def every_rule(near):
    cases = [({}, True), ({}, False), ({"num_negatives": 5, "output_format": "n-tuple"}, True),
             ({"range_min": 2, "range_max": 9, "num_negatives": 4}, True), ({"max_score": 0.99, "min_score": 0.985}, True),
             ({"absolute_margin": 0.002}, True), ({"absolute_margin": -0.002, "output_format": "n-tuple", "num_negatives": 1}, True),
             ({"relative_margin": -0.002, "output_format": "n-tuple"}, True),
             ({"relative_margin": -0.003, "absolute_margin": -0.002, "max_score": 0.991, "min_score": 0.975, "range_min": 1,
               "range_max": 30, "num_negatives": 6}, True),
             ({"range_max": 500, "num_negatives": 60}, True), # more than the corpus has
             ({"range_max": 12, "range_min": 2, "num_negatives": 4, "sampling_strategy": "random"}, True)]
    for rules, has_corpus in cases:
        words = words_of(rules) + (["--corpus", "corpus.txt"] if has_corpus else [])
        said = mine("--output_scores", "--json", *words)
        found, summary = read("mined.jsonl"), json.loads(said.stdout)
        corpus = CORPUS if has_corpus else []
        wanting, removed = check(f"mine {rules}", found, PAIRS, corpus, near, near, rules)
        n = rules.get("num_negatives", 3)
        known = {"examples": len(found), "queries": 16, "pairs": 20, "pairs_with_too_few": wanting, "truncated": 0,
                 "corpus": len(set(corpus + [text for _, text in PAIRS])),
                 "negatives": len(found) * (n if rules.get("output_format") == "n-tuple" else 1),
                 **{f"removed_by_{name}": count for name, count in removed.items()}}
        expect({name: summary[name] for name in known} == known, f"mine {rules}: the summary {summary}, not {known}")
        scores = [value for line in found for value in line["scores"][1:]]
        positives = [near[pair] for pair in dict.fromkeys(PAIRS)]
        expect(abs(summary["mean_negative_score"] - sum(scores) / len(scores)) < LIMIT
               and abs(summary["mean_positive_score"] - sum(positives) / len(positives)) < LIMIT, f"mine {rules}: the means {summary}")
        expect(("pairs have fewer than" in said.stderr) == (wanting > 0), f"mine {rules}: {said.stderr}")
        mine(*words)
        expect(read("mined.jsonl") == [{name: value for name, value in line.items() if name != "scores"} for line in found],
               f"mine {rules}: other examples without scores")


def draws(near):
    """Each place in the range is drawn about equally often; a seed has its own draws."""
    rules = {"range_min": 1, "range_max": 9, "num_negatives": 2, "sampling_strategy": "random"}
    places, outputs = [0] * 8, []
    for seed in range(12):
        found = mined("--corpus", "corpus.txt", *words_of(rules), "--seed", seed)
        outputs.append(content("mined.jsonl"))
        for query in QUERIES:
            own = {text for asked, text in PAIRS if asked == query}
            allowed = options(query, own, list(dict.fromkeys(CORPUS + [text for _, text in PAIRS])), near, near, rules, 4)[0]
            for text in {line["negative"] for line in found if line["query"] == query}:
                places[allowed.index(text)] += 1
    expect(sum(places) == 12 * 16 * 2 and min(places) > 24 and max(places) < 76, f"places that were drawn: {places}")
    expect(len(set(outputs)) == 12, "two seeds have the same draws")
    mined("--corpus", "corpus.txt", *words_of(rules), "--seed", 3)
    expect(content("mined.jsonl") == outputs[3], "a seed has other draws when it is used again")


def files(near):
    wanted = mined("--corpus", "corpus.txt")
    with open("pairs.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "question", "answer"), *((i, *pair) for i, pair in enumerate(PAIRS))])
    with open("pairs.tsv", "w", encoding="utf-8") as file:
        file.write("a\tb\tc\n" + "".join(f"{answer}\tx\t{question}\n" for question, answer in PAIRS))
    write_pairs("corpus.jsonl", [(7, text) for text in CORPUS], ("id", "passage"))
    write("corpus.csv", "number,words\n" + "".join(f"{i},{text}\n" for i, text in enumerate(CORPUS + CORPUS[:3])))
    for words in (["--corpus", "corpus.jsonl"], ["--corpus", "corpus.csv", "--corpus_column", "words"]):
        expect(mined(*words) == wanted, f"other examples with {words}")
    expect(mined("--corpus", "corpus.txt", pairs="pairs.csv") == wanted, "other examples of CSV")
    words = "--text_column c --text_pair_column a".split()
    expect(mined("--corpus", "corpus.txt", *words, pairs="pairs.tsv") == wanted, "other examples of named columns")
    # What pairs do not need is said.
    write_pairs("triplets.jsonl", [(*pair, "ben") for pair in PAIRS], ("a", "b", "c"))
    said = mine("--corpus", "corpus.txt", "--output_scores", pairs="triplets.jsonl").stderr
    expect("column c has no effect" in said and read("mined.jsonl") == wanted, "triplets as pairs")
    write_pairs("scored.jsonl", [(*pair, 0.5) for pair in PAIRS], ("a", "b", "score"))
    said = mine("--corpus", "corpus.txt", "--output_scores", pairs="scored.jsonl").stderr
    expect("column score has no effect" in said and read("mined.jsonl") == wanted, "scored pairs")
    # An output is replaced where that is asked for, and trained with.
    berth("mine", "--model", ENCODER, "--pairs", "pairs.jsonl", "--output", "mined.jsonl", "--force", *COMMON)
    expect("scores" not in read("mined.jsonl")[0], "the output was not replaced")
    berth("finetune", "embed", "--model", ENCODER, "--train", "mined.jsonl", "--output", "trained", "--max_steps", 1,
          "--train_batch_size", 4, *COMMON, "--quiet")
    said = mine("--corpus", "corpus.txt", "--max_seq_length", 8).stderr
    expect("texts have more tokens than max_seq_length" in said, f"truncated texts: {said}")
    people = mine("--corpus", "corpus.txt", "--max_score", 0.99).stdout
    expect("from 20 pairs of 16 queries, corpus of 49 texts" in people and "removed by max_score" in people, people)
    check("mine for people", mined("--corpus", "corpus.txt", "--max_score", 0.99), PAIRS, CORPUS, near, near, {"max_score": 0.99})


def prompts():
    """A prompt is what is put before texts; by name, those of the folder are the usual ones."""
    folder = shutil.copytree(ENCODER, "prompted")
    write(f"{folder}/modules.json", [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                                     {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])
    write(f"{folder}/1_Pooling/config.json", {"word_embedding_dimension": 24, "pooling_mode_mean_tokens": True})
    write(f"{folder}/config_sentence_transformers.json",
          {"prompts": {"query": "what is ", "document": "the book : ", "ask": "ben ", "tell": "cora "},
           "default_prompt_name": "ask", "similarity_fn_name": "manhattan"})
    write_pairs("own.jsonl", [("what is " + query, "the book : " + text) for query, text in PAIRS])
    write("own.txt", "".join(f"the book : {text}\n" for text in CORPUS))
    wanted = [line["scores"] for line in mined("--corpus", "own.txt", pairs="own.jsonl")]
    words = ["--corpus", "corpus.txt", "--query_prompt", "what is ", "--corpus_prompt", "the book : "]
    expect([line["scores"] for line in mined(*words)] == wanted, "prompts as texts")
    said = mine("--output_scores", "--corpus", "corpus.txt", model=folder).stderr
    expect([line["scores"] for line in read("mined.jsonl")] == wanted, "the usual prompts")
    expect("cosine instead of the model's manhattan" in said, f"another similarity: {said}")
    named = mined("--corpus", "corpus.txt", "--query_prompt_name", "ask", "--corpus_prompt_name", "tell", model=folder)
    expect(named == mined("--corpus", "corpus.txt", "--query_prompt", "ben ", "--corpus_prompt", "cora "), "prompts by name")
    plain = mined("--corpus", "corpus.txt", "--query_prompt", "", "--corpus_prompt", "", model=folder)
    expect(plain == mined("--corpus", "corpus.txt"), "without prompts")
    write(f"{folder}/config_sentence_transformers.json", {"truncate_dim": 7})
    near = cosines(QUERIES, list(dict.fromkeys(CORPUS + [text for _, text in PAIRS])), folder)
    check("mine with truncate_dim", mined("--corpus", "corpus.txt", model=folder), PAIRS, CORPUS, near, near, {})
    refused('the model has no prompt "other"', "--query_prompt_name", "other", model=folder)
    refused("give corpus_prompt or corpus_prompt_name, not both", "--corpus_prompt", "a", "--corpus_prompt_name", "ask", model=folder)


def cross_encoder(near):
    write("rows.csv", "first,second,score\n" + "".join(f"{query},{text},{i % 3 + 0.5}\n" for i, (query, text) in enumerate(PAIRS)))
    berth("finetune", "classify", "--model", ENCODER, "--train", "rows.csv", "--text_column", "first", "--text_pair_column", "second",
          "--label_column", "score", "--max_steps", 3, "--learning_rate", 0.01, "--output", "judge", *COMMON, "--quiet")
    write("long.txt", "the red ball of anna is blue . " * 40 + "\n")
    score = judged("judge", QUERIES, list(dict.fromkeys(CORPUS + [text for _, text in PAIRS])))
    ordered = sorted(score.values())
    middle = ordered[len(ordered) // 2]
    for rules in ({"max_score": middle}, {"min_score": middle}, {"relative_margin": 0.0},
                  {"absolute_margin": -0.001, "output_format": "n-tuple", "num_negatives": 2}):
        found = mined("--corpus", "corpus.txt", "--cross_encoder", "judge", *words_of(rules))
        check(f"mine with a cross-encoder, {rules}", found, PAIRS, CORPUS, near, score, {**rules, "cross_encoder": 1})
    said = mine("--cross_encoder", "judge", "--max_score", 1, "--corpus", "long.txt").stderr
    expect("pairs of a query and a text have more tokens than the cross-encoder reads" in said, f"pairs that are cut: {said}")
    refused("cross_encoder has no effect without", "--cross_encoder", "judge")
    refused("expected a model with one score", "--cross_encoder", os.path.join(SOURCE, "tests/golden/classifier"), "--max_score", 1,
            code=78)
    refused("nowhere", "--cross_encoder", "nowhere", "--max_score", 1, code=66)


def many():
    """More queries than one block has."""
    every = [f"{name} has a {a} {thing} and a {b} {other} ." for name in NAMES for a in COLOURS for thing in THINGS
             for b in COLOURS for other in THINGS]
    pairs = [(f"who has a {text.split(' ', 3)[3]}", text) for text in every] + [(text, "ben") for text in every[::7]]
    return write_pairs("many.jsonl", pairs)


def processes():
    launcher = shutil.which("mpirun.openmpi")
    if launcher is None:
        print("no mpirun.openmpi: several processes are not tried")
        return
    words = "--output_scores --relative_margin -0.002 --sampling_strategy random --range_max 20 --json".split()
    numbers = []
    for ranks in (1, 2, 3):
        done = mine(*words, pairs=many(), output=f"{ranks}.jsonl",
                    launcher=[launcher, "--oversubscribe", "--bind-to", "none", "-np", str(ranks)])
        numbers.append({name: value for name, value in json.loads(done.stdout).items() if name != "seconds"})
        expect(content(f"{ranks}.jsonl") == content("1.jsonl"), f"{ranks} processes write other bytes")
        expect(numbers[-1] == numbers[0], f"{ranks} processes: {numbers}")
    # Other texts in another process: all end.
    write_pairs("others.jsonl", PAIRS[1:])
    shutil.copy("pairs.jsonl", "mine-0.jsonl")
    shutil.copy("others.jsonl", "mine-1.jsonl")
    done = subprocess.run([launcher, "--oversubscribe", "--bind-to", "none", "-np", "2", "sh", "-c",
                           f'exec "{BERTH}" mine --model "{ENCODER}" --pairs mine-$OMPI_COMM_WORLD_RANK.jsonl --output mined.jsonl'],
                          capture_output=True, text=True, check=False, env=dict(ENVIRONMENT, ASAN_OPTIONS=WITHOUT_LEAKS))
    expect(done.returncode == 78 and "differ from those of the first process" in done.stderr, f"other pairs: {done}")


def signals():
    before = set(os.listdir()) | {"many.jsonl"}
    running = subprocess.Popen([BERTH, "mine", "--model", ENCODER, "--pairs", many(), "--output", "stopped.jsonl", *COMMON,
                                "--max_seq_length", "16"], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while running.poll() is None and not any(name.startswith("stopped.jsonl") for name in os.listdir()):
        time.sleep(0.001)
    running.send_signal(signal.SIGTERM)
    said = running.communicate()[1]
    if running.returncode == 0: # it was faster
        os.remove("stopped.jsonl")
    else:
        expect(running.returncode == 143 and "nothing was written" in said, f"SIGTERM: {running.returncode}, {said}")
    expect(set(os.listdir()) == before, f"SIGTERM leaves {set(os.listdir()) - before}")


def refusals():
    write("empty.txt", "")
    write("one.csv", "text\nben\n")
    write("four.csv", "a,b,c,d\n1,2,3,4\n")
    write("number.jsonl", '{"list": ["a"]}\n')
    write("kept.jsonl", "something else\n")
    done = berth("mine", "--model", ENCODER, "--output", "mined.jsonl", code=2)
    expect("option --pairs is required" in done.stderr, done.stderr)
    refused("expected two columns of texts, found one", code=65, pairs="one.csv")
    refused("nowhere.csv", code=66, pairs="nowhere.csv")
    refused("no column \"z\"", "--text_column", "a", "--text_pair_column", "z", code=65, pairs="four.csv")
    refused("text_column has no effect without text_pair_column", "--text_column", "a", pairs="four.csv")
    refused("text_pair_column has no effect without text_column", "--text_pair_column", "a", pairs="four.csv")
    refused("range_min: expected less than range_max 5, found 5", "--range_min", 5, "--range_max", 5)
    refused("num_negatives: expected at most range_max 5 - range_min 3 = 2, found 3", "--range_min", 3, "--range_max", 5)
    refused("num_negatives", "--num_negatives", 0)
    refused("seed has no effect without sampling_strategy random", "--seed", 1)
    refused("corpus_column has no effect without corpus", "--corpus_column", "a")
    refused("empty.txt", "--corpus", "empty.txt", code=65)
    refused("nowhere.txt", "--corpus", "nowhere.txt", code=66)
    refused("corpus.bin", "--corpus", "corpus.bin")
    refused("no column of texts", "--corpus", "number.jsonl", code=65)
    refused("corpus_column", "--corpus", "four.csv", "--corpus_column", "e", code=65)
    refused("no query has num_negatives negatives", "--max_score", -1, "--output_format", "n-tuple", code=1)
    refused("no query has a negative", "--max_score", -1, code=1)
    for output, message in (("pairs.jsonl", "is the same file as the input"), ("corpus.txt", "is the same file as the input"),
                            ("kept.jsonl", "kept.jsonl already exists; overwrite_output_dir replaces it")):
        held, words = content(output), ["--force"] if output != "kept.jsonl" else []
        done = berth("mine", "--model", ENCODER, "--pairs", "pairs.jsonl", "--corpus", "corpus.txt", "--output", output, *words, code=73)
        expect(message in done.stderr and content(output) == held, f"the output {output}: {done.stderr}")
    berth("mine", "--model", ENCODER, "--pairs", "pairs.jsonl", "--output", "nowhere/mined.jsonl", code=73)


def main():
    write_pairs("pairs.jsonl", PAIRS)
    write("corpus.txt", "".join(text + "\n" for text in CORPUS))
    near = cosines(QUERIES, list(dict.fromkeys(CORPUS + [text for _, text in PAIRS])))
    every_rule(near)
    draws(near)
    files(near)
    prompts()
    cross_encoder(near)
    processes()
    signals()
    refusals()
    return 1 if failures else 0


sys.exit(main())
