// SPDX-License-Identifier: Apache-2.0
// Fuzzes the corpus reader in all forms: articles are lines of UTF-8 without trailing blanks, and
// two files with the same bytes give the same articles twice.
//
// Bits 0 and 1 of the settings: the form (0 and 3: extracted, 1: text, 2: books).
#include "core/buffer.h"
#include "core/utf8.h"
#include "data/corpus/corpus.h"
#include "input.h"

#include <sys/stat.h>

static char folder[64];

static void remove_folder(void) {
    char path[128];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/wiki_0%d", folder, i);
        unlink(path);
    }
    rmdir(folder);
}

// A folder with two links to the file in memory.
static void make_folder(const char *file) {
    char path[128];
    fuzz_make_folder(folder, remove_folder);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/wiki_0%d", folder, i);
        require(symlink(file, path) == 0);
    }
}

static void check_article(const char *lines, size_t length) {
    require(lines[length - 1] == '\n' && lines[0] != '\n');
    require(utf8_is_valid(lines, length) && memchr(lines, '\0', length) == NULL);
    for (size_t i = 1; i < length; i++) {
        require(lines[i] != '\n' || (lines[i - 1] != '\n' && lines[i - 1] != ' ' &&
                                     lines[i - 1] != '\t' && lines[i - 1] != '\r'));
    }
}

// All articles, each with an empty line after it.
static enum berth_status read_all(struct corpus *corpus, struct buffer *all,
                                  struct berth_error *error) {
    const char *lines;
    size_t length = 1;
    while (length > 0) {
        enum berth_status status = corpus_next(corpus, &lines, &length, error);
        if (status != BERTH_OK) {
            return status;
        }
        require(corpus_position(corpus) <= corpus_size(corpus));
        if (length > 0) {
            check_article(lines, length);
            buffer_put(all, lines, length);
            buffer_put_byte(all, '\n');
            if (all->failed) {
                return error_no_memory(error, length, "articles");
            }
        }
    }
    require(corpus_position(corpus) == corpus_size(corpus));
    return BERTH_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const enum corpus_form forms[] = {CORPUS_EXTRACTED, CORPUS_TEXT, CORPUS_BOOKS,
                                             CORPUS_EXTRACTED};
    struct fuzz_input input = fuzz_input_of(data, size);
    struct berth_error error = {0};
    struct corpus *corpus = NULL;
    struct buffer all = {0};
    const char *file = fuzz_file(input.bytes, input.size);
    if (folder[0] == '\0') {
        make_folder(file);
    }
    const char *path = folder;
    fuzz_failing_begin(input.fail_at);
    enum berth_status status = corpus_open(forms[input.settings & 3], &path, 1, &corpus, &error);
    if (status == BERTH_OK) {
        status = read_all(corpus, &all, &error);
    }
    fuzz_failing_end(input.fail_at, status, &error);
    require(status == BERTH_OK || status == BERTH_BAD_DATA || status == BERTH_NO_MEMORY);
    if (status == BERTH_OK) {
        size_t half = all.length / 2;
        require(all.length <= 2 * (2 * input.size + 1) && all.length % 2 == 0);
        require(half == 0 || memcmp(all.bytes, all.bytes + half, half) == 0);
    }
    corpus_close(corpus);
    buffer_done(&all);
    return 0;
}
