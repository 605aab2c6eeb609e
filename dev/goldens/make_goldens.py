#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/golden/*.safetensors with PyTorch + transformers: logits, losses and gradients of tiny models,
a ten-step AdamW curve, and single operations. tests/golden/README.md lists the tensors.

Everything is seeded and computed in float64 unless the name says otherwise. The files are committed, so the
tests need neither Python nor PyTorch. Run it again only to change the files' contents.

Leaves out: dropout (0 in all of them), real data (minilm_logits.py).

    make_goldens.py tests/golden
"""
import argparse
import math
import os

import numpy as np
import torch
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertPooler

import reference as ref

TINY = (
    # name, config, lengths of the sequences, seed
    ("tiny_h20", dict(hidden_size=20, num_attention_heads=2, num_hidden_layers=2, intermediate_size=37,
                      max_position_embeddings=129, hidden_act="gelu", layer_norm_eps=1e-12),
     (1, 7, 33, 128), 11),
    ("tiny_h36", dict(hidden_size=36, num_attention_heads=3, num_hidden_layers=3, intermediate_size=50,
                      max_position_embeddings=70, hidden_act="gelu_new", layer_norm_eps=1e-5),
     (5, 64, 17), 12),
    ("tiny_h48_one_token", dict(hidden_size=48, num_attention_heads=4, num_hidden_layers=1,
                                intermediate_size=101, max_position_embeddings=64, hidden_act="gelu",
                                layer_norm_eps=1e-12), (1,), 13),
    ("tiny_h33_long", dict(hidden_size=33, num_attention_heads=3, num_hidden_layers=2,
                           intermediate_size=37, max_position_embeddings=512, hidden_act="gelu",
                           layer_norm_eps=1e-5), (512, 1, 3), 14),
    ("tiny_h64", dict(hidden_size=64, num_attention_heads=4, num_hidden_layers=1, intermediate_size=50,
                      max_position_embeddings=100, hidden_act="gelu_new", layer_norm_eps=1e-12),
     (100, 2, 16, 31, 32, 63), 15),
    ("tiny_h24_many", dict(hidden_size=24, num_attention_heads=1, num_hidden_layers=3,
                           intermediate_size=96, max_position_embeddings=40, hidden_act="gelu_new",
                           layer_norm_eps=1e-5, type_vocab_size=3),
     (1, 1, 2, 3, 5, 8, 13, 21, 34), 16),
)


def tiny(folder, scale):
    for name, keys, lengths, seed in TINY:
        config = ref.make_config(vocab_size=101, initializer_range=scale, **keys)
        parameters = ref.random_parameters(config, seed)
        batch = ref.Batch.random(lengths, config, seed + 100)
        tensors, figures = ref.gradient_tensors(config, parameters, batch)
        tensors.update(parameters)
        tensors.update(batch.tensors())
        path = os.path.join(folder, f"{name}.safetensors")
        ref.write(path, tensors, config, seed=seed)
        print(name, os.path.getsize(path) // 1024, "KiB", figures)


# --- ten AdamW steps ----------------------------------------------------------------------------

RECIPE = dict(learning_rate=1e-2, warmup_steps=2, total_steps=10, weight_decay=0.01, beta1=0.9,
              beta2=0.999, epsilon=1e-8, max_grad_norm=1.0, bias_correction=1)


def rate(step):
    """Update `step` counts from 0: linear warm-up, then linear decay to 0."""
    if step < RECIPE["warmup_steps"]:
        return RECIPE["learning_rate"] * step / RECIPE["warmup_steps"]
    left = RECIPE["total_steps"] - step
    return RECIPE["learning_rate"] * left / (RECIPE["total_steps"] - RECIPE["warmup_steps"])


def ten_steps(config, parameters, batches, dtype):
    model = ref.make_model(config, parameters, dtype)
    plain = {n for n, _ in model.named_parameters() if "LayerNorm" in n or n.endswith("bias")}
    named = list(model.named_parameters())
    optimizer = torch.optim.AdamW(
        [{"params": [p for n, p in named if n not in plain], "weight_decay": RECIPE["weight_decay"]},
         {"params": [p for n, p in named if n in plain], "weight_decay": 0.0}],
        betas=(RECIPE["beta1"], RECIPE["beta2"]), eps=RECIPE["epsilon"], foreach=False)
    losses, norms = [], []
    for step in range(RECIPE["total_steps"]):
        optimizer.zero_grad()
        losses.append(ref.run(model, batches[step % len(batches)])[1])
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), RECIPE["max_grad_norm"]).item())
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        optimizer.step()
    return losses, norms, {n: p.detach().numpy() for n, p in model.named_parameters()}


def curve(folder):
    config = ref.make_config(vocab_size=101, hidden_size=36, num_attention_heads=3, num_hidden_layers=2,
                             intermediate_size=50, max_position_embeddings=48, hidden_act="gelu",
                             layer_norm_eps=1e-12, initializer_range=0.1)
    parameters = ref.random_parameters(config, 21)
    batches = [ref.Batch.random(lengths, config, 121 + i)
               for i, lengths in enumerate(((48, 9, 1), (17, 30, 5, 12), (40, 33)))]
    tensors = dict(parameters)
    for i, batch in enumerate(batches):
        tensors.update(batch.tensors(f".{i}"))
    losses, _, final32 = ten_steps(config, parameters, batches, torch.float32)
    exact, norms, final = ten_steps(config, parameters, batches, torch.float64)
    tensors["losses"] = np.array(losses, np.float32)
    tensors["losses_float64"] = np.array(exact, np.float64)
    tensors["grad_norms"] = np.array(norms, np.float32)
    tensors["learning_rates"] = np.array([rate(s) for s in range(RECIPE["total_steps"])], np.float64)
    # Shifting all scores of a softmax changes nothing, so these gradients are zero, and Adam turns their
    # rounding errors into steps of full size: they cannot be compared.
    noise = [n for n in final if n.endswith("key.bias") or n == "qa_outputs.bias"
             or n == f"bert.encoder.layer.{config.num_hidden_layers - 1}.output.LayerNorm.bias"]
    for n in noise:
        del final[n]
    tensors.update({f"final.{n}": v.astype(np.float32) for n, v in final.items()})
    path = os.path.join(folder, "adamw_curve.safetensors")
    ref.write(path, tensors, config, **RECIPE)
    print("adamw_curve", os.path.getsize(path) // 1024, "KiB", np.round(exact, 4), "norms",
          np.round(norms, 2), "fp32 apart by",
          max(abs(a / b - 1) for a, b in zip(losses, exact)), "parameters apart by",
          max(np.abs(final32[n] - final[n]).max() for n in final))


# --- single operations --------------------------------------------------------------------------

def leaf(rng, *shape, scale=1.0):
    return torch.tensor((scale * rng.standard_normal(shape)).astype(np.float32).astype(np.float64),
                        requires_grad=True)


def norm_case(out, rng, name, rows, hidden, epsilon):
    x, residual = leaf(rng, rows, hidden), leaf(rng, rows, hidden)
    gamma, beta = leaf(rng, hidden), leaf(rng, hidden)
    dy = leaf(rng, rows, hidden).detach()
    s = x + residual
    mean = s.mean(-1, keepdim=True)
    rstd = ((s - mean).pow(2).mean(-1, keepdim=True) + epsilon).rsqrt()
    y = torch.nn.functional.layer_norm(s, (hidden,), gamma, beta, epsilon)
    y.backward(dy)
    assert torch.allclose(y, (s - mean) * rstd * gamma + beta, atol=1e-9)
    out.update({f"{name}.x": x, f"{name}.residual": residual, f"{name}.gamma": gamma,
                f"{name}.beta": beta, f"{name}.dy": dy, f"{name}.y": y, f"{name}.mean": mean[:, 0],
                f"{name}.rstd": rstd[:, 0], f"{name}.xhat": (s - mean) * rstd, f"{name}.dx": x.grad,
                f"{name}.dgamma": gamma.grad, f"{name}.dbeta": beta.grad,
                f"{name}.epsilon": torch.tensor([epsilon])})


def gelu_case(out, rng, name, approximate):
    line = np.concatenate([np.linspace(-12, 12, 193), [-1e-3, 1e-3, -100, 100, -6.5, 6.5, 1e-20]])
    x = torch.tensor(line.astype(np.float32).astype(np.float64), requires_grad=True)
    y = torch.nn.functional.gelu(x, approximate=approximate)
    y.backward(torch.ones_like(y))
    out.update({f"{name}.x": x, f"{name}.y": y, f"{name}.dx": x.grad})


def span_case(out, rng):
    """Labels outside [0, length) are ignored: that half of the loss is 0."""
    lengths = (1, 9, 2, 70, 33)
    starts, ends = (0, 3, 1, 69, 5), (0, 8, 1, 69, -1)
    cu = np.cumsum((0,) + lengths)
    logits = leaf(rng, int(cu[-1]), 2, scale=3.0)
    losses = []
    for i, n in enumerate(lengths):
        part = logits[cu[i]:cu[i] + n]
        loss = torch.zeros((), dtype=torch.float64)
        for column, label in ((0, starts[i]), (1, ends[i])):
            if 0 <= label < n:
                loss = loss - torch.log_softmax(part[:, column], 0)[label] / 2
        losses.append(loss)
    losses = torch.stack(losses)
    losses.mean().backward()
    out.update({"span_loss.logits": logits, "span_loss.losses": losses,
                "span_loss.dlogits": logits.grad, "span_loss.scale": torch.tensor([1 / len(lengths)]),
                "span_loss.cu_seqlens": torch.tensor(cu, dtype=torch.int32),
                "span_loss.start_positions": torch.tensor(starts, dtype=torch.int32),
                "span_loss.end_positions": torch.tensor(ends, dtype=torch.int32)})


def attention_case(out, rng, name, lengths, heads, size):
    hidden = heads * size
    cu = np.cumsum((0,) + lengths)
    qkv = leaf(rng, int(cu[-1]), 3 * hidden)
    dcontext = leaf(rng, int(cu[-1]), hidden).detach()
    contexts, lses = [], []
    for i, n in enumerate(lengths):
        q, k, v = qkv[cu[i]:cu[i] + n].view(n, 3, heads, size).permute(1, 2, 0, 3)
        scores = q @ k.transpose(-1, -2) / math.sqrt(size)
        lses.append(torch.logsumexp(scores, -1).transpose(0, 1))
        contexts.append((torch.softmax(scores, -1) @ v).transpose(0, 1).reshape(n, hidden))
    context = torch.cat(contexts)
    context.backward(dcontext)
    out.update({f"{name}.qkv": qkv, f"{name}.context": context, f"{name}.lse": torch.cat(lses),
                f"{name}.dcontext": dcontext, f"{name}.dqkv": qkv.grad,
                f"{name}.cu_seqlens": torch.tensor(cu, dtype=torch.int32),
                f"{name}.heads": torch.tensor([heads], dtype=torch.int32)})


def adamw_case(out, rng, name, kind, step, clip, decay):
    """One update by torch.optim from nonzero moments. A step of a million makes both bias corrections exactly
    1."""
    n, lr, b1, b2, eps = 203, 1e-3, 0.9, 0.999, 1e-8
    p, g = leaf(rng, n).detach(), leaf(rng, n).detach()
    m, v = leaf(rng, n, scale=0.1).detach(), (leaf(rng, n, scale=0.1).detach() ** 2).float().double()
    moved = torch.nn.Parameter(p.clone())
    moved.grad = g.clone()
    norm = torch.nn.utils.clip_grad_norm_([moved], clip or math.inf)
    optimizer = kind([moved], lr=lr, betas=(b1, b2), eps=eps, weight_decay=decay, foreach=False)
    state = optimizer.state[moved]
    state.update(step=torch.tensor(step - 1.0, dtype=torch.float64), exp_avg=m.clone(), exp_avg_sq=v.clone())
    optimizer.step()
    out.update({f"{name}.parameters": p, f"{name}.gradients": g, f"{name}.first_moment": m,
                f"{name}.second_moment": v, f"{name}.norm": norm[None],
                f"{name}.new_parameters": moved, f"{name}.new_first_moment": state["exp_avg"],
                f"{name}.new_second_moment": state["exp_avg_sq"],
                f"{name}.settings": torch.tensor([lr, b1, b2, eps, decay, 1 - b1 ** step, 1 - b2 ** step,
                                                  clip, kind is torch.optim.Adam], dtype=torch.float64)})


def linear_case(out, rng):
    x, w, bias = leaf(rng, 19, 43), leaf(rng, 37, 43), leaf(rng, 37)
    dy = leaf(rng, 19, 37).detach()
    y = torch.nn.functional.linear(x, w, bias)
    y.backward(dy)
    out.update({"linear.x": x, "linear.w": w, "linear.bias": bias, "linear.dy": dy, "linear.y": y,
                "linear.dx": x.grad, "linear.dw": w.grad, "linear.dbias": bias.grad})


def linear_gelu_case(out, rng, name, approximate):
    """u = x w^T + bias, y = gelu(u), followed by a second layer v, through which the gradient comes."""
    x, w, bias, v = leaf(rng, 9, 21), leaf(rng, 33, 21, scale=0.5), leaf(rng, 33), leaf(rng, 21, 33)
    dz = leaf(rng, 9, 21).detach()
    u = torch.nn.functional.linear(x, w, bias)
    u.retain_grad()
    y = torch.nn.functional.gelu(u, approximate=approximate)
    torch.nn.functional.linear(y, v).backward(dz)
    out.update({f"{name}.x": x, f"{name}.w": w, f"{name}.bias": bias, f"{name}.v": v, f"{name}.dz": dz,
                f"{name}.u": u, f"{name}.y": y, f"{name}.du": u.grad, f"{name}.dbias": bias.grad})


def embedding_case(out, rng):
    lengths, hidden, epsilon = (5, 7, 1), 21, 1e-12
    cu = np.cumsum((0,) + lengths)
    tables = {"word": leaf(rng, 11, hidden), "position": leaf(rng, 8, hidden), "type": leaf(rng, 2, hidden)}
    gamma, beta, dy = leaf(rng, hidden), leaf(rng, hidden), leaf(rng, int(cu[-1]), hidden).detach()
    index = {"word": torch.tensor(rng.integers(0, 11, cu[-1])),
             "position": torch.tensor(np.concatenate([np.arange(n) for n in lengths])),
             "type": torch.tensor(rng.integers(0, 2, cu[-1]))}
    s = sum(torch.nn.functional.embedding(index[n], tables[n]) for n in tables)
    y = torch.nn.functional.layer_norm(s, (hidden,), gamma, beta, epsilon)
    y.backward(dy)
    out.update({f"embedding.{n}": t for n, t in tables.items()})
    out.update({f"embedding.d{n}": t.grad for n, t in tables.items()})
    out.update({"embedding.ids": index["word"].int(), "embedding.token_type_ids": index["type"].int(),
                "embedding.cu_seqlens": torch.tensor(cu, dtype=torch.int32), "embedding.gamma": gamma,
                "embedding.beta": beta, "embedding.dy": dy, "embedding.y": y,
                "embedding.dgamma": gamma.grad, "embedding.dbeta": beta.grad,
                "embedding.epsilon": torch.tensor([epsilon])})


def convert_case(out, rng):
    """float32 to bfloat16 and back: ordinary numbers, ties, the largest, the smallest."""
    bits = np.concatenate([rng.integers(0, 2 ** 32, 150, dtype=np.uint32), np.array(
        [0, 0x80000000, 0x3F808000, 0x3F818000, 0x3F807FFF, 0x3F808001, 0xBF808000, 0x7F7FFFFF, 0x7F7F7FFF,
         0x7F800000, 0xFF800000, 0x00000001, 0x00008000, 0x00018000, 0x007FFFFF], np.uint32)])
    x = bits.view(np.float32)
    x = torch.tensor(x[~np.isnan(x)])
    out.update({"convert.x": x, "convert.bf16": x.to(torch.bfloat16).float()})


def tanh_case(out):
    """One row per number: tiny, ordinary and saturated."""
    line = np.concatenate([np.linspace(-10, 10, 161), [0, 1e-20, -1e-6, 1e-3, -1e-3, 100, -100]])
    u = torch.tensor(line.astype(np.float32).astype(np.float64)[None], requires_grad=True)
    y = torch.tanh(u)
    y.backward(torch.ones_like(y))
    out.update({"tanh.u": u, "tanh.y": y, "tanh.du": u.grad})


def class_losses(rng, logits):
    """The second label is PyTorch's ignore_index."""
    labels = torch.tensor([2, -100, 0, 1, 2], dtype=torch.int64)
    return {"labels": labels.int()}, torch.nn.functional.cross_entropy(logits, labels, reduction="none")


def squared_losses(rng, logits):
    """The fourth target is missing."""
    targets = leaf(rng, 5).detach()
    losses = torch.nn.functional.mse_loss(logits[:, 0], targets, reduction="none")
    there = torch.arange(5) != 3
    return ({"targets": torch.where(there, targets, math.nan)},
            torch.zeros_like(losses).masked_scatter(there, losses[there]))


def head_case(out, seed, name, classes, losses_of):
    """transformers' pooler and a classifier over the first tokens of packed sequences; the gradient is that
    of scale * sum of the losses."""
    rng = np.random.default_rng(seed)
    lengths, hidden, scale = (3, 1, 20, 2, 7), 13, 0.25
    cu = np.cumsum((0,) + lengths)
    pooler = BertPooler(BertConfig(hidden_size=hidden, num_attention_heads=1)).double()
    classifier = torch.nn.Linear(hidden, classes).double()
    pooler.dense.weight, pooler.dense.bias, classifier.weight, classifier.bias = (
        torch.nn.Parameter(leaf(rng, *p.shape).detach()) for p in (
            pooler.dense.weight, pooler.dense.bias, classifier.weight, classifier.bias))
    x = leaf(rng, int(cu[-1]), hidden)
    pooled = torch.cat([pooler(x[None, cu[i]:cu[i + 1]]) for i in range(len(lengths))])
    logits = classifier(pooled)
    logits.retain_grad()
    labels, losses = losses_of(rng, logits)
    (losses.sum() * scale).backward()
    made = {"x": x, "pooler.weight": pooler.dense.weight, "pooler.bias": pooler.dense.bias,
            "classifier.weight": classifier.weight, "classifier.bias": classifier.bias,
            "cu_seqlens": torch.tensor(cu, dtype=torch.int32), "scale": torch.tensor([scale]), **labels,
            "pooled": pooled, "logits": logits, "losses": losses, "dlogits": logits.grad, "dx": x.grad}
    made.update({f"d{part}.{kind}": getattr(layer, kind).grad for part, layer in (
        ("pooler", pooler.dense), ("classifier", classifier)) for kind in ("weight", "bias")})
    out.update({f"{name}.{key}": value for key, value in made.items()})


def operations(folder):
    rng = np.random.default_rng(31)
    out = {}
    norm_case(out, rng, "norm", 13, 50, 1e-12)
    norm_case(out, rng, "norm_eps5", 5, 33, 1e-5)
    gelu_case(out, rng, "gelu", "none")
    gelu_case(out, rng, "gelu_tanh", "tanh")
    span_case(out, rng)
    attention_case(out, rng, "attention", (1, 17, 2, 40, 33), 3, 11)
    attention_case(out, rng, "attention_d32", (65, 1, 16), 2, 32)
    adamw_case(out, rng, "adamw", torch.optim.AdamW, 7, 1.0, 0.01)
    adamw_case(out, rng, "adamw_plain", torch.optim.AdamW, 10 ** 6, 0.0, 0.0)
    adamw_case(out, rng, "adamw_l2", torch.optim.Adam, 3, 5.0, 0.1)
    linear_case(out, rng)
    linear_gelu_case(out, rng, "linear_gelu", "none")
    linear_gelu_case(out, rng, "linear_gelu_tanh", "tanh")
    embedding_case(out, rng)
    convert_case(out, rng)
    tanh_case(out)
    head_case(out, 32, "class_head", 3, class_losses)
    head_case(out, 33, "regression_head", 1, squared_losses)
    tensors = {}
    for name, t in out.items():
        a = t.detach().numpy()
        wide = name.endswith((".settings", ".epsilon"))
        tensors[name] = a if wide or a.dtype == np.int32 else a.astype(np.float32)
    path = os.path.join(folder, "ops.safetensors")
    ref.write(path, tensors)
    print("ops", os.path.getsize(path) // 1024, "KiB")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("folder")
    p.add_argument("--scale", type=float, default=0.2, help="initializer_range of the tiny models")
    a = p.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    os.makedirs(a.folder, exist_ok=True)
    tiny(a.folder, a.scale)
    curve(a.folder)
    operations(a.folder)


if __name__ == "__main__":
    main()
