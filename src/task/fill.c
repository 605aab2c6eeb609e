// SPDX-License-Identifier: Apache-2.0
// The task fill: words for each [MASK] of a text.
//
// Its sets are the user's own text, as in Hugging Face's run_mlm. New masks are drawn for each
// epoch (data/masked/word_masks.h); those of an evaluation are drawn once. Without a file to
// evaluate on, the first lines of the training file are held out. For a text of a call the network
// is run on the rows of its masks only; the head for words is model/heads.c's.
#include "task/fill.h"

#include "core/clock.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/portable_math.h"
#include "core/utf8.h"
#include "data/masked/text_lines.h"
#include "data/masked/word_masks.h"
#include "metrics/results.h"
#include "settings/settings.h"
#include "task/network.h"
#include "text/tokenizer.h"
#include "train/engine/infer.h"
#include "train/machine/machine.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// The most masked tokens in a batch, unless a single text has more.
#define FILL_MASKED 256
#define TOP_DEFAULT 5
// Each word comes with the whole text, so a short request can have a very long reply.
#define SEQUENCES_MAX ((size_t)16 << 20)

enum berth_status fill_open(struct task_model *model, const struct task_opening *opening,
                            struct berth_error *error) {
    // A text has at least three tokens.
    TRY(network_open(
        model, &(struct predictor_kind){.head = PARAM_HEAD_MASKED, .usual_length = LENGTH_OF_MODEL},
        3, opening, error));
    if (tokenizer_special_ids(model->tokenizer).mask < 0) {
        return error_set(error, BERTH_BAD_DATA, "%s: missing token [MASK]; use a BERT vocabulary",
                         model->network->predictor.files.vocab_path);
    }
    struct batch_extent *extent = &model->network->extent;
    extent->masked = extent->max_length > FILL_MASKED ? extent->max_length : FILL_MASKED;
    return network_load(model, opening, error);
}

// --- texts --------------------------------------------------------------------------------------

struct fill_call {
    const struct task_model *model;
    struct text_inputs inputs;
    size_t *masked; // [masked_count] indices of the texts that have a mask
    size_t masked_count;
    uint16_t *positions; // of all masks, within their texts
    int32_t *labels;     // as many zeros: the words are unknown
    size_t *firsts;      // [texts + 1] where each text's masks begin in `positions`
    struct targets {
        int32_t *ids; // [count], each once; NULL: every word
        size_t count;
    } * targets;  // [texts]
    size_t top;   // the largest of all texts
    float *found; // [masks][top] pairs of score and token
};

static size_t top_of(const struct task_text *text) {
    return text->settings.top > 0 ? (size_t)text->settings.top : TOP_DEFAULT;
}

static enum berth_status check_row(const struct task_text *texts, size_t count,
                                   struct berth_error *error) {
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const char *text = texts[i].texts[0];
        size_t masks = 0;
        for (const char *at = text; (at = strstr(at, "[MASK]")) != NULL; at++) {
            masks++;
        }
        const size_t words = masks * top_of(&texts[i]), length = strlen(text);
        bytes += length > 0 && words > SEQUENCES_MAX / length ? SEQUENCES_MAX : words * length;
        if (bytes >= SEQUENCES_MAX) {
            return error_set(error, BERTH_USAGE,
                             "the reply would exceed %zu MiB: it has the whole text for each word "
                             "of each [MASK]",
                             SEQUENCES_MAX >> 20);
        }
    }
    return BERTH_OK;
}

static void refuse(const struct fill_call *call, struct task_text *text) {
    const struct tokenizer *tokenizer = call->model->tokenizer;
    const char *words = text->texts[0],
               *mask = tokenizer_piece(tokenizer, tokenizer_special_ids(tokenizer).mask);
    char message[400];
    snprintf(message, sizeof message, "no %.*s in %s\"%.*s%s\"", UTF8_SHOWN(mask, 40),
             text->truncated ? "the first max_seq_length tokens of " : "", UTF8_SHOWN(words, 60),
             strlen(words) > 60 ? "..." : "");
    task_text_fail(text, BERTH_BAD_DATA, message);
}

// A word of the vocabulary, as it is or as the tokenizer reads it. -1: it is none.
static int32_t find_word(const struct tokenizer *tokenizer, const char *word) {
    const int32_t found = tokenizer_find(tokenizer, word, strlen(word));
    struct token_list list = {0};
    const int is_one =
        found < 0 && tokenizer_encode(tokenizer, word, strlen(word), &list, NULL) == BERTH_OK &&
        list.count == 1 && list.items[0].id != tokenizer_special_ids(tokenizer).unknown;
    const int32_t read = is_one ? list.items[0].id : found;
    token_list_done(&list);
    return read;
}

static enum berth_status list_targets(const struct fill_call *call, const struct task_list *words,
                                      struct targets *targets, struct berth_error *error) {
    targets->ids = memory_array(words->count, sizeof *targets->ids);
    if (targets->ids == NULL) {
        return error_no_memory(error, words->count * sizeof *targets->ids, "the targets");
    }
    for (size_t i = 0; i < words->count; i++) {
        const int32_t id = find_word(call->model->tokenizer, words->items[i]);
        size_t at = 0;
        if (id < 0) {
            return error_set(error, BERTH_USAGE,
                             "targets: \"%s\" is not one word of the model's vocabulary",
                             words->items[i]);
        }
        while (at < targets->count && targets->ids[at] != id) {
            at++;
        }
        targets->ids[at] = id;
        targets->count += at == targets->count;
    }
    return targets->count > 0
               ? BERTH_OK
               : error_set(error, BERTH_USAGE, "targets: expected words, found none");
}

// How many words each mask of a text has; 0: the text has failed.
static size_t words_of(struct fill_call *call, size_t index) {
    struct task_text *text = call->inputs.texts[index];
    struct targets *targets = &call->targets[index];
    const size_t words = tokenizer_size(call->model->tokenizer), top = top_of(text);
    struct task_list list = {.items = NULL};
    struct berth_error error = {.status = BERTH_OK};
    if (text->settings.targets != NULL &&
        task_list_read("targets", text->settings.targets, &list, &error) == BERTH_OK) {
        (void)list_targets(call, &list, targets, &error);
    }
    task_list_done(&list);
    if (error.status == BERTH_OK) {
        (void)error_outside(&error, "top_k", 1, (int64_t)words, (int64_t)top);
    }
    if (error.status != BERTH_OK) {
        task_text_fail(text, error.status, error.message);
        return 0;
    }
    return targets->ids != NULL && targets->count < top ? targets->count : top;
}

// Lists the masks of a text; returns their number.
static size_t find_in_text(struct fill_call *call, size_t text) {
    const int32_t mask = tokenizer_special_ids(call->model->tokenizer).mask;
    const struct pair_feature *feature = &call->inputs.features.features[text];
    uint16_t *positions = call->positions + call->firsts[text];
    size_t count = 0;
    for (int32_t row = 0; row < feature->length; row++) {
        if (call->inputs.features.ids[feature->first + (size_t)row] == mask) {
            positions[count++] = (uint16_t)row;
        }
    }
    return count;
}

static enum berth_status find_masks(struct fill_call *call, struct berth_error *error) {
    const struct pair_feature_set *set = &call->inputs.features;
    call->positions = memory_array(set->token_count, sizeof *call->positions);
    call->labels = memory_array_zeroed(set->token_count, sizeof *call->labels);
    call->firsts = memory_array_zeroed(set->count + 1, sizeof *call->firsts);
    call->masked = memory_array(set->count, sizeof *call->masked);
    call->targets = memory_array_zeroed(set->count, sizeof *call->targets);
    if (call->positions == NULL || call->labels == NULL || call->firsts == NULL ||
        call->masked == NULL || call->targets == NULL) {
        return error_no_memory(error, set->token_count * sizeof *call->labels, "the masks");
    }
    for (size_t i = 0; i < set->count; i++) {
        struct task_text *text = call->inputs.texts[i];
        const size_t top = words_of(call, i), own = top > 0 ? find_in_text(call, i) : 0;
        call->firsts[i + 1] = call->firsts[i] + own;
        if (own > 0) {
            call->masked[call->masked_count++] = i;
            call->top = top > call->top ? top : call->top;
        } else if (text->status == BERTH_OK) {
            refuse(call, text);
        }
    }
    const size_t pairs = call->firsts[set->count] * call->top;
    call->found = memory_array(pairs, 2 * sizeof *call->found);
    return call->found != NULL ? BERTH_OK
                               : error_no_memory(error, pairs * 2 * sizeof *call->found, "words");
}

static struct packer_sequence get(const void *data, size_t index) {
    const struct fill_call *call = data;
    const size_t text = call->masked[index];
    struct packer_sequence sequence = pair_features_sequence(&call->inputs.features, text);
    sequence.masked_positions = call->positions + call->firsts[text];
    sequence.masked_labels = call->labels;
    sequence.masked_count = (int32_t)(call->firsts[text + 1] - call->firsts[text]);
    return sequence;
}

// --- words --------------------------------------------------------------------------------------

// Inserts the token into best[*count], pairs of logit and token in descending order, of which at
// most `max` are extracted.
static void insert(float *best, size_t *count, size_t max, float logit, int64_t token) {
    size_t at = *count;
    if (at == max && !(logit > best[2 * (at - 1)])) {
        return;
    }
    at = at < max ? at : at - 1;
    *count = at + 1;
    for (; at > 0 && logit > best[2 * (at - 1)]; at--) {
        best[2 * at] = best[2 * (at - 1)];
        best[2 * at + 1] = best[2 * (at - 1) + 1];
    }
    best[2 * at] = logit;
    best[2 * at + 1] = (float)token; // exact: a vocabulary has fewer than 2^24 words
}

// The softmax over all words, of which only the best are kept, or the best of the targets.
static void extract_words(void *context, size_t index, const float *logits, int64_t words,
                          float *extracted) {
    const struct fill_call *call = context;
    const struct targets *targets = &call->targets[call->masked[index]];
    const size_t choices = targets->ids != NULL ? targets->count : (size_t)words;
    size_t count = 0;
    float max = logits[0];
    double sum = 0;
    for (size_t i = 0; i < choices; i++) {
        const int64_t word = targets->ids != NULL ? targets->ids[i] : (int64_t)i;
        insert(extracted, &count, call->top, logits[word], word);
    }
    for (int64_t i = 1; i < words; i++) {
        max = logits[i] > max ? logits[i] : max;
    }
    for (int64_t i = 0; i < words; i++) {
        sum += math_exp((double)logits[i] - (double)max);
    }
    for (size_t i = 0; i < count; i++) {
        extracted[2 * i] = (float)(math_exp((double)extracted[2 * i] - (double)max) / sum);
    }
    memset(extracted + 2 * count, 0, (call->top - count) * 2 * sizeof *extracted);
}

static void receive(void *context, size_t index, const float *found, int64_t count) {
    struct fill_call *call = context;
    const size_t text = call->masked[index];
    (void)text_check_finite(call->inputs.texts[text], found, (size_t)count);
    memcpy(call->found + call->firsts[text] * 2 * call->top, found, (size_t)count * sizeof *found);
}

// --- results ------------------------------------------------------------------------------------

// The text with a word, which the item refers to beside the word.
static const char *make_sequence(const struct fill_call *call, size_t index, size_t mask,
                                 int32_t word) {
    const struct pair_feature *feature = &call->inputs.features.features[index];
    int32_t *ids = call->inputs.features.ids + feature->first, *id = ids + call->positions[mask];
    const int32_t before = *id;
    *id = word;
    char *sequence = decode_text(call->model->tokenizer, ids, (size_t)feature->length,
                                 call->firsts[index + 1] - call->firsts[index] == 1);
    *id = before;
    return task_text_own(call->inputs.texts[index], sequence);
}

// A token as a text; NULL: a padded vocabulary has rows without one. A piece of BERT's is shown
// with its mark.
static const char *show_token(const struct fill_call *call, struct task_text *text, int32_t id) {
    const struct tokenizer *tokenizer = call->model->tokenizer;
    return tokenizer_pipeline(tokenizer) != NULL && tokenizer_piece(tokenizer, id) != NULL
               ? task_text_own(text, decode_text(tokenizer, &id, 1, 0))
               : tokenizer_piece(tokenizer, id);
}

static void make_items(const struct fill_call *call, size_t index) {
    struct task_text *text = call->inputs.texts[index];
    const struct targets *targets = &call->targets[index];
    const size_t wanted = top_of(text), first = call->firsts[index];
    const size_t top = targets->ids != NULL && targets->count < wanted ? targets->count : wanted;
    const size_t count = (call->firsts[index + 1] - first) * top;
    struct berth_item *items = task_text_items(text, count);
    for (size_t i = 0; items != NULL && i < count; i++) {
        const size_t mask = first + i / top;
        const float *found = call->found + 2 * (mask * call->top + i % top);
        const int32_t word = (int32_t)found[1];
        const char *shown = show_token(call, text, word);
        items[i].text = shown != NULL ? shown : "";
        items[i].score = (double)found[0];
        items[i].id = word;
        items[i].group = (int64_t)(i / top);
        items[i].reserved[0] = make_sequence(call, index, mask, word);
    }
}

static enum berth_status fill(struct fill_call *call, struct task_text *const *texts, size_t count,
                              struct berth_error *error) {
    TRY(text_inputs_make(&call->inputs, call->model, NULL, texts, count, error));
    TRY(find_masks(call, error));
    const struct packer_source source = {.get = get, .data = call, .count = call->masked_count};
    const struct infer_args args = {.source = &source,
                                    .extract_words = extract_words,
                                    .extracted_count = (int64_t)(2 * call->top),
                                    .receive = receive,
                                    .context = call};
    TRY(network_run(call->model, args, error));
    for (size_t i = 0; i < call->masked_count; i++) {
        const size_t text = call->masked[i];
        if (call->inputs.texts[text]->status == BERTH_OK) {
            make_items(call, text);
        }
    }
    return BERTH_OK;
}

static enum berth_status run_row(const struct task_model *model, struct task_text *const *texts,
                                 size_t count, struct berth_error *error) {
    struct fill_call call = {.model = model};
    const enum berth_status status = fill(&call, texts, count, error);
    for (size_t i = 0; call.targets != NULL && i < call.inputs.features.count; i++) {
        memory_free(call.targets[i].ids);
    }
    text_inputs_done(&call.inputs);
    memory_free(call.targets);
    memory_free(call.masked);
    memory_free(call.firsts);
    memory_free(call.positions);
    memory_free(call.labels);
    memory_free(call.found);
    return status;
}

// A list of words, or of such lists if the text has several masks.
static void write_words(struct json_line *line, const struct task_text *text, int is_line) {
    const struct berth_item *items = text->items, *end = items + text->item_count;
    const int has_several = text->item_count > 0 && end[-1].group > 0;
    json_line_open(line, NULL, '[');
    for (const struct berth_item *item = items; item < end; item++) {
        const int is_first = item == items || item[-1].group != item->group;
        if (has_several && is_first) {
            json_line_open(line, NULL, '[');
        }
        json_line_open(line, NULL, '{');
        if (is_line) {
            json_line_float(line, "score", (float)item->score);
        } else {
            json_line_real(line, "score", item->score);
        }
        json_line_integer(line, "token", item->id);
        json_line_text(line, "token_str", item->text);
        json_line_text(line, "sequence", item->reserved[0]);
        json_line_close(line, '}');
        if (has_several && (item + 1 == end || item[1].group != item->group)) {
            json_line_close(line, ']');
        }
    }
    json_line_close(line, ']');
}

// === training, evaluation and prediction of files ==============================================

struct mlm {
    struct text_sequences text;
    struct word_masks masks;   // of an evaluation
    struct task_masked masked; // of a prediction
};

// --- settings -----------------------------------------------------------------------------------

static enum berth_status resolve_settings(struct settings *config, enum task_use use,
                                          struct berth_error *error) {
    const struct option_row *length = option_find("max_seq_length");
    const int is_chosen = settings_row_is_chosen(config, length);
    settings_apply_defaults(config, use == TASK_TRAIN ? JOB_PRETRAIN_MLM : JOB_EVALUATE_MLM);
    if (!is_chosen) {
        settings_forget(config, length); // the default depends on the model (task_fit_length)
    }
    return task_need_file(config, use, "", error);
}

static enum berth_status has_validation(const struct settings *config, int *answer,
                                        struct berth_error *error) {
    TRY(task_has_validation(config, "text", answer, error));
    const int holds_out = config->run.do_eval && config->task.validation_file == NULL &&
                          config->features.validation_split_percentage > 0;
    *answer |= holds_out;
    return !holds_out || config->task.train_file == NULL || !path_is_fifo(config->task.train_file)
               ? BERTH_OK
               : error_set(error, BERTH_USAGE,
                           "train_file %s is a FIFO, which can be read only once, but it would be "
                           "read again for the %" PRId64 " %% of its lines that are held out; name "
                           "a file, other text with validation_file, or use "
                           "validation_split_percentage 0",
                           config->task.train_file, config->features.validation_split_percentage);
}

// --- sets ---------------------------------------------------------------------------------------

// The lines of a file that make up a set.
struct part {
    const char *path;
    int is_held_out; // the first lines, or else the rest
    int64_t percent; // 0: all lines belong to the set
};

static struct part part_of(const struct settings *config, enum task_use use) {
    const int is_held_out = use != TASK_TRAIN;
    if (is_held_out && config->task.validation_file != NULL) {
        return (struct part){.path = config->task.validation_file};
    }
    return (struct part){.path = config->task.train_file,
                         .is_held_out = is_held_out,
                         .percent = config->task.validation_file == NULL
                                        ? config->features.validation_split_percentage
                                        : 0};
}

// Lines [first, end) of the file yield no sequence.
static enum berth_status refuse_empty(const struct task_open *args, const struct part *part,
                                      size_t first, size_t end, struct berth_error *error) {
    const struct settings *config = args->config;
    if (first == end) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: validation_split_percentage %" PRId64
                         " leaves no line %s; choose another, or name text with validation_file",
                         part->path, part->percent,
                         part->is_held_out ? "to evaluate on" : "to train on");
    }
    if (config->features.line_by_line) {
        return error_set(error, BERTH_BAD_DATA, "%s: lines %zu to %zu: no words", part->path,
                         first + 1, end);
    }
    return error_set(error, BERTH_BAD_DATA,
                     "%s: lines %zu to %zu: fewer than the %" PRId64
                     " tokens of a sequence; use a smaller max_seq_length or line_by_line%s",
                     part->path, first + 1, end, args->files->length,
                     part->percent > 0 ? ", or another validation_split_percentage" : "");
}

static enum berth_status tokenize(struct mlm *own, const struct task_open *args,
                                  const struct part *part, const struct text_lines *lines,
                                  struct berth_error *error) {
    const struct settings *config = args->config;
    // Rounds as the library "datasets" does.
    const size_t held_out = (size_t)rint((double)part->percent * (double)lines->count / 100);
    const size_t first = part->is_held_out ? 0 : held_out;
    const size_t end = part->is_held_out && part->percent > 0 ? held_out : lines->count;
    const struct text_sequence_rules rules = {.by_line = config->features.line_by_line,
                                              .max_length = args->files->length,
                                              .threads = machine_threads(&config->machine)};
    const double begin = clock_now();
    TRY(text_sequences_build(lines->items + first, end - first, args->files->tokenizer, &rules,
                             &own->text, error));
    const struct text_sequences *text = &own->text;
    const size_t tokens = text->starts[text->count];
    const int is_cut = rules.by_line && text->truncated > 0;
    (is_cut ? log_note : log_detail)(
        args->log, "%s: lines %zu to %zu, %zu sequence%s, %zu token%s, %zu %s, in %.2f s",
        part->path, first + 1, end, text->count, number_plural((int64_t)text->count), tokens,
        number_plural((int64_t)tokens), rules.by_line ? text->truncated : text->dropped,
        rules.by_line ? "truncated" : "tokens left out at the ends of 1,000 lines",
        clock_now() - begin);
    return text->count > 0 ? BERTH_OK : refuse_empty(args, part, first, end, error);
}

static void note_column(const struct task_open *args, const struct part *part,
                        const struct text_lines *lines) {
    const int is_given = args->config->features.text_column != NULL;
    if (part->is_held_out && part->percent > 0) {
        return; // the file is read twice, and the training set notes it
    }
    if (is_given && lines->column == NULL) {
        log_note(args->log, "text_column has no effect: %s is not a table", part->path);
    } else if (!is_given && lines->column != NULL) {
        log_detail(args->log,
                   "%s: text_column %s, chosen by name; to choose another, set this option",
                   part->path, lines->column);
    }
}

static enum berth_status read_text(struct mlm *own, const struct task_open *args,
                                   struct task_set *set, struct berth_error *error) {
    const struct part part = part_of(args->config, args->use);
    struct text_lines lines = {0};
    set->path = part.path;
    enum berth_status status =
        text_lines_read(part.path, args->config->features.text_column, &lines, error);
    if (status == BERTH_OK) {
        note_column(args, &part, &lines);
        status = tokenize(own, args, &part, &lines, error);
    }
    text_lines_done(&lines);
    return status;
}

static enum berth_status open_set(struct task_set *set, const struct task_open *args,
                                  struct berth_error *error) {
    struct mlm *own = set->own;
    const struct settings *config = args->config;
    const int trains = args->use == TASK_TRAIN;
    struct word_mask_rules *rules = &set->masks;
    const struct tokenizer *tokenizer = args->files->tokenizer;
    const size_t words = tokenizer_size(tokenizer);
    *rules = (struct word_mask_rules){.seed = (uint64_t)args->config->run.seed,
                                      .probability = args->config->features.masked_lm_prob,
                                      .vocab_size = (int32_t)words,
                                      .whole_words = (int)args->config->features.whole_word_mask,
                                      .special = tokenizer_special_ids(tokenizer)};
    if (rules->special.mask < 0) {
        return error_set(error, BERTH_BAD_DATA, "%s: missing token [MASK]; use a BERT vocabulary",
                         args->files->vocab_path);
    }
    TRY(read_text(own, args, set, error));
    const int64_t max_count =
        trains ? config->features.max_train_samples : config->features.max_eval_samples;
    own->text.count =
        max_count > 0 && (size_t)max_count < own->text.count ? (size_t)max_count : own->text.count;
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
    return word_masks_draw(&own->masks, &all, machine_threads(&config->machine), error);
}

static void close_set(void *own) {
    struct mlm *mlm = own;
    text_sequences_done(&mlm->text);
    word_masks_done(&mlm->masks);
}

// --- predictions --------------------------------------------------------------------------------

// The head has no logits of sequences.
static void receive_nothing(void *set, size_t index, const float *logits, int64_t count) {
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
    task_score_add(score, "perplexity", math_exp(score->loss));
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

static enum berth_status write_example(struct json_line *line, const struct berth_text *example,
                                       size_t index, int is_trained, struct berth_error *error) {
    return task_write_example(line, &(struct berth_text){.text = example->text}, index, is_trained,
                              error);
}

static const struct task_form form = {
    .ending = "jsonl", .columns = "text_column=text", .write = write_example};

static const struct task_command commands[] = {
    {.verb = "pretrain",
     .objective = "mlm",
     .use = TASK_TRAIN,
     .jobs = JOB_PRETRAIN_MLM,
     .summary = "with --objective mlm: train a model on masked words of text",
     .usage = "--objective mlm --train FILE [--dev FILE] (--model DIR | --config_file FILE "
              "--vocab_file FILE) --output DIR [options]",
     .example = "berth pretrain --objective mlm --model bert-base-uncased --train notes.txt \\\n"
                "    --output notes-bert\n"
                "berth pretrain --objective mlm ... --line_by_line --whole_word_mask\n"
                "berth pretrain --objective mlm ... --resume_from_checkpoint auto\n"
                "berth fill --model notes-bert --text 'It was [MASK] today.'",
     .notes =
         "Text is a file of lines, or the column \"text\" of a table (CSV, "
         "TSV, JSON lines). Masks are drawn for each epoch. The result is a "
         "BertForMaskedLM. Evaluation gives perplexity and accuracy; without a file to evaluate "
         "on, the first lines of the training file are held out. Signals and "
         "--resume_from_checkpoint work as in `berth finetune squad`.",
     .required = "train_file output_dir"},
    {.verb = "evaluate",
     .name = "pretrain",
     .objective = "mlm",
     .use = TASK_VALIDATE,
     .jobs = JOB_EVALUATE_MLM,
     .summary = "with --objective mlm: score a model on masked words of text",
     .usage = "--objective mlm --model DIR --dev FILE --output DIR [options]",
     .example = "berth evaluate pretrain --objective mlm --model notes-bert --dev new.txt \\\n"
                "    --output scores",
     .notes = "Prints perplexity, accuracy and loss, and writes them to eval_results.txt. The "
              "masks follow from --seed; as in training, they are the same in every evaluation.",
     .required = "model_name_or_path output_dir"},
    {.verb = "finetune",
     .name = "fill",
     .use = TASK_TRAIN,
     .jobs = JOB_PRETRAIN_MLM,
     .summary = "train a model on masked words of text",
     .usage = "--train FILE [--dev FILE] (--model DIR | --config_file FILE --vocab_file FILE) "
              "--output DIR [options]",
     .example = "berth finetune fill --model bert-base-uncased --train notes.txt --output "
                "notes-bert\n"
                "berth fill --model notes-bert --text 'It was [MASK] today.'",
     .notes = "The same as `berth pretrain --objective mlm`.",
     .required = "train_file output_dir"},
    {.verb = NULL}};

static const struct training_task training = {
    .name = "mlm",
    .commands = commands,
    .form = &form,
    .title = "pretrain --objective mlm",
    .jobs = JOB_PRETRAIN_MLM,
    .defaults = JOB_PRETRAIN_MLM,
    .head = PARAM_HEAD_MASKED,
    .has_loss = 1,
    .validation_advice = "name text with validation_file, or hold out lines of "
                         "train_file with validation_split_percentage",
    .settle = resolve_settings,
    .has_validation = has_validation,
    .own_size = sizeof(struct mlm),
    .open = open_set,
    .done = close_set,
    .receive = receive_nothing,
    .receive_masked = receive_masked,
    .score = score_set,
    .write = write_results};

// === the row =====================================================================================

static void write_row(struct json_line *line, const struct task_model *model,
                      const struct task_text *text) {
    (void)model;
    write_words(line, text, 0);
}

static void write_line(struct json_line *line, const struct task_text *text) {
    write_words(line, text, 1);
}

// Pre-training's checkpoints have the same head.
const struct task_row row_fill = {
    .training = &training,
    .about = {.name = "fill",
              .pipeline = "fill-mask",
              .text = "text",
              .has_items = 1,
              .trains = 1,
              .help = "the most likely words for each [MASK] of a text"},
    .architectures = {"ForMaskedLM", "ForPreTraining"},
    .tasks = {"fill embed_sparse " TASKS_OF_ENCODER},
    .job = JOB_FILL,
    .settings = "top targets overflow",
    .open = fill_open,
    .run = run_row,
    .check = check_row,
    .write = write_row,
    .outputs = {{"words", TASK_JSON}},
    .verb = {.jobs = JOB_FILL,
             .top = "5",
             .top_max = 1 << 24,
             .sample = {"notes-bert", "It was [MASK] today."},
             .notes =
                 "Output is a line of JSON for each text, as from the fill-mask pipeline of "
                 "transformers: a list of {\"score\": P, \"token\": ID, \"token_str\": "
                 "\"...\", \"sequence\": \"...\"}, best first; for a text with several [MASK] a "
                 "list of such lists. Each [MASK] is filled by itself.",
             .write = write_line}};
