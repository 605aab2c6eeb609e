// SPDX-License-Identifier: Apache-2.0
#include "train/engine/update_cut.h"

#include <string.h>

static size_t sequences_at(const struct update_cut *cut, size_t first, size_t end) {
    const struct update_args *args = cut->args;
    return batching_cut(args->batching, args->source, cut->updater->division.order + first,
                        end - first);
}

static size_t count_micro(const struct update_cut *cut, size_t part) {
    const struct division *division = &cut->updater->division;
    size_t micro_batches = 0;
    for (size_t done = division->starts[part]; done < division->starts[part + 1]; micro_batches++) {
        done += sequences_at(cut, done, division->starts[part + 1]);
    }
    return micro_batches;
}

struct divisors {
    double sequences, masked;
};

// The weight of a class; that of one that is ignored is 0, because its loss is.
static double class_weight(const struct update_cut *cut, int32_t label) {
    const double *weights = cut->updater->rules.class_weights;
    return label >= 0 && label < cut->engine->model.config->num_labels ? weights[label] : 0;
}

static struct divisors divisors_of(const struct update_cut *cut, const uint32_t *order,
                                   size_t count) {
    const struct packer_source *source = cut->args->source;
    struct divisors sums = {.sequences = (double)count};
    const enum param_head head = cut->engine->model.table->head;
    const int per_token = head == PARAM_HEAD_TOKEN;
    if (cut->updater->rules.class_weights == NULL) {
        sums.masked = per_token || param_head_decodes(head)
                          ? (double)packer_extent(source, order, count).masked
                          : 0;
        return sums;
    }
    sums.sequences = per_token ? (double)count : 0;
    for (size_t i = 0; i < count; i++) {
        const struct packer_sequence sequence = source->get(source->data, order[i]);
        sums.sequences += per_token ? 0 : class_weight(cut, sequence.label);
        for (int32_t k = 0; k < sequence.masked_count; k++) {
            sums.masked += class_weight(cut, sequence.masked_labels[k]);
        }
    }
    return sums;
}

// Counts what this rank knows: all of the update, or its own part.
static void count_parts(const struct update_cut *cut) {
    const struct update_args *args = cut->args;
    const struct division *division = &cut->updater->division;
    double *counts = cut->updater->counts;
    for (size_t part = 0; part < division->parts; part++) {
        counts[part] = division->loads[part];
        counts[division->parts + part] = (double)count_micro(cut, part);
    }
    counts[2 * division->parts] = divisors_of(cut, args->order, args->count).masked;
}

// Where each rank knows its own part, all get the sums before the first micro-batch, so that its
// loss is divided by the counts of the whole update.
static void share_counts(const struct update_cut *cut) {
    struct comm *comm = cut->engine->comm;
    struct division *division = &cut->updater->division;
    if (cut->args->others > 0) {
        comm->sum(comm, cut->updater->counts, 2 * division->parts + 1);
        memcpy(division->loads, cut->updater->counts, division->parts * sizeof(double));
    }
}

static void find_divisors(struct update_cut *cut) {
    const struct update_args *args = cut->args;
    const size_t parts = cut->updater->division.parts;
    const double *micro = cut->updater->counts + parts;
    double micro_batches = 0;
    for (size_t part = 0; part < parts; part++) {
        const size_t own = (size_t)micro[part];
        micro_batches += micro[part];
        cut->most_micro = own > cut->most_micro ? own : cut->most_micro;
    }
    if (cut->updater->rules.micro_average) {
        cut->micro_batches = micro_batches;
        return;
    }
    cut->micro_batches = 1;
    cut->sequences = divisors_of(cut, args->order, args->count).sequences + (double)args->others;
    cut->masked = micro[parts];
}

struct update_cut update_cut_make(struct updater *updater, const struct update_args *args) {
    const struct update_rules *rules = &updater->rules;
    struct division *division = &updater->division;
    struct update_cut cut = {.updater = updater,
                             .engine = updater->engine,
                             .args = args,
                             .dropout = {.seed = rules->seed,
                                         .step = (uint32_t)args->step,
                                         .hidden_probability = rules->hidden_dropout,
                                         .attention_probability = rules->attention_dropout,
                                         .head_probability = rules->head_dropout}};
    if (args->others > 0) {
        division_take(division, args->source, args->order, args->count,
                      updater->engine->model.config, (size_t)updater->engine->comm->rank);
    } else {
        division_make(division, args->source, args->order, args->count,
                      updater->engine->model.config,
                      batching_most_sequences(args->batching, args->count, division->parts));
    }
    count_parts(&cut);
    share_counts(&cut);
    find_divisors(&cut);
    return cut;
}

struct micro update_cut_at(const struct update_cut *cut, size_t first, size_t end) {
    const int own = cut->sequences <= 0;
    struct micro micro = {.first = first, .count = sequences_at(cut, first, end)};
    struct divisors sums = {cut->sequences, cut->masked};
    if (own) {
        sums = divisors_of(cut, cut->updater->division.order + first, micro.count);
    }
    micro.sequence_weight = 1 / (sums.sequences * cut->micro_batches);
    micro.masked_weight = sums.masked > 0 ? 1 / (sums.masked * cut->micro_batches) : 0;
    return micro;
}

const struct batch *update_cut_load(const struct update_cut *cut, const struct micro *micro) {
    struct engine *engine = cut->engine;
    const struct division *division = &cut->updater->division;
    const struct engine_load load = {.source = cut->args->source,
                                     .order = division->order + micro->first,
                                     .places = division->places + micro->first,
                                     .count = micro->count,
                                     .masked_weight =
                                         (float)(micro->masked_weight / micro->sequence_weight)};
    return engine_load(engine, &load);
}
