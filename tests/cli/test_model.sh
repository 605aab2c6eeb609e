#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests the jobs that need a model, on a tiny one: fine-tune, resume, predict, evaluate, answer, show.
. "$(dirname "$0")/lib.sh"
make_model "$work/model"
make_dataset "$work/data.json"
small="--threads 1 --max_seq_length 64 --doc_stride 16 --max_query_length 16"

run finetune squad --model "$work/model" --train "$work/data.json" --dev "$work/data.json" \
    --output "$work/run" $small --train_batch_size 4 --num_train_epochs 20 --learning_rate 2e-3 \
    --hidden_dropout_prob 0 --attention_probs_dropout_prob 0 --precision fp32 --logging_steps 20 \
    --save_steps 40 --no_evaluate_every_epoch --json_summary "$work/log.json" --json
expect_code 0
expect_err "step 20/40"
expect_no "$err" "$escape"
expect_no "$err" "$(printf '\r')"
grep -qE '^\{"steps":40,"final_loss":[0-9.e-]+,"exact_match":[0-9.]+,"f1":' "$out" || fail "result"
grep -q '"kind":"step","step":20' "$work/log.json" || fail "json_summary has no step 20"
grep -q '"kind":"summary"' "$work/log.json" || fail "json_summary has no summary"
for file in config.json model.safetensors vocab.txt predictions.json nbest_predictions.json; do
    [ -s "$work/run/$file" ] || fail "$file is missing"
done

grep -q '"train_samples": 8,' "$work/run/train_results.json" || fail "train_samples counts epochs"

# Without an update the model is evaluated and written as it is.
run finetune squad --model "$work/run" --train "$work/data.json" --dev "$work/data.json" --output "$work/unchanged" \
    $small --num_train_epochs 0 --precision fp32 --quiet
expect_code 0
expect_err "num_train_epochs 0 is less than one update: the model is saved as it is, untrained"
cmp "$work/unchanged/model.safetensors" "$work/run/model.safetensors" || fail "0 epochs: other weights"
cmp "$work/unchanged/predictions.json" "$work/run/predictions.json" || fail "0 epochs: other predictions"

# transformers gives the span head an output for each class of config.json; the model's were of another head.
cp -r "$work/model" "$work/three"
sed -i 's/"vocab_size"/"id2label": {"0": "a", "1": "b", "2": "c"}, "vocab_size"/' "$work/three/config.json"
run finetune squad --model "$work/three" --train "$work/data.json" --output "$work/two" $small --max_steps 1 --quiet
expect_code 0
grep -q id2label "$work/three/config.json" && ! grep -q id2label "$work/two/config.json" || fail "classes stay"

# save_steps auto: the first update is saved, then as Young's formula says of what was measured.
run finetune squad --model "$work/model" --train "$work/data.json" --output "$work/young" $small \
    --train_batch_size 4 --max_steps 60 --precision fp32 --logging_steps 60 \
    --save_steps auto --mean_time_to_failure 1 --save_total_limit 100 --json_summary "$work/young.json" --quiet
expect_code 0
python3 - "$work" <<'END' || fail "save_steps auto"
import json, math, os, sys
records = [json.loads(line) for line in open(sys.argv[1] + "/young.json")]
chosen = [r for r in records if "save_interval_steps" in r]
steps = [r["step"] for r in chosen]
assert steps[0] == 1 and steps[-1] < 60, steps # no other one is due after the last
for record, following in zip(chosen, steps[1:] + [60]):
    seconds = math.sqrt(2 * record["saving_seconds"] * record["mean_time_to_failure"])
    assert record["mean_time_to_failure"] == 1 and record["saving_seconds"] > 0, record
    assert abs(record["save_interval_seconds"] / seconds - 1) < 1e-4, record
    updates = max(1, seconds / record["update_seconds"])
    assert abs(record["save_interval_steps"] - updates) <= 0.5 + 1e-3 * updates, record
    assert following == min(record["step"] + record["save_interval_steps"], 60), (record, following)
folders = {int(name.split("-")[1]) for name in os.listdir(sys.argv[1] + "/young") if name.startswith("checkpoint-")}
assert folders == {*steps, 60}, (folders, steps)
END
grep -q '"save_steps": "auto"' "$work/young/trainer_state.json" || fail "the setting is not stored"

# async_save: where the plan with a copy of weights and moments does not fit, and the one without does. Sanitizers
# need more address space than such a limit leaves.
test_copy_without_memory() {
    sed 's/"max_position_embeddings": 512/"max_position_embeddings": 30000/
         s/"hidden_size": 32/"hidden_size": 256/' "$work/config.json" \
        >"$work/large.json"
    "$BERTH" init --config "$work/large.json" --output "$work/large" --quiet || fail "init"
    cp "$work/model/vocab.txt" "$work/large"
    local low=100000 high=4000000 middle
    planned() { # KIB
        (ulimit -v "$1" && exec "$BERTH" finetune squad --model "$work/large" --train "$work/data.json" \
            --output "$work/none" $small --train_batch_size 4 --max_steps 2 --precision fp32 --async_save --dry_run --verbose) \
            >"$out" 2>"$err"
    }
    while [ $((high - low)) -gt 30000 ]; do # of the 95 MiB that the copy takes
        middle=$(((low + high) / 2))
        if planned $middle && grep -qE 'saving_bytes +95' "$out"; then high=$middle; else low=$middle; fi
    done
    planned $high || fail "no plan in $high KiB"
    grep -qE 'saving_bytes +95.09 MiB' "$out" || fail "no copy in $high KiB"
    expect_no "$out" "not enough memory for a copy"
    planned $low || fail "no plan in $low KiB"
    expect_out "async_save: not enough memory for a copy of weights and moments (95 MiB)"
    grep -qE 'saving_bytes +0 B' "$out" || fail "a copy in $low KiB"
    rm -r "$work/large"
}
[ -n "${SANITIZE:-}" ] || test_copy_without_memory

# The best model is the result: its scores, its predictions, its weights; no evaluation beats it.
run finetune squad --model "$work/model" --train "$work/data.json" --dev "$work/data.json" \
    --output "$work/best" $small --train_batch_size 4 --num_train_epochs 30 --learning_rate 2e-2 --precision fp32 \
    --hidden_dropout_prob 0 --attention_probs_dropout_prob 0 --schedule constant --save_total_limit 1 \
    --eval_strategy steps --eval_steps 3 --save_strategy best --metric_for_best_model eval_f1 \
    --load_best_model_at_end --early_stopping_patience 4
expect_code 0
expect_err "early stopping after update"
python3 - "$work/best" <<'END' || fail "not the best model"
import json, sys
folder = sys.argv[1]
state = json.load(open(folder + "/trainer_state.json"))
scores = {e["step"]: e["eval_f1"] for e in state["log_history"] if "eval_f1" in e}
best = max(scores.values())
first = min(step for step, score in scores.items() if score == best)
assert state["best_metric"] == best and state["best_global_step"] == first, (scores, state["best_global_step"])
assert state["best_model_checkpoint"] == folder + "/checkpoint-%d" % first
own = state["stateful_callbacks"]["Berth"]["attributes"]
assert own["early_stopping_patience_counter"] == 4 and state["global_step"] == first + 12 == max(scores)
assert all(step % 3 == 0 for step in scores) and first != state["global_step"]
assert json.load(open(folder + "/eval_results.json"))["eval_f1"] == best
same = [open(p + "/model.safetensors", "rb").read() for p in (folder, folder + "/checkpoint-%d" % first)]
assert same[0] == same[1]
END
run finetune squad --model "$work/model" --train "$work/data.json" --dev "$work/data.json" --output "$work/none" \
    $small --max_steps 1 --metric_for_best_model precision
expect_code 78
expect_err "the evaluation has no such score; it has exact_match, f1"
[ ! -e "$work/none" ] || fail "a score that does not exist was found only after training"

# The best model is that of the checkpoint of another folder from which the run was resumed.
run finetune squad --model "$work/model" --train "$work/data.json" --dev "$work/data.json" --output "$work/moved" \
    $small --train_batch_size 4 --max_steps 42 --learning_rate 0.5 --schedule constant --precision fp32 \
    --eval_steps 40 --load_best_model_at_end --metric_for_best_model f1 --no_evaluate_every_epoch --save_total_limit 2 \
    --resume_from_checkpoint "$work/run/checkpoint-40"
expect_code 0
expect_err "the result is the best model, that of update 40"
for model in moved moved/checkpoint-40; do
    cmp "$work/$model/model.safetensors" "$work/run/checkpoint-40/model.safetensors" || fail "$model is not the best"
done

# A few lines of plan, at most 20 of 32 reported updates, none wider than 60 columns; no optimizer's state is left.
several="--model $work/model --train $work/data.json --dev $work/data.json $small --train_batch_size 1
    --num_train_epochs 40 --no_evaluate_every_epoch --precision fp32"
# shellcheck disable=SC2086
run finetune squad $several --output "$work/quiet"
expect_code 0
[ "$(sed '/^step /,$d' "$err" | wc -l)" -le 12 ] || fail "a long plan"
steps=$(grep -c '^step [0-9]*/320  loss ' "$err")
[ "$steps" -ge 10 ] && [ "$steps" -le 20 ] || fail "$steps lines of updates"
! grep '^step ' "$err" | grep -E '.{61}' || fail "lines of updates wider than 60 columns"
expect_err "step 320/320"
expect_err "eval:  step 320"
[ "$(grep -c '"kind":"step"' "$work/quiet/log.jsonl")" -eq 32 ] || fail "the log has not all updates"
grep -q '"kind":"note","text":"precision: fp32' "$work/quiet/log.jsonl" || grep -q '"kind":"note","text":"device: ' \
    "$work/quiet/log.jsonl" || fail "the log has not the notes"
expect_no "$err" "device: "
[ "$(tail -n 1 "$err")" = "the model is in $work/quiet, without the optimizer's state; save_total_limit 1 keeps that, in a checkpoint" ] ||
    fail "another end"
[ -z "$(find "$work/quiet" -name 'checkpoint-*' -o -name 'optimizer*')" ] || fail "state is left: $(ls "$work/quiet")"
# What is asked for: each tenth update, the state, everything.
# shellcheck disable=SC2086
run finetune squad $several --output "$work/asked" --logging_steps 10 --save_total_limit 1
expect_code 0
[ "$(grep -c '^step ' "$err")" -eq 32 ] || fail "not every tenth update"
[ "$(tail -n 1 "$err")" = "the model is in $work/asked" ] || fail "another end"
"$BERTH" verify "$work/asked/checkpoint-320" >/dev/null || fail "no state"
cmp -s "$work/quiet/model.safetensors" "$work/asked/model.safetensors" || fail "another model"
# shellcheck disable=SC2086
run finetune squad $several --output "$work/everything" --num_train_epochs 1 --verbose
expect_code 0
for words in "device: " "  optimizer_formula " "  total_steps " "  model_flops " "grad_norm" "saved $work/everything/checkpoint-8"; do
    expect_err "$words"
done

# So are dry runs, and runs with another program's recipe; --verbose and a run's log have the rest.
for recipe in "" nvidia-squad nvidia-squad-bertadam habana-bertadam bing-bert-squad google hugging-face; do
    # shellcheck disable=SC2086
    run finetune squad $several ${recipe:+--recipe $recipe} --output "$work/planned" --dry-run
    expect_code 0
    [ "$(cat "$out" "$err" | wc -l)" -le 12 ] || fail "a long plan"
    expect_out "optimizer   "
    # shellcheck disable=SC2086
    run finetune squad $several ${recipe:+--recipe $recipe} --output "$work/planned" --dry-run --verbose
    expect_code 0
    expect_out "  optimizer_formula "
    expect_out "  total_steps "
done
# shellcheck disable=SC2086
run finetune squad $several --recipe google --output "$work/of-google" --max_steps 4
expect_code 0
[ "$(sed '/^step /,$d' "$err" | wc -l)" -le 12 ] || fail "a long plan"
grep -q '"optimizer_formula":' "$work/of-google/log.jsonl" || fail "the log has not the whole plan"

run evaluate squad "$work/data.json" "$work/run/predictions.json"
expect_code 0
expect_out exact_match

# Running it again does nothing and leaves the files unchanged.
cp "$work/run/train_results.json" "$work/before.json"
run finetune squad --model "$work/model" --train "$work/data.json" --output "$work/run" $small \
    --train_batch_size 4 --num_train_epochs 20 --learning_rate 2e-3 --hidden_dropout_prob 0 \
    --attention_probs_dropout_prob 0 --precision fp32 --resume_from_checkpoint auto
expect_code 0
expect_err "no updates were left to train"
cmp -s "$work/run/train_results.json" "$work/before.json" || fail "its results were written over"
grep -q '"train_runtime"' "$work/run/all_results.json" || fail "all_results.json lost them"

# A run that was to resume does not overwrite a finished model without a checkpoint.
mkdir "$work/finished"
cp "$work"/run/*.* "$work/finished"
for flag in "" "--dry-run"; do
    run finetune squad --model "$work/model" --train "$work/data.json" --output "$work/finished" \
        $small --resume_from_checkpoint auto $flag
    expect_code 73
    expect_err "contains a model and no checkpoint to resume from"
done
cmp -s "$work/run/model.safetensors" "$work/finished/model.safetensors" || fail "it was trained over"
run finetune squad --model "$work/model" --train "$work/data.json" --output "$work/finished" $small \
    --train_batch_size 4 --max_steps 1 --resume_from_checkpoint auto --overwrite_output_dir
expect_code 0

# The originals' checkpoints are gone on from: their weights and their step.
resume() { # STEP WORDS...
    step=$1
    shift
    run finetune squad --model "$work/model" --train "$work/data.json" $small \
        --train_batch_size 4 --max_steps 8 --precision fp32 --logging_steps 1 \
        --hidden_dropout_prob 0 --attention_probs_dropout_prob 0 --save_total_limit 1 "$@"
    expect_code 0
    grep -oE "^step $((step + 1))/8 .* lr [^ ]*" "$err" | sed 's/^step [0-9]*//' >"$work/first.$step"
    [ -s "$work/first.$step" ] || fail "no update $((step + 1))"
    expect_no "$err" "step $step/8"
}
run convert "$work/run" "$work/originals" --to nvidia --step 5
run convert "$work/run" "$work/google" --to tensorflow
for file in "$work"/google/bert_model.ckpt.*; do
    mv "$file" "$work/originals/model.ckpt-4.${file##*ckpt.}"
done
resume 5 --output "$work/originals" --resume_from_checkpoint auto
expect_err "resuming after update 5 with its weights; not restored: the optimizer's moments"
"$BERTH" verify "$work/originals/checkpoint-8" >/dev/null || fail "no checkpoint of its own"
grep -q '"moments_start": 5' "$work/originals/checkpoint-8/trainer_state.json" || fail "moments"
resume 4 --output "$work/from-google" --resume_from_checkpoint "$work/originals/model.ckpt-4"
resume 5 --output "$work/rewarmed" --resume_from_checkpoint "$work/originals/ckpt_5.pt" --rewarmup
expect_err "the schedule restarts after 5 updates"
# Without moments, bias correction starts again: the updates are those of a new run.
whole="$small --train_batch_size 8 --max_steps 9 --precision fp32 --logging_steps 1 --quiet
    --learning_rate 1e-3 --schedule constant --hidden_dropout_prob 0 --attention_probs_dropout_prob 0"
losses() { # FIRST, of three updates
    for step in $1 $(($1 + 1)) $(($1 + 2)); do
        sed -n "s/.*\"kind\":\"step\",\"step\":$step,.*\"loss\":\([0-9.]\{6\}\).*/\1/p" "$work/steps.json"
    done
}
run finetune squad --model "$work/run" --train "$work/data.json" --output "$work/new" $whole \
    --json_summary "$work/steps.json"
expect_code 0
losses 1 >"$work/new.losses"
mkdir "$work/again"
cp "$work"/originals/{ckpt_5.pt,config.json,vocab.txt} "$work/again"
rm "$work/steps.json"
run finetune squad --model "$work/run" --train "$work/data.json" --output "$work/again" $whole \
    --json_summary "$work/steps.json" --resume_from_checkpoint auto
expect_code 0
losses 6 >"$work/again.losses"
[ "$(wc -l <"$work/new.losses")" -eq 3 ] || fail "no losses"
cmp -s "$work/new.losses" "$work/again.losses" || fail "other updates: $(paste "$work"/*.losses)"

run finetune squad --model "$work/model" --train "$work/data.json" --output "$work/run" $small
expect_err "berth: error:"
[ "$code" -ne 0 ] || fail "a used output folder was taken"

checkpoint=$(ls -d "$work"/run/checkpoint-* | tail -n 1)
run verify "$checkpoint"
expect_code 0
expect_out intact
run verify "$checkpoint" --json
expect_code 0
grep -qE '^\{"path":"[^"]*checkpoint-[0-9]+","good":true,"files":[0-9]+\}$' "$out" || fail "verify --json"
# The folder of a stopped run has only checkpoints: messages name the newest.
mkdir "$work/stopped" "$work/stopped/checkpoint-9" "$work/stopped/checkpoint-10.abandoned"
cp -r "$checkpoint" "$work/stopped/checkpoint-10"
run verify "$work/stopped"
expect_code 65
expect_err "an incomplete copy of one; the newest checkpoint in it is checkpoint-10"
run answer --model "$work/stopped" --question "where?" --context "in oslo"
expect_code 66
expect_err "the folder is that of a run: use its newest checkpoint, checkpoint-10"
run answer --model "$work/stopped/checkpoint-10" --question "where?" --context "in oslo"
expect_code 0
printf x >>"$checkpoint/config.json"
run verify "$checkpoint"
expect_code 65
expect_err config.json
expect_empty "$out"
run verify "$checkpoint" --json
expect_code 65
grep -qE '^\{"path":"[^"]*checkpoint-[0-9]+","good":false,"reason":"[^"]*config\.json[^"]*"\}$' "$out" ||
    fail "verify --json of a damaged checkpoint"

run finetune squad --model "$work/model" --train "$work/data.json" --output "$work/deep" $small \
    --train_batch_size 4 --max_steps 3 --logging_steps 1 --log_format deepspeed
expect_code 0
expect_err '[Rank 0] step=1, skipped=0, lr=['
expect_err '[timer.py:198:stop] 0/3, RunningAvgSamplesPerSec='
expect_no "$err" ' 0/2, RunningAvg' # DeepSpeed's timer begins with the third

# dllogger's lines: every key of NVIDIA's fine-tuning, on the console and in the file.
run finetune squad --model "$work/model" --train "$work/data.json" --dev "$work/data.json" \
    --output "$work/dll" $small --train_batch_size 4 --max_steps 2 --logging_steps 1 \
    --log_format dllogger --json-summary "$work/dll.json"
expect_code 0
for key in Config SEED loading_checkpoint loaded_checkpoint model_weights_num train_start \
    training_samples training_features train_batch_size steps step_loss learning_rate infer_start \
    eval_samples eval_features predict_batch_size eval_start sample_number e2e_train_time \
    training_sequences_per_second final_loss e2e_inference_time exact_match F1; do
    grep -q "^DLLL {\"timestamp\":.*\"type\":\"LOG\".*\"$key\":" "$work/dll.json" || fail "no $key in dllogger's file"
done
grep -v '^DLLL {.*}$' "$work/dll.json" && fail "a line of another kind in dllogger's file"
grep -q '"type":"METADATA","metric":"e2e_train_time","metadata":{"unit":"s"}' "$work/dll.json" || fail "no unit"
expect_err ' - Training Epoch: 0 Training Iteration: 2  step_loss : '
expect_no "$err" "step 2/2"

# TensorBoard's files go where the DeepSpeed file says, unless the command line says otherwise.
cat >"$work/ds.json" <<END
{"train_batch_size": 4,
 "tensorboard": {"enabled": true, "output_path": "$work/scalars", "job_name": "squad"}}
END
for folder in "$work/scalars/squad" "$work/elsewhere"; do
    words=""
    [ "$folder" = "$work/scalars/squad" ] || words="--logging_dir $folder"
    run finetune squad --model "$work/model" --train "$work/data.json" --output "$work/deep" $small \
        --max_steps 1 --logging_steps 1 --overwrite_output_dir --deepspeed_config "$work/ds.json" $words
    expect_code 0
    [ "$(ls "$folder" | grep -c tfevents)" -eq 1 ] || fail "no scalars in $folder"
done
[ "$(ls "$work/scalars/squad" | wc -l)" -eq 1 ] || fail "scalars in both folders"

run predict squad --model "$work/run" --input "$work/data.json" --output "$work/answers" $small
expect_code 0
grep -q '"predict_f1": [0-9.]*,$' "$work/answers/predict_results.json" || fail "no scores in predict_results.json"
# Google's run_squad without training, in its own words.
own=$(tr ' ' '\n' <<<"$small" | paste -d= - - | tr '\n' ' ')
run as $own google/run_squad.py --do_train=false --do_predict=true --init_checkpoint "$work/run" \
    --bert_config_file "$work/run/config.json" --vocab_file "$work/run/vocab.txt" --train_file "$work/data.json" \
    --predict_file "$work/data.json" --output_dir "$work/untrained" --learning_rate 1e-5
expect_code 0
cmp -s "$work/untrained/predictions.json" "$work/answers/predictions.json" || fail "other answers without training"
[ ! -e "$work/untrained/model.safetensors" ] || fail "a model was written"
cmp -s "$work/run/predictions.json" "$work/answers/predictions.json" || fail "predictions differ"

# answer
context='Ada lived in Oslo. Hugo lived in Riga.'
run answer --model "$work/run" --question 'Where did Ada live?' --context "$context" $small \
    --null_score_diff_threshold 1
expect_err 'null_score_diff_threshold has no effect without version_2_with_negative'
expect_code 0
[ "$(tail -n 1 "$out")" = "$context" ] || fail "the context should come last, plain"
expect_no "$out" "$escape"
what="answer from standard input"
printf '%s\n' "$context" | "$BERTH" answer --model "$work/run" --question 'Where did Ada live?' \
    --top 3 --json $small >"$out" 2>"$err"
expect_out '"question":"Where did Ada live?"'
expect_out '"answers":[{"text":'
what="answer from 90 KB of standard input"
{ for _ in $(seq 3000); do printf 'Hugo lived in Riga, not there. '; done
    echo "$context"; } >"$work/long"
"$BERTH" answer --model "$work/run" --question 'Where did Ada live?' --json $small \
    <"$work/long" >"$out" 2>"$err"
code=$?
expect_code 0
"$BERTH" answer --model "$work/run" --question 'Where did Ada live?' --json $small \
    --context-file "$work/long" >"$work/from-file" 2>"$err"
cmp -s "$out" "$work/from-file" || fail "standard input and a file give different answers"
what="answer in colour"
FORCE_COLOR=1 "$BERTH" answer --model "$work/run" --question 'Where did Ada live?' \
    --context "$context" $small >"$out" 2>"$err"
expect_out "$escape[30;48;2;144;238;144m"
expect_out "$escape[0m"
plain=$(tail -n 1 "$out" | sed "s/$escape\[[0-9;]*m//g")
[ "$plain" = "$context" ] || fail "colours changed the text: $plain"
run answer --model "$work/run" --question 'Where did Ada live?' --context "$context" --quiet $small
[ "$(wc -l <"$out")" -eq 1 ] || fail "--quiet should print the answer only"
# Text that is not all UTF-8.
run answer --model "$work/run" --question 'Where did Ada live?' \
    --context "$(printf 'Ada \377lived in Oslo.')" $small
expect_code 0
grep -q 'the context contains ill-formed UTF-8 (first at byte 4)' "$err" || fail "not warned of"
run answer --model "$work/run" --question 'Where did Ada live?' --context "Ada lived in Århus." $small
! grep -q 'UTF-8' "$err" || fail "warned of good text"

# Samples after training, and the time in the result's name.
finetune="finetune squad --model $work/run --train $work/data.json --dev $work/data.json $small --max_steps 1
    --train_batch_size 4"
run show squad --model "$work/run" --input "$work/data.json" --start-sample 0 --num-test-samples 2 $small
expect_code 0
cp "$out" "$work/shown"
run $finetune --learning_rate 0 --output "$work/dated" --date_output --show_samples 2
expect_code 0
[ ! -e "$work/dated" ] || fail "no time in the name"
dated=$(echo "$work"/dated_20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]-[0-9][0-9][0-9][0-9][0-9][0-9])
[ -s "$dated/model.safetensors" ] || fail "no model with a time in its name"
expect_err "note: the model is $dated"
diff "$work/shown" "$out" || fail "not what \`berth show squad\` shows of an equal model"
run $finetune --learning_rate 0 --output "$work/drawn" --show_samples 2 --show_random --seed 3
expect_code 0
cp "$out" "$work/shown"
run show squad --model "$work/drawn" --input "$work/data.json" --random-samples 2 --seed 3 $small
diff "$work/shown" "$out" || fail "other samples than those of the seed"
run $finetune --output "$work/none" --date_output --show_samples 2 --dry-run --verbose
expect_code 0
[ ! -e "$work/none" ] && [ -z "$(ls -d "$work"/none_* 2>/dev/null)" ] || fail "a dry run wrote"

# show
run show squad --model "$work/run" --input "$work/data.json" --start-sample 2 \
    --num-test-samples 3 $small
expect_code 0
[ "$(grep -c '^❓' "$out")" -eq 3 ] || fail "three samples expected"
expect_out '❓ Who lived in Bern?'
expect_out '🤖 Ada lived in Oslo.'
expect_out '✅ Olga                           EM '
expect_out '3 samples'
expect_no "$out" "$escape"
COLUMNS=60 run show squad --model "$work/run" --input "$work/data.json" --num_test_samples 1 $small
rule=$(grep -m 1 '─' "$out" | sed 's/─/-/g')
[ "${#rule}" -eq 60 ] || fail "the rule is ${#rule} columns wide, not 60"
sed 's/Homes/東東東東東東東東東東/' "$work/data.json" >"$work/titled.json"
COLUMNS=80 run show squad --model "$work/run" --input "$work/titled.json" --num_test_samples 1 $small
expect_out ' · 東東東東東東東東 ─' # 26 bytes, whole characters
what="show on a terminal of 60 columns"
"$ON_TERMINAL" 60 "$BERTH" show squad --model "$work/run" --input "$work/data.json" \
    --num-test-samples 2 $small >"$out" 2>"$err"
expect_out "$escape[35m"
expect_out "$escape[30;48;2;144;238;144m"
sed "s/$escape\[[0-9;]*m//g; s/$(printf '\r')//" "$out" | grep -A 1 '^🤖' >"$work/wrapped"
[ "$(sed 's/🤖/--/' "$work/wrapped" | awk 'length($0) > 60' | wc -l)" -eq 0 ] || fail "not wrapped"
grep -q '^🤖 Ada lived in Oslo. Hugo lived in Riga. Olga lived in$' "$work/wrapped" || fail "wrapped?"
run show squad --model "$work/run" --input "$work/data.json" --start-sample 2 \
    --num-test-samples 3 $small --json
expect_code 0
[ "$(grep -cE '^\{"index":[234],"title":"Homes",.*"exact_match":[0-9.]+,"f1":[0-9.e-]+\}$' "$out")" -eq 3 ] ||
    fail "three objects expected, one a line"
expect_out '"question":"Who lived in Bern?"'

# A model without a span head: the head is newly initialised, with a warning.
cp -r "$work/model" "$work/headless"
LC_ALL=C sed -i 's/qa_outputs\./xx_outputs./g' "$work/headless/model.safetensors"
run finetune squad --model "$work/headless" --train "$work/data.json" --output "$work/head" $small \
    --train_batch_size 4 --max_steps 1 --verbose
expect_code 0
cat "$out" "$err" >"$work/said"
grep -q 'newly initialised, to be trained: qa_outputs.weight, qa_outputs.bias' "$work/said" ||
    fail "the missing head is not named"
grep -q 'left out, not part of a span model: xx_outputs.bias, xx_outputs.weight' "$work/said" ||
    fail "the unexpected tensors are not named"

# A long list ends at a name.
cp -r "$work/model" "$work/shallow"
sed -i 's/"num_hidden_layers": 2/"num_hidden_layers": 1/' "$work/shallow/config.json"
run answer --model "$work/shallow" --question 'Where did Ada live?' --context "$context" $small --verbose
expect_code 0
grep -qE 'left out, .*: (bert\.encoder\.layer\.1\.[A-Za-z.]+\.(weight|bias), )+\.\.\.$' "$err" || fail "not whole names"

# A model without the head of its task is refused; the error names the head and what trains it.
headless() { # COMMAND HEAD VERB ARGUMENT ...
    local verb=$1 head=$2 trained_by=$3
    shift 3
    run $verb --model "$work/headless" "$@"
    expect_code 78
    expect_empty "$out"
    expect_err "headless lacks $head"
    expect_err "train one with \`$trained_by\`"
}
headless answer "qa_outputs.weight, qa_outputs.bias, the head of a span model" "berth finetune squad" \
    --question 'Where did Ada live?' --context "$context" $small
headless "predict squad" "qa_outputs.weight" "berth finetune squad" --input "$work/data.json" --output "$work/none" $small
headless "predict squad" "qa_outputs.weight" "berth finetune squad" --input "$work/data.json" --output "$work/none" $small --dry_run --verbose
headless "show squad" "qa_outputs.weight" "berth finetune squad" --input "$work/data.json" $small
headless fill "cls.predictions.transform.dense.weight" "berth pretrain --objective mlm" --text '[MASK]'
run answer --model "$work/headless" --question 'Where did Ada live?' --context "$context" $small --allow_new_head
expect_code 0
expect_err "lacks qa_outputs.weight, qa_outputs.bias; random values are used instead"

# bench: one object on one line
for job in train predict; do
    run bench $job --config "$work/config.json" --data "$work/data.json" --vocab "$work/model/vocab.txt" \
        --max_seq_length 64 --update_tokens 128 --steps 2 --threads 1 --json --quiet
    expect_code 0
    [ "$(wc -l <"$out")" -eq 1 ] || fail "one line expected"
    for key in samples_per_second tokens_per_second model_gflops peak_gflops mfu plan_bytes \
        peak_rss_bytes; do
        expect_out "\"$key\":"
    done
done

# Forecasts: one object for each number of hosts and each rate. The measured times of one are replayed.
ranks="bench ranks --config $work/config.json --data $work/data.json --vocab $work/model/vocab.txt --max_seq_length 64
    --update_sequences 4 --steps 2 --threads 1 --quiet"
run $ranks --hosts 1,2 --link_gbit 0.001,10 --json
expect_code 0
[ "$(wc -l <"$out")" -eq 4 ] || fail "four lines expected"
for key in predicted_samples_per_second efficiency comm_exposed_seconds comm_bytes rank_plan_bytes host_plan_bytes; do
    [ "$(grep -c "\"$key\":" "$out")" -eq 4 ] || fail "no $key"
done
sed -n 's/.*"hosts":1,.*"comm_exposed_seconds":0,"comm_bytes":0,.*/none/p' "$out" | grep -q none ||
    fail "one rank exchanges"
sed -n 3p "$out" | grep -q '"hosts":2,.*"link_gbit":0.001,.*"comm_bytes":[1-9]' || fail "two hosts exchange nothing"
number() { sed -n "$1s/.*\"$2\":\([0-9.e+-]*\).*/\1/p" "$out"; }
[ "$(number 3 comm_bytes)" = "$(number 4 comm_bytes)" ] || fail "a rate changes bytes"
awk "BEGIN {exit !($(number 3 predicted_samples_per_second) < $(number 4 predicted_samples_per_second))}" ||
    fail "a faster link is no faster"
run $ranks --hosts 2 --link_gbit 1
expect_code 0
expect_out 'samples/s efficiency'
run bench ranks --config "$work/config.json" --data "$work/absent.json" --vocab "$work/model/vocab.txt" --hosts 2 --link_gbit 1
expect_code 66
expect_empty "$out"
run $ranks --hosts 1 --save_times "$work/times.json" --json
expect_code 0
run bench train --config "$work/config.json" --data "$work/data.json" --vocab "$work/model/vocab.txt" --max_seq_length 64 \
    --update_sequences 4 --steps 2 --threads 1 --json --quiet --replay_compute "$work/times.json"
expect_code 0
expect_out '"mfu":null'
sed 's/"seconds": [^,}]*/"seconds": 0.02/g' "$work/times.json" >"$work/slow.json"
run bench train --config "$work/config.json" --data "$work/data.json" --vocab "$work/model/vocab.txt" --max_seq_length 64 \
    --update_sequences 4 --steps 2 --threads 1 --json --quiet --replay_compute "$work/slow.json"
expect_code 0
moments=$(grep -o seconds "$work/slow.json" | wc -l)
awk "BEGIN {exit !($(number 1 seconds) >= 2 * $moments * 0.02)}" || fail "sleeps less than the times"
run $ranks --hosts 2 --save_times "$work/times.json"
expect_code 0
run bench train --config "$work/config.json" --data "$work/data.json" --vocab "$work/model/vocab.txt" \
    --replay_compute "$work/times.json"
expect_code 78
expect_err 'has times for 2 ranks'
sed 's/"event": "announces"/"event": "announced"/' "$work/times.json" >"$work/bad.json"
run bench train --config "$work/config.json" --data "$work/data.json" --vocab "$work/model/vocab.txt" \
    --replay_compute "$work/bad.json"
expect_code 65
expect_err 'moments: entry'
run bench peak --seconds 0.01 --steps 64 --no_exchange --json
expect_code 0
expect_err 'note: --steps has no effect in `berth bench peak`'
expect_err 'note: --no_exchange has no effect in `berth bench peak`'
expect_no "$err" '--seconds'
expect_no "$err" '--json'
expect_out '"fp32_gflops":'

# A model with fewer positions than the default length: reduced, with a note; if the length was given, an
# error.
make_model "$work/short" 40
brief="--model $work/short --threads 1 --max_query_length 16"
fitted() { # WORDS...
    run "$@"
    expect_code 0
    cat "$out" "$err" | grep -q "max_seq_length: 40 instead of 384" || fail "no note"
    run "$@" --max_seq_length 384
    expect_code 78
    expect_err "max_seq_length 384 exceeds the 40 positions of"
}
fitted finetune squad $brief --train "$work/data.json" --output "$work/short-run" --dry-run --verbose
fitted predict squad $brief --input "$work/data.json" --output "$work/short-answers" --force
fitted show squad $brief --input "$work/data.json" --num_test_samples 1
fitted answer $brief --question 'Where did Ada live?' --context 'Ada lived in Oslo.'
fitted features squad --model "$work/short" --max_query_length 16 --input "$work/data.json" --count
run features squad --model "$work/short" --max_query_length 16 --input "$work/data.json" --count
mv "$out" "$work/counts"
run features squad --vocab "$work/short/vocab.txt" --max_query_length 16 --max_seq_length 40 \
    --input "$work/data.json" --count
cmp -s "$out" "$work/counts" || fail "the windows of a short model differ from those of length 40"
run bench predict --config "$work/short/config.json" --data "$work/data.json" \
    --vocab "$work/short/vocab.txt" --max_query_length 16 --update_tokens 80 --steps 1 --threads 1
expect_code 0
expect_err "max_seq_length: 40 instead of 384"
run bench predict --config "$work/short/config.json" --data "$work/data.json" --json \
    --vocab "$work/short/vocab.txt" --max_query_length 16 --update_sequences 1 --steps 0 --threads 1 --verbose
expect_code 0
windows=$(sed -n 's/.* questions, \([0-9]*\) features.*/\1/p' "$err")
python3 - "$out" "$windows" <<'END' || fail "the batches of every sequence once"
import json, sys
figures = json.loads(open(sys.argv[1]).read().splitlines()[-1])
assert figures["steps"] == figures["sequences"] == int(sys.argv[2]) > 1, figures
assert 0 < figures["p50_seconds"] <= figures["p99_seconds"] <= figures["seconds"], figures
END
run bench train --config "$work/short/config.json" --data "$work/data.json" \
    --vocab "$work/short/vocab.txt" --max_query_length 16 --steps 0
expect_code 2

what="finetune on a terminal"
"$ON_TERMINAL" 60 "$BERTH" finetune squad --model "$work/model" --train "$work/data.json" \
    --output "$work/bar" $small --train_batch_size 4 --max_steps 4 >"$out" 2>"$err"
code=$?
expect_code 0
expect_out "train   0% ["

# Signals: each asks to save and stop, and has its exit code. A second Ctrl-C, which stops at once, damages no
# checkpoint.
saves="--save_steps 1000000"
stop_with() { # CODE SIGNALS...
    expected=$1
    shift
    what="finetune stopped by $*"
    rm -rf "$work/stop"
    : >"$err"
    "$BERTH" finetune squad --model "$work/model" --train "$work/data.json" --output "$work/stop" \
        $small --train_batch_size 4 --max_steps 1000000 --num_train_epochs 1000000 \
        $saves --logging_steps 1 >"$out" 2>"$err" &
    child=$!
    for _ in $(seq 300); do
        grep -q '^step 2' "$err" && break
        sleep 0.1
    done
    for signal in "$@"; do
        kill -"$signal" "$child" 2>/dev/null
        sleep 0.1 # of several that are pending the last is handled first
    done
    wait "$child"
    code=$?
    expect_code "$expected"
    [ "$saves" = --skip_checkpoint ] || expect_err "finishing this update and saving"
    for checkpoint in "$work"/stop/checkpoint-*; do
        [ -d "$checkpoint" ] || continue
        "$BERTH" verify "$checkpoint" >"$out" 2>>"$err" || fail "$checkpoint does not verify"
    done
}
# While data is read there is nothing to save, so the program ends at once. The shell waits for the program to open the
# pipe that it is given as its data.
for job in "finetune squad --train" "predict squad --predict_file"; do
    what="$job stopped while it reads"
    rm -rf "$work/stop" "$work/pipe"
    mkfifo "$work/pipe"
    "$BERTH" $job "$work/pipe" --model "$work/model" --output "$work/stop" $small >"$out" 2>"$err" &
    child=$!
    exec 9>"$work/pipe"
    kill -USR1 "$child"
    wait "$child"
    code=$?
    exec 9>&-
    expect_code 75
    expect_err "berth: stopped before any work was done"
    [ -e "$work/stop" ] && fail "an output folder"
done
expect_checkpoint() {
    [ -d "${checkpoint:-}" ] || fail "no checkpoint"
}
stop_with 143 TERM
expect_checkpoint
saves="--save_strategy no"
stop_with 143 TERM
expect_checkpoint
saves=--skip_checkpoint
stop_with 143 TERM
expect_err "stop requested: finishing this update; nothing is saved (skip_checkpoint)"
[ -d "$checkpoint" ] && fail "a checkpoint"
saves="--save_steps 1000000"
stop_with 75 USR1
expect_checkpoint
stop_with 129 HUP
expect_checkpoint
stop_with 152 XCPU
expect_checkpoint
trap '' HUP # as nohup has it
stop_with 143 HUP TERM
trap - HUP
expect_checkpoint
stop_with 130 INT
expect_checkpoint
run finetune squad --model "$work/model" --train "$work/data.json" --output "$work/stop" $small \
    --train_batch_size 4 --max_steps 1000000 --num_train_epochs 1000000 --dry-run --verbose \
    --resume_from_checkpoint auto
expect_code 0
stop_with 130 INT INT
finish
