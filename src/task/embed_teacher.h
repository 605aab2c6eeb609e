// SPDX-License-Identifier: Apache-2.0
// What a teacher model says of the examples that embeddings are trained with, in place of numbers
// in their file. embed.c asks it when a training set is open, before the first update.
#ifndef BERTH_TASK_EMBED_TEACHER_H
#define BERTH_TASK_EMBED_TEACHER_H

#include "data/pairs/text_examples.h"
#include "task/embed_losses.h"
#include "task/task.h"

struct embedding_teacher {
    const char *model; // folder or name
    const struct settings *config;
    const struct berth_log *log;
    const struct task_row *row; // of embeddings
};

// vectors [examples->count][size]: the embedding of each example's first text. BERTH_CONFIG: the
// teacher's embeddings have another size.
enum berth_status embedding_teacher_vectors(const struct embedding_teacher *teacher,
                                            const struct text_examples *examples, float *vectors,
                                            size_t size, struct berth_error *error);

// Gives each example a score for each text from the second on: what a cross-encoder makes of it and
// the first text, before a sigmoid; or the dot product of their embeddings.
enum berth_status embedding_teacher_scores(const struct embedding_teacher *teacher,
                                           struct text_examples *examples,
                                           struct berth_error *error);

#endif
