#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The C example: it answers, and it reports errors with their names.
. "$(dirname "$0")/lib.sh"
make_model "$work/model"
what="example_answer"
"$EXAMPLE" "$work/model" 'Where did Ada live?' 'Ada lived in Oslo.' >"$out" 2>"$err"
code=$?
expect_code 0
grep -qE '^ *[0-9]+ %  .' "$out" || fail "no answer"
"$EXAMPLE" "$work/none" 'Where?' 'There.' >"$out" 2>"$err"
code=$?
expect_code 66
expect_err "$work/none"
"$EXAMPLE" >"$out" 2>"$err"
code=$?
expect_code 2
finish
