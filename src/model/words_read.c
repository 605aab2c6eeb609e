// SPDX-License-Identifier: Apache-2.0
// Reads the files of words: vocab.json with merges.txt, and models of sentencepiece, whose pieces
// get the ids that each class gives them.
#include "core/memory.h"
#include "core/utf8.h"
#include "model/folder_class.h"
#include "model/words_build.h"

#include <stdlib.h>
#include <string.h>

// --- vocab.json and merges.txt ------------------------------------------------------------------

enum berth_status words_read_bpe(struct words *words, struct berth_error *error) {
    const struct words_input *input = words->input;
    TRY(json_read_memory(input->name, input->bytes, input->length, &words->vocabulary, error));
    words->count = json_length(words->vocabulary);
    if (!json_is_object_value(words->vocabulary)) {
        return error_set(error, BERTH_BAD_DATA, "%s: expected an object of words and ids",
                         input->name);
    }
    if (utf8_text_prefix(input->merges, input->merges_length) != input->merges_length) {
        return error_set(error, BERTH_BAD_DATA, MERGES_FILE ": not UTF-8, or a NUL byte");
    }
    const char *bytes = input->merges;
    const size_t length = input->merges_length;
    json *list = json_new_array();
    int failed = 0;
    for (size_t at = 0; at < length && !failed;) {
        const char *newline = memchr(bytes + at, '\n', length - at);
        const size_t end = newline != NULL ? (size_t)(newline - bytes) : length;
        const size_t size = end - at - (end > at && bytes[end - 1] == '\r');
        char *line = memory_string_of(bytes + at, size);
        failed = line == NULL ||
                 (strncmp(line, "#version", 8) != 0 && json_append(list, json_new_text(line)) != 0);
        memory_free(line);
        at = end + 1;
    }
    words->merges = json_unless_failed(list, failed);
    return words->merges != NULL ? BERTH_OK : words_no_memory(words, error);
}

// --- models of sentencepiece --------------------------------------------------------------------

static enum berth_status put_word(struct words *words, const char *text, double score,
                                  struct berth_error *error) {
    json *word = json_new_array();
    const int failed =
        json_append(word, json_new_text(text)) | json_append(word, json_new_real(score));
    const size_t known = words->numbers.count;
    int32_t *ids = memory_grow(words->ids, &words->id_capacity, known + 1, sizeof *ids);
    words->ids = ids != NULL ? ids : words->ids;
    if (json_append(words->vocabulary, json_unless_failed(word, failed)) != 0 || ids == NULL) {
        return words_no_memory(words, error);
    }
    const uint32_t number = string_index_put(&words->numbers, text, strlen(text));
    if (number == STRING_INDEX_NONE) {
        return words_no_memory(words, error);
    }
    ids[number] = (int32_t)words->count++; // of equal words the last one counts
    return BERTH_OK;
}

static enum berth_status put_pieces(struct words *words, size_t from, struct berth_error *error) {
    for (size_t i = from; i < words->model.count; i++) {
        TRY(put_word(words, words->model.pieces[i].text, words->model.pieces[i].score, error));
    }
    return BERTH_OK;
}

static enum berth_status read_pieces(struct words *words, struct berth_error *error) {
    const struct words_input *input = words->input;
    words->vocabulary = json_new_array();
    return sentencepiece_read(input->name, input->bytes, input->length, &words->model, error);
}

// fairseq's ids: its own special tokens come first, then the pieces without sentencepiece's.
enum berth_status words_read_xlm(struct words *words, struct berth_error *error) {
    static const int first[] = {NAMED_BEGIN, NAMED_PAD, NAMED_END, NAMED_UNKNOWN};
    TRY(read_pieces(words, error));
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        TRY(put_word(words, words_name_in_list(words, first[i]), 0, error));
    }
    TRY(put_pieces(words, 3, error));
    words->unknown = 3;
    return put_word(words, words_name_in_list(words, NAMED_MASK), 0, error);
}

enum berth_status words_read_camembert(struct words *words, struct berth_error *error) {
    TRY(read_pieces(words, error));
    if (words->model.kind != SENTENCEPIECE_UNIGRAM) {
        return error_set(error, BERTH_CONFIG,
                         "%s: expected a model of the type unigram for CamembertTokenizer",
                         words->input->name);
    }
    TRY(put_word(words, "<s>NOTUSED", 0, error));
    TRY(put_word(words, words_name_in_list(words, NAMED_PAD), 0, error));
    TRY(put_word(words, "</s>NOTUSED", 0, error));
    TRY(put_word(words, words_name_in_list(words, NAMED_UNKNOWN), 0, error));
    TRY(put_word(words, "<unk>NOTUSED", -100, error));
    TRY(put_pieces(words, 1, error));
    words->unknown = 3;
    return put_word(words, words_name_in_list(words, NAMED_MASK), 0, error);
}

enum berth_status words_read_albert(struct words *words, struct berth_error *error) {
    TRY(read_pieces(words, error));
    words->unknown = 1;
    return put_pieces(words, 0, error);
}

enum berth_status words_read_big_bird(struct words *words, struct berth_error *error) {
    TRY(words_read_albert(words, error));
    const char *name = words_name_in_list(words, NAMED_UNKNOWN);
    words->unknown = 100;
    for (size_t i = words->model.count; i-- > 0;) {
        if (strcmp(words->model.pieces[i].text, name) == 0 && words->model.pieces[i].score == 0) {
            words->unknown = (int64_t)i;
        }
    }
    return BERTH_OK;
}

// --- merges of sentencepiece --------------------------------------------------------------------

// Orders pairs of normal pieces that make a third one: by its score, its id and the length of the
// left one.
struct piece_merge {
    float score;
    uint32_t id, left;
};

static int compare_merges(const void *a, const void *b) {
    const struct piece_merge *x = a, *y = b;
    return x->score != y->score ? (x->score > y->score ? -1 : 1)
           : x->id != y->id     ? (x->id < y->id ? -1 : 1)
                                : (x->left > y->left) - (x->left < y->left);
}

// Whether bytes[0, length) are a piece that merges may make.
static int is_normal(const struct words *words, const char *bytes, size_t length) {
    const uint32_t number = string_index_find(&words->numbers, bytes, length);
    return number != STRING_INDEX_NONE &&
           words->model.pieces[words->ids[number]].type == SENTENCEPIECE_NORMAL;
}

struct merge_list {
    struct piece_merge *items;
    size_t count, capacity;
};

static int find_merges(const struct words *words, uint32_t id, struct merge_list *list) {
    const char *text = words->model.pieces[id].text;
    const size_t length = strlen(text);
    for (size_t left = utf8_whole(text[0]); left < length; left += utf8_whole(text[left])) {
        if (!is_normal(words, text, left) || !is_normal(words, text + left, length - left)) {
            continue;
        }
        struct piece_merge *items =
            memory_grow(list->items, &list->capacity, list->count + 1, sizeof *items);
        if (items == NULL) {
            return 0;
        }
        list->items = items;
        items[list->count++] =
            (struct piece_merge){words->model.pieces[id].score, id, (uint32_t)left};
    }
    return 1;
}

static json *merge_of(const struct words *words, const struct piece_merge *merge) {
    const char *text = words->model.pieces[merge->id].text;
    char left[SENTENCEPIECE_LONGEST + 1];
    json *pair = json_new_array();
    memcpy(left, text, merge->left);
    left[merge->left] = '\0';
    const int failed = json_append(pair, json_new_text(left)) |
                       json_append(pair, json_new_text(text + merge->left));
    return json_unless_failed(pair, failed);
}

// The model's scores rank the merges, which it does not list.
static enum berth_status make_merges(struct words *words, struct berth_error *error) {
    struct merge_list list = {.items = NULL};
    int failed = 0;
    words->merges = json_new_array();
    for (size_t i = 0; i < words->model.count && !failed; i++) {
        const char *text = words->model.pieces[i].text;
        const uint32_t number = string_index_find(&words->numbers, text, strlen(text));
        failed = words->ids[number] == (int32_t)i &&
                 words->model.pieces[i].type == SENTENCEPIECE_NORMAL &&
                 !find_merges(words, (uint32_t)i, &list);
    }
    if (list.count > 0) {
        qsort(list.items, list.count, sizeof *list.items, compare_merges);
    }
    for (size_t i = 0; i < list.count && !failed; i++) {
        failed = json_append(words->merges, merge_of(words, &list.items[i])) != 0;
    }
    memory_free(list.items);
    return failed ? words_no_memory(words, error) : BERTH_OK;
}

enum berth_status words_read_general(struct words *words, struct berth_error *error) {
    const struct sentencepiece *model = &words->model;
    TRY(read_pieces(words, error));
    for (size_t i = 0; i < model->count; i++) {
        if (model->pieces[i].type == SENTENCEPIECE_USER_DEFINED) {
            return error_set(error, BERTH_CONFIG,
                             "%s: piece %zu: user-defined pieces are not supported; save "
                             "a " TOKENIZER_FILE " with transformers",
                             words->input->name, i);
        }
    }
    TRY(put_pieces(words, 0, error));
    words->unknown = model->unknown_id;
    if (model->kind == SENTENCEPIECE_BPE) {
        TRY(make_merges(words, error));
        // The general tokenizer's words and ids take the place of the list.
        json *object = json_new_object();
        int failed = 0;
        for (size_t i = 0; i < words->model.count; i++) {
            failed |= json_set(object, words->model.pieces[i].text, json_new_integer((int64_t)i));
        }
        json_free(words->vocabulary);
        words->vocabulary = json_unless_failed(object, failed);
        words->count = json_length(object);
        return words->vocabulary != NULL ? BERTH_OK : words_no_memory(words, error);
    }
    return BERTH_OK;
}
