#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# NVIDIA's and Habana's script of this name: both versions of SQuAD in v1.1 and v2.0 of the current folder.
set -euo pipefail
for version in v1.1:squad v2.0:squad_v2; do
    mkdir -p "${version%:*}"
    cp "$("${BERTH:-berth}" fetch "${version#*:}")"/*.json "${version%:*}"
done
