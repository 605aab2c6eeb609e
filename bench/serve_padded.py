#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A padding server to compare with: PyTorch or ONNX Runtime behind uvicorn, dynamic batches of 8.

    bench/serve_padded.py torch|onnx MODEL_FOLDER [--port N] [--batch N] [--threads N] [--dtype bfloat16|float32|int8]

Answers Hugging Face's question answering at every path, as `berth serve` does, so that bench/serve_load.py can load both:
whatever waits, up to --batch questions, is padded to its longest and run together; the best span of up to 30 tokens is
found for the whole batch at once. `onnx` exports the model first, in float32 or int8; on a CPU ONNX Runtime has no bfloat16.
int8 are each one's own dynamic quantization: weights once, activations for each batch. Idle connections are kept open. Needs
torch, transformers, uvicorn, and onnxruntime and onnx for `onnx`.
"""
import argparse
import asyncio
import concurrent.futures
import json
import pathlib
import tempfile

import torch
import transformers
import uvicorn

LENGTH, ANSWER = 384, 30


class Torch:
    def __init__(self, folder: str, args):
        torch.set_num_threads(args.threads)
        dtype = torch.bfloat16 if args.dtype == "bfloat16" else torch.float32
        self.model = transformers.AutoModelForQuestionAnswering.from_pretrained(folder, dtype=dtype).eval()
        if args.dtype == "int8":
            self.model = torch.ao.quantization.quantize_dynamic(self.model, {torch.nn.Linear}, dtype=torch.qint8)

    @torch.inference_mode()
    def __call__(self, inputs: dict) -> tuple:
        output = self.model(**inputs)
        return output.start_logits.float(), output.end_logits.float()


class Onnx:
    NAMES = ["input_ids", "attention_mask", "token_type_ids"]

    def __init__(self, folder: str, args):
        import onnxruntime
        model = transformers.AutoModelForQuestionAnswering.from_pretrained(folder, attn_implementation="eager").eval()
        example = {name: torch.ones(2, 16, dtype=torch.int64) for name in self.NAMES}
        own = tempfile.TemporaryDirectory()
        path = pathlib.Path(own.name) / "model.onnx"
        axes = {name: {0: "batch", 1: "length"} for name in [*self.NAMES, "start", "end"]}
        torch.onnx.export(model, tuple(example[name] for name in self.NAMES), str(path), input_names=self.NAMES,
                          output_names=["start", "end"], dynamic_axes=axes, opset_version=17, dynamo=False)
        if args.dtype == "int8":
            from onnxruntime import quantization
            quantization.quantize_dynamic(path, path.with_suffix(".int8"), per_channel=True)
            path = path.with_suffix(".int8")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = args.threads
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def __call__(self, inputs: dict) -> tuple:
        found = self.session.run(None, {name: inputs[name].numpy() for name in self.NAMES})
        return torch.from_numpy(found[0]), torch.from_numpy(found[1])


class Batches:
    """Questions that wait, and the thread that runs them."""

    def __init__(self, tokenizer, run, most: int):
        self.tokenizer, self.run, self.most = tokenizer, run, most
        self.queue, self.pool, self.task = asyncio.Queue(), concurrent.futures.ThreadPoolExecutor(1), None

    def answer(self, questions: list) -> list:
        inputs = self.tokenizer([q["question"] for q in questions], [q["context"] for q in questions], padding=True,
                                truncation="only_second", max_length=LENGTH, return_tensors="pt",
                                return_offsets_mapping=True)
        offsets = inputs.pop("offset_mapping")
        start, end = self.run(dict(inputs))
        outside = (inputs["token_type_ids"] == 0) | (inputs["attention_mask"] == 0)
        start, end = (values.masked_fill(outside, -1e9) for values in (start, end))
        scores = start[:, :, None] + end[:, None, :]
        allowed = torch.ones_like(scores[0], dtype=torch.bool).triu().tril(ANSWER - 1)
        best = scores.masked_fill(~allowed, -2e9).flatten(1).argmax(1)
        rows = []
        for i, (question, place) in enumerate(zip(questions, best.tolist())):
            first, last = divmod(place, start.shape[1])
            begin, stop = int(offsets[i, first, 0]), int(offsets[i, last, 1])
            score = float(start[i].softmax(0)[first] * end[i].softmax(0)[last])
            rows.append({"score": score, "start": begin, "end": stop, "answer": question["context"][begin:stop]})
        return rows

    async def work(self):
        loop = asyncio.get_running_loop()
        while True:
            waiting = [await self.queue.get()]
            while len(waiting) < self.most and not self.queue.empty():
                waiting.append(self.queue.get_nowait())
            rows = await loop.run_in_executor(self.pool, self.answer, [question for question, _ in waiting])
            for (_, future), row in zip(waiting, rows):
                future.set_result(row)

    async def ask(self, question: dict) -> dict:
        if self.task is None:
            self.task = asyncio.create_task(self.work())
        future = asyncio.get_running_loop().create_future()
        await self.queue.put((question, future))
        return await future


def application(batches: Batches):
    async def app(scope, receive, send):
        body, more = b"", scope["type"] == "http"
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        if scope["type"] != "http":
            return
        if scope["method"] == "POST":
            inputs = json.loads(body)["inputs"]
            found = [await batches.ask(inputs)] if isinstance(inputs, dict) else await asyncio.gather(*map(batches.ask, inputs))
            content = json.dumps(found[0] if isinstance(inputs, dict) else found).encode()
        else:
            content = b"{}"
        await send({"type": "http.response.start", "status": 200, "headers": [
            (b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]})
        await send({"type": "http.response.body", "body": content})
    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=["torch", "onnx"])
    parser.add_argument("folder")
    parser.add_argument("--port", type=int, default=8081)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", choices=["bfloat16", "float32", "int8"], default="bfloat16")
    args = parser.parse_args()
    if args.kind == "onnx" and args.dtype == "bfloat16":
        parser.error("onnx: only float32 and int8")
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.folder)
    batches = Batches(tokenizer, {"torch": Torch, "onnx": Onnx}[args.kind](args.folder, args), args.batch)
    batches.answer([{"question": "Who?", "context": "Ada lived in Oslo."}] * args.batch)
    print("ready", flush=True)
    uvicorn.run(application(batches), host="127.0.0.1", port=args.port, log_level="error", access_log=False, timeout_keep_alive=3600)


if __name__ == "__main__":
    main()
