#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests what a folder's files of the tokenizer do to texts; the expected tokens are those of transformers 5.24.
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 1
make_model model

tokens() { # TEXT EXPECTED [OPTION...]
    printf '%s\n' "$1" >text
    local expected=$2
    shift 2
    run tokenize --model model "$@" text
    expect_code 0
    [ "$(cat "$out")" = "$expected" ] || fail "other tokens than $expected"
}

# An added token is found as it is written, not in normalized text and not in a word.
echo '{"<Q>": 91, "hell": 92}' >model/added_tokens.json
echo '{"additional_special_tokens": ["<Q>", "hell"]}' >model/special_tokens_map.json
tokens '<Q> hello HELLS' '<Q> hell o h ##e ##l ##l ##s'
rm model/added_tokens.json model/special_tokens_map.json
finish
