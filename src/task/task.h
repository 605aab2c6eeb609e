// SPDX-License-Identifier: Apache-2.0
// What a model does with texts: one row for each task. The library (src/api), the server (serve),
// the program's verbs (cli/run.c) and, by the table of berth.h, programs of others know no task but
// by its row: it opens a model, runs many texts at once and writes the result of one as JSON.
//
// A text passes through here after its settings were read (settings.c) and before its tokens go to
// the network (network.h). How a task is trained, and how files are evaluated, is the row's
// `training` (train/tasks/training_task.h); what the numbers of a head mean is in the file of its
// row.
#ifndef BERTH_TASK_TASK_H
#define BERTH_TASK_TASK_H

#include "core/error.h"
#include "core/json_line.h"
#include "settings/settings.h"
#include "train/tasks/training_task.h"

#include <stddef.h>
#include <stdint.h>

enum offset_unit { OFFSET_BYTES, OFFSET_CODE_POINTS, OFFSET_UTF16 };

// How the labels of pieces become those of words, and words items: those that belong together are
// one, except with AGGREGATE_NONE.
enum aggregation {
    AGGREGATE_FIRST,   // a word has the label of its first piece
    AGGREGATE_AVERAGE, // the one that is the most likely in the mean over its pieces
    AGGREGATE_MAX,     // the one of the piece whose label is the most likely
    AGGREGATE_NONE     // one item for each word, with the label of its first piece
};

/* How a text's logits become its scores. */
enum berth_score {
    BERTH_SCORE_USUAL, /* softmax for a single label, sigmoid for several, none for a regression,
                          but sigmoid where one label has no problem_type: as in transformers */
    BERTH_SCORE_NONE,  /* the logits themselves */
    BERTH_SCORE_SIGMOID,
    BERTH_SCORE_SOFTMAX
};

// What becomes of a text with more tokens than the model reads.
enum overflow {
    TEXT_IS_CUT,     // at its end
    TEXT_FAILS,      // and is not truncated
    TEXT_HAS_WINDOWS // it is read in windows, whose results become one
};

// What a call asks for beside its texts. Every field is a row of task_options.
struct call_settings {
    int64_t top;           // most items of a text, or of a mask; 0: the task's usual number
    int64_t answer_length; // most tokens of an answer; 0: as the model was opened
    int64_t dimensions;    // first numbers of an embedding; 0: all
    int with_no_answer;    // whether "no answer" is one; -1: as the model was opened
    int whole_words;       // an answer is not cut within a word; -1: as the model was opened
    int normalize;         // embeddings of length 1; -1: as the model says
    int special;           // tokens: as the model reads them, or those of the text alone
    enum overflow overflow;
    int multi_label; // candidate labels: each for itself, or one of all
    enum aggregation aggregation;
    enum berth_score score;
    enum offset_unit unit;
    // Lists (task_list_read) and texts, borrowed until the task was run; NULL: not given.
    const char *candidate_labels, *hypothesis_template, *ignore_labels, *targets, *prompt,
        *prompt_name;
    const char *label; // the class whose score is a pair's; NULL: the model's only one
};

extern const struct call_settings task_usual; // nothing was asked for

// A text, or a question and its context, and what was found in it. Zero-initialise.
struct task_text {
    const char *texts[2]; // borrowed; the second may be NULL
    struct call_settings settings;
    int64_t tokens; // expected, for a queue
    // The result:
    enum berth_status status; // of this text alone; the error is then in `message`
    char *message;
    int64_t tokens_read;
    int truncated;            // tokens beyond those that the model reads were left out
    struct berth_item *items; // [item_count]; a text is borrowed from the model or in `owned`
    size_t item_count;
    float *rows; // [row_count][width]
    size_t row_count, width;
    char **owned; // [owned_count]
    size_t owned_count, owned_capacity;
};

struct task_row;
struct task_model;
struct comm;
struct network;
struct tokenizer;

// A model that was opened for a task: task_model_open makes it, nothing changes it until
// task_model_close, and any number of threads use it meanwhile. `own` and, but for a task that
// needs tokens only, `network` are there, and the tokenizer is the network's where there is one.
struct task_model {
    const struct task_row *task;
    struct network *network;     // NULL: the task has none, only tokens
    struct tokenizer *tokenizer; // the network's, or the model's own
    void *own;                   // the row's: names of classes, rules, ...
    int64_t max_tokens;          // of a sequence
    char *path;                  // folder or file of weights, where a name of the hub leads now
    struct settings config;      // fitted to the model; its other strings are borrowed
    int references;              // of the server's models
};

// What a row opens a model with.
struct task_opening {
    // The ranks that all open it, each for texts of its own; NULL for task_model_open: this process
    // alone.
    struct comm *comm;
    const struct berth_log *log;
    // The same model, opened before with the same settings, whose weights an encoder uses, too; it
    // is closed later. NULL: none.
    const struct task_model *other;
};

// What KServe calls a tensor of the results, and where its elements are from.
enum task_source {
    TASK_ITEM_TEXT,  // of the first item; "" without one
    TASK_ITEM_SCORE, // 0 without one
    TASK_ITEM_START, // -1 without one
    TASK_ITEM_END,
    TASK_NUMBERS, // all rows
    TASK_JSON     // what `write` makes of the text
};
struct task_output {
    const char *name; // NULL: after the last
    enum task_source source;
};

// The verb `berth NAME` (cli/run.c): JSON lines, or lines that people read.
enum task_reader {
    TASK_READ_BY_PROGRAMS,
    TASK_READ_BY_BOTH,  // by people on a terminal
    TASK_READ_BY_PEOPLE // by programs only with --json
};
struct task_verb {
    // A row without a verb of its own: the verb whose flag `flag` asks for it. NULL: it has one.
    const char *of, *flag;
    // Rows of the option table, 0: those of JOB_FILL. With one of JOB_DISTRIBUTED several processes
    // divide the work.
    unsigned jobs;
    enum task_reader reader;
    const char *top;       // what the setting `top` is by itself, for the help; and at most
    int64_t top_max;       // 0: any number
    int is_ranking;        // the second texts are printed by their score, the best first
    const char *pair;      // what the second text is, for the help; NULL: its name says it
    const char *sample[3]; // a model, and texts for it; NULL: none
    const char *notes;     // further help
    // Writes the line of a text; NULL: as `write`, or "index" and the numbers.
    void (*write)(struct json_line *line, const struct task_text *text);
};

// What is put before a text, which was checked; "": nothing.
typedef const char *prompt_finder(const struct task_model *model, const struct task_text *text);

// The tasks that every encoder has, because they need no head.
#define TASKS_OF_ENCODER "embed embed_tokens hidden tokenize"

// Rows are constant, and each is in the table of tasks.c. What is always true of one (task_check):
//
//   - `about` has a name, a pipeline, help and the name of a text, and no other row has that name
//     or pipeline. A text's result is items, or rows of numbers, or both; a row with numbers says
//     their `width`, and one that needs a pair has a name for it.
//   - `open`, `run` and `write` are there. What `done` frees is in `own`, so it comes with
//     own_size; `own` may also have nothing to free.
//   - `job` is one job: its rows of the option table are what a model is opened with.
//   - Each of `settings` is one of task_options, and each of `tasks` a row.
//   - A text that is too long is read in windows always (uses_windows), where it is asked for
//     (can_use_windows), or never: not both.
//   - There is at least one output, and a NULL name after the last.
//   - A row without a verb of its own names the row that has it, and the flag; no other has a flag.
//   - It has a `training` exactly if `about` says that it trains; that has a name, a title and
//     settings, opens a set and closes it, and receives, scores and writes what was predicted.
struct task_row {
    struct berth_task about; // what berth.h says of it
    // How it is trained, and files are evaluated; NULL: it is not.
    const struct training_task *training;
    const char *architectures[2]; // ends of the name in config.json; "": any model
    // Names of the tasks that a model of this one has heads for, itself among them, separated by
    // blanks: the usual ones, and those where it has a single score (NULL: the same).
    const char *tasks[2];
    unsigned job;           // whose settings a model is opened with (core/options.h)
    const char *settings;   // names of those of task_options that it follows
    int has_rows_of_tokens; // one row of numbers for each token of a text, not one for it
    int uses_windows;       // texts that are too long: 1: read in windows; 0: truncated
    int can_use_windows;    // ... or read in windows where `overflow` asks for it
    int is_listed;          // Hugging Face's reply to one input is a list, as that to several
    size_t own_size;        // of task_model's `own`, which is zeroed
    enum berth_status (*open)(struct task_model *model, const struct task_opening *opening,
                              struct berth_error *error);
    void (*done)(void *own); // frees what `own` refers to, also after a failure of `open`; or NULL
    // Fills the results of all texts. A status means that none was run.
    enum berth_status (*run)(const struct task_model *model, struct task_text *const *texts,
                             size_t count, struct berth_error *error);
    prompt_finder *prompt; // NULL: the task puts nothing before texts
    // What this task alone refuses; NULL: nothing.
    enum berth_status (*check)(const struct task_text *texts, size_t count,
                               struct berth_error *error);
    size_t (*width)(const struct task_model *model); // of a text's numbers; NULL: it has none
    // The name of class `index`; NULL: no more, or (the function) no classes.
    const char *(*label)(const struct task_model *model, size_t index);
    // Writes the result of a text, as Hugging Face's API does.
    void (*write)(struct json_line *line, const struct task_model *model,
                  const struct task_text *text);
    struct task_output outputs[5];
    struct task_verb verb;
};

// NULL, or what of the above does not hold.
const char *task_check(const struct task_row *row);
// All rows, NULL after the last. A model's own task is that whose architecture ends its class.
extern const struct task_row *const task_rows[];

// What is trained: pre-training, then those of the rows; NULL: no more.
const struct training_task *task_training_at(size_t index);
// The one of a row's name, or of its own; NULL: there is none.
const struct training_task *task_training_find(const char *name);
// The row of a name or pipeline; NULL: there is none.
const struct task_row *task_find(const char *name);
// The name of the row's first (0) or second (1) text; NULL: it has none.
const char *task_field(const struct task_row *task, size_t which);
// Whether one of the task's texts has this name.
int task_has_field(const struct task_row *task, const char *name);
// Whether the model's numbers are one score, as those of a cross-encoder.
int task_has_one_score(const struct task_model *model);

// --- settings of a call (settings.c) -------------------------------------------------------------

extern const struct option_row task_options[]; // offsets in struct call_settings
extern const size_t task_option_count;
const struct option_row *task_option_find(const char *name);
// The row of that name as the task has it.
struct option_row task_option_of(const struct task_row *task, const char *name);
// Whether the task follows the setting of that name.
int task_follows(const struct task_row *task, const char *name);
enum berth_status task_set(struct call_settings *settings, const struct option_row *row,
                           const char *value, struct berth_error *error);
// Reads the list that a setting is: texts with commas between them, or a JSON array of texts. An
// empty text is BERTH_USAGE, as is a list that was given without one. Free with task_list_done.
struct task_list {
    char **items; // [count]
    size_t count;
};
enum berth_status task_list_read(const char *name, const char *value, struct task_list *list,
                                 struct berth_error *error);
void task_list_done(struct task_list *list);
int task_list_has(const struct task_list *list, const char *text);

// The task that the files of a model's folder name: config.json's class, or modules.json; and that
// of a folder, a file of weights or a name of the hub (tasks.c).
enum berth_status task_of_folder(const char *folder, const struct task_row **task,
                                 struct berth_error *error);
enum berth_status task_of_model(const char *name, const struct task_row **task,
                                struct berth_error *error);

// --- opened models (opened.c) -------------------------------------------------------------------

// Opens the model of config->model_name_or_path, a folder, a file of weights or a name of the hub,
// for a task.
enum berth_status task_model_open(const struct task_row *task, const struct settings *config,
                                  const struct task_opening *opening, struct task_model **model,
                                  struct berth_error *error);
void task_model_close(struct task_model *model);
// The number of tokens of the texts, with what the row puts before them, [CLS] and [SEP].
int64_t task_count_tokens(const struct task_model *model, const struct task_row *task,
                          const struct task_text *text);
// How many are computed for so many of the text; more than max_tokens where texts are divided.
int64_t task_computed_tokens(const struct task_model *model, const struct task_text *text,
                             int64_t tokens);

// --- texts and results (text.c) -----------------------------------------------------------------

// Gives the text an error of its own.
void task_text_fail(struct task_text *text, enum berth_status status, const char *message);
// Fails a text that was truncated, if its settings ask for that.
void task_text_check_fit(const struct task_model *model, struct task_text *text);
void task_text_done(struct task_text *text);
// Allocates items, all zero but for offsets and ids of -1. NULL: out of memory, and the text has
// failed.
struct berth_item *task_text_items(struct task_text *text, size_t count);
// The text owns the string from now on; returns it, or "" with a failed text if it is NULL.
const char *task_text_own(struct task_text *text, char *string);
// Writes an example of texts with a label as a line of JSON (struct task_form).
enum berth_status task_write_example(struct json_line *line, const struct berth_text *example,
                                     size_t index, int is_trained, struct berth_error *error);
// Texts of several queries: those of a query together, the best first, equal ones by their index.
struct task_ranked {
    size_t query, index;
    float score;
};
void task_rank(struct task_ranked *ranked, size_t count);
// A position in a text, in every unit. Zero-initialised, it is the beginning.
struct text_position {
    size_t bytes;
    int64_t characters, utf16_units;
};
// Moves the position forward to a character, or to an offset in some unit.
void text_position_advance(struct text_position *position, const char *text, int64_t character);
void text_position_seek(struct text_position *position, const char *text, int64_t offset,
                        enum offset_unit unit);
int64_t text_position_in(const struct text_position *position, enum offset_unit unit);

// --- several ranks -------------------------------------------------------------------------------

// All ranks compare the models that they opened with a communicator; errors as rank_facts_compare.
enum berth_status task_compare_ranks(const struct task_model *model, struct berth_error *error);

#endif
