// SPDX-License-Identifier: Apache-2.0
// Reads SQuAD data sets (v1.1 and v2.0): Stanford's nested files, and the flat records of Hugging
// Face's scripts, {id, title, context, question, answers: {text, answer_start}}, in an array, under
// "data", or as one object per line. Tasks make features of the examples (squad_features.h);
// official evaluations compare with their answers.
#ifndef BERTH_DATA_SQUAD_H
#define BERTH_DATA_SQUAD_H

#include "core/error.h"
#include "core/log.h"

#include <stddef.h>
#include <stdint.h>

#define SQUAD_FILE_LIMIT ((size_t)2 << 30) // bytes of a file

struct squad_answer {
    const char *text;
    int64_t start; // in code points of the context, as in the file; may be negative
    int misplaced; // the text is not in the context there, white space ignored
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
    int version_2;    // to be scored as v2.0: the version says so, a question has is_impossible, or
                      // some questions have answers and others an empty array
    size_t misplaced; // number of misplaced answers
    const char *name; // the file, for messages; NULL in a data set built by the caller
    void *storage;    // owns every string; NULL in a data set built by the caller
};

// Reads a data set. If `limit` > 0, it keeps only so many examples. Errors (no questions, missing
// keys, wrong types) name the file, the location and the remedy. An answer that is not in its
// context at answer_start is marked as misplaced: squad_refuse_misplaced refuses it, training skips
// its question.
enum berth_status squad_read(const char *path, int64_t limit, struct squad_dataset *dataset,
                             struct berth_error *error);
void squad_dataset_done(struct squad_dataset *dataset);

// Whether there is something to score predictions against: an answer, or a question without one
// that v2.0 marks.
int squad_has_references(const struct squad_dataset *dataset);

// BERTH_BAD_DATA if an answer is misplaced. The message describes the first: location, id, what the
// context has there, and the remedy.
enum berth_status squad_refuse_misplaced(const struct squad_dataset *dataset,
                                         struct berth_error *error);

// Reads a data set for scoring, as the official scripts do: answer_start is neither needed nor
// checked.
enum berth_status squad_read_references(const char *path, struct squad_dataset *dataset,
                                        struct berth_error *error);
// As squad_read, for a data set in memory; messages call it `name`.
enum berth_status squad_read_memory(const char *name, const char *bytes, size_t length,
                                    int64_t limit, struct squad_dataset *dataset,
                                    struct berth_error *error);

// BERTH_BAD_DATA if two questions have the same id, because predictions are stored by id. The
// message names both questions.
enum berth_status squad_check_ids(const struct squad_dataset *dataset, const char *name,
                                  struct berth_error *error);

#endif
