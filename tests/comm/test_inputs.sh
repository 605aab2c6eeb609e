#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Processes that read other data, another model or another checkpoint than the first one are refused before the first
# update or batch, with one message that names rank, host and what differs. Other paths of the same files, other threads
# and independent workers are not. The MPIs take turns.
. "$(dirname "$0")/../cli/lib.sh"
. "$(dirname "$0")/launch.sh"

mpis=($(find_mpis))
[ ${#mpis[@]} -gt 0 ] || { echo "skipped: no mpirun or mpiexec of an MPI that a module was built for"; exit 77; }
cd "$work" || exit 1
make_model model
make_questions data.json 40
turn=0
next_mpi() {
    mpi=${mpis[turn++ % ${#mpis[@]}]}
}
# The second process also has OTHERS: it is refused, because WHAT is OWN there and FIRST in the first process.
refuses() { # WHAT OWN FIRST WORDS... -- OTHERS...
    local what_differs=$1 own=$2 first=$3
    shift 3
    next_mpi
    unlike "$mpi" "$@"
    expect_code 65
    once "rank 1 on host $(hostname): $what_differs"
    grep -qE -- "\) is $own, but $first on rank 0 \(host $(hostname), .*\): it must be the same" "$err" ||
        fail "not \"is $own, but $first on rank 0\""
    [ ! -e none ] || fail "something was written"
    rm -rf none
}
sum=[0-9a-f]{16} # a checksum

# --- data ----------------------------------------------------------------------------------------

short="--max_seq_length 64 --doc_stride 16 --max_query_length 16 --threads 1"
squad="finetune squad --model model --train data.json $short --max_steps 2 --train_batch_size 8 --output none"
make_questions fewer.json 39
refuses "the number of training sequences (fewer.json)" "[0-9]+" "[0-9]+" $squad -- --train fewer.json
# One answer begins a word later, one word is another one.
python3 - <<'END'
import json
questions = json.load(open("data.json"))
paragraph = questions["data"][0]["paragraphs"][5]
answer = paragraph["qas"][0]["answers"][0]
words = paragraph["context"].split()
answer["text"] = words[words.index(answer["text"]) + 1]
answer["answer_start"] = paragraph["context"].index(answer["text"])
json.dump(questions, open("moved.json", "w"))
questions = json.load(open("data.json"))
questions["data"][0]["paragraphs"][7]["qas"][0]["question"] = "what word is it"
json.dump(questions, open("reworded.json", "w"))
END
refuses "the checksum of the training sequences (moved.json)" "$sum" "$sum" $squad -- --train moved.json
refuses "the checksum of the evaluation sequences (reworded.json)" "$sum" "$sum" $squad --dev data.json \
    -- --dev reworded.json
refuses "the checksum of the evaluation sequences (reworded.json)" "$sum" "$sum" predict squad --model model \
    --input data.json $short --output none -- --input reworded.json
python3 - <<'END'
import random
random.seed(3)
word = lambda: "".join(random.choice("abcdefgh") for _ in range(random.randint(1, 9)))
text = lambda: " ".join(word() for _ in range(random.randint(1, 25)))
rows = [(text(), random.choice(["good", "bad"])) for _ in range(60)]
def write(name):
    with open(name, "w") as table:
        table.write("text,label\n")
        table.writelines(f"{one},{label}\n" for one, label in rows)
write("table.csv")
rows[30] = (rows[30][0], "good" if rows[30][1] == "bad" else "bad")
write("labelled.csv")
articles = ["\n".join(f"{text()}." for _ in range(6)) + "\n\n" for _ in range(40)]
open("articles", "w").writelines(articles)
open("others", "w").writelines(articles[:20] + articles[21:])
END
refuses "the checksum of the training sequences (labelled.csv)" "$sum" "$sum" finetune classify --model model \
    --train table.csv --text-column text --label-column label --max_steps 2 --threads 1 --output none \
    -- --train labelled.csv
refuses "the number of training sequences (others)" "[0-9]+" "[0-9]+" pretrain --objective mlm --model model \
    --train_file articles --max_seq_length 32 --max_steps 2 --threads 1 --output none -- --train_file others

# Shards: their names, sizes and headers.
for name in articles others; do
    run prepare --text $name --vocab model/vocab.txt --output made-$name --max_seq_length 32 \
        --max_predictions_per_seq 4 --shards 3 --test_shards 1 --dupe_factor 2
    expect_code 0
    ln -s "$(dirname "$(find made-$name -name '*training_0.hdf5')")" shards-$name
done
pretrain="pretrain --model model --input_dir shards-articles --max_steps 2 --train_batch_size 8 --threads 1 --output none"
cp -rL shards-articles fewer
rm "$(find fewer -name '*training_2.hdf5')"
refuses "the number of shards (fewer)" 2 3 $pretrain -- --input_dir fewer
cp -rL shards-articles renamed
mv "$(find renamed -name '*training_2.hdf5')" renamed/training_3.hdf5
refuses "the name of shard 3 (renamed)" "training_3.hdf5" ".*training_2.hdf5" $pretrain -- --input_dir renamed
refuses "the size of shard 1 (shards-others/" "[0-9]+ bytes with [0-9]+ sequences" "[0-9]+ bytes with [0-9]+ sequences" \
    $pretrain -- --input_dir shards-others

# --- the model -----------------------------------------------------------------------------------

# A copy of the model, in which COMMAND changes FILE.
change() { # NAME FILE COMMAND
    cp -r model "$1"
    sed -i "$3" "$1/$2"
    ! cmp -s "model/$2" "$1/$2" || fail "$2 is unchanged"
}
change dropout config.json 's/"hidden_dropout_prob": 0.1/"hidden_dropout_prob": 0.2/'
change attention config.json 's/"attention_probs_dropout_prob": 0.1/"attention_probs_dropout_prob": 0/'
change activation config.json 's/"hidden_act": "gelu"/"hidden_act": "relu"/'
change epsilon config.json 's/"layer_norm_eps": 1e-12/"layer_norm_eps": 1e-6/'
refuses "hidden_dropout_prob (dropout)" 0.2 0.1 $squad -- --model dropout
refuses "attention_probs_dropout_prob (attention)" 0.0 0.1 $squad -- --model attention
refuses "hidden_act (activation)" '"relu"' '"gelu"' $squad -- --model activation
refuses "layer_norm_eps (epsilon)" 1e-0?6 1e-12 $squad -- --model epsilon
refuses "hidden_act (activation)" '"relu"' '"gelu"' predict squad --model model --input data.json $short --output none \
    -- --model activation
refuses "layer_norm_eps (epsilon)" 1e-0?6 1e-12 embed --model model articles -- --model epsilon
# Words of the vocabulary that no text has; the tokenizer's rules.
change swapped vocab.txt 's/^hugo$/held/; s/^olga$/hugo/; s/^held$/olga/'
refuses "the checksum of the vocabulary (swapped/vocab.txt)" "$sum" "$sum" $squad -- --model swapped
refuses "the checksum of the vocabulary (swapped/vocab.txt)" "$sum" "$sum" embed --model model articles -- --model swapped
cp -r model cased
echo '{"tokenizer_class": "BertTokenizer", "do_lower_case": false}' >cased/tokenizer_config.json
refuses "the tokenizer's do_lower_case (cased/vocab.txt)" 0 1 $squad -- --model cased
# Another pooling of a model of embeddings.
for name in model cls; do
    cp -r model sentence-$name
    mkdir sentence-$name/1_Pooling
    cat >sentence-$name/modules.json <<'END'
[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
 {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
END
    mean=true cls=false
    [ $name = model ] || mean=false cls=true
    cat >sentence-$name/1_Pooling/config.json <<END
{"word_embedding_dimension": 32, "pooling_mode_cls_token": $cls, "pooling_mode_mean_tokens": $mean}
END
done
refuses "pooling (sentence-cls)" cls mean embed --model sentence-model articles -- --model sentence-cls

# --- a checkpoint --------------------------------------------------------------------------------

# Both processes name it alike, but in other folders.
for name in one two; do
    mkdir $name
    run finetune squad --model model --train data.json $short --max_steps 1 --train_batch_size 8 --save_steps 1 \
        --learning_rate $([ $name = one ] && echo 0 || echo 1e-30) --output $name/first
    expect_code 0
done
next_mpi
launch_program "$mpi" 2 bash -c 'rank=${OMPI_COMM_WORLD_RANK-$PMI_RANK}
    cd $([ "$rank" -eq 0 ] && echo one || echo two) && exec "$0" "$@"' "$BERTH" finetune squad --model "$work/model" \
    --train "$work/data.json" $short --max_steps 2 --train_batch_size 8 --learning_rate 0 \
    --resume_from_checkpoint first/checkpoint-1 --output "$work/none"
expect_code 65
once "rank 1 on host $(hostname): the checksum of the manifest (first/checkpoint-1)"

# --- what may differ -----------------------------------------------------------------------------

cp -r model same
cp data.json same.json
next_mpi
unlike "$mpi" $squad --dev data.json --output alike -- --model same --train same.json --dev same.json --threads 2
expect_code 0
next_mpi
unlike "$mpi" $squad --dev data.json --workers independent --output workers -- --train fewer.json --dev moved.json \
    --model dropout
expect_code 0
finish
