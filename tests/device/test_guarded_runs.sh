#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests that the three runs on the guarded device (guarded_device.h) give the same bytes as on the CPU. BERTH,
# GUARDED: the program without and with that device; GENERATE: the demo's generator.
. "$(dirname "$0")/../cli/lib.sh"
. "$(dirname "$0")/three_runs.sh"
what="data of the three runs"
three_runs_data "$GENERATE" "$work/data" || { echo "no data"; exit 1; }
for name in $three_runs; do
    what="$name on the CPU"
    three_runs_train "$name" "$BERTH" "$work/data" "$work/cpu" --device cpu >"$out" 2>"$err" ||
        fail "$(cat "$work/cpu/$name.log")"
    what="$name on the guarded device"
    three_runs_train "$name" "$GUARDED" "$work/data" "$work/guarded" --device cuda >"$out" 2>"$err" ||
        fail "$(cat "$work/guarded/$name.log")"
    three_runs_compare "$name" "$work/cpu" "$work/guarded" >"$out" 2>"$err" || fail "other bytes"
done
what="doctor of the program with the guarded device"
"$GUARDED" doctor >"$out" 2>"$err"
code=$?
expect_code 0
expect_out "guarded memory"
finish
