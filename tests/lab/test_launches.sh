#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The launch commands of the systems that Berth replaces, on hosts of hosts.sh and under Slurm: 8 hosts with one process
# each (Piz Daint), 2 with 4 (LUMI), one process per socket (Intel) and 4 with 8 (Voyager), each with the variables and
# files that its scripts set. Each must give the bytes of one process. Differences: the model is small, four processes
# share a core of Voyager's sockets instead of having six each, and the two sockets are a synthetic topology of hwloc.
# Skipped without root.
export TMPDIR=/tmp # the hosts share it, unlike /dev/shm
. "$(dirname "$0")/../cli/lib.sh"
. "$(dirname "$0")/hosts.sh"
. "$(dirname "$0")/slurm.sh"
. "$(dirname "$0")/../comm/launch.sh"
export LAB=$lab OMP_NUM_THREADS=1 BERTH_MODULE_PATH
BERTH_MODULE_PATH=$(cd "$(dirname "$BERTH")" && pwd)
# Not part of the commands: processes share few processors, and run as root on networks without InfiniBand.
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export UCX_TLS=tcp,self,posix UCX_NET_DEVICES=eth0
trap '[ "$BASHPID" -ne $$ ] || { slurm_down; hosts_down; rm -rf "$work"; }' EXIT
slurm_dir=$work/slurm
hosts_up 8 || exit
mpis=$(find_mpis)
[ -n "$mpis" ] || { echo "no MPI and its launcher are installed: skipped"; exit 77; }
has() { # MPI
    [[ $mpis == *"$1"* ]]
}

cd "$work" || exit 1
make_wide_model model
make_questions train-v1.1.json 80
mkdir -p MRPC
{
    printf 'Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n'
    for i in $(seq 64); do
        printf '%d\t%d\t%d\tada lived in oslo %d\t%s lived in oslo %d\n' $((i % 2)) "$i" "$i" "$i" \
            "$([ $((i % 2)) = 1 ] && echo ada || echo hugo)" "$i"
    done
} >MRPC/train.tsv
cp MRPC/train.tsv MRPC/dev.tsv
make_corpus model/vocab.txt

# Piz Daint's ds_config.json and LUMI's, with smaller batches.
cat >daint.json <<'END_OF_FILE'
{"train_batch_size": 16, "gradient_accumulation_steps": 1, "steps_per_print": 10,
 "optimizer": {"type": "AdamW", "params": {"lr": 5e-5}}, "fp16": {"enabled": true},
 "zero_optimization": {"stage": 1}}
END_OF_FILE
echo '{"train_batch_size": 16, "steps_per_print": 10, "optimizer": {"type": "AdamW", "params": {"lr": 5e-5}}}' >lumi.json
squad="finetune squad --model $work/model --train $work/train-v1.1.json --max_seq_length 64 --doc_stride 16
    --max_query_length 16 --max_steps 4 --threads 1"
daint="$squad --deepspeed_config $work/daint.json --virtual_ranks 8"
lumi="$squad --deepspeed_config $work/lumi.json --virtual_ranks 8"
intel="finetune classify --data_dir=$work/MRPC --task_name=MRPC --vocab_file=$work/model/vocab.txt
    --config_file=$work/model/config.json --model=$work/model --max_seq_length=64 --train_batch_size=32
    --learning_rate=2e-5 --num_train_epochs=3.0 --precision=fp32 --virtual_ranks 4"
voyager="pretrain --config_file=$work/model/config.json --vocab_file=$work/model/vocab.txt --input_dir=$shards
    --max_steps=4 --seed=42 --max_seq_length=32 --max_predictions_per_seq=4 --train_batch_size=64
    --gradient_accumulation_steps=2 --learning_rate=6e-3 --warmup_proportion=0.2843 --save_steps=2 --logging_steps=1
    --precision=bf16 --no_progress --virtual_ranks 32"
for system in daint lumi intel voyager; do
    run ${!system} --output_dir "alone-$system"
    expect_code 0
done

# What the scripts set for torch.distributed, and to prevent downloads.
export MASTER_ADDR=${lab}h1 MASTER_PORT=29500 TRANSFORMERS_OFFLINE=1 HF_DATASETS_OFFLINE=1

# Runs a launch command followed by berth and its arguments.
starts() { # SYSTEM MPI HOSTS RANKS LINE...
    local system=$1 mpi=$2 hosts=$3 ranks=$4 folder=$work/$1-$2
    shift 4
    what="$system, $mpi: $*"
    export WORLD_SIZE=$ranks
    "$@" "$BERTH" ${!system} --output_dir "$folder" >"$out" 2>"$err" </dev/null
    code=$?
    unset WORLD_SIZE
    expect_code 0
    cat "$out" "$err" >"$work/said"
    [ "$(grep -cF "ranks: $ranks on $hosts hosts, connected by $mpi" "$work/said")" -eq 1 ] ||
        fail "not $ranks ranks on $hosts hosts"
    cmp -s "$work/alone-$system/model.safetensors" "$folder/model.safetensors" || fail "not the model of one process"
    rm -rf "$folder"
}

# --- Piz Daint and LUMI: within an allocation of Slurm -------------------------------------------------------

batch() { # HOSTS TASKS_PER_NODE WORDS...: prints their output and returns their exit code
    local nodes=$1 tasks=$2 code
    shift 2
    cat >"$work/batch.sh" <<END_OF_FILE
#!/bin/bash -l
#SBATCH --job-name=bert_squad
#SBATCH --time=00:20:00
#SBATCH --nodes=$nodes
#SBATCH --ntasks-per-node=$tasks
#SBATCH --output=$work/slurm.out
$*
END_OF_FILE
    slurm timeout 300 sbatch --wait "$work/batch.sh"
    code=$?
    cat "$work/slurm.out"
    return $code
}
if slurm_up "$slurm_dir"; then
    if has openmpi; then
        starts daint openmpi 8 8 batch 8 1 mpirun.openmpi -np 8 --map-by ppr:1:node
        starts daint openmpi 8 8 batch 8 1 srun --wait 60 --mpi=pmix
        starts lumi openmpi 2 8 slurm timeout 300 salloc --nodes=2 --ntasks-per-node=4 mpirun.openmpi -np 8
        starts lumi openmpi 2 8 slurm timeout 300 srun --nodes=2 --ntasks-per-node=4 --wait 60 --mpi=pmix
    fi
    if has mpich; then
        starts daint mpich 8 8 batch 8 1 mpiexec.mpich -iface eth0 -n 8 -ppn 1
        starts daint mpich 8 8 batch 8 1 srun --wait 60 --mpi=pmi2
        starts lumi mpich 2 8 slurm timeout 300 srun --nodes=2 --ntasks-per-node=4 --wait 60 --mpi=pmi2
    fi
else
    echo "Slurm was not tried"
fi
slurm_down

# --- Intel and Voyager: hosts of a file, as the operator of MPIJobs sets it ----------------------------------

on_first() {
    hosts_exec 1 timeout 300 "$@"
}
job_of() { # HOSTS SLOTS
    seq -f "${lab}h%g slots=$2" "$1" >"$work/hostfile"
    seq -f "${lab}h%g:$2" "$1" >"$work/hydra_hosts"
}
export OMPI_MCA_orte_default_hostfile=$work/hostfile OMPI_MCA_plm_rsh_agent=$lab_tools/host-shell
export OMPI_MCA_orte_keep_fqdn_hostnames=true
export HYDRA_HOST_FILE=$work/hydra_hosts HYDRA_LAUNCHER=ssh HYDRA_LAUNCHER_EXEC=$lab_tools/host-shell
export HWLOC_SYNTHETIC="package:2 core:1 pu:1" HWLOC_THISSYSTEM=1 MPI_NUM_PROCESSES=4
sockets="-x HWLOC_SYNTHETIC -x HWLOC_THISSYSTEM"
knobs="KMP_AFFINITY=granularity=fine,compact,1,0 KMP_BLOCKTIME=1 KMP_SETTINGS=1 OMP_NUM_THREADS=1"
job_of 2 2
if has openmpi; then
    starts intel openmpi 2 4 on_first mpirun.openmpi --allow-run-as-root $sockets -np $MPI_NUM_PROCESSES \
        --map-by ppr:1:socket --bind-to socket --report-bindings $(printf -- '-x %s ' $knobs)
    expect_err "bound to socket 1"
    # That of its MPIJob.
    job_of 2 1
    starts intel openmpi 2 2 on_first mpirun.openmpi --allow-run-as-root -np 2 -x PYTHONPATH -x LD_LIBRARY_PATH \
        -mca pml ob1 -mca btl ^openib -mca btl_tcp_if_exclude lo,docker0 -bind-to none -map-by slot
    job_of 4 8
    starts voyager openmpi 4 32 on_first mpirun.openmpi --allow-run-as-root $sockets -np 32 \
        --bind-to core:overload-allowed --map-by ppr:4:socket:PE=1 --rank-by core --tag-output \
        --merge-stderr-to-stdout -x MASTER_ADDR -x MASTER_PORT
fi
if has mpich; then
    job_of 2 2
    starts intel mpich 2 4 on_first mpiexec.mpich -iface eth0 -n $MPI_NUM_PROCESSES -ppn 2 -map-by socket \
        -bind-to socket $(for knob in $knobs; do echo "-genv ${knob%%=*} ${knob#*=}"; done)
    job_of 4 8
    starts voyager mpich 4 32 on_first mpiexec.mpich -iface eth0 -n 32 -ppn 8 -prepend-rank
fi
finish
