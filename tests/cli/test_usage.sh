#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests wrong command lines: exit 2, a message on standard error that says what to do, nothing on standard
# output. Also tests what other programs' flags become, and bad inputs with their exit codes.
. "$(dirname "$0")/lib.sh"

refused() { # FRAGMENT WORDS...
    fragment=$1
    shift
    run "$@"
    expect_code 2
    expect_err "berth: error: "
    expect_err "$fragment"
    expect_empty "$out"
}

make_model "$work/model"
make_dataset "$work/data.json"
vocab=$work/model/vocab.txt
base="finetune squad --model $work/model --train $work/data.json --output $work/run"

# Unknown names, and the nearest known.
refused 'did you mean "finetune"' finetun squad
refused 'did you mean "help"' hlep
refused 'did you mean "finetune tokens"? `berth --help` lists the verbs' tokens
refused 'unknown verb "xylophone"; `berth --help` lists the verbs' xylophone
refused 'needs a task (squad, classify, tokens, fill, embed or rerank)' finetune --model x
refused ', found "squat": berth finetune squad' finetune squat --model x
refused 'needs a task' evaluate a b
# Without a word, a line for each task.
for verb in finetune predict evaluate; do
    refused "\`berth $verb\` needs a task (" $verb
    expect_err "usage: berth $verb TASK [options]"
    for task in $("$BERTH" --help | sed -n "s/^  $verb \([a-z]*\) .*/\1/p" | sort -u); do
        grep -qE "^  $task +[a-z]" "$err" || fail "no line for $task"
    done
    expect_no "$err" 'usage: berth '$verb' squad'
    refused ', found "qa": berth' $verb qa
    expect_err 'squad, '
    expect_no "$err" 'TASK'
done
refused 'needs a task (squad): berth show squad --model DIR' show
refused "usage: berth show squad --model DIR" show squad a b c d
expect_no "$err" '\x0a'
refused 'did you mean --learning_rate' finetune squad --lerning_rate 3
refused 'did you mean --learning_rate' finetune squad --lerning-rate=3
refused 'did you mean --max_seq_length' predict squad --max-seq-lenght 3
refused 'did you mean --top?' answer --topp 3
refused 'did you mean --model?' answer --modl x
refused 'did you mean --vocab?' tokenize --vocb=x
refused 'option do_lower_case: write --do_lower_case=1 for that value, or ./1 for a file of that name' tokenize --do_lower_case 1
refused 'did you mean --is_training?' features squad --is_trainin
refused 'unknown option --xylophone_quartet;' show squad --xylophone_quartet
refused 'unknown option -z' tokenize -z
refused 'unknown benchmark "peek"' bench peek
refused '--input_dir' bench pretrain
refused 'missing option --hosts' bench ranks --config tiny --data f
refused '"2,x": expected up to 32 numbers from 1 to 65536' bench ranks --data f --hosts 2,x
refused '2.5 is not a whole number' bench ranks --data f --hosts 2.5
refused 'link_gbit: "0"' bench ranks --data f --hosts 2 --link_gbit 0
refused 'needs at least 1' bench ranks --data f --hosts 2 --warm_up_steps 0
refused 'requires a single number in --hosts' bench ranks --data f --hosts 2,3 --save_times t
refused 'is for `berth bench train`' bench ranks --data f --hosts 2 --replay_compute t
refused 'is for `berth bench ranks`' bench train --data f --save_times t
expect_no "$err" 'has no effect'
refused 'is for `berth bench ranks`' bench peak --data f --save_times t
expect_err 'note: --data has no effect in `berth bench peak`'
refused 'data_dir is missing' bench train --task_name mrpc
refused 'no built-in' bench predict --config huge --data "$work/data.json" --zero_stage 2 --hosts 2 --threads 1 --tf32
expect_err 'note: --zero_stage has no effect in `berth bench predict`'
expect_err 'note: --hosts has no effect in `berth bench predict`'
expect_no "$err" '--t'

# Missing and malformed values.
refused 'option --model_name_or_path is required' finetune squad --train x
refused 'option --question is required' answer --model x
refused 'option --output is required' init --config tiny
refused 'needs arguments' verify
refused 'needs options' init
refused '--cased and --do_lower_case true contradict each other' tokenize --cased --do_lower_case true --vocab x
run evaluate squad -- --help "$work/none" # a file of that name
expect_code 66
HF_HOME="$work/no%d%x" run answer --model org/none --question x --context y # no part of a path is a format
expect_code 66
expect_err "no model with that name in the cache $work/no%d%x/hub; "
run finetune squad --help=optimizer
expect_code 0
expect_out --adam_beta1
expect_out 'bertadam, nvlamb, lamb) [adamw]'
refused 'an argument is missing' evaluate squad a
refused 'unexpected argument "c"' evaluate squad a b c
refused 'option --model needs a value' answer --model
refused 'found the option --question' answer --model --question Who
refused 'expected a number of at least 0, found "fast"' $base --learning_rate fast
refused 'from 8 to 65536, found "4"' $base --max_seq_length 4
refused 'expected one of fp32, bf16, fp16, int8, auto' $base --precision fp8
refused 'expected true or false' $base --do_lower_case=perhaps
refused 'a whole number from 1 to 100' answer --model x --question y --top 0
refused 'a whole number from 1 to 100' answer --model x --question y --top_k 0
refused 'a number from 0.01 to 600, found "1000"' bench peak --seconds 1000
refused 'a whole number from -1 to 1000000000000' $base --dry-run --verbose --max_steps 9223372036854775807
refused 'not both' answer --model x --question y --context a --context-file b
refused 'option question: expected some text' answer --model x --question '' --context a
refused '--question is blank' answer --model x --question=$' \t\n' --context-file none
refused '--context is blank' answer --model x --question y --context ' '
refused 'no vocabulary' tokenize

# The flag of another program is none of a verb of Berth: the error names a program that has it, and what it is there.
elsewhere() { # FLAG PROGRAM [WORDS...]: the program as SYSTEM/NAME
    flag=$1 program=$2
    shift 2
    refused "unknown option --$flag; ${program#*/} of ${program%/*} has it (\`berth as $program\`), where it is " \
        $base "--$flag" "$@"
}
elsewhere do_train deepspeed/nvidia_run_squad_deepspeed.py False
elsewhere bert_model deepspeed/nvidia_run_squad_deepspeed.py bert-large-uncased
elsewhere preln deepspeed/nvidia_run_squad_deepspeed.py
expect_err 'where it is --pre_layer_norm; `berth finetune squad --help all` lists them'
elsewhere local_rank piz-daint/3_squad_bert_deepspeed.py 0
expect_err 'where it is not needed: the launcher numbers processes'
elsewhere init_checkpoint google/run_squad.py x
elsewhere save_checkpoints_steps google/run_squad.py 100
expect_err 'where it is --save_steps'
elsewhere mpi_hostnames intel/launch_benchmark.py a,b
elsewhere num_steps_per_checkpoint nvidia/run_pretraining.py 100
elsewhere use_fused_adam habana/run_squad.py
elsewhere max_sequence_length habana/pack_pretraining_data_pytorch.py 64
elsewhere bf16 hugging-face/run_qa.py
expect_err 'where it is --precision bf16; false: --precision fp32'
elsewhere torch-dtype hugging-face/run_qa.py float32
elsewhere experimental_gelu intel/launch_benchmark.py False
refused 'unknown option --deepspeed; ' predict squad --model x --input x --output x --deepspeed "$work/none"
refused 'unknown option -d; the short ones are -h, -m, -o, -q and -n' $base -d
refused 'expected one of fp32, bf16, fp16, int8, auto, found "bfloat16"' $base --dtype bfloat16
# So is an option of another verb.
refused 'unknown option --input_dir; `berth pretrain` has it; `berth finetune squad --help all` lists them' \
    $base --input_dir x
refused 'unknown option --predict_file; `berth finetune classify` has it' $base --predict_file x
refused 'unknown option --learning_rate; `berth finetune squad` has it' predict squad --learning_rate 1

# Both spellings, "=" and keys, all the way to the plan.
plan() {
    run "$@" --dry-run --verbose --max_seq_length 64
    expect_code 0
    [ ! -e "$work/run" ] || fail "a dry run wrote $work/run"
}
plan $base
plan $base --max-query-length 16 --max_query_length=16 --max-query_length 16
plan finetune squad model="$work/model" train-file="$work/data.json" output_dir="$work/run"
plan finetune squad -- model="$work/model" train-file="$work/data.json" output_dir="$work/run" learning-rate=3e-5
plan $base --optimizer bertadam --clip_by both --no_decay bias,LayerNorm
expect_out "optimizer                        bertadam"
expect_out "clip_by                          both"
plan $base --schedule EE --lr_offset 1e-5
expect_out "schedule                         EE"
# Other programs' names and flags, at their door. Options of Berth's own precede the program.
plan_as() { # PROGRAM WORDS...
    run as --dry-run --verbose --max_seq_length=64 "$@"
    expect_code 0
    [ ! -e "$work/run" ] || fail "a dry run wrote $work/run"
}
plan_as launch_benchmark.py --model-name=bert_large -- train-option=SQuAD init-checkpoint="$work/model" \
    train-file="$work/data.json" output_dir="$work/run" do-train=True do-predict=False learning-rate=3e-5
plan_as launch_benchmark.py --checkpoint "$work/model" --batch-size 4 -- train_file="$work/data.json" \
    output_dir="$work/run" mpi_hostnames=a,b mpi_num_processes_per_socket=2
expect_err "mpi_hostnames and mpi_num_processes_per_socket are for mpi_num_processes of at least 2"
plan_as nvidia_run_squad_baseline.py --bert_model bert-large-uncased --model_file "$work/model" \
    --train_file "$work/data.json" --predict_file "$work/data.json" --output_dir "$work/run" \
    --do_train --do_predict --do_lower_case --fp16 --loss_scale 0 --predict_batch_size 8 \
    --warmup_proportion 0.1 --print_steps 5 --dropout 0.1 --local_rank -1 --verbose_logging
expect_err "--fp16: bf16"
expect_out "loss_scale                       dynamic"
trainer="hugging-face/run_qa.py --model_name_or_path $work/model --train_file $work/data.json --output_dir $work/run
    --do_train"
plan_as $trainer --validation_file "$work/data.json" --do_eval True --per_device_train_batch_size 4 --warmup_ratio 0.1 \
    --evaluation_strategy epoch --bf16 False --no_cuda --disable_tqdm True --full_determinism false \
    --lr_scheduler_type constant_with_warmup
expect_err "--full_determinism is not needed: every run is deterministic"
expect_out "schedule                         constant_warmup"
# shellcheck disable=SC2086
refused 'option lr_scheduler_type: expected one of linear, ' as $trainer --lr_scheduler_type cosine_with_min_lr
refused 'option optim: "adafactor" is not available; expected adamw_torch' as $trainer --optim adafactor
refused "run_qa.py of hugging-face has no option --nonsense (\`berth as hugging-face/run_qa.py --help\` lists them)" \
    as $trainer --nonsense
refused '`berth as` alone lists them' as nonsense.py
# transformers' file with only "auto" values, also with the Trainer's flag.
cat >"$work/auto.json" <<'END'
{"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_clipping": "auto",
 "optimizer": {"type": "AdamW", "params": {"lr": "auto", "weight_decay": "auto"}},
 "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}}
END
for words in "plan $base --precision bf16 --deepspeed_config $work/auto.json" \
    "plan_as $trainer --weight_decay 0.01 --fp16 --deepspeed $work/auto.json" \
    "plan_as $trainer --weight_decay 0.01 --fp16 --deepspeed=$work/auto.json"; do
    # shellcheck disable=SC2086
    $words --learning_rate 7e-5
    grep -qE '^  learning_rate +7e-05$' "$out" && grep -qE '^  weight_decay +0.01$' "$out" || fail "not the run's own"
    expect_out "precision                        bf16"
    expect_out "schedule                         linear"
done
refused '`berth finetune squad` has it' predict squad --deepspeed_config "$work/auto.json"
# Every flag of theirs that is not needed says so.
run as hugging-face/run_qa.py --help
expect_code 0
names=$(sed -n 's/^  \(--[a-z_0-9]*\)\( [^ ]*\)\? *not needed: .*/\1\2/p' "$out" | sed 's/ .*/=1/')
[ "$(echo "$names" | wc -w)" -gt 40 ] || fail "few names: $names"
# shellcheck disable=SC2086
plan_as $trainer $names
for name in $names; do
    expect_err "note: ${name%=1} is not needed: "
done
# The resulting precision is reported once, and correctly.
printf '{"train_batch_size": 4}' >"$work/plain.json"
plan $base --deepspeed_config "$work/plain.json"
expect_out "precision                        fp32"
expect_no "$err" "precision: bf16"
expect_no "$out" "precision: bf16"
expect_out "plain.json: precision: fp32, because neither fp16 nor bf16 is enabled"
expect_out "schedule                         constant"
grep -qE "warmup_steps *0$" "$out" || fail "a warm-up of a constant rate"
# A flag that is false has a meaning, too.
plan_as $trainer --bf16 False --fp16 False
expect_out "precision                        fp32"
plan_as $trainer --bf16 --fp16 False
expect_out "precision                        bf16"
# A schedule with warm-up only.
plan $base --max_steps 1
expect_out "the learning rate of every update is 0"
expect_out "updates: 1, of these warm-up: 1,"
grep -qE "warmup_steps *1$" "$out" || fail "no warm-up is shown"
plan $base --max_steps 1 --warmup_proportion 0
expect_no "$out" "the learning rate of every update is 0"
# Settings of evaluation without anything to evaluate on.
plan $base --do_eval --eval_strategy steps
expect_out "do_eval has no effect, because there is nothing to evaluate on: name a file with validation_file"
expect_out "eval_strategy has no effect"
run $base --dry-run --verbose --load_best_model_at_end
expect_code 78
expect_err "load_best_model_at_end needs evaluations"
run $base --dry-run --verbose --dev "$work/data.json" --load_best_model_at_end --save_strategy no
expect_code 78
expect_err "omit save_strategy no"
run $base --dry-run --verbose --dev "$work/data.json" --early_stopping_patience 2 --eval_strategy no
expect_code 78
expect_err "early_stopping_patience needs evaluations before the end: omit eval_strategy no"
run $base --dry-run --verbose --train "$work/data.json"
expect_err "--train replaces the file that was given before: only one is read"
run $base --dry-run --verbose --optimizer lion
expect_code 2
expect_err "nvlamb"
run $base --dry-run --verbose --optimizer nvlamb --adam_w_mode false
expect_code 78
expect_err "not to nvlamb"
run $base --dry-run --verbose --loss_scale 1e39
expect_code 2
expect_err "2^126"
plan finetune squad --model "$work/model/model.safetensors" --vocab_file "$vocab" \
    --train "$work/data.json" --output "$work/run" --no_bias_correction
plan finetune squad --model "$work/model" --train "$work/data.json" --output "$work/run" --quiet \
    --train "$work/data.json"
expect_no "$err" "note"

# Options after a file of options win over it; what is wrong in them is not said of the file.
cat >"$work/options.json" <<END
{"model_name_or_path": "$work/model", "train_file": "$work/data.json", "output_dir": "$work/run", "learning_rate": 1e-4,
 "seed": 3}
END
plan finetune squad "$work/options.json" --learning_rate 7e-5
grep -qE '^  learning_rate +7e-05$' "$out" && grep -qE '^  seed +3$' "$out" || fail "not the option after the file"
run finetune squad "$work/options.json" --learning_rat 1
expect_code 2
expect_err 'error: unknown option --learning_rat;'
run finetune squad --seed 4 "$work/options.json"
expect_code 2
expect_err 'a file of options comes before the options'

# A plan needs the configuration and the vocabulary, not the weights.
mkdir "$work/weightless"
cp "$work/model/config.json" "$work/model/vocab.txt" "$work/weightless"
plan $base
# The plan, except for the folder and what the process itself measures.
rows() { grep '^  ' "$out" | grep -vE '^  (model_name_or_path|program_and_features_bytes|plan_bytes) '; }
rows >"$work/plan"
plan finetune squad --model "$work/weightless" --train "$work/data.json" --output "$work/run"
expect_out "weightless: no weights"
expect_out "the run will need the weights"
[ -s "$work/plan" ] && rows | cmp -s - "$work/plan" || fail "another plan without weights"
run finetune squad --model "$work/weightless" --train "$work/data.json" --output "$work/run" --max_seq_length 64
expect_code 66
expect_err "weightless: no weights"

# Missing or malformed inputs, and outputs that cannot be created.
missing() { # CODE FRAGMENT WORDS...
    expected=$1
    fragment=$2
    shift 2
    run "$@"
    expect_code "$expected"
    expect_err "berth: error: "
    expect_err "$fragment"
    [ ! -e "$work/new" ] || fail "something was written"
}
missing 66 "$work/none" tokenize --vocab "$work/none"
missing 66 "$work/none" tokenize --vocab "$vocab" "$work/none"
missing 66 "$work/none" features squad --vocab "$vocab" --input "$work/none"
missing 66 "$work/none" evaluate squad "$work/data.json" "$work/none"
missing 66 "$work/none" inspect "$work/none"
missing 66 "$work/none" verify "$work/none"
# Only what can be a name of the hub is one to be fetched.
mkdir "$work/folder"
cd "$work" || exit 1
for name in none.json none.pt folder/none ./none ../none .none none/of/these "$work/none"; do
    for words in inspect verify "convert @ new --to torch" "compare @ $work/model" \
        "answer --question Who --context Ada --model"; do
        case $words in *@*) words=${words//@/$name} ;; *) words="$words $name" ;; esac
        # shellcheck disable=SC2086
        missing 66 "$name" $words
        grep -qi 'no such f' "$err" || fail "it does not say that there is none"
        expect_no "$err" "berth fetch"
    done
done
missing 66 '`berth fetch acme/tiny` downloads it' inspect acme/tiny
cd - >/dev/null || exit 1
missing 65 manifest verify "$work/model"
missing 66 "$work/none" finetune squad --model "$work/none" --train "$work/data.json" --output "$work/new"
missing 66 "$work/none" finetune squad --model "$work/model" --train "$work/none" --output "$work/new" \
    --max_seq_length 64
missing 66 "$work/none" answer --model "$work/none" --question Who --context Ada.
missing 66 "$work/none" answer --model "$work/model" --question Who --context-file "$work/none"
missing 2 "nonsense" init --config nonsense --output "$work/new"
(mkdir "$work/tiny" && cd "$work" && run init --config tiny --output named && expect_code 0) || exit 1
mkdir "$work/bare" # a folder is not a name
for verb in "bench train --data $work/data.json" "bench pretrain --input_dir $work/bare" "init --output $work/new"; do
    missing 66 'bare/config.json: no such file' $verb --config "$work/bare"
    missing 66 'bare.json: No such file' $verb --config "$work/bare.json"
done
printf '{"other": "Oslo"}' >"$work/others.json"
missing 65 "are these predictions for another data set?" evaluate squad "$work/data.json" \
    "$work/others.json"
printf '{"data": [' >"$work/broken.json"
missing 65 "line 1" features squad --vocab "$vocab" --input "$work/broken.json"
: >"$work/empty"
missing 65 "$work/empty: blank" answer --model "$work/model" --question Who --context-file "$work/empty"
missing 65 "standard input: blank" answer --model "$work/model" --question Who
missing 2 "the question has no words" answer --model "$work/model" --question $'\xe2\x80\x8b' --context Ada.
missing 2 'error: the question: its 10 tokens and 3 special ones leave no room' answer --model "$work/model" \
    --question 'Where did Ada live? Oslo?' --context Ada. --max_seq_length 9
missing 65 "$work/empty" tokenize --vocab "$work/empty"
missing 65 "$work/empty" evaluate squad "$work/empty" "$work/empty"
sed 's/"text": "Oslo"/"text": "Paris"/' "$work/data.json" >"$work/elsewhere.json"
missing 65 q1 features squad --training --strict_answers --vocab "$vocab" --input "$work/elsewhere.json"
run features squad --training --vocab "$vocab" --input "$work/elsewhere.json"
expect_code 0
expect_err "skipping 1 of 8 questions"
expect_err 'skipping question "q1"'
missing 65 q1 predict squad --model "$work/model" --strict_answers --input "$work/elsewhere.json" --output "$work/new"
missing 73 "$work/data.json is a file" finetune squad --model "$work/model" --train "$work/none" \
    --output "$work/data.json/run"
missing 73 "$work/data.json is a file" predict squad --model "$work/model" --input "$work/none" \
    --output "$work/data.json"
missing 73 "overwrite_output_dir" predict squad --model "$work/model" --input "$work/none" \
    --output "$work/model"
missing 66 "$work/none: no such file" finetune squad --model "$work/model" --train "$work/elsewhere.json" \
    --dev "$work/none" --output "$work/new"
missing 73 "$work/data.json is a file" init --config tiny --output "$work/data.json/model"
missing 66 "$work/none" bench train --config tiny --data "$work/none"
missing 66 "$work/none" bench pretrain --config tiny --input_dir "$work/none"
if "${BERTH_PYTHON:-python3}" - "$work/empty.hdf5" 2>/dev/null <<'END'
import h5py, sys
with h5py.File(sys.argv[1], "w") as file:
    for name, shape in [("input_ids", (0, 128)), ("input_mask", (0, 128)), ("segment_ids", (0, 128)),
                        ("masked_lm_positions", (0, 20)), ("masked_lm_ids", (0, 20)), ("next_sentence_labels", (0,))]:
        file.create_dataset(name, shape, "i4")
END
then
    missing 66 "$work/empty.hdf5: no instances" bench pretrain --config tiny --input_dir "$work/empty.hdf5"
else
    echo "no h5py: a file without instances is not tried"
fi
missing 73 "already contains a model" init --config tiny --output "$work/model"
missing 73 json_summary finetune squad --model "$work/model" --train "$work/data.json" --output "$work/new" \
    --max_seq_length 64 --json_summary "$work/data.json/summary.json"
printf '{"hidden_size": "many"}' >"$work/bad_config.json"
missing 78 hidden_size init --config "$work/bad_config.json" --output "$work/new"
printf '{"bert_model_config": {"hidden_size": 64, "num_attention_heads": 4}}' >"$work/experiment.json"
for verb in "bench train --data $work/data.json" "init --output $work/new"; do
    missing 78 'experiment.json: key "bert_model_config": the geometry of an experiment has no "vocab_size"' $verb \
        --config "$work/experiment.json"
done
missing 78 'experiment.json: key "bert_model_config": the geometry of an experiment has no "vocab_size"' \
    convert "$work/model" "$work/new" --config_file "$work/experiment.json"
finish
