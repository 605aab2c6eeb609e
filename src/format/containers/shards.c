// SPDX-License-Identifier: Apache-2.0
// Reads sharded models. Every file of the index is opened by its own format; the index and the
// files must agree on every tensor. metadata.total_size is redundant and ignored. To its users a
// sharded model is one file of tensors (tensors/tensor_file.h).
#include "format/containers/shards.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "core/utf8.h"
#include "format/json/json.h"

#include <stdlib.h>
#include <string.h>

struct shards {
    struct tensor_file *files; // sorted by name
    char **names;              // of the files, sorted; borrowed from the index during opening
    size_t count;
    struct tensor_entry *entries; // file by file
    const struct tensor_file **owners;
    size_t entry_count;
    const struct tensor_formats *formats; // of the files
};

// --- the index ----------------------------------------------------------------------------------

static int is_plain_file_name(const char *name) {
    return name[0] != '\0' && strchr(name, '/') == NULL && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0 && !name_has_suffix(name, SHARDS_ENDING);
}

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Checks the map and collects the distinct names of its files; they belong to `map`.
static enum berth_status list_files(struct shards *shards, const json *map, const char *path,
                                    struct berth_error *error) {
    struct json_walk walk = {.object = map};
    size_t listed = 0;
    if (!json_is_object_value(map)) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: key \"weight_map\": expected an object that maps tensors to files",
                         path);
    }
    shards->names = memory_array(json_length(map), sizeof *shards->names);
    if (shards->names == NULL) {
        return error_no_memory(error, json_length(map) * sizeof *shards->names, path);
    }
    while (json_walk_next(&walk)) {
        const char *name = json_text(walk.value);
        if (name == NULL || !is_plain_file_name(name)) {
            return error_tensor(error, BERTH_BAD_DATA, path, walk.key,
                                "expected the name of a file in the same folder, "
                                "found \"%.*s\"",
                                UTF8_SHOWN(name != NULL ? name : "no text", 200));
        }
        shards->names[listed++] = (char *)name;
    }
    if (listed > 0) {
        qsort(shards->names, listed, sizeof *shards->names, compare_texts);
    }
    for (size_t i = 0; i < listed; i++) {
        if (i == 0 || strcmp(shards->names[i], shards->names[shards->count - 1]) != 0) {
            shards->names[shards->count++] = shards->names[i];
        }
    }
    return shards->count <= SHARDS_MAX
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA, "%s: %zu files; the limit is %d", path,
                           shards->count, SHARDS_MAX);
}

// --- the files ----------------------------------------------------------------------------------

static enum berth_status open_files(struct shards *shards, const char *index, const json *map,
                                    struct berth_error *error) {
    shards->files = memory_array_zeroed(shards->count, sizeof *shards->files);
    if (shards->files == NULL) {
        return error_no_memory(error, shards->count * sizeof *shards->files, index);
    }
    const struct path folder = path_parent(index);
    for (size_t i = 0; i < shards->count; i++) {
        const struct path path = path_in(folder.text, shards->names[i]);
        TRY(tensor_file_open_as(&shards->files[i], path.text, shards->formats, error));
        // The map has to assign every tensor of the file to this file.
        const struct tensor_file *file = &shards->files[i];
        for (size_t k = 0; k < file->count; k++) {
            const char *listed = json_text(json_member(map, file->entries[k].name));
            if (listed == NULL || strcmp(listed, shards->names[i]) != 0) {
                return error_tensor(error, BERTH_BAD_DATA, file->path, file->entries[k].name,
                                    "the index places it in %s",
                                    listed != NULL ? listed : "no file");
            }
        }
        shards->entry_count += shards->files[i].count;
    }
    return BERTH_OK;
}

// --- as one of many containers ------------------------------------------------------------------

static void close_index(void *container) {
    struct shards *shards = container;
    for (size_t i = 0; shards->files != NULL && i < shards->count; i++) {
        tensor_file_close(&shards->files[i]);
    }
    memory_free(shards->files);
    memory_free(shards->names);
    memory_free(shards->entries);
    memory_free(shards->owners);
}

static enum berth_status read_index(struct shards *shards, const char *path, const json *index,
                                    struct berth_error *error) {
    const json *map = json_member(index, "weight_map");
    TRY(list_files(shards, map, path, error));
    TRY(open_files(shards, path, map, error));
    // All tensors of the files are in the map, without duplicates, so equal counts mean equal sets.
    struct json_walk walk = {.object = map};
    size_t file = 0;
    while (shards->entry_count < json_length(map) && json_walk_next(&walk)) {
        for (file = 0; strcmp(shards->names[file], json_text(walk.value)) != 0;) {
            file++;
        }
        if (tensor_file_find(&shards->files[file], walk.key) == NULL) {
            return error_set(error, BERTH_BAD_DATA, "%s: tensor \"%s\" is missing from %s", path,
                             walk.key, shards->names[file]);
        }
    }
    // Moves the offsets of each file after those of the files before it.
    size_t count = 0;
    uint64_t base = 0, end = 0;
    shards->entries = memory_array(shards->entry_count, sizeof *shards->entries);
    shards->owners = memory_array(shards->entry_count, sizeof *shards->owners);
    if (shards->entries == NULL || shards->owners == NULL) {
        return error_no_memory(error, shards->entry_count * sizeof *shards->entries, path);
    }
    for (size_t i = 0; i < shards->count; i++, base = end) {
        for (size_t k = 0; k < shards->files[i].count; k++, count++) {
            struct tensor_entry *entry = &shards->entries[count];
            *entry = shards->files[i].entries[k];
            entry->begin += base;
            entry->end += base;
            end = entry->end > end ? entry->end : end;
            shards->owners[count] = &shards->files[i];
        }
    }
    return BERTH_OK;
}

static int recognise(const char *path, const unsigned char *head, size_t length) {
    return name_has_suffix(path, SHARDS_ENDING);
}

static enum berth_status open_index(struct tensor_file *file, struct berth_error *error) {
    struct shards *shards = file->container;
    json *index;
    TRY(json_read_file(file->path, &index, error));
    shards->formats = file->formats;
    enum berth_status status = read_index(shards, file->path, index, error);
    json_free(index);
    TRY(status);
    file->entries = shards->entries;
    file->count = shards->entry_count;
    for (size_t i = 0; i < shards->count; i++) {
        file->ignored_keys += shards->files[i].ignored_keys;
    }
    return BERTH_OK;
}

static enum berth_status read_tensor(const struct tensor_file *file,
                                     const struct tensor_entry *entry, uint64_t first, size_t bytes,
                                     void *to, struct berth_error *error) {
    const struct shards *shards = file->container;
    const struct tensor_file *owner = shards->owners[entry - shards->entries];
    // The owner identifies a tensor by its own entry.
    const struct tensor_entry *own = tensor_file_find(owner, entry->name);
    return owner->format->read(owner, own, first, bytes, to, error);
}

const struct tensor_format tensor_shards_format = {.name = "shards with an .index.json",
                                                   .recognise = recognise,
                                                   .container_size = sizeof(struct shards),
                                                   .open = open_index,
                                                   .read = read_tensor,
                                                   .close = close_index};
