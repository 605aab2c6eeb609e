# SPDX-License-Identifier: Apache-2.0
"""Every architecture of src/model/architectures.c, in small models with random weights that transformers makes: the
numbers of every class, training, and folders in both directions.
"""
import importlib.util
import json
import math
import shutil
import sys

import numpy as np
import safetensors.torch
import tokenizers
import torch
import transformers

import shared

torch.set_num_threads(1)
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

LIMIT = 1e-5
LINES = ["the quick brown fox jumped over the lazy dog .", "Paris is in France , a good film ?", "unable bad hello the fox",
         "is the dog in Paris , or is the fox in France ?", "a film"]
LABELS = {"id2label": {0: "bad", 1: "good", 2: "odd"}, "label2id": {"bad": 0, "good": 1, "odd": 2}}


def note(name, apart, limit=LIMIT):
    if not apart <= limit:
        sys.exit(f"{name}: apart by {apart:.3g}, more than {limit:.3g}")


def berth(given, *words):
    return shared.berth(given, *words, "--threads", 1)


# --- tokenizers -----------------------------------------------------------------------------------

def word_pieces():
    words = sorted({word for line in LINES for word in line.lower().split()})
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, "##s", "##ed"]
    return transformers.BertTokenizer(vocab={word: number for number, word in enumerate(names)})


FAIRSEQ = dict(bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>", unk_token="<unk>", pad_token="<pad>",
               mask_token="<mask>")


def wrapped(tokenizer, name):
    fast = getattr(transformers, name)(tokenizer_object=tokenizer, **FAIRSEQ) if name == "PreTrainedTokenizerFast" else None
    return fast


def byte_pairs():
    tokenizer = tokenizers.ByteLevelBPETokenizer(add_prefix_space=False)
    tokenizer.train_from_iterator(LINES * 3, vocab_size=320, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
                                  show_progress=False)
    inner = tokenizer._tokenizer
    inner.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return wrapped(inner, "PreTrainedTokenizerFast")


def pieces():
    inner = tokenizers.Tokenizer(tokenizers.models.Unigram())
    inner.normalizer = tokenizers.normalizers.NFKC()
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    inner.decoder = tokenizers.decoders.Metaspace()
    inner.train_from_iterator(LINES * 3, tokenizers.trainers.UnigramTrainer(
        vocab_size=90, unk_token="<unk>", special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"], show_progress=False))
    inner.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return wrapped(inner, "PreTrainedTokenizerFast")


# --- models ---------------------------------------------------------------------------------------

SIZES = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, max_position_embeddings=130)
DISTIL = dict(dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=130)
STILL = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
STILL_DISTIL = dict(dropout=0.0, attention_dropout=0.0, qa_dropout=0.0, seq_classif_dropout=0.0)

ROWS = {  # type: prefix of its classes, tokenizer, sizes, no dropout
    "bert": ("Bert", word_pieces, SIZES, STILL),
    "roberta": ("Roberta", byte_pairs, {**SIZES, "type_vocab_size": 1, "layer_norm_eps": 1e-5}, STILL),
    "roberta, two types": ("Roberta", byte_pairs, {**SIZES, "hidden_act": "relu"}, STILL),
    "xlm-roberta": ("XLMRoberta", pieces, {**SIZES, "type_vocab_size": 1}, STILL),
    "camembert": ("Camembert", pieces, {**SIZES, "type_vocab_size": 1}, STILL),
    "distilbert": ("DistilBert", word_pieces, DISTIL, STILL_DISTIL),
    "distilbert, relu": ("DistilBert", word_pieces, {**DISTIL, "activation": "relu"}, STILL_DISTIL),
    "electra": ("Electra", word_pieces, {**SIZES, "embedding_size": 16}, STILL),
    "electra, wide embeddings": ("Electra", word_pieces, {**SIZES, "embedding_size": 48, "hidden_act": "relu"}, STILL),
    "electra, no projection": ("Electra", word_pieces, {**SIZES, "embedding_size": 32}, STILL),
}


class Row:
    def __init__(self, given, name):
        self.given, self.name = given, name
        self.type = name.split(",")[0]
        self.prefix, make_tokenizer, self.sizes, self.still = ROWS[name]
        self.tokenizer = make_tokenizer()
        self.work = given.work / name.replace(", ", "-").replace(" ", "-")

    def kind(self, end):
        return getattr(transformers, self.prefix + end)

    def save(self, end, **more):
        """A folder with a random model of the class."""
        torch.manual_seed(len(self.name) + len(end))
        config = transformers.AutoConfig.for_model(
            self.type, vocab_size=len(self.tokenizer), initializer_range=0.3, **{**self.sizes, **more})
        model = self.kind(end)(config).eval()
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:  # biases and norms are not 0 and 1 in a trained model
                torch.nn.init.normal_(parameter, 1.0 if "norm" in name.lower() and "weight" in name else 0.0, 0.2)
        folder = self.work / end
        model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        return folder, model

    def feed(self, *texts, **more):
        feed = self.tokenizer(*texts, return_tensors="pt", **more)
        if self.type not in ("bert", "electra"):
            feed.pop("token_type_ids", None)
        return feed

    def strict(self, end, folder):
        model, loaded = self.kind(end).from_pretrained(folder, output_loading_info=True)
        loaded["missing_keys"] = [key for key in loaded["missing_keys"]  # a model of embeddings has no pooler in Berth
                                  if end != "Model" or not key.startswith("pooler.")]
        wrong = {key: value for key, value in loaded.items() if value}
        if wrong:
            sys.exit(f"{self.name}: transformers loads {folder}: {wrong}")
        return model.eval()


def lines_file(row, lines, name="lines.txt"):
    path = row.work / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


# --- numbers of every class ------------------------------------------------------------------------

def check_base(row, folder, model, what=""):
    said = berth(row.given, "hidden", "--model", folder, "--precision", "fp32", lines_file(row, LINES)).splitlines()
    means = berth(row.given, "embed", "--model", folder, "--precision", "fp32", "--pooling", "mean", "--normalize", "false",
                  lines_file(row, LINES)).splitlines()
    for line, one, mean in zip(LINES, said, means, strict=True):
        with torch.no_grad():
            wanted = model(**row.feed(line)).last_hidden_state[0].numpy()
        found = np.array(json.loads(one)["hidden_states"])
        if found.shape != wanted.shape:
            sys.exit(f"{row.name}{what}: {found.shape} numbers of {line!r}, not {wanted.shape}")
        note(f"{row.name}{what}: hidden states", abs(found - wanted).max() / max(1, abs(wanted).max()))
        note(f"{row.name}{what}: embeddings", abs(np.array(json.loads(mean)["embedding"]) - wanted.mean(0)).max())


def json_lines(row, entries):
    return lines_file(row, [json.dumps(entry) for entry in entries], "texts.jsonl")


def answered(row, verb, folder, entries, *options):
    return [json.loads(line) for line in berth(
        row.given, verb, "--model", folder, "--precision", "fp32", "--jsonl", json_lines(row, entries), *options).splitlines()]


def check_classes(row, folder, model, what=""):
    pairs = list(zip(LINES, reversed(LINES)))
    for texts in ([(line,) for line in LINES], pairs):
        entries = [dict(zip(("text", "text_pair"), text)) for text in texts]
        for text, found in zip(texts, answered(row, "classify", folder, entries, "--score", "none"), strict=True):
            with torch.no_grad():
                wanted = model(**row.feed(*text)).logits[0]
            found = {entry["label"]: entry["score"] for entry in found}
            for number, label in LABELS["id2label"].items():
                note(f"{row.name}{what}: logits of classes", abs(found[label] - wanted[number].item()))


def check_words(row, folder, model, what=""):
    mask = row.tokenizer.mask_token
    texts = [f"the quick {mask} fox", f"{mask} is in Paris , {mask} film"]
    pipeline = transformers.pipeline("fill-mask", model=model, tokenizer=row.tokenizer, device="cpu", top_k=4)
    for text, found in zip(texts, answered(row, "fill", folder, [{"text": text} for text in texts], "--top_k", 4), strict=True):
        wanted = pipeline(text)
        wanted, found = (said if isinstance(said[0], list) else [said] for said in (wanted, found))
        for one, other in zip(wanted, found, strict=True):
            if [entry["token"] for entry in one] != [entry["token"] for entry in other]:
                sys.exit(f"{row.name}{what}: other words: {one}, {other}")
            for a, b in zip(one, other):
                note(f"{row.name}{what}: words", abs(math.log(a["score"]) - math.log(b["score"])))


def check_tags(row, folder, model, what=""):
    """The tag of each word, and its probability, by the logits of its first token."""
    for line, found in zip(LINES, answered(row, "tag", folder, [{"text": line} for line in LINES], "--ignore_labels", "none"),
                           strict=True):
        feed = row.feed(line, return_offsets_mapping=True)
        offsets, words = feed.pop("offset_mapping")[0].tolist(), feed.word_ids()
        with torch.no_grad():
            logits = model(**feed).logits[0].log_softmax(-1)
        for entry in found:
            inside = next(i for i, (start, end) in enumerate(offsets) if start <= entry["start"] < end)
            token = words.index(words[inside])
            best = logits[token].max(-1)
            if entry["entity_group"] != LABELS["id2label"][best.indices.item()]:
                sys.exit(f"{row.name}{what}: {entry} of {line!r}, {logits[token]}")
            if entry["end"] == offsets[token][1]:
                note(f"{row.name}{what}: tags", abs(math.log(entry["score"]) - best.values.item()))


def check_answers(row, folder, model, what=""):
    question, context = "where is the fox ?", "the quick brown fox jumped over the lazy dog in France"
    found, = answered(row, "answer", folder, [{"question": question, "context": context}], "--top_k", 5, "--json")
    feed = row.feed(question, context, return_offsets_mapping=True)
    places = [i for i, part in enumerate(feed.sequence_ids(0)) if part == 1]
    feed.pop("offset_mapping")
    with torch.no_grad():
        out = model(**feed)
    start, end = out.start_logits[0].tolist(), out.end_logits[0].tolist()
    words = feed.word_ids()  # an answer is made of whole words
    best = {}
    for s, e in ((s, e) for s in places for e in places if s <= e < s + 30):
        best[words[s], words[e]] = max(best.get((words[s], words[e]), -math.inf), start[s] + end[e])
    for entry, wanted in zip(found["answers"], sorted(best.values(), reverse=True)):
        note(f"{row.name}{what}: logits of answers", abs(entry["start_logit"] + entry["end_logit"] - wanted))


CLASSES = {"Model": (check_base, {}), "ForSequenceClassification": (check_classes, LABELS), "ForMaskedLM": (check_words, {}),
           "ForTokenClassification": (check_tags, LABELS), "ForQuestionAnswering": (check_answers, {})}


def numbers(given):
    for name in ROWS:
        row = Row(given, name)
        for end, (check, more) in CLASSES.items():
            check(row, *row.save(end, **more))
        print(f"{name}: {', '.join(CLASSES)}", flush=True)


# --- training --------------------------------------------------------------------------------------

UPDATES, RATE, EPSILON = 10, 2e-3, 1e-3  # with so large an epsilon, noise in a gradient of 0 moves no weight
RUN = ["--max_steps", UPDATES, "--learning_rate", RATE, "--adam_epsilon", EPSILON, "--schedule", "constant",
       "--warmup_steps", 0, "--weight_decay", 0.1, "--max_grad_norm", 0, "--precision", "fp32", "--max_seq_length", 100,
       "--save_strategy", "no", "--quiet"]


def class_examples(row, count=None):
    texts = [(line, other, LABELS["id2label"][i % 3]) for i, (line, other) in enumerate(zip(LINES, reversed(LINES)))][:count]
    path = lines_file(row, ["first\tsecond\tlabel", *("\t".join(text) for text in texts)], "classes.tsv")
    words = ["finetune", "classify", "--train", path, "--text_column", "first", "--text_pair_column", "second",
             "--label_column", "label"]
    return words, [{**row.feed(first, second), "labels": torch.tensor([LABELS["label2id"][label]])}
                   for first, second, label in texts]


def tag_examples(row, count=None):
    tagged = [[(word, LABELS["id2label"][len(word) % 3]) for word in line.split()] for line in LINES[:count]]
    path = lines_file(row, ["".join(f"{word} {label}\n" for word, label in words) for words in tagged], "tags.txt")
    examples = []
    for words in tagged:
        feed = row.feed([word for word, _ in words], is_split_into_words=True)
        labels, seen = [], set()
        for word in feed.word_ids():
            labels.append(-100 if word is None or word in seen else LABELS["label2id"][words[word][1]])
            seen.add(word)
        examples.append({**feed, "labels": torch.tensor([labels])})
    return ["finetune", "tokens", "--train", path], examples


def question_examples(row, count=None):
    context = "the quick brown fox jumped over the lazy dog in France"
    answers = dict([("where is the fox ?", "France"), ("is the dog bad ?", "lazy"), ("the quick ?", "brown fox")][:count])
    questions = [{"id": question, "question": question, "answers": [{"text": answer, "answer_start": context.index(answer)}]}
                 for question, answer in answers.items()]
    path = lines_file(row, [json.dumps({"data": [{"paragraphs": [{"context": context, "qas": questions}]}]})], "squad.json")
    examples = []
    for question, answer in answers.items():
        feed = row.feed(question, context, return_offsets_mapping=True)
        offsets, start = feed.pop("offset_mapping")[0].tolist(), context.index(answer)
        words, context_part = feed.word_ids(), feed.sequence_ids(0)
        wanted = {words[i] for i, part in enumerate(context_part) if part == 1 and
                  offsets[i][0] < start + len(answer) and start < offsets[i][1]}  # an answer is made of whole words
        inside = [i for i, part in enumerate(context_part) if part == 1 and words[i] in wanted]
        examples.append({**feed, "start_positions": torch.tensor([inside[0]]), "end_positions": torch.tensor([inside[-1]])})
    return ["finetune", "squad", "--train", path], examples


def train_with_torch(model, examples, by_labels):
    """The same updates: the loss of an update is its sum over the sequences, or the labelled words, by their count."""
    plain = [value for value in model.parameters() if value.dim() == 1]
    decayed = [value for value in model.parameters() if value.dim() > 1]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
                                  lr=RATE, eps=EPSILON)
    counts = [int((example["labels"] != -100).sum()) if by_labels else 1 for example in examples]
    for _ in range(UPDATES):
        optimizer.zero_grad()
        for example, count in zip(examples, counts):
            (model(**example).loss * count / sum(counts)).backward()
        optimizer.step()


TASKS = {"ForSequenceClassification": (class_examples, LABELS), "ForTokenClassification": (tag_examples, LABELS),
         "ForQuestionAnswering": (question_examples, {})}


def check_training(row, end):
    make_examples, more = TASKS[end]
    words, examples = make_examples(row)
    folder, model = row.save(end, **more, **row.still)
    before = {name: value.detach().clone() for name, value in model.state_dict().items()}
    output = row.work / f"trained-{end}"
    berth(row.given, *words, "--model", folder, "--output", output, "--train_batch_size", len(examples), *RUN)
    train_with_torch(model, examples, end == "ForTokenClassification")
    wanted, found = model.state_dict(), row.strict(end, output).state_dict()
    moved = max((wanted[name] - before[name]).abs().max().item() for name in wanted)
    apart = {name: (wanted[name] - found[name]).abs().max().item() for name in wanted}
    worst = max(apart, key=apart.get)
    note(f"{row.name}, {end}: {UPDATES} updates, {worst}", apart[worst])
    if moved < RATE:
        sys.exit(f"{row.name}, {end}: the weights moved by {moved} only")
    return apart[worst]


def training(given):
    for name in ROWS:
        row = Row(given, name)
        print(f"{name}: " + ", ".join(f"{end} {check_training(row, end):.1g}" for end in TASKS), flush=True)


# --- files -----------------------------------------------------------------------------------------

def same_tensors(row, one, other):
    a, b = (safetensors.torch.load_file(folder / "model.safetensors") for folder in (one, other))
    if a.keys() != b.keys() or any(not torch.equal(a[name], b[name]) for name in a):
        sys.exit(f"{row.name}: {one} and {other} differ: {sorted(a.keys() ^ b.keys())}")


def check_graph(row, end, folder, model):
    import onnxruntime
    graph = shared.convert(row.given, folder, "onnx", "--allow_lossy", target=folder.with_name(end + "-onnx"))
    session = onnxruntime.InferenceSession(str(graph / "model.onnx"), providers=["CPUExecutionProvider"])
    feed = row.feed(LINES, padding=True)
    if row.type in ("bert", "electra"):
        feed["token_type_ids"][:, 3:] = feed["attention_mask"][:, 3:]
    with torch.no_grad():
        wanted = [value.numpy() for value in model(**feed).values()]
    found = session.run(None, {key: value.numpy() for key, value in feed.items()})
    kept = feed["attention_mask"].numpy() > 0
    for a, b in zip(found, wanted):
        inside = kept if end != "ForSequenceClassification" else slice(None)
        note(f"{row.name}, {end}: ONNX", abs(a - b)[inside].max() / max(1, abs(b).max()))


def check_files(row, end, more):
    """To PyTorch and back, to ONNX, to int8; and a state_dict that torch saved."""
    folder, model = row.save(end, **more)
    there = shared.convert(row.given, folder, "torch", target=folder.with_name(end + "-torch"))
    stored, own = torch.load(there / "pytorch_model.bin", weights_only=True), safetensors.torch.load_file(folder / "model.safetensors")
    if stored.keys() != own.keys():
        sys.exit(f"{row.name}, {end}: pytorch_model.bin has other names: {sorted(stored.keys() ^ own.keys())}")
    back = shared.convert(row.given, there, "hf", target=folder.with_name(end + "-back"))
    same_tensors(row, folder, back)
    row.strict(end, back)
    torch.save(model.state_dict(), there / "pytorch_model.bin")  # with the second names of tied tensors
    again = shared.convert(row.given, there, "hf", target=folder.with_name(end + "-again"))
    same_tensors(row, folder, again)
    CLASSES[end][0](row, again, model, ", by way of torch")
    if importlib.util.find_spec("onnxruntime"):
        check_graph(row, end, folder, model)
    small = shared.convert(row.given, folder, "int8", "--allow_lossy", target=folder.with_name(end + "-int8"))
    settings = json.loads((small / "config.json").read_text())["quantization_config"]["config_groups"]
    import re
    patterns = [re.compile(group["targets"][0].removeprefix("re:")) for group in settings.values()]
    for name, (kind, _, _) in shared.read_safetensors(small / "model.safetensors").items():
        if (kind == "I8") != any(pattern.fullmatch(name.removesuffix(".weight")) for pattern in patterns):
            sys.exit(f"{row.name}, {end}: {name} of int8 is {kind}")
    return folder, small


def check_int8(row, folder, small):
    """Embeddings in int8 are near those of fp32."""
    means = [np.array([json.loads(line)["embedding"] for line in berth(
        row.given, "embed", "--model", model, "--precision", precision, "--pooling", "mean", "--normalize", "true",
        lines_file(row, LINES)).splitlines()]) for model, precision in ((folder, "fp32"), (small, "int8"), (folder, "bf16"))]
    for other in means[1:]:
        if not (means[0] * other).sum(1).min() > 0.99:
            sys.exit(f"{row.name}: cosines of int8 or bf16 with fp32: {(means[0] * other).sum(1)}")


def files(given):
    for name in ROWS:
        row = Row(given, name)
        for end, (_, more) in CLASSES.items():
            folder, small = check_files(row, end, more)
            if end == "Model":
                check_int8(row, folder, small)
        print(f"{name}: torch, onnx, int8 of {', '.join(CLASSES)}", flush=True)


# --- runs of every kind ------------------------------------------------------------------------------

def check_masked_training(row):
    """Berth trains on masked words, resumes bit by bit, and transformers reads the result strictly."""
    folder, model = row.save("ForMaskedLM")
    text, runs = lines_file(row, LINES * 20, "text.txt"), row.work / "masked"
    words = ["pretrain", "--objective", "mlm", "--model", folder, "--train_file", text, "--max_seq_length", 32,
             "--train_batch_size", 8, "--max_steps", 6, "--save_steps", 3, "--precision", "fp32", "--do_eval", "false",
             "--learning_rate", 1e-3, "--quiet"]
    berth(row.given, *words, "--output", runs)
    check_words(row, runs, row.strict("ForMaskedLM", runs), ", trained")
    shutil.copytree(runs / "checkpoint-3", row.work / "resumed/checkpoint-3")
    berth(row.given, *words, "--output", row.work / "resumed", "--resume_from_checkpoint", "auto")
    same_tensors(row, runs, row.work / "resumed")
    refused = shared.subprocess.run([str(word) for word in (
        row.given.build / "berth", "pretrain", "--model", folder, "--input_dir", row.work, "--output", row.work / "none")],
        capture_output=True, text=True)
    if row.type != "bert" and "has no head for the next sentence" not in refused.stderr:
        sys.exit(f"{row.name}: pre-training with next sentences: {refused.stderr}")


def check_embeddings(row):
    folder, _ = row.save("Model")
    pairs = lines_file(row, ["sentence1\tsentence2", *(f"{a}\t{b}" for a, b in zip(LINES, LINES[1:]))], "pairs.tsv")
    berth(row.given, "finetune", "embed", "--model", folder, "--train", pairs, "--output", row.work / "embed",
          "--max_steps", 3, "--train_batch_size", 4, "--max_seq_length", 60, "--quiet")
    check_base(row, row.work / "embed", row.strict("Model", row.work / "embed"), ", trained as embeddings")


def check_dropouts(row):
    """With dropout, in bf16, with recomputed layers and frozen ones."""
    words, _ = class_examples(row)
    folder, _ = row.save("ForSequenceClassification", **LABELS)
    berth(row.given, *words, "--model", folder, "--output", row.work / "dropped", "--max_steps", 3, "--precision", "bf16",
          "--gradient_checkpointing", "--freeze_layers", 1, "--freeze_embeddings", "--max_seq_length", 100, "--quiet")
    trained = row.strict("ForSequenceClassification", row.work / "dropped").state_dict()
    for name, value in row.strict("ForSequenceClassification", folder).state_dict().items():
        is_frozen = ".embeddings" in name or ".layer.0." in name
        if torch.equal(value, trained[name]) != is_frozen:
            sys.exit(f"{row.name}: {name} is {'not ' if is_frozen else ''}frozen")


def runs(given):
    for name in ROWS:
        row = Row(given, name)
        check_masked_training(row), check_embeddings(row), check_dropouts(row)
        print(f"{name}: masked words, embeddings, dropout", flush=True)
