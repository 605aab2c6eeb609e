#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests the log that a run leaves, --report and --report_every, `berth report` and `berth plot`: of a run that ended,
# one that was killed and resumed, several, a peer and benchmarks. report_page.py looks at the pages.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
cd "$work" || exit 1
make_model model 128
make_dataset data.json
# A question and a context that would be markup if anything of them were.
cat >odd.json <<'END'
{"version": "1.1", "data": [{"title": "", "paragraphs": [
 {"context": "<script>document.title='executed'</script> Ada lived in Oslo.", "qas": [
  {"id": "q1", "question": "<img src=x onerror=\"document.title='executed'\"> Where did Ada live?",
   "answers": [{"text": "Oslo", "answer_start": 56}]}]}]}]}
END
squad="--model model --train data.json --validation_file odd.json --max_seq_length 96 --max_query_length 32 --doc_stride 32
    --threads 1 --train_batch_size 2 --learning_rate 1e-2 --logging_steps 1 --evaluation_strategy steps --eval_steps 2"

# A fine-tuning with its page.
run finetune squad $squad --output first --max_steps 6 --report pages/first.html
expect_code 0
what="log of a run"
[ "$(grep -c '"kind":"step"' first/log.jsonl)" -eq 6 ] || fail "six steps"
for name in '"kind":"event","text":"Config"' '"kind":"plan","text":"memory"' '"model_flops":' '"rss_bytes":' '"grad_norm":' \
    '"kind":"detail","text":"length"' '"kind":"detail","text":"sample"' '"kind":"summary"'; do
    grep -qF "$name" first/log.jsonl || fail "no $name"
done
what="page of a run"
[ -s pages/first.html ] || fail "none"
grep -q 'update 6 of 6, ended' pages/first.html || fail "state"
grep -q 'data-points="2 [^"]* 4 [^"]* 6 [^"]*" data-name="first"' pages/first.html || fail "three evaluations"
run report first --output again.html
expect_code 0
expect_err "wrote again.html"
what="the same page from the log"
diff <(sed 's/report of .* UTC//' again.html) <(sed 's/report of .* UTC//' pages/first.html) >/dev/null || fail "it differs"

# SQuAD 2.0: the scores have thresholds, and the page has their curves. Every line of the log is a record.
python3 - <<'END'
import json
data = json.load(open("odd.json"))
questions = data["data"][0]["paragraphs"][0]["qas"]
questions[0]["is_impossible"] = False
questions.append({"id": "q2", "question": "Where did Hugo live?", "answers": [], "is_impossible": True})
json.dump(data, open("v2.json", "w"))
END
run finetune squad $squad --validation_file v2.json --version_2_with_negative --output third --max_steps 4 --report pages/third.html
expect_code 0
what="page of SQuAD 2.0"
grep -q 'update 4 of 4, ended</span>' pages/third.html || fail "state"
grep -q '<th scope="row">Best score</th>' pages/third.html || fail "best score"
python3 - <<'END' || fail "the outcome is not told in words, or without units"
import html, json, re
page = open("pages/first.html", encoding="utf-8").read()
summary = [json.loads(line) for line in open("first/log.jsonl")][-1]
rows = dict(re.findall(r'<th scope="row">([^<]*)</th><td>([^<]*)</td>', page.partition("<h2>Outcome")[2].partition("</table>")[0]))
rows = {html.unescape(key): html.unescape(value) for key, value in rows.items()}
assert not [key for key in rows if "_" in key], rows
assert rows["Time of training"] == "%.2f s" % summary["train_seconds"], rows
assert rows["F1"].split() == ["%.2f" % summary["f1"]] + ["%"] * (summary["f1"] > 1), rows
assert re.fullmatch(r"[\d.]+ sequences/s", rows["Speed of training"]) and re.fullmatch(r"[\d.]+ MiB", rows["Largest memory of the process"]), rows
assert "Model FLOPs utilisation" not in rows or summary["mfu"] is not None, rows
assert "<h1>first</h1>" in page and f'<p class="headline">F1 <b>{rows["F1"]}</b>' in page
END
grep -q 'F1 of questions with an answer' pages/third.html || fail "title"
grep -q 'No-answer threshold' pages/third.html || fail "curve of thresholds"

# Tags of words: every tagged word is counted, and samples are words in their sentences.
printf 'Ada B-PER\nlived O\nin O\nOslo B-LOC\n\nHugo B-PER\nsaw O\n<b> O\n' >tags.txt
run finetune tokens --model model --train_file tags.txt --validation_file tags.txt --output fourth --max_steps 2 --learning_rate 0 \
    --threads 1 --report pages/fourth.html
expect_code 0
what="details of tags"
python3 - <<'END' || fail "they differ"
import json
records = [json.loads(line) for line in open("fourth/log.jsonl")]
details = [record for record in records if record["kind"] == "detail" and record.get("step") == 2]
cells = [d for d in details if d["text"] == "confusion"]
samples = [d for d in details if d["text"] == "sample"]
words = [line.split() for line in open("tags.txt") if line.strip()]
assert sum(cell["count"] for cell in cells) == len(words) == len(samples), (cells, samples)
right = sum(cell["count"] for cell in cells if cell["expected"] == cell["predicted"])
accuracy = [record["accuracy"] for record in records if record["kind"] == "eval"][-1]
assert abs(right / len(words) - accuracy) < 1e-12, (right, accuracy)
assert sum(sample["score"] == 100 for sample in samples) == right and right < len(words)
assert {(s["question"], s["expected"]) for s in samples} == {tuple(word) for word in words}
for sample in samples:
    key = "expected" if sample["score"] == 100 else "predicted"
    assert sample["context"][sample[key + "_begin"]:sample[key + "_end"]] == sample["question"], sample
    assert 0 < sample["probability"] < 1
END
# Classes: every row is counted, also those of the first class.
printf 'text,label\nada lived in oslo,no\nhugo lived in riga,yes\nolga lived in bern,no\n' >classes.csv
run finetune classify --model model --train_file classes.csv --validation_file classes.csv --output classes --max_steps 1 --threads 1 \
    --report classes.html
expect_code 0
what="details of classes"
python3 - <<'END' || fail "they differ"
import collections
import json
counts = collections.Counter()
for record in map(json.loads, open("classes/log.jsonl")):
    if record["kind"] == "detail" and record["text"] == "confusion" and record.get("step") == 1:
        counts[record["expected"]] += record["count"]
assert counts == {"no": 2, "yes": 1}, counts
END
grep -q '<mark class="wrong">&lt;b&gt;</mark>\|<mark class="right">&lt;b&gt;</mark>' pages/fourth.html || fail "no marked word"

# The axis of updates ends with the last one, at whole numbers.
what="the axis of updates"
for steps in 6 7 254; do
    { echo '{"log_history": ['; for step in $(seq "$steps"); do echo "{\"step\": $step, \"loss\": 0.0000$step},"; done
      echo "{\"step\": $steps, \"eval_f1\": 1}]}"; } >axis.json
    run report axis.json --output axis.html
    ticks=$(grep -oE '<div class="xs"[^>]*>(<span>[^<]*</span>)*' axis.html | head -n 1 | grep -oE '[0-9.e-]+</span>' | cut -d '<' -f 1)
    [ "$(echo "$ticks" | tail -n 1)" = "$steps" ] && [ "$(echo "$ticks" | wc -l)" -gt 2 ] && ! echo "$ticks" | grep -q '\.' ||
        fail "ticks: $(echo $ticks)"
    ! grep -oE '<div class="ys"[^>]*>(<span>[^<]*</span>)*' axis.html | head -n 1 | grep -oE '>[0-9.e-]+<' | grep -qE '0\.0000[1-9]' ||
        fail "small numbers in two notations"
done

# A dry run leaves neither.
run finetune squad $squad --output dry --max_steps 6 --report dry.html --dry_run
expect_code 0
[ ! -e dry ] && [ ! -e dry.html ] || fail "files of a dry run"
run finetune squad $squad --output no --max_steps 1 --report /dev/null/x.html
expect_code 73
expect_err "report: "
run finetune squad $squad --output note --max_steps 1 --report_every 5
expect_code 0
expect_err "report_every has no effect without report"

# Killed, with half a line: it is shown; then resumed, and marked.
run finetune squad $squad --output second --max_steps 8 --save_steps 2 --save_total_limit 9 --seed 5
expect_code 0
rm -rf second/checkpoint-[68]
printf '{"time":1,"kind":"step","step":7,"lo' >>second/log.jsonl
run report second --output killed.html
expect_code 0
grep -q '1 incomplete or unknown line skipped' killed.html || fail "half a line"
run plot second
expect_code 0
expect_out "Loss"
run finetune squad $squad --output second --max_steps 8 --save_steps 2 --save_total_limit 9 --seed 5 --resume_from_checkpoint auto \
    --report pages/second.html --report_every 1
expect_code 0
what="page of a resumed run"
grep -q 'resumed: first report at update 5' pages/second.html || fail "mark"
grep -q '<td>second/checkpoint-4</td>' pages/second.html || fail "checkpoint"
grep -q '2 processes' pages/second.html || fail "processes"

# While the run goes on: there is a page before it ends.
run finetune squad $squad --output live --max_steps 100000 --report pages/live.html --report_every 1 --overwrite_output_dir &
process=$!
for _ in $(seq 300); do
    grep -q 'class="line" d="M[^"]*L' pages/live.html 2>/dev/null && break
    sleep 0.1
done
what="a page while the run goes on"
grep -q ', not ended' pages/live.html || fail "none"
pkill -INT -P "$process"
wait "$process"

# Several, a peer, benchmarks.
cat >trainer_state.json <<'END'
{
 "log_history": [{"step": 2, "loss": 4.0, "learning_rate": 0.01, "grad_norm": 1.0}, {"step": 6, "loss": 2.0},
  {"step": 6, "eval_f1": 75.0}],
 "max_steps": 6
}
END
run report first second trainer_state.json --output pages/several.html
expect_code 0
[ "$(grep -o 'data-name="trainer_state.json"' pages/several.html | wc -l)" -eq 4 ] || fail "series of the peer"
# A truth that two peers share is no difference.
for truth in true false; do
    echo '{"log_history": [{"loss": 1.5, "step": 1}, {"train_runtime": 2.5, "done": '$truth', "step": 1}]}' >done-$truth.json
done
run report done-true.json done-true.json --output same.html
expect_code 0
grep -q '<tr><th scope="row">Done</th>' same.html || fail "a truth in common differs"
run report done-true.json done-false.json --output other.html
grep -q '<tr class="differs"><th scope="row">Done</th>' other.html || fail "truths do not differ"
mkdir -p peer/checkpoint-6 peer/checkpoint-8.abandoned peer/checkpoint-best
cp trainer_state.json peer/checkpoint-6
echo "{}" | tee peer/checkpoint-8.abandoned/trainer_state.json >peer/checkpoint-best/trainer_state.json
run report peer --output pages/peer.html # of the newest checkpoint, which is no other folder
expect_code 0
grep -q 'data-points="2 4 6 2"' pages/peer.html || fail "not the losses of checkpoint-6"
"$BERTH" bench peak --seconds 0.01 --threads 1 --json >tiny.json 2>/dev/null
run bench train --config tiny --data data.json --vocab_file model/vocab.txt --max_seq_length 64 --steps 1 --threads 1 \
    --report pages/train.html
expect_code 0
grep -q '<th scope="row">samples_per_second</th>' pages/train.html || fail "figures"
mkdir -p bench/data bench/vocab
cp data.json bench/data
run bench train --config tiny --data bench/data/data.json --max_seq_length 64 --steps 1 --threads 1
expect_code 2
expect_err "no vocabulary next to bench/data/data.json; name one with vocab_file"
cp model/vocab.txt bench/vocab/words-vocab.txt
run bench train --config tiny --data bench/data/data.json --max_seq_length 64 --steps 1 --threads 1
expect_code 0
run report nowhere
expect_code 66
mkdir empty
run report empty
expect_code 66
run report data.json model/vocab.txt
expect_code 65
expect_err "(without log_format dllogger)"

run report $(yes first | head -n 64) --output many.html
expect_code 0
run report $(yes first | head -n 65) --output more.html
expect_code 2
expect_err '"first": `berth report` takes at most 64 names'

# Nothing but an earlier file of the same kind is replaced: everything else is refused before any work.
kept() { # FILE COMMAND...: refused, and the file is as it was
    local sum
    sum=$(cksum <"$1")
    run "${@:2}"
    expect_code 73
    expect_err "$1"
    [ "$(cksum <"$1")" = "$sum" ] || fail "$1 was replaced"
}
train="finetune squad $squad --max_steps 1"
echo precious >precious.txt
run report first --output again.html # a report
expect_code 0
# To standard output: "-" is no file, and what the shell has opened stays what it is.
run report first --output -
expect_code 0
expect_empty "$err"
[ ! -e ./- ] || fail 'a file "-"'
diff <(sed 's/report of .* UTC//' "$out") <(sed 's/report of .* UTC//' again.html) >/dev/null || fail "another page"
"$BERTH" report first --output - 2>"$err" | true
codes=("${PIPESTATUS[@]}")
code=${codes[0]}
expect_code 0
if [ -w /dev/full ]; then
    "$BERTH" report first --output - >/dev/full 2>"$err"
    code=$?
    expect_code 74
    expect_err 'No space left'
fi
ln -s /proc/self/fd/1 linked
"$BERTH" report first --output linked >written.html 2>"$err"
code=$?
expect_code 73
expect_err "cannot create linked: the program's output goes there"
[ -L linked ] || fail "the link was replaced"
run $train --output refused --report -
expect_code 2
expect_err 'report: expected a file, found "-"'
kept first/log.jsonl report first --output first/log.jsonl
kept trainer_state.json report trainer_state.json --output trainer_state.json
kept second/checkpoint-4/model.safetensors report first --output second/checkpoint-4/model.safetensors
expect_err "is not a report of Berth"
kept data.json $train --output refused --report data.json
[ ! -e refused ] || fail "a run has begun"
kept tiny.json bench peak --seconds 0.01 --threads 1 --report tiny.json
expect_no "$out" gflops
kept precious.txt bench ranks --config tiny --data data.json --vocab_file model/vocab.txt --steps 1 --hosts 2 --threads 1 \
    --save_times precious.txt
kept precious.txt $train --output refused --profile --profile_output precious.txt
kept precious.txt $train --output refused --json_summary precious.txt
kept precious.txt $train --output refused --json_summary precious.txt --resume_from_checkpoint auto # nor appended to
kept first/log.jsonl $train --output refused --json_summary first/log.jsonl
[ ! -e refused ] || fail "a run has begun"
run $train --output refused --json_summary refused/log.jsonl # its own log
expect_code 73
expect_err "json_summary: refused/log.jsonl is the log of a run"
run $train --output refused --report refused/log.jsonl
expect_code 73
expect_err "report: refused/log.jsonl exists and is not a report"
grep -q '"kind":"plan"' refused/log.jsonl || fail "its own log is gone"
for form in plain dllogger deepspeed; do # a command can be repeated
    run $train --output repeated --overwrite_output_dir --log_format $form --report pages/repeated.html --json_summary log.jsonl \
        --profile --profile_output trace.json
    expect_code 0
done
[ "$(grep -c '"kind":"summary"' log.jsonl)" -eq 1 ] || fail "the earlier summary is replaced"
: >log.jsonl # as mktemp makes it
run $train --output repeated --overwrite_output_dir --json_summary log.jsonl
expect_code 0
cp log.jsonl kept.jsonl
run $train --output repeated --json_summary log.jsonl # refused, because the folder is used
expect_code 73
cmp -s log.jsonl kept.jsonl || fail "a run that was refused has replaced the lines"
what="a summary on standard output, which is a file with other lines"
echo first >all.txt
"$BERTH" $train --output repeated --overwrite_output_dir --json_summary /dev/stdout >>all.txt 2>/dev/null || fail "refused"
{ [ "$(head -n 1 all.txt)" = first ] && grep -q '"kind":"summary"' all.txt; } || fail "lines are missing"
"$BERTH" $train --output repeated --overwrite_output_dir --json_summary /dev/stdout >all.txt 2>&1 || fail "refused"
python3 -c '
import json, sys
records = [json.loads(line) for line in sys.stdin if line.startswith("{")]
sys.exit(not {"plan", "summary"} <= {record["kind"] for record in records})' <all.txt || fail "messages overwrite lines"

# Plots fill their columns, and no more.
for columns in 60 120; do
    run plot first --columns "$columns"
    expect_code 0
    widest=$(python3 -c 'import sys; print(max(len(line.rstrip("\n")) for line in open(sys.argv[1], encoding="utf-8")))' "$out")
    [ "$widest" -eq "$columns" ] || fail "$widest columns"
done
run plot first second --series f1,grad_norm
expect_code 0
expect_out "F1"
expect_out "Norm of the gradient"
expect_no "$out" "$escape"
run plot first --series what
expect_code 2
expect_err "no such series; expected one of: loss"
FORCE_COLOR=1 "$BERTH" plot first second >"$out"
grep -q "$escape\[36m" "$out" || fail "colours"
what="berth plot first second on a terminal"
"$ON_TERMINAL" 80 "$BERTH" plot first second >"$out"
grep -q "$escape\[36m" "$out" || fail "colours"
expect_no "$out" '\x1b'

[ ! -s "$failures" ] || finish
"${BERTH_PYTHON:-python3}" -B "$here/report_page.py" pages
