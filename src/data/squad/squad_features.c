// SPDX-License-Identifier: Apache-2.0
// Google's sliding windows over SQuAD documents (run_squad.py).
//
// A document is tokenized once for all its questions. The first pass makes a plan for each
// question: its tokens, the position of the answer, the number of windows. The plans give every
// window its offset in the pools; the second pass fills the windows in any order. Both passes run
// on all threads; the result does not depend on their number.
//
// The windows of a document of n tokens with room for r begin at 0, s, 2s, ... where s = min(r,
// stride), and the last one reaches the end of the document.
//
// filter_by_words is BingBertSquad's test: a training window is kept if the indices of the answer's
// first and last WORD lie between the indices of the window's first and last TOKEN in the document.
// The labels are the rows that the answer's tokens would have, whatever those rows contain; rows
// before 0 become 0, and rows past the end of the window are no labels. (In the original some of
// these rows are padding, which Berth does not have.)
//
// squad_keras.c has Keras's rules.
#include "data/squad/squad_features.h"

#include "core/memory.h"
#include "core/utf8.h"
#include "data/squad/squad_build.h"
#include "data/squad/squad_windows.h"
#include "data/squad/white_space.h"

#include <string.h>

#define SKIPPED_SHOWN 5
#define LENGTH_MAX (1 << 24) // maximum of any length option: keeps every sum within int64

struct builder {
    const struct squad_build *args;
    struct squad_document *documents;
    size_t document_count;
    struct squad_plan *plans;
    struct squad_failure failure; // of a document or an example
};

static enum berth_status check_options(const struct squad_feature_options *options,
                                       const struct tokenizer *tokenizer,
                                       struct berth_error *error) {
    TRY(error_outside(error, "max_seq_length", 4, LENGTH_MAX, options->max_length));
    TRY(error_outside(error, "doc_stride", 1, LENGTH_MAX, options->doc_stride));
    TRY(error_outside(error, "doc_overlap", 0, LENGTH_MAX, options->doc_overlap));
    TRY(error_outside(error, "max_query_length", 1, LENGTH_MAX, options->max_query_length));
    if (options->filter_by_words && options->rules == SQUAD_RULES_KERAS) {
        return error_set(error, BERTH_CONFIG,
                         "features keras has no windows that window_filter words could drop; leave "
                         "out one of them");
    }
    struct tokenizer_special special = tokenizer_special_ids(tokenizer);
    if (special.cls < 0 || special.sep < 0) {
        return error_set(error, BERTH_BAD_DATA,
                         "the vocabulary has no %s; SQuAD features need [CLS] and [SEP]",
                         special.cls < 0 ? "[CLS]" : "[SEP]");
    }
    if (options->rules == SQUAD_RULES_KERAS && tokenizer_pipeline(tokenizer) != NULL) {
        return error_set(error, BERTH_CONFIG,
                         "features keras needs BERT's tokenizer, and the model has another one; "
                         "use features google");
    }
    return BERTH_OK;
}

// --- documents ----------------------------------------------------------------------------------

// Splits a text into words, maximal runs without white space. With NULL arrays it only counts them.
static size_t split_words(const char *text, size_t length, uint32_t *begin, uint32_t *end) {
    size_t count = 0, at = 0;
    while (at < length) {
        size_t white = white_space_bytes(text + at, length - at);
        if (white > 0) {
            at += white;
            continue;
        }
        size_t first = at;
        while (at < length && white_space_bytes(text + at, length - at) == 0) {
            at++;
        }
        if (begin != NULL) {
            begin[count] = (uint32_t)first;
            end[count] = (uint32_t)at;
        }
        count++;
    }
    return count;
}

// Makes one document for each run of examples that share a context.
static enum berth_status list_documents(struct builder *builder, struct berth_error *error) {
    const struct squad_dataset *dataset = builder->args->dataset;
    size_t words = 0;
    for (size_t i = 0; i < dataset->count; i++) {
        const struct squad_example *example = &dataset->examples[i];
        if (i == 0 || example->context != dataset->examples[i - 1].context) {
            if (example->context_length > UINT32_MAX / 2) {
                char name[SQUAD_QUESTION_SIZE];
                return error_set(error, BERTH_BAD_DATA,
                                 "%s: the context has %zu bytes; at most %u fit",
                                 squad_name_question(builder->args, example, name),
                                 example->context_length, UINT32_MAX / 2);
            }
            struct squad_document *document = &builder->documents[builder->document_count++];
            document->context = example->context;
            document->context_length = example->context_length;
            document->first_word = words;
            document->word_count =
                split_words(example->context, example->context_length, NULL, NULL);
            words += document->word_count;
        }
        builder->plans[i].document = &builder->documents[builder->document_count - 1];
        builder->args->set->example_words[i] = builder->plans[i].document->first_word;
    }
    builder->args->set->word_begin = memory_array(words + 1, sizeof(uint32_t));
    builder->args->set->word_end = memory_array(words + 1, sizeof(uint32_t));
    if (builder->args->set->word_begin == NULL || builder->args->set->word_end == NULL) {
        return error_no_memory(error, words * 2 * sizeof(uint32_t), "the words of the documents");
    }
    return BERTH_OK;
}

// Google tokenizes word by word. Tokenizing the whole text gives the same pieces, because white
// space that splits words here also separates words in the tokenizer.
static enum berth_status tokenize_document(void *context, size_t index, struct token_list *list,
                                           struct berth_error *error) {
    const struct builder *builder = context;
    struct squad_document *document = &builder->documents[index];
    uint32_t *begin = builder->args->set->word_begin + document->first_word;
    split_words(document->context, document->context_length, begin,
                builder->args->set->word_end + document->first_word);
    list->count = 0;
    TRY(tokenizer_encode(builder->args->tokenizer, document->context, document->context_length,
                         list, error));
    token_list_trim(list, document->context);
    document->ids = memory_array(list->count + 1, sizeof(int32_t));
    document->words = memory_array(list->count + 1, sizeof(int32_t));
    document->begins = memory_array(list->count + 1, sizeof(uint32_t));
    if (document->ids == NULL || document->words == NULL || document->begins == NULL) {
        return error_no_memory(error, list->count * 3 * sizeof(int32_t),
                               "the tokens of a document");
    }
    document->token_count = (int64_t)list->count;
    size_t word = 0;
    for (size_t i = 0; i < list->count; i++) {
        while (word + 1 < document->word_count && begin[word + 1] <= list->items[i].byte_begin) {
            word++;
        }
        document->ids[i] = list->items[i].id;
        document->words[i] = (int32_t)word;
        document->begins[i] = list->items[i].byte_begin;
    }
    return BERTH_OK;
}

// --- the answer's position -----------------------------------------------------------------------

// The word that contains the byte of the context; white space belongs to the word before it. -1:
// there is no such word.
static int64_t word_at(const struct builder *builder, const struct squad_document *document,
                       size_t byte) {
    const uint32_t *begin = builder->args->set->word_begin + document->first_word;
    size_t low = 0, high = document->word_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (begin[middle] <= byte) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (int64_t)low - 1;
}

// The first token of `word` or of a later one.
static int64_t token_of_word(const struct squad_document *document, int64_t word) {
    int64_t low = 0, high = document->token_count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (document->words[middle] < word) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// Google's test: whether the words, joined by single blanks, contain the answer with its white
// space squeezed.
static enum berth_status words_contain(const struct builder *builder, const struct squad_plan *plan,
                                       const char *answer, int *contains,
                                       struct berth_error *error) {
    const struct squad_document *document = plan->document;
    const uint32_t *begin = builder->args->set->word_begin + document->first_word;
    const uint32_t *end = builder->args->set->word_end + document->first_word;
    const size_t first_byte = begin[plan->first_word], bytes = end[plan->last_word] - first_byte;
    size_t length = strlen(answer);
    char *clean = memory_string(answer);
    char *joined = memory_new(bytes + 1);
    if (clean == NULL || joined == NULL) {
        memory_free(clean);
        memory_free(joined);
        return error_no_memory(error, length + bytes, "an answer");
    }
    length = white_space_squeeze(clean, length);
    const size_t joined_length = white_space_join(document->context + first_byte, bytes, joined);
    *contains = memmem(joined, joined_length, clean, length) != NULL;
    memory_free(clean);
    memory_free(joined);
    return BERTH_OK;
}

static int answer_begins_at(const struct squad_document *document, int64_t token,
                            const struct token_list *answer) {
    for (size_t i = 0; i < answer->count; i++) {
        if (document->ids[(size_t)token + i] != answer->items[i].id) {
            return 0;
        }
    }
    return 1;
}

// Narrows [start, end] to the tokens of the answer itself: "(1895-1943)" to "1895". If they occur
// several times, prefers the occurrence at `byte` of the context, then the first, as Google does.
static void narrow_span(struct squad_plan *plan, const struct token_list *answer, size_t byte) {
    const int64_t count = (int64_t)answer->count;
    int64_t found = -1;
    for (int64_t start = plan->start; count > 0 && start + count - 1 <= plan->end; start++) {
        const int is_at_byte = plan->document->begins[start] == byte;
        if ((is_at_byte || found < 0) && answer_begins_at(plan->document, start, answer)) {
            found = start;
        }
    }
    if (found >= 0) {
        plan->start = found;
        plan->end = found + count - 1;
    }
}

// Sets plan->start and ->end, or plan->skipped.
static enum berth_status locate_answer(const struct builder *builder,
                                       const struct squad_example *example, struct squad_plan *plan,
                                       struct token_list *list, struct berth_error *error) {
    if (example->answer_count != 1) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: question \"%.*s\" has %zu answers; training needs exactly one "
                         "unless is_impossible is true; keep one (development files have several)",
                         builder->args->name, UTF8_SHOWN(example->id, 60), example->answer_count);
    }
    if (*example->answers->text == '\0') {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: question \"%.*s\" has an empty answer; training needs its text, or "
                         "is_impossible true",
                         builder->args->name, UTF8_SHOWN(example->id, 60));
    }
    const struct squad_answer *answer = example->answers;
    const struct squad_document *document = plan->document;
    size_t text_length = strlen(answer->text), length = document->context_length;
    size_t first_byte =
        answer->start < 0 ? SIZE_MAX : utf8_skip(document->context, length, answer->start);
    int contains = 0;
    plan->first_word = plan->last_word = -1;
    if (first_byte < length) {
        size_t rest = utf8_skip(document->context + first_byte, length - first_byte,
                                utf8_count(answer->text, text_length) - 1);
        plan->first_word = word_at(builder, document, first_byte);
        plan->last_word =
            word_at(builder, document, rest < length - first_byte ? first_byte + rest : length);
    }
    if (plan->first_word >= 0) {
        TRY(words_contain(builder, plan, answer->text, &contains, error));
    }
    if (!contains) {
        plan->skipped = 1;
        return BERTH_OK;
    }
    plan->start = token_of_word(document, plan->first_word);
    plan->end = token_of_word(document, plan->last_word + 1) - 1;
    list->count = 0;
    TRY(tokenizer_encode(builder->args->tokenizer, answer->text, text_length, list, error));
    const int google = tokenizer_rules_of(builder->args->tokenizer)->rules == TOKENIZER_GOOGLE;
    narrow_span(plan, list, google ? SIZE_MAX : first_byte);
    return BERTH_OK;
}

// --- windows ------------------------------------------------------------------------------------

static enum berth_status tokenize_query(const struct builder *builder,
                                        const struct squad_example *example,
                                        struct squad_plan *plan, struct token_list *list,
                                        struct berth_error *error) {
    list->count = 0;
    TRY(tokenizer_encode(builder->args->tokenizer, example->question, strlen(example->question),
                         list, error));
    size_t longest = (size_t)builder->args->options->max_query_length;
    size_t count = list->count < longest ? list->count : longest;
    plan->cut = list->count > longest;
    plan->query = memory_array(count + 1, sizeof(int32_t));
    if (plan->query == NULL) {
        return error_no_memory(error, count * sizeof(int32_t), "the tokens of a question");
    }
    for (size_t i = 0; i < count; i++) {
        plan->query[i] = list->items[i].id;
    }
    plan->query_length = (int64_t)count;
    plan->specials = 2 + tokenizer_special_ids(builder->args->tokenizer).separators;
    plan->room = builder->args->options->max_length - plan->query_length - plan->specials;
    if (plan->room < 1) {
        char name[SQUAD_QUESTION_SIZE];
        return error_set(
            error, BERTH_USAGE,
            "%s: its %zu tokens and %d special ones leave no room for the "
            "document in max_seq_length %lld; raise it or lower max_query_length (%lld)",
            squad_name_question(builder->args, example, name), count, plan->specials,
            (long long)builder->args->options->max_length,
            (long long)builder->args->options->max_query_length);
    }
    return BERTH_OK;
}

static enum berth_status plan_example(void *context, size_t index, struct token_list *list,
                                      struct berth_error *error) {
    const struct builder *builder = context;
    const struct squad_example *example = &builder->args->dataset->examples[index];
    struct squad_plan *plan = &builder->plans[index];
    plan->start = plan->end = -1;
    plan->by_words = builder->args->options->filter_by_words && builder->args->options->training &&
                     !example->impossible;
    if (builder->args->options->training && !example->impossible) {
        TRY(locate_answer(builder, example, plan, list, error));
        if (plan->skipped) {
            return BERTH_OK;
        }
    }
    TRY(tokenize_query(builder, example, plan, list, error));
    int64_t tokens = plan->document->token_count;
    // The distance between the starts of windows of `room` tokens.
    const struct squad_feature_options *options = builder->args->options;
    const int64_t room = plan->room;
    const int64_t step =
        options->doc_overlap > 0 ? room - options->doc_overlap : options->doc_stride;
    plan->step = step < 1 ? 1 : step < room ? step : room;
    if (tokens > 0) {
        int64_t beyond = tokens > plan->room ? tokens - plan->room : 0;
        plan->windows = 1 + (beyond + plan->step - 1) / plan->step;
    }
    for (int64_t w = 0; w < plan->windows; w++) {
        if (squad_window_is_kept(plan, w)) {
            plan->kept++;
            plan->kept_tokens += plan->query_length + plan->specials + squad_window_length(plan, w);
        }
    }
    return BERTH_OK;
}

static void fill_examples(const struct builder *builder, int threads) {
    struct tokenizer_special special = tokenizer_special_ids(builder->args->tokenizer);
#pragma omp parallel for schedule(dynamic, 32) num_threads(threads)
    for (size_t i = 0; i < builder->args->dataset->count; i++) {
        squad_windows_fill(builder->args->set, &builder->plans[i], (int32_t)i, special);
    }
}

// --- all features --------------------------------------------------------------------------------

// Reports the number of skipped questions, then the first few by id.
static void report_skipped(const struct builder *builder, const struct berth_log *log) {
    size_t left = builder->args->set->skipped_examples;
    if (left == 0) {
        return;
    }
    log_warning(log, "%s: skipping %zu of %zu questions; strict_answers refuses such a file",
                builder->args->name, left, builder->args->dataset->count);
    left = left < SKIPPED_SHOWN ? left : SKIPPED_SHOWN;
    for (size_t i = 0; left > 0; i++) {
        const struct squad_example *example = &builder->args->dataset->examples[i];
        if (builder->plans[i].skipped) {
            left--;
            log_warning(log,
                        "%s: skipping question \"%.*s\": its answer \"%.*s\" is not in the "
                        "words of its context at character %lld%s",
                        builder->args->name, UTF8_SHOWN(example->id, 60),
                        UTF8_SHOWN(example->answers->text, 200), (long long)example->answers->start,
                        example->answers->misplaced ? "" : " (the white space differs)");
        }
    }
}

static enum berth_status build(struct builder *builder, int threads, const struct berth_log *log,
                               struct berth_error *error) {
    TRY(list_documents(builder, error));
    const struct squad_work work = {builder, builder->document_count, tokenize_document};
    squad_work_run(&work, threads, &builder->failure);
    TRY(squad_failure_status(&builder->failure, error));
    const struct squad_work plans = {builder, builder->args->dataset->count, plan_example};
    squad_work_run(&plans, threads, &builder->failure);
    TRY(squad_failure_status(&builder->failure, error));
    // Gives every window its offset and allocates the pools.
    struct squad_feature_set *set = builder->args->set;
    uint64_t tokens = 0, features = 0;
    for (size_t i = 0; i < builder->args->dataset->count; i++) {
        struct squad_plan *plan = &builder->plans[i];
        plan->first_feature = features;
        plan->first_token = tokens;
        set->skipped_examples += (size_t)plan->skipped;
        set->cut_questions += (size_t)plan->cut;
        features += (uint64_t)plan->kept;
        tokens += (uint64_t)plan->kept_tokens;
        if (tokens > UINT32_MAX) {
            return error_set(error, BERTH_USAGE,
                             "%s: the windows of the first %zu questions have more than %u tokens; "
                             "raise doc_stride (%lld) or split the file",
                             builder->args->name, i + 1, UINT32_MAX,
                             (long long)builder->args->options->doc_stride);
        }
    }
    TRY(squad_set_reserve(set, features, tokens, error));
    fill_examples(builder, threads);
    report_skipped(builder, log);
    for (size_t i = 0; builder->args->options->training && i < builder->args->set->count; i++) {
        const struct squad_feature *feature = &builder->args->set->features[i];
        builder->args->set->cls_labelled += feature->start == 0 && feature->end == 0;
    }
    return BERTH_OK;
}

static void builder_done(struct builder *builder) {
    for (size_t i = 0; i < builder->document_count; i++) {
        memory_free(builder->documents[i].ids);
        memory_free(builder->documents[i].words);
        memory_free(builder->documents[i].begins);
    }
    for (size_t i = 0; builder->plans != NULL && i < builder->args->dataset->count; i++) {
        memory_free(builder->plans[i].query);
    }
    memory_free(builder->documents);
    memory_free(builder->plans);
}

static enum berth_status google_build(const struct squad_build *args, struct berth_error *error) {
    struct builder builder = {
        .args = args,
        .documents = memory_array_zeroed(args->dataset->count + 1, sizeof *builder.documents),
        .plans = memory_array_zeroed(args->dataset->count + 1, sizeof *builder.plans)};
    enum berth_status status =
        builder.documents != NULL && builder.plans != NULL
            ? build(&builder, args->threads, args->log, error)
            : error_no_memory(error, args->dataset->count * sizeof *builder.plans, "the features");
    builder_done(&builder);
    return status;
}

enum berth_status squad_features_build(const struct squad_dataset *dataset,
                                       const struct tokenizer *tokenizer,
                                       const struct squad_feature_options *options,
                                       const struct berth_log *log, struct squad_feature_set *set,
                                       struct berth_error *error) {
    *set = (struct squad_feature_set){0};
    TRY(check_options(options, tokenizer, error));
    set->example_words = memory_array_zeroed(dataset->count + 1, sizeof *set->example_words);
    if (set->example_words == NULL) {
        return error_no_memory(error, dataset->count * sizeof *set->example_words, "the features");
    }
    const struct squad_build args = {.dataset = dataset,
                                     .tokenizer = tokenizer,
                                     .options = options,
                                     .name = dataset->name != NULL ? dataset->name : "the data set",
                                     .threads = options->threads < 1 ? 1 : options->threads,
                                     .log = log,
                                     .set = set};
    enum berth_status status = options->rules == SQUAD_RULES_KERAS ? squad_keras_build(&args, error)
                                                                   : google_build(&args, error);
    if (status != BERTH_OK) {
        squad_feature_set_done(set);
    } else if (tokenizer_rules_of(tokenizer)->one_type) {
        memset(set->type_ids, 0, set->token_count);
    }
    return status;
}
