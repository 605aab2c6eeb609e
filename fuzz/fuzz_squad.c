// SPDX-License-Identifier: Apache-2.0
// Fuzzes the SQuAD reader. In an accepted file every string ends, and every answer that is not
// marked is in its context.
//
// Settings: bit 0 through a file, bit 1 for scoring only (a file, too), bits 2 to 7 the limit.
#include "core/utf8.h"
#include "data/squad/squad.h"
#include "input.h"

enum { THROUGH_FILE = 1, REFERENCES = 2 };

static void check_example(const struct squad_example *example, int checked) {
    require(strlen(example->context) == example->context_length);
    fuzz_read_text(example->title);
    fuzz_read_text(example->question);
    fuzz_read_text(example->id);
    for (size_t i = 0; i < example->answer_count; i++) {
        const struct squad_answer *answer = &example->answers[i];
        checked = checked && !answer->misplaced;
        require(!checked || answer->start >= 0);
        require(!checked || utf8_skip(example->context, example->context_length, answer->start) <=
                                example->context_length);
        fuzz_read_text(answer->text);
    }
}

static enum berth_status read_input(const struct fuzz_input *input, int64_t limit,
                                    struct squad_dataset *dataset, struct berth_error *error) {
    if ((input->settings & (THROUGH_FILE | REFERENCES)) == 0) {
        return squad_read_memory("fuzz", (const char *)input->bytes, input->size, limit, dataset,
                                 error);
    }
    const char *path = fuzz_file(input->bytes, input->size);
    return (input->settings & REFERENCES) != 0 ? squad_read_references(path, dataset, error)
                                               : squad_read(path, limit, dataset, error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    int references = (input.settings & REFERENCES) != 0;
    int64_t limit = references ? 0 : input.settings >> 2;
    struct squad_dataset dataset;
    struct berth_error error = {0};
    fuzz_failing_begin(input.fail_at);
    enum berth_status status = read_input(&input, limit, &dataset, &error);
    fuzz_failing_end(input.fail_at, status, &error);
    if (status != BERTH_OK) {
        require(dataset.storage == NULL);
        return 0;
    }
    require(dataset.count > 0 && (limit == 0 || dataset.count <= (size_t)limit));
    for (size_t i = 0; i < dataset.count; i++) {
        check_example(&dataset.examples[i], !references);
    }
    fuzz_failing_begin(input.fail_at);
    status = squad_check_ids(&dataset, "fuzz", &error);
    fuzz_failing_end(input.fail_at, status, &error);
    squad_dataset_done(&dataset);
    return 0;
}
