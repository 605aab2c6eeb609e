#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests the help of every verb: exit 0, on standard output, an example, every option with its default,
# wrapped.
. "$(dirname "$0")/lib.sh"

verbs="pretrain finetune predict evaluate answer show tokenize features embed inspect convert compare init verify bench
    doctor fetch prepare pack vocab"
for verb in $verbs; do
    for words in "$verb --help" "$verb -h" "help $verb" "$verb squad --nonsense --help"; do
        run $words
        expect_code 0
        expect_out "berth $verb"
        expect_out example
        expect_out "--quiet"
        expect_empty "$err"
        expect_no "$out" "$escape"
    done
done

COLUMNS=200 run finetune squad --help
for default in '[384, in classification' '[128]' '[64]' '[20]' '[30]' '[3e-05]' '[2]' '[0.1]' '[0.01]' '[1]' '[42]' '[32]' \
    'linear' 'bf16 where the device'; do
    expect_out "$default"
done
for option in max_seq_length doc_stride max_query_length n_best_size max_answer_length \
    train_batch_size gradient_accumulation_steps learning_rate num_train_epochs warmup_proportion \
    weight_decay max_grad_norm seed max_steps save_steps save_total_limit logging_steps \
    resume_from_checkpoint train_file validation_file output_dir model_name_or_path --train --dev \
    --output --model bert_model init_checkpoint model_file vocab_file deepspeed_config; do
    expect_out "$option"
done

# Narrow terminals: no line of prose or options is wider (examples are to be copied, so they are).
for verb in $verbs; do
    COLUMNS=60 run "$verb" --help
    wide=$(sed '/^example/,/^options/d' "$out" | awk 'length($0) > 60' | head -n 1)
    [ -z "$wide" ] || fail "wider than 60 columns: $wide"
done

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
run --version
expect_code 0
expect_out "berth 0."
run help nonsense
expect_code 2

# Colours: on a terminal and when forced, never with NO_COLOR or on a dumb terminal.
what="help on a terminal"
err=/dev/null
"$ON_TERMINAL" 70 "$BERTH" answer --help >"$out"
expect_out "$escape"
NO_COLOR=1 "$ON_TERMINAL" 70 "$BERTH" answer --help >"$out"
expect_no "$out" "$escape"
TERM=dumb "$ON_TERMINAL" 70 "$BERTH" answer --help >"$out"
expect_no "$out" "$escape"
"$ON_TERMINAL" 70 "$BERTH" --no-color answer --help >"$out"
expect_no "$out" "$escape"
FORCE_COLOR=1 "$BERTH" answer --help >"$out"
expect_out "$escape"
FORCE_COLOR=1 NO_COLOR=1 "$BERTH" answer --help >"$out"
expect_no "$out" "$escape"
finish
