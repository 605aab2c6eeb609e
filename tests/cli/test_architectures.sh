#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Models of every architecture but BERT's with the whole program: trained for each task and for masked words, resumed,
# on two processes and on the emulated GPU, in bf16 with packed batches, used by every verb and by the server, in int8.
# dev/others compares the numbers with transformers'. BERTH_MPIS: the MPIs whose modules were built.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../comm/launch.sh"
. "$(dirname "$0")/../device/losses.sh"
BERTH_MODULE_PATH=$(dirname "$BERTH")
export BERTH_MODULE_PATH
servers=$(cd "$(dirname "$0")/../serve" && pwd)
cd "$work" || exit 1
mpi=$(find_mpis | head -n 1)

make_dataset data.json
printf 'label,sentence1,sentence2\n' >pairs.csv
for i in 1 2 3 4; do
    printf 'same,ada lived in oslo %d.,ada lived in oslo\nother,ada lived in oslo.,hugo lived in riga %d\n' $i $i
done >>pairs.csv
printf 'ada B-PER\nlived O\nin O\noslo B-LOC\n\nhugo B-PER\nlived O\nin O\nriga B-LOC\n\n' >tags.txt
printf 'text1,text2,score\nada lived in oslo,hugo lived in riga,0.2\nrita lived in rome,rita was in rome,0.9\n' >scores.csv
for i in $(seq 30); do
    echo "where did ada and hugo live in the year $i, when rita and olga lived in rome and bern?"
done >text.txt
printf 'ada lived in oslo\nwhere did hugo live when rita lived in rome?\n' >lines.txt

# Vocabularies: of letters, of pieces of bytes and of pieces that the Unigram model draws.
mkdir wordpiece bpe unigram
make_vocabulary >wordpiece/vocab.txt
run vocab --text text.txt data.json --model_type bpe --size 320 --output bpe/tokenizer.json
expect_code 0
run vocab --text text.txt data.json --model_type unigram --size 80 --output unigram/tokenizer.json
expect_code 0

config() { # TYPE
    case $1 in
    distilbert)
        echo '{"model_type": "distilbert", "vocab_size": 128, "dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64,
               "max_position_embeddings": 66}' ;;
    electra)
        echo '{"model_type": "electra", "vocab_size": 128, "embedding_size": 16, "hidden_size": 32, "num_hidden_layers": 2,
               "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 66}' ;;
    *)
        printf '{"model_type": "%s", "vocab_size": %d, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
                 "intermediate_size": 64, "max_position_embeddings": 66, "type_vocab_size": 1}\n' "$1" "$2" ;;
    esac
}

steps="--max_steps 4 --train_batch_size 4 --per_device_train_batch_size 2 --learning_rate 1e-3 --max_seq_length 48
    --precision fp32 --threads 1 --save_steps 2 --logging_steps 1"

# The numbers of two files of vectors or scores differ by at most LIMIT.
near() { # FILE FILE LIMIT [KEY]: of the numbers, or of those of the key
    python3 - "$@" <<'END' || fail "$1 and $2 differ"
import re, sys
key = rf'"{sys.argv[4]}": ?' if len(sys.argv) > 4 else ""
one, other = ([float(n) for n in re.findall(key + r"(-?\d+\.?\d*(?:e-?\d+)?)", open(name).read())] for name in sys.argv[1:3])
assert len(one) == len(other) >= 4, (len(one), len(other))
apart = max(abs(a - b) for a, b in zip(one, other))
assert apart <= float(sys.argv[3]), apart
END
}

# XLM-RoBERTa and CamemBERT are RoBERTas under other names.
all="squad classify tokens embed words"
while read -r type words mask tasks; do
    case $words in bpe) size=320 ;; *) size=80 ;; esac
    config "$type" $size >config.json
    run init --config config.json --output "$type" --seed 3
    expect_code 0
    cp "$words"/* "$type/"
    printf '{"text": "ada lived in %s."}\n' "$mask" >masked.jsonl

    # --- each task: trained, resumed, with two processes, on the emulated GPU ---------------------
    while read -r task words; do
        [[ " $tasks " == *" $task "* ]] || continue
        run $words --model "$type" $steps --output "$type-$task"
        expect_code 0
        cmp -s "$type-$task/model.safetensors" "$type/model.safetensors" && fail "nothing was trained"
        grep -q "\"model_type\": \"$type\"" "$type-$task/config.json" || fail "config.json does not name the type"
        cp -r "$type-$task" resumed
        rm -r resumed/checkpoint-4 resumed/model.safetensors
        run $words --model "$type" $steps --output resumed --resume_from_checkpoint auto
        expect_code 0
        expect_err "checkpoint-2"
        cmp -s "$type-$task/model.safetensors" resumed/model.safetensors || fail "other weights when resumed"
        run $words --model "$type" $steps --output emulated --device emulated
        expect_code 0
        expect_losses "$type-$task" emulated 4 1e-4
        run $words --model "$type" $steps --output packed --precision bf16 --train_batch_size 8 --per_device_train_batch_size 8
        expect_code 0
        run $words --model "$type" $steps --output parts --virtual_ranks 2
        expect_code 0
        if [ -n "$mpi" ]; then
            launch "$mpi" 2 $words --model "$type" $steps --output ranks --virtual_ranks 2 --zero_stage 1
            expect_code 0
            cmp -s parts/model.safetensors ranks/model.safetensors || fail "other weights with two processes"
        fi
        rm -rf resumed emulated packed parts ranks
    done <<'TASKS'
squad finetune squad --train data.json --dev data.json --doc_stride 8
classify finetune classify --train pairs.csv --dev pairs.csv
tokens finetune tokens --train tags.txt --dev tags.txt
embed finetune embed --train scores.csv --dev scores.csv
words pretrain --objective mlm --train text.txt --dev text.txt --line_by_line
TASKS

    # --- each verb, in int8 and on the emulated GPU ------------------------------------------------
    while read -r task verb words; do
        [[ " $tasks " == *" $task "* ]] || continue
        for device in cpu emulated; do
            run $verb --model "$type-$task" $words --device $device
            expect_code 0
            cp "$out" "$device.out"
        done
        near cpu.out emulated.out 1e-4
        [ "$task" = words ] && continue # of which the table predicts, so it is not kept in int8
        run $verb --model "$type-$task" $words --precision int8
        expect_code 0
        # Answers that are almost as good change places.
        near cpu.out "$out" 0.1 $([ "$task" != squad ] || echo probability)
    done <<'VERBS'
squad answer --json --top 5 --question where --context_file text.txt
classify classify --json lines.txt
tokens tag --json lines.txt
embed embed lines.txt
words fill --jsonl masked.jsonl
VERBS

    # --- the server gives the numbers of the verbs ------------------------------------------------
    MODELS=$work PYTHONPATH=$servers python3 -B - "$type" $tasks >"$out" 2>"$err" <<'END' || fail "the server of a $type"
import json, sys
from server import Server, berth
lines = open("lines.txt").read().splitlines()
kind, tasks = sys.argv[1], sys.argv[2:]
with Server(models=[f"{task}={kind}-{task}" for task in ("embed", "classify") if task in tasks]) as server:
    if "embed" in tasks:
        status, _, reply = server.ask("/v1/embeddings", {"model": "embed", "input": lines})
        expected = [json.loads(line)["embedding"] for line in berth("embed", "--normalize", "--model", f"{kind}-embed", "lines.txt").splitlines()]
        found = [entry["embedding"] for entry in reply["data"]]
        assert status == 200 and len(found) == len(expected) == 2, reply
        assert max(abs(a - b) for f, e in zip(found, expected) for a, b in zip(f, e)) < 1e-5
    status, _, reply = server.ask("/predict", {"inputs": lines[0], "model": "classify"})
    expected = json.loads(berth("classify", "--model", f"{kind}-classify", "--json", "lines.txt").splitlines()[0])
    found = {entry["label"]: entry["score"] for entry in reply}
    assert status == 200 and len(found) == 2, reply
    assert all(abs(found[entry["label"]] - entry["score"]) < 1e-5 for entry in expected), (found, expected)
END
done <<ROWS
roberta bpe <mask> $all
xlm-roberta unigram <mask> classify words
camembert unigram <mask> classify words
distilbert wordpiece [MASK] $all
electra wordpiece [MASK] $all
ROWS
finish
