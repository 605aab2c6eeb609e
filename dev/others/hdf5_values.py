# SPDX-License-Identifier: Apache-2.0
"""h5py reads what Berth writes, and can write to it."""
import h5py
import numpy

import shared

SETS = {"wide": ((12288,), "<i4"), "label": ((), "|i1"), "mask": ((3,), "<u2")}


def check(path, rows, more):
    with h5py.File(path, "r") as file:
        assert list(file) == sorted([*SETS, *(f"n{99 - i}" for i in range(more))]), list(file)
        for i in range(more):
            data = file[f"n{99 - i}"]
            assert data.dtype.str == "<u8" and (data[...] == numpy.arange(rows) * 7 % 97).all(), data
        for name, (shape, dtype) in SETS.items():
            data = file[name]
            assert data.shape == (rows, *shape) and data.dtype.str == dtype, data
            assert data.compression == "gzip" and data.chunks is not None
            flat = data[...].reshape(-1)
            expected = numpy.arange(flat.size, dtype=numpy.int64) * 7 % 97
            assert (flat == expected).all(), name
            assert (data[rows - 1].reshape(-1) == expected.reshape(rows, -1)[-1]).all(), name


def check_more(path, rows, more):
    """The files remain valid HDF5 files after changes: rewriting rows moves chunks in their B-tree, data sets
    are added to and removed from the group, and the rest is unchanged."""
    rewritten = numpy.random.default_rng(rows).integers(0, 1 << 31, SETS["wide"][0], dtype="<i4")
    with h5py.File(path, "r+") as file:
        for row in range(0, rows, 2):
            file["wide"][row] = rewritten
        for i in range(20):
            file.create_dataset(f"added{i}", data=numpy.arange(i + 1))
        del file["label"]
    with h5py.File(path, "r") as file:
        assert len(file) == len(SETS) + more - 1 + 20, list(file)
        assert all((file[f"added{i}"][...] == numpy.arange(i + 1)).all() for i in range(20))
        wide = file["wide"][...]
        expected = numpy.arange(wide.size, dtype=numpy.int64).reshape(wide.shape) * 7 % 97
        expected[::2] = rewritten
        assert (wide == expected).all()
        assert (file["mask"][...].reshape(-1) == numpy.arange(3 * rows) * 7 % 97).all()


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


def columns(given):
    rows = instances = tokens = 0
    for path in sorted(given.data.glob("*.hdf5")):
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


def written(given):
    mores = [0, 5, 6, 13]  # up to two full nodes of names
    for i, rows in enumerate((1, 3, 128, 129, 257)):
        path, more = given.work / f"{rows}.hdf5", mores[i % len(mores)]
        shared.run(given.build / "tests/format/write_hdf5", path, rows, more)
        check(path, rows, more)
        check_more(path, rows, more)
