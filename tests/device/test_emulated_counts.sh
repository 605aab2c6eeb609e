#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Launches, and bytes of device memory, of training on the emulated GPU. The module with counted loads and stores ends
# the run if a launch differs from its cost; a dry run has the same costs; an update is
# fetched once, which is the only time that the host waits. BERTH: the program.
. "$(dirname "$0")/../cli/lib.sh"
cd "$work" || exit 1
make_model start 64
make_dataset train.json

train() { # FILE-BESIDE-THE-MODULE COUNTS UPDATES [ARGUMENT...]
    rm -rf trained
    BERTH_MODULE_PATH=$(dirname "$1") BERTH_EMULATION_COUNTS=$2 run finetune squad --model start --train train.json \
        --max_seq_length 40 --doc_stride 16 --max_query_length 16 --seed 42 --train_batch_size 4 \
        --per_device_train_batch_size 2 --learning_rate 1e-3 --device emulated --threads 2 --output trained --quiet \
        --max_steps "$3" "${@:4}"
    expect_code 0
}
launches() { # COUNTS NAME
    awk -F '\t' -v name="$2" '$1 == name { found = $2 } END { print found + 0 }' "$1"
}
for precision in fp32 bf16; do
    what="$precision: counted"
    train "$COUNTED" counted 4 --precision $precision --replica_check_steps 2
    [ "$(launches counted "matrix product")" -gt 100 ] || fail "counts: $(cat counted)"
    cp trained/model.safetensors of-counted
    what="$precision: not counted"
    train "$BERTH" plain 4 --precision $precision --replica_check_steps 2
    cmp -s trained/model.safetensors of-counted || fail "other weights"
    what="$precision: the plan of a run that computes nothing"
    BERTH_EMULATION_DRY=1 train "$BERTH" planned 4 --precision $precision --replica_check_steps 2
    for other in plain planned; do
        cmp <(cut -f 1-5 counted) <(cut -f 1-5 $other) >"$out" ||
            fail "$(diff <(cut -f 1-5 counted) <(cut -f 1-5 $other))"
    done
done
what="an update more"
train "$BERTH" four 4 --precision bf16 --save_strategy no
train "$BERTH" five 5 --precision bf16 --save_strategy no
more() { # NAME
    echo $(($(launches five "$1") - $(launches four "$1")))
}
[ "$(more download)" = 1 ] || fail "$(more download) downloads"
[ "$(more upload)" = 2 ] || fail "$(more upload) uploads"
[ "$(more "host wait")" = 1 ] || fail "the host waits $(more "host wait") times"
[ "$(more mark)" = 8 ] || fail "$(more mark) marks" # three a micro-batch, and two of the step
[ "$(more adamw)" -ge 1 ] || fail "no step"
[ "$(more checksums)" = 0 ] || fail "checksums that nobody wants"
# One more copy, in a stream of its own, which a GPU has done when the host has the sums of the update.
what="an update more, with checks"
train "$BERTH" four 4 --precision bf16 --save_strategy no --replica_check_steps 1000
train "$BERTH" five 5 --precision bf16 --save_strategy no --replica_check_steps 1000
[ "$(more download)" = 2 ] || fail "$(more download) downloads"
[ "$(more "host wait")" = 2 ] || fail "the host waits $(more "host wait") times"
[ "$(more checksums)" -ge 8 ] || fail "$(more checksums) times checksums"
finish
