#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints which updates transformers' Trainer reports and evaluates, as lines of tests/cli/test_trainer.sh: the
settings, the updates with a loss, and those with a score, of a run of nine updates in three epochs. Berth also
reports and evaluates the last update, which is added here.

    pip install torch transformers accelerate
    python dev/goldens/trainer_reports.py tests/cli/data/trainer
"""
import pathlib
import sys
import tempfile

from transformers import BertForSequenceClassification, BertTokenizerFast, Trainer, TrainingArguments

SETTINGS = [
    {"eval_strategy": "no", "logging_strategy": "no"},
    {"logging_strategy": "epoch", "eval_strategy": "epoch", "eval_delay": 2},
    {"logging_strategy": "epoch", "logging_first_step": True, "eval_strategy": "steps", "eval_steps": 2, "eval_delay": 6},
    {"logging_steps": 4, "logging_first_step": True, "eval_strategy": "epoch", "eval_delay": 1.5, "eval_on_start": True},
    {"logging_strategy": "no", "logging_first_step": True, "eval_strategy": "steps", "eval_steps": 4, "eval_on_start": True},
]
folder = pathlib.Path(sys.argv[1])
tokenizer = BertTokenizerFast(vocab=str(folder / "vocab.txt"))
rows = [line.split("\t") for line in (folder / "train.tsv").read_text().splitlines()[1:]]
data = [{**tokenizer(text), "labels": int(label == "bad")} for text, label in rows]
for settings in SETTINGS:
    with tempfile.TemporaryDirectory() as work:
        arguments = TrainingArguments(
            output_dir=work, per_device_train_batch_size=2, num_train_epochs=3, save_strategy="no", use_cpu=True,
            report_to=[], disable_tqdm=True, **settings)
        model = BertForSequenceClassification.from_pretrained(folder / "checkpoint-3")
        trainer = Trainer(model=model, args=arguments, train_dataset=data, eval_dataset=data,
                          processing_class=tokenizer)
        trainer.train()
    found = [",".join(str(step) for step in sorted({entry["step"] for entry in trainer.state.log_history if key in entry}
                                                   | {trainer.state.max_steps})) for key in ("loss", "eval_loss")]
    options = " ".join(f"--{name} {str(value).lower()}" for name, value in settings.items())
    print(f"{options}: {found[0]} {found[1]}", file=sys.stderr)
