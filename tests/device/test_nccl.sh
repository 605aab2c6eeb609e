#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ranks on GPUs that exchange by NCCL: the emulation with the tests' NCCL. Several ranks give the bytes of one process
# in every ZeRO stage and with gradients sent in either type; if a rank has no NCCL, all exchange through their hosts'
# memory; a lost rank ends the job before long. MODULE: the file of that module; BERTH_MPIS: the modules that were built.
. "$(dirname "$0")/../cli/lib.sh"
. "$(dirname "$0")/../comm/launch.sh"
export BERTH_MODULE_PATH
BERTH_MODULE_PATH=$(dirname "$MODULE")
export BERTH_EMULATION_MEMORY=$((16 << 20)) # KiB, of which the plan gives NCCL 1.7 GiB for each of four ranks
make_model "$work/small"
make_questions "$work/data.json" 40
settings="finetune squad --model $work/small --train $work/data.json --max_seq_length 32 --doc_stride 16
    --max_query_length 8 --train_batch_size 8 --max_steps 2 --learning_rate 1e-3 --logging_steps 1 --threads 1
    --device emulated"
mpi=$(find_mpis | head -n 1)
[ -n "$mpi" ] || { echo "no launcher of processes here: skipped"; exit 77; }

# Every stage; weights travel in f32 and in bf16.
for precision in fp32 bf16; do
    run $settings --precision $precision --virtual_ranks 4 --output "$work/alone-$precision"
    expect_code 0
done
stage=0
for ranks in 2 4; do
    for precision in bf16 fp32; do
        stage=$(((stage + 1) % 3))
        launch "$mpi" $ranks $settings --precision $precision --virtual_ranks 4 --zero_stage $stage \
            --reduce_bucket_size 700 --output "$work/nccl-$ranks-$precision" --verbose
        expect_code 0
        expect_err "the GPUs exchange gradients and weights by NCCL"
        cmp "$work/alone-$precision/model.safetensors" "$work/nccl-$ranks-$precision/model.safetensors" ||
            fail "other bytes than those of one process"
    done
done

# Gradients in half precision, of three ranks, whose tree is not even: what the exchange through the hosts' memory gives.
for type in bf16 fp16; do
    for stage in 0 2; do
        for exchange in mpi nccl; do
            launch "$mpi" 3 $settings --precision bf16 --train_batch_size 6 --zero_stage $stage --gpu_exchange $exchange \
                --communication_data_type $type --output "$work/$exchange-$type-$stage" --verbose
            expect_code 0
            [ $exchange = nccl ] || expect_err "through the hosts' memory (gpu_exchange mpi)"
        done
        cmp "$work/mpi-$type-$stage/model.safetensors" "$work/nccl-$type-$stage/model.safetensors" ||
            fail "other bytes than those of the exchange through the hosts' memory"
    done
done

# Sums of the library, whose order is another one: the same bytes every time, and numbers near those of Berth's order.
for type in fp32 bf16; do
    for stage in 0 1 2; do
        for form in exact native again; do
            launch "$mpi" 3 $settings --precision $type --train_batch_size 6 --zero_stage $stage \
                --reduce ${form/again/native} --reduce_bucket_size 700 --output "$work/$form-$type-$stage" --verbose
            expect_code 0
            [ $form = exact ] || expect_err "reduce native: NCCL adds the gradients"
        done
        cmp "$work/native-$type-$stage/model.safetensors" "$work/again-$type-$stage/model.safetensors" ||
            fail "other bytes the second time"
        [ $type = fp32 ] || ! cmp -s "$work/exact-$type-$stage/model.safetensors" "$work/native-$type-$stage/model.safetensors" ||
            fail "the bytes of Berth's order: nothing was left to the library"
        run compare "$work/exact-$type-$stage" "$work/native-$type-$stage" --tolerance 4e-3
        expect_code 0
    done
done

# Two hosts of two ranks, which are names here: the ranks of a host add first, and only ranks of the same number exchange
# between hosts. The bytes are those of one process; of gradients in half precision, those through the hosts' memory.
if unshare --uts true 2>/dev/null; then
    make_wide_model "$work/wide"
    run ${settings/small/wide} --precision fp32 --virtual_ranks 4 --output "$work/wide-fp32"
    run ${settings/small/wide} --precision bf16 --virtual_ranks 4 --output "$work/wide-bf16"
    on_hosts() { # NAME WORDS...
        local name=$1
        shift
        BERTH_TEST_NCCL_SENT=$work/sent. launch_program "$mpi" 4 bash -c \
            'rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; exec unshare --uts bash -c "hostname part$((rank / 2)) && exec \"\$@\"" run "$@"' \
            run "$BERTH" ${settings/small/wide} "$@" --output "$work/$name" --verbose
        expect_code 0
    }
    for stage in 0 2; do
        precision=$([ $stage = 2 ] && echo bf16 || echo fp32)
        on_hosts "hosts-$stage" --precision $precision --virtual_ranks 4 --zero_stage $stage
        expect_err "the GPUs exchange gradients and weights by NCCL"
        cmp "$work/wide-$precision/model.safetensors" "$work/hosts-$stage/model.safetensors" ||
            fail "other bytes than those of one process"
        [ "$(sed -n 4p "$work/sent.0")" = 0 ] && [ "$(sed -n 3p "$work/sent.0")" -gt 0 ] && [ "$(sed -n 2p "$work/sent.0")" -gt 0 ] ||
            fail "rank 0 has sent $(paste -sd, "$work/sent.0") bytes to the ranks"
    done
    for exchange in nccl mpi; do
        on_hosts "half-$exchange" --precision bf16 --zero_stage 2 --communication_data_type bf16 --gpu_exchange $exchange
    done
    cmp "$work/half-nccl/model.safetensors" "$work/half-mpi/model.safetensors" ||
        fail "other bytes than those of the exchange through the hosts' memory"
else
    echo "no names of hosts can be given here: not tried with several hosts" >&2
fi

# A library that one of the ranks cannot use.
export BERTH_TEST_NCCL
BERTH_TEST_NCCL=old:1 launch "$mpi" 2 $settings --precision fp32 --virtual_ranks 4 --zero_stage 1 --output "$work/old"
expect_code 0
expect_err "through the hosts' memory (rank 1: "
expect_err "is older than 2.14)"
cmp "$work/alone-fp32/model.safetensors" "$work/old/model.safetensors" || fail "other bytes by the other way"
BERTH_TEST_NCCL=old:1 launch "$mpi" 2 $settings --precision fp32 --gpu_exchange nccl --output "$work/none"
[ $code -ne 0 ] || fail "nccl is asked for and missing, and it trains"
expect_err "gpu_exchange nccl: rank 1: "

# Lost ranks: while the library opens, in a group, and by an error of the library. launch ends what takes five minutes,
# the default of --comm_timeout.
for fault in refused:1 refused:-1 alone:1; do
    BERTH_TEST_NCCL=$fault launch "$mpi" 2 $settings --precision fp32 --virtual_ranks 4 --comm_timeout 5 \
        --output "$work/$fault"
    expect_code 0
    expect_err "through the hosts' memory (rank 0: "
    cmp "$work/alone-fp32/model.safetensors" "$work/$fault/model.safetensors" || fail "other bytes by the other way"
done
for fault in silent stopped broken silent-native broken-native; do
    reduce=$([ "${fault#*-}" = native ] && echo native || echo exact)
    BERTH_TEST_NCCL=${fault%-native}:1 launch "$mpi" 2 $settings --precision fp32 --comm_timeout 5 --reduce $reduce \
        --output "$work/$fault"
    [ $code -ne 0 ] || fail "it trains on"
    [ $code -ne 124 ] || fail "it does not end"
    case $fault in
    silent*) expect_err "did not arrive before the deadline (comm_timeout), and all processes answer" ;;
    stopped) expect_err "rank 1 on host $(hostname) did not arrive at an exchange of the GPUs" ;;
    broken*) expect_err "remote process exited or there was a network error" ;;
    esac
    [ $fault = stopped ] || expect_err "exchange with other ranks"
done
finish
