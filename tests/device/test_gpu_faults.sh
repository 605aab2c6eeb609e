#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How a GPU's errors are reported: BERTH_EMULATION_FAULT=CALL:N:CODE makes a call of the emulation fail with one of CUDA's
# numbers. The message names the device, the call and a remedy; the exit code distinguishes a missing or faulty GPU (69)
# from a fault of the program (70); earlier checkpoints are complete, and the run continues from them to the same bytes.
# BERTH: the program.
. "$(dirname "$0")/../cli/lib.sh"
BERTH_MODULE_PATH=$(dirname "$BERTH")
export BERTH_MODULE_PATH
cd "$work" || exit 1
make_model start 64
make_dataset train.json

train() { # OUTPUT [ARGUMENT...]
    run finetune squad --model start --train train.json --max_seq_length 40 --doc_stride 16 --max_query_length 16 --seed 42 \
        --train_batch_size 4 --per_device_train_batch_size 2 --max_steps 4 --save_steps 2 --learning_rate 1e-3 \
        --precision fp32 --device emulated --threads 1 --output "$@"
}
train whole --quiet
expect_code 0

# The N-th call of CALL fails in the third update, or while the checkpoint of the fourth is written.
fault() { # CALL N CODE EXIT TEXT...
    local text
    rm -rf broken
    what="$1 $2 fails with $3"
    BERTH_EMULATION_FAULT=$1:$2:$3 train broken --quiet
    expect_code "$4"
    expect_err "device emulated:0, kernels run by the host, warps of 32: "
    for text in "${@:5}"; do
        expect_err "$text"
    done
    [ "$(ls -d broken/checkpoint-*)" = broken/checkpoint-2 ] || fail "checkpoints: $(ls broken)"
    train broken --resume_from_checkpoint auto --quiet
    expect_code 0
    cmp -s broken/model.safetensors whole/model.safetensors || fail "other bytes when resumed"
}
hardware="take it out of use; checkpoints are intact, resume_from_checkpoint auto continues"
fault norms 3 214 69 "norms: uncorrectable ECC error (error 214): the GPU is faulty (Xid 48" "$hardware"
fault norms 4 719 70 "norms: a kernel failed (error 719)" "Xid 13"
fault span_loss 6 226 69 "span_loss: contained memory error (error 226)" "Xid 94" "$hardware"
fault mark 20 999 70 "mark: unknown error (error 999)"
fault embed_forward 5 700 70 "embed_forward: illegal memory access (error 700)" "Xid 31"

# An error before anything is computed leaves nothing behind.
early() { # CALL N CODE EXIT TEXT...
    local text
    what="$1 $2 fails with $3"
    BERTH_EMULATION_FAULT=$1:$2:$3 train early --quiet
    expect_code "$4"
    for text in "${@:5}"; do
        expect_err "$text"
    done
    [ ! -e early ] || fail "an output folder is left"
}
early open 1 46 69 "opening: the GPU is busy or unavailable (error 46)" "use device cpu"
early open 1 209 69 "no code for this GPU" "BERTH_CUDA_ARCHITECTURES"
early open 1 3 69 "the driver cannot be initialized (error 3)" "forked"
early open 1 222 69 "the driver is too old for the module's code (error 222)" "BERTH_CUDA_ARCHITECTURES"
early open 1 805 69 "MPS does not answer (error 805)" "CUDA_MPS_PIPE_DIRECTORY"
early open 1 400 70 "a handle belongs to another GPU (error 400)" "a bug in Berth"
early memory 3 999 70 "unknown error (error 999)"
early memory 1 2 70 "out of memory: " "MiB left; per_device_train_batch_size 1 would fit"
early memory 7 2 70 "out of memory: " "MiB left; per_device_train_batch_size 1 would fit"

# The plan knows how much memory the device has.
plan_of() { # SEQUENCES: KiB of the device
    train planned --dry_run --verbose --train_batch_size 8 --per_device_train_batch_size "$1"
    awk '$1 == "device_plan_bytes" { printf "%d\n", $2 * ($3 == "MiB" ? 1024 : 1) + 16 }' "$out"
}
small=$(plan_of 2)
large=$(plan_of 8)
what="plans of $small and $large KiB"
[ "$small" -lt "$large" ] || fail "expected the second to be larger"
what="a batch that does not fit"
BERTH_EMULATION_MEMORY=$small train planned --train_batch_size 8 --per_device_train_batch_size 8
expect_code 78
expect_err "the GPU's memory leaves $((small / 1024)) MiB"
expect_err "; per_device_train_batch_size 2 would fit"
BERTH_EMULATION_MEMORY=$small train planned --train_batch_size 8 --per_device_train_batch_size 8 \
    --gradient_accumulation_steps 1
expect_code 78
expect_err "; per_device_train_batch_size 2 with train_batch_size 2 would fit"
what="a batch that fits"
BERTH_EMULATION_MEMORY=$small train planned --train_batch_size 8 --per_device_train_batch_size 2 --max_steps 1
expect_code 0

# Why the CPU computes: as far as modules are installed, the first one's reason; if one was loaded, its own message says
# it. No file here is the module of a real GPU, and libcuda.so.1 is not NVIDIA's.
mkdir alone driver
cp "$BERTH" alone/berth
cp "$BERTH_MODULE_PATH/berth-device-emulated.so" driver/libcuda.so.1
because() { # TEXT
    BERTH_MODULE_PATH= LD_LIBRARY_PATH=$work/driver alone/berth embed --model start texts.txt --device auto --verbose >"$out" 2>"$err"
    code=$?
    expect_code 0
    expect_err "(auto: $1)"
}
printf 'ada lived in oslo\n' >texts.txt
what="no module for a GPU"
because "this build has no device for GPUs"
if [ ! -e /dev/kfd ]; then
    what="a module for AMD's GPUs alone"
    : >alone/berth-device-hip.so
    because "no AMD GPU driver is loaded (/dev/kfd)"
    what="a module for NVIDIA's GPUs that cannot be loaded"
    : >alone/berth-device-cuda.so
    because "no GPU can be used"
fi

what="the speed of products, with memory for none of them"
BERTH_EMULATION_MEMORY=8000 run bench peak --device emulated --json
expect_code 0
expect_out '"fp32_gflops":null,"bf16_gflops":null'

# Options that the device has no use for.
run embed --model start texts.txt --device emulated --instructions avx2
expect_code 0
expect_err "instructions has no effect: it selects those of the CPU, and the device is emulated"
run embed --model start texts.txt --device emulated --tf32
expect_code 0
expect_no "$err" "has no effect"
run embed --model start texts.txt --device cpu --instructions generic --tf32
expect_code 0
expect_err "tf32 has no effect: the device cpu does not support it"
expect_no "$err" "instructions has no effect"
finish
