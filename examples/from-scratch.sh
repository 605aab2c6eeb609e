#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a Wikipedia dump to a model that answers questions, with no network and no model to start
# from: text, vocabulary, data, two phases of pre-training, fine-tuning, evaluation.
#
#   examples/from-scratch.sh [--tiny] [--berth PROGRAM] DUMP TRAIN.json DEV.json OUTPUT [TEXT...]
#
# DUMP is pages-articles.xml or .xml.bz2; TRAIN and DEV are SQuAD's; TEXT are more files of text for
# pre-training. The model has 4 layers of 256; on 2 cores pre-training takes about an hour. With --tiny
# everything is so small that it ends within seconds and learns nothing. A run that was stopped continues
# when it is started again. doc/develop/results.md shows the results of a run.
#
# At the end a model of the same shape is fine-tuned from random weights, for comparison.
set -euo pipefail

berth=berth
vocab_size=8000 layers=4 hidden=256 heads=4
length1=128 masked1=20 steps1=7200 batch1=64
length2=512 masked2=80 steps2=200 batch2=32
shards=1 dupe_factor=10 eval_steps=720 epochs=4 questions=0
usage() {
    sed -n '3,14s/^# \{0,1\}//p' "$0"
}
while [ $# -gt 0 ]; do
    case "$1" in
        -h | --help) usage; exit 0 ;;
        --berth) berth=$2; shift 2 ;;
        --tiny)
            vocab_size=2100 layers=1 hidden=16 heads=2
            length1=64 masked1=10 steps1=8 batch1=16
            length2=128 masked2=20 steps2=4 batch2=8
            shards=2 dupe_factor=1 epochs=1 questions=32
            shift ;;
        -*) usage >&2; exit 2 ;;
        *) break ;;
    esac
done
[ $# -ge 4 ] || { usage >&2; exit 2; }
dump=$1 train=$2 dev=$3 out=$4
shift 4
text=()
[ $# -eq 0 ] || text=(--text "$@")

say() {
    printf '\n== %s\n' "$*"
}

say "text"
"$berth" prepare --wikipedia "$dump" --stages text --output "$out/data"

say "vocabulary"
[ -e "$out/vocab.txt" ] ||
    "$berth" vocab --extracted "$out/data/extracted" "${text[@]}" --size $vocab_size \
        --output "$out/vocab.txt"

# Folders are named after their contents, so one output folder serves both lengths.
data_of() { # LENGTH MASKED
    "$berth" prepare --wikipedia "$dump" "${text[@]}" --vocab_file "$out/vocab.txt" \
        --output "$out/data" --shards $shards --dupe_factor $dupe_factor \
        --max_seq_length "$1" --max_predictions_per_seq "$2" >"$out/prepare-$1.txt" ||
        return
    cat "$out/prepare-$1.txt"
}
folder_of() { # LENGTH
    ls -d "$out/data/hdf5_"*"_seq_len_$1_"*/*
}
say "data of $length1 and of $length2 tokens"
data_of $length1 $masked1
data_of $length2 $masked2

cat >"$out/config.json" <<JSON
{
  "model_type": "bert",
  "hidden_size": $hidden,
  "num_hidden_layers": $layers,
  "num_attention_heads": $heads,
  "intermediate_size": $((4 * hidden)),
  "vocab_size": $(wc -l <"$out/vocab.txt"),
  "max_position_embeddings": 512,
  "type_vocab_size": 2,
  "hidden_act": "gelu",
  "hidden_dropout_prob": 0.1,
  "attention_probs_dropout_prob": 0.1,
  "layer_norm_eps": 1e-12,
  "initializer_range": 0.02
}
JSON

# The recipe's LAMB is meant for updates of 65,536 sequences; at 64 AdamW learns faster.
say "phase 1: $steps1 updates of $batch1 sequences"
"$berth" pretrain --recipe nvidia-phase1 --input_dir "$(folder_of $length1)" \
    --config_file "$out/config.json" --vocab_file "$out/vocab.txt" --output "$out/phase1" \
    --optimizer adamw --train_batch_size $batch1 --max_steps $steps1 --learning_rate 7e-4 \
    --warmup_proportion 0.05 --eval_steps $eval_steps --max_eval_samples 2000 \
    --resume_from_checkpoint auto
say "phase 2: $steps2 updates of $batch2 sequences"
"$berth" pretrain --recipe nvidia-phase2 --input_dir "$(folder_of $length2)" \
    --optimizer adamw --output "$out/phase2" --train_batch_size $batch2 --max_steps $steps2 \
    --learning_rate 5e-4 --warmup_proportion 0.1 \
    --resume_from_checkpoint "auto,$out/phase1/checkpoint-$steps1"

say "fine-tuning"
finetune() { # MODEL OUTPUT
    "$berth" finetune squad --model "$1" --train "$train" --dev "$dev" --output "$2" \
        --num_train_epochs $epochs --learning_rate 3e-4 --train_batch_size 32 \
        --max_train_samples $questions --max_eval_samples $questions \
        --overwrite_output_dir
}
finetune "$out/phase2" "$out/squad"

say "the same from random weights"
rm -rf "$out/random"
"$berth" init --config "$out/phase2/config.json" --output "$out/random"
cp "$out/vocab.txt" "$out/random/vocab.txt"
finetune "$out/random" "$out/squad-random"

say "results on $dev"
printf 'pre-trained: %s\n' "$("$berth" evaluate squad "$dev" "$out/squad/predictions.json" | tr -d '\n')"
printf 'random:      %s\n' \
    "$("$berth" evaluate squad "$dev" "$out/squad-random/predictions.json" | tr -d '\n')"
