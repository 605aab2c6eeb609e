// SPDX-License-Identifier: Apache-2.0
// Collects every tensor of the source in its own type, for a target that holds dictionaries of
// tensors: renamed, transposed, stacked, padded. All of them are in memory at once, without copies.
// Called by the targets of convert_targets.c and their kin; which names they get is in
// model/names.h.
#include "api/conversion.h"
#include "core/memory.h"
#include "format/safetensors/safetensors.h"
#include "model/architectures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// State while tensors are collected.
struct collector {
    const struct conversion *conversion;
    const struct weights *weights;
    struct outgoing *outgoing;
    unsigned char *parts; // number of parts already in the stack list[i]
    size_t used;          // bytes used of outgoing->data
    int keeps_names, is_bare;
    struct berth_error *error;
};

// --- names --------------------------------------------------------------------------------------

int outgoing_is_copy(const struct conversion *conversion) {
    return conversion->names->dialect == NULL && conversion->names->ties == 0 &&
           !conversion->retypes && !conversion->weights.is_quantized &&
           conversion->weights.file.format == &safetensors_format;
}

// Whether the name is one of transformers' own, including a bare BertModel's "embeddings.…".
static int is_hf_name(const struct conversion *conversion, const struct weight *weight) {
    const struct architecture *row = bert_architecture(&conversion->config);
    const size_t prefix = strlen(row->prefix);
    const char *theirs = weight->entry->name + conversion->weights.selected;
    char name[WEIGHT_NAME_SIZE];
    name_for_architecture(row, weight->name, name, sizeof name);
    return weight->use != NAME_STACKED &&
           (strcmp(name, theirs) == 0 ||
            (strncmp(name, row->prefix, prefix) == 0 && strcmp(name + prefix, theirs) == 0));
}

// Either all names are kept or all are translated: no model has only some names with the
// encoder's prefix.
static int keeps_names(const struct conversion *conversion) {
    int all = conversion->names->dialect == NULL && conversion->weights.dropped == 0;
    for (size_t i = 0; all && i < conversion->weights.count; i++) {
        all = is_hf_name(conversion, &conversion->weights.list[i]);
    }
    return all;
}

// transformers omits the encoder's prefix only in the files of the class without a head.
static enum berth_status find_bare(const struct conversion *conversion, int *is_bare,
                                   struct berth_error *error) {
    *is_bare = 0;
    if (conversion->names->dialect != NULL) {
        return BERTH_OK;
    }
    TRY(bert_config_is_architecture(&conversion->config, "BertModel", is_bare, error));
    for (size_t i = 0; *is_bare && i < conversion->weights.count; i++) {
        *is_bare = strncmp(conversion->weights.list[i].name, "bert.", 5) == 0;
    }
    return BERTH_OK;
}

// Writes the outgoing name, "" if it does not fit, and returns how the numbers are stored under it.
static enum name_use rename_weight(const struct collector *collector, const struct weight *weight,
                                   char name[WEIGHT_NAME_SIZE]) {
    const struct name_dialect *names = collector->conversion->names->dialect;
    const struct architecture *row = bert_architecture(&collector->conversion->config);
    name[0] = '\0';
    if (strlen(weight->entry->name) >= WEIGHT_NAME_SIZE) {
        return NAME_KEPT; // our name is truncated
    }
    if (names != NULL) {
        return name_for(names, weight->name, name, WEIGHT_NAME_SIZE);
    }
    name_for_architecture(row, weight->name, name, WEIGHT_NAME_SIZE);
    if (collector->is_bare && name[0] != '\0') {
        const char *rest = name + strlen(row->prefix);
        memmove(name, rest, strlen(rest) + 1);
    }
    return NAME_KEPT;
}

// --- shapes -------------------------------------------------------------------------------------

// The number of zero rows that the target appends to the words.
static int64_t padding_rows(const struct conversion *conversion, const struct weight *weight) {
    int64_t multiple = conversion->names->vocab_multiple;
    int64_t rows = weight->rank >= 1 ? weight->shape[0] : 0;
    return multiple > 0 && rows == conversion->config.vocab_size &&
                   weight_has_word_rows(weight->name)
               ? (rows + multiple - 1) / multiple * multiple - rows
               : 0;
}

enum tensor_dtype outgoing_type(const struct conversion *conversion, const struct weight *weight) {
    if (weight->scale != NULL) {
        return conversion->retypes ? conversion->matrices : TENSOR_F32;
    }
    return conversion->retypes && tensor_is_convertible(weight->entry->dtype)
               ? conversion->matrices
               : weight->entry->dtype;
}

// Every tensor starts at a multiple of 64 bytes.
static size_t aligned(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

// Excludes rows that the target adds.
static size_t own_bytes(const struct conversion *conversion, const struct weight *weight) {
    return (size_t)weight_elements(weight) * tensor_dtype_size(outgoing_type(conversion, weight));
}

static size_t outgoing_bytes(const struct conversion *conversion, const struct weight *weight) {
    size_t bytes = own_bytes(conversion, weight);
    int64_t rows = padding_rows(conversion, weight);
    return rows > 0 ? bytes + bytes / (size_t)weight->shape[0] * (size_t)rows : bytes;
}

// --- one tensor ---------------------------------------------------------------------------------

void conversion_warn_of_range(const struct conversion *conversion, const char *name,
                              const float *numbers, size_t count) {
    const size_t beyond = tensor_count_overflows(conversion->matrices, numbers, count);
    if (beyond > 0) {
        log_warning(&conversion->log,
                    "tensor \"%s\": %zu of %zu numbers are beyond the range of %s and become "
                    "infinite",
                    name, beyond, count, tensor_dtype_name(conversion->matrices));
    }
}

static enum berth_status read_narrowed(const struct collector *collector,
                                       const struct weight *weight, char *to) {
    size_t count = (size_t)weight_elements(weight), bytes = count * sizeof(float);
    float *wide = memory_pages(bytes);
    if (wide == NULL) {
        return error_no_memory(collector->error, bytes, weight->name);
    }
    enum berth_status status = weights_read_f32(collector->weights, weight, wide, collector->error);
    if (status == BERTH_OK) {
        conversion_warn_of_range(collector->conversion, weight_shown_name(weight), wide, count);
        tensor_narrow(collector->conversion->matrices, wide, count, to);
    }
    memory_pages_free(wide, bytes);
    return status;
}

// Reads a tensor in its outgoing type.
static enum berth_status read_tensor(const struct collector *collector, const struct weight *weight,
                                     char *to) {
    enum tensor_dtype type = outgoing_type(collector->conversion, weight);
    if (type == weight->entry->dtype) {
        return weights_read(collector->weights, weight, to, collector->error);
    }
    return type == TENSOR_F32
               ? weights_read_f32(collector->weights, weight, (float *)to, collector->error)
               : read_narrowed(collector, weight, to);
}

static enum berth_status read_transposed(const struct collector *collector,
                                         const struct weight *weight, char *to) {
    size_t bytes = own_bytes(collector->conversion, weight);
    char *own = memory_pages(bytes);
    if (own == NULL) {
        return error_no_memory(collector->error, bytes, weight->name);
    }
    enum berth_status status = read_tensor(collector, weight, own);
    if (status == BERTH_OK) {
        tensor_transpose(own, weight->shape[0], weight->shape[1],
                         tensor_dtype_size(outgoing_type(collector->conversion, weight)), to);
    }
    memory_pages_free(own, bytes);
    return status;
}

// Adds a tensor with `bytes` bytes of data; `name` is the entry's own or copied.
static struct tensor_out *new_tensor(struct collector *collector, const struct weight *weight,
                                     const char *name, size_t bytes) {
    struct outgoing *outgoing = collector->outgoing;
    struct tensor_out *tensor = &outgoing->list[outgoing->count];
    if (name != weight->entry->name) {
        name = memcpy(outgoing->names[outgoing->count], name, strlen(name) + 1);
    }
    *tensor = (struct tensor_out){.name = name,
                                  .dtype = outgoing_type(collector->conversion, weight),
                                  .rank = weight->rank,
                                  .data = outgoing->data + collector->used};
    memcpy(tensor->shape, weight->shape, sizeof tensor->shape);
    outgoing->count++;
    collector->used += aligned(bytes);
    return tensor;
}

static enum berth_status refuse(const struct collector *collector,
                                const struct tensor_entry *entry) {
    return error_set(collector->error, BERTH_BAD_DATA,
                     "%s: tensor \"%s\" of type %s: the type or the name cannot be converted",
                     collector->weights->file.path, entry->name, entry->dtype_name);
}

// --- stacks -------------------------------------------------------------------------------------

// Finds the stack with that name. Its parts are close together in the order of our names.
static struct tensor_out *find_stack(const struct collector *collector, const char *name) {
    size_t count = collector->outgoing->count;
    for (size_t i = count; i > 0 && count - i < 2 * NAME_PARTS; i--) {
        struct tensor_out *tensor = &collector->outgoing->list[i - 1];
        if (strcmp(tensor->name, name) == 0) {
            return tensor;
        }
    }
    return NULL;
}

static int fits_stack(const struct collector *collector, const struct tensor_out *stack,
                      const struct weight *weight) {
    return stack->dtype == outgoing_type(collector->conversion, weight) &&
           stack->rank == weight->rank && stack->shape[0] == NAME_PARTS * weight->shape[0] &&
           memcmp(stack->shape + 1, weight->shape + 1, (TENSOR_MAX_RANK - 1) * sizeof(int64_t)) ==
               0;
}

static enum berth_status add_part(struct collector *collector, const struct weight *weight,
                                  const char *name) {
    size_t bytes = own_bytes(collector->conversion, weight);
    struct tensor_out *stack = find_stack(collector, name);
    if (stack == NULL) {
        stack = new_tensor(collector, weight, name, NAME_PARTS * bytes);
        stack->shape[0] *= NAME_PARTS;
    }
    if (weight->rank < 1 || !fits_stack(collector, stack, weight)) {
        return error_tensor(collector->error, BERTH_BAD_DATA, collector->weights->file.path,
                            weight->entry->name,
                            "query, key and value differ in type or shape and "
                            "cannot be stacked");
    }
    collector->parts[stack - collector->outgoing->list]++;
    char *to = (char *)stack->data + (size_t)name_part_of(weight->name) * bytes;
    return read_tensor(collector, weight, to);
}

// --- all tensors ---------------------------------------------------------------------------------

static enum berth_status add_weight(struct collector *collector, const struct weight *weight) {
    char own_name[WEIGHT_NAME_SIZE];
    enum name_use use = NAME_KEPT;
    const char *name = weight->entry->name + collector->weights->selected;
    if (!collector->keeps_names) {
        use = rename_weight(collector, weight, own_name);
        name = own_name;
    }
    if (weight->entry->dtype == TENSOR_OTHER || name[0] == '\0') {
        return refuse(collector, weight->entry);
    }
    if (use == NAME_STACKED) {
        return add_part(collector, weight, name);
    }
    struct tensor_out *tensor =
        new_tensor(collector, weight, name, outgoing_bytes(collector->conversion, weight));
    tensor->shape[0] += padding_rows(collector->conversion, weight);
    if (use != NAME_TRANSPOSED || weight->rank != 2) {
        return read_tensor(collector, weight, (char *)tensor->data);
    }
    tensor->shape[0] = weight->shape[1];
    tensor->shape[1] = weight->shape[0];
    return read_transposed(collector, weight, (char *)tensor->data);
}

// --- ties ---------------------------------------------------------------------------------------

static const struct tensor_out *find_outgoing(const struct outgoing *outgoing, const char *name) {
    for (size_t i = 0; i < outgoing->count; i++) {
        if (strcmp(outgoing->list[i].name, name) == 0) {
            return &outgoing->list[i];
        }
    }
    return NULL;
}

static void translate(const struct collector *collector, const char *ours,
                      char name[WEIGHT_NAME_SIZE]) {
    const struct name_dialect *dialect = collector->conversion->names->dialect;
    if (dialect == NULL || name_for(dialect, ours, name, WEIGHT_NAME_SIZE) != NAME_KEPT) {
        name_for_architecture(bert_architecture(&collector->conversion->config), ours, name,
                              WEIGHT_NAME_SIZE);
    }
}

// The modules of torch have their own copies in the head for masked words, which a strict reader
// requires; they are the same block of numbers.
static void add_ties(struct collector *collector) {
    struct outgoing *outgoing = collector->outgoing;
    int has_head = weights_find(collector->weights, "cls.predictions.bias") != NULL;
    for (int i = 0; has_head && i < collector->conversion->names->ties; i++) {
        char source_name[WEIGHT_NAME_SIZE], name[WEIGHT_NAME_SIZE];
        translate(collector, weight_ties[i].source, source_name);
        translate(collector, weight_ties[i].copy, name);
        const struct tensor_out *source = find_outgoing(outgoing, source_name);
        if (source != NULL && find_outgoing(outgoing, name) == NULL) {
            struct tensor_out *copy = &outgoing->list[outgoing->count];
            *copy = *source;
            copy->name = strcpy(outgoing->names[outgoing->count++], name);
        }
    }
}

static enum berth_status collect(struct collector *collector) {
    const struct weights *weights = collector->weights;
    if (outgoing_is_copy(collector->conversion)) {
        for (size_t i = 0; i < weights->file.count; i++) {
            TRY(conversion_check_stop(collector->conversion, collector->error));
            // Copies a tensor of the file unchanged.
            const struct tensor_entry *entry = &weights->file.entries[i];
            struct weight whole = {.entry = entry, .rank = entry->rank};
            memcpy(whole.shape, entry->shape, sizeof whole.shape);
            if (entry->dtype == TENSOR_OTHER) {
                return refuse(collector, entry);
            }
            size_t bytes = (size_t)(entry->end - entry->begin);
            struct tensor_out *tensor = new_tensor(collector, &whole, entry->name, bytes);
            TRY(tensor_file_read(&collector->weights->file, entry, (char *)tensor->data,
                                 collector->error));
        }
        return BERTH_OK;
    }
    int once = collector->conversion->target->unties || collector->conversion->names->ties > 0;
    for (size_t i = 0; i < weights->count; i++) {
        TRY(conversion_check_stop(collector->conversion, collector->error));
        if (!once || !weights->list[i].tied) {
            TRY(add_weight(collector, &weights->list[i]));
        }
    }
    add_ties(collector);
    for (size_t i = 0; i < collector->outgoing->count; i++) {
        unsigned parts = collector->parts[i];
        if (parts != 0 && parts != NAME_PARTS) {
            return error_set(collector->error, BERTH_BAD_DATA,
                             "%s: one of query, key and value is missing: %s cannot be stacked",
                             collector->weights->file.path, collector->outgoing->list[i].name);
        }
    }
    return BERTH_OK;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(((const struct tensor_out *)a)->name, ((const struct tensor_out *)b)->name);
}

// Different names of another container may translate to the same one.
static enum berth_status check_distinct(const struct collector *collector) {
    const struct outgoing *outgoing = collector->outgoing;
    if (outgoing->count > 0) {
        qsort(outgoing->list, outgoing->count, sizeof *outgoing->list, compare_names);
    }
    for (size_t i = 1; i < outgoing->count; i++) {
        if (strcmp(outgoing->list[i - 1].name, outgoing->list[i].name) == 0) {
            return error_set(collector->error, BERTH_BAD_DATA,
                             "%s: duplicate tensor: two of its tensors are both %s",
                             collector->weights->file.path, outgoing->list[i].name);
        }
    }
    return BERTH_OK;
}

static enum berth_status allocate(struct collector *collector) {
    const struct weights *weights = collector->weights;
    struct outgoing *outgoing = collector->outgoing;
    size_t capacity = weights->count > weights->file.count ? weights->count : weights->file.count;
    if (outgoing_is_copy(collector->conversion)) {
        for (size_t i = 0; i < weights->file.count; i++) {
            const struct tensor_entry *entry = &weights->file.entries[i];
            outgoing->bytes += aligned((size_t)(entry->end - entry->begin));
        }
    } else {
        for (size_t i = 0; i < weights->count; i++) {
            outgoing->bytes += aligned(outgoing_bytes(collector->conversion, &weights->list[i]));
        }
    }
    capacity += WEIGHT_TIES;
    outgoing->list = memory_array(capacity + 1, sizeof *outgoing->list);
    outgoing->names = memory_array(capacity + 1, sizeof *outgoing->names);
    collector->parts = memory_array_zeroed(capacity + 1, sizeof *collector->parts);
    outgoing->data = memory_pages(outgoing->bytes);
    return outgoing->list != NULL && outgoing->names != NULL && collector->parts != NULL &&
                   outgoing->data != NULL
               ? BERTH_OK
               : error_no_memory(collector->error, outgoing->bytes, "the weights");
}

enum berth_status outgoing_read(const struct conversion *conversion, struct outgoing *outgoing,
                                struct berth_error *error) {
    struct collector collector = {.conversion = conversion,
                                  .weights = &conversion->weights,
                                  .outgoing = outgoing,
                                  .keeps_names = keeps_names(conversion),
                                  .error = error};
    enum berth_status status;
    *outgoing = (struct outgoing){0};
    TRY_DONE(find_bare(conversion, &collector.is_bare, error));
    TRY_DONE(allocate(&collector));
    TRY_DONE(collect(&collector));
    TRY_DONE(check_distinct(&collector));
done:
    memory_free(collector.parts);
    if (status != BERTH_OK) {
        outgoing_done(outgoing);
    }
    return status;
}

void outgoing_done(struct outgoing *outgoing) {
    memory_pages_free(outgoing->data, outgoing->bytes);
    memory_free(outgoing->names);
    memory_free(outgoing->list);
    *outgoing = (struct outgoing){0};
}
