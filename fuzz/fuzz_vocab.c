// SPDX-License-Identifier: Apache-2.0
// Fuzzes the vocabulary reader: any bytes are refused with a message, or give a tokenizer whose
// pieces are found under their ids, or under that of the last of equal ones.
//
// Settings: bit 0 cased, bit 1 Google's rules, bit 2 read through a file.
#include "input.h"
#include "text/tokenizer.h"

static void check_pieces(const struct tokenizer *tokenizer) {
    size_t size = tokenizer_size(tokenizer);
    for (size_t id = 0; id < size; id++) {
        const char *piece = tokenizer_piece(tokenizer, (int32_t)id);
        require(piece != NULL);
        const int32_t found = tokenizer_find(tokenizer, piece, strlen(piece));
        require(found >= (int32_t)id && strcmp(tokenizer_piece(tokenizer, found), piece) == 0);
    }
    require(tokenizer_piece(tokenizer, -1) == NULL &&
            tokenizer_piece(tokenizer, (int32_t)size) == NULL);
}

static enum berth_status open_input(const struct fuzz_input *input, struct tokenizer **tokenizer) {
    struct tokenizer_options options = {
        .lower_case = (input->settings & 1) == 0,
        .rules = (input->settings & 2) != 0 ? TOKENIZER_GOOGLE : TOKENIZER_HUGGINGFACE};
    struct berth_error error = {0};
    const char *path = (input->settings & 4) != 0 ? fuzz_file(input->bytes, input->size) : NULL;
    fuzz_failing_begin(input->fail_at);
    enum berth_status status =
        path != NULL ? tokenizer_open(path, &options, tokenizer, &error)
                     : tokenizer_open_memory("fuzz", (const char *)input->bytes, input->size,
                                             &options, tokenizer, &error);
    int failed = fuzz_failing_end(input->fail_at, status, &error);
    require(failed || status == BERTH_OK || status == BERTH_BAD_DATA);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char text[] = "The [CLS] caf\xC3\xA9 of \xE4\xB8\xAD\xE5\x9B\xBD, unaffable \xFF!";
    struct fuzz_input input = fuzz_input_of(data, size);
    struct tokenizer *tokenizer;
    if (open_input(&input, &tokenizer) != BERTH_OK) {
        require(tokenizer == NULL);
        return 0;
    }
    struct token_list list = {0};
    check_pieces(tokenizer);
    require(tokenizer_encode(tokenizer, text, sizeof text - 1, &list, NULL) == BERTH_OK &&
            list.ill_formed == 1);
    token_list_done(&list);
    tokenizer_close(tokenizer);
    return 0;
}
