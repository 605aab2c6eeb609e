// SPDX-License-Identifier: Apache-2.0
// Fuzzes the builders of features. Settings: bit 0: training. Three bytes of options follow
// (sequence and stride; query length in six bits, bit 6: Keras's rules, bit 7: all answers and the
// end exclusive there, windows by words by Google's rules), then a SQuAD file. Every feature must
// be consistent.
#include "data/squad/squad_features.h"
#include "input.h"
#include "words.h"

static const char vocab[] =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\nthe\nold\n1\n9\n.\n,\n##a\n"
    "##b\n##c\n##1\n##9\n##ld\no\nt\n##h\n##e\n";

static void check_feature(const struct squad_feature_set *set, const struct squad_feature *feature,
                          const struct squad_dataset *dataset, int64_t longest) {
    size_t first = feature->first, last = first + (size_t)feature->length - 1;
    require(feature->length >= 4 && feature->length <= longest && last < set->token_count);
    int keras = set->rules == SQUAD_RULES_KERAS;
    int32_t past = feature->document_begin + feature->document_length;
    require(keras ? feature->document_begin == 1 && past + 2 <= feature->length
                  : past + 1 == feature->length);
    require(set->ids[first] == 2 && set->ids[last] == 3);
    require(feature->start >= 0 && feature->start <= feature->length);
    require(feature->end >= 0 && feature->end <= feature->length);
    require(!keras || feature->end <= past);
    const struct squad_example *example = &dataset->examples[feature->example];
    for (int32_t i = 0; i < feature->document_length; i++) {
        size_t row = first + (size_t)(feature->document_begin + i);
        size_t word = set->example_words[feature->example] + (size_t)set->words[row];
        require(set->word_begin[word] < set->word_end[word] &&
                set->word_end[word] <= example->context_length);
        require(set->type_ids[row] == !keras && set->max_context[row] <= 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    const uint8_t *bytes = input.bytes;
    struct squad_dataset dataset;
    struct squad_feature_set set;
    struct berth_error error;
    struct berth_log log = {0};
    if (input.size < 3 || squad_read_memory("fuzz", (const char *)bytes + 3, input.size - 3, 0,
                                            &dataset, &error) != BERTH_OK) {
        return 0;
    }
    struct squad_feature_options options = {.max_length = bytes[0],
                                            .doc_stride = bytes[1],
                                            .max_query_length = bytes[2] & 63,
                                            .training = input.settings & 1,
                                            .rules = (bytes[2] & 64) != 0 ? SQUAD_RULES_KERAS
                                                                          : SQUAD_RULES_GOOGLE};
    options.all_answers = options.end_exclusive = bytes[2] >= 192;
    options.filter_by_words = bytes[2] >> 6 == 2;
    const struct tokenizer *tokenizer = fuzz_tokenizer(vocab, sizeof vocab - 1);
    fuzz_failing_begin(input.fail_at);
    enum berth_status status =
        squad_features_build(&dataset, tokenizer, &options, &log, &set, &error);
    // Where several examples fail, the failure of the first one is reported.
    int failed = fuzz_failing_stop(input.fail_at);
    require(status == BERTH_OK ? !failed : error.message[0] != '\0');
    if (status == BERTH_OK) {
        for (size_t i = 0; i < set.count; i++) {
            check_feature(&set, &set.features[i], &dataset, options.max_length);
        }
        squad_feature_set_done(&set);
    } else {
        require(set.features == NULL);
    }
    squad_dataset_done(&dataset);
    return 0;
}
