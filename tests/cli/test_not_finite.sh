#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every command that computes with a model whose weights are not finite ends with an error, and leaves no scores and
# no predictions. (A comparison with NaN is false, so scores would be those of some class, or 100 %.)
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 1
make_model model 64
sed -i 's/"type_vocab_size": 2/"type_vocab_size": 1/' config.json
run init --config config.json --output single --seed 7 --quiet
expect_code 0
make_vocabulary >single/vocab.txt
printf '%s\t%s\t%s\n' text other label 'ada lived in oslo' riga north 'hugo lived in rome' bern south \
    'olga in riga' rome north >rows.tsv
printf 'ada\tB-PER\nlived\tO\nin\tO\noslo\tB-LOC\n\nwho\tO\nlived\tO\n' >words.txt
for line in 1 2 3 4 5 6; do echo "ada lived in oslo and hugo lived in rome $line"; done >text.txt
make_dataset squad.json

few="--max_steps 1 --warmup_proportion 0 --precision fp32 --threads 1"
columns="--text-column text --label-column label"
run finetune classify --model model --train rows.tsv $columns --output classes $few
expect_code 0
run finetune tokens --model model --train words.txt --output tags $few
expect_code 0
run finetune squad --model model --train squad.json --output answers $few
expect_code 0
run pretrain --objective mlm --model model --train text.txt --dev text.txt --line_by_line --max_seq_length 32 --output masked \
    $few
expect_code 0

# The number is the key of one head, so that outputs and not all weights are NaN, or of a word.
key=bert.encoder.layer.0.attention.self.key.bias
for folder in classes tags answers masked; do
    cp -r $folder $folder-nan
    set_number $folder-nan/model.safetensors $key nan
done
refuses() { # OUTPUT FILE: the last command
    expect_code 1
    expect_err "is not a finite number; the model's weights are damaged or its training diverged"
    expect_err "$2"
    [ -z "$(find "$1" -type f ! -name .lock 2>/dev/null)" ] || fail "something was written: $(ls -A "$1")"
}
run predict classify --model classes-nan --input rows.tsv --text-column text --output o1
refuses o1 "rows.tsv: sequence"
run predict classify --model classes-nan --input rows.tsv $columns --output o2
refuses o2 "output 1 of 2"
run predict classify --do_eval --model classes-nan --dev rows.tsv $columns --output o3
refuses o3 rows.tsv
run predict tokens --model tags-nan --input words.txt --output o4
refuses o4 "words.txt: sequence"
run predict squad --model answers-nan --input squad.json --output o5
refuses o5 'question "q1": the start logit of token 0'
run evaluate pretrain --objective mlm --model masked-nan --dev text.txt --line_by_line --max_seq_length 32 --output o6
refuses o6 " of 6: the loss of masked token 1 of"
# One word's row: the sequences without it have scores, which are not those of the set.
cp -r tags tags-word
word=$(($(sed -n '/^who$/=' tags-word/vocab.txt) - 1))
set_number tags-word/model.safetensors bert.embeddings.word_embeddings.weight nan $((word * 32)) || fail "a word's row"
run predict tokens --model tags-word --input words.txt --output o7
refuses o7 "words.txt: sequence 2 of 2"
make_corpus model/vocab.txt
run evaluate pretrain --model masked-nan --eval_dir "$shards" --output o8 --allow_new_head
refuses o8 "$shards"
printf 'ada\nwho lived\n' >texts.txt
run embed --model tags-word --output o9.jsonl texts.txt
expect_code 1
expect_err "text 2: number 1 of 32 of the result is not finite (nan)"
[ ! -e o9.jsonl ] || fail "embeddings were written"

# --- one token type ------------------------------------------------------------------------------

# A classifier without types for second texts takes single ones.
run finetune classify --model single --train rows.tsv $columns --output alone $few
expect_code 0
run predict classify --model alone --input rows.tsv --text-column text --output alone-said
expect_code 0
run finetune tokens --model single --train words.txt --output alone-tags $few
expect_code 0
run predict classify --model alone --input rows.tsv --text-column text --text-pair-column other --output pairs
expect_code 78
expect_err "rows.tsv: column other has second texts, but with type_vocab_size 1 the model cannot distinguish them from the first"
expect_err "or text_column without text_pair_column"
run finetune squad --model single --train squad.json --output pairs $few
expect_code 78
expect_err "single: type_vocab_size 1: the model cannot distinguish the second text of a pair, which"
[ ! -e pairs ] || fail "something was written"
finish
