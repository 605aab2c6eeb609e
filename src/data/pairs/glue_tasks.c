// SPDX-License-Identifier: Apache-2.0
// The table of tasks. File and column names are GLUE's. Labels are in the order of Google's
// run_classifier.py if it has the task, otherwise in that of the GLUE data card. The names for
// id2label are the data card's. The task classify looks a name up in it when it settles its
// settings; pairs.c reads the files.
#include "data/pairs/glue_tasks.h"

#include "core/caseless.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "core/utf8.h"

#include <stdio.h>
#include <string.h>

static const struct pair_label acceptability[] = {{"0", NULL, "unacceptable"},
                                                  {"1", NULL, "acceptable"}};
static const struct pair_label sentiment[] = {{"0", NULL, "negative"}, {"1", NULL, "positive"}};
static const struct pair_label equivalence[] = {{"0", NULL, "not_equivalent"},
                                                {"1", NULL, "equivalent"}};
static const struct pair_label duplication[] = {{"0", NULL, "not_duplicate"},
                                                {"1", NULL, "duplicate"}};
static const struct pair_label coreference[] = {{"0", NULL, "not_entailment"},
                                                {"1", NULL, "entailment"}};
static const struct pair_label two_way[] = {{"entailment", NULL, "entailment"},
                                            {"not_entailment", NULL, "not_entailment"}};
static const struct pair_label three_way[] = {{"contradiction", "contradictory", "contradiction"},
                                              {"entailment", NULL, "entailment"},
                                              {"neutral", NULL, "neutral"}};
#define LABELS(list) .labels = (list), .label_count = sizeof(list) / sizeof *(list)

static const char *const cola_columns[] = {"source", "label", "annotation", "sentence", NULL};

// Three files with the usual names and these columns: text, second text, label.
#define SPLIT(name, ...)                                                                           \
    { name, NULL, __VA_ARGS__, NULL, NULL }
#define FILES(...)                                                                                 \
    .files = {SPLIT("train.tsv", __VA_ARGS__), SPLIT("dev.tsv", __VA_ARGS__),                      \
              SPLIT("test.tsv", __VA_ARGS__)}

#define PUBLISHED "https://dl.fbaipublicfiles.com/"
#define GLUE PUBLISHED "glue/data/"

const struct glue_task glue_tasks[] = {
    {.name = "cola",
     .source = GLUE "CoLA.zip",
     .title = "CoLA",
     .files = {{"train.tsv", NULL, "sentence", NULL, "label", NULL, cola_columns},
               {"dev.tsv", NULL, "sentence", NULL, "label", NULL, cola_columns},
               {"test.tsv", NULL, "sentence", NULL, "label", NULL, NULL}},
     LABELS(acceptability),
     .metric = GLUE_MATTHEWS},
    {.name = "sst2",
     .source = GLUE "SST-2.zip",
     .title = "SST-2",
     FILES("sentence", NULL, "label"),
     LABELS(sentiment),
     .metric = GLUE_ACCURACY},
    {.name = "mrpc",
     .source = PUBLISHED "senteval/senteval_data/msr_paraphrase_train.txt",
     .title = "MRPC",
     .files = {{"train.tsv", "msr_paraphrase_train.txt", "#1 String", "#2 String", "Quality", NULL,
                NULL},
               {"dev.tsv", "msr_paraphrase_test.txt", "#1 String", "#2 String", "Quality", NULL,
                NULL},
               {"test.tsv", "msr_paraphrase_test.txt", "#1 String", "#2 String", "Quality", NULL,
                NULL}},
     LABELS(equivalence),
     .metric = GLUE_ACCURACY_F1},
    {.name = "qqp",
     .source = GLUE "QQP-clean.zip",
     .title = "QQP",
     FILES("question1", "question2", "is_duplicate"),
     LABELS(duplication),
     .metric = GLUE_ACCURACY_F1,
     .ragged = 1},
    {.name = "stsb",
     .source = GLUE "STS-B.zip",
     .title = "STS-B",
     FILES("sentence1", "sentence2", "score"),
     .min = 0,
     .max = 5,
     .metric = GLUE_CORRELATION},
    {.name = "mnli",
     .source = GLUE "MNLI.zip",
     .title = "MNLI",
     .files = {{"train.tsv", NULL, "sentence1", "sentence2", "gold_label", NULL, NULL},
               {"dev_matched.tsv", NULL, "sentence1", "sentence2", "gold_label", NULL, NULL},
               {"test_matched.tsv", NULL, "sentence1", "sentence2", "gold_label", NULL, NULL},
               {"dev_mismatched.tsv", NULL, "sentence1", "sentence2", "gold_label", NULL, NULL},
               {"test_mismatched.tsv", NULL, "sentence1", "sentence2", "gold_label", NULL, NULL}},
     LABELS(three_way),
     .metric = GLUE_ACCURACY},
    {.name = "qnli",
     .source = GLUE "QNLIv2.zip",
     .title = "QNLI",
     FILES("question", "sentence", "label"),
     LABELS(two_way),
     .metric = GLUE_ACCURACY},
    {.name = "rte",
     .source = GLUE "RTE.zip",
     .title = "RTE",
     FILES("sentence1", "sentence2", "label"),
     LABELS(two_way),
     .metric = GLUE_ACCURACY},
    {.name = "wnli",
     .source = GLUE "WNLI.zip",
     .title = "WNLI",
     FILES("sentence1", "sentence2", "label"),
     LABELS(coreference),
     .metric = GLUE_ACCURACY},
    {.name = "xnli",
     .source = PUBLISHED "XNLI/XNLI-1.0.zip",
     .title = "XNLI",
     .files = {{"multinli.train.%s.tsv", "multinli/multinli.train.%s.tsv", "premise", "hypo",
                "label", NULL, NULL},
               {"xnli.dev.tsv", NULL, "sentence1", "sentence2", "gold_label", "language", NULL},
               {"xnli.test.tsv", NULL, "sentence1", "sentence2", "gold_label", "language", NULL}},
     LABELS(three_way),
     .metric = GLUE_ACCURACY},
    {.name = NULL}};

// Whether `name` equals `known`, ignoring case, '-' and '_'.
static int same_name(const char *known, const char *name) {
    for (;; known++, name++) {
        name += strspn(name, "-_");
        if (*known != caseless_lower(*name)) {
            return 0;
        }
        if (*known == '\0') {
            return 1;
        }
    }
}

enum berth_status glue_task_find(const char *name, const struct glue_task **task,
                                 struct berth_error *error) {
    char known[256] = "";
    for (*task = glue_tasks; (*task)->name != NULL; (*task)++) {
        if (same_name((*task)->name, name)) {
            return BERTH_OK;
        }
        words_add(known, sizeof known, (*task)->name);
    }
    *task = NULL;
    return error_set(error, BERTH_USAGE, "task_name: expected one of %s, found \"%.*s\"", known,
                     UTF8_SHOWN(name, 60));
}

static enum berth_status find_split(const struct glue_task *task, enum glue_split split,
                                    const struct glue_file **file, struct berth_error *error) {
    *file = &task->files[split];
    if ((*file)->name != NULL) {
        return BERTH_OK;
    }
    return error_set(error, BERTH_USAGE, "%s has no mismatched files; only MNLI has them",
                     task->title);
}

enum berth_status glue_task_settings(const struct glue_task *task, enum glue_split split,
                                     const char *language, struct pair_settings *settings,
                                     struct berth_error *error) {
    const struct glue_file *file;
    TRY(find_split(task, split, &file, error));
    *settings = (struct pair_settings){
        .table = {TABLE_TSV, file->column_names, task->ragged},
        .text_column = file->text_column,
        .text_pair_column = file->text_pair_column,
        .label_column = file->label_column,
        .label_optional = split == GLUE_TEST || split == GLUE_TEST_MISMATCHED,
        .filter_column = file->filter_column,
        .filter_value = language != NULL ? language : "zh",
        .target = task->labels != NULL ? PAIR_CLASS : PAIR_REAL,
        .labels = task->labels,
        .label_count = task->label_count,
        .min = task->min,
        .max = task->max,
    };
    return BERTH_OK;
}

int glue_task_has_languages(const struct glue_task *task) {
    const char *train = task->files[GLUE_TRAIN].name;
    return train != NULL && strstr(train, "%s") != NULL;
}

enum berth_status glue_task_path(const struct glue_task *task, const char *folder,
                                 enum glue_split split, const char *language, char **path,
                                 struct berth_error *error) {
    const struct glue_file *file;
    *path = NULL;
    TRY(find_split(task, split, &file, error));
    const char *const patterns[2] = {file->name, file->raw_name};
    char names[2][64] = {"", ""};
    for (size_t i = 0; i < 2 && patterns[i] != NULL; i++) {
        // Replaces "%s" in `pattern` with the language.
        const size_t size = sizeof names[i];
        const char *marker = strstr(patterns[i], "%s");
        if (marker == NULL) {
            snprintf(names[i], size, "%s", patterns[i]);
        } else {
            snprintf(names[i], size, "%.*s%.16s%s", (int)(marker - patterns[i]), patterns[i],
                     language != NULL ? language : "zh", marker + 2);
        }
        // The path of the file in `folder` or else, whether it exists or not, in its subfolder
        // `title`.
        const struct path direct = path_in(folder, names[i]);
        const struct path found = file_exists(direct.text)
                                      ? direct
                                      : path_in(path_in(folder, task->title).text, names[i]);
        if (file_exists(found.text)) {
            *path = memory_string(found.text);
            return *path != NULL ? BERTH_OK : error_no_memory(error, 0, "a path");
        }
    }
    return error_set(error, BERTH_NO_INPUT,
                     "%s: no %s%s%s here or in the subfolder %s; expected the files of %s", folder,
                     names[0], names[1][0] != '\0' ? " or " : "", names[1], task->title,
                     task->title);
}
