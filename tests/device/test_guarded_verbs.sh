#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every verb that takes --device on the guarded device (guarded_device.h): output and files must equal
# the CPU's; the benchmarks, which print times, must succeed. BERTH, GUARDED: the program without and with
# that device.
. "$(dirname "$0")/../cli/lib.sh"
mkdir "$work/cpu" "$work/guarded"
cd "$work" || exit 1
make_model model 64
make_dataset squad.json
mkdir -p glue/MRPC
printf 'Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n' >glue/MRPC/train.tsv
for i in 1 2 3 4 5 6 7 8; do
    printf '%d\t%d\t%d\tAda lived in Oslo.\tHugo lived %d in Riga.\n' $((i % 2)) "$i" "$i" "$i"
done >>glue/MRPC/train.tsv
cp glue/MRPC/train.tsv glue/MRPC/dev.tsv
printf 'text,score\nAda lived in Oslo.,0.5\nHugo lived in Riga.,2.5\n' >scores.csv
printf 'query,text\nwho lived in Oslo ?,Ada lived in Oslo.\nand in Riga ?,Hugo lived in Riga.\nwho ?,Rita\n' >pairs.csv
printf 'Ada lived in Oslo.\n\nwhere did Hugo live\n' >texts.txt
for article in 1 2 3 4 5 6; do
    for sentence in 1 2 3 4 5 6; do
        echo "ada lived in oslo and hugo lived in riga where did rita live $article $sentence."
    done
    echo
done >text.txt
"$BERTH" prepare --text text.txt --vocab model/vocab.txt --output data --max_seq_length 32 --quiet \
    --max_predictions_per_seq 4 --shards 2 --test_shards 1 --dupe_factor 2 || fail "prepare"
shards=../$(dirname "$(find data -name '*training_0.hdf5')")
small="--max_seq_length 32 --quiet"

# On both devices, in folders of their own; the same on standard output.
both() {
    what="berth $*"
    (cd cpu && "$BERTH" "$@" --device cpu) >"$work/expected" 2>"$err" </dev/null
    code=$?
    expect_code 0
    (cd guarded && "$GUARDED" "$@" --device cuda) >"$out" 2>"$err" </dev/null
    code=$?
    expect_code 0
    cmp -s "$out" "$work/expected" || fail "other words than on the CPU: $(cat "$work/expected")"
}
for precision in fp32 bf16; do
    form="$small --precision $precision"
    both finetune squad --save_total_limit 1 --model ../model --train ../squad.json --dev ../squad.json $form \
        --output "squad-$precision" --doc_stride 8 --max_query_length 12 --max_steps 2
    both predict squad --model "squad-$precision" --input ../squad.json $form --doc_stride 8 \
        --max_query_length 12 --output "answers-$precision"
    both answer --model "squad-$precision" $form --question 'Where did Ada live?' --top 3 --json \
        --context 'Ada lived in Oslo. Hugo lived in Riga.'
    both show squad --model "squad-$precision" --input ../squad.json --num-test-samples 2 $form --json
    both finetune classify --save_total_limit 1 --model ../model --task mrpc --data_dir ../glue $form --max_steps 2 \
        --output "mrpc-$precision"
    both predict classify --model "mrpc-$precision" --task mrpc --data_dir ../glue $form --split dev \
        --output "said-$precision"
    both finetune classify --save_total_limit 1 --model ../model --train ../scores.csv --dev ../scores.csv --max_steps 2 \
        --text-column text --label-column score $form --output "scores-$precision"
    both embed --model ../model $form ../texts.txt
    both mine --model ../model $form --pairs ../pairs.csv --output "mined-$precision.jsonl" --output_scores
    both pretrain --model ../model --input_dir "$shards" $form --train_batch_size 8 --max_steps 4 \
        --per_device_train_batch_size 4 --learning_rate 1e-3 --output "pretrained-$precision"
    both evaluate pretrain --model "pretrained-$precision" --input_dir "$shards" $form \
        --output "scored-$precision"
done
compared=0
for file in $(cd cpu && find . -name '*.safetensors' -o -name '*predictions.json' -o -name '*.tsv' \
    -o -name 'predict_results*.txt' -o -name eval_results.txt); do
    what="bytes of $file"
    cmp -s "cpu/$file" "guarded/$file" || fail "differ from the CPU's"
    compared=$((compared + 1))
done
what="files that were compared"
[ "$compared" -ge 40 ] || fail "$compared"

# Weights in int8 are made by the host in its own memory.
what="berth embed --precision int8"
"$GUARDED" embed --model model texts.txt $small --precision int8 --device cuda >"$out" 2>"$err" </dev/null
code=$?
expect_code 78
expect_err 'the device guarded does not support it'

# Of benchmarks the lines, not their numbers.
bench() { # EXPECTED ARGUMENT...
    what="berth bench ${*:2}"
    "$GUARDED" bench "${@:2}" --config config.json --device cuda --json >"$out" 2>"$err" </dev/null
    code=$?
    expect_code 0
    expect_out "$1"
}
bench '"bandwidth_gigabytes"' peak --seconds 0.01
words="--data squad.json --vocab model/vocab.txt --max_seq_length 32 --doc_stride 8
    --max_query_length 12 --steps 1 --update_tokens 256"
bench '"tokens_per_second"' train $words --precision bf16
bench '"tokens_per_second"' predict $words --precision fp32
bench '"masked_tokens"' pretrain --input_dir "$(dirname "$(find data -name '*training_0.hdf5')")" \
    --steps 1 --update_tokens 256 --precision bf16
finish
