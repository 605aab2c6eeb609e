// SPDX-License-Identifier: Apache-2.0
// The tasks of GLUE, and XNLI: their files, columns, labels in the published order, and metrics,
// all in one table (glue_tasks.c). The task classify asks for one by --task_name.
#ifndef BERTH_DATA_GLUE_TASKS_H
#define BERTH_DATA_GLUE_TASKS_H

#include "core/error.h"
#include "data/pairs/pairs.h"

#include <stddef.h>

enum glue_split {
    GLUE_TRAIN,
    GLUE_DEV, // matched for MNLI
    GLUE_TEST,
    GLUE_DEV_MISMATCHED, // MNLI only
    GLUE_TEST_MISMATCHED,
    GLUE_SPLITS
};

// GLUE_MSE: for the user's own regression task.
enum glue_metric { GLUE_ACCURACY, GLUE_ACCURACY_F1, GLUE_MATTHEWS, GLUE_CORRELATION, GLUE_MSE };

// The file of a split and the names of its columns.
struct glue_file {
    const char *name;     // NULL: the task has no such split; "%s" is the language
    const char *raw_name; // the same split in the original publication; NULL: none
    const char *text_column, *text_pair_column, *label_column, *filter_column;
    const char *const *column_names; // for a file without a header
};

struct glue_task {
    const char *name;   // "mrpc"
    const char *source; // where its files are published
    const char *title;  // "MRPC": the folder in GLUE's layout, and the name in messages
    struct glue_file files[GLUE_SPLITS];
    const struct pair_label *labels; // NULL: real labels
    size_t label_count;
    double min, max; // range of real labels
    enum glue_metric metric;
    int ragged; // the published files have rows with too few fields
};

// The table; its last row has no name.
extern const struct glue_task glue_tasks[];

// Finds a task by name, ignoring case, '-' and '_' ("SST-2" is "sst2"). An unknown name is
// BERTH_USAGE; the message lists the known ones.
enum berth_status glue_task_find(const char *name, const struct glue_task **task,
                                 struct berth_error *error);

// Whether the task has files or rows of several languages.
int glue_task_has_languages(const struct glue_task *task);

// The settings for reading a split of a task from a file in its layout. `language` selects rows of
// XNLI's files ("zh" when NULL) and must outlive the settings; other tasks ignore it. BERTH_USAGE
// when the task has no such split.
enum berth_status glue_task_settings(const struct glue_task *task, enum glue_split split,
                                     const char *language, struct pair_settings *settings,
                                     struct berth_error *error);

// The path of a split's file: in `folder`, or in its subfolder with the task's name; GLUE's file
// before the original one. Newly allocated (memory_free). BERTH_NO_INPUT when missing; the message
// names the expected files.
enum berth_status glue_task_path(const struct glue_task *task, const char *folder,
                                 enum glue_split split, const char *language, char **path,
                                 struct berth_error *error);

#endif
