#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# DeepSpeed's script of this name, which runs BingBertSquad with the variables SQUAD_DIR and OUTPUT_DIR:
#
#   run_BingBertSquad.sh [-g PROCESSES] [-n NODES] [-e EPOCHS] [-b BATCH_SIZE] [-p PORT] [-d] [FLAGS...]
#
# -d (--deepspeed) trains with the engine; flags go to the program. What an earlier run left in the output folder is
# replaced. BATCH_SIZE is that of the processes of one node.
. "$(dirname "$0")/bing_bert_squad.sh"
gpus=8 nodes=1 epochs=2 batch=24 engine=false program=nvidia_run_squad_baseline.py flags=()
while [ $# -gt 0 ]; do
    case "$1" in
        -g | --num_gpus) gpus=$2; shift 2 ;;
        -n | --num_nodes) nodes=$2; shift 2 ;;
        -e | --epochs) epochs=$2; shift 2 ;;
        -b | --batch_size) batch=$2; shift 2 ;;
        -p | --port | --master_port) shift 2 ;; # the MPI finds its own
        -d | --deepspeed) engine=true program=nvidia_run_squad_deepspeed.py; shift ;;
        -h | --help) usage ;;
        *) flags+=("$1"); shift ;;
    esac
done
[ -d "$squad_dir" ] || { echo "$squad_dir folder not found" >&2; exit 1; }
BERTH_OPTIONS="--overwrite_output_dir ${BERTH_OPTIONS:-}"
run_squad "$program" "$gpus" "$squad_dir/training_state_checkpoint_162.tar" "$squad_dir" "$output_dir" \
    "BingBertSquad_ds-${engine}_$gpus-gpu" 3 "$batch" --learning_rate 3e-5 --num_train_epochs "$epochs" "${flags[@]}"
