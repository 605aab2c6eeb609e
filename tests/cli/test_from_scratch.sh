#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests examples/from-scratch.sh at its smallest, from a synthetic dump to answers, twice: a second run
# repeats only the fine-tuning.
. "$(dirname "$0")/lib.sh"
script=$(dirname "$0")/../../examples/from-scratch.sh

make_dump >"$work/dump.xml"
make_dataset "$work/squad.json"
# As many characters as a vocabulary takes from real text, each at the beginning and inside of a word.
python3 -c 'print(*(chr(0xa000 + i) + chr(0xa001 + i) for i in range(1100)))' >"$work/characters.txt"

attempt() {
    what="from-scratch.sh, run $1"
    bash "$script" --tiny --berth "$BERTH" "$work/dump.xml" "$work/squad.json" "$work/squad.json" \
        "$work/made" "$work/characters.txt" >"$out" 2>"$err" </dev/null
    code=$?
    expect_code 0
    grep -qE '^pre-trained: .*"f1": ' "$out" || fail "no F1 of the pre-trained model"
    grep -qE '^random: .*"f1": ' "$out" || fail "no F1 of the random one"
}
attempt 1
[ ! -s "$failures" ] || finish
[ "$(wc -l <"$work/made/vocab.txt")" -le 2100 ] || fail "the vocabulary is larger than asked for"
for file in phase1/model.safetensors phase1/vocab.txt phase2/config.json squad/predictions.json; do
    [ -s "$work/made/$file" ] || fail "no $file"
done
run inspect "$work/made/phase2"
expect_out cls.predictions
state_of() {
    stat -c %Y.%i "$work"/made/data/hdf5_*/*/*_0.hdf5 # not written again
    cksum "$work"/made/phase[12]/model.safetensors
}
before=$(state_of)
[ "$(wc -l <<<"$before")" -gt 2 ] || fail "no shards: $before"
attempt 2
what="what the second run left alone"
[ "$before" = "$(state_of)" ] || fail "something was made again"
finish
