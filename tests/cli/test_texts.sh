#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests the verbs of tasks on texts (cli/run.c) that have no test of their own: berth classify, tag, rerank, hidden;
# where texts come from, and what is refused. The numbers are those of transformers (tests/golden/README.md).
. "$(dirname "$0")/lib.sh"
golden=$(cd "$(dirname "$0")/.." && pwd)/golden
cd "$work" || exit 1
classifier="--model $golden/classifier --precision fp32 --threads 1 --max_seq_length 16"
tagger="--model $golden/tags --precision fp32 --threads 1"

# --- classes, tags and hidden states are transformers' ------------------------------------------

python3 - "$golden" <<'END'
import json, sys
texts = json.load(open(sys.argv[1] + "/classifier/expected.json"))["texts"]
with open("pairs.jsonl", "w") as file:
    for each in texts:
        pair = {} if each["pair"] is None else {"text_pair": each["pair"]}
        print(json.dumps({"text": each["text"], **pair}), file=file)
with open("tagged.txt", "w") as file:
    for each in json.load(open(sys.argv[1] + "/tags/tags.json")):
        print(each["text"], file=file)
END
run classify $classifier --jsonl pairs.jsonl
expect_code 0
expect_err "note: 2 of 7 texts have more tokens than max_seq_length 16"
cp "$out" classes.jsonl
run hidden $classifier --jsonl pairs.jsonl
expect_code 0
cp "$out" hidden.jsonl
run tag $tagger tagged.txt
expect_code 0
cp "$out" tags.jsonl
what="the numbers"
python3 - "$golden" <<'END' >"$out" 2>"$err" || fail "other numbers than transformers'"
import json, sys
def lines(name):
    return [json.loads(line) for line in open(name)]
def near(a, b, bound):
    assert abs(a - b) <= bound, (a, b)
texts = json.load(open(sys.argv[1] + "/classifier/expected.json"))["texts"]
labels = ["no", "maybe", "yes"]
found, states = lines("classes.jsonl"), lines("hidden.jsonl")
assert len(found) == len(states) == len(texts)
for i, (each, classes, state) in enumerate(zip(texts, found, states)):
    assert [c["score"] for c in classes] == sorted((c["score"] for c in classes), reverse=True)
    for one in classes:
        near(one["score"], each["scores"]["default"][labels.index(one["label"])], 2e-6)
    assert state["index"] == i and len(state["hidden_states"]) == len(each["ids"])
    for value, expected in zip((v for row in state["hidden_states"] for v in row), each["hidden"], strict=True):
        near(value, expected, 2e-5)
for each, tags in zip(json.load(open(sys.argv[1] + "/tags/tags.json")), lines("tags.jsonl"), strict=True):
    # transformers' words are decoded tokens, in lower case
    assert [(t["entity_group"], t["start"], t["end"]) for t in tags] == \
           [(t["entity_group"], t["start"], t["end"]) for t in each["first"]], tags
    for tag, expected in zip(tags, each["first"]):
        near(tag["score"], expected["score"], 1e-5)
        assert tag["word"] == each["text"][tag["start"]:tag["end"]], tag
END

# --- the precision is the library's ----------------------------------------------------------------

what="the precision without --precision"
for verb in classify tag; do
  model=$golden/classifier
  [ $verb = tag ] && model=$golden/tags
  "$BERTH" $verb --model $model --threads 1 --quiet --json --text "Ada lived in Oslo." >default.jsonl
  "$BERTH" $verb --model $model --threads 1 --quiet --json --text "Ada lived in Oslo." --precision auto >auto.jsonl
  cmp default.jsonl auto.jsonl || fail "berth $verb is not in the precision auto"
  run $verb --help
  grep -q "auto: bf16" "$out" || fail "the help of berth $verb names another default"
done
"$BERTH" hidden --model $golden/classifier --threads 1 --quiet --text "Ada lived in Oslo." >default.jsonl
"$BERTH" hidden --model $golden/classifier --threads 1 --quiet --text "Ada lived in Oslo." --precision fp32 >fp32.jsonl
cmp default.jsonl fp32.jsonl || fail "berth hidden is not in fp32"

# --- what transformers' pipelines have as parameters -----------------------------------------------

what="parameters of the pipelines"
BERTH=$BERTH python3 - "$golden" <<'END' >"$out" 2>"$err" || fail "other results than transformers'"
import json, math, os, pathlib, shutil, subprocess, sys
golden = pathlib.Path(sys.argv[1])
def berth(verb, model, text, *options):
    done = subprocess.run([os.environ["BERTH"], verb, "--model", str(model), "--threads", "1", "--precision", "fp32",
                           "--text", text, "--quiet", *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
def same(found, expected, keys):
    assert [[one[key] for key in keys] for one in found] == [[one[key] for key in keys] for one in expected], found
    assert all(abs(a["score"] - b["score"]) < 1e-5 for a, b in zip(found, expected)), found
place = ("entity_group", "start", "end")
for row in json.load(open(golden / "tags/tags.json")):
    for how in ("average", "max"):
        same(berth("tag", golden / "tags", row["text"], "--json", "--aggregation", how), row[how], place)
    for case in row["ignored"]:
        labels = json.dumps(case["labels"])
        same(berth("tag", golden / "tags", row["text"], "--json", "--ignore_labels", labels), case["found"], place)
for row in json.load(open(golden / "fill/fill.json")):
    found = berth("fill", golden / "fill", row["text"], "--top", "4", "--targets", ",".join(row["targets"]))
    lists = (found, row["among"]) if isinstance(found[0], list) else ([found], [row["among"]])
    for own, other in zip(*lists, strict=True):
        same(own, other, ("token", "sequence"))
# Entailment of each label, from the logits of the pairs.
shutil.copytree(golden / "classifier", "nli")
config = json.load(open("nli/config.json"))
config["id2label"] = {"0": "neutral", "1": "Entailment", "2": "contradiction"}
config["label2id"] = {name: int(i) for i, name in config["id2label"].items()}
json.dump(config, open("nli/config.json", "w"))
text, labels = "The red ball of Anna is blue.", ["ball", "book, lamp", "coat"]
logits = [{one["label"]: one["score"] for one in berth("classify", "nli", text, "--json", "--score", "none", "--text_pair",
           f"the {label} is red")} for label in labels]
def softmax(row):
    powers = [math.exp(one - max(row)) for one in row]
    return [one / sum(powers) for one in powers]
one_of = softmax([row["Entailment"] for row in logits])
alone = [softmax([row["neutral"], row["Entailment"]])[1] for row in logits]
for multi, scores in (("false", one_of), ("true", alone)):
    found = berth("classify", "nli", text, "--json", "--candidate_labels", json.dumps(labels), "--hypothesis_template",
                  "the {} is red", "--multi_label", multi)
    best = sorted(zip(scores, labels), reverse=True)
    assert found["sequence"] == text and found["labels"] == [label for _, label in best], found
    assert all(abs(a - b) < 1e-5 for a, (b, _) in zip(found["scores"], best)), (found, best)
END
run classify $classifier --text "a ball" --candidate_labels red,blue
expect_code 2
expect_err 'has no class whose name begins with "entail"'
run classify --model nli --text "a ball" --candidate_labels red --hypothesis_template "It is red."
expect_code 2
expect_err 'hypothesis_template: expected {} in it'
run classify --model nli --text "a ball" --candidate_labels '[""]'
expect_code 2
expect_err "candidate_labels: element 0: expected a text"
run tag $tagger --text "a ball" --aggregation sum
expect_code 2
expect_err 'option aggregation: expected one of first, average, max, none, found "sum"'
run fill --model "$golden/fill" --text "the [MASK]" --targets zebra
expect_code 2
expect_err 'targets: "zebra" is not one word'

# --- a text, lines, standard input, JSON lines ---------------------------------------------------

run classify $classifier --text "The red ball of Anna is blue."
expect_code 0
cmp -s "$out" <(head -n 1 classes.jsonl) || fail "a text of the command line has other classes"
run classify $classifier --text "who has a coat" --text_pair "Ben has a coat and a lamp."
cmp -s "$out" <(sed -n 3p classes.jsonl) || fail "a pair of the command line has other classes"
run classify $classifier --text "who has a coat"
! cmp -s "$out" <(sed -n 3p classes.jsonl) || fail "the second text has no effect"
what="berth classify < texts"
printf 'The red ball of Anna is blue.\n' | "$BERTH" classify $classifier >"$out" 2>"$err"
cmp -s "$out" <(head -n 1 classes.jsonl) || fail "standard input has other classes"
"$BERTH" classify $classifier --jsonl - <pairs.jsonl 2>"$err" | cmp -s - classes.jsonl ||
    fail "JSON lines of standard input have other classes"
run classify $classifier --text "The red ball of Anna is blue." --top 1
[ "$(grep -o label "$out" | wc -l)" -eq 1 ] || fail "--top 1 prints several classes"
run classify $classifier --text "The red ball of Anna is blue." --score none
! cmp -s "$out" <(head -n 1 classes.jsonl) || fail "--score has no effect"
run classify $classifier --text "what colour has the book of ben and the ball of cora and the lamp" --overflow error
expect_code 2
expect_err "berth: error: the text has more than the 16 tokens that the model reads"
yes 'The red ball of Anna is blue.' | head -n 600 >many.txt # several rounds
run classify $classifier many.txt
[ "$(sort -u "$out" | wc -l) $(wc -l <"$out")" = "1 600" ] || fail "lines of a later round differ"

# People get lines of their own, programs JSON.
what="berth classify on a terminal"
"$ON_TERMINAL" 80 "$BERTH" classify $classifier --quiet --text "The red ball of Anna is blue." >"$out" 2>"$err"
expect_out "  1.  60.7 %  no"
"$ON_TERMINAL" 80 "$BERTH" classify $classifier --quiet --json --text "The red ball of Anna is blue." >"$out" 2>"$err"
expect_out '[{"label":"no","score":'
"$ON_TERMINAL" 80 "$BERTH" tag $tagger --quiet --text "$(head -n 1 tagged.txt)" >"$out" 2>"$err"
expect_out "LOC  quick fox"

# --- documents -----------------------------------------------------------------------------------

make_model model
printf 'first,second,score\nwho lived in oslo,ada,0.5\nwho lived in riga,hugo,4.5\n' >rows.csv
run finetune classify --model model --train rows.csv --text_column first --text_pair_column second \
    --label_column score --max_steps 1 --output ranker --quiet
expect_code 0
printf '%s\n' 'ada lived in oslo' 'hugo lived in riga' 'who "x"' 'ada lived in oslo' >documents.txt
ranker="--model ranker --threads 1"
query="who lived in riga"
ranked() { # FILE [TOP], of the scores of each line: the lines that are expected, the best first
    "${BERTH_PYTHON:-python3}" -B -c '
import json, sys
texts = open("documents.txt").read().splitlines()
scores = [json.loads(line) for line in open(sys.argv[1])]
order = sorted(range(len(texts)), key=lambda i: (-scores[i], i))[:int(sys.argv[2])]
for i in order:
    print(json.dumps({"index": i, "score": scores[i], "text": texts[i]}, separators=(",", ":")))' "$1" "${2:-99}"
}
scores() { # the score of each document, one a line, by berth classify
    while read -r document; do
        run classify "$@" --text "$query" --text_pair "$document"
        sed 's/.*"score"://; s/}.*//' "$out"
    done <documents.txt
}
scores $ranker --score sigmoid >sigmoids
scores $ranker --score none >logits
[ "$(sort -u sigmoids | wc -l)" -eq 3 ] || fail "the documents have the same score"
run rerank $ranker --query "$query" documents.txt
expect_code 0
cmp -s "$out" <(ranked sigmoids) || fail "not the scores of classify, the best first"
cp "$out" ranked.jsonl
run rerank $ranker --query "$query" documents.txt --score none
cmp -s "$out" <(ranked logits) || fail "not the logits, the best first"
run rerank $ranker --query "$query" documents.txt --top_n 2
cmp -s "$out" <(head -n 2 ranked.jsonl) || fail "not the best two"
"$BERTH" rerank $ranker --query "$query" <documents.txt 2>"$err" | cmp -s - ranked.jsonl || fail "standard input has other scores"
run rerank $ranker --query "$query" --document "ada lived in oslo"
cmp -s "$out" <(grep '"index":0,' ranked.jsonl) || fail "a document of the command line has another score"
"$ON_TERMINAL" 80 "$BERTH" rerank $ranker --quiet --query "$query" --top_n 1 documents.txt >"$out" 2>"$err"
[ "$(tr -d '\r' <"$out" | sed 's/.*  //')" = "$(sed -n '1s/.*"text":"\(.*\)"}/\1/p' ranked.jsonl | sed 's/\\//g')" ] ||
    fail "the best document on a terminal"
# Documents of several queries, which need not follow each other.
for query in "$query" hello; do
    while read -r document; do
        printf '{"query": "%s", "document": "%s"}\n' "$query" "${document//\"/\\\"}"
    done <documents.txt
done >asked.jsonl
sed -n '1p;5,8p;2,4p' asked.jsonl >mixed.jsonl
run rerank $ranker --jsonl asked.jsonl
cmp -s <(head -n 4 "$out") ranked.jsonl || fail "JSON lines have other scores"
run rerank $ranker --jsonl mixed.jsonl --top_n 1
[ "$(grep -o '"score.*' "$out")" = "$("$BERTH" rerank $ranker --jsonl asked.jsonl 2>"$err" | sed -n '1p;5p' | grep -o '"score.*')" ] ||
    fail "not the best of each query"
# More documents than are run together.
for i in $(seq 300); do cat documents.txt; done >many.txt
run rerank $ranker --query "who lived in riga" many.txt
[ "$(grep -o '"index":[0-9]*' "$out" | sort -u | wc -l)" -eq 1200 ] || fail "not each document once"
grep -o '"score":[^,]*' "$out" | cmp -s - <(grep -o '"score":[^,]*' ranked.jsonl | while read -r line; do
    for i in $(seq 300); do echo "$line"; done
done) || fail "documents of later rounds have other scores"

# A model of several classes is asked for one.
query="who lived in riga"
run rerank --model "$golden/classifier" --query who --document ben
expect_code 2
expect_err "has 3 classes (no, maybe, yes); name the one whose score ranks the documents with label"
run rerank --model "$golden/classifier" --query who --document ben --label perhaps
expect_code 2
expect_err "label: expected one of the classes of $golden/classifier (no, maybe, yes), found \"perhaps\""
for how in auto none; do
    while read -r document; do
        run classify $classifier --text "$query" --text_pair "$document" --score $how
        sed 's/.*"maybe","score"://; s/}.*//' "$out"
    done <documents.txt >maybe
    run rerank $classifier --query "$query" --label maybe --score $how documents.txt
    cmp -s "$out" <(ranked maybe) || fail "not the scores of the class, the best first"
done
run rerank $ranker --query "$query" --label LABEL_0 documents.txt
cmp -s "$out" ranked.jsonl || fail "the name of the only class has an effect"
printf '%s\n' '{"question": "Who?", "context": "Ada lived."}' '{"question": "Who?", "context": "Hugo."}' >asked.jsonl
run answer --model model --allow_new_head --jsonl asked.jsonl --json
expect_code 0
[ "$(wc -l <"$out")" -eq 2 ] && expect_out '{"question":"Who?","answer":' || fail "no line for each question"

# --- errors --------------------------------------------------------------------------------------

refused() { # CODE TEXT WORD...
    local expected=$1 text=$2
    shift 2
    run "$@"
    expect_code "$expected"
    expect_err "$text"
    expect_empty "$out"
}
refused 66 "none: no such folder, and no model with that name" classify --model none --text a
refused 66 "/none: no such file or folder; expected a model folder" classify --model "$work/none" --text a
refused 78 "the head of a classifier; train one with" classify --model model --text a
refused 2 "option --query is required; usage: berth rerank" rerank $ranker --document a
refused 2 "option --text is required" classify $classifier --text_pair a
refused 2 "--text and the file documents.txt contradict each other" classify $classifier --text a documents.txt
refused 2 "--jsonl and the file documents.txt contradict each other" classify $classifier --jsonl pairs.jsonl documents.txt
refused 2 "option top_n: expected a whole number of at least 1" rerank $ranker --query a --document b --top_n 0
refused 2 "unknown option --top_n" classify $classifier --text a --top_n 1
refused 2 "--document is blank" rerank $ranker --query a --document ' '
refused 2 "unknown option --max_answer_length" classify $classifier --max_answer_length 3
printf '%s\n' '{"query": "a", "document": "b"}' '{"query": "a"}' >bad.jsonl
refused 65 'bad.jsonl: line 2: key "document": expected a text, found nothing' rerank $ranker --jsonl bad.jsonl
printf '%s\n' '{"text": 1}' >bad.jsonl
refused 65 'bad.jsonl: line 1: key "text": expected a text' classify $classifier --jsonl bad.jsonl
refused 65 "documents.txt: line 1" classify $classifier --jsonl documents.txt

# The names of the library's tasks are those of training, too.
run finetune answer --help
expect_code 0
expect_out "berth finetune squad"
run finetune tag --model model
expect_code 2
expect_err "option --train_file is required; usage: berth finetune tokens"
printf 'hello world\nwho lived in rome\n' >lines.txt
for words in "finetune fill" "finetune mlm" "pretrain --objective mlm"; do
    run $words --model model --train lines.txt --dev lines.txt --line_by_line --max_steps 1 --precision fp32 --threads 1 \
        --output "out-${words%% *}" --overwrite_output_dir --quiet
    expect_code 0
    sha256sum <"out-${words%% *}/model.safetensors" >>sums
done
[ "$(sort -u sums | wc -l)" -eq 1 ] || fail "finetune fill trains another model than pretrain --objective mlm"
finish
