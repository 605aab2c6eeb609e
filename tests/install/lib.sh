# SPDX-License-Identifier: Apache-2.0
# What these tests share: a folder of their own, $work, and an end that shows the last lines of $work/log.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() {
    echo "FAILED: $1" >&2
    [ ! -s "$work/log" ] || tail -n 20 "$work/log" >&2
    exit 1
}
