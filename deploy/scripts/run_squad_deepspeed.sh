#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# BingBertSquad's script of this name:
#
#   run_squad_deepspeed.sh NUMBER_OF_PROCESSES MODEL_FILE SQUAD_DIR OUTPUT_DIR [LR [SEED [PORT [DROPOUT]]]] [FLAGS...]
#
# deepspeed_bsz24_config.json of the current folder is used, else the one beside this script, which leaves the rate to LR.
# Flags, which begin with "--", go to nvidia_run_squad_deepspeed.py.
. "$(dirname "$0")/bing_bert_squad.sh"
arguments=()
while [ $# -gt 0 ] && [[ $1 != --* ]]; do
    arguments+=("$1")
    shift
done
[ ${#arguments[@]} -ge 4 ] && [ ${#arguments[@]} -le 8 ] || usage
lr=${arguments[4]:-0.00003} seed=${arguments[5]:-12345} dropout=${arguments[7]:-0.1}
say "lr is $lr"
say "seed is $seed"
say "dropout is $dropout"
[ -z "${arguments[6]:-}" ] || echo "note: port ${arguments[6]} has no effect: the MPI finds its own" >&2
json=deepspeed_bsz24_config.json
[ -e $json ] || json=$(dirname "$0")/$json
run_squad nvidia_run_squad_deepspeed.py "${arguments[@]:0:4}" "deepspeed_${arguments[0]}GPUs_24batch_size" 3 24 \
    --predict_batch_size 3 --learning_rate "$lr" --fp16 --deepspeed --deepspeed_config "$json" --dropout "$dropout" \
    --seed "$seed" --preln "$@"
