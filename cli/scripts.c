// SPDX-License-Identifier: Apache-2.0
// What the command line of an original program means beyond its flags: the settings that are
// hard-coded in the program (a recipe), the model and the data that it names, files in other
// folders.
#include "cli.h"
#include "core/file.h"
#include "core/memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

// --- whose command line it is -------------------------------------------------------------------

static const char *google(const struct cli_call *call) {
    (void)call;
    return "google";
}

static const char *intel(const struct cli_call *call) {
    (void)call;
    return "intel";
}

static const char *hugging_face(const struct cli_call *call) {
    (void)call;
    return "hugging-face";
}

// Its fused optimizer has no bias correction; without it, BertAdam.
static const char *habana(const struct cli_call *call) {
    return call->origin.fuses_adam ? "habana" : "habana-bertadam";
}

static int is_half(const struct cli_call *call) {
    return call->config.precision == BERTH_BF16 || call->config.precision == BERTH_FP16;
}

// apex's FusedAdam in fp16, BertAdam in fp32.
static const char *nvidia_squad(const struct cli_call *call) {
    return is_half(call) ? "nvidia-squad" : "nvidia-squad-bertadam";
}

static const char *bing_bert(const struct cli_call *call) {
    (void)call;
    return "bing-bert";
}

// Without the engine's file, the baseline program: FusedAdam in fp16, BertAdam in fp32.
static const char *bing_bert_squad(const struct cli_call *call) {
    return call->config.deepspeed_config != NULL || is_half(call) ? "bing-bert-squad"
                                                                  : "bing-bert-squad-baseline";
}

// In order of precedence: the command line belongs to the first program that has a flag, or a pair
// of flags, which identifies it.
static const struct cli_script {
    const char *program;
    unsigned job;
    const char *(*recipe)(const struct cli_call *call);
    const char *flags;   // that only this program has, of those that have the job; NULL: none
    const char *pair[2]; // two flags that only this program has together; NULL: none
} scripts[] = {
    {.program = "Intel's launcher", .job = JOB_TRAIN, .recipe = intel, .flags = "model_name"},
    {.program = "a script of Hugging Face's transformers",
     .job = JOB_FINETUNE | JOB_PRETRAIN_MLM,
     .recipe = hugging_face,
     .pair = {"model_name_or_path", "do_train"}},
    {.program = "run_mlm of Hugging Face's transformers", // for a new model
     .job = JOB_PRETRAIN_MLM,
     .recipe = hugging_face,
     .flags = "config_name tokenizer_name"},
    {.program = "Google's run_pretraining",
     .job = JOB_PRETRAIN,
     .recipe = google,
     .flags =
         "num_train_steps num_warmup_steps input_file save_checkpoints_steps bert_config_file"},
    {.program = "BingBert's deepspeed_train.py",
     .job = JOB_PRETRAIN,
     .recipe = bing_bert,
     .flags = "cf data_path_prefix load_training_checkpoint load_cp use_nvidia_dataset "
              "ckpt_to_save"},
    {.program = "BingBertSquad",
     .job = JOB_FINETUNE_SQUAD,
     .recipe = bing_bert_squad,
     .flags = "job_name ckpt_type origin_bert_config_file deepspeed_transformer_kernel"},
    {.program = "Google's and Intel's programs",
     .job = JOB_FINETUNE,
     .recipe = google,
     .flags = "bert_config_file save_checkpoints_steps mpi_workers_sync_gradients "
              "experimental_gelu inter_op intra_op use_tpu"},
    {.program = "Habana's run_squad",
     .job = JOB_FINETUNE_SQUAD,
     .recipe = habana,
     .flags = "use_fused_adam use_habana hmp autocast throughput_warmup_steps "
              "per_param_grad_clipping use_hpu_graphs"},
    {.program = "NVIDIA's run_squad",
     .job = JOB_FINETUNE_SQUAD,
     .recipe = nvidia_squad,
     .flags = "eval_script",
     .pair = {"bert_model", "init_checkpoint"}},
};
#define SCRIPT_COUNT (sizeof scripts / sizeof *scripts)
_Static_assert(2 * SCRIPT_COUNT <= 32, "a bit of pair_flags for each flag of a pair");

// The flag of that name; "": it has none.
static void find_flag(const struct cli_script *script, const char *name,
                      char flag[OPTION_NAME_SIZE]) {
    const char *flags = script->flags;
    while (option_next_name(&flags, flag)) {
        if (option_same_name(name, flag)) {
            return;
        }
    }
    flag[0] = '\0';
}

static int completes_pair(struct cli_call *call, const struct cli_script *script,
                          const char *name) {
    const unsigned at = 2 * (unsigned)(script - scripts);
    for (unsigned i = 0; script->pair[0] != NULL && i < 2; i++) {
        call->origin.pair_flags |= (unsigned)option_same_name(name, script->pair[i]) << (at + i);
    }
    return (call->origin.pair_flags >> at & 3) == 3;
}

void cli_script_note_flag(struct cli_call *call, const char *name) {
    call->origin.fuses_adam |= option_same_name(name, "use_fused_adam");
    call->origin.is_dllogger |= strcmp(name, "json-summary") == 0; // Berth's own name has a _
    const struct cli_script *end =
        call->origin.script != NULL ? call->origin.script : scripts + SCRIPT_COUNT;
    for (const struct cli_script *script = scripts; script < end; script++) {
        char flag[OPTION_NAME_SIZE];
        find_flag(script, name, flag);
        const int shows = completes_pair(call, script, name) || flag[0] != '\0';
        if (shows && (script->job & call->verb->jobs) != 0) {
            call->origin.script = script;
            memcpy(call->origin.flag, flag, sizeof flag);
            return;
        }
    }
}

static void note_recipe(const struct cli_call *call, const char *recipe) {
    const struct cli_script *script = call->origin.script;
    char flags[3 * OPTION_NAME_SIZE];
    if (call->origin.flag[0] != '\0') {
        snprintf(flags, sizeof flags, "--%s is a flag", call->origin.flag);
    } else {
        snprintf(flags, sizeof flags, "--%s and --%s are both flags", script->pair[0],
                 script->pair[1]);
    }
    cli_note(call,
             "%s of %s: other settings default to its values (--recipe %s: its optimizer, schedule "
             "and defaults)",
             flags, script->program, recipe);
}

static enum berth_status set_recipe(struct cli_call *call, struct berth_error *error) {
    if (call->origin.script == NULL || call->config.recipe != NULL) {
        return BERTH_OK;
    }
    const char *recipe = call->origin.script->recipe(call);
    note_recipe(call, recipe);
    return cli_set(call, "recipe", recipe, error);
}

// Flags of Hugging Face's scripts that have another meaning in Berth.
static const struct meaning {
    const char *option, *here, *there;
} meanings[] = {
    {"doc_stride", "the distance between the starts of windows", "their overlap"},
    {"cache_dir", "the folder of features", "that of downloaded models"},
    {"dataloader_drop_last", "for incomplete updates", "for incomplete micro-batches"},
};

void cli_script_note_meanings(const struct cli_call *call) {
    const struct cli_script *script = call->origin.script;
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++) {
        const struct meaning *meaning = &meanings[i];
        if (script != NULL && script->recipe == hugging_face &&
            cli_is_given(call, meaning->option)) {
            cli_note(call, "--%s is %s; in the script it is %s", meaning->option, meaning->here,
                     meaning->there);
        }
    }
}

// --- log lines ----------------------------------------------------------------------------------

// The format in which the program would have logged: DeepSpeed's or dllogger's.
enum berth_status cli_script_set_log_format(struct cli_call *call, struct berth_error *error) {
    const int trains = (call->verb->jobs & JOB_TRAIN) != 0;
    const int engine = trains && call->config.deepspeed_config != NULL;
    if (cli_is_given(call, "log_format") || (!engine && !call->origin.is_dllogger)) {
        return BERTH_OK;
    }
    const char *format = engine ? "deepspeed" : "dllogger";
    cli_note(call, "--%s: log lines are those of %s (--log_format plain: Berth's own)",
             engine ? "deepspeed_config" : "json-summary", engine ? "DeepSpeed" : "dllogger");
    return cli_set(call, "log_format", format, error);
}

// --- BingBert's checkpoints ---------------------------------------------------------------------

// A folder of checkpoints and the name of one: a model in DeepSpeed's format.
static enum berth_status set_training_checkpoint(struct cli_call *call, struct berth_error *error) {
    const char *folder = call->bing_bert.training_checkpoint, *id = call->bing_bert.checkpoint_id;
    if (folder == NULL || cli_is_given(call, "model_name_or_path")) {
        return BERTH_OK;
    }
    const char *path = id != NULL ? cli_own(path_join(folder, id)) : folder;
    cli_note(call,
             "--load_training_checkpoint: the weights of %s; the moments start at zero, and steps "
             "count from 0",
             path != NULL ? path : folder);
    return path != NULL ? cli_set(call, "model_name_or_path", path, error) : path_no_memory(error);
}

// --- the demos of CSCS --------------------------------------------------------------------------

// Their programs name model, data and result themselves, and show samples after training.
static const struct cli_demo {
    const char *recipe;
    const char *answers; // keras_answers of the samples
    struct berth_selection samples;
} demos[] = {
    {"piz-daint", "all", {.count = 10}},
    {"lumi", "first", {.count = 50, .random = 1}},
};

#define DEMO_MODEL "bert-base-uncased"
#define DEMO_DATA "squad"
#define DEMO_OUTPUT "cache/model_trained_deepspeed"

static const struct cli_demo *find_demo(const char *recipe) {
    for (size_t i = 0; recipe != NULL && i < sizeof demos / sizeof *demos; i++) {
        if (strcmp(demos[i].recipe, recipe) == 0) {
            return &demos[i];
        }
    }
    return NULL;
}

// Only the engine's file, or --download_only, is the whole command line of these programs.
static int is_demo_line(const struct cli_call *call) {
    const struct berth_config *config = &call->config;
    return (call->verb->jobs & JOB_FINETUNE_SQUAD) != 0 && config->recipe == NULL &&
           config->model_name_or_path == NULL && config->train_file == NULL &&
           (config->deepspeed_config != NULL || call->download_only);
}

const char *cli_script_advice(const struct cli_call *call, const char *option) {
    if (strcmp(option, "input_dir") == 0 && (call->verb->jobs & JOB_PRETRAIN) != 0) {
        return ", a folder of shards as `berth prepare` makes them, or --objective mlm, "
               "which trains on the text of --train_file";
    }
    static const char *const named[] = {"model_name_or_path", "train_file", "output_dir"};
    const int is_for_demo = (call->verb->jobs & JOB_FINETUNE_SQUAD) != 0 &&
                            call->config.deepspeed_config != NULL && call->config.recipe == NULL;
    for (size_t i = 0; is_for_demo && i < sizeof named / sizeof *named; i++) {
        if (strcmp(named[i], option) == 0) {
            return ", or --recipe piz-daint or --recipe lumi, the demos that name model, data and "
                   "output folder themselves";
        }
    }
    return "";
}

// LUMI's instructions place the files by hand.
static const char *demo_file(const char *placed) {
    return file_exists(placed) ? placed : DEMO_DATA;
}

static enum berth_status set_demo(struct cli_call *call, struct berth_error *error) {
    if (is_demo_line(call)) {
        TRY(cli_set(call, "recipe", demos[0].recipe, error));
        cli_note(call,
                 "no --model and no --train: as the demo of Piz Daint, %s on %s (--recipe %s; "
                 "LUMI's is --recipe lumi)",
                 DEMO_MODEL, DEMO_DATA, demos[0].recipe);
    }
    call->origin.demo = find_demo(call->config.recipe);
    if (call->origin.demo == NULL) {
        return BERTH_OK;
    }
    const struct {
        const char *row, *value;
    } settings[] = {{"model_name_or_path", DEMO_MODEL},
                    {"train_file", demo_file("cache/data/train-v1.1.json")},
                    {"validation_file", demo_file("cache/data/dev-v1.1.json")},
                    {"output_dir", DEMO_OUTPUT}};
    call->origin.dates_output = !cli_is_given(call, "output_dir");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        TRY(cli_set_default(call, settings[i].row, settings[i].value, error));
    }
    return BERTH_OK;
}

// Appends the time to the name of the result.
static enum berth_status date_output(struct cli_call *call, struct berth_error *error) {
    const time_t now = time(NULL);
    struct tm local;
    char date[32];
    localtime_r(&now, &local);
    strftime(date, sizeof date, "%Y-%m-%d-%H%M%S", &local);
    snprintf(call->origin.dated, sizeof call->origin.dated, "%s_%s", call->config.output_dir, date);
    if (rename(call->config.output_dir, call->origin.dated) != 0) {
        return error_set_errno(error, BERTH_CANT_CREATE, errno, "%s: cannot rename %s to it",
                               call->origin.dated, call->config.output_dir);
    }
    call->config.output_dir = call->origin.dated;
    cli_note(call, "the model is %s", call->origin.dated);
    return BERTH_OK;
}

enum berth_status cli_script_conclude(struct cli_call *call, struct berth_error *error) {
    if (call->origin.demo == NULL || call->config.dry_run) {
        return BERTH_OK;
    }
    if (call->origin.dates_output) {
        TRY(date_output(call, error));
    }
    struct berth_config shown = call->config;
    shown.model_name_or_path = call->config.output_dir;
    shown.vocab_file = shown.config_file = NULL; // the folder has both
    shown.predict_file = call->config.validation_file;
    shown.keras_answers = call->origin.demo->answers;
    return cli_show_samples(call, &shown, call->origin.demo->samples, error);
}

enum berth_status cli_script_follow(struct cli_call *call, struct berth_error *error) {
    TRY(cli_script_set_log_format(call, error));
    TRY(set_recipe(call, error));
    TRY(set_training_checkpoint(call, error));
    TRY(cli_apply_experiment(call, error));
    return set_demo(call, error);
}

// --- files in other folders ---------------------------------------------------------------------

static enum berth_status find_model(const char **name, struct berth_error *error) {
    char *path;
    if (*name == NULL) {
        return BERTH_OK;
    }
    TRY(berth_find_model(*name, &path, error));
    if (strcmp(path, *name) == 0) {
        berth_string_free(path);
        return BERTH_OK;
    }
    *name = cli_own(path);
    return *name != NULL ? BERTH_OK : path_no_memory(error);
}

static enum berth_status find_data(const char **name, const char *split,
                                   struct berth_error *error) {
    char *path;
    if (*name == NULL) {
        return BERTH_OK;
    }
    TRY(berth_find_data(*name, split, &path, error));
    *name = cli_own(path);
    return *name != NULL ? BERTH_OK : path_no_memory(error);
}

// The first of the files that the folder has, or the path itself if it is a file; NULL: none.
static const char *file_in(const char *path, const char *const names[2]) {
    if (file_exists(path)) {
        return path;
    }
    for (int i = 0; i < 2; i++) {
        char *file = path_join(path, names[i]);
        if (file != NULL && file_exists(file)) {
            return cli_own(file);
        }
        memory_free(file);
    }
    return NULL;
}

static const char *const configurations[2] = {"config.json", "bert_config.json"};
static const char *const vocabularies[2] = {"vocab.txt", "tokenizer.json"};

// Sets a row to a file of the folder, or of the model of that name; for the vocabulary to the
// folder, whose other files have the rules and the added tokens.
static enum berth_status set_file(struct cli_call *call, const char *row, const char *name,
                                  const char *const names[2], struct berth_error *error) {
    if (name == NULL || cli_is_given(call, row) || !cli_row_applies(call->verb, option_find(row))) {
        return BERTH_OK;
    }
    const char *folder = name;
    TRY(find_model(&folder, error));
    const char *file = file_in(folder, names);
    return file == NULL ? error_set(error, BERTH_NO_INPUT, "%s: neither %s nor %s in this folder",
                                    folder, names[0], names[1])
                        : cli_set(call, row, names == vocabularies ? folder : file, error);
}

// Whether `path` is a file of weights without a configuration beside it.
static int has_no_config(const char *path) {
    char *folder = file_parent(path);
    int alone = folder != NULL && file_exists(path) && file_in(folder, configurations) == NULL;
    memory_free(folder);
    return alone;
}

static void note_geometry(const struct cli_call *call, const char *path) {
    cli_note(call, "--bert_model %s has no effect: %s%s", call->legacy.geometry,
             path != NULL ? "the weights are those of " : "it is only a name in pre-training",
             path != NULL ? path : "");
}

// --bert_model together with a checkpoint without a configuration: uses the configuration and
// vocabulary of that model, if it is found.
static enum berth_status set_geometry(struct cli_call *call, struct berth_error *error) {
    const char *path = call->config.model_name_or_path;
    char *folder = NULL;
    if (call->legacy.geometry == NULL ||
        (!call->legacy.model_is_checkpoint && (call->verb->jobs & JOB_PRETRAIN) == 0)) {
        return BERTH_OK; // it is the model
    }
    if (path == NULL || !has_no_config(path)) {
        note_geometry(call, path);
        return BERTH_OK;
    }
    enum berth_status status = berth_find_model(call->legacy.geometry, &folder, error);
    if (status == BERTH_NO_INPUT || (status == BERTH_OK && !dir_exists(folder))) {
        note_geometry(call, path);
        berth_string_free(folder);
        return BERTH_OK; // what is missing is reported when it is needed
    }
    TRY(status);
    folder = cli_own(folder); // a setting now names it
    if (folder == NULL) {
        return path_no_memory(error);
    }
    TRY(set_file(call, "config_file", folder, configurations, error));
    return set_file(call, "vocab_file", folder, vocabularies, error);
}

enum berth_status cli_find_files(struct cli_call *call, struct berth_error *error) {
    struct berth_config *config = &call->config;
    for (size_t i = 0; i < call->verb->models && i < call->argument_count; i++) {
        TRY(find_model(&call->arguments[i], error));
    }
    TRY(find_model(&config->model_name_or_path, error));
    TRY(set_file(call, "config_file", call->legacy.config_name, configurations, error));
    TRY(set_file(call, "vocab_file", call->legacy.tokenizer_name, vocabularies, error));
    TRY(set_geometry(call, error));
    TRY(find_data(&config->train_file, "train", error));
    TRY(find_data(&config->validation_file, "dev", error));
    return find_data(&config->predict_file, "dev", error);
}
