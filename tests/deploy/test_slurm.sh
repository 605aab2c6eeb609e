#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# deploy/slurm on a real Slurm of eight hosts (../lab): the demos' batch scripts, a chain of jobs that is stopped by a more
# urgent job and by its time limit and ends with the bytes of an unbroken run, under each launcher, one that is
# cancelled, ones whose process is killed, and seeds.
# Needs root and minutes. Not as there: the hosts share this machine's processors.
export TMPDIR=/tmp # which the hosts share, unlike /dev/shm
scripts=$(cd "$(dirname "$0")/../../deploy/slurm" && pwd)
tests=$(cd "$(dirname "$0")/.." && pwd)
. "$tests/seeds/lib.sh"
. "$tests/lab/hosts.sh"
. "$tests/lab/slurm.sh"
. "$tests/comm/launch.sh"
export LAB=$lab BERTH OMP_NUM_THREADS=1 BERTH_MODULE_PATH
BERTH_MODULE_PATH=$(cd "$(dirname "$BERTH")" && pwd)
# Processes share few processors, and run as root.
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export UCX_TLS=tcp,self,posix UCX_NET_DEVICES=eth0 HYDRA_IFACE=eth0
trap '[ "$BASHPID" -ne $$ ] || { slurm_down; hosts_down; rm -rf "$work"; }' EXIT
slurm_dir=$work/slurm
hosts_up 8 || exit
slurm_up "$slurm_dir" || exit
mpis=$(find_mpis)
[ -n "$mpis" ] || { echo "no MPI and its launcher are installed: skipped"; exit 77; }

cd "$work" || exit 1
make_wide_model model
make_questions train-v1.1.json 80
cat >ds_config.json <<'END_OF_FILE'
{"train_batch_size": 16, "gradient_accumulation_steps": 1, "steps_per_print": 1,
 "optimizer": {"type": "AdamW", "params": {"lr": 5e-5}}, "fp16": {"enabled": true}, "zero_optimization": {"stage": 1}}
END_OF_FILE
# As options of Berth's own before the demos' programs.
squad="--model=$work/model --train=$work/train-v1.1.json --dev=$work/train-v1.1.json --max_steps=4 --threads=1 --virtual_ranks=8"
make_corpus model/vocab.txt

submit() { # WORDS of sbatch: waits for the job
    what="sbatch $*"
    rm -f "$work"/slurm-*.out
    slurm timeout -k 10 500 sbatch --wait --output="$work/slurm-%j.out" "$@" >"$out" 2>"$err"
    code=$?
    cat "$work"/slurm-*.out >>"$out" 2>/dev/null
}

# --- the demos ----------------------------------------------------------------------------------------

demo() { # SCRIPT HOSTS MPI LAUNCH
    [[ $mpis == *"$3"* ]] || return 0
    export LAUNCH=$4
    submit --cpus-per-task=2 "$scripts/$1" $squad --output_dir="$work/$1.out" --date_output=false --show_samples=0
    unset LAUNCH
    expect_code 0
    expect_out "ranks: 8 on $2 hosts, connected by $3"
    cmp -s "alone-$1/model.safetensors" "$1.out/model.safetensors" || fail "not the model of one process"
    rm -rf "$1.out"
}
run finetune squad $squad --deepspeed_config ds_config.json --recipe piz-daint --output_dir alone-piz-daint.sbatch
expect_code 0
run finetune squad $squad --deepspeed_config ds_config.json --recipe lumi --output_dir alone-lumi.sbatch
expect_code 0
demo piz-daint.sbatch 8 openmpi "srun --kill-on-bad-exit=1 --mpi=pmix"
demo piz-daint.sbatch 8 openmpi mpirun.openmpi
demo piz-daint.sbatch 8 mpich "srun --kill-on-bad-exit=1 --mpi=pmi2"
demo lumi.sbatch 2 openmpi "srun --kill-on-bad-exit=1 --mpi=pmix"
demo lumi.sbatch 2 mpich "mpiexec.mpich -iface eth0"

# --- a chain ------------------------------------------------------------------------------------------

steps=${BERTH_STEPS:-160}
pretrain="pretrain --config_file $work/model/config.json --vocab_file $work/model/vocab.txt --input_dir $work/$shards
    --max_steps $steps --max_seq_length 32 --max_predictions_per_seq 4 --train_batch_size 64 --learning_rate 1e-3
    --logging_steps 1 --save_steps 100000 --do_eval false --threads 1 --virtual_ranks 2 --no_progress"
if [[ $mpis == *openmpi* ]]; then
    export LAUNCH="srun --kill-on-bad-exit=1 --mpi=pmix"
else
    export LAUNCH="srun --kill-on-bad-exit=1 --mpi=pmi2"
fi
run $pretrain --output_dir unbroken
expect_code 0

state_of() { # JOB
    slurm squeue --noheader --states all --job "$1" --format %T 2>/dev/null
}
log=
wait_for() { # TEXT TIMES: until the log has it
    for _ in $(seq 2400); do
        [ -e "$log" ] && [ "$(grep -cE -- "$1" "$log")" -ge "$2" ] && return 0
        sleep 0.1
    done
    cp "$log" "$out"
    fail "\"$1\" is not in the log $2 times"
    return 1
}
start_chain() { # OUTPUT WORDS of sbatch: sets job and log
    local output=$1
    shift
    what="chain $output"
    log=$work/$output.log
    job=$(slurm sbatch --parsable --nodes=2 --output="$log" "$@" "$scripts/chain.sbatch" $pretrain \
        --output_dir "$work/$output")
}
expect_log() { # TEXT TIMES
    cp "$log" "$out"
    [ "$(grep -cE -- "$1" "$log")" -eq "$2" ] || fail "\"$1\" is not in the log $2 times"
}

# Other jobs need its nodes, twice; and a third time it is held up by nothing but its time.
start_chain chain --time=10
for time in 1 2; do
    wait_for "start $time: on" 1 && wait_for "step [0-9]+/" $((10 * time))
    slurm srun --partition=urgent --nodes=8 --exclusive sleep 1 2>/dev/null
done
wait_for "start 3: exit code" 1
expect_log "saved, queued again" 2
expect_log "start 3: exit code 0" 1
cmp -s unbroken/model.safetensors chain/model.safetensors || fail "not the bytes of an unbroken run"

# Its time is almost up: what `sbatch --signal` sends, at a moment of the test's choice; then Slurm's own, if the run lasts
# that long.
start_chain limited --time=10
wait_for "step [0-9]+/" 10
slurm scancel --batch --signal=USR1 "$job"
wait_for "start 2: exit code" 1
expect_log "signal USR1" 1
expect_log "saved, queued again" 1
expect_log "start 2: exit code 0" 1
cmp -s unbroken/model.safetensors limited/model.safetensors || fail "not the bytes of an unbroken run"
# Slurm may send a signal up to a minute early.
start_chain minutes --time=2 --signal=B:USR1@50
wait_for "start [0-9]+: exit code" 1
echo "the time of a job was up $(grep -c "saved, queued again" "$log") times"
expect_log "start [0-9]+: exit code 0" 1
cmp -s unbroken/model.safetensors minutes/model.safetensors || fail "not the bytes of an unbroken run"

# Cancelled: it saves, but does not come back.
start_chain cancelled --time=10
wait_for "step [0-9]+/" 10
slurm scancel "$job"
wait_for "start 1: exit code 75" 1
expect_log "queued again" 0
sleep 8 # longer than a job that is queued again waits
[ "$(state_of "$job")" = CANCELLED ] || fail "the job is $(state_of "$job")"
ls "$work/cancelled" | grep -q '^checkpoint-' || fail "nothing was saved"

# Launchers of the MPIs, whose daemons get TERM, too. Slurm takes the nodes of the first one at the end of the grace
# time (60 s), because its daemons have not ended by then.
chain_of() { # NAME LAUNCH
    export LAUNCH=$2
    start_chain "$1" --time=10
    wait_for "step [0-9]+/" 10
    slurm srun --partition=urgent --nodes=8 --exclusive sleep 1 2>/dev/null
    wait_for "start 2: on" 1 && wait_for "start 2: exit code" 1
    expect_log "start 2: exit code 0" 1
    expect_log "resumed from" 1
    cmp -s unbroken/model.safetensors "$1/model.safetensors" || fail "not the bytes of an unbroken run"
}
[[ $mpis != *openmpi* ]] || chain_of mpirun mpirun.openmpi
[[ $mpis != *mpich* ]] || chain_of mpiexec "mpiexec.mpich -iface eth0"
if [[ $mpis == *mpich* ]]; then
    # This mpiexec returns 0 after a signal.
    start_chain forwarded --time=10
    wait_for "step [0-9]+/" 10
    slurm scancel --batch --signal=USR1 "$job"
    wait_for "start 2: exit code" 1
    expect_log "queued again" 1
    cmp -s unbroken/model.safetensors forwarded/model.safetensors || fail "not the bytes of an unbroken run"
fi

# A process that is killed: the job goes on if it has a checkpoint that is newer than its start, and only then.
kill_rank() { # OUTPUT
    local process
    process=$(pgrep -nf "^$BERTH pretrain.*--output_dir $work/$1 ")
    kill -9 "$process"
}
if [[ $mpis == *openmpi* ]]; then
    export LAUNCH="srun --kill-on-bad-exit=1 --mpi=pmix"
    pretrain=${pretrain/--save_steps 100000/--save_steps 10}
    start_chain killed --time=10
    wait_for "step 2[0-9]/" 1
    kill_rank killed
    wait_for "start 2: exit code" 1
    expect_log "exit code 137, queued again" 1
    expect_log "start 2: exit code 0" 1
    cmp -s unbroken/model.safetensors killed/model.safetensors || fail "not the bytes of an unbroken run"
    pretrain=${pretrain/--save_steps 10 /--save_steps 100000 }
    start_chain lost --time=10
    wait_for "step [0-9]+/" 10
    kill_rank lost
    wait_for "start 1: exit code 137" 1
    expect_log "queued again" 0
fi
unset LAUNCH

# --- seeds --------------------------------------------------------------------------------------------

submit --array=3-5 "$scripts/seeds.sbatch" "$work/seeds" squad --model "$work/model" --train "$work/train-v1.1.json" \
    --max_steps 4 --threads 1
expect_code 0
for seed in 3 4 5; do
    run finetune squad --model model --train train-v1.1.json --max_steps 4 --threads 1 --seed $seed --output_dir "seed-$seed"
    cmp -s "seed-$seed/model.safetensors" "seeds/seed-$seed/model.safetensors" || fail "not the model of seed $seed"
done

# --- the page about them --------------------------------------------------------------------------------

[[ $mpis == *openmpi* ]] || finish
mkdir page bin
fill_cache
cp -r model page
cp -r "$shards" page/data
cp train-v1.1.json page
cp train-v1.1.json page/dev-v1.1.json
sed 's/"train_batch_size": 16/"train_batch_size": 8/' ds_config.json >page/ds_config.json
ln -s "$(dirname "$scripts")" page/deploy
# As a user's sbatch, but it waits, and the jobs are small.
cat >bin/sbatch <<END_OF_FILE
#!/bin/bash
LAB=$lab exec "$lab_tools/host-shell" sw "$(command -v sbatch) --wait \$(printf '%q ' "\$@") --threads=1"
END_OF_FILE
chmod +x bin/sbatch
PATH=$work/bin:$PATH
sed -n '/^## Slurm$/,/^## Containers$/p' "$documents/cluster.md" | sed 's/--max_steps 7038/--max_steps 8/' >slurm.md
unset LAUNCH
cd page || exit 1
run_commands_of "$work/slurm.md" 0
for file in pretrained/model.safetensors seeds/seed-{1,2,3}/eval_results.json cache/model_trained_deepspeed_*/model.safetensors; do
    [ -s "$file" ] || fail "no $file"
done
finish
