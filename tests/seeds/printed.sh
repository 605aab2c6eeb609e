#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# For every program that `berth as` knows: what it runs, and the commands that it prints, leave the same bytes. And the
# door itself: which program a line means, options of Berth's own, scripts, what native verbs say about foreign flags.
. "$(dirname "$0")/lib.sh"
fill_cache
make_model model
"$BERTH" convert model google --to tensorflow --quiet || exit 1
cp "$work/config.json" bert_config.json
cp model/vocab.txt .
make_dataset data.json
make_mrpc MRPC
printf 'text,label\nada lived,1\nhugo lived,0\nolga lived,1\nrita lived,0\n' >table.csv
printf 'ada B\nlives O\n\nhugo B\nlives O\n\n' >tags.txt
printf 'ada lived in oslo.\nhugo lived in riga.\n%.0s' {1..8} >lines.txt
printf 'ada lived in oslo .\nhugo lived in riga .\nwhere did rita live ?\n\n%.0s' 1 2 3 4 >documents.txt
mkdir shards records
for shard in 0 1; do
    for name in shards/training_$shard.hdf5 records/training_$shard.tfrecord; do
        run prepare --input_file documents.txt --output_file $name --vocab vocab.txt --max_seq_length 128 --seed $shard
        expect_code 0
    done
done
echo '{"train_batch_size": 4, "steps_per_print": 1, "optimizer": {"type": "Adam", "params": {"lr": 3e-5}}}' >ds.json
sed 's/"vocab_size": 128/"vocab_size_or_config_json_file": 119547/' bert_config.json >geometry.json
echo "{\"bert_token_file\": \"model\", \"bert_model_config\": $(cat geometry.json), \"data\": {\"mixed_seq_datasets\":
 {\"128\": {\"pretrain_dataset\": \"shards\"}}}, \"mixed_seq_training\": {\"128\": {\"total_training_steps\": 2}}}" >exp.json
mkdir -p prep/download/wikicorpus_en
make_dump | bzip2 >prep/download/wikicorpus_en/wikicorpus_en.xml.bz2

small="--max_seq_length 64 --learning_rate 3e-5 --num_train_epochs 1 --train_batch_size 4"
squad="--do_train --do_predict --train_file data.json --predict_file data.json --output_dir out $small"
google="--bert_config_file google/bert_config.json --init_checkpoint google/bert_model.ckpt"
nvidia="--bert_model model --config_file bert_config.json --vocab_file vocab.txt --init_checkpoint model/model.safetensors
    --do_lower_case"
instances="--input_file=documents.txt --output_file=out/one.hdf5 --vocab_file=vocab.txt --max_seq_length=128"
tried=" deepspeed" # with each program of BingBertSquad, below
same() { # PROGRAM WORDS...
    tried+=" $1"
    # shellcheck disable=SC2086
    same_printed out berth as ${own:-} "$@"
}
export BERT_PREP_WORKING_DIR=out
own="--output_dir=out --date_output=false" same 3_squad_bert_deepspeed.py --deepspeed_config ds.json
own="--output_dir=out --date_output=false" same bert_squad_deepspeed.py --deepspeed_config ds.json
same nvidia_run_squad_deepspeed.py --bert_model model $squad --deepspeed --deepspeed_config ds.json --dropout 0.2 --fp16
same nvidia_run_squad_baseline.py --bert_model model $squad --job_name x
same_printed out berth as deepspeed --num_gpus 1 nvidia_run_squad_baseline.py --bert_model model $squad
same deepspeed_train.py --cf exp.json --max_seq_length 128 --output_dir out --deepspeed_config ds.json --max_steps 2
same google/run_squad.py $google --vocab_file vocab.txt $squad
same google/run_classifier.py $google --vocab_file vocab.txt --task_name MRPC --data_dir MRPC --do_train --do_eval --do_predict --output_dir out $small
same google/run_pretraining.py $google --input_file 'records/*' --do_train --do_eval --output_dir out --num_train_steps 2 \
    --num_warmup_steps 1 --max_seq_length 128 --train_batch_size 4
tried+=" google/create_pretraining_data.py habana/create_pretraining_data.py"
for system in google habana; do
    mkdir -p out && same_printed out/one.hdf5 berth as $system/create_pretraining_data.py $instances
done
same intel/run_squad.py $google --vocab_file vocab.txt $squad --precision float32 --accum_steps 2
same intel/run_classifier.py $google --vocab_file vocab.txt --task_name MRPC --data_dir MRPC --do_train --do_eval --output_dir out $small --intra_op 1
same intel/run_pretraining.py $google --input_file 'records/*' --do_train --output_dir out --num_train_steps 2 \
    --num_warmup_steps 1 --max_seq_length 128 --train_batch_size 4
same launch_benchmark.py --model-name bert --precision fp32 --batch-size 4 --checkpoint google --output-dir out -- \
    train_file=data.json predict_file=data.json num-train-epochs=1 max-seq-length=64
same nvidia/run_squad.py $nvidia $squad --fp16 --json-summary log.json
same nvidia/run_glue.py $nvidia --task_name mrpc --data_dir MRPC --do_train --do_eval --output_dir out $small
same nvidia/run_pretraining.py --input_dir shards --config_file bert_config.json --output_dir out --max_steps 2 \
    --train_batch_size 4 --gradient_accumulation_steps 2 --max_seq_length 128 --allreduce_post_accumulation --num_workers 2
same habana/run_squad.py $nvidia $squad --use_fused_adam --autocast
same habana/run_pretraining.py --input_dir shards --config_file bert_config.json --output_dir out --max_steps 2 \
    --train_batch_size 4 --max_seq_length 128 --use_fused_lamb
mkdir -p out/download && cp -r prep/download out
cp -r out saved
prepared() { # WORDS...: into the folder of the data, which each run gets afresh
    tried+=" bertPrep.py"
    what="bertPrep.py $*"
    rm -rf out && cp -r saved out && berth as bertPrep.py "$@" >/dev/null 2>"$err" || fail "it fails"
    rm -rf out.as && mv out out.as && cp -r saved out
    berth as --print_command bertPrep.py "$@" 2>/dev/null >printed.sh && bash printed.sh >/dev/null 2>"$err" || fail "printed"
    diff -r out out.as >"$work/different" || fail "other files: $(head -n 3 "$work/different")"
    rm -rf saved && cp -r out saved
}
prepared --action text_formatting --dataset wikicorpus_en
prepared --action sharding --dataset wikicorpus_en --n_training_shards 2 --n_test_shards 1
prepared --action create_hdf5_files --dataset wikicorpus_en --n_training_shards 2 --n_test_shards 1 --vocab_file vocab.txt \
    --max_seq_length 128 --max_predictions_per_seq 20
same pack_pretraining_data_pytorch.py --input_dir shards --output_dir out --max_sequence_length 128 --seed 42
hugging="--model_name_or_path model --output_dir out --do_train --do_eval --max_seq_length 64 --max_steps 2"
same run_qa.py $hugging --train_file data.json --validation_file data.json --doc_stride 8 --fp16
same hugging-face/run_glue.py $hugging --train_file table.csv --validation_file table.csv --test_file table.csv --do_predict
same run_ner.py $hugging --train_file tags.txt --validation_file tags.txt
same run_mlm.py $hugging --train_file lines.txt --validation_file lines.txt --mlm_probability 0.2
# Programs that write to standard output.
own="--output_dir=trained --date_output=false" original berth as --output_dir=trained --date_output=false \
    3_squad_bert_deepspeed.py --deepspeed_config ds.json
for line in "3_squad_bert_deepspeed_test.py --model-file trained --start-sample 1 --num-test-samples 2" \
    "evaluate-v1.1.py data.json trained/predictions.json" "evaluate-v2.0.py data.json trained/predictions.json -t 0.5"; do
    tried+=" ${line%% *}"
    # shellcheck disable=SC2086
    berth as $line >as.txt 2>"$err" </dev/null
    # shellcheck disable=SC2086
    berth as --print_command $line >printed.sh 2>"$err" && bash printed.sh >printed.txt 2>"$err" </dev/null
    what="berth as $line"
    [ -s as.txt ] && cmp -s as.txt printed.txt || fail "the printed command prints something else"
done
# Each program of the list was tried.
system=
while read -r line; do
    case "$line" in
        '' | usage* | Put* | '`berth'*) ;;
        *.sh' '*) [ -x "$documents/../deploy/scripts/${line%% *}" ] || fail "${line%% *}: no such script" ;;
        Scripts*) ;;
        *' '*) [[ " $tried " == *[\ /]"${line%% *} "* ]] || fail "${line%% *} of $system was not tried" ;;
        *) system=$line ;;
    esac
done < <(berth as)

# --- the door ---------------------------------------------------------------------------------------

run as run_squad.py $nvidia $squad
expect_code 2
expect_err 'several programs have these options: nvidia/run_squad.py, habana/run_squad.py; write `berth as SYSTEM/run_squad.py`'
rm -rf out
run as --dry_run --verbose run_squad.py $nvidia $squad --use_fused_adam
expect_code 0
[ "$(head -n 1 "$err")" = "berth: note: habana/run_squad.py, the only run_squad.py that has these options" ] || fail "not named"
BERTH_AS=nvidia run as --dry_run --verbose run_squad.py $nvidia $squad
expect_code 0
run as --dry_run --verbose some/where/habana/run_squad.py $nvidia $squad
expect_code 0
run as run_squad.py --learnign_rate 1 $nvidia $squad
expect_code 2
expect_err 'no run_squad.py has these options: google/run_squad.py: run_squad.py of google has no option --learnign_rate'
run as run_qa.py --learnign_rate 1
expect_code 2
expect_err 'run_qa.py of hugging-face has no option --learnign_rate; did you mean --learning_rate?'
run as run_quad.py
expect_code 2
expect_err '"run_quad.py": `berth as` has no program of that name; did you mean run_squad.py?'
run as run_qa.py --learning_rate
expect_code 2
expect_err 'option --learning_rate of run_qa.py needs a value'
run as run_qa.py --learning_rate x --output_dir out --do_train
expect_code 2
expect_err 'option learning_rate: expected a number'
run as run_qa.py --do_train maybe --output_dir out
expect_code 2
run as --print_command run_qa.py $hugging --train_file "a file's name.json"
expect_code 0
expect_out "--train_file 'a file'\\''s name.json'"
[ -z "$(berth as --print_command google/run_squad.py $google --vocab_file vocab.txt $squad 2>&1 >/dev/null)" ] || fail "notes without a reason"
run as
expect_code 0
expect_out 'bertPrep.py'
run as habana/run_squad.py --help
expect_code 0
expect_out '--use_fused_adam'
run as run_squad.py --help
expect_code 2
expect_err 'run_squad.py is a program of several systems: google/run_squad.py'
# A file of the user's is the user's to run; the installed scripts run by their names.
echo 'echo mine' >run_squad_baseline.sh
run as run_squad_baseline.sh 1 model
expect_code 2
expect_err 'run it with `bash run_squad_baseline.sh ...`'
rm run_squad_baseline.sh
run as none.sh
expect_code 2
for script in "$documents"/../deploy/scripts/*_*.sh; do
    [ ! -x "$script" ] || berth as | grep -q "^  ${script##*/} " || fail "the list lacks ${script##*/}"
done
if [ -e "$(dirname "$BERTH")/../../deploy/scripts" ]; then # a build in its source tree
    run as --print_command run_squad_baseline.sh 2 checkpoint.tar data out
    expect_code 0
    expect_out 'berth finetune squad'
    expect_no "$out" 'berth as'
fi
# Native verbs refuse what is another program's, and say whose it is.
run finetune squad --model model --train data.json --output out --log_freq 3
expect_code 2
expect_err 'unknown option --log_freq; run_squad.py of nvidia has it (`berth as nvidia/run_squad.py`), where it is --logging_steps'
run finetune squad --model model --train data.json --output out --use_fused_adam
expect_code 2
expect_err '(`berth as habana/run_squad.py`)'
finish
