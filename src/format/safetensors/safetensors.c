// SPDX-License-Identifier: Apache-2.0
// Reads safetensors. An untrusted header takes at most four times its size in memory: it is scanned
// in place (json_scan.h), and names point into it.
//
// Leaves out data types without a C type. Opened by containers.c like any file of tensors, and by
// train/checkpoint for its own state.
#include "format/safetensors/safetensors.h"

#include "core/little_endian.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "core/utf8.h"
#include "format/json/json_scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_LIMIT ((uint64_t)16 << 20)
#define LENGTH_BYTES 8
#define DEPTH_LIMIT 64

// --- the header ---------------------------------------------------------------------------------

// The state while the header is read.
struct header {
    struct safetensors *container;
    struct json_scan scan;
    size_t capacity;          // of container->entries
    size_t metadata_capacity; // of container->metadata
};

static enum berth_status read_metadata(struct header *header, struct berth_error *error) {
    struct safetensors *container = header->container;
    int more;
    TRY(json_scan_open(&header->scan, '{', error));
    for (;;) {
        TRY(json_scan_more(&header->scan, &more, error));
        if (!more) {
            return BERTH_OK;
        }
        size_t needed = container->metadata_count + 3;
        char **grown =
            memory_grow(container->metadata, &header->metadata_capacity, needed, sizeof *grown);
        if (grown == NULL) {
            return error_no_memory(error, needed * sizeof *grown, "a header's metadata");
        }
        container->metadata = grown;
        char **pair = container->metadata + container->metadata_count;
        TRY(json_scan_key(&header->scan, &pair[0], error));
        TRY(json_scan_text(&header->scan, &pair[1], error));
        pair[2] = NULL;
        container->metadata_count += 2;
    }
}

static enum berth_status read_shape(struct json_scan *scan, struct tensor_entry *entry,
                                    struct berth_error *error) {
    int more;
    TRY(json_scan_open(scan, '[', error));
    for (entry->rank = 0;; entry->rank++) {
        uint64_t size;
        TRY(json_scan_more(scan, &more, error));
        if (!more) {
            return BERTH_OK;
        }
        TRY(json_scan_unsigned(scan, &size, error));
        if (entry->rank == TENSOR_MAX_RANK || size > INT64_MAX) {
            return error_tensor(error, BERTH_BAD_DATA, scan->name, entry->name,
                                "a shape of more than %d dimensions or of 2^63 or "
                                "more elements",
                                TENSOR_MAX_RANK);
        }
        entry->shape[entry->rank] = (int64_t)size;
    }
}

static enum berth_status read_offsets(struct json_scan *scan, struct tensor_entry *entry,
                                      struct berth_error *error) {
    uint64_t *const ends[] = {&entry->begin, &entry->end};
    int more;
    TRY(json_scan_open(scan, '[', error));
    for (size_t i = 0;; i++) {
        TRY(json_scan_more(scan, &more, error));
        if (more != (i < 2)) {
            return json_scan_error(scan, "expected two offsets", error);
        }
        if (!more) {
            return BERTH_OK;
        }
        TRY(json_scan_unsigned(scan, ends[i], error));
    }
}

static enum berth_status read_dtype(struct json_scan *scan, struct tensor_entry *entry,
                                    struct berth_error *error) {
    char *name;
    TRY(json_scan_text(scan, &name, error));
    if (!tensor_dtype_parse(name, entry)) {
        return error_tensor(error, BERTH_BAD_DATA, scan->name, entry->name,
                            "unknown data type \"%.*s\"", UTF8_SHOWN(name, 40));
    }
    return BERTH_OK;
}

// Reads the members of a tensor's entry, each of which is required exactly once.
static enum berth_status read_entry(struct header *header, struct tensor_entry *entry,
                                    struct berth_error *error) {
    static const struct {
        const char *key;
        enum berth_status (*read)(struct json_scan *, struct tensor_entry *, struct berth_error *);
    } members[] = {{"dtype", read_dtype}, {"shape", read_shape}, {"data_offsets", read_offsets}};
    enum { MEMBERS = sizeof members / sizeof *members };
    struct json_scan *scan = &header->scan;
    int seen[MEMBERS] = {0}, more;
    TRY(json_scan_open(scan, '{', error));
    for (;;) {
        TRY(json_scan_more(scan, &more, error));
        if (!more) {
            break;
        }
        char *key;
        size_t i = 0;
        TRY(json_scan_key(scan, &key, error));
        while (i < MEMBERS && strcmp(members[i].key, key) != 0) {
            i++;
        }
        if (i == MEMBERS) {
            header->container->ignored_keys++;
            TRY(json_scan_skip(scan, error));
        } else if (seen[i]++) {
            return error_tensor(error, BERTH_BAD_DATA, scan->name, entry->name,
                                "duplicate key \"%s\"", key);
        } else {
            TRY(members[i].read(scan, entry, error));
        }
    }
    for (size_t i = 0; i < MEMBERS; i++) {
        if (!seen[i]) {
            return error_tensor(error, BERTH_BAD_DATA, scan->name, entry->name,
                                "missing key \"%s\"", members[i].key);
        }
    }
    return BERTH_OK;
}

// Checks that the entry's size matches its shape and type.
static enum berth_status check_size(const char *path, const struct tensor_entry *entry,
                                    struct berth_error *error) {
    uint64_t bits = tensor_dtype_bits(entry->dtype_name), count;
    if (!tensor_entry_elements(entry, &count) || __builtin_mul_overflow(count, bits, &bits)) {
        return error_tensor(error, BERTH_BAD_DATA, path, entry->name,
                            "its shape has more elements than can be counted");
    }
    if (entry->end < entry->begin || bits % 8 != 0 || bits / 8 != entry->end - entry->begin) {
        return error_tensor(error, BERTH_BAD_DATA, path, entry->name,
                            "data_offsets [%" PRIu64 ", %" PRIu64 "], but %" PRIu64
                            " elements of %s need %" PRIu64 " bits",
                            entry->begin, entry->end, count, entry->dtype_name, bits);
    }
    return BERTH_OK;
}

static enum berth_status add_entry(struct header *header, const char *name,
                                   struct berth_error *error) {
    struct safetensors *container = header->container;
    size_t needed = container->count + 1;
    struct tensor_entry *grown =
        memory_grow(container->entries, &header->capacity, needed, sizeof *grown);
    if (grown == NULL) {
        return error_no_memory(error, needed * sizeof *grown, header->scan.name);
    }
    container->entries = grown;
    struct tensor_entry *entry = &container->entries[container->count++];
    *entry = (struct tensor_entry){.name = name};
    TRY(read_entry(header, entry, error));
    return check_size(header->scan.name, entry, error);
}

static enum berth_status read_header(struct header *header, struct berth_error *error) {
    struct json_scan *scan = &header->scan;
    int more, metadata_seen = 0;
    TRY(json_scan_open(scan, '{', error));
    for (;;) {
        TRY(json_scan_more(scan, &more, error));
        if (!more) {
            return json_scan_end(scan, error);
        }
        char *name;
        TRY(json_scan_key(scan, &name, error));
        if (strcmp(name, "__metadata__") != 0) {
            TRY(add_entry(header, name, error));
        } else if (metadata_seen++) {
            return error_set(error, BERTH_BAD_DATA, "%s: duplicate key \"__metadata__\"",
                             scan->name);
        } else {
            TRY(read_metadata(header, error));
        }
    }
}

// --- the order of the data ----------------------------------------------------------------------

static int compare_offsets(const void *a, const void *b) {
    const struct tensor_entry *left = a, *right = b;
    if (left->begin != right->begin) {
        return left->begin < right->begin ? -1 : 1;
    }
    if (left->end != right->end) {
        return left->end < right->end ? -1 : 1;
    }
    return strcmp(left->name, right->name);
}

// Checks that the tensors cover the data part exactly, without gap or overlap.
static enum berth_status check_order(struct safetensors *container, const char *path,
                                     struct berth_error *error) {
    uint64_t end = 0, data_size = container->file.size - container->data_begin;
    if (container->count > 0) {
        qsort(container->entries, container->count, sizeof *container->entries, compare_offsets);
    }
    for (size_t i = 0; i < container->count; i++) {
        const struct tensor_entry *entry = &container->entries[i];
        if (entry->begin != end) {
            return error_tensor(error, BERTH_BAD_DATA, path, entry->name,
                                "its data begins at byte %" PRIu64
                                ", but the tensor before it ends at %" PRIu64,
                                entry->begin, end);
        }
        end = entry->end;
    }
    if (end != data_size) {
        return error_set(
            error, BERTH_BAD_DATA,
            "%s: the tensors need %" PRIu64 " bytes of data, the file has %" PRIu64 ": it is %s",
            path, end, data_size, end > data_size ? "truncated" : "followed by other data");
    }
    return BERTH_OK;
}

// --- opening ------------------------------------------------------------------------------------

// Reads the header's length and checks it against the file's size before any allocation.
static enum berth_status read_length(const struct file_reader *file, uint64_t *length,
                                     struct berth_error *error) {
    unsigned char bytes[LENGTH_BYTES];
    if (file->size < LENGTH_BYTES) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: %" PRIu64 " bytes are too few for a safetensors file", file->path,
                         file->size);
    }
    TRY(file_reader_at(file, 0, bytes, sizeof bytes, error));
    *length = little_endian(bytes, sizeof bytes);
    if (*length > file->size - LENGTH_BYTES) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: expected a header of %" PRIu64 " bytes, the file has %" PRIu64
                         ": truncated, or not a safetensors file",
                         file->path, *length, file->size - LENGTH_BYTES);
    }
    if (*length > HEADER_LIMIT) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: a header of %" PRIu64 " bytes; the limit is %" PRIu64, file->path,
                         *length, HEADER_LIMIT);
    }
    return BERTH_OK;
}

static enum berth_status open_header(struct safetensors *container, const char *path,
                                     struct berth_error *error) {
    uint64_t length = 0;
    TRY(file_reader_open(&container->file, path, error));
    TRY(read_length(&container->file, &length, error));
    container->data_begin = LENGTH_BYTES + length;
    container->header = memory_new((size_t)length);
    if (container->header == NULL) {
        return error_no_memory(error, (size_t)length, path);
    }
    TRY(file_reader_at(&container->file, LENGTH_BYTES, container->header, (size_t)length, error));
    struct header header = {.container = container};
    json_scan_begin(&header.scan, path, container->header, (size_t)length);
    header.scan.depth_limit = DEPTH_LIMIT;
    TRY(read_header(&header, error));
    TRY(check_order(container, path, error));
    return tensor_index_new(container->entries, container->count, path, &container->by_name, error);
}

enum berth_status safetensors_open(struct safetensors *container, const char *path,
                                   struct berth_error *error) {
    *container = (struct safetensors){.file = {.descriptor = -1}};
    enum berth_status status = open_header(container, path, error);
    if (status != BERTH_OK) {
        safetensors_close(container);
    }
    return status;
}

void safetensors_close(struct safetensors *container) {
    file_reader_close(&container->file);
    memory_free(container->entries);
    memory_free(container->by_name);
    memory_free(container->metadata);
    memory_free(container->header);
    *container = (struct safetensors){.file = {.descriptor = -1}};
}

// --- looking things up --------------------------------------------------------------------------

const struct tensor_entry *safetensors_find(const struct safetensors *container, const char *name) {
    return tensor_index_find(container->by_name, container->count, name);
}

const char *safetensors_metadata(const struct safetensors *container, const char *key) {
    for (size_t i = 0; i < container->metadata_count; i += 2) {
        if (strcmp(container->metadata[i], key) == 0) {
            return container->metadata[i + 1];
        }
    }
    return NULL;
}

// --- data ---------------------------------------------------------------------------------------

enum berth_status safetensors_read_raw(const struct safetensors *container,
                                       const struct tensor_entry *entry, uint64_t first,
                                       size_t bytes, void *to, struct berth_error *error) {
    TRY(tensor_check_range(container->file.path, entry, first, bytes, error));
    return file_reader_at(&container->file, container->data_begin + entry->begin + first, to, bytes,
                          error);
}

enum berth_status safetensors_read_f32(const struct safetensors *container,
                                       const struct tensor_entry *entry, int64_t first,
                                       int64_t count, float *to, struct berth_error *error) {
    struct tensor_file file = {.format = &safetensors_format,
                               .path = container->file.path,
                               .container = (struct safetensors *)container};
    return tensor_file_read_f32(&file, entry, first, count, to, error);
}

// --- as one of many containers ------------------------------------------------------------------

// The header's brace follows its length in all but unusual files.
static int recognise(const char *path, const unsigned char *head, size_t length) {
    return name_has_suffix(path, ".safetensors") ||
           (length > LENGTH_BYTES && head[LENGTH_BYTES] == '{');
}

static enum berth_status open_file(struct tensor_file *file, struct berth_error *error) {
    struct safetensors *container = file->container;
    TRY(safetensors_open(container, file->path, error));
    file->entries = container->entries;
    file->count = container->count;
    file->ignored_keys = container->ignored_keys;
    return BERTH_OK;
}

static enum berth_status read_file(const struct tensor_file *file, const struct tensor_entry *entry,
                                   uint64_t first, size_t bytes, void *to,
                                   struct berth_error *error) {
    return safetensors_read_raw(file->container, entry, first, bytes, to, error);
}

static int map_file(const struct tensor_file *file, const struct tensor_entry *entry,
                    struct file_mapping *mapping) {
    const struct safetensors *container = file->container;
    return file_map(&container->file, container->data_begin + entry->begin,
                    (size_t)(entry->end - entry->begin), mapping);
}

static void close_file(void *container) {
    safetensors_close(container);
}

const struct tensor_format safetensors_format = {.name = "safetensors",
                                                 .recognise = recognise,
                                                 .container_size = sizeof(struct safetensors),
                                                 .open = open_file,
                                                 .read = read_file,
                                                 .map = map_file,
                                                 .close = close_file};
