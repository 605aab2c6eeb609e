#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""h5py reads what Berth writes: check_hdf5.py WRITE_HDF5 [ROWS]. Exits 77 where h5py is missing."""
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


def main():
    counts = [int(sys.argv[2])] if len(sys.argv) > 2 else [1, 2, 64, 65, 129]
    with tempfile.TemporaryDirectory() as folder:
        for rows in counts:
            path = pathlib.Path(folder) / f"{rows}.hdf5"
            subprocess.run([sys.argv[1], path, str(rows)], check=True)
            check(path, rows)
    print(f"h5py {h5py.__version__} reads files of {counts} chunks")


main()
