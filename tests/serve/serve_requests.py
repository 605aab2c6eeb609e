# SPDX-License-Identifier: Apache-2.0
"""Requests as clients of other servers send them: members that are unknown or null, blank texts, OpenAI's limits, KServe's
versions, pages of other origins."""
import base64
import concurrent.futures
import json
import math
import pathlib
import shutil
import struct
import subprocess
import tempfile
import threading
import unittest

from server import BERTH, CONTEXT, MODELS, QUESTION, Server, berth

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
ALL = ["qa=qa", "similar=other", "kinds=kinds", "rank=rank", f"tags={GOLDEN}/tags", f"masks={GOLDEN}/fill"]


def tensor(name: str, *texts: str, **more) -> dict:
    return {"name": name, "shape": [len(texts)], "datatype": "BYTES", "data": list(texts), **more}


INFER = {"inputs": [tensor("text", "hello world")]}
SIMILAR = {"source_sentence": "hello", "sentences": ["hello world", "Ada"]}
# A request in each dialect and for each task: the path, the body, and the model.
REQUESTS = [("/models/qa", {"inputs": QUESTION}, "qa"), ("/models/qa", {"inputs": [QUESTION, QUESTION]}, "qa"), ("/models/qa", QUESTION, "qa"),
            ("/models/similar", {"inputs": "hello"}, "similar"), ("/models/similar", {"text": "hello"}, "similar"),
            ("/models/similar", {"inputs": SIMILAR}, "similar"), ("/models/kinds", {"inputs": {"text": "hello"}}, "kinds"),
            ("/models/tags", {"inputs": "hello"}, "tags"), ("/models/masks", {"inputs": "[MASK]"}, "masks"),
            ("/v1/embeddings", {"input": "hello"}, "similar"), ("/embed", {"inputs": ["hello"]}, "similar"),
            ("/predict", {"inputs": "hello"}, "kinds"), ("/rerank", {"query": "hello", "texts": ["Ada"]}, "rank"),
            ("/v1/rerank", {"query": "hello", "documents": ["Ada"]}, "rank"), ("/v2/rerank", {"query": "hello", "documents": [{"text": "Ada"}]}, "rank"),
            ("/similarity", {"inputs": SIMILAR}, "similar"), ("/v2/models/similar/infer", INFER, "similar")]


class Members(unittest.TestCase):
    """What the servers of these APIs do not know, they ignore; so a client written for another one works."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server(models=ALL)
        cls.strict = Server("--strict_requests", models=ALL)
        for server in (cls.server, cls.strict):
            cls.addClassCleanup(server.__exit__, None, None, None)

    def refused(self, server: Server, path: str, body, *words: str):
        status, _, content = server.ask(path, body)
        self.assertEqual(status, 400, (path, body, content))
        for each in words:
            self.assertIn(each, content["error"] if path.startswith("/v2/") else content["error"]["message"])

    @staticmethod
    def reply(server: Server, path: str, body):
        """Without what is another in each reply."""
        found = server.json(path, body)
        if path.endswith("/rerank") and isinstance(found, dict):
            del found["id"]
        return found

    @staticmethod
    def with_unknown(body: dict, value):
        """The body with the member "colour" in each object that has a place for it, and where that is."""
        yield {**body, "colour": value}, "colour"
        if "inputs" in body and isinstance(body["inputs"], dict):
            yield {**body, "inputs": {**body["inputs"], "colour": value}}, "inputs.colour"
        if "inputs" in body and body["inputs"] == [QUESTION, QUESTION]:
            yield {**body, "inputs": [QUESTION, {**QUESTION, "colour": value}]}, "inputs[1].colour"

    def test_unknown_members(self):
        for path, body, model in REQUESTS:
            expected, counter = self.reply(self.server, path, body), f'berth_ignored_members_total{{model="{model}"}}'
            others = list(self.with_unknown(body, {"any": ["value"]}))
            if path.startswith("/models/"):
                others.append(({**body, "parameters": {"colour": 1}}, "parameters.colour"))
            for other, where in others:
                before = self.server.metric(counter)
                self.assertEqual(self.reply(self.server, path, other), expected, other)
                self.assertEqual(self.server.metric(counter), before + 1, other)
                self.refused(self.strict, path, other, f"{where}: unknown key at this path", "--strict_requests")
                self.assertEqual(self.strict.metric(counter), 0)
            self.assertEqual(self.reply(self.strict, path, body), expected)

    def test_what_clients_send(self):
        """Parameters of other servers and of other tasks, and fields beside inputs."""
        for path, body, more in [("/rerank", {"query": "hello", "texts": ["Ada"]}, {"is_truncated": True}),
                                 ("/v1/embeddings", {"input": "hello"}, {"input_type": "query"}),
                                 ("/v1/embeddings", {"input": "hello"}, {"truncate_prompt_tokens": 128, "normalize": "no", "truncate": 3}),
                                 ("/embed", {"inputs": "hello"}, {"options": {"wait_for_model": True}, "parameters": {}, "trace_id": "1"}),
                                 ("/models/qa", {"inputs": QUESTION}, {"question": 5, "context": "x", "text": [], "aggregation_strategy": 7}),
                                 ("/models/tags", {"inputs": "hello"}, {"parameters": {"top_k": 1}}),
                                 ("/models/similar", {"inputs": {"text": "hello"}}, {"top_k": 3})]:
            self.assertEqual(self.reply(self.server, path, {**body, **more}), self.reply(self.server, path, body))
            self.refused(self.strict, path, {**body, **more}, "unknown key at this path")

    def test_null_is_absent(self):
        """Of any member, known or not; a list keeps its elements."""
        for path, body, model in REQUESTS:
            counter = f'berth_ignored_members_total{{model="{model}"}}'
            expected, before = self.reply(self.strict, path, body), self.server.metric(counter)
            for other, _ in self.with_unknown(body, None):
                self.assertEqual(self.reply(self.strict, path, other), expected, other)
                self.assertEqual(self.reply(self.server, path, other), expected, other)
            self.assertEqual(self.server.metric(counter), before)
        known = {"/v1/embeddings": ("model", "encoding_format", "dimensions", "user", "prompt_name", "prompt"), "/predict": ("model", "truncate", "truncation_direction", "raw_scores"),
                 "/embed": ("model", "normalize", "dimensions", "truncate", "truncation_direction", "prompt_name"),
                 "/rerank": ("model", "truncate", "truncation_direction", "raw_scores", "return_text", "top_n"),
                 "/v1/rerank": ("max_tokens_per_doc", "rank_fields", "return_documents", "texts"),
                 "/v2/models/similar/infer": ("id", "parameters", "outputs", "model_name"),
                 "/models/similar": ("parameters", "options", "normalize", "prompt_name", "text"), "/models/masks": ("targets", "top_k")}
        for path, body, _ in REQUESTS:
            self.assertEqual(self.reply(self.strict, path, {**body, **{name: None for name in known.get(path, ()) if name not in body}}), self.reply(self.strict, path, body))
        kinds, pair = {"text": "hello"}, {"text": "hello", "text_pair": None}
        self.assertEqual(self.reply(self.strict, "/models/kinds", {"inputs": [kinds, pair]}), self.reply(self.strict, "/models/kinds", {"inputs": [kinds, kinds]}))
        self.assertEqual(self.reply(self.strict, "/models/kinds", {**pair, "inputs": None}), self.reply(self.strict, "/models/kinds", kinds))
        self.assertEqual(self.strict.json("/models/kinds", {"inputs": pair, "parameters": {"top_k": None, "function_to_apply": None}}),
                         self.strict.json("/models/kinds", {"inputs": kinds}))
        nulls = {"inputs": [tensor("text", "hello world", parameters=None)], "outputs": [{"name": "embedding", "parameters": {"binary_data": None}}],
                 "parameters": {"binary_data_output": None}}
        self.assertEqual(self.strict.json("/v2/models/similar/infer", nulls), self.strict.json("/v2/models/similar/infer", INFER))
        for path, name in (("/models/similar", "inputs"), ("/v1/embeddings", "input"), ("/embed", "inputs"), ("/predict", "inputs"), ("/rerank", "query")):
            self.refused(self.server, path, {name: None, "texts": ["x"]}, name)
            self.refused(self.server, path, {name: [None], "texts": ["x"]}, name, "expected a string")

    def test_what_would_change_the_reply_is_refused(self):
        """What an API has, but not this server: without it the reply would be another."""
        for path, body, name in [("/models/tags", {"inputs": "hello"}, "stride")]:
            self.refused(self.server, path, {**body, name: "x"}, f"{name}: not supported; leave it out")
            if path.startswith("/models/"):
                self.refused(self.server, path, {**body, "parameters": {name: "x"}}, f"parameters.{name}: not supported; leave it out")

    def test_notes(self):
        """One for each name, however often and wherever it comes, and not more than a client can fill a disk with."""
        def notes():
            return [line for line in server.messages().splitlines() if "ignored the unknown member" in line]
        with Server(models=["qa=qa", "similar=other"]) as server:
            for _ in range(3):
                server.json("/embed", {"inputs": "hello", "colour": 1})
                server.json("/models/qa", {"inputs": {**QUESTION, "colour": 1}, "size": 1})
            self.assertEqual([line.partition("member ")[2].partition(";")[0] for line in notes()],
                             ['"colour" of a request to /embed', '"size" of a request to /models/qa'])
            self.assertIn("--strict_requests refuses", notes()[0])
            before = len(server.messages().splitlines())
            server.json("/embed", {"inputs": "hello", "a\nberth: error: \x1b[2J": 1, "\u6771" * 100: 1})
            self.assertEqual(len(server.messages().splitlines()), before + 2)
            self.assertIn(r'"a\x0aberth: error: \x1b[2J"', notes()[2])
            self.assertIn('"' + "\u6771" * 20 + '"', notes()[3])
            server.json("/embed", {"inputs": "hello", **{f"name{i}": 1 for i in range(500)}})
            self.assertEqual(len(notes()), 64)
            self.assertIn("no further unknown members are noted after these 64 names; /metrics counts them", server.messages())
            self.assertEqual(server.metric('berth_ignored_members_total{model="similar"}'), 3 + 2 + 500)


class Blanks(unittest.TestCase):
    """Blank texts are read as [CLS] [SEP], as transformers reads them; one of them does not stop a list. Empty ones are refused."""
    BLANKS = (" ", "\n", "\t \r\n", "\u3000", "\u200b")

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--precision", "fp32", models=ALL)
        cls.addClassCleanup(cls.server.__exit__, None, None, None)

    def test_embeddings(self):
        line, hello = (json.loads(line)["embedding"] for line in berth(
            "embed", "--model", str(MODELS / "other"), "--precision", "fp32", "--quiet", given="\nhello\n").splitlines())
        for blank in self.BLANKS:
            data = self.server.json("/v1/embeddings", {"input": ["hello", blank]})
            self.assertEqual([row["embedding"] for row in data["data"]], [hello, line])
            self.assertEqual(data["usage"]["prompt_tokens"], 3 + 2)
            for path in ("/embed", "/models/similar"):
                self.assertEqual(self.server.json(path, {"inputs": ["hello", blank]}), [hello, line])
            self.assertEqual(self.server.json("/models/similar", {"inputs": blank}), line)
            body = {"inputs": [tensor("text", "hello", blank)]}
            self.assertEqual(self.server.json("/v2/models/similar/infer", body)["outputs"][0]["data"], hello + line)
            own = blank.encode()
            data = struct.pack("<I", len(own)) + own
            start = json.dumps({"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": len(data)}}]}).encode()
            found = self.server.json("/v2/models/similar/infer", start + data, headers={"Inference-Header-Content-Length": str(len(start))})
            self.assertEqual(found["outputs"][0]["data"], line)
            for path in ("/similarity", "/models/similar"):
                cosines = self.server.json(path, {"inputs": {"source_sentence": "hello", "sentences": [blank, "hello"]}})
                self.assertAlmostEqual(cosines[0], sum(a * b for a, b in zip(hello, line)), 5)

    def test_classes(self):
        def score(*pair):
            inputs = dict(zip(("text", "text_pair"), pair))
            return self.server.json("/models/rank", {"inputs": inputs})[0][0]["score"]
        nothing, = self.server.json("/models/kinds", {"inputs": "\u200b"})
        for blank in self.BLANKS:
            self.assertEqual(self.server.json("/models/kinds", {"inputs": ["hello", blank]})[1], nothing)
            self.assertEqual(self.server.json("/predict", {"inputs": [["hello"], [blank]]})[1], nothing)
            ranked = {row["index"]: row["score"] for row in self.server.json("/rerank", {"query": "hello", "texts": ["Ada", blank]})}
            self.assertEqual(ranked, {0: score("hello", "Ada"), 1: score("hello", "\u200b")})
            self.assertEqual(self.server.json("/rerank", {"query": blank, "texts": ["Ada"]})[0]["score"], score("\u200b", "Ada"))
            self.assertNotEqual(score("hello", blank), score("hello"))  # a pair, with a [SEP] more

    def test_words(self):
        self.assertEqual(self.server.json("/models/tags", {"inputs": [" ", "\n"]}), [[], []])
        for body, path, words in [({"inputs": ["[MASK]", " "]}, "/models/masks", "input 1: no [MASK]"),
                                  ({"inputs": [QUESTION, {"question": "Who?", "context": " "}]}, "/models/qa", "input 1: the context has no words"),
                                  ({"inputs": {"question": "\n", "context": "x"}}, "/models/qa", "the question has no words")]:
            status, _, content = self.server.ask(path, body)
            self.assertEqual((status, words in content["error"]["message"]), (400, True), content)

    def test_empty_texts(self):
        for path, body, where in [("/v1/embeddings", {"input": ""}, "input: "), ("/v1/embeddings", {"input": ["hello", ""]}, "input[1]: "),
                                  ("/embed", {"inputs": ["hello", ""]}, "inputs[1]: "), ("/models/similar", {"inputs": ["hello", ""]}, "inputs[1]: "),
                                  ("/models/tags", {"inputs": ""}, "inputs: "), ("/models/kinds", {"inputs": {"text": "hello", "text_pair": ""}}, "inputs.text_pair: "),
                                  ("/predict", {"inputs": [["hello", ""]]}, "inputs[0][1]: "), ("/rerank", {"query": "hello", "texts": ["x", ""]}, "texts[1]: "),
                                  ("/v2/models/similar/infer", {"inputs": [tensor("text", "x", "")]}, "input text[1]: ")]:
            status, _, content = self.server.ask(path, body)
            message = content["error"] if path.startswith("/v2/") else content["error"]["message"]
            self.assertEqual((status, message), (400, where + "the text is empty"))


def folder(name: str, source: str, **files) -> str:
    """A copy of a model with further files, by their names with "__" for each "/"; a function changes the JSON."""
    copy = MODELS / name
    shutil.copytree(MODELS / source, copy, dirs_exist_ok=True)
    for path, content in files.items():
        file = copy / (path.replace("__", "/") + ".json")
        file.parent.mkdir(exist_ok=True)
        if callable(content):
            content = content(json.loads(file.read_text(encoding="utf-8")))
        file.write_text(json.dumps(content), encoding="utf-8")
    return f"{name}={name}"


class RequestLog(unittest.TestCase):
    def test_a_line_for_each_reply(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "requests.jsonl")
            path.write_text("earlier\n")
            with Server("--access_log", str(path), models=["qa=qa"]) as server:
                server.json("/models/qa", {"inputs": QUESTION})
                server.status("/nowhere%0a%22x")
                server.status("/models/qa", "{", method="POST")
                threads = [threading.Thread(target=server.status, args=("/health",)) for _ in range(20)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            first, *lines = path.read_text(encoding="utf-8").splitlines()
        self.assertEqual(first, "earlier")
        lines = [json.loads(line) for line in lines]
        found = [(line["method"], line["path"], line["status"]) for line in lines]
        self.assertEqual(found[:3], [("POST", "/models/qa", 200), ("GET", "/nowhere\n\"x", 404), ("POST", "/models/qa", 400)])
        self.assertEqual(found[3:], [("GET", "/health", 200)] * 20)
        self.assertEqual({line["client"] for line in lines}, {"127.0.0.1"})
        self.assertEqual(lines[0]["request_bytes"], len(json.dumps({"inputs": QUESTION})))
        self.assertTrue(all(0 < line["seconds"] < 60 and line["reply_bytes"] > 0 for line in lines), lines)
        self.assertRegex(lines[0]["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")

    def test_a_file_that_cannot_be_written(self):
        done = subprocess.run([BERTH, "serve", "--model", str(MODELS / "qa"), "--port", "0", "--access_log", "/nowhere/log"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 73, done.stderr)
        self.assertIn("access_log: cannot append to /nowhere/log", done.stderr)


class Results(unittest.TestCase):
    def test_openai_embeddings_have_length_1(self):
        """Whatever the folder says: clients of this API compare embeddings by their products."""
        parts = [{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
                 for i, (path, kind) in enumerate([("", "Transformer"), ("1_Pooling", "Pooling")])]
        pooling = {"word_embedding_dimension": 32, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
        own, texts = folder("raw", "other", modules=parts, **{"1_Pooling__config": pooling}), ["hello world", "Ada lived in Oslo."]
        with Server("--precision", "fp32", models=[own]) as server:
            raw = server.json("/models/raw", {"inputs": texts})
            for more, size in (({}, 32), ({"dimensions": 5}, 5)):
                for form in ("float", "base64"):
                    data = server.json("/v1/embeddings", {"input": texts, "encoding_format": form, **more})["data"]
                    for row, other in zip(data, raw, strict=True):
                        found = row["embedding"] if form == "float" else struct.unpack(f"<{size}f", base64.b64decode(row["embedding"]))
                        length = math.sqrt(sum(value * value for value in other[:size]))
                        self.assertGreater(abs(length - 1), 0.01)
                        self.assertEqual(len(found), size)
                        for value, expected in zip(found, other):
                            self.assertAlmostEqual(value, expected / length, 5)

    def test_prompts(self):
        """By name, as they are, or the folder's own; each text of a batch has that of its request."""
        parts = [{"path": path, "type": f"x.{kind}"} for path, kind in (("", "Transformer"), ("1_Pooling", "Pooling"))]
        prompts = {"prompts": {"q": "Ada lived ", "d": "hello "}, "default_prompt_name": "d"}
        own = folder("prompts", "other", modules=parts, config_sentence_transformers=prompts, **{"1_Pooling__config": {}})
        with Server("--precision", "fp32", models=[own]) as server:
            def rows(text, **more):
                data = server.json("/v1/embeddings", {"input": [text], **more})["data"]
                found = [server.json("/embed", {"inputs": text, **more})[0], data[0]["embedding"],
                         server.json("/models/prompts", {"inputs": [text], "parameters": {**more, "normalize": True}})[0]]
                self.assertEqual(found[0], found[2])
                self.assertEqual(found[0], found[1])
                return found[0]
            plain = rows("Ada lived in Oslo.", prompt="")
            self.assertEqual(rows("in Oslo.", prompt_name="q"), plain)
            self.assertEqual(rows("in Oslo.", prompt="Ada lived "), plain)
            self.assertEqual(rows("in Oslo."), rows("hello in Oslo.", prompt=""))
            self.assertEqual(rows("in Oslo.", prompt_name="query"), rows("in Oslo.", prompt=""))
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                ways = [{"prompt_name": "q"}, {}, {"prompt": ""}] * 8
                found = list(pool.map(lambda more: server.json("/embed", {"inputs": "in Oslo.", **more})[0], ways))
            for more, row in zip(ways, found, strict=True):
                for one, other in zip(row, rows("in Oslo.", **more), strict=True):
                    self.assertAlmostEqual(one, other, 6)
            Members.refused(self, server, "/embed", {"inputs": ["a", "b"], "prompt_name": "x"}, 'input 0: prompt_name: the model has no prompt "x"; it has q, d, query, document;')
            cosine, = server.json("/similarity", {"inputs": {"source_sentence": "in Oslo.", "sentences": ["in Oslo."]}, "parameters": {"prompt_name": "q"}})
            self.assertAlmostEqual(cosine, 1, 5)
            # The prompt counts where texts must not be cut.
            Members.refused(self, server, "/embed", {"inputs": "hello", "prompt": "Ada " * 200, "truncate": False}, "more than the 128 that the model")

    def test_overflow(self):
        """As the setting of the program, in every API that has embeddings; windows are for them alone."""
        text = "Ada lived in Oslo. " * 60

        def said(*options: str) -> list:
            return json.loads(berth("embed", "--model", str(MODELS / "other"), "--threads", "1", "--precision", "fp32", "--text", text, *options))["embedding"]
        cut, whole = said(), said("--overflow", "windows")
        self.assertNotEqual(cut, whole)
        with Server("--precision", "fp32", "--threads", "1", models=["similar=other", "kinds=kinds"]) as server:
            for overflow, wanted in (("cut", cut), ("windows", whole)):
                self.assertEqual(server.json("/embed", {"inputs": text, "overflow": overflow}), [wanted])
                self.assertEqual(server.json("/v1/embeddings", {"input": text, "overflow": overflow})["data"][0]["embedding"], wanted)
                self.assertEqual(server.json("/models/similar", {"inputs": text, "parameters": {"overflow": overflow}}), wanted)
            Members.refused(self, server, "/embed", {"inputs": text, "overflow": "error"}, "more than the 128 that the model")
            Members.refused(self, server, "/embed", {"inputs": text, "overflow": "all"}, 'overflow: option overflow: expected one of cut, error, windows, found "all"')
            Members.refused(self, server, "/embed", {"inputs": text, "overflow": 1}, "overflow: expected a string")
            Members.refused(self, server, "/models/kinds", {"inputs": text, "overflow": "windows"}, 'expected one of cut, error, found "windows"')

    def test_tokens_and_sparse_vectors(self):
        """As berth embed has them, in text-embeddings-inference's forms."""
        texts = ["hello film", "the fox is in paris"]

        def said(folder: str, *options: str) -> list:
            return [json.loads(berth("embed", "--model", str(folder), "--threads", "1", "--precision", "fp32", "--text", text, *options)) for text in texts]
        parts = [{"path": path, "type": f"x.{kind}"} for path, kind in (("", "Transformer"), ("1_Splade", "SpladePooling"))]
        shutil.copytree(GOLDEN / "fill", MODELS / "masks", dirs_exist_ok=True)
        splade = folder("splade", "masks", modules=parts, **{"1_Splade__config": {}})
        with Server("--precision", "fp32", "--threads", "1", models=[f"masks={GOLDEN}/fill", splade, "similar=other"]) as server:
            rows = [line["token_embeddings"] for line in said(MODELS / "other", "--tokens")]
            self.assertEqual(server.json("/embed_all", {"inputs": texts}), rows)
            self.assertEqual(server.json("/embed_all", {"inputs": texts[0]}), rows[:1])
            words = [line["words"] for line in said(GOLDEN / "fill", "--sparse")]
            weights = [sorted(({"index": word["token"], "value": word["weight"]} for word in each), key=lambda word: word["index"]) for each in words]
            for more in ({}, {"model": "splade"}):
                self.assertEqual(server.json("/embed_sparse", {"inputs": texts, **more}), weights)
            self.assertEqual(server.json("/models/splade", {"inputs": texts}), words)
            self.assertEqual(server.json("/models/splade", {"inputs": texts[0], "top_k": 2}), words[0][:2])
            # Tasks of one model at the same time.
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                paths = ["/embed_all", "/embed"] * 12
                replies = list(pool.map(lambda path: server.json(path, {"inputs": texts[:1]}), paths))
            for path, reply in zip(paths, replies, strict=True):
                self.assertEqual(len(reply[0]), len(rows[0]) if path == "/embed_all" else 32)
            status, _, content = server.ask("/embed_sparse", {"inputs": "x", "model": "similar"})
            self.assertEqual((status, content["error"]["message"]),
                             (404, "the model similar is for feature-extraction; this path is for fill-mask and sparse-embedding"))
            self.assertEqual(server.status("/embed_all", {"inputs": "x", "model": "masks"}), 404)
            Members.refused(self, server, "/embed_all", {"inputs": ["a", "b"], "prompt_name": "x"}, "input 0: prompt_name: the model has no prompt")
            self.assertEqual(len(server.json("/embed_all", {"inputs": "hello", "prompt": "hello "})[0]), 4)

    def test_name_of_a_single_label(self):
        """Of a regression, too, as in transformers."""
        def named(config):
            return {**config, "id2label": {"0": "relevance"}, "label2id": {"relevance": 0}}

        def unnamed(config):
            return {key: value for key, value in config.items() if key not in ("id2label", "label2id")} | {"num_labels": 1}
        models = {"number": "relevance", "rank": "relevance"}
        words = [folder(f"named_{source}", source, config=named) for source in models] + [folder(f"unnamed_{source}", source, config=unnamed) for source in models]
        with Server("--precision", "fp32", models=words) as server:
            for name in (word.partition("=")[0] for word in words):
                label = "relevance" if name.startswith("named_") else "LABEL_0"
                row, = server.json(f"/models/{name}", {"inputs": "hello"})
                self.assertEqual([each["label"] for each in row], [label])
                self.assertEqual(server.json("/predict", {"inputs": "hello", "model": name}), row)
                self.assertEqual(server.json(f"/v2/models/{name}/infer", INFER)["outputs"][0]["data"], [label])


class Limits(unittest.TestCase):
    def test_as_many_inputs_as_openai_takes(self):
        with Server(models=["similar=other", "rank=rank"]) as server:
            self.assertEqual(server.json("/info")["max_client_batch_size"], 2048)
            for count, status in ((2048, 200), (2049, 400)):
                texts = ["hello"] * count
                for path, body in [("/v1/embeddings", {"input": texts}), ("/embed", {"inputs": texts}), ("/models/similar", {"inputs": texts}),
                                   ("/rerank", {"query": "hello", "texts": texts}), ("/v2/models/similar/infer", {"inputs": [tensor("text", *texts)]})]:
                    found, _, content = server.ask(path, body)
                    self.assertEqual(found, status, path)
                    if status == 400:
                        self.assertIn("the request has 2049 texts, but --max_queue is 2048", json.dumps(content))


class Versions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(models=["similar=other"])
        cls.addClassCleanup(cls.server.__exit__, None, None, None)

    def test_the_only_version(self):
        own = "/v2/models/similar"
        self.assertEqual(self.server.json(own)["versions"], ["1"])
        for end in ("", "/ready"):
            self.assertEqual(self.server.json(f"{own}/versions/1{end}"), self.server.json(own + end))
        found = self.server.json(f"{own}/versions/1/infer", INFER)
        self.assertEqual(found, self.server.json(f"{own}/infer", INFER))
        self.assertEqual((found["model_name"], found["model_version"]), ("similar", "1"))
        self.assertEqual(self.server.status("/v2/models/none/versions/1/infer", INFER), 404)
        self.assertEqual(self.server.status(f"{own}/versions/1/infer"), 405)
        for path in ("/versions/2", "/versions/2/infer", "/versions/1/config", "/versions/11/infer"):
            status, _, content = self.server.ask(own + path, INFER)
            self.assertEqual((status, content), (404, {"error": "no such path; each model has the single version 1"}))

    def test_version_1_of_kserve(self):
        for path in ("/v1/models/similar:predict", "/v1/models/similar:explain", "/v1/models/none:predict"):
            status, _, content = self.server.ask(path, {"instances": ["hello"]})
            self.assertEqual(status, 404)
            self.assertIn("KServe's version 1 (:predict, :explain) is not supported", content["error"]["message"])
            self.assertIn("/v2/models/NAME/infer", content["error"]["message"])
        self.assertEqual(self.server.status("/v1/models/similar", {}), 405)


class Origins(unittest.TestCase):
    """Pages of other origins (CORS): none, unless they are named."""
    NAMED, PORT = "https://app.example.org", "http://localhost:3000"

    @staticmethod
    def shared(headers) -> dict:
        return {name.lower(): value for name, value in headers.items() if name.lower() == "vary" or name.lower().startswith("access-control-")}

    @staticmethod
    def preflight(server: Server, path: str, origin: str, method: str = "POST"):
        return server.ask(path, method="OPTIONS", headers={"Origin": origin, "Access-Control-Request-Method": method,
                                                           "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os"})

    def test_off(self):
        with Server(models=["similar=other"]) as server:
            own = f"http://127.0.0.1:{server.port}"
            for origin in (self.NAMED, "null", "*"):
                for status, headers, _ in (self.preflight(server, "/v1/embeddings", origin),
                                           server.ask("/v1/embeddings", {"input": "hello"}, headers={"Origin": origin})):
                    self.assertEqual((status, self.shared(headers)), (403, {}))
            for status, headers, _ in (self.preflight(server, "/v1/embeddings", own), server.ask("/health", method="OPTIONS")):
                self.assertEqual((status, self.shared(headers)), (405, {}))
            for sent in ({}, {"Origin": own}):
                status, headers, _ = server.ask("/v1/embeddings", {"input": "hello"}, headers=sent)
                self.assertEqual((status, self.shared(headers)), (200, {}))

    def test_named_origins(self):
        with Server("--cors_origin", f"{self.NAMED}, {self.PORT}", "--max_body_bytes", "10000", models=["similar=other"]) as server:
            for origin in (self.NAMED, self.PORT):
                for path, method in (("/v1/embeddings", "POST"), ("/embed", "POST"), ("/", "POST"), ("/models/similar", "POST"), ("/health", "GET"),
                                     ("/v2/models/similar/infer", "POST"), ("/v1/models", "GET"), ("/metrics", "GET")):
                    status, headers, content = self.preflight(server, path, origin, method)
                    self.assertEqual((status, content, headers["Connection"]), (204, b"", None), path)
                    self.assertEqual(self.shared(headers), {
                        "vary": "Origin", "access-control-allow-origin": origin, "access-control-allow-methods": "GET, HEAD, POST",
                        "access-control-allow-headers": "*, Authorization", "access-control-max-age": "600"})
                # Replies of every kind, so that the page can read its errors.
                for path, body, status in [("/v1/embeddings", {"input": "hello"}, 200), ("/health", None, 200), ("/embed", {"inputs": ""}, 400),
                                           ("/embed", {"inputs": "hello " * 10000}, 413), ("/none", None, 404), ("/v1/embeddings", None, 405)]:
                    found, headers, _ = server.ask(path, body, headers={"Origin": origin})
                    self.assertEqual(found, status)
                    self.assertEqual(self.shared(headers), {"vary": "Origin", "access-control-allow-origin": origin,
                                                            "access-control-expose-headers": "Inference-Header-Content-Length, Retry-After"})
                status, headers, _ = self.preflight(server, "/none", origin)
                self.assertEqual((status, headers["Access-Control-Allow-Origin"]), (404, origin))
                self.assertEqual(server.status("/health", method="OPTIONS", headers={"Origin": origin}), 405)  # not a browser's question
                self.assertEqual(server.status("/health", headers={"Origin": origin, "Host": "evil.example"}), 403)

    def test_others(self):
        with Server("--cors_origin", f"{self.NAMED},{self.PORT}", models=["similar=other"]) as server:
            for origin in ("https://evil.example", "http://app.example.org", "https://app.example.org:8443", "https://app.example.org.evil.example",
                           "https://app.example.org/", "https://sub.app.example.org", "https://app.example.or", "http://localhost", "null", "*", "",
                           f"{self.NAMED},{self.PORT}"):
                for status, headers, _ in (self.preflight(server, "/embed", origin), server.ask("/embed", {"inputs": "hello"}, headers={"Origin": origin})):
                    self.assertEqual((status, self.shared(headers)), (403, {"vary": "Origin"}), origin)
            # What is not from another site is as without the option.
            for sent in ({}, {"Origin": f"http://127.0.0.1:{server.port}"}):
                status, headers, _ = server.ask("/embed", {"inputs": "hello"}, headers=sent)
                self.assertEqual((status, self.shared(headers)), (200, {"vary": "Origin"}))

    def test_keys(self):
        """A browser asks without the key; the page's request has it."""
        keys = MODELS / "origin-keys"
        keys.write_text("a-key\n", encoding="utf-8")
        with Server("--cors_origin", self.NAMED, "--api_key_file", str(keys), models=["similar=other"]) as server:
            self.assertEqual(self.preflight(server, "/embed", self.NAMED)[0], 204)
            for more, status in (({}, 401), ({"Authorization": "Bearer a-key"}, 200)):
                found, headers, _ = server.ask("/embed", {"inputs": "hello"}, headers={"Origin": self.NAMED, **more})
                self.assertEqual((found, headers["Access-Control-Allow-Origin"]), (status, self.NAMED))

    def test_names_that_are_no_origins(self):
        for word in ("*", "null", "app.example.org", "https://", "https://app.example.org/", "https://app.example.org/page", "https://*.example.org",
                     f"{self.NAMED},*", "://host", "https//host", "https://user@host", "https://a https://b"):
            done = subprocess.run([BERTH, "serve", "--model", str(MODELS / "other"), "--port", "0", "--cors_origin", word],
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 2, (word, done.stderr))
            self.assertIn("--cors_origin: expected origins such as https://app.example.org or http://localhost:3000, found ", done.stderr)
        with Server("--cors_origin", "tauri://localhost", models=["similar=other"]) as server:
            self.assertEqual(server.status("/embed", {"inputs": "hello"}, headers={"Origin": "tauri://localhost"}), 200)


if __name__ == "__main__":
    unittest.main()
