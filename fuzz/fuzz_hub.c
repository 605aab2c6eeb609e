// SPDX-License-Identifier: Apache-2.0
// Fuzzes the hub's answers: listings, and the headers of responses.
//
// Bit 0 of the settings: lines of headers. Else a listing: its first line has the commit, every
// other one is a page. A listing never has unsafe paths, sizes or digests.
#include "fetch/http_headers.h"
#include "format/hub/hub_listing.h"
#include "input.h"

static void check_file(const struct hub_file *file) {
    require(hub_is_safe_path(file->path));
    require(file->path[0] != '/' && strstr(file->path, "//") == NULL);
    require(strncmp(file->path, "../", 3) != 0 && strstr(file->path, "/../") == NULL);
    require(file->size >= 0);
    require(file->kind == DIGEST_SHA256 || file->kind == DIGEST_GIT_BLOB);
    require(digest_is_hex(file->kind, file->etag) && digest_is_hex(DIGEST_GIT_BLOB, file->blob_id));
}

// The length of the next line of the input.
static size_t line_length(const struct fuzz_input *input, size_t at) {
    const uint8_t *end = memchr(input->bytes + at, '\n', input->size - at);
    return end != NULL ? (size_t)(end - (input->bytes + at)) : input->size - at;
}

static enum berth_status read_listing(const struct fuzz_input *input, struct hub_listing *listing,
                                      struct berth_error *error) {
    size_t length = line_length(input, 0);
    const char *bytes = (const char *)input->bytes;
    TRY(hub_listing_read_commit(listing, "it", bytes, length, error));
    require(hub_is_commit(listing->commit));
    for (size_t at = length + 1; at < input->size; at += length + 1) {
        length = line_length(input, at);
        TRY(hub_listing_add(listing, "it", bytes + at, length, error));
    }
    return hub_listing_sort(listing, "it", error);
}

static void fuzz_listing(const struct fuzz_input *input) {
    struct hub_listing listing = {.count = 0};
    struct berth_error error = {.status = BERTH_OK};
    fuzz_failing_begin(input->fail_at);
    enum berth_status status = read_listing(input, &listing, &error);
    fuzz_failing_end(input->fail_at, status, &error);
    require(status == BERTH_OK || status == BERTH_BAD_DATA || status == BERTH_NO_MEMORY);
    for (size_t i = 0; i < listing.count; i++) {
        check_file(&listing.files[i]);
        require(status != BERTH_OK || i == 0 ||
                strcmp(listing.files[i - 1].path, listing.files[i].path) < 0);
    }
    hub_listing_done(&listing);
}

static int is_terminated(const char *text, size_t size) {
    return memchr(text, '\0', size) != NULL;
}

static void fuzz_headers(const struct fuzz_input *input) {
    struct http_response response = {.linked_size = -1};
    http_reset_response(&response);
    for (size_t at = 0, length; at < input->size; at += length + 1) {
        length = line_length(input, at);
        http_parse_header(&response, (const char *)input->bytes + at, length);
    }
    require(is_terminated(response.etag, sizeof response.etag) &&
            is_terminated(response.next, sizeof response.next));
    require(is_terminated(response.linked_etag, sizeof response.linked_etag));
    require(is_terminated(response.commit, sizeof response.commit) &&
            is_terminated(response.type, sizeof response.type));
    require(is_terminated(response.location, sizeof response.location));
    require(response.range_first >= -1 && response.range_total >= -1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    if (input.settings & 1) {
        fuzz_headers(&input);
    } else {
        fuzz_listing(&input);
    }
    return 0;
}
