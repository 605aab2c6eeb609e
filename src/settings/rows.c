// SPDX-License-Identifier: Apache-2.0
// The rows of the option table: everything a user can set, in the order in which --help shows it.
// Read by whoever sets, prints or explains a setting (settings.c, cli/rows.c, deepspeed.c);
// functions on a single row are in core/options.c.
#include "settings/settings.h"

#define TEXT_JOBS                                                                                  \
    (JOB_TRAIN | JOB_PREDICT | JOB_ANSWER | JOB_SHOW | JOB_TOKENIZE | JOB_FEATURES | JOB_EMBED |   \
     JOB_FILL | JOB_CLASSIFY | JOB_MINE)
// What makes a tokenizer of a vocabulary.
#define VOCABULARY_JOBS (TEXT_JOBS | JOB_PREPARE)
// What makes tokens of text; pre-training has a vocabulary, but its text is tokens already.
#define TOKEN_JOBS (VOCABULARY_JOBS & ~(JOB_PRETRAIN | JOB_EVALUATE_PRETRAIN))
// What makes data for pre-training.
#define DATA_JOBS (JOB_PREPARE | JOB_PACK | JOB_VOCAB)
#define MODEL_JOBS                                                                                 \
    (JOB_TRAIN | JOB_PREDICT | JOB_ANSWER | JOB_SHOW | JOB_EMBED | JOB_FILL | JOB_CLASSIFY |       \
     JOB_MINE)
#define SQUAD_JOBS (JOB_FINETUNE_SQUAD | JOB_PREDICT_SQUAD | JOB_ANSWER | JOB_SHOW)
#define CLASSIFY_JOBS (JOB_FINETUNE_CLASSIFY | JOB_PREDICT_CLASSIFY)
#define TOKENS_JOBS (JOB_FINETUNE_TOKENS | JOB_PREDICT_TOKENS)
#define COLUMN_JOBS (CLASSIFY_JOBS | TOKENS_JOBS)
#define TEXTS_JOBS (JOB_FINETUNE_EMBED | JOB_EVALUATE_EMBED)
#define RANKED_JOBS (JOB_FINETUNE_RERANK | JOB_EVALUATE_RERANK)
#define SHARD_JOBS (JOB_PRETRAIN | JOB_EVALUATE_PRETRAIN)
// What reads text to mask.
#define MLM_JOBS (JOB_PRETRAIN_MLM | JOB_EVALUATE_MLM)
#define WINDOW_JOBS (SQUAD_JOBS | JOB_FEATURES | JOB_BENCH)
#define MACHINE_JOBS (MODEL_JOBS | JOB_BENCH)

// A row of a type: its group, its field, its default.
#define ROW(kind, subject, owner, field, value)                                                    \
    .type = (kind), .group = (subject), .name = #field, .default_value = (value),                  \
    .offset = offsetof(struct settings, owner.field)
#define INTEGER(subject, owner, field, value) ROW(OPTION_INTEGER, subject, owner, field, value)
#define REAL(subject, owner, field, value) ROW(OPTION_REAL, subject, owner, field, value)
#define FLAG(subject, owner, field, value) ROW(OPTION_FLAG, subject, owner, field, value)
#define TEXT(subject, owner, field, value) ROW(OPTION_TEXT, subject, owner, field, value)
#define CHOICE(subject, owner, field, value) ROW(OPTION_CHOICE, subject, owner, field, value)

#define RECIPE_HELP "settings of a published program; options on the command line take precedence"

#define COMMON .common = 1
#define KEPT .resume = OPTION_KEPT
#define RESOLVED KEPT, .resolved = 1
#define NOTED .resume = OPTION_NOTED
#define FREE .resume = OPTION_FREE
#define LOCAL .local = 1
#define ONLY_WITH(settings) .only_with = settings
#define DEEPSPEED(path, value) .deepspeed = (path), .deepspeed_default = (value)

const struct option_row option_rows[] = {
    {TEXT("files", model, model_name_or_path, NULL), FREE, LOCAL, COMMON, .jobs = TEXT_JOBS,
     .unit = "DIR", .aliases = "model",
     .help = "folder or name of the model, in Hugging Face's or Google's format",
     .job_helps =
         {{JOB_TRAIN,
           "folder or name of the model to start from, in Hugging Face's or Google's format",
           NULL}}},
    {TEXT("files", model, vocab_file, NULL), FREE, LOCAL, COMMON,
     .jobs = VOCABULARY_JOBS | JOB_BENCH, .unit = "FILE", .aliases = "vocab",
     .help = "vocabulary: vocab.txt, tokenizer.json or a folder with its rules and added tokens",
     .job_helps = {{JOB_PREPARE | JOB_BENCH, "vocabulary: vocab.txt or tokenizer.json", NULL}},
     .shown = "that of the model folder",
     .job_defaults = {{JOB_BENCH, NULL,
                       "the first *vocab*.txt in the folder that --config names, in the data's "
                       "folder, or in a folder vocab beside it"}}},
    {TEXT("files", model, config_file, NULL), FREE, LOCAL, COMMON, .jobs = MODEL_JOBS,
     .unit = "FILE", .aliases = "config",
     .help = "config.json, if the folder of the weights has none",
     .job_helps = {{JOB_FROM_SCRATCH,
                    "config.json of a new model with random weights, or a name: tiny, minilm, "
                    "base, large, or a published model's such as roberta-base; or config.json of "
                    "a folder of weights that has none",
                    NULL}},
     .shown = "that of the model folder"},
    {FLAG("files", model, pre_layer_norm, "auto"), FREE, .jobs = MODEL_JOBS, .has_auto = 1,
     .help = "require layer norms before the sub-layers (false: after them)", .shown = "either"},
    {TEXT("files", model, gelu, "erf"), FREE, .jobs = MODEL_JOBS, .unit = "FORM",
     .choices = "erf|tanh",
     .help = "form that \"gelu\" of config.json means; tanh, as in Google's programs: the result's "
             "config.json says gelu_new"},
    {TEXT("files", task, train_file, NULL), NOTED, LOCAL, COMMON,
     .jobs = JOB_FINETUNE | JOB_PRETRAIN_MLM, .unit = "FILE", .aliases = "train",
     .help = "training data",
     .job_helps =
         {{JOB_FINETUNE_SQUAD, "training data: a SQuAD file", NULL},
          {JOB_FINETUNE_CLASSIFY | JOB_FINETUNE_RERANK, "training data: a table of texts", NULL},
          {JOB_FINETUNE_TOKENS, "training data: words with tags, sentence by sentence", NULL},
          {JOB_FINETUNE_EMBED,
           "training data: a table of texts, or several, separated by commas or as a JSON array",
           NULL},
          {JOB_PRETRAIN_MLM, "text to train on: lines, or a table", NULL}}},
    {TEXT("files", task, validation_file, NULL), NOTED, LOCAL, COMMON,
     .jobs = JOB_FINETUNE | MLM_JOBS | COLUMN_JOBS, .unit = "FILE", .aliases = "dev",
     .help = "data to evaluate on, in the format of the training data",
     .job_helps = {{JOB_EVALUATE_MLM, "text to evaluate on: lines, or a table", NULL},
                   {JOB_PREDICT_CLASSIFY | JOB_PREDICT_TOKENS, "data to evaluate on, with do_eval",
                    NULL}}},
    {TEXT("files", task, predict_file, NULL), FREE, LOCAL, COMMON,
     .jobs = JOB_PREDICT_SQUAD | COLUMN_JOBS | JOB_EVALUATE_EMBED | JOB_EVALUATE_RERANK | JOB_SHOW |
             JOB_FEATURES,
     .unit = "FILE", .aliases = "input", .help = "data to predict: a SQuAD file",
     .job_helps = {{JOB_FEATURES, "SQuAD file whose features to show", NULL},
                   {CLASSIFY_JOBS, "data to predict: a table of texts", NULL},
                   {TOKENS_JOBS, "data to predict: words, sentence by sentence", NULL},
                   {JOB_EVALUATE_EMBED | JOB_EVALUATE_RERANK,
                    "data to evaluate on: a table of texts", NULL}}},
    {TEXT("files", task, queries_file, NULL), NOTED, LOCAL, COMMON, .jobs = TEXTS_JOBS,
     .unit = "FILE", .aliases = "queries",
     .help = "evaluate by retrieval: a table of queries with the columns _id and text, as BEIR's "
             "queries.jsonl; goes with corpus_file and relevant_file"},
    {TEXT("files", task, corpus_file, NULL), NOTED, LOCAL, COMMON, .jobs = TEXTS_JOBS,
     .unit = "FILE", .aliases = "corpus",
     .help = "the documents that the queries search: a table with the columns _id, text and, put "
             "before the text, title"},
    {TEXT("files", task, relevant_file, NULL), NOTED, LOCAL, COMMON, .jobs = TEXTS_JOBS,
     .unit = "FILE", .aliases = "relevant qrels",
     .help = "which documents are relevant to which query: a table with the columns query-id, "
             "corpus-id and score (0: not relevant), or TREC's four columns"},
    {TEXT("files", run, output_dir, NULL), FREE, LOCAL, COMMON,
     .jobs = JOB_TRAIN | JOB_PREDICT | JOB_PREPARE, .unit = "DIR", .aliases = "output",
     .help = "folder for the results"},
    {TEXT("files", run, deepspeed_config, NULL), NOTED, LOCAL, COMMON, .jobs = JOB_TRAIN,
     .unit = "FILE",
     .help = "DeepSpeed configuration (JSON); options on the command line take precedence"},
    {FLAG("files", run, overwrite_output_dir, "false"), FREE, COMMON,
     .jobs = JOB_TRAIN | JOB_PREDICT | JOB_VOCAB | JOB_MINE, .aliases = "force",
     .help = "write to an output folder that is not empty",
     .job_helps = {{JOB_TRAIN,
                    "write to an output folder that is not empty; what an earlier run left there "
                    "is removed: checkpoints, weights of --save_format, scores",
                    NULL},
                   {JOB_VOCAB | JOB_MINE, "replace an output file", NULL}}},
    {FLAG("files", model, strict, "false"), NOTED,
     .jobs = JOB_TRAIN | JOB_PREDICT | JOB_ANSWER | JOB_EMBED | JOB_FILL | JOB_CLASSIFY | JOB_MINE,
     .help = "refuse a checkpoint with missing or unexpected tensors"},

    {TEXT("texts", task, task_name, NULL), KEPT, COMMON, .jobs = CLASSIFY_JOBS | JOB_BENCH,
     .unit = "NAME", .aliases = "task",
     .help = "GLUE task (mrpc, cola, sst2, qqp, stsb, mnli, qnli, rte, wnli) or xnli",
     .shown = "none: your own files"},
    {TEXT("texts", task, data_dir, NULL), ONLY_WITH("task_name"), FREE, LOCAL, COMMON,
     .jobs = CLASSIFY_JOBS | JOB_BENCH, .unit = "DIR", .help = "folder with the files of the task"},
    {TEXT("texts", task, split, "test"), ONLY_WITH("task_name"), .jobs = JOB_PREDICT_CLASSIFY,
     .unit = "NAME", .choices = "test|dev|train", .help = "file of the task to predict"},
    {TEXT("texts", task, language, NULL), ONLY_WITH("task_name=xnli"), KEPT, .jobs = CLASSIFY_JOBS,
     .unit = "CODE", .help = "language of xnli", .shown = "zh"},
    {TEXT("texts", features, text_column, NULL), ONLY_WITH("!task_name"), KEPT, COMMON,
     .jobs = COLUMN_JOBS | TEXTS_JOBS | RANKED_JOBS | MLM_JOBS | JOB_MINE, .unit = "NAME",
     .help = "column of the text in your own files",
     .job_helps = {{TOKENS_JOBS, "column of the words; in CoNLL files, its number", NULL}},
     .job_defaults = {{MLM_JOBS, NULL,
                       "\"text\", or the first column that is not called id or idx"}}},
    {TEXT("texts", features, text_pair_column, NULL), ONLY_WITH("!task_name"), KEPT, COMMON,
     .jobs = CLASSIFY_JOBS | TEXTS_JOBS | RANKED_JOBS | JOB_MINE, .unit = "NAME",
     .help = "column of the second text in your own files", .shown = "determined by the file",
     .job_defaults = {{CLASSIFY_JOBS, NULL, "none: single texts"}}},
    {TEXT("texts", features, label_column, NULL), ONLY_WITH("!task_name"), KEPT, COMMON,
     .jobs = COLUMN_JOBS | TEXTS_JOBS | RANKED_JOBS, .unit = "NAME",
     .help = "column of the label in your own files",
     .job_helps = {{TOKENS_JOBS, "column of the tags; in CoNLL files, its number (0: none)", NULL},
                   {TEXTS_JOBS, "column of the score of a pair", NULL}}},
    {TEXT("texts", task, problem_type, "auto"), ONLY_WITH("!task_name"), RESOLVED,
     .jobs = JOB_FINETUNE_CLASSIFY, .unit = "TYPE",
     .choices = "auto|single_label_classification|multi_label_classification|regression",
     .help = "kind of labels in your own files; auto: multi-label if the first label is a JSON "
             "array, regression if any label has a fraction, else single-label"},

    {TEXT("texts", task, class_weights, NULL), KEPT,
     .jobs = JOB_FINETUNE_CLASSIFY | JOB_FINETUNE_TOKENS, .unit = "A,B,...",
     .help = "weight of each class in the loss, in the order of id2label; balanced: inversely "
             "proportional to its number of examples",
     .shown = "all equal"},
    {REAL("texts", task, label_smoothing_factor, "0"), KEPT,
     .jobs = JOB_FINETUNE_CLASSIFY | JOB_FINETUNE_TOKENS, BETWEEN(0, 0.999), .unit = "X",
     .aliases = "label_smoothing",
     .help = "fraction of the target that is spread evenly over all classes"},
    {REAL("texts", task, positive_weight, "1"), NOTED, COMMON, .jobs = JOB_FINETUNE_RERANK,
     BETWEEN(1e-6, 1e6), .unit = "X", .aliases = "pos_weight",
     .help = "weight of the pairs that fit in the loss, against those that do not"},

    {TEXT("embeddings", features, negative_column, NULL), KEPT, COMMON, .jobs = TEXTS_JOBS,
     .unit = "NAME",
     .help = "column of the third text of a triplet, which should be far from the first, or of "
             "several such texts, with commas between them",
     .shown = "none, or determined by the file"},
    {TEXT("embeddings", task, embedding_loss, "auto"), RESOLVED, COMMON, .jobs = JOB_FINETUNE_EMBED,
     .unit = "LOSS", .aliases = "loss", .may_be_list = 1,
     .choices = "auto|cosine|cosent|negatives|triplet|margin_mse|mse",
     .help = "cosine: squared difference between cosine and score; cosent: of two pairs of a "
             "group, the one with the larger score must have the larger cosine; negatives: each "
             "first text must be matched with its second text among all other texts of its group; "
             "triplet: the second text must be nearer than the third by a margin; margin_mse: the "
             "second text must be nearer than each further one by the margin in the scores; mse: "
             "the vector of each text must equal the scores. For several tables one loss for all, "
             "or one for each, separated by commas",
     .shown = "auto: cosine for pairs with a score, triplet for triplets, margin_mse or mse by the "
              "number of scores, else negatives"},
    {INTEGER("embeddings", task, negatives_batch, "0"), ONLY_WITH("embedding_loss=negatives"),
     RESOLVED, COMMON, .jobs = JOB_FINETUNE_EMBED, BETWEEN(0, 1 << 20), .unit = "N",
     .help =
         "number of examples in a group, which is never split between micro-batches or processes",
     .shown = "0: per_device_train_batch_size if given, else train_batch_size"},
    {TEXT("embeddings", task, batch_sampler, "batch"), ONLY_WITH("embedding_loss=negatives"), KEPT,
     COMMON, .jobs = JOB_FINETUNE_EMBED, .unit = "NAME", .choices = "batch|no_duplicates",
     .help = "how groups are made; batch: as the examples come; no_duplicates: no group has a text "
             "twice, which would be its own negative"},
    {TEXT("embeddings", task, multi_dataset_batch_sampler, "proportional"), KEPT,
     .jobs = JOB_FINETUNE_EMBED, .unit = "NAME", .choices = "proportional|round_robin",
     .help = "order of the updates of several tables (each update is of one table); proportional: "
             "random, and an epoch has all examples; round_robin: in turn, and an epoch ends with "
             "the table that has the fewest updates"},
    {FLAG("embeddings", task, symmetric_negatives, "false"), ONLY_WITH("embedding_loss=negatives"),
     KEPT, .jobs = JOB_FINETUNE_EMBED,
     .help = "each second text must also be matched with its first text among the first texts of "
             "its group; the loss is the mean of both"},
    {FLAG("embeddings", task, cached_negatives, "false"), ONLY_WITH("embedding_loss=negatives"),
     KEPT, .jobs = JOB_FINETUNE_EMBED,
     .help =
         "compute the vectors of a micro-batch first, then their gradients in pieces of at most "
         "2,048 tokens, so that memory hardly grows with negatives_batch; up to a third more "
         "computation"},
    {REAL("embeddings", task, similarity_scale, "20"), ONLY_WITH("embedding_loss=negatives|cosent"),
     NOTED, .jobs = JOB_FINETUNE_EMBED, BETWEEN(1e-3, 1e4), .unit = "X", .aliases = "scale",
     .help = "factor of the cosines before the softmax"},
    {REAL("embeddings", task, triplet_margin, "5"), ONLY_WITH("embedding_loss=triplet"), NOTED,
     .jobs = JOB_FINETUNE_EMBED, BETWEEN(0, 1e4), .unit = "X", .aliases = "margin",
     .help = "difference of the two distances at which the loss becomes 0"},
    {TEXT("embeddings", task, triplet_distance, "euclidean"), ONLY_WITH("embedding_loss=triplet"),
     KEPT, .jobs = JOB_FINETUNE_EMBED, .unit = "RULE", .choices = "euclidean|cosine",
     .help = "distance between the texts of a triplet"},
    {TEXT("embeddings", task, teacher_model, NULL), ONLY_WITH("embedding_loss=mse|margin_mse"),
     KEPT, LOCAL, .jobs = JOB_FINETUNE_EMBED, .unit = "DIR", .aliases = "teacher",
     .help = "folder or name of the model whose embeddings, or scores of pairs, are the scores of "
             "the examples, in place of a column",
     .shown = "none"},
    {TEXT("embeddings", task, matryoshka_dims, NULL), KEPT, .jobs = JOB_FINETUNE_EMBED,
     .unit = "A,B,...",
     .help = "train the first A, the first B, ... numbers of the embeddings as embeddings of their "
             "own, scaled to length 1; the loss is the sum of theirs",
     .shown = "none: whole embeddings only"},
    {TEXT("embeddings", task, matryoshka_weights, NULL), ONLY_WITH("matryoshka_dims"), KEPT,
     .jobs = JOB_FINETUNE_EMBED, .unit = "A,B,...",
     .help = "weight of the loss of each of matryoshka_dims", .shown = "1 each"},
    {TEXT("embeddings", task, pooling, NULL), KEPT, .jobs = TEXTS_JOBS | JOB_EMBED | JOB_MINE,
     .unit = "HOW", .choices = "mean|cls|max|mean_sqrt_len_tokens|weightedmean|lasttoken",
     .help = "how the rows of a text become an embedding",
     .shown = "as in the model folder, else mean"},
    {FLAG("embeddings", task, normalize, "auto"), KEPT, .jobs = JOB_FINETUNE_EMBED, .has_auto = 1,
     .help = "scale embeddings to length 1", .shown = "as in the model folder, else false"},
    {TEXT("embeddings", task, query_prompt, NULL), ONLY_WITH("queries_file"), NOTED,
     .jobs = TEXTS_JOBS, .unit = "TEXT", .may_be_empty = 1,
     .help = "text to put before every query of queries_file; an empty one: none",
     .shown = "the model folder's prompt \"query\", if any"},
    {TEXT("embeddings", task, corpus_prompt, NULL), ONLY_WITH("queries_file"), NOTED,
     .jobs = TEXTS_JOBS, .unit = "TEXT", .may_be_empty = 1,
     .help = "text to put before every document of corpus_file; an empty one: none",
     .shown = "the model folder's prompt \"document\", \"passage\" or \"corpus\", if any"},

    {TEXT("pre-training", task, input_dir, NULL), FREE, LOCAL, COMMON, .jobs = SHARD_JOBS,
     .unit = "DIR",
     .help = "training shards: a folder of HDF5 or TFRecord files, one file, or a pattern"},
    {TEXT("pre-training", task, eval_dir, NULL), FREE, LOCAL, .jobs = SHARD_JOBS, .unit = "DIR",
     .help = "held-out shards to evaluate on",
     .shown = "the files of input_dir with \"test\" in their names"},
    {FLAG("pre-training", run, phase2, "false"), FREE, .jobs = JOB_PRETRAIN,
     .help = "start the second phase from a checkpoint of the first: keep its moments, count "
             "updates and bias corrections from 0"},
    {INTEGER("pre-training", run, phase1_end_step, "0"), ONLY_WITH("phase2"), FREE,
     .jobs = JOB_PRETRAIN, AT_LEAST(0), .unit = "N", .help = "number of updates in the first phase",
     .shown = "0: as in the checkpoint"},
    {INTEGER("pre-training", run, steps_this_run, "-1"), FREE,
     .jobs = JOB_PRETRAIN | JOB_PRETRAIN_MLM, AT_LEAST(-1), .unit = "N",
     .help = "save and stop after N updates of this run", .shown = "-1: stop at max_steps"},
    {FLAG("pre-training", features, line_by_line, "false"), KEPT, COMMON, .jobs = MLM_JOBS,
     .help = "each line of text is a sequence; false: lines follow each other in blocks of "
             "max_seq_length tokens"},
    {INTEGER("pre-training", features, validation_split_percentage, "5"),
     ONLY_WITH("!validation_file"), KEPT, .jobs = JOB_PRETRAIN_MLM, BETWEEN(0, 99), .unit = "N",
     .help = "hold out the first N percent of the lines of train_file"},
    {INTEGER("pre-training", model, vocab_multiple, "1"), ONLY_WITH("!model_name_or_path"), FREE,
     .jobs = JOB_FROM_SCRATCH, BETWEEN(1, 1 << 16), .unit = "N",
     .help = "pad the vocabulary of a new model to a multiple of N (NVIDIA uses 8)"},
    {TEXT("pre-training", model, initializer, "normal"), ONLY_WITH("!model_name_or_path"), FREE,
     .jobs = JOB_FROM_SCRATCH, .unit = "RULE", .choices = "normal|truncated_normal",
     .help = "distribution of the initial weights: normal as in PyTorch, or truncated at two "
             "standard deviations as in Google's BERT"},

    {INTEGER("features", features, max_seq_length, "384"), KEPT, COMMON,
     .jobs = WINDOW_JOBS | COLUMN_JOBS | TEXTS_JOBS | RANKED_JOBS | JOB_EMBED | JOB_PREPARE |
             SHARD_JOBS | MLM_JOBS | JOB_FILL | JOB_CLASSIFY | JOB_SERVE | JOB_MINE,
     BETWEEN(8, 65536), .unit = "N", .aliases = "max_length",
     .help = "maximum number of tokens in a sequence, including special tokens",
     .shown = "384, or the number of positions of the model if that is less",
     .job_defaults = {{JOB_SERVE, NULL,
                       "questions and words with tags: 384, or the number of positions of the "
                       "model if that is less; others: as in the model folder"},
                      {CLASSIFY_JOBS, "128",
                       "128, or the number of positions of the model if that is less"},
                      {JOB_PREPARE, "128", NULL},
                      {TOKENS_JOBS, "512", "the number of positions of the model, at most 512"},
                      {JOB_EMBED | JOB_FILL | JOB_CLASSIFY | JOB_MINE, NULL,
                       "as in the model folder, else the number of positions of the model"},
                      {TEXTS_JOBS, "256", "as in the model folder, else 256"},
                      {SHARD_JOBS, NULL, "as in the shards"},
                      {MLM_JOBS | RANKED_JOBS, "512",
                       "512, or the number of positions of the model if that is less"}}},
    {INTEGER("features", features, doc_stride, "128"), ONLY_WITH("features!=keras"), KEPT,
     .jobs = WINDOW_JOBS | TOKENS_JOBS, BETWEEN(1, 65536), .unit = "N",
     .help =
         "distance in tokens between the starts of successive windows of a context, at most the "
         "length of a window",
     .job_defaults = {{TOKENS_JOBS, NULL, "half of max_seq_length"}}},
    {INTEGER("features", features, doc_overlap, "0"), KEPT, .jobs = WINDOW_JOBS, BETWEEN(0, 65536),
     .unit = "N",
     .help = "number of tokens that successive windows of a context share, in place of doc_stride",
     .shown = "0: determined by doc_stride"},
    {INTEGER("features", features, max_query_length, "64"), ONLY_WITH("features!=keras"), KEPT,
     .jobs = WINDOW_JOBS, BETWEEN(1, 65536), .unit = "N", .help = "truncate questions to N tokens"},
    {TEXT("features", features, features, "google"), KEPT, .jobs = SQUAD_JOBS | JOB_FEATURES,
     .unit = "RULES", .choices = "google|keras",
     .help = "google: overlapping windows of long contexts; keras: no windows, contexts that are "
             "too long are left out"},
    {TEXT("features", features, keras_answers, "first"), KEPT,
     .jobs = JOB_FINETUNE_SQUAD | JOB_SHOW | JOB_FEATURES, .unit = "WHICH", .choices = "first|all",
     .help = "with --features keras: use the first answer of a question, or one example for each "
             "answer"},
    {TEXT("features", features, keras_end, "inclusive"), KEPT, .jobs = SQUAD_JOBS | JOB_FEATURES,
     .unit = "RULE", .choices = "inclusive|exclusive",
     .help =
         "with --features keras: the end of an answer is its last token, or the token after it"},
    {TEXT("features", features, window_filter, "none"), KEPT,
     .jobs = JOB_FINETUNE_SQUAD | JOB_FEATURES, .unit = "RULE", .choices = "none|words",
     .help = "words: drop training windows by their number of words, as BingBertSquad does"},
    {FLAG("features", features, version_2_with_negative, "false"), NOTED, COMMON,
     .jobs = SQUAD_JOBS | JOB_FEATURES, .aliases = "version_2",
     .help = "questions may have no answer (SQuAD 2.0)"},
    {FLAG("features", features, strict_answers, "false"), FREE,
     .jobs = JOB_FINETUNE_SQUAD | JOB_PREDICT_SQUAD | JOB_SHOW | JOB_FEATURES,
     .help = "refuse a file with an answer that is not in its context at answer_start",
     .shown = "false: training skips such questions with a warning"},
    {INTEGER("features", features, max_train_samples, "0"), KEPT,
     .jobs = JOB_FINETUNE | JOB_PRETRAIN_MLM, AT_LEAST(0), .unit = "N",
     .help = "use only the first N training examples", .shown = "0: all"},
    {INTEGER("features", features, max_eval_samples, "0"), NOTED, .jobs = JOB_TRAIN | JOB_PREDICT,
     AT_LEAST(0), .unit = "N",
     .help = "use only the first N examples for evaluation and prediction", .shown = "0: all",
     .job_defaults = {{JOB_PRETRAIN, "10000", NULL}}},

    {FLAG("tokenizer", model, do_lower_case, "auto"), NOTED, COMMON,
     .jobs = TOKEN_JOBS | JOB_PRETRAIN | JOB_VOCAB, .has_auto = 1,
     .help = "convert text to lower case and strip accents",
     .shown = "true, unless the model's tokenizer_config.json or tokenizer.json says otherwise",
     .job_defaults = {{JOB_VOCAB, NULL, "true; for bpe and unigram, false"}}},
    {TEXT("tokenizer", model, strip_accents, NULL), NOTED, .jobs = TOKEN_JOBS, .unit = "WHEN",
     .choices = "auto|true|false",
     .help = "strip accents; auto: if text is converted to lower case",
     .shown = "auto, unless the model's tokenizer_config.json or tokenizer.json says otherwise"},
    {FLAG("tokenizer", model, tokenize_chinese_chars, "auto"), NOTED, .jobs = TOKEN_JOBS,
     .has_auto = 1, .help = "treat each Chinese character as a word",
     .shown = "true, unless the model's tokenizer_config.json or tokenizer.json says otherwise"},
    {TEXT("tokenizer", model, tokenizer, "huggingface"), KEPT, .jobs = TOKEN_JOBS, .unit = "RULES",
     .choices = "huggingface|google", .help = "tokenizer whose rules to follow"},
    {INTEGER("tokenizer", model, max_word_length, "0"), KEPT, .jobs = TOKEN_JOBS,
     BETWEEN(0, 1 << 20), .unit = "N", .help = "words of more than N characters become [UNK]",
     .shown = "0: 100 as in Hugging Face's tokenizers; with --tokenizer google, 200"},
    {TEXT("tokenizer", model, pair_truncation, NULL), NOTED,
     .jobs = CLASSIFY_JOBS | RANKED_JOBS | JOB_SERVE, .unit = "RULE",
     .choices = "huggingface|google",
     .help = "which text of a pair keeps the odd token if both are cut to max_seq_length; "
             "huggingface: the longer one, or the second; google: the first",
     .shown = "huggingface, unless the model's tokenizer_config.json says otherwise"},
    {FLAG("tokenizer", model, split_special, "auto"), KEPT, .jobs = TOKEN_JOBS, .has_auto = 1,
     .help = "split [CLS], [MASK] and so on in the text like ordinary words",
     .shown = "false; with --tokenizer google, true"},

    {INTEGER("instances", features, max_predictions_per_seq, "20"), KEPT, COMMON,
     .jobs = JOB_PREPARE | SHARD_JOBS, BETWEEN(1, 8192), .unit = "N",
     .help = "maximum number of masked tokens in a sequence",
     .job_defaults = {{SHARD_JOBS, "8192", "as in the shards"}}},
    {INTEGER("instances", features, dupe_factor, "5"), COMMON, .jobs = JOB_PREPARE,
     BETWEEN(1, 1000), .unit = "N", .shown = "5",
     .help = "number of passes over the articles, each with different cuts and masks"},
    {REAL("instances", features, masked_lm_prob, "0.15"), KEPT, .jobs = JOB_PREPARE | MLM_JOBS,
     BETWEEN(1e-6, 1), .unit = "X", .help = "fraction of tokens to mask"},
    {REAL("instances", features, short_seq_prob, "0.1"), .jobs = JOB_PREPARE, BETWEEN(0, 1),
     .unit = "X", .help = "fraction of articles to cut into shorter sequences"},
    {FLAG("instances", features, whole_word_mask, "false"), KEPT, .jobs = JOB_PREPARE | MLM_JOBS,
     .help = "mask all pieces of a word or none"},
    {TEXT("instances", features, rng, "fast"), .jobs = JOB_PREPARE, .unit = "WHICH",
     .choices = "fast|python",
     .help = "random number generator; fast: an independent stream for each shard; python: "
             "CPython's, which reproduces the instances of the published script exactly and "
             "restarts with the same seed for each shard"},
    {INTEGER("instances", features, shards, "256"), .jobs = JOB_PREPARE, BETWEEN(1, 4096),
     .unit = "N", .help = "number of training files"},
    {INTEGER("instances", features, test_shards, "auto"), .jobs = JOB_PREPARE, BETWEEN(0, 4096),
     .has_auto = 1, .unit = "N", .help = "number of test files; 0: none",
     .shown = "the number of training files"},
    {REAL("instances", features, fraction_test_set, "0.1"), .jobs = JOB_PREPARE, BETWEEN(0, 0.99),
     .unit = "X", .help = "fraction of the sentences to use for testing, in whole articles"},
    {TEXT("instances", features, stages, NULL), COMMON, .jobs = JOB_PREPARE, .unit = "NAMES",
     .help = "stages to run, separated by commas: text, shards, hdf5, pack",
     .shown = "text,shards,hdf5"},
    {FLAG("instances", features, pack, "false"), .jobs = JOB_PREPARE,
     .help = "also run the stage pack, which puts up to three sequences in a row"},
    {TEXT("instances", features, format, "hdf5"), .jobs = JOB_PREPARE, .unit = "FORMAT",
     .choices = "hdf5|tfrecord", .help = "file format of the instances"},

    {TEXT("training", run, recipe, NULL), FREE, COMMON, .jobs = JOB_TRAIN, .unit = "NAME",
     .choices = "nvidia-phase1|nvidia-phase2|bing-128|bing-512|bing-bert|google|intel|piz-daint|"
                "lumi|bing-bert-squad|bing-bert-squad-baseline|habana|habana-bertadam|nvidia-squad|"
                "nvidia-squad-bertadam|hugging-face",
     .help = RECIPE_HELP, .shown = "none",
     .job_helps = {{JOB_PRETRAIN, RECIPE_HELP,
                    "nvidia-phase1|nvidia-phase2|bing-128|bing-512|bing-bert|google|intel"},
                   {JOB_PRETRAIN_MLM, RECIPE_HELP, "hugging-face"},
                   {JOB_FINETUNE_SQUAD, RECIPE_HELP,
                    "google|intel|piz-daint|lumi|bing-bert-squad|bing-bert-squad-baseline|habana|"
                    "habana-bertadam|nvidia-squad|nvidia-squad-bertadam|hugging-face"},
                   {JOB_FINETUNE, RECIPE_HELP, "google|intel|hugging-face"}}},
    // A resumed run compares what it comes to, which other settings decide, too.
    {INTEGER("training", engine, train_batch_size, "32"), FREE, COMMON, .jobs = JOB_TRAIN,
     BETWEEN(1, 1 << 24), .unit = "N", DEEPSPEED("train_batch_size", NULL), .aliases = "batch_size",
     .help = "number of sequences in an update, over all processes"},
    {INTEGER("training", engine, per_device_train_batch_size, "0"), NOTED, .jobs = JOB_TRAIN,
     BETWEEN(0, 1 << 24), .unit = "N", DEEPSPEED("train_micro_batch_size_per_gpu", NULL),
     .aliases = "micro_batch_size", .help = "number of sequences in a micro-batch of one process",
     .shown = "0: derived"},
    {INTEGER("training", engine, gradient_accumulation_steps, "0"), NOTED, .jobs = JOB_TRAIN,
     BETWEEN(0, 1 << 20), .unit = "N", DEEPSPEED("gradient_accumulation_steps", NULL),
     .help = "number of micro-batches in an update", .shown = "0: derived"},
    {FLAG("training", engine, gradient_checkpointing, "false"), FREE, .jobs = JOB_TRAIN | JOB_BENCH,
     .help = "recompute activations in the backward pass instead of keeping them: less memory, "
             "more time, the same results"},
    {REAL("training", engine, num_train_epochs, "2"), NOTED, COMMON, .jobs = JOB_TRAIN,
     BETWEEN(0, 1e6), .unit = "X", .aliases = "epochs num_epochs",
     .help = "number of passes over the training data",
     .job_defaults = {{JOB_FINETUNE_CLASSIFY | JOB_FINETUNE_TOKENS | JOB_PRETRAIN_MLM, "3", NULL},
                      {JOB_FINETUNE_EMBED | JOB_FINETUNE_RERANK, "1", NULL},
                      {JOB_PRETRAIN, NULL, "determined by max_steps"}}},
    {INTEGER("training", engine, max_steps, "0"), NOTED, COMMON, .jobs = JOB_TRAIN,
     BETWEEN(-1, 1e12), .unit = "N", .help = "stop after N updates",
     .shown = "0: determined by num_train_epochs",
     .job_defaults = {{JOB_PRETRAIN, "1000",
                       "1000, unless num_train_epochs is given; 0 or -1: determined by "
                       "num_train_epochs, 2 if that is not given"}}},
    {TEXT("training", engine, steps_rule, "run"), NOTED, .jobs = JOB_FINETUNE, .unit = "RULE",
     .choices = "run|epochs|examples",
     .help = "what num_train_epochs means for the schedule; run: the schedule is as long as the "
             "run; epochs: it is as long as all epochs, and max_steps and max_steps_per_epoch only "
             "end the run earlier, as in BingBertSquad; examples: without max_steps, run and "
             "schedule have num_train_epochs x examples / train_batch_size updates, rounded down, "
             "as in Google's programs"},
    {INTEGER("training", engine, max_steps_per_epoch, "0"), KEPT,
     .jobs = JOB_FINETUNE | JOB_PRETRAIN_MLM, AT_LEAST(-1), .unit = "N",
     .help = "end each epoch after N updates", .shown = "0: no limit"},
    {FLAG("training", engine, dataloader_drop_last, "false"), KEPT, .jobs = JOB_TRAIN,
     DEEPSPEED("dataloader_drop_last", "false"),
     .help = "leave out the sequences at the end of an epoch that do not fill an update",
     .job_helps = {{JOB_PRETRAIN,
                    "leave out the sequences at the end of an epoch that do not fill an update; "
                    "with --shard_order rank, of a file that do not fill a micro-batch",
                    NULL}}},
    {INTEGER("training", optimizer, freeze_layers, "0"), KEPT, .jobs = JOB_FINETUNE, AT_LEAST(0),
     .unit = "N", .help = "do not train the N lowest layers"},
    {FLAG("training", optimizer, freeze_embeddings, "false"), KEPT, .jobs = JOB_FINETUNE,
     .help = "do not train the embeddings"},
    {REAL("training", model, hidden_dropout_prob, "auto"), NOTED, .jobs = JOB_TRAIN | JOB_BENCH,
     BETWEEN(0, 0.99), .has_auto = 1, .unit = "X", .help = "dropout of the outputs of the layers",
     .shown = "as in the model's config.json"},
    {REAL("training", model, attention_probs_dropout_prob, "auto"), NOTED,
     .jobs = JOB_TRAIN | JOB_BENCH, BETWEEN(0, 0.99), .has_auto = 1, .unit = "X",
     .help = "dropout of the attention probabilities", .shown = "as in the model's config.json"},
    {TEXT("training", engine, loss_average, "update"), NOTED, .jobs = JOB_TRAIN, .unit = "RULE",
     .choices = "update|micro",
     .help = "loss of an update: the mean over its sequences, or the mean of the means of its "
             "micro-batches as in the original scripts"},
    {INTEGER("training", run, seed, "42"), KEPT, COMMON,
     .jobs = JOB_TRAIN | JOB_BENCH | JOB_SHOW | JOB_PREPARE | JOB_PACK | JOB_EVALUATE_MLM,
     AT_LEAST(0), .unit = "N", .help = "seed of initial weights, data order and dropout",
     .job_defaults = {{JOB_PREPARE | JOB_PACK, "12345", NULL}},
     .job_helps = {{JOB_PREPARE, "seed of cuts and masks", NULL},
                   {JOB_PACK, "seed of the order of the rows", NULL},
                   {JOB_EVALUATE_MLM, "seed of the masks", NULL},
                   {JOB_SHOW, "seed of random samples", NULL}}},

    {REAL("learning-rate", optimizer, learning_rate, "3e-5"), NOTED, COMMON, .jobs = JOB_TRAIN,
     AT_LEAST(0), .unit = "RATE", DEEPSPEED("optimizer.params.lr", "0.001"), .aliases = "lr",
     .help = "peak learning rate", .job_defaults = {{JOB_FROM_SCRATCH, "5e-5", NULL}}},
    {TEXT("learning-rate", optimizer, lr_scaling, "none"), ONLY_WITH("processes"), FREE,
     .jobs = JOB_TRAIN, .unit = "RULE", .choices = "none|sqrt|linear",
     .help = "multiply learning_rate by the number of processes (linear) or by its square root "
             "(sqrt); lr_offset is not scaled"},
    {REAL("learning-rate", optimizer, warmup_proportion, "0.1"), ONLY_WITH("schedule!=constant"),
     NOTED, .jobs = JOB_TRAIN, BETWEEN(0, 1), .unit = "X", .aliases = "warmup_ratio",
     .help = "fraction of the updates for warm-up", .job_defaults = {{JOB_PRETRAIN, "0.01", NULL}}},
    {INTEGER("learning-rate", optimizer, warmup_steps, "0"), ONLY_WITH("schedule!=constant"), NOTED,
     .jobs = JOB_TRAIN, AT_LEAST(0), .unit = "N",
     DEEPSPEED("scheduler.params.warmup_num_steps", "1000"),
     .help = "number of updates for warm-up; below 1, a fraction of all updates; 0, if given, "
             "means no warm-up, unless warmup_proportion is given as well",
     .shown = "determined by warmup_proportion"},
    {FLAG("learning-rate", optimizer, warmup_round_up, "false"), NOTED, .jobs = JOB_TRAIN,
     .help = "round the number of updates from warmup_proportion up, as transformers does"},
    {TEXT("learning-rate", optimizer, schedule, "linear"), NOTED, .jobs = JOB_TRAIN, .unit = "RULE",
     DEEPSPEED("scheduler.type", NULL), .aliases = "scheduler",
     .choices =
         "linear|linear_ahead|bertadam|google|poly|constant|constant_warmup|cosine|polynomial|"
         "inverse_sqrt|EE|LE|EP|warmup_log|warmup_linear|warmup_decay_log|"
         "warmup_decay_linear|warmup_cosine_log|warmup_cosine_linear",
     .help = "schedule of the learning rate; linear: warm-up, then linear decay to 0",
     .job_defaults = {{JOB_PRETRAIN, "poly", NULL}}},
    {REAL("learning-rate", optimizer, lr_offset, "0"), NOTED, .jobs = JOB_TRAIN, AT_LEAST(0),
     .unit = "RATE", .help = "constant to add to the learning rate"},
    {REAL("learning-rate", optimizer, decay_rate, "0.9"), ONLY_WITH("schedule=EE|LE"), NOTED,
     .jobs = JOB_TRAIN, BETWEEN(0, 1), .unit = "X",
     .help = "factor by which the learning rate decays in decay_step "
             "updates"},
    {INTEGER("learning-rate", optimizer, decay_step, "250"), ONLY_WITH("schedule=EE|LE"), NOTED,
     .jobs = JOB_TRAIN, AT_LEAST(1), .unit = "N",
     .help = "number of updates in which the learning rate decays by "
             "decay_rate"},
    {FLAG("learning-rate", optimizer, rewarmup, "false"), NOTED, .jobs = JOB_TRAIN,
     .help = "when resuming, restart the schedule for the rest of the run"},
    {REAL("learning-rate", optimizer, warmup_min_lr, "0"),
     ONLY_WITH("schedule=warmup_log|warmup_linear|warmup_decay_log|warmup_decay_linear|warmup_"
               "cosine_log|warmup_cosine_linear"),
     NOTED, .jobs = JOB_TRAIN, AT_LEAST(0), .unit = "RATE",
     DEEPSPEED("scheduler.params.warmup_min_lr", "0"),
     .help = "learning rate at the start of the warm-up"},
    {REAL("learning-rate", optimizer, cos_min_ratio, "0.0001"),
     ONLY_WITH("schedule=warmup_cosine_log|warmup_cosine_linear"), NOTED, .jobs = JOB_TRAIN,
     BETWEEN(0, 1), .unit = "X", DEEPSPEED("scheduler.params.cos_min_ratio", "0.0001"),
     .help = "final learning rate as a fraction of the peak"},

    {TEXT("optimizer", optimizer, optimizer, "adamw"), KEPT, .jobs = JOB_TRAIN, .unit = "NAME",
     DEEPSPEED("optimizer.type", NULL),
     .choices = "adamw|adam|adam_weight_decay|bertadam|nvlamb|lamb",
     .help = "DeepSpeed's AdamW or Adam, Google's AdamWeightDecayOptimizer, BertAdam, NVIDIA's "
             "LAMB, or DeepSpeed's Lamb",
     .job_defaults = {{JOB_PRETRAIN, "nvlamb", NULL}}},
    {REAL("optimizer", optimizer, weight_decay, "auto"), NOTED, .jobs = JOB_TRAIN, AT_LEAST(0),
     .has_auto = 1, .unit = "X", DEEPSPEED("optimizer.params.weight_decay", "0"),
     .help = "weight decay of all parameters except those of no_decay",
     .shown = "0.01; for lamb, 0"},
    {TEXT("optimizer", optimizer, no_decay, NULL), NOTED, .jobs = JOB_TRAIN, .unit = "LIST",
     .help = "parameters without weight decay: a named list (deepspeed, google, nvidia, none), or "
             "parts of names separated by commas",
     .shown = "biases and layer norms, as in the original of the optimizer"},
    {REAL("optimizer", optimizer, adam_beta1, "0.9"), NOTED, .jobs = JOB_TRAIN,
     BETWEEN(0, 0.999999), .unit = "X", DEEPSPEED("optimizer.params.betas.0", "0.9"),
     .help = "decay rate of the first moment"},
    {REAL("optimizer", optimizer, adam_beta2, "0.999"), NOTED, .jobs = JOB_TRAIN,
     BETWEEN(0, 0.999999), .unit = "X", DEEPSPEED("optimizer.params.betas.1", "0.999"),
     .help = "decay rate of the second moment"},
    {REAL("optimizer", optimizer, adam_epsilon, "auto"), NOTED, .jobs = JOB_TRAIN, AT_LEAST(0),
     .has_auto = 1, .unit = "X", DEEPSPEED("optimizer.params.eps", "1e-8"),
     .help = "constant to add to the square root of the second moment",
     .shown = "1e-06 for adam_weight_decay, bertadam and nvlamb, else 1e-08"},
    {FLAG("optimizer", optimizer, eps_inside_sqrt, "false"), NOTED, .jobs = JOB_TRAIN,
     DEEPSPEED("optimizer.params.eps_inside_sqrt", "false"),
     .help = "add adam_epsilon before taking the square root"},
    {FLAG("optimizer", optimizer, bias_correction, "auto"), NOTED, .jobs = JOB_TRAIN, .has_auto = 1,
     DEEPSPEED("optimizer.params.bias_correction", "true"),
     .help = "correct the bias of the moments",
     .shown = "true; for adam_weight_decay and bertadam, false"},
    {FLAG("optimizer", optimizer, adam_w_mode, "true"), NOTED, .jobs = JOB_TRAIN,
     DEEPSPEED("optimizer.params.adam_w_mode", "true"),
     .help = "for adam and adamw: decoupled weight decay; false: add the decay to the gradient"},
    {REAL("optimizer", optimizer, max_coeff, "10"), ONLY_WITH("optimizer=lamb"), NOTED,
     .jobs = JOB_TRAIN, AT_LEAST(0), .unit = "X", DEEPSPEED("optimizer.params.max_coeff", "10"),
     .help = "upper bound of the trust ratio of a tensor"},
    {REAL("optimizer", optimizer, min_coeff, "0.01"), ONLY_WITH("optimizer=lamb"), NOTED,
     .jobs = JOB_TRAIN, AT_LEAST(0), .unit = "X", DEEPSPEED("optimizer.params.min_coeff", "0.01"),
     .help = "lower bound of the trust ratio of a tensor"},
    {REAL("optimizer", optimizer, max_grad_norm, "1"), NOTED, .jobs = JOB_TRAIN, AT_LEAST(0),
     .unit = "X", DEEPSPEED("gradient_clipping", "0"), .aliases = "gradient_clipping",
     .help = "clip the norm of the gradient to this value; 0: no clipping"},
    {TEXT("optimizer", optimizer, clip_by, NULL), ONLY_WITH("max_grad_norm"), NOTED,
     .jobs = JOB_TRAIN, .unit = "RULE", .choices = "global|tensor|both",
     .help = "norm to clip: that of the whole gradient, that of each tensor, or both in turn",
     .shown = "global; for bertadam, tensor"},

    {CHOICE("precision", machine, precision, "auto"), KEPT, COMMON,
     .jobs = MACHINE_JOBS | JOB_SERVE, .unit = "TYPE", .choices = "fp32|bf16|fp16|int8|auto",
     DEEPSPEED("bf16.enabled", NULL), .aliases = "dtype",
     .help = "number format of activations and matrix products; fp16 only on a GPU, int8 only on "
             "a CPU",
     .job_helps = {{JOB_TRAIN,
                    "number format of activations and matrix products; fp16 only on a GPU",
                    "fp32|bf16|fp16|auto"}},
     .shown = "auto: bf16 if that is fast on the device, else fp32",
     .job_defaults = {{JOB_SERVE, NULL,
                       "auto: fp32 for embeddings and masked words; otherwise bf16 if that is "
                       "fast on the device, else fp32"},
                      {JOB_EMBED | JOB_FILL | JOB_MINE, "fp32", "fp32"}}},
    {FLAG("precision", machine, tf32, "false"), KEPT, .jobs = MACHINE_JOBS,
     .help = "round the operands of fp32 matrix products to TF32 (10-bit fraction) on NVIDIA GPUs; "
             "elsewhere it has no effect, and a note says so"},
    {TEXT("precision", optimizer, loss_scale, NULL), NOTED, .jobs = JOB_TRAIN, .unit = "X",
     DEEPSPEED("fp16.loss_scale", NULL),
     .help = "factor of the loss in the backward pass; updates whose gradient overflows are "
             "skipped: a number, static (init_loss_scale), dynamic (or 0), or none",
     .shown = "none; with fp16, dynamic"},
    {TEXT("precision", optimizer, loss_scaler, "zero"), ONLY_WITH("loss_scale=zero|plain"), NOTED,
     .jobs = JOB_TRAIN, .unit = "RULE", .choices = "zero|plain",
     .help =
         "rules of a dynamic loss_scale: DeepSpeed's with ZeRO (zero) or without it (plain); zero "
         "tolerates as many overflows as hysteresis allows and stops the run at min_loss_scale"},
    {REAL("precision", optimizer, init_loss_scale, "65536"),
     ONLY_WITH("loss_scale=static|zero|plain"), NOTED, .jobs = JOB_TRAIN,
     BETWEEN(0x1p-126, 0x1p126), .unit = "X", DEEPSPEED("fp16.initial_scale_power", NULL),
     .help = "initial value of a dynamic loss_scale, value of a static one"},
    {REAL("precision", optimizer, min_loss_scale, "1"), ONLY_WITH("loss_scale=zero|plain"), NOTED,
     .jobs = JOB_TRAIN, BETWEEN(0x1p-126, 0x1p126), .unit = "X",
     DEEPSPEED("fp16.min_loss_scale", "1"), .help = "lower bound of a dynamic loss_scale"},
    {INTEGER("precision", optimizer, loss_scale_window, "1000"), ONLY_WITH("loss_scale=zero|plain"),
     NOTED, .jobs = JOB_TRAIN, AT_LEAST(1), .unit = "N",
     DEEPSPEED("fp16.loss_scale_window", "1000"),
     .help = "double a dynamic loss_scale after N updates without overflow"},
    {INTEGER("precision", optimizer, hysteresis, "2"), ONLY_WITH("loss_scale=zero"), NOTED,
     .jobs = JOB_TRAIN, AT_LEAST(1), .unit = "N", DEEPSPEED("fp16.hysteresis", "2"),
     .help = "halve a dynamic loss_scale at the Nth overflow"},
    {FLAG("precision", optimizer, consecutive_hysteresis, "false"), ONLY_WITH("loss_scale=zero"),
     NOTED, .jobs = JOB_TRAIN, DEEPSPEED("fp16.consecutive_hysteresis", "false"),
     .help = "count only successive overflows"},

    {FLAG("evaluation", run, do_eval, "true"), FREE,
     .jobs = JOB_TRAIN | JOB_PREDICT_CLASSIFY | JOB_PREDICT_TOKENS,
     .help = "evaluate on validation_file",
     .job_defaults = {{JOB_PREDICT_CLASSIFY | JOB_PREDICT_TOKENS, "false", NULL}},
     .job_helps =
         {{JOB_PRETRAIN, "evaluate on the held-out shards", NULL},
          {JOB_FINETUNE_CLASSIFY,
           "evaluate on validation_file or, with task_name, on the development set of the task",
           NULL},
          {JOB_PREDICT_CLASSIFY,
           "evaluate on validation_file or, with task_name, on the development set of the task, "
           "instead of predicting or, with do_predict, before it",
           NULL},
          {JOB_PREDICT_TOKENS,
           "evaluate on validation_file instead of predicting or, with do_predict, before it",
           NULL}}},
    {FLAG("evaluation", run, evaluate_every_epoch, "true"), ONLY_WITH("!eval_strategy"), FREE,
     .jobs = JOB_TRAIN, .help = "evaluate after every epoch, not only after the last",
     .job_defaults = {{JOB_PRETRAIN, "false", NULL}}},
    {INTEGER("evaluation", run, eval_steps, "0"), ONLY_WITH("eval_strategy=|steps"), FREE,
     .jobs = JOB_TRAIN, AT_LEAST(0), .has_fraction = 1, .unit = "N",
     .help = "also evaluate every N updates; below 1, N is a fraction of all updates",
     .shown = "0: never"},
    {TEXT("evaluation", run, eval_strategy, NULL), FREE, .jobs = JOB_TRAIN, .unit = "WHEN",
     .aliases = "evaluation_strategy", .choices = "no|epoch|steps",
     .help = "when to evaluate during training: never, after each epoch, or every eval_steps "
             "updates (if that is 0: every logging_steps if given, else every 500)",
     .shown = "determined by evaluate_every_epoch and eval_steps"},
    {REAL("evaluation", run, eval_delay, "0"), ONLY_WITH("evaluate_every_epoch or eval_steps"),
     FREE, .jobs = JOB_TRAIN, AT_LEAST(0), .unit = "N",
     .help = "no evaluation before N epochs or, for eval_steps, before N updates; but always one "
             "after the last update"},
    {FLAG("evaluation", run, eval_on_start, "false"), FREE, .jobs = JOB_TRAIN,
     .help = "also evaluate before the first update; the model as it begins cannot be the best"},
    {TEXT("evaluation", run, metric_for_best_model, NULL), FREE, .jobs = JOB_TRAIN, .unit = "NAME",
     .help = "metric that decides which model is best: f1, accuracy, loss, and so on, with or "
             "without eval_ before it",
     .shown = "that of the task; with load_best_model_at_end the loss, if it is evaluated"},
    {FLAG("evaluation", run, greater_is_better, "auto"), FREE, .jobs = JOB_TRAIN, .has_auto = 1,
     .help = "the best model has the greatest value of metric_for_best_model",
     .shown = "true; for losses, mse and perplexity, false"},
    {INTEGER("evaluation", run, early_stopping_patience, "0"), FREE, .jobs = JOB_TRAIN, AT_LEAST(0),
     .unit = "N",
     .help = "stop after N successive evaluations that do not improve metric_for_best_model",
     .shown = "0: never"},
    {REAL("evaluation", run, early_stopping_threshold, "0"), ONLY_WITH("early_stopping_patience"),
     FREE, .jobs = JOB_TRAIN, AT_LEAST(0), .unit = "X",
     .help = "smaller improvements do not count"},
    {FLAG("evaluation", task, do_predict, "auto"), FREE, .jobs = COLUMN_JOBS, .has_auto = 1,
     .help = "after training, predict predict_file", .shown = "true if predict_file is given",
     .job_defaults = {{JOB_PREDICT_CLASSIFY | JOB_PREDICT_TOKENS, NULL, "true without do_eval"}},
     .job_helps =
         {{JOB_FINETUNE_CLASSIFY,
           "after training, predict predict_file or, with task_name, the test set of the task",
           NULL},
          {JOB_PREDICT_CLASSIFY | JOB_PREDICT_TOKENS, "predict, also with do_eval", NULL}}},

    {INTEGER("checkpoints", run, save_steps, "0"),
     ONLY_WITH("!skip_checkpoint; save_strategy=|steps"), FREE, .jobs = JOB_TRAIN, AT_LEAST(0),
     .has_auto = 1, .has_fraction = 1, .unit = "N|auto",
     .help = "save a checkpoint every N updates; below 1, N is a fraction of all updates; auto: at "
             "the interval that loses the least time, given mean_time_to_failure and the time that "
             "saving takes",
     .shown = "0: after each epoch", .job_defaults = {{JOB_PRETRAIN, "100", NULL}}},
    {REAL("checkpoints", run, mean_time_to_failure, "86400"),
     ONLY_WITH("!skip_checkpoint; save_strategy!=no; save_steps=auto"), FREE, .jobs = JOB_TRAIN,
     BETWEEN(1, 1e12), .unit = "SECONDS", .help = "mean time between failures of the whole job"},
    {FLAG("checkpoints", run, async_save, "false"),
     ONLY_WITH("!skip_checkpoint; save_strategy!=no"), FREE, .jobs = JOB_TRAIN,
     .help = "write checkpoints in the background during the next updates, from a copy of weights "
             "and moments, if memory allows"},
    {INTEGER("checkpoints", run, save_total_limit, "2"),
     ONLY_WITH("!skip_checkpoint; save_strategy!=no"), FREE, .jobs = JOB_TRAIN, BETWEEN(1, 1 << 20),
     .unit = "N", .help = "number of checkpoints to keep",
     .job_defaults = {{JOB_PRETRAIN, "3", NULL}},
     .job_helps = {{JOB_FINETUNE,
                    "number of checkpoints to keep; a run that has finished keeps none unless "
                    "this, save_steps, save_strategy or a recipe is given",
                    NULL}}},
    {TEXT("checkpoints", run, save_format, "hf"), FREE, .jobs = JOB_TRAIN, .unit = "NAMES",
     .help = "formats of the result, separated by commas: hf (always), torch (pytorch_model.bin), "
             "nvidia (ckpt_N.pt; also with every checkpoint, unless save_strategy is no), "
             "nvidia_finetuned (pytorch_model.bin as NVIDIA's fine-tuning programs write it), "
             "tensorflow (model.ckpt-N)"},
    {TEXT("checkpoints", run, save_strategy, NULL), ONLY_WITH("!skip_checkpoint"), FREE,
     .jobs = JOB_TRAIN, .unit = "WHEN", .choices = "no|epoch|steps|best",
     .help = "when to save during training: only if the run is stopped, after each epoch, every "
             "save_steps updates (every 500 if that is 0), or after each evaluation that is the "
             "best so far",
     .shown = "determined by save_steps"},
    {FLAG("checkpoints", run, load_best_model_at_end, "false"), FREE, .jobs = JOB_TRAIN,
     .help = "save the model with the best metric_for_best_model as the result, not the last one"},
    {FLAG("checkpoints", run, skip_checkpoint, "false"), FREE, .jobs = JOB_TRAIN,
     .help = "write no checkpoints, only the final model; a run that is stopped saves nothing"},
    {TEXT("checkpoints", run, resume_from_checkpoint, NULL), FREE, COMMON, .jobs = JOB_TRAIN,
     .unit = "auto|DIR", .alone = "auto",
     .help =
         "resume from this checkpoint, or from the newest valid one in the output folder; "
         "auto,DIR: from DIR if that has none; also those of transformers' Trainer, and ckpt_N.pt "
         "and model.ckpt-N of the original scripts"},
    {INTEGER("checkpoints", run, resume_step, "-1"), FREE, .jobs = JOB_PRETRAIN, AT_LEAST(-1),
     .unit = "N", .help = "resume from checkpoint-N in the output folder",
     .shown = "-1: the newest"},
    {TEXT("checkpoints", run, on_save_error, "stop"),
     ONLY_WITH("!skip_checkpoint; save_strategy!=no"), FREE, .jobs = JOB_TRAIN, .unit = "WHAT",
     .choices = "stop|continue", .help = "what to do if a checkpoint cannot be written"},
    {TEXT("checkpoints", run, spike_policy, "none"), NOTED, .jobs = JOB_TRAIN, .unit = "WHAT",
     .choices = "none|warn|skip|rollback",
     .help =
         "what to do about an update whose loss or gradient norm exceeds spike_factor times its "
         "running mean: warn, skip it, or go back to the last checkpoint and leave out its data"},
    {REAL("checkpoints", run, spike_factor, "3"), ONLY_WITH("spike_policy!=none"), NOTED,
     .jobs = JOB_TRAIN, AT_LEAST(1), .unit = "X",
     .help = "an update above this multiple of the mean of earlier updates is a "
             "spike"},

    {INTEGER("prediction", task, predict_batch_size, "32"), FREE, .jobs = MODEL_JOBS & ~JOB_ANSWER,
     BETWEEN(1, 1 << 20), .unit = "N", .aliases = "eval_batch_size per_device_eval_batch_size",
     .help = "number of sequences in a batch for prediction"},
    {INTEGER("prediction", task, n_best_size, "20"), ONLY_WITH("features!=keras"), FREE,
     .jobs = SQUAD_JOBS, BETWEEN(1, 10000), .unit = "N", .aliases = "n_best",
     .help = "number of answers to keep for each question"},
    {INTEGER("prediction", task, max_answer_length, "30"), ONLY_WITH("features!=keras"), NOTED,
     .jobs = SQUAD_JOBS, BETWEEN(1, 65536), .unit = "N",
     .help = "maximum number of tokens in an answer"},
    {REAL("prediction", task, null_score_diff_threshold, "0"), ONLY_WITH("version_2_with_negative"),
     NOTED, .jobs = SQUAD_JOBS, BETWEEN(-INFINITY, INFINITY), .unit = "X",
     .help = "give no answer if its score exceeds that of the best "
             "answer by more than this"},
    {FLAG("prediction", task, align_to_words, "true"), .jobs = JOB_ANSWER,
     .help = "widen an answer that begins or ends within a word to the whole word"},
    {TEXT("prediction", task, answer_score, "probability"), .jobs = JOB_ANSWER, .unit = "RULE",
     .choices = "probability|softmax",
     .help =
         "probability: P(start) P(end), each a softmax over [CLS] and the context; softmax: over "
         "the n_best_size best answers"},
    {FLAG("prediction", model, allow_new_head, "false"),
     .jobs = (JOB_PREDICT & ~(JOB_EVALUATE_EMBED | JOB_EVALUATE_RERANK)) | JOB_ANSWER | JOB_SHOW |
             JOB_FILL | JOB_CLASSIFY,
     .help = "for tests: give a head that the model lacks random values instead of refusing it"},

    {TEXT("machine", machine, device, "auto"), FREE, LOCAL, .jobs = MACHINE_JOBS, .unit = "NAME",
     .choices = "auto|cpu|cuda[:N]|hip[:N]|emulated",
     .help = "device to compute on; auto: a GPU if there is one, else the CPU"},
    {INTEGER("machine", machine, threads, "0"), FREE, LOCAL, COMMON,
     .jobs = MACHINE_JOBS | JOB_FEATURES | DATA_JOBS, BETWEEN(0, 4096), .unit = "N",
     .aliases = "num_threads", .help = "number of threads",
     .shown = "0: all processors that the process may use"},
    {TEXT("machine", machine, instructions, "auto"), FREE, LOCAL, .jobs = MACHINE_JOBS,
     .unit = "SET", .choices = "auto|generic|fma|avx2|avx512|avx512bf16|amx|neonbf16",
     .help = "instruction set to use"},

    {TEXT("ranks", machine, comm, "auto"), FREE, LOCAL, .jobs = JOB_DISTRIBUTED | JOB_BENCH,
     .unit = "NAME", .choices = "auto|self|openmpi|mpich",
     .help = "library that connects the processes of a job",
     .shown = "auto: the MPI of the launcher that started them"},
    {INTEGER("ranks", machine, comm_timeout, "300"), FREE, .jobs = JOB_DISTRIBUTED | JOB_BENCH,
     BETWEEN(1, 1000000), .unit = "SECONDS", .help = "maximum time to wait for another process"},
    {INTEGER("ranks", machine, start_timeout, "300"), FREE, .jobs = JOB_DISTRIBUTED | JOB_BENCH,
     BETWEEN(0, 1000000), .unit = "SECONDS",
     .help = "maximum time from the start of a process until all have come; 0: none"},
    {TEXT("ranks", machine, topology, NULL), ONLY_WITH("ranks"), FREE, LOCAL,
     .jobs = JOB_TRAIN | JOB_BENCH, .unit = "FILE",
     .help = "file of lines HOST RACK: hosts of a rack add their gradients before they are sent to "
             "other racks"},
    {TEXT("ranks", machine, workers, "synchronous"), FREE, .jobs = JOB_TRAIN, .unit = "KIND",
     .choices = "synchronous|independent",
     .help = "synchronous: the processes divide each update; independent: process R trains a model "
             "of its own with seed + R in OUTPUT/worker-R, and the best one becomes the result"},
    {INTEGER("ranks", engine, zero_stage, "0"), ONLY_WITH("ranks"), FREE,
     .jobs = JOB_TRAIN | JOB_BENCH, BETWEEN(0, 3), .unit = "STAGE",
     DEEPSPEED("zero_optimization.stage", NULL),
     .help = "what is partitioned among the processes; 1: moments and master weights; 2: gradients "
             "as well"},
    {INTEGER("ranks", engine, virtual_ranks, "0"), NOTED, .jobs = JOB_TRAIN | JOB_BENCH,
     BETWEEN(0, 1 << 20), .unit = "N",
     .help = "compute an update in N parts whose gradients are added in a fixed order; any number "
             "of processes gives the same bytes on any hosts if N divided by it is a power of two",
     .shown = "0: one part for each process"},
    {TEXT("ranks", engine, shard_order, "global"), KEPT, .jobs = JOB_PRETRAIN, .unit = "RULE",
     .choices = "global|rank",
     .help = "how sequences are assigned to processes; global: in one order for any number of "
             "processes; rank: whole files to each process"},
    {TEXT("ranks", engine, reduce, "auto"), ONLY_WITH("ranks"), FREE, .jobs = JOB_TRAIN | JOB_BENCH,
     .unit = "RULE", .choices = "auto|exact|native",
     .help = "who adds the gradients of several processes; exact: Berth, in an order that does not "
             "depend on hosts; native: MPI or NCCL, in theirs; auto: exact, unless a forecast for "
             "this number of hosts says that native is 5 % faster"},
    {TEXT("ranks", engine, communication_data_type, NULL), ONLY_WITH("ranks; !virtual_ranks"), FREE,
     .jobs = JOB_TRAIN | JOB_BENCH, .unit = "TYPE", .choices = "fp32|bf16|fp16",
     DEEPSPEED("communication_data_type", NULL),
     .help = "type of the gradients that processes exchange",
     .shown = "that of --precision; fp32 with --virtual_ranks"},
    {FLAG("ranks", engine, overlap_comm, "true"), ONLY_WITH("ranks"), FREE,
     .jobs = JOB_TRAIN | JOB_BENCH, DEEPSPEED("zero_optimization.overlap_comm", NULL),
     .help = "exchange gradients and weights during computation; false: wait for every exchange"},
    {TEXT("ranks", engine, gpu_exchange, "auto"), ONLY_WITH("ranks"), FREE,
     .jobs = JOB_TRAIN | JOB_BENCH, .unit = "METHOD", .choices = "auto|nccl|mpi",
     .help = "how processes on GPUs exchange gradients and weights: from GPU to GPU (nccl), or "
             "through the memory of their hosts (mpi); auto: nccl if all of them can"},
    {INTEGER("ranks", engine, reduce_bucket_size, "0"), ONLY_WITH("ranks"), FREE,
     .jobs = JOB_TRAIN | JOB_BENCH, AT_LEAST(0), .unit = "N",
     DEEPSPEED("zero_optimization.reduce_bucket_size", NULL),
     .help = "maximum number of elements of gradients to exchange at a time",
     .shown = "0: as many as the memory for exchanges holds"},
    {INTEGER("ranks", engine, allgather_bucket_size, "0"), ONLY_WITH("ranks; zero_stage"), FREE,
     .jobs = JOB_TRAIN | JOB_BENCH, AT_LEAST(0), .unit = "N",
     DEEPSPEED("zero_optimization.allgather_bucket_size", NULL),
     .help = "maximum number of elements of weights to exchange at a time",
     .shown = "0: as many as the memory for exchanges holds"},
    {INTEGER("ranks", engine, replica_check_steps, "0"), FREE, .jobs = JOB_TRAIN | JOB_BENCH,
     AT_LEAST(0), .unit = "N",
     .help = "detect corruption by faulty memory or processors: verify the checksums of weights "
             "and moments in every update, and compare them between processes in every Nth update",
     .shown = "0: no checks"},

    {INTEGER("reports", run, logging_steps, "10"),
     ONLY_WITH("logging_strategy=steps or eval_strategy=steps"), FREE, .jobs = JOB_TRAIN,
     AT_LEAST(1), .has_fraction = 1, .unit = "N", DEEPSPEED("steps_per_print", NULL),
     .help = "report every N updates; below 1, N is a fraction of all updates",
     .job_defaults = {{JOB_PRETRAIN, "1", NULL}}},
    {TEXT("reports", run, logging_strategy, "steps"), FREE, .jobs = JOB_TRAIN, .unit = "WHEN",
     .choices = "steps|epoch|no",
     .help = "which updates to report: those of logging_steps and the last one, the last one of "
             "each epoch, or only the last one"},
    {FLAG("reports", run, logging_first_step, "false"), FREE, .jobs = JOB_TRAIN,
     .help = "also report the first update"},
    {TEXT("reports", report, log_format, "plain"), FREE, .jobs = JOB_TRAIN | JOB_PREDICT,
     .unit = "FORMAT", .choices = "plain|deepspeed|deepspeed-bert|dllogger",
     .help = "format of the log lines; deepspeed-bert: those of DeepSpeed's BERT programs, too, or "
             "alone without a deepspeed_config; dllogger also sets the format of json_summary"},
    {TEXT("reports", report, json_summary, NULL), FREE, LOCAL, .jobs = JOB_TRAIN | JOB_PREDICT,
     .unit = "FILE", .help = "also write every record as a line of JSON to this file"},
    {TEXT("reports", report, report, NULL), FREE, LOCAL, COMMON, .jobs = JOB_TRAIN | JOB_BENCH,
     .unit = "FILE.html", .help = "also write a report with curves and plan as an HTML page",
     .job_helps = {{JOB_BENCH, "also write the figures as an HTML page", NULL},
                   {JOB_FINETUNE_SQUAD,
                    "also write a report with curves, plan and sample answers as an HTML page",
                    NULL}}},
    {INTEGER("reports", report, report_every, "0"), ONLY_WITH("report"), FREE, .jobs = JOB_TRAIN,
     AT_LEAST(0), .unit = "S",
     .help = "also write the report every S seconds while the run goes on",
     .shown = "0: only at the start and the end"},
    {TEXT("reports", report, logging_dir, NULL), FREE, LOCAL, .jobs = JOB_TRAIN, .unit = "DIR",
     .aliases = "tensorboard", .help = "also write scalars for TensorBoard to this folder"},
    {TEXT("reports", report, logging_axis, "samples"), ONLY_WITH("logging_dir"), FREE,
     .jobs = JOB_TRAIN, .unit = "AXIS", .choices = "samples|steps",
     .help = "x axis of TensorBoard's scalars; those with Hugging Face's names (train/loss) always "
             "use steps"},
    {REAL("reports", report, loss_plot_alpha, "0.2"), FREE, .jobs = JOB_TRAIN, BETWEEN(0, 1),
     .unit = "X", .help = "weight of the previous mean in TensorBoard's train_ema_loss"},
    {FLAG("reports", report, wall_clock_breakdown, "false"), FREE, .jobs = JOB_TRAIN,
     DEEPSPEED("wall_clock_breakdown", NULL),
     .help = "report the times of forward, backward and step"},
    {TEXT("reports", run, profile, NULL), FREE, LOCAL, .jobs = JOB_TRAIN, .unit = "A:B",
     .alone = "true",
     .help = "record where the time of updates A to B goes; without a value, of updates 2 to 4"},
    {TEXT("reports", run, profile_output, NULL), ONLY_WITH("profile"), FREE, LOCAL,
     .jobs = JOB_TRAIN, .unit = "FILE.json",
     .help = "file for the profile, which Perfetto and chrome://tracing show",
     .shown = "profile.json in output_dir"},
    {FLAG("reports", report, no_progress, "false"), FREE, LOCAL,
     .jobs = JOB_TRAIN | JOB_PREDICT | JOB_SHOW | DATA_JOBS, .aliases = "disable_tqdm",
     .help = "show no progress bar"},
    {FLAG("reports", report, quiet, "false"), FREE, LOCAL, COMMON, .jobs = TEXT_JOBS | JOB_BENCH,
     .help = "print only results, warnings and errors"},
    {FLAG("reports", report, verbose, "false"), ONLY_WITH("!quiet"), FREE, LOCAL, COMMON,
     .jobs = TEXT_JOBS | JOB_BENCH, .help = "also print notes on device, precision and data",
     .job_helps = {{JOB_TRAIN | JOB_PREDICT,
                    "print the whole plan, every reported update with all its numbers, and the "
                    "notes that otherwise only the run's log has",
                    NULL}}},
    {FLAG("reports", run, dry_run, "false"), FREE, COMMON, .jobs = JOB_TRAIN | JOB_PREDICT,
     .help = "print the plan (with verbose, all of it) and stop"},
};

const size_t option_row_count = sizeof option_rows / sizeof option_rows[0];
