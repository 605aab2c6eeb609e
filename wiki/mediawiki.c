// SPDX-License-Identifier: Apache-2.0
// Turns expat's events into pages. Elements are identified by name and depth: page/title,
// page/revision/text, siteinfo/namespaces/namespace. wikipedia.c feeds it and takes the pages; what
// their text means is wikitext.c's.
#include "wiki/mediawiki.h"

#include "core/buffer.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/utf8.h"

#include <expat.h>
#include <inttypes.h>

#define DEPTH_MAX 64
#define FIELD_MAX ((size_t)64 << 10) // of a title, a number, a namespace's name
#define NAMESPACES_MAX 1000
#define FEED_MAX ((size_t)1 << 18)
// expat keeps an incomplete tag and scans it again at every call.
#define TAG_MAX ((uint64_t)1 << 20)
#define PREFIX "<mediawiki>"

enum field { FIELD_NONE, FIELD_BASE, FIELD_NAMESPACE, FIELD_TITLE, FIELD_NS, FIELD_ID, FIELD_TEXT };

// A page's id precedes its revisions, whose ids have other parents.
static const struct element {
    const char *name, *parent;
    int depth; // of the element; 0 for the root
    enum field field;
} elements[] = {
    {"base", "siteinfo", 2, FIELD_BASE}, {"namespace", "namespaces", 3, FIELD_NAMESPACE},
    {"title", "page", 2, FIELD_TITLE},   {"ns", "page", 2, FIELD_NS},
    {"id", "page", 2, FIELD_ID},         {"text", "revision", 3, FIELD_TEXT},
};

struct mediawiki_reader {
    XML_Parser parser;
    char *name;
    mediawiki_page_function *page_function;
    void *context;
    struct mediawiki_site site;
    uint64_t start, fed;
    char first;    // byte that is neither white space nor of a byte order mark; NUL: not yet seen
    size_t prefix; // bytes fed to expat that are not from the file
    char tail[4];  // the start of an incomplete character
    size_t tail_length;

    const char *parents[DEPTH_MAX]; // names of the open elements that are used; "" for others
    int depth;                      // number of open elements
    enum field field;               // the field that character data goes to
    int in_page;
    struct buffer fields[FIELD_TEXT + 1];
    struct mediawiki_page page;

    enum berth_status status; // of a failed callback
    struct berth_error *error;
};

// --- failing ------------------------------------------------------------------------------------

static void stop(struct mediawiki_reader *reader, enum berth_status status) {
    if (reader->status == BERTH_OK) {
        reader->status = status;
        XML_StopParser(reader->parser, XML_FALSE);
    }
}

static uint64_t position(const struct mediawiki_reader *reader) {
    XML_Index index = XML_GetCurrentByteIndex(reader->parser);
    uint64_t at = index < 0 ? 0 : (uint64_t)index;
    return reader->start + (at > reader->prefix ? at - reader->prefix : 0);
}

static enum berth_status xml_error(const struct mediawiki_reader *reader, const char *problem,
                                   struct berth_error *error) {
    return error_set(error, BERTH_BAD_DATA,
                     "%s: byte %" PRIu64 " of the XML: %s; expected a MediaWiki export",
                     reader->name, position(reader), problem);
}

static void stop_with_error(struct mediawiki_reader *reader, const char *problem) {
    if (reader->status == BERTH_OK) {
        stop(reader, xml_error(reader, problem, reader->error));
    }
}

static void stop_no_memory(struct mediawiki_reader *reader) {
    if (reader->status == BERTH_OK) {
        stop(reader, error_no_memory(reader->error, FIELD_MAX, reader->name));
    }
}

// --- fields -------------------------------------------------------------------------------------

static void add_namespace(struct mediawiki_reader *reader) {
    const struct buffer *name = &reader->fields[FIELD_NAMESPACE];
    struct mediawiki_site *site = &reader->site;
    if (name->length == 0 || site->namespace_count == NAMESPACES_MAX) {
        return; // the articles' namespace has no name
    }
    char **grown = memory_resize(site->namespaces, site->namespace_count + 1, sizeof *grown);
    if (grown == NULL) {
        stop_no_memory(reader);
        return;
    }
    site->namespaces = grown;
    grown[site->namespace_count] = memory_string_of(name->bytes, name->length);
    if (grown[site->namespace_count] == NULL) {
        stop_no_memory(reader);
        return;
    }
    site->namespace_count++;
}

static void set_base(struct mediawiki_reader *reader) {
    const struct buffer *base = &reader->fields[FIELD_BASE];
    memory_free(reader->site.base);
    reader->site.base = memory_string_of(base->length > 0 ? base->bytes : "", base->length);
    if (reader->site.base == NULL) {
        stop_no_memory(reader);
    }
}

static int64_t field_integer(struct mediawiki_reader *reader, enum field field) {
    struct buffer *text = &reader->fields[field];
    int64_t value = -1;
    buffer_put_byte(text, '\0');
    if (text->failed) {
        stop_no_memory(reader);
    } else if (!number_parse_integer(text->bytes, &value)) {
        reader->page.is_damaged = 1;
    }
    return value;
}

static void end_field(struct mediawiki_reader *reader) {
    enum field field = reader->field;
    reader->field = FIELD_NONE;
    if (reader->fields[field].failed) {
        stop_no_memory(reader);
    } else if (field == FIELD_BASE) {
        set_base(reader);
    } else if (field == FIELD_NAMESPACE) {
        add_namespace(reader);
    } else if (field == FIELD_ID) {
        reader->page.id = field_integer(reader, field);
    } else if (field == FIELD_NS) {
        reader->page.ns = field_integer(reader, field);
    }
}

// --- pages --------------------------------------------------------------------------------------

static void end_page(struct mediawiki_reader *reader) {
    struct mediawiki_page *page = &reader->page;
    struct buffer *title = &reader->fields[FIELD_TITLE], *text = &reader->fields[FIELD_TEXT];
    reader->in_page = 0;
    page->is_damaged |= page->id < 0 || title->length == 0;
    page->text_length = text->length;
    buffer_put_byte(title, '\0');
    buffer_put_byte(text, '\0');
    if (title->failed || text->failed) {
        stop_no_memory(reader);
        return;
    }
    for (size_t i = 0; i + 1 < title->length; i++) { // make the title one line
        title->bytes[i] = (unsigned char)title->bytes[i] < ' ' ? ' ' : title->bytes[i];
    }
    page->title = title->bytes;
    page->text = text->bytes;
    page->end = position(reader) + (uint64_t)XML_GetCurrentByteCount(reader->parser);
    if (reader->status == BERTH_OK) {
        enum berth_status status = reader->page_function(reader->context, page, reader->error);
        if (status != BERTH_OK) {
            stop(reader, status);
        }
    }
}

// --- expat's events -----------------------------------------------------------------------------

static const char *known_parent(const char *name) {
    static const char *const parents[] = {"page", "revision", "siteinfo", "namespaces"};
    for (size_t i = 0; i < sizeof parents / sizeof *parents; i++) {
        if (strcmp(name, parents[i]) == 0) {
            return parents[i];
        }
    }
    return "";
}

static void on_start(void *context, const char *name, const char **attributes) {
    struct mediawiki_reader *reader = context;
    int depth = reader->depth++;
    if (reader->status != BERTH_OK) {
        return;
    }
    if (depth == DEPTH_MAX) {
        stop_with_error(reader, "elements nested too deeply");
        return;
    }
    if (depth == 0 && strcmp(name, "mediawiki") != 0) {
        stop_with_error(reader, "the root element is not <mediawiki>");
        return;
    }
    reader->field = FIELD_NONE;
    reader->parents[depth] = known_parent(name);
    if (depth == 1 && strcmp(name, "page") == 0) {
        reader->in_page = 1;
        reader->page = (struct mediawiki_page){.id = -1};
        for (size_t i = FIELD_TITLE; i <= FIELD_TEXT; i++) {
            buffer_clear(&reader->fields[i]);
        }
    } else if (depth == 2 && reader->in_page && strcmp(name, "redirect") == 0) {
        reader->page.is_redirect = 1;
    }
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++) {
        if (elements[i].depth == depth && strcmp(name, elements[i].name) == 0 &&
            strcmp(reader->parents[depth - 1], elements[i].parent) == 0) {
            const enum field field = elements[i].field;
            reader->field = field;
            buffer_clear(&reader->fields[field]);
            if (field == FIELD_TEXT) {
                reader->page.is_oversize = 0;
            }
        }
    }
}

static void on_end(void *context, const char *name) {
    struct mediawiki_reader *reader = context;
    reader->depth--;
    if (reader->status != BERTH_OK) {
        return;
    }
    if (reader->field != FIELD_NONE) {
        end_field(reader);
    }
    if (reader->depth == 1 && reader->in_page) {
        end_page(reader);
    }
}

static void on_text(void *context, const char *text, int length) {
    struct mediawiki_reader *reader = context;
    if (reader->field == FIELD_NONE || reader->status != BERTH_OK || reader->page.is_oversize) {
        return;
    }
    struct buffer *field = &reader->fields[reader->field];
    if (reader->field == FIELD_TEXT && field->length + (size_t)length > MEDIAWIKI_TEXT_MAX) {
        reader->page.is_oversize = 1;
        buffer_done(field); // large, and rarely needed again
    } else if (reader->field != FIELD_TEXT && field->length + (size_t)length > FIELD_MAX) {
        reader->page.is_damaged = 1;
    } else {
        buffer_put(field, text, (size_t)length);
    }
}

static void on_doctype(void *context, const char *name, const char *system, const char *public_id,
                       int internal) {
    stop_with_error(context, "a DOCTYPE is refused, as no dump has one");
}

// --- bytes --------------------------------------------------------------------------------------

static enum berth_status parse(struct mediawiki_reader *reader, const char *bytes, size_t length,
                               int is_final, struct berth_error *error) {
    reader->error = error;
    enum XML_Status result = XML_Parse(reader->parser, bytes, (int)length, is_final);
    reader->error = NULL;
    if (reader->status != BERTH_OK) {
        return reader->status;
    }
    if (result == XML_STATUS_OK) {
        return BERTH_OK;
    }
    enum XML_Error code = XML_GetErrorCode(reader->parser);
    if (code == XML_ERROR_NO_MEMORY) {
        reader->status = error_no_memory(error, length, reader->name);
    } else if (is_final && reader->first != '<' && reader->first != '\0') {
        reader->status =
            error_set(error, BERTH_BAD_DATA,
                      "%s: not XML; expected a MediaWiki export, .xml or .xml.bz2", reader->name);
    } else if (is_final) {
        reader->status = error_set(error, BERTH_BAD_DATA,
                                   "%s: unexpected end of file at byte %" PRIu64
                                   " of the XML, before </mediawiki>: the dump is truncated; fetch "
                                   "the rest and start again",
                                   reader->name, reader->start + reader->fed);
    } else {
        reader->status = xml_error(reader, XML_ErrorString(code), error);
    }
    return reader->status;
}

static enum berth_status feed_valid(struct mediawiki_reader *reader, const char *bytes,
                                    size_t length, struct berth_error *error) {
    while (length > 0) {
        size_t step = length < FEED_MAX ? length : FEED_MAX;
        reader->fed += step;
        TRY(parse(reader, bytes, step, 0, error));
        if (reader->start + reader->fed - position(reader) > TAG_MAX) {
            reader->status = xml_error(reader, "a tag longer than 1 MiB", error);
            return reader->status;
        }
        bytes += step;
        length -= step;
    }
    return BERTH_OK;
}

// Replaces a byte that is invalid in XML by a question mark, and marks the page as damaged.
static enum berth_status feed_invalid(struct mediawiki_reader *reader, struct berth_error *error) {
    TRY(feed_valid(reader, "?", 1, error));
    reader->page.is_damaged |= reader->in_page;
    return BERTH_OK;
}

// The length in bytes of the character at `bytes` if XML allows it, else 0.
static size_t xml_character(const char *bytes, size_t left) {
    unsigned char lead = (unsigned char)bytes[0];
    if (lead < 0x20) {
        return lead == '\t' || lead == '\n' || lead == '\r';
    }
    size_t length = utf8_character(bytes, left);
    int is_noncharacter = length == 3 && lead == 0xEF && (unsigned char)bytes[1] == 0xBF &&
                          (unsigned char)bytes[2] >= 0xBE;
    return is_noncharacter ? 0 : length;
}

// Whether the `left` bytes may be the start of a valid character.
static int is_incomplete(const char *bytes, size_t left) {
    size_t whole = utf8_whole(bytes[0]);
    for (size_t i = 1; i < left && i < whole; i++) {
        if (utf8_begins(bytes[i])) {
            return 0;
        }
    }
    return left < whole;
}

static enum berth_status feed_characters(struct mediawiki_reader *reader, const char *bytes,
                                         size_t length, struct berth_error *error) {
    while (length > 0) {
        // The length of the longest prefix of complete valid characters.
        size_t valid = 0;
        while (valid < length) {
            if ((signed char)bytes[valid] >= 0x20) { // ASCII alone
                valid++;
                continue;
            }
            size_t step = xml_character(bytes + valid, length - valid);
            if (step == 0) {
                break;
            }
            valid += step;
        }
        TRY(feed_valid(reader, bytes, valid, error));
        bytes += valid;
        length -= valid;
        if (length > 0 && length < sizeof reader->tail && is_incomplete(bytes, length)) {
            memcpy(reader->tail, bytes, length);
            reader->tail_length = length;
            return BERTH_OK;
        }
        if (length > 0) {
            TRY(feed_invalid(reader, error));
            bytes++;
            length--;
        }
    }
    return BERTH_OK;
}

enum berth_status mediawiki_feed(struct mediawiki_reader *reader, const char *bytes, size_t length,
                                 struct berth_error *error) {
    for (size_t i = 0; i < length && reader->first == '\0'; i++) {
        reader->first = strchr(" \t\r\n\xEF\xBB\xBF", bytes[i]) == NULL ? bytes[i] : '\0';
    }
    // Completes a split character byte by byte, until it is complete or invalid.
    while (reader->tail_length > 0 && length > 0) {
        char joined[sizeof reader->tail + 1];
        size_t have = reader->tail_length;
        memcpy(joined, reader->tail, have);
        joined[have++] = *bytes++;
        length--;
        reader->tail_length = 0;
        TRY(feed_characters(reader, joined, have, error));
    }
    return length > 0 ? feed_characters(reader, bytes, length, error) : BERTH_OK;
}

enum berth_status mediawiki_finish(struct mediawiki_reader *reader, struct berth_error *error) {
    for (size_t i = 0; i < reader->tail_length; i++) {
        TRY(feed_invalid(reader, error));
    }
    reader->tail_length = 0;
    return parse(reader, "", 0, 1, error);
}

// --- opening ------------------------------------------------------------------------------------

static void *expat_resize(void *block, size_t size) {
    return memory_resize(block, size, 1);
}

static enum berth_status start(struct mediawiki_reader *reader, struct berth_error *error) {
    static const XML_Memory_Handling_Suite memory = {memory_new, expat_resize, memory_free};
    reader->parser = XML_ParserCreate_MM("UTF-8", &memory, NULL);
    if (reader->parser == NULL) {
        return error_no_memory(error, 4096, reader->name);
    }
    XML_SetUserData(reader->parser, reader);
    XML_SetElementHandler(reader->parser, on_start, on_end);
    XML_SetCharacterDataHandler(reader->parser, on_text);
    XML_SetStartDoctypeDeclHandler(reader->parser, on_doctype);
    if (reader->start > 0) {
        reader->prefix = strlen(PREFIX);
        return parse(reader, PREFIX, reader->prefix, 0, error);
    }
    return BERTH_OK;
}

enum berth_status mediawiki_open(const char *name, uint64_t from, mediawiki_page_function *page,
                                 void *context, struct mediawiki_reader **reader,
                                 struct berth_error *error) {
    *reader = NULL;
    struct mediawiki_reader *opened = memory_array_zeroed(1, sizeof *opened);
    char *copy = memory_string(name);
    if (opened == NULL || copy == NULL) {
        memory_free(opened);
        memory_free(copy);
        return error_no_memory(error, sizeof *opened, name);
    }
    opened->name = copy;
    opened->start = from;
    opened->page_function = page;
    opened->context = context;
    enum berth_status status = start(opened, error);
    if (status != BERTH_OK) {
        mediawiki_close(opened);
        return status;
    }
    *reader = opened;
    return BERTH_OK;
}

const struct mediawiki_site *mediawiki_get_site(const struct mediawiki_reader *reader) {
    return &reader->site;
}

void mediawiki_close(struct mediawiki_reader *reader) {
    if (reader == NULL) {
        return;
    }
    if (reader->parser != NULL) {
        XML_ParserFree(reader->parser);
    }
    for (size_t i = 0; i <= FIELD_TEXT; i++) {
        buffer_done(&reader->fields[i]);
    }
    for (size_t i = 0; i < reader->site.namespace_count; i++) {
        memory_free(reader->site.namespaces[i]);
    }
    memory_free(reader->site.namespaces);
    memory_free(reader->site.base);
    memory_free(reader->name);
    memory_free(reader);
}
