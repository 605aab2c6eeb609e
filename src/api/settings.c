// SPDX-License-Identifier: Apache-2.0
// The tokenizer of a model folder or a vocabulary, for what needs no model.
#include "api/settings.h"

#include "core/file.h"
#include "core/memory.h"
#include "model/folder.h"
#include "train/engine/inputs.h"

enum berth_status settings_tokenizer(const struct berth_config *config,
                                     struct tokenizer **tokenizer, struct berth_error *error) {
    if (config->vocab_file == NULL && config->model_name_or_path == NULL) {
        return error_set(error, BERTH_USAGE,
                         "no vocabulary: give model_name_or_path (a folder) or vocab_file");
    }
    const char *folder = config->model_name_or_path;
    struct text_rules rules;
    if (config->vocab_file != NULL) {
        return inputs_open_tokenizer(config, folder, config->vocab_file, &rules, tokenizer, error);
    }
    char *path = folder_vocabulary_path(folder);
    if (path == NULL) {
        return file_no_path(error);
    }
    enum berth_status status =
        inputs_open_tokenizer(config, folder, path, &rules, tokenizer, error);
    memory_free(path);
    return status;
}
