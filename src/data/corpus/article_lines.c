// SPDX-License-Identifier: Apache-2.0
// Writes articles to one file, an article on each line with its own lines joined by blanks
// (article_lines.h). The job prepare calls it where it is given an output_file. Articles come from
// corpus.h.
#include "data/corpus/article_lines.h"

#include <stdatomic.h>
#include <string.h>

enum berth_status article_lines_open(struct article_lines *lines, const char *path,
                                     struct berth_error *error) {
    *lines = (struct article_lines){.file = {.descriptor = -1}};
    TRY(dir_make_parent(path, error));
    return file_writer_open(&lines->file, path, error);
}

// `text`: lines that end in newlines.
static enum berth_status put_article(struct article_lines *lines, const char *text, size_t length,
                                     struct berth_error *error) {
    for (size_t begin = 0, end; begin < length; begin = end + 1) {
        end = begin +
              (size_t)((const char *)memchr(text + begin, '\n', length - begin) - (text + begin));
        TRY(file_writer_put(&lines->file, text + begin, end - begin, error));
        TRY(file_writer_put(&lines->file, end + 1 < length ? " " : "\n\n", end + 1 < length ? 1 : 2,
                            error));
    }
    lines->articles++;
    lines->bytes += (int64_t)length + 1;
    return BERTH_OK;
}

static enum berth_status check_files(const struct article_lines *lines, const struct corpus *corpus,
                                     struct berth_error *error) {
    size_t count;
    const char *const *files = corpus_files(corpus, &count);
    for (size_t i = 0; i < count; i++) {
        TRY(file_check_output(lines->file.path, files[i], error));
    }
    return BERTH_OK;
}

enum berth_status article_lines_add(struct article_lines *lines, enum corpus_form form,
                                    const char *const *paths, size_t count, const atomic_int *stop,
                                    struct berth_error *error) {
    struct corpus *corpus;
    const char *text;
    size_t length = 1;
    TRY(corpus_open(form, paths, count, &corpus, error));
    enum berth_status status = check_files(lines, corpus, error);
    while (status == BERTH_OK && length > 0) {
        if (stop != NULL && *stop) {
            status = error_set(error, BERTH_INTERRUPTED,
                               "stopped: %s is not written, because it is not complete",
                               lines->file.path);
            break;
        }
        status = corpus_next(corpus, &text, &length, error);
        if (status == BERTH_OK && length > 0) {
            status = put_article(lines, text, length, error);
        }
    }
    corpus_close(corpus);
    return status;
}

enum berth_status article_lines_commit(struct article_lines *lines, struct berth_error *error) {
    return file_writer_commit(&lines->file, error);
}

void article_lines_done(struct article_lines *lines) {
    file_writer_abort(&lines->file);
}
