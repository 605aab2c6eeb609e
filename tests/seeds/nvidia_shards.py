#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the shards of FOLDER with h5py as Habana's run_pretraining does, and writes the same instances with h5py as its
create_pretraining_data does, to OUTPUT/<kind>/: compressed, not compressed, and all of them in one file.

Usage: nvidia_shards.py FOLDER OUTPUT
"""
import pathlib
import sys

import h5py
import numpy

KEYS = {"input_ids": "i4", "input_mask": "i1", "segment_ids": "i1", "masked_lm_positions": "i4", "masked_lm_ids": "i4",
        "next_sentence_labels": "i1"}
folder, output = map(pathlib.Path, sys.argv[1:])


def write(path, columns, **how):
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for key, dtype in KEYS.items():
            file.create_dataset(key, data=columns[key], dtype=dtype, **how)


shards = {}
for path in sorted(folder.glob("*.hdf5")):
    with h5py.File(path, "r") as file:
        assert sorted(file) == sorted(KEYS), list(file)
        shards[path.name] = {key: numpy.asarray(file[key][:]) for key in KEYS}
    for ids, places, words in zip(*(shards[path.name][key] for key in ("input_ids", "masked_lm_positions",
                                                                       "masked_lm_ids"))):
        zeros = numpy.flatnonzero(places == 0)
        count = zeros[0] if zeros.size else len(places)
        assert count > 0 and not places[count:].any() and (ids[places[:count]] > 0).all() and (words[:count] > 0).all()
assert shards
for name, columns in shards.items():
    write(output / "compressed" / name, columns, compression="gzip")
    write(output / "plain" / name, columns)
training = [columns for name, columns in shards.items() if "training" in name]
write(output / "single.hdf5", {key: numpy.concatenate([columns[key] for columns in training]) for key in KEYS},
      compression="gzip")
