# SPDX-License-Identifier: Apache-2.0
# Functions for the tests of the original programs' command lines, in addition to those of ../cli/lib.sh. Each line
# stands as in the original, with `berth VERB` in the place of the program.
. "$(dirname "${BASH_SOURCE[0]}")/../cli/lib.sh"
PATH=$(dirname "$BERTH"):$PATH
export NO_COLOR=1 # mpirun gives its processes a terminal
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_WAIT_POLICY=passive
export HF_HOME=$work/huggingface
mkdir "$work/seed" && cd "$work/seed" || exit 1

# The flags of a program that have no effect in Berth, as "train-batch-size"; without those that the same program's
# other verbs use.
without_effect() { # PROGRAM
    awk -v program="$1" '
        /^## / { inside = index($0, program); found += inside > 0 }
        /other verbs use it/ { next }
        inside && /[|] without effect [|]/ { gsub("`", ""); sub("^--", "", $2); gsub("_", "-", $2); print $2 }
        END { exit !found }' "$documents/original-flags.md"
}
# Runs a command line: it succeeds, and each flag without effect is named by a note. PROGRAM: a part of its heading in
# doc/original-flags.md; -: no program of that document.
original() { # PROGRAM COMMAND...
    local program=$1 flags='' flag word
    shift
    what="$*"
    "$@" >"$out" 2>"$err" </dev/null
    code=$?
    expect_code 0
    [ "$program" = - ] || flags=$(without_effect "$program") || fail "original-flags.md has no flags of $program"
    for word; do
        flag=${word%%=*}
        flag=${flag#--}
        flag=${flag//_/-}
        grep -qxF -- "$flag" <<<"$flags" || continue
        grep -qE -- "--${flag//-/[-_]}\b" "$err" || fail "--$flag is ignored silently"
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
setting() { # NAME VALUE, of the plan
    grep -qE "^  $1 +$2\$" "$out" "$err" || fail "not $1 $2"
}
# An MPI does not free all of its memory.
with_mpi() { # COMMAND...
    ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 "$@"
}
# Processes of Open MPI, where it is installed; otherwise one process.
command -v mpirun.openmpi >/dev/null || echo "skipped: more than one process; there is no mpirun.openmpi"
launch() { # COUNT COMMAND...
    local count=$1
    shift
    if command -v mpirun.openmpi >/dev/null; then
        with_mpi mpirun.openmpi --oversubscribe --bind-to none -np "$count" "$@"
    else
        "$@"
    fi
}
# The commands of a page. Its mpirun starts as many processes as it says, or one where there is no MPI.
run_page() { # DOCUMENT, at least how many commands
    export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
    if command -v mpirun >/dev/null; then
        mpirun() { with_mpi command mpirun "$@"; }
    else
        mpirun() { [ "$1" != -np ] || shift 2; "$@"; }
    fi
    export -f with_mpi mpirun
    run_commands_of "$documents/$1" "$2"
}
# What `berth fetch` would have left in the cache: a model, and SQuAD.
fill_cache() {
    local hub=$HF_HOME/hub/models--bert-base-uncased data=$HF_HOME/assets/berth/datasets--squad
    local commit=0123456789abcdef0123456789abcdef01234567 folder
    for folder in "$hub" "$data"; do
        mkdir -p "$folder/refs" "$folder/snapshots/$commit"
        printf %s $commit >"$folder/refs/main"
    done
    make_model "$work/base"
    cp "$work/base"/* "$hub/snapshots/$commit"
    make_dataset "$data/snapshots/$commit/train-v1.1.json"
    make_dataset "$data/snapshots/$commit/dev-v1.1.json"
}
# Twenty pairs of MRPC to train on and to evaluate, and ten to predict.
make_mrpc() { # FOLDER
    mkdir "$1"
    printf 'Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n' | tee "$1/train.tsv" >"$1/dev.tsv"
    printf 'index\t#1 ID\t#2 ID\t#1 String\t#2 String\n' >"$1/test.tsv"
    for i in 1 2 3 4 5 6 7 8 9 10; do
        printf '1\t1\t2\tada lived in oslo %s\tada lived in oslo\n0\t1\t2\tada lived in rome\thugo %s\n' "$i" "$i" |
            tee -a "$1/train.tsv" >>"$1/dev.tsv"
        printf '%s\t1\t2\tada lived in oslo\thugo lived in riga\n' "$i" >>"$1/test.tsv"
    done
}
