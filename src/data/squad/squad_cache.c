// SPDX-License-Identifier: Apache-2.0
// Writes the cache file, little-endian:
//
//   header     "BERTHFEA", u32 format version, u32 flags, 32 bytes of key, then u64 each: number of
//              questions, features, tokens, words, skipped entries, features labelled (0, 0)
//   features   8 i32 each: example, length, document_begin, document_length, document_start, start,
//              end, answer
//   ids        u16 each where the vocabulary has at most 65,536 tokens, else u32
//   only without labels: words (u32 each) and max_context (u8 each) of the document rows, begins
//              and ends of the words (u32 each), first word of each question (u32)
//   footer     u32 CRC-32C of all bytes before it
//
// Type ids, the offsets of the features, unique ids and everything outside the document rows follow
// from the rest. squad_cache_read.c is the reader.
#include "data/squad/squad_cache.h"

#include "core/buffer.h"
#include "core/file.h"
#include "core/little_endian.h"
#include "core/utf8.h"
#include "data/squad/squad_cache_file.h"
#include "format/checksum/crc32c.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// --- keys ---------------------------------------------------------------------------------------

// Of the pieces, and of the tokens that are never split in a text.
static enum berth_status digest_vocabulary(const struct tokenizer *tokenizer,
                                           char hex[DIGEST_HEX_SIZE], struct berth_error *error) {
    struct buffer text = {0};
    size_t special_count;
    const struct added_token *specials = tokenizer_specials(tokenizer, &special_count);
    for (size_t id = 0; id < tokenizer_size(tokenizer); id++) {
        buffer_put_text(&text, tokenizer_piece(tokenizer, (int32_t)id));
        buffer_put(&text, "\n", 1);
    }
    for (size_t i = 0; i < special_count; i++) {
        buffer_put_text(&text, specials[i].text);
        buffer_put_byte(&text, ' ');
        buffer_put_byte(&text, (char)('0' + specials[i].flags));
        buffer_put_byte(&text, '\n');
    }
    enum berth_status status =
        text.failed ? error_no_memory(error, text.length, "the vocabulary")
                    : digest_memory(DIGEST_SHA256, text.bytes, text.length, hex, error);
    buffer_done(&text);
    return status;
}

enum berth_status squad_cache_key_of(const struct squad_cache_inputs *inputs,
                                     struct squad_cache_key *key, struct berth_error *error) {
    const struct squad_feature_options *options = inputs->options;
    const struct tokenizer_options *rules = tokenizer_rules_of(inputs->tokenizer);
    char data[DIGEST_HEX_SIZE], vocabulary[DIGEST_HEX_SIZE], text[768];
    TRY(digest_memory(DIGEST_SHA256, inputs->bytes, inputs->length, data, error));
    TRY(digest_vocabulary(inputs->tokenizer, vocabulary, error));
    int length = snprintf(
        text, sizeof text,
        "berth %s features %d\ndata %s\nlimit %" PRId64
        "\nvocabulary %s\ntokenizer %d %d %d %d %d %d %zu\n"
        "lengths %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\nlabels %d\nrules %d %d %d %d\n",
        BERTH_VERSION, CACHE_VERSION, data, inputs->limit, vocabulary, (int)rules->rules,
        rules->lower_case, rules->max_word_length, rules->split_special, (int)rules->accents,
        rules->whole_ideographs, rules->word_pieces, options->max_seq_length, options->doc_stride,
        options->doc_overlap, options->max_query_length, options->training != 0,
        (int)options->rules, options->filter_by_words != 0, options->all_answers != 0,
        options->end_exclusive != 0);
    key->options = *options;
    key->one_type = rules->one_type;
    key->vocabulary = (int64_t)tokenizer_size(inputs->tokenizer);
    return digest_memory(DIGEST_SHA256, text, (size_t)length, key->hex, error);
}

char *squad_cache_path(const char *folder, const char *data_path,
                       const struct squad_cache_key *key) {
    char name[320];
    snprintf(name, sizeof name, "%.*s_%" PRId64 "_%" PRId64 "_%" PRId64 "_%.32s.features",
             UTF8_SHOWN(path_name(data_path), 120), key->options.max_seq_length,
             key->options.doc_stride, key->options.max_query_length, key->hex);
    return path_join(folder, name);
}

// --- writing ------------------------------------------------------------------------------------

// Buffered output to the file and its checksum.
struct output {
    struct file_writer file;
    uint32_t crc;
    size_t used;
    unsigned char bytes[1 << 14];
};

static void flush(struct output *out) {
    out->crc = crc32c(out->crc, out->bytes, out->used);
    (void)file_writer_put(&out->file, out->bytes, out->used,
                          NULL); // the commit reports a failure
    out->used = 0;
}

static void put_number(struct output *out, uint64_t number, size_t size) {
    if (out->used + size > sizeof out->bytes) {
        flush(out);
    }
    little_endian_put(out->bytes + out->used, number, size);
    out->used += size;
}

static void put(struct output *out, const void *bytes, size_t length) {
    for (size_t i = 0; i < length; i++) {
        put_number(out, ((const unsigned char *)bytes)[i], 1);
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
    cache_key_bytes(key, bytes);
    put(out, CACHE_MAGIC, 8);
    put_number(out, CACHE_VERSION, 4);
    put_number(out, key->options.training ? CACHE_WITH_LABELS : 0, 4);
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
        put_number(out, (uint32_t)set->ids[i], cache_id_bytes(key));
    }
}

static void put_words(struct output *out, const struct squad_feature_set *set, size_t words,
                      size_t examples) {
    for (int pool = 0; pool < 2; pool++) {
        for (size_t i = 0; i < set->count; i++) {
            const struct squad_feature *feature = &set->features[i];
            size_t first = (size_t)feature->first + (size_t)feature->document_begin;
            for (size_t at = first; at < first + (size_t)feature->document_length; at++) {
                put_number(out, pool == 0 ? (uint32_t)set->words[at] : set->max_context[at],
                           pool == 0 ? 4 : 1);
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
