#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Flips a bit in the memory of a training process from outside. --replica_check_steps must end the run before the next
# checkpoint, naming the rank and the parameter; resuming from the last checkpoint gives the bytes of an undisturbed run.
# tests/train/test_replica_check_ranks.c covers several ranks, every kind of number and both ZeRO layouts. Skipped with
# sanitizers, where it takes minutes to find a number in another process.
. "$(dirname "$0")/../cli/lib.sh"
. "$(dirname "$0")/launch.sh"

[ -z "${SANITIZE:-}" ] || { echo "skipped: a build with sanitizers"; exit 77; }
make_wide_model "$work/model"
make_questions "$work/data.json" 40
tensor=bert.encoder.layer.1.output.dense.weight
settings="$(training_settings) --save_steps 1 --save_total_limit 3 --replica_check_steps 5 --max_steps 120"

# Runs COUNT processes, flips a bit in that of RANK, and waits for the job to end; sets $step.
disturb() { # FOLDER RANK COUNT STARTER...
    local folder=$1 rank=$2 count=$3
    shift 3
    rm -f "$work"/pid.*
    timeout 300 "$@" bash -c 'echo $$ >'"$work"'/pid.${OMPI_COMM_WORLD_RANK-${PMI_RANK-0}} && exec "$0" "$@"' \
        "$BERTH" finetune squad $settings --output "$work/$folder" >"$out" 2>"$err" </dev/null &
    local job=$!
    for i in $(seq 600); do
        [ "$(cat "$work"/pid.* 2>/dev/null | wc -l)" -eq "$count" ] && break
        sleep 0.1
    done
    step=$(python3 -B "$(dirname "$0")/flip_bit.py" "$(cat "$work/pid.$rank")" "$work/$folder" $tensor)
    local flipped=$?
    [ $flipped -ne 77 ] || { echo "skipped: the memory of other processes may not be written here"; kill $job; exit 77; }
    wait $job
    code=$?
    [ $flipped -eq 0 ] || fail "no bit was changed"
}
expect_good() { # FOLDER
    [ "$(ls -d "$work/$1"/checkpoint-* | sort -V | tail -1)" = "$work/$1/checkpoint-$step" ] ||
        fail "not checkpoint-$step but $(ls "$work/$1") is the last"
    [ -z "$(find "$work/$1" -name '*new*')" ] || fail "something half-written is left"
}
expect_same() { # FOLDER UNDISTURBED
    for file in model.safetensors checkpoint-120/optimizer.safetensors; do
        cmp "$work/$1/$file" "$work/$2/$file" || fail "the resumed run has other numbers"
    done
}

what="one process"
disturb alone 0 1 env
expect_code 69
once "this process: the master weight of $tensor, elements "
once "changed in memory after update $step,"
expect_good alone
run finetune squad $settings --output "$work/alone" --resume_from_checkpoint auto
expect_code 0
once "resumed from $work/alone/checkpoint-$step"
run finetune squad $settings --output "$work/undisturbed"
expect_code 0
expect_same alone undisturbed

settings="$settings --virtual_ranks 2 --zero_stage 1"
run finetune squad $settings --output "$work/undisturbed-two"
expect_code 0
for mpi in $(find_mpis); do
    what="$mpi, two processes"
    disturb "$mpi" 1 2 $(launcher_of "$mpi") -n 2
    expect_code 69
    once "rank 1 ($(hostname)): the master weight of $tensor, elements "
    expect_good "$mpi"
    launch "$mpi" 2 finetune squad $settings --output "$work/$mpi" --resume_from_checkpoint auto
    expect_code 0
    once "resumed from $work/$mpi/checkpoint-$step"
    expect_same "$mpi" undisturbed-two
done
finish
