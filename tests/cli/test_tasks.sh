#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The commands of doc/tasks.md as they stand there, on the data that it shows: every task is trained,
# predicted and leaves its files.
. "$(dirname "$0")/lib.sh"
document=$(cd "$(dirname "$0")/../.." && pwd)/doc/tasks.md
cd "$work" || exit 1
make_model model
make_dataset squad.json
berth() { "$BERTH" "$@" --quiet; }

block() { # HEAD: the lines of the block "```HEAD"
    sed -n '/^```'"$1"'$/,/^```$/p' "$document" | sed '1d;/^```$/,$d'
}
put() { # TASK SPLIT FILE...
    task=$1 split=$2
    shift 2
    for file; do
        mkdir -p "glue/$(dirname "$file")"
        block "tsv $task $split" >"glue/$file"
        [ -s "glue/$file" ] || fail "doc/tasks.md has no block \"tsv $task $split\""
    done
}
what="the data of doc/tasks.md"
put cola train CoLA/train.tsv CoLA/dev.tsv
put sst2 train SST-2/train.tsv SST-2/dev.tsv
put mrpc dev MRPC/train.tsv MRPC/dev.tsv
put qqp train QQP/train.tsv QQP/dev.tsv
put stsb train STS-B/train.tsv STS-B/dev.tsv
put mnli train MNLI/train.tsv MNLI/dev_matched.tsv
put mnli dev_mismatched MNLI/dev_mismatched.tsv
put qnli train QNLI/train.tsv QNLI/dev.tsv
put rte dev RTE/train.tsv RTE/dev.tsv
put wnli dev WNLI/train.tsv WNLI/dev.tsv
put xnli train multinli.train.zh.tsv
put xnli dev xnli.dev.tsv
block "csv own texts" >reviews.csv
block "json own pairs" >pairs.jsonl

sed -n '/^```sh$/,/^```$/p' "$document" | grep -v '^```' >commands.sh
[ "$(grep -c berth commands.sh)" -ge 8 ] || fail "too few commands in doc/tasks.md"
what="the commands of doc/tasks.md"
set -e
. ./commands.sh >"$out" 2>"$err"
code=$?
set +e
expect_code 0
for task in cola sst2 mrpc qqp stsb mnli qnli rte wnli xnli; do
    for file in "models/$task/eval_results.txt" "models/$task/model.safetensors" \
        "said/$task/test_results.tsv" "said/$task/predict_results_$task.txt" \
        "said/$task/predict_results.json"; do
        [ -s "$file" ] || fail "no $file"
    done
done
grep -q '^eval_accuracy_mm = ' models/mnli/eval_results.txt || fail "no scores of the mismatched file"
grep -q '^eval_matthews_correlation = ' models/cola/eval_results.txt || fail "no correlation for CoLA"
grep -q '^eval_spearmanr = ' models/stsb/eval_results.txt || fail "no correlation for STS-B"
[ -s reviews/model.safetensors ] && [ -s reviews-said/predict_results.txt ] || fail "own texts"
grep -q '^eval_mse = ' pairs/eval_results.txt || fail "own pairs"
[ -s texts.npy ] || fail "no texts.npy"
finish
