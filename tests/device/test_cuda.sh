#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The CUDA module on a machine without a GPU: it is not linked to the driver, opens, is refused with a reason, and
# nothing is computed or left behind; `auto` takes the CPU and says so. BERTH: the program; OPERATIONS: bench_operations;
# MODULE: the module, empty where it is not built.
. "$(dirname "$0")/../cli/lib.sh"
if [ -z "$MODULE" ]; then
    echo "skipped: berth-device-cuda.so is not built (no nvcc)"
    exit 77
fi
BERTH_MODULE_PATH=$(dirname "$MODULE")
export BERTH_MODULE_PATH

what="what $MODULE is linked to"
readelf -d "$MODULE" >"$out" 2>"$err" || fail "readelf"
expect_out "libcublasLt.so"
expect_no "$out" "libcuda.so"
readelf -sW --dyn-syms "$MODULE" >"$out"
grep -qE ' UND cu[A-Z]' "$out" && fail "calls the driver by name: $(grep -E ' UND cu[A-Z]' "$out" | head -3)"
grep -qE ' DEFAULT +[0-9]+ berth_device_module' "$out" || fail "offers no berth_device_module"
what="what the program is linked to"
readelf -d "$BERTH" >"$out" 2>"$err" || fail "readelf"
expect_no "$out" "libcuda"
expect_no "$out" "libcublas"
if command -v cuobjdump >"$work/cuobjdump"; then
    what="machine code in $MODULE"
    cuobjdump --list-elf "$MODULE" >"$out" 2>"$err" || fail "cuobjdump"
    for architecture in $ARCHITECTURES; do
        expect_out ".sm_$architecture"
    done
    what="PTX of the last of $ARCHITECTURES in $MODULE"
    cuobjdump --list-ptx "$MODULE" >"$out" 2>"$err" || fail "cuobjdump"
    expect_out ".sm_${ARCHITECTURES##* }.ptx"
fi

if [ -e /dev/nvidiactl ] || ldconfig -p | grep -q 'libcuda\.so\.1'; then
    echo "skipped: what happens without a driver; there is one"
    finish
fi
cd "$work" || exit 1
make_model model 64
make_dataset squad.json
printf 'Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t1\t2\tAda lived.\tHugo lived.\n' >dev.tsv
cp dev.tsv train.tsv
printf 'ada lived in oslo\n' >texts.txt
printf 'ada lived in oslo and hugo in riga.\nolga lived in bern.\n\nrita lived in rome.\nada lived in bern.\n' >text.txt
"$BERTH" prepare --text text.txt --vocab model/vocab.txt --output data --max_seq_length 32 --quiet \
    --max_predictions_per_seq 4 --dupe_factor 2 || fail "prepare"
shards=$(dirname "$(find data -name '*training_0.hdf5')")
refused() { # ARGUMENT...
    run "$@" --device "$device" --max_seq_length 32
    expect_code 69
    expect_err "$reason"
    expect_err "use device cpu"
    [ ! -s "$out" ] || fail "has an answer"
    [ ! -e computed ] || fail "an output folder is left"
}
everything() {
    refused finetune squad --model model --train squad.json --dev squad.json --doc_stride 8 --max_query_length 12 \
        --output computed
    refused predict squad --model model --input squad.json --doc_stride 8 --max_query_length 12 --output computed
    refused answer --model model --question 'Where did Ada live?' --context 'Ada lived in Oslo.'
    refused show squad --model model --input squad.json --doc_stride 8 --max_query_length 12
    refused finetune classify --model model --task mrpc --data_dir . --output computed
    refused predict classify --model model --task mrpc --data_dir . --split dev --output computed --allow_new_head
    refused embed --model model texts.txt
    refused pretrain --model model --input_dir "$shards" --train_batch_size 8 --output computed
    refused evaluate pretrain --model model --input_dir "$shards" --output computed --allow_new_head
}
device=cuda
reason="device cuda: opening: no NVIDIA driver is installed (error 35): install or update the GPU's driver"
everything
device=cuda:1
refused embed --model model texts.txt
device=hip
reason="no berth-device-hip.so in"
if [ -e "$BERTH_MODULE_PATH/berth-device-hip.so" ]; then
    what="what berth-device-hip.so is linked to"
    readelf -d "$BERTH_MODULE_PATH/berth-device-hip.so" >"$out"
    expect_out "libamdhip64.so"
    expect_no "$out" "hipblaslt"
    reason="device hip: opening: no AMD GPU driver is loaded (/dev/kfd) (error 35): install or update the GPU's driver"
fi
if [ -e /dev/kfd ]; then
    echo "skipped: what happens without AMD's driver; there is one"
else
    everything
fi
run bench peak --device cuda --seconds 0.01
expect_code 69
expect_err "no NVIDIA driver is installed"
for table in gemm ops; do
    what="bench_operations $table"
    "$OPERATIONS" $table --device cuda >"$out" 2>"$err"
    code=$?
    expect_code 69
    expect_err "no NVIDIA driver is installed"
done

# The names that there are.
for device in gpu cuda: cuda:x cuda:12345 cuda:-1 cpu:0 hip:1:2; do
    run embed --model model texts.txt --device "$device"
    expect_code 2
    expect_err "auto, cpu, cuda[:N], hip[:N], emulated"
done

# The fallback says why, and computes what the CPU does.
run embed --model model texts.txt --device cpu
cp "$out" "$work/of-cpu"
run embed --model model texts.txt --device auto --verbose
expect_code 0
expect_err "(auto: no NVIDIA driver is installed (libcuda.so.1))"
cmp -s "$out" "$work/of-cpu" || fail "other embeddings than the CPU's"

run doctor
expect_code 0
grep -qE '^device_cuda +device cuda: opening: no NVIDIA driver' "$out" || fail "does not say what CUDA lacks"
grep -qE '^device_hip +.*(no berth-device-hip.so|driver)' "$out" || fail "does not say what HIP lacks"
run doctor --json
expect_code 0
expect_out '"device_cuda":"device cuda: opening: no NVIDIA driver is installed'
finish
