#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests a model with layer norms before its sub-layers with the whole program: trained (also with recomputed
# activations), used, converted, recognised by its tensors if its configuration does not say, and refused if a
# format cannot hold it or the request contradicts it.
. "$(dirname "$0")/lib.sh"

make_model "$work/post"
sed -i 's/"model_type"/"pre_layer_norm": true, "model_type"/' "$work/config.json"
cd "$work" || exit 1
"$BERTH" init --config config.json --output pre --seed 7 --quiet || exit 1
cp post/vocab.txt pre/
make_dataset data.json
squad="--max_seq_length 64 --threads 1"

# --- training -----------------------------------------------------------------------------------

recipe="--train data.json --dev data.json --num_train_epochs 20 --learning_rate 5e-3 $squad"
recipe="$recipe --train_batch_size 8 --per_device_train_batch_size 4"
run finetune squad --model pre --output kept --pre_layer_norm $recipe
expect_code 0
run finetune squad --model pre --output again --gradient_checkpointing $recipe
expect_code 0
cmp -s kept/model.safetensors again/model.safetensors || fail "other weights by --gradient_checkpointing"
cmp -s kept/predictions.json again/predictions.json || fail "other answers by --gradient_checkpointing"
run evaluate squad data.json kept/predictions.json
expect_out '"f1":'
f1=$(sed 's/.*"f1": *\([0-9]*\).*/\1/' "$out" | head -n 1)
[ "$f1" -ge 50 ] || fail "F1 $f1 on the questions that were learnt"
grep -q '"pre_layer_norm": true' kept/config.json || fail "the result's config.json does not say so"

activations() { # WORDS...: activations_bytes of the plan
    run finetune squad --model pre --output none --dry-run --json_summary plan.json $recipe "$@"
    expect_code 0
    sed -n 's/.*"activations_bytes":\([0-9]*\).*/\1/p' plan.json
}
kept=$(activations)
again=$(activations --gradient_checkpointing)
[ "$again" -lt "$kept" ] || fail "activations of $again bytes, expected fewer than $kept"

# --- which norms the model has ------------------------------------------------------------------

run predict squad --model kept --input data.json --output predicted --pre_layer_norm $squad
expect_code 0
cmp -s kept/predictions.json predicted/predictions.json || fail "other answers by predict"
run finetune squad --model post --output none --pre_layer_norm $recipe
expect_code 78
expect_err "expected a model with layer norms before its sub-layers, but post has them after"
run predict squad --model kept --input data.json --output none --pre_layer_norm false $squad
expect_code 78
expect_err "but kept has them before"
sed -i '/pre_layer_norm/d' kept/config.json
run predict squad --model kept --input data.json --output untold $squad
expect_code 0
cmp -s kept/predictions.json untold/predictions.json || fail "not recognised by its tensors"
cp -r post told
sed -i 's/"model_type"/"pre_layer_norm": true, "model_type"/' told/config.json
run predict squad --model told --input data.json --output none $squad
expect_code 65
expect_err 'missing tensor "bert.encoder.layer.0.PreAttentionLayerNorm.weight"'

# --- formats ------------------------------------------------------------------------------------

for to in torch deepspeed "deepspeed --kernel_layers" tensorflow nvidia; do
    run convert again there --to $to
    expect_code 0
    case $to in
    tensorflow | nvidia) expect_err "has layer norms before its sub-layers, which" ;;
    *) expect_no "$err" "sub-layers" ;;
    esac
    run convert there back
    expect_code 0
    expect_err "which transformers does not support"
    cmp -s again/model.safetensors back/model.safetensors || fail "$to: other tensors"
    rm -f there/bert_config.json
    cp post/config.json there/ # which does not mention norms
    run predict squad --model there --input data.json --output asked $squad
    expect_code 0
    cmp -s kept/predictions.json asked/predictions.json || fail "$to: other answers"
    rm -r there back asked
done
for to in onnx gguf; do
    run convert again there --to $to --allow_lossy
    expect_code 78
    expect_err "again as $to: this model has layer norms before its sub-layers"
    [ ! -e there ] || fail "$to left files"
done
finish
