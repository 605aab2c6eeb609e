#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The three runs on the emulated GPU beside the CPU: losses and weights within rounding, the same bytes when
# resumed and on any number of the host's threads. BERTH: the program; GENERATE: the demo's generator; UPDATES: of
# each run, 6 or more.
. "$(dirname "$0")/../cli/lib.sh"
. "$(dirname "$0")/three_runs.sh"
BERTH_MODULE_PATH=$(dirname "$BERTH")
export BERTH_MODULE_PATH
what="data of the three runs"
three_runs_data "$GENERATE" "$work/data" || { echo "no data"; exit 1; }

losses() { # FOLDER
    sed -n 's/.*"loss": *\([0-9.e+-]*\).*/\1/p' "$1/trainer_state.json"
}
# Every loss is that of the CPU but for a relative TOLERANCE.
expect_losses() { # TOLERANCE
    paste <(losses "$work/cpu/$name") <(losses "$work/emulated/$name") |
        awk -v tolerance="$1" -v updates="$UPDATES" '
            { difference = ($1 - $2) / $1; if (difference < 0) difference = -difference; if (difference > most) most = difference }
            END { printf "%d losses, at most %g apart\n", NR, most; exit NR != updates || !(most <= tolerance) }' >"$out" ||
        fail "losses differ from the CPU's"
}
for name in $three_runs; do
    for device in cpu emulated; do
        what="$name, $device"
        three_runs_train "$name" "$BERTH" "$work/data" "$work/$device" --device $device --logging_steps 1 \
            --max_steps "$UPDATES" --save_total_limit 20 || fail "$(tail -3 "$work/$device/$name.log")"
    done
    case $name in *fp32) expect_losses 1e-5 ;; *) expect_losses 0.02 ;; esac
    cmp -s "$work/emulated/$name/model.safetensors" "$work/emulated/$name-resumed/model.safetensors" ||
        fail "other bytes when resumed"
    cmp -s "$work/emulated/$name/model.safetensors" "$work/emulated/start/model.safetensors" &&
        fail "training changed nothing"
done
# fp16 with a loss scale: the static one beside the CPU's bf16, a dynamic one that first overflows.
fp16_run() { # FOLDER FLAG...
    local folder=$1
    shift
    mkdir -p "$work/$folder"
    ln -sfn "$work/emulated/start" "$work/$folder/start"
    three_runs_train squad-fp16 "$BERTH" "$work/data" "$work/$folder" --device emulated --logging_steps 1 \
        --max_steps "$UPDATES" --save_total_limit 20 "$@" || fail "$(tail -3 "$work/$folder/squad-fp16.log")"
    cmp -s "$work/$folder/squad-fp16/model.safetensors" "$work/$folder/squad-fp16-resumed/model.safetensors" ||
        fail "other bytes when resumed"
}
what="fp16, static scale"
fp16_run static --loss_scale 1024
paste <(losses "$work/cpu/squad-bf16") <(losses "$work/static/squad-fp16") |
    awk '{ difference = $1 / $2 - 1; if (difference * difference > 0.02 * 0.02) exit 1 }' || fail "losses differ from the CPU's"
grep -q overflows "$work/static/squad-fp16.log" && fail "an update overflows"

# DeepSpeed's rule with a hysteresis of 2: the first overflow is tolerated, each other one halves the scale.
what="fp16, dynamic scale"
fp16_run dynamic --init_loss_scale 8388608
tr -d ' ",' <"$work/dynamic/squad-fp16/trainer_state.json" | awk -F: -v updates="$UPDATES" '
    $1 == "scale" { scale = $2 } $1 == "skipped_steps" { skipped = $2 }
    END { print skipped " skipped, then " scale; exit !(skipped >= 2 && skipped < updates && scale * 2 ^ (skipped - 1) == 8388608) }
    ' >"$out" || fail "$(cat "$out")"
cmp -s "$work/dynamic/squad-fp16/model.safetensors" "$work/emulated/start/model.safetensors" && fail "training changed nothing"
what="fp16, overflow"
"$BERTH" finetune squad --train "$work/data/train.json" --model "$work/emulated/start" --output "$work/overflow" --device emulated \
    --precision fp16 --max_seq_length 96 --doc_stride 32 --per_device_train_batch_size 4 --max_steps 2 --do_eval false --seed 42 \
    --init_loss_scale 1e12 >"$work/overflow.log" 2>&1 || fail "$(tail -3 "$work/overflow.log")"
for line in "update 1 skipped: the gradient overflows at loss scale 1e+12; hysteresis tolerates it: 1e+12" \
    "update 2 skipped: the gradient overflows at loss scale 1e+12; it is lowered: 5e+11"; do
    grep -qF "$line" "$work/overflow.log" || fail "missing: $line"
done
what="fp16, not on the CPU"
three_runs_train squad-fp16 "$BERTH" "$work/data" "$work/cpu" --device cpu && fail "the CPU trains in fp16"
grep -q "does not support it" "$work/cpu/squad-fp16.log" || fail "$(tail -3 "$work/cpu/squad-fp16.log")"

what="three threads of the host"
three_runs_train squad-bf16 "$BERTH" "$work/data" "$work/threads" --device emulated --logging_steps 1 --threads 3 \
    --max_steps "$UPDATES" --save_total_limit 20 || fail "$(tail -3 "$work/threads/squad-bf16.log")"
cmp -s "$work/emulated/squad-bf16/model.safetensors" "$work/threads/squad-bf16/model.safetensors" || fail "other bytes"
finish
