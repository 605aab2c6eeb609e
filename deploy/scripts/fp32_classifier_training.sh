#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fine-tunes BERT-base on MRPC, as Intel's script of this name. DATASET_DIR is the GLUE folder, with MRPC in it, or MRPC.
. "$(dirname "$0")/intel.sh"
launch_benchmark --model-name=bert --batch-size="${BATCH_SIZE:-32}" -- train_option=Classifier task_name=MRPC \
    do_train=true do_eval=true max_seq_length=128 learning_rate=2e-5 num_train_epochs=30 do_lower_case=True "$@"
