#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The three runs on the emulated GPU beside the CPU: losses and weights within rounding, the same bytes when
# resumed and on any number of the host's threads. BERTH: the program; GENERATE: the demo's generator; UPDATES: of
# each run, 6 or more.
. "$(dirname "$0")/../cli/lib.sh"
. "$(dirname "$0")/three_runs.sh"
. "$(dirname "$0")/losses.sh"
BERTH_MODULE_PATH=$(dirname "$BERTH")
export BERTH_MODULE_PATH
what="data of the three runs"
three_runs_data "$GENERATE" "$work/data" || { echo "no data"; exit 1; }

for name in $three_runs; do
    for device in cpu emulated; do
        what="$name, $device"
        three_runs_train "$name" "$BERTH" "$work/data" "$work/$device" --device $device --logging_steps 1 \
            --max_steps "$UPDATES" --save_total_limit 20 || fail "$(tail -3 "$work/$device/$name.log")"
    done
    what="$name, losses"
    case $name in *fp32) tolerance=1e-5 ;; *) tolerance=0.02 ;; esac
    expect_losses "$work/cpu/$name" "$work/emulated/$name" "$UPDATES" $tolerance
    cmp -s "$work/emulated/$name/model.safetensors" "$work/emulated/$name-resumed/model.safetensors" ||
        fail "other bytes when resumed"
    cmp -s "$work/emulated/$name/model.safetensors" "$work/emulated/start/model.safetensors" &&
        fail "training changed nothing"
done
what="three threads of the host"
three_runs_train squad-bf16 "$BERTH" "$work/data" "$work/threads" --device emulated --logging_steps 1 --threads 3 \
    --max_steps "$UPDATES" --save_total_limit 20 || fail "$(tail -3 "$work/threads/squad-bf16.log")"
cmp -s "$work/emulated/squad-bf16/model.safetensors" "$work/threads/squad-bf16/model.safetensors" || fail "other bytes"
finish
