#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The command `vocab`: a vocabulary from text files and from a dump's text, the same with any
# number of threads, readable by the tokenizer; errors.
. "$(dirname "$0")/lib.sh" vocab

i=0
while [ $i -lt 400 ]; do # more than one run per thread
    echo "Towers lower over the slower river; never fewer flowers ($i) in Zürich."
    i=$((i + 1))
done >a.txt
printf 'Überall dasselbe.\n\nNothing new.\n' >b.txt

run 0 --text a.txt b.txt --size 80 --output vocab.txt
grep -q '^80 pieces from 6406 words' out || die "the counts"
[ "$(wc -l <vocab.txt)" -eq 80 ] || die "the number of lines"
[ "$(head -5 vocab.txt | tr '\n' ' ')" = "[PAD] [UNK] [CLS] [SEP] [MASK] " ] || die "special pieces"
grep -qx 'u' vocab.txt && ! grep -q 'ü\|Z' vocab.txt || die "lower case without accents"
run 0 --text b.txt --text a.txt --threads 3 --vocab_size=80 --output again.txt --json
grep -q '"pieces": *80,' out || die "the counts as JSON"
cmp vocab.txt again.txt || die "threads or order change the vocabulary"
printf 'lower towers\n' | "$BERTH" tokenize --vocab vocab.txt - >out 2>err || die "the tokenizer refuses it"
! grep -q UNK out || die "a word of the text is unknown"
run 0 --text a.txt --size 200 --do_lower_case false --output cased.txt
grep -qx 'T' cased.txt && grep -q 'ü' cased.txt || die "the case is not kept"
[ "$(wc -l <cased.txt)" -lt 200 ] || die "expected fewer pieces than requested"
run 0 --text a.txt --size 200 --no_do_lower_case --num_threads 2 --quiet --output again.txt --force
cmp cased.txt again.txt || die "another spelling of the options changes the vocabulary"
run 0 --text a.txt --size 200 --cased --quiet --output again.txt --force
cmp cased.txt again.txt || die "--cased"
run 2 --text a.txt --output other.txt --threads 4097
grep -q 'option threads: expected a whole number from 0 to 4096' err || die "too many threads"
run 2 --text a.txt --output other.txt --vocab vocab.txt
grep -q 'unknown option --vocab' err || die "an option of other jobs is taken"

for kind in bpe unigram; do
    run 0 --text a.txt b.txt --model_type $kind --size 300 --output $kind.json
    run 0 --text b.txt a.txt --model_type $kind --size 300 --threads 3 --output again.json --force
    cmp $kind.json again.json || die "threads or order change the vocabulary of $kind"
    printf 'Zürich lower\n' | "$BERTH" tokenize --vocab $kind.json --special - >out 2>err || die "$kind.json is refused"
    grep -q '^<s> .* </s>$' out && ! grep -q unk out || die "the tokens of $kind: $(cat out)"
done
run 0 --text a.txt --model_type bpe --size 300 --do_lower_case true --output lower.json
grep -q '"Lowercase"' lower.json && ! grep -q '"Lowercase"' bpe.json || die "the case of bpe"
run 2 --text a.txt --model_type words --output other.txt
grep -q 'wordpiece' err || die "another type: no choices"
run 78 --text a.txt --model_type unigram --size 20 --output other.txt
grep -q 'for the special pieces and the characters' err || die "too small a size of unigram"

mkdir -p dump/wikicorpus_en/AA
printf '<doc id="1" url="u" title="Secret">\nSecret\n\nplain words plain\n\n</doc>\n' \
    >dump/wikicorpus_en/AA/wiki_00
run 0 --extracted dump --min_frequency 1 --output extracted.txt
grep -qx plain extracted.txt || die "the text of a dump"
! grep -q secret extracted.txt || die "a title counts as text"

mkdir -p texts && cp a.txt texts && ln a.txt linked.txt
for case in "a.txt a.txt" "a.txt ./a.txt" "a.txt linked.txt" "texts texts/a.txt"; do
    # shellcheck disable=SC2086
    run 73 --text ${case% *} --size 80 --output ${case#* } --force
    grep -q 'is the same file as the input' err || die "an output that is an input: $case"
done
run 73 --extracted dump --output dump/wikicorpus_en/AA/wiki_00 --force
cmp -s a.txt texts/a.txt && grep -q Secret dump/wikicorpus_en/AA/wiki_00 || die "an input was changed"
before=$(cksum <vocab.txt)
run 73 --text a.txt --size 80 --output vocab.txt
grep -q 'overwrite_output_dir replaces it' err || die "no remedy for an existing file"
run 0 --text b.txt --size 80 --output vocab.txt --force
[ "$(cksum <vocab.txt)" != "$before" ] || die "--force did not write"
run 2 --output other.txt
grep -q -- '(extracted)' err || die "no text: no remedy"
run 2 --text a.txt
run 66 --text absent.txt --output other.txt
run 78 --text a.txt --size 20 --output other.txt
grep -q 'limit_alphabet' err || die "too small a size: no remedy"
: >empty.txt
run 65 --text empty.txt --output other.txt
grep -q 'empty.txt: expected a text with words' err || die "the text without words"
run 73 --text bad.txt --output absent/other.txt # reported before the text is read
printf 'a\377b\n' >bad.txt
run 65 --text bad.txt --output other.txt
grep -q 'bad.txt: byte 1' err || die "the position of invalid UTF-8"
[ ! -e other.txt ] || die "a failure left a file"
echo "vocab: all good"
