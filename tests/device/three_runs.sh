# SPDX-License-Identifier: Apache-2.0
# Three small training runs, sourced by scripts that compare a program's results with those of another build
# or another device: SQuAD in fp32 and in bf16, MRPC with NVLAMB and gradient checkpointing. Each has dropout,
# four micro-batches per update, evaluation and checkpoints, and is trained a second time from its first
# checkpoint. Together they take about two seconds on one core.
three_runs="squad-fp32 squad-bf16 mrpc-nvlamb"

# Data, configuration and vocabulary, from the demo's generator.
three_runs_data() { # GENERATE FOLDER
    local sources
    sources=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
    mkdir -p "$2/all" "$2/glue/MRPC" && "$1" "$2/all" || return 1
    first_contexts 32 "$2/all/train.json" >"$2/train.json"
    first_contexts 16 "$2/all/dev.json" >"$2/dev.json"
    make_pairs 96 "$2/all/train.json" >"$2/glue/MRPC/train.tsv"
    make_pairs 48 "$2/all/dev.json" >"$2/glue/MRPC/dev.tsv"
    cp "$2/all/vocab.txt" "$2/vocab.txt"
    rm -r "$2/all"
    sed 's/_prob": 0.0/_prob": 0.1/' "$sources/demo/config.json" >"$2/config.json"
}
first_contexts() { # COUNT FILE
    sed -n "1,$((1 + $1))p" "$2" | sed '$s/,$//'
    printf ']}]}\n'
}
# Sentences of a context; in every other pair, both have the same words in a different order.
make_pairs() { # COUNT FILE
    sed -n "2,$((1 + $1))p" "$2" | awk -F '"' '
        BEGIN { OFS = "\t"; print "Quality", "#1 ID", "#2 ID", "#1 String", "#2 String" }
        {
            split($4, sentence, /\. */)
            count = split(sentence[1], word, " ")
            other = sentence[2]
            if (NR % 2 == 1) {
                other = word[count]
                for (i = 1; i < count; i++) other = other " " word[i]
            }
            print NR % 2, 2 * NR, 2 * NR + 1, sentence[1] ".", other "."
        }'
}

# Runs one of the three, completely and resumed: FOLDER/NAME and FOLDER/NAME-resumed, with its output in
# FOLDER/NAME.log.
three_runs_train() { # NAME BERTH DATA FOLDER [FLAG...]
    local name=$1 berth=$2 data=$3 folder=$4
    shift 4
    local flags="--train_batch_size 16 --per_device_train_batch_size 4 --max_steps 6 --save_steps 3
        --save_total_limit 4 --max_seq_length 96 --seed 42 --quiet"
    case $name in
    squad-*) flags="finetune squad --train $data/train.json --dev $data/dev.json --doc_stride 32
        --learning_rate 1e-3 --precision ${name#squad-} $flags" ;;
    mrpc-nvlamb) flags="finetune classify --task mrpc --data_dir $data/glue --optimizer nvlamb
        --learning_rate 1e-2 --gradient_checkpointing --precision bf16 $flags" ;;
    esac
    mkdir -p "$folder"
    {
        { [ -d "$folder/start" ] || three_runs_start "$berth" "$data" "$folder"; } &&
            "$berth" $flags --model "$folder/start" --output "$folder/$name" "$@" &&
            "$berth" $flags --model "$folder/start" --output "$folder/$name-resumed" "$@" \
                --resume_from_checkpoint "$folder/$name/checkpoint-3"
    } >"$folder/$name.log" 2>&1
}
three_runs_start() { # BERTH DATA FOLDER
    "$1" init --config "$2/config.json" --output "$3/start" --seed 42 --quiet &&
        cp "$2/vocab.txt" "$3/start/"
}

# Prints each file of one of the three whose bytes differ between ONE and OTHER, or when resumed. Fails if
# there is one, if a file is missing, or if training changed nothing.
three_runs_compare() { # NAME ONE OTHER
    local name=$1 folder file failed=0
    for folder in "$2" "$3"; do
        for file in model.safetensors checkpoint-6/optimizer.safetensors; do
            cmp "$folder/$name/$file" "$folder/$name-resumed/$file" 2>&1 || failed=1
        done
        if cmp -s "$folder/start/model.safetensors" "$folder/$name/model.safetensors"; then
            echo "$folder/$name/model.safetensors: training changed nothing"
            failed=1
        fi
    done
    for file in $(cd "$2/$name" && find . -name '*.safetensors' -o -name '*predictions.json' \
        -o -name eval_results.txt); do
        cmp "$2/$name/$file" "$3/$name/$file" 2>&1 || failed=1
    done
    return "$failed"
}
