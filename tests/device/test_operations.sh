#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The program bench_operations: figures for people and as JSON, of which a report makes a table; its errors.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
sizes=(--config tiny --rows 64 --length 16 --repeats 1 --threads 1)
fail() { echo "FAILED: $1" >&2; cat out err >&2; exit 1; }
run() { # CODE WORDS...: its output and errors are in out and err
    local code=$1
    shift
    "$OPERATIONS" "$@" >out 2>err
    [ $? -eq "$code" ] || fail "bench_operations $*: not exit code $code"
}
run 0 ops "${sizes[@]}" --json
grep -q '"operations":\[{"name":' out || fail "no operations"
cp out ops.json
run 0 gemm "${sizes[@]}" --precision fp32 --json
cp out gemm.json
"$BERTH" report ops.json gemm.json --output page.html 2>err || fail "berth report"
grep -q '<th scope="col">gflops</th>' page.html || fail "the report has no table of operations"
all=$(grep -o '"name":' ops.json | wc -l)
products=$(grep -o '"name":' gemm.json | wc -l)
[ "$products" -gt 4 ] && [ "$products" -lt "$all" ] || fail "$products of $all operations are products"
run 0 gemm "${sizes[@]}" --precision fp32
grep -qE '^peak_gflops .* GFLOP/s$' out && grep -qE '^operation .* of floor$' out || fail "no table"
run 2 ops "${sizes[@]}" --only layer_norm
grep -q '"layer_norm" in its name' err || fail "no such operation"
run 2 peak "${sizes[@]}"
grep -q 'expected gemm or ops, found "peak"' err || fail "no such table"
run 2 gemm --config huge
grep -q 'no built-in' err || fail "no such geometry"
run 66 gemm --config none/config.json
echo "all good"
