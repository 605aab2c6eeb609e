#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests that berth inspect lists the data sets of other programs' pre-training data, and names what is
# damaged.
. "$(dirname "$0")/lib.sh"
data=$(cd "$(dirname "$0")/../data/pretraining" && pwd)

run inspect "$data/nvidia.hdf5"
expect_code 0
expect_out 'I32   [16, 32]         input_ids'
expect_out 'I8    [16]             next_sentence_labels'
[ "$(grep -c '\[16' "$out")" = 6 ] || fail "expected six data sets: $(cat "$out")"

run inspect "$data/habana.hdf5" --json
expect_code 0
for name in input_ids input_mask segment_ids positions masked_lm_positions masked_lm_ids \
    next_sentence_positions next_sentence_labels next_sentence_weights; do
    expect_out "\"name\":\"$name\""
done

run inspect "$data/one-chunk/one-chunk.hdf5"
expect_code 0
expect_out '20000 instances of '

# The longest shape that a file can name is shown to its end.
most=9223372036854775807
head="{\"a\": {\"dtype\": \"F32\", \"shape\": [0, $most, $most, $most, $most, $most, $most, $most], \"data_offsets\": [0, 0]}}"
{ printf "\\x$(printf %x ${#head})\0\0\0\0\0\0\0" && printf %s "$head"; } >"$work/long.safetensors"
run inspect "$work/long.safetensors"
expect_code 0
expect_out "[0, $most, $most, $most, $most, $most, $most, $most] a"

head -c 10000 "$data/nvidia.hdf5" >"$work/cut.hdf5"
run inspect "$work/cut.hdf5"
expect_code 65
expect_err 'truncated'

# Rows are read and counted; packed ones hold the same instances.
run inspect "$data/nvidia.hdf5"
expect_out '16 instances of '
expect_out ' in 16 rows of 1 file, rows of 32 tokens '
run inspect "$data/habana.hdf5"
expect_out '16 instances of '
run inspect "$data"
expect_code 0
expect_out '32 instances of '
expect_out ' of 2 files'
run inspect "$data" --json
expect_out '"data":{"files":2,'
printf 'no record' >"$work/a.tfrecord"
run inspect "$work/a.tfrecord"
expect_code 65
expect_err 'a.tfrecord'
mkdir "$work/folder" && cp "$data/nvidia.hdf5" "$work/folder" && cp "$work/cut.hdf5" "$work/folder"
run inspect "$work/folder"
expect_code 65
expect_err 'cut.hdf5'
# Folders without data or a model.
mkdir -p "$work/above/data" && cp "$data/nvidia.hdf5" "$work/above/data" && mkdir "$work/empty"
for folder in "$work/empty" "$work/above"; do
    run inspect "$folder"
    expect_code 66
    expect_err "or files *.hdf5 or *.tfrecord of pre-training data"
done
# A file that only its name calls HDF5.
head -c 20000 /dev/zero >"$work/named.hdf5"
run inspect "$work/named.hdf5"
expect_code 65
expect_err "not an HDF5 file"
finish
