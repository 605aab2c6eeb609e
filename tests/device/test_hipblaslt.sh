#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Products as the module for AMD's GPUs makes them, by the emulation with a hipBLASLt of the tests: every operation is
# right; a library that is too old or has no memory is refused with a reason. BERTH: the program; OPERATIONS: the test
# of the emulated device; MODULE: the file of that module; SANITIZE: the sanitizers, with which every operation would take a
# minute: there only the products go through the library in all ways.
. "$(dirname "$0")/../cli/lib.sh"
export BERTH_MODULE_PATH
BERTH_MODULE_PATH=$(dirname "$MODULE")
all=operations
[ -z "${SANITIZE:-}" ] || all=
for what in $all products_in_tf32 products_with_odd_ends products_of_one_shape a_product_with_a_long_bias; do
    BY_LIBRARY=1 "$OPERATIONS" $what >"$out" 2>"$err" || fail "$what: $(grep -v '^\[' "$err" | tail -5)"
done
cd "$work" || exit 1
make_model model 64
printf 'ada lived in oslo\n' >texts.txt
run embed --model model texts.txt --device emulated
expect_code 0
mv "$out" exact
run embed --model model texts.txt --device emulated --tf32
expect_code 0
cmp -s exact "$out" && fail "--tf32 changes nothing"
BERTH_TEST_HIPBLASLT_VERSION=599 run embed --model model texts.txt --device emulated
expect_code 69
expect_err "libhipblaslt.so is older than 0.6, that of ROCm 6.0 (error 303): install it"
BERTH_TEST_HIPBLASLT_FULL=1 run embed --model model texts.txt --device emulated
expect_code 70
expect_err "hipBLASLt cannot allocate memory (error 2)"
BERTH_TEST_HIPBLASLT_REFUSES=1 run embed --model model texts.txt --device emulated
expect_code 69
expect_err "matrix product: hipBLASLt rejects an argument (error 10002): install the release of the library"
expect_no "$err" "Xid"
finish
