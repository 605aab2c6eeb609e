#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Intel's package: the lines of its launcher and of the programs that it starts, and a TensorFlow checkpoint that
# lies alone.
. "$(dirname "$0")/lib.sh"
make_model wwm_uncased_L-24_H-1024_A-16
"$BERTH" convert wwm_uncased_L-24_H-1024_A-16 google --to tensorflow --quiet || exit 1
mkdir data alone tasks
cp google/bert_model.ckpt* alone
make_dataset data/train-v1.1.json
make_dataset data/dev-v1.1.json
BERT_LARGE_DIR=$PWD/google
SQUAD_DIR=data
for article in 1 2 3 4 5 6 7 8; do
    printf 'ada lived in oslo %s. hugo lived in riga. olga lived in bern. where did rita live? in rome.\n\n' "$article"
done >text.txt
run prepare --text text.txt --vocab google/vocab.txt --output prepared --max_seq_length 128 --format tfrecord \
    --max_predictions_per_seq 20 --shards 2 --test_shards 1 --dupe_factor 2
expect_code 0
records=$(dirname "$(find prepared -name '*training_0.tfrecord')")

task=data/MRPC
make_mrpc $task

# --- launch_benchmark.py ------------------------------------------------------------------------------

dry=
squad_line() { # OUTPUT, WORDS BEFORE --...
    local output_dir=$1
    shift
    original berth as $dry launch_benchmark.py --model-name=bert_large --precision=fp32 --mode=training \
        --framework=tensorflow --batch-size=4 "$@" -- train_option=SQuAD vocab-file=$BERT_LARGE_DIR/vocab.txt \
        config-file=$BERT_LARGE_DIR/bert_config.json init-checkpoint=$BERT_LARGE_DIR/bert_model.ckpt do-train=True \
        train-file=$SQUAD_DIR/train-v1.1.json do-predict=True predict-file=$SQUAD_DIR/dev-v1.1.json \
        learning-rate=3e-5 num-train-epochs=2 max-seq-length=384 doc_stride=128 output-dir="$output_dir" \
        optimized_softmax=True experimental_gelu=False do_lower_case=True
}
original berth as --dry-run launch_benchmark.py --model-name=bert_large --precision=bfloat16 --mode=training \
    --framework=tensorflow --batch-size=-1 -- train_option=SQuAD DEBIAN_FRONTEND=noninteractive \
    config-file=$BERT_LARGE_DIR/bert_config.json init-checkpoint=$BERT_LARGE_DIR/bert_model.ckpt do-train=True \
    train-file=$SQUAD_DIR/train-v1.1.json output-dir=quick
expect_line '^  precision +bf16$'
expect_line '^  train_batch_size +24$'
expect_err '--DEBIAN_FRONTEND is not needed'
squad_line large --benchmark-only --num-cores=2 --num-intra-threads=1 --num-inter-threads=1 --socket-id=-1 \
    --volume "$BERT_LARGE_DIR:$BERT_LARGE_DIR" --volume data:data --docker-image intel/tf --verbose --disable-tcmalloc
expect_file large/predictions.json large/nbest_predictions.json large/model.safetensors
setting optimizer adam_weight_decay
setting schedule google
setting train_batch_size 4
# As many processes as it says: started, or counted.
if command -v mpirun.openmpi >/dev/null; then
    with_mpi squad_line two --mpi_num_processes=2
    expect_err "ranks: 2 on 1 host"
    dry=--dry_run
    with_mpi squad_line three --mpi_num_processes=2
    dry=
    [ ! -e three ] || fail "a dry run wrote"
    run_launched() {
        what="mpirun -np 2 $*"
        launch 2 "$@" >"$out" 2>"$err" </dev/null
        code=$?
    }
    run_launched berth as launch_benchmark.py --model-name x --mpi_num_processes 3 -- init_checkpoint=google \
        train_file=$SQUAD_DIR/train-v1.1.json output_dir=four
    [ "$code" -ne 0 ] || fail "ran with another number of processes"
    expect_err "mpi_num_processes is 3, but mpirun of Open MPI started 2 processes"
fi
run as launch_benchmark.py --model-name bert_large --mpi_num_processes many -- init_checkpoint=google \
    train_file=$SQUAD_DIR/train-v1.1.json output_dir=none
expect_code 2
what="without mpirun"
PATH=/nowhere "$BERTH" as launch_benchmark.py --model-name x --mpi_num_processes 2 -- init_checkpoint=google \
    train_file=$SQUAD_DIR/train-v1.1.json predict_file=$SQUAD_DIR/dev-v1.1.json output_dir=none >"$out" 2>"$err"
code=$?
expect_code 69
expect_err "cannot start mpirun"
[ ! -e none ] || fail "one process ran in the place of two"
# Its short options, its folders and its defaults.
original berth as launch_benchmark.py -m bert_large -p fp32 -mo training -f tensorflow -b 4 -c google -d data \
    --output-dir variables -- train_option=SQuAD max_seq_length=384 num_train_epochs=1
expect_file variables/predictions.json
setting learning_rate 3e-05
same_printed mrpc berth as launch_benchmark.py --checkpoint=google --data-location=data --output-dir=mrpc \
    --mpi_num_processes=1 --model-name=bert --precision=fp32 --mode=training --framework=tensorflow --batch-size=8 -- \
    train-option=Classifier task-name=MRPC do-train=true do-eval=true max-seq-length=128 learning-rate=2e-5 \
    num-train-epochs=2 do-lower-case=True
expect_file mrpc/eval_results.txt
grep -q '^eval_accuracy = ' mrpc/eval_results.txt || fail "no eval_accuracy"
original berth as launch_benchmark.py --model-name=bert --precision=fp32 --mode=training --framework=tensorflow \
    --batch-size=4 -- train-option=Pretraining input-file="$records/*training_0*,$records/*training_1*" do-train=True \
    do-eval=True config-file=google/bert_config.json init-checkpoint=google/bert_model.ckpt max-seq-length=128 \
    max-predictions=20 num-train-steps=3 warmup-steps=1 learning-rate=2e-5 output-dir=pre
setting steps 3
original berth as launch_benchmark.py --model-name=bert_large --mode=inference --precision=fp32 \
    --framework=tensorflow --batch-size=4 --checkpoint google --data-location data --output-dir=inferred \
    --accuracy-only --output-results -- max_seq_length=384
expect_file inferred/predictions.json
[ ! -e inferred/model.safetensors ] || fail "trained"
for wrong in train_option=NER --num_instances=2 --socket_id=1 --mode=serving; do
    run as launch_benchmark.py --model-name bert "$wrong" init_checkpoint=google output_dir=none
    expect_code 2
done
expect_err 'option mode: expected training or inference, found "serving"'

# --- run_squad.py, run_classifier.py, run_pretraining.py ----------------------------------------------

original berth as intel/run_squad.py --vocab_file=google/vocab.txt \
    --bert_config_file=google/bert_config.json --init_checkpoint=google/bert_model.ckpt --do_train=True \
    --train_file=data/train-v1.1.json --do_predict=True --predict_file=data/dev-v1.1.json --train_batch_size=4 \
    --learning_rate=3e-5 --num_train_epochs=1.0 --max_seq_length=384 --doc_stride=128 --output_dir=program \
    --use_tpu=False --mpi_workers_sync_gradients=True --inter_op=1 --intra_op=1 --precision=fp32
setting optimizer adam_weight_decay
# Training is what must be asked for.
original berth as intel/run_classifier.py --task_name=MRPC --do_predict=true --data_dir=$task \
    --vocab_file=google/vocab.txt --bert_config_file=google/bert_config.json --init_checkpoint=mrpc \
    --max_seq_length=128 --output_dir=predicted
expect_file predicted/test_results.tsv
[ "$(wc -l <predicted/test_results.tsv)" -eq 10 ] || fail "not a line for each example"
[ ! -e predicted/model.safetensors ] || fail "trained"
original berth as --eval_dir="$records" intel/run_pretraining.py --input_file="$records/corpus_training_0.tfrecord" --do_train=True \
    --do_eval=True --bert_config_file=google/bert_config.json --train_batch_size=4 --max_seq_length=128 \
    --max_predictions_per_seq=20 --num_train_steps=3 --num_warmup_steps=1 --max_eval_steps=1 \
    --eval_batch_size=3 --output_dir=program-pre
expect_line "eval.* 3 "

# --- processes -----------------------------------------------------------------------------------------

squad_program() { # COUNT OUTPUT WORDS...
    local count=$1 output_dir=$2
    shift 2
    original launch "$count" berth as intel/run_squad.py --vocab_file=google/vocab.txt \
        --bert_config_file=google/bert_config.json --init_checkpoint=google/bert_model.ckpt --do_train=True \
        --train_file=data/train-v1.1.json --do_predict=True --predict_file=data/dev-v1.1.json --train_batch_size=4 \
        --learning_rate=3e-5 --num_train_epochs=8.0 --max_seq_length=384 --doc_stride=128 --output_dir="$output_dir" "$@"
}
classifier_program() { # COUNT OUTPUT WORDS...
    local count=$1 output_dir=$2
    shift 2
    original launch "$count" berth as intel/run_classifier.py --task_name=MRPC --do_train=true --do_eval=true \
        --data_dir=$task --vocab_file=google/vocab.txt --bert_config_file=google/bert_config.json \
        --init_checkpoint=google/bert_model.ckpt --train_batch_size=2 --learning_rate=2e-5 --output_dir="$output_dir" "$@"
}
pretraining_program() { # COUNT OUTPUT WORDS...
    local count=$1 output_dir=$2
    shift 2
    original launch "$count" berth as intel/run_pretraining.py --input_file="$records/*training*" --do_train=True \
        --bert_config_file=google/bert_config.json --init_checkpoint=google/bert_model.ckpt --train_batch_size=4 \
        --max_seq_length=128 --num_train_steps=17 --num_warmup_steps=9 --learning_rate=2e-5 --output_dir="$output_dir" "$@"
}
# Of the launcher, with each name of the batch; the last one counts.
original berth as --dry-run launch_benchmark.py --model-name=x -b 4 --batch-size=6 --train_batch_size 8 -- \
    init_checkpoint=google train_file=$SQUAD_DIR/train-v1.1.json output_dir=none
setting train_batch_size 8
original berth as --dry-run launch_benchmark.py --model-name=x --batch-size=6 -b 4 -- \
    init_checkpoint=google train_file=$SQUAD_DIR/train-v1.1.json output_dir=none
setting train_batch_size 4
# One process has no other batch, rate or number of updates, and no words about them.
squad_program 1 one
setting train_batch_size 4
setting learning_rate 3e-05
setting total_steps 16
! grep -q 'lr_scaling sqrt\|independent\|that of one process\|sync_gradients' "$out" "$err" || fail "words about several processes"
grep -q '"hidden_act": "gelu_new"' one/config.json || fail "the result does not name the tanh form"
squad_program 1 erf --experimental_gelu=True
grep -q '"hidden_act": "gelu"' erf/config.json || fail "not the erf form"
sum=$(cksum <one/model.safetensors)
squad_program 1 one
expect_line "^resumed from one/checkpoint-16$"
expect_line "no updates were left to train"
[ "$sum" = "$(cksum <one/model.safetensors)" ] || fail "a second start changed a finished model"
run as launch_benchmark.py --model-name x -- vocab_file=google/vocab.txt config_file=google/bert_config.json \
    init_checkpoint=wwm_uncased_L-24_H-1024_A-16 train_file=$SQUAD_DIR/train-v1.1.json output_dir=none
expect_code 78
expect_err "do_lower_case is false, but wwm_uncased_L-24_H-1024_A-16 is an uncased model by its name"

if command -v mpirun.openmpi >/dev/null; then
    rate() { # COUNT RATE: what it becomes
        python3 -c 'import sys; print("%.4g" % (float(sys.argv[2]) * float(sys.argv[1]) ** 0.5))' "$@"
    }
    for count in 2 8; do
        # Questions: each process trains alone, in its part of the updates, and the best one is kept.
        squad_program $count alone-$count
        expect_line "$count processes x 4 sequences, each trains a model of its own in num_train_epochs 8 / $count = $((8 / count)),"
        expect_line "^$count independent workers: "
        expect_line "^lr_scaling sqrt: learning_rate 3e-05 x .*, for $count processes: "
        setting train_batch_size 4
        setting total_steps $((16 / count))
        setting learning_rate "$(rate $count 3e-5)"
        best=$(grep -o '"best_worker": [0-9]*' alone-$count/workers.json | tr -dc 0-9)
        expect_file alone-$count/worker-$((count - 1))/model.safetensors alone-$count/predictions.json
        cmp -s alone-$count/model.safetensors "alone-$count/worker-$best/model.safetensors" || fail "not the best worker"
        squad_program $count alone-$count
        expect_line "^resumed from alone-$count/worker-0/checkpoint-$((16 / count))$"
        # Or all train one model.
        squad_program $count together-$count --mpi_workers_sync_gradients=True
        expect_line "train_batch_size is that of one process: $count processes x 4 = $((4 * count)) sequences an update"
        setting train_batch_size $((4 * count))
        setting total_steps $((16 / count))
        setting learning_rate "$(rate $count 3e-5)"
        [ ! -e together-$count/workers.json ] || fail "a model for each process"
        # run_classifier.py and run_pretraining.py know one model alone.
        classifier_program $count class-$count
        expect_line "$count processes x 2 = $((2 * count)) sequences an update"
        setting train_batch_size $((2 * count))
        setting total_steps $((30 / count))
        setting learning_rate "$(rate $count 2e-5)"
        [ ! -e class-$count/workers.json ] || fail "a model for each process"
        pretraining_program $count pre-$count --mpi_workers_sync_gradients=False
        expect_line "$count processes x 4 = $((4 * count)) sequences an update"
        expect_line "num_train_steps is that of all processes: 17 / $count = $((17 / count)) updates"
        expect_line "mpi_workers_sync_gradients False is not needed"
        setting train_batch_size $((4 * count))
        setting total_steps $((17 / count))
        setting warmup_steps $((9 / count))
        setting learning_rate "$(rate $count 2e-5)"
    done
    export OMPI_MCA_rmaps_base_oversubscribe=1
    # The launcher of Intel's documents: also classifiers train alone.
    with_mpi original berth as launch_benchmark.py --checkpoint=google --data-location=data --output-dir=mrpc-alone \
        --mpi_num_processes=2 --model-name=bert --batch-size=2 -- train-option=Classifier max-seq-length=128 num-train-epochs=2
    expect_line "^2 independent workers: "
    setting total_steps 10
    expect_file mrpc-alone/workers.json mrpc-alone/eval_results.txt
    with_mpi original berth as --dry-run launch_benchmark.py --checkpoint=google --data-location="$records" --output-dir=none \
        --mpi_num_processes=2 --model-name=bert --batch-size=2 -- train-option=Pretraining max-seq-length=128 do_eval=False
    setting total_steps 10
    setting warmup_steps 5
    # Alone, models need something to be compared by.
    run as launch_benchmark.py --model-name x --mpi_num_processes 2 -- init_checkpoint=google \
        train_file=$SQUAD_DIR/train-v1.1.json output_dir=none
    expect_code 78
    expect_err "give --predict_file, or --mpi_workers_sync_gradients=True to train one model"
    run_launched berth as intel/run_pretraining.py --input_file="$records/*training*" --do_train=True \
        --bert_config_file=google/bert_config.json --num_train_steps=1 --output_dir=none
    expect_code 78
    expect_err "num_train_steps 1 is less than the number of processes, 2"
    [ ! -e none ] || fail "trained"
fi

# --- a checkpoint that lies alone, in every verb ----------------------------------------------------

shape="--config_file $BERT_LARGE_DIR/bert_config.json"
words="--vocab_file $BERT_LARGE_DIR/vocab.txt"
lone="alone/bert_model.ckpt $shape"
original berth predict squad --model $lone $words --predict_file $SQUAD_DIR/dev-v1.1.json --output_dir answers
expect_file answers/predictions.json
original berth answer --model $lone $words --question "Who lived in Oslo?" --context "Ada lived in Oslo."
original berth show squad --model $lone $words --input $SQUAD_DIR/dev-v1.1.json --num-test-samples 2
echo "Ada lived in Oslo." >text
original berth embed --model $lone $words text --output text.npy
printf 'Ada lived in Oslo.\t1\nHugo lived in Riga.\t0\n' | sed '1i text\tlabel' >pairs.tsv
original berth finetune squad --model $lone $words --train $SQUAD_DIR/train-v1.1.json --output_dir tuned \
    --max_steps 1
original berth finetune classify --model $lone $words --train pairs.tsv --text_column text \
    --label_column label --output_dir classes --max_steps 1
original berth predict classify --model $lone --allow_new_head $words --input pairs.tsv --text_column text --output_dir labels
original berth pretrain --model $lone --input_dir "$records" --output_dir further --max_steps 1
original berth evaluate pretrain --model $lone --allow_new_head --input_dir "$records" --output_dir scores
original berth convert $lone $words folder
original berth compare alone/bert_model.ckpt folder
expect_out " 0 differ"
original berth inspect alone/bert_model.ckpt
# Of several checkpoints of a folder, the one that is named.
"$BERTH" init --config "$work/config.json" --output other --seed 8 --quiet
"$BERTH" convert other other-google --to tensorflow --quiet
for part in index data-00000-of-00001; do
    cp "other-google/bert_model.ckpt.$part" "alone/model.ckpt-2000.$part"
done
printf 'model_checkpoint_path: "model.ckpt-2000"\n' >alone/checkpoint
original berth compare alone/bert_model.ckpt wwm_uncased_L-24_H-1024_A-16
expect_out " 0 differ"
original berth compare alone/model.ckpt-2000 other
expect_out " 0 differ"
original berth convert $lone $words named
original berth compare named wwm_uncased_L-24_H-1024_A-16
expect_out " 0 differ"

# --- the result as the original's -------------------------------------------------------------------

original berth finetune squad --model $lone $words --train $SQUAD_DIR/train-v1.1.json --output_dir saved \
    --max_steps 3 --save_format hf,torch,tensorflow,nvidia
expect_file saved/model.ckpt-3.index saved/model.ckpt-3.data-00000-of-00001 saved/checkpoint saved/bert_config.json \
    saved/pytorch_model.bin saved/ckpt_3.pt saved/model.safetensors
[ -z "$(find saved -name '.tmp*')" ] || fail "half-written files"
mkdir parts
cp saved/model.ckpt-3.* saved/checkpoint saved/bert_config.json saved/vocab.txt parts
original berth compare parts saved
expect_out " 0 differ"
for file in saved/pytorch_model.bin saved/ckpt_3.pt saved/model.ckpt-3; do
    original berth compare $file saved/model.safetensors
    expect_out " 0 differ"
done
run finetune squad --model $lone $words --train $SQUAD_DIR/train-v1.1.json --output_dir none --save_format hf,h5
expect_code 2
[ ! -e none ] || fail "trained for an unknown format"
original berth finetune squad --model $lone $words --train $SQUAD_DIR/train-v1.1.json --output_dir planned \
    --save_format torch --dry-run --verbose
[ ! -e planned ] || fail "a dry run wrote"

# --- the page about them ----------------------------------------------------------------------------

mkdir page && cp -r google data page && cp -r "$records" page/records
cd page || exit 1
what="the native commands of the page"
take_section "Intel and Google"
commands_of "$page" >lines
BERTH_PRINT_COMMAND=1 bash -eu lines >printed 2>"$err" || fail "not printed"
diff "$native" printed >"$out" || fail "other commands"
run_commands_of "$page" 4
expect_file squad-large/predictions.json mrpc-base/eval_results.txt pre-trained/model.safetensors
finish
