#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests berth pretrain as its users run it: other programs' command lines beside its own, recipes and what overrides
# them, the plan's numbers, two phases, resuming with a flag without a value, fine-tuning the result.
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 1
make_model model
words="the cat sat on a mat and then it ran to see who had come in from the rain"
for article in 1 2 3 4 5 6 7 8; do
    for sentence in 1 2 3 4 5 6; do
        echo "$words $article $sentence."
    done
    echo
done >text.txt
prepare() { # OUTPUT LENGTH
    run prepare --text text.txt --vocab model/vocab.txt --output "$1" --max_seq_length "$2" \
        --max_predictions_per_seq 4 --shards 2 --test_shards 1 --dupe_factor 2
    expect_code 0
}
prepare short 32
prepare long 64
short=$(dirname "$(find short -name '*training_0.hdf5')")
long=$(dirname "$(find long -name '*training_0.hdf5')")

first="--config_file=model/config.json --vocab_file model/vocab.txt --input_dir=$short
    --max_steps=6 --seed=42 --max_seq_length=32 --max_predictions_per_seq=4 --train_batch_size=8 --learning_rate=6e-3
    --warmup_proportion=0.2843 --gradient_accumulation_steps=2"
# shellcheck disable=SC2086
run pretrain $first --save_steps=3 --logging_steps=1 --output_dir phase1 --json_summary log.json --no_progress --json --verbose
expect_code 0
expect_err "masked_lm_loss"
expect_err "next_sentence_loss"
expect_err "data_wait_ms"
expect_out '"masked_lm_accuracy"'
expect_out '"next_sentence_accuracy"'
# The running mean of the loss starts with the first loss and has weight 0.2 for the previous mean.
awk -F'"' '/"kind":"step"/ {
    for (i = 2; i < NF; i += 2) {
        value[$i] = substr($(i + 1), 2) + 0
    }
    mean = seen++ ? 0.2 * mean + 0.8 * value["loss"] : value["loss"]
    apart += (mean - value["train_ema_loss"])^2 > 1e-10
} END { exit seen != 6 || apart }' log.json || fail "train_ema_loss"
what="files of a run"
for file in config.json model.safetensors vocab.txt eval_results.txt checkpoint-3/manifest.json \
    checkpoint-6/optimizer.safetensors; do
    [ -s "phase1/$file" ] || fail "$file is missing"
done
grep -q '^masked_lm_accuracy = ' phase1/eval_results.txt || fail "eval_results.txt"
# The command line of Habana, whose batch is that of a process and an update: the same model.
# shellcheck disable=SC2086
run as run_pretraining.py $first --do_train --bert_model=bert-large-uncased --output_dir theirs1 \
    --num_steps_per_checkpoint=3 --log_freq=1 --allreduce_post_accumulation --allreduce_post_accumulation_fp16 \
    --use_lazy_mode=True --use_habana --enable_packed_data_mode False --autocast --disable_progress_bar
expect_code 0
expect_err "--allreduce_post_accumulation is not needed: processes exchange gradients once an update"
# shellcheck disable=SC2086
run pretrain $first --save_steps=3 --logging_steps=1 --output_dir mine1 --precision bf16
expect_code 0
cmp mine1/model.safetensors theirs1/model.safetensors || fail "another model"
[ -s theirs1/checkpoint-3/manifest.json ] || fail "no checkpoint after three updates"

# The same scores from the written model; a model with just enough positions gives no message about lengths.
run evaluate pretrain --model phase1 --input_dir "$short" --max_eval_samples 10000 --output scored
expect_code 0
expect_no "$err" "max_seq_length"
expect_err "evaluate pretrain"
diff <(grep -v global_step phase1/eval_results.txt) scored/eval_results.txt ||
    fail "other scores than the run's own"
# A model that is sure of one answer for every pair is right where that is the pair's label; 1 is a random second part.
run inspect "$long/corpus_training_0.hdf5" --json
expect_code 0
share=$(sed 's/.*"instances":\([0-9]*\).*"random_next":\([0-9]*\).*/\2 \1/' "$out")
cp -r phase1 sure
for label in 0 1; do
    set_number sure/model.safetensors cls.seq_relationship.bias 100 $label
    set_number sure/model.safetensors cls.seq_relationship.bias -100 $((1 - label))
    run evaluate pretrain --model sure --eval_dir "$long/corpus_training_0.hdf5" --max_eval_samples 10000 \
        --output "sure-$label"
    expect_code 0
    awk -v counts="$share" -v label=$label '{ found[$1] = $3 } END {
        split(counts, of)
        right = (label ? of[1] : of[2] - of[1]) / of[2]
        accuracy = found["next_sentence_accuracy"] - right
        loss = found["next_sentence_loss"] - 200 * (1 - right)
        exit !(of[1] > 0 && of[1] < of[2] && accuracy^2 < 1e-12 && loss^2 < 4)
    }' "sure-$label/eval_results.txt" || fail "next sentences, $share: $(cat "sure-$label/eval_results.txt")"
done
run evaluate pretrain --model phase1 --output none
expect_code 2
expect_err "missing option eval_dir"
run evaluate pretrain --model phase1 --input_dir "$short/corpus_training_0.hdf5" --output none
expect_code 66
expect_err "name held-out shards with eval_dir"
# Files to evaluate on, a pattern, or a folder, of which it is the held-out part.
run evaluate pretrain --model phase1 --config_file model/config.json --eval_dir "$short/corpus_test_?.hdf5" \
    --max_eval_samples 10000 --output by_pattern
expect_code 0
diff scored/eval_results.txt by_pattern/eval_results.txt || fail "other scores of a pattern"
# Google's run_pretraining without training, in its own words: 100 batches of 8 sequences at most. Its GELU is the
# tanh form, the model's is not.
for files in "$short/corpus_test_0.hdf5" "$short/corpus_test_?.hdf5" "$short"; do
    run as --max_eval_samples=10000 --gelu=erf google/run_pretraining.py --do_train=False --do_eval=True \
        --bert_config_file model/config.json --init_checkpoint phase1 --input_file "$files" --train_batch_size 8 \
        --output_dir google_scored
    expect_code 0
    diff scored/eval_results.txt google_scored/eval_results.txt || fail "other scores of --input_file $files"
    rm -r google_scored
done
# Its --input_file names what is evaluated, too, also with training.
google="google/run_pretraining.py --do_train=True --bert_config_file model/config.json --max_seq_length 32
    --max_predictions_per_seq 4"
# shellcheck disable=SC2086
run as --vocab_file=model/vocab.txt $google --do_eval=True --input_file "$short/corpus_training_0.hdf5" \
    --num_train_steps 1 --train_batch_size 4 --max_eval_steps 1 --output_dir trained_and_scored
expect_code 0
grep -q "^masked_lm_accuracy = " trained_and_scored/eval_results.txt || fail "nothing was evaluated"
run pretrain --do_train False --model phase1 --input_dir "$short" --output none
expect_code 2
expect_err "unknown option --do_train"

# Google's program has Google's optimizer and schedule, unless others are named; NVIDIA's has others.
google="$google --output_dir none --input_file $short --num_train_steps 20 --num_warmup_steps 10"
# shellcheck disable=SC2086
run as --vocab_file=model/vocab.txt --dry-run --verbose $google
expect_code 0
for line in 'optimizer *adam_weight_decay' 'schedule *google' 'warmup_steps *10$' 'total_steps *20$' \
    'train_batch_size *32$' 'learning_rate *5e-05'; do
    grep -qE "$line" "$out" || fail "no \"$line\" in the plan"
done
# shellcheck disable=SC2086
run as --vocab_file=model/vocab.txt --dry-run --verbose --optimizer=lamb --schedule=poly $google
grep -qE 'optimizer *lamb$' "$out" && grep -qE 'schedule *poly$' "$out" || fail "the named optimizer lost"
run pretrain --config_file model/config.json --vocab_file model/vocab.txt --input_dir "$short" --output none --dry-run --verbose \
    --phase1_end_step 3 --do_eval --steps_this_run 0
grep -qE 'optimizer *nvlamb$' "$out" || fail "not NVIDIA's optimizer"
expect_out "phase1_end_step has no effect without phase2"
expect_out "steps_this_run 0 has no effect: the run stops at max_steps"
run pretrain --config_file model/config.json --vocab_file model/vocab.txt --input_dir "$short/corpus_training_0.hdf5" \
    --output none --dry-run --verbose --do_eval=True
expect_out 'do_eval has no effect, because there is nothing to evaluate on: no file of input_dir has "test" in its name'
run pretrain --config_file model/config.json --vocab_file model/vocab.txt --input_dir "$short" --output none --dry-run --verbose \
    --do_eval False --eval_steps 1 --max_steps -1
expect_out 'eval_steps has no effect, because there is nothing to evaluate on: do_eval is false'
expect_out 'max_steps -1 sets no limit: num_train_epochs is 2; max_steps N stops after N updates'

# A built-in geometry; the vocabulary decides its own size.
run pretrain --config tiny --vocab_file model/vocab.txt --input_dir "$short" --output none --dry-run --verbose
expect_code 0
grep -qE "^ *hidden_size +128\$" "$out" && grep -qE "^ *vocab_size +$(wc -l <model/vocab.txt)\$" "$out" ||
    fail "not the geometry tiny with this vocabulary"

# DeepSpeed's lines.
run pretrain --config_file model/config.json --vocab_file model/vocab.txt --input_dir "$short" \
    --output lines --max_steps 2 --train_batch_size 8 --log_format deepspeed-bert
expect_code 0
expect_no "$err" "skipped=0, lr=[" # of the engine, which has no file
grep -q '^bing_bert_progress: step=2, loss=[0-9.]*, lr=[0-9.e-]*, sample_count=16$' "$err" ||
    fail "no line of progress"
grep -q '^ At step 2, the throughput is [0-9.]* Samples/s$' "$err" || fail "no throughput"

# TFRecord instead of HDF5, named by a pattern: the same sequences, so the same model.
run prepare --text text.txt --vocab model/vocab.txt --output records --max_seq_length 32 \
    --max_predictions_per_seq 4 --shards 2 --test_shards 1 --dupe_factor 2 --format tfrecord
expect_code 0
records=$(dirname "$(find records -name '*training_0.tfrecord')")
same="--config_file model/config.json --vocab_file model/vocab.txt --max_steps 4
    --train_batch_size 8 --max_seq_length 32 --max_predictions_per_seq 4"
# shellcheck disable=SC2086
run pretrain $same --input_dir "$short" --eval_dir "$short/corpus_test_0.hdf5" --output from_hdf5
expect_code 0
# shellcheck disable=SC2086
run pretrain $same --input_dir "$records/*_training_*" --eval_dir "$records/corpus_test_0.tfrecord" \
    --output_dir from_records
expect_code 0
cmp from_hdf5/model.safetensors from_records/model.safetensors || fail "another model"
cmp from_hdf5/eval_results.txt from_records/eval_results.txt || fail "another evaluation"

# dllogger's keys of pre-training.
run pretrain --config_file model/config.json --vocab_file model/vocab.txt --input_dir "$short" \
    --output dll --max_steps 2 --train_batch_size 8 --max_seq_length 32 --logging_steps 1 --log_format dllogger \
    --json-summary dll.json
expect_code 0
for key in Config SEED train_start batch_size_per_pu learning_rate average_loss step_loss \
    average_training_time_step average_perf_per_step final_loss checkpoint_step e2e_train_time \
    training_sequences_per_second raw_train_time; do
    grep -q "^DLLL {.*\"type\":\"LOG\".*\"$key\":" dll.json || fail "no $key in dllogger's file"
done
[ "$(grep -c '^DLLL {.*"type":"LOG".*"final_loss":' dll.json)" -eq 2 ] || fail "final_loss: the last update's and the summary's"

# A recipe's values, and what overrides them.
run pretrain --recipe nvidia-phase1 --config_file model/config.json --vocab_file model/vocab.txt \
    --input_dir "$short" --output none --learning_rate 1e-3 --dry-run --verbose
expect_code 0
for line in 'train_batch_size *65,536' 'total_steps *7,038' 'learning_rate *0.001' \
    'warmup_steps *2,000' 'checkpoint_every_steps *200' 'optimizer *nvlamb' 'schedule *poly' \
    'train_batch_size_means *sequences of one update'; do
    grep -qE "$line" "$out" || fail "no \"$line\" in the plan"
done
[ ! -e none ] || fail "a dry run made its folder"
run pretrain --recipe nvidia-phase1 --model phase1 --input_dir "$short" --output none --dry-run --verbose \
    --num_train_epochs 2 --per_device_train_batch_size 2 --gradient_accumulation_steps 1 \
    --skip_checkpoint
expect_code 0
for line in 'train_batch_size *2$' 'epochs *2$' 'checkpoint_every_steps *0' 'checkpoints_kept *0'; do
    grep -qE "$line" "$out" || fail "no \"$line\" in the plan"
done
run pretrain --recipe google --model phase1 --input_dir "$short" --output none --dry-run --verbose \
    --max_steps 40 --warmup_proportion 0.5
expect_code 0
grep -qE 'warmup_steps *20$' "$out" || fail "another warm-up than was asked for"
for recipe in bing-128 bing-512 bing-bert google; do
    run pretrain --recipe $recipe --model phase1 --input_dir "$short" --output none --dry-run --verbose
    expect_code 0
done
run pretrain --recipe nvidia --model phase1 --input_dir "$short" --output none
expect_code 2
expect_err "nvidia-phase1, nvidia-phase2, bing-128, bing-512, bing-bert, google"

# The second phase in the same folder, stopped in the middle, then once more by the flag alone.
second="--config_file model/config.json --vocab_file model/vocab.txt --input_dir $long
    --output_dir phase1 --max_steps 4 --train_batch_size 8 --phase2 --phase1_end_step 6 --no_progress"
# shellcheck disable=SC2086
run pretrain $second --resume_from_checkpoint --steps_this_run 1
expect_code 0
expect_err "second phase, after 6 updates of the first"
# shellcheck disable=SC2086
run pretrain --resume_from_checkpoint $second
expect_code 0
expect_err "resumed from phase1/checkpoint-7"
expect_err "step 10/10"

# In a file of options, true and false as transformers' TrainingArguments have them.
mkdir flag
echo '{"resume_from_checkpoint": true, "train_file": "text.txt", "output_dir": "flag", "model_name_or_path": "model",
  "max_seq_length": 32, "max_steps": 1, "do_train": true}' >flag.json
run as --dry_run --verbose run_mlm.py flag.json
expect_code 0
expect_out "no checkpoint in flag: starting from the beginning"
sed -i 's/"resume_from_checkpoint": true/"resume_from_checkpoint": false/' flag.json
run as --dry_run --verbose run_mlm.py flag.json
expect_code 0
expect_no "$out" "no checkpoint in flag"

# With its own folder: "auto,DIR" is DIR as long as the folder has no checkpoint, also after a run that was killed before its
# first one. A folder with another run's model is left alone.
own="$second --output_dir second --resume_from_checkpoint auto,phase1/checkpoint-6"
mkdir second
cp model/vocab.txt second
run pretrain ${own/auto,*/auto} --steps_this_run 1
expect_code 78
expect_err "or auto,DIR to continue the second phase if it has a checkpoint"
run pretrain ${own/auto,*/auto,} --steps_this_run 1
expect_code 2
expect_err "resume_from_checkpoint auto, names no checkpoint"
run pretrain $own --steps_this_run 1
expect_code 0
expect_err "no checkpoint in second: starting from phase1/checkpoint-6"
expect_err "second phase, after 6 updates of the first"
rm second/model.safetensors
run pretrain ${own/auto,/}
expect_code 73
expect_err "output_dir second has a model or checkpoints, and phase1/checkpoint-6 is not among them"
run pretrain $own
expect_code 0
expect_err "resumed from second/checkpoint-7"
expect_err "step 10/10"
cmp phase1/model.safetensors second/model.safetensors || fail "another second phase"
from="$second --output_dir second --dry-run --verbose --resume_from_checkpoint"
ln -s second/checkpoint-7 entrance
run pretrain $from entrance
expect_code 0
mkdir away
mv second/checkpoint-7 away
ln -s ../away/checkpoint-7 second/checkpoint-7
run pretrain $from second/checkpoint-7
expect_code 0
rm -r second/checkpoint-*
for from in phase1/checkpoint-6 auto,phase1/checkpoint-6; do
    run pretrain $second --output_dir second --resume_from_checkpoint $from
    expect_code 73
    expect_err "output_dir second has a model or checkpoints, and phase1/checkpoint-6 is not among them"
done
run pretrain $second --output_dir second --resume_from_checkpoint phase1/checkpoint-6 --overwrite_output_dir
expect_code 0

# Shards and checkpoints of another vocabulary of the same size; the form of the file does not count.
sed -e 's/^the$/held/; s/^who$/the/; s/^held$/who/' model/vocab.txt >other.txt
cmp -s model/vocab.txt other.txt && fail "the vocabulary lacks the words that are exchanged"
sed 's/$/\r/' model/vocab.txt >crlf.txt
make_shards() { # OUTPUT VOCABULARY
    run prepare --text text.txt --vocab "$2" --output "$1" --max_seq_length 32 --max_predictions_per_seq 4 --shards 2 \
        --test_shards 1 --dupe_factor 2
    expect_code 0
}
make_shards exchanged other.txt
make_shards formed crlf.txt
exchanged=$(dirname "$(find exchanged -name '*training_0.hdf5')")
formed=$(dirname "$(find formed -name '*training_0.hdf5')")
new="--config_file model/config.json --max_steps 2 --train_batch_size 8 --output none --dry-run --verbose"
run pretrain $new --vocab_file model/vocab.txt --input_dir "$exchanged"
expect_code 78
expect_err "instances.json: these shards were made with another vocabulary than model/vocab.txt"
run pretrain $new --vocab_file model/vocab.txt --input_dir "$formed"
expect_code 0
run pretrain $new --vocab_file crlf.txt --input_dir "$short"
expect_code 0
run pretrain $new --vocab_file model/vocab.txt --input_dir "$formed,$exchanged"
expect_code 78
expect_err "$exchanged/instances.json: these shards were made with another vocabulary than model/vocab.txt"
# A run has 1000 updates unless max_steps or else num_train_epochs says otherwise.
updates_of() { # WORDS...: of the plan
    run pretrain --config_file model/config.json --vocab_file model/vocab.txt --input_dir "$short" --train_batch_size 8 \
        --output none --dry-run --verbose --json_summary plan.json "$@"
    expect_code 0
    sed -n 's/.*"total_steps":\([0-9]*\),"epochs":\([0-9]*\)[,}].*/\1 \2/p; s/.*"total_steps":\([0-9]*\),"epochs".*/\1/p' plan.json
}
[ "$(updates_of)" = 1000 ] || fail "updates by default: $(updates_of)"
[[ $(updates_of --num_train_epochs 2) == *" 2" ]] || fail "updates of two epochs: $(updates_of --num_train_epochs 2)"
[ "$(updates_of --num_train_epochs 2 --max_steps 7)" = 7 ] || fail "max_steps besides num_train_epochs"
run evaluate pretrain --model phase1 --eval_dir "$exchanged" --output none
expect_code 78
expect_err "these shards were made with another vocabulary than phase1/vocab.txt"
run pretrain --vocab_file other.txt --input_dir "$exchanged" --max_steps 2 --train_batch_size 8 --phase2 --output none \
    --resume_from_checkpoint phase1/checkpoint-6
expect_code 78
expect_err "other.txt has other words than phase1/checkpoint-6/vocab.txt, the vocabulary of the checkpoint"
# Packing hands it on.
run pack "$exchanged" packed
expect_code 0
run pretrain $new --vocab_file model/vocab.txt --input_dir packed
expect_code 78
expect_err "packed_pack.json: these shards were made with another vocabulary than model/vocab.txt"
# Nothing is known of shards without a manifest.
rm "$exchanged/instances.json"
run pretrain $new --vocab_file model/vocab.txt --input_dir "$exchanged"
expect_code 0

# Data that was not made to its end.
python3 - "$formed/instances.json" <<'END'
import json, sys
manifest = json.load(open(sys.argv[1]))
manifest["complete"] = False
del manifest["files"]["corpus_training_1.hdf5"]
json.dump(manifest, open(sys.argv[1], "w"))
END
run pretrain $new --vocab_file model/vocab.txt --input_dir "$formed"
expect_code 0
expect_out "instances.json: only 2 of 3 shards were made; repeat the command that makes them, which continues"
run inspect "$formed"
expect_code 0
expect_err "instances.json: only 2 of 3 shards were made"
run evaluate pretrain --model phase1 --eval_dir "$formed" --output scores
expect_code 0
expect_no "$out" "shards were made"
expect_no "$err" "shards were made"
run inspect "$short"
expect_empty "$err"
run pack "$formed" packed-part
expect_code 0
expect_err "instances.json: only 2 of 3 shards were made"

# After another program's checkpoint of an earlier update than the first phase's end.
run convert phase1 theirs --to nvidia
expect_code 0
mv theirs/*.pt theirs/ckpt_6.pt
# shellcheck disable=SC2086
run pretrain $second --output_dir third --phase1_end_step 7 --resume_from_checkpoint theirs/ckpt_6.pt
expect_code 78
expect_err "ckpt_6.pt: its step 6 is before phase1_end_step 7; omit phase2, or name a later checkpoint"

run finetune squad --model phase1 --train "$work/none.json" --output tuned
expect_code 66
make_dataset squad.json
run finetune squad --model phase1 --train squad.json --output tuned --max_steps 1 --quiet
expect_code 0

# Impossible requests.
run pretrain --input_dir "$short" --output none
expect_code 2
expect_err "model_name_or_path is missing, or config_file for random weights"
run pretrain --input_dir model --config_file model/config.json --output none
expect_code 66
expect_err "no shards found"
run pretrain --input_dir short --config_file model/config.json --output none
expect_code 66
expect_err "writes them; use $short"
run pretrain --input_dir "$short" --config_file huge --output none
expect_code 2
expect_err 'no built-in model shape "huge"'
run pretrain --input_dir "$long" --config_file model/config.json --max_seq_length 32 --output none
expect_code 65
expect_err "rows have 64 tokens; the maximum requested is 32"

# The commands of the document, with fewer and smaller updates.
mkdir -p document/squad
sed -E 's/checkpoint-100/checkpoint-2/; s/--max_steps [0-9]+/--max_steps 2/; s/--train_batch_size [0-9]+/--train_batch_size 4/' \
    "$documents/pretraining.md" >pretraining.md
cd document || exit 1
make_dump | python3 -c 'import bz2, sys; sys.stdout.buffer.write(bz2.compress(sys.stdin.buffer.read()))' \
    >enwiki-sample.xml.bz2
make_dataset squad/train-v1.1.json
cp squad/train-v1.1.json squad/dev-v1.1.json
run_commands_of ../pretraining.md 8
expect_err "masked_lm_accuracy"
[ -s squad-own/predictions.json ] || fail "no predictions"
finish
