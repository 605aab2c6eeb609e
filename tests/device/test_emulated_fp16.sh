#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fp16 on the emulated GPU: with a static loss scale beside the CPU's bf16, with a dynamic one that first
# overflows, each with the same bytes when resumed. BERTH: the program; GENERATE: the demo's generator.
. "$(dirname "$0")/../cli/lib.sh"
. "$(dirname "$0")/three_runs.sh"
. "$(dirname "$0")/losses.sh"
BERTH_MODULE_PATH=$(dirname "$BERTH")
export BERTH_MODULE_PATH
UPDATES=6
what="data"
three_runs_data "$GENERATE" "$work/data" || { echo "no data"; exit 1; }
three_runs_start "$BERTH" "$work/data" "$work" || { echo "no model"; exit 1; }

fp16_run() { # FOLDER FLAG...
    local folder=$1
    shift
    mkdir -p "$work/$folder"
    ln -sfn "$work/start" "$work/$folder/start"
    three_runs_train squad-fp16 "$BERTH" "$work/data" "$work/$folder" --device emulated --logging_steps 1 \
        --max_steps "$UPDATES" --save_total_limit 20 "$@" || fail "$(tail -3 "$work/$folder/squad-fp16.log")"
    cmp -s "$work/$folder/squad-fp16/model.safetensors" "$work/$folder/squad-fp16-resumed/model.safetensors" ||
        fail "other bytes when resumed"
}
what="bf16 on the CPU"
mkdir -p "$work/cpu"
ln -sfn "$work/start" "$work/cpu/start"
three_runs_train squad-bf16 "$BERTH" "$work/data" "$work/cpu" --device cpu --logging_steps 1 --max_steps "$UPDATES" ||
    fail "$(tail -3 "$work/cpu/squad-bf16.log")"
what="static scale"
fp16_run static --loss_scale 1024
expect_losses "$work/cpu/squad-bf16" "$work/static/squad-fp16" "$UPDATES" 0.02
grep -q '"skipped_steps": 0' "$work/static/squad-fp16/trainer_state.json" || fail "an update overflows"

# DeepSpeed's rule with a hysteresis of 2: the first overflow is tolerated, each other one halves the scale.
what="dynamic scale"
fp16_run dynamic --init_loss_scale 33554432
tr -d ' ",' <"$work/dynamic/squad-fp16/trainer_state.json" | awk -F: -v updates="$UPDATES" '
    $1 == "scale" { scale = $2 } $1 == "skipped_steps" { skipped = $2 }
    END {
        print skipped " skipped, then " scale
        exit !(skipped >= 2 && skipped < updates && scale * 2 ^ (skipped - 1) == 33554432)
    }' >"$out" || fail "$(cat "$out")"
cmp -s "$work/dynamic/squad-fp16/model.safetensors" "$work/start/model.safetensors" && fail "training changed nothing"
what="overflow"
"$BERTH" finetune squad --train "$work/data/train.json" --model "$work/start" --output "$work/overflow" \
    --device emulated --precision fp16 --max_seq_length 96 --doc_stride 32 --per_device_train_batch_size 4 --max_steps 2 \
    --do_eval false --seed 42 --init_loss_scale 1e12 >"$work/overflow.log" 2>&1 || fail "$(tail -3 "$work/overflow.log")"
for line in "update 1 skipped: the gradient overflows at loss scale 1e+12; hysteresis tolerates it: 1e+12" \
    "update 2 skipped: the gradient overflows at loss scale 1e+12; it is lowered: 5e+11"; do
    grep -qF "$line" "$work/overflow.log" || fail "missing: $line"
done
what="not on the CPU"
three_runs_train squad-fp16 "$BERTH" "$work/data" "$work/cpu" --device cpu && fail "the CPU trains in fp16"
grep -q "does not support it" "$work/cpu/squad-fp16.log" || fail "$(tail -3 "$work/cpu/squad-fp16.log")"

finish
