#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests the C example: it answers, reports errors with their names, and builds against an installed library
# with only pkg-config. And which folder and which questions run-demo takes from its options.
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

# The demo, whose build and program only print how they are called.
demo=$work/demo
mkdir -p "$demo/dev" "$demo/build/demo"
cp "$(dirname "$0")/../../run-demo" "$demo"
for program in dev/install-dependencies cmake build/demo/berth; do
    printf '#!/bin/sh\necho "${0##*/} $*"\n' >"$demo/$program"
    chmod +x "$demo/$program"
done
demo() { # OUTPUT WORDS...
    local output=$1
    shift
    what="run-demo $*"
    PATH=$demo:$PATH "$demo/run-demo" --model m --train t "$@" >"$out" 2>"$err" </dev/null
    code=$?
    expect_code 0
    expect_out "berth show squad --model $output --input d "
    expect_out "The model is in $output"
}
for words in '--output own' '--output_dir own' '--output-dir=own' '--output=own' '-o own'; do
    demo own $words --dev d
    expect_no "$out" --overwrite_output_dir
done
for words in '--dev d' '--dev=d' '--validation_file d' '--validation-file=d'; do
    demo demo-output/real $words
    expect_out "--output demo-output/real --overwrite_output_dir"
done
for seed in abc -1 1x '' 18446744073709551616; do
    what="generate, seed \"$seed\""
    "$BUILD/demo/generate" "$work" "$seed" >"$out" 2>"$err"
    code=$?
    expect_code 2
    expect_err "SEED is a number from 0 to 18446744073709551615"
done
finish
