#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests that processes with models in a GPU's memory exchange the same as on the CPU. The guarded device
# (guarded_device.h), which copies to the host as late as possible, must give the CPU's bytes; the emulated GPU must give
# those of one process. GUARDED: the program with the guarded device; BERTH_MPIS: the modules that were built.
. "$(dirname "$0")/../cli/lib.sh"
. "$(dirname "$0")/../comm/launch.sh"
[ -n "$(find_mpis)" ] || { echo "no launcher of processes here: skipped"; exit 77; }
export BERTH_MODULE_PATH
BERTH_MODULE_PATH=$(dirname "$BERTH")
make_wide_model "$work/model"
make_questions "$work/data.json" 40
settings="$(training_settings) --virtual_ranks 4"

for precision in fp32 bf16; do
    run finetune squad $settings --precision $precision --output "$work/alone-$precision"
    expect_code 0
done
small="finetune squad --model $work/small --train $work/data.json --max_seq_length 32 --doc_stride 16
    --max_query_length 8 --train_batch_size 8 --max_steps 2 --learning_rate 1e-3 --logging_steps 1 --threads 1
    --precision bf16 --virtual_ranks 4 --device emulated"
run $small --output "$work/emulated"
expect_code 0
few="--train_batch_size 1 --max_steps 3" # one of two ranks has no sequence
run $small $few --output "$work/emulated-few"
expect_code 0

for mpi in $(find_mpis); do
    for stage in 0 1 2; do
        precision=$([ $stage -eq 1 ] && echo bf16 || echo fp32)
        case $stage in
        0) other= ;;
        1) other="--async_save --replica_check_steps 2" ;;
        2) other="--overlap_comm false --reduce_bucket_size 5000" ;;
        esac
        launch_program "$mpi" 2 "$GUARDED" finetune squad $settings --device cuda --precision $precision \
            --zero_stage $stage --output "$work/$mpi-$stage" $other --verbose
        expect_code 0
        expect_err "device: guarded memory"
        same alone-$precision "$mpi-$stage"
    done
    # Four processes, and two that resume on the CPU.
    launch_program "$mpi" 4 "$GUARDED" finetune squad $settings --device cuda --precision fp32 --zero_stage 2 \
        --output "$work/$mpi-4"
    expect_code 0
    same alone-fp32 "$mpi-4"
    mkdir "$work/$mpi-resumed"
    mv "$work/$mpi-4/checkpoint-3" "$work/$mpi-resumed"
    launch "$mpi" 2 finetune squad $settings --precision fp32 --zero_stage 1 --resume_from_checkpoint auto \
        --output "$work/$mpi-resumed"
    expect_code 0
    same alone-fp32 "$mpi-resumed"

    what="$mpi, a GPU and a CPU"
    timeout 300 $(launcher_of "$mpi") -n 2 bash -c \
        'devices=(cuda cpu) && exec "$0" "$@" --device ${devices[${OMPI_COMM_WORLD_RANK-$PMI_RANK}]}' \
        "$GUARDED" finetune squad $settings --output "$work/none" >"$out" 2>"$err" </dev/null
    code=$?
    [ $code -ne 0 ] || fail "they train together"
    expect_err "rank 1 on host $(hostname): the device is cpu with "
    expect_err " kernels, but guarded with "
done
for mpi in $(find_mpis | head -n 1); do
    stage=0
    for ranks in 2 4; do
        launch "$mpi" $ranks $small --zero_stage $((++stage)) --output "$work/emulated-$ranks"
        expect_code 0
        cmp "$work/emulated/model.safetensors" "$work/emulated-$ranks/model.safetensors" || fail "other bytes"
    done
    launch "$mpi" 2 $small $few --zero_stage 1 --output "$work/emulated-few-2"
    expect_code 0
    cmp "$work/emulated-few/model.safetensors" "$work/emulated-few-2/model.safetensors" || fail "other bytes, few"
    # The size that is suggested divides a rank's part of the update: of 12 sequences, 3, not 4.
    planned="$small --train_batch_size 12 --virtual_ranks 2 --dry_run --verbose --output $work/planned"
    launch "$mpi" 2 $planned --per_device_train_batch_size 6
    expect_code 0
    needed=$(awk '$1 == "device_plan_bytes" { printf "%d\n", $2 * ($3 == "MiB" ? 1024 : 1) }' "$out")
    export BERTH_EMULATION_MEMORY=$((2 * needed - 40)) # both ranks share it; less than a sequence takes
    launch "$mpi" 2 $planned --per_device_train_batch_size 6
    expect_code 78
    expect_err "; per_device_train_batch_size 3 would fit"
    launch "$mpi" 2 $planned --per_device_train_batch_size 3
    expect_code 0
    unset BERTH_EMULATION_MEMORY
done
finish
