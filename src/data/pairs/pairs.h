// SPDX-License-Identifier: Apache-2.0
// Single texts or pairs of texts with a label, taken from the columns of a table: what
// classification and regression tasks are made of. Which columns a published task has is in
// glue_tasks.h.
#ifndef BERTH_DATA_PAIRS_H
#define BERTH_DATA_PAIRS_H

#include "core/error.h"
#include "data/tables/table.h"

#include <stddef.h>
#include <stdint.h>

// What labels are. PAIR_AUTO decides as transformers' examples do: several at once where the first
// label is an array, real numbers when every label is a number and one of them no integer, else
// classes. Several labels are an array of JSON lines, or text with commas between them; none is an
// empty array or text.
enum pair_target { PAIR_AUTO, PAIR_CLASS, PAIR_REAL, PAIR_LABELS };

// A class of a task: its label in the files, another spelling of it (or NULL), and the name that it
// has in config.json (id2label).
struct pair_label {
    const char *text, *also, *name;
};

struct pair_settings {
    struct table_options table;
    const char *text_column;
    const char *text_pair_column; // NULL: single texts
    const char *label_column;     // NULL: no labels
    int label_optional;           // 1: the label column may be missing
    const char *only_column;      // NULL, or: only rows whose cell there is only_value
    const char *only_value;
    enum pair_target target;
    const struct pair_label *labels; // the classes in their order; NULL: those of the file, sorted
    size_t label_count;
    double least, most; // of real labels; equal: any
};

struct pair_example {
    const char *text, *pair; // pair: NULL for single texts
    size_t line;             // of the file
    int32_t label;           // class; -1: none
    double value;            // real label; NaN: none
    int32_t *labels;         // of several at once: [label_count] classes
    int32_t label_count;     // -1: none known
};

struct pair_dataset {
    struct pair_example *examples; // in file order
    size_t count;
    int has_labels;
    enum pair_target target;   // not PAIR_AUTO; PAIR_CLASS without labels
    const char *const *labels; // names of the classes
    size_t label_count;        // 0 for real labels and without labels
    size_t left_out;           // ragged rows, see table.h
    size_t left_out_line;      // of the first of them
    const char *name;          // the file
    void *storage;             // owns every text; NULL in a data set made by hand
};

// Reads a data set; free with pair_dataset_done (also fine after a failure). Classes of a file
// without settings->labels are its different labels, in ascending order: as numbers when all are
// integers, else by their bytes. Errors are those of table.h, and (BERTH_BAD_DATA, naming line and
// column) an empty label, one that is not among settings->labels, a real label that is no number or
// out of range, a selection that leaves no row.
enum berth_status pairs_read(const char *path, const struct pair_settings *settings,
                             struct pair_dataset *dataset, struct berth_error *error);
// The same from memory; `name` stands for the file in messages.
enum berth_status pairs_read_memory(const char *name, const char *bytes, size_t length,
                                    const struct pair_settings *settings,
                                    struct pair_dataset *dataset, struct berth_error *error);
void pair_dataset_done(struct pair_dataset *dataset);

// Renumbers the classes of a data set that was read in the order of `names` (a model's id2label, or
// the training set's labels), which are copied. Names are compared exactly, then without regard to
// the case of ASCII letters. When all names are Hugging Face's placeholders LABEL_0, LABEL_1, ...
// and as many as the data set's own, they stand for those in order; otherwise a label
// that is a number stands for the placeholder of that number. An example's label that has no
// such name is BERTH_BAD_DATA naming the line and the known names; the data set is then as it was.
// Without classes it does nothing.
enum berth_status pairs_relabel(struct pair_dataset *dataset, const char *const *names,
                                size_t count, struct berth_error *error);

// The classes in a configuration (an object of config.json): id2label and label2id, or for real
// numbers one output named LABEL_0 as Hugging Face does, and problem_type. 1 on success, 0 when
// memory is out.
int pair_labels_to_config(const struct pair_dataset *dataset, json *config);
// The names in id2label, in the order of their numbers: one block (memory_free), NULL-terminated,
// borrowing from `config`; NULL names and count 0 when there is none. Keys that are not 0, 1, ...
// without a gap, or names that are no text, are BERTH_CONFIG; `name` stands for the file.
enum berth_status pair_labels_from_config(const json *config, const char *name, const char ***names,
                                          size_t *count, struct berth_error *error);

#endif
