# SPDX-License-Identifier: Apache-2.0
# For tests that start several processes on this machine with the launcher of each MPI. Sourced after ../cli/lib.sh.
# BERTH_MPIS names the modules that were built.
unset "${!SLURM_@}" "${!OMPI_@}" "${!PMI_@}" "${!PMIX_@}" WORLD_SIZE RANK LOCAL_RANK BERTH_MODULE_PATH
# MPIs do not free all of their memory.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0

launcher_of() { # MPI
    case $1 in
    openmpi) echo mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none ;;
    mpich) echo mpiexec.mpich ;;
    esac
}
as() { # WHAT WORDS...
    what=$1
    shift
    "$@" >"$out" 2>"$err" </dev/null
    code=$?
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
# Two processes with the settings of WORDS, the second one also with OTHERS.
unlike() { # MPI WORDS... -- OTHERS...
    local starter words=()
    starter=$(launcher_of "$1")
    shift
    while [ "$1" != -- ]; do
        words+=("$1")
        shift
    done
    shift
    what="${words[*]}, and $* in the second process"
    timeout 120 $starter -n 1 "$BERTH" "${words[@]}" : -n 1 "$BERTH" "${words[@]}" "$@" >"$out" 2>"$err" </dev/null
    code=$?
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
# Questions about words made of the letters that make_model knows, in texts of WORDS (8) to about three times as many.
make_questions() { # FILE COUNT [WORDS]
    python3 - "$1" "$2" "${3:-8}" <<'END'
import json
import sys

paragraphs = []
least = int(sys.argv[3])
for i in range(int(sys.argv[2])):
    words = [chr(97 + (i * 7 + k * k) % 26) * (1 + k % 4) for k in range(least + i % (2 * least + 1))]
    context, answer = " ".join(words), words[i % len(words)]
    paragraphs.append({"context": context, "qas": [{
        "id": str(i), "question": f"which word is {answer}",
        "answers": [{"text": answer, "answer_start": context.index(answer)}]}]})
json.dump({"version": "1.1", "data": [{"title": "words", "paragraphs": paragraphs}]}, open(sys.argv[1], "w"))
END
}
# A model whose matrices consist of whole blocks, so that several ranks own parts of them.
make_wide_model() { # FOLDER [SEED]
    [ -d "$work/small" ] || make_model "$work/small"
    sed 's/"hidden_size": 32/"hidden_size": 256/; s/"intermediate_size": 64/"intermediate_size": 512/' \
        "$work/config.json" >"$work/wide.json"
    run init --config "$work/wide.json" --seed "${2:-7}" --output "$1"
    expect_code 0
    cp "$work/small/vocab.txt" "$1"
}
# Six updates of $work/model on the questions in $work/data.json.
training_settings() {
    echo "--model $work/model --train $work/data.json --max_seq_length 64 --doc_stride 16 --max_query_length 16" \
        "--train_batch_size 8 --max_steps 6 --learning_rate 1e-3 --logging_steps 1 --save_steps 3 --threads 1"
}
same() { # FOLDER FOLDER: of such runs, in $work
    for file in model.safetensors checkpoint-6/optimizer.safetensors; do
        cmp -s "$work/$1/$file" "$work/$2/$file" || fail "$file of $1 and $2 differ"
    done
}
