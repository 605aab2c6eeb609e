# SPDX-License-Identifier: Apache-2.0
# For tests that start several processes of this machine under the launchers of each MPI. Sourced after ../cli/lib.sh.
# BERTH_MPIS names the modules that were built.
unset "${!SLURM_@}" "${!OMPI_@}" "${!PMI_@}" "${!PMIX_@}" WORLD_SIZE RANK LOCAL_RANK BERTH_MODULE_PATH
# MPIs keep memory until the end.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0

launcher_of() { # MPI
    case $1 in
    openmpi) echo mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none ;;
    mpich) echo mpiexec.mpich ;;
    esac
}
launch_program() { # MPI COUNT PROGRAM WORDS...
    local mpi=$1 count=$2
    shift 2
    what="$mpi, $count processes: ${*##*/}"
    timeout 300 $(launcher_of "$mpi") -n "$count" "$@" >"$out" 2>"$err" </dev/null
    code=$?
}
launch() { # MPI COUNT WORDS... of berth
    local mpi=$1 count=$2
    shift 2
    launch_program "$mpi" "$count" "$BERTH" "$@"
}
# Those of BERTH_MPIS whose launcher is installed.
find_mpis() {
    local mpi starter
    for mpi in $BERTH_MPIS; do
        starter=$(launcher_of "$mpi")
        if command -v "${starter%% *}" >/dev/null; then
            echo "$mpi"
        else
            echo "no ${starter%% *}: $mpi was not tried" >&2
        fi
    done
}
once() { # TEXT
    [ "$(grep -cF -- "$1" "$err")" -eq 1 ] || fail "not one line with \"$1\""
}
# Questions about words, for the letters of make_model.
make_questions() { # FILE COUNT
    python3 - "$1" "$2" <<'END'
import json
import sys

paragraphs = []
for i in range(int(sys.argv[2])):
    words = [chr(97 + (i * 7 + k * k) % 26) * (1 + k % 4) for k in range(8 + i % 17)]
    context, answer = " ".join(words), words[i % len(words)]
    paragraphs.append({"context": context, "qas": [{
        "id": str(i), "question": f"which word is {answer}",
        "answers": [{"text": answer, "answer_start": context.index(answer)}]}]})
json.dump({"version": "1.1", "data": [{"title": "words", "paragraphs": paragraphs}]}, open(sys.argv[1], "w"))
END
}
