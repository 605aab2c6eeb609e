// SPDX-License-Identifier: Apache-2.0
// model.safetensors.
#include "api/conversion.h"
#include "core/file.h"
#include "core/memory.h"
#include "format/safetensors/safetensors.h"

// The source's own, so that a file comes back byte for byte; else what transformers asks for.
static const char *const *metadata_of(const struct conversion *conversion) {
    static const char *const usual[] = {"format", "pt", NULL};
    return outgoing_is_copy(conversion)
               ? (const char *const *)((const struct safetensors *)
                                           conversion->weights.file.container)
                     ->metadata
               : usual;
}

enum berth_status convert_to_hf(const struct conversion *conversion, struct berth_error *error) {
    struct outgoing outgoing;
    char *path = path_join(conversion->folder, "model.safetensors");
    if (path == NULL) {
        return file_no_path(error);
    }
    enum berth_status status = outgoing_read(conversion, &outgoing, error);
    if (status == BERTH_OK) {
        status =
            safetensors_write(path, outgoing.list, outgoing.count, metadata_of(conversion), error);
        outgoing_done(&outgoing);
    }
    memory_free(path);
    return status;
}
