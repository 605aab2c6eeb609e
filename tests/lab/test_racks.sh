#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Jobs over hosts in two racks (hosts.sh) that know them (--topology), started by each MPI's own launcher: the model of one
# process, fewer bytes between the racks, a relay that stops, and files that cannot be used. Skipped without root.
export TMPDIR=/tmp # the hosts share it, unlike /dev/shm
. "$(dirname "$0")/../cli/lib.sh"
. "$(dirname "$0")/hosts.sh"
. "$(dirname "$0")/slurm.sh"
. "$(dirname "$0")/../comm/launch.sh"
export OMP_NUM_THREADS=1 BERTH_MODULE_PATH
BERTH_MODULE_PATH=$(dirname "$BERTH")
trap '[ "$BASHPID" -ne $$ ] || { slurm_down; hosts_down; rm -rf "$work"; }' EXIT
hosts_up 6 || exit
hosts_rack 1 1gbit 1 3 5 || exit
hosts_rack 2 1gbit 2 4 6 || exit
{
    echo "# two racks, whose hosts a launcher fills in turn"
    for k in 1 3 5; do echo "${lab}h$k west"; done
    for k in 2 4 6; do printf '\n%sh%d.cluster\teast # with a domain\n' "$lab" "$k"; done
} >"$work/racks"

mpis=$(find_mpis)
[ -n "$mpis" ] || { echo "no MPI and its launcher are installed: skipped"; exit 77; }
racks_bytes() { echo $(($(hosts_rack_bytes 1) + $(hosts_rack_bytes 2))); }

make_wide_model "$work/model"
make_questions "$work/data.json" 60
settings="$(training_settings) --train_batch_size 12 --virtual_ranks 12 --max_grad_norm 0.1"
run finetune squad $settings --output "$work/alone"
expect_code 0
for mpi in $mpis; do
    for stage in 0 1 2; do
        before=$(racks_bytes)
        as "$mpi, two racks, stage $stage" hosts_$mpi 6 2 "$BERTH" finetune squad $settings --zero_stage $stage \
            --topology "$work/racks" --output "$work/$mpi-$stage"
        expect_code 0
        once "ranks: 12 on 6 hosts in 2 racks, connected by $mpi"
        same alone $mpi-$stage
        known=$(($(racks_bytes) - before))
    done
    # Without the file each host sends its sums to every owner in the other rack, and receives every part: 3 + 3 times a
    # rack's share. With it, six ranks of twelve are two blocks of the tree, and the rack sends 2 + 1.
    before=$(racks_bytes)
    as "$mpi, unknown racks" hosts_$mpi 6 2 "$BERTH" finetune squad $settings --zero_stage 2 --output "$work/$mpi-unknown"
    expect_code 0
    same alone $mpi-unknown
    unknown=$(($(racks_bytes) - before))
    [ $((unknown * 10)) -gt $((known * 19)) ] || fail "$known bytes between known racks, $unknown between unknown ones"

    # Racks and hosts of unlike sizes; the file has more hosts than the job.
    as "$mpi, three hosts" hosts_$mpi 3 3+1+2 "$BERTH" finetune squad $settings --zero_stage 1 --topology "$work/racks" \
        --output "$work/$mpi-three"
    expect_code 0
    once "ranks: 6 on 3 hosts in 2 racks, connected by $mpi"
    same alone $mpi-three

    # A rank that stops is named, also if others wait for it through a relay.
    cat >"$work/stop.sh" <<'END'
[ "${OMPI_COMM_WORLD_RANK-$PMI_RANK}" != 3 ] || (sleep 4; kill -STOP $$) &
exec "$@"
END
    as "$mpi, a stopped rank" hosts_$mpi 6 1 bash "$work/stop.sh" "$BERTH" finetune squad $settings --max_steps 100000 \
        --num_train_epochs 100000 --topology "$work/racks" --comm_timeout 5 --output "$work/$mpi-stopped"
    [ "$code" -ne 0 ] || fail "it does not end with an error"
    expect_err "rank 4 on host ${lab}h4 did not arrive at "
    rm -rf "$work/$mpi-stopped"

    as "$mpi, sums of the library" hosts_$mpi 2 1 "$BERTH" finetune squad $settings --virtual_ranks 0 --reduce native \
        --topology "$work/racks" --output "$work/$mpi-native"
    expect_code 0
    grep -qE "topology has no effect where (Open MPI|MPICH) .* adds or sends the gradients" "$err" ||
        fail "nothing is said about the library"
    printf "${lab}h%d r\n" 1 2 3 >"$work/one"
    as "$mpi, one rack" hosts_$mpi 3 1 "$BERTH" finetune squad $settings --topology "$work/one" --output "$work/$mpi-one"
    expect_code 0
    once "topology has no effect: all hosts are in one rack"
    same alone $mpi-one
done

mpi=${mpis%%$'\n'*}
refused() { # CODE TEXT: of the file "bad"
    as "a file \"$(cat "$work/bad" 2>/dev/null)\"" hosts_$mpi 2 1 "$BERTH" finetune squad $settings \
        --topology "$work/bad" --output "$work/none"
    expect_code "$1"
    once "$2"
    [ ! -e "$work/none" ] || fail "something was written"
}
refused 66 "$work/bad"
echo "${lab}h1 west" >"$work/bad"
refused 78 "topology: $work/bad has no line for host ${lab}h2: add \"${lab}h2 RACK\""
echo "${lab}h1" >"$work/bad"
refused 78 "topology: $work/bad, line 1: \"${lab}h1\": expected a host and its rack of at most 63 characters"
printf '%sh1 west\n%sh2 east\n%sh1 east' "$lab" "$lab" "$lab" >"$work/bad"
refused 78 "topology: $work/bad, line 3: host ${lab}h1 is in rack east, but an earlier line says west: remove one of them"
# Slurm knows the racks: the command of doc/cluster.md makes the file.
slurm_topology="SwitchName=west Nodes=${lab}h[1,3,5]
SwitchName=east Nodes=${lab}h[2,4,6]
SwitchName=core Switches=west,east"
command=$(sed -n 's/^ *`\(srun .*SLURM_TOPOLOGY_ADDR.*\) >racks`.*/\1/p' "$(dirname "$0")/../../doc/cluster.md")
[ -n "$command" ] || fail "doc/cluster.md has no command for Slurm"
declare -A pmi=([openmpi]=pmix [mpich]=pmi2)
if slurm_up "$work/slurm"; then
    what="racks by Slurm"
    slurm salloc --quiet --nodes=6 --ntasks-per-node=1 bash -c "$command" >"$work/slurm-racks" 2>"$err" </dev/null
    for k in 1 2 3 4 5 6; do
        grep -qx "${lab}h$k core.$([ $((k % 2)) = 1 ] && echo west || echo east)" "$work/slurm-racks" ||
            fail "no line for host $k: $(cat "$work/slurm-racks")"
    done
    as "$mpi, racks by Slurm" slurm timeout 120 srun --mpi=${pmi[$mpi]} --nodes=6 --ntasks-per-node=2 "$BERTH" finetune squad \
        $settings --topology "$work/slurm-racks" --output "$work/slurm-model"
    expect_code 0
    cat "$out" >>"$err"
    once "ranks: 12 on 6 hosts in 2 racks, connected by $mpi"
    same alone slurm-model
else
    echo "Slurm was not tried"
fi
run finetune squad $settings --topology "$work/racks" --output "$work/single"
expect_code 0
expect_err 'topology has no effect'
finish
