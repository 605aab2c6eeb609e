// SPDX-License-Identifier: Apache-2.0
#include "task/texts.h"

#include "core/finite.h"
#include "core/memory.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

// --- which texts --------------------------------------------------------------------------------

// Sets the status of every text; returns the number of valid ones, whose indices it lists.
static size_t list_valid(const struct texts_args *args, const struct model_files *files,
                         size_t *indices) {
    size_t valid = 0;
    for (size_t i = 0; i < args->count; i++) {
        struct berth_error *error = NULL;
        if (args->statuses != NULL) {
            args->statuses[i] = (struct berth_text_status){.tokens = 0};
            error = &args->statuses[i].error;
        }
        if (args->items[i].text == NULL) {
            (void)error_set(error, BERTH_USAGE, "the text is NULL");
        } else if (args->items[i].pair != NULL && !model_files_distinguish_pairs(files)) {
            (void)error_set(error, BERTH_USAGE,
                            "the two texts of a pair cannot be distinguished by a model with "
                            "type_vocab_size %" PRId64 "; use a model with type_vocab_size 2",
                            files->shape.type_vocab_size);
        } else {
            indices[valid++] = i;
        }
    }
    return valid;
}

static enum berth_status make_dataset(struct texts *texts, const struct model_files *files,
                                      const struct texts_args *args, struct berth_error *error) {
    struct pair_example *examples = memory_array_zeroed(args->count, sizeof *examples);
    texts->dataset.examples = examples;
    texts->dataset.name = "the texts";
    texts->indices = memory_array(args->count, sizeof *texts->indices);
    if (examples == NULL || texts->indices == NULL) {
        return error_no_memory(error, args->count * sizeof *examples, "the texts");
    }
    texts->dataset.count = list_valid(args, files, texts->indices);
    for (size_t i = 0; i < texts->dataset.count; i++) {
        const struct berth_text *item = &args->items[texts->indices[i]];
        examples[i] = (struct pair_example){.text = item->text,
                                            .pair = item->pair,
                                            .line = texts->indices[i] + 1,
                                            .label = -1,
                                            .value = NAN,
                                            .label_count = -1};
    }
    return BERTH_OK;
}

// --- inputs -------------------------------------------------------------------------------------

static void note_lengths(const struct texts *texts, struct berth_text_status *statuses) {
    for (size_t i = 0; i < texts->features.count; i++) {
        const struct pair_feature *feature = &texts->features.features[i];
        statuses[texts->indices[i]].tokens = feature->length;
        statuses[texts->indices[i]].truncated = feature->truncated;
    }
}

enum berth_status texts_prepare(struct texts *texts, const struct inference *inference,
                                const struct texts_args *args, struct berth_error *error) {
    *texts = (struct texts){.indices = NULL};
    TRY(make_dataset(texts, &inference->predictor.files, args, error));
    TRY(pairs_put_prompt(&texts->dataset, args->prompt, &texts->prompted, error));
    TRY(pair_features_build(
        &texts->dataset, inference->predictor.files.tokenizer, inference->config.max_seq_length,
        inference_threads(inference, texts->dataset.count), &texts->features, error));
    if (args->statuses != NULL) {
        note_lengths(texts, args->statuses);
    }
    return BERTH_OK;
}

void texts_done(struct texts *texts) {
    pair_feature_set_done(&texts->features);
    memory_free(texts->prompted);
    memory_free(texts->indices);
    memory_free(texts->dataset.examples);
}

struct packer_source texts_source(const struct texts *texts) {
    return (struct packer_source){
        .get = pair_features_sequence, .data = &texts->features, .count = texts->features.count};
}

int texts_check_finite(struct berth_text_status *status, const float *numbers, size_t count) {
    const size_t finite = (size_t)finite_count(numbers, (int64_t)count);
    if (finite < count) {
        (void)error_set(&status->error, BERTH_FAILURE,
                        "number %zu of %zu of the result is not finite (%g); the model's weights "
                        "are damaged or its training diverged",
                        finite + 1, count, (double)numbers[finite]);
    }
    return finite == count;
}
