#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Help of every verb: exit 0, on standard output, an example, options by group with their defaults, wrapped.
. "$(dirname "$0")/lib.sh"

verbs="pretrain finetune predict evaluate answer show tokenize features embed inspect convert compare init verify bench
    doctor fetch prepare pack vocab help man completion report plot fill serve as"
for verb in $verbs; do
    for words in "$verb --help" "$verb -h" "help $verb" "$verb squad --nonsense --help"; do
        [ "$words" != "as squad --nonsense --help" ] || continue # of the program squad
        run $words
        expect_code 0
        expect_out "berth $verb"
        expect_out example
        expect_out "--quiet"
        expect_empty "$err"
        expect_no "$out" "$escape"
    done
done

# The common options, and where the others are; then all of them, or those of a group.
COLUMNS=200 run finetune squad --help
for words in '[384, or' '[3e-5]' '[2]' '[42]' '[32]' '--train FILE, --train_file' '--dev FILE, --validation_file' --output \
    '--model DIR, --model_name_or_path' --vocab_file --deepspeed_config '--resume_from_checkpoint [auto|DIR]' \
    'bf16 if that is fast' '`berth finetune squad --help all`' 'learning-rate, optimizer, precision'; do
    expect_out "$words"
done
for words in --doc_stride --adam_beta1 "a resumed run"; do
    expect_no "$out" "$words"
done
COLUMNS=200 run finetune squad --help all
for words in '--doc_stride N' '[128]' '--max_query_length N' '[64]' '--n_best_size N' '[20]' '--max_answer_length N' '[30]' \
    '--weight_decay X' "[0.01; for lamb, 0]; DeepSpeed's key: optimizer.params.weight_decay" '--save_steps N|auto' \
    '[42]; a resumed run must keep it' 'linear, linear_ahead, bertadam' '--logging_steps N'; do
    expect_out "$words"
done
for words in --local_rank --fp16 --bert_model --do_train; do # of other programs
    expect_no "$out" "$words"
done
COLUMNS=200 run pretrain --help all
for words in '[5e-5]' '[nvlamb]' '[poly]' '[1000, unless num_train_epochs is given; 0 or -1: ' '[as in the shards]'; do
    expect_out "$words"
done
COLUMNS=200 run serve --help all # the server's description, not that of one of its models
expect_out "[auto: fp32 for embeddings and masked words;"
expect_out "of the model if that is less; others: as in the model folder"
[ "$(grep -c '^  --model' "$out")" -eq 1 ] || fail "two options for the model"
for words in --model_name_or_path --comm --no_progress; do # a server has models of its own, and one process
    run serve --model none "$words" self
    expect_code 2
    expect_err "unknown option $words"
done
COLUMNS=200 run bench --help
expect_out "[the first *vocab*.txt in the folder that --config"
COLUMNS=200 run prepare --help
expect_out '[12345]'
expect_no "$out" "a resumed run"
run finetune squad --help optimizer
expect_out "--adam_beta1"
expect_no "$out" "--doc_stride"
run help finetune squad learning_rate
expect_out "--learning_rate RATE, --lr"
expect_no "$out" "--adam_beta1"
run finetune squad --help lr # an option, by any of its names
expect_code 0
expect_out "--learning_rate RATE, --lr"
expect_no "$out" "--adam_beta1"
expect_no "$out" "example"
for words in "tokenize --help learning_rate" "finetune squad --help phase1_end_step" "finetune squad --help fp16"; do
    run $words # options of other verbs, and of other programs
    expect_code 2
    expect_err "or an option's name"
done
run finetune squad --help nonsense
expect_code 2
expect_err "--help nonsense: expected all, files, features, "

# No text of other verbs: what an option means in another one, or that it does not go with an option of another one.
for words in "embed|to start from|answers, classes" "finetune squad|CoNLL|a table of texts|for embeddings" \
    "finetune tokens|SQuAD|task_name|for embeddings" "finetune embed|SQuAD|CoNLL|task_name|piz-daint" "predict squad|CoNLL|what an earlier run left" \
    "finetune classify|CoNLL|nvidia-phase1|lumi|int8" "pretrain|SQuAD|CoNLL|lumi|unless this, save_steps" "tokenize|only the run's log" \
    "mine|CoNLL|task_name" "vocab|write to an output folder" "finetune rerank|CoNLL|SQuAD|for embeddings|task_name" "bench|curves"; do
    verb=${words%%|*} other=${words#*|}
    # shellcheck disable=SC2086
    COLUMNS=1000 run $verb --help all
    sed '/^usage/,/^common options/d' "$out" >"$work/options" # the examples may name files of any kind
    ! grep -nE -- "$other" "$work/options" || fail "text of another verb"
done

# Every verb that prints results has --json.
for verb in "finetune squad" "predict classify" "evaluate squad" "evaluate tokens" "evaluate embed" answer classify tag rerank embed fill hidden \
    "show squad" "features squad" tokenize mine inspect compare verify bench doctor fetch prepare pack vocab; do
    # shellcheck disable=SC2086
    COLUMNS=200 run $verb --help
    expect_out "  --json"
done

# Other programs: their list, and the flags of each.
run as
expect_code 0
expect_empty "$err"
for words in 3_squad_bert_deepspeed.py launch_benchmark.py run_squad.py run_qa.py evaluate-v2.0.py; do
    expect_out "  $words "
done
for words in run_qa.py hugging-face/run_qa.py path/to/run_qa.py; do
    run as $words --help
    expect_code 0
    expect_empty "$err"
    grep -qE -- '^  --evaluation_strategy VALUE +--eval_strategy$' "$out" || fail "what --evaluation_strategy becomes"
    grep -qE -- '^  --full_determinism +not needed: every run is deterministic$' "$out" || fail "a flag that is not needed"
done
run as run_squad.py --help
expect_code 2
expect_err 'run_squad.py is a program of several systems: google/run_squad.py, intel/run_squad.py, '
run as squad --help
expect_code 2
expect_err '`berth as` alone lists them'

# Narrow and wide terminals: no line of prose or options is wider (examples are to be copied, so they are), and
# every width shows the same words.
words_of() { sed '/^example/,/^common options/d' "$1" | tr -s ' \n' '\n\n'; }
no_wider() { # COLUMNS
    wide=$(sed '/^example/,/^common options/d; /\/index.md$/d' "$out" | awk -v columns="$1" 'length($0) > columns' | head -n 1)
    [ -z "$wide" ] || fail "wider than $1 columns: $wide"
}
narrow() { # COLUMNS WORDS...
    columns=$1
    shift
    COLUMNS=$columns run "$@"
    no_wider "$columns"
}
for verb in $verbs "finetune classify" "predict classify" "evaluate pretrain"; do
    # shellcheck disable=SC2086
    COLUMNS=1000 run $verb --help all
    words_of "$out" >"$work/words"
    for columns in 60 80 120; do
        # shellcheck disable=SC2086
        narrow $columns $verb --help all
        words_of "$out" | cmp -s - "$work/words" || fail "other words at $columns columns"
    done
done
narrow 60 --help
run finetune squad --help all # without COLUMNS and a terminal
no_wider 80

# Each line of a usage is a separate command.
COLUMNS=80 run show squad --help
grep -q '^  berth show squad --model DIR --input FILE --random-samples M \[--seed N\]$' "$out" ||
    fail "the second usage of show squad"

run
expect_code 2
expect_err usage
expect_err "finetune squad"
run --help
expect_code 0
expect_out "finetune squad"
[ -s "$(sed -n '/^documents:$/{n;s/^ *//p}' "$out")" ] || fail "the documents are not where it says"
for words in --version version -V -v; do
    run $words
    expect_code 0
    grep -qxE "berth [0-9]+\.[0-9]+\.[0-9]+" "$out" || fail "not the version"
done
run help nonsense
expect_code 2

# Colours: on a terminal and when forced, never with NO_COLOR or on a dumb terminal.
coloured() { # [NAME=VALUE...] PROGRAM WORDS...
    what="$*"
    env "$@" >"$out" 2>"$err"
    code=$?
    expect_code 0
    expect_out "$escape"
}
plain() { # [NAME=VALUE...] PROGRAM WORDS...
    what="$*"
    env "$@" >"$out" 2>"$err"
    code=$?
    expect_code 0
    expect_out example
    expect_no "$out" "$escape"
}
coloured "$ON_TERMINAL" 70 "$BERTH" answer --help
plain NO_COLOR=1 "$ON_TERMINAL" 70 "$BERTH" answer --help
plain TERM=dumb "$ON_TERMINAL" 70 "$BERTH" answer --help
plain "$ON_TERMINAL" 70 "$BERTH" --no-color answer --help
coloured FORCE_COLOR=1 "$BERTH" answer --help
plain FORCE_COLOR=1 NO_COLOR=1 "$BERTH" answer --help
finish
