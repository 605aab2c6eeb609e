#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Habana's and Voyager's scripts: bertPrep's actions, packing, pre-training without a vocabulary, fine-tuning, and a
# checkpoint that lies alone.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
make_model bert-large-uncased
mkdir data bare
cp bert-large-uncased/vocab.txt bare-vocab.txt
cp "$work/config.json" bare/bert_config.json
make_dataset data/train-v1.1.json
make_dataset data/dev-v1.1.json
for article in 1 2 3 4 5 6 7 8; do
    printf 'ada lived in oslo %s. hugo lived in riga. olga lived in bern. where did rita live? in rome.\n\n' "$article"
done >text.txt
run prepare --text text.txt --vocab bare-vocab.txt --output prepared --max_seq_length 128 \
    --max_predictions_per_seq 20 --shards 2 --test_shards 1 --dupe_factor 2
expect_code 0
input_dir=$(dirname "$(find prepared -name '*training_0.hdf5')")

# --- bertPrep.py, create_pretraining_data.py, pack_pretraining_data_pytorch.py ------------------------

same_data() { # FOLDER FOLDER: the files of instances
    local file
    for file in "$1"/*.hdf5; do
        cmp -s "$file" "$2/${file##*/}" || fail "$file differs from that in $2"
    done
}
prep() { # WORDS...
    original env BERT_PREP_WORKING_DIR="$PWD/workspace" berth as bertPrep.py "$@"
}
shape="--max_seq_length 128 --max_predictions_per_seq 20 --vocab_file bare-vocab.txt --do_lower_case 1"
mkdir -p workspace/download/wikicorpus_en
export BERT_PREP_WORKING_DIR=workspace
run as bertPrep.py --action download --dataset wikicorpus_en
expect_code 66
expect_err "berth fetch https://dumps.wikimedia.org"
run as bertPrep.py --action text_formatting --dataset wikicorpus_en
expect_code 66
make_dump | bzip2 >workspace/download/wikicorpus_en/enwiki-latest-pages-articles.xml.bz2
prep --action download --dataset wikicorpus_en
refuse_prep() { # STATUS MESSAGE WORDS...
    local status=$1 message=$2
    shift 2
    run as bertPrep.py "$@"
    expect_code "$status"
    expect_err "$message"
    expect_no "$err" "nothing of it"
}
dump=workspace/download/wikicorpus_en/enwiki-latest-pages-articles.xml.bz2
refuse_prep 66 "--action text_formatting makes it of $dump" --action sharding --dataset wikicorpus_en
refuse_prep 66 "workspace/download/bookscorpus: no such folder; the files of bookscorpus" --action sharding --dataset bookscorpus
refuse_prep 66 "squad: no text to prepare; \`berth fetch squad\`" --action sharding --dataset squad
refuse_prep 2 "input_files: file 2 of the list has no name" --action sharding --dataset bookscorpus --input_files text.txt,,text.txt
prep --action text_formatting --dataset wikicorpus_en --skip_wikiextractor 0
expect_file workspace/extracted/wikicorpus_en/AA/wiki_00
# All articles in one file, each on a line that an empty line follows.
formatted=workspace/formatted_one_article_per_line/wikicorpus_en_one_article_per_line.txt
expect_file $formatted
[ "$(awk 'NR % 2 && length > 500' $formatted | wc -l)" -eq 60 ] || fail "not an article on each line"
[ "$(awk 'NR % 2 == 0 && length' $formatted | wc -l)" -eq 0 ] || fail "no empty lines between them"
run as --print_command bertPrep.py --action sharding --dataset wikicorpus_en
expect_out "--text $formatted"
# Without the dump, of what WikiExtractor has made; a book on each line of another file.
mkdir -p rest/download/bookscorpus && cp -r workspace/extracted rest
printf 'one line\r\n\n  another line \n' >rest/download/bookscorpus/first.txt
printf 'second book' >rest/download/bookscorpus/second.txt
BERT_PREP_WORKING_DIR=rest original berth as bertPrep.py --action text_formatting --dataset books_wiki_en_corpus \
    --skip_wikiextractor 1
cmp -s rest/${formatted#*/} $formatted || fail "other articles"
printf 'one line   another line\n\nsecond book\n\n' |
    cmp -s - rest/formatted_one_article_per_line/bookscorpus_one_book_per_line.txt || fail "not a book on each line"
BERT_PREP_WORKING_DIR=rest run as --print_command bertPrep.py --action sharding --dataset books_wiki_en_corpus
expect_out "--text rest/${formatted#*/}"
expect_out "rest/formatted_one_article_per_line/bookscorpus_one_book_per_line.txt"
refuse_prep 66 "workspace/download/bookscorpus: no such folder" --action sharding --dataset books_wiki_en_corpus
prep --action sharding --dataset wikicorpus_en --n_training_shards 2 --n_test_shards 1 --fraction_test_set 0.1 \
    --segmentation_method nltk --n_processes 2
sharded=workspace/sharded_training_shards_2_test_shards_1_fraction_0.1/wikicorpus_en
expect_file $sharded/wikicorpus_en_training_{0,1}.txt $sharded/wikicorpus_en_test_0.txt
prep --action create_hdf5_files --dataset wikicorpus_en --n_training_shards 2 --n_test_shards 1 $shape
made=workspace/hdf5_lower_case_1_seq_len_128_max_pred_20_masked_lm_prob_0.15_random_seed_12345_dupe_factor_5/wikicorpus_en
expect_file $made/wikicorpus_en_training_{0,1}.hdf5
# The same as in one command of Berth's.
run prepare --wikipedia workspace/download/wikicorpus_en/enwiki-latest-pages-articles.xml.bz2 --output one --shards 2 \
    --test_shards 1 $shape
expect_code 0
same_data "$made" "one/${made#workspace/}"
# Articles that bertPrep has formatted, in a folder whose name has a comma.
mkdir -p "work,space/formatted_one_article_per_line"
cp text.txt "work,space/formatted_one_article_per_line/wikicorpus_en_one_article_per_line.txt"
BERT_PREP_WORKING_DIR=work,space run as bertPrep.py --action sharding --dataset wikicorpus_en --n_training_shards 2 \
    --n_test_shards 1
expect_code 0
expect_file work,space/sharded_training_shards_2_test_shards_1_fraction_0.1/wikicorpus_en/wikicorpus_en_training_0.txt
# The default length is the second phase's. Shards of another program have no manifest, and are not touched.
mkdir -p other/sharded_training_shards_2_test_shards_1_fraction_0.1
cp -r $sharded other/sharded_training_shards_2_test_shards_1_fraction_0.1/
rm other/sharded_*/wikicorpus_en/shards.json
BERT_PREP_WORKING_DIR=other run as bertPrep.py --action create_hdf5_files --dataset wikicorpus_en --n_training_shards 2 \
    --n_test_shards 1 --vocab_file bare-vocab.txt
expect_code 0
ls -d other/hdf5_lower_case_1_seq_len_512_* >/dev/null || fail "not 512 tokens"
BERT_PREP_WORKING_DIR=other run as bertPrep.py --action create_hdf5_files --dataset wikicorpus_en --n_training_shards 2 \
    --n_test_shards 1 $shape
expect_code 0
same_data "other/${made#workspace/}" "$made"
[ "$(find other/sharded_* -type f | wc -l)" -eq 3 ] || fail "the shards' folder was changed"
# Other shards in the same place are other settings.
echo 'one more sentence.' >>other/sharded_*/wikicorpus_en/wikicorpus_en_test_0.txt
BERT_PREP_WORKING_DIR=other run as bertPrep.py --action create_hdf5_files --dataset wikicorpus_en --n_training_shards 2 \
    --n_test_shards 1 $shape
expect_code 78
# Text files by name, under the name of the data set.
BERT_PREP_WORKING_DIR=files run as bertPrep.py --action sharding --dataset bookscorpus --input_files text.txt,text.txt \
    --n_training_shards 1 --n_test_shards 1
expect_code 0
expect_file files/sharded_*/bookscorpus/bookscorpus_training_0.txt
for wrong in "--action sharding" "--dataset wikicorpus_en" "--action none --dataset wikicorpus_en" \
    "--action sharding --dataset none"; do
    run as bertPrep.py $wrong
    expect_code 2
done
run prepare --input_file text.txt --output_dir none
expect_code 2
unset BERT_PREP_WORKING_DIR
# One file of sentences: that of the shard, with the same settings.
original berth as habana/create_pretraining_data.py --input_file=$sharded/wikicorpus_en_training_1.txt \
    --output_file=single.hdf5 --masked_lm_prob=0.15 --random_seed=12345 --dupe_factor=5 $shape
cmp -s single.hdf5 $made/wikicorpus_en_training_1.hdf5 || fail "not the shard's instances"
run prepare --input_file $sharded --output_file whole.hdf5 $shape
expect_code 0
run inspect whole.hdf5
expect_code 0
: >empty.txt
run prepare --input_file empty.txt --output_file none.hdf5 $shape
expect_code 65
[ ! -e none.hdf5 ] || fail "a file without instances"
original berth as pack_pretraining_data_pytorch.py --input_dir=$made --output_dir=packed --max_sequence_length=128 \
    --max_predictions_per_sequence=20 --max_sequences_per_pack=3 --seed=42 --train_batch_size=8 --disable_progress_bar
expect_err "--train_batch_size is not needed"
expect_file packed/mixed_strategies_part_0.hdf5 packed_metadata.json
run pack --seed 42 "$made" packed-again
expect_code 0
same_data packed packed-again
run as pack_pretraining_data_pytorch.py --input_dir=$made --output_dir=long --max_sequence_length=512
expect_code 78

# --- run_pretraining.py -----------------------------------------------------------------------------

pretraining_line() { # OUTPUT, WORDS...
    local output_dir=$1
    shift
    original ${before:-} berth as ${own:-} habana/run_pretraining.py --do_train --bert_model=bert-large-uncased --autocast \
        --config_file=bare/bert_config.json --use_habana --allreduce_post_accumulation \
        --allreduce_post_accumulation_fp16 --json-summary="$output_dir/dllog/dllogger.json" \
        --output_dir="$output_dir/checkpoints" --use_fused_lamb --input_dir="$input_dir" --train_batch_size=8 \
        --max_seq_length=128 --max_predictions_per_seq=20 --max_steps=10 --num_steps_per_checkpoint=5 \
        --gradient_accumulation_steps=2 --enable_packed_data_mode False "$@"
}
pretraining_line results --warmup_proportion=0.2843 --learning_rate=0.006
expect_err "the result will have no vocabulary"
expect_file results/dllog/dllogger.json results/checkpoints/model.safetensors
expect_file results/checkpoints/{checkpoint-5,checkpoint-10}/model.safetensors results/checkpoints/ckpt_{5,10}.pt
expect_line '^  validation_file +none$'
[ ! -e results/checkpoints/eval_results.json ] || fail "an evaluation unasked"
[ ! -e results/checkpoints/vocab.txt ] || fail "a vocabulary from nowhere"
grep -q '"average_perf_per_step"' results/dllog/dllogger.json || fail "no dllogger's keys"
pretraining_line results --warmup_proportion=0.128 --learning_rate=0.004 --resume_from_checkpoint --phase1_end_step=10 \
    --phase2
expect_file results/checkpoints/checkpoint-20/model.safetensors results/checkpoints/ckpt_{5,10,15,20}.pt
# Names count the first phase, too; lines count the updates of the second one, as the program's do.
expect_line 'Training Iteration: 5  checkpoint_step : 5 '
grep -q '"step":\[0,1\],"data":{"average_loss"' results/dllog/dllogger.json || fail "the second phase does not begin at 1"
grep -q '"step":\[[0-9]*,1[1-9]\]' results/dllog/dllogger.json && fail "updates of both phases are counted"
# A batch is that of a process.
for processes in 1 2 8; do
    own=--dry_run before="launch $processes" pretraining_line "batch-$processes" --warmup_proportion=0.2843 --learning_rate=0.006
    command -v mpirun.openmpi >/dev/null || continue
    expect_line "^  sequences_per_update +$processes process(es)? x 8 = $((8 * processes))\$"
    setting train_batch_size $((8 * processes))
    expect_line 'batch_size_per_pu : 4 '
done
pretraining_line unsaved --warmup_proportion=0.2843 --learning_rate=0.006 --skip_checkpoint
[ -z "$(ls unsaved/checkpoints | grep ckpt_)" ] || fail "a checkpoint that is to be skipped"
# --use_zero_optimizer divides the optimizer's state.
pretraining_line zero --warmup_proportion=0.2843 --learning_rate=0.006 --use_zero_optimizer True
expect_err "zero_stage has no effect in one process"
expect_no "$err" "zero_stage 3 works only in one process"
own=--zero_stage=3 pretraining_line scalars --warmup_proportion=0.2843 --learning_rate=0.006 --enable-tensorboard-logging \
    --use_torch_compile --no_compiled_autograd --log_memory_usage True --tensorboard_logdir= --steps_this_run 1
expect_err "zero_stage 3 works only in one process"
expect_file scalars/checkpoints/runs/events.out.tfevents.*
# The same numbers as with a vocabulary.
own=--vocab_file=bare-vocab.txt pretraining_line known --warmup_proportion=0.2843 --learning_rate=0.006
cmp -s known/checkpoints/vocab.txt bare-vocab.txt || fail "not the vocabulary given"
cmp -s known/checkpoints/checkpoint-10/model.safetensors results/checkpoints/checkpoint-10/model.safetensors ||
    fail "other weights without a vocabulary"

# h5py reads the shards, and the same instances in files of h5py train the same model.
if python=$(command -v "${BERTH_PYTHON:-python3}") && "$python" -c 'import h5py' 2>/dev/null; then
    what="h5py"
    for folder in "$input_dir" packed; do
        "$python" -B "$here/../../dev/others" hdf5 --data "$folder" >"$out" 2>"$err" || fail "$folder: another layout"
    done
    "$python" -B "$here/nvidia_shards.py" "$input_dir" h5py >"$out" 2>"$err" || fail "not as h5py has them"
    for folder in h5py/compressed h5py/plain; do
        original berth pretrain --config_file bare/bert_config.json --input_dir $folder --output_dir trained/$folder \
            --train_batch_size 8 --max_steps 3
        original berth pretrain --config_file bare/bert_config.json --input_dir "$input_dir" --output_dir trained/own \
            --train_batch_size 8 --max_steps 3 --overwrite_output_dir
        cmp -s trained/$folder/model.safetensors trained/own/model.safetensors || fail "another model from $folder"
    done
    original berth pretrain --config_file bare/bert_config.json --input_dir h5py/single.hdf5 --output_dir trained/single \
        --train_batch_size 8 --max_steps 1
    original berth pack h5py/compressed packed-theirs --max_seq_length 128
else
    echo "skipped: h5py's files; ${BERTH_PYTHON:-python3} has no h5py"
fi

# --- a checkpoint that lies alone, in every verb ----------------------------------------------------

"$BERTH" convert results/checkpoints/checkpoint-20 converted --to nvidia --step 20 --quiet && mkdir checkpoints
mv converted/ckpt_20.pt checkpoints/
words="--vocab_file bare-vocab.txt"
lone="checkpoints/ckpt_20.pt --config_file bare/bert_config.json"
original berth predict squad --model $lone --allow_new_head $words --predict_file data/dev-v1.1.json --output_dir answers
expect_file answers/predictions.json
original berth answer --model $lone --allow_new_head $words --question "Who lived in Oslo?" --context "Ada lived in Oslo."
original berth show squad --model $lone --allow_new_head $words --input data/dev-v1.1.json --num-test-samples 2
echo "Ada lived in Oslo." >text
original berth embed --model $lone $words text --output text.npy
printf 'Ada lived in Oslo.\t1\nHugo lived in Riga.\t0\n' | sed '1i text\tlabel' >pairs.tsv
original berth finetune classify --model $lone $words --train pairs.tsv --text_column text --label_column label \
    --output_dir classes --max_steps 1
original berth predict classify --model $lone --allow_new_head $words --input pairs.tsv --text_column text --output_dir labels
original berth pretrain --model $lone --input_dir "$input_dir" --output_dir again --max_steps 1
original berth pretrain --resume_from_checkpoint $lone --input_dir "$input_dir" --output_dir resumed --max_steps 21
original berth evaluate pretrain --model $lone --input_dir "$input_dir" --output_dir scores
original berth convert $lone $words folder
original berth compare folder results/checkpoints
expect_out " 0 differ"
original berth inspect checkpoints/ckpt_20.pt

# --- ckpt_N.pt ----------------------------------------------------------------------------------------

# A phase in a folder of its own, so that the names of its files are the same: FOLDER, options of Berth's own...
phase_in() {
    local folder=$1 own
    shift
    own="--save_format=nvidia $*"
    mkdir -p "$folder"
    cd "$folder" && ln -sfn ../prepared . && ln -sfn ../odd bare || exit 1
    pretraining_line results --warmup_proportion=0.2843 --learning_rate=0.006 --num_steps_per_checkpoint=2
    cd ..
}
same_result() { # FOLDER FOLDER: numbers and history, which names the file it was resumed from
    local file
    for file in model.safetensors checkpoint-10/optimizer.safetensors; do
        cmp -s "$1/results/checkpoints/$file" "$2/results/checkpoints/$file" || fail "$file differs"
    done
    diff <(grep -v resume_from_checkpoint "$1/results/checkpoints/trainer_state.json") \
        <(grep -v resume_from_checkpoint "$2/results/checkpoints/trainer_state.json") >/dev/null || fail "another history"
}
mkdir odd && sed 's/"vocab_size": 128/"vocab_size": 91/' bare/bert_config.json >odd/bert_config.json
phase_in phase
saved=phase/results/checkpoints
expect_file $saved/bert_config.json $saved/ckpt_6.pt $saved/ckpt_8.pt $saved/ckpt_10.pt
[ "$(find $saved -name 'ckpt_*' | wc -l)" -eq 3 ] || fail "not the three newest"
run inspect $saved/ckpt_6.pt
expect_out "cls.predictions.decoder.weight"
expect_out "[96, 32]"
mkdir moved && cp $saved/ckpt_6.pt moved
phase_in resumed --resume_from_checkpoint=../moved/ckpt_6.pt
expect_err "resumed from ../moved/ckpt_6.pt"
same_result phase resumed
# The output folder has nothing else.
mkdir -p newest/results/checkpoints && cp $saved/ckpt_6.pt newest/results/checkpoints
phase_in newest --resume_from_checkpoint=auto
same_result phase newest
# Of several processes the first one writes them, beside the updates.
mkdir shared && cd shared && ln -s ../bare ../prepared . && mkdir one several || exit 1
launch 2 berth pretrain --config_file bare/bert_config.json --input_dir "${input_dir}" --output_dir several --max_steps 2 \
    --train_batch_size 8 --virtual_ranks 2 --zero_stage 2 --async_save --save_steps 1 --save_format nvidia --quiet ||
    fail "several processes"
berth pretrain --config_file bare/bert_config.json --input_dir "${input_dir}" --output_dir one --max_steps 2 \
    --train_batch_size 16 --virtual_ranks 2 --resume_from_checkpoint several/ckpt_1.pt --quiet 2>"$err" && fail "another run"
expect_err "several/ckpt_1.pt: train_batch_size was 8"
berth pretrain --config_file bare/bert_config.json --input_dir "${input_dir}" --output_dir one --max_steps 2 \
    --train_batch_size 8 --virtual_ranks 2 --resume_from_checkpoint several/ckpt_1.pt --quiet || fail "not resumed"
cmp -s one/model.safetensors several/model.safetensors || fail "not the model of two processes"
cd ..
# The second phase has files of its own, and leaves those of the first alone.
cp -r phase second
cd second && own=--save_format=nvidia pretraining_line results --warmup_proportion=0.128 --learning_rate=0.004 \
    --resume_from_checkpoint --phase1_end_step=10 --phase2 --num_steps_per_checkpoint=2
cd ..
for step in 6 8 10 16 18 20; do
    expect_file second/results/checkpoints/ckpt_$step.pt
done
[ ! -e second/results/checkpoints/ckpt_14.pt ] || fail "more than three of the second phase"
if python=$(command -v "${BERTH_PYTHON:-python3}") && "$python" -c 'import torch' 2>/dev/null; then
    what="torch and NVIDIA's rules"
    "$python" "$here/nvidia_checkpoint.py" $saved/ckpt_6.pt theirs >"$out" 2>"$err" || fail "not NVIDIA's"
    for file in theirs/{new,old,single}/ckpt_6.pt; do
        rm -rf from-theirs && phase_in from-theirs "--resume_from_checkpoint=../$file"
        expect_err "with its weights and the optimizer's moments"
        cmp -s from-theirs/results/checkpoints/model.safetensors $saved/model.safetensors || fail "other numbers from $file"
    done
    rm -rf from-theirs && phase_in from-theirs --resume_from_checkpoint=../theirs/other/ckpt_6.pt
    expect_err "because its parameters are numbered in an unknown way"
    rm -rf from-theirs && phase_in from-theirs --resume_from_checkpoint=../theirs/none/ckpt_6.pt
    expect_err "which it does not have"
else
    echo "skipped: torch's files; ${BERTH_PYTHON:-python3} has no torch"
fi
own="--save_format=nvidia --resume_from_checkpoint=$saved/ckpt_10.pt --config_file=odd/bert_config.json" \
    pretraining_line moved-on --warmup_proportion=0.128 --learning_rate=0.004 --phase1_end_step=10 --phase2
expect_err "second phase, after 10 updates of the first"
expect_file moved-on/checkpoints/ckpt_20.pt

# --- run_squad.py -----------------------------------------------------------------------------------

original berth as habana/run_squad.py --do_train --bert_model=bert-large-uncased \
    --config_file=bare/bert_config.json --use_habana --use_fused_adam --do_lower_case --output_dir=results/squad \
    --json-summary=results/squad/log_directory/dllogger.json --train_batch_size=4 --predict_batch_size=8 --seed=1 \
    --max_query_length=64 --learning_rate=3e-5 --num_train_epochs=2.0 --max_steps=-1 --max_seq_length=384 --doc_stride=128 \
    --init_checkpoint=checkpoints/ckpt_20.pt --vocab_file=bare-vocab.txt --train_file=data/train-v1.1.json --skip_cache \
    --do_predict --predict_file=data/dev-v1.1.json --do_eval --eval_script=evaluate-v1.1.py --log_freq 20
expect_file results/squad/log_directory/dllogger.json results/squad/{predictions.json,pytorch_model.bin,bert_config.json}
[ "$(grep -c '"F1":' results/squad/log_directory/dllogger.json)" -eq 2 ] || fail "not scored once, and in the summary"
run compare results/squad/pytorch_model.bin results/squad
expect_out " 0 differ"
# Without --do_train it predicts into the same folder.
rm results/squad/predictions.json
original berth as habana/run_squad.py --bert_model=bert-large-uncased --config_file=bare/bert_config.json --use_habana --do_predict \
    --init_checkpoint=results/squad/pytorch_model.bin --do_lower_case --vocab_file=bare-vocab.txt \
    --predict_file=data/dev-v1.1.json --output_dir=results/squad --use_torch_compile --compiled_autograd --log_memory_usage True --tensorboard_logdir= \
    --train_file=data/train-v1.1.json --json-summary=results/inference.json
expect_file results/squad/predictions.json
grep -q '^DLLL .*"inference_sequences_per_second".*"e2e_inference_time"' results/inference.json ||
    fail "not dllogger's lines: $(tail -n 1 results/inference.json)"

# --- the page about them ----------------------------------------------------------------------------

mkdir -p page/workspace/download && cp -r data page && cp bare-vocab.txt page/vocab.txt && cp bare/bert_config.json page
cp -r workspace/download/wikicorpus_en page/workspace/download
cd page || exit 1
take_section "Habana, Voyager and NVIDIA"
run_commands_of "$page" 5
expect_file squad/{predictions.json,pytorch_model.bin} phases/checkpoint-2/model.safetensors
# The native commands are what is printed, but for names.
joined() {
    sed -e ':more' -e '/\\$/N; s/ *\\\n */ /; tmore' | grep '^berth' | sed 's/ [^ ]*xml[^ ]*/ DUMP/; s/ [^ ]*hdf5_lower[^ ]*/ DIR/'
}
what="the native commands of the page"
commands_of "$page" | sed 's/berth as/berth as --print_command/; s/\$PWD\///' >printing.sh
bash printing.sh 2>"$err" | joined >printed
joined <"$native" >shown
[ "$(wc -l <shown)" -eq 6 ] || fail "not six commands"
diff shown printed >"$out" || fail "other commands"
finish
