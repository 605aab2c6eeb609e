# SPDX-License-Identifier: Apache-2.0
"""Small valid files of every kind that Berth reads, and ways to call its verbs on them: what dev/mutate-files
and dev/fail-calls share."""
import bz2
import collections
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOOD_CODES = {0, 1, 2, 65, 66, 69, 73, 74, 78}
REPORTS = (b"AddressSanitizer", b"LeakSanitizer", b"runtime error:", b"UndefinedBehaviorSanitizer")

# --- good files ---------------------------------------------------------------------------------------------

CONFIG = {"vocab_size": 128, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
          "intermediate_size": 16, "max_position_embeddings": 64, "type_vocab_size": 2, "hidden_act": "gelu",
          "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "layer_norm_eps": 1e-12,
          "initializer_range": 0.02, "model_type": "bert"}
WORDS = "the in lived where did who ada hugo olga rita oslo riga bern rome hello world".split()


def vocabulary():
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *".,?!'-()0123456789"]
    for letter in "abcdefghijklmnopqrstuvwxyz":
        pieces += [letter, "##" + letter]
    return "".join(piece + "\n" for piece in pieces + WORDS)


def squad():
    context = "Ada lived in Oslo. Hugo lived in Riga."
    questions = [("q1", "Where did Ada live?", "Oslo"), ("q2", "Who lived in Riga?", "Hugo")]
    return {"version": "1.1", "data": [{"title": "Homes", "paragraphs": [{"context": context, "qas": [
        {"id": name, "question": text, "answers": [{"text": answer, "answer_start": context.index(answer)}]}
        for name, text, answer in questions]}]}]}


def wikitext():
    return ("'''Ada''' (born [[1815]]) lived in [[Oslo|the town]]. {{Infobox|a=1|b={{c}}}} <ref>x</ref>\n"
            "== Life ==\n* one\n* two\n{| class=x\n|-\n| a || b\n|}\n<!-- no --> [[File:x.jpg|thumb|[[y]]]] &amp; "
            "<math>x</math> It was ''good''. [http://x.org it]\n")


def dump():
    page = ("<page><title>T%d</title><ns>0</ns><id>%d</id><revision><id>9</id><text>%s</text></revision></page>\n")
    text = wikitext().replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return ("<mediawiki><siteinfo><base>https://x.org/wiki/Main</base><namespaces><namespace key=\"6\">File"
            "</namespace></namespaces></siteinfo>\n" + "".join(page % (i, i, text) for i in range(1, 4)) +
            "</mediawiki>\n")


def run_berth(program, *words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(f"cannot make the good files: berth {' '.join(map(str, words))}: {done.stderr.decode()[-500:]}")


def first(folder, pattern):
    return sorted(folder.glob(pattern))[0]


def make_good(program, good):
    """Everything that a kind's verb reads, in one folder."""
    good.mkdir()
    def write(name, content):
        path = good / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    write("init.json", json.dumps(CONFIG))
    write("squad.json", json.dumps(squad()))
    write("flat.jsonl", "".join(json.dumps({"id": str(i), "title": "t", "context": "Ada lived in Oslo.", "question": "Who?",
                                            "answers": {"text": ["Ada"], "answer_start": [0]}}) + "\n" for i in range(3)))
    write("answers.json", json.dumps({"q1": "Oslo", "q2": "Hugo"}))
    second = squad()
    second["data"][0]["paragraphs"][0]["qas"][1].update(is_impossible=True, answers=[])
    write("squad2.json", json.dumps(second))
    write("odds.json", json.dumps({"q1": 0.1, "q2": 0.9}))
    write("table.tsv", "text\tlabel\nAda lived\tyes\nHugo lived\tno\nOlga\tyes\n")
    write("table.csv", "text,label\n\"Ada, lived\",yes\nHugo,no\n\"a \"\"b\"\"\",yes\n")
    write("table.jsonl", '{"text": "Ada", "label": "yes"}\n{"text": "Hugo", "label": "no"}\n')
    write("deepspeed.json", json.dumps({"train_batch_size": 2, "optimizer": {"type": "Adam", "params": {
        "lr": 1e-4, "betas": [0.9, 0.99], "eps": 1e-8, "weight_decay": 0.01}}, "gradient_clipping": 1.0,
        "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 1}}, "fp16": {"enabled": False}}))
    write("dump.xml", dump())
    write("dump16.xml", dump().encode("utf-16"))
    write("dump.xml.bz2", bz2.compress(dump().encode()))
    write("text.txt", "Bern is the capital. The river is one of two.\n\nA town. Two towns.\n\n" * 6)
    write("extracted/AA/wiki_00", "".join(f'<doc id="{i}" url="x?curid={i}" title="T">\nT\n\nAda lived. In Oslo.\n\n</doc>\n'
                                          for i in range(8)))
    run_berth(program, "init", "--config", good / "init.json", "--output", good / "model", "--seed", 7, "--quiet")
    write("model/vocab.txt", vocabulary())
    write("vocab.txt", vocabulary())
    write("model/tokenizer_config.json", json.dumps({"do_lower_case": True, "strip_accents": None, "model_max_length": 64}))
    write("model/modules.json", json.dumps([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                                            {"idx": 1, "name": "1", "path": "1_Pooling",
                                             "type": "sentence_transformers.models.Pooling"}]))
    write("model/1_Pooling/config.json", json.dumps({"word_embedding_dimension": 8, "pooling_mode_mean_tokens": True}))
    write("model/sentence_bert_config.json", json.dumps({"max_seq_length": 32, "do_lower_case": False}))
    write("model/config_sentence_transformers.json", json.dumps({"prompts": {"query": "query: "},
                                                                "default_prompt_name": "query"}))
    write("tokenizer.json", json.dumps({"version": "1.0", "added_tokens": [], "normalizer": {
        "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
        "lowercase": True}, "pre_tokenizer": {"type": "BertPreTokenizer"}, "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": {piece: i for i, piece in enumerate(vocabulary().split("\n")[:-1])}}}))
    shutil.copytree(good / "model", good / "fast")
    shutil.move(good / "tokenizer.json", good / "fast/tokenizer.json")
    run_berth(program, "convert", good / "model", good / "tf", "--to", "tensorflow")
    run_berth(program, "convert", good / "model", good / "torch", "--to", "torch")
    train = ["--model", good / "model", "--train", good / "squad.json", "--max_seq_length", 32, "--threads", 1]
    run_berth(program, "finetune", "squad", *train, "--output", good / "run", "--max_steps", 2, "--save_steps", 1,
              "--train_batch_size", 2, "--quiet")
    common = ["--vocab", good / "vocab.txt", "--max_seq_length", 16, "--max_predictions_per_seq", 3, "--threads", 1]
    run_berth(program, "prepare", "--text", good / "text.txt", *common, "--output", good / "records", "--format", "tfrecord",
              "--shards", 1, "--quiet")
    run_berth(program, "prepare", "--text", good / "text.txt", *common, "--output", good / "shards", "--pack", "--shards", 1,
              "--quiet")
    theirs = pathlib.Path(program).parent / "tests/format/data"  # which the build unpacks
    for name in ("deepspeed", "nvidia", "tensorflow"):
        shutil.copytree(theirs / name, good / name)
    shutil.copytree(ROOT / "tests/data/pretraining", good / "pretraining")
    for name in ("trainer.pt", "trainer_legacy.pt", "alone.pt", "reference.safetensors"):
        shutil.copy(theirs / name, good / name)
    shards = json.loads((good / "model/config.json").read_text())
    split = good / "split"
    shutil.copytree(good / "model", split)
    (split / "model.safetensors").rename(split / "model-00001-of-00001.safetensors")
    head = (split / "model-00001-of-00001.safetensors").read_bytes()
    names = json.loads(head[8:8 + int.from_bytes(head[:8], "little")])
    write("split/model.safetensors.index.json", json.dumps({"metadata": {"total_size": shards["hidden_size"]}, "weight_map": {
        name: "model-00001-of-00001.safetensors" for name in names if name != "__metadata__"}}))


# --- calls --------------------------------------------------------------------------------------------------


def environment(megabytes):
    sanitizer = f"exitcode=99:hard_rss_limit_mb={megabytes}:detect_stack_use_after_return=0:quarantine_size_mb=64"
    return dict(os.environ, ASAN_OPTIONS=sanitizer, UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:exitcode=99",
                OMP_WAIT_POLICY="passive", HF_HUB_OFFLINE="1", NO_COLOR="1")


class Processes:
    """Calls each verb as a process of its own."""

    def __init__(self, options, _):
        self.program, self.seconds = f"{options.build}/berth", options.seconds
        self.environment = environment(options.megabytes)

    def call(self, words):
        """The exit code, or what replaced it, and the output."""
        try:
            done = subprocess.run([self.program, *words], capture_output=True, env=self.environment, check=False,
                                  stdin=subprocess.DEVNULL, timeout=self.seconds)
        except subprocess.TimeoutExpired as late:
            return f"more than {self.seconds} s", late.stderr or b""
        return done.returncode, done.stderr

    def left_something(self):
        return False # each process looked for itself

    def stop(self):
        pass # each has ended


class OneProcess:
    """Calls the verbs in a process that lasts; one that ended is started again."""

    def __init__(self, options, folder):
        self.program, self.seconds = f"{options.build}/tests/fuzz/run_verbs", options.seconds
        self.environment = environment(options.megabytes)
        self.said = folder / "said"
        self.process = None

    def start(self):
        with open(self.said, "wb") as said:
            self.process = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said,
                                            env=self.environment)

    def ask(self, words):
        if self.process is None:
            self.start()
        self.process.stdin.write("\t".join(words).encode() + b"\n")
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], self.seconds)[0]:
            self.process.kill()
            self.stop()
            return f"more than {self.seconds} s"
        answer = self.process.stdout.readline().split()
        if answer:
            self.counts = [int(number) for number in answer[1:]] # of allocations, and of calls for files
            return int(answer[0])
        code = self.stop()
        return f"the process ended, exit code {code}" if code in GOOD_CODES else code

    def call(self, words):
        """The exit code, or what replaced it, and the output."""
        code = self.ask(words)
        return code, self.said.read_bytes()

    def left_something(self):
        lost = self.ask([]) != 0
        if lost:
            self.stop() # otherwise it would report the same again
        return lost

    def stop(self):
        if self.process is None:
            return 0
        process, self.process = self.process, None
        process.stdin.close()
        process.stdout.close()
        return process.wait()
