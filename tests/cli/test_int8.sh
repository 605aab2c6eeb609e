#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests --precision int8 and convert --to int8: the folder's numbers, the same results from it as from the model
# whose numbers are quantized when it is opened, whatever the number of threads, and what is refused.
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
cd "$work" || exit 1
cat >config.json <<'END'
{"vocab_size": 128, "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
 "intermediate_size": 200, "max_position_embeddings": 64, "type_vocab_size": 2, "hidden_act": "gelu",
 "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "layer_norm_eps": 1e-12,
 "initializer_range": 0.02, "model_type": "bert"}
END
"$BERTH" init --config config.json --output model --seed 7 --quiet || exit 1
make_vocabulary >model/vocab.txt
make_dataset data.json
for i in $(seq 30); do echo "the red ball of anna is blue , number $i ."; done >texts.txt
small="--max_seq_length 32 --device cpu"

# --- the folder ---------------------------------------------------------------------------------

run convert model int8 --to int8
expect_code 0
what="the tensors of int8"
python3 -B "$here/check_int8.py" model/model.safetensors int8 >"$out" 2>&1 || fail "the tensors"
run convert int8 copy
expect_code 0
what="convert int8 copy"
expect_no copy/config.json quantization_config
what="the numbers by the safetensors library"
"${BERTH_PYTHON:-python3}" -B "$here/check_int8.py" --numbers int8 copy >"$out" 2>&1
case $? in
    0) ;;
    77) cat "$out" ;; # the library is absent
    *) fail "other numbers" ;;
esac
run compare int8 copy
expect_code 0
expect_out "largest difference 0,"
cp -r int8 scaled
python3 -B "$here/check_int8.py" --scale int8/model.safetensors scaled/model.safetensors || exit 1
run compare int8 scaled
expect_code 1
expect_out "14 differ"
run convert copy again --to int8
expect_code 0
cmp -s int8/model.safetensors again/model.safetensors || fail "numbers that were quantized before change"
run convert int8 int8-again --to int8
expect_code 0
cmp -s int8/model.safetensors int8-again/model.safetensors || fail "int8 as int8 is another"
run convert model new --to int8 --dtype bf16
expect_code 2
expect_err "int8 accepts: f32"

# --- the same numbers from either folder, with any number of threads ----------------------------------

for threads in 1 2 4; do
    for model in model int8; do
        run embed --model $model $small --threads $threads --precision int8 -o $model-$threads.npy texts.txt
        expect_code 0
        cmp -s model-1.npy $model-$threads.npy || fail "$model with $threads threads gives other bytes"
    done
done
run embed --model model $small --precision fp32 -o fp32.npy texts.txt
expect_code 0
cmp -s model-1.npy fp32.npy && fail "--precision int8 has no effect"
run embed --model copy $small --precision fp32 -o copy.npy texts.txt
expect_code 0
run embed --model int8 $small --precision fp32 -o wide.npy texts.txt
expect_code 0
cmp -s copy.npy wide.npy || fail "an int8 folder in fp32 is not its own copy"
for name in model-1 wide; do
    what="$name.npy"
    python3 -B "$here/check_int8.py" --cosine fp32.npy $name.npy >"$out" 2>&1 || fail "the cosine"
done
for model in model int8; do
    run predict squad --model $model --input data.json --output $model-answers $small --doc_stride 8 \
        --max_query_length 10 --precision int8 --threads 2
    expect_code 0
done
cmp -s model-answers/predictions.json int8-answers/predictions.json || fail "other answers"
for model in model int8; do
    run answer --model $model $small --doc_stride 8 --max_query_length 10 --precision int8 --json \
        --question 'where is the red ball of anna ?' --context 'the red ball of anna is blue .'
    expect_code 0
    cp "$out" $model-answer.json
done
cmp -s model-answer.json int8-answer.json || fail "another answer"
run answer --model int8 $small --doc_stride 8 --max_query_length 10 --precision fp32 --json \
    --question 'where is the red ball of anna ?' --context 'the red ball of anna is blue .'
expect_code 0
cmp -s int8-answer.json "$out" && fail "answer: --precision int8 has no effect"
printf 'text\tlabel\nthe red ball\tgood\nanna is blue\tbad\n' >rows.tsv
run finetune classify --model model --train rows.tsv --text-column text --label-column label \
    --output kinds --max_steps 1 --train_batch_size 2 $small --threads 1
expect_code 0
run convert kinds kinds-int8 --to int8
expect_code 0
for model in kinds kinds-int8; do
    run predict classify --model $model --input rows.tsv --text-column text --output $model-classes \
        $small --precision int8
    expect_code 0
done
cmp -s kinds-classes/test_results.tsv kinds-int8-classes/test_results.tsv || fail "other classes"

# --- the tables: words are used where they are in the file, unless they are predicted -------------------

is_mapped() { # FOLDER PRECISION: while a program embeds many texts
    "$BERTH" embed --model "$1" $small --precision "$2" --threads 1 many.txt >/dev/null 2>&1 &
    local program=$! found=no
    while kill -0 $program 2>/dev/null && [ $found = no ]; do
        ! grep -q "$1/model.safetensors" /proc/$program/maps 2>/dev/null || found=yes
    done
    kill $program 2>/dev/null
    wait $program 2>/dev/null
    echo $found
}
for i in $(seq 100); do cat texts.txt; done >many.txt
what="the mapped word table"
[ "$(is_mapped int8 int8)" = yes ] || fail "the file is not mapped"
: >"$out"
[ "$(is_mapped model int8)$(is_mapped int8 fp32)" = nono ] || fail "a file is mapped that cannot be used"
run finetune fill --model model --train texts.txt --output filling --max_steps 1 --train_batch_size 2 $small --threads 1
expect_code 0
run convert filling filling-int8 --to int8
expect_code 0
for table in word position; do
    ! grep -aq "${table}_embeddings.weight_scale" filling-int8/model.safetensors || fail "the table of ${table}s is int8"
    grep -aq "${table}_embeddings.weight_scale" int8/model.safetensors || fail "the table of ${table}s is not int8"
done
expect_no filling-int8/config.json '(word|position)'

# --- what a machine says of int8 --------------------------------------------------------------------

run doctor --precision int8
expect_code 0
expect_out 'precision                int8'
expect_out 'precisions               fp32 '
run doctor --precision fp16
expect_code 78
expect_err "precision fp16: the device cpu does not support it; use precision auto"

# --- trained from int8: in f32, and config.json says nothing else --------------------------------------

run finetune classify --model kinds-int8 --train rows.tsv --text-column text --label-column label \
    --output trained-int8 --max_steps 1 --save_steps 1 --train_batch_size 2 $small --threads 1
expect_code 0
for config in trained-int8/config.json trained-int8/checkpoint-1/config.json; do
    [ -s $config ] || fail "no $config"
    expect_no $config quantization_config
done
run init --config int8/config.json --output fresh --seed 7 --quiet
expect_code 0
expect_no fresh/config.json quantization_config
cp int8/config.json copy/
for to in hf tensorflow; do
    run convert copy wide-$to --to $to
    expect_code 0
    grep -q quantization_config wide-$to/*config.json && fail "quantization_config in $to"
done

# --- refusals -----------------------------------------------------------------------------------

run finetune squad --model model --train_file data.json --output trained $small --precision int8
expect_code 78
expect_err "precision int8 is only for prediction"
expect_err "train in fp32 or bf16"
[ ! -e trained/model.safetensors ] || fail "trained in int8"
# An int8 folder without a scale.
python3 -B "$here/check_int8.py" --damage int8/model.safetensors damaged.safetensors || exit 1
cp -r int8 damaged
cp damaged.safetensors damaged/model.safetensors
run embed --model damaged $small texts.txt
expect_code 65
expect_err 'of type I8: expected "'
finish
