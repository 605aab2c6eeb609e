# SPDX-License-Identifier: Apache-2.0
"""GGUF files of every architecture and tokenizer that llama.cpp has, made of small models with random weights that
transformers saves: gguf-py reads the tensors and the tokenizer, and llama.cpp itself (the package llama_cpp) makes the
tokens and hidden states of transformers and Berth.
"""
import io
import json
import shutil
import sys
import unicodedata

import gguf
import numpy as np
import sentencepiece
import torch
import transformers

import architectures
import shared

LINES = [*architectures.LINES, "Un ﬁlm, it's 12345 good!", "unknown 語 😀 signs", "Paris\u3000in Ｆrance", "a"]
BLANKS = ["  two  blanks   in a row ", "a tab\tand the end \n"]  # which some tokenizers leave out
LIMIT = 5e-3  # llama.cpp reads its GELU from a table of half numbers


# --- models ---------------------------------------------------------------------------------------

def words_of_sentencepiece(folder):
    """The files from which transformers makes the tokenizer of an XLM-RoBERTa or CamemBERT."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES * 20), model_writer=model, vocab_size=150, hard_vocab_limit=False, model_type="unigram",
        character_coverage=1.0, minloglevel=2)
    for name in ("tokenizer.json", "special_tokens_map.json"):
        (folder / name).unlink(missing_ok=True)
    (folder / "sentencepiece.bpe.model").write_bytes(model.getvalue())


def words_of_merges(folder):
    whole = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.json").write_text(json.dumps(whole["model"]["vocab"]), encoding="utf-8")
    merges = (merge if isinstance(merge, str) else " ".join(merge) for merge in whole["model"]["merges"])
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(merge + "\n" for merge in merges), encoding="utf-8")


CASES = {  # name: row of architectures.py, class of the tokenizer, other files of words, whether llama.cpp does all it does
    "bert": ("bert", None, None, True),
    "distilbert": ("distilbert", None, None, True),
    "roberta": ("roberta", None, None, True),
    "roberta, merges.txt": ("roberta", "RobertaTokenizer", words_of_merges, True),
    "xlm-roberta": ("xlm-roberta", "XLMRobertaTokenizer", words_of_sentencepiece, True),
    "xlm-roberta, NFKC": ("xlm-roberta", None, None, False),
    "camembert": ("camembert", "CamembertTokenizer", words_of_sentencepiece, True),
}


class Model:
    def __init__(self, given, name):
        self.given, self.name = given, name
        row_name, kind, make, self.is_whole = CASES[name]
        self.row = architectures.Row(given, row_name)
        self.folder = given.work / "cases" / name.replace(", ", "-")
        saved, _ = self.row.save("Model")
        shutil.copytree(saved, self.folder)
        self.is_bert = make is None and self.row.type in ("bert", "distilbert")
        if make is not None:
            make(self.folder)
            (self.folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind}))
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder)
        if make is words_of_sentencepiece:  # it has another number of words
            self.row.tokenizer = self.tokenizer
            saved, _ = self.row.save("Model", max_position_embeddings=90)
            for file in ("config.json", "model.safetensors"):
                shutil.copy(saved / file, self.folder)
        self.model = transformers.AutoModel.from_pretrained(self.folder).eval()

    def convert(self):
        return shared.convert(self.given, self.folder, "gguf", "--allow_lossy") / "model.gguf"

    def texts(self):
        return LINES + BLANKS if self.is_whole else [line for line in LINES if unicodedata.is_normalized("NFKC", line)]

    def ids(self, text):
        return self.tokenizer(text)["input_ids"]


# --- gguf-py --------------------------------------------------------------------------------------

def check_tensors(case, reader, say):
    layers = case.model.config.num_hidden_layers
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, layers)
    found = {tensor.name: tensor.data for tensor in reader.tensors}
    first = case.model.config.pad_token_id + 1 if case.row.type in ("roberta", "xlm-roberta", "camembert") else 0
    for name, value in case.model.state_dict().items():
        if name.startswith("pooler.") or name.endswith(("position_ids", "token_type_ids")):
            continue
        base, end = name.rsplit(".", 1)
        array = value.numpy()[first:] if "position_embeddings" in name else value.numpy()
        theirs = found.pop(f"{names.get_name(base)}.{end}", None)
        if theirs is None or theirs.shape != array.shape or not np.array_equal(theirs, array):
            say(f"{name}: found {None if theirs is None else theirs.shape}, other numbers or none, instead of {array.shape}")
    for name in found:
        say(f"{name}: not in the source")
    return first


def check_fields(case, reader, first, say):
    config, tokenizer = case.model.config, case.tokenizer
    inner = json.loads(tokenizer.backend_tokenizer.to_str())
    kind = inner["model"]["type"]
    expected = {
        "general.architecture": "bert",
        "bert.context_length": config.max_position_embeddings - first,
        "bert.embedding_length": config.hidden_size,
        "bert.block_count": config.num_hidden_layers,
        "bert.attention.causal": False,
        "tokenizer.ggml.token_type_count": getattr(config, "type_vocab_size", 1),
        "tokenizer.ggml.model": {"WordPiece": "bert", "BPE": "gpt2", "Unigram": "t5"}[kind],
        "tokenizer.ggml.pre": "roberta-bpe" if kind == "BPE" else "default",
        gguf.Keys.Tokenizer.BOS_ID: tokenizer.cls_token_id,
        gguf.Keys.Tokenizer.EOS_ID: tokenizer.sep_token_id,
        gguf.Keys.Tokenizer.SEP_ID: tokenizer.sep_token_id,
        gguf.Keys.Tokenizer.PAD_ID: tokenizer.pad_token_id,
        gguf.Keys.Tokenizer.MASK_ID: tokenizer.mask_token_id,
        gguf.Keys.Tokenizer.UNK_ID: tokenizer.unk_token_id,
    }
    if kind != "WordPiece":
        expected |= {gguf.Keys.Tokenizer.ADD_BOS: True, gguf.Keys.Tokenizer.ADD_EOS: True,
                     gguf.Keys.Tokenizer.LIST: tokenizer.convert_ids_to_tokens(range(len(tokenizer)))}
    if kind == "BPE":
        expected[gguf.Keys.Tokenizer.MERGES] = [
            merge if isinstance(merge, str) else " ".join(merge) for merge in inner["model"]["merges"]]
    if kind == "Unigram":
        scores = [score for _, score in inner["model"]["vocab"]]
        expected |= {gguf.Keys.Tokenizer.SCORES: np.float32(scores + [0.0] * (len(tokenizer) - len(scores))).tolist(),
                     gguf.Keys.Tokenizer.ADD_PREFIX: True, gguf.Keys.Tokenizer.REMOVE_EXTRA_WS: case.is_whole}
    for key, value in expected.items():
        found = reader.fields[key].contents() if key in reader.fields else None
        if found != value:
            say(f"{key}: expected {value!r}, found {found!r}")


def fields(given):
    for name in CASES:
        case, problems = Model(given, name), []
        reader = gguf.GGUFReader(case.convert())
        first = check_tensors(case, reader, problems.append)
        check_fields(case, reader, first, problems.append)
        if problems:
            sys.exit("\n".join(f"{name}: {problem}" for problem in problems))
        print(f"{name}: {len(reader.tensors)} tensors, {len(reader.fields)} fields", flush=True)


# --- llama.cpp ------------------------------------------------------------------------------------

def check_tokens(case, llama, texts):
    for text in texts:
        found = llama.tokenize(text.encode(), add_bos=True, special=True)
        if found != case.ids(text):
            sys.exit(f"{case.name}: {text!r}: transformers' tokens are {case.ids(text)}, llama.cpp's {found}")
    path = architectures.lines_file(case.row, [text for text in texts if "\n" not in text])
    said = shared.berth(case.given, "tokenize", "--model", case.folder, "--ids", "--special", path).splitlines()
    if [[int(number) for number in line.split()] for line in said] != [case.ids(text) for text in texts if "\n" not in text]:
        sys.exit(f"{case.name}: Berth's tokens are others: {said}")


def check_states(case, llama, texts):
    path = architectures.lines_file(case.row, texts)
    means = shared.berth(case.given, "embed", "--model", case.folder, "--precision", "fp32", "--pooling", "mean", "--normalize",
                         "false", path).splitlines()
    worst, spread = 0.0, 0.0
    for text, mean in zip(texts, means, strict=True):
        found = np.array(llama.embed(text, normalize=False))
        with torch.no_grad():
            wanted = case.model(**case.row.feed(text)).last_hidden_state[0].numpy()
        apart = max(abs(found - wanted).max(), abs(found.mean(0) - np.array(json.loads(mean)["embedding"])).max())
        worst, spread = max(worst, apart / abs(wanted).max()), max(spread, abs(wanted).max())
    if not worst < LIMIT:
        sys.exit(f"{case.name}: hidden states of llama.cpp are {worst:.3g} of the largest, {spread:.3g}, apart")
    return worst


def outputs(given):
    import llama_cpp
    for name in CASES:
        case = Model(given, name)
        case.row.tokenizer = case.tokenizer
        llama = llama_cpp.Llama(str(case.convert()), embedding=True, verbose=False, n_ctx=80, n_threads=1,
                                pooling_type=llama_cpp.LLAMA_POOLING_TYPE_NONE)
        check_tokens(case, llama, case.texts())
        apart = check_states(case, llama, [text for text in case.texts() if text in LINES])
        print(f"{name}: llama.cpp's tokens are equal, its hidden states {apart:.2g} apart", flush=True)
