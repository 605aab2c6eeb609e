#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A retriever of your own, by Berth and by sentence-transformers, one after the other in one run: hard negatives are
mined, the model is trained on them, and its nDCG is measured, all inside the time. Recipe, data and length are equal.
SQuAD's questions and paragraphs are the data: articles of the training file to train on, others of the same file (with
all their paragraphs) to score.

    retriever.py --berth build/release/berth --model DIR --squad train-v1.1.json [--pairs 1000] [--seeds 1 2 3]

Needs sentence-transformers, datasets and accelerate. Prints a line for each run and the means.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

NEGATIVES, BATCH, RATE, LENGTH = 1, 32, 3e-5, 192


def write_lines(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")


def make_data(folder, squad, pairs, queries):
    """pairs.jsonl and texts.txt to train on; queries.jsonl, corpus.jsonl and qrels.tsv to score."""
    with open(squad, encoding="utf-8") as file:
        articles = json.load(file)["data"]
    half = len(articles) // 2
    taken, texts = [], {}
    for paragraph in (p for article in articles[:half] for p in article["paragraphs"]):
        texts[" ".join(paragraph["context"].split())] = None
        taken += [(q["question"].strip(), " ".join(paragraph["context"].split())) for q in paragraph["qas"][:1]]
        if len(taken) >= pairs:
            break
    write_lines(os.path.join(folder, "pairs.jsonl"), [{"query": q, "positive": p} for q, p in taken])
    asked, corpus, relevant = [], [], []
    for paragraph in (p for article in articles[half:] for p in article["paragraphs"]):
        if len(asked) >= queries:
            break
        corpus.append({"_id": f"p{len(corpus)}", "text": " ".join(paragraph["context"].split())})
        for question in paragraph["qas"][:2]:
            asked.append({"_id": question["id"], "text": question["question"].strip()})
            relevant.append((question["id"], corpus[-1]["_id"]))
    write_lines(os.path.join(folder, "queries.jsonl"), asked)
    write_lines(os.path.join(folder, "corpus.jsonl"), corpus)
    with open(os.path.join(folder, "qrels.tsv"), "w", encoding="utf-8") as file:
        file.write("query-id\tcorpus-id\tscore\n" + "".join(f"{q}\t{p}\t1\n" for q, p in relevant))
    return len(taken), len(asked), len(corpus)


def berth(args, folder, seed):
    def run(*words):
        subprocess.run([args.berth, *map(str, words)], check=True, cwd=folder, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
    data = ["--queries", "queries.jsonl", "--corpus", "corpus.jsonl", "--relevant", "qrels.tsv"]
    marks = [time.time()]
    run("mine", "--model", args.model, "--pairs", "pairs.jsonl", "--output", "mined.jsonl", "--output_format", "n-tuple",
        "--num_negatives", NEGATIVES, "--range_min", 1, "--range_max", 20, "--absolute_margin", 0.02, "--overwrite_output_dir",
        "--max_seq_length", LENGTH, "--threads", args.threads)
    marks.append(time.time())
    run("finetune", "embed", "--model", args.model, "--train", "mined.jsonl", "--output", "berth", "--overwrite_output_dir",
        "--embedding_loss", "negatives", "--batch_sampler", "no_duplicates", "--train_batch_size", BATCH, "--learning_rate",
        RATE, "--num_train_epochs", args.epochs, "--warmup_proportion", 0.1, "--weight_decay", 0, "--max_seq_length", LENGTH,
        "--seed", seed, "--skip_checkpoint", "--precision", "fp32", "--threads", args.threads)
    marks.append(time.time())
    run("evaluate", "embed", "--model", "berth", *data, "--output", "berth-scores", "--overwrite_output_dir",
        "--max_seq_length", LENGTH, "--threads",
        args.threads)
    marks.append(time.time())
    with open(os.path.join(folder, "berth-scores", "eval_results.json"), encoding="utf-8") as file:
        return json.load(file)["eval_ndcg_at_10"], marks


def peer(args, folder, seed):
    done = subprocess.run([sys.executable, __file__, "--peer", folder, "--model", args.model, "--seeds", str(seed), "--threads",
                           str(args.threads), "--epochs", str(args.epochs)], check=True, capture_output=True, text=True)
    found = json.loads(done.stdout.strip().splitlines()[-1])
    return found["ndcg"], found["marks"]


def run_peer(args):
    marks = [time.time()]
    import torch
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator
    from sentence_transformers.util import mine_hard_negatives
    torch.set_num_threads(args.threads)

    def lines(name):
        with open(os.path.join(args.peer, name), encoding="utf-8") as file:
            return [json.loads(line) for line in file]
    model = SentenceTransformer(args.model, device="cpu")
    model.max_seq_length = LENGTH
    mined = mine_hard_negatives(Dataset.from_list(lines("pairs.jsonl")), model, num_negatives=NEGATIVES, range_min=1, range_max=20,
                                absolute_margin=0.02, output_format="n-tuple", verbose=False)
    marks.append(time.time())
    output = os.path.join(args.peer, "peer")
    settings = SentenceTransformerTrainingArguments(
        output_dir=output, per_device_train_batch_size=BATCH, learning_rate=RATE, num_train_epochs=args.epochs, warmup_ratio=0.1,
        weight_decay=0.0, seed=args.seeds[0], batch_sampler="no_duplicates", save_strategy="no", report_to="none",
        disable_tqdm=True, use_cpu=True, logging_strategy="no")
    SentenceTransformerTrainer(model=model, args=settings, train_dataset=mined, loss=MultipleNegativesRankingLoss(model)).train()
    model.save(output)
    marks.append(time.time())
    with open(os.path.join(args.peer, "qrels.tsv"), encoding="utf-8") as file:
        pairs = [line.split("\t")[:2] for line in file.read().splitlines()[1:]]
    evaluator = InformationRetrievalEvaluator({row["_id"]: row["text"] for row in lines("queries.jsonl")},
                                              {row["_id"]: row["text"] for row in lines("corpus.jsonl")},
                                              {query: {text} for query, text in pairs}, write_csv=False)
    score = evaluator(model)["cosine_ndcg@10"]
    marks.append(time.time())
    print(json.dumps({"ndcg": float(score), "marks": marks}))


def show(name, seed, score, marks, cpu):
    parts = [after - before for before, after in zip(marks, marks[1:])]
    print(f"{name:22} seed {seed}  nDCG@10 {score:.4f}  seconds {sum(parts):7.1f} = mining {parts[0]:.1f} + training {parts[1]:.1f} "
          f"+ scoring {parts[2]:.1f}; CPU {cpu:.1f}", flush=True)
    return sum(parts), cpu, score


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--berth")
    parser.add_argument("--model", required=True)
    parser.add_argument("--squad")
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        run_peer(args)
        return
    args.berth, args.model = os.path.abspath(args.berth), os.path.abspath(args.model)
    with tempfile.TemporaryDirectory() as folder:
        print("%d pairs; %d queries, %d texts to search" % make_data(folder, args.squad, args.pairs, args.queries), flush=True)
        results = {"Berth": [], "sentence-transformers": []}
        for seed in args.seeds:
            for name, function in (("Berth", berth), ("sentence-transformers", peer)):
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                score, marks = function(args, folder, seed)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                results[name].append(show(name, seed, score, marks, cpu))
    means = {name: [statistics.mean(run[i] for run in runs) for i in range(3)] for name, runs in results.items()}
    for name, (seconds, cpu, score) in means.items():
        print(f"{name:22} mean    nDCG@10 {score:.4f}  seconds {seconds:.1f}  CPU {cpu:.1f}")
    own, other = means["Berth"], means["sentence-transformers"]
    print(f"{other[0] / own[0]:.2f} times faster by the clock, {other[1] / own[1]:.2f} by CPU seconds")


if __name__ == "__main__":
    main()
