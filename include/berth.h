/* SPDX-License-Identifier: Apache-2.0
 *
 * libberth: BERT in C. One noun, a model; four verbs: open it, run it, train it, save it. What else
 * the program `berth` does with files is a job with a name.
 *
 *     struct berth_error error;
 *     struct berth_model *model = berth_open("squad-minilm", NULL, NULL, &error);
 *     struct berth_text asked = {.text = "Where do I live?", .pair = "I live in Bern."};
 *     struct berth_result *result = berth_run(model, "answer", &asked, 1, NULL, NULL, &error);
 *     size_t count;
 *     const struct berth_item *best = berth_result_items(result, 0, &count);
 *     puts(count > 0 ? best->text : error.message);
 *     berth_result_free(result);
 *     berth_close(model);
 *
 * - What returns a pointer returns NULL on failure and fills *error; `error` may be NULL. A call
 *   that succeeds sets it to BERTH_OK. A NULL model or result may be passed on: the function does
 *   nothing, leaves *error alone and returns NULL, 0, NaN or the status in *error. So a program
 *   may check once, at its end.
 * - Texts are UTF-8, end with NUL and are borrowed for the call. What a model or a result gives out
 *   belongs to it and lives as long. There is no other ownership, and nothing else to free.
 * - Settings are an array "name", "value", ..., NULL, with the names and values of the command
 *   line: (const char *[]){"precision", "bf16", "threads", "4", NULL}. NULL: the defaults. An
 *   unknown name, a bad value, and a setting that the call has no use for are BERTH_USAGE.
 * - Threads: a model never changes; any number of threads may run one, and each gets the bits that
 *   it would get alone. A result, an error and a watch belong to one thread at a time. Threads
 *   that wait for each other in a computation spin at first: GOMP_SPINCOUNT=1000 in the
 *   environment, which OpenMP reads when it is loaded, keeps that short where other programs need
 *   the processors.
 * - fork(): if no other thread is in the library, the child may use the parent's models on the CPU.
 * - The library does not print, exit, or change the locale, the directory or signal handlers. Two
 *   exceptions: if the MPI of a job of several processes hangs, it says so on standard error and
 *   ends the process; one of several processes of a host binds the calling thread to its
 *   processors.
 * - Until 1.0 a new minor version may be incompatible. From then on 1.x adds functions, rows,
 *   settings, facts, kinds of records, and members at the ends of structs that it gives out by
 *   pointer; berth_error, _field, _text and _item stay as they are.
 */
#ifndef BERTH_H
#define BERTH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header. */
#define BERTH_VERSION "1.0.0"
/* The version of the library that is running. */
const char *berth_version(void);

/* With BERTH_CHECK_STATUS defined, clang warns about every status that is ignored; the library
 * itself is compiled with it. */
#if defined(BERTH_CHECK_STATUS) && defined(__clang__)
#define BERTH_MUST_BE_READ __attribute__((warn_unused_result))
#else
#define BERTH_MUST_BE_READ
#endif

/* The values are the program's exit codes. */
enum BERTH_MUST_BE_READ berth_status {
    BERTH_OK = 0,
    BERTH_FAILURE = 1,      /* the run failed (for example: the loss is not finite) */
    BERTH_USAGE = 2,        /* invalid arguments */
    BERTH_BAD_DATA = 65,    /* input data is malformed */
    BERTH_NO_INPUT = 66,    /* an input file is missing or unreadable */
    BERTH_UNAVAILABLE = 69, /* a device, service or peer is not available */
    BERTH_INTERNAL = 70,    /* a bug in the library, or a failure of a library it uses */
    BERTH_NO_MEMORY = 71,   /* out of memory; the program exits with 70 */
    BERTH_CANT_CREATE = 73, /* an output cannot be created */
    BERTH_IO = 74,          /* a read or write failed (disk full, ...) */
    BERTH_INTERRUPTED = 75, /* stopped on request */
    BERTH_CONFIG = 78       /* a configuration contradicts itself or the model */
};
/* A short name of a status: "bad data", "I/O error", ... */
const char *berth_status_name(enum berth_status status);

struct berth_error {
    enum berth_status status;
    int64_t input; /* the text that it is about, from 0; -1: the whole call */
    char message[1008];
};

/* --- records: what a call reports while it runs ----------------------------------------------- */

/* Ignore the kinds that you do not know. */
enum berth_record_kind {
    BERTH_NOTE,     /* text for the user */
    BERTH_WARNING,  /* text for the user */
    BERTH_PLAN,     /* one part of the plan, before a training starts; text names the part */
    BERTH_STEP,     /* one update: step, epoch, loss, learning_rate, ... */
    BERTH_PROGRESS, /* done and total, or done_bytes and total_bytes; text names the phase */
    BERTH_EVAL,     /* exact_match, f1, ... */
    BERTH_SUMMARY,  /* the end of a job */
    BERTH_VALUES,   /* step, then one number for each of many parts; text names the quantity */
    BERTH_EVENT,    /* an event for other programs; text names it, fields describe it */
    BERTH_DETAIL    /* one item of many, which only reports show; text names the kind */
};
enum berth_field_type { BERTH_INTEGER, BERTH_REAL, BERTH_TEXT };

struct berth_field {
    const char *key;
    enum berth_field_type type;
    int64_t integer;  /* of BERTH_INTEGER */
    double real;      /* of BERTH_REAL */
    const char *text; /* of BERTH_TEXT; NULL: there is none, as for a file that was not given */
};

struct berth_record {
    enum berth_record_kind kind;
    const char *text; /* or NULL */
    const struct berth_field *fields;
    size_t field_count;
};
/* A field's number, or its text; NaN, NULL: the record has no such field. */
double berth_record_number(const struct berth_record *record, const char *key);
const char *berth_record_text(const struct berth_record *record, const char *key);

/* What a call shall do. A signal handler or another thread sets an atomic variable that `see`
 * returns. */
enum berth_wish {
    BERTH_CONTINUE,
    BERTH_FINISH,  /* training: that was the last update; the call succeeds with this model */
    BERTH_SUSPEND, /* training: save a checkpoint to resume from, then BERTH_INTERRUPTED */
    BERTH_CANCEL   /* BERTH_INTERRUPTED, as soon as possible */
};
/* `see` gets every record of a call, the progress after every batch among them; calls of it are
 * never concurrent, but may come from a thread of the library. Its answer is followed after the
 * record. */
struct berth_watch {
    enum berth_wish (*see)(void *context, const struct berth_record *record);
    void *context;
};

/* --- models ----------------------------------------------------------------------------------- */

struct berth_model;
/* Opens a folder, a file of weights or the name of a fetched model, in any format that Berth reads.
 * Settings: device, precision, threads, max_seq_length, ... (the "open" ones of berth_option_at),
 * task, which is opened first (without it the one that the files name), and weights "false": only
 * shapes and tokens. The path may be NULL for the task "tokenize" with the setting vocab_file.
 * BERTH_CONFIG: an architecture that Berth does not have. */
struct berth_model *berth_open(const char *path, const char *const *settings,
                               const struct berth_watch *watch, struct berth_error *error);
void berth_close(struct berth_model *model);

/* Writes a folder that appears complete or not at all; `format` (NULL: "hf") is one of hf, torch,
 * tensorflow, nvidia, deepspeed, trainer, onnx, gguf, int8. So conversion is opening and saving.
 * Settings: those of `berth convert`. An output that is not empty is BERTH_CANT_CREATE. */
enum berth_status berth_save(const struct berth_model *model, const char *path, const char *format,
                             const char *const *settings, const struct berth_watch *watch,
                             struct berth_error *error);

/* Facts: texts "path", "task" (the one that the files name), "tasks" (those that it has heads for),
 * "architecture", "config" (JSON); numbers "dimensions", "max_length", "labels", "tensors",
 * "parameters", and of a model that was just trained "steps", "loss" and the scores of its last
 * evaluation. NULL, NaN: no such fact. */
const char *berth_model_text(const struct berth_model *model, const char *fact);
double berth_model_number(const struct berth_model *model, const char *fact);
/* The names of the classes or tags, in order; NULL: no more. */
const char *berth_model_label(const struct berth_model *model, size_t index);

struct berth_tensor {
    const char *name, *dtype;
    int64_t shape[8];
    size_t rank, bytes;
};
/* The tensors of the model's files; NULL: no more, or the files cannot be read. */
const struct berth_tensor *berth_model_tensor(const struct berth_model *model, size_t index);

/* --- running ---------------------------------------------------------------------------------- */

struct berth_text {
    const char *text, *pair; /* the task's row says what they are; pair NULL: none */
    const char *label;       /* a class, a number, tags of words with blanks between them, an
                                answer ("": there is none); NULL: unknown */
    int64_t start;           /* of an answer: its byte in the pair; 0: where it is first */
    const char *const *more; /* [more_count] further right answers, which an evaluation accepts;
                                or texts unlike the first (negatives of training embeddings) */
    size_t more_count;
    const void *reserved[2]; /* NULL */
};

struct berth_result;
/* Runs a task, a row of berth_task_at; NULL: the model's own. A model without its head is
 * BERTH_CONFIG. Texts are packed into batches without padding, and each has the result that it
 * would have alone. A text that fails has no items, zeros as rows and an outcome; the result is
 * then not NULL, and *error is about the first such text. */
struct berth_result *berth_run(const struct berth_model *model, const char *task,
                               const struct berth_text *texts, size_t count,
                               const char *const *settings, const struct berth_watch *watch,
                               struct berth_error *error);
void berth_result_free(struct berth_result *result);

/* What was found in a text; the best one, or the first in the text, is the first. */
struct berth_item {
    const char *text;   /* the answer, class, type of an entity, word for a mask, piece */
    double score;       /* a probability, or the number of a regression; NaN: none */
    int64_t start, end; /* of the text (answers: of the pair), end exclusive, in the unit of the
                           setting offsets, bytes unless it is given; -1: nowhere */
    int64_t id;         /* of the class, word or piece; -1: none */
    int64_t group;      /* which mask, or which of two texts, from 0 */
    const void *reserved[2];
};
const struct berth_item *berth_result_items(const struct berth_result *result, size_t input,
                                            size_t *count);
/* [*rows][*width] numbers of a text: an embedding, scores of all classes, hidden states. Those of
 * the texts follow each other: where each has one row, those of text 0 are the whole matrix's
 * first. */
const float *berth_result_rows(const struct berth_result *result, size_t input, size_t *rows,
                               size_t *width);

struct berth_outcome {
    enum berth_status status;
    const char *message; /* "" */
    int64_t tokens;      /* that the model read, special tokens included */
    int truncated;       /* tokens beyond max_seq_length were left out */
};
const struct berth_outcome *berth_result_outcome(const struct berth_result *result, size_t input);
/* JSON as the server writes it; of a job its summary (input 0). NULL: none. */
const char *berth_result_text(struct berth_result *result, size_t input);
/* A job's numbers by name: "f1", "tensors", ...; NaN: no such number. */
double berth_result_number(const struct berth_result *result, const char *name);

/* --- training and other jobs ------------------------------------------------------------------ */

/* Trains a copy of the model for a task on examples in memory or, if `examples` is NULL, on the
 * setting train_file; evaluates on held_out, or validation_file. Returns the new model, ready to
 * run and to save, whose files are in the setting output_dir or, without it, in a temporary folder
 * until the model is closed. `base` may run meanwhile. Settings: those of `berth finetune TASK`. */
struct berth_model *berth_train(const struct berth_model *base, const char *task,
                                const struct berth_text *examples, size_t count,
                                const struct berth_text *held_out, size_t held_out_count,
                                const char *const *settings, const struct berth_watch *watch,
                                struct berth_error *error);
/* Runs a row of berth_job_at: "pretrain", "predict", "evaluate", "vocab", "prepare", "pack", ...
 * Its settings are those of the verb (`berth vocab --help`); what the verb takes as words are a and
 * b (compare), path (verify, inspect), input_dir and output_dir (pack). Processes that a launcher
 * started together all call it and divide its work. */
struct berth_result *berth_job(const char *job, const char *const *settings,
                               const struct berth_watch *watch, struct berth_error *error);

/* --- tables, for programs that offer all this to others; NULL: no more -------------------- */

struct berth_task {
    const char *name, *pipeline; /* "answer", "question-answering" */
    /* What an example's are called: "question", "context", "answer", ...; NULL: it has none. */
    const char *text, *pair, *label, *more;
    int needs_pair, has_items, has_rows, trains;
    const char *help;
};
struct berth_job_row {
    const char *name, *help;
};
struct berth_option {
    const char *name, *aliases; /* aliases: separated by blanks, or "" */
    const char *uses;           /* "open", tasks, "train-" tasks and jobs, separated by blanks */
    const char *type;           /* "integer", "real", "flag", "text" or "choice" */
    const char *value;          /* the default, or NULL */
    const char *choices;        /* separated by |, or NULL */
    double minimum, maximum;    /* NaN: any */
    const char *help, *group;
    const char
        *only_with; /* the settings without which it has no effect, separated by "; ": "name",
                       "!name", "name=one|other", "name!=one"; or NULL */
};
const struct berth_task *berth_task_at(size_t index);
const struct berth_job_row *berth_job_at(size_t index);
const struct berth_option *berth_option_at(size_t index);

#ifdef __cplusplus
}
#endif

#endif
