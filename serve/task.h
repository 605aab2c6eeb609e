// SPDX-License-Identifier: Apache-2.0
// What a model does with texts: one row for each task. A row opens a model through berth.h, runs
// many items at once, reads an item from Hugging Face's JSON and writes its result.
#ifndef BERTH_SERVE_TASK_H
#define BERTH_SERVE_TASK_H

#include "core/error.h"
#include "core/json_line.h"
#include "serve/tensor.h"

#include <stddef.h>
#include <stdint.h>

enum offset_unit { OFFSET_CODE_POINTS, OFFSET_UTF16, OFFSET_BYTES };

// What a request asks for beside its texts.
struct parameters {
    int64_t top;           // most results of an item; 0: not said
    int64_t answer_length; // most tokens of an answer; 0: as the model was opened
    int with_no_answer;    // -1: as the model was opened
    int whole_words;       // an answer is not cut within a word; -1: as the model was opened
    int normalize;         // embeddings of length 1; -1: as the model says
    int64_t dimensions;    // first numbers of an embedding; 0: all
    int must_fit;          // a text longer than the model reads is refused, not truncated
    int by_word;           // labels of words, not entities
    enum berth_score score;
    enum offset_unit unit;
};

// A unit of work: a question and its context, or a text and its pair.
struct item {
    const char *texts[2]; // borrowed from the request; the second may be NULL
    struct parameters parameters;
    int64_t tokens; // expected, for the queue
    // The result:
    enum berth_status status; // of this item alone; the error is then in `message`
    char *message;
    int64_t tokens_read;
    int truncated; // tokens beyond those that the model reads were left out
    struct berth_answer *answers;
    size_t answer_count;
    float *numbers; // [number_count] an embedding, or a score for each class
    size_t number_count;
    struct berth_tags tags;
    struct berth_filled filled;
};

struct served_task;

// An opened model. Read-only, and used by any number of threads.
struct instance {
    const struct served_task *task;
    union {
        struct berth_model *model;
        struct berth_encoder *encoder;
        struct berth_classifier *classifier;
        struct berth_tagger *tagger;
        struct berth_filler *filler;
    } handle; // of the task's kind
    struct berth_tokenizer *tokenizer;
    int64_t max_tokens;         // of a sequence
    char *path;                 // folder or file of weights, where a name of the hub leads now
    struct berth_config config; // its other strings are borrowed
    int references;             // of models.h
};

// A tensor of the results, as KServe has them.
struct task_output {
    const char *name;                                 // NULL: after the last
    const char *type;                                 // "BYTES", "FP32", "INT64"
    size_t (*width)(const struct instance *instance); // numbers of an item
    // Writes the item's elements.
    void (*put)(struct tensor_writer *writer, const struct instance *instance,
                const struct item *item);
};

struct served_task {
    const char *name;             // Hugging Face's name of the pipeline
    const char *architectures[2]; // ends of the name in config.json; "": any model
    int uses_windows;             // texts that are too long: 1: read in windows; 0: truncated
    int is_listed;                // Hugging Face's reply to one input is a list, as that to several
    const char *fields[2];        // names of the texts; the second NULL: there is only one
    int is_pair;                  // both texts are required
    enum berth_status (*open)(struct instance *instance, struct berth_log log,
                              struct berth_error *error);
    void (*close)(struct instance *instance);
    // Fills the results of all items. A status means that none was run.
    enum berth_status (*run)(const struct instance *instance, struct item *const *items,
                             size_t count, struct berth_error *error);
    // What this task alone refuses; NULL: nothing.
    enum berth_status (*check)(const struct item *items, size_t count, struct berth_error *error);
    int64_t (*max_tokens)(const struct instance *instance);
    // Writes the result of an item, as Hugging Face's API does.
    void (*write)(struct json_line *line, const struct instance *instance, const struct item *item);
    const struct task_output *outputs;
};

extern const struct served_task served_questions; // task_questions.c, ...
extern const struct served_task served_classes;
extern const struct served_task served_embeddings;
extern const struct served_task served_tokens;
extern const struct served_task served_masks;

// For outputs: one element an item, and the JSON that `write` makes of it as a text.
size_t task_one(const struct instance *instance);
void task_put_text(struct tensor_writer *writer, const struct instance *instance,
                   const struct item *item);

// A position in a text, in every unit. Zero-initialised, it is the beginning.
struct text_position {
    size_t bytes;
    int64_t characters, utf16_units;
};

// Moves the position forward to a character.
void text_position_advance(struct text_position *position, const char *text, int64_t character);
int64_t text_position_in(const struct text_position *position, enum offset_unit unit);

// The row for a model's architecture, the class in its config.json; "" is any.
const struct served_task *task_find(const char *architecture);

// Whether one of the task's texts has this name.
int task_has_field(const struct served_task *task, const char *name);

// Opens the model of config->model_name_or_path, a folder, a file of weights or a name of the hub,
// for the task that its config.json names.
enum berth_status instance_open(const struct berth_config *config, struct berth_log log,
                                struct instance **instance, struct berth_error *error);
void instance_close(struct instance *instance);
// The number of tokens of the item's texts, [CLS] and [SEP] included.
int64_t instance_count_tokens(const struct instance *instance, const struct item *item);
// How many are computed for an item of so many; more than max_tokens where texts are divided.
int64_t instance_computed_tokens(const struct instance *instance, int64_t tokens);

// Gives the item an error of its own.
void item_fail(struct item *item, enum berth_status status, const char *message);
void item_done(struct item *item);

#endif
