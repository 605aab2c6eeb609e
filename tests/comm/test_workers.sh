#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Independent workers: each gives the bytes of an ordinary run of one process with its seed, and the files of the best one
# become the result. They stop together; one that fails does not disturb the others; resuming trains what is missing. Also
# --lr_scaling, which gives the bytes of a run with the scaled rate. The MPIs take turns.
. "$(dirname "$0")/../cli/lib.sh"
. "$(dirname "$0")/launch.sh"

mpis=($(find_mpis))
[ ${#mpis[@]} -gt 0 ] || { echo "skipped: no mpirun or mpiexec of an MPI that a module was built for"; exit 77; }
cd "$work" || exit 1
make_model model
make_questions data.json 40
python3 - <<'END'
import random
random.seed(3)
word = lambda: "".join(random.choice("abcdefgh") for _ in range(random.randint(1, 9)))
text = lambda: " ".join(word() for _ in range(random.randint(1, 25)))
with open("table.csv", "w") as table:
    table.write("text,label\n")
    for _ in range(60):
        table.write(f"{text()},{random.choice(['good', 'bad'])}\n")
with open("pairs.csv", "w") as pairs:
    pairs.write("one,other,score\n")
    pairs.writelines(f"{text()},{text()},{i % 6 / 5}\n" for i in range(60))
with open("articles", "w") as articles:
    articles.writelines("\n".join(f"{text()}." for _ in range(6)) + "\n\n" for _ in range(40))
END
turn=0
several() { # COUNT WORDS...
    launch "${mpis[turn++ % ${#mpis[@]}]}" "$@"
}
common="--max_seq_length 48 --train_batch_size 8 --max_steps 6 --logging_steps 1 --save_steps 3 --threads 1
        --precision fp32"
unrated="finetune squad --model model --train data.json --dev data.json --doc_stride 16 --max_query_length 16 $common"
questions="$unrated --learning_rate 1e-2"

# --- bytes, choice, table ------------------------------------------------------------------------

same_files() { # FOLDER FOLDER FILES...
    local one=$1 other=$2
    shift 2
    for file in "$@"; do
        [ -s "$one/$file" ] && cmp -s "$one/$file" "$other/$file" || fail "$file of $one and $other differ"
    done
}
# Checks that the table of OUTPUT agrees with the results of ordinary runs with the seeds SEED, SEED + 1, ..., and prints
# the number of the best one, which it computes itself.
best_of() { # OUTPUT SCORE least|most SEED ORDINARY-RUNS...
    python3 - "$@" <<'END'
import json, socket, sys
output, score, kind, seed, *runs = sys.argv[1:]
found = [json.load(open(run + "/all_results.json")) for run in runs]
values = [each["eval_" + score] for each in found]
best = values.index((min if kind == "least" else max)(values))
table = json.load(open(output + "/workers.json"))
assert table["metric"] == score and table["best_worker"] == best, f"{table}, not {values}"
assert len(table["workers"]) == len(runs)
for i, row in enumerate(table["workers"]):
    assert (row["worker"], row["seed"], row["folder"]) == (i, int(seed) + i, f"worker-{i}"), row
    assert (row["host"], row["state"], row["error"]) == (socket.gethostname(), "finished", None), row
    for key, value in found[i].items():
        if key.startswith("eval_") and key not in ("eval_runtime", "eval_samples", "eval_samples_per_second"):
            assert row[key if key == "eval_loss" else key[len("eval_"):]] == value, (row, key, value)
print(best)
END
}
check_workers() { # NAME COUNT SCORE least|most FILES
    local name=$1 count=$2 runs=()
    for ((i = 0; i < count; i++)); do
        runs+=("$name-$((5 + i))")
        same_files "$name/worker-$i" "$name-$((5 + i))" checkpoint-6/optimizer.safetensors $5
    done
    best=$(best_of "$name" "$3" "$4" 5 "${runs[@]}") || fail "another table"
    same_files "$name" "$name-$((5 + best))" $5
    [ ! -e "$name/.lock" ] && [ -z "$(find "$name" -name '*tmp*')" ] || fail "files are left in $name"
}
# Ordinary runs, then as many workers.
compare() { # NAME COUNT SCORE least|most FILES -- WORDS...
    local name=$1 count=$2 score=$3 kind=$4 files=$5
    shift 6
    for ((i = 0; i < count; i++)); do
        run "$@" --output "$name-$((5 + i))" --seed $((5 + i))
        expect_code 0
    done
    several "$count" "$@" --output "$name" --seed 5 --workers independent --json --json_summary "$name.jsonl"
    expect_code 0
    check_workers "$name" "$count" "$score" "$kind" "$files"
}

# The settings from which each worker derives its own must agree.
unlike "${mpis[0]}" $questions --output none --seed 5 --workers independent -- --seed 6
expect_code 78
once "seed is 6, but 5 on rank 0"
unlike "${mpis[0]}" $questions --output none --workers independent -- --workers synchronous
expect_code 78
once "workers is synchronous, but independent on rank 0"

compare squad 3 f1 most "model.safetensors predictions.json config.json vocab.txt" -- $questions
[ "$best" -gt 0 ] || fail "the first of them is the best: choose other seeds"
grep -qF "\"workers\":3,\"best_worker\":$best,\"best_seed\":$((5 + best))}" "$out" || fail "another result"
once "3 independent workers: worker R trains its own model with seed 5 + R in squad/worker-R"
[ "$(grep -cE "^$best +$(hostname) +$((5 + best)) +6 .* worker-$best +best\$" "$err")" -eq 1 ] || fail "no line of the best"
[ "$(grep -cE '^[0-2] .* worker-[0-2] +finished$' "$err")" -eq 2 ] || fail "no lines of the others"
python3 - squad.jsonl $best <<'END' || fail "other records"
import json, sys
records = [json.loads(line) for line in open(sys.argv[1])]
rows = [each for each in records if "worker" in each]
assert [each["seed"] for each in rows] == [5, 6, 7] and all("f1" in each for each in rows), rows
last = [each for each in records if each["kind"] == "summary"][-1]
best = int(sys.argv[2])
assert last["kind"] == "summary" and last["best_worker"] == best and last["f1"] == rows[best]["f1"], last
END
table="finetune classify --model model --train table.csv --dev table.csv --text-column text --label-column label $common
       --learning_rate 1e-2"
compare classes 2 loss least "model.safetensors eval_results.txt" -- $table --metric_for_best_model loss
run prepare --text articles --vocab model/vocab.txt --output shards --max_seq_length 32 --max_predictions_per_seq 4 \
    --shards 2 --test_shards 1 --dupe_factor 2
expect_code 0
shards=$(dirname "$(find shards -name '*training_0.hdf5')")
compare pretrained 2 masked_lm_loss least "model.safetensors eval_results.txt" -- \
    pretrain --config_file config.json --vocab_file model/vocab.txt --input_dir "$shards" --eval_dir "$shards" --do_eval \
    $common --learning_rate 1e-2 --max_seq_length 32

# Also the folders of the modules that make vectors, in place of an older result's; a checkpoint is none of the files.
mkdir -p vectors/1_Pooling
echo '{"pooling_mode_cls_token": true}' >vectors/1_Pooling/config.json
several 2 finetune embed --model model --train pairs.csv --dev pairs.csv $common --output vectors --seed 5 --workers independent \
    --overwrite_output_dir --save_format nvidia --save_steps 4
expect_code 0
same_files vectors vectors/worker-0 1_Pooling/config.json modules.json
[ -s vectors/worker-0/ckpt_4.pt ] && [ ! -e vectors/ckpt_4.pt ] || fail "a checkpoint is a result"
run embed --model vectors --threads 1 articles
expect_code 0

# Of equal workers the first one is chosen; the prediction is that of the published model.
several 2 $table --model classes-5 --output equal --learning_rate 0 --seed 5 --workers independent --predict_file table.csv \
    --do_predict
expect_code 0
grep -q '"best_worker": 0' equal/workers.json || fail "not the first of equal ones"
[ -s equal/test_results.tsv ] && [ ! -e equal/worker-0/test_results.tsv ] || fail "no prediction of the best"

# Only the first worker writes the profile that was named, the others their own ones.
several 2 $table --output profiled --seed 5 --workers independent --profile 2:3 --profile_output trace.json
expect_code 0
[ -s trace.json ] && [ ! -e profiled/worker-0/profile.json ] && [ -s profiled/worker-1/profile.json ] || fail "other profiles"

# Without a model that was chosen, nothing is converted.
several 2 pretrain --config_file config.json --vocab_file model/vocab.txt --input_dir "$shards" --eval_dir "$shards" --do_eval \
    $common --max_seq_length 32 --output unscored --seed 5 --workers independent --steps_this_run 1 --save_format torch
expect_code 0
once "no worker has finished with a score: none is chosen, and nothing is predicted or written in other formats"
[ ! -e unscored/pytorch_model.bin ] || fail "a result of no model"

# --- resuming ------------------------------------------------------------------------------------

# One worker has finished, another has not, and the third has not begun.
mkdir again again/worker-1
cp -r squad/worker-0 again
cp -r squad/worker-1/checkpoint-3 again/worker-1
echo old >again/model.safetensors
several 3 $questions --output again --seed 5 --workers independent --resume_from_checkpoint auto
expect_code 0
mv again resumed
for i in 0 1 2; do
    same_files resumed/worker-$i squad/worker-$i model.safetensors checkpoint-6/optimizer.safetensors predictions.json
done
same_files resumed squad model.safetensors predictions.json
once "resumed from again/worker-0/checkpoint-6"

# The old result stays if the workers cannot work together.
mkdir -p older apart
cp squad-5/*.* older
unlike "${mpis[0]}" $questions --output older --workers independent --overwrite_output_dir -- --output apart
expect_code 73
once "rank 1 on host $(hostname): output_dir apart on host $(hostname) is not the output folder of rank 0"
same_files older squad-5 model.safetensors eval_results.json

several 2 $questions --output squad --seed 5 --workers independent
expect_code 73
once "squad is not empty"
mkdir finished # by a run of another kind
cp squad-5/*.* finished
several 2 $questions --output finished --seed 5 --workers independent --resume_from_checkpoint auto
expect_code 73
once "finished contains a model and no checkpoint to resume from"
same_files finished squad-5 model.safetensors
several 2 $questions --output squad --seed 5 --workers independent --resume_from_checkpoint auto
expect_code 0
once "squad/worker-2 is left from a run with more processes and is ignored"
run $questions --output squad --seed 5 --workers independent --resume_from_checkpoint auto # in one process
expect_code 0
once "squad/worker-1 is left from a run with more processes and is ignored"
once "resumed from squad/worker-0/checkpoint-6"

# Runs its arguments, in the second process with those of SECOND appended. Launchers end all processes if one fails, so exit
# codes go to a file.
cat >numbered.sh <<'END'
number=${OMPI_COMM_WORLD_RANK-$PMI_RANK}
[ "$number" = 0 ] || echo $$ >process
[ "$number" = 0 ] || set -- "$@" ${SECOND-}
"$@" &
[ "$number" = 0 ] || echo $! >process
wait $!
code=$?
[ $code -lt 128 ] || { wait $!; code=$?; }
echo $code >>codes
exit ${PASS+$code}
END
# A signal to one process stops all.
for mpi in "${mpis[@]}"; do
    rm -f process codes
    : >"$err" # discards the previous job's output
    what="$mpi, a signal to the second worker"
    timeout 60 $(launcher_of "$mpi") -n 2 bash numbered.sh "$BERTH" $questions --max_steps 100000 --output "stopped-$mpi" \
        --seed 5 --workers independent >"$out" 2>"$err" </dev/null &
    for _ in {1..600}; do
        [ -d "stopped-$mpi/worker-0/checkpoint-6" ] && [ -d "stopped-$mpi/worker-1/checkpoint-6" ] && break
        sleep 0.02
    done
    kill -TERM "$(cat process)"
    wait $!
    sort codes | tr '\n' ' ' >"$out"
    [ "$(cat "$out")" = "75 75 " ] || fail "exit codes $(cat "$out")"
    expect_no "$err" "stop requested" # only the first process says so
    [ "$(grep -cE '^[01] .* stopped: stopped on request after update [0-9]+ of 100000; everything is saved' "$err")" -eq 2 ] ||
        fail "not both have stopped"
    [ ! -e "stopped-$mpi/model.safetensors" ] || fail "a model was chosen"
done

# --- failures ------------------------------------------------------------------------------------

rm codes
# The second worker's weights are too large. The first one's result is published; the missing one can then be trained.
cp -r model large
python3 - large/model.safetensors <<'END'
import struct
import sys

path = sys.argv[1]
content = bytearray(open(path, "rb").read())
begin = 8 + struct.unpack("<Q", content[:8])[0]
count = (len(content) - begin) // 4
content[begin:begin + 4 * count] = struct.pack("<f", 1e38) * count
open(path, "wb").write(content)
END
export SECOND="--model large"
launch_program "${mpis[turn++ % ${#mpis[@]}]}" 2 bash numbered.sh "$BERTH" $questions --output failed --seed 5 --workers independent
unset SECOND
expect_code 0
[ "$(tr '\n' ' ' <codes)" = "1 1 " ] || fail "exit codes $(cat codes)"
once "error: worker 1 (host $(hostname)): update 1: loss "
expect_err "failed contains the best model of the finished workers, that of worker 0"
same_files failed squad-5 model.safetensors predictions.json
grep -q '"state": "failed"' failed/workers.json || fail "no failure in the table"
several 2 $questions --output failed --seed 5 --workers independent --resume_from_checkpoint auto
expect_code 0
same_files failed/worker-1 squad-6 model.safetensors predictions.json
best=$(best_of failed f1 most 5 squad-5 squad-6) || fail "another table"
same_files failed "squad-$((5 + best))" model.safetensors predictions.json

# The second worker does not answer. The first one finishes its own training and ends with its result. On a fast machine the
# second one may end before it is stopped; then it is tried with more updates.
what="a worker that does not answer"
mpi=${mpis[turn++ % ${#mpis[@]}]}
for steps in 400 1600 6400; do
    rm -rf process silent
    PASS= SECOND="--instructions generic" timeout 300 $(launcher_of "$mpi") -n 2 bash numbered.sh "$BERTH" $questions \
        --max_steps $steps --save_steps 20 --save_total_limit 1 --evaluate_every_epoch false --output silent --seed 5 \
        --workers independent --comm_timeout 1 >"$out" 2>"$err" </dev/null &
    until ls -d silent/worker-1/checkpoint-* >/dev/null 2>&1 || ! kill -0 $! 2>/dev/null; do sleep 0.02; done
    kill -STOP "$(cat process)"
    wait $!
    kill -KILL "$(cat process)" 2>/dev/null
    grep -q 'no best worker was chosen' "$err" && break
done
expect_err "worker 0 has finished in silent/worker-0, but no best worker was chosen: rank 1 on host "
[ -s silent/worker-0/model.safetensors ] && [ ! -e silent/model.safetensors ] || fail "another result"

# At the start all fail, once.
failing() { # CODE TEXT WORDS...
    local expected=$1 text=$2
    shift 2
    rm -f codes
    launch_program "${mpis[turn++ % ${#mpis[@]}]}" 2 bash numbered.sh "$BERTH" "$@" --output none
    [ "$(tr '\n' ' ' <codes)" = "$expected $expected " ] || fail "exit codes $(cat codes)"
    once "$text"
    [ ! -e none ] || fail "something was written"
}
failing 66 absent.json $questions --workers independent --train absent.json
failing 78 "workers independent needs evaluations to choose the best worker" $questions --workers independent \
    --do_eval false
failing 78 "is too large: worker 1" $questions --workers independent --seed 9223372036854775807

# The first process cannot write the result in another format; the second one does not wait for it to predict. The
# summary's place lets training begin in the folder without --overwrite_output_dir.
rm -f codes
mkdir -p unwritable/pytorch_model.bin
launch_program "${mpis[turn++ % ${#mpis[@]}]}" 2 bash numbered.sh "$BERTH" $table --output unwritable \
    --json_summary unwritable/pytorch_model.bin/summary.jsonl --save_format torch --predict_file table.csv --do_predict --comm_timeout 60
[ "$(tr '\n' ' ' <codes)" = "73 73 " ] || fail "exit codes $(cat codes)"
once "pytorch_model.bin"
[ ! -e unwritable/test_results.tsv ] || fail "something was predicted"

several 2 $questions --workers independent --zero_stage 2 --reduce_bucket_size 1000 --dry_run --verbose --output none
expect_code 0
cat "$out" >>"$err"
once "2 independent workers: "
once "zero_stage has no effect with independent workers"
once "reduce_bucket_size has no effect with independent workers"
grep -qE "rank_1_plan_bytes" "$err" || fail "no plan of the second worker"
[ ! -e none ] || fail "something was written"
run $questions --workers independent --output alone --seed 5
expect_code 0
expect_err "workers independent has no effect in one process"
same_files alone squad-5 model.safetensors

# --- the learning rate ---------------------------------------------------------------------------

# Two runs have the same bytes and the same rates; the plan's is RATE.
same_rates() { # FOLDER FOLDER RATE
    same_files "$1" "$2" model.safetensors checkpoint-6/optimizer.safetensors
    python3 - "$@" <<'END' || fail "other rates"
import json, sys
def rates(name):
    records = [json.loads(line) for line in open(name + ".jsonl")]
    plan = [each["learning_rate"] for each in records if each["kind"] == "plan" and "learning_rate" in each]
    return plan, [each["learning_rate"] for each in records if each["kind"] == "step"]
one, other, rate = sys.argv[1:]
plan, steps = rates(one)
assert (plan, steps) == rates(other) and plan == [float(rate)] and len(steps) == 6 and max(steps) > 0, (plan, steps)
END
}
rated() { # NAME WORDS...
    local name=$1
    shift
    several 2 $unrated "$@" --verbose --output "$name" --json_summary "$name.jsonl"
    expect_code 0
}
root=$(python3 -c 'print(repr(1e-3 * 2 ** 0.5))')
rated sqrt --learning_rate 1e-3 --lr_scaling sqrt --schedule constant_warmup --warmup_steps 2
once "lr_scaling sqrt: learning_rate 0.001 x 1.414213562, for 2 processes: 0.001414213562"
grep -qE "^  lr_scaling +sqrt\$" "$err" || fail "no rule in the plan"
rated sqrt-given --learning_rate "$root" --schedule constant_warmup --warmup_steps 2
same_rates sqrt sqrt-given "$root"
rated linear --learning_rate 1e-3 --lr_scaling linear --schedule google --workers independent --seed 5
run $unrated --learning_rate 2e-3 --schedule google --seed 6 --output linear-given
expect_code 0
same_files linear/worker-1 linear-given model.safetensors
# The rate of a DeepSpeed JSON, and that with which the warm-up starts, a fraction of it. A resumed run has the same one.
schedule='"scheduler": {"type": "WarmupCosineLR", "params": {"warmup_min_ratio": 0.25, "warmup_num_steps": 3}}'
for rate in 1e-3 2e-3; do
    echo "{\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": $rate}}, $schedule}" >"$rate.json"
done
rated json --deepspeed_config 1e-3.json --lr_scaling linear
rated json-given --deepspeed_config 2e-3.json
same_rates json json-given 2e-3
rm -r json/checkpoint-6 json/model.safetensors
rated json --deepspeed_config 1e-3.json --lr_scaling linear --resume_from_checkpoint auto
expect_no "$err" "learning_rate was"
same_files json json-given model.safetensors
rm -r json/checkpoint-6 json/model.safetensors
run $unrated --deepspeed_config 1e-3.json --lr_scaling linear --resume_from_checkpoint auto --output json
expect_code 0
expect_err "resume: lr_scaling multiplied learning_rate by 2 and now by 1"
expect_err "lr_scaling has no effect in one process"
finish
