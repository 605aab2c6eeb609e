#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests the program as one of several processes: a verb that writes stops immediately with 78 and says what to
# do instead; a verb that does not write, and a single process, run. Uses the variables of every launcher, and
# mpirun of Open MPI and torchrun if they are installed.
. "$(dirname "$0")/lib.sh"
unset "${!SLURM_@}" "${!OMPI_@}" "${!PMI_@}" "${!PMIX_@}" "${!MV2_@}" WORLD_SIZE RANK LOCAL_RANK
# MPIs keep memory until the end.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
make_model "$work/model"
printf 'hello\n' >"$work/text"
init="init --config $work/config.json --output $work/made"

with() { # VARIABLES... -- WORDS...
    variables=()
    while [ "$1" != -- ]; do
        variables+=("$1")
        shift
    done
    shift
    what="${variables[*]} berth $*"
    env "${variables[@]}" "$BERTH" "$@" >"$out" 2>"$err" </dev/null
    code=$?
}
refused() { # NAME RANK SIZE VARIABLES...
    name=$1 rank=$2 size=$3
    shift 3
    with "$@" -- $init
    expect_code 78
    expect_err "process $rank of $size by $name"
    [ ! -e "$work/made" ] || fail "something was written"
    # Nothing connects these processes, with or without an MPI, which does not free all of its memory.
    with "$@" "ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0" -- doctor
    [ "$code" -eq 78 ] || [ "$code" -eq 69 ] || fail "exit code $code, expected 78 or 69"
    grep -qE "^launcher +$name" "$out" || fail "no launcher"
    grep -qE "^processes +$size$" "$out" || fail "no number of processes"
    grep -qE "^process_rank +$((rank - 1))$" "$out" || fail "no rank"
}
alone() { # VARIABLES...
    with "$@" -- $init
    expect_code 0
    rm -rf "$work/made"
}
refused 'mpirun of Open MPI' 3 4 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=2 PMIX_RANK=2
refused 'mpirun of MVAPICH2' 1 2 MV2_COMM_WORLD_SIZE=2 MV2_COMM_WORLD_RANK=0
refused 'mpiexec of MPICH' 2 2 PMI_SIZE=2 PMI_RANK=1
refused 'srun of Slurm' 2 2 PMI_SIZE=2 PMI_RANK=1 PMI_JOBID=7.0
refused 'srun of Slurm' 2 4 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=1 PMIX_RANK=1
refused 'torchrun or deepspeed' 2 8 WORLD_SIZE=8 RANK=1 LOCAL_RANK=1
refused 'torchrun or deepspeed' 1 2 WORLD_SIZE=2 LOCAL_RANK=0
refused 'torchrun or deepspeed' 1 4 WORLD_SIZE=4 # a job's script that tells no rank
refused 'srun of Slurm' 4 4 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=3 SLURM_NTASKS=4
refused 'a launcher with PMIx' 2 2 PMIX_RANK=1
# torchrun within one MPI process, mpirun within one process of torchrun's.
refused 'torchrun or deepspeed' 1 2 OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0 WORLD_SIZE=2 RANK=0
refused 'mpirun of Open MPI' 2 2 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 WORLD_SIZE=1 RANK=0
alone OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0 PMIX_RANK=0
alone SLURM_NTASKS=4 SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NNODES=2 # within sbatch or salloc
alone SLURM_STEP_NUM_TASKS=1 SLURM_NTASKS=4
alone SLURM_STEP_NUM_TASKS=4 OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0 # mpirun -n 1 in a job
alone WORLD_SIZE=1 RANK=0
alone WORLD_SIZE=many RANK=0
with OMPI_COMM_WORLD_SIZE=1 -- doctor
grep -qE '^processes +1$' "$out" || fail "not one process"
run doctor
grep -qE '^launcher +none$' "$out" || fail "a launcher without one"

# Every verb is of one kind.
declare -A kinds
for verb in finetune predict convert init fetch prepare pack vocab pretrain; do
    kinds[$verb]=writes
done
for verb in evaluate answer show tokenize features embed inspect compare verify bench doctor; do
    kinds[$verb]=reads
done
run --help
sed -n 's/^  \([a-z][a-z]*\) \([a-z]*\) .*/\1 \2/p' "$out" | sed '/^berth/d' >"$work/verbs"
while read -r verb task; do
    what="berth $verb $task of several processes"
    kind=${kinds[$verb]:-}
    [ "$verb $task" != 'evaluate pretrain' ] || kind=writes
    [ -n "$kind" ] || fail "neither a verb that writes nor one that does not"
    words=
    case "$verb $task" in
    'finetune '*) words="--model m --train t --output $work/made" ;;
    'predict '*) words="--model m --input t --output $work/made" ;;
    'evaluate pretrain') words="--model m --output $work/made" ;;
    'pretrain '*) words="--input_dir d --output $work/made" ;;
    'convert ') words="$work/model $work/made --to nvidia" ;;
    'init ') words="--config tiny --output $work/made" ;;
    'fetch ') words="some/model" ;;
    'prepare ') words="--text $work/text --vocab $work/model/vocab.txt --output $work/made" ;;
    'pack ') words="$work/made $work/made2" ;;
    'vocab ') words="--text $work/text --output $work/made" ;;
    *)
        [ "$kind" = reads ] || fail "it has not been tried"
        continue
        ;;
    esac
    PMI_SIZE=2 "$BERTH" $verb ${task:+$task} $words >"$out" 2>"$err" </dev/null
    code=$?
    expect_code 78
    expect_err 'mpiexec of MPICH'
    [ ! -e "$work/made" ] || fail "something was written"
done <"$work/verbs"
[ "$(wc -l <"$work/verbs")" -ge 20 ] || fail "verbs are missing in the help"

with PMI_SIZE=2 -- embed --model "$work/model" "$work/text" --output "$work/made.npy"
expect_code 78
with PMI_SIZE=2 -- embed --model "$work/model" "$work/text" --threads 1
expect_code 0
with PMI_SIZE=2 -- tokenize --vocab "$work/model/vocab.txt" "$work/text"
expect_code 0

# The launchers themselves.
if command -v mpirun >/dev/null && mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
    launch="mpirun --allow-run-as-root --oversubscribe"
    what="mpirun -n 2"
    $launch -n 2 "$BERTH" $init >"$out" 2>"$err" </dev/null
    code=$?
    expect_code 78
    expect_err 'of 2 by mpirun of Open MPI (OMPI_COMM_WORLD_SIZE is 2)'
    [ ! -e "$work/made" ] || fail "something was written"
    what="mpirun -n 1"
    $launch -n 1 "$BERTH" $init >"$out" 2>"$err" </dev/null
    code=$?
    expect_code 0
    rm -rf "$work/made"
else
    echo "no mpirun of Open MPI: its variables alone were tried"
fi
torchrun=${BERTH_TORCHRUN:-$(command -v torchrun)}
if [ -n "$torchrun" ] && "$torchrun" --no_python --nproc_per_node 2 true >"$out" 2>"$err"; then
    what="torchrun of two"
    "$torchrun" --no_python --nproc_per_node 2 "$BERTH" $init >"$out" 2>"$err" </dev/null
    expect_err 'of 2 by torchrun or deepspeed (WORLD_SIZE is 2)'
    [ ! -e "$work/made" ] || fail "something was written"
else
    echo "no torchrun that works: its variables alone were tried"
fi
finish
