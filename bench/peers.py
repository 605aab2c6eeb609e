# SPDX-License-Identifier: Apache-2.0
"""The other programs of the comparisons. ONNX Runtime and OpenVINO run the graph that `berth convert --to onnx` writes, PyTorch
(transformers) the folder; int8 is what each makes of the graph: ONNX Runtime quantizes the weights by itself and the activations
for each batch (dynamic), OpenVINO has NNCF quantize both after it has seen activations of the caller's rows (static, with the
settings for transformers).

A model is a function from a batch (name -> int64 array) to a list of outputs.
"""
import json
import os
import pathlib

import numpy as np

NAMES = ("input_ids", "token_type_ids", "attention_mask")
RESTS = False  # whether ONNX Runtime's threads sleep after a run: otherwise they spin on a core that the next program needs
CALIBRATION = 300  # batches of one sequence, NNCF's own number


def batch_of(rows):
    """Rows of (ids, types), padded to the longest."""
    width = max(len(ids) for ids, _ in rows)
    out = {name: np.zeros((len(rows), width), np.int64) for name in NAMES}
    for row, (ids, types) in enumerate(rows):
        out["input_ids"][row, :len(ids)], out["token_type_ids"][row, :len(ids)] = ids, types
        out["attention_mask"][row, :len(ids)] = 1
    return out


def own_output():
    """Standard output for the caller alone: what libraries print there (NNCF does) goes to standard error from now on."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return out


def write_onnxruntime(graph, _):
    """Writes the int8 model beside the graph, unless it is there."""
    from onnxruntime.quantization import QuantType, quantize_dynamic
    path = pathlib.Path(graph).with_name("onnxruntime-int8.onnx")
    if not path.exists():
        quantize_dynamic(graph, path, weight_type=QuantType.QInt8, per_channel=True)
    return path


def write_openvino(graph, rows):
    """The same, calibrated on rows of (ids, types)."""
    path = pathlib.Path(graph).with_name("openvino-int8.xml")
    if path.exists():
        return path
    import nncf
    import openvino
    model = openvino.Core().read_model(graph)
    names = names_of(model)
    chosen = rows[::max(1, len(rows) // CALIBRATION)][:CALIBRATION]
    batches = [{name: array for name, array in batch_of([row]).items() if name in names} for row in chosen]
    quantized = nncf.quantize(model, nncf.Dataset(batches), model_type=nncf.ModelType.TRANSFORMER, subset_size=len(batches))
    openvino.save_model(quantized, path, compress_to_fp16=False)
    return path


def names_of(model):
    return {name for one in model.inputs for name in one.get_names()}


def open_onnxruntime(_, graph, precision, threads, rows):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    if RESTS:
        options.add_session_config_entry("session.force_spinning_stop", "1")
    path = write_onnxruntime(graph, rows) if precision == "int8" else graph
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = {one.name for one in session.get_inputs()}
    return lambda batch: session.run(None, {name: array for name, array in batch.items() if name in names})


def open_openvino(_, graph, precision, threads, rows):
    """Beside the products in int8, OpenVINO chooses the type."""
    import openvino
    settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
    if precision != "int8":
        settings["INFERENCE_PRECISION_HINT"] = {"bf16": "bf16", "fp32": "f32"}[precision]
    path = write_openvino(graph, rows) if precision == "int8" else graph
    model = openvino.Core().compile_model(path, "CPU", settings)
    names = names_of(model)

    def run(batch):
        found = model({name: array for name, array in batch.items() if name in names})
        return [found[output] for output in model.outputs]
    return run


def open_pytorch(folder, _graph, precision, threads, _rows):
    import torch
    import transformers
    torch.set_num_threads(threads)
    config = json.loads((pathlib.Path(folder) / "config.json").read_text(encoding="utf-8"))
    dtype = {"bf16": torch.bfloat16, "fp32": torch.float32}[precision]
    model = getattr(transformers, config["architectures"][0]).from_pretrained(folder, dtype=dtype).eval()

    def run(batch):
        with torch.inference_mode():
            outputs = model(**{name: torch.from_numpy(array) for name, array in batch.items()})
            return [one.float().numpy() for one in outputs.to_tuple() if one is not None]
    return run


WRITE = {"onnxruntime": write_onnxruntime, "openvino": write_openvino}
OPEN = {"onnxruntime": open_onnxruntime, "openvino": open_openvino, "pytorch": open_pytorch}
