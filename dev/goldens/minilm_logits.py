#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Logits and gradients of a real pre-trained BERT on real SQuAD features, for comparison with Berth.

The span head is a seeded random one, stored with the results. --logits: N dev features spread over the file,
logits in float32 (`logits`) and in float64 (`logits_float64`). --grads: 8 training features, float64
gradients and the errors of CPU autocast, under the names of tests/golden/README.md. --folder: the model with
that head, as a folder that Berth can open. The files are large and not committed; their tensors are named
like those of the tiny goldens, without the model's own parameters.

Leaves out: dropout, training.

    minilm_logits.py --model DIR --train train-v1.1.json --dev dev-v1.1.json \\
        --logits minilm_logits.safetensors --grads minilm_grads.safetensors --folder headed/
"""
import argparse
import os
import shutil
import sys

import numpy as np
import torch
from transformers import BertConfig, BertForQuestionAnswering, logging as hf_logging

import reference as ref

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "bench"))
import squad_features  # noqa: E402


def load(path, seed):
    hf_logging.set_verbosity_error()
    config = BertConfig.from_pretrained(path)
    model = BertForQuestionAnswering.from_pretrained(path, dtype=torch.float32)
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for p in (model.qa_outputs.weight, model.qa_outputs.bias):
            p.copy_(torch.from_numpy((0.05 * rng.standard_normal(tuple(p.shape))).astype(np.float32)))
    return config, model


def spread(features, count):
    rows = np.linspace(0, len(features) - 1, min(count, len(features))).round().astype(int)
    return [features[i] for i in rows]


def as_batch(features, labels):
    return ref.Batch([np.array(f.input_ids) for f in features],
                     [np.array(f.token_type_ids) for f in features],
                     [f.start for f in features] if labels else None,
                     [f.end for f in features] if labels else None)


def head(parameters):
    return {n: parameters[n] for n in ("qa_outputs.weight", "qa_outputs.bias")}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--model", required=True)
    p.add_argument("--vocab", help="vocab.txt, if not the model's")
    p.add_argument("--train")
    p.add_argument("--dev")
    p.add_argument("--logits")
    p.add_argument("--grads")
    p.add_argument("--folder")
    p.add_argument("--count", type=int, default=200)
    p.add_argument("--seed", type=int, default=7)
    p.add_argument("--threads", type=int, default=2)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    vocab = a.vocab or os.path.join(a.model, "vocab.txt")
    config, model = load(a.model, a.seed)
    parameters = {n: v.detach().numpy() for n, v in model.named_parameters()}
    if a.folder:
        model.save_pretrained(a.folder)
        shutil.copy(vocab, os.path.join(a.folder, "vocab.txt"))
    if a.logits:
        _, features, _ = squad_features.load(vocab, a.dev, False)
        batch = as_batch(spread(features, a.count), False)
        single, _ = ref.run(ref.make_model(config, parameters, torch.float32), batch, backward=False)
        exact, _ = ref.run(ref.make_model(config, parameters), batch, backward=False)
        tensors = {**batch.tensors(), **head(parameters), "logits": single.numpy(),
                   "logits_float64": exact.numpy()}
        ref.write(a.logits, tensors, config, seed=a.seed)
        print(f"{a.logits}: {len(batch.ids)} features, {len(single)} tokens, fp32 apart from float64 "
              f"by {(single.double() - exact).abs().max():.2g}, largest {exact.abs().max():.3g}")
    if a.grads:
        _, features, _ = squad_features.load(vocab, a.train, True)
        labelled = [f for f in features if f.end > 0]
        batch = as_batch(spread(labelled, 8), True)
        tensors, figures = ref.gradient_tensors(config, parameters, batch)
        ref.write(a.grads, {**tensors, **batch.tensors(), **head(parameters)}, config, seed=a.seed)
        print(a.grads, figures)


if __name__ == "__main__":
    main()
