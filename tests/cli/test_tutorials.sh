#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The commands of doc/tutorials.md, in their order, in a folder that has nothing but a model.
. "$(dirname "$0")/lib.sh"
make_model "$work/model"
mkdir "$work/page"
cp -r "$work/model" "$work/page"
cd "$work/page" || exit 1
run_commands_of "$documents/tutorials.md" 11
expect_out "EM"
[ -s mine/model.safetensors ] && [ -s mine.html ] && [ -s ranks/model.safetensors ] || fail "a file is missing"
finish
