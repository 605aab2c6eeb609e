// SPDX-License-Identifier: Apache-2.0
// Files listed once, read one after the other, cut into articles by the rule of their form.
#include "data/corpus.h"

#include "core/buffer.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/utf8.h"

#include <string.h>

#define FOLDER_DEPTH 2

struct corpus {
    enum corpus_form form;
    char **files; // paths
    size_t file_count, file_capacity, next_file;
    char *bytes; // of the open file; NULL: none is
    size_t length, at;
    uint64_t size, read; // of all files; of those that were read to their end
    struct buffer article;
};

struct line {
    const char *text;
    size_t length; // without blanks at the end
};

// --- files --------------------------------------------------------------------------------------

static enum berth_status add_file(struct corpus *corpus, char *path, struct berth_error *error) {
    if (path != NULL && corpus->file_count == corpus->file_capacity) {
        size_t capacity = corpus->file_capacity * 2 + 16;
        char **grown = memory_resize(corpus->files, capacity, sizeof *grown);
        if (grown == NULL) {
            memory_free(path);
            path = NULL;
        } else {
            corpus->files = grown;
            corpus->file_capacity = capacity;
        }
    }
    if (path == NULL) {
        return error_no_memory(error, sizeof path, "the list of files");
    }
    corpus->files[corpus->file_count++] = path;
    return BERTH_OK;
}

// "wiki_00" of the extracted form; of books every file that is not hidden.
static int is_wanted(const struct corpus *corpus, const char *name) {
    if (corpus->form == CORPUS_BOOKS) {
        return name[0] != '.';
    }
    size_t digits = strncmp(name, "wiki_", 5) == 0 ? strspn(name + 5, "0123456789") : 0;
    return digits > 0 && name[5 + digits] == '\0';
}

// Into folders: wikicorpus_en, AA, AB, ...
static enum berth_status add_folder(struct corpus *corpus, const char *folder, int depth,
                                    struct berth_error *error) {
    char **names;
    TRY(dir_list(folder, &names, error));
    enum berth_status status = BERTH_OK;
    for (size_t i = 0; names[i] != NULL && status == BERTH_OK; i++) {
        char *path = path_join(folder, names[i]);
        if (path == NULL) {
            status = error_no_memory(error, strlen(folder), "a file name");
        } else if (dir_exists(path)) {
            status = depth < FOLDER_DEPTH && names[i][0] != '.'
                         ? add_folder(corpus, path, depth + 1, error)
                         : BERTH_OK;
            memory_free(path);
        } else if (is_wanted(corpus, names[i])) {
            status = add_file(corpus, path, error);
        } else {
            memory_free(path);
        }
    }
    memory_free(names);
    return status;
}

static enum berth_status list_files(struct corpus *corpus, const char *const *paths, size_t count,
                                    struct berth_error *error) {
    for (size_t i = 0; i < count; i++) {
        if (corpus->form == CORPUS_TEXT) {
            TRY(add_file(corpus, memory_string(paths[i]), error));
        } else {
            TRY(add_folder(corpus, paths[i], 0, error));
        }
    }
    if (corpus->file_count > 0) {
        return BERTH_OK;
    }
    return error_set(
        error, BERTH_NO_INPUT, "%s: expected %s, found none", count > 0 ? paths[0] : "corpus",
        corpus->form == CORPUS_EXTRACTED ? "files as WikiExtractor names them (AA/wiki_00)"
                                         : "files of text");
}

enum berth_status corpus_open(enum corpus_form form, const char *const *paths, size_t count,
                              struct corpus **corpus, struct berth_error *error) {
    *corpus = NULL;
    struct corpus *made = memory_array_zeroed(1, sizeof *made);
    if (made == NULL) {
        return error_no_memory(error, sizeof *made, "a corpus");
    }
    made->form = form;
    enum berth_status status = list_files(made, paths, count, error);
    for (size_t i = 0; i < made->file_count && status == BERTH_OK; i++) {
        struct file_reader file;
        status = file_reader_open(&file, made->files[i], error);
        if (status == BERTH_OK) {
            made->size += file.size;
            file_reader_close(&file);
        }
    }
    if (status != BERTH_OK) {
        corpus_close(made);
        return status;
    }
    *corpus = made;
    return BERTH_OK;
}

const char *corpus_path(const struct corpus *corpus) {
    return corpus->next_file > 0 ? corpus->files[corpus->next_file - 1] : "";
}

uint64_t corpus_size(const struct corpus *corpus) {
    return corpus->size;
}

uint64_t corpus_position(const struct corpus *corpus) {
    size_t at = corpus->at < corpus->length ? corpus->at : corpus->length;
    return corpus->read + (corpus->bytes != NULL ? at : 0);
}

static enum berth_status open_file(struct corpus *corpus, struct berth_error *error) {
    const char *path = corpus->files[corpus->next_file++];
    TRY(file_read(path, CORPUS_FILE_MAX, &corpus->bytes, &corpus->length, error));
    corpus->at = 0;
    size_t text = strlen(corpus->bytes);
    const char *bad = utf8_find_ill_formed(corpus->bytes);
    if (bad != NULL || text < corpus->length) {
        return error_set(error, BERTH_BAD_DATA, "%s: byte %zu: expected UTF-8, found %s", path,
                         bad != NULL ? (size_t)(bad - corpus->bytes) : text,
                         bad != NULL ? "something else" : "a NUL");
    }
    return BERTH_OK;
}

// --- articles -----------------------------------------------------------------------------------

static int is_blank(char byte) {
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\v' || byte == '\f';
}

// The next line; 0 at the end of the file.
static int next_line(struct corpus *corpus, struct line *line) {
    if (corpus->at >= corpus->length) {
        return 0;
    }
    const char *text = corpus->bytes + corpus->at;
    size_t left = corpus->length - corpus->at;
    const char *end = memchr(text, '\n', left);
    size_t length = end != NULL ? (size_t)(end - text) : left;
    corpus->at += length + 1;
    while (length > 0 && is_blank(text[length - 1])) {
        length--;
    }
    *line = (struct line){text, length};
    return 1;
}

static int line_is(const struct line *line, const char *text) {
    return line->length == strlen(text) && memcmp(line->text, text, line->length) == 0;
}

static void put_line(struct corpus *corpus, const struct line *line) {
    if (line->length > 0) {
        buffer_put(&corpus->article, line->text, line->length);
        buffer_put_byte(&corpus->article, '\n');
    }
}

// Up to the next </doc>.
static enum berth_status read_extracted(struct corpus *corpus, struct berth_error *error) {
    static const char open[] = "<doc id=";
    struct line line;
    int inside = 0, titled = 0;
    while (next_line(corpus, &line)) {
        int begins = line.length > strlen(open) && memcmp(line.text, open, strlen(open)) == 0;
        if (line_is(&line, "</doc>")) {
            return BERTH_OK;
        }
        if (begins && inside) {
            break;
        }
        if (inside && !titled) {
            titled = line.length > 0;
        } else if (inside) {
            put_line(corpus, &line);
        }
        inside |= begins;
    }
    return inside ? error_set(error, BERTH_BAD_DATA,
                              "%s: byte %zu: expected </doc> before this: the file is cut",
                              corpus_path(corpus), corpus->at)
                  : BERTH_OK;
}

// Up to an empty line.
static void read_text(struct corpus *corpus) {
    struct line line;
    while (next_line(corpus, &line) && line.length > 0) {
        put_line(corpus, &line);
    }
}

static void read_book(struct corpus *corpus) {
    struct line line;
    while (next_line(corpus, &line)) {
        put_line(corpus, &line);
    }
}

enum berth_status corpus_next(struct corpus *corpus, const char **lines, size_t *length,
                              struct berth_error *error) {
    *lines = "";
    *length = 0;
    buffer_clear(&corpus->article);
    while (corpus->article.length == 0) {
        if (corpus->bytes == NULL || corpus->at >= corpus->length) {
            corpus->read = corpus_position(corpus);
            memory_free(corpus->bytes);
            corpus->bytes = NULL;
            if (corpus->next_file == corpus->file_count) {
                return BERTH_OK;
            }
            TRY(open_file(corpus, error));
        }
        if (corpus->form == CORPUS_EXTRACTED) {
            TRY(read_extracted(corpus, error));
        } else if (corpus->form == CORPUS_TEXT) {
            read_text(corpus);
        } else {
            read_book(corpus);
        }
        if (corpus->article.failed) {
            return error_no_memory(error, corpus->length, corpus_path(corpus));
        }
    }
    *lines = corpus->article.bytes;
    *length = corpus->article.length;
    return BERTH_OK;
}

void corpus_close(struct corpus *corpus) {
    if (corpus == NULL) {
        return;
    }
    for (size_t i = 0; i < corpus->file_count; i++) {
        memory_free(corpus->files[i]);
    }
    memory_free(corpus->files);
    memory_free(corpus->bytes);
    buffer_done(&corpus->article);
    memory_free(corpus);
}
