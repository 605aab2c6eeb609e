#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# --profile: the trace of some updates has what they consist of and nothing of others; the same bytes come of a run with
# it, in one process and in two. DeepSpeed's wall_clock_breakdown.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../comm/launch.sh"
export BERTH_MODULE_PATH
BERTH_MODULE_PATH=$(dirname "$BERTH")
make_wide_model "$work/model"
make_questions "$work/data.json" 40
settings="$(training_settings) --gradient_accumulation_steps 2 --precision fp32"

trace() { # FILE FIRST LAST SAVINGS RANKS: what is in the file
    python3 - "$@" <<'END' >"$out" 2>"$err"
import json
import sys

path, first, last, savings, ranks = sys.argv[1], *map(int, sys.argv[2:])
events = json.load(open(path))["traceEvents"]
spans = [event for event in events if event["ph"] == "X"]
updates = list(range(first, last + 1))


def of(category):
    return [span for span in spans if span["cat"] == category]


def names_of(category, update):
    return sorted(span["name"] for span in of(category) if span["args"]["update"] == update)


assert [event["name"] for event in events if event["ph"] == "M"] == ["process_name"], "no name of the process"
assert {span["pid"] for span in spans} == {0} and min(span["ts"] for span in spans) == 0, "process or origin"
assert [span["args"]["update"] for span in of("update")] == updates, f"updates {of('update')}"
assert len(of("saving")) == savings, f"savings {of('saving')}"
for update in updates:
    operations = names_of("operation", update)
    assert operations == names_of("operation", first), f"update {update} has other operations"
    assert names_of("phase", update) == ["backward"] * 2 + ["forward"] * 2 + ["step"], names_of("phase", update)
    assert operations.count("embed_forward") == operations.count("embed_backward") == 2 == operations.count("span_loss")
    assert "adamw" in operations and operations.count("attention_backward") == operations.count("attention_forward")
    assert names_of("data", update) == ["pack", "pack", "take"], names_of("data", update)
    assert "download" in names_of("copy", update), names_of("copy", update)
    called = names_of("communication", update)
    assert ("wait" in called and "agree" in called) if ranks > 1 else called == [], called
# One span is within another, or after it.
open_spans = []
for span in sorted(spans, key=lambda span: (span["ts"], -span["dur"])):
    while open_spans and open_spans[-1]["ts"] + open_spans[-1]["dur"] <= span["ts"] + 1e-6:
        open_spans.pop()
    if open_spans:
        assert span["ts"] + span["dur"] <= open_spans[-1]["ts"] + open_spans[-1]["dur"] + 0.002, (span, open_spans[-1])
    open_spans.append(span)
forward = [span for span in of("phase") if span["name"] == "forward"]
for span in of("operation"):
    inside = any(phase["ts"] <= span["ts"] and span["ts"] + span["dur"] <= phase["ts"] + phase["dur"] + 0.002
                 for phase in forward)
    if span["name"].startswith("attention"):
        assert inside == (span["name"] == "attention_forward"), span
END
    code=$?
    expect_code 0
}

# One process.
run finetune squad $settings --output "$work/plain"
expect_code 0
run finetune squad $settings --output "$work/traced" --profile 2:4
expect_code 0
expect_err "profile of updates 2 to 4: $work/traced/profile.json"
same plain traced
[ ! -e "$work/plain/profile.json" ] || fail "a profile that nobody asked for"
trace "$work/traced/profile.json" 2 4 1 1
run finetune squad $settings --output "$work/last" --profile 6 --profile_output "$work/six.json" --overwrite_output_dir
expect_code 0
same plain last
trace "$work/six.json" 6 6 1 1

# Without a value, updates 2 to 4, of those that there are; as Intel's --profile. Habana's --profile_steps is none.
run finetune squad $settings --output "$work/switch" --max_steps 3 --profile --profile_steps 1:1
expect_code 2
expect_err 'unknown option --profile_steps; run_squad.py of habana has it'
[ ! -e "$work/switch" ] || fail "something was written"
run finetune squad $settings --output "$work/switch2" --max_steps 3 --profile
expect_code 0
trace "$work/switch2/profile.json" 2 3 1 1

# Impossible requests.
for wrong in 4:2 0:3 a:b 2:; do
    run finetune squad $settings --output "$work/wrong" --profile $wrong
    expect_code 2
    expect_err "expected updates a:b with 1 <= a <= b, found \"$wrong\""
    [ ! -e "$work/wrong" ] || fail "a run with --profile $wrong began"
done
run finetune squad $settings --output "$work/never" --profile 7:9 --max_steps 2
expect_code 0
expect_err "no profile: none of updates 7 to 9 was done"
run finetune squad $settings --output "$work/nowhere" --profile 1:2 --max_steps 3 --profile_output "$work/none/p.json"
expect_code 0
expect_err "cannot write the profile: cannot create $work/none/p.json"

for mpi in $(find_mpis); do
    launch "$mpi" 2 finetune squad $settings --virtual_ranks 2 --zero_stage 1 --output "$work/$mpi"
    expect_code 0
    launch "$mpi" 2 finetune squad $settings --virtual_ranks 2 --zero_stage 1 --output "$work/$mpi-traced" --profile 2:4
    expect_code 0
    same "$mpi" "$mpi-traced"
    trace "$work/$mpi-traced/profile.json" 2 4 1 2
done

# wall_clock_breakdown.
echo '{"train_batch_size": 8, "gradient_accumulation_steps": 2, "wall_clock_breakdown": true}' >"$work/ds.json"
run finetune squad $settings --output "$work/clock" --deepspeed_config "$work/ds.json" --json_summary "$work/clock.jsonl"
expect_code 0
sed -i 's/true/false/' "$work/ds.json"
run finetune squad $settings --output "$work/no-clock" --deepspeed_config "$work/ds.json"
expect_code 0
same no-clock clock
[ "$(grep -c '"forward_ms": *[0-9.]*, *"backward_ms": *[0-9.]*, *"step_ms": *[0-9.]*, *"micro_batches_per_update": *2[^0-9]' \
    "$work/clock.jsonl")" -eq 6 ] || fail "not every step has its times"
finish
