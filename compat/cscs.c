// SPDX-License-Identifier: Apache-2.0
// CSCS's demos for Piz Daint and LUMI: BERT-base on SQuAD by a DeepSpeed JSON alone, with samples
// after the training, and the tester that shows others. Model, data and result are named by the
// programs themselves. The command line is read by translate.c.
#include "core/file.h"
#include "program.h"

#include <string.h>

#define MODEL "bert-base-uncased"
#define DATA "squad"
#define PLACED_TRAIN "cache/data/train-v1.1.json"
#define PLACED_DEV "cache/data/dev-v1.1.json"

// The data that was placed by hand, as LUMI's instructions say, else that of the hub.
static void set_data(struct compat_line *line, const char *option, const char *placed) {
    compat_default(line, option, file_exists(placed) ? placed : DATA);
}

static enum berth_status finish_demo(struct compat_line *line, struct berth_error *error) {
    if (compat_is_on(line, "download_only")) {
        compat_verb(line, "fetch");
        compat_argument(line, MODEL);
        if (!file_exists(PLACED_TRAIN)) {
            compat_then(line, "fetch");
            compat_argument(line, DATA);
        }
        return BERTH_OK;
    }
    if (compat_get(line, "deepspeed_config") == NULL) {
        return error_set(error, BERTH_USAGE, "%s needs the option --deepspeed_config",
                         line->program->name);
    }
    set_data(line, "train_file", PLACED_TRAIN);
    set_data(line, "validation_file", PLACED_DEV);
    return BERTH_OK;
}

// A saved state has no configuration beside it, which in these demos is always the same; a folder
// says by itself which token ends an answer.
static enum berth_status finish_tester(struct compat_line *line, struct berth_error *error) {
    (void)error;
    set_data(line, "predict_file", PLACED_DEV);
    if (!dir_exists(compat_get(line, "model_name_or_path"))) {
        compat_set(line, "keras_end", "exclusive");
        compat_geometry(line, "model_file", MODEL);
    }
    return BERTH_OK;
}

static const struct compat_flag demo_flags[] = {
    SAME(COMPAT_VALUE, "deepspeed_config"),
    READS(COMPAT_SWITCH, "download_only", "`berth fetch` of the model and the data"),
    NOT_NEEDED(COMPAT_SWITCH, "deepspeed", "--deepspeed_config says it"),
    NOT_NEEDED(COMPAT_VALUE, "model", "it has no effect in the program: the model is " MODEL),
    NOT_NEEDED(COMPAT_VALUE, "local_rank", "the launcher numbers processes"),
    FLAGS_END};

static const struct compat_flag tester_flags[] = {
    TO(COMPAT_VALUE, "model_file", "model_name_or_path"),
    SAME(COMPAT_VALUE, "start_sample num_test_samples"), FLAGS_END};

// Entries are pairs of a question and one of its answers, in training and in samples.
#define ENTRIES "features=keras keras_answers=all"
#define DEMO(its_recipe, epochs, samples)                                                          \
    "recipe=" its_recipe " model_name_or_path=" MODEL " num_train_epochs=" epochs                  \
    " output_dir=cache/model_trained_deepspeed date_output=true log_format=deepspeed " samples

const struct compat_program compat_cscs[] = {
    {.system = "piz-daint",
     .name = "3_squad_bert_deepspeed.py",
     .verb = "finetune squad",
     .settings = DEMO("piz-daint", "1", ENTRIES " show_samples=10"),
     .flags = {demo_flags},
     .finish = finish_demo,
     .summary = "CSCS's demo on Piz Daint: BERT-base on SQuAD"},
    {.system = "piz-daint",
     .name = "3_squad_bert_deepspeed_test.py",
     .verb = "show squad",
     .settings = ENTRIES,
     .flags = {tester_flags},
     .required = "model_file",
     .finish = finish_tester,
     .summary = "samples of a model that the demo trained"},
    {.system = "lumi",
     .name = "bert_squad_deepspeed.py",
     .verb = "finetune squad",
     .settings = DEMO("lumi", "2", "show_samples=50 show_random=true"),
     .flags = {demo_flags},
     .finish = finish_demo,
     .summary = "CSCS's demo on LUMI: BERT-base on SQuAD, two epochs"},
    {.name = NULL}};
