# SPDX-License-Identifier: Apache-2.0
"""The cases of option_effects.py: small commands, and for each row of the option table a value that
must change what they do.

A case is a value, or (value, words of both command lines, folder or file that is `out` before). Cases
that differ by job are a dictionary with "other" for the rest. None is the flag alone.
"""

WINDOWS = "--max_seq_length 64 --doc_stride 16 --max_query_length 16"
LONG = "--max_seq_length 256"
MACHINE = "--threads 1 --precision fp32 --verbose"
UPDATES = "--train_batch_size 4 --max_steps 4 --learning_rate 1e-2 --logging_steps 1 --save_steps 2"
MASKED = f"--max_seq_length 16 {MACHINE}"
OWN = "--text_column text --label_column label"
PAIR = "--text_column text --text_pair_column pair"
FITS = "--text_column text --text_pair_column pair --label_column fits"

# In the order of the bits of enum option_job.
JOBS = {
    "finetune squad": ("finetune squad", f"--model ../model --train ../data.json --dev ../data.json --output out "
                                         f"{WINDOWS} {MACHINE} {UPDATES}"),
    "predict squad": ("predict squad", f"--model ../squad --input ../data.json --output out {WINDOWS} {MACHINE}"),
    "answer": ("answer", f"--model ../squad --question 'Where did Ada live?' --context 'Ada lived in Oslo. Hugo "
                         f"lived in Riga. Ada lives in Rome now, and Rita in Bern, Caf\u00e9 \u4e2d\u56fd [MASK] abcdefghijkl.' "
                         f"{WINDOWS} {MACHINE} --top 3 --json"),
    "show squad": ("show squad", f"--model ../squad --input ../data.json {WINDOWS} {MACHINE}"),
    "tokenize": ("tokenize", "--model ../model ../lines.txt --ids"),
    "features squad": ("features squad", f"--model ../model --input ../data.json {WINDOWS} --jsonl"),
    "bench": ("bench train", f"--config ../config.json --data ../data.json --vocab ../vocab.txt {WINDOWS} {MACHINE} "
                             "--update_tokens 128 --steps 1"),
    "finetune classify": ("finetune classify", f"--model ../model --train ../table.csv --dev ../table.csv "
                                               f"--output out {OWN} {MACHINE} {UPDATES}"),
    "predict classify": ("predict classify", f"--model ../classes --input ../table.csv --output out {OWN} {MACHINE}"),
    "embed": ("embed", f"--model ../model {MACHINE} ../lines.txt"),
    "prepare": ("prepare", "--text ../text.txt --vocab ../vocab.txt --output out --max_seq_length 32 "
                           "--max_predictions_per_seq 4 --shards 2 --test_shards 1 --dupe_factor 2"),
    "pack": ("pack", "../shards out"),
    "pretrain": ("pretrain", f"--config_file ../config.json --vocab_file ../vocab.txt --input_dir ../shards "
                             f"--output out {MACHINE} {UPDATES}"),
    "vocab": ("vocab", "--text ../text.txt --output out --size 60"),
    "evaluate pretrain": ("evaluate pretrain", f"--model ../pretrained --input_dir ../shards --output out {MACHINE}"),
    "mlm": ("pretrain --objective mlm", f"--model ../model --train ../prose.txt --dev ../prose.txt --output out "
                                        f"{MASKED} {UPDATES}"),
    "evaluate mlm": ("evaluate pretrain --objective mlm", f"--model ../masked --dev ../prose.txt --output out {MASKED}"),
    "fill": ("fill", f"--model ../masked {MACHINE} --text '[MASK] Caf\u00e9 \u4e2d\u56fd lived in abcdefghijklmnopqrstuvwxyz'"),
    "finetune tokens": ("finetune tokens", f"--model ../model --train ../tags.txt --dev ../tags.txt --output out "
                                           f"{MACHINE} {UPDATES}"),
    "predict tokens": ("predict tokens", f"--model ../tagger --input ../tags.txt --output out {MACHINE}"),
    "finetune embed": ("finetune embed", f"--model ../model --train ../table.csv --dev ../table.csv "
                                         f"--output out {PAIR} {MACHINE} {UPDATES}"),
    "evaluate embed": ("evaluate embed", f"--model ../model --input ../table.csv --output out {PAIR} {MACHINE}"),
    "mine": ("mine", f"--model ../model --pairs ../table.csv {PAIR} --output out --output_scores {MACHINE}"),
    "finetune rerank": ("finetune rerank", f"--model ../model --train ../fits.csv --dev ../fits.csv "
                                           f"--output out {FITS} {MACHINE} {UPDATES}"),
    "evaluate rerank": ("evaluate rerank", f"--model ../ranker --input ../fits.csv --output out {FITS} {MACHINE}"),
    "classify": ("classify", f"--model ../classes {MACHINE} --json --score none --text '[MASK] Caf\u00e9 \u4e2d\u56fd lived in abcdefghijklmnopqrstuvwxyz'"),
}

SQUAD, CLASSIFY, PRETRAIN, MLM = "finetune squad", "finetune classify", "pretrain", "mlm"
TOKENS = "finetune tokens"
EMBED = "finetune embed"
RERANK = "finetune rerank"
SCRATCH = (f"pretrain --objective mlm --config_file ../config.json --vocab_file ../vocab.txt --train ../prose.txt "
           f"--validation_split_percentage 40 --output out {MASKED} {UPDATES}")


SET = "--queries ../queries.jsonl --corpus ../corpus.jsonl --relevant ../qrels.tsv"
RETRIEVAL_TRAINED = f"finetune embed --model ../model --train ../table.csv {SET} --output out {PAIR} {MACHINE} {UPDATES}"
RETRIEVAL = f"evaluate embed --model ../model {SET} --output out {MACHINE}"

# Of tasks by name.
MRPC = f"finetune classify --model ../model --task mrpc --data_dir ../glue --output out {MACHINE} {UPDATES}"
XNLI = f"finetune classify --model ../model --task xnli --data_dir ../xnli --output out {MACHINE} {UPDATES}"
MRPC_PREDICTED = f"predict classify --model ../classes --task mrpc --data_dir ../glue --output out {MACHINE}"
XNLI_PREDICTED = f"predict classify --model ../xnli-model --task xnli --data_dir ../xnli --split dev --output out {MACHINE}"
KERAS_SHOWN = f"show squad --model ../model --input ../answers.json {MACHINE} {LONG} --features keras --json"
WINDOWS_TRAINED = f"features squad --model ../model --input ../answers.json {WINDOWS} --training --jsonl"
KERAS_TRAINED = f"features squad --model ../model --input ../answers.json {LONG} --training --features keras --jsonl"


MICRO = "--per_device_train_batch_size 2 --gradient_accumulation_steps 2 --max_train_samples 7"


def on(line, value):
    """A case with a command line of its own."""
    return (value, "", None, line)


def dynamic(value):
    """Of a loss scale that overflows."""
    return (value, "--loss_scale dynamic --init_loss_scale 8e37 --loss_scale_window 1 --hysteresis 1 "
                   "--max_steps 12 --save_steps 100")


# What no pair of runs shows on every machine: the source that must read the setting.
READERS = {
    "threads": ("src/train/machine/machine.c", r"settings->threads"),           # the same results for any number
    # Other processes are there or not (tests/comm, tests/lab).
    "comm": ("src/train/machine/machine.c", r"config->machine\.comm"),
    "comm_timeout": ("src/train/machine/machine.c", r"config->machine\.comm_timeout"),
    "start_timeout": ("src/train/machine/machine.c", r"config->machine\.start_timeout"),
    # Memory does not change by itself (tests/train/test_replica_check.c).
    "replica_check_steps": ("src/train/job/rules.c", r"config->engine\.replica_check_steps"),
    "consecutive_hysteresis": ("src/train/optimizer/loss_scale.c", r"settings->consecutive_hysteresis"),
    "min_loss_scale": ("src/train/optimizer/loss_scale.c", r"settings->min_loss_scale"),
    # The same results in another number of batches.
    "predict_batch_size": ("src/train/inference/evaluate.c", r"config->task\.predict_batch_size"),
    # Figures of time alone.
    ("hidden_dropout_prob", "bench"): ("src/train/job/rules.c", r"config->model\.hidden_dropout_prob"),
    ("attention_probs_dropout_prob", "bench"): ("src/train/job/rules.c", r"config->model\.attention_probs_dropout_prob"),
    # Answers without their scores.
    ("doc_stride", "show squad"): ("src/task/squad_input.c", r"config->features\.doc_stride"),
    ("doc_overlap", "show squad"): ("src/task/squad_input.c", r"config->features\.doc_overlap"),
    # Its losses fall so evenly that no factor finds a spike.
    ("spike_factor", TOKENS): ("src/train/job/training_loop.c", r"loop->config->run\.spike_factor"),
    # No model here has a head for tokens and tensors beside it.
    ("strict", "evaluate rerank"): ("src/train/engine/inputs.c", r"\.strict = settings->strict"),
    ("strict", "predict tokens"): ("src/train/engine/inputs.c", r"\.strict = settings->strict"),
    # Words, without their scores.
    ("tokenize_chinese_chars", "predict tokens"): ("src/train/engine/inputs.c", r"settings->tokenize_chinese_chars"),
    ("precision", "show squad"): ("src/train/inference/predict.c", r"machine_inference_dtype\(&config->machine"),
    ("gelu", "show squad"): ("src/train/engine/inputs.c", r"settings->gelu, \"tanh\""),
    # Groups of so few tokens are one piece.
    "cached_negatives": ("src/task/embed.c", r"config->task\.cached_negatives"),
    # Ranks of vectors, which the other form does not change.
    ("gelu", "evaluate embed"): ("src/train/engine/inputs.c", r"settings->gelu, \"tanh\""),
    # It has no output to suppress.
    ("quiet", "tokenize"): ("cli/messages.c", r"config\.report\.quiet"),
    ("verbose", "tokenize"): ("cli/messages.c", r"config\.report\.verbose"),
    ("verbose", "features squad"): ("cli/messages.c", r"config\.report\.verbose"),
    "no_progress": ("src/report/reporter.c", r"settings->no_progress"),  # of a terminal
    "on_save_error": ("src/train/job/loop_saving.c", r"config->run\.on_save_error"),   # of a disk that is full
}

CASES = {
    # files
    "model_name_or_path": {"other": "../model2", PRETRAIN: ("../pretrained", "--seed 5")},
    "vocab_file": {"other": "../vocab2.txt", "bench": "../nowhere", "evaluate pretrain": "../nowhere"},
    "pre_layer_norm": "true",
    "gelu": "tanh",
    "train_file": {SQUAD: "../data2.json", CLASSIFY: "../table2.csv", TOKENS: "../tags2.txt", EMBED: "../table2.csv", MLM: "../lines.txt",
                   RERANK: "../fits2.csv"},
    "validation_file": {SQUAD: "../answers.json", CLASSIFY: "../table2.csv", TOKENS: "../tags2.txt", EMBED: "../table2.csv",
                        RERANK: "../fits2.csv", "predict classify": ("../table2.csv", "--do_eval --dev ../table.csv"),
                        "predict tokens": ("../tags2.txt", "--do_eval --dev ../tags.txt"), "other": "../lines.txt"},
    "predict_file": {"other": "../answers.json", CLASSIFY: "../table2.csv", "predict classify": "../table2.csv",
                     TOKENS: "../tags2.txt", "predict tokens": "../tags2.txt",
                     "features squad": "../nowhere"},
    **{name + "_file": {EMBED: on(RETRIEVAL_TRAINED, f"../{name}2{ending}"), "evaluate embed": on(RETRIEVAL, f"../{name}2{ending}")}
       for name, ending in (("queries", ".jsonl"), ("corpus", ".jsonl"), ("relevant", ".tsv"))},
    "output_dir": "elsewhere",
    "deepspeed_config": "../ds.json",
    # Predictions may go into the folder of a training run.
    "overwrite_output_dir": {"other": (None, "", "squad"), "vocab": (None, "", "vocab.txt"), "mine": (None, "", "vocab.txt")}
                            | {verb: (None, "", "model")
                               for verb in ("predict squad", "predict classify", "predict tokens", "evaluate pretrain",
                                            "evaluate mlm", "evaluate embed", "evaluate rerank")},
    "strict": {"other": (None, "--model ../pretrained"),
               "evaluate pretrain": (None, "--model ../squad --allow_new_head"),
               **{job: (None, "--model ../pretrained --allow_new_head") for job in ("predict squad", "answer", "classify", "predict classify")},
               PRETRAIN: (None, "--model ../squad")},
    # classification
    "task_name": {"other": ("mrpc", "--data_dir ../glue"), "bench": ("mrpc", "--data_dir ../glue")},
    "data_dir": {CLASSIFY: on(MRPC, "../nowhere"), "predict classify": on(MRPC_PREDICTED, "../nowhere"),
                 "bench": on("bench train --config ../config.json --vocab ../vocab.txt --task mrpc --data_dir ../glue "
                             f"{MACHINE} --update_tokens 128 --steps 1", "../nowhere")},
    "split": on(MRPC_PREDICTED, "dev"),
    "language": {CLASSIFY: on(XNLI, "en"), "predict classify": on(XNLI_PREDICTED, "en")},
    "text_column": {"other": "pair", TOKENS: "2", "predict tokens": "2"},
    "text_pair_column": {"other": "pair", **{job: "text" for job in (EMBED, "evaluate embed", RERANK, "evaluate rerank", "mine")}},
    "label_column": {"other": "pair", TOKENS: "2", "predict tokens": "0"},
    "class_weights": "balanced",
    "label_smoothing_factor": "0.3",
    "problem_type": "regression",
    "positive_weight": "3",
    # embeddings
    "negative_column": "label",
    "embedding_loss": "cosine",
    "negatives_batch": "2",
    "batch_sampler": "no_duplicates",
    "multi_dataset_batch_sampler": "round_robin",  # noted with one table
    "symmetric_negatives": None,
    "similarity_scale": "5",
    "teacher_model": ("../model2", "--embedding_loss mse"),
    "matryoshka_dims": "4",
    "matryoshka_weights": ("3,1", "--matryoshka_dims 8,4"),
    "triplet_margin": "1",
    "triplet_distance": "cosine",
    "pooling": "cls",
    **{name: {EMBED: on(RETRIEVAL_TRAINED, text), "evaluate embed": on(RETRIEVAL, text)}
       for name, text in (("query_prompt", "the"), ("corpus_prompt", "the"))},
    "normalize": "true",
    # pre-training
    "input_dir": "../shards2",
    "eval_dir": "../shards2",
    "config_file": "../config2.json",
    "recipe": "google",
    "phase2": (None, "--resume_from_checkpoint auto", "pretrained"),
    "phase1_end_step": "3",
    "steps_this_run": "1",
    "line_by_line": None,
    "validation_split_percentage": on(SCRATCH, "50"),
    "vocab_multiple": {PRETRAIN: "100", MLM: on(SCRATCH, "100")},
    "initializer": {PRETRAIN: "truncated_normal", MLM: on(SCRATCH, "truncated_normal")},
    # text and features
    "max_seq_length": {"other": "24", "show squad": ("4096", "")},
    "doc_stride": {"other": "4", "answer": ("4", "--max_seq_length 24"), TOKENS: ("2", "--max_seq_length 12"),
                   "predict tokens": ("2", "--max_seq_length 12")},
    "doc_overlap": {"other": "20", "answer": ("4", "--max_seq_length 24")},
    "max_query_length": "4",
    "do_lower_case": "false",
    "strip_accents": "false",
    "tokenize_chinese_chars": {"other": "false", "show squad": ("false", LONG)},
    "tokenizer": {"other": "google", "prepare": ("google", "--text ../prose.txt")},
    "max_word_length": "3",
    "split_special": {"other": "true", "prepare": ("true", "--text ../prose.txt")},
    "pair_truncation": ("google", "--text_column pair --text_pair_column text --max_seq_length 8"),
    "features": "keras",
    "keras_answers": {SQUAD: ("all", f"--features keras --train ../answers.json {LONG}"), "show squad": on(KERAS_SHOWN, "all"),
                      "features squad": on(KERAS_TRAINED, "all")},
    "keras_end": {"other": ("exclusive", f"--features keras {LONG}"), "show squad": on(KERAS_SHOWN, "exclusive"),
                  "features squad": on(KERAS_TRAINED, "exclusive")},
    "window_filter": {SQUAD: ("words", "--max_seq_length 32"),
                      "features squad": on(WINDOWS_TRAINED.replace("64", "32").replace("answers", "data"), "words")},
    "strict_answers": {"other": (None, "--input ../moved.json"), SQUAD: (None, "--train ../moved.json")},
    "version_2_with_negative": {"other": None, "show squad": (None, "--null_score_diff_threshold=-100"),
                                "features squad": (None, f"--features keras {LONG}")},
    "max_train_samples": "3",
    "max_eval_samples": "3",
    # data for pre-training
    "max_predictions_per_seq": "1",
    "dupe_factor": "1",
    "masked_lm_prob": "0.01",
    "short_seq_prob": "0.9",
    "whole_word_mask": None,
    "rng": "python",
    "shards": "3",
    "test_shards": "2",
    "fraction_test_set": "0.5",
    "stages": "text",
    "pack": None,
    "format": "tfrecord",
    # training
    "train_batch_size": "2",
    "per_device_train_batch_size": "2",
    "gradient_accumulation_steps": "2",
    "gradient_checkpointing": {"other": None, SQUAD: (None, LONG)},
    "freeze_layers": "1",
    "freeze_embeddings": None,
    "num_train_epochs": {"other": ("1", "--max_steps 0"), EMBED: ("2", "--max_steps 0"), RERANK: ("2", "--max_steps 0")},
    "max_steps": "3",
    "steps_rule": ("epochs", "--max_steps 3 --num_train_epochs 5"),
    "max_steps_per_epoch": "1",
    "dataloader_drop_last": {"other": (None, "--max_train_samples 7"), PRETRAIN: None},
    "learning_rate": "1e-3",
    "lr_scaling": "sqrt",                # noted in one process, as are independent workers
    "workers": "independent",
    "warmup_proportion": "0.9",
    "warmup_steps": "3",
    "warmup_round_up": (None, "--warmup_proportion 0.3"),
    "schedule": "constant",
    "lr_offset": "1e-2",
    "decay_rate": ("0.1", "--schedule EE"),
    "decay_step": ("2", "--schedule EE"),
    "rewarmup": {SQUAD: (None, "--resume_from_checkpoint auto", "half-squad"),
                 CLASSIFY: (None, "--resume_from_checkpoint auto", "half-classes"),
                 EMBED: (None, "--resume_from_checkpoint auto", "half-embed"),
                 RERANK: (None, "--resume_from_checkpoint auto", "half-ranker"),
                 TOKENS: (None, "--resume_from_checkpoint auto", "half-tagger"),
                 PRETRAIN: (None, "--resume_from_checkpoint auto", "half-pretrained"),
                 MLM: (None, "--resume_from_checkpoint auto", "half-masked")},
    "warmup_min_lr": ("1e-3", "--schedule warmup_log"),
    "cos_min_ratio": ("0.5", "--schedule warmup_cosine_log"),
    "optimizer": "bertadam",
    "weight_decay": "0.5",
    "no_decay": "none",
    "zero_stage": "1",                   # noted in one process, as is the type of what is exchanged
    "communication_data_type": "bf16",
    "overlap_comm": "false",
    "topology": "racks",
    "reduce": "native",
    "gpu_exchange": "mpi",
    "reduce_bucket_size": "1000",
    "allgather_bucket_size": "1000",
    "virtual_ranks": {"other": "4", EMBED: ("4", "--negatives_batch 2")},
    "shard_order": "rank",
    "adam_beta1": "0.5",
    "adam_beta2": "0.5",
    "adam_epsilon": "0.1",
    "eps_inside_sqrt": None,
    "bias_correction": "false",
    "adam_w_mode": "false",
    "max_coeff": ("0.05", "--optimizer lamb"),
    "min_coeff": ("9", "--optimizer lamb"),
    "max_grad_norm": "0.01",
    "clip_by": ("tensor", "--max_grad_norm 0.01"),
    "loss_scale": "1e30",
    "loss_scaler": dynamic("plain"),
    "init_loss_scale": dynamic("8"),
    "loss_scale_window": dynamic("100"),
    "hysteresis": dynamic("3"),
    "hidden_dropout_prob": "0.5",
    "attention_probs_dropout_prob": "0.5",
    "loss_average": {SQUAD: ("micro", f"{MICRO} {LONG}"),
                     PRETRAIN: ("micro", "--per_device_train_batch_size 2 --gradient_accumulation_steps 2 --max_steps 20"), "other": ("micro", f"{MICRO} --max_steps 20")},
    "seed": {"other": "5", "show squad": ("5", "--random-samples 3")},
    "precision": "bf16",
    "tf32": None,                        # a CPU notes that it has none
    "do_eval": {"other": "false", "predict classify": (None, "--dev ../table.csv"), "predict tokens": (None, "--dev ../tags.txt")},
    "evaluate_every_epoch": {"other": ("false", "--max_steps 8"), PRETRAIN: (None, "--max_steps 90")},
    "eval_steps": "1",
    "eval_strategy": "steps",
    "eval_delay": ("3", "--eval_steps 2"),
    "eval_on_start": None,
    "metric_for_best_model": "loss",
    "greater_is_better": {SQUAD: ("false", "--eval_steps 2 --learning_rate 2e-3 --max_steps 12"),
                          "other": ("true", "--eval_steps 1 --metric_for_best_model loss"),
                          EMBED: ("false", "--eval_steps 1")},
    "early_stopping_patience": "1",
    "spike_policy": ("warn", "--spike_factor 1 --max_steps 16"),
    "spike_factor": ("1", "--spike_policy skip --max_steps 16"),
    "early_stopping_threshold": {SQUAD: ("1000", "--eval_steps 1 --early_stopping_patience 1"), "other": "1000"},
    "do_predict": {"other": on(MRPC, None), TOKENS: (None, "--input ../tags.txt --do_predict false"),
                   "predict classify": (None, "--do_eval --dev ../table.csv"),
                   "predict tokens": (None, "--do_eval --dev ../tags.txt")},
    # checkpoints
    "save_steps": "1",
    "async_save": None,
    "save_format": "torch",
    "mean_time_to_failure": "60", # noted without save_steps auto
    "save_total_limit": "1",
    "save_strategy": "no",
    "load_best_model_at_end": (None, "--eval_steps 1 --learning_rate 0.3"),
    "skip_checkpoint": None,
    "resume_from_checkpoint": {SQUAD: (None, "--seed 42", "half-squad"), CLASSIFY: (None, "", "half-classes"),
                               TOKENS: (None, "", "half-tagger"), EMBED: (None, "", "half-embed"),
                               RERANK: (None, "", "half-ranker"), PRETRAIN: (None, "", "half-pretrained"), MLM: (None, "", "half-masked")},
    "resume_step": ("2", "", "half-pretrained"),
    # prediction
    "n_best_size": {"other": "1", "answer": ("1", "--answer_score softmax")},
    "max_answer_length": {"other": "1", "show squad": ("1", "--model ../model")},
    "align_to_words": ("false", "--max_answer_length 2 --top 40"),
    "answer_score": "softmax",
    "allow_new_head": {"other": (None, "--model ../pretrained"), "evaluate pretrain": (None, "--model ../squad"),
                       "evaluate mlm": (None, "--model ../squad"), "fill": (None, "--model ../squad"),
                       "classify": (None, "--model ../squad")},
    "null_score_diff_threshold": ("1000", "--version_2_with_negative"),
    # machine
    "device": "cuda",
    "instructions": "generic",
    # reports
    "logging_steps": "3",
    "logging_strategy": "no",
    "logging_first_step": (None, "--logging_steps 3"),
    "log_format": "deepspeed",
    "json_summary": "summary.jsonl",
    "logging_dir": "scalars",
    "report": "report.html",
    "report_every": "5",
    "logging_axis": ("steps", "--logging_dir scalars"),
    "loss_plot_alpha": ("0.9", "--json_summary summary.jsonl"),
    "wall_clock_breakdown": None,
    "profile": "1:1",
    "profile_output": ("profile.json", "--profile 1:1"),
    "quiet": {"other": None, "features squad": on("features squad --model ../model2 --input ../data.json --count", None)},
    "verbose": "false",
    "dry_run": None,
    # Rows of READERS, for their other names alone.
    "threads": "2",
    "predict_batch_size": "3",
    "no_progress": None,
}
