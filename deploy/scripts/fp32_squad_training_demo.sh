#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A hundredth of an epoch on SQuAD 1.1, as Intel's script of this name. It predicts mini-dev-v1.1.json of DATASET_DIR
# if that exists, else dev-v1.1.json.
. "$(dirname "$0")/intel.sh"
dev=$DATASET_DIR/mini-dev-v1.1.json
[ -e "$dev" ] || dev=$DATASET_DIR/dev-v1.1.json
launch_benchmark --model-name=bert_large --batch-size="${BATCH_SIZE:-24}" -- train_option=SQuAD \
    do_train=True do_predict=True predict_file="$dev" learning_rate=3e-5 num_train_epochs=0.01 max_seq_length=384 \
    doc_stride=128 do_lower_case=True "$@"
