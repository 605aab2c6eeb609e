// SPDX-License-Identifier: Apache-2.0
// The embedding settings of a sentence-transformers folder: modules.json, the modules' own
// config.json, sentence_bert_config.json and config_sentence_transformers.json. Read in the layouts
// of versions 2 to 6, written in that of versions before 6, which all versions read.
//
// The Transformer may be in a folder of its own, FOLDER/0_Transformer, which is then the model's
// folder (hub_find_model): the modules are found in the one around it.
//
// Leaves out modules other than Transformer, Pooling, Normalize and Dense (sentence_dense.h), or
// MLMTransformer and SpladePooling (max, relu), and the concatenation of several poolings; they are
// refused by name.
#ifndef BERTH_MODEL_SENTENCE_H
#define BERTH_MODEL_SENTENCE_H

#include "core/file.h"
#include "core/log.h"
#include "core/pooling.h"
#include "format/json/json.h"
#include "model/sentence_dense.h"

#include <stdint.h>

/* How the rows of a text become one embedding. */
struct berth_embedding {
    enum berth_pooling pooling;
    int normalize; /* scale to length 1 */
};

#define SENTENCE_DENSE_MAX 4

enum sentence_kind {
    SENTENCE_NONE,  // no modules.json, or that of a cross-encoder
    SENTENCE_DENSE, // one vector for a text
    SENTENCE_SPARSE // weights of words: of a Transformer with a head for masked words
};

struct sentence {
    int found; // 0: it is of another kind than was asked for, or of none; the rest is unset
    struct berth_embedding how;
    int skips_prompt;   // rows of the prompt, and of what is before it, are left out of the pooling
    int64_t max_length; // tokens per text, including special ones; 0: the number of positions
    // Between the pooling and how.normalize, in their order.
    struct sentence_dense dense[SENTENCE_DENSE_MAX];
    size_t dense_count;
    int64_t truncate_dim; // a vector's first numbers that are kept in the end; 0: all
    char *prompt;         // prefix of every text; NULL: none
    json *settings;       // config_sentence_transformers.json; NULL: there is none
};

// The poolings' names in sentence-transformers.
#define SENTENCE_POOLINGS 6
extern const char *const sentence_pooling_names[SENTENCE_POOLINGS];

// Reads the files of a folder of dense vectors, or of sparse ones. BERTH_CONFIG, naming file and
// module, if the embedding is not supported, or is sparse where dense vectors are wanted.
// sentence_done releases what it read; after an error there is nothing to release.
enum berth_status sentence_read(const char *folder, struct sentence *sentence,
                                struct berth_error *error);
enum berth_status sentence_read_sparse(const char *folder, struct sentence *sentence,
                                       struct berth_error *error);
void sentence_done(struct sentence *sentence);
// What the folder is, whether its modules are supported or not.
enum berth_status sentence_find_kind(const char *folder, enum sentence_kind *kind,
                                     struct berth_error *error);
// The folder that a user names: that of the modules, else `folder` itself.
enum berth_status sentence_find_folder(const char *folder, struct path *found,
                                       struct berth_error *error);
// The numbers of an embedding of a model with `hidden` columns.
int64_t sentence_width(const struct sentence *sentence, int64_t hidden);
// BERTH_CONFIG, naming the folder, if the first Dense does not read `hidden` columns.
enum berth_status sentence_check_width(const struct sentence *sentence, const char *folder,
                                       int64_t hidden, struct berth_error *error);

// Replaces how to embed by the settings of these names, where they are set: `pooling` is one of the
// names above or NULL, `normalize` 0, 1 or -1.
void sentence_choose(struct berth_embedding *how, const char *pooling, int normalize);

// The prompt of a name, "" if it is empty; borrowed. BERTH_USAGE, with the names that are known.
enum berth_status sentence_find_prompt(const struct sentence *sentence, const char *name,
                                       const char **prompt, struct berth_error *error);

// The prompt of queries, "query", and that of documents: the first of "document", "passage" and
// "corpus" that the folder has. Borrowed; NULL: none or an empty one. The default prompt is of
// texts that are neither, as in sentence-transformers.
const char *sentence_query_prompt(const struct sentence *sentence);
const char *sentence_document_prompt(const struct sentence *sentence);

// Pools the rows [first, count) of `width` columns on the host as a device pools all of them;
// BERTH_POOL_WEIGHTED_MEAN counts its weights from row 0.
void sentence_pool(const float *rows, int64_t first, int64_t count, int64_t width,
                   enum berth_pooling pooling, float *pooled);

// Whether texts are lower-cased before the tokenizer sees them; not without a modules.json.
enum berth_status sentence_lower_cases(const char *folder, int *lower_case,
                                       struct berth_error *error);

// Writes the files of a model of vectors with `size` numbers into an existing folder.
enum berth_status sentence_write(const struct sentence *sentence, int64_t size, const char *folder,
                                 struct berth_error *error);

// Copies these files and those in the modules' folders to `target`; missing files are skipped.
enum berth_status sentence_copy(const char *folder, const char *target, struct berth_error *error);

#endif
