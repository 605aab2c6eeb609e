// SPDX-License-Identifier: Apache-2.0
// Data for pre-training: the stages, and where their files lie.
#include "berth.h"
#include "core/file.h"
#include "core/memory.h"
#include "data/wikipedia.h"

#include <string.h>

#define TEXT_FOLDER "extracted/wikicorpus_en"

static enum berth_status check_stages(const char *stages, struct berth_error *error) {
    if (stages != NULL && strcmp(stages, "text") == 0) {
        return BERTH_OK;
    }
    return error_set(
        error, BERTH_USAGE,
        "stages: expected \"text\", the only stage that this version has, found %s%s%s",
        stages != NULL ? "\"" : "", stages != NULL ? stages : "none", stages != NULL ? "\"" : "");
}

static void take_counts(struct berth_prepare_result *result,
                        const struct wikipedia_counts *counts) {
    *result = (struct berth_prepare_result){.pages = counts->pages,
                                            .articles = counts->articles,
                                            .redirects = counts->redirects,
                                            .other_namespaces = counts->other_namespaces,
                                            .empty = counts->empty,
                                            .oversize = counts->oversize,
                                            .damaged = counts->damaged,
                                            .xml_bytes = counts->xml_bytes,
                                            .text_bytes = counts->text_bytes,
                                            .files = counts->files};
}

enum berth_status berth_prepare(const struct berth_prepare_settings *settings, struct berth_log log,
                                const volatile int *stop, struct berth_prepare_result *result,
                                struct berth_error *error) {
    struct wikipedia_counts counts;
    TRY(check_stages(settings->stages, error));
    char *folder = path_join(settings->output_dir, TEXT_FOLDER);
    if (folder == NULL) {
        return error_no_memory(error, strlen(settings->output_dir), "the output's name");
    }
    const struct wikipedia_settings text = {
        .dump = settings->wikipedia, .folder = folder, .file_size = (uint64_t)settings->file_size};
    enum berth_status status = wikipedia_text(&text, &log, stop, &counts, error);
    take_counts(result, &counts);
    memory_free(folder);
    return status;
}
