#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests the programs of examples/: each is compiled as C99, C11 and C++17 against an installed library with only
# pkg-config, without warnings, and all forms print the same, which is what the program finds, or transformers
# (tests/golden). And which folder and which questions run-demo takes from its options.
. "$(dirname "$0")/lib.sh"
what="an installed library"
golden=$SOURCE/tests/golden
cmake --install "$BUILD" --prefix "$work/prefix" >"$out" 2>"$err" || fail "installing failed"
PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name berth.pc)")
export PKG_CONFIG_PATH
flags=$(pkg-config --cflags --libs berth)
LD_LIBRARY_PATH=$(pkg-config --variable=libdir berth)
export LD_LIBRARY_PATH
strict="-Wall -Wextra -Wpedantic -Werror -pthread ${SANITIZE:+-fsanitize=$SANITIZE}"
for name in answer fill tag rerank train threads convert; do
    for standard in c99 c11; do
        what="$name as $standard"
        $CC -std=$standard $strict "$SOURCE/examples/$name.c" $flags -o "$work/$name-$standard" 2>"$err" || fail "compiling"
    done
    what="$name as C++17"
    $CXX -x c++ -std=c++17 $strict "$SOURCE/examples/$name.c" -x none $flags -o "$work/$name-c++17" 2>"$err" || fail "compiling"
done
what="nearest as C++17"
$CXX -std=c++17 $strict "$SOURCE/examples/nearest.cpp" $flags -o "$work/nearest-c++17" 2>"$err" || fail "compiling"

# example NAME WORDS... <INPUT: runs each form of it; what they print is in $out.
example() {
    local name=$1 form
    shift
    what="$name $*"
    cat >"$work/input"
    for form in "$work/$name-"*; do
        rm -rf "$work/new"
        "$form" "$@" >"$out" 2>"$err" <"$work/input"
        code=$?
        expect_code 0
        [ ! -e "$work/$name.before" ] || cmp -s "$work/$name.before" "$out" || fail "${form##*/} prints something else"
        cp "$out" "$work/$name.before"
    done
    rm -f "$work/$name.before"
}
# found NAME FILE...: compares what was printed with what is in the files.
found() {
    python3 -B "$(dirname "$0")/check_examples.py" "$1" "$out" "${@:2}" >"$work/found" 2>&1 || fail "$(cat "$work/found")"
}
berth() {
    "$BERTH" "$@" >"$work/shown" 2>"$work/log" </dev/null || { cp "$work/log" "$err"; fail "berth $*"; }
}

# What doc/library.md shows of a program are lines of it.
what="the programs of doc/library.md"
python3 - "$SOURCE" <<'END' >"$out" 2>"$err" || fail "lines that no program has"
import pathlib, re, sys
source = pathlib.Path(sys.argv[1])
name, shown, programs = None, 0, set()
for part in re.split(r"(^```.*?^```$)", (source / "doc/library.md").read_text(), flags=re.M | re.S):
    if not part.startswith("```"):
        name = (re.findall(r"`examples/(\w+\.\w+)`", part) or [name])[-1]
    elif part.startswith(("```c\n", "```cpp\n")):
        lines = set((source / "examples" / name).read_text().split("\n"))
        wrong = [line for line in part.split("\n")[1:-1] if line not in lines]
        assert not wrong, (name, wrong)
        shown += 1
        programs.add(name)
of_library = {path.name for path in (source / "examples").glob("*.c*") if "#include <berth.h>" in path.read_text()}
assert programs == of_library, (programs, of_library)
END
make_model "$work/model"
example answer "$work/model" 'Where did Ada live?' 'Ada lived in Oslo.' </dev/null
berth answer --model "$work/model" --question 'Where did Ada live?' --context 'Ada lived in Oslo.' --top 3 --json
found answer "$work/shown"
"$work/answer-c99" "$work/none" 'Where?' 'There.' >"$out" 2>"$err"
code=$?
expect_code 66
expect_err "$work/none"
"$work/answer-c99" >"$out" 2>"$err"
code=$?
expect_code 2

example fill "$golden/fill" 'the [MASK] fox jumped over the lazy dog.' </dev/null
berth fill --model "$golden/fill" --precision auto --text 'the [MASK] fox jumped over the lazy dog.'
found fill "$work/shown" "$golden/fill/fill.json"

example tag "$golden/tags" <<END
The quick fox jumped over the lazy dog in Paris, France.
END
berth tag --model "$golden/tags" --precision auto --text 'The quick fox jumped over the lazy dog in Paris, France.'
found tag "$work/shown" "$golden/tags/tags.json"

printf '%s\n' 'the red ball' 'the blue coat' 'anna and ben' 'the lamp of anna' 'a red lamp' '' 'ben ?' >"$work/lines"
example threads "$golden/encoder" "$work/lines" </dev/null
grep . "$work/lines" >"$work/texts"
berth embed --model "$golden/encoder" "$work/texts"
found threads "$work/shown"
example nearest "$golden/encoder" "$work/lines" 'the red lamp' </dev/null
(echo 'the red lamp'; cat "$work/texts") >"$work/asked"
berth embed --model "$golden/encoder" --normalize true "$work/asked"
found nearest "$work/shown" "$work/texts"

printf '%s\n' a,b,label 'Where?,In Oslo.,0.5' 'Where?,At noon.,-1.5' 'Who?,Ada.,2.25' >"$work/scores.csv"
berth finetune classify --model "$work/model" --train_file "$work/scores.csv" --text_column a --text_pair_column b \
    --label_column label --max_steps 2 --max_seq_length 32 --output_dir "$work/scorer"
printf '%s\n' 'In Oslo.' 'At noon, perhaps.' 'Ada lived there.' >"$work/passages"
example rerank "$work/scorer" 'Where did Ada live?' <"$work/passages"
(echo a,b; sed 's/^/Where did Ada live?,"/; s/$/"/' "$work/passages") >"$work/passages.csv"
berth predict classify --model "$work/scorer" --predict_file "$work/passages.csv" --text_column a --text_pair_column b \
    --output_dir "$work/predicted"
found rerank "$work/predicted/test_results.tsv" "$work/passages"

# A model that learns these words within the example's 50 epochs.
mkdir "$work/words"
cat >"$work/words.json" <<'END'
{"vocab_size": 19, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128,
 "max_position_embeddings": 32, "type_vocab_size": 2, "initializer_range": 0.1, "model_type": "bert"}
END
berth init --config "$work/words.json" --output "$work/words" --quiet
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' the film was great i found it lovely this is awful boring what a \
    >"$work/words/vocab.txt"
example train "$work/words" "$work/new" </dev/null
printf '%s\n' text,label 'The film was great,good' 'I found it lovely,good' 'This is awful,bad' 'It was boring,bad' \
    'It was great,good' 'The film was lovely,good' 'I found it awful,bad' 'This is boring,bad' >"$work/films.csv"
cp -r "$work/new" "$work/of-example"
berth finetune classify --model "$work/words" --train_file "$work/films.csv" --text_column text --label_column label \
    --train_batch_size 8 --num_train_epochs 50 --learning_rate 1e-3 --logging_steps 1 --output_dir "$work/films" \
    --json_summary "$work/films.jsonl"
found train "$work/films.jsonl" "$work/of-example/config.json"

example convert "$golden/classifier" "$work/new" torch </dev/null
berth inspect "$work/new"
found convert "$work/shown"

# The demo, whose build and program only print how they are called.
demo=$work/demo
mkdir -p "$demo/dev" "$demo/build/demo"
cp "$(dirname "$0")/../../run-demo" "$demo"
for program in dev/install-dependencies dev/build-preset build/demo/berth; do
    printf '#!/bin/sh\necho "${0##*/} $*"\n' >"$demo/$program"
    chmod +x "$demo/$program"
done
demo() { # OUTPUT WORDS...
    local output=$1
    shift
    what="run-demo $*"
    "$demo/run-demo" --model m --train t "$@" >"$out" 2>"$err" </dev/null
    code=$?
    expect_code 0
    expect_out "build-preset release build/demo -DBERTH_BUILD_TESTS=OFF -DBERTH_CUDA=OFF -DBERTH_HIP=OFF"
    expect_out "berth show squad --model $output --input d "
    expect_out "The model is in $output"
}
for words in '--output own' '--output_dir own' '--output-dir=own' '--output=own' '-o own'; do
    demo own $words --dev d
    expect_no "$out" --overwrite_output_dir
done
for words in '--dev d' '--dev=d' '--validation_file d' '--validation-file=d'; do
    demo demo-output/real $words
    expect_out "--output demo-output/real --overwrite_output_dir"
done

# How a build is shown, with a cmake that only prints what Ninja would.
cp "$(dirname "$0")"/../../dev/{build-preset,help.sh} "$demo/dev"
mkdir "$demo/bin"
cat >"$demo/bin/cmake" <<'END'
#!/bin/sh
case $1 in --preset) echo "-- configured $*"; exit "$CONFIGURED" ;; esac
echo '[0/2] Re-checking globbed directories...'
for i in $(seq 200); do echo "[$i/200] Building C object $i.c.o"; done
[ "$BUILT" = 0 ] || printf 'FAILED: 7.c.o\n7.c:1: error: no semicolon\n'
exit "$BUILT"
END
chmod +x "$demo/bin/cmake"
build() { # CONFIGURED BUILT: the exit codes of cmake; [PROGRAM WORDS...] that runs it
    what="dev/build-preset, cmake exits with $1 and $2"
    (cd "$demo" && export CONFIGURED=$1 BUILT=$2 PATH=$demo/bin:$PATH && shift 2 && "$@" dev/build-preset release build/x -DA=B) \
        >"$out" 2>"$err" </dev/null
    code=$?
}
build 0 0
expect_code 0
expect_empty "$err"
[ "$(grep -c '^build/x: \[[0-9]*/200\] Building' "$out")" -eq 11 ] || fail "not a line for each tenth"
expect_out 'build/x: [200/200]'
expect_no "$out" globbed
[ "$(wc -l <"$demo/build/x.log")" -eq 201 ] || fail "the log is not whole"
build 0 1
expect_code 1
expect_err 'no semicolon'
expect_no "$err" Building
build 1 0
expect_code 1
expect_err '-- configured --preset release -B build/x -DA=B'
build 0 0 "$ON_TERMINAL" 60
expect_code 0
[ "$(wc -l <"$out")" -eq 2 ] || fail "more lines than the first and the last"
expect_out "$(printf '\r\033[Kbuild/x: [117/200] Building C object 117.c.o')"

for seed in abc -1 1x '' 18446744073709551616; do
    what="generate, seed \"$seed\""
    "$BUILD/demo/generate" "$work" "$seed" >"$out" 2>"$err"
    code=$?
    expect_code 2
    expect_err "SEED is a number from 0 to 18446744073709551615"
done
finish
