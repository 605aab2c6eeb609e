// SPDX-License-Identifier: Apache-2.0
// What is made of the texts before the model sees them. Read by the tasks and the jobs
// (dev/check_dependencies.py). Texts are borrowed from who sets them.
#ifndef BERTH_SETTINGS_FEATURES_H
#define BERTH_SETTINGS_FEATURES_H

#include <stdint.h>

struct feature_settings {
    int64_t max_seq_length; /* the default of 384 is reduced to the model's positions */
    int64_t doc_stride;
    int64_t doc_overlap; /* > 0: tokens that successive windows share, in place of doc_stride */
    int64_t max_query_length;
    const char *features;      /* "google" (windows) or "keras" (context first, no windows) */
    const char *keras_answers; /* "first" or "all": which answers of a training question to use */
    const char *keras_end;     /* "inclusive" or "exclusive": the end position of an answer */
    const char *window_filter; /* "none" or "words": which training windows to keep */
    int version_2_with_negative;
    int strict_answers;        /* refuse a file with an answer that is not at its answer_start */
    int64_t max_train_samples; /* use only the first N examples; 0: all */
    int64_t max_eval_samples;
    const char *text_column;
    const char *text_pair_column; /* NULL: single texts */
    const char *label_column;
    const char *negative_column;         /* of the third texts, "A,B,..."; NULL: none */
    int line_by_line;                    /* masked words: a sequence for each line, not blocks */
    int64_t validation_split_percentage; /* masked words: of train_file, without validation_file */
    int64_t max_predictions_per_seq;     /* most masked positions of an instance; training uses the
                                            first ones of each instance, up to this number */
    double masked_lm_prob;    /* fraction of the tokens to predict; also of masked words */
    int whole_word_mask;      /* mask all pieces of a word or none; also of masked words */
    int64_t dupe_factor;      /* passes over the documents, each with new masks */
    double short_seq_prob;    /* fraction of the documents to cut into shorter instances */
    const char *rng;          /* "fast", or "python": the generator of CPython's random */
    int64_t shards;           /* number of training shards */
    int64_t test_shards;      /* number of test shards; -1: as many as training shards */
    double fraction_test_set; /* fraction of the sentences */
    const char *stages;       /* a list from "text,shards,hdf5,pack"; NULL: all except
                                 pack */
    int pack;                 /* also run the stage pack */
    const char *format;       /* "hdf5" or "tfrecord" */
};

#endif
