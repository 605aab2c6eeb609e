// SPDX-License-Identifier: Apache-2.0
#include "train/engine/batching.h"

#include "core/memory.h"
#include "core/options.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>

// Number of epochs whose order is walked to find the worst case; a longer run gets an upper bound.
#define WALKED_EPOCHS 32

// For a micro-batch limited by tokens: sequences are longer than FEW_TOKENS on average, and at most
// one in FEW_MASKED tokens is masked. Otherwise a micro-batch holds fewer sequences.
#define FEW_TOKENS 16
#define FEW_MASKED 4

static enum berth_status contradiction(const struct batching *b, int64_t micro, int64_t ranks,
                                       struct berth_error *error) {
    return error_set(error, BERTH_CONFIG,
                     "train_batch_size %" PRId64 " is not per_device_train_batch_size %" PRId64
                     " x gradient_accumulation_steps %" PRId64 " x processes %" PRId64
                     "; change or omit one of them",
                     b->update_sequences, micro, b->accumulation, ranks);
}

enum berth_status batching_parts(const struct berth_config *config, int64_t ranks, int64_t *parts,
                                 struct berth_error *error) {
    *parts = config->virtual_ranks > 0 ? config->virtual_ranks : ranks;
    return *parts % ranks == 0
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG,
                           "--virtual_ranks %" PRId64
                           ": expected a multiple of the number of processes, %" PRId64,
                           *parts, ranks);
}

static enum berth_status resolve_sizes(struct batching *b, const struct berth_config *config,
                                       int64_t ranks, struct berth_error *error) {
    int64_t micro = config->per_device_train_batch_size;
    int64_t accumulation = config->gradient_accumulation_steps;
    b->update_sequences = config->train_batch_size;
    if (micro > 0 && !option_is_chosen(config, option_find("train_batch_size"))) {
        int64_t steps = accumulation > 0 ? accumulation : 1;
        if (__builtin_mul_overflow(micro, steps, &b->update_sequences) ||
            __builtin_mul_overflow(b->update_sequences, ranks, &b->update_sequences)) {
            return error_set(error, BERTH_CONFIG,
                             "per_device_train_batch_size %" PRId64
                             " x gradient_accumulation_steps %" PRId64 " is too large",
                             micro, steps);
        }
    }
    if (b->update_sequences < 1 || micro < 0 || accumulation < 0) {
        return error_set(error, BERTH_CONFIG,
                         "batch sizes must be positive: train_batch_size %" PRId64
                         ", per_device_train_batch_size %" PRId64
                         ", gradient_accumulation_steps %" PRId64,
                         b->update_sequences, micro, accumulation);
    }
    if (micro == 0 && accumulation == 0) {
        b->micro = (struct batch_extent){
            .tokens = BATCHING_TOKENS, .sequences = b->update_sequences, .masked = INT64_MAX};
        return BERTH_OK;
    }
    const int64_t own = b->update_sequences / ranks; // of one process
    int64_t sequences = micro > 0 ? micro : own / accumulation;
    b->micro =
        (struct batch_extent){.tokens = INT64_MAX, .sequences = sequences, .masked = INT64_MAX};
    b->accumulation = accumulation > 0 ? accumulation : sequences > 0 ? own / sequences : 0;
    if (sequences * b->accumulation * ranks != b->update_sequences || b->accumulation == 0) {
        return contradiction(b, sequences, ranks, error);
    }
    return BERTH_OK;
}

static enum berth_status count_steps(struct batching *batching, const struct berth_config *config,
                                     double updates_per_epoch, struct berth_error *error) {
    double steps = ceil(config->num_train_epochs * updates_per_epoch - 1e-9);
    if (config->max_steps <= 0 && !(steps >= 0 && steps <= 1e12)) {
        return error_set(error, BERTH_CONFIG,
                         "num_train_epochs %g does not give a valid number of updates",
                         config->num_train_epochs);
    }
    batching->total_steps = config->max_steps > 0 ? config->max_steps : (int64_t)steps;
    return BERTH_OK;
}

enum berth_status batching_resolve(struct batching *batching, const struct berth_config *config,
                                   int64_t features, int64_t ranks, struct berth_error *error) {
    *batching = (struct batching){.seed = (uint64_t)config->seed, .features = features};
    TRY(batching_parts(config, ranks, &batching->parts, error));
    TRY(resolve_sizes(batching, config, ranks, error));
    int64_t updates = (features + batching->update_sequences - 1) / batching->update_sequences;
    if (config->max_steps_per_epoch > 0 && config->max_steps_per_epoch < updates) {
        updates = config->max_steps_per_epoch;
    }
    batching->updates_per_epoch = updates;
    return count_steps(batching, config, (double)updates, error);
}

enum berth_status batching_drop_last(struct batching *batching, const struct berth_config *config,
                                     struct berth_error *error) {
    const int64_t whole = batching->features / batching->update_sequences;
    if (whole == 0) {
        return error_set(error, BERTH_CONFIG,
                         "--dataloader_drop_last leaves no update: an epoch has %" PRId64
                         " sequences, an update %" PRId64,
                         batching->features, batching->update_sequences);
    }
    if (batching->updates_per_epoch > whole) {
        batching->updates_per_epoch = whole;
    }
    return count_steps(batching, config, (double)batching->updates_per_epoch, error);
}

enum berth_status batching_run_on(struct batching *batching, const struct berth_config *config,
                                  int64_t max_predictions, struct berth_error *error) {
    struct batch_extent *micro = &batching->micro;
    batching->runs_on = 1;
    if (micro->tokens < INT64_MAX) {
        int64_t sequences = micro->tokens / FEW_TOKENS, masked = micro->tokens / FEW_MASKED;
        micro->sequences = sequences < micro->sequences ? sequences : micro->sequences;
        micro->masked = masked > max_predictions ? masked : max_predictions;
    }
    return count_steps(batching, config,
                       (double)batching->features / (double)batching->update_sequences, error);
}

double batching_epochs(const struct batching *b, int64_t step) {
    return b->runs_on ? (double)step * (double)b->update_sequences / (double)b->features
                      : (double)step / (double)b->updates_per_epoch;
}

int batching_ends_epoch(const struct batching *b, int64_t step) {
    return b->runs_on ? step > 0 && step * b->update_sequences / b->features >
                                        (step - 1) * b->update_sequences / b->features
                      : step % b->updates_per_epoch == 0;
}

struct update_place batching_place(const struct batching *b, int64_t step) {
    struct update_place place = {.epoch = step / b->updates_per_epoch,
                                 .update = step % b->updates_per_epoch};
    int64_t first = place.update * b->update_sequences;
    int64_t left = b->features - first;
    place.first = (size_t)first;
    place.count = (size_t)(left < b->update_sequences ? left : b->update_sequences);
    return place;
}

size_t batching_cut(const struct batching *batching, const struct packer_source *source,
                    const uint32_t *order, size_t count) {
    return packer_fit(source, order, count, &batching->micro);
}

static void walk_update(const struct batching *b, const struct packer_source *source,
                        const uint32_t *order, size_t count, struct batching_worst *worst) {
    int64_t micro_batches = 0;
    for (size_t done = 0; done < count; micro_batches++) {
        size_t cut = batching_cut(b, source, order + done, count - done);
        const struct batch_extent own = packer_extent(source, order + done, cut);
        worst->micro = batch_extent_larger(&worst->micro, &own);
        done += cut;
    }
    worst->micro_batches =
        micro_batches > worst->micro_batches ? micro_batches : worst->micro_batches;
}

static int32_t longest(const struct packer_source *source) {
    int32_t length = 1;
    for (size_t i = 0; i < source->count; i++) {
        int32_t own = source->get(source->data, i).length;
        length = own > length ? own : length;
    }
    return length;
}

// For more epochs than were walked, and for updates in parts, uses a bound that holds for every
// order.
static void widen(const struct batching *b, const struct packer_source *source,
                  struct batching_worst *worst) {
    int64_t length = longest(source);
    int64_t bound;
    if (__builtin_mul_overflow(b->micro.sequences, length, &bound)) {
        bound = INT64_MAX;
    }
    int64_t tokens = b->micro.tokens > length ? b->micro.tokens : length;
    worst->micro.tokens = bound < tokens ? bound : tokens;
    worst->micro.sequences = b->micro.sequences < b->features ? b->micro.sequences : b->features;
    worst->micro.max_length = length;
}

enum berth_status batching_find_worst(const struct batching *batching,
                                      const struct packer_source *source,
                                      struct batching_worst *worst, struct berth_error *error) {
    *worst = (struct batching_worst){0};
    uint32_t *order = memory_array(source->count, sizeof *order);
    if (order == NULL) {
        return error_no_memory(error, source->count * sizeof *order, "the order of an epoch");
    }
    int64_t walked = batching->total_steps;
    int64_t most = WALKED_EPOCHS * batching->updates_per_epoch;
    walked = walked < most ? walked : most;
    for (int64_t step = 0; step < walked; step++) {
        struct update_place place = batching_place(batching, step);
        if (place.update == 0) {
            packer_shuffle(batching->seed, place.epoch, source->count, order);
        }
        walk_update(batching, source, order + place.first, place.count, worst);
    }
    if (batching->total_steps > walked || batching->parts > 1) {
        widen(batching, source, worst);
    }
    memory_free(order);
    return BERTH_OK;
}
