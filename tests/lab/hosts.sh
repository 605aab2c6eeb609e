# SPDX-License-Identifier: Apache-2.0
# Hosts on one machine: network namespaces on a bridge that is itself in a namespace, so that nothing
# leaves the machine. Sourced; needs root. Not simulated: other clocks, other processors, lost packets.
#
#   hosts_up N [MS]        starts hosts 1 to N, named ${lab}h1 ...; 77 if they cannot be created. With
#                          MS, messages are delayed by so many milliseconds (DELAY_SWITCH: the program)
#   hosts_rate K 1gbit     limits the rate of what host K sends and receives; `off` lifts the limit. A
#                          third argument is the longest queue in milliseconds, by default 20
#   hosts_rack R 1gbit K...   moves hosts K... to a rack, whose link to the others has this rate
#   hosts_rack_bytes R   prints the bytes that rack R has sent to others
#   hosts_link K up|down   connects or disconnects the host
#   hosts_bytes K          prints the bytes that host K has sent to others
#   hosts_exec K COMMAND   runs COMMAND on host K, with its name, network and shared memory; K = sw
#                          is the host of the bridge
#   hosts_down
#   hosts_openmpi N SLOTS WORDS...    mpirun of Open MPI on N hosts of SLOTS processes, from host 1;
#                                     SLOTS may differ from host to host, as in 3+1
#   hosts_mpich N SLOTS WORDS...      mpiexec of MPICH
#
# Two labs that exist at once have different names; they may have the same addresses.
lab=${LAB:-b$BASHPID}
lab_net=10.77.0
lab_tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

hosts_up() {
    local k
    [ "$(id -u)" -eq 0 ] || { echo "hosts need root"; return 77; }
    for tool in ip tc nsenter unshare; do
        command -v $tool >/dev/null || { echo "hosts need $tool (packages iproute2, util-linux)"; return 77; }
    done
    ip netns add "${lab}sw" 2>/dev/null || { echo "network namespaces cannot be made here"; return 77; }
    lab_hosts=$1
    ip -n "${lab}sw" link set lo up
    mkdir -p "/etc/netns/${lab}sw"
    {
        echo "127.0.0.1 localhost"
        for k in $(seq "$1"); do echo "$lab_net.$k ${lab}h$k"; done
        echo "$lab_net.254 ${lab}sw"
    } >"/etc/netns/${lab}sw/hosts"
    for k in $(seq "$1"); do
        ip netns add "${lab}h$k"
        ip -n "${lab}h$k" link set lo up
        cp -r "/etc/netns/${lab}sw" "/etc/netns/${lab}h$k"
    done
    if [ "${2:-0}" = 0 ]; then hosts_bridge "$1"; else hosts_delay "$1" "$2" || return; fi
    for k in $(seq "$1"); do
        ip -n "${lab}h$k" addr add "$lab_net.$k/24" dev eth0
        ip -n "${lab}h$k" link set eth0 up
    done
}

hosts_bridge() { # N
    ip -n "${lab}sw" link add br0 type bridge
    ip -n "${lab}sw" link set br0 up
    ip -n "${lab}sw" addr add $lab_net.254/24 dev br0
    for k in $(seq "$1"); do
        ip -n "${lab}sw" link add "p$k" type veth peer name eth0 netns "${lab}h$k"
        ip -n "${lab}sw" link set "p$k" master br0 up
    done
}

hosts_delay() { # N MS
    local line
    coproc lab_switch { exec "$DELAY_SWITCH" "$lab" "$1" "$2" 2>&1; }
    read -r line <&"${lab_switch[0]}"
    [ "$line" = ready ] || { echo "hosts with a delay: $line"; return 77; }
}

hosts_rate() {
    ip netns exec "${lab}h$1" tc qdisc del dev eth0 root 2>/dev/null
    ip netns exec "${lab}sw" tc qdisc del dev "p$1" root 2>/dev/null
    [ "$2" != off ] || return 0
    ip netns exec "${lab}h$1" tc qdisc add dev eth0 root tbf rate "$2" burst 256kb latency "${3:-20}ms" &&
        ip netns exec "${lab}sw" tc qdisc add dev "p$1" root tbf rate "$2" burst 256kb latency "${3:-20}ms"
}

hosts_rack() {
    local rack=$1 rate=$2 k end
    shift 2
    ip -n "${lab}sw" link add "r$rack" type bridge
    ip -n "${lab}sw" link add "u$rack" type veth peer name "d$rack"
    ip -n "${lab}sw" link set "u$rack" master br0 up
    ip -n "${lab}sw" link set "d$rack" master "r$rack" up
    ip -n "${lab}sw" link set "r$rack" up
    for end in "u$rack" "d$rack"; do
        ip netns exec "${lab}sw" tc qdisc add dev "$end" root tbf rate "$rate" burst 256kb latency 20ms || return
    done
    for k; do ip -n "${lab}sw" link set "p$k" master "r$rack" || return; done
}

hosts_rack_bytes() {
    ip netns exec "${lab}sw" cat "/sys/class/net/d$1/statistics/tx_bytes"
}

# Without the flush, a host that failed to resolve another's address would refuse it for a second.
hosts_link() {
    local k
    ip -n "${lab}sw" link set "p$1" "$2" || return
    for k in $(seq "$lab_hosts"); do ip -n "${lab}h$k" neigh flush dev eth0; done
}

hosts_bytes() {
    ip netns exec "${lab}h$1" cat /sys/class/net/eth0/statistics/tx_bytes
}

# /sys shows the network of the namespace that mounted it; its control groups are the machine's.
hosts_exec() {
    local host=${lab}h$1
    [ "$1" != sw ] || host=${lab}sw
    shift
    nsenter --net="/run/netns/$host" unshare --uts --mount sh -c '
        host=$1
        shift
        hostname "$host" &&
            mount --rbind /sys /mnt && mount -t sysfs sysfs /sys &&
            mount --rbind /mnt/fs/cgroup /sys/fs/cgroup && umount -l /mnt &&
            mount --bind "/etc/netns/$host/hosts" /etc/hosts && mount -t tmpfs tmpfs /dev/shm &&
            exec "$@"' sh "$host" "$@"
}

hosts_down() {
    local k pid
    [ -z "${lab_switch_PID:-}" ] || kill "$lab_switch_PID" 2>/dev/null
    for k in $(seq "${lab_hosts:-0}") w; do
        k=${lab}$([ "$k" = w ] && echo sw || echo "h$k")
        for pid in $(ip netns pids "$k" 2>/dev/null); do kill -9 "$pid" 2>/dev/null; done
        ip netns del "$k" 2>/dev/null
        rm -rf "/etc/netns/$k"
    done
    lab_hosts=0
}

# "h1:2,h2:2"
hosts_list() { # N SLOTS
    local k slots=(${2//+/ }) list=
    for k in $(seq "$1"); do
        list+=${list:+,}${lab}h$k:${slots[k - 1]:-$2}
    done
    echo "$list"
}
hosts_processes() { # N SLOTS
    [[ $2 == *+* ]] && echo $(($2)) || echo $(($1 * $2))
}

# With these settings, mpirun notices a disconnected host after three to four seconds instead of never, and kills
# processes at once instead of within four seconds.
hosts_openmpi() {
    local n=$1 slots=$2
    shift 2
    LAB=$lab hosts_exec 1 mpirun.openmpi --allow-run-as-root --bind-to none \
        -np "$(hosts_processes "$n" "$slots")" --host "$(hosts_list "$n" "$slots")" \
        --mca plm rsh --mca plm_rsh_agent "$lab_tools/host-shell" --mca plm_rsh_no_tree_spawn 1 \
        --mca oob_tcp_if_include $lab_net.0/24 --mca btl_tcp_if_include $lab_net.0/24 --mca pml ob1 \
        --mca btl self,vader,tcp --mca mpi_yield_when_idle 1 \
        --mca oob_tcp_keepalive_time 1 --mca oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 3 \
        --mca odls_base_sigkill_timeout "${lab_kill_seconds:-0}" "$@"
}

hosts_mpich() {
    local n=$1 slots=$2
    shift 2
    LAB=$lab UCX_TLS=${UCX_TLS:-tcp,self,posix} UCX_NET_DEVICES=eth0 hosts_exec 1 mpiexec.mpich \
        -np "$(hosts_processes "$n" "$slots")" -hosts "$(hosts_list "$n" "$slots")" \
        -launcher ssh -launcher-exec "$lab_tools/host-shell" -iface eth0 -localhost "${lab}h1" "$@"
}
