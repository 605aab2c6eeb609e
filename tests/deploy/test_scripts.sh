#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# deploy/scripts: the example scripts of Intel's package and of BingBertSquad, with the originals' variables, arguments
# and checks. Each plans (--dry-run) and trains.
scripts=$(cd "$(dirname "$0")/../../deploy/scripts" && pwd)
tests=$(cd "$(dirname "$0")" && pwd)
. "$(dirname "$0")/../seeds/lib.sh"
unset CHECKPOINT_DIR DATASET_DIR OUTPUT_DIR MPI_NUM_PROCESSES MODEL_DIR BATCH_SIZE
# Processes share the processors of this machine.
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
make_model bert-base-uncased
berth convert bert-base-uncased google --to tensorflow --quiet || exit 1
mkdir squad glue
make_dataset squad/train-v1.1.json
cp squad/train-v1.1.json squad/dev-v1.1.json
make_mrpc glue/MRPC
if command -v mpirun >/dev/null; then
    processes=2
else
    processes=1
    echo "no mpirun: several processes were not tried"
fi

script() { # [NAME=VALUE...] SCRIPT WORDS...: with the program of the path, as a user's
    local variables=()
    while [[ $1 == *=* ]]; do
        variables+=("$1")
        shift
    done
    what="${variables[*]} $*"
    local name=$1
    shift
    with_mpi env -u BERTH "${variables[@]}" "$scripts/$name" "$@" >"$out" 2>"$err" </dev/null
    code=$?
}

# --- Intel's ----------------------------------------------------------------------------------------

ls "$scripts"/fp32_*.sh >found
[ "$(wc -l <found)" -eq 6 ] || fail "a script that is not tried"
# The checks of each.
while read -r path; do
    name=${path##*/}
    script "$name"
    expect_code 1
    expect_err "The required environment variable OUTPUT_DIR has not been set"
    script OUTPUT_DIR=made "$name"
    expect_code 1
    expect_err "The required environment variable CHECKPOINT_DIR has not been set"
    script OUTPUT_DIR=made CHECKPOINT_DIR=nowhere "$name"
    expect_code 1
    expect_err "The CHECKPOINT_DIR 'nowhere' does not exist"
    script OUTPUT_DIR=made CHECKPOINT_DIR=google DATASET_DIR=nowhere "$name"
    expect_code 1
    expect_err "The DATASET_DIR 'nowhere' does not exist"
done <found
[ ! -e made ] || fail "a folder was made before the check of the others"

squad="CHECKPOINT_DIR=google DATASET_DIR=squad"
mrpc="CHECKPOINT_DIR=google DATASET_DIR=glue"
script $squad OUTPUT_DIR=large BERTH_OPTIONS="--dry-run --verbose" fp32_squad_training.sh
expect_code 0
setting train_batch_size 24
setting learning_rate 3e-05
setting optimizer adam_weight_decay
setting train_file squad/train-v1.1.json
[ -z "$(ls large)" ] || fail "a dry run wrote"
script $squad OUTPUT_DIR=large BATCH_SIZE=4 MODEL_DIR=/zoo BERTH_OPTIONS=--verbose fp32_squad_training.sh
expect_code 0
expect_err "note: MODEL_DIR has no effect"
setting train_batch_size 4
expect_file large/predictions.json large/model.safetensors
# Options after the name, of the program or the launcher, win over the script's.
script $squad OUTPUT_DIR=large BERTH_OPTIONS="--dry-run --verbose" fp32_squad_training.sh --num_train_epochs 3 --batch-size=4 \
    learning_rate=1e-4 --save_checkpoints_steps=2 --n_best_size 3
expect_code 0
setting total_steps 6
setting train_batch_size 4
setting learning_rate 0.0001
setting checkpoint_every_steps 2
for name in fp32_squad_training_demo.sh fp32_training_demo.sh; do
    script $squad OUTPUT_DIR=large BERTH_OPTIONS="--dry-run --verbose" $name --num_train_epochs 2 -b 4
    expect_code 0
    setting train_batch_size 4
    setting total_steps 4
done
for name in fp32_classifier_training.sh fp32_training_single_node.sh; do
    script $mrpc OUTPUT_DIR=large BERTH_OPTIONS="--dry-run --verbose" $name --num_train_epochs 3 -b 5
    expect_code 0
    setting train_batch_size 5
    setting total_steps 12
done
script CHECKPOINT_DIR=bert-base-uncased DATASET_DIR=squad OUTPUT_DIR=folder BATCH_SIZE=4 fp32_squad_training.sh
expect_code 0
cmp -s large/model.safetensors folder/model.safetensors || fail "another model from Hugging Face's files"

script $squad OUTPUT_DIR=demo BATCH_SIZE=1 BERTH_OPTIONS="--dry-run --verbose" fp32_training_demo.sh
setting total_steps 1
setting validation_file squad/dev-v1.1.json
cp squad/dev-v1.1.json squad/mini-dev-v1.1.json
script $squad OUTPUT_DIR=demo BATCH_SIZE=1 BERTH_OPTIONS=--verbose fp32_squad_training_demo.sh
expect_code 0
expect_file demo/predictions.json
setting validation_file squad/mini-dev-v1.1.json

for name in fp32_classifier_training.sh fp32_training_single_node.sh; do
    script $mrpc OUTPUT_DIR="$name.out" BERTH_OPTIONS="--dry-run --verbose" "$name"
    expect_code 0
    setting total_steps 18 # int(20 / 32 * 30)
    setting train_batch_size 32
done
script $mrpc OUTPUT_DIR=mrpc MPI_NUM_PROCESSES=$processes fp32_training_single_node.sh
expect_code 0
[ $processes = 1 ] || expect_err "ranks: $processes on 1 host"
expect_err "note: --framework is not needed"
grep '^berth: note: ' "$err" | sort | uniq -d >twice
[ ! -s twice ] || fail "printed by two processes: $(cat twice)"
expect_file mrpc/eval_results.txt
script $mrpc OUTPUT_DIR=class fp32_classifier_training.sh
expect_code 0
expect_file class/eval_results.txt
if [ $processes = 2 ]; then
    script $mrpc OUTPUT_DIR=multi BERTH_OPTIONS="--dry-run --verbose" fp32_training_multi_node.sh
    expect_code 0
    setting total_steps 1
    setting optimizer adam_weight_decay
    setting precision fp32
    [ -z "$(ls multi)" ] || fail "a dry run wrote"
    script CHECKPOINT_DIR=google DATASET_DIR=glue/MRPC OUTPUT_DIR=multi fp32_training_multi_node.sh
    expect_code 0
    expect_line "ranks: 2 on 1 host"
    expect_file multi/eval_results.txt
fi

# --- BingBertSquad's --------------------------------------------------------------------------------

make_model bert-large-uncased
sed -i 's/"model_type"/"pre_layer_norm": true, "model_type"/' "$work/config.json"
berth init --config "$work/config.json" --output pretrained --seed 7 --quiet || exit 1
cp bert-large-uncased/vocab.txt pretrained
berth convert pretrained saved --to deepspeed --names nvidia --quiet || exit 1
mv saved/global_step*/mp_rank_00_model_states.pt training_state_checkpoint_162.tar
berth convert bert-large-uncased saved-post --to deepspeed --names nvidia --quiet || exit 1
mv saved-post/global_step*/mp_rank_00_model_states.pt post.tar

for words in "" "1" "1 model squad" "1 model squad out 1e-5 1 29500 0.1 9"; do
    script run_squad_deepspeed.sh $words
    expect_code 2
    expect_err "usage: run_squad_deepspeed.sh NUMBER_OF_PROCESSES MODEL_FILE SQUAD_DIR OUTPUT_DIR"
done
script run_squad_baseline.sh 1
expect_code 2
expect_err "usage: run_squad_baseline.sh NUMBER_OF_PROCESSES MODEL_FILE [SQUAD_DIR [OUTPUT_DIR]]"
script BERTH_OPTIONS="--dry-run --verbose" run_squad_deepspeed.sh 1 training_state_checkpoint_162.tar squad planned
expect_code 0
expect_out "lr is 0.00003"
expect_out "seed is 12345"
setting train_batch_size 24
setting micro_batches_per_update 3
[ ! -e planned ] || fail "a dry run wrote"
script run_squad_deepspeed.sh $processes training_state_checkpoint_162.tar squad deep 0.00001 7 29501 0.2
expect_code 0
expect_out "dropout is 0.2"
expect_err "port 29501 has no effect"
setting learning_rate 1e-05
setting seed 7
setting schedule bertadam
[ $processes = 1 ] || expect_line "ranks: 2 on 1 host"
expect_file deep/predictions.json deep/nbest_predictions.json \
    deep/runs/deepspeed_${processes}GPUs_24batch_size/events.out.tfevents.*
script run_squad_deepspeed.sh $processes training_state_checkpoint_162.tar squad other 0.00001 7
expect_code 0
! cmp -s deep/model.safetensors other/model.safetensors || fail "the eighth argument has no effect"
# A file of the user's: its values count.
sed 's/"train_batch_size": 24/"train_batch_size": 12/' "$scripts/deepspeed_bsz24_config.json" >deepspeed_bsz24_config.json
script BERTH_OPTIONS="--dry-run --verbose" run_squad_deepspeed.sh 1 training_state_checkpoint_162.tar squad planned
setting train_batch_size 12

script BERTH_OPTIONS="--dry-run --verbose" run_squad_baseline.sh 1 post.tar squad planned
expect_code 0
setting micro_batches_per_update 2
[ ! -e planned ] || fail "a dry run wrote"
script run_squad_baseline.sh $processes post.tar squad base
expect_code 0
setting optimizer adamw
setting learning_rate 3e-05
expect_file base/predictions.json base/runs/baseline_${processes}GPUs_24batch_size/events.out.tfevents.*

# --- what the pods of the manifests run -------------------------------------------------------------

render=$(command -v kustomize >/dev/null && echo kustomize build || echo kubectl kustomize)
cp -r "$scripts/../kubernetes" kubernetes
cp -r "$scripts/../../examples/k8s" k8s
if ! $render kubernetes/overlays/job >rendered 2>&1 || ! python3 -c "import yaml, jsonschema" 2>/dev/null; then
    echo "no kubectl 1.22, kustomize, python3-yaml or python3-jsonschema: the manifests' commands were not tried"
    finish
fi
mkdir datasets
cp -r squad/* glue/MRPC datasets
make_dump >datasets/enwiki-latest-pages-articles.xml
bzip2 datasets/enwiki-latest-pages-articles.xml
sed -i -e "s|^DATASET_DIR=.*|DATASET_DIR=$PWD/datasets|" -e "s|^CHECKPOINT_DIR=.*|CHECKPOINT_DIR=$PWD/bert-base-uncased|" \
    -e "s|^OUTPUT_DIR=.*|OUTPUT_DIR=$PWD/pods|" kubernetes/base/settings.env k8s/mlops/*/mlops.env
ln -s "$scripts" examples
sed -i "s|^MODEL_DIR=.*|MODEL_DIR=$PWD|" k8s/mlops/*/mlops.env
tried=0
for overlay in kubernetes/overlays/{prepare,indexed-job,job,mpijob-v2beta1} k8s/mlops/{single,multi}-node; do
    name=${overlay##*/} # all but the download; the first makes data
    what=$overlay
    $render "$overlay" >rendered 2>"$err" || fail "not rendered"
    # Of mpirun and of the pods of an Indexed Job, what a process runs. Workers run only sshd.
    python3 -B "$tests/manifests.py" commands rendered >lines
    sed -i -E 's/ berth-mpirun .* berth / berth /; s/ berth-indexed-job / berth /; /sshd/d; /^env( [A-Z_]+=\S+)* berth$/d' lines
    [ "$name" = prepare ] || sed -i -E '/fp32_/!s/$/ --dry-run/; /fp32_/s/^env /env BERTH_OPTIONS="--dry-run --verbose" /' lines
    rm -rf pods
    tried=$((tried + $(grep -cE "(^|[ '/])(berth|fp32_\S+)( |$)" lines)))
    PATH=$scripts:$PATH with_mpi bash -eu lines >"$out" 2>"$err" </dev/null
    code=$?
    expect_code 0
done
[ $tried -eq 6 ] || fail "only $tried commands"
finish
