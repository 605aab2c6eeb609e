// SPDX-License-Identifier: Apache-2.0
// Finds named tensors in pickled values, and reads their data. A tensor must be within its storage
// and no larger than the file, which is checked before any allocation for it. Opened by
// containers.c like any file of tensors; the pickle is read by pickle.c, the layout by
// torch_layout.c.
#include "format/torch/torch.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/text_util.h"
#include "core/utf8.h"
#include "format/archive/deflate.h"
#include "format/torch/torch_layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PATH_SIZE 4096u
// A strided read fetches everything between its first and last element at once if that is at most
// this large, or at most four times the wanted bytes.
#define SPAN_BYTES ((uint64_t)16 << 20)

// --- finding the tensors ------------------------------------------------------------------------

// A walk over the values, done twice: without `entries` it only counts.
struct walk {
    struct torch_file *file;
    char path[PATH_SIZE];
    size_t length;
    unsigned depth;
    uint64_t visits, visit_limit;
    size_t count, name_bytes;
    struct tensor_entry *entries;
    struct berth_error *error;
};

static enum berth_status tensor_error(const struct walk *walk, const char *problem) {
    return error_set(walk->error, BERTH_BAD_DATA, "%s: tensor \"%.*s\": %s",
                     walk->file->archive.file.path, UTF8_SHOWN(walk->path, 300), problem);
}

// Computes the number of elements and the end of the last one in the storage; 0 on overflow.
// A tensor without elements ends at 0: a slice of an empty tensor may begin beyond its storage.
static int measure_extent(const struct pickle_tensor *tensor, int64_t *elements, int64_t *end) {
    int overflow = 0;
    int64_t last = tensor->offset, reach;
    *elements = 1;
    for (int i = 0; i < tensor->rank; i++) {
        overflow |= __builtin_mul_overflow(*elements, tensor->shape[i], elements);
        if (tensor->shape[i] > 0) {
            overflow |= __builtin_mul_overflow(tensor->shape[i] - 1, tensor->stride[i], &reach) ||
                        __builtin_add_overflow(last, reach, &last);
        }
    }
    overflow |= __builtin_add_overflow(*elements > 0 ? last : -1, 1, end);
    return !overflow;
}

// Refuses numbers that cannot be read as they are stored.
static enum berth_status check_numbers(const struct walk *walk,
                                       const struct pickle_tensor *tensor) {
    char problem[PICKLE_MAX_NAME * 2 + 64];
    if (tensor->is_negated) {
        return tensor_error(walk,
                            "torch's bit \"neg\" or \"conj\" is set, so the stored numbers are not "
                            "its values: call resolve_neg() and resolve_conj() before saving");
    }
    if (tensor->dtype_name != NULL) {
        return BERTH_OK;
    }
    snprintf(problem, sizeof problem, "unknown data type %s: save it in another type",
             tensor->type);
    return tensor_error(walk, problem);
}

// The bytes of an element, also of types that are only copied.
static size_t element_size(const struct tensor_entry *entry) {
    return tensor_dtype_bits(entry->dtype_name) / 8;
}

static enum berth_status fill_entry(const struct walk *walk, const struct pickle_tensor *tensor,
                                    struct tensor_entry *entry, struct torch_view *view) {
    const struct torch_file *file = walk->file;
    int64_t elements, end;
    uint64_t size, bytes, numel = (uint64_t)tensor->storage.numel;
    const uint64_t unit = tensor_dtype_bits(tensor->storage.dtype_name) / 8;
    TRY(check_numbers(walk, tensor));
    tensor_dtype_parse(tensor->dtype_name, entry);
    size = element_size(entry);
    entry->rank = tensor->rank;
    memcpy(entry->shape, tensor->shape, sizeof entry->shape);
    view->storage = torch_find_storage(file, tensor->storage.key);
    if (view->storage == NULL) {
        return tensor_error(walk, "its data is missing from the file");
    }
    if (numel > view->storage->size / unit || numel * unit != view->storage->size) {
        return tensor_error(walk, "the size of its storage differs from the pickle's");
    }
    if (!measure_extent(tensor, &elements, &end) || (uint64_t)end > view->storage->size / size) {
        return tensor_error(walk, "it extends beyond its storage");
    }
    if (__builtin_mul_overflow((uint64_t)elements, size, &bytes) ||
        bytes > file->archive.file.size) {
        return tensor_error(walk, "it has more elements than the file has bytes for");
    }
    int64_t expected = 1;
    view->contiguous = 1;
    for (int i = tensor->rank; i-- > 0;) {
        view->stride[i] = tensor->stride[i];
        view->contiguous &= tensor->shape[i] <= 1 || tensor->stride[i] == expected;
        if (__builtin_mul_overflow(expected, tensor->shape[i], &expected)) {
            expected = 0; // there are no elements
        }
    }
    entry->begin = view->storage->begin + (elements > 0 ? (uint64_t)tensor->offset * size : 0);
    entry->end = entry->begin + bytes;
    return BERTH_OK;
}

static enum berth_status add_tensor(struct walk *walk, const struct pickle_value *value) {
    struct pickle_tensor tensor;
    size_t length = strlen(walk->path) + 1;
    pickle_tensor(&walk->file->pickle, value, &tensor);
    if (walk->count == TORCH_MAX_TENSORS || length > TORCH_MAX_NAMES - walk->name_bytes) {
        return tensor_error(walk, "too many tensors: the limits are 1,000,000 and 16 MiB of names");
    }
    if (walk->entries != NULL) {
        struct tensor_entry *entry = &walk->entries[walk->count];
        struct torch_view *view = &walk->file->views[walk->count];
        char *name = walk->file->names + walk->name_bytes;
        memcpy(name, walk->path, length);
        *entry = (struct tensor_entry){.name = name};
        *view = (struct torch_view){0};
        TRY(fill_entry(walk, &tensor, entry, view));
        uint32_t *number = &walk->file->numbers[value - walk->file->pickle.values];
        *number = *number > 0 ? *number : (uint32_t)walk->count + 1;
    }
    walk->count++;
    walk->name_bytes += length;
    return BERTH_OK;
}

// Appends a part to the path: a key, or the index of an item.
static enum berth_status append_to_path(struct walk *walk, const struct pickle_value *parent,
                                        size_t index) {
    const struct pickle *pickle = &walk->file->pickle;
    const struct pickle_value *key = pickle_key(pickle, parent, index);
    const char *text = pickle_is(key, PICKLE_TEXT) ? pickle_text(pickle, key) : NULL;
    char number[32];
    if (text == NULL) {
        int64_t value = (int64_t)index;
        pickle_integer(key, &value);
        snprintf(number, sizeof number, "%" PRId64, value);
        text = number;
    } else if (strlen(text) != key->count) {
        return tensor_error(walk, "a key in it contains a NUL");
    }
    const char *dot = walk->depth > 1 ? "." : "";
    size_t room = sizeof walk->path - walk->length;
    size_t used = (size_t)snprintf(walk->path + walk->length, room, "%s%s", dot, text);
    if (used >= room) {
        return tensor_error(walk, "its name is longer than 4,095 bytes");
    }
    walk->length += used;
    return BERTH_OK;
}

static int is_inner(const struct pickle_value *value) {
    return pickle_length(value) > 0 || pickle_is(value, PICKLE_TENSOR);
}

static enum berth_status walk_value(struct walk *walk, const struct pickle_value *value) {
    if (pickle_is(value, PICKLE_TENSOR)) {
        return add_tensor(walk, value);
    }
    if (walk->depth == TORCH_MAX_DEPTH) {
        return tensor_error(walk, "dictionaries and lists nested deeper than 64");
    }
    walk->depth++;
    size_t length = walk->length, count = pickle_length(value);
    for (size_t i = 0; i < count; i++) {
        const struct pickle_value *child = pickle_item(&walk->file->pickle, value, i);
        if (++walk->visits > walk->visit_limit) {
            return tensor_error(walk, "too many references between values");
        }
        if (!is_inner(child)) {
            continue;
        }
        TRY(append_to_path(walk, value, i));
        TRY(walk_value(walk, child));
        walk->length = length;
        walk->path[length] = '\0';
    }
    walk->depth--;
    return BERTH_OK;
}

static enum berth_status walk_all(struct walk *walk) {
    const struct pickle *pickle = &walk->file->pickle;
    walk->visits = walk->depth = 0;
    walk->length = walk->count = walk->name_bytes = 0;
    snprintf(walk->path, sizeof walk->path, "%s",
             pickle_is(pickle->root, PICKLE_TENSOR) ? "tensor" : "");
    return walk_value(walk, pickle->root);
}

static enum berth_status list_tensors(struct torch_file *file, struct berth_error *error) {
    struct walk walk = {.file = file,
                        .visit_limit = 4 * (file->pickle.count + file->pickle.item_count),
                        .error = error};
    TRY(walk_all(&walk));
    file->names = memory_new(walk.name_bytes);
    file->entries = memory_array(walk.count, sizeof *file->entries);
    file->views = memory_array(walk.count, sizeof *file->views);
    file->numbers = memory_array_zeroed(file->pickle.count, sizeof *file->numbers);
    if (file->names == NULL || file->entries == NULL || file->views == NULL ||
        file->numbers == NULL) {
        return error_no_memory(error, walk.count * (sizeof *file->entries + sizeof *file->views),
                               file->archive.file.path);
    }
    walk.entries = file->entries;
    TRY(walk_all(&walk));
    file->count = walk.count;
    return BERTH_OK;
}

// --- opening ------------------------------------------------------------------------------------

static enum berth_status open_layout(struct torch_file *file, const char *path,
                                     enum pickle_trust trust, struct berth_error *error) {
    unsigned char head[TENSOR_HEAD_BYTES];
    size_t length;
    TRY(tensor_file_head(path, head, &length, error));
    if (torch_is_zip(head, length)) {
        return torch_open_zip(file, path, trust, error);
    }
    return torch_is_legacy(head, length)
               ? torch_open_legacy(file, path, trust, error)
               : error_set(error, BERTH_BAD_DATA,
                           "%s: not a PyTorch file: neither a zip archive nor a pickle", path);
}

enum berth_status torch_open(struct torch_file *file, const char *path, enum pickle_trust trust,
                             struct berth_error *error) {
    *file = (struct torch_file){.archive.file.descriptor = -1};
    enum berth_status status = open_layout(file, path, trust, error);
    if (status == BERTH_OK) {
        status = list_tensors(file, error);
    }
    if (status != BERTH_OK) {
        torch_close(file);
    }
    return status;
}

void torch_close(struct torch_file *file) {
    zip_close(&file->archive);
    pickle_done(&file->pickle);
    memory_free(file->storages);
    memory_free(file->entries);
    memory_free(file->views);
    memory_free(file->numbers);
    memory_free(file->names);
    *file = (struct torch_file){.archive.file.descriptor = -1};
}

const struct tensor_entry *torch_tensor(const struct torch_file *file,
                                        const struct pickle_value *value) {
    const uint32_t number = value != NULL ? file->numbers[value - file->pickle.values] : 0;
    return number > 0 ? &file->entries[number - 1] : NULL;
}

// --- data ---------------------------------------------------------------------------------------

static enum berth_status checksum_error(const struct torch_file *file,
                                        const struct tensor_entry *entry,
                                        struct berth_error *error) {
    return error_set(error, BERTH_BAD_DATA, "%s: tensor \"%s\" is damaged: wrong CRC-32",
                     file->archive.file.path, entry->name);
}

static enum berth_status read_block(const struct torch_file *file, const struct tensor_entry *entry,
                                    uint64_t first, size_t bytes, void *to,
                                    struct berth_error *error) {
    const struct torch_storage *storage = file->views[entry - file->entries].storage;
    int from_begin = entry->begin + first == storage->begin;
    int whole = from_begin && bytes == storage->size;
    if (storage->has_crc && from_begin && !whole) {
        // The CRC is that of the whole storage of the tensor.
        unsigned char buffer[32768];
        uint32_t crc = 0;
        for (uint64_t done = 0; done < storage->size; done += sizeof buffer) {
            uint64_t left = storage->size - done;
            size_t now = left < sizeof buffer ? (size_t)left : sizeof buffer;
            TRY(file_reader_at(&file->archive.file, storage->begin + done, buffer, now, error));
            crc = deflate_crc32(crc, buffer, now);
        }
        if (crc != storage->crc) {
            return checksum_error(file, entry, error);
        }
    }
    TRY(file_reader_at(&file->archive.file, entry->begin + first, to, bytes, error));
    return !storage->has_crc || !whole || deflate_crc32(0, to, bytes) == storage->crc
               ? BERTH_OK
               : checksum_error(file, entry, error);
}

// A walk over the elements of a strided tensor in row-major order, a run of neighbours at a time.
struct strides {
    const struct torch_file *file;
    const struct tensor_entry *entry;
    const int64_t *stride;
    int outer;   // dimensions above the runs
    int64_t run; // elements in a whole run
    int64_t index[TENSOR_MAX_RANK];
    int64_t within; // elements of the current run that are done
    int64_t offset; // offset of the current run in the storage, from the tensor's first element
};

static void find_runs(struct strides *walk) {
    walk->outer = walk->entry->rank;
    walk->run = 1;
    while (walk->outer > 0 && (walk->entry->shape[walk->outer - 1] == 1 ||
                               walk->stride[walk->outer - 1] == walk->run)) {
        walk->run *= walk->entry->shape[--walk->outer];
    }
}

static void seek_element(struct strides *walk, int64_t element) {
    int64_t rest = element / walk->run;
    walk->within = element % walk->run;
    walk->offset = 0;
    for (int i = walk->outer; i-- > 0;) {
        walk->index[i] = rest % walk->entry->shape[i];
        rest /= walk->entry->shape[i];
        walk->offset += walk->index[i] * walk->stride[i];
    }
}

static void next_run(struct strides *walk) {
    walk->within = 0;
    for (int i = walk->outer; i-- > 0;) {
        walk->offset += walk->stride[i];
        if (++walk->index[i] < walk->entry->shape[i]) {
            return;
        }
        walk->offset -= walk->index[i] * walk->stride[i];
        walk->index[i] = 0;
    }
}

// The least and the largest offset of elements [first, last]: they share their indices down to some
// dimension; below it all indices may occur.
static void find_span(struct strides *walk, int64_t first, int64_t last, int64_t *low,
                      int64_t *high) {
    int64_t index[TENSOR_MAX_RANK] = {0};
    int same = 0;
    seek_element(walk, first);
    memcpy(index, walk->index, sizeof index);
    seek_element(walk, last);
    *low = *high = 0;
    while (same < walk->outer && index[same] == walk->index[same]) {
        *low += index[same] * walk->stride[same];
        same++;
    }
    *high = *low + walk->run - 1;
    if (same < walk->outer) {
        *low += index[same] * walk->stride[same];
        *high += walk->index[same] * walk->stride[same];
    }
    for (int i = same + 1; i < walk->outer; i++) {
        *high += (walk->entry->shape[i] - 1) * walk->stride[i];
    }
}

// Copies runs from the bytes of the storage in memory (`span`), or from the file (NULL); `base` is
// the offset of the first byte of `span`.
static enum berth_status copy_runs(struct strides *walk, const char *span, int64_t base,
                                   size_t bytes, char *to, struct berth_error *error) {
    size_t size = element_size(walk->entry);
    for (size_t done = 0; done < bytes; next_run(walk)) {
        uint64_t from = (uint64_t)(walk->offset + walk->within - base) * size;
        size_t now = (size_t)(walk->run - walk->within) * size;
        now = now < bytes - done ? now : bytes - done;
        if (span != NULL) {
            memcpy(to + done, span + from, now);
        } else {
            TRY(file_reader_at(&walk->file->archive.file, walk->entry->begin + from, to + done, now,
                               error));
        }
        done += now;
    }
    return BERTH_OK;
}

static enum berth_status read_strided(const struct torch_file *file,
                                      const struct tensor_entry *entry, uint64_t first,
                                      size_t bytes, void *to, struct berth_error *error) {
    size_t size = element_size(entry);
    struct strides walk = {
        .file = file, .entry = entry, .stride = file->views[entry - file->entries].stride};
    int64_t element = (int64_t)(first / size), low, high;
    find_runs(&walk);
    find_span(&walk, element, element + (int64_t)(bytes / size) - 1, &low, &high);
    seek_element(&walk, element);
    uint64_t span = (uint64_t)(high - low + 1) * size;
    if (span > SPAN_BYTES + 4 * (uint64_t)bytes) {
        return copy_runs(&walk, NULL, 0, bytes, to, error);
    }
    char *block = memory_new((size_t)span);
    if (block == NULL) {
        return error_no_memory(error, (size_t)span, entry->name);
    }
    enum berth_status status = file_reader_at(
        &file->archive.file, entry->begin + (uint64_t)low * size, block, (size_t)span, error);
    if (status == BERTH_OK) {
        status = copy_runs(&walk, block, low, bytes, to, error);
    }
    memory_free(block);
    return status;
}

enum berth_status torch_read(const struct torch_file *file, const struct tensor_entry *entry,
                             uint64_t first, size_t bytes, void *to, struct berth_error *error) {
    TRY(tensor_check_range(file->archive.file.path, entry, first, bytes, error));
    if (bytes == 0) {
        return BERTH_OK;
    }
    return file->views[entry - file->entries].contiguous
               ? read_block(file, entry, first, bytes, to, error)
               : read_strided(file, entry, first, bytes, to, error);
}

// --- as two of many containers ------------------------------------------------------------------

static int recognise_zip(const char *path, const unsigned char *head, size_t length) {
    return torch_is_zip(head, length);
}

static int recognise_legacy(const char *path, const unsigned char *head, size_t length) {
    return torch_is_legacy(head, length);
}

static enum berth_status open_file(struct tensor_file *file, struct berth_error *error) {
    struct torch_file *container = file->container;
    TRY(torch_open(container, file->path, PICKLE_OBJECTS, error));
    // The tensors of an object are in its attributes, which are not read.
    const struct pickle_value *name = container->pickle.object_class;
    if (container->count == 0 && name != NULL) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: expected tensors, found an object of class %s; if it is a pickled "
                         "module, save its state_dict instead",
                         container->archive.file.path, pickle_text(&container->pickle, name));
    }
    file->entries = container->entries;
    file->count = container->count;
    return BERTH_OK;
}

static enum berth_status read_file(const struct tensor_file *file, const struct tensor_entry *entry,
                                   uint64_t first, size_t bytes, void *to,
                                   struct berth_error *error) {
    return torch_read(file->container, entry, first, bytes, to, error);
}

static void close_file(void *container) {
    torch_close(container);
}

const struct tensor_format torch_zip_format = {.name = "PyTorch",
                                               .recognise = recognise_zip,
                                               .container_size = sizeof(struct torch_file),
                                               .open = open_file,
                                               .read = read_file,
                                               .close = close_file,
                                               .find = torch_find};
const struct tensor_format torch_legacy_format = {.name = "PyTorch (before 1.6)",
                                                  .recognise = recognise_legacy,
                                                  .container_size = sizeof(struct torch_file),
                                                  .open = open_file,
                                                  .read = read_file,
                                                  .close = close_file};

// --- the newest checkpoint of a folder -----------------------------------------------------------

#define STEP_PREFIX "ckpt_"
#define STEP_ENDING ".pt"

int64_t torch_find_step(const char *name) {
    int64_t step = -1;
    const size_t length = strlen(name), around = strlen(STEP_PREFIX) + strlen(STEP_ENDING);
    if (length > around && strncmp(name, STEP_PREFIX, strlen(STEP_PREFIX)) == 0 &&
        name_has_suffix(name, STEP_ENDING)) {
        (void)number_parse_digits(name + strlen(STEP_PREFIX), length - around, &step);
    }
    return step;
}

enum berth_status torch_find(const char *folder, char **path, struct berth_error *error) {
    char **names;
    const char *newest = NULL;
    int64_t highest = -1;
    *path = NULL;
    TRY(dir_list(folder, &names, error));
    for (size_t i = 0; names[i] != NULL; i++) {
        int64_t step = torch_find_step(names[i]);
        if (step > highest) {
            highest = step;
            newest = names[i];
        }
    }
    enum berth_status status = BERTH_OK;
    if (newest != NULL) {
        *path = path_join(folder, newest);
        status = *path != NULL ? BERTH_OK : error_no_memory(error, 0, "a path");
    }
    memory_free(names);
    return status;
}

const struct torch_file *torch_of(const struct tensor_file *file) {
    return file->format == &torch_zip_format || file->format == &torch_legacy_format
               ? file->container
               : NULL;
}
