// SPDX-License-Identifier: Apache-2.0
// Reads and checks a vocabulary. The file is not trusted: every count is taken from its actual
// bytes. tokenizer.c opens it for a vocab.txt and looks pieces up in it.
#include "text/vocabulary.h"

#include "core/compressed.h"
#include "core/memory.h"
#include "core/utf8.h"

#include <stdlib.h>
#include <string.h>

static size_t count_byte(const char *bytes, size_t length, char byte) {
    size_t count = 0;
    for (size_t i = 0; i < length; i++) {
        count += bytes[i] == byte;
    }
    return count;
}

static enum berth_status check_bytes(const char *name, const char *bytes, size_t length,
                                     struct berth_error *error) {
    if (length == 0) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: the vocabulary is empty; expected one token per line", name);
    }
    if (length >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: byte 0: a byte order mark, which would become part of the first "
                         "token; save the vocabulary as UTF-8 without a byte order mark",
                         name);
    }
    TRY(compressed_refuse(name, bytes, length, error));
    const size_t bad = utf8_text_prefix(bytes, length);
    return bad == length
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA, "%s: byte %zu (line %zu): %s", name, bad,
                           count_byte(bytes, bad, '\n') + 1,
                           bytes[bad] == '\0'
                               ? "a NUL byte; expected a text file with one token per line"
                               : "not UTF-8; save the vocabulary as UTF-8");
}

// A token and its first bytes as a number, zeros after them, which orders nearly all tokens.
struct keyed {
    uint64_t first;
    struct trie_string string;
};

static struct keyed keyed_of(struct trie_string string) {
    uint64_t first = 0;
    for (size_t i = 0; i < sizeof first; i++) {
        first = first << 8 | (i < string.length ? (unsigned char)string.bytes[i] : 0);
    }
    return (struct keyed){first, string};
}

static int compare(const void *a, const void *b) {
    const struct keyed *left = a, *right = b;
    if (left->first != right->first) {
        return left->first < right->first ? -1 : 1;
    }
    const struct trie_string *x = &left->string, *y = &right->string;
    size_t common = x->length < y->length ? x->length : y->length;
    int order = memcmp(x->bytes, y->bytes, common);
    if (order != 0) {
        return order;
    }
    if (x->length != y->length) {
        return x->length < y->length ? -1 : 1;
    }
    return x->id < y->id ? -1 : x->id > y->id;
}

// Keeps the last line of each token, as transformers does, which reads the lines into a dictionary;
// returns the number of tokens.
static size_t drop_duplicates(struct trie_string *strings, size_t count) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const int is_same =
            i > 0 && strings[i].length == strings[kept - 1].length &&
            memcmp(strings[i].bytes, strings[kept - 1].bytes, strings[i].length) == 0;
        kept -= (size_t)is_same;
        strings[kept++] = strings[i];
    }
    return kept;
}

int vocabulary_build_trie(struct trie *trie, struct trie_string *strings, size_t count) {
    *trie = (struct trie){0};
    struct keyed *keyed = memory_array(count + 1, sizeof *keyed);
    for (size_t i = 0; keyed != NULL && i < count; i++) {
        keyed[i] = keyed_of(strings[i]);
    }
    if (keyed == NULL) {
        return 0;
    }
    qsort(keyed, count, sizeof *keyed, compare);
    for (size_t i = 0; i < count; i++) {
        strings[i] = keyed[i].string;
    }
    memory_free(keyed);
    count = drop_duplicates(strings, count);
    // Copies the texts of the sorted strings in their order: the trie is built from the first bytes
    // of all, then the second ones, and so on, which would otherwise be read from all over the
    // memory.
    size_t length = 0;
    for (size_t i = 0; i < count; i++) {
        length += strings[i].length;
    }
    char *texts = memory_new(length + 1), *to = texts;
    for (size_t i = 0; texts != NULL && i < count; i++) {
        memcpy(to, strings[i].bytes, strings[i].length);
        strings[i].bytes = to;
        to += strings[i].length;
    }
    const int done = texts != NULL && trie_build(trie, strings, count);
    memory_free(texts);
    return done;
}

static enum berth_status build_trie(struct vocabulary *vocabulary, struct berth_error *error) {
    struct trie_string *strings = memory_array(vocabulary->count, sizeof *strings);
    if (strings == NULL) {
        return error_no_memory(error, vocabulary->count * sizeof *strings, "the vocabulary");
    }
    for (size_t i = 0; i < vocabulary->count; i++) {
        size_t start = vocabulary->starts[i];
        strings[i] = (struct trie_string){vocabulary->text + start,
                                          vocabulary->starts[i + 1] - start - 1, (int32_t)i};
    }
    const enum berth_status status =
        vocabulary_build_trie(&vocabulary->trie, strings, vocabulary->count)
            ? BERTH_OK
            : error_no_memory(error, vocabulary->starts[vocabulary->count],
                              "the vocabulary's search tree");
    memory_free(strings);
    return status;
}

enum berth_status vocabulary_collect(struct vocabulary *vocabulary, const char *const *tokens,
                                     size_t count, struct berth_error *error) {
    size_t length = 0;
    *vocabulary = (struct vocabulary){.count = count};
    for (size_t i = 0; i < count; i++) {
        length += (tokens[i] != NULL ? strlen(tokens[i]) : 0) + 1;
    }
    vocabulary->text = memory_new(length + 1);
    vocabulary->starts = memory_array(count + 1, sizeof *vocabulary->starts);
    if (vocabulary->text == NULL || vocabulary->starts == NULL) {
        vocabulary_done(vocabulary);
        return error_no_memory(error, length + count * sizeof *vocabulary->starts,
                               "the vocabulary");
    }
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        const char *token = tokens[i] != NULL ? tokens[i] : "";
        vocabulary->starts[i] = used;
        memcpy(vocabulary->text + used, token, strlen(token) + 1);
        used += strlen(token) + 1;
    }
    vocabulary->starts[count] = used;
    const enum berth_status status = build_trie(vocabulary, error);
    if (status != BERTH_OK) {
        vocabulary_done(vocabulary);
    }
    return status;
}

enum berth_status vocabulary_read(struct vocabulary *vocabulary, const char *name,
                                  const char *bytes, size_t length, struct berth_error *error) {
    *vocabulary = (struct vocabulary){0};
    TRY(check_bytes(name, bytes, length, error));
    size_t lines = count_byte(bytes, length, '\n') + 1;
    if (lines > INT32_MAX) {
        return error_set(error, BERTH_BAD_DATA, "%s: %zu lines are too many: ids have 31 bits",
                         name, lines);
    }
    vocabulary->text = memory_new(length + 1);
    vocabulary->starts = memory_array(lines + 1, sizeof *vocabulary->starts);
    enum berth_status status;
    if (vocabulary->text == NULL || vocabulary->starts == NULL) {
        status =
            error_no_memory(error, length + lines * sizeof *vocabulary->starts, "the vocabulary");
    } else {
        // Lines end in LF or CR LF.
        size_t used = 0;
        size_t line = 0;
        for (size_t at = 0; at < length; line++) {
            const char *end = memchr(bytes + at, '\n', length - at);
            size_t stop = end == NULL ? length : (size_t)(end - bytes);
            size_t size = stop - at;
            size -= size > 0 && bytes[stop - 1] == '\r';
            vocabulary->starts[line] = used;
            memcpy(vocabulary->text + used, bytes + at, size);
            used += size;
            vocabulary->text[used++] = '\0';
            at = stop + 1;
        }
        vocabulary->starts[line] = used;
        vocabulary->count = line;
        status = build_trie(vocabulary, error);
    }
    if (status != BERTH_OK) {
        vocabulary_done(vocabulary);
    }
    return status;
}

void vocabulary_done(struct vocabulary *vocabulary) {
    memory_free(vocabulary->text);
    memory_free(vocabulary->starts);
    trie_done(&vocabulary->trie);
    *vocabulary = (struct vocabulary){0};
}

int32_t vocabulary_find(const struct vocabulary *vocabulary, const char *token, size_t length) {
    uint32_t node = trie_walk(&vocabulary->trie, 0, token, length);
    return node == TRIE_NONE ? -1 : vocabulary->trie.nodes[node].id;
}
