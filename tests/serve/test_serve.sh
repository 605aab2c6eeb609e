#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes small models and runs the tests of serve_NAME.py on them: test_serve.sh NAME [CLASS[.TEST] ...]
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../cli/lib.sh"
make_model "$work/qa" 128
make_model "$work/other" 128
"$BERTH" init --config "$work/config.json" --output "$work/new" --seed 8 --quiet || exit 1
cp "$work/qa/vocab.txt" "$work/new/"
sed -i 's/ForQuestionAnswering/Model/' "$work/other/config.json" # serves embeddings
mkdir "$work/slow" # whose computing takes most of a request's time
sed 's/"hidden_size": 32, "num_hidden_layers": 2/"hidden_size": 256, "num_hidden_layers": 4/; s/"intermediate_size": 64/"intermediate_size": 1024/' \
    "$work/config.json" >"$work/slow.json"
"$BERTH" init --config "$work/slow.json" --output "$work/slow" --seed 9 --quiet || exit 1
cp "$work/qa/vocab.txt" "$work/slow/"
make_model "$work/wide" 600
sed -i 's/ForQuestionAnswering/ForSequenceClassification/' "$work/wide/config.json"
printf 'text\tpair\tlabel\nhello world\tx\tgood\nAda in Oslo\tHugo\tbad\nRita\tRome\tnone\n' >"$work/rows.tsv"
"$BERTH" finetune classify --model "$work/qa" --train "$work/rows.tsv" --text-column text \
    --text-pair-column pair --label-column label --output "$work/kinds" --max_steps 1 --train_batch_size 3 \
    --schedule constant --max_seq_length 64 --threads 1 --quiet || exit 1
# A regression, and the same model as one label that nobody calls a regression (a reranker).
printf 'text\tpair\tlabel\nhello world\tx\t0.5\nAda in Oslo\tHugo\t1.5\nRita\tRome\t-2\n' >"$work/numbers.tsv"
"$BERTH" finetune classify --model "$work/qa" --train "$work/numbers.tsv" --text-column text \
    --text-pair-column pair --label-column label --output "$work/number" --max_steps 1 --train_batch_size 3 \
    --schedule constant --max_seq_length 64 --threads 1 --quiet || exit 1
mkdir "$work/rank" && cp "$work/number/"{config.json,model.safetensors,vocab.txt} "$work/rank/" || exit 1
sed -i '/"problem_type"/d' "$work/rank/config.json"
echo '[{"path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"}]' >"$work/rank/modules.json"
MODELS=$work "${BERTH_PYTHON:-python3}" -B "$(dirname "$0")/serve_$1.py" "${@:2}"
