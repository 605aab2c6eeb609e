#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests that programs compiled with an earlier berth.h keep working: the header's binary interface is the kept one
# (dev/check-abi), and the check notices planted changes, but not new functions.
set -u
command -v abidiff >/dev/null || { echo "skipped: abidiff of abigail-tools is missing"; exit 77; }
. "$(dirname "$0")/lib.sh"
check=$SOURCE/dev/check-abi
header=$SOURCE/include/berth.h
# plant NAME SED-SCRIPT: a header with that change
plant() {
    sed -E "$2" "$header" >"$work/planted.h"
    ! cmp -s "$header" "$work/planted.h" || die "$1: nothing was planted"
    "$check" "$work/planted.h" >"$work/log" 2>&1
}
breaks() {
    plant "$@"
    [ $? -eq 1 ] || die "$1 was not noticed"
    [ -s "$work/log" ] || die "$1: no report"
}
keeps() {
    plant "$@" || die "$1 was refused"
}

"$check" >"$work/log" 2>&1 || die "the interface is not the kept one; for a new version run dev/check-abi --update"

breaks 'a field in the middle' 's/^( *)double score;/\1int64_t planted;\n&/'
breaks 'a field of another type' 's/^( *)int64_t tokens;/\1int32_t tokens;/'
breaks 'another value of an enum' 's/BERTH_IO = 74/BERTH_IO = 73/'
breaks 'a new enum value before others' 's/^( *)BERTH_FINISH,/\1BERTH_PLANTED,\n&/'
breaks 'a missing function' '/^void berth_close/d'
breaks 'another argument' 's/^void berth_close\(struct berth_model \*model\)/void berth_close(struct berth_model *model, int planted)/'
breaks 'a field after all others of a struct that programs make' 's/^( *)size_t more_count;/&\n\1size_t planted;/'
breaks 'a field after all others that are given out, to be kept with --update,' 's/^( *)int truncated;/&\n\1int64_t planted;/'
keeps 'a new function' 's/^void berth_close/void berth_planted(int planted);\n&/'
echo "all good"
