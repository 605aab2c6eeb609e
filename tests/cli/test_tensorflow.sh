#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests Google's model folder in every verb that takes a model: a tiny BERT saved by TensorFlow gives the same
# results as the same weights in Hugging Face's layout. Also tests TensorBoard's file of a run.
. "$(dirname "$0")/lib.sh"
data=$(cd "$(dirname "$0")/.." && pwd)
mkdir "$work/google" "$work/hf"
cp "${BERTH%/*}"/tests/format/data/tensorflow/bert/* "$work/google"
cp "$data/golden/tiny_h20.safetensors" "$work/hf/model.safetensors" # among other tensors
cp "$work/google/bert_config.json" "$work/hf/config.json"
{ make_vocabulary; seq -f 'word%g' 100; } | head -n 101 >"$work/google/vocab.txt"
cp "$work/google/vocab.txt" "$work/hf"
make_dataset "$work/data.json"
small="--threads 1 --max_seq_length 64 --doc_stride 16 --max_query_length 16 --precision fp32"

same() { # FILE OTHER
    cmp -s "$1" "$2" || fail "$1 and $2 differ"
}
both() { # VERB ARGUMENTS...: standard output of both folders is the same
    run "$@" --model "$work/hf"
    expect_code 0
    sed "s|$work/hf|MODEL|g" "$out" >"$work/expected"
    run "$@" --model "$work/google"
    expect_code 0
    sed "s|$work/google|MODEL|g" "$out" >"$work/found"
    [ -s "$work/found" ] || fail "no output"
    same "$work/expected" "$work/found"
}

both answer --question 'Where did Ada live?' --context 'Ada lived in Oslo. Hugo in Riga.' --json $small
both features squad --input "$work/data.json" --max_seq_length 64 --doc_stride 16 --max_query_length 16
both show squad --input "$work/data.json" --start-sample 1 --num-test-samples 2 $small
run predict squad --model "$work/hf" --input "$work/data.json" --output "$work/a" $small
run predict squad --model "$work/google" --input "$work/data.json" --output "$work/b" $small
expect_code 0
same "$work/a/nbest_predictions.json" "$work/b/nbest_predictions.json"

# Google's name of a checkpoint denotes its folder; a casing that contradicts the folder's name is reported.
run answer --question 'Where?' --context 'Ada lived in Oslo.' --model "$work/google/model.ckpt-7" $small
expect_code 0
cp -r "$work/hf" "$work/tiny_cased_L-2"
run answer --question 'Where?' --context 'Ada lived in Oslo.' --model "$work/tiny_cased_L-2" --do_lower_case true $small
expect_code 78
expect_err "do_lower_case is true, but $work/tiny_cased_L-2 is a cased model by its name"

# The golden file has further tensors, which strict refuses.
run answer --model "$work/hf" --question 'Where?' --context 'In Oslo.' $small
expect_code 0
run answer --model "$work/hf" --question 'Where?' --context 'In Oslo.' $small --strict
expect_code 65
expect_err 'unexpected tensors'
run convert "$work/google" "$work/lacking" --quiet
run answer --model "$work/lacking" --question 'Where?' --context 'In Oslo.' $small --strict
expect_code 0

run inspect "$work/google"
expect_code 0
expect_out bert/encoder/layer_1/intermediate/dense/kernel
expect_out '"hidden_size": 20'
run inspect "$work/google/model.ckpt-7.index"
expect_code 0
expect_out global_step

run finetune squad --model "$work/google" --train "$work/data.json" --dev "$work/data.json" \
    --output "$work/run" --max_steps 2 --train_batch_size 4 --logging_steps 1 \
    --tensorboard "$work/board" $small
expect_code 0
[ -s "$work/run/model.safetensors" ] || fail "no model was saved"
[ -s "$work/run/config.json" ] || fail "no config.json was saved"
grep -qF Train/Samples/train_loss "$work"/board/events.out.tfevents.* || fail "no loss for TensorBoard"
grep -qF Validation/f1 "$work"/board/events.out.tfevents.* || fail "no score for TensorBoard"
grep -qF Train/Samples/train_ema_loss "$work"/board/events.out.tfevents.* || fail "no mean loss"
# The folder as BingBertSquad names it.
run as --threads=1 --precision=fp32 nvidia_run_squad_baseline.py --bert_model "$work/google" --do_train --do_lower_case \
    --train_file "$work/data.json" --output_dir "$work/named" --max_steps 1 --train_batch_size 4 --print_steps 1 \
    --job_name first --loss_plot_alpha 0.5 --max_seq_length 64 --doc_stride 16 --max_query_length 16
expect_code 0
[ -s "$(echo "$work"/named/runs/first/events.out.tfevents.*)" ] || fail "no runs/first"
run inspect "$work/run"
expect_code 0
expect_out bert.encoder.layer.1.intermediate.dense.weight

# Without `checkpoint` a single index is used; two of them are an error.
rm "$work/google/checkpoint"
both answer --question 'Where did Ada live?' --context 'Ada lived in Oslo.' --json $small
cp "$work/google/model.ckpt-7.index" "$work/google/other.index"
run answer --model "$work/google" --question a --context b $small
expect_code 66
expect_err 'model.ckpt-7.index and other.index'
rm "$work/google/other.index"

# A download that broke off.
truncate -s -1 "$work/google/model.ckpt-7.data-00000-of-00001"
run answer --model "$work/google" --question a --context b $small
expect_code 65
expect_err truncated
finish
