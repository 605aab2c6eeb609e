#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the scripts for an Indexed Job and for a chain of Slurm's jobs do after signals and exit codes, with stand-ins for
# the programs of MPICH and Slurm. test_image.sh and test_slurm.sh run them with the real ones.
. "$(dirname "$0")/../cli/lib.sh"
deploy=$(cd "$(dirname "$0")/../../deploy" && pwd)
cd "$work" || exit 1
mkdir bin
PATH=$work/bin:$PATH
stand_in() { # NAME: lines of bash from standard input
    { echo '#!/usr/bin/env bash'; cat; } >"bin/$1"
    chmod +x "bin/$1"
}
wait_for_file() { # FILE
    for _ in $(seq 600); do
        [ ! -e "$1" ] || return 0
        sleep 0.05
    done
    fail "no $1"
}

# --- what a container starts ----------------------------------------------------------------------------

stand_in berth <<<'echo "berth: $*"'
stand_in tool <<<'echo "tool: $*"'
printf 'echo "script: $*"\n' >script.sh
entrypoint() { # EXPECTED WORDS...
    local expected=$1
    shift
    what="a container of: $*"
    "$deploy/container/bin/berth-entrypoint" "$@" >"$out" 2>"$err"
    code=$?
    expect_code 0
    [ "$(cat "$out")" = "$expected" ] || fail "not \"$expected\" but \"$(cat "$out")\""
}
entrypoint "berth: " # alone
entrypoint "berth: finetune squad --model a/b" finetune squad --model a/b
entrypoint "berth: as fp32_squad_training.sh -b 4" as fp32_squad_training.sh -b 4
entrypoint "berth: --version" --version
entrypoint "script: -b 4" /bin/bash script.sh -b 4
entrypoint "script: two words" bash script.sh "two words"
entrypoint "tool: x" bin/tool x
cp bin/tool bin/tool.sh
entrypoint "tool: x" tool.sh x

# --- SIGTERM before a process runs ----------------------------------------------------------------------

stop_pod() { # INDEX
    what="SIGTERM of pod $1"
    rm -f started
    TMPDIR=$work BERTH_PODS=2 BERTH_JOB=job BERTH_SERVICE=service JOB_COMPLETION_INDEX=$1 \
        timeout --foreground -k 10 60 "$deploy/container/bin/berth-indexed-job" pretrain >"$out" 2>"$err" &
    wait_for_file started
    kill -TERM $!
    wait $!
    code=$?
    expect_code 143
}
stand_in mpiexec.hydra <<<'exec sleep 60'
stand_in hydra_pmi_proxy <<<'touch started; exec sleep 60'
stop_pod 0 # its proxy waits for others
stand_in hydra_pmi_proxy <<<'touch started; echo "unable to connect" >&2; exit 1'
stop_pod 1 # pod 0 does not run yet

# --- the demos' processors ------------------------------------------------------------------------------

# srun gives a process one processor if sbatch alone was told how many; 12 and 16 are those of a node, divided among its
# processes.
stand_in berth <<<'echo "processors: $SRUN_CPUS_PER_TASK"'
for demo in piz-daint:12 lumi:16; do
    what=${demo%:*}.sbatch
    script=$deploy/slurm/$what
    grep -qxF "#SBATCH --cpus-per-task=${demo#*:}" "$script" || fail "not ${demo#*:} processors for each process"
    SLURM_CPUS_PER_TASK=7 LAUNCH=env BERTH=berth bash "$script" >"$out" 2>"$err"
    code=$?
    expect_code 0
    expect_out "processors: 7"
done

# --- a chain --------------------------------------------------------------------------------------------

stand_in scontrol <<<'[ "$1" = show ] && echo JobState=RUNNING || echo "$*" >>requeued'
stand_in berth <<<'[ -z "$CHECKPOINT" ] || mkdir -p "$CHECKPOINT"; exit 137'
chain() { # CHECKPOINT WORDS: the job's process is killed, after a checkpoint unless it is ""
    what="chain.sbatch $*"
    rm -rf requeued output
    local checkpoint=$1
    shift
    CHECKPOINT=$checkpoint BERTH=berth LAUNCH=env SLURM_JOB_ID=7 SLURM_JOB_NODELIST=here \
        bash "$deploy/slurm/chain.sbatch" pretrain "$@" >"$out" 2>"$err"
    code=$?
}
stand_in berth <<<'echo "processors: $SRUN_CPUS_PER_TASK"; exit 1'
SLURM_CPUS_PER_TASK=7 chain "" --output_dir output
expect_code 1
expect_out "processors: 7"
stand_in berth <<<'[ -z "$CHECKPOINT" ] || mkdir -p "$CHECKPOINT"; exit 137'
for words in "--output_dir output" --output_dir=output "--output-dir output" --output-dir=output "--output output"; do
    chain output/checkpoint-10 $words
    expect_code 0
    expect_out "exit code 137, queued again"
    [ "$(cat requeued)" = "requeue 7" ] || fail "not queued again"
done
# A checkpoint that an earlier run has set aside is not the newest one.
mkdir -p used/checkpoint-12.abandoned
chain used/checkpoint-9 --output_dir used
expect_code 0
expect_out "exit code 137, queued again"
# It continues from the newest checkpoint; one that is named is for the first start.
stand_in berth <<<'echo "words: $*"; exit 1'
started() { # CHECKPOINT WORDS
    local resume=$1
    shift
    chain "" "$@"
    expect_code 1
    expect_out "words: pretrain $*${later:+ $later} --resume_from_checkpoint $resume"
}
later=
started auto --output_dir output
started auto --resume_from_checkpoint --output_dir output
started auto,first/checkpoint-7 --resume_from_checkpoint first/checkpoint-7 --output_dir output
started auto,first/checkpoint-7 --output_dir output --resume-from-checkpoint=first/checkpoint-7
started auto,first/checkpoint-7 --resume_from_checkpoint auto,first/checkpoint-7 --phase2
# So is a step to go back to.
started auto --output_dir output --resume_step 5
export SLURM_RESTART_COUNT=1
started auto --output_dir output
later=--resume_step=-1 started auto --output_dir output --resume_step 5
later=--resume_step=-1 started auto --resume-step=5 --output_dir output
unset SLURM_RESTART_COUNT
stand_in berth <<<'[ -z "$CHECKPOINT" ] || mkdir -p "$CHECKPOINT"; exit 137'
progress=1 stopped=1 chain "" --output_dir output # another program's variables
expect_code 137
[ ! -e requeued ] || fail "queued again without a newer checkpoint"
finish
