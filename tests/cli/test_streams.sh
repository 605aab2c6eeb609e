#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests standard streams: lines in, lines out; closed pipes; full disks; "-".
. "$(dirname "$0")/lib.sh"
make_vocabulary >"$work/vocab.txt"
vocab=$work/vocab.txt

same() { # TEXT: standard output is this
    [ "$(cat "$out")" = "$1" ] || fail "expected \"$1\""
}
tokenize() { # TEXT OPTIONS...
    what="tokenize $*"
    text=$1
    shift
    printf '%s\n' "$text" | "$BERTH" tokenize --vocab "$vocab" "$@" >"$out" 2>"$err"
    code=$?
}
tokenize 'Hello, wörld!'
same 'hello , world !'
tokenize 'Hello, wörld!' --ids -
same '89 6 90 8'
tokenize 'Hello, wörld!' --offsets
same 'hello:0-5 ,:5-6 world:7-12 !:12-13'
tokenize 'hi' --special --ids --offsets
same '2:0-0 37:0-1 40:1-2 3:0-0'
tokenize 'hi' --special --tokenizer google
same '[CLS] h ##i [SEP]'
tokenize 'Hi' --cased
same '[UNK]'
for verb in tokenize "prepare --text none --output none"; do
    run $verb --vocab "$vocab" --cased --do_lower_case true
    expect_code 2
    expect_err '--cased and --do_lower_case true contradict each other: give one'
done
tokenize 'the [MASK] is [mask]' --split_special
expect_no "$out" '[MASK]'
tokenize 'in [MASK] in[MASK]' --tokenizer google --no_split_special
same 'in [MASK] in [UNK] m ##a ##s ##k [UNK]'
tokenize 'in in[MASK]'
same 'in in [MASK]'
tokenize 'hello in' --max_word_length 4
same '[UNK] in'
tokenize ''
same ''
tokenize 'a b c' --no_do_lower_case
same 'a b c'

# A line in, a line out.
printf 'a\n\nb c\nlast without a newline' >"$work/lines"
run tokenize --vocab "$vocab" "$work/lines"
expect_code 0
[ "$(wc -l <"$out")" -eq 4 ] || fail "four lines expected"

what="ill-formed UTF-8"
printf 'a\377b \303\n' | "$BERTH" tokenize --vocab "$vocab" >"$out" 2>"$err"
same 'a ##b'
[ "$(grep -c warning "$err")" -eq 1 ] || fail "one warning expected"
expect_err 'dropped 2 ill-formed UTF-8 sequences of the input'
printf 'a\377b\n' | "$BERTH" tokenize --vocab "$vocab" >"$out" 2>"$err"
expect_err 'dropped 1 ill-formed UTF-8 sequence of the input'

# A folder as the input.
mkdir "$work/folder"
run tokenize --vocab "$vocab" "$work/folder"
expect_code 66
expect_err 'folder is a folder; expected a text'

what="a reader that goes away"
yes 'where did ada live?' | head -n 200000 >"$work/many"
"$BERTH" tokenize --vocab "$vocab" "$work/many" 2>"$err" | head -n 1 >"$out"
codes=("${PIPESTATUS[@]}")
code=${codes[0]}
expect_code 0
expect_empty "$err"
same 'where did ada l ##i ##v ##e ?'

what="a full disk"
[ -w /dev/full ] || echo "no /dev/full: full disks are not tried"
if [ -w /dev/full ]; then
    "$BERTH" tokenize --vocab "$vocab" "$work/many" >/dev/full 2>"$err"
    code=$?
    expect_code 74
    expect_err 'No space left'
fi

what="text from a FIFO"
"$BERTH" tokenize --vocab "$vocab" <(sleep 0.3; echo hello) >"$out" 2>"$err"
same hello
mkfifo "$work/fifo"
(sleep 0.3; echo hello world >"$work/fifo") &
"$BERTH" tokenize --vocab "$vocab" "$work/fifo" >"$out" 2>"$err"
same 'hello world'
wait

what="files may not grow any further"
(ulimit -f 8; exec "$BERTH" tokenize --vocab "$vocab" "$work/many") >"$work/limited" 2>"$err"
code=$?
expect_code 74
expect_err 'File too large'

# Features.
make_dataset "$work/data.json"
run features squad --vocab "$vocab" --input "$work/data.json" --training --count
expect_code 0
grep -qE '^examples=8 features=8 tokens=[0-9]+ cls_labelled=0$' "$out" || fail "counts"
run features squad --vocab "$vocab" --predict-file "$work/data.json" --jsonl --max_seq_length 20 \
    --doc_stride 4
[ "$(wc -l <"$out")" -gt 8 ] || fail "short windows should be more than 8"
grep -q '^{"example_id":"q1","unique_id":1000000000,"input_ids":\[2,' "$out" || fail "first line"
run features squad --vocab "$vocab" --input "$work/data.json" --jsonl --max_seq_length 24 --max_query_length 8 --doc_overlap 8
expect_code 0
python3 - "$out" <<'END' || fail "windows that share 8 tokens"
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
pairs = [(a, b) for a, b in zip(rows, rows[1:]) if a["example_id"] == b["example_id"]]
text = lambda row: row["input_ids"][row["token_type_ids"].index(1):-1]
assert pairs and all(text(a)[-8:] == text(b)[:8] for a, b in pairs), "tokens"
assert all(b["doc_span_start"] - a["doc_span_start"] == len(text(a)) - 8 for a, b in pairs), "doc_span_start"
END

what="a reader of features that goes away"
awk 'BEGIN { print "{\"version\":\"1.1\",\"data\":[{\"title\":\"t\",\"paragraphs\":["
    for (i = 0; i < 3000; i++) printf "%s{\"context\":\"ada lived in oslo\",\"qas\":[{\"id\":\"q%d\"," \
        "\"question\":\"where did ada live\",\"answers\":[]}]}\n", (i ? "," : ""), i
    print "]}]}" }' >"$work/large.json"
"$BERTH" features squad --vocab "$vocab" --input "$work/large.json" --jsonl 2>"$err" | head -c 10 >"$out"
codes=("${PIPESTATUS[@]}")
code=${codes[0]}
expect_code 0
expect_empty "$err"
if [ -w /dev/full ]; then
    "$BERTH" features squad --vocab "$vocab" --input "$work/large.json" --jsonl >/dev/full 2>"$err"
    code=$?
    expect_code 74
    expect_err 'No space left'
fi

# Every verb that writes to standard output, including a reporter's lines.
make_model "$work/model"
printf '{"q1":"Oslo"}' >"$work/one.json"
printf '{"log_history":[{"step":5,"loss":2},{"step":10,"loss":1}]}' >"$work/trained"
job="--model $work/model --output $work/out --max_seq_length 64 --threads 1 --quiet"
mkdir -p "$work/glue" && printf 'sentence\tlabel\na\t0\nb\t1\n' >"$work/glue/train.tsv"
while read -r words; do
    [ -w /dev/full ] || break
    what="berth $words >/dev/full"
    eval "\"$BERTH\" $words" >/dev/full 2>"$err" </dev/null
    code=$?
    expect_code 74
    expect_err 'No space left'
    rm -rf "$work/out"
    eval "\"$BERTH\" $words" 2>"$err" </dev/null | true
    codes=("${PIPESTATUS[@]}")
    [ "${codes[0]}" -eq 0 ] || fail "code ${codes[0]} when the reader went away"
    rm -rf "$work/out"
done <<END
--help
--version
finetune squad --help
finetune squad ${job% --quiet} --train $work/data.json --dry-run
finetune squad $job --train $work/data.json --dry-run --json_summary -
finetune squad $job --train $work/data.json --max_steps 1 --json_summary -
finetune squad $job --train $work/data.json --max_steps 1 --json
finetune classify ${job% --quiet} --task sst2 --data_dir $work/glue --do_eval false --dry-run
predict squad ${job% --quiet} --input $work/data.json --dry-run
predict squad $job --input $work/data.json --json
evaluate squad $work/data.json $work/one.json
answer --model $work/model --question Who --context Ada --quiet
show squad --model $work/model --input $work/data.json --max_seq_length 64 --num-test-samples 1
embed --model $work/model $work/lines
inspect $work/model
inspect $work/model --json
compare $work/model $work/model
plot $work/trained
doctor
END

what="text from a terminal, ended by one Ctrl-D"
TYPED='Ada lived in Oslo.' timeout 60 "$ON_TERMINAL" 80 "$BERTH" answer --model "$work/model" \
    --question Who --threads 1 --quiet >"$out" 2>"$err"
code=$?
expect_code 0

what="inputs that are FIFOs without a writer" # side by side, for each waits
waits=
while read -r words; do
    eval "timeout 60 \"$BERTH\" $words" >/dev/null 2>"$work/waits.${#waits}" </dev/null &
    waits="$waits $!"
done <<END
answer --model $work/model --question Who --context-file $work/fifo
embed --model $work/model $work/fifo
tokenize --vocab $vocab $work/fifo
tokenize --vocab $work/fifo $work/lines
evaluate squad $work/data.json $work/fifo
finetune squad ${job% --quiet} --train $work/fifo
finetune squad ${job% --quiet} --train $work/data.json --deepspeed_config $work/fifo
predict squad $job --input $work/fifo
init --config $work/fifo --output $work/made
vocab --text $work/fifo --output $work/made
inspect $work/fifo
END
for child in $waits; do
    wait "$child"
    code=$?
    expect_code 66
done
for err in "$work"/waits.*; do
    grep -qE "cannot read $work/fifo: (a FIFO that no process has opened for writing|not a regular file)" "$err" ||
        fail "another message"
done
err=$work/stderr
[ "$(grep -l 'a FIFO' "$work"/waits.* | wc -l)" -eq 9 ] || fail "not all but inspect and vocab wait for a writer"

what="no descriptor left"
for few in 5 6 7 8; do # with fewer the program cannot be loaded
    (ulimit -n $few; exec "$BERTH" finetune squad $job --train "$work/data.json" --max_steps 1) \
        >"$out" 2>"$err"
    code=$?
    [ "$code" -eq 0 ] || expect_code 74
    rm -rf "$work/out"
done

what="a model that does not fit"
(ulimit -f 8; exec "$BERTH" init --config tiny --output "$work/part") >"$out" 2>"$err"
code=$?
expect_code 74
[ ! -e "$work/part" ] || fail "half a model was left"

# Scores.
printf '{"q1":"Oslo","q2":"riga!","q3":"x","q4":"the Ada","q5":"Rome","q6":"Bern","q7":"Rita"}' \
    >"$work/predictions.json"
run evaluate squad "$work/data.json" "$work/predictions.json"
expect_code 0
same '{"exact_match": 75.0, "f1": 75.0}'

what="evaluate from standard input"
"$BERTH" evaluate squad "$work/data.json" - <"$work/predictions.json" >"$out" 2>"$err"
same '{"exact_match": 75.0, "f1": 75.0}'

# inspect and doctor.
run inspect "$work/model"
expect_code 0
expect_out 'bert.embeddings.word_embeddings.weight'
expect_out '[128, 32]'
run inspect "$work/model/model.safetensors" --json
expect_out '"name":"qa_outputs.bias"'
[ "$(wc -l <"$out")" -eq 1 ] || fail "one line expected"
run doctor
expect_code 0
expect_out generic
run doctor --json
expect_out '"instruction_sets":"generic'
grep -qE '"memory_total":[0-9]{9,},"memory_available":[0-9]{8,},' "$out" || fail "no bytes of memory"

# Names out of other people's files are shown on a terminal, not obeyed: in listings, in messages.
what="a hostile name on a terminal"
header='{"a\u001b]0;owned\u0007b\nc\u009b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
size=$(printf '\\x%02x' ${#header})
printf '%b' "$size\\0\\0\\0\\0\\0\\0\\0" >"$work/hostile.safetensors"
printf '%s\0\0\0\0' "$header" >>"$work/hostile.safetensors"
for words in inspect "compare $work/hostile.safetensors"; do
    # shellcheck disable=SC2086
    "$ON_TERMINAL" 120 "$BERTH" $words "$work/hostile.safetensors" >"$out" 2>"$err"
    ! LC_ALL=C grep -q $'[\033\007]' "$out" || fail "a control character reached the terminal: $words"
    ! LC_ALL=C grep -q $'\302\233' "$out" || fail "U+009B reached the terminal: $words"
done
run inspect "$work/hostile.safetensors"
expect_code 0
expect_out 'a\x1b]0;owned\x07b\x0ac\xc2\x9b'
"$ON_TERMINAL" 120 "$BERTH" --no-color inspect "$work/"$'no\033[2Jne' >"$out" 2>"$err"
! LC_ALL=C grep -q $'\033' "$out" || fail "a control character of a file's name in a message"
expect_out 'no\x1b[2Jne'

# A line without an end is refused before all of it is read.
truncate -s 5G "$work/endless"
run tokenize --vocab "$vocab" "$work/endless"
expect_code 65
expect_err 'a line is longer than 268435456 bytes'
rm "$work/endless"

# Verbs that write a file or folder do not make one called "-".
mkdir "$work/here"
cd "$work/here" || exit 1
for words in "vocab --text $vocab --size 60 --output" "init --config none --output" "convert none" "pack none" \
    "prepare --text $vocab --vocab $vocab --output" "prepare --input_file $vocab --vocab $vocab --output_file" \
    "finetune squad --model none --train none --output"; do
    # shellcheck disable=SC2086
    run $words -
    expect_code 2
    expect_err "does not write this to standard output; give it a name"
done
[ -z "$(ls -A)" ] || fail "something was written: $(ls -A)"
finish
