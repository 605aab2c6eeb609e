#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The files that deploy/container copies into its images are all that a build needs: it is configured with these alone,
# and every file that it compiles is there or made. Needs no tool for containers.
. "$(dirname "$0")/../cli/lib.sh"
root=$(cd "$(dirname "$0")/../.." && pwd)
container=$root/deploy/container

# "SOURCE DESTINATION" of each file or folder that the first stage copies.
awk '/^FROM/ { stage++ } stage == 1 && $1 == "COPY" { for (i = 2; i < NF; i++) print $i, $NF }' \
    "$container/Dockerfile" >"$work/copied"
awk '/^Stage:/ { stage = $2 } /^%/ { section = $0 } stage == "build" && section == "%files" && NF == 2 { print $1 }' \
    "$container/berth.def" | sort >"$work/of_definition"
what="berth.def"
cut -d ' ' -f 1 "$work/copied" | sort | cmp -s - "$work/of_definition" || fail "copies other files than the Dockerfile"

mkdir "$work/src"
cd "$work/src" || exit 1
while read -r source destination; do
    mkdir -p "$(dirname "$destination.")"
    cp -r "$root/$source" "$destination"
done <"$work/copied"
what="a build of what the images have"
cmake --preset release -DBERTH_BUILD_TESTS=OFF >"$out" 2>"$err" </dev/null
code=$?
expect_code 0
[ "$code" -ne 0 ] || cmake --build --preset release -- -n >"$out" 2>"$err" </dev/null
code=$?
expect_code 0
finish
