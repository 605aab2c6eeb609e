# SPDX-License-Identifier: Apache-2.0
"""What the server answers: the same as the program's verbs, in the form of each API."""
import base64
import json
import math
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import threading
import time
import unittest

import jsonschema

from server import BERTH, CONTEXT, MODELS, QUESTION, Server, berth

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests"))
import tensor_file


def answers_of_verb(question: dict, top: int = 1, *options: str) -> list:
    output = berth("answer", "--model", str(MODELS / "qa"), "--question", question["question"], "--context",
                   question["context"], "--top", str(top), "--json", "--quiet", *options)
    return [{"score": answer["probability"], "start": answer["start"], "end": answer["end"], "answer": answer["text"]}
            for answer in json.loads(output)["answers"]]


def embeddings_of_verb(*texts: str, options=()) -> list:
    lines = berth("embed", "--model", str(MODELS / "other"), "--quiet", *options, given="\n".join(texts) + "\n")
    return [json.loads(line)["embedding"] for line in lines.splitlines()]


def classes_of_verb(*pairs, options=()) -> list:
    """For each pair the probability of each label."""
    table = MODELS / "pairs.tsv"
    table.write_text("".join(f"{text}\t{pair}\n" for text, pair in [("text", "pair"), *pairs]), encoding="utf-8")
    berth("predict", "classify", "--model", str(MODELS / "kinds"), "--input", str(table), "--text-column", "text",
          "--text-pair-column", "pair", "--output", str(MODELS / "predicted"), "--quiet", "--force",
          *options)
    lines = (MODELS / "predicted" / "test_results.tsv").read_text(encoding="utf-8").splitlines()
    return [dict(zip(("bad", "good", "none"), map(float, line.split("\t")))) for line in lines]


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(models=["qa=qa", "similar=other", "kinds=kinds"])
        cls.addClassCleanup(cls.server.__exit__, None, None, None)

    def refused(self, path: str, body, words: str, status: int = 400):
        found, _, content = self.server.ask(path, body)
        self.assertEqual(found, status, content)
        # KServe's clients expect a text, OpenAI's an object.
        self.assertIn(words, content["error"] if path.startswith("/v2/") else content["error"]["message"])

    def test_one_question(self):
        self.assertEqual(self.server.json("/models/qa", {"inputs": QUESTION}), answers_of_verb(QUESTION)[0])
        self.assertEqual(self.server.json("/models/qa", QUESTION), answers_of_verb(QUESTION)[0])
        self.assertEqual(self.server.json("/models/qa", {**QUESTION, "model": "qa"}), answers_of_verb(QUESTION)[0])

    def test_parameters_in_both_spellings(self):
        expected = answers_of_verb(QUESTION, 3)
        for name in ("topK", "top_k"):
            found = self.server.json("/models/qa", {"inputs": QUESTION, "parameters": {name: 3}})
            self.assertEqual(found, expected)

    def test_answers_are_spans_of_the_context(self):
        """However short they must be, and whatever the model thinks of the question's own words."""
        sentences = [f"Rita lived in Rome {i}." for i in range(40)]
        inputs = [{"question": "Where did Ada live? " * 5, "context": " ".join(sentences[:count])} for count in range(1, 40)]
        for none in (False, True):
            parameters = {"max_answer_len": 1, "handle_impossible_answer": none, "top_k": 3}
            found = self.server.json("/models/qa", {"inputs": inputs, "parameters": parameters})
            for own, answers in zip(inputs, found, strict=True):
                self.assertEqual(len(answers), 3)
                for answer in answers:
                    self.assertEqual(answer["answer"], own["context"][answer["start"]:answer["end"]])

    def test_answers_of_whole_words(self):
        """As transformers' align_to_words: runs of letters and digits, or one punctuation mark."""
        words = re.compile(r"\w+|[^\w\s]")
        inputs = {"question": "Where?", "context": "Xylophones (e.g. \u00c9rard's) don't rust; 42km of quartz, vexed."}
        edges = [word.span() for word in words.finditer(inputs["context"])]
        starts, ends = {start for start, _ in edges}, {end for _, end in edges}
        within = {}
        for name, value in (("align_to_words", True), ("alignToWords", False), ("align_to_words", None), ("top_k", 40)):
            parameters = {"top_k": 40, "max_answer_len": 2, name: value}
            found = self.server.json("/models/qa", {"inputs": inputs, "parameters": parameters})
            within[value] = [answer for answer in found if answer["start"] not in starts or answer["end"] not in ends]
            for answer in found:
                self.assertEqual(answer["answer"], inputs["context"][answer["start"]:answer["end"]])
            self.assertEqual(len({answer["answer"] for answer in found}), len(found))
            if name == "alignToWords":
                self.assertEqual(found, answers_of_verb(inputs, 40, "--max_answer_length", "2", "--align_to_words", "false"))
            else:
                self.assertEqual(found, answers_of_verb(inputs, 40, "--max_answer_length", "2"))
        self.assertGreater(len(within.pop(False)), 0)
        self.assertEqual(list(within.values()), [[], [], []])

    def test_scores_are_probabilities(self):
        """P(start) P(end), of which --answer_score softmax makes shares that add up to 1."""
        found = self.server.json("/models/qa", {"inputs": QUESTION, "parameters": {"top_k": 20}})
        total = sum(answer["score"] for answer in found)
        self.assertLess(total, 0.9)
        with Server("--answer_score", "softmax", models=["qa"]) as server:
            shares = server.json("/", {"inputs": QUESTION, "parameters": {"top_k": 20}})
        self.assertEqual(shares, answers_of_verb(QUESTION, 20, "--answer_score", "softmax"))
        self.assertAlmostEqual(sum(answer["score"] for answer in shares), 1)
        for answer, share in zip(found, shares, strict=True):
            self.assertEqual(answer["answer"], share["answer"])
            self.assertAlmostEqual(answer["score"] / total, share["score"])

    def test_answers_are_copied_from_the_context(self):
        for context in ("Ada  lived   in\tOslo", "Ada\r\nlived\r\nin Oslo\r\n", "  Ada\n\n\n and \u00c9rard in Oslo. ", "Ada\u200blived\u00a0in\u3000Oslo"):
            inputs = {"question": "Where did Ada live?", "context": context}
            for words in (True, False):
                found = self.server.json("/models/qa", {"inputs": inputs, "parameters": {"top_k": 40, "align_to_words": words}})
                for answer in found:
                    self.assertEqual(answer["answer"], context[answer["start"]:answer["end"]])
                self.assertTrue(any(re.search(r"\s\s|[\t\u00a0]", answer["answer"]) for answer in found), found)

    def test_as_many_answers_as_are_asked_for(self):
        inputs = {"question": "Where did Ada live?", "context": " ".join(f"Rita lived in Rome {i}." for i in range(40))}
        for top in (21, 100):
            found = self.server.json("/models/qa", {"inputs": inputs, "parameters": {"top_k": top}})
            self.assertEqual(len({answer["answer"] for answer in found}), top)
            self.assertEqual(found, answers_of_verb(inputs, top))
            # More answers, the same best ones; their shares are of more candidates.
            self.assertEqual([answer["answer"] for answer in found[:3]],
                             [answer["answer"] for answer in answers_of_verb(inputs, 3)])

    def test_list_keeps_its_order(self):
        questions = [{"question": f"Who lived in {place}?", "context": CONTEXT} for place in ("Oslo", "Riga", "Bern")]
        self.assertEqual(self.server.json("/models/qa", {"inputs": questions}),
                         [answers_of_verb(question)[0] for question in questions])

    def test_long_context_is_read_in_windows(self):
        long = {"question": QUESTION["question"], "context": CONTEXT + " Rita lived in Rome." * 60 + " Olga lived in Bern."}
        self.assertEqual(self.server.json("/models/qa", {"inputs": long}), answers_of_verb(long)[0])

    def test_offsets_count_what_was_asked_for(self):
        context = "\U0001d400 \u00e9t\u00e9: " + CONTEXT
        inputs = {"question": "Where did Ada live?", "context": context}
        encoded = {"code_points": list(context), "utf16": context.encode("utf-16-le"), "bytes": context.encode()}
        for unit, text in encoded.items():
            found = self.server.json("/models/qa", {"inputs": inputs, "parameters": {"offset_unit": unit}})
            width = 2 if unit == "utf16" else 1
            part = text[found["start"] * width:found["end"] * width]
            part = "".join(part) if unit == "code_points" else part.decode("utf-16-le" if width == 2 else "utf-8")
            self.assertEqual(part, found["answer"], unit)

    def test_parameters_that_would_have_no_effect(self):
        for parameters, words in [({"top_k": 0}, "from 1"), ({"docStride": 7}, "--doc_stride"),
                                  ({"maxAnswerLen": 0}, "from 1"), ({"max_seq_len": 7}, "--max_seq_length"),
                                  ({"maxQuestionLen": 7}, "--max_query_length"), ({"alignToWords": 1}, "true or false"),
                                  ({"offset_unit": "words"}, "code_points"),
                                  ({"handleImpossibleAnswer": 1}, "true or false"), ([], "object")]:
            self.refused("/models/qa", {"inputs": QUESTION, "parameters": parameters}, words)
        self.server.json("/models/qa", {"inputs": QUESTION, "parameters": {"docStride": 128, "maxAnswerLen": 30,
                                                                       "alignToWords": True, "topK": None}})

    def test_requests_that_are_wrong(self):
        self.refused("/models/qa", b" " * (4 << 20) + b"{}", "--max_body_bytes; send fewer texts", 413)
        for body, words in [({}, "inputs"), ({"inputs": []}, "empty"), ({"inputs": "text"}, "question"),
                            ({"inputs": {"question": "Who?"}}, "inputs.context"),
                            ({"inputs": {"question": 1, "context": "x"}}, "inputs.question"),
                            ({"inputs": {"question": "", "context": "x"}}, "inputs.question: the text is empty"),
                            ({"inputs": {"question": " ", "context": "x"}}, "the question has no words"),
                            ({"inputs": {"question": "a\0b", "context": "x"}}, "NUL"),
                            ({"inputs": [QUESTION, {"question": "Who?", "context": ""}]}, "inputs[1].context"),
                            ({"inputs": {"question": "?" * 70000, "context": "x"}}, "64 KiB"),
                            ({"inputs": {"question": "Who?", "context": "\u200b"}}, "no words"),
                            ({"inputs": QUESTION, "model": {}}, "model"), ("[1]", "object"), ("{", "JSON"), (b'{"inputs": "\xff"}', "0xff"),
                            ("[" * 10000 + "]" * 10000, "nested"), ('{"inputs": 1, "inputs": 2}', "duplicate")]:
            self.refused("/models/qa", body, words)

    def test_which_model(self):
        self.refused("/", {"inputs": QUESTION}, "/v1/models", 404)
        self.refused("/models/none", {"inputs": QUESTION}, "/v1/models", 404)
        self.assertEqual(self.server.json("/", {"inputs": QUESTION, "model": "qa"}), answers_of_verb(QUESTION)[0])
        models = self.server.json("/v1/models")["data"]
        self.assertEqual([(model["id"], model["task"]) for model in models],
                         [("qa", "question-answering"), ("similar", "feature-extraction"), ("kinds", "text-classification")])
        self.assertEqual([self.server.json(f"/v1/models/{model['id']}") for model in models], models)
        self.assertEqual(self.server.status("/v1/models/none"), 404)

    def test_embeddings(self):
        texts = ["hello world", "Ada lived in Oslo."]
        expected = embeddings_of_verb(*texts)
        self.assertEqual(self.server.json("/models/similar", {"inputs": texts}), expected)
        self.assertEqual(self.server.json("/models/similar", {"inputs": texts[1]}), expected[1])
        plain = self.server.json("/models/similar", {"inputs": texts[0], "parameters": {"normalize": False}})
        # Hugging Face's client for Python has the parameters beside the inputs.
        self.assertEqual(self.server.json("/models/similar", {"inputs": texts[0], "normalize": False,
                                                              "truncation_direction": "right", "options": {}}), plain)
        for more, words in [({"truncate": 1}, "true or false"), ({"prompt_name": "q"}, "prompt_name: the model has no prompt"),
                            ({"prompt_name": 1}, "prompt_name: expected a string"),
                            ({"prompt_name": "query", "prompt": "x"}, "give prompt or prompt_name, not both"),
                            ({"truncation_direction": "left"}, "only \"right\"")]:
            self.refused("/models/similar", {"inputs": texts[0], **more}, words)
        length = sum(value * value for value in plain) ** 0.5
        self.assertNotAlmostEqual(length, 1, 2)
        for one, other in zip(plain, expected[0], strict=True):
            self.assertAlmostEqual(one / length, other, 5)

    def test_one_label(self):
        """As transformers' pipeline: a sigmoid, unless the folder calls it a regression."""
        with Server("--precision", "fp32", models=["number=number", "rank=rank"]) as server:
            def score(model, **parameters):
                return server.json(f"/models/{model}", {"inputs": "Ada in Oslo", "parameters": parameters})[0][0]["score"]
            logit = score("rank", function_to_apply="none")
            self.assertEqual(score("number"), logit)
            self.assertAlmostEqual(score("rank"), 1 / (1 + math.exp(-logit)), 6)

    def test_rerank(self):
        """text-embeddings-inference's: the scores of pairs with the query, whatever the folder calls them."""
        query, texts = "Who lived in Oslo?", ["Ada lived in Oslo.", "Hugo lived in Riga.", "hello", "Ada lived in Oslo.", "Rita"]
        with Server("--precision", "fp32", models=["kinds=kinds", "number=number", "rank=rank"]) as server:
            def expected(model: str, function: str) -> list:
                pairs = [{"text": query, "text_pair": text} for text in texts]
                rows = server.json(f"/models/{model}", {"inputs": pairs, "parameters": {"function_to_apply": function}})
                return sorted(({"index": i, "score": row["score"]} for i, (row,) in enumerate(rows)), key=lambda own: (-own["score"], own["index"]))

            def rerank(**more):
                return server.json("/rerank", {"query": query, "texts": texts, **more})
            for model in ("number", "rank"):
                self.assertEqual(rerank(model=model), expected(model, "sigmoid"))
                self.assertEqual(rerank(model=model, raw_scores=True), expected(model, "none"))
                for score, raw in (("auto", False), ("none", True)):  # the program's lines are these
                    lines = berth("rerank", "--model", str(MODELS / model), "--query", query, "--score", score, "--top_n", "4", "--precision", "fp32", "--quiet",
                                  given="".join(text + "\n" for text in texts)).splitlines()
                    self.assertEqual([json.loads(line) for line in lines], rerank(model=model, raw_scores=raw, return_text=True, top_n=4))
            self.assertEqual(rerank(), rerank(model="number"))  # the first that has a single label
            whole = rerank(model="rank", return_text=True, truncate=True, truncation_direction="Right", raw_scores=False)
            self.assertEqual(whole, [{**row, "text": texts[row["index"]]} for row in rerank(model="rank")])
            self.assertEqual(rerank(model="rank", top_n=2, return_text=False), rerank(model="rank")[:2])
            self.assertEqual(rerank(model="rank", top_n=99), rerank(model="rank"))
            long = server.ask("/rerank", {"query": query, "texts": ["x", "hello " * 200], "truncate": False})
            self.assertIn("input 1: the text has 208 tokens, more than the 128", long[2]["error"]["message"])
            for body, words in [({"texts": texts}, "query: expected a string"), ({"query": "", "texts": texts}, "query: the text is empty"),
                                ({"query": query}, 'neither "documents" nor "texts"; expected "documents"'), ({"query": query, "texts": texts, "documents": texts}, 'both "documents" and "texts"'), ({"query": query, "texts": []}, "texts: expected a list"),
                                ({"query": query, "texts": "x"}, "texts: expected a list"), ({"query": query, "texts": ["x", 1]}, "texts[1]: expected a string"),
                                ({"query": query, "texts": texts, "top_n": 0}, "top_n"),
                                ({"query": query, "texts": texts, "return_text": 1}, "return_text"), ({"query": query, "texts": texts, "raw_scores": 1}, "raw_scores")]:
                status, _, content = server.ask("/rerank", body)
                self.assertEqual((status, words in content["error"]["message"]), (400, True), content)
            status, _, content = server.ask("/rerank", {"query": query, "texts": texts, "model": "kinds"})
            self.assertEqual((status, "this path is for text-classification with a single label" in content["error"]["message"]), (404, True), content)
        self.refused("/rerank", {"query": query, "texts": texts}, "for text-classification with a single label, but no model", 404)

    def test_rerank_of_documents(self):
        """Cohere's, Jina's and vLLM's: an object, with the scores of text-embeddings-inference's form."""
        query, texts = "Who lived in Oslo?", ["Ada lived in Oslo.", "Hugo lived in Riga.", "hello", "Ada lived in Oslo.", "Rita"]
        with Server("--precision", "fp32", models=["kinds=kinds", "rank=rank"]) as server:
            description, ids = server.json("/openapi.json"), set()

            def rerank(path="/rerank", documents=texts, **more):
                found = server.json(path, {"query": query, "documents": documents, **more})
                schema = description["paths"][path]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
                jsonschema.Draft7Validator({**schema, "components": description["components"]}).validate(found)
                self.assertEqual(list(found), ["id", "model", "results", "usage", "meta"])
                self.assertNotIn(found["id"], ids)
                ids.add(found["id"])
                return found

            def scores(**more):
                rows = server.json("/rerank", {"query": query, "texts": texts, **more})
                return [{"index": row["index"], "relevance_score": row["score"]} for row in rows]
            lines = berth("tokenize", "--model", str(MODELS / "rank"), "--ids", given="".join(text + "\n" for text in [query, *texts])).splitlines()
            lengths = [len(line.split()) for line in lines]
            tokens = sum(lengths[1:]) + len(texts) * (lengths[0] + 3)  # [CLS] query [SEP] text [SEP]
            for path, version in (("/rerank", "1"), ("/v1/rerank", "1"), ("/v2/rerank", "2")):
                found = rerank(path)
                self.assertEqual((found["model"], found["results"]), ("rank", scores()))
                self.assertEqual(found["usage"], {"prompt_tokens": tokens, "total_tokens": tokens})
                self.assertEqual(found["meta"], {"api_version": {"version": version}, "tokens": {"input_tokens": tokens}})
            self.assertEqual(server.json("/v1/rerank", {"query": query, "texts": texts}), server.json("/rerank", {"query": query, "texts": texts}))
            objects = [{"text": text, "title": "x"} for text in texts[:3]] + texts[3:]
            self.assertEqual(rerank(documents=objects)["results"], scores())
            self.assertEqual(server.metric('berth_ignored_members_total{model="rank"}'), 3)
            self.assertEqual(rerank(raw_scores=True, return_documents=False)["results"], scores(raw_scores=True))
            self.assertEqual(rerank("/v2/rerank", objects, model="rank", top_n=2, return_documents=True, max_tokens_per_doc=4096)["results"],
                             [{**row, "document": {"text": texts[row["index"]]}} for row in scores()[:2]])
            known = {**description["paths"]["/v2/rerank"]["post"]["requestBody"]["content"]["application/json"]["schema"], "components": description["components"]}
            for body, is_read in [({"texts": texts}, True), ({"documents": objects}, True), ({"documents": texts, "texts": None}, True), ({}, False),
                                  ({"documents": texts, "texts": texts}, False), ({"documents": texts, "max_tokens_per_doc": 128}, True)]:
                body = {"query": query, **body}
                self.assertEqual((server.status("/v2/rerank", body) == 200, jsonschema.Draft7Validator(known).is_valid(body)), (is_read, is_read), body)
            for more, words in [({"documents": []}, "documents: expected a list of strings or of objects with \"text\""), ({"documents": "x"}, "documents: expected a list"),
                                ({"documents": ["x", 1]}, "documents[1]: expected a string"), ({"documents": [{"title": "x"}]}, "documents[0].text: expected a string"),
                                ({"documents": [{"text": ""}]}, "documents[0].text: the text is empty"), ({"query": None}, "query: expected a string"),
                                ({"max_tokens_per_doc": 127}, "max_tokens_per_doc: expected a number of at least 128"), ({"max_tokens_per_doc": "4"}, "max_tokens"),
                                ({"rank_fields": ["title"]}, "rank_fields: not supported"), ({"max_chunks_per_doc": 2}, "max_chunks_per_doc: not supported"),
                                ({"return_documents": 1}, "return_documents: expected true or false"), ({"top_n": 0}, "top_n: expected a number, at least 1")]:
                for path in ("/v1/rerank", "/v2/rerank"):
                    status, _, content = server.ask(path, {"query": query, "documents": texts, **more})
                    self.assertEqual((status, words in str(content["error"])), (400, True), content)
                    self.assertEqual(jsonschema.Draft7Validator(known).is_valid({"query": query, "documents": texts, **more}), more == {"max_tokens_per_doc": 127}, more)
            status, _, content = server.ask("/v2/rerank", {"query": query, "documents": texts, "model": "kinds"})
            self.assertEqual((status, "with a single label" in content["error"]), (404, True), content)

    def test_length_of_texts(self):
        """As many tokens as the model has positions, or the tokenizer's settings say, whatever training read to save
        time."""
        shutil.copytree(MODELS / "wide", MODELS / "said")
        (MODELS / "said" / "tokenizer_config.json").write_text('{"model_max_length": 512}')
        for name, length in (("wide", 600), ("said", 512)):
            with Server("--allow_new_head", models=[name]) as server:
                self.assertEqual(server.json("/info")["max_input_length"], length)

    def test_a_missing_head_is_refused(self):
        done = subprocess.run([BERTH, "serve", "--model", str(MODELS / "wide"), "--port", "0"], capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 78)
        self.assertIn("classifier.weight", done.stderr)
        self.assertIn("`berth finetune classify`", done.stderr)

    def test_truncated_texts_are_counted(self):
        """The first is noted, then the 10th: the log must not have a line for each request."""
        long = "hello world " * 200
        with Server(models=["similar=other"]) as server:
            for count in range(1, 10):
                server.json("/", {"inputs": ["hello", long]})
                self.assertEqual(server.metric('berth_truncated_texts_total{model="similar"}'), count)
            note = "model similar: {} had more tokens than the 128 that it reads"
            self.assertEqual(server.messages().count("had more tokens"), 1)
            self.assertIn(note.format("1 text"), server.messages())
            self.assertIn("input 1 of a request to /", server.messages())
            server.json("/", {"inputs": [long, long]})
            self.assertIn(note.format("11 texts"), server.messages())

    def test_openai(self):
        texts = ["hello world", "Ada"]
        expected = embeddings_of_verb(*texts)
        found = self.server.json("/v1/embeddings", {"input": texts, "model": "similar"})
        self.assertEqual([row["embedding"] for row in found["data"]], expected)
        self.assertEqual([row["index"] for row in found["data"]], [0, 1])
        self.assertEqual(found["model"], "similar")
        self.assertEqual(found["usage"], {"prompt_tokens": 7, "total_tokens": 7})
        row = self.server.json("/v1/embeddings", {"input": texts[0], "model": "similar",
                                                  "encoding_format": "base64"})["data"][0]
        numbers = struct.unpack(f"<{len(expected[0])}f", base64.b64decode(row["embedding"], validate=True))
        self.assertEqual([float(f"{number:.9g}") for number in numbers], expected[0])
        self.refused("/v1/embeddings", {"input": "x", "model": "qa"}, "feature-extraction", 404)
        self.refused("/v1/embeddings", {"input": "x", "model": "similar", "encoding_format": "hex"}, "base64")
        for numbers in ([[1, 2]], [1, 2]):
            self.refused("/v1/embeddings", {"input": numbers, "model": "similar"},
                         "input[0]: expected a string; token ids are not supported (LangChain: check_embedding_ctx_length=False)")
        self.refused("/v1/embeddings", {"input": {"text": "x"}}, "or a list of strings")
        for user in (3, ["me"], {}, False):
            self.refused("/v1/embeddings", {"input": "x", "user": user}, "user: expected a string")
        for name, given in (("user", "me"), ("user", None), ("dimensions", None), ("encoding_format", None)):
            row, = self.server.json("/v1/embeddings", {"input": texts[0], name: given})["data"]
            self.assertEqual(row["embedding"], expected[0], name)

    def test_dimensions(self):
        """The first numbers of an embedding, of length 1 again if the whole was."""
        texts = ["hello world", "Ada lived in Oslo."]

        def ways(dimensions: int):
            rows = self.server.json("/v1/embeddings", {"input": texts, "dimensions": dimensions})["data"]
            return [[row["embedding"] for row in rows], self.server.json("/embed", {"inputs": texts, "dimensions": dimensions}),
                    self.server.json("/models/similar", {"inputs": texts, "parameters": {"dimensions": dimensions}}),
                    self.server.json("/models/similar", {"inputs": texts, "dimensions": dimensions})]
        whole = self.server.json("/models/similar", {"inputs": texts})
        for found in ways(32):  # all: clients send the number that they know
            self.assertEqual(found, whole)
        for found in ways(5):
            for row, other in zip(found, whole, strict=True):
                length = math.sqrt(sum(value * value for value in other[:5]))
                self.assertEqual(len(row), 5)
                for value, expected in zip(row, other):
                    self.assertAlmostEqual(value, expected / length, 5)
        plain, short = (self.server.json("/embed", {"inputs": texts[0], "normalize": False, **more})[0] for more in ({}, {"dimensions": 5}))
        self.assertEqual(short, plain[:5])
        row, = self.server.json("/v1/embeddings", {"input": texts[0], "dimensions": 5, "encoding_format": "base64"})["data"]
        self.assertEqual(len(base64.b64decode(row["embedding"])), 20)
        for path, name in (("/v1/embeddings", "input"), ("/embed", "inputs"), ("/models/similar", "inputs")):
            self.refused(path, {name: "x", "dimensions": 33}, "dimensions: expected 1 to 32, found 33")
            for wrong in (0, -1, 1.5, "8", True):
                self.refused(path, {name: "x", "dimensions": wrong}, "dimensions: expected a number, at least 1")
        # Requests of one batch have each their own.
        found = [None] * 12

        def ask(number: int):
            found[number] = self.server.json("/embed", {"inputs": "hello world", "dimensions": 1 + number})[0]
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(found))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([len(row) for row in found], list(range(1, 13)))

    def test_similarity(self):
        """sentence-similarity, as Hugging Face's clients and text-embeddings-inference have it: cosines."""
        source, sentences = "Ada lived in Oslo.", ["Hugo lived in Riga.", "hello", "Ada lived in Oslo."]
        body = {"inputs": {"source_sentence": source, "sentences": sentences}}
        for dimensions in (32, 5):
            one, *others = self.server.json("/embed", {"inputs": [source, *sentences], "dimensions": dimensions})
            for path in ("/models/similar", "/similarity"):
                found = self.server.json(path, {**body, "parameters": {"dimensions": dimensions, "truncate": True}})
                self.assertEqual(len(found), 3)
                for cosine, other in zip(found, others):
                    self.assertAlmostEqual(cosine, sum(a * b for a, b in zip(one, other)), 5)
        self.assertAlmostEqual(self.server.json("/similarity", {**body, "model": "similar"})[2], 1, 6)
        for inputs, words in [({"source_sentence": source}, "sentences, a list"), ({"source_sentence": source, "sentences": []}, "sentences, a list"),
                              ({"source_sentence": source, "sentences": "x"}, "sentences, a list"),
                              ({"source_sentence": 1, "sentences": ["x"]}, "inputs.source_sentence: expected a string"),
                              ({"source_sentence": source, "sentences": ["x", ""]}, "inputs.sentences[1]: the text is empty")]:
            for path in ("/models/similar", "/similarity"):
                self.refused(path, {"inputs": inputs}, words)
        for normalize in (True, False):  # which cosines do not depend on
            self.assertEqual(self.server.json("/similarity", {**body, "parameters": {"normalize": normalize}}), self.server.json("/similarity", body))
        for inputs in (source, [source], {"text": source}):
            self.refused("/similarity", {"inputs": inputs}, "expected an object with source_sentence and sentences")
        self.refused("/models/kinds", body, "inputs.text: expected a string")
        self.refused("/similarity", {**body, "model": "qa"}, "this path is for feature-extraction", 404)

    def test_texts_that_must_not_be_truncated(self):
        words = "hello world " * 63  # 126 tokens, and [CLS] and [SEP]
        for path, body in (("/embed", {}), ("/predict", {}), ("/models/similar", {}), ("/models/kinds", {})):
            self.assertEqual(self.server.json(path, {"inputs": words, "truncate": False, **body}), self.server.json(path, {"inputs": words, **body}))
            self.refused(path, {"inputs": [["x", words]] if path == "/predict" else words + "hello", "truncate": False}, "tokens, more than the 128")
            self.server.json(path, {"inputs": words + "hello", "truncate": True})
        self.refused("/models/similar", {"inputs": ["x", words + "x"], "parameters": {"truncation": False}}, "input 1: the text has 129 tokens")
        self.refused("/embed", {"inputs": "x", "truncate": 0}, "truncate: expected true or false")

    def test_text_embeddings_inference(self):
        texts = ["hello world", "Ada lived in Oslo."]
        self.assertEqual(self.server.json("/embed", {"inputs": texts}), embeddings_of_verb(*texts))
        self.assertEqual(self.server.json("/embed", {"inputs": texts[0], "truncate": True}), embeddings_of_verb(texts[0]))
        self.assertEqual(self.server.json("/embed", {"inputs": texts, "normalize": False}),
                         self.server.json("/models/similar", {"inputs": texts, "parameters": {"normalize": False}}))
        self.refused("/embed", {"inputs": []}, "inputs")
        self.refused("/embed", {"inputs": {"text": "x"}}, "or a list of strings")
        self.refused("/embed", {"inputs": texts, "normalize": 1}, "normalize")
        info = self.server.json("/info")
        self.assertEqual((info["model_id"], info["max_input_length"]), ("similar", 128))
        self.refused("/embed", {"inputs": "hello", "model": "qa"}, "is for question-answering", 404)
        self.assertEqual(info["max_batch_tokens"], 1024)  # 512 for each of the two threads
        self.assertEqual(self.server.json("/embed", {"inputs": "x", "model": None, "dimensions": None, "prompt_name": None}),
                         self.server.json("/embed", {"inputs": "x"}))
        for more, words in [({"model": 1}, "model"), ({"prompt_name": "q"}, "it has query, document"),
                            ({"truncation_direction": "Left"}, "only \"right\"")]:
            self.refused("/embed", {"inputs": "x", **more}, words)
        self.refused("/predict", {"inputs": "x", "model": "none"}, "no such model", 404)

    def test_classes(self):
        pairs = [("hello world", "x"), ("Ada lived in Oslo.", "Hugo lived in Riga.")]
        inputs = [{"text": text, "text_pair": pair} for text, pair in pairs]
        usual = self.server.json("/models/kinds", {"inputs": inputs})
        for row, expected in zip(usual, classes_of_verb(*pairs), strict=True):
            self.assertEqual([part["label"] for part in row], sorted(expected, key=expected.get, reverse=True))
            for part in row:
                self.assertAlmostEqual(part["score"], expected[part["label"]], 6)
        found = self.server.json("/models/kinds", {"inputs": inputs, "parameters": {"function_to_apply": "none"}})
        for row, expected in zip(found, usual, strict=True):
            total = sum(math.exp(part["score"]) for part in row)
            self.assertEqual([part["label"] for part in row], [part["label"] for part in expected])
            for part, other in zip(row, expected, strict=True):
                self.assertAlmostEqual(math.exp(part["score"]) / total, other["score"], 5)
        one = {"inputs": inputs[0], "parameters": {"functionToApply": "sigmoid", "topK": 1}}
        row, = self.server.json("/models/kinds", one)  # a list for one input, too: what Hugging Face's clients expect
        self.assertEqual(len(row), 1)
        self.assertAlmostEqual(row[0]["score"], 1 / (1 + math.exp(-found[0][0]["score"])), 5)
        # text-embeddings-inference: a list of two texts is a pair.
        self.assertEqual(self.server.json("/predict", {"inputs": list(pairs[0])}), usual[0])
        self.assertEqual(self.server.json("/predict", {"inputs": list(pairs[1])}), usual[1])
        self.assertEqual(self.server.json("/predict", {"inputs": [list(pair) for pair in pairs]}), usual)
        self.assertEqual([self.server.json("/predict", {"inputs": pairs[0][0]})],
                         self.server.json("/models/kinds", {"inputs": pairs[0][0]}))
        self.assertEqual(self.server.json("/predict", {"inputs": list(pairs[0]), "raw_scores": True}), found[0])
        # Candidate labels need a model of entailment.
        self.refused("/models/kinds", {"inputs": "hello", "parameters": {"candidate_labels": ["a", "b"]}}, "has no class whose name begins")
        shutil.copytree(MODELS / "kinds", MODELS / "entails")
        config = json.loads((MODELS / "entails/config.json").read_text())
        config["id2label"][max(config["id2label"])] = "entailment"
        config.pop("label2id", None)
        (MODELS / "entails/config.json").write_text(json.dumps(config))
        with Server(models=["entails=entails"]) as server:
            parameters = {"candidate_labels": ["sports", "money, and more"], "hypothesis_template": "It is {}."}
            found = server.json("/", {"inputs": "hello world", "parameters": parameters})
            many = server.json("/", {"inputs": ["hello world", "x"], "parameters": {**parameters, "multi_label": True}})
            self.assertEqual((sorted(found["labels"]), found["sequence"]), (sorted(parameters["candidate_labels"]), "hello world"))
            self.assertAlmostEqual(sum(found["scores"]), 1, 6)
            self.assertEqual([each["sequence"] for each in many], ["hello world", "x"])
            pairs = [{"text": "hello world", "text_pair": f"It is {label}."} for label in parameters["candidate_labels"]]
            logits = [{part["label"]: part["score"] for part in row}["entailment"]
                      for row in server.json("/", {"inputs": pairs, "parameters": {"function_to_apply": "none"}})]
            alike = [math.exp(logit) / sum(map(math.exp, logits)) for logit in logits]
            for label, score in zip(found["labels"], found["scores"]):
                self.assertAlmostEqual(score, alike[parameters["candidate_labels"].index(label)], 6)
        self.refused("/predict", {"inputs": [["a", "b", "c"]]}, "one text, or a pair of texts")
        self.refused("/predict", {"inputs": ["a", 1]}, "inputs[1]: expected a string")
        self.refused("/predict", {"inputs": [["a", "b"], "c"]}, "inputs[1]: expected a list")
        self.refused("/predict", {"inputs": [["a", "b"], ["a", ""]]}, "inputs[1][1]: the text is empty")
        tensors = [{"name": name, "shape": [1, 1], "datatype": "BYTES", "data": [inputs[0][name]]} for name in inputs[0]]
        outputs = self.server.json("/v2/models/kinds/infer", {"inputs": tensors})["outputs"]
        self.assertEqual(outputs[0]["data"], [usual[0][0]["label"]])
        self.assertEqual(sorted(outputs[1]["data"], reverse=True), [part["score"] for part in usual[0]])

    def test_many_classes(self):
        """All are sorted at once: one after the other they would take 15 s, in which no other request is answered."""
        table, count = MODELS / "many.csv", 60000
        table.write_text("text,label\n" + "".join(f"hello,{i}\n" for i in range(count)), encoding="utf-8")
        berth("finetune", "classify", "--model", str(MODELS / "qa"), "--train", str(table), "--text-column", "text",
              "--label_column", "label", "--max_train_samples", "1", "--max_steps", "1", "--threads", "1", "--output",
              str(MODELS / "many"), "--quiet")
        with Server(models=["many"]) as server:
            before = time.monotonic()
            row, = server.json("/models/many", {"inputs": "hello"})
            self.assertLess(time.monotonic() - before, 6)
            self.assertEqual(len({part["label"] for part in row}), count)
            scores = [part["score"] for part in row]
            self.assertEqual(scores, sorted(scores, reverse=True))
            for a, b in zip(row, row[1:]):
                self.assertTrue(a["score"] > b["score"] or int(a["label"]) < int(b["label"]))

    def test_kserve(self):
        model = self.server.json("/v2/models/qa")
        self.assertEqual([tensor["name"] for tensor in model["inputs"]], ["question", "context"])
        self.assertEqual(self.server.json("/v2/models/qa/ready"), {"name": "qa", "ready": True})
        self.refused("/v2/models/none/infer", {"inputs": []}, "no such model", 404)
        status, _, content = self.server.ask("/v2/models/none")
        self.assertEqual((status, type(content["error"])), (404, str))

        def tensor(name: str, *texts: str, **other):
            return {"name": name, "shape": [len(texts)], "datatype": "BYTES", "data": list(texts), **other}
        questions = [QUESTION, {"question": "Who lived in Riga?", "context": CONTEXT}]
        expected = [answers_of_verb(question)[0] for question in questions]
        asked, given = (tensor(name, *(question[name] for question in questions)) for name in ("question", "context"))
        found = self.server.json("/v2/models/qa/infer", {"id": "7", "inputs": [given, asked]})
        self.assertEqual((found["model_name"], found["id"]), ("qa", "7"))
        outputs = {output["name"]: output for output in found["outputs"]}
        self.assertEqual({output["name"]: (output["datatype"], len(output["shape"])) for output in model["outputs"]},
                         {name: (output["datatype"], len(output["shape"])) for name, output in outputs.items()})
        for name in ("answer", "score", "start", "end"):
            self.assertEqual(outputs[name]["data"], [answer[name] for answer in expected])
            self.assertEqual(outputs[name]["shape"], [2])
        nested = [dict(given, shape=[2, 1], data=[[text] for text in given["data"]]),  # as numpy.tolist() has them
                  dict(given, shape=[2, 1, 1], data=[[[text]] for text in given["data"]])]
        for each in nested:
            found = self.server.json("/v2/models/qa/infer", {"inputs": [each, asked]})
            self.assertEqual({output["name"]: output for output in found["outputs"]}, outputs)
        for inputs, words in [([asked, dict(given, data=nested[0]["data"])], "input context[0]: expected a string"),
                              ([asked, dict(nested[0], data=nested[1]["data"])], "input context[0]: expected a string"),
                              ([asked, dict(nested[0], data=[["a", "b"], ["c"]])], "input context[0]: expected a string"),
                              ([asked, dict(nested[0], data=[[], ["c"]])], "input context[0]: expected a string"),
                              ([asked], "missing input context"), ([asked, given, tensor("x", "y")], "unknown"),
                              ([asked, tensor("context", "x")], "expected 2 texts, found 1"),
                              ([asked, dict(given, shape=[3])], "shape"), ([asked, dict(given, shape=[2, 2])], "shape"),
                              ([asked, dict(given, shape=[-1, -2])], "shape"), ([], "missing input question"),
                              ([asked, dict(given, datatype="FP32")], "BYTES"), (1, "inputs: expected a list"),
                              ([asked, given, tensor("question", "Who?", "What?")], 'inputs[2]: duplicate name "question"'),
                              ([asked, "context"], "inputs[1]: expected an object"), ([{}], "inputs[0]: expected an object")]:
            self.refused("/v2/models/qa/infer", {"inputs": inputs}, words)
        self.refused("/v2/models/qa/infer", {"id": 7, "inputs": [given, asked]}, "id")
        # KServe's own client repeats the name of the model.
        found = self.server.json("/v2/models/qa/infer", {"inputs": [given, asked], "model": None, "model_name": "qa", "parameters": {"a": 1}})
        self.assertEqual({output["name"]: output for output in found["outputs"]}, outputs)
        for names in (["end"], ["score", "answer"]):
            found = self.server.json("/v2/models/qa/infer", {"inputs": [given, asked], "outputs": [{"name": name} for name in names]})
            self.assertEqual({output["name"]: output["data"] for output in found["outputs"]},
                             {name: outputs[name]["data"] for name in names})
        for asked_for, words in [([{"name": "other"}], "unknown"), ([{}], "outputs[0]"), (["end"], "outputs[0]"), (1, "a list"),
                                 ([{"name": "end"}, {"name": "end"}], 'duplicate name "end"')]:
            self.refused("/v2/models/qa/infer", {"inputs": [given, asked], "outputs": asked_for}, words)
        output = self.server.json("/v2/models/similar/infer", {"inputs": [tensor("text", "hello world", "Ada")]})["outputs"][0]
        self.assertEqual(output["shape"], [2, 32])
        self.assertEqual(output["data"], sum(embeddings_of_verb("hello world", "Ada"), []))

    def ask_in_binary(self, path: str, body: dict, data: bytes, length=None):
        """As tritonclient and KServe's client send tensors: after the JSON, whose length a header has."""
        start = json.dumps(body).encode()
        headers = {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(start) if length is None else length)}
        return self.server.ask(path, start + data, headers=headers)

    @staticmethod
    def binary_outputs(headers, content: bytes) -> dict:
        """The values of the tensors of a reply."""
        length = int(headers["Inference-Header-Content-Length"])
        outputs, data = json.loads(content[:length])["outputs"], content[length:]
        found = {}
        for output in outputs:
            part, data = data[:output["parameters"]["binary_data_size"]], data[output["parameters"]["binary_data_size"]:]
            if output["datatype"] == "BYTES":
                values = []
                while part:
                    end = 4 + struct.unpack("<I", part[:4])[0]
                    values.append(part[4:end].decode())
                    part = part[end:]
            else:
                kind = {"FP32": "f", "FP64": "d", "INT64": "q"}[output["datatype"]]
                values = [number for number, in struct.iter_unpack(f"<{kind}", part)]
            found[output["name"]] = values
        assert data == b"", data
        return found

    def test_kserve_binary_tensors(self):
        questions = [QUESTION, {"question": "Who lived in Riga? \u00e9", "context": CONTEXT + " \U0001d400"}]

        def tensor(name: str, size: int, **more):
            return {"name": name, "shape": [2, 1], "datatype": "BYTES", "parameters": {"binary_data_size": size}, **more}
        texts = {name: [question[name].encode() for question in questions] for name in QUESTION}
        data = {name: b"".join(struct.pack("<I", len(text)) + text for text in own) for name, own in texts.items()}
        inputs = [tensor("context", len(data["context"])), tensor("question", len(data["question"]))]
        both = data["context"] + data["question"]  # in the order of the request
        expected = {output["name"]: output["data"] for output in self.server.json("/v2/models/qa/infer", {"inputs": [
            {"name": name, "shape": [2], "datatype": "BYTES", "data": [question[name] for question in questions]}
            for name in QUESTION]})["outputs"]}
        path = "/v2/models/qa/infer"
        status, _, content = self.ask_in_binary(path, {"inputs": inputs}, both)
        self.assertEqual((status, {output["name"]: output["data"] for output in content["outputs"]}), (200, expected))
        mixed = [inputs[0], {"name": "question", "shape": [2], "datatype": "BYTES", "data": [question["question"] for question in questions]}]
        status, _, content = self.ask_in_binary(path, {"inputs": mixed}, data["context"])
        self.assertEqual((status, {output["name"]: output["data"] for output in content["outputs"]}), (200, expected))
        status, headers, content = self.ask_in_binary(path, {"inputs": inputs, "parameters": {"binary_data_output": True}}, both)
        self.assertEqual((status, headers["Content-Type"]), (200, "application/octet-stream"))
        self.assertEqual(self.binary_outputs(headers, content), expected)
        outputs = [{"name": "end", "parameters": {"binary_data": True}}, {"name": "answer", "parameters": {"binary_data": True}}]
        _, headers, content = self.server.ask(path, {"inputs": [mixed[1], {**mixed[1], "name": "context"}], "outputs": outputs})
        self.assertEqual(set(self.binary_outputs(headers, content)), {"answer", "end"})
        # An output's own parameter counts for more than the request's.
        body = {"inputs": inputs, "outputs": [{"name": "end", "parameters": {"binary_data": False}}], "parameters": {"binary_data_output": True}}
        status, headers, content = self.ask_in_binary(path, body, both)
        self.assertEqual((content["outputs"][0]["data"], headers["Inference-Header-Content-Length"]), (expected["end"], None))
        text = {"name": "text", "shape": [1], "datatype": "BYTES", "data": ["hello world"]}
        for model in ("similar", "kinds"):
            usual = self.server.json(f"/v2/models/{model}/infer", {"inputs": [text]})["outputs"]
            _, headers, content = self.server.ask(f"/v2/models/{model}/infer", {"inputs": [text], "parameters": {"binary_data_output": True}})
            for name, values in self.binary_outputs(headers, content).items():
                own = next(output["data"] for output in usual if output["name"] == name)
                self.assertEqual(values if name == "label" else [float(f"{value:.9g}") for value in values], own)

        def refused(body: dict, data: bytes, words: str, **more):
            status, _, content = self.ask_in_binary(path, body, data, **more)
            self.assertEqual((status, words in content["error"]), (400, True), content)
        for wrong in (-1, "8", len(both) + 1):
            refused({"inputs": [tensor("context", wrong), inputs[1]]}, both, "input context: binary_data_size: expected a number of bytes, at most the")
        refused({"inputs": inputs}, both + b"x", "the body has 1 bytes more")
        refused({"inputs": [tensor("context", len(data["context"]) - 1), inputs[1]]}, both[:-1], "input context: the binary data ends within")
        refused({"inputs": [tensor("context", len(data["context"]), shape=[1]), tensor("question", len(data["question"]), shape=[1])]}, both,
                "input context: the binary data continues after the 1 texts")
        refused({"inputs": [tensor("context", len(data["context"]), shape=[2, 2]), inputs[1]]}, both, "input context: the shape is not [n] or [n, 1]")
        refused({"inputs": [tensor("context", 3), inputs[1]]}, b"abc" + data["question"], "input context: the binary data ends within")
        refused({"inputs": [tensor("context", 2 ** 62), inputs[1]]}, both, "input context: binary_data_size")
        for own, words in ((b"a\0b", "input context[1]: the text contains a NUL"), (b"", "input context[1]: the text is empty"), (b"\xff", "UTF-8")):
            other = struct.pack("<I", 1) + b"a" + struct.pack("<I", len(own)) + own
            refused({"inputs": [tensor("context", len(other)), inputs[1]]}, other + data["question"], words)
        for length in (len(both) + 10000, "x", "-1", "", 10 ** 30):
            refused({"inputs": inputs}, both, "Inference-Header-Content-Length: expected the length of the JSON", length=length)
        refused({"inputs": inputs}, both, "the request: ", length=10)
        status, _, content = self.server.ask(path, json.dumps({"inputs": inputs}).encode())  # a proxy has left the header out
        self.assertEqual((status, "Inference-Header-Content-Length" in content["error"]), (400, True), content)
        self.assertEqual(self.server.json("/v2")["extensions"], ["binary_tensor_data"])
        # The header and the type mean nothing to other paths; aiohttp has the type for any body of bytes.
        status, _, content = self.ask_in_binary("/models/qa", {"inputs": QUESTION}, b"", length=1)
        self.assertEqual((status, content), (200, answers_of_verb(QUESTION)[0]))

    def test_bad_requests_among_good_ones(self):
        expected = answers_of_verb(QUESTION)[0]
        bad = {"question": "Who?", "context": "\u200b"}  # which only the model finds to be without words
        results = [None] * 40

        def ask(i: int):
            results[i] = self.server.ask("/models/qa", {"inputs": bad if i % 4 == 0 else QUESTION})
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(results))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for i, (status, _, content) in enumerate(results):
            if i % 4 == 0:
                self.assertEqual(status, 400)
            else:
                self.assertEqual((status, content), (200, expected))

    def test_health_and_metrics(self):
        self.assertEqual(self.server.json("/health"), {"status": "ok"})
        self.assertEqual(self.server.json("/v2/health/live"), {"live": True})
        self.assertEqual(self.server.json("/v2/health/ready"), {"ready": True})
        name = 'berth_requests_total{model="qa",code="%d"}'
        codes = (200, 400, 404)
        before = [self.server.metric(name % code) for code in codes]
        tokens = self.server.metric('berth_tokens_total{model="qa"}')
        self.server.ask("/models/qa", {"inputs": QUESTION})
        self.server.ask("/models/qa", {"inputs": 1})
        self.server.ask("/v1/embeddings", {"input": "x", "model": "qa"})
        self.assertEqual([self.server.metric(name % code) for code in codes], [value + 1 for value in before])
        self.assertEqual(self.server.metric(name % 500), 0)
        self.assertGreater(self.server.metric('berth_tokens_total{model="qa"}'), tokens)
        self.assertEqual(self.server.metric('berth_queue_length{model="qa"}'), 0)
        self.assertEqual(self.server.metric('berth_request_seconds_count{model="qa"}'), before[0] + 1)
        self.assertEqual(self.server.metric('berth_request_seconds_bucket{model="qa",le="+Inf"}'), before[0] + 1)
        self.assertGreater(self.server.metric("process_resident_memory_bytes"), 1e6)

    def response(self, description: dict, operation: dict, status: int) -> dict:
        """What the document says of the status."""
        self.assertIn(str(status), operation["responses"])
        found = operation["responses"][str(status)]
        for part in found.get("$ref", "").split("/")[1:]:
            description = description[part]
        return description if "$ref" in found else found

    def test_refusals_are_described(self):
        """Each path describes the refusals that a request gets before its path is looked at."""
        description = self.server.json("/openapi.json")
        wrong = [(b"Host: localhost\r\nHost: localhost\r\n\r\n", 400), (b"Host: evil.example\r\n\r\n", 403),
                 (b"Host: localhost\r\nContent-Length: 99999999\r\n\r\n", 413), (b"Host: localhost\r\n" + b"X: 1\r\n" * 101 + b"\r\n", 431),
                 (b"Host: localhost\r\nTransfer-Encoding: other\r\n\r\n", 501)]
        for path, methods in description["paths"].items():
            for method, operation in methods.items():
                line = f"{method.upper()} {path.replace('{name}', 'qa')}".encode()
                for request, status in [(line + b" HTTP/1.1\r\n" + rest, status) for rest, status in wrong] + [
                        (line + b"?" + b"a" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414)]:
                    reply = self.server.raw(request)
                    self.assertEqual(int(reply[9:12]), status, reply[:300])
                    schema = self.response(description, operation, status)["content"]["application/json"]["schema"]
                    jsonschema.Draft7Validator({**schema, "components": description["components"]}).validate(
                        json.loads(reply.partition(b"\r\n\r\n")[2]))

    def test_description(self):
        """openapi.json names every path, and what comes back is as it says."""
        description = self.server.json("/openapi.json")
        self.assertEqual(description["info"]["title"], "Berth")
        paths = description["paths"]
        rows = re.findall(r'\{"(GET|POST)", "(/[^"]*)"', (SOURCE / "serve/routes.c").read_text(encoding="utf-8"))
        self.assertGreater(len(rows), 15)
        self.assertEqual(sorted((method.lower(), path.replace("*", "{name}")) for method, path in rows),
                         sorted((method, path) for path, methods in paths.items() for method in methods))
        tensor = {"name": "text", "shape": [1], "datatype": "BYTES", "data": ["hello"]}
        bodies = {"/models/{name}": [{"inputs": "hello"}, {}], "/v1/embeddings": [{"input": "hello", "model": "similar"}, {}],
                  "/embed": [{"inputs": ["hello"]}, {}], "/predict": [{"inputs": "hello"}, {}], "/rerank": [{}], "/v1/rerank": [{}], "/v2/rerank": [{}],
                  "/similarity": [{"inputs": {"source_sentence": "hello", "sentences": ["x"]}}, {}],
                  "/v2/models/{name}/infer": [{"inputs": [tensor]}, {}], "/": [{"inputs": QUESTION}], "/reload": [{}]}
        seen = set()
        for path, methods in paths.items():
            for method, operation in methods.items():
                for body in bodies.get(path, [None]) if method == "post" else [None]:
                    for name in ("similar", "none") if "{name}" in path else ("",):
                        status, headers, content = self.server.ask(path.replace("{name}", name), body, method=method.upper())
                        content_types = self.response(description, operation, status)["content"]
                        kind = headers["Content-Type"].partition(";")[0]
                        self.assertIn(kind, content_types, path)
                        if kind == "application/json":
                            schema = {**content_types[kind]["schema"], "components": description["components"]}
                            jsonschema.Draft7Validator(schema).validate(content)
                        seen.add((path, status))
        self.assertGreater(len(seen), 25)
        for path in ("/models/{name}", "/v1/embeddings", "/embed", "/predict", "/v2/models/{name}/infer"):
            self.assertIn((path, 200), seen)

    def test_description_is_what_generators_understand(self):
        """Such as openapi-python-client: references to whole schemas, enumerations of texts, no schema that is just true or false."""
        def check(node, within: str):
            for key, value in node.items() if isinstance(node, dict) else enumerate(node):
                if within == "properties":
                    self.assertIsInstance(value, dict, key)
                elif key == "$ref":
                    self.assertRegex(value, r"^#/components/(schemas|responses)/\w+$")
                elif key == "enum":
                    self.assertLessEqual({type(each) for each in value}, {str, type(None)}, value)
                if isinstance(value, (dict, list)):
                    check(value, str(key))
        check(self.server.json("/openapi.json"), "")

    def test_requests_are_described(self):
        """openapi.json accepts and refuses what the server does, as far as a schema can say it."""
        description = self.server.json("/openapi.json")
        schemas = description["components"]["schemas"]
        table = (SOURCE / "serve/members.c").read_text(encoding="utf-8").partition("rows[] = {")[2].partition("};")[0]
        names = {name for row in re.findall(r'\{"([\w ]+)", HUGGING_FACE', table) for name in row.split()}
        self.assertEqual(set(schemas["Parameters"]["properties"]), names)
        self.assertLessEqual(names, set(schemas["Inference"]["properties"]))
        embed, tensor = {"inputs": "hello"}, {"name": "text", "shape": [1], "datatype": "BYTES", "data": ["hello"]}
        for path, body, more, is_read in [
                ("/embed", embed, {}, True), ("/embed", embed, {"colour": 1}, True), ("/embed", embed, {"model": None}, True),
                ("/embed", embed, {"truncation_direction": "Right"}, True), ("/embed", embed, {"truncation_direction": "left"}, False),
                ("/embed", embed, {"prompt_name": None, "dimensions": None}, True), ("/embed", embed, {"prompt_name": 1}, False),
                ("/embed", embed, {"dimensions": 3, "truncate": False}, True), ("/embed", embed, {"dimensions": 0}, False),
                ("/v1/embeddings", {"input": "x"}, {"dimensions": 3}, True), ("/v1/embeddings", {"input": "x"}, {"dimensions": 0}, False),
                ("/v2/models/similar/infer", {"inputs": [tensor]}, {"model_name": "similar"}, True),
                ("/embed", {"inputs": ["a", " "]}, {}, True), ("/embed", {"inputs": ["a", ""]}, {}, False),
                ("/predict", embed, {"colour": 1}, True), ("/predict", embed, {"truncation_direction": "Left"}, False),
                ("/predict", embed, {"model": None, "truncation_direction": "right", "raw_scores": None}, True),
                ("/v1/embeddings", {"input": "x"}, {"model": None}, True), ("/v1/embeddings", {"input": "x"}, {"normalize": 1}, True),
                ("/v2/models/similar/infer", {"inputs": [tensor]}, {"parameters": {"a": 1}, "id": None, "outputs": None}, True),
                ("/v2/models/similar/infer", {"inputs": [tensor]}, {"colour": 1}, True),
                ("/v2/models/similar/versions/1/infer", {"inputs": [tensor]}, {}, True),
                ("/models/qa", {"inputs": QUESTION}, {"parameters": {"topK": 2, "docStride": 128}, "options": {}, "model": None}, True),
                ("/models/qa", {"inputs": QUESTION}, {"topk": 2, "maxAnswerLen": 3, "parameters": None}, True),
                ("/models/qa", {"inputs": QUESTION}, {"parameters": {"colour": 1}}, True), ("/models/qa", {"inputs": {**QUESTION, "colour": 1}}, {}, True),
                ("/models/qa", {"inputs": QUESTION}, {"parameters": {"topK": 101}}, False),
                ("/models/qa", {"inputs": QUESTION}, {"colour": 1}, True), ("/models/qa", {"inputs": QUESTION}, {"context": "x"}, True),
                ("/models/qa", QUESTION, {"top_k": 2, "inputs": None}, True), ("/models/qa", {"question": "Who?"}, {}, False),
                ("/models/qa", QUESTION, {"inputs": None, "context": None}, False), ("/models/similar", {"inputs": "a"}, {"prompt_name": 1}, False),
                ("/models/similar", {"text": "hello"}, {"truncation_direction": "RIGHT", "truncation": True}, True),
                ("/models/kinds", {"text": "hello"}, {"text_pair": "x", "truncate": None}, True),
                ("/models/similar", {"text": "hello"}, {"dimensions": 2}, True), ("/models/similar", {"text": "hello"}, {"dimensions": 0}, False),
                ("/models/kinds", {"text": "hello"}, {"truncate": False}, True), ("/models/kinds", {"text": "hello"}, {"truncate": 1}, False)]:
            operation = description["paths"][re.sub("models/[a-z]+", "models/{name}", path)]["post"]
            schema = {**operation["requestBody"]["content"]["application/json"]["schema"], "components": description["components"]}
            self.assertEqual(self.server.status(path, {**body, **more}), 200 if is_read else 400, (path, more))
            self.assertEqual(jsonschema.Draft7Validator(schema).is_valid({**body, **more}), is_read, (path, more))

    @unittest.skipUnless(shutil.which("promtool"), "needs promtool (Debian: prometheus)")
    def test_metrics_are_what_prometheus_expects(self):
        done = subprocess.run(["promtool", "check", "metrics"], input=self.server.ask("/metrics")[2], capture_output=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"", b""))


class Words(unittest.TestCase):
    """Labels of words and words for [MASK], as transformers' pipelines give them (tests/golden/README.md)."""
    GOLDEN = SOURCE / "tests/golden"

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--precision", "fp32", models=[f"tags={cls.GOLDEN}/tags", f"masks={cls.GOLDEN}/fill"])
        cls.addClassCleanup(cls.server.__exit__, None, None, None)
        cls.tags, cls.words = (json.loads((cls.GOLDEN / name).read_text(encoding="utf-8"))
                               for name in ("tags/tags.json", "fill/fill.json"))

    refused = Answers.refused

    def same(self, found: list, expected: list, text: str):
        """Equal but for the scores' last digits; words are the text's own characters, not the tokenizer's."""
        self.assertEqual(len(found), len(expected))
        for own, other in zip(found, expected):
            self.assertEqual(set(own), set(other) - {"index"})
            self.assertAlmostEqual(own["score"], other["score"], 4)
            for key in set(own) - {"score", "word"}:
                self.assertEqual(own[key], other[key], (key, text))
            if "word" in own:
                self.assertEqual(own["word"], text[own["start"]:own["end"]])

    def test_entities(self):
        for row in self.tags:
            found = self.server.json("/models/tags", {"inputs": row["text"]})
            self.same(found, row["first"], row["text"])
            for strategy in ("first", "simple"):
                parameters = {"aggregation_strategy": strategy}
                self.assertEqual(self.server.json("/models/tags", {"inputs": row["text"], "parameters": parameters}), found)
        many = self.server.json("/models/tags", {"inputs": [{"text": row["text"]} for row in self.tags]})
        for row, found in zip(self.tags, many, strict=True):
            self.same(found, row["first"], row["text"])
        self.assertGreater(len({entity["entity_group"] for found in many for entity in found}), 1)

    def test_words_with_labels(self):
        for row in self.tags:
            found = self.server.json("/models/tags", {"inputs": row["text"], "parameters": {"aggregationStrategy": "none"}})
            # The pipeline lists the first pieces of words, which end before them.
            firsts = [{**word, "end": own["end"]} for own, word in zip(found, row["none"], strict=True)]
            self.assertEqual([word["start"] for word in found], [word["start"] for word in row["none"]])
            self.same(found, firsts, row["text"])

    def test_long_text_is_read_in_windows(self):
        text = " ".join(row["text"] for row in self.tags for _ in range(5))
        found = self.server.json("/models/tags", {"inputs": text})
        self.assertGreater(found[-1]["end"], len(text) - 10)
        for entity in found:
            self.assertEqual(entity["word"], text[entity["start"]:entity["end"]])

    def test_offsets_of_entities(self):
        text = self.tags[1]["text"]
        encoded = {"utf16": (text.encode("utf-16-le"), 2, "utf-16-le"), "bytes": (text.encode(), 1, "utf-8")}
        for unit, (data, width, encoding) in encoded.items():
            found = self.server.json("/models/tags", {"inputs": text, "parameters": {"offset_unit": unit}})
            self.assertEqual([data[entity["start"] * width:entity["end"] * width].decode(encoding) for entity in found],
                             [entity["word"] for entity in found])

    def test_strategies_and_labels(self):
        for row in self.tags:
            for strategy in ("average", "max"):
                found = self.server.json("/models/tags", {"inputs": row["text"], "parameters": {"aggregation_strategy": strategy}})
                self.same(found, row[strategy], row["text"])
            for case in row["ignored"]:
                for labels in (case["labels"], ",".join(case["labels"])):
                    found = self.server.json("/models/tags", {"inputs": row["text"], "parameters": {"ignoreLabels": labels}})
                    self.same(found, case["found"], row["text"])

    def test_targets(self):
        for row in self.words:
            found = self.server.json("/models/masks", {"inputs": row["text"], "parameters": {"targets": row["targets"], "top_k": 4}})
            for own, other in zip(*((found, row["among"]) if isinstance(found[0], list) else ([found], [row["among"]])), strict=True):
                self.same(own, other, row["text"])

    def test_words_for_masks(self):
        parameters = {"top_k": 4}
        for row in self.words:
            found = self.server.json("/models/masks", {"inputs": row["text"], "parameters": parameters})
            several = isinstance(row["found"][0], list)
            verb = berth("fill", "--model", str(self.GOLDEN / "fill"), "--top_k", "4", "--text", row["text"], "--quiet")
            for expected in (row["found"], json.loads(verb)):
                lists = (found, expected) if several else ([found], [expected])
                for own, other in zip(*lists, strict=True):
                    self.same(own, other, row["text"])
        many = self.server.json("/models/masks", {"inputs": [row["text"] for row in self.words], "parameters": parameters})
        self.assertEqual([row[0] if isinstance(row[0], list) else row for row in many],
                         [row[0] if isinstance(row[0], list) else row
                          for row in (self.server.json("/models/masks", {"inputs": row["text"], "parameters": parameters})
                                      for row in self.words)])
        self.assertEqual(len(self.server.json("/models/masks", {"inputs": self.words[0]["text"]})), 5)

    def test_requests_that_are_wrong(self):
        self.refused("/models/masks", {"inputs": "the dog"}, "no [MASK]")
        self.refused("/models/masks", {"inputs": ["[MASK]", "the dog"]}, "input 1")
        self.refused("/models/masks", {"inputs": "[MASK]" * 9, "parameters": {"targets": 7}}, "parameters.targets: expected a string or a list")
        self.refused("/models/masks", {"inputs": "[MASK]", "parameters": {"targets": ["zebra"]}}, "zebra")
        self.refused("/models/masks", {"inputs": ["a" * 40000 + "[MASK]" * 50], "parameters": {"top_k": 10}}, "16 MiB")
        self.refused("/models/tags", {"inputs": "dog", "parameters": {"aggregation_strategy": "sum"}}, '"average", "max" or "none"')
        self.refused("/models/tags", {"inputs": "dog", "parameters": {"stride": 1}}, "parameters.stride: not supported")
        self.refused("/models/tags", {"inputs": "dog", "parameters": {"ignore_labels": 1}}, "expected a string or a list")
        self.refused("/models/tags", {"inputs": "dog", "parameters": {"ignore_labels": [1]}}, "ignore_labels: element 0: expected a text")

    def test_requests_in_one_batch(self):
        """Different numbers of words, and requests that fail: each alone."""
        bodies = [{"inputs": self.words[0]["text"], "parameters": {"top_k": top}} for top in (1, 2, 3)] * 4
        expected = [self.server.json("/models/masks", body) for body in bodies[:3]] * 4
        wrong = [({"inputs": "dog"}, "no [MASK]")]
        wrong += 4 * [({"inputs": self.words[0]["text"], "parameters": {"top_k": 99}}, "top_k: expected 1 to 37, found 99")]
        bodies += [body for body, _ in wrong]
        found = [None] * len(bodies)

        def ask(number: int):
            found[number] = self.server.ask("/models/masks", bodies[number])
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(bodies))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for _, message in reversed(wrong):
            status, _, content = found.pop()
            self.assertEqual((status, message in content["error"]["message"]), (400, True), content)
        self.assertEqual([status for status, _, _ in found], [200] * len(found))
        self.assertEqual([[word["token"] for word in content] for _, _, content in found],
                         [[word["token"] for word in content] for content in expected])

    def test_kserve_has_the_results_as_json(self):
        text = self.tags[0]["text"]
        for name, own in (("tags", text), ("masks", self.words[0]["text"])):
            tensor = {"name": "text", "shape": [1], "datatype": "BYTES", "data": [own]}
            output, = self.server.json(f"/v2/models/{name}/infer", {"inputs": [tensor]})["outputs"]
            self.assertEqual((output["shape"], output["datatype"]), ([1], "BYTES"))
            self.assertEqual(json.loads(output["data"][0]), self.server.json(f"/models/{name}", {"inputs": own}))

    def test_tasks(self):
        models = self.server.json("/v1/models")["data"]
        self.assertEqual([model["task"] for model in models], ["token-classification", "fill-mask"])


class OneModel(unittest.TestCase):
    def test_paths_of_other_tasks(self):
        with Server(models=["qa=qa"]) as server:
            self.assertEqual(server.json("/", {"inputs": QUESTION}), answers_of_verb(QUESTION)[0])
            for path, body, task in (("/embed", {"inputs": "x"}, "feature-extraction"), ("/predict", {"inputs": "x"}, "text-classification"),
                                     ("/v1/embeddings", {"input": "x"}, "feature-extraction")):
                status, _, content = server.ask(path, body)
                words = f"this path is for {task}, but no model has that task"
                self.assertEqual((status, words in content["error"]["message"]), (404, True), content)


class Int8(unittest.TestCase):
    """Weights in int8: the results of the verbs with the same option, which are not those without it."""
    OPTIONS = ("--precision", "int8")

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.OPTIONS, models=["qa=qa", "similar=other", "kinds=kinds"])
        cls.addClassCleanup(cls.server.__exit__, None, None, None)

    def test_questions(self):
        found = self.server.json("/models/qa", {"inputs": QUESTION, "parameters": {"top_k": 3}})
        self.assertEqual(found, answers_of_verb(QUESTION, 3, *self.OPTIONS))
        self.assertNotEqual(found, answers_of_verb(QUESTION, 3))

    def test_embeddings(self):
        texts = ["hello world", "Ada lived in Oslo."]
        found = self.server.json("/models/similar", {"inputs": texts})
        self.assertEqual(found, embeddings_of_verb(*texts, options=self.OPTIONS))
        self.assertNotEqual(found, embeddings_of_verb(*texts))

    def test_classes(self):
        pair = ("hello world", "x")
        found = self.server.json("/models/kinds", {"inputs": [{"text": pair[0], "text_pair": pair[1]}]})[0]
        expected = classes_of_verb(pair, options=self.OPTIONS)[0]
        self.assertEqual({part["label"] for part in found}, set(expected))
        for part in found:
            self.assertAlmostEqual(part["score"], expected[part["label"]], 6)
        self.assertTrue(any(abs(expected[label] - score) > 1e-6 for label, score in classes_of_verb(pair)[0].items()))


class Damaged(unittest.TestCase):
    def test_message_has_the_question(self):
        """Of several questions, and of those in one batch, it is the one that the reader knows."""
        folder = MODELS / "nan"
        shutil.copytree(MODELS / "qa", folder)
        for i in range(2):
            tensor_file.set_number(folder / "model.safetensors", "qa_outputs.bias", math.nan, i)
        with Server(models=["nan"]) as server:
            status, _, content = server.ask("/", {"inputs": [QUESTION]})
            self.assertEqual(status, 500)
            self.assertIn(f'input 0: question "{QUESTION["question"]}": the start logit of token 0 is not a finite number',
                          content["error"]["message"])


class FileOfWeights(unittest.TestCase):
    """In place of a folder; what the model does is said by the files beside it."""

    def test_answers_as_its_folder(self):
        names = ("qa", "kinds", "other")
        with Server(models=[*(f"{name}={name}" for name in names),
                            *(f"{name}-file={name}/model.safetensors" for name in names)]) as server:
            for name in names:
                body = {"inputs": QUESTION if name == "qa" else "hello world"}
                self.assertEqual(server.json(f"/models/{name}-file", body), server.json(f"/models/{name}", body))


class NoAnswer(unittest.TestCase):
    """The model of random weights prefers "no answer" at a low threshold."""

    def test_no_answer(self):
        with Server("--version_2_with_negative", "--null_score_diff_threshold", "-1000", models=["qa=qa"]) as server:
            self.assertEqual(server.json("/", {"inputs": QUESTION})["answer"], "")
            self.assertEqual({key: server.json("/", {"inputs": QUESTION})[key] for key in ("start", "end")},
                             {"start": 0, "end": 0})
            found = server.json("/", {"inputs": QUESTION, "parameters": {"handleImpossibleAnswer": False, "topK": 3}})
            self.assertEqual(len(found), 3)
            self.assertTrue(all(answer["answer"] for answer in found))


if __name__ == "__main__":
    print(BERTH)
    unittest.main()
