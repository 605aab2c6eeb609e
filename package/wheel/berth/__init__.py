# SPDX-License-Identifier: Apache-2.0
"""Berth from Python: a BERT in memory, and training, through the C library that comes with this package.

    import berth

    model = berth.Model("squad-minilm")
    model.answer("Where do I live?", "I live in Bern.").text     # 'Bern'
    model.embed(["I live in Bern.", "Ich wohne in Bern."])       # NumPy, [texts, size]
    berth.train({"model": "minilm", "train_file": "train.json", "output_dir": "out"}, task="squad")

Settings have the names of the options of `berth` (`berth help NAME` describes one). Numbers are NumPy arrays. Other
threads of Python go on while the library computes, and threads may share a Model. Errors are berth.Error, and those of
Python for what is no text or number; warnings are Python's (module warnings), unless a `log` takes all records.

Leaves out what has no numbers for Python: the program that comes with this package has all verbs.
"""
import contextlib
import ctypes
import functools
import operator
import os
import pathlib
import signal
import sys
import threading
import warnings
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_double, c_float, c_int, c_int64, c_size_t, c_void_p
from typing import Callable, Iterable, Iterator, List, NamedTuple, Optional, Tuple, Union

import numpy

__all__ = ["Answer", "Error", "Model", "Tokens", "train", "version"]


class Error(Exception):
    """What the library refused or could not do. `status` is the exit code that the program has for it."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status

    def __reduce__(self):  # pickle's own way leaves out the status; a multiprocessing.Pool then waits for ever
        return Error, (self.status, str(self))


# --- the library's structs and functions ---------------------------------------------------------

class _Error(Structure):
    _fields_ = [("status", c_int), ("message", c_char * 1024)]


class _Field(Structure):
    _fields_ = [("key", c_char_p), ("type", c_int), ("integer", c_int64), ("real", c_double), ("text", c_char_p)]


class _Record(Structure):
    _fields_ = [("kind", c_int), ("text", c_char_p), ("fields", POINTER(_Field)), ("field_count", c_size_t)]


_Write = ctypes.CFUNCTYPE(None, c_void_p, POINTER(_Record))


class _Log(Structure):
    _fields_ = [("write", _Write), ("context", c_void_p)]


class _Answer(Structure):
    _fields_ = [("text", c_char_p), ("probability", c_double), ("start_logit", c_double), ("end_logit", c_double),
                ("start", c_int64), ("end", c_int64)]


class _Question(Structure):
    _fields_ = [("question", c_char_p), ("context", c_char_p), ("capacity", c_size_t), ("max_answer_length", c_int64),
                ("with_no_answer", c_int), ("whole_words", c_int)]


class _Answers(Structure):
    _fields_ = [("error", _Error), ("answers", POINTER(_Answer)), ("count", c_size_t), ("tokens", c_int64)]


class _Text(Structure):
    _fields_ = [("text", c_char_p), ("pair", c_char_p)]


class _Status(Structure):
    _fields_ = [("error", _Error), ("tokens", c_int64), ("truncated", c_int)]


class _Classes(Structure):
    _fields_ = [("problem", c_int), ("count", c_size_t), ("names", POINTER(c_char_p))]


class _Embedding(Structure):
    _fields_ = [("pooling", c_int), ("normalize", c_int)]


class _Token(Structure):
    _fields_ = [("piece", c_char_p), ("id", ctypes.c_int32), ("start", c_int64), ("end", c_int64)]


class _InputToken(Structure):
    _fields_ = [("token", _Token), ("type", c_int)]


class _Metric(Structure):
    _fields_ = [("name", c_char * 48), ("value", c_double)]


class _Result(Structure):
    _fields_ = [("steps", c_int64), ("final_loss", c_double), ("metrics", _Metric * 12), ("metric_count", c_size_t),
                ("eval_loss", c_double), ("samples_per_second", c_double), ("tokens_per_second", c_double),
                ("mfu", c_double), ("workers", c_int64), ("best_worker", c_int64), ("best_seed", c_int64)]


_SIGNATURES = {  # name: what it returns, what it takes
    "berth_version": (c_char_p, []),
    "berth_config_new": (c_void_p, []),
    "berth_config_free": (None, [c_void_p]),
    "berth_config_set": (c_int, [c_void_p, c_char_p, c_char_p, POINTER(_Error)]),
    "berth_find_model": (c_int, [c_char_p, POINTER(c_void_p), POINTER(_Error)]),
    "berth_find_data": (c_int, [c_char_p, c_char_p, POINTER(c_void_p), POINTER(_Error)]),
    "berth_string_free": (None, [c_void_p]),
    "berth_model_open": (c_int, [c_void_p, _Log, POINTER(c_void_p), POINTER(_Error)]),
    "berth_model_close": (None, [c_void_p]),
    "berth_model_answer_many": (c_int, [c_void_p, POINTER(_Question), c_size_t, POINTER(_Answers), POINTER(_Error)]),
    "berth_answer_lists_free": (None, [POINTER(_Answers), c_size_t]),
    "berth_classifier_open": (c_int, [c_void_p, _Log, POINTER(c_void_p), POINTER(_Error)]),
    "berth_classifier_close": (None, [c_void_p]),
    "berth_classifier_classes": (_Classes, [c_void_p]),
    "berth_classifier_max_length": (c_int64, [c_void_p]),
    "berth_classifier_classify": (c_int, [c_void_p, POINTER(_Text), c_size_t, c_int, c_void_p, POINTER(_Status),
                                          POINTER(_Error)]),
    "berth_encoder_open": (c_int, [c_void_p, _Log, POINTER(c_void_p), POINTER(_Error)]),
    "berth_encoder_close": (None, [c_void_p]),
    "berth_encoder_usual": (_Embedding, [c_void_p]),
    "berth_encoder_size": (c_size_t, [c_void_p]),
    "berth_encoder_max_length": (c_int64, [c_void_p]),
    "berth_encoder_embed_many": (c_int, [c_void_p, POINTER(_Text), c_size_t, _Embedding, c_void_p, POINTER(_Status),
                                         POINTER(_Error)]),
    "berth_tokenizer_open": (c_int, [c_void_p, POINTER(c_void_p), POINTER(_Error)]),
    "berth_tokenizer_close": (None, [c_void_p]),
    "berth_tokenizer_encode_pair": (c_int, [c_void_p, POINTER(_Text), c_size_t, POINTER(POINTER(_InputToken)),
                                            POINTER(c_size_t), POINTER(c_int), POINTER(_Error)]),
    "berth_input_tokens_free": (None, [POINTER(_InputToken)]),
    "berth_reporter_open": (c_int, [c_void_p, c_int, POINTER(c_void_p), POINTER(_Error)]),
    "berth_reporter_log": (_Log, [c_void_p]),
    "berth_reporter_close": (None, [c_void_p]),
    "berth_train": (c_int, [c_char_p, c_void_p, _Log, POINTER(c_int), POINTER(_Result), POINTER(_Error)]),
}


_SONAME = "libberth.so.0.1"  # of the version whose structs are above


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
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


_library = _load()


def version() -> str:
    """The version of the library."""
    return _library.berth_version().decode()


def _check(status: int, error: _Error):
    if status != 0:
        raise Error(status, error.message.decode(errors="replace"))


def _call(function: Callable, *arguments):
    """Calls a function whose last argument is the error."""
    error = _Error()
    _check(function(*arguments, byref(error)), error)


def _without_nul(encoded: bytes) -> bytes:
    if b"\0" in encoded:
        raise ValueError("a text has a NUL character")
    return encoded


def _bytes(text: str) -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"expected a text (str), found {type(text).__name__}")
    return _without_nul(text.encode())


# --- settings ------------------------------------------------------------------------------------

def _setting(value) -> bytes:
    """The value as the command line has it."""
    if isinstance(value, (bool, numpy.bool_)):
        return b"true" if value else b"false"
    if isinstance(value, (list, tuple)):
        return b",".join(_setting(item) for item in value)
    # A name of a file need not be UTF-8: os.listdir and sys.argv have such bytes as surrogates.
    if isinstance(value, (bytes, os.PathLike)):
        return _without_nul(os.fsencode(value))
    return _without_nul(str(value).encode("utf-8", "surrogateescape"))


# With their aliases of src/core/option_rows.c: the length; settings that may be names; of data, the split.
_LENGTHS = ("max_seq_length", "max_length")
_MODELS = ("model_name_or_path", "model")
_SPLITS = {"train_file": "train", "train": "train", "validation_file": "dev", "dev": "dev", "predict_file": "dev",
           "input": "dev"}


def _found(name: str, value) -> bytes:
    """The setting's value; for the name of a fetched model or data set its path, as the program finds it."""
    text, path = _setting(value), c_void_p()
    if name in _MODELS:
        _call(_library.berth_find_model, text, byref(path))
    elif name in _SPLITS:
        _call(_library.berth_find_data, text, _SPLITS[name].encode(), byref(path))
    else:
        return text
    try:
        return ctypes.string_at(path)
    finally:
        _library.berth_string_free(path)


class _Config:
    """A struct berth_config with these settings; those that are None keep their defaults."""

    def __init__(self, settings: dict):
        self.handle = c_void_p(_library.berth_config_new())
        if not self.handle:
            raise MemoryError
        self.length = 512  # of tokenize, unless a setting says otherwise
        for name, value in settings.items():
            if value is not None:
                encoded = _bytes(name).replace(b"-", b"_")
                text = _found(encoded.decode(), value)
                _call(_library.berth_config_set, self.handle, encoded, text)
                if encoded.decode() in _LENGTHS:
                    self.length = int(float(text))

    def __del__(self):
        _library.berth_config_free(self.handle)


# --- records -------------------------------------------------------------------------------------

_KINDS = ["note", "warning", "plan", "step", "progress", "eval", "summary", "values", "event", "detail"]
Log = Callable[[dict], None]


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


class _Writer:
    """Gives the library's records to the files, and to `log`, or its warnings to Python. An exception cannot pass
    through the library: the first one is kept, `stop` is set, and what raised it gets no further record."""

    def __init__(self, log: Optional[Log], stop: Optional[c_int] = None, files: Optional["_Files"] = None):
        self.stop, self.failure = stop, None
        self.receivers = [lambda record: (log or _warn)(_record(record[0]))]
        if files is not None:
            self.receivers.insert(0, files.write)
        self.argument = _Log(_Write(self._write))

    def _write(self, _, record):
        for receiver in list(self.receivers):
            try:
                receiver(record)
            except BaseException as failure:  # whatever it is, ctypes would only print it
                self.failure = self.failure or failure
                self.receivers.remove(receiver)
                if self.stop is not None:
                    self.stop.value = max(self.stop.value, 1)

    def check(self):
        if self.failure is not None:
            raise self.failure


class _Files:
    """The library's reporter, which writes what the settings name (json_summary, logging_dir); what it has for people
    goes nowhere. The first record opens it: of several processes only the first one gets records."""

    def __init__(self, config: _Config):
        self.config, self.handle = config, c_void_p()
        self.nowhere = open(os.devnull, "wb")

    def write(self, record):
        if not self.handle:
            _call(_library.berth_reporter_open, self.config.handle, self.nowhere.fileno(), byref(self.handle))
            self.log = _library.berth_reporter_log(self.handle)
        self.log.write(self.log.context, record)

    def close(self):
        _library.berth_reporter_close(self.handle)
        self.nowhere.close()


# --- models --------------------------------------------------------------------------------------

class Answer(NamedTuple):
    text: str  # "": no answer
    probability: float
    start: int  # characters of the context, end exclusive; -1: no answer
    end: int


class Tokens(NamedTuple):
    """A model's input: [CLS] text [SEP], or [CLS] text [SEP] pair [SEP]."""
    ids: numpy.ndarray  # int32
    types: numpy.ndarray  # int32
    offsets: numpy.ndarray  # int64, [tokens, 2]: characters, end exclusive; -1 for special tokens
    pieces: List[str]


class _Handle:
    """What a function of the library opened, until nobody needs it."""

    def __init__(self, kind: str, config: _Config, log: Optional[Log]):
        self.value, self.close, writer = c_void_p(), getattr(_library, f"berth_{kind}_close"), _Writer(log)
        argument = [] if kind == "tokenizer" else [writer.argument]
        _call(getattr(_library, f"berth_{kind}_open"), config.handle, *argument, byref(self.value))
        writer.check()

    def __del__(self):
        if self.value:
            self.close(self.value)


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


def _paired(texts: List[bytes], pairs: Optional[List[bytes]]) -> List[tuple]:
    if pairs is None:
        return [(text, None) for text in texts]
    if len(pairs) != len(texts):
        raise ValueError(f"{len(texts)} texts, but {len(pairs)} second texts")
    return list(zip(texts, pairs))


_BLOCK = 128 * 1024  # bytes


def _blocks(items: List[tuple]) -> Iterator[Tuple[int, List[tuple]]]:
    """(index of the first, some of the items), for one call of the library. Between two calls Python handles Ctrl-C."""
    first = size = 0
    for i, (text, pair) in enumerate(items, 1):
        size += 64 + len(text) + len(pair or b"")
        if size >= _BLOCK or i == len(items):
            yield first, items[first:i]
            first, size = i, 0


def _array(kind, items: List[tuple]):
    return (kind * len(items))(*items)


class _Cut:
    """Counts the texts that had more tokens than the model reads, and warns of them."""

    def __init__(self):
        self.count = 0

    def add(self, statuses, first: int):
        for i, status in enumerate(statuses, first):
            if status.truncated:
                self.count, self.first = self.count + 1, self.first if self.count else i

    def warn(self, longest: int, log: Optional[Log]):
        if self.count:
            text = (f"{self.count} of the texts had more tokens than max_seq_length {longest}, and what is beyond was left "
                    f"out; the first is texts[{self.first}]")
            (log or _warn)({"kind": "warning", "text": text})


def _check_each(statuses, name: str, first: int):
    """The error of the first text that failed says which one of the argument `name` that is."""
    for i, status in enumerate(statuses, first):
        if status.error.status != 0:
            raise Error(status.error.status, f"{name}[{i}]: {status.error.message.decode(errors='replace')}")


def _size(name: str, value: int) -> int:
    """The number as a size_t of the library."""
    if operator.index(value) < 0:
        raise ValueError(f"{name}: expected 0 or more, found {value}")
    return min(operator.index(value), sys.maxsize)


class Model:
    """A model folder, as of Hugging Face, or the name of a model that `berth fetch` has downloaded. It is opened for a
    purpose when a method first needs that: a folder with a head for questions answers, one with a classifier
    classifies, any embeds and tokenizes.

    The settings are those of the program: precision="bf16", threads=4, max_seq_length=256, ... `log` gets each record of
    the library as a dict with its "kind"; without it, the library's warnings are Python's.

    Texts may come in any iterable (list, array, column of a table), and are paired by their order. Ctrl-C takes effect
    after some hundred or thousand of them. A copy, and a Model that another process gets by pickle, opens the folder
    again.
    """

    def __init__(self, path: Union[str, bytes, os.PathLike], *, log: Optional[Log] = None, **settings):
        self._arguments = path, log, settings
        self._config, self._log = _Config({"model_name_or_path": path, **settings}), log
        self._handles, self._lock = {}, threading.Lock()

    def __reduce__(self):
        path, log, settings = self._arguments
        return functools.partial(Model, path, log=log, **settings), ()

    def _open(self, kind: str) -> c_void_p:
        with self._lock:
            if kind not in self._handles:
                self._handles[kind] = _Handle(kind, self._config, self._log)
            return self._handles[kind].value

    def answers(self, questions: Iterable[str], contexts: Iterable[str], top: int = 1) -> List[List[Answer]]:
        """The `top` best answers to each question from its own context, best first."""
        handle, capacity, found = self._open("model"), _size("top", top), []
        for first, block in _blocks(_paired(_encoded(questions, "questions"), _encoded(contexts, "contexts"))):
            lists = (_Answers * len(block))()
            asked = _array(_Question, [(*pair, capacity, 0, -1) for pair in block])
            _call(_library.berth_model_answer_many, handle, asked, len(block), lists)
            try:
                _check_each(lists, "questions", first)
                found += [[Answer(answer.text.decode(), answer.probability, answer.start, answer.end)
                           for answer in each.answers[:each.count]] for each in lists]
            finally:
                _library.berth_answer_lists_free(lists, len(block))
        return found

    def answer(self, question: str, context: str) -> Answer:
        """The best answer."""
        return self.answers([question], [context])[0][0]

    @property
    def labels(self) -> List[str]:
        """The names of the classes, in the order of the columns of `classify`."""
        classes = _library.berth_classifier_classes(self._open("classifier"))
        return [classes.names[i].decode() for i in range(classes.count)]

    def classify(self, texts: Iterable[str], pairs: Optional[Iterable[str]] = None) -> numpy.ndarray:
        """float32 [texts, classes]: probabilities of the classes, or the number of a regression."""
        handle = self._open("classifier")
        items = _paired(_encoded(texts, "texts"), None if pairs is None else _encoded(pairs, "pairs"))
        scores = numpy.zeros((len(items), _library.berth_classifier_classes(handle).count), numpy.float32)
        cut = _Cut()
        for first, block in _blocks(items):
            statuses = (_Status * len(block))()
            _call(_library.berth_classifier_classify, handle, _array(_Text, block), len(block), 0,
                  scores[first:].ctypes.data, statuses)
            _check_each(statuses, "texts", first)
            cut.add(statuses, first)
        cut.warn(_library.berth_classifier_max_length(handle), self._log)
        return scores

    def embed(self, texts: Iterable[str]) -> numpy.ndarray:
        """float32 [texts, size]: an embedding for each text, as the settings `pooling` and `normalize` say, otherwise
        as the folder does."""
        handle, items = self._open("encoder"), _paired(_encoded(texts, "texts"), None)
        rows = numpy.zeros((len(items), _library.berth_encoder_size(handle)), numpy.float32)
        cut = _Cut()
        for first, block in _blocks(items):
            statuses = (_Status * len(block))()
            _call(_library.berth_encoder_embed_many, handle, _array(_Text, block), len(block),
                  _library.berth_encoder_usual(handle), rows[first:].ctypes.data, statuses)
            _check_each(statuses, "texts", first)
            cut.add(statuses, first)
        cut.warn(_library.berth_encoder_max_length(handle), self._log)
        return rows

    def tokenize(self, text: str, pair: Optional[str] = None, max_length: Optional[int] = None) -> Tokens:
        """What the model sees of a text or a pair, at most max_length tokens: by default as many as the setting
        max_seq_length, else 512."""
        handle, both = self._open("tokenizer"), _Text(_bytes(text), None if pair is None else _bytes(pair))
        length = self._config.length if max_length is None else _size("max_length", max_length)
        tokens, count, truncated = POINTER(_InputToken)(), c_size_t(), c_int()
        _call(_library.berth_tokenizer_encode_pair, handle, byref(both), length, byref(tokens), byref(count),
              byref(truncated))
        try:
            found = [(each.token.id, each.type, (each.token.start, each.token.end), each.token.piece.decode())
                     for each in tokens[:count.value]]
        finally:
            _library.berth_input_tokens_free(tokens)
        ids, types, offsets, pieces = zip(*found)
        return Tokens(numpy.array(ids, numpy.int32), numpy.array(types, numpy.int32),
                      numpy.array(offsets, numpy.int64), list(pieces))


# --- training ------------------------------------------------------------------------------------

_INTERRUPTED = 75  # BERTH_INTERRUPTED


@contextlib.contextmanager
def _interrupts(stop: c_int):
    """Within it, what the handler of a signal raises, as that of Ctrl-C does, only asks to stop. Gives the list of it."""
    handlers, raised = {}, []

    def ask(number, frame):
        try:
            handlers[number](number, frame)
        except BaseException as exception:
            raised.append(exception)
            stop.value = min(stop.value + 1, 2)

    if threading.current_thread() is threading.main_thread():  # in which Python handles signals
        every = {number: signal.getsignal(number) for number in signal.valid_signals()}
        handlers.update((number, handler) for number, handler in every.items() if callable(handler))
    for number in handlers:
        signal.signal(number, ask)
    try:
        yield raised
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def train(settings: dict, task: str = "squad", log: Optional[Log] = None) -> dict:
    """Trains as `berth finetune TASK` or `berth pretrain` (task "pretrain", "mlm") does with these options.

    Returns steps, final_loss, samples_per_second, tokens_per_second and the metrics of the last evaluation. `log` gets
    each record of the run as a dict with its "kind", as do the files of json_summary and logging_dir; without `log`, the
    library's warnings are Python's. Ctrl-C finishes the update and saves; the KeyboardInterrupt follows. An exception
    of `log`, or of your handler of another signal, does the same. If the save fails, its error is raised instead.
    """
    config, stop, result, failures = _Config(settings), c_int(0), _Result(), []
    files, done = _Files(config), threading.Event()
    writer = _Writer(log, stop, files)

    def work():
        try:
            _call(_library.berth_train, _bytes(task), config.handle, writer.argument, byref(stop), byref(result))
        except BaseException as error:  # a thread's would only be printed
            failures.append(error)
        finally:
            done.set()

    # Python handles signals in its main thread only, and not while that is in the library.
    with _interrupts(stop) as raised:
        threading.Thread(target=work).start()
        done.wait()  # Thread.join, interrupted, takes a thread for ended that is not (before Python 3.13)
    files.close()
    failure = failures[0] if failures else None
    if failure is not None and getattr(failure, "status", None) != _INTERRUPTED:
        raise failure from writer.failure
    writer.check()
    if raised:
        raise raised[0] from failure
    if failure is not None:
        raise failure
    metrics = {metric.name.decode(): metric.value for metric in result.metrics[:result.metric_count]}
    return {"steps": result.steps, "final_loss": result.final_loss, "samples_per_second": result.samples_per_second,
            "tokens_per_second": result.tokens_per_second, **metrics}
