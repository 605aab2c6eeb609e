// SPDX-License-Identifier: Apache-2.0
// model.safetensors with every tensor of the source in its own type. A safetensors file keeps its
// names and bytes; in other containers names that are not Hugging Face's become so, and matrices
// that these store transposed are turned.
#include "api/conversion.h"
#include "core/file.h"
#include "core/memory.h"
#include "format/safetensors.h"
#include "model/names.h"

#include <stdlib.h>
#include <string.h>

#define NAME_SIZE 128

struct hf_tensors {
    struct tensor_out *list;
    char (*names)[NAME_SIZE];
    size_t count;
    int keeps_names;
    char *data; // of all of them
    size_t bytes;
};

static int is_safetensors(const struct tensor_file *file) {
    return file->format == &safetensors_format;
}

// Whether transformers itself gives the name: a bare BertModel's "embeddings.…" too, and the old
// buffer of positions that says nothing.
static int is_hf_name(const char *theirs) {
    char ours[NAME_SIZE];
    if (name_translate(theirs, ours, sizeof ours) == NAME_DROPPED) {
        return tensor_path_ends(theirs, "position_ids");
    }
    return strcmp(ours, theirs) == 0 ||
           (strncmp(ours, "bert.", 5) == 0 && strcmp(ours + 5, theirs) == 0);
}

// All names stay, or all are translated: half a "bert." in a file would be no model's.
static int keeps_names(const struct tensor_file *file) {
    int all = 1;
    for (size_t i = 0; all && !is_safetensors(file) && i < file->count; i++) {
        all = is_hf_name(file->entries[i].name);
    }
    return all;
}

static void tensors_done(struct hf_tensors *tensors) {
    memory_pages_free(tensors->data, tensors->bytes);
    memory_free(tensors->names);
    memory_free(tensors->list);
}

static enum berth_status tensors_new(const struct tensor_file *file, struct hf_tensors *tensors,
                                     struct berth_error *error) {
    *tensors = (struct hf_tensors){.keeps_names = keeps_names(file)};
    for (size_t i = 0; i < file->count; i++) {
        tensors->bytes += (size_t)(file->entries[i].end - file->entries[i].begin);
    }
    tensors->list = memory_array(file->count + 1, sizeof *tensors->list);
    tensors->names = memory_array(file->count + 1, sizeof *tensors->names);
    tensors->data = memory_pages(tensors->bytes);
    if (tensors->list == NULL || tensors->names == NULL || tensors->data == NULL) {
        tensors_done(tensors);
        return error_no_memory(error, tensors->bytes, "the weights");
    }
    return BERTH_OK;
}

// The name that an entry gets; tensors->names has room for it.
static const char *name_entry(const struct tensor_entry *entry, struct hf_tensors *tensors,
                              enum name_use *use) {
    char *name = tensors->names[tensors->count];
    *use = NAME_KEPT;
    if (!tensors->keeps_names) {
        *use = name_translate(entry->name, name, NAME_SIZE);
    }
    return tensors->keeps_names || name[0] == '\0' ? entry->name : name;
}

static enum berth_status read_turned(const struct tensor_file *file,
                                     const struct tensor_entry *entry, char *to,
                                     struct berth_error *error) {
    size_t bytes = (size_t)(entry->end - entry->begin);
    char *own = memory_new(bytes);
    if (own == NULL) {
        return error_no_memory(error, bytes, entry->name);
    }
    enum berth_status status = tensor_file_read(file, entry, own, error);
    if (status == BERTH_OK) {
        tensor_transpose(own, entry->shape[0], entry->shape[1], tensor_dtype_size(entry->dtype),
                         to);
    }
    memory_free(own);
    return status;
}

static enum berth_status add_entry(const struct tensor_file *file, const struct tensor_entry *entry,
                                   struct hf_tensors *tensors, size_t *used,
                                   struct berth_error *error) {
    enum name_use use;
    struct tensor_out *tensor = &tensors->list[tensors->count];
    *tensor = (struct tensor_out){
        .dtype = entry->dtype, .rank = entry->rank, .data = tensors->data + *used};
    tensor->name = name_entry(entry, tensors, &use);
    if (use == NAME_DROPPED) {
        return BERTH_OK;
    }
    if (entry->dtype == TENSOR_OTHER) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: tensor \"%s\" has the type %s, which cannot be converted", file->path,
                         entry->name, entry->dtype_name);
    }
    int turned = use == NAME_TRANSPOSED && entry->rank == 2;
    memcpy(tensor->shape, entry->shape, sizeof entry->shape);
    if (turned) {
        tensor->shape[0] = entry->shape[1];
        tensor->shape[1] = entry->shape[0];
    }
    char *to = tensors->data + *used;
    TRY(turned ? read_turned(file, entry, to, error) : tensor_file_read(file, entry, to, error));
    *used += (size_t)(entry->end - entry->begin);
    tensors->count++;
    return BERTH_OK;
}

// The source's own, so that a file comes back byte for byte; else what transformers asks for.
static const char *const *metadata_of(const struct tensor_file *file) {
    static const char *const usual[] = {"format", "pt", NULL};
    return is_safetensors(file)
               ? (const char *const *)((const struct safetensors *)file->container)->metadata
               : usual;
}

static enum berth_status write_file(const struct conversion *conversion,
                                    const struct hf_tensors *tensors, struct berth_error *error) {
    char *path = path_join(conversion->folder, "model.safetensors");
    if (path == NULL) {
        return error_set(error, BERTH_NO_MEMORY, "out of memory for a file name");
    }
    enum berth_status status = safetensors_write(path, tensors->list, tensors->count,
                                                 metadata_of(&conversion->weights), error);
    memory_free(path);
    return status;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(((const struct tensor_out *)a)->name, ((const struct tensor_out *)b)->name);
}

// Different names of another container may have become one.
static enum berth_status check_distinct(const struct tensor_file *file, struct hf_tensors *tensors,
                                        struct berth_error *error) {
    qsort(tensors->list, tensors->count, sizeof *tensors->list, compare_names);
    for (size_t i = 1; i < tensors->count; i++) {
        if (strcmp(tensors->list[i - 1].name, tensors->list[i].name) == 0) {
            return error_set(error, BERTH_BAD_DATA, "%s: two of its tensors are both %s",
                             file->path, tensors->list[i].name);
        }
    }
    return BERTH_OK;
}

enum berth_status convert_to_hf(const struct conversion *conversion, struct berth_error *error) {
    const struct tensor_file *file = &conversion->weights;
    struct hf_tensors tensors;
    size_t used = 0;
    enum berth_status status;
    TRY(tensors_new(file, &tensors, error));
    for (size_t i = 0; i < file->count; i++) {
        TRY_DONE(add_entry(file, &file->entries[i], &tensors, &used, error));
    }
    TRY_DONE(check_distinct(file, &tensors, error));
    TRY_DONE(write_file(conversion, &tensors, error));
done:
    tensors_done(&tensors);
    return status;
}
