// SPDX-License-Identifier: Apache-2.0
// Writes start and end logits in fp32, for comparison with other runtimes
// (dev/others).
//
//   dump_logits MODEL_FOLDER < sequences > logits
//
// Input: any number of sequences, each a 32-bit length, that many ids and that many token types.
// Output: two f32 per token. All numbers are in the machine's byte order.
#include "core/file.h"
#include "core/memory.h"
#include "harness.h"
#include "model/folder.h"

#include <stdio.h>
#include <stdlib.h>

static int fail(const char *message) {
    fprintf(stderr, "dump_logits: %s\n", message);
    return 1;
}

static int dump_sequence(struct harness *harness, const int32_t *numbers, int64_t length) {
    struct reference_sequence sequence = {
        .length = length, .ids = numbers, .type_ids = numbers + length};
    struct packed *packed = packed_new(&sequence, 1);
    const struct batch *batch = harness_batch(harness, packed);
    bert_forward(&harness->model, harness->activations, batch, NULL);
    float *logits = harness_logits(harness, batch);
    size_t count = 2 * (size_t)length;
    int good = fwrite(logits, sizeof *logits, count, stdout) == count;
    free(logits);
    packed_free(packed);
    return good ? 0 : fail("cannot write");
}

static int dump_all(struct harness *harness) {
    uint32_t length;
    int status = 0;
    while (status == 0 && fread(&length, sizeof length, 1, stdin) == 1) {
        if (length < 1 || length > harness->config.max_position_embeddings) {
            return fail("a sequence has no tokens or more than the model has positions");
        }
        int32_t *numbers = memory_array(2 * (size_t)length, sizeof *numbers);
        if (numbers == NULL || fread(numbers, 2 * sizeof *numbers, length, stdin) != length) {
            status = fail("a sequence is cut short");
        } else {
            status = dump_sequence(harness, numbers, length);
        }
        memory_free(numbers);
    }
    return status;
}

static int load(struct harness *harness, const char *folder, struct berth_error *error) {
    float *parameters = memory_array((size_t)harness->table.total, sizeof *parameters);
    struct folder_report report;
    int status =
        parameters == NULL || folder_read_weights(folder, &harness->config, &harness->table, 0,
                                                  parameters, &report, error) != BERTH_OK;
    if (status == 0) {
        harness_load(harness, parameters);
        folder_report_done(&report);
    }
    memory_free(parameters);
    return status;
}

int main(int argc, char **argv) {
    struct berth_error error = {.message = "out of memory"};
    struct bert_config config;
    struct harness harness;
    char *path = argc == 2 ? path_join(argv[1], "config.json") : NULL;
    if (path == NULL) {
        return fail("MODEL_FOLDER < sequences > logits");
    }
    enum berth_status status = bert_config_read(path, &config, &error);
    memory_free(path);
    if (status != BERTH_OK) {
        return fail(error.message);
    }
    int64_t longest = config.max_position_embeddings;
    struct harness_options options = {.compute = DTYPE_F32,
                                      .max_rows = longest,
                                      .max_sequences = 1,
                                      .max_length = longest,
                                      .inference = 1};
    int result = 1;
    if (harness_open(&harness, &config, &options)) {
        result = load(&harness, argv[1], &error) != 0 ? fail(error.message) : dump_all(&harness);
        harness_close(&harness);
    }
    bert_config_done(&config);
    return result;
}
