// SPDX-License-Identifier: Apache-2.0
// Recognises the container of a file of pre-training instances (HDF5, TFRecord) by its first bytes.
// Called before a file is read, by whoever is given one; the containers have readers in files of
// their own.
#include "data/pretraining/pretraining_file.h"

#include "core/text_util.h"
#include "format/hdf5/hdf5.h"
#include "format/tensorflow/tfrecord.h"

#include <ctype.h>
#include <string.h>

static const struct container {
    enum berth_status (*recognise)(const char *path, int *is, struct berth_error *error);
    enum berth_status (*measure)(const char *path, int max_length, struct pretraining_size *size,
                                 struct berth_error *error);
    enum berth_status (*read)(const char *path, int32_t vocab_size, int max_length,
                              struct instances *instances, struct berth_error *error);
} containers[] = {
    {hdf5_recognise, pretraining_measure_hdf5, pretraining_read_hdf5},
    {tfrecord_recognise, pretraining_measure_tfrecord, pretraining_read_tfrecord},
};

// A file that is in no container is given to the first one, which reports the error.
static enum berth_status find_container(const char *path, const struct container **found,
                                        struct berth_error *error) {
    int is = 0;
    *found = &containers[0];
    for (size_t i = 0; i < sizeof containers / sizeof *containers && !is; i++) {
        TRY(containers[i].recognise(path, &is, error));
        *found = is ? &containers[i] : *found;
    }
    return BERTH_OK;
}

enum berth_status pretraining_measure(const char *path, int max_length,
                                      struct pretraining_size *size, struct berth_error *error) {
    const struct container *container;
    TRY(find_container(path, &container, error));
    return container->measure(path, max_length, size, error);
}

enum berth_status pretraining_read(const char *path, int32_t vocab_size, int max_length,
                                   struct instances *instances, struct berth_error *error) {
    const struct container *container;
    TRY(find_container(path, &container, error));
    return container->read(path, vocab_size, max_length, instances, error);
}

// Whether the name is that of a TensorFlow shard, such as part-00000-of-00500, but not of a
// checkpoint: model.ckpt-7.data-00000-of-00001, model-00001-of-00002.safetensors.
static int is_numbered_part(const char *name) {
    const char *of = strstr(name, "-of-");
    if (of == NULL || of == name || strstr(name, ".data-") != NULL) {
        return 0;
    }
    size_t digits = strspn(of + 4, "0123456789");
    return isdigit((unsigned char)of[-1]) && digits > 0 && of[4 + digits] == '\0';
}

int pretraining_is_file(const char *name) {
    static const char *const extensions[] = {".hdf5", ".h5", ".tfrecord", ".tf_record",
                                             ".tfrecords"};
    if (name[0] == '.' || name_has_suffix(name, ".tmp")) {
        return 0;
    }
    for (size_t i = 0; i < sizeof extensions / sizeof *extensions; i++) {
        if (name_has_extension(name, extensions[i])) {
            return 1;
        }
    }
    return is_numbered_part(name);
}

static int begins_with(const char *text, const char *word) {
    return strncmp(text, word, strlen(word)) == 0;
}

enum pretraining_part pretraining_part_of(const char *name) {
    enum pretraining_part part = PART_ANY;
    for (int was_letter = 0, is_letter; *name != '\0'; name++, was_letter = is_letter) {
        is_letter = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z');
        if (begins_with(name, "training")) {
            part = PART_TRAINING;
        } else if (!was_letter && begins_with(name, "test")) {
            part = PART_TEST;
        }
    }
    return part;
}
