# SPDX-License-Identifier: Apache-2.0
# Functions for the tests of the original programs' command lines, in addition to those of ../cli/lib.sh. Each line
# stands as in the original, with `berth as` in the place of `python` or `bash`.
. "$(dirname "${BASH_SOURCE[0]}")/../cli/lib.sh"
PATH=$(dirname "$BERTH"):$PATH
export NO_COLOR=1 # mpirun gives its processes a terminal
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_WAIT_POLICY=passive
export HF_HOME=$work/huggingface
mkdir "$work/seed" && cd "$work/seed" || exit 1

# The program that a command line names after `berth as`; nothing for a native one.
program_of() { # COMMAND...
    local word follows=
    for word; do
        [ -z "$follows" ] || [[ $word == --* ]] || { echo "$word"; return; }
        [ "$word" != as ] || follows=1
    done
}
# Sets `words` to the command line with options of Berth after `as`, and --verbose for the whole plan of a run.
with_options() { # OPTIONS COMMAND...
    local options=$1 word program
    shift
    program=$(program_of "$@")
    [[ $program == *run_* || $program == *launch_benchmark.py || $program == *deepspeed* ]] && [[ $program != *.sh ]] && options+=" --verbose"
    words=()
    for word; do
        words+=("$word")
        # shellcheck disable=SC2206
        [ "$word" != as ] || words+=($options)
    done
}
# Runs a command line: it succeeds, and a note names each flag that is not needed.
original() { # COMMAND...
    local flags flag word program words
    what="$*"
    with_options "" "$@"
    [[ $(program_of "$@") != *run_*.sh ]] || local -x BERTH_OPTIONS="--verbose ${BERTH_OPTIONS:-}" # of the scripts
    "${words[@]}" >"$out" 2>"$err" </dev/null
    code=$?
    expect_code 0
    program=$(program_of "$@")
    [ -n "$program" ] && [[ $program != *.sh ]] || return
    flags=$("$BERTH" as "$program" --help | sed -n 's/^  --\([^ ]*\).* not needed: .*/\1/p') && [ -n "$flags" ] || return
    for word; do
        flag=${word%%=*}
        flag=${flag#--}
        flag=${flag//-/_}
        [[ $word == --* || $word == *=* ]] && grep -qxF -- "$flag" <<<"$flags" || continue
        grep -q -- "--$flag is not needed: " "$err" || fail "--$flag is ignored silently"
    done
}
# The same; and the commands that `berth as --print_command` prints for it leave the same bytes in OUTPUT, but for
# records with times.
same_printed() { # OUTPUT COMMAND...
    local output=$1 words
    shift
    rm -rf "$output" "$output.as"
    original "$@"
    cp "$out" "$work/out.as" && cp "$err" "$work/err.as"
    mv "$output" "$output.as"
    with_options --print_command "$@"
    what="printed: $*"
    "${words[@]}" >printed.sh 2>"$err" </dev/null || fail "nothing is printed"
    grep -q '^berth\|^mpirun\|^OMPI\|^set -e' printed.sh || fail "no command: $(cat printed.sh)"
    bash printed.sh >"$out" 2>"$err" </dev/null || fail "the printed commands fail"
    diff -r --exclude='*.jsonl' --exclude='events.out*' --exclude='*_results.json' --exclude=trainer_state.json \
        --exclude='dllog*' --exclude=runs --exclude=eval_results.txt "$output.as" "$output" >"$work/different" ||
        fail "the printed commands leave other files: $(head -n 5 "$work/different")"
    cp "$work/out.as" "$out" && cp "$work/err.as" "$err"
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
# The section of doc/from.md for the users of a program, as a page of its own, and the native commands of its lines.
page=$work/from.md
native=$work/native_commands
take_section() { # TITLE
    awk -v title="## $1" '$0 == title { on = 1; next } /^## / { on = 0 } on' "$documents/from.md" >"$page"
    awk -v title="## $1" '$0 == title { on = 1; next } /^## / { on = 0 } on && !/^```/ && NF' "$documents/../tests/seeds/native_commands.md" >"$native"
    [ -s "$page" ] && [ -s "$native" ] || fail "doc/from.md or native_commands.md has no section \"$1\""
}
# The commands of the section. Its mpirun starts as many processes as it says, or one where there is no MPI.
run_page() { # at least how many commands
    export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
    if command -v mpirun >/dev/null; then
        mpirun() { with_mpi command mpirun "$@"; }
    else
        mpirun() { [ "$1" != -np ] || shift 2; "$@"; }
    fi
    export -f with_mpi mpirun
    run_commands_of "$page" "$1"
}
# The section's native commands have what --print_command prints for a line.
is_printed() { # COMMAND...
    local words=() word
    for word; do
        words+=("$word")
        [ "$word" != as ] || words+=(--print_command)
    done
    what="$* in native_commands.md"
    "${words[@]}" >"$out" 2>"$err" </dev/null || fail "nothing is printed"
    python3 -B -c 'import sys; sys.exit(sys.stdin.read() not in open(sys.argv[1]).read())' "$native" <"$out" ||
        fail "other commands"
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
# Gives each question of a data set N answers: its first one N times.
repeat_answers() { # FILE N
    python3 -B - "$@" <<'END'
import json, sys
path, count = sys.argv[1], int(sys.argv[2])
data = json.load(open(path))
for paragraph in data["data"][0]["paragraphs"]:
    for question in paragraph["qas"]:
        question["answers"] = count * question["answers"][:1]
json.dump(data, open(path, "w"))
END
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
