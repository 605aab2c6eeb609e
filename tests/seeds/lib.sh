# SPDX-License-Identifier: Apache-2.0
# Functions for the tests of the original programs' command lines, in addition to those of the program's tests. Each line
# stands as in the original, with `berth VERB` in the place of the program.
. "$(dirname "${BASH_SOURCE[0]}")/../cli/lib.sh"
PATH=$(dirname "$BERTH"):$PATH
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_WAIT_POLICY=passive
export HF_HOME=$work/huggingface
mkdir "$work/seed" && cd "$work/seed" || exit 1

# The flags of a program that have no effect in Berth.
without_effect() { # PROGRAM
    awk -v program="$1" '/^## / { inside = index($0, program) } inside && /[|] without effect [|]/ { gsub("`", ""); print $2 }' \
        "$documents/original-flags.md"
}
# Runs a command line: it succeeds, and each flag without effect is named by a note.
original() { # PROGRAM COMMAND...
    local program=$1 flag word
    shift
    what="$*"
    "$@" >"$out" 2>"$err" </dev/null
    code=$?
    expect_code 0
    for flag in $(without_effect "$program"); do
        for word; do
            [ "${word%%=*}" != "$flag" ] || grep -q -- "${flag//-/[-_]}" "$err" || fail "$flag is ignored silently"
        done
    done
}
expect_file() { # FILE...
    local file
    for file; do
        [ -s "$file" ] || fail "no $file"
    done
}
# What a program of the user greps for.
expect_line() { # EXPRESSION
    cat "$out" "$err" | grep -qE -- "$1" || fail "no line \"$1\""
}
# Processes of Open MPI, where it is installed.
launch() { # COUNT COMMAND...
    local count=$1
    shift
    if command -v mpirun.openmpi >/dev/null; then
        mpirun.openmpi --oversubscribe --bind-to none -np "$count" "$@"
    else
        "$@"
    fi
}
