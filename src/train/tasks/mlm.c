// SPDX-License-Identifier: Apache-2.0
// The task "mlm": masked language modelling on the user's own text, as Hugging Face's run_mlm.
// New masks are drawn for each epoch (data/masked/word_masks.h); those of an evaluation are drawn
// once. Without a file to evaluate on, the first lines of the training file are held out.
#include "core/clock.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/options.h"
#include "data/masked/text_lines.h"
#include "data/masked/word_masks.h"
#include "metrics/results.h"
#include "train/engine/infer.h"
#include "train/machine/machine.h"
#include "train/tasks/task.h"

#include <inttypes.h>
#include <math.h>

struct mlm {
    struct text_sequences text;
    unsigned char *continues;
    struct word_masks masks;   // of an evaluation
    struct task_masked masked; // of a prediction
};

// --- settings -----------------------------------------------------------------------------------

static enum berth_status settle(struct berth_config *config, enum task_use use,
                                struct berth_error *error) {
    const struct option_row *length = option_find("max_seq_length");
    const int is_chosen = option_is_chosen(config, length);
    option_apply_defaults(config, use == TASK_TRAIN ? JOB_PRETRAIN_MLM : JOB_EVALUATE_MLM);
    if (!is_chosen) {
        option_forget(config, length); // the default depends on the model (inputs_fit_length)
    }
    return task_need_file(config, use, "", error);
}

static enum berth_status has_validation(const struct berth_config *config, int *answer,
                                        struct berth_error *error) {
    TRY(task_has_validation(config, "text", answer, error));
    const int holds_out = config->do_eval && config->validation_file == NULL &&
                          config->validation_split_percentage > 0;
    *answer |= holds_out;
    return !holds_out || config->train_file == NULL || !path_is_fifo(config->train_file)
               ? BERTH_OK
               : error_set(error, BERTH_USAGE,
                           "train_file %s is a FIFO, which can be read only once, but it would be "
                           "read again for the %" PRId64 " %% of its lines that are held out; name "
                           "a file, other text with validation_file, or use "
                           "validation_split_percentage 0",
                           config->train_file, config->validation_split_percentage);
}

// --- sets ---------------------------------------------------------------------------------------

// The lines of a file that make up a set.
struct part {
    const char *path;
    int is_held_out; // the first lines, or else the rest
    int64_t percent; // 0: all lines belong to the set
};

static struct part part_of(const struct berth_config *config, enum task_use use) {
    const int is_held_out = use != TASK_TRAIN;
    if (is_held_out && config->validation_file != NULL) {
        return (struct part){.path = config->validation_file};
    }
    return (struct part){
        .path = config->train_file,
        .is_held_out = is_held_out,
        .percent = config->validation_file == NULL ? config->validation_split_percentage : 0};
}

// Rounds as the library "datasets" does.
static size_t held_out_lines(const struct part *part, size_t count) {
    return (size_t)rint((double)part->percent * (double)count / 100);
}

// Lines [first, end) of the file yield no sequence.
static enum berth_status refuse_empty(const struct task_open *args, const struct part *part,
                                      size_t first, size_t end, struct berth_error *error) {
    const struct berth_config *config = args->config;
    if (first == end) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: validation_split_percentage %" PRId64
                         " leaves no line %s; choose another, or name text with validation_file",
                         part->path, part->percent,
                         part->is_held_out ? "to evaluate on" : "to train on");
    }
    if (config->line_by_line) {
        return error_set(error, BERTH_BAD_DATA, "%s: lines %zu to %zu: no words", part->path,
                         first + 1, end);
    }
    return error_set(error, BERTH_BAD_DATA,
                     "%s: lines %zu to %zu: fewer than the %" PRId64
                     " tokens of a sequence; use a smaller max_seq_length or line_by_line%s",
                     part->path, first + 1, end, config->max_seq_length,
                     part->percent > 0 ? ", or another validation_split_percentage" : "");
}

static enum berth_status tokenize(struct mlm *own, const struct task_open *args,
                                  const struct part *part, const struct text_lines *lines,
                                  struct berth_error *error) {
    const struct berth_config *config = args->config;
    const size_t held_out = held_out_lines(part, lines->count);
    const size_t first = part->is_held_out ? 0 : held_out;
    const size_t end = part->is_held_out && part->percent > 0 ? held_out : lines->count;
    const struct text_sequence_rules rules = {.by_line = config->line_by_line,
                                              .max_length = config->max_seq_length,
                                              .threads = machine_threads(config)};
    const double begin = clock_now();
    TRY(text_sequences_build(lines->items + first, end - first, args->files->tokenizer, &rules,
                             &own->text, error));
    const struct text_sequences *text = &own->text;
    const size_t tokens = text->starts[text->count];
    log_note(args->log, "%s: lines %zu to %zu, %zu sequence%s, %zu token%s, %zu %s, in %.2f s",
             part->path, first + 1, end, text->count, number_plural((int64_t)text->count), tokens,
             number_plural((int64_t)tokens), rules.by_line ? text->truncated : text->dropped,
             rules.by_line ? "truncated" : "tokens left out at the ends of 1,000 lines",
             clock_now() - begin);
    return text->count > 0 ? BERTH_OK : refuse_empty(args, part, first, end, error);
}

static void note_column(const struct task_open *args, const struct part *part,
                        const struct text_lines *lines) {
    const int is_given = args->config->text_column != NULL;
    if (part->is_held_out && part->percent > 0) {
        return; // the file is read twice, and the training set notes it
    }
    if (is_given && lines->column == NULL) {
        log_note(args->log, "text_column has no effect: %s is not a table", part->path);
    } else if (!is_given && lines->column != NULL) {
        log_note(args->log,
                 "%s: text_column %s, chosen by name; to choose another, set this option",
                 part->path, lines->column);
    }
}

static void note_without_effect(const struct task_open *args) {
    const struct berth_config *config = args->config;
    if (args->use == TASK_TRAIN && config->validation_file != NULL &&
        option_name_is_chosen(config, "validation_split_percentage")) {
        log_note(args->log, "validation_split_percentage has no effect with validation_file");
    }
}

static enum berth_status read_text(struct mlm *own, const struct task_open *args,
                                   struct task_set *set, struct berth_error *error) {
    const struct part part = part_of(args->config, args->use);
    struct text_lines lines = {0};
    set->path = part.path;
    enum berth_status status = text_lines_read(part.path, args->config->text_column, &lines, error);
    if (status == BERTH_OK) {
        note_column(args, &part, &lines);
        note_without_effect(args);
        status = tokenize(own, args, &part, &lines, error);
    }
    text_lines_done(&lines);
    return status;
}

static enum berth_status find_rules(struct mlm *own, const struct task_open *args,
                                    struct word_mask_rules *rules, struct berth_error *error) {
    const struct tokenizer *tokenizer = args->files->tokenizer;
    const size_t words = tokenizer_size(tokenizer);
    *rules = (struct word_mask_rules){.seed = (uint64_t)args->config->seed,
                                      .probability = args->config->masked_lm_prob,
                                      .vocab_size = (int32_t)words,
                                      .special = tokenizer_special_ids(tokenizer)};
    if (rules->special.mask < 0) {
        return error_set(error, BERTH_BAD_DATA, "%s: missing token [MASK]; use a BERT vocabulary",
                         args->files->vocab_path);
    }
    if (args->config->whole_word_mask) {
        own->continues = memory_new(words);
        if (own->continues == NULL) {
            return error_no_memory(error, words, "the pieces of the vocabulary");
        }
        tokenizer_find_continuations(tokenizer, own->continues);
        rules->continues = own->continues;
    }
    return BERTH_OK;
}

static void limit(struct text_sequences *text, int64_t max_count) {
    text->count =
        max_count > 0 && (size_t)max_count < text->count ? (size_t)max_count : text->count;
}

static enum berth_status open_set(struct task_set *set, const struct task_open *args,
                                  struct berth_error *error) {
    struct mlm *own = set->own;
    const struct berth_config *config = args->config;
    const int trains = args->use == TASK_TRAIN;
    TRY(find_rules(own, args, &set->masks, error));
    TRY(read_text(own, args, set, error));
    limit(&own->text, trains ? config->max_train_samples : config->max_eval_samples);
    set->examples = (int64_t)own->text.count;
    set->tokens = (int64_t)own->text.starts[own->text.count];
    if (trains) {
        set->text = &own->text;
        set->source = (struct packer_source){
            .get = text_sequences_get, .data = &own->text, .count = own->text.count};
        return BERTH_OK;
    }
    const struct word_mask_choice all = {.epoch = WORD_MASKS_EVALUATION, .count = own->text.count};
    own->masks = (struct word_masks){.all = &own->text, .rules = set->masks};
    set->source = (struct packer_source){
        .get = word_masks_get, .data = &own->masks, .count = own->text.count};
    return word_masks_draw(&own->masks, &all, machine_threads(config), error);
}

static void done(void *own) {
    struct mlm *mlm = own;
    text_sequences_done(&mlm->text);
    word_masks_done(&mlm->masks);
    memory_free(mlm->continues);
}

// --- predictions --------------------------------------------------------------------------------

// The head has no logits of sequences.
static void receive(void *set, size_t index, const float *logits, int64_t count) {
    (void)set;
    (void)index;
    (void)logits;
    (void)count;
}

static void receive_masked(void *set, size_t index, const struct infer_masked *masked) {
    struct mlm *own = ((struct task_set *)set)->own;
    (void)index;
    task_masked_add(&own->masked, masked);
}

// Resets the sums for the next prediction.
static enum berth_status score_set(const struct task_set *set, struct task_score *score,
                                   struct berth_error *error) {
    struct task_masked *sums = &((struct mlm *)set->own)->masked;
    (void)error;
    *score = (struct task_score){
        .lower_is_better = 1, .best_by = 1, .loss = task_masked_mean(sums, sums->loss)};
    task_score_add(score, "accuracy", task_masked_mean(sums, (double)sums->hits));
    task_score_add(score, "perplexity", exp(score->loss));
    *sums = (struct task_masked){0};
    return BERTH_OK;
}

static enum berth_status write_results(const struct task_set *set,
                                       const struct task_results *results,
                                       struct berth_error *error) {
    const struct task_score *score = results->score;
    const struct berth_field fields[] = {
        log_real("eval_accuracy", score->items[0].value),
        log_real("eval_loss", score->loss),
        log_real("perplexity", score->items[1].value),
        log_integer("global_step", results->step),
    };
    const size_t count = sizeof fields / sizeof *fields - (results->is_training ? 0 : 1);
    (void)set;
    return results_write_eval_text(results->folder, fields, count, error);
}

const struct task task_mlm = {.name = "mlm",
                              .title = "pretrain --objective mlm",
                              .jobs = JOB_PRETRAIN_MLM,
                              .defaults = JOB_PRETRAIN_MLM,
                              .head = PARAM_HEAD_MASKED,
                              .has_loss = 1,
                              .validation_advice =
                                  "name text with validation_file, or hold out lines of "
                                  "train_file with validation_split_percentage",
                              .settle = settle,
                              .has_validation = has_validation,
                              .own_size = sizeof(struct mlm),
                              .open = open_set,
                              .done = done,
                              .receive = receive,
                              .receive_masked = receive_masked,
                              .score = score_set,
                              .write = write_results};
