// SPDX-License-Identifier: Apache-2.0
// Turns JSON values of a file of SQuAD into examples: articles, paragraphs, questions and answers
// of the nested layout, or flat records. squad.c calls it for a whole file or for each line, and
// owns what is collected.
#ifndef BERTH_DATA_SQUAD_RECORDS_H
#define BERTH_DATA_SQUAD_RECORDS_H

#include "data/squad/squad.h"
#include "format/json/json.h"

#define SQUAD_LOCATION_SIZE 128 // bytes of a location such as data[3].paragraphs[0].qas[2]
#define SQUAD_SHOWN 60          // maximum bytes of a quotation in a message

// The state of reading; the reader owns the arrays.
struct squad_reader {
    const char *name;
    int64_t limit;
    int check_answers;
    struct berth_error *error;
    struct squad_example *examples;
    size_t count, capacity;
    struct squad_answer *answers;
    size_t answer_count, answer_capacity;
    int is_declared_2;                  // the version of the file is 2.0
    int version_2;                      // it is, or a question has is_impossible
    int has_empty;                      // some question has an empty array of answers
    json *number_ids;                   // texts of ids that are integers; NULL: none
    size_t misplaced;                   // number of misplaced answers
    struct berth_error first_misplaced; // the error for the first of them
};

// Whether the limit has been reached.
int squad_reader_is_full(const struct squad_reader *reader);

// squad_reader_root reads the value of a whole file, squad_reader_record one flat record or
// article; messages say that it is at `location`.
enum berth_status squad_reader_root(struct squad_reader *reader, const json *root);
enum berth_status squad_reader_record(struct squad_reader *reader, const json *record,
                                      const char *location);

// The length of the prefix of `text` that messages quote; ends at a character boundary.
int squad_shown(const char *text, size_t length);

#endif
