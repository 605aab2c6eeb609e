# SPDX-License-Identifier: Apache-2.0
"""TensorBoard reads the scalars of a short training run, which are those of the run's JSON lines."""
import json

import numpy as np
from tensorboard.backend.event_processing import event_accumulator

import shared

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.?"


def make_run(given):
    """Trains a tiny model with --logging_dir; the JSON lines of the run."""
    work = given.work
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary += [c for c in LETTERS] + ["##" + c for c in LETTERS]
    config = dict(model_type="bert", vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=2,
                  num_attention_heads=2, intermediate_size=64, max_position_embeddings=128)
    (work / "config.json").write_text(json.dumps(config))
    shared.berth(given, "init", "--config", work / "config.json", "--output", work / "model", "--quiet")
    (work / "model/vocab.txt").write_text("\n".join(vocabulary) + "\n")
    context = "ada lived in oslo. hugo lived in riga."
    questions = [dict(id=str(i), question="where did ada live?",
                      answers=[dict(text="oslo", answer_start=13)]) for i in range(40)]
    (work / "data.json").write_text(json.dumps({"version": "1.1", "data": [
        {"title": "x", "paragraphs": [{"context": context, "qas": questions}]}]}))
    shared.berth(given, "finetune", "squad", "--model", work / "model", "--train", work / "data.json", "--dev",
                 work / "data.json", "--output", work / "run", "--logging_dir", work / "board", "--json_summary",
                 work / "log.json", "--quiet", "--max_seq_length", 96, "--doc_stride", 32, "--train_batch_size", 8,
                 "--max_steps", 10, "--logging_steps", 2, "--threads", 1, "--wall_clock_breakdown")
    return [json.loads(line) for line in (work / "log.json").read_text().splitlines()]


def scalars(given):
    records = make_run(given)
    board = event_accumulator.EventAccumulator(str(given.work / "board"))
    board.Reload()
    expected = {}
    rows = {"loss": "train_loss", "learning_rate": "lr", "grad_norm": "grad_norm",
            "samples_per_second": "samples_per_second", "tokens_per_second": "tokens_per_second",
            "forward_ms": "elapsed_time_ms_forward", "backward_ms": "elapsed_time_ms_backward",
            "step_ms": "elapsed_time_ms_step"}
    for record in records:
        if record["kind"] == "step":
            for key, tag in rows.items():
                expected.setdefault("Train/Samples/" + tag, []).append((8 * record["step"], record[key]))
            expected.setdefault("Train/Steps/lr", []).append((record["step"], record["learning_rate"]))
        if record["kind"] == "eval":
            for key in ("exact_match", "f1", "samples_per_second", "tokens_per_second"):
                expected.setdefault("Validation/" + key, []).append((8 * record["step"], record[key]))
    assert sorted(board.Tags()["scalars"]) == sorted(expected), board.Tags()
    for tag, points in expected.items():
        found = [(e.step, np.float32(e.value)) for e in board.Scalars(tag)]
        assert found == [(step, np.float32(value)) for step, value in points], (tag, found, points)
