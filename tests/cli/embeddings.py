#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests berth finetune embed and berth evaluate embed: losses and vectors equal those of sentence-transformers
(dev/goldens/embedding_losses.py); groups of negatives, several processes, resumption, scores, files.

    embeddings.py BERTH SOURCE_DIR
"""
import csv
import functools
import json
import math
import os
import random
import shutil
import sys
import tempfile

from expectations import expect, failures, run_program

BERTH, SOURCE = map(os.path.abspath, sys.argv[1:3])
ENCODER = os.path.join(SOURCE, "tests/golden/encoder")
with open(os.path.join(SOURCE, "tests/golden/embedding_losses.json"), encoding="utf-8") as golden_file:
    GOLDEN = json.load(golden_file)
COMMON = "--threads 1 --precision fp32".split()
RECIPE = "--schedule constant --hidden_dropout_prob 0 --attention_probs_dropout_prob 0 --do_eval false".split()
PLAIN = COMMON + RECIPE
os.chdir(tempfile.mkdtemp())


berth = functools.partial(run_program, BERTH)


def write_lines(name, columns, rows):
    with open(name, "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(dict(zip(columns, row))) + "\n")


def train(folder, data, *words, code=0, launcher=(), precision="fp32"):
    return berth("finetune", "embed", "--model", ENCODER, "--train", data, "--output", folder, *RECIPE, "--threads", 1,
                 "--precision", precision, *words, code=code, launcher=launcher)


def losses_of(folder):
    with open(os.path.join(folder, "trainer_state.json"), encoding="utf-8") as file:
        return [entry["loss"] for entry in json.load(file)["log_history"] if "loss" in entry]


def content(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def vectors_of(folder, texts, *words, precision="fp32"):
    with open("texts.txt", "w", encoding="utf-8") as file:
        file.write("".join(text + "\n" for text in texts))
    done = berth("embed", "--model", folder, "--threads", 1, "--precision", precision, "--output", "vectors.jsonl", *words,
                 "texts.txt")
    with open("vectors.jsonl", encoding="utf-8") as file:
        return [json.loads(line)["embedding"] for line in file] if done.returncode == 0 else []


# --- sentence-transformers -----------------------------------------------------------------------

def farthest(a, b):
    return max(abs(x - y) for x, y in zip(a, b, strict=True))


def flat(rows):
    return [number for row in rows for number in row]


def list_of(numbers):
    return ",".join(map(str, numbers)) if numbers else None


def check_case(case):
    texts = [GOLDEN["anchors"], GOLDEN["near"], GOLDEN["far"], GOLDEN["farther"]][:case["texts"]]
    columns = ["anchor", "positive", "negative", "farther"][:case["texts"]]
    if case["loss"] == "cosine" or "scores" in case:
        texts, columns = texts + [case.get("scores", GOLDEN["scores"])], columns + ["score"]
    write_lines("case.jsonl", columns, zip(*texts))
    options = {"embedding_loss": case["loss"], "pooling": case["pooling"], "normalize": case.get("normalize", False),
               "similarity_scale": case.get("scale"), "triplet_margin": case.get("margin"),
               "triplet_distance": case.get("distance"), "symmetric_negatives": case.get("symmetric"),
               "matryoshka_dims": list_of(case.get("dims")), "matryoshka_weights": list_of(case.get("weights"))}
    words = [word for name, value in options.items() if value is not None
             for word in ("--" + name, str(value).lower())]
    words += ["--train_batch_size", len(texts[0]), "--num_train_epochs", GOLDEN["updates"], "--learning_rate",
              GOLDEN["rate"], "--adam_epsilon", GOLDEN["epsilon"], "--weight_decay", 0, "--max_grad_norm", 0,
              "--logging_steps", 1, "--skip_checkpoint"]
    folder = "case-" + case["name"]
    train(folder, "case.jsonl", *words)
    found = losses_of(folder)
    for own, wanted in zip(found, case["losses"], strict=True):
        expect(abs(own - wanted) < 2e-5 * abs(wanted), f"{case['name']}: loss {own}, expected {wanted}")
    error = farthest(flat(vectors_of(folder, GOLDEN["probes"])), flat(case["vectors"]))
    expect(error < 2e-4, f"{case['name']}: a vector is off by {error}")
    with open(os.path.join(folder, "modules.json"), encoding="utf-8") as file:
        classes = [module["type"].split(".")[-1] for module in json.load(file)]
    expect(classes == ["Transformer", "Pooling"] + ["Normalize"] * bool(case.get("normalize")),
           f"{case['name']}: modules {classes}")
    check_bf16(case, words)
    if case["name"] in ("symmetric_hard", "cosent", "margins", "vectors_of_two", "matryoshka_symmetric"):
        train("emulated", "case.jsonl", *words, "--device", "emulated", "--overwrite_output_dir")
        for own, wanted in zip(losses_of("emulated"), case["losses"], strict=True):
            expect(abs(own - wanted) < 2e-5 * abs(wanted), f"{case['name']} on a GPU: loss {own}, expected {wanted}")


def check_bf16(case, words):
    """In bf16 losses and vectors are as near to float64 as those of torch's autocast."""
    folder = "bf16-" + case["name"]
    train(folder, "case.jsonl", *words, precision="bf16")
    vectors = vectors_of(folder, GOLDEN["probes"], precision="bf16")
    for what, own, wanted, autocast in [
            ("losses", losses_of(folder), case["losses"], case["autocast"]["losses"]),
            ("vectors", flat(vectors), flat(case["vectors"]), flat(case["autocast"]["vectors"]))]:
        error, bound = farthest(own, wanted), 1.5 * farthest(autocast, wanted) + 2e-3 * max(map(abs, wanted))
        print(f"{folder}: {what} {error:.2g} from float64, of {bound:.2g}")
        expect(0 < error <= bound, f"{folder}: {what} are off by {error}, autocast's bound is {bound}")


# --- groups, processes, resumption ---------------------------------------------------------------

def write_pairs():
    others = [anchor + " and " + near for anchor, near in zip(GOLDEN["anchors"], GOLDEN["far"])]
    rows = list(zip(GOLDEN["anchors"] + others, GOLDEN["near"] + GOLDEN["far"]))
    write_lines("pairs.jsonl", ["anchor", "positive"], rows)
    with open("pairs.tsv", "w", encoding="utf-8") as file:
        file.write("first\tsecond\n" + "".join(f"{a}\t{b}\n" for a, b in rows))
    return rows


UPDATES = ["--train_batch_size", 12, "--max_steps", 3, "--learning_rate", 2e-3, "--logging_steps", 1]


def check_groups():
    train("groups", "pairs.jsonl", *UPDATES, "--negatives_batch", 4)
    for name, words in {"micro": ["--per_device_train_batch_size", 4], "virtual": ["--virtual_ranks", 3],
                        "halves": ["--virtual_ranks", 2, "--gradient_accumulation_steps", 1]}.items():
        train(name, "pairs.jsonl", *UPDATES, "--negatives_batch", 4, *words)
        expect(len(losses_of(name)) == 3, f"groups: {name}: losses {losses_of(name)}")
        error = farthest(losses_of(name), losses_of("groups"))
        expect(error < 1e-5, f"groups: {name}: a loss is off by {error}")
    train("whole", "pairs.jsonl", *UPDATES)
    expect(losses_of("whole")[0] > losses_of("groups")[0] + 0.5, "more negatives make a larger loss")
    done = train("refused", "pairs.jsonl", *UPDATES, "--negatives_batch", 5, code=78)
    expect("train_batch_size 12 is not a multiple of negatives_batch 5" in done.stderr, "update of no whole groups")
    done = train("refused", "pairs.jsonl", *UPDATES, "--negatives_batch", 4, "--per_device_train_batch_size", 6,
                 code=78)
    expect("micro-batches of 6 examples are not a whole number of groups" in done.stderr, "micro-batch of no whole groups")


def check_ranks():
    launcher = shutil.which("mpirun.openmpi")
    if launcher is None:
        print("no mpirun.openmpi: several processes are not tried")
        return
    dropout = ["--hidden_dropout_prob", 0.1, "--attention_probs_dropout_prob", 0.1]
    words = [*UPDATES, "--negatives_batch", 3, "--virtual_ranks", 4, *dropout]
    train("one", "pairs.jsonl", *words)
    for ranks in (2, 4):
        train(f"ranks-{ranks}", "pairs.jsonl", *words, "--comm", "openmpi",
              launcher=[launcher, "--oversubscribe", "--bind-to", "none", "-np", str(ranks)])
        expect(content("one", "model.safetensors") == content(f"ranks-{ranks}", "model.safetensors"),
               f"{ranks} processes give the bytes of one")
    train("other-groups", "pairs.jsonl", *UPDATES, "--negatives_batch", 6, "--virtual_ranks", 4, *dropout)
    expect(content("one", "model.safetensors") != content("other-groups", "model.safetensors"),
           "other groups give other bytes")


def check_resumption():
    words = ["--train_batch_size", 6, "--negatives_batch", 3, "--learning_rate", 2e-3, "--save_steps", 2,
             "--hidden_dropout_prob", 0.1, "--normalize", "true", "--pooling", "cls"]
    train("straight", "pairs.jsonl", *words, "--max_steps", 5)
    train("resumed", "pairs.jsonl", *words, "--max_steps", 3)
    expect(content("straight", "model.safetensors") != content("resumed", "model.safetensors"),
           "three updates are not five")
    done = train("resumed", "pairs.jsonl", *words[:3], 6, *words[4:], "--max_steps", 5, "--resume_from_checkpoint",
                 "auto", code=78)
    expect("negatives_batch" in done.stderr, "other groups are refused when resuming")
    train("resumed", "pairs.jsonl", *words, "--max_steps", 5, "--resume_from_checkpoint", "auto")
    # Without negatives_batch the group follows from other settings, one of which may change.
    others = [*words[:2], *words[4:]]
    train("followed", "pairs.jsonl", *others, "--max_steps", 3)
    others += ["--max_steps", 5, "--resume_from_checkpoint", "auto"]
    done = train("followed", "pairs.jsonl", *others, "--per_device_train_batch_size", 3, code=78)
    expect("the run to resume had negatives_batch 6, not 3" in done.stderr,
           f"other groups that follow are refused when resuming: {done.stderr}")
    train("followed", "pairs.jsonl", *others, "--embedding_loss", "negatives")
    for name in ("model.safetensors", "modules.json", "1_Pooling/config.json", "sentence_bert_config.json"):
        expect(content("straight", name) == content("resumed", name), f"resumed: {name}")
    berth("verify", "resumed/checkpoint-5")
    with open("resumed/checkpoint-5/1_Pooling/config.json", "a", encoding="utf-8") as file:
        file.write(" ")
    expect("1_Pooling/config.json" in berth("verify", "resumed/checkpoint-5", code=65).stderr, "a changed module")
    train("seed", "pairs.jsonl", *words, "--max_steps", 5, "--seed", 43)
    expect(content("straight", "model.safetensors") != content("seed", "model.safetensors"), "the seed matters")


# --- groups without a text twice -------------------------------------------------------------------

def check_no_duplicates():
    """Each text is its own match, so its loss is near 0 unless its group has it again: then it is at least log 2."""
    texts = GOLDEN["anchors"] + GOLDEN["near"][:2]
    write_lines("copies.jsonl", ["a", "b"], [(text, text) for text in texts] * 3)
    words = ["--train_batch_size", 8, "--negatives_batch", 4, "--similarity_scale", 1000, "--max_steps", 9,
             "--logging_steps", 1, "--save_steps", 4]
    still = [*words, "--learning_rate", 0]
    done = train("apart", "copies.jsonl", *still, "--batch_sampler", "no_duplicates", "--verbose")
    expect("copies.jsonl: no group has a text twice" in done.stderr, f"apart: {done.stderr}")
    expect(max(losses_of("apart")) < 0.01, f"apart: losses {losses_of('apart')}")
    done = train("mixed", "copies.jsonl", *still)
    expect(max(losses_of("mixed")) > 0.1 and "text twice" not in done.stderr, f"mixed: losses {losses_of('mixed')}")
    # All twelve pairs are in each group, whatever the order: the loss of one group of the pairs themselves.
    whole = ["--train_batch_size", 12, "--learning_rate", 0, "--logging_steps", 1, "--max_steps", 4]
    write_lines("twice.jsonl", ["a", "b"], pairs * 2)
    train("once", "pairs.jsonl", *whole)
    done = train("twice", "twice.jsonl", *whole, "--batch_sampler", "no_duplicates")
    expect(farthest(losses_of("once"), losses_of("twice")) < 1e-5, f"twice: losses {losses_of('twice')}")
    expect("shares its texts with 2 others, and an epoch has only 2 groups" in done.stderr, f"twice: {done.stderr}")
    dropout = ["--hidden_dropout_prob", 0.1, "--learning_rate", 1e-3, "--batch_sampler", "no_duplicates"]
    words += [*dropout, "--virtual_ranks", 2]
    train("apart-straight", "copies.jsonl", *words)
    train("apart-resumed", "copies.jsonl", *words, "--max_steps", 5)
    train("apart-resumed", "copies.jsonl", *words, "--resume_from_checkpoint", "auto")
    expect(content("apart-straight", "model.safetensors") == content("apart-resumed", "model.safetensors"), "apart: resumed")
    done = train("apart-resumed", "copies.jsonl", *words, "--batch_sampler", "batch", "--max_steps", 12,
                 "--resume_from_checkpoint", "auto", code=78)
    expect("batch_sampler" in done.stderr, f"apart: another sampler when resuming: {done.stderr}")
    launcher = shutil.which("mpirun.openmpi")
    if launcher is not None:
        train("apart-ranks", "copies.jsonl", *words, "--comm", "openmpi",
              launcher=[launcher, "--oversubscribe", "--bind-to", "none", "-np", "2"])
        expect(content("apart-straight", "model.safetensors") == content("apart-ranks", "model.safetensors"), "apart: ranks")


# --- several data sets -----------------------------------------------------------------------------

def check_data_sets():
    """Each update has the loss of one data set alone; orders, processes, resumption, names with commas."""
    triples = list(zip(GOLDEN["anchors"], GOLDEN["near"], GOLDEN["far"]))
    write_lines("far,triples.jsonl", ["a", "b", "c"], triples)
    write_lines("judged.jsonl", ["a", "b", "score"],
                [(a, b, score) for (a, b, _), score in zip(triples, GOLDEN["scores"])])
    still = ["--train_batch_size", 12, "--learning_rate", 0, "--logging_steps", 1]
    files = {"pairs.jsonl": "negatives", "judged.jsonl": "cosine", "far,triples.jsonl": "triplet"}
    alone = {}
    for data, loss in files.items():
        train("alone-" + loss, data, *still, "--max_steps", 1)
        alone[loss] = losses_of("alone-" + loss)[0]
    listed = json.dumps(list(files))
    done = train("sets", listed, *still, "--num_train_epochs", 4)
    found = losses_of("sets")
    expect(len(found) == 12 and all(farthest(sorted(found[i:i + 3]), sorted(alone.values())) < 1e-5
                                    for i in range(0, 12, 3)), f"sets: losses {found}, alone {alone}")
    expect(len({tuple(round(x, 4) for x in found[i:i + 3]) for i in range(0, 12, 3)}) > 1, "sets: one order in all epochs")
    expect("each update takes examples of one of 3 data sets, in random order" in done.stderr, f"sets: {done.stderr}")
    done = train("turns", listed, *still, "--num_train_epochs", 4, "--multi_dataset_batch_sampler", "round_robin")
    expect(farthest(losses_of("turns"), list(alone.values()) * 4) < 1e-5, f"turns: losses {losses_of('turns')}")
    expect("an epoch ends when the smallest, judged.jsonl" in done.stderr, f"turns: {done.stderr}")
    train("turns-emulated", listed, *still, "--num_train_epochs", 1, "--multi_dataset_batch_sampler", "round_robin",
          "--device", "emulated")
    expect(farthest(losses_of("turns-emulated"), list(alone.values())) < 1e-4, f"emulated: {losses_of('turns-emulated')}")
    # Losses by name, and updates smaller than the sets.
    two = ["pairs.jsonl,judged.jsonl", "--embedding_loss", "negatives,cosent"]
    train("cosent", "judged.jsonl", *still, "--max_steps", 1, "--embedding_loss", "cosent")
    train("named", *two, *still, "--num_train_epochs", 1)
    expect(farthest(sorted(losses_of("named")), sorted([alone["negatives"], losses_of("cosent")[0]])) < 1e-5, "named")
    words = ["--train_batch_size", 4, "--negatives_batch", 2, "--learning_rate", 1e-3, "--hidden_dropout_prob", 0.1,
             "--save_steps", 2, "--logging_steps", 1, "--virtual_ranks", 2, "--num_train_epochs", 2]
    done = train("sets-straight", listed, *words, "--batch_sampler", "no_duplicates", "--json_summary", "sets.jsonl")
    expect(len(losses_of("sets-straight")) == 2 * (3 + 2 + 2), f"sets: {len(losses_of('sets-straight'))} updates")
    expect("batch_sampler has no effect" not in done.stderr, "sets: one of them has groups")
    words += ["--batch_sampler", "no_duplicates"]
    train("sets-resumed", listed, *words, "--max_steps", 5)
    train("sets-resumed", listed, *words, "--resume_from_checkpoint", "auto")
    expect(content("sets-straight", "model.safetensors") == content("sets-resumed", "model.safetensors"), "sets: resumed")
    done = train("sets-resumed", listed, *words, "--num_train_epochs", 3, "--resume_from_checkpoint", "auto",
                 "--multi_dataset_batch_sampler", "round_robin", code=78)
    expect("multi_dataset_batch_sampler" in done.stderr, f"sets: in turn when resuming: {done.stderr}")
    done = train("sets-resumed", listed, *words, "--num_train_epochs", 3, "--resume_from_checkpoint", "auto",
                 "--embedding_loss", "negatives,cosent,triplet", code=78)
    expect("embedding_loss" in done.stderr, f"sets: another loss when resuming: {done.stderr}")
    launcher = shutil.which("mpirun.openmpi")
    if launcher is not None:
        train("sets-ranks", listed, *words, "--comm", "openmpi",
              launcher=[launcher, "--oversubscribe", "--bind-to", "none", "-np", "2"])
        expect(content("sets-straight", "model.safetensors") == content("sets-ranks", "model.safetensors"), "sets: ranks")
    for data, options, code, message in [
            ("pairs.jsonl,judged.jsonl", ["--embedding_loss", "negatives,cosine,triplet"], 2,
             'one for each of the 2 files of train_file, found 3: "negatives,cosine,triplet"'),
            ("pairs.jsonl", ["--embedding_loss", "negatives,cosine"], 2, "one for each of the 1 files"),
            ("pairs.jsonl,judged.jsonl", ["--embedding_loss", "negatives,nearest"], 2, "embedding_loss"),
            ("pairs.jsonl,judged.jsonl", ["--embedding_loss", "cosine"], 78, "found pairs without scores in pairs.jsonl"),
            ("pairs.jsonl,nowhere.jsonl", [], 66, "nowhere.jsonl"),
            ("pairs.jsonl,far,triples.jsonl", [], 2, "far: unknown file format"),
            ('["pairs.jsonl", 3]', [], 2, "train_file: element 1: expected a text"),
            (",".join(["pairs.jsonl"] * 9), [], 2, "train_file: expected at most 8 files, found 9"),
            (listed, ["--train_batch_size", 10, "--dataloader_drop_last"], 78,
             "judged.jsonl has 6 examples, fewer than the 10 of an update, so dataloader_drop_last drops them all")]:
        done = train("refused", data, *options, code=code)
        expect(message in done.stderr, f"{data} {options}: {done.stderr}")
        expect(not os.path.exists("refused"), f"{data} {options}: a folder was left")
    done = train("noted-one", "pairs.jsonl", *UPDATES, "--multi_dataset_batch_sampler", "proportional")
    expect("multi_dataset_batch_sampler has no effect with one train_file" in done.stderr, f"one set: {done.stderr}")
    done = train("noted-loss", "judged.jsonl,scored.csv", *UPDATES, "--batch_sampler", "no_duplicates")
    expect("batch_sampler has no effect with embedding_loss cosine,cosine" in done.stderr, f"no groups: {done.stderr}")


# --- scores --------------------------------------------------------------------------------------

def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(x * x for x in b))


def evaluate(data, *words):
    berth("evaluate", "embed", "--model", ENCODER, "--input", data, "--output", "scores", "--overwrite_output_dir",
          *COMMON, *words)
    with open("scores/eval_results.json", encoding="utf-8") as file:
        scores = json.load(file)
    shutil.rmtree("scores")
    return scores


def expect_score(scores, name, wanted):
    expect(abs(scores["eval_" + name] - wanted) < 1e-6, f"{name}: {scores.get('eval_' + name)}, expected {wanted}")


def check_retrieval(rows):
    rows = rows + [(rows[0][0], rows[5][1])]  # a question with two answers
    write_lines("retrieval.jsonl", ["question", "answer"], rows)
    scores = evaluate("retrieval.jsonl")
    texts = sorted({answer for _, answer in rows}, key=[answer for _, answer in rows].index)
    queries = list(dict.fromkeys(question for question, _ in rows))
    known = dict(zip(texts + queries, vectors_of(ENCODER, texts + queries)))
    ranks = {}
    for query in queries:
        order = sorted(texts, key=lambda text: -cosine(known[query], known[text]))
        ranks[query] = sorted(order.index(answer) for question, answer in set(rows) if question == query)
    for depth in (1, 3, 5, 10):
        expect_score(scores, f"recall_at_{depth}",
                     sum(sum(r < depth for r in ranks[q]) / len(ranks[q]) for q in queries) / len(queries))
    expect_score(scores, "mrr_at_10", sum(1 / (r[0] + 1) if r[0] < 10 else 0 for r in ranks.values()) / len(queries))
    first = evaluate("retrieval.jsonl", "--max_eval_samples", 2)
    expect(first["eval_recall_at_3"] == 1, "two texts are among the first three")


def pearson(x, y):
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    top = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y))
    return top / math.sqrt(sum((a - mean_x) ** 2 for a in x) * sum((b - mean_y) ** 2 for b in y))


def check_scores():
    texts = GOLDEN["anchors"] + GOLDEN["near"] + GOLDEN["far"]
    known = dict(zip(texts, vectors_of(ENCODER, texts)))
    triplets = list(zip(GOLDEN["anchors"], GOLDEN["near"], GOLDEN["far"]))
    cosines = [cosine(known[a], known[b]) for a, b, _ in triplets]
    with open("scored.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["idx", "sentence1", "sentence2", "label"])
        writer.writerows((i, a, b, score) for i, ((a, b, _), score) in enumerate(zip(triplets, GOLDEN["scores"])))
    scores = evaluate("scored.csv")
    rank = [sorted(cosines).index(x) for x in cosines], [sorted(GOLDEN["scores"]).index(x) for x in GOLDEN["scores"]]
    expect_score(scores, "pearson", pearson(cosines, GOLDEN["scores"]))
    expect_score(scores, "spearman", pearson(*rank))
    expect(scores["eval_pearson"] != evaluate("scored.csv", "--pooling", "cls")["eval_pearson"], "--pooling matters")
    write_lines("triplets.jsonl", ["anchor", "positive", "negative"], triplets)
    right = sum(cosine(known[a], known[b]) > cosine(known[a], known[c]) for a, b, c in triplets)
    expect(0 < right < len(triplets), "triplets of both kinds")
    expect_score(evaluate("triplets.jsonl"), "triplet_accuracy", right / len(triplets))
    swapped = evaluate("triplets.jsonl", "--text_column", "anchor", "--text_pair_column", "negative",
                       "--negative_column", "positive")
    expect_score(swapped, "triplet_accuracy", 1 - right / len(triplets))


# --- negatives in pieces -------------------------------------------------------------------------

def write_long(name, count, columns):
    """Examples of texts of 20 to 30 tokens, so that a group has several pieces of 2,048 tokens."""
    words = " ".join(GOLDEN["anchors"] + GOLDEN["near"] + GOLDEN["far"]).split()
    draw = random.Random(3)
    write_lines(name, columns, [[" ".join(draw.choices(words, k=draw.randint(20, 28))) for _ in columns]
                                for _ in range(count)])


def check_pieces():
    """Losses and weights of a group in pieces are those of the whole one, with dropout, in both directions and of cut
    vectors; two processes, a resumed run and virtual ranks write the same bytes."""
    write_long("long.jsonl", 96, ["anchor", "positive", "negative_1", "negative_2"])
    recipe = ["--schedule", "constant", "--do_eval", "false", "--learning_rate", 1e-3, "--train_batch_size", 96,
              "--num_train_epochs", 3, "--logging_steps", 1, "--adam_epsilon", 1e-4, "--max_grad_norm", 0, "--virtual_ranks", 2]

    def run(folder, *words, code=0, launcher=()):
        return berth("finetune", "embed", "--model", ENCODER, "--train", "long.jsonl", "--output", folder, *COMMON, *recipe,
                     "--negatives_batch", 48, "--symmetric_negatives", "--matryoshka_dims", "24,8", "--embedding_loss",
                     "negatives", *words, code=code, launcher=launcher)

    run("at-once")
    run("pieces", "--cached_negatives")
    for own, wanted in zip(losses_of("pieces"), losses_of("at-once"), strict=True):
        expect(abs(own - wanted) < 1e-6 * wanted, f"pieces: loss {own}, of whole groups {wanted}")
    expect(content("pieces/model.safetensors") != content("at-once/model.safetensors"), "the group was cut")
    error = farthest(flat(vectors_of("pieces", GOLDEN["probes"])), flat(vectors_of("at-once", GOLDEN["probes"])))
    expect(error < 1e-4, f"pieces: a vector is off by {error}")
    if shutil.which("mpirun.openmpi"):
        run("pieces-2", "--cached_negatives", launcher=["mpirun.openmpi", "--oversubscribe", "-n", "2"])
        expect(content("pieces-2/model.safetensors") == content("pieces/model.safetensors"), "pieces: two processes")
    run("pieces-bits", "--cached_negatives", "--gradient_checkpointing")
    expect(content("pieces-bits/model.safetensors") == content("pieces/model.safetensors"), "pieces: recomputed layers")
    run("pieces-cut", "--cached_negatives", "--save_steps", 1, "--max_steps", 1)
    run("pieces-cut", "--cached_negatives", "--resume_from_checkpoint", "auto")
    expect(content("pieces-cut/model.safetensors") == content("pieces/model.safetensors"), "pieces: a resumed run")
    # The second of two data sets, whose objective is not the first one.
    write_lines("short.jsonl", ["a", "b", "score"], [*zip(GOLDEN["anchors"], GOLDEN["near"], GOLDEN["scores"])])
    both = ["--train", "short.jsonl,long.jsonl", "--embedding_loss", "cosine,negatives"]
    run("pieces-both-whole", *both)
    run("pieces-both", *both, "--cached_negatives")
    error = farthest(losses_of("pieces-both"), losses_of("pieces-both-whole"))
    expect(len(losses_of("pieces-both")) == 6 and error < 1e-5, f"pieces: a loss of two data sets is off by {error}")
    expect(content("pieces-both/model.safetensors") != content("pieces-both-whole/model.safetensors"), "both: cut")


# --- teachers ------------------------------------------------------------------------------------

def check_teachers():
    """A teacher's vectors and scores have the effect of the same numbers in the file."""
    anchors, near = GOLDEN["anchors"], GOLDEN["near"]
    known = dict(zip(anchors + near, vectors_of("case-cosine", anchors + near), strict=True))
    same = ["--skip_checkpoint", "--num_train_epochs", 3, "--learning_rate", 1e-3, "--train_batch_size", 6, "--logging_steps", 1,
            "--max_grad_norm", 0]
    write_lines("texts.jsonl", ["text"], [[text] for text in anchors])
    write_lines("taught.jsonl", ["text", "label"], [[text, known[text]] for text in anchors])
    train("from-file", "taught.jsonl", *same)
    train("from-teacher", "texts.jsonl", *same, "--embedding_loss", "mse", "--teacher", "case-cosine")
    expect(content("from-file/model.safetensors") == content("from-teacher/model.safetensors"), "a teacher's vectors")
    write_lines("both.jsonl", ["text", "other"], zip(anchors, near))
    write_lines("vectors-both.jsonl", ["text", "other", "label"], [[a, b, known[a]] for a, b in zip(anchors, near)])
    train("from-file-2", "vectors-both.jsonl", *same)
    train("from-teacher-2", "both.jsonl", *same, "--embedding_loss", "mse", "--teacher", "case-cosine")
    expect(content("from-file-2/model.safetensors") == content("from-teacher-2/model.safetensors"), "of the first text")
    triplets = list(zip(anchors, near, GOLDEN["far"]))
    known.update(zip(GOLDEN["far"], vectors_of("case-cosine", GOLDEN["far"]), strict=True))
    write_lines("three.jsonl", ["a", "b", "c"], triplets)
    write_lines("scored-three.jsonl", ["a", "b", "c", "scores"],
                [[a, b, c, [sum(x * y for x, y in zip(known[a], known[t])) for t in (b, c)]] for a, b, c in triplets])
    train("margins-file", "scored-three.jsonl", *same)
    train("margins-teacher", "three.jsonl", *same, "--embedding_loss", "margin_mse", "--teacher", "case-cosine")
    for own, wanted in zip(losses_of("margins-teacher"), losses_of("margins-file"), strict=True):
        expect(abs(own - wanted) < 1e-5 * wanted, f"margins of a teacher's embeddings: loss {own}, expected {wanted}")
    write_lines("judged.jsonl", ["query", "response", "label"], [(a, b, i % 2) for i, (a, b, _) in enumerate(triplets)])
    berth("finetune", "rerank", "--model", ENCODER, "--train", "judged.jsonl", "--output", "judge", *COMMON, "--max_steps", 3,
          "--learning_rate", 1e-3)
    write_lines("asked.jsonl", ["query", "document"], [(a, t) for a, b, c in triplets for t in (b, c)])
    done = berth("rerank", "--model", "judge", *COMMON, "--score", "none", "--jsonl", "asked.jsonl")
    scores = {line["index"]: line["score"] for line in map(json.loads, done.stdout.splitlines())}
    write_lines("judged-three.jsonl", ["a", "b", "c", "scores"],
                [[*t, [scores[2 * i], scores[2 * i + 1]]] for i, t in enumerate(triplets)])
    train("judged-file", "judged-three.jsonl", *same)
    train("judged-teacher", "three.jsonl", *same, "--embedding_loss", "margin_mse", "--teacher", "judge")
    for own, wanted in zip(losses_of("judged-teacher"), losses_of("judged-file"), strict=True):
        expect(abs(own - wanted) < 1e-5 * wanted, f"scores of a cross-encoder: loss {own}, expected {wanted}")
    for data, words, code, message in [
            ("taught.jsonl", ["--embedding_loss", "mse"], 78, "expected examples without scores"),
            ("three.jsonl", ["--embedding_loss", "triplet"], 78, "embedding_loss triplet with teacher_model"),
            ("texts.jsonl", ["--embedding_loss", "mse", "--teacher", "nowhere"], 66, "nowhere")]:
        done = train("refused", data, *words, *([] if "--teacher" in words else ["--teacher", "case-cosine"]), code=code)
        expect(message in done.stderr, f"{data} {words}: {done.stderr}")


# --- files ---------------------------------------------------------------------------------------

def check_files():
    train("tsv", "pairs.tsv", *UPDATES)
    train("json", "pairs.jsonl", *UPDATES)
    expect(content("tsv", "model.safetensors") == content("json", "model.safetensors"), "TSV and JSON lines")
    berth("convert", "tsv", "converted", "--to", "hf")
    expect(content("tsv/1_Pooling/config.json") == content("converted/1_Pooling/config.json"), "convert: the modules")
    expect(vectors_of("tsv", GOLDEN["probes"]) == vectors_of("converted", GOLDEN["probes"]), "convert: the vectors")
    # A folder of sentence-transformers says how to pool, scale and cut; its prompt is kept.
    prompts = {"prompts": {"query": "what colour "}, "default_prompt_name": "query"}
    with open("case-cosine_cls_normalized/config_sentence_transformers.json", "w", encoding="utf-8") as file:
        json.dump(prompts, file)
    done = berth("finetune", "embed", "--model", "case-cosine_cls_normalized", "--train", "pairs.jsonl", "--output",
                 "again", *PLAIN, *UPDATES)
    expect('default prompt, "what colour "; sentence-transformers trains without' in done.stderr, "again: a note")
    for name in ("modules.json", "1_Pooling/config.json"):
        expect(content("again", name) == content("case-cosine_cls_normalized", name), f"again: {name}")
    with open("again/config_sentence_transformers.json", encoding="utf-8") as file:
        expect(json.load(file) == prompts, "again: the prompt")
    # Without a length it cuts where the positions end.
    with open("again/sentence_bert_config.json", "w", encoding="utf-8") as file:
        file.write('{"max_seq_length": null}')
    done = berth("finetune", "embed", "--model", "again", "--train", "pairs.jsonl", "--output", "longest", *PLAIN, *UPDATES)
    expect("max_seq_length" not in done.stderr, f"longest: {done.stderr}")
    with open("longest/sentence_bert_config.json", encoding="utf-8") as file:
        expect(json.load(file)["max_seq_length"] == 32, "longest: the length")


def check_errors():
    triplet = list(zip(GOLDEN["anchors"], GOLDEN["near"], GOLDEN["far"]))
    write_lines("triplets.jsonl", ["a", "b", "c"], triplet)
    write_lines("large.jsonl", ["a", "b", "score"], [(a, b, 4.5) for a, b, _ in triplet])
    write_lines("word.jsonl", ["a", "b", "score"], [(a, b, "near") for a, b, _ in triplet])
    write_lines("both.jsonl", ["a", "b", "c", "d", "label"], [(*t, "ben", 1) for t in triplet])
    write_lines("uneven.jsonl", ["a", "b", "c", "label"], [(*t, [1, 2][:1 + (i < 2)]) for i, t in enumerate(triplet)])
    write_lines("list.jsonl", ["a", "b", "c", "label"], [(*t, [1, "far"]) for t in triplet])
    write_lines("empty.jsonl", ["a", "b", "c", "label"], [(*t, []) for t in triplet])
    write_lines("one.jsonl", ["a", "id"], [(t[0], 1) for t in triplet])
    write_lines("long.jsonl", [f"t{i}" for i in range(67)], [["ben"] * 67])
    for data, words, code, message in [
            ("pairs.jsonl", ["--embedding_loss", "cosine"], 78, "expected pairs with a score, found pairs without"),
            ("pairs.jsonl", ["--embedding_loss", "triplet"], 78, "expected triplets without scores, found pairs without scores"),
            ("scored.csv", ["--embedding_loss", "negatives"], 78, "found pairs with scores"),
            ("large.jsonl", [], 65, 'line 1, column "score": score 4.5 is not a cosine'),
            ("word.jsonl", [], 65, 'expected a number, found "near"'),
            ("both.jsonl", [], 78, "found 4 texts with scores"),
            ("uneven.jsonl", [], 65, 'line 3, column "label": expected 2 numbers as in the first example, found 1'),
            ("list.jsonl", [], 65, 'line 1, column "label": expected a number as item 2 of a list'),
            ("empty.jsonl", [], 65, "expected numbers, found an empty list"),
            ("one.jsonl", [], 78, "found single texts without scores"),
            ("long.jsonl", [], 65, "expected 1 to 66 columns of texts, found 67"),
            ("triplets.jsonl", ["--embedding_loss", "mse"], 78, "expected texts with a vector, found triplets without"),
            ("list.jsonl", ["--embedding_loss", "cosent"], 65, "expected a number as item 2"),
            ("pairs.jsonl", ["--matryoshka_dims", "25"], 2, "matryoshka_dims: expected 1 to 24, found 25"),
            ("pairs.jsonl", ["--matryoshka_dims", "24,x"], 2, 'expected at most 16 numbers A,B,..., found "24,x"'),
            ("pairs.jsonl", ["--matryoshka_dims", "24,"], 2, 'expected at most 16 numbers A,B,..., found "24,"'),
            ("pairs.jsonl", ["--matryoshka_dims", "24,1.5"], 2, 'expected whole numbers, found "24,1.5"'),
            ("pairs.jsonl", ["--matryoshka_dims", "24,8", "--matryoshka_weights", "1"], 2, "for each of 2 dimensions"),
            ("pairs.jsonl", ["--matryoshka_dims", "24,8", "--matryoshka_weights", "1,-1"], 2, "expected numbers above 0"),
            ("pairs.jsonl", ["--text_column", "anchor"], 2, "text_pair_column is missing"),
            ("pairs.jsonl", ["--text_column", "anchor", "--text_pair_column", "positiv"], 65, "positive"),
            ("nowhere.jsonl", [], 66, "nowhere.jsonl")]:
        done = train("refused", data, *words, code=code)
        expect(message in done.stderr, f"{data} {words}: {done.stderr}")
        expect(not os.path.exists("refused"), f"{data} {words}: a folder was left")
    done = train("noted", "scored.csv", *UPDATES, "--batch_sampler", "no_duplicates")
    expect("batch_sampler has no effect with embedding_loss cosine" in done.stderr, f"no groups: {done.stderr}")
    done = train("noted", "pairs.jsonl", *UPDATES, "--triplet_margin", 1, "--force")
    expect("triplet_margin has no effect with embedding_loss negatives" in done.stderr, "an option without effect")


for golden_case in GOLDEN["cases"]:
    check_case(golden_case)
pairs = write_pairs()
check_groups()
check_ranks()
check_resumption()
check_no_duplicates()
check_retrieval(pairs)
check_scores()
check_pieces()
check_teachers()
check_files()
check_data_sets()
check_errors()
shutil.rmtree(os.getcwd())
print(f"{len(failures)} expectations failed" if failures else "all good")
sys.exit(1 if failures else 0)
