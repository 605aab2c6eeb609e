// SPDX-License-Identifier: Apache-2.0
// The tokenizer of a model folder or a vocabulary, for what needs no model.
#include "api/settings.h"

#include "core/file.h"
#include "core/memory.h"
#include "model/folder.h"
#include "train/inputs.h"

static enum berth_status find_lower_case(const struct berth_config *config, int *lower_case,
                                         struct berth_error *error) {
    *lower_case = config->do_lower_case != 0;
    if (config->do_lower_case >= 0 || config->model_name_or_path == NULL) {
        return BERTH_OK;
    }
    return folder_lower_case(config->model_name_or_path, lower_case, error);
}

enum berth_status settings_tokenizer(const struct berth_config *config,
                                     struct tokenizer **tokenizer, struct berth_error *error) {
    if (config->vocab_file == NULL && config->model_name_or_path == NULL) {
        return error_set(error, BERTH_USAGE,
                         "no vocabulary: give model_name_or_path (a folder) or vocab_file");
    }
    int lower_case;
    TRY(find_lower_case(config, &lower_case, error));
    const struct tokenizer_options options = inputs_tokenizer_options(config, lower_case);
    if (config->vocab_file != NULL) {
        return tokenizer_open(config->vocab_file, &options, tokenizer, error);
    }
    char *path = folder_file(config->model_name_or_path, "vocab.txt");
    if (path == NULL) {
        return file_no_path(error);
    }
    enum berth_status status = tokenizer_open(path, &options, tokenizer, error);
    memory_free(path);
    return status;
}
