#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""h5py reads what Berth writes. Exits 77 where h5py is missing.

    check_hdf5.py WRITE_HDF5 [ROWS]    files of the test program write_hdf5
    check_hdf5.py --data DIR           files of `berth prepare` or `berth pack`: names, types, shapes and
                                       what the columns must say of each other
"""
import pathlib
import subprocess
import sys
import tempfile

try:
    import h5py
    import numpy
except ImportError:
    print("h5py is missing: skipped")
    sys.exit(77)

SETS = {"wide": ((32768,), "<i4"), "label": ((), "|i1"), "mask": ((3,), "<u2")}


def check(path, rows):
    with h5py.File(path, "r") as file:
        assert sorted(file) == sorted(SETS), list(file)
        for name, (shape, dtype) in SETS.items():
            data = file[name]
            assert data.shape == (rows, *shape) and data.dtype.str == dtype, data
            assert data.compression == "gzip" and data.chunks is not None
            flat = data[...].reshape(-1)
            expected = numpy.arange(flat.size, dtype=numpy.int64) * 7 % 97
            assert (flat == expected).all(), name
            assert (data[rows - 1].reshape(-1) == expected.reshape(rows, -1)[-1]).all(), name


PLAIN = {"input_ids": "<i4", "input_mask": "|i1", "segment_ids": "|i1", "masked_lm_positions": "<i4",
         "masked_lm_ids": "<i4", "next_sentence_labels": "|i1"}
PACKED = {**PLAIN, "input_mask": "<i4", "positions": "<i4", "next_sentence_positions": "<i4",
          "next_sentence_weights": "<i4"}


def check_packed_row(ids, mask, positions, starts, weights):
    for number, (start, weight) in enumerate(zip(starts, weights), 1):
        here = numpy.flatnonzero(mask == number)
        assert bool(weight) == (here.size > 0)
        if weight:
            assert here[0] == start and here[-1] - here[0] + 1 == here.size
            assert (positions[here] == numpy.arange(here.size)).all() and ids[start] == ids[starts[0]]


def check_data(folder):
    rows = instances = tokens = 0
    for path in sorted(folder.glob("*.hdf5")):
        with h5py.File(path, "r") as file:
            packed = "positions" in file
            wanted = PACKED if packed else PLAIN
            assert {name: data.dtype.str for name, data in file.items()} == wanted, path
            assert all(data.compression == "gzip" and data.compression_opts == 4 for data in file.values())
            data = {name: data[...] for name, data in file.items()}
        ids, mask, places = data["input_ids"], data["input_mask"], data["masked_lm_positions"]
        count = len(ids)
        assert all(len(column) == count for column in data.values())
        assert ids.shape == mask.shape == data["segment_ids"].shape
        assert places.shape == data["masked_lm_ids"].shape
        assert ((mask > 0) | (ids == 0)).all() and (numpy.diff((mask > 0).astype(int), axis=1) <= 0).all()
        assert (mask[numpy.arange(count)[:, None], places] > 0).all()
        assert (numpy.count_nonzero(places, axis=1) > 0).all()
        if packed:
            for row in range(count):
                check_packed_row(ids[row], mask[row], data["positions"][row],
                                 data["next_sentence_positions"][row], data["next_sentence_weights"][row])
        rows += count
        instances += int(data["next_sentence_weights"].sum()) if packed else count
        tokens += int((mask > 0).sum())
    assert rows > 0
    print(f"h5py {h5py.__version__} reads {rows} rows, {instances} instances, {tokens} tokens")


def main():
    if sys.argv[1] == "--data":
        check_data(pathlib.Path(sys.argv[2]))
        return
    counts = [int(sys.argv[2])] if len(sys.argv) > 2 else [1, 2, 64, 65, 129]
    with tempfile.TemporaryDirectory() as folder:
        for rows in counts:
            path = pathlib.Path(folder) / f"{rows}.hdf5"
            subprocess.run([sys.argv[1], path, str(rows)], check=True)
            check(path, rows)
    print(f"h5py {h5py.__version__} reads files of {counts} chunks")


main()
