// SPDX-License-Identifier: Apache-2.0
// Divides the sequences of an update among the parts and cuts each part into micro-batches, before
// the first is computed, because losses are divided by counts of the whole update. With ranks that
// know only their own sequences, these counts are summed over the ranks. update.c computes what is
// cut here.
#include "train/engine/update_split.h"

#include <string.h>

static size_t fit_count(const struct update_split *split, size_t first, size_t end) {
    const struct update_args *args = split->args;
    return batching_fit(args->batching, args->source, split->updater->division.order + first,
                        end - first);
}

struct divisors {
    double sequences, masked;
};

// The weight of a class; 0 for an ignored label, whose loss is 0.
static double class_weight(const struct update_split *split, int32_t label) {
    const double *weights = split->updater->rules.class_weights;
    return label >= 0 && label < split->engine->model.config->num_labels ? weights[label] : 0;
}

static struct divisors divisors_of(const struct update_split *split, const uint32_t *order,
                                   size_t count) {
    const struct packer_source *source = split->args->source;
    struct divisors sums = {.sequences = (double)count};
    const enum param_head head = split->engine->model.table->head;
    const int per_token = head == PARAM_HEAD_TOKEN;
    if (split->updater->rules.class_weights == NULL) {
        sums.masked = per_token || param_head_decodes(head)
                          ? (double)packer_extent(source, order, count).masked
                          : 0;
        return sums;
    }
    sums.sequences = per_token ? (double)count : 0;
    for (size_t i = 0; i < count; i++) {
        const struct packer_sequence sequence = source->get(source->data, order[i]);
        sums.sequences += per_token ? 0 : class_weight(split, sequence.label);
        for (int32_t k = 0; k < sequence.masked_count; k++) {
            sums.masked += class_weight(split, sequence.masked_labels[k]);
        }
    }
    return sums;
}

// The micro-batches of a part; for loss_average "micro", *with_masked also counts those with a
// masked token.
static size_t count_micro_batches(const struct update_split *split, size_t part,
                                  double *with_masked) {
    const struct division *division = &split->updater->division;
    size_t micro_batches = 0;
    for (size_t done = division->starts[part]; done < division->starts[part + 1]; micro_batches++) {
        const size_t count = fit_count(split, done, division->starts[part + 1]);
        *with_masked += split->updater->rules.micro_average &&
                        divisors_of(split, division->order + done, count).masked > 0;
        done += count;
    }
    return micro_batches;
}

// Counts the sequences that this rank knows: the whole update or its own part.
static void count_parts(const struct update_split *split) {
    const struct update_args *args = split->args;
    const struct division *division = &split->updater->division;
    double *counts = split->updater->counts, with_masked = 0;
    for (size_t part = 0; part < division->parts; part++) {
        counts[part] = division->loads[part];
        counts[division->parts + part] = (double)count_micro_batches(split, part, &with_masked);
    }
    counts[2 * division->parts] = split->updater->rules.micro_average
                                      ? with_masked
                                      : divisors_of(split, args->order, args->count).masked;
}

// If each rank knows only its own part, sums the counts over the ranks before the first
// micro-batch, so that losses are divided by the counts of the whole update.
static void sum_counts(const struct update_split *split) {
    struct comm *comm = split->engine->comm;
    struct division *division = &split->updater->division;
    if (split->args->others > 0) {
        comm->sum(comm, split->updater->counts, 2 * division->parts + 1);
        memcpy(division->loads, split->updater->counts, division->parts * sizeof(double));
    }
}

static void find_divisors(struct update_split *split) {
    const struct update_args *args = split->args;
    const size_t parts = split->updater->division.parts;
    const double *micro = split->updater->counts + parts;
    double micro_batches = 0;
    for (size_t part = 0; part < parts; part++) {
        const size_t own = (size_t)micro[part];
        micro_batches += micro[part];
        split->max_micro_batches = own > split->max_micro_batches ? own : split->max_micro_batches;
    }
    if (split->updater->rules.micro_average) {
        split->micro_batches = micro_batches;
        split->masked_micro_batches = micro[parts];
        return;
    }
    split->micro_batches = split->masked_micro_batches = 1;
    split->sequences =
        divisors_of(split, args->order, args->count).sequences + (double)args->others;
    split->masked = micro[parts];
}

struct update_split update_split_make(struct updater *updater, const struct update_args *args) {
    const struct update_rules *rules = &updater->rules;
    struct division *division = &updater->division;
    struct update_split split = {.updater = updater,
                                 .engine = updater->engine,
                                 .args = args,
                                 .dropout = {.seed = rules->seed,
                                             .step = (uint32_t)args->step,
                                             .hidden_probability = rules->hidden_dropout,
                                             .attention_probability = rules->attention_dropout,
                                             .head_probability = rules->head_dropout}};
    if (args->others > 0) {
        division_assign_all(division, args->source, args->order, args->count,
                            updater->engine->model.config, (size_t)updater->engine->comm->rank);
    } else {
        division_make(division, args->source, args->order, args->count,
                      updater->engine->model.config,
                      batching_max_part_sequences(args->batching, args->count, division->parts));
    }
    count_parts(&split);
    sum_counts(&split);
    find_divisors(&split);
    return split;
}

struct micro_batch update_split_next(const struct update_split *split, size_t first, size_t end) {
    const int own = split->sequences <= 0;
    struct micro_batch micro = {.first = first, .count = fit_count(split, first, end)};
    struct divisors sums = {split->sequences, split->masked};
    if (own) {
        sums = divisors_of(split, split->updater->division.order + first, micro.count);
    }
    micro.sequence_weight = 1 / (sums.sequences * split->micro_batches);
    micro.masked_weight = sums.masked > 0 ? 1 / (sums.masked * split->masked_micro_batches) : 0;
    return micro;
}

// --- pieces -------------------------------------------------------------------------------------

// The texts of a source as items of their own.
static struct packer_source texts_of(const struct packer_source *source) {
    return (struct packer_source){.get = source->get,
                                  .data = source->data,
                                  .count = source->count * packer_texts(source),
                                  .objective = source->objective};
}

size_t update_split_cut(const struct update_split *split, const struct micro_batch *micro) {
    const struct packer_source *source = split->args->source;
    const struct division *division = &split->updater->division;
    struct pieces *pieces = &split->updater->pieces;
    const size_t texts = micro->count * packer_texts(source);
    const struct batch_extent limits = {
        .tokens = source->piece_tokens, .sequences = (int64_t)texts, .masked = INT64_MAX};
    pieces->starts[0] = 0;
    pieces->starts[1] = texts;
    if (source->piece_tokens == 0) {
        return 1;
    }
    packer_list_texts(source, division->order + micro->first, division->indices + micro->first,
                      micro->count, pieces->texts, pieces->indices);
    const struct packer_source each = texts_of(source);
    size_t count = 0;
    for (size_t done = 0; done < texts; pieces->starts[++count] = done) {
        done += packer_fit(&each, pieces->texts + done, texts - done, &limits);
    }
    return count;
}

const struct batch *update_split_load(const struct update_split *split,
                                      const struct micro_batch *micro, size_t index) {
    const struct division *division = &split->updater->division;
    const struct pieces *pieces = &split->updater->pieces;
    const struct packer_source texts = texts_of(split->args->source);
    const int is_whole = split->args->source->piece_tokens == 0;
    const size_t first = pieces->starts[index];
    const struct engine_load load = {
        .source = is_whole ? split->args->source : &texts,
        .order = is_whole ? division->order + micro->first : pieces->texts + first,
        .indices = is_whole ? division->indices + micro->first : pieces->indices + first,
        .count = is_whole ? micro->count : pieces->starts[index + 1] - first,
        .masked_weight = (float)(micro->masked_weight / micro->sequence_weight)};
    return engine_load(split->engine, &load);
}
