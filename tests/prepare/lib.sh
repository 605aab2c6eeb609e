# SPDX-License-Identifier: Apache-2.0
# Shared by the tests of the verbs that make data for pre-training: sourced with the verb as its
# argument, with BERTH the program. The test goes on in a folder of its own, which is removed at its
# end; `die` ends it at the first failure and shows the files out and err, which `run` wrote.
set -u
verb=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
die() {
    echo "FAILED: $1" >&2
    cat out err >&2 2>/dev/null
    exit 1
}
run() { # STATUS ARGUMENTS...
    local wanted=$1 status
    shift
    "$BERTH" "$verb" "$@" >out 2>err
    status=$?
    [ "$status" -eq "$wanted" ] || die "$verb $*: exit code $status, expected $wanted"
}
