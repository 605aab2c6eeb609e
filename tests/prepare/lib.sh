# SPDX-License-Identifier: Apache-2.0
# Shared by the tests of the commands that make data for pre-training: source it with the command
# as its argument and BERTH set to the program. The test runs in a temporary folder, which is
# removed at its end; `die` ends it at the first failure and shows the files out and err of `run`.
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
