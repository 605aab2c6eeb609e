#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Manual pages: one for each verb and topic, with every option of --help all, without a complaint of the programs
# that read manual pages; help of topics and single options.
. "$(dirname "$0")/lib.sh"
root=$(cd "$(dirname "$0")/../.." && pwd)
pages=$work/man

run man --output "$pages"
expect_code 0
"$BERTH" --help >"$work/usage"
sed -n '/^usage/,/^example/s/^  \([a-z]\+ \?[a-z]*\)  .*/\1/p' "$work/usage" | sort -u >"$work/verbs"
[ "$(wc -l <"$work/verbs")" -gt 20 ] || fail "the verbs were not found"

options_in() { # FILE: the options that it names, with underscores
    grep -oE -- '--[a-zA-Z][a-z0-9_-]*' "$1" | sed 's/-$//' | tr - _ | sort -u
}
plain() { sed 's/\\fB//g; s/\\fR//g; s/\\-/-/g' "$1"; }
same_options() { # PAGE VERB...
    page=$pages/$1
    shift
    what="$page"
    [ -s "$page" ] || fail "no page"
    "$BERTH" "$@" --help all | sed -n '/^\(required\|common\) options/,$p' >"$out"
    options_in "$out" >"$work/help.options"
    plain "$page" >"$err"
    options_in "$err" >"$work/page.options"
    missing=$(comm -23 "$work/help.options" "$work/page.options" | head -n 3)
    [ -z "$missing" ] || fail "not in the page: $missing"
    [ -s "$work/help.options" ] || fail "no options in the help"
    grep -q "^.SH EXAMPLES" "$page" || fail "no example"
}
while read -r verb; do
    # shellcheck disable=SC2086
    same_options "berth-${verb// /-}.1" $verb
    grep -qF "berth-${verb// /-}" <(plain "$pages/berth.1") || fail "berth.1 does not list $verb"
done <"$work/verbs"
grep -qF "[auto: fp32 for embeddings and masked words; otherwise" <(plain "$pages/berth-serve.1" | tr '\n' ' ') ||
    fail "berth-serve.1 has the defaults of one of its models"
same_options berth-pretrain-mlm.1 pretrain --objective mlm
same_options berth-evaluate-pretrain-mlm.1 evaluate pretrain --objective mlm

for topic in options environment exit-codes formats; do
    [ -s "$pages/berth-$topic.7" ] || fail "no page of $topic"
    run help $topic
    expect_code 0
    run man $topic
    cmp -s "$out" "$pages/berth-$topic.7" || fail "another page"
done
run man finetune squad
cmp -s "$out" "$pages/berth-finetune-squad.1" || fail "another page than with --output"
run man pretrain --objective mlm
cmp -s "$out" "$pages/berth-pretrain-mlm.1" || fail "another page than with --output"
run man
cmp -s "$out" "$pages/berth.1" || fail "another page than with --output"
run man nonsense
expect_code 2
run man --output /dev/null/pages
expect_code 73

# Readers of manual pages have nothing to say, and find name and summary.
what="manual pages"
: >"$out"
: >"$err"
if command -v mandoc >/dev/null; then
    mandoc -Tlint -Wall "$pages"/* >"$out" 2>&1 || fail "mandoc complains"
else
    echo "skipped: no mandoc"
fi
if command -v man >/dev/null && command -v lexgrog >/dev/null; then
    for page in "$pages"/*; do
        LC_ALL=C.UTF-8 man --warnings -E UTF-8 -l "$page" 2>"$out" >/dev/null
        [ ! -s "$out" ] || fail "man complains of $page"
        lexgrog "$page" >"$out" 2>&1 || fail "no name in $page"
    done
    COLUMNS=100 LC_ALL=C.UTF-8 man -l "$pages/berth-finetune-squad.1" 2>&1 | grep -q -- '^ *--learning_rate RATE$' ||
        fail "man does not show --learning_rate"
else
    echo "skipped: no man"
fi

# One option: its different meanings and defaults, each with its verbs.
COLUMNS=300 run help learning_rate
expect_out '--learning_rate RATE, --lr'
expect_out '[3e-5]'
expect_out 'in berth finetune squad, berth finetune classify'
expect_out '[5e-5]'
expect_out 'in berth finetune fill, berth pretrain, berth pretrain --objective mlm'
[ "$(grep -c -- --learning_rate "$out")" -eq 2 ] || fail "each meaning once"
run help --lr
expect_code 0
expect_out "--learning_rate"
run help --no_color fetch
expect_code 0
COLUMNS=300 run help lr
expect_out '--learning_rate RATE, --lr'
run help options
expect_out '--name VALUE'
run help environment
expect_out BERTH_MODULE_PATH
# Variables that the program reads, or OpenMP.
for name in $(grep -oE '\b[A-Z]+_[A-Z_]*[A-Z]\b' "$out"); do
    [[ $name == OMP_WAIT_POLICY || $name == OMP_P* ]] || grep -rqF "\"$name\"" "$root"/{src,cli,compat,serve,fetch,wiki,page} --include='*.[ch]' --exclude=topics.c ||
        fail "no variable $name in the sources"
done
run help nonsense
expect_code 2
expect_err 'unknown verb, topic or option "nonsense"'
run help finetun
expect_code 2
expect_err 'unknown verb, topic or option "finetun"; did you mean "finetune"?'

# What the scripts for shells ask.
run __complete finetune squad --device c
expect_out "$(printf 'words\ncpu\t')"
expect_out cuda
run __complete answer --model ''
grep -qx folders "$out" || fail "no folders after --model"
run completion tcsh
expect_code 2
expect_err "expected bash, zsh or fish"
finish
