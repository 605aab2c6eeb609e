# SPDX-License-Identifier: Apache-2.0
"""What current versions of transformers and sentence-transformers save is loaded, and the results on the same texts are
compared: embeddings, class probabilities, multi-label sigmoids, tags, words for [MASK], logits of ONNX (if onnxruntime
is installed). Checkpoints of Berth are given to the Trainer, which (if accelerate is installed) resumes one, also with
the moments that convert --to trainer writes, and Berth resumes the Trainer's. The models are tiny ones with random
weights, made and saved here.
"""
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import safetensors.torch
import sentence_transformers
import torch
import transformers

import shared

torch.manual_seed(0)
torch.set_num_threads(1)
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

LIMIT = 1e-5
WORDS = ("the a an quick brown fox jump ##s ##ed over lazy dog paris is in france . , ? ! é e cafe "
         "café 中 国 ##国 un ##able good bad film hello Hello HELLO").split()
TEXTS = ["the quick brown fox jumped over the lazy dog.", "Café in Paris!", "中国 good film",
         "unable", "Hello hello HELLO bad film, bad film? " * 20]


def note(name, difference):
    if not difference <= LIMIT:
        sys.exit(f"{name}: apart by {difference:.3g}")


def berth(given, *words):
    return shared.berth(given, *words, "--threads", 1)


def convert(given, source, target, kind):
    return shared.convert(given, source, kind, "--allow_lossy", target=target)


def embeddings(given, folder, *more):
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write("".join(text + "\n" for text in TEXTS))
        file.flush()
        lines = berth(given, "embed", "--model", folder, file.name, *more).splitlines()
    return np.array([json.loads(line)["embedding"] for line in lines])


# --- models ---------------------------------------------------------------------------------------

def make_tokenizer(**rules):
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    return transformers.BertTokenizer(
        vocab={word: number for number, word in enumerate(specials + WORDS)}, **rules)


def make_config(**more):
    return transformers.BertConfig(**{**dict(
        vocab_size=5 + len(WORDS), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=48, max_position_embeddings=64, initializer_range=0.3), **more})


def save(folder, model, **rules):
    model.eval().save_pretrained(folder)
    make_tokenizer(**rules).save_pretrained(folder)
    assert (folder / "tokenizer.json").exists()
    return folder


# --- embeddings -----------------------------------------------------------------------------------

def check_sentences(given, folder, name):
    model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    wanted = model.encode(TEXTS)
    note(name, abs(embeddings(given, folder) - wanted).max())
    copy = convert(given, folder, folder.with_name(folder.name + "-copy"), "hf")
    assert (copy / "vocab.txt").exists() and (copy / "tokenizer.json").exists(), copy
    again = sentence_transformers.SentenceTransformer(str(copy), device="cpu").encode(TEXTS)
    note(name + ", converted", abs(again - wanted).max())


def poolings(given):
    work = given.work
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling
    base = save(work / "base", transformers.BertModel(make_config()))
    for mode in Pooling.POOLING_MODES:
        for scaled in (False, True):
            transformer = Transformer(str(base), max_seq_length=24)
            parts = [transformer, Pooling(32, pooling_mode=mode)]
            parts += [Normalize()] if scaled else []
            folder = work / f"{mode}-{scaled}"
            sentence_transformers.SentenceTransformer(modules=parts, device="cpu").save(str(folder))
            check_sentences(given, folder, f"pooling {mode}{', scaled' if scaled else ''}")
    functions = [torch.nn.Tanh(), torch.nn.Identity(), torch.nn.ReLU(), torch.nn.GELU(), torch.nn.Sigmoid(), torch.nn.SiLU()]
    for function in functions:
        for after in ([], [Normalize()]):
            parts = [Transformer(str(base)), Pooling(32), *after, Dense(32, 8, bias=not after, activation_function=function),
                     Dense(8, 12, activation_function=torch.nn.Identity()), *after]
            dense = work / f"dense-{type(function).__name__}-{len(after)}"
            model = sentence_transformers.SentenceTransformer(modules=parts, device="cpu", truncate_dim=10 if after else None)
            model.save(str(dense))
            check_sentences(given, dense, f"Dense with {type(function).__name__}")


def rules(given):
    """Every way to treat case, accents and ideographs, by mean pooling of transformers' output."""
    work = given.work
    rules = [dict(do_lower_case=lower, strip_accents=strip, tokenize_chinese_chars=chinese)
             for lower in (True, False) for strip in (None, True, False)
             for chinese in (True, False)]
    for number, rule in enumerate(rules):
        model = transformers.BertModel(make_config())
        folder = save(work / f"rules{number}", model, **rule)
        wanted = mean_of(folder)
        found = embeddings(given, folder, "--normalize", "false", "--max_seq_length", "64")
        note("tokenizer rules", abs(found - wanted).max())


# --- tokens ---------------------------------------------------------------------------------------

TOKEN_TEXTS = ["a [E1] quick[E2] Hello [e1]", "Café [CLS] in Paris!", "中国 unable hello"]


def tokens_agree(given, folder, name):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    (folder / "texts.txt").write_text("".join(text + "\n" for text in TOKEN_TEXTS), encoding="utf-8")
    lines = subprocess.run([given.build / "berth", "tokenize", "--model", str(folder), "--ids", "--special", str(folder / "texts.txt")],
                           text=True, stdout=subprocess.PIPE, check=True).stdout.splitlines()
    wanted = [tokenizer(text)["input_ids"] for text in TOKEN_TEXTS]
    if wanted != [[int(id) for id in line.split()] for line in lines]:
        sys.exit(f"tokens of {name}: expected {wanted}, found {lines}")


def rewrite(path, change):
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def exchange_words(whole):
    words = whole["model"]["vocab"]
    words["hello"], words["quick"] = words["quick"], words["hello"]


def write_slow(folder, settings, specials, added):
    """As slow tokenizers of older versions do."""
    (folder / "tokenizer.json").unlink()
    for name, content in (("tokenizer_config.json", settings), ("special_tokens_map.json", specials),
                          ("added_tokens.json", added)):
        (folder / name).write_text(json.dumps(content), encoding="utf-8")


def tokens(given):
    """The vocabulary, added tokens and rules of folders, and of Berth's copies of them."""
    work = given.work
    bert = {"tokenizer_class": "BertTokenizer"}
    count = 5 + len(WORDS)
    entry = dict(content="[E1]", lstrip=False, rstrip=False, normalized=False, single_word=False, special=True)
    extra = {"additional_special_tokens": ["[E2]", "[E1]", "quick"]}
    changes = {
        "plain": lambda folder: None,
        "other words in vocab.txt": lambda folder: rewrite(folder / "tokenizer.json", exchange_words),
        "rules of the class": lambda folder: rewrite(folder / "tokenizer_config.json", lambda c: c.pop("do_lower_case")),
        "rules of tokenizer.json": lambda folder: rewrite(
            folder / "tokenizer_config.json", lambda c: c.update(tokenizer_class="TokenizersBackend", do_lower_case=True)),
        "tokens of tokenizer.json": lambda folder: (
            rewrite(folder / "tokenizer.json", lambda c: c["added_tokens"].append(dict(entry, id=count))),
            rewrite(folder / "tokenizer_config.json", lambda c: c.pop("added_tokens_decoder", None))),
        "slow, settings": lambda folder: write_slow(folder, {**bert, **extra}, {}, {"[E1]": count + 1, "[E2]": count}),
        "slow, without ids": lambda folder: write_slow(folder, bert, extra, {}),
        "slow, decoder": lambda folder: write_slow(folder, dict(bert, added_tokens_decoder={count: entry}), extra, {}),
    }
    for name, change in changes.items():
        folder = save(work / f"tokens, {name}", transformers.BertModel(make_config(vocab_size=64)), do_lower_case=False)
        words = make_tokenizer().convert_ids_to_tokens(range(count))
        (folder / "vocab.txt").write_text("".join(word + "\n" for word in words), encoding="utf-8")
        change(folder)
        tokens_agree(given, folder, name)
        tokens_agree(given, convert(given, folder, folder.with_name(folder.name + "-copy"), "hf"), name + ", converted")
    for key in ("cls", "sep", "pad", "mask", "unk"):
        rewrite(folder / "tokenizer_config.json", lambda c, key=key: c.update({key + "_token": "quick"}))
        refused = subprocess.run([given.build / "berth", "tokenize", "--model", str(folder), os.devnull],
                                 stderr=subprocess.PIPE, text=True)
        assert refused.returncode == 78 and key + "_token" in refused.stderr, refused.stderr
        rewrite(folder / "tokenizer_config.json", lambda c, key=key: c.pop(key + "_token"))


def lower_cased(given):
    """sentence-transformers lower-cases, but leaves the accents to a cased tokenizer."""
    work = given.work
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling
    base = save(work / "cased", transformers.BertModel(make_config()), do_lower_case=False)
    folder = work / "lower-cased"
    sentence_transformers.SentenceTransformer(modules=[Transformer(str(base)), Pooling(32)], device="cpu").save(str(folder))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 24, "do_lower_case": true}')
    model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    if not model[0].do_lower_case:
        return
    note("lower-cased", abs(embeddings(given, folder) - model.encode(TEXTS)).max())


def mean_of(folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    rows = []
    for text in TEXTS:
        feed = tokenizer(text, return_tensors="pt", truncation=True, max_length=64)
        with torch.no_grad():
            rows.append(model(**feed).last_hidden_state[0].mean(0).numpy())
    return np.array(rows)


# --- activations ----------------------------------------------------------------------------------

def activations(given):
    work = given.work
    from transformers.activations import ACT2CLS
    for name in sorted(set(ACT2CLS) - {"prelu", "xielu", "sqrtsoftplus"}):
        folder = save(work / f"act-{name}", transformers.BertModel(make_config(hidden_act=name)))
        found = embeddings(given, folder, "--normalize", "false", "--max_seq_length", "64")
        note("hidden_act", abs(found - mean_of(folder)).max())
        if importlib.util.find_spec("onnxruntime"):
            check_onnx(given, folder)


def check_onnx(given, folder):
    import onnxruntime
    graph = convert(given, folder, folder.with_name(folder.name + "-onnx"), "onnx")
    onnxruntime.set_default_logger_severity(3)
    session = onnxruntime.InferenceSession(str(graph / "model.onnx"),
                                           providers=["CPUExecutionProvider"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    feed = tokenizer(TEXTS, return_tensors="pt", padding=True, truncation=True, max_length=64)
    with torch.no_grad():
        wanted = model(**feed).last_hidden_state.numpy()
    found = session.run(None, {key: value.numpy() for key, value in feed.items()})[0]
    mask = feed["attention_mask"].numpy()[..., None]
    note("ONNX hidden_act", abs((found - wanted) * mask).max())


# --- classes --------------------------------------------------------------------------------------

def probabilities(given, folder, work):
    table, said = work / "texts.csv", work / ("said-" + folder.name)
    table.write_text("text\n" + "".join(f'"{text}"\n' for text in TEXTS), encoding="utf-8")
    berth(given, "predict", "classify", "--model", folder, "--input", table, "--text_column", "text",
          "--output", said, "--max_seq_length", "64", "--precision", "fp32")
    return np.loadtxt(said / "test_results.tsv", ndmin=2), (said / "predict_results.txt").read_text()


def classes(given):
    work = given.work
    kinds = {"two classes without names": (dict(num_labels=2), torch.softmax),
             "five classes": (dict(num_labels=5), torch.softmax),
             "several labels": (dict(num_labels=4, problem_type="multi_label_classification"), None),
             "a regression": (dict(num_labels=1), "value")}
    for name, (settings, share) in kinds.items():
        model = transformers.BertForSequenceClassification(make_config(**settings))
        folder = save(work / name.replace(" ", "-"), model)
        config = json.loads((folder / "config.json").read_text())
        if name.startswith("two"):
            config.pop("id2label", None), config.pop("label2id", None), config.pop("num_labels", None)
            (folder / "config.json").write_text(json.dumps(config))
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        rows = []
        for text in TEXTS:
            feed = tokenizer(text, return_tensors="pt", truncation=True, max_length=64)
            with torch.no_grad():
                logits = model(**feed).logits[0]
            rows.append((logits if share == "value" else torch.sigmoid(logits) if share is None
                         else share(logits, -1)).numpy())
        found, words = probabilities(given, folder, work)
        note(name, abs(found - np.array(rows)).max())
        assert share == "value" or "LABEL_" in words, words


# --- tags of words --------------------------------------------------------------------------------

SENTENCES_OF_WORDS = [["the", "quick", "brown", "fox", "jumped", "over", "Paris", "."], ["unable", "film"],
                      ["Café", "in", "France", "!"]]


def tag_logits(model, tokenizer, words):
    """The logits of the first piece of each word."""
    feed = tokenizer(words, is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
        logits = model(**feed).logits[0]
    places = feed.word_ids()
    return logits[[places.index(word) for word in range(len(words))]]


def check_tagger(given, folder, name):
    """Berth's tags are those of transformers; the graph's logits are, too."""
    _, loaded = transformers.BertForTokenClassification.from_pretrained(folder, output_loading_info=True)
    assert not loaded["missing_keys"], (name, loaded)
    model = transformers.BertForTokenClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    table, said = folder / "words.txt", folder / "said"
    table.write_text("".join("".join(word + "\n" for word in words) + "\n" for words in SENTENCES_OF_WORDS), encoding="utf-8")
    berth(given, "predict", "tokens", "--model", folder, "--input", table, "--output", said, "--precision", "fp32",
          "--max_seq_length", 64)
    wanted = [" ".join(model.config.id2label[k] for k in tag_logits(model, tokenizer, words).argmax(-1).tolist())
              for words in SENTENCES_OF_WORDS]
    assert (said / "predictions.txt").read_text().splitlines() == wanted, (name, wanted)
    if importlib.util.find_spec("onnxruntime"):
        import onnxruntime
        graph = convert(given, folder, folder.with_name(folder.name + "-onnx"), "onnx")
        session = onnxruntime.InferenceSession(str(graph / "model.onnx"), providers=["CPUExecutionProvider"])
        for words in SENTENCES_OF_WORDS:
            feed = tokenizer(words, is_split_into_words=True, return_tensors="np")
            found, = session.run(["logits"], dict(feed))
            with torch.no_grad():
                logits = model(**tokenizer(words, is_split_into_words=True, return_tensors="pt")).logits.numpy()
            note(name, abs(found - logits).max() / abs(logits).max())


def tags(given):
    """Token classifiers without a pooler, and with one, as older versions of transformers wrote them."""
    work = given.work
    labels = dict(enumerate(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]))
    for name in ("tagger", "tagger-with-pooler"):
        model = transformers.BertForTokenClassification(make_config(id2label=labels, initializer_range=0.8))
        if name.endswith("pooler"):
            model.bert.pooler = transformers.models.bert.modeling_bert.BertPooler(model.config)
        folder = save(work / name, model)
        stored = safetensors_keys(folder / "model.safetensors")
        assert ("bert.pooler.dense.weight" in stored) == name.endswith("pooler"), stored
        check_tagger(given, folder, name)
        for form in ("torch", "nvidia", "tensorflow", "deepspeed"):
            there = convert(given, folder, work / f"{name}-{form}", form)
            if form == "tensorflow":  # as Google's programs leave it, bert_config.json
                (there / "config.json").unlink()
            back = convert(given, there, work / f"{name}-{form}-back", "hf")
            assert json.loads((back / "config.json").read_text())["architectures"] == ["BertForTokenClassification"], form
            check_tagger(given, back, f"{name} by way of {form}")


def safetensors_keys(path):
    with open(path, "rb") as file:
        return json.loads(file.read(int.from_bytes(file.read(8), "little")))


# --- answers --------------------------------------------------------------------------------------

def answers(given):
    """The best span of transformers' logits is Berth's answer."""
    work = given.work
    torch.manual_seed(5)
    folder = save(work / "answers", transformers.BertForQuestionAnswering(make_config()))
    context, question = "the quick brown fox jumped over the lazy dog in paris", "the dog is in ?"
    said = berth(given, "answer", "--model", folder, "--question", question, "--context", context,
                 "--json")
    answer = json.loads(said.splitlines()[0])["answer"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(folder).eval()
    feed = tokenizer(question, context, return_tensors="pt", return_offsets_mapping=True)
    offsets = feed.pop("offset_mapping")[0].tolist()
    with torch.no_grad():
        out = model(**feed)
    first = feed["token_type_ids"][0].tolist().index(1)
    last = len(offsets) - 1
    best = max(((out.start_logits[0, s] + out.end_logits[0, e]).item(), s, e)
               for s in range(first, last) for e in range(s, min(last, s + 30)))
    wanted = context[offsets[best[1]][0]:offsets[best[2]][1]]
    note("answers", 0.0 if answer == wanted else 1.0)
    assert answer == wanted, (answer, wanted)


# --- the Trainer ----------------------------------------------------------------------------------

SENTENCES = ["the quick brown fox jumped over the lazy dog.", "the lazy dog is in paris.", "the fox is in france."]


# --- masked words -----------------------------------------------------------------------------------

MASKED_TEXTS = ["the quick [MASK] fox jumped over the lazy dog.", "Café in [MASK]!", "un[MASK] film, [MASK] ?",
                "the zebra is [MASK]", "[MASK] 中国 [MASK] . [MASK]"]


def flat(found):
    return [word for mask in found for word in (mask if isinstance(mask, list) else [mask])]


def check_fill(given, folder, name):
    model = transformers.BertForMaskedLM.from_pretrained(folder)
    pipeline = transformers.pipeline("fill-mask", model=model, tokenizer=transformers.AutoTokenizer.from_pretrained(folder),
                                     device="cpu", top_k=3)
    (folder / "texts.txt").write_text("".join(text + "\n" for text in MASKED_TEXTS), encoding="utf-8")
    lines = berth(given, "fill", "--model", folder, "--top_k", 3, folder / "texts.txt").splitlines()
    for text, line in zip(MASKED_TEXTS, lines, strict=True):
        wanted, found = pipeline(text), json.loads(line)
        assert [type(item) for item in wanted] == [type(item) for item in found], (text, found)
        for a, b in zip(flat(wanted), flat(found), strict=True):
            note(name, abs(a.pop("score") - b.pop("score")))
            if a != b:
                sys.exit(f"{name}, {text!r}: expected {a}, found {b}")


def run_mlm_blocks(tokenizer, lines, length):
    """The blocks of run_mlm without --line_by_line."""
    blocks = 0
    for first in range(0, len(lines), 1000):
        blocks += sum(map(len, tokenizer(lines[first:first + 1000])["input_ids"])) // length
    return blocks


def masked(given):
    work = given.work
    for kind in (transformers.BertForMaskedLM, transformers.BertForPreTraining):
        folder = save(work / kind.__name__, kind(make_config(initializer_range=0.8)))
        check_fill(given, folder, f"words of a {kind.__name__}")
    lines = [line for _ in range(300) for line in (*TEXTS, "", "  the unable fox ")]
    text = work / "lines.txt"
    text.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    folder, trained = work / "BertForMaskedLM", work / "masked"
    report = berth(given, "pretrain", "--objective", "mlm", "--model", folder, "--train_file", text, "--output", trained,
                   "--max_seq_length", 32, "--max_steps", 3, "--validation_split_percentage", 10, "--json_summary",
                   work / "log.json", "--masked_lm_prob", 0.2, "--whole_word_mask", "--precision", "fp32")
    held = round(len(lines) * 10 / 100)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    for part in (lines[:held], lines[held:]):
        expected = f"{run_mlm_blocks(tokenizer, part, 32)} sequences"
        if expected not in (work / "log.json").read_text():
            sys.exit(f"{trained}: expected {expected}: {report}")
    _, loaded = transformers.BertForMaskedLM.from_pretrained(trained, output_loading_info=True)
    if loaded["missing_keys"] or loaded["unexpected_keys"] or loaded["mismatched_keys"]:
        sys.exit(f"{trained}: {loaded}")
    check_fill(given, trained, "words of a trained model")
    for form in ("torch", "nvidia", "tensorflow", "deepspeed"):
        there = convert(given, trained, work / f"masked-{form}", form)
        back = convert(given, there, work / f"masked-{form}-back", "hf")
        assert json.loads((back / "config.json").read_text())["architectures"] == ["BertForMaskedLM"], form
        check_fill(given, back, f"words of a model converted to {form} and back")
    if importlib.util.find_spec("onnxruntime"):
        check_masked_graph(convert(given, trained, work / "masked-onnx", "onnx"), trained)


def check_masked_graph(graph, folder):
    import onnxruntime
    session = onnxruntime.InferenceSession(str(graph / "model.onnx"), providers=["CPUExecutionProvider"])
    tokens = transformers.AutoTokenizer.from_pretrained(folder)(MASKED_TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        wanted = transformers.BertForMaskedLM.from_pretrained(folder)(**tokens).logits.numpy()
    found, = session.run(["logits"], {key: value.numpy() for key, value in tokens.items()})
    kept = tokens["attention_mask"].numpy() > 0
    note("ONNX's logits of words", abs(found - wanted)[kept].max() / abs(wanted).max())


def write_questions(path):
    context = " ".join(SENTENCES)
    answers = {"the lazy dog is in?": "paris", "the fox is in?": "france", "over the?": "lazy dog", "the fox is?": "quick"}
    questions = [{"id": question, "question": question,
                  "answers": [{"text": answer, "answer_start": context.index(answer)}]}
                 for question, answer in answers.items()]
    paragraph = {"context": context, "qas": questions}
    path.write_text(json.dumps({"version": "1.1", "data": [{"title": "", "paragraphs": [paragraph]}]}))
    return path


def check_state(folder, **expected):
    """What the Trainer reads first when it resumes."""
    state = transformers.TrainerState.load_from_json(str(folder / "trainer_state.json"))
    for key, value in expected.items():
        if getattr(state, key) != value:
            sys.exit(f"{folder}: the Trainer reads {key} {getattr(state, key)}, not {value}")
    if not state.stateful_callbacks["Berth"]["attributes"]["settings"]:
        sys.exit(f"{folder}: no settings of Berth")
    state.save_to_json(str(folder / "saved.json"))
    if json.loads((folder / "saved.json").read_text())["stateful_callbacks"] != state.stateful_callbacks:
        sys.exit(f"{folder}: the Trainer loses what Berth needs")
    return state


def resume_with_trainer(given, folder, data, work):
    """The third and last update of a run, by the Trainer, which also saves a checkpoint of its own. Berth resumes from
    that."""
    model = transformers.BertForQuestionAnswering.from_pretrained(folder)
    rows = [{"input_ids": [2, 5, 6, 3], "start_positions": 1, "end_positions": 2}] * 4
    arguments = transformers.TrainingArguments(
        output_dir=str(work / "trainer"), max_steps=3, per_device_train_batch_size=2, logging_steps=1,
        eval_strategy="steps", report_to=[], use_cpu=True, disable_tqdm=True)
    trainer = transformers.Trainer(model=model, args=arguments, train_dataset=rows, eval_dataset=rows)
    trainer.train(resume_from_checkpoint=str(folder))
    steps = [entry["step"] for entry in trainer.state.log_history if "loss" in entry]
    if trainer.state.global_step != 3 or steps != [1, 2, 3]:
        sys.exit(f"the Trainer resumes {folder} at other updates: {steps}")
    saved = transformers.TrainerState.load_from_json(str(work / "trainer/checkpoint-3/trainer_state.json"))
    if saved.global_step != 3 or "Berth" not in saved.stateful_callbacks:
        sys.exit(f"the Trainer saves {saved} after {folder}")
    berth(given, "finetune", "squad", "--model", folder, "--train", data, "--output", work / "again",
          "--resume_from_checkpoint", work / "trainer/checkpoint-3", "--train_batch_size", 2, "--max_steps", 4,
          "--max_seq_length", 64)
    shutil.rmtree(work / "trainer")
    shutil.rmtree(work / "again")


def write_trainers(model, folder, is_safe):
    """A checkpoint as the Trainer saves it, where each parameter's moments have a value of their own, by its name."""
    trainer = transformers.Trainer(model=model, args=transformers.TrainingArguments(
        output_dir=str(folder), weight_decay=0.01, report_to=[], use_cpu=True))
    optimizer = trainer.create_optimizer()
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    values = {}
    for parameter in (parameter for group in optimizer.param_groups for parameter in group["params"]):
        name = names[id(parameter)]
        values[name] = len(values) + 1
        if type(model) is not transformers.BertModel or "pooler" not in name:  # which gets no gradient there
            optimizer.state[parameter] = {
                "step": torch.tensor(3.), "exp_avg": torch.full_like(parameter, 1000 * values[name]),
                "exp_avg_sq": torch.full_like(parameter, 1e9 * values[name])}
    save(folder, model)
    if not is_safe:
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
    torch.save(optimizer.state_dict(), folder / "optimizer.pt")
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": 3, "log_history": [], "total_flos": 1.0}))
    return values


def check_moments(given, data, work):
    """Each moment of a Trainer's checkpoint comes to the parameter of its name, whatever the head."""
    (work / "tags.txt").write_text("good B-A\nfilm O\n\n" * 4)
    (work / "pairs.tsv").write_text("sentence1\tsentence2\n" + "good film\tbad film\n" * 4)
    labels = {"id2label": {0: "B-A", 1: "O"}, "label2id": {"B-A": 0, "O": 1}}
    kinds = {"squad": (transformers.BertForQuestionAnswering, {}, ["finetune", "squad", "--train", data]),
             "mlm": (transformers.BertForMaskedLM, {},
                     ["pretrain", "--objective", "mlm", "--train_file", work / "text.txt", "--do_eval", "false"]),
             "tokens": (transformers.BertForTokenClassification, labels,
                        ["finetune", "tokens", "--train", work / "tags.txt"]),
             "embed": (transformers.BertModel, {}, ["finetune", "embed", "--train", work / "pairs.tsv"])}
    for kind, (head, more, words) in kinds.items():
        for is_safe in (True, False):
            folder, output = work / "moments/checkpoint-3", work / "moments-out"
            values = write_trainers(head(make_config(**more)), folder, is_safe)
            berth(given, *words, "--model", folder, "--output", output, "--resume_from_checkpoint", folder,
                  "--max_steps", 4, "--train_batch_size", 4, "--precision", "fp32", "--learning_rate", 1e-9,
                  "--max_seq_length", 32, "--save_total_limit", 1)
            found = safetensors.torch.load_file(output / "checkpoint-4/optimizer.safetensors")
            for key in (key for key in found if key.startswith("exp_avg.")):
                name = key.removeprefix("exp_avg.")
                value = values.get(name, values.get(name.removeprefix("bert.")))
                near = value is not None and (found[key] / 900 - value).abs().max() < 0.01
                if not near or (found[f"exp_avg_sq.{name}"] / 0.999e9 - value).abs().max() > 1e-4:
                    sys.exit(f"{kind}: {name} has the moments of another parameter")
            shutil.rmtree(work / "moments")
            shutil.rmtree(output)
        print(f"{kind}: the moments of {len(values)} parameters of a Trainer's checkpoint")


# The same run by Berth and by the Trainer: an update takes every example, so that the order does not matter.
RUN = dict(learning_rate=2e-3, weight_decay=0.1, adam_beta2=0.99, warmup_steps=2, max_steps=6, max_grad_norm=0.5)
LAYOUT = ("config.json", "model.safetensors", "optimizer.pt", "scheduler.pt", "trainer_state.json")


def berth_run(given, words, model, output, examples):
    """A run of Berth with a checkpoint in its middle, which is converted to a Trainer's."""
    options = [word for key, value in RUN.items() for word in ("--" + key, value)]
    berth(given, *words, "--model", model, "--output", output, "--train_batch_size", examples, "--save_steps", 3,
          "--precision", "fp32", "--max_seq_length", 64, "--logging_steps", 1, "--schedule", "linear", *options)
    return convert(given, output / "checkpoint-3", output.with_name(output.name + "-3"), "trainer")


def trainer_of(model, output, examples, rows=()):
    return transformers.Trainer(model=model, train_dataset=list(rows), args=transformers.TrainingArguments(
        output_dir=str(output), per_device_train_batch_size=examples, logging_steps=1, save_strategy="no", report_to=[],
        use_cpu=True, disable_tqdm=True, log_level="error", **RUN))


def check_own_moments(folder, checkpoint, model, work):
    """The Trainer's optimizer takes each of Berth's moments for the parameter of its name, in the group of its name."""
    trainer = trainer_of(model, work / "unused", 1)
    optimizer, scheduler = trainer.create_optimizer(), trainer.create_scheduler(RUN["max_steps"])
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    optimizer.load_state_dict(torch.load(folder / "optimizer.pt", weights_only=True))
    scheduler.load_state_dict(torch.load(folder / "scheduler.pt", weights_only=True))
    stored = safetensors.torch.load_file(checkpoint / "optimizer.safetensors")
    found = 0
    for group in optimizer.param_groups:
        for name, state in ((names[id(parameter)], optimizer.state[parameter]) for parameter in group["params"]):
            if ("LayerNorm" in name or "bias" in name) != (group["weight_decay"] == 0):
                sys.exit(f"{folder}: {name} is in the other group")
            key = name if f"exp_avg.{name}" in stored else "bert." + re.search(r"(embeddings|encoder|pooler)\..*", name)[0]
            if not state and f"exp_avg.{key}" not in stored and "pooler" in name:
                continue  # a model of embeddings does not train it
            if state["step"] != 3 or any(not torch.equal(state[moment], stored[f"{moment}.{key}"])
                                         for moment in ("exp_avg", "exp_avg_sq")):
                sys.exit(f"{folder}: {name} has the moments of another parameter")
            found += 1
    entries = json.loads((checkpoint.with_name("checkpoint-6") / "trainer_state.json").read_text())["log_history"]
    rate = next(entry["learning_rate"] for entry in entries if entry["step"] == 4)
    if found * 2 != len(stored) or scheduler.get_last_lr() != [rate] * 2 or optimizer.param_groups[1]["lr"] != rate:
        sys.exit(f"{folder}: {found} parameters, {scheduler.get_last_lr()} instead of {rate}")
    optimizer.step(), scheduler.step()
    print(f"{type(model).__name__}: the Trainer takes the moments of {found} parameters, and the rate {rate:.4g}")


def finish_with_trainer(kind, folder, rows, work):
    trainer = trainer_of(kind.from_pretrained(folder), work, len(rows), rows)
    trainer.train(resume_from_checkpoint=str(folder))
    rates = {entry["step"]: entry["learning_rate"] for entry in trainer.state.log_history if "learning_rate" in entry}
    return {name: value.detach() for name, value in trainer.model.named_parameters()}, rates


def distance(found, wanted, checkpoint):
    """Where the gradient is more than noise, which moves weights in any direction: that of a key's bias is, for example,
    because this bias does not change the attention."""
    moments = safetensors.torch.load_file(checkpoint / "optimizer.safetensors")
    sizes = {name: moments["exp_avg_sq." + name].sqrt() for name in wanted}
    noise = 1e-5 * max(size.max() for size in sizes.values())
    return max(((found[name] - wanted[name]).abs() * ((size == 0) | (size > noise))).max().item()
               for name, size in sizes.items())


def check_way_back(given, words, kind, model, rows, work):
    """The Trainer ends a run of Berth with the weights of Berth, but not if it forgets the moments."""
    output = work / "way-back"
    folder = berth_run(given, words, model, output, len(rows))
    if not all((folder / name).is_file() for name in LAYOUT):
        sys.exit(f"{folder}: {sorted(os.listdir(folder))}")
    check_own_moments(folder, output / "checkpoint-3", kind.from_pretrained(folder), work)
    before, end = (safetensors.torch.load_file(output / name / "model.safetensors") for name in ("checkpoint-3", "."))
    moved = max((end[name] - before[name]).abs().max().item() for name in end)
    found, rates = finish_with_trainer(kind, folder, rows, work / "way-back-trainer")
    log = json.loads((output / "trainer_state.json").read_text())["log_history"]
    wanted = {entry["step"]: entry["learning_rate"] for entry in log if "learning_rate" in entry}
    if any(abs(rates[step] - wanted[step]) > 1e-12 for step in range(1, 7)):
        sys.exit(f"{folder}: the Trainer's rates are {rates}, Berth's were {wanted}")
    optimizer = torch.load(folder / "optimizer.pt", weights_only=True)
    torch.save({**optimizer, "state": {}}, folder / "optimizer.pt")
    forgetful, _ = finish_with_trainer(kind, folder, rows, work / "way-back-trainer")
    apart, without = (distance(weights, end, output / "checkpoint-3") / moved for weights in (found, forgetful))
    print(f"{kind.__name__}: the Trainer ends Berth's run {apart:.2g} of its movement apart, without moments {without:.2g}")
    # A gradient just above the noise moves its weight by its own rounding: 1.4e-3 was seen with AVX-512.
    if not apart < 3e-3 or not without > 100 * apart or without < 0.05:
        sys.exit(f"{folder}: the Trainer ends Berth's run with other weights")
    for path in (output, folder):
        shutil.rmtree(path)


def question_rows(path, tokenizer):
    """Questions of one length, because the Trainer's softmax counts padding, which Berth does not compute."""
    context = " ".join(SENTENCES)
    answers = {"the lazy dog is in?": "paris", "the fox is in france?": "france", "is the fox over the?": "lazy dog"}
    questions = [{"id": question, "question": question, "answers": [{"text": answer, "answer_start": context.index(answer)}]}
                 for question, answer in answers.items()]
    path.write_text(json.dumps({"data": [{"paragraphs": [{"context": context, "qas": questions}]}]}))
    for question, answer in answers.items():
        row = tokenizer(question, context, return_offsets_mapping=True)
        start = context.index(answer)
        spans = [(i, span) for i, span in enumerate(row.pop("offset_mapping")) if row["token_type_ids"][i] == 1]
        yield {**row, "start_positions": next(i for i, span in spans if span[0] == start),
               "end_positions": next(i for i, span in spans if span[1] == start + len(answer))}


def check_ways_back(given):
    """Berth's checkpoints of every task as a Trainer's."""
    work = given.work
    still = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.1)
    tokenizer = make_tokenizer()

    def padded(text, **more):
        return {**tokenizer(text, padding="max_length", max_length=64), **more}

    texts = [("the quick fox", "good"), ("bad film", "bad"), ("the lazy dog is in paris", "good"), ("cafe", "bad")]
    (work / "texts.tsv").write_text("sentence\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in texts))
    labels = {"id2label": {0: "bad", 1: "good"}, "label2id": {"bad": 0, "good": 1}}
    kind = transformers.BertForSequenceClassification
    model = save(work / "still-classes", kind(make_config(**still, **labels)))
    check_way_back(given, ["finetune", "classify", "--train", work / "texts.tsv"], kind, model,
                   [padded(text, labels=labels["label2id"][label]) for text, label in texts], work)
    kind = transformers.BertForQuestionAnswering
    model = save(work / "still-questions", kind(make_config(**still)))
    data = work / "still-questions.json"
    rows = list(question_rows(data, tokenizer))
    check_way_back(given, ["finetune", "squad", "--train", data], kind, model, rows, work)
    tags = {"id2label": {0: "B-A", 1: "O"}, "label2id": {"B-A": 0, "O": 1}}
    kind = transformers.BertForTokenClassification
    model = save(work / "still-tags", kind(make_config(**still, **tags)))
    sentences = [[("good", 0), ("film", 1)], [("the", 1), ("fox", 0), ("is", 1)]]
    (work / "still-tags.txt").write_text("".join("".join(f"{word} {'B-A' if tag == 0 else 'O'}\n" for word, tag in sentence) + "\n"
                                                 for sentence in sentences))
    rows = [padded(" ".join(word for word, _ in sentence),
                   labels=([-100] + [tag for _, tag in sentence] + 64 * [-100])[:64]) for sentence in sentences]
    check_way_back(given, ["finetune", "tokens", "--train", work / "still-tags.txt"], kind, model, rows, work)
    (work / "still-pairs.tsv").write_text("sentence1\tsentence2\n" + "good film\tbad film\nthe fox\tthe dog\n")
    (work / "still-lines.txt").write_text("".join(" ".join(SENTENCES) + "\n\n" for _ in range(20)))
    vocab = work / "still-vocab.txt"
    vocab.write_text("".join(word + "\n" for word in tokenizer.convert_ids_to_tokens(range(5 + len(WORDS)))))
    berth(given, "prepare", "--text", work / "still-lines.txt", "--vocab", vocab, "--output", work / "still-shards",
          "--max_seq_length", 64, "--max_predictions_per_seq", 5, "--shards", 1, "--test_shards", 1)
    tasks = {transformers.BertModel: ["finetune", "embed", "--train", work / "still-pairs.tsv"],
             transformers.BertForMaskedLM: ["pretrain", "--objective", "mlm", "--do_eval", "false",
                                            "--train_file", work / "still-lines.txt"],
             transformers.BertForPreTraining: ["pretrain", "--optimizer", "adamw", "--max_predictions_per_seq", 5,
                                               "--input_dir", next((work / "still-shards").rglob("*.hdf5")).parent]}
    for kind, words in tasks.items():
        output = work / "way-back"
        folder = berth_run(given, words, save(work / f"still-{kind.__name__}", kind(make_config(**still))), output, 2)
        check_own_moments(folder, output / "checkpoint-3", kind.from_pretrained(folder), work)
        if kind is transformers.BertModel:  # sentence-transformers' Trainer gives its optimizer the loss, with the model in it
            from sentence_transformers.losses import MultipleNegativesRankingLoss
            loss = MultipleNegativesRankingLoss(sentence_transformers.SentenceTransformer(str(folder), device="cpu"))
            check_own_moments(folder, output / "checkpoint-3", loss, work)
        shutil.rmtree(output), shutil.rmtree(folder)


def trainer(given):
    work = given.work
    model = save(work / "trained", transformers.BertForQuestionAnswering(make_config()))
    data = write_questions(work / "questions.json")
    run = work / "finetuned"
    berth(given, "finetune", "squad", "--model", model, "--train", data, "--dev", data, "--output", run,
          "--train_batch_size", 2, "--max_steps", 2, "--save_steps", 1, "--logging_steps", 1, "--eval_strategy", "steps",
          "--eval_steps", 1, "--load_best_model_at_end", "--max_seq_length", 64)
    state = check_state(run / "checkpoint-2", global_step=2, max_steps=2, train_batch_size=2, logging_steps=1, save_steps=1,
                        eval_steps=1, num_train_epochs=2, epoch=1.0, best_global_step=1,
                        best_model_checkpoint=str(run / "checkpoint-1"))
    if not pathlib.Path(state.best_model_checkpoint).is_dir() or len(state.log_history) != 3:
        sys.exit(f"{run}: {state}")
    vocab = work / "vocab.txt"
    vocab.write_text("".join(word + "\n" for word in make_tokenizer().convert_ids_to_tokens(range(5 + len(WORDS)))))
    (work / "text.txt").write_text("".join(" ".join(SENTENCES) + "\n\n" for _ in range(20)))
    berth(given, "prepare", "--text", work / "text.txt", "--vocab", vocab, "--output", work / "shards",
          "--max_seq_length", 32, "--max_predictions_per_seq", 5, "--shards", 1, "--test_shards", 1)
    berth(given, "pretrain", "--config_file", model / "config.json", "--vocab_file", vocab,
          "--input_dir", next((work / "shards").rglob("*.hdf5")).parent, "--output", work / "pretrained", "--max_steps", 2, "--train_batch_size", 4,
          "--save_steps", 1, "--max_seq_length", 32, "--max_predictions_per_seq", 5)
    check_state(work / "pretrained/checkpoint-2", global_step=2, max_steps=2, train_batch_size=4, save_steps=1)
    if importlib.util.find_spec("onnxruntime"):
        check_masked_graph(convert(given, work / "pretrained", work / "pretrained-onnx", "onnx"), work / "pretrained")
    if importlib.util.find_spec("accelerate") is not None:
        resume_with_trainer(given, run / "checkpoint-2", data, work)
        berth(given, "finetune", "squad", "--model", model, "--train", data, "--output", work / "by-epochs",
              "--train_batch_size", 2, "--max_steps", 2, "--save_strategy", "epoch", "--logging_steps", 1,
              "--max_seq_length", 64)
        resume_with_trainer(given, work / "by-epochs/checkpoint-2", data, work)
        check_moments(given, data, work)
        check_ways_back(given)


def model_of_yours(given):
    sentence_transformers.SentenceTransformer(str(given.model), device="cpu").save(str(given.work / "real"))
    check_sentences(given, given.work / "real", "the model")
