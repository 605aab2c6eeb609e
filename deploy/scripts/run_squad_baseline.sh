#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# BingBertSquad's script of this name:
#
#   run_squad_baseline.sh NUMBER_OF_PROCESSES MODEL_FILE SQUAD_DIR OUTPUT_DIR [WORDS...]
#
# Micro-batches have six sequences. Words go to Berth, for example --dry-run.
. "$(dirname "$0")/bing_bert_squad.sh"
[ $# -ge 4 ] || usage " [--OPTION...]"
arguments=("${@:1:4}")
shift 4
run_squad "${arguments[@]}" baseline --per_device_train_batch_size 6 --learning_rate 3e-5 --fp16 "$@"
