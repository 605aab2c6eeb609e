# SPDX-License-Identifier: Apache-2.0
# Tests what is compared with transformers' Trainer itself. Runs resume from its checkpoints
# (dev/fixtures/make_trainer.py): they end with the model of the Trainer's own run, say what they cannot restore,
# and leave the Trainer's files alone. The same updates are reported and evaluated (dev/goldens/trainer_reports.py).
. "$(dirname "$0")/lib.sh"
files=$(cd "$(dirname "$0")/data/trainer" && pwd)
cp -r "$files/checkpoint-3" "$work/checkpoint-3"
options="--learning_rate 1e-2 --weight_decay 0.1 --adam_beta2 0.99 --schedule linear --warmup_steps 2
    --num_train_epochs 6 --per_device_train_batch_size 6 --precision fp32 --logging_steps 1
    --save_total_limit 2"

resume() { # CHECKPOINT OUTPUT OPTIONS...
    local from=$1 output=$2
    shift 2
    run finetune classify --model "$work/checkpoint-3" --train "$files/train.tsv" $options \
        --resume_from_checkpoint "$from" --output "$output" "$@"
}
is_end() { # MODEL
    "$BERTH" compare "$1" "$files/end.safetensors" --tolerance 1e-6 >"$work/compared" 2>&1
}

# --- the same model at the end -------------------------------------------------------------------

resume "$work/checkpoint-3" "$work/whole"
expect_code 0
expect_err "resuming after update 3 with its weights and the optimizer's moments; not restored: the loss scale"
expect_no "$err" "the learning rate"
expect_no "$err" "resume: "
is_end "$work/whole" || fail "another model: $(tail -n 1 "$work/compared")"
"$BERTH" verify "$work/whole/checkpoint-6" >/dev/null || fail "no checkpoint of its own"
python3 - "$files/checkpoint-3/trainer_state.json" "$work/whole/trainer_state.json" <<'END' || fail "another log"
import json
import sys
before, after = (json.load(open(path)) for path in sys.argv[1:])
steps = [entry["step"] for entry in after["log_history"] if "loss" in entry]
sys.exit(after["log_history"][:3] != before["log_history"] or steps != list(range(1, 7))
         or after["total_flos"] <= before["total_flos"])
END

# Whatever the order of the weights in their file.
cp -r "$work/checkpoint-3" "$work/torch-3"
run convert "$work/checkpoint-3" "$work/torch" --to torch
mv "$work/torch/pytorch_model.bin" "$work/torch-3"
rm "$work/torch-3/model.safetensors"
resume "$work/torch-3" "$work/from-torch"
is_end "$work/from-torch" || fail "another model from pytorch_model.bin: $(tail -n 1 "$work/compared")"

# A norm of the gradient that is no number, as of an update that overflowed, is NaN in Python's JSON.
cp -r "$work/checkpoint-3" "$work/overflowed"
sed -i '0,/"grad_norm": [0-9.]*/s//"grad_norm": NaN/; s/"grad_norm": [0-9][0-9.]*/"grad_norm": Infinity/' \
    "$work/overflowed/trainer_state.json"
grep -q '"grad_norm": NaN' "$work/overflowed/trainer_state.json" || fail "no NaN to try"
mkdir "$work/theirs"
cp -r "$work/overflowed" "$work/theirs/checkpoint-3"
for from in "$work/overflowed $work/from-overflowed" "auto $work/theirs"; do
    resume $from
    expect_code 0
    is_end "${from#* }" || fail "another model in ${from#* }: $(tail -n 1 "$work/compared")"
    grep -q '"grad_norm": null' "${from#* }/trainer_state.json" || fail "the log lost the Trainer's entries"
done

# Two processes share the moments.
resume "$work/checkpoint-3" "$work/shared" --virtual_ranks 2
is_end "$work/shared" || fail "another model of two ranks: $(tail -n 1 "$work/compared")"

# --- what is missing or differs ------------------------------------------------------------------

cp -r "$work/checkpoint-3" "$work/no-moments"
rm "$work/no-moments/optimizer.pt"
resume "$work/no-moments" "$work/from-weights"
expect_code 0
expect_err "with its weights; not restored: the optimizer's moments, which it does not have; the loss scale"
! is_end "$work/from-weights" || fail "the moments made no difference"

cp -r "$work/checkpoint-3" "$work/best"
sed -i 's/"best_metric": null/"best_metric": 0.5/' "$work/best/trainer_state.json"
resume "$work/best" "$work/from-best"
expect_code 0
expect_err "$work/best: the best score so far is forgotten"

cp -r "$work/checkpoint-3" "$work/cut"
truncate -s 9000 "$work/cut/optimizer.pt"
resume "$work/cut" "$work/from-cut"
expect_code 65
expect_err "$work/cut/optimizer.pt: "
[ ! -e "$work/from-cut" ] || fail "a refused run left a folder"

resume "$work/checkpoint-3" "$work/faster" --learning_rate 2e-2 --weight_decay 0 --adam_beta2 0.9
expect_code 0
expect_err "the learning rate of update 4 was to be 0.0075 and is now 0.015; to continue as planned, give"
expect_err "resume: weight_decay was 0.1 and is now 0"
expect_err "resume: adam_beta2 was 0.99 and is now 0.9"
expect_no "$err" "adam_beta1"
expect_no "$err" "adam_epsilon"

resume "$work/checkpoint-3" "$work/smaller" --per_device_train_batch_size 3
expect_code 78
expect_err "after update 3 the run to resume was at epoch 3, and this one would be at epoch 1.5; resume with"

sed 's/good$/fine/' "$files/train.tsv" >"$work/other.tsv"
resume "$work/checkpoint-3" "$work/relabelled" --train "$work/other.tsv"
expect_code 78
expect_err "its classes are not those of $work/other.tsv; resume with the same labels"

printf 'a good\nfilm bad\n\n' >"$work/tags.txt"
run finetune tokens --model "$work/checkpoint-3" --train "$work/tags.txt" --output "$work/tokens" \
    --resume_from_checkpoint "$work/checkpoint-3" $options
expect_code 78
expect_err "$work/checkpoint-3 is a checkpoint of a BertForSequenceClassification; name a checkpoint of the same task"

cat >"$work/squad.json" <<'END'
{"data": [{"paragraphs": [{"context": "a good film", "qas": [{"id": "1", "question": "is a play good",
  "answers": [{"text": "good", "answer_start": 2}]}]}]}]}
END
run finetune squad --model "$work/checkpoint-3" --train "$work/squad.json" --output "$work/squad" \
    --resume_from_checkpoint "$work/checkpoint-3" $options --max_seq_length 16
expect_code 78
expect_err "expected the checkpoint of a span model, found no qa_outputs."

# Without its own tokenizer, the checkpoint takes the model's.
cp -r "$work/checkpoint-3" "$work/no-tokenizer"
rm "$work/no-tokenizer/tokenizer.json"
resume "$work/no-tokenizer" "$work/with-models"
expect_code 0
is_end "$work/with-models" || fail "another model with the model's tokenizer"

# --- in the Trainer's own folder -----------------------------------------------------------------

mkdir "$work/run"
cp -r "$work/checkpoint-3" "$work/run/checkpoint-3"
cp -r "$work/checkpoint-3" "$work/run/checkpoint-2"
sed -i 's/"global_step": 3/"global_step": 2/' "$work/run/checkpoint-2/trainer_state.json"
resume auto "$work/run" --save_steps 1 --save_total_limit 1
expect_code 0
expect_err "$work/run/checkpoint-3: resuming after update 3"
is_end "$work/run" || fail "another model in the Trainer's folder: $(tail -n 1 "$work/compared")"
[ "$(cd "$work/run" && echo checkpoint-*)" = "checkpoint-2 checkpoint-3 checkpoint-6" ] ||
    fail "other checkpoints: $(ls "$work/run")"
diff -r "$work/checkpoint-3" "$work/run/checkpoint-3" || fail "the Trainer's checkpoint has changed"

# Berth's own is newer now.
rm "$work/run/model.safetensors"
resume auto "$work/run"
expect_err "resumed from $work/run/checkpoint-6"

# Later checkpoints of the Trainer are set aside, not overwritten.
mkdir "$work/back"
for step in 3 4; do
    cp -r "$work/checkpoint-3" "$work/back/checkpoint-$step"
    sed -i "s/\"global_step\": 3/\"global_step\": $step/" "$work/back/checkpoint-$step/trainer_state.json"
done
resume "$work/back/checkpoint-3" "$work/back" --save_steps 1
expect_code 0
expect_err "$work/back/checkpoint-4 was renamed to $work/back/checkpoint-4.abandoned"
[ -e "$work/back/checkpoint-4.abandoned/optimizer.pt" ] || fail "the Trainer's checkpoint is gone"

# --- which updates are reported and evaluated ----------------------------------------------------

# As by the Trainer; with the default settings Berth evaluates after each epoch.
while IFS=: read -r settings expected; do
    rm -rf "$work/reports"
    # shellcheck disable=SC2086
    run finetune classify --model "$work/checkpoint-3" --train "$files/train.tsv" --dev "$files/train.tsv" \
        --output "$work/reports" --per_device_train_batch_size 2 --num_train_epochs 3 --save_strategy no $settings
    expect_code 0
    found=$(python3 - "$work/reports/trainer_state.json" <<'END'
import json
import sys
log = json.load(open(sys.argv[1]))["log_history"]
print("", *(",".join(str(entry["step"]) for entry in log if key in entry) for key in ("loss", "eval_accuracy")))
END
    )
    [ "$found" = "$expected" ] || fail "$settings: expected$expected, found$found"
done <<'END'
--eval_strategy no --logging_strategy no: 9 9
--logging_strategy epoch --eval_strategy epoch --eval_delay 2: 3,6,9 6,9
--logging_strategy epoch --logging_first_step true --eval_strategy steps --eval_steps 2 --eval_delay 6: 1,3,6,9 6,8,9
--logging_steps 4 --logging_first_step true --eval_strategy epoch --eval_delay 1.5 --eval_on_start true: 1,4,8,9 0,6,9
--logging_strategy no --logging_first_step true --eval_strategy steps --eval_steps 4 --eval_on_start true: 1,9 0,4,8,9
END

# The model as it begins is not the best, however good it is.
run finetune classify --model "$work/whole" --train "$files/train.tsv" --dev "$files/train.tsv" \
    --output "$work/started" --per_device_train_batch_size 2 --num_train_epochs 1 --learning_rate 0.3 \
    --eval_on_start --load_best_model_at_end --metric_for_best_model accuracy
expect_code 0
expect_no "$err" "saved $work/started/checkpoint-0"
grep -q '"best_global_step": 3' "$work/started/trainer_state.json" || fail "another best model"

run finetune classify --model "$work/checkpoint-3" --train "$files/train.tsv" --output "$work/noted" \
    --logging_strategy epoch --logging_steps 3 --eval_delay 1 --max_steps 1
expect_code 0
expect_err "logging_steps has no effect with logging_strategy epoch"
expect_err "eval_delay has no effect, because there is nothing to evaluate on"

# --- other architectures -------------------------------------------------------------------------

# Their modules register parameters in other orders, in which the optimizer numbers them, also in what Berth writes.
# ELECTRA's head has a weight whose gradient is near 0, so that its rounding is 1.5e-4 of an update of 1e-2.
for type in roberta xlm-roberta distilbert electra; do
    theirs=$files-$type/checkpoint-3
    run finetune classify --model "$theirs" --train "$files-$type/train.tsv" $options --resume_from_checkpoint "$theirs" \
        --output "$work/$type"
    expect_code 0
    expect_err "resuming after update 3 with its weights and the optimizer's moments; not restored: the loss scale"
    "$BERTH" compare "$work/$type" "$files-$type/end.safetensors" --tolerance 3e-6 >"$work/compared" 2>&1 ||
        fail "another $type at the end: $(tail -n 1 "$work/compared")"
    run convert "$work/$type/checkpoint-6" "$work/$type-6" --to trainer
    expect_code 0
    python3 - "$theirs/optimizer.pt" "$work/$type-6/optimizer.pt" <<'END' || fail "$type: moments in another order"
import sys
import zipfile


def sizes(path):
    """Of the moments, as the optimizer numbers them: only the counts of updates have one number."""
    file = zipfile.ZipFile(path)
    data = [(int(entry.filename.rpartition("/")[2]), entry.file_size) for entry in file.infolist() if "/data/" in entry.filename]
    return [size for _, size in sorted(data) if size > 4]


sys.exit(sizes(sys.argv[1]) != sizes(sys.argv[2]))
END
done
# Moments of other shapes are those of an unknown order.
cp -r "$files-electra/checkpoint-3" "$work/mixed"
cp "$files-distilbert/checkpoint-3/optimizer.pt" "$work/mixed"
run finetune classify --model "$work/mixed" --train "$files/train.tsv" $options --resume_from_checkpoint "$work/mixed" \
    --output "$work/unnumbered"
expect_code 0
expect_err "not restored: the optimizer's moments, because its parameters are numbered in an unknown way"

finish
