#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests the other rule sets of SQuAD features and SQuAD 2.0, on a tiny model; and the
# commands of doc/squad.md.
. "$(dirname "$0")/lib.sh"
make_model "$work/model"
make_dataset "$work/data.json"
small="--threads 1 --max_seq_length 64 --doc_stride 16 --max_query_length 16"
train="--train_batch_size 4 --learning_rate 2e-3 --precision fp32 --hidden_dropout_prob 0
    --attention_probs_dropout_prob 0 --no_evaluate_every_epoch"

# Keras's features: counts, training, answers, and the viewer of the CSCS demos.
run features squad --vocab "$work/model/vocab.txt" --input "$work/data.json" --training --count \
    --features keras --max_seq_length 128
expect_code 0
expect_out 'examples=8 features=8'
run features squad --vocab "$work/model/vocab.txt" --input "$work/data.json" --training --count \
    --features keras --max_seq_length 20
expect_code 0
expect_err 'skipping 8 of 8 entries: 0 with the answer at the end of the context'
keras="--features keras --keras_end exclusive --max_seq_length 128 --threads 1"
run finetune squad --model "$work/model" --train "$work/data.json" --dev "$work/data.json" \
    --output "$work/keras" $keras $train --num_train_epochs 20 --save_total_limit 2
expect_code 0
run predict squad --model "$work/keras" --input "$work/data.json" --output "$work/answers" $keras
expect_code 0
cmp -s "$work/keras/predictions.json" "$work/answers/predictions.json" || fail "predictions differ"
# The model records its features; requesting others gives a message.
grep -q '"squad_features": "keras"' "$work/keras/config.json" || fail "config.json names no features"
grep -q '"squad_answer_end": "exclusive"' "$work/keras/config.json" || fail "config.json names no end"
run predict squad --model "$work/keras" --input "$work/data.json" --output "$work/remembered" \
    --max_seq_length 128 --threads 1 --verbose
expect_code 0
expect_err 'features: keras, as the model was trained'
cmp -s "$work/answers/nbest_predictions.json" "$work/remembered/nbest_predictions.json" || fail "not remembered"
run predict squad --model "$work/keras" --input "$work/data.json" --output "$work/windows" $small --features google
expect_code 0
expect_err 'features google, but the model was trained with features keras'
run predict squad --model "$work/keras" --input "$work/data.json" --output "$work/named" --features keras \
    --max_seq_length 128 --threads 1 --verbose
expect_code 0
expect_err 'keras_end: exclusive, as the model was trained'
cmp -s "$work/answers/nbest_predictions.json" "$work/named/nbest_predictions.json" || fail "the end is not remembered"
# Further training goes on with them, too.
again="--model $work/keras --train $work/data.json --max_seq_length 128 --threads 1 $train --max_steps 1"
run finetune squad $again --output "$work/again" --verbose
expect_code 0
expect_err 'features: keras, as the model was trained'
expect_err 'keras_end: exclusive, as the model was trained'
grep -q '"squad_features": "keras"' "$work/again/config.json" || fail "trained again with other features"
grep -q '"squad_answer_end": "exclusive"' "$work/again/config.json" || fail "trained again with another end"
run finetune squad $again --output "$work/inclusive" --features keras --keras_end inclusive
expect_code 0
expect_err 'keras_end inclusive, but the model was trained with keras_end exclusive'
run finetune squad $again --output "$work/windowed" --features google
expect_code 0
expect_err 'features google, but the model was trained with features keras'
grep -q '"squad_features": "google"' "$work/windowed/config.json" || fail "trained again with windows"
run finetune squad --model "$work/model" --train "$work/data.json" --output "$work/keras" --features google \
    $train --num_train_epochs 21 --resume_from_checkpoint auto --max_seq_length 128 --threads 1
expect_code 78
expect_err 'the run to resume had features keras, not google'
# A state alone, as the demos save it, does not say with which features it was trained.
run convert "$work/keras" "$work/state" --to torch
mkdir "$work/alone"
mv "$work/state/pytorch_model.bin" "$work/alone/state"
of_state="--config_file $work/model/config.json --vocab_file $work/model/vocab.txt --max_seq_length 128 --threads 1"
for verb in "finetune squad --train $work/data.json --output $work/further $train --max_steps 1" \
    "predict squad --input $work/data.json --output $work/state-answers"; do
    run $verb --model "$work/alone/state" $of_state
    expect_code 0
    expect_err 'alone/state does not say with which features it was trained, so features google are assumed'
    run $verb --model "$work/alone/state" $of_state --features keras --keras_end exclusive --overwrite_output_dir
    expect_code 0
    expect_no "$err" "does not say with which features"
done
run answer --model "$work/keras" --question 'Where did Ada live?' --context 'Ada lived in Oslo.' $keras
expect_code 0
run show squad --model "$work/keras" --input "$work/data.json" $keras --start-sample 1 --num-test-samples 4
expect_code 0
shown_of 4 '^─* Example [1-4] '
expect_no "$err" "has no effect"
# The recipe has no windows.
for verb in "predict squad --model $work/keras --input $work/data.json --output $work/unused" \
    "finetune squad --model $work/model --train $work/data.json --dev $work/data.json --output $work/unused2 --max_steps 1" \
    "answer --model $work/keras --question Where? --context Oslo." \
    "show squad --model $work/keras --input $work/data.json --num-test-samples 1" \
    "features squad --vocab $work/model/vocab.txt --input $work/data.json --count"; do
    run $verb $keras --doc_stride 16 --max_query_length 16
    expect_code 0
    for setting in doc_stride max_query_length; do
        [ "$(grep -c "$setting has no effect with features keras" "$err")" -eq 1 ] || fail "$setting is noted once"
    done
done
run show squad --model "$work/keras" --input "$work/data.json" $keras --num-test-samples 1 --n_best_size 3 \
    --max_answer_length 9 --null_score_diff_threshold 1
expect_code 0
expect_err 'n_best_size has no effect with features keras'
expect_err 'max_answer_length has no effect with features keras'
expect_err 'null_score_diff_threshold has no effect without version_2_with_negative'
run show squad --model "$work/model" --input "$work/data.json" $keras --num-test-samples 8
cp "$out" "$work/shown"
run show squad --model "$work/model" --input "$work/data.json" $keras --num-test-samples 8 --max_answer_length 1
cmp -s "$out" "$work/shown" || fail "max_answer_length has an effect"
run show squad --model "$work/keras" --input "$work/data.json" $keras --keras_answers all --num-test-samples 8
expect_code 0
shown=$(grep -c '^❓' "$out")
[ "$(grep -c "^─* {'exact_match': [0-9.]*, 'f1': [0-9.]*} ─*$" "$out")" -eq "$shown" ] || fail "titles"
[ "$shown" -gt 0 ] || fail "nothing shown"
run show squad --model "$work/keras" --input "$work/data.json" $keras --random-samples 3 --json
expect_code 0
shown_of 3 '^{"index":'
run show squad --model "$work/keras" --input "$work/data.json" $keras --start-sample 8
expect_code 2
expect_err 'has samples 0 to 7'
run show squad --model "$work/keras" --input "$work/data.json" $keras --max_seq_length 20
expect_code 65
expect_err "all its questions are left out by Keras's rules; a larger max_seq_length than 20 may keep some"

# Samples drawn at random: determined by the seed, in ascending order, without repetition, at most all.
drawn() { # WORDS...: the numbers of the samples
    run show squad --model "$work/model" --input "$work/data.json" $small --json "$@"
    expect_code 0
    sed 's/^{"index":\([0-9]*\),.*/\1/' "$out" | tr '\n' ' '
}
first=$(drawn --random-samples 3 --seed 1)
[ "$(echo $first | wc -w)" -eq 3 ] || fail "samples $first"
[ "$(drawn --random-samples 3 --seed 1)" = "$first" ] || fail "another draw by the same seed"
[ "$(echo $first | tr ' ' '\n' | sort -nu | tr '\n' ' ')" = "$first" ] || fail "samples $first"
[ "$(drawn --random-samples 50)" = "0 1 2 3 4 5 6 7 " ] || fail "not all samples"
others=$(for seed in 2 3 4 5 6 7 8 9; do drawn --random-samples 3 --seed $seed; echo; done | sort -u)
[ "$(echo "$others" | wc -l)" -ge 4 ] || fail "few draws: $others"
for number in 0 7; do
    echo "$others $first" | grep -qw $number || fail "sample $number was never drawn"
done
run show squad --model "$work/model" --input "$work/data.json" --random-samples 3 --num-test-samples 3
expect_code 2
expect_err 'give one or the other'

# SQuAD 2.0: questions without answers, the official keys, null odds, the thresholds.
sed -E 's/("id": "q[1-8]")/\1, "is_impossible": false/
    s/("id": "q[37]", "is_impossible": )false(.*"answers": \[)[^]]*/\1true\2/' "$work/data.json" >"$work/v2.json"
run finetune squad --model "$work/model" --train "$work/v2.json" --dev "$work/v2.json" --output "$work/v2" \
    $small $train --num_train_epochs 20 --version_2_with_negative --json
expect_code 0
keys='"exact":#,"f1":#,"HasAns_exact":#,"HasAns_f1":#,"NoAns_exact":#,"NoAns_f1":#'
keys=$keys',"best_exact":#,"best_exact_thresh":#,"best_f1":#,"best_f1_thresh":#'
grep -qE "$(echo "$keys" | sed 's/#/-?[0-9.e+-]+/g')" "$out" || fail "the official keys"
cp "$out" "$work/v2.result"
run predict squad --model "$work/v2" --input "$work/v2.json" --output "$work/v2-answers" $small \
    --version_2_with_negative --json
expect_code 0
[ "$(grep -c '"q[1-8]": -\?[0-9]' "$work/v2-answers/null_odds.json")" -eq 8 ] || fail "8 null odds"
run evaluate squad "$work/v2.json" "$work/v2-answers/predictions.json" \
    --null-odds "$work/v2-answers/null_odds.json"
expect_code 0
for key in exact HasAns_f1 NoAns_exact best_exact best_exact_thresh best_f1 best_f1_thresh; do
    value=$(sed -n "s/^ *\"$key\": \([^,]*\),\?$/\1/p" "$out")
    number=$(sed -E "s/.*\"$key\":([^,}]*).*/\1/" "$work/v2.result")
    awk "BEGIN { exit !($value - $number < 1e-4 && $number - $value < 1e-4) }" ||
        fail "$key: the file says $value, the run $number"
done
expect_no "$err" null_threshold
cp "$out" "$work/scores.json"
run evaluate squad "$work/v2.json" "$work/v2-answers/predictions.json" --null_odds "$work/v2-answers/null_odds.json" --json
[ "$(wc -l <"$out")" -eq 1 ] || fail "--json has several lines"
python3 -c 'import json, sys; one, other = map(json.load, map(open, sys.argv[1:])); assert one == other and len(one) > 5, one' \
    "$out" "$work/scores.json" || fail "--json has other scores"
run evaluate squad "$work/v2.json" "$work/v2-answers/predictions.json" --null_threshold 0.5
expect_code 0
expect_err 'note: --null_threshold has no effect without --null_odds'
run evaluate squad "$work/v2.json" "$work/v2-answers/predictions.json" --null_threshold -1
expect_code 0
expect_no "$err" null_threshold
expect_out '"HasAns_exact": 0.0'
run predict squad --model "$work/v2" --input "$work/v2.json" --output "$work/v1-answers" $small \
    --null_score_diff_threshold -1 --json
expect_code 0
expect_out '"NoAns_f1"'
expect_no "$out" best_
expect_err 'null_score_diff_threshold has no effect without version_2_with_negative'
expect_err '2 of 8 questions have no answer, but every one will be given one'
[ ! -e "$work/v1-answers/null_odds.json" ] || fail "null odds without version 2"

# A file of questions without answers is answered at the end, and nothing in it chooses a model.
sed -E 's/"answers": \[[^]]*\]/"answers": []/' "$work/data.json" >"$work/questions.json"
blind="--model $work/model --train $work/data.json --dev $work/questions.json $small $train --max_steps 2"
run finetune squad $blind --output "$work/blind" --metric_for_best_model f1
expect_code 0
expect_err 'questions.json: no question has an answer: the questions are answered, but nothing is scored'
expect_err 'metric_for_best_model has no effect, because there is nothing to evaluate on: the validation_file has no answers'
[ "$(grep -c '"q[1-8]":' "$work/blind/predictions.json")" -eq 8 ] || fail "8 answers"
run finetune squad $blind --output "$work/blind2" --evaluate_every_epoch --load_best_model_at_end
expect_code 78
expect_err 'load_best_model_at_end needs evaluations, and there is nothing to evaluate on'
run evaluate squad "$work/questions.json" "$work/blind/predictions.json"
expect_code 65
expect_err 'questions.json: no question has an answer to compare with'
# The option asks for the rules of version 2, also where the file does not.
run predict squad --model "$work/v2" --input "$work/data.json" --output "$work/v2-of-v1" $small \
    --version_2_with_negative --json
expect_code 0
expect_out '"HasAns_exact":'

# Contradictory settings.
run features squad --vocab "$work/model/vocab.txt" --input "$work/data.json" --keras_end exclusive --count
expect_code 78
expect_err 'keras_end exclusive applies only to Keras'
run features squad --vocab "$work/model/vocab.txt" --input "$work/data.json" --features keras \
    --version_2_with_negative --count
expect_code 78
run features squad --vocab "$work/model/vocab.txt" --input "$work/data.json" --features keras \
    --window_filter words --training --count
expect_code 78

# BingBertSquad's windows.
run features squad --vocab "$work/model/vocab.txt" --input "$work/data.json" --training --count \
    --max_seq_length 18 --doc_stride 4 --max_query_length 8
all=$(sed 's/.* features=\([0-9]*\) .*/\1/' "$out")
run features squad --vocab "$work/model/vocab.txt" --input "$work/data.json" --training --count \
    --max_seq_length 18 --doc_stride 4 --max_query_length 8 --window_filter words
expect_code 0
some=$(sed 's/.* features=\([0-9]*\) .*/\1/' "$out")
[ "$some" -gt 0 ] && [ "$some" -lt "$all" ] || fail "$some of $all windows"
run finetune squad --model "$work/model" --train "$work/data.json" --output "$work/words" $small $train \
    --window_filter words --max_steps 2
expect_code 0

# The commands of the document.
mkdir -p "$work/document/squad"
cd "$work/document" || exit 1
cp -r ../model all-MiniLM-L6-v2
cp ../data.json squad/train-v1.1.json && cp ../data.json squad/dev-v1.1.json
cp ../v2.json squad/train-v2.0.json && cp ../v2.json squad/dev-v2.0.json
run_commands_of "$documents/squad.md" 13
expect_out 'examples=8 features=8'
expect_out '"best_f1_thresh"'
[ -s words/model.safetensors ] && [ -s answers2/null_odds.json ] || fail "a file is missing"

# Those of the first page, which downloads what it needs.
mkdir ../readme
cd ../readme || exit 1
cp -r ../document/all-MiniLM-L6-v2 ../document/squad .
run_commands_of "$documents/../README.md" 4
expect_out 'exact_match'
finish
