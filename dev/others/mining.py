# SPDX-License-Identifier: Apache-2.0
"""Hard negatives of `berth mine` and of sentence-transformers' mine_hard_negatives, by one model (--model) for questions and
paragraphs of SQuAD (BERTH_DATA): the same examples in the same order, with scores at most 1e-5 apart. Vectors differ in
their last digits, so texts whose scores are nearer than that may change places; how many did is printed.
"""
import contextlib
import io
import json
import os
import pathlib

import datasets
import sentence_transformers
import torch
import transformers

import peers
import shared

LIMIT = 1e-5
QUESTIONS, WORDS = 250, 40  # questions, and words of a paragraph
PROMPTS = {"query_prompt": "question: ", "corpus_prompt": "passage: "}
CASES = {  # settings, which both have by these names; whether the paragraphs are a corpus of their own; more questions
    "triplets of the pairs' texts": ({}, False),
    "five negatives of a corpus": ({"num_negatives": 5, "output_format": "n-tuple"}, True),
    "a range": ({"range_min": 3, "range_max": 20, "num_negatives": 4}, True),
    "largest and smallest scores": ({"max_score": 0.55, "min_score": 0.25, "output_format": "n-tuple"}, True),
    "an absolute margin": ({"absolute_margin": 0.05}, True),
    "a negative margin": ({"absolute_margin": -0.1, "num_negatives": 2}, True),
    "a relative margin": ({"relative_margin": 0.05, "num_negatives": 5, "output_format": "n-tuple"}, True),
    "everything": ({"relative_margin": 0.1, "absolute_margin": 0.02, "max_score": 0.7, "min_score": 0.1, "range_min": 2,
                    "range_max": 40, "num_negatives": 6}, True),
    "more candidates than texts": ({"range_min": 1, "range_max": 5000, "num_negatives": 10, "min_score": 0.2}, True),
    "prompts": ({**PROMPTS, "relative_margin": 0.05}, True),
}


def read(given):
    """Pairs, some of questions with several paragraphs and some twice; the paragraphs of all articles."""
    data = pathlib.Path(os.environ.get("BERTH_DATA", shared.ROOT.parent / "shared" / "data"))
    squad = json.loads((data / "squad" / "dev-v1.1.json").read_text(encoding="utf-8"))["data"]
    paragraphs = [paragraph for article in squad for paragraph in article["paragraphs"]]
    texts = [" ".join(paragraph["context"].split()[:WORDS]) for paragraph in paragraphs]
    pairs = [(" ".join(question["question"].split()), text) for paragraph, text in zip(paragraphs, texts, strict=True)
             for question in paragraph["qas"]]
    pairs = pairs[::len(pairs) // QUESTIONS][:QUESTIONS]
    several = [(pairs[i][0], pairs[i + 1][1]) for i in range(0, 60, 2)] + [(pairs[4][0], pairs[9][1])]
    pairs = pairs + several + pairs[10:12]
    (given.work / "pairs.jsonl").write_text("".join(json.dumps({"question": question, "paragraph": paragraph}) + "\n"
                                                    for question, paragraph in pairs), encoding="utf-8")
    (given.work / "corpus.txt").write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    return pairs, texts


def wanted(given, model, pairs, corpus, settings):
    table = datasets.Dataset.from_dict({"query": [pair[0] for pair in pairs], "positive": [pair[1] for pair in pairs]})
    cache = {} if settings.get("query_prompt") else {"cache_folder": str(given.work / "cache")}
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return list(sentence_transformers.util.mine_hard_negatives(
            table, model, corpus=corpus, output_scores=True, **cache, **settings))


def found(given, settings, has_corpus, *more):
    words = [word for name, value in settings.items() for word in (f"--{name}", value)]
    words += ["--corpus", given.work / "corpus.txt"] if has_corpus else []
    output = given.work / "mined.jsonl"
    shared.berth(given, "mine", "--model", given.model, "--pairs", given.work / "pairs.jsonl", "--output", output,
                 "--overwrite_output_dir", "--output_scores", "--precision", "fp32", *words, *more)
    return [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]


def compare(name, ours, theirs):
    """The examples that differ in a text whose score is another text's, too."""
    if len(ours) != len(theirs):
        raise SystemExit(f"{name}: {len(ours)} examples, not {len(theirs)}")
    apart, changed = 0, 0
    for own, other in zip(ours, theirs, strict=True):
        if list(own) != list(other) or (own["query"], own["positive"]) != (other["query"], other["positive"]):
            raise SystemExit(f"{name}: {own}, not {other}")
        apart = max(apart, *(abs(a - b) for a, b in zip(own["scores"], other["scores"], strict=True)))
        changed += own != {**other, "scores": own["scores"]}
    if not apart <= LIMIT:
        raise SystemExit(f"{name}: scores apart by {apart:.3g}")
    print(f"{name}: {len(ours)} examples, {changed} with another text of the same score, scores at most {apart:.2g} apart",
          flush=True)


def negatives(given):
    pairs, texts = read(given)
    model = sentence_transformers.SentenceTransformer(str(given.model), device="cpu")
    for name, (settings, has_corpus) in CASES.items():
        compare(name, found(given, settings, has_corpus), wanted(given, model, pairs, texts if has_corpus else None, settings))
    # Random ones are other ones: each is among those that may be drawn.
    options = {"range_min": 2, "range_max": 12, "relative_margin": 0.02}
    allowed = {(row["query"], row["negative"]) for row in wanted(given, model, pairs, texts, {**options, "num_negatives": 10})}
    drawn = found(given, {**options, "num_negatives": 4, "sampling_strategy": "random"}, True)
    if not all((row["query"], row["negative"]) in allowed for row in drawn) or not len(drawn) < len(allowed):
        raise SystemExit("random negatives: some of them are none of the candidates")
    print(f"random negatives: {len(drawn)}, all among {len(allowed)} candidates", flush=True)


def judged(given):
    pairs, texts = read(given)
    model = sentence_transformers.SentenceTransformer(str(given.model), device="cpu")
    torch.manual_seed(3)
    folder = given.work / "judge"
    peers.save(folder, transformers.BertForSequenceClassification(peers.make_config(num_labels=1, max_position_embeddings=128)))
    judge = sentence_transformers.CrossEncoder(str(folder), device="cpu")
    for name, settings in {"a margin": {"relative_margin": 0.02}, "scores": {"min_score": 0.3, "max_score": 0.9},
                           "a margin of n-tuples": {"absolute_margin": 0.01, "output_format": "n-tuple"}}.items():
        compare(f"a cross-encoder with {name}", found(given, settings, True, "--cross_encoder", folder),
                wanted(given, model, pairs, texts, {**settings, "cross_encoder": judge}))
