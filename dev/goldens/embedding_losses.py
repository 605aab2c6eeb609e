#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/golden/embedding_losses.json: what sentence-transformers computes in float64 when it trains
tests/golden/encoder. For each loss, form of data and pooling: the loss of each of ten updates of AdamW on
all examples, and the embeddings of two texts afterwards; "autocast" has the same of float32 weights under
torch.autocast in bfloat16, as its trainer computes with bf16.

    embedding_losses.py tests/golden
"""
import json
import math
import os
import sys

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses as st
from sentence_transformers.sentence_transformer.losses.triplet import TripletDistanceMetric
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
from sentence_transformers.base.modules import Transformer

ANCHORS = ["the red ball of anna", "who has a coat ?", "ben", "what colour has the lamp of cora ?",
           "the book is blue", "a black coat and a green book"]
NEAR = ["anna has a red ball .", "cora has the coat and ben has a lamp .", "ben has a book", "the lamp is green",
        "blue book", "the coat is black ."]
FAR = ["cora", "the ball is blue .", "what is the colour of the lamp and the book ?", "a red ball", "anna and ben",
       "green coat of cora"]
FARTHER = ["what colour ?", "ben has a black lamp", "the coat of cora is red", "blue", "a book and a ball .",
           "who is ben ?"]
SCORES = [0.9, 0.25, 0.5, 1, -0.75, 0]
TIES = [3, 1, 2, 3, 1, 5]  # of CoSENT, whose scores may have any size
MARGINS = [[4.5, -1], [2, 2], [0.25, 7], [-3, 1.5], [5, 0], [1, 1.25]]
GRADES = [[9, 4, 2.5], [6, 5, 8], [7, 1, 3], [2, 4, 4.5], [8, 0.5, 1], [5, 5, 6]]
# The vectors of a teacher, of the encoder's size.
VECTORS = [[round(math.sin(1 + 0.37 * i + 1.7 * k), 3) for k in range(24)] for i in range(6)]
PROBES = ["the red ball of anna is blue .", "who has a coat and a lamp ?"]

CASES = [
    {"name": "cosine", "texts": 2, "loss": "cosine", "pooling": "mean"},
    {"name": "cosine_cls_normalized", "texts": 2, "loss": "cosine", "pooling": "cls", "normalize": True},
    {"name": "negatives", "texts": 2, "loss": "negatives", "pooling": "mean"},
    {"name": "negatives_scaled_max", "texts": 2, "loss": "negatives", "pooling": "max", "scale": 7.5},
    {"name": "hard_negatives", "texts": 3, "loss": "negatives", "pooling": "mean_sqrt_len_tokens"},
    {"name": "triplet", "texts": 3, "loss": "triplet", "pooling": "weightedmean"},
    {"name": "triplet_normalized", "texts": 3, "loss": "triplet", "pooling": "lasttoken", "normalize": True,
     "margin": 0.75},
    {"name": "triplet_cosine", "texts": 3, "loss": "triplet", "pooling": "mean", "margin": 0.125,
     "distance": "cosine"},
    {"name": "four_negatives", "texts": 4, "loss": "negatives", "pooling": "mean"},
    {"name": "symmetric", "texts": 2, "loss": "negatives", "pooling": "mean", "symmetric": True},
    {"name": "symmetric_hard", "texts": 4, "loss": "negatives", "pooling": "cls", "symmetric": True, "scale": 12},
    {"name": "cosent", "texts": 2, "loss": "cosent", "pooling": "mean", "scores": TIES},
    {"name": "cosent_normalized", "texts": 2, "loss": "cosent", "pooling": "cls", "normalize": True, "scores": SCORES,
     "scale": 5},
    {"name": "margins", "texts": 4, "loss": "margin_mse", "pooling": "mean", "scores": MARGINS},
    {"name": "margin", "texts": 3, "loss": "margin_mse", "pooling": "mean", "scores": [row[0] for row in MARGINS]},
    {"name": "grades_normalized", "texts": 4, "loss": "margin_mse", "pooling": "cls", "normalize": True,
     "scores": GRADES},
    {"name": "vectors", "texts": 1, "loss": "mse", "pooling": "mean", "scores": VECTORS},
    {"name": "vectors_of_two", "texts": 2, "loss": "mse", "pooling": "mean", "scores": VECTORS},
    {"name": "matryoshka", "texts": 2, "loss": "negatives", "pooling": "mean", "dims": [8, 24, 20]},
    {"name": "matryoshka_symmetric", "texts": 3, "loss": "negatives", "pooling": "mean", "symmetric": True,
     "dims": [24, 12], "weights": [1, 0.5]},
    {"name": "matryoshka_cosine", "texts": 2, "loss": "cosine", "pooling": "mean", "dims": [16, 24]},
    {"name": "matryoshka_cosent", "texts": 2, "loss": "cosent", "pooling": "mean", "dims": [24, 16], "scores": TIES},
    {"name": "matryoshka_triplet", "texts": 3, "loss": "triplet", "pooling": "mean", "dims": [24, 16], "margin": 0.5},
    {"name": "matryoshka_margins", "texts": 4, "loss": "margin_mse", "pooling": "mean", "dims": [24, 16],
     "scores": MARGINS},
    {"name": "matryoshka_vectors", "texts": 1, "loss": "mse", "pooling": "mean", "dims": [24, 8], "scores": VECTORS},
]
# A large epsilon, so that gradients that are zero but for rounding move nothing.
UPDATES, RATE, EPSILON = 10, 1e-3, 1e-4


def features_of(texts, words):
    rows = [[words["[CLS]"]] + [words[w] for w in text.split()] + [words["[SEP]"]] for text in texts]
    length = max(map(len, rows))
    return {"input_ids": torch.tensor([row + [0] * (length - len(row)) for row in rows]),
            "attention_mask": torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in rows]),
            "token_type_ids": torch.zeros(len(rows), length, dtype=torch.long)}


def plain_loss_of(case, model):
    scale = case.get("scale", 20.0)
    if case["loss"] == "cosine":
        return st.CosineSimilarityLoss(model)
    if case["loss"] == "cosent":
        return st.CoSENTLoss(model, scale=scale)
    if case["loss"] == "negatives" and case.get("symmetric"):
        return st.MultipleNegativesRankingLoss(model, scale=scale, directions=("query_to_doc", "doc_to_query"),
                                               partition_mode="per_direction")
    if case["loss"] == "negatives":
        return st.MultipleNegativesRankingLoss(model, scale=scale)
    if case["loss"] == "margin_mse":
        return st.MarginMSELoss(model)
    if case["loss"] == "mse":
        return st.MSELoss(model)
    metric = TripletDistanceMetric.COSINE if case.get("distance") == "cosine" else TripletDistanceMetric.EUCLIDEAN
    return st.TripletLoss(model, distance_metric=metric, triplet_margin=case.get("margin", 5))


def loss_of(case, model):
    loss = plain_loss_of(case, model)
    return st.MatryoshkaLoss(model, loss, case["dims"], case.get("weights")) if "dims" in case else loss


def run(case, folder, words, dtype, autocast):
    transformer = Transformer(folder)
    modules = [transformer, Pooling(transformer.get_word_embedding_dimension(), pooling_mode=case["pooling"])]
    if case.get("normalize"):
        modules.append(Normalize())
    model = SentenceTransformer(modules=modules, device="cpu").to(dtype)
    model.eval()  # no dropout
    loss = loss_of(case, model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0, eps=EPSILON)
    features = [features_of(texts, words) for texts in (ANCHORS, NEAR, FAR, FARTHER)[:case["texts"]]]
    losses = []
    for _ in range(UPDATES):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            value = loss([dict(f) for f in features], torch.tensor(case.get("scores", SCORES), dtype=dtype))
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        vectors = [model(features_of([text], words))["sentence_embedding"][0].tolist() for text in PROBES]
    return {"losses": losses, "vectors": vectors}


def run_both(case, folder, words):
    return {**case, **run(case, folder, words, torch.float64, False),
            "autocast": run(case, folder, words, torch.float32, True)}


def main(golden):
    folder = os.path.join(golden, "encoder")
    with open(os.path.join(folder, "vocab.txt"), encoding="utf-8") as file:
        words = {word.rstrip("\n"): i for i, word in enumerate(file)}
    data = {"anchors": ANCHORS, "near": NEAR, "far": FAR, "farther": FARTHER, "scores": SCORES, "probes": PROBES, "rate": RATE,
            "updates": UPDATES, "epsilon": EPSILON, "cases": [run_both(case, folder, words) for case in CASES]}
    with open(os.path.join(golden, "embedding_losses.json"), "w", encoding="utf-8") as file:
        json.dump(data, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
