// SPDX-License-Identifier: Apache-2.0
// What a task learns and how it answers. Read by the tasks and the jobs
// (dev/check_dependencies.py). Texts are borrowed from who sets them.
#ifndef BERTH_SETTINGS_TASK_H
#define BERTH_SETTINGS_TASK_H

#include <stdint.h>

struct task_settings {
    const char *train_file;
    const char *validation_file;
    const char *predict_file;
    const char *queries_file, *corpus_file, *relevant_file; /* embeddings: a set of retrieval */
    const char *query_prompt,
        *corpus_prompt;    /* before its texts; NULL: those of the model's folder */
    const char *task_name; /* "mrpc", ...; NULL: the user's own files */
    const char *data_dir;  /* folder with the task's files */
    const char *split;     /* the part to predict: "test", "dev" or "train" */
    const char *language;  /* of XNLI; NULL: "zh" */
    /* "auto", "single_label_classification", "multi_label_classification" or "regression" */
    const char *problem_type;
    const char *class_weights;     /* "balanced", or a number for each class; NULL: 1 each */
    double label_smoothing_factor; /* of training on classes; 0: none */
    double positive_weight;        /* of training on pairs that fit or not: of those that fit */
    const char *embedding_loss;    /* "auto", or a row of task/embed_losses.c */
    int64_t negatives_batch;       /* examples whose texts are each other's negatives; 0: those of a
                                      micro-batch of per_device_train_batch_size, or of an update */
    const char *batch_sampler;     /* "batch", or "no_duplicates": no text twice in a group */
    int symmetric_negatives;       /* second texts are matched with first texts, too */
    int cached_negatives;          /* micro-batches are computed in pieces */
    double similarity_scale;       /* factor of the cosines of negatives */
    double triplet_margin;
    const char *triplet_distance;   /* "euclidean" or "cosine" */
    const char *teacher_model;      /* folder or name; NULL: scores are in the file */
    const char *matryoshka_dims;    /* "A,B,...": cut embeddings to train; NULL: whole ones only */
    const char *matryoshka_weights; /* "A,B,...", of their losses; NULL: 1 each */
    const char *pooling;            /* "mean", ...; NULL: as the model's folder says, else "mean" */
    int normalize; /* scale embeddings to length 1; -1: as the model's folder says, else 0 */
    const char *input_dir; /* folder or pattern of shards, or one shard */
    const char *eval_dir; /* held-out shards; NULL: files of input_dir with "test" in their names */
    int do_predict;       /* classification: predict predict_file, or the test set
                             of task_name, after training; -1: if predict_file is
                             set */
    int64_t predict_batch_size;
    int64_t n_best_size;
    int64_t max_answer_length;
    double null_score_diff_threshold;
    int align_to_words;       /* answers begin and end with words, not within one */
    const char *answer_score; /* the probability of an answer: "probability", P(start) P(end) over
                                 [CLS] and the context of its window; "softmax", over the
                                 candidates, of the sums of both logits */
};

#endif
