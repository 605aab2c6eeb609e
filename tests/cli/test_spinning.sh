#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The program starts itself again so that few threads soon sleep when they wait for each other, unless the environment
# says otherwise. Nothing else changes.
. "$(dirname "$0")/lib.sh"
variable=GOMP_SPINCOUNT brief=1000
! grep -q __kmpc_fork_call "$BERTH" || variable=KMP_BLOCKTIME brief=0 # LLVM's OpenMP
make_model "$work/model"
mkfifo "$work/text"
unset OMP_WAIT_POLICY OMP_NUM_THREADS "$variable"

expect_spins() { # EXPECTED VARIABLE=VALUE...: of a program that waits for its text
    what="${*:2}"
    env "${@:2}" "$BERTH" tokenize --vocab "$work/model/vocab.txt" "$work/text" >"$out" 2>"$err" &
    local program=$! found
    exec 3>"$work/text" # it has opened it
    found=$(tr '\0' '\n' <"/proc/$program/environ" | sed -n "s/^$variable=//p")
    echo "ada lived" >&3
    exec 3>&-
    wait "$program"
    code=$?
    expect_code 0
    expect_out "ada lived"
    [ "$found" = "$1" ] || fail "$variable is \"$found\", expected \"$1\""
}
expect_spins $brief OMP_NUM_THREADS=2
expect_spins $brief OMP_NUM_THREADS=16
expect_spins "" OMP_NUM_THREADS=17
expect_spins "" OMP_NUM_THREADS=1
expect_spins "" OMP_NUM_THREADS=2 OMP_WAIT_POLICY=active
expect_spins "" OMP_NUM_THREADS=2 OMP_PROC_BIND=true # which binds this thread, and so the next program's, to one processor
expect_spins 7 OMP_NUM_THREADS=2 "$variable=7"

# Called by the loader, which /proc/self/exe then names.
export OMP_NUM_THREADS=2
program=$BERTH
loader=$(readelf -l "$program" | sed -n 's/.*interpreter: \(.*\)]$/\1/p')
if [ -n "$loader" ]; then # the static program has none
    BERTH=$loader
    run "$program" --version
    expect_code 0
    expect_out "berth "
fi
finish
