# SPDX-License-Identifier: Apache-2.0
"""Folders that sentence-transformers saves, and what it makes of texts with them: modules in folders of their own, prompts
in and out of the pooling, prompts by name, vectors of tokens, words with weights, small types of numbers, scores of retrieval.
"""
import json
import shutil

import numpy as np
import sentence_transformers
import torch
import transformers
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling

import peers
import shared

LIMIT = 1e-5
SIZE = 32
TEXTS = ["the quick brown fox jumped over the lazy dog.", "Paris is in France, a good film", "unable", "bad"]
PROMPTS = {"query": "is paris good: ", "passage": "the fox , "}


def note(name, found, wanted, limit=LIMIT):
    found, wanted = np.array(found), np.array(wanted)
    if found.shape != wanted.shape:
        raise SystemExit(f"{name}: the shape {found.shape}, not {wanted.shape}")
    apart = abs(found - wanted).max()
    if not apart <= limit:
        raise SystemExit(f"{name}: apart by {apart:.3g}")


def lines(given, folder, texts, *options, verb="embed"):
    path = given.work / "texts.txt"
    path.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    return [json.loads(line) for line in shared.berth(given, verb, "--model", folder, "--threads", 1, "--precision", "fp32",
                                                      *options, path).splitlines()]


def vectors(given, folder, texts, *options):
    return [line["embedding"] for line in lines(given, folder, texts, *options)]


def make(given, name, mode="mean", include_prompt=True, more=(), texts=PROMPTS, **settings):
    base = given.work / "base"
    if not base.exists():
        torch.manual_seed(1)
        peers.save(base, transformers.BertModel(peers.make_config()))
    parts = [Transformer(str(base), max_seq_length=24), Pooling(SIZE, pooling_mode=mode, include_prompt=include_prompt), *more]
    model = sentence_transformers.SentenceTransformer(modules=parts, device="cpu", prompts=texts, **settings)
    folder = given.work / name
    model.save(str(folder))
    return folder, model


def move_body(folder):
    """The same folder with its Transformer in a folder of its own, as versions before 2 wrote it."""
    modules = json.loads((folder / "modules.json").read_text())
    names = {module["path"] for module in modules} | {"modules.json", "config_sentence_transformers.json", "README.md"}
    body = folder / "0_Transformer"
    body.mkdir()
    for path in list(folder.iterdir()):
        if path.name not in names and path != body:
            shutil.move(path, body / path.name)
    modules[0]["path"] = body.name
    (folder / "modules.json").write_text(json.dumps(modules))


def folders(given):
    for number, more in enumerate(((), (Normalize(),), (Dense(SIZE, 16), Normalize()))):
        folder, model = make(given, f"moved-{number}", more=more, default_prompt_name="passage")
        wanted = model.encode(TEXTS)
        note("a folder", vectors(given, folder, TEXTS), wanted)
        move_body(folder)
        again = sentence_transformers.SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
        note("sentence-transformers on the moved folder", again, wanted)
        note("0_Transformer", vectors(given, folder, TEXTS), wanted)
        flat = shared.convert(given, folder, "hf")
        note("0_Transformer, converted", vectors(given, flat, TEXTS), wanted)
        note("0_Transformer, converted, in sentence-transformers",
             sentence_transformers.SentenceTransformer(str(flat), device="cpu").encode(TEXTS), wanted)
        print(f"0_Transformer with {len(more)} modules more", flush=True)


def prompts(given):
    long = TEXTS + [" ".join(TEXTS * 4)]
    ways = [({}, ())] + [({"prompt_name": name}, ("--prompt_name", name)) for name in (*PROMPTS, "document")]
    ways += [({"prompt": prompt}, ("--prompt", prompt)) for prompt in ("", "an é bad ", "good " * 40)]
    for mode in Pooling.POOLING_MODES:
        for include in (True, False):
            folder, model = make(given, f"{mode}-{include}", mode, include, default_prompt_name="query")
            for more, options in ways:
                note(f"{mode}, prompt {include}, {more}", vectors(given, folder, long, *options), model.encode(long, **more))
    print("poolings with and without prompts", flush=True)


def types(given):
    from sentence_transformers.util import quantize_embeddings
    folder, model = make(given, "types", more=(Normalize(),))
    texts, other = TEXTS, [" ".join(text.split()[:4]) + " fox" for text in TEXTS] + TEXTS[:2]
    calibration = given.work / "calibration.txt"
    calibration.write_text("".join(text + "\n" for text in other))
    for dimensions in (32, 13):
        found = np.array(vectors(given, folder, texts, "--dimensions", dimensions), np.float32)
        ranges = np.array(vectors(given, folder, other, "--dimensions", dimensions), np.float32)
        for kind in ("float32", "int8", "uint8", "binary", "ubinary"):
            for calibrated in (False, True)[:1 + kind.endswith("int8")]:
                options = ["--dimensions", dimensions, "--output_type", kind]
                options += ["--calibration_file", calibration] if calibrated else []
                wanted = quantize_embeddings(found, kind, calibration_embeddings=ranges if calibrated else None)
                said = np.array(vectors(given, folder, texts, *options))
                lines(given, folder, texts, *options, "--output", given.work / "out.npy")
                stored = np.load(given.work / "out.npy")
                name = f"{kind}, {dimensions} numbers, calibrated {calibrated}"
                if stored.dtype != wanted.dtype:
                    raise SystemExit(f"{name}: the type {stored.dtype}, not {wanted.dtype}")
                note(name, stored.astype(float), wanted.astype(float), 0 if kind != "float32" else LIMIT)
                note(name, said, wanted.astype(float), 0 if kind != "float32" else LIMIT)
    print("types of numbers", flush=True)


def tokens(given):
    for include, default in ((True, None), (True, "query"), (False, "passage")):
        folder, model = make(given, f"tokens-{include}-{default}", include_prompt=include, more=(Normalize(),),
                             default_prompt_name=default)
        for more, options in (({}, ()), ({"prompt_name": "query"}, ("--prompt_name", "query"))):
            wanted = model.encode(TEXTS, output_value="token_embeddings", **more)
            found = lines(given, folder, TEXTS, "--tokens", *options)
            for line, other in zip(found, wanted, strict=True):
                note("vectors of tokens", line["token_embeddings"], other.numpy())
    print("vectors of tokens", flush=True)


def sparse(given):
    from sentence_transformers import SparseEncoder
    from sentence_transformers.sparse_encoder.modules import MLMTransformer, SpladePooling
    import architectures
    long = TEXTS + [" ".join(TEXTS * 4)]
    for name in ("bert", "roberta", "distilbert", "electra"):
        row = architectures.Row(given, name)
        base, _ = row.save("ForMaskedLM")
        for default in (None, "query"):
            parts = [MLMTransformer(str(base), max_seq_length=24), SpladePooling("max")]
            model = SparseEncoder(modules=parts, device="cpu", prompts=PROMPTS, default_prompt_name=default)
            folder = row.work / f"sparse-{default}"
            model.save(str(folder))
            for more, options in (({}, ()), ({"prompt_name": "passage"}, ("--prompt_name", "passage"))):
                wanted = model.encode(long, convert_to_sparse_tensor=False, **more)
                size = wanted.shape[1]
                found = lines(given, folder, long, "--sparse", *options)
                dense = np.zeros((len(long), size))
                for number, line in enumerate(found):
                    weights = [word["weight"] for word in line["words"]]
                    if weights != sorted(weights, reverse=True):
                        raise SystemExit(f"{name}: not in the order of weights: {weights}")
                    for word in line["words"]:
                        dense[number, word["token"]] = word["weight"]
                        if word["token_str"] != model.tokenizer.convert_ids_to_tokens(word["token"]):
                            raise SystemExit(f"{name}: another word: {word}")
                note(f"{name}, sparse", dense, wanted.numpy())
        few = lines(given, folder, long, "--sparse", "--top_k", 3)
        for line, whole in zip(few, lines(given, folder, long, "--sparse"), strict=True):
            if line["words"] != whole["words"][:3]:
                raise SystemExit(f"{name}: the first words: {line}, {whole}")
        print(f"{name}: sparse vectors", flush=True)


def retrieval(given):
    from sentence_transformers.evaluation import InformationRetrievalEvaluator
    words = "the quick brown fox jumped over lazy dog paris is in france good film unable bad".split()
    draws = np.random.default_rng(1)
    queries, corpus = ({f"{kind}{number}": " ".join(draws.choice(words, length)) for number in range(count)}
                       for kind, count, length in (("q", 40, 5), ("d", 150, 12)))
    relevant = {query: {f"d{number}" for number in draws.choice(150, 1 + index % 7, replace=False)}
                for index, query in enumerate(queries) if index % 5}
    (given.work / "queries.jsonl").write_text("".join(json.dumps({"_id": i, "text": text}) + "\n" for i, text in queries.items()))
    (given.work / "corpus.jsonl").write_text("".join(
        json.dumps({"_id": i, "title": text[:9], "text": text[10:]} if text[9] == " " else {"_id": i, "text": text}) + "\n"
        for i, text in corpus.items()))
    (given.work / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(
        f"{query}\t{document}\t1\n" for query, documents in relevant.items() for document in sorted(documents)))
    wanted_by = InformationRetrievalEvaluator(queries, corpus, relevant, precision_recall_at_k=[1, 3, 5, 10, 100], write_csv=False)
    for number, prompts in enumerate(({}, PROMPTS, {**PROMPTS, "document": "in paris "})):
        folder, model = make(given, f"retrieval-{number}", more=(Normalize(),), texts=prompts)
        wanted = {name.removeprefix("cosine_").replace("@", "_at_"): value for name, value in wanted_by(model).items()}
        files = [word for option, name in (("--queries", "queries.jsonl"), ("--corpus", "corpus.jsonl"), ("--relevant", "qrels.tsv"))
                 for word in (option, given.work / name)]
        shared.berth(given, "evaluate", "embed", "--model", folder, *files, "--threads", 1, "--precision", "fp32", "--output",
                     given.work / f"scores-{number}")
        scores = json.loads((given.work / f"scores-{number}" / "eval_results.json").read_text())
        names = [name for name in scores if "_at_" in name]
        if len(names) != 12:
            raise SystemExit(f"the scores {names}")
        note(f"scores with prompts {prompts}", [scores[name] for name in names], [wanted[name.removeprefix("eval_")] for name in names],
             1e-12)
    print("scores of retrieval, with and without prompts", flush=True)


def cross_encoders(given):
    """A folder of CrossEncoder without an activation, and an encoder without a head, after training for pairs."""
    from sentence_transformers import CrossEncoder
    base, start = given.work / "cross-base", given.work / "cross-start"
    torch.manual_seed(1)
    peers.save(base, transformers.BertModel(peers.make_config()))
    CrossEncoder(str(base), num_labels=1, activation_fn=torch.nn.Identity(), device="cpu").save_pretrained(str(start))
    pairs = [(first, second) for first in TEXTS for second in TEXTS[:2]]
    data, asked = given.work / "cross.jsonl", given.work / "asked.jsonl"
    data.write_text("".join(json.dumps({"query": a, "response": b, "label": i % 2}) + "\n" for i, (a, b) in enumerate(pairs)))
    asked.write_text("".join(json.dumps({"query": a, "document": b}) + "\n" for a, b in pairs))
    for model in (base, start):
        folder = given.work / f"{model.name}-trained"
        shared.berth(given, "finetune", "rerank", "--model", model, "--train", data, "--output", folder, "--threads", 1,
                     "--max_steps", 3, "--learning_rate", 1e-3, "--precision", "fp32")
        found = {line["index"]: line["score"] for line in map(json.loads, shared.berth(
            given, "rerank", "--model", folder, "--threads", 1, "--precision", "fp32", "--jsonl", asked).splitlines())}
        model = CrossEncoder(str(folder), device="cpu")
        if not isinstance(model.activation_fn, torch.nn.Sigmoid):
            raise SystemExit(f"{folder.name}: the activation {model.activation_fn}")
        note(folder.name, [found[i] for i in range(len(pairs))], model.predict(pairs))
    print("cross-encoders that Berth trained", flush=True)
