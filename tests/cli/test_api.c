// SPDX-License-Identifier: Apache-2.0
// The small public functions through berth.h: tokens with their places, tensors of a folder,
// statuses; and each of them with every single allocation failing: BERTH_NO_MEMORY, no crash, no
// leak (ASan).
#include "berth.h"
#include "cli/harness.h"
#include "core/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/berth-api-XXXXXX";
static char vocab[64], config_file[64], model[64];

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int make_files(void **state) {
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(vocab, sizeof vocab, "%s/vocab.txt", folder);
    snprintf(config_file, sizeof config_file, "%s/config.json", folder);
    snprintf(model, sizeof model, "%s/model", folder);
    write_text(vocab, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\nwor\n##ld\n!\n");
    write_text(
        config_file,
        "{\"vocab_size\": 9, \"hidden_size\": 8, \"num_hidden_layers\": 1, "
        "\"num_attention_heads\": 2, \"intermediate_size\": 16, "
        "\"max_position_embeddings\": 16, \"type_vocab_size\": 2, \"model_type\": \"bert\"}");
    return 0;
}

static int remove_files(void **state) {
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

// --- what they give
// -------------------------------------------------------------------------------

static void tokens_carry_pieces_ids_and_places(void **state) {
    static const struct berth_token expected[] = {
        {"hello", 5, 0, 5}, {"wor", 6, 7, 10}, {"##ld", 7, 10, 12}, {"!", 8, 12, 13}};
    static const char text[] =
        "H\xC3\xA9llo  w\xC3\xB6rld!\xFF"; // "Héllo  wörld!" and a stray byte
    struct berth_config config;
    struct berth_error error;
    struct berth_tokenizer *tokenizer;
    struct berth_token *tokens;
    size_t count, ill_formed;
    berth_config_init(&config);
    config.vocab_file = vocab;
    assert_int_equal(berth_tokenizer_open(&config, &tokenizer, &error), BERTH_OK);
    assert_int_equal(berth_tokenizer_encode(tokenizer, text, sizeof text - 1, &tokens, &count,
                                            &ill_formed, &error),
                     BERTH_OK);
    assert_int_equal(count, 4);
    assert_int_equal(ill_formed, 1);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(tokens[i].piece, expected[i].piece);
        assert_int_equal(tokens[i].id, expected[i].id);
        assert_int_equal(tokens[i].start, expected[i].start);
        assert_int_equal(tokens[i].end, expected[i].end);
    }
    berth_tokens_free(tokens);
    assert_int_equal(berth_tokenizer_encode(tokenizer, "", 0, &tokens, &count, NULL, NULL),
                     BERTH_OK);
    assert_int_equal(count, 0);
    berth_tokens_free(tokens);
    berth_tokenizer_close(tokenizer);
    berth_tokenizer_close(NULL);
}

struct sum {
    int64_t tensors, bytes, elements;
};

static void add(void *context, const struct berth_tensor_info *info) {
    struct sum *sum = context;
    int64_t elements = 1;
    for (int i = 0; i < info->rank; i++) {
        elements *= info->shape[i];
    }
    assert_string_equal(info->dtype, "F32");
    assert_int_equal(info->bytes, 4 * elements);
    sum->tensors++;
    sum->elements += elements;
    sum->bytes += (int64_t)info->bytes;
}

static void a_new_model_can_be_inspected(void **state) {
    struct berth_error error = {0};
    struct sum sum = {0}, of_file = {0};
    char *config = NULL, path[96];
    assert_int_equal(berth_init_model(config_file, model, 3, &error), BERTH_OK);
    assert_int_equal(berth_inspect(model, add, &sum, &config, &error), BERTH_OK);
    assert_non_null(strstr(config, "\"hidden_size\": 8"));
    berth_string_free(config);
    // tables (9 + 16 + 2) x 8, their norm, one layer, the head 2 x 8 + 2
    assert_int_equal(sum.elements, 27 * 8 + 16 + (4 * (64 + 8) + 2 * 128 + 16 + 8 + 32) + 18);
    assert_int_equal(sum.tensors, 5 + 16 + 2);
    snprintf(path, sizeof path, "%s/model.safetensors", model);
    assert_int_equal(berth_inspect(path, add, &of_file, &config, &error), BERTH_OK);
    assert_null(config);
    assert_int_equal(of_file.bytes, sum.bytes);
    assert_int_equal(berth_init_model(config_file, model, 3, &error), BERTH_CANT_CREATE);
    assert_non_null(strstr(error.message, model));
    int64_t files;
    assert_int_equal(berth_verify(model, &files, &error), BERTH_BAD_DATA);
    assert_int_equal(berth_verify(path, &files, &error), BERTH_NO_INPUT);
    assert_int_equal(berth_inspect(folder, add, &sum, &config, &error), BERTH_NO_INPUT);
}

static void the_seed_decides_the_weights(void **state) {
    struct berth_error error;
    char paths[3][96], command[256];
    for (int i = 0; i < 3; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/seed%d", folder, i);
        assert_int_equal(berth_init_model(config_file, paths[i], i / 2, &error), BERTH_OK);
    }
    snprintf(command, sizeof command, "cmp -s %s/model.safetensors %s/model.safetensors", paths[0],
             paths[1]);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "cmp -s %s/model.safetensors %s/model.safetensors", paths[0],
             paths[2]);
    assert_int_not_equal(system(command), 0);
}

static void statuses_have_names(void **state) {
    static const enum berth_status all[] = {BERTH_OK,       BERTH_FAILURE,     BERTH_USAGE,
                                            BERTH_BAD_DATA, BERTH_NO_INPUT,    BERTH_UNAVAILABLE,
                                            BERTH_INTERNAL, BERTH_NO_MEMORY,   BERTH_CANT_CREATE,
                                            BERTH_IO,       BERTH_INTERRUPTED, BERTH_CONFIG};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_string_not_equal(berth_status_name(all[i]), "unknown status");
    }
    assert_string_equal(berth_status_name((enum berth_status)12345), "unknown status");
    assert_string_equal(berth_version(), BERTH_VERSION);
}

// --- memory that is out
// ---------------------------------------------------------------------------

static enum berth_status tokenize(struct berth_error *error) {
    struct berth_config config;
    struct berth_tokenizer *tokenizer;
    struct berth_token *tokens;
    size_t count;
    berth_config_init(&config);
    config.vocab_file = vocab;
    enum berth_status status = berth_tokenizer_open(&config, &tokenizer, error);
    if (status == BERTH_OK) {
        status = berth_tokenizer_encode(tokenizer, "hello world", 11, &tokens, &count, NULL, error);
        berth_tokens_free(tokens);
        berth_tokenizer_close(tokenizer);
    }
    return status;
}

static enum berth_status initialise(struct berth_error *error) {
    char path[96], command[128];
    snprintf(path, sizeof path, "%s/fresh", folder);
    snprintf(command, sizeof command, "rm -rf %s", path);
    assert_int_equal(system(command), 0);
    return berth_init_model(config_file, path, 1, error);
}

static enum berth_status inspect(struct berth_error *error) {
    struct sum sum = {0};
    char *config;
    enum berth_status status = berth_inspect(model, add, &sum, &config, error);
    berth_string_free(config);
    return status;
}

static enum berth_status report(struct berth_error *error) {
    struct berth_config config;
    struct berth_reporter *reporter;
    berth_config_init(&config);
    config.json_summary = "/dev/null";
    enum berth_status status = berth_reporter_open(&config, STDERR_FILENO, &reporter, error);
    berth_reporter_close(reporter);
    return status;
}

static void every_allocation_may_fail(void **state) {
    enum berth_status (*const jobs[])(struct berth_error *) = {tokenize, initialise, inspect,
                                                               report};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        struct berth_error error = {0};
        memory_fail_at(0, 0);
        assert_int_equal(jobs[i](&error), BERTH_OK);
        uint64_t calls = memory_fail_at(0, 0);
        assert_true(calls > 0);
        for (uint64_t call = 1; call <= calls; call++) {
            error.message[0] = '\0';
            memory_fail_at(call, 0);
            enum berth_status status = jobs[i](&error);
            memory_fail_at(0, 0);
            if (status != BERTH_OK) { // an allocation that serves comfort only may fail unnoticed
                assert_int_equal(status, BERTH_NO_MEMORY);
                assert_string_not_equal(error.message, "");
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_carry_pieces_ids_and_places),
        cmocka_unit_test(a_new_model_can_be_inspected),
        cmocka_unit_test(the_seed_decides_the_weights),
        cmocka_unit_test(statuses_have_names),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
