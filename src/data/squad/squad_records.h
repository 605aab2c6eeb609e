// SPDX-License-Identifier: Apache-2.0
// The part of the SQuAD reader that walks JSON values: articles, paragraphs, questions and answers.
#ifndef BERTH_DATA_SQUAD_RECORDS_H
#define BERTH_DATA_SQUAD_RECORDS_H

#include "data/squad/squad.h"
#include "format/json/json.h"

#define SQUAD_PLACE 128 // bytes of a place such as data[3].paragraphs[0].qas[2]
#define SQUAD_SHOWN 60  // bytes of a text that a message quotes

// What is being read and what was read so far; the arrays belong to the reader.
struct squad_reader {
    const char *name;
    int64_t limit;
    int check_answers;
    struct berth_error *error;
    struct squad_example *examples;
    size_t count, capacity;
    struct squad_answer *answers;
    size_t answer_count, answer_capacity;
    int version_2;
    size_t misplaced;                   // answers
    struct berth_error first_misplaced; // the complaint about the first of them
};

// Whether the limit is reached.
int squad_reader_is_full(const struct squad_reader *reader);

// Reads a whole file's value, or one record or article that stands at `place`.
enum berth_status squad_reader_root(struct squad_reader *reader, const json *root);
enum berth_status squad_reader_record(struct squad_reader *reader, const json *record,
                                      const char *place);

// Length of `text` cut to what a message can show, at a character's beginning.
int squad_shown(const char *text, size_t length);

#endif
