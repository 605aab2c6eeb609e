#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a precision costs in quality: Berth's int8 and bf16 beside ONNX Runtime's int8 (dynamic), OpenVINO's int8 (static, by
NNCF) and bf16, and PyTorch's bf16 of the same model, all in one run, measured against the model in fp32 (bench/peers.py).

    quality_int8.py --berth build/release/berth --embed all-MiniLM-L6-v2 --texts train-v1.1.json dev-v1.1.json
    quality_int8.py --berth ... --squad squad-minilm --dev dev-v1.1.json --tags tags-minilm --tagged test.txt \\
        --classes mrpc-minilm --pairs msr_paraphrase_test.txt

Embeddings: distinct texts at equal distances among the paragraphs, their sentences and the questions of SQuAD's files (or the
lines of a .txt), as unit vectors. Of each program the share of texts whose nearest other text in fp32 is no longer the nearest,
the share of the ten nearest that are no longer among them, and the cosine to the vector in fp32: mean, first percentile, least.
Questions: EM and F1; tags: F1 by seqeval; classes: accuracy; and of each the share of answers that fp32 gives, too.

fp32 is Berth's; the rows of the others' fp32 show how far it is from theirs. Peers get batches of 32 of similar length, padded
to the longest; NNCF is calibrated on 300 of the texts that are then scored. Berth needs no calibration. --lose_at_most and
--percentile_at_least make the program fail if berth-int8 is worse.
"""
import argparse
import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

import results_file

PROGRAMS = ("berth-int8", "berth-bf16", "onnxruntime-int8", "onnxruntime-fp32", "openvino-int8", "openvino-bf16", "openvino-fp32",
            "pytorch-bf16", "pytorch-fp32")
BATCH, NEAREST, LONGEST = 32, 10, 256
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'(\[]*[A-Z])")


# --- both sides ---------------------------------------------------------------------------------

def berth(a, *words):
    command = [a.berth, *map(str, words), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


class Peers:
    """A model in the other programs."""

    def __init__(self, a, folder, work):
        self.a, self.folder, self.graph = a, folder, pathlib.Path(work) / "onnx" / "model.onnx"

    def outputs(self, name, rows):
        """The outputs of each of the rows (ids, types), without the padding."""
        import peers
        if not self.graph.exists():
            berth(self.a, "convert", self.folder, self.graph.parent, "--to", "onnx", "--allow_lossy")
        program, precision = name.split("-")
        run = peers.OPEN[program](self.folder, self.graph, precision, self.a.threads, rows)
        found, order = [None] * len(rows), sorted(range(len(rows)), key=lambda i: len(rows[i][0]))
        for at in range(0, len(order), BATCH):
            part = order[at:at + BATCH]
            batch = peers.batch_of([rows[i] for i in part])
            outputs = run(batch)
            for row, i in enumerate(part):
                found[i] = [one[row][:len(rows[i][0])] if one.shape[1] == batch["input_ids"].shape[1] else one[row] for one in outputs]
        return found


# --- embeddings ---------------------------------------------------------------------------------

def texts_of(a):
    """Distinct texts on one line each."""
    found = {}
    for path in a.texts:
        content = pathlib.Path(path).read_text(encoding="utf-8")
        if path.endswith(".txt"):
            found.update(dict.fromkeys(content.split("\n")))
            continue
        for paragraph in (p for article in json.loads(content)["data"] for p in article["paragraphs"]):
            context = " ".join(paragraph["context"].split())
            for text in (context, *SENTENCE_END.split(context), *(" ".join(q["question"].split()) for q in paragraph["qas"])):
                found[text] = None
    found.pop("", None)
    every = list(found)
    return [every[i * len(every) // a.count] for i in range(a.count)] if len(every) > a.count else every


def longest_of(folder):
    config = json.loads((pathlib.Path(folder) / "config.json").read_text(encoding="utf-8"))
    return min(LONGEST, config["max_position_embeddings"])


def tokens_of(folder, texts):
    from transformers import AutoTokenizer
    rows = AutoTokenizer.from_pretrained(folder)(texts, truncation=True, max_length=longest_of(folder))["input_ids"]
    return [(ids, [0] * len(ids)) for ids in rows]


def nearest(vectors):
    """The NEAREST other rows of each row, the nearest first."""
    found = []
    for at in range(0, len(vectors), 1000):
        scores = vectors[at:at + 1000] @ vectors.T
        scores[np.arange(len(scores)), np.arange(at, at + len(scores))] = -np.inf
        some = np.argpartition(-scores, NEAREST, axis=1)[:, :NEAREST]
        order = np.argsort(-np.take_along_axis(scores, some, 1), axis=1, kind="stable")
        found.append(np.take_along_axis(some, order, 1))
    return np.concatenate(found)


def embeddings(a, work):
    texts = texts_of(a)
    lines = pathlib.Path(work) / "texts.txt"
    lines.write_text("".join(text + "\n" for text in texts), encoding="utf-8")

    def own(precision):
        path = lines.with_name(precision + ".npy")
        berth(a, "embed", "--model", a.embed, "--precision", precision, "--max_seq_length", longest_of(a.embed), "--pooling", "mean",
              "--normalize", "true", "--threads", a.threads, "--output", path, lines)
        return np.load(path)
    others = Peers(a, a.embed, work)
    rows = tokens_of(a.embed, texts) if any(not name.startswith("berth") for name in a.programs) else None
    wide = own("fp32")
    near = nearest(wide)
    found = {}
    for name in a.programs:
        if name.startswith("berth"):
            vectors = own(name.split("-")[1])
        else:
            means = np.stack([outputs[0].mean(0) for outputs in others.outputs(name, rows)])
            vectors = means / np.linalg.norm(means, axis=1, keepdims=True)
        own_near, cosines = nearest(vectors), (wide.astype(np.float64) * vectors).sum(1)
        kept = (own_near[:, :, None] == near[:, None, :]).any(2).mean()
        found[name] = {"nearest lost, %": 100 * (own_near[:, 0] != near[:, 0]).mean(), "of ten nearest lost, %": 100 * (1 - kept),
                       "mean cosine": cosines.mean(), "first percentile": np.percentile(cosines, 1), "least": cosines.min()}
        found[name] = {key: float(value) for key, value in found[name].items()}
        show(name, found[name])
    return f"{len(texts)} texts, {pathlib.Path(a.embed).name}", found


# --- tasks --------------------------------------------------------------------------------------

def beside(wide, own):
    return 100 * sum(x == y for x, y in zip(wide, own, strict=True)) / len(wide)


def tasks(a, model, rows, own, decide, score):
    """`own(precision)` and `decide(outputs of all rows)` give the answers, which `score` scores."""
    found, wide = {}, None
    with tempfile.TemporaryDirectory() as work:
        others = Peers(a, model, work)
        for name in ("berth-fp32", *a.programs):
            precision = name.split("-")[1]
            answers = own(precision) if name.startswith("berth") else decide(others.outputs(name, rows))
            wide = answers if wide is None else wide
            found[name] = {**score(answers), "as fp32, %": beside(wide, answers)}
            show(name, found[name])
    return found


def questions(a, work):
    import quality_pytorch
    import squad_features
    examples, features, bert = squad_features.load(os.path.join(a.squad, "vocab.txt"), a.dev, False)
    rules = argparse.Namespace(n_best_size=20, max_answer_length=30, version_2_with_negative=False)

    def own(precision):
        folder = pathlib.Path(work) / f"squad-{precision}"
        berth(a, "predict", "squad", "--model", a.squad, "--input", a.dev, "--output", folder, "--precision", precision,
              "--threads", a.threads)
        texts = json.loads((folder / "predictions.json").read_text(encoding="utf-8"))
        return [texts[example.id] for example in examples]

    def decide(outputs):
        logits = [(start.tolist(), end.tolist()) for start, end in outputs]
        texts = quality_pytorch.answers(examples, features, logits, bert, rules)
        return [texts[example.id][0] for example in examples]

    def score(answers):
        return quality_pytorch.evaluate(examples, {example.id: text for example, text in zip(examples, answers)})
    return f"{len(examples)} questions", tasks(a, a.squad, [(f.input_ids, f.token_type_ids) for f in features], own, decide, score)


def tags(a, work):
    import quality_tokens_pytorch
    from seqeval.metrics import f1_score
    from transformers import AutoTokenizer
    sentences = quality_tokens_pytorch.read(a.tagged, 0)
    names, tokenizer = labels_of(a.tags), AutoTokenizer.from_pretrained(a.tags)
    numbers = {name: i for i, name in enumerate(names)}
    truth = [[tag for _, tag in sentence] for sentence in sentences]
    features = [quality_tokens_pytorch.encode(tokenizer, [(word, names[0]) for word, _ in sentence], numbers, 512)
                for sentence in sentences]

    def own(precision):
        folder = pathlib.Path(work) / f"tags-{precision}"
        berth(a, "predict", "tokens", "--model", a.tags, "--input", a.tagged, "--output", folder, "--precision", precision,
              "--threads", a.threads)
        return [tag for line in (folder / "predictions.txt").read_text(encoding="utf-8").splitlines() for tag in line.split()]

    def decide(outputs):
        out = []
        for one, (_, firsts), words in zip(outputs, features, sentences):
            found = [names[k] for k, first in zip(one[0].argmax(-1), firsts) if first >= 0]
            out += found + ["O"] * (len(words) - len(found))
        return out

    def score(answers):
        rest = iter(answers)
        return {"F1": float(100 * f1_score(truth, [[next(rest) for _ in sentence] for sentence in sentences]))}
    return f"{len(sentences)} sentences", tasks(a, a.tags, [(ids, [0] * len(ids)) for ids, _ in features], own, decide, score)


def labels_of(folder):
    config = json.loads((pathlib.Path(folder) / "config.json").read_text(encoding="utf-8"))
    return [config["id2label"][str(i)] for i in range(len(config["id2label"]))]


def classes(a, work):
    import pair_features
    features = pair_features.load(os.path.join(a.classes, "vocab.txt"), os.path.join(a.mrpc, "msr_paraphrase_test.txt"), 128)

    def own(precision):
        folder = pathlib.Path(work) / f"classes-{precision}"
        berth(a, "predict", "classify", "--model", a.classes, "--task_name", "mrpc", "--data_dir", a.mrpc, "--output", folder,
              "--max_seq_length", 128, "--precision", precision, "--threads", a.threads)
        with open(folder / "test_results.tsv", encoding="utf-8") as file:
            return [int(np.argmax([float(x) for x in row])) for row in csv.reader(file, delimiter="\t")]

    def decide(outputs):
        return [int(one[0].argmax()) for one in outputs]

    def score(answers):
        return {"accuracy": 100 * sum(x == f.label for x, f in zip(answers, features)) / len(features)}
    return f"{len(features)} pairs", tasks(a, a.classes, [(f.input_ids, f.token_type_ids) for f in features], own, decide, score)


# --- the program --------------------------------------------------------------------------------

def show(name, scores):
    print(f"{name}: {scores}", file=sys.stderr, flush=True)


def print_table(title, what, found):
    print(f"\n{title}: {what}\n")
    keys = list(next(iter(found.values())))
    print("| program | " + " | ".join(keys) + " |")
    print("|---" * (len(keys) + 1) + "|")
    for name, scores in found.items():
        print(f"| {name} | " + " | ".join(f"{value:.5f}" if value <= 1 and "%" not in key else f"{value:.2f}"
                                          for key, value in scores.items()) + " |")


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--berth", required=True)
    parser.add_argument("--embed", help="folder of a model for embeddings, with --texts")
    parser.add_argument("--texts", nargs="+", default=[], help="SQuAD's files, or .txt")
    parser.add_argument("--count", type=int, default=10000, help="number of texts")
    for task, data in (("squad", "dev"), ("tags", "tagged"), ("classes", "mrpc")):
        parser.add_argument(f"--{task}", help=f"folder of a fine-tuned model, with --{data}")
        parser.add_argument(f"--{data}", help="the data to score it on" + (" (a folder)" if data == "mrpc" else ""))
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="comma-separated, of " + " ".join(PROGRAMS))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--csv", help="append the figures to this file")
    parser.add_argument("--lose_at_most", type=float, help="%% of the nearest texts")
    parser.add_argument("--percentile_at_least", type=float, help="the first percentile of the cosine")
    a = parser.parse_args()
    a.programs = a.programs.split(",")
    for name in a.programs:
        if name not in PROGRAMS:
            parser.error(f"--programs: {name}: expected some of {' '.join(PROGRAMS)}")
    return a


def worse(a, own):
    """What berth-int8 does not reach."""
    if a.lose_at_most is not None and own["nearest lost, %"] > a.lose_at_most:
        yield f"{own['nearest lost, %']:.2f} % of the nearest texts are lost, at most {a.lose_at_most} were expected"
    if a.percentile_at_least is not None and own["first percentile"] < a.percentile_at_least:
        yield f"the first percentile of the cosine is {own['first percentile']:.5f}, at least {a.percentile_at_least} was expected"


def main():
    a = options()
    problems = []
    for title, model, run in (("embeddings", a.embed, embeddings), ("questions", a.squad, questions), ("tags", a.tags, tags),
                              ("classes", a.classes, classes)):
        if not model:
            continue
        with tempfile.TemporaryDirectory() as work:
            what, found = run(a, work)
        print_table(title, what, found)
        if a.csv:
            results_file.append(a.csv, f"int8 quality, {title}", what, a.threads, a.berth,
                                {(name, key): value for name, scores in found.items() for key, value in scores.items()})
        if title == "embeddings":
            problems += worse(a, found.get("berth-int8", {}))
    sys.exit("; ".join(problems) or 0)


if __name__ == "__main__":
    main()
