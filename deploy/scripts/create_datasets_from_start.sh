#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# NVIDIA's and Habana's script of this name: all data for pre-training in the current folder, or in that of the variable
# BERT_PREP_WORKING_DIR.
#
#   create_datasets_from_start.sh [wiki_only | wiki_books]
#
# The dump is expected in download/wikicorpus_en, and books in download/bookscorpus; `berth as bertPrep.py --action
# download ...` says how to get them. VOCAB_FILE names the vocabulary.
set -euo pipefail
export BERT_PREP_WORKING_DIR=${BERT_PREP_WORKING_DIR:-$PWD}
vocabulary=${VOCAB_FILE:-$BERT_PREP_WORKING_DIR/download/google_pretrained_weights/uncased_L-24_H-1024_A-16/vocab.txt}
dataset=wikicorpus_en
[ "${1:-wiki_only}" = wiki_only ] || dataset=books_wiki_en_corpus

prep() { # ACTION WORDS...
    # shellcheck disable=SC2086
    "${BERTH:-berth}" as ${BERTH_OPTIONS:-} bertPrep.py --dataset "$dataset" --action "$@"
}
prep download
prep text_formatting
prep sharding
prep create_hdf5_files --max_seq_length 128 --max_predictions_per_seq 20 --vocab_file "$vocabulary" --do_lower_case 1
prep create_hdf5_files --max_seq_length 512 --max_predictions_per_seq 80 --vocab_file "$vocabulary" --do_lower_case 1
