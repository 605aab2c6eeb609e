#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Jobs over several hosts (hosts.sh), started by each MPI's own launcher and by Slurm: results,
# traffic between hosts, limited links, and launches that cannot work. Skipped without root.
export TMPDIR=/tmp # the hosts share it, unlike /dev/shm
. "$(dirname "$0")/../cli/lib.sh"
. "$(dirname "$0")/hosts.sh"
. "$(dirname "$0")/slurm.sh"
. "$(dirname "$0")/../comm/launch.sh"
export OMP_NUM_THREADS=1 BERTH_MODULE_PATH
BERTH_MODULE_PATH=$(dirname "$BERTH")
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 # an MPI does not free all of its memory
trap '[ "$BASHPID" -ne $$ ] || { slurm_down; hosts_down; rm -rf "$work"; }' EXIT
hosts_up 2 || exit

tried=0
has() { # MPI
    [[ " $BERTH_MPIS " == *" $1 "* ]] && command -v "mpiexec.$1" >/dev/null
}
expect_lines() { # COUNT PATTERN
    [ "$(grep -cE -- "$2" "$out")" -eq "$1" ] || fail "not $1 lines like \"$2\""
}
sent() { echo $(($(hosts_bytes 1) + $(hosts_bytes 2))); }

# A range of 4 MB over two hosts of two ranks: each host sends half of it in a reduce and half of it in
# a gather, whatever the number of ranks; headers add 5 %. It is reduced and gathered twice in fp32,
# and as often in each of two types of half the size. Open MPI's own reduction to one part a rank sends
# half as much again.
elements=1000000
expect_traffic() { # BEFORE [MOST, in percent]
    local bytes=$(($(sent) - $1)) all=$((elements * 32))
    [ $bytes -ge $all ] && [ $bytes -le $((all * ${2:-120} / 100)) ] || fail "$bytes bytes between the hosts for $all"
}
for mpi in openmpi mpich; do
    has $mpi || { echo "$mpi was not tried: no module or no launcher"; continue; }
    tried=$((tried + 1))
    as "$mpi, 2 hosts of 2" hosts_$mpi 2 2 "$LAUNCHED" $mpi
    expect_code 0
    expect_lines 4 "^$mpi process [0-3] of 4, .*: 0 wrong\$"
    before=$(sent)
    as "$mpi, a range over 2 hosts of 2" hosts_$mpi 2 2 "$LAUNCHED" auto ranks $elements
    expect_code 0
    expect_lines 2 "^$mpi rank [01] of 4, local rank [01] of 2 on host 0 of 2, .*: 0 wrong\$"
    expect_lines 2 "^$mpi rank [23] of 4, local rank [01] of 2 on host 1 of 2, .*: 0 wrong\$"
    expect_traffic "$before"
    # The library sends as much: it adds on the way.
    before=$(sent)
    as "$mpi, a range over 2 hosts of 2, by the library" hosts_$mpi 2 2 "$LAUNCHED" auto ranks $elements native
    expect_code 0
    expect_lines 4 "^$mpi rank [0-3] of 4, local rank [01] of 2 on host [01] of 2, .*: 0 wrong\$"
    expect_traffic "$before" 130
    as "$mpi, hosts of two ranks and of one" hosts_$mpi 2 2+1 "$LAUNCHED" auto ranks 1000 native
    expect_code 0
    expect_lines 3 'the hosts have different numbers of ranks'
    expect_lines 3 "^$mpi rank .*: 0 wrong\$"
    # 16 MB in each direction at 40 Mbit/s take at least 3.2 s.
    hosts_rate 1 40mbit
    hosts_rate 2 40mbit
    start=$(date +%s%N)
    as "$mpi, shaped hosts" hosts_$mpi 2 1 "$LAUNCHED" auto ranks $elements
    expect_code 0
    [ $(($(date +%s%N) - start)) -ge 3200000000 ] || fail "faster than the link"
    hosts_rate 1 off
    hosts_rate 2 off
done
[ $tried -gt 0 ] || { echo "no MPI and its launcher are installed: skipped"; exit 77; }

# Training on two hosts gives the bytes of one process, also if four processes begin and two finish.
make_wide_model "$work/model"
make_questions "$work/data.json" 40
settings="$(training_settings) --virtual_ranks 4 --max_grad_norm 0.1"
for optimizer in adamw lamb; do
    run finetune squad $settings --optimizer $optimizer --precision bf16 --output "$work/alone-$optimizer"
    expect_code 0
done
train() { # NAME WORDS...
    name=$1
    shift
    as "$name" "$@" "$BERTH" finetune squad $settings --precision bf16 --zero_stage $stage --optimizer $optimizer \
        --output "$work/$name"
    expect_code 0
    grep -qF "ranks: " "$err" || fail "one process"
}
for mpi in $BERTH_MPIS; do
    has $mpi || continue
    optimizer=adamw stage=0 train $mpi-2x1 hosts_$mpi 2 1
    same alone-adamw $mpi-2x1
    optimizer=lamb stage=1 train $mpi-lamb hosts_$mpi 2 1
    same alone-lamb $mpi-lamb
    optimizer=adamw stage=2 train $mpi-2x2 hosts_$mpi 2 2
    same alone-adamw $mpi-2x2
    for placement in 3+1 1+3; do # where no host's ranks are half of the tree
        optimizer=adamw stage=1 train $mpi-$placement hosts_$mpi 2 $placement
        same alone-adamw $mpi-$placement
    done
    mkdir "$work/$mpi-resumed"
    mv "$work/$mpi-2x2/checkpoint-3" "$work/$mpi-resumed"
    settings="$settings --resume_from_checkpoint auto" optimizer=adamw stage=1 train $mpi-resumed hosts_$mpi 2 1
    same alone-adamw $mpi-resumed
done

# If the MPI adds the gradients, two runs on equal hosts have the same bytes (in what was seen of both), and numbers near
# those of Berth's own sums. Three hosts, because two addends have one order only.
expect_reduce() { # CHOICE
    grep -qhE "^  reduce +$1" "$out" "$err" || fail "the plan does not say \"$1\""
}
hosts_down
hosts_up 3 || exit
settings="$(training_settings) --train_batch_size 6 --max_grad_norm 0.1"
for mpi in $BERTH_MPIS; do
    has $mpi || continue
    for stage in 0 1; do
        for form in exact native again; do
            as "$mpi, $form, stage $stage" hosts_$mpi 3 2 "$BERTH" finetune squad $settings --precision bf16 --zero_stage $stage \
                --reduce ${form/again/native} --output "$work/$mpi-$form-$stage" --verbose
            expect_code 0
            expect_reduce "$([ $form = exact ] && echo exact || echo native) \\(as asked\\)"
            [ $form = exact ] || expect_err "reduce native: $([ $mpi = mpich ] && echo MPICH || echo "Open MPI") "
        done
        same $mpi-native-$stage $mpi-again-$stage
        ! cmp -s "$work/$mpi-exact-$stage/model.safetensors" "$work/$mpi-native-$stage/model.safetensors" ||
            fail "the bytes of Berth's sums: nothing was left to the MPI"
        run compare "$work/$mpi-exact-$stage" "$work/$mpi-native-$stage" --tolerance 4e-3
        expect_code 0
    done
    as "$mpi, what auto chooses" hosts_$mpi 3 1 "$BERTH" finetune squad $settings --precision bf16 --output "$work/none" --dry-run --verbose
    expect_code 0
    expect_reduce 'exact \(auto; on a link of 100 Gbit/s the forecast of an exchange is [0-9.]+ s exact, [0-9.]+ s native\)'
    as "$mpi, native on unequal hosts" hosts_$mpi 3 1+1+2 "$BERTH" finetune squad $settings --reduce native --train_batch_size 8 \
        --output "$work/none"
    expect_code 78
    expect_err "reduce native: the hosts have different numbers of ranks: start as many on each host, or use reduce exact"
    as "$mpi, native with virtual ranks" hosts_$mpi 3 1 "$BERTH" finetune squad $settings --reduce native --virtual_ranks 3 \
        --output "$work/none"
    expect_code 78
    expect_err "reduce native cannot be combined with virtual_ranks"
    [ ! -e "$work/none" ] || fail "something was written"
done
hosts_down
hosts_up 2 || exit
settings="$(training_settings) --virtual_ranks 4 --max_grad_norm 0.1"

# The first process loses the lock of the output folder; srun must end all, with this exit code.
fail_alone() { # CODE SRUN WORDS...
    local expected=$1
    shift
    rm -rf "$work/lost"
    (
        for _ in {1..600}; do [ -d "$work/lost/checkpoint-10" ] && break || sleep 0.1; done
        rm "$work/lost/.lock"
    ) &
    as "srun $1, a rank that fails alone" slurm timeout 60 srun -N2 -n4 --ntasks-per-node=2 "$@" "$BERTH" \
        finetune squad $settings --max_steps 2000 --save_steps 10 --output "$work/lost"
    wait $!
    expect_code "$expected"
    [ "$(grep -c 'berth: error: rank 0 on host .*: .*the lock of this run is lost' "$err")" -eq 1 ] || fail "not one error"
}
if slurm_up "$work/slurm"; then
    if has openmpi; then
        as "srun --mpi=pmix" slurm timeout 60 srun -N2 -n4 --ntasks-per-node=2 --mpi=pmix "$LAUNCHED" auto ranks 10000
        expect_code 0
        expect_lines 4 '^openmpi rank [0-3] of 4, local rank [01] of 2 on host [01] of 2, .*: 0 wrong$'
        optimizer=adamw stage=1 train srun-pmix slurm timeout 120 srun -N2 -n4 --ntasks-per-node=2 --mpi=pmix
        same alone-adamw srun-pmix
        fail_alone 74 --mpi=pmix
    fi
    if has mpich; then
        as "srun --mpi=pmi2" slurm timeout 60 srun -N2 -n4 --ntasks-per-node=2 --mpi=pmi2 \
            env UCX_TLS=tcp,self,posix UCX_NET_DEVICES=eth0 "$LAUNCHED" auto ranks 10000
        expect_code 0
        expect_lines 4 '^mpich rank [0-3] of 4, local rank [01] of 2 on host [01] of 2, .*: 0 wrong$'
        optimizer=adamw stage=2 train srun-pmi2 slurm timeout 120 srun -N2 -n2 --mpi=pmi2 \
            env UCX_TLS=tcp,self,posix UCX_NET_DEVICES=eth0
        same alone-adamw srun-pmi2
        fail_alone 137 --mpi=pmi2 env UCX_TLS=tcp,self,posix UCX_NET_DEVICES=eth0 # srun's for those that it kills
        as "srun --mpi=pmix with MPICH" slurm timeout 60 srun -N2 -n2 --mpi=pmix "$BERTH" doctor --comm mpich
        expect_code 78
        expect_err 'connects 1 of the 2 processes that srun of Slurm started'
    fi
    as "srun --mpi=none" slurm timeout 60 srun -N2 -n2 --mpi=none "$BERTH" doctor
    expect_code 78
    expect_err 'use srun --mpi=pmix for Open MPI, srun --mpi=pmi2 for MPICH'
    as "srun --mpi=pmi2 with Open MPI" slurm timeout 60 srun -N2 -n2 --mpi=pmi2 "$BERTH" doctor --comm openmpi
    expect_code 78
    expect_err 'srun of Slurm (PMI_SIZE), which is for mpich and not for openmpi'
    as "one process in an allocation" slurm timeout 60 salloc -N2 -n2 "$BERTH" doctor
    expect_code 0
    expect_lines 1 '^comm +self$'
else
    echo "Slurm was not tried"
fi
slurm_down
hosts_down

# With a delay of 10 ms, a refused connection takes twice that, and training gives the same bytes.
if hosts_up 2 10; then
    microseconds=$(hosts_exec 1 bash -c 'start=${EPOCHREALTIME/./}
        (: <>/dev/tcp/10.77.0.2/9) 2>/dev/null
        echo $((${EPOCHREALTIME/./} - start))')
    [ "$microseconds" -ge 20000 ] || fail "a refused connection took $microseconds us"
    for mpi in $BERTH_MPIS; do
        has $mpi || continue
        optimizer=lamb stage=1 train $mpi-delayed hosts_$mpi 2 1
        same alone-lamb $mpi-delayed
    done
else
    echo "hosts with a delay were not tried"
fi
finish
