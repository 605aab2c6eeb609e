# SPDX-License-Identifier: Apache-2.0
"""The programs that checkpoints are for read what `berth convert` writes of --model (by default a tiny one with random
weights), tensor by tensor. The expected names and transposes are written down independently here.
"""
import json
import os
import re
import sys

from shared import berth, convert, read_safetensors, torch_tensor


def source_of(given):
    """The model's folder, beside which the conversions come, and its tensors."""
    model = given.work / "model"
    if given.model:
        model.symlink_to(given.model)
    else:
        berth(given, "init", "--config", "tiny", "--output", model, "--quiet")
    return model, read_safetensors(model / "model.safetensors")


def prefixed(name):
    return "bert." + name if re.match(r"(embeddings|encoder|pooler)\.", name) else name


def tensorflow_name(name):
    fixed = {"qa_outputs.weight": "cls/squad/output_weights", "qa_outputs.bias": "cls/squad/output_bias",
             "classifier.weight": "output_weights", "classifier.bias": "output_bias",
             "cls.predictions.bias": "cls/predictions/output_bias",
             "cls.seq_relationship.weight": "cls/seq_relationship/output_weights",
             "cls.seq_relationship.bias": "cls/seq_relationship/output_bias"}
    if name in fixed:
        return fixed[name], False
    name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
    name = name.replace("_embeddings.weight", "_embeddings")
    turned = name.endswith(".weight")
    name = re.sub(r"\.weight$", ".kernel", name).replace(".layer.", ".layer_")
    return name.replace(".", "/"), turned


def nvidia_name(name):
    return re.sub(r"(intermediate|pooler|transform)\.dense\.", r"\1.dense_act.", name)


def bits(tensor):
    import torch
    return tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def same_tensors(expected, found, name_of, padded):
    """found: {name: tensor}; padded: whether the words have rows of zeros at their end."""
    import torch
    if len(expected) != len(found):
        sys.exit(f"{len(found)} tensors, expected {len(expected)}")
    for name, (_, shape, data) in expected.items():
        tensor = found[name_of(name)]
        if padded and re.search(r"word_embeddings|cls\.predictions\.(bias|decoder)", name):
            if tensor.shape[0] % 8 != 0 or torch.any(tensor[shape[0]:] != 0):
                sys.exit(f"{name}: {tuple(tensor.shape)}, or its padding is not zero")
            tensor = tensor[:shape[0]]
        if list(tensor.shape) != shape or bits(tensor) != data:
            sys.exit(f"{name} differs")


def torch_models(given):
    import torch
    model, expected = source_of(given)
    folder = convert(given, model, "torch")
    state = torch.load(folder / "pytorch_model.bin", weights_only=True)
    same_tensors(expected, state, lambda name: name, False)
    folder = convert(given, model, "nvidia", "--step", 8601)
    state = torch.load(folder / "ckpt_8601.pt", weights_only=True)["model"]
    same_tensors(expected, state, lambda name: nvidia_name(prefixed(name)), True)
    folder = convert(given, model, "deepspeed", "--kernel_layers")
    tag = (folder / "latest").read_text()
    state = torch.load(folder / tag / "mp_rank_00_model_states.pt", weights_only=True)["module"]
    qkv = [torch.cat([torch_tensor(expected[f"{prefix}.attention.self.{part}.weight"])
                      for part in ("query", "key", "value")])
           for prefix in layers(expected)]
    for i, wanted in enumerate(qkv):
        if not torch.equal(state[f"bert.encoder.layer.{i}.attn_qkvw"], wanted):
            sys.exit(f"attn_qkvw of layer {i} is not query, key, value")


SETTINGS = {"optimizer": "adamw", "learning_rate": "0.002", "weight_decay": "0.05", "no_decay": "deepspeed",
            "adam_beta1": "0.9", "adam_beta2": "0.99", "adam_epsilon": "1e-07", "bias_correction": "true",
            "schedule": "linear", "warmup_proportion": "0"}
WITHOUT_DECAY = ("bias", "LayerNorm.weight")


def write_checkpoint(folder, weights):
    """A checkpoint of Berth with these weights and random moments, which are returned."""
    import torch
    from safetensors.torch import save_file
    torch.manual_seed(8)
    moments = {f"{row}.{name}": torch.rand_like(tensor) for name, tensor in weights.items()
               for row in ("exp_avg", "exp_avg_sq")}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    save_file(moments, folder / "optimizer.safetensors")
    (folder / "trainer_state.json").write_text(json.dumps(
        {"format_version": 1, "global_step": 5, "skipped_steps": 1, "train_batch_size": 4, "max_steps": 8,
         "log_history": [{"step": 4, "learning_rate": 0.00125}], "settings": SETTINGS}))
    return moments


def in_groups(module):
    """Names of a module's parameters as programs with two groups give them to an optimizer."""
    names = [name for name, _ in module.named_parameters()]
    plain = [name for name in names if any(part in name for part in WITHOUT_DECAY)]
    return [[name for name in names if name not in plain], plain]


def same_row(found, names, tensors, what):
    import torch
    expected = torch.cat([tensors[name].flatten() for name in names])
    if not torch.equal(found[:len(expected)], expected) or torch.any(found[len(expected):] != 0):
        sys.exit(f"ZeRO's {what} differ")


def check_shards(folder, ranks, groups, weights, moments):
    """With torch alone: what the ranks have of each group is the group's numbers in the module's order."""
    import torch
    tag = folder / (folder / "latest").read_text()
    states = torch.load(tag / "mp_rank_00_model_states.pt", weights_only=True)
    if [list(group) for group in states["param_shapes"]] != groups:
        sys.exit("param_shapes has another order than the module")
    shards = [torch.load(tag / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt",
                         weights_only=True)["optimizer_state_dict"] for rank in range(ranks)]
    for i, names in enumerate(groups):
        same_row(torch.cat([shard["single_partition_of_fp32_groups"][i] for shard in shards]), names, weights,
                 "master weights")
        for row in ("exp_avg", "exp_avg_sq"):
            same_row(torch.cat([shard["base_optimizer_state"]["state"][i][row] for shard in shards]),
                     [f"{row}.{name}" for name in names], moments, row)


def make_checkpoint(model, name):
    """(a checkpoint's folder, its module, weights and moments) of a model of transformers."""
    import torch
    import transformers
    torch.manual_seed(3)
    folder = model.parent / f"checkpoint-of-{name}"
    module = getattr(transformers, name)(transformers.AutoConfig.from_pretrained(model))
    module.save_pretrained(folder)
    weights = {key: value.detach().clone() for key, value in module.named_parameters()}
    return folder, module, weights, write_checkpoint(folder, weights)


def torch_optimizers(given):
    """The optimizer's state, whole and in shards, against torch and the order of transformers' modules."""
    import torch
    model, _ = source_of(given)
    for name in ("BertForQuestionAnswering", "BertForPreTraining"):
        checkpoint, module, weights, moments = make_checkpoint(model, name)
        groups = in_groups(module)
        for stage, ranks in ((1, 1), (2, 3)):
            folder = convert(given, checkpoint, "deepspeed", "--zero_stage", stage, "--ranks", ranks,
                             target=given.work / f"{name}-{stage}")
            check_shards(folder, ranks, groups, weights, moments)
        folder = convert(given, checkpoint, "deepspeed", "--zero_stage", 0)
        states = torch.load(folder / "global_step5" / "mp_rank_00_model_states.pt", weights_only=True)
        parameters = dict(module.named_parameters())
        optimizer = torch.optim.AdamW([{"params": [parameters[key] for key in group]} for group in groups])
        optimizer.load_state_dict(states["optimizer"])
        for key, parameter in parameters.items():
            for row in ("exp_avg", "exp_avg_sq"):
                if not torch.equal(optimizer.state[parameter][row], moments[f"{row}.{key}"]):
                    sys.exit(f"torch's optimizer has another {row} of {key}")
            if optimizer.state[parameter]["step"] != 4:
                sys.exit("torch's optimizer has another number of updates")
        found = [(group["lr"], group["weight_decay"], group["eps"], *group["betas"])
                 for group in optimizer.param_groups]
        if found != [(0.001, 0.05, 1e-7, 0.9, 0.99), (0.001, 0.0, 1e-7, 0.9, 0.99)]:  # the rate of the next update
            sys.exit(f"torch's optimizer has other settings: {found}")


def layers(expected):
    found = {match.group(0) for name in expected
             if (match := re.match(r".*encoder\.layer\.\d+", name))}
    return sorted(found, key=lambda name: int(name.rsplit(".", 1)[1]))


def transformers_models(given):
    import torch
    import transformers
    model, _ = source_of(given)
    config = transformers.AutoConfig.from_pretrained(model)
    kind = getattr(transformers, config.architectures[0])
    folder = convert(given, convert(given, model, "tensorflow"), "hf")
    first, second = (kind.from_pretrained(path).eval() for path in (model, folder))
    ids = torch.arange(1, 17)[None]
    with torch.no_grad():
        a, b = first(input_ids=ids)[0], second(input_ids=ids)[0]
    if not torch.equal(a, b):
        sys.exit("transformers computes something else from the model that went through TensorFlow")
    third = kind.from_pretrained(convert(given, model, "torch"), use_safetensors=False).eval()
    with torch.no_grad():
        if not torch.equal(a, third(input_ids=ids)[0]):
            sys.exit("transformers computes something else from pytorch_model.bin")


def tensorflow_model(given):
    import numpy
    import tensorflow as tf
    model, expected = source_of(given)
    folder = convert(given, model, "tensorflow")
    reader = tf.train.load_checkpoint(str(folder))
    if len(reader.get_variable_to_shape_map()) != len(expected):
        sys.exit("TensorFlow finds another number of variables")
    for name, (_, shape, data) in expected.items():
        theirs, turned = tensorflow_name(prefixed(name))
        array = reader.get_tensor(theirs)
        array = array.T if turned and array.ndim == 2 else array
        if list(array.shape) != shape or numpy.ascontiguousarray(array).tobytes() != data:
            sys.exit(f"{name} differs in TensorFlow's checkpoint")


def deepspeed_engine(module, stage=0, parameters=None):
    import deepspeed
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", LOCAL_SIZE="1",
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ.get("MASTER_PORT", "29617"))
    deepspeed.init_distributed(dist_backend="gloo")
    return deepspeed.initialize(model=module, model_parameters=parameters, config={
        "train_batch_size": 1, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
        "zero_optimization": {"stage": stage}, "bf16": {"enabled": stage > 0},
        "zero_force_ds_cpu_optimizer": False})[0]


def check_engine(given, model, stage):
    """DeepSpeed's engine resumes with the optimizer's state, and zero_to_fp32.py finds the weights."""
    import torch
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint
    name = "BertForPreTraining"
    checkpoint, module, weights, moments = make_checkpoint(model, name)
    groups, parameters = in_groups(module), dict(module.named_parameters())
    options = ["--dtype", "bf16"] if stage > 0 else []
    folder = convert(given, checkpoint, "deepspeed", "--zero_stage", stage, *options, target=given.work / f"stage{stage}")
    with torch.no_grad():
        for parameter in parameters.values():
            parameter.zero_()
    engine = deepspeed_engine(module, stage, [{"params": [parameters[key] for key in group]} for group in groups])
    path, _ = engine.load_checkpoint(str(folder))
    if path is None or engine.global_steps != 5 or engine.skipped_steps != 1:
        sys.exit(f"DeepSpeed does not resume {folder}: {path}, {engine.global_steps}, {engine.skipped_steps}")
    optimizer = engine.optimizer
    states = getattr(optimizer, "optimizer", optimizer).state
    if stage == 0:
        rows = [(states[dict(engine.module.named_parameters())[key]], [key], weights[key].flatten())
                for group in groups for key in group]
    else:
        rows = [(states[flat], group, flat.detach()) for flat, group in
                zip(optimizer.single_partition_of_fp32_groups, groups)]
        three = convert(given, checkpoint, "deepspeed", "--zero_stage", stage, "--ranks", 3, target=given.work / f"three{stage}")
        found = get_fp32_state_dict_from_zero_checkpoint(str(three))
        if any(not torch.equal(found[key], value) for key, value in weights.items()):
            sys.exit("zero_to_fp32.py finds other weights")
    for state, names, flat in rows:
        same_row(flat, names, weights, "master weights in the engine")
        for row in ("exp_avg", "exp_avg_sq"):
            same_row(state[row].flatten(), [f"{row}.{key}" for key in names], moments, f"{row} in the engine")


def deepspeed_engines(given):
    """Its own load_checkpoint around models of transformers, strictly; and what it saves itself."""
    import deepspeed
    import torch
    import transformers
    model, _ = source_of(given)
    config = transformers.AutoConfig.from_pretrained(model)
    ids = torch.arange(1, 17)[None]
    for name in ("BertForQuestionAnswering", "BertForPreTraining"):
        kind = getattr(transformers, name)
        torch.manual_seed(3)
        source = kind(config).eval()
        saved = model.parent / name
        source.save_pretrained(saved)
        # by way of NVIDIA's names, which a module of transformers' would miss
        folder = convert(given, convert(given, saved, "nvidia"), "deepspeed", "--step", 12, "--names", "huggingface")
        for checkpoint in (folder, convert(given, saved, "deepspeed", "--step", 12)):
            torch.manual_seed(4)
            engine = deepspeed_engine(kind(config))
            path, _ = engine.load_checkpoint(str(checkpoint), load_module_strict=True, load_module_only=True)
            if path is None:
                sys.exit(f"DeepSpeed does not load {checkpoint}")
            with torch.no_grad():
                ours, theirs = engine.module.eval()(input_ids=ids), source(input_ids=ids)
            if not all(torch.equal(a, b) for a, b in zip(ours.to_tuple(), theirs.to_tuple())):
                sys.exit(f"{name} computes something else after DeepSpeed's load_checkpoint")
    for stage in (1, 2):
        engine = deepspeed_engine(kind(config), stage)
        path = model.parent / f"zero{stage}"
        engine.save_checkpoint(str(path), tag="global_step3")
        config.save_pretrained(path)
        with deepspeed.zero.GatheredParameters(list(engine.module.parameters())):
            wanted = {name: tensor.detach().float().clone() for name, tensor in engine.module.state_dict().items()
                      if "decoder" not in name}
        found = read_safetensors(convert(given, path, "hf") / "model.safetensors")
        if found.keys() != wanted.keys():
            sys.exit(f"ZeRO stage {stage}: other tensors: {found.keys() ^ wanted.keys()}")
        for name, tensor in wanted.items():
            # the folder has the optimizer's f32, the module their bf16
            if not torch.equal(torch_tensor(found[name]).bfloat16(), tensor.bfloat16()):
                sys.exit(f"ZeRO stage {stage}: {name} differs")
    for stage in (0, 1, 2):
        check_engine(given, model, stage)
