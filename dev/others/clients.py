# SPDX-License-Identifier: Apache-2.0
"""Clients of other servers against `berth serve` on the loopback address: what they return has the numbers that Berth's verbs
print for the same texts. The models are tiny ones, those of tests/golden and two that are made here.
"""
import asyncio
import base64
import contextlib
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import time

import shared

GOLDEN = shared.ROOT / "tests/golden"
TEXTS = ["the red ball", "anna has a blue coat .", "who has the lamp of ben ?", "cora and anna"]
QUERY, QUESTION, CONTEXT = "who has the ball ?", "who has the book ?", "anna has the book . ben has a red lamp and a black coat ."
TAGGED, MASKED = "the quick fox is in paris", "the [MASK] fox jumped over the lazy [MASK]"
SAME = ["--precision", "fp32", "--threads", "1"]
CONFIG = {"vocab_size": 28, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
          "max_position_embeddings": 64, "type_vocab_size": 2, "initializer_range": 0.3, "model_type": "bert"}


# --- models and the server ------------------------------------------------------------------------

def make_models(given):
    """A model for questions, and a cross-encoder without a problem_type."""
    (given.work / "config.json").write_text(json.dumps(CONFIG))
    shared.berth(given, "init", "--config", given.work / "config.json", "--output", given.work / "questions", "--quiet")
    shutil.copy(GOLDEN / "classifier/vocab.txt", given.work / "questions")
    rows = given.work / "rows.jsonl"
    rows.write_text("".join(json.dumps({"a": QUERY, "b": text, "label": number / 2}) + "\n" for number, text in enumerate(TEXTS)))
    shared.berth(given, "finetune", "classify", "--model", given.work / "questions", "--train", rows, "--text_column", "a",
                 "--text_pair_column", "b", "--label_column", "label", "--output", given.work / "ranker", "--max_steps", 1, "--quiet")
    config = json.loads((given.work / "ranker/config.json").read_text())
    del config["problem_type"]
    (given.work / "ranker/config.json").write_text(json.dumps(config))
    return {"questions": given.work / "questions", "ranker": given.work / "ranker", "classes": GOLDEN / "classifier",
            "tags": GOLDEN / "tags", "masks": GOLDEN / "fill", "encoder": GOLDEN / "encoder"}


class Berth:
    """The server's address, and what the verbs print."""

    def __init__(self, given, models, port):
        self.given, self.models, self.url = given, models, f"http://127.0.0.1:{port}"

    def lines(self, verb, model, *words, texts=()):
        words = ["--model", self.models[model], *SAME, "--quiet", *words]
        if texts:
            file = self.given.work / "texts"
            file.write_text("".join(text + "\n" for text in texts))
            words.append(file)
        return [json.loads(line) for line in shared.berth(self.given, verb, *words).splitlines()]

    def embeddings(self, *words):
        return [row["embedding"] for row in self.lines("embed", "encoder", "--normalize", "true", *words, texts=TEXTS)]

    def ranking(self, *words):
        return [(row["index"], row["score"]) for row in self.lines("rerank", "ranker", "--query", QUERY, *words, texts=TEXTS)]


@contextlib.contextmanager
def serving(given):
    models = make_models(given)
    words = [word for name, folder in models.items() for word in ("--model", f"{name}={folder}")]
    log = given.work / "serve.log"
    with open(log, "w") as errors:
        process = subprocess.Popen([given.build / "berth", "serve", *words, "--port", "0", "--drain_seconds", "0", *SAME],
                                   stdout=subprocess.DEVNULL, stderr=errors)
    try:
        end = time.monotonic() + 60
        while "note: ready" not in log.read_text():
            if process.poll() is not None or time.monotonic() > end:
                sys.exit(f"berth serve: {log.read_text()}")
            time.sleep(0.05)
        yield Berth(given, models, re.search(r"listening on \S+:(\d+)\n", log.read_text())[1])
    finally:
        process.terminate()
        process.wait()


def single(value):
    """Numbers as the fp32 that they are, in whatever the client has them."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {key: single(each) for key, each in value.items()}
    return [single(each) for each in value] if isinstance(value, (list, tuple)) else (
        struct.unpack("f", struct.pack("f", value))[0] if isinstance(value, float) else value)


def same(what, found, wanted):
    if single(found) != single(wanted):
        sys.exit(f"{what}: expected {wanted}, found {found}")


def refused(what, kind, words, call):
    try:
        call()
    except kind as error:
        if words in str(error):
            return
        sys.exit(f"{what}: expected \"{words}\" in the error, found {error}")
    sys.exit(f"{what}: expected an error, found none")


# --- rows -----------------------------------------------------------------------------------------

def openai(given):
    import openai as package
    with serving(given) as berth:
        client = package.OpenAI(base_url=berth.url + "/v1", api_key="x")
        for form in ({}, {"encoding_format": "float"}, {"encoding_format": "base64"}, {"dimensions": 8}):
            reply = client.embeddings.create(model="encoder", input=TEXTS, **form)
            found = [row.embedding for row in reply.data]
            if form.get("encoding_format") == "base64":
                found = [[number for number, in struct.iter_unpack("<f", base64.b64decode(each))] if isinstance(each, str) else each
                         for each in found]
            same(f"embeddings, {form}", found, berth.embeddings(*(["--dimensions", "8"] if "dimensions" in form else [])))
            if reply.usage.total_tokens < len(TEXTS) or [row.index for row in reply.data] != list(range(len(TEXTS))):
                sys.exit(f"embeddings, {form}: {reply.usage}")
        same("the models", sorted(model.id for model in client.models.list()), sorted(berth.models))
        refused("an unknown model", package.NotFoundError, "no such model", lambda: client.embeddings.create(model="x", input="a"))
        refused("an empty text", package.BadRequestError, "the text is empty", lambda: client.embeddings.create(model="encoder", input=""))

        async def ask():
            async with package.AsyncOpenAI(base_url=berth.url + "/v1", api_key="x") as other:
                return (await other.embeddings.create(model="encoder", input=TEXTS[0])).data[0].embedding
        same("an embedding, asynchronously", asyncio.run(ask()), berth.embeddings()[0])


def cohere(given):
    import cohere as package
    with serving(given) as berth:
        first = package.Client(api_key="x", base_url=berth.url)
        second = package.ClientV2(api_key="x", base_url=berth.url)
        for name, client in (("version 1", first), ("version 2", second)):
            reply = client.rerank(model="ranker", query=QUERY, documents=TEXTS)
            same(f"the ranking, {name}", [(row.index, row.relevance_score) for row in reply.results], berth.ranking())
            if not reply.id or reply.meta.api_version.version != name[-1] or reply.meta.tokens.input_tokens < len(TEXTS):
                sys.exit(f"the reply of {name}: {reply}")
            top = client.rerank(model="ranker", query=QUERY, documents=TEXTS, top_n=2, **(
                {"max_tokens_per_doc": 4096} if client is second else {}))
            same(f"the best two, {name}", [(row.index, row.relevance_score) for row in top.results], berth.ranking("--top_n", "2"))
            refused(f"an unknown model, {name}", package.NotFoundError, "no such model",
                    lambda client=client: client.rerank(model="x", query=QUERY, documents=TEXTS))
        shown = first.rerank(model="ranker", query=QUERY, documents=[{"text": text} for text in TEXTS], return_documents=True)
        same("documents", [(row.index, row.document.text) for row in shown.results], [(i, TEXTS[i]) for i, _ in berth.ranking()])
        refused("an empty query", package.BadRequestError, "query: the text is empty",
                lambda: second.rerank(model="ranker", query="", documents=TEXTS))


def langchain_cohere(given):
    from langchain_cohere import CohereRerank
    from langchain_core.documents import Document
    with serving(given) as berth:
        client = CohereRerank(base_url=berth.url, cohere_api_key="x", model="ranker", top_n=3)
        found = client.rerank(TEXTS, QUERY)
        same("a ranking", [(row["index"], row["relevance_score"]) for row in found], berth.ranking("--top_n", "3"))
        ordered = client.compress_documents([Document(page_content=text) for text in TEXTS], QUERY)
        same("documents", [(each.page_content, each.metadata["relevance_score"]) for each in ordered],
             [(TEXTS[index], score) for index, score in berth.ranking("--top_n", "3")])


def litellm(given):
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks another host for prices
    import litellm as package
    with serving(given) as berth:
        for kind in ("cohere", "jina_ai", "hosted_vllm", "huggingface"):
            reply = package.rerank(model=kind + "/ranker", query=QUERY, documents=TEXTS, top_n=3, return_documents=True,
                                   api_base=berth.url, api_key="x")
            same(f"a ranking as of {kind}", [(row["index"], row["relevance_score"], row["document"]["text"]) for row in reply.results],
                 [(index, score, TEXTS[index]) for index, score in berth.ranking("--top_n", "3")])


def classes_of(rows):
    return [(row["label"], row["score"]) for row in rows]


def hugging_face(given):
    from huggingface_hub import AsyncInferenceClient, InferenceClient
    from huggingface_hub.errors import HfHubHTTPError
    with serving(given) as berth:
        def client(name):
            return InferenceClient(model=f"{berth.url}/models/{name}", token="x")
        for words, more in (([], {}), (["--dimensions", "8"], {"dimensions": 8})):
            found = client("encoder").feature_extraction(TEXTS, normalize=True, **more)
            same(f"embeddings, {more}", found, berth.embeddings(*words))
        same("an embedding as the folder says", client("encoder").feature_extraction(TEXTS[0]),
             berth.lines("embed", "encoder", texts=TEXTS[:1])[0]["embedding"])
        vectors = berth.embeddings()
        cosines = [sum(a * b for a, b in zip(vectors[0], other)) for other in vectors[1:]]
        found = client("encoder").sentence_similarity(TEXTS[0], TEXTS[1:])
        if any(not math.isclose(a, b, abs_tol=1e-6) for a, b in zip(found, cosines, strict=True)):
            sys.exit(f"cosines: expected {cosines}, found {found}")
        for words, more in (([], {}), (["--score", "none"], {"function_to_apply": "none"}), (["--top", "2"], {"top_k": 2})):
            for text, expected in zip(TEXTS, berth.lines("classify", "classes", *words, texts=TEXTS)):
                same(f"classes, {more}", [(row.label, row.score) for row in client("classes").text_classification(text, **more)],
                     classes_of(expected))
        for how in ("first", "none"):
            found = client("tags").token_classification(TAGGED, aggregation_strategy=how)
            expected = berth.lines("tag", "tags", "--aggregation", how, "--text", TAGGED)[0]
            same(f"tags, {how}", [(row.entity_group or row.entity, row.score, row.word, row.start, row.end) for row in found],
                 [(row.get("entity_group") or row["entity"], row["score"], row["word"], row["start"], row["end"]) for row in expected])
        for words, more in (([], {}), (["--top", "3"], {"top_k": 3}), (["--targets", "a,in"], {"targets": ["a", "in"]})):
            one = MASKED.replace("[MASK]", "quick", 1)
            same(f"words, {more}", [(row.score, row.token, row.token_str, row.sequence) for row in client("masks").fill_mask(one, **more)],
                 [tuple(row.values()) for row in berth.lines("fill", "masks", "--text", one, *words)[0]])
        for top in (1, 3):
            answers = berth.lines("answer", "questions", "--question", QUESTION, "--context", CONTEXT, "--top", top, "--json")[0]["answers"]
            found = client("questions").question_answering(QUESTION, CONTEXT, top_k=top)
            same(f"answers, top_k {top}", [(row.score, row.start, row.end, row.answer) for row in (found if top > 1 else [found])],
                 [(row["probability"], row["start"], row["end"], row["text"]) for row in answers])
        refused("an unknown model", HfHubHTTPError, "404", lambda: client("none").text_classification("a"))

        async def ask():
            async with AsyncInferenceClient(model=f"{berth.url}/models/encoder") as other:
                return await other.feature_extraction(TEXTS[0], normalize=True)
        same("an embedding, asynchronously", asyncio.run(ask()), vectors[0])


def langchain_openai(given):
    from langchain_openai import OpenAIEmbeddings
    with serving(given) as berth:
        model = OpenAIEmbeddings(base_url=berth.url + "/v1", api_key="x", model="encoder", check_embedding_ctx_length=False)
        same("documents", model.embed_documents(TEXTS), berth.embeddings())
        same("a query", model.embed_query(TEXTS[0]), berth.embeddings()[0])


def langchain_hugging_face(given):
    from huggingface_hub import InferenceClient
    from langchain_huggingface import HuggingFaceEndpointEmbeddings
    with serving(given) as berth:
        model = HuggingFaceEndpointEmbeddings(model="encoder", huggingfacehub_api_token="x")
        model.client = InferenceClient(model=f"{berth.url}/models/encoder")  # the class refuses an address as the model
        plain = [row["embedding"] for row in berth.lines("embed", "encoder", texts=TEXTS)]
        same("documents", model.embed_documents(TEXTS), plain)
        same("a query", model.embed_query(TEXTS[0]), plain[0])


def triton(given):
    import numpy
    import tritonclient.http as package
    from tritonclient.utils import InferenceServerException
    with serving(given) as berth, package.InferenceServerClient(berth.url.partition("//")[2]) as client:
        def ask(model, binary=True, **texts):
            inputs = []
            for name, values in texts.items():
                inputs.append(package.InferInput(name, [len(values)], "BYTES"))
                inputs[-1].set_data_from_numpy(numpy.array([value.encode() for value in values], dtype=object), binary_data=binary)
            return client.infer(model, inputs)
        if not client.is_server_ready() or not all(client.is_model_ready(name) for name in berth.models):
            sys.exit("the server or a model is not ready")
        plain = [row["embedding"] for row in berth.lines("embed", "encoder", texts=TEXTS)]
        for binary in (True, False):
            same("embeddings", ask("encoder", binary, text=TEXTS).as_numpy("embedding"), plain)
        scores = ask("classes", text=TEXTS).as_numpy("scores")
        for row, expected in zip(scores, berth.lines("classify", "classes", texts=TEXTS)):
            same("classes", sorted(row.tolist(), reverse=True), [each["score"] for each in expected])
        found = ask("questions", question=[QUESTION], context=[CONTEXT])
        answer = berth.lines("answer", "questions", "--question", QUESTION, "--context", CONTEXT, "--top", 1, "--json")[0]["answers"][0]
        same("an answer", [found.as_numpy(name).reshape(-1).tolist()[0] for name in ("score", "start", "end", "answer")],
             [answer["probability"], answer["start"], answer["end"], answer["text"].encode()])
        words = json.loads(ask("masks", text=[MASKED]).as_numpy("words").reshape(-1)[0])
        same("words", words, berth.lines("fill", "masks", "--text", MASKED)[0])
        refused("an unknown model", InferenceServerException, "no such model", lambda: ask("none", text=TEXTS))
