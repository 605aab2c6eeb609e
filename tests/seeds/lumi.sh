#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The demo of CSCS on LUMI: the older program, with the data placed by hand, two epochs and random samples.
. "$(dirname "$0")/lib.sh"
fill_cache
rm -r "$HF_HOME/assets"
mkdir -p cache/data
make_dataset cache/data/train-v1.1.json
make_dataset cache/data/dev-v1.1.json
echo '{"train_batch_size": 4, "steps_per_print": 1, "optimizer": {"type": "AdamW", "params": {"lr": 5e-5}}}' >ds_config.json

HF_HUB_OFFLINE=1 run as bert_squad_deepspeed.py --download-only
expect_out models--bert-base-uncased

# mpirun -np 8 singularity exec ... python bert_squad_deepspeed.py --deepspeed_config ds_config.json
export TRANSFORMERS_OFFLINE=1 HF_DATASETS_OFFLINE=1
original launch 2 berth as bert_squad_deepspeed.py --deepspeed_config ds_config.json
for row in 'schedule +constant' 'precision +fp32' 'total_steps +4' 'weight_decay +0(.000)?' 'train_file +cache/data/train-v1.1.json'; do
    grep -qE "^  $row$" "$err" || fail "no setting $row"
done
log_lines() { # of DeepSpeed's logger, its timer and the program, and none of BingBertSquad
    expect_line '\[INFO\] \[logging\.py:[0-9]+:log_dist\] \[Rank 0\] step=4, skipped=0, lr=\[5e-05\], mom=\[\(0\.9, 0\.999\)\]$'
    expect_line '\] \[INFO\] \[timer\.py:[0-9]+:stop\] 0/4, RunningAvgSamplesPerSec=[0-9.]+, CurrSamplesPerSec=[0-9.]+, MemAllocated='
    expect_line '^Finished Training$'
    expect_no "$err" bert_squad_progress
    expect_no "$err" 'averaged throughput'
}
log_lines
result=$(echo cache/model_trained_deepspeed_????-??-??-??????)
expect_file "$result/model.safetensors" "$result/predictions.json"
grep -q '"squad_answer_end": "inclusive"' "$result/config.json" || fail "the end is the token after the answer"
# Random samples, numbered.
shown_of 8 '^─* Example [0-7] '
for processes in 1 8; do
    original launch $processes berth as --output_dir=several-$processes --date_output=false bert_squad_deepspeed.py \
        --deepspeed_config ds_config.json
    log_lines
    expect_file several-$processes/model.safetensors
done
# The program's name decides the epochs, whatever the recipe.
original berth as --recipe=piz-daint --output_dir=named --dry-run bert_squad_deepspeed.py --deepspeed_config ds_config.json
expect_line '^  epochs +2$'
take_section "CSCS's demo on LUMI"
is_printed berth as bert_squad_deepspeed.py --download-only
is_printed berth as bert_squad_deepspeed.py --deepspeed_config ds_config.json
mkdir page && cd page || exit 1
cp -r ../ds_config.json ../cache .
rm -rf cache/model_trained*
HF_HUB_OFFLINE=1 run_page 1
[ "$(grep -c '^❓' "$out")" -gt 5 ] || fail "no samples"
cd ..

# The line decides against the recipe, the recipe against the rest.
run as --num_train_epochs=1 --output_dir=none --dry-run --verbose bert_squad_deepspeed.py --deepspeed_config ds_config.json
expect_code 0
grep -qE '^  total_steps +2$' "$out" || fail "not one epoch"
run finetune squad --recipe bing-128 --model "$work/base" --train cache/data/train-v1.1.json --output none --dry-run --verbose
expect_code 2
expect_err "recipe bing-128 is for pre-training"
finish
