// SPDX-License-Identifier: Apache-2.0
// Reads BEIR's three files into numbers: texts by their ids, then which text is relevant to which
// query; a set for task/embed_retrieval.c. Leaves out vectors, search and scores. Called when a
// training of embeddings or `berth evaluate embed` opens its set.
#include "data/pairs/retrieval_set.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/string_index.h"
#include "core/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 60 // bytes of a quotation in a message
#define RELEVANT_FILE_LIMIT ((size_t)4 << 30)
#define RELEVANCE_LIMIT 9007199254740992.0 // whole numbers up to it are doubles
#define BLANKS " \t"
#define NO_COLUMN SIZE_MAX

// A judgement as it was read.
struct judged {
    uint32_t query, document;
    int64_t relevance;
    size_t row; // of the table
};

struct judged_list {
    struct judged *items; // [count]
    size_t count;
};

// --- judgements of all queries ------------------------------------------------------------------

static int by_query_and_document(const void *a, const void *b) {
    const struct judged *x = a, *y = b;
    return x->query != y->query         ? (x->query > y->query) - (x->query < y->query)
           : x->document != y->document ? (x->document > y->document) - (x->document < y->document)
                                        : (x->row > y->row) - (x->row < y->row);
}

static int is_same(const struct judged *a, const struct judged *b) {
    return a->query == b->query && a->document == b->document;
}

// Fills starts, judgements and relevant_count from a sorted list, in which a judgement that equals
// the one before it counts once.
static enum berth_status group(const struct judged_list *list, struct retrieval_set *set,
                               struct berth_error *error) {
    size_t count = 0, query = 0;
    set->starts = memory_array(set->query_count + 1, sizeof *set->starts);
    set->judgements = memory_array(list->count, sizeof *set->judgements);
    if (set->starts == NULL || set->judgements == NULL) {
        return error_no_memory(error, list->count * sizeof *set->judgements, "the judgements");
    }
    for (size_t i = 0; i < list->count; i++) {
        const struct judged *item = &list->items[i];
        if (i > 0 && is_same(item, item - 1)) {
            continue;
        }
        while (query <= item->query) {
            set->starts[query++] = count;
        }
        set->relevant_count += item->relevance > 0;
        set->judgements[count++] = (struct retrieval_judgement){item->document, item->relevance};
    }
    while (query <= set->query_count) {
        set->starts[query++] = count;
    }
    return BERTH_OK;
}

// --- pairs --------------------------------------------------------------------------------------

// Numbers the distinct texts of one side; STRING_INDEX_NONE in the list: out of memory.
static uint32_t number_of(struct string_index *index, const char *text) {
    return string_index_put(index, text, strlen(text));
}

static int number_pairs(const struct text_examples *pairs, struct judged_list *list,
                        struct string_index *queries, struct string_index *documents,
                        struct retrieval_set *set) {
    for (; list->count < pairs->count; list->count++) {
        const char *const *texts = pairs->items[list->count].texts;
        struct judged *item = &list->items[list->count];
        *item = (struct judged){.query = number_of(queries, texts[0]),
                                .document = number_of(documents, texts[1]),
                                .relevance = 1,
                                .row = list->count};
        if (item->query == STRING_INDEX_NONE || item->document == STRING_INDEX_NONE) {
            return 0;
        }
    }
    set->query_count = queries->count;
    set->document_count = documents->count;
    return 1;
}

enum berth_status retrieval_set_of_pairs(const struct text_examples *pairs,
                                         struct retrieval_set *set, struct berth_error *error) {
    *set = (struct retrieval_set){0};
    struct string_index queries DONE_BY(string_index_done) = {0};
    struct string_index documents DONE_BY(string_index_done) = {0};
    OWNED struct judged *items = memory_array(pairs->count, sizeof *items);
    struct judged_list list = {items, 0};
    set->texts = memory_array(2 * pairs->count, sizeof *set->texts);
    if (items == NULL || set->texts == NULL ||
        !number_pairs(pairs, &list, &queries, &documents, set)) {
        return error_no_memory(error, pairs->count * sizeof *items, "the pairs' texts");
    }
    for (size_t i = 0; i < list.count; i++) {
        set->texts[items[i].query] = pairs->items[i].texts[0];
        set->texts[set->query_count + items[i].document] = pairs->items[i].texts[1];
    }
    qsort(items, list.count, sizeof *items, by_query_and_document);
    return group(&list, set, error);
}

// --- queries and documents of files --------------------------------------------------------------

// A file of texts with ids.
struct side {
    struct table table;
    size_t id, text, title; // columns; title NO_COLUMN: there is none
    struct string_index ids;
};

struct storage {
    struct side queries, corpus;
    char *joined; // documents with their titles
};

static enum berth_status read_table(const char *path, struct table *table,
                                    struct berth_error *error) {
    struct table_options options = {0};
    TRY(table_format_of(path, &options.format, error));
    return table_read(path, &options, table, error);
}

static enum berth_status read_side(const char *path, const char *setting, struct side *side,
                                   struct berth_error *error) {
    TRY(read_table(path, &side->table, error));
    TRY(table_column(&side->table, setting, "_id", &side->id, error));
    TRY(table_column(&side->table, setting, "text", &side->text, error));
    side->title = table_find(&side->table, "title");
    for (size_t row = 0; row < side->table.row_count; row++) {
        const char *id;
        TRY(table_text(&side->table, row, side->id, &id, error));
        const uint32_t number = string_index_put(&side->ids, id, strlen(id));
        TRY(number == STRING_INDEX_NONE
                ? error_no_memory(error, side->ids.count * sizeof *side->ids.starts, "the ids")
            : number == row ? BERTH_OK
                            : table_error(&side->table, row, side->id, error,
                                          "\"%.*s\" is already the id of line %zu; expected a "
                                          "different id for each text",
                                          UTF8_SHOWN(id, SHOWN), side->table.lines[number]));
    }
    return BERTH_OK;
}

static enum berth_status read_sides(const struct retrieval_files *files, struct storage *storage,
                                    struct berth_error *error) {
    TRY(read_side(files->queries, "queries_file", &storage->queries, error));
    for (size_t row = 0; row < storage->queries.table.row_count; row++) {
        const struct side *side = &storage->queries;
        const char *text;
        TRY(table_text(&side->table, row, side->text, &text, error));
        if (text[strspn(text, BLANKS "\r\n")] == '\0') {
            return table_error(&side->table, row, side->text, error,
                               "the query has no text; write one, or leave out the line");
        }
    }
    return read_side(files->corpus, "corpus_file", &storage->corpus, error);
}

// --- the file of judgements ----------------------------------------------------------------------

// Whether the first line has four words and is neither a header nor JSON.
static int is_trec(const char *text) {
    const char *word = text + strspn(text, BLANKS "\r\n\xEF\xBB\xBF");
    static const char header[] = "query-id";
    if (word[0] == '{' || word[0] == '[' || strncmp(word, header, sizeof header - 1) == 0) {
        return 0;
    }
    size_t words = 0;
    while (*word != '\0' && *word != '\n' && *word != '\r') {
        words++;
        word += strcspn(word, BLANKS "\r\n");
        word += strspn(word, BLANKS);
    }
    return words == 4;
}

static enum berth_status read_relevant_table(const char *path, struct table *table,
                                             struct berth_error *error) {
    static const char *const trec[] = {"query-id", "iteration", "corpus-id", "score", NULL};
    OWNED char *text = NULL;
    size_t length;
    TRY(file_read(path, RELEVANT_FILE_LIMIT, &text, &length, error));
    if (!is_trec(text)) {
        return read_table(path, table, error);
    }
    const struct table_options options = {.format = TABLE_TSV, .column_names = trec};
    // One tab between words, none at the ends of lines.
    char *to = text;
    for (const char *from = text; *from != '\0';) {
        const size_t blanks = strspn(from, BLANKS);
        from += blanks;
        const int is_between = blanks > 0 && to > text && to[-1] != '\n' && *from != '\0' &&
                               *from != '\n' && *from != '\r';
        if (is_between) {
            *to++ = '\t';
        }
        if (*from != '\0') {
            *to++ = *from++;
        }
    }
    *to = '\0';
    return table_read_memory(path, text, (size_t)(to - text), &options, table, error);
}

struct relevant {
    struct table table;
    size_t query, document, score; // columns
};

static void close_relevant(struct relevant *relevant) {
    table_done(&relevant->table);
}

static enum berth_status find_number(const struct relevant *relevant, size_t row, size_t column,
                                     const struct side *side, uint32_t *number,
                                     struct berth_error *error) {
    const char *id;
    TRY(table_text(&relevant->table, row, column, &id, error));
    *number = string_index_find(&side->ids, id, strlen(id));
    return *number != STRING_INDEX_NONE
               ? BERTH_OK
               : table_error(&relevant->table, row, column, error,
                             "%s has no _id \"%.*s\"; add its text there, or leave out the line",
                             side->table.name, UTF8_SHOWN(id, SHOWN));
}

static enum berth_status read_judgement(const struct relevant *relevant, size_t row,
                                        const struct storage *storage, struct judged *item,
                                        struct berth_error *error) {
    const char *text;
    double score;
    item->row = row;
    TRY(find_number(relevant, row, relevant->query, &storage->queries, &item->query, error));
    TRY(find_number(relevant, row, relevant->document, &storage->corpus, &item->document, error));
    TRY(table_text(&relevant->table, row, relevant->score, &text, error));
    if (!number_parse_real(text, &score) || floor(score) != score ||
        fabs(score) > RELEVANCE_LIMIT) {
        return table_error(&relevant->table, row, relevant->score, error,
                           "expected a whole number, 0 for a document that is not relevant, found "
                           "\"%.*s\"",
                           UTF8_SHOWN(text, SHOWN));
    }
    item->relevance = (int64_t)score;
    return BERTH_OK;
}

static enum berth_status read_judgements(const char *path, const struct storage *storage,
                                         struct judged_list *list, struct berth_error *error) {
    struct relevant relevant DONE_BY(close_relevant) = {.table = {0}};
    struct table *table = &relevant.table;
    TRY(read_relevant_table(path, table, error));
    TRY(table_column(table, "relevant_file", "query-id", &relevant.query, error));
    TRY(table_column(table, "relevant_file", "corpus-id", &relevant.document, error));
    TRY(table_column(table, "relevant_file", "score", &relevant.score, error));
    list->items = memory_array(table->row_count, sizeof *list->items);
    if (list->items == NULL) {
        return error_no_memory(error, table->row_count * sizeof *list->items, "the judgements");
    }
    for (; list->count < table->row_count; list->count++) {
        TRY(read_judgement(&relevant, list->count, storage, &list->items[list->count], error));
    }
    qsort(list->items, list->count, sizeof *list->items, by_query_and_document);
    int64_t largest = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct judged *item = &list->items[i];
        largest = item->relevance > largest ? item->relevance : largest;
        if (i > 0 && is_same(item, item - 1)) {
            return table_error(
                &relevant.table, item->row, relevant.document, error,
                "this query and document were already judged in line %zu; expected one judgement",
                relevant.table.lines[item[-1].row]);
        }
    }
    return largest > 0 ? BERTH_OK
                       : error_set(error, BERTH_BAD_DATA,
                                   "%s: no document is relevant to any query; expected a score "
                                   "above 0",
                                   relevant.table.name);
}

// --- the set of files ----------------------------------------------------------------------------

// Keeps the first `limit` of the queries that have judgements; their numbers become 0, 1, ...
static enum berth_status choose_queries(const struct storage *storage, size_t limit,
                                        struct judged_list *list, struct retrieval_set *set,
                                        struct berth_error *error) {
    const struct side *side = &storage->queries;
    const size_t documents = storage->corpus.table.row_count;
    size_t judged = 0, kept = 0;
    set->texts = memory_array(side->table.row_count + documents, sizeof *set->texts);
    if (set->texts == NULL) {
        return error_no_memory(error, documents * sizeof *set->texts, "the texts");
    }
    for (size_t i = 0, before = SIZE_MAX; i < list->count; i++) {
        struct judged *item = &list->items[i];
        judged += item->query != before;
        before = item->query;
        if (limit > 0 && judged > limit) {
            continue;
        }
        if (set->query_count < judged) {
            TRY(table_text(&side->table, item->query, side->text, &set->texts[set->query_count++],
                           error));
        }
        item->query = (uint32_t)(judged - 1);
        kept = i + 1;
    }
    list->count = kept;
    set->document_count = documents;
    set->left_out = side->table.row_count - judged;
    return BERTH_OK;
}

// The text of a document, after its title if it has one: written at *to, which moves on, or counted
// in *bytes where `to` is NULL.
static enum berth_status put_document(const struct side *side, size_t row, char **to, size_t *bytes,
                                      const char **text, struct berth_error *error) {
    const char *title;
    TRY(table_text(&side->table, row, side->text, text, error));
    if (side->title == NO_COLUMN || table_is_empty(&side->table, row, side->title)) {
        return BERTH_OK;
    }
    TRY(table_text(&side->table, row, side->title, &title, error));
    if (to == NULL) {
        *bytes += strlen(title) + strlen(*text) + 2;
        return BERTH_OK;
    }
    char *const joined = *to;
    char *const end = stpcpy(joined, title);
    *to = (*text)[0] != '\0' ? stpcpy(stpcpy(end, " "), *text) + 1 : end + 1;
    *text = joined;
    return BERTH_OK;
}

enum berth_status retrieval_set_read(const struct retrieval_files *files, size_t limit,
                                     struct retrieval_set *set, struct berth_error *error) {
    *set = (struct retrieval_set){0};
    struct storage *storage = memory_array_zeroed(1, sizeof *storage);
    struct judged_list list = {0};
    enum berth_status status;
    set->storage = storage;
    TRY_DONE(storage != NULL ? BERTH_OK
                             : error_no_memory(error, sizeof *storage, "a set of retrieval"));
    TRY_DONE(read_sides(files, storage, error));
    TRY_DONE(read_judgements(files->relevant, storage, &list, error));
    TRY_DONE(choose_queries(storage, limit, &list, set, error));
    TRY_DONE(group(&list, set, error));
    const char **texts = set->texts + set->query_count;
    size_t bytes = 1;
    for (size_t row = 0; row < set->document_count; row++) {
        TRY_DONE(put_document(&storage->corpus, row, NULL, &bytes, &texts[row], error));
    }
    char *to = storage->joined = memory_new(bytes);
    if (to == NULL) {
        TRY_DONE(error_no_memory(error, bytes, "the documents with their titles"));
    }
    for (size_t row = 0; row < set->document_count; row++) {
        TRY_DONE(put_document(&storage->corpus, row, &to, NULL, &texts[row], error));
    }
done:
    memory_free(list.items);
    return status;
}

void retrieval_set_drop_texts(struct retrieval_set *set) {
    struct storage *storage = set->storage;
    if (storage != NULL) {
        struct side *sides[] = {&storage->queries, &storage->corpus};
        for (size_t i = 0; i < 2; i++) {
            table_done(&sides[i]->table);
            string_index_done(&sides[i]->ids);
        }
        memory_free(storage->joined);
        memory_free(storage);
    }
    memory_free(set->texts);
    set->texts = NULL;
    set->storage = NULL;
}

void retrieval_set_done(struct retrieval_set *set) {
    retrieval_set_drop_texts(set);
    memory_free(set->starts);
    memory_free(set->judgements);
    *set = (struct retrieval_set){0};
}
