#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Verbs under limits of descriptors, stack, addresses, sizes of files and processes: with each they succeed, or end with an exit code
# of README.md and a message, never by a signal. A stack of 1 MiB and 24 descriptors are enough for all.
. "$(dirname "$0")/lib.sh"
export OMP_WAIT_POLICY=passive OMP_NUM_THREADS=1
make_model "$work/model"
make_dataset "$work/data.json"
printf 'Ada lived in Oslo. Hugo lived in Riga.\n\nOlga lived in Bern.\n' >"$work/text.txt"
cd "$work" || exit 1
windows="--max_seq_length 64 --doc_stride 16 --max_query_length 16 --threads 1"
verbs=("finetune squad --model model --train data.json --output made --max_steps 2 --save_steps 1 --train_batch_size 4 $windows"
    "predict squad --model model --input data.json --output made $windows"
    "answer --model model --question Where? --context Oslo. --threads 1"
    "embed --model model text.txt --threads 1 --output made"
    "inspect model"
    "convert model made --to torch"
    "verify model"
    "init --config model/config.json --output made --seed 1"
    "vocab --text text.txt --size 60 --output made"
    "prepare --text text.txt --vocab model/vocab.txt --output made --max_seq_length 16 --shards 1 --threads 1")
tried=0
limited() { # OPTION VALUE VERB...: sets code
    what="ulimit $1 $2: berth $3 $4"
    rm -rf made*
    # The limit of files is not for the messages.
    (
        echo "$BASHPID" >pid
        ulimit "$1" "$2"
        exec "$BERTH" "${@:3}"
    ) </dev/null 2>&1 | cat >"$err"
    code=${PIPESTATUS[0]}
    tried=$((tried + 1))
    case $code in
    0) [ ! -e made ] || [ -z "$(find made* -name '*.tmp*')" ] || fail "temporary files are left" ;;
    # The system's loader, and the runtimes of threads, which end the process themselves; LLVM's by a signal.
    127 | 1) grep -qE "error while loading shared libraries|libgomp: |cannot (allocate|map)" "$err" || fail "code $code: $(cat "$err")" ;;
    # It leaves an empty file of shared memory behind, by which the next process of this number would end with SIGBUS.
    134 | 135)
        grep -q "^OMP: Error" "$err" || fail "code $code: $(cat "$err")"
        rm -f "/dev/shm/__KMP_REGISTERED_LIB_$(cat pid)_$(id -u)"
        ;;
    2 | 65 | 66 | 69 | 70 | 73 | 74 | 78) grep -q '^berth: error: .' "$err" || fail "code $code without a message" ;;
    *) fail "code $code: $(tail -n 3 "$err")" ;;
    esac
}
succeeds() {
    limited "$@"
    [ $code -eq 0 ] || [ "$code $3" = "65 verify" ] || fail "code $code: $(cat "$err")" # a model has no manifest
}
for verb in "${verbs[@]}"; do
    for value in 4 5 6 7 8 10 12 16; do limited -n $value $verb; done
    succeeds -n 24 $verb
    for value in 256 512; do limited -s $value $verb; done
    succeeds -s 1024 $verb
    [ -n "${SANITIZE:-}" ] || # its shadow needs terabytes
        for value in 20000 50000 100000 150000 200000 300000 500000; do limited -v $value $verb; done
    for value in 0 1 4 16 64; do limited -f $value $verb; done
done

# No thread beside the first: OpenMP would end the process. For root, who has no such limit, as another user.
as=()
[ "$(id -u)" -ne 0 ] || as=(setpriv --reuid 54321 --inh-caps=+dac_override --ambient-caps=+dac_override)
chmod 777 .
refused=0
for verb in "${verbs[@]}"; do
    what="ulimit -u 1: berth $verb"
    rm -rf made*
    # A sanitizer would look for leaks in a thread.
    "${as[@]}" bash -c 'ulimit -u 1 && exec "$@"' - env OMP_NUM_THREADS=2 ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" \
        "$BERTH" ${verb//--threads 1/--threads 2} </dev/null >"$out" 2>"$err"
    code=$?
    case ${verb%% *} in
    inspect | convert | verify) continue ;; # one thread is enough
    esac
    expect_code 78
    expect_err "only 1 of 2 threads can be started"
    refused=$((refused + 1))
done
[ $refused -eq 7 ] || fail "$refused verbs refused, expected 7"
[ $tried -ge 160 ] || fail "only $tried runs"
finish
