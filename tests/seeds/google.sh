#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The lines of the README of Google's BERT.
. "$(dirname "$0")/lib.sh"
make_model model
BERT_BASE_DIR=$PWD/uncased_L-12_H-768_A-12
"$BERTH" convert model "$BERT_BASE_DIR" --to tensorflow --quiet || exit 1
mkdir data
make_dataset data/train-v1.1.json
make_dataset data/dev-v1.1.json
make_mrpc data/MRPC
mkdir sample_text
for article in 1 2 3 4; do
    printf 'ada lived in oslo %s .\nhugo lived in riga .\nwhere did rita live ?\n\n' "$article" >sample_text/$article.txt
done
tpu='--use_tpu=False --tpu_name=x --tpu_zone=y --gcp_project=z --master=local --num_tpu_cores=8 --iterations_per_loop=1000'

# --- create_pretraining_data.py, run_pretraining.py ---------------------------------------------------

original berth as google/create_pretraining_data.py --input_file='./sample_text/*.txt' \
    --output_file=tf_examples.tfrecord,more.tfrecord --vocab_file="$BERT_BASE_DIR/vocab.txt" --do_lower_case=True \
    --max_seq_length=128 --max_predictions_per_seq=20 --masked_lm_prob=0.15 --random_seed=12345 --dupe_factor=5
expect_file tf_examples.tfrecord more.tfrecord
same_printed pretraining_output berth as google/run_pretraining.py --input_file='./*.tfrecord' --output_dir=pretraining_output \
    --do_train=True --do_eval=True --bert_config_file="$BERT_BASE_DIR/bert_config.json" \
    --init_checkpoint="$BERT_BASE_DIR/bert_model.ckpt" --train_batch_size=4 --max_seq_length=128 \
    --max_predictions_per_seq=20 --num_train_steps=2 --num_warmup_steps=1 --learning_rate=2e-5 $tpu
expect_file pretraining_output/model.safetensors
for flag in use_tpu tpu_name tpu_zone gcp_project master num_tpu_cores iterations_per_loop; do
    expect_err "--$flag"
done

# --- run_squad.py ---------------------------------------------------------------------------------

own=
squad_line() { # WORDS...
    original berth as $own google/run_squad.py --vocab_file="$BERT_BASE_DIR/vocab.txt" \
        --bert_config_file="$BERT_BASE_DIR/bert_config.json" --init_checkpoint="$BERT_BASE_DIR/bert_model.ckpt" \
        --train_file=data/train-v1.1.json --predict_file=data/dev-v1.1.json --train_batch_size=4 --learning_rate=3e-5 \
        --num_train_epochs=1.0 --max_seq_length=384 --doc_stride=128 --output_dir=squad_base $tpu "$@"
}
squad_line --do_train=True --do_predict=False
[ ! -e squad_base/predictions.json ] || fail "predictions of a run that only trains"
# A second run predicts into the folder of the first one, and a third one over the second's.
sum=$(cat squad_base/model.safetensors squad_base/log.jsonl | cksum)
squad_line --nodo_train --do_predict
expect_file squad_base/predictions.json squad_base/nbest_predictions.json
rm squad_base/predictions.json
squad_line --do_train=False --do_predict=True
expect_file squad_base/predictions.json
[ "$sum" = "$(cat squad_base/model.safetensors squad_base/log.jsonl | cksum)" ] || fail "a prediction changed the training's files"
mkdir own && echo mine >own/predictions.json
run as google/run_squad.py --bert_config_file model/config.json --vocab_file model/vocab.txt --init_checkpoint model \
    --predict_file data/dev-v1.1.json --do_train=False --do_predict=True --output_dir own
expect_code 73
grep -q mine own/predictions.json || fail "a file of the user's was overwritten"

# "gelu" of Google's programs is the tanh form, and the result says so; it is another function than the erf form.
grep -q '"hidden_act": "gelu_new"' squad_base/config.json || fail "the result does not name the tanh form"
grep -q '"hidden_act": "gelu"' "$BERT_BASE_DIR/bert_config.json" || fail "the checkpoint does not say gelu"
cp -r squad_base tanh && rm -r squad_base
squad_line --do_train=True --do_predict=False
cmp -s squad_base/model.safetensors tanh/model.safetensors || fail "another model in another run"
rm -r squad_base
own=--gelu=erf
squad_line --do_train=True --do_predict=False
own=
grep -q '"hidden_act": "gelu"' squad_base/config.json || fail "not the erf form"
! cmp -s squad_base/model.safetensors tanh/model.safetensors || fail "the two forms are the same"
# A second start with more epochs continues the first; one with nothing left to do trains nothing.
squad_line --do_train=True --do_predict=False
expect_line 'no updates were left to train'
squad_line --do_train=True --do_predict=False --num_train_epochs=3
expect_line '^resumed from squad_base/checkpoint-2$'
setting total_steps 6
# A casing that the checkpoint's name contradicts, also with the vocabulary beside it or elsewhere.
cp "$BERT_BASE_DIR/vocab.txt" words.txt
for words in "$BERT_BASE_DIR/vocab.txt" words.txt; do
    run as google/run_squad.py --vocab_file="$words" --bert_config_file="$BERT_BASE_DIR/bert_config.json" \
        --init_checkpoint="$BERT_BASE_DIR/bert_model.ckpt" --do_train=True --train_file=data/train-v1.1.json \
        --do_lower_case=False --output_dir=none
    expect_code 78
    expect_err "do_lower_case is false, but $BERT_BASE_DIR/bert_model.ckpt.index is an uncased model by its name"
    [ ! -e none ] || fail "trained"
done

# --- run_classifier.py ------------------------------------------------------------------------------

classifier_line() { # WORDS...
    original berth as google/run_classifier.py --task_name=MRPC --data_dir=data/MRPC \
        --vocab_file="$BERT_BASE_DIR/vocab.txt" --bert_config_file="$BERT_BASE_DIR/bert_config.json" \
        --max_seq_length=128 --train_batch_size=8 --learning_rate=2e-5 --num_train_epochs=1.0 --output_dir=mrpc_output \
        $tpu "$@"
}
classifier_line --init_checkpoint="$BERT_BASE_DIR/bert_model.ckpt" --do_train=true --do_eval=true
expect_file mrpc_output/eval_results.txt
classifier_line --init_checkpoint=mrpc_output/model.safetensors --do_predict=true --nodo_lower_case
expect_file mrpc_output/test_results.tsv

# Other words with "no" are names of their own, or unknown.
run as google/run_squad.py --nolearning_rate --init_checkpoint model
expect_code 2
expect_err 'has no option --nolearning_rate'
run as google/run_squad.py --nodo_train=false --init_checkpoint model
expect_code 2
expect_err 'has no option --nodo_train'
finish
