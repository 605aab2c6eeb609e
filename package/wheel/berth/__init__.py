# SPDX-License-Identifier: Apache-2.0
"""Berth from Python: BERT in memory, and training, through the C library that comes with this package.

    import berth

    model = berth.open("squad-minilm")
    model.answer("Where do I live?", "I live in Bern.").text     # 'Bern'
    model.embed(["I live in Bern.", "Ich wohne in Bern."])       # [texts, size]
    berth.open("minilm").train("classify", [("lovely", "good"), ("awful", "bad")]).save("out")
    berth.train({"model": "minilm", "train_file": "train.json", "output_dir": "out"}, task="answer")

The methods of a model are the rows of the library's table of tasks (`tasks()`), and settings have the names of the options
of `berth` (`options()` lists them). Numbers are NumPy arrays; without NumPy those of module array, and a matrix is a list
of them. Other threads of Python go on while the library computes, and threads may share a model. Errors are berth.Error,
and those of Python for what is no text or number; warnings are Python's (module warnings), unless a `log` takes all
records.

Leaves out what has no numbers for Python: the program that comes with this package has all verbs.
"""
import array
import contextlib
import ctypes
import functools
import json
import operator
import os
import pathlib
import signal
import sys
import threading
import warnings
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_double, c_float, c_int, c_int64, c_size_t, c_void_p
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]

__all__ = ["Answer", "Error", "Model", "Tensor", "Tokens", "open", "options", "pipeline", "tasks", "train", "version"]


class Error(Exception):
    """What the library refused or could not do. `status` is the exit code that the program has for it; `input` is the
    text that it is about, from 0, or -1."""

    def __init__(self, status: int, message: str, input: int = -1):
        super().__init__(message)
        self.status, self.input = status, input

    def __reduce__(self):  # pickle's own way leaves out the status; a multiprocessing.Pool then waits for ever
        return Error, (self.status, str(self), self.input)


# --- the library's structs and functions ---------------------------------------------------------

def _struct(name: str, *fields) -> type:
    return type(name, (Structure,), {"_fields_": list(fields)})


_Error = _struct("_Error", ("status", c_int), ("input", c_int64), ("message", c_char * 1008))
_Field = _struct("_Field", ("key", c_char_p), ("type", c_int), ("integer", c_int64), ("real", c_double), ("text", c_char_p))
_Record = _struct("_Record", ("kind", c_int), ("text", c_char_p), ("fields", POINTER(_Field)), ("field_count", c_size_t))
_See = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(_Record))
_Watch = _struct("_Watch", ("see", _See), ("context", c_void_p))
_Text = _struct("_Text", ("text", c_char_p), ("pair", c_char_p), ("label", c_char_p), ("start", c_int64),
                ("more", POINTER(c_char_p)), ("more_count", c_size_t), ("reserved", c_void_p * 2))
_Item = _struct("_Item", ("text", c_char_p), ("score", c_double), ("start", c_int64), ("end", c_int64), ("id", c_int64),
                ("group", c_int64), ("reserved", c_void_p * 2))
_Outcome = _struct("_Outcome", ("status", c_int), ("message", c_char_p), ("tokens", c_int64), ("truncated", c_int))
_Tensor = _struct("_Tensor", ("name", c_char_p), ("dtype", c_char_p), ("shape", c_int64 * 8), ("rank", c_size_t),
                  ("bytes", c_size_t))
_Task = _struct("_Task", *((key, c_char_p) for key in ("name", "pipeline", "text", "pair", "label", "more")),
                *((key, c_int) for key in ("needs_pair", "has_items", "has_rows", "trains")), ("help", c_char_p))
_Option = _struct("_Option", *((key, c_char_p) for key in ("name", "aliases", "uses", "type", "value", "choices")),
                  ("minimum", c_double), ("maximum", c_double),
                  *((key, c_char_p) for key in ("help", "group", "only_with")))
_TAIL = [POINTER(c_char_p), POINTER(_Watch), POINTER(_Error)]  # settings, watch, error
_SIGNATURES = {  # name: what it returns, what it takes
    "version": (c_char_p, []),
    "open": (c_void_p, [c_char_p, *_TAIL]),
    "close": (None, [c_void_p]),
    "save": (c_int, [c_void_p, c_char_p, c_char_p, *_TAIL]),
    "model_text": (c_char_p, [c_void_p, c_char_p]),
    "model_number": (c_double, [c_void_p, c_char_p]),
    "model_label": (c_char_p, [c_void_p, c_size_t]),
    "model_tensor": (POINTER(_Tensor), [c_void_p, c_size_t]),
    "run": (c_void_p, [c_void_p, c_char_p, POINTER(_Text), c_size_t, *_TAIL]),
    "result_free": (None, [c_void_p]),
    "result_items": (POINTER(_Item), [c_void_p, c_size_t, POINTER(c_size_t)]),
    "result_rows": (POINTER(c_float), [c_void_p, c_size_t, POINTER(c_size_t), POINTER(c_size_t)]),
    "result_outcome": (POINTER(_Outcome), [c_void_p, c_size_t]),
    "result_text": (c_char_p, [c_void_p, c_size_t]),
    "train": (c_void_p, [c_void_p, c_char_p, POINTER(_Text), c_size_t, POINTER(_Text), c_size_t, *_TAIL]),
    "job": (c_void_p, [c_char_p, *_TAIL]),
    "task_at": (POINTER(_Task), [c_size_t]),
    "option_at": (POINTER(_Option), [c_size_t]),
}
_CONTINUE, _FINISH, _SUSPEND, _CANCEL = range(4)  # enum berth_wish
_INTERRUPTED = 75
_SONAME = "libberth.so.1"  # of the version whose structs are above


@contextlib.contextmanager
def _spinning_briefly() -> Iterator[None]:
    """Up to 16 threads soon sleep when they wait for each other, as the program's (cli/spinning.c): OpenMP reads its
    variables when it is loaded. If NumPy or another package has loaded it before, nothing changes."""
    variable = "GOMP_SPINCOUNT"
    if len(os.sched_getaffinity(0)) > 16 or variable in os.environ or "OMP_WAIT_POLICY" in os.environ:
        yield
        return
    os.environ[variable] = "1000"
    try:
        yield
    finally:
        del os.environ[variable]


def _load() -> ctypes.CDLL:
    packed = pathlib.Path(__file__).parent / "bin" / _SONAME
    with _spinning_briefly():
        library = ctypes.CDLL(os.environ.get("BERTH_LIBRARY") or (str(packed) if packed.exists() else _SONAME))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, "berth_" + name)
        function.restype, function.argtypes = result, arguments
    return library


_library = _load()


def version() -> str:
    """The version of the library."""
    return _library.berth_version().decode()


__version__ = version()


def _table(function: Callable) -> Iterator[Dict[str, Any]]:
    index = 0
    while row := function(index):
        values = {key: getattr(row.contents, key) for key, _ in row.contents._fields_}
        yield {key: value.decode() if isinstance(value, bytes) else value for key, value in values.items()}
        index += 1


def tasks() -> List[Dict[str, Any]]:
    """What models do: a row for each method of Model that runs one."""
    return list(_table(_library.berth_task_at))


def options() -> List[Dict[str, Any]]:
    """All settings: name, uses (what has them), type, default, choices, range, help."""
    return list(_table(_library.berth_option_at))


# --- texts and settings --------------------------------------------------------------------------

def _without_nul(encoded: bytes) -> bytes:
    if b"\0" in encoded:
        raise ValueError("a text has a NUL character")
    return encoded


def _bytes(text: str) -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"expected a text (str), found {type(text).__name__}")
    return _without_nul(text.encode())


def _encoded(texts: Iterable[str], name: str) -> List[bytes]:
    """The texts of the argument `name`, in UTF-8. An error says which one it is about."""
    if isinstance(texts, (str, bytes)):
        raise TypeError(f"{name}: expected a list of texts, found one text")
    found = []
    for text in texts:
        try:
            found.append(_bytes(text))
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{name}[{len(found)}]: {error}") from None
    return found


def _setting(value) -> bytes:
    """The value as the command line has it."""
    if type(value).__name__ in ("bool", "bool_"):  # the second is NumPy's
        return b"true" if value else b"false"
    if isinstance(value, (list, tuple)):
        texts = [_setting(item) for item in value]
        is_plain = texts and all(text and b"," not in text and text[:1] != b"[" for text in texts)
        return b",".join(texts) if is_plain else json.dumps(list(value)).encode()
    # A name of a file need not be UTF-8: os.listdir and sys.argv have such bytes as surrogates.
    if isinstance(value, (bytes, os.PathLike)):
        return _without_nul(os.fsencode(value))
    return _without_nul(str(value).encode("utf-8", "surrogateescape"))


def _settings(values: Dict[str, Any]):
    flat = [part for name, value in values.items() if value is not None for part in (_bytes(name), _setting(value))]
    return (c_char_p * (len(flat) + 1))(*flat)


def _size(name: str, value: int) -> Optional[int]:
    """A number above 0 as a setting; 0 and None are the usual number."""
    if value is not None and operator.index(value) < 0:
        raise ValueError(f"{name}: expected 0 or more, found {value}")
    return value or None


def _example(task: str, row) -> _Text:
    """An example of `Model.train` as the library has it."""
    parts = [row] if isinstance(row, str) else list(row)
    if task in ("tag", "token-classification"):
        parts = [part if isinstance(part, str) else " ".join(part) for part in parts]
    text, rest = _bytes(parts[0]), parts[1:]
    example = _Text(text)
    if task in ("embed", "feature-extraction"):
        example.pair = _bytes(rest.pop(0)) if rest else None
        if rest and isinstance(rest[0], str):
            example.more, example.more_count = (c_char_p * 1)(_bytes(rest.pop(0))), 1
    elif len(rest) > 1:
        example.pair = _bytes(rest.pop(0))
    if rest:
        example.label = _setting(rest[0])
    return example


# --- records -------------------------------------------------------------------------------------

_KINDS = ["note", "warning", "plan", "step", "progress", "eval", "summary", "values", "event", "detail"]
Log = Callable[[dict], Any]
Progress = Union[bool, Callable[[int, int], Any]]  # True: a bar; a function gets the number done and that of all


def _text(text: Optional[bytes]) -> Optional[str]:
    return text.decode(errors="replace") if text else None  # a path may not be UTF-8


def _record(record: _Record) -> dict:
    kind = _KINDS[record.kind] if record.kind < len(_KINDS) else f"kind {record.kind}"  # a newer library's
    values = {"kind": kind, "text": _text(record.text)}
    for field in record.fields[:record.field_count]:
        text = _text(field.text)
        values[field.key.decode()] = (field.integer, field.real, text)[field.type]
    return values


def _warn(record: dict):
    if record["kind"] == "warning":
        warnings.warn(record["text"])


def _bar(progress: Progress) -> Log:
    """Tells records of progress to the caller's function, or to tqdm, or without it to a line on standard error."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        tqdm = None
    bars: list = []

    def see(record: dict):
        if record["kind"] != "progress" or "total" not in record:
            return
        done, total = record["done"], record["total"]
        if callable(progress):
            progress(done, total)
        elif tqdm is None:
            print(f"\r{done}/{total}", end="\n" if done == total else "", file=sys.stderr, flush=True)
        else:
            bars[:] = bars or [tqdm(total=total)]
            bars[0].update(done - bars[0].n)
            if done == total:
                bars.pop().close()
    return see


class _Call:
    """The settings, watch and error of a call. An exception cannot pass through the library: the first one of `log` or
    of a handler of a signal is kept, the call is asked to end as `ending` says, and it is raised afterwards."""

    def __init__(self, values: Dict[str, Any], log: Optional[Log], ending: int = _CANCEL, progress: Progress = False):
        self.error, self.failure, self.raised, self.ending = _Error(), None, [], ending
        self.receivers = [log or _warn] + ([_bar(progress)] if progress else [])
        self.settings, self.watch = _settings(values), _Watch(_See(self._see))
        self.finished = False

    def _see(self, _, record) -> int:
        for receiver in list(self.receivers):
            try:
                if receiver(_record(record[0])) is False:
                    self.finished = True
            except BaseException as failure:  # whatever it is, ctypes would only print it
                self.failure = self.failure or failure
                self.receivers.remove(receiver)
        if len(self.raised) > 1:
            return _CANCEL
        return self.ending if self.failure or self.raised else _FINISH if self.finished else _CONTINUE

    def __call__(self, function: Callable, *arguments):
        """Calls it in a thread of its own: Python handles signals in its main thread only, and not while that is in the
        library."""
        found, failures, done = [], [], threading.Event()
        tail = self.settings, byref(self.watch), byref(self.error)

        def work():
            try:
                found.append(function(*arguments, *tail))
            except BaseException as error:  # a thread's would only be printed
                failures.append(error)
            finally:
                done.set()

        if threading.current_thread() is not threading.main_thread():
            work()
        else:
            with self._interrupts():
                threading.Thread(target=work).start()
                done.wait()  # Thread.join, interrupted, takes a thread for ended that is not (before Python 3.13)
        if failures:
            raise failures[0]
        return found[0]

    @contextlib.contextmanager
    def _interrupts(self):
        """Within it, what the handler of a signal raises, as that of Ctrl-C does, only asks to stop."""
        every = {number: signal.getsignal(number) for number in signal.valid_signals()}
        handlers = {number: handler for number, handler in every.items() if callable(handler)}

        def ask(number, frame):
            try:
                handlers[number](number, frame)
            except BaseException as exception:
                self.raised.append(exception)

        for number in handlers:
            signal.signal(number, ask)
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def check(self, name: Optional[str] = None):
        """Raises what went wrong; an error about a text is one about the argument `name`."""
        status, message = self.error.status, self.error.message.decode(errors="replace")
        if status not in (0, _INTERRUPTED):
            if name is not None and self.error.input >= 0:
                message = f"{name}[{self.error.input}]: {message.partition(': ')[2]}"
            raise Error(status, message, self.error.input) from self.failure
        if self.failure is not None:
            raise self.failure
        if self.raised:
            raise self.raised[0]
        if status != 0:
            raise Error(status, message)


# --- numbers -------------------------------------------------------------------------------------

Numbers = Any  # numpy.ndarray; without NumPy array.array, or of a matrix a list of those


def _numbers(kind: str, content, width: Optional[int] = None) -> Numbers:
    """A copy of numbers of a kind of module array, as rows if they have a width."""
    if numpy is not None:
        found = numpy.frombuffer(content, kind).copy()
        return found if width is None else found.reshape(-1 if width else 0, width)
    found = array.array(kind, bytes(content))
    return found if width is None else [found[i:i + width] for i in range(0, len(found), width or 1)]


# --- models --------------------------------------------------------------------------------------

class Answer(NamedTuple):
    text: str  # "": no answer
    probability: float
    start: int  # characters of the context, end exclusive; -1: no answer
    end: int


class Tokens(NamedTuple):
    """A model's input: [CLS] text [SEP], or [CLS] text [SEP] pair [SEP]."""
    ids: Numbers  # int32
    types: Numbers  # int32
    offsets: Numbers  # int64, [tokens, 2]: characters, end exclusive; -1 for special tokens
    pieces: List[str]


class Tensor(NamedTuple):
    name: str
    dtype: str
    shape: Tuple[int, ...]


Texts = Union[str, Iterable[str]]


class _Result:
    """What a call found, until it was copied."""

    def __init__(self, handle, count: int):
        self.handle, self.count = handle, count

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _library.berth_result_free(self.handle)

    def items(self, index: int) -> List[_Item]:
        count = c_size_t()
        items = _library.berth_result_items(self.handle, index, byref(count))
        return items[:count.value]

    def rows(self, index: int) -> Numbers:
        rows, width = c_size_t(), c_size_t()
        at = _library.berth_result_rows(self.handle, index, byref(rows), byref(width))
        return _numbers("f", self._floats(at, rows.value * width.value), width.value)

    def matrix(self, width: Optional[int]) -> Numbers:
        """The rows of all texts, which have one each and follow one another; as one array if `width` is None."""
        columns = c_size_t(width or 1)
        at = _library.berth_result_rows(self.handle, 0, None, byref(columns)) if self.count else None
        return _numbers("f", self._floats(at, self.count * columns.value), None if width is None else columns.value)

    @staticmethod
    def _floats(at, count: int):
        return (c_float * count).from_address(ctypes.addressof(at.contents)) if count else b""

    def cut(self) -> List[int]:
        return [i for i in range(self.count) if _library.berth_result_outcome(self.handle, i).contents.truncated]


class Model:
    """A model folder, as of Hugging Face, a file of weights, or the name of a model that `berth fetch` has downloaded.

    The settings are those of the program: precision="bf16", threads=4, max_seq_length=256, ... `log` gets each record of
    the library as a dict with its "kind"; without it, the library's warnings are Python's.

    Texts may come in any iterable (list, array, column of a table), and are paired by their order. Ctrl-C takes effect
    after some hundred of them. A copy, and a Model that another process gets by pickle, opens the folder again.
    """

    def __init__(self, path: Union[str, bytes, os.PathLike], *, log: Optional[Log] = None, **settings):
        self._arguments, self._log, self._handle = (path, log, settings), log, None
        call = _Call(settings, log)
        self._handle = call(_library.berth_open, _setting(path))
        call.check()

    def __reduce__(self):
        path, log, settings = self._arguments
        if path is None:
            raise TypeError("a model that was just trained has no folder to open again: save it, and open that")
        return functools.partial(Model, path, log=log, **settings), ()

    def close(self):
        """Frees its memory; it can do nothing afterwards."""
        _library.berth_close(self._handle)
        self._handle = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None):
            self.close()

    # --- facts

    def text(self, fact: str) -> Optional[str]:
        """"task", "tasks", "architecture", "path", "config"."""
        return _text(_library.berth_model_text(self._handle, _bytes(fact)))

    def number(self, fact: str) -> float:
        """"dimensions", "max_length", "parameters", ...; of a model that was just trained "loss" and its scores."""
        return _library.berth_model_number(self._handle, _bytes(fact))

    @property
    def labels(self) -> List[str]:
        """The names of the classes, in the order of the columns of `classify`."""
        found: List[str] = []
        while (label := _library.berth_model_label(self._handle, len(found))) is not None:
            found.append(label.decode())
        return found

    def tensors(self) -> List[Tensor]:
        return [Tensor(row["name"], row["dtype"], tuple(row["shape"][:row["rank"]]))
                for row in _table(lambda i: _library.berth_model_tensor(self._handle, i))]

    # --- running

    def _run(self, task: str, texts: Iterable[str], pairs: Optional[Iterable[str]], names: Tuple[str, str], *,
             progress: Progress = False, **settings) -> _Result:
        """`names` are those of the arguments, for errors."""
        firsts = _encoded(texts, names[0])
        seconds = [None] * len(firsts) if pairs is None else _encoded(pairs, names[1])
        if len(seconds) != len(firsts):
            raise ValueError(f"{len(firsts)} texts, but {len(seconds)} second texts")
        array = (_Text * len(firsts))(*((a, b) for a, b in zip(firsts, seconds)))
        call = _Call(settings, self._log, progress=progress)
        result = _Result(call(_library.berth_run, self._handle, _bytes(task), array, len(firsts)), len(firsts))
        try:
            call.check(names[0])
            if cut := result.cut():
                text = (f"{len(cut)} of the texts had more tokens than the model reads and were truncated; "
                        f"the first is {names[0]}[{cut[0]}]")
                (self._log or _warn)({"kind": "warning", "text": text})
        except BaseException:
            result.__exit__()
            raise
        return result

    def run(self, task: str, texts: Texts, pairs: Optional[Texts] = None, *, progress: Progress = False, **settings):
        """Any row of tasks(): for each text a list of dicts, or numbers; those of tasks with one row each are one array.
        One text: its result alone."""
        row = next((row for row in tasks() if task in (row["name"], row["pipeline"])), None)
        if row is None:
            raise Error(2, f"unknown task \"{task}\"; expected one of {', '.join(row['name'] for row in tasks())}")
        one = isinstance(texts, str)
        if row["has_items"] and row["name"] in ("answer", "tag", "tokenize"):
            settings = {"offsets": "characters", **settings}
        with self._run(task, [texts] if one else texts, [pairs] if one and pairs is not None else pairs,
                       ("texts", "pairs"), progress=progress, **settings) as result:
            found: Any = ([[self._item(item) for item in result.items(i)] for i in range(result.count)] if row["has_items"]
                          else [result.rows(i) for i in range(result.count)])
        if not row["has_items"] and found and all(len(rows) == 1 for rows in found):
            found = [rows[0] for rows in found] if numpy is None else numpy.concatenate(found)
        return found[0] if one else found

    @staticmethod
    def _item(item: _Item) -> dict:
        found = {"text": item.text.decode(), "score": item.score}
        if item.start >= 0:
            found.update(start=item.start, end=item.end)
        if item.id >= 0:
            found["id"] = item.id
        return {**found, "group": item.group} if item.group else found

    def answers(self, questions: Iterable[str], contexts: Iterable[str], top: int = 1) -> List[List[Answer]]:
        """The `top` best answers to each question from its own context, best first."""
        with self._run("answer", questions, contexts, ("questions", "contexts"), top=_size("top", top),
                       offsets="characters") as result:
            return [[Answer(item.text.decode(), item.score, item.start, item.end) for item in result.items(i)]
                    for i in range(result.count)]

    def answer(self, question: str, context: str) -> Answer:
        """The best answer."""
        return self.answers([question], [context])[0][0]

    def classify(self, texts: Texts, pairs: Optional[Texts] = None, **settings) -> Numbers:
        """float32 [texts, classes]: probabilities of the classes, or the number of a regression; of one text [classes].

        With `candidate_labels` those of these labels, by a model of entailment; also `hypothesis_template`, `multi_label`.
        """
        one = isinstance(texts, str)
        with self._run("classify", [texts] if one else texts, [pairs] if one and pairs is not None else pairs,
                       ("texts", "pairs"), **settings) as result:
            rows = result.matrix(len(self.labels))
        return rows[0] if one else rows

    def embed(self, texts: Texts, **settings) -> Numbers:
        """float32 [texts, size]: an embedding for each text, of one text [size], as the settings `normalize` and `dimensions` say, otherwise as
        the model was opened (`pooling`) and its folder says."""
        one = isinstance(texts, str)
        with self._run("embed", [texts] if one else texts, None, ("texts", "pairs"), **settings) as result:
            rows = result.matrix(int(self.number("dimensions")))
        return rows[0] if one else rows

    def rerank(self, query: str, documents: Iterable[str], **settings) -> Numbers:
        """float32 [documents]: the score of each for the query, by a cross-encoder; of a model with several classes that
        of the class `label`."""
        found = list(documents)
        with self._run("rerank", [query] * len(found), found, ("queries", "documents"), **settings) as result:
            return result.matrix(None)

    def tokenize(self, text: str, pair: Optional[str] = None) -> Tokens:
        """What the model sees of a text or a pair, at most as many tokens as the setting max_seq_length says."""
        with self._run("tokenize", [text], None if pair is None else [pair], ("texts", "pairs"),
                       offsets="characters") as result:
            items = result.items(0)
            ids, types = (_numbers("i", array.array("i", each).tobytes())
                          for each in zip(*((item.id, item.group) for item in items)))
            offsets = array.array("q", (at for item in items for at in (item.start, item.end)))
            return Tokens(ids, types, _numbers("q", offsets.tobytes(), 2), [item.text.decode() for item in items])

    # --- as sentence_transformers' SentenceTransformer and CrossEncoder

    def encode(self, sentences: Texts, *, prompt_name: Optional[str] = None, prompt: Optional[str] = None,
               normalize_embeddings: Optional[bool] = None, truncate_dim: Optional[int] = None,
               show_progress_bar: Progress = False) -> Numbers:
        return self.embed(sentences, prompt_name=prompt_name, prompt=prompt, normalize=normalize_embeddings,
                          dimensions=truncate_dim, progress=show_progress_bar)

    def predict(self, pairs: Sequence[Tuple[str, str]]) -> Numbers:
        with self._run("rerank", [a for a, _ in pairs], [b for _, b in pairs], ("pairs", "pairs")) as result:
            return result.matrix(None)

    def rank(self, query: str, documents: Sequence[str], top_k: Optional[int] = None, return_documents: bool = False,
             **settings) -> List[dict]:
        scores = self.rerank(query, documents, **settings)
        order = sorted(range(len(scores)), key=lambda i: -scores[i])[:top_k]
        return [{"corpus_id": i, "score": float(scores[i]), **({"text": documents[i]} if return_documents else {})}
                for i in order]

    # --- training and saving

    def train(self, task: str, examples: Sequence[tuple], held_out: Sequence[tuple] = (), *, log: Optional[Log] = None,
              progress: Progress = False, **settings) -> "Model":
        """A new model, trained on examples: (text, label) or (text, pair, label) to classify, (question, context, answer)
        with "" for none, (words, tags), (text, like it), then a score or a text unlike it, to embed, and texts to fill.
        `log` gets each record as a dict, and ends the training by returning False. This model stays as it is."""
        def array(rows):
            return (_Text * len(rows))(*(_example(task, row) for row in rows)) if rows else None
        call = _Call(settings, log, _SUSPEND, progress)
        handle = call(_library.berth_train, self._handle, _bytes(task), array(examples), len(examples), array(held_out),
                      len(held_out))
        trained = Model.__new__(Model)
        trained._arguments, trained._log, trained._handle = (None, self._log, {}), self._log, handle
        call.check("examples")
        return trained

    def save(self, path: Union[str, bytes, os.PathLike], format: str = "hf", **settings):
        """Writes a folder that appears complete or not at all: hf, torch, tensorflow, nvidia, deepspeed, onnx, gguf,
        int8."""
        call = _Call(settings, self._log)
        call(_library.berth_save, self._handle, _setting(path), _bytes(format))
        call.check()


def open(path: Union[str, bytes, os.PathLike], **settings) -> Model:
    """The same as Model(path, ...)."""
    return Model(path, **settings)


def _method(row: Dict[str, Any]) -> Callable:
    def method(self, texts: Texts, pairs: Optional[Texts] = None, **settings):
        return self.run(row["name"], texts, pairs, **settings)
    method.__name__, method.__doc__ = row["name"], f"{row['help']} ({row['pipeline']})"
    return method


for _row in tasks():
    if not hasattr(Model, _row["name"]):
        setattr(Model, _row["name"], _method(_row))


def pipeline(task: str, model: Union[str, os.PathLike, Model], **settings) -> Callable:
    """As transformers': pipeline("ner", "folder")("Anna lives in Bern.")"""
    names = {"ner": "tag", "sentiment-analysis": "classify", **{row["pipeline"]: row["name"] for row in tasks()}}
    opened = model if isinstance(model, Model) else Model(model)
    return lambda texts, *pairs, **more: opened.run(names.get(task, task), texts, *pairs, **{**settings, **more})


def train(settings: dict, task: str = "answer", log: Optional[Log] = None) -> dict:
    """Trains on files as `berth finetune TASK` or `berth pretrain` (task "pretrain") does with these options.

    Returns steps, loss, samples_per_second and the metrics of the last evaluation. `log` gets each record of the run as a
    dict with its "kind", and ends the training with its model by returning False; without `log`, the library's warnings
    are Python's. Ctrl-C finishes the update and saves; the KeyboardInterrupt follows. An exception of `log`, or of your
    handler of another signal, does the same. If the save fails, its error is raised instead.
    """
    return job("train", {"task": _bytes(task), **settings}, log)


def job(name: str, settings: dict, log: Optional[Log] = None) -> dict:
    """Does what `berth NAME` does with these options: "mine", "vocab", "pack", "evaluate", ...

    Returns what the verb prints with --json. `log` gets each record as a dict with its "kind", and asks the job to end by
    returning False, which is an error of all but training; without `log`, the library's warnings are Python's. Ctrl-C stops
    the job; the KeyboardInterrupt follows.
    """
    call = _Call(settings, log, _SUSPEND)
    handle = call(_library.berth_job, _bytes(name))
    try:
        call.check()
        return json.loads(_library.berth_result_text(handle, 0))
    finally:
        _library.berth_result_free(handle)
