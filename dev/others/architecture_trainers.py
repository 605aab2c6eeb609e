# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of transformers' Trainer for every class of every architecture: Berth resumes one and does the Trainer's next
update, finds the moments of each parameter, and writes them where the Trainer's optimizer looks for them.
"""
import json
import re
import shutil
import sys

import safetensors.torch
import torch
import transformers

import architectures
import shared

MASKED = ["pretrain", "--objective", "mlm", "--do_eval", "false"]


EXAMPLES = {"ForSequenceClassification": 2, "ForTokenClassification": 1, "ForQuestionAnswering": 1}  # two classes, no padding


def arguments(folder, **more):
    return transformers.TrainingArguments(
        output_dir=str(folder), learning_rate=architectures.RATE, adam_epsilon=architectures.EPSILON, weight_decay=0.1,
        lr_scheduler_type="constant", max_grad_norm=0.0, report_to=[], use_cpu=True, disable_tqdm=True, log_level="error", **more)


# --- the next update ------------------------------------------------------------------------------

def check_update(row, end):
    """Two updates by the Trainer and the third one by it and by Berth, each of all examples, so that no order matters."""
    make_examples, more = architectures.TASKS[end]
    words, examples = make_examples(row, EXAMPLES[end])
    start, model = row.save(end, **more, **row.still)
    runs, output = row.work / f"trainer-{end}", row.work / f"resumed-{end}"
    trainer = transformers.Trainer(
        model=model, train_dataset=[{key: torch.as_tensor(value)[0] for key, value in example.items()} for example in examples],
        data_collator=transformers.DataCollatorWithPadding(row.tokenizer),
        args=arguments(runs, max_steps=3, save_steps=2, save_strategy="steps", logging_strategy="no",
                       per_device_train_batch_size=len(examples)))
    trainer.train()
    row.tokenizer.save_pretrained(runs / "checkpoint-2")
    run = [word if word != architectures.UPDATES else 3 for word in architectures.RUN]
    _, said = shared.outputs(row.given.build / "berth", *words, "--model", start, "--output", output, "--resume_from_checkpoint",
                             runs / "checkpoint-2", "--train_batch_size", len(examples), "--threads", 1, *run)
    if " with its weights and the optimizer's moments" not in said:
        sys.exit(f"{row.name}, {end}: no word of the moments in {said}")
    wanted, found = trainer.model.state_dict(), row.strict(end, output).state_dict()
    before = safetensors.torch.load_file(runs / "checkpoint-2/model.safetensors")
    moved = max((wanted[name] - before[name]).abs().max().item() for name in before)
    apart = max((wanted[name] - found[name]).abs().max().item() for name in wanted)
    architectures.note(f"{row.name}, {end}: the third update", apart)
    if moved < architectures.RATE / 2:
        sys.exit(f"{row.name}, {end}: the third update moves the weights by {moved} only")
    return apart


# --- moments by their names -----------------------------------------------------------------------

HEAD = "cls.predictions."
BERTS_NAMES = [  # in which Berth's checkpoints have moments
    (r"^(roberta|distilbert|electra)\.", "bert."), (r"^lm_head\.(dense|layer_norm)\.", HEAD + r"transform.\1."),
    (r"^lm_head\.", HEAD), (r"layer_norm", "LayerNorm"), (r"^generator_predictions\.", HEAD + "transform."),
    (r"^generator_lm_head\.", HEAD), (r"^vocab_(transform)\.", HEAD + "transform.dense."),
    (r"^vocab_LayerNorm\.", HEAD + "transform.LayerNorm."), (r"^vocab_projector\.", HEAD),
    (r"^bert\.transformer\.", "bert.encoder."), (r"\.q_lin\.", ".self.query."), (r"\.k_lin\.", ".self.key."),
    (r"\.v_lin\.", ".self.value."), (r"\.out_lin\.", ".output.dense."), (r"\.sa_LayerNorm\.", ".attention.output.LayerNorm."),
    (r"\.ffn\.lin1\.", ".intermediate.dense."), (r"\.ffn\.lin2\.", ".output.dense."), (r"\.output_LayerNorm\.", ".output.LayerNorm.")]


def berts_name(name):
    for pattern, theirs in BERTS_NAMES:
        name = re.sub(pattern, theirs, name)
    return name


def stored_names(model):
    """The module's names of parameters, and those that files have: of tied tensors, and of a class without a head."""
    stored = {parameter.data_ptr(): name for name, parameter in reversed(list(model.named_parameters(remove_duplicate=False)))
              if not name.endswith("decoder.weight") or "embeddings" in name}
    prefix = "" if model.base_model is not model else model.base_model_prefix + "."
    return {name: berts_name(prefix + stored.get(parameter.data_ptr(), name)) for name, parameter in model.named_parameters()}


def is_unused(model, name):
    """The pooler of a class without a head gets no gradient."""
    return "pooler" in name and model.base_model is model


def place_in_transformers_4(named):
    """RoBERTa's modules, and those of XLM-RoBERTa and CamemBERT, had the order of BERT's."""
    name, parts = named[0], ("word_embeddings", "position_embeddings", "token_type_embeddings", "embeddings.LayerNorm", "encoder")
    return 0 if name.endswith("decoder.weight") else next((i for i, part in enumerate(parts) if part in name), len(parts))


def write_checkpoint(row, model, folder, is_old):
    """One of the Trainer, where the moments of each parameter have a value of their own."""
    trainer = transformers.Trainer(model=model, args=arguments(folder))
    named, decaying, values = list(model.named_parameters()), trainer.get_decay_parameter_names(model), {}
    if is_old:
        named.sort(key=place_in_transformers_4)
    names = {id(parameter): name for name, parameter in named}
    optimizer = torch.optim.AdamW([{"params": [parameter for name, parameter in named if (name in decaying) == decays]}
                                   for decays in (True, False)]) if is_old else trainer.create_optimizer()
    stored = stored_names(model)
    for parameter in (parameter for group in optimizer.param_groups for parameter in group["params"]):
        name = stored[names[id(parameter)]]
        values[name] = len(values) + 1
        if not is_unused(model, name):
            optimizer.state[parameter] = {
                "step": torch.tensor(3.), "exp_avg": torch.full_like(parameter, 1000 * values[name]),
                "exp_avg_sq": torch.full_like(parameter, 1e9 * values[name])}
    model.save_pretrained(folder)
    row.tokenizer.save_pretrained(folder)
    torch.save(optimizer.state_dict(), folder / "optimizer.pt")
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": 3, "log_history": [], "total_flos": 1.0}))
    return values


def command(row, end):
    if end in architectures.TASKS:
        return architectures.TASKS[end][0](row)[0], architectures.TASKS[end][1]
    if end == "ForMaskedLM":
        return [*MASKED, "--train_file", architectures.lines_file(row, architectures.LINES * 4, "masked.txt")], {}
    pairs = architectures.lines_file(row, ["sentence1\tsentence2", *["a good film\tthe bad dog"] * 4], "pairs.tsv")
    return ["finetune", "embed", "--train", pairs], {}


def run_berth(row, words, model, output, *more):
    architectures.berth(row.given, *words, "--model", model, "--output", output, "--precision", "fp32", "--max_seq_length", 100,
                        "--train_batch_size", 2, "--learning_rate", 1e-9, "--schedule", "constant", "--warmup_steps", 0,
                        "--quiet", *more)


def check_moments(row, end, is_old=False):
    words, more = command(row, end)
    _, model = row.save(end, **more)
    folder, output = row.work / f"moments-{end}", row.work / f"moments-out-{end}"
    values = write_checkpoint(row, model, folder, is_old)
    run_berth(row, words, folder, output, "--resume_from_checkpoint", folder, "--max_steps", 4, "--save_steps", 4)
    found = safetensors.torch.load_file(output / "checkpoint-4/optimizer.safetensors")
    names = [key.removeprefix("exp_avg.") for key in found if key.startswith("exp_avg.")]
    for name in names:
        value = values.get(name)
        near = value is not None and (found[f"exp_avg.{name}"] / 900 - value).abs().max() < 0.05
        if not near or (found[f"exp_avg_sq.{name}"] / 0.999e9 - value).abs().max() > 1e-3:
            sys.exit(f"{row.name}, {end}: {name} has the moments of another parameter, not {value}: {found[f'exp_avg.{name}']}")
    missing = {name for name in values if not is_unused(model, name)} - set(names)
    if missing:
        sys.exit(f"{row.name}, {end}: no moments of {missing}")
    shutil.rmtree(folder), shutil.rmtree(output)
    return len(names)


def check_written(row, end):
    """convert --to trainer: the Trainer's optimizer takes each of Berth's moments for the parameter of its name."""
    words, more = command(row, end)
    start, _ = row.save(end, **more)
    output = row.work / f"written-{end}"
    run_berth(row, words, start, output, "--max_steps", 3, "--save_steps", 3)
    folder = shared.convert(row.given, output / "checkpoint-3", "trainer", target=row.work / f"written-trainer-{end}")
    model = row.strict(end, folder)
    optimizer = transformers.Trainer(model=model, args=arguments(row.work / "unused")).create_optimizer()
    optimizer.load_state_dict(torch.load(folder / "optimizer.pt", weights_only=True))
    stored = safetensors.torch.load_file(output / "checkpoint-3/optimizer.safetensors")
    names, used = stored_names(model), 0
    for name, parameter in model.named_parameters():
        state, key = optimizer.state[parameter], names[name]
        if is_unused(model, name):
            continue
        if state["step"] != 3 or any(not torch.equal(state[moment], stored[f"{moment}.{key}"])
                                     for moment in ("exp_avg", "exp_avg_sq")):
            sys.exit(f"{row.name}, {end}: {name} has the moments of another parameter")
        used += 1
    if used * 2 != len(stored):
        sys.exit(f"{row.name}, {end}: {used} parameters, but {len(stored)} moments")


def checkpoints(given):
    for name in architectures.ROWS:
        row = architectures.Row(given, name)
        said = []
        for end in architectures.CLASSES:
            count = check_moments(row, end)
            if "Roberta" in row.prefix or row.prefix == "Camembert":
                check_moments(row, end, is_old=True)
            check_written(row, end)
            apart = f", {check_update(row, end):.1g}" if end in architectures.TASKS else ""
            said.append(f"{end} {count}{apart}")
        print(f"{name}: moments of {'; '.join(said)}", flush=True)
        shutil.rmtree(row.work)
