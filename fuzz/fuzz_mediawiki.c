// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of MediaWiki exports: every page is complete and UTF-8, and does not depend on
// the chunks in which the export is fed.
//
// The settings: the bytes of a chunk minus one; bit 7: reading resumes in the middle of the export.
#include "core/utf8.h"
#include "input.h"
#include "wiki/mediawiki.h"

struct seen {
    uint64_t hash, end;
    size_t pages;
};

static void add(struct seen *seen, const char *bytes, size_t length) {
    for (size_t i = 0; i < length; i++) {
        seen->hash = (seen->hash ^ (uint8_t)bytes[i]) * UINT64_C(0x100000001B3);
    }
}

static enum berth_status on_page(void *context, const struct mediawiki_page *page,
                                 struct berth_error *error) {
    struct seen *seen = context;
    require(strlen(page->text) == page->text_length &&
            utf8_is_valid(page->text, page->text_length));
    require(utf8_is_valid(page->title, strlen(page->title)));
    require(page->is_damaged || (page->id >= 0 && page->title[0] != '\0'));
    require(page->end > seen->end);
    seen->end = page->end;
    seen->pages++;
    add(seen, page->title, strlen(page->title));
    add(seen, page->text, page->text_length);
    add(seen, (const char *)&page->id, sizeof page->id);
    return BERTH_OK;
}

static enum berth_status read_in_chunks(const struct fuzz_input *input, size_t chunk, uint64_t from,
                                        struct seen *seen, struct berth_error *error) {
    struct mediawiki_reader *reader;
    enum berth_status status = mediawiki_open("it", from, on_page, seen, &reader, error);
    for (size_t offset = 0; status == BERTH_OK && offset < input->size; offset += chunk) {
        size_t left = input->size - offset;
        status = mediawiki_feed(reader, (const char *)input->bytes + offset,
                                left < chunk ? left : chunk, error);
    }
    if (status == BERTH_OK) {
        status = mediawiki_finish(reader, error);
    }
    mediawiki_close(reader);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    struct berth_error error = {.status = BERTH_OK};
    struct seen whole = {0}, chunked = {0};
    uint64_t from = input.settings >> 7;
    fuzz_failing_begin(input.fail_at);
    enum berth_status status =
        read_in_chunks(&input, (input.settings & 127) + 1, from, &chunked, &error);
    int failed = fuzz_failing_stop(input.fail_at);
    require(status == BERTH_OK || status == BERTH_BAD_DATA ||
            (failed && status == BERTH_NO_MEMORY));
    require(status == BERTH_OK || error.message[0] != '\0');
    // expat can do without some allocations, and reports the failure of others as an XML error.
    enum berth_status again = read_in_chunks(&input, size + 1, from, &whole, &error);
    require(failed || again == status);
    require(status != BERTH_OK || (whole.hash == chunked.hash && whole.pages == chunked.pages));
    return 0;
}
