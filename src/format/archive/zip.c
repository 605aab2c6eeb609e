// SPDX-License-Identifier: Apache-2.0
// Reads zip archives. The central directory is authoritative; the local headers must agree with it,
// and the entries must fill the file from its first byte to the directory without gaps. PyTorch's
// files are opened by it (torch/torch_layout.c).
#include "format/archive/zip.h"

#include "core/little_endian.h"
#include "core/memory.h"
#include "core/utf8.h"
#include "format/archive/deflate.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    END_BYTES = 22,
    LOCATOR_BYTES = 20,
    END64_BYTES = 56,
    RECORD_BYTES = 46,
    LOCAL_BYTES = 30,
    DESCRIPTOR_BYTES = 24, // signature, CRC, two sizes of 8 bytes (or 4)
    FLAG_DESCRIPTOR = 0x0008,
    FLAG_UTF8 = 0x0800,
    EXTRA_ZIP64 = 1
};
#define DIRECTORY_LIMIT ((uint64_t)64 << 20)

static const uint32_t end_signature = 0x06054b50, locator_signature = 0x07064b50,
                      end64_signature = 0x06064b50, record_signature = 0x02014b50,
                      local_signature = 0x04034b50, descriptor_signature = 0x08074b50;

static enum berth_status zip_error(const struct zip *zip, uint64_t offset, const char *problem,
                                   struct berth_error *error) {
    return error_set(error, BERTH_BAD_DATA, "%s: zip archive, byte %" PRIu64 ": %s", zip->file.path,
                     offset, problem);
}

// --- the end records ----------------------------------------------------------------------------

struct directory {
    uint64_t begin, size, count;
};

// Reads the ZIP64 end record, if any (torch writes one in every archive). *end is the offset of the
// end record on entry, and that of the ZIP64 end record on return.
static enum berth_status read_end64(const struct zip *zip, struct directory *directory,
                                    uint64_t *end, struct berth_error *error) {
    unsigned char bytes[END64_BYTES];
    if (*end < LOCATOR_BYTES + END64_BYTES) {
        return BERTH_OK;
    }
    uint64_t locator = *end - LOCATOR_BYTES, end64 = locator - END64_BYTES;
    TRY(file_reader_at(&zip->file, locator, bytes, LOCATOR_BYTES, error));
    if (little_endian(bytes, 4) != locator_signature) {
        return BERTH_OK;
    }
    uint64_t announced = little_endian(bytes + 8, 8);
    TRY(file_reader_at(&zip->file, end64, bytes, sizeof bytes, error));
    if (announced != end64 || little_endian(bytes, 4) != end64_signature ||
        little_endian(bytes + 4, 8) != END64_BYTES - 12 || little_endian(bytes + 16, 8) != 0 ||
        little_endian(bytes + 24, 8) != little_endian(bytes + 32, 8)) {
        return zip_error(zip, end64, "invalid ZIP64 end-of-central-directory record", error);
    }
    struct directory large = {.count = little_endian(bytes + 32, 8),
                              .size = little_endian(bytes + 40, 8),
                              .begin = little_endian(bytes + 48, 8)};
    if ((directory->count != UINT16_MAX && directory->count != large.count) ||
        (directory->size != UINT32_MAX && directory->size != large.size) ||
        (directory->begin != UINT32_MAX && directory->begin != large.begin)) {
        return zip_error(zip, end64,
                         "the ZIP64 end record contradicts the end-of-central-directory record",
                         error);
    }
    *directory = large;
    *end = end64;
    return BERTH_OK;
}

static enum berth_status find_directory(const struct zip *zip, struct directory *directory,
                                        struct berth_error *error) {
    unsigned char bytes[END_BYTES];
    if (zip->file.size < END_BYTES) {
        return zip_error(zip, 0, "the file is truncated: too short for an archive", error);
    }
    uint64_t end = zip->file.size - END_BYTES;
    TRY(file_reader_at(&zip->file, end, bytes, sizeof bytes, error));
    if (little_endian(bytes, 4) != end_signature || little_endian(bytes + 20, 2) != 0) {
        return zip_error(zip, end,
                         "missing end-of-central-directory record: the file is truncated, or data "
                         "follows the archive",
                         error);
    }
    if (little_endian(bytes + 4, 4) != 0 ||
        little_endian(bytes + 8, 2) != little_endian(bytes + 10, 2)) {
        return zip_error(zip, end, "multi-part archives are not supported", error);
    }
    *directory = (struct directory){.count = little_endian(bytes + 10, 2),
                                    .size = little_endian(bytes + 12, 4),
                                    .begin = little_endian(bytes + 16, 4)};
    TRY(read_end64(zip, directory, &end, error));
    if (directory->begin > end || directory->size != end - directory->begin ||
        directory->size > DIRECTORY_LIMIT || directory->count > directory->size / RECORD_BYTES) {
        return zip_error(
            zip, end,
            "offset, size and number of entries of the central directory are inconsistent", error);
    }
    return BERTH_OK;
}

// --- the directory ------------------------------------------------------------------------------

static int is_plain_component(const char *component, size_t length) {
    return length > 0 && !(length == 1 && component[0] == '.') &&
           !(length == 2 && component[0] == '.' && component[1] == '.');
}

// Whether the name is a relative path without special parts.
static int is_plain_name(const char *name, size_t length) {
    size_t start = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)name[i];
        if (c < 0x20 || c == 0x7F || c == '\\') {
            return 0;
        }
        if (c == '/') {
            if (!is_plain_component(name + start, i - start)) {
                return 0;
            }
            start = i + 1;
        }
    }
    return is_plain_component(name + start, length - start) && utf8_is_valid(name, length);
}

// Reads the 8-byte forms of the record's fields that are all ones.
static int read_zip64(const unsigned char *extra, size_t length, uint64_t *numbers[3]) {
    while (length >= 4) {
        size_t size = (size_t)little_endian(extra + 2, 2);
        if (size > length - 4) {
            return 0;
        }
        if (little_endian(extra, 2) == EXTRA_ZIP64) {
            extra += 4;
            for (size_t i = 0; i < 3; i++) {
                if (*numbers[i] == UINT32_MAX) {
                    if (size < 8) {
                        return 0;
                    }
                    *numbers[i] = little_endian(extra, 8);
                    extra += 8;
                    size -= 8;
                }
            }
            return 1;
        }
        extra += 4 + size;
        length -= 4 + size;
    }
    return 1;
}

// Reads one record of the directory, of which `left` bytes remain; returns what is wrong with it,
// or NULL.
static const char *read_record(struct zip *zip, const unsigned char *record, size_t left,
                               char *name, size_t *length) {
    if (left < RECORD_BYTES || little_endian(record, 4) != record_signature) {
        return "missing directory record";
    }
    size_t name_length = (size_t)little_endian(record + 28, 2);
    size_t extra_length = (size_t)little_endian(record + 30, 2);
    *length = RECORD_BYTES + name_length + extra_length + (size_t)little_endian(record + 32, 2);
    if (*length > left) {
        return "a record extends beyond the directory";
    }
    uint64_t stored = little_endian(record + 20, 4);
    struct zip_entry entry = {.name = name,
                              .flags = (uint16_t)little_endian(record + 8, 2),
                              .crc = (uint32_t)little_endian(record + 16, 4),
                              .size = little_endian(record + 24, 4),
                              .header = little_endian(record + 42, 4)};
    if (!read_zip64(record + RECORD_BYTES + name_length, extra_length,
                    (uint64_t *[]){&entry.size, &stored, &entry.header})) {
        return "invalid ZIP64 fields";
    }
    if ((entry.flags & ~(FLAG_DESCRIPTOR | FLAG_UTF8)) != 0) {
        return "the entry is encrypted or of an unknown type";
    }
    if (little_endian(record + 10, 2) != 0 || stored != entry.size) {
        return "the entry is compressed, but checkpoints are stored uncompressed (a TorchScript "
               "program? save the model's state_dict)";
    }
    memcpy(name, record + RECORD_BYTES, name_length);
    name[name_length] = '\0';
    if (!is_plain_name(name, name_length)) {
        return "the name of the entry is not a plain relative path";
    }
    zip->has_crc |= entry.crc != 0;
    zip->entries[zip->count++] = entry;
    return NULL;
}

static enum berth_status read_directory(struct zip *zip, const struct directory *directory,
                                        struct berth_error *error) {
    size_t size = (size_t)directory->size, count = (size_t)directory->count;
    zip->directory = memory_new(size);
    zip->names = memory_new(size); // each name is shorter than its record
    zip->entries = memory_array(count, sizeof *zip->entries);
    if (zip->directory == NULL || zip->names == NULL || zip->entries == NULL) {
        return error_no_memory(error, 2 * size + count * sizeof *zip->entries, zip->file.path);
    }
    TRY(file_reader_at(&zip->file, directory->begin, zip->directory, size, error));
    size_t at = 0, length = 0;
    char *name = zip->names;
    while (zip->count < count) {
        const char *problem = read_record(zip, zip->directory + at, size - at, name, &length);
        if (problem != NULL) {
            return zip_error(zip, directory->begin + at, problem, error);
        }
        at += length;
        name += strlen(name) + 1;
    }
    return at == size ? BERTH_OK
                      : zip_error(zip, directory->begin + at,
                                  "the directory continues after its last entry", error);
}

// --- the entries --------------------------------------------------------------------------------

// Whether a local header's number agrees with the directory's.
static int matches(const unsigned char *bytes, uint64_t number, const struct zip_entry *entry) {
    uint64_t local = little_endian(bytes, 4);
    return local == number || local == UINT32_MAX ||
           ((entry->flags & FLAG_DESCRIPTOR) != 0 && local == 0);
}

static const char *check_local(const unsigned char *local, const struct zip_entry *entry) {
    if (little_endian(local, 4) != local_signature) {
        return "missing local header";
    }
    if (little_endian(local + 6, 2) != entry->flags || little_endian(local + 8, 2) != 0 ||
        !matches(local + 14, entry->crc, entry) || !matches(local + 18, entry->size, entry) ||
        !matches(local + 22, entry->size, entry) ||
        little_endian(local + 26, 2) != strlen(entry->name)) {
        return "the local header contradicts the directory";
    }
    return NULL;
}

// Checks the bytes between an entry's data and the next entry: none, or a signature, the CRC and
// two sizes of 4 or 8 bytes.
static enum berth_status check_descriptor(const struct zip *zip, const struct zip_entry *entry,
                                          uint64_t gap, struct berth_error *error) {
    unsigned char bytes[DESCRIPTOR_BYTES];
    int described = (entry->flags & FLAG_DESCRIPTOR) != 0;
    if (described ? gap != DESCRIPTOR_BYTES && gap != DESCRIPTOR_BYTES - 8 : gap != 0) {
        return zip_error(zip, entry->begin, "unexpected bytes after the entry", error);
    }
    if (!described) {
        return BERTH_OK;
    }
    TRY(file_reader_at(&zip->file, entry->begin + entry->size, bytes, (size_t)gap, error));
    return little_endian(bytes, 4) == descriptor_signature &&
                   little_endian(bytes + 4, 4) == entry->crc
               ? BERTH_OK
               : zip_error(zip, entry->begin, "the CRC after the data differs from the directory's",
                           error);
}

// Finds the offset of an entry's data; `limit` is the offset of the next entry or of the directory.
static enum berth_status locate_data(struct zip *zip, struct zip_entry *entry, uint64_t limit,
                                     struct berth_error *error) {
    unsigned char local[LOCAL_BYTES + UINT16_MAX];
    size_t name_length = strlen(entry->name);
    if (limit - entry->header < LOCAL_BYTES + name_length) {
        return zip_error(zip, entry->header, "entries overlap", error);
    }
    TRY(file_reader_at(&zip->file, entry->header, local, LOCAL_BYTES + name_length, error));
    const char *problem = check_local(local, entry);
    if (problem == NULL && memcmp(local + LOCAL_BYTES, entry->name, name_length) != 0) {
        problem = "the local header contradicts the directory";
    }
    entry->begin = entry->header + LOCAL_BYTES + name_length + little_endian(local + 28, 2);
    if (problem == NULL && (entry->begin > limit || entry->size > limit - entry->begin)) {
        problem = "entries overlap";
    }
    if (problem != NULL) {
        return zip_error(zip, entry->header, problem, error);
    }
    return check_descriptor(zip, entry, limit - entry->begin - entry->size, error);
}

static int compare_headers(const void *a, const void *b) {
    const struct zip_entry *left = a, *right = b;
    return left->header < right->header ? -1 : left->header > right->header;
}

static int compare_names(const void *a, const void *b) {
    const struct zip_entry *left = a, *right = b;
    return strcmp(left->name, right->name);
}

// --- opening and looking up ---------------------------------------------------------------------

static enum berth_status open_archive(struct zip *zip, const char *path,
                                      struct berth_error *error) {
    struct directory directory = {0};
    TRY(file_reader_open(&zip->file, path, error));
    TRY(find_directory(zip, &directory, error));
    TRY(read_directory(zip, &directory, error));
    const uint64_t end = directory.begin;
    qsort(zip->entries, zip->count, sizeof *zip->entries, compare_headers);
    if (zip->count > 0 && zip->entries[0].header != 0) {
        return zip_error(zip, 0, "unexpected bytes before the first entry", error);
    }
    for (size_t i = 0; i < zip->count; i++) {
        uint64_t limit = i + 1 < zip->count ? zip->entries[i + 1].header : end;
        if (limit > end || limit < zip->entries[i].header) {
            return zip_error(zip, end, "the entry is after the directory", error);
        }
        TRY(locate_data(zip, &zip->entries[i], limit, error));
    }
    qsort(zip->entries, zip->count, sizeof *zip->entries, compare_names);
    for (size_t i = 1; i < zip->count; i++) {
        if (strcmp(zip->entries[i - 1].name, zip->entries[i].name) == 0) {
            return error_set(error, BERTH_BAD_DATA, "%s: zip archive: duplicate entry \"%.*s\"",
                             zip->file.path, UTF8_SHOWN(zip->entries[i].name, 200));
        }
    }
    return BERTH_OK;
}

enum berth_status zip_open(struct zip *zip, const char *path, struct berth_error *error) {
    *zip = (struct zip){.file = {.descriptor = -1}};
    enum berth_status status = open_archive(zip, path, error);
    if (status != BERTH_OK) {
        zip_close(zip);
    }
    return status;
}

void zip_close(struct zip *zip) {
    file_reader_close(&zip->file);
    memory_free(zip->entries);
    memory_free(zip->directory);
    memory_free(zip->names);
    *zip = (struct zip){.file = {.descriptor = -1}};
}

const struct zip_entry *zip_find(const struct zip *zip, const char *name) {
    struct zip_entry key = {.name = name};
    return bsearch(&key, zip->entries, zip->count, sizeof key, compare_names);
}

enum berth_status zip_check(const struct zip *zip, const struct zip_entry *entry,
                            struct berth_error *error) {
    unsigned char buffer[16384];
    uint32_t crc = 0;
    if (!zip->has_crc) {
        return BERTH_OK;
    }
    for (uint64_t done = 0; done < entry->size;) {
        uint64_t left = entry->size - done;
        size_t now = left < sizeof buffer ? (size_t)left : sizeof buffer;
        TRY(file_reader_at(&zip->file, entry->begin + done, buffer, now, error));
        crc = deflate_crc32(crc, buffer, now);
        done += now;
    }
    return crc == entry->crc
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA,
                           "%s: zip archive: entry \"%.*s\" is damaged: found CRC-32 %08" PRIx32
                           ", expected %08" PRIx32,
                           zip->file.path, UTF8_SHOWN(entry->name, 200), crc, entry->crc);
}
