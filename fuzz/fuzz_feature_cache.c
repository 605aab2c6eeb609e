// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of the feature cache: a byte of settings (bit 0: labels, bit 1: Keras's rules,
// bit 2: the end exclusive, bit 3: a vocabulary of more than 65,536 tokens, bit 4: the bytes are
// used unchanged), the number of the allocation that fails, then a file. Unless bit 4 is set, the
// version, the labels' flag, the key and the checksum are corrected, so that the fuzzer gets past
// them. Every number of an accepted file must stay within its array and its context.
#include "data/squad/squad_cache_file.h"
#include "format/checksum/crc32c.h"
#include "input.h"

#define CONTEXT "the old  1999 cat."
#define LONGEST 4096

static struct squad_example questions[3] = {
    {.id = "a", .context = CONTEXT, .context_length = sizeof CONTEXT - 1},
    {.id = "b", .context = CONTEXT, .context_length = sizeof CONTEXT - 1},
    {.id = "c", .context = "a", .context_length = 1}};

static void put_u32(uint8_t *to, uint32_t number) {
    for (size_t i = 0; i < 4; i++) {
        to[i] = (uint8_t)(number >> 8 * i);
    }
}

// Corrects the fields that are checked first.
static void correct_fields(uint8_t *file, size_t size, int labels) {
    if (size < 100) {
        return;
    }
    put_u32(file + 8, CACHE_VERSION);
    put_u32(file + 12, (uint32_t)labels);
    memset(file + 16, 0, 32);
    put_u32(file + size - 4, crc32c(0, file, size - 4));
}

static void check_document(const struct squad_feature_set *set,
                           const struct squad_feature *feature) {
    const struct squad_example *example = &questions[feature->example];
    size_t base = set->example_words[feature->example];
    for (int32_t i = 0; i < feature->document_length; i++) {
        size_t row = (size_t)feature->first + (size_t)(feature->document_begin + i);
        size_t word = base + (size_t)set->words[row];
        require(set->words[row] >= 0 && set->max_context[row] <= 1);
        require(i == 0 || set->words[row] >= set->words[row - 1]);
        require(set->word_begin[word] < set->word_end[word] &&
                set->word_end[word] <= example->context_length);
    }
}

static void check(const struct squad_feature_set *set, const struct squad_cache_key *key) {
    for (size_t i = 0; i < set->count; i++) {
        const struct squad_feature *feature = &set->features[i];
        size_t past = (size_t)feature->first + (size_t)feature->length;
        require(past <= set->token_count && feature->length >= 3 && feature->length <= LONGEST);
        require(feature->document_begin >= 1 && feature->document_length >= 0 &&
                feature->document_begin + feature->document_length < feature->length);
        require(feature->start >= 0 && feature->start <= feature->length && feature->end >= 0 &&
                feature->end <= feature->length);
        for (size_t row = feature->first; row < past; row++) {
            require(set->ids[row] >= 0 && set->ids[row] < key->vocabulary);
            require(set->type_ids[row] == 0 || set->type_ids[row] == 1);
        }
        if (key->options.training) {
            require(set->words == NULL && set->example_words == NULL);
        } else {
            require(feature->example >= 0 && feature->example < 3);
            check_document(set, feature);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    struct squad_cache_key key = {
        .options = {.max_seq_length = LONGEST,
                    .training = input.settings & 1,
                    .rules = (input.settings & 2) != 0 ? SQUAD_RULES_KERAS : SQUAD_RULES_GOOGLE,
                    .end_exclusive = (input.settings & 4) != 0},
        .vocabulary = (input.settings & 8) != 0 ? 1 << 17 : 1000};
    memset(key.hex, '0', 64);
    const struct squad_dataset dataset = {.examples = questions, .count = 3};
    struct squad_feature_set set;
    struct berth_error error = {0};
    int64_t examples;
    uint8_t *file = malloc(input.size + 1);
    require(file != NULL);
    memcpy(file, input.size > 0 ? input.bytes : (const uint8_t *)"", input.size);
    if ((input.settings & 16) == 0) {
        correct_fields(file, input.size, input.settings & 1);
    }
    const struct squad_cache_file cache = {"fuzz", file, input.size};
    fuzz_failing_begin(input.fail_at);
    enum berth_status status = squad_cache_parse(
        &cache, &key, key.options.training ? NULL : &dataset, &set, &examples, &error);
    fuzz_failing_end(input.fail_at, status, &error);
    if (status == BERTH_OK) {
        check(&set, &key);
        squad_feature_set_done(&set);
    } else {
        require(set.features == NULL && set.words == NULL);
    }
    free(file);
    return 0;
}
