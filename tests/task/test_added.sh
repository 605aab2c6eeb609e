#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A task whose row is linked into the program (count.c) and nothing else: it is a verb with help, a task of the server, and
# a task of the library and of the Python package.
. "$(dirname "$0")/../cli/lib.sh"
make_model "$work/model"
sed -i 's/ForQuestionAnswering/ForCounting/' "$work/model/config.json"

what="the command line"
run count --model "$work/model" --text "two words"
expect_code 0
[ "$(cat "$out")" = '{"index":0,"counts":[2,9]}' ] || fail "expected 2 and 9"
run count --help
expect_code 0
grep -qF "the number of words and of bytes of a text" "$out" || fail "no help"
run count
expect_code 2

if "${BERTH_PYTHON:-python3}" -c 'import numpy' 2>/dev/null; then
    what="Python"
    PYTHONPATH=$(dirname "$0")/../../package/wheel "${BERTH_PYTHON:-python3}" -B - "$work/model" >"$out" 2>"$err" <<'PYTHON'
import sys, berth
with berth.open(sys.argv[1]) as model:
    print(model.text("task"), model.text("tasks"), model.run("count", ["two words", "one"]).tolist())
PYTHON
    code=$?
    expect_code 0
    [ "$(cat "$out")" = "count count tokenize [[2.0, 9.0], [1.0, 3.0]]" ] || fail "expected other tasks or counts"
fi

if [ -n "$HAS_SERVE" ]; then
    what="the server"
    "$BERTH" serve --model "$work/model" --port 0 >"$out" 2>"$err" </dev/null &
    server=$!
    for _ in $(seq 200); do grep -q "listening on http" "$err" || sleep 0.05; done
    "${BERTH_PYTHON:-python3}" - "$(grep -oE 'http://[^ ,]*' "$err" | head -n 1)" >"$out" <<'PYTHON'
import json, sys, urllib.request
root = sys.argv[1]
asked = urllib.request.Request(root + "/", json.dumps({"inputs": "two words"}).encode(), {"Content-Type": "application/json"})
print(json.load(urllib.request.urlopen(asked)), json.load(urllib.request.urlopen(root + "/v1/models"))["data"][0]["task"])
PYTHON
    kill $server
    wait $server
    [ "$(cat "$out")" = "[2, 9] word-count" ] || fail "expected the counts"
fi
finish
