// SPDX-License-Identifier: Apache-2.0
// Reads CoNLL's columns, a word on each line, into a data set of tagged.c. The text is split in
// place and words borrow from it; which columns have the word and the tag comes from the settings
// or the first line.
#include "core/encoding.h"
#include "core/file.h"
#include "core/number.h"
#include "data/tagging/tagged_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FILE_LIMIT ((size_t)4 << 30)
#define COLUMNS_MAX 64
#define DOCUMENT "-DOCSTART-"

// The columns of a line.
struct fields {
    char *items[COLUMNS_MAX];
    size_t count;
};

struct columns {
    struct tagged_reader *reader;
    size_t word, tag; // from 0; `tag` is unused in a file without tags
    size_t count;     // columns of the first line; 0: none was read yet
    size_t line;
    size_t hash; // the first line that begins with "#", which a word may be; 0: none
    int in_sentence;
};

static enum berth_status column_number(const struct tagged_reader *reader, const char *setting,
                                       const char *text, int64_t min, int64_t *number) {
    if (number_parse_integer(text, number) && *number >= min && *number <= COLUMNS_MAX) {
        return BERTH_OK;
    }
    return error_set(reader->error, BERTH_USAGE,
                     "%s: %s: expected the number of a column, %" PRId64 " to %d, found \"%s\"; "
                     "only JSON lines name their columns",
                     reader->dataset->name, setting, min, COLUMNS_MAX, text);
}

static enum berth_status missing_column(const struct columns *columns, const char *setting,
                                        size_t number) {
    return error_line(columns->reader->error, BERTH_BAD_DATA, columns->reader->dataset->name,
                      columns->line, "%s: no column %zu, the line has %zu columns", setting, number,
                      columns->count);
}

// Determines the columns from the settings and the first line.
static enum berth_status find_columns(struct columns *columns, const struct fields *fields) {
    struct tagged_reader *reader = columns->reader;
    const struct tagged_settings *settings = reader->settings;
    int64_t word = 1, tag = (int64_t)fields->count;
    columns->count = fields->count;
    if (settings->word_column != NULL) {
        TRY(column_number(reader, "text_column", settings->word_column, 1, &word));
    }
    if (settings->tag_column != NULL) {
        TRY(column_number(reader, "label_column", settings->tag_column, 0, &tag));
    } else if (fields->count == 1 && settings->tag_optional) {
        tag = 0;
    }
    columns->word = (size_t)word - 1;
    columns->tag = (size_t)tag - 1;
    reader->has_tags = tag > 0;
    if ((size_t)word > fields->count) {
        return missing_column(columns, "text_column", (size_t)word);
    }
    if ((size_t)tag > fields->count) {
        return missing_column(columns, "label_column", (size_t)tag);
    }
    return !reader->has_tags || word != tag
               ? BERTH_OK
               : error_line(reader->error, BERTH_BAD_DATA, reader->dataset->name, columns->line,
                            "words and tags would be the same column, %" PRId64
                            "; expected a word and its tag per line",
                            word);
}

static enum berth_status split_fields(const struct columns *columns, char *line,
                                      struct fields *fields) {
    fields->count = 0;
    for (char *at = line + strspn(line, " \t\r"); *at != '\0';) {
        char *end = at + strcspn(at, " \t\r");
        char *next = end + strspn(end, " \t\r");
        if (fields->count == COLUMNS_MAX) {
            return error_line(columns->reader->error, BERTH_BAD_DATA,
                              columns->reader->dataset->name, columns->line,
                              "more than %d columns; expected a word and its tag", COLUMNS_MAX);
        }
        *end = '\0';
        fields->items[fields->count++] = at;
        at = next;
    }
    return BERTH_OK;
}

static enum berth_status read_line(struct columns *columns, const struct fields *fields) {
    struct tagged_reader *reader = columns->reader;
    if (fields->count == 0) {
        columns->in_sentence = 0;
        return BERTH_OK;
    }
    if (strcmp(fields->items[0], DOCUMENT) == 0) {
        columns->in_sentence = 0;
        return BERTH_OK;
    }
    if (columns->count == 0) {
        TRY(find_columns(columns, fields));
    }
    if (columns->hash == 0 && fields->items[0][0] == '#') {
        columns->hash = columns->line;
    }
    if (fields->count != columns->count) {
        char hint[96] = "";
        if (columns->hash > 0) {
            snprintf(hint, sizeof hint, "; is line %zu a comment? only words and tags are read",
                     columns->hash);
        }
        return error_line(columns->reader->error, BERTH_BAD_DATA, columns->reader->dataset->name,
                          columns->line, "expected %zu columns as in the lines before, found %zu%s",
                          columns->count, fields->count, hint);
    }
    if (!columns->in_sentence) {
        TRY(tagged_reader_begin_sentence(reader, columns->line));
        columns->in_sentence = 1;
    }
    return tagged_reader_add_word(reader, fields->items[columns->word],
                                  reader->has_tags ? fields->items[columns->tag] : NULL);
}

static int is_done(const struct columns *columns) {
    return !columns->in_sentence && tagged_reader_is_full(columns->reader);
}

enum berth_status tagged_read_columns(struct tagged_reader *reader, const char *path) {
    size_t length;
    char *text;
    reader->dataset->word_lines = 1;
    TRY(file_read(path, FILE_LIMIT, &reader->storage->bytes, &length, reader->error));
    TRY(encoding_read_text(reader->dataset->name, &reader->storage->bytes, &text, &length,
                           reader->error));
    struct columns columns = {.reader = reader};
    struct fields fields;
    for (char *at = text, *end = text + length; at < end && !is_done(&columns);) {
        char *newline = memchr(at, '\n', (size_t)(end - at));
        char *stop = newline != NULL ? newline : end;
        columns.line++;
        *stop = '\0';
        TRY(split_fields(&columns, at, &fields));
        TRY(read_line(&columns, &fields));
        at = stop + 1;
    }
    return BERTH_OK;
}
