#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The verb: text from a dump, counts, a second run with nothing to do, refusals.
set -u
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
    "$BERTH" prepare "$@" >out 2>err
    status=$?
    [ "$status" -eq "$wanted" ] || die "prepare $*: exit code $status, expected $wanted"
}

cat >dump.xml <<'XML'
<mediawiki><siteinfo><base>https://x.org/wiki/Main</base></siteinfo>
<page><title>Bern</title><ns>0</ns><id>1</id><revision><text>'''Bern''' is the [[capital]].</text></revision></page>
<page><title>R</title><ns>0</ns><id>2</id><redirect title="Bern"/><revision><text/></revision></page>
</mediawiki>
XML
run 0 --wikipedia dump.xml --stages text --output data
grep -q '^2 pages: 1 articles, 1 redirects, ' out || die "the counts"
text=data/extracted/wikicorpus_en/AA/wiki_00
printf '<doc id="1" url="https://x.org/wiki?curid=1" title="Bern">\nBern\n\nBern is the capital.\n\n</doc>\n' |
    cmp -s - $text || die "the text"
before=$(stat -c %i $text)
run 0 --wikipedia dump.xml --stages text --output data --json
grep -q '"articles": *1,' out || die "the counts as JSON"
[ "$(stat -c %i $text)" = "$before" ] || die "a finished file was written again"

run 2 --wikipedia dump.xml --stages text,shard --output data
grep -q 'found "shard"' err || die "an unknown stage is not named"
run 2 --wikipedia dump.xml --output data
grep -q 'vocab_file is missing' err || die "a missing vocabulary"
run 2 --stages text --output data
grep -q 'no articles are named' err || die "missing articles"
run 66 --wikipedia dump.xml --stages shards --output other
grep -q 'run the stage "text" first' err || die "a stage before another"
[ ! -e other/sharded* ] || die "a folder was made for nothing"
run 66 --wikipedia absent.xml --stages text --output other
grep -q 'absent.xml: no such file; expected a dump' err || die "what is missing"
[ ! -e other ] || die "a folder was made for nothing"
head -c 200 dump.xml >cut.xml
run 65 --wikipedia cut.xml --stages text --output other
grep -q 'cut.xml: ends at byte 200 of the XML' err || die "where it is cut"
[ ! -e other/extracted/wikicorpus_en/AA ] || die "half a text was left"
run 78 --wikipedia cut.xml --stages text --output data
mkdir locked && chmod 555 locked
[ "$(id -u)" -eq 0 ] || run 73 --wikipedia dump.xml --stages text --output locked
echo "prepare: all good"
