// SPDX-License-Identifier: Apache-2.0
// The tasks embed, one vector for each text, embed_tokens, one for each of its tokens, and hidden,
// the last layer's rows: their rows, and how files train and evaluate embeddings.
//
// Training sets are pairs, pairs with a score, or texts with further ones (embed_losses.h), several
// of them in one run; they are evaluated by correlations of cosines, retrieval (embed_retrieval.h),
// or whether the second text is the nearest. Leaves out: columns (data/pairs/text_examples.h), and
// how a text becomes a vector (embed_vectors.h).
#include "core/clock.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/string_index.h"
#include "core/text_util.h"
#include "core/utf8.h"
#include "data/batches/epoch_order.h"
#include "data/pairs/pair_features.h"
#include "data/pairs/text_examples.h"
#include "metrics/embedding_metrics.h"
#include "metrics/glue_metrics.h"
#include "metrics/results.h"
#include "model/sentence.h"
#include "settings/settings.h"
#include "task/embed_losses.h"
#include "task/embed_retrieval.h"
#include "task/embed_teacher.h"
#include "task/embed_vectors.h"
#include "task/network.h"
#include "train/machine/machine.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// === training, evaluation and prediction of files ==============================================

struct embed {
    struct text_examples examples;
    struct pair_dataset texts; // training: all texts, example by example; else each text once
    char *prompted;            // texts with the model's prompt; NULL: it has none
    struct pair_feature_set features;
    const char *prompt;                // of texts of examples; NULL: none
    const struct embedding_loss *loss; // training
    int64_t objective;                 // training
    // Evaluation: the set of a retrieval, of files or of pairs; or, of scored pairs and triplets,
    // [examples][texts of an example] the number of each text; which training has, too, if its
    // groups must not have a text twice.
    struct embed_retrieval retrieval;
    uint32_t *numbers;
    size_t number_count;
    // Evaluation: [texts][size] of length 1. Training: what they must become, for a loss of
    // vectors.
    float *vectors;
    size_t size;
    int threads;
    // Training on several files: each as if it were alone, and what the set has of them.
    struct task_list files, losses;
    struct embed *parts;
    size_t part_count;
    struct packer_source sources[BERT_OBJECTIVES_MAX];
    const char *names[BERT_OBJECTIVES_MAX];
    char loss_names[256]; // embedding_loss as it was resolved
};

// --- settings -----------------------------------------------------------------------------------

static enum berth_status resolve_settings(struct settings *config, enum task_use use,
                                          struct berth_error *error) {
    settings_apply_default(config, "num_train_epochs", JOB_FINETUNE_EMBED);
    if (use == TASK_PREDICT) {
        return error_set(error, BERTH_USAGE,
                         "the task embed predicts nothing: `berth embed` makes vectors of texts");
    }
    if (embed_retrieval_is_named(config)) {
        TRY(embed_retrieval_settle(config, use, error));
    }
    if (config->features.text_column != NULL) {
        TRY(task_need(config->features.text_pair_column, "text_pair_column",
                      ", the column of second texts", error));
    }
    if (config->features.text_pair_column != NULL || config->features.negative_column != NULL) {
        TRY(task_need(config->features.text_column, "text_column", ", the column of first texts",
                      error));
    }
    return use != TASK_TRAIN && embed_retrieval_is_named(config)
               ? BERTH_OK
               : task_need(task_file_to_score(config, use),
                           use == TASK_TRAIN ? "train_file" : "predict_file",
                           use == TASK_TRAIN ? ""
                                             : "; or queries_file, corpus_file and relevant_file",
                           error);
}

static enum berth_status has_validation(const struct settings *config, int *answer,
                                        struct berth_error *error) {
    if (embed_retrieval_is_named(config)) {
        *answer = config->run.do_eval;
        return *answer ? embed_retrieval_require(config, error) : BERTH_OK;
    }
    return task_has_validation(config, "a table of texts", answer, error);
}

// --- the embedding and its loss ------------------------------------------------------------------

static void settle_pooling(const struct task_open *args) {
    const struct settings *config = args->config;
    struct sentence *sentence = &args->files->sentence;
    sentence_choose(&sentence->how, config->task.pooling, config->task.normalize);
    sentence->max_length = args->files->length;
    args->files->shape.embedding = (struct bert_embedding){.pooling = sentence->how.pooling,
                                                           .normalize = sentence->how.normalize};
}

static int separates(const struct embed *own, const struct settings *config) {
    return own->loss->loss == BERT_NEGATIVES &&
           strcmp(config->task.batch_sampler, "no_duplicates") == 0;
}

// --- reading ------------------------------------------------------------------------------------

static enum berth_status allocate_texts(struct embed *own, size_t count,
                                        struct berth_error *error) {
    own->texts.examples = memory_array(count, sizeof *own->texts.examples);
    return own->texts.examples != NULL
               ? BERTH_OK
               : error_no_memory(error, count * sizeof *own->texts.examples, "the texts");
}

static void add_text(struct embed *own, const struct text_example *example, size_t text,
                     double target) {
    own->texts.examples[own->texts.count++] = (struct pair_example){.text = example->texts[text],
                                                                    .prompt = own->prompt,
                                                                    .line = example->line,
                                                                    .label = -1,
                                                                    .value = target,
                                                                    .label_count = -1};
}

// The target of a text: the score of its example, or the margin that is the text's own.
static double target_of(const struct embed *own, const struct text_example *example, size_t text) {
    const size_t texts = own->examples.texts, scores = own->examples.scores;
    if (own->loss->scores != SCORES_MARGINS) {
        return scores == 1 ? example->scores[0] : NAN;
    }
    return text < 2              ? NAN
           : scores == texts - 2 ? example->scores[text - 2]
                                 : example->scores[0] - example->scores[text - 1];
}

extern const struct task_row row_embed;

// The vector that each text must have; of a teacher, that of the example's first text. No effect
// with another loss.
static enum berth_status list_vectors(struct embed *own, const struct embedding_teacher *teacher,
                                      struct berth_error *error) {
    const struct text_examples *examples = &own->examples;
    const size_t texts = examples->count * examples->texts, size = own->size;
    if (own->loss->scores != SCORES_VECTORS) {
        return BERTH_OK;
    }
    own->vectors = memory_array(texts * size, sizeof *own->vectors);
    if (own->vectors == NULL) {
        return error_no_memory(error, texts * size * sizeof *own->vectors, "the target vectors");
    }
    if (teacher->model != NULL) {
        TRY(embedding_teacher_vectors(teacher, examples, own->vectors, size, error));
        for (size_t i = texts; i-- > 0;) { // the last ones first, as they come from before
            memmove(own->vectors + i * size, own->vectors + i / examples->texts * size,
                    size * sizeof *own->vectors);
        }
        return BERTH_OK;
    }
    for (size_t i = 0; i < texts; i++) {
        const double *scores = examples->items[i / examples->texts].scores;
        const size_t first = examples->scores == size ? 0 : i % examples->texts * size;
        for (size_t k = 0; k < size; k++) {
            own->vectors[i * size + k] = (float)scores[first + k];
        }
    }
    return BERTH_OK;
}

// Text `index` of the training set with its targets, for packer_source.get.
static struct packer_sequence training_text(const void *data, size_t index) {
    const struct embed *own = data;
    struct packer_sequence sequence = pair_features_sequence(&own->features, index);
    if (own->vectors != NULL) {
        sequence.vector = own->vectors + index * own->size;
        sequence.label_count = (int32_t)own->size;
    }
    return sequence;
}

// Numbers the texts of all examples: equal ones have the same number. With `list` each becomes one
// of own->texts.
static enum berth_status number_texts(struct embed *own, int list, struct berth_error *error) {
    const struct text_examples *examples = &own->examples;
    const size_t count = examples->count * examples->texts;
    struct string_index index = {0};
    own->numbers = memory_array(count, sizeof *own->numbers);
    int complete = own->numbers != NULL;
    for (size_t i = 0; i < count && complete; i++) {
        const struct text_example *example = &examples->items[i / examples->texts];
        const char *text = example->texts[i % examples->texts];
        own->numbers[i] = string_index_put(&index, text, strlen(text));
        complete = own->numbers[i] != STRING_INDEX_NONE;
        if (complete && own->numbers[i] == own->number_count) {
            own->number_count++;
            if (list) {
                add_text(own, example, i % examples->texts, NAN);
            }
        }
    }
    string_index_done(&index);
    return complete ? BERTH_OK
                    : error_no_memory(error, count * sizeof *own->numbers, "the texts' numbers");
}

static enum berth_status make_features(struct embed *own, const struct task_open *args,
                                       struct task_set *set, struct berth_error *error) {
    const double begin = clock_now();
    own->threads = machine_threads(&args->config->machine);
    TRY(pairs_put_prompts(&own->texts, &own->prompted, error));
    TRY(pair_features_build(&own->texts, args->files->tokenizer, args->files->length, own->threads,
                            &own->features, error));
    set->tokens = (int64_t)own->features.token_count;
    (own->features.truncated > 0 ? log_note : log_detail)(
        args->log, "%s: %zu texts, %zu tokens, %zu truncated to %lld, in %.2f s", own->texts.name,
        own->features.count, own->features.token_count, own->features.truncated,
        (long long)args->files->length, clock_now() - begin);
    return BERTH_OK;
}

// Losses and scores are of the vectors that a device pools. The training of truncated ones is that
// of whole ones.
static enum berth_status check_modules(const struct task_open *args, const char *what, int is_cut,
                                       struct berth_error *error) {
    const struct sentence *sentence = &args->files->sentence;
    const int has_skipped = sentence->skips_prompt && sentence->prompt != NULL;
    return sentence->dense_count == 0 && !has_skipped && !is_cut
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG,
                           "%s: Berth does not %s a model with %s; `berth embed` makes its vectors",
                           args->config->model.model_name_or_path, what,
                           sentence->dense_count > 0 ? "a module Dense"
                           : is_cut                  ? "truncate_dim"
                                    : "a default prompt and \"include_prompt\" false");
}

// The tokens of a piece are no setting, as the last digits of the weights depend on them.
static int64_t pieces_of(const struct embed *own, const struct settings *config) {
    enum { PIECE_TOKENS = 2048 };
    return own->loss->loss == BERT_NEGATIVES && config->task.cached_negatives ? PIECE_TOKENS : 0;
}

// Notes what batch_sampler no_duplicates has to do, and warns where it may be too much.
static enum berth_status note_sharing(const struct embed *own, const struct task_open *args,
                                      const struct task_set *set, struct berth_error *error) {
    const size_t group = packer_group(&set->source);
    struct epoch_order_sharing sharing;
    if (own->numbers == NULL) {
        return BERTH_OK;
    }
    TRY(epoch_order_find_sharing(&set->source, &sharing, error));
    if (epoch_order_is_certain(&set->source, &sharing)) {
        log_detail(args->log,
                   "%s: no group has a text twice; the examples have %zu different texts",
                   own->texts.name, own->number_count);
        return BERTH_OK;
    }
    log_warning(args->log,
                "%s: a group may have a text twice in spite of batch_sampler no_duplicates: line "
                "%zu shares its texts with %zu others, and an epoch has only %zu groups of "
                "negatives_batch %zu; make negatives_batch smaller, or leave out examples",
                own->texts.name, own->examples.items[sharing.item].line, sharing.others,
                (own->examples.count + group - 1) / group, group);
    return BERTH_OK;
}

static enum berth_status fill_training(struct embed *own, const struct task_open *args,
                                       struct task_set *set, struct berth_error *error) {
    const struct bert_embedding *embedding = &args->files->shape.embedding;
    const struct embedding_teacher teacher =
        (struct embedding_teacher){.model = args->config->task.teacher_model,
                                   .config = args->config,
                                   .log = args->log,
                                   .row = &row_embed};
    own->objective = embedding->objective_count;
    TRY(embedding_loss_settle(&own->examples, teacher.model != NULL, args->config,
                              &args->files->shape, &own->loss, error));
    const struct embedding_loss *loss = own->loss;
    const struct bert_objective *objective = &embedding->objectives[own->objective];
    char groups[64] = "";
    if (loss->has_groups) {
        snprintf(groups, sizeof groups, ", in groups of %lld examples",
                 (long long)objective->group);
    }
    log_detail(args->log, "loss %s%s%s; pooling %s%s", loss->name,
               objective->is_symmetric ? ", both ways" : "", groups,
               sentence_pooling_names[embedding->pooling],
               embedding->normalize ? "; embeddings are scaled to length 1" : "");
    TRY(separates(own, args->config) ? number_texts(own, 0, error) : BERTH_OK);
    TRY(allocate_texts(own, own->examples.count * own->examples.texts, error));
    own->size = (size_t)args->files->shape.hidden_size;
    TRY(teacher.model != NULL && own->loss->scores == SCORES_MARGINS
            ? embedding_teacher_scores(&teacher, &own->examples, error)
            : BERTH_OK);
    // Every text of every example.
    const struct text_examples *examples = &own->examples;
    for (size_t i = 0; i < examples->count * examples->texts; i++) {
        const struct text_example *example = &examples->items[i / examples->texts];
        add_text(own, example, i % examples->texts, target_of(own, example, i % examples->texts));
    }
    TRY(list_vectors(own, &teacher, error));
    TRY(make_features(own, args, set, error));
    set->examples = (int64_t)own->examples.count;
    set->source =
        (struct packer_source){.get = training_text,
                               .data = own,
                               .count = own->examples.count,
                               .texts = own->examples.texts,
                               .piece_tokens = pieces_of(own, args->config),
                               .group = (size_t)embedding->objectives[own->objective].group,
                               .objective = own->objective,
                               .numbers = own->numbers,
                               .number_count = own->number_count};
    return note_sharing(own, args, set, error);
}

// Whether the evaluation is a retrieval, of files or of pairs.
static int is_retrieval(const struct embed *own) {
    return own->retrieval.set.query_count > 0;
}

static enum berth_status choose_texts(struct embed *own, const struct task_open *args,
                                      struct berth_error *error) {
    const struct text_examples *examples = &own->examples;
    if (embed_retrieval_is_named(args->config)) {
        return embed_retrieval_read(&own->retrieval, args, &own->texts, error);
    }
    // Scores of training only, as the margins of negatives, say nothing about an evaluation.
    if (examples->texts < 2 ||
        !(examples->texts == 2 ? examples->scores <= 1 : examples->scores == 0)) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: expected pairs, pairs with a score, or pairs with further texts, to "
                         "evaluate on; found %zu texts with %zu scores",
                         examples->table.name, examples->texts, examples->scores);
    }
    if (examples->texts == 2 && examples->scores == 0) {
        return embed_retrieval_of_pairs(&own->retrieval, args, examples, own->prompt, &own->texts,
                                        error);
    }
    TRY(allocate_texts(own, examples->count * examples->texts, error));
    return number_texts(own, 1, error);
}

static enum berth_status fill_evaluation(struct embed *own, const struct task_open *args,
                                         struct task_set *set, struct berth_error *error) {
    TRY(check_modules(args, "evaluate", args->files->sentence.truncate_dim > 0, error));
    TRY(choose_texts(own, args, error));
    TRY(make_features(own, args, set, error));
    retrieval_set_drop_texts(&own->retrieval.set);
    set->path = own->texts.name;
    set->examples =
        (int64_t)(own->examples.count > 0 ? own->examples.count : own->retrieval.set.query_count);
    own->size = (size_t)args->files->shape.hidden_size;
    own->vectors = memory_array_zeroed(own->texts.count * own->size, sizeof *own->vectors);
    set->source = (struct packer_source){
        .get = pair_features_sequence, .data = &own->features, .count = own->features.count};
    return own->vectors != NULL
               ? BERTH_OK
               : error_no_memory(error, own->texts.count * own->size * sizeof *own->vectors,
                                 "the embeddings");
}

static enum berth_status read_set(struct embed *own, const char *path, const struct task_open *args,
                                  struct berth_error *error) {
    own->prompt = args->files->sentence.prompt;
    const struct settings *config = args->config;
    const int64_t limit = args->use == TASK_TRAIN ? config->features.max_train_samples
                                                  : config->features.max_eval_samples;
    const struct text_example_settings settings = {.text = config->features.text_column,
                                                   .pair = config->features.text_pair_column,
                                                   .negatives = config->features.negative_column,
                                                   .score = config->features.label_column};
    struct text_examples *examples = &own->examples;
    TRY(text_examples_read(path, &settings, examples, error));
    if (limit > 0 && (size_t)limit < examples->count) {
        examples->count = (size_t)limit;
    }
    char columns[256] = "";
    for (size_t i = 0; i < examples->texts; i++) {
        words_add(columns, sizeof columns, examples->columns[i]);
    }
    log_detail(args->log, "%s: %zu examples of %zu texts: columns %s%s%s", examples->table.name,
               examples->count, examples->texts, columns, examples->scores > 0 ? ", score " : "",
               examples->scores > 0 ? examples->score_column : "");
    own->texts.name = own->examples.table.name;
    return BERTH_OK;
}

// --- several training sets ----------------------------------------------------------------------

// The files of train_file: one that exists, whatever its name, or a list; and their losses.
static enum berth_status list_files(struct embed *own, const struct task_open *args,
                                    struct berth_error *error) {
    const struct task_settings *task = &args->config->task;
    TRY(task_list_read("embedding_loss", task->embedding_loss, &own->losses, error));
    if (!file_exists(task->train_file)) {
        TRY(task_list_read("train_file", task->train_file, &own->files, error));
    }
    const size_t files = own->files.count > 1 ? own->files.count : 1;
    if (files > BERT_OBJECTIVES_MAX) {
        return error_set(error, BERTH_USAGE, "train_file: expected at most %d files, found %zu",
                         BERT_OBJECTIVES_MAX, files);
    }
    if (own->losses.count != 1 && own->losses.count != files) {
        return error_set(error, BERTH_USAGE,
                         "embedding_loss: expected one loss, or one for each of the %zu files of "
                         "train_file, found %zu: \"%s\"",
                         files, own->losses.count, task->embedding_loss);
    }
    if (files == 1 && settings_is_given(args->config, "multi_dataset_batch_sampler")) {
        log_note(args->log, "multi_dataset_batch_sampler has no effect with one train_file");
    }
    return BERTH_OK;
}

static enum berth_status open_part(struct embed *own, size_t i, const struct task_open *args,
                                   struct task_set *set, struct berth_error *error) {
    struct embed *part = &own->parts[i];
    struct task_set alone = {.path = own->files.items[i]};
    args->config->task.embedding_loss = own->losses.items[own->losses.count > 1 ? i : 0];
    TRY(read_set(part, alone.path, args, error));
    TRY(fill_training(part, args, &alone, error));
    const size_t used = strlen(own->loss_names);
    snprintf(own->loss_names + used, sizeof own->loss_names - used, "%s%s", used > 0 ? "," : "",
             part->loss->name);
    own->sources[i] = alone.source;
    own->names[i] = alone.path;
    struct packer_source *all = &set->source;
    set->examples += alone.examples;
    set->tokens += alone.tokens;
    all->count += alone.source.count;
    all->texts = all->texts > alone.source.texts ? all->texts : alone.source.texts;
    all->group = all->group > alone.source.group ? all->group : alone.source.group;
    return BERTH_OK;
}

static enum berth_status open_parts(struct embed *own, const struct task_open *args,
                                    struct task_set *set, struct berth_error *error) {
    const char *mixing = args->config->task.multi_dataset_batch_sampler;
    own->parts = memory_array_zeroed(own->files.count, sizeof *own->parts);
    if (own->parts == NULL) {
        return error_no_memory(error, own->files.count * sizeof *own->parts, "the data sets");
    }
    for (size_t i = 0; i < own->files.count; i++) {
        own->part_count++;
        TRY(open_part(own, i, args, set, error));
    }
    args->config->task.embedding_loss = own->loss_names;
    set->path = args->config->task.train_file;
    set->sources = own->sources;
    set->source_names = own->names;
    set->source_count = own->part_count;
    set->mixing = strcmp(mixing, "round_robin") == 0 ? FEED_ROUND_ROBIN : FEED_PROPORTIONAL;
    size_t least = 0;
    for (size_t i = 1; i < own->part_count; i++) {
        least = own->sources[i].count < own->sources[least].count ? i : least;
    }
    if (set->mixing == FEED_PROPORTIONAL) {
        log_note(args->log,
                 "each update takes examples of one of %zu data sets, in random order; an epoch "
                 "has all examples of all sets",
                 own->part_count);
    } else {
        log_note(
            args->log,
            "each update takes examples of one of %zu data sets, in turn; an epoch ends when the "
            "smallest, %s, has no more, and each epoch leaves out other examples of the others",
            own->part_count, own->names[least]);
    }
    return BERTH_OK;
}

static enum berth_status open_training(struct embed *own, const struct task_open *args,
                                       struct task_set *set, struct berth_error *error) {
    TRY(check_modules(args, "train", 0, error));
    TRY(list_files(own, args, error));
    settle_pooling(args);
    // The trained model's texts have the prompt, too.
    const char *prompt = args->files->sentence.prompt;
    if (prompt != NULL) {
        log_note(
            args->log,
            "texts begin with the model's default prompt, \"%.*s\"; sentence-transformers trains "
            "without it: for that, remove default_prompt_name from the model's "
            "config_sentence_transformers.json",
            UTF8_SHOWN(prompt, 40));
    }
    if (own->files.count > 1) {
        return open_parts(own, args, set, error);
    }
    TRY(read_set(own, args->config->task.train_file, args, error));
    set->path = own->examples.table.name;
    return fill_training(own, args, set, error);
}

// ------------------------------------------------------------------------------------------------

static enum berth_status open_set(struct task_set *set, const struct task_open *args,
                                  struct berth_error *error) {
    struct embed *own = set->own;
    if (args->use == TASK_TRAIN) {
        return open_training(own, args, set, error);
    }
    if (!embed_retrieval_is_named(args->config)) {
        TRY(read_set(own, task_file_to_score(args->config, args->use), args, error));
    }
    if (args->files->shape.embedding.objective_count == 0) { // no training set was opened before
        settle_pooling(args);
    }
    return fill_evaluation(own, args, set, error);
}

static void close_set(void *own) {
    struct embed *embed = own;
    for (size_t i = 0; i < embed->part_count; i++) {
        close_set(&embed->parts[i]);
    }
    memory_free(embed->parts);
    task_list_done(&embed->files);
    task_list_done(&embed->losses);
    text_examples_done(&embed->examples);
    pair_feature_set_done(&embed->features);
    memory_free(embed->texts.examples);
    memory_free(embed->prompted);
    embed_retrieval_done(&embed->retrieval);
    memory_free(embed->numbers);
    memory_free(embed->vectors);
}

// --- scores -------------------------------------------------------------------------------------

static void receive_vector(void *set, size_t index, const float *vector, int64_t count) {
    struct embed *own = ((struct task_set *)set)->own;
    float *to = own->vectors + index * own->size;
    memcpy(to, vector, (size_t)count * sizeof *vector);
    sentence_scale_to_one(to, (size_t)count);
}

static size_t result_bytes(const struct task_set *set) {
    const struct embed *own = set->own;
    const size_t count = own->examples.count;
    const size_t vectors = own->texts.count * own->size * sizeof *own->vectors;
    return vectors + (is_retrieval(own) ? embed_retrieval_bytes(&own->retrieval, own->size)
                      : own->examples.scores > 0
                          ? count * 2 * sizeof(double) + glue_spearman_bytes(count)
                          : 0);
}

static enum berth_status score_cosines(const struct embed *own, const struct embedding_set *vectors,
                                       struct task_score *score, struct berth_error *error) {
    const size_t count = own->examples.count;
    double *cosines = memory_array(count, sizeof *cosines);
    double *wanted = memory_array(count, sizeof *wanted), spearman = NAN;
    enum berth_status status = cosines != NULL && wanted != NULL
                                   ? BERTH_OK
                                   : error_no_memory(error, count * sizeof *cosines, "cosines");
    for (size_t i = 0; i < count && status == BERTH_OK; i++) {
        cosines[i] = embedding_product(vectors, own->numbers[2 * i], own->numbers[2 * i + 1]);
        wanted[i] = own->examples.items[i].scores[0];
    }
    if (status == BERTH_OK) {
        status = glue_spearman(cosines, wanted, count, &spearman, error);
    }
    if (status == BERTH_OK) {
        task_score_add(score, "pearson", glue_pearson(cosines, wanted, count));
        task_score_add(score, "spearman", spearman);
    }
    memory_free(cosines);
    memory_free(wanted);
    score->best_by = 1;
    return status;
}

static enum berth_status score_set(const struct task_set *set, struct task_score *score,
                                   struct berth_error *error) {
    const struct embed *own = set->own;
    const struct embedding_set vectors = {own->vectors, own->texts.count, own->size};
    *score = (struct task_score){.loss = NAN};
    if (is_retrieval(own)) {
        return embed_retrieval_score(&own->retrieval, own->vectors, own->size, score, error);
    }
    if (own->examples.texts > 2) {
        task_score_add(score, "triplet_accuracy",
                       embedding_triplet_accuracy(&vectors, own->numbers, own->examples.texts,
                                                  own->examples.count));
        return BERTH_OK;
    }
    return score_cosines(own, &vectors, score, error);
}

static enum berth_status write_results(const struct task_set *set,
                                       const struct task_results *results,
                                       struct berth_error *error) {
    (void)set;
    return task_write_evaluation(results, error);
}

static const struct task_form form = {
    .ending = "jsonl",
    .columns = "text_column=text text_pair_column=text_pair negative_column=negative "
               "label_column=label",
    .write = task_write_example};

static const struct task_command commands[] = {
    {.verb = "finetune",
     .name = "embed",
     .use = TASK_TRAIN,
     .jobs = JOB_FINETUNE_EMBED,
     .summary = "train sentence embeddings on pairs, scored pairs or triplets",
     .usage =
         "--model DIR --train FILE [--dev FILE | --queries FILE --corpus FILE --relevant FILE] "
         "--output DIR [options]",
     .example =
         "berth finetune embed --model minilm --train questions.jsonl --dev held-out.jsonl \\\n"
         "    --train_batch_size 64 --negatives_batch 32 --output searcher\n"
         "berth finetune embed --model minilm --train questions.jsonl --queries queries.jsonl \\\n"
         "    --corpus corpus.jsonl --relevant qrels/dev.tsv --metric_for_best_model ndcg_at_10 "
         "\\\n"
         "    --load_best_model_at_end --output searcher\n"
         "berth embed --model searcher texts.txt",
     .notes =
         "Files are TSV, CSV or JSON lines, distinguished by their names. Without --text_column "
         "the score is the column score, scores, label or labels, and the other columns (but id "
         "and idx) are the texts in their order. The result is a folder of "
         "sentence-transformers. --queries, --corpus and --relevant evaluate by retrieval, as "
         "`berth evaluate embed` does. Signals and --resume_from_checkpoint work as in `berth "
         "finetune squad`."},
    {.verb = "evaluate",
     .name = "embed",
     .use = TASK_VALIDATE,
     .jobs = JOB_EVALUATE_EMBED,
     .summary = "score sentence embeddings on pairs, scored pairs, triplets, or by retrieval",
     .usage = "--model DIR (--input FILE | --queries FILE --corpus FILE --relevant FILE) --output "
              "DIR [options]",
     .required = "model_name_or_path output_dir",
     .example =
         "berth evaluate embed --model searcher --input held-out.jsonl --output scores\n"
         "berth evaluate embed --model searcher --queries queries.jsonl --corpus corpus.jsonl \\\n"
         "    --relevant qrels/test.tsv --output scores",
     .notes =
         "The scores of pairs with scores are the correlations of cosines and scores; those of "
         "triplets say how many have the second text nearer than the third. Of other pairs, each "
         "first text is a query and each second text a document. The scores of these, and of "
         "queries, corpus and judgements, are ndcg_at_10, mrr_at_10, map_at_100, recall_at_1, 3, "
         "5, 10 and 100, precision_at_1, 3, 5 and 10, as ranx computes them. If documents have "
         "equal cosines, the one that is first in the file is nearer. A query without a judgement "
         "is left out; one without a relevant document counts 0. Queries begin with the model's "
         "prompt \"query\", documents with its prompt \"document\", \"passage\" or \"corpus\", if "
         "the folder has them. The scores are also in eval_results.txt and eval_results.json."},
    {.verb = NULL}};

static const struct training_task training = {
    .name = "embed",
    .commands = commands,
    .form = &form,
    .title = "finetune embed",
    .jobs = JOB_FINETUNE_EMBED,
    .defaults = JOB_FINETUNE_EMBED,
    .head = PARAM_HEAD_EMBEDDING,
    .validation_advice = "name a table with validation_file, or queries_file, "
                         "corpus_file and relevant_file",
    .settle = resolve_settings,
    .has_validation = has_validation,
    .own_size = sizeof(struct embed),
    .open = open_set,
    .done = close_set,
    .receive = receive_vector,
    .result_bytes = result_bytes,
    .score = score_set,
    .write = write_results};

// === the row =====================================================================================

#define ENCODES                                                                                    \
    .job = JOB_EMBED, .own_size = sizeof(struct berth_embedding), .open = embed_open,              \
    .width = embed_width

const struct task_row row_embed = {
    .training = &training,
    .about = {.name = "embed",
              .pipeline = "feature-extraction",
              .text = "text",
              .label = "score",
              .more = "negatives",
              .has_rows = 1,
              .trains = 1,
              .help = "one vector for each text, for comparison with others"},
    .architectures = {""},
    .tasks = {TASKS_OF_ENCODER},
    ENCODES,
    .settings = "normalize dimensions prompt prompt_name overflow",
    .run = embed_run,
    .write = task_write_numbers,
    .prompt = prompts_of,
    .can_use_windows = 1,
    .outputs = {{"embedding", TASK_NUMBERS}},
    .verb = {.jobs = JOB_EMBED,
             .sample = {"minilm", "A man sleeps."},
             .notes = "The mean includes all of a text's tokens, [CLS] and [SEP] among them, as in "
                      "sentence-transformers. A sentence-transformers folder determines how its "
                      "texts are pooled, scaled and truncated. Output is {\"index\": N, "
                      "\"embedding\": [...]} per line, or one float32 array [texts, size]."}};

const struct task_row row_embed_tokens = {
    .about = {.name = "embed_tokens",
              .pipeline = "token-embeddings",
              .text = "text",
              .has_rows = 1,
              .help = "one vector for each token of a text, with its prompt, [CLS] and [SEP]"},
    ENCODES,
    .tasks = {TASKS_OF_ENCODER},
    .has_rows_of_tokens = 1,
    .settings = "prompt prompt_name overflow",
    .run = embed_run_tokens,
    .prompt = prompts_of,
    .write = embed_write_vectors,
    .outputs = {{"token_embeddings", TASK_NUMBERS}},
    .verb = {.of = "embed", .flag = "tokens"}};

const struct task_row row_hidden = {.about = {.name = "hidden",
                                              .pipeline = "hidden-states",
                                              .text = "text",
                                              .pair = "text_pair",
                                              .has_rows = 1,
                                              .help = "the last layer's output, one row for each "
                                                      "token of a text"},
                                    ENCODES,
                                    .tasks = {TASKS_OF_ENCODER},
                                    .has_rows_of_tokens = 1,
                                    .settings = "overflow",
                                    .run = embed_run_hidden,
                                    .write = task_write_numbers,
                                    .outputs = {{"hidden_states", TASK_NUMBERS}},
                                    .verb = {.sample = {"minilm", "A man sleeps."},
                                             .notes = "Output is {\"index\": N, "
                                                      "\"hidden_states\": [[...], ...]} per "
                                                      "line."}};
