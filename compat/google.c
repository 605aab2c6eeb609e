// SPDX-License-Identifier: Apache-2.0
// Google's BERT: fine-tuning on questions and on texts, pre-training and its data; and Intel's
// package, whose programs are Google's with flags of their own, and whose launcher starts them.
//
// Both compute the tanh form of "gelu", and continue what is in the output folder. Intel's batch is
// that of one process, its rate grows with the square root of their number, and its processes
// divide the number of updates: either they compute each update together, or each trains alone. The
// command line is read by translate.c.
#include "core/file.h"
#include "core/launcher.h"
#include "core/number.h"
#include "program.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- fine-tuning ---------------------------------------------------------------------------------

// Without training, the model is what an earlier run has left in the output folder; these programs
// then do not read init_checkpoint.
static void use_trained(struct compat_line *line) {
    const char *folder = compat_get(line, "output_dir");
    if (folder != NULL && (compat_file_in(line, folder, "config.json") != NULL ||
                           compat_file_in(line, folder, "checkpoint") != NULL)) {
        compat_set(line, "model_name_or_path", folder);
        compat_drop(line, "config_file");
    }
}

static enum berth_status finish_squad(struct compat_line *line, struct berth_error *error) {
    if (!compat_is_on(line, "do_train")) {
        use_trained(line);
    }
    return compat_squad_modes(line, error);
}

static enum berth_status finish_classifier(struct compat_line *line, struct berth_error *error) {
    if (!compat_is_on(line, "do_train")) {
        use_trained(line);
    }
    return compat_classify_modes(line, error);
}

// Files: a list or pattern of input_file is both the training data and what do_eval evaluates on.
static enum berth_status finish_pretraining(struct compat_line *line, struct berth_error *error) {
    const int trains = compat_is_on(line, "do_train"), evaluates = compat_is_on(line, "do_eval");
    const char *files = compat_value(line, "input_file");
    const char *batch = compat_get(line, "predict_batch_size");
    int64_t steps, sequences = 8;
    TRY(compat_integer(line, "max_eval_steps", 1, 100, &steps, error));
    if (batch != NULL) {
        number_parse_integer(batch, &sequences);
    }
    if (!trains && !evaluates) {
        return error_set(error, BERTH_USAGE, "nothing to do: give --do_train or --do_eval");
    }
    if (files != NULL) {
        compat_set(line, "input_dir", files);
    }
    if (evaluates && compat_get(line, "eval_dir") == NULL && files != NULL && !dir_exists(files)) {
        compat_set(line, "eval_dir", files);
    }
    if (trains) {
        compat_set(line, "do_eval", evaluates ? "true" : "false");
    } else {
        use_trained(line);
        compat_verb(line, "evaluate pretrain");
    }
    if (evaluates) {
        compat_set_integer(line, "max_eval_samples", steps * sequences);
    }
    return BERTH_OK;
}

static const struct compat_flag common_flags[] = {
    TO(COMPAT_VALUE, "bert_config_file", "config_file"),
    TO(COMPAT_VALUE, "init_checkpoint", "model_name_or_path"),
    TO(COMPAT_VALUE, "save_checkpoints_steps", "save_steps"), FLAGS_END};
static const struct compat_flag batch_flags[] = {SAME(COMPAT_VALUE, "train_batch_size"), FLAGS_END};
static const struct compat_flag classifier_flags[] = {
    SAME(COMPAT_VALUE, "data_dir task_name vocab_file output_dir max_seq_length learning_rate "
                       "num_train_epochs warmup_proportion predict_batch_size"),
    TO(COMPAT_VALUE, "eval_batch_size", "predict_batch_size"),
    SAME(COMPAT_SWITCH, "do_lower_case"),
    READS(COMPAT_SWITCH, "do_train", "berth finetune classify; without it berth predict classify"),
    READS(COMPAT_SWITCH, "do_eval do_predict", "the option of the same name"),
    FLAGS_END};
static const struct compat_flag pretraining_flags[] = {
    SAME(COMPAT_VALUE, "output_dir max_seq_length max_predictions_per_seq learning_rate"),
    READS(COMPAT_VALUE, "input_file", "--input_dir; with do_eval also --eval_dir"),
    READS(COMPAT_SWITCH, "do_train", "berth pretrain; without it berth evaluate pretrain"),
    READS(COMPAT_SWITCH, "do_eval", "evaluates on the files of input_file"),
    TO(COMPAT_VALUE, "eval_batch_size", "predict_batch_size"),
    TO(COMPAT_VALUE, "num_train_steps", "max_steps"),
    TO(COMPAT_VALUE, "num_warmup_steps", "warmup_steps"),
    READS(COMPAT_VALUE, "max_eval_steps", "--max_eval_samples, batches of eval_batch_size (8)"),
    FLAGS_END};

// --- the data of pre-training --------------------------------------------------------------------

static const struct compat_flag data_flags[] = {
    SAME(COMPAT_VALUE, "input_file output_file vocab_file max_seq_length max_predictions_per_seq "
                       "dupe_factor masked_lm_prob short_seq_prob"),
    SAME(COMPAT_SWITCH, "do_lower_case"),
    TO(COMPAT_SWITCH, "do_whole_word_mask", "whole_word_mask"),
    TO(COMPAT_VALUE, "random_seed", "seed"), FLAGS_END};

#define RECIPE "recipe=google gelu=tanh resume_from_checkpoint=auto"
#define CLASSIFIER(flags_of_system)                                                                \
    .name = "run_classifier.py", .verb = "finetune classify", .settings = RECIPE,                  \
    .required = "data_dir bert_config_file task_name vocab_file output_dir",                       \
    .flags = {classifier_flags, common_flags, compat_tensorflow_flags, flags_of_system}
#define SQUAD(flags_of_system)                                                                     \
    .name = "run_squad.py", .verb = "finetune squad", .settings = RECIPE,                          \
    .required = "bert_config_file vocab_file output_dir",                                          \
    .flags = {compat_question_flags, common_flags, compat_tensorflow_flags, flags_of_system}
#define PRETRAINING(flags_of_system)                                                               \
    .name = "run_pretraining.py", .verb = "pretrain", .settings = RECIPE,                          \
    .required = "bert_config_file input_file output_dir",                                          \
    .flags = {pretraining_flags, common_flags, compat_tensorflow_flags, flags_of_system}

const struct compat_program compat_google[] = {
    {.system = "google",
     SQUAD(batch_flags),
     .finish = finish_squad,
     .summary = "fine-tuning on SQuAD"},
    {.system = "google",
     CLASSIFIER(batch_flags),
     .finish = finish_classifier,
     .summary = "fine-tuning on MRPC and other tasks of GLUE"},
    {.system = "google",
     PRETRAINING(batch_flags),
     .finish = finish_pretraining,
     .summary = "pre-training"},
    {.system = "google",
     .name = "create_pretraining_data.py",
     .verb = "prepare",
     .settings = "dupe_factor=10",
     .required = "input_file output_file vocab_file",
     .flags = {data_flags},
     .summary = "instances for pre-training from one text"},
    {.name = NULL}};

// --- Intel's programs ----------------------------------------------------------------------------

#define FRAMEWORK "it belongs to TensorFlow"
#define PRECISIONS "bfloat16=bf16 float16=fp16 float32=fp32"

static const struct compat_flag intel_flags[] = {
    READS(COMPAT_VALUE, "train_batch_size",
          "sequences of one process: --per_device_train_batch_size x "
          "--gradient_accumulation_steps"),
    READS(COMPAT_VALUE, "accum_steps", "--gradient_accumulation_steps"),
    {.names = "precision", .kind = COMPAT_VALUE, .option = "", .values = PRECISIONS},
    TO(COMPAT_VALUE, "intra_op intra_op_parallelism_threads", "threads"),
    SETS("profile", "profile", "true", NULL),
    READS(COMPAT_SWITCH, "mpi_workers_sync_gradients",
          "false, the default of run_squad.py: of several processes --workers independent"),
    NOT_NEEDED(COMPAT_VALUE, "inter_op inter_op_parallelism_threads", FRAMEWORK),
    NOT_NEEDED(COMPAT_SWITCH, "disable_v2_bevior new_bf16_scope optimized_softmax", FRAMEWORK),
    SETS("experimental_gelu", "gelu", "erf", NULL),
    FLAGS_END};

// The processes of the run; the launcher's flag is checked where it starts them.
static int64_t process_count(const struct compat_line *line) {
    const char *asked = compat_value(line, "mpi_num_processes");
    int64_t count = launch_find().size;
    if (count <= 1 && (asked == NULL || !number_parse_integer(asked, &count))) {
        count = 1;
    }
    return count;
}

// Sequences of one process in an update.
static int64_t own_batch(const struct compat_line *line) {
    int64_t micro = 1, parts = 1;
    number_parse_integer(compat_get(line, "per_device_train_batch_size"), &micro);
    number_parse_integer(compat_get(line, "gradient_accumulation_steps"), &parts);
    return micro * parts;
}

// The processes compute each update together.
static void train_together(struct compat_line *line, int64_t processes) {
    const int64_t batch = own_batch(line);
    compat_note(line,
                "train_batch_size is that of one process: %" PRId64 " processes x %" PRId64
                " = %" PRId64 " sequences an update",
                processes, batch, processes * batch);
}

// Each process trains a model of its own, in its part of the updates. `epochs`: the program's
// default.
static enum berth_status train_alone(struct compat_line *line, int64_t processes, double epochs,
                                     struct berth_error *error) {
    const char *given = compat_get(line, "num_train_epochs");
    const int is_squad = strcmp(line->plan->commands[0].verb, "finetune squad") == 0;
    char part[32];
    if (given != NULL) {
        number_parse_real(given, &epochs);
    }
    number_format(part, sizeof part, "%.15g", epochs / (double)processes);
    if (is_squad && compat_get(line, "validation_file") == NULL &&
        compat_value(line, "predict_file") != NULL) {
        compat_set(line, "validation_file", compat_value(line, "predict_file"));
    }
    if (is_squad ? compat_get(line, "validation_file") == NULL
                 : strcmp(compat_get(line, "do_eval"), "true") != 0) {
        return error_set(error, BERTH_CONFIG,
                         "--mpi_workers_sync_gradients is False, so %" PRId64
                         " processes train a model each, and evaluate it to find the best one: "
                         "give %s, or --mpi_workers_sync_gradients=True to train one model",
                         processes, is_squad ? "--predict_file" : "--do_eval=True");
    }
    compat_set(line, "workers", "independent");
    compat_set(line, "num_train_epochs", compat_text(line, "%s", part));
    compat_note(line,
                "--mpi_workers_sync_gradients is False: %" PRId64 " processes x %" PRId64
                " sequences, each trains a model of its own in num_train_epochs %.15g / %" PRId64
                " = %s, and the best one is kept; True: they train one model",
                processes, own_batch(line), epochs, processes, part);
    return BERTH_OK;
}

// Fine-tuning after compat_batch_of_process. `alone`: what is meant without
// mpi_workers_sync_gradients; run_classifier.py, which has no such flag, trains one model.
static enum berth_status finish_finetuning(struct compat_line *line, int alone, double epochs,
                                           struct berth_error *error) {
    const int64_t processes = process_count(line);
    if (processes <= 1 || strncmp(line->plan->commands[0].verb, "finetune", 8) != 0) {
        return BERTH_OK;
    }
    if (compat_value(line, "mpi_workers_sync_gradients") != NULL) {
        alone = !compat_is_on(line, "mpi_workers_sync_gradients");
    }
    compat_set(line, "lr_scaling", "sqrt");
    if (alone) {
        return train_alone(line, processes, epochs, error);
    }
    train_together(line, processes);
    return BERTH_OK;
}

// The updates of all processes, of which each computes its part. The defaults are the program's.
static enum berth_status finish_intel_steps(struct compat_line *line, int64_t steps, int64_t warmup,
                                            struct berth_error *error) {
    const int64_t processes = process_count(line);
    const char *sync = compat_value(line, "mpi_workers_sync_gradients");
    TRY(compat_integer(line, "num_train_steps ts", 1, steps, &steps, error));
    TRY(compat_integer(line, "num_warmup_steps warmup_steps", 0, warmup, &warmup, error));
    if (strcmp(line->plan->commands[0].verb, "pretrain") != 0) {
        return BERTH_OK;
    }
    if (sync != NULL && !compat_is_on(line, "mpi_workers_sync_gradients") && processes > 1) {
        compat_note(line, "--mpi_workers_sync_gradients False is not needed: in pre-training the "
                          "processes always train one model");
    }
    if (steps < processes) {
        return error_set(error, BERTH_CONFIG,
                         "num_train_steps %" PRId64
                         " is less than the number of processes, %" PRId64 ", which divide it",
                         steps, processes);
    }
    if (processes > 1 || compat_value(line, "num_train_steps ts") != NULL) {
        compat_set_integer(line, "max_steps", steps / processes);
    }
    if (processes > 1 || compat_value(line, "num_warmup_steps warmup_steps") != NULL) {
        compat_set_integer(line, "warmup_steps", warmup / processes);
    }
    if (processes > 1) {
        compat_set(line, "lr_scaling", "sqrt");
        train_together(line, processes);
        compat_note(line,
                    "num_train_steps is that of all processes: %" PRId64 " / %" PRId64 " = %" PRId64
                    " updates",
                    steps, processes, steps / processes);
    }
    return BERTH_OK;
}

static enum berth_status finish_intel_squad(struct compat_line *line, struct berth_error *error) {
    TRY(compat_batch_of_process(line, "train_batch_size", "accum_steps", 32, error));
    TRY(finish_squad(line, error));
    return finish_finetuning(line, 1, 3, error);
}

static enum berth_status finish_intel_classifier(struct compat_line *line,
                                                 struct berth_error *error) {
    TRY(compat_batch_of_process(line, "train_batch_size", "accum_steps", 32, error));
    TRY(finish_classifier(line, error));
    return finish_finetuning(line, 0, 3, error);
}

static enum berth_status finish_intel_pretraining(struct compat_line *line,
                                                  struct berth_error *error) {
    TRY(compat_batch_of_process(line, "train_batch_size", "accum_steps", 32, error));
    TRY(finish_pretraining(line, error));
    return finish_intel_steps(line, 100000, 10000, error);
}

// --- Intel's launcher ----------------------------------------------------------------------------

static const struct compat_flag launcher_flags[] = {
    READS(COMPAT_VALUE, "train_option", "SQuAD, Classifier or Pretraining: the verb"),
    READS(COMPAT_VALUE, "mode mo", "training; inference: as do_train false"),
    READS(COMPAT_VALUE, "batch_size b",
          "sequences of one process (24): --per_device_train_batch_size"),
    READS(COMPAT_VALUE, "train_batch_size", "the same"),
    {.names = "precision p", .kind = COMPAT_VALUE, .option = "precision", .values = PRECISIONS},
    SAME(COMPAT_VALUE, "output_dir config_file learning_rate max_seq_length vocab_file train_file "
                       "num_train_epochs doc_stride warmup_steps task_name data_dir"),
    SAME(COMPAT_SWITCH, "do_lower_case"),
    TO(COMPAT_VALUE, "init_checkpoint", "model_name_or_path"),
    READS(COMPAT_VALUE, "checkpoint c", "--model_name_or_path where init_checkpoint is not given"),
    READS(COMPAT_VALUE, "data_location d", "the folder of data that no other option names"),
    READS(COMPAT_SWITCH, "do_train do_predict do_eval", "as in the program (true)"),
    READS(COMPAT_VALUE, "predict_file", "--validation_file; without do_train --predict_file"),
    READS(COMPAT_VALUE, "input_file", "--input_dir; with do_eval also --eval_dir"),
    READS(COMPAT_VALUE, "num_train_steps ts", "of Pretraining: --max_steps"),
    TO(COMPAT_VALUE, "max_predictions", "max_predictions_per_seq"),
    SAME(COMPAT_VALUE, "max_predictions_per_seq max_query_length predict_batch_size "
                       "warmup_proportion n_best_size max_answer_length "
                       "null_score_diff_threshold"),
    SAME(COMPAT_SWITCH, "version_2_with_negative"),
    TO(COMPAT_VALUE, "bert_config_file", "config_file"),
    TO(COMPAT_VALUE, "eval_batch_size", "predict_batch_size"),
    TO(COMPAT_VALUE, "save_checkpoints_steps", "save_steps"),
    TO(COMPAT_VALUE, "num_warmup_steps", "warmup_steps"),
    READS(COMPAT_VALUE, "max_eval_steps", "--max_eval_samples, batches of eval_batch_size (8)"),
    READS(COMPAT_VALUE, "accum_steps", "--gradient_accumulation_steps"),
    SETS("profile", "profile", "true", NULL),
    {.names = "num_cores n num_intra_threads a",
     .kind = COMPAT_VALUE,
     .option = "threads",
     .values = "-1="},
    READS(COMPAT_SWITCH, "mpi_workers_sync_gradients",
          "false, the default: of several processes in fine-tuning --workers independent"),
    READS(COMPAT_VALUE, "mpi_num_processes", "mpirun -np N --map-by socket"),
    READS(COMPAT_VALUE, "mpi_num_processes_per_socket", "mpirun --map-by ppr:N:socket"),
    READS(COMPAT_VALUE, "mpi_hostnames", "mpirun --host HOSTS"),
    ONLY(COMPAT_VALUE, "socket_id i", "-1",
         "`numactl -N SOCKET -m SOCKET berth as ...` runs on a socket"),
    ONLY(COMPAT_VALUE, "num_instances", "1",
         "runs beside each other are commands with output folders of their own"),
    NOT_NEEDED(COMPAT_VALUE, "model_name m", "init_checkpoint or --checkpoint names the model"),
    NOT_NEEDED(COMPAT_VALUE, "framework f DEBIAN_FRONTEND", FRAMEWORK),
    NOT_NEEDED(COMPAT_VALUE, "num_inter_threads e data_num_intra_threads data_num_inter_threads",
               FRAMEWORK),
    NOT_NEEDED(COMPAT_SWITCH, "optimized_softmax use_tpu debug", FRAMEWORK),
    SETS("experimental_gelu", "gelu", "erf", NULL),
    NOT_NEEDED(COMPAT_SWITCH, "benchmark_only k accuracy_only",
               "speed and scores are always reported"),
    NOT_NEEDED(COMPAT_SWITCH, "output_results", "predictions are always written"),
    NOT_NEEDED(COMPAT_SWITCH, "disable_tcmalloc", "no other allocator is loaded"),
    NOT_NEEDED(COMPAT_SWITCH, "verbose", "--json_summary FILE writes every record"),
    NOT_NEEDED(COMPAT_VALUE, "docker_image volume",
               "Berth runs where it is started: `docker run ... berth ...` is a container"),
    FLAGS_END};

// The option's value is FOLDER/NAME, if it is not set and there is such a file or folder.
static void set_inside(struct compat_line *line, const char *option, const char *folder,
                       const char *name) {
    const char *path = folder != NULL ? compat_file_in(line, folder, name) : NULL;
    if (path != NULL) {
        compat_default(line, option, path);
    }
}

// Whether the first mpirun on PATH is MPICH's, some of whose options have other names.
static int is_hydra(void) {
    const char *path = getenv("PATH");
    for (const char *at = path != NULL ? path : ""; *at != '\0';) {
        const size_t length = strcspn(at, ":");
        char file[4096], *real;
        snprintf(file, sizeof file, "%.*s/mpirun", (int)length, at);
        real = realpath(file, NULL);
        if (real != NULL) {
            const int answer = strstr(real, "hydra") != NULL;
            free(real); // realpath's
            return answer;
        }
        at += length + (at[length] == ':');
    }
    return 0;
}

// One process on each socket in turn.
static enum berth_status launch(struct compat_line *line, struct berth_error *error) {
    const struct launch started = launch_find();
    const char *hosts = compat_value(line, "mpi_hostnames"),
               *each = compat_value(line, "mpi_num_processes_per_socket");
    int64_t count;
    TRY(compat_integer(line, "mpi_num_processes", 1, 1, &count, error));
    if (started.size > 1) {
        return count == 1 || count == started.size
                   ? BERTH_OK
                   : error_set(error, BERTH_CONFIG,
                               "mpi_num_processes is %" PRId64 ", but %s started %" PRId64
                               " processes",
                               count, started.launcher->name, started.size);
    }
    if (count == 1) {
        if (hosts != NULL || each != NULL) {
            compat_note(line, "mpi_hostnames and mpi_num_processes_per_socket are for "
                              "mpi_num_processes of at least 2");
        }
        return BERTH_OK;
    }
    const int hydra = is_hydra();
    compat_launch_processes(line, count);
    compat_launch(line, hydra ? "-map-by" : "--map-by",
                  each != NULL && !hydra ? compat_text(line, "ppr:%s:socket", each) : "socket");
    if (hosts != NULL) {
        compat_launch(line, hydra ? "-hosts" : "--host", hosts);
    }
    return BERTH_OK;
}

enum training { SQUAD_TRAINING, CLASSIFIER_TRAINING, PRETRAINING_TRAINING, TRAININGS };
static const char *const trainings[TRAININGS] = {"SQuAD", "Classifier", "Pretraining"};

// The launcher's own default of a flag of the program.
static void default_to(struct compat_line *line, const char *name, const char *value) {
    if (compat_value(line, name) == NULL) {
        compat_give(line, name, value);
    }
}

static enum berth_status finish_launcher(struct compat_line *line, struct berth_error *error) {
    const char *option = compat_value(line, "train_option"), *mode = compat_value(line, "mode mo");
    const char *data = compat_value(line, "data_location d"),
               *model = compat_value(line, "checkpoint c");
    const char *batch = compat_value(line, "batch_size b train_batch_size");
    int i = 0;
    option = option != NULL ? option : "SQuAD";
    while (i < TRAININGS && strcmp(trainings[i], option) != 0) {
        i++;
    }
    if (i == TRAININGS) {
        return error_set(error, BERTH_USAGE,
                         "option train_option: expected SQuAD, Classifier or Pretraining, found "
                         "\"%s\"",
                         option);
    }
    if (mode != NULL && strcmp(mode, "training") != 0 && strcmp(mode, "inference") != 0) {
        return error_set(error, BERTH_USAGE,
                         "option mode: expected training or inference, found \"%s\"", mode);
    }
    default_to(line, "do_train", mode != NULL && strcmp(mode, "inference") == 0 ? "false" : "true");
    compat_default(line, "do_lower_case", "false");
    if (model != NULL) {
        compat_default(line, "model_name_or_path", model);
    }
    TRY(launch(line, error));
    if (batch != NULL) {
        compat_give(line, "train_batch_size", strcmp(batch, "-1") != 0 ? batch : "24");
    }
    TRY(compat_batch_of_process(line, "train_batch_size", "accum_steps", 24, error));
    compat_verb(line, i == SQUAD_TRAINING        ? "finetune squad"
                      : i == CLASSIFIER_TRAINING ? "finetune classify"
                                                 : "pretrain");
    if (i == SQUAD_TRAINING) {
        const char *dev = data != NULL ? compat_file_in(line, data, "dev-v1.1.json") : NULL;
        set_inside(line, "train_file", data, "train-v1.1.json");
        if (dev != NULL) {
            default_to(line, "predict_file", dev);
        }
        default_to(line, "do_predict",
                   compat_value(line, "predict_file") != NULL ? "true" : "false");
        TRY(finish_squad(line, error));
        return finish_finetuning(line, 1, 20, error);
    }
    default_to(line, "do_eval", "true");
    if (i == CLASSIFIER_TRAINING) {
        compat_default(line, "task_name", "MRPC");
        set_inside(line, "data_dir", data, compat_get(line, "task_name"));
        if (data != NULL) {
            compat_default(line, "data_dir", data);
        }
        TRY(finish_classifier(line, error));
        return finish_finetuning(line, 1, 20, error);
    }
    if (data != NULL) {
        default_to(line, "input_file", data);
    }
    TRY(finish_pretraining(line, error));
    return finish_intel_steps(line, 20, 10, error);
}

const struct compat_program compat_intel[] = {
    {.system = "intel",
     .name = "launch_benchmark.py",
     .verb = "finetune squad",
     .settings = "recipe=intel gelu=tanh resume_from_checkpoint=auto",
     .flags = {launcher_flags},
     .finish = finish_launcher,
     .summary = "the launcher: SQuAD, classifiers and pre-training, one process or several"},
    {.system = "intel",
     SQUAD(intel_flags),
     .finish = finish_intel_squad,
     .summary = "fine-tuning on SQuAD"},
    {.system = "intel",
     CLASSIFIER(intel_flags),
     .finish = finish_intel_classifier,
     .summary = "fine-tuning on MRPC and other tasks of GLUE"},
    {.system = "intel",
     PRETRAINING(intel_flags),
     .finish = finish_intel_pretraining,
     .summary = "pre-training"},
    {.name = NULL}};
