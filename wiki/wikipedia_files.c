// SPDX-License-Identifier: Apache-2.0
// Puts cleaned articles into the files of the text folder: the tags around an article, when a file
// is full and the next one begins, and the entry of a finished one in text.json
// (data/wikipedia/wikipedia_state.h). wikipedia.c calls it in the order of the dump.
#include "wiki/wikipedia_files.h"

#include "core/number.h"

#include <inttypes.h>
#include <string.h>

enum berth_status wikipedia_files_open(struct wikipedia_files *files,
                                       const struct wikipedia_settings *settings,
                                       struct berth_error *error) {
    files->settings = settings;
    TRY(dir_make(settings->folder, error));
    TRY(file_lock_acquire(&files->lock, settings->folder, error));
    TRY(wikipedia_state_open(&files->state, settings, error));
    if (files->state.count > 0) {
        files->last = files->state.files[files->state.count - 1];
        files->saved = files->last.counts;
    }
    return BERTH_OK;
}

// --- an article ---------------------------------------------------------------------------------

// Whether the text would be read as the start or end of a document.
static int is_document_tag(const char *text, size_t length) {
    static const char *const tags[] = {"<doc id=", "</doc>"};
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        size_t own = strlen(tags[i]);
        if (length >= own && memcmp(text, tags[i], own) == 0) {
            return 1;
        }
    }
    return 0;
}

void wikipedia_put_text(struct buffer *to, const char *text, size_t length) {
    const char *end = text + length, *begin = text;
    for (const char *at = text; (at = memchr(at, '<', (size_t)(end - at))) != NULL; at++) {
        if (is_document_tag(at, (size_t)(end - at))) {
            buffer_put(to, begin, (size_t)(at - begin));
            buffer_put_text(to, "&lt;");
            begin = at + 1;
        }
    }
    buffer_put(to, begin, (size_t)(end - begin));
}

static void put_attribute(struct buffer *to, const char *text) {
    for (; *text != '\0'; text++) {
        const char *escaped = *text == '&'                 ? "&amp;"
                              : *text == '"'               ? "&quot;"
                              : *text == '<'               ? "&lt;"
                              : *text == '>'               ? "&gt;"
                              : (unsigned char)*text < ' ' ? " "
                                                           : NULL;
        if (escaped != NULL) {
            buffer_put_text(to, escaped);
        } else {
            buffer_put_byte(to, *text);
        }
    }
}

static void put_header(struct wikipedia_files *files, const struct wikipedia_article *article) {
    char id[NUMBER_TEXT_SIZE];
    number_format(id, sizeof id, "%" PRId64, article->id);
    buffer_clear(&files->header);
    buffer_put_text(&files->header, "<doc id=\"");
    buffer_put_text(&files->header, id);
    buffer_put_text(&files->header, "\" url=\"");
    put_attribute(&files->header, article->url);
    buffer_put_text(&files->header, "?curid=");
    buffer_put_text(&files->header, id);
    buffer_put_text(&files->header, "\" title=\"");
    put_attribute(&files->header, article->title);
    buffer_put_text(&files->header, "\">\n");
    wikipedia_put_text(&files->header, article->title, strlen(article->title));
    buffer_put_text(&files->header, "\n\n");
}

// --- a file -------------------------------------------------------------------------------------

static enum berth_status finish_file(struct wikipedia_files *files, struct berth_error *error) {
    if (files->written == 0) {
        return BERTH_OK;
    }
    TRY(file_lock_check(&files->lock, error));
    files->state.is_new = 0;
    TRY(file_writer_commit(&files->writer, error));
    files->last.bytes = files->written;
    files->written = 0;
    return wikipedia_state_add(&files->state, files->last, error);
}

static enum berth_status write_article(struct wikipedia_files *files,
                                       const struct wikipedia_article *article,
                                       struct berth_error *error) {
    static const char footer[] = "\n</doc>\n";
    files->saved.sentences_left_out += article->left_out;
    if (article->length == 0) {
        files->saved.empty++;
        return BERTH_OK;
    }
    put_header(files, article);
    if (files->header.failed) {
        return error_no_memory(error, files->header.length, "an article's head");
    }
    size_t size = files->header.length + article->length + strlen(footer);
    if (files->written > 0 && files->written + size > files->settings->file_size) {
        TRY(finish_file(files, error));
    }
    if (files->written == 0) {
        if (files->state.count == WIKIPEDIA_FILES_MAX) {
            return error_set(error, BERTH_CONFIG,
                             "%s: more than %d files: choose a larger file size", files->state.path,
                             WIKIPEDIA_FILES_MAX);
        }
        const struct path path = wikipedia_file_path(files->settings->folder, files->state.count);
        TRY(dir_make_parent(path.text, error));
        TRY(file_writer_open(&files->writer, path.text, error));
        files->saved.files++;
    }
    (void)file_writer_put(&files->writer, files->header.bytes, files->header.length, error);
    (void)file_writer_put(&files->writer, article->text, article->length, error);
    TRY(file_writer_put(&files->writer, footer, strlen(footer), error));
    files->written += size;
    files->saved.articles++;
    files->saved.text_bytes += (int64_t)article->length;
    return BERTH_OK;
}

// The counts of pages read, completed by the counts of what is written.
static struct wikipedia_counts counts_at(const struct wikipedia_files *files,
                                         const struct wikipedia_counts *read) {
    struct wikipedia_counts counts = *read;
    counts.articles = files->saved.articles;
    counts.empty = files->saved.empty;
    counts.text_bytes = files->saved.text_bytes;
    counts.files = files->saved.files;
    counts.sentences_left_out = files->saved.sentences_left_out;
    return counts;
}

enum berth_status wikipedia_files_put(struct wikipedia_files *files,
                                      const struct wikipedia_article *article,
                                      struct berth_error *error) {
    TRY(write_article(files, article, error));
    files->last.next = article->end;
    files->last.counts = counts_at(files, &article->counts);
    return BERTH_OK;
}

// --- the end ------------------------------------------------------------------------------------

enum berth_status wikipedia_files_end(struct wikipedia_files *files,
                                      struct wikipedia_counts *counts, struct berth_error *error) {
    *counts = counts_at(files, counts);
    files->last.counts = *counts;
    TRY(finish_file(files, error));
    return wikipedia_state_complete(&files->state, counts, error);
}

void wikipedia_files_close(struct wikipedia_files *files) {
    file_writer_abort(&files->writer);
    buffer_done(&files->header);
    files->state.is_new =
        files->state.is_new &&
        file_lock_check(&files->lock, NULL) == BERTH_OK; // otherwise it belongs to another process
    wikipedia_state_done(&files->state);
    file_lock_release(&files->lock);
}
