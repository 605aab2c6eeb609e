#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# deploy/kubernetes and examples/k8s, rendered by kubectl or kustomize with other settings than those that are there, and
# checked (manifests.py). With BERTH_KUBERNETES_PYTHON, a Python that has kubernetes-validate, PyYAML and jsonschema, also
# against Kubernetes' schemas. The scripts of deploy/ are read by shellcheck.
set -u
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
fail() {
    failures=$((failures + 1))
    echo "FAILED: $1"
}
scripts=$(cd "$here/../../deploy" && grep -lr '^#!.*bash' scripts container/bin slurm) || fail "no scripts"
if command -v shellcheck >/dev/null; then
    # shellcheck disable=SC2086
    (cd "$here/../../deploy" && shellcheck --external-sources --source-path=SCRIPTDIR --severity=warning $scripts) ||
        fail "shellcheck"
else
    echo "no shellcheck: the scripts were not read"
fi
if command -v kustomize >/dev/null; then
    render() { kustomize build "$1"; }
elif command -v kubectl >/dev/null; then
    render() { kubectl kustomize "$1"; }
else
    echo "neither kubectl nor kustomize: skipped"
    exit $((failures == 0 ? 77 : 1))
fi
python=${BERTH_KUBERNETES_PYTHON:-python3}
"$python" -c "import yaml, jsonschema" 2>/dev/null ||
    { echo "$python has no yaml or jsonschema (packages python3-yaml, python3-jsonschema): skipped"; exit 77; }

cp -r "$here/../../deploy/kubernetes" "$work/kubernetes"
cd "$work/kubernetes" || exit 1
mkdir ../rendered
render overlays/job >../first 2>../err || { # before 4.2, which Debian 12 has
    grep -qE 'components|replacements|unknown field' ../err && { echo "kubectl is too old for components: skipped"; exit 77; }
}
sed -i -e 's/^UID=.*/UID=4321/' -e 's/^GID=.*/GID=8765/' -e 's/^DATA_CLAIM=.*/DATA_CLAIM=other-data/' \
    -e 's/^OUTPUT_CLAIM=.*/OUTPUT_CLAIM=other-output/' -e 's|^DATA_MOUNT=.*|DATA_MOUNT=/other/data|' \
    -e 's|^DATASET_DIR=.*|DATASET_DIR=/other/data/sets|' base/settings.env
for folder in namespace overlays/*; do
    render "$folder" >"../rendered/${folder##*/}.yaml" 2>../err || fail "$folder: $(cat ../err)"
    [ ! -s ../err ] || fail "$folder: $(cat ../err)"
done
[ "$(ls overlays | wc -l)" -ge 5 ] || fail "too few overlays"
"$python" -B "$here/manifests.py" check ../rendered || fail "the manifests"

# Intel's package has these files; the user edits mlops.env and the patches.
cp -r "$here/../../examples/k8s" "$work/k8s"
(cd "$work/k8s/mlops" && sed -i -e 's|^REGISTRY=.*|REGISTRY=docker.io/library|' \
    -e 's|^DATASET_DIR=.*|DATASET_DIR=/other/sets|' ./*/mlops.env && sed -i -e 's/runAsUser:.*/runAsUser: 4321/' \
    -e 's/\(runAsGroup\|fsGroup\):.*/\1: 8765/' ./*/*-patch.yaml && sed -i 's/replicas: 2/replicas: 3/' multi-node/mpi-job.yaml)
mkdir ../intel
for folder in single-node multi-node; do
    for file in mlops.env kustomization.yaml; do
        [ -s "$work/k8s/mlops/$folder/$file" ] && [ -s "$work/k8s/mlops/base/$file" ] || fail "no $folder/$file or base/$file"
    done
    render "$work/k8s/mlops/$folder" >"../intel/$folder.yaml" 2>../err || fail "$folder: $(cat ../err)"
    [ ! -s ../err ] || fail "$folder: $(cat ../err)"
done
"$python" -B "$here/manifests.py" intel ../intel || fail "Intel's manifests"

# The checks find what they are for.
expect_problem() { # WHAT FILE EXPRESSION TEXT [VERB FOLDER]
    mkdir ../bad && cp "../${6:-rendered}"/*.yaml ../bad
    sed -i "$3" "../bad/$2"
    "$python" -B "$here/manifests.py" "${5:-check}" ../bad >../problems && fail "$1 is not noticed"
    grep -qF -- "$4" ../problems || fail "$1: not \"$4\" but $(cat ../problems)"
    rm -rf ../bad
}
expect_problem "root" job.yaml 's/runAsUser: 4321/runAsUser: 0/' securityContext
expect_problem "rights" prepare.yaml 's/- ALL/- NET_RAW/' securityContext
expect_problem "a folder of the host" mpijob-v2beta1.yaml '0,/persistentVolumeClaim:/s//hostPath:/' hostPath
expect_problem "an unknown field" mpijob-v2beta1.yaml 's/cleanPodPolicy/cleanPolicy/' "cleanPolicy"
expect_problem "a claim in an overlay" job.yaml 's/^kind: Job/kind: PersistentVolumeClaim/' "belongs elsewhere"
expect_problem "a misspelt variable" job.yaml 's/(DATASET_DIR)/(DATA_DIR)/' DATA_DIR
expect_problem "a missing program" mpijob-v2beta1.yaml 's/- berth-mpirun/- berth-mpiexec/' "no program"
expect_intel_problem() { # WHAT FILE EXPRESSION TEXT
    expect_problem "$@" intel intel
}
expect_intel_problem "root" multi-node.yaml 's/runAsUser: 4321/runAsUser: 0/' securityContext
expect_intel_problem "a field of the other version" multi-node.yaml 's/  cleanPodPolicy: Running/  runPolicy: {}/' runPolicy
expect_intel_problem "a missing script" single-node.yaml 's/fp32_training_single_node/fp32_training/' "no script"
expect_intel_problem "another number of processes" multi-node.yaml 's/replicas: 3/replicas: 4/' "for 4 workers"
expect_intel_problem "another registry" single-node.yaml 's|image: docker.io/library|image: set|' "image set/berth"
expect_intel_problem "another mount" multi-node.yaml 's|mountPath: /other/sets|mountPath: set|' "mounts"
expect_intel_problem "another name" multi-node.yaml 's/bert-large-fp32-training/bert/' "pods {"

if "$python" -c "import kubernetes_validate" 2>/dev/null; then
    for folder in ../rendered ../intel; do
        "$python" -B "$here/manifests.py" validate "$folder" || fail "not valid"
    done
    sed -i 's/backoffLimit/backofLimit/' ../rendered/job.yaml
    "$python" -B "$here/manifests.py" validate ../rendered >/dev/null && fail "an unknown field is not noticed"
else
    echo "no kubernetes-validate in BERTH_KUBERNETES_PYTHON ($python): the schemas of Kubernetes were not tried"
fi

# The definition for Apptainer copies and installs what the Dockerfile does.
container=$here/../../deploy/container
words_of() { # FILE EXPRESSION
    grep -oE -e "$2" "$1" | sort -u
}
for expression in 'lib[a-z]+[0-9.]*(-dev)?' '-D[A-Z_]+=[^ ]+' 'dev/install-dependencies' \
    '\b(CMakeLists.txt|CMakePresets.json|include|src|compat|cli|demo|deploy/scripts)\b' '/usr/local/(bin|lib)/berth'; do
    words_of "$container/Dockerfile" "$expression" >../words
    [ -s ../words ] || fail "no $expression in the Dockerfile"
    diff ../words <(words_of "$container/berth.def" "$expression") || fail "Dockerfile and berth.def differ"
done
[ $failures -eq 0 ] || exit 1
echo "all good"
