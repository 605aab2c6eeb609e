#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What threads.cpp does, through ctypes: one classifier and one encoder asked from several threads. Prints the same.

    threads.py LIBRARY MODEL_FOLDER
"""
import os
import struct
import sys
import threading
from ctypes import (CDLL, POINTER, Structure, byref, c_char, c_char_p, c_float, c_int, c_int64, c_size_t, c_void_p)


class Error(Structure):
    _fields_ = [("status", c_int), ("message", c_char * 1024)]


class Log(Structure):
    _fields_ = [("write", c_void_p), ("context", c_void_p)]


class Text(Structure):
    _fields_ = [("text", c_char_p), ("pair", c_char_p)]


class Status(Structure):
    _fields_ = [("error", Error), ("tokens", c_int64), ("truncated", c_int)]


class Classes(Structure):
    _fields_ = [("problem", c_int), ("count", c_size_t), ("names", POINTER(c_char_p))]


class Embedding(Structure):
    _fields_ = [("pooling", c_int), ("normalize", c_int)]


berth = CDLL(sys.argv[1])
berth.berth_config_new.restype = c_void_p
berth.berth_classifier_classes.restype = Classes
berth.berth_encoder_usual.restype = Embedding
berth.berth_encoder_size.restype = c_size_t


def check(status, error):
    if status != 0:
        sys.exit("FAILED: " + error.message.decode())


def open_handle(open_function, config):
    handle, error = c_void_p(), Error()
    open_function.argtypes = [c_void_p, Log, POINTER(c_void_p), POINTER(Error)]
    check(open_function(config, Log(), byref(handle), byref(error)), error)
    return handle


def process(texts, group):
    """Scores and embeddings of all texts, as bytes, in calls of `group` texts."""
    classes, size = berth.berth_classifier_classes(classifier).count, berth.berth_encoder_size(encoder)
    scores, embeddings, error = b"", b"", Error()
    for first in range(0, len(texts), group):
        part = texts[first:first + group]
        items, statuses = (Text * len(part))(*[(text, None) for text in part]), (Status * len(part))()
        numbers, rows = (c_float * (len(part) * classes))(), (c_float * (len(part) * size))()
        check(berth.berth_classifier_classify(classifier, items, c_size_t(len(part)), 0, numbers, statuses,
                                              byref(error)), error)
        check(berth.berth_encoder_embed_many(encoder, items, c_size_t(len(part)), berth.berth_encoder_usual(encoder),
                                             rows, statuses, byref(error)), error)
        scores, embeddings = scores + bytes(numbers), embeddings + bytes(rows)
    return scores + embeddings


def work(index):
    try:
        same = all(process(lines, 1 + 7 * index + turn) == alone for turn in range(5))
        print("" if same else f"FAILED: thread {index} has other results\n", end="")
    except BaseException as error:  # which would end the thread alone
        print(f"FAILED: thread {index}: {error!r}")


config, failure = c_void_p(berth.berth_config_new()), Error()
for name, value in (("model_name_or_path", sys.argv[2]), ("precision", "fp32"), ("max_seq_length", "16"),
                    ("predict_batch_size", "3")):
    check(berth.berth_config_set(config, name.encode(), os.fsencode(value), byref(failure)), failure)
classifier = open_handle(berth.berth_classifier_open, config)
encoder = open_handle(berth.berth_encoder_open, config)
berth.berth_config_free(config)

lines = [("the" + "".join(" red ball" if word % 3 == 0 else " of anna" for word in range(i))).encode()
         for i in range(30)]
alone = process(lines, 1)
threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for bits in struct.unpack(f"={len(alone) // 4}I", alone):
    print(f"{bits:08x}")
berth.berth_classifier_close(classifier)
berth.berth_encoder_close(encoder)
