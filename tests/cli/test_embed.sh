#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests berth embed: lines in, JSON lines or .npy out, the same numbers in both; and a classifier from a table
# to its result files (tests/train checks its numbers).
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
run embed --model "$golden" $small --output - "$work/texts.txt"
cmp -s "$out" "$work/expected.jsonl" || fail "- is standard output"
what="berth embed < texts"
"$BERTH" embed --model "$golden" $small <"$work/texts.txt" >"$out" 2>"$err"
cmp -s "$out" "$work/expected.jsonl" || fail "standard input is read like a file"
# Lines end as in Python's text files.
printf 'the red ball of anna is blue .\r\r\nwho has a coat ?\rben' >"$work/ends.txt"
run embed --model "$golden" $small "$work/ends.txt"
cmp -s "$out" "$work/expected.jsonl" || fail "a lone CR does not end a line"
printf 'the\x0bred\fball\342\200\250of\342\200\251anna\302\205is\n' >"$work/inside.txt"
run embed --model "$golden" $small "$work/inside.txt"
[ "$(wc -l <"$out")" -eq 1 ] || fail "another character than LF and CR ends a line"
run embed --model "$golden" $small -o "$work/e.npy" "$work/texts.txt"
expect_code 0
head -c 128 "$work/e.npy" | grep -aqF "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 24), }" ||
    fail "the header of an .npy file"
[ "$(stat -c %s "$work/e.npy")" -eq $((128 + 4 * 24 * 4)) ] || fail "the size of an .npy file"
run embed --model "$golden" $small -o "$work/E.NPY" "$work/texts.txt"
cmp "$work/e.npy" "$work/E.NPY" || fail "another format for .NPY"
first=$(tail -c +129 "$work/e.npy" | od -An -tf4 -N4 | tr -d ' ')
json=$(sed -n '1s/.*"embedding":\[\([^,]*\),.*/\1/p' "$work/expected.jsonl")
[ "$(printf '%.5f' "$first")" = "$(printf '%.5f' "$json")" ] || fail "first number $first, in JSON $json"

# Texts that are cut are counted; "auto" is fp32, given by name or not.
printf 'ben\nthe red ball of anna is blue .\nwho has a coat ?\nthe red ball of anna is blue .\n' >"$work/long.txt"
run embed --model "$golden" --threads 1 --max_seq_length 8 "$work/long.txt"
expect_code 0
expect_err "note: 2 of 4 texts have more tokens than max_seq_length 8 and were truncated; the first is text 2"
run embed --model "$golden" $small --precision auto "$work/texts.txt"
cmp -s "$out" "$work/expected.jsonl" || fail "--precision auto is not fp32"
expect_no "$err" "precision:"
expect_no "$err" "left out;"

# A file of embeddings is replaced; the texts, also those of standard input, and other files are not.
cp "$work/texts.txt" "$work/kept.txt"
cp "$work/e.npy" "$work/kept.npy"
for name in e.jsonl e.npy; do
    run embed --model "$golden" $small --output "$work/$name" "$work/kept.txt"
    expect_code 0
done
run embed --model "$golden" $small "$work/kept.txt" --output "$work/kept.txt"
expect_code 73
expect_err "is the same file as the input"
run embed --model "$golden" $small "$work/e.jsonl" --output "$work/e.jsonl"
expect_code 73
run embed --model "$golden" $small --output "$work/kept.txt" <"$work/kept.txt"
expect_code 73
expect_err "kept.txt exists and is not embeddings as JSON lines"
cmp -s "$work/texts.txt" "$work/kept.txt" || fail "the texts are lost"
ln -f "$work/texts.txt" "$work/texts.npy"
run embed --model "$golden" $small "$work/kept.txt" --output "$work/texts.npy"
expect_code 73
expect_err "texts.npy exists and is not an array of NumPy"
cmp -s "$work/e.npy" "$work/kept.npy" || fail "the same embeddings"

run embed --model "$golden" $small --normalize false --pooling max "$work/texts.txt"
expect_code 0
cmp -s "$out" "$work/expected.jsonl" && fail "max without scaling is something else"
cp "$out" "$work/plain.jsonl"
for flag in --no_normalize --no-normalize; do # also of an option that only this verb has
    run embed --model "$golden" $small $flag --pooling max "$work/texts.txt"
    expect_code 0
    cmp -s "$out" "$work/plain.jsonl" || fail "$flag is --normalize false"
done
run embed --model "$golden" --no_pooling "$work/texts.txt"
expect_code 2
expect_err "unknown option --no_pooling"
run embed --model "$golden" --no_normalize=true "$work/texts.txt"
expect_code 2
expect_err "unknown option --no_normalize"
# The length is the model's number of positions; also for a classifier.
run embed --model "$golden" --threads 1 "$work/texts.txt"
expect_code 0
expect_no "$err" max_seq_length
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
printf 'text a\0b\n' >"$work/nul.txt"
run embed --model "$golden" "$work/nul.txt"
expect_code 65
expect_err "nul.txt: line 1: a NUL byte"
printf 'cafe\ncaf\351\n' >"$work/latin.txt"
run embed --model "$golden" "$work/latin.txt"
expect_code 65
expect_err "latin.txt: line 2: not UTF-8"
: >"$work/empty.txt"
run embed --model "$golden" "$work/empty.txt"
expect_code 0
expect_empty "$out"

# --- a folder of sentence-transformers -----------------------------------------------------------

cp -r "$golden" "$work/sentence"
mkdir "$work/sentence/1_Pooling"
echo '[{"type": "sentence_transformers.models.Transformer", "path": ""},
       {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]' >"$work/sentence/modules.json"
echo '{"pooling_mode": "cls", "embedding_dimension": 24}' >"$work/sentence/1_Pooling/config.json"
echo '{"max_seq_length": 8}' >"$work/sentence/sentence_bert_config.json"
run embed --model "$golden" --threads 1 --max_seq_length 8 --pooling cls --normalize false "$work/texts.txt"
expect_code 0
expect_err "pooling: cls instead of the model's mean"
cp "$out" "$work/expected.jsonl"
run embed --model "$work/sentence" --threads 1 "$work/texts.txt"
expect_code 0
cmp -s "$out" "$work/expected.jsonl" || fail "the folder's pooling, scaling and length"
for format in hf torch tensorflow nvidia deepspeed; do
    run convert "$work/sentence" "$work/converted-$format" --to $format
    expect_code 0
    run embed --model "$work/converted-$format" --threads 1 "$work/texts.txt"
    cmp -s "$out" "$work/expected.jsonl" || fail "convert --to $format keeps the modules"
done
run embed --model "$work/sentence" --threads 1 --max_seq_length 10 --normalize true "$work/texts.txt"
expect_err "max_seq_length: 10 instead of the model's 8"
expect_err "normalize: true instead of the model's false"
# The keys of older versions, with different values for each pooling.
for mode in cls_token mean_tokens max_tokens mean_sqrt_len_tokens weightedmean_tokens lasttoken; do
    echo "{\"pooling_mode_$mode\": true}" >"$work/sentence/1_Pooling/config.json"
    run embed --model "$work/sentence" --threads 1 "$work/texts.txt"
    expect_code 0
    cp "$out" "$work/pooled_$mode"
done
[ "$(cat "$work"/pooled_* | sort -u | wc -l)" -ge 18 ] || fail "poolings give the same numbers"
cmp -s "$work/pooled_cls_token" "$work/expected.jsonl" || fail "an older version's key"
echo '{"pooling_mode": ["cls", "mean"]}' >"$work/sentence/1_Pooling/config.json"
run embed --model "$work/sentence" "$work/texts.txt"
expect_code 78
expect_err "found several"
echo '[{"type": "x.Transformer", "path": ""}, {"type": "x.Pooling", "path": "1_Pooling"},
       {"type": "x.LSTM", "path": "2_LSTM"}]' >"$work/sentence/modules.json"
echo '{}' >"$work/sentence/1_Pooling/config.json"
run embed --model "$work/sentence" "$work/texts.txt"
expect_code 78
expect_err "a module LSTM"

# --- tokenizer.json instead of vocab.txt --------------------------------------------------------

cp -r "$golden" "$work/today"
rm "$work/today/vocab.txt"
{
    printf '%s' '{"normalizer": {"type": "BertNormalizer"}, "pre_tokenizer": {"type": "BertPreTokenizer"},' \
        '"model": {"type": "WordPiece", "vocab": {'
    sed 's/["\\]/\\&/g' "$golden/vocab.txt" |
        awk '{ printf "%s\"%s\": %d", (NR > 1 ? ", " : ""), $0, NR - 1 }'
    echo '}}}'
} >"$work/today/tokenizer.json"
run embed --model "$golden" $small "$work/texts.txt"
cp "$out" "$work/expected.jsonl"
run embed --model "$work/today" $small "$work/texts.txt"
expect_code 0
cmp -s "$out" "$work/expected.jsonl" || fail "tokenizer.json holds the same words"
run convert "$work/today" "$work/both" --to hf
expect_code 0
cmp -s "$work/both/vocab.txt" "$golden/vocab.txt" || fail "vocab.txt made from tokenizer.json"
cmp -s "$work/both/tokenizer.json" "$work/today/tokenizer.json" || fail "tokenizer.json copied"
printf '[UNK]\ncafe\ncaf\303\251\n\344\270\255\n##\345\233\275\n\345\233\275\n' >"$work/accents.txt"
printf 'Caf\303\251 \344\270\255\345\233\275\n' >"$work/accents"
for rules in ":1 3 5" "--strip_accents false:2 3 5" "--tokenize_chinese_chars false:1 3 4" \
    "--do_lower_case false --strip_accents true:0 3 5"; do
    run tokenize --vocab "$work/accents.txt" --ids ${rules%:*} "$work/accents"
    expect_code 0
    expect_out "${rules#*:}"
done
# sentence-transformers lower-cases before a cased tokenizer, which keeps the accents.
mkdir "$work/lower"
cp "$work/accents.txt" "$work/lower/vocab.txt"
echo '{"do_lower_case": false}' >"$work/lower/tokenizer_config.json"
echo '{"do_lower_case": true}' >"$work/lower/sentence_bert_config.json"
for rules in ":0 3 5" "--do_lower_case true:1 3 5"; do
    run tokenize --model "$work/lower" --ids ${rules%:*} "$work/accents"
    expect_out "${rules#*:}"
done
echo '[]' >"$work/lower/modules.json"
for rules in ":2 3 5" "--do_lower_case false:0 3 5" "--strip_accents true:1 3 5"; do
    run tokenize --model "$work/lower" --ids ${rules%:*} "$work/accents"
    expect_out "${rules#*:}"
done
sed 's/"hidden_act": "[a-z_]*"/"hidden_act": "relu"/' "$golden/config.json" >"$work/today/config.json"
run convert "$work/today" "$work/gguf" --to gguf --allow_lossy
expect_code 78
expect_err "hidden_act is relu"
sed 's/"hidden_act": "[a-z_]*"/"hidden_act": "prelu"/' "$golden/config.json" >"$work/today/config.json"
run embed --model "$work/today" "$work/texts.txt"
expect_code 78
expect_err 'found "prelu"'

# --- a signal while it writes ---------------------------------------------------------------------

mkdir "$work/stopped"
yes "Ada lived in Oslo." | head -n 1000000 >"$work/many.txt"
what="embed --output, interrupted"
"$BERTH" embed --model "$golden" --threads 1 "$work/many.txt" --output "$work/stopped/e.npy" >"$out" 2>"$err" </dev/null &
embedding=$!
until [ -n "$(ls "$work/stopped")" ] || ! kill -0 $embedding; do sleep 0.05; done
kill -TERM $embedding
wait $embedding
code=$?
expect_code 143
expect_err "nothing was written: stopped on request after "
[ -z "$(ls "$work/stopped")" ] || fail "a file is left: $(ls "$work/stopped")"
rm "$work/many.txt"

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
# Several labels at once: arrays, or commas between them.
{
    for who in Ada Hugo Olga Rita; do
        echo "{\"text\": \"$who lived in Oslo.\", \"label\": [\"north\", \"cold\"]}"
        echo "{\"text\": \"$who lived in Rome.\", \"label\": [\"south\"]}"
    done
    echo '{"text": "Nobody.", "label": []}'
} >"$work/several.jsonl"
run finetune classify --model "$work/model" --train "$work/several.jsonl" --dev "$work/several.jsonl" \
    --text-column text --label-column label --output "$work/several" --epochs 30 --learning_rate 5e-3 --precision fp32 \
    --batch_size 4 --threads 1 --no_evaluate_every_epoch --json_summary "$work/several.log"
expect_code 0
grep -q '"from":7,"to":7,"sequences":8,"tokens":56,"longest":9,' "$work/several.log" || fail "texts of 7 tokens"
grep -q '"from":9,"to":9,"sequences":1,"tokens":9,"longest":9,' "$work/several.log" || fail "texts of 9 tokens"
for limit in 8 2; do # 5 checkpoints: all stay, or 2, with a third while the oldest is removed
    run finetune classify --model "$work/model" --train "$work/several.jsonl" --text-column text --label-column label \
        --output "$work/planned" --max_steps 10 --save_steps 2 --save_total_limit $limit --dry-run --threads 1 \
        --json_summary "$work/planned.log"
    expect_code 0
    size=$(sed -n 's/.*"checkpoint_bytes":\([0-9]*\).*/\1/p' "$work/planned.log")
    grep -q "\"disk_bytes\":$((size * (limit == 2 ? 3 : 5) + size / 3))[,}]" "$work/planned.log" || fail "disk, limit $limit"
done
grep -q '"problem_type": "multi_label_classification"' "$work/several/config.json" || fail "the problem's type"
grep -q "f1 = " "$work/several/eval_results.txt" || fail "F1 of several labels"
printf 'text\tlabel\nAda lived in Oslo.\tcold, north\nNobody.\t\n' >"$work/several.tsv"
run predict classify --model "$work/several" --input "$work/several.tsv" --text-column text \
    --label-column label --output "$work/said_several"
expect_code 0
[ "$(awk -F'\t' 'NF == 3 { n++ } END { print n }' "$work/said_several/test_results.tsv")" = 2 ] ||
    fail "three sigmoids for each text"
# Scores of several labels, from the sigmoids: micro F1, and the share of texts with all decisions right.
run predict classify --model "$work/several" --input "$work/several.jsonl" --text-column text \
    --label-column label --output "$work/scored_several"
expect_code 0
python3 - "$work/several.jsonl" "$work/scored_several" <<'END' || fail "scores of several labels"
import json, sys
classes = ["cold", "north", "south"]
with open(sys.argv[1]) as file:
    labels = [json.loads(line)["label"] for line in file]
with open(sys.argv[2] + "/test_results.tsv") as file:
    found = [{name for name, chance in zip(classes, line.split()) if float(chance) > 0.5} for line in file]
with open(sys.argv[2] + "/predict_results.json") as file:
    scores = json.load(file)
both, total = sum(len(f & set(w)) for f, w in zip(found, labels)), sum(len(f) + len(w) for f, w in zip(found, labels))
right = sum(f == set(w) for f, w in zip(found, labels))
assert len(found) == len(labels) and right > 0 and both > 0, (found, scores)
assert abs(scores["predict_f1"] - 2 * both / total) < 1e-9, (both, total, scores)
assert abs(scores["predict_accuracy"] - right / len(labels)) < 1e-9, (right, scores)
END
printf 'text\tlabel\nAda.\twarm\n' >"$work/several.tsv"
run predict classify --model "$work/several" --input "$work/several.tsv" --text-column text \
    --label-column label --output "$work/said_none"
expect_code 65
expect_err 'the model has no label "warm"'
# Two classes without names are LABEL_0 and LABEL_1.
sed -i '/id2label/,/}/d; /label2id/,/}/d; /problem_type/d' "$work/out/config.json"
run predict classify --model "$work/out" --input "$work/train.csv" --text-column text --output "$work/unnamed"
expect_code 0
grep -q "LABEL_[01]$" "$work/unnamed/predict_results.txt" || fail "names of unnamed classes"
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
