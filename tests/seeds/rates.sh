#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The learning rate of every update under the original programs' command lines, against the programs' own formulas
# (rates.py), and the other settings that are the programs'.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
make_model model
cp "$work/config.json" bert_config.json
cp model/config.json model/vocab.txt .
make_dataset data.json # eight questions, each of one window
number=0
rates() { # PROGRAM UPDATES WORDS...
    local program=$1 updates=$2
    shift 2
    number=$((number + 1))
    if [ "$1" = as ]; then
        shift
        run as --verbose --logging_steps=1 --json_summary=log.jsonl --skip_checkpoint "$@" --output_dir "out-$number"
    else
        run "$@" --logging_steps 1 --json_summary log.jsonl --skip_checkpoint --output_dir "out-$number"
    fi
    expect_code 0
    python3 -B "$here/rates.py" log.jsonl "$program" "$updates" || fail "not the rates of $program"
}
expect_half() { # the note that the program computes in fp32
    expect_err "was published in fp32; Berth uses bf16 if that is fast on the device (precision fp32"
}
squad="--train_file data.json --max_seq_length 64 --train_batch_size 2 --num_train_epochs 5 --learning_rate 3e-5"

# --- Habana's and NVIDIA's run_squad ----------------------------------------------------------------

words="run_squad.py --do_train --bert_model=bert-large-uncased --config_file=bert_config.json --vocab_file=vocab.txt
    --init_checkpoint=model/model.safetensors --do_lower_case $squad"
habana="as habana/$words" nvidia="as nvidia/$words"
rates habana 20 as $words --use_habana --use_fused_adam # whose flags they are
expect_half
setting clip_by global
setting weight_decay 0
rates habana 4 $habana --use_fused_adam --max_steps=4 --autocast # they only end it earlier
expect_no "$err" "was published in fp32; Berth uses"
run as --dry-run --verbose ${habana#as } --use_fused_adam --per_param_grad_clipping --output_dir none
setting clip_by both
rates bertadam 20 $habana --eval_script=evaluate-v1.1.py --use_habana --warmup_proportion=0.33
setting optimizer bertadam
setting weight_decay 0
setting clip_by both
rates nvidia 20 $nvidia --eval_script=evaluate-v1.1.py --warmup_proportion=0.33 --fp16
setting optimizer adamw
setting weight_decay 0.01
setting clip_by global
grep -qE '"bias_correction": ?"false"' log.jsonl || fail "with correction of bias"
rates bertadam 4 $nvidia --warmup_proportion=0.33 --max_steps=4
expect_half
setting weight_decay 0.01
setting clip_by both
run as --dry-run --verbose nvidia/run_squad.py --do_train --bert_model=b --config_file=bert_config.json --vocab_file=vocab.txt \
    --init_checkpoint=model/model.safetensors --train_file data.json --output_dir none
setting learning_rate 5e-05
setting epochs 3

# --- BingBertSquad ----------------------------------------------------------------------------------

baseline="as nvidia_run_squad_baseline.py --do_train --bert_model model --job_name baseline $squad --warmup_proportion 0.33"
rates bing-squad 20 $baseline
grep -q '"text":"Config".*"precision":"fp32"' log.jsonl || fail "the baseline's precision"
rates bing-squad 4 $baseline --max_steps 4
rates bing-squad 10 $baseline --max_steps_per_epoch 2 --fp16
setting schedule_steps 20

# --- Google's and Intel's ---------------------------------------------------------------------------

# int(8 / 3 * 4) updates, where four epochs of three updates would be 12.
google="as google/run_squad.py --do_train=True --bert_config_file=bert_config.json --vocab_file=vocab.txt --init_checkpoint=model
    --train_file=data.json --max_seq_length=64 --learning_rate=3e-5 --num_train_epochs=4.0 --warmup_proportion=0.25"
rates google 10 $google --train_batch_size=3
expect_half
rates google 10 finetune squad --recipe intel --model model --train data.json --max_seq_length 64 --learning_rate 3e-5 \
    --num_train_epochs 4 --warmup_proportion 0.25 --train_batch_size 3 --precision fp32
expect_no "$err" "was published in fp32; Berth uses"
# Examples, not windows: sixteen of these, or more.
run as --dry-run --verbose ${google#as } --train_batch_size=2 --max_seq_length=24 --doc_stride=2 --output_dir none
setting total_steps 16
# Without those whose answer is not in the text: int(7 / 2 * 3) updates.
sed 's/"Oslo", "answer_start": 13/"Lima", "answer_start": 13/' data.json >wrong.json
rates google 10 $google --train_file=wrong.json --train_batch_size=2 --num_train_epochs=3
grep -qE '"train_examples": ?7' log.jsonl || fail "not the examples"
# Too few examples for one update of that size: one all the same.
run as --dry-run --verbose ${google#as } --train_batch_size=64 --output_dir none
setting total_steps 1

# --- Hugging Face's ---------------------------------------------------------------------------------

run_qa="as run_qa.py --model_name_or_path model --do_train --train_file data.json --max_seq_length 64"
rates trainer 20 $run_qa --per_device_train_batch_size 2 --num_train_epochs 5 --learning_rate 3e-5 --warmup_ratio 0.13
expect_half
setting weight_decay 0
setting warmup_steps 3
rates trainer-default 20 $run_qa --per_device_train_batch_size 2 --num_train_epochs 5 --learning_rate 3e-5
run as --dry-run --verbose ${run_qa#as } --output_dir none
setting train_batch_size 8
setting learning_rate 5e-05
setting epochs 3
setting warmup_steps 0
run as --dry-run --verbose --train_batch_size=4 ${run_qa#as } --output_dir none
setting train_batch_size 4
printf 'text,label\nada,1\nhugo,0\n' >table.csv
printf 'ada B\nlives O\n\n' >tags.txt
printf 'ada lived in oslo.\nhugo lived in riga.\nolga lived in bern.\nrita lived in rome.\n' >lines.txt
for line in "run_glue.py --train_file table.csv" "run_ner.py --train_file tags.txt" \
    "run_mlm.py --train_file lines.txt --validation_file lines.txt"; do
    run as --dry-run --verbose $line --model_name_or_path model --do_train --max_seq_length 16 --output_dir none
    expect_code 0
    setting learning_rate 5e-05
    setting train_batch_size 8
done
# Berth's own words are nobody's.
run finetune squad --model model --train data.json --max_seq_length 64 --output_dir none --dry-run --verbose
expect_no "$err" "--recipe"
setting learning_rate 3e-05
run finetune squad --model_name_or_path model --train_file data.json --max_seq_length 64 --output_dir none --dry-run --verbose
expect_code 0
expect_no "$err" "--recipe"

# --- a warm-up of no updates ------------------------------------------------------------------------

own="finetune squad --model model $squad"
rates no-warm-up 20 $own --warmup_steps 0
rates no-warm-up 20 $own --recipe habana-bertadam --warmup_steps=0
echo '{"train_batch_size": 2, "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 3e-5, "warmup_num_steps": 0}}}' >ds.json
rates warmup-lr 20 $own --deepspeed_config ds.json
# Beside a proportion it says nothing, as in transformers.
run $own --warmup_steps 0 --warmup_proportion 0.5 --output_dir none --dry-run --verbose
setting warmup_steps 10
echo '{"train_batch_size": 2, "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 3e-5, "warmup_num_steps": 7}}}' >ds.json
run $own --deepspeed_config ds.json --warmup_proportion 0.5 --output_dir none --dry-run --verbose
setting warmup_steps 10

# --- the demos: one group of parameters -------------------------------------------------------------

for recipe in piz-daint lumi; do
    run finetune squad --recipe $recipe --model model --train data.json --dev data.json --max_seq_length 64 --output_dir none --dry-run --verbose
    setting no_decay none
    setting weight_decay 0
done

# --- BingBert ---------------------------------------------------------------------------------------

for article in 1 2 3 4 5 6 7 8; do
    printf 'ada lived in oslo %s. hugo lived in riga. olga lived in bern. where did rita live? in rome.\n\n' "$article"
done >text.txt
run prepare --text text.txt --vocab vocab.txt --output prepared --max_seq_length 128 --max_predictions_per_seq 20 \
    --shards 2 --test_shards 1 --dupe_factor 2
expect_code 0
cp -r "$(dirname "$(find prepared -name '*training_0.hdf5')")" shards
training='{"num_epochs": 200, "warmup_proportion": 0.02, "learning_rate": 1e-3, "decay_rate": 0.99, "decay_step": 1000,
 "total_training_steps": 40}'
cat >exp_adam.json <<END
{"name": "bing_bert", "bert_token_file": "model", "bert_model_file": "model",
 "bert_model_config": {"vocab_size_or_config_json_file": 119547, "hidden_size": 32, "num_hidden_layers": 2,
  "num_attention_heads": 2, "intermediate_size": 64, "hidden_act": "gelu", "max_position_embeddings": 512,
  "type_vocab_size": 2, "initializer_range": 0.02, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1},
 "data": {"flags": {}, "mixed_seq_datasets": {"128": {"pretrain_dataset": "shards"}, "512": {"pretrain_dataset": "shards"}}},
 "mixed_seq_training": {"128": $training, "512": $training}, "validation": {"path": "validation_set/"}}
END
echo '{"train_batch_size": 4, "optimizer": {"type": "Adam", "params": {"lr": 2e-3, "weight_decay": 0.5}}}' >ds.json
bing="as deepspeed_train.py --cf exp_adam.json --deepspeed --deepspeed_config ds.json --job_name adam"
rates bing 3 $bing --max_seq_length 128 --max_steps 3
setting schedule LE
setting weight_decay 0.01
grep -q '"phase2":"false"' log.jsonl || fail "a second phase without a first"
# Its default is 512 tokens, the second phase's; the schedule is the program's, whatever the length.
run as --dry-run --verbose ${bing#as } --output_dir none
expect_code 0
setting schedule LE
setting learning_rate 0.001
run as --dry-run --verbose ${bing#as } --max_seq_length 128 --lr_schedule EE --lr_offset 10e-4 --output_dir none
setting schedule EE
finish
