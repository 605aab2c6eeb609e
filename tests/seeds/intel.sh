#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Intel's package: a TensorFlow checkpoint that lies alone.
. "$(dirname "$0")/lib.sh"
make_model wwm_uncased_L-24_H-1024_A-16
"$BERTH" convert wwm_uncased_L-24_H-1024_A-16 google --to tensorflow --quiet || exit 1
mkdir data alone tasks
cp google/bert_model.ckpt* alone
make_dataset data/train-v1.1.json
make_dataset data/dev-v1.1.json
BERT_LARGE_DIR=$PWD/google
SQUAD_DIR=data
for article in 1 2 3 4 5 6 7 8; do
    printf 'ada lived in oslo %s. hugo lived in riga. olga lived in bern. where did rita live? in rome.\n\n' "$article"
done >text.txt
run prepare --text text.txt --vocab google/vocab.txt --output prepared --max_seq_length 128 --format tfrecord \
    --max_predictions_per_seq 20 --shards 2 --test_shards 1 --dupe_factor 2
expect_code 0
records=$(dirname "$(find prepared -name '*training_0.tfrecord')")

# --- a checkpoint that lies alone, in every verb ----------------------------------------------------

shape="--bert_config_file $BERT_LARGE_DIR/bert_config.json"
words="--vocab_file $BERT_LARGE_DIR/vocab.txt"
lone="alone/bert_model.ckpt $shape"
original - berth predict squad --model $lone $words --predict_file $SQUAD_DIR/dev-v1.1.json --output_dir answers
expect_file answers/predictions.json
original - berth answer --model $lone $words --question "Who lived in Oslo?" --context "Ada lived in Oslo."
original - berth show squad --model $lone $words --input $SQUAD_DIR/dev-v1.1.json --num-test-samples 2
echo "Ada lived in Oslo." >text
original - berth embed --model $lone $words text --output text.npy
printf 'Ada lived in Oslo.\t1\nHugo lived in Riga.\t0\n' | sed '1i text\tlabel' >pairs.tsv
original - berth finetune squad --init_checkpoint $lone $words --train $SQUAD_DIR/train-v1.1.json --output_dir tuned \
    --max_steps 1
original - berth finetune classify --init_checkpoint $lone $words --train pairs.tsv --text_column text \
    --label_column label --output_dir classes --max_steps 1
original - berth predict classify --model $lone $words --input pairs.tsv --text_column text --output_dir labels
original - berth pretrain --init_checkpoint $lone --input_dir "$records" --output_dir further --max_steps 1
original - berth evaluate pretrain --model $lone --input_dir "$records" --output_dir scores
original - berth convert $lone $words folder
original - berth compare alone/bert_model.ckpt folder
expect_out " 0 differ"
original - berth inspect alone/bert_model.ckpt
# Of several checkpoints of a folder, the one that is named.
"$BERTH" init --config "$work/config.json" --output other --seed 8 --quiet
"$BERTH" convert other other-google --to tensorflow --quiet
for part in index data-00000-of-00001; do
    cp "other-google/bert_model.ckpt.$part" "alone/model.ckpt-2000.$part"
done
printf 'model_checkpoint_path: "model.ckpt-2000"\n' >alone/checkpoint
original - berth compare alone/bert_model.ckpt wwm_uncased_L-24_H-1024_A-16
expect_out " 0 differ"
original - berth compare alone/model.ckpt-2000 other
expect_out " 0 differ"
original - berth convert $lone $words named
original - berth compare named wwm_uncased_L-24_H-1024_A-16
expect_out " 0 differ"
finish
