#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One of two processes on this machine fails, under each MPI: it is stopped, receives a signal, or loses the lock of the
# output folder and so fails alone. The job must end soon, with an error that names the rank, and leave no process
# behind; another number of processes resumes it. A job that is suspended goes on. A slow process is named. That no
# other process is named is tested by train_stragglers, because any process may be slow while other tests run.
# dev/check-faults does more, on several hosts.
. "$(dirname "$0")/../cli/lib.sh"
. "$(dirname "$0")/launch.sh"
export OMP_WAIT_POLICY=passive

make_model "$work/model"
make_questions "$work/data.json" 40
slow_build=${SANITIZE:-}${BERTH_SLOW_BUILD:-}
# Some seconds; the schedule does not depend on the number of updates.
settings="$(training_settings) --num_train_epochs 1000 --max_steps 4000 --schedule constant --save_steps 30
    --virtual_ranks 2 --async_save"

# Prints the id of a rank's process: by default the second's.
find_process() { # PATH [RANK]
    local exe pid
    for exe in /proc/[0-9]*/exe; do
        pid=${exe%/exe}
        [ "$(readlink "$exe")" = "$BERTH" ] && grep -qF -- "$1" "$pid/cmdline" &&
            tr '\0' '\n' 2>/dev/null <"$pid/environ" | grep -qE "^(OMPI_COMM_WORLD_RANK|PMI_RANK)=${2:-1}\$" &&
            echo "${pid#/proc/}"
    done
}
# Runs a job and executes COMMAND after its first checkpoint.
disturb() { # NAME COMMAND...
    local name=$1 start job
    shift
    what="$mpi, $name"
    rm -rf "$work/run"
    timeout 200 $(launcher_of "$mpi") -n 2 "$BERTH" finetune squad $settings --comm_timeout 3 --output "$work/run" \
        >"$out" 2>"$err" </dev/null &
    job=$!
    until ls -d "$work"/run/checkpoint-* >/dev/null 2>&1 || ! kill -0 $job; do sleep 0.05; done
    process=$(find_process "$work/run")
    "$@"
    start=$(date +%s)
    wait $job
    code=$?
    # 3 s and what an MPI's launcher takes; a job that does not end by itself is ended after 200 s.
    [ $(($(date +%s) - start)) -le 60 ] || fail "it took $(($(date +%s) - start)) s"
    for _ in $(seq 100); do
        [ -n "$(find_process "$work/run")" ] || return 0
        sleep 0.1
    done
    fail "a process is left"
}
resume() { # PROCESSES: for some updates more, as in a run that nothing disturbed
    local last
    last=$(ls -d "$work"/run/checkpoint-* | sed 's/.*-//' | sort -n | tail -n 1)
    rm -rf "$work/undisturbed"
    run finetune squad $settings --max_steps $((last + 50)) --output "$work/undisturbed"
    expect_code 0
    launch "$mpi" "$1" finetune squad $settings --max_steps $((last + 50)) --resume_from_checkpoint auto --output "$work/run"
    expect_code 0
    cmp -s "$work/undisturbed/model.safetensors" "$work/run/model.safetensors" || fail "other bytes"
}
stop_process() { kill -STOP "$process"; }
# Stops the whole job for longer than the deadline, as a scheduler does, one host after the other.
suspend_job() {
    local first
    first=$(find_process "$work/run" 0)
    kill -STOP "$process"
    sleep 0.5 # the first rank waits for it
    kill -STOP "$first"
    sleep 5
    kill -CONT "$first"
    sleep 2.5
    kill -CONT "$process"
    sleep 1
    signal_process
}
signal_process() { kill -TERM "$process"; }
# Lets the process run for a tenth of the time until it is reported as slow, or its job's 200 s are over; then asks it to
# stop.
slow_process() {
    until grep -qF " is slow: " "$err" || ! kill -STOP "$process"; do
        sleep 0.3
        kill -CONT "$process" && sleep 0.03
    done
    kill -TERM "$process"
}
lose_lock() { rm "$work/run/.lock"; }
ticks_of_process() { # of processor time
    local fields=()
    read -ra fields 2>/dev/null <"/proc/$process/stat"
    echo $((${fields[13]:-0} + ${fields[14]:-0}))
}
exec {nothing}<> <(:)
pause() { # for 5 ms, in the shell itself
    read -rt 0.005 -u "$nothing"
}
evaluations() {
    grep -c '^eval:' "$err"
}
# Gives the process 30 ms of processor time every second, until there are so many evaluations.
crawl() { # EVALUATIONS
    local before
    while kill -STOP "$process" 2>/dev/null && [ "$(evaluations)" -lt "$1" ]; do
        sleep 1
        before=$(ticks_of_process)
        kill -CONT "$process"
        while kill -0 "$process" 2>/dev/null && [ "$(ticks_of_process)" -lt $((before + 3)) ]; do pause; done
    done
    kill -CONT "$process"
}
slow_evaluation() {
    local done began
    done=$(evaluations)
    crawl $((done + 1))
    began=$SECONDS
    crawl $((done + 2))
    [ $((SECONDS - began)) -ge 4 ] || fail "an evaluation took only $((SECONDS - began)) s"
    signal_process
}
stop_saving() {
    until compgen -G "$work/run/.tmp-checkpoint-*" >/dev/null || ! kill -0 $job 2>/dev/null; do pause; done
    stop_process
}
is_late() { # PHASE: of the second rank, which is stopped
    grep -qE "berth: error: rank 1 on host .* did not arrive at .* $1 \(comm_timeout 3 s\): it does not answer" "$err"
}
# Stops the process; tries up to five times to do so in this phase.
stop_in() { # PHASE COMMAND...
    local phase=$1 try
    shift
    for try in {1..5}; do
        disturb "a rank that is stopped $phase" "$@"
        expect_code 69
        ! is_late "$phase" || return
    done
    fail "the rank is not named $phase"
}
# While they evaluate or save, ranks may exchange nothing for longer than the deadline. Skipped in a slow build, in which
# an evaluation that gets 3 % of the time takes minutes.
try_long_phases() {
    make_questions "$work/long.json" 900
    settings="$(training_settings) --model $work/wide --num_train_epochs 1000 --max_steps 10000 --save_steps 2
        --dev $work/long.json --eval_steps 2 --predict_batch_size 128"
    disturb "evaluations that take longer than the deadline" slow_evaluation
    expect_code 75
    stop_in "in the evaluation after update [0-9]+" stop_process
    settings="$settings --save_steps 1 --eval_steps 0"
    stop_in "saving update [0-9]+" stop_saving
}

tried=0
for mpi in $(find_mpis); do
    tried=1
    disturb "a rank that is stopped" stop_process
    expect_code 69
    grep -qE 'berth: error: rank 1 on host .* did not arrive at .* (in|saving) update [0-9]+ \(comm_timeout 3 s\): it does not answer' \
        "$err" || fail "the rank is not named"
    resume 1
    disturb "a signal to one rank" signal_process
    expect_code 75
    once "stopped on request after update"
    once "everything is saved"
    resume 2
    disturb "a job that is suspended" suspend_job
    expect_code 75
    # Only the first rank notices. The other one may then be in any exchange or agreement.
    disturb "a rank that fails alone" lose_lock
    expect_code 74
    once "berth: error: "
    once "berth: error: rank 0 on host $(hostname): "
    once "the lock of this run is lost"
done
if [ $tried -eq 1 ]; then
    make_wide_model "$work/wide"
    settings="$settings --model $work/wide --max_steps 20000 --save_steps 10"
    disturb "a rank that is slow" slow_process
    expect_code 75
    grep -qE 'berth: warning: rank 1 on host .* is slow: it computes [0-9.]+ times as long as others for the same work' \
        "$err" || fail "the rank is not named"
    [ -n "$slow_build" ] || try_long_phases
fi
[ $tried -eq 1 ] || { echo "skipped: no mpirun or mpiexec of an MPI that a module was built for"; exit 77; }
finish
