#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# NVIDIA's scripts/run_pretraining.sh, run_squad.sh and run_glue.sh.
. "$(dirname "$0")/lib.sh"
make_model bert-large-uncased
mkdir data
make_dataset data/train-v1.1.json
make_dataset data/dev-v1.1.json
make_mrpc data/MRPC
VOCAB_FILE=bert-large-uncased/vocab.txt
for article in 1 2 3 4; do
    printf 'ada lived in oslo %s .\nhugo lived in riga .\nwhere did rita live ?\n\n' "$article"
done >text.txt
mkdir shards
run prepare --input_file text.txt --output_file shards/training_0.hdf5 --vocab $VOCAB_FILE --max_seq_length 128
expect_code 0

pretraining_line() { # WORDS...
    original ${before:-} berth as --dry_run nvidia/run_pretraining.py --input_dir=shards --output_dir=checkpoints \
        --config_file="$work/config.json" --vocab_file=$VOCAB_FILE --train_batch_size=8 --max_seq_length=128 \
        --max_predictions_per_seq=20 --max_steps=7038.0 --warmup_proportion=0.2843 --num_steps_per_checkpoint=200 \
        --learning_rate=6e-3 --seed=12439 --fp16 --gradient_accumulation_steps=2 --allreduce_post_accumulation \
        --allreduce_post_accumulation_fp16 --do_train --json-summary results/dllogger.json --disable_progress_bar \
        --num_workers=4 --log_freq 2.0 --no_dense_sequence_output --disable_jit_fusions --cuda_graphs --use_env \
        --profile-start 3 "$@"
}
pretraining_line
expect_line "max_steps : 7038 "
grep -qE '"logging_steps": ?"?2"?[,}]' results/dllogger.json || fail "not every second update"
for flag in num_workers no_dense_sequence_output disable_jit_fusions cuda_graphs profile_start; do
    expect_err "--$flag is not needed: "
done
for processes in 1 2 8; do # a batch is that of a process
    before="launch $processes" pretraining_line
    command -v mpirun.openmpi >/dev/null || continue
    expect_line "^  sequences_per_update +$processes process(es)? x 8 = $((8 * processes))\$"
done
pretraining_line --phase2 --resume_phase2 --init_checkpoint=bert-large-uncased
expect_err "--resume_phase2 is not needed: a checkpoint says of which phase it is"
run pretrain --input_dir shards --output_dir none --config_file "$work/config.json" --max_steps 7038.5
expect_code 2
expect_err 'option max_steps: expected a whole number'

original berth as --dry_run nvidia/run_squad.py --init_checkpoint=bert-large-uncased/model.safetensors --do_train \
    --do_predict --train_file=data/train-v1.1.json --predict_file=data/dev-v1.1.json --do_eval \
    --eval_script=evaluate-v1.1.py --train_batch_size=4 --predict_batch_size=4 --learning_rate=3e-5 \
    --num_train_epochs=2.0 --seed=1 --do_lower_case --bert_model=bert-large-uncased --max_seq_length=384 --doc_stride=128 \
    --output_dir=squad --vocab_file=$VOCAB_FILE --config_file="$work/config.json" --json-summary=squad/dllogger.json \
    --fp16 --max_steps=-1.0 --use_env
setting total_steps 4

tuning_line() { # WORDS...
    original "$@" nvidia/run_squad.py --init_checkpoint=bert-large-uncased/model.safetensors --do_train \
        --train_file=data/train-v1.1.json --train_batch_size=4 --num_train_epochs=1 --do_lower_case \
        --bert_model=bert-large-uncased --output_dir=tuned --vocab_file=$VOCAB_FILE --config_file="$work/config.json"
}
for processes in 2 8; do
    tuning_line launch $processes berth as --dry_run
    command -v mpirun.openmpi >/dev/null || continue
    expect_line "^  sequences_per_update +$processes processes x 4 = $((4 * processes))\$"
done
tuning_line berth as
expect_file tuned/{pytorch_model.bin,bert_config.json,model.safetensors}
[ ! -e tuned/eval_results.json ] || fail "an evaluation unasked"
run finetune squad --model bert-large-uncased --train data/train-v1.1.json --output_dir none --save_format torch,nvidia_finetuned
expect_code 2
expect_err "torch and nvidia_finetuned both write pytorch_model.bin"

original berth as --dry_run nvidia/run_glue.py --do_train --task_name=mrpc --data_dir=data/MRPC \
    --bert_model=bert-large-uncased --seed=2 --init_checkpoint=bert-large-uncased/model.safetensors --do_lower_case \
    --max_seq_length=128 --train_batch_size=16 --learning_rate=2.4e-5 --num_train_epochs=3 --max_steps=-1.0 \
    --vocab_file=$VOCAB_FILE --config_file="$work/config.json" --output_dir=glue --warmup_proportion=0.1 --do_eval --fp16 \
    --server_ip=none --server_port=0
setting total_steps 6
finish
