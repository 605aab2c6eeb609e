// SPDX-License-Identifier: Apache-2.0
// Reads the cache file, whose layout squad_cache.c describes. Every number is checked before use: a
// malicious file can contain wrong features, but none that index past an array.
#include "core/file.h"
#include "core/little_endian.h"
#include "core/memory.h"
#include "data/squad/squad_build.h"
#include "data/squad/squad_cache_file.h"
#include "format/checksum/crc32c.h"

#include <string.h>

#define FILE_LIMIT ((size_t)1 << 36)

struct input {
    const char *name;
    const unsigned char *bytes;
    size_t length;
    const struct squad_cache_key *key;
    const struct squad_dataset *dataset;
    struct squad_feature_set *set;
    uint64_t examples, features, tokens, words, rows; // rows: of documents
    const unsigned char *feature_section, *id_section, *word_section, *context_section,
        *begin_section, *end_section, *example_section;
    struct berth_error *error;
};

static enum berth_status refuse(const struct input *in, const char *why) {
    return error_set(in->error, BERTH_BAD_DATA, "%s: %s", in->name, why);
}

static enum berth_status read_header(struct input *in) {
    unsigned char expected[32];
    cache_key_bytes(in->key, expected);
    if (in->length < CACHE_HEADER_BYTES + CACHE_FOOTER_BYTES) {
        return refuse(in, "too short for a feature cache");
    }
    if (memcmp(in->bytes, CACHE_MAGIC, 8) != 0) {
        return refuse(in, "not a feature cache");
    }
    if (little_endian_u32(in->bytes + 8) != CACHE_VERSION) {
        return refuse(in, "a feature cache of another version");
    }
    size_t body = in->length - CACHE_FOOTER_BYTES;
    if (crc32c(0, in->bytes, body) != little_endian_u32(in->bytes + body)) {
        return refuse(in, "wrong checksum: the file is damaged or truncated");
    }
    if (memcmp(in->bytes + 16, expected, sizeof expected) != 0 ||
        (little_endian_u32(in->bytes + 12) & CACHE_WITH_LABELS) !=
            (in->key->options.training != 0)) {
        return refuse(in, "the cache of other data or settings");
    }
    uint64_t counts[6];
    for (size_t i = 0; i < 6; i++) {
        counts[i] = little_endian(in->bytes + 48 + 8 * i, 8);
    }
    in->examples = counts[0];
    in->features = counts[1];
    in->tokens = counts[2];
    in->words = counts[3];
    in->set->skipped_examples = counts[4];
    in->set->cls_labelled = counts[5];
    return BERTH_OK;
}

// Counts the document rows, whose number only the features tell.
static enum berth_status count_rows(struct input *in) {
    for (uint64_t i = 0; i < in->features; i++) {
        int32_t length =
            (int32_t)little_endian_u32(in->feature_section + i * CACHE_FEATURE_BYTES + 12);
        if (length < 0) {
            return refuse(in, "a document has a negative length");
        }
        in->rows += (uint64_t)length;
    }
    return BERTH_OK;
}

// Finds the sections; their sizes must add up to the size of the file.
static enum berth_status find_sections(struct input *in) {
    uint64_t left = in->length - CACHE_HEADER_BYTES - CACHE_FOOTER_BYTES;
    if (in->features > left / CACHE_FEATURE_BYTES || in->tokens > left / cache_id_bytes(in->key) ||
        in->words > left / 8 || in->examples > INT32_MAX || in->tokens > UINT32_MAX) {
        return refuse(in, "its counts do not match its size");
    }
    in->feature_section = in->bytes + CACHE_HEADER_BYTES;
    TRY(count_rows(in));
    uint64_t expected = in->features * CACHE_FEATURE_BYTES + in->tokens * cache_id_bytes(in->key);
    if (!in->key->options.training) {
        if (in->rows > left || in->examples > left) {
            return refuse(in, "its counts do not match its size");
        }
        expected += in->rows * 5 + in->words * 8 + in->examples * 4;
    }
    if (expected != left) {
        return refuse(in, "its counts do not match its size");
    }
    in->id_section = in->feature_section + in->features * CACHE_FEATURE_BYTES;
    in->word_section = in->id_section + in->tokens * cache_id_bytes(in->key);
    in->context_section = in->word_section + in->rows * 4;
    in->begin_section = in->context_section + in->rows;
    in->end_section = in->begin_section + in->words * 4;
    in->example_section = in->end_section + in->words * 4;
    return BERTH_OK;
}

static int is_consistent(const struct input *in, const struct squad_feature *feature,
                         int32_t before) {
    int keras = in->key->options.rules == SQUAD_RULES_KERAS;
    int64_t length = feature->length, document = feature->document_length;
    int64_t begin = feature->document_begin;
    int has_layout =
        keras ? begin == 1 && document + 3 <= length : begin >= 2 && begin + document + 1 == length;
    return has_layout && document >= 0 && length <= in->key->options.max_seq_length &&
           feature->example >= before && (uint64_t)feature->example < in->examples &&
           feature->document_start >= 0 && feature->start >= 0 && feature->start <= length &&
           feature->end >= 0 && feature->end <= length && feature->answer >= 0;
}

static enum berth_status read_features(struct input *in) {
    uint64_t tokens = 0;
    int32_t before = 0;
    for (uint64_t i = 0; i < in->features; i++) {
        int32_t numbers[8];
        for (size_t k = 0; k < 8; k++) {
            numbers[k] =
                (int32_t)little_endian_u32(in->feature_section + i * CACHE_FEATURE_BYTES + 4 * k);
        }
        struct squad_feature *feature = &in->set->features[i];
        *feature = (struct squad_feature){.unique_id = SQUAD_FIRST_UNIQUE_ID + (int64_t)i,
                                          .example = numbers[0],
                                          .first = (uint32_t)tokens,
                                          .length = numbers[1],
                                          .document_begin = numbers[2],
                                          .document_length = numbers[3],
                                          .document_start = numbers[4],
                                          .start = numbers[5],
                                          .end = numbers[6],
                                          .answer = numbers[7]};
        if (!is_consistent(in, feature, before)) {
            return refuse(in, "an inconsistent feature");
        }
        before = feature->example;
        tokens += (uint64_t)feature->length;
    }
    return tokens == in->tokens
               ? BERTH_OK
               : refuse(in, "the lengths of its features do not match its token count");
}

static enum berth_status read_ids(struct input *in) {
    size_t size = cache_id_bytes(in->key);
    uint32_t largest = 0;
    for (uint64_t i = 0; i < in->tokens; i++) {
        const unsigned char *at = in->id_section + i * size;
        uint32_t id = (uint32_t)little_endian(at, size);
        largest = id > largest ? id : largest;
        in->set->ids[i] = (int32_t)id;
    }
    return in->tokens == 0 || (int64_t)largest < in->key->vocabulary
               ? BERTH_OK
               : refuse(in, "a token id outside the vocabulary");
}

// Sets the type ids. The rows of type 0 come first: the question by Google's rules, the context and
// its [SEP] by Keras's.
static void set_types(struct input *in) {
    int keras = in->key->options.rules == SQUAD_RULES_KERAS;
    for (size_t i = 0; i < in->set->count; i++) {
        const struct squad_feature *feature = &in->set->features[i];
        int32_t zeros = keras ? feature->document_length + 2 : feature->document_begin;
        int8_t *types = in->set->type_ids + feature->first;
        memset(types, 0, (size_t)zeros);
        memset(types + zeros, !in->key->one_type, (size_t)(feature->length - zeros));
    }
}

// Whether the words [first, last] are in order and within the context of the feature's example.
static int words_follow(const struct input *in, const struct squad_feature *feature, size_t first,
                        size_t last) {
    const uint32_t *begin = in->set->word_begin, *end = in->set->word_end;
    int keras = in->key->options.rules == SQUAD_RULES_KERAS;
    for (size_t w = first; w <= last; w++) {
        // Google's words are separated by white space; Keras's "words" are tokens, several of which
        // may come from one character.
        int follows = w == first || (keras ? begin[w] >= begin[w - 1] && end[w] >= end[w - 1]
                                           : begin[w] > end[w - 1]);
        if (begin[w] >= end[w] || !follows) {
            return 0;
        }
    }
    return end[last] <= in->dataset->examples[feature->example].context_length;
}

static enum berth_status read_document(struct input *in, const struct squad_feature *feature,
                                       uint64_t row) {
    struct squad_feature_set *set = in->set;
    size_t count = (size_t)feature->document_length;
    int32_t *words = set->words + feature->first;
    uint8_t *best = set->max_context + feature->first;
    for (int32_t i = 0; i < feature->length; i++) {
        words[i] = -1;
        best[i] = 0;
    }
    uint64_t base = set->example_words[feature->example], before = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t word = little_endian_u32(in->word_section + (row + i) * 4);
        uint8_t flag = in->context_section[row + i];
        if (base + word >= in->words || word > INT32_MAX || (i > 0 && word < before) || flag > 1) {
            return refuse(in, "the word of a token is not in its document");
        }
        before = word;
        words[feature->document_begin + (int32_t)i] = (int32_t)word;
        best[feature->document_begin + (int32_t)i] = flag;
    }
    if (count > 0) {
        size_t first = base + (size_t)words[feature->document_begin];
        if (!words_follow(in, feature, first, base + before)) {
            return refuse(in, "the words of a document are not in order in its context");
        }
    }
    return BERTH_OK;
}

static enum berth_status read_words(struct input *in) {
    struct squad_feature_set *set = in->set;
    set->word_begin = memory_array(in->words + 1, sizeof *set->word_begin);
    set->word_end = memory_array(in->words + 1, sizeof *set->word_end);
    set->example_words = memory_array(in->examples + 1, sizeof *set->example_words);
    if (set->word_begin == NULL || set->word_end == NULL || set->example_words == NULL) {
        return error_no_memory(in->error, in->words * 8, "the words of the documents");
    }
    for (uint64_t i = 0; i < in->words; i++) {
        set->word_begin[i] = little_endian_u32(in->begin_section + i * 4);
        set->word_end[i] = little_endian_u32(in->end_section + i * 4);
    }
    for (uint64_t i = 0; i < in->examples; i++) {
        set->example_words[i] = little_endian_u32(in->example_section + i * 4);
    }
    uint64_t row = 0;
    for (size_t i = 0; i < set->count; i++) {
        TRY(read_document(in, &set->features[i], row));
        row += (uint64_t)set->features[i].document_length;
    }
    return BERTH_OK;
}

static enum berth_status reserve(struct input *in) {
    struct squad_feature_set *set = in->set;
    set->rules = in->key->options.rules;
    set->end_shift = set->rules == SQUAD_RULES_KERAS && in->key->options.end_exclusive;
    if (!in->key->options.training) {
        return squad_set_reserve(set, in->features, in->tokens, in->error);
    }
    set->count = in->features;
    set->token_count = in->tokens;
    set->features = memory_array(in->features + 1, sizeof *set->features);
    set->ids = memory_array(in->tokens + 1, sizeof *set->ids);
    set->type_ids = memory_array(in->tokens + 1, sizeof *set->type_ids);
    return set->features != NULL && set->ids != NULL && set->type_ids != NULL
               ? BERTH_OK
               : error_no_memory(in->error, in->tokens * 5, "the features");
}

static enum berth_status parse(struct input *in) {
    TRY(read_header(in));
    TRY(find_sections(in));
    if (in->dataset != NULL && in->dataset->count != in->examples) {
        return refuse(in, "its number of questions differs from the data set's");
    }
    TRY(reserve(in));
    TRY(read_features(in));
    TRY(read_ids(in));
    set_types(in);
    return in->key->options.training ? BERTH_OK : read_words(in);
}

enum berth_status squad_cache_parse(const struct squad_cache_file *file,
                                    const struct squad_cache_key *key,
                                    const struct squad_dataset *dataset,
                                    struct squad_feature_set *set, int64_t *examples,
                                    struct berth_error *error) {
    struct input in = {.name = file->name,
                       .bytes = file->bytes,
                       .length = file->length,
                       .key = key,
                       .dataset = dataset,
                       .set = set,
                       .error = error};
    *set = (struct squad_feature_set){0};
    enum berth_status status = parse(&in);
    *examples = (int64_t)in.examples;
    if (status != BERTH_OK) {
        squad_feature_set_done(set);
    }
    return status;
}

enum berth_status squad_cache_read(const char *path, const struct squad_cache_key *key,
                                   const struct squad_dataset *dataset,
                                   struct squad_feature_set *set, int64_t *examples,
                                   struct berth_error *error) {
    struct squad_cache_file file = {.name = path};
    char *bytes;
    *set = (struct squad_feature_set){0};
    TRY(file_read(path, FILE_LIMIT, &bytes, &file.length, error));
    file.bytes = bytes;
    enum berth_status status = squad_cache_parse(&file, key, dataset, set, examples, error);
    memory_free(bytes);
    return status;
}
