#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Several processes on this machine under the launcher of each MPI: messages and communicators work,
# and a launch that cannot work is an error with a remedy, never several jobs.
. "$(dirname "$0")/../cli/lib.sh"
. "$(dirname "$0")/launch.sh"
export OMP_NUM_THREADS=1
modules=$(dirname "$BERTH")

two=$(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0))[:2], sep=",")')

expect_lines() { # COUNT PATTERN
    [ "$(grep -cE -- "$2" "$out")" -eq "$1" ] || fail "not $1 lines like \"$2\""
}

# Launchers end all processes when one of them fails, so each one's code goes to a file.
cat >"$work/each.sh" <<'END'
"${@:2}"
echo $? >>"$1"
END
# Two processes and one that does not connect to them: these end, and one of them says which one has not come.
without_third() { # MPI TEXT SCRIPT: of the third one
    local variable
    [ "$1" = openmpi ] && variable=OMPI_COMM_WORLD_SIZE || variable=PMI_SIZE
    what="$1, two processes and one that runs \"$3\""
    : >"$work/codes"
    timeout 120 $(launcher_of "$1") -n 2 bash "$work/each.sh" "$work/codes" "$BERTH" embed --model "$work/model" "$work/texts" \
        --start_timeout 3 : -n 1 bash -c "$3" "$work/codes" >"$out" 2>"$err" </dev/null
    code=$?
    [ "$code" -ne 124 ] || fail "they wait"
    # The launcher may end the second process before it ends by itself.
    [ "$(sort -u "$work/codes")" = 69 ] || fail "exit codes of the processes: $(tr '\n' ' ' <"$work/codes")"
    once "berth: error: "
    once "berth: error: rank 0 on host $(hostname): the job has not started within 3 s (start_timeout 3 s): "
    once " announced 3 processes ($variable), 3 of them on this host; not come: rank 2 ("
    grep -qE -- "not come: rank 2 \($2\)" "$err" || fail "not \"$2\""
}

mpis=$(find_mpis)
for mpi in $mpis; do
    export BERTH_MODULE_PATH=$modules # for the programs of the tests, which are elsewhere
    for count in 2 4; do
        launch_program "$mpi" $count "$LAUNCHED" "$mpi"
        expect_code 0
        expect_lines $count "^$mpi process [0-9] of $count, (Open MPI|MPICH).*: 0 wrong\$"
        launch_program "$mpi" $count "$LAUNCHED" auto ranks 100000
        expect_code 0
        expect_lines $count "^$mpi rank [0-9] of $count, local rank [0-9] of $count on host 0 of 1, .*: 0 wrong\$"
    done
    launch_program "$mpi" 2 "$LAUNCHED" "$mpi" stay
    expect_code 75
    launch_program "$mpi" 2 "$LAUNCHED" "$mpi" again
    expect_code 0
    expect_lines 4 "^$mpi process [0-9] of 2, .*: 0 wrong\$"
    launch_program "$mpi" 2 "$LAUNCHED" "$mpi" letter "$work/letter-$mpi"
    expect_code 0
    expect_lines 1 '^from process 0: 17$'
    # What Open MPI reads from the environment when it is initialized.
    if [ "$mpi" = openmpi ]; then
        seen="--mca mpi_show_mca_params environment $LAUNCHED openmpi"
        launch_program openmpi 2 $seen
        for limit in eager_limit rndv_eager_limit max_send_size; do
            grep -qF "btl_tcp_$limit=1000000 (environment)" "$out" "$err" || fail "Open MPI's btl_tcp_$limit is not raised"
        done
        launch_program openmpi 2 --mca btl_tcp_max_send_size 200000 $seen
        expect_code 0
        grep -qF "btl_tcp_max_send_size=200000 (environment)" "$out" "$err" || fail "not the user's limit"
        ! grep -qF "btl_tcp_eager_limit" "$out" "$err" || fail "another limit than the user's was set"
    fi
    unset BERTH_MODULE_PATH

    launch_program "$mpi" 2 "$BERTH" doctor --json
    expect_code 0
    expect_lines 2 "\"comm\":\"$mpi\",\"ranks\":2,\"rank\":[01],\"ranks_of_host\":2,\"hosts\":1"
    expect_lines 2 "\"comm_modules\":\"[^\"]*$mpi \\("
    launch_program "$mpi" 1 "$BERTH" doctor
    expect_code 0
    expect_lines 1 '^comm +self$'
    what="$mpi without a launcher"
    "$BERTH" doctor --comm "$mpi" >"$out" 2>"$err"
    code=$?
    expect_code 0
    expect_lines 1 "^comm +$mpi\$"
    expect_lines 1 '^ranks +1$'

    # Ranks that may run on the same processors divide them among themselves.
    if [[ $two == *,* ]]; then
        unset OMP_NUM_THREADS
        launch_program "$mpi" 2 taskset -c "$two" "$BERTH" doctor
        expect_code 0
        expect_lines 2 '^threads +1$'
        expect_err '2 ranks of this host may run on the same 2 processors'
        expect_lines 1 "^processors_usable +${two%,*}\$"
        expect_lines 1 "^processors_usable +${two#*,}\$"
        # OpenMP would bind both ranks to the first place.
        launch_program "$mpi" 2 taskset -c "$two" env OMP_PROC_BIND=true "$BERTH" doctor
        expect_lines 1 "^processors_usable +${two%,*}\$"
        expect_lines 1 "^processors_usable +${two#*,}\$"
        launch_program "$mpi" 2 taskset -c "$two" env OMP_PLACES=cores OMP_NUM_THREADS=2 "$BERTH" doctor
        expect_lines 2 "^processors_usable +${two%,*}[-,]${two#*,}\$"
        expect_lines 2 '^threads +2$'
        expect_err 'OMP_PROC_BIND or OMP_PLACES would bind 2 ranks'
        launch_program "$mpi" 2 bash -c 'exec taskset -c $(((PMI_RANK + OMPI_COMM_WORLD_RANK) ? '"${two#*,} : ${two%,*}"')) "$0" doctor' \
            "$BERTH"
        expect_code 0
        expect_lines 2 '^threads +1$'
        expect_no "$err" 'may run on the same'
        export OMP_NUM_THREADS=2
        launch_program "$mpi" 2 taskset -c "${two%,*}" "$BERTH" doctor
        expect_lines 2 '^threads +2$'
        expect_no "$err" 'may run on the same'
        [ "$mpi" != openmpi ] || expect_err 'mpirun binds the 2 ranks of this host to 1 of '
        export OMP_NUM_THREADS=1
    fi

    # The program's own MPI knows the ranks where the launcher is unknown: one of them writes the result.
    [ -d "$work/model" ] || make_model "$work/model"
    [ -f "$work/data.json" ] || make_questions "$work/data.json" 8
    launch_program "$mpi" 2 env BERTH_MODULE_PATH="$modules" "$MPI_PROGRAM" "$modules/berth-comm-$mpi.so" "$work/model" \
        "$work/data.json" "$work/trained-$mpi"
    expect_code 0
    expect_lines 1 "^$work/trained-$mpi also contains the result as torch\$"

    # Processes that do not come, or come late.
    printf 'hello\nworld\n' >"$work/texts"
    without_third "$mpi" 'process [0-9]+, (bash|sleep), runs, but is not Berth' \
        'until [ -s "$0" ]; do sleep 0.1; done'
    without_third "$mpi" 'no such process: it has ended, or was not started' true
    without_third "$mpi" 'process [0-9]+, bash, is stopped' \
        '(until [ -s "$0" ]; do sleep 0.1; done; kill -CONT $$) & kill -STOP $$'
    launch_program "$mpi" 2 bash -c 'sleep ${OMPI_COMM_WORLD_RANK-$PMI_RANK}; exec "$0" "$@"' "$BERTH" embed \
        --model "$work/model" "$work/texts" --start_timeout 0
    expect_code 0
    expect_lines 2 '^{"index":[01],"embedding":'

    # A process that is stopped after the work, when MPI waits for all.
    if [ -z "$SANITIZE" ]; then
        launch_program "$mpi" 2 bash -c \
            '[ "${OMPI_COMM_WORLD_RANK-$PMI_RANK}" = 0 ] || export LD_PRELOAD=$0; exec "$@"' "$STOP_AT_END" \
            "$BERTH" embed --model "$work/model" "$work/texts" --comm_timeout 3
        expect_code 69
        expect_lines 2 '^{"index":[01],"embedding":'
        expect_err "berth: error: rank 0: the work is done, but not all processes of the job have ended in 3 s (comm_timeout)"
    fi

    # Launches that cannot work.
    launch_program "$mpi" 2 "$BERTH" doctor --comm self
    expect_code 78
    expect_err 'each process would run the whole job'
    for other in openmpi mpich; do
        [ "$other" != "$mpi" ] || continue
        launch_program "$mpi" 2 "$BERTH" doctor --comm "$other"
        expect_code 78
        expect_err "which is for $mpi and not for $other"
        launch_program "$mpi" 2 env BERTH_MODULE_PATH="$modules" "$LAUNCHED" "$other"
        if [[ " $BERTH_MPIS " == *" $other "* ]]; then
            expect_code 78
            expect_err 'connects 1 of the 2 processes'
        else
            expect_code 69
        fi
    done
    mkdir -p "$work/bare"
    cp "$BERTH" "$work/bare/berth"
    launch_program "$mpi" 2 "$work/bare/berth" doctor
    expect_code 69
    expect_err "no berth-comm-$mpi.so in $work/bare, "
    expect_lines 2 '^comm_modules +none$'
    launch_program "$mpi" 2 env BERTH_MODULE_PATH="/nowhere:$modules" "$work/bare/berth" doctor
    expect_code 0
    echo 'no library' >"$work/bare/berth-comm-$mpi.so"
    launch_program "$mpi" 2 "$work/bare/berth" doctor
    expect_code 69
    expect_err "cannot open $work/bare/berth-comm-$mpi.so: "
    rm "$work/bare/berth-comm-$mpi.so"
done
# What Slurm says: two processes on each of two hosts; this is the second one of the second host.
what="a process of srun that waits"
SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=3 PMIX_RANK=3 SLURM_STEP_TASKS_PER_NODE="2(x2)" SLURM_NODEID=1 SLURM_LOCALID=1 \
    "$LAUNCHED" auto expect >"$out" 2>"$err"
code=$?
expect_code 69
expect_err "rank 3 on host $(hostname): the job has not started within 0.5 s (start_timeout 0.5 s): srun of Slurm announced 4 \
processes (SLURM_STEP_NUM_TASKS), 2 of them on this host; not come: local rank 0 (no such process: "
expect_err ", rank 3 (process "
expect_err ", launched, runs, but has not begun to connect)"
run doctor --comm none
expect_code 2
expect_err 'expected one of auto, self, openmpi, mpich'
[ -n "$mpis" ] || { echo "no MPI and its launcher are installed: skipped"; exit 77; }
finish
