#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the launcher of an MPIJob runs, as in Intel's package: three epochs of MRPC on MPI_NUM_PROCESSES (2) processes.
# The hosts are those that the operator or the scheduler names to mpirun.
. "$(dirname "$0")/intel.sh"
[ "$(id -u)" -ne 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
data=$DATASET_DIR/MRPC
[ -d "$data" ] || data=$DATASET_DIR
config=$CHECKPOINT_DIR/bert_config.json
[ -e "$config" ] || config=$CHECKPOINT_DIR/config.json
# shellcheck disable=SC2086
exec mpirun -np "${MPI_NUM_PROCESSES:-2}" -bind-to none "${BERTH:-berth}" as ${BERTH_OPTIONS:-} \
    intel/run_classifier.py --task_name=MRPC \
    --do_train=true --do_eval=true --data_dir="$data" --init_checkpoint="$CHECKPOINT_DIR" --max_seq_length=128 \
    --train_batch_size="${BATCH_SIZE:-32}" --learning_rate=2e-5 --num_train_epochs=3.0 \
    --vocab_file="$CHECKPOINT_DIR/vocab.txt" --bert_config_file="$config" --precision=fp32 \
    --output_dir="$OUTPUT_DIR" "$@"
