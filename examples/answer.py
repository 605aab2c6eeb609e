#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Answers a question from a text with libberth, through ctypes.

    answer.py MODEL_FOLDER "Where do I live?" "I live in Bern."
"""
import os
import sys
from ctypes import (CDLL, CFUNCTYPE, POINTER, Structure, byref, c_char, c_char_p, c_double, c_int, c_int64, c_size_t,
                    c_void_p)

WARNING = 1  # BERTH_RECORD_WARNING


class Error(Structure):
    _fields_ = [("status", c_int), ("message", c_char * 1024)]


class Record(Structure):
    _fields_ = [("kind", c_int), ("text", c_char_p), ("fields", c_void_p), ("field_count", c_size_t)]


Write = CFUNCTYPE(None, c_void_p, POINTER(Record))


class Log(Structure):  # with Write() the library is silent
    _fields_ = [("write", Write), ("context", c_void_p)]


class Answer(Structure):
    _fields_ = [("text", c_char_p), ("probability", c_double), ("start_logit", c_double), ("end_logit", c_double),
                ("start", c_int64), ("end", c_int64)]


@Write
def print_warning(context, record):
    if record.contents.kind == WARNING:
        print("warning:", record.contents.text.decode(), file=sys.stderr)


def check(status):
    if status != 0:
        print(error.message.decode(), file=sys.stderr)
        sys.exit(status)


if len(sys.argv) != 4:
    print(f"usage: {sys.argv[0]} MODEL_FOLDER QUESTION TEXT", file=sys.stderr)
    sys.exit(2)
berth, error = CDLL(os.environ.get("BERTH_LIBRARY", "libberth.so.0.1")), Error()
berth.berth_config_new.restype = c_void_p
berth.berth_model_open.argtypes = [c_void_p, Log, POINTER(c_void_p), POINTER(Error)]
model, answers, count = c_void_p(), (Answer * 3)(), c_size_t()
config = c_void_p(berth.berth_config_new())
check(berth.berth_config_set(config, b"model_name_or_path", os.fsencode(sys.argv[1]), byref(error)))
check(berth.berth_model_open(config, Log(print_warning), byref(model), byref(error)))
check(berth.berth_model_answer(model, sys.argv[2].encode(), sys.argv[3].encode(), answers, c_size_t(3), byref(count),
                               byref(error)))
for answer in answers[:count.value]:
    print(f"{100 * answer.probability:3.0f} %  {answer.text.decode()}")
berth.berth_answers_free(answers, count)
berth.berth_model_close(model)
berth.berth_config_free(config)
