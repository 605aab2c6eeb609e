#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Training by more processes than a layer of the model has blocks, and than the window has cells, on
# this machine, under each MPI: some processes own nothing of a layer, and owners take turns. The
# bytes are those of one process at every ZeRO stage, also if another number of processes resumes.
# And the limit of open files: it is raised, or the job is refused before it starts.
. "$(dirname "$0")/../cli/lib.sh"
. "$(dirname "$0")/launch.sh"

# A layer has 8 blocks of 65,536 parameters; 20 processes have 6 cells of 64 KiB.
make_wide_model "$work/model"
make_questions "$work/data.json" 40 4
ranks=20
settings="$(training_settings) --train_batch_size 40 --max_steps 4 --save_steps 2 --virtual_ranks $ranks"
same() { # FOLDER FOLDER
    for file in model.safetensors checkpoint-4/optimizer.safetensors; do
        cmp -s "$work/$1/$file" "$work/$2/$file" || fail "$file of $1 and $2 differ"
    done
}
for precision in fp32 bf16; do
    run finetune squad $settings --precision $precision --output "$work/alone-$precision"
    expect_code 0
done

mpis=$(find_mpis)
for mpi in $mpis; do
    for stage in 0 1 2; do
        precision=$([ $stage -eq 1 ] && echo bf16 || echo fp32)
        launch "$mpi" $ranks finetune squad $settings --precision $precision --zero_stage $stage \
            --output "$work/$mpi-$stage" --verbose
        expect_code 0
        once "ranks: $ranks on 1 host, connected by $mpi"
        grep -qE '^  host_shared_bytes +64\.[0-9]+ MiB$' "$err" || fail "not a window of 64 MiB with its headers"
        same alone-$precision "$mpi-$stage"
    done
    # Other numbers of processes finish what 20 began, and 20 what 5 began.
    for pair in "2 5 1" "0 $ranks 2"; do
        set -- $pair
        mkdir "$work/$mpi-resumed-$2"
        if [ "$2" = $ranks ]; then
            cp -r "$work/$mpi-resumed-5/checkpoint-2" "$work/$mpi-resumed-$2"
        else
            cp -r "$work/$mpi-$1/checkpoint-2" "$work/$mpi-resumed-$2"
        fi
        launch "$mpi" "$2" finetune squad $settings --precision fp32 --zero_stage "$3" \
            --resume_from_checkpoint auto --output "$work/$mpi-resumed-$2"
        expect_code 0
        once "resumed from $work/$mpi-resumed-$2/checkpoint-2"
        same alone-fp32 "$mpi-resumed-$2"
    done
done
[ -n "$mpis" ] || { echo "skipped: no mpirun or mpiexec of an MPI that a module was built for"; exit 77; }

# As a launcher on 32 hosts starts the first of its processes.
first_of_32() { # LIMIT VARIABLES...
    local limit=$1
    shift
    what="$limit"
    (ulimit $limit && exec env OMPI_COMM_WORLD_SIZE=32 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1 \
        OMPI_COMM_WORLD_LOCAL_RANK=0 "$@" timeout 60 "$BERTH" finetune squad $settings --comm openmpi --output "$work/none" \
        >"$out" 2>"$err" </dev/null)
    code=$?
}
if [[ " $mpis " == *openmpi* ]]; then
    first_of_32 "-n 40"
    expect_code 69
    once "rank 0 on host $(hostname): one of 32 processes needs about "
    once ", 31 of them connections to processes of other hosts, but may have 40: raise the hard limit"
    # The soft limit alone is raised. Without the other processes, MPI then starts a job of one.
    first_of_32 "-Sn 40"
    expect_code 78
    once "Open MPI"
    # Only the first process of a host reports, so the others end later.
    start=$SECONDS
    first_of_32 "-n 40" OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_LOCAL_RANK=1
    expect_code 69
    expect_no "$err" "open files"
    [ $((SECONDS - start)) -ge 5 ] || fail "it ends before another one has reported"
fi
finish
