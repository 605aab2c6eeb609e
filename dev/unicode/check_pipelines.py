#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Berth's pipelines with the `tokenizers` package: ids, words, offsets and masks of special tokens.

    check_pipelines.py DUMP_TOKENS [--lines N] [--strings N] [--seed S] [--only WORD] [--keep FOLDER]

DUMP_TOKENS is the program that tests/text builds. Tokenizers of all kinds are trained here, with `tokenizers` and
with `sentencepiece`, on the message catalogues that are installed. They are compared on N lines: those messages, in
all of their languages, and manual pages; and on N generated strings over an alphabet from all of Unicode, with special
tokens, marks in any order, blanks of all kinds. Prints a line for each tokenizer; exits 1 if anything differs, 77
without the packages or texts.
"""
import argparse
import gzip
import io
import itertools
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import warnings

try:
    import numpy
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2
    from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                            trainers)
except ImportError as missing:
    print(f"skipped: needs numpy, sentencepiece and tokenizers: {missing}")
    sys.exit(77)

try:
    from transformers import AutoTokenizer
except ImportError:
    AutoTokenizer = None

CHUNK = 20000
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


# --- texts ----------------------------------------------------------------------------------------

def catalogue(path):
    """The messages of a .mo file."""
    data = path.read_bytes()
    order = "<" if data[:4] == b"\xde\x12\x04\x95" else ">"
    count, _, table = struct.unpack(order + "3I", data[8:20])
    for i in range(count):
        length, at = struct.unpack(order + "2I", data[table + 8 * i:table + 8 * i + 8])
        yield data[at:at + length].decode("utf-8", "replace")


def languages():
    """{language: lines} of the installed catalogues and manual pages, without those of English and its variants."""
    found = {}
    for path in sorted(pathlib.Path("/usr/share/locale").glob("*/LC_MESSAGES/*.mo")):
        lines = found.setdefault(path.parts[4].split("_")[0].split("@")[0], [])
        lines += [line for message in catalogue(path) for line in message.replace("\0", "\n").split("\n") if line]
    for path in sorted(pathlib.Path("/usr/share/man").glob("**/*.gz")):
        parts = path.parts[4:]
        name = parts[0].split("_")[0].split(".")[0] if len(parts) > 2 else "en"
        try:
            text = gzip.open(path).read().decode("utf-8", "replace")
        except OSError:
            continue
        found.setdefault(name, []).extend(line for line in text.split("\n") if line)
    return {name: list(dict.fromkeys(lines)) for name, lines in found.items() if len(lines) > 20}


def strings(count, seed):
    """Generated text: runs of characters of one block, words of specials, marks, blanks and quotes."""
    draw = random.Random(seed)
    points = [p for p in itertools.chain(range(1, 0xD800), range(0xE000, 0x32000), range(0xE0000, 0xE0200))]
    special = ["<s>", "</s>", "<mask>", " <mask> ", "<unk>", "<pad>", "[MASK]", "[CLS]", "Added", "added ", "##", "  ",
               "\t", "\r\n", "\u00a0", "\u3000", "\u2028", "\u0085", "'s", "'LL", "\u200d", "\u0300", "\u0316\u0301",
               "\u0345\u0300", "\u1100\u1161\u11a8", "\uac00\u11a8", "\u2581", "</w>", "\ufb03", "\u0600", "\u00e9",
               "e\u0301", "o\u0302\u0301", "\u0130", "\u1e9e", "\u00bd", "\u0661", "<0x41>", "\ufffd", "\u4e2d\u6587"]
    for _ in range(count):
        parts = []
        for _ in range(draw.randint(1, 8)):
            kind = draw.random()
            if kind < 0.3:
                parts.append(draw.choice(special))
            elif kind < 0.5:
                parts.append("".join(draw.choice("abcdefghij \u0301,.'0123") for _ in range(draw.randint(1, 12))))
            elif kind < 0.8:
                start = draw.choice(points)
                parts.append("".join(chr(draw.choice(points[max(0, i - 40):i + 40])) for i in
                                     [min(start, len(points) - 1)] * draw.randint(1, 6)))
            else:
                parts.append("".join(chr(draw.choice(points)) for _ in range(draw.randint(1, 4))))
        yield "".join(parts)


# --- tokenizers -----------------------------------------------------------------------------------

SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def finish(tokenizer, roberta=None):
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True)])
    tokenizer.add_tokens([AddedToken("Added", normalized=True, single_word=True),
                          AddedToken("added ", normalized=False),
                          AddedToken("\u00c9t\u00e9", normalized=True, rstrip=True)])
    ids = [(text, tokenizer.token_to_id(text)) for text in ("</s>", "<s>")]
    if roberta is not None:
        tokenizer.post_processor = processors.RobertaProcessing(*ids, trim_offsets=True, add_prefix_space=roberta)
    else:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=ids)
    return tokenizer


def bpe(lines, size, splitter, normalizer=None, roberta=None, trainer=None, **options):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", **options))
    tokenizer.pre_tokenizer = splitter
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    kept = {k: v for k, v in options.items() if k in ("continuing_subword_prefix", "end_of_word_suffix")}
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=size, special_tokens=SPECIALS, show_progress=False, limit_alphabet=1500, **kept, **(trainer or {})))
    return finish(tokenizer, roberta)


def byte_level(lines, size, prefix, trims=True):
    alphabet = {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet()}
    tokenizer = bpe(lines, 2 * size, pre_tokenizers.ByteLevel(add_prefix_space=prefix),
                    roberta=prefix if trims else None, trainer=alphabet)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def unigram(lines, size, splitter, normalizer):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
    tokenizer.train_from_iterator(lines, trainers.UnigramTrainer(
        vocab_size=size, special_tokens=SPECIALS, unk_token="<unk>", show_progress=False))
    return finish(tokenizer)


def wordpiece(lines, size, splitter, normalizer, **options):
    tokenizer = Tokenizer(models.WordPiece(unk_token="<unk>", **options))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
    tokenizer.train_from_iterator(lines, trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=SPECIALS, limit_alphabet=900, show_progress=False, **options))
    return finish(tokenizer)


def sentence_model(lines, size, **options):
    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line[:4000] for line in lines]), model_writer=made, vocab_size=size, minloglevel=2,
        hard_vocab_limit=False, **({"pad_id": 1, "bos_id": 0, "eos_id": 2, "unk_id": 3} | options))
    return sentencepiece_model_pb2.ModelProto.FromString(made.getvalue())


def from_sentencepiece(lines, size, scheme="always", **options):
    """As transformers makes the tokenizers of XLM-R of a model of sentencepiece."""
    proto = sentence_model(lines, size, **options)
    vocabulary = [(piece.piece, piece.score) for piece in proto.pieces]
    tokenizer = Tokenizer(models.Unigram(vocabulary, 3, options.get("byte_fallback", False)))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap),
        normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "\u2581")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme=scheme)
    tokenizer.decoder = decoders.Metaspace(replacement="\u2581", prepend_scheme=scheme)
    return finish(tokenizer)


def fallback_bpe(lines, size):
    """As Llama's: no pre-tokenizer, blanks as marks, bytes for unknown characters."""
    mark = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    trained = bpe(lines, size, pre_tokenizers.Split("\u2581", "merged_with_next"), mark)
    data = json.loads(trained.to_str())
    data["model"].update(byte_fallback=True, fuse_unk=True)
    data["added_tokens"], data["post_processor"] = [], None
    count = len(data["model"]["vocab"])
    data["model"]["vocab"].update({f"<0x{b:02X}>": count + b for b in range(256)})
    data["pre_tokenizer"] = None
    data["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    return finish(Tokenizer.from_str(json.dumps(data)))


def kinds(lines, size=4000, **rules):
    n, p = normalizers, pre_tokenizers
    return {
        "bpe-bytes": lambda: byte_level(lines, size, False),
        "bpe-bytes-prefix": lambda: byte_level(lines, size, True),
        "bpe-bytes-untrimmed": lambda: byte_level(lines, size, True, trims=False),
        "bpe-split": lambda: bpe(lines, size, p.Sequence([p.Split(Regex(GPT2), "isolated"), p.Digits(True),
                                                    p.ByteLevel(False, use_regex=False)]), n.NFC(), roberta=False,
                                 trainer={"initial_alphabet": p.ByteLevel.alphabet()}),
        "bpe-suffix": lambda: bpe(lines, size, p.Sequence([p.Whitespace(), p.Digits(False)]),
                                  n.Sequence([n.NFD(), n.StripAccents(), n.Lowercase()]), end_of_word_suffix="</w>",
                                  fuse_unk=True),
        "bpe-prefix": lambda: bpe(lines, size, p.Sequence([p.WhitespaceSplit(), p.Punctuation("contiguous")]), n.NFKC(),
                                  continuing_subword_prefix="##"),
        "bpe-marks": lambda: bpe(lines, size, p.Metaspace(prepend_scheme="first"), n.Sequence([n.Strip(), n.NFKD()])),
        "bpe-fallback": lambda: fallback_bpe(lines, size),
        "unigram": lambda: unigram(lines, size, p.Metaspace(), n.Sequence([n.NFKC(), n.Lowercase()])),
        "unigram-bert": lambda: unigram(lines, size, p.BertPreTokenizer(), n.BertNormalizer(clean_text=False)),
        "unigram-xlm": lambda: from_sentencepiece(lines, size, character_coverage=0.9995, **rules),
        "unigram-bytes": lambda: from_sentencepiece(lines, size + 256, "first", byte_fallback=True, character_coverage=0.98,
                                                    **(rules or {"normalization_rule_name": "nmt_nfkc_cf"})),
        "wordpiece": lambda: wordpiece(lines, size, p.BertPreTokenizer(), n.BertNormalizer(
            clean_text=False, strip_accents=True, lowercase=False)),
        "wordpiece-other": lambda: wordpiece(
            lines, size, p.Sequence([p.Whitespace(), p.Punctuation("merged_with_previous")]),
            n.Sequence([n.Replace("''", '"'), n.BertNormalizer()]), continuing_subword_prefix="@@"),
    }


# --- folders --------------------------------------------------------------------------------------

MASK = {"__type": "AddedToken", "content": "<mask>", "lstrip": True, "normalized": True}


def folder(path, files):
    """The tokenizer that transformers makes of these files: text, bytes or values for JSON."""
    path.mkdir(exist_ok=True)
    for name, data in files.items():
        raw = data if isinstance(data, bytes) else (data if isinstance(data, str) else json.dumps(data)).encode()
        (path / name).write_bytes(raw)
    return AutoTokenizer.from_pretrained(str(path)).backend_tokenizer


def folders(lines, size=3500):
    """Folders whose words are in vocab.json and merges.txt, or in a model of sentencepiece."""
    def words():
        saved = json.loads(byte_level(lines, size // 2, False).to_str())["model"]
        return {"vocab.json": saved["vocab"], "merges.txt": "#version: 0.2\n" + "".join(
            " ".join(merge) + "\n" for merge in saved["merges"])}

    def pieces(**options):
        return sentence_model(lines, size, **options).SerializeToString()

    def general(**options):
        return {"config.json": {"model_type": "nystromformer"}, "tokenizer.model": pieces(**options)}

    def plain(**options):
        return pieces(pad_id=-1, bos_id=1, eos_id=2, unk_id=0, **options)

    albert = {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1, "control_symbols": "[CLS],[SEP],[MASK]"}
    big_bird = {"pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3, "control_symbols": "[SEP],[MASK],[CLS]"}
    return {
        "folder-roberta": lambda: {"config.json": {"model_type": "roberta"}, **words()},
        "folder-roberta-set": lambda: {
            "config.json": {"model_type": "bert"}, **words(),
            "added_tokens.json": {"<x>": size, "word": size + 1, "Added": size + 2},
            "special_tokens_map.json": {"additional_special_tokens": ["<y>", "<x>"], "mask_token": {
                "content": "<mask>", "lstrip": True, "normalized": False, "rstrip": True, "single_word": False}},
            "tokenizer_config.json": {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": True,
                                      "trim_offsets": False, "mask_token": MASK, "sep_token": "[SEP]"}},
        "folder-roberta-ids": lambda: {
            "config.json": {"model_type": "longformer"}, **words(),
            "tokenizer_config.json": {"added_tokens_decoder": {
                "4": {"content": "<mask>", "lstrip": True, "special": True},
                "9000": {"content": "caf\u00e9", "single_word": True, "special": False}}, "image_token": "<image>",
                "extra_special_tokens": ["<z>"], "model_max_length": 512}},
        "folder-deberta": lambda: {"config.json": {"model_type": "deberta"}, **words()},
        "folder-gpt2": lambda: {"config.json": {"model_type": "gpt2"}, **words()},
        "folder-xlm": lambda: {"config.json": {"model_type": "xlm-roberta"}, "sentencepiece.bpe.model": plain()},
        "folder-xlm-set": lambda: {
            "config.json": {"model_type": "bert"}, "sentencepiece.bpe.model": plain(byte_fallback=True),
            "tokenizer_config.json": {"tokenizer_class": "XLMRobertaTokenizerFast", "mask_token": MASK,
                                      "add_prefix_space": False}},
        "folder-camembert": lambda: {"config.json": {"model_type": "camembert"}, "sentencepiece.bpe.model": plain()},
        "folder-albert": lambda: {"config.json": {"model_type": "albert"}, "spiece.model": pieces(
            user_defined_symbols="(,),-", normalization_rule_name="nmt_nfkc_cf", **albert)},
        "folder-albert-set": lambda: {
            "config.json": {"model_type": "albert"}, "spiece.model": pieces(**albert),
            "tokenizer_config.json": {"do_lower_case": False, "keep_accents": True}},
        "folder-big-bird": lambda: {"config.json": {"model_type": "big_bird"}, "spiece.model": pieces(**big_bird)},
        "folder-unigram": lambda: general(byte_fallback=True, character_coverage=0.99),
        "folder-bpe": lambda: general(model_type="bpe", character_coverage=0.99),
        "folder-bpe-bytes": lambda: general(model_type="bpe", byte_fallback=True, character_coverage=0.98,
                                            add_dummy_prefix=False, remove_extra_whitespaces=False),
        "folder-bpe-new": lambda: {**general(model_type="bpe", normalization_rule_name="identity"),
                                   "tokenizer_config.json": {"legacy": False, "tokenizer_class": "TokenizersBackend"}},
    }


# --- comparison -----------------------------------------------------------------------------------

class Dump:
    """A running DUMP_TOKENS."""

    def __init__(self, program, path):
        self.process = subprocess.Popen([program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def tokens(self, texts):
        """For each text an array of (id, word, begin, end, byte_begin, byte_end)."""
        data = b"".join(struct.pack("<I", len(raw)) + raw for raw in (text.encode() for text in texts))
        out, _ = self.process.communicate(data)
        assert self.process.returncode == 0, "DUMP_TOKENS failed"
        numbers, at = numpy.frombuffer(out, dtype=numpy.int32), 0
        for _ in texts:
            count = int(numbers[at])
            yield numbers[at + 1:at + 1 + 6 * count].reshape(count, 6)
            at += 1 + 6 * count


def expected(encoding):
    """The tokens of the text; None if special tokens are not around it alone, as Berth puts them."""
    around = [i for i, special in enumerate(encoding.special_tokens_mask) if special]
    if around not in ([], [0, len(encoding.ids) - 1]):
        return None
    whole, inner = all_tokens(encoding), slice(1, -1) if around else slice(None)
    return whole[inner]


def all_tokens(encoding):
    ids = numpy.array(encoding.ids, dtype=numpy.int32)
    words = numpy.array([-1 if w is None else w for w in encoding.word_ids], dtype=numpy.int32)
    return numpy.concatenate([ids[:, None], words[:, None],
                              numpy.array(encoding.offsets, dtype=numpy.int32).reshape(-1, 2)], axis=1)


def compare(program, tokenizer, path, texts):
    """(texts, tokens, differences) and the first text that differs."""
    count = tokens = 0
    wrong = []
    while chunk := list(itertools.islice(texts, CHUNK)):
        encodings = tokenizer.encode_batch(chunk)
        for text, encoding, found in zip(chunk, encodings, Dump(program, path).tokens(chunk)):
            want = expected(encoding)
            count += 1
            if want is None:
                wrong.append((text, all_tokens(encoding), found))
                continue
            tokens += len(want)
            raw = text.encode()
            same = want.shape[0] == found.shape[0] and (want == found[:, :4]).all()
            same = same and all(raw[t[4]:t[5]] == text[t[2]:t[3]].encode() for t in found[::7])
            if not same:
                wrong.append((text, want, found))
    return count, tokens, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--lines", type=int, default=20000)
    parser.add_argument("--strings", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", help="a folder for the tokenizers")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    texts = languages()
    if not texts:
        print("skipped: no message catalogues in /usr/share/locale")
        return 77
    each = max(1, args.lines // len(texts))
    draw = random.Random(args.seed)
    lines = [line for name in sorted(texts) for line in draw.sample(texts[name], min(each, len(texts[name])))]
    rest = [line for name in ("en", "de", "fr", "ja", "ru", "zh") for line in texts.get(name, ())]
    lines += draw.sample(rest, min(len(rest), max(0, args.lines - len(lines))))
    training = draw.sample(lines, min(len(lines), 15000))
    failed = False
    kept = pathlib.Path(args.keep or tempfile.mkdtemp())
    kept.mkdir(exist_ok=True)
    makers = kinds(training) | (folders(training) if AutoTokenizer is not None else {})
    if AutoTokenizer is None:
        print("left out: folders, which need transformers")
    for name, make in makers.items():
        if args.only not in name:
            continue
        path = kept / (name if name.startswith("folder-") else name + ".json")
        tokenizer = make()
        if isinstance(tokenizer, dict):
            tokenizer = folder(path, tokenizer)
        else:
            tokenizer.save(str(path))
        counts = [compare(args.program, tokenizer, path, iter(lines)),
                  compare(args.program, tokenizer, path, strings(args.strings, args.seed))]
        for kind, (count, tokens, wrong) in zip(("lines", "strings"), counts):
            print(f"{name}: {count} {kind} in {len(texts)} languages, {tokens} tokens, {len(wrong)} differ", flush=True)
            failed |= bool(wrong)
            for text, want, found in wrong[:2]:
                at = next((i for i in range(min(len(want), len(found))) if (want[i] != found[i, :4]).any()), -1)
                print("  ", json.dumps(text)[:300])
                print("  ", [hex(ord(c)) for c in text][:60])
                print("   at", at, "expected", want[max(0, at - 1):at + 3].tolist(), "found",
                      found[max(0, at - 1):at + 3].tolist())
    return failed


if __name__ == "__main__":
    sys.exit(main())
