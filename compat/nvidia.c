// SPDX-License-Identifier: Apache-2.0
// NVIDIA's DeepLearningExamples and Habana's Model-References, which began as a copy of them: data,
// pre-training, and fine-tuning on questions and on GLUE. The command line is read by translate.c.
#include "core/file.h"
#include "core/memory.h"
#include "program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAMEWORK "it belongs to PyTorch"

// --- fine-tuning ---------------------------------------------------------------------------------

static void log_as_dllogger(struct compat_line *line) {
    if (compat_get(line, "json_summary") != NULL) {
        compat_set(line, "log_format", "dllogger");
    }
}

static void log_scalars(struct compat_line *line) {
    const char *folder = compat_get(line, "output_dir");
    if (compat_is_on(line, "enable_tensorboard_logging") && folder != NULL) {
        compat_default(line, "logging_dir", compat_text(line, "%s/runs", folder));
    }
}

// The files of the original program beside Berth's own, unless it saves nothing.
static void save_as(struct compat_line *line, const char *format) {
    if (!compat_is_on(line, "skip_checkpoint")) {
        compat_default(line, "save_format", format);
    }
}

// What both systems' programs do after their recipe is known. They predict and score once, after
// the training.
static enum berth_status finish_tuning(struct compat_line *line, struct berth_error *error) {
    save_as(line, "nvidia_finetuned");
    compat_default(line, "evaluate_every_epoch", "false");
    compat_half(line, compat_is_on(line, "amp") ? "amp" : "fp16");
    compat_geometry(line, "bert_model", compat_value(line, "bert_model"));
    compat_default(line, "do_lower_case", "false");
    log_as_dllogger(line);
    log_scalars(line);
    return compat_batch_of_process(line, "train_batch_size", "gradient_accumulation_steps", 32,
                                   error);
}

static enum berth_status finish_nvidia_squad(struct compat_line *line, struct berth_error *error) {
    const int half = compat_is_on(line, "fp16") || compat_is_on(line, "amp");
    compat_set(line, "recipe", half ? "nvidia-squad" : "nvidia-squad-bertadam");
    TRY(finish_tuning(line, error));
    return compat_squad_modes(line, error);
}

static enum berth_status finish_habana_squad(struct compat_line *line, struct berth_error *error) {
    compat_set(line, "recipe", compat_is_on(line, "use_fused_adam") ? "habana" : "habana-bertadam");
    TRY(finish_tuning(line, error));
    return compat_squad_modes(line, error);
}

static enum berth_status finish_glue(struct compat_line *line, struct berth_error *error) {
    TRY(finish_tuning(line, error));
    return compat_classify_modes(line, error);
}

static const struct compat_flag squad_flags[] = {
    READS(COMPAT_VALUE, "bert_model", "the configuration and vocabulary of init_checkpoint"),
    TO(COMPAT_VALUE, "init_checkpoint", "model_name_or_path"),
    SAME(COMPAT_VALUE, "config_file"),
    {.names = "max_steps", .kind = COMPAT_VALUE, .option = "", .values = "-1= -1.0="},
    READS(COMPAT_SWITCH, "do_eval", "scores the predictions, as always"),
    NOT_NEEDED(COMPAT_VALUE, "eval_script", "the official scores are built in"),
    NOT_NEEDED(COMPAT_SWITCH, "skip_cache", "features are made in seconds and not kept"),
    NOT_NEEDED(COMPAT_VALUE, "cache_dir", "features are made in seconds and not kept"),
    NOT_NEEDED(COMPAT_SWITCH, "profile", "--profile A:B of `berth finetune squad` records updates"),
    FLAGS_END};

// The flags that all of Habana's programs have.
static const struct compat_flag habana_flags[] = {
    SETS("autocast hmp", "precision", "bf16", NULL),
    NOT_NEEDED(COMPAT_VALUE, "hmp_bf16 hmp_fp32 hmp_opt_level profile_steps", FRAMEWORK),
    NOT_NEEDED(COMPAT_SWITCH,
               "hmp_verbose use_habana use_lazy_mode use_hpu_graphs use_torch_compile "
               "compiled_autograd no_compiled_autograd",
               FRAMEWORK),
    {.names = "tensorboard_logdir", .kind = COMPAT_VALUE, .option = "logging_dir", .values = "="},
    READS(COMPAT_SWITCH, "enable_tensorboard_logging", "--logging_dir OUTPUT_DIR/runs"),
    NOT_NEEDED(COMPAT_SWITCH, "log_memory_usage",
               "the plan shows the memory, and the summary its peak"),
    FLAGS_END};
static const struct compat_flag habana_squad_flags[] = {
    READS(COMPAT_SWITCH, "use_fused_adam", "--recipe habana; without it habana-bertadam"),
    SETS("per_param_grad_clipping", "clip_by", "both", NULL),
    NOT_NEEDED(COMPAT_VALUE, "throughput_warmup_steps", "the speed is that of all updates"),
    FLAGS_END};

static const struct compat_flag glue_flags[] = {
    READS(COMPAT_VALUE, "bert_model", "the configuration and vocabulary of init_checkpoint"),
    TO(COMPAT_VALUE, "init_checkpoint", "model_name_or_path"),
    SAME(COMPAT_VALUE, "data_dir task_name output_dir vocab_file config_file max_seq_length "
                       "learning_rate num_train_epochs warmup_proportion"),
    {.names = "max_steps", .kind = COMPAT_VALUE, .option = "", .values = "-1= -1.0="},
    TO(COMPAT_VALUE, "eval_batch_size", "predict_batch_size"),
    SAME(COMPAT_SWITCH, "do_lower_case skip_checkpoint"),
    READS(COMPAT_SWITCH, "do_train", "berth finetune classify; without it berth predict classify"),
    READS(COMPAT_SWITCH, "do_eval do_predict", "the option of the same name"),
    FLAGS_END};

// --- pre-training --------------------------------------------------------------------------------

// The programs leave the shards of the test set alone.
static enum berth_status finish_pretraining(struct compat_line *line, struct berth_error *error) {
    save_as(line, "nvidia");
    compat_default(line, "do_eval", "false");
    compat_half(line, compat_is_on(line, "amp") ? "amp" : "fp16");
    log_as_dllogger(line);
    log_scalars(line);
    return compat_batch_of_process(line, "train_batch_size", "gradient_accumulation_steps", 32,
                                   error);
}

static const struct compat_flag pretraining_flags[] = {
    SAME(COMPAT_VALUE, "input_dir config_file output_dir vocab_file max_seq_length "
                       "max_predictions_per_seq learning_rate num_train_epochs max_steps "
                       "warmup_proportion init_loss_scale phase1_end_step resume_step "
                       "steps_this_run"),
    TO(COMPAT_VALUE, "init_checkpoint", "model_name_or_path"),
    TO(COMPAT_VALUE, "num_steps_per_checkpoint", "save_steps"),
    TO(COMPAT_SWITCH, "checkpoint_activations", "gradient_checkpointing"),
    SAME(COMPAT_SWITCH, "phase2"),
    SETS("resume_from_checkpoint", "resume_from_checkpoint", "auto", NULL),
    NOT_NEEDED(COMPAT_SWITCH, "do_train", "`berth pretrain` trains"),
    NOT_NEEDED(COMPAT_SWITCH, "allreduce_post_accumulation allreduce_post_accumulation_fp16",
               "processes exchange gradients once an update, after accumulation"),
    NOT_NEEDED(COMPAT_SWITCH, "profile", "--profile A:B of `berth pretrain` records updates"),
    FLAGS_END};
static const struct compat_flag nvidia_pretraining_flags[] = {
    NOT_NEEDED(COMPAT_SWITCH, "resume_phase2", "a checkpoint says of which phase it is"),
    NOT_NEEDED(COMPAT_VALUE, "num_workers", "a thread reads the data beside the updates"),
    NOT_NEEDED(COMPAT_VALUE, "profile_start", "--profile A:B says which updates"),
    NOT_NEEDED(COMPAT_SWITCH, "no_dense_sequence_output",
               "the last layer computes only the rows that the head reads"),
    NOT_NEEDED(COMPAT_SWITCH, "disable_jit_fusions cuda_graphs", FRAMEWORK),
    FLAGS_END};
static const struct compat_flag habana_pretraining_flags[] = {
    NOT_NEEDED(COMPAT_VALUE, "bert_model", "it is only a name in pre-training"),
    SETS("use_fused_lamb", "optimizer", "nvlamb", NULL),
    SETS("use_zero_optimizer", "zero_stage", "1", NULL),
    NOT_NEEDED(COMPAT_SWITCH, "enable_packed_data_mode", "packed shards are recognised"),
    FLAGS_END};

// --- the data of pre-training --------------------------------------------------------------------

#define WORKING_DIR "BERT_PREP_WORKING_DIR"
#define DUMP_URL "https://dumps.wikimedia.org/enwiki/latest/enwiki-latest-pages-articles.xml.bz2"

static const struct action {
    const char *name, *stage; // stage NULL: a download
} actions[] = {{"download", NULL},
               {"text_formatting", "text"},
               {"sharding", "shards"},
               {"create_hdf5_files", "hdf5"}};

// `fetched`: what `berth fetch` calls one that is no text to prepare.
static const struct dataset {
    const char *name;
    int wiki, books;
    const char *fetched;
} datasets[] = {
    {"wikicorpus_en", 1, 0, NULL},
    {"bookscorpus", 0, 1, NULL},
    {"books_wiki_en_corpus", 1, 1, NULL},
    {"google_pretrained_weights", 0, 0, "google-bert/bert-large-uncased"},
    {"squad", 0, 0, "squad"},
};

static enum berth_status find_action(const char *name, const struct action **action,
                                     struct berth_error *error) {
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if (strcmp(actions[i].name, name) == 0) {
            *action = &actions[i];
            return BERTH_OK;
        }
    }
    return error_set(error, BERTH_USAGE,
                     "option action: expected download, text_formatting, sharding or "
                     "create_hdf5_files, found \"%s\"",
                     name);
}

static enum berth_status find_dataset(const char *name, const struct dataset **dataset,
                                      struct berth_error *error) {
    for (size_t i = 0; i < sizeof datasets / sizeof *datasets; i++) {
        if (strcmp(datasets[i].name, name) == 0) {
            *dataset = &datasets[i];
            return BERTH_OK;
        }
    }
    return error_set(error, BERTH_USAGE,
                     "option dataset: expected wikicorpus_en, bookscorpus, books_wiki_en_corpus, "
                     "google_pretrained_weights or squad, found \"%s\"",
                     name);
}

// The dump in the folder of downloads, as it is published or unpacked.
static const char *find_dump(struct compat_line *line, const char *folder) {
    static const char *const names[] = {"wikicorpus_en.xml", "wikicorpus_en.xml.bz2",
                                        "enwiki-latest-pages-articles.xml",
                                        "enwiki-latest-pages-articles.xml.bz2"};
    const char *downloads = compat_text(line, "%s/download/wikicorpus_en", folder), *found = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && found == NULL; i++) {
        found = compat_file_in(line, downloads, names[i]);
    }
    return found;
}

static enum berth_status need_dump(const char *folder, const char *dump,
                                   struct berth_error *error) {
    return dump != NULL ? BERTH_OK
                        : error_set(error, BERTH_NO_INPUT,
                                    "%s/download/wikicorpus_en: expected a dump, wikicorpus_en.xml "
                                    "or enwiki-latest-pages-articles.xml, also with .bz2; `berth "
                                    "fetch " DUMP_URL "` downloads it; move it to that folder",
                                    folder);
}

static enum berth_status need_books(const char *folder, const char *books,
                                    struct berth_error *error) {
    return books != NULL ? BERTH_OK
                         : error_set(error, BERTH_NO_INPUT,
                                     "%s/download/bookscorpus: no such folder; the files of "
                                     "bookscorpus are no longer published: put books of your own "
                                     "there, a file each",
                                     folder);
}

// Nothing is downloaded unasked: says how, unless the data is there.
static enum berth_status finish_download(struct compat_line *line, const char *folder,
                                         const struct dataset *dataset, struct berth_error *error) {
    if (dataset->fetched != NULL) {
        compat_verb(line, "fetch");
        compat_argument(line, dataset->fetched);
        return BERTH_OK;
    }
    if (dataset->books) {
        TRY(need_books(
            folder, compat_file_in(line, compat_text(line, "%s/download", folder), "bookscorpus"),
            error));
    }
    if (dataset->wiki) {
        TRY(need_dump(folder, find_dump(line, folder), error));
    }
    compat_note(line, "%s: already in %s/download", dataset->name, folder);
    line->plan->command_count = 0;
    return BERTH_OK;
}

// Files separated by commas become --text, which may be repeated.
static enum berth_status add_texts(struct compat_line *line, const char *list,
                                   struct berth_error *error) {
    compat_set(line, "text", compat_text(line, "%.*s", (int)strcspn(list, ","), list));
    for (size_t i = 1; *list != '\0'; i++) {
        const size_t length = strcspn(list, ",");
        if (length == 0) {
            return error_set(error, BERTH_USAGE,
                             "option input_files: file %zu of the list has no name; separate names "
                             "with one comma",
                             i);
        }
        if (i > 1) {
            compat_argument(line, compat_text(line, "%.*s", (int)length, list));
        }
        list += length + (list[length] == ',');
    }
    return BERTH_OK;
}

#define FORMATTED "formatted_one_article_per_line"
#define FORMATTED_WIKI FORMATTED "/wikicorpus_en_one_article_per_line.txt"
#define FORMATTED_BOOKS FORMATTED "/bookscorpus_one_book_per_line.txt"

// A command that writes the articles of a folder to FOLDER/FILE, one on each line. `is_next`: it
// follows the last command.
static void format_articles(struct compat_line *line, int is_next, const char *source,
                            const char *articles, const char *folder, const char *file) {
    static const char *const ignored_options[] = {"output_dir", "stages",           "name",
                                                  "shards",     "test_shards",      "books",
                                                  "extracted",  "fraction_test_set"};
    if (is_next) {
        compat_then(line, "prepare");
    }
    for (size_t i = 0; i < sizeof ignored_options / sizeof *ignored_options; i++) {
        compat_drop(line, ignored_options[i]);
    }
    compat_set(line, source, articles);
    compat_set(line, "output_file", compat_text(line, "%s/%s", folder, file));
}

// The action text_formatting: WikiExtractor's files of the dump, unless only they are there, and
// then all articles in one file; the books in another.
static enum berth_status finish_formatting(struct compat_line *line, const char *folder,
                                           const struct dataset *dataset,
                                           struct berth_error *error) {
    const char *extracted = compat_text(line, "%s/extracted/wikicorpus_en", folder);
    const char *books = compat_file_in(line, compat_text(line, "%s/download", folder), //
                                       "bookscorpus");
    TRY(dataset->books ? need_books(folder, books, error) : BERTH_OK);
    if (dataset->wiki) {
        const char *dump = find_dump(line, folder);
        TRY(dir_exists(extracted) ? BERTH_OK : need_dump(folder, dump, error));
        if (dump != NULL) {
            compat_set(line, "wikipedia", dump);
        }
        format_articles(line, dump != NULL, "extracted", extracted, folder, FORMATTED_WIKI);
    }
    if (dataset->books) {
        format_articles(line, dataset->wiki, "books", books, folder, FORMATTED_BOOKS);
    }
    return BERTH_OK;
}

// The articles for the action sharding: the file that text_formatting or bertPrep has made, else
// WikiExtractor's files.
static enum berth_status add_articles(struct compat_line *line, const char *folder,
                                      struct berth_error *error) {
    const char *formatted = compat_file_in(line, folder, FORMATTED_WIKI);
    const char *extracted =
        compat_file_in(line, compat_text(line, "%s/extracted", folder), "wikicorpus_en");
    if (formatted != NULL) {
        compat_set(line, "text", formatted);
    } else if (extracted != NULL) {
        compat_set(line, "extracted", extracted);
    } else {
        const char *dump = find_dump(line, folder);
        TRY(need_dump(folder, dump, error));
        return error_set(error, BERTH_NO_INPUT,
                         "%s/extracted/wikicorpus_en: no such folder; --action text_formatting "
                         "makes it of %s: run that first",
                         folder, dump);
    }
    return BERTH_OK;
}

// Books are read from the file if there is one, else from a folder of files.
static enum berth_status add_books(struct compat_line *line, const char *folder,
                                   struct berth_error *error) {
    const char *formatted = compat_file_in(line, folder, FORMATTED_BOOKS);
    const char *books = compat_file_in(line, compat_text(line, "%s/download", folder), //
                                       "bookscorpus");
    if (formatted == NULL) {
        TRY(need_books(folder, books, error));
        compat_set(line, "books", books);
    } else if (compat_get(line, "text") != NULL) {
        compat_argument(line, formatted);
    } else {
        compat_set(line, "text", formatted);
    }
    return BERTH_OK;
}

static enum berth_status finish_bert_prep(struct compat_line *line, struct berth_error *error) {
    const char *folder = getenv(WORKING_DIR), *files = compat_value(line, "input_files");
    const struct action *action = NULL;
    const struct dataset *dataset = NULL;
    TRY(find_action(compat_value(line, "action"), &action, error));
    TRY(find_dataset(compat_value(line, "dataset"), &dataset, error));
    folder = folder != NULL && folder[0] != '\0' ? folder : ".";
    if (action->stage == NULL) {
        return finish_download(line, folder, dataset, error);
    }
    if (dataset->fetched != NULL) {
        return error_set(error, BERTH_NO_INPUT,
                         "%s: no text to prepare; `berth fetch %s` downloads it", dataset->name,
                         dataset->fetched);
    }
    compat_set(line, "output_dir", folder);
    compat_set(line, "stages", action->stage);
    compat_set(line, "name", dataset->name);
    if (strcmp(action->stage, "text") == 0) {
        return finish_formatting(line, folder, dataset, error);
    }
    if (strcmp(action->stage, "hdf5") == 0) { // the program's default is the second phase's
        compat_default(line, "max_seq_length", "512");
    }
    if (files != NULL) {
        return add_texts(line, files, error);
    }
    if (strcmp(action->stage, "shards") == 0) { // the stage hdf5 reads shards
        TRY(dataset->wiki ? add_articles(line, folder, error) : BERTH_OK);
        TRY(dataset->books ? add_books(line, folder, error) : BERTH_OK);
    }
    return BERTH_OK;
}

static enum berth_status finish_pack(struct compat_line *line, struct berth_error *error) {
    (void)error;
    compat_argument(line, compat_value(line, "input_dir"));
    compat_argument(line, compat_value(line, "output_dir"));
    return BERTH_OK;
}

static const struct compat_flag prep_flags[] = {
    READS(COMPAT_VALUE, "action",
          "--stages text (and " FORMATTED "), shards or hdf5, in the folder of $" WORKING_DIR
          "; download: checks it"),
    READS(COMPAT_VALUE, "dataset", "--name, and which of the folder's data is read"),
    READS(COMPAT_VALUE, "input_files", "--text FILE..."),
    TO(COMPAT_VALUE, "n_training_shards", "shards"),
    TO(COMPAT_VALUE, "n_test_shards", "test_shards"),
    TO(COMPAT_VALUE, "n_processes", "threads"),
    TO(COMPAT_VALUE, "random_seed", "seed"),
    SAME(COMPAT_VALUE, "fraction_test_set dupe_factor masked_lm_prob max_seq_length "
                       "max_predictions_per_seq vocab_file"),
    SAME(COMPAT_SWITCH, "do_lower_case"),
    ONLY(COMPAT_VALUE, "segmentation_method", "nltk", "Berth's own rules end sentences"),
    NOT_NEEDED(COMPAT_SWITCH, "skip_wikiextractor", "the stages that are done are recognised"),
    FLAGS_END};
static const struct compat_flag data_flags[] = {
    SAME(COMPAT_VALUE, "input_file output_file vocab_file max_seq_length dupe_factor "
                       "max_predictions_per_seq masked_lm_prob short_seq_prob"),
    TO(COMPAT_VALUE, "random_seed", "seed"), SAME(COMPAT_SWITCH, "do_lower_case"), FLAGS_END};
static const struct compat_flag pack_flags[] = {
    READS(COMPAT_VALUE, "input_dir output_dir", "the arguments DIR and OUT"),
    SAME(COMPAT_VALUE, "seed"),
    TO(COMPAT_VALUE, "max_sequence_length", "max_seq_length"),
    TO(COMPAT_SWITCH, "disable_progress_bar", "no_progress"),
    ONLY(COMPAT_VALUE, "max_sequences_per_pack", "3", "a row holds up to three instances"),
    NOT_NEEDED(COMPAT_VALUE, "max_predictions_per_sequence", "rows have room for all of them"),
    NOT_NEEDED(COMPAT_VALUE, "train_batch_size", "it does not change the rows"),
    NOT_NEEDED(COMPAT_VALUE, "local_rank", "the launcher numbers processes"),
    FLAGS_END};

#define SQUAD                                                                                      \
    .name = "run_squad.py", .verb = "finetune squad",                                              \
    .required = "bert_model output_dir init_checkpoint", .summary = "fine-tuning on SQuAD"
#define PRETRAINING                                                                                \
    .name = "run_pretraining.py", .verb = "pretrain",                                              \
    .required = "input_dir config_file output_dir", .finish = finish_pretraining,                  \
    .summary = "pre-training"
#define BERT_PREP                                                                                  \
    .name = "bertPrep.py", .verb = "prepare", .required = "action dataset", .flags = {prep_flags}, \
    .finish = finish_bert_prep, .summary = "data for pre-training, step by step"

const struct compat_program compat_nvidia[] = {
    {.system = "nvidia",
     SQUAD,
     .finish = finish_nvidia_squad,
     .flags = {squad_flags, compat_question_flags, compat_pytorch_flags, compat_dllogger_flags}},
    {.system = "nvidia",
     .name = "run_glue.py",
     .verb = "finetune classify",
     .required = "data_dir bert_model task_name output_dir",
     .flags = {glue_flags, compat_pytorch_flags},
     .finish = finish_glue,
     .summary = "fine-tuning on MRPC and other tasks of GLUE"},
    {.system = "nvidia",
     PRETRAINING,
     .flags = {pretraining_flags, nvidia_pretraining_flags, compat_pytorch_flags,
               compat_dllogger_flags}},
    {.system = "habana",
     SQUAD,
     .finish = finish_habana_squad,
     .flags = {squad_flags, habana_flags, habana_squad_flags, compat_question_flags,
               compat_pytorch_flags, compat_dllogger_flags}},
    {.system = "habana",
     PRETRAINING,
     .flags = {pretraining_flags, habana_flags, habana_pretraining_flags, compat_pytorch_flags,
               compat_dllogger_flags}},
    {.system = "habana", BERT_PREP},
    {.system = "habana",
     .name = "create_pretraining_data.py",
     .verb = "prepare",
     .settings = "dupe_factor=10",
     .required = "input_file output_file vocab_file",
     .flags = {data_flags},
     .summary = "instances for pre-training from one text"},
    {.system = "habana",
     .name = "pack_pretraining_data_pytorch.py",
     .verb = "pack",
     .required = "input_dir output_dir",
     .flags = {pack_flags},
     .finish = finish_pack,
     .summary = "rows of several instances"},
    {.name = NULL}};
