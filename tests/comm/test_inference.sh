#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prediction, evaluation and embedding by several processes on this machine give the same bytes as one process, also in
# the evaluations of a training run and in the prediction after it. One process writes and reports; all of them end with
# the same error. The MPIs take turns.
. "$(dirname "$0")/../cli/lib.sh"
. "$(dirname "$0")/launch.sh"

mpis=($(find_mpis))
[ ${#mpis[@]} -gt 0 ] || { echo "skipped: no mpirun or mpiexec of an MPI that a module was built for"; exit 77; }
cd "$work" || exit 1
make_model model
make_questions data.json 60
python3 - <<'END'
import random
random.seed(3)
word = lambda: "".join(random.choice("abcdefgh") for _ in range(random.randint(1, 9)))
text = lambda: " ".join(word() for _ in range(random.randint(1, 25)))
with open("table.csv", "w") as table:
    table.write("text,label\n")
    for _ in range(90):
        table.write(f"{text()},{random.choice(['good', 'bad'])}\n")
with open("lines", "w") as lines:
    lines.writelines(text() + "\n" for _ in range(2500))
with open("articles", "w") as articles:
    articles.writelines("\n".join(f"{text()}." for _ in range(6)) + "\n\n" for _ in range(40))
END
run prepare --text articles --vocab model/vocab.txt --output shards --max_seq_length 32 --max_predictions_per_seq 4 \
    --shards 2 --test_shards 1 --dupe_factor 2
expect_code 0
shards=$(dirname "$(find shards -name '*training_0.hdf5')")
short="--max_seq_length 48 --predict_batch_size 3 --threads 1"
questions="--doc_stride 16 --max_query_length 16"
columns="--text-column text --label-column label"

turn=0
several() { # COUNT WORDS...
    launch "${mpis[turn++ % ${#mpis[@]}]}" "$@"
}
# A JSON result without the numbers that depend on time, and likewise the lines of a file.
result() {
    sed 's/"samples_per_second.*//' "$out"
}
untimed() { # FILE
    grep -av '^ *"predict_runtime"' "$1"
}
same_files() { # FOLDER FOLDER FILES...
    local one=$1 other=$2
    shift 2
    for file in "$@"; do
        [ -s "$one/$file" ] || fail "no $one/$file"
        cmp -s <(untimed "$one/$file") <(untimed "$other/$file") || fail "$file of $one and $other differ"
    done
}
# One process and several must give the same files and scores.
compare() { # NAME FILES -- WORDS...
    local name=$1 files=$2
    shift 3
    run "$@" --output "$name-1" --json
    expect_code 0
    result >"$work/result"
    for count in 2 4; do
        several $count "$@" --output "$name-$count" --json
        expect_code 0
        same_files "$name-1" "$name-$count" $files
        result | cmp -s - "$work/result" || fail "other scores: $(result), not $(cat "$work/result")"
        [ "$(wc -l <"$out")" -eq 1 ] || fail "not one process prints"
        expect_err "ranks: $count on 1 host"
    done
}

compare squad "predictions.json nbest_predictions.json" -- \
    predict squad --model model --input data.json $short $questions
compare held "eval_results.txt" -- \
    evaluate pretrain --model model --eval_dir "$shards" --allow_new_head --predict_batch_size 3 --threads 1
# A run with evaluations that ends with the best model, then a prediction.
compare classes "model.safetensors eval_results.txt test_results.tsv predict_results.json" -- \
    finetune classify --model model --train table.csv --dev table.csv --predict_file table.csv $columns $short \
    --do_predict --max_steps 6 --train_batch_size 8 --virtual_ranks 4 --eval_steps 2 --load_best_model_at_end \
    --save_steps 2 --learning_rate 1e-2
compare pretrained "model.safetensors eval_results.txt" -- \
    pretrain --model model --input_dir "$shards" --eval_dir "$shards" --do_eval --max_steps 4 --train_batch_size 8 \
    --virtual_ranks 4 --eval_steps 2 --predict_batch_size 3 --threads 1

# Evaluations during training.
evaluations() { # FILE
    python3 -c '
import json, sys
for line in open(sys.argv[1]):
    record = json.loads(line)
    if record.get("kind") == "eval":
        print({key: value for key, value in record.items() if "per_second" not in key and key not in ("time", "elapsed")})
' "$1"
}
train="finetune squad --model model --train data.json --dev data.json $short $questions --max_steps 4 --train_batch_size 8
       --virtual_ranks 2 --eval_steps 2 --skip_checkpoint --learning_rate 1e-3"
run $train --output train-1 --json_summary one.json
expect_code 0
several 2 $train --output train-2 --json_summary two.json
expect_code 0
evaluations one.json >one
evaluations two.json >two
[ "$(wc -l <one)" -eq 2 ] || fail "not two evaluations"
cmp -s one two || fail "other evaluations: $(cat two), not $(cat one)"

# Embeddings of more texts than fit in one round.
embed="embed --model model --max_seq_length 32 --threads 1 --quiet"
run $embed lines --output e1.npy
expect_code 0
for count in 2 3; do
    several $count $embed lines --output e$count.npy
    expect_code 0
    expect_empty "$out"
    same_files . . e$count.npy
    cmp -s e1.npy e$count.npy || fail "other embeddings"
done
head -n 700 lines >some
run $embed --pooling cls some
cp "$out" printed
for mpi in "${mpis[@]}"; do # only the first process can read the texts
    what="$mpi, texts on standard input"
    timeout 60 $(launcher_of "$mpi") -n 2 "$BERTH" $embed --pooling cls <some >"$out" 2>"$err"
    code=$?
    expect_code 0
    cmp -s "$out" printed || fail "other embeddings"
done

# Errors: one message, the same exit code in each process, nothing written. @ stands for the number of the process.
# Launchers end all processes when one of them fails, so each one's code goes to a file.
cat >each.sh <<'END'
"${@//@/${OMPI_COMM_WORLD_RANK-$PMI_RANK}}"
echo $? >>codes
END
failing() { # CODE TEXT WORDS...
    local expected=$1 text=$2
    shift 2
    rm -f codes
    launch_program "${mpis[turn++ % ${#mpis[@]}]}" 2 bash each.sh "$BERTH" "$@"
    expect_code 0
    once "$text"
    printf '%s\n' "$expected" "$expected" | cmp -s - codes || fail "exit codes of the processes: $(tr '\n' ' ' <codes)"
    [ ! -e none ] || rmdir none || fail "something was written"
}
failing 66 absent.json predict squad --model model --input absent.json --output none
failing 66 'absent: ' predict squad --model absent --input data.json --output none
failing 2 unknown_option predict squad --model model --input data.json --output none --unknown_option
failing 73 squad-1 predict squad --model model --input data.json --output squad-1
failing 66 absent embed --model model absent --output none
failing 2 "tokens that the model reads; with overflow" embed --model model lines --max_seq_length 8 --overflow error
failing 2 'expected one of mean' embed --model model lines --pooling none
failing 78 'normalize is true, but false on rank 0' embed --model model lines --normalize=@
failing 73 nowhere embed --model model lines --output nowhere/none.npy
failing 78 'init` is one process' init --config config.json --output none

# The second process has other data, another model.
cp data.json data0.json
make_questions data1.json 59
cp -r model model0
"$BERTH" init --config config.json --output model1 --seed 8 --quiet && cp model/vocab.txt model1
failing 65 "rank 1 on host $(hostname): the number of evaluation sequences (data1.json) is 59, but 60 on rank 0" \
    predict squad --model model --input data@.json --output none
failing 65 "rank 1 on host $(hostname): the checksum of the weights (model1) is " \
    predict squad --model model@ --input data.json --output none
failing 65 "rank 1 on host $(hostname): the checksum of the weights (model1) is " embed --model model@ lines

# A signal to one process ends all of them with 75. Batches of one sequence make the prediction last for seconds; texts
# are written a thousand at a time.
cat >signalled.sh <<'END'
[ "${OMPI_COMM_WORLD_RANK-$PMI_RANK}" = 0 ] || echo $$ >process
exec "$@"
END
make_questions many.json 8000
yes "$(head -n 1 lines)" | head -n 2000000 >many
stopped() { # MPI SIGNAL MESSAGE WORDS...: once there is something in the folder `stopped`
    local mpi=$1 signal=$2 message=$3 job
    shift 3
    rm -rf process stopped
    mkdir stopped
    : >"$err" # discards the previous job's output
    what="$mpi, SIG$signal to the second process of $1"
    timeout 120 $(launcher_of "$mpi") -n 2 bash signalled.sh "$BERTH" "$@" >"$out" 2>"$err" </dev/null &
    job=$!
    until [ -n "$(ls stopped)" ] || ! kill -0 $job 2>/dev/null; do sleep 0.02; done
    kill -"$signal" "$(cat process)"
    wait $job
    code=$?
    expect_code 75
    once "$message"
    [ -z "$(find stopped -type f)" ] || fail "something was written: $(ls -A stopped)"
}
for mpi in "${mpis[@]}"; do
    # The folder is made before the first batch, the file before the first text.
    stopped "$mpi" TERM "stopped on request; no predictions were written" predict squad --model model --input many.json \
        --output stopped/of $short $questions --predict_batch_size 1
    for signal in TERM INT USR1; do
        stopped "$mpi" $signal "nothing was written: stopped on request after " embed --model model many --threads 1 \
            --output stopped/e.npy
    done
    what="$mpi, a signal to the second process while embeddings go to standard output"
    rm -f process
    : >"$out"
    timeout 120 $(launcher_of "$mpi") -n 2 bash signalled.sh "$BERTH" embed --model model many --threads 1 \
        >"$out" 2>"$err" </dev/null &
    job=$!
    until [ -s "$out" ] || ! kill -0 $job 2>/dev/null; do sleep 0.02; done
    kill -TERM "$(cat process)"
    wait $job
    code=$?
    expect_code 75
    once "stopped on request after "
done
rm -f many
finish
