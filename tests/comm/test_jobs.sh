#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Training by several processes on this machine, under each MPI. With virtual ranks it gives the same bytes as one
# process, whatever the number of processes and the ZeRO stage, also if another number resumes. One process reports.
. "$(dirname "$0")/../cli/lib.sh"
. "$(dirname "$0")/launch.sh"

make_wide_model "$work/model"
cp -r "$work/model" "$work/model0"
make_wide_model "$work/model1" 8
make_questions "$work/data.json" 40 4
settings=$(training_settings)

for precision in fp32 bf16; do
    run finetune squad $settings --precision $precision --virtual_ranks 4 --output "$work/alone-$precision"
    expect_code 0
done
run finetune squad $settings --precision fp32 --output "$work/undivided"
expect_code 0
what="one part and four"
! cmp -s "$work/undivided/model.safetensors" "$work/alone-fp32/model.safetensors" || fail "the same sums"

# Updates of few questions, some of which count as spikes because the factor is low.
spikes="$settings --train_batch_size 4 --max_steps 20 --precision fp32 --virtual_ranks 4 --spike_policy rollback --spike_factor 1.2"
run finetune squad $spikes --output "$work/alone-spikes"
expect_code 0
expect_err "and leaves out its data"

coefficients() { # FOLDER: of each tensor that is trained, in every update
    grep -o '"lamb_coeffs".*' "$work/$1/log.jsonl"
}
lamb="$settings --max_steps 2 --precision fp32 --virtual_ranks 4 --optimizer lamb --freeze_layers 1 --skip_checkpoint"
run finetune squad $lamb --output "$work/alone-lamb"
expect_code 0
coefficients alone-lamb >"$work/coefficients"
grep -q "encoder.layer.1" "$work/coefficients" || fail "no coefficients"
! grep -q "encoder.layer.0" "$work/coefficients" || fail "coefficients of frozen tensors"

printf '{"train_batch_size": 8, "gradient_clipping": 0.5}\n' >"$work/one.json"
printf '{"train_batch_size": 8, "gradient_clipping": 0.25}\n' >"$work/two.json"
refused() { # TEXT
    expect_code 78
    once "rank 1 on host $(hostname): $1 on rank 0"
    [ ! -e "$work/none" ] || fail "something was written"
}

mpis=$(find_mpis)
for mpi in $mpis; do
    launch "$mpi" 2 finetune squad $spikes --zero_stage 1 --output "$work/$mpi-spikes"
    expect_code 0
    expect_err "and leaves out its data"
    for file in model.safetensors checkpoint-20/optimizer.safetensors; do
        cmp -s "$work/alone-spikes/$file" "$work/$mpi-spikes/$file" || fail "with spikes, $file of one process and of two differ"
    done
    launch "$mpi" 2 finetune squad $lamb --zero_stage 1 --output "$work/$mpi-lamb"
    expect_code 0
    coefficients "$mpi-lamb" | cmp - "$work/coefficients" || fail "other coefficients"
    for stage in 0 1 2; do
        precision=$([ $stage -eq 1 ] && echo bf16 || echo fp32)
        # The bytes do not depend on when something is exchanged or saved.
        case $stage in
        0) other= ;;
        1) other="--async_save --save_steps 1 --replica_check_steps 2" ;;
        2) other="--overlap_comm false --reduce_bucket_size 5000 --save_steps auto --mean_time_to_failure 1" ;;
        esac
        launch "$mpi" 2 finetune squad $settings --precision $precision --virtual_ranks 4 --zero_stage $stage \
            --output "$work/$mpi-$stage" $other --verbose
        expect_code 0
        [ $stage -ne 2 ] || expect_err "save_steps auto: the next checkpoint is due in"
        once "ranks: 2 on 1 host, connected by $mpi"
        once "samples_per_second "
        grep -qE '^  reduce +exact \(auto; virtual_ranks needs sums of a fixed order\)' "$err" || fail "the plan does not say who adds"
        [ "$(grep -c '^  comm_exposed_seconds ' "$err")" -eq 1 ] || fail "no seconds of exchanges in the summary"
        same alone-$precision "$mpi-$stage"
    done
    # Four processes begin, two finish.
    launch "$mpi" 4 finetune squad $settings --precision fp32 --virtual_ranks 4 --zero_stage 2 --async_save \
        --output "$work/$mpi-4"
    expect_code 0
    same alone-fp32 "$mpi-4"
    mkdir "$work/$mpi-resumed"
    mv "$work/$mpi-4/checkpoint-3" "$work/$mpi-resumed"
    launch "$mpi" 2 finetune squad $settings --precision fp32 --virtual_ranks 4 --zero_stage 1 \
        --resume_from_checkpoint auto --output "$work/$mpi-resumed"
    expect_code 0
    once "resumed from $work/$mpi-resumed/checkpoint-3"
    same alone-fp32 "$mpi-resumed"

    # Each process has another path of the output folder.
    what="$mpi, two paths of the output folder"
    mkdir -p "$work/$mpi-paths" "$work/elsewhere"
    cp -r "$work/$mpi-resumed/checkpoint-3" "$work/$mpi-paths"
    (cd "$work" && timeout 300 $(launcher_of "$mpi") -n 2 bash -c '
        output=$1 && shift
        [ "${OMPI_COMM_WORLD_RANK-$PMI_RANK}" -eq 0 ] || { cd elsewhere && output=../$output; }
        exec "$0" "$@" --output "$output"' "$BERTH" "$mpi-paths" finetune squad $settings --precision fp32 --virtual_ranks 4 \
        --resume_from_checkpoint auto >"$out" 2>"$err" </dev/null)
    code=$?
    expect_code 0
    once "resumed from $mpi-paths/checkpoint-3"
    same alone-fp32 "$mpi-paths"

    # The second process has another output folder.
    mkdir -p "$work/apart"
    unlike "$mpi" finetune squad $settings --output "$work/$mpi-apart" -- --output "$work/apart"
    expect_code 73
    once "rank 1 on host $(hostname): output_dir $work/apart on host $(hostname) is not the output folder of rank 0"
    [ -z "$(ls "$work/apart")" ] && [ -z "$(find "$work/$mpi-apart" -name '.tmp*')" ] || fail "files are left"

    # The second process has another model.
    what="$mpi, two models"
    timeout 300 $(launcher_of "$mpi") -n 2 bash -c \
        'exec "$0" finetune squad "$@" --model "'"$work"'/model${OMPI_COMM_WORLD_RANK-$PMI_RANK}"' \
        "$BERTH" $settings --output "$work/none" >"$out" 2>"$err" </dev/null
    code=$?
    expect_code 65
    once "rank 1 on host $(hostname): the checksum of the weights ($work/model1) is "

    # The second process has another setting, another file of settings, another job.
    train="finetune squad $settings --output $work/none"
    unlike "$mpi" $train -- --learning_rate 5e-3
    refused "learning_rate is 0.005, but 0.001"
    unlike "$mpi" $train -- --train_batch_size 4
    refused "train_batch_size is 4, but 8"
    unlike "$mpi" $train --deepspeed_config "$work/one.json" -- --deepspeed_config "$work/two.json"
    refused "max_grad_norm is 0.25, but 0.5"
    long=$(printf '1.5,%.0s' {1..90})
    unlike "$mpi" finetune classify --model "$work/model" --train "$work/table.csv" --output "$work/unlike" \
        --class_weights "${long}1" -- --class_weights "${long}2"
    expect_code 78
    once "rank 1 on host $(hostname): class_weights is 1.5,1.5,"
    what="$mpi, two jobs"
    timeout 120 $(launcher_of "$mpi") -n 1 "$BERTH" $train : -n 1 "$BERTH" doctor >"$out" 2>"$err" </dev/null
    code=$?
    expect_code 78
    once "rank 1 on host $(hostname): the job is \"doctor\" of $("$BERTH" --version), build "
    # Its program is another build of the same version: a constant differs.
    python3 - "$BERTH" "$work/rebuilt" <<'END'
import sys

data = bytearray(open(sys.argv[1], "rb").read())
data[data.index(b"has other kernels than rank 0")] ^= 1
open(sys.argv[2], "wb").write(data)
END
    chmod +x "$work/rebuilt"
    what="$mpi, two builds"
    timeout 120 $(launcher_of "$mpi") -n 1 "$BERTH" $train : -n 1 env BERTH_MODULE_PATH="$(dirname "$BERTH")" \
        "$work/rebuilt" $train >"$out" 2>"$err" </dev/null
    code=$?
    expect_code 78
    once "rank 1 on host $(hostname): the job is \"train squad\" of $("$BERTH" --version), build "
    # It has a wrong word, which the program or the library finds; both have it.
    for wrong in "--nonsense 1" "--save_format what"; do
        unlike "$mpi" $train -- $wrong
        [ "$code" -ne 0 ] || fail "a wrong word of the second process is accepted"
        once "berth: error: rank 1 on host $(hostname): "
        launch "$mpi" 2 $train $wrong
        expect_code 2
        once "berth: error: "
        expect_no "$err" "rank "
    done
    # It has other paths, threads and instructions. All then compute in a type in which every rank is fast.
    cp "$work/data.json" "$work/same.json"
    rm -rf "$work/unlike"
    if "$BERTH" doctor | grep -q '^instruction_sets *generic .'; then
        unlike "$mpi" $train -- --instructions generic
        expect_code 78
        once "the device is cpu with generic kernels, but cpu with "
    fi
    unlike "$mpi" finetune squad $settings --zero_stage 1 --output "$work/unlike" --verbose -- --train "$work/same.json" --threads 2 \
        --instructions generic
    expect_code 0
    ! "$BERTH" doctor | grep -q '^instruction_sets *generic .' ||
        once "rank 1 (host $(hostname)) has other kernels than rank 0"
    grep -qE '^  precision +fp32$' "$err" || fail "not fp32"
    if "$BERTH" doctor | grep -qE '^precision +bf16$'; then
        once "rank 1 (host $(hostname)) has no fast bf16, so all ranks compute in fp32"
    fi

    launch "$mpi" 2 finetune squad $settings --reduce native --output "$work/$mpi-one-host" --verbose
    expect_code 0
    grep -qE '^  reduce +exact \(all ranks are on one host, which share memory\)' "$err" || fail "the plan does not say who adds"
    launch "$mpi" 2 finetune squad $settings --virtual_ranks 3 --output "$work/none"
    expect_code 78
    once "virtual_ranks 3: expected a multiple of the number of processes, 2"
    launch "$mpi" 2 finetune squad $settings --train "$work/absent.json" --output "$work/none"
    expect_code 66
    once "absent.json"
    [ ! -e "$work/none" ] || fail "something was written"

    launch "$mpi" 2 bench train --config "$work/wide.json" --data "$work/data.json" --vocab "$work/model/vocab.txt" \
        --max_seq_length 64 --doc_stride 16 --max_query_length 16 --update_sequences 8 --steps 2 --threads 1 \
        --zero_stage 1 --no_exchange --json
    expect_code 0
    python3 - "$out" <<'END' || fail "not the figures of two ranks: $(cat "$out")"
import json
import sys

lines = open(sys.argv[1]).read().splitlines()
figures = json.loads(lines[0])
assert len(lines) == 1 and figures["ranks"] == 2 and figures["sequences"] == 16, "one object, for both ranks"
assert figures["imbalance"] >= 1 and figures["comm_exposed_seconds"] + figures["comm_hidden_seconds"] > 0
assert figures["exchange_ratio"] == figures["seconds"] / figures["no_exchange_seconds"]
END
done
[ -n "$mpis" ] || { echo "skipped: no mpirun or mpiexec of an MPI that a module was built for"; exit 77; }
finish
