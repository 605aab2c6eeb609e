// SPDX-License-Identifier: Apache-2.0
// The cache's file, little-endian:
//
//   header     "BERTHFEA", u32 format version, u32 flags, 32 bytes of key, then u64 each:
//   questions,
//              features, tokens, words, entries left out, features labelled (0, 0)
//   features   8 i32 each: example, length, document_begin, document_length, document_start, start,
//              end, answer
//   ids        u16 each where the vocabulary has at most 65,536 tokens, else u32
//   without labels only: the document rows' words (u32 each) and max_context (u8 each), the words'
//              begins and ends (u32 each), each question's first word (u32)
//   footer     u32 CRC-32C of all before
//
// Type ids, the places of the features, unique ids and what stands outside the document rows follow
// from the rest. Every number is checked before it is used: a file that was made to do harm can
// hold wrong features, but none that lead outside of an array.
#include "data/squad_cache.h"

#include "core/file.h"
#include "core/memory.h"
#include "data/squad_build.h"
#include "format/bytes.h"
#include "format/crc32c.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CACHE_VERSION 1 // raise it when the file or any rule of the features changes
#define FILE_LIMIT ((size_t)1 << 36)
#define HEADER_BYTES (8 + 4 + 4 + 32 + 6 * 8)
#define FEATURE_BYTES (8 * 4)
#define FOOTER_BYTES 4
#define WITH_LABELS 1u

static const char magic[8] = {'B', 'E', 'R', 'T', 'H', 'F', 'E', 'A'};

// --- keys ---------------------------------------------------------------------------------------

static enum berth_status digest_vocabulary(const struct tokenizer *tokenizer,
                                           char hex[DIGEST_HEX_SIZE], struct berth_error *error) {
    struct bytes text = {0};
    for (size_t id = 0; id < tokenizer_size(tokenizer); id++) {
        bytes_put_text(&text, tokenizer_piece(tokenizer, (int32_t)id));
        bytes_put(&text, "\n", 1);
    }
    enum berth_status status =
        text.failed ? error_no_memory(error, text.length, "the vocabulary")
                    : digest_memory(DIGEST_SHA256, text.data, text.length, hex, error);
    bytes_done(&text);
    return status;
}

enum berth_status squad_cache_key_of(const void *bytes, size_t size, int64_t limit,
                                     const struct tokenizer *tokenizer,
                                     const struct squad_feature_options *options,
                                     struct squad_cache_key *key, struct berth_error *error) {
    const struct tokenizer_options *rules = tokenizer_rules_of(tokenizer);
    char data[DIGEST_HEX_SIZE], vocabulary[DIGEST_HEX_SIZE], text[768];
    TRY(digest_memory(DIGEST_SHA256, bytes, size, data, error));
    TRY(digest_vocabulary(tokenizer, vocabulary, error));
    int length = snprintf(
        text, sizeof text,
        "berth %s features %d\ndata %s\nlimit %" PRId64 "\nvocabulary %s\ntokenizer %d %d %d %d\n"
        "lengths %" PRId64 " %" PRId64 " %" PRId64 "\nlabels %d\nrules %d %d %d %d\n",
        BERTH_VERSION, CACHE_VERSION, data, limit, vocabulary, (int)rules->rules, rules->lower_case,
        rules->max_word_length, rules->split_special, options->max_seq_length, options->doc_stride,
        options->max_query_length, options->training != 0, (int)options->rules,
        options->filter_by_words != 0, options->all_answers != 0, options->end_exclusive != 0);
    key->options = *options;
    key->vocabulary = (int64_t)tokenizer_size(tokenizer);
    return digest_memory(DIGEST_SHA256, text, (size_t)length, key->hex, error);
}

char *squad_cache_path(const char *folder, const char *data_path,
                       const struct squad_cache_key *key) {
    const char *slash = strrchr(data_path, '/');
    char name[320];
    snprintf(name, sizeof name, "%.120s_%" PRId64 "_%" PRId64 "_%" PRId64 "_%.32s.features",
             slash != NULL ? slash + 1 : data_path, key->options.max_seq_length,
             key->options.doc_stride, key->options.max_query_length, key->hex);
    return path_join(folder, name);
}

// --- writing ------------------------------------------------------------------------------------

// Gathers bytes for the file and its checksum.
struct output {
    struct file_writer file;
    uint32_t crc;
    size_t gathered;
    unsigned char bytes[1 << 14];
};

static void flush(struct output *out) {
    out->crc = crc32c(out->crc, out->bytes, out->gathered);
    file_writer_put(&out->file, out->bytes, out->gathered, NULL); // the commit tells of a failure
    out->gathered = 0;
}

static void put_number(struct output *out, uint64_t number, size_t size) {
    if (out->gathered + size > sizeof out->bytes) {
        flush(out);
    }
    for (size_t i = 0; i < size; i++) {
        out->bytes[out->gathered++] = (unsigned char)(number >> 8 * i);
    }
}

static void put(struct output *out, const void *bytes, size_t length) {
    for (size_t i = 0; i < length; i++) {
        put_number(out, ((const unsigned char *)bytes)[i], 1);
    }
}

static size_t id_bytes(const struct squad_cache_key *key) {
    return key->vocabulary <= 1 << 16 ? 2 : 4;
}

static uint8_t hex_value(char digit) {
    return (uint8_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

static void key_bytes(const struct squad_cache_key *key, unsigned char bytes[32]) {
    for (size_t i = 0; i < 32; i++) {
        bytes[i] =
            (unsigned char)(hex_value(key->hex[2 * i]) << 4 | hex_value(key->hex[2 * i + 1]));
    }
}

static size_t count_words(const struct squad_feature_set *set,
                          const struct squad_dataset *dataset) {
    size_t words = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct squad_feature *feature = &set->features[i];
        size_t base = set->example_words[feature->example];
        for (int32_t row = 0; row < feature->document_length; row++) {
            size_t at = (size_t)feature->first + (size_t)(feature->document_begin + row);
            size_t word = base + (size_t)set->words[at] + 1;
            words = word > words ? word : words;
        }
    }
    for (size_t i = 0; i < dataset->count; i++) {
        words = set->example_words[i] > words ? set->example_words[i] : words;
    }
    return words;
}

static void put_header(struct output *out, const struct squad_cache_key *key, uint64_t examples,
                       const struct squad_feature_set *set, uint64_t words) {
    unsigned char bytes[32];
    key_bytes(key, bytes);
    put(out, magic, sizeof magic);
    put_number(out, CACHE_VERSION, 4);
    put_number(out, key->options.training ? WITH_LABELS : 0, 4);
    put(out, bytes, sizeof bytes);
    const uint64_t counts[6] = {
        examples, set->count, set->token_count, words, set->skipped_examples, set->cls_labelled};
    for (size_t i = 0; i < 6; i++) {
        put_number(out, counts[i], 8);
    }
}

static void put_features(struct output *out, const struct squad_cache_key *key,
                         const struct squad_feature_set *set) {
    for (size_t i = 0; i < set->count; i++) {
        const struct squad_feature *feature = &set->features[i];
        const int32_t numbers[8] = {feature->example,
                                    feature->length,
                                    feature->document_begin,
                                    feature->document_length,
                                    feature->document_start,
                                    feature->start,
                                    feature->end,
                                    feature->answer};
        for (size_t k = 0; k < 8; k++) {
            put_number(out, (uint32_t)numbers[k], 4);
        }
    }
    for (size_t i = 0; i < set->token_count; i++) {
        put_number(out, (uint32_t)set->ids[i], id_bytes(key));
    }
}

static void put_words(struct output *out, const struct squad_feature_set *set, size_t words,
                      size_t examples) {
    for (int what = 0; what < 2; what++) {
        for (size_t i = 0; i < set->count; i++) {
            const struct squad_feature *feature = &set->features[i];
            size_t first = (size_t)feature->first + (size_t)feature->document_begin;
            for (size_t at = first; at < first + (size_t)feature->document_length; at++) {
                put_number(out, what == 0 ? (uint32_t)set->words[at] : set->max_context[at],
                           what == 0 ? 4 : 1);
            }
        }
    }
    for (size_t i = 0; i < words; i++) {
        put_number(out, set->word_begin[i], 4);
    }
    for (size_t i = 0; i < words; i++) {
        put_number(out, set->word_end[i], 4);
    }
    for (size_t i = 0; i < examples; i++) {
        put_number(out, set->example_words[i], 4);
    }
}

enum berth_status squad_cache_write(const char *path, const struct squad_cache_key *key,
                                    const struct squad_dataset *dataset,
                                    const struct squad_feature_set *set,
                                    struct berth_error *error) {
    size_t words = key->options.training ? 0 : count_words(set, dataset);
    struct output out = {0};
    TRY(file_writer_open(&out.file, path, error));
    put_header(&out, key, dataset->count, set, words);
    put_features(&out, key, set);
    if (!key->options.training) {
        put_words(&out, set, words, dataset->count);
    }
    flush(&out);
    put_number(&out, out.crc, 4);
    flush(&out);
    return file_writer_commit(&out.file, error);
}

// --- reading ------------------------------------------------------------------------------------

struct input {
    const char *name;
    const unsigned char *bytes;
    size_t length;
    const struct squad_cache_key *key;
    const struct squad_dataset *dataset;
    struct squad_feature_set *set;
    uint64_t examples, features, tokens, words, rows; // rows: of documents
    const unsigned char *feature_part, *id_part, *word_part, *context_part, *begin_part, *end_part,
        *example_part;
    struct berth_error *error;
};

static uint64_t number_at(const unsigned char *at, size_t size) {
    uint64_t number = 0;
    for (size_t i = 0; i < size; i++) {
        number |= (uint64_t)at[i] << 8 * i;
    }
    return number;
}

static uint32_t u32_at(const unsigned char *at) {
    return (uint32_t)number_at(at, 4);
}

static enum berth_status refuse(const struct input *in, const char *why) {
    return error_set(in->error, BERTH_BAD_DATA, "%s: %s", in->name, why);
}

static enum berth_status read_header(struct input *in) {
    unsigned char wanted[32];
    key_bytes(in->key, wanted);
    if (in->length < HEADER_BYTES + FOOTER_BYTES) {
        return refuse(in, "it is too short to be a feature cache");
    }
    if (memcmp(in->bytes, magic, sizeof magic) != 0) {
        return refuse(in, "it is no feature cache");
    }
    if (u32_at(in->bytes + 8) != CACHE_VERSION) {
        return refuse(in, "it is a feature cache of another version");
    }
    size_t body = in->length - FOOTER_BYTES;
    if (crc32c(0, in->bytes, body) != u32_at(in->bytes + body)) {
        return refuse(in, "its checksum does not fit: it is damaged or cut");
    }
    if (memcmp(in->bytes + 16, wanted, sizeof wanted) != 0 ||
        (u32_at(in->bytes + 12) & WITH_LABELS) != (in->key->options.training != 0)) {
        return refuse(in, "it belongs to other data or settings");
    }
    uint64_t counts[6];
    for (size_t i = 0; i < 6; i++) {
        counts[i] = number_at(in->bytes + 48 + 8 * i, 8);
    }
    in->examples = counts[0];
    in->features = counts[1];
    in->tokens = counts[2];
    in->words = counts[3];
    in->set->skipped_examples = counts[4];
    in->set->cls_labelled = counts[5];
    return BERTH_OK;
}

// The number of document rows is in the features alone; each is looked at before it is believed.
static enum berth_status count_rows(struct input *in) {
    for (uint64_t i = 0; i < in->features; i++) {
        int32_t length = (int32_t)u32_at(in->feature_part + i * FEATURE_BYTES + 12);
        if (length < 0) {
            return refuse(in, "a document has a negative length");
        }
        in->rows += (uint64_t)length;
    }
    return BERTH_OK;
}

// Finds the parts; their sizes must be those that the file has.
static enum berth_status find_parts(struct input *in) {
    uint64_t left = in->length - HEADER_BYTES - FOOTER_BYTES;
    if (in->features > left / FEATURE_BYTES || in->tokens > left / id_bytes(in->key) ||
        in->words > left / 8 || in->examples > INT32_MAX || in->tokens > UINT32_MAX) {
        return refuse(in, "its counts do not fit its size");
    }
    in->feature_part = in->bytes + HEADER_BYTES;
    TRY(count_rows(in));
    uint64_t wanted = in->features * FEATURE_BYTES + in->tokens * id_bytes(in->key);
    if (!in->key->options.training) {
        if (in->rows > left || in->examples > left) {
            return refuse(in, "its counts do not fit its size");
        }
        wanted += in->rows * 5 + in->words * 8 + in->examples * 4;
    }
    if (wanted != left) {
        return refuse(in, "its counts do not fit its size");
    }
    in->id_part = in->feature_part + in->features * FEATURE_BYTES;
    in->word_part = in->id_part + in->tokens * id_bytes(in->key);
    in->context_part = in->word_part + in->rows * 4;
    in->begin_part = in->context_part + in->rows;
    in->end_part = in->begin_part + in->words * 4;
    in->example_part = in->end_part + in->words * 4;
    return BERTH_OK;
}

static int is_sound(const struct input *in, const struct squad_feature *feature, int32_t before) {
    int keras = in->key->options.rules == SQUAD_RULES_KERAS;
    int64_t length = feature->length, document = feature->document_length;
    int64_t begin = feature->document_begin;
    int shaped =
        keras ? begin == 1 && document + 3 <= length : begin >= 2 && begin + document + 1 == length;
    return shaped && document >= 0 && length <= in->key->options.max_seq_length &&
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
            numbers[k] = (int32_t)u32_at(in->feature_part + i * FEATURE_BYTES + 4 * k);
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
        if (!is_sound(in, feature, before)) {
            return refuse(in, "a feature contradicts itself");
        }
        before = feature->example;
        tokens += (uint64_t)feature->length;
    }
    return tokens == in->tokens ? BERTH_OK : refuse(in, "its features have other lengths in all");
}

static enum berth_status read_ids(struct input *in) {
    size_t size = id_bytes(in->key);
    uint32_t largest = 0;
    for (uint64_t i = 0; i < in->tokens; i++) {
        const unsigned char *at = in->id_part + i * size;
        uint32_t id = size == 2 ? (uint32_t)at[0] | (uint32_t)at[1] << 8 : u32_at(at);
        largest = id > largest ? id : largest;
        in->set->ids[i] = (int32_t)id;
    }
    return in->tokens == 0 || (int64_t)largest < in->key->vocabulary
               ? BERTH_OK
               : refuse(in, "a token is not of the vocabulary");
}

// Rows of type 0 come first: Google's question, Keras's context and its [SEP].
static void set_types(struct input *in) {
    int keras = in->key->options.rules == SQUAD_RULES_KERAS;
    for (size_t i = 0; i < in->set->count; i++) {
        const struct squad_feature *feature = &in->set->features[i];
        int32_t zeros = keras ? feature->document_length + 2 : feature->document_begin;
        int8_t *types = in->set->type_ids + feature->first;
        memset(types, 0, (size_t)zeros);
        memset(types + zeros, 1, (size_t)(feature->length - zeros));
    }
}

// Words [first, last] of an example's document follow each other within its context.
static int words_follow(const struct input *in, const struct squad_feature *feature, size_t first,
                        size_t last) {
    const uint32_t *begin = in->set->word_begin, *end = in->set->word_end;
    int keras = in->key->options.rules == SQUAD_RULES_KERAS;
    for (size_t w = first; w <= last; w++) {
        // Google's words have white space between them; Keras's "words" are tokens, and several may
        // come from one character.
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
        uint32_t word = u32_at(in->word_part + (row + i) * 4);
        uint8_t flag = in->context_part[row + i];
        if (base + word >= in->words || word > INT32_MAX || (i > 0 && word < before) || flag > 1) {
            return refuse(in, "a token's word is not of its document");
        }
        before = word;
        words[feature->document_begin + (int32_t)i] = (int32_t)word;
        best[feature->document_begin + (int32_t)i] = flag;
    }
    if (count > 0) {
        size_t first = base + (size_t)words[feature->document_begin];
        if (!words_follow(in, feature, first, base + before)) {
            return refuse(in, "the words of a document do not follow each other in its context");
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
        set->word_begin[i] = u32_at(in->begin_part + i * 4);
        set->word_end[i] = u32_at(in->end_part + i * 4);
    }
    for (uint64_t i = 0; i < in->examples; i++) {
        set->example_words[i] = u32_at(in->example_part + i * 4);
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
    TRY(find_parts(in));
    if (in->dataset != NULL && in->dataset->count != in->examples) {
        return refuse(in, "its data set has another number of questions");
    }
    TRY(reserve(in));
    TRY(read_features(in));
    TRY(read_ids(in));
    set_types(in);
    return in->key->options.training ? BERTH_OK : read_words(in);
}

enum berth_status squad_cache_parse(const char *name, const void *bytes, size_t length,
                                    const struct squad_cache_key *key,
                                    const struct squad_dataset *dataset,
                                    struct squad_feature_set *set, int64_t *examples,
                                    struct berth_error *error) {
    struct input in = {.name = name,
                       .bytes = bytes,
                       .length = length,
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
    char *bytes;
    size_t length;
    *set = (struct squad_feature_set){0};
    TRY(file_read(path, FILE_LIMIT, &bytes, &length, error));
    enum berth_status status =
        squad_cache_parse(path, bytes, length, key, dataset, set, examples, error);
    memory_free(bytes);
    return status;
}
