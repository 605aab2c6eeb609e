#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# DeepSpeed's script of this name: run_BingBertSquad.sh with 8 processes and with 1, with the engine and without it, in
# half precision and in fp32, by the two JSON files of the current folder.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
half=deepspeed_bsz24_fp16_config.json full=deepspeed_bsz24_fp32_config.json
for file in $half $full; do
    [ -f "$file" ] || { echo "$file not found" >&2; exit 1; }
done
for gpus in 8 1; do
    "$here/run_BingBertSquad.sh" -g "$gpus" -d --deepspeed_config "$half" --fp16
    "$here/run_BingBertSquad.sh" -g "$gpus" -d --deepspeed_config "$full"
    "$here/run_BingBertSquad.sh" -g "$gpus" --fp16
    "$here/run_BingBertSquad.sh" -g "$gpus"
done
