// SPDX-License-Identifier: Apache-2.0
// What a folder of sentence-transformers says of its embeddings: modules.json, the modules' own
// config.json, sentence_bert_config.json and config_sentence_transformers.json, in the layouts of
// its versions 2 to 6.
//
// Leaves out: modules that compute more than a pooling and a scaling (Dense, ...), and the
// concatenation of several poolings; they are refused by name.
#ifndef BERTH_MODEL_SENTENCE_H
#define BERTH_MODEL_SENTENCE_H

#include "berth.h"
#include "format/json/json.h"

#include <stdint.h>

struct sentence {
    int found; // 0: the folder has no modules.json, and the rest says nothing
    struct berth_embedding how;
    int64_t
        max_length; // tokens of a text, special ones included; 0: as many as there are positions
    int lower_case; // 1: texts are lower-cased, whatever the tokenizer's files say
    char *prompt;   // put before every text; NULL: none
};

// sentence-transformers' names of the poolings.
#define SENTENCE_POOLINGS 6
extern const char *const sentence_pooling_names[SENTENCE_POOLINGS];

// Reads the files of a folder; what cannot be computed is BERTH_CONFIG naming file and module.
enum berth_status sentence_read(const char *folder, struct sentence *sentence,
                                struct berth_error *error);
void sentence_done(struct sentence *sentence);

// Copies these files, and those in the modules' folders, into `target`; fine when there are none.
enum berth_status sentence_copy(const char *folder, const char *target, struct berth_error *error);

#endif
