#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/golden/cross_encoder.json: what sentence-transformers computes in float64 when it trains
tests/golden/classifier, with only the first row of its last layer, by BinaryCrossEntropyLoss. For each case: the
loss of each of ten updates of AdamW on all pairs, the scores of the pairs afterwards, and what its evaluators say.

    cross_encoder.py tests/golden
"""
import json
import os
import shutil
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import CrossEncoder
from sentence_transformers.cross_encoder.evaluation import (CrossEncoderClassificationEvaluator,
                                                            CrossEncoderCorrelationEvaluator)
from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss
from transformers import BertTokenizer

PAIRS = [("who has a coat ?", "cora has the coat ."), ("who has a coat ?", "the ball is blue ."),
         ("what colour has the lamp ?", "the lamp is green"), ("what colour has the lamp ?", "anna and ben"),
         ("ben", "ben has a book"), ("a red ball", "cora"), ("the book is blue", "blue book"),
         ("the red ball of anna", "anna has a red ball .")]
BINARY = [1, 0, 1, 0, 1, 0, 0, 1]
JUDGED = [1, 0, 1, 1, 1, 0, 0, 1]  # other labels, so that scores of binary ones are not perfect
DEGREES = [0.9, 0.125, 1, 0, 0.5, 0.25, 0.75, 0.6]
CASES = [{"name": "plain", "labels": BINARY}, {"name": "weighted", "labels": BINARY, "positive_weight": 3.5},
         {"name": "degrees", "labels": DEGREES},
         {"name": "weighted_degrees", "labels": DEGREES, "positive_weight": 0.4}]
# A large epsilon, so that gradients that are zero but for rounding move nothing.
UPDATES, RATE, EPSILON = 10, 5e-3, 1e-4


def make_start(golden, folder):
    shutil.copytree(golden, folder)
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    config.update(id2label={"0": "LABEL_0"}, label2id={"LABEL_0": 0}, hidden_dropout_prob=0, attention_probs_dropout_prob=0)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    path = os.path.join(folder, "model.safetensors")
    tensors = load_file(path)
    for name in ("classifier.weight", "classifier.bias"):
        tensors[name] = tensors[name][:1].clone()
    save_file(tensors, path, metadata={"format": "pt"})
    with open(os.path.join(folder, "vocab.txt"), encoding="utf-8") as file:
        words = {word.rstrip("\n"): i for i, word in enumerate(file)}
    BertTokenizer(vocab=words).save_pretrained(folder)


def run(case, folder):
    model = CrossEncoder(folder, device="cpu").double()
    model.eval()  # no dropout
    labels = torch.tensor(case["labels"], dtype=torch.float64)
    weight = case.get("positive_weight")
    loss = BinaryCrossEntropyLoss(model, pos_weight=None if weight is None else torch.tensor(weight).double())
    float_of, torch.Tensor.float = torch.Tensor.float, torch.Tensor.double  # it would round the labels
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0, eps=EPSILON)
    losses = []
    for _ in range(UPDATES):
        value = loss([[pair[0] for pair in PAIRS], [pair[1] for pair in PAIRS]], labels)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    torch.Tensor.float = float_of
    scores = [float(score) for score in model.predict(PAIRS, convert_to_numpy=False)]
    is_binary = case["labels"] == BINARY
    evaluator = CrossEncoderClassificationEvaluator if is_binary else CrossEncoderCorrelationEvaluator
    metrics = evaluator([list(pair) for pair in PAIRS], JUDGED if is_binary else case["labels"], write_csv=False)(model)
    return {**case, "losses": losses, "scores": scores, "metrics": {name: float(value) for name, value in metrics.items()}}


def main(golden):
    with tempfile.TemporaryDirectory() as work:
        folder = os.path.join(work, "start")
        make_start(os.path.join(golden, "classifier"), folder)
        data = {"pairs": PAIRS, "judged": JUDGED, "rate": RATE, "updates": UPDATES, "epsilon": EPSILON,
                "cases": [run(case, folder) for case in CASES]}
    with open(os.path.join(golden, "cross_encoder.json"), "w", encoding="utf-8") as file:
        json.dump(data, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
