// SPDX-License-Identifier: Apache-2.0
// Scores tags word by word and entity by entity, with the same numbers as seqeval: an entity is
// correct if its type, first word and last word are those of the reference.
//
// Without a scheme tags are interpreted as in the conlleval script: any sequence of tags has
// entities (an I-LOC after O begins one). With a scheme, only what the scheme allows is an entity,
// as in seqeval's mode "strict". A tag is a letter (B, I, O, E, S, U, L) and a type: "B-LOC". The
// task tag scores an evaluation with it, and `berth evaluate tokens` a file.
#ifndef BERTH_METRICS_ENTITIES_H
#define BERTH_METRICS_ENTITIES_H

#include "core/error.h"

#include <stddef.h>

// The sentences of a reference and of a prediction.
struct entity_tags {
    const char *const *reference; // [starts[count]] the tag of each word
    const char *const *predicted; // likewise
    const size_t *starts;         // [count + 1] first word of each sentence, then their number
    size_t count;
};

// Counts of one type of entities, and their scores; 0 where a score is undefined.
struct entity_score {
    char *type;
    size_t correct, predicted, reference;
    double precision, recall, f1;
};

struct entity_scores {
    struct entity_score all;    // over all types; its type is NULL
    struct entity_score *types; // [type_count] ascending by name
    size_t type_count;
    double accuracy; // fraction of the words whose tags are equal
};

// The names of the schemes: "IOB1|IOB2|IOE1|IOE2|IOBES|BILOU".
extern const char entity_schemes[];

// Scores at least one word; `scheme` may be NULL. BERTH_USAGE: the scheme is unknown.
// BERTH_BAD_DATA: a tag has a letter that the scheme does not have. Free with entity_scores_done,
// also after a failure.
enum berth_status entity_scores(const struct entity_tags *tags, const char *scheme,
                                struct entity_scores *scores, struct berth_error *error);
void entity_scores_done(struct entity_scores *scores);
size_t entity_scores_bytes(size_t words); // the most memory that entity_scores takes

// An entity among the words of one sentence.
struct entity {
    const char *type;   // borrowed from a label, or "_"
    size_t first, last; // words
};
// The entities of a sentence; newly allocated (memory_free). A label is a letter of IOBES or BILOU,
// a hyphen and a type. Any other one but "O" is a type as it is, as in transformers' pipeline (for
// scores seqeval takes its first character for the letter).
enum berth_status entities_of(const char *const *labels, size_t count, struct entity **entities,
                              size_t *entity_count, struct berth_error *error);

#endif
