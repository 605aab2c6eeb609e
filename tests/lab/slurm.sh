# SPDX-License-Identifier: Apache-2.0
# Slurm on the hosts of hosts.sh, which must be up. Sourced after it.
#
#   find_slurm         77 if a package is missing
#   slurm_up FOLDER    starts munge, the controller and a daemon for each host; 77 if a package is missing.
#                      Jobs in the partition "urgent" preempt those in the partition "all", which have a
#                      minute to stop. slurm_topology is the text of topology.conf, if there is one
#   slurm WORDS...     runs srun, salloc, sinfo, ... on the bridge's host
#   slurm_down         stops it; harmless if slurm_up was not called
slurm_dir=
slurm_topology=
find_slurm() {
    local tool
    for tool in slurmctld slurmd srun munged; do
        PATH=$PATH:/usr/sbin command -v $tool >/dev/null ||
            { echo "Slurm needs $tool (packages slurm-wlm, munge)" >&2; return 77; }
    done
}
slurm_up() {
    local k
    find_slurm || return
    PATH=$PATH:/usr/sbin
    slurm_dir=$1
    export SLURM_CONF=$slurm_dir/slurm.conf
    mkdir -p "$slurm_dir/state"
    head -c 1024 /dev/urandom >"$slurm_dir/munge.key"
    chmod 600 "$slurm_dir/munge.key"
    munged --force --key-file="$slurm_dir/munge.key" --socket="$slurm_dir/munge" \
        --pid-file="$slurm_dir/munged.pid" --log-file="$slurm_dir/munged.log" \
        --seed-file="$slurm_dir/munge.seed" || return 1
    echo "PMIxCliTmpDirBase=/dev/shm" >"$slurm_dir/mpi.conf" # private to each host
    {
        cat <<END
ClusterName=lab
SlurmctldHost=${lab}sw($lab_net.254)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$slurm_dir/munge,cred_expire=5
StateSaveLocation=$slurm_dir/state
SlurmdSpoolDir=$slurm_dir/%n
SlurmctldPidFile=$slurm_dir/slurmctld.pid
SlurmdPidFile=$slurm_dir/slurmd.%n.pid
SlurmctldLogFile=$slurm_dir/slurmctld.log
SlurmdLogFile=$slurm_dir/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=sched_interval=2,bf_interval=2
KillWait=5
SlurmdTimeout=30
END
        [ -z "$slurm_topology" ] || echo "TopologyPlugin=topology/tree"
        for k in $(seq "$lab_hosts"); do
            echo "NodeName=${lab}h$k NodeAddr=$lab_net.$k CPUs=8 RealMemory=1000 State=UNKNOWN"
        done
        echo "PartitionName=all Nodes=${lab}h[1-$lab_hosts] Default=YES State=UP PriorityTier=1 GraceTime=60 PreemptMode=REQUEUE"
        echo "PartitionName=urgent Nodes=${lab}h[1-$lab_hosts] State=UP PriorityTier=2 PreemptMode=OFF"
    } >"$SLURM_CONF"
    echo "$slurm_topology" >"$slurm_dir/topology.conf"
    hosts_exec sw slurmctld -c || return 1
    for k in $(seq "$lab_hosts"); do
        mkdir -p "$slurm_dir/${lab}h$k"
        hosts_exec "$k" slurmd -N "${lab}h$k" -c || return 1
    done
    for k in $(seq 100); do
        [ "$(slurm sinfo -h -t idle -o %D)" = "$lab_hosts" ] && return 0
        sleep 0.1
    done
    echo "Slurm's hosts are not up:"
    slurm sinfo
    return 1
}

slurm() {
    hosts_exec sw "$@"
}

slurm_down() {
    local file
    [ -n "$slurm_dir" ] || return 0
    for file in "$slurm_dir"/*.pid; do
        [ ! -s "$file" ] || kill "$(cat "$file")" 2>/dev/null
    done
}
