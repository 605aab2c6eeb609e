// SPDX-License-Identifier: Apache-2.0
// The two layouts of a checkpoint. Since version 1.6: a zip archive of one folder with data.pkl and
// a file data/KEY per storage. Before: a magic number, the protocol, facts about the machine, the
// object and the list of storage keys, each a pickle, then each storage as its number of elements
// (8 bytes) and its bytes. Called by torch.c when it opens a file.
#include "format/torch/torch_layout.h"

#include "core/little_endian.h"
#include "core/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEGACY_PROTOCOL 1001
#define FOLDER_LIMIT ((size_t)4096) // bytes of the name of the archive's folder

static const unsigned char zip_magic[] = {'P', 'K', 3, 4};
// The pickle of 0x1950a86a20f9469cfc6c after its protocol; in protocol 4 and later a frame of its
// length comes first.
static const unsigned char legacy_frame[] = {0x95, 0x0d, 0, 0, 0, 0, 0, 0, 0};
static const unsigned char legacy_magic[] = {0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9,
                                             0x20, 0x6a, 0xa8, 0x50, 0x19, 0x2e};

int torch_is_zip(const unsigned char *head, size_t length) {
    return length >= sizeof zip_magic && memcmp(head, zip_magic, sizeof zip_magic) == 0;
}

static int begins_with(const unsigned char *head, size_t length, const unsigned char *bytes,
                       size_t size) {
    return length >= size && memcmp(head, bytes, size) == 0;
}

// The length of the magic number's pickle; 0: the file does not begin with it.
static size_t magic_length(const unsigned char *head, size_t length) {
    const size_t protocol = 2;
    if (length < protocol || head[0] != 0x80) {
        return 0;
    }
    const unsigned char *rest = head + protocol;
    const size_t frame = begins_with(rest, length - protocol, legacy_frame, sizeof legacy_frame)
                             ? sizeof legacy_frame
                             : 0;
    return begins_with(rest + frame, length - protocol - frame, legacy_magic, sizeof legacy_magic)
               ? protocol + frame + sizeof legacy_magic
               : 0;
}

int torch_is_legacy(const unsigned char *head, size_t length) {
    return magic_length(head, length) > 0;
}

// Orders storages by their keys.
static int torch_compare_storages(const void *a, const void *b) {
    const struct torch_storage *left = a, *right = b;
    return strcmp(left->key, right->key);
}

const struct torch_storage *torch_find_storage(const struct torch_file *file, const char *key) {
    struct torch_storage wanted = {.key = key};
    return bsearch(&wanted, file->storages, file->storage_count, sizeof wanted,
                   torch_compare_storages);
}

static enum berth_status new_storages(struct torch_file *file, size_t count,
                                      struct berth_error *error) {
    file->storages = memory_array(count, sizeof *file->storages);
    return file->storages != NULL
               ? BERTH_OK
               : error_no_memory(error, count * sizeof *file->storages, file->archive.file.path);
}

// --- zip ----------------------------------------------------------------------------------------

// The archive's only folder: FOLDER/.
struct folder {
    char path[FOLDER_LIMIT + 32];
    size_t length;
};

static enum berth_status find_folder(const struct torch_file *file, struct folder *folder,
                                     struct berth_error *error) {
    const struct zip *zip = &file->archive;
    const char *first = zip->count > 0 ? zip->entries[0].name : "";
    const char *slash = strchr(first, '/');
    folder->length = slash != NULL ? (size_t)(slash - first) + 1 : 0;
    if (folder->length == 0 || folder->length > FOLDER_LIMIT) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: not a PyTorch checkpoint: a zip archive without a folder",
                         zip->file.path);
    }
    memcpy(folder->path, first, folder->length);
    for (size_t i = 0; i < zip->count; i++) {
        if (strncmp(zip->entries[i].name, folder->path, folder->length) != 0) {
            return error_set(error, BERTH_BAD_DATA,
                             "%s: not a PyTorch checkpoint: a zip archive of several folders",
                             zip->file.path);
        }
    }
    return BERTH_OK;
}

static const struct zip_entry *find_entry(const struct torch_file *file, struct folder *folder,
                                          const char *name) {
    snprintf(folder->path + folder->length, sizeof folder->path - folder->length, "%s", name);
    return zip_find(&file->archive, folder->path);
}

static enum berth_status check_byte_order(const struct torch_file *file, struct folder *folder,
                                          struct berth_error *error) {
    char order[7] = "";
    const struct zip_entry *entry = find_entry(file, folder, "byteorder");
    if (entry == NULL) { // older files do not have it
        return BERTH_OK;
    }
    if (entry->size < sizeof order) {
        TRY(file_reader_at(&file->archive.file, entry->begin, order, (size_t)entry->size, error));
    }
    return strcmp(order, "little") == 0
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA,
                           "%s: expected byte order \"little\", found \"%s\"",
                           file->archive.file.path, order);
}

enum berth_status torch_open_zip(struct torch_file *file, const char *path, enum pickle_trust trust,
                                 struct berth_error *error) {
    struct folder folder;
    TRY(zip_open(&file->archive, path, error));
    TRY(find_folder(file, &folder, error));
    if (find_entry(file, &folder, "constants.pkl") != NULL) {
        return error_set(
            error, BERTH_BAD_DATA,
            "%s: expected a checkpoint, found a TorchScript program: save the model's state_dict",
            path);
    }
    const struct zip_entry *entry = find_entry(file, &folder, "data.pkl");
    if (entry == NULL) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: not a PyTorch checkpoint: a zip archive without data.pkl", path);
    }
    TRY(check_byte_order(file, &folder, error));
    TRY(zip_check(&file->archive, entry, error));
    struct pickle_source source = {.file = &file->archive.file,
                                   .part = "data.pkl ",
                                   .origin = entry->begin,
                                   .begin = entry->begin,
                                   .end = entry->begin + entry->size};
    TRY(pickle_read(&file->pickle, &source, trust, NULL, error));
    TRY(new_storages(file, file->archive.count, error));
    find_entry(file, &folder, "data/");
    size_t length = strlen(folder.path);
    for (size_t i = 0; i < file->archive.count; i++) {
        const struct zip_entry *member = &file->archive.entries[i];
        if (strncmp(member->name, folder.path, length) == 0) {
            file->storages[file->storage_count++] =
                (struct torch_storage){.key = member->name + length,
                                       .begin = member->begin,
                                       .size = member->size,
                                       .crc = member->crc,
                                       .has_crc = file->archive.has_crc};
        }
    }
    return BERTH_OK; // sorted, because the entries are
}

// --- the older layout ---------------------------------------------------------------------------

static enum berth_status layout_error(const struct torch_file *file, uint64_t offset,
                                      const char *problem, struct berth_error *error) {
    return error_set(error, BERTH_BAD_DATA, "%s: byte %" PRIu64 ": %s", file->archive.file.path,
                     offset, problem);
}

// Reads the next pickle; source->begin moves past it.
static enum berth_status read_next(struct pickle *pickle, struct pickle_source *source,
                                   enum pickle_trust trust, struct berth_error *error) {
    return pickle_read(pickle, source, trust, &source->begin, error);
}

static enum berth_status read_preface(const struct torch_file *file, struct pickle_source *source,
                                      struct berth_error *error) {
    struct pickle pickle;
    int64_t protocol = 0;
    TRY(read_next(&pickle, source, PICKLE_KNOWN_NAMES, error));
    pickle_integer(pickle.root, &protocol);
    pickle_done(&pickle);
    if (protocol != LEGACY_PROTOCOL) {
        return layout_error(file, source->begin, "expected protocol 1001", error);
    }
    TRY(read_next(&pickle, source, PICKLE_KNOWN_NAMES, error));
    const struct pickle_value *little = pickle_member(&pickle, pickle.root, "little_endian");
    int is_little = pickle_is(little, PICKLE_TRUTH) && little->integer == 1;
    pickle_done(&pickle);
    return is_little ? BERTH_OK
                     : layout_error(file, source->begin, "the file is not marked as little-endian",
                                    error);
}

static size_t element_size(const struct pickle_storage *storage) {
    return tensor_dtype_bits(storage->dtype_name) / 8;
}

// Collects the distinct storages that the object refers to, with their required size and begin = 0.
static enum berth_status collect_storages(struct torch_file *file, struct berth_error *error) {
    struct pickle_storage found;
    size_t count = 0, distinct = 0;
    for (size_t i = 0; i < file->pickle.count; i++) {
        count += pickle_is(&file->pickle.values[i], PICKLE_STORAGE);
    }
    TRY(new_storages(file, count, error));
    for (size_t i = 0; i < file->pickle.count; i++) {
        if (pickle_storage(&file->pickle, &file->pickle.values[i], &found)) {
            struct torch_storage *storage = &file->storages[file->storage_count++];
            *storage = (struct torch_storage){.key = found.key, .numel = (uint64_t)found.numel};
            if (__builtin_mul_overflow((uint64_t)found.numel, element_size(&found),
                                       &storage->size)) {
                return layout_error(file, 0, "the size of a storage overflows", error);
            }
        }
    }
    if (count > 0) {
        qsort(file->storages, count, sizeof *file->storages, torch_compare_storages);
    }
    for (size_t i = 0; i < count; i++) {
        if (distinct > 0 && strcmp(file->storages[distinct - 1].key, file->storages[i].key) == 0) {
            if (file->storages[distinct - 1].size != file->storages[i].size ||
                file->storages[distinct - 1].numel != file->storages[i].numel) {
                return layout_error(file, 0, "a storage with two different sizes", error);
            }
            continue;
        }
        file->storages[distinct++] = file->storages[i];
    }
    file->storage_count = distinct;
    return BERTH_OK;
}

// Locates the storage of the next key: its size in bytes is known from the object; its number of
// elements is repeated here.
static enum berth_status locate_storage(struct torch_file *file, const char *key, uint64_t *offset,
                                        struct berth_error *error) {
    unsigned char raw[8];
    struct torch_storage *storage = (struct torch_storage *)torch_find_storage(file, key);
    if (storage == NULL || storage->begin != 0) {
        return layout_error(file, *offset,
                            "the list of storages has a duplicate, or a storage of no tensor",
                            error);
    }
    if (file->archive.file.size - *offset < sizeof raw) {
        return layout_error(file, *offset, "the file is truncated: missing storage", error);
    }
    TRY(file_reader_at(&file->archive.file, *offset, raw, sizeof raw, error));
    uint64_t elements = little_endian(raw, sizeof raw);
    storage->begin = *offset + sizeof raw;
    if (elements != storage->numel || storage->size > file->archive.file.size - storage->begin) {
        return layout_error(file, *offset,
                            "the size of a storage differs from its tensors', or it is truncated",
                            error);
    }
    *offset = storage->begin + storage->size;
    return BERTH_OK;
}

static enum berth_status locate_storages(struct torch_file *file, const struct pickle *keys,
                                         uint64_t offset, struct berth_error *error) {
    size_t count = pickle_length(keys->root);
    if (!pickle_is(keys->root, PICKLE_LIST) || count != file->storage_count) {
        return layout_error(file, offset, "missing list of the storages that the tensors need",
                            error);
    }
    for (size_t i = 0; i < count; i++) {
        const char *key = pickle_text(keys, pickle_item(keys, keys->root, i));
        TRY(locate_storage(file, key != NULL ? key : "", &offset, error));
    }
    return offset == file->archive.file.size
               ? BERTH_OK
               : layout_error(file, offset, "unexpected data after the last storage", error);
}

enum berth_status torch_open_legacy(struct torch_file *file, const char *path,
                                    enum pickle_trust trust, struct berth_error *error) {
    unsigned char head[TENSOR_HEAD_BYTES];
    size_t length;
    TRY(tensor_file_head(path, head, &length, error));
    TRY(file_reader_open(&file->archive.file, path, error));
    struct pickle_source source = {.file = &file->archive.file,
                                   .part = "",
                                   .begin = magic_length(head, length),
                                   .end = file->archive.file.size};
    TRY(read_preface(file, &source, error));
    TRY(read_next(&file->pickle, &source, trust, error));
    TRY(collect_storages(file, error));
    struct pickle keys;
    TRY(read_next(&keys, &source, PICKLE_KNOWN_NAMES, error));
    enum berth_status status = locate_storages(file, &keys, source.begin, error);
    pickle_done(&keys);
    return status;
}
