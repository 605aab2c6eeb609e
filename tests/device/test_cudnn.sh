#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Attention in inference by cuDNN's fused operation (BERTH_GPU_ATTENTION=cudnn), by the emulation with a cuDNN of the
# tests: every case is right, plans are few and kept; without the variable
# nothing is asked of the library; a library that is missing, too old, without memory, refuses the graph or fails in it
# ends the program with a reason. BERTH: the program; OPERATIONS: the test of the emulated device; MODULE: the
# file of that module.
. "$(dirname "$0")/../cli/lib.sh"
export BERTH_MODULE_PATH BERTH_GPU_ATTENTION=cudnn BERTH_TEST_CUDNN_COUNTS=$work/counts
BERTH_MODULE_PATH=$(dirname "$MODULE")
expect_counts() { # PLANS EXECUTIONS
    grep -qx "plans $1 executions $2" "$work/counts" ||
        fail "$what: expected $1 plans, $2 executions; found $(cat "$work/counts")"
}
# Three shapes of attention in two types of 16 bits, each once without log-sum-exp and dropout.
what="the cases of attention"
"$OPERATIONS" attention >"$out" 2>"$err" || fail "$what: $(grep -v '^\[' "$err" | tail -5)"
expect_counts 6 6
what="more sequences"
"$OPERATIONS" attention_of_one_token >"$out" 2>"$err" || fail "$what: $(grep -v '^\[' "$err" | tail -5)"
expect_counts 2 3

cd "$work" || exit 1
make_model model 64
sed -i 's/"hidden_size": 32/"hidden_size": 64/; s/@POSITIONS@/64/' config.json
rm -r model && "$BERTH" init --config config.json --output model --seed 7 --quiet && make_vocabulary >model/vocab.txt ||
    exit 1
for i in $(seq 20); do
    printf 'ada lived in oslo'
    for _ in $(seq "$i"); do printf ' and hugo'; done
    printf '\n'
done >texts.txt
embed() { # [ARGUMENT...]
    run embed --model model texts.txt --device emulated --precision bf16 "$@"
}

# Two layers.
what="embed"
embed
expect_code 0
expect_counts 1 2
mv "$out" by_cudnn
what="embed in several batches"
for _ in $(seq 12); do cat texts.txt; done >many.txt
run embed --model model many.txt --device emulated --precision bf16
expect_code 0
read -r _ plans _ executions <counts
[ "$plans" -gt 1 ] && [ $((2 * plans)) -lt "$executions" ] ||
    fail "$what: $plans plans for $executions executions"
what="embed in fp32"
run embed --model model texts.txt --device emulated --precision fp32
expect_code 0
expect_counts 0 0

# The own kernels, and nothing of the library.
for choice in own ''; do
    what="own kernels ($choice)"
    rm counts
    if [ -n "$choice" ]; then export BERTH_GPU_ATTENTION=$choice; else unset BERTH_GPU_ATTENTION; fi
    BERTH_TEST_CUDNN_FAILS=create embed
    expect_code 0
    [ ! -e counts ] || fail "$what: the library was opened"
    cp "$out" by_own
    : >counts
done
what="embeddings by both"
cmp -s by_own by_cudnn && fail "$what: the same bytes"
paste -d ' ' <(tr -c '0-9.e\n-' ' ' <by_own) <(tr -c '0-9.e\n-' ' ' <by_cudnn) |
    awk 'NF != 2 * int(NF / 2) || NF < 100 { bad = 1 }
         { for (i = 1; i <= NF / 2; i++) { d = $i - $(i + NF / 2); if (d * d > 1e-4) bad = 1 } }
         END { exit bad || NR != 20 }' || fail "$what: far from each other"

what="another choice"
BERTH_GPU_ATTENTION=flash embed
expect_code 2
expect_err "environment variable BERTH_GPU_ATTENTION: expected own, wgmma or cudnn, found \"flash\""
export BERTH_GPU_ATTENTION=cudnn
remedy="use Berth's own kernels (BERTH_GPU_ATTENTION=own); on NVIDIA's GPUs, install cuDNN 9.15 or later of CUDA's major"
refused() { # WHAT TEXT [VARIABLE=VALUE]
    what=$1
    if [ $# -gt 2 ]; then export "${3?}"; fi
    embed
    expect_code 69
    expect_err "device emulated:0, kernels run by the host, warps of 32: "
    expect_err "$2"
    expect_err "$remedy"
    [ "$(grep -c "install cuDNN" "$err")" = 1 ] || fail "$what: it is said more than once"
    if [ $# -gt 2 ]; then unset "${3%%=*}"; fi
}
refused "an old library" "opening: $MODULE is older than 9.15" BERTH_TEST_CUDNN_VERSION=91499
refused "no handle" "opening: cuDNN: FAILED: the tests want it" BERTH_TEST_CUDNN_FAILS=create
refused "a refused graph" "planning attention: cuDNN: NOT_SUPPORTED: the tests want it" BERTH_TEST_CUDNN_FAILS=plan
refused "a failing operation" "attention: cuDNN: FAILED: the tests want it" BERTH_TEST_CUDNN_FAILS=execute
BERTH_MODULE_PATH=$(dirname "$BERTH")
refused "no library" "opening: cuDNN of emulated GPUs is not installed"
finish
