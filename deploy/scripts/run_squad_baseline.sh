#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# BingBertSquad's script of this name:
#
#   run_squad_baseline.sh NUMBER_OF_PROCESSES MODEL_FILE [SQUAD_DIR [OUTPUT_DIR]] [FLAGS...]
#
# Without the last two, the variables SQUAD_DIR and OUTPUT_DIR name them, or /data/BingBertSquad and
# /tmp/BingBertSquad-Output. Flags go to nvidia_run_squad_baseline.py.
. "$(dirname "$0")/bing_bert_squad.sh"
arguments=()
while [ $# -gt 0 ] && [[ $1 != --* ]]; do
    arguments+=("$1")
    shift
done
[ ${#arguments[@]} -ge 2 ] && [ ${#arguments[@]} -le 4 ] || usage
run_squad nvidia_run_squad_baseline.py "${arguments[@]:0:2}" "${arguments[2]:-$squad_dir}" "${arguments[3]:-$output_dir}" \
    "baseline_${arguments[0]}GPUs_24batch_size" 6 24 --learning_rate 3e-5 --fp16 "$@"
