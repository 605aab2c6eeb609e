// SPDX-License-Identifier: Apache-2.0
// Tokens as numbers, for comparison with other tokenizers (dev/unicode/check_tokenizer.py).
//
//   dump_tokens VOCAB huggingface|google [un]cased[-strip|-keep][-whole] keep|split < texts >
//   tokens
//   dump_tokens TOKENIZER.json < texts > tokens
//   dump_tokens FOLDER < texts > tokens
//
// In: any number of texts, each a 32-bit length and that many bytes. Out, for each: the number of
// tokens, then id, word, begin, end, byte_begin, byte_end of each; 32-bit numbers of this machine.
#include "core/file.h"
#include "core/memory.h"
#include "format/json/json.h"
#include "model/folder.h"
#include "text/tokenizer.h"

#include <stdio.h>
#include <string.h>

static int fail(const char *message) {
    fprintf(stderr, "dump_tokens: %s\n", message);
    return 1;
}

static int write_tokens(const struct token_list *list) {
    uint32_t count = (uint32_t)list->count;
    return fwrite(&count, sizeof count, 1, stdout) == 1 &&
           (count == 0 || fwrite(list->items, sizeof *list->items, count, stdout) == count);
}

static int dump(const struct tokenizer *tokenizer) {
    struct token_list list = {0};
    struct berth_error error;
    uint32_t length;
    int status = 0;
    while (status == 0 && fread(&length, sizeof length, 1, stdin) == 1) {
        char *text = memory_new(length);
        list.count = 0;
        if (text == NULL || fread(text, 1, length, stdin) != length) {
            status = fail("a text is cut short");
        } else if (tokenizer_encode(tokenizer, text, length, &list, &error) != BERTH_OK) {
            status = fail(error.message);
        } else if (!write_tokens(&list)) {
            status = fail("cannot write");
        }
        memory_free(text);
    }
    token_list_done(&list);
    return status;
}

static enum berth_status open_bert(char **words, struct tokenizer **tokenizer,
                                   struct berth_error *error) {
    const struct tokenizer_options options = {
        .rules = strcmp(words[2], "google") == 0 ? TOKENIZER_GOOGLE : TOKENIZER_HUGGINGFACE,
        .lower_case = strstr(words[3], "uncased") != NULL,
        .accents = strstr(words[3], "strip") != NULL  ? TOKENIZER_ACCENTS_STRIP
                   : strstr(words[3], "keep") != NULL ? TOKENIZER_ACCENTS_KEEP
                                                      : TOKENIZER_ACCENTS_AUTO,
        .whole_ideographs = strstr(words[3], "whole") != NULL,
        .split_special = strcmp(words[4], "split") == 0};
    return tokenizer_open(words[1], &options, tokenizer, error);
}

static enum berth_status open_pipeline(const char *path, struct tokenizer **tokenizer,
                                       struct berth_error *error) {
    const struct tokenizer_names names = {.pad = NULL};
    const struct tokenizer_options options = {.lower_case = 0};
    json *object;
    TRY(json_read_file(path, &object, error));
    const enum berth_status status =
        tokenizer_open_pipeline(path, object, &names, &options, tokenizer, error);
    json_free(object);
    return status;
}

static enum berth_status open_folder(const char *folder, struct tokenizer **tokenizer,
                                     struct berth_error *error) {
    const struct tokenizer_names names = {.pad = NULL};
    const struct tokenizer_options options = {.lower_case = 0};
    struct vocabulary_file file = {0};
    char *path;
    enum berth_status status = folder_find_vocabulary(folder, &path, &file, error);
    status = status == BERTH_OK ? folder_read_vocabulary(folder, path, &file, error) : status;
    status = status == BERTH_OK
                 ? tokenizer_open_pipeline(path, file.object, &names, &options, tokenizer, error)
                 : status;
    vocabulary_file_done(&file);
    memory_free(path);
    return status;
}

int main(int argc, char **argv) {
    if (argc != 2 && argc != 5) {
        return fail("VOCAB huggingface|google [un]cased[-strip|-keep][-whole] keep|split, or "
                    "TOKENIZER.json, or FOLDER");
    }
    struct tokenizer *tokenizer;
    struct berth_error error;
    const enum berth_status opened = argc == 5 ? open_bert(argv, &tokenizer, &error)
                                     : dir_exists(argv[1])
                                         ? open_folder(argv[1], &tokenizer, &error)
                                         : open_pipeline(argv[1], &tokenizer, &error);
    if (opened != BERTH_OK) {
        return fail(error.message);
    }
    int status = dump(tokenizer);
    tokenizer_close(tokenizer);
    return status;
}
