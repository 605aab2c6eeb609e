// SPDX-License-Identifier: Apache-2.0
// The keys of records: one table from which the sinks are driven. Lines for people, dllogger's
// lines, TensorBoard's files and the charts of reports ask it how a field is written, whether they
// show it and under which name; JSON lines have every field under its own name. A field that the
// table does not have is shown with what its key ends with, as a log of another program has them.
//
// tests/cli/documents.py compares the table with the keys that the sources give to core/log.h, and
// with the list in doc/develop/records.md.
#ifndef BERTH_REPORT_KEYS_H
#define BERTH_REPORT_KEYS_H

#include <stddef.h>

// Texts of several words have a blank between them. NULL: as said.
struct key_row {
    const char *keys;   // of fields that are alike
    const char *unit;   // of the value; NULL: it has none
    const char *format; // of a real number; NULL: that of the key which this one ends with
    const char *small;  // its format from 0 to 1, exclusive and inclusive; NULL: the same
    const char *line;   // in a line for people; "": not shown; NULL: "key value"
    const char *brief;  // of a plan, a step and a summary without --verbose; NULL: as in a line
    const char *usual;  // the value that need not be said in a line
    // Dllogger's names, each as "where:name": a kind of record, or the job of a summary.
    const char *dllogger;
    const char *tags;  // TensorBoard's, of STEP records
    const char *chart; // its title; "": none, because others show it better; NULL: the key
    const char *words; // in a table for people; NULL: see key_words
    int is_name;       // an integer that names something: its digits are not grouped
    int counts;        // it tells when, or over how much, something was measured
};
// In the order in which charts and tags come.
extern const struct key_row key_rows[];
extern const size_t key_row_count;

// The key's own row, and the one whose unit and format it has: that of the longest key with a
// format or a unit that it ends with. Never NULL; a row without anything if there is none.
const struct key_row *key_row(const char *key);
const struct key_row *key_form(const char *key);

// The key in words, for a table: the row's own, else the title of its chart or of the chart of its
// evaluations, else the key itself with blanks. Written to `text` where it is made.
const char *key_words(const char *key, char *text, size_t size);

// Takes the first of several words off `words`; 0 if there is none. A longer word is cut.
#define KEY_WORD_SIZE 96
int key_next_word(const char **words, char word[KEY_WORD_SIZE]);

#endif
