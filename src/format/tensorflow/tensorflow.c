// SPDX-License-Identifier: Apache-2.0
// Reads TensorFlow's checkpoints. The index is read into memory (up to a limit); the data stays on
// disk.
//
// Leaves out slices of partitioned variables, big-endian files, quantized types and strings. Opened
// by containers.c like any file of tensors; names are translated by model/names.h.
#include "format/tensorflow/tensorflow.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "core/utf8.h"
#include "format/checksum/crc32c.h"
#include "format/protobuf/protobuf.h"
#include "format/tensorflow/sorted_table.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define INDEX_LIMIT ((size_t)16 << 20)
// Limits all names together: they share prefixes, so a small file could hold very long ones.
#define NAMES_LIMIT ((size_t)64 << 20)
#define SHARD_LIMIT 1000 // all stay open
#define FORMAT_VERSION 1 // of the bundle
#define BUFFER_BYTES 32768

#define INDEX_ENDING ".index"

// --- data types ---------------------------------------------------------------------------------

static const struct type_row {
    uint64_t number; // in TensorFlow's DataType
    const char *name;
    enum tensor_dtype dtype;
} type_rows[] = {
    {1, "F32", TENSOR_F32},      {2, "F64", TENSOR_F64},    {3, "I32", TENSOR_I32},
    {4, "U8", TENSOR_U8},        {5, "I16", TENSOR_I16},    {6, "I8", TENSOR_I8},
    {7, "STRING", TENSOR_OTHER}, {8, "C64", TENSOR_OTHER},  {9, "I64", TENSOR_I64},
    {10, "BOOL", TENSOR_BOOL},   {14, "BF16", TENSOR_BF16}, {17, "U16", TENSOR_U16},
    {19, "F16", TENSOR_F16},     {22, "U32", TENSOR_U32},   {23, "U64", TENSOR_U64},
};
#define TYPE_STRING 7

static const struct type_row *find_type(uint64_t number) {
    for (size_t i = 0; i < sizeof type_rows / sizeof *type_rows; i++) {
        if (type_rows[i].number == number) {
            return &type_rows[i];
        }
    }
    return NULL;
}

unsigned tensorflow_dtype_number(enum tensor_dtype dtype) {
    for (size_t i = 0; i < sizeof type_rows / sizeof *type_rows; i++) {
        if (type_rows[i].dtype == dtype && dtype != TENSOR_OTHER) {
            return (unsigned)type_rows[i].number;
        }
    }
    return 0;
}

// --- the container ------------------------------------------------------------------------------

// Facts about a tensor that are not in its entry.
struct extra {
    uint32_t shard;
    uint32_t checksum; // not masked
    uint64_t base;     // the bytes in the shards before its own
    int is_text;
    atomic_uchar verified;
    size_t name_offset; // in `names`
};

struct bundle {
    const char *path; // of the index
    struct tensor_entry *entries;
    struct extra *extras; // of the same tensors
    size_t count, capacity;
    char *names;
    size_t names_length, names_capacity;
    size_t ignored_fields;
    struct file_reader *shards; // opened when a tensor is in them
    uint64_t shard_count;
};

static void close_file(void *container) {
    struct bundle *bundle = container;
    for (uint64_t i = 0; bundle->shards != NULL && i < bundle->shard_count; i++) {
        file_reader_close(&bundle->shards[i]);
    }
    memory_free(bundle->shards);
    memory_free(bundle->entries);
    memory_free(bundle->extras);
    memory_free(bundle->names);
}

// --- reading messages ---------------------------------------------------------------------------

// The fields of a message that have been seen; each may occur at most once.
struct seen {
    uint32_t fields; // bit k: field k
};

static enum berth_status check_once(struct seen *seen, const struct protobuf_reader *reader,
                                    const struct protobuf_field *field, enum protobuf_wire wire,
                                    struct berth_error *error) {
    if (seen->fields & 1u << field->number) {
        return error_set(error, BERTH_BAD_DATA, "%s: duplicate field %u", reader->name,
                         field->number);
    }
    seen->fields |= 1u << field->number;
    return protobuf_expect(reader, field, wire, error);
}

// VersionDef {1 producer, 2 min_consumer, 3 bad_consumers}: checks that version 1 may read the
// file.
static enum berth_status check_version(struct protobuf_reader reader, struct berth_error *error) {
    struct protobuf_field field;
    int more;
    for (;;) {
        TRY(protobuf_next(&reader, &field, &more, error));
        if (!more) {
            return BERTH_OK;
        }
        if (field.number == 2 && (field.wire != PROTOBUF_VARINT || field.value > FORMAT_VERSION)) {
            return error_set(error, BERTH_BAD_DATA,
                             "%s: requires format version %llu, this reader has %d: the file is "
                             "from a newer TensorFlow",
                             reader.name, (unsigned long long)field.value, FORMAT_VERSION);
        }
    }
}

// BundleHeaderProto {1 num_shards, 2 endianness, 3 version}
static enum berth_status read_header(struct bundle *bundle, const struct sorted_table_entry *entry,
                                     struct berth_error *error) {
    struct protobuf_reader reader = protobuf_read(entry->value, entry->value_length, bundle->path);
    struct protobuf_field field;
    struct seen seen = {0};
    for (;;) {
        int more;
        TRY(protobuf_next(&reader, &field, &more, error));
        if (!more) {
            break;
        }
        if (field.number == 1) {
            TRY(check_once(&seen, &reader, &field, PROTOBUF_VARINT, error));
            bundle->shard_count = field.value;
        } else if (field.number == 2 && (field.wire != PROTOBUF_VARINT || field.value != 0)) {
            return error_set(error, BERTH_BAD_DATA, "%s: big-endian files are not supported",
                             reader.name);
        } else if (field.number == 3) {
            TRY(check_once(&seen, &reader, &field, PROTOBUF_BYTES, error));
            TRY(check_version(protobuf_inside(&reader, &field), error));
        }
    }
    if (bundle->shard_count == 0 || bundle->shard_count > SHARD_LIMIT) {
        return error_set(error, BERTH_BAD_DATA, "%s: expected 1 to %d data files, found %llu",
                         bundle->path, SHARD_LIMIT, (unsigned long long)bundle->shard_count);
    }
    return BERTH_OK;
}

// TensorShapeProto.Dim {1 size, 2 name}
static enum berth_status read_dimension(struct protobuf_reader reader, int64_t *size,
                                        struct berth_error *error) {
    struct protobuf_field field;
    struct seen seen = {0};
    *size = 0;
    for (;;) {
        int more;
        TRY(protobuf_next(&reader, &field, &more, error));
        if (!more) {
            return BERTH_OK;
        }
        if (field.number == 1) {
            TRY(check_once(&seen, &reader, &field, PROTOBUF_VARINT, error));
            *size = (int64_t)field.value;
        }
    }
}

// TensorShapeProto {2 dim, 3 unknown_rank}
static enum berth_status read_shape(struct protobuf_reader reader, struct tensor_entry *entry,
                                    struct berth_error *error) {
    struct protobuf_field field;
    for (;;) {
        int more;
        TRY(protobuf_next(&reader, &field, &more, error));
        if (!more) {
            return BERTH_OK;
        }
        if (field.number != 2) {
            return error_set(error, BERTH_BAD_DATA, "%s: unknown shape", reader.name);
        }
        TRY(protobuf_expect(&reader, &field, PROTOBUF_BYTES, error));
        if (entry->rank == TENSOR_MAX_RANK) {
            return error_set(error, BERTH_BAD_DATA, "%s: a shape of more than %d dimensions",
                             reader.name, TENSOR_MAX_RANK);
        }
        int64_t *size = &entry->shape[entry->rank++];
        TRY(read_dimension(protobuf_inside(&reader, &field), size, error));
        if (*size < 0) {
            return error_set(error, BERTH_BAD_DATA, "%s: a dimension of %lld elements", reader.name,
                             (long long)*size);
        }
    }
}

// The contents of a BundleEntryProto, before checks.
struct raw_entry {
    uint64_t shard, offset, size;
    struct seen seen;
};

enum {
    FIELD_DTYPE = 1,
    FIELD_SHAPE,
    FIELD_SHARD,
    FIELD_OFFSET,
    FIELD_SIZE,
    FIELD_CRC,
    FIELD_SLICES
};

static enum berth_status read_field(const struct protobuf_reader *reader,
                                    const struct protobuf_field *field, struct raw_entry *raw,
                                    struct tensor_entry *entry, struct extra *extra,
                                    struct berth_error *error) {
    uint64_t *const numbers[] = {
        [FIELD_SHARD] = &raw->shard, [FIELD_OFFSET] = &raw->offset, [FIELD_SIZE] = &raw->size};
    if (field->number == FIELD_SHAPE) {
        TRY(check_once(&raw->seen, reader, field, PROTOBUF_BYTES, error));
        return read_shape(protobuf_inside(reader, field), entry, error);
    }
    if (field->number == FIELD_CRC) {
        TRY(check_once(&raw->seen, reader, field, PROTOBUF_FIXED32, error));
        extra->checksum = crc32c_unmask((uint32_t)field->value);
        return BERTH_OK;
    }
    TRY(check_once(&raw->seen, reader, field, PROTOBUF_VARINT, error));
    if (field->number == FIELD_DTYPE) {
        const uint64_t number = field->value;
        const struct type_row *row = find_type(number);
        if (row == NULL) {
            return error_set(error, BERTH_BAD_DATA,
                             "%s: TensorFlow's data type number %llu is not supported",
                             reader->name, (unsigned long long)number);
        }
        entry->dtype = row->dtype;
        snprintf(entry->dtype_name, sizeof entry->dtype_name, "%s", row->name);
        extra->is_text = number == TYPE_STRING;
        return BERTH_OK;
    }
    *numbers[field->number] = field->value;
    return BERTH_OK;
}

// BundleEntryProto {1 dtype, 2 shape, 3 shard_id, 4 offset, 5 size, 6 crc32c, 7 slices}
static enum berth_status read_entry(struct bundle *bundle, struct protobuf_reader reader,
                                    struct raw_entry *raw, struct tensor_entry *entry,
                                    struct extra *extra, struct berth_error *error) {
    struct protobuf_field field;
    for (;;) {
        int more;
        TRY(protobuf_next(&reader, &field, &more, error));
        if (!more) {
            break;
        }
        if (field.number == FIELD_SLICES) {
            return error_set(
                error, BERTH_BAD_DATA,
                "%s: partitioned variables are not supported; save the tensor as a whole",
                reader.name);
        }
        if (field.number < FIELD_SLICES) {
            TRY(read_field(&reader, &field, raw, entry, extra, error));
        } else {
            bundle->ignored_fields++;
        }
    }
    if (!(raw->seen.fields & 1u << FIELD_DTYPE) || !(raw->seen.fields & 1u << FIELD_CRC)) {
        return error_set(error, BERTH_BAD_DATA, "%s: missing data type or checksum", reader.name);
    }
    return BERTH_OK;
}

// --- checking entries ---------------------------------------------------------------------------

static enum berth_status check_entry(const struct bundle *bundle, const char *name,
                                     const struct raw_entry *raw, struct tensor_entry *entry,
                                     struct extra *extra, struct berth_error *error) {
    const int is_text = extra->is_text;
    uint64_t bits = is_text ? 8 : tensor_dtype_bits(entry->dtype_name), bytes, count;
    if (!tensor_entry_elements(entry, &count) || __builtin_mul_overflow(count, bits / 8, &bytes)) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: its shape has more elements than can be counted", name);
    }
    // Every string has at least one byte for its length.
    if (is_text ? raw->size < bytes : raw->size != bytes) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: %" PRIu64 " bytes, but %" PRIu64 " elements of type %s need %" PRIu64,
                         name, raw->size, count, entry->dtype_name, bytes);
    }
    if (raw->shard >= bundle->shard_count) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: refers to data file %" PRIu64
                         " (counted from 0), but the checkpoint has only %" PRIu64,
                         name, raw->shard, bundle->shard_count);
    }
    entry->begin = raw->offset;
    if (__builtin_add_overflow(raw->offset, raw->size, &entry->end) || entry->end > INT64_MAX) {
        return error_set(error, BERTH_BAD_DATA, "%s: its offset %" PRIu64 " is beyond any file",
                         name, raw->offset);
    }
    extra->shard = (uint32_t)raw->shard;
    return BERTH_OK;
}

// A key that begins with a NUL byte belongs to a slice: the tensor's name follows up to the next
// NUL.
static enum berth_status check_name(const struct bundle *bundle,
                                    const struct sorted_table_entry *key,
                                    struct berth_error *error) {
    if (key->key[0] == '\0') {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: tensor \"%.*s\": partitioned variables are not supported; save the "
                         "tensor as a whole",
                         bundle->path, UTF8_SHOWN(key->key + 1, 200));
    }
    for (size_t i = 0; i < key->key_length; i++) {
        unsigned char byte = (unsigned char)key->key[i];
        if (byte < ' ' || byte == 0x7f) {
            return error_set(error, BERTH_BAD_DATA,
                             "%s: the name of a tensor has control character %u at offset %zu",
                             bundle->path, byte, i);
        }
    }
    return BERTH_OK;
}

// --- collecting entries -------------------------------------------------------------------------

static enum berth_status store_name(struct bundle *bundle, const struct sorted_table_entry *key,
                                    size_t *offset, struct berth_error *error) {
    size_t needed = bundle->names_length + key->key_length + 1;
    if (needed > NAMES_LIMIT) {
        return error_set(error, BERTH_BAD_DATA, "%s: the names of the tensors exceed %zu bytes",
                         bundle->path, NAMES_LIMIT);
    }
    char *grown = memory_grow(bundle->names, &bundle->names_capacity, needed, 1);
    if (grown == NULL) {
        return error_no_memory(error, needed, bundle->path);
    }
    bundle->names = grown;
    *offset = bundle->names_length;
    memcpy(bundle->names + *offset, key->key, key->key_length + 1);
    bundle->names_length = needed;
    return BERTH_OK;
}

static enum berth_status make_room(struct bundle *bundle, struct berth_error *error) {
    size_t needed = bundle->count + 1, capacity = bundle->capacity; // of the extras
    struct tensor_entry *entries = memory_grow(bundle->entries, &capacity, needed, sizeof *entries);
    if (entries == NULL) {
        return error_no_memory(error, needed * sizeof *entries, bundle->path);
    }
    bundle->entries = entries;
    struct extra *extras = memory_grow(bundle->extras, &bundle->capacity, needed, sizeof *extras);
    if (extras == NULL) {
        return error_no_memory(error, needed * sizeof *extras, bundle->path);
    }
    bundle->extras = extras;
    return BERTH_OK;
}

static enum berth_status add_entry(struct bundle *bundle, const struct sorted_table_entry *key,
                                   struct berth_error *error) {
    TRY(check_name(bundle, key, error));
    TRY(make_room(bundle, error));
    char name[512]; // for messages
    snprintf(name, sizeof name, "%.*s: tensor \"%.*s\"", UTF8_SHOWN(bundle->path, 255),
             UTF8_SHOWN(key->key, 200));
    struct tensor_entry *entry = &bundle->entries[bundle->count];
    struct extra *extra = &bundle->extras[bundle->count];
    struct raw_entry raw = {0};
    *entry = (struct tensor_entry){0};
    *extra = (struct extra){0};
    struct protobuf_reader reader = protobuf_read(key->value, key->value_length, name);
    TRY(read_entry(bundle, reader, &raw, entry, extra, error));
    TRY(check_entry(bundle, name, &raw, entry, extra, error));
    TRY(store_name(bundle, key, &extra->name_offset, error));
    bundle->count++;
    return BERTH_OK;
}

static enum berth_status read_table(struct bundle *bundle, const char *bytes, size_t length,
                                    struct berth_error *error) {
    struct sorted_table table;
    struct sorted_table_entry entry;
    int more;
    TRY(sorted_table_open(&table, bytes, length, bundle->path, error));
    TRY(sorted_table_next(&table, &entry, &more, error));
    if (!more || entry.key_length != 0) {
        return error_set(error, BERTH_BAD_DATA, "%s: missing header of a TensorFlow checkpoint",
                         bundle->path);
    }
    TRY(read_header(bundle, &entry, error));
    for (;;) {
        TRY(sorted_table_next(&table, &entry, &more, error));
        if (!more) {
            break;
        }
        TRY(add_entry(bundle, &entry, error));
    }
    for (size_t i = 0; i < bundle->count; i++) {
        bundle->entries[i].name = bundle->names + bundle->extras[i].name_offset;
    }
    return BERTH_OK;
}

// --- the data files -----------------------------------------------------------------------------

static enum berth_status open_shards(struct bundle *bundle, struct berth_error *error) {
    enum berth_status status = BERTH_OK;
    uint64_t *ends = memory_array_zeroed(bundle->shard_count, sizeof *ends);
    bundle->shards = memory_array(bundle->shard_count, sizeof *bundle->shards);
    for (uint64_t i = 0; bundle->shards != NULL && i < bundle->shard_count; i++) {
        bundle->shards[i] = (struct file_reader){.descriptor = -1};
    }
    if (ends == NULL || bundle->shards == NULL) {
        memory_free(ends);
        return error_no_memory(error, bundle->shard_count * sizeof *bundle->shards, bundle->path);
    }
    for (size_t i = 0; i < bundle->count; i++) {
        uint32_t shard = bundle->extras[i].shard;
        if (bundle->shards[shard].descriptor < 0) {
            const size_t prefix = strlen(bundle->path) - strlen(INDEX_ENDING);
            const struct path path =
                path_format("%.*s.data-%05u-of-%05u", (int)prefix, bundle->path, shard,
                            (unsigned)bundle->shard_count);
            TRY_DONE(file_reader_open(&bundle->shards[shard], path.text, error));
        }
        ends[shard] = bundle->entries[i].end > ends[shard] ? bundle->entries[i].end : ends[shard];
    }
    // Every file has to be exactly as large as its tensors need.
    for (uint64_t i = 0; i < bundle->shard_count; i++) {
        const struct file_reader *shard = &bundle->shards[i];
        if (shard->descriptor >= 0 && shard->size != ends[i]) {
            TRY_DONE(error_set(error, BERTH_BAD_DATA,
                               "%s: the tensors need %" PRIu64 " bytes, the file has %" PRIu64
                               ": it is %s",
                               shard->path, ends[i], shard->size,
                               ends[i] > shard->size ? "truncated" : "followed by other data"));
        }
    }
    // Moves the offsets of each shard after those of the shards before it. `ends` become their
    // sums.
    for (uint64_t i = 1; i < bundle->shard_count; i++) {
        ends[i] += ends[i - 1];
    }
    for (size_t i = 0; i < bundle->count; i++) {
        struct extra *extra = &bundle->extras[i];
        extra->base = extra->shard > 0 ? ends[extra->shard - 1] : 0;
        bundle->entries[i].begin += extra->base;
        bundle->entries[i].end += extra->base;
    }
done:
    memory_free(ends);
    return status;
}

// --- data ---------------------------------------------------------------------------------------

static enum berth_status compare_checksum(const struct bundle *bundle, size_t i, uint32_t computed,
                                          struct berth_error *error) {
    struct extra *extra = &bundle->extras[i];
    if (computed != extra->checksum) {
        return error_tensor(
            error, BERTH_BAD_DATA, bundle->shards[extra->shard].path, bundle->entries[i].name,
            "wrong checksum %08" PRIx32 ", expected %08" PRIx32 ": the file is damaged", computed,
            extra->checksum);
    }
    atomic_store(&extra->verified, 1);
    return BERTH_OK;
}

// Reads bytes [first, first + bytes) of a tensor.
static enum berth_status read_bytes(const struct bundle *bundle, size_t i, uint64_t first,
                                    size_t bytes, void *to, struct berth_error *error) {
    const struct extra *extra = &bundle->extras[i];
    return file_reader_at(&bundle->shards[extra->shard],
                          bundle->entries[i].begin - extra->base + first, to, bytes, error);
}

// Reads the whole tensor to verify its checksum.
static enum berth_status verify(const struct bundle *bundle, size_t i, struct berth_error *error) {
    const struct tensor_entry *entry = &bundle->entries[i];
    char buffer[BUFFER_BYTES];
    uint32_t crc = 0;
    for (uint64_t done = 0; done < entry->end - entry->begin;) {
        uint64_t left = entry->end - entry->begin - done;
        size_t now = left < sizeof buffer ? (size_t)left : sizeof buffer;
        TRY(read_bytes(bundle, i, done, now, buffer, error));
        crc = crc32c(crc, buffer, now);
        done += now;
    }
    return compare_checksum(bundle, i, crc, error);
}

static enum berth_status read_data(const struct tensor_file *file, const struct tensor_entry *entry,
                                   uint64_t first, size_t bytes, void *to,
                                   struct berth_error *error) {
    const struct bundle *bundle = file->container;
    size_t i = (size_t)(entry - bundle->entries);
    TRY(tensor_check_range(file->path, entry, first, bytes, error));
    if (bundle->extras[i].is_text) {
        return error_tensor(error, BERTH_BAD_DATA, file->path, entry->name,
                            "expected numbers, found strings, which are not supported");
    }
    int verified = atomic_load(&bundle->extras[i].verified),
        whole = bytes == entry->end - entry->begin;
    if (!verified && !whole) {
        TRY(verify(bundle, i, error));
    }
    TRY(read_bytes(bundle, i, first, bytes, to, error));
    return verified || !whole ? BERTH_OK : compare_checksum(bundle, i, crc32c(0, to, bytes), error);
}

// --- as one of many containers ------------------------------------------------------------------

// By name: the magic number is at the end of the file, and the data files need the prefix before
// ".index".
static int recognise(const char *path, const unsigned char *head, size_t length) {
    return name_has_suffix(path, INDEX_ENDING);
}

static enum berth_status open_file(struct tensor_file *file, struct berth_error *error) {
    struct bundle *bundle = file->container;
    bundle->path = file->path;
    char *bytes;
    size_t length;
    TRY(file_read(bundle->path, INDEX_LIMIT, &bytes, &length, error));
    enum berth_status status = read_table(bundle, bytes, length, error);
    memory_free(bytes);
    TRY(status);
    TRY(open_shards(bundle, error));
    file->entries = bundle->entries;
    file->count = bundle->count;
    file->ignored_keys = bundle->ignored_fields;
    return BERTH_OK;
}

const struct tensor_format tensorflow_format = {.name = "tensorflow",
                                                .recognise = recognise,
                                                .container_size = sizeof(struct bundle),
                                                .open = open_file,
                                                .read = read_data,
                                                .close = close_file,
                                                .find = tensorflow_find};
