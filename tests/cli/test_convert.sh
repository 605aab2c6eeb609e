#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests convert and compare: their output, what is refused, that nothing is left over, and the commands of
# doc/formats.md.
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
golden=$here/../golden
data=${BERTH%/*}/tests/format/data # which the build unpacks

make_model "$work/squad-minilm"
cd "$work" || exit 1
make_dataset data.json
mkdir empty
ls -A >before

# Checks that only the earlier files and the given names exist.
expect_left() {
    left=$(ls -A | grep -vxF -f before -e stdout -e stderr | tr '\n' ' ')
    [ "$left" = "$1" ] || fail "left over: \"$left\", expected \"$1\""
}

# --- hf: byte for byte --------------------------------------------------------------------------

run convert squad-minilm hf
expect_code 0
for file in model.safetensors config.json vocab.txt; do
    cmp -s squad-minilm/$file hf/$file || fail "$file differs"
done
run compare squad-minilm hf
expect_code 0
expect_out "0 differ by more than 0; largest difference 0"
run convert squad-minilm empty --to hf
expect_code 0
cmp -s squad-minilm/model.safetensors empty/model.safetensors || fail "nothing in the empty folder"

run convert "$data/tensorflow/bert" google
expect_code 0
grep -q BertForQuestionAnswering google/config.json || fail "no architecture"
run compare "$data/tensorflow/bert" google
expect_code 0
expect_out "39 tensors, 39 compared, 0 differ"
rm -r hf google

# --- torch, tensorflow, nvidia, deepspeed: there and back ---------------------------------------

for to in torch tensorflow nvidia deepspeed "deepspeed --names nvidia" "deepspeed --kernel-layers"; do
    run convert squad-minilm there --to $to --step 12
    expect_code 0
    run convert there back
    expect_code 0
    for file in model.safetensors config.json vocab.txt; do
        cmp -s squad-minilm/$file back/$file || fail "$to: $file differs"
    done
    run compare squad-minilm there
    expect_code 0
    expect_out "39 tensors, 39 compared, 0 differ"
    rm -r there back
done

# What other programs require, and every way to name a model.
run convert squad-minilm deepspeed --to deepspeed --step 12 --names nvidia
[ "$(cat deepspeed/latest)" = global_step12 ] || fail "latest: $(cat deepspeed/latest)"
grep -q '"intermediate_size": 64' deepspeed/bert_config.json || fail "no bert_config.json"
run convert squad-minilm nvidia --to nvidia --step 9
cp squad-minilm/model.safetensors squad-minilm/vocab.txt nvidia/ && cp nvidia/ckpt_9.pt nvidia/ckpt_10.pt
rm nvidia/model.safetensors
echo damaged >nvidia/ckpt_9.pt
question="--question Where --context Oslo --threads 1 --json"
run answer --model squad-minilm $question
cp "$out" expected
for model in deepspeed deepspeed/global_step12 deepspeed/global_step12/mp_rank_00_model_states.pt \
    nvidia nvidia/ckpt_10.pt; do
    run answer --model $model $question
    expect_code 0
    cmp -s "$out" expected || fail "another answer"
    run inspect $model
    [ $model = nvidia ] || expect_out bert.encoder.layer.1.intermediate.dense_act.weight
    run convert $model back
    cmp -s squad-minilm/model.safetensors back/model.safetensors || fail "differs"
    rm -r back
done
echo nowhere >deepspeed/latest
run inspect deepspeed
expect_code 66
expect_err 'names the tag "nowhere"'
echo ../x >deepspeed/latest
run convert deepspeed new
expect_code 65
expect_err 'expected the name of a folder'
rm -r deepspeed nvidia expected
run convert squad-minilm new --kernel-layers
expect_code 2
expect_err "hf accepts: huggingface; deepspeed accepts it"
run convert squad-minilm new --to deepspeed --names bingbert
expect_code 2
expect_err "deepspeed accepts: huggingface, nvidia, kernel"
run convert squad-minilm new --to deepspeed --names huggingface --kernel-layers
expect_code 2
expect_err contradicts
run convert squad-minilm new --to nvidia --step -1
expect_code 2
expect_left ""

# The optimizer's state of a checkpoint, as DeepSpeed's engine has it.
run finetune squad --model squad-minilm --train data.json --output trained --max_seq_length 64 --doc_stride 16 \
    --train_batch_size 4 --max_steps 3 --save_total_limit 1 --precision fp32 --threads 1 --quiet
expect_code 0
checkpoint=trained/checkpoint-3
for options in "0" "1" "2 --ranks 3" "1 --ranks 5 --dtype bf16" "2 --ranks 2 --names nvidia" "2 --ranks 4 --kernel_layers"; do
    run convert $checkpoint there --to deepspeed --zero_stage $options
    expect_code 0
    expect_no "$err" "optimizer's state"
    [ "$(cat there/latest)" = global_step3 ] || fail "latest: $(cat there/latest)"
    ranks=$(echo "$options" | sed -n 's/.*--ranks \([0-9]*\).*/\1/p')
    [ "$(ls there/global_step3/*zero_pp_rank_* 2>/dev/null | wc -l)" = "$([ "$options" = 0 ] && echo 0 || echo ${ranks:-1})" ] ||
        fail "$options: $(ls there/global_step3)"
    run convert there back
    expect_code 0
    cmp -s $checkpoint/model.safetensors back/model.safetensors || fail "zero_stage $options: other weights"
    rm -r there back
done
# A model of embeddings, whose parameters transformers names without "bert.".
printf 'sentence1\tsentence2\nthe cat\ta dog\nthe dog\ta cat\n' >pairs.tsv
run finetune embed --model squad-minilm --train pairs.tsv --output embedder --max_seq_length 16 --train_batch_size 2 \
    --max_steps 1 --save_total_limit 1 --precision fp32 --threads 1 --quiet
expect_code 0
run convert embedder/checkpoint-1 there --to deepspeed --zero_stage 1
expect_code 0
rm -r there embedder pairs.tsv
run convert $checkpoint there --to deepspeed
expect_code 0
expect_err "the optimizer's state of the checkpoint is left out; zero_stage writes it"
rm -r there
for folder in squad-minilm trained; do # a model, and a finished run, which has trainer_state.json too
    run convert $folder there --to deepspeed --zero_stage 1
    expect_code 66
    expect_err "$folder: zero_stage needs the optimizer's state, which only a checkpoint of Berth has"
done
for words in "deepspeed --zero_stage 3" "deepspeed --ranks 2" "deepspeed --zero_stage 0 --ranks 2" \
    "deepspeed --zero_stage 0 --dtype bf16" "deepspeed --zero_stage 1 --ranks 2000" "nvidia --zero_stage 1"; do
    run convert $checkpoint there --to $words
    expect_code 2
done
rm -r trained
expect_left ""

# The new type is recorded where transformers reads it.
sed 's/"torch_dtype"/"dtype"/' squad-minilm/config.json >config.new
sed 's/"torch_dtype": *"float32",//' squad-minilm/config.json >config.silent
grep -q '"dtype": "float32"' config.new || fail "no type to begin with"
cp -r squad-minilm typed
for config in squad-minilm/config.json config.new config.silent; do
    cp $config typed/config.json
    for to in hf torch nvidia; do
        run convert typed there --to $to --dtype bf16 --allow_lossy
        expect_code 0
        grep -qE '"(torch_)?dtype": "bfloat16"' there/config.json || fail "$config, $to: not bfloat16"
        expect_no there/config.json float32
        rm -r there
    done
done
cp squad-minilm/config.json typed/
run convert typed there --dtype f32
cmp -s typed/config.json there/config.json || fail "config.json changed in more than the type"
run convert "$data/tensorflow/bert" google --dtype f16 --allow_lossy
grep -q '"torch_dtype": "float16"' google/config.json || fail "not float16"
rm -r there typed google config.new config.silent

# --- files of other programs (dev/fixtures/make_nvidia.py, make_deepspeed.py) -------------------------

mkdir theirs
cp "$data"/nvidia/ckpt_*.pt "$data/nvidia/bert_config.json" theirs
run convert theirs back
expect_code 0
expect_err "not part of the model: 4 tensors of an optimizer"
expect_err "3 rows that pad the vocabulary to 16 words"
cmp -s "$data/nvidia/model.safetensors" back/model.safetensors || fail "not what transformers saved"
grep -q BertForPreTraining back/config.json || fail "no architecture"
# A pooler that no head of the model reads is no loss.
cp -r back encoder
LC_ALL=C sed -i 's/cls\.seq_relationship\./xxx.seq_relationship./g; s/cls\.predictions\./xxx.predictions./g' encoder/model.safetensors
for to in onnx gguf; do
    run convert encoder graph --to $to
    expect_code 78
    expect_no "$err" pooler
    run convert encoder graph --to $to --allow_lossy
    expect_code 0
    expect_err "$to leaves out what no head of this model reads: bert.pooler.dense.bias, bert.pooler.dense.weight"
    rm -r graph
done
rm -r encoder
# A graph has one head: that of the words. What it leaves out is named.
run convert back graph --to onnx
expect_code 78
expect_err "4 tensors left out, 0 narrowed (bert.pooler.dense.bias, bert.pooler.dense.weight, cls.seq_relationship"
run convert back graph --to onnx --allow_lossy
expect_code 0
expect_no "$err" cls.predictions
grep -qa predictions.normed graph/model.onnx || fail "no head of words"
rm -r graph
# DeepSpeed's module has the model's own names unless others are requested, and tied tensors too.
for names in "" nvidia huggingface; do
    run convert theirs "deepspeed$names" --to deepspeed ${names:+--names $names}
    expect_code 0
    run inspect "deepspeed$names"
    expect_out module.cls.predictions.decoder.weight
    case "$names" in
        huggingface) expect_out module.cls.predictions.decoder.bias
                     expect_out module.bert.encoder.layer.0.intermediate.dense.weight ;;
        *) expect_out module.bert.encoder.layer.0.intermediate.dense_act.weight
           ! grep -q decoder.bias "$out" || fail "NVIDIA's decoder has no bias" ;;
    esac
    sed -i '1s/{/{"tie_word_embeddings": false,/' "deepspeed$names/config.json"
    run convert "deepspeed$names" again
    expect_no again/config.json tie_word_embeddings # without a decoder of its own
    cmp -s back/model.safetensors again/model.safetensors || fail "deepspeed with names '$names' differs"
    rm -r "deepspeed$names" again
done
run compare theirs back # the decoder is the words
expect_code 0
expect_out "30 tensors, 30 compared, 0 differ"
run compare theirs/ckpt_3.pt "$data/nvidia/model.safetensors"
expect_code 1
expect_out "only in B"
run convert "$data/deepspeed/bf16" gathered
expect_code 0
run compare "$data/deepspeed/bf16" "$data/deepspeed/bf16.safetensors"
expect_code 0
expect_out "32 tensors, 32 compared, 0 differ"
run inspect gathered
expect_out cls.predictions.bias
expect_no "$out" predictions.decoder
expect_no "$out" BF16
rm -r theirs back gathered
expect_left ""

# --- a signal while it writes ---------------------------------------------------------------------

mkfifo words
for to in hf onnx; do
    what="convert --to $to, interrupted"
    "$BERTH" convert squad-minilm new --to $to --vocab_file words >"$out" 2>"$err" </dev/null &
    converting=$!
    until [ -n "$(find . -name 'new.*.tmp')" ] || ! kill -0 $converting; do sleep 0.05; done
    kill -TERM $converting
    for _ in $(seq 100); do
        grep -q "stop requested" "$err" && break
        sleep 0.05
    done
    timeout 10 sh -c "cat squad-minilm/vocab.txt >words"
    wait $converting
    code=$?
    expect_code 143
    expect_err "interrupted; nothing was written"
    expect_left "words "
done
rm words

# --- other types --------------------------------------------------------------------------------

# Their numbers are not read, so they are compared by their bytes.
python3 - <<'END'
import json, struct
for name, second in ("one", 1.0), ("other", 2.0):
    header = json.dumps({"w": {"dtype": "C64", "shape": [1], "data_offsets": [0, 8]}}).encode()
    with open(name + ".safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + struct.pack("<ff", 1.0, second))
END
run compare one.safetensors one.safetensors
expect_code 0
expect_out "w (type C64, the same bytes)"
run compare one.safetensors other.safetensors
[ "$code" -ne 0 ] || fail "other bytes are no difference"
expect_out "w (types C64 and C64, whose numbers are not read)"
rm one.safetensors other.safetensors

for type in f16 bf16; do
    run convert squad-minilm narrow --dtype $type
    expect_code 78
    expect_err "39 narrowed"
    expect_left ""
    run convert squad-minilm narrow --dtype $type --allow-lossy
    expect_code 0
    expect_err "39 tensors are narrowed"
    run inspect narrow
    expect_out "$(echo $type | tr a-z A-Z)"
    expect_no "$out" F32
    run compare squad-minilm narrow --tolerance 0.001
    expect_code 0
    expect_no "$out" "largest difference 0,"
    for to in tensorflow "deepspeed --kernel-layers"; do # narrowed on the way: the same
        run convert squad-minilm there --to $to --dtype $type --allow-lossy
        run convert there back --quiet
        expect_code 0
        cmp -s narrow/model.safetensors back/model.safetensors || fail "$to as $type is another"
        rm -r there back
    done
    run convert narrow wide --dtype f32
    expect_code 0
    expect_no "$err" warning
    run compare narrow wide
    expect_code 0
    expect_out "largest difference 0,"
    run convert narrow back --dtype $type
    expect_code 0
    expect_no "$err" warning
    cmp -s narrow/model.safetensors back/model.safetensors || fail "$type as $type is another"
    rm -r narrow wide back
done
cp -r squad-minilm large
matrix=bert.encoder.layer.1.output.dense.weight
set_number large/model.safetensors $matrix -1e6
for to in hf gguf; do
    run convert large narrow --to $to --dtype f16 --allow-lossy
    expect_code 0
    expect_err "tensor \"$matrix\": 1 of 2048 numbers are beyond the range of F16 and become infinite"
    [ "$(grep -c "beyond the range" "$err")" -eq 1 ] || fail "other tensors"
    rm -r narrow
done
set_number large/model.safetensors $matrix nan
run convert large narrow --to int8
expect_code 0
expect_err "tensor \"$matrix\": 1 of 32 groups of numbers have one that is not finite and become NaN"
rm -r narrow large
mv squad-minilm/config.json squad-minilm/away
run convert squad-minilm new
expect_code 66
expect_err "use config_file for a file elsewhere"
mv squad-minilm/away squad-minilm/config.json
expect_left ""

# --- onnx, gguf ---------------------------------------------------------------------------------

run convert squad-minilm onnx --to onnx
expect_code 0
expect_no "$err" warning
run convert squad-minilm/ onnx2/ --to=onnx --quiet
expect_code 0
expect_empty "$err"
cmp -s onnx/model.onnx onnx2/model.onnx || fail "two conversions differ"
grep -qa start_logits onnx/model.onnx || fail "no start_logits"
rm -r onnx onnx2

run convert squad-minilm gguf --to gguf
expect_code 78
expect_err "2 tensors left out"
expect_err "qa_outputs.bias, qa_outputs.weight"
expect_err "allow this with allow_lossy"
expect_left ""
run convert squad-minilm gguf --to gguf --allow-lossy
expect_code 0
expect_err "warning: gguf leaves out 2 tensors"
run convert squad-minilm narrow --to gguf --dtype f16 --allow-lossy
expect_code 0
expect_err "13 tensors are narrowed: bert.embeddings.word_embeddings.weight"
[ "$(stat -c %s narrow/model.gguf)" -lt "$(stat -c %s gguf/model.gguf)" ] || fail "f16 is no smaller"
grep -qa tokenizer.ggml.tokens gguf/model.gguf || fail "no tokens"
cp -r squad-minilm relu
sed -i 's/"hidden_act": *"[a-z]*"/"hidden_act": "relu"/' relu/config.json
run convert relu other --to gguf --allow-lossy
expect_code 78
expect_err "relu as gguf: hidden_act is relu, but llama.cpp's BERT computes gelu"
rm -r relu
mv squad-minilm/vocab.txt .
run convert squad-minilm mute --to gguf --allow-lossy
expect_code 0
expect_err "has no tokenizer"
! grep -qa tokenizer.ggml.tokens mute/model.gguf || fail "tokens from nowhere"
mv vocab.txt squad-minilm/
rm -r gguf narrow mute

# --- refusals -----------------------------------------------------------------------------------

run convert squad-minilm empty --to onnx
expect_code 73
expect_err "not empty"
[ ! -e empty/model.onnx ] || fail "written into a full folder"
run convert squad-minilm before --to onnx
expect_code 73
expect_err "is a file"
run convert squad-minilm new --to nonsense
expect_code 2
expect_err "option to: expected one of hf, torch, "
for words in "hf f64" "torch f" "onnx f16" "gguf bf16"; do
    run convert squad-minilm new --to "${words% *}" --dtype "${words#* }"
    expect_code 2
    expect_err "dtype"
done
run convert nowhere new
expect_code 66
run convert squad-minilm/vocab.txt new
expect_code 65
expect_err "unknown format of weights"
run convert squad-minilm
expect_code 2
expect_left ""

cp -r squad-minilm damaged
head -c 1000 squad-minilm/model.safetensors >damaged/model.safetensors
ls -A >before
for format in hf onnx gguf; do
    run convert damaged new --to $format --allow-lossy
    expect_code 65
    expect_left ""
done
cp squad-minilm/model.safetensors damaged/
sed -i 's/"bert"/"roberta"/' damaged/config.json
run convert damaged new
expect_code 65
expect_err 'tensors begin with "bert."'
sed -i 's/"roberta"/"albert"/' damaged/config.json
run convert damaged new
expect_code 78
expect_err albert
seq 200 >damaged/vocab.txt
cp squad-minilm/config.json damaged/
run convert damaged new --to gguf --allow-lossy
expect_code 78
expect_err vocab.txt
expect_left ""
for format in hf nvidia onnx; do # a vocabulary that is named is another model's
    run convert squad-minilm new --to $format --vocab_file damaged/vocab.txt
    expect_code 78
    expect_err 'damaged/vocab.txt has 200 entries, but "vocab_size" in squad-minilm is '
    expect_left ""
done

# --- compare ------------------------------------------------------------------------------------

"$BERTH" init --config config.json --output other --seed 8 --quiet
run compare squad-minilm other
expect_code 1
expect_out bert.embeddings.word_embeddings.weight
expect_err "differ in "
run compare squad-minilm other --tolerance 10
expect_code 0
run compare squad-minilm/model.safetensors other --tolerance 10 --json
expect_code 0
expect_out '"differing":0'
expect_out '"name":"qa_outputs.weight","elements":64,"largest":0.'
run compare "$golden/tiny_h20.safetensors" "$golden/tiny_h36.safetensors"
expect_code 1
expect_out "bert.embeddings.word_embeddings.weight (shapes [101, 20] and [101, 36])"
expect_out "bert.encoder.layer.2.output.dense.bias (only in B)"
run compare squad-minilm nowhere
expect_code 66
run compare squad-minilm other --tolerance -1
expect_code 2

# --- the examples of the documentation ----------------------------------------------------------

run finetune squad --model squad-minilm --train data.json --output document/squad-minilm --max_steps 1 --save_total_limit 1 --threads 1
expect_code 0
cd document || exit 1
mv squad-minilm/checkpoint-1 squad-minilm/checkpoint-254
cp "$here/../data/pretraining/nvidia.hdf5" wikicorpus_en_training_0.hdf5
run_commands_of "$documents/formats.md" 18
expect_out "same bytes"
expect_out "bert.encoder.layer.1.attn_qkvw"
expect_out "bert/embeddings/word_embeddings"
finish
