// SPDX-License-Identifier: Apache-2.0
// Builds features as in Keras's "text extraction with BERT", which the CSCS demos use.
//
//   [CLS] context [SEP] question [SEP]      types 0 to the first [SEP], then 1
//
// White space in context, question and answer is squeezed first; answer_start stays as in the file.
// A training entry is skipped if its answer reaches the last character of the context or beyond, if
// no token overlaps the answer, or if it is longer than max_length; a prediction entry, if it
// is too long or its context has no token. There are no windows, and nothing is truncated.
//
// A document is tokenized once for all its questions. Entries are planned and filled in any order;
// the result does not depend on the number of threads.
#include "core/memory.h"
#include "core/utf8.h"
#include "data/squad/squad_build.h"
#include "data/squad/white_space.h"

#include <string.h>

// A context, and the offsets of its tokens: byte_begin and byte_end in the context, begin and end
// in characters of its squeezed form.
struct document {
    const char *context;
    size_t length;
    int64_t characters; // of the squeezed form
    int32_t *ids;
    uint32_t *byte_begin, *byte_end, *begin, *end;
    size_t count;
    size_t first_word; // in the set's pools
};

enum fate { KEPT, MISPLACED, AT_CONTEXT_END, NO_TOKEN, TOO_LONG, FATES };

struct entry {
    const struct document *document;
    int32_t example, answer;
    enum fate fate;
    int32_t *query;
    int32_t query_length;
    int32_t start, end; // the answer's first and last token; -1: none
    uint64_t first_feature, first_token;
};

struct builder {
    const struct squad_build *args;
    struct document *documents;
    size_t document_count;
    struct entry *entries;
    size_t entry_count;
    struct squad_failure failure;
};

// --- entries ------------------------------------------------------------------------------------

static enum berth_status check_example(const struct builder *builder,
                                       const struct squad_example *example,
                                       struct berth_error *error) {
    if (example->context_length > UINT32_MAX / 2) {
        char name[SQUAD_QUESTION_SIZE];
        return error_set(error, BERTH_BAD_DATA, "%s: the context has %zu bytes; at most %u fit",
                         squad_name_question(builder->args, example, name), example->context_length,
                         UINT32_MAX / 2);
    }
    if (!builder->args->options->training) {
        return BERTH_OK;
    }
    if (example->impossible) {
        return error_set(error, BERTH_CONFIG,
                         "%s: question \"%.*s\" is impossible (SQuAD 2.0), which Keras's features "
                         "cannot express; use Google's",
                         builder->args->name, UTF8_SHOWN(example->id, 60));
    }
    if (example->answer_count == 0) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: question \"%.*s\" has no answer; training needs at least one",
                         builder->args->name, UTF8_SHOWN(example->id, 60));
    }
    return BERTH_OK;
}

static size_t count_of_entries(const struct builder *builder, const struct squad_example *example) {
    int all = builder->args->options->training && builder->args->options->all_answers;
    return all ? example->answer_count : 1;
}

// Makes one document for each run of examples that share a context.
static void list_entries(struct builder *builder) {
    for (size_t i = 0; i < builder->args->dataset->count; i++) {
        const struct squad_example *example = &builder->args->dataset->examples[i];
        if (i == 0 || example->context != builder->args->dataset->examples[i - 1].context) {
            builder->documents[builder->document_count++] =
                (struct document){.context = example->context, .length = example->context_length};
        }
        size_t count = count_of_entries(builder, example);
        for (size_t answer = 0; answer < count; answer++) {
            builder->entries[builder->entry_count++] =
                (struct entry){.document = &builder->documents[builder->document_count - 1],
                               .example = (int32_t)i,
                               .answer = (int32_t)answer,
                               .start = -1,
                               .end = -1};
        }
    }
}

// --- documents ----------------------------------------------------------------------------------

static enum berth_status reserve_tokens(struct document *document, size_t count,
                                        struct berth_error *error) {
    uint32_t *offsets = memory_array(count + 1, 4 * sizeof *offsets);
    document->ids = memory_array(count + 1, sizeof *document->ids);
    document->byte_begin = offsets;
    if (offsets == NULL || document->ids == NULL) {
        return error_no_memory(error, count * 5 * sizeof *offsets, "the tokens of a document");
    }
    document->byte_end = offsets + count;
    document->begin = offsets + 2 * count;
    document->end = offsets + 3 * count;
    document->count = count;
    return BERTH_OK;
}

static enum berth_status tokenize_document(void *context, size_t index, struct token_list *list,
                                           struct berth_error *error) {
    const struct builder *builder = context;
    struct document *document = &builder->documents[index];
    char *text = memory_new(document->length + 1);
    uint32_t *origin = memory_array(document->length + 1, sizeof *origin);
    enum berth_status status;
    if (text == NULL || origin == NULL) {
        status = error_no_memory(error, document->length * 5, "a document");
        goto done;
    }
    size_t length = white_space_squeeze_to(document->context, document->length, text, origin);
    document->characters = utf8_count(text, length);
    list->count = 0;
    TRY_DONE(tokenizer_encode(builder->args->tokenizer, text, length, list, error));
    TRY_DONE(reserve_tokens(document, list->count, error));
    for (size_t i = 0; i < list->count; i++) {
        const struct token *token = &list->items[i];
        document->ids[i] = token->id;
        document->begin[i] = token->begin;
        document->end[i] = token->end;
        document->byte_begin[i] = origin[token->byte_begin];
        document->byte_end[i] = origin[token->byte_end - 1] + 1;
    }
done:
    memory_free(text);
    memory_free(origin);
    return status;
}

// By Keras's rules every token is a word of the set.
static enum berth_status list_words(struct builder *builder, struct berth_error *error) {
    struct squad_feature_set *set = builder->args->set;
    size_t words = 0;
    for (size_t i = 0; i < builder->document_count; i++) {
        builder->documents[i].first_word = words;
        words += builder->documents[i].count;
    }
    set->word_begin = memory_array(words + 1, sizeof(uint32_t));
    set->word_end = memory_array(words + 1, sizeof(uint32_t));
    if (set->word_begin == NULL || set->word_end == NULL) {
        return error_no_memory(error, words * 2 * sizeof(uint32_t), "the words of the documents");
    }
    for (size_t i = 0; i < builder->document_count; i++) {
        const struct document *document = &builder->documents[i];
        size_t bytes = document->count * sizeof(uint32_t);
        memcpy(set->word_begin + document->first_word, document->byte_begin, bytes);
        memcpy(set->word_end + document->first_word, document->byte_end, bytes);
    }
    for (size_t i = 0; i < builder->entry_count; i++) {
        const struct entry *entry = &builder->entries[i];
        set->example_words[entry->example] = entry->document->first_word;
    }
    return BERTH_OK;
}

// --- plans --------------------------------------------------------------------------------------

static enum berth_status locate_answer(const struct builder *builder, struct entry *entry,
                                       struct berth_error *error) {
    const struct document *document = entry->document;
    const struct squad_answer *answer =
        &builder->args->dataset->examples[entry->example].answers[entry->answer];
    if (answer->misplaced) {
        entry->fate = MISPLACED;
        return BERTH_OK;
    }
    char *clean = memory_string(answer->text);
    if (clean == NULL) {
        return error_no_memory(error, strlen(answer->text), "an answer");
    }
    int64_t past = answer->start + utf8_count(clean, white_space_squeeze(clean, strlen(clean)));
    memory_free(clean);
    if (past >= document->characters) {
        entry->fate = AT_CONTEXT_END;
        return BERTH_OK;
    }
    for (size_t i = 0; i < document->count; i++) {
        if ((int64_t)document->begin[i] < past && (int64_t)document->end[i] > answer->start) {
            entry->start = entry->start < 0 ? (int32_t)i : entry->start;
            entry->end = (int32_t)i;
        }
    }
    // An empty answer overlaps no token.
    if (entry->start < 0 || past == answer->start) {
        entry->fate = NO_TOKEN;
    }
    return BERTH_OK;
}

static enum berth_status tokenize_query(const struct builder *builder, struct entry *entry,
                                        struct token_list *list, struct berth_error *error) {
    const char *question = builder->args->dataset->examples[entry->example].question;
    char *clean = memory_string(question);
    if (clean == NULL) {
        return error_no_memory(error, strlen(question), "a question");
    }
    list->count = 0;
    enum berth_status status = tokenizer_encode(
        builder->args->tokenizer, clean, white_space_squeeze(clean, strlen(clean)), list, error);
    memory_free(clean);
    TRY(status);
    if ((int64_t)(list->count + entry->document->count) + 3 > builder->args->options->max_length) {
        entry->fate = TOO_LONG;
        return BERTH_OK;
    }
    entry->query = memory_array(list->count + 1, sizeof *entry->query);
    if (entry->query == NULL) {
        return error_no_memory(error, list->count * sizeof *entry->query,
                               "the tokens of a question");
    }
    entry->query_length = (int32_t)list->count;
    for (size_t i = 0; i < list->count; i++) {
        entry->query[i] = list->items[i].id;
    }
    return BERTH_OK;
}

static enum berth_status plan_entry(void *context, size_t index, struct token_list *list,
                                    struct berth_error *error) {
    const struct builder *builder = context;
    struct entry *entry = &builder->entries[index];
    if (builder->args->options->training) {
        TRY(locate_answer(builder, entry, error));
    } else if (entry->document->count == 0) {
        entry->fate = NO_TOKEN;
    }
    return entry->fate == KEPT ? tokenize_query(builder, entry, list, error) : BERTH_OK;
}

static enum berth_status lay_out_entries(struct builder *builder, struct berth_error *error) {
    uint64_t tokens = 0, features = 0;
    for (size_t i = 0; i < builder->entry_count; i++) {
        struct entry *entry = &builder->entries[i];
        entry->first_feature = features;
        entry->first_token = tokens;
        if (entry->fate == KEPT) {
            features++;
            tokens += entry->document->count + (uint64_t)entry->query_length + 3;
        }
    }
    if (tokens > UINT32_MAX) {
        return error_set(error, BERTH_USAGE, "%s: the entries exceed %u tokens; split the file",
                         builder->args->name, UINT32_MAX);
    }
    return squad_set_reserve(builder->args->set, features, tokens, error);
}

// --- filling ------------------------------------------------------------------------------------

static void fill_tokens(const struct squad_feature_set *set, const struct entry *entry,
                        struct tokenizer_special special) {
    int32_t *ids = set->ids + entry->first_token, *words = set->words + entry->first_token;
    int8_t *types = set->type_ids + entry->first_token;
    uint8_t *best = set->max_context + entry->first_token;
    size_t count = entry->document->count, query = (size_t)entry->query_length;
    ids[0] = special.cls;
    memcpy(ids + 1, entry->document->ids, count * sizeof *ids);
    ids[count + 1] = special.sep;
    memcpy(ids + count + 2, entry->query, query * sizeof *ids);
    ids[count + query + 2] = special.sep;
    for (size_t i = 0; i < count + query + 3; i++) {
        int inside = i > 0 && i <= count;
        types[i] = i > count + 1;
        words[i] = inside ? (int32_t)i - 1 : -1;
        best[i] = (uint8_t)inside;
    }
}

static void fill_entries(const struct builder *builder, int threads) {
    struct tokenizer_special special = tokenizer_special_ids(builder->args->tokenizer);
#pragma omp parallel for schedule(dynamic, 32) num_threads(threads)
    for (size_t i = 0; i < builder->entry_count; i++) {
        const struct entry *entry = &builder->entries[i];
        if (entry->fate != KEPT) {
            continue;
        }
        struct squad_feature *feature = &builder->args->set->features[entry->first_feature];
        int32_t count = (int32_t)entry->document->count;
        *feature = (struct squad_feature){
            .unique_id = SQUAD_FIRST_UNIQUE_ID + (int64_t)entry->first_feature,
            .example = entry->example,
            .first = (uint32_t)entry->first_token,
            .length = count + entry->query_length + 3,
            .document_begin = 1,
            .document_length = count,
            .start = entry->start + 1,
            .end = entry->start < 0 ? 0 : entry->end + 1 + builder->args->set->end_shift,
            .answer = entry->answer};
        fill_tokens(builder->args->set, entry, special);
    }
}

// --- all features --------------------------------------------------------------------------------

static void report_skipped(const struct builder *builder, const struct berth_log *log) {
    size_t counts[FATES] = {0};
    for (size_t i = 0; i < builder->entry_count; i++) {
        counts[builder->entries[i].fate]++;
    }
    builder->args->set->skipped_examples = builder->entry_count - counts[KEPT];
    if (builder->args->set->skipped_examples == 0) {
        return;
    }
    if (!builder->args->options->training) {
        log_warning(log,
                    "%s: %zu questions get no answer: with their contexts they are longer than "
                    "max_seq_length %lld, or the context has no words",
                    builder->args->name, builder->args->set->skipped_examples,
                    (long long)builder->args->options->max_length);
        return;
    }
    if (counts[MISPLACED] > 0) {
        log_warning(log,
                    "%s: skipping %zu of %zu entries: their contexts do not have the answer at "
                    "answer_start; strict_answers refuses such a file",
                    builder->args->name, counts[MISPLACED], builder->entry_count);
    }
    const int is_cut = builder->args->set->skipped_examples > 0;
    (is_cut ? log_note : log_detail)(
        log,
        "%s: skipping %zu of %zu entries: %zu with the answer at the end of the context, %zu "
        "without a token of the answer, %zu longer than max_seq_length %lld",
        builder->args->name, builder->args->set->skipped_examples, builder->entry_count,
        counts[AT_CONTEXT_END], counts[NO_TOKEN], counts[TOO_LONG],
        (long long)builder->args->options->max_length);
}

static enum berth_status build(struct builder *builder, int threads, const struct berth_log *log,
                               struct berth_error *error) {
    size_t count = 0;
    for (size_t i = 0; i < builder->args->dataset->count; i++) {
        TRY(check_example(builder, &builder->args->dataset->examples[i], error));
        count += count_of_entries(builder, &builder->args->dataset->examples[i]);
    }
    builder->entries = memory_array_zeroed(count + 1, sizeof *builder->entries);
    if (builder->entries == NULL) {
        return error_no_memory(error, count * sizeof *builder->entries, "the features");
    }
    list_entries(builder);
    const struct squad_work work = {builder, builder->document_count, tokenize_document};
    squad_work_run(&work, threads, &builder->failure);
    TRY(squad_failure_status(&builder->failure, error));
    TRY(list_words(builder, error));
    const struct squad_work plans = {builder, builder->entry_count, plan_entry};
    squad_work_run(&plans, threads, &builder->failure);
    TRY(squad_failure_status(&builder->failure, error));
    TRY(lay_out_entries(builder, error));
    fill_entries(builder, threads);
    report_skipped(builder, log);
    return BERTH_OK;
}

static void builder_done(struct builder *builder) {
    for (size_t i = 0; i < builder->document_count; i++) {
        memory_free(builder->documents[i].ids);
        memory_free(builder->documents[i].byte_begin);
    }
    for (size_t i = 0; i < builder->entry_count; i++) {
        memory_free(builder->entries[i].query);
    }
    memory_free(builder->documents);
    memory_free(builder->entries);
}

enum berth_status squad_keras_build(const struct squad_build *args, struct berth_error *error) {
    struct builder builder = {
        .args = args,
        .documents = memory_array_zeroed(args->dataset->count + 1, sizeof *builder.documents)};
    args->set->rules = SQUAD_RULES_KERAS;
    args->set->end_shift = args->options->end_exclusive != 0;
    enum berth_status status =
        builder.documents != NULL
            ? build(&builder, args->threads, args->log, error)
            : error_no_memory(error, args->dataset->count * sizeof *builder.documents,
                              "the features");
    builder_done(&builder);
    return status;
}
