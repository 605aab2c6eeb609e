#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# deploy/kubernetes/voyager: each manifest is rendered by kubectl and has only known fields (voyager.py), and what it runs
# goes from a dump of Wikipedia to answers, on small data and by as many processes as it says, for up to eight cards.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../seeds/lib.sh"
if command -v kubectl >/dev/null; then
    render() { kubectl kustomize "$1"; }
elif command -v kustomize >/dev/null; then
    render() { kustomize build "$1"; }
else
    echo "neither kubectl nor kustomize (package kubernetes-client): skipped"
    exit 77
fi
python3 -c "import yaml, jsonschema" 2>/dev/null ||
    { echo "python3 has no yaml or jsonschema (packages python3-yaml, python3-jsonschema): skipped"; exit 77; }

# --- the manifests ------------------------------------------------------------------------------------

cp -r "$here/../../deploy/kubernetes/voyager" voyager
sed -i 's/yourusername/me/g; s/youruid/4321/g; s/yourgid/8765/g' voyager/*.yaml voyager/*/*.yaml
mkdir rendered one
for manifest in voyager/*.yaml voyager/*/*.yaml; do
    what=$manifest
    cp "$manifest" one/manifest.yaml
    echo "resources: [manifest.yaml]" >one/kustomization.yaml
    render one >"rendered/${manifest##*/}" 2>"$err" || fail "it cannot be rendered"
done
check() {
    python3 -B "$here/voyager.py" check rendered >"$out" 2>"$err"
}
what="the manifests"
check || fail "a field is not known"
expect_problem() { # WHAT FILE EXPRESSION TEXT
    what=$1
    cp "rendered/$2" kept.yaml
    sed -i "$3" "rendered/$2"
    check && fail "it is not noticed"
    expect_out "$4"
    mv kept.yaml "rendered/$2"
}
expect_problem "an unknown field of an MPIJob" bert_phase1_8cards.yaml 's/cleanPodPolicy/cleanPolicy/' cleanPolicy
expect_problem "an unknown field of a pod" data_gen.yaml 's/enableServiceLinks/enableLinks/' enableLinks
expect_problem "an unknown field of a worker" bert_phase2_32cards.yaml 's/readinessProbe/probe/' probe
expect_problem "root" bert_inference_1card.yaml 's/runAsUser: 4321/runAsUser: 0/' runAsUser
expect_problem "an accelerator" data_gen.yaml '0,/cpu: "12"/s//habana.ai\/gaudi: 1/' habana.ai
expect_problem "too few slots" bert_ftuning_8cards.yaml 's/slotsPerWorker: 8/slotsPerWorker: 4/' "for 4 slots"
expect_problem "another batch" bert_phase1_32cards.yaml 's/train_batch_size=2048/train_batch_size=8192/' "expected 65536"
# shellcheck disable=SC2016
expect_problem "a misspelt variable" bert_phase1_1card.yaml 's/\$(vocab)/$(words)/' "has no value"

# --- what they run ------------------------------------------------------------------------------------

command_of() { # NAME: a line for a shell, with smaller numbers and paths of this folder
    python3 -B "$here/voyager.py" command "rendered/$1.yaml" | sed "s|/ceph/|$PWD/ceph/|g; s/=8192\b/=16/; s/=4096\b/=16/
        s/=2048\b/=4/; s/=1024\b/=2/; s/accumulation_steps=[0-9]*/accumulation_steps=2/; s/train_batch_size=24/train_batch_size=2/"
}
PATH=$(cd "$here/../../deploy/scripts" && pwd):$PATH
set_folder=$PWD/ceph/datasets/bert/pytorch
vocabulary=$set_folder/uncased_L-24_H-1024_A-16
mkdir -p "$set_folder/download/wikicorpus_en" "$set_folder/squad/v1.1" "$vocabulary"
make_model model
cp model/vocab.txt "$vocabulary" && cp "$work/config.json" "$vocabulary/bert_config.json"
make_dataset "$set_folder/squad/v1.1/train-v1.1.json" && make_dataset "$set_folder/squad/v1.1/dev-v1.1.json"
make_dump | bzip2 >"$set_folder/download/wikicorpus_en/enwiki-latest-pages-articles.xml.bz2"
command_of data_gen >datagen.sh
what="data_gen.yaml"
if command -v shellcheck >/dev/null; then
    sed -n 's/^bash -euc //p' <(tr '\n' '\f' <datagen.sh) | tr '\f' '\n' | xargs -0 -I{} bash -c "echo {}" |
        shellcheck -s bash - >"$out" 2>&1 || fail "shellcheck"
else
    echo "skipped: shellcheck; it is not installed"
fi
original env BERT_PREP_WORKING_DIR="$set_folder" VOCAB_FILE="$vocabulary/vocab.txt" bash datagen.sh
expect_file "$set_folder"/formatted_one_article_per_line/wikicorpus_en_one_article_per_line.txt \
    "$set_folder"/hdf5_lower_case_1_seq_len_{128_max_pred_20,512_max_pred_80}_*/wikicorpus_en/wikicorpus_en_training_0.hdf5
job() { # NAME
    local line processes
    line=$(command_of "$1")
    processes=$(python3 -B "$here/voyager.py" processes "rendered/$1.yaml")
    read -ra line <<<"$line"
    [ "$processes" = 1 ] || [ -z "$(command -v mpirun.openmpi)" ] || line=(launch "$processes" "${line[@]}")
    original "${line[@]}"
}
results=$PWD/ceph/results/bert_pytorch
job bert_phase1_1card
expect_line "sequences_per_update +1 process x 16 = 16"
job bert_phase2_1card
expect_file "$results"/1card/ckpt_20.pt
job bert_phase1_8cards
[ -z "$(command -v mpirun.openmpi)" ] || expect_line "sequences_per_update +8 processes x 16 = 128"
expect_file "$results"/8cards/ckpt_10.pt
job bert_phase2_8cards
expect_file "$results"/8cards/ckpt_20.pt
job bert_ftuning_8cards
[ -z "$(command -v mpirun.openmpi)" ] || expect_line "sequences_per_update +8 processes x 2 = 16"
expect_file "$results"/8cards/squad/{pytorch_model.bin,bert_config.json,predictions.json}
job bert_inference_1card
expect_file "$results"/1card/inference/predictions.json ceph/tmp/log_directory/dllogger.json
# Of 32 processes only whether their commands can be read.
for name in bert_phase1_32cards bert_phase2_32cards; do
    read -ra line <<<"$(command_of $name)"
    original berth as --print_command "${line[@]:2}"
    expect_out "berth pretrain"
done
finish
