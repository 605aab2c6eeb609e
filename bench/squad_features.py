#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SQuAD windows by the Google rules, in Python: the reference for `berth features squad`.

Contains reader, tokenizer (Hugging Face's `tokenizers`, applied to each white-space word as in Google's
run_squad.py), sliding windows, labels, max-context flags; a cache of the result, and a dump as JSON lines
that a test can compare field by field.

Leaves out: the flat Hugging Face shape, other feature rules (BingBertSquad's word test, the Keras recipe),
Google's own Unicode tables.

    squad_features.py --vocab vocab.txt --input train-v1.1.json --training --count
    squad_features.py --vocab vocab.txt --input dev-v1.1.json --jsonl dev.jsonl --cache DIR
"""
import argparse
import hashlib
import json
import os
import pickle
import sys
from dataclasses import dataclass, field

from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

FORMAT = 4  # goes into the name of the cache file: raise it when the rules or the fields change
SPECIAL = ("[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]")
# The expected counts at 384/128/64 (examples, features, tokens, cls_labelled).
EXPECTED = {"train-v1.1.json": (7771, 8014, 1456089, 159), "dev-v1.1.json": (1226, 1229, 213566, 0),
            "train-v2.0.json": (8749, 9059, 1669077, 4599), "dev-v2.0.json": (1426, 1433, 255580, 0)}


@dataclass
class Example:
    id: str
    question: str
    words: list                # the context, split at white space
    answers: list              # every reference text
    start: int = -1            # first and last word of the answer (training only, -1: impossible)
    end: int = -1


@dataclass
class Feature:
    example: int               # index into the examples
    unique_id: int
    input_ids: list            # real length, never padded
    token_type_ids: list
    doc_offset: int            # position of the first document token: len(question) + 2
    doc_span_start: int        # the window's first token, counted in the whole document
    token_to_orig: list        # word of each position, -1 outside the document part
    is_max_context: list       # 0 or 1 for each position
    start: int = 0             # labels (training only)
    end: int = 0
    tokens: list = field(default_factory=list)


class Bert:
    """Hugging Face's BERT tokenizer, put together from the library's parts."""

    def __init__(self, vocab_file, lower=True):
        self.normalizer = BertNormalizer(clean_text=True, handle_chinese_chars=True, lowercase=lower)
        self.words = BertPreTokenizer()
        with open(vocab_file, encoding="utf-8") as stream:
            vocab = {line.rstrip("\n"): i for i, line in enumerate(stream)}
        tok = Tokenizer(WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100))
        tok.normalizer = self.normalizer
        tok.pre_tokenizer = self.words
        tok.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL])
        self.tok = tok
        self.vocab = vocab
        self.memory = {}

    def tokenize(self, text):
        found = self.memory.get(text)
        if found is None:
            found = self.memory[text] = self.tok.encode(text, add_special_tokens=False).tokens
        return found

    def basic(self, text):
        """The basic tokenizer alone: lower-cased words and punctuation, before WordPiece."""
        return [w for w, _ in self.words.pre_tokenize_str(self.normalizer.normalize_str(text))]


def is_white(c):
    return c in " \t\r\n\u202f"


def split_words(text):
    words, char_to_word, in_word = [], [], False
    for c in text:
        if is_white(c):
            in_word = False
        elif in_word:
            words[-1] += c
        else:
            words.append(c)
            in_word = True
        char_to_word.append(len(words) - 1)
    return words, char_to_word


def read_examples(path, training, limit=0):
    with open(path, encoding="utf-8") as stream:
        data = json.load(stream)["data"]
    examples = []
    questions = 0
    for article in data:
        for paragraph in article["paragraphs"]:
            words, char_to_word = split_words(paragraph["context"])
            for qa in paragraph["qas"]:
                questions += 1
                if limit and questions > limit:
                    return examples
                ex = Example(qa["id"], qa["question"], words, [a["text"] for a in qa["answers"]])
                if training and not qa.get("is_impossible"):
                    if len(qa["answers"]) != 1:
                        sys.exit(f"{path}: question {qa['id']} has {len(qa['answers'])} answers, not one")
                    answer = qa["answers"][0]
                    first = answer["answer_start"]
                    ex.start = char_to_word[first]
                    ex.end = char_to_word[first + len(answer["text"]) - 1]
                    actual = " ".join(words[ex.start:ex.end + 1])
                    if " ".join(answer["text"].split()) not in actual:
                        print(f"{path}: {qa['id']}: answer not in its context, skipped", file=sys.stderr)
                        continue
                examples.append(ex)
    return examples


def improve_span(bert, tokens, start, end, answer):
    wanted = " ".join(bert.tokenize(answer))
    for s in range(start, end + 1):
        for e in range(end, s - 1, -1):
            if " ".join(tokens[s:e + 1]) == wanted:
                return s, e
    return start, end


def max_context(spans, which, position):
    best, best_score = None, None
    for i, (start, length) in enumerate(spans):
        end = start + length - 1
        if start <= position <= end:
            score = min(position - start, end - position) + 0.01 * length
            if best_score is None or score > best_score:
                best, best_score = i, score
    return best == which


def build_features(examples, bert, training, max_seq=384, stride=128, max_query=64):
    if stride < 1:
        sys.exit(f"doc_stride is {stride}; expected 1 or more")
    features = []
    cls, sep = bert.vocab["[CLS]"], bert.vocab["[SEP]"]
    for number, ex in enumerate(examples):
        query = bert.tokenize(ex.question)[:max_query]
        doc, tok_to_orig, orig_to_tok = [], [], []
        for i, word in enumerate(ex.words):
            orig_to_tok.append(len(doc))
            pieces = bert.tokenize(word)
            doc += pieces
            tok_to_orig += [i] * len(pieces)
        start = end = -1
        if training and ex.start >= 0:
            start = orig_to_tok[ex.start]
            end = orig_to_tok[ex.end + 1] - 1 if ex.end < len(ex.words) - 1 else len(doc) - 1
            start, end = improve_span(bert, doc, start, end, ex.answers[0])
        room = max_seq - len(query) - 3
        if room < 1:
            sys.exit(f"question {ex.id}: its {len(query)} tokens and 3 special ones leave no room for the "
                     f"document in max_seq_length {max_seq}; raise that or lower max_query_length "
                     f"({max_query})")
        spans, at = [], 0
        while at < len(doc):
            length = min(len(doc) - at, room)
            spans.append((at, length))
            if at + length == len(doc):
                break
            at += min(length, stride)
        offset = len(query) + 2
        for w, (at, length) in enumerate(spans):
            ids = [cls] + [bert.vocab[t] for t in query] + [sep]
            ids += [bert.vocab[t] for t in doc[at:at + length]] + [sep]
            f = Feature(
                example=number, unique_id=1000000000 + len(features), input_ids=ids,
                token_type_ids=[0] * offset + [1] * (length + 1), doc_offset=offset, doc_span_start=at,
                token_to_orig=[-1] * offset + tok_to_orig[at:at + length] + [-1],
                is_max_context=[0] * offset
                + [int(max_context(spans, w, at + i)) for i in range(length)] + [0],
                tokens=["[CLS]"] + query + ["[SEP]"] + doc[at:at + length] + ["[SEP]"])
            if start >= at and end < at + length:
                f.start = start - at + offset
                f.end = end - at + offset
            features.append(f)
    return features


def counts(examples, features, training):
    cls = sum(f.start == 0 and f.end == 0 for f in features) if training else 0
    return len(examples), len(features), sum(len(f.input_ids) for f in features), cls


def load(vocab, path, training, limit=0, max_seq=384, stride=128, max_query=64, cache=None):
    """Examples and features of a file; kept in `cache` under a name that covers all that matters."""
    bert = Bert(vocab)
    name = None
    if cache:
        key = hashlib.sha256()
        for p in (vocab, path):
            with open(p, "rb") as stream:
                key.update(hashlib.sha256(stream.read()).digest())
        key.update(repr((FORMAT, training, limit, max_seq, stride, max_query)).encode())
        name = os.path.join(cache, f"squad-{key.hexdigest()[:16]}.pickle")
        if os.path.exists(name):
            with open(name, "rb") as stream:
                kept = pickle.load(stream)
            return [Example(**e) for e in kept[0]], [Feature(**f) for f in kept[1]], bert
    examples = read_examples(path, training, limit)
    features = build_features(examples, bert, training, max_seq, stride, max_query)
    if name:
        os.makedirs(cache, exist_ok=True)
        with open(f"{name}.{os.getpid()}", "wb") as stream:
            pickle.dump(([vars(e) for e in examples], [vars(f) for f in features]), stream)
        os.replace(f"{name}.{os.getpid()}", name)
    return examples, features, bert


def dump(path, examples, features, training):
    with (sys.stdout if path == "-" else open(path, "w", encoding="utf-8")) as stream:
        for f in features:
            row = {"example_id": examples[f.example].id, "unique_id": f.unique_id,
                   "input_ids": f.input_ids, "token_type_ids": f.token_type_ids,
                   "start": f.start if training else None, "end": f.end if training else None,
                   "doc_span_start": f.doc_span_start, "token_to_orig": f.token_to_orig,
                   "is_max_context": f.is_max_context}
            stream.write(json.dumps(row, separators=(",", ":")) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--vocab", required=True)
    p.add_argument("--input", required=True)
    p.add_argument("--training", action="store_true")
    p.add_argument("--max_seq_length", type=int, default=384)
    p.add_argument("--doc_stride", type=int, default=128)
    p.add_argument("--max_query_length", type=int, default=64)
    p.add_argument("--cache", help="folder for the cached result")
    p.add_argument("--jsonl", help="write one JSON object a feature to this file (- is stdout)")
    p.add_argument("--count", action="store_true", help="print the counts")
    p.add_argument("--check", action="store_true", help="fail unless the counts are the known ones")
    a = p.parse_args()
    examples, features, _ = load(a.vocab, a.input, a.training, 0, a.max_seq_length, a.doc_stride,
                                 a.max_query_length, a.cache)
    got = counts(examples, features, a.training)
    if a.count or a.check:
        print("examples=%d features=%d tokens=%d cls_labelled=%d" % got)
    if a.check:
        want = EXPECTED.get(os.path.basename(a.input))
        if want != got:
            sys.exit(f"{a.input}: expected {want}")
    if a.jsonl:
        dump(a.jsonl, examples, features, a.training)


if __name__ == "__main__":
    main()
