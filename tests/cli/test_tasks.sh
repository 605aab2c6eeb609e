#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests the commands of doc/tasks.md, doc/embeddings.md and doc/tokens.md on small data: every task is
# trained and predicted, and leaves its files.
. "$(dirname "$0")/lib.sh"
document=$documents/tasks.md
cd "$work" || exit 1
make_model all-MiniLM-L6-v2

what="the data of the tasks"
make_glue
mkdir mrpc
block "tsv mrpc dev" | tee mrpc/msr_paraphrase_train.txt >mrpc/msr_paraphrase_test.txt
run_commands_of "$document" 9
for task in cola sst2 mrpc qqp stsb mnli qnli rte wnli xnli; do
    for file in "models/$task/eval_results.txt" "models/$task/model.safetensors" \
        "predictions/$task/test_results.tsv" "predictions/$task/predict_results_$task.txt" \
        "predictions/$task/predict_results.json"; do
        [ -s "$file" ] || fail "no $file"
    done
done
grep -q '^eval_accuracy_mm = ' models/mnli/eval_results.txt || fail "no scores of the mismatched file"
grep -q '^eval_matthews_correlation = ' models/cola/eval_results.txt || fail "no correlation for CoLA"
grep -q '^eval_spearmanr = ' models/stsb/eval_results.txt || fail "no correlation for STS-B"
[ -s reviews/model.safetensors ] && [ -s reviews-predicted/predict_results.txt ] || fail "own texts"
grep -q '^eval_mse = ' pairs/eval_results.txt || fail "own pairs"
[ -s own-predicted/predict_results.txt ] || fail "a table of one's own"

run_commands_of "$documents/embeddings.md" 12
[ -s texts.npy ] && [ -s searcher/modules.json ] && [ -s judge-scores/eval_results.txt ] || fail "a file of doc/embeddings.md"
what="the commands of doc/tokens.md"
run_commands_of "$documents/tokens.md" 6
[ "$(wc -l <tags/predictions.txt)" = 2 ] || fail "predictions.txt has not a line for each sentence"
for file in ner/all_results.json ner/eval_results.json ner/train_results.json tags/predict_results.json; do
    [ -s "$file" ] || fail "no $file"
done
printf 'B-PER I-PER O B-LOC O\nO O O I-LOC O O\n' >said.txt
sed '1s/^/\xef\xbb\xbf/' said.txt >marked.txt
run evaluate tokens train.txt marked.txt
expect_out '{"precision": 1.0, "recall": 1.0,'
run evaluate tokens train.txt said.txt
expect_out '{"precision": 1.0, "recall": 1.0, "f1": 1.0, "accuracy": 0.9090909090909091'
run evaluate tokens train.txt said.txt --scheme IOB2
expect_out '{"precision": 1.0, "recall": 0.6666666666666666, "f1": 0.8, "accuracy": 0.9090909090909091'
run evaluate tokens train.txt said.txt --scheme IOB4
expect_code 2
printf 'O O O O\nO O O O O O\n' >said.txt
run evaluate tokens train.txt said.txt
expect_code 65
expect_err 'said.txt: line 1: 4 tags, but the sentence in line 3 of train.txt has 5 words'

# Whether a run evaluates and predicts.
put mrpc test MRPC/test.tsv
classify="finetune classify --model all-MiniLM-L6-v2 --max_steps 1 --threads 1"
mrpc="$classify --task mrpc --data_dir glue"
own="$classify --train reviews.csv --text-column text --label-column label"
run $mrpc --output silent --do_eval false
expect_code 0
expect_no "$err" eval_accuracy
[ ! -e silent/eval_results.txt ] && [ ! -e silent/test_results.tsv ] || fail "--do_eval false evaluates"
[ -s silent/model.safetensors ] || fail "no model"
run $own --output silent --overwrite_output_dir --dev reviews.csv --do_eval false
expect_code 0
[ ! -e silent/eval_results.txt ] || fail "--do_eval false evaluates"
run $mrpc --output predicted --do_eval --do_predict --json
expect_code 0
expect_out '"accuracy":'
[ -s predicted/eval_results.txt ] || fail "no eval_results.txt"
[ "$(wc -l <predicted/test_results.tsv)" -eq 1 ] || fail "not the one row of test.tsv"
run predict classify --model predicted --task mrpc --data_dir glue --output again --threads 1
expect_code 0
cmp -s predicted/test_results.tsv again/test_results.tsv || fail "predict says something else"
# Without training: scores, predictions or both, as training would have written them.
alone="predict classify --task_name mrpc --data_dir glue --model predicted --threads 1"
run $alone --do_predict=true --output_dir alone
expect_code 0
cmp -s predicted/test_results.tsv alone/test_results.tsv || fail "other predictions without training"
[ ! -e alone/eval_results.txt ] || fail "evaluated unasked"
run $alone --do_eval=true --output_dir scored
expect_code 0
diff <(grep ^eval_ predicted/eval_results.txt) <(grep ^eval_ scored/eval_results.txt) || fail "other scores without training"
[ ! -e scored/test_results.tsv ] || fail "predicted unasked"
run $alone --do_eval=true --do_predict=true --output_dir both
expect_code 0
[ -s both/eval_results.txt ] && cmp -s both/test_results.tsv predicted/test_results.tsv || fail "not both"
run $alone --do_predict=false --output_dir neither
expect_code 2
expect_err "nothing to do: --do_predict is false and --do_eval is not given"
run $alone --do_eval=false --do_predict=false --output_dir neither
expect_code 2
expect_err "nothing to do"
[ ! -e neither ] || fail "a folder for nothing"
# So Google's run_classifier, in its own words.
cp all-MiniLM-L6-v2/config.json predicted/vocab.txt .
google="run_classifier.py --bert_config_file config.json --vocab_file vocab.txt --task_name mrpc --data_dir glue
    --init_checkpoint predicted"
for case in "--do_eval=false --do_predict=true" "--do_eval=true" "--do_eval=true --do_predict=true"; do
    run as --threads=1 google/$google --do_train=false $case --train_batch_size 32 --output_dir google
    expect_code 0
    [ -e google/eval_results.txt ] && evaluated=true || evaluated=false
    [ -e google/test_results.tsv ] && predicted=true || predicted=false
    [[ $case == *do_eval=$evaluated* ]] || fail "eval_results.txt: $evaluated"
    case $case in
    *do_predict=true) [ $predicted = true ] && cmp -s google/test_results.tsv predicted/test_results.tsv ;;
    *) [ $predicted = false ] ;;
    esac || fail "test_results.tsv: $predicted"
    rm -r google
done
run as google/$google --do_train=false --output_dir neither
expect_code 2
expect_err "nothing to do: give --do_train, --do_eval or --do_predict"
# Tags: an evaluation needs no file to predict, also by run_ner.
run predict tokens --model ner --do_eval --dev train.txt --output ner-scored --threads 1
expect_code 0
[ -s ner-scored/eval_results.txt ] && [ ! -e ner-scored/predictions.txt ] || fail "not an evaluation alone"
run as --threads=1 run_ner.py --model_name_or_path ner --validation_file train.txt --do_eval --output_dir ner-theirs
expect_code 0
diff ner-scored/eval_results.txt ner-theirs/eval_results.txt || fail "other scores by run_ner.py"
run predict tokens --model ner --output neither
expect_code 2
expect_err "--predict_file is"
# The plan says what the labels are.
run $own --output none --dry-run --verbose
expect_code 0
expect_out 'labels                           3 classes ("bad", "good", "neither")'
printf 'text,label\nA man sleeps., 1.5\nA man runs.,5 \n' >scores.csv
run $classify --train scores.csv --output none --dry-run --verbose
expect_code 0
expect_out 'labels                           numbers from 1.5 to 5'
run finetune tokens --model all-MiniLM-L6-v2 --train train.txt --output none --dry-run --verbose
expect_code 0
expect_out 'labels                           4 classes ("B-LOC", "B-PER", "I-PER", "O")'
run $own --output none --dry-run --verbose --data_dir nowhere --language de
expect_code 0
expect_out 'data_dir has no effect without task_name'
expect_out 'language has no effect without task_name'
run $own --output mine --predict_file reviews.csv --data_dir nowhere
expect_code 0
[ "$(grep -c 'data_dir has no effect without task_name' "$err")" -eq 1 ] || fail "a note twice"
[ "$(wc -l <mine/predict_results.txt)" -eq 4 ] || fail "not the three rows of the test file"
# The settings of a recipe also apply to the prediction.
{ echo text,label; printf 'hello world %.0s' {1..200}; echo ,good; } >long.csv
run $own --output recipe --recipe intel --train_batch_size 2 --predict_file long.csv
expect_code 0
run predict classify --model recipe --input long.csv --text-column text --max_seq_length 512 --output whole --threads 1
expect_no "$err" 'without task_name'
cmp -s recipe/test_results.tsv whole/test_results.tsv || fail "predicted with another max_seq_length"
# Of pairs that are both cut, the recipes of Google and Intel leave the odd token to the first text, and the model
# remembers it; otherwise it is the second text's, as in Hugging Face's tokenizers.
{
    echo text,pair,label
    for line in $(seq 4); do
        echo "one two three four five six seven eight $line,nine eight seven six five four three two one $line,good"
        echo "a b c d e f g h i $line,j k l m n o p q r $line,bad"
    done
} >pairs.csv
pairs="--text_column text --text_pair_column pair --max_seq_length 16 --threads 1"
run $classify $pairs --train pairs.csv --label_column label --output pairs-google --recipe google --train_batch_size 2
expect_code 0
grep -q '"pair_truncation": "google"' pairs-google/tokenizer_config.json || fail "the rule is not recorded"
for rule in "" "--pair_truncation google" "--pair_truncation huggingface"; do
    run predict classify --model pairs-google --input pairs.csv $pairs --output "of${rule##* }" $rule
    expect_code 0
done
cmp -s of/test_results.tsv ofgoogle/test_results.tsv || fail "prediction does not follow the model"
! cmp -s of/test_results.tsv ofhuggingface/test_results.tsv || fail "the rules make no difference"
run $classify $pairs --train pairs.csv --label_column label --output pairs-usual --train_batch_size 2
expect_code 0
expect_no pairs-usual/tokenizer_config.json pair_truncation
run $own --output mine2 --predict_file reviews.csv --do_predict false
expect_code 0
[ ! -e mine2/test_results.tsv ] || fail "--do_predict false predicts"
run $mrpc --output none --do_predict --dry-run --verbose
expect_code 0
run $classify --task rte --data_dir glue --output none --do_predict
expect_code 66
expect_err "no test.tsv"
run $own --output none --do_predict
expect_code 2
expect_err "predict_file is missing"
run $own --output none --predict_file nowhere.csv
expect_code 66
expect_err "nowhere.csv: no such file"
# Where no column is named, neither a column of the model's labels nor one of arrays is a text.
printf 'verdict,text\ngood,It is quiet.\nbad,It broke.\n' >verdicts.csv
run predict classify --model mine --input verdicts.csv --output none
expect_code 78
expect_err "column verdict, chosen by name as a text, holds the model's labels"
printf 'text,verdict\nIt is quiet.,good\nIt broke.,bad\n' >verdicts.csv
run predict classify --model mine --input verdicts.csv --output none
expect_code 78
expect_err "column verdict, chosen by name as a text, holds the model's labels"
run predict classify --model mine --input verdicts.csv --text_column text --label_column verdict --output verdicts
expect_code 0
echo '{"topics": ["a", "b"], "text": "A man sleeps."}' >topics.jsonl
run predict classify --model mine --input topics.jsonl --output topics --verbose
expect_code 0
expect_err 'text_column text, text_pair_column none'
[ ! -e none ] || fail "something was written"
# A model keeps its head for data without one of its classes, whatever its architecture.
data=$(cd "$documents/../tests/cli/data" && pwd)
{ cat "$data/trainer/train.tsv"; printf 'was a play\tso\n'; } >three.tsv
for type in roberta distilbert; do
    run finetune classify --model "$data/trainer-$type/checkpoint-3" --train three.tsv --output "three-$type" --max_steps 1 --quiet
    expect_code 0
    run finetune classify --model "three-$type" --train "$data/trainer/train.tsv" --output "two-$type" --max_steps 1
    expect_code 0
    expect_err "has 2 of the model's 3 classes: its head is kept, with all of them"
done
finish
