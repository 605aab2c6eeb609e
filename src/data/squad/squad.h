// SPDX-License-Identifier: Apache-2.0
// Reads SQuAD data sets (v1.1 and v2.0): Stanford's nested files, and the flat records of Hugging
// Face's scripts ({id, title, context, question, answers: {text, answer_start}}, in an array, under
// "data", or one object per line).
#ifndef BERTH_DATA_SQUAD_H
#define BERTH_DATA_SQUAD_H

#include "core/error.h"
#include "core/log.h"

#include <stddef.h>
#include <stdint.h>

#define SQUAD_FILE_LIMIT ((size_t)2 << 30) // bytes of a file

struct squad_answer {
    const char *text;
    int64_t start; // character (code point) of the context as in the file; may be negative
    int misplaced; // the context does not have the text there, ignoring white space
};

struct squad_example {
    const char *id;
    const char *title; // "" when absent
    const char *question;
    const char *context;   // shared by the questions of a paragraph
    size_t context_length; // bytes
    const struct squad_answer *answers;
    size_t answer_count;
    int impossible; // v2.0: is_impossible, or without that key an empty array of answers
};

struct squad_dataset {
    struct squad_example *examples; // in file order
    size_t count;
    int version_2;    // scored as v2.0: the version says so, a question has is_impossible, or some
                      // have answers and others an empty array of them
    size_t misplaced; // answers
    const char *name; // the file, for messages; NULL in a data set built by the caller
    void *storage;    // owns every string; NULL in a data set built by the caller
};

// Reads a data set. `limit` > 0 keeps the first examples only. Errors name file, place and remedy:
// no questions, missing keys, wrong types. An answer that is not in its context at answer_start is
// marked: squad_refuse_misplaced refuses it, training skips its question.
enum berth_status squad_read(const char *path, int64_t limit, struct squad_dataset *dataset,
                             struct berth_error *error);
void squad_dataset_done(struct squad_dataset *dataset);

// Whether there is something to score predictions against: an answer, or a question without one
// that v2.0 marks.
int squad_has_references(const struct squad_dataset *dataset);

// BERTH_BAD_DATA when an answer is misplaced, with the place, the id, the context's text there and
// the remedy of the first one.
enum berth_status squad_refuse_misplaced(const struct squad_dataset *dataset,
                                         struct berth_error *error);

// Reads a data set for scoring only, as the official scripts do: answer_start is neither needed nor
// checked.
enum berth_status squad_read_references(const char *path, struct squad_dataset *dataset,
                                        struct berth_error *error);
// As squad_read for a data set in memory; messages call it `name`.
enum berth_status squad_read_memory(const char *name, const char *bytes, size_t length,
                                    int64_t limit, struct squad_dataset *dataset,
                                    struct berth_error *error);

// Predictions are stored by id: a duplicate id is BERTH_BAD_DATA, with both places in the message.
enum berth_status squad_check_ids(const struct squad_dataset *dataset, const char *name,
                                  struct berth_error *error);

#endif
