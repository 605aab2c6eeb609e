# SPDX-License-Identifier: Apache-2.0
# What the run scripts of DeepSpeed's BingBertSquad have in common. Sourced. BERTH names the program, if it is not in the
# path; BERTH_OPTIONS has options of Berth's own, for example --dry-run.
set -euo pipefail
squad_dir=${SQUAD_DIR:-/data/BingBertSquad} output_dir=${OUTPUT_DIR:-/tmp/BingBertSquad-Output}

say() { # WORDS...: not among the commands of `berth as --print_command`
    [ -n "${BERTH_PRINT_COMMAND:-}" ] || echo "$*"
}
usage() {
    sed -n '/^#   [a-zA-Z_]*\.sh/s/^#   /usage: /p' "$0" >&2
    exit 2
}

# run_squad PROGRAM PROCESSES MODEL_FILE SQUAD_DIR OUTPUT_DIR JOB_NAME MOST BATCH WORDS...: an update has BATCH sequences
# of the PROCESSES of a node, in micro-batches of at most MOST. `nodes` is the number of nodes, 1 by default.
run_squad() {
    local program=$1 count=$2 model=$3 data=$4 output=$5 name=$6 most=$7 batch=$8 accumulation=1 each
    shift 8
    each=$((batch / count))
    [ "$each" -le "$most" ] || accumulation=$((each / most))
    # shellcheck disable=SC2086
    set -- "${BERTH:-berth}" as ${BERTH_OPTIONS:-} deepspeed --num_nodes "${nodes:-1}" --num_gpus "$count" "$program" \
        --bert_model bert-large-uncased --do_train --do_lower_case --do_predict --train_file "$data/train-v1.1.json" \
        --predict_file "$data/dev-v1.1.json" --train_batch_size "$each" --gradient_accumulation_steps "$accumulation" \
        --num_train_epochs 2.0 --max_seq_length 384 --doc_stride 128 --output_dir "$output" \
        --job_name "$name" --model_file "$model" "$@"
    say "$*"
    "$@"
}
