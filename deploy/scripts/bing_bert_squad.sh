# SPDX-License-Identifier: Apache-2.0
# What the run scripts of DeepSpeed's BingBertSquad have in common: their first four arguments and the processes that
# take the place of the GPUs. Sourced. BERTH names the program, if it is not in the path.
set -euo pipefail

usage() { # OPTIONAL ARGUMENTS
    echo "usage: ${0##*/} NUMBER_OF_PROCESSES MODEL_FILE SQUAD_DIR OUTPUT_DIR$1" >&2
    exit 2
}

# run_squad GPUS MODEL_FILE SQUAD_DIR OUTPUT_DIR NAME WORDS...: NAME is that of the job. An update has 24 sequences of all
# processes.
run_squad() {
    local count=$1 model=$2 data=$3 output=$4 name=$5 start=()
    shift 5
    [ "$count" = 1 ] || start=(mpirun -np "$count" -bind-to none)
    set -- "${start[@]}" "${BERTH:-berth}" finetune squad --bert_model bert-large-uncased --do_train --do_lower_case \
        --do_predict --train_file "$data/train-v1.1.json" --predict_file "$data/dev-v1.1.json" \
        --train_batch_size 24 --num_train_epochs 2.0 --max_seq_length 384 --doc_stride 128 \
        --output_dir "$output" --job_name "${name}_${count}GPUs_24batch_size" --model_file "$model" "$@"
    echo "$*"
    exec "$@"
}
