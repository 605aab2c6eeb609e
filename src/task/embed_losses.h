// SPDX-License-Identifier: Apache-2.0
// The losses that embeddings are trained with: a row for each value of embedding_loss, what
// examples it takes, and the objective that it is for the model (model/config.h). embed.c chooses
// one; the device computes it.
#ifndef BERTH_TASK_EMBED_LOSSES_H
#define BERTH_TASK_EMBED_LOSSES_H

#include "data/pairs/text_examples.h"
#include "model/config.h"
#include "settings/settings.h"

// What the numbers of an example are.
enum embedding_scores {
    SCORES_NONE,
    SCORES_COSINE,  // one from -1 to 1
    SCORES_ORDER,   // one of any size: only which of two is larger counts
    SCORES_MARGINS, // of each text from the third on: how much nearer the second text is to the
                    // first one; or a score for each text from the second on, whose differences
                    // they are
    SCORES_VECTORS  // a vector for all texts, or one for each
};

struct embedding_loss {
    const char *name;
    const char *examples; // what it takes, in words
    size_t least, most;   // texts of an example
    enum embedding_scores scores;
    enum bert_embedding_loss loss;
    enum similarity_loss similarity;
    int is_of_cosines; // 1: the device gets vectors of length 1, whose products are cosines
    int has_groups;    // examples are compared with each other
};

// Sets the loss of `examples`, resolving embedding_loss auto, negatives_batch and the Matryoshka
// settings, and adds its objective to the shape. `has_teacher`: the scores come from a model
// instead of the file. BERTH_CONFIG: the loss is not for such examples.
enum berth_status embedding_loss_settle(const struct text_examples *examples, int has_teacher,
                                        struct settings *config, struct bert_config *shape,
                                        const struct embedding_loss **loss,
                                        struct berth_error *error);

#endif
