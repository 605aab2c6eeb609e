#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The demo of CSCS on Piz Daint: BERT on SQuAD by an engine's file alone, and the viewer of its results.
. "$(dirname "$0")/lib.sh"
fill_cache
cat >ds_config.json <<'END'
{"train_batch_size": 4, "gradient_accumulation_steps": 1, "steps_per_print": 1,
 "optimizer": {"type": "AdamW", "params": {"lr": 5e-5}}, "fp16": {"enabled": true}, "zero_optimization": {"stage": 1}}
END

# On a login node: model and data. The model is there; the data's digests are not those of SQuAD, so it would be fetched.
HF_HUB_OFFLINE=1 run as 3_squad_bert_deepspeed.py --download-only
expect_code 69
expect_out models--bert-base-uncased
expect_err "train-v1.1.json of squad is not in the cache"

# srun python 3_squad_bert_deepspeed.py --deepspeed_config ds_config.json
original berth as 3_squad_bert_deepspeed.py --deepspeed_config ds_config.json
expect_line '\[INFO\] .*\[Rank 0\] step=2, skipped=[0-9]+, lr=\[5e-05\], mom=\[\(0\.9, 0\.999\)\]'
expect_line '\[INFO\] .* [0-9]+/2, RunningAvgSamplesPerSec=.*, CurrSamplesPerSec=.*, MemAllocated=.*GB, MaxMemAllocated=.*GB'
expect_line 'Finished Training'
for row in 'schedule +constant' 'weight_decay +0(.000)?' 'train_batch_size +4' 'total_steps +2' 'optimizer +adamw'; do
    grep -qE "^  $row$" "$err" || fail "no setting $row"
done
result=$(echo cache/model_trained_deepspeed_????-??-??-??????)
expect_file "$result/model.safetensors" "$result/predictions.json" "$result/trainer_state.json"
[ ! -e cache/model_trained_deepspeed ] || fail "a result without its time"
grep -q '"squad_features": "keras"' "$result/config.json" || fail "not Keras's features"
grep -q '"squad_answer_end": "exclusive"' "$result/config.json" || fail "the end is the last token"
# Samples after training, with both scores as the title.
shown=$(grep -c "^─* {'exact_match': [0-9.]*, 'f1': [0-9.]*} ─*$" "$out")
[ "$shown" -gt 0 ] && [ "$(grep -c '^❓' "$out")" -eq "$shown" ] || fail "$shown samples"

# Two processes; the tester; its saved state, which lies alone.
original launch 2 berth as --output_dir=two --date_output=false 3_squad_bert_deepspeed.py --deepspeed \
    --deepspeed_config ds_config.json
expect_file two/model.safetensors
[ "$(grep -c '^❓' "$out")" -gt 0 ] || fail "no samples"
original berth as 3_squad_bert_deepspeed_test.py --model-file "$result" --start-sample 1 --num-test-samples 4
expect_out '✅'
"$BERTH" convert "$result" state --to torch --quiet
mkdir alone && mv state/pytorch_model.bin alone/model_trained_deepspeed_2023-01-31-120000
original berth as 3_squad_bert_deepspeed_test.py --model-file alone/model_trained_deepspeed_2023-01-31-120000 \
    --start-sample 1 --num-test-samples 2
expect_out '✅'
original berth predict squad --model alone/model_trained_deepspeed_2023-01-31-120000 --config_file "$work/config.json" \
    --vocab_file "$work/base/vocab.txt" --features keras --keras_end exclusive --input squad --output answers
cmp -s answers/predictions.json "$result/predictions.json" || fail "the saved state answers differently"
# Without the rules, which the state does not record.
run finetune squad --model alone/model_trained_deepspeed_2023-01-31-120000 --config_file bert-base-uncased \
    --vocab_file bert-base-uncased \
    --train squad --output further --max_steps 1
expect_code 0
expect_err "For a state of CSCS's demo of Piz Daint set features keras and keras_end exclusive"

mkdir page && cd page || exit 1
cp ../ds_config.json .
run_page from-piz-daint.md 3
[ "$(grep -c '^❓' "$out")" -gt 3 ] || fail "no samples"
cd ..

# The printed command gives the same result; an engine's file makes no native line the demo's.
same_printed fixed berth as --output_dir=fixed --date_output=false 3_squad_bert_deepspeed.py \
    --deepspeed_config ds_config.json
run as 3_squad_bert_deepspeed.py
expect_code 2
expect_err 'needs the option --deepspeed_config'
run finetune squad --deepspeed_config ds_config.json
expect_code 2
expect_err 'option --model_name_or_path is required'
expect_no "$err" recipe

# What is not in the cache is named with the command that downloads it.
export HF_HOME=$work/empty
run as 3_squad_bert_deepspeed.py --deepspeed_config ds_config.json
expect_code 66
expect_err '`berth fetch bert-base-uncased` downloads it'
run finetune squad --model "$work/base" --train squad --output none
expect_code 66
expect_err '`berth fetch squad` downloads it'
finish
