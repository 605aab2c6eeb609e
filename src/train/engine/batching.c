// SPDX-License-Identifier: Apache-2.0
// The arithmetic of updates, which needs no data but their number and, for the largest micro-batch,
// their lengths: batch sizes from any two of the three settings, updates of an epoch and of the
// run, and which sequences of the order an update has. The job resolves it once; feed, update and
// progress ask it for every update.
#include "train/engine/batching.h"

#include "core/memory.h"
#include "data/batches/epoch_order.h"
#include "train/engine/division.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

// Number of epochs that are walked through to find the worst case; a longer run gets an upper
// bound.
#define WALKED_EPOCHS 32

// For a micro-batch limited by tokens: sequences are longer than FEW_TOKENS on average, and at most
// one in FEW_MASKED tokens is masked. Otherwise a micro-batch holds fewer sequences.
#define FEW_TOKENS 16
#define FEW_MASKED 4

// Names the sizes that the user gave; two of the three determine the third.
static enum berth_status refuse_sizes(const struct engine_settings *settings, int64_t ranks,
                                      struct berth_error *error) {
    const int64_t update = settings->train_batch_size,
                  micro = settings->per_device_train_batch_size;
    const int64_t accumulation = settings->gradient_accumulation_steps;
    if (micro > 0 && accumulation > 0) {
        return error_set(error, BERTH_CONFIG,
                         "train_batch_size %" PRId64 " is not per_device_train_batch_size %" PRId64
                         " x gradient_accumulation_steps %" PRId64 " x processes %" PRId64
                         "; change or omit one of them",
                         update, micro, accumulation, ranks);
    }
    return error_set(error, BERTH_CONFIG,
                     "train_batch_size %" PRId64 " is not a multiple of %s %" PRId64
                     " x processes %" PRId64 "; change or omit one of them",
                     update,
                     micro > 0 ? "per_device_train_batch_size" : "gradient_accumulation_steps",
                     micro > 0 ? micro : accumulation, ranks);
}

enum berth_status batching_parts(const struct engine_settings *settings, int64_t ranks,
                                 int64_t *parts, struct berth_error *error) {
    *parts = settings->virtual_ranks > 0 ? settings->virtual_ranks : ranks;
    return *parts % ranks == 0
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG,
                           "virtual_ranks %" PRId64
                           ": expected a multiple of the number of processes, %" PRId64,
                           *parts, ranks);
}

// A micro-batch belongs to one part. With virtual_ranks its size must not depend on the number of
// processes.
static void divide_among_parts(struct batching *b, int64_t ranks, int is_derived) {
    const int64_t own_parts = b->parts / ranks;
    if (is_derived) {
        b->micro.sequences = divide_up(b->micro.sequences, own_parts);
    }
    b->accumulation =
        own_parts * divide_up(divide_up(b->update_sequences, b->parts), b->micro.sequences);
}

static enum berth_status resolve_sizes(struct batching *b, const struct batching_request *request,
                                       int64_t ranks, struct berth_error *error) {
    const struct engine_settings *settings = request->settings;
    int64_t micro = settings->per_device_train_batch_size;
    int64_t accumulation = settings->gradient_accumulation_steps;
    b->update_sequences = settings->train_batch_size;
    if (micro > 0 && !request->has_total) {
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
        return refuse_sizes(settings, ranks, error);
    }
    divide_among_parts(b, ranks, micro == 0);
    return BERTH_OK;
}

// This rounds as the Trainer does: 0.07 epochs of 100 updates are 8, because the product is just
// above 7.
static double updates_of_epochs(const struct engine_settings *settings, int64_t updates_per_epoch) {
    return ceil(settings->num_train_epochs * (double)updates_per_epoch);
}

static enum berth_status count_steps(struct batching *batching,
                                     const struct engine_settings *settings, double steps,
                                     struct berth_error *error) {
    if (settings->max_steps <= 0 && !(steps >= 0 && steps <= 1e12)) {
        return error_set(error, BERTH_CONFIG,
                         "num_train_epochs %g does not give a valid number of updates",
                         settings->num_train_epochs);
    }
    batching->total_steps = settings->max_steps > 0 ? settings->max_steps : (int64_t)steps;
    return BERTH_OK;
}

static enum berth_status limit_updates(struct batching *batching,
                                       const struct engine_settings *settings, int64_t updates,
                                       struct berth_error *error) {
    const int64_t limit = settings->max_steps_per_epoch;
    batching->all_updates = updates;
    batching->updates_per_epoch = limit > 0 && limit < updates ? limit : updates;
    return count_steps(batching, settings, updates_of_epochs(settings, batching->updates_per_epoch),
                       error);
}

enum berth_status batching_resolve(struct batching *batching,
                                   const struct batching_request *request, int64_t features,
                                   int64_t ranks, struct berth_error *error) {
    const struct engine_settings *settings = request->settings;
    *batching = (struct batching){.seed = request->seed, .features = features};
    TRY(batching_parts(settings, ranks, &batching->parts, error));
    TRY(resolve_sizes(batching, request, ranks, error));
    return limit_updates(batching, settings, divide_up(features, batching->update_sequences),
                         error);
}

enum berth_status batching_mix(struct batching *batching, const struct engine_settings *settings,
                               int64_t updates, struct berth_error *error) {
    batching->is_mixed = 1;
    return limit_updates(batching, settings, updates, error);
}

enum berth_status batching_round_to_groups(struct batching *b,
                                           const struct engine_settings *settings, int64_t group,
                                           int64_t ranks, struct berth_error *error) {
    const int counts_micro = b->micro.tokens == INT64_MAX;
    // With virtual ranks the size is a quotient, not a request.
    const int was_asked_for =
        settings->per_device_train_batch_size > 0 || settings->virtual_ranks == 0;
    const int64_t micro = counts_micro ? divide_up(b->micro.sequences, group) * group : 0;
    if (b->update_sequences % group != 0) {
        return error_set(error, BERTH_CONFIG,
                         "train_batch_size %" PRId64
                         " is not a multiple of negatives_batch %" PRId64 "; change one of them",
                         b->update_sequences, group);
    }
    if (counts_micro && was_asked_for && micro != b->micro.sequences) {
        return error_set(error, BERTH_CONFIG,
                         "micro-batches of %" PRId64
                         " examples are not a whole number of groups of negatives_batch %" PRId64
                         ", which are never split; change per_device_train_batch_size, "
                         "gradient_accumulation_steps or negatives_batch",
                         b->micro.sequences, group);
    }
    if (counts_micro) {
        b->micro.sequences = micro;
        divide_among_parts(b, ranks, 0);
    }
    return BERTH_OK;
}

enum berth_status batching_drop_last(struct batching *batching,
                                     const struct engine_settings *settings,
                                     struct berth_error *error) {
    const int64_t whole = batching->features / batching->update_sequences;
    if (whole == 0) {
        return error_set(error, BERTH_CONFIG,
                         "dataloader_drop_last leaves no update: an epoch has %" PRId64
                         " sequences, an update %" PRId64,
                         batching->features, batching->update_sequences);
    }
    return limit_updates(batching, settings, whole, error);
}

enum berth_status batching_cross_epochs(struct batching *batching,
                                        const struct engine_settings *settings,
                                        int64_t max_predictions, struct berth_error *error) {
    struct batch_extent *micro = &batching->micro;
    batching->crosses_epochs = 1;
    if (micro->tokens < INT64_MAX) {
        int64_t sequences = micro->tokens / FEW_TOKENS, masked = micro->tokens / FEW_MASKED;
        micro->sequences = sequences < micro->sequences ? sequences : micro->sequences;
        micro->masked = masked > max_predictions ? masked : max_predictions;
    }
    // The quotient is inexact, so the product may be just above a whole number.
    const double updates = (double)batching->features / (double)batching->update_sequences;
    return count_steps(batching, settings, ceil(settings->num_train_epochs * updates - 1e-9),
                       error);
}

// The number of updates by the rule of Google's programs: int(examples / train_batch_size *
// num_train_epochs). These have no max_steps_per_epoch, which ends each epoch earlier.
static int64_t whole_updates(const struct batching *b, const struct engine_settings *settings,
                             int64_t examples) {
    const int64_t limit = settings->max_steps_per_epoch > 0
                              ? (int64_t)updates_of_epochs(settings, b->updates_per_epoch)
                              : INT64_MAX;
    const double all = (double)examples / (double)b->update_sequences * settings->num_train_epochs;
    const int64_t steps = (int64_t)all < limit ? (int64_t)all : limit;
    return steps > 0 || settings->num_train_epochs <= 0 ? steps : 1;
}

enum berth_status batching_apply_steps_rule(struct batching *b,
                                            const struct engine_settings *settings,
                                            int64_t examples, struct berth_error *error) {
    const char *rule = settings->steps_rule;
    if (strcmp(rule, "examples") == 0 && settings->max_steps <= 0) {
        b->total_steps = whole_updates(b, settings, examples);
    }
    // The schedule is as long as all epochs would be without max_steps and max_steps_per_epoch.
    b->schedule_steps = strcmp(rule, "epochs") == 0
                            ? (int64_t)updates_of_epochs(settings, b->all_updates)
                            : b->total_steps;
    return BERTH_OK;
}

// The number of micro-batches of all processes that `sequences` of an update make, for any number
// of processes with virtual_ranks.
static int64_t micro_batches(const struct batching *b, int64_t sequences) {
    const int64_t all = b->update_sequences;
    const int is_whole =
        b->micro.tokens < INT64_MAX || b->micro.sequences >= divide_up(all, b->parts);
    return divide_up(sequences, is_whole ? all : b->parts * b->micro.sequences);
}

double batching_epochs(const struct batching *b, int64_t step) {
    if (b->crosses_epochs) {
        return (double)step * (double)b->update_sequences / (double)b->features;
    }
    const int64_t before_last = b->updates_per_epoch - 1;
    const int64_t left = b->features - before_last * b->update_sequences;
    const int64_t each = micro_batches(b, b->update_sequences);
    const int is_smaller = !b->is_mixed && left < b->update_sequences;
    const int64_t last = is_smaller ? micro_batches(b, left) : each;
    return (double)(step / b->updates_per_epoch) +
           (double)(step % b->updates_per_epoch * each) / (double)(before_last * each + last);
}

int batching_ends_epoch(const struct batching *b, int64_t step) {
    return b->crosses_epochs ? step > 0 && step * b->update_sequences / b->features >
                                               (step - 1) * b->update_sequences / b->features
                             : step % b->updates_per_epoch == 0;
}

struct update_slice batching_slice(const struct batching *b, int64_t step) {
    struct update_slice slice = {.epoch = step / b->updates_per_epoch,
                                 .update = step % b->updates_per_epoch};
    int64_t first = slice.update * b->update_sequences;
    int64_t left = b->features - first;
    slice.first = (size_t)first;
    slice.count = (size_t)(left < b->update_sequences ? left : b->update_sequences);
    return slice;
}

size_t batching_fit(const struct batching *batching, const struct packer_source *source,
                    const uint32_t *order, size_t count) {
    return packer_fit(source, order, count, &batching->micro);
}

size_t batching_max_part_sequences(const struct batching *batching, size_t count, size_t parts) {
    return batching->micro.tokens == INT64_MAX ? (count + parts - 1) / parts : count;
}

// A walk through the updates of a run, of which it looks at one rank's parts.
struct walk {
    const struct batching *batching;
    const struct packer_source *source;
    const struct batching_rank *rank;
    struct division division;
    uint32_t *order; // of an epoch
    struct batching_worst *worst;
};

// The largest piece of a micro-batch, whose vectors are kept all the same.
static struct batch_extent piece_of(const struct packer_source *source, struct batch_extent micro) {
    const int64_t piece =
        source->piece_tokens > micro.max_length ? source->piece_tokens : micro.max_length;
    micro.tokens = source->piece_tokens > 0 && piece < micro.tokens ? piece : micro.tokens;
    return micro;
}

// Returns the number of micro-batches.
static int64_t walk_part(const struct walk *walk, const uint32_t *order, size_t count) {
    struct batch_extent *worst = &walk->worst->micro;
    int64_t micro_batches = 0;
    for (size_t done = 0; done < count; micro_batches++) {
        size_t cut = batching_fit(walk->batching, walk->source, order + done, count - done);
        const struct batch_extent own =
            piece_of(walk->source, packer_extent(walk->source, order + done, cut));
        *worst = batch_extent_larger(worst, &own);
        done += cut;
    }
    return micro_batches;
}

static void walk_update(struct walk *walk, const uint32_t *order, size_t count) {
    const struct batching_rank *rank = walk->rank;
    struct division *division = &walk->division;
    const size_t own_parts = division->parts / (size_t)rank->size;
    const size_t first = (size_t)rank->rank * own_parts;
    int64_t micro_batches = 0;
    division_make(division, walk->source, order, count, rank->config,
                  batching_max_part_sequences(walk->batching, count, division->parts));
    for (size_t part = first; part < first + own_parts; part++) {
        const size_t start = division->starts[part];
        micro_batches +=
            walk_part(walk, division->order + start, division->starts[part + 1] - start);
    }
    if (micro_batches > walk->worst->micro_batches) {
        walk->worst->micro_batches = micro_batches;
    }
}

static int32_t longest(const struct packer_source *source) {
    int32_t length = 1;
    for (size_t i = 0; i < source->count * packer_texts(source); i++) {
        int32_t own = source->get(source->data, i).length;
        length = own > length ? own : length;
    }
    return length;
}

// For epochs that were not walked through: a bound that holds for every order.
static void bound_every_order(const struct batching *b, const struct packer_source *source,
                              struct batching_worst *worst) {
    const int64_t length = longest(source), texts = (int64_t)packer_texts(source);
    const int64_t group = length * texts * (int64_t)packer_group(source); // a group is never split
    const int64_t items = b->micro.sequences < b->features ? b->micro.sequences : b->features;
    const int64_t tokens = b->micro.tokens > group ? b->micro.tokens : group;
    const int64_t bound = items * texts * length;
    worst->micro.tokens = bound < tokens ? bound : tokens;
    worst->micro.sequences = items * texts;
    worst->micro.max_length = length;
    worst->micro = piece_of(source, worst->micro);
    if (worst->micro.masked > 0) {
        worst->micro.masked = worst->micro.tokens;
    }
}

static enum berth_status walk_all(struct walk *walk, struct berth_error *error) {
    const struct batching *batching = walk->batching;
    const int64_t limit = WALKED_EPOCHS * batching->updates_per_epoch;
    const int64_t walked = batching->total_steps < limit ? batching->total_steps : limit;
    for (int64_t step = 0; step < walked; step++) {
        const struct update_slice slice = batching_slice(batching, step);
        if (slice.update == 0) {
            TRY(epoch_order_make(walk->source, batching->seed, slice.epoch, walk->order, error));
        }
        walk_update(walk, walk->order + slice.first, slice.count);
    }
    if (batching->total_steps > walked) {
        bound_every_order(batching, walk->source, walk->worst);
    }
    return BERTH_OK;
}

enum berth_status batching_find_worst(const struct batching *batching,
                                      const struct packer_source *source,
                                      const struct batching_rank *rank,
                                      struct batching_worst *worst, struct berth_error *error) {
    struct walk walk = {.batching = batching, .source = source, .rank = rank, .worst = worst};
    const size_t sequences = (size_t)batching->update_sequences;
    *worst = (struct batching_worst){0};
    enum berth_status status =
        division_init(&walk.division, (size_t)batching->parts,
                      sequences < source->count ? sequences : source->count, error);
    walk.order = memory_array(source->count, sizeof *walk.order);
    if (status == BERTH_OK && walk.order == NULL) {
        status =
            error_no_memory(error, source->count * sizeof *walk.order, "the order of an epoch");
    }
    if (status == BERTH_OK) {
        status = walk_all(&walk, error);
    }
    division_done(&walk.division);
    memory_free(walk.order);
    return status;
}
