#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The memory of four ranks in bf16, in ZeRO stages 0, 1 and 2: the peak of each process stays below that rank's plan, and
# reaches all that the plan counts exactly. Skipped with sanitizers, whose memory is in no plan.
. "$(dirname "$0")/../cli/lib.sh"
. "$(dirname "$0")/launch.sh"
[ -z "$SANITIZE" ] || { echo "skipped: a build with sanitizers"; exit 77; }

make_model "$work/small"
sed 's/"hidden_size": 32/"hidden_size": 384/; s/"intermediate_size": 64/"intermediate_size": 1536/
     s/"num_hidden_layers": [0-9]*/"num_hidden_layers": 12/; s/"num_attention_heads": [0-9]*/"num_attention_heads": 6/' \
    "$work/config.json" >"$work/wide.json"
run init --config "$work/wide.json" --output "$work/model"
expect_code 0
cp "$work/small/vocab.txt" "$work/model"
cat >"$work/data.json" <<'END'
{"version": "1.1", "data": [{"title": "words", "paragraphs": [{"context": "a bb ccc dddd a bb ccc dddd", "qas": [
{"id": "0", "question": "which", "answers": [{"text": "bb", "answer_start": 2}]},
{"id": "1", "question": "which word", "answers": [{"text": "ccc", "answer_start": 5}]},
{"id": "2", "question": "which word is", "answers": [{"text": "dddd", "answer_start": 9}]},
{"id": "3", "question": "which word is it", "answers": [{"text": "a", "answer_start": 0}]}]}]}]}
END
# Runs a command and writes the peak memory of its process.
cat >"$work/peak.py" <<'END'
import os
import resource
import subprocess
import sys

code = subprocess.run(sys.argv[2:]).returncode
rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["PMI_RANK"]
with open(f"{sys.argv[1]}.{rank}", "w") as file:
    file.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024))
sys.exit(code)
END
# Compares peak and plan of each rank in MiB. Only two items of the plan are estimates: 24 MiB for small blocks, and the
# shared memory, which a small model does not fill.
cat >"$work/compare.py" <<'END'
import re
import sys

peaks, text = sys.argv[1], open(sys.argv[2]).read()
SIZES = {"B": 2**-20, "KiB": 2**-10, "MiB": 1, "GiB": 2**10}


def planned(key):
    value, unit = re.search(rf"^  {key} +([0-9.]+) (\w+)$", text, re.M).groups()
    return float(value) * SIZES[unit]


shared, whole = planned("shared_exchange_bytes"), planned("host_shared_bytes")
for rank in range(4):
    plan, peak = planned(f"rank_{rank}_plan_bytes"), float(open(f"{peaks}.{rank}").read())
    print(f"rank {rank}: {peak:.1f} of {plan:.1f} MiB: {peak / plan:.3f}")
    assert plan - 24 - shared < peak <= plan
    whole += plan - shared
assert abs(planned("host_0_plan_bytes") / whole - 1) < 0.01, whole
END

mpi=$(find_mpis | head -n 1) # any: the plan counts an MPI's own memory as the program's
[ -n "$mpi" ] || { echo "skipped: no mpirun or mpiexec of an MPI that a module was built for"; exit 77; }
for stage in 0 1 2; do
    launch_program "$mpi" 4 python3 "$work/peak.py" "$work/peak" "$BERTH" finetune squad --model "$work/model" \
        --train "$work/data.json" --max_seq_length 64 --train_batch_size 4 --max_steps 3 --skip_checkpoint --threads 1 \
        --precision bf16 --zero_stage $stage --output "$work/made-$stage" --verbose
    expect_code 0
    python3 "$work/compare.py" "$work/peak" "$err" || fail "the plan and the peak differ in stage $stage"
done
finish
