// SPDX-License-Identifier: Apache-2.0
// Fuzzes the SQuAD reader, with and without a limit. What it accepts must hold together: every text
// ends, every answer stands in its context.
#include "data/characters.h"
#include "data/squad.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void require(int holds) {
    if (!holds) {
        abort();
    }
}

static void check_example(const struct squad_example *example) {
    require(strlen(example->context) == example->context_length);
    require(example->title != NULL && example->question != NULL && example->id != NULL);
    for (size_t i = 0; i < example->answer_count; i++) {
        const struct squad_answer *answer = &example->answers[i];
        require(answer->start >= 0);
        require(characters_skip(example->context, example->context_length, answer->start) <=
                example->context_length);
        require(strlen(answer->text) < SIZE_MAX);
    }
}

static void read(const uint8_t *bytes, size_t size, int64_t limit) {
    struct squad_dataset dataset;
    struct berth_error error;
    enum berth_status status =
        squad_read_memory("fuzz", (const char *)bytes, size, limit, &dataset, &error);
    if (status != BERTH_OK) {
        require(error.message[0] != '\0' && dataset.storage == NULL);
        return;
    }
    require(dataset.count > 0 && (limit == 0 || dataset.count <= (size_t)limit));
    for (size_t i = 0; i < dataset.count; i++) {
        check_example(&dataset.examples[i]);
    }
    squad_check_ids(&dataset, "fuzz", &error);
    squad_dataset_done(&dataset);
}

static void check_missing_file(void) {
    const char *path = "fuzz/no/such/folder/train.json";
    struct squad_dataset dataset;
    struct berth_error error;
    require(squad_read(path, 0, &dataset, &error) != BERTH_OK && dataset.storage == NULL);
    require(strstr(error.message, path) != NULL);
    require(squad_read_references(path, &dataset, &error) != BERTH_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static int checked;
    if (!checked) {
        checked = 1;
        check_missing_file();
    }
    read(bytes, size, 0);
    read(bytes, size, 1);
    return 0;
}
