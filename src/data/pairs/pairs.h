// SPDX-License-Identifier: Apache-2.0
// Reads texts or pairs of texts with labels from a table: the data of classification and regression
// tasks. glue_tasks.h has the columns of published tasks. The task classify reads its sets with it,
// tokens are made of them by pair_features.h.
#ifndef BERTH_DATA_PAIRS_H
#define BERTH_DATA_PAIRS_H

#include "core/error.h"
#include "data/tables/table.h"

#include <stddef.h>
#include <stdint.h>

// What the labels are. PAIR_AUTO decides as transformers' examples do: multi-label if the first
// label is an array; real numbers if every label is a number and at least one is not an integer;
// otherwise classes. Unlike them, it refuses fractions beside words. Multi-label data has a JSON
// array or comma-separated text; an empty array or text means no label.
// PAIR_DEGREE, which PAIR_AUTO does not choose: a number from 0 to 1, how far the model's only
// label applies.
enum pair_target { PAIR_AUTO, PAIR_CLASS, PAIR_REAL, PAIR_MULTI_LABEL, PAIR_DEGREE };
static inline int pair_target_is_number(enum pair_target target) {
    return target == PAIR_REAL || target == PAIR_DEGREE;
}

// A class of a task: its label in the files, another spelling of it (or NULL), and its name in
// id2label of config.json.
struct pair_label {
    const char *text, *alias, *name;
};

struct pair_settings {
    struct table_options table;
    const char *text_column;      // NULL: the columns are guessed (see pairs_read)
    const char *text_pair_column; // NULL: single texts
    const char *label_column;     // NULL: no labels
    // 1: the label column may be missing, or may have no label: every cell is empty, null or -1.
    int label_optional;
    int has_class_minus_one;   // 1: -1 is a label even so
    const char *label_remedy;  // ends messages about labels: "; ..."; NULL: none
    const char *filter_column; // use only rows with filter_value in this column; NULL: all rows
    const char *filter_value;
    enum pair_target target;
    const struct pair_label *labels; // the classes in order; NULL: those of the file, sorted
    size_t label_count;
    double min, max; // of numbers; equal: any
};

struct pair_example {
    const char *text, *pair; // pair: NULL for single texts
    const char *prompt;      // to be put before the text (pairs_put_prompts); NULL: none
    int has_windows;         // a single text that is too long has a feature for each window
    size_t line;             // of the file
    int32_t label;           // class; -1: none
    double value;            // label that is a number; NaN: none
    int32_t *labels;         // multi-label: [label_count] classes
    int32_t label_count;     // -1: unknown
};

struct pair_dataset {
    struct pair_example *examples; // in file order
    size_t count;
    int has_labels;
    enum pair_target target;   // not PAIR_AUTO; PAIR_CLASS without labels
    const char *const *labels; // names of the classes
    size_t label_count;        // 0 for numbers and without labels
    int labels_in_order;       // pairs_relabel matched unnamed classes by order
    size_t skipped_rows;       // ragged rows that were skipped, see table.h
    size_t skipped_line;       // line of the first of them
    const char *text_column, *text_pair_column, *label_column; // those read; NULL: none
    const char *empty_label_column; // a column without any label, not read; NULL: none
    const char *label_remedy;       // from the settings; not NULL
    const char *name;               // the file
    void *storage;                  // owns every text; NULL in a data set built by the caller
};

// Reads a data set; free with pair_dataset_done (allowed after a failure). Without text_column the
// columns are those of Hugging Face's run_glue: the texts are sentence1 and sentence2, or else the
// first one or two columns that are neither the label nor named id or idx; the label is the column
// label or, for PAIR_DEGREE, the first one that is named as in text_examples.h. Blanks around a
// number are ignored. Without settings->labels the classes are the distinct labels of the file in
// ascending order: as numbers when all are integers, else by their bytes. Errors are those of
// table.h, and (BERTH_BAD_DATA, with line and column) an empty label (text or null), one that is
// not in settings->labels, a real label that is not a number or out of range, a selection without
// rows, a vector of zeros and ones instead of several labels.
enum berth_status pairs_read(const char *path, const struct pair_settings *settings,
                             struct pair_dataset *dataset, struct berth_error *error);
// The same from memory; messages call it `name`.
enum berth_status pairs_read_memory(const char *name, const char *bytes, size_t length,
                                    const struct pair_settings *settings,
                                    struct pair_dataset *dataset, struct berth_error *error);
// Puts the prompts of the examples that have one before their first texts. *texts becomes a new
// block with these texts (memory_free); NULL: no example has one.
enum berth_status pairs_put_prompts(struct pair_dataset *dataset, char **texts,
                                    struct berth_error *error);
void pair_dataset_done(struct pair_dataset *dataset);

// Renumbers the classes of a data set in the order of `names` (a model's id2label, or the labels of
// the training set), which are copied. label_names_match decides which label is which class. Labels
// that are matched with placeholders by order keep their own names. A label without a class is
// BERTH_BAD_DATA, with the line and what was expected in the message; the data set is then
// unchanged. Does nothing without classes.
enum berth_status pairs_relabel(struct pair_dataset *dataset, const char *const *names,
                                size_t count, struct berth_error *error);

// Describes the labels: `2 classes ("a", "b")`, `numbers from 0 to 5`.
void pair_labels_describe(const struct pair_dataset *dataset, char *text, size_t size);

// The target, not PAIR_AUTO, in the words of problem_type: "regression".
const char *pair_target_name(enum pair_target target);

// Writes id2label, label2id and problem_type to a configuration (the object of config.json). For
// numbers there is one output named LABEL_0, as in Hugging Face's. Degrees also get the activation
// that sentence-transformers applies to it. Returns 1; 0 when out of memory.
int pair_labels_to_config(const struct pair_dataset *dataset, json *config);
// The names in id2label, in the order of their numbers: one block (memory_free), NULL-terminated,
// borrowing from `config`; NULL and count 0 when the key is missing. Keys other than 0, 1, ...
// without gaps, or names that are not strings, are BERTH_CONFIG; messages call the file `name`.
enum berth_status pair_labels_from_config(const json *config, const char *name, const char ***names,
                                          size_t *count, struct berth_error *error);

#endif
