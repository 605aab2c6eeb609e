// SPDX-License-Identifier: Apache-2.0
// Lists the files of a corpus once, reads them one after another through a window, and splits them
// into articles by the rule of the corpus form. The stages of `berth prepare` and the job vocab
// take articles from it; sentences are found by sentences.h.
#include "data/corpus/corpus.h"

#include "core/buffer.h"
#include "core/compressed.h"
#include "core/encoding.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/utf8.h"
#include "text/python.h"

#include <string.h>

#define FOLDER_DEPTH 32 // a link to a folder above never ends
#define WINDOW_BYTES ((size_t)256 << 10)
#define LINE_SHOWN 40 // bytes

struct corpus {
    enum corpus_form form;
    char **files; // paths
    size_t file_count, file_capacity, next_file;
    uint64_t size;           // of all files
    struct file_reader file; // the current file; descriptor -1: none is open
    uint64_t read_bytes;     // of the current file
    uint64_t previous_bytes; // of the files before it
    char *window;            // bytes of the current file up to `read_bytes`
    size_t filled, offset, capacity;
    struct buffer article;
};

struct line {
    const char *text;
    size_t length; // without trailing white space
};

// --- files --------------------------------------------------------------------------------------

static enum berth_status add_file(struct corpus *corpus, char *path, struct berth_error *error) {
    char **grown = NULL;
    if (path != NULL) {
        grown = memory_grow(corpus->files, &corpus->file_capacity, corpus->file_count + 1,
                            sizeof *grown);
    }
    if (grown == NULL) {
        memory_free(path);
        return error_no_memory(error, sizeof path, "the list of files");
    }
    corpus->files = grown;
    corpus->files[corpus->file_count++] = path;
    return BERTH_OK;
}

// In the extracted form only files such as "wiki_00" count, and "wiki_00.bz2", which is refused
// when it is read; otherwise every file that is not hidden.
static int is_corpus_file(const struct corpus *corpus, const char *name) {
    if (corpus->form != CORPUS_EXTRACTED) {
        return name[0] != '.';
    }
    size_t digits = strncmp(name, "wiki_", 5) == 0 ? strspn(name + 5, "0123456789") : 0;
    return digits > 0 && (name[5 + digits] == '\0' || strcmp(name + 5 + digits, ".bz2") == 0);
}

// Descends into folders: wikicorpus_en, AA, AB, ...
static enum berth_status add_folder(struct corpus *corpus, const char *folder, int depth,
                                    struct berth_error *error) {
    char **names;
    if (depth > FOLDER_DEPTH) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: expected folders nested at most %d deep, found more; is there a link "
                         "to a folder above it?",
                         folder, FOLDER_DEPTH);
    }
    TRY(dir_list(folder, &names, error));
    enum berth_status status = BERTH_OK;
    for (size_t i = 0; names[i] != NULL && status == BERTH_OK; i++) {
        char *path = path_join(folder, names[i]);
        if (path == NULL) {
            status = error_no_memory(error, 0, "a path");
        } else if (dir_exists(path)) {
            status = names[i][0] != '.' ? add_folder(corpus, path, depth + 1, error) : BERTH_OK;
            memory_free(path);
        } else if (is_corpus_file(corpus, names[i])) {
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
        if (corpus->form == CORPUS_TEXT && !dir_exists(paths[i])) {
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
    struct corpus *opened = memory_array_zeroed(1, sizeof *opened);
    if (opened == NULL) {
        return error_no_memory(error, sizeof *opened, "a corpus");
    }
    opened->form = form;
    opened->file.descriptor = -1;
    enum berth_status status = list_files(opened, paths, count, error);
    for (size_t i = 0; i < opened->file_count && status == BERTH_OK; i++) {
        struct file_reader file;
        status = file_reader_open(&file, opened->files[i], error);
        if (status == BERTH_OK) {
            opened->size += file.size;
            file_reader_close(&file);
        }
    }
    if (status != BERTH_OK) {
        corpus_close(opened);
        return status;
    }
    *corpus = opened;
    return BERTH_OK;
}

const char *corpus_path(const struct corpus *corpus) {
    return corpus->next_file > 0 ? corpus->files[corpus->next_file - 1] : "";
}

uint64_t corpus_size(const struct corpus *corpus) {
    return corpus->size;
}

uint64_t corpus_position(const struct corpus *corpus) {
    return corpus->previous_bytes + corpus->read_bytes - (corpus->filled - corpus->offset);
}

const char *const *corpus_files(const struct corpus *corpus, size_t *count) {
    *count = corpus->file_count;
    return (const char *const *)corpus->files;
}

static enum berth_status open_file(struct corpus *corpus, struct berth_error *error) {
    TRY(file_reader_open(&corpus->file, corpus->files[corpus->next_file], error));
    corpus->next_file++;
    corpus->filled = corpus->offset = 0;
    // Starts after the UTF-8 byte order mark, if the file has one.
    char head[COMPRESSED_HEAD];
    const size_t length = corpus->file.size < sizeof head ? (size_t)corpus->file.size : sizeof head;
    size_t mark;
    TRY(file_reader_at(&corpus->file, 0, head, length, error));
    TRY(compressed_refuse(corpus_path(corpus), head, length, error));
    corpus->read_bytes = encoding_of(head, length, &mark) == ENCODING_UTF8 ? mark : 0;
    return BERTH_OK;
}

// Reads more bytes into the window, which grows when a single line fills it.
static enum berth_status fill_window(struct corpus *corpus, struct berth_error *error) {
    if (corpus->offset > 0) {
        memmove(corpus->window, corpus->window + corpus->offset, corpus->filled - corpus->offset);
        corpus->filled -= corpus->offset;
        corpus->offset = 0;
    }
    if (corpus->filled == corpus->capacity) {
        size_t capacity = corpus->capacity > 0 ? 2 * corpus->capacity : WINDOW_BYTES;
        if (capacity > CORPUS_ARTICLE_MAX) {
            return error_set(error, BERTH_BAD_DATA, "%s: a line exceeds %zu bytes",
                             corpus_path(corpus), CORPUS_ARTICLE_MAX);
        }
        char *grown = memory_resize(corpus->window, capacity, 1);
        if (grown == NULL) {
            return error_no_memory(error, capacity, corpus_path(corpus));
        }
        corpus->window = grown;
        corpus->capacity = capacity;
    }
    uint64_t left = corpus->file.size - corpus->read_bytes;
    size_t room = corpus->capacity - corpus->filled, more = left < room ? (size_t)left : room;
    TRY(file_reader_at(&corpus->file, corpus->read_bytes, corpus->window + corpus->filled, more,
                       error));
    corpus->filled += more;
    corpus->read_bytes += more;
    return BERTH_OK;
}

// --- articles -----------------------------------------------------------------------------------

enum berth_status corpus_check_text(const char *path, uint64_t offset, const char *text,
                                    size_t length, struct berth_error *error) {
    const size_t valid = utf8_text_prefix(text, length);
    return valid == length
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA,
                           "%s: byte %llu: expected UTF-8 text, found byte 0x%02X; convert the "
                           "file to UTF-8 or leave it out",
                           path, (unsigned long long)(offset + valid), (unsigned char)text[valid]);
}

static uint64_t line_offset(const struct corpus *corpus, const struct line *line) {
    return corpus->read_bytes - corpus->filled + (uint64_t)(line->text - corpus->window);
}

// The next line, borrowed until the next call; *more is 0 at the end of the file.
static enum berth_status next_line(struct corpus *corpus, struct line *line, int *more,
                                   struct berth_error *error) {
    size_t length = 0, end = 0;
    for (;;) {
        const size_t available = corpus->filled - corpus->offset;
        if (available > length) {
            length += python_line_length(corpus->window + corpus->offset + length,
                                         available - length, &end);
        }
        // An LF may follow a CR that is the window's last byte.
        if (length + end < available || corpus->read_bytes == corpus->file.size) {
            break;
        }
        TRY(fill_window(corpus, error));
    }
    const char *text = corpus->window + corpus->offset;
    *more = length + end > 0;
    corpus->offset += length + end;
    *line = (struct line){text, python_rstrip_length(text, length)};
    return corpus_check_text(corpus_path(corpus), line_offset(corpus, line), line->text,
                             line->length, error);
}

static int line_is(const struct line *line, const char *text) {
    return line->length == strlen(text) && memcmp(line->text, text, line->length) == 0;
}

static enum berth_status append_line(struct corpus *corpus, const struct line *line,
                                     struct berth_error *error) {
    if (line->length > 0) {
        buffer_put(&corpus->article, line->text, line->length);
        buffer_put_byte(&corpus->article, '\n');
    }
    if (corpus->article.failed) {
        return error_no_memory(error, corpus->article.length, corpus_path(corpus));
    }
    return corpus->article.length <= CORPUS_ARTICLE_MAX
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA, "%s: an article exceeds %zu bytes",
                           corpus_path(corpus), CORPUS_ARTICLE_MAX);
}

// Reads up to the next </doc>.
static enum berth_status read_extracted(struct corpus *corpus, struct berth_error *error) {
    static const char open[] = "<doc id=";
    struct line line;
    int inside = 0, titled = 0, more;
    for (;;) {
        TRY(next_line(corpus, &line, &more, error));
        int begins = line.length > strlen(open) && memcmp(line.text, open, strlen(open)) == 0;
        if (line_is(&line, "</doc>") || (!more && !inside)) {
            return BERTH_OK;
        }
        if (!more || (begins && inside)) {
            break;
        }
        if (!begins && !inside && line.length > 0) {
            // Text outside of articles would be lost: that of WikiExtractor's JSON, for example.
            return error_set(
                error, BERTH_BAD_DATA,
                "%s: byte %llu: expected <doc id=...>, as WikiExtractor writes without "
                "--json, found \"%.*s\"",
                corpus_path(corpus), (unsigned long long)line_offset(corpus, &line),
                (int)utf8_cut(line.text, line.length, LINE_SHOWN), line.text);
        }
        if (inside && !titled) {
            titled = line.length > 0;
        } else if (inside) {
            TRY(append_line(corpus, &line, error));
        }
        inside |= begins;
    }
    return error_set(error, BERTH_BAD_DATA,
                     "%s: byte %llu: expected </doc> before this: the file is truncated",
                     corpus_path(corpus),
                     (unsigned long long)(corpus->read_bytes - (corpus->filled - corpus->offset)));
}

// Reads to an empty line, or to the end of the file if empty lines do not end an article.
static enum berth_status read_lines(struct corpus *corpus, int to_empty,
                                    struct berth_error *error) {
    struct line line;
    int more;
    for (;;) {
        TRY(next_line(corpus, &line, &more, error));
        if (!more || (to_empty && line.length == 0)) {
            return BERTH_OK;
        }
        TRY(append_line(corpus, &line, error));
    }
}

enum berth_status corpus_next(struct corpus *corpus, const char **lines, size_t *length,
                              struct berth_error *error) {
    *lines = "";
    *length = 0;
    buffer_clear(&corpus->article);
    while (corpus->article.length == 0) {
        if (corpus->file.descriptor < 0 ||
            (corpus->offset == corpus->filled && corpus->read_bytes == corpus->file.size)) {
            file_reader_close(&corpus->file);
            corpus->file.descriptor = -1;
            corpus->previous_bytes += corpus->read_bytes;
            corpus->read_bytes = 0;
            corpus->filled = corpus->offset = 0;
            if (corpus->next_file == corpus->file_count) {
                return BERTH_OK;
            }
            TRY(open_file(corpus, error));
            continue; // the article may be empty
        }
        TRY(corpus->form == CORPUS_EXTRACTED
                ? read_extracted(corpus, error)
                : read_lines(corpus, corpus->form == CORPUS_TEXT, error));
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
    file_reader_close(&corpus->file);
    memory_free(corpus->window);
    buffer_done(&corpus->article);
    memory_free(corpus);
}
