#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/golden/classifier: a tiny BertForSequenceClassification as a folder, and expected.json: what
transformers computes (float64) of texts and pairs, one at a time: scores of the pipeline text-classification for every
function_to_apply, the last hidden states, and the tokens with types and offsets.

    texts.py tests/golden/classifier
"""
import json
import os
import sys

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast, TextClassificationPipeline

import tensors

WORDS = ("[PAD] [UNK] [CLS] [SEP] [MASK] anna ben cora red blue green black ball book lamp coat the of is "
         "what colour has who ? . ##s and a").split()
TEXTS = [("The red ball of Anna is blue.", None), ("", None), ("who has a coat", "Ben has a coat and a lamp."),
         ("ben", None), ("the lamps of cora", "the lamps of zoé and the book"),
         ("what colour has the book of ben and the ball of cora and the lamp of anna and the coat of ben ?", None),
         ("what colour has the book of ben and the ball of cora ?", "the book is red and the ball is green .")]
LENGTH = 16


def make_model():
    config = BertConfig(vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                        intermediate_size=20, max_position_embeddings=LENGTH,
                        id2label={0: "no", 1: "maybe", 2: "yes"}, label2id={"no": 0, "maybe": 1, "yes": 2})
    model = BertForSequenceClassification(config)
    rng = np.random.default_rng(47)
    parameters = {n: ((1 if n.endswith("LayerNorm.weight") else 0) +
                      0.3 * rng.standard_normal(tuple(p.shape))).astype(np.float32)
                  for n, p in sorted(model.named_parameters())}
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.from_numpy(parameters[name]))
    return config, parameters, model.double().eval()


def row(model, pipeline, tokenizer, text, pair):
    encoded = tokenizer(text, pair, truncation=True, max_length=LENGTH, return_offsets_mapping=True)
    whole = tokenizer(text, pair)
    with torch.no_grad():
        hidden = model.bert(input_ids=torch.tensor([encoded["input_ids"]]),
                            token_type_ids=torch.tensor([encoded["token_type_ids"]]))[0][0]
    scores = {}
    for function in ("none", "sigmoid", "softmax", "default"):
        inputs = {"text": text, "text_pair": pair} if pair is not None else text
        arguments = {} if function == "default" else {"function_to_apply": function}
        found = pipeline(inputs, top_k=None, truncation=True, max_length=LENGTH, **arguments)
        by_name = {entry["label"]: entry["score"] for entry in found}
        scores[function] = [by_name[model.config.id2label[i]] for i in range(3)]
    special = [i in (2, 3) for i in encoded["input_ids"]]
    return {"text": text, "pair": pair, "ids": encoded["input_ids"], "types": encoded["token_type_ids"],
            "offsets": [[-1, -1] if s else list(o) for s, o in zip(special, encoded["offset_mapping"])],
            "truncated": len(whole["input_ids"]) > LENGTH, "scores": scores,
            "hidden": [round(x, 9) for x in hidden.flatten().tolist()]}


def main(folder):
    config, parameters, model = make_model()
    os.makedirs(folder, exist_ok=True)
    vocabulary = os.path.join(folder, "vocab.txt")
    with open(vocabulary, "w", encoding="utf-8") as file:
        file.write("\n".join(WORDS) + "\n")
    config.architectures = ["BertForSequenceClassification"]
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        file.write(config.to_json_string())
    tensors.write_safetensors(os.path.join(folder, "model.safetensors"), parameters, {"format": "pt"})
    tokenizer = BertTokenizerFast(vocab=vocabulary, model_max_length=LENGTH)
    pipeline = TextClassificationPipeline(model=model, tokenizer=tokenizer, device=torch.device("cpu"))
    rows = [row(model, pipeline, tokenizer, text, pair) for text, pair in TEXTS]
    with open(os.path.join(folder, "expected.json"), "w", encoding="utf-8") as file:
        json.dump({"max_seq_length": LENGTH, "texts": rows}, file, separators=(",", ":"))
        file.write("\n")


main(sys.argv[1])
