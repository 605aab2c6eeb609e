#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests what a folder's files of the tokenizer do to texts; the expected tokens are those of transformers 5.24.
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 1
make_model model

tokens() { # TEXT EXPECTED [OPTION...]
    printf '%s\n' "$1" >text
    local expected=$2
    shift 2
    run tokenize --model model "$@" text
    expect_code 0
    [ "$(cat "$out")" = "$expected" ] || fail "other tokens than $expected"
}

# With --json an object for each line, whose parts are those that the line has without.
tokens 'Hello, hugo' '{"pieces":["hello",",","hugo"],"ids":[89,6,82],"offsets":[[0,5],[5,6],[7,11]]}' --json
tokens 'hugo' '{"pieces":["[CLS]","hugo","[SEP]"],"ids":[2,82,3],"offsets":[[0,0],[0,4],[0,0]]}' --json --special
tokens '"' '{"pieces":["[UNK]"],"ids":[1],"offsets":[[0,1]]}' --json

# An added token is found as it is written, not in normalized text and not in a word.
echo '{"<Q>": 91, "hell": 92}' >model/added_tokens.json
echo '{"extra_special_tokens": ["<Q>", "hell"]}' >model/special_tokens_map.json
tokens '<Q> hello HELLS' '<Q> hell o h ##e ##l ##l ##s'
# transformers 5 does not take the older name there for special tokens of added_tokens.json.
echo '{"additional_special_tokens": ["<Q>", "hell"]}' >model/special_tokens_map.json
tokens '<Q> hello HELLS' '<Q> hell o hell s'
rm model/added_tokens.json model/special_tokens_map.json

# What the settings say of inputs: with one type, both texts of a pair have type 0.
tokens '[SEP] a' '[SEP] a'
echo '{"split_special_tokens": true}' >model/tokenizer_config.json
tokens '(sep) [SEP]' '( s ##e ##p ) [UNK] s ##e ##p [UNK]'
tokens '[SEP]' '[SEP]' --split_special=false
printf 'a,b,label\nhello world,did hugo,0\nwho,rita,1\n' >pairs.csv
classify() { # FOLDER
    run predict classify --model classifier --input pairs.csv --text_column a --text_pair_column b \
        --precision fp32 --output "$1"
    expect_code 0
}
rm model/tokenizer_config.json
run finetune classify --model model --train pairs.csv --text_column a --text_pair_column b --label_column label --max_steps 1 \
    --learning_rate 0.1 --precision fp32 --output classifier --quiet
expect_code 0
classify two
expect_no "$err" "token type 0"
python3 - <<'END'
import json
settings = json.load(open("classifier/tokenizer_config.json"))
settings["model_input_names"] = ["input_ids", "attention_mask"]
json.dump(settings, open("classifier/tokenizer_config.json", "w"))
END
classify one
expect_err "second texts have the token type 0"
! cmp -s one/test_results.tsv two/test_results.tsv || fail "the types have no effect"
sed -i 's/"input_ids"/"token_type_ids", "input_ids"/' classifier/tokenizer_config.json
classify again
cmp again/test_results.tsv two/test_results.tsv || fail "token_type_ids"
# Settings that transformers obeys and Berth does not: a note.
noted() { # FILE JSON NOTE
    cp "classifier/$1" kept.json
    python3 - "classifier/$1" "$2" <<'END'
import json, sys
settings = json.load(open(sys.argv[1])) | json.loads(sys.argv[2])
json.dump(settings, open(sys.argv[1], "w"))
END
    classify noted
    if [ -n "$3" ]; then expect_err "$3"; else expect_no "$err" tokenizer_config.json; fi
    cmp noted/test_results.tsv two/test_results.tsv || fail "$2 has an effect"
    mv kept.json "classifier/$1"
    rm -r noted
}
settings=tokenizer_config.json
noted $settings '{"padding_side": "left"}' 'classifier: tokenizer_config.json: key "padding_side": "left" has no effect'
noted $settings '{"padding_side": "right", "auto_map": {"AutoModel": "own.Model"}}' ''
noted $settings '{"auto_map": {"AutoTokenizer": ["own.Slow", null]}}' "own tokenizer own.Slow is not run"
noted $settings '{"auto_map": {"AutoTokenizer": "own.One"}}' "own tokenizer own.One is not run"
noted $settings '{"auto_map": ["own.Slow", "own.Fast"]}' "own tokenizer own.Fast is not run"
noted config.json '{"auto_map": {"AutoTokenizer": [null, "own.Fast"]}}' \
    'classifier: config.json: key "auto_map": the folder'\''s own tokenizer own.Fast is not run'
# Some published models have more rows than their own vocabulary has words; another vocabulary must fit.
sed 's/"vocab_size": 128/"vocab_size": 100/' "$work/config.json" >rows.json
run init --config rows.json --output rows --seed 7 --quiet
make_vocabulary >rows/vocab.txt
cp rows/vocab.txt words.txt
for vocabulary in "" "--vocab rows/vocab.txt"; do
    # shellcheck disable=SC2086
    run answer --model rows $vocabulary --question "where?" --context "ada lived in oslo"
    expect_code 0
    expect_err 'vocab.txt has 91 entries, fewer than "vocab_size" 100 in rows/config.json: no text uses the model'
done
run convert rows rows-gguf --to gguf --allow_lossy
expect_code 0
expect_err 'fewer than "vocab_size" 100'
run answer --model rows --vocab words.txt --question "where?" --context "ada lived in oslo"
expect_code 78
expect_err 'words.txt has 91 entries, but "vocab_size" in rows/config.json is 100'
printf 'w%s\n' 0 1 2 3 4 5 6 7 8 9 >>rows/vocab.txt
run answer --model rows --question "where?" --context "ada lived in oslo"
expect_code 78
expect_err 'rows/vocab.txt has 101 entries, but "vocab_size" in rows/config.json is 100'
# A cased vocabulary with a tokenizer that is not.
{ make_vocabulary; printf '%s\n' A '##B' C D; } >capitals.txt
cased="answer --model model --vocab capitals.txt --question where? --context oslo"
run $cased
expect_code 0
expect_err 'texts are converted to lower case, but 4 of the 95 entries of capitals.txt have capital letters'
run $cased --do_lower_case false
expect_code 0
expect_no "$err" "capital letters"
# Without files that decide it, the casing is in the name of the folder, however its path is written.
mkdir my-cased
cp model/config.json model/vocab.txt my-cased
echo Hello >text
(cd my-cased && run tokenize --model . ../text && expect_out '[UNK]')
echo '{"model_max_length": 512}' >my-cased/tokenizer_config.json
run tokenize --model my-cased text
expect_out hello
# A text may be UTF-16, and a byte order mark is no part of it: the tokens and the offsets are those of UTF-8.
printf 'hello hugo\n\nwho?\nlast' >eight
run tokenize --model model --offsets eight
expect_out 'hugo:6-10'
cp "$out" tokens-of-eight
# Lines end in LF, CR LF or CR, and nowhere else.
printf 'hello hugo\r\r\nwho?\rlast\r' >ends
printf 'hello hugo\r\r\nwho?\rlast\r' | iconv -t utf-16le >wide
for name in ends wide; do
    "$BERTH" tokenize --model model --offsets <$name 2>"$err" | cmp -s - tokens-of-eight || fail "$name: other lines"
done
printf 'a\x0bb\fc\342\200\250d\302\205e\n' >inside
run tokenize --model model inside
[ "$(wc -l <"$out")" -eq 1 ] || fail "a form feed or U+2028 ends a line"
printf '\357\273\277' | cat - eight >mark
iconv -f utf-8 -t utf-16le eight >little
{ printf '\376\377' && iconv -f utf-8 -t utf-16be eight; } >big
for name in mark little big; do
    run tokenize --model model --offsets $name
    cmp -s "$out" tokens-of-eight || fail "$name: other tokens"
    "$BERTH" tokenize --model model --offsets <$name 2>"$err" | cmp -s - tokens-of-eight ||
        fail "$name: other tokens from standard input"
    run answer --model model --question who? --context_file $name --precision fp32 --json
    expect_code 0
    grep -o '"answers".*' "$out" >answers-of-$name
    cmp -s answers-of-mark answers-of-$name || fail "$name: other answers"
done
run answer --model model --question who? --context "$(cat eight)" --precision fp32 --json
grep -o '"answers".*' "$out" | cmp -s - answers-of-mark || fail "a byte order mark moves the answer"
{ cat little && printf x; } >half
run tokenize --model model half
expect_code 0
expect_err 'dropped 1 ill-formed UTF-8 sequence of the input'
iconv -f utf-8 -t utf-32 eight >wide
run tokenize --model model wide
expect_code 65
expect_err 'wide: the file is UTF-32'
gzip -c eight >packed
for verb in 'tokenize --model model' 'answer --model model --question who? --context_file'; do
    run $verb packed
    expect_code 65
    expect_err 'packed: compressed with gzip'
done

# The files have no place for these.
run finetune classify --model model --train pairs.csv --text_column a --text_pair_column b --label_column label \
    --max_steps 1 --output kept --max_word_length 9 --split_special --tokenizer google
expect_code 0
for name in max_word_length split_special 'tokenizer google'; do
    expect_err "$name is not kept in the model's files; give it again wherever the model is used"
done
run finetune classify --model model --train pairs.csv --text_column a --text_pair_column b --label_column label \
    --max_steps 1 --output other
expect_no "$err" "is not kept"
run finetune classify --model model --train pairs.csv --text_column a --text_pair_column b --label_column label \
    --max_steps 1 --output other --overwrite_output_dir --split_special=false
expect_err "split_special is not kept"
finish
