#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# berth embed: lines in, JSON lines or .npy out, the same numbers in both; a classifier's way from a
# table to its result files (its numbers are checked in tests/train).
. "$(dirname "$0")/lib.sh"
golden=$(cd "$(dirname "$0")/.." && pwd)/golden/encoder
small="--threads 1 --max_seq_length 16"

# --- embed ---------------------------------------------------------------------------------------

printf 'the red ball of anna is blue .\n\nwho has a coat ?\r\nben' >"$work/texts.txt" # no last newline
run embed --model "$golden" $small "$work/texts.txt"
expect_code 0
[ "$(wc -l <"$out")" -eq 4 ] || fail "expected a line for each of four texts"
grep -qE '^\{"index":3,"embedding":\[-?[0-9.e-]+(,-?[0-9.e-]+){23}\]\}$' "$out" || fail "the form of a line"
cp "$out" "$work/expected.jsonl"
run embed --model "$golden" $small --output "$work/e.jsonl" "$work/texts.txt"
expect_code 0
expect_empty "$out"
cmp -s "$work/e.jsonl" "$work/expected.jsonl" || fail "a file holds what standard output gets"
what="berth embed < texts"
"$BERTH" embed --model "$golden" $small <"$work/texts.txt" >"$out" 2>"$err"
cmp -s "$out" "$work/expected.jsonl" || fail "standard input is read like a file"
run embed --model "$golden" $small -o "$work/e.npy" "$work/texts.txt"
expect_code 0
head -c 128 "$work/e.npy" | grep -aqF "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 24), }" ||
    fail "the header of an .npy file"
[ "$(stat -c %s "$work/e.npy")" -eq $((128 + 4 * 24 * 4)) ] || fail "the size of an .npy file"
first=$(tail -c +129 "$work/e.npy" | od -An -tf4 -N4 | tr -d ' ')
json=$(sed -n '1s/.*"embedding":\[\([^,]*\),.*/\1/p' "$work/expected.jsonl")
[ "$(printf '%.5f' "$first")" = "$(printf '%.5f' "$json")" ] || fail "first number $first, in JSON $json"

run embed --model "$golden" $small --normalize false --pooling max "$work/texts.txt"
expect_code 0
cmp -s "$out" "$work/expected.jsonl" && fail "max without scaling is something else"
run embed --model "$golden" --pooling median "$work/texts.txt"
expect_code 2
expect_err 'option pooling: expected one of mean, cls, max, mean_sqrt_len_tokens, weightedmean, lasttoken, found "median"'
run embed --model "$golden" --normalize perhaps "$work/texts.txt"
expect_code 2
run embed "$work/texts.txt"
expect_code 2
expect_err "model_name_or_path"
run embed --model "$golden" "$work/none.txt"
expect_code 66
run embed --model "$golden" --output "$work/no/folder/e.npy" "$work/texts.txt"
expect_code 73
printf 'a\0b\n' >"$work/nul.txt"
run embed --model "$golden" "$work/nul.txt"
expect_code 65
expect_err "byte 1 is NUL"
: >"$work/empty.txt"
run embed --model "$golden" "$work/empty.txt"
expect_code 0
expect_empty "$out"

# --- classify ------------------------------------------------------------------------------------

make_model "$work/model"
{
    echo "text,label"
    for who in Ada Hugo Olga Rita; do
        echo "$who lived in Oslo.,north"
        echo "$who lived in Rome.,south"
    done
} >"$work/train.csv"
run finetune classify --model "$work/model" --train "$work/train.csv" --dev "$work/train.csv" \
    --text-column text --label-column label --output "$work/out" --epochs 2 --batch_size 4 \
    --threads 1 --json
expect_code 0
grep -qE '^\{"steps":4,"final_loss":[0-9.e-]+,"accuracy":[0-9.]+,' "$out" || fail "the result"
expect_err "accuracy"
for file in config.json model.safetensors eval_results.txt eval_results.json train_results.json all_results.json; do
    [ -s "$work/out/$file" ] || fail "no $file"
done
run predict classify --model "$work/out" --input "$work/train.csv" --text-column text --output "$work/said"
expect_code 0
[ "$(wc -l <"$work/said/test_results.tsv")" -eq 8 ] || fail "a line for each text"
head -n 1 "$work/said/predict_results.txt" | grep -q "^index	prediction$" || fail "the header of the predictions"
run finetune classify --help
expect_code 0
expect_out "--text_column NAME"
expect_no "$out" "doc_stride"
run help predict classify
expect_code 0
expect_out "test_results.tsv"
run finetune classify --model "$work/model" --train "$work/train.csv" --text-column txt \
    --label-column label --output "$work/none"
expect_code 65
expect_err 'did you mean "text"?'
run finetune classify --model "$work/model" --task mrpc --data_dir "$work" --output "$work/none"
expect_code 66
expect_err "expected the files of MRPC"
finish
