#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Models whose table of token types or whose head is wider than usual, trained on the emulated GPU with texts of many
# lengths: all updates succeed, and the losses are the CPU's. Ranks that share a GPU plan with a part of its memory
# each. BERTH: the program; BERTH_MPIS: the modules for several ranks that were built.
. "$(dirname "$0")/../cli/lib.sh"
. "$(dirname "$0")/../comm/launch.sh"
. "$(dirname "$0")/losses.sh"
. "$(dirname "$0")/wide_model.sh"
BERTH_MODULE_PATH=$(dirname "$BERTH")
export BERTH_MODULE_PATH
cd "$work" || exit 1
wide_model model && wide_texts train.csv || exit 1

train() { # OUTPUT DEVICE [ARGUMENT...]
    run finetune classify --model model --train train.csv --text_column text --label_column label --max_seq_length 60 \
        --train_batch_size 4 --max_steps 20 --learning_rate 1e-3 --logging_steps 1 --precision fp32 --threads 2 \
        --seed 42 --output "$1" --device "$2" "${@:3}"
}
for device in cpu emulated; do
    train $device $device
    expect_code 0
done
what="losses of 20 updates"
expect_losses cpu emulated 20 1e-4

# Of a GPU that has room for one rank and a half.
train planned emulated --dry_run --verbose
expect_code 0
plan=$(awk '$1 == "device_plan_bytes" { printf "%d\n", $2 * ($3 == "MiB" ? 1024 : 1) }' "$out")
[ "${plan:-0}" -gt 0 ] || fail "no plan"
export BERTH_EMULATION_MEMORY=$((plan + plan / 2))
train alone emulated --max_steps 1
expect_code 0
mpi=$(find_mpis | head -n 1)
if [ -z "$mpi" ]; then
    echo "skipped: ranks that share a GPU; there is no MPI"
else
    launch "$mpi" 2 finetune classify --model model --train train.csv --text_column text --label_column label \
        --max_seq_length 60 --train_batch_size 8 --max_steps 1 --precision fp32 --threads 1 --quiet --output shared \
        --device emulated
    expect_code 78
    expect_err "the GPU's memory leaves $((plan * 3 / 4 / 1024)) MiB"
fi
finish
