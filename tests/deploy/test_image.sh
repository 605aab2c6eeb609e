#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# deploy/container: the image is built from Debian alone, is small, and trains as any user. Its three variants: one process;
# an Indexed Job and an MPIJob of two pods on hosts of ../lab, with what Kubernetes and the MPI operator give their pods,
# which end with the bytes of one process. Needs root, buildah and Debian's mirror (or BERTH_BASE_ROOT, a Debian to start
# from), and minutes.
export TMPDIR=/tmp
. "$(dirname "$0")/../cli/lib.sh"
. "$(dirname "$0")/../lab/hosts.sh"
. "$(dirname "$0")/../comm/launch.sh"
. "$(dirname "$0")/image.sh"
trap '[ "$BASHPID" -ne $$ ] || { hosts_down; images_down; rm -rf "$work"; }' EXIT
images_up "${BERTH_IMAGES:-$work/images}" || exit

cd "$work" || exit 1
build() { # TAG MPI
    what="building $1"
    image_build "$1" "$2" >"$out" 2>"$err"
    code=$?
    expect_code 0
    image_start "$1"
}
build berth none
image_start localhost/base
base=$(image_bytes localhost/base)
bytes=$(image_bytes berth)
added=$(((bytes - base) / 1000000))
echo "the image has $((bytes / 1000000)) MB, $added MB more than its base"
[ $added -lt 60 ] || fail "the image adds $added MB"
what="a build with another MPI"
! image_build none lam >"$out" 2>"$err" || fail "built"
expect_err "expected none, mpich or openmpi, found lam"

# --- as any user ----------------------------------------------------------------------------------------

mkdir data output
chmod 777 output
chmod 755 "$work"
make_wide_model data/model
make_questions data/train-v1.1.json 40
cp data/train-v1.1.json data/dev-v1.1.json
words="--model /data/model --train /data/train-v1.1.json --dev /data/dev-v1.1.json --max_steps 3 --seed 3"
run finetune squad ${words//\/data/data} --output_dir alone
expect_code 0
container() { # UID WORDS...
    what="container: $*"
    local user=$1
    shift
    image_run "$user" -v "$work/data:/data:ro" -v "$work/output:/output" berth "$@" >"$out" 2>"$err" </dev/null
    code=$?
}
container 1000 id -u
expect_out 1000
container 4321 berth finetune squad $words --output_dir /output/one
expect_code 0
cmp -s alone/model.safetensors output/one/model.safetensors || fail "not the model of the program outside"
[ "$(stat -c %u:%g output/one/model.safetensors)" = 4321:4321 ] || fail "a file of another user"
container 4321 sh -c 'echo x >/data/x || echo x >/usr/local/x'
[ "$code" -ne 0 ] || fail "wrote where it must not"
what="the image's own command"
[ "$(image_tool inspect --type image --format '{{.OCIv1.Config.User}} {{.OCIv1.Config.Entrypoint}}' berth)" = \
    "1000:1000 [berth-entrypoint]" ] || fail "another user or another command"
# Intel's variables and scripts.
what="fp32_squad_training.sh"
image_run 4321 -v "$work/data:/data:ro" -v "$work/output:/output" --env CHECKPOINT_DIR=/data/model \
    --env DATASET_DIR=/data --env OUTPUT_DIR=/output/intel --env BERTH_OPTIONS=--max_steps=2 berth \
    fp32_squad_training.sh >"$out" 2>"$err"
code=$?
expect_code 0
[ -s output/intel/predictions.json ] || fail "no predictions"

# --- pods -----------------------------------------------------------------------------------------------

hosts_up 2 || { echo "pods were not tried"; finish; }
pod_user=4321
chown root:root "$work"
cp "/etc/netns/${lab}sw/hosts" hosts
make_corpus data/model/vocab.txt
cp -r "$shards" data/pretraining
pretrain="pretrain --input_dir /data/pretraining --config_file /data/model/config.json --vocab_file /data/model/vocab.txt
    --max_steps 40 --max_seq_length 32 --max_predictions_per_seq 4 --train_batch_size 64 --logging_steps 1 --do_eval false
    --virtual_ranks 2 --threads 1 --no_progress --resume_from_checkpoint auto"
run ${pretrain//\/data/data} --output_dir alone-pretrain
expect_code 0
wait_for() { # FILE TEXT
    for _ in $(seq 1200); do
        grep -qF -- "$2" "$1" 2>/dev/null && return 0
        sleep 0.1
    done
    cp "$1" "$out"
    fail "no \"$2\""
}

# An Indexed Job: pod 1 starts first, and waits. One pod is stopped, so all stop with a checkpoint and are started again.
build berth-mpich mpich
for k in 1 2; do echo "$lab_net.$k berth-pretrain-$((k - 1)).berth-pretrain" >>hosts; done
indexed() { # INDEX TRY
    what="pod $1, start $2"
    pod berth-mpich $(($1 + 1)) BERTH_PODS=2 BERTH_JOB=berth-pretrain BERTH_SERVICE=berth-pretrain \
        JOB_COMPLETION_INDEX="$1" UCX_TLS=tcp,self UCX_NET_DEVICES=eth0 berth-indexed-job $pretrain \
        --output_dir /output/indexed >"pod-$1-$2.log" 2>&1 </dev/null
    echo $? >"pod-$1-$2.code"
}
for try in 1 2; do
    indexed 1 $try &
    sleep 1
    indexed 0 $try &
    if [ $try = 1 ]; then
        wait_for pod-0-1.log "step 5/40"
        pod_signal 2 TERM
    fi
    wait
    cat pod-0-$try.log >"$out"
    cat pod-1-$try.log >"$err"
    what="Indexed Job, start $try"
    codes=$(cat pod-0-$try.code pod-1-$try.code | paste -sd' ')
    case $try in
    1) [ "$codes" = "75 75" ] || fail "the stopped pods' exit codes are $codes" ;;
    2) [ "$codes" = "0 0" ] || fail "exit codes $codes" ;;
    esac
    expect_out "ranks: 2 on 2 hosts, connected by mpich"
done
cmp -s alone-pretrain/model.safetensors output/indexed/model.safetensors || fail "not the bytes of one process"
[ "$(stat -c %u output/indexed/model.safetensors)" = $pod_user ] || fail "a file of another user"

# The line of Intel's documents, with processes that the container's own MPI starts: the folder is continued.
build berth-openmpi openmpi
for try in 1 2; do
    what="examples/fp32_squad_training.sh, start $try"
    image_run 4321 -v "$work/data:/data:ro" -v "$work/output:/output" --env CHECKPOINT_DIR=/data/model \
        --env DATASET_DIR=/data --env OUTPUT_DIR=/output/workers --env MPI_NUM_PROCESSES=2 \
        --env OMPI_MCA_rmaps_base_oversubscribe=1 --env OMPI_MCA_mpi_yield_when_idle=1 berth-openmpi \
        berth-entrypoint /bin/bash examples/fp32_squad_training.sh --num_train_epochs 0.5 >"$out" 2>"$err" </dev/null
    code=$?
    expect_code 0
    cat "$out" "$err" >both && mv both "$out"
    expect_out "2 independent workers"
    [ -s output/workers/workers.json ] || fail "no result"
done
expect_out "resumed from /output/workers/worker-0/checkpoint-"

# An MPIJob: the operator gives keys that belong to root, a file of hosts, and Open MPI's variables.
mkdir ssh
ssh-keygen -q -t ecdsa -N '' -f ssh/id_rsa
cp ssh/id_rsa.pub ssh/authorized_keys
chmod 644 ssh/*
for k in 1 2; do echo "$lab_net.$k berth-mpi-worker-$((k - 1)).berth-mpi.berth.svc"; done >>hosts
printf 'berth-mpi-worker-%d.berth-mpi.berth.svc slots=1\n' 0 1 >output/hostfile
for k in 1 2; do
    pod berth-openmpi $k /usr/sbin/sshd -De -f /etc/ssh/berth_sshd_config >"sshd-$k.log" 2>&1 </dev/null &
    wait_for "sshd-$k.log" "Server listening on 0.0.0.0 port 2222"
done
launcher() { # TRY
    pod berth-openmpi sw OMPI_MCA_orte_default_hostfile=/output/hostfile OMPI_MCA_orte_keep_fqdn_hostnames=true \
        OMPI_MCA_orte_set_default_slots=1 OMPI_MCA_plm_rsh_args="-o ConnectionAttempts=10" \
        OMPI_MCA_mpi_yield_when_idle=1 berth-mpirun --tag-output --bind-to none berth $pretrain \
        --output_dir /output/mpijob >"launcher-$1.log" 2>&1 </dev/null
    echo $? >"launcher-$1.code"
}
for try in 1 2; do
    launcher $try &
    launching=$!
    if [ $try = 1 ]; then
        wait_for launcher-1.log "step 5/40"
        pod_signal sw TERM
    fi
    wait $launching
    cat launcher-$try.log >"$out"
    cat sshd-*.log >"$err"
    what="MPIJob, start $try"
    code=$(cat launcher-$try.code)
    expect_code $((try == 1 ? 75 : 0))
    expect_out "ranks: 2 on 2 hosts, connected by openmpi"
done
cmp -s alone-pretrain/model.safetensors output/mpijob/model.safetensors || fail "not the bytes of one process"
finish
