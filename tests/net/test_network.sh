#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# No command except fetch uses the network: every other one works where the kernel kills any
# process that creates a socket, and finds a model in the hub's cache; fetch is killed. Every
# command that the program lists must be here.
. "$(dirname "$0")/../cli/lib.sh"
golden=$(cd "$(dirname "$0")/../golden" && pwd)
export HF_HOME=$work/home OMP_WAIT_POLICY=passive
unset HF_HUB_OFFLINE TRANSFORMERS_OFFLINE HF_DATASETS_OFFLINE HF_HUB_CACHE

"$WITHOUT_NETWORK" true
[ $? -ne 77 ] || { echo "no seccomp here: skipped"; exit 77; }

make_model "$work/model"
make_dataset "$work/data.json"
cd "$work" || exit 1
commit=00112233445566778899aabbccddeeff00112233
snapshot=$HF_HOME/hub/models--acme--tiny/snapshots/$commit
mkdir -p "$snapshot" "$HF_HOME/hub/models--acme--tiny/refs"
cp model/* "$snapshot/"
printf %s $commit >"$HF_HOME/hub/models--acme--tiny/refs/main"
"$BERTH" help >"$work/verbs" || fail "help"

tried=" fetch"
alone() { # VERB ...
    tried="$tried $1"
    what="berth $* (without network)"
    "$WITHOUT_NETWORK" "$BERTH" "$@" >"$out" 2>"$err" </dev/null
    code=$?
}

alone finetune squad --model acme/tiny --train data.json --dev data.json --output trained \
    --max_steps 1 --max_seq_length 64 --max_query_length 16 --doc_stride 16 --train_batch_size 4
expect_code 0
printf 'text\tlabel\nhello world\tgood\nada lived\tbad\n' >table.tsv
alone finetune classify --model acme/tiny --train table.tsv --dev table.tsv --output classifier \
    --text_column text --label_column label --max_steps 1
expect_code 0
alone predict squad --model trained --input data.json --output predicted --max_seq_length 64 \
    --max_query_length 16 --doc_stride 16
expect_code 0
alone evaluate squad data.json predicted/predictions.json
expect_code 0
alone as run_qa.py --model_name_or_path acme/tiny --train_file data.json --do_train --output_dir as --max_steps 1 \
    --max_seq_length 64
expect_code 0
alone answer --model acme/tiny --question "Where?" --context "Ada lived in Oslo."
expect_code 0
alone show squad --model acme/tiny --input data.json --num-test-samples 1
expect_code 0
echo "hello world" >text
alone tokenize --model acme/tiny text
expect_code 0
alone embed --model acme/tiny text
expect_code 0
alone features squad --model acme/tiny --input data.json --max_seq_length 64 --max_query_length 16 \
    --doc_stride 16
expect_code 0
alone inspect acme/tiny
expect_code 0
expect_out word_embeddings
alone convert acme/tiny converted --to hf
expect_code 0
alone compare acme/tiny converted
expect_code 0
alone verify acme/tiny
expect_code 66
alone report nowhere
expect_code 66
alone plot nowhere
expect_code 66
alone init --config tiny --output random
expect_code 0
alone bench peak
expect_code 0
alone doctor
expect_code 0
cat >dump.xml <<'END'
<mediawiki><siteinfo><base>https://x.org/wiki/Main</base></siteinfo>
<page><title>Bern</title><ns>0</ns><id>1</id><revision><text>Bern is the capital.</text></revision></page>
</mediawiki>
END
alone prepare --wikipedia dump.xml --stages text --output prepared
expect_code 0
alone vocab --text nowhere.txt --size 100 --output made.txt
expect_code 66
alone pack nowhere packed
expect_code 66
alone pretrain --input_dir nowhere --model acme/tiny --output pretrained
expect_code 66
alone fill --model acme/none --text "[MASK]"
expect_code 66
alone help
expect_code 0
alone man doctor
expect_code 0
alone completion bash
expect_code 0
tried="$tried serve" # answers on the network, which is what it is for

# An unknown name: no attempt to fetch it, but the command that would.
alone answer --model acme/none --question "Where?" --context "There."
expect_code 66
expect_err "berth fetch acme/none"

# The filter does kill.
what="fetch without network"
{ "$WITHOUT_NETWORK" "$BERTH" fetch http://127.0.0.1:9/x >"$out" 2>"$err"; } 2>/dev/null
[ $? -eq 159 ] || fail "fetch created a socket and survived"
HF_HUB_OFFLINE=1 "$WITHOUT_NETWORK" "$BERTH" fetch acme/tiny >"$out" 2>"$err"
code=$?
expect_code 0
expect_out "$snapshot"

for verb in classify hidden; do
    alone $verb --model "$golden/classifier" --text text
    expect_code 0
done
alone tag --model "$golden/tags" --text text
expect_code 0
alone rerank --model "$golden/classifier" --query text --document text
expect_code 2 # it has three classes, of which none is named

printf 'question,answer\nwho sleeps,a man sleeps\nwho runs,a man runs\n' >mined.csv
alone mine --model "$golden/encoder" --pairs mined.csv --output mined.jsonl
expect_code 0

# Every command that the program lists was tried.
what="the list of verbs"
for verb in $(sed -n 's/^  \([a-z]*\) .*/\1/p' "$work/verbs" | grep -vx berth | sort -u); do
    case "$tried " in
        *" $verb "*) ;;
        *) fail "verb $verb was not tried" ;;
    esac
done
finish
