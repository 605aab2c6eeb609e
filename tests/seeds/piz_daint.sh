#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The demo of CSCS on Piz Daint: BERT on SQuAD by an engine's file alone, and the viewer of its results.
. "$(dirname "$0")/lib.sh"
fill_cache
train=$(echo "$HF_HOME"/assets/berth/datasets--squad/snapshots/*/train-v1.1.json)
repeat_answers "$train" 3                          # 24 entries: three updates
repeat_answers "${train%train*}dev-v1.1.json" 3100 # 24800, so that the document's sample exists
cat >ds_config.json <<'END'
{"train_batch_size": 8, "gradient_accumulation_steps": 1, "steps_per_print": 1,
 "optimizer": {"type": "AdamW", "params": {"lr": 5e-5}}, "fp16": {"enabled": true}, "zero_optimization": {"stage": 1}}
END

# On a login node: model and data. The model is there; the data's digests are not those of SQuAD, so it would be fetched.
HF_HUB_OFFLINE=1 run as 3_squad_bert_deepspeed.py --download-only
expect_code 69
expect_out models--bert-base-uncased
expect_err "train-v1.1.json of squad is not in the cache"

# srun python 3_squad_bert_deepspeed.py --deepspeed_config ds_config.json
log_lines() { # of DeepSpeed's logger, its timer and the program, and none of BingBertSquad
    expect_line '^\[[-0-9]+ [:0-9]+,[0-9]+\] \[INFO\] \[logging\.py:[0-9]+:log_dist\] \[Rank 0\] step=3, skipped=0, lr=\[5e-05\], mom=\[\(0\.9, 0\.999\)\]$'
    expect_line '\] \[INFO\] \[timer\.py:[0-9]+:stop\] 0/3, RunningAvgSamplesPerSec=[0-9.]+, CurrSamplesPerSec=[0-9.]+, MemAllocated=[0-9.]+GB, MaxMemAllocated=[0-9.]+GB$'
    expect_no "$err" ' 0/2, RunningAvg' # the timer begins with the third step
    expect_line '^Finished Training$'
    for line in bert_squad_progress bing_bert_progress 'averaged throughput'; do
        expect_no "$err" "$line"
    done
}
original berth as 3_squad_bert_deepspeed.py --deepspeed_config ds_config.json
log_lines
for row in 'schedule +constant' 'weight_decay +0(.000)?' 'train_batch_size +8' 'total_steps +3' 'epochs +1' 'optimizer +adamw' \
    'hidden_dropout_prob +0\.1' 'attention_probs_dropout_prob +0\.1'; do
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

# Several processes, as nodes or as GPUs of one.
for processes in 2 8; do
    original launch $processes berth as --output_dir=several-$processes --date_output=false 3_squad_bert_deepspeed.py \
        --deepspeed --deepspeed_config ds_config.json
    log_lines
    [ "$(grep -c 'step=3, skipped' "$err")" -eq 1 ] || fail "lines of several processes"
    expect_file several-$processes/model.safetensors
    [ "$(grep -c '^❓' "$out")" -gt 0 ] || fail "no samples"
done

# Gradients that travel in fp16 overflow at the first loss scale, 2^32, as in the demo's log.
if command -v mpirun.openmpi >/dev/null; then
    sed 's/"zero_optimization"/"communication_data_type": "fp16", &/' ds_config.json >half.json
    original launch 2 berth as --output_dir=half --date_output=false 3_squad_bert_deepspeed.py --deepspeed_config half.json
    expect_line 'OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 4294967296, reducing to 2147483648'
    expect_line '\[Rank 0\] step=3, skipped=3, lr='
    original launch 2 berth as --communication_data_type=fp32 --output_dir=full --date_output=false \
        3_squad_bert_deepspeed.py --deepspeed_config half.json
    expect_line '\[Rank 0\] step=3, skipped=0, lr='
fi

# The tester, whose samples are entries; the saved state, which lies alone; the data placed by hand.
original berth as 3_squad_bert_deepspeed_test.py --model-file "$result" --start-sample 24100 --num-test-samples 10
shown_of 10 "^─* {'exact_match'"
run as 3_squad_bert_deepspeed_test.py --model-file "$result" --start-sample 24800 --num-test-samples 10
expect_code 2
expect_err "has samples 0 to 24799"
mkdir placed && cd placed || exit 1
mkdir -p cache/data
make_dataset cache/data/dev-v1.1.json
original berth as 3_squad_bert_deepspeed_test.py --model-file "../$result" --start-sample 2 --num-test-samples 4
shown_of 4 "^─* {'exact_match'"
run as 3_squad_bert_deepspeed_test.py --model-file "../$result" --start-sample 8
expect_code 2
expect_err "cache/data/dev-v1.1.json has samples 0 to 7"
cd ..
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
    --train placed/cache/data/dev-v1.1.json --output further --max_steps 1
expect_code 0
expect_err "if it is a state of CSCS's demo on Piz Daint, set features keras and keras_end exclusive"

take_section "CSCS's demo on Piz Daint"
is_printed berth as 3_squad_bert_deepspeed.py --deepspeed_config ds_config.json
mkdir cache/RESULT
is_printed berth as 3_squad_bert_deepspeed_test.py --model-file cache/RESULT --start-sample 24100 \
    --num-test-samples 10
rmdir cache/RESULT
mkdir page && cd page || exit 1
cp ../ds_config.json .
run_page 1
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
