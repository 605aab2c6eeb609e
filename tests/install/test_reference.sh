#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The reference that doxygen makes of berth.h: without warnings, with every function and what the header says of it.
set -u
command -v doxygen >/dev/null || { echo "skipped: no doxygen"; exit 77; }
. "$(dirname "$0")/lib.sh"
cd "$SOURCE" || exit 1
(cat package/Doxyfile && echo "OUTPUT_DIRECTORY = $work") | doxygen - >"$work/log" 2>&1 || die "doxygen complains"
sed 's/<[^>]*>//g; s/&lt;/</g; s/&#160;/ /g' "$work/html/berth_8h.html" >"$work/text"
for name in $(grep -v '^static inline' include/berth.h | grep -oE '\bberth_[a-z0-9_]+\(' | tr -d '(' | sort -u); do
    grep -qE "\b$name\b" "$work/text" || die "no $name"
done
for words in 'Runs a task, a row of' 'an output cannot be created' 'concurrent, but may come from a thread of the library'; do
    grep -rqF "$words" "$work/html" || die "not in the reference: $words"
done
[ -s "$work/man/man3/berth.h.3" ] || die "no manual page"
echo "all good"
