// SPDX-License-Identifier: Apache-2.0
// Adds checksums of the model's configuration, vocabulary, weights and data to a list of facts,
// after a job has read them. train/machine/rank_facts.c compares the lists of all ranks and names
// the first fact that differs, before an update is computed.
#include "train/engine/input_facts.h"

#include "core/checksum.h"

#include <inttypes.h>
#include <stdio.h>

enum { NAME_SIZE = 128 };

// --- the model ----------------------------------------------------------------------------------

static uint64_t vocabulary_checksum(const struct tokenizer *tokenizer) {
    uint64_t sum = 0;
    size_t specials;
    const struct added_token *special = tokenizer_specials(tokenizer, &specials);
    for (size_t id = 0; id < tokenizer_size(tokenizer); id++) {
        const char *piece = tokenizer_piece(tokenizer, (int32_t)id);
        sum = checksum_add(sum, checksum_bytes(piece, strlen(piece)));
    }
    for (size_t i = 0; i < specials; i++) {
        sum = checksum_add(sum, checksum_bytes(special[i].text, strlen(special[i].text)));
        sum = checksum_add(sum, special[i].flags);
    }
    return sum;
}

static void add_rules(struct rank_facts *facts, const struct tokenizer_options *rules,
                      const char *source) {
    static const char *const accents[] = {[TOKENIZER_ACCENTS_AUTO] = "auto",
                                          [TOKENIZER_ACCENTS_STRIP] = "true",
                                          [TOKENIZER_ACCENTS_KEEP] = "false"};
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {{"the tokenizer's do_lower_case", rules->lower_case},
                   {"the tokenizer's tokenize_chinese_chars", !rules->whole_ideographs},
                   {"the tokenizer's max_word_length", rules->max_word_length},
                   {"the tokenizer's split_special", rules->split_special},
                   {"the number of words that are pieces", (int64_t)rules->word_pieces},
                   {"whether pairs have one token type", rules->one_type}};
    rank_facts_add(facts, "tokenizer", source,
                   rules->rules == TOKENIZER_GOOGLE ? "google" : "huggingface");
    rank_facts_add(facts, "the tokenizer's strip_accents", source, accents[rules->accents]);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        rank_facts_add_number(facts, numbers[i].name, source, numbers[i].value);
    }
}

void input_facts_add_model(struct rank_facts *facts, const struct model_files *files,
                           const char *source) {
    source = source != NULL ? source : "the model";
    json *object = bert_config_values(&files->shape);
    struct json_walk walk = {.object = object};
    facts->text.failed |= object == NULL;
    while (object != NULL && json_walk_next(&walk)) {
        char *value = json_write(walk.value, JSON_COMPACT);
        facts->text.failed |= value == NULL;
        rank_facts_add(facts, walk.key, source, value != NULL ? value : "");
        memory_free(value);
    }
    json_free(object);
    if (files->table.head == PARAM_HEAD_EMBEDDING) {
        const struct bert_embedding *embedding = &files->shape.embedding;
        const char *prompt = files->sentence.prompt;
        rank_facts_add(facts, "pooling", source, sentence_pooling_names[embedding->pooling]);
        rank_facts_add(facts, "normalize", source, embedding->normalize ? "true" : "false");
        rank_facts_add(facts, "the prompt", source, prompt != NULL ? prompt : "");
        rank_facts_add(facts, "include_prompt", source,
                       files->sentence.skips_prompt ? "false" : "true");
    }
    if (files->tokenizer == NULL) {
        rank_facts_add(facts, "the vocabulary", source, "missing");
        return;
    }
    rank_facts_add_number(facts, "the number of words of the vocabulary", files->vocab_path,
                          (int64_t)tokenizer_size(files->tokenizer));
    rank_facts_add_checksum(facts, "the checksum of the vocabulary", files->vocab_path,
                            vocabulary_checksum(files->tokenizer));
    add_rules(facts, tokenizer_rules_of(files->tokenizer), files->vocab_path);
}

void input_facts_add_weights(struct rank_facts *facts, const struct state *state,
                             const char *source) {
    rank_facts_add_checksum(facts, "the checksum of the weights",
                            source != NULL ? source : "the model", state->checksum);
}

// --- the data -----------------------------------------------------------------------------------

void input_facts_add_sequences(struct rank_facts *facts, const char *name, const char *path,
                               size_t count, uint64_t checksum) {
    char text[NAME_SIZE];
    snprintf(text, sizeof text, "the number of %s sequences", name);
    rank_facts_add_number(facts, text, path, (int64_t)count);
    snprintf(text, sizeof text, "the checksum of the %s sequences", name);
    rank_facts_add_checksum(facts, text, path, checksum);
}

void input_facts_add_feed(struct rank_facts *facts, const struct feed *feed, const char *path) {
    if (feed->shards != NULL) {
        // The headers of shards say how many sequences they have.
        rank_facts_add_number(facts, "the number of shards", path, (int64_t)feed->shards->count);
        rank_facts_add_number(facts, "the length of the shards' rows", path, feed->shards->length);
        rank_facts_add_number(facts, "the number of masked words of a row", path,
                              feed->shards->predictions);
        for (size_t i = 0; i < feed->shards->count; i++) {
            const struct shard *shard = &feed->shards->items[i];
            char name[NAME_SIZE], size[NAME_SIZE];
            snprintf(name, sizeof name, "the name of shard %zu", i + 1);
            rank_facts_add(facts, name, path, shard->name);
            snprintf(name, sizeof name, "the size of shard %zu", i + 1);
            snprintf(size, sizeof size, "%" PRId64 " bytes with %" PRId64 " sequences",
                     shard->bytes, shard->sequences);
            rank_facts_add(facts, name, shard->path, size);
        }
    } else {
        input_facts_add_sequences(facts, "training", path, feed->source.count, feed->checksum);
    }
}
