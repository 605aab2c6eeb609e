# SPDX-License-Identifier: Apache-2.0
# Functions for the tests that run the program. Source it with BERTH set to the program and ON_TERMINAL to the
# helper that runs a command on a pseudo-terminal. A failed expectation is printed and noted; `finish` exits.
set -u
work=$(mktemp -d)
trap '[ "$BASHPID" -ne $$ ] || rm -rf "$work"' EXIT # not in subshells
out=$work/stdout
err=$work/stderr
code=0
failures=$work/failures # a line for each expectation that failed, also in a subshell
: >"$failures"
unset NO_COLOR FORCE_COLOR COLUMNS
export TERM=xterm

# Runs the program; the expect_... functions check its streams and exit code.
run() {
    what="berth $*"
    "$BERTH" "$@" >"$out" 2>"$err" </dev/null
    code=$?
}

fail() {
    echo failed >>"$failures"
    echo "FAILED: $what: $1"
    sed 's/^/    stdout: /' "$out" | tail -n 20
    sed 's/^/    stderr: /' "$err" | tail -n 20
}

expect_code() {
    [ "$code" -eq "$1" ] || fail "exit code $code, expected $1"
}
expect_out() {
    grep -qF -- "$1" "$out" || fail "no \"$1\" on standard output"
}
expect_err() {
    grep -qF -- "$1" "$err" || fail "no \"$1\" on standard error"
}
expect_no() { # FILE TEXT
    ! grep -qF -- "$2" "$1" || fail "\"$2\" should not be there"
}
expect_empty() {
    [ ! -s "$1" ] || fail "$1 should be empty"
}
finish() {
    [ ! -s "$failures" ] || { echo "$(wc -l <"$failures") expectations failed"; exit 1; }
    echo "all good"
    exit 0
}
escape=$(printf '\033')
documents=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../doc" && pwd)

# A vocabulary of letters, so that any English text has tokens, and a model folder that fits it.
make_model() { # FOLDER [POSITIONS]
    cat >"$work/config.json" <<'END'
{"vocab_size": 128, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
 "intermediate_size": 64, "max_position_embeddings": @POSITIONS@, "type_vocab_size": 2,
 "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
 "layer_norm_eps": 1e-12, "initializer_range": 0.02, "model_type": "bert"}
END
    sed -i "s/@POSITIONS@/${2:-512}/" "$work/config.json"
    "$BERTH" init --config "$work/config.json" --output "$1" --seed 7 --quiet || exit 1
    make_vocabulary >"$1/vocab.txt"
}
set_number() { # FILE.safetensors TENSOR NUMBER [INDEX]: replaces the number at INDEX (default 0)
    python3 -B "$documents/../tests/tensor_file.py" "$@"
}
make_vocabulary() {
    printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' \
        '.' ',' '?' '!' "'" - '(' ')' 0 1 2 3 4 5 6 7 8 9
    for letter in a b c d e f g h i j k l m n o p q r s t u v w x y z; do
        printf '%s\n##%s\n' "$letter" "$letter"
    done
    printf '%s\n' the in lived where did who ada hugo olga rita oslo riga bern rome hello world
}
make_dataset() { # FILE, SQuAD 1.1 with eight questions
    cat >"$1" <<'END'
{"version": "1.1", "data": [{"title": "Homes", "paragraphs": [
 {"context": "Ada lived in Oslo. Hugo lived in Riga. Olga lived in Bern.", "qas": [
  {"id": "q1", "question": "Where did Ada live?", "answers": [{"text": "Oslo", "answer_start": 13}]},
  {"id": "q2", "question": "Where did Hugo live?", "answers": [{"text": "Riga", "answer_start": 33}]},
  {"id": "q3", "question": "Who lived in Bern?", "answers": [{"text": "Olga", "answer_start": 39}]},
  {"id": "q4", "question": "Who lived in Oslo?", "answers": [{"text": "Ada", "answer_start": 0}]}]},
 {"context": "Rita lived in Rome. Ada lived in Bern. Hugo lived in Oslo.", "qas": [
  {"id": "q5", "question": "Where did Rita live?", "answers": [{"text": "Rome", "answer_start": 14}]},
  {"id": "q6", "question": "Where did Ada live?", "answers": [{"text": "Bern", "answer_start": 33}]},
  {"id": "q7", "question": "Who lived in Rome?", "answers": [{"text": "Rita", "answer_start": 0}]},
  {"id": "q8", "question": "Who lived in Oslo?", "answers": [{"text": "Hugo", "answer_start": 39}]}]}
]}]}
END
}
# Each sample of `show squad` is shown, or counted as one whose best start is not in the context.
shown_of() { # COUNT EXPRESSION of a shown sample
    local shown hidden
    shown=$(grep -cE "$2" "$out")
    hidden=$(sed -n "s/.* \([0-9]*\) of $1 samples are not shown: .*/\1/p" "$err")
    [ $((shown + ${hidden:-0})) -eq "$1" ] || fail "$shown shown and ${hidden:-0} not shown, expected $1 samples"
}
losses_of() { # CHECKPOINT, whose run logged each update: a line for each
    grep -oE '"loss": [0-9.e-]+' "$1/trainer_state.json" | cut -d ' ' -f 2
}
# The commands of a document, in order: its "```sh" blocks, and the lines of its "```console" blocks that
# begin with "$ ", with their continuation lines.
commands_of() { # DOCUMENT
    awk '/^ *```sh$/ { all = 1; next } /^ *```console$/ { some = 1; next } /^ *```/ { all = some = more = 0; next }
        some && (more || sub(/^ *\$ /, "")) { more = /\\$/; print } all' "$1"
}
# The lines that a document shows as output of commands, except of those that print a model's or a file's content.
shown_by() { # DOCUMENT
    awk '/^ *```console$/ { some = 1; next } /^ *```/ { some = more = 0; next }
        some && (more || /^ *\$ /) {
            if (!more) { content = !/^ *\$ berth / || /berth (answer|show|embed|inspect|tag|fill|tokenize|evaluate tokens)/ }
            more = /\\$/; next
        }
        some && !content && !/^ *\.\.\.$/' "$1"
}
shapes() { # lines without what differs from run to run: numbers and blanks
    sed -E 's/-?[0-9][0-9,.]*(e[-+]?[0-9]+)?/#/g; s/# [KMG]?i?B\b/# B/g; s/^ +//; s/ +/ /g'
}
# Runs the commands of a document in this folder with the program under test, up to the first that fails. They must
# print what the document shows.
run_commands_of() { # DOCUMENT, at least how many commands
    what="the commands of $(basename "$1")"
    commands_of "$1" >"$work/commands.sh"
    [ "$(grep -c '^ *berth ' "$work/commands.sh")" -ge "$2" ] || fail "too few commands"
    PATH=$(dirname "$BERTH"):$PATH bash -eu "$work/commands.sh" >"$out" 2>"$err" </dev/null
    code=$?
    expect_code 0
    cat "$out" "$err" | shapes >"$work/shapes"
    shown_by "$1" | shapes | while read -r line; do
        grep -qxF -- "$line" "$work/shapes" || echo "    $line"
    done >"$work/differences"
    [ ! -s "$work/differences" ] || fail "these lines are not printed:
$(cat "$work/differences")"
}
# The files of GLUE and XNLI in their published layouts.
block() { # HEAD: the lines of the block "```HEAD"
    sed -n '/^```'"$1"'$/,/^```$/p' "$documents/../tests/data/glue_layouts.md" | sed '1d;/^```$/,$d'
}
put() { # TASK SPLIT FILE...
    task=$1 split=$2
    shift 2
    for file; do
        mkdir -p "glue/$(dirname "$file")"
        block "tsv $task $split" >"glue/$file"
        [ -s "glue/$file" ] || fail "glue_layouts.md has no block \"tsv $task $split\""
    done
}
make_glue() {
    put cola train CoLA/train.tsv CoLA/dev.tsv
    put sst2 train SST-2/train.tsv SST-2/dev.tsv
    put mrpc dev MRPC/train.tsv MRPC/dev.tsv
    put qqp train QQP/train.tsv QQP/dev.tsv
    put stsb train STS-B/train.tsv STS-B/dev.tsv
    put mnli train MNLI/train.tsv MNLI/dev_matched.tsv
    put mnli dev_mismatched MNLI/dev_mismatched.tsv
    put qnli train QNLI/train.tsv QNLI/dev.tsv
    put rte dev RTE/train.tsv RTE/dev.tsv
    put wnli dev WNLI/train.tsv WNLI/dev.tsv
    put xnli train multinli.train.zh.tsv
    put xnli dev xnli.dev.tsv
}
# Pre-training data of 144 sentences in the folder corpus; sets `shards` to the folder of its shards.
make_corpus() { # VOCABULARY
    local article sentence
    for article in $(seq 12); do
        for sentence in $(seq 12); do
            echo "hello world where did ada and hugo live in the $article year $sentence when rome was in bern."
        done
        echo
    done >text.txt
    run prepare --text text.txt --vocab "$1" --output corpus --max_seq_length 32 --max_predictions_per_seq 4 \
        --shards 4 --test_shards 1 --dupe_factor 5
    expect_code 0
    shards=$(dirname "$(find corpus -name '*training_0.hdf5')")
}
# An export of a wiki with 60 articles of 12 sentences.
make_dump() {
    local names=(Ada Hugo Olga Rita Emil Nora) towns=(Oslo Riga Bern Rome Turin Lagos)
    local verbs=('lived in' 'moved to' 'worked in' 'dreamed of' 'wrote about')
    echo '<mediawiki><siteinfo><base>https://x.org/wiki/Main</base></siteinfo>'
    for article in $(seq 60); do
        echo "<page><title>Article $article</title><ns>0</ns><id>$article</id><revision><text>"
        for sentence in $(seq 12); do
            local n=$((article * 7 + sentence * 3 + article * sentence))
            printf "'''%s''' %s [[%s]] in %d, and %s did not. " "${names[n % 6]}" \
                "${verbs[n % 5]}" "${towns[(n / 3) % 6]}" $((1800 + n % 200)) "${names[(n + 1) % 6]}"
        done
        echo '</text></revision></page>'
    done
    echo '</mediawiki>'
}
