# SPDX-License-Identifier: Apache-2.0
"""Checks that the programs of others read what Berth writes, and compute from it what Berth computes.

    python3 dev/others [FORMAT...] --build BUILD_FOLDER     every row of the table, or those of some formats
    python3 dev/others --list                               the table

Rows of it also need something of yours: --model FOLDER, a model of Hugging Face (the others use tiny ones that are made
here), --features FILE of `berth features squad --jsonl`, --data FOLDER of `berth prepare` or `berth pack`. A row is
skipped if this, the build folder or a package is missing. Exits 1 if a row finds a difference, which it prints, and 77 if
none could run.
"""
import argparse
import importlib
import importlib.util
import os
import pathlib
import sys
import tempfile
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "goldens"))  # tensors.py

TABLE = [  # format, packages, what else is needed, what is compared, module and function
    ("hdf5", "", "build", "each field of a file, with the specification", "hdf5_structure.written"),
    ("hdf5", "h5py", "build", "all numbers, before and after h5py has changed the file", "hdf5_values.written"),
    ("hdf5", "h5py", "data", "names, types and shapes of columns of instances, and that they agree", "hdf5_values.columns"),
    ("torch", "torch", "build", "all values of a checkpoint, mapped or not", "torch_values.written"),
    ("torch", "torch", "build", "tensors of converted models, in three forms", "conversions.torch_models"),
    ("torch", "torch transformers safetensors", "build", "the state of AdamW, whole and in shards", "conversions.torch_optimizers"),
    ("tensorflow", "tensorflow", "build", "checkpoints with those of TensorFlow, as bytes", "tensorflow_values.checkpoints"),
    ("tensorflow", "tensorflow", "build", "variables of a converted model", "conversions.tensorflow_model"),
    ("tensorflow", "tensorboard", "build", "scalars of a run with its JSON lines", "tensorboard_values.scalars"),
    ("onnx", "onnx onnxruntime", "build", "logits of tiny models, also with PyTorch's", "onnx_graphs.golden"),
    ("onnx", "onnx onnxruntime", "build model features", "logits of a model for questions", "onnx_graphs.model_of_yours"),
    ("gguf", "gguf", "build", "fields, tensors and tokens of tiny models", "gguf_values.golden"),
    ("gguf", "gguf", "build model", "fields, tensors and tokens of a model", "gguf_values.model_of_yours"),
    ("gguf", "gguf torch transformers tokenizers safetensors sentencepiece", "build", "fields, tensors and tokens of architectures",
     "gguf_models.fields"),
    ("gguf", "gguf llama_cpp torch transformers tokenizers safetensors sentencepiece", "build",
     "tokens and hidden states of llama.cpp", "gguf_models.outputs"),
    ("int8", "torch transformers compressed_tensors safetensors", "build model", "matrices and embeddings", "int8_values.model_of_yours"),
    ("deepspeed", "torch transformers deepspeed safetensors", "build", "outputs of loaded models, resumed optimizers",
     "conversions.deepspeed_engines"),
    ("transformers", "torch transformers", "build", "outputs of models converted back and forth", "conversions.transformers_models"),
] + [("transformers", "torch transformers sentence_transformers", "build", what, "peers." + function) for what, function in (
    ("probabilities of classes and labels, regressions", "classes"),
    ("embeddings by every treatment of case, accents and ideographs", "rules"),
    ("tokens, by every way to store a vocabulary and rules", "tokens"),
    ("embeddings of a model that lower-cases but keeps accents", "lower_cased"),
    ("embeddings by each function of hidden_act", "activations"),
    ("embeddings by each pooling", "poolings"),
    ("tags of words, with and without a pooler", "tags"),
    ("answers", "answers"),
    ("words for [MASK], also of a model that Berth trained", "masked"),
    ("checkpoints that the Trainer resumes, and those of the Trainer", "trainer"))] + [
    ("transformers", "torch transformers sentence_transformers", "build model", "embeddings of a model", "peers.model_of_yours")] + [
    ("sentences", "torch transformers sentence_transformers", "build", what, "sentences." + function) for what, function in (
        ("vectors of folders with 0_Transformer, also converted", "folders"),
        ("vectors with the prompt in the pooling and left out of it, by name", "prompts"),
        ("types of numbers, with and without calibration, and of .npy", "types"),
        ("vectors of tokens, with and without prompts", "tokens"),
        ("scores of cross-encoders that Berth trained", "cross_encoders"),
        ("weights of words of sparse encoders of four architectures", "sparse"),
        ("scores of retrieval, with and without prompts", "retrieval"))] + [
    ("mining", "torch transformers sentence_transformers datasets", "build model", what, "mining." + function)
    for what, function in (("hard negatives by every rule, of a corpus and of the pairs' texts", "negatives"),
                           ("hard negatives judged by a cross-encoder", "judged"))] + [
    ("architectures", "torch transformers tokenizers safetensors", "build", what, "architectures." + function) for what, function in (
        ("numbers of every class of every architecture", "numbers"),
        ("ten updates of each head, and folders that load strictly", "training"),
        ("files of PyTorch and back, ONNX, int8", "files"),
        ("masked words, resumed runs, embeddings, frozen and recomputed layers", "runs"))] + [
    ("architectures", "torch transformers tokenizers safetensors accelerate", "build", "checkpoints of the Trainer, read and written",
     "architecture_trainers.checkpoints")] + [
    ("clients", packages, "build", what, "clients." + function) for packages, what, function in (
        ("openai", "embeddings through OpenAI's client", "openai"),
        ("cohere", "rankings through Cohere's, versions 1 and 2", "cohere"),
        ("langchain_cohere", "rankings through LangChain's for Cohere", "langchain_cohere"),
        ("litellm", "rankings through LiteLLM's for Cohere, Jina, vLLM and text-embeddings-inference", "litellm"),
        ("huggingface_hub numpy", "embeddings, cosines, classes, tags, words, answers through Hugging Face's", "hugging_face"),
        ("langchain_openai", "embeddings through LangChain's for OpenAI", "langchain_openai"),
        ("langchain_huggingface", "embeddings through LangChain's for Hugging Face", "langchain_hugging_face"),
        ("tritonclient geventhttpclient", "tensors of four tasks through Triton's", "triton"))]


def missing(packages, needs, given):
    found = [f"the package {name}" for name in packages.split() if importlib.util.find_spec(name) is None]
    return found + [f"--{need}" for need in needs.split() if getattr(given, need) is None]


def run_row(function, given):
    module, function = function.split(".")
    with tempfile.TemporaryDirectory() as work:
        given.work = pathlib.Path(work)
        getattr(importlib.import_module(module), function)(given)


def run_rows(given):
    results = {"passed": 0, "skipped": 0, "FAILED": 0}
    for kind, packages, needs, what, function in TABLE:
        if given.formats and kind not in given.formats:
            continue
        lacking, result = missing(packages, needs, given), "passed"
        if lacking:
            result = "skipped"
        else:
            try:
                run_row(function, given)
            except (Exception, SystemExit):
                traceback.print_exc()
                result = "FAILED"
        results[result] += 1
        print(f"{kind}: {what}: {result}{', for want of ' + ' and '.join(lacking) if lacking else ''}", flush=True)
    return results


def main():
    formats = list(dict.fromkeys(row[0] for row in TABLE))
    parser = argparse.ArgumentParser(prog="python3 dev/others", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help=", ".join(formats))
    parser.add_argument("--list", action="store_true")
    for need in ("build", "model", "features", "data"):
        parser.add_argument("--" + need, type=lambda path: pathlib.Path(path).resolve())
    given = parser.parse_args()
    if unknown := set(given.formats) - set(formats):
        parser.error(f"FORMAT is one of {', '.join(formats)}; found {', '.join(unknown)}")
    if given.list:
        for kind, packages, needs, what, _ in TABLE:
            print(f"{kind:12}  {what:66}  {packages}{' '.join(' --' + need for need in needs.split())}")
        return 0
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    results = run_rows(given)
    return 1 if results["FAILED"] else 0 if results["passed"] else 77


sys.exit(main())
