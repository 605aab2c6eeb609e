#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests the C example: it answers, reports errors with their names, and builds against an installed library
# with only pkg-config.
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

what="an installed library"
cmake --install "$BUILD" --prefix "$work/prefix" >"$out" 2>"$err" || fail "installing failed"
PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name berth.pc)")
export PKG_CONFIG_PATH
flags=$(pkg-config --cflags --libs berth)
$CC ${SANITIZE:+-fsanitize=$SANITIZE} "$SOURCE" $flags -o "$work/answer" 2>"$err" || fail "compiling"
library=$(pkg-config --variable=libdir berth)
LD_LIBRARY_PATH=$library "$work/answer" "$work/model" 'Where did Ada live?' 'Ada lived in Oslo.' \
    >"$out" 2>"$err"
code=$?
expect_code 0
grep -qE '^ *[0-9]+ %  .' "$out" || fail "no answer"
finish
