#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The commands of the pages for newcomers, as one reads them: in the order of doc/index.md, in one folder, each page on what
# the pages before it leave. The folder has what the README fetches (a model and SQuAD, here small ones) and, for
# doc/tasks.md and doc/masked-words.md, what they name as published files and models.
. "$(dirname "$0")/lib.sh"
mkdir -p "$work/reader/squad" "$work/reader/mrpc"
cd "$work/reader" || exit 1
make_model all-MiniLM-L6-v2
cp -r all-MiniLM-L6-v2 bert-base-uncased
printf "%s\n" valve pump >>bert-base-uncased/vocab.txt # words of doc/masked-words.md
make_dataset squad/train-v1.1.json
cp squad/train-v1.1.json squad/dev-v1.1.json
python3 - <<'END'
import json
data = json.load(open("squad/train-v1.1.json"))
questions = [question for article in data["data"] for paragraph in article["paragraphs"] for question in paragraph["qas"]]
for number, question in enumerate(questions):
    question["is_impossible"] = number % 2 == 1
    if question["is_impossible"]:
        question["answers"] = []
for split in "train", "dev":
    json.dump({**data, "version": "v2.0"}, open(f"squad/{split}-v2.0.json", "w"))
END
block "tsv mrpc dev" | tee mrpc/msr_paraphrase_train.txt >mrpc/msr_paraphrase_test.txt
make_glue

page() { # DOCUMENT, at least how many commands
    run_commands_of "$documents/$1" "$2"
    [ ! -s "$failures" ] || finish
}
page ../README.md 4
page tutorials.md 11
expect_out "EM"
[ -s mine/model.safetensors ] && [ -s mine.html ] && [ -s ranks/model.safetensors ] || fail "a file is missing"
page squad.md 13
page tasks.md 9
page tokens.md 6
page embeddings.md 12
page masked-words.md 5
[ -s notes-bert/model.safetensors ] && [ "$(wc -l <words.jsonl)" -eq 2 ] || fail "a file of masked words is missing"
finish
