// SPDX-License-Identifier: Apache-2.0
// CPython's random numbers, and pre-training instances equal to those of the published rules bit
// for bit (pretraining.golden.h, made by dev/goldens/pretraining_instances.py). With the faster
// numbers: invariants of every instance, and the fractions over all instances.
#include "data/pretraining/instances.h"
#include "format/json/json.h"
#include "pretraining.golden.h"
#include "synthetic_documents.h"

#include <math.h>
#include <stdatomic.h>

static void test_python_random(void **state) {
    (void)state;
    static const int64_t highs[] = {
        10, 1000, 1000000, 1000000000, 10000000000, 1000000000000, 1000000000000000000};
    for (size_t i = 0; i < sizeof random_goldens / sizeof *random_goldens; i++) {
        struct python_random random;
        uint32_t order[50];
        python_random_seed(&random, random_goldens[i].seed);
        for (int j = 0; j < 700; j++) {
            double number = python_random_real(&random);
            assert_true(j < 697 || number == random_goldens[i].reals[j - 697]);
        }
        for (int j = 0; j < 7; j++) {
            assert_int_equal(python_random_between(&random, -5, highs[j]),
                             random_goldens[i].integers[j]);
        }
        for (uint32_t j = 0; j < 50; j++) {
            order[j] = j;
        }
        python_random_shuffle(&random, order, 50);
        assert_int_equal(deflate_crc32(0, order, sizeof order), random_goldens[i].crc);
    }
}

static void test_python_instances(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof instance_goldens / sizeof *instance_goldens; i++) {
        struct documents documents =
            synthetic_documents(instance_goldens[i].seed, instance_goldens[i].documents,
                                instance_goldens[i].sentences, instance_goldens[i].tokens);
        struct instance_options options = complete(instance_goldens[i].options);
        struct instances made = {0};
        options.python = 1;
        assert_int_equal(instances_make(&documents, &options, &made, NULL), BERTH_OK);
        assert_int_equal(made.count, instance_goldens[i].count);
        assert_int_equal(checksum(&made), instance_goldens[i].crc);
        instances_done(&made);
        documents_done(&documents);
    }
}

// --- the faster numbers -------------------------------------------------------------------------

static void check_instance(const struct instances *made, const struct instance *instance,
                           const struct instance_options *options) {
    const int32_t *tokens = made->tokens + instance->tokens;
    const uint16_t *positions = made->positions + instance->predictions;
    size_t wanted = (size_t)(instance->length * options->masked_lm_prob + 0.5);
    assert_true(instance->length <= options->max_length && instance->length >= 5);
    assert_int_equal(tokens[0], CLS);
    assert_int_equal(tokens[instance->second - 1], SEP);
    assert_int_equal(tokens[instance->length - 1], SEP);
    assert_true(instance->second > 2 && instance->second < instance->length - 1);
    assert_true(instance->prediction_count >= 1 && instance->prediction_count <= wanted + 1 &&
                instance->prediction_count <= options->max_predictions);
    for (size_t i = 0; i < instance->prediction_count; i++) {
        assert_true(i == 0 || positions[i] > positions[i - 1]);
        assert_true(positions[i] > 0 && positions[i] < instance->length - 1 &&
                    positions[i] != instance->second - 1);
        assert_true(made->labels[instance->predictions + i] >= 104);
    }
}

static void assert_fraction(uint64_t part, uint64_t whole, double expected, double within) {
    double fraction = (double)part / (double)whole;
    if (fraction < expected - within || fraction > expected + within) {
        fail_msg("fraction %g, expected %g", fraction, expected);
    }
}

static void test_fractions(void **state) {
    (void)state;
    struct documents documents = synthetic_documents(20, 400, 40, 40);
    struct instance_options options = complete((struct instance_options){.max_length = 128,
                                                                         .max_predictions = 20,
                                                                         .dupe_factor = 3,
                                                                         .masked_lm_prob = 0.15,
                                                                         .short_seq_prob = 0.1,
                                                                         .seed = 5});
    struct instances made = {0};
    uint64_t masks = 0; // among the predicted tokens
    assert_int_equal(instances_make(&documents, &options, &made, NULL), BERTH_OK);
    uint64_t predictions = made.counts.masked + made.counts.kept + made.counts.replaced;
    assert_true(made.count > 3000);
    assert_int_equal(predictions, made.prediction_count);
    assert_fraction(made.counts.masked, predictions, 0.8, 0.01);
    assert_fraction(made.counts.kept, predictions, 0.1, 0.01);
    // More than a half, because the second part after a single sentence is always random.
    assert_fraction(made.counts.random_next, made.count, 0.53, 0.04);
    assert_fraction(made.counts.short_target, 1200, 0.1, 0.03);
    assert_fraction(predictions, made.token_count, 0.15, 0.01);
    for (size_t i = 0; i < made.count; i++) {
        check_instance(&made, &made.items[i], &options);
        for (size_t j = 0; j < made.items[i].prediction_count; j++) {
            size_t position = made.positions[made.items[i].predictions + j];
            masks += made.tokens[made.items[i].tokens + position] == MASK;
        }
    }
    // A random replacement may be [MASK], too.
    assert_in_range(masks, made.counts.masked, made.counts.masked + made.counts.replaced / 100);
    instances_done(&made);
    documents_done(&documents);
}

// The packer's source returns the instance.
static void test_source(void **state) {
    (void)state;
    struct documents documents = synthetic_documents(22, 30, 30, 40);
    struct instance_options options = complete((struct instance_options){.max_length = 128,
                                                                         .max_predictions = 20,
                                                                         .dupe_factor = 2,
                                                                         .masked_lm_prob = 0.15,
                                                                         .short_seq_prob = 0.1,
                                                                         .seed = 5});
    struct instances made = {0};
    assert_int_equal(instances_make(&documents, &options, &made, NULL), BERTH_OK);
    struct packer_source source = instance_source(&made);
    assert_int_equal(source.count, made.count);
    for (size_t i = 0; i < made.count; i++) {
        const struct instance *instance = &made.items[i];
        struct packer_sequence sequence = source.get(source.data, i);
        assert_int_equal(sequence.length, instance->length);
        assert_int_equal(sequence.label, instance->is_random);
        assert_int_equal(sequence.masked_count, instance->prediction_count);
        assert_ptr_equal(sequence.ids, made.tokens + instance->tokens);
        assert_ptr_equal(sequence.masked_positions, made.positions + instance->predictions);
        assert_ptr_equal(sequence.masked_labels, made.labels + instance->predictions);
        for (int32_t t = 0; t < sequence.length; t++) {
            assert_int_equal(sequence.type_ids[t], t >= instance->second);
        }
    }
    instances_done(&made);
    documents_done(&documents);
}

// Instances of the maximum length, with the border at either end.
static void test_longest_source(void **state) {
    (void)state;
    struct instance items[] = {{.length = INSTANCE_LENGTH_MAX, .second = 0},
                               {.length = INSTANCE_LENGTH_MAX, .second = INSTANCE_LENGTH_MAX - 1}};
    const struct instances made = {.items = items, .count = 2};
    struct packer_source source = instance_source(&made);
    for (size_t i = 0; i < 2; i++) {
        struct packer_sequence sequence = source.get(source.data, i);
        assert_int_equal(sequence.type_ids[0], i == 0);
        assert_int_equal(sequence.type_ids[INSTANCE_LENGTH_MAX - 2], i == 0);
        assert_int_equal(sequence.type_ids[INSTANCE_LENGTH_MAX - 1], 1);
    }
}

// The same seed gives the same instances, another seed or the other generator different ones.
static void test_seeds(void **state) {
    (void)state;
    struct documents documents = synthetic_documents(21, 20, 9, 20);
    uint32_t crc[4];
    for (int i = 0; i < 4; i++) {
        struct instance_options options = complete((struct instance_options){.max_length = 32,
                                                                             .max_predictions = 5,
                                                                             .dupe_factor = 1,
                                                                             .masked_lm_prob = 0.15,
                                                                             .short_seq_prob = 0.1,
                                                                             .seed = i == 2 ? 6 : 5,
                                                                             .python = i == 3});
        struct instances made = {0};
        assert_int_equal(instances_make(&documents, &options, &made, NULL), BERTH_OK);
        crc[i] = checksum(&made);
        instances_done(&made);
    }
    assert_int_equal(crc[0], crc[1]);
    assert_int_not_equal(crc[0], crc[2]);
    assert_int_not_equal(crc[0], crc[3]);
    documents_done(&documents);
}

// All pieces of a word or none, with both kinds of numbers.
static void test_whole_words(void **state) {
    (void)state;
    struct documents documents = synthetic_documents(22, 60, 12, 20);
    for (int python = 0; python < 2; python++) {
        struct instance_options options = complete((struct instance_options){.max_length = 64,
                                                                             .max_predictions = 20,
                                                                             .dupe_factor = 1,
                                                                             .masked_lm_prob = 0.25,
                                                                             .short_seq_prob = 0.1,
                                                                             .python = python,
                                                                             .whole_word = 1});
        struct instances made = {0};
        size_t continued = 0;
        assert_int_equal(instances_make(&documents, &options, &made, NULL), BERTH_OK);
        for (size_t i = 0; i < made.count; i++) {
            const struct instance *instance = &made.items[i];
            int32_t *tokens = made.tokens + instance->tokens;
            unsigned char covered[64] = {0};
            for (size_t j = 0; j < instance->prediction_count; j++) {
                uint16_t position = made.positions[instance->predictions + j];
                covered[position] = 1;
                tokens[position] = made.labels[instance->predictions + j];
            }
            for (size_t j = 2; j + 1 < instance->length; j++) {
                int inside = tokens[j] >= CONTINUES && tokens[j - 1] != SEP;
                assert_true(!inside || covered[j] == covered[j - 1]);
                continued += (size_t)(inside && covered[j]);
            }
        }
        assert_true(continued > 100);
        instances_done(&made);
    }
    documents_done(&documents);
}

static void test_refuses_options(void **state) {
    (void)state;
    struct documents documents = synthetic_documents(23, 2, 2, 2);
    static const char *const messages[] = {
        "max_seq_length: expected 5 to 8192, found 4", "max_predictions_per_seq: expected 1 to",
        "dupe_factor: expected 1 to", "masked_lm_prob: expected 1e-06 to 1, found 1.5",
        "short_seq_prob: expected 0 to 1, found -1"};
    for (int i = 0; i < 5; i++) {
        struct instance_options options =
            complete((struct instance_options){.max_length = i == 0 ? 4 : 32,
                                               .max_predictions = i == 1 ? 0 : 5,
                                               .dupe_factor = i == 2 ? 0 : 1,
                                               .masked_lm_prob = i == 3 ? 1.5 : 0.15,
                                               .short_seq_prob = i == 4 ? -1 : 0.1});
        struct instances made = {0};
        struct berth_error error;
        assert_int_equal(instances_make(&documents, &options, &made, &error), BERTH_BAD_DATA);
        assert_message_has(&error, messages[i]);
        instances_done(&made);
    }
    documents_done(&documents);
}

static void test_memory_runs_out(void **state) {
    (void)state;
    struct documents documents = synthetic_documents(24, 20, 9, 20);
    struct instance_options options = complete((struct instance_options){
        .max_length = 32, .max_predictions = 5, .dupe_factor = 1, .masked_lm_prob = 0.15});
    enum berth_status status = BERTH_NO_MEMORY;
    uint64_t at;
    for (at = 1; status == BERTH_NO_MEMORY; at++) {
        struct instances made = {0};
        memory_fail_at(at, 0);
        status = instances_make(&documents, &options, &made, NULL);
        memory_fail_at(0, 0);
        instances_done(&made);
    }
    assert_int_equal(status, BERTH_OK);
    assert_true(at > 5);
    documents_done(&documents);
}

// Words are those of the pre-tokenizer, also where the pieces have no mark.
static void test_words_of_a_pipeline(void **state) {
    (void)state;
    static const char text[] = "ab b\nba";
    static const char file[] =
        "{\"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"}, \"model\": {\"type\": \"Unigram\", "
        "\"unk_id\": 0, \"vocab\": [[\"<unk>\", 0], [\"a\", -1], [\"b\", -1]]}}";
    static const int32_t tokens[] = {1, 2, 2, 2, 1};
    static const unsigned char continues[] = {0, 1, 0, 0, 1};
    const struct tokenizer_names names = {.pad = NULL};
    const struct tokenizer_options options = {.lower_case = 0};
    struct tokenizer *tokenizer;
    struct documents documents = {0};
    json *object;
    assert_int_equal(json_read_memory("t", file, sizeof file - 1, &object, NULL), BERTH_OK);
    assert_int_equal(tokenizer_open_pipeline("t", object, &names, &options, &tokenizer, NULL),
                     BERTH_OK);
    json_free(object);
    assert_int_equal(documents_add_text(&documents, tokenizer, text, sizeof text - 1, NULL),
                     BERTH_OK);
    assert_int_equal(documents.token_count, 5);
    assert_memory_equal(documents.tokens, tokens, sizeof tokens);
    assert_memory_equal(documents.continues, continues, sizeof continues);
    tokenizer_close(tokenizer);
    documents_done(&documents);
}

static void test_documents_from_text(void **state) {
    (void)state;
    static const char vocabulary[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##c\n.\n";
    static const char text[] = "\n a bc.\nA .\r\n  \t\r\n\n\xc2\xad\nb\r\xe3\x80\x80\x1c\nac";
    static const int32_t tokens[] = {5, 6, 7, 8, 5, 8, 6, 5, 7};
    static const unsigned char continues[] = {0, 0, 1, 0, 0, 0, 0, 0, 1};
    struct tokenizer_options options = {.rules = TOKENIZER_HUGGINGFACE, .lower_case = 1};
    struct tokenizer *tokenizer;
    struct documents documents = {0};
    assert_int_equal(
        tokenizer_open_memory("v", vocabulary, sizeof vocabulary - 1, &options, &tokenizer, NULL),
        BERTH_OK);
    assert_int_equal(documents_add_text(&documents, tokenizer, text, sizeof text - 1, NULL),
                     BERTH_OK);
    assert_int_equal(documents.count, 3);
    assert_int_equal(documents.sentence_count, 4);
    assert_int_equal(documents.token_count, 9);
    assert_memory_equal(documents.tokens, tokens, sizeof tokens);
    assert_memory_equal(documents.continues, continues, sizeof continues);
    assert_int_equal(documents.documents[1], 2);
    assert_int_equal(documents.sentences[1], 4);
    tokenizer_close(tokenizer);
    documents_done(&documents);
}

// --- independent shards -------------------------------------------------------------------------

// Documents of the same shape for every shard, of other tokens.
static struct documents shard_of(int shard) {
    enum { DOCUMENTS = 6, SENTENCES = 20, TOKENS = 12 };
    struct documents documents = {0};
    for (int i = 0; i < DOCUMENTS; i++) {
        for (int j = 0; j < SENTENCES; j++) {
            int32_t sentence[TOKENS];
            for (int k = 0; k < TOKENS; k++) {
                sentence[k] = 104 + (shard * 7919 + i * 131 + j * 17 + k) % 800;
            }
            put_sentence(&documents, sentence, TOKENS);
        }
        assert_int_equal(documents_end_document(&documents, NULL), BERTH_OK);
    }
    return documents;
}

static struct instances make_good(const struct documents *documents,
                                  const struct instance_options *options) {
    struct instances made = {0};
    assert_int_equal(instances_make(documents, options, &made, NULL), BERTH_OK);
    return made;
}

static int masks_same_positions(const struct instances *a, const struct instances *b, size_t i) {
    const struct instance *x = &a->items[i], *y = &b->items[i];
    return x->prediction_count == y->prediction_count &&
           memcmp(a->positions + x->predictions, b->positions + y->predictions,
                  x->prediction_count * sizeof *a->positions) == 0;
}

// Marks the ids that replace others; returns the number of replaced tokens that show.
static size_t mark_replaced(const struct instances *made, unsigned char *seen) {
    size_t count = 0;
    for (size_t i = 0; i < made->count; i++) {
        const struct instance *instance = &made->items[i];
        for (size_t j = instance->predictions;
             j < instance->predictions + instance->prediction_count; j++) {
            const int32_t now = made->tokens[instance->tokens + made->positions[j]];
            if (now != MASK && now != made->labels[j]) {
                seen[now] = 1;
                count++;
            }
        }
    }
    return count;
}

// Many shards together draw as many different ids, and mask as different positions, as one text of
// their size.
static void test_shards_differ(void **state) {
    (void)state;
    enum { SHARDS = 64, IDS = 30000 };
    static unsigned char seen[IDS];
    struct instance_options options = complete((struct instance_options){.max_length = 64,
                                                                         .max_predictions = 10,
                                                                         .dupe_factor = 5,
                                                                         .masked_lm_prob = 0.15,
                                                                         .short_seq_prob = 0.1,
                                                                         .seed = 12345});
    options.vocab_size = IDS;
    size_t replaced = 0, same = 0, compared = 0, distinct = 0;
    struct instances before = {0};
    for (int shard = 0; shard < SHARDS; shard++) {
        struct documents documents = shard_of(shard);
        struct instances made = make_good(&documents, &options);
        replaced += mark_replaced(&made, seen);
        for (size_t i = 0; i < made.count && i < before.count; i++, compared++) {
            same += (size_t)masks_same_positions(&before, &made, i);
        }
        instances_done(&before);
        before = made;
        documents_done(&documents);
    }
    instances_done(&before);
    for (size_t i = 0; i < IDS; i++) {
        distinct += seen[i];
    }
    const double expected = IDS * (1 - exp(-(double)replaced / IDS));
    assert_true(replaced > 5000 && compared > 5000);
    assert_fraction(distinct, (uint64_t)expected, 1, 0.03);
    assert_true(same * 1000 < compared);
}

// The numbers depend on the shard's content and the generator: the same text gives the same
// instances, and each difference in tokens, sentences, documents or the generator gives others.
static void test_shard_stream(void **state) {
    (void)state;
    enum { KINDS = 5 };
    struct instance_options options = complete((struct instance_options){.max_length = 64,
                                                                         .max_predictions = 10,
                                                                         .dupe_factor = 1,
                                                                         .masked_lm_prob = 0.15,
                                                                         .seed = 1});
    struct documents first = shard_of(0);
    struct instances wanted = make_good(&first, &options);
    for (int kind = 0; kind < KINDS; kind++) {
        struct documents documents = shard_of(0);
        documents.tokens[documents.token_count - 1] += kind == 1;
        documents.sentences[documents.sentence_count - 1] -= kind == 2;
        documents.documents[documents.count - 1] -= kind == 3;
        options.python = kind == 4;
        struct instances made = make_good(&documents, &options);
        size_t same = 0;
        for (size_t i = 0; i < made.count && i < wanted.count; i++) {
            same += (size_t)masks_same_positions(&wanted, &made, i);
        }
        assert_int_equal(same == wanted.count, kind == 0);
        assert_true(kind == 0 || same * 10 < wanted.count);
        instances_done(&made);
        documents_done(&documents);
    }
    instances_done(&wanted);
    documents_done(&first);
}

// A cut takes each token from the front or the end with equal chance: of one sentence of numbered
// tokens, the first one left tells how many were taken from its front.
static void test_cut_is_binomial(void **state) {
    (void)state;
    enum { SENTENCES = 300, TOKENS = 1000 };
    struct documents documents = {0};
    for (int i = 0; i < SENTENCES; i++) {
        int32_t sentence[TOKENS];
        for (int k = 0; k < TOKENS; k++) {
            sentence[k] = 104 + k;
        }
        assert_int_equal(documents_add_sentence(&documents, sentence, NULL, TOKENS, NULL),
                         BERTH_OK);
        assert_int_equal(documents_end_document(&documents, NULL), BERTH_OK);
    }
    for (int python = 0; python < 2; python++) {
        struct instance_options options = complete((struct instance_options){.max_length = 65,
                                                                             .max_predictions = 1,
                                                                             .dupe_factor = 2,
                                                                             .masked_lm_prob = 0.01,
                                                                             .seed = 3,
                                                                             .python = python});
        options.vocab_size = 2 * TOKENS;
        struct instances made = make_good(&documents, &options);
        double sum = 0, squares = 0, count = 0;
        assert_int_equal(made.counts.cut, made.count);
        for (size_t i = 0; i < made.count; i++) {
            const struct instance *instance = &made.items[i];
            const int32_t *tokens = made.tokens + instance->tokens;
            assert_int_equal(instance->length, 65);
            assert_int_equal(instance->second, 33); // 31 of A, 31 of B
            for (size_t part = 1; part < 65; part += 32) {
                const size_t masked = made.positions[instance->predictions];
                const size_t at = masked == part ? part + 1 : part;
                const double front = tokens[at] - 104 - (double)(at - part);
                const double from_mean = front - (TOKENS - 31) / 2.0;
                sum += from_mean;
                squares += from_mean * from_mean;
                count++;
            }
        }
        const double variance = (TOKENS - 31) / 4.0;
        assert_true(count > 1000);
        assert_true(fabs(sum / count) < 4 * sqrt(variance / count));
        assert_true(fabs(squares / count / variance - 1) < 4 * sqrt(2 / count));
        instances_done(&made);
    }
    documents_done(&documents);
}

static void test_stops(void **state) {
    (void)state;
    const atomic_int stop = 1;
    struct documents documents = shard_of(0);
    struct instance_options options = complete((struct instance_options){
        .max_length = 32, .max_predictions = 5, .dupe_factor = 1, .masked_lm_prob = 0.15});
    struct instances made = {0};
    options.stop = &stop;
    assert_int_equal(instances_make(&documents, &options, &made, NULL), BERTH_INTERRUPTED);
    instances_done(&made);
    documents_done(&documents);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_python_random),
        cmocka_unit_test(test_python_instances),
        cmocka_unit_test(test_fractions),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_whole_words),
        cmocka_unit_test(test_refuses_options),
        cmocka_unit_test(test_memory_runs_out),
        cmocka_unit_test(test_words_of_a_pipeline),
        cmocka_unit_test(test_documents_from_text),
        cmocka_unit_test(test_source),
        cmocka_unit_test(test_longest_source),
        cmocka_unit_test(test_shards_differ),
        cmocka_unit_test(test_shard_stream),
        cmocka_unit_test(test_cut_is_binomial),
        cmocka_unit_test(test_stops),
    };
    return cmocka_run_group_tests_name("instances", tests, NULL, NULL);
}
