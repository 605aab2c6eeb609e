#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fine-tunes BERT-large on SQuAD 1.1, as Intel's script of this name. DATASET_DIR has train-v1.1.json and dev-v1.1.json.
. "$(dirname "$0")/intel.sh"
launch_benchmark --model-name=bert_large --batch-size="${BATCH_SIZE:-24}" -- train_option=SQuAD \
    do_train=True do_predict=True learning_rate=3e-5 num_train_epochs=2 max_seq_length=384 doc_stride=128 \
    do_lower_case=True "$@"
