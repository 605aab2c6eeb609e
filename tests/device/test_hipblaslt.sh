#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Products as the module for AMD's GPUs makes them, by the emulation with a hipBLASLt of the tests: every operation is
# right; a library that is too old or has no memory is refused with a reason. BERTH: the program; OPERATIONS: the test
# of the emulated device.
. "$(dirname "$0")/../cli/lib.sh"
what="operations"
"$OPERATIONS" operations >"$out" 2>"$err" || fail "operations: $(grep -v '^\[' "$err" | tail -5)"
cd "$work" || exit 1
make_model model 64
printf 'ada lived in oslo\n' >texts.txt
run embed --model model texts.txt --device emulated
expect_code 0
BERTH_TEST_HIPBLASLT_VERSION=599 run embed --model model texts.txt --device emulated
expect_code 69
expect_err "libhipblaslt.so is older than 0.6, that of ROCm 6.0 (error 303): install it"
BERTH_TEST_HIPBLASLT_FULL=1 run embed --model model texts.txt --device emulated
expect_code 70
expect_err "hipBLASLt cannot allocate (error 2)"
finish
