# SPDX-License-Identifier: Apache-2.0
# Compares the losses that two runs logged. Sourced after ../cli/lib.sh.

# Checks that both runs logged COUNT losses, and that those of FOUND differ from those of EXPECTED by at most the
# relative TOLERANCE.
expect_losses() { # EXPECTED FOUND COUNT TOLERANCE
    paste <(losses_of "$1") <(losses_of "$2") | awk -v count="$3" -v tolerance="$4" '
        NF != 2 { unequal = 1 }
        { difference = ($1 - $2) / $1; if (difference < 0) difference = -difference }
        difference > most { most = difference }
        END {
            printf "%d losses, at most %g apart\n", NR, most
            exit unequal || NR != count || !(most <= tolerance)
        }' >"$out" || fail "the losses of ${2##*/} are not those of ${1##*/}"
}
