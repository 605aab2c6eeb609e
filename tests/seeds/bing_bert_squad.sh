#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# BingBertSquad and BingBert: the lines of their scripts, with a checkpoint of the pre-training that lies alone.
. "$(dirname "$0")/lib.sh"
make_model bert-large-uncased
sed -i 's/"model_type"/"pre_layer_norm": true, "model_type"/' "$work/config.json"
"$BERTH" init --config "$work/config.json" --output pretrained --seed 7 --quiet || exit 1
cp bert-large-uncased/vocab.txt pretrained
"$BERTH" convert pretrained saved --to deepspeed --names nvidia --quiet || exit 1
mkdir checkpoints data
mv saved/global_step*/mp_rank_00_model_states.pt checkpoints/training_state_checkpoint_162.tar
cp bert-large-uncased/config.json bert-large-uncased-config.json
make_dataset data/train-v1.1.json
make_dataset data/dev-v1.1.json
cp -r data more # with 32 questions: more than an update has
python3 -B - more/train-v1.1.json <<'END'
import json, sys
data = json.load(open(sys.argv[1]))
paragraphs = data["data"][0]["paragraphs"]
copies = [{"context": p["context"], "qas": [dict(q, id=f"{q['id']}-{n}") for q in p["qas"]]}
          for n in range(4) for p in paragraphs]
data["data"][0]["paragraphs"] = copies
json.dump(data, open(sys.argv[1], "w"))
END
cat >deepspeed_bsz24_config.json <<'END'
{"train_batch_size": 24, "train_micro_batch_size_per_gpu": 3, "steps_per_print": 1,
 "optimizer": {"type": "Adam", "params": {"lr": 3e-5, "weight_decay": 0.0, "bias_correction": false}},
 "gradient_clipping": 1.0, "wall_clock_breakdown": true, "fp16": {"enabled": true}}
END
MODEL_FILE=checkpoints/training_state_checkpoint_162.tar
SQUAD_DIR=more

# A model's folder has everything, wherever its name is in the line.
run as --dry_run --verbose nvidia_run_squad_baseline.py --bert_model another --model_file pretrained --do_train \
    --train_file data/train-v1.1.json --output_dir none
expect_code 0
expect_err "--bert_model another is not needed: pretrained has a configuration"

# --- run_squad_deepspeed.sh -----------------------------------------------------------------------

deepspeed_line() { # GPUs, OUTPUT, the engine's flag, LAUNCHER...
    local NGPU_PER_NODE=$1 OUTPUT_DIR=$2 deepspeed=$3
    shift 3
    original "$@" berth as nvidia_run_squad_deepspeed.py \
        --bert_model bert-large-uncased \
        --do_train \
        --do_lower_case \
        --predict_batch_size 3 \
        --do_predict \
        --train_file $SQUAD_DIR/train-v1.1.json \
        --predict_file $SQUAD_DIR/dev-v1.1.json \
        --train_batch_size $((24 / NGPU_PER_NODE)) \
        --learning_rate 0.00002 \
        --num_train_epochs 2.0 \
        --max_seq_length 384 \
        --doc_stride 128 \
        --output_dir "$OUTPUT_DIR" \
        --job_name "deepspeed_${NGPU_PER_NODE}GPUs_24batch_size" \
        --gradient_accumulation_steps $((24 / NGPU_PER_NODE / 3)) \
        --fp16 \
        $deepspeed \
        --deepspeed_config deepspeed_bsz24_config.json \
        --dropout 0.1 \
        --model_file $MODEL_FILE \
        --seed 12345 \
        --preln
}
deepspeed_line 1 out --deepspeed
expect_file out/predictions.json out/nbest_predictions.json out/runs/deepspeed_1GPUs_24batch_size/events.out.tfevents.*
expect_line '^bert_squad_progress: step=4 lr=7\.5e-06 loss='
expect_line '^ At step 4, averaged throughput for [0-9]+ rounds is: .* Samples/s'
expect_line '\[logging\.py:[0-9]+:log_dist\] \[Rank 0\] step=4, skipped=0, lr=\[7\.5e-06\], mom=\[\(0\.9, 0\.999\)\]'
expect_line '\[timer\.py:[0-9]+:stop\] 0/4, RunningAvgSamplesPerSec='
micro_batches() { # COUNT, of an update; their size
    setting train_batch_size 24
    setting micro_batches_per_update "$1"
}
micro_batches 8
setting hidden_dropout_prob '0\.1'
setting attention_probs_dropout_prob '0\.1'
# Times named microstep are of one micro-batch, the others of the update.
grep -E '^\[.*\] \[Rank 0\] rank=0 time \(ms\) \| forward' "$err" | python3 -B -c '
import re, sys
lines = [dict(re.findall(r"(\w+): ([0-9.]+)", line)) for line in sys.stdin]
assert len(lines) == 8, lines  # two for each update
names = ["forward", "backward", "backward_inner", "backward_allreduce", "step"]
for micro, update in zip(lines[::2], lines[1::2]):
    assert list(micro) == [name + "_microstep" for name in names] and list(update) == names, (micro, update)
for name in names[:1] + names[2:3]:  # the first update has 8 micro-batches
    assert abs(8 * float(lines[0][name + "_microstep"]) - float(lines[1][name])) < 0.05, (name, lines[:2])
' || fail "other times"
# The engine's file decides, and the program itself the schedule and the weight decay.
expect_err "learning_rate: deepspeed_bsz24_config.json overrides 2e-05 on the command line"
grep -qE '^  train_batch_size +24$' "$err" || fail "not the file's batch"
grep -qE '^  schedule +bertadam$' "$err" || fail "not BertAdam's schedule"
grep -qE '^  weight_decay +0\.01$' "$err" || fail "not the program's weight decay"
original berth evaluate squad $SQUAD_DIR/dev-v1.1.json out/predictions.json
expect_out '"exact_match":'
# Other values of the file: other numbers.
sed -i 's/"train_batch_size": 24/"train_batch_size": 12/' deepspeed_bsz24_config.json
deepspeed_line 1 twelve -d
grep -qE '^  train_batch_size +12$' "$err" || fail "not the file's batch"
sed -i 's/"train_batch_size": 12/"train_batch_size": 24/' deepspeed_bsz24_config.json
# Several processes, each with its part of the batch in the line.
for processes in 2 8; do
    deepspeed_line $processes several-$processes --deepspeed launch $processes
    micro_batches $((8 / processes))
    expect_file several-$processes/predictions.json
done
SQUAD_DIR=data
# PyTorch's launcher inserts the rank.
original env WORLD_SIZE=1 RANK=0 LOCAL_RANK=0 berth as nvidia_run_squad_baseline.py --local_rank=0 --do_train \
    --bert_model bert-large-uncased --model_file "$MODEL_FILE" --ckpt_type DS --deepspeed_transformer_kernel \
    --train_file data/train-v1.1.json --output_dir launched --max_steps 1

# --- run_squad_baseline.sh, and run_hf.sh with Hugging Face's weights -----------------------------

baseline_line() { # OUTPUT WORDS...
    local OUTPUT_DIR=$1
    shift
    same_printed "$OUTPUT_DIR" berth as nvidia_run_squad_baseline.py \
        --bert_model bert-large-uncased \
        --do_train \
        --do_lower_case \
        --do_predict \
        --train_file $SQUAD_DIR/train-v1.1.json \
        --predict_file $SQUAD_DIR/dev-v1.1.json \
        --train_batch_size 24 \
        --learning_rate 3e-5 \
        --num_train_epochs 2.0 \
        --max_seq_length 384 \
        --doc_stride 128 \
        --output_dir "$OUTPUT_DIR" \
        --job_name baseline_1GPUs_24batch_size \
        --gradient_accumulation_steps 4 \
        --model_file $MODEL_FILE "$@"
}
# A batch is that of a process.
for processes in 1 2 8; do
    original launch $processes berth as --dry_run nvidia_run_squad_baseline.py --bert_model bert-large-uncased --do_train \
        --do_lower_case --train_file $SQUAD_DIR/train-v1.1.json --train_batch_size 3 --output_dir "batch-$processes" \
        --model_file $MODEL_FILE
    command -v mpirun.openmpi >/dev/null || continue
    expect_line "^  sequences_per_update +$processes process(es)? x 3 = $((3 * processes))\$"
done
original launch 8 berth as nvidia_run_squad_baseline.py --bert_model bert-large-uncased --do_train --do_lower_case \
    --train_file $SQUAD_DIR/train-v1.1.json --train_batch_size 3 --output_dir eight --model_file $MODEL_FILE --max_steps 2
expect_file eight/model.safetensors
baseline_line half --fp16
expect_file half/predictions.json
grep -qE '^  optimizer +adamw$' "$err" || fail "not apex's optimizer in fp16"
baseline_line full
grep -qE '^  optimizer +bertadam$' "$err" || fail "not BertAdam in fp32"
grep -qE '^  clip_by +both$' "$err" || fail "not clipped twice"
"$BERTH" convert bert-large-uncased torch --to torch --quiet && mkdir ckpt
mv torch/pytorch_model.bin ckpt/bert-large-uncased-whole-word-masking-pytorch_model.bin
MODEL_FILE=ckpt/bert-large-uncased-whole-word-masking-pytorch_model.bin
baseline_line hf --ckpt_type HF --origin_bert_config_file bert-large-uncased-config.json
expect_file hf/predictions.json

# On several processes a batch is that of one.
for processes in 2 8; do
    original launch $processes berth as nvidia_run_squad_baseline.py --bert_model bert-large-uncased --do_train \
        --train_file more/train-v1.1.json --train_batch_size 3 --output_dir three-$processes --model_file $MODEL_FILE
    setting train_batch_size $((3 * processes))
    setting micro_batches_per_update 1
    expect_line '^bert_squad_progress: step='
    expect_no "$err" '[Rank 0]' # of the engine
    [ "$processes" -eq 8 ] || # where there are enough updates to time
        expect_line '^expected time: [0-9]+:[0-9]{2}:[0-9]{2} for the [0-9]+ updates that are left, .* without evaluations'
done

# --- the scripts, with the variables of the original ----------------------------------------------

mkdir CKPT && cp checkpoints/training_state_checkpoint_162.tar CKPT
cp checkpoints/training_state_checkpoint_162.tar more
export SQUAD_DIR=more OUTPUT_DIR=of-script
if command -v mpirun.openmpi >/dev/null; then
    export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
    with_mpi original berth as run_squad_baseline.sh 8 CKPT/training_state_checkpoint_162.tar
    setting train_batch_size 24
    setting micro_batches_per_update 1
    expect_file of-script/predictions.json of-script/runs/baseline_8GPUs_24batch_size/events.out.tfevents.*
    with_mpi original berth as run_squad_deepspeed.sh 8 CKPT/training_state_checkpoint_162.tar more of-engine
    micro_batches 1
    # Eight lines, each into the folder of the one before.
    cp deepspeed_bsz24_config.json deepspeed_bsz24_fp16_config.json
    sed 's/, "fp16": {"enabled": true}//' deepspeed_bsz24_config.json >deepspeed_bsz24_fp32_config.json
    BERTH_OPTIONS="--max_steps=1 --skip_checkpoint" with_mpi original berth as run_tests.sh
    [ "$(cat "$out" "$err" | grep -c '^finetune squad$')" -eq 8 ] || fail "not eight runs"
fi
unset OUTPUT_DIR
original env BERTH_PRINT_COMMAND=1 berth as run_squad_baseline.sh 8 CKPT/training_state_checkpoint_162.tar
expect_line '--output_dir /tmp/BingBertSquad-Output' # the original's default
unset SQUAD_DIR
original env BERTH_PRINT_COMMAND=1 berth as run_squad_baseline.sh 8 CKPT/training_state_checkpoint_162.tar
expect_line '--train_file /data/BingBertSquad/train-v1.1.json'
SQUAD_DIR=more original env BERTH_PRINT_COMMAND=1 berth as run_BingBertSquad.sh -g 4 -n 2 -b 48 -e 3 -d --max_steps 8
expect_line 'mpirun -np 8 berth finetune squad'
expect_line '--num_train_epochs 3'
expect_line 'runs/BingBertSquad_ds-true_4-gpu'
SQUAD_DIR=data

MODEL_FILE=checkpoints/training_state_checkpoint_162.tar
take_section "BingBertSquad with DeepSpeed"
is_printed berth as nvidia_run_squad_deepspeed.py --bert_model bert-large-uncased --do_train \
    --do_lower_case --do_predict --train_file data/train-v1.1.json --predict_file data/dev-v1.1.json --train_batch_size 12 \
    --predict_batch_size 3 --learning_rate 3e-5 --num_train_epochs 2.0 --max_seq_length 384 --doc_stride 128 \
    --output_dir trained --job_name deepspeed_2_24batch_size --gradient_accumulation_steps 4 --fp16 --deepspeed \
    --deepspeed_config deepspeed_bsz24_config.json --dropout 0.1 --model_file $MODEL_FILE --seed 12345 --preln
is_printed berth as nvidia_run_squad_baseline.py --bert_model bert-large-uncased --do_train \
    --do_predict --do_lower_case --train_file data/train-v1.1.json --predict_file data/dev-v1.1.json --train_batch_size 24 \
    --learning_rate 3e-5 --num_train_epochs 1 --output_dir baseline --model_file $MODEL_FILE --job_name baseline
is_printed berth as evaluate-v1.1.py data/dev-v1.1.json trained/predictions.json
run_page 2
expect_file trained/runs/deepspeed_2_24batch_size/events.out.tfevents.* trained/model.safetensors baseline/predictions.json
expect_out '"exact_match":'

# --- a checkpoint that lies alone, in the other verbs ---------------------------------------------

lone="checkpoints/training_state_checkpoint_162.tar --vocab_file bert-large-uncased/vocab.txt"
for name in config_file config; do
    original berth predict squad --model $lone --$name "$work/config.json" --predict_file data/dev-v1.1.json \
        --output_dir "answers-$name"
    expect_file "answers-$name/predictions.json"
done
original berth answer --model $lone --config_file "$work/config.json" --question "Who lived in Oslo?" --context "Ada lived in Oslo."
original berth show squad --model $lone --config_file "$work/config.json" --input data/dev-v1.1.json \
    --start-sample 1 --num-test-samples 2
echo "Ada lived in Oslo." >text
original berth embed --model $lone --config_file "$work/config.json" text --output text.npy
original berth convert $lone --config_file "$work/config.json" folder
expect_file folder/config.json folder/vocab.txt folder/model.safetensors
run compare folder pretrained
expect_code 0
run predict squad --model $lone --predict_file data/dev-v1.1.json --output_dir none
expect_code 66
expect_err "use config_file for a file elsewhere"

# --- BingBert's pre-training ----------------------------------------------------------------------

for article in 1 2 3 4 5 6 7 8; do
    printf 'ada lived in oslo %s. hugo lived in riga. olga lived in bern. where did rita live? in rome.\n\n' "$article".{1,2,3,4,5,6}
done >text.txt
run prepare --text text.txt --vocab bert-large-uncased/vocab.txt --output prepared --max_seq_length 128 \
    --max_predictions_per_seq 20 --shards 2 --test_shards 1 --dupe_factor 2
expect_code 0
mkdir -p workspace/bert/data validation
shards=$(dirname "$(find prepared -name '*training_0.hdf5')")
cp -r "$shards" workspace/bert/data/128 && cp -r "$shards" validation/validation_set
cat >bert_large_lamb_nvidia_data.json <<'END'
{"name": "bing_bert_large_lamb_seq", "bert_token_file": "bert-large-uncased", "bert_model_file": "bert-large-uncased",
 "bert_model_config": {"vocab_size_or_config_json_file": 119547, "hidden_size": 32, "num_hidden_layers": 2,
  "num_attention_heads": 2, "intermediate_size": 64, "hidden_act": "gelu", "max_position_embeddings": 128,
  "type_vocab_size": 2, "initializer_range": 0.02, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1},
 "data": {"flags": {"pretrain_dataset": true}, "mixed_seq_datasets": {"128": {"pretrain_dataset": "data/128"}}},
 "mixed_seq_training": {"128": {"num_epochs": 16, "warmup_proportion": 0.06, "learning_rate": 11e-3, "num_workers": 4,
  "decay_rate": 0.90, "decay_step": 250, "total_training_steps": 3}},
 "validation": {"path": "validation_set/"}}
END
cat >deepspeed_bsz64k_lamb_config_seq128.json <<'END'
{"train_batch_size": 16, "train_micro_batch_size_per_gpu": 8, "steps_per_print": 1,
 "optimizer": {"type": "Lamb", "params": {"lr": 11e-3, "weight_decay": 0.01, "bias_correction": false, "max_coeff": 0.3,
  "min_coeff": 0.01}},
 "gradient_clipping": 1.0, "wall_clock_breakdown": false, "fp16": {"enabled": true}}
END
original berth as deepspeed_train.py \
    --cf bert_large_lamb_nvidia_data.json \
    --max_seq_length 128 \
    --output_dir bert_model_outputs \
    --deepspeed \
    --deepspeed_transformer_kernel \
    --print_steps 100 \
    --lr_schedule "EE" \
    --lr_offset 10e-4 \
    --job_name lamb_nvidia_data_64k_seq128 \
    --deepspeed_config deepspeed_bsz64k_lamb_config_seq128.json \
    --data_path_prefix workspace/bert \
    --use_nvidia_dataset
expect_line 'bing_bert_progress: step=3, loss='
expect_line 'step=3, skipped=0'
rows=$((($(wc -l <bert-large-uncased/vocab.txt) + 7) / 8 * 8))
grep -q "\"vocab_size\": $rows," bert_model_outputs/config.json || grep -q "\"vocab_size\": $rows\$" bert_model_outputs/config.json ||
    fail "not the vocabulary's size, a multiple of 8"
grep -q '"pre_layer_norm": true' bert_model_outputs/config.json || fail "norms come after"
expect_file bert_model_outputs/runs/lamb_nvidia_data_64k_seq128/events.out.tfevents.* bert_model_outputs/model.safetensors
# The second phase, from a checkpoint of DeepSpeed.
"$BERTH" convert bert_model_outputs saved_models --to deepspeed --names nvidia --step 7500 --quiet
echo global_step1 >saved_models/latest # the identifier decides
original berth as deepspeed_train.py \
    --cf bert_large_lamb_nvidia_data.json \
    --max_seq_length 128 \
    --output_dir second \
    --print_steps 100 \
    --deepspeed \
    --deepspeed_transformer_kernel \
    --job_name second \
    --deepspeed_config deepspeed_bsz64k_lamb_config_seq128.json \
    --data_path_prefix workspace/bert \
    --validation_data_path_prefix validation \
    --rewarmup \
    --lr_schedule "EE" \
    --attention_dropout_checkpoint \
    --lr_offset 0.0 \
    --load_training_checkpoint saved_models \
    --load_checkpoint_id global_step7500 \
    --ckpt_to_save 160 161
expect_err "--load_training_checkpoint: the weights of saved_models/global_step7500"
expect_line '^  validation_file +validation/validation_set/?$'
expect_file second/model.safetensors
finish
