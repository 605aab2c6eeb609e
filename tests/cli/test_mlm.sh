#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests berth pretrain --objective mlm, its evaluation and berth fill as their users run them: its command line and
# run_mlm's, help, tables of texts, files and standard input, several processes with the bytes of one.
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 1
make_model model 64
for line in $(seq 20); do
    echo "the cat sat on mat $line"
    echo
    echo "and then it ran to see who had come in from the rain, number $line"
done >text.txt
{ echo 'id,text'; sed -n 's/^\(.....*\)$/1,"\1"/p' text.txt; } >text.csv

run pretrain --objective mlm --model_name_or_path model --train_file text.txt --do_eval --output_dir out \
    --line_by_line --masked_lm_prob 0.2 --max_seq_length 48 --per_device_train_batch_size 4 \
    --validation_split_percentage 20 --num_train_epochs 2 --save_steps 5 --seed 3 --precision fp32 --json --verbose
expect_code 0
expect_err "text.txt: lines 1 to 12, 8 sequences"
expect_err "text.txt: lines 13 to 60, 32 sequences"
expect_out '"perplexity"'
what="files of a run"
for file in config.json model.safetensors vocab.txt eval_results.txt checkpoint-15/optimizer.safetensors; do
    [ -s "out/$file" ] || fail "$file is missing"
done
grep -q '^perplexity = ' out/eval_results.txt || fail "eval_results.txt"
head -n 12 text.txt >held-out.txt
# run_mlm's command line, whose batch and recipe are its own.
run as --precision=fp32 --verbose=true run_mlm.py --model_name_or_path model --train_file text.txt --do_train --do_eval --output_dir theirs \
    --line_by_line --pad_to_max_length --mlm_probability 0.2 --max_seq_length 48 --per_device_train_batch_size 4 \
    --validation_split_percentage 20 --preprocessing_num_workers 1 --overwrite_cache --num_train_epochs 2 \
    --save_steps 5 --seed 3
expect_code 0
expect_err "--pad_to_max_length is not needed: Berth does not pad"
expect_err "text.txt: lines 1 to 12, 8 sequences"
expect_err "text.txt: lines 13 to 60, 32 sequences"
run pretrain --objective mlm --model_name_or_path model --train_file text.txt --do_eval --output_dir mine \
    --recipe hugging-face --line_by_line --masked_lm_prob 0.2 --max_seq_length 48 --per_device_train_batch_size 4 \
    --validation_split_percentage 20 --num_train_epochs 2 --save_steps 5 --seed 3 --precision fp32
expect_code 0
cmp theirs/model.safetensors mine/model.safetensors || fail "another model"
# The command without the objective says which one takes text.
run pretrain --model_name_or_path model --train_file text.txt --output_dir none
expect_code 2
expect_err 'unknown option --train_file; `berth pretrain --objective mlm` has it'
run evaluate pretrain --objective mlm --model out --dev held-out.txt --line_by_line --masked_lm_prob 0.2 \
    --max_seq_length 48 --seed 3 --precision fp32 --output scored
expect_code 0
diff <(grep -v global_step out/eval_results.txt) scored/eval_results.txt ||
    fail "other scores than the run's own"
# A model that is sure of one word is right where that is the word.
cp -r out sure
set_number sure/model.safetensors cls.predictions.bias 100 $(($(grep -nxF the sure/vocab.txt | cut -d : -f 1) - 1))
for word in the in; do
    for line in $(seq 20); do
        echo "$word $word $word $word $word $word"
    done >$word.txt
    run evaluate pretrain --objective mlm --model sure --dev $word.txt --line_by_line --max_seq_length 48 --output "of-$word"
    expect_code 0
    awk -v word=$word '{ found[$1] = $3 } END {
        loss = found["eval_loss"] - (word == "in" ? 100 : 0)
        exit !(found["eval_accuracy"] == (word == "the") && loss^2 < 25)
    }' "of-$word/eval_results.txt" || fail "sure of \"the\", found \"$word\": $(cat "of-$word/eval_results.txt")"
done
run pretrain --objective=mlm --model model --train text.csv --output table --max_seq_length 16 --max_steps 1 --verbose
expect_code 0
expect_err "text.csv: lines 3 to 40"
[ "$(grep -c 'text.csv: text_column text, chosen by name; to choose another, set this option' "$err")" -eq 1 ] ||
    fail "the column is noted once"
# A FIFO can be read only once, so nothing can be held out of it.
short="--objective mlm --model model --max_seq_length 16 --max_steps 1"
run pretrain $short --train <(cat text.txt) --output piped
expect_code 2
expect_err "is a FIFO, which can be read only once"
run pretrain $short --train <(cat text.txt) --validation_file text.txt --output piped
expect_code 0
# Texts of a word have updates without a masked one: no loss of 0, and the means leave them out.
printf '%s\n' yes no the rain mat 3 >words.txt
few="--objective mlm --model model --train words.txt --line_by_line --validation_split_percentage 0 --masked_lm_prob 0.1
    --max_steps 24 --precision fp32 --save_strategy no --threads 1 --schedule constant"
for batches in "--train_batch_size 1" "--train_batch_size 2 --per_device_train_batch_size 1 --loss_average micro"; do
    rm -rf few
    run pretrain $few $batches --output few --logging_steps 1 --json
    expect_code 0
    expect_err "no loss: no word was to be predicted"
    expect_err "warning: "
    expect_err " of 24 updates had no word to predict, such as a masked one: they have no loss"
    python3 - "$err" "$out" few/trainer_state.json <<'END' || fail "losses of updates without a masked word"
import json, re, sys
found = re.search(r"(\d+) of 24 updates had no word", open(sys.argv[1]).read())
steps = [entry for entry in json.load(open(sys.argv[3]))["log_history"] if "learning_rate" in entry]
losses = [entry["loss"] for entry in steps if "loss" in entry]
assert len(steps) == 24 and len(losses) == 24 - int(found[1]) and 0 < len(losses) < 24
assert all(2 < loss < 20 for loss in losses), losses  # a model without knowledge of 128 words: about log 128
mean = json.load(open("few/train_results.json"))["train_loss"]
assert abs(mean - sum(losses) / len(losses)) < 1e-5, (mean, losses)
# The average rate is that of all updates from the third on.
records = [json.loads(line) for line in open("few/log.jsonl")]
rates = [(r["samples_per_second"], r["average_samples_per_second"]) for r in records if r["kind"] == "step"]
for n in range(3, 25):
    expected = (n - 2) / sum(1 / rate for rate, _ in rates[2:n])
    assert abs(rates[n - 1][1] / expected - 1) < 1e-5, (n, rates)
END
done
run pretrain $few --train_batch_size 1 --output few-reports --logging_steps 6
expect_code 0
! grep -E 'step .* loss [01]\.' "$err" || fail "a mean over updates without a masked word"
# A run in parts ends as one run. Each note stands once.
part="--model model --train text.txt --max_seq_length 16 --max_steps 3 --precision fp32 --threads 1"
run pretrain --objective mlm $part --output whole --phase1_end_step 3
expect_code 2
expect_err 'unknown option --phase1_end_step; `berth pretrain` has it'
run pretrain --objective mlm $part --output whole --text_column text
expect_code 0
[ "$(grep -c 'text_column has no effect: text.txt is not a table' "$err")" -eq 1 ] || fail "a note twice"
run pretrain --objective mlm $part --output parts --steps_this_run 2 --save_format tensorflow
expect_code 0
expect_err "steps_this_run ends this part of the run after update 2 of 3; the result is the model of this update"
[ -s parts/model.ckpt-2.index ] || fail "no result of the part as tensorflow"
[ -s parts/checkpoint-2/model.safetensors ] || fail "no checkpoint"
[ ! -e parts/checkpoint-3 ] || fail "more than two updates"
run pretrain --objective mlm $part --output parts --resume_from_checkpoint auto --save_format tensorflow
expect_code 0
expect_no "$err" "ends this part"
cmp whole/model.safetensors parts/model.safetensors || fail "other weights after a stop"
# TensorFlow's programs keep several checkpoints beside a file that names the newest.
[ "$(cd parts && echo *.index)" = "model.ckpt-2.index model.ckpt-3.index" ] || fail "not both results"
grep -q '^model_checkpoint_path: "model.ckpt-3"$' parts/checkpoint || fail "another is the newest"
# The default length is at most the model's.
run pretrain --objective mlm --model model --train text.txt --output short/ --max_steps 1 --dev text.txt
expect_code 0
grep -q '"text":"saved short/checkpoint-1"' short/log.jsonl || fail "the saving is not logged"
grep -q '"best_model_checkpoint": "short/checkpoint-1"' short/trainer_state.json || fail "another path of the checkpoint"
expect_err "max_seq_length: 64 instead of 512, the number of positions of model"
grep -q '"text":"Config".*"max_seq_length":"512"' short/log.jsonl || fail "another length is logged"
run evaluate pretrain --objective mlm --model short --dev text.txt --output short-scores
expect_code 0
expect_err "max_seq_length: 64 instead of 512, the number of positions of short"
run pretrain --objective mlm --model model --train text.txt --output refused --max_seq_length 65
expect_code 78
expect_err "max_seq_length 65 exceeds the 64 positions of"
run pretrain --objective nsp --model model
expect_code 2
expect_err "mlm+nsp"
echo '{"objective": "mlm", "output_dir": "file"}' >options.json
run pretrain options.json
expect_code 2
expect_err "give it on the command line, as --objective mlm"
for wrong in '"max_seq_length": 9007199254740993|found "9007199254740993"' \
    '"output_dir": "out\u0000x"|options.json: key "output_dir": the text contains a NUL character'; do
    echo "{\"model_name_or_path\": \"model\", ${wrong%|*}}" >options.json
    run pretrain options.json
    expect_err "${wrong#*|}"
done
run pretrain --objective mlm --help all
expect_code 0
expect_out "--validation_split_percentage"
expect_no "$out" "  --phase1_end_step"
run pretrain --help all
expect_no "$out" "  --line_by_line"
expect_out "--objective"

# Words for [MASK].
run fill --model out --top_k 2 --text "the [MASK] sat on mat"
expect_code 0
python3 - "$out" <<'END' || fail "words"
import json, sys
words = json.loads(open(sys.argv[1]).read())
assert len(words) == 2 and list(words[0]) == ["score", "token", "token_str", "sequence"], words
assert words[0]["score"] >= words[1]["score"] > 0, words
assert words[0]["sequence"].replace(" ##", "").endswith("sat on mat"), words
assert words[0]["token_str"] in words[0]["sequence"], words
END
# As transformers, the folder's tokenizer may clean the texts up.
run fill --model out --top_k 1 --text "the cat's [MASK]"
expect_out "\"the cat ' s"
cp out/tokenizer_config.json kept.json
sed -i 's/^{/{ "clean_up_tokenization_spaces": true,/' out/tokenizer_config.json
run fill --model out --top_k 1 --text "the cat's [MASK]"
expect_out "\"the cat's"
mv kept.json out/tokenizer_config.json
printf 'the [MASK] sat\n[MASK] and [MASK]\n' >masked.txt
"$BERTH" fill --model out masked.txt --quiet >from-file && "$BERTH" fill --model out --quiet <masked.txt >from-input
cmp from-file from-input || fail "file and standard input"
python3 - from-file <<'END' || fail "two masks"
import json, sys
one, two = map(json.loads, open(sys.argv[1]))
assert len(one) == 5 and isinstance(one[0], dict) and len(two) == 2 and len(two[1]) == 5, (one, two)
assert two[0][0]["sequence"].startswith("[CLS]"), two[0][0]
END
printf 'the [MASK]\nnothing\n' >masked.txt
run fill --model out masked.txt
expect_code 65
expect_err 'masked.txt: line 2: no [MASK] in "nothing"'
expect_empty "$out"
{ yes 'the [MASK]' | head -n 600; echo nothing; } >masked.txt # several rounds of texts
run fill --model out masked.txt --top 1
expect_code 65
expect_err 'masked.txt: line 601: no [MASK] in "nothing"'
run fill --model out --text "[MASK]" masked.txt
expect_code 2

# DeepSpeed's files repeat the words as the decoder. This is no loss where the decoder is the words.
run convert out repeated --to deepspeed
expect_code 0
run fill --model repeated --top_k 2 --text "the [MASK] sat on mat" --strict
expect_code 0
run convert repeated graph --to onnx
expect_code 0

# Several processes compute what one computes.
what="ranks"
if command -v mpirun.openmpi >/dev/null && ls "$(dirname "$BERTH")/berth-comm-openmpi.so" >/dev/null 2>&1; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    for ranks in 1 2; do
        ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 \
            mpirun.openmpi --oversubscribe --bind-to none -np $ranks "$BERTH" pretrain --objective mlm --model model \
            --train text.txt --output "ranks-$ranks" --line_by_line --max_seq_length 48 --train_batch_size 8 \
            --num_train_epochs 2 --virtual_ranks 2 --precision fp32 --threads 1 >"$out" 2>"$err" || fail "-np $ranks"
    done
    cmp ranks-1/model.safetensors ranks-2/model.safetensors || fail "other weights"
    cmp ranks-1/eval_results.txt ranks-2/eval_results.txt || fail "other scores"
else
    echo "several processes are not tested: no mpirun.openmpi, or no module for it"
fi
finish
