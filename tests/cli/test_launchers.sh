#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests the program as one of several processes: a verb that writes files and is not divided stops immediately with 78,
# and the first process says what to do instead; another one that is not divided runs in the first process. Uses the
# variables of every launcher, and mpirun of Open MPI and torchrun if they are installed. Verbs that divide their work
# are tested by ../comm/test_jobs.sh.
. "$(dirname "$0")/lib.sh"
unset "${!SLURM_@}" "${!OMPI_@}" "${!PMI_@}" "${!PMIX_@}" "${!MV2_@}" WORLD_SIZE RANK LOCAL_RANK
# MPIs keep memory until the end.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
make_model "$work/model"
printf 'hello\n' >"$work/text"
init="init --config $work/config.json --output $work/made"

with() { # VARIABLES... -- WORDS...
    variables=()
    while [ "$1" != -- ]; do
        variables+=("$1")
        shift
    done
    shift
    what="${variables[*]} berth $*"
    env "${variables[@]}" "$BERTH" "$@" >"$out" 2>"$err" </dev/null
    code=$?
}
refused() { # NAME RANK SIZE VARIABLES...
    name=$1 rank=$2 size=$3
    shift 3
    with "$@" -- $init
    expect_code 78
    if [ "$rank" -eq 1 ]; then
        expect_err "process $rank of $size by $name"
    else
        [ ! -s "$err" ] || fail "not only the first process reports"
    fi
    [ ! -e "$work/made" ] || fail "something was written"
    # Nothing connects these processes, with or without an MPI, which does not free all of its memory.
    with "$@" "ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0" -- doctor
    [ "$code" -eq 78 ] || [ "$code" -eq 69 ] || fail "exit code $code, expected 78 or 69"
    grep -qE "^launcher +$name" "$out" || fail "no launcher"
    grep -qE "^processes +$size$" "$out" || fail "no number of processes"
    grep -qE "^process_rank +$((rank - 1))$" "$out" || fail "no rank"
}
alone() { # VARIABLES...
    with "$@" -- $init
    expect_code 0
    rm -rf "$work/made"
}
refused 'mpirun of Open MPI' 3 4 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=2 PMIX_RANK=2
refused 'mpirun of MVAPICH2' 1 2 MV2_COMM_WORLD_SIZE=2 MV2_COMM_WORLD_RANK=0
refused 'mpiexec of MPICH' 2 2 PMI_SIZE=2 PMI_RANK=1
refused 'srun of Slurm' 2 2 PMI_SIZE=2 PMI_RANK=1 PMI_JOBID=7.0
refused 'srun of Slurm' 2 4 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=1 PMIX_RANK=1
refused 'torchrun or deepspeed' 2 8 WORLD_SIZE=8 RANK=1 LOCAL_RANK=1
refused 'torchrun or deepspeed' 1 2 WORLD_SIZE=2 LOCAL_RANK=0
refused 'torchrun or deepspeed' 1 4 WORLD_SIZE=4 # a job's script that tells no rank
refused 'srun of Slurm' 4 4 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=3 SLURM_NTASKS=4
refused 'a launcher with PMIx' 2 2 PMIX_RANK=1
# torchrun within one MPI process, mpirun within one process of torchrun's.
refused 'torchrun or deepspeed' 1 2 OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0 WORLD_SIZE=2 RANK=0
refused 'mpirun of Open MPI' 2 2 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 WORLD_SIZE=1 RANK=0
# A job's script has set the variables of torchrun from those of the launcher.
refused 'mpirun of Open MPI' 1 4 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=0 WORLD_SIZE=4
refused 'mpiexec of MPICH' 2 2 PMI_SIZE=2 PMI_RANK=1 WORLD_SIZE=2 RANK=1 LOCAL_RANK=1
refused 'srun of Slurm' 3 4 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=2 PMIX_RANK=2 WORLD_SIZE=4 RANK=2 LOCAL_RANK=0
alone OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0 PMIX_RANK=0
alone SLURM_NTASKS=4 SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NNODES=2 # within sbatch or salloc
alone SLURM_STEP_NUM_TASKS=1 SLURM_NTASKS=4
alone SLURM_STEP_NUM_TASKS=4 OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0 # mpirun -n 1 in a job
alone WORLD_SIZE=1 RANK=0
alone WORLD_SIZE=many RANK=0
with OMPI_COMM_WORLD_SIZE=1 -- doctor
grep -qE '^processes +1$' "$out" || fail "not one process"
run doctor
grep -qE '^launcher +none$' "$out" || fail "a launcher without one"

# OpenMP binds the first thread to a place when the program starts; the threads that compute use all places.
processors() { # VARIABLES...
    env -u OMP_NUM_THREADS "$@" "$BERTH" doctor 2>"$err" | grep -E '^(processors_usable|threads) '
}
everywhere=$(processors OMP_PROC_BIND=false)
llvm=$(ls /usr/lib/llvm-*/lib/libomp.so.5 2>/dev/null | tail -n 1)
for binding in OMP_PROC_BIND=true OMP_PLACES=threads "OMP_PROC_BIND=spread OMP_PLACES=cores"; do
    what="doctor with $binding"
    [ "$(processors $binding)" = "$everywhere" ] || fail "other processors than without"
    # As in a program of clang with a library that has GCC's OpenMP. A sanitizer's library would have to be loaded first.
    [ -n "${SANITIZE:-}" ] || [ -z "$llvm" ] || [ "$(processors LD_PRELOAD=$llvm $binding)" = "$everywhere" ] ||
        fail "other processors than without, with LLVM's OpenMP"
done

# Every verb: what it does as one of several processes, and words that it accepts. Those that run in the first process are
# given files that are not there.
cat >"$work/table" <<END
finetune squad: divided --model m --train t --output $work/made
finetune classify: divided --model m --train t --text_column a --label_column b --output $work/made
finetune tokens: divided --model m --train t --output $work/made
finetune embed: divided --model m --train t --output $work/made
finetune rerank: divided --model m --train t --output $work/made
finetune fill: divided --model m --train t --output $work/made
pretrain: divided --model m --input_dir d --output $work/made
pretrain: divided --objective mlm --model m --train t --output $work/made
predict squad: divided --model m --input t --output $work/made
predict classify: divided --model m --input t --text_column a --output $work/made
predict tokens: divided --model m --input t --output $work/made
evaluate pretrain: divided --model m --input_dir d --output $work/made
evaluate pretrain: divided --objective mlm --model m --dev t --output $work/made
evaluate embed: divided --model m --input t --output $work/made
evaluate rerank: divided --model m --input t --output $work/made
evaluate squad: first t p
evaluate tokens: first t p
embed: divided --model m t
mine: divided --model m --pairs t.csv --output $work/made
fill: first --model m t
classify: first --model m t
tag: first --model m t
hidden: first --model m t
rerank: first --model m --query q t
serve: alone --model $work/model
answer: first --model m --question q --context-file t
show squad: first --model m --input t
features squad: first --vocab v --input t
tokenize: first --vocab v t
inspect: first m
compare: first m n
verify: first m
report: first m
plot: first m
bench: first peak
convert: alone $work/model $work/made --to nvidia
init: alone --config tiny --output $work/made
fetch: alone some/model
prepare: divided --text $work/text --vocab $work/model/vocab.txt --output $work/made
pack: divided $work/made $work/made2
vocab: alone --text $work/text --output $work/made
doctor: each
help: first nonsense
man: first nonsense
completion: first nonsense
as: each
END
run --help
sed -n 's/^  \([a-z][a-z]*\) \([a-z]*\) .*/\1 \2/p' "$out" | sed '/^berth/d; s/ *$//' | sort >"$work/verbs"
what="verbs of the help and of this test"
sed 's/:.*//' "$work/table" | sort | cmp - "$work/verbs" || fail "they differ"
# The documentation has each verb, or all with its first word, where it belongs.
page=$(cd "$(dirname "$0")/../.." && pwd)/doc/cluster.md
says() { # VERB KIND
    case $2 in
    divided) words='They divide|The processes divide' ;;
    first) words='The first process runs it' ;;
    alone) words='Refused with exit code 78' ;;
    each) words='Each process runs it' ;;
    esac
    grep -E "^\|.*\`($1|${1%% *})\`.*\| ($words)" "$page" >/dev/null || fail "doc/cluster.md: not $2: $1"
}
what="doc/cluster.md"
while IFS=': ' read -r verb task kind _; do
    case $verb:$kind in
    help:* | man:* | completion:* | as:*) ;; # not of a job
    *:divided | *:first | *:alone | *:each) says "$verb $task" "$kind" ;;
    *) says "$verb" "$task" ;;
    esac
done <"$work/table"
while IFS= read -r row; do
    verb=${row%%: *} words=${row#*: }
    kind=${words%% *} words=${words#"$kind"}
    with WORLD_SIZE=2 RANK=1 -- $verb $words
    [ -s "$out" ] && [ "$kind" != each ] && fail "the second process prints"
    case $kind in
    divided)
        expect_code 78
        expect_err 'does not let an MPI connect the processes'
        ;;
    alone)
        expect_code 78
        [ ! -s "$err" ] || fail "not only the first process reports"
        with WORLD_SIZE=2 RANK=0 -- $verb $words
        expect_code 78
        expect_err 'process 1 of 2 by torchrun or deepspeed'
        ;;
    first)
        expect_code 0
        [ ! -s "$err" ] || fail "the second process reports"
        [ "$verb" = bench ] && continue
        with WORLD_SIZE=2 RANK=0 -- $verb $words
        [ "$code" -ne 0 ] || fail "a missing file is no error"
        expect_err "note: started as 2 processes by torchrun or deepspeed: \`berth ${verb% *}\` runs in the first one only"
        with WORLD_SIZE=2 -- $verb $words
        expect_code 78
        expect_err 'process 1 of 2 by torchrun or deepspeed'
        ;;
    each) [ "$verb" = as ] && expect_code 0 || expect_code 78 ;; # a list of programs; the processor's figures
    esac
    [ ! -e "$work/made" ] || fail "something was written"
done <"$work/table"

printf 'hello\n' >"$work/hello"
with WORLD_SIZE=2 RANK=0 -- tokenize --vocab "$work/model/vocab.txt" "$work/hello"
expect_code 0
[ "$(wc -l <"$out")" -eq 1 ] || fail "not one line"
with WORLD_SIZE=2 RANK=1 -- tokenize --vocab "$work/model/vocab.txt" --unknown
expect_code 2
[ ! -s "$err" ] || fail "the second process reports a wrong word"
with WORLD_SIZE=2 RANK=1 -- prepare
expect_code 2
[ ! -s "$err" ] || fail "the second process reports missing words"
with WORLD_SIZE=2 RANK=1 -- as nonsense.py
expect_code 2
[ ! -s "$err" ] || fail "the second process reports another program"
# The command line of another program is one of several processes, too, but the first one tells what it becomes.
squad="google/run_squad.py --bert_config_file c --init_checkpoint m --vocab_file v --output_dir $work/made --do_train
    --train_file t --verbose_logging"
for rank in 0 1; do
    with WORLD_SIZE=2 RANK=$rank -- as $squad
    expect_code 78
    if [ $rank = 0 ]; then
        expect_err '--verbose_logging is not needed'
        expect_err 'does not let an MPI connect the processes'
    else
        expect_no "$err" '--verbose_logging is not needed'
    fi
done

# The launchers themselves.
if command -v mpirun >/dev/null && mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
    launch="mpirun --allow-run-as-root --oversubscribe"
    what="mpirun -n 2"
    $launch -n 2 "$BERTH" $init >"$out" 2>"$err" </dev/null
    code=$?
    expect_code 78
    expect_err 'of 2 by mpirun of Open MPI (OMPI_COMM_WORLD_SIZE is 2)'
    [ ! -e "$work/made" ] || fail "something was written"
    what="mpirun -n 1"
    $launch -n 1 "$BERTH" $init >"$out" 2>"$err" </dev/null
    code=$?
    expect_code 0
    rm -rf "$work/made"
else
    echo "no mpirun of Open MPI: its variables alone were tried"
fi
torchrun=${BERTH_TORCHRUN:-$(command -v torchrun)}
if [ -n "$torchrun" ] && "$torchrun" --no_python --nproc_per_node 2 true >"$out" 2>"$err"; then
    what="torchrun of two"
    "$torchrun" --no_python --nproc_per_node 2 "$BERTH" $init >"$out" 2>"$err" </dev/null
    expect_err 'of 2 by torchrun or deepspeed (WORLD_SIZE is 2)'
    [ ! -e "$work/made" ] || fail "something was written"
else
    echo "no torchrun that works: its variables alone were tried"
fi

# The program in the root folder of a container looks for modules beside it.
root=$work/root
mkdir -p "$root/proc"
cp "$BERTH" "$root/berth"
ldd "$BERTH" | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "$root/${library%/*}"
    cp -L "$library" "$root$library"
done
in_root() { # COMMAND...
    unshare --map-root-user --mount sh -c 'mount --rbind /proc "$0/proc" && exec chroot "$0" "$@"' "$root" "$@"
}
if in_root /berth --version >"$out" 2>"$err"; then
    what="/berth doctor"
    in_root /berth doctor >"$out" 2>"$err"
    code=$?
    expect_code 0
    expect_out 'no berth-device-hip.so in /, '
else
    echo "no namespaces for users: no other root folder was tried"
fi
finish
