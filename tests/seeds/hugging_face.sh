#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Hugging Face's run_qa and run_glue: arguments from a file, data and model by name, columns that are not named; and
# how other programs write truths and counts.
. "$(dirname "$0")/lib.sh"
fill_cache
make_dataset data.json
small='--max_seq_length 64 --max_steps 2'

# --- run_qa -----------------------------------------------------------------------------------------

cat >args.json <<'END'
{"model_name_or_path": "bert-base-uncased", "train_file": "data.json", "validation_file": "data.json", "output_dir": "qa",
 "do_train": true, "do_eval": true, "fp16": false, "per_device_train_batch_size": 4, "learning_rate": 3e-5, "seed": 7,
 "num_train_epochs": 1.0, "max_seq_length": 64, "warmup_steps": null, "logging_dir": "logs"}
END
original berth as run_qa.py args.json
expect_file qa/predictions.json qa/model.safetensors
setting train_batch_size 4
setting total_steps 2
setting learning_rate 3e-05
setting seed 7
expect_file logs/events.out.tfevents.*
# Only one file and nothing else; what is wrong in it is reported as on a command line.
run as run_qa.py args.json --output_dir other
expect_code 2
expect_err 'unexpected argument "args.json"'
echo '{"model_name_or_path": "bert-base-uncased", "learning_rat": 1}' >wrong.json
run finetune squad wrong.json
expect_code 2
expect_err 'wrong.json: unknown option --learning_rat; did you mean --learning_rate?'
echo '{"learning_rate": {"name": "x"}}' >wrong.json
run finetune squad wrong.json
expect_code 2
expect_err 'wrong.json: option learning_rate: expected a number'
echo '["--model"]' >wrong.json
run finetune squad wrong.json
expect_code 65
expect_err 'wrong.json: expected an object of options'

original berth as run_qa.py --model_name_or_path bert-base-uncased --dataset_name squad --do_train --do_eval \
    --output_dir named $small
setting train_file '.*/datasets--squad/.*/train-v1.1.json'
setting validation_file '.*/datasets--squad/.*/dev-v1.1.json'
HF_HOME=$work/nothing run as run_qa.py --model_name_or_path "$work/base" --dataset_name squad --do_train --output_dir none
expect_code 66
expect_err '`berth fetch squad` downloads it'
HF_HOME=$work/nothing run as run_qa.py --model_name_or_path "$work/base" --dataset_name squad_v2 --do_train --output_dir none
expect_code 66
expect_err '`berth fetch squad_v2` downloads it'
run as run_qa.py --model_name_or_path "$work/base" --dataset_name trivia_qa --do_train --output_dir none
expect_code 2
expect_err '"trivia_qa" is not available'

# Weights that lie alone, with the configuration and the vocabulary of folders.
mkdir weights configuration words
cp "$work/base/model.safetensors" weights
sed 's/"hidden_dropout_prob": 0.1/"hidden_dropout_prob": 0.3/' "$work/base/config.json" >configuration/config.json
(grep -v '^world$' "$work/base/vocab.txt"; echo moon) >words/vocab.txt
echo '{"additional_special_tokens": ["moon"], "do_lower_case": false}' >words/tokenizer_config.json
original berth as run_qa.py --model_name_or_path weights/model.safetensors --config_name configuration \
    --tokenizer_name words --train_file data.json --do_train --output_dir parts $small
cmp -s parts/tokenizer_config.json words/tokenizer_config.json ||
    fail "not the rules and added tokens of --tokenizer_name"
grep -qE '"hidden_dropout_prob": 0\.3' parts/config.json || fail "not the configuration of --config_name"
cmp -s parts/vocab.txt words/vocab.txt || fail "not the vocabulary of --tokenizer_name"
original berth as run_qa.py --model_name_or_path weights/model.safetensors --config_name bert-base-uncased \
    --tokenizer_name bert-base-uncased --train_file data.json --do_train --output_dir hub $small
cmp -s hub/vocab.txt "$work/base/vocab.txt" || fail "not the vocabulary of the hub's model"
run as run_qa.py --model_name_or_path weights/model.safetensors --config_name words --train_file data.json --do_train \
    --output_dir none
expect_code 66
expect_err 'words: neither config.json nor bert_config.json in this folder'

printf 'hello world\n%.0s' {1..400} >lines.txt
original berth as run_mlm.py --config_name configuration --tokenizer_name words --train_file lines.txt --do_train \
    --output_dir new $small
setting weight_decay 0

# --report_to and the file of arguments.
original berth as run_qa.py --model_name_or_path "$work/base" --train_file data.json --do_train --output_dir shown $small \
    --report_to tensorboard
expect_file shown/runs/events.out.tfevents.*
for names in none all; do
    cat >arguments.json <<END
{"model_name_or_path": "$work/base", "train_file": "data.json", "output_dir": "to-$names", "report_to": ["$names"],
 "do_train": true, "max_seq_length": 64, "max_steps": 2, "lr_scheduler_kwargs": {}, "fsdp_config": {"x": [1]}}
END
    original berth as run_qa.py arguments.json
done
expect_err '--fsdp_config is not needed'
[ ! -e to-none/runs ] || fail "files for TensorBoard"
expect_file to-all/runs/events.out.tfevents.* to-all/checkpoint-2/model.safetensors
original berth as run_qa.py --model_name_or_path "$work/base" --train_file data.json --do_train --output_dir other-logger $small \
    --report_to wandb
expect_err '--report_to wandb is not needed'
original berth as run_qa.py --model_name_or_path "$work/base" --train_file data.json --do_train --output_dir placed $small \
    --report_to tensorboard --logging_dir scalars
expect_file scalars/events.out.tfevents.*
[ ! -e placed/runs ] || fail "two folders for TensorBoard"

# A test file is predicted by a command of its own, after training or alone.
cp data.json held.json
shared="--model_name_or_path $work/base --test_file held.json --do_predict --max_seq_length 64"
same_printed tested berth as run_qa.py $shared --train_file data.json --do_train --do_eval --validation_file data.json \
    --output_dir tested --max_steps 1
expect_file tested/predictions.json tested/predict/predictions.json
same_printed predicted-test berth as run_qa.py $shared --validation_file nowhere.json --output_dir predicted-test
expect_file predicted-test/predictions.json
same_printed predicted-dev berth as run_qa.py $shared --do_eval --validation_file data.json --output_dir predicted-dev
expect_file predicted-dev/predictions.json predicted-dev/predict/predictions.json
# A flag of another verb is named as it was typed.
run finetune squad --model "$work/base" --train data.json --input held.json --output none $small --dry-run --verbose
expect_code 2
expect_err 'unknown option --input; `berth finetune classify` has it'

# --- the fields of transformers' TrainingArguments ---

arguments="berth as --dry-run --json_summary=fields.jsonl run_qa.py --model_name_or_path $work/base --train_file data.json
    --validation_file data.json --do_train --max_seq_length 64 --max_steps 30 --output_dir fields"
recorded() { # NAME VALUE, of the settings of the run
    grep -q "\"$1\":\"$2\"" fields.jsonl || fail "no setting $1 $2"
    rm fields.jsonl
}
original $arguments --warmup_steps 0.1 --logging_steps 0.1 --save_steps 0.5 --eval_steps 0.25 --eval_strategy steps
setting warmup_steps 3
recorded eval_steps 0.25
original $arguments --warmup_steps 5 --lr_scheduler_type cosine_with_restarts
setting schedule cosine
setting warmup_steps 5
for schedule in polynomial inverse_sqrt; do
    original $arguments --lr_scheduler_type $schedule
    setting schedule "$schedule"
done
original $arguments --doc_stride 50
recorded doc_overlap 50
original $arguments --ddp_timeout 1800
recorded comm_timeout 1800
original $arguments --activation_checkpointing
recorded gradient_checkpointing true
original $arguments --run_name one --data_seed 3 --save_only_model --log_level info --dataloader_pin_memory False \
    --ddp_find_unused_parameters False --hub_model_id me/mine --model_revision main --token hf_x --fsdp --debug \
    --neftune_noise_alpha 0 --train_sampling_strategy random --label_names start end --no_use_fast_tokenizer \
    --label_all_tokens False --return_entity_level_metrics --preprocessing_num_workers 4 \
    --mp_parameters x --split_batches --dispatch_batches --xpu_backend ccl --use_legacy_prediction_loop
for name in run_name data_seed save_only_model log_level dataloader_pin_memory hub_model_id token fsdp debug label_names \
    use_fast_tokenizer return_entity_level_metrics preprocessing_num_workers mp_parameters split_batches dispatch_batches xpu_backend \
    use_legacy_prediction_loop; do
    expect_err "--$name is not needed: "
done
# The type of the weights there is that of computing here; another flag for it has precedence, as it has there.
for flag in dtype torch_dtype; do
    original $arguments --$flag bfloat16
    recorded precision bf16
    original $arguments --$flag float32
    recorded precision fp32
    for words in "--bf16 --$flag float32" "--$flag float32 --bf16"; do
        original $arguments $words
        recorded precision bf16
    done
done
run ${arguments#berth } --dtype bf16
expect_code 2
# What would change the numbers, and Berth does not have, is refused with what it does instead.
for words in "neftune_noise_alpha 5" "ignore_data_skip true" "train_sampling_strategy sequential" "adafactor true" "label_all_tokens true" \
    'lr_scheduler_kwargs {"num_cycles":2}' "optim_args a=1" "model_revision v2" "model_type xlnet"; do
    # shellcheck disable=SC2086
    run ${arguments#berth } --${words%% *} "${words#* }"
    expect_code 2
    expect_err "option ${words%% *}: \"${words#* }\" is not available; "
done

# A wrong value is that of the option as it was typed, also of an alias.
for words in 'optim_target_modules all' 'optim_args a=1' 'per_device_train_batch_size x' 'learning_rate x' 'torch_dtype int4'; do
    # shellcheck disable=SC2086
    run ${arguments#berth } --$words
    expect_code 2
    expect_err "error: option ${words% *}: "
done

# --- run_glue ---------------------------------------------------------------------------------------

cat >train.csv <<'END'
sentence1,sentence2,label,idx
Ada lived in Oslo.,"Ada, who lived in Oslo.",1,0
Hugo lived in Riga.,Rita lived in Rome.,0,1
"Olga lived in ""Bern"".",Olga lived in Bern.,1,2
Where did Ada live?,Who lived in Bern?,0,3
END
original berth as hugging-face/run_glue.py --model_name_or_path "$work/base" --train_file train.csv \
    --validation_file train.csv --do_train --do_eval --output_dir pairs $small
expect_err 'train.csv: text_column sentence1, text_pair_column sentence2, label_column label'
expect_file pairs/eval_results.json
# The same as the columns' names say, byte for byte.
original berth as --text_column=sentence1 --text_pair_column=sentence2 --label_column=label hugging-face/run_glue.py \
    --model_name_or_path "$work/base" --train_file train.csv --validation_file train.csv --do_train --output_dir chosen $small
cmp -s pairs/model.safetensors chosen/model.safetensors || fail "other columns than sentence1, sentence2, label"
# A test file has no labels.
cut -d, -f1-3 train.csv | sed 's/,[01]$//; 1s/,label//' | sed '2d;3d' >test.csv
run predict classify --model pairs --input test.csv --output_dir predicted --verbose
expect_code 0
expect_err 'text_column sentence1, text_pair_column sentence2'
run as hugging-face/run_glue.py --model_name_or_path pairs --test_file test.csv --do_predict --output_dir fewer \
    --max_predict_samples 1
expect_code 0
[ "$(wc -l <fewer/test_results.tsv)" -eq 1 ] || fail "not one prediction"
original berth as --dry-run hugging-face/run_glue.py --model_name_or_path "$work/base" --train_file train.csv \
    --validation_file train.csv --do_train --do_eval --output_dir none $small --max_predict_samples 1
expect_err '--max_predict_samples is not needed: '
# Other names: the first two columns beside the label.
sed '1s/.*/question,label,answer/; s/^\(.*\),\([01]\),[0-9]$/\1,\2/' train.csv | python3 -c '
import csv, sys
rows = list(csv.reader(sys.stdin))
writer = csv.writer(sys.stdout)
writer.writerow(rows[0])
writer.writerows([first, label, second] for first, second, label in rows[1:])' >other.csv
original berth as hugging-face/run_glue.py --model_name_or_path "$work/base" --train_file other.csv --do_train --output_dir other $small
expect_err 'text_column question, text_pair_column answer, label_column label'
cmp -s pairs/model.safetensors other/model.safetensors || fail "other texts"
sed '1s/label/class/' train.csv >unlabelled.csv
run finetune classify --model_name_or_path "$work/base" --train_file unlabelled.csv --output_dir none
expect_code 65
expect_err 'label'
run finetune classify --model_name_or_path "$work/base" --task_name mrpc --output_dir none
expect_code 2
expect_err 'berth fetch https://'

# --- truths and counts ------------------------------------------------------------------------------

line="finetune squad --model_name_or_path $work/base --train_file data.json $small"
run $line --do_lower_case 1 --output_dir lower
expect_code 0
run $line --do_lower_case True --output_dir lower2
expect_code 0
run $line --do_lower_case 0 --output_dir cased
expect_code 0
cmp -s lower/model.safetensors lower2/model.safetensors || fail "1 is not true"
! cmp -s lower/model.safetensors cased/model.safetensors || fail "0 is not false"
run $line --do_lower_case 2 --output_dir none
expect_code 2
# -n shows the plan.
run $line -n --output_dir planned
expect_code 0
[ ! -e planned ] || fail "-n trains"
finish
