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

SIZES = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, max_position_embeddings=70)
DISTIL = dict(dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=70)
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
        wrong = {key: value for key, value in loaded.items() if value and key != "error_msgs"}
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


def check_classes(row, folder, model, what=""):
    pairs = list(zip(LINES, reversed(LINES)))
    for texts in ([(line,) for line in LINES], pairs):
        path = lines_file(row, ["\t".join(text) for text in texts], "texts.tsv")
        options = ["--pairs"] if len(texts[0]) == 2 else []
        for text, line in zip(texts, berth(row.given, "classify", "--model", folder, "--precision", "fp32", *options,
                                           "--top_k", 3, path).splitlines(), strict=True):
            with torch.no_grad():
                wanted = model(**row.feed(*text)).logits[0].log_softmax(-1)
            found = {entry["label"]: math.log(entry["score"]) for entry in json.loads(line)}
            for number, label in LABELS["id2label"].items():
                note(f"{row.name}{what}: logits of classes", abs(found[label] - wanted[number].item()), 2e-5)


def numbers(given):
    for name in ROWS:
        row = Row(given, name)
        check_base(row, *row.save("Model"))
        print(f"{name}: base model", flush=True)
