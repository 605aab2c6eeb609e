// SPDX-License-Identifier: Apache-2.0
// What the program's verbs share: their description, the command line once it was parsed, messages,
// input and output. main.c reads a command line into a struct cli_call and hands it to the verb.
//
// A verb is one struct cli_verb: a row of tasks.c, one made from the row of a task (run_options.c)
// or of a job (jobs.c), or a file of its own. Its options are rows of the option table (those of
// its jobs) and a few of its own. Data goes to standard output, messages to standard error. What a
// verb computes is done below, in src/api.
#ifndef BERTH_CLI_CLI_H
#define BERTH_CLI_CLI_H

#include "api/job.h"
#include "api/jobs.h"
#include "core/error.h"
#include "settings/settings.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

// --- verbs ---------------------------------------------------------------------------------------

// An option that only one verb has: a row of its name and default (api/job.h).
#define CLI_FLAG JOB_FLAG
#define CLI_TEXT JOB_TEXT
#define CLI_INTEGER JOB_INTEGER
#define CLI_REAL JOB_REAL
#define CLI_LIST JOB_LIST

#define CLI_OPTIONS_MAX 24
#define CLI_ARGUMENTS_MAX 64

// A verb's own rows; more than CLI_OPTIONS_MAX do not compile.
#define CLI_OWN_OPTIONS(rows)                                                                      \
    .options = (rows),                                                                             \
    .option_count = sizeof(rows) / sizeof *(rows) +                                                \
                    0 * sizeof(char[sizeof(rows) / sizeof *(rows) <= CLI_OPTIONS_MAX ? 1 : -1])

struct cli_call;
// What a verb does if it was started as one of several processes. One that writes files refuses,
// because what the other processes do next may read them too early.
enum cli_processes {
    CLI_ALONE,   // refuses
    CLI_FIRST,   // runs in the first one, the others do nothing
    CLI_EACH,    // runs in each
    CLI_DIVIDED, // the processes divide the work (comm/comm.h)
};

struct cli_verb {
    const char *name;
    const char *task; // second word ("squad"); NULL: none
    // The value of --objective that distinguishes verbs with the same words; NULL: it is not used.
    const char *objective;
    const char *library_task; // the library's name of the task; NULL: the second word, or the first
    const char *summary;
    const char *usage;                // after "berth NAME TASK "
    const char *example;              // whole lines
    const char *notes;                // further text for --help; NULL: none
    unsigned jobs;                    // rows of the option table
    const struct option_row *options; // its own
    size_t option_count;
    const char *required; // required options, separated by spaces; NULL: none
    size_t arguments_min, arguments_max;
    size_t models;      // number of leading positional arguments that are models
    int names_options;  // an unknown "--name" is an argument: `berth help --name`
    int streams_output; // the output "-" is standard output
    const char *(*argument_at)(size_t index); // the values of the first argument one by one, NULL
                                              // at the end; or NULL: files
    enum cli_processes processes;
    enum cli_processes (*processes_of)(const struct cli_call *call); // if the words decide; or NULL
    // Takes the words as they are, without reading options; then nothing below is called. Or NULL.
    enum berth_status (*take)(size_t count, const char *const *words, struct berth_error *error);
    // Called after all words were read, for what some of them imply; or NULL.
    enum berth_status (*settle)(struct cli_call *call, struct berth_error *error);
    enum berth_status (*run)(struct cli_call *call, struct berth_error *error);
    const struct job_row *job; // that it is made from; or NULL
};

// The program's verbs, NULL at the end (verb_list.c), and what makes the functions below know them.
const struct cli_verb *const *cli_list_verbs(void);
void cli_use_verbs(const struct cli_verb *const *list);
// The verb of the task with that number in the library's table; it is made when it is called.
enum { CLI_RUN_VERBS_MAX = 16 };
const struct cli_verb *cli_run_verb(size_t index);
// The verb of a job; it is made when it is called.
const struct cli_verb *cli_job_verb(const struct job_row *row);
// Opens the model that the options describe for a task; `batch`: predict_batch_size without that
// option, or NULL; `comm`: of the processes that all open it, or NULL. NULL after a failure.
struct comm;
struct berth_model *cli_open_model(struct cli_call *call, const char *task, const char *batch,
                                   struct comm *comm, struct berth_error *error);
// Every verb by its number (verbs.c); NULL after the last.
const struct cli_verb *cli_verb_at(size_t index);
// The verb with that name, task and objective (NULL: not given); the first one with the name if
// there is no such task or objective; NULL: no such name.
const struct cli_verb *cli_find_verb(const char *name, const char *task, const char *objective);
// The value of --objective among the words before "--"; NULL: not given.
const char *cli_objective_of(size_t count, const char *const *words);
// Whether the word is the verb's task, by the name that the verb has, its name in training or that
// of the library's table: "squad" and "answer" are one.
int cli_is_task(const struct cli_verb *verb, const char *word);
// Whether the verb has the words of one before it, and only its objective distinguishes them.
int cli_shares_words(const struct cli_verb *verb);
// "finetune squad", with `between` in place of the blank.
void cli_verb_words(const struct cli_verb *verb, const char *between, char *text, size_t size);
// The tasks of all verbs with that name: "squad or classify".
void cli_list_tasks(const char *name, char *text, size_t size);
// BERTH_USAGE with the nearest verb; `what` the name should have been: "verb".
enum berth_status cli_unknown_word(const char *what, const char *name, struct berth_error *error);

// Lists the verbs of tasks with files (tasks.c); returns their number.
enum { CLI_TASK_VERBS_MAX = 32 };
size_t cli_task_verbs(const struct cli_verb *list[CLI_TASK_VERBS_MAX]);
extern const struct cli_verb cli_as, cli_show, cli_tokenize, cli_features, cli_bench, cli_doctor,
    cli_fetch, cli_serve, cli_help, cli_man, cli_completion, cli_report, cli_plot;

// --- the command line ----------------------------------------------------------------------------

struct cli_call {
    const struct cli_verb *verb;
    struct settings config;
    const char *values[CLI_OPTIONS_MAX]; // values of the verb's own options; NULL: not given
    const char *arguments[CLI_ARGUMENTS_MAX];
    size_t argument_count;
    const char *const *list; // [list_count] words of the verb's CLI_LIST
    size_t list_count;
};

// Parses the words after the verb and its task. BERTH_USAGE names the word and the nearest known
// option.
enum berth_status cli_parse(struct cli_call *call, const struct cli_verb *verb, int count,
                            char **words, struct berth_error *error);
// Whether the row of the option table is an option of the verb; an own option replaces a row that
// has its name.
int cli_row_applies(const struct cli_verb *verb, const struct option_row *row);
// The name in a word "--name" or "-n"; NULL: it is no option.
const char *cli_option_name(const char *word);
// Whether the option must be given.
int cli_requires(const struct cli_verb *verb, const char *name);

// Where other programs may need the same few processors: starts the program again, with an
// environment in which threads that wait for each other soon sleep (spinning.c). Returns if that is
// set already, or cannot be.
void cli_spin_briefly(char **command);

// Whether a word, if it is the only one, names a JSON file with the options (arguments_file.c), and
// reads these as words.
int cli_is_arguments_file(const struct cli_verb *verb, const char *word);
enum berth_status cli_read_arguments_file(const char *path, int *count, char ***words,
                                          struct berth_error *error);

// Replaces the name of a model or a data set by its path in the cache if no file has that name,
// also where a configuration or a vocabulary is that of a folder or model. BERTH_NO_INPUT: a name
// was not found and is left unchanged (find_files.c).
enum berth_status cli_find_files(struct cli_call *call, struct berth_error *error);

// The file of that name in the first of these folders, relative to the running program's, that has
// it: of the installation or of the sources. NULL: in none; `path` holds what is returned.
#define CLI_PATH_SIZE 8192
const char *cli_beside_program(const char *const *folders, size_t count, const char *name,
                               char path[CLI_PATH_SIZE]);

// Takes ownership of a block until the verb ends, and returns it. NULL, with the block freed: out
// of memory.
void *cli_own(void *block);
// Frees all of them.
void cli_free_owned(void);
// BERTH_USAGE if the output `name` is called "-" by a verb that does not write it to standard
// output: nobody means a file or folder of that name.
enum berth_status cli_check_output(const struct cli_call *call, const char *name, const char *value,
                                   struct berth_error *error);

// BERTH_USAGE: the option is required.
enum berth_status cli_missing_option(const struct cli_verb *verb, const char *name,
                                     struct berth_error *error);

// Whether an option of the verb was given.
int cli_is_given(const struct cli_call *call, const char *name);
// Sets a row of the option table by its name; cli_set_default only if it was not given.
enum berth_status cli_set(struct cli_call *call, const char *row, const char *value,
                          struct berth_error *error);
enum berth_status cli_set_default(struct cli_call *call, const char *row, const char *value,
                                  struct berth_error *error);
// Of one of the verb's own options: its value, else its default (NULL, 0 where that is NULL).
const char *cli_value(const struct cli_call *call, const char *name);
int64_t cli_integer(const struct cli_call *call, const char *name);
double cli_real(const struct cli_call *call, const char *name);
int cli_flag(const struct cli_call *call, const char *name);
// Own option --cased: sets do_lower_case to false; BERTH_USAGE if it was set to true.
enum berth_status cli_apply_cased(struct cli_call *call, struct berth_error *error);

// Whether the word is a boolean value: "true", "no", ...
int cli_is_truth_word(const char *word);

// --- messages ------------------------------------------------------------------------------------

// Whether this process is the one that reports, of those that were started together: the first one.
// Notes and warnings of the others are dropped.
int cli_reports(void);
// "berth: error: ...", "berth: warning: ...", "berth: note: ..." on standard error.
void cli_error(const char *message);
// "berth: ..."
void cli_plain_message(const char *message);
void cli_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void cli_note(const struct cli_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// A log for jobs without a reporter: always warnings, and notes unless quiet.
struct berth_log cli_log(struct cli_call *call);
// The same for a watch, whose context is the call.
enum berth_wish cli_see(void *context, const struct berth_record *record);
// From now on, standard output on a terminal shows control characters instead of sending them,
// except for cli_style.
void cli_guard_output(void);
// Writes an escape sequence of the program's own to standard output.
void cli_style(const char *sequence);
// Escapes a name from a file for a line of a listing: no control characters. Valid for the next
// three calls.
const char *cli_escape_name(const char *name);
// Whether standard output has colours. Neither stream has any after cli_forbid_colours
// (--no-color).
int cli_colour(void);
void cli_forbid_colours(void);
int cli_exit_code(enum berth_status status);

// The verbs of the program. Laid out for the terminal's width, as is all help.
void cli_help_program(FILE *out);
// A verb and its options: the common ones (topic NULL), all ("all"), those of a group of the
// option table, or one. Another topic is BERTH_USAGE.
enum berth_status cli_help_verb(const struct cli_verb *verb, const char *topic,
                                struct berth_error *error);

// What has help of its own: the verbs' names, then the topics'; NULL at the end.
const char *cli_subject_at(size_t index);

// Prints what the last of the words after the program's name can be, for the scripts of `berth
// completion`, which call `berth __complete WORD...`: first "words", "files" or "folders" (besides
// the words), then a word a line and, after a tab, what it means.
#define CLI_COMPLETE "__complete"
enum berth_status cli_complete(size_t count, const char *const *words, struct berth_error *error);

// --- input and output ----------------------------------------------------------------------------

// Shows samples of config->predict_file by the model of model_name_or_path (show.c).
enum berth_status cli_show_samples(struct cli_call *call, const struct settings *config,
                                   struct berth_selection samples, struct berth_error *error);

struct json_line;

// Reads a whole file, or standard input for "-" (memory_free).
enum berth_status cli_read(const char *path, char **bytes, size_t *length,
                           struct berth_error *error);
// Writes the line and empties it; running out of memory is an error.
enum berth_status cli_put_json(struct json_line *line, struct berth_error *error);
// Flushes standard output before the end; cli_flush says if that failed.
void cli_flush_early(void);
// Flushes standard output. A closed pipe is not an error; a full disk is.
enum berth_status cli_flush(struct berth_error *error);

// The lines of a text, one after the other, without their ends.
struct cli_line {
    const char *next; // where the next one begins; the text at first
    const char *text;
    size_t length;
};
int cli_next_line(struct cli_line *line); // 0: there are no more

// Prints `text` with the characters [start, end) highlighted (black on light green) if `colour`.
// Wraps at words to `width` columns, `indent` of which are already used on the first line; width 0:
// no wrapping.
void cli_highlight(const char *text, int64_t start, int64_t end, int colour, int width, int indent);
// Words of `text` wrapped to `width` columns after `indent` blanks; `column` says how many columns
// of the first line are taken.
void cli_wrap(FILE *out, const char *text, int width, int indent, int column);

// --- signals -------------------------------------------------------------------------------------

// From now on SIGINT, SIGTERM, SIGHUP (unless ignored), SIGXCPU and SIGUSR1 set the stop flag to
// STOP_AND_SAVE (core/stop.h); a second SIGINT exits immediately with 130. `follows` is a constant
// that says what the job does on the first one: "finishing ...". Only a process that reports prints
// it.
const atomic_int *cli_stop_on_signals(const char *follows);
// While a job prepares, such as reading its data, a signal ends the program at once, with its exit
// code.
void cli_set_preparing(int preparing);
// The exit code for the received signal (75 for SIGUSR1, otherwise 128 plus its number), or 0.
int cli_signal_exit_code(void);

#endif
