# SPDX-License-Identifier: Apache-2.0
# Tests berth convert --to trainer: a run that goes on from the converted checkpoint ends with the bytes of one that was
# not interrupted, whatever the task; torch takes the files (check_to_trainer.py); what the Trainer does not have is said
# or refused. dev/others lets the Trainer itself go on.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
cd "$work" || exit 1
make_model model 64
make_dataset squad.json
printf 'sentence\tlabel\na good day\tgood\na bad day\tbad\nhello world\tgood\nwho did\tbad\n' >classify.tsv
printf 'ada B-A\nlived O\nin O\noslo B-A\n\nhugo B-A\nlived O\n\n' >tokens.txt
printf 'sentence1\tsentence2\nhello world\tada lived\nrita rome\tolga riga\n' >embed.tsv
for line in $(seq 8); do
    printf 'ada lived in oslo %s\nolga lived in riga %s\n\n' "$line" "$line"
done >text.txt
"$BERTH" prepare --text text.txt --vocab model/vocab.txt --output shards --max_seq_length 32 --max_predictions_per_seq 5 \
    --shards 1 --test_shards 1 --quiet >"$out" 2>"$err" || fail "no shards"
shards=$(dirname "$(find shards -name '*.hdf5' | head -n 1)")

declare -A tasks=(
    [squad]="finetune squad --train squad.json" [classify]="finetune classify --train classify.tsv"
    [tokens]="finetune tokens --train tokens.txt" [embed]="finetune embed --train embed.tsv"
    [mlm]="pretrain --objective mlm --train_file text.txt --do_eval false"
    [pretrain]="pretrain --optimizer adamw --schedule linear --input_dir $shards --max_predictions_per_seq 5")
train() { # TASK OUTPUT OPTIONS...: six updates
    local words=${tasks[$1]} output=$2
    shift 2
    # shellcheck disable=SC2086
    run $words --model model --output "$output" --max_seq_length 32 --train_batch_size 2 --max_steps 6 --save_steps 3 \
        --learning_rate 1e-3 --weight_decay 0.1 --adam_beta2 0.99 --warmup_steps 4 --precision fp32 --logging_steps 1 \
        --threads 1 --quiet "$@"
}
cases=0
torch_takes() { # TASK CHECKPOINT FOLDER [FROZEN_LAYERS]: is asked at the end for all, for to load torch takes seconds
    local kept=cases/$((++cases))
    mkdir -p "$kept"
    cp -r "$(dirname "$2")" "$kept/run"
    cp -r "$3" "$kept/there"
    echo "$1 $kept/run/$(basename "$2") $kept/there ${4:-0}" >>cases/list
}
expect_left() { # after a refusal
    [ ! -e there ] || fail "something was written"
    [ -z "$(find . -maxdepth 1 -name '*there*')" ] || fail "a part of the folder was left"
}

# --- every task ----------------------------------------------------------------------------------

for task in squad classify tokens embed mlm pretrain; do
    train $task $task
    expect_code 0
    run convert $task/checkpoint-3 $task-3 --to trainer
    expect_code 0
    expect_err "give the Trainer lr_scheduler_type linear, warmup_steps 4, max_steps 6, max_grad_norm 1, and updates of 2 seq"
    expect_no "$err" "warning"
    cmp $task/checkpoint-3/trainer_state.json $task-3/trainer_state.json || fail "another state"
    cmp $task/checkpoint-3/model.safetensors $task-3/model.safetensors || fail "other weights"
    for file in config.json vocab.txt optimizer.pt scheduler.pt; do
        [ -s "$task-3/$file" ] || fail "$file is missing"
    done
    torch_takes $task $task/checkpoint-3 $task-3

    train $task $task-back --resume_from_checkpoint $task-3
    expect_code 0
    expect_err "$task-3: resuming after update 3 with its weights and the optimizer's moments"
    expect_no "$err" "the learning rate"
    expect_no "$err" "resume: "
    cmp $task/model.safetensors $task-back/model.safetensors || fail "$task: another model at the end"
    rm -r $task-back
    # The moments make a difference.
    run convert $task/checkpoint-6 $task-6 --to trainer
    cp $task-6/optimizer.pt $task-3
    train $task $task-back --resume_from_checkpoint $task-3
    expect_code 0
    ! cmp -s $task/model.safetensors $task-back/model.safetensors || fail "$task: the same with other moments"
    rm -r $task-back $task-3 $task-6
done
# The rate is that of the next update, in DeepSpeed's file too.
run convert squad/checkpoint-3 engine --to deepspeed --zero_stage 0
python3 - engine/global_step3/mp_rank_00_model_states.pt squad/trainer_state.json <<'END' || fail "another rate"
import json
import struct
import sys
import zipfile
rates = {entry["step"]: entry["learning_rate"] for entry in json.load(open(sys.argv[2]))["log_history"]}
pickle = zipfile.ZipFile(sys.argv[1]).read("mp_rank_00_model_states/data.pkl")
sys.exit([pickle.count(struct.pack(">d", rates[step])) for step in (3, 4)] != [0, 2])
END
rm -r engine
[ -e embed/checkpoint-3/modules.json ] || fail "no modules of sentence-transformers"

# --- what the Trainer does not have --------------------------------------------------------------

refuse() { # WORDS OPTIONS...: a run with these options
    local words=$1
    shift
    train squad refused "$@"
    run convert refused/checkpoint-3 there --to trainer
    expect_code 78
    expect_err "$words"
    expect_left
    rm -r refused
}
refuse "the run's optimizer, nvlamb with |p|/|u| u, u = m^/(sqrt(v^)+eps) + d p; u alone where d = 0, is not torch's AdamW" \
    --optimizer nvlamb
refuse "convert the weights alone to hf" --optimizer lamb
refuse "adamw with m/(sqrt(v)+eps) + d p, is not" --bias_correction false
refuse "adamw with m^/(sqrt(v^)+eps), g += d p, is not" --adam_w_mode false
refuse "adamw with m^/sqrt(v^+eps) + d p, is not" --eps_inside_sqrt true
refuse "+ d p and each tensor clipped by its own norm, is not" --clip_by both
refuse "with the run's no_decay, weight decay applies to bert.embeddings.LayerNorm.weight, but the Trainer" --no_decay none
refuse "weight decay does not apply to bert.embeddings.word_embeddings.weight, but the Trainer" \
    --no_decay bias,LayerNorm,embeddings

accept() { # WORDS OPTIONS...: a run with these options, of which WORDS are said
    local words=$1
    shift
    train squad run "$@"
    expect_code 0
    run convert run/checkpoint-3 there --to trainer
    expect_code 0
    expect_err "$words"
}
accept "lr_scheduler_type linear, warmup_steps 4" --no_decay none --weight_decay 0 # its groups do not matter
torch_takes squad run/checkpoint-3 there
rm -r run there
accept "the parameters that the run freezes are not in optimizer.pt: freeze them in the Trainer's model too" --freeze_layers 1
torch_takes squad run/checkpoint-3 there 1
train squad back --freeze_layers 1 --resume_from_checkpoint there
expect_err "with its weights and the optimizer's moments"
cmp run/model.safetensors back/model.safetensors || fail "another model with frozen parameters"
rm -r run back there
accept "the Trainer has no schedule like this run's: the next update has this run's rate, 0.0005774, and" --schedule poly
torch_takes squad run/checkpoint-3 there
rm -r run there
accept "has no schedule like this run's" --lr_offset 1e-5
rm -r run there
accept "the Trainer rounds the warm-up of 0.9 updates" --warmup_steps 0 --warmup_proportion 0.15
expect_err "lr_scheduler_type linear, warmup_steps 1,"
rm -r run there
for names in "constant constant" "constant_warmup constant_with_warmup" "cosine cosine" "polynomial polynomial" \
    "inverse_sqrt inverse_sqrt"; do
    accept "lr_scheduler_type ${names#* }, warmup_steps" --schedule "${names% *}" --max_grad_norm 0
    expect_err "max_grad_norm 0,"
    expect_no "$err" warning
    torch_takes squad run/checkpoint-3 there
    rm -r run there
done
# A schedule that restarts within the run.
train squad early
train squad run --resume_from_checkpoint early/checkpoint-3 --rewarmup --save_steps 2
expect_code 0
run convert run/checkpoint-4 there --to trainer
expect_code 0
expect_err "the Trainer has no schedule like this run's: the next update has this run's rate, 0.00025, and"
rm -r early run there

# --- the source ----------------------------------------------------------------------------------

for folder in model squad; do # a model, and a finished run, which has trainer_state.json too
    run convert $folder there --to trainer
    expect_code 66
    expect_err "$folder: trainer needs the optimizer's state, which only a checkpoint of Berth has: give a folder"
    expect_left
done
for words in "--dtype bf16" "--zero_stage 1"; do
    # shellcheck disable=SC2086
    run convert squad/checkpoint-3 there --to trainer $words
    expect_code 2
    expect_left
done
expect_err "zero_stage is for deepspeed; omit it for trainer"
cp -r squad/checkpoint-3 cut
truncate -s 9000 cut/optimizer.safetensors
run convert cut there --to trainer
expect_code 65
expect_err "cut/optimizer.safetensors: "
expect_left

what="torch takes what was converted"
"${BERTH_PYTHON:-python3}" -B "$here/check_to_trainer.py" cases/list >"$out" 2>&1
code=$?
[ $code = 77 ] || {
    expect_code 0
    [ "$(grep -c ' takes the moments of ' "$out")" -eq $cases ] || fail "not all $cases were tried"
}

finish
